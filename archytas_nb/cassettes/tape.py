"""The exchanges of a cassette in their order, and which cell of the notebook used each of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from archytas_nb.cassettes.file import Entry, RecordedAnswer, RecordedReply


@dataclass(eq=False)
class Slot:
    """An exchange of a tape, and the cell that used it; None where it is unused.

    Attributes:
        entry: The exchange.
        user: The cell.
        user_before: The cell that used it on another tape of the same file.
        is_in_file: Whether the file has it; if not, it could not be written yet.
    """

    entry: Entry
    user: str | None = None
    user_before: str | None = None
    is_in_file: bool = True

    @property
    def was_used(self) -> bool:
        """Whether a cell used it, on this tape or on another one of the same file."""
        return self.user is not None or self.user_before is not None


class Tape:
    """The recorded exchanges in their order, and which of them are used."""

    def __init__(self, entries: Iterable[Entry] = ()) -> None:
        self.slots = [Slot(entry) for entry in entries]
        self.at = 0  # after the slot that was used last

    @property
    def entries(self) -> list[Entry]:
        """All exchanges."""
        return [slot.entry for slot in self.slots]

    @property
    def unused(self) -> list[Entry]:
        """The exchanges that are not used."""
        return [slot.entry for slot in self.slots if slot.user is None]

    def take(self, key: str, origin: str = "", fits: Callable[[Any], bool] | None = None) -> Any:
        """Use the first unused exchange with this key that fits; None where there is none."""
        return self.take_first(lambda each: each.key == key and (not fits or fits(each)), origin)

    def take_first(self, fits: Callable[[Any], bool], origin: str = "") -> Any:
        """Use the first unused exchange that fits; None where there is none."""
        for place, slot in enumerate(self.slots):
            if slot.user is None and fits(slot.entry):
                slot.user = origin
                self.at = place + 1
                return slot.entry
        return None

    def take_answer(
        self, reply: RecordedReply, fits: Callable[[RecordedAnswer], bool], origin: str = ""
    ) -> RecordedAnswer | None:
        """Use the first unused answer that fits, among those about the calls of a reply.

        They follow it, before the next reply to the same request. Answers of earlier
        versions do not name their exchange: it is that of the last reply before them.
        """
        entries = self.entries
        start = next((n for n, each in enumerate(entries) if each is reply), len(entries))
        last = reply
        for place, slot in enumerate(self.slots[start + 1 :], start + 1):
            entry = slot.entry
            if isinstance(entry, RecordedReply):
                last = entry
                if entry.key == reply.key:
                    break
                continue
            is_its_own = entry.exchange == reply.key
            if entry.exchange is None:
                is_its_own = last is reply
            if is_its_own and slot.user is None and fits(entry):
                slot.user = origin
                self.at = place + 1
                return entry
        return None

    def add(self, entry: Entry, origin: str = "") -> bool:
        """Insert a used exchange after the last used one; return whether that is the end."""
        self.slots.insert(self.at, Slot(entry, origin, is_in_file=False))
        self.at += 1
        return self.at == len(self.slots)

    @property
    def missing(self) -> int:
        """How many exchanges could not be written to the file yet."""
        return sum(not slot.is_in_file for slot in self.slots)

    def note_written(self) -> None:
        """The file holds all exchanges now."""
        for slot in self.slots:
            slot.is_in_file = True

    def give_back(self, origin: str, *, drop: bool = False) -> bool:
        """Make what a cell used unused again, or drop it, as the cell is run again."""
        for slot in self.slots:
            if origin and slot.user_before == origin:
                slot.user_before = None
        places = [n for n, slot in enumerate(self.slots) if origin and slot.user == origin]
        if places:
            self.at = places[0]
        for place in reversed(places):
            self.slots[place].user = None
            if drop:
                del self.slots[place]
        return bool(places)

    @property
    def never_used(self) -> list[Entry]:
        """The exchanges that are not used, and were not used on another tape of the file."""
        return [slot.entry for slot in self.slots if not slot.was_used]

    def drop_never_used(self) -> int:
        """Drop the exchanges that were never used, and return how many."""
        dropped = len(self.never_used)
        self.at -= sum(not slot.was_used for slot in self.slots[: self.at])
        self.slots = [slot for slot in self.slots if slot.was_used]
        return dropped

    def note_uses(self, other: Tape) -> None:
        """Take over which exchanges were used on another tape of the same file."""
        used: dict[str, list[str]] = {}
        for slot in other.slots:
            user = slot.user_before if slot.user is None else slot.user
            if user is not None:
                used.setdefault(slot.entry.line(), []).append(user)
        for slot in self.slots:
            same = used.get(slot.entry.line())
            if same:
                slot.user_before = same.pop(0)

    def follow(self, entries: Sequence[Entry]) -> None:
        """Take over what the file holds now; what was used, or is not written yet, stays."""
        known: dict[str, list[Slot]] = {}
        for slot in self.slots:
            known.setdefault(slot.entry.line(), []).append(slot)
        slots: list[Slot] = []
        for entry in entries:
            same = known.get(entry.line())
            slots.append(same.pop(0) if same else Slot(entry))
        taken = {id(slot) for slot in slots}
        unwritten = [slot for slot in self.slots if not slot.is_in_file and id(slot) not in taken]
        used = [place for place, slot in enumerate(slots, 1) if slot.user is not None]
        self.slots = [*slots, *unwritten]
        self.at = len(self.slots) if unwritten else max(used, default=0)
