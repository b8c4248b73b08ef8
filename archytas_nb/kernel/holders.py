"""Which variables lead to an object: by attributes, elements, closures, views and global names."""

from __future__ import annotations

import dis
import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from archytas_nb.kernel.shell import Namespace
from archytas_nb.kernel.snapshot import OBJECTS, kinds_of
from archytas_nb.kernel.values import contained, is_atom, is_of

_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})

Node: TypeAlias = int | str
"""An object by its id, or a variable by its name."""


class Holders:
    """What leads to the objects of a namespace at one moment.

    At most `OBJECTS` objects are followed.

    Args:
        variables: The variables.
        namespace: The namespace, which is not content of what refers to it.
    """

    def __init__(self, variables: Mapping[str, Any], namespace: Namespace) -> None:
        self._variables = variables
        self._namespace = namespace
        self._parents: dict[Node, list[Node]] = {}
        self.objects: dict[int, Any] = {id(namespace): namespace}
        """The objects by id; kept, so that no id is reused."""
        todo = [*variables.values()]
        for name, value in variables.items():
            self._parents.setdefault(id(value), []).append(name)
        while todo and len(self.objects) < OBJECTS:
            value = todo.pop()
            if id(value) not in self.objects and not is_simple(value):
                self.objects[id(value)] = value
                with contained():  # an object may raise anything
                    todo += self._inside(value)

    def _inside(self, value: Any) -> list[Any]:
        """Note what an object leads to; returns the objects."""
        found = [*_children(value)]
        for each in found:
            self._parents.setdefault(id(each), []).append(id(value))
        is_function = type(value) is types.FunctionType
        if is_function and value.__globals__ is self._namespace:
            for name in _global_names(value.__code__):
                self._parents.setdefault(name, []).append(id(value))
        return found

    def of(self, value: Any) -> dict[str, Any]:
        """The variables that lead to an object or its memory, by name with their values."""
        return self._above([id(value), id(memory_of(value))])

    def of_name(self, name: str) -> dict[str, Any]:
        """The variables that lead to a function which uses a variable of this name."""
        return self._above(self._parents.get(name, []))

    def _above(self, nodes: Iterable[Node]) -> dict[str, Any]:
        found: dict[str, Any] = {}
        seen: set[Node] = set()
        todo = [*nodes]
        while todo:
            node = todo.pop()
            if node in seen:
                continue
            seen.add(node)
            if isinstance(node, str):
                found[node] = self._variables[node]
            else:
                todo += self._parents.get(node, [])
        return found


def is_simple(value: Any) -> bool:
    """Whether a value cannot change and leads to nothing; false if its class does not say."""
    cls: Any = type(value)
    with contained():  # a metaclass may raise anything when it is hashed
        return is_atom(cls)
    return False


def memory_of(value: Any) -> Any:
    """What holds the elements of an array; any other object itself."""
    with contained():  # a class may raise anything when it is hashed
        while _is_array(value) and value.base is not None:
            value = value.base
    return value


def _is_array(value: Any) -> bool:
    cls: Any = type(value)
    return is_of(cls, "numpy", "ndarray")


def _children(value: Any) -> Iterator[Any]:
    for kind in kinds_of(value)[0]:
        parts: tuple[Any, ...] = ()
        if kind.objects is None:
            parts = kind.read(value)
        for _, each in kind.children(value, parts):
            yield each
    if _is_array(value) and value.base is not None:
        yield memory_of(value)


@functools.lru_cache(maxsize=4096)
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    """The global variables that code reads or deletes."""
    found = [each.argval for each in dis.get_instructions(code) if each.opname in _GLOBAL]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _global_names(constant)
    return tuple(dict.fromkeys(found))
