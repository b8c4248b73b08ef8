"""What is known of a program while it runs: what it showed, what it waits for, how it ends."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from archytas_nb.loop.events import Fault, Json, ProgramCall, ProgramEnded, ValueKind
from archytas_nb.sandbox.source import Source
from archytas_nb.words import shorten

_MAX_PRINTED = 20_000  # characters that are kept of what a program prints
_MAX_LINE = 500  # characters of one printed line
_MAX_SHOWN = 100  # texts that a program shows


@dataclass(slots=True)
class Running:
    """A program that runs.

    Attributes:
        source: Its text.
        file: The name that the sandbox gives to its text.
        shown: What it showed, in order.
        line: The line of its last call; 0 if it is not known.
        has_answer, answer, given, gave_up: What it gave to ``answer`` and ``give_up``.
        error: What it raised, or why it was stopped.
        is_stopped: Whether it was stopped.
        lost: Why the sandbox was lost.
        pending: Calls that wait for an outcome, by their ids.
        requested: The ids of those that the loop was asked for, in order.
    """

    source: Source
    file: str
    shown: list[str] = field(default_factory=list)
    line: int = 0
    has_answer: bool = False
    answer: Json = None
    given: tuple[Any, ...] = ()
    gave_up: str | None = None
    error: Fault | None = None
    is_stopped: bool = False
    is_interrupted: bool = False
    lost: str = ""
    pending: dict[int, ProgramCall] = field(default_factory=dict)
    requested: tuple[int, ...] = ()
    _printed: str = ""
    _size: int = 0

    @property
    def is_over(self) -> bool:
        """Whether it is known how it ends, whatever it does from now on."""
        has_ended = self.has_answer or self.gave_up is not None
        return has_ended or self.error is not None or self.is_interrupted

    def print(self, _: str, text: str) -> None:
        """Receive what it prints, in pieces."""
        left = max(_MAX_PRINTED - self._size, 0)
        self._size += len(text)
        self._printed += text[:left]

    def show(self, text: str) -> None:
        """Add a text to what it showed, behind what it printed before."""
        self._flush()
        if len(self.shown) < _MAX_SHOWN:
            self.shown.append(text)

    def _flush(self) -> None:
        """Move what it printed to what it showed, a text for each line."""
        lines = self._printed.splitlines()
        self._printed = ""
        self.shown += [shorten(each, _MAX_LINE) for each in lines][: _MAX_SHOWN - len(self.shown)]

    def line_of(self, snapshot: Any) -> int:
        """The line of a request; 0 if it is not in the text of this program.

        A call can stand in a function of an earlier program, or in one of the sandbox's own.
        """
        place = snapshot.position
        if place.filename != self.file:
            return 0
        return self.source.line_at(place.start)

    def is_awaited(self, snapshot: Any) -> bool:
        """Whether the program awaits the call."""
        place = snapshot.position
        return place.filename == self.file and self.source.is_awaited(place.start, place.end)

    def fault(self, line: int, text: str, raised: str | None = None) -> Fault:
        """A fault in one of its lines, and the exception that it raised."""
        return Fault(line, self.source.line(line), text, raised)

    def stop_at(self, line: int, text: str) -> None:
        """Note why it is stopped in a line, which is another thing than what it raises."""
        self.error = self.fault(line, text)
        self.is_stopped = True

    def ended(self, assigned: Mapping[str, str], kinds: Mapping[str, ValueKind]) -> ProgramEnded:
        """How it ended, with the variables that it assigned."""
        self._flush()
        return ProgramEnded(
            shown=tuple(self.shown),
            answer=self.answer,
            has_answer=self.has_answer,
            gave_up=self.gave_up,
            error=self.error,
            stopped=self.is_stopped,
            assigned=assigned,
            kinds=kinds,
            interrupted=self.is_interrupted,
            lost=self.lost,
            given=self.given,
        )
