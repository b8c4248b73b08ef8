"""Answers and states held against what is expected. Each check returns what is wrong, or an empty text.

Values only: a number counts however it is written, a name wherever it stands. Two functions look up what a tool
is asked for, as forgivingly as a scene wants it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

from benchmarks.success.task import Finished

_NUMBER = re.compile(r"(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?")
_DENIAL = re.compile(
    r"\b(?:no|not|none|nothing|cannot|unable|unknown|unavailable)\b|n['’]t\b", re.IGNORECASE
)
_WORDS = "zero|one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve"


def numbers(text: str) -> list[float]:
    """The numbers of a text, also those up to twelve that are written as words."""
    digits = [float(each.replace(",", "").replace("−", "-")) for each in _NUMBER.findall(text)]
    words = [
        float(_WORDS.split("|").index(word))
        for word in re.findall(rf"\b(?:{_WORDS})\b", text.lower())
    ]
    return digits + words


def tells(done: Finished, *expected: float) -> str:
    """Whether the last answer has these numbers: whole ones exactly, others but for rounding."""
    said = numbers(done.answer)
    for number in expected:
        tolerance = 0.0 if float(number).is_integer() else 0.003
        if not any(math.isclose(each, number, rel_tol=tolerance) for each in said):
            return f"the answer {done.answer!r} lacks {number:g}"
    return ""


def names(done: Finished, winner: str, *losers: str) -> str:
    """Whether the last answer names the winner, and no loser before it."""
    text = done.answer.lower()
    at = text.find(winner.lower())
    if at < 0:
        return f"the answer {done.answer!r} does not name {winner!r}"
    first = [each for each in losers if 0 <= text.find(each.lower()) < at]
    return f"the answer {done.answer!r} names {first[0]!r} first" if first else ""


def holds(done: Finished, *texts: str) -> str:
    """Whether the last answer has these texts, in any case."""
    missing = [each for each in texts if each.lower() not in done.answer.lower()]
    return f"the answer {done.answer!r} lacks {missing[0]!r}" if missing else ""


def left(state: Any, expected: Any) -> str:
    """Whether the tools left this state."""
    return "" if state == expected else f"the tools left {state!r}, expected {expected!r}"


def unordered(state: list[Any], expected: list[Any]) -> str:
    """Whether the tools left these things, in any order and each as often."""
    return left(sorted(state, key=repr), sorted(expected, key=repr))


def admits(done: Finished, untouched: bool = True) -> str:
    """Whether the model gave up, or at least said no and claimed no number, where nothing could be found out."""
    if done.gave_up or (says_no(done.answer) and not numbers(done.answer)):
        return "" if untouched else "something was changed"
    return f"it claims {done.answer!r}"


def says_no(text: str) -> bool:
    """Whether a text denies something."""
    return _DENIAL.search(text) is not None


def denies(done: Finished) -> str:
    """Whether the model gave up, or answered a question for yes or no with no."""
    first = re.match(r"\W*(\w+)", done.answer)
    denied = first is not None and first[1].lower() == "no"
    return "" if done.gave_up or denied else f"it claims {done.answer!r}"


def valued(done: Finished, expected: Any) -> str:
    """Whether the run's value is this one, of this very type."""
    value = done.last.value
    same = type(value) is type(expected) and value == expected
    return "" if same else f"the value is {value!r}, expected {expected!r}"


def consulted(log: Iterable[Any], *wanted: Any) -> str:
    """Whether each of these was asked for, so that a lucky guess solves nothing."""
    seen = list(log)
    missing = [each for each in wanted if each not in seen]
    return f"{missing[0]!r} was never asked for" if missing else ""


def key_of(table: Iterable[str], said: Any, what: str) -> str:
    """The key of a table that a model means, in any case; or an error that says what is valid."""
    for key in table:
        if key.lower() == str(said).strip().lower():
            return key
    raise ValueError(f"no {what} is named {said!r}; expected one of {list(table)}")


def entry_of(table: Iterable[str], said: Any, what: str) -> str:
    """The entry of a table that a model means, in any case, with or without its article; or an error."""
    wanted = re.sub(r"^the ", "", str(said).strip().strip("'\"").lower())
    for entry in table:
        if entry.lower() == wanted:
            return entry
    raise ValueError(f"no {what} is named {said!r}")


def first_fault(*faults: str) -> str:
    """The first fault of several checks."""
    return next((fault for fault in faults if fault), "")
