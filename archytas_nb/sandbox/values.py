"""The values that cross the border of the sandbox, by an exact table of types.

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
import itertools
import math
import types
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from decimal import Decimal
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from pydantic_monty import ClassInstance, ClassType, MontyClassProxy

from archytas_nb.loop.events import Json
from archytas_nb.tools.annotation import is_by_name
from archytas_nb.tools.data import STOPS, is_scalar
from archytas_nb.tools.variables import VAR, name_of
from archytas_nb.words import escape, shorten, with_article

if TYPE_CHECKING:
    from archytas_nb.tools.tool import Tool

MAX_ITEMS = 10_000
"""A container with more items becomes a handle."""

MAX_SHORT = 200
"""Maximum number of characters of a value that the model reads."""

_MAX_DEPTH = 100
_MAX_INT_BITS = 14_000  # about 4,200 digits
_SAME = frozenset({type(None), bool, int, float, str, bytes, Decimal, dt.date, dt.timedelta})
_SEQUENCES: dict[type, type] = {
    list: list, tuple: tuple, set: set, frozenset: frozenset, range: list,
    collections.deque: list, type({}.keys()): list, type({}.values()): list,
    type({}.items()): list,
}  # fmt: skip
_MAPPINGS = frozenset(
    {
        dict,
        collections.OrderedDict,
        collections.defaultdict,
        collections.Counter,
        collections.ChainMap,
        types.MappingProxyType,
    }
)
_AS_TEXT = (uuid.UUID, PurePath)  # pydantic reads them from their text
_NO_VALUE = frozenset({"NaTType", "NAType"})


class _Opaque(Exception):
    """A value does not cross: it stays outside, and the sandbox gets a handle."""


# ── handles ───────────────────────────────────────────────────────────────────────────────────────


class Handles:
    """The objects that the sandbox has handles for, and the names under which tools get them.

    An object keeps one handle for as long as the table exists, so that it stays equal to itself.

    Attributes:
        kept: Objects that are not variables of the user, by the name that a call gives for them.
    """

    def __init__(self, namespace: Mapping[str, Any] | None = None) -> None:
        self.kept: dict[str, Any] = {}
        self._namespace: Mapping[str, Any] = {} if namespace is None else namespace
        self._by_id: dict[uuid.UUID, Any] = {}
        self._ids: dict[int, uuid.UUID] = {}  # of objects that `_by_id` keeps alive
        self._types: dict[type, ClassType] = {}

    def wrapped(self, value: Any, fields: Mapping[str, Any] | None = None) -> ClassInstance:
        """A handle for an object, or a record with these fields; nothing else can be reached."""
        key = self._ids.get(id(value))
        if key is None:
            key = uuid.uuid4()
            self._ids[id(value)] = key
            self._by_id[key] = value
        if fields is None:  # objects are equal there if their fields are
            fields = {"_handle": key.hex}
        return _Wrapped(value, key, self._type(type(value)), fields)

    def _type(self, cls: type) -> ClassType:
        # An id for each class: two classes of one name, such as those of a cell that was run twice,
        # would share one, and the sandbox refuses the second.
        if cls not in self._types:
            self._types[cls] = ClassType(cls, id=uuid.uuid4())
        return self._types[cls]

    def object_of(self, proxy: MontyClassProxy) -> Any:
        """The object of a handle that was restored with a session; KeyError if there is none."""
        return self._by_id[proxy.id]

    def holds(self, value: Any) -> bool:
        """Whether the sandbox has a handle or a record of this object."""
        return id(value) in self._ids

    def name(self, value: Any) -> str:
        """The variable that holds an object; one that is no variable is kept under a new name."""
        found = name_of(value, self._namespace) or name_of(value, self.kept)
        if found:
            return found
        stem = "".join(each if each.isalnum() else "_" for each in type(value).__name__).strip("_")
        for number in itertools.count(1):
            found = f"{stem or 'object'}_{number}"
            if found not in self._namespace and found not in self.kept:
                break
        self.kept[found] = value
        return found

    def __getitem__(self, name: str) -> Any:
        """The object that a call names; KeyError if there is none."""
        return self.kept[name] if name in self.kept else self._namespace[name]

    def copy(self, namespace: Mapping[str, Any] | None = None) -> Handles:
        """A table with the same handles, to go back to; with other variables if they are given."""
        other = Handles(self._namespace if namespace is None else namespace)
        other.kept = dict(self.kept)
        other._by_id = dict(self._by_id)
        other._ids = dict(self._ids)
        other._types = dict(self._types)
        return other


class _Wrapped(ClassInstance):
    """An object of which the sandbox can reach only the fields that were converted for it."""

    def __init__(
        self, value: Any, key: uuid.UUID, class_type: ClassType, fields: Mapping[str, Any]
    ) -> None:
        super().__init__(value, id=key, class_type=class_type)
        self._fields = fields

    def get_eager_attrs(self) -> dict[str, Any]:
        return dict(self._fields)


# ── into the sandbox ──────────────────────────────────────────────────────────────────────────────


def to_sandbox(value: Any, handles: Handles) -> Any:
    """The value as the sandbox gets it; what is not in the table becomes a handle."""
    return _Crossing(handles).convert(value)


class _Crossing:
    """One conversion; what contains itself or is nested too deeply becomes a handle."""

    def __init__(self, handles: Handles) -> None:
        self._handles = handles
        self._outer: set[int] = set()

    def convert(self, value: Any) -> Any:
        kind = type(value)
        if kind in _SAME:
            return value
        try:
            if isinstance(value, (list, tuple, dict, set, frozenset)) or _is_composite(value):
                return self._inside(value)
            return _scalar(value)
        except STOPS:
            raise
        except Exception:  # noqa: BLE001  (a user's object may raise anything)
            return self._handles.wrapped(value)

    def _inside(self, value: Any) -> Any:
        if id(value) in self._outer or len(self._outer) >= _MAX_DEPTH:
            raise _Opaque
        self._outer.add(id(value))
        try:
            return self._composite(value)
        finally:
            self._outer.discard(id(value))

    def _composite(self, value: Any) -> Any:
        kind = type(value)
        if kind in _SEQUENCES:
            if len(value) > MAX_ITEMS:
                raise _Opaque
            return _SEQUENCES[kind](map(self._item, value))
        if kind in _MAPPINGS:
            if len(value) > MAX_ITEMS:
                raise _Opaque
            return {self._item(key): self._item(each) for key, each in value.items()}
        if _is_named_tuple(kind):
            return tuple.__new__(kind, map(self._item, tuple.__iter__(value)))
        fields = _fields(value)
        if fields is None:
            raise _Opaque
        return self._handles.wrapped(value, {name: self._item(fields[name]) for name in fields})

    def _item(self, value: Any) -> Any:
        if id(value) in self._outer:
            raise _Opaque
        return self.convert(value)


def _is_composite(value: Any) -> bool:
    kind = type(value)
    return kind in _SEQUENCES or kind in _MAPPINGS or _fields(value) is not None


def _is_named_tuple(kind: type) -> bool:
    names = getattr(kind, "_fields", None)
    is_tuple = issubclass(kind, tuple) and isinstance(names, tuple)
    return is_tuple and all(isinstance(each, str) for each in names or ())


def _fields(value: Any) -> dict[str, Any] | None:
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


def _scalar(value: Any) -> Any:
    """A single value as Python's own; raises `_Opaque` if there is none, or something is lost."""
    try:
        return _exact(value)
    except (_Opaque, *STOPS):
        raise
    except Exception as error:  # a user's object may raise anything
        raise _Opaque from error


def _exact(value: Any) -> Any:
    kind = type(value)
    if isinstance(value, enum.Enum):
        return _exact(value.name if is_by_name(kind) else value.value)
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
    if kind in _SAME:
        return value
    return _content(value)


def _content(value: Any) -> Any:
    """What an object of a subclass is as text or as a number, whatever its methods say."""
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return int.__int__(value)
    if isinstance(value, float):
        return float.__float__(value)
    raise _Opaque


def _of_pandas(value: Any) -> Any:
    if type(value).__name__ in _NO_VALUE:
        return None
    if type(value).__name__ == "Timestamp" and value.nanosecond == 0:
        return _datetime(value.to_pydatetime())
    if type(value).__name__ == "Timedelta" and value.nanoseconds == 0:
        return value.to_pytimedelta()
    raise _Opaque


def _of_numpy(value: Any) -> Any:
    letter = value.dtype.kind
    if letter in "mM":
        if value != value:  # noqa: PLR0124  (NaT)
            return None
        exact = value.astype(f"{value.dtype.name.partition('[')[0]}[us]")
        item = exact.item()
        is_whole = isinstance(item, (dt.datetime, dt.timedelta)) and exact == value
        if not is_whole:
            raise _Opaque
        is_date = letter == "M" and isinstance(value.item(), dt.date)
        return value.item() if is_date else item
    item = value.item()
    if type(item) in _SAME:
        return item
    raise _Opaque


def _datetime(value: dt.datetime) -> dt.datetime:
    """The same moment with the offset of its zone, which the sandbox has no rules for."""
    offset = value.utcoffset()
    if offset is None:
        return value.replace(tzinfo=None, fold=0)
    return value.replace(tzinfo=dt.timezone(offset), fold=0)


def _time(value: dt.time) -> dt.time:
    offset = value.utcoffset()
    if offset is None and value.tzinfo is not None:  # the offset depends on the day
        raise _Opaque
    return value.replace(tzinfo=None if offset is None else dt.timezone(offset), fold=0)


# ── out of the sandbox ────────────────────────────────────────────────────────────────────────────


def from_sandbox(value: Any, handles: Handles) -> Any:
    """The value that a program gave, with the objects themselves in place of their handles."""
    if handles.holds(value):
        return value
    kind = type(value)
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
    if _is_named_tuple(kind):
        return tuple.__new__(kind, [from_sandbox(each, handles) for each in value])
    return value


def as_input(value: Any, handles: Handles, *, by_reference: bool | None = None) -> Json:
    """A value of a program as JSON, from which the validation of a tool reads the same value.

    Args:
        value: As `from_sandbox` gave it.
        handles: The table of the session.
        by_reference: Whether objects are given by their names, records too (True), or are refused
            (False); with None, they are named, and records are given by their fields.

    Raises:
        TypeError: JSON has no such value; the message says what to pass in its place.
    """
    try:
        return _json(value, handles, by_reference)
    except RecursionError:
        raise TypeError("the value contains itself, or is nested too deeply to be passed") from None


def _json(value: Any, handles: Handles, by_reference: bool | None) -> Json:  # noqa: FBT001
    kind = type(value)
    if kind in _AS_JSON:
        return _AS_JSON[kind](value)
    if kind in _SEQUENCES:
        return [_json(each, handles, by_reference) for each in value]
    if kind in _MAPPINGS:
        return {_key(key): _json(each, handles, by_reference) for key, each in value.items()}
    if _is_named_tuple(kind):
        pairs = zip(kind._fields, value, strict=True)
        return {name: _json(each, handles, by_reference) for name, each in pairs}
    if by_reference:
        return {VAR: handles.name(value)}
    fields = _fields(value)
    if fields is not None:
        return {name: _json(each, handles, by_reference) for name, each in fields.items()}
    if isinstance(value, _AS_TEXT):
        return str(value)
    try:
        plain = _scalar(value)
    except _Opaque:
        if by_reference is None:
            return {VAR: handles.name(value)}
        what = with_article(kind.__name__)
        raise TypeError(f"{what} cannot be given here: expected a value") from None
    return _json(plain, handles, by_reference)


def _text_of(value: bytes | bytearray) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        shown = shorten(repr(bytes(value)), 60)
        raise TypeError(f"{shown} cannot be passed to a tool: expected UTF-8 text") from None


def _duration(value: dt.timedelta) -> str:
    """ISO 8601, such as ``-P1DT2.500000S``."""
    sign = "-" if value < dt.timedelta(0) else ""
    size = abs(value)
    return f"{sign}P{size.days}DT{size.seconds}.{size.microseconds:06}S"


def _float(value: float) -> Json:
    return value if math.isfinite(value) else str(value)


def _isoformat(value: dt.date | dt.time) -> str:
    return value.isoformat()


def _same(value: Any) -> Json:
    same: Json = value
    return same


def _int(value: int) -> int:
    if value.bit_length() > _MAX_INT_BITS:  # Python refuses to write longer ones
        raise TypeError("the number has too many digits to be passed: pass a text, or less of it")
    return value


_AS_JSON: dict[type, Callable[[Any], Json]] = {
    type(None): _same, bool: _same, int: _int, str: _same, float: _float, Decimal: str,
    bytes: _text_of, bytearray: _text_of, dt.timedelta: _duration,
    dt.date: _isoformat, dt.datetime: _isoformat, dt.time: _isoformat,
}  # fmt: skip


def _key(key: Any) -> str:
    """The key of a dict as text, from which a tool reads the key again."""
    make = _AS_JSON.get(type(key))
    if make is None:
        raise TypeError(
            f"a dict with the key {shorten(repr(key), 60)} cannot be passed to a tool:"
            " expected keys that are text, numbers or dates"
        )
    if key is None or key is True or key is False:
        return str(key).lower()
    return str(make(key))


def tool_input(tool: Tool, args: Sequence[Any], given: Mapping[str, Any], handles: Handles) -> Json:
    """The input of a tool for a call as Python writes it, with positional arguments by their names.

    Args:
        tool: The tool that is called.
        args: The positional arguments, as `from_sandbox` gave them.
        given: The keyword arguments.
        handles: The table of the session.

    Raises:
        TypeError: The arguments do not fit the signature, or one cannot be passed.
    """
    visible = [each for each in tool.parameters if not each.injected]
    if len(args) > len(visible):
        raise TypeError(f"{tool.name}() takes {len(visible)} arguments, but {len(args)} were given")
    values = {each.name: value for each, value in zip(visible, args, strict=False)}
    for name in given:
        if name in values:
            raise TypeError(f"{tool.name}() got the argument {name!r} twice")
    values.update(given)
    by_reference = {each.name: each.type.by_reference for each in visible}
    sent: dict[str, Json] = {}
    for name, value in values.items():
        try:
            sent[name] = as_input(value, handles, by_reference=by_reference.get(name, False))
        except TypeError as error:
            raise TypeError(f"the argument {name!r} of {tool.name}: {error}") from None
    return sent


# ── for the model ─────────────────────────────────────────────────────────────────────────────────


def short(value: Any) -> str:
    """A repr of at most 200 characters, on one line, of a value that a program gave."""
    text = _Repr(MAX_SHORT).text(value)
    return shorten(escape(text), MAX_SHORT)


class _Repr:
    """A repr by the table of types; of an object only its type and its fields are named."""

    def __init__(self, size: int) -> None:
        self._left = size  # characters that are still worth writing
        self._depth = 0

    def text(self, value: Any) -> str:
        if self._left <= 0 or self._depth > 20:
            return "…"
        self._depth += 1
        try:
            text = self._text(value)
        except STOPS:
            raise
        except Exception:  # noqa: BLE001  (a user's object may raise anything)
            text = f"<{type(value).__name__}>"
        self._depth -= 1
        return text

    def _written(self, text: str) -> str:
        self._left -= len(text)
        return text

    def _text(self, value: Any) -> str:
        kind = type(value)
        if kind in (str, bytes):
            return self._written(repr(value[: MAX_SHORT + 1]))
        if kind is int and value.bit_length() > 4 * MAX_SHORT:  # int to text is slow, and limited
            return self._written(f"{hex(value)[:MAX_SHORT]}…")
        if kind in _SAME or kind in (dt.datetime, dt.time):
            return self._written(repr(value))
        if kind in _MAPPINGS:
            pairs = (f"{self.text(key)}: {self.text(each)}" for key, each in value.items())
            return f"{{{self._joined(pairs)}}}"
        if kind in _SEQUENCES:
            return self._sequence(value)
        if _is_named_tuple(kind):
            fields: Any = dict(zip(kind._fields, value, strict=True))
        else:
            fields = _fields(value)
        if fields is None:
            return self._other(value)
        pairs = (f"{name}={self.text(each)}" for name, each in fields.items())
        return f"{kind.__name__}({self._joined(pairs)})"

    def _other(self, value: Any) -> str:
        try:
            plain = _scalar(value)
        except _Opaque:
            size = getattr(value, "shape", None)
            what = f" of shape {size}" if type(size) is tuple else ""
            return self._written(f"<{type(value).__name__}{what}>")
        return self.text(plain)

    def _sequence(self, value: Any) -> str:
        kind = _SEQUENCES[type(value)]
        text = self._joined(self.text(each) for each in value)
        if kind is tuple:
            return f"({text},)" if len(value) == 1 else f"({text})"
        if kind is list:
            return f"[{text}]"
        inside = f"{{{text}}}" if value else ""
        if kind is set and value:
            return inside
        return f"{kind.__name__}({inside})"

    def _joined(self, texts: Iterable[str]) -> str:
        """Items, until there is no space left."""
        written = []
        for each in texts:
            written.append(each)
            if self._left <= 0:
                break
        return ", ".join(written)
