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
from urllib.parse import unquote

from pydantic import AfterValidator, Field, WithJsonSchema

from archytas_nb.errors import ToolError
from archytas_nb.tools.meaning import Rest
from archytas_nb.tools.parameter import OMITTED
from archytas_nb.tools.tool import Tool
from archytas_nb.words import truncate_line, visible

MAX_SCHEMA = 20_000
"""How long the schema of one argument may be, in characters; a longer one is shown as its type."""
MAX_TEXT = 8_000
"""How long a description may be, in characters; a longer one is shortened."""
_MAX_ARGUMENTS = 200
_MAX_SIZE = 200_000  # characters of a tool's schema with its references replaced
_DEPTHS = (64, 8)  # how deeply parts are nested: less, if all of them would be too long
_MAX_RECURSION = 2  # how often a definition that contains itself is written out
_MAX_CHOICES = 500  # of an enum
_CHECKED = (
    "type", "enum", "const", "required", "minimum", "maximum", "exclusiveMinimum",
    "exclusiveMaximum", "multipleOf", "minLength", "maxLength", "minItems", "maxItems",
    "minProperties", "maxProperties",
)  # fmt: skip
_CHECKED_INSIDE = ("items", "prefixItems", "additionalProperties", "allOf", "anyOf")
_AS_IT_IS = ("enum", "const", "default", "examples", "required")
_NOTES = ("title", "description", "default", "examples", "deprecated", "readOnly", "writeOnly")
_TEXTS = ("title", "description", "format", "pattern", "contentMediaType")
_NAMED = ("properties", "patternProperties", "dependentSchemas")  # schemas by names of any kind
_SIMPLE: dict[str, Any] = {
    "string": str, "integer": int, "number": float, "boolean": bool, "null": None,
}  # fmt: skip
_OTHERS: dict[str, Any] = {"array": list[Any], "object": dict[str, Any]}
_TYPES: dict[str, Any] = {**_SIMPLE, **_OTHERS}

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
        description: The tool's description.
        schema: The schema of its arguments, an object.
        send: Makes the call.
        approve: Whether every call requires approval.
        pure: Whether it has no side effects and may run in parallel.
        invalid: Checks an argument by its schema, as in `checkable`.

    Raises:
        ToolError: The name or the schema cannot be used.
    """
    inlining = _Inlining(schema)
    root = inlining.root()
    properties = root.get("properties", {})
    if not isinstance(properties, Mapping):
        raise ToolError(
            f"the schema of the tool {name!r} has properties={truncate_line(repr(properties), 60)};"
            " expected an object with a schema for each argument"
        )
    if len(properties) > _MAX_ARGUMENTS:
        expected = f"expected {_MAX_ARGUMENTS} at most"
        raise ToolError(f"the tool {name!r} has {len(properties):,} arguments; {expected}")
    required = _list(root.get("required"))
    names: dict[str, str] = {}  # of the parameters, to those of the arguments
    parameters = []
    for own, each in properties.items():
        if each is False:  # no value is permitted
            continue
        parameter = _parameter(own, names)
        names[parameter] = own
        annotation = _annotation(inlining.replaced(each), invalid)
        parameters.append(
            inspect.Parameter(
                parameter,
                inspect.Parameter.KEYWORD_ONLY,
                annotation=annotation,
                default=inspect.Parameter.empty if own in required else OMITTED,
            )
        )
    if _is_open(root):
        others = root.get("additionalProperties")
        kind = inlining.replaced(others if isinstance(others, Mapping) else {})
        annotation = Rest(_annotation({"description": "Any other arguments.", **kind}, invalid))
        parameter = _parameter("others", names)
        of_keywords = inspect.Parameter.VAR_KEYWORD
        parameters.append(inspect.Parameter(parameter, of_keywords, annotation=annotation))

    async def function(**given: Any) -> Any:
        return await send(
            {names.get(parameter, parameter): each for parameter, each in given.items()}
        )

    function.__name__ = function.__qualname__ = name
    # In one line, because a section in it would be read as one of a docstring.
    text = truncate_line(" ".join(description.split()), MAX_TEXT)
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


def _is_open(root: Mapping[str, Any]) -> bool:
    """Whether a schema of arguments permits others than those it names, and says so.

    A schema that names arguments, or that it has none, is read as the whole of them.
    """
    others = root.get("additionalProperties")
    if others is None:
        return "properties" not in root or "patternProperties" in root
    return others is not False


def _annotation(schema: Mapping[str, Any], invalid: Invalid | None) -> Any:
    """A type for the values of a schema without references, which the model sees itself."""
    annotation = _type(schema)
    shown = {key: each for key, each in schema.items() if key not in ("title", "description")}
    text = json.dumps(shown, default=str)
    # References were replaced: one that is left is in a value, where pydantic would follow it.
    if shown and len(text) <= MAX_SCHEMA and '"$ref"' not in text:
        annotation = Annotated[annotation, WithJsonSchema(shown)]
    if invalid is not None:
        annotation = Annotated[annotation, AfterValidator(_check(invalid(_checked(schema))))]
    described = truncate_line(str(schema.get("description", "")), MAX_TEXT)
    return Annotated[annotation, Field(description=described)]


def _type(schema: Mapping[str, Any]) -> Any:
    choices = schema.get("enum")
    if isinstance(choices, list) and 0 < len(choices) <= _MAX_CHOICES and _are_plain(choices):
        return Literal[tuple(choices)]
    for key in ("anyOf", "oneOf"):
        if schema.get(key):
            return reduce(or_, map(_type, schema[key]))
    found = (_type(each) for each in schema.get("allOf", ()))
    return _TYPES.get(
        str(schema.get("type")), next((each for each in found if each is not Any), Any)
    )


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
    whole = {key: each for key, each in schema.items() if key not in ("$defs", "definitions")}
    checked: dict[str, Any] = _checked(_Inlining(schema).replaced(whole))
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
    """Replaces the references in a schema, in one form for all ways of writing the same.

    What is nested too deeply or too long is left out, which permits more than the schema does.
    """

    def __init__(self, schema: Mapping[str, Any]) -> None:
        self._schema = schema
        self._left = _MAX_SIZE
        self._trail: list[str] = []  # the references that are being replaced

    def root(self) -> Mapping[str, Any]:
        """The schema, with the properties of what it refers to and of its ``allOf``."""
        found = {key: each for key, each in self._schema.items() if key != "$ref"}
        parts = [self._followed(self._schema)] if "$ref" in self._schema else []
        parts += [self._followed(each) for each in _list(self._schema.get("allOf"))]
        for part in parts:
            if "additionalProperties" in part:
                found.setdefault("additionalProperties", part["additionalProperties"])
            for key, join in (("properties", dict), ("required", list)):
                if isinstance(part.get(key), join):
                    found[key] = join([*_entries(part[key]), *_entries(found.get(key, join()))])
        return found

    def _followed(self, part: Any) -> Mapping[str, Any]:
        """A schema, or the one that it refers to; of references in a circle nothing."""
        seen = []
        while isinstance(part, Mapping) and isinstance(part.get("$ref"), str):
            if part["$ref"] in seen:
                return {}
            seen.append(part["$ref"])
            part = self._target(part["$ref"])
        return part if isinstance(part, Mapping) else {}

    def replaced(self, part: Any) -> dict[str, Any]:
        """A part of the schema without references."""
        before = self._left
        kept: dict[str, Any] = {}
        for depth in _DEPTHS:
            self._left = before
            kept = self._replaced(part, depth)
            if self._left >= 0:
                break
        return kept

    def _replaced(self, part: Any, depth: int) -> dict[str, Any]:
        """A schema as an object: ``true`` permits everything, ``false`` nothing."""
        if part is False:
            return {"not": {}}
        if not isinstance(part, Mapping) or depth == 0 or self._left < 0:
            return {}
        reference = part.get("$ref")
        if not isinstance(reference, str):
            return self._object(part, depth)
        self._left -= len(reference)
        kept: dict[str, Any] = {}
        if self._trail.count(reference) < _MAX_RECURSION:
            self._trail.append(reference)
            kept = self._replaced(self._target(reference), depth - 1)
            self._trail.pop()
        others = {key: each for key, each in part.items() if key != "$ref"}
        return _merged(kept, self._object(others, depth)) if others else kept

    def _object(self, part: Mapping[str, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for key, each in part.items():
            self._left -= len(str(key))
            value = self._keyword(key, each, depth - 1)
            if self._left < 0:  # half of it could forbid what all of it permits
                return {}
            if value is not None:
                kept[key] = value
        return _in_one_form(kept)

    def _keyword(self, key: str, value: Any, depth: int) -> Any:
        """The value of a keyword; None if it is left out.

        A keyword whose value has the wrong form is left out, which permits more: the server checks
        the arguments, too.
        """
        if key.startswith(("$", "x-")) or key == "definitions":
            return None
        if key in _TEXTS and not isinstance(value, str):
            return None
        if key in ("title", "description"):
            value = visible(value)
        if key in _AS_IT_IS:
            self._left -= len(repr(value))
            return value if key not in ("enum", "required") or isinstance(value, list) else None
        if key in _NAMED:
            return self._named(value, depth) if isinstance(value, Mapping) else None
        if key in ("anyOf", "oneOf", "allOf", "prefixItems"):
            return self._items(value, depth) if isinstance(value, list) and value else None
        if key == "items" and isinstance(value, list):
            return self._items(value, depth)
        if key in ("additionalProperties", "unevaluatedProperties") and isinstance(value, bool):
            return value
        if isinstance(value, Mapping) or (key == "items" and isinstance(value, bool)):
            return self._replaced(value, depth)
        self._left -= len(repr(value)) if isinstance(value, (str, list)) else 1
        return value

    def _named(self, part: Mapping[str, Any], depth: int) -> dict[str, Any]:
        self._left -= sum(map(len, part))
        return {name: self._replaced(each, depth) for name, each in part.items()}

    def _items(self, part: list[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        for each in part:
            self._left -= 1
            if self._left < 0:
                return [*kept, {}]
            kept.append(self._replaced(each, depth))
        return kept

    def _target(self, reference: str) -> Any:
        """The target of a JSON pointer or an anchor; a schema of everything if there is none."""
        base = str(self._schema.get("$id", ""))
        if base:
            reference = reference.removeprefix(base)
        if reference in ("", "#"):
            return self._schema
        if not reference.startswith("#/"):
            return self._anchored(reference)
        found: Any = self._schema
        for step in unquote(reference[2:]).split("/"):
            name = step.replace("~1", "/").replace("~0", "~")
            if isinstance(found, Mapping) and name in found:
                found = found[name]
            elif isinstance(found, list) and name.isdecimal() and int(name) < len(found):
                found = found[int(name)]
            else:
                return {}
        return found

    def _anchored(self, reference: str) -> Any:
        """The definition that has a name of its own (``$anchor``, ``$id``)."""
        for key in ("$defs", "definitions"):
            definitions = self._schema.get(key)
            for each in definitions.values() if isinstance(definitions, Mapping) else ():
                known = (
                    [each.get("$id"), f"#{each.get('$anchor')}"]
                    if isinstance(each, Mapping)
                    else []
                )
                if reference in known:
                    return each
        return {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _entries(value: Any) -> Any:
    return value.items() if isinstance(value, Mapping) else value


def _in_one_form(schema: dict[str, Any]) -> dict[str, Any]:
    """One form for several types, for tuples and for null, and no type that JSON lacks."""
    kinds = schema.pop("type", None)
    # Servers write a list of types, pydantic an anyOf: the rest of the package reads one form.
    kinds = kinds if isinstance(kinds, list) else [kinds]
    kinds = [each for each in kinds if isinstance(each, str) and each in _TYPES]
    if schema.pop("nullable", None) is True and kinds and "null" not in kinds:
        kinds.append("null")
    if isinstance(schema.get("items"), list):
        schema["prefixItems"] = schema.pop("items")
    if len(kinds) == 1:
        return {"type": kinds[0], **schema}
    if not kinds or schema.keys() & {"enum", "const", "anyOf", "oneOf"}:
        return schema
    notes = {key: each for key, each in schema.items() if key in _NOTES}
    rest = {key: each for key, each in schema.items() if key not in _NOTES}
    return {"anyOf": [{"type": kind, **_of_kind(kind, rest)} for kind in kinds], **notes}


def _of_kind(kind: str, rest: dict[str, Any]) -> dict[str, Any]:
    """The part of a schema of several types that applies to one of them; nothing for null."""
    return {} if kind == "null" else rest


def _merged(one: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """The intersection of two schemas: one schema where they do not contradict each other."""
    notes = {key: each for key, each in other.items() if key in _NOTES}
    rest = {key: each for key, each in other.items() if key not in _NOTES}
    joined = {"properties", "required"}
    differ = [key for key in rest.keys() - joined if one.get(key, rest[key]) != rest[key]]
    new = rest.get("properties", {}).keys() - one.get("properties", {}).keys()
    closes = "additionalProperties" in rest.keys() - one.keys()
    if differ or closes or (new and "additionalProperties" in one):
        return {"allOf": [one, rest], **notes}
    properties = dict(one.get("properties", {}))
    for name, each in rest.get("properties", {}).items():
        properties[name] = _merged(properties.get(name, {}), each)
    merged = {**one, **rest, **notes}
    if properties:
        merged["properties"] = properties
    if "required" in rest:
        merged["required"] = [*dict.fromkeys([*one.get("required", []), *rest["required"]])]
    return merged
