"""What objects contain: how each type is read, compared, described in words and restored.

A `Kind` reads an object as a flat tuple of parts: its keys, then their values. Comparing
two readings finds every change, whatever code made it.
"""

# ruff: noqa: SLF001  (pandas offers no other way to restore the content of a table)
from __future__ import annotations

import collections
import ctypes
import datetime as dt
import decimal
import enum
import fractions
import functools
import itertools
import operator
import pathlib
import re
import sys
import uuid
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

import xxhash

from archytas_nb.words import shorten


class Summary(NamedTuple):
    """Stands for a part that is too large to keep: a short description and a hash."""

    text: str
    digest: Hashable


_ATOMS = {
    Summary,
    *(type(None), type(...), type(NotImplemented), bool, int, float, complex, str, bytes, range),
    *(re.Pattern, decimal.Decimal, fractions.Fraction, uuid.UUID, dt.date, dt.time),
    *(dt.datetime, dt.timedelta, dt.timezone, slice),
}
_PANDAS_ATOMS = ("Timestamp", "Timedelta", "Period", "Interval", "NaTType", "NAType", "BaseOffset")
_LIBRARY_ATOMS = (
    ("numpy", "number", "character", "bool", "bool_", "datetime64", "dtype"),
    ("zoneinfo", "ZoneInfo"),
    ("pandas", "ExtensionDtype", *_PANDAS_ATOMS),
    ("polars", "Expr", "LazyFrame", "DataType"),
)
_SMALL = 8 << 20  # bytes up to which a table is copied although copy-on-write keeps it

Parts: TypeAlias = tuple[Any, ...]


# ── values ────────────────────────────────────────────────────────────────────────────────────────


@functools.lru_cache(4096)
def is_of(cls: Any, library: str, *names: str) -> bool:
    """Whether a type is one of a library's classes, or derived from one."""
    return any(
        base.__name__ in names and base.__module__.partition(".")[0].lstrip("_") == library
        for base in cls.__mro__
    )


@functools.lru_cache(4096)
def is_atom(cls: Any) -> bool:
    """Whether the values of a type cannot change."""
    return (
        cls in _ATOMS
        or issubclass(cls, pathlib.PurePath)
        or (issubclass(cls, enum.Enum) and not _has_state(cls))
        or any(is_of(cls, *each) for each in _LIBRARY_ATOMS)
    )


def _has_state(cls: type[enum.Enum]) -> bool:
    """Whether the members of an Enum have attributes of their own, or values that can change."""
    members = [vars(each) for each in cls.__members__.values()]
    own = any(not name.startswith("_") for each in members for name in each)
    return own or not only_atoms(each["_value_"] for each in members)


def only_atoms(values: Iterable[Any]) -> bool:
    """Whether no value can change."""
    return (found := set(map(type, values))) <= _ATOMS or all(map(is_atom, found))


def same_value(one: Any, other: Any) -> bool:
    """Whether two values are the same object, or equal atoms of the same type."""
    if one is other or type(one) is not type(other):
        return one is other
    cls: Any = type(one)
    if cls in {str, bytes, bool, int}:
        return bool(one == other)
    if issubclass(cls, tuple):
        return len(one) == len(other) and all(map(same_value, one, other))
    if is_of(cls, "numpy", "generic"):
        return bool(one.dtype == other.dtype and one.tobytes() == other.tobytes())
    if not is_atom(cls) or is_of(cls, "polars", "Expr", "LazyFrame"):  # they compare to a plan
        return False
    return (cls is float or cls not in _ATOMS or one == other) and repr(one) == repr(other)


def brief(value: Any) -> str:
    """A short description of a value. Text is not shown: it may be long, or a secret."""
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
    if not any(is_of(cls, *each) for each, _ in DATA):
        return name
    dtype = f" {value.dtype}" if hasattr(cls, "dtype") else ""
    shape = " × ".join(f"{each:,}" for each in value.shape)
    return f"{name}{dtype} of {shape or 'no dimension'}"


def _short(key: Any) -> str:
    known = type(key) in _ATOMS or (type(key) is tuple and only_atoms(key))
    return shorten(repr(key) if known else f"<{type(key).__name__}>", 40)


# ── kinds of objects ──────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, eq=False)
class Kind:
    """How objects of some types are read, compared and restored.

    Attributes:
        read: Returns the parts: the objects themselves, or a `Summary`.
        restore: Restores the parts, or the copy of `keep`; may be interrupted and called again.
        place: Returns the suffix by which a part is reached from its object, for a key.
        keyed: Whether the parts are keys and then values; if not, keys are positions.
        keep: Copies data, up to a number of bytes: returns what restores it, beginning with None
            if it is too large, and the size of the copy. None if the parts are enough.
        objects: Returns the mutable objects inside data, by key.
    """

    read: Callable[[Any], Parts]
    restore: Callable[[Any, Any], None]
    place: Callable[[Any], str] = lambda key: f"[{_short(key)}]"
    keyed: bool = True
    keep: Callable[[Any, int], tuple[tuple[Any, ...], int]] | None = None
    objects: Callable[[Any], Iterable[tuple[Any, Any]]] | None = None

    def pairs(self, parts: Parts) -> Iterable[tuple[Any, Any]]:
        """The parts by key."""
        half = len(parts) // 2
        return zip(parts[:half], parts[half:], strict=True) if self.keyed else enumerate(parts)

    def children(self, value: Any, parts: Parts) -> Iterable[tuple[Any, Any]]:
        """The mutable objects inside, by key."""
        if self.objects is not None:
            return self.objects(value)
        if only_atoms(parts):
            return ()
        keys = parts[: len(parts) // 2] if self.keyed else ()
        pairs = itertools.chain(self.pairs(parts), zip(keys, keys, strict=True))
        return (pair for pair in pairs if type(pair[1]) not in _ATOMS)

    def same(self, old: Parts, new: Parts) -> bool:
        """Whether two readings have the same content in the same order."""
        if len(old) != len(new):
            return False
        return all(map(operator.is_, old, new)) or all(map(same_value, old, new))

    def differences(self, old: Parts, new: Parts) -> list[str]:
        """The differences between two readings, as texts; empty if there are none."""
        if self.same(old, new):
            return []
        if not self.keyed and len(old) != len(new):
            return [f"{len(old):,} → {len(new):,} elements"]
        one = {self.place(key): each for key, each in self.pairs(old)}
        other = {self.place(key): each for key, each in self.pairs(new)}
        gone = {key: each for key, each in one.items() if key not in other}
        found = []
        for key in [key for key in other if key not in one]:
            new = other[key]
            if renamed := [k for k, v in gone.items() if type(v) is Summary and same_value(v, new)]:
                gone.pop(renamed[0])
                found.append(
                    f"{shorten(renamed[0], 60)} → {shorten(key.removeprefix('column '), 60)}"
                )
            else:
                found.append(f"{shorten(key, 60)} added")
        found += [f"{shorten(key, 60)} removed" for key in gone]
        resized = one.get("rows") != other.get("rows")  # different rows have different values
        for key in [key for key in one if key in other and not same_value(one[key], other[key])]:
            texts = brief(one[key]), brief(other[key])
            if texts[0] != texts[1]:
                found.append(f"{shorten(key, 60)}: {texts[0]} → {texts[1]}")
            elif not (resized and isinstance(one[key], Summary)):
                found.append(f"{shorten(key, 60)}: values")
        found = found or ["other objects, or another order"]
        return found if len(found) <= 8 else [*found[:8], f"{len(found) - 8:,} more"]


# ── containers and objects with attributes ────────────────────────────────────────────────────────


def _restore_list(value: Any, parts: Parts) -> None:
    list.__setitem__(value, slice(None), parts)


def _restore_deque(value: Any, parts: Parts) -> None:
    collections.deque.clear(value)
    collections.deque.extend(value, parts)


def _read_set(value: Any) -> Parts:
    elements = sorted(value, key=id)
    return *elements, *elements


def _restore_set(value: Any, parts: Parts) -> None:
    set.clear(value)
    set.update(value, parts)


def _dict_of(value: Any) -> Any:
    return collections.OrderedDict if isinstance(value, collections.OrderedDict) else dict


def _read_dict(value: Any) -> Parts:
    is_plain = type(value).__iter__ is dict.__iter__  # else `copy` asks its own keys()
    own = dict.copy(value) if is_plain else dict(_dict_of(value).items(value))
    return *own, *own.values()


def _restore_dict(value: Any, parts: Parts) -> None:
    base = _dict_of(value)
    base.clear(value)
    for key, each in DICT.pairs(parts):
        base.__setitem__(value, key, each)


def _read_attributes(value: Any) -> Parts:
    own = dict(object.__getattribute__(value, "__dict__"))
    cls: Any = type(value)
    return "__class__", *own, Summary(cls.__name__, cls), *own.values()


def _restore_attributes(value: Any, parts: Parts) -> None:
    before = dict(DICT.pairs(parts))
    cls = before.pop("__class__").digest
    if type(value) is not cls:
        object.__setattr__(value, "__class__", cls)
    own = object.__getattribute__(value, "__dict__")
    own.clear()
    own.update(before)


ATTRIBUTES = Kind(_read_attributes, _restore_attributes, lambda key: f".{key}")
DICT = Kind(_read_dict, _restore_dict)
SEQUENCE = Kind(tuple, _restore_list, keyed=False)  # also tuples, whose elements may change
CONTAINERS: tuple[tuple[type, Kind], ...] = (
    *((cls, SEQUENCE) for cls in (list, tuple, frozenset)),
    (collections.deque, Kind(tuple, _restore_deque, keyed=False)),
    (dict, DICT),
    (set, Kind(_read_set, _restore_set, lambda key: f"{{{brief(key)}}}")),
)

# ── numpy ─────────────────────────────────────────────────────────────────────────────────────────


def _digest(values: Any) -> int:
    """A hash of the bytes of a numpy array; of objects, of their addresses."""
    numpy = sys.modules["numpy"]
    values = values.view(numpy.ndarray)
    values = values.T if values.flags.f_contiguous else numpy.ascontiguousarray(values)
    memory = (ctypes.c_char * values.nbytes).from_address(values.ctypes.data)
    return xxhash.xxh3_128_intdigest(memory)


def _read_array(value: Any) -> Parts:
    layout = value.strides, value.flags.writeable  # of the elements that it shows, not its base
    content = Summary("", (layout, _digest(value)))
    shape, dtype = Summary(str(value.shape), None), Summary(str(value.dtype), None)
    return "shape", "dtype", "content", shape, dtype, content


def _keep_array(value: Any, most: int) -> tuple[tuple[Any, ...], int]:
    if value.nbytes > most and not value.dtype.hasobject:
        return (None,), 0
    copy = value.view(sys.modules["numpy"].ndarray).copy(order="K")
    return (copy, value.flags.writeable), copy.nbytes


def _restore_array(value: Any, kept: Any) -> None:
    (copy, writeable), numpy = kept, sys.modules["numpy"]
    if value.dtype != copy.dtype:
        value.dtype = copy.dtype
    if value.shape != copy.shape:
        value.resize(copy.shape, refcheck=False)
    if not value.flags.writeable:
        value.flags.writeable = True
    numpy.copyto(value.view(numpy.ndarray), copy, casting="no")
    if not writeable:
        value.flags.writeable = False


def _objects(values: Any, place: str = "") -> Iterable[tuple[str, Any]]:
    """The mutable objects in an array."""
    for field in getattr(values.dtype, "fields", None) or ():
        yield from _objects(values[field], f"{place}[{field!r}]")
    if values.dtype == object and not only_atoms(values.flat):
        yield from ((f"{place}[{i}]", each) for i, each in enumerate(values.flat))


# ── pandas ────────────────────────────────────────────────────────────────────────────────────────

_HIDDEN = {"_mgr", "_attrs", "_flags", "_cache", "_item_cache", "_is_copy", "_cacher", "plot"}
"""What pandas itself keeps in the attributes of a table."""


def _columns(value: Any) -> Iterable[tuple[Any, Any]]:
    if value.ndim == 1:
        return [(None, value._values)]
    return zip(value.columns, value._iter_column_arrays(), strict=True)


def _own(value: Any) -> dict[str, Any]:
    """Other attributes: a Series' name, a subclass' metadata, and ``df.note = 1``."""
    unseen = _HIDDEN | value._accessors  # pandas 2 puts `s.str` there when it is first used
    return {name: each for name, each in vars(value).items() if name not in unseen}


def _read_table(value: Any) -> Parts:
    parts: dict[str, Any] = {"rows": len(value)}
    for label, values in _columns(value):
        name = "values" if label is None else f"column {label!r}"
        name = name if name not in parts else f"{name} ({len(parts)})"
        parts[name] = Summary(str(values.dtype), _mark(values))
    *columns, index = value._mgr.axes
    parts["index"] = Summary(str(list(index.names)), _mark_of_index(index))
    for axis in columns:
        kind = type(axis).__name__, str(axis.dtype)
        parts["columns"] = Summary(str(list(axis.names)), kind)
    parts |= {"attrs": value._attrs or None, "flags": str(value.flags)}
    parts |= {"name" if k == "_name" else f".{k}": each for k, each in _own(value).items()}
    return *parts, *parts.values()


def _keep_table(value: Any, most: int) -> tuple[tuple[Any, ...], int]:
    """Copy a table, if it is small or shares no memory with copies.

    Writes can bypass copy-on-write (``df["x"].array[0] = 1``, numpy views). They are detected,
    because values are hashed, and can be undone if the table was copied.
    """
    pandas = sys.modules["pandas"]
    shares = not pandas.__version__.startswith("2.") or pandas.options.mode.copy_on_write is True
    arrays = [getattr(values, "_ndarray", values) for _, values in _columns(value)]
    size = sum(each.nbytes for each in arrays)
    deep = (size <= _SMALL or not shares) and size <= most
    copy = value.copy(deep=deep) if deep or shares else None
    # Addresses that are hashed must not be reused.
    alive = [each.copy() for each in arrays if each.dtype == object or hasattr(each, "_pa_array")]
    size = size if deep else sum(each.nbytes for each in alive if each.dtype == object)
    return (copy, deep, _own(value) | {"_attrs": value._attrs}, alive), size


def _restore_table(value: Any, kept: Any) -> None:
    copy, deep, own, _ = kept
    value._update_inplace(copy.copy(deep=deep))
    for name in _own(value).keys() - own.keys():
        object.__delattr__(value, name)
    for name, each in own.items():
        object.__setattr__(value, name, each)
    value.flags.allows_duplicate_labels = copy.flags.allows_duplicate_labels


def _in_table(value: Any) -> Iterable[tuple[Any, Any]]:
    yield ".attrs", value._attrs
    yield from ((f".{name}", each) for name, each in _own(value).items())
    for label, values in _columns(value):
        if values.dtype == object:
            yield from _objects(values, "" if label is None else f"[{_short(label)}]")


def _mark_of_index(index: Any) -> Hashable:
    if type(index).__name__ == "RangeIndex":
        return index.start, index.stop, index.step
    if type(index).__name__ == "MultiIndex":
        return *map(_mark, index.codes), *map(_mark_of_index, index.levels)
    freq = str(getattr(index, "freq", None))
    return len(index), str(index.dtype), freq, _mark(index._values)


def _mark(values: Any) -> Hashable:
    """A hash of a column's memory, whatever class holds it."""
    if isinstance(values, sys.modules["numpy"].ndarray):
        return _digest(values)
    if hasattr(values, "_pa_array"):  # arrow's memory does not change; its copies share it
        return tuple(
            (len(chunk), chunk.offset, *(each and each.address for each in chunk.buffers()))
            for chunk in values._pa_array.chunks
        )
    own = vars(values) if hasattr(values, "__dict__") else {}
    attributes = {"_ndarray": getattr(values, "_ndarray", None), **own}.values()
    arrays = [each for each in attributes if hasattr(each, "dtype") and hasattr(each, "__len__")]
    if not arrays:
        raise TypeError(f"unknown storage of values in {type(values)!r}")
    if hasattr(values, "sp_index"):
        arrays.append(values.sp_index.to_int_index().indices)
    categories = getattr(values.dtype, "categories", None)
    return (
        *(_mark(getattr(each, "_values", each)) for each in arrays),
        categories is not None
        and (values.dtype.ordered, str(categories.names), _mark_of_index(categories)),
    )


# ── polars ────────────────────────────────────────────────────────────────────────────────────────


def _series(value: Any) -> list[Any]:
    return [value] if hasattr(value, "_s") else value.get_columns()


def _read_polars(value: Any) -> Parts:
    series, labels = _series(value), ["name", "values"]
    marks: list[Any] = [Summary(str(each.dtype), _mark_of_series(each)) for each in series]
    if hasattr(value, "_s"):
        marks.insert(0, value.name)
    else:
        labels = [f"column {each.name!r}" for each in series]
    return "rows", *labels, len(value), *marks


def _mark_of_series(values: Any) -> Hashable:
    if str(values.dtype) == "Object":
        raise TypeError("the contents of Python objects in a polars column are not read")
    physical = values.to_physical()
    if not physical.dtype.is_numeric() or "128" in str(physical.dtype):
        return _digest(values.hash().to_numpy())
    if not values.null_count():
        return _digest(physical.to_numpy())
    return _digest(physical.fill_null(0).to_numpy()), _digest(values.is_null().to_numpy())


def _keep_polars(value: Any, _: int) -> tuple[tuple[Any, ...], int]:
    return (value.clone(),), 0  # copies share memory until one of them is changed


def _restore_polars(value: Any, kept: Any) -> None:
    name = "_s" if hasattr(value, "_s") else "_df"
    setattr(value, name, getattr(kept[0].clone(), name))


_ARRAY = Kind(_read_array, _restore_array, str, keep=_keep_array, objects=_objects)
_TABLE = Kind(_read_table, _restore_table, str, keep=_keep_table, objects=_in_table)
_POLARS = Kind(_read_polars, _restore_polars, str, keep=_keep_polars)
DATA: tuple[tuple[tuple[str, ...], Kind], ...] = (
    (("numpy", "ndarray"), _ARRAY),
    (("pandas", "DataFrame", "Series"), _TABLE),
    (("polars", "DataFrame", "Series"), _POLARS),
)
