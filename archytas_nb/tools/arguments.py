"""Validate the ``tool_input`` that a model sent, and report each fault as ``path: reason``.

Unambiguous variants are accepted: JSON in a string, the name of an enum member, null for an omitted
argument. Some values that pydantic would accept are rejected because they violate the schema:
unknown fields, a boolean for a number, a number for a date.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from archytas_nb.exact import plain
from archytas_nb.tools.annotation import ALSO, ENUM, NotPassed, is_by_name
from archytas_nb.tools.parameter import Parameter
from archytas_nb.tools.schema import ArgumentType, branches_of, choices_of, ref_name
from archytas_nb.tools.variables import reference_name
from archytas_nb.words import did_you_mean, truncate_line, with_article

_UNIONS = frozenset({"anyOf", "oneOf"})
_CHOICES = frozenset({"enum", "const"})

Path = tuple[str | int, ...]
Variables = Mapping[str, Any] | None
Result = tuple[dict[str, Any], tuple["ArgumentFault", ...]]

MAX_FAULTS = 10
"""Maximum number of faults of a call that are reported to the model."""

_MAX_REASON = 400  # characters of one reason
_MAX_PATH = 60  # characters of where it is
_EMPTY_INPUTS = ("", "{}", "null", "None", "none")
_KINDS: dict[type, tuple[str, tuple[str, ...]]] = {
    type(None): ("", ("null",)),
    bool: (" (a boolean)", ("boolean",)),
    int: (" (a number)", ("integer", "number")),
    float: (" (a number)", ("number",)),
    str: (" (a string)", ("string",)),
    list: (" (an array)", ("array",)),
    dict: (" (an object)", ("object",)),
}
"""The name of a JSON value's type in messages, and the schema types that it matches."""


@dataclass(frozen=True, slots=True)
class ArgumentFault:
    """One fault of a call; written as ``limit: expected an integer``.

    Attributes:
        reason: The fault, in words.
        path: Where.
        is_quoted: Whether the reason is the message of a validator that is not ours.
    """

    reason: str
    path: Path = ()
    is_quoted: bool = False

    def __str__(self) -> str:
        path = "".join(map(_step_text, self.path)).removeprefix(".")
        parts = truncate_line(path, _MAX_PATH), truncate_line(self.reason, _MAX_REASON)
        return ": ".join(filter(None, parts))

    def in_words(self, whole: str) -> str:
        """The fault of a part of one argument, as in ```stars` in the answer: expected …``."""
        reason = truncate_line(self.reason, _MAX_REASON)
        path = "".join(map(_step_text, self.path[1:])).removeprefix(".")
        return f"`{truncate_line(path, 60)}` {whole}: {reason}" if path else reason


def _step_text(step: Any) -> str:
    """A step of a path, as in JSONPath."""
    if isinstance(step, str) and step.isidentifier():
        return f".{step}"
    return f"[{json.dumps(step, ensure_ascii=False)}]"


def fault_lines(faults: Sequence[ArgumentFault]) -> list[str]:
    """The first faults as text, and the number of omitted ones."""
    lines = [str(each) for each in faults[:MAX_FAULTS]]
    more = len(faults) - MAX_FAULTS
    if more > 0:
        lines.append(f"… and {more:,} more faults")
    return lines


def for_person(faults: Sequence[ArgumentFault]) -> str:
    """The faults of a call, for a person."""
    lines = fault_lines(faults)
    if len(lines) == 1:
        return f"wrong arguments: {lines[0]}"
    return "\n".join(["wrong arguments:", *(f"- {line}" for line in lines)])


def _received(value: Any) -> str:
    """The received value, shortened, with its JSON type: ``received "abc" (a string)``."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"received a {type(value).__name__}"
    return f"received {truncate_line(text, 80)}{_KINDS.get(type(value), ('',))[0]}"


# ── all arguments ─────────────────────────────────────────────────────────────────────────────────


def read(parameters: Sequence[Parameter], tool_input: Any, namespace: Variables) -> Result:
    """Read the input of a tool.

    Args:
        parameters: The arguments that the model sets.
        tool_input: Decoded JSON, as the model sent it; in a call from Python also live objects.
        namespace: Where references are looked up.

    Returns:
        Typed values by name, without omitted arguments, and no faults; or no values and all faults.
    """
    if len(parameters) == 1 and not parameters[0].is_rest:
        return _read_single(parameters[0], tool_input, namespace)
    if parameters:
        return _read_fields(parameters, tool_input, namespace)
    if isinstance(tool_input, str) and tool_input.strip() in _EMPTY_INPUTS:
        return {}, ()
    if isinstance(tool_input, dict):
        reason = "unknown argument {!r}: this tool takes none, send null"
        return {}, tuple(ArgumentFault(reason.format(key), (str(key),)) for key in tool_input)
    if tool_input in (None, []):
        return {}, ()
    return {}, (ArgumentFault(f"this tool takes no arguments, send null; {_received(tool_input)}"),)


def _read_single(parameter: Parameter, tool_input: Any, namespace: Variables) -> Result:
    """Read the input of a tool with one argument: an object with its name, or just the value."""
    name = parameter.name
    kind = parameter.type
    if tool_input is None and not kind.admits_none:
        return _read_fields((parameter,), None, namespace)
    faults: tuple[ArgumentFault, ...] = ()
    parsed = tool_input
    if not parameter.simple:
        parsed = _parsed(tool_input)
    takes_objects = kind.schema.get("type") == "object" or kind.schema.keys() & {"$ref", "anyOf"}
    if isinstance(parsed, dict) and (name in parsed or not parsed or not takes_objects):
        values, faults = _read_fields((parameter,), parsed, namespace)
        # {"name": …} is the argument "name"; it is a value with that one key only if its type
        # has such a field.
        is_named = parsed.keys() == {name} and not _has_field(kind, name)
        if not faults or is_named:
            return values, faults
    path = () if parameter.simple else (name,)
    value, bare_faults = read_value(kind, tool_input, namespace, path)
    if bare_faults:
        return ({}, faults or bare_faults)
    return ({name: value}, ())


def _has_field(kind: ArgumentType, name: str) -> bool:
    """Whether objects of a type have a field of this name, apart from keys that may be anything."""
    schema = kind.validation_schema
    reader = _Reader(schema.get("$defs", {}))
    whole = reader.resolve(schema)
    branches = [whole]
    if whole.keys() & _UNIONS:
        branches = [reader.resolve(each) for each in branches_of(whole)]
    return any(name in each.get("properties", {}) for each in branches)


def _read_fields(parameters: Sequence[Parameter], tool_input: Any, namespace: Variables) -> Result:
    """Read an object with a field for each argument."""
    others = [each for each in parameters if each.is_rest]
    parameters = [each for each in parameters if not each.is_rest]
    names = [each.name for each in parameters]
    fields = _parsed(tool_input)
    is_empty = isinstance(tool_input, str) and tool_input.strip() in _EMPTY_INPUTS
    if tool_input is None or is_empty:
        fields = {}
    if not isinstance(fields, dict):
        known = ", ".join(f'"{name}"' for name in names)
        what = f"an object with the fields {known}" if known else "an object"
        return {}, (ArgumentFault(f"expected {what}; {_received(fields)}"),)
    values: dict[str, Any] = {}
    faults: list[ArgumentFault] = []
    for each in parameters:
        name = each.name
        kind = each.type
        # Models send null for an argument that they leave out: then the default counts.
        if name in fields and (fields[name] is not None or kind.admits_none):
            values[name], found = read_value(kind, fields[name], namespace, (name,))
            faults += found
        elif not each.optional:
            why = "null is no value here" if name in fields else "missing"
            faults.append(ArgumentFault(f"{why}, expected {kind.text}", (name,)))
    for key in (key for key in fields if key not in names):
        if others:
            values[key], found = read_value(others[0].type, fields[key], namespace, (key,))
            faults += found
        else:
            faults.append(_unknown_name("argument", key, fields, names))
    if faults:
        return ({}, tuple(faults))
    return (values, ())


def _unknown_name(
    what: str, key: Any, fields: Mapping[Any, Any], names: Collection[str], path: Path = ()
) -> ArgumentFault:
    left = [name for name in names if name not in fields]
    guess = did_you_mean(str(key), left or names) or ","
    known = ", ".join(f'"{name}"' for name in names) or "none"
    return ArgumentFault(f"unknown {what} {key!r}{guess} expected {known}", (*path, str(key)))


# ── one value ─────────────────────────────────────────────────────────────────────────────────────


def read_value(
    kind: ArgumentType, sent: Any, namespace: Variables = None, path: Path = ()
) -> tuple[Any, tuple[ArgumentFault, ...]]:
    """The typed value and no faults, or None and at least one."""
    reader = _Reader(kind.validation_schema.get("$defs", {}))
    result = None
    try:
        value = reader.read(sent, kind.validation_schema, path)
        result = _validated(kind, value, namespace)
    except ValidationError as error:
        known = {fault.path for fault in reader.faults}
        found = _faults_of(error, value, path)
        reader.faults += [each for each in found if each.path not in known]
    except RecursionError:
        return None, (ArgumentFault("the value is nested too deeply", path),)
    if not reader.faults:
        return result, ()
    name = reference_name(sent)
    if isinstance(sent, str) and namespace is not None and sent in namespace:
        name = sent
    if name is not None and not kind.by_reference:  # models try the names that they have read
        what = with_article(kind.text)
        reason = (
            f"names of variables such as {name!r} are not accepted here: send {what} itself; "
            f"{_received(sent)}"
        )
        return None, (ArgumentFault(reason, path),)
    return None, tuple(reader.faults)


def _validated(kind: ArgumentType, value: Any, namespace: Variables) -> Any:
    """The typed value; raises ValidationError.

    JSON has no dates, tuples or enums: where a type is strict, they are read from JSON as text.
    """
    try:
        return kind.adapter.validate_python(value, context=namespace)
    except ValidationError as error:
        if not kind.is_strict:
            raise
        try:
            return kind.adapter.validate_json(json.dumps(value), context=namespace)
        except (ValidationError, TypeError, ValueError):  # or it holds a live object
            raise error from None


_DATES = {
    "date-time": 'a date and time as text, such as "2024-01-31T10:30:00"',
    "date": 'a date as text, such as "2024-01-31"',
    "time": 'a time as text, such as "10:30:00"',
    "duration": 'a duration as text, such as "PT1H30M"',
}
_NUMBERS = {"integer": "an integer", "number": "a number"}


class _Reader:
    """Walks a value along its schema, converts unambiguous variants and collects faults."""

    def __init__(self, defs: Mapping[str, Any]) -> None:
        self.faults: list[ArgumentFault] = []
        self._defs = defs

    def read(self, value: Any, schema: Mapping[str, Any], path: Path) -> Any:
        """The value, or a copy in which variants are replaced by the expected form."""
        schema = self.resolve(schema)
        if schema.keys() & _UNIONS:
            branches = branches_of(schema)
            return self._union(value, [self.resolve(each) for each in branches], path)
        choices = choices_of(schema) if schema.keys() & _CHOICES else []
        value = _coerced(value, schema, choices)
        expected = _mismatch(value, schema, choices)
        if expected:
            self.faults.append(ArgumentFault(f"expected {expected}; {_received(value)}", path))
        elif isinstance(value, dict):
            return self._object(value, schema, path)
        elif isinstance(value, list):
            return self._array(value, schema, path)
        if "type" not in schema:  # any value: nothing turns it into what a type is made of
            return plain(value)
        return value

    def resolve(self, schema: Any) -> Mapping[str, Any]:
        """A schema, or the one that it refers to."""
        seen = set()
        while isinstance(schema, dict) and "$ref" in schema:
            if schema["$ref"] in seen:  # definitions that refer to each other in a circle
                return {}
            seen.add(schema["$ref"])
            schema = self._defs.get(ref_name(schema), {})
        return schema if isinstance(schema, dict) else {}

    def _array(self, value: list[Any], schema: Mapping[str, Any], path: Path) -> list[Any]:
        first = schema.get("prefixItems", ())
        rest = schema.get("items", {})
        items = []
        for at, each in enumerate(value):
            kind = first[at] if at < len(first) else rest
            items.append(self.read(each, kind, (*path, at)))
        return items

    def _object(self, value: dict[Any, Any], schema: Mapping[str, Any], path: Path) -> Any:
        fields = schema.get("properties", {})
        other = schema.get("additionalProperties")
        is_open = "properties" not in schema or other or "patternProperties" in schema
        result = {}
        also = schema.get(ALSO, {})
        for key, each in value.items():
            kind = fields.get(also.get(key, key), other)
            if not isinstance(kind, dict):
                result[key] = plain(each)
                if not is_open:
                    self.faults.append(_unknown_name("field", key, value, fields, path))
            elif each is not None or key in schema.get("required", ()) or self._takes_null(kind):
                result[key] = self.read(each, kind, (*path, key))  # else null: omitted
        return result

    def _takes_null(self, schema: Mapping[str, Any]) -> bool:
        schema = self.resolve(schema)
        branches = branches_of(schema) or [schema]
        return any(_matches(None, self.resolve(each)) for each in branches)

    def _union(self, value: Any, branches: list[Mapping[str, Any]], path: Path) -> Any:
        """Read with the branches that match the value's type, or else with all of them."""
        own = [each for each in branches if _matches(value, each)]
        parsed = _parsed(value)
        if not own and parsed is not value:
            return self._union(parsed, branches, path)
        before = self.faults
        readings = []
        for each in own or branches:
            self.faults = []
            readings.append((self.read(value, each, path), self.faults))
        if own:
            best, faults = min(readings, key=lambda reading: len(reading[1]))
        else:
            best = next((each for each, _ in readings if each is not value), value)
            faults = []
            if best is value or isinstance(value, (dict, list)):
                faults = next((found for _, found in readings if found), [])
        self.faults = before + faults
        return best


def _matches(value: Any, schema: Mapping[str, Any]) -> bool:
    _, kinds = _KINDS.get(type(value), ("", ()))
    if "type" in schema and schema["type"] not in kinds:
        return False
    if not isinstance(value, dict):
        return value in (choices_of(schema) or [value])
    fields = schema.get("properties", {}).items()
    tags = {key: each["const"] for key, each in fields if "const" in each}
    has_all = all(key in value for key in schema.get("required", ()))
    return has_all and all(value.get(key, tag) == tag for key, tag in tags.items())


def _mismatch(value: Any, schema: Mapping[str, Any], choices: list[Any]) -> str:
    """The schema's expectation, if the value violates it and pydantic might accept it."""
    kind = schema.get("type")
    date = _DATES.get(schema.get("format", ""))
    if kind == "string" and date and math.isfinite(_number(value)):
        return date
    is_flag = isinstance(value, bool)
    if kind in _NUMBERS and (is_flag or (kind == "number" and _is_too_large(value))):
        return _NUMBERS[kind]
    expected = " or ".join(map(repr, choices))
    # True equals 1.
    if choices and is_flag and not any(each is value for each in choices):
        return expected
    cls = schema.get(ENUM)
    if cls and is_by_name(cls) and not isinstance(value, cls):
        return expected + did_you_mean(str(value), choices)
    return ""


def _is_too_large(value: Any) -> bool:
    """Whether a text is a number that overflows to infinity; "inf" itself is permitted."""
    return isinstance(value, str) and "i" not in value.lower() and math.isinf(_number(value))


def _number(value: Any) -> float:
    """A scalar, or a number in a string, as a float; NaN if it is neither."""
    try:
        if isinstance(value, int):
            return 0.0
        return float(value)
    except (TypeError, ValueError):
        return math.nan


def _coerced(value: Any, schema: Mapping[str, Any], choices: list[Any]) -> Any:
    """The array or object in a string, the enum member of that name, or the number in a string."""
    if schema.get("contentMediaType") == "application/json" and not isinstance(value, str):
        return json.dumps(value)  # the text of it is expected
    parsed = _parsed(value)
    is_object = isinstance(parsed, dict)
    if schema.get("type") in ("object", "array") or (is_object and reference_name(parsed)):
        return parsed
    cls = schema.get(ENUM)
    member = None
    if cls and isinstance(value, str):
        member = cls.__members__.get(value)
    if cls and is_by_name(cls):
        return value if member is None else member
    is_choice = any(type(each) is type(value) and each == value for each in choices)
    if isinstance(value, bool) or is_choice:
        return value
    for each in choices:
        if type(each) in (int, float) and value in (each, str(each)):
            return each
    return value if member is None else member.value


def _parsed(value: Any) -> Any:
    """The JSON array or object in a string; any other value unchanged."""
    if not isinstance(value, str) or not value.strip().startswith(("[", "{")):
        return value
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


# ── pydantic's errors ─────────────────────────────────────────────────────────────────────────────

_MISSING = "missing, a value is required here"
_REASONS = {
    "missing": _MISSING,
    **dict.fromkeys(["int_type", "int_parsing", "int_from_float"], "expected an integer"),
    **dict.fromkeys(["float_type", "float_parsing"], "expected a number"),
    **dict.fromkeys(
        ["list_type", "tuple_type", "set_type", "frozen_set_type"], "expected a valid array"
    ),
    **dict.fromkeys(["dict_type", "model_type", "dataclass_type"], "expected an object"),
    "none_required": "expected null",
}
_QUOTED = re.compile(r"'((?:[^'\\]|\\.)*)'")


def _faults_of(error: ValidationError, value: Any, start: Path) -> list[ArgumentFault]:
    """One fault for each path in the value; the branches of a union are joined in one reason."""
    grouped: dict[Path, dict[str, Any]] = {}
    quoted: set[Path] = set()
    for each in error.errors():
        path = (*start, *_value_path(each["loc"], value))
        if each["type"] == "missing" and each["loc"]:
            path = (*path, each["loc"][-1])
        grouped.setdefault(path, {})[_reason(each)] = each["input"]
        if _is_quoted(each):
            quoted.add(path)
    faults = []
    for path, reasons in grouped.items():
        reason = _MISSING
        if _MISSING not in reasons:
            last = [*reasons.values()][-1]
            reason = f"{', or '.join(reasons)}; {_received(last)}"
        faults.append(ArgumentFault(reason, path, path in quoted))
    return faults


def _is_quoted(error: Any) -> bool:
    """Whether the message was written by a validator of the tool's author."""
    if error["type"] in ("value_error", "assertion_error"):
        return not isinstance(error.get("ctx", {}).get("error"), NotPassed)
    return "url" not in error  # pydantic's own have one


def _value_path(loc: Iterable[str | int], value: Any) -> Path:
    """The path in the value for pydantic's location, without the names of union branches."""
    path: list[str | int] = []
    for step in loc:
        is_place = isinstance(step, int) and isinstance(value, list) and 0 <= step < len(value)
        if is_place or (isinstance(value, dict) and step in value):
            path.append(step)
            value = value[step]
    return tuple(path)


def _reason(error: Any) -> str:
    kind = error["type"]
    message = str(error["msg"])
    if kind in _REASONS:
        return _REASONS[kind]
    if kind == "value_error":  # raised by a validator, ours or the user's: keep its message
        return message.removeprefix("Value error, ")
    reason = message.replace("Input should be", "expected")
    reason = reason[:1].lower() + reason[1:]
    if kind in {"enum", "literal_error"} and isinstance(error["input"], str):
        reason += did_you_mean(error["input"], _QUOTED.findall(message))
    return reason
