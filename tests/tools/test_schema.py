"""The simple level, and schemas that do not depend on the version of pydantic."""

from __future__ import annotations

import collections
from decimal import Decimal
from typing import Any

from archytas_nb.tools.arguments import read_value
from archytas_nb.tools.schema import ArgumentType, normalized, simple


def of(schema, **more):
    """Put a schema where an argument stands."""
    return {
        "type": "object",
        "properties": {"a": schema},
        "required": ["a"],
        "additionalProperties": False,
        **more,
    }


def simplified(schema, **more):
    return simple(of(schema, **more))["properties"]["a"]


def test_a_reference_is_inlined_with_its_description():
    defs = {
        "P": {"type": "object", "properties": {"x": {"type": "number"}}, "description": "A point."}
    }
    assert simplified({"$ref": "#/$defs/P", "description": "Where."}, **{"$defs": defs}) == {
        "type": "object",
        "properties": {"x": {"type": "number"}},
        "description": "Where.",
    }


def test_a_recursive_type_is_left_open_at_some_depth():
    node = {
        "type": "object",
        "properties": {"next": {"anyOf": [{"$ref": "#/$defs/N"}, {"type": "null"}]}},
    }
    found, depth = simplified({"$ref": "#/$defs/N"}, **{"$defs": {"N": node}}), 0
    while "properties" in found:
        found, depth = found["properties"]["next"]["oneOf"][0], depth + 1
    assert (found, depth) == ({"type": "object"}, 2)


def test_an_integer_or_a_number_is_a_number():
    assert simplified({"anyOf": [{"type": "integer"}, {"type": "number"}]}) == {"type": "number"}


def test_a_branch_that_accepts_anything_replaces_the_others():
    assert simplified({"anyOf": [{}, {"type": "null"}]}) == {}


def test_branches_are_kept_without_duplicates():
    parts = [{"type": "string"}, {"type": "array", "items": {"type": "string"}}]
    nested = {"oneOf": [parts[0], {"type": "null"}]}
    assert simplified({"anyOf": [*parts, nested]}) == {"oneOf": [*parts, {"type": "null"}]}


def test_patterns_and_formats_that_engines_do_not_know_are_dropped():
    assert simplified({"type": "string", "pattern": "^(?!x)", "format": "path"}) == {
        "type": "string"
    }
    assert simplified({"type": "string", "format": "date"}) == {"type": "string", "format": "date"}


OPEN = {"additionalProperties": True, "type": "object"}
NUMBER = {"anyOf": [{"type": "number"}, {"type": "string"}]}


def test_differences_between_pydantic_versions_are_normalized() -> None:
    for written, same in [
        ({"type": "object"}, OPEN),  # 2.10
        (OPEN, OPEN),  # from 2.11 on
        ({"items": {"type": "object"}, "type": "array"}, {"items": OPEN, "type": "array"}),
        (
            {"default": {"type": "object"}, "title": "A", "type": "object"},
            {"additionalProperties": True, "default": {"type": "object"}, "type": "object"},
        ),
        (
            {"properties": {"title": {"type": "string"}}, "type": "object"},
            {"properties": {"title": {"type": "string"}}, "type": "object"},
        ),
        (
            {
                "anyOf": [
                    {"type": "number"},
                    {"pattern": r"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$", "type": "string"},
                ]
            },
            NUMBER,
        ),  # 2.12
        (NUMBER, NUMBER),
        ({"pattern": "^a+$", "type": "string"}, {"pattern": "^a+$", "type": "string"}),
    ]:
        assert normalized(written) == same
        assert list(normalized(written)) == list(same)


def test_the_installed_version_writes_what_is_stored_here() -> None:
    for annotation, schema in [
        (dict, OPEN),
        (dict[str, Any], OPEN),
        (list[dict], {"items": OPEN, "type": "array"}),
        (collections.Counter, {"additionalProperties": {"type": "integer"}, "type": "object"}),
        (Decimal, NUMBER),
    ]:
        assert ArgumentType(annotation).schema == schema


def test_a_counter_is_still_read_as_one() -> None:
    assert read_value(ArgumentType(collections.Counter), {"a": 2}) == (collections.Counter(a=2), ())
