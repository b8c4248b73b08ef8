"""Budgets and repetition: what ends a run that would not end by itself.

It counts and compares; it never looks at a clock of its own and knows no wire form.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

from archytas_nb.loop.events import CallOutcome, ModelReply, ToolCall, Usage
from archytas_nb.loop.tokens import text_tokens

MAX_SECONDS = 600.0
"""Enough for twenty replies of a small local model at half a minute each, and all that a person will wait."""

MAX_TOTAL_TOKENS = 1_000_000
"""Twenty requests of fifty thousand tokens each: far more than a question needs, for a few dollars."""

REPLY_TOKENS = 16_384
"""Enough for a long report, a file of code or some reasoning. It is sent, because the defaults of endpoints range
from 256 tokens to no limit at all; an endpoint that allows less says so, and is asked for less."""

SMALL_REPLY_TOKENS = 1024
"""A page of text. A small model that writes more than that mostly repeats itself, for minutes."""

SMALL_THINKING_TOKENS = 8192
"""For a small model that has used up a reply by reasoning alone, and has to reason before it can answer."""


@dataclass(frozen=True, slots=True)
class Limits:
    """The finite bounds of a run.

    Attributes:
        max_steps: Replies of the model.
        max_errors: Replies in a row that could not be used or whose calls all failed.
        max_seconds: Wall time; None for no bound.
        max_total_tokens: Input and output tokens in all; None for no bound.
        max_reply_tokens: Tokens of a single reply; None for what suits the model.
    """

    max_steps: int = 20
    max_errors: int = 5
    max_seconds: float | None = MAX_SECONDS
    max_total_tokens: int | None = MAX_TOTAL_TOKENS
    max_reply_tokens: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_errors"):
            _check(name, getattr(self, name), "a whole number above 0", Integral)
        for name, otherwise in (
            ("max_total_tokens", "no bound"),
            ("max_reply_tokens", "the default"),
        ):
            _check(name, getattr(self, name), "a whole number above 0", Integral, none=otherwise)
        _check("max_seconds", self.max_seconds, "seconds above 0", Real, none="no bound")

    def reply_tokens(self, *, small: bool) -> int:
        """Maximum number of tokens in one reply, of a small model or another."""
        return self.max_reply_tokens or (SMALL_REPLY_TOKENS if small else REPLY_TOKENS)

    def thinking_tokens(self, *, small: bool) -> int | None:
        """The same where the model has used up a reply by reasoning alone; None where that is no more."""
        return SMALL_THINKING_TOKENS if small and self.max_reply_tokens is None else None


def _check(name: str, value: Any, what: str, kind: type[Any], *, none: str = "") -> None:
    """Numbers of numpy will do; an infinite one is no bound, and there is another word for that."""
    if value is None and none:
        return
    if not isinstance(value, kind) or isinstance(value, bool) or not 0 < value < math.inf:
        raise ValueError(f"{name} is {value!r}; expected {what}{none and f', or None for {none}'}")


@dataclass(slots=True)
class Guards:
    """Watches one run.

    Attributes:
        limits: The bounds.
        clock: Seconds from any fixed point.
        may_repeat: Names of the tools whose outcome may differ from call to call.
        small: Whether the model is a small one, which is asked once more before some calls and ends count.
        taken_away: Names of the tools that cannot be used now.
        just_failed: Whether a call of the last reply failed.
    """

    limits: Limits
    clock: Callable[[], float]
    may_repeat: Collection[str] = ()
    small: bool = False
    steps: int = 0
    errors: int = 0
    usage: Usage = field(default_factory=Usage)
    taken_away: set[str] = field(default_factory=set)
    just_failed: bool = False
    _started: float | None = None
    _seen: dict[str, _Seen] = field(default_factory=dict)
    _news: int = 0
    _asked_again: set[str] = field(default_factory=set)

    def limit_reached(self) -> str:
        """The limit that forbids another step, for a person to read; empty where there is none."""
        now = self.clock()
        if self._started is None:
            self._started = now
        limits, tokens = self.limits, self.usage.input_tokens + self.usage.output_tokens
        if self.steps >= limits.max_steps:
            return f"max_steps={limits.max_steps}"
        if self.errors >= limits.max_errors:
            return f"max_errors={limits.max_errors}"
        if limits.max_seconds is not None and now - self._started >= limits.max_seconds:
            return f"max_seconds={limits.max_seconds:g}"
        if limits.max_total_tokens is not None and tokens >= limits.max_total_tokens:
            return f"max_total_tokens={limits.max_total_tokens}"
        return ""

    def seconds_left(self) -> float | None:
        """What is left of the run's time; never below 0, None for no bound."""
        if self.limits.max_seconds is None or self._started is None:
            return self.limits.max_seconds
        return max(self.limits.max_seconds - (self.clock() - self._started), 0.0)

    def spend(self, reply: ModelReply, sent: int) -> None:
        """Count what a reply cost; where the server does not say, it is estimated.

        Args:
            reply: The reply.
            sent: About how many tokens were sent for it.
        """
        self.usage += reply.usage
        if reply.usage.input_tokens or reply.usage.output_tokens:
            return
        said = "".join([reply.text, reply.reasoning, *(call.arguments for call in reply.calls)])
        self.usage += Usage(input_tokens=sent, output_tokens=text_tokens(said))

    def earlier(self, call: ToolCall) -> CallOutcome | None:
        """What a call comes to without being run, or None where it must be run.

        A call that was made before is run again only where something new has happened since: then its outcome
        may be another (a small model is asked first: it may have lost count). Else the earlier outcome is
        repeated; the third time the tool is taken away until something new happens, because a model that repeats
        itself twice repeats itself for ever. A call that failed may be tried again: what failed may have passed.
        """
        if call.name in self.taken_away:
            text = (
                f"{call.name} was not run and cannot be used now: you made the same call again and again. "
                "Use what you were told: answer, or use another tool."
            )
            return CallOutcome("refused", text, call_id=call.id)
        seen = self._seen.get(key_of(call))
        if seen is None or call.name in self.may_repeat:
            return None
        if seen.outcome.status == "error":
            return None
        if seen.news != self._news:
            if not self.small or key_of(call) in self._asked_again:
                return None
            self._asked_again.add(key_of(call))
            return CallOutcome(
                "not_run", _AGAIN_AFTER_OTHERS.format(seen.outcome.text), call_id=call.id
            )
        seen.times += 1
        if seen.times > 2:
            self.taken_away.add(call.name)
        text = (
            f"You already made this very call; it was not run again. Its outcome was:\n{seen.outcome.text}\n"
            "Use this outcome: answer, or make a different call."
        )
        return replace(seen.outcome, text=text, call_id=call.id, outputs=(), seconds=0.0)

    def is_twin(self, call: ToolCall, others: Collection[str]) -> bool:
        """Whether a call's key is among those, and it may not be made twice without a reason."""
        return call.name not in self.may_repeat and key_of(call) in others

    def note(self, call: ToolCall, outcome: CallOutcome) -> CallOutcome:
        """Remember what a call that was run came to, and return what the model is told of it."""
        key = key_of(call)
        seen = self._seen.get(key)
        is_again = seen is not None and (seen.outcome.status, seen.outcome.text) == (
            outcome.status,
            outcome.text,
        )
        if seen is not None and is_again:
            seen.outcome, seen.times, seen.news = outcome, seen.times + 1, self._news
            if outcome.status != "error":
                return outcome
            return replace(outcome, text=f"{outcome.text}\n{_FAILED_AGAIN}")
        self._news += 1
        self._seen[key] = _Seen(outcome, self._news)
        if outcome.status == "done":
            self.taken_away.clear()
        return outcome

    def note_step(self, outcomes: Sequence[CallOutcome]) -> None:
        """Count a reply whose calls all came to nothing; one that was of use ends the row of errors."""
        self.just_failed = any(outcome.status == "error" for outcome in outcomes)
        if any(outcome.status == "done" for outcome in outcomes):
            self.errors = 0
        elif any(outcome.status in ("error", "refused") for outcome in outcomes):
            self.errors += 1

    def note_fault(self) -> None:
        """Count a reply that could not be used."""
        self.errors += 1
        self.just_failed = False


@dataclass(slots=True)
class _Seen:
    outcome: CallOutcome
    news: int
    times: int = 1


_FAILED_AGAIN = (
    "You made this very call before, and it failed in the same way. Unless it says to try again, do not make it "
    "any more: give another input, or use another tool."
)
_AGAIN_AFTER_OTHERS = (
    "You made this very call before, and it was not made again. Its outcome was:\n{}\n"
    "If something else is missing, make the call for that. If all that was asked for is done, use "
    "final_answer now."
)


def key_of(call: ToolCall) -> str:
    """The same text for calls of the same tool with the same input, and for no others."""
    return f"{call.name}:{json.dumps(call.input, sort_keys=True, ensure_ascii=False, default=repr)}"
