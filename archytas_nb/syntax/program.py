"""A program of a model as a text: parsed once, with its names, calls, ends and literals."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cached_property
from typing import Any, TypeVar

from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.parse import parsed

PROGRAM_ANSWER = "answer"
PROGRAM_GIVE_UP = "give_up"
PROGRAM_SHOW = "show"
PROGRAM_ENDINGS = (PROGRAM_ANSWER, PROGRAM_GIVE_UP, PROGRAM_SHOW)
"""The functions that a program has besides the tools."""

N = TypeVar("N", bound=ast.AST)


class Program:
    """A text that may be a program.

    Args:
        text: The text.

    Attributes:
        tree: Its tree; that of an empty text if it is not Python.
        error: Why it is not Python; None if it is.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.error: Exception | None = None
        self.tree = ast.Module([], [])
        try:
            self.tree = parsed(text)
        except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
            self.error = error

    @cached_property
    def bindings(self) -> Bindings:
        """The names that it binds and reads."""
        return Bindings(self.tree)

    @property
    def last_line(self) -> int:
        """The number of its last line, from 1, without empty ones."""
        return self.text.rstrip("\n").count("\n") + 1

    def nodes(self, kind: type[N]) -> Iterator[N]:
        """The parts of a kind."""
        return (each for each in ast.walk(self.tree) if isinstance(each, kind))

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """The calls of these functions."""
        return calls(self.tree, *names)

    def literals(self, of: str) -> Iterator[Any]:
        """The values that are written in what it gives to a function."""
        for call in self.calls(of):
            yield from (each.value for each in ast.walk(call) if isinstance(each, ast.Constant))


def called(node: ast.AST | None) -> str:
    """The name of the function that a node calls; empty for anything else."""
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
        return node.func.id
    return ""


def calls(tree: ast.AST, *names: str) -> Iterator[ast.Call]:
    """The calls of these functions in code."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and called(node) in names:
            yield node


def given(call: ast.Call) -> list[ast.expr]:
    """The arguments of a call, by position and by name."""
    return [*call.args, *(each.value for each in call.keywords)]


def receivers(tree: ast.AST) -> set[str]:
    """The variables whose methods code calls, which may put something into them."""
    functions = (each.func for each in ast.walk(tree) if isinstance(each, ast.Call))
    owners = (each.value for each in functions if isinstance(each, ast.Attribute))
    return {each.id for each in owners if isinstance(each, ast.Name)}
