"""Lets the requests of a map begin: within a budget and a rate, after a pause, until a stop."""

from __future__ import annotations

import json
import math
import re
import threading
import time
from collections.abc import Callable, Generator
from dataclasses import replace
from typing import Any

from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice, Usage
from archytas_nb.loop.limits import REPLY_TOKENS, Clock
from archytas_nb.loop.stop import Stop, sleep

_RETRIES, _RATE_RETRIES = 3, 8  # of a request that failed, and of one refused for its rate
_FIRST_WAIT, _LONGEST_WAIT = 0.5, 600.0  # seconds until a retry
_TEMPLATE = 600  # tokens that a model's template may put around messages and tools
_REPLY_SHARE = 4  # a reply may cost this part of the budget at most


class Limiter:
    """Lets the requests of all workers begin: within a budget and a rate, and until a stop.

    What a request may cost at most is reserved before it begins, so that the budget is kept. A
    budget is like ``"3 USD"``, ``"500,000 tokens"``, or a number of USD; ValueError for another.
    """

    def __init__(
        self,
        budget: float | str | None = None,
        rpm: float | None = None,
        spent: Usage = Usage(),  # noqa: B008 - it is frozen
    ) -> None:
        found = re.fullmatch(r"([0-9][0-9_,]*(?:\.[0-9]+)?)\s*(USD|tokens)?", str(budget).strip())
        if budget is not None and (found is None or isinstance(budget, bool)):
            expected = "expected an amount such as '3 USD' or '500000 tokens'"
            raise ValueError(f"budget is {budget!r}; {expected}")
        self.budget = float(re.sub("[_,]", "", found[1])) if found else math.inf
        self.in_usd = found[2] != "tokens" if found else spent.usd > 0
        self.is_free = not found and not rpm  # then no request waits for another one
        self.spent, self.replies = spent, 0
        self.reason = ""  # why no request begins any more
        self.now = Stop()  # ends what the workers wait for, too
        self._between = 60 / rpm if rpm else 0.0  # seconds between two requests
        self._opens = 0.0  # when the next one may begin
        self._reserved: list[Usage] = []  # by the requests that are running
        self._changed = threading.Condition()

    def used(self, *usages: Usage) -> float:
        """Usages in the unit of the budget."""
        if self.in_usd:
            return math.fsum(each.usd for each in usages)
        return sum(each.input_tokens + each.output_tokens for each in usages)

    def shown(self, amount: float) -> str:
        """An amount with the unit of the budget."""
        return f"{amount:,.4g} USD" if self.in_usd else f"{amount:,.0f} tokens"

    def stop(self, reason: str, *, now: bool = False) -> None:
        """Let no request begin any more; with `now` those that are running end, too."""
        with self._changed:
            self.reason = self.reason or reason
            self._changed.notify_all()
        if now:
            self.now.set()

    def stop_at_budget(self) -> None:
        """Let no request begin any more: what is left of the budget, if any, is not enough."""
        if self.budget < math.inf:
            self.stop(f"the budget of {self.shown(self.budget)}")

    def enter(self, most: Usage) -> None:
        """Wait until a request that may cost `most` can begin.

        Raises:
            KeyboardInterrupt: The map was stopped, or what is left of the budget is not enough.
        """
        if self.is_free and not self.reason and self._opens <= time.monotonic():
            return
        with self._changed:
            while not self.reason:
                if (wait := self._opens - time.monotonic()) > 0:
                    self._changed.wait(wait)
                elif self.used(self.spent, most, *self._reserved) <= self.budget:
                    self._opens = time.monotonic() + self._between
                    if not self.is_free:
                        self._reserved.append(most)
                    return
                elif self._reserved:  # these may cost less in the end
                    self._changed.wait()
                else:
                    self.stop_at_budget()
        raise KeyboardInterrupt

    def leave(self, most: Usage, paid: Usage) -> None:
        """Settle a request; where none waits for another one, the map counts whole rows."""
        if not self.is_free:
            with self._changed:
                self._reserved.remove(most)
                self.spent += paid
                self._changed.notify_all()

    def hold(self, seconds: float) -> None:
        """Let no request begin for some time, as the endpoint asked."""
        with self._changed:
            self._opens = max(self._opens, time.monotonic() + seconds)


class RowModel:
    """The model of one row: its requests wait for the limiter, everything else is the model's own.

    Retries are made here, so that each request is limited. `note` is called before a request with
    what the row may have cost after it.

    Attributes:
        spent: What the row's requests have cost; of one that was cut off, the most that it can be.
        clock: The clock of the row; the seconds that it waits do not count.
    """

    cassette = None
    """A map keeps its results in a file of its own; no cassette stands before its model."""

    def __init__(
        self, model: Any, limiter: Limiter, note: Callable[[Usage], None] = lambda _: None
    ) -> None:
        self.spent, self.clock = Usage(), Clock()
        self._model, self._limiter, self._note = model, limiter, note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def complete(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        """Ask for a reply as the model does, as soon as the limiter lets it."""
        limiter, tried, seen = self._limiter, 0, self._limiter.replies
        ask, most = self._limited(ask)
        while True:
            started = time.monotonic()
            try:
                limiter.enter(most)
            finally:
                self.clock.waited += time.monotonic() - started
            paid, failed = most, None
            try:
                self._note(self.spent + most)
                reply: ModelReply = yield from self._model.complete(ask)
                if reply.usage.input_tokens or reply.usage.output_tokens:
                    paid = self._priced(reply.usage)
                limiter.replies += 1
                return reply
            except ModelError as error:
                paid, failed = most if error.may_be_paid else Usage(), error
            finally:
                self.spent += paid
                limiter.leave(most, paid)
            is_rate = failed.kind == "rate_limit"
            if is_rate and limiter.replies != seen:  # the others get on: so will this row
                tried, seen = 0, limiter.replies
            wait = _FIRST_WAIT * 2**tried if failed.wait is None else failed.wait
            tried += 1
            retries = _RATE_RETRIES if is_rate else _RETRIES
            if not failed.passing or tried > retries or wait > _LONGEST_WAIT:
                raise failed
            if is_rate or failed.wait is not None:
                limiter.hold(wait)
            else:
                sleep(wait)

    def _limited(self, ask: AskModel) -> tuple[AskModel, Usage]:
        """A request with a limit of its reply, and the most that it can cost."""
        if self._limiter.budget == math.inf:
            return ask, Usage()
        tokens = max(ask.max_tokens or REPLY_TOKENS, ask.thinking_tokens or 0)
        if cost := self._limiter.used(self._priced(Usage(0, 0, 0, tokens))):
            tokens = int(tokens * min(1.0, self._limiter.budget / _REPLY_SHARE / cost))
        sent = [list(ask.messages), list(ask.tools), ask.schema, dict(ask.asides)]
        # No tokenizer makes more of a text than its bytes.
        sent_tokens = len(json.dumps(sent, default=str)) + _TEMPLATE
        most = self._priced(Usage(1, sent_tokens, 0, tokens))
        return replace(ask, max_tokens=tokens, thinking_tokens=None), most

    def _priced(self, usage: Usage) -> Usage:
        """A usage with its USD, where the price is known and the endpoint did not say them."""
        price = None if usage.usd else getattr(self._model, "price", None)
        return usage if price is None else replace(usage, usd=price.cost(usage))
