"""Whether a function and the classes of its annotations are still what their files say.

    the file has     the live object has     what a model and the person read
    ───────────────  ──────────────────────  ───────────────────────────────────────────────────────
    not changed      anything                nothing
    changed          changed with it         the new specification
    changed          not changed             the old one, which counts, and what the file says now

The first time that an object is looked at, its file is taken for its source. Of a function the code
counts, of a class its fields: a model reads no more of them.
"""

from __future__ import annotations

import ast
import os
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import FunctionType
from typing import Any
from weakref import WeakKeyDictionary

from archytas_nb.tools.annotation import Unusable
from archytas_nb.tools.meaning import evaluated, parts_of, raw_annotations
from archytas_nb.tools.render import is_users_file
from archytas_nb.tools.schema import argument_type
from archytas_nb.words import collapse_whitespace, truncate_line

_LINES = 3  # of what is new
_LINE = 80
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


@dataclass(slots=True)
class _Seen:
    """An object when it was last known to be what its file says."""

    live: Any
    file: _File
    text: str


@dataclass(frozen=True, slots=True)
class _File:
    """A state of a file; another one has another size or time."""

    path: str
    size: int
    time: int


_seen: WeakKeyDictionary[Any, _Seen] = WeakKeyDictionary()


def outdated(function: Any) -> tuple[str, ...]:
    """A sentence for each part of a function's specification that its file has otherwise by now.

    Args:
        function: A function, or anything else that is called; only those of files of the user,
            and not of cells, have sentences.
    """
    if type(function) is not FunctionType:
        return ()
    checked = (_checked(each) for each in (function, *_classes(function)))
    return tuple(each for each in checked if each is not None)


def _classes(function: FunctionType) -> Iterator[type]:
    """The classes of the user that the annotations of a function name, with those of fields."""
    found: set[type] = set()
    todo: list[Any] = [function]
    while todo:
        owner = todo.pop()
        annotations = evaluated(raw_annotations(owner), owner)
        parts = (part for each in annotations.values() for part in parts_of(each))
        for cls in (cls for part in parts if isinstance(part, type) for cls in part.__mro__):
            if cls not in found and _file_of(cls) is not None:
                found.add(cls)
                todo.append(cls)
                yield cls


def _checked(thing: Any) -> str | None:
    """The message about a function or a class; None if it is as in its file."""
    file = _file_of(thing)
    if file is None:
        return None
    seen = _seen.get(thing)
    if seen is not None and seen.file == file:
        return None
    text = _text_of(file)
    live = _live(thing)
    if seen is None or seen.live != live:
        _seen[thing] = _Seen(live, file, text)
        return None
    trees = _tree(seen.text), _tree(text)
    if trees[0] is None or trees[1] is None:
        return None
    before = _defined(trees[0], thing.__qualname__)
    after = _defined(trees[1], thing.__qualname__)
    if before is None or before == after:
        return None
    name = f"{thing.__qualname__!r} of {Path(file.path).name!r}"
    if after is None:
        return f"{name} is no longer in the file; this notebook still has it."
    new = [truncate_line(each, _LINE) for each in after if each not in before][:_LINES]
    news = f" The file has now: {'; '.join(new)}" if new else ""
    return f"{name} was changed in the file, and this notebook still has the earlier one.{news}"


def _file_of(thing: Any) -> _File | None:
    """The file of the user that defines a function or a class; None for a cell or a library."""
    module = sys.modules.get(str(thing.__module__))
    path = getattr(module, "__file__", None)
    if not isinstance(path, str) or thing.__module__ == "__main__" or not is_users_file(path):
        return None
    try:
        state = os.stat(path)  # noqa: PTH116 - at each question
    except OSError:
        return None
    return _File(path, state.st_size, state.st_mtime_ns)


def _live(thing: Any) -> Any:
    """The parts of a function or a class in this process that a change of its file may affect."""
    if isinstance(thing, FunctionType):
        values = thing.__defaults__, thing.__kwdefaults__
        return thing.__code__, repr(values), repr(raw_annotations(thing)), thing.__doc__
    try:
        kind = argument_type(thing)
    except Unusable as error:
        return str(error)
    return kind.text, kind.schema, kind.defs


@lru_cache(maxsize=64)
def _text_of(file: _File) -> str:
    try:
        return Path(file.path).read_text("utf-8", "replace")
    except OSError:
        return ""


@lru_cache(maxsize=64)
def _tree(text: str) -> ast.Module | None:
    try:
        return ast.parse(text)
    except (SyntaxError, ValueError):  # it is being written
        return None


def _defined(tree: ast.Module, qualname: str) -> tuple[str, ...] | None:
    """The statements of a definition that count, written alike; None if there is none."""
    scope: Any = tree
    for name in qualname.split("."):
        named = [
            each
            for each in _statements(scope)
            if isinstance(each, (*_FUNCTIONS, ast.ClassDef)) and each.name == name
        ]
        if not named:
            return None
        scope = named[-1]
    return tuple(collapse_whitespace(ast.unparse(each)) for each in _counting(scope))


def _statements(scope: Any) -> Iterator[ast.AST]:
    """The statements of a scope, also those below an ``if`` or a ``try``."""
    for each in getattr(scope, "body", []):
        yield each
        if not isinstance(each, (*_FUNCTIONS, ast.ClassDef)):
            for part in ("body", "orelse", "handlers", "finalbody"):
                for inner in getattr(each, part, []):
                    yield from (inner, *_statements(inner))


def _counting(node: Any) -> Iterator[ast.AST]:
    """The parts of a definition that count."""
    yield from node.decorator_list
    if isinstance(node, ast.ClassDef):
        yield from (*node.bases, *node.keywords)
        yield from (each for each in node.body if not isinstance(each, _FUNCTIONS))
        return
    yield node.args
    yield from filter(None, [node.returns])
    yield from node.body
