"""The exchanges of a cassette in their order, which of them are used, and which is nearest to a request.

Pure: it knows no file and no model. A request is found by its fingerprint; the same request asked several times
is given its replies in the order of recording, each once.
"""

from __future__ import annotations

import difflib
from collections import Counter
from collections.abc import Collection, Iterable, Sequence

from archytas_nb.cassettes.format import line_of
from archytas_nb.cassettes.values import Asked, Entry, Exchanged, Part, Request

_COMPARED = 2000  # characters of a message that are looked at to find the most similar one
_CANDIDATES = 8


class Tape:
    """The exchanges of a cassette.

    Args:
        entries: In their order.
    """

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.entries: list[Entry] = list(entries)
        self._users: list[str | None] = [None] * len(self.entries)
        self._at = 0

    def take(self, key: str, origin: str = "", max_tokens: int | None = None) -> Entry | None:
        """Use the first exchange with this key, and fit for this bound, that is not used yet; None for none."""
        for place, entry in enumerate(self.entries):
            if self._users[place] is None and entry.key == key and _fits(entry, max_tokens):
                self._users[place] = origin
                self._at = place + 1
                return entry
        return None

    def put_back(self) -> None:
        """Take the exchange that was used last for unused again."""
        self._at -= 1
        self._users[self._at] = None

    def times(self, key: str, max_tokens: int | None = None) -> int:
        """How often this was recorded, fit for this bound."""
        return sum(entry.key == key and _fits(entry, max_tokens) for entry in self.entries)

    def add(self, entry: Entry, origin: str = "") -> bool:
        """Put a new exchange behind the last one that was used or added; it counts as used.

        Returns:
            Whether it is the last of all.
        """
        self.entries.insert(self._at, entry)
        self._users.insert(self._at, origin)
        self._at += 1
        return self._at == len(self.entries)

    def give_back(self, origin: str) -> list[Entry]:
        """Take what a cell has used for unused again: it is run once more, and begins where it began."""
        places = [place for place, user in enumerate(self._users) if origin and user == origin]
        for place in places:
            self._users[place] = None
        self._at = places[0] if places else self._at
        return [self.entries[place] for place in places]

    def drop(self, entries: Iterable[Entry]) -> None:
        """Drop exchanges, each once, where they are not used."""
        for entry in entries:
            for place, each in enumerate(self.entries):
                if each == entry and self._users[place] is None:
                    del self.entries[place], self._users[place]
                    self._at -= place < self._at
                    break

    @property
    def unused(self) -> list[Entry]:
        """What nobody asked for yet."""
        return [
            entry for entry, user in zip(self.entries, self._users, strict=True) if user is None
        ]

    def unused_names(self) -> list[tuple[str, int]]:
        """The unused exchanges by their keys, and by which of the exchanges with that key each is."""
        seen: Counter[str] = Counter()
        names = []
        for entry, user in zip(self.entries, self._users, strict=True):
            if user is None:
                names.append((entry.key, seen[entry.key]))
            seen[entry.key] += 1
        return names

    def use_all_but(self, names: Collection[tuple[str, int]]) -> None:
        """Take everything for used but what is named, as `unused_names` names it."""
        seen: Counter[str] = Counter()
        for place, entry in enumerate(self.entries):
            self._users[place] = None if (entry.key, seen[entry.key]) in names else ""
            seen[entry.key] += 1

    def prune(self) -> int:
        """Drop what is not used, and say how many that were."""
        unused = self.unused
        self.drop(unused)
        return len(unused)

    def follow(self, entries: Sequence[Entry]) -> None:
        """Take over what somebody else made of the file; what was used stays used."""
        users: dict[str, list[str]] = {}
        for entry, user in zip(self.entries, self._users, strict=True):
            if user is not None:
                users.setdefault(line_of(entry), []).append(user)
        self.entries, self._users, self._at = list(entries), [], 0
        for place, entry in enumerate(self.entries):
            left = users.get(line_of(entry))
            self._users.append(left.pop(0) if left else None)
            if self._users[place] is not None:
                self._at = place + 1

    def nearest(self, request: Request) -> Exchanged | None:
        """The recorded exchange that a request most probably was, before something changed."""
        pool: list[tuple[tuple[int, ...], Exchanged]] = []
        for place, entry in enumerate(self.entries):
            if isinstance(entry, Exchanged):
                score = _likeness(request, entry.request)
                behind = self._at - place if place < self._at else place - self._at
                pool.append(
                    ((self._users[place] is None, *score, place >= self._at, -behind), entry)
                )
        if not pool:
            return None
        pool.sort(key=lambda each: each[0], reverse=True)
        best = pool[0][0]
        tied = [entry for score, entry in pool if score[: len(best) - 2] == best[: len(best) - 2]][
            :_CANDIDATES
        ]
        return max(tied, key=lambda entry: _text_likeness(request, entry.request))

    def asked(self) -> list[Asked]:
        """The person's answers that are not used yet."""
        return [entry for entry in self.unused if isinstance(entry, Asked)]


def _fits(entry: Entry, max_tokens: int | None) -> bool:
    return isinstance(entry, Asked) or entry.fits(max_tokens)


def _likeness(one: Request, other: Request) -> tuple[int, ...]:
    """How much of one request is in another: the last message, those at the same place, the step, the tools."""
    pairs = zip(one.messages, other.messages, strict=False)
    same = sum(a.ref == b.ref for a, b in pairs)
    shorter = abs(len(one.messages) - len(other.messages))
    step = one.step == other.step
    # Where an earlier question failed the conversation is shorter, but its last question is the one that it was.
    last = step and [part.ref for part in one.messages[-1:]] == [
        part.ref for part in other.messages[-1:]
    ]
    return last, same - shorter, step, _in_common(one.tools, other.tools)


def _in_common(one: Sequence[Part], other: Sequence[Part]) -> int:
    """How many parts are in both, less how many there are more in one."""
    return len({part.ref for part in one} & {part.ref for part in other}) - abs(
        len(one) - len(other)
    )


def _text_likeness(one: Request, other: Request) -> float:
    """How similar the first messages are that differ, and the last ones."""
    pairs = list(zip(one.messages, other.messages, strict=False))
    differing = next(((a, b) for a, b in pairs if a.ref != b.ref), None)
    ends = [(one.messages[-1], other.messages[-1])] if pairs else []
    return sum(_ratio(a, b) for a, b in ([differing] if differing else []) + ends)


def _ratio(one: Part, other: Part) -> float:
    if one.ref == other.ref:
        return 1.0
    return difflib.SequenceMatcher(None, _text(one), _text(other), autojunk=False).quick_ratio()


def _text(part: Part) -> str:
    return str(part.content.get("content") or part.content)[:_COMPARED]
