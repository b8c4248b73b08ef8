"""The schema of a type is the same with every version of pydantic's, so recordings outlive an update."""

from __future__ import annotations

import collections
from decimal import Decimal
from typing import Any

import pytest

from archytas_nb.tools.arguments import read_value
from archytas_nb.tools.schema import ArgumentType, normalized

OPEN = {"additionalProperties": True, "type": "object"}
NUMBER = {"anyOf": [{"type": "number"}, {"type": "string"}]}


@pytest.mark.parametrize(
    ("written", "same"),
    [
        ({"type": "object"}, OPEN),  # 2.10
        (OPEN, OPEN),  # from 2.11 on
        ({"items": {"type": "object"}, "type": "array"}, {"items": OPEN, "type": "array"}),
        ({"default": {"type": "object"}, "title": "A", "type": "object"},
         {"additionalProperties": True, "default": {"type": "object"}, "type": "object"}),
        ({"properties": {"title": {"type": "string"}}, "type": "object"},
         {"properties": {"title": {"type": "string"}}, "type": "object"}),
        ({"anyOf": [{"type": "number"}, {"pattern": r"^(?!^[-+.]*$)[+-]?0*\\d*\\.?\\d*$", "type": "string"}]},
         NUMBER),  # 2.12
        (NUMBER, NUMBER),
        ({"pattern": "^a+$", "type": "string"}, {"pattern": "^a+$", "type": "string"}),
    ],
)  # fmt: skip
def test_what_versions_write_differently_is_written_in_one_way(written: Any, same: Any) -> None:
    assert normalized(written) == same
    assert list(normalized(written)) == list(same)


@pytest.mark.parametrize(
    ("annotation", "schema"),
    [
        (dict, OPEN),
        (dict[str, Any], OPEN),
        (list[dict], {"items": OPEN, "type": "array"}),
        (collections.Counter, {"additionalProperties": {"type": "integer"}, "type": "object"}),
        (Decimal, NUMBER),
    ],
)
def test_the_installed_version_writes_what_is_stored_here(annotation: Any, schema: Any) -> None:
    assert ArgumentType(annotation).schema == schema


def test_a_counter_is_still_read_as_one() -> None:
    assert read_value(ArgumentType(collections.Counter), {"a": 2}) == (collections.Counter(a=2), ())
