"""Reads calls whose arguments are in tags, one for each argument.

Servers usually parse these tags; a server that does not sends them in the text. Values of text
arguments are not quoted, so that a value that may be a text or something else is ambiguous.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

from archytas_nb.loop.events import Json
from archytas_nb.loop.reading.lenient import Reading, UnreadableError, read_json


@dataclass(frozen=True, slots=True)
class TagForm:
    """The tags that a family of models uses for a call."""

    name: str
    head: str  # a regular expression of the tag with the tool's name; %s is the name
    argument: str  # a regular expression of the tag with an argument's name, a group
    value_end: str
    call_end: str
    marks: tuple[str, ...]  # texts that begin a tag; a value with one of them is ambiguous
    has_own_lines: bool = False  # the value has a line break before and after it


TAG_FORMS = (
    TagForm(
        "qwen", r"<function=%s>", r"<parameter=([\w.-]+)>", "</parameter>", "</function>",
        ("<function=", "<parameter=", "</function>"), has_own_lines=True,
    ),
    TagForm(  # Claude and MiniMax
        "invoke", r'<invoke name="%s">', r'<parameter name="([\w.-]+)"[^<>]*>', "</parameter>",
        "</invoke>", ("<invoke ", "<parameter ", "</invoke>"),
    ),
    TagForm(
        "glm", r"<tool_call>\s*%s", r"<arg_key>\s*([\w.-]+)\s*</arg_key>\s*<arg_value>",
        "</arg_value>", "</tool_call>", ("<tool_call>", "<arg_key>", "<arg_value>", "</tool_call>"),
    ),
)  # fmt: skip

_KINDS = frozenset(("string", "number", "integer", "boolean", "object", "array", "null"))
_MAX_REFERENCES = 20


def head_pattern(names: str) -> str:
    """A regular expression of the tags that begin a call; the group is the form's name.

    Args:
        names: A regular expression of the tools' names.
    """
    heads = []
    for form in TAG_FORMS:
        head = form.head % rf"(?P<{form.name}>{names})"
        heads.append(rf"{head}\s*(?={form.argument.replace('(', '(?:')}|{form.call_end})")
    return "|".join(heads)


def read_tags(text: str, at: int, form: TagForm, schema: Json) -> Reading:
    """Read the arguments after the tag with the tool's name, up to the tag that ends the call.

    Args:
        text: Any text.
        at: The index after the tag with the tool's name.
        form: The tags that are used.
        schema: JSON schema of the tool's input, or None if it is not known.

    Raises:
        UnreadableError: A tag is not closed, or a value is ambiguous.
    """
    opening = re.compile(rf"\s*{form.argument}")
    arguments: dict[str, Json] = {}
    while argument := opening.match(text, at):
        end = text.find(form.value_end, argument.end())
        if end == -1:
            raise UnreadableError(len(text), f"{form.value_end} is missing")
        raw = text[argument.end() : end]
        if any(mark in raw for mark in form.marks):
            raise UnreadableError(argument.end(), f"there is a tag in the value of {argument[1]!r}")
        if argument[1] in arguments:
            raise UnreadableError(argument.start(), f"{argument[1]!r} is there twice")
        arguments[argument[1]] = _value(argument[1], raw, form, schema)
        at = end + len(form.value_end)
    rest = text[at : at + 200].lstrip()
    if not rest.startswith(form.call_end):
        if not rest:
            at = len(text)
        raise UnreadableError(at, f"expected an argument or {form.call_end}")
    if arguments:
        _check_what_follows(text, at, form)
    is_object = not isinstance(schema, Mapping) or schema.get("type") == "object"
    value: Json = arguments or None
    if arguments and not is_object:
        if len(arguments) > 1:
            raise UnreadableError(at, "it has several arguments, and the tool has only one")
        value = next(iter(arguments.values()))
    return Reading(value, at, ("arguments in tags",))


def _check_what_follows(text: str, at: int, form: TagForm) -> None:
    """Raise UnreadableError if the last value may have contained the end of the call."""
    stray = text.find(form.value_end, at)
    if stray != -1 and not re.compile(form.argument).search(text, at, stray):
        raise UnreadableError(stray, f"there is a {form.value_end} after the end of the call")


def value_in_tags(name: str, raw: str, schema: Json) -> Json:
    """The value of an argument between tags: a text without the line breaks around it, or JSON.

    Raises:
        UnreadableError: It may be a text or something else.
    """
    if raw.startswith("\n") and raw.endswith("\n") and len(raw) > 1:
        raw = raw[1:-1]
    return _value(name, raw, TAG_FORMS[1], schema)


def _value(name: str, raw: str, form: TagForm, schema: Json) -> Json:
    """The value of an argument: a text unchanged, or JSON, depending on the schema."""
    kinds = _kinds(_schema_of(name, schema), schema)
    try:
        reading = read_json(raw.strip())
        is_json = reading.end == len(raw.strip())
    except UnreadableError:
        is_json = False
    if "string" not in kinds:
        if is_json:
            return reading.value
        return raw.strip()
    if is_json and (kinds - {"string"}) & _kinds_of(reading.value):
        what = f"{name!r} may be the text {raw.strip()!r}, or the same as a value that is no text"
        raise UnreadableError(0, what)
    line_breaks = raw.startswith("\n") + raw.endswith("\n")
    if form.has_own_lines and line_breaks == 2 and len(raw) > 1:
        return raw[1:-1]
    if line_breaks == 2 or (form.has_own_lines and line_breaks == 1):
        raise UnreadableError(0, f"the line breaks around {name!r} may be part of its text or not")
    return raw


def _schema_of(name: str, schema: Json) -> Json:
    """The schema of an argument; of the whole input if that is not an object."""
    if not isinstance(schema, Mapping):
        return {}
    if schema.get("type") != "object":
        return schema
    properties = schema.get("properties", {})
    return properties.get(name, schema.get("additionalProperties", {}))


def _kinds_of(value: Json) -> frozenset[str]:
    """The kinds of JSON values that a value belongs to."""
    names: dict[type, tuple[str, ...]] = {
        type(None): ("null",),
        str: ("string",),
        bool: ("boolean",),
        int: ("integer", "number"),
        float: ("number",),
        list: ("array",),
        dict: ("object",),
    }
    return frozenset(names.get(type(value), ()))


def _kinds(schema: Json, root: Json, references: int = 0) -> frozenset[str]:
    """The kinds of JSON values that a schema permits; all of them if that is not known."""
    if schema is False:  # such an argument does not exist, which the tool says
        return frozenset(("string",))
    if not isinstance(schema, Mapping) or references > _MAX_REFERENCES:
        return _KINDS
    if "$ref" in schema:
        definitions = {}
        if isinstance(root, Mapping):
            definitions = root.get("$defs", {})
        definition = definitions.get(str(schema["$ref"]).removeprefix("#/$defs/"))
        return _kinds(definition, root, references + 1)
    for options in ("anyOf", "oneOf"):
        if options in schema:
            each = (_kinds(option, root, references + 1) for option in schema[options])
            return frozenset[str]().union(*each)
    if "enum" in schema or "const" in schema:
        values = schema.get("enum", [schema.get("const")])
        return frozenset[str]().union(*map(_kinds_of, values))
    kinds = schema.get("type", _KINDS)
    if isinstance(kinds, str):
        return frozenset((kinds,))
    return frozenset(kinds)
