"""The numbers and days that a tool gave for several things, in order.

A small model that has looked them all up still compares them wrongly, and takes what stands first for what was
asked. So where the question says which end it wants, in English, the order begins there.
Pure text: it knows neither models nor tools.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import date

from archytas_nb.loop.events import Json

MOST = 12
"""Things that are listed; a longer list is no help."""

LONGEST = 1000
"""Characters of a question that is read."""
_LABEL = 40  # characters of an input that is a name
_TEXT = 60  # characters of an outcome that is a number with a few words
_ISO_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
_QUANTITY = re.compile(r"(?<![\w.-])-?\d[\d,]*(?:\.\d+)?(?![\w:/-]|\.\d)")

_NUMBERS = (
    "From high to low: {order}. The highest, most, longest, heaviest, dearest is {most}. "
    "The lowest, least, shortest, lightest, cheapest is {least}."
)
_DAYS = "From early to late: {order}. The earliest, first, oldest is {least}. The latest, last, newest is {most}."
"""Where the question does not say which end it wants: a small model looks for its very word."""

_HIGH = (
    "highest|most|largest|biggest|greatest|longest|heaviest|tallest|dearest|warmest|hottest|widest|strongest|loudest"
    "|farthest|furthest|maximum|higher|more|larger|bigger|greater|longer|heavier|taller|dearer|warmer|hotter|wider"
    "|stronger|louder"
)
_LOW = (
    "lowest|least|smallest|fewest|shortest|lightest|cheapest|coldest|coolest|narrowest|weakest|quietest|minimum|lower"
    "|less|smaller|fewer|shorter|lighter|cheaper|colder|cooler|narrower|weaker|quieter"
)
_SPEED = r"speed|velocity|rate|throughput|(?:per|a|an) (?:second|minute|hour)|km/h|mph|m/s"
_TIME = r"time|duration|seconds?|minutes?|hours?|days?|takes?|latency|runtime|ms"
_ERROR = r"error|loss|rmse|mae|mse|deviation|residuals?|defects?|faults?"
_SCORE = r"scores?|accuracy|rating|points|f1|auc|r2|stars?|marks?"
_AGE = r"ages?|years old|how old"
_BIRTH = r"year (?:of|in|it)|born|birth|founded|built|opened|since"
_EITHER: list[tuple[str, str, str]] = [
    ("fastest|quickest|faster|quicker", _SPEED, _TIME),
    ("slowest|slower", _TIME, _SPEED),
    ("best|better", _SCORE, _ERROR),
    ("worst|worse", _ERROR, _SCORE),
    ("oldest|older", _AGE, _BIRTH),
    ("youngest|newest|younger|newer", _BIRTH, _AGE),
]
"""Words for either end, what a tool speaks of where they mean the high one, and where the low one."""

_WORDS = "|".join([_HIGH, _LOW, *(words for words, *_ in _EITHER)])
_END = re.compile(
    rf"(?<!\bat )(?<!\bat the )\b(?:(second|third)[ -])?({_WORDS})\b(?!(?: \w+)? than (?:[a-z]+ )?[$€£]?\d)",
    re.IGNORECASE,
)
"""An end that a question asks for, and no bound."""

_COMPARES = re.compile(
    r"\b(?:which|who|whose|compare|comparison|than|order|rank|sort|most|least|best|worst|first|last|\w{2,}(?:est|er))\b",
    re.IGNORECASE,
)
"""What one asks who wants more than each of the numbers for itself."""

_UNCLEAR = re.compile(
    r"\b(?:fourth|fifth|sixth|\d+(?:st|nd|rd|th)|next|top|not the|in the table|last but|very|and third"
    r"|(?:one|two|three|four|any|no|some|once|even|much|\d+) (?:more|less|fewer|\w+est)|rank\w*"
    r"|places?|position|versions?)\b|-to-"
    # most efficient, more accurate: only the tool's author knows what number that is
    r"|\b(?:most|more|least|less) (?!expensive|costly|populous)"
    r"\w*(?:ent|ant|ble|ive|ate|ful|ous|al|ic|ing|ed|ly|cheap)\b",
    re.IGNORECASE,
)
"""Words where an end is another one than it seems."""


@dataclass(frozen=True, slots=True)
class Row:
    """What a call came to.

    Attributes:
        label: The input that tells it from the others of its tool; empty where there are no others.
        value: The number; of a day its number in the calendar.
        written: The outcome's text.
    """

    label: str
    value: float
    written: str

    def __str__(self) -> str:
        return f"{self.label} ({self.written})"


def rows_of(calls: Iterable[tuple[str, Json, str]], name: str) -> list[Row]:
    """Collect what the calls of a tool came to.

    Args:
        calls: Name, input and outcome of the calls that worked, in the order they were made.
        name: The tool.

    Returns:
        A row for each call; empty unless there are two to `MOST` that differ in one input alone, and came to
        numbers, to texts that differ in their one number alone ("12 minutes"), or all to days.
    """
    found = [(inputs_of(given), said.strip()) for tool, given, said in calls if tool == name]
    labels = labels_of([inputs for inputs, _ in found])
    if not labels or not 2 <= len(found) <= MOST:
        return []
    told = [
        _quantity(said, label) or _day(said) for label, (_, said) in zip(labels, found, strict=True)
    ]
    rows = [Row(label, each[0], each[1]) for label, each in zip(labels, told, strict=True) if each]
    frames = {each[2] for each in told if each}
    return rows if len(rows) == len(found) and len(frames) == 1 else []


def row_of(outcome: str) -> Row | None:
    """The row of a single call; None where its outcome is neither a number nor a short text with one number."""
    told = _quantity(outcome.strip(), "")
    return Row("", told[0], told[1]) if told else None


def ranking(rows: Sequence[Row], question: str, about: str = "") -> str:
    """Put rows in order.

    Args:
        rows: Two or more.
        question: What is asked.
        about: What the tool says of itself: the fastest has the lowest time, or the highest speed.

    Returns:
        ``"From low to high: a (1), b (2). The lowest is a (1)."`` where the question asks for the lowest; both
        ends where it does not say. Empty where all are equal, or nothing is compared.
    """
    order = sorted(rows, key=lambda row: row.value)
    if len({row.value for row in rows}) < 2:
        return ""
    is_days = _day(rows[0].written) is not None
    is_unclear = (
        is_days
        or len(question) > LONGEST
        or _UNCLEAR.search(f"{question} {about}".replace("_", " "))
    )
    found = [] if is_unclear else _END.finditer(question)
    ends = [(match, _is_high(match[2].lower(), about)) for match in found]
    if len({is_high for _, is_high in ends}) != 1 or ends[0][1] is None:
        if not _COMPARES.search(question):
            return ""
        shown = order if is_days else order[::-1]
        words = _DAYS if is_days else _NUMBERS
        return words.format(
            order=_listed(shown), most=_all_of(order, order[-1]), least=_all_of(order, order[0])
        )
    end, is_high = ends[0]
    if is_high:
        order.reverse()
    place = ("", "second", "third").index((end[1] or "").lower())
    if place and (place >= len(order) or len({row.value for row in order}) < len(order)):
        return ""
    said = " ".join(each for each in (end[1], end[2]) if each).lower()
    way = "high to low" if is_high else "low to high"
    return f"From {way}: {_listed(order)}. The {said} is {_all_of(order, order[place])}."


def _is_high(word: str, about: str) -> bool | None:
    """Whether a word means the high end; None where nobody knows."""
    if word in _HIGH.split("|") or word in _LOW.split("|"):
        return word in _HIGH.split("|")
    high, low = next((high, low) for words, high, low in _EITHER if word in words.split("|"))
    text = about.replace("_", " ")
    found = [each for each in (high, low) if re.search(rf"\b(?:{each})\b", text, re.IGNORECASE)]
    if len(found) == 2 and _SPEED in found:
        found = [_SPEED]  # which is told in units of time, too
    return found[0] == high if len(found) == 1 else None


def inputs_by_name(given: Json) -> Mapping[str, Json]:
    """The inputs of a call; what is no object is the one named ``""``."""
    return given if isinstance(given, Mapping) else {"": given}


def inputs_of(given: Json) -> dict[str, str]:
    """The inputs of a call as texts, by name."""
    return {str(name): str(value) for name, value in inputs_by_name(given).items()}


def number_of(text: str) -> float | None:
    """The finite number that a text is; None where it is something else."""
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _quantity(text: str, label: str) -> tuple[float, str, str] | None:
    """The one number of a text, how it is written, and the text around it."""
    value = number_of(text)
    if value is not None:
        return value, text, ""
    frame = (
        re.sub(rf"(?<!\w){re.escape(label)}(?!\w)", "", text, flags=re.IGNORECASE)
        if label
        else text
    )
    numbers = list(_QUANTITY.finditer(frame)) if len(frame) <= _TEXT else []
    if len(numbers) != 1:
        return None
    written = numbers[0][0]
    return float(written.replace(",", "")), written, frame.replace(written, "#")


def _day(text: str) -> tuple[float, str, str] | None:
    if not _ISO_DAY.fullmatch(text):
        return None  # Python takes 20240309, which is a number, and more
    try:
        return float(date.fromisoformat(text).toordinal()), text, "day"
    except ValueError:
        return None


def _listed(rows: Sequence[Row]) -> str:
    return ", ".join(map(str, rows))


def _all_of(rows: Sequence[Row], one: Row) -> str:
    """The labels of all rows that have the value of this one."""
    return f"{' and '.join(row.label for row in rows if row.value == one.value)} ({one.written})"


def labels_of(inputs: Sequence[dict[str, str]]) -> list[str]:
    """What tells the calls apart: the values of the one input in which they differ; empty where it is not one."""
    if len({frozenset(each) for each in inputs}) != 1:
        return []
    differing = [name for name in inputs[0] if len({each[name] for each in inputs}) > 1]
    if len(differing) != 1:
        return []
    labels = [each[differing[0]] for each in inputs]
    is_name = all(0 < len(label) <= _LABEL and "\n" not in label for label in labels)
    return labels if is_name and len(set(labels)) == len(labels) else []
