"""What comes of numbers that were looked up: a difference, a ratio or a sum, where a question asks for one.

A small model cannot reckon, and mostly has no tool for it. There is silence where the words can be read in
another way: percentages, amounts of each, more than was named.
Pure text, in English: it knows neither models nor tools.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from decimal import Decimal

from archytas_nb.loop.ranking import LONGEST, Row

_TIMES = re.compile(r"\bhow many times (?:as|more|\w+er)\b", re.IGNORECASE)
_DIFFERENCE = re.compile(
    r"\bhow (?:much|many|far)\b[^.?!]{0,40}\b(?:more|less|fewer|apart|\w{3,}er)\b[^.?!]* than\b"
    r"|\bby how (?:much|many)\b|\bdifference between\b|\bwhat is the difference\b"
    r"|\bgap between\b|\bhow far apart\b",
    re.IGNORECASE,
)
_SUM = re.compile(
    r"\bhow (?:much|many|long|far|heavy)\b[^.?!]*\b(?:in total|altogether|together|combined|in all)\b"
    r"|\bwhat (?:do|does|did)\b[^.?!]*\b(?:together|in total|altogether)\b|\b(?:sum|total) of\b|\badd up\b",
    re.IGNORECASE,
)
_OTHER = re.compile(r"\bper ?cent\w*\b|%", re.IGNORECASE)
_AMOUNTS = re.compile(
    r"(?<![\w-])\d|\b(?:two|three|four|five|six|seven|eight|nine|ten|dozen|than|each)\b",
    re.IGNORECASE,
)
_RATIO_DIGITS = 4


def reckoned(rows: Sequence[Row], question: str) -> str:
    """Reckon what a question asks of several numbers.

    Args:
        rows: What was looked up with one tool, two or more.
        question: What is asked.

    Returns:
        ``"The difference is 83.4 - 61.9 = 21.5."``, or the same of a ratio or a sum; empty where it asks for none
        of these, where the rows are no numbers, and where the result is not exact.
    """
    if len(question) > LONGEST or _OTHER.search(question):
        return ""
    try:
        return _said(rows, question)
    except ArithmeticError:
        return ""


def _said(rows: Sequence[Row], question: str) -> str:
    values = [Decimal(row.written) for row in rows]
    if any(abs(value.adjusted()) > 12 for value in values if value):
        return ""
    high, low = max(values), min(values)
    if len(values) == 2 and _TIMES.search(question) and low > 0:
        return f"The ratio is {high} / {low} = {float(high / low):.{_RATIO_DIGITS}g}."
    if len(values) == 2 and _DIFFERENCE.search(question):
        return f"The difference is {high} - {_enclosed(low)} = {high - low}."
    labels = [rf"(?<!\w){re.escape(row.label)}(?!\w)" for row in rows]
    without = re.sub("|".join(labels), "", question, flags=re.IGNORECASE)
    if _SUM.search(question) and not _AMOUNTS.search(without):
        named = [re.search(label, question, re.IGNORECASE) is not None for label in labels]
        if all(named) or not any(named):
            return f"Together it is {' + '.join(map(_enclosed, values))} = {sum(values)}."
    return ""


def _enclosed(value: Decimal) -> str:
    return f"({value})" if value < 0 else str(value)
