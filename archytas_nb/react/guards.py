"""Budgets and repetition: what ends a run that would not end by itself.

It counts and compares; it never looks at a clock of its own and knows no wire form.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import dataclass, field

from archytas_nb.react.events import CallOutcome, ToolCall, Usage


@dataclass(frozen=True, slots=True)
class Limits:
    """The finite bounds of a run.

    Attributes:
        max_steps: Replies of the model.
        max_errors: Unusable replies and failing calls in a row.
        max_seconds: Wall time; None for no bound.
        max_tokens: Input and output tokens in all; None for no bound.
        reply_tokens: The most that a single reply may have.
    """

    max_steps: int = 20
    max_errors: int = 5
    max_seconds: float | None = None
    max_tokens: int | None = None
    reply_tokens: int = 1024

    def __post_init__(self) -> None:
        for name in ("max_steps", "max_errors", "max_seconds", "max_tokens", "reply_tokens"):
            value = getattr(self, name)
            if value is not None and (isinstance(value, bool) or value <= 0):
                raise ValueError(f"{name} is {value!r}; expected a number above 0")


@dataclass(slots=True)
class Guards:
    """Watches one run.

    Attributes:
        limits: The bounds.
        clock: Seconds from any fixed point.
        may_repeat: Names of the tools whose outcome may differ from call to call.
    """

    limits: Limits
    clock: Callable[[], float]
    may_repeat: Collection[str] = ()
    steps: int = 0
    errors: int = 0
    usage: Usage = field(default_factory=Usage)
    taken_away: set[str] = field(default_factory=set)
    _started: float | None = None
    _seen: dict[str, tuple[CallOutcome, int]] = field(default_factory=dict)

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
        if limits.max_tokens is not None and tokens >= limits.max_tokens:
            return f"max_tokens={limits.max_tokens}"
        return ""

    def earlier(self, call: ToolCall) -> CallOutcome | None:
        """The outcome that the same call already had in this run, where it need not be run again.

        A call that failed may be tried again: what failed may have passed. The third time the tool is taken
        away until another call has succeeded, because a model that repeats itself twice repeats itself for ever.
        """
        seen = self._seen.get(_key(call))
        if seen is None or call.name in self.may_repeat:
            return None
        outcome, times = seen
        self._seen[_key(call)] = (outcome, times + 1)
        if times >= 2:
            self.taken_away.add(call.name)
        text = (
            f"You already made this very call; it was not run again. Its outcome was:\n{outcome.text}\n"
            "Use this outcome: answer, or make a different call."
        )
        return CallOutcome("done", text, value=outcome.value, call_id=call.id, images=outcome.images)

    def note(self, call: ToolCall, outcome: CallOutcome) -> None:
        """Remember what a call that was run came to."""
        if outcome.status == "done":
            self.errors = 0
            self.taken_away.clear()
            self._seen[_key(call)] = (outcome, 1)
        elif outcome.status == "error":
            self.errors += 1


def _key(call: ToolCall) -> str:
    return f"{call.name}:{json.dumps(call.input, sort_keys=True, ensure_ascii=False)}"
