"""The variables that lead to an object: by attributes, elements, closures, views, global names."""

from __future__ import annotations

import dis
import functools
import itertools
import math
import types
from collections.abc import Container, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

from archytas_nb.namespace import Namespace, contained
from archytas_nb.objects.equality import is_atom, is_of, only_atoms
from archytas_nb.undo.content import Kind
from archytas_nb.undo.snapshot import OBJECTS, kinds_of

_GLOBAL = frozenset({"LOAD_GLOBAL", "LOAD_NAME", "DELETE_GLOBAL", "LOAD_FROM_DICT_OR_GLOBALS"})

Node: TypeAlias = int | str
"""An object by its id, or a variable by its name."""


class Holders:
    """The references to the objects of a namespace at one moment.

    At most `OBJECTS` objects are followed.

    Args:
        variables: The variables.
        namespace: The namespace, which is not content of what refers to it.

    Attributes:
        objects: The objects by id; kept, so that no id is reused.
    """

    def __init__(self, variables: Mapping[str, Any], namespace: Namespace) -> None:
        self._variables = variables
        self._parents: dict[Node, list[Node]] = {}
        for name, value in variables.items():
            self._parents.setdefault(id(value), []).append(name)
        self.objects: dict[int, Any] = {}
        border = {id(namespace)}
        for value, found in _followed(variables.values(), border, {}, self.objects, OBJECTS):
            for each in found:
                self._parents.setdefault(id(each), []).append(id(value))
            if memory_of(value) is not value:
                self._parents.setdefault(id(memory_of(value)), []).append(id(value))
            if type(value) is types.FunctionType and value.__globals__ is namespace:
                for name in _global_names(value.__code__):
                    self._parents.setdefault(name, []).append(id(value))

    @property
    def is_whole(self) -> bool:
        """Whether all objects were followed: there are few enough."""
        return len(self.objects) < OBJECTS

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


Instead: TypeAlias = Mapping[tuple[int, Kind], Iterable[Any]]
"""The content that an object will have, by its id and the kind as which it is read."""


def reached(values: Iterable[Any], border: Container[int], instead: Instead) -> dict[int, Any]:
    """All objects that some lead to, and these themselves, by id.

    Args:
        values: The objects.
        border: The ids of objects that are not followed, and do not count.
        instead: Contents to assume for some objects, in place of their current ones.
    """
    seen: dict[int, Any] = {}
    for _ in _followed(values, border, instead, seen):
        pass
    return seen


def _followed(
    values: Iterable[Any],
    border: Container[int],
    instead: Instead,
    seen: dict[int, Any],
    most: float = math.inf,
) -> Iterator[tuple[Any, list[Any]]]:
    """Each object that others lead to, and the objects that it leads to itself, if any.

    Simple values do not count. All objects are added to ``seen``, by id.
    """
    todo = [*values]
    while todo and len(seen) < most:
        value = todo.pop()
        if id(value) in seen or id(value) in border or is_simple(value):
            continue
        seen[id(value)] = value
        found: list[Any] = []
        with contained():
            # An object may raise anything.
            found += _children(value, instead)
        yield value, found
        if found and _are_flat_lists(found):
            # There may be very many.
            seen |= {id(each): each for each in found if id(each) not in border}
        else:
            todo += found


def _are_flat_lists(values: list[Any]) -> bool:
    """Whether values are lists that lead to nothing."""
    if set(map(id, map(type, values))) != {id(list)}:
        return False
    return only_atoms(itertools.chain.from_iterable(values))


def is_simple(value: Any) -> bool:
    """Whether a value cannot change and leads to nothing; false if its class does not say."""
    cls: Any = type(value)
    with contained():
        # A metaclass may raise anything when it is hashed.
        return is_atom(cls)
    return False


def memory_of(value: Any) -> Any:
    """The object that holds the elements of an array; any other object itself."""
    with contained():
        # A class may raise anything when it is hashed.
        while _is_array(value) and value.base is not None:
            value = value.base
    return value


def _is_array(value: Any) -> bool:
    cls: Any = type(value)
    return is_of(cls, "numpy", "ndarray")


def _children(value: Any, instead: Instead) -> Iterator[Any]:
    for kind in kinds_of(value)[0]:
        if (id(value), kind) in instead:
            yield from instead[id(value), kind]
            continue
        parts: tuple[Any, ...] = ()
        if kind.objects is None:
            parts = kind.read(value)
        for _, each in kind.children(value, parts):
            yield each


@functools.lru_cache(maxsize=4096)
def _global_names(code: types.CodeType) -> tuple[str, ...]:
    """The global variables that code reads or deletes."""
    found = [each.argval for each in dis.get_instructions(code) if each.opname in _GLOBAL]
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType):
            found += _global_names(constant)
    return tuple(dict.fromkeys(found))
