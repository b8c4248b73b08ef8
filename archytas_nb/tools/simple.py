"""The ``simple`` level of a schema: references put in place, unions as ``oneOf`` of distinct branches."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_DEPTH = 2
"""How often a type may occur inside itself before it is left open; a grammar must be finite."""

_FORMATS = {"date", "time", "date-time", "uuid"}
_DROPPED = {
    "$defs", "pattern", "uniqueItems", "propertyNames", "patternProperties", "discriminator", "examples", "title",
    "anyOf", "oneOf", "allOf", "prefixItems",
}  # fmt: skip


def simplified(schema: Schema) -> Schema:
    """Simplify a whole schema; see `archytas_nb.tools.levels`."""
    result: Schema = _walk(schema, schema.get("$defs", {}), ())
    return result


def _walk(schema: Any, defs: Schema, trail: tuple[str, ...]) -> Any:
    if not isinstance(schema, dict):
        return schema
    if "$ref" in schema:
        return _in_place(schema, defs, trail)
    result: Schema = {}
    for each in schema.get("allOf", ()):
        result.update(_walk(each, defs, trail))
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: _walk(each, defs, trail) for name, each in value.items()}
        elif key in {"items", "additionalProperties"}:
            result[key] = _walk(value, defs, trail)
        elif not (key in _DROPPED or (key == "format" and value not in _FORMATS)):
            result[key] = value
    if "prefixItems" in schema:
        result["items"] = _union([_walk(each, defs, trail) for each in schema["prefixItems"]])
    branches = [
        _walk(each, defs, trail) for key in ("anyOf", "oneOf") for each in schema.get(key, ())
    ]
    if isinstance(schema.get("type"), list):
        branches = [{"type": each} for each in result.pop("type")]
    return {**_union(branches), **result} if branches else _typed_enum(result)


def _in_place(schema: Schema, defs: Schema, trail: tuple[str, ...]) -> Schema:
    """Put what a reference means where it stands; a type inside itself is left open at some depth."""
    name = str(schema["$ref"]).rsplit("/", 1)[-1]
    beside = {key: each for key, each in schema.items() if key != "$ref"}
    target = defs.get(name, {})
    if trail.count(name) >= _DEPTH:
        return {**({"type": target["type"]} if "type" in target else {}), **beside}
    return {**_walk(target, defs, (*trail, name)), **_walk(beside, defs, trail)}


def _typed_enum(schema: Schema) -> Schema:
    """Split an enum of several types, and give each part its type."""
    values = schema.get("enum", [schema["const"]] if "const" in schema else None)
    if values is None:
        return schema
    groups: dict[str, list[Any]] = {}
    for value in values:
        groups.setdefault(_type_of(value), []).append(value)
    rest = {key: each for key, each in schema.items() if key not in {"enum", "const", "type"}}
    parts = [
        {"type": "null"} if kind == "null" else {"type": kind, "enum": each}
        for kind, each in groups.items()
    ]
    return {**rest, **(parts[0] if len(parts) == 1 else {"oneOf": parts})}


def _type_of(value: Any) -> str:
    kinds = {
        bool: "boolean",
        int: "integer",
        float: "number",
        str: "string",
        list: "array",
        dict: "object",
    }
    return kinds.get(type(value), "null")


def _union(branches: list[Schema]) -> Schema:
    """Join branches so that a value fits exactly one of them."""
    flat: list[Schema] = []
    for each in branches:
        for part in each.get("oneOf", [each]):
            if not part or set(part) <= {"description"}:
                return {}  # one branch takes anything
            if part not in flat:
                flat.append(part)
    joined: list[Schema] = []
    for kind in dict.fromkeys(str(each.get("type")) for each in flat):
        parts = [each for each in flat if str(each.get("type")) == kind]
        if kind == "integer" and any(each.get("type") == "number" for each in flat):
            continue  # every integer is a number
        joined += parts if len(parts) == 1 else _same_type(kind, parts)
    return joined[0] if len(joined) == 1 else {"oneOf": joined}


def _same_type(kind: str, parts: list[Schema]) -> list[Schema]:
    """Join branches of one type: choices are united, otherwise the widest is kept and the validator decides."""
    if kind == "None":
        return [{}]
    if all("enum" in each for each in parts):
        return [
            {
                "type": kind,
                "enum": list(dict.fromkeys(value for each in parts for value in each["enum"])),
            }
        ]
    if kind == "array":
        items = [each.get("items", {}) for each in parts]
        return [{"type": "array", **({"items": union} if (union := _union(items)) else {})}]
    if kind == "object" and _told_apart(parts):
        return parts
    described = {"description": parts[0]["description"]} if "description" in parts[0] else {}
    return [{"type": kind, **described}]


def _told_apart(parts: list[Schema]) -> bool:
    """Whether the objects are closed and each requires a field that no other has."""
    for each in parts:
        others = {
            name for other in parts if other is not each for name in other.get("properties", {})
        }
        if (
            each.get("additionalProperties") is not False
            or not set(each.get("required", ())) - others
        ):
            return False
    return True
