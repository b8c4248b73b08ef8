"""Replaces parts of a program: calls, names, and the calls that end it."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, TypeAlias

from archytas_nb.syntax.program import called

Rule: TypeAlias = Callable[[Any], "ast.AST | None"]
"""The replacement of a node; None if it stays, and its parts are visited."""

End: TypeAlias = Callable[[ast.Call], Sequence[ast.stmt]]
"""The statements for one that only calls a function, such as ``answer``."""

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef, ast.Lambda)
"""The nodes with their own scope."""


class Substitution(ast.NodeTransformer):
    """Changes the trees of statements, from the outside to the inside.

    Args:
        rules: The replacements of nodes, by their types.
        ends: The replacements of statements that are a call, by the names of the functions.
        enters_functions: Whether functions and classes of the program are changed, too.
    """

    def __init__(
        self,
        rules: Mapping[type[ast.AST], Rule] = MappingProxyType({}),
        ends: Mapping[str, End] = MappingProxyType({}),
        *,
        enters_functions: bool = True,
    ) -> None:
        self._rules = rules
        self._ends = ends
        self._enters_functions = enters_functions
        self._depth = 0

    @property
    def in_function(self) -> bool:
        """Whether the node is in a function of the program that cannot await."""
        return self._depth > 0

    def all(self, body: Iterable[ast.stmt]) -> list[ast.stmt]:
        """The statements with their parts replaced."""
        tree = self.generic_visit(ast.Module([*body], []))
        changed: list[ast.stmt] = ast.fix_missing_locations(tree).body  # type: ignore[attr-defined]
        return changed

    def inside(self, node: ast.AST) -> Any:
        """A node with its parts replaced."""
        return self.generic_visit(node)

    def visit(self, node: ast.AST) -> Any:
        """The replacement of a node."""
        if not self._enters_functions and isinstance(node, FUNCTIONS):
            return node
        is_function = isinstance(node, (ast.FunctionDef, ast.Lambda))
        self._depth += is_function
        try:
            made = self._made(node)
            return self.inside(node) if made is None else made
        finally:
            self._depth -= is_function

    def _made(self, node: ast.AST) -> ast.AST | list[ast.stmt] | None:
        end = None
        if isinstance(node, ast.Expr):
            end = self._ends.get(called(node.value))
        if end is not None and isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
            return [ast.copy_location(each, node) for each in end(node.value)]
        rule = self._rules.get(type(node))
        made = None if rule is None else rule(node)
        return None if made is None else ast.copy_location(made, node)
