"""What a question wants with or without, and a call has the other way round.

Such as ``with_replacement=False`` where "with replacement" was asked for: a small model leaves out what has a
default, and forgets "without".
Pure text, in English: it knows neither models nor tools.
"""

from __future__ import annotations

import re

from archytas_nb.loop.events import Json

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
_NEGATED = {"no", "not", "without", "skip", "exclude", "drop", "ignore", "disable"}
_AFTER = r"(?=\s*(?:[,.;?!)]|$|(?:and|for|from|of|on|in|to)\b))"
"""What may follow: "with log file out.txt" is about something else than a switch named ``log``."""
_SILENT = re.compile(
    r"\b(?:not|never|should|whether|compare|both|versus|vs|either|wrong|nor|cannot|than|or)\b|n[’']t\b"
    r"|\bwith(?:out)?(?: it| one)?\s*$|\bways\b",
    re.IGNORECASE,
)


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
    if not isinstance(given, dict) or not isinstance(switches, dict) or len(question) > LONGEST:
        return {}
    wrong = {}
    for name, switch in switches.items():
        if (
            not isinstance(name, str)
            or not isinstance(switch, dict)
            or switch.get("type") != "boolean"
        ):
            continue
        value = given.get(name, switch.get("default"))
        wanted = _wanted(question, name)
        if wanted is not None and isinstance(value, bool) and value != wanted:
            wrong[name] = wanted
    return wrong


def with_defaults(given: Json, schema: Json) -> Json:
    """An input with what it leaves out, as far as the schema says what that is."""
    named = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(given, dict) or not isinstance(named, dict):
        return given
    left = {
        name: each["default"]
        for name, each in named.items()
        if isinstance(each, dict) and "default" in each
    }
    return {**left, **given}


def _wanted(question: str, name: str) -> bool | None:
    """Whether a question wants what a parameter is named after; None where it does not say, or in any doubt."""
    words = [word for word in name.lower().split("_") if word not in _VERBS]
    if not words or len(name) > LONGEST or words[0] in _NEGATED:
        return None
    thing = r"[ -]".join(map(re.escape, words))
    said = rf"\b(with|without) (?:an? |the |any )?{thing}s?{_AFTER}"
    found = set()
    for match in re.finditer(said, question, re.IGNORECASE):
        clause = (
            re.split(r"[.?!;]\s", question[: match.start()])[-1]
            + re.split(r"[.?!;]", question[match.end() :])[0]
        )
        if _SILENT.search(clause):
            return None
        found.add(match[1].lower() == "with")
    return found.pop() if len(found) == 1 else None
