"""Converts values at the border of the sandbox, by an exact table of types.

| value | in the sandbox | as an argument of a tool (JSON) |
|---|---|---|
| None, bool, int, float, str | the same; a subclass's content | the same; NaN, infinity: text |
| bytes, bytearray | bytes | text, if it is UTF-8 |
| list, tuple, set, frozenset | the same, of converted items | array |
| dict | the same, of converted items | object; keys as text |
| deque, range, views of a dict | list | array |
| OrderedDict, defaultdict, Counter, … | dict | object |
| date, datetime, time, timedelta | the same; a time zone: its offset | ISO 8601 |
| Decimal | the same | text |
| enum | its value, or its name if JSON has no such value | the same |
| scalars of numpy, pandas' times | Python's, if nothing is lost | as above |
| NaT, NA | None | null |
| named tuple | named tuple | object |
| dataclass, pydantic model, attrs | record: its fields are attributes | object |
| anything else; more than 10,000 items | handle: ``==``, ``is``, passing on | ``{"$var": name}`` |

The library's own conversion is never reached: it makes NaT a date of the year 1, cuts nanoseconds,
and passes functions as their names. numpy, pandas and polars are recognised and never imported.
"""

from __future__ import annotations

import collections
import dataclasses
import datetime as dt
import enum
import types
from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from pydantic_monty import MontyClassProxy

from archytas_nb.errors import STOPS
from archytas_nb.sandbox.handles import Handles
from archytas_nb.tools.annotation import is_by_name
from archytas_nb.tools.render import Rendered
from archytas_nb.tools.texts import is_scalar

MAX_ITEMS = 10_000
"""A container with more items becomes a handle."""

_MAX_DEPTH = 100
SAME = frozenset({type(None), bool, int, float, str, bytes, Decimal, dt.date, dt.timedelta})
SEQUENCES: dict[type, type] = {
    list: list, tuple: tuple, set: set, frozenset: frozenset, range: list,
    collections.deque: list, type({}.keys()): list, type({}.values()): list,
    type({}.items()): list,
}  # fmt: skip
MAPPINGS = frozenset(
    {
        dict,
        collections.OrderedDict,
        collections.defaultdict,
        collections.Counter,
        collections.ChainMap,
        types.MappingProxyType,
    }
)
_NO_VALUE = frozenset({"NaTType", "NAType"})


class Opaque(Exception):
    """A value cannot cross: it stays outside, and the sandbox gets a handle."""


# ── into the sandbox ──────────────────────────────────────────────────────────────────────────────


def to_sandbox(value: Any, handles: Handles) -> Any:
    """The value for the sandbox; a type that is not in the table becomes a handle."""
    return _Crossing(handles).convert(value)


def is_opaque(value: Any) -> bool:
    """Whether the sandbox cannot compute with a value: it, or something in it, is a handle."""
    handles = _NoHandles()
    to_sandbox(value, handles)
    return handles.has_opaque


class _NoHandles(Handles):
    """Notes whether a conversion would make a handle."""

    has_opaque = False

    def wrapped(
        self,
        value: Any,  # noqa: ARG002 - no handle is made
        fields: Mapping[str, Any] | None = None,
    ) -> Any:
        self.has_opaque |= fields is None
        return None


class _Crossing:
    """One conversion; a value that contains itself or is nested too deeply becomes a handle."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles
        self._outer: set[int] = set()

    def convert(self, value: Any) -> Any:
        kind = type(value)
        if kind in SAME:
            return value
        try:
            if isinstance(value, (list, tuple, dict, set, frozenset)) or _is_composite(value):
                return self._inside(value)
            return scalar(value)
        except STOPS:
            raise
        except Exception:  # noqa: BLE001  (a user's object may raise anything)
            return self._handles.wrapped(value)

    def _inside(self, value: Any) -> Any:
        if id(value) in self._outer or len(self._outer) >= _MAX_DEPTH:
            raise Opaque
        self._outer.add(id(value))
        try:
            return self._composite(value)
        finally:
            self._outer.discard(id(value))

    def _composite(self, value: Any) -> Any:
        kind = type(value)
        if kind in SEQUENCES:
            if len(value) > MAX_ITEMS:
                raise Opaque
            return SEQUENCES[kind](map(self._item, value))
        if kind in MAPPINGS:
            if len(value) > MAX_ITEMS:
                raise Opaque
            return {self._item(key): self._item(each) for key, each in value.items()}
        if is_named_tuple(kind):
            return tuple.__new__(kind, map(self._item, tuple.__iter__(value)))
        fields = record_of(value)
        if fields is None:
            raise Opaque
        return self._handles.wrapped(value, {name: self._item(fields[name]) for name in fields})

    def _item(self, value: Any) -> Any:
        if id(value) in self._outer:
            raise Opaque
        return self.convert(value)


def _is_composite(value: Any) -> bool:
    kind = type(value)
    return kind in SEQUENCES or kind in MAPPINGS or record_of(value) is not None


def is_named_tuple(kind: type) -> bool:
    """Whether these are tuples with named fields."""
    names = getattr(kind, "_fields", None)
    is_tuple = issubclass(kind, tuple) and isinstance(names, tuple)
    return is_tuple and all(isinstance(each, str) for each in names or ())


def record_of(value: Any) -> dict[str, Any] | None:
    """The public fields of a dataclass, a pydantic model or an attrs class; None for others."""
    kind = type(value)
    names: Any = None
    if dataclasses.is_dataclass(kind):
        names = [each.name for each in dataclasses.fields(kind)]
    elif _is_model(kind):
        names = list(kind.__pydantic_fields__)
    elif isinstance(getattr(kind, "__attrs_attrs__", None), tuple):
        names = [each.name for each in kind.__attrs_attrs__]
    if names is None:
        return None
    return {name: getattr(value, name) for name in names if not name.startswith("_")}


def _is_model(kind: type) -> bool:
    is_pydantic = any(
        each.__name__ == "BaseModel" and each.__module__.startswith("pydantic.")
        for each in kind.__mro__
    )
    return is_pydantic and isinstance(getattr(kind, "__pydantic_fields__", None), dict)


def scalar(value: Any) -> Any:
    """A single value as Python's own; raises `Opaque` if there is none, or something is lost."""
    try:
        return _exact(value)
    except (Opaque, *STOPS):
        raise
    except Exception as error:  # a user's object may raise any exception
        raise Opaque from error


def _exact(value: Any) -> Any:
    kind = type(value)
    if isinstance(value, enum.Enum):
        return _exact(value.name if is_by_name(kind) else value.value)
    if kind is Rendered:
        return value.text
    root = kind.__module__.partition(".")[0]
    if root == "pandas":
        return _of_pandas(value)
    if is_scalar(value):
        return _of_numpy(value)
    if kind is bytearray:
        return bytes(value)
    if kind is dt.datetime:
        return _datetime(value)
    if kind is dt.time:
        return _time(value)
    if kind in SAME:
        return value
    return _content(value)


def _content(value: Any) -> Any:
    """The text or number in an object of a subclass, whatever its methods return."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise Opaque


def _of_pandas(value: Any) -> Any:
    if type(value).__name__ in _NO_VALUE:
        return None
    if type(value).__name__ == "Timestamp" and value.nanosecond == 0:
        return _datetime(value.to_pydatetime())
    if type(value).__name__ == "Timedelta" and value.nanoseconds == 0:
        return value.to_pytimedelta()
    raise Opaque


def _of_numpy(value: Any) -> Any:
    letter = value.dtype.kind
    if letter in "mM":
        if value != value:  # noqa: PLR0124  (NaT)
            return None
        exact = value.astype(f"{value.dtype.name.partition('[')[0]}[us]")
        item = exact.item()
        is_whole = isinstance(item, (dt.datetime, dt.timedelta)) and exact == value
        if not is_whole:
            raise Opaque
        is_date = letter == "M" and isinstance(value.item(), dt.date)
        return value.item() if is_date else item
    item = value.item()
    if type(item) in SAME:
        return item
    raise Opaque


def _datetime(value: dt.datetime) -> dt.datetime:
    """The same moment with a fixed offset, because the sandbox has no rules of time zones."""
    offset = value.utcoffset()
    if offset is None:
        return value.replace(tzinfo=None, fold=0)
    return value.replace(tzinfo=dt.timezone(offset), fold=0)


def _time(value: dt.time) -> dt.time:
    offset = value.utcoffset()
    if offset is None and value.tzinfo is not None:  # the offset depends on the day
        raise Opaque
    return value.replace(tzinfo=None if offset is None else dt.timezone(offset), fold=0)


# ── out of the sandbox ────────────────────────────────────────────────────────────────────────────


def from_sandbox(value: Any, handles: Handles) -> Any:
    """The value from a program, with the objects themselves in place of their handles."""
    if handles.holds(value):
        return value
    kind = type(value)
    if kind is str:
        return handles.in_words(value)
    if kind is MontyClassProxy:
        try:
            return handles.object_of(value)
        except KeyError:  # an instance of a class of the program
            fields = value.attributes
            return {name: from_sandbox(each, handles) for name, each in fields.items()}
    if kind in (list, set, frozenset, tuple):
        return kind(from_sandbox(each, handles) for each in value)
    if kind is dict:
        return {
            from_sandbox(key, handles): from_sandbox(each, handles) for key, each in value.items()
        }
    if is_named_tuple(kind):
        return tuple.__new__(kind, [from_sandbox(each, handles) for each in value])
    return value
