"""What a question wants with or without, and a call has the other way round.

Such as ``with_replacement=False`` where "with replacement" was asked for: a small model leaves out what has a
default, and forgets "without".
Pure text, in English: it knows neither models nor tools.
"""

from __future__ import annotations

import re

from archytas_nb.react.events import Json

LONGEST = 1000
"""Characters of a question that are read."""
_VERBS = {
    "with",
    "is",
    "use",
    "has",
    "do",
    "add",
    "include",
    "keep",
    "fit",
    "want",
    "wants",
    "as",
    "be",
    "the",
    "in",
}
"""Words of a parameter's name that are no part of what it is about."""


def contradicted(question: str, given: Json, schema: Json) -> dict[str, bool]:
    """Find the switches of a call that are not as the question wants them.

    Args:
        question: The question.
        given: The call's input.
        schema: The JSON schema of the tool's input.

    Returns:
        By parameter, what it must be: of those that are true or false, about which the question says "with" or
        "without" and nothing else. A call that leaves one out has its default.
    """
    switches = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(given, dict) or not isinstance(switches, dict):
        return {}
    wrong = {}
    for name, switch in switches.items():
        if not isinstance(switch, dict) or switch.get("type") != "boolean":
            continue
        value = given.get(name, switch.get("default"))
        wanted = _wanted(question[:LONGEST], name)
        if wanted is not None and isinstance(value, bool) and value != wanted:
            wrong[name] = wanted
    return wrong


def _wanted(question: str, name: str) -> bool | None:
    """Whether a question wants what a parameter is named after; None where it does not say, or says both."""
    words = [word for word in name.lower().split("_") if word not in _VERBS]
    if not words or words[0] in ("no", "not", "without", "skip", "exclude", "drop", "ignore", "disable"):
        return None
    thing = r"[ -]".join(map(re.escape, words))
    found = {
        match[1].lower() == "with"
        for match in re.finditer(rf"\b(with|without|no) (?:an? |the |any )?{thing}s?\b", question, re.IGNORECASE)
    }
    return found.pop() if len(found) == 1 else None
