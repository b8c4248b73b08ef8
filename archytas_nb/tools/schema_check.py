"""Checks of a value against its JSON schema where pydantic's lax mode accepts what the schema does not say.

Pydantic drops unknown fields, takes a number for a date and a boolean for a number, and rounds a number that is
too large to infinity. Each of them would call the tool with another value than the one that was sent.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from archytas_nb.tools.faults import Fault, Path, received
from archytas_nb.tools.names import did_you_mean

_EXAMPLES = {
    "date-time": ("a date and time", "2024-01-31T10:30:00"),
    "date": ("a date", "2024-01-31"),
    "time": ("a time", "10:30:00"),
    "duration": ("a duration", "PT1H30M"),
}
_NUMBERS = {"integer": "expected an integer", "number": "expected a number"}


def violations(
    value: Any, schema: Mapping[str, Any], defs: Mapping[str, Any], path: Path = ()
) -> Iterator[Fault]:
    """Find what contradicts the schema; every other check is pydantic's.

    Args:
        value: Decoded JSON; live objects in it are skipped.
        schema: Its JSON schema.
        defs: The definitions that the schema refers to.
        path: Where the value stands.

    Yields:
        One fault for each place.
    """
    schema = _resolved(schema, defs)
    branches = [_resolved(each, defs) for key in ("anyOf", "oneOf") for each in schema.get(key, ())]
    if branches:
        yield from _union(value, branches, defs, path)
    elif isinstance(value, dict):
        yield from _object(value, schema, defs, path)
    elif isinstance(value, list):
        first = schema.get("prefixItems", ())
        for at, each in enumerate(value):
            item = first[at] if at < len(first) else schema.get("items")
            if isinstance(item, dict):
                yield from violations(each, item, defs, (*path, at))
    elif reason := _scalar(value, schema):
        yield Fault(f"{reason}; received {received(value)}", path)


def _resolved(schema: Mapping[str, Any], defs: Mapping[str, Any]) -> Mapping[str, Any]:
    while "$ref" in schema:
        schema = defs.get(str(schema["$ref"]).rsplit("/", 1)[-1], {})
    return schema


def _union(
    value: Any, branches: list[Mapping[str, Any]], defs: Mapping[str, Any], path: Path
) -> Iterator[Fault]:
    """Check against the branches of the value's own kind, else against those that it may be converted to."""
    meant = [each for each in branches if _is_kind(value, each)]
    found = [list(violations(value, each, defs, path)) for each in meant or branches]
    if meant and isinstance(value, (dict, list)):
        yield from min(found, key=len)
    elif meant:
        yield from found[0]  # of scalars pydantic takes the leftmost
    else:
        yield from next((each for each in found if each), [])


def _is_kind(value: Any, schema: Mapping[str, Any]) -> bool:
    kinds: dict[type, tuple[str, ...]] = {
        type(None): ("null",),
        bool: ("boolean",),
        int: ("integer", "number"),
        float: ("number",),
        str: ("string",),
        list: ("array",),
        dict: ("object",),
    }
    if "type" in schema and schema["type"] not in kinds.get(type(value), ()):
        return False
    if not isinstance(value, dict):
        return value in schema.get("enum", [value]) and value == schema.get("const", value)
    tags = {
        key: each["const"] for key, each in schema.get("properties", {}).items() if "const" in each
    }
    return all(value.get(key, tag) == tag for key, tag in tags.items()) and all(
        key in value for key in schema.get("required", ())
    )


def _object(
    value: dict[Any, Any], schema: Mapping[str, Any], defs: Mapping[str, Any], path: Path
) -> Iterator[Fault]:
    fields, other = schema.get("properties"), schema.get("additionalProperties")
    for key, each in value.items():
        if fields is not None and key in fields:
            yield from violations(each, fields[key], defs, (*path, key))
        elif isinstance(other, dict):
            yield from violations(each, other, defs, (*path, key))
        elif fields is not None and not other and "patternProperties" not in schema:
            guess = did_you_mean(str(key), [name for name in fields if name not in value] or fields)
            known = ", ".join(f'"{name}"' for name in fields)
            yield Fault(
                f"unknown field {key!r}{guess or ','} expected {known or 'none'}", (*path, str(key))
            )


def _scalar(value: Any, schema: Mapping[str, Any]) -> str:
    kind, form = str(schema.get("type")), schema.get("format")
    if kind == "string" and form in _EXAMPLES and _is_number(value):
        what, example = _EXAMPLES[form]
        return f'expected {what} as text, such as "{example}"'
    if kind in _NUMBERS and (
        isinstance(value, bool) or (kind == "number" and _is_too_large(value))
    ):
        return _NUMBERS[kind]
    choices = schema.get("enum", [schema["const"]] if "const" in schema else [])
    equal = [each for each in choices if each == value]  # True equals 1
    if equal and not any(isinstance(each, bool) == isinstance(value, bool) for each in equal):
        return f"expected {' or '.join(repr(each) for each in choices)}"
    return ""


def _is_number(value: Any) -> bool:
    if not isinstance(value, str):
        return isinstance(value, (int, float))
    try:
        return math.isfinite(float(value))
    except ValueError:
        return False


def _is_too_large(value: Any) -> bool:
    """Whether a text of digits is beyond the range of a float; ``"inf"`` is meant so."""
    try:
        return isinstance(value, str) and math.isinf(float(value)) and "i" not in value.lower()
    except ValueError:
        return False
