"""How numpy arrays and the tables of pandas and polars are read, kept and put back.

None of these libraries is imported here: whoever has such an object has imported its library.
"""

# ruff: noqa: SLF001  (pandas offers no other way to put content back into a table)
from __future__ import annotations

import ctypes
import sys
import warnings
from collections.abc import Hashable, Iterable, Iterator
from typing import Any, NamedTuple

from archytas_nb.kernel.content import (
    Kind,
    Parts,
    Places,
    Room,
    Summary,
    digest,
    only_atoms,
    short,
)
from archytas_nb.loop.events import NotCovered

_SMALL = 8 << 20  # bytes up to which a table is copied although copy-on-write keeps it
_ELEMENTS = 10_000  # up to how many elements of an object array are watched one by one
_CHUNK = 1 << 20  # bytes hashed at a time where memory is not contiguous


def _chunks(values: Any) -> Iterator[Any]:
    """The bytes of a numpy array in the order of its elements; of objects, their addresses."""
    if values.size == 0:
        return
    if values.flags.c_contiguous:
        yield (ctypes.c_char * values.nbytes).from_address(values.ctypes.data)
    elif values.ndim > 1 and values.flags.f_contiguous:
        yield from _chunks(values.T)
    else:
        rows = max(1, _CHUNK // max(1, values[0].nbytes))
        for start in range(0, len(values), rows):
            yield from _chunks(sys.modules["numpy"].array(values[start : start + rows], order="C"))


def _digest(values: Any) -> int:
    return digest(_chunks(_plain(values)))


def _plain(values: Any) -> Any:
    return values.view(sys.modules["numpy"].ndarray)


def _elements(values: Any, place: str) -> tuple[Places, list[NotCovered]]:
    """The objects in an array which may change themselves, or the note that they are too many."""
    if not values.dtype.hasobject or (values.dtype == object and only_atoms(values.flat)):
        return (), []
    if values.dtype == object and values.size <= _ELEMENTS:
        return [(f"{place}[{i}]", each) for i, each in enumerate(values.flat)], []
    return (), [NotCovered(place, f"its {values.size:,} objects are compared by identity only")]


class _Array(Kind):
    """numpy arrays of any layout: the elements that they show, not what else is in their base."""

    is_data = True

    def parts(self, value: Any) -> Parts:
        layout = value.strides, value.flags.writeable
        return {
            "shape": Summary(str(value.shape), value.shape),
            "dtype": Summary(str(value.dtype), str(value.dtype)),
            "layout": Summary("", layout),
            "content": Summary("", _digest(value)),
        }

    def keep(self, value: Any, room: Room) -> Any:
        return _plain(value).copy(order="K") if room.take(value.nbytes) else None

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:
        strides, writeable = parts["layout"].digest
        if value.nbytes != kept.nbytes:
            value.resize(kept.shape, refcheck=False)
        with warnings.catch_warnings():  # numpy advises against setting these
            warnings.simplefilter("ignore")
            for name, old in (("dtype", kept.dtype), ("shape", kept.shape), ("strides", strides)):
                if getattr(value, name) != old:
                    setattr(value, name, old)
        if not value.flags.writeable:
            value.flags.writeable = True
        sys.modules["numpy"].copyto(_plain(value), kept)
        value.flags.writeable = writeable

    def places(self, value: Any) -> Places:
        return _elements(value, "")[0]

    def notes(self, value: Any) -> Iterable[NotCovered]:
        return _elements(value, "")[1]


# ── pandas ────────────────────────────────────────────────────────────────────────────────────────


class _Kept(NamedTuple):
    copy: Any
    deep: bool  # whether the values were copied, not only shared
    axes: list[Any]  # the Index objects themselves
    names: list[list[Any]]  # their names, which can be set in place
    attrs: Any
    alive: list[Any]  # arrays of objects, so that no address of an object is used again


class _Pandas(Kind):
    """DataFrame and Series. With copy-on-write a large one is kept without a copy.

    Values can be written past copy-on-write (``df["x"].array[0] = 1``, numpy views); they are seen,
    as values are hashed, and can be put back in what was copied.
    """

    is_data = True

    def parts(self, value: Any) -> Parts:
        parts: dict[str, Any] = {"rows": len(value)}
        for label, values in _columns(value):
            parts[_unused(parts, label)] = Summary(str(values.dtype), _array_mark(values))
        index = _axes(value)[-1]
        parts["index"] = Summary(str(list(index.names)), _index_mark(index))
        if value.ndim == 2:
            names = str(list(value.columns.names))
            parts["columns"] = Summary(names, (names, type(value.columns).__name__))
        for name in value._metadata:
            parts[name.strip("_")] = getattr(value, name, None)
        parts["attrs"] = Summary("", id(value._attrs) if value._attrs else 0)
        parts["duplicate labels"] = value.flags.allows_duplicate_labels
        return parts

    def keep(self, value: Any, room: Room) -> Any:
        arrays = [values for _, values in _columns(value)]
        size = sum(values.nbytes for values in arrays)
        shares = _copies_on_write()
        deep = (size <= _SMALL or not shares) and room.take(size)
        if not (deep or shares):
            return None
        arrays = [getattr(values, "_ndarray", values) for values in arrays]
        alive = [] if deep else [each.copy() for each in arrays if each.dtype == object]
        room.used += sum(each.nbytes for each in alive)
        axes = list(_axes(value))
        names = [list(axis.names) for axis in axes]
        return _Kept(value.copy(deep=deep), deep, axes, names, value._attrs, alive)

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:
        for axis, names in zip(kept.axes, kept.names, strict=True):
            if list(axis.names) != names:
                axis.names = names
        value._update_inplace(kept.copy.copy(deep=kept.deep))
        value._mgr.axes = list(kept.axes)
        for name in value._metadata:
            object.__setattr__(value, name, getattr(kept.copy, name, None))
        object.__setattr__(value, "_attrs", kept.attrs)
        value.flags.allows_duplicate_labels = parts["duplicate labels"]

    def places(self, value: Any) -> Places:
        yield ".attrs", value._attrs
        for label, values in _columns(value):
            yield from _elements_of(label, values)[0]

    def notes(self, value: Any) -> Iterable[NotCovered]:
        for label, values in _columns(value):
            yield from _elements_of(label, values)[1]


def _copies_on_write() -> bool:
    pandas = sys.modules["pandas"]
    is_new = int(pandas.__version__.partition(".")[0]) > 2
    return is_new or pandas.get_option("mode.copy_on_write") is True


def _columns(value: Any) -> Iterable[tuple[Any, Any]]:
    if value.ndim == 1:
        return [(None, value._values)]
    return zip(value.columns, value._iter_column_arrays(), strict=True)


def _axes(value: Any) -> list[Any]:
    axes: list[Any] = value._mgr.axes
    return axes


def _unused(parts: Parts, label: Any) -> str:
    name = "values" if label is None else f"column {label!r}"
    return name if name not in parts else f"{name} ({len(parts)})"


def _elements_of(label: Any, values: Any) -> tuple[Places, list[NotCovered]]:
    place = "" if label is None else f"[{short(label)}]"
    return _elements(values, place) if values.dtype == object else ((), [])


def _index_mark(index: Any) -> Hashable:
    names = repr(list(index.names))
    if type(index).__name__ == "RangeIndex":
        return names, index.start, index.stop, index.step
    if type(index).__name__ == "MultiIndex":
        codes = tuple(_array_mark(each) for each in index.codes)
        return names, codes, *(_index_mark(each) for each in index.levels)
    return names, len(index), str(index.dtype), _array_mark(index._values)


def _array_mark(values: Any) -> Hashable:
    """A hash of a column's memory, whatever class holds it."""
    if isinstance(values, sys.modules["numpy"].ndarray):
        return _digest(values)
    if hasattr(values, "_pa_array"):  # arrow's memory does not change; its copies share it
        return tuple(
            (len(chunk), chunk.offset, *(each and each.address for each in chunk.buffers()))
            for chunk in values._pa_array.chunks
        )
    own = vars(values) if hasattr(values, "__dict__") else {}
    held = {"_ndarray": getattr(values, "_ndarray", None), **own}.values()
    arrays = [each for each in held if hasattr(each, "dtype") and hasattr(each, "__len__")]
    index = getattr(values, "sp_index", None)
    dtype = values.dtype
    categories = getattr(dtype, "categories", None)
    return (
        *(_array_mark(getattr(each, "_values", each)) for each in arrays),
        None if index is None else _digest(index.to_int_index().indices),
        None if categories is None else (dtype.ordered, _index_mark(categories)),
    )


# ── polars ────────────────────────────────────────────────────────────────────────────────────────


class _Polars(Kind):
    """DataFrame and Series of polars, whose copies share memory until one of them is changed."""

    is_data = True

    def parts(self, value: Any) -> Parts:
        if hasattr(value, "_s"):
            return {"name": value.name, "rows": len(value), "values": _series_mark(value)}
        columns = {f"column {each.name!r}": _series_mark(each) for each in value.iter_columns()}
        return {"rows": value.height, **columns}

    def keep(self, value: Any, room: Room) -> Any:  # noqa: ARG002
        return value.clone()

    def restore(self, value: Any, parts: Parts, kept: Any) -> None:  # noqa: ARG002
        name = "_s" if hasattr(value, "_s") else "_df"
        setattr(value, name, getattr(kept.clone(), name))

    def notes(self, value: Any) -> Iterable[NotCovered]:
        dtypes = [value.dtype] if hasattr(value, "_s") else value.dtypes
        if any(str(each) == "Object" for each in dtypes):
            yield NotCovered("", "its Python objects are compared by their hash only")


def _series_mark(values: Any) -> Summary:
    physical = values.to_physical()
    direct = (
        values.null_count() == 0
        and physical.dtype.is_numeric()
        and "128" not in str(physical.dtype)
    )
    memory = physical.to_numpy() if direct else values.hash().to_numpy()
    return Summary(str(values.dtype), (_digest(memory), values.null_count()))


KINDS: tuple[tuple[tuple[str, ...], Kind], ...] = (
    (("numpy", "ndarray"), _Array()),
    (("pandas", "DataFrame", "Series"), _Pandas()),
    (("polars", "DataFrame", "Series"), _Polars()),
)
