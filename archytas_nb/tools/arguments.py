"""Validate what a model sent as ``tool_input``, and word each fault of it as ``reason @ $.path``.

What a model certainly meant is read: JSON in a string, an enum's member by its name, null for "left
out". A value that is fine where it is, is never touched. What pydantic accepts but the schema does
not say (unknown fields, a boolean for a number, a number for a date) is refused.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from archytas_nb.tools.annotation import ENUM, is_by_name
from archytas_nb.tools.names import a, did_you_mean, referred, shorten
from archytas_nb.tools.schema import ArgumentType, branches_of, choices_of, ref_name
from archytas_nb.tools.signature import Parameter

Path = tuple[str | int, ...]
Result = tuple[dict[str, Any], tuple["Fault", ...]]

MAX_FAULTS = 10
"""How many faults of a call the model reads."""

_LONGEST = 400  # characters of one reason
_NOTHING = ("", "{}", "null", "None", "none")
_LONG_NUMBER = re.compile(r"\d{300}")
_KINDS: dict[type, tuple[str, tuple[str, ...]]] = {
    type(None): ("", ("null",)),
    bool: ("a boolean", ("boolean",)),
    int: ("a number", ("integer", "number")),
    float: ("a number", ("number",)),
    str: ("a string", ("string",)),
    list: ("an array", ("array",)),
    dict: ("an object", ("object",)),
}
"""What a JSON value is called, and the types of a schema that are its own."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a call; written as ``reason @ $.path``."""

    reason: str
    path: Path = ()

    def __str__(self) -> str:
        return f"{shorten(self.reason, _LONGEST)} @ {shorten(_path_text(self.path), _LONGEST)}"


def listed(faults: Sequence[Fault]) -> list[str]:
    """The first faults as text, and how many there are more."""
    more = len(faults) - MAX_FAULTS
    return [*map(str, faults[:MAX_FAULTS]), *([f"… and {more:,} more faults"] if more > 0 else [])]


def _path_text(path: Iterable[str | int]) -> str:
    text = "$"
    for step in path:
        if isinstance(step, str) and step.isidentifier():
            text += f".{step}"
        else:
            text += f"[{json.dumps(step, ensure_ascii=False)}]"
    return text


def _received(value: Any) -> str:
    """What came, short, with its JSON type: ``"abc" (a string)``."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"received a {type(value).__name__}"
    text = shorten(text, 80)
    kind, _ = _KINDS.get(type(value), ("", ()))
    return f"received {text} ({kind})" if kind else f"received {text}"


# ── all arguments ─────────────────────────────────────────────────────────────────────────────────


def read(
    parameters: Sequence[Parameter], tool_input: Any, namespace: Mapping[str, Any] | None
) -> Result:
    """Read the input of a tool.

    Args:
        parameters: The arguments that the model sets.
        tool_input: Decoded JSON, as the model sent it; in a call by hand also live objects.
        namespace: Where references are looked up.

    Returns:
        Typed values by name, those left out absent, and no faults; or no values and all faults.
    """
    if not parameters:
        return _none(tool_input)
    if len(parameters) == 1:
        return _one(parameters[0], tool_input, namespace)
    return _fields(parameters, tool_input, namespace)


def _none(tool_input: Any) -> Result:
    is_blank = isinstance(tool_input, str) and tool_input.strip() in _NOTHING
    if tool_input is None or is_blank or tool_input in ({}, []):
        return {}, ()
    if isinstance(tool_input, dict):
        reason = "unknown argument {!r}: this tool takes none, send null"
        return {}, tuple(Fault(reason.format(key), (str(key),)) for key in tool_input)
    return {}, (Fault(f"this tool takes no arguments, send null; {_received(tool_input)}"),)


def _one(parameter: Parameter, tool_input: Any, namespace: Mapping[str, Any] | None) -> Result:
    """Read the input of a tool with one argument: bare, or under the argument's name."""
    name, kind = parameter.name, parameter.type
    if isinstance(tool_input, str) and not parameter.simple:
        opened = _opened(tool_input)
        if isinstance(opened, dict) and set(opened) == {name}:
            tool_input = opened
    wrapped = isinstance(tool_input, dict) and set(tool_input) == {name}
    if wrapped or (tool_input is None and not kind.admits_none):
        values, faults = _fields((parameter,), tool_input, namespace)
        if not faults or not wrapped:
            return values, faults
        value, bare_faults = read_value(kind, tool_input, namespace)  # a dict may have this key
        return ({}, faults) if bare_faults else ({name: value}, ())
    if isinstance(tool_input, dict) and not tool_input and parameter.optional:
        return {}, ()
    path = () if parameter.simple else (name,)
    value, faults = read_value(kind, tool_input, namespace, path)
    if not faults:
        return {name: value}, ()
    is_structured = kind.schema.get("type") == "object" or kind.schema.keys() & {"$ref", "anyOf"}
    if isinstance(tool_input, dict) and (name in tool_input or not is_structured):
        return _fields((parameter,), tool_input, namespace)
    return {}, faults


def _fields(
    parameters: Sequence[Parameter], tool_input: Any, namespace: Mapping[str, Any] | None
) -> Result:
    """Read an object with a field for each argument."""
    names = [each.name for each in parameters]
    if isinstance(tool_input, str):
        opened = {} if tool_input.strip() in _NOTHING else _opened(tool_input)
        tool_input = opened if isinstance(opened, dict) else tool_input
    tool_input = {} if tool_input is None else tool_input
    if not isinstance(tool_input, dict):
        known = ", ".join(f'"{name}"' for name in names)
        return {}, (Fault(f"expected an object with the fields {known}; {_received(tool_input)}"),)
    values: dict[str, Any] = {}
    faults: list[Fault] = []
    for each in parameters:
        name, kind = each.name, each.type
        if name in tool_input and (tool_input[name] is not None or kind.admits_none):
            values[name], found = read_value(kind, tool_input[name], namespace, (name,))
            faults += found
        elif not each.optional:
            why = "null is no value here" if name in tool_input else "missing"
            faults.append(Fault(f"{why}, expected {kind.text}", (name,)))
    unknown = [key for key in tool_input if key not in names]
    faults += [_unknown("argument", key, tool_input, names) for key in unknown]
    return ({}, tuple(faults)) if faults else (values, ())


def _unknown(
    what: str, key: Any, given: Mapping[Any, Any], names: Collection[str], path: Path = ()
) -> Fault:
    left = [name for name in names if name not in given]
    guess = did_you_mean(str(key), left or names) or ","
    known = ", ".join(f'"{name}"' for name in names) or "none"
    return Fault(f"unknown {what} {key!r}{guess} expected {known}", (*path, str(key)))


# ── one value ─────────────────────────────────────────────────────────────────────────────────────


def read_value(
    kind: ArgumentType, sent: Any, namespace: Mapping[str, Any] | None = None, path: Path = ()
) -> tuple[Any, tuple[Fault, ...]]:
    """The typed value and no faults, or None and at least one."""
    walk = _Walk(kind.marked.get("$defs", {}))
    result = None
    try:
        value = walk.read(sent, kind.marked, path)
        try:
            result = _validated(kind, value, namespace)
        except ValidationError as error:
            known = {fault.path for fault in walk.faults}
            explained = _explained(error, value, path)
            walk.faults += [each for each in explained if each.path not in known]
    except RecursionError:
        return None, (Fault("the value is nested too deeply", path),)
    if not walk.faults:
        return result, ()
    name = sent if isinstance(sent, str) and sent in (namespace or {}) else referred(sent)
    if name is not None and not kind.by_reference:  # handles are offered by their names
        reason = f"names of variables such as {name!r} are not accepted here"
        return None, (Fault(f"{reason}: send {a(kind.text)} itself; {_received(sent)}", path),)
    return None, tuple(walk.faults)


def _validated(kind: ArgumentType, value: Any, namespace: Mapping[str, Any] | None) -> Any:
    """Validate as JSON where it can be written as such: a strict type takes a date's text then."""
    try:
        text = json.dumps(value)
        if not _LONG_NUMBER.search(text):  # pydantic would round it to infinity
            return kind.adapter.validate_json(text, context=namespace)
    except ValidationError as error:
        if error.errors(include_url=False)[0]["type"] != "json_invalid":
            raise  # half a surrogate pair is legal in Python's JSON, and not in pydantic's
    except (TypeError, ValueError):  # a live object, or a number with too many digits for text
        pass
    return kind.adapter.validate_python(value, context=namespace)


# ── value and schema ──────────────────────────────────────────────────────────────────────────────

_DATES = {
    "date-time": ("a date and time", "2024-01-31T10:30:00"),
    "date": ("a date", "2024-01-31"),
    "time": ("a time", "10:30:00"),
    "duration": ("a duration", "PT1H30M"),
}
_NUMBERS = {"integer": "expected an integer", "number": "expected a number"}


class _Walk:
    """Walks over value and schema: reads what is certainly meant, refuses what pydantic accepts."""

    def __init__(self, defs: Mapping[str, Any]) -> None:
        self.faults: list[Fault] = []
        self._defs = defs

    def read(self, value: Any, schema: Mapping[str, Any], path: Path) -> Any:
        """The value, or a copy with what can be read in another way."""
        schema = self._resolved(schema)
        if branches := branches_of(schema):
            return self._union(value, [self._resolved(each) for each in branches], path)
        value = _meant(value, schema)
        if reason := _contrary(value, schema):
            self.faults.append(Fault(f"{reason}; {_received(value)}", path))
        elif isinstance(value, dict):
            return self._object(value, schema, path)
        elif isinstance(value, list):
            first, rest = schema.get("prefixItems", ()), schema.get("items")
            kinds = [first[at] if at < len(first) else rest for at in range(len(value))]
            return [
                self.read(each, kind, (*path, at)) if isinstance(kind, dict) else each
                for at, (each, kind) in enumerate(zip(value, kinds, strict=True))
            ]
        return value

    def _resolved(self, schema: Mapping[str, Any]) -> Mapping[str, Any]:
        while "$ref" in schema:
            schema = self._defs.get(ref_name(schema), {})
        return schema

    def _object(self, value: dict[Any, Any], schema: Mapping[str, Any], path: Path) -> Any:
        fields, other = schema.get("properties", {}), schema.get("additionalProperties")
        is_open = "properties" not in schema or other or "patternProperties" in schema
        better = {}
        for key, each in value.items():
            kind, required = fields.get(key, other), key in schema.get("required", ())
            if not isinstance(kind, dict):
                better[key] = each
                if not is_open:
                    self.faults.append(_unknown("field", key, value, fields, path))
            elif each is not None or required or self._takes_null(kind):  # else it is left out
                better[key] = self.read(each, kind, (*path, key))
        return better

    def _takes_null(self, schema: Mapping[str, Any]) -> bool:
        schema = self._resolved(schema)
        branches = branches_of(schema) or [schema]
        return any(_is_kind(None, self._resolved(each)) for each in branches)

    def _union(self, value: Any, branches: list[Mapping[str, Any]], path: Path) -> Any:
        """Read by the branches of the value's own kind, else by those it may become."""
        meant = [each for each in branches if _is_kind(value, each)]
        if not meant and (opened := _opened(value)) is not value:
            return self._union(opened, branches, path)
        before, found = self.faults, []
        for each in meant or branches:
            self.faults = []
            found.append((self.read(value, each, path), self.faults))
        better, faults = found[0]  # of scalars pydantic takes the leftmost
        if isinstance(value, (dict, list)):
            better, faults = min(found, key=lambda each: len(each[1]))
        if not meant:
            changed = [each for each, _ in found if each is not value]
            is_repaired = not isinstance(value, (dict, list)) and _are_same(changed)
            better = changed[0] if is_repaired else value
            faults = [] if is_repaired else next((each for _, each in found if each), [])
        self.faults = before + faults
        return better


def _is_kind(value: Any, schema: Mapping[str, Any]) -> bool:
    if "type" in schema and schema["type"] not in _KINDS.get(type(value), ("", ()))[1]:
        return False
    if not isinstance(value, dict):
        return value in (choices_of(schema) or [value])
    fields = schema.get("properties", {}).items()
    tags = {key: each["const"] for key, each in fields if "const" in each}
    has_all = all(key in value for key in schema.get("required", ()))
    return has_all and all(value.get(key, tag) == tag for key, tag in tags.items())


def _contrary(value: Any, schema: Mapping[str, Any]) -> str:
    """Why the value contradicts its schema, though pydantic may accept it."""
    kind, form = schema.get("type"), schema.get("format")
    if kind == "string" and form in _DATES:
        what, example = _DATES[form]
        if math.isfinite(_number(value)):
            return f'expected {what} as text, such as "{example}"'
    if kind in _NUMBERS:
        is_text = kind == "number" and isinstance(value, str) and "i" not in value.lower()
        if isinstance(value, bool) or (is_text and math.isinf(_number(value))):  # "inf" is meant so
            return _NUMBERS[kind]
    choices, cls = choices_of(schema), schema.get(ENUM)
    equal = [each for each in choices if each == value]  # True equals 1
    if equal and all(isinstance(each, bool) != isinstance(value, bool) for each in equal):
        return f"expected {' or '.join(map(repr, choices))}"
    if cls and is_by_name(cls) and not isinstance(value, cls):
        return f"expected {' or '.join(map(repr, choices))}{did_you_mean(str(value), choices)}"
    return ""


def _number(value: Any) -> float:
    """The number that a scalar is, or that its text says; NaN for none."""
    try:
        return 0.0 if isinstance(value, int) else float(value)
    except (TypeError, ValueError):
        return math.nan


def _meant(value: Any, schema: Mapping[str, Any]) -> Any:
    """The array or object in a text, the member of that name, or the number written as text."""
    opened = _opened(value)
    if schema.get("type") in ("object", "array") or referred(opened):
        return opened
    choices, cls = choices_of(schema), schema.get(ENUM)
    if cls and is_by_name(cls):
        return cls.__members__.get(value, value) if isinstance(value, str) else value
    if any(type(each) is type(value) and each == value for each in choices):
        return value
    found = [each for each in choices if _is_written(value, each)]
    if cls and isinstance(value, str) and value in cls.__members__:
        found.append(cls.__members__[value].value)
    return found[0] if _are_same(found) else value


def _are_same(values: Sequence[Any]) -> bool:
    """Whether there is a value, and no other than it."""
    return bool(values) and all(type(x) is type(values[0]) and x == values[0] for x in values)


def _is_written(sent: Any, choice: Any) -> bool:
    """Whether a number was sent as ``int`` would take it too: ``"7"`` or ``7.0`` for 7."""
    if type(choice) not in (int, float) or isinstance(sent, bool):
        return False
    return bool(sent == (choice if isinstance(sent, (int, float)) else str(choice)))


def _opened(value: Any) -> Any:
    """The JSON array or object in a string; any other value is left alone."""
    if not isinstance(value, str) or not value.strip().startswith(("[", "{")):
        return value
    try:
        return json.loads(value, parse_float=_finite)
    except (ValueError, RecursionError):
        return value


def _finite(digits: str) -> float:
    if math.isinf(number := float(digits)):
        raise ValueError(f"the number {digits} is too large")
    return number


# ── pydantic's errors ─────────────────────────────────────────────────────────────────────────────

_MISSING = "missing, a value is required here"
_REASONS = {
    "missing": _MISSING,
    **dict.fromkeys(["int_type", "int_parsing", "int_from_float"], "expected an integer"),
    **dict.fromkeys(["float_type", "float_parsing"], "expected a number"),
    "none_required": "expected null",
}
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")


def _explained(error: ValidationError, value: Any, start: Path) -> list[Fault]:
    """One fault for each place of the value; the branches of a union share one sentence."""
    grouped: dict[Path, dict[str, Any]] = {}
    for each in error.errors(include_url=False):
        path = (*start, *_located(each["loc"], value))
        if each["type"] == "missing" and each["loc"]:
            path = (*path, each["loc"][-1])
        grouped.setdefault(path, {})[_reason(each)] = each["input"]
    return [
        Fault(_MISSING, path)
        if _MISSING in reasons
        else Fault(f"{', or '.join(reasons)}; {_received([*reasons.values()][-1])}", path)
        for path, reasons in grouped.items()
    ]


def _located(loc: Sequence[str | int], value: Any) -> Path:
    """A path through the value out of pydantic's location, without the names of union branches."""
    path: list[str | int] = []
    for step in loc:
        is_place = isinstance(step, int) and isinstance(value, list) and 0 <= step < len(value)
        if is_place or (isinstance(value, dict) and step in value):
            path.append(step)
            value = value[step]
    return tuple(path)


def _reason(error: Any) -> str:
    kind, message = error["type"], str(error["msg"])
    if kind in _REASONS:
        return _REASONS[kind]
    if kind == "value_error":  # raised by a validator, ours or the user's: its own words
        return message.removeprefix("Value error, ")
    reason = message.replace("Input should be", "expected")
    reason = reason[:1].lower() + reason[1:]
    if kind in {"enum", "literal_error"} and isinstance(error["input"], str):
        reason += did_you_mean(error["input"], _QUOTED.findall(message))
    return reason
