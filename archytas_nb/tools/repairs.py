"""Read what a model certainly meant: JSON inside a string, the name of an enum's member, null for "left out".

Works on decoded JSON and on pydantic's error list, by place; a value that is fine where it is, is never touched.
"""

from __future__ import annotations

import enum
import json
from collections.abc import Iterator, Sequence
from typing import Any

from archytas_nb.tools.faults import Path

NOTHING = object()
"""Says that there was nothing to repair."""


def locate(loc: Sequence[str | int], value: Any) -> Path:
    """Turn pydantic's location into a path through the value; names of union branches are left out."""
    path: list[str | int] = []
    for step in loc:
        inside = (isinstance(value, dict) and step in value) or (
            isinstance(value, list) and isinstance(step, int) and 0 <= step < len(value)
        )
        if inside:
            path.append(step)
            value = value[step]
    return tuple(path)


def repair(value: Any, errors: Sequence[Any], core_schema: Any) -> Any:
    """Return a copy of the value with what can be read in another way, or `NOTHING`."""
    changed = NOTHING
    for error in errors:
        path = locate(error["loc"], value)
        wrong = value
        for step in path:
            wrong = wrong[step]
        if wrong is None and path and isinstance(path[-1], str):
            # Where every field is required, null stands for "left out"; a required one is then missed again.
            changed = _without(value if changed is NOTHING else changed, path)
            continue
        if not isinstance(wrong, str):
            continue
        better = _member(wrong, core_schema) if error["type"] == "enum" else NOTHING
        if better is NOTHING:
            better = _decoded(wrong)
        if better is not NOTHING:
            changed = _put(value if changed is NOTHING else changed, path, better)
    return changed


def _decoded(text: str) -> Any:
    """Decode a string that holds a JSON array or object."""
    if text.strip()[:1] not in {"[", "{"} or not text.strip():
        return NOTHING
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return NOTHING


def _member(name: str, core_schema: Any) -> Any:
    """Return the value of the enum member of that name, where all enums of the schema agree on it."""
    values = [cls.__members__[name].value for cls in _enums(core_schema) if name in cls.__members__]
    if values and all(type(each) is type(values[0]) and each == values[0] for each in values):
        return values[0]
    return NOTHING


def _enums(schema: Any, depth: int = 0) -> Iterator[type[enum.Enum]]:
    if depth > 60:  # a core schema is a finite tree, but a user's metadata may be anything
        return
    if isinstance(schema, dict):
        if schema.get("type") == "enum" and isinstance(schema.get("cls"), type):
            yield schema["cls"]
        for key, each in schema.items():
            if key not in {"metadata", "serialization"}:
                yield from _enums(each, depth + 1)
    elif isinstance(schema, (list, tuple)):
        for each in schema:
            yield from _enums(each, depth + 1)


def _put(value: Any, path: Path, better: Any) -> Any:
    if not path:
        return better
    copy = value.copy()
    copy[path[0]] = _put(copy[path[0]], path[1:], better)
    return copy


def _without(value: Any, path: Path) -> Any:
    copy = value.copy()
    if len(path) > 1:
        copy[path[0]] = _without(copy[path[0]], path[1:])
    else:
        copy.pop(path[0], None)
    return copy
