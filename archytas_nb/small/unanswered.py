"""The values of a program that gives no answer: it prints them, or its answer failed.

What a program prints at its end is its answer. Values of which only the answer failed are better
than nothing for a person who is told how they came about. What a program has computed before a
statement that failed in its middle is only a part of it, and is not given.
"""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from archytas_nb.loop.events import Json, ProgramEnded
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.program import PROGRAM_ANSWER, Program, called, calls
from archytas_nb.words import count


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
            is_whole = bool(bindings.bound_in_order) or _only_writes(statement, assigned)
            found = {name: end.computed[name] for name in names if name in end.computed}
            return found if is_whole else {}
    return {}


def _only_writes(answer: ast.stmt, names: Collection[str]) -> bool:
    """Whether an answer only writes variables down, and computes nothing of them any further."""
    writing = (ast.Expr, ast.Call, ast.FormattedValue, ast.JoinedStr, ast.Tuple, ast.List, ast.Dict)
    nodes: list[ast.AST] = [answer]
    while nodes:
        node = nodes.pop()
        if isinstance(node, ast.Call) and not isinstance(node.func, ast.Name):
            return False
        is_written = isinstance(node, writing) or _is_addition(node)
        inner = {each.id for each in ast.walk(node) if isinstance(each, ast.Name)}
        if not is_written and not isinstance(node, ast.Name) and inner & {*names}:
            return False
        if is_written:
            nodes += ast.iter_child_nodes(node)
    return True


def _is_addition(node: ast.AST) -> bool:
    """Whether a node adds something to a text."""
    return (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add)
        and any(isinstance(each, (ast.JoinedStr, ast.Constant)) for each in (node.left, node.right))
    )


def with_printed(end: ProgramEnded, ran: str) -> ProgramEnded:
    """The end of a program with what it printed at its end, or its pictures, as its answer.

    It has none if the program printed something before, or more than a line at a time, such as a
    table: then it looked at data.
    """
    is_whole = not (end.has_answer or end.error or end.lost or end.interrupted)
    prints = _printing(Program(ran).tree.body)
    if is_whole and end.figures and end.gave_up is None and not prints:
        answer = count(len(end.figures), "figure")
        return replace(end, has_answer=True, answer=answer, given=(answer,))
    if not is_whole or end.gave_up is not None or not prints or len(end.shown) != len(prints):
        return end
    answer = "\n".join(end.shown)
    return replace(end, has_answer=True, answer=answer, given=(answer,), shown=())


def answering(ran: str) -> str:
    """A program that answers with what it prints at its end, if it has no other answer."""
    tree = Program(ran).tree
    if not any(True for _ in calls(tree, PROGRAM_ANSWER)):
        for each in _printing(tree.body):
            each.func = ast.Name(PROGRAM_ANSWER)
    return ast.unparse(tree)


def _printing(body: Sequence[ast.stmt]) -> list[ast.Call]:
    """The calls of print in the last statements; none if it is called elsewhere, too."""
    values = [getattr(each, "value", None) for each in body]
    at = len(values)
    while at and called(values[at - 1]) == "print":
        at -= 1
    found = [each for each in values[at:] if isinstance(each, ast.Call)]
    return (
        found
        if found and not any(True for _ in calls(ast.Module([*body[:at]], []), "print"))
        else []
    )


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
    """The answer that consists of these values: one is the answer itself."""
    return next(iter(values.values())) if len(values) == 1 else dict(values)
