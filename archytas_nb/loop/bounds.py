"""The bound that a question sets ("if it is below 6.5"), and on which side of it a number lies.

A small model acts first and compares afterwards; told which side it is, in the question's own words, it does not.
What is told is believed, so there is silence wherever the words can be read in another way: several bounds, a
negation, an amount to order, a unit that is not the tool's.
Pure text, in English: it knows neither models nor tools.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from archytas_nb.loop.pending import is_choice
from archytas_nb.loop.ranking import LONGEST, Row

_LESS = (
    "less|fewer|lower|smaller|shorter|lighter|cheaper|colder|cooler|thinner|narrower|weaker|quieter"
)
_MORE = "more|greater|higher|larger|bigger|longer|heavier|dearer|warmer|hotter|wider|stronger|louder|taller"
_NUMBER = r"[$€£]?(?P<number{}>-?(?:\d{{1,3}}(?:,\d{{3}})+|\d+)(?:\.\d+)?)(?![\w²³^:/'’–+-]|[.,]\d)"
_KINDS: list[tuple[str, Callable[[float, float], bool], str]] = [
    (r"\bat least ", operator.ge, "at least"),
    (r"\bat most ", operator.le, "at most"),
    (rf"\b(?:(?:{_LESS}) than|below|under) ", operator.lt, ""),
    (rf"\b(?:(?:{_MORE}) than|above|over) ", operator.gt, ""),
    (r"\bexceeds? ", operator.gt, "above"),
]
"""How a bound is worded, what keeps it, and how to say it so that "not" can stand before it; empty: as it is."""
_PATTERN = re.compile(
    "|".join(f"(?P<k{n}>{kind}{_NUMBER.format(n)})" for n, (kind, *_) in enumerate(_KINDS)),
    re.IGNORECASE,
)
_OPENS = re.compile(
    r"\b(?:if|when|whether|which|whose|who|any|each|every|those|is|are|was|were|has|have|with)\b",
    re.IGNORECASE,
)
_IF = re.compile(r"\b(?:if|when)\b", re.IGNORECASE)
_SILENT = re.compile(
    r"\b(?:not|never|nor|neither|unless|except|even|without|cannot|how many|how much|number|count|percentage"
    r"|share|fraction|versions?|releases?|sum|total|both|combined|altogether|together|ratio|product|overall"
    r"|in all|no|differ\w*|gap|apart)\b|n[’']t\b",
    re.IGNORECASE,
)
"""Words before a bound that turn it round, or make it one of something that no single call tells."""
_AMOUNT = re.compile(
    r"\b(?:order|buy|book|reserve|give|answer|send|add|set|pick|take|list|name|tell|make|last|first|mean|average|median)\b",
    re.IGNORECASE,
)
_AFTER = re.compile(
    rf"\s*(?:million|billion|thousand|hundred|dozen|(?:\w+ )?(?:{_LESS}|{_MORE}|below|above)\b"
    r"|of the\b|and\b|or\b|to\b)",
    re.IGNORECASE,
)
_UNITS = (
    r"seconds?|minutes?|min|hours?|days?|weeks?|months?|years?|mm|cm|m|km|metres?|meters?|kilometres?|miles?|mg|g|kg"
    r"|grams?|kilograms?|tons?|ml|l|litres?|°C|°F|%|percent"
)
_UNIT = re.compile(rf"\s?({_UNITS})(?!\w)", re.IGNORECASE)
_BY = r"[^.?!]{0,20}\bby $"
_CHANGE = re.compile(
    rf"\b(?:(?P<up>(?:r[io]sen?|rises|grow\w*|grew|increase[ds]?){_BY})"
    rf"|(?P<down>(?:f[ae]ll(?:s|en)?|dropp?e?[ds]?|decrease[ds]?|sank){_BY}))",
    re.IGNORECASE,
)
NOT_THEN = ", so what is to be done only then is not to be done"
_LAST_CHOICE = re.compile(
    r"\b(?:otherwise|or else|if not)\b(?:(?!\b(?:and|always|then|also|in any case)\b|[.?!;]\s+\S).)*$",
    re.IGNORECASE | re.DOTALL,
)
"""Where nothing comes after the other way that is to be done in any case."""
_ONE = ", so only what is to be done {} is to be done"


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound that a question sets.

    Attributes:
        words: Such as ``"below 6.5"``.
        number: The number in it.
        holds: Whether a value (first) keeps it (second).
        way: ``"up"`` or ``"down"`` where it bounds how far something rose or fell; empty otherwise.
        unit: What it is measured in; empty where that is not said.
        is_condition: Whether something is to be done if it is kept.
    """

    words: str
    number: float
    holds: Callable[[float, float], bool]
    way: str = ""
    unit: str = ""
    is_condition: bool = False

    def of(self, value: float) -> str:
        """``"is below 6.5"`` or ``"is not below 6.5"``."""
        return f"is {'' if self.holds(value, self.number) else 'not '}{self.words}"


def bound_of(question: str) -> Bound | None:
    """Find the bound that a question sets to what is looked up; None where there is none, or any doubt."""
    matches = list(_PATTERN.finditer(question)) if len(question) <= LONGEST else []
    if len(matches) != 1:
        return None
    match = matches[0]
    before = re.split(r"[.?!;]\s", question[: match.start()])[-1]
    after = question[match.end() :]
    opens = list(_OPENS.finditer(before))
    if (
        not opens
        or _SILENT.search(before)
        or _AMOUNT.search(before[opens[-1].end() :])
        or _AFTER.match(after)
    ):
        return None
    place = next(n for n in range(len(_KINDS)) if match[f"k{n}"])
    written = match[f"number{place}"]
    _, holds, words = _KINDS[place]
    change, unit = _CHANGE.search(before), _UNIT.match(after)
    return Bound(
        f"{words} {written}" if words else match[0],
        float(written.replace(",", "")),
        holds,
        change.lastgroup or "" if change else "",
        unit[1] if unit else "",
        _IF.search(before) is not None,
    )


def sides(question: str, rows: Sequence[Row], about: str = "", *, is_all: bool = True) -> str:
    """Say on which side of the question's bound numbers lie.

    Args:
        question: The question.
        rows: Numbers that were looked up with one tool, in the order in which they were.
        about: What the tool says of itself.
        is_all: Whether nothing is left to be looked up.

    Returns:
        ``"Of these, only W2 and W3 are below 6.5."``, or of a single one ``"7.1 is not below 6.5."``; where the
        question bounds a change, this of the two. Empty where it sets no bound, or any doubt is left.
    """
    bound = bound_of(question)
    if bound is None or _is_other_unit(bound, rows, about):
        return ""
    if bound.way:
        return _changed(bound, rows, question) if len(rows) == 2 else ""
    if not is_all or len(rows) == 1:
        row = rows[-1]
        return (
            f"{row.written} {bound.of(row.value)}{_to_do(bound, row, question) if is_all else ''}."
        )
    within = [row.label for row in rows if bound.holds(row.value, bound.number)]
    if not within:
        return f"None of these is {bound.words}."
    if len(within) == len(rows):
        return f"All of these are {bound.words}."
    return f"Of these, only {' and '.join(within)} {'is' if len(within) == 1 else 'are'} {bound.words}."


def _to_do(bound: Bound, row: Row, question: str) -> str:
    """What follows for what is to be done, in words that can stand behind the comparison."""
    is_kept = bound.holds(row.value, bound.number)
    if bound.is_condition and is_choice(question) and _LAST_CHOICE.search(question):
        return _ONE.format("then" if is_kept else "otherwise")
    return NOT_THEN if bound.is_condition and not is_kept else ""


def _is_other_unit(bound: Bound, rows: Sequence[Row], about: str) -> bool:
    """Whether the tool may count in something else than the question."""
    if bound.unit.lower() in ("%", "percent"):
        return all(0 <= row.value <= 1 for row in rows)
    told = {
        unit.lower().rstrip("s")
        for unit in re.findall(rf"(?<!\w)(?:{_UNITS})(?!\w)", about, re.IGNORECASE)
    }
    return bool(bound.unit and told) and bound.unit.lower().rstrip("s") not in told


def _changed(bound: Bound, rows: Sequence[Row], question: str) -> str:
    """Whether a change keeps the bound, from the one that the question names first to the other."""
    places = [question.find(row.label) for row in rows]
    if min(places) < 0 or bound.unit in ("%", "percent"):
        return ""
    first, last = (
        row for _, row in sorted(zip(places, rows, strict=True), key=lambda pair: pair[0])
    )
    try:
        change = Decimal(last.written) - Decimal(first.written)
    except InvalidOperation:
        return ""
    change = -change if bound.way == "down" else change
    what = "rise" if bound.way == "up" else "fall"
    return f"The {what} from {first.written} to {last.written} is {change}, which {bound.of(float(change))}."
