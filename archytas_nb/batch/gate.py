"""Lets the requests of all workers through: within a budget and a rate, and until a stop.

What a request may cost is reserved before it is made, so that the budget is never exceeded.
"""

from __future__ import annotations

import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice, Usage
from archytas_nb.loop.limits import json_tokens, message_tokens

_MARGIN = 1.5  # an estimate of tokens may be that much too low
_REPLY_TOKENS = 16_384  # of a reply that has no bound of its own
_LEAST_REPLY = 256  # tokens; with less, most replies would be cut off
_TRIES = 6  # of a request that is refused for its rate, beside the model's own retries
_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a map may cost, in tokens or in USD."""

    amount: float
    unit: str

    @classmethod
    def of(cls, value: float | str | None) -> Budget | None:
        """Read ``"3 USD"``, ``"2000000 tokens"`` or a number of USD.

        Raises:
            ValueError: It is none of these.
        """
        if value is None:
            return None
        found = re.fullmatch(r"([0-9][0-9_,]*(?:\.[0-9]+)?)\s*(USD|tokens)?", str(value).strip())
        if isinstance(value, bool) or found is None:
            raise ValueError(f"budget is {value!r}; expected such as '3 USD' or '500000 tokens'")
        return cls(float(found[1].replace(",", "").replace("_", "")), found[2] or "USD")

    def __str__(self) -> str:
        return f"{self.amount:,.10g} {self.unit}"


class Stopped(KeyboardInterrupt):
    """Raised where a request would begin or go on after the map was stopped."""


class Gate:
    """Shared by the workers of one map.

    Args:
        budget: The most that all requests may cost; None for no bound.
        price: USD of a usage; None where it is not known.
        rpm: Maximum number of requests per minute; None for no limit.
        spent: What was spent before, which counts against the budget.

    Attributes:
        stopped: Why no request is let through any more; empty while they are.
        spent: What all requests have cost so far.
    """

    def __init__(
        self,
        budget: Budget | None = None,
        price: Callable[[Usage], float] | None = None,
        rpm: float | None = None,
        spent: Usage = Usage(),  # noqa: B008 - it is frozen
    ) -> None:
        self.stopped = ""
        self.spent = spent
        self._budget, self._price, self._rpm = budget, price, rpm
        self._reserved = 0.0
        self._retrying = 0  # workers that wait because the endpoint asked them to
        self._begun: deque[float] = deque()
        self._changed = threading.Condition()

    def stop(self, why: str) -> None:
        """Let no request through any more; those that wait raise `Stopped`."""
        with self._changed:
            self.stopped = self.stopped or why
            self._changed.notify_all()

    def enter(self, ask: AskModel) -> tuple[AskModel, float]:
        """Wait until a request may begin; return it and what was reserved for it.

        Near the end of the budget the reply is bounded by what is left.

        Raises:
            Stopped: The map was stopped, or what is left of the budget is not enough.
        """
        with self._changed:
            while True:
                self.check()
                wait = self._wait()
                if wait == 0:
                    bounded = self._within(ask)
                    if bounded is not None:
                        break
                    if self._reserved <= 0:
                        self.stop(f"the budget of {self._budget}")
                        continue
                    wait = None  # until another request is settled
                self._changed.wait(wait)
            self._reserved += bounded[1]
            self._begun.append(time.monotonic())
            return bounded

    def leave(self, reserved: float, usage: Usage | None) -> None:
        """Settle a request: what it cost, or None where it is not known, which counts whole."""
        with self._changed:
            self._reserved -= reserved
            if usage is not None:
                self.spent += usage
            elif self._budget is not None:
                by_tokens = self._budget.unit == "tokens"
                self.spent += (
                    Usage(output_tokens=round(reserved)) if by_tokens else Usage(usd=reserved)
                )
            self._changed.notify_all()

    def retrying(self, change: int) -> None:
        """Note that a worker waits for a retry (1), or does so no longer (-1).

        No other request begins meanwhile: the endpoint asked for a pause.
        """
        with self._changed:
            self._retrying += change
            self._changed.notify_all()

    def check(self) -> None:
        """Raise `Stopped` where the map was stopped."""
        if self.stopped:
            raise Stopped(self.stopped)

    def _wait(self) -> float | None:
        """Seconds until it is worth looking again; 0 for go, None for when something changes."""
        if self._retrying:
            return None
        if self._rpm is not None:
            now = time.monotonic()
            while self._begun and now - self._begun[0] >= _MINUTE:
                self._begun.popleft()
            if len(self._begun) >= self._rpm:
                return max(0.001, _MINUTE - (now - self._begun[0]))
        return 0

    def _within(self, ask: AskModel) -> tuple[AskModel, float] | None:
        """The request and the most that it can cost; None where that is more than what is left."""
        if self._budget is None:
            return ask, 0.0
        left = self._budget.amount - self._amount(self.spent) - self._reserved
        sent = round((message_tokens(ask.messages) + json_tokens(list(ask.tools))) * _MARGIN)
        most = ask.max_tokens or _REPLY_TOKENS
        cost = self._cost(sent, most)
        if cost <= left:
            return ask, cost
        # Others may leave more than is left now; a reply is bounded only where none is going on.
        per_token = self._cost(sent, most) - self._cost(sent, most - 1)
        room = int((left - self._cost(sent, 0)) / per_token) if per_token > 0 else 0
        if self._reserved > 0 or room < _LEAST_REPLY:
            return None
        return replace(ask, max_tokens=room), self._cost(sent, room)

    def _cost(self, sent: int, written: int) -> float:
        return self._amount(Usage(1, input_tokens=sent, output_tokens=written))

    def _amount(self, usage: Usage) -> float:
        """A usage in the unit of the budget."""
        if self._budget is not None and self._budget.unit == "tokens":
            return usage.input_tokens + usage.output_tokens
        return usage.usd or (self._price(usage) if self._price else 0.0)


class GatedModel:
    """A model whose requests go through a gate; everything else is the model's own.

    Args:
        model: The model.
        gate: The gate.
    """

    cassette = None
    """A map keeps its results in a file of its own; no cassette stands before its model."""

    def __init__(self, model: Any, gate: Gate) -> None:
        self._model, self._gate = model, gate

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def complete(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        """Ask for a reply as the model does, once the gate is open.

        Raises:
            ModelError: No usable reply came.
            Stopped: The map was stopped; a request that is going on is closed.
        """
        for tried in range(_TRIES):
            try:
                return (yield from self._once(ask))
            except ModelError as error:
                if error.kind != "rate_limit" or tried == _TRIES - 1:
                    raise
            self._gate.retrying(1)
            try:
                self._sleep(2.0**tried)
            finally:
                self._gate.retrying(-1)
        raise AssertionError("not reached")

    def _once(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        ask, reserved = self._gate.enter(ask)
        # A request that fails before a reply costs nothing; one that is broken off may cost all.
        usage: Usage | None = Usage()
        pausing = False
        asking = self._model.complete(ask)
        try:
            while True:
                try:
                    event = next(asking)
                except StopIteration as end:
                    usage = end.value.usage
                    return end.value  # type: ignore[no-any-return]
                finally:
                    if pausing:
                        self._gate.retrying(-1)
                        pausing = False
                if isinstance(event, Delta):
                    usage = None
                self._gate.check()
                if isinstance(event, Notice) and event.kind == "retry":
                    pausing = True
                    self._gate.retrying(1)
                yield event
        finally:
            if pausing:
                self._gate.retrying(-1)
            asking.close()
            self._gate.leave(reserved, usage)

    def _sleep(self, seconds: float) -> None:
        ends = time.monotonic() + seconds
        while (left := ends - time.monotonic()) > 0:
            self._gate.check()
            time.sleep(min(left, 0.1))
