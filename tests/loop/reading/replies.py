"""Tools whose calls are read from replies, and how a reply is read with them."""

from __future__ import annotations

from typing import Any

from archytas_nb.loop.reading.reply import Action, read_action

ADD = {
    "type": "object",
    "properties": {"a": {}, "b": {}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOLS: dict[str, Any] = {
    "add": ADD,
    "write": {"type": "string"},
    "now": {"type": "null"},
    "math_sqrt": {"type": "number"},
}


def read(text: str, *, prose_is_answer: bool = False, strict: bool = False) -> Action:
    return read_action(text, TOOLS, prose_is_answer=prose_is_answer, strict=strict)
