"""Things that were named side by side, of which a model has looked at some and not yet at others.

A small model looks up the first of them, and then acts or answers as if it knew them all.
Pure text: it knows neither models nor tools.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from typing import TypeAlias

from archytas_nb.react.enumeration import beside
from archytas_nb.react.events import Json
from archytas_nb.react.names import several, words
from archytas_nb.react.ranking import inputs_of, number_of

Worked: TypeAlias = Sequence[tuple[str, Json, str]]
"""Name, input and outcome of the calls that worked, in the order they were made."""

MOST = 12
"""Things of one list; a longer one is not gone through."""
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
    lists = [things for _, _, said in worked if (things := listed(said))]
    numeric = [given for tool, given, said in worked if tool == name and number_of(said) is not None]
    found: dict[str, None] = {}
    for value in _values(numeric):
        found |= dict.fromkeys(beside(value, question))
        if value.lower() not in question.lower() and not words(value) & words(question):
            found |= dict.fromkeys(each for things in lists if value in things for each in things)
    return _without(found, _values([given for tool, given, _ in worked if tool == name]))


def untouched(question: str, worked: Worked) -> list[str]:
    """What is `pending` of any tool, and that no call at all was made for."""
    found = dict.fromkeys(each for name, _, _ in worked for each in pending(question, worked, name))
    return _without(found, _values([given for _, given, _ in worked]))


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


def _values(inputs: Sequence[Json]) -> Iterator[str]:
    return (value for given in inputs for value in inputs_of(given).values() if value)


def _without(things: dict[str, None], values: Iterator[str]) -> list[str]:
    """Those that no value is about: "Elbe" was looked up with "River Elbe", too."""
    text = "\n".join(values)
    return [each for each in things if not re.search(rf"(?<!\w){re.escape(each)}(?!\w)", text, re.IGNORECASE)]
