"""Runs one program for many rows, each from the same start.

Nothing is kept between rows: neither their order nor what runs beside them changes an answer. A row
whose worker is lost begins again, and takes the outcomes that its calls already had.
"""

from __future__ import annotations

import ast
import functools
import os
from bisect import bisect_right
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

from pydantic_monty import MontyComplete, MontyCrashedError, MontyError, MontySession

from archytas_nb.loop.events import (
    PROGRAM_ANSWER,
    PROGRAM_ENDINGS,
    PROGRAM_GIVE_UP,
    PROGRAM_SHOW,
    CallOutcome,
    Fault,
    Json,
    ProgramCall,
    ProgramEnded,
)
from archytas_nb.loop.stop import stoppable
from archytas_nb.sandbox import pool
from archytas_nb.sandbox.bounds import Bounds, bound_of
from archytas_nb.sandbox.check import prepared
from archytas_nb.sandbox.diagnostics import type_faults
from archytas_nb.sandbox.handles import Handles
from archytas_nb.sandbox.inputs import as_input, call_of
from archytas_nb.sandbox.interpreter import KILL, Interpreter, ignore, policy
from archytas_nb.sandbox.prelude import NAMES, PRELUDE
from archytas_nb.sandbox.snapshots import (
    NO_METHODS,
    RETURN_NONE,
    function_named,
    looks_up_name,
    raised,
    reply_of,
    resumed,
    waits_for_calls,
)
from archytas_nb.sandbox.values import from_sandbox, to_sandbox
from archytas_nb.syntax.parse import parsed
from archytas_nb.tools.declaration import by_python_name
from archytas_nb.tools.tool import Tool
from archytas_nb.words import clip, count

ROW = "row"
"""The name of the row in its program."""

BOUNDS = Bounds(calls=200, seconds=2.0)
"""What a program may use for one row."""

_FIRST = "archytas_first"
_ATTEMPTS = 3  # how often a row begins again whose worker is lost
_MAX_MESSAGE = 500  # characters of an error

MakeCall = Callable[[ProgramCall], CallOutcome]
"""Makes a call of the program for a row."""


@dataclass(slots=True)
class _Running:
    """The program while it runs for one row."""

    made: list[CallOutcome]  # of its calls, in order; also those before its worker was lost
    namespace: MutableMapping[str, Any]
    calls: int = 0
    line: int = 0
    has_answer: bool = False
    answer: Json = None
    gave_up: str | None = None
    stopped: str = ""  # why it was ended at a call
    is_interrupted: bool = False


class _Ended(Exception):
    """The program is to end at its call."""


@dataclass(slots=True)
class RowProgram:
    """A program that is run once for each row.

    Args:
        text: The program.
        tools: The tools that it may call, by name.
        row_type: The class of the rows, whose attributes are the columns.

    Attributes:
        tools_by_name: The tools that it may call.
        faults: What is wrong with it; it cannot be run then.

    Raises:
        ConfigurationError: The sandbox is not installed, or not usable in this process, or two
            tools have one name.
    """

    text: str
    tools: Mapping[str, Tool]
    row_type: Any
    bounds: Bounds = BOUNDS
    tools_by_name: Mapping[str, Tool] = field(init=False)
    faults: tuple[Fault, ...] = field(init=False)
    _fed: str = field(init=False)
    _starts: list[int] = field(init=False)

    def __post_init__(self) -> None:

        pool.require()
        self.tools_by_name = {each.name: each for each in self.tools.values()}
        self.tools = by_python_name(self.tools.values())
        text = self.text.encode("utf-8", "replace").decode()  # the sandbox refuses half a character
        bound = _start(self.bounds).names
        self._fed, found = prepared(text, tuple(self.tools), bound)
        self.faults = found or self._faults_for_rows()
        if not self.faults:
            typed = {ROW: self.row_type}
            checker = Interpreter(self.bounds)
            self.faults = type_faults(self._fed, text, self.tools, bound, checker, typed)
        lines = self._fed.encode().splitlines(keepends=True)
        self._starts = [0, *accumulate(map(len, lines))]

    def _fault(self, line: int, text: str) -> Fault:
        lines = self.text.split("\n")
        source = lines[line - 1].strip() if 0 < line <= len(lines) else ""
        return Fault(line, source, text)

    def _faults_for_rows(self) -> tuple[Fault, ...]:
        """What is wrong with a program for rows, apart from what is wrong with any program."""
        tree = parsed(self._fed)
        named = {each.id for each in ast.walk(tree) if isinstance(each, ast.Name)}
        waits = [each for each in ast.walk(tree) if isinstance(each, ast.Await)]
        if waits:
            fault = "there is no await here: call the function without it"
            return (self._fault(waits[0].lineno, fault),)
        if PROGRAM_ANSWER not in named:
            last = self._fed.rstrip("\n").count("\n") + 1
            fault = "the program gives no answer: end it with answer(…) for this row"
            return (self._fault(last, fault),)
        for node in ast.walk(tree):
            label = getattr(getattr(node, "slice", None), "value", None)
            is_of_row = isinstance(node, ast.Subscript) and getattr(node.value, "id", "") == ROW
            if is_of_row and isinstance(label, str):
                fault = f"the columns are attributes of row: write row.{label}"
                return (self._fault(getattr(node, "lineno", 1), fault),)
        if ROW not in named:
            fault = "the program does not read row: it would give the same answer to every row"
            return (self._fault(1, fault),)
        return ()

    # ── one row ───────────────────────────────────────────────────────────────────────────────────

    def run(self, row: Any, call: MakeCall, namespace: MutableMapping[str, Any]) -> ProgramEnded:
        """Run it for a row.

        Args:
            row: A value of the type of the rows.
            call: Makes its calls, each once.
            namespace: The variables, among which a call finds objects by name. Those that have no
                name get one there.

        Raises:
            KeyboardInterrupt: The map was stopped.
        """
        made: list[CallOutcome] = []
        lost: Any = None
        for _ in range(_ATTEMPTS):
            running = _Running(made, namespace)
            try:
                return self._run(running, row, call)
            except MontyCrashedError as error:
                if error.timed_out:
                    text = self._bound_text("time")
                    return ProgramEnded(error=self._fault(running.line, text))
                lost = error
        return ProgramEnded(lost=f"the process of the sandbox was lost ({lost})")

    def _run(self, running: _Running, row: Any, call: MakeCall) -> ProgramEnded:

        handles = Handles(running.namespace)
        start = _start(self.bounds)
        try:
            with _session(self.bounds) as worker:
                worker.load_session(start.dump)
                snapshot: Any = worker.feed_start(
                    self._fed,
                    inputs={ROW: to_sandbox(row, handles)},
                    print_callback=ignore,
                    skip_type_check=True,
                )
                while not isinstance(snapshot, MontyComplete):
                    snapshot = self._replied(snapshot, running, call, handles)
        except _Ended:
            pass
        except MontyCrashedError:
            raise
        except MontyError as error:
            return ProgramEnded(error=self._error(error, running, start.file))
        if running.stopped:
            return ProgramEnded(
                error=self._fault(running.line, running.stopped),
                interrupted=running.is_interrupted,
            )
        return ProgramEnded(
            answer=running.answer, has_answer=running.has_answer, gave_up=running.gave_up
        )

    def _replied(self, snapshot: Any, running: _Running, call: MakeCall, handles: Any) -> Any:
        """Reply to a request of the program; its next one, or its end."""
        if looks_up_name(snapshot):
            name = snapshot.variable_name
            if snapshot.object_id is None and name in (*self.tools, *PROGRAM_ENDINGS):
                return snapshot.resume(value=function_named(name))
            return snapshot.resume()
        if waits_for_calls(snapshot):
            return snapshot.resume(dict.fromkeys(snapshot.pending_call_ids, _NO_FUTURES))
        if snapshot.is_os_function:
            return snapshot.resume_not_handled()
        if snapshot.object_id is not None:
            return resumed(snapshot, NO_METHODS)
        return self._called(snapshot, running, call, handles)

    def _called(self, snapshot: Any, running: _Running, call: MakeCall, handles: Any) -> Any:

        name = str(snapshot.function_name)
        running.line = bisect_right(self._starts, snapshot.position.start)
        args = [from_sandbox(each, handles) for each in snapshot.args]
        given = {key: from_sandbox(each, handles) for key, each in snapshot.kwargs.items()}
        try:
            if name == PROGRAM_SHOW:
                return snapshot.resume(RETURN_NONE)
            if name in (PROGRAM_ANSWER, PROGRAM_GIVE_UP):
                values = [*args, *given.values()]
                if len(values) != 1 and not (name == PROGRAM_GIVE_UP and not values):
                    raise TypeError(f"{name}() takes one value, but {len(values)} were given")
                if name == PROGRAM_ANSWER:
                    running.answer = as_input(values[0], handles.reference)
                    running.has_answer = True
                else:
                    running.gave_up = str(values[0]) if values else ""
                raise _Ended
            if name in self.tools:
                outcome = self._outcome(self.tools[name], args, given, running, call, handles)
                return resumed(snapshot, reply_of(outcome, handles))
        except TypeError as error:
            return snapshot.resume(raised("TypeError", str(error)))
        return snapshot.resume(raised("NameError", f"name {name!r} is not defined"))

    def _outcome(
        self,
        tool: Tool,
        args: list[Any],
        given: dict[str, Any],
        running: _Running,
        call: MakeCall,
        handles: Any,
    ) -> CallOutcome:
        """Make a call, unless it was made before the worker was lost."""
        made = call_of(tool, args, given, handles, running.line)
        running.calls += 1
        if running.calls > self.bounds.calls:
            running.stopped = f"it was ended after {count(self.bounds.calls, 'call')} for one row"
            raise _Ended
        if running.calls > len(running.made):
            running.made.append(call(made))
        outcome = running.made[running.calls - 1]
        if outcome.status not in ("done", "error"):
            running.stopped = outcome.text
            running.is_interrupted = outcome.status == "interrupted"
            raise _Ended
        return outcome

    def _error(self, error: MontyError, running: _Running, file: str) -> Fault:
        """The line that raised, and what."""
        bound = bound_of(error)
        frames = [each for each in getattr(error, "traceback", list)() if each.filename == file]
        line = frames[-1].line if frames else running.line
        text = error.display("type-msg")  # type: ignore[attr-defined]
        if bound:
            text = self._bound_text(bound)
        return self._fault(line, clip(text, _MAX_MESSAGE))

    def _bound_text(self, bound: str) -> str:
        if bound == "time":
            return f"it computed for more than {self.bounds.seconds:g} seconds for one row"
        return f"its values took more than {self.bounds.memory:,} bytes for one row"


_NO_FUTURES: Any = {"exc_type": "RuntimeError", "message": "there is no await here"}


# ── sessions ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Start:
    """A session before its first program, with its names, and the name that the program gets."""

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
        snapshot: Any = worker.feed_start(f"{_FIRST}()", skip_type_check=True)
        return _Start(dump, names, snapshot.position.filename)


@contextmanager
def _session(bounds: Bounds, **options: Any) -> Iterator[MontySession]:
    """A session of its own; a stop of the map ends its worker."""
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
