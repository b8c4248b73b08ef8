"""A tool call that is written in tags, as Qwen, GLM, Claude and MiniMax do where no server reads it for them.

    <function=name> <parameter=key> value </parameter> </function>
    <invoke name="name"> <parameter name="key"> value </parameter> </invoke>
    <tool_call>name <arg_key>key</arg_key> <arg_value>value</arg_value> </tool_call>

A value is text, so that the tool's schema says what it is. It knows text and schemas only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping

from archytas_nb.loop.events import Json
from archytas_nb.loop.exact import EXACT, UnreadableError, unique, whole

_FIELD = re.compile(
    r"\s*(?:<parameter(?:=|\s+name=)[\"']?(?P<key>[\w.-]+)[\"']?[^<>]*>(?P<value>.*?)</parameter>"
    r"|<arg_key>\s*(?P<glm_key>[\w.-]+)\s*</arg_key>\s*<arg_value>(?P<glm_value>.*?)</arg_value>)",
    re.DOTALL,
)
_CLOSES = re.compile(r"\s*</(?:function|invoke|tool_call)>")


def from_tags(text: str, at: int, schema: Json) -> tuple[Json, int]:
    """Read the arguments that begin at a place, after the tool's name.

    Args:
        text: Any text.
        at: Where they begin.
        schema: JSON schema of the tool's input, or None.

    Returns:
        The input, and where the call ends.

    Raises:
        UnreadableError: A tag is not closed, or one argument is there twice with different values.
    """
    fields = schema.get("properties", {}) if isinstance(schema, Mapping) else {}
    pairs: list[tuple[str, Json]] = []
    while field := _FIELD.match(text, at):
        key, value = field["key"] or field["glm_key"], field["value"] or field["glm_value"] or ""
        pairs.append((key, _meant(value, fields.get(key))))
        at = field.end()
    closes = _CLOSES.match(text, at)
    if closes is None:
        raise UnreadableError(at, "a tag is not closed")
    return unique(pairs) or None, closes.end()


def _meant(value: str, schema: Json) -> Json:
    """What the text of an argument is: text where text is wanted, else the JSON that it is."""
    bare = value.removeprefix("\n").removesuffix("\n")
    if _wants(schema, "string"):
        return bare
    try:
        return whole(EXACT.decode(bare.strip()))
    except (ValueError, RecursionError):
        return bare


def _wants(schema: Json, kind: str) -> bool:
    """Whether a schema takes this kind, and a text need not be read as anything else."""
    if not isinstance(schema, Mapping):
        return False
    kinds = schema.get("type")
    if isinstance(kinds, list):
        return kind in kinds and set(kinds) <= {kind, "null"}
    return kinds == kind or (
        kinds is None and "enum" in schema and all(isinstance(e, str) for e in schema["enum"])
    )
