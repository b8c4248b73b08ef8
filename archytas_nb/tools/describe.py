"""The text that the model reads about a tool, byte for byte. Knows strings only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

_INDENT = "    "


@dataclass(frozen=True, slots=True)
class Line:
    """One argument, or the result: its type in words, its description, whether it may be left out."""

    name: str
    type: str
    text: str
    optional: bool = False
    simple: bool = False

    def worded(self, indent: str) -> str:
        """Write ``(TYPE, optional) DESC``; the description's further lines go below ``indent``."""
        head = f"({self.type}{', optional' if self.optional else ''})"
        first, *more = self.text.split("\n") if self.text else [""]
        lines = [
            f"{head} {first}".rstrip(),
            *(f"{indent}{_INDENT}{each}".rstrip() for each in more),
        ]
        return "\n".join(lines)


def seed_text(name: str, short: str, long: str, inputs: Sequence[Line], output: Line | None) -> str:
    """Write the description of a tool in the text protocol.

    Args:
        name: The tool's name on the wire.
        short: The first paragraph, one line; may be empty.
        long: The other prose; may be empty.
        inputs: The arguments that the model sets, in signature order.
        output: The result, or None where the tool returns nothing.

    Returns:
        The text, without a newline at its end.
    """
    lines = [f"{name}:"]
    for prose in (short, long):
        if prose:
            lines += [*(f"{_INDENT}{each}".rstrip() for each in prose.split("\n")), ""]
    if not inputs:
        lines.append(f"{_INDENT}_input_: None")
    elif len(inputs) == 1 and inputs[0].simple:
        lines.append(f"{_INDENT}_input_: {inputs[0].worded(_INDENT)}")
    else:
        lines += [f"{_INDENT}_input_: a json object with the following fields:", f"{_INDENT}{{"]
        lines += [
            f'{_INDENT}{_INDENT}"{each.name}": # {each.worded(_INDENT * 2)}' for each in inputs
        ]
        lines.append(f"{_INDENT}}}")
    lines.append(f"{_INDENT}_output_: {output.worded(_INDENT) if output else 'None'}")
    return "\n".join(lines)


def by_name(what: str, *, whole: bool, explicit: bool) -> str:
    """Say how a value that JSON cannot carry is sent.

    Args:
        what: The type with its article, ``"a DataFrame"``.
        whole: Whether the argument is that and nothing else.
        explicit: Whether a bare name would be taken for text.
    """
    if explicit:
        return f'For {what} send {{"$var": "the name of a variable that holds it"}}.'
    if whole:
        return f"Send the name of a variable that holds {what}."
    return f"In place of {what} send the name of a variable that holds it."


def structures(schema: Mapping[str, Any], defs: Mapping[str, Any], name: str) -> tuple[str, ...]:
    """Describe the objects inside an argument, one line each, as JSON with types in place of values.

    The type's name alone tells a model nothing. Function calling has the schema, the text has these lines.
    """
    lines: list[str] = []
    whole = {
        **({name: schema} if "properties" in schema and "$var" not in schema["properties"] else {}),
        **defs,
    }
    for title, each in whole.items():
        if "properties" in each:
            required = each.get("required", ())
            fields = [
                f'"{key}": {_words(value)}{"" if key in required else " (optional)"}'
                for key, value in each["properties"].items()
            ]
            lines.append(f"{title} is {{{', '.join(fields)}}}")
        elif "enum" in each:
            lines.append(f"{title} is one of {', '.join(repr(value) for value in each['enum'])}")
    return tuple(lines)


_WORDS = {
    "string": "str",
    "integer": "int",
    "number": "float",
    "boolean": "bool",
    "null": "None",
    "object": "dict",
}


def _words(schema: Any) -> str:
    if not isinstance(schema, dict) or not schema:
        return "Any"
    if "$ref" in schema:
        return str(schema["$ref"]).rsplit("/", 1)[-1]
    for key in ("anyOf", "oneOf"):
        if key in schema:
            return " | ".join(dict.fromkeys(_words(each) for each in schema[key]))
    if "enum" in schema or "const" in schema:
        return f"Literal[{', '.join(repr(each) for each in schema.get('enum', [schema.get('const')]))}]"
    kind = schema.get("type")
    if kind == "array":
        return f"list[{_words(schema['items'])}]" if schema.get("items") else "list"
    if kind == "string" and schema.get("format"):
        return f"str ({schema['format']})"
    if kind == "object" and isinstance(schema.get("additionalProperties"), dict):
        return f"dict[str, {_words(schema['additionalProperties'])}]"
    return _WORDS.get(str(kind), "Any")
