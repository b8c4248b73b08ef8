"""The ``strict`` level of a schema: what OpenAI's structured outputs take, and what they mean in our terms."""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]

_KEPT = {
    "type", "description", "enum", "properties", "items", "required", "anyOf", "$ref", "$defs",
    "additionalProperties", "pattern", "multipleOf",
    "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems",
}  # fmt: skip
_FORMATS = {"date", "time", "date-time", "duration", "email", "hostname", "ipv4", "ipv6", "uuid"}
_SCALARS = ("string", "number", "boolean", "null")


def tightened(schema: Schema) -> Schema:
    """Tighten a whole schema; see `archytas_nb.tools.levels`."""
    result: Schema = _walk(schema)
    if "$defs" in schema:
        result["$defs"] = {name: _walk(each) for name, each in schema["$defs"].items()}
    return result


def _walk(schema: Any) -> Schema:
    if not isinstance(schema, dict) or not set(schema) - {"description", "default", "title"}:
        described = schema.get("description") if isinstance(schema, dict) else None
        return {
            "anyOf": [{"type": kind} for kind in _SCALARS],
            **({"description": described} if described else {}),
        }
    result = {
        key: value
        for key, value in schema.items()
        if key in _KEPT and key not in {"properties", "$defs"}
    }
    if schema.get("format") in _FORMATS:
        result["format"] = schema["format"]
    if "const" in schema:
        result["enum"] = [schema["const"]]
    if "pattern" in result and "(?" in result["pattern"]:
        del result["pattern"]  # look-around is refused
    if "$ref" in result:
        return {"$ref": result["$ref"]}  # nothing may stand beside a reference
    if "anyOf" in schema or "oneOf" in schema:
        result["anyOf"] = [
            _walk(each) for key in ("anyOf", "oneOf") for each in schema.get(key, ())
        ]
    if schema.get("type") == "object":
        return _object(schema, result)
    if schema.get("type") == "array":
        result["items"] = _items(schema)
    return result


def _object(schema: Schema, result: Schema) -> Schema:
    properties = schema.get("properties")
    if properties is None or schema.get("additionalProperties") not in (None, False):
        words = f"{schema['description']} - " if "description" in schema else ""
        return {"type": "string", "description": f"{words}a JSON object, written as text"}
    required = schema.get("required", ())
    result["properties"] = {
        name: _walk(each) if name in required else _nullable(_walk(each))
        for name, each in properties.items()
    }
    result["required"] = list(properties)
    result["additionalProperties"] = False
    return result


def _items(schema: Schema) -> Schema:
    if "prefixItems" not in schema:
        return _walk(schema.get("items", {}))
    parts: list[Schema] = []
    for each in schema["prefixItems"]:
        part = _walk(each)
        if part not in parts:
            parts.append(part)
    return parts[0] if len(parts) == 1 else {"anyOf": parts}


def _nullable(schema: Schema) -> Schema:
    """Let null stand for "left out", because strict mode requires every field."""
    if (
        schema.get("type") == "null"
        or None in schema.get("enum", ())
        or {"type": "null"} in schema.get("anyOf", ())
    ):
        return schema
    if "anyOf" in schema:
        return {**schema, "anyOf": [*schema["anyOf"], {"type": "null"}]}
    described = {"description": schema.pop("description")} if "description" in schema else {}
    return {"anyOf": [schema, {"type": "null"}], **described}
