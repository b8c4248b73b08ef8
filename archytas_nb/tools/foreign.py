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

from pydantic import Field, WithJsonSchema

from archytas_nb.errors import ToolError
from archytas_nb.tools.tool import Tool

MAX_SCHEMA = 20_000
"""How long the schema of one argument may be, in characters; a longer one is shown as its type."""
_MAX_DEPTH = 8
_SIMPLE: dict[str, Any] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "null": None,
}  # fmt: skip
_OTHERS: dict[str, Any] = {"array": list[Any], "object": dict[str, Any]}

Send = Callable[[dict[str, Any]], Awaitable[Any]]
"""Makes the call, with the arguments under their own names."""


def tool_of(
    name: str,
    description: str,
    schema: Mapping[str, Any],
    send: Send,
    *,
    approve: bool,
    pure: bool = False,
) -> Tool:
    """A tool whose arguments are described by a JSON schema.

    The types of the arguments are checked here, everything else about them where the function is.

    Args:
        name: The name of the tool.
        description: What it does.
        schema: The schema of its arguments, an object.
        send: Makes the call.
        approve: Whether every call requires approval.
        pure: Whether it has no side effects and may run in parallel.

    Raises:
        ToolError: The name or the schema cannot be used.
    """
    properties = schema.get("properties", {})
    if not isinstance(properties, Mapping):
        raise ToolError(f"the schema of the tool {name!r} has properties that are no object")
    definitions = {key: schema.get(key, {}) for key in ("$defs", "definitions")}
    required = schema.get("required", ())
    names: dict[str, str] = {}  # of the parameters, to those of the arguments
    parameters = []
    for own, each in properties.items():
        parameter = _parameter(own, names)
        names[parameter] = own
        inlined = _inlined(each, definitions, _MAX_DEPTH)
        is_required = own in required
        parameters.append(
            inspect.Parameter(
                parameter,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=_annotation(inlined, is_required=is_required),
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
    function.__doc__ = " ".join(description.split()) or f"The tool {name}."
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


def _annotation(schema: Any, *, is_required: bool) -> Any:
    """A type for the values of a schema, with the schema itself for the model."""
    described = ""
    if isinstance(schema, Mapping):
        described = str(schema.get("description", ""))
    annotation = _type(schema)
    if annotation in _OTHERS.values() and isinstance(schema, Mapping):
        shown = dict(schema)
        if len(json.dumps(shown, default=str)) <= MAX_SCHEMA:
            annotation = Annotated[annotation, WithJsonSchema(shown)]
    if not is_required:
        annotation |= None
    return Annotated[annotation, Field(description=described)]


def _type(schema: Any) -> Any:
    if not isinstance(schema, Mapping):
        return Any
    choices = schema.get("enum")
    if isinstance(choices, list) and choices and _are_plain(choices):
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


def _inlined(schema: Any, definitions: Mapping[str, Any], depth: int) -> Any:
    """A schema with its references replaced; what is nested too deeply is left out."""
    if isinstance(schema, list):
        return [_inlined(each, definitions, depth) for each in schema]
    if not isinstance(schema, Mapping):
        return schema
    if depth == 0:
        return {}
    reference = schema.get("$ref")
    if isinstance(reference, str):
        found = re.fullmatch(r"#/(\$defs|definitions)/(.+)", reference)
        target: Any = {}
        if found and isinstance(definitions[found[1]], Mapping):
            target = definitions[found[1]].get(found[2], {})
        others = {key: each for key, each in schema.items() if key != "$ref"}
        if isinstance(target, Mapping):
            others = {**target, **others}
        return _inlined(others, definitions, depth - 1)
    return {key: _inlined(each, definitions, depth - 1) for key, each in schema.items()}
