"""One conversation of a notebook: its questions in their places, and what they cost."""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from archytas_nb.loop.events import Usage
    from archytas_nb.loop.history import Exchange


class Paid(NamedTuple):
    """What one question cost; also that of a run that failed."""

    usage: Usage
    seconds: float  # of the model; in a replay those of the recording
    usd: float | None  # None where the price is not known


@dataclass(eq=False)
class Thread:
    """One conversation.

    Attributes:
        begins: What began it: the kernel, a question with ``--new``, or a reset.
        turns: The exchange of each question, by its origin and in order. None where it came to
            nothing, or was forgotten: a cell that is run again still finds its place.
        paid: What each question cost.
    """

    begins: Literal["kernel", "new", "reset"] = "kernel"
    turns: dict[str, Exchange | None] = field(default_factory=dict)
    paid: list[Paid] = field(default_factory=list)

    @property
    def exchanges(self) -> list[Exchange]:
        """The exchanges, in order."""
        return [each for each in self.turns.values() if each is not None]

    def before(self, name: str) -> list[Exchange]:
        """The exchanges before the question of this name."""
        before = itertools.takewhile(lambda turn: turn[0] != name, self.turns.items())
        return [each for _, each in before if each is not None]

    def is_first(self, name: str) -> bool:
        """Whether it begins with the question of this name."""
        return next(iter(self.turns), None) == name
