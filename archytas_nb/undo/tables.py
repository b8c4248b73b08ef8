"""How arrays and tables of numpy, pandas and polars are read, compared, copied and restored.

The libraries are never imported here: an object of one of them exists only if the user has it.
"""

# ruff: noqa: SLF001  (pandas offers no other way to restore the content of a table)
from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Hashable, Iterable
from typing import Any

import xxhash

from archytas_nb.objects.equality import Parts, Summary, only_atoms
from archytas_nb.undo.content import ROWS, Kind, short_key
from archytas_nb.words import truncate_line

_COUNTED = 5_000_000  # maximum number of values that are compared one by one
_COUNTED_OBJECTS = 10_000  # the same of Python's objects
_SMALL = 8 << 20  # bytes up to which a table is copied although copy-on-write keeps it

_SEEN_VALUES = 100_000  # of a table whose values are compared one by one for a person
_SEEN_CELLS = 5


def _seen_in_rows(
    before: list[tuple[str, list[Any]]], after: list[tuple[str, list[Any]]]
) -> tuple[str, ...]:
    """The difference of two tables for a person; a table is names and values, index first.

    It says that the rows are reordered, or lists each of a few values that differ.
    """
    shapes = [[(name, len(values)) for name, values in each] for each in (before, after)]
    if shapes[0] != shapes[1] or sum(size for _, size in shapes[0]) > _SEEN_VALUES:
        return ()
    written = [[[repr(each) for each in values] for _, values in side] for side in (before, after)]
    rows, other = (list(zip(*side, strict=True)) for side in written)
    if rows == other:
        return ()
    index, *_ = written[0]
    # Sorting with a new index (0, 1, …) moves only the values. Of a few rows, the values of each
    # cell say more.
    if Counter(rows) == Counter(other) or (
        index == written[1][0]
        and len(index) > _SEEN_CELLS
        and Counter(row[1:] for row in rows) == Counter(row[1:] for row in other)
    ):
        return ("rows reordered",)
    if index != written[1][0]:
        return ()
    cells = []
    for (name, _), one, two in zip(before, *written, strict=True):
        for at, (first, second) in enumerate(zip(one, two, strict=True)):
            if first != second:
                place = f"{truncate_line(name, 40)}[{truncate_line(index[at], 40)}]"
                cells.append(f"{place}: {truncate_line(first, 40)} → {truncate_line(second, 40)}")
        if len(cells) > _SEEN_CELLS:
            return ()
    return tuple(cells)


# ── numpy ─────────────────────────────────────────────────────────────────────────────────────────


_BYTES = "biufcmMSUVO"  # the kinds of dtypes whose memory holds the values, or their addresses


def _digest(values: Any) -> int:
    """A hash of the values of a numpy array; of Python objects, of their addresses."""
    import ctypes

    numpy = sys.modules["numpy"]
    values = numpy.ndarray.view(values, numpy.ndarray)
    if values.dtype.kind == "T":  # text of any length, of which the memory holds the addresses
        return xxhash.xxh3_128_intdigest(repr(values.ravel().tolist()).encode())
    if values.dtype.kind not in _BYTES:
        raise TypeError(f"unknown storage of values in an array of {values.dtype!r}")
    if values.flags.f_contiguous:
        values = values.T
    else:
        values = numpy.ascontiguousarray(values)
    memory = (ctypes.c_char * values.nbytes).from_address(values.ctypes.data)
    return xxhash.xxh3_128_intdigest(memory)


def _read_array(value: Any) -> Parts:
    layout = value.strides, value.flags.writeable  # of the elements that it shows, not its base
    content = Summary("", (layout, _digest(value)))
    metadata = None
    if value.dtype.metadata is not None:  # the copy keeps it alive
        metadata = id(value.dtype)
    shape = Summary(str(value.shape), None)
    dtype = Summary(str(value.dtype), metadata)
    return "shape", "dtype", "content", shape, dtype, content


def _keep_array(value: Any, most: int) -> tuple[tuple[Any, ...], int]:
    if value.nbytes > most and not value.dtype.hasobject:
        return (None,), 0
    numpy = sys.modules["numpy"]
    copy = numpy.ndarray.view(value, numpy.ndarray).copy(order="K")
    return (copy, value.flags.writeable), copy.nbytes


def _restore_array(value: Any, kept: Any) -> None:
    copy, writeable = kept
    numpy = sys.modules["numpy"]
    if (value.dtype, value.dtype.metadata) != (copy.dtype, copy.dtype.metadata):
        value.dtype = copy.dtype
    if value.shape != copy.shape:
        value.resize(copy.shape, refcheck=False)
    if not value.flags.writeable:
        value.flags.writeable = True
    numpy.copyto(value.view(numpy.ndarray), copy, casting="no")
    if not writeable:
        value.flags.writeable = False


def _counted_in_array(kept: Any, value: Any, _: Any) -> tuple[int, int] | None:
    """How many elements differ, and how many there are."""
    copy = kept[0]
    if copy.shape != value.shape or copy.dtype != value.dtype or value.size > _COUNTED:
        return None
    if value.dtype.kind not in "biufcmMSU":
        return None
    are_same = copy == value
    if value.dtype.kind in "fcmM":
        are_same |= (copy != copy) & (value != value)  # noqa: PLR0124 - what is missing
    return int(value.size - are_same.sum()), int(value.size)


def _in_array(value: Any) -> Iterable[tuple[str, Any]]:
    if value.dtype.names is not None:  # they can be changed in the same dtype
        yield ".dtype", value.dtype
    yield from _objects(value)


def _held_by_array(kept: Any) -> Iterable[Any]:
    return (each for _, each in _in_array(kept[0]))


def _read_dtype(value: Any) -> Parts:
    return ".names", value.names


def _restore_dtype(value: Any, parts: Parts) -> None:
    if value.names is not None:
        value.names = parts[1]


def _objects(values: Any, place: str = "") -> Iterable[tuple[str, Any]]:
    """The mutable objects in an array."""
    for field in getattr(values.dtype, "fields", None) or ():
        yield from _objects(values[field], f"{place}[{field!r}]")
    if values.dtype == object and not only_atoms(values.flat):
        yield from ((f"{place}[{i}]", each) for i, each in enumerate(values.flat))


# ── pandas ────────────────────────────────────────────────────────────────────────────────────────

_HIDDEN = {"_mgr", "_attrs", "_flags", "_cache", "_item_cache", "_is_copy", "_cacher", "plot"}
"""Attributes of a table that belong to pandas itself."""


def _columns(value: Any) -> Iterable[tuple[Any, Any]]:
    if value.ndim == 1:
        return [(None, value._values)]
    return zip(value.columns, value._iter_column_arrays(), strict=True)


def _named_columns(value: Any) -> Iterable[tuple[str, Any]]:
    """The values of each column, by the name that it has in a reading."""
    names = {ROWS}
    for label, values in _columns(value):
        name = "values" if label is None else f"column {label!r}"
        if name in names:
            name = f"{name} ({len(names)})"
        names.add(name)
        yield name, values


def _counted_in_table(kept: Any, value: Any, place: Any) -> tuple[int, int] | None:
    """How many values of a column differ, and how many there are."""
    columns = [dict(_named_columns(each)).get(place) for each in (kept[0], value)]
    if place == "index":
        columns = [kept[0].index, value.index]
    one, other = columns
    if one is None or other is None or len(one) != len(other) or len(one) > _COUNTED:
        return None
    has_objects = "object" in (str(one.dtype), str(other.dtype))
    if has_objects and not (len(one) <= _COUNTED_OBJECTS and only_atoms((*one, *other))):
        return None
    pandas = sys.modules["pandas"]
    first, second = (pandas.Series(each, copy=False).reset_index(drop=True) for each in columns)
    are_same = (first == second) | (first.isna() & second.isna())
    return len(one) - int(are_same.sum()), len(one)


def _seen_in_table(kept: Any, value: Any) -> tuple[str, ...]:
    """The difference of two tables of pandas, for a person."""
    sides = []
    for each in (kept[0], value):
        columns = [("index", each.index), *_columns(each)]
        if any(str(values.dtype) == "object" and not only_atoms(values) for _, values in columns):
            return ()
        sides.append([(_label(name), values.tolist()) for name, values in columns])
    return _seen_in_rows(*sides)


def _label(name: Any) -> str:
    """The label of a column as text, or the name for the values of a series."""
    if name is None:
        return "values"
    return name if type(name) is str else short_key(name)


def _own(value: Any) -> dict[str, Any]:
    """Other attributes: a Series' name, a subclass' metadata, and ``df.note = 1``."""
    unseen = _HIDDEN | value._accessors  # pandas 2 puts `s.str` there when it is first used
    return {name: each for name, each in vars(value).items() if name not in unseen}


def _read_table(value: Any) -> Parts:
    parts: dict[str, Any] = {ROWS: len(value)}
    for name, values in _named_columns(value):
        parts[name] = Summary(str(values.dtype), _mark(values))
    *columns, index = value._mgr.axes
    parts["index"] = Summary(str(list(index.names)), _mark_of_index(index))
    for axis in columns:
        kind = type(axis).__name__, str(axis.dtype)
        parts["columns"] = Summary(str(list(axis.names)), kind)
    parts |= {"attrs": value._attrs or None, "flags": str(value.flags)}
    for attribute, each in _own(value).items():
        label = "name" if attribute == "_name" else f".{attribute}"
        parts[label] = each
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
    copy = None
    if deep or shares:
        copy = value.copy(deep=deep)
    # Addresses that are hashed must not be reused.
    alive = [each.copy() for each in arrays if each.dtype == object or hasattr(each, "_pa_array")]
    if not deep:
        size = sum(each.nbytes for each in alive if each.dtype == object)
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
        if values.dtype != object:
            continue
        place = ""
        if label is not None:
            place = f"[{short_key(label)}]"
        yield from _objects(values, place)


def _held_by_table(kept: Any) -> Iterable[Any]:
    copy, _, own, _ = kept
    yield from own.values()
    yield from (each for _, each in _in_table(copy))


def _mark_of_index(index: Any) -> Hashable:
    if type(index).__name__ == "RangeIndex":
        return index.start, index.stop, index.step
    if type(index).__name__ == "MultiIndex":
        return *map(_mark, index.codes), *map(_mark_of_index, index.levels)
    freq = str(getattr(index, "freq", None))
    return len(index), str(index.dtype), freq, _mark(index._values)


def _place(buffer: Any) -> Hashable:
    """The place of the bytes of an arrow buffer; without bytes, all addresses are the same."""
    if buffer is None or not buffer.size:
        return None
    return buffer.address, buffer.size


def _digest_of_buffer(buffer: Any) -> int | None:
    """A hash of the bytes in a buffer of arrow; None if it has none."""
    if buffer is None or not buffer.size:
        return None
    return digest_of_bytes(buffer)


def _mark(values: Any) -> Hashable:
    """A hash of a column's memory, whatever class holds it."""
    if isinstance(values, sys.modules["numpy"].ndarray):
        return _digest(values)
    if hasattr(values, "_pa_array"):  # arrow's memory does not change; its copies share it
        return tuple(
            (len(chunk), chunk.offset, *map(_place, chunk.buffers()))
            for chunk in values._pa_array.chunks
        )
    attributes = {"_ndarray": getattr(values, "_ndarray", None)}
    if hasattr(values, "__dict__"):
        attributes |= vars(values)
    arrays = [
        each for each in attributes.values() if hasattr(each, "dtype") and hasattr(each, "__len__")
    ]
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


_OF_POLARS = {"_s", "_df", "_accessors"}


def _series(value: Any) -> list[Any]:
    if hasattr(value, "_s"):
        return [value]
    columns: list[Any] = value.get_columns()
    return columns


def _own_of_polars(value: Any) -> dict[str, Any]:
    """Attributes that the user has assigned: ``df.note = 1``."""
    return {name: each for name, each in vars(value).items() if name not in _OF_POLARS}


def _read_polars(value: Any) -> Parts:
    series = _series(value)
    labels = ["name", "values"]
    marks: list[Any] = [Summary(str(each.dtype), _mark_of_series(each)) for each in series]
    if hasattr(value, "_s"):
        marks.insert(0, value.name)
    else:
        labels = [f"column {each.name!r}" for each in series]
    own = _own_of_polars(value)
    attributes = [f".{name}" for name in own]
    return "rows", *labels, *attributes, len(value), *marks, *own.values()


def _mark_of_series(values: Any) -> Hashable:
    kind = values.dtype.base_type().__name__
    if kind == "Object":
        raise TypeError("the contents of Python objects in a polars column are not read")
    # Not all versions can hash what is nested; some print a report and raise no `Exception`.
    if kind in {"List", "Array", "Struct"}:
        if kind == "Struct":
            inner = values.struct.unnest().get_columns()
        elif kind == "List":
            inner = [values.list.len(), values.explode()]
        else:
            inner = [values.explode()]
        return tuple(map(_mark_of_series, (values.is_null(), *inner)))
    if kind == "Decimal":
        return _mark_of_series(values.cast(sys.modules["polars"].String))
    physical = values.to_physical()
    if not physical.dtype.is_numeric() or "128" in str(physical.dtype):
        return _digest(values.hash().to_numpy())
    if not values.null_count():
        return _digest(physical.to_numpy())
    return _digest(physical.fill_null(0).to_numpy()), _digest(values.is_null().to_numpy())


def _keep_polars(value: Any, _: int) -> tuple[tuple[Any, ...], int]:
    return (value.clone(), _own_of_polars(value)), 0  # copies share memory until one is changed


def _counted_in_polars(kept: Any, value: Any, place: Any) -> tuple[int, int] | None:
    """How many values of a column differ, and how many there are."""
    columns = []
    for each in (kept[0], value):
        named = {f"column {values.name!r}": values for values in _series(each)}
        columns.append(each if hasattr(each, "_s") else named.get(place))
    one, other = columns
    if one is None or other is None or len(one) != len(other) or len(one) > _COUNTED:
        return None
    return int(one.ne_missing(other).sum()), len(one)


def _seen_in_polars(kept: Any, value: Any) -> tuple[str, ...]:
    """The difference of two tables of polars, for a person."""
    sides = []
    for each in (kept[0], value):
        columns = list(_series(each))
        if any(str(series.dtype) == "Object" for series in columns):
            return ()
        rows = ("index", list(range(len(each))))
        sides.append([rows, *((series.name, series.to_list()) for series in columns)])
    return _seen_in_rows(*sides)


def _restore_polars(value: Any, kept: Any) -> None:
    copy, own = kept
    name = "_s" if hasattr(value, "_s") else "_df"
    setattr(value, name, getattr(copy.clone(), name))
    for each in _own_of_polars(value).keys() - own.keys():
        delattr(value, each)
    vars(value).update(own)


def _held_by_polars(kept: Any) -> Iterable[Any]:
    return kept[1].values()  # type: ignore[no-any-return]


def _in_polars(value: Any) -> Iterable[tuple[Any, Any]]:
    yield from ((f".{name}", each) for name, each in _own_of_polars(value).items())


_ARRAY = Kind(
    _read_array,
    _restore_array,
    str,
    keep=_keep_array,
    objects=_in_array,
    held=_held_by_array,
    counted=_counted_in_array,
)
_TABLE = Kind(
    _read_table,
    _restore_table,
    str,
    keep=_keep_table,
    objects=_in_table,
    held=_held_by_table,
    counted=_counted_in_table,
    seen=_seen_in_table,
)
_POLARS = Kind(
    _read_polars,
    _restore_polars,
    str,
    keep=_keep_polars,
    objects=_in_polars,
    held=_held_by_polars,
    counted=_counted_in_polars,
    seen=_seen_in_polars,
)
DATA: tuple[tuple[tuple[str, ...], Kind], ...] = (
    (("numpy", "ndarray"), _ARRAY),
    (("numpy", "dtype"), Kind(_read_dtype, _restore_dtype, str)),
    (("pandas", "DataFrame", "Series"), _TABLE),
    (("polars", "DataFrame", "Series"), _POLARS),
)


# ── contents, for fingerprints ────────────────────────────────────────────────────────────────────


def digest_of_bytes(memory: Any) -> int:
    """The hash of some bytes."""
    return xxhash.xxh3_128_intdigest(memory)


class Contents:
    """Reads arrays and tables by their contents; addresses and identities do not count.

    Args:
        of_objects: Returns the hash of a list of Python objects.
    """

    def __init__(self, of_objects: Callable[[list[Any]], int]) -> None:
        self._of_objects = of_objects

    def of(self, value: Any) -> Hashable:
        """The content of an array, a series, an index or a frame.

        Raises:
            TypeError: It is stored in an unknown way.
        """
        if hasattr(value, "_s") or hasattr(value, "_df"):
            return tuple(
                (each.name, str(each.dtype), len(each), _mark_of_series(each))
                for each in _series(value)
            )
        if isinstance(value, sys.modules["numpy"].ndarray):
            return value.shape, str(value.dtype), self._array(value)
        if not hasattr(value, "_mgr"):
            return self._index(value)
        found = [
            (repr(label), str(values.dtype), self._values(values))
            for label, values in _columns(value)
        ]
        name = repr(getattr(value, "name", None)) if value.ndim == 1 else ""
        return len(value), name, tuple(found), self._index(value.index)

    def _array(self, values: Any) -> Hashable:
        if values.dtype.kind == "O":
            return self._of_objects(values.ravel().tolist())
        if values.dtype.hasobject:
            return self._of_objects(values.tolist())
        return _digest(values)

    def _index(self, index: Any) -> Hashable:
        names = str(list(index.names))
        if type(index).__name__ == "RangeIndex":
            return names, index.start, index.stop, index.step
        if type(index).__name__ == "MultiIndex":
            codes = tuple(map(self._array, index.codes))
            return names, codes, tuple(map(self._index, index.levels))
        return names, str(index.dtype), self._values(index._values)

    def _values(self, values: Any) -> Hashable:
        if isinstance(values, sys.modules["numpy"].ndarray):
            return self._array(values)
        if hasattr(values, "_pa_array"):
            return tuple(
                (len(chunk), chunk.offset, *map(_digest_of_buffer, chunk.buffers()))
                for chunk in values._pa_array.chunks
            )
        if hasattr(values, "sp_index"):
            return self._of_objects(list(values))
        categories = getattr(values.dtype, "categories", None)
        if categories is not None and hasattr(values, "codes"):
            return self._array(values.codes), values.dtype.ordered, self._index(categories)
        inner = [
            each
            for each in (getattr(values, name, None) for name in ("_ndarray", "_data", "_mask"))
            if isinstance(each, sys.modules["numpy"].ndarray)
        ]
        if inner:
            return tuple(map(self._array, inner))
        return self._of_objects(list(values))
