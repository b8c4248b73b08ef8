"""Recognises tables of any library, and reads their parts.

    pandas, with subclasses (geopandas)        its own methods: narwhals knows no index, and refuses
                                               two columns of one name
    polars, pyarrow, modin, cuDF               narwhals
    polars' LazyFrame, dask, duckdb, ibis      narwhals, which reads their columns: their rows are a
                                               query, which nobody but its owner starts

The class of a value decides, by `isinstance` against the libraries that are loaded; none of them is
imported. `undo/tables.py` reads the exact content of a table, for undo: narwhals gives values, and
no buffers.

A name is written so that it is one word of a line, whatever it contains (`label_of`). A value that
Python cannot hold, such as a date after the year 9999, is the text that its library writes.
"""

from __future__ import annotations

import functools
import inspect
import operator
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from contextlib import suppress
from itertools import islice
from typing import Any, Literal, TypeAlias, TypeVar
from weakref import WeakKeyDictionary

from archytas_nb.errors import STOPS
from archytas_nb.words import truncate_line

_Read = TypeVar("_Read")
Family: TypeAlias = Literal["pandas", "other", "lazy", ""]
"""How a table or a series is read; empty for any other value."""
Kind: TypeAlias = Literal["number", "time", "other"]
"""How values of a column are described: a range and a mean, a range, or frequent ones."""

_KINDS: dict[str, Kind] = {
    "i": "number", "u": "number", "f": "number", "m": "time", "M": "time",
}  # fmt: skip
_QUARTERS = [0.25, 0.5, 0.75]
_MAX_TYPE = 60  # characters of the type of a column
_BETWEEN = (", ", ": ")  # separates a name from the text after it
_OPENING = ("'", '"', "(", "[", "{")  # what a name in quotes, or one of several parts, begins with
_NO_TABLES = sys.stdlib_module_names | {"__main__", "archytas_nb", "numpy"}
_OF_TABLES = (
    "columns", "to_frame", "__arrow_c_stream__",
    "__narwhals_dataframe__", "__narwhals_lazyframe__", "__narwhals_series__",
)  # fmt: skip
"""Attributes of which the class of each table and series has one: only then narwhals is loaded."""
_families: WeakKeyDictionary[type, tuple[Family, bool]] = WeakKeyDictionary()


def table_of(value: Any) -> Table | None:
    """The table that a value is; None for any other value."""
    family, is_table = _family(value)
    if not family or not is_table:
        return None
    if family == "pandas":
        return _OfPandas(value)
    return _OfNarwhals(value, is_query=family == "lazy")


def column_of(value: Any) -> Column | None:
    """The column that a series, or an index of pandas, is; None for any other value."""
    family, is_table = _family(value)
    if not family or is_table:
        return None
    if family == "pandas":
        return _ColumnOfPandas(value.name, value)
    return _ColumnOfNarwhals(getattr(value, "name", None), _narwhals(value))


def library_of(value: Any) -> str:
    """The library of a table or a series with rows, such as ``"pandas"``; empty for others."""
    family, _ = _family(value)
    if family != "other":
        return "pandas" if family == "pandas" and not _is_index(value) else ""
    return str(_narwhals(value).implementation.value)


def _family(value: Any) -> tuple[Family, bool]:
    """How a value is read, and whether it is a table."""
    cls = type(value)
    found = _families.get(cls)
    if found is None:
        found = _found(value)
        if found[0] or not _looks_like_a_table(value):  # the next one may be read
            _families[cls] = found
    return found


def _found(value: Any) -> tuple[Family, bool]:
    pandas = sys.modules.get("pandas")
    classes = [getattr(pandas, name, None) for name in ("DataFrame", "Series", "Index")]
    if None not in classes and isinstance(value, tuple(classes)):  # type: ignore[arg-type]
        return "pandas", isinstance(value, classes[0])  # type: ignore[arg-type]
    roots = {str(each.__module__).partition(".")[0] for each in type(value).__mro__}
    if roots <= _NO_TABLES or not any(hasattr(type(value), each) for each in _OF_TABLES):
        return "", False
    import narwhals

    try:
        read = _narwhals(value)
    except Exception:  # noqa: BLE001 - TypeError for what it does not know; others are foreign
        return "", False
    if isinstance(read, narwhals.LazyFrame):
        return "lazy", True
    return "other", isinstance(read, narwhals.DataFrame)


def _narwhals(value: Any) -> Any:

    if _families.get(type(value)) == ("other", True):
        return _unique(value)
    with warnings.catch_warnings():  # about where its support of a library will be installed
        warnings.simplefilter("ignore", FutureWarning)
        return _unique(value, allow_series=True)


def _unique(value: Any, **options: Any) -> Any:
    """A table as narwhals has it; the columns are called after their places if names occur twice.

    Tables of pyarrow may have several columns of one name, as the join of a query gives them. A
    batch of its records is a table that narwhals does not know.
    """
    import narwhals

    arrow = sys.modules.get("pyarrow")
    if arrow is not None and isinstance(value, arrow.RecordBatch):
        value = arrow.Table.from_batches([value])
    try:
        return narwhals.from_native(value, **options)
    except narwhals.exceptions.DuplicateError:
        places = [str(place) for place in range(len(value.column_names))]
        return narwhals.from_native(value.rename_columns(places), **options)


def _is_index(value: Any) -> bool:
    return isinstance(value, sys.modules["pandas"].Index)


# ── tables ────────────────────────────────────────────────────────────────────────────────────────


class Table:
    """A table, whatever its library.

    Attributes:
        size: The number of rows; None for a query, whose rows are not computed.
        width: The number of columns.
    """

    size: int | None
    width: int

    @functools.cached_property
    def names(self) -> list[Any]:
        """The names of the columns."""
        raise NotImplementedError

    @functools.cached_property
    def labels(self) -> list[str]:
        """The names of the columns as they are written."""
        return list(map(label_of, self.names))

    @property
    def levels(self) -> tuple[str, ...]:
        """The names of the levels of the columns, as a pivot makes them; mostly none."""
        return ()

    @functools.cached_property
    def index(self) -> tuple[Column, ...]:
        """The levels of the index; none without one, and where it only counts the rows."""
        return ()

    def column(self, place: int) -> Column:
        """A column by its place, as pandas allows two of one name."""
        raise NotImplementedError

    def columns(self) -> list[Column]:
        """All columns."""
        return [self.column(place) for place in range(self.width)]

    def rows(self, part: slice, columns: int | None = None) -> list[tuple[Any, ...]]:
        """The values of some rows, those of the index first; at most this many columns."""
        raise NotImplementedError

    def records(self) -> list[dict[Any, Any]]:
        """Every row, with the names of the columns as keys; without the index."""
        raise NotImplementedError


class _OfPandas(Table):
    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self.size, self.width = len(frame), len(frame.columns)

    @functools.cached_property
    def names(self) -> list[Any]:
        return list(self._frame.columns)

    @property
    def levels(self) -> tuple[str, ...]:
        return tuple(str(each) for each in self._frame.columns.names if each is not None)

    @functools.cached_property
    def index(self) -> tuple[Column, ...]:
        return index_of(self._frame)

    def column(self, place: int) -> Column:
        return _ColumnOfPandas(self.names[place], self._frame.iloc[:, place], self.labels[place])

    def columns(self) -> list[Column]:  # much faster than one by one
        values = (each for _, each in self._frame.items())
        return list(map(_ColumnOfPandas, self.names, values, self.labels))

    def rows(self, part: slice, columns: int | None = None) -> list[tuple[Any, ...]]:
        shown = self._frame.iloc[part, :columns]
        places = range(shown.shape[1])
        values = [shown.iloc[:, place].array for place in places]
        levels = [each.values(slice(None)) for each in index_of(shown)] if self.index else []
        if not levels and not values:
            return [()] * len(shown)
        return list(zip(*levels, *values, strict=True))

    def records(self) -> list[dict[Any, Any]]:
        records: list[dict[Any, Any]] = self._frame.to_dict("records")
        return records


class _OfNarwhals(Table):
    def __init__(self, value: Any, *, is_query: bool) -> None:
        self._value = value
        self.size = None
        if is_query:
            self.width = len(self.names)
        else:  # they all have it, and many tables are read for nothing else
            self.size, self.width = map(operator.index, value.shape)

    @functools.cached_property
    def _frame(self) -> Any:
        return _narwhals(self._value)

    @functools.cached_property
    def _keys(self) -> list[str]:
        """The names by which narwhals has the columns."""
        return list(self._frame.columns if self.size is not None else self._frame.collect_schema())

    @functools.cached_property
    def names(self) -> list[Any]:
        if self._frame.implementation.is_polars():
            return self._keys
        # A schema has each name once, and columns may share one.
        own = getattr(self._value, "column_names", None)  # of pyarrow, whose columns are values
        own = list(getattr(self._value, "columns", ()) if own is None else own)
        return own if len(own) >= len(self._keys) else self._keys

    def column(self, place: int) -> Column:
        name = self.names[place]
        if len(self._keys) < len(self.names):
            return _NotComputed(name, None)
        key = self._keys[place]
        if self.size is None:
            return _NotComputed(name, self._frame.collect_schema()[key])
        return _ColumnOfNarwhals(name, self._frame.get_column(key))

    def rows(self, part: slice, columns: int | None = None) -> list[tuple[Any, ...]]:
        keys = self._keys[:columns]
        chosen = self._frame[part].select(keys)

        def by_column() -> list[tuple[Any, ...]]:
            return list(zip(*(_held(chosen[key]) for key in keys), strict=True))

        return _first_of(chosen.rows, by_column)

    def records(self) -> list[dict[Any, Any]]:
        return [dict(zip(self.names, row, strict=True)) for row in self.rows(slice(None))]


def index_of(value: Any) -> tuple[Column, ...]:
    """The levels of the index of a pandas object, unless it only counts the rows."""
    index = getattr(value, "index", None) if _family(value)[0] == "pandas" else None
    if index is None or callable(index):
        return ()
    if type(index).__name__ == "RangeIndex" and index.name is None:
        return ()
    levels = []
    for n in range(index.nlevels):
        name = index.names[n]
        # The name that pandas gives to one of several levels where it needs a name.
        label = f"level_{n}" if name is None and index.nlevels > 1 else ""
        levels.append(_ColumnOfPandas(name, index.get_level_values(n), label))
    return tuple(levels)


# ── columns ───────────────────────────────────────────────────────────────────────────────────────


class Column:
    """A column of a table, a series, or a level of an index.

    Attributes:
        name: Its name; None without one.
        label: The name as it is written; empty without one.
        dtype: The type of its values, as its library has it.
        kind: The facts that describe its values.
        size: How many there are; None for a query.
        native: The values as its library has them.
    """

    name: Any
    label: str
    dtype: Any
    kind: Kind
    size: int | None
    native: Any

    @functools.cached_property
    def type_text(self) -> str:
        """The type of its values as it is written: an enumeration may have thousands of names."""
        return truncate_line(str(self.dtype), _MAX_TYPE)

    def missing(self) -> int:
        """The number of missing values."""
        raise NotImplementedError

    def different(self) -> int:
        """The number of different values that are not missing."""
        raise NotImplementedError

    def counts(self, most: int) -> list[tuple[Any, int]]:
        """The most frequent values with their frequencies, at most this many."""
        raise NotImplementedError

    def ends(self) -> tuple[Any, Any]:
        """The least and the greatest value."""
        raise NotImplementedError

    def mean(self) -> Any:
        """The mean."""
        raise NotImplementedError

    def quartiles(self) -> list[Any]:
        """The values below which a quarter, half and three quarters of the numbers are."""
        raise NotImplementedError

    def values(self, part: slice) -> list[Any]:
        """The values themselves."""
        raise NotImplementedError


class _ColumnOfPandas(Column):
    def __init__(self, name: Any, values: Any, label: str = "") -> None:
        self.name = name
        self.label = label or ("" if name is None else label_of(name))
        self.native = values
        self.dtype = values.dtype
        self.kind = _KINDS.get(getattr(values.dtype, "kind", ""), "other")
        self.size = len(values)

    def missing(self) -> int:
        values = self.native.array
        if isinstance(self.dtype, sys.modules["numpy"].dtype) and self.dtype.kind in "iub":
            return 0  # there is no missing integer
        if hasattr(values, "_pa_array") and self.type_text in ("str", "string"):
            return int(values._pa_array.null_count)  # noqa: SLF001 - pandas makes an array of it
        return int(values.isna().sum())

    def different(self) -> int:
        return int(self.native.nunique())

    def counts(self, most: int) -> list[tuple[Any, int]]:
        if str(self.dtype) == "object":  # where they cannot be hashed, pandas compares all pairs
            return Counter(self.native).most_common(most)
        counts = self.native.value_counts(dropna=False)
        return [*counts[counts > 0][:most].items()]  # it also lists categories without a value

    def ends(self) -> tuple[Any, Any]:
        numpy = sys.modules["numpy"]
        if isinstance(self.dtype, numpy.dtype) and self.kind == "number":
            values = self.native.to_numpy()  # pandas copies them without what is missing
            return numpy.fmin.reduce(values), numpy.fmax.reduce(values)
        return self.native.min(), self.native.max()

    def mean(self) -> Any:
        with sys.modules["numpy"].errstate(all="ignore"):  # of inf and -inf, there is none
            return self.native.array.mean()

    def quartiles(self) -> list[Any]:
        with sys.modules["numpy"].errstate(all="ignore"):
            return [*self.native.quantile(_QUARTERS)]

    def values(self, part: slice) -> list[Any]:
        return list(self.native.array[part])


class _ColumnOfNarwhals(Column):
    def __init__(self, name: Any, series: Any) -> None:
        self.name = name
        self.label = "" if name is None else label_of(name)
        self.native = series.to_native()
        self.dtype = series.dtype
        self._series = series
        self.kind = _kind_of(series.dtype)
        self.size = len(series)

    @functools.cached_property
    def _counted(self) -> Any:
        """The values of the statistics: a NaN is missing, as in pandas."""
        return self._series.fill_nan(None) if self.dtype.is_float() else self._series

    @functools.cached_property
    def type_text(self) -> str:
        if type(self.dtype).__name__ != "Unknown":  # narwhals knows fewer than the libraries have
            return truncate_line(str(self.dtype), _MAX_TYPE)
        own = self.native
        return truncate_line(str(own.dtype if hasattr(own, "dtype") else own.type), _MAX_TYPE)

    @functools.cached_property
    def _missing(self) -> int:
        return int(self._counted.null_count())

    def missing(self) -> int:
        return self._missing

    @functools.cached_property
    def _objects(self) -> Counter[Any] | None:
        """The frequencies of Python's objects, which polars cannot hash; None for other values.

        Raises:
            TypeError: Python cannot hash them, either.
        """
        if type(self.dtype).__name__ != "Object":
            return None
        return Counter(self._series.to_list())

    def different(self) -> int:
        if self._objects is not None:
            return len(self._objects) - (None in self._objects)
        return int(self._counted.n_unique()) - bool(self._missing)

    def counts(self, most: int) -> list[tuple[Any, int]]:
        if self._objects is not None:
            return self._objects.most_common(most)
        counted = self._counted.alias("value")
        if type(self.dtype).__name__ == "Categorical":  # whose own order is that of its making
            import narwhals

            counted = counted.cast(narwhals.String)
        counts = counted.value_counts(sort=True, name="times")
        with suppress(Exception):  # polars has equally frequent values in any order
            counts = counts.sort("times", "value", descending=[True, False])
        return [(value, int(times)) for value, times in counts[:most].rows()]

    def ends(self) -> tuple[Any, Any]:
        def held() -> tuple[Any, Any]:
            ends = self._counted.drop_nulls().sort()
            return _held(ends[:1])[0], _held(ends[-1:])[0]

        return _first_of(lambda: (self._counted.min(), self._counted.max()), held)

    def mean(self) -> Any:
        return self._counted.mean()

    def quartiles(self) -> list[Any]:
        return [self._counted.quantile(each, "linear") for each in _QUARTERS]

    def values(self, part: slice) -> list[Any]:
        return _held(self._series[part])


class _NotComputed(Column):
    """A column of a query: its name and its type."""

    def __init__(self, name: Any, dtype: Any) -> None:
        self.name = name
        self.label = label_of(name)
        self.dtype = "several columns have this name" if dtype is None else dtype
        self.kind = "other" if dtype is None else _kind_of(dtype)
        self.size = None
        self.native = None


def _held(series: Any) -> list[Any]:
    """The values of a series of narwhals; those that Python cannot hold as texts."""

    def as_texts() -> list[Any]:
        import narwhals

        return list(series.cast(narwhals.String).to_list())

    return _first_of(lambda: list(series.to_list()), as_texts)


def _first_of(read: Callable[[], _Read], instead: Callable[[], _Read]) -> _Read:
    """The result of `read`, or of `instead` if Python cannot hold a value of the table.

    Each library has its own exceptions, and a panic of polars is not an `Exception`.
    """
    try:
        return read()
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001
        return instead()


def label_of(name: Any) -> str:
    """A name of a column as it is written: one word of a line that can be told from others.

    It is written as it is, unless it would be read as something else: as several names, as none, as
    two lines, as a number, or where a character in it cannot be seen. Then it is written as Python
    writes the text.
    """
    text = str(name)
    if not isinstance(name, str):
        return text if text.isprintable() else repr(text)
    is_word = text.isprintable() and text == text.strip() and not text.startswith(_OPENING)
    if not is_word or any(each in text for each in _BETWEEN) or _is_value(text):
        return repr(text)
    return text


def _is_value(text: str) -> bool:
    """Whether a text reads as nothing, as a constant, or as a number, such as 2024."""
    if text in ("", "None", "True", "False"):
        return True
    try:
        float(text)
    except ValueError:
        return False
    return True


def _kind_of(dtype: Any) -> Kind:
    """The facts that describe values of a type of narwhals."""
    if dtype.is_numeric():
        return "number"
    return "time" if dtype.is_temporal() else "other"


# ── the way to rows ───────────────────────────────────────────────────────────────────────────────

_WAYS = (
    "collect", "df", "to_pandas", "toPandas", "to_df", "to_dataframe", "to_polars", "pl",
    "compute", "execute", "to_pylist",
)  # fmt: skip
"""Methods that give rows, in the order in which one is advised."""
_OFFERED = ("__dataframe__", "__arrow_c_stream__", "__arrow_c_array__")
"""What a table of any library may offer to others."""


def way_to_rows(value: Any) -> str:
    """The method that makes rows of a value, as ``.collect()``; empty if it has none."""
    others = (name for name in dir(type(value)) if name.startswith("to_") and "table" in name)
    return next((f".{name}()" for name in (*_WAYS, *others) if _is_way(value, name)), "")


def _is_way(value: Any, name: str) -> bool:
    """Whether a value has a method that needs no arguments: ``execute`` may need a statement."""
    method = getattr(type(value), name, None)
    if not callable(method) or not callable(_static(value, name)):
        return False
    try:
        [_, *parameters] = inspect.signature(method).parameters.values()
    except (TypeError, ValueError):  # compiled code often has no signature
        return any(hasattr(type(value), each) for each in _OF_TABLES)
    return all(
        each.default is not each.empty or each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD)
        for each in parameters
    )


def hides_rows(value: Iterable[Any]) -> bool:
    """Whether iterating over a value gives something other than its rows.

    So it is with tables of libraries that are not read: they have columns or offer themselves to
    other libraries. Others give the names of their parts, as dicts do, or tables, as groups do.
    Of an iterator nothing is taken.
    """
    if any(_static(value, each) is not None for each in _OFFERED):
        return True
    if isinstance(value, Iterator):
        return False
    if _looks_like_a_table(value):
        return True
    get: Callable[[Any, Any], Any] | None = getattr(type(value), "__getitem__", None)
    for first in islice(value, 1):
        parts = first if isinstance(first, tuple) else (first,)
        if any(table_of(each) is not None for each in parts):
            return True
        if get is None or isinstance(first, (int, slice)) or not isinstance(first, Hashable):
            return False
        try:
            get(value, first)
        except Exception:  # noqa: BLE001 - no part is called like the first one
            return False
        return True
    return False


def _looks_like_a_table(value: Any) -> bool:
    """Whether a value has columns, or offers itself to other libraries as a table."""
    return any(_static(value, each) is not None for each in ("columns", *_OFFERED))


def _static(value: Any, name: str) -> Any:
    """An attribute that a value or its class has, without any code of the value."""
    return inspect.getattr_static(value, name, None)
