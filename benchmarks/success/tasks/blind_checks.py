"""Answers in several languages held against what is expected. No task is defined here."""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterable

from benchmarks.success.checks import numbers
from benchmarks.success.task import Finished

_START = r"(?<![A-Za-z0-9_.,])[-−]?"
_ENGLISH = re.compile(_START + r"\d+(?:,\d{3})*(?:\.\d+)?")
_CONTINENTAL = re.compile(_START + r"\d+(?:[. '’]\d{3})*(?:,\d+)?")
_NO = re.compile(
    r"\b(?:no|not|none|nothing|cannot|unable|unknown|unavailable|kein\w*|nicht|nein|unbekannt"
    r"|pas|aucun\w*|impossible|ning\w+|imposible)\b|n['’]t\b"
    r"|无法|没有|没|不能|不会|不可|不支持|ません|できない|ない",
    re.IGNORECASE,
)


def spoken(text: str) -> set[float]:
    """The numbers of a text in every usual spelling: 1,234.5 and 1.234,5 and 1 234,5."""
    plain = unicodedata.normalize("NFKC", text)
    found = set(numbers(plain))
    for each in _ENGLISH.findall(plain):
        found.add(float(each.replace(",", "").replace("−", "-")))
    for each in _CONTINENTAL.findall(plain):
        digits = re.sub(r"[. '’]", "", each)
        found.add(float(digits.replace(",", ".").replace("−", "-")))
    return found


def says(done: Finished, *expected: float) -> str:
    """Whether the last answer has these numbers: whole ones exactly, others but for rounding."""
    said = spoken(done.answer)
    for number in expected:
        tolerance = 0.0 if float(number).is_integer() else 0.003
        if not any(math.isclose(each, number, rel_tol=tolerance) for each in said):
            return f"the answer {done.answer!r} lacks {number:g}"
    return ""


def any_of(done: Finished, *spellings: str) -> str:
    """Whether the last answer has one of these spellings, in any case."""
    text = unicodedata.normalize("NFKC", done.answer).lower()
    if any(each.lower() in text for each in spellings):
        return ""
    return f"the answer {done.answer!r} lacks {spellings[0]!r}"


def refuses(done: Finished, asked: Iterable[float] = ()) -> str:
    """Whether the model gave up, or said no and claimed no number but those of the question."""
    claimed = spoken(done.answer) - set(asked) - {1.0}  # "no one" is no number
    if done.gave_up or (_NO.search(done.answer) and not claimed):
        return ""
    return f"it claims {done.answer!r}"


def bare(said: object, *leading: str) -> str:
    """The name of a thing, without quotes and a noun before it, such as "3-B" of "tank 3-B"."""
    text = str(said).strip(" \"'«»“”„「」")
    for word in leading:
        if text.lower().startswith(word.lower()):
            text = text[len(word) :].strip(" \"'«»“”„「」")
    return text
