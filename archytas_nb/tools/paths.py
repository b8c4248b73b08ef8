"""A path: a variable, and literal steps into it, such as ``df["x"]`` or ``cfg["a"][0]``.

A path is parsed and followed, never evaluated. A step reads only what is stored, and runs no code
of the user:

    a column, or a level of the index    of a table of any library
    a key                                of a mapping, also written as an attribute
    a position                           of a sequence or an array
    an attribute                         that the object or its class stores

A part that is named like a secret is not read, nor is the environment.
"""

from __future__ import annotations

import ast
import inspect
import os
import types
import warnings
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from archytas_nb.errors import STOPS
from archytas_nb.tools.names import is_secret
from archytas_nb.tools.render import is_users_file
from archytas_nb.tools.tables import Column, index_of, table_of
from archytas_nb.words import did_you_mean, truncate_line

_MAX_PATH = 1000  # characters
_LISTED = 20  # parts that are suggested
_ENVIRONMENT = type(os.environ)
_MISSING: Any = object()


class NoPartError(ValueError):
    """A path names a part that is not there, or is not read; the message may hold keys."""


class Step(NamedTuple):
    """One step of a path, as it was written: ``.key`` or ``[key]``."""

    key: Any
    is_attribute: bool


class Part(NamedTuple):
    """The value of a path.

    Attributes:
        value: The object.
        root: The name of the variable.
        source: The path in Python, as it evaluates to the object.
        owner: The object before the last step; the object itself without steps.
        owner_source: The path to it.
        column: The column that the last step named; None if it named none.
    """

    value: Any
    root: str
    source: str
    owner: Any
    owner_source: str
    column: Column | None = None


def parsed(text: str) -> tuple[str, tuple[Step, ...]] | None:
    """The name and the steps of a path; None for any other text, such as one with a call."""
    text = text.strip()
    if len(text) > _MAX_PATH:
        return None
    steps: list[Step] = []
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", SyntaxWarning)
            node = ast.parse(text, mode="eval").body
        while not isinstance(node, ast.Name):
            if isinstance(node, ast.Attribute):
                steps.append(Step(node.attr, is_attribute=True))
            elif isinstance(node, ast.Subscript):
                key = ast.literal_eval(node.slice)
                hash(key)
                steps.append(Step(key, is_attribute=False))
            else:
                return None
            node = node.value
    except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
        return None
    return node.id, tuple(reversed(steps))


def find(text: str, namespace: Mapping[str, Any], names: Iterable[str] = ()) -> Part | None:
    """The value of a path; None if it does not begin with a variable.

    Args:
        text: The path. The name of a column alone means that of the only table that has one, and
            after a dot a column may have any name.
        namespace: The variables.
        names: The variables whose columns may be named alone.

    Raises:
        NoPartError: A step leads nowhere, or to what is not read.
    """
    text = text.strip()
    # `get`, because a mapping may note what is asked for.
    value = namespace.get(text, _MISSING)
    if value is not _MISSING:
        return Part(value, text, text, value, text)
    root, point, rest = text.partition(".")
    path = parsed(text)
    if point and root in namespace and _column(namespace[root], rest) is not None:
        path = root, (Step(rest, is_attribute=True),)
    if path is None:
        return None
    root, steps = path
    value = namespace.get(root, _MISSING)
    if value is _MISSING:
        return None if steps else _of_column(root, namespace, names)
    found = Part(value, root, root, value, root)
    for step in steps:
        found = _stepped(found, step)
    return found


def _of_column(name: str, namespace: Mapping[str, Any], names: Iterable[str]) -> Part | None:
    """The column of this name, if only one table has it."""
    owners = [each for each in names if _column(namespace[each], name) is not None]
    if len(owners) != 1:
        return None
    value = namespace[owners[0]]
    return _stepped(Part(value, owners[0], owners[0], value, owners[0]), Step(name, False))  # noqa: FBT003


# ── one step ──────────────────────────────────────────────────────────────────────────────────────


def _stepped(found: Part, step: Step) -> Part:
    key = step.key
    value = found.value
    if isinstance(key, str) and (is_secret(key) or (step.is_attribute and key.startswith("_"))):
        why = "it is named like a secret" if is_secret(key) else "its name begins with '_'"
        raise NoPartError(f"{key!r} of {found.source!r} is not read: {why}")
    if issubclass(type(value), _ENVIRONMENT):
        raise NoPartError(f"{found.source!r} is the environment, which is not read")
    column, written = _column(value, key) or (None, "")
    if column is not None:
        part = _item(value, key) if column.size is None else column.native  # of a query
        part = None if part is _MISSING else part
    else:
        part = _attribute(value, key) if step.is_attribute else _MISSING
        written = f"[{key!r}]" if part is _MISSING else f".{key}"
        if part is _MISSING:
            part = _item(value, key)
        if part is _MISSING:
            raise NoPartError(_nothing(found, step))
    source = f"{found.source}{written}"
    return Part(part, found.root, source, value, found.source, column)


def _column(value: Any, key: Any) -> tuple[Column, str] | None:
    """The column or the level of the index with this name, and how Python writes it."""
    try:
        table = table_of(value)
        if table is not None:
            for names in (table.names, table.labels, [str(each) for each in table.names]):
                if key in names:
                    place = names.index(key)
                    return table.column(place), f"[{table.names[place]!r}]"
        levels = index_of(value)
    except STOPS:
        raise
    except Exception:  # noqa: BLE001 - an object of the user may raise anything
        return None
    for place, level in enumerate(levels):
        if isinstance(key, str) and key in (level.label or "index", str(level.name)):
            return level, ".index" if len(levels) == 1 else f".index.get_level_values({place})"
    return None


def _attribute(value: Any, name: str) -> Any:
    """The value that an object stores under a name, without running code; `_MISSING` if none."""
    found = inspect.getattr_static(value, name, _MISSING)
    if isinstance(found, types.MemberDescriptorType) or type(found).__name__ == "_tuplegetter":
        try:
            return found.__get__(value, type(value))
        except AttributeError:  # a slot without a value
            return _MISSING
    is_computed = found is not _MISSING and hasattr(type(found), "__get__")
    return _MISSING if is_computed else found


def _item(value: Any, key: Any) -> Any:
    """The value in a container under a key or at a position; `_MISSING` if none."""
    if isinstance(value, (str, bytes, bytearray)):
        return _MISSING
    try:
        if isinstance(value, dict):  # without a `__missing__`, which may add the key
            return dict.__getitem__(value, key) if dict.__contains__(value, key) else _MISSING
        if isinstance(value, (list, tuple)):
            kind: Any = list if isinstance(value, list) else tuple
            return kind.__getitem__(value, key) if type(key) is int else _MISSING
        read = inspect.getattr_static(type(value), "__getitem__", None)
        code = getattr(read, "__code__", None)
        if read is None or (code is not None and is_users_file(code.co_filename)):
            return _MISSING
        return value[key]
    except STOPS:
        raise
    except Exception:  # noqa: BLE001 - each library has its own
        return _MISSING


# ── what is there ─────────────────────────────────────────────────────────────────────────────────


def parts_of(value: Any, most: int = _LISTED) -> list[tuple[str, Any]]:
    """Some parts of a value, each as the end of its path, without those that are not read."""
    table = table_of(value)
    pairs: Iterable[tuple[Any, Any]] = ()
    if table is not None:
        pairs = ((table.names[at], table.column(at).native) for at in range(min(table.width, most)))
    elif isinstance(value, dict):
        pairs = value.items()
    elif isinstance(value, (list, tuple)):
        pairs = enumerate(value)
    found: list[tuple[str, Any]] = []
    for key, part in pairs:
        if len(found) == most:
            break
        if not (isinstance(key, str) and is_secret(key)) and isinstance(key, (str, int, tuple)):
            found.append((f"[{key!r}]", part))
    return found


def _nothing(found: Part, step: Step) -> str:
    """Why a step leads nowhere, and what is there instead."""
    key = step.key
    value = found.value
    table = table_of(value)
    what = f"{found.source!r}"
    if table is not None:
        return f"{what} has no column {key!r}{_choice(key, table.labels)}"
    if isinstance(value, Mapping):
        keys = [each for each in value if isinstance(each, str) and not is_secret(each)]
        return f"{what} has no key {key!r}{_choice(key, keys)}"
    if isinstance(value, (list, tuple)) and not hasattr(value, "_fields"):
        return f"{what} has {len(value)} items, and none at {key!r}"
    kind = type(value).__name__
    if step.is_attribute and inspect.getattr_static(value, str(key), _MISSING) is not _MISSING:
        return f"{key!r} of {what} is computed by {kind!r}; a path reads only what is stored"
    return f"{what} is of type {kind!r}, which has no part {key!r}"


def _choice(key: Any, names: Sequence[str]) -> str:
    guess = did_you_mean(str(key), names)
    if not names:
        return "; it has none"
    listed = truncate_line(", ".join(names[: 2 * _LISTED]), 600)
    return f"{guess or ';'} expected one of {listed}"
