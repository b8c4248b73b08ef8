"""Calls that are written in tags, and what their texts mean by the tool's schema."""

from __future__ import annotations

from typing import Any

import pytest

from archytas_nb.loop.exact import UnreadableError
from archytas_nb.loop.tags import from_tags


def field(kind: Any, value: str) -> Any:
    schema = {"type": "object", "properties": {"a": kind}}
    given, end = from_tags(
        text := f"<parameter=a>{value}</parameter></function> and so on", 0, schema
    )
    assert text[end:] == " and so on"
    return given["a"]


@pytest.mark.parametrize(
    "value", ["3", "true", "null", '{"x": 1}', " a ", "two\nlines", "<b>bold</b>", ""]
)
@pytest.mark.parametrize(
    "kind", [{"type": "string"}, {"type": ["string", "null"]}, {"enum": ["3", "x"]}]
)
def test_where_text_is_wanted_it_stays_text(kind: Any, value: str) -> None:
    assert field(kind, value) == field(kind, f"\n{value}\n") == value


@pytest.mark.parametrize(
    ("kind", "value", "meant"),
    [
        ({"type": "integer"}, "3", 3), ({"type": "number"}, "\n3.5\n", 3.5), ({"type": "boolean"}, "true", True),
        ({"type": "array"}, '["a", 1]', ["a", 1]), ({"type": "object"}, '{"x": 1}', {"x": 1}), ({}, "3", 3),
        ({"type": ["string", "integer"]}, "3", 3), ({"type": "integer"}, "three", "three"), ({}, "NaN", "NaN"),
    ],
)  # fmt: skip
def test_elsewhere_it_is_the_json_that_it_is_or_is_left_to_be_refused(
    kind: Any, value: str, meant: Any
) -> None:
    assert field(kind, value) == meant


def test_a_call_without_arguments_has_none() -> None:
    assert from_tags("\n</function>", 0, None) == (None, len("\n</function>"))


@pytest.mark.parametrize(
    "text", ["<parameter=a>1", "<parameter=a>1</parameter>", "<parameter=a>1</a></function>", ""]
)
def test_a_tag_that_is_not_closed_cannot_be_read(text: str) -> None:
    with pytest.raises(UnreadableError, match="not closed"):
        from_tags(text, 0, None)
