"""Whether two outcomes are the same, where the question makes something depend on it.

A small model looks up both, thinks "they are different", and does what was to be done only if they are the same.
Pure text, in English: it knows neither models nor tools.
"""

from __future__ import annotations

import re

from archytas_nb.react.bounds import NOT_THEN
from archytas_nb.react.pending import Worked
from archytas_nb.react.ranking import inputs_of, labels_of

LONGEST = 1000
"""Characters of a question that are read."""
SHORT = 60
"""Characters of an outcome that is a name or a code: of longer texts one asks something else."""

_ASKED = re.compile(r"\b(?P<if>if|when)\b|\bwhether\b|\b(?:are|is|have|has|do|does)\b", re.IGNORECASE)
_SAME = re.compile(
    r"\b(?:(?:are|is|have|has)(?: (?:they|both|these|the two))?(?: exactly)? (?P<same>the same|equal|identical)"
    r"|(?:are|is)(?: (?:they|both|these|the two))? (?P<other>different)"
    r"|(?P<match>match(?:es)?)|(?P<differ>differs?))\b",
    re.IGNORECASE,
)
_SILENT = re.compile(
    r"\b(?:not|never|unless|except|without|nearly|almost|roughly|more|less)\b|n[’']t\b", re.IGNORECASE
)


def compared(question: str, worked: Worked, name: str) -> str:
    """Say whether the two things that a tool was called for came to the same.

    Args:
        question: The question.
        worked: The calls that worked.
        name: The tool.

    Returns:
        ``"anna (a41f09) and bela (77bc2e) are not the same."``, and what is not to be done then. Empty where the
        question does not ask for it, where the tool told something else than two short texts, or in any doubt.
    """
    matches = list(_SAME.finditer(question)) if len(question) <= LONGEST else []
    if len(matches) != 1:
        return ""
    before = re.split(r"[.?!;]\s", question[: matches[0].end()])[-1]
    asked = list(_ASKED.finditer(before))
    if not asked or _SILENT.search(before):
        return ""
    calls = [(inputs_of(given), said.strip()) for tool, given, said in worked if tool == name]
    labels = labels_of([given for given, _ in calls])
    if len(labels) != 2 or not all(0 < len(said) <= SHORT and "\n" not in said for _, said in calls):
        return ""
    first, second = (said for _, said in calls)
    is_same = first == second
    wants_same = bool(matches[0]["same"] or matches[0]["match"])
    is_out = any(each["if"] for each in asked) and is_same != wants_same
    told = " and ".join(f"{label} ({said})" for label, said in zip(labels, (first, second), strict=True))
    return f"{told} are {'' if is_same else 'not '}the same{NOT_THEN if is_out else ''}."
