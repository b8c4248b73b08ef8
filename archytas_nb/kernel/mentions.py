"""The variables and columns that a question names.

A name counts as a whole word, unless it is a word of the sentence: a single letter, which may be a
unit or an article, needs more evidence. People usually write the name of a column in words: its
name counts in upper or lower case, and with any signs between its words (`miles per gallon` names
``Miles_per_Gallon``). If a question names nothing else, a word of a name is enough (`body mass` for
``Body Mass (g)``), unless many tables have it.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import TypeVar

_Owner = TypeVar("_Owner")

_WORD = re.compile(r"[^\W_]+")
_UNIT_LENGTH = 2  # letters of a name that counts as a unit after a number
_SHORTEST_COLUMN = 3  # letters of the name of a column that counts as a word
_MOST_OWNERS = 2
"""How many variables may share a column that names them: a table, and tables made from it."""
_MOST_WORDS = 12  # of the name of a column
_MOST_CHARACTERS = 240  # of it that are read
_SHORTEST_PART = 4  # letters of a word of it that counts by itself


def place_of(name: str, question: str) -> int:
    """The place where a question names a variable; -1 if it does not."""
    for found in re.finditer(rf"(?<!\w){re.escape(name)}(?!\w)", question):
        if not _is_word_of_sentence(name, question[: found.start()], question[found.end() :]):
            return found.start()
    return -1


def _is_word_of_sentence(name: str, before: str, after: str) -> bool:
    """Whether a short name is a unit, as in "5 g", or an article, as in "a bird"."""
    if len(name) <= _UNIT_LENGTH and re.search(r"\d[ \u00a0\u202f]?$", before):
        return True
    return len(name) == 1 and re.match(r"['’]?\s*\w", after) is not None


def columns_named(names: Iterable[str], question: str) -> list[int]:
    """The places of the columns that a question names."""
    words = _Words(question)
    return [place for place, name in enumerate(names) if words.place(name) >= 0]


def owners_named(
    columns: Mapping[_Owner, Iterable[str]],
    question: str,
    named: Collection[_Owner] = (),
    without: Collection[str] = (),
) -> Iterator[tuple[_Owner, int]]:
    """The owners of columns that a question names, each with a place.

    Args:
        columns: The names of the columns of each owner.
        question: The question.
        named: The owners that the question names: their columns mean no other owner.
        without: Names that do not count.
    """
    words = _Words(question)
    columns = {
        owner: [each for each in names if each not in without] for owner, names in columns.items()
    }
    found: defaultdict[str, dict[_Owner, int]] = defaultdict(dict)
    for owner, names in columns.items():
        for name in names:
            if (place := words.place(name)) >= 0:
                found[name.casefold()][owner] = place
    if not (found or named):  # then a part of a name is a hint
        for owner, names in columns.items():
            for word, place in words.parts(names):
                found[word][owner] = place
    for owners in found.values():
        if len(owners) <= _MOST_OWNERS and owners.keys().isdisjoint(named):
            yield from owners.items()


class _Words:
    """The words of a question, in which names are looked up."""

    def __init__(self, question: str) -> None:
        self._question = question
        found = [(each[0].casefold(), each.start()) for each in _WORD.finditer(question)]
        self._words = [word for word, _ in found]
        self._starts = [start for _, start in found]
        self._known = frozenset(self._words)

    def place(self, name: str) -> int:
        """The place where a column is named; -1 if it is not."""
        words = _WORD.findall(name[:_MOST_CHARACTERS].casefold())
        if not words or len(words) > _MOST_WORDS or not self._known.issuperset(words):
            return -1
        if sum(map(len, words)) < _SHORTEST_COLUMN or name.isdigit():
            return self._quoted(name)
        size = len(words)
        for at in range(len(self._words) - size + 1):
            if self._words[at : at + size] == words:
                return self._starts[at]
        return -1

    def parts(self, names: Iterable[str]) -> Iterator[tuple[str, int]]:
        """The words of these names that the question has, and where."""
        of_names = {
            word for name in names for word in _WORD.findall(name[:_MOST_CHARACTERS].casefold())
        }
        for word, start in zip(self._words, self._starts, strict=True):
            if len(word) >= _SHORTEST_PART and word in of_names and not word.isdigit():
                yield word, start

    def _quoted(self, name: str) -> int:
        """The position of a short name in quotes."""
        found = re.search(rf"([`'\"]){re.escape(name)}\1", self._question)
        return -1 if found is None else found.start()
