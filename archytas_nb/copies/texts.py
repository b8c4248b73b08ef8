"""Columns of text that hold numbers or dates, and the only way in which they can be read."""

from __future__ import annotations

import sys
import warnings
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from archytas_nb.copies.numerals import Numerals, numerals

_SAMPLE = 1000
"""How many values of a long column are read first."""

_LONGEST = 200_000
"""The most values that are read before a statement runs: more would take seconds."""


@dataclass(frozen=True, slots=True)
class Reading:
    """How a column is read.

    Attributes:
        form: The expression that reads it, with ``{}`` for the column.
        what: The kind of its values, in words.
        lost: The texts that count as missing, in words; empty for none.
        changes_order: Whether its values have another order than its texts.
    """

    form: str
    what: str
    lost: str
    changes_order: bool

    def expression(self, column: str) -> str:
        """The values of a column, as Python over pandas."""
        return self.form.replace("{}", column)

    def words(self, column: str) -> str:
        """The change, for a comment."""
        return f"the {self.what} of {column} are text, and are read{self.lost}"


def reading_of(column: Any) -> Reading | None:
    """How a column of text is read as numbers or dates; None if it has no or two readings."""
    if not is_text(column) or len(column) > _LONGEST:
        return None
    if len(column) > _SAMPLE and reading_of(column.iloc[:_SAMPLE]) is None:
        return None  # to read all words of a long column would take seconds
    pandas: Any = sys.modules["pandas"]
    found = numerals_of(column)
    if found is not None:
        form = found.expression("{}")
        values = eval(form.replace("{}", "column"), {"pd": pandas, "column": column})  # noqa: S307
        others = ", ".join(map(repr, found.others[:3]))
        lost = f"; {others} counts as missing" if others else ""
        return Reading(form, "numbers", lost, _is_reordered(column, values))
    way = day_first(column)
    if way is None or not _has_digits(column):
        return None
    dates = pandas.to_datetime(column, dayfirst=way)
    form = f"pd.to_datetime({{}}{', dayfirst=True' if way else ''})"
    return Reading(form, "dates", "", _is_reordered(column, dates))


def is_text(column: Any) -> bool:
    """Whether it is a column of pandas with texts."""
    is_object = getattr(getattr(column, "dtype", None), "kind", "") == "O"
    return is_object and hasattr(column, "str") and len(column) > 0


def numerals_of(column: Any) -> Numerals | None:
    """How a column of text writes numbers; None if it is not a column of pandas, or has no text."""
    return numerals(map(str, column.dropna())) if is_text(column) else None


def day_first(column: Any) -> bool | None:
    """Whether the dates of a column of text have the day first; None if both can be meant."""
    pandas: Any = sys.modules["pandas"]
    if column.dtype.kind != "O":
        return None
    read = {}
    warned = False
    for way in (False, True):
        with suppress(Exception), warnings.catch_warnings(record=True) as found:
            warnings.simplefilter("always")
            read[way] = pandas.to_datetime(column, dayfirst=way)
            warned = warned or (not way and bool(found))
    if len(read) > 1:  # pandas warns if it reads the day first unasked
        return warned if read[False].equals(read[True]) else None
    return next(iter(read), None)


def _has_digits(column: Any) -> bool:
    """Whether all texts have digits: words such as ``"may"`` are not dates."""
    return bool(column.dropna().str.contains(r"\d.*\d").all())


def _is_reordered(texts: Any, values: Any) -> bool:
    """Whether the values have another order than the texts."""
    present = values.dropna()
    by_text = texts.loc[present.index].reset_index(drop=True).sort_values(kind="stable").index
    return not present.reset_index(drop=True).loc[by_text].is_monotonic_increasing
