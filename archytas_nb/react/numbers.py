"""Numbers of an answer that come from nowhere: what a small model invents most often.

Pure text: it knows neither models nor tools.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable

from archytas_nb.react.events import Json

_NUMBER = re.compile(r"(?<![\w.])[-−]?\d[\d,]*(?:\.\d+)?")
_HOW_MANY = re.compile(
    r"\bhow (?:many|much|long|far|old|large|big|high|tall|heavy|warm|cold|fast|often)\b", re.IGNORECASE
)
_MEASURE = re.compile(
    r"\bhow (?:much|long|far|old|large|big|high|tall|heavy|warm|cold|fast)\b|\b(?:price|cost) of\b"
    r"|\bwhat (?:does|do|did|would|will)\b[^.?!]*\bcost\b",
    re.IGNORECASE,
)
_MEASURED = re.compile(r"(?<![\w.-])-?\.?\d[\d,]*(?:\.\d+)?(?![\w-])")
FEW = 40
"""Numbers that were told; of more than these nearly every other one can be reckoned."""
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
    doubtful = {text: value for text, value in asked.items() if not (value.is_integer() and abs(value) <= SMALL)}
    if not doubtful:
        return []
    held = {_value(text) for source in sources for text in _NUMBER.findall(source)}
    return [text for text, value in doubtful.items() if not _is_held(text, value, held)]


def unfounded_inputs(given: Json, schema: Json, sources: Iterable[str]) -> list[str]:
    """Find the numbers of a call's input that no source holds, and that are not reckoned from two that do.

    Args:
        given: The input.
        schema: The JSON schema of the tool's input: what has a default is the model's own choice.
        sources: The question and what the model was told.
    """
    needed = schema.get("required", ()) if isinstance(schema, dict) else ()
    values = [given.get(name) for name in needed] if isinstance(given, dict) else [given]
    sent = [str(value) for value in values if isinstance(value, (int, float)) and not isinstance(value, bool)]
    texts = list(sources)
    missing = unfounded(" ".join(sent), texts)
    if not missing:
        return []
    held = {_value(text) for source in texts for text in _NUMBER.findall(source)}
    if len(held) > FEW:
        return []
    reckoned = {n for a in held for b in held for n in (a + b, a - b, a * b, a / b if b else a)}
    return [each for each in missing if not any(math.isclose(_value(each), n, rel_tol=1e-3) for n in reckoned)]


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
