"""Whether the numbers of an answer come from data, or the model invented them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from archytas_nb.small.checks import unsupported_numbers
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.program import PROGRAM_ANSWER, Program, calls


def invented_numbers(program: str, sources: Iterable[str], known: Collection[str]) -> list[str]:
    """The numbers that an answer rests on and that nobody told the model; empty if there are none.

    An answer that depends on a variable of the notebook or on a tool rests on it. One that depends
    on neither rests on the numbers that the program writes itself, also under the name of a
    variable to which it has assigned them.

    Args:
        program: The program, which calls ``answer``.
        sources: The texts that the model was told.
        known: The names of the variables and tools.
    """
    tree = Program(program).tree
    fed = set(known)
    for statement in tree.body:
        bindings = Bindings(statement)
        read = {use.name for use in bindings.uses if use.act == "read"}
        if not read & fed:
            if any(True for _ in calls(statement, PROGRAM_ANSWER)):
                return unsupported_numbers(_numbers(tree), sources)
            if isinstance(statement, (ast.Assign, ast.AnnAssign)):
                fed -= set(bindings.bound_in_order)
            continue
        if any(True for _ in calls(statement, PROGRAM_ANSWER)):
            return []
        fed |= {use.name for use in bindings.uses if use.act in ("bind", "change")}
    return []


def _numbers(tree: ast.AST) -> str:
    """The numbers that a program writes, in its texts as well."""
    constants = (each.value for each in ast.walk(tree) if isinstance(each, ast.Constant))
    return " ; ".join(str(each) for each in constants if isinstance(each, (int, float, str)))
