"""Names in questions and inputs: those that no call has used, and those that were sent together as one.

Pure text: it knows neither models nor tools.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

_NAME = re.compile(
    r"""[\"“]([^\"”]+)[\"”]             # what stands in quotes
    | \b[A-Za-z]\w*(?:[._]\w+)+        # lakes.csv, body_mass_g
    | (?<=[\w,;:)]\s)[A-Z][\w-]*       # a capital that does not begin a sentence
    """,
    re.VERBOSE,
)
"""Where a language writes all its nouns with a capital, a doubt too many costs a reply."""


def unused(question: str, used: Iterable[str]) -> list[str]:
    """Find the names of a question that are in none of the given texts.

    Args:
        question: The question.
        used: The inputs of the calls that worked, and what they came to.

    Returns:
        The names as the question writes them, in order, each once. None where none of them was used: then the
        calls were about something else, and the names say nothing.
    """
    names = dict.fromkeys(match[1] or match[0] for match in _NAME.finditer(question))
    text = "\n".join(used).lower()
    missing = [name for name in names if name.lower() not in text]
    return missing if len(missing) < len(names) else []


_THING = r"[\w.-]+(?: [\w.-]+)?"
_SEVERAL = re.compile(rf"{_THING}(?:, {_THING})*(?:,? (?:and|und|et|y|&) |, ){_THING}")


def several(value: str) -> list[str]:
    """Split a text that lists things of one or two words each, as in ``"Rhine, Elbe and Oder"``.

    Returns:
        The things, two or more; none where the text is something else.
    """
    if not _SEVERAL.fullmatch(value.strip()):
        return []
    return [each for each in re.split(r",? (?:and|und|et|y|&) |, ", value.strip()) if each]
