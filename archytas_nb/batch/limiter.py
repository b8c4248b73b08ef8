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

from archytas_nb.errors import ENDPOINT_FAILURES, REFUSED_FOR_ALL, ModelError
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice, Usage
from archytas_nb.loop.limits import REPLY_TOKENS, Clock
from archytas_nb.loop.model import ModelFacts
from archytas_nb.loop.stop import Stop, sleep
from archytas_nb.words import collapse_whitespace

_RETRIES = 3  # of a request that failed
_RATE_RETRIES = 8  # of one that was refused for its rate
_OVERLOADED = frozenset({503, 529})  # statuses of an endpoint with too many requests
_FIRST_WAIT = 0.5  # seconds until a retry
_LONGEST_WAIT = 600.0
_TEMPLATE = 600  # tokens that a model's template may put around messages and tools
_REPLY_SHARE = 4  # a reply may cost this part of the budget at most
_AMOUNT = re.compile(r"([0-9][0-9_,]*(?:\.[0-9]+)?)\s*(USD|tokens)?")


class Limiter:
    """Lets the requests of all workers begin: within a budget and a rate, and until a stop.

    What a request may cost at most is reserved before it begins, so that the budget is kept. Where
    a request has cost more than that, or more than the price list says, as much more is reserved
    for all others, also those that are running.

    Args:
        budget: An amount like ``"3 USD"``, ``"500,000 tokens"``, or a number of USD; None for no
            limit.
        rpm: Requests per minute; None for no limit.
        spent: The amount that counts already.

    Attributes:
        budget: The amount, in USD or tokens.
        in_usd: Whether it is in USD.
        is_free: Whether no request waits for another one.
        spent: The cost of the requests, or the most that they may have cost where it is unknown.
        spent_elsewhere: The spending of other kernels since the map began; asked before a request.
        reason: Why no further request begins; empty while they do.
        failure: Why the last request failed; empty after a reply.
        replies: How many there were.
        now: Ends what the workers wait for, too.

    Raises:
        ValueError: The budget is something else.
    """

    def __init__(
        self,
        budget: float | str | None = None,
        rpm: float | None = None,
        spent: Usage = Usage(),  # noqa: B008 - it is frozen
    ) -> None:
        self.budget, self.in_usd = _amount(budget)
        self.is_free = budget is None and rpm is None
        self.spent = spent
        self.spent_elsewhere: Callable[[], Usage] = Usage
        self.reason = ""
        self.failure = ""
        self.replies = 0
        self.now = Stop()
        self._between = 0.0  # seconds between two requests
        if rpm:
            self._between = 60 / rpm
        self._opens = 0.0  # when the next one may begin
        self._reserved: list[Usage] = []  # by the requests that are running
        self._scale = 1.0  # how many times as much as was expected a request has cost
        self._highest = 0.0  # cost of a request so far
        self._changed = threading.Condition()

    def used(self, *usages: Usage) -> float:
        """Usages in the unit of the budget."""
        if self.in_usd:
            return math.fsum(each.usd for each in usages)
        return sum(each.tokens for each in usages)

    def shown(self, amount: float) -> str:
        """An amount with the unit of the budget."""
        if self.in_usd:
            return f"{amount:,.4g} USD"
        return f"{amount:,.0f} tokens"

    def stop(self, reason: str, *, now: bool = False) -> None:
        """Let no further request begin; with `now` those that are running end, too."""
        with self._changed:
            self.reason = self.reason or reason
            self._changed.notify_all()
        if now:
            self.now.set()

    def stop_at_budget(self) -> None:
        """Let no further request begin: the rest of the budget, if any, is not enough."""
        if self.budget < math.inf:
            self.stop(f"the budget of {self.shown(self.budget)}")

    def most(self, expected: Usage) -> Usage:
        """The highest cost of a request, judged by the others."""
        if not self.in_usd:
            read = math.ceil(expected.input_tokens * self._scale)
            written = math.ceil(expected.output_tokens * self._scale)
            return replace(expected, input_tokens=read, output_tokens=written)
        # The price list may say that the model is free.
        return replace(expected, usd=expected.usd * self._scale or self._highest)

    def enter(self, expected: Usage) -> None:
        """Wait until a request that is expected to cost this at most can begin.

        Raises:
            KeyboardInterrupt: The map was stopped, or what is left of the budget is not enough.
        """
        if self.is_free and not self.reason and self._opens <= time.monotonic():
            return
        with self._changed:
            while not self.reason:
                wait = self._opens - time.monotonic()
                if wait > 0:
                    self._changed.wait(wait)
                elif self._fits(expected):
                    self._opens = time.monotonic() + self._between
                    if not self.is_free:
                        self._reserved.append(expected)
                    return
                elif self._reserved:
                    # These may cost less in the end.
                    self._changed.wait()
                else:
                    self.stop_at_budget()
        raise KeyboardInterrupt

    def reserve(self, expected: Usage) -> bool:
        """Reserve what a request may cost that is not waited for; False if it does not fit."""
        with self._changed:
            fits = self._fits(expected)
            if fits and not self.is_free:
                self._reserved.append(expected)
            return fits

    def adopt(self, expected: Usage) -> None:
        """Take over a request that was sent earlier, and counts as spent so far."""
        if not self.is_free:
            with self._changed:
                self.spent -= expected
                self._reserved.append(expected)

    def _fits(self, expected: Usage) -> bool:
        if self.budget == math.inf:
            return True
        running = map(self.most, (*self._reserved, expected))
        return self.used(self.spent, self.spent_elsewhere(), *running) <= self.budget

    def learn(self, expected: Usage, paid: Usage) -> None:
        """Learn what a request has cost that was expected to cost this."""
        if self.budget == math.inf:
            return
        cost = self.used(paid)
        expected_cost = self.used(expected)
        with self._changed:
            self._highest = max(self._highest, cost)
            if expected_cost:
                self._scale = max(self._scale, cost / expected_cost)

    def leave(self, expected: Usage, paid: Usage) -> None:
        """Settle a request; where none waits for another one, the map counts whole rows."""
        if not self.is_free:
            with self._changed:
                self._reserved.remove(expected)
                self.spent += paid
                self._changed.notify_all()

    def hold(self, seconds: float) -> None:
        """Let no request begin for some time, as the endpoint asked."""
        with self._changed:
            self._opens = max(self._opens, time.monotonic() + seconds)


def _amount(budget: float | str | None) -> tuple[float, bool]:
    """The amount of a budget, and whether it is in USD; ValueError for anything else."""
    if budget is None:
        return math.inf, False
    found = _AMOUNT.fullmatch(str(budget).strip())
    if found is None or isinstance(budget, bool):
        raise ValueError(
            f"budget is {budget!r}; expected an amount such as '3 USD' or '500000 tokens'"
        )
    return float(re.sub("[_,]", "", found[1])), found[2] != "tokens"


class RowModel:
    """The model of one row: its requests wait for the limiter, everything else is the model's own.

    Retries are made here, so that each request is limited. `note` is called before a request with
    what the row may have cost after it.

    Attributes:
        usage: The cost of the row's requests that the endpoint reported; in USD by the
            price list where it does not report them.
        spent: The most that they can have cost: also requests that were cut off, and by the price
            list where the endpoint reports less.
        clock: The clock of the row; the seconds that it waits do not count.
    """

    cassette = None
    """A map keeps its results in a file of its own; no cassette wraps its model."""

    def __init__(
        self, model: Any, limiter: Limiter, note: Callable[[Usage], None] = lambda _: None
    ) -> None:
        self.usage = self.spent = Usage()
        self.clock = Clock()
        self._model = model
        self._limiter = limiter
        self._note = note

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def complete(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        """Ask for a reply as the model does, as soon as the limiter lets it."""
        limiter = self._limiter
        ask, expected = self.limited(ask)
        retries = 0
        replies = limiter.replies
        while True:
            try:
                reply: ModelReply = yield from self._once(ask, expected)
            except ModelError as error:
                failed = error
            else:
                return reply

            if failed.kind in ENDPOINT_FAILURES | REFUSED_FOR_ALL:
                limiter.failure = collapse_whitespace(str(failed))
            is_rate = failed.kind == "rate_limit"
            if is_rate and limiter.replies != replies:
                # The others get on: so will this row.
                retries = 0
                replies = limiter.replies

            most = _RATE_RETRIES if is_rate else _RETRIES
            if failed.retries is not None:
                most = min(most, failed.retries)
            is_last = retries >= most
            wait = _FIRST_WAIT * 2**retries
            if failed.wait is not None:
                wait = failed.wait
            if is_last or not failed.passing or wait > _LONGEST_WAIT:
                raise failed
            retries += 1
            if is_rate or failed.wait is not None or failed.status in _OVERLOADED:
                # It applies to all rows.
                limiter.hold(wait)
            else:
                sleep(wait)

    def _once(self, ask: AskModel, expected: Usage) -> Generator[Delta | Notice, None, ModelReply]:
        """Make one request, and count what it has cost."""
        limiter = self._limiter
        started = time.monotonic()
        try:
            limiter.enter(expected)
        finally:
            self.clock.waited += time.monotonic() - started
        paid = limiter.most(expected)  # unless something else is known in the end
        try:
            self._note(self.spent + paid)
            reply: ModelReply = yield from self._model.complete(ask)
            limiter.replies += 1
            limiter.failure = ""
            paid = self.settled(reply.usage, expected)
        except ModelError as error:
            if not error.may_be_paid:
                paid = Usage()
            raise
        finally:
            self.spent += paid
            limiter.leave(expected, paid)
        return reply

    def settled(self, reported: Usage, expected: Usage) -> Usage:
        """The most that a request can have cost that was replied to."""
        limiter = self._limiter
        listed = self._priced(reported)
        if reported.usd:
            self.usage += reported
        else:
            self.usage += listed
        higher = replace(reported, usd=max(reported.usd, listed.usd))
        if not reported.tokens:
            # The endpoint does not report them.
            most = limiter.most(expected)
            return replace(most, usd=max(most.usd, higher.usd))
        limiter.learn(listed, higher)
        limiter.learn(expected, higher)
        return higher

    def limited(self, ask: AskModel) -> tuple[AskModel, Usage]:
        """A request with a limit of its reply, and the most that it is expected to cost."""
        limiter = self._limiter
        if limiter.budget == math.inf:
            return ask, Usage()
        tokens = max(ask.max_tokens or REPLY_TOKENS, ask.thinking_tokens or 0)
        cost = limiter.used(limiter.most(self._priced(Usage(output_tokens=tokens))))
        if cost:
            tokens = int(tokens * min(1.0, limiter.budget / _REPLY_SHARE / cost))
        sent = [list(ask.messages), list(ask.tools), ask.schema, dict(ask.provider_metadata)]
        # No tokenizer makes more of a text than its bytes.
        sent_tokens = len(json.dumps(sent, default=str)) + _TEMPLATE
        expected = self._priced(Usage(1, sent_tokens, 0, tokens))
        return replace(ask, max_tokens=tokens, thinking_tokens=None), expected

    def _priced(self, usage: Usage) -> Usage:
        """A usage with its USD by the price list, where there is one."""
        price = ModelFacts(self._model).price
        if price is None:
            return replace(usage, usd=0.0)
        return replace(usage, usd=price.cost(usage))
