"""The values that a program computed, where only its answer failed or was not accepted.

They are better than nothing for a person who is told how they came about. What a program has
computed before a statement that failed in its middle is only a part of it, and is not given.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping
from typing import Any

from archytas_nb.loop.events import Json, ProgramEnded
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.program import PROGRAM_ANSWER, Program, calls


def values_of(end: ProgramEnded, ran: str, known: Collection[str]) -> dict[str, Json]:
    """The values by the names of their variables; empty if the program did not come so far.

    They are those that its answer reads; if it reads none, those of the statement before it.

    Args:
        end: How it ended.
        ran: The statements that ran.
        known: The names whose values come from the notebook or from tools.
    """
    assigned = {*Program(ran).bindings.bound_in_order} - {*known}
    for statement in _last(end, ran):
        bindings = Bindings(statement)
        read = [use.name for use in bindings.uses if use.act == "read"]
        names = [each for each in bindings.bound_in_order or read if each in assigned]
        if names:
            return {name: end.computed[name] for name in names if name in end.computed}
    return {}


def _last(end: ProgramEnded, ran: str) -> Iterator[ast.stmt]:
    """The statement that answers, and the one before it; none if another one failed."""
    statements = Program(ran).tree.body
    if end.error is not None:
        statements = [*statements, *Program(end.error.source).tree.body]
        if not _answers(statements[-1]):
            return
    is_whole = not end.lost and not end.interrupted
    at = next((n for n, each in enumerate(statements) if _answers(each)), len(statements))
    if is_whole or at < len(statements):
        yield from reversed(statements[max(at - 1, 0) : at + 1])


def _answers(statement: ast.stmt) -> bool:
    return any(True for _ in calls(statement, PROGRAM_ANSWER))


def as_answer(values: Mapping[str, Json]) -> Any:
    """What these values are as an answer: one is the answer itself."""
    return next(iter(values.values())) if len(values) == 1 else dict(values)
