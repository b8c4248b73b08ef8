"""A tool from a JSON schema, for functions that live elsewhere, such as on a server."""

from __future__ import annotations

import inspect
import json
import keyword
import re
from collections.abc import Awaitable, Callable, Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, WithJsonSchema

from archytas_nb.errors import ToolError
from archytas_nb.tools.tool import Tool
from archytas_nb.words import shorten

MAX_SCHEMA = 20_000
"""How long the schema of one argument may be, in characters; a longer one is shown as its type."""
MAX_TEXT = 8_000
"""How long a description may be, in characters; a longer one is shortened."""
_MAX_DEPTH = 8
_MAX_ARGUMENTS = 200
_MAX_SIZE = 200_000  # characters of a tool's schema with its references replaced
_MAX_CHOICES = 500  # of an enum
_CHECKED = (
    "type", "enum", "const", "required", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
    "minProperties", "maxProperties",
)  # fmt: skip
_CHECKED_INSIDE = ("items", "prefixItems", "additionalProperties", "allOf", "anyOf")
_AS_IT_IS = ("enum", "const", "default", "examples", "required")
_SIMPLE: dict[str, Any] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "null": None,
}  # fmt: skip
_OTHERS: dict[str, Any] = {"array": list[Any], "object": dict[str, Any]}

Send = Callable[[dict[str, Any]], Awaitable[Any]]
"""Makes the call, with the arguments under their own names."""
Invalid = Callable[[Mapping[str, Any]], Callable[[Any], str]]
"""For a schema, a function that says what is wrong with a value; an empty text if nothing is."""


def tool_of(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    send: Send,
    *,
    approve: bool,
    pure: bool = False,
    invalid: Invalid | None = None,
) -> Tool:
    """A tool whose arguments are described by a JSON schema.

    The types of the arguments are always checked, everything else about them by `invalid`.

    Args:
        name: The name of the tool.
        description: What it does.
        schema: The schema of its arguments, an object.
        send: Makes the call.
        approve: Whether every call requires approval.
        pure: Whether it has no side effects and may run in parallel.
        invalid: Checks an argument by its schema, as in `checkable`.

    Raises:
        ToolError: The name or the schema cannot be used.
    """
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        raise ToolError(f"the schema of the tool {name!r} has properties that are no object")
    if len(properties) > _MAX_ARGUMENTS:
        expected = f"expected {_MAX_ARGUMENTS} at most"
        raise ToolError(f"the tool {name!r} has {len(properties):,} arguments; {expected}")
    inlining = _Inlining(schema)
    required = schema.get("required", ())
    names: dict[str, str] = {}  # of the parameters, to those of the arguments
    parameters = []
    for own, each in properties.items():
        parameter = _parameter(own, names)
        names[parameter] = own
        inlined = inlining.replaced(each)
        is_required = own in required
        annotation = _annotation(inlined, is_required=is_required, invalid=invalid)
        parameters.append(
            inspect.Parameter(
                parameter,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=inspect.Parameter.empty if is_required else None,
            )
        )

    async def function(**given: Any) -> Any:
        arguments = {
            names[parameter]: value
            for parameter, value in given.items()
            if value is not None or names[parameter] in required
        }
        return await send(arguments)

    function.__name__ = function.__qualname__ = name
    # In one line, because a section in it would be read as one of a docstring.
    text = shorten(" ".join(description.split()), MAX_TEXT)
    function.__doc__ = text or f"The tool {name}."
    function.__annotations__ = {each.name: each.annotation for each in parameters}
    function.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    return Tool.from_function(function, name, approve=approve, pure=pure)


def _parameter(name: str, taken: Mapping[str, str]) -> str:
    """A legal name for a parameter."""
    legal = name
    if not name.isidentifier():
        legal = re.sub(r"[^A-Za-z0-9_]", "_", name)
    if not legal or legal[0].isdigit():
        legal = f"_{legal}"
    if keyword.iskeyword(legal):
        legal = f"{legal}_"
    while legal in taken:
        legal += "_"
    return legal


def _annotation(schema: Any, *, is_required: bool, invalid: Invalid | None) -> Any:
    """A type for the values of a schema, with the schema itself for the model."""
    described = ""
    if isinstance(schema, Mapping):
        described = shorten(str(schema.get("description", "")), MAX_TEXT)
    annotation = _type(schema)
    if annotation in _OTHERS.values() and isinstance(schema, Mapping):
        shown = dict(schema)
        if len(json.dumps(shown, default=str)) <= MAX_SCHEMA:
            annotation = Annotated[annotation, WithJsonSchema(shown)]
    if invalid is not None and isinstance(schema, Mapping):
        annotation = Annotated[annotation, AfterValidator(_check(invalid(_checked(schema))))]
    if not is_required:
        annotation |= None
    return Annotated[annotation, Field(description=described)]


def _type(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return Any
    choices = schema.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= _MAX_CHOICES and _are_plain(choices):
        return Literal[tuple(choices)]
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        if isinstance(branches, list) and branches:
            return reduce(or_, map(_type, branches))
    kind = schema.get("type")
    if isinstance(kind, list) and kind:
        return reduce(or_, [_type({**schema, "type": each}) for each in kind])
    return {**_SIMPLE, **_OTHERS}.get(str(kind), Any)


def _are_plain(choices: list[Any]) -> bool:
    return all(each is None or isinstance(each, (str, int, bool)) for each in choices)


def _check(reason: Callable[[Any], str]) -> Callable[[Any], Any]:
    def checked(value: Any) -> Any:
        why = reason(value)
        if why:
            raise ValueError(why)
        return value

    return checked


def checkable(schema: Mapping[str, Any]) -> dict[str, Any]:
    """A schema that permits at least the same values, and checks them in a bounded time.

    A reference can stand for any number of others, and a pattern can take longer than anybody
    waits, which nothing interrupts.
    """
    checked: dict[str, Any] = _checked(_Inlining(schema).replaced(schema))
    return checked


def _checked(part: Any) -> Any:
    """A part of a schema with what is easy to check."""
    if isinstance(part, list):
        return [_checked(each) for each in part]
    if not isinstance(part, Mapping):
        return part
    kept: dict[str, Any] = {key: part[key] for key in _CHECKED if key in part}
    kept |= {key: _checked(part[key]) for key in _CHECKED_INSIDE if key in part}
    fields = part.get("properties")
    if isinstance(fields, Mapping):
        kept["properties"] = {name: _checked(each) for name, each in fields.items()}
    if "oneOf" in part and "anyOf" not in part:  # what is left out can make several of them fit
        kept["anyOf"] = _checked(part["oneOf"])
    if "patternProperties" in part:
        kept.pop("additionalProperties", None)
    return kept


class _Inlining:
    """Replaces the references in a schema; what is nested too deeply or too long is left out."""

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._definitions = {key: schema.get(key, {}) for key in ("$defs", "definitions")}
        self._left = _MAX_SIZE

    def replaced(self, part: Any, depth: int = _MAX_DEPTH) -> Any:
        """A part of the schema without references."""
        if isinstance(part, str):
            self._left -= len(part)
        elif isinstance(part, list):
            return self._items(part, depth)
        elif isinstance(part, Mapping):
            return self._object(part, depth)
        return part

    def _items(self, part: list[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        for each in part:
            self._left -= 1
            if self._left < 0:
                return [*kept, {}]
            kept.append(self.replaced(each, depth))
        return kept

    def _object(self, part: Mapping[str, Any], depth: int) -> dict[str, Any]:
        self._left -= sum(map(len, part))
        if depth == 0 or self._left < 0:
            return {}
        reference = part.get("$ref")
        if isinstance(reference, str):
            others = {key: each for key, each in part.items() if key != "$ref"}
            return self._object({**self._target(reference), **others}, depth - 1)
        kept: dict[str, Any] = {}
        for key, each in part.items():
            if key in _AS_IT_IS:
                self._left -= len(repr(each))
            if self._left < 0:  # half of it could forbid what all of it permits
                return {}
            kept[key] = each if key in _AS_IT_IS else self.replaced(each, depth - 1)
        return kept

    def _target(self, reference: str) -> Mapping[str, Any]:
        """What a reference stands for; empty if that is not in the schema."""
        found = re.fullmatch(r"#/(\$defs|definitions)/(.+)", reference)
        if found is None:
            return {}
        definitions = self._definitions[found[1]]
        target = definitions.get(found[2]) if isinstance(definitions, Mapping) else None
        return target if isinstance(target, Mapping) else {}
