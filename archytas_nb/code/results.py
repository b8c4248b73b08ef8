"""Finds the result of a run that a literal equals, and the numbers that equal none."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archytas_nb import numbers

MAX_ITEMS = 2_000
"""How many values inside of one result are looked at."""

_MAX_DEPTH = 4
_SMALL = 20  # smaller integers inside of results are equal to others by chance
_MAX_FORMULAS = 8  # results of which two are combined


@dataclass(slots=True)
class Result:
    """A value that the code has at this point.

    Attributes:
        value: The value, as it was in the run.
        expression: Returns the expression for it; the first use may have to assign a name.
        text: The text that the model read.
    """

    value: Any
    expression: Callable[[], str]
    text: str = ""


@dataclass(slots=True)
class Results:
    """The results of a run so far.

    Args:
        given: The texts with the values of the user: the question.
    """

    given: str
    _results: list[Result] = field(default_factory=list)
    # in the results, and in the texts that the model read
    _numbers: set[float] = field(default_factory=set)

    def add(self, result: Result) -> None:
        """Add the result of a call."""
        self._results.append(result)
        self.add_text(result.text)
        self._numbers.update(float(each) for each, _ in _inside(result.value) if _is_number(each))

    def add_text(self, text: str) -> None:
        """Add the text of a call whose value is not in the code."""
        self._numbers.update(each for each, _ in numbers_in(text))

    def same_object(self, value: Any) -> str | None:
        """The expression for an object that is a result; None if it is not."""
        for result in reversed(self._results):
            if result.value is value:
                return result.expression()
        return None

    def equal(self, value: Any) -> str | None:
        """The expression for a result, or a part of one, that a literal equals.

        None if there is none, if the value is in the question, or if it is too common to tell.
        """
        if self.is_given(value) or _is_common(value):
            return None
        for result in reversed(self._results):
            if _equals(result.value, value):
                return result.expression()
        if isinstance(value, int) and abs(value) < _SMALL:
            return None
        for result in reversed(self._results):
            path = _place_of(value, result.value)
            if path:
                return f"{result.expression()}{path}"
        return None

    def is_given(self, value: Any) -> bool:
        """Whether a text or a number is in the question."""
        if isinstance(value, str):
            return bool(value) and value in self.given
        if isinstance(value, (int, float)):
            return any(each == value for each, _ in numbers_in(self.given))
        return False

    def count(self, value: Any) -> int:
        """How often a text or a number is in the question."""
        if isinstance(value, str):
            return self.given.count(value) if value else 0
        return sum(each == value for each, _ in numbers_in(self.given))

    def is_known(self, number: float, digits: int | None = None) -> bool:
        """Whether a number is in a result or the question, rounded to this many digits."""
        if any(each == number for each, _ in numbers_in(self.given)):
            return True
        return number in self._numbers or any(
            _is_rounded(each, number, digits) for each in self._numbers
        )

    def formula(self, number: Any, digits: int | None = None) -> str | None:
        """The two results with this number as sum, difference, …; None unless there is one pair."""
        numeric = [each for each in self._results if _is_number(each.value)]
        if not _is_number(number) or _is_common(number) or len(numeric) > _MAX_FORMULAS:
            return None
        found: list[tuple[Result, str, Result, bool]] = []
        for one, other in itertools.permutations(numeric, 2):
            for sign, value in _combined(one.value, other.value):
                # A sum or a product in the other order is not a second formula.
                is_turned = sign in "+*" and any(f[0] is other and f[2] is one for f in found)
                if not is_turned and _rounds_to(value, number, digits):
                    found.append((one, sign, other, value != number))
        if len(found) != 1:
            return None
        [(one, sign, other, is_inexact)] = found
        text = f"{one.expression()} {sign} {other.expression()}"
        if not is_inexact:
            return text
        if digits is None:
            return None
        return f"round({text}, {digits})" if digits else f"round({text})"

    def unknown_numbers(self, text: str, sent: Sequence[Any] = ()) -> list[str]:
        """The numbers in a text that are neither of a result nor of the question.

        Args:
            text: The text.
            sent: The arguments of the calls, whose numbers are known, too.
        """
        arguments = {number for each in sent for number, _ in numbers_in(str(each))}
        found = [
            shown for number, shown in numbers_in(text)
            if not _is_common(number)
            and number not in arguments
            and not self.is_known(number, digits_of(shown))
        ]  # fmt: skip
        return list(dict.fromkeys(found))


def numbers_in(text: str) -> Iterator[tuple[float, str]]:
    """The numbers in a text, each with its spelling; of two readings the first."""
    for number in numbers.numbers_in(text):
        shown = number.text.rstrip("%‰ \u00a0\u202f")
        yield number.sign * number.plain[0].value, shown


def digits_of(shown: str) -> int:
    """How many decimal places a number has."""
    return len(re.split(r"[eE]", shown)[0].partition(".")[2])


def _is_number(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    is_scalar = isinstance(value, (int, float)) or getattr(value, "shape", None) == ()
    try:
        return is_scalar and math.isfinite(value)
    except (TypeError, OverflowError):
        return False


def _is_common(value: Any) -> bool:
    """Whether a value is equal to others by chance."""
    if value is None or isinstance(value, bool):
        return True
    if isinstance(value, (int, float)):
        return value in (0, 1, -1)
    if isinstance(value, (str, bytes)):
        return len(value) < 3
    if isinstance(value, (list, tuple, dict, set, frozenset)):
        return not value
    return False


def _equals(one: Any, other: Any) -> bool:
    """Whether two values are equal and of one type, or numbers that are equal exactly."""
    if one is other:
        return True
    is_same_kind = type(one) is type(other) or (_is_number(one) and _is_number(other))
    if not is_same_kind:
        return False
    try:
        return bool(one == other)
    except Exception:  # noqa: BLE001 - such as two frames
        return False


def _rounds_to(exact: Any, number: float, digits: int | None) -> bool:
    """Whether a number is another one, exactly or rounded to its digits."""
    if exact == number:
        return True
    if digits is None:
        return math.isclose(float(exact), number, rel_tol=1e-12)
    return round(float(exact), digits) == number


def _is_rounded(exact: Any, number: float, digits: int | None) -> bool:
    """The same without the signs: "8.3 mm shorter" has none."""
    return _rounds_to(abs(exact), abs(number), digits)


def _combined(one: Any, other: Any) -> Iterator[tuple[str, Any]]:
    yield "-", one - other
    yield "+", one + other
    yield "*", one * other
    if other:
        yield "/", one / other


def _place_of(value: Any, result: Any) -> str:
    """The path to a value inside a result; empty if it is not there."""
    for each, path in _inside(result):
        if path and _equals(each, value):
            return path
    return ""


def _inside(value: Any) -> Iterator[tuple[Any, str]]:
    """A value and those inside it, with the source of the path to each."""
    return itertools.islice(_walk(value, "", 0), MAX_ITEMS)


def _walk(value: Any, path: str, depth: int) -> Iterator[tuple[Any, str]]:
    yield value, path
    if depth >= _MAX_DEPTH:
        return
    pairs: Iterator[tuple[Any, str]] = iter(())
    if isinstance(value, Mapping):
        keys = [key for key in value if isinstance(key, (str, int))]
        pairs = ((value[key], f"[{json.dumps(key, ensure_ascii=False)}]") for key in keys)
    elif isinstance(value, tuple) and hasattr(value, "_fields"):
        pairs = ((each, f".{name}") for name, each in zip(value._fields, value, strict=True))
    elif isinstance(value, Sequence) and not isinstance(value, (str, bytes, range)):
        pairs = ((each, f"[{place}]") for place, each in enumerate(value))
    elif dataclasses.is_dataclass(value) and not isinstance(value, type):
        names = [each.name for each in dataclasses.fields(value)]
        pairs = ((getattr(value, name, None), f".{name}") for name in names)
    # A model of pydantic; this attribute tells it without an import.
    elif isinstance(getattr(value, "model_fields_set", None), set):
        pairs = ((getattr(value, name), f".{name}") for name in type(value).model_fields)
    for each, step in pairs:
        yield from _walk(each, f"{path}{step}", depth + 1)
