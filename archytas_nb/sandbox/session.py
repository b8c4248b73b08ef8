"""Runs the programs of a conversation in the sandbox, step by step; their variables stay.

A session has one of these states:

| state     | meaning                                  | left by                                   |
|-----------|------------------------------------------|-------------------------------------------|
| idle      | no program runs; there may be no worker  | `run` → computing, `close` → closed       |
| computing | a thread drives the worker               | a call → waiting, the end → idle          |
| waiting   | the program waits for the calls it made  | `resume` → computing, `stop` → idle       |
| closed    | the variables are bytes, in a `State`    | (a new `Session` of the `State`)          |

The calling thread waits for the thread that drives the worker, so an interrupt reaches it
immediately; `stop` then ends the worker's process.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from pydantic_monty import MontyError

from archytas_nb.loop.events import (
    CallOutcome,
    Json,
    ProgramEnded,
    ProgramFaults,
    ProgramWaits,
    Shown,
)
from archytas_nb.sandbox import pool
from archytas_nb.sandbox.bounds import Bounds, bound_of
from archytas_nb.sandbox.engine import Engine, Spent, Surroundings, lost
from archytas_nb.sandbox.handles import Handles
from archytas_nb.sandbox.interpreter import Interpreter
from archytas_nb.sandbox.notebook import NotebookVariables
from archytas_nb.sandbox.prelude import BEGINNING
from archytas_nb.sandbox.prepared import prepare
from archytas_nb.sandbox.short import kind_of, short
from archytas_nb.sandbox.snapshots import (
    end,
    next_file,
)
from archytas_nb.sandbox.thread import DrivingThread
from archytas_nb.sandbox.values import from_sandbox
from archytas_nb.tools.declaration import by_python_name
from archytas_nb.tools.render import render
from archytas_nb.tools.tool import Tool

T = TypeVar("T")

_MAX_RENDERED = 2_000  # characters of an object in an answer
_MAX_ASSIGNED = 50  # variables in the report on assignments
_ATTEMPTS = 3  # to read one of them
_AS_AT_LAST_CALL = "the variables are as they were at the last call"


@dataclass(frozen=True, slots=True)
class State:
    """The variables of the programs of a conversation.

    Attributes:
        dump: The session, as bytes from the sandbox.
        handles: The objects that its variables refer to.
    """

    dump: bytes = field(repr=False)
    handles: Handles = field(repr=False)


class Session:
    """The programs of one question, with the variables of those of the questions before.

    Args:
        tools: The tools of the run, by name.
        namespace: The notebook's variables; nothing is written into it.
        state: Of the question before; None for the first.
        bounds: The limits of one program.
        names_variables: Whether a program may use the notebook's variables. Otherwise it may only
            pass their names, as strings, to tools that take objects.

    Raises:
        ConfigurationError: The sandbox is not installed, or not usable in this process, or two
            tools have one name.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        namespace: Mapping[str, Any],
        state: State | None = None,
        bounds: Bounds | None = None,
        *,
        names_variables: bool = True,
    ) -> None:
        pool.require()
        self._bounds = bounds or Bounds()
        self._tools = by_python_name(tools.values())
        if state is None:
            self._handles = Handles(namespace)
            self._interpreter = Interpreter(self._bounds)
        else:
            self._handles = state.handles.copy(namespace)
            self._interpreter = Interpreter(self._bounds, state.dump)
        self._notebook = NotebookVariables(namespace, self._handles, is_open=names_variables)
        self._thread = DrivingThread()
        self._around = Surroundings(
            self._tools,
            self._notebook,
            self._handles,
            self._bounds,
            object_in_answer=_rendered,
            keep=self._interpreter.checkpoint_at,
            names=lambda: self._interpreter.names,
            is_stopping=lambda: self._thread.is_stopping,
        )
        self._is_new = True  # no program of this question has started
        self._program: Engine | None = None  # the program that runs, or waits for calls
        self._state: State | None = None

    # ── what a run asks for ───────────────────────────────────────────────────────────────────────

    def run(
        self,
        text: str,
        is_part: bool = False,  # noqa: FBT001, FBT002
        *,
        may_lack: bool = False,  # noqa: ARG002
    ) -> ProgramFaults | ProgramWaits | ProgramEnded:
        """Check a program and run it until it waits for calls, or ends.

        Args:
            text: The program.
            is_part: Whether it continues the program before: the limits count for all parts
                together, and variables of the notebook are not read again.
            may_lack: Whether an answer counts although a part of it is missing: it does here.

        Raises:
            KeyboardInterrupt: The user interrupted; call `stop`.
        """
        return self._driven(lambda: self._run(text, is_part=is_part))

    def resume(self, outcomes: Sequence[CallOutcome]) -> ProgramWaits | ProgramEnded:
        """Continue the program with the outcomes of the calls that it waits for, in their order.

        Raises:
            KeyboardInterrupt: The user interrupted; call `stop`.
        """
        return self._driven(lambda: self._resume(outcomes))

    def stop(self) -> ProgramEnded:
        """End the program at its last call, after an interrupt or when its time is over."""
        ended = self._thread.stop(self._interpreter.kill)
        if self._program is not None:
            ended = self._driven(self._stopped)
        if not isinstance(ended, ProgramEnded):
            return ProgramEnded(interrupted=True)
        return replace(ended, interrupted=True, lost="", error=None)

    def close(self) -> State:
        """End the program if one runs, return the worker, and keep the variables."""
        if self._state is None:
            if self._thread.is_busy or self._program is not None:
                self.stop()
            self._state = self._driven(self._closed)
        return self._state

    def _driven(self, work: Callable[[], T]) -> T:
        if self._state is not None:
            raise RuntimeError("the session is closed; make a new one of its state")
        return self._thread.do(work)

    # ── the beginning ─────────────────────────────────────────────────────────────────────────────

    def _run(self, text: str, *, is_part: bool) -> ProgramFaults | ProgramWaits | ProgramEnded:
        self._interpreter.retry_after_crash(partial(self._begin, is_part=is_part))
        source = prepare(
            text,
            self._tools,
            self._interpreter.names,
            self._interpreter,
            variables=self._notebook.names(),
            is_part=is_part,
        )
        if isinstance(source, ProgramFaults):
            return source
        file = self._interpreter.retry_after_crash(lambda: next_file(self._interpreter.session))
        self._program = engine = Engine(source, file, self._around)
        waits = engine.start(
            lambda: self._interpreter.session.feed_start(
                source.fed, print_callback=engine.print, skip_type_check=True
            )
        )
        return waits or self._finish_program()

    def _begin(self, *, is_part: bool) -> None:
        if is_part:
            self._interpreter.read_names()
            return
        self._around.spent = Spent()
        if self._is_new:
            # The programs read the variables as the question describes them.
            self._notebook.reserve_names(self._interpreter.names)
            self._is_new = False
        self._unbind_borrowed()

    def _unbind_borrowed(self) -> None:
        """Unbind the notebook's variables, which the next program reads again, and functions.

        A variable of an earlier program may have the name of a function that came later.
        """
        self._interpreter.unbind({*self._notebook.borrowed_names, *self._around.functions})
        self._interpreter.keep()
        self._notebook.borrowed_names.clear()

    # ── between the calls ─────────────────────────────────────────────────────────────────────────

    @property
    def _running(self) -> Engine:
        if self._program is None:
            raise RuntimeError("no program runs")
        return self._program

    def _resume(self, outcomes: Sequence[CallOutcome]) -> ProgramWaits | ProgramEnded:
        return self._running.resume(outcomes) or self._finish_program()

    def _stopped(self) -> ProgramEnded:
        self._running.interrupt()
        return self._finish_program()

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def _finish_program(self) -> ProgramEnded:
        """Describe how the program ended, and keep the session."""
        program = self._running
        self._leave(program)
        if program.lost:
            program.lost = f"{program.lost}; {_AS_AT_LAST_CALL}"
        try:
            self._interpreter.keep()
        except (MontyError, RuntimeError) as error:
            why = f"{lost(error)}; {_AS_AT_LAST_CALL}"
            if isinstance(error, MontyError) and bound_of(error):
                why = _too_large(self._bounds)
            program.lost = program.lost or why
            self._interpreter.go_back()
            self._interpreter.retry_after_crash(self._interpreter.keep)
        self._notebook.borrowed_names -= program.source.bound
        ended = program.ended(self._assigned(program.source.assigned))
        self._program = None
        return ended

    def _leave(self, program: Engine) -> None:
        """Make sure that no program is left in the session, however the last one ended."""
        match program.left:
            case "a request":
                # The program may catch the end.
                try:
                    if not end(program.request):
                        self._interpreter.go_back_to_start()
                except MontyError:
                    self._interpreter.go_back()
            case "a bound" | "no worker":
                self._interpreter.go_back()

    def _assigned(self, names: Sequence[str]) -> dict[str, Shown]:
        """The values of these variables, for those that are bound."""
        bound = set(self._interpreter.names)
        found = [each for each in names if each in bound and not each.startswith("_")]
        return {name: self._shown(name) for name in found[:_MAX_ASSIGNED]}

    def _shown(self, name: str) -> Shown:
        """The value of a variable as the model reads it."""
        for _ in range(_ATTEMPTS):
            try:
                value = self._interpreter.evaluate(f"{BEGINNING}({name})")
                read = from_sandbox(value, self._handles)
                return Shown(short(read), kind_of(read))
            except RecursionError:
                break
            except (MontyError, RuntimeError):
                # It is too large to be sent, or the worker was lost.
                self._interpreter.go_back_to_start()
            except Exception:  # noqa: BLE001 - a value that Python lacks
                break
        return Shown("…")

    def _closed(self) -> State:
        self._interpreter.retry_after_crash(self._unbind_borrowed)
        return State(self._interpreter.close(), self._handles)


def _rendered(value: Any) -> Json:
    """An object in an answer, as a person reads it."""
    return render(value, _MAX_RENDERED).text


def _too_large(bounds: Bounds) -> str:
    return (
        "the variables of the program are too large to be kept for the next one, with "
        f"{bounds.memory:,} bytes of memory; {_AS_AT_LAST_CALL}: keep less in variables"
    )
