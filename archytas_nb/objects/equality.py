"""Values that cannot change: which types have them, and whether two of them are the same."""

from __future__ import annotations

import array
import datetime as dt
import decimal
import fractions
import functools
import operator
import pathlib
import re
import sys
import types
import uuid
from collections.abc import Callable, Hashable, Iterable, Iterator
from itertools import compress, islice
from typing import Any, NamedTuple, TypeAlias

from archytas_nb.namespace import FROM_OUTSIDE

Parts: TypeAlias = tuple[Any, ...]
"""The content of an object for a comparison."""

MADE_IN_PYTHON = 1 << 9  # a flag of types


class Summary(NamedTuple):
    """Stands for a part that is too large to keep: a short description and a hash."""

    text: str
    digest: Hashable


# ── types ─────────────────────────────────────────────────────────────────────────────────────────

ATOMS: set[type] = {
    Summary,
    *(type(None), type(...), type(NotImplemented), bool, int, float, complex, str, bytes, range),
    *(re.Pattern, decimal.Decimal, fractions.Fraction, uuid.UUID, dt.date, dt.time),
    *(dt.datetime, dt.timedelta, dt.timezone, types.CodeType),
    *(pathlib.PurePath, pathlib.PurePosixPath, pathlib.PureWindowsPath),
    *(pathlib.Path, pathlib.PosixPath, pathlib.WindowsPath),
}
_LIBRARY_ATOMS = (
    ("numpy", "number", "character", "bool", "bool_", "datetime64"),
    ("zoneinfo", "ZoneInfo"),
    ("pandas", "Timestamp", "Timedelta", "Period", "Interval", "NaTType", "NAType", "BaseOffset"),
)


@functools.lru_cache(4096)
def is_of(cls: Any, library: str, *names: str) -> bool:
    """Whether a type is one of a library's classes, or derived from one."""
    return any(
        base.__name__ in names and root_of(base).lstrip("_") == library for base in cls.__mro__
    )


def root_of(cls: Any) -> str:
    """The package of a class; empty if the class does not say it."""
    module = cls.__module__
    if isinstance(module, str):
        return module.partition(".")[0]
    return ""


@functools.lru_cache(4096)
def is_from_library(module: Any) -> bool:
    """Whether a module belongs to Python, an installed package or this one, not to the user."""
    if not isinstance(module, str) or module == "__main__":
        return False
    package = module.partition(".")[0]
    # An editable installation of this package lies outside site-packages.
    if package in sys.stdlib_module_names or package == __name__.partition(".")[0]:
        return True
    file = str(getattr(sys.modules.get(module), "__file__", None) or "")
    return "site-packages" in file or "dist-packages" in file


@functools.lru_cache(4096)
def is_atom(cls: Any) -> bool:
    """Whether the values of a type cannot change; those of a user's subclass have attributes."""
    if cls in ATOMS:
        return True
    return is_from_library(cls.__module__) and any(is_of(cls, *each) for each in _LIBRARY_ATOMS)


def only_atoms(values: Iterable[Any]) -> bool:
    """Whether no value can change."""
    try:
        found = set(map(type, values))
        return found <= ATOMS or all(map(is_atom, found))
    except FROM_OUTSIDE:
        raise
    except BaseException:  # noqa: BLE001  (a metaclass may raise anything when it is hashed)
        return False


# ── equality ──────────────────────────────────────────────────────────────────────────────────────

_SAME_IF_EQUAL = {str, bytes, bool, int, type(None), dt.date, dt.timedelta}
_SAME_IF_TEXT_IS = {float, complex, dt.timezone}
_CLOCK = ("hour", "minute", "second", "microsecond", "fold", "tzinfo")
_COMPARED: dict[type, Callable[[Any], Parts]] = {
    Summary: tuple,
    tuple: tuple,
    slice: operator.attrgetter("start", "stop", "step"),
    range: operator.attrgetter("start", "stop", "step"),
    re.Pattern: operator.attrgetter("pattern", "flags"),
    decimal.Decimal: lambda value: tuple(value.as_tuple()),
    fractions.Fraction: operator.attrgetter("numerator", "denominator"),
    uuid.UUID: operator.attrgetter("int", "is_safe"),
    dt.time: operator.attrgetter(*_CLOCK),
    dt.datetime: operator.attrgetter("year", "month", "day", *_CLOCK),
}


@functools.lru_cache(4096)
def _compared(cls: Any) -> Callable[[Any], Parts] | None:
    """The parts that tell values of a type apart; None if only their identity does."""
    if cls in _COMPARED:
        return _COMPARED[cls]
    if issubclass(cls, pathlib.PurePath) and cls in ATOMS:
        return lambda value: (str(value),)
    if issubclass(cls, tuple) and cls.__flags__ & MADE_IN_PYTHON and not cls.__dictoffset__:
        if hasattr(cls, "n_fields"):
            # Those of `os` and `time` have hidden elements.
            return None
        return lambda value: tuple(tuple.__iter__(value))
    if not is_atom(cls):
        return None
    if is_of(cls, "numpy", "generic"):
        return lambda value: (value.dtype.str, value.dtype.metadata, value.tobytes())
    if is_of(cls, "pandas", "Timestamp"):
        return lambda value: (value.asm8, value.fold, value.tzinfo)
    if is_of(cls, "pandas", "Timedelta"):
        return lambda value: (value.asm8,)
    return None


def same_value(one: Any, other: Any) -> bool:
    """Whether two values are the same object, or values that nothing tells apart.

    Objects that can change, and those of libraries that may have more state than they compare, are
    the same only if they are one object.
    """
    todo = [(one, other)]
    seen: set[tuple[int, int]] = set()
    while todo:
        one, other = todo.pop()
        if one is other:
            continue
        if type(one) is not type(other):
            return False
        parts = _parts_to_compare(one, other)
        if isinstance(parts, bool):
            if not parts:
                return False
        elif (id(one), id(other)) not in seen:
            # A tuple may be contained in many places.
            if isinstance(one, tuple):
                seen.add((id(one), id(other)))
            todo += parts
    return True


def _parts_to_compare(one: Any, other: Any) -> bool | list[tuple[Any, Any]]:
    """Whether two values of a type are the same, or the pairs of parts that must be."""
    cls: Any = type(one)
    if not is_hashable(cls):
        return False
    if cls in _SAME_IF_EQUAL:
        return bool(one == other)
    if cls in _SAME_IF_TEXT_IS:
        return repr(one) == repr(other)
    compared = _compared(cls)
    if compared is None:
        return False
    parts = compared(one)
    others = compared(other)
    return len(parts) == len(others) and [*zip(parts, others, strict=True)]


def is_hashable(cls: Any) -> bool:
    """Whether a class is hashed as Python does it; a metaclass may raise."""
    own: Any = type.__hash__
    return type(cls).__hash__ is own


def differing(old: Parts, new: Parts) -> Iterator[int]:
    """The places at which two tuples of the same length have different values."""
    for place in compress(range(len(old)), map(operator.is_not, old, new)):
        if not same_value(old[place], new[place]):
            yield place


def same_values(old: Parts, new: Parts) -> bool:
    """Whether two tuples have the same values in the same order."""
    if len(old) != len(new):
        return False
    if all(map(operator.is_, old, new)):
        return True
    others = compress(range(len(old)), map(operator.is_not, old, new))
    if not all(same_value(old[place], new[place]) for place in islice(others, 1000)):
        return False
    if len(old) <= 1000:
        return True
    # Of very many new objects with equal values, the rest is compared at the speed of C.
    if all(map(operator.is_, map(type, old), map(type, new))):
        kinds = set(map(id, map(type, old)))
        if kinds <= set(map(id, _SAME_IF_EQUAL)):
            return old == new
        if kinds == {id(float)}:
            return array.array("d", old).tobytes() == array.array("d", new).tobytes()
    return all(same_value(old[place], new[place]) for place in others)
