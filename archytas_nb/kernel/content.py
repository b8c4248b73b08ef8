"""The content of objects: how it is read, compared, described and put back, by type.

A `Kind` reads an object as labelled parts (numbers, children, hashes of memory), keeps what is
needed to put them back, and restores them in the same object. Parts of two moments are compared, so
that a change is found whoever made it.
"""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import fractions
import functools
import math
import operator
import pathlib
import re
import uuid
from collections.abc import Callable, Hashable, Iterable
from typing import Any, NamedTuple, TypeAlias

import xxhash

from archytas_nb.loop.events import NotCovered

_ATOMS = {
    *(type(None), type(...), type(NotImplemented), bool, int, float, complex, str, bytes, range),
    *(re.Pattern, decimal.Decimal, fractions.Fraction, uuid.UUID, dt.date, dt.time),
    *(dt.datetime, dt.timedelta, dt.timezone, slice),
}
_LIBRARY_ATOMS = (
    *(("numpy", "generic"), ("numpy", "dtype"), ("zoneinfo", "ZoneInfo"), ("pandas", "Timestamp")),
    *(("pandas", "Timedelta"), ("pandas", "Period"), ("pandas", "Interval"), ("pandas", "NaTType")),
    *(("pandas", "NAType"), ("pandas", "BaseOffset"), ("pandas", "ExtensionDtype")),
    *(("polars", "Expr"), ("polars", "LazyFrame"), ("polars", "DataType")),
)
_SHAPED = (
    *(("numpy", "ndarray"), ("pandas", "DataFrame", "Series", "Index")),
    ("polars", "DataFrame", "Series"),
)

Parts: TypeAlias = Any
"""The content of an object: a tuple of elements, a set of keys, or a dict of parts by label."""
Places: TypeAlias = Iterable[tuple[str, Any]]
"""The objects inside an object, each with what is written behind the name to reach it."""


class Summary(NamedTuple):
    """A part that is too large to be held: what can be said of it, and a hash."""

    text: str
    digest: Hashable


class Room:
    """How many bytes may still be copied."""

    def __init__(self, total: int) -> None:
        self.left, self.used = total, 0

    def take(self, size: int) -> bool:
        """Use this many bytes, if so many are left."""
        if size > self.left:
            return False
        self.left, self.used = self.left - size, self.used + size
        return True


# ── values ────────────────────────────────────────────────────────────────────────────────────────


def same_value(one: Any, other: Any) -> bool:
    """Whether two values cannot be told apart: one object, or equal atoms of one type."""
    if one is other:
        return True
    cls: Any = type(one)
    if cls is not type(other) or issubclass(cls, (enum.Enum, list, dict)):
        return False
    if cls in {float, str, bytes, bool, int, Summary}:
        equal = bool(one == other)
        if cls is float:
            return math.copysign(1, one) == math.copysign(1, other) if equal else one != one  # noqa: PLR0124
        return equal
    if issubclass(cls, tuple):
        return len(one) == len(other) and all(map(same_value, one, other))
    kind: Any = type(one)
    if is_of(kind, "numpy", "generic"):
        return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())
    if kind in _ATOMS and one != other:  # `repr` may leave something out
        return False
    is_plan = is_of(kind, "polars", "Expr", "LazyFrame")
    return is_atom(kind) and not is_plan and repr(one) == repr(other)


def brief(value: Any) -> str:
    """A value in a few words. Text is not shown: it may be long, or a secret."""
    cls: Any = type(value)
    name: str = cls.__name__
    if cls is Summary:
        return str(value.text)
    if issubclass(cls, (str, bytes, bytearray)):
        return f"{name} of {len(value):,} {'characters' if issubclass(cls, str) else 'bytes'}"
    if cls in {type(None), bool, float, dt.date} or (cls is int and abs(value) < 1 << 64):
        return repr(value)
    if issubclass(cls, (list, tuple, dict, set, frozenset, collections.deque)):
        return f"{name} of {len(value):,}"
    if not any(is_of(cls, *each) for each in _SHAPED):
        return name
    dtype = f" {value.dtype}" if cls.__name__ != "DataFrame" else ""
    shape = " × ".join(f"{each:,}" for each in value.shape)
    return f"{name}{dtype} of {shape or 'no dimension'}"


def differences(old: Parts, new: Parts, label: Callable[[Any], str], most: int = 8) -> list[str]:
    """What differs between two readings of an object, in words."""
    if isinstance(old, tuple) and len(old) != len(new):
        return [f"{len(old):,} → {len(new):,} elements"]
    old, new = _labelled(old), _labelled(new)
    gone = {key: each for key, each in old.items() if key not in new}
    found = []
    for key, each in new.items():
        if key not in old:
            was = next((k for k, v in gone.items() if type(v) is Summary and v == each), None)
            found.append(
                f"{label(key)} added"
                if was is None
                else f"{label(was)} → {label(key).removeprefix('column ')}"
            )
            gone.pop(was, None)
    found += [f"{label(each)} removed" for each in gone]
    resized = not same_value(old.get("rows"), new.get("rows"))
    for key, before in old.items():
        if key not in new or same_value(before, new[key]):
            continue
        texts = brief(before), brief(new[key])
        if texts[0] != texts[1]:
            found.append(f"{label(key)}: {texts[0]} → {texts[1]}")
        elif not (resized and isinstance(before, Summary)):  # other rows have other values
            found.append(f"{label(key)}: values")
    if not found:
        return ["the order of the parts"]
    return found if len(found) <= most else [*found[:most], f"{len(found) - most:,} more"]


def _labelled(parts: Parts) -> dict[Any, Any]:
    if isinstance(parts, dict):
        return parts
    return dict.fromkeys(parts) if isinstance(parts, frozenset) else dict(enumerate(parts))


def same_parts(old: Parts, new: Parts) -> bool:
    """Whether two readings are of one content, in one order."""
    if isinstance(old, frozenset) or len(old) != len(new):
        return bool(old == new)
    if isinstance(old, dict):
        return list(old) == list(new) and all(map(same_value, old.values(), new.values()))
    return all(map(operator.is_, old, new)) or all(map(same_value, old, new))


@functools.lru_cache(4096)
def is_of(cls: Any, library: str, *names: str) -> bool:
    """Whether a type is one of a library's classes, or below one; the library is not imported."""
    return any(
        base.__name__ in names and base.__module__.partition(".")[0].lstrip("_") == library
        for base in cls.__mro__
    )


@functools.lru_cache(4096)
def is_atom(cls: Any) -> bool:
    """Whether the values of a type cannot change."""
    return (
        cls in _ATOMS
        or issubclass(cls, (enum.Enum, pathlib.PurePath))
        or any(is_of(cls, *each) for each in _LIBRARY_ATOMS)
    )


def only_atoms(values: Iterable[Any]) -> bool:
    """Whether no value can change."""
    return (found := set(map(type, values))) <= _ATOMS or all(map(is_atom, found))


def digest(chunks: Iterable[Any]) -> int:
    """A hash of bytes, however they are divided into chunks."""
    state = xxhash.xxh3_64()
    for chunk in chunks:
        state.update(chunk)
    return state.intdigest()


class _Key:
    """An element of a set or a key of a dict: an atom by type and value, an object by identity."""

    __slots__ = ("value",)

    def __init__(self, value: Any) -> None:
        self.value = value

    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Key) and same_value(self.value, other.value)

    def __hash__(self) -> int:
        cls: Any = type(self.value)
        return hash(self.value) if cls is tuple or is_atom(cls) else id(self.value)

    def __str__(self) -> str:
        return brief(self.value) if isinstance(self.value, (str, bytes)) else short(self.value)


def short(key: Any) -> str:
    """A key or a label, in at most 40 characters."""
    known = type(key) in _ATOMS or (type(key) is tuple and only_atoms(key))
    text = repr(key) if known else f"<{type(key).__name__}>"
    return text if len(text) <= 40 else text[:39] + "…"


# ── Python's own types ────────────────────────────────────────────────────────────────────────────


class Kind:
    """How objects of some types are read, kept and put back."""

    is_data = False  # whether two objects are compared in words when a name is bound anew

    def parts(self, value: Any) -> Parts:
        """Read the content."""
        raise NotImplementedError

    def keep(self, value: Any, room: Room) -> Any:  # noqa: ARG002
        """Copy what the parts do not hold; None where there is no room for it."""
        return True

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:
        """Put the content back. May be interrupted anywhere, and called again."""

    def places(self, value: Any) -> Places:  # noqa: ARG002
        """The objects inside."""
        return ()

    def notes(self, value: Any) -> Iterable[NotCovered]:  # noqa: ARG002
        """Parts that are not watched."""
        return ()

    def label(self, key: Any) -> str:
        """A part's name."""
        text = str(key)
        return text if len(text) <= 60 else text[:59] + "…"


class _Sequence(Kind):
    """Lists and deques."""

    def parts(self, value: Any) -> Parts:
        return tuple(value)

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:  # noqa: ARG002
        if isinstance(value, list):
            list.__setitem__(value, slice(None), parts)
        else:
            collections.deque.clear(value)
            collections.deque.extend(value, parts)

    def places(self, value: Any) -> Places:
        if only_atoms(value):
            return ()
        return [(f"[{i}]", x) for i, x in enumerate(tuple(value)) if type(x) not in _ATOMS]

    def label(self, key: Any) -> str:
        return f"[{key}]"


class _Inside(_Sequence):
    """Tuples and frozensets, which do not change; what is in them may."""

    def parts(self, value: Any) -> Parts:  # noqa: ARG002
        return ()

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:
        pass


class _Set(Kind):
    def parts(self, value: Any) -> Parts:
        return frozenset(map(_Key, tuple(value)))

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:  # noqa: ARG002
        set.clear(value)
        set.update(value, [key.value for key in parts])

    def label(self, key: Any) -> str:
        return f"element {key}"


class _Dict(Kind):
    def parts(self, value: Any) -> Parts:
        return {_Key(key): each for key, each in dict.copy(value).items()}

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:  # noqa: ARG002
        ordered = isinstance(value, collections.OrderedDict)
        base: Any = collections.OrderedDict if ordered else dict
        base.clear(value)
        for key, each in parts.items():
            base.__setitem__(value, key.value, each)

    def places(self, value: Any) -> Places:
        for key, each in dict.copy(value).items():
            if type(each) not in _ATOMS:
                yield f"[{short(key)}]", each
            if type(key) not in _ATOMS:
                yield ".keys()", key

    def label(self, key: Any) -> str:
        return f"[{short(key.value)}]"


class _Attributes(Kind):
    """The class of an object and its ``__dict__``."""

    def parts(self, value: Any) -> Parts:
        return {"__class__": type(value), **object.__getattribute__(value, "__dict__")}

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:  # noqa: ARG002
        if type(value) is not parts["__class__"]:
            object.__setattr__(value, "__class__", parts["__class__"])
        own = object.__getattribute__(value, "__dict__")
        own.clear()
        own.update({k: v for k, v in parts.items() if k != "__class__"})

    def places(self, value: Any) -> Places:
        return [(f".{k}", each) for k, each in self.parts(value).items() if k != "__class__"]

    def label(self, key: Any) -> str:
        return f".{key}"


ATTRIBUTES = _Attributes()
KINDS: tuple[tuple[type, Kind], ...] = (
    (list, _Sequence()),
    (collections.deque, _Sequence()),
    (dict, _Dict()),
    (set, _Set()),
    (tuple, _Inside()),
    (frozenset, _Inside()),
)
