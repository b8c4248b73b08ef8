"""Whether two outcomes are the same, where the question makes something depend on it.

A small model looks up both, thinks "they are different", and does what was to be done only if they are the same.
Pure text, in English: it knows neither models nor tools.
"""

from __future__ import annotations

import re

from archytas_nb.loop.bounds import NOT_THEN
from archytas_nb.loop.pending import Worked, is_choice
from archytas_nb.loop.ranking import inputs_of, labels_of, number_of

LONGEST = 1000
"""Characters of a question that are read."""
SHORT = 60
"""Characters of an outcome that is a word, a code or a number."""

_TWO = r"(?:they|both|these|those|the two|the two \w+|(?:the )?\w+ and \w+|\w+s)"
_SAME = re.compile(
    rf"(?:\b{_TWO} (?:are|have)(?: exactly)? (?P<same>the same|equal|identical)"
    rf"|\b(?:are|have) {_TWO}(?: exactly)? (?P<asked>the same|equal|identical)"
    rf"|\b{_TWO} (?P<match>match)|\b{_TWO} (?:are (?P<other>different)|(?P<differ>differ)))"
    r"(?=\s*(?:[,.?!;]|$|then\b))",
    re.IGNORECASE,
)
_IF = re.compile(r"\b(?:if|when)\b", re.IGNORECASE)
_SILENT = re.compile(
    r"\b(?:not|never|unless|except|without|nearly|almost|roughly|more|less|all|three|four|five|\d+|sum|either"
    r"|one of|or|as|from|by|to|what if)\b|n[’']t\b",
    re.IGNORECASE,
)
_NOTHING = {
    "none",
    "null",
    "unknown",
    "nan",
    "done",
    "ok",
    "true",
    "false",
    "yes",
    "no",
    "n/a",
    "-",
    "",
}
_CODE = re.compile(r"[\w.:/-]+")


def compared(question: str, worked: Worked, name: str) -> str:
    """Say whether the two things that a tool was called for came to the same.

    Args:
        question: The question.
        worked: The calls that worked.
        name: The tool.

    Returns:
        ``"anna (a41f09) and bela (77bc2e) are not the same."``, and what is not to be done then. Empty where the
        question does not ask for it, where the tool told something else than two words or numbers, or in doubt.
    """
    matches = list(_SAME.finditer(question)) if len(question) <= LONGEST else []
    if len(matches) != 1 or is_choice(question):
        return ""
    match = matches[0]
    before = re.split(r"[.?!;]\s", question[: match.end()])[-1]
    if _SILENT.search(before) or re.match(r"\s*,?\s*(?:and|or)\b", question[match.end() :]):
        return ""
    calls = [(inputs_of(given), said.strip()) for tool, given, said in worked if tool == name]
    labels = labels_of([given for given, _ in calls])
    if len(labels) != 2 or not all(label.lower() in question.lower() for label in labels):
        return ""
    first, second = (said for _, said in calls)
    is_same = _alike(first, second)
    if is_same is None:
        return ""
    wants_same = not (match["other"] or match["differ"])
    is_out = _IF.search(before) is not None and is_same != wants_same
    told = " and ".join(
        f"{label} ({said})" for label, said in zip(labels, (first, second), strict=True)
    )
    return f"{told} are {'' if is_same else 'not '}the same{NOT_THEN if is_out else ''}."


def _alike(first: str, second: str) -> bool | None:
    """Whether two outcomes are the same; None where it depends on how one looks at them."""
    both = [first.casefold(), second.casefold()]
    if any(each in _NOTHING or len(each) > SHORT or not _CODE.fullmatch(each) for each in both):
        return None
    if first == second:
        return True
    if both[0] == both[1] or any(number_of(each) is not None for each in both):
        one, other = map(number_of, both)
        return None if one is None or other is None else one == other
    return False
