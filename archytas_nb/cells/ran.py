"""Remembers the cells that ran: the failure of the last one, displays and waiting times of all.

    the cell that ran                        what is remembered of the last one
    ─────────────────────────────────────    ──────────────────────────────────
    raised, or is not Python                  its number, source and exception
    finished                                 nothing
    only asked, or loaded the extension      what was remembered before it

It is read from the results of cells that IPython hands to `post_run_cell`, and from the messages
that a hook of ipykernel sees, so nothing is patched. Without the extension it is the result that
the shell keeps of the last cell. It is imported with the extension, so it imports little.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, NamedTuple

from archytas_nb.errors import ArchytasError, RunInterrupted, ToolError
from archytas_nb.namespace import current_shell

MAX_READ = 20_000
"""Characters of an output that are read at each of its ends."""
TEXTS = ("text/plain", "text/markdown", "text/latex", "text/html")
"""The kinds of displayed texts that are kept, the best one first."""
IMAGES = ("image/png", "image/jpeg")
"""The kinds of pictures that are kept."""
_KEPT = 64_000_000  # characters of all displayed data that are kept

_OWN_LINE = re.compile(
    r"\s*(?:#.*|(?:\w+\s*=\s*)?%agent\w*\b.*|%tools\b.*|%(?:re)?load_ext\s+archytas_nb\b.*"
    r"|%config\s+ArchytasNB\b.*)?$"
)
_OWN_CELL = re.compile(r"\s*%%agent\w*\b")


@dataclass(frozen=True, slots=True)
class Failure:
    """A cell that failed: its number, its source and what it raised."""

    number: int
    source: str
    error: BaseException


class LastCell:
    """Remembers whether the last cell failed; see the table above.

    Args:
        shell: The shell of IPython.

    Attributes:
        failure: How the last cell failed; None if it did not.
        all_failed: The numbers of all cells that failed.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.failure: Failure | None = None
        self.all_failed: set[int] = set()
        self.ended(getattr(shell, "last_execution_result", None))

    def ended(self, result: Any) -> None:
        """Take note of a cell's end; ``result`` is an `ExecutionResult` of IPython, or None."""
        info = getattr(result, "info", None)
        # A front end also executes code that is not a cell.
        if info is None or info.silent or not info.store_history or is_own(info.raw_cell):
            return
        self.failure = None
        error = result.error_before_exec or result.error_in_exec
        # The errors of a run belong to it; they may name an address, which is private.
        is_of_run = isinstance(error, (ArchytasError, RunInterrupted))
        if error is None or (is_of_run and not isinstance(error, ToolError)):
            return
        # IPython counts no result of a cell whose exception it could not show.
        number = result.execution_count or self.shell.execution_count - 1
        self.failure = Failure(number, str(info.raw_cell), error)
        self.all_failed.add(number)


@dataclass
class Displayed:
    """The displays of the cells of a shell, by the number of the cell; the oldest is dropped.

    Args:
        shell: The shell of IPython, with a display publisher that has hooks.
    """

    shell: Any
    by_cell: dict[int, list[Mapping[str, str]]] = field(default_factory=dict)
    _size: int = 0

    def note(self, message: Any) -> Any:
        """Take note of a message of the kernel, and pass it on."""
        if not isinstance(message, dict) or message.get("msg_type") != "display_data":
            return message
        sources = self.shell.history_manager.input_hist_raw
        if sources and not is_own(sources[-1]):
            self._keep(len(sources) - 1, message.get("content", {}).get("data", {}))
        return message

    def _keep(self, number: int, data: Mapping[str, Any]) -> None:
        kept: dict[str, str] = {}
        for kind in TEXTS:
            if isinstance(data.get(kind), str):
                kept[kind] = data[kind][:MAX_READ]
        for kind in IMAGES:
            if isinstance(data.get(kind), str) and len(data[kind]) <= _KEPT:
                kept[kind] = data[kind]
        self.by_cell.setdefault(number, []).append(kept)
        self._size += sum(map(len, kept.values()))
        while self._size > _KEPT and len(self.by_cell) > 1:
            oldest = self.by_cell.pop(next(iter(self.by_cell)))
            self._size -= sum(len(text) for each in oldest for text in each.values())


class Bindings:
    """Sees which cell bound a variable to another object; only ids are kept, no objects.

    Args:
        shell: The shell of IPython.

    Attributes:
        cells: The number of the last cell that did, by the name of the variable.
    """

    def __init__(self, shell: Any) -> None:
        self.shell = shell
        self.cells: dict[str, int] = {}
        self._ids = self._now()

    def ended(self, _: Any = None) -> None:
        """Take note of a cell's end."""
        now = self._now()
        number = len(self.shell.history_manager.input_hist_parsed) - 1
        self.cells |= {name: number for name, each in now.items() if self._ids.get(name) != each}
        self._ids = now

    def _now(self) -> dict[str, int]:
        return {name: id(value) for name, value in dict(self.shell.user_ns).items()}


@dataclass
class Queue:
    """How long the cell that runs has waited for those before it.

    The front end says when it has sent a cell, by its own clock, which may be another one than
    that of the kernel: the cell that began soonest after it was sent is taken to have waited for
    none.

    Args:
        shell: The shell of IPython.
    """

    shell: Any
    waited: float = 0.0  # seconds
    _least: float = math.inf  # seconds from a cell's date to its beginning, of all cells

    def begun(self, _: Any = None) -> None:
        """Take note that a cell has begun."""
        self.waited = 0.0
        try:
            sent = self.shell.kernel.get_parent("shell")["header"]["date"]
            passed = (datetime.now(UTC) - sent).total_seconds()
        except (AttributeError, LookupError, TypeError):  # no kernel, or it says no date
            return
        self._least = min(self._least, passed)
        self.waited = passed - self._least


class _Watched(NamedTuple):
    """The memory of the cells of a shell."""

    shell: Any
    last: LastCell
    queue: Queue
    bindings: Bindings
    displayed: Displayed | None  # None if its display publisher has no hooks


_watched: list[_Watched] = []
"""The shell in which the extension is loaded."""


def watch(shell: Any) -> None:
    """Remember the cells of a shell from now on."""
    unwatch()
    displayed = None
    if hasattr(shell.display_pub, "register_hook"):
        displayed = Displayed(shell)
        shell.display_pub.register_hook(displayed.note)
    last = LastCell(shell)
    shell.events.register("post_run_cell", last.ended)
    queue = Queue(shell)
    queue.begun()
    shell.events.register("pre_run_cell", queue.begun)
    bindings = Bindings(shell)
    shell.events.register("post_run_cell", bindings.ended)
    _watched.append(_Watched(shell, last, queue, bindings, displayed))


def unwatch() -> None:
    """Undo `watch`."""
    while _watched:
        shell, last, queue, bindings, displayed = _watched.pop()
        shell.events.unregister("post_run_cell", bindings.ended)
        shell.events.unregister("post_run_cell", last.ended)
        shell.events.unregister("pre_run_cell", queue.begun)
        if displayed is not None:
            shell.display_pub.unregister_hook(displayed.note)


def failed_in(shell: Any) -> set[int]:
    """The numbers of the cells of a shell that failed, if they are known."""
    return set().union(*(each.last.all_failed for each in _watched if each.shell is shell))


def displayed_in(shell: Any) -> Displayed | None:
    """The displays of the cells of a shell; None if they are not known."""
    for each in _watched:
        if each.shell is shell:
            return each.displayed
    return None


def bound_in(shell: Any, name: str) -> int:
    """The last cell that was seen to bind a variable to another object; 0 if none was."""
    return max(
        (each.bindings.cells.get(name, 0) for each in _watched if each.shell is shell), default=0
    )


def seconds_waited() -> float:
    """How long the cell that runs has waited for those before it, if that is known."""
    return max((each.queue.waited for each in _watched), default=0.0)


def last_failure() -> Failure | None:
    """The cell before this one, if it failed; questions and empty cells do not count as cells."""
    shell = current_shell()
    if shell is None:
        return None
    for each in _watched:
        if each.shell is shell:
            return each.last.failure
    return LastCell(shell).failure


_settled: list[tuple[int, int]] = []
"""The failure about which a question was answered last: its number, and the id of the exception."""


def settle(failure: Failure | None) -> None:
    """Note that a question about a failure was answered."""
    if failure is not None:
        _settled[:] = [(failure.number, id(failure.error))]


def is_settled(failure: Failure) -> bool:
    """Whether a question about a failure was answered: then no other one is about it."""
    return (failure.number, id(failure.error)) in _settled


def is_own(source: str) -> bool:
    """Whether a cell only asks, loads the extension or configures it."""
    if _OWN_CELL.match(source):
        return True
    return all(_OWN_LINE.match(line) for line in source.splitlines())
