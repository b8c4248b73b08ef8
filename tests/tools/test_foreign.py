"""Tools from JSON schemas."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.errors import ToolError
from archytas_nb.tools.foreign import MAX_SCHEMA, checkable, tool_of
from archytas_nb.tools.tool import Tool


def made(
    schema: dict[str, Any], description: str = "Do it.", invalid: Any = None
) -> tuple[Tool, list[Any]]:
    """A tool, and the list of what is sent."""
    sent: list[Any] = []

    async def send(arguments: dict[str, Any]) -> str:
        sent.append(arguments)
        return "done"

    return tool_of("do", description, schema, send, approve=False, invalid=invalid), sent


def test_arguments_keep_their_own_names() -> None:
    properties = {
        "page-size": {"type": "integer", "description": "How many."},
        "page_size": {"type": "integer"},
        "class": {"type": "string"},
        "9": {"type": "boolean"},
    }
    tool, sent = made({"type": "object", "properties": properties, "required": [*properties]})
    names = list(tool.schema()["properties"])
    assert len({*names}) == 4
    values = {"page-size": 1, "page_size": 2, "class": "x", "9": True}
    outcome = tool.call(dict(zip(names, values.values(), strict=True)))
    assert outcome.status == "done"
    assert sent == [values]
    assert "How many." in str(tool.schema())


def test_what_is_left_out_is_not_sent_and_a_required_null_is() -> None:
    properties = {"a": {"type": ["integer", "null"]}, "b": {"type": "integer"}}
    tool, sent = made({"properties": properties, "required": ["a"]})
    assert tool.call({"a": None}).status == "done"
    assert sent == [{"a": None}]


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"type": "integer"}, 3, "x"),
        ({"enum": ["x", "y"]}, "x", "z"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, None, "x"),
        ({"type": "array", "items": {"type": "string"}}, ["a"], "a"),
        ({"type": "object"}, {"k": 1}, 3),
        ({"$ref": "#/$defs/Kind"}, "m", "n"),
        ({"$ref": "#/$defs/Missing"}, {"any": "thing"}, None),
        (True, [1], None),
    ],
)
def test_the_types_of_arguments_are_checked(schema: Any, good: Any, bad: Any) -> None:
    whole = {
        "properties": {"value": schema},
        "required": ["value"],
        "$defs": {"Kind": {"enum": ["m"]}},
    }
    tool, sent = made(whole)
    assert not tool.check({"value": good})
    if bad is not None:
        assert tool.check({"value": bad})
    assert not sent


def test_a_schema_that_explodes_is_shown_as_its_type() -> None:
    definitions: dict[str, Any] = {
        f"d{n}": {
            "type": "object",
            "properties": {k: {"$ref": f"#/$defs/d{n + 1}"} for k in "abcdef"},
        }
        for n in range(30)
    }
    definitions["loop"] = {"type": "array", "items": {"$ref": "#/$defs/loop"}}
    properties = {"deep": {"$ref": "#/$defs/d0"}, "loop": {"$ref": "#/$defs/loop"}}
    tool, _ = made({"properties": properties, "required": [*properties], "$defs": definitions})
    assert len(str(tool.schema())) < 2 * MAX_SCHEMA
    assert tool.check({"deep": 1, "loop": 2})


def test_a_schema_with_many_references_is_bounded() -> None:
    definitions = {f"d{n}": {"anyOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 1_000} for n in range(8)}
    enum = {"enum": ["x" * 100_000]}
    properties = {name: {"$ref": "#/$defs/d0"} for name in ("a", "b", "c")}
    schema = {"properties": properties, "$defs": {**definitions, "d8": enum}}
    tool, _ = made(schema)
    assert len(str(tool.schema())) < 3 * MAX_SCHEMA
    assert not tool.check({"a": "anything"})
    assert len(json.dumps(checkable(schema))) < 1_000_000
    with pytest.raises(ToolError):
        made({"properties": {f"a{n}": {} for n in range(1_000)}})


def test_a_long_description_is_shortened() -> None:
    described = {"properties": {"a": {"type": "string", "description": "x" * 1_000_000}}}
    tool, _ = made(described, "y" * 1_000_000)
    assert len(tool.text) + len(str(tool.spec())) < 100_000


def test_the_rest_of_a_schema_is_checked_by_a_function() -> None:
    checked = []

    def invalid(schema: Any) -> Any:
        checked.append(schema)
        return lambda value: "too small" if value < schema["minimum"] else ""

    count = {"type": "integer", "minimum": 3, "title": "Count"}
    tool, sent = made({"properties": {"count": count}, "required": ["count"]}, invalid=invalid)
    assert checked == [{"type": "integer", "minimum": 3}]
    assert "too small" in str(tool.check({"count": 2})[0])
    assert not tool.check({"count": 3})
    assert not sent


def test_what_is_checked_permits_all_that_the_schema_permits() -> None:
    slow = {"type": "string", "pattern": "^(a+)+$"}
    schema = {
        "type": "object",
        "properties": {"pattern": slow, "one": {"oneOf": [slow, {"type": "integer"}]}},
        "patternProperties": {"^x": {"type": "integer"}},
        "additionalProperties": False,
        "not": {"required": ["y"]},
        "required": ["pattern"],
    }
    assert checkable(schema) == {
        "type": "object",
        "properties": {
            "pattern": {"type": "string"},
            "one": {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        },
        "required": ["pattern"],
    }


def test_a_section_in_a_description_is_no_docstring() -> None:
    tool, _ = made({"properties": {}}, "Does it.\n\nArgs:\n    other: not an argument\n")
    assert "other: not an argument" in tool.description


def test_properties_that_are_no_object_are_refused() -> None:
    with pytest.raises(ToolError):
        made({"properties": [1]})


_schemas = st.recursive(
    st.none() | st.booleans() | st.text(max_size=5) | st.integers(),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["type", "enum", "anyOf", "items", "properties", "$ref", "description", "default"]
            ),
            inner,
            max_size=4,
        )
    ),
    max_leaves=8,
)


def test_a_value_that_looks_like_a_reference_is_a_value() -> None:
    tool, _ = made({"properties": {"where": {"default": {"$ref": "#/$defs/x"}}}})
    assert tool.schema()["properties"].keys() == {"where"}


@given(st.dictionaries(st.text(max_size=6), _schemas, max_size=3))
def test_any_schema_becomes_a_tool_or_is_refused(properties: dict[str, Any]) -> None:
    try:
        tool, _ = made({"properties": properties})
    except ToolError:
        return
    asyncio.run(asyncio.sleep(0))
    assert isinstance(tool.schema(), dict)


def invalid(schema: Any) -> Any:
    """Checks values as a connection to a server does."""
    validator = jsonschema.Draft202012Validator(schema)
    return lambda value: next((each.message for each in validator.iter_errors(value)), "")


CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "string"}, "b": {"type": "integer"}},
    "required": ["a", "b"],
    "additionalProperties": False,
}


@pytest.mark.parametrize(
    ("schema", "good", "bad"),
    [
        ({"$ref": "#/$defs/T", "properties": {"a": {"maxLength": 5}}}, {"a": "x", "b": 1}, {"a": "x"}),
        ({"$ref": "#/$defs/T", "description": "One."}, {"a": "x", "b": 1}, {"a": "x", "b": "y"}),
        ({"$ref": "#/$defs/a~1b"}, 1, "text"),
        ({"$ref": "#/$defs/a~1b/"}, "anything", None),
        ({"$ref": "#/$defs/50%25~0"}, 1, "text"),
        ({"$ref": "#/properties/n"}, 1, "text"),
        ({"$ref": "#/$defs/T/properties/b"}, 1, "text"),
        ({"$ref": "#/$defs/pair/prefixItems/1"}, 1, "text"),
        ({"$ref": "#named"}, 1, "text"),
        ({"$ref": "https://example.org/s#/$defs/a~1b"}, 1, "text"),
        ({"$ref": "#/$defs/loop"}, "anything", None),
        ({"$ref": "#/$defs/tree"}, {"v": 1, "children": [{"v": 2, "children": []}]}, {"v": "x"}),
        ({"type": ["string", "null"]}, None, 1),
        ({"type": "array", "items": {"type": ["integer", "null"]}}, [1, None], ["x"]),
        ({"type": "array", "items": [{"type": "string"}, {"type": "integer"}]}, ["x", 1], ["x", "y"]),
        ({"type": "string", "nullable": True}, None, 1),
        ({"allOf": [{"$ref": "#/$defs/T"}], "description": "One."}, {"a": "x", "b": 1}, 3),
        ({"anyOf": [{"type": "array", "items": {"type": "integer"}}, {"type": "null"}]}, [1], ["x"]),
        ({"type": "object", "properties": {"k": {"type": ["integer", "string"]}}}, {"k": "x"}, {"k": []}),
        ({"type": "any"}, [1], None),
    ],
)  # fmt: skip
def test_every_way_to_write_a_schema_is_read(schema: Any, good: Any, bad: Any) -> None:
    definitions = {
        "T": CLOSED, "a/b": {"type": "integer"}, "50%~": {"type": "integer"},
        "pair": {"prefixItems": [{"type": "string"}, {"type": "integer"}]},
        "one": {"$anchor": "named", "type": "integer"}, "loop": {"$ref": "#/$defs/loop"},
        "tree": {
            "type": "object",
            "properties": {
                "v": {"type": "integer"},
                "children": {"type": "array", "items": {"$ref": "#/$defs/tree"}},
            },
        },
    }  # fmt: skip
    tool, sent = made({
        "$id": "https://example.org/s",
        "properties": {"value": schema, "n": {"type": "integer"}},
        "required": ["value"],
        "$defs": definitions,
    }, invalid=invalid)  # fmt: skip
    assert tool.call({"value": good}).status == "done"
    assert sent == [{"value": good}]
    if bad is not None:
        assert all(
            fault.startswith("value") for fault in tool.check({"value": bad}) or ["no fault"]
        )
    assert "$ref" not in str(tool.schema())


@pytest.mark.parametrize(
    ("schema", "sent", "is_taken"),
    [
        ({"type": "object"}, {"x": 1, "y": None}, True),
        ({"type": "object", "properties": {}, "additionalProperties": True}, {"x": [1]}, True),
        ({"properties": {"a": {"type": "integer"}}, "additionalProperties": {}}, {"a": 1, "b": 2}, True),
        ({"additionalProperties": {"type": "integer"}}, {"x": 1}, True),
        ({"additionalProperties": {"type": "integer"}}, {"x": "text"}, False),
        ({"properties": {"others": {"type": "integer"}}, "additionalProperties": True}, {"others": 1, "x": 2}, True),
        ({"properties": {}}, {"x": 1}, False),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1, "x": 1}, False),
        ({"type": "object", "additionalProperties": False}, {"x": 1}, False),
        ({"$ref": "#/$defs/T", "$defs": {"T": CLOSED}}, {"a": "x", "b": 1}, True),
        ({"$ref": "#/$defs/T", "$defs": {"T": CLOSED}}, {"a": "x", "b": 1, "c": 1}, False),
        ({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}]}, {"a": 1}, True),
        ({"allOf": [{"properties": {"a": {"type": "integer"}}, "required": ["a"]}]}, {}, False),
        ({"properties": {"a": False, "b": True}}, {"b": 1}, True),
        ({"properties": {"a": False, "b": {"type": "integer"}}}, {"a": 1, "b": 1}, False),
    ],
)  # fmt: skip
def test_arguments_that_a_schema_leaves_open_are_passed_on(
    schema: dict[str, Any], sent: Any, is_taken: bool
) -> None:
    tool, taken = made(schema, invalid=invalid)
    outcome = tool.call(sent)
    assert (outcome.status == "done") is is_taken, outcome.text
    assert taken == ([sent] if is_taken else [])
    closed = tool.schema()["additionalProperties"] is False
    assert closed is (tool.text.count("any other") == tool.text.count("Any other") == 0)


def test_at_the_simple_level_nothing_is_left_that_small_engines_lack() -> None:
    closed = {
        "allOf": [CLOSED, {"anyOf": [{"required": ["a"]}]}],
        "not": {"type": "null"},
        "if": {},
    }
    tool, _ = made({"properties": {"v": closed, "w": {"type": ["integer", "null"]}}})
    text = json.dumps(tool.schema("simple"))
    assert not any(f'"{word}"' in text for word in ("anyOf", "allOf", "not", "if", "$ref"))
