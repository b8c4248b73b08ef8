"""A value in the form that an error asks for: ``14h30`` where ``14:30`` was refused and ``08h15`` is an example.

A small model reads what form is expected, and sends the same value again. What it is told it follows, so there is
silence wherever a day or an example can be read in another way.
Pure text: it knows neither models nor tools.
"""

from __future__ import annotations

import re
from datetime import date

MONTHS = [
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
]
LONGEST = 1000
"""Characters of an error and of a question that are read."""
_VALUE = 40  # characters of a value that has a form

_DIGITS = re.compile(r"\d+")
_ASKS = re.compile(
    r"\b(?:expected|form|format|such as|like|for example|for instance|example)\b|\be\.g\.",
    re.IGNORECASE,
)
_TOKEN = re.compile(r"(?<![\w./:-])[A-Za-z]{0,8}-?\d[\w./:-]{0,30}\w(?![\w/:-])")
_LETTERS = re.compile(
    r"(?<![A-Za-z./-])(?:Y{4}|M{2}|D{2})([-./ ])(?:Y{4}|M{2}|D{2})\1(?:Y{4}|M{2}|D{2})(?![A-Za-z/-])",
    re.IGNORECASE,
)
_MONTH_LETTERS = re.compile(
    r"(?<![\w./-])(?:Y{4}[-./]M{2}|M{2}[-./]Y{4})(?![\w/-]|\.\w)", re.IGNORECASE
)
_NAMES = "|".join(MONTHS)
_NAMED = re.compile(
    rf"\b(?:(?P<d1>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m1>{_NAMES})"
    rf"|(?P<m2>{_NAMES}) (?P<d2>\d{{1,2}})(?:st|nd|rd|th)?),? (?P<y>\d{{4}})\b",
    re.IGNORECASE,
)
_MONTH = re.compile(rf"(?P<m>{_NAMES}),? (?P<y>\d{{4}})", re.IGNORECASE)


def reshaped(value: str, error: str, question: str = "") -> str:
    """Write a value that was refused in the form that the error names or gives an example of.

    Args:
        value: The value that was given: a day, a month, a time, a code with two groups of digits.
        error: The error's text.
        question: The question, for a day whose month it names: ``9/3/2024`` alone may be two days.

    Returns:
        The value; empty where there is no such form, or more than one reading.
    """
    asked = _ASKS.search(error[:LONGEST])
    if asked is None or len(value) > _VALUE or not _DIGITS.search(value):
        return ""
    text = error[asked.end() : LONGEST]
    examples = [each for each in _TOKEN.findall(text) if each != value]
    forms = {match[0] for match in _LETTERS.finditer(text)} | {_form(each) for each in examples}
    if month := _MONTH.fullmatch(value):
        digits = f"{_number_of(month['m']):02}", month["y"]
        forms = {match[0] for match in _MONTH_LETTERS.finditer(text)} | {
            _month_form(each) for each in examples
        }
        found = {
            re.sub("Y+", digits[1], re.sub("M+", digits[0], form.upper())) for form in forms if form
        }
        return found.pop() if len(found) == 1 else ""
    day = _day_of(value, question[:LONGEST])
    found = {_written(day, form) for form in forms if form and day} or {
        _like(value, each) for each in examples
    }
    found -= {""}
    return found.pop() if len(found) == 1 and value not in found else ""


def _like(value: str, example: str) -> str:
    """The two groups of digits of a value between the other characters of an example that has two as well."""
    groups, shape = _DIGITS.findall(value), _DIGITS.findall(example)
    between, given = _DIGITS.split(example), _DIGITS.split(value)
    if len(groups) != 2 or len(shape) != 2 or max(map(len, [*groups, *shape])) > 3:
        return ""
    if (
        between[0].rstrip("-_ ") != given[0].rstrip("-_ ")
        or between[2]
        or given[2]
        or "." in between[1] + given[1]
    ):
        return ""
    padded: list[str] = [group.zfill(len(each)) for group, each in zip(groups, shape, strict=True)]
    return f"{between[0]}{padded[0]}{between[1]}{padded[1]}"


def _form(example: str) -> str:
    """``DD.MM.YYYY`` of ``31.12.2023``; empty where it is no day, or may be two."""
    match = re.fullmatch(r"(\d{1,4})([-./])(\d{1,2})\2(\d{1,4})", example)
    if match is None:
        return ""
    first, sign, second, last = match.groups()
    if len(first) == 4:
        return f"YYYY{sign}MM{sign}DD"
    if len(last) != 4 or (int(first) > 12) == (int(second) > 12):
        return ""
    return f"DD{sign}MM{sign}YYYY" if int(first) > 12 else f"MM{sign}DD{sign}YYYY"


def _month_form(example: str) -> str:
    """``YYYY-MM`` of ``2023-11``; empty where it is no month."""
    match = re.fullmatch(r"(\d{4}|\d{2})([-./])(\d{4}|\d{2})", example)
    if match is None or len(match[1]) == len(match[3]):
        return ""
    year, month = (match[1], match[3]) if len(match[1]) == 4 else (match[3], match[1])
    if not 1 <= int(month) <= 12 or not 1900 <= int(year) <= 2100:
        return ""
    return f"YYYY{match[2]}MM" if len(match[1]) == 4 else f"MM{match[2]}YYYY"


def _number_of(month: str) -> int:
    return MONTHS.index(month.lower()) + 1


def _written(day: date, form: str) -> str:
    parts = {"Y": f"{day.year:04}", "M": f"{day.month:02}", "D": f"{day.day:02}"}
    return re.sub(r"([YMD])\1*", lambda match: str(parts[match[1]]), form.upper())


def _day_of(value: str, question: str) -> date | None:
    """The day of a value that is written as in ISO 8601, or with its month's name, or that the question names."""
    if re.fullmatch(r"\d{4}-\d{2}-\d{2}", value):
        try:
            return date.fromisoformat(value)
        except ValueError:
            return None
    in_value = [*_NAMED.finditer(value)]
    named = in_value or [*_NAMED.finditer(question)]
    if len(named) != 1:
        return None
    match = named[0]
    month = _number_of(match["m1"] or match["m2"])
    try:
        day = date(int(match["y"]), month, int(match["d1"] or match["d2"]))
    except ValueError:
        return None
    same = sorted(map(int, _DIGITS.findall(value))) == sorted([day.year, day.month, day.day])
    return day if in_value or same else None
