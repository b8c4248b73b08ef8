"""Lets the requests of all workers through: within a budget and a rate, and until a stop.

What a request may cost at most is reserved before it is made, so that the budget is never exceeded.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Generator
from dataclasses import dataclass, replace
from typing import Any

from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice, Usage
from archytas_nb.loop.limits import REPLY_TOKENS

_TEMPLATE = 600  # tokens that a model's template may put around messages and tools
_PER_IMAGE = 5_000  # tokens
_LEAST_REPLY = 256  # tokens; with less, most replies would be cut off
_RETRIES = 3  # of a request that failed
_RATE_RETRIES = 8  # of one that is refused for its rate while no other worker gets a reply
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 600.0  # seconds until a retry
_MINUTE = 60.0


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a map may cost, in tokens or in USD."""

    amount: float
    unit: str

    @classmethod
    def of(cls, value: float | str | None) -> Budget | None:
        """Read ``"3 USD"``, ``"2,000,000 tokens"`` or a number of USD.

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
    """Raised in a worker whose request may not begin or go on; a run ends in it properly."""


class Gate:
    """Shared by the workers of one map.

    Args:
        budget: The most that all requests may cost; None for no limit.
        price: USD of a usage; None where it is not known.
        rpm: Maximum number of requests per minute; None for no limit.
        spent: What was spent before, which counts against the budget.

    Attributes:
        stopped: Why no request is let through any more; empty while they are.
        spent: What all requests have cost so far.
        replies: How many replies came.
    """

    def __init__(
        self,
        budget: Budget | None = None,
        price: Callable[[Usage], float] | None = None,
        rpm: float | None = None,
        spent: Usage = Usage(),  # noqa: B008 - it is frozen
    ) -> None:
        self.stopped, self._at_once = "", False
        self.spent = spent
        self.replies = 0
        self.budget, self._price, self._rpm = budget, price, rpm
        self._reserved, self._going_on = 0.0, 0
        self._opens = 0.0  # when requests may begin again, after the endpoint asked for a pause
        self._begun: deque[float] = deque()
        self._changed = threading.Condition()

    def stop(self, why: str, *, at_once: bool = False) -> None:
        """Let no request through any more; with `at_once` those that are going on end, too."""
        with self._changed:
            self.stopped = self.stopped or why
            self._at_once = self._at_once or at_once
            self._changed.notify_all()

    def check(self, *, going_on: bool = False) -> None:
        """Raise `Stopped` where a request may not begin, or not go on."""
        if self._at_once if going_on else self.stopped:
            raise Stopped(self.stopped)

    def enter(self, ask: AskModel) -> tuple[AskModel, Usage]:
        """Wait until a request may begin; return it and what was reserved for it.

        Near the end of the budget the reply is limited to what is left.

        Raises:
            Stopped: The map was stopped, or what is left of the budget is not enough.
        """
        with self._changed:
            while True:
                self.check()
                wait: float | None = self._wait()
                if not wait:
                    found = self._within(ask)
                    if found is not None:
                        break
                    if not self._going_on:
                        self.stop(f"the budget of {self.budget}")
                        continue
                    wait = None  # until another request is settled
                self._changed.wait(wait)
            self._reserved += self._amount(found[1])
            self._going_on += 1
            self._begun.append(time.monotonic())
            return found

    def leave(self, reserved: Usage, paid: Usage, *, replied: bool) -> None:
        """Settle a request for which something was reserved."""
        with self._changed:
            self._going_on -= 1
            # Sums of fractions do not come back to 0 by themselves.
            self._reserved = self._going_on and self._reserved - self._amount(reserved)
            self.spent += self.priced(paid)
            self.replies += replied
            self._changed.notify_all()

    def pause(self, seconds: float, *, everyone: bool) -> None:
        """Wait before a retry; with `everyone` no request of any worker begins meanwhile.

        Raises:
            Stopped: The map was stopped.
        """
        ends = time.monotonic() + seconds
        with self._changed:
            if everyone:
                self._opens = max(self._opens, ends)
            while (left := ends - time.monotonic()) > 0:
                self.check()
                self._changed.wait(left)

    def _wait(self) -> float:
        """Seconds until the next request may begin."""
        now = time.monotonic()
        wait = max(0.0, self._opens - now)
        if self._rpm is not None:
            while self._begun and now - self._begun[0] >= _MINUTE:
                self._begun.popleft()
            if len(self._begun) >= self._rpm:
                wait = max(wait, 0.001, _MINUTE - (now - self._begun[0]))
        return wait

    def _within(self, ask: AskModel) -> tuple[AskModel, Usage] | None:
        """The request and the most that it can cost; None where that is more than what is left."""
        if self.budget is None:
            return ask, Usage()
        left = self.budget.amount - self._amount(self.spent) - self._reserved
        sent = most_sent(ask)
        most = max(ask.max_tokens or REPLY_TOKENS, ask.thinking_tokens or 0)
        whole = Usage(1, input_tokens=sent, output_tokens=most)
        if self._amount(whole) <= left:
            return replace(ask, max_tokens=most, thinking_tokens=None), whole
        # Others may leave more than is left now; a reply is cut short only where none goes on.
        to_send = self._amount(replace(whole, output_tokens=0))
        per_token = (self._amount(whole) - to_send) / most
        room = int((left - to_send) / per_token) if per_token > 0 else 0
        if self._going_on or room < _LEAST_REPLY:
            return None
        limited = replace(ask, max_tokens=room, thinking_tokens=None)
        return limited, replace(whole, output_tokens=room)

    def priced(self, usage: Usage) -> Usage:
        """A usage with its USD, where the price is known and the endpoint did not say them."""
        return usage if usage.usd or not self._price else replace(usage, usd=self._price(usage))

    def _amount(self, usage: Usage) -> float:
        """A usage in the unit of the budget."""
        if self.budget is not None and self.budget.unit == "tokens":
            return usage.input_tokens + usage.output_tokens
        return self.priced(usage).usd


class GatedModel:
    """The model of one row: its requests go through a gate, everything else is the model's own.

    Args:
        model: The model; retries are made here, so that a stop ends them.
        gate: The gate.
        note: Called before a request with what the row may have cost after it.

    Attributes:
        spent: What the row's requests have cost; of one that was broken off the most it can have.
        waited: Seconds for which they waited, which do not count against the row's time.
    """

    cassette = None
    """A map keeps its results in a file of its own; no cassette stands before its model."""

    def __init__(
        self, model: Any, gate: Gate, note: Callable[[Usage], None] = lambda _: None
    ) -> None:
        self.spent, self.waited = Usage(), 0.0
        self._model, self._gate, self._note = model, gate, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def complete(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        """Ask for a reply as the model does, once the gate is open.

        Raises:
            ModelError: No usable reply came.
            Stopped: The map was stopped; a request that is going on is ended.
        """
        tried, seen = 0, self._gate.replies
        while True:
            try:
                return (yield from self._once(ask))
            except ModelError as error:
                self._gate.check(going_on=True)
                is_rate = error.kind == "rate_limit"
                if is_rate and self._gate.replies != seen:  # the others get on: so will this one
                    tried, seen = 0, self._gate.replies
                if not error.passing or tried >= (_RATE_RETRIES if is_rate else _RETRIES):
                    raise
                wait = _FIRST_WAIT * 2**tried if error.wait is None else error.wait
                if wait > _LONGEST_WAIT:
                    raise
            tried += 1
            started = time.monotonic()
            try:
                self._gate.pause(wait, everyone=is_rate)
            finally:
                self.waited += time.monotonic() - started

    def _once(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        started = time.monotonic()
        try:
            given, reserved = self._gate.enter(ask)
        finally:
            self.waited += time.monotonic() - started
        paid, replied = Usage(), False
        try:
            self._note(self.spent + self._gate.priced(reserved))
            asking, paid = self._model.complete(given), reserved
            try:
                while True:
                    event = next(asking)
                    self._gate.check(going_on=True)
                    yield event
            except StopIteration as end:
                reply: ModelReply = end.value
                paid, replied = _counted(reply, given), True
            except ModelError as error:
                paid = reserved if error.may_be_paid else Usage()
                raise
            finally:
                asking.close()
        finally:
            self.spent += self._gate.priced(paid)
            self._gate.leave(reserved, paid, replied=replied)
        if reply.finish == "length" and (given.max_tokens or 0) < (ask.max_tokens or 0):
            self._gate.stop(f"the budget of {self._gate.budget}")
            self._gate.check()
        return reply


def most_sent(ask: AskModel) -> int:
    """The most tokens that a request can have: no tokenizer makes more of a text than its bytes."""
    sent = [list(ask.messages), list(ask.tools), ask.schema, dict(ask.asides)]
    text = json.dumps(sent, ensure_ascii=False, default=str)
    text, images = re.subn(r'"data:image/[^"]*"', "", text)
    return len(text.encode("utf-8", "surrogatepass")) + images * _PER_IMAGE + _TEMPLATE


def _counted(reply: ModelReply, ask: AskModel) -> Usage:
    """The usage of a reply; where the endpoint does not count, the most that it can be."""
    usage = reply.usage
    if usage.input_tokens or usage.output_tokens:
        return usage
    written = "".join([reply.text, reply.reasoning, *(call.arguments for call in reply.calls)])
    return replace(
        usage, input_tokens=most_sent(ask), output_tokens=len(written.encode("utf-8", "replace"))
    )
