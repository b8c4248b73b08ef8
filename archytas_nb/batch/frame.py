"""The frame of a map's answers: each column holds the values themselves.

The type of the answers decides the type of a column, so that it is the same whatever was answered:

    answers        pandas                   polars
    ─────────────  ───────────────────────  ────────────────────────────────────────────────
    bool           boolean                  Boolean
    int            Int64                    Int64
    float          Float64                  Float64
    str            str (pandas 2: string)   String
    datetime       datetime64[us], also     Datetime("us"), also with the time zone UTC
                   with the time zone UTC
    timedelta      timedelta64[us]          Duration("us")
    date, time     object                   Date, Time
    bytes          object                   Binary
    list[X]        object                   List of the type for X
    TypedDict      object                   Struct of the types of its fields
    anything else  object                   Object

A column that would not give back each value as it was answered is one of objects: an integer above
64 bits, datetimes of several time zones. No library infers a type, because what it infers depends
on the values, and some values do not survive it (integers next to a missing one).
"""

from __future__ import annotations

import datetime as dt
import math
import sys
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from archytas_nb.tools.schema import ref_name

BESIDE: Mapping[str, Mapping[str, Any]] = {
    "status": {"type": "string"},
    "error": {"type": "string"},
    "tokens": {"type": "integer"},
    "cost": {"type": "number"},
    "seconds": {"type": "number"},
    "by": {"type": "string"},
    "confidence": {"type": "number"},
    "agent": {},
}
"""The schemas of the columns next to the answers; the last one has that of the answers."""


def schemas_of(answer: Mapping[str, Any], names: Sequence[str]) -> dict[str, Mapping[str, Any]]:
    """The schema of each column.

    Args:
        answer: The schema of an answer.
        names: The columns of an answer; ``["answer"]`` if it is not taken apart.
    """
    if list(names) == ["answer"]:
        return {"answer": answer}
    defs = answer.get("$defs", {})
    whole = _Kind(answer).schema
    fields = whole.get("properties") or dict(zip(names, whole.get("prefixItems", ()), strict=False))
    return {name: {**fields.get(name, {}), "$defs": defs} for name in names}


def framed(
    data: Any,
    library: str,
    records: Sequence[Mapping[str, Any]],
    schemas: Mapping[str, Mapping[str, Any]],
) -> Any:
    """The records as a frame of a library, with the index of the data.

    Args:
        data: The rows that were asked about.
        library: ``"pandas"`` or ``"polars"``.
        records: The record of each row, with the columns as keys; None is a missing value.
        schemas: The schema of each column, with the definitions that it refers to.
    """
    module = sys.modules[library]
    make: _PandasColumns | _PolarsColumns = _PolarsColumns(module)
    if library == "pandas":
        make = _PandasColumns(module, data.index)
    table = {}
    for name, schema in schemas.items():
        table[name] = make.column([record[name] for record in records], _Kind(schema))
    return module.DataFrame(table)


class _Kind:
    """The kind of values that a schema describes.

    Attributes:
        name: The type of JSON, or the format of a text; ``"any"`` where there is no single one.
        schema: The schema itself, without references and without null.
    """

    def __init__(self, schema: Mapping[str, Any], defs: Mapping[str, Any] | None = None) -> None:
        self.defs: Mapping[str, Any] = schema.get("$defs", defs or {})
        self.schema = self._resolved(schema)
        self.name = self._name()

    def items(self) -> _Kind | None:
        """The kind of all items of a list; None where they may be of several, and for a set."""
        is_set = "uniqueItems" in self.schema
        if is_set or "prefixItems" in self.schema or not self.schema.get("items"):
            return None
        return _Kind(self.schema["items"], self.defs)

    def fields(self) -> dict[str, _Kind]:
        """The kinds of the fields of an object; empty where the fields are not known."""
        known = self.schema.get("properties", {})
        return {name: _Kind(each, self.defs) for name, each in known.items()}

    def _resolved(self, schema: Any) -> Mapping[str, Any]:
        while isinstance(schema, Mapping) and "$ref" in schema:
            schema = self.defs.get(ref_name(schema), {})
        if not isinstance(schema, Mapping):
            return {}
        branches = [self._resolved(each) for each in schema.get("anyOf", ())]
        values = [each for each in branches if each.get("type") != "null"]
        types = {each.get("type") for each in values}
        if len(values) == 1:
            return values[0]
        if types == {"integer", "number"}:
            return {"type": "number"}
        return schema

    def _name(self) -> str:
        kind = self.schema.get("type")
        if not isinstance(kind, str) or "x-enum" in self.schema:
            return "any"
        return str(self.schema.get("format", kind)) if kind == "string" else kind


class _PandasColumns:
    """Makes columns of pandas."""

    _DTYPES: Mapping[str, Sequence[Any]] = {
        "boolean": ("boolean",),
        "integer": ("Int64",),
        "number": ("Float64",),
        "date-time": ("datetime64[us]", "datetime64[us, UTC]"),
        "duration": ("timedelta64[us]",),
    }

    def __init__(self, pandas: Any, index: Any) -> None:
        self._pandas = pandas
        self._index = index
        usual = pandas.Series([""]).dtype  # that of texts in the other columns
        text = usual if isinstance(usual, pandas.StringDtype) else "string"
        self._dtypes = {**self._DTYPES, "string": (text,)}

    def column(self, values: list[Any], kind: _Kind) -> Any:
        """The values as a Series."""
        for dtype in self._dtypes.get(kind.name, ()):
            made = _tried(lambda dtype=dtype: self._pandas.array(values, dtype=dtype))
            if made is not None and _holds(self._read(made), values):
                return self._pandas.Series(made, self._index)
        # The constructor of an index is the one that leaves lists whole and infers nothing.
        objects = self._pandas.Index(values, dtype=object, tupleize_cols=False)
        return self._pandas.Series(objects.array, self._index, dtype=object)

    def _read(self, made: Any) -> Iterator[Any]:
        missing = self._pandas.isna(made)
        return (None if is_na else each for each, is_na in zip(made, missing, strict=True))


class _PolarsColumns:
    """Makes columns of polars."""

    def __init__(self, polars: Any) -> None:
        self._polars = polars

    def column(self, values: list[Any], kind: _Kind) -> Any:
        """The values as a Series."""
        polars = self._polars
        for dtype in self._dtypes(kind):
            made = _tried(lambda dtype=dtype: polars.Series(values, dtype=dtype, strict=True))
            if made is not None and _holds(made.to_list(), values):
                return made
        # The constructor looks at the first value, and takes the members of an enum apart.
        return polars.Series([self, *values], dtype=polars.Object)[1:]

    def _dtypes(self, kind: _Kind) -> Sequence[Any]:
        """The types that may hold values of a kind, the preferred one first; none for any value."""
        polars = self._polars
        plain = {
            "boolean": polars.Boolean,
            "integer": polars.Int64,
            "number": polars.Float64,
            "string": polars.String,
            "binary": polars.Binary,
            "date": polars.Date,
            "time": polars.Time,
            "duration": polars.Duration("us"),
        }
        if kind.name in plain:
            return [plain[kind.name]]
        if kind.name == "date-time":
            return [polars.Datetime("us"), polars.Datetime("us", "UTC")]
        if kind.name == "array" and (items := kind.items()) is not None:
            return [polars.List(each) for each in self._dtypes(items)]
        if kind.name == "object" and (fields := kind.fields()):
            types = {name: self._dtypes(each) for name, each in fields.items()}
            if all(types.values()):
                return [polars.Struct({name: each[0] for name, each in types.items()})]
        return []


def _tried(make: Any) -> Any:
    """The result of ``make``; None where the library refuses a value."""
    try:
        return make()
    except Exception:  # noqa: BLE001 - each library and release has its own; objects hold anything
        return None


def _holds(made: Any, values: Sequence[Any]) -> bool:
    """Whether a column gives back the values."""
    return all(_is_same(each, value) for each, value in zip(made, values, strict=True))


def _is_same(made: Any, value: Any) -> bool:
    """Whether a value has survived: equal, of its own type or a subclass, with its time zone."""
    if value is None or made is None:
        return value is None and made is None
    if isinstance(value, (list, tuple)):
        return type(made) is type(value) and len(made) == len(value) and _holds(made, value)
    if isinstance(value, dict):
        if type(made) is not type(value) or made.keys() != value.keys():
            return False
        return all(_is_same(made[key], each) for key, each in value.items())
    if isinstance(value, float) or isinstance(made, float):
        # NaN is a missing value, and does not equal itself.
        is_number = type(value) in (int, float) and type(made) is not bool
        return is_number and (made == value or (math.isnan(made) and math.isnan(value)))
    # Before int, of which bool is a subclass; numpy's bool is neither.
    if isinstance(value, bool) or type(made).__name__ in ("bool", "bool_"):
        return isinstance(value, bool) and bool(made) == value
    if isinstance(value, dt.datetime):
        is_equal = isinstance(made, dt.datetime) and made == value
        return is_equal and made.utcoffset() == value.utcoffset()
    if isinstance(value, int):
        return not isinstance(value, bool) and type(value) is int and int(made) == value
    return isinstance(made, type(value)) and made == value
