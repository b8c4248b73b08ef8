"""What objects contain: how each type is read, compared, described in words and restored.

A `Kind` reads an object as a flat tuple of parts. The parts of two moments are compared, so that a
change is found whoever made it. numpy, pandas and polars are not imported here.
"""

# ruff: noqa: SLF001  (pandas offers no other way to put content back into a table)
from __future__ import annotations

import collections
import ctypes
import datetime as dt
import decimal
import enum
import fractions
import functools
import operator
import pathlib
import re
import sys
import uuid
from collections.abc import Hashable, Iterable
from typing import Any, NamedTuple, TypeAlias

import xxhash

_ATOMS = {
    *(type(None), type(...), type(NotImplemented), bool, int, float, complex, str, bytes, range),
    *(re.Pattern, decimal.Decimal, fractions.Fraction, uuid.UUID, dt.date, dt.time),
    *(dt.datetime, dt.timedelta, dt.timezone, slice),
}
_PANDAS_ATOMS = ("Timestamp", "Timedelta", "Period", "Interval", "NaTType", "NAType", "BaseOffset")
_LIBRARY_ATOMS = (
    ("numpy", "generic", "dtype"),
    ("zoneinfo", "ZoneInfo"),
    ("pandas", "ExtensionDtype", *_PANDAS_ATOMS),
    ("polars", "Expr", "LazyFrame", "DataType"),
)
_SMALL = 8 << 20  # bytes up to which a table is copied although copy-on-write keeps it
_WORDS = 8  # how many differences of an object are named

Parts: TypeAlias = tuple[Any, ...]


class Summary(NamedTuple):
    """A part that is too large to be held: what can be said of it, and a hash."""

    text: str
    digest: Hashable


class Room:
    """How many bytes may still be copied."""

    def __init__(self, total: int) -> None:
        self.left = total

    def take(self, size: int) -> bool:
        """Use this many bytes, if so many are left."""
        fits = size <= self.left
        self.left -= size if fits else 0
        return fits


# ── values ────────────────────────────────────────────────────────────────────────────────────────


@functools.lru_cache(4096)
def is_of(cls: Any, library: str, *names: str) -> bool:
    """Whether a type is one of a library's classes, or below one."""
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


def same_value(one: Any, other: Any) -> bool:
    """Whether two values cannot be told apart: one object, or equal atoms of one type."""
    if one is other or type(one) is not type(other):
        return one is other
    cls: Any = type(one)
    if cls in {str, bytes, bool, int}:
        return bool(one == other)
    if cls is float:
        return bool(one.hex() == other.hex())  # with its sign, also of zero
    if issubclass(cls, tuple):
        return len(one) == len(other) and all(map(same_value, one, other))
    if is_of(cls, "numpy", "generic"):
        return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())
    if not is_atom(cls) or is_of(cls, "polars", "Expr", "LazyFrame"):  # they compare to a plan
        return False
    return (cls not in _ATOMS or one == other) and repr(one) == repr(other)


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
    if not any(is_of(cls, *each) for each, _ in TABLES):
        return name
    dtype = f" {value.dtype}" if hasattr(cls, "dtype") else ""
    shape = " × ".join(f"{each:,}" for each in value.shape)
    return f"{name}{dtype} of {shape or 'no dimension'}"


def _short(key: Any) -> str:
    known = type(key) in _ATOMS or (type(key) is tuple and only_atoms(key))
    text = repr(key) if known else f"<{type(key).__name__}>"
    return text if len(text) <= 40 else text[:39] + "…"


# ── kinds of objects ──────────────────────────────────────────────────────────────────────────────


class Kind:
    """How objects of some types are read, compared and restored; parts are keys, then values."""

    is_data = False  # whether parts are compared in words where a name is bound to another object

    def read(self, value: Any) -> Parts:
        """The parts: values by identity, or a `Summary`."""
        raise NotImplementedError

    def keep(self, value: Any, room: Room) -> tuple[Any, Any]:  # noqa: ARG002
        """What restores it, None where there is no room; and what keeps hashed addresses valid."""
        return True, None

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:
        """Put the content back. May be interrupted anywhere, and called again."""

    def not_covered(self, value: Any) -> str:  # noqa: ARG002
        """What of it is not watched."""
        return ""

    def pairs(self, parts: Parts) -> Iterable[tuple[Any, Any]]:
        """The parts by key."""
        half = len(parts) // 2
        return zip(parts[:half], parts[half:], strict=True)

    def inside(self, value: Any, parts: Parts) -> Iterable[tuple[Any, Any]]:  # noqa: ARG002
        """The parts which can change themselves, by key."""
        return [pair for pair in self.pairs(parts) if type(pair[1]) not in _ATOMS]

    def place(self, key: Any) -> str:
        """What is written behind the name of an object to reach a part."""
        return f"[{_short(key)}]"

    def same(self, old: Parts, new: Parts) -> bool:
        """Whether two readings are of one content, in one order."""
        same_length = len(old) == len(new)
        return same_length and (all(map(operator.is_, old, new)) or all(map(same_value, old, new)))

    def differences(self, old: Parts, new: Parts) -> list[str]:
        """What differs between two readings, in words; empty where nothing does."""
        if self.same(old, new):
            return []
        one = {self.place(key): each for key, each in self.pairs(old)}
        other = {self.place(key): each for key, each in self.pairs(new)}
        gone = {key: each for key, each in one.items() if key not in other}
        found = []
        for key in [key for key in other if key not in one]:
            marks = [k for k, v in gone.items() if type(v) is Summary and v == other[key]]
            if marks:
                gone.pop(marks[0])
                found.append(f"{_cut(marks[0])} → {_cut(key.removeprefix('column '))}")
            else:
                found.append(f"{_cut(key)} added")
        found += [f"{_cut(key)} removed" for key in gone]
        resized = one.get("rows") != other.get("rows")  # other rows have other values
        for key in [key for key in one if key in other and not same_value(one[key], other[key])]:
            texts = brief(one[key]), brief(other[key])
            if texts[0] != texts[1]:
                found.append(f"{_cut(key)}: {texts[0]} → {texts[1]}")
            elif not (resized and isinstance(one[key], Summary)):
                found.append(f"{_cut(key)}: values")
        more = f"{len(found) - _WORDS:,} more"
        found = found or ["other objects, or another order"]
        return found if len(found) <= _WORDS else [*found[:_WORDS], more]


def _cut(text: str) -> str:
    return text if len(text) <= 60 else text[:59] + "…"


class _Sequence(Kind):
    """Lists, deques, and tuples and frozensets, which do not change themselves."""

    def read(self, value: Any) -> Parts:
        return tuple(value)

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:  # noqa: ARG002
        if isinstance(value, list):
            list.__setitem__(value, slice(None), parts)
        else:
            collections.deque.clear(value)
            collections.deque.extend(value, parts)

    def pairs(self, parts: Parts) -> Iterable[tuple[Any, Any]]:
        return enumerate(parts)

    def inside(self, value: Any, parts: Parts) -> Iterable[tuple[Any, Any]]:
        return () if only_atoms(parts) else super().inside(value, parts)

    def differences(self, old: Parts, new: Parts) -> list[str]:
        if len(old) != len(new):
            return [f"{len(old):,} → {len(new):,} elements"]
        return super().differences(old, new)


class _Set(Kind):
    def read(self, value: Any) -> Parts:
        return tuple(value)

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:  # noqa: ARG002
        set.clear(value)
        set.update(value, parts)

    def pairs(self, parts: Parts) -> Iterable[tuple[Any, Any]]:
        return zip(parts, parts, strict=True)

    def place(self, key: Any) -> str:
        return f"{{{brief(key) if isinstance(key, (str, bytes)) else _short(key)}}}"

    def same(self, old: Parts, new: Parts) -> bool:
        return set(map(id, old)) == set(map(id, new))


class _Dict(Kind):
    def read(self, value: Any) -> Parts:
        own = dict.copy(value)
        return *own, *own.values()

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:  # noqa: ARG002
        ordered = isinstance(value, collections.OrderedDict)
        base: Any = collections.OrderedDict if ordered else dict
        base.clear(value)
        for key, each in self.pairs(parts):
            base.__setitem__(value, key, each)

    def inside(self, value: Any, parts: Parts) -> Iterable[tuple[Any, Any]]:
        keys = [key for key in parts[: len(parts) // 2] if type(key) not in _ATOMS]
        return [*super().inside(value, parts), *zip(keys, keys, strict=True)]


class _Attributes(Kind):
    """The class of an object and its ``__dict__``."""

    def read(self, value: Any) -> Parts:
        own = dict(object.__getattribute__(value, "__dict__"))
        return "__class__", *own, type(value), *own.values()

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:  # noqa: ARG002
        before = dict(self.pairs(parts))
        cls = before.pop("__class__")
        if type(value) is not cls:
            object.__setattr__(value, "__class__", cls)
        own = object.__getattribute__(value, "__dict__")
        own.clear()
        own.update(before)

    def inside(self, value: Any, parts: Parts) -> Iterable[tuple[Any, Any]]:
        return [pair for pair in super().inside(value, parts) if pair[0] != "__class__"]

    def place(self, key: Any) -> str:
        return f".{key}"


# ── numpy, pandas, polars ─────────────────────────────────────────────────────────────────────────


class _Data(Kind):
    """Arrays and tables; keys are text that stands behind the name as it is."""

    is_data = True

    def place(self, key: Any) -> str:
        return str(key)


def _flat(parts: dict[str, Any]) -> Parts:
    return *parts, *parts.values()


def _digest(values: Any) -> int:
    """A hash of the bytes of a numpy array; of objects, of their addresses."""
    numpy = sys.modules["numpy"]
    values = values.view(numpy.ndarray)
    values = values.T if values.flags.f_contiguous else numpy.ascontiguousarray(values)
    memory = (ctypes.c_char * values.nbytes).from_address(values.ctypes.data)
    return xxhash.xxh3_128_intdigest(memory)


def _objects(values: Any, place: str = "") -> Iterable[tuple[str, Any]]:
    """The objects in an array which may change themselves."""
    if str(getattr(values, "dtype", "")) != "object" or only_atoms(values.flat):
        return ()
    return ((f"{place}[{i}]", each) for i, each in enumerate(values.flat))


class _Array(_Data):
    """numpy arrays of any layout: the elements that they show, not what else is in their base."""

    def read(self, value: Any) -> Parts:
        content = value.strides, value.flags.writeable, _digest(value)
        return (
            *("shape", "dtype", "content"),
            *(Summary(str(value.shape), None), Summary(str(value.dtype), None)),
            Summary("", content),
        )

    def keep(self, value: Any, room: Room) -> tuple[Any, Any]:
        if not (room.take(value.nbytes) or value.dtype.hasobject):
            return None, None
        return value.view(sys.modules["numpy"].ndarray).copy(order="K"), None

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:
        if value.shape != kept.shape:
            value.resize(kept.shape, refcheck=False)
        value.flags.writeable = True
        sys.modules["numpy"].copyto(value.view(sys.modules["numpy"].ndarray), kept, casting="no")
        value.flags.writeable = parts[-1].digest[1]

    def inside(self, value: Any, parts: Parts) -> Iterable[tuple[Any, Any]]:  # noqa: ARG002
        return _objects(value)

    def not_covered(self, value: Any) -> str:
        is_structured = value.dtype.hasobject and value.dtype.fields
        return "its objects are compared by identity only" if is_structured else ""


_HIDDEN = {"_mgr", "_attrs", "_flags", "_cache", "_item_cache", "_is_copy", "_cacher", "plot"}
"""What pandas itself keeps in the attributes of a table."""


class _Pandas(_Data):
    """DataFrame and Series. With copy-on-write a large one is kept without a copy.

    Values can be written past copy-on-write (``df["x"].array[0] = 1``, numpy views); they are seen,
    as values are hashed, and can be restored in what was copied.
    """

    def read(self, value: Any) -> Parts:
        parts: dict[str, Any] = {"rows": len(value)}
        for label, values in _columns(value):
            name = "values" if label is None else f"column {label!r}"
            name = name if name not in parts else f"{name} ({len(parts)})"
            parts[name] = Summary(str(values.dtype), _mark(values))
        for name, axis in zip(("columns", "index")[-value.ndim :], value._mgr.axes, strict=True):
            mark = type(axis).__name__ if name == "columns" else _index_mark(axis)
            parts[name] = Summary(str(list(axis.names)), mark)
        parts |= {"attrs": value._attrs or None, "flags": str(value.flags)}
        own = _attributes(value).items()
        return _flat(parts | {"name" if k == "_name" else f".{k}": each for k, each in own})

    def keep(self, value: Any, room: Room) -> tuple[Any, Any]:
        pandas = sys.modules["pandas"]
        shares = not pandas.__version__.startswith("2") or pandas.options.mode.copy_on_write is True
        arrays = [getattr(values, "_ndarray", values) for _, values in _columns(value)]
        size = sum(each.nbytes for each in arrays)
        deep = (size <= _SMALL or not shares) and room.take(size)
        alive = [] if deep else [x.copy() for x in arrays if x.dtype == object or _is_arrow(x)]
        room.left -= sum(x.nbytes for x in alive if not _is_arrow(x))
        own = _attributes(value) | {"_attrs": value._attrs}
        return (value.copy(deep=deep), deep, own) if deep or shares else None, alive

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:  # noqa: ARG002
        copy, deep, own = kept
        value._update_inplace(copy.copy(deep=deep))
        for name in _attributes(value).keys() - own.keys():
            object.__delattr__(value, name)
        for name, each in own.items():
            object.__setattr__(value, name, each)
        value.flags.allows_duplicate_labels = copy.flags.allows_duplicate_labels

    def inside(self, value: Any, parts: Parts) -> Iterable[tuple[Any, Any]]:  # noqa: ARG002
        yield ".attrs", value._attrs
        for name, each in _attributes(value).items():
            yield f".{name}", each
        for label, values in _columns(value):
            yield from _objects(values, "" if label is None else f"[{_short(label)}]")


def _columns(value: Any) -> Iterable[tuple[Any, Any]]:
    if value.ndim == 1:
        return [(None, value._values)]
    return zip(value.columns, value._iter_column_arrays(), strict=True)


def _attributes(value: Any) -> dict[str, Any]:
    """What stands beside the columns: a Series' name, a subclass' metadata, and ``df.note = 1``."""
    unseen = _HIDDEN | value._accessors  # pandas 2 puts `s.str` there when it is first used
    return {name: each for name, each in vars(value).items() if name not in unseen}


def _index_mark(index: Any) -> Hashable:
    if type(index).__name__ == "RangeIndex":
        return index.start, index.stop, index.step
    if type(index).__name__ == "MultiIndex":
        return *map(_mark, index.codes), *map(_index_mark, index.levels)
    return len(index), str(index.dtype), _mark(index._values)


def _is_arrow(values: Any) -> bool:
    return hasattr(values, "_pa_array")


def _mark(values: Any) -> Hashable:
    """A hash of a column's memory, whatever class holds it."""
    if isinstance(values, sys.modules["numpy"].ndarray):
        return _digest(values)
    if _is_arrow(values):  # arrow's memory does not change; its copies share it
        return tuple(
            (len(chunk), chunk.offset, *(each and each.address for each in chunk.buffers()))
            for chunk in values._pa_array.chunks
        )
    own = vars(values) if hasattr(values, "__dict__") else {}
    held = {"_ndarray": getattr(values, "_ndarray", None), **own}.values()
    arrays = [each for each in held if hasattr(each, "dtype") and hasattr(each, "__len__")]
    if hasattr(values, "sp_index"):
        arrays.append(values.sp_index.to_int_index().indices)
    categories = getattr(values.dtype, "categories", None)
    return (
        *(_mark(getattr(each, "_values", each)) for each in arrays),
        None if categories is None else (values.dtype.ordered, _index_mark(categories)),
    )


class _Polars(_Data):
    """DataFrame and Series of polars, whose copies share memory until one of them is changed."""

    def read(self, value: Any) -> Parts:
        if hasattr(value, "_s"):
            columns = {"name": value.name, "values": _polars_mark(value)}
        else:
            columns = {f"column {each.name!r}": _polars_mark(each) for each in value.iter_columns()}
        return _flat({"rows": len(value), **columns})

    def keep(self, value: Any, room: Room) -> tuple[Any, Any]:  # noqa: ARG002
        return value.clone(), None

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:  # noqa: ARG002
        name = "_s" if hasattr(value, "_s") else "_df"
        setattr(value, name, getattr(kept.clone(), name))

    def inside(self, value: Any, parts: Parts) -> Iterable[tuple[Any, Any]]:  # noqa: ARG002
        return ()

    def not_covered(self, value: Any) -> str:
        dtypes = [value.dtype] if hasattr(value, "_s") else value.dtypes
        objects = "Object" in map(str, dtypes)
        return "its Python objects are compared by their hash only" if objects else ""


def _polars_mark(values: Any) -> Summary:
    physical = values.to_physical()
    if not physical.dtype.is_numeric() or "128" in str(physical.dtype):
        memory = [values.hash()]
    elif values.null_count():
        memory = [physical.fill_null(0), values.is_null()]
    else:
        memory = [physical]
    return Summary(str(values.dtype), tuple(_digest(each.to_numpy()) for each in memory))


ATTRIBUTES = _Attributes()
SEQUENCE = _Sequence()
CONTAINERS: tuple[tuple[type, Kind], ...] = (
    *((cls, SEQUENCE) for cls in (list, collections.deque, tuple, frozenset)),
    (dict, _Dict()),
    (set, _Set()),
)
TABLES: tuple[tuple[tuple[str, ...], Kind], ...] = (
    (("numpy", "ndarray"), _Array()),
    (("pandas", "DataFrame", "Series"), _Pandas()),
    (("polars", "DataFrame", "Series"), _Polars()),
)
