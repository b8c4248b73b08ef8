"""Read a reply that is still being written, or was cut off.

The text protocol's replies are JSON. A person who watches one grow wants to see the thought and the answer,
not the braces. Pure: the text so far in, what can be read of it out.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass

_STRING = r'"((?:[^"\\]|\\.)*)("?)'
_THOUGHT = re.compile(r'"thought"\s*:\s*' + _STRING, re.DOTALL)
_TOOL = re.compile(r'"tool"\s*:\s*' + _STRING, re.DOTALL)
_INPUT = re.compile(r'"tool_input"\s*:\s*(.*)', re.DOTALL)
_ANSWER = re.compile(r"(?:\{\s*\"\w+\"\s*:\s*)?" + _STRING, re.DOTALL)

_HALF_ESCAPE = re.compile(r"(?<!\\)((?:\\\\)*)\\(?:u[0-9a-fA-F]{0,3})?\Z")


@dataclass(frozen=True, slots=True)
class Partial:
    """What can be read so far: why, what is called, and the words of an answer or an input."""

    thought: str = ""
    tool: str = ""
    text: str = ""


def read_partial(text: str) -> Partial:
    """Read the beginning of a reply.

    Args:
        text: The reply so far. Anything that does not begin as a JSON object is taken as prose.

    Returns:
        The parts that have begun.
    """
    body = text.lstrip()
    body = re.sub(r"\A```(?:json)?\s*", "", body)
    if not body.startswith("{"):
        return Partial(text=text)
    thought, tool, given = _THOUGHT.search(body), _TOOL.search(body), _INPUT.search(body)
    name = _unquoted(tool.group(1)) if tool and tool.group(2) else ""
    shown = given.group(1) if given else ""
    if name in {"final_answer", "fail_task"}:
        words = _ANSWER.match(shown)
        shown = _unquoted(words.group(1)) if words else shown
    elif given:
        shown = shown.rstrip().removesuffix("}") if shown.rstrip().endswith("}}") else shown
    return Partial(_unquoted(thought.group(1)) if thought else "", name, shown)


def _unquoted(inside: str) -> str:
    """Decode the inside of a JSON string that may be cut within an escape or a pair of them."""
    inside = _HALF_ESCAPE.sub(r"\1", inside)
    try:
        return re.sub(r"[\ud800-\udbff]\Z", "", str(json.loads(f'"{inside}"', strict=False)))
    except ValueError:
        return inside.replace("\\n", "\n").replace('\\"', '"')
