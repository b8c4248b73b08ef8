"""The limits of a run."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

from archytas_nb.errors import argument_error
from archytas_nb.loop.calls_made import CallsOfReplies
from archytas_nb.loop.events import CallOutcome, ModelReply, Usage
from archytas_nb.loop.tokens import text_tokens

MAX_SECONDS = 600.0
"""Enough for twenty replies of a small local model that takes half a minute for each."""

MAX_TOTAL_TOKENS = 1_000_000
"""Twenty requests of fifty thousand tokens each, far more than a question usually needs."""

REPLY_TOKENS = 16_384
"""Enough for a long report. The defaults of endpoints range from 256 tokens to no limit."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The limits of a run; None means no limit.

    Raises:
        ValueError: A limit is not a number above 0.
    """

    max_steps: int = 20  # replies of the model
    max_errors: int = 5  # consecutive replies that were unusable or whose calls all failed
    max_seconds: float | None = MAX_SECONDS  # wall time
    max_total_tokens: int | None = MAX_TOTAL_TOKENS  # input and output
    max_reply_tokens: int | None = None  # in one reply; None for the default of the model

    def __post_init__(self) -> None:
        whole = "a whole number above 0"
        _check("max_steps", self.max_steps, whole, Integral)
        _check("max_errors", self.max_errors, whole, Integral)
        _check("max_total_tokens", self.max_total_tokens, whole, Integral, none="no bound")
        _check("max_reply_tokens", self.max_reply_tokens, whole, Integral, none="the default")
        _check("max_seconds", self.max_seconds, "seconds above 0", Real, none="no bound")

    def reply_tokens(self, default: int) -> int:
        """Maximum number of tokens in one reply of a model that has this default."""
        return self.max_reply_tokens or default

    def thinking_tokens(self, default: int | None) -> int | None:
        """The same after a reply that contained only reasoning; None if it does not differ."""
        return None if self.max_reply_tokens else default


def _check(name: str, value: Any, what: str, kind: type[Any], *, none: str = "") -> None:
    """Check a limit; numpy numbers are accepted, infinity is not (None means no limit)."""
    if value is None and none:
        return
    if not isinstance(value, kind) or isinstance(value, bool) or not 0 < value < math.inf:
        if none:
            what = f"{what}, or None for {none}"
        raise argument_error(f"{name} is {value!r}; expected {what}")


class Clock:
    """The elapsed seconds of a run, without the time that it waited for a person.

    Attributes:
        waited: Seconds that do not count, for example while a person was asked.
    """

    def __init__(self) -> None:
        self.waited = 0.0

    def __call__(self) -> float:
        """Seconds since an arbitrary point in time."""
        return time.monotonic() - self.waited


@dataclass(slots=True)
class Guards:
    """Checks the limits of one run; `calls` are those that its replies have made."""

    limits: Limits
    clock: Callable[[], float]  # seconds since an arbitrary point in time
    calls: CallsOfReplies = field(default_factory=CallsOfReplies)
    steps: int = 0  # replies so far
    errors: int = 0  # consecutive
    usage: Usage = field(default_factory=Usage)
    last_call_failed: bool = False  # whether a call of the last reply failed
    _started: float | None = None

    def limit_reached(self) -> str:
        """The limit that is reached, such as ``"max_steps=20"``; empty if none is."""
        used_up = self.used_up()
        limits = self.limits
        if self.steps >= limits.max_steps:
            return f"max_steps={limits.max_steps}"
        if self.errors >= limits.max_errors:
            return f"max_errors={limits.max_errors}"
        return used_up

    def used_up(self) -> str:
        """The same of the seconds and the tokens, which requests apart from the steps use too."""
        limits = self.limits
        if self.seconds_left() == 0:
            return f"max_seconds={limits.max_seconds or 0:g}"
        if limits.max_total_tokens is not None and self.usage.tokens >= limits.max_total_tokens:
            return f"max_total_tokens={limits.max_total_tokens}"
        return ""

    def seconds_left(self) -> float | None:
        """Seconds until `max_seconds`; the first call starts the clock; None for no limit."""
        if self.limits.max_seconds is None:
            return None
        now = self.clock()
        if self._started is None:
            self._started = now
        return max(self.limits.max_seconds - (now - self._started), 0.0)

    def add_usage(self, reply: ModelReply, sent: int) -> None:
        """Add a reply's usage; if the server reports none, estimate it (``sent`` input tokens)."""
        usage = reply.usage
        if not (usage.input_tokens or usage.output_tokens):
            texts = [reply.text, reply.reasoning, *(call.arguments for call in reply.calls)]
            output = text_tokens("".join(texts))
            usage = replace(usage, input_tokens=sent, output_tokens=output)
        self.usage += usage

    def record_step(self, outcomes: Sequence[CallOutcome]) -> None:
        """Count a reply whose calls all failed as an error; a success resets the counter."""
        statuses = {outcome.status for outcome in outcomes}
        self.last_call_failed = "error" in statuses
        if "done" in statuses:
            self.errors = 0
        elif statuses & {"error", "refused"}:
            self.errors += 1

    def record_fault(self) -> None:
        """Count an unusable reply as an error."""
        self.errors += 1
        self.last_call_failed = False
