"""What a program asks for, and the replies that need no loop: names, `show` and the endings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic_monty import FunctionSnapshot, SyncSnapshot

from archytas_nb.loop.events import (
    PROGRAM_ANSWER,
    PROGRAM_ENDINGS,
    PROGRAM_GIVE_UP,
    PROGRAM_SHOW,
    Json,
    ProgramCall,
)
from archytas_nb.sandbox.bounds import Bounds
from archytas_nb.sandbox.handles import Handles
from archytas_nb.sandbox.inputs import as_input, call_of
from archytas_nb.sandbox.interpreter import Interpreter
from archytas_nb.sandbox.notebook import NotebookVariables
from archytas_nb.sandbox.running import Running
from archytas_nb.sandbox.short import short
from archytas_nb.sandbox.snapshots import (
    NO_METHODS,
    RETURN_NONE,
    function_named,
    looks_up_name,
    named,
    raised,
    resumed,
    waits_for_calls,
)
from archytas_nb.sandbox.source import CHECKPOINT
from archytas_nb.sandbox.values import from_sandbox
from archytas_nb.tools.render import render
from archytas_nb.tools.tool import Tool
from archytas_nb.words import did_you_mean

_MAX_RENDERED = 2_000  # characters of an object in an answer


class StopProgram(Exception):
    """A program is to end at its request."""


class Requests:
    """Replies to the requests of programs; calls of tools are left to the loop.

    Args:
        tools: The tools, by their names in programs.
        notebook: The variables that a program may name.
        handles: The objects that the sandbox refers to.
        interpreter: Where the programs run.
        bounds: What one program may use.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        notebook: NotebookVariables,
        handles: Handles,
        interpreter: Interpreter,
        bounds: Bounds,
    ) -> None:
        self.functions = (*tools, *PROGRAM_ENDINGS)
        self._tools = tools
        self._notebook = notebook
        self._handles = handles
        self._interpreter = interpreter
        self._bounds = bounds
        self._calls = 0
        self._requests = 0

    def begin(self) -> None:
        """Another program begins: the bounds count from here."""
        self._calls = 0
        self._requests = 0

    def reply(self, snapshot: Any, program: Running) -> SyncSnapshot | None:
        """Reply to a request, and return the next one; None if the loop replies.

        Raises:
            Ended: The program is to end here.
        """
        self._requests += 1
        if self._requests > self._bounds.requests:
            if hasattr(snapshot, "position"):
                program.line = program.line_of(snapshot)
            program.stop_at(program.line, self._bounds.text_of_requests())
            raise StopProgram
        if waits_for_calls(snapshot):
            waiting = set(snapshot.pending_call_ids)
            program.requested = tuple(each for each in program.pending if each in waiting)
            self._interpreter.keep_at(snapshot)
            return None
        if looks_up_name(snapshot):
            return self._look_up(snapshot)
        if snapshot.is_os_function:
            after: SyncSnapshot = snapshot.resume_not_handled()
            return after
        if snapshot.object_id is not None:
            return resumed(snapshot, NO_METHODS)
        return self._called(snapshot, program)

    def _look_up(self, snapshot: Any) -> SyncSnapshot:
        """A function of the run, or a variable of the notebook; all else is undefined."""
        name = snapshot.variable_name
        after: SyncSnapshot
        if snapshot.object_id is None and name in self.functions:
            after = snapshot.resume(value=function_named(name))
        elif snapshot.object_id is None and self._notebook.has(name):
            after = named(snapshot, self._notebook.lend(name))
        else:
            after = snapshot.resume()
        return after

    def _called(self, snapshot: FunctionSnapshot, program: Running) -> SyncSnapshot | None:
        name = str(snapshot.function_name)
        if name == CHECKPOINT:
            self._interpreter.keep_at(snapshot)
            return snapshot.resume(RETURN_NONE)
        program.line = program.line_of(snapshot)
        args = [from_sandbox(each, self._handles) for each in snapshot.args]
        given = {key: from_sandbox(each, self._handles) for key, each in snapshot.kwargs.items()}
        try:
            if name == PROGRAM_SHOW:
                return self._show(snapshot, program, [*args, *given.values()])
            if name in PROGRAM_ENDINGS:
                self._give(name, program, [*args, *given.values()])
                self._interpreter.keep_at(snapshot)
                raise StopProgram
            if name in self._tools:
                tool = self._tools[name]
                call = call_of(tool, args, given, self._handles, program.line)
                return self._call(snapshot, program, call)
        except TypeError as error:
            return snapshot.resume(raised("TypeError", str(error)))
        guess = did_you_mean(name, (*self.functions, *self._interpreter.names))
        return snapshot.resume(raised("NameError", f"name {name!r} is not defined{guess}"))

    def _show(
        self, snapshot: FunctionSnapshot, program: Running, values: Sequence[Any]
    ) -> SyncSnapshot:
        for each in values:
            program.show(short(each))
        return snapshot.resume(RETURN_NONE)

    def _give(self, name: str, program: Running, values: Sequence[Any]) -> None:
        """Keep what a program gives to an ending; TypeError if it cannot be given."""
        if name == PROGRAM_GIVE_UP and not values:
            program.gave_up = ""
            return
        if len(values) != 1:
            raise TypeError(f"{name}() takes one value, but {len(values)} were given")
        if name == PROGRAM_ANSWER:
            program.answer = as_input(values[0], _rendered)
            program.given = tuple(values)
            program.has_answer = True
        else:
            program.gave_up = str(values[0])

    def _call(
        self, snapshot: FunctionSnapshot, program: Running, call: ProgramCall
    ) -> SyncSnapshot | None:
        """Have the loop make a call; it is answered later if the program awaits it."""
        self._calls += 1
        if self._calls > self._bounds.calls:
            program.stop_at(program.line, self._bounds.text_of_calls())
            raise StopProgram
        program.pending[snapshot.call_id] = call
        if program.is_awaited(snapshot):
            return snapshot.resume({"future": ...})
        program.requested = (snapshot.call_id,)
        self._interpreter.keep_at(snapshot)
        return None


def _rendered(value: Any) -> Json:
    """An object in an answer, as a person reads it."""
    return render(value, _MAX_RENDERED).text
