"""Values as data: what a copy hands back is never unpickled, because a pickle can run anything.

A value becomes a tree of JSON with separate buffers. Only types whose whole content is data can be
written; reading builds them from this content alone, whatever wrote it.
"""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import importlib
import io
import math
import pathlib
import sys
import uuid
import zoneinfo
from collections import Counter, OrderedDict, deque
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from archytas_nb.copies.channel import Data

Tree = Any
"""JSON: numbers, texts, true, false, null, and lists that begin with the name of their type."""

MAX_DEPTH = 100


class NotDataError(ValueError):
    """A value is not data, or what should be one is damaged; the message says which."""


class _Form(NamedTuple):
    write: Callable[[Writer, Any], list[Tree]]
    read: Callable[[Reader, list[Tree]], Any]


class Writer:
    """Writes values.

    Attributes:
        buffers: The bytes to which the trees refer.
        most: How many bytes may still be written.
    """

    def __init__(self, most: int) -> None:
        self.buffers: list[Data] = []
        self.most = most
        self._depth = 0

    def write(self, value: Any) -> Tree:
        """A value as a tree.

        Raises:
            NotDataError: It cannot be written, or is too large or too deep.
        """
        kind = type(value)
        self._spend(8)
        if value is None or kind is bool:
            return value
        if kind is int and -(2**53) < value < 2**53:
            return value
        if kind is float and math.isfinite(value):
            return value
        if kind is str:
            self._spend(len(value))
            return value
        name = f"{kind.__module__}.{kind.__qualname__}"
        form = _FORMS.get(name) or _FORMS.get(_family(kind))
        if form is None:
            raise NotDataError(f"a {name.removeprefix('builtins.')} is not data")
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise NotDataError("it is nested too deeply")
        try:
            tree = form.write(self, value)
        finally:
            self._depth -= 1
        return [name if name in _FORMS else _family(kind), *tree]

    def buffer(self, data: Data) -> int:
        """Add a buffer to the tree, and return its number."""
        self._spend(memoryview(data).nbytes)
        self.buffers.append(data)
        return len(self.buffers) - 1

    def many(self, values: Iterable[Any]) -> list[Tree]:
        """Values as trees."""
        return [self.write(each) for each in values]

    def _spend(self, size: int) -> None:
        self.most -= size
        if self.most < 0:
            raise NotDataError("it is too large to be brought back")


class Reader:
    """Reads values that a `Writer` wrote, and believes nothing of them."""

    def __init__(self, buffers: Sequence[Data]) -> None:
        self._buffers = buffers

    def read(self, tree: Tree) -> Any:
        """The value of a tree.

        Raises:
            NotDataError: It is not what a writer writes.
        """
        try:
            return self._read(tree)
        except NotDataError:
            raise
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - it may be anything, made to look like a value
            kind = type(error).__name__
            raise NotDataError(f"a value from the copy cannot be read ({kind}: {error})") from None

    def _read(self, tree: Tree) -> Any:
        if not isinstance(tree, list):
            return tree
        form = _FORMS[tree[0]]
        return form.read(self, tree[1:])

    def buffer(self, number: int) -> Data:
        """The bytes with this number."""
        return self._buffers[number]

    def many(self, trees: list[Tree]) -> list[Any]:
        """The values of trees."""
        return [self._read(each) for each in trees]


def _family(kind: type) -> str:
    """The name of the form for a type that has none of its own."""
    for base in kind.__mro__:
        if base.__module__ == "numpy" and base.__name__ == "generic":
            return "numpy.generic"
    return ""


def _of_many(build: Callable[[list[Any]], Any]) -> _Form:
    return _Form(lambda w, v: [w.many(v)], lambda r, t: build(r.many(t[0])))


def _of_pairs(build: Callable[[list[tuple[Any, Any]]], Any]) -> _Form:
    def write(writer: Writer, value: Any) -> list[Tree]:
        return [writer.many(list(value)), writer.many(list(value.values()))]

    return _Form(write, lambda r, t: build(list(zip(r.many(t[0]), r.many(t[1]), strict=True))))


def _of_text(write: Callable[[Any], str], build: Callable[[str], Any]) -> _Form:
    return _Form(lambda _, v: [write(v)], lambda _, t: build(str(t[0])))


def _of_bytes(build: Callable[[Data], Any]) -> _Form:
    return _Form(lambda w, v: [w.buffer(bytes(v))], lambda r, t: build(r.buffer(t[0])))


def _zone(writer: Writer, moment: Any) -> Tree:
    zone = moment.tzinfo
    if zone is None or type(zone) in (dt.timezone, zoneinfo.ZoneInfo):
        return writer.write(zone)
    raise NotDataError(f"a time zone of {type(zone).__module__} is not data")


def _write_moment(writer: Writer, value: Any) -> list[Tree]:
    return [value.replace(tzinfo=None).isoformat(), value.fold, _zone(writer, value)]


def _moment_reader(kind: Any) -> Callable[[Reader, list[Tree]], Any]:
    def read(reader: Reader, tree: list[Tree]) -> Any:
        zone = reader._read(tree[2])  # noqa: SLF001 - a part of the reader
        return kind.fromisoformat(tree[0]).replace(tzinfo=zone, fold=tree[1])

    return read


# Arrays and tables. Their libraries are imported where a value of theirs is read or written.


def _library(name: str) -> Any:
    return sys.modules.get(name) or importlib.import_module(name)


def _write_array(writer: Writer, value: Any) -> list[Tree]:
    if value.dtype.hasobject:
        return [list(value.shape), "O", writer.many(value.ravel().tolist())]
    numpy = _library("numpy")
    flat = numpy.ascontiguousarray(value)
    described = numpy.lib.format.dtype_to_descr(value.dtype)
    if not isinstance(described, str):
        described = _described(described)
    return [list(value.shape), described, writer.buffer(flat.tobytes())]


def _described(fields: Any) -> list[list[Any]]:
    found = []
    for name, kind, *shape in fields:
        if not isinstance(name, str) or not isinstance(kind, str):
            raise NotDataError("an array of nested records is not data")
        found.append([name, kind, [list(each) for each in shape]])
    return found


def _dtype(described: Any) -> Any:
    numpy = _library("numpy")
    if isinstance(described, list):
        described = [(n, k, *(tuple(each) for each in shape)) for n, k, shape in described]
    found = numpy.dtype(described)
    if found.hasobject:
        raise NotDataError("an array of objects was sent as bytes")
    return found


def _read_array(reader: Reader, tree: list[Tree]) -> Any:
    numpy = _library("numpy")
    shape, described, content = tree
    if described == "O":
        values = reader.many(content)
        flat = numpy.empty(len(values), dtype=object)
        for index, each in enumerate(values):
            flat[index] = each
        return flat.reshape(shape)
    if 0 in shape:
        return numpy.empty(shape, dtype=_dtype(described))
    return numpy.frombuffer(reader.buffer(content), dtype=_dtype(described)).reshape(shape)


def _write_scalar(writer: Writer, value: Any) -> list[Tree]:
    return _write_array(writer, _library("numpy").asarray(value))


def _read_scalar(reader: Reader, tree: list[Tree]) -> Any:
    return _read_array(reader, tree)[()]


def _write_column(writer: Writer, values: Any) -> Tree:
    """A pandas index, series or array: as an array of numpy where it has one, or value by value."""
    kind = values.dtype
    name = type(kind).__name__
    if name == "CategoricalDtype":
        held = values.array if hasattr(values, "array") else values
        codes, categories = _library("numpy").asarray(held.codes), kind.categories
        return ["category", writer.write(codes), _write_column(writer, categories), kind.ordered]
    if hasattr(kind, "hasobject") and not kind.hasobject:
        return ["numpy", writer.write(values.to_numpy())]
    if name == "DatetimeTZDtype":
        naive = (
            values.dt.tz_convert("UTC").dt.tz_localize(None)
            if hasattr(values, "dt")
            else (values.tz_convert("UTC").tz_localize(None))
        )
        return ["zoned", writer.write(naive.to_numpy()), str(kind.tz)]
    return ["values", str(kind), writer.many(_plain(each) for each in values.tolist())]


def _plain(value: Any) -> Any:
    """A value of a column, in which pandas has a word of its own for nothing."""
    return None if type(value).__name__ in ("NAType", "NaTType") else value


def _read_column(reader: Reader, tree: list[Tree]) -> Any:
    pandas = _library("pandas")
    form, *parts = tree
    if form == "numpy":
        return reader._read(parts[0])  # noqa: SLF001 - a part of the reader
    if form == "zoned":
        naive = pandas.DatetimeIndex(reader._read(parts[0]))  # noqa: SLF001
        return naive.tz_localize("UTC").tz_convert(str(parts[1])).array
    if form == "category":
        codes = reader._read(parts[0])  # noqa: SLF001
        categories = _read_column(reader, parts[1])
        return pandas.Categorical.from_codes(codes, categories, ordered=bool(parts[2]))
    return pandas.array(reader.many(parts[1]), dtype=str(parts[0]))


def _write_index(writer: Writer, index: Any) -> Tree:
    kind = type(index).__name__
    names = writer.many(index.names)
    if kind == "RangeIndex":
        return ["range", names, index.start, index.stop, index.step]
    if kind == "MultiIndex":
        levels = [
            _write_column(writer, index.get_level_values(each)) for each in range(index.nlevels)
        ]
        return ["levels", names, levels]
    if kind in ("IntervalIndex", "PeriodIndex"):
        raise NotDataError(f"an index of the kind {kind} is not data")
    return ["plain", names, _write_column(writer, index)]


def _read_index(reader: Reader, tree: list[Tree]) -> Any:
    pandas = _library("pandas")
    form, names, *parts = tree
    found = reader.many(names)
    if form == "range":
        return pandas.RangeIndex(*map(int, parts), name=found[0])
    if form == "levels":
        columns = [_read_column(reader, each) for each in parts[0]]
        return pandas.MultiIndex.from_arrays(columns, names=found)
    return pandas.Index(_read_column(reader, parts[0]), name=found[0])


def _write_series(writer: Writer, value: Any) -> list[Tree]:
    return [
        writer.write(value.name),
        _write_index(writer, value.index),
        _write_column(writer, value),
    ]


def _read_series(reader: Reader, tree: list[Tree]) -> Any:
    name, index, column = tree
    return _library("pandas").Series(
        _read_column(reader, column),
        index=_read_index(reader, index),
        name=reader._read(name),  # noqa: SLF001
    )


def _write_frame(writer: Writer, value: Any) -> list[Tree]:
    columns = [_write_column(writer, value.iloc[:, each]) for each in range(value.shape[1])]
    return [_write_index(writer, value.columns), _write_index(writer, value.index), columns]


def _read_frame(reader: Reader, tree: list[Tree]) -> Any:
    pandas = _library("pandas")
    names, index, columns = tree
    rows = _read_index(reader, index)
    held = {at: _read_column(reader, each) for at, each in enumerate(columns)}
    frame = pandas.DataFrame(held, index=rows)
    frame.columns = _read_index(reader, names)
    return frame


def _write_pandas_index(writer: Writer, value: Any) -> list[Tree]:
    return [_write_index(writer, value)]


def _read_pandas_index(reader: Reader, tree: list[Tree]) -> Any:
    return _read_index(reader, tree[0])


# Polars by its values: its reader of files is not made for bytes that somebody has forged.

_POLARS = {
    "Int8", "Int16", "Int32", "Int64", "Int128", "UInt8", "UInt16", "UInt32", "UInt64", "Float32",
    "Float64", "Boolean", "String", "Binary", "Date", "Time", "Null", "Categorical", "Datetime",
    "Duration", "Decimal", "Enum", "List", "Array", "Struct",
}  # fmt: skip


def _write_polars_type(kind: Any) -> list[Tree]:
    name = kind.base_type().__name__
    if name not in _POLARS:
        raise NotDataError(f"a column of the type {name} is not data")
    if name == "Datetime":
        return [name, kind.time_unit, kind.time_zone]
    if name == "Duration":
        return [name, kind.time_unit]
    if name == "Decimal":
        return [name, kind.precision, kind.scale]
    if name == "Enum":
        return [name, kind.categories.to_list()]
    if name == "List":
        return [name, _write_polars_type(kind.inner)]
    if name == "Array":
        return [name, _write_polars_type(kind.inner), list(kind.shape)[:1]]
    if name == "Struct":
        return [name, [[each.name, _write_polars_type(each.dtype)] for each in kind.fields]]
    return [name]


def _read_polars_type(tree: list[Tree]) -> Any:
    name, *parts = tree
    if name not in _POLARS:
        raise NotDataError(f"{name!r} is not a type of a column")
    kind = getattr(_library("polars"), name)
    if name == "List":
        return kind(_read_polars_type(parts[0]))
    if name == "Array":
        return kind(_read_polars_type(parts[0]), int(parts[1][0]))
    if name == "Struct":
        return kind({str(field): _read_polars_type(each) for field, each in parts[0]})
    return kind(*parts) if parts else kind()


def _write_polars_column(writer: Writer, column: Any) -> Tree:
    kind = _write_polars_type(column.dtype)
    has_numbers = kind[0].startswith(("Int", "UInt", "Float")) and kind[0] != "Int128"
    if has_numbers and column.null_count() == 0:
        return [column.name, kind, writer.write(column.to_numpy())]
    return [column.name, kind, writer.write(column.to_list())]


def _read_polars_column(reader: Reader, tree: Tree) -> Any:
    name, kind, values = tree
    return _library("polars").Series(
        str(name),
        reader._read(values),  # noqa: SLF001 - a part of the reader
        dtype=_read_polars_type(kind),
    )


def _write_polars(writer: Writer, value: Any) -> list[Tree]:
    if type(value).__name__ == "Series":
        return [True, [_write_polars_column(writer, value)]]
    return [False, [_write_polars_column(writer, each) for each in value.get_columns()]]


def _read_polars(reader: Reader, tree: list[Tree]) -> Any:
    columns = [_read_polars_column(reader, each) for each in tree[1]]
    return columns[0] if tree[0] else _library("polars").DataFrame(columns)


def _write_arrow(writer: Writer, value: Any) -> list[Tree]:
    file = io.BytesIO()
    with _library("pyarrow.ipc").new_stream(file, value.schema) as stream:
        stream.write(value)
    return [writer.buffer(file.getvalue())]


def _read_arrow(reader: Reader, tree: list[Tree]) -> Any:
    table = _library("pyarrow.ipc").open_stream(reader.buffer(tree[0])).read_all()
    table.validate(full=True)
    return table


_PANDAS_INDEX = _Form(_write_pandas_index, _read_pandas_index)

_FORMS: dict[str, _Form] = {
    "builtins.int": _of_text(hex, lambda text: int(text, 16)),
    "builtins.float": _of_text(repr, float),
    "builtins.complex": _of_text(repr, complex),
    "builtins.bytes": _of_bytes(bytes),
    "builtins.bytearray": _of_bytes(bytearray),
    "builtins.list": _of_many(list),
    "builtins.tuple": _of_many(tuple),
    "builtins.set": _of_many(set),
    "builtins.frozenset": _of_many(frozenset),
    "collections.deque": _of_many(deque),
    "builtins.dict": _of_pairs(dict),
    "collections.OrderedDict": _of_pairs(OrderedDict),
    "collections.defaultdict": _of_pairs(dict),
    "collections.Counter": _of_pairs(lambda pairs: Counter(dict(pairs))),
    "builtins.range": _Form(
        lambda w, v: w.many((v.start, v.stop, v.step)), lambda r, t: range(*r.many(t))
    ),
    "builtins.slice": _Form(
        lambda w, v: w.many((v.start, v.stop, v.step)), lambda r, t: slice(*r.many(t))
    ),
    "datetime.date": _of_text(str, dt.date.fromisoformat),
    "datetime.datetime": _Form(_write_moment, _moment_reader(dt.datetime)),
    "datetime.time": _Form(_write_moment, _moment_reader(dt.time)),
    "datetime.timedelta": _Form(
        lambda _, v: [v.days, v.seconds, v.microseconds], lambda _, t: dt.timedelta(*t)
    ),
    "datetime.timezone": _Form(
        lambda w, v: [w.write(v.utcoffset(None))],
        lambda r, t: dt.timezone(r._read(t[0])),  # noqa: SLF001
    ),
    "zoneinfo.ZoneInfo": _of_text(lambda zone: zone.key, zoneinfo.ZoneInfo),
    "decimal.Decimal": _of_text(str, decimal.Decimal),
    "fractions.Fraction": _Form(
        lambda w, v: w.many((v.numerator, v.denominator)),
        lambda r, t: fractions.Fraction(*r.many(t)),
    ),
    "uuid.UUID": _of_text(str, uuid.UUID),
    **{
        f"{kind.__module__}.{kind.__qualname__}": _of_text(str, kind)
        for kind in (pathlib.PurePosixPath, pathlib.PureWindowsPath, type(pathlib.Path()))
    },
    "numpy.ndarray": _Form(_write_array, _read_array),
    "numpy.generic": _Form(_write_scalar, _read_scalar),
    "pandas.Timestamp": _of_text(str, lambda text: _library("pandas").Timestamp(text)),
    "pandas.Timedelta": _of_text(str, lambda text: _library("pandas").Timedelta(text)),
    "pandas.Series": _Form(_write_series, _read_series),
    "pandas.DataFrame": _Form(_write_frame, _read_frame),
    **{f"pandas.{each}": _PANDAS_INDEX for each in (
        "Index", "RangeIndex", "MultiIndex", "DatetimeIndex", "TimedeltaIndex", "CategoricalIndex",
    )},
    "polars.dataframe.frame.DataFrame": _Form(_write_polars, _read_polars),
    "polars.series.series.Series": _Form(_write_polars, _read_polars),
    "pyarrow.lib.Table": _Form(_write_arrow, _read_arrow),
}  # fmt: skip
