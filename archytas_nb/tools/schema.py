"""Describe arguments as a JSON schema, at two levels.

- ``full`` contains everything.
- ``simple`` has no ``$ref``, ``anyOf`` or lists of types, for engines with limited support.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, get_args

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import SchemaError

from archytas_nb.tools import annotation as types
from archytas_nb.tools.variables import by_name
from archytas_nb.words import with_article

Schema = dict[str, Any]


class ArgumentType:
    """A type as the model sees it, and the validator of its values."""

    def __init__(self, annotation: Any) -> None:
        self.text = types.type_text(annotation)
        self.admits_none = types.admits_none(annotation)  # whether null is a value of the type
        rewriter = types.Rewriter()
        rewritten = rewriter.rewrite(annotation)
        try:
            self.adapter: TypeAdapter[Any] = TypeAdapter(rewritten)
            described = self.adapter.json_schema(schema_generator=types.JsonSchema)
            validation_schema = normalized(described)
        except (PydanticUserError, TypeError, NameError, RecursionError) as error:
            raise types.Unusable(str(error).split("\n", 1)[0]) from error
        except SchemaError as error:  # such as an invalid pattern
            raise types.Unusable(" ".join(str(error).split())) from error
        self.by_reference = bool(rewriter.references)  # whether the model names variables in it
        self.validation_schema = validation_schema  # with "$defs" and the classes of enums
        whole = _map_schemas(validation_schema, _without_classes)
        self.defs: Schema = whole.pop("$defs", {})
        self.schema: Schema = whole  # without the definitions
        self.is_open = any(map(_takes_anything, [whole, *self.defs.values()]))
        names = [self._how_to_send(each) for each in reversed(rewriter.references)]
        named: dict[str, Schema] = {}
        if "properties" in whole and "$var" not in whole["properties"]:
            named[self.text] = whole
        named |= self.defs
        self.details = (*names, *_structure_lines(named))  # what the type's name does not say

    @functools.cached_property
    def is_strict(self) -> bool:
        """Whether a part of the type takes no value of another type that could be converted."""
        return _is_strict(self.adapter.core_schema)

    def _how_to_send(self, reference: types.Reference) -> str:
        what = with_article(reference.label)
        if reference.explicit:
            return f'For {what} send {{"$var": …}} with {by_name("it")}.'
        if self.text == reference.label:
            return f"Send {by_name(what)}."
        return f"In place of {what} send {by_name('it')}."


def _is_strict(part: Any) -> bool:
    """Whether a part of pydantic's own description of a type forbids conversions."""
    if isinstance(part, dict):
        return part.get("strict") is True or any(map(_is_strict, part.values()))
    return isinstance(part, (list, tuple)) and any(map(_is_strict, part))


def _takes_anything(schema: Any) -> bool:
    """Whether a value of any type is accepted somewhere in a schema."""
    if schema is True or schema == {}:
        return True
    if isinstance(schema, dict):
        parts = [schema.get(key) for key in ("items", "additionalProperties")]
        parts += schema.get("properties", {}).values()
        parts += [*schema.get("anyOf", []), *schema.get("prefixItems", [])]
        return any(map(_takes_anything, parts))
    return False


@lru_cache(maxsize=2048)
def _shared(annotation: Any, spelled: str) -> ArgumentType:  # noqa: ARG001
    # `spelled` is part of the key because int | str equals str | int
    return ArgumentType(annotation)


def argument_type(annotation: Any, field: FieldInfo | None = None) -> ArgumentType:
    """The type of an annotation, with the bounds of a ``Field(…)`` that is its default.

    Raises:
        Unusable: pydantic does not support the annotation.
    """
    if field is not None and field.metadata:
        annotation = Annotated[(annotation, *field.metadata)]
    if not _is_of_python(annotation):  # a class of the user's may be changed in place
        return ArgumentType(annotation)
    try:
        return _shared(annotation, repr(annotation))
    except TypeError:  # an unhashable annotation, such as Annotated[int, Field(gt=0)]
        return ArgumentType(annotation)


def _is_of_python(annotation: Any) -> bool:
    """Whether an annotation consists of types of Python itself."""
    parts = get_args(annotation)
    if parts:
        return all(map(_is_of_python, parts))
    cls = annotation if isinstance(annotation, type) else type(annotation)
    return cls.__module__.partition(".")[0] in sys.stdlib_module_names


# ── type names ────────────────────────────────────────────────────────────────────────────────────

_WORDS = {
    "string": "str", "integer": "int", "number": "float", "boolean": "bool", "null": "None",
    "object": "dict",
}  # fmt: skip


def _structure_lines(named: Mapping[str, Schema]) -> list[str]:
    """A line for each object type in an argument; the text protocol has no schema."""
    lines = []
    for title, each in named.items():
        if "properties" in each:
            required = each.get("required", ())
            fields = []
            for key, value in each["properties"].items():
                field = f'"{key}": {_type_name(value)}'
                if key not in required:
                    field += " (optional)"
                fields.append(field)
            lines.append(f"{title} is {{{', '.join(fields)}}}")
        elif "enum" in each:
            lines.append(f"{title} is one of {', '.join(map(repr, each['enum']))}")
        elif each:  # an alias
            lines.append(f"{title} is {_type_name(each)}")
    return lines


def _type_name(schema: Any) -> str:
    if not isinstance(schema, dict) or not schema:
        return "Any"
    if "$ref" in schema:
        return ref_name(schema)
    branches = branches_of(schema)
    if branches:
        return " | ".join(dict.fromkeys(map(_type_name, branches)))
    choices = choices_of(schema)
    if choices:
        return f"Literal[{', '.join(map(repr, choices))}]"
    kind = schema.get("type")
    other = schema.get("additionalProperties")
    if kind == "array":
        if schema.get("items"):
            return f"list[{_type_name(schema['items'])}]"
        return "list"
    if kind == "string" and schema.get("format"):
        return f"str ({schema['format']})"
    if kind == "object" and isinstance(other, dict):
        return f"dict[str, {_type_name(other)}]"
    return _WORDS.get(str(kind), "Any")


def ref_name(schema: Mapping[str, Any]) -> str:
    """The name of the definition that a schema refers to."""
    return str(schema["$ref"]).rsplit("/", 1)[-1]


def choices_of(schema: Mapping[str, Any]) -> list[Any]:
    """The values of ``enum`` or ``const``."""
    if "enum" not in schema and "const" in schema:
        return [schema["const"]]
    choices: list[Any] = schema.get("enum", [])
    return choices


def normalized(schema: Schema) -> Schema:
    """The same schema for all versions of pydantic, so that recordings still match after an update.

    Titles cost tokens without adding information. Since 2.11, open objects are marked as such, and
    only 2.12 has a pattern for a Decimal.
    """
    result: Schema = _map_schemas(schema, _normal)
    return result


def _without_classes(schema: Schema) -> Schema:
    """A schema without what only the reader of arguments needs."""
    return {key: each for key, each in schema.items() if key not in (types.ENUM, types.ALSO)}


def _normal(schema: Schema) -> Schema:
    if isinstance(schema.get("title"), str):
        del schema["title"]
    is_open = not schema.keys() & {"properties", "patternProperties", "additionalProperties"}
    if schema.get("type") == "object" and is_open:
        schema = {"additionalProperties": True, **schema}
    if str(schema.get("pattern", "")).startswith("^(?!^[-+.]*$)[+-]?0*"):
        del schema["pattern"]
    return schema


def _map_schemas(schema: Any, change: Callable[[Schema], Schema]) -> Any:
    """Apply a function to a schema and all schemas inside it, innermost first."""
    if isinstance(schema, list):
        return [_map_schemas(each, change) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result: Schema = {}
    for key, value in schema.items():
        if key in {"properties", "$defs", "patternProperties"}:
            result[key] = {name: _map_schemas(each, change) for name, each in value.items()}
        elif key in {"default", "const", "enum", "examples", types.ALSO}:
            result[key] = value
        else:
            result[key] = _map_schemas(value, change)
    return change(result)


# ── simple ────────────────────────────────────────────────────────────────────────────────────────

_DEPTH = 2  # maximum nesting of a recursive type, because a grammar is finite
_SIMPLE_FORMATS = {"date", "time", "date-time", "uuid"}
_NOT_SIMPLE = {"$ref", "pattern", "uniqueItems", "examples", "title"}
_VALUES = {"default", "const", "enum"}  # keywords that hold values, not schemas
_TYPES = {bool: "boolean", int: "integer", float: "number", str: "string"}


def simple(schema: Schema) -> Schema:
    """The schema without references, ``anyOf`` or lists of types."""
    result: Schema = _simple(schema, schema.get("$defs", {}), ())
    return result


def _simple(schema: Any, defs: Schema, trail: tuple[str, ...]) -> Any:
    if not isinstance(schema, dict):
        return schema
    result: Schema = {}
    if "$ref" in schema:
        result = _simple_definition(ref_name(schema), defs, trail)
    for key, value in schema.items():
        if key == "properties":
            result[key] = {name: _simple(each, defs, trail) for name, each in value.items()}
        elif key in {"items", "additionalProperties"}:
            result[key] = _simple(value, defs, trail)
        elif key in _VALUES or _is_simple(key, value):
            result[key] = value
    if "prefixItems" in schema:
        result["items"] = _union([_simple(each, defs, trail) for each in schema["prefixItems"]])
    branches = branches_of(schema)
    if branches:
        return {**_union([_simple(each, defs, trail) for each in branches]), **result}
    if choices_of(schema):
        return _typed(result, choices_of(schema))
    return result


def _is_simple(key: str, value: Any) -> bool:
    """Whether a keyword stays: it holds no other schemas, and small engines know it."""
    holds_schemas = isinstance(value, dict) or (
        isinstance(value, list) and any(isinstance(each, dict) for each in value)
    )
    if holds_schemas or key in _NOT_SIMPLE:
        return False
    return key != "format" or value in _SIMPLE_FORMATS


def _simple_definition(name: str, defs: Schema, trail: tuple[str, ...]) -> Schema:
    """A definition in the place of a reference to it; of a recursive one only the type."""
    definition = defs[name]
    if trail.count(name) >= _DEPTH:
        definition = {key: definition[key] for key in ("type",) if key in definition}
    result: Schema = _simple(definition, defs, (*trail, name))
    return result


def _typed(schema: Schema, choices: list[Any]) -> Schema:
    """Split choices by type, with a separate schema for each type."""
    groups: dict[str, list[Any]] = {}
    for each in choices:
        groups.setdefault(_TYPES.get(type(each), "null"), []).append(each)
    parts: list[Schema] = []
    for kind, values in groups.items():
        if kind == "null":
            parts.append({"type": kind})
        else:
            parts.append({"type": kind, "enum": values})
    rest = {key: each for key, each in schema.items() if key not in {"enum", "const", "type"}}
    return {**rest, **_union(parts)}


def branches_of(schema: Mapping[str, Any]) -> list[Any]:
    """The schemas of ``anyOf`` and ``oneOf``."""
    found: list[Any] = schema.get("anyOf", []) + schema.get("oneOf", [])
    return found


def _union(branches: list[Schema]) -> Schema:
    """The union of the branches without duplicates; an empty schema if one accepts anything."""
    flat: list[Schema] = []
    for each in branches:
        for part in each.get("oneOf", [each]):
            if not part.keys() - {"description"}:
                return {}
            if part not in flat:
                flat.append(part)
    if {"type": "number"} in flat:  # every integer is a number
        flat = [each for each in flat if each != {"type": "integer"}]
    if len(flat) == 1:
        return flat[0]
    return {"oneOf": flat}
