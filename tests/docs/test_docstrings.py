"""Docstrings begin with a noun or a verb, and name only arguments and errors that exist."""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TREES = {
    str(file.relative_to(ROOT)): ast.parse(file.read_text("utf-8"))
    for file in sorted((ROOT / "archytas_nb").rglob("*.py"))
}


def names_in(tree: ast.AST) -> Iterator[str]:
    """The names of classes and functions that code defines, uses or imports."""
    for node in ast.walk(tree):
        if isinstance(node, (ast.ClassDef, ast.FunctionDef, ast.alias)):
            yield node.name
        elif isinstance(node, ast.Name):
            yield node.id
        elif isinstance(node, ast.Attribute):
            yield node.attr


KNOWN = {*dir(builtins), *(name for tree in TREES.values() for name in names_in(tree))}


def section(doc: str, name: str) -> list[str]:
    """The names that begin the entries of a section of a docstring."""
    found = re.search(rf"^{name}:\n((?: {{4}}.*\n?|\n)*)", doc, re.MULTILINE)
    entries = re.findall(r"^ {4}([\w.*]+(?:, [\w.*]+)*):", found[1], re.MULTILINE) if found else []
    return [each for entry in entries for each in entry.split(", ")]


def unknown_names(tree: ast.AST) -> Iterator[str]:
    """The names in docstrings of functions that are no argument, or no exception of the code."""
    for node in ast.walk(tree):
        if not isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            continue
        doc = ast.get_docstring(node) or ""
        for raised in section(doc, "Raises"):
            if raised.rpartition(".")[2] not in KNOWN:
                yield f"{node.name} raises {raised}"
        given = node.args
        arguments = {each.arg for each in (*given.posonlyargs, *given.args, *given.kwonlyargs)}
        if given.vararg is not None:
            arguments.add(given.vararg.arg)
        if given.kwarg is None:
            others = {each.lstrip("*") for each in section(doc, "Args")} - arguments
            yield from (f"{node.name} takes {each}" for each in sorted(others))


def clauses(tree: ast.AST) -> Iterator[str]:
    """The docstrings, and entries in them, that begin with a clause of "what"."""
    if isinstance(tree, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
        doc = ast.get_docstring(tree) or ""
        yield from re.findall(r"(?m)\A(?=What\b).*|^ {4}\w+: (?=What (?!to\b)).*", doc)
    # A model may read that of a function inside another one, a tool: recordings have it.
    if isinstance(tree, (ast.Module, ast.ClassDef)):
        for node in tree.body:
            yield from clauses(node)


@pytest.mark.parametrize("name", TREES)
def test_a_docstring_names_only_what_there_is(name: str) -> None:
    assert [*unknown_names(TREES[name])] == []


@pytest.mark.parametrize("name", TREES)
def test_a_docstring_begins_with_its_subject(name: str) -> None:
    # "The rows that failed", not "What failed": the first words say which thing it is.
    assert [*clauses(TREES[name])] == []


def test_a_clause_is_found() -> None:
    code = '''
"""What it does."""

def f(prompt, given):
    """Do it.

    Args:
        prompt: What to do.
        given: What is given.
    """
'''
    assert [*clauses(ast.parse(code))] == ["What it does.", "    given: What is given."]


def test_a_name_that_is_gone_is_found() -> None:
    code = '''
def f(old, *rest):
    """Do it.

    Args:
        old, new: Two.
        *rest: Others.

    Raises:
        ValueError: Now.
        builtins.OSError: Then.
        GoneForeverError: No longer.
    """
'''
    assert [*unknown_names(ast.parse(code))] == ["f raises GoneForeverError", "f takes new"]
