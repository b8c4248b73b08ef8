"""The variables that a model may know of, and those of them that it may read."""

from __future__ import annotations

import gc
import os
from collections import UserList, deque
from collections.abc import Iterator, Mapping, MappingView
from dataclasses import is_dataclass
from types import GenericAlias, ModuleType, SimpleNamespace, UnionType
from typing import Any

from archytas_nb.namespace import contained
from archytas_nb.tools.names import is_secret
from archytas_nb.tools.render import is_lazy
from archytas_nb.tools.tables import index_of, table_of
from archytas_nb.tools.variables import is_code, user_names, why_not_passed

_ENVIRONMENT = type(os.environ)
_CONTAINERS = (dict, list, tuple, deque, UserList, Mapping, MappingView, SimpleNamespace)
_OURS = __name__.partition(".")[0]
_OF_TYPES = frozenset({"typing", "typing_extensions"})
"""The modules whose objects are annotations, not data."""


def shown_names(namespace: Mapping[str, Any]) -> list[str]:
    """The names of the variables that a model may read."""
    return [name for name, _ in variables_in(namespace)]


def told_names(namespace: Mapping[str, Any]) -> set[str]:
    """The names that a model may be told: those of variables, functions and modules."""
    return {name for name in user_names(namespace) if not is_secret(name)}


def variables_in(namespace: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The user's variables without modules, tools, functions, classes, secrets and our objects."""
    for name in user_names(namespace):
        value = namespace[name]
        is_left_out = True
        with contained():
            is_left_out = is_secret(name) or _is_left_out(name, value)
        if not is_left_out:
            yield name, value


def _is_left_out(name: str, value: Any) -> bool:
    if is_ours(type(value)) or is_code(value) or isinstance(value, (GenericAlias, UnionType)):
        return True
    return type(value).__module__ in _OF_TYPES or bool(why_not_passed(name, value))


def is_ours(definition: Any) -> bool:
    """Whether a class, a function or a module is one of this package."""
    is_module = isinstance(definition, ModuleType)
    name = definition.__name__ if is_module else definition.__module__
    return str(name).partition(".")[0] == _OURS


def columns_in(namespace: Mapping[str, Any]) -> set[str]:
    """The names of the columns of all tables, and those of their levels and indexes."""
    found: set[str] = set()
    for _, value in variables_in(namespace):
        with contained():
            table = table_of(value)
            found.update(str(each.name) for each in index_of(value) if each.name is not None)
            if table is not None:
                found.update(map(str, table.names))
                found.update(table.levels)
    return found


def why_not_shown(name: str, value: Any) -> str:
    """Why the value of a variable is not shown to the model; empty if it is shown."""
    if is_secret(name):
        return "it is named like a secret"
    if is_lazy(value):
        return f"reading a {type(value).__name__} would use it up"
    if holds_environment(value):
        return "it holds the environment"
    return ""


def holds_environment(value: Any) -> bool:
    """Whether a value contains the environment, or a view of it, at any depth."""
    stack = [value]
    seen = set()
    alive = []
    while stack:
        each = stack.pop()
        kind = type(each)
        if issubclass(kind, _ENVIRONMENT):
            return True
        if id(each) in seen:
            continue
        seen.add(id(each))
        if issubclass(kind, _CONTAINERS) or is_dataclass(kind) or hasattr(kind, "model_dump"):
            parts = gc.get_referents(each)
            stack += [it for it in parts if gc.is_tracked(it) or hasattr(type(it), "tolist")]
        elif hasattr(kind, "tolist") and str(getattr(each, "dtype", "")) == "object":
            stack.append(each.tolist())
            alive.append(stack[-1])  # so that its id is not reused
    return False
