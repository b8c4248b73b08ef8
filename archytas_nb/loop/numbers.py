"""Numbers of an answer that come from nowhere: what a small model invents most often.

Pure text: it knows neither models nor tools.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from archytas_nb.loop.events import Json

_NUMBER = re.compile(r"(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?")
_HOW_MANY = re.compile(
    r"\bhow (?:many|much|long|far|old|large|big|high|tall|heavy|warm|cold|fast|often)\b",
    re.IGNORECASE,
)
_MEASURE = re.compile(
    r"\bhow (?:much|long|far|old|large|big|high|tall|heavy|warm|cold|fast)\b|\b(?:price|cost) of\b"
    r"|\bwhat (?:does|do|did|would|will)\b[^.?!]*\bcost\b",
    re.IGNORECASE,
)
_MEASURED = re.compile(r"(?<![\w.-])-?\.?\d[\d,]*(?:\.\d+)?(?![\w-])")
FEW = 20
"""Numbers that were told; of more than these nearly every other one can be reckoned."""
FACTORS = (0.01, 0.1, 7, 10, 12, 24, 60, 100, 1000, 3600, 1e6)
"""Between units."""
LONGEST = 4000
"""Characters of a text whose numbers are gone through."""
_DIGITS = re.compile(r"\d[\d,]*(?:\.\d+)?")
_IN_WORDS = re.compile(
    r"\b(?:[a-z]*teen|twelve|eleven|(?:twen|thir|for|fif|six|seven|eigh|nine)ty|hundred|thousand|million|billion|dozen"
    r"|half|third|quarter|percent|today|this year)\b|%|°|√|\d ?[kKM]\b|\d[eE]\d|\d:\d",
    re.IGNORECASE,
)
SMALL = 10
"""Whole numbers up to this one are mostly counts of what was just listed, and are let pass."""


def unfounded(answer: str, sources: Iterable[str]) -> list[str]:
    """Find the numbers of an answer that no source holds.

    A number is founded where a source has it, or one that rounds to it.

    Args:
        answer: The answer.
        sources: The texts that the answer may rest on: questions and outcomes.

    Returns:
        The numbers as the answer writes them, in order, each once.
    """
    asked = {text: _value(text) for text in _NUMBER.findall(answer)}
    doubtful = {
        text: value
        for text, value in asked.items()
        if not (value.is_integer() and abs(value) <= SMALL)
    }
    if not doubtful:
        return []
    held = {_value(text) for source in sources for text in _NUMBER.findall(source)}
    return [text for text, value in doubtful.items() if not _is_held(text, value, held)]


def unfounded_inputs(given: Json, schema: Json, sources: Iterable[str]) -> list[str]:
    """Find the numbers of a call's input that no source holds, and that are not reckoned from one or two that do.

    Args:
        given: The input.
        schema: The JSON schema of the tool's input: what has a default is the model's own choice.
        sources: The question and what the model was told.

    Returns:
        The numbers; none where a source has numbers in words, or in units that are often turned into others.
    """
    needed = schema.get("required") if isinstance(schema, dict) else ()
    values = [given.get(name) for name in needed or ()] if isinstance(given, dict) else [given]
    numbers = [
        float(value) for value in values if isinstance(value, (int, float)) and _is_number(value)
    ]
    sent = [value for value in numbers if not (value.is_integer() and abs(value) <= SMALL)]
    if not sent:
        return []
    texts = list(sources)
    if any(len(text) > LONGEST or _IN_WORDS.search(text) for text in texts):
        return []
    held = {_value(text) for source in texts for text in _DIGITS.findall(source)}
    if not held or len(held) > FEW:
        return []
    found = {
        n
        for a in held
        for b in (*held, *FACTORS)
        for n in (a, a + b, a - b, a * b, a / b if b else a)
    }
    return [
        f"{each:g}" for each in sent if not any(math.isclose(each, n, rel_tol=1e-2) for n in found)
    ]


def _is_number(value: float) -> bool:
    return not isinstance(value, bool) and abs(value) < 1e15


def lacks_numbers(answer: str, question: str, found: Iterable[str]) -> bool:
    """Whether an answer has no digit where the question asks how many (in English), and outcomes are numbers.

    Args:
        answer: The answer.
        question: The question.
        found: What the calls that worked came to.
    """
    if not _HOW_MANY.search(question) or any(each.isdigit() for each in answer):
        return False
    return any(_NUMBER.fullmatch(text.strip()) for text in found)


def lacks_measure(answer: str, question: str, found: Iterable[str]) -> bool:
    """Whether a question asks for a measure or a price, in English, that neither answer nor outcomes can have.

    They can have none where every outcome is a single word without a number, such as a code (``FX-221``), and the
    answer has no number but those of the question.

    Args:
        answer: The answer.
        question: The question.
        found: What the calls that worked came to.
    """
    outcomes = [text.strip() for text in found]
    if not outcomes or not _MEASURE.search(question):
        return False
    if any(" " in text or _MEASURED.search(text) for text in outcomes):
        return False
    return set(_MEASURED.findall(answer)) <= set(_MEASURED.findall(question))


def _is_held(text: str, value: float, held: set[float]) -> bool:
    digits = len(text.partition(".")[2])
    return any(value in (each, -each) or round(abs(each), digits) == abs(value) for each in held)


def _value(text: str) -> float:
    return float(text.replace(",", "").replace("−", "-"))
