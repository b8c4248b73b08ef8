"""Scratch names: code of a model binds them for a question, and they go when it has ended.

A scratch name begins with ``_``, is bound by the code itself, and was not there before the code
ran. So names that the user or a tool has made are never removed, and neither are names that a
remaining function uses.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from itertools import islice
from types import CodeType, FunctionType, MethodType
from typing import Any

from archytas_nb.namespace import Namespace, contained
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.tools.variables import is_users_name

_ITEMS = 1000  # maximum number of items of a container in which functions are looked for


class Scratch:
    """The scratch names of one run.

    Args:
        namespace: The variables.

    Attributes:
        names: The names so far.
    """

    def __init__(self, namespace: Namespace) -> None:
        self.names: set[str] = set()
        self._namespace = namespace

    def note(self, code: str) -> None:
        """Note the names that code binds; call it before the code runs."""
        try:
            bound = Bindings.of(code).bound
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return  # it will not run
        self.names.update(
            name
            for name in bound
            if name.startswith("_") and is_users_name(name) and name not in self._namespace
        )

    def remove(self) -> None:
        """Remove them, except those that a remaining function uses."""
        made = {name for name in self.names if name in self._namespace}
        if made:
            for name in made - self._in_use(made):
                del self._namespace[name]

    def _in_use(self, made: set[str]) -> set[str]:
        """The scratch names that remaining objects refer to, directly or indirectly."""
        todo = [value for name, value in dict(self._namespace).items() if name not in made]
        found: set[str] = set()
        while todo:
            value = todo.pop()
            used: set[str] = set()
            with contained():
                used = set(_names_in(value, self._namespace)) & made - found
            found |= used
            todo += [self._namespace[name] for name in used]
        return found


def _names_in(value: Any, namespace: Namespace, depth: int = 3) -> Iterator[str]:
    """The names of the namespace that the functions in a value refer to."""
    if type(value) is FunctionType and value.__globals__ is namespace:
        yield from _names_of_code(value.__code__)
    if depth:
        for each in islice(_parts(value), _ITEMS):
            yield from _names_in(each, namespace, depth - 1)


def _parts(value: Any) -> Iterable[Any]:
    """The parts that may be or contain functions, of a value of Python or of the user's code."""
    # Exact types only: reading a subclass may run its code.
    kind = type(value)
    if kind is FunctionType:
        cells = (each.cell_contents for each in value.__closure__ or () if _is_filled(each))
        return (*cells, *(value.__defaults__ or ()))
    if kind is MethodType:
        return value.__func__, value.__self__
    if kind is functools.partial:
        return value.func, *value.args, *value.keywords.values()
    if kind in (property, staticmethod, classmethod):
        return [getattr(value, each, None) for each in ("fget", "fset", "fdel", "__func__")]
    if kind in (list, tuple, set, frozenset):
        return value  # type: ignore[no-any-return]
    if kind is dict:
        return value.values()  # type: ignore[no-any-return]
    if isinstance(value, type):
        return vars(value).values() if value.__module__ == "__main__" else ()
    if kind.__module__ == "__main__":
        return kind, *getattr(value, "__dict__", {}).values()
    return ()


def _is_filled(cell: Any) -> bool:
    try:
        _ = cell.cell_contents
    except ValueError:
        return False
    return True


def _names_of_code(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for each in code.co_consts:
        if isinstance(each, CodeType):
            yield from _names_of_code(each)
