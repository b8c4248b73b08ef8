"""A call of a program as the input of a tool: JSON, from which the tool reads the same values."""

from __future__ import annotations

import datetime as dt
import math
import uuid
from collections.abc import Callable, Mapping, Sequence
from decimal import Decimal
from pathlib import PurePath
from typing import Any

from archytas_nb.loop.events import Json, ProgramCall
from archytas_nb.sandbox.handles import Handles
from archytas_nb.sandbox.values import (
    MAPPINGS,
    SEQUENCES,
    Opaque,
    is_named_tuple,
    record_of,
    scalar,
)
from archytas_nb.tools.tool import Tool
from archytas_nb.words import did_you_mean, truncate_line, with_article

_MAX_INT_BITS = 14_000  # about 4,200 digits
_AS_TEXT = (uuid.UUID, PurePath)  # pydantic reads them from their text


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────


def call_of(
    tool: Tool, args: Sequence[Any], given: Mapping[str, Any], handles: Handles, line: int
) -> ProgramCall:
    """The tool call for a call in a program.

    Args:
        tool: The tool that is called.
        args: The positional arguments, as `from_sandbox` returned them.
        given: The keyword arguments.
        handles: The objects that the sandbox refers to.
        line: The line of the call.

    Raises:
        TypeError: The arguments do not fit the signature, or one cannot be passed.
    """
    sent: dict[str, Json] = {}
    objects: dict[str, Any] = {}
    types = {each.name: each.type for each in tool.parameters}
    values = _by_name(tool, args, given)
    for rest in (each for each in tool.parameters if each.is_rest):
        types |= {name: rest.type for name in values if name not in types}
    for name, value in values.items():
        kind = types[name]
        takes_objects = kind.by_reference or kind.is_open
        if takes_objects and not _is_json(value):
            objects[name] = value
        opaque = _refused
        if takes_objects:
            opaque = handles.reference
        try:
            sent[name] = as_input(value, opaque, by_fields=not kind.by_reference)
        except TypeError as error:
            if not kind.is_open:
                text = f"the argument {name!r} of {tool.name}: {error}"
                raise TypeError(text) from None
            sent[name] = handles.reference(value)
            objects[name] = value
    return ProgramCall(tool.name, sent, line, objects, values)


def _by_name(tool: Tool, args: Sequence[Any], given: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments by name; the TypeError that Python raises if they do not fit the parameters."""
    # The words are those of Python, from which a model has learnt to correct a call.
    visible = [each for each in tool.parameters if not each.injected]
    has_rest = any(each.is_rest for each in visible)
    visible = [each for each in visible if not each.is_rest]
    names = [each.name for each in visible]
    if len(args) > len(names):
        raise TypeError(f"{tool.name}() takes {len(names)} arguments, but {len(args)} were given")
    values = dict(zip(names, args, strict=False))
    for name in given:
        if name not in names and not has_rest:
            guess = did_you_mean(name, names)
            raise TypeError(f"{tool.name}() got an unexpected keyword argument {name!r}{guess}")
        if name in values:
            raise TypeError(f"{tool.name}() got the argument {name!r} twice")
    values.update(given)
    missing = [each.name for each in visible if not each.optional and each.name not in values]
    if missing:
        what = "argument"
        if len(missing) > 1:
            what = "arguments"
        raise TypeError(f"{tool.name}() missing {what}: {', '.join(map(repr, missing))}")
    return values


def _refused(value: Any) -> Json:
    what = with_article(type(value).__name__)
    raise TypeError(f"{what} cannot be given here: expected a value")


def _is_json(value: Any) -> bool:
    """Whether JSON can express exactly this value."""
    try:
        return _has_json(value)
    except RecursionError:
        # It contains itself, or is nested too deeply.
        return False


def _has_json(value: Any) -> bool:
    kind = type(value)
    if kind is float:
        return math.isfinite(value)
    if kind is list:
        return all(map(_has_json, value))
    if kind is dict:
        return all(type(key) is str for key in value) and all(map(_has_json, value.values()))
    return kind in (type(None), bool, int, str)


# ── values ────────────────────────────────────────────────────────────────────────────────────────


def as_input(value: Any, opaque: Callable[[Any], Json], *, by_fields: bool = True) -> Json:
    """A value of a program as JSON, from which the validation of a tool reads the same value.

    Args:
        value: A value of `from_sandbox`.
        opaque: Returns the JSON for an object that has no form in JSON.
        by_fields: Whether a record is passed by its fields; otherwise it is passed as an object.

    Raises:
        TypeError: JSON cannot express the value; the message says what to pass instead.
    """
    try:
        return _json(value, opaque, by_fields)
    except RecursionError:
        raise TypeError("the value contains itself, or is nested too deeply to be passed") from None


def _json(value: Any, opaque: Callable[[Any], Json], by_fields: bool) -> Json:  # noqa: FBT001
    kind = type(value)
    if kind in _AS_JSON:
        return _AS_JSON[kind](value)
    if kind in SEQUENCES:
        return [_json(each, opaque, by_fields) for each in value]
    if kind in MAPPINGS:
        return {_key(key): _json(each, opaque, by_fields) for key, each in value.items()}
    if is_named_tuple(kind):
        pairs = zip(kind._fields, value, strict=True)
        return {name: _json(each, opaque, by_fields) for name, each in pairs}
    if not by_fields:
        return opaque(value)
    fields = record_of(value)
    if fields is not None:
        return {name: _json(each, opaque, by_fields) for name, each in fields.items()}
    if isinstance(value, _AS_TEXT):
        return str(value)
    try:
        plain = scalar(value)
    except Opaque:
        return opaque(value)
    return _json(plain, opaque, by_fields)


def _text_of(value: bytes | bytearray) -> str:
    try:
        return value.decode()
    except UnicodeDecodeError:
        shown = truncate_line(repr(bytes(value)), 60)
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
    if value.bit_length() > _MAX_INT_BITS:
        # Python refuses to write longer ones.
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
            f"a dict with the key {truncate_line(repr(key), 60)} cannot be passed to a tool:"
            " expected keys that are text, numbers or dates"
        )
    if key is None or key is True or key is False:
        return str(key).lower()
    return str(make(key))
