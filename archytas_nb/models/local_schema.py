"""JSON schemas as the embedded engine can enforce them.

Law of this file: it is a pure function from schema to schema. It knows what llama-cpp-python makes of a schema,
and nothing of tools, servers or requests.

llama_cpp.server turns a schema into a grammar, and its converter has three kinds of fault (found with 0.3.36).
A grammar that does not parse ends the *process*: a double quote in an enum or a property's name, a class like
digit or word in a pattern, a string or an array with more than about 1,100 optional places, an empty enum. A
backslash or a control character in a literal is written into the reply as it is, which is then not JSON. And
what it does not know (a schema of annotations alone, ``true``, ``not``, an unknown type, …) silently drops the
whole schema. Each is replaced by the narrowest schema that it gets right; the caller validates replies against
its own schema anyway.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any, TypeAlias

Schema: TypeAlias = dict[str, Any]

LONGEST = 1000  # optional places in a string or array: the engine's parser takes 1,000 and not 1,200
ANY: Schema = {}
_SCALARS = frozenset({"integer", "number", "boolean", "null"})
_FORMATS = frozenset({"date", "time", "date-time", "uuid", "uuid1", "uuid2", "uuid3", "uuid4", "uuid5"})


def for_engine(schema: Any) -> Schema:
    """Rewrite a schema into one that the embedded engine converts without fault.

    The order of properties, which is the order in which the model writes them, is kept.

    Args:
        schema: A JSON schema, as pydantic or a person writes it. It is not changed.

    Returns:
        A new schema. It may allow more than the given one; it allows less in two things only, which keep a
        reply short: strings and arrays have at most `LONGEST` places where any bound is given, and a property
        that is not named is not offered.
    """
    if not isinstance(schema, dict):
        return dict(ANY)  # true, false
    result = _node(schema)
    for key in ("$defs", "definitions"):
        if isinstance(schema.get(key), dict):
            result[key] = {name: for_engine(part) for name, part in schema[key].items()}
    return result


def _node(schema: Schema) -> Schema:
    if isinstance(schema.get("$ref"), str):
        known = schema["$ref"].startswith(("#/$defs/", "#/definitions/"))
        return {"$ref": schema["$ref"]} if known else dict(ANY)
    for key in ("oneOf", "anyOf"):
        if schema.get(key):
            # Beside these the converter ignores everything, as this does.
            return {key: [for_engine(part) for part in schema[key]]}
    if "const" in schema or "enum" in schema:
        return _literals([schema["const"]] if "const" in schema else list(schema["enum"]))
    if "allOf" in schema:
        # One part is itself (pydantic writes so around a $ref); what several allow together is not attempted.
        return for_engine(schema["allOf"][0]) if len(schema["allOf"]) == 1 else dict(ANY)
    return _typed(schema)


def _typed(schema: Schema) -> Schema:
    kind = schema.get("type", "object" if "properties" in schema else "array" if "items" in schema else None)
    if isinstance(kind, list):
        return {"anyOf": [_typed({**schema, "type": each}) for each in kind]} if kind else dict(ANY)
    if kind in _RULES:
        return _RULES[kind](schema)
    return {"type": kind} if kind in _SCALARS else dict(ANY)


def _is_plain(value: Any) -> bool:
    """Whether the converter copies it into the grammar unharmed: no escapes, and no surrogate pairs."""
    text = json.dumps(value, ensure_ascii=False)
    return "\\" not in text and max(text) <= "\uffff"


def _literals(values: list[Any]) -> Schema:
    if values and all(map(_is_plain, values)):
        return {"const": values[0]} if len(values) == 1 else {"enum": values}
    if values and all(isinstance(value, str) for value in values):
        return {"type": "string", "maxLength": min(LONGEST, max(map(len, values)))}
    return dict(ANY)


def _object(schema: Schema) -> Schema:
    properties = schema.get("properties") or {}
    more = schema.get("additionalProperties", True)
    if not all(map(_is_plain, properties)):
        return {"type": "object"}
    if not properties and more is True:
        return {"type": "object"}
    result: Schema = {
        "type": "object",
        "properties": {name: for_engine(part) for name, part in properties.items()},
    }
    if required := [name for name in schema.get("required", ()) if name in properties]:
        result["required"] = required
    # Where nothing is said, more properties are legal, but a model that is offered them never stops.
    closed = more is False or "additionalProperties" not in schema
    result["additionalProperties"] = False if closed else True if more is True else for_engine(more)
    return result


def _array(schema: Schema) -> Schema:
    places = schema.get("prefixItems")
    if places and schema.get("minItems") == schema.get("maxItems") == len(places):
        count = len(places)
        return {
            "type": "array",
            "prefixItems": [for_engine(part) for part in places],
            "minItems": count,
            "maxItems": count,
        }
    items = for_engine(schema["items"]) if "items" in schema and not places else dict(ANY)
    if not items:
        # "items": {} is no rule for the converter; an array of anything has one of its own.
        return {"type": "array"}
    result: Schema = {"type": "array", "items": items}
    low, high = schema.get("minItems", 0), schema.get("maxItems")
    if 0 < low <= LONGEST:
        result["minItems"] = low
    if high is not None and high <= LONGEST:
        result["maxItems"] = high
    return result


def _string(schema: Schema) -> Schema:
    if schema.get("format") in _FORMATS:
        return {"type": "string", "format": schema["format"]}
    # A pattern is left to the caller's validation: the translation is right for too few of them.
    low, high = schema.get("minLength", 0), schema.get("maxLength")
    result: Schema = {"type": "string"}
    if 0 < low <= LONGEST:
        result["minLength"] = low
    if high is not None:
        result["maxLength"] = max(min(high, LONGEST), result.get("minLength", 0))
    return result


_RULES: dict[str, Callable[[Schema], Schema]] = {"object": _object, "array": _array, "string": _string}
