"""Functions of many shapes, by group, for the golden files."""

from __future__ import annotations

from typing import Any

SHAPES: dict[str, list[Any]] = {}


def shape(group: str):
    """Put a function into a group and leave it as it is."""

    def add(f):
        SHAPES.setdefault(group, []).append(f)
        return f

    return add


def bounded(schema: Any, max_length: int) -> Any:
    """The schema with a bound for each string that is free."""
    if isinstance(schema, list):
        return [bounded(each, max_length) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result = {
        key: each if key in {"enum", "const", "default"} else bounded(each, max_length)
        for key, each in schema.items()
    }
    is_free = not {"enum", "const", "format", "pattern"} & result.keys()
    if result.get("type") == "string" and is_free:
        result["maxLength"] = min(result.get("maxLength", max_length), max_length)
    return result
