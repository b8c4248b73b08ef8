"""A program whose statements are in a function without parameters: the statements themselves.

A program runs statement by statement, so that each can be cured and what succeeded stays; the body
of a function is one statement, and does not run at all if nobody calls it.
"""

from __future__ import annotations

import ast
from collections.abc import Iterable, Sequence

from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.parse import parsed
from archytas_nb.syntax.program import PROGRAM_ANSWER, called, calls


def unfolded(tree: ast.Module) -> tuple[str, str] | None:
    """The program with the bodies of such functions in the place of their only call, and why.

    A function that answers and that nobody calls is meant to be called.
    """
    body = _without_guard(tree.body)
    names = []
    for function in [each for each in body if isinstance(each, ast.FunctionDef)]:
        new = _in_place(function, [each for each in body if each is not function])
        if new is not None:
            body = new
            names.append(function.name)
    if not names:
        return None
    source = ast.unparse(ast.Module(body, []))
    parsed(source)
    return source, f"the statements of {', '.join(names)} run one by one"


def _without_guard(body: Iterable[ast.stmt]) -> list[ast.stmt]:
    """The statements with those that only run as a program, as these do."""
    found: list[ast.stmt] = []
    for each in body:
        is_guard = (
            isinstance(each, ast.If) and not each.orelse and "__name__" in ast.unparse(each.test)
        )
        found += each.body if isinstance(each, ast.If) and is_guard else [each]
    return found


def _in_place(function: ast.FunctionDef, others: list[ast.stmt]) -> list[ast.stmt] | None:
    """The other statements with those of a function where it is called; None if that differs."""
    *first, last = function.body
    result = last.value if isinstance(last, ast.Return) else None
    inner = first if isinstance(last, ast.Return) else function.body
    own = Bindings(ast.Module([*inner], [])).bound
    outside = Bindings(ast.Module([*others], [])).used - {function.name}
    if not _is_plain(function, inner) or own & outside:
        return None
    places = [n for n, each in enumerate(others) if function.name in Bindings(each).used]
    if not places:
        answers = any(True for _ in calls(function, PROGRAM_ANSWER))
        return [*others, *inner] if answers else None
    at = places[0]
    found = [each for each in ast.walk(others[at]) if called(each) == function.name]
    is_simple = isinstance(others[at], (ast.Expr, ast.Assign))
    if len(places) > 1 or len(found) != 1 or not is_simple:
        return None
    if result is None:
        is_alone = isinstance(others[at], ast.Expr) and found[0] in ast.iter_child_nodes(others[at])
        rest: list[ast.stmt] = []
        if not is_alone:
            return None
    else:
        rest = [_Replacing(found[0], result).visit(others[at])]
    return [*others[:at], *inner, *rest, *others[at + 1 :]]


def _is_plain(function: ast.FunctionDef, inner: Sequence[ast.stmt]) -> bool:
    """Whether a function has no parameters, and its statements mean the same outside of it."""
    given = function.args
    has_parameters = any(
        [*given.posonlyargs, *given.args, *given.kwonlyargs, given.vararg, given.kwarg]
    )
    special = (ast.Return, ast.Yield, ast.YieldFrom, ast.Await, ast.Global, ast.Nonlocal)
    nodes = (node for each in inner for node in ast.walk(each))
    is_special = any(isinstance(node, special) for node in nodes)
    return not (has_parameters or function.decorator_list or is_special)


class _Replacing(ast.NodeTransformer):
    """Puts one expression in the place of another."""

    def __init__(self, old: ast.AST, new: ast.expr) -> None:
        self._old = old
        self._new = new

    def visit_Call(self, node: ast.Call) -> ast.expr:
        if node is self._old:
            return self._new
        self.generic_visit(node)
        return node
