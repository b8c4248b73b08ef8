"""Read what a model certainly meant: JSON in a string, an enum's member by its name, null for "left out".

Works on decoded JSON and on pydantic's error list, by place; a value that is fine where it is, is never touched.
"""

from __future__ import annotations

import enum
import json
import math
from collections.abc import Iterator, Sequence
from typing import Any

from archytas_nb.tools.faults import Path
from archytas_nb.tools.typetext import enum_choices

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
        better = (
            _choice(wrong, core_schema) if error["type"] in {"enum", "literal_error"} else NOTHING
        )
        if better is NOTHING and isinstance(wrong, str):
            better = decoded(wrong)
        if better is not NOTHING:
            changed = _put(value if changed is NOTHING else changed, path, better)
    return changed


def decoded(text: str) -> Any:
    """Decode a string that holds a JSON array or object, or return `NOTHING`."""
    if text.strip()[:1] not in {"[", "{"} or not text.strip():
        return NOTHING
    try:
        return json.loads(text, parse_float=_finite)
    except (ValueError, RecursionError):
        return NOTHING


def _finite(digits: str) -> float:
    number = float(digits)
    if math.isinf(number):
        raise ValueError(f"the number {digits} is too large")
    return number


def _choice(wrong: Any, core_schema: Any) -> Any:
    """Return what stands for a choice: the member of that name, or the number that is written as text."""
    found: list[Any] = []
    for node in _nodes(core_schema):
        if (
            node.get("type") == "enum"
            and isinstance(wrong, str)
            and wrong in node["cls"].__members__
        ):
            member = node["cls"].__members__[wrong]
            found.append(member.value if member.value in enum_choices(node["cls"]) else member)
        elif node.get("type") == "literal":
            found += [each for each in node["expected"] if _is_written(wrong, each)]
    if found and all(type(each) is type(found[0]) and each == found[0] for each in found):
        return found[0]
    return NOTHING


def _is_written(sent: Any, choice: Any) -> bool:
    """Whether a number was sent in the way that ``int`` would take too: ``"7"`` or ``7.0`` for 7."""
    if type(choice) not in (int, float) or isinstance(sent, bool):
        return False
    return bool(sent == (choice if isinstance(sent, (int, float)) else str(choice)))


def enums(core_schema: Any) -> list[type[enum.Enum]]:
    """Return the enums of a core schema."""
    return [node["cls"] for node in _nodes(core_schema) if node["type"] == "enum"]


def _nodes(schema: Any, depth: int = 0) -> Iterator[dict[str, Any]]:
    """Yield the choices of a core schema: its enums and literals."""
    if depth > 60:  # a core schema is a finite tree, but a user's metadata may be anything
        return
    if isinstance(schema, dict):
        if schema.get("type") in {"enum", "literal"} and ("cls" in schema or "expected" in schema):
            yield schema
        for key, each in schema.items():
            if key not in {"metadata", "serialization"}:
                yield from _nodes(each, depth + 1)
    elif isinstance(schema, (list, tuple)):
        for each in schema:
            yield from _nodes(each, depth + 1)


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
