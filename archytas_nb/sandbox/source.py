"""Reads the text of a program: its lines, the names it assigns, the calls it awaits."""

from __future__ import annotations

import ast
from bisect import bisect_right
from collections.abc import Collection, Iterator
from itertools import accumulate

from archytas_nb.loop.events import Fault
from archytas_nb.syntax.bindings import DEFINITIONS, Bindings
from archytas_nb.syntax.edits import Edits
from archytas_nb.syntax.program import Program, calls
from archytas_nb.tools.declaration import PRIVATE

CHECKPOINT = f"{PRIVATE}checkpoint"
"""The function that a program calls after each statement whose values must not be lost."""

_WAITING = frozenset(
    {"gather", "wait", "wait_for", "create_task", "ensure_future", "shield", "as_completed"}
)
"""The functions of asyncio that take awaitables."""
_DISPLAYS = (ast.Starred, ast.List, ast.Tuple, ast.Set, ast.ListComp, ast.GeneratorExp, ast.SetComp)


class Source:
    """A program that is run.

    Args:
        text: The text of the model.
        program: This text, prepared for the sandbox; the lines are the same.
        tools: The names of the functions that send requests to the loop.
        has_checkpoints: Whether its session is saved while it runs.

    Attributes:
        fed: The text that the sandbox runs. A call of `CHECKPOINT` follows each statement that
            calls a tool, so its value is in the session before the program continues.
        bound: The variables that it binds, also to functions, classes and modules.
        assigned: The variables that it assigns values, in order.
    """

    def __init__(
        self, text: str, program: Program, tools: Collection[str], *, has_checkpoints: bool = True
    ) -> None:
        self._lines = _lines(text)
        self.bound = program.bindings.bound
        self.assigned = tuple(dict.fromkeys(_assigned(program.bindings)))
        if has_checkpoints:
            program = _with_checkpoints(program, tools)
        self.fed = program.text
        self._starts = _line_starts(self.fed)
        self._parents = {
            child: parent
            for parent in program.nodes(ast.AST)
            for child in ast.iter_child_nodes(parent)
        }
        self._calls = {
            (self._offset(each.lineno, each.col_offset), self._end(each)): each
            for each in program.nodes(ast.Call)
        }
        self._awaited = frozenset(_awaited(program.tree))

    def line_at(self, offset: int) -> int:
        """The line, from 1, of a position in `fed`, in bytes."""
        return bisect_right(self._starts, offset)

    def line(self, number: int) -> str:
        """A line of the text, without its indent; empty if there is none."""
        if 1 <= number <= len(self._lines):
            return self._lines[number - 1].strip()
        return ""

    def fault(self, line: int, text: str, raised: str | None = None) -> Fault:
        """A fault in one of its lines, and the exception that it raised."""
        return Fault(line, self.line(line), text, raised)

    def is_awaited(self, start: int, end: int) -> bool:
        """Whether the program awaits the call at this position, in bytes of `fed`."""
        node: ast.AST | None = self._calls.get((start, end))
        while node is not None:
            parent = self._parents.get(node)
            if isinstance(parent, ast.Await):
                return True
            if isinstance(parent, ast.Call):
                return node is not parent.func and self._is_collected(parent)
            if isinstance(parent, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.NamedExpr)):
                return any(name in self._awaited for name in _targets(parent))
            node = parent if isinstance(parent, _DISPLAYS) else None
        return False

    def _is_collected(self, call: ast.Call) -> bool:
        """Whether a call awaits its arguments, or adds them to a set that is awaited."""
        if _last_name(call.func) in _WAITING:
            return True
        is_method = isinstance(call.func, ast.Attribute) and isinstance(call.func.value, ast.Name)
        return is_method and call.func.value.id in self._awaited  # type: ignore[attr-defined]

    def _offset(self, line: int, column: int) -> int:
        return self._starts[line - 1] + column

    def _end(self, node: ast.expr) -> int:
        return self._offset(node.end_lineno or 1, node.end_col_offset or 0)


def _line_starts(text: str) -> list[int]:
    return [0, *accumulate(len(each.encode()) for each in _lines(text))]


def _lines(text: str) -> list[str]:
    """The lines with their ends, as Python counts them: a form feed does not end one."""
    return [each.decode() for each in text.encode().splitlines(keepends=True)]


def _assigned(bindings: Bindings) -> Iterator[str]:
    """The variables that get values, without functions, classes and what is imported."""
    for each in bindings.uses:
        is_value = not isinstance(each.node, (*DEFINITIONS, ast.alias))
        if each.act == "bind" and not each.is_local and is_value:
            yield each.name


def _with_checkpoints(program: Program, tools: Collection[str]) -> Program:
    edits = Edits(program.text)
    body = program.tree.body
    last = body[-1] if body else None
    for node in program.nodes(ast.stmt):
        if not isinstance(node, (ast.Assign, ast.AnnAssign, ast.AugAssign, ast.Expr)):
            continue
        if node is last and isinstance(node, ast.Expr):
            # Its value is the value of the program.
            continue
        if any(calls(node, *tools)) or (node in body and _has_call(node)):
            edits.replace(node, node, f"; {CHECKPOINT}()")
    return Program(edits.applied())


def _has_call(node: ast.AST) -> bool:
    return any(isinstance(each, ast.Call) for each in ast.walk(node))


def _awaited(tree: ast.AST) -> Iterator[str]:
    """The variables that are awaited, or passed to a function that awaits them."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Await) and isinstance(node.value, ast.Name):
            yield node.value.id
        if isinstance(node, ast.Call) and _last_name(node.func) in _WAITING:
            given = [each.value for each in node.args if isinstance(each, ast.Starred)]
            yield from (each.id for each in (*node.args, *given) if isinstance(each, ast.Name))


def _targets(node: ast.Assign | ast.AnnAssign | ast.AugAssign | ast.NamedExpr) -> Iterator[str]:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target]
    for target in targets:
        for each in ast.walk(target):
            if isinstance(each, ast.Name):
                yield each.id


def _last_name(node: ast.expr) -> str:
    """The name of a name or of an attribute; empty for any other expression."""
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")
