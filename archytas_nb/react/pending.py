"""Things that were named side by side, of which a model has looked at some and not yet at others.

A small model looks up the first of them, and then acts or answers as if it knew them all.
Pure text: it knows neither models nor tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from archytas_nb.react.events import Json
from archytas_nb.react.names import several
from archytas_nb.react.ranking import inputs_of, number_of

MOST = 12
"""Things of one list; a longer one is not gone through."""
_LENGTH = 40  # characters of a thing: longer texts are no names
_JOINT = r"(?-i:, ?(?:(?:and|or|und|oder) )?| (?:and|or|und|oder|et|ou|y|o|than|vs\.?) )(?:the )?"


def pending(question: str, worked: Iterable[tuple[str, Json, str]]) -> list[str]:
    """Find what was named beside things that numbers were looked up for, and for which none was.

    Args:
        question: The question.
        worked: Name, input and outcome of the calls that worked, in the order they were made.

    Returns:
        The things, as they were named: those that the question names beside a thing that was used, and those in
        a list that a call came to, where the question does not name the one that was picked from it.
    """
    calls = list(worked)
    lists = [things for _, _, said in calls if (things := listed(said))]
    used = [
        value for _, given, said in calls if number_of(said) is not None for value in inputs_of(given).values()
    ]
    found: dict[str, None] = {}
    for value in used:
        found |= dict.fromkeys(beside(value, question))
        if value.lower() not in question.lower():
            found |= dict.fromkeys(each for things in lists if value in things for each in things)
    looked_up = {value.lower() for value in used}
    return [each for each in found if each.lower() not in looked_up]


def listed(outcome: str) -> list[str]:
    """The names that an outcome lists and that is nothing else; none where it is no such list."""
    try:
        things = json.loads(outcome)
    except ValueError:
        things = several(outcome)
    if not isinstance(things, list) or not 2 <= len(things) <= MOST or len(set(map(str, things))) < len(things):
        return []
    return things if all(isinstance(each, str) and 0 < len(each) <= _LENGTH for each in things) else []


def beside(thing: str, text: str) -> list[str]:
    """The names that a text lists beside this one, as in ``"Rhine, Elbe or Oder"``.

    A neighbour has as many words as the thing and begins as it does, with a capital or without one; two words in
    lower case that ``and`` joins may be anything ("check and report"), so they count only among three.
    """
    words = len(thing.split())
    if not thing or words > 3 or len(thing) > _LENGTH:
        return []
    word = r"(?!(?-i:and|or|und|oder|the|a|an) )[\w'-]+(?:\.\w+)*"
    name = word + rf" {word}" * (words - 1)
    quote = "[\"'“”]?"
    row = rf"(?<![\w.-])(?:{quote}{name}{quote}{_JOINT})*{quote}{re.escape(thing)}{quote}(?![\w-])"
    row += rf"(?:{_JOINT}{quote}{name}{quote}(?![\w-]))*"
    match = re.search(row, text, re.IGNORECASE)
    if not match:
        return []
    things = [each.strip("\"'“”") for each in re.split(_JOINT, match[0])]
    alike = [each for each in things if each and _kind(each) == _kind(thing)]
    is_name = _kind(thing) != (False, False)
    if is_name or len(alike) > 2 or re.search(r" (?:or|oder|ou|o|than|vs\.?) ", match[0]):
        return [each for each in alike if each.lower() != thing.lower()]
    return []


def _kind(thing: str) -> tuple[bool, bool]:
    """Whether it begins with a capital, and whether it looks like a number or a name of code."""
    return thing[:1].isupper(), re.search(r"[\d_.]", thing) is not None
