"""The arguments of a tool: each as the model reads it, and all of them as one JSON schema."""

from __future__ import annotations

import copy
import inspect
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from pydantic_core import to_jsonable_python

from archytas_nb.tools.schema import ArgumentType, Schema

MISSING: Any = inspect.Parameter.empty
"""Stands for "no annotation" and "no default"."""
OMITTED: Any = object()
"""The default of an argument that the function is not given if the model does not send it."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """One argument of a tool."""

    name: str  # in the signature and in the schema
    text: str  # its description
    type: ArgumentType
    default: Any  # `MISSING` if it is required
    positional: bool  # whether it can only be passed by position
    simple: bool = False  # whether it is sent as the value itself if it is the only argument
    injected: Literal["", "namespace", "run"] = ""  # what it is given that the model does not see
    factory: Callable[[], Any] | None = None  # creates the default for each call
    is_rest: bool = False  # whether it stands for all arguments that have no parameter

    @property
    def optional(self) -> bool:
        """Whether it has a default."""
        return self.default is not MISSING

    @property
    def key(self) -> str:
        """Its key in the object of arguments, as the model reads it."""
        return "…" if self.is_rest else f'"{self.name}"'

    def fresh_default(self) -> Any:
        """The default, made or copied if it is mutable, so that calls do not share it."""
        if self.factory is not None:
            return self.factory()
        is_mutable = isinstance(self.default, (list, dict, set, bytearray))
        if is_mutable:
            return copy.deepcopy(self.default)
        return self.default

    def line(self, indent: str) -> str:
        """Its line in the text protocol."""
        lines = list(self.type.details)
        if self.text:
            lines.insert(0, self.text)
        kind = self.type.text
        if self.optional:
            kind += ", optional"
        return type_line(kind, "\n".join(lines), indent)


def type_line(kind: str, text: str, indent: str) -> str:
    """``(TYPE, optional) DESC``; further lines of the description are indented."""
    first, *more = text.split("\n")
    below = [f"{indent}    {each}".rstrip() for each in more]
    return "\n".join([f"({kind}) {first}".rstrip(), *below])


def full_schema(parameters: Sequence[Parameter]) -> Schema:
    """The schema of the arguments as one object."""
    properties: Schema = {}
    defs: Schema = {}
    rest: Schema | bool = False
    for each in parameters:
        schema = dict(_merge_definitions(each.type, defs))
        if each.is_rest:
            rest = schema or True
            continue
        if each.default is not OMITTED:
            schema.pop("default", None)  # inside Annotated, where another one may win
        hint = schema.get("description", "")
        if each.text and hint and each.type.by_reference:
            schema["description"] = f"{each.text} - {hint}"
        elif each.text:
            schema["description"] = each.text
        if each.optional:
            schema.update(_default(each.default))
        properties[each.name] = schema
    result: Schema = {"type": "object", "properties": properties, "additionalProperties": rest}
    required = [each.name for each in parameters if not each.optional]
    if required:
        result["required"] = required
    if defs:
        return {**result, "$defs": defs}
    return result


def _default(value: Any) -> Schema:
    """The default, if JSON can represent it."""
    if value is OMITTED:
        return {}
    if value is None or type(value) in (str, bool, int):
        return {"default": value}
    try:
        plain = to_jsonable_python(value)
        json.dumps(plain, allow_nan=False)
    except Exception:  # noqa: BLE001  (a sentinel, NaN, or an object whose methods fail)
        return {}
    return {"default": plain}


def _merge_definitions(one: ArgumentType, defs: Schema) -> Schema:
    """Add a type's definitions to the shared ones; a name in use gets a number."""
    if not one.defs:
        return one.schema
    text = json.dumps([one.schema, one.defs])
    names = {}
    for name, each in one.defs.items():
        new = name
        number = 1
        while defs.get(new, each) != each:
            number += 1
            new = f"{name}_{number}"
        names[name] = new
        text = text.replace(f'"#/$defs/{name}"', f'"#/$defs/{new}"')
    schema, found = json.loads(text)
    defs.update({names[name]: each for name, each in found.items()})
    merged: Schema = schema
    return merged


def input_schema(parameters: Sequence[Parameter], schema: Schema) -> Schema:
    """The schema of ``tool_input``: null, the value of the only simple argument, or an object."""
    if not parameters:
        return {"type": "null"}
    if len(parameters) > 1 or not parameters[0].simple:
        return schema
    only: Schema = schema["properties"][parameters[0].name]
    if parameters[0].optional:
        return {"oneOf": [only, {"type": "null"}]}
    return only
