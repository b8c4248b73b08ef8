"""The limits of a run, and the guard against repeated calls."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from numbers import Integral, Real
from typing import Any

from archytas_nb.errors import argument_error
from archytas_nb.loop.events import ANSWER, CallOutcome, ModelReply, ToolCall, Usage
from archytas_nb.loop.tokens import text_tokens

MAX_SECONDS = 600.0
"""Enough for twenty replies of a small local model that takes half a minute for each."""

MAX_TOTAL_TOKENS = 1_000_000
"""Twenty requests of fifty thousand tokens each, far more than a question usually needs."""

REPLY_TOKENS = 16_384
"""Enough for a long report. The defaults of endpoints range from 256 tokens to no limit."""

_FAILED_AGAIN = (
    "You made this very call before, and it failed in the same way. Unless it says to try again, "
    "do not make it any more: give another input, or use another tool."
)
_AGAIN_LATER = (
    "You made this very call before, and it was not made again. Its outcome was:\n{outcome}\n"
    "If something else is missing, make the call for that. If all that was asked for is done, use "
    f"{ANSWER} now."
)
_AGAIN = (
    "You already made this very call; it was not run again. Its outcome was:\n{outcome}\n"
    "Use this outcome: answer, or make a different call."
)
_MADE_BEFORE = "the same call was made before"
_TOOL_DISABLED = (
    "{name} was not run and cannot be used now: you made the same call again and again. "
    "Use what you were told: answer, or use another tool."
)


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
class _CallRecord:
    """A call's last outcome, the number of new outcomes so far, and how often it was made."""

    outcome: CallOutcome
    new_outcomes: int
    times: int = 1


@dataclass(slots=True)
class Guards:
    """Checks the limits of one run, and detects repeated calls."""

    limits: Limits
    clock: Callable[[], float]  # seconds since an arbitrary point in time
    may_repeat: Collection[str] = ()  # tools whose outcome may differ between identical calls
    confirms_repeats: bool = False  # a call that was made before must be confirmed
    steps: int = 0  # replies so far
    errors: int = 0  # consecutive
    usage: Usage = field(default_factory=Usage)
    disabled_tools: set[str] = field(default_factory=set)  # tools that cannot be used for now
    last_call_failed: bool = False  # whether a call of the last reply failed
    _started: float | None = None
    _calls_made: dict[str, _CallRecord] = field(default_factory=dict)
    _new_outcomes: int = 0
    _warned: set[str] = field(default_factory=set)

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

    def skipped_outcome(self, call: ToolCall) -> CallOutcome | None:
        """The outcome of a call that is skipped, or None if it must run.

        A repeated call runs again only if there was a new outcome since, because its own may then
        differ (or must be confirmed). Otherwise it gets the earlier outcome, and the third
        time its tool is disabled until there is a new one. A failed call may be retried.
        """
        if call.name in self.disabled_tools:
            text = _TOOL_DISABLED.format(name=call.name)
            why = "the same call was made again and again"
            return CallOutcome("refused", text, call_id=call.id, for_person=why)
        key = call_key(call)
        last = self._calls_made.get(key)
        if last is None or call.name in self.may_repeat or last.outcome.status == "error":
            return None
        if last.new_outcomes != self._new_outcomes:
            if not self.confirms_repeats or key in self._warned:
                return None
            self._warned.add(key)
            text = _AGAIN_LATER.format(outcome=last.outcome.text)
            return CallOutcome("not_run", text, call_id=call.id, for_person=_MADE_BEFORE)
        last.times += 1
        if last.times > 2:
            self.disabled_tools.add(call.name)
        text = _AGAIN.format(outcome=last.outcome.text)
        again = last.outcome.with_text(text, last.outcome.for_person or last.outcome.result)
        shown_before: dict[str, Any] = {"outputs": (), "displays": (), "said": "", "runs": ()}
        return replace(again, call_id=call.id, seconds=0.0, **shown_before)

    def is_duplicate(self, call: ToolCall, others: Collection[str]) -> bool:
        """Whether a call must not run together with an identical one; `others` are keys."""
        return call.name not in self.may_repeat and call_key(call) in others

    def record(self, call: ToolCall, outcome: CallOutcome) -> CallOutcome:
        """Record the outcome of a call; return the outcome that the model reads."""
        key = call_key(call)
        last = self._calls_made.get(key)
        if last and (last.outcome.status, last.outcome.text) == (outcome.status, outcome.text):
            last.outcome = outcome
            last.new_outcomes = self._new_outcomes
            last.times += 1
            failed = outcome.status == "error"
            if failed:
                return replace(outcome, advice=_FAILED_AGAIN)
            return outcome
        self._new_outcomes += 1
        self._calls_made[key] = _CallRecord(outcome, self._new_outcomes)
        if outcome.status == "done":
            self.disabled_tools.clear()
        return outcome

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


def call_key(call: ToolCall) -> str:
    """A key that only calls of the same tool with the same input share."""
    return f"{call.name}:{json.dumps(call.input, sort_keys=True, ensure_ascii=False, default=repr)}"
