"""Whether the numbers of an answer come from data, or the model invented them."""

from __future__ import annotations

import ast
from collections.abc import Collection, Iterable

from archytas_nb.small.checks import unsupported_numbers
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.program import PROGRAM_ANSWER, Program, calls, given, receivers


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
    if rests_on(program, known):
        return []
    return unsupported_numbers(_numbers(Program(program).tree), sources)


def rests_on(program: str, known: Collection[str]) -> bool:
    """Whether an answer depends on one of these names, as far as its program is read."""
    fed = set(known)
    for statement in Program(program).tree.body:
        bindings = Bindings(statement)
        read = {use.name for use in bindings.uses if use.act == "read"}
        if any(True for _ in calls(statement, PROGRAM_ANSWER)):
            return bool(read & fed)
        if read & fed:
            fed |= {use.name for use in bindings.uses if use.act in ("bind", "change")}
            fed |= receivers(statement)
        elif isinstance(statement, (ast.Assign, ast.AnnAssign)):
            fed -= set(bindings.bound_in_order)
    return True


def code_in_text(program: str, known: Collection[str]) -> str:
    """The code over a known variable that an answer gives as a text, not computed; empty if none.

    Args:
        program: The program, which calls ``answer``.
        known: The names of the variables and tools.
    """
    for call in calls(Program(program).tree, PROGRAM_ANSWER):
        for each in given(call):
            text = _text_of(each)
            tree = Program(text.strip()).tree
            code = [part.value for part in tree.body if isinstance(part, ast.Expr)]
            read = {use.name for use in Bindings(tree).uses if use.act == "read"}
            # A name alone is a word.
            if read & set(known) and any(not isinstance(part, ast.Name) for part in code):
                return text
    return ""


def _text_of(answer: ast.expr) -> str:
    """The text that an expression is, if nothing in it is computed."""
    parts = answer.values if isinstance(answer, ast.JoinedStr) else [answer]
    texts = [each.value for each in parts if isinstance(each, ast.Constant)]
    if len(texts) < len(parts) or not all(isinstance(each, str) for each in texts):
        return ""
    return "".join(map(str, texts))


def _numbers(tree: ast.AST) -> str:
    """The numbers that a program writes, in its texts as well."""
    constants = (each.value for each in ast.walk(tree) if isinstance(each, ast.Constant))
    return " ; ".join(str(each) for each in constants if isinstance(each, (int, float, str)))
