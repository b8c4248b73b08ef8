"""Runs a program in the forms that it can have: in a conversation, and for the rows of a map."""

from __future__ import annotations

import ast
import dataclasses
from collections.abc import Sequence
from typing import Any

from archytas_nb.loop.events import (
    CallOutcome,
    ProgramCall,
    ProgramEnded,
    ProgramFaults,
    ProgramWaits,
)
from archytas_nb.sandbox.rows import RowProgram
from archytas_nb.sandbox.session import Session
from archytas_nb.tools.tool import Tool
from tests.sandbox.direct import TOOLS as FUNCTIONS
from tests.sandbox.direct import Ran

FORMS = ("single", "rows")
TOOLS = {name: Tool.from_function(each) for name, each in FUNCTIONS.items()}


@dataclasses.dataclass
class Row:
    name: str
    count: int
    index: str


ROW = Row("x", 2, "y")


def in_form(form: str, source: str, names: Sequence[str]) -> Ran:
    """The variables at the end, the calls in order, and the kind of the error.

    Args:
        form: One of `FORMS`.
        source: A program, which may raise.
        names: The variables; those that the program does not assign are None.
    """
    calls: list[str] = []

    def called(call: ProgramCall) -> CallOutcome:
        [value] = call.input.values()
        calls.append(f"{call.name}({value!r})")
        return _made(call)

    assigned = {each.id for each in ast.walk(ast.parse(source)) if isinstance(each, ast.Name)}
    known = [each for each in names if each in assigned]
    texts = ", ".join(f"repr({each})" for each in known)
    values = dict.fromkeys(names, "None")
    ended = ended_in_form(form, f"{source}\nrow.name\nanswer([{texts}])", called)
    if isinstance(ended.answer, list):
        values.update(zip(known, ended.answer, strict=True))
    error = ended.error.text.partition(":")[0] if ended.error is not None else ""
    return values, calls, error


def _made(call: ProgramCall) -> CallOutcome:
    return TOOLS[call.name].call(call.input, {})


def ended_in_form(form: str, text: str, called: Any = _made) -> ProgramEnded:
    """How a program ended that has no faults."""
    reply = reply_in_form(form, text, called)
    assert isinstance(reply, ProgramEnded), reply
    return reply


def reply_in_form(form: str, text: str, called: Any = _made) -> ProgramEnded | ProgramFaults:
    """How a program ended, or its faults."""
    if form == "rows":
        program = RowProgram(text, TOOLS, Row)
        if program.faults:
            return ProgramFaults(program.faults)
        return program.run(ROW, called, {})
    session = Session(TOOLS, {"row": ROW})
    try:
        reply: Any = session.run(text)
        while isinstance(reply, ProgramWaits):
            reply = session.resume([called(each) for each in reply.calls])
        assert isinstance(reply, (ProgramEnded, ProgramFaults))
        return reply
    finally:
        session.close()
