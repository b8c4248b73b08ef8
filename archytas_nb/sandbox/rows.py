"""Runs one program for many rows, each from the same start.

Nothing is kept between rows, so an answer depends neither on their order nor on other work at the
same time. A row whose worker is lost starts again, with the outcomes that its calls already had.
"""

from __future__ import annotations

import ast
import functools
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic_monty import MontySession, SyncSnapshot

from archytas_nb.loop.events import (
    CallOutcome,
    Fault,
    ProgramCall,
    ProgramEnded,
    ProgramFaults,
    ProgramWaits,
)
from archytas_nb.loop.stop import stoppable
from archytas_nb.sandbox import pool
from archytas_nb.sandbox.bounds import Bounds, RowBounds
from archytas_nb.sandbox.check import fault_at
from archytas_nb.sandbox.engine import Engine, Surroundings
from archytas_nb.sandbox.handles import Handles
from archytas_nb.sandbox.interpreter import KILL, Interpreter, policy
from archytas_nb.sandbox.notebook import NotebookVariables
from archytas_nb.sandbox.prelude import NAMES, PRELUDE
from archytas_nb.sandbox.prepared import prepare
from archytas_nb.sandbox.source import CHECKPOINT, Source
from archytas_nb.sandbox.values import to_sandbox
from archytas_nb.syntax.program import PROGRAM_ANSWER, Program
from archytas_nb.tools.declaration import by_python_name
from archytas_nb.tools.tool import Tool
from archytas_nb.words import truncate_middle

ROW = "row"
"""The name of the row in its program."""

BOUNDS = RowBounds()
"""The limits of a program for one row."""

_ATTEMPTS = 3  # how often a row whose worker is lost starts again
_MAX_MESSAGE = 500  # characters of an error

MakeCall = Callable[[ProgramCall], CallOutcome]
"""Makes a call of the program for a row."""


@dataclass(slots=True)
class RowProgram:
    """A program that is run once for each row.

    Args:
        text: The program.
        tools: The tools that it may call, by name.
        row_type: The class of the rows, whose attributes are the columns.
        bounds: Its limits for one row.

    Attributes:
        tools_by_name: The tools that it may call.
        faults: Its faults; a program with faults cannot be run.

    Raises:
        ConfigurationError: The sandbox is not installed, or not usable in this process, or two
            tools have one name.
    """

    text: str
    tools: Mapping[str, Tool]
    row_type: Any
    bounds: Bounds = BOUNDS
    tools_by_name: Mapping[str, Tool] = field(init=False)
    faults: tuple[Fault, ...] = field(init=False, default=())
    _source: Source | None = field(init=False, default=None)

    def __post_init__(self) -> None:
        pool.require()
        self.tools_by_name = {each.name: each for each in self.tools.values()}
        self.tools = by_python_name(self.tools.values())
        prepared = prepare(
            self.text,
            self.tools,
            _start(self.bounds).names,
            Interpreter(self.bounds),
            typed={ROW: self.row_type},
            check=self._faults_for_rows,
            has_checkpoints=False,
        )
        if isinstance(prepared, ProgramFaults):
            self.faults = prepared.faults
        else:
            self._source = prepared

    def _faults_for_rows(self, program: Program) -> tuple[Fault, ...]:
        """The faults that only a program for rows can have."""
        read = program.bindings.read
        if PROGRAM_ANSWER not in read:
            fault = "the program gives no answer: end it with answer(…) for this row"
            return (fault_at(program.last_line, fault, self.text),)
        for node in program.nodes(ast.Subscript):
            label = getattr(node.slice, "value", None)
            if getattr(node.value, "id", "") == ROW and isinstance(label, str):
                fault = f"the columns are attributes of row: write row.{label}"
                return (fault_at(node.lineno, fault, self.text),)
        if ROW not in read:
            fault = "the program does not read row: it would give the same answer to every row"
            return (fault_at(1, fault, self.text),)
        return ()

    # ── one row ───────────────────────────────────────────────────────────────────────────────────

    def run(self, row: Any, call: MakeCall, namespace: MutableMapping[str, Any]) -> ProgramEnded:
        """Run it for a row.

        Args:
            row: A value of the type of the rows.
            call: Makes its calls, each once.
            namespace: The variables, in which a call finds objects by name. Objects without a name
                get one there.

        Raises:
            KeyboardInterrupt: The map was stopped.
        """
        made: list[CallOutcome] = []  # of its calls, including those before its worker was lost
        for _ in range(_ATTEMPTS):
            ended = self._run(row, call, namespace, made)
            if not ended.lost:
                break
        if ended.error is None:
            return ended
        return replace(
            ended, error=replace(ended.error, text=truncate_middle(ended.error.text, _MAX_MESSAGE))
        )

    def _run(
        self,
        row: Any,
        call: MakeCall,
        namespace: MutableMapping[str, Any],
        made: list[CallOutcome],
    ) -> ProgramEnded:
        """Run it once; only calls without an outcome are made."""
        if self._source is None:
            raise ValueError(f"the program has faults: {self.faults!r}")
        source = self._source
        start = _start(self.bounds)
        handles = Handles(namespace)
        around = Surroundings(
            self.tools,
            NotebookVariables({}, handles, is_open=False),
            handles,
            self.bounds,
            object_in_answer=handles.reference,
        )
        engine = Engine(source, start.file, around)

        def begin() -> SyncSnapshot:
            worker.load_session(start.dump)
            return worker.feed_start(
                source.fed,
                inputs={ROW: to_sandbox(row, handles)},
                print_callback=engine.print,
                skip_type_check=True,
            )

        known = iter(tuple(made))
        with _session(self.bounds) as worker:
            waits: ProgramWaits | None = engine.start(begin)
            while waits is not None:
                outcomes: list[CallOutcome] = []
                for each in waits.calls:
                    outcome = next(known, None)
                    if outcome is None:
                        outcome = call(each)
                        made.append(outcome)
                    outcomes.append(outcome)
                    if outcome.status not in ("done", "error"):
                        # It ends the program.
                        break
                waits = engine.resume(outcomes)
        return engine.ended()


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Start:
    """A session before its first program, its names, and the file name that the program gets."""

    dump: bytes
    names: tuple[str, ...]
    file: str


@functools.cache
def _start(bounds: Bounds) -> _Start:
    with _session(bounds) as worker:
        worker.feed_run(PRELUDE, skip_type_check=True)
        names = tuple(worker.feed_run(NAMES, skip_type_check=True))
        dump = worker.dump()
    with _session(bounds) as worker:
        worker.load_session(dump)
        snapshot: Any = worker.feed_start(f"{CHECKPOINT}()", skip_type_check=True)
        return _Start(dump, names, snapshot.position.filename)


@contextmanager
def _session(bounds: Bounds, **options: Any) -> Iterator[MontySession]:
    """A separate session; stopping the map ends its worker."""
    worker = pool.checkout(limits=bounds.limits, os_policy=policy(), **options)

    def kill() -> None:
        if worker.worker_pid is not None:
            with suppress(OSError):
                os.kill(worker.worker_pid, KILL)

    try:
        with stoppable(kill):
            yield worker
    finally:
        pool.release(worker)
