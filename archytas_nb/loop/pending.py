"""Things that were named side by side, of which a model has looked at some and not yet at others.

A small model looks up the first of them, and then acts or answers as if it knew them all.
Pure text: it knows neither models nor tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from archytas_nb.loop.enumeration import beside
from archytas_nb.loop.events import Json
from archytas_nb.loop.names import several, words
from archytas_nb.loop.ranking import inputs_of, number_of

Worked: TypeAlias = Sequence[tuple[str, Json, str]]
"""Name, input and outcome of the calls that worked, in the order they were made."""

MOST = 12
"""Things of one list; a longer one is not gone through."""
_FROM_TO = re.compile(r"\bfrom (([a-z]+) \d\w*) to (\2 \d\w*)\b", re.IGNORECASE)
_CHOICE = re.compile(r"\b(?:otherwise|or else|if not)\b", re.IGNORECASE)
_COMPARED = re.compile(r"\b(?:\w+er|more|less) (?:\w+ ){0,4}than (?!\d)", re.IGNORECASE)
_LENGTH = 40  # characters of a thing: longer texts are no names


def pending(question: str, worked: Worked, name: str) -> list[str]:
    """Find what was named beside things that a tool gave numbers for, and that it was not called for.

    Args:
        question: The question.
        worked: The calls that worked.
        name: The tool.

    Returns:
        The things, as they were named: those that the question names beside a thing that was used, and those in
        a list that a call came to, where the question does not say which of them to take.
    """
    if is_choice(question):
        return []
    lists = [things for _, _, said in worked if (things := listed(said))]
    numeric = [
        given for tool, given, said in worked if tool == name and number_of(said) is not None
    ]
    found: dict[str, None] = {}
    for value in _values(numeric):
        found |= dict.fromkeys(beside(value, question))
        if value.lower() not in question.lower() and not words(value) & words(question):
            found |= dict.fromkeys(each for things in lists if value in things for each in things)
    return _without(found, _values([given for tool, given, _ in worked if tool == name]))


def untouched(question: str, worked: Worked) -> list[str]:
    """What is `pending` of any tool, or named beside what was used, and that no call at all was made for."""
    if is_choice(question):
        return []
    used = list(_values([given for _, given, _ in worked]))
    found = dict.fromkeys(each for name, _, _ in worked for each in pending(question, worked, name))
    for value in used:
        found |= dict.fromkeys(beside(value, question))
    return [*_without(found, iter(used)), *_ends(question, {value.lower() for value in used})]


def listed(outcome: str) -> list[str]:
    """The names that an outcome lists and that is nothing else; none where it is no such list."""
    try:
        things = json.loads(outcome)
    except (ValueError, RecursionError):
        things = several(outcome)
    if not isinstance(things, list) or not 2 <= len(things) <= MOST:
        return []
    if not all(isinstance(each, str) and 0 < len(each) <= _LENGTH for each in things):
        return []
    return things if len(set(things)) == len(things) else []


def is_choice(question: str) -> bool:
    """Whether one thing is to be done or else another: then nothing is missing after the first."""
    return bool(_CHOICE.search(question)) and not _COMPARED.search(question)


def _ends(question: str, used: set[str]) -> list[str]:
    """The end of "from epoch 10 to epoch 15" that was not used, where the other one was."""
    pairs = [(match[1], match[3]) for match in _FROM_TO.finditer(question)]
    both = [(one, other) for pair in pairs for one, other in (pair, pair[::-1])]
    return [other for one, other in both if _forms(one) & used and not _forms(other) & used]


def _forms(end: str) -> set[str]:
    return {end.lower(), end.rsplit(maxsplit=1)[-1].lower()}


def _values(inputs: Sequence[Json]) -> Iterator[str]:
    return (value for given in inputs for value in inputs_of(given).values() if value)


def _without(things: dict[str, None], values: Iterator[str]) -> list[str]:
    """Those that no value is about: "Elbe" was looked up with "River Elbe", too."""
    text = "\n".join(values)
    return [
        each
        for each in things
        if not re.search(rf"(?<!\w){re.escape(each)}(?!\w)", text, re.IGNORECASE)
    ]
