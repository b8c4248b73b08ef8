"""The forms of a tool's specification, and the names that come back from them."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import AskModel, ModelReply, WireCall
from archytas_nb.models.shapes import digest, keywords, lost, plain, shaped, typed, unshaped

NAMES = st.text("abcäöüßδ_1é文", min_size=1, max_size=8)
LEAF = st.sampled_from(
    [
        {"type": "integer", "minimum": 0}, {"type": "string", "pattern": "a"}, {"enum": [1, 2]},
        {"anyOf": [{"type": "number"}, {"type": "null"}]}, {"$ref": "#/$defs/x"},
        {"type": ["string", "null"], "format": "date"}, {}, {"const": "a"},
    ]
)  # fmt: skip
SCHEMAS = st.recursive(
    LEAF,
    lambda inner: st.one_of(
        inner.map(lambda each: {"type": "array", "items": each, "minItems": 1}),
        st.dictionaries(NAMES, inner, max_size=4).map(
            lambda found: {"type": "object", "properties": found, "required": sorted(found)}
        ),
    ),
    max_leaves=6,
)
OBJECTS = st.dictionaries(NAMES, SCHEMAS, max_size=4).map(
    lambda found: {
        "type": "object", "properties": found, "required": sorted(found),
        "$defs": {"x": {"type": "object", "properties": {"ö": {"type": "integer"}}}},
    }
)  # fmt: skip


def spec(name: str, schema: Any) -> Any:
    return {
        "type": "function",
        "function": {"name": name, "description": "D.", "parameters": schema},
    }


@given(OBJECTS)
def test_simpler_schemas_have_the_same_names_and_few_keywords(schema: Any) -> None:
    for form in (plain(schema), typed(schema)):
        assert form["properties"].keys() == schema["properties"].keys()
        assert form.get("required", []) == schema["required"]
        assert not {"minimum", "pattern", "format", "minItems"} & set(keywords(form))
    assert set(keywords(typed(schema))) <= {"type", "properties", "required", "items"}
    assert plain(plain(schema)) == plain(schema)
    assert typed(typed(schema)) == typed(schema)


def _filled(schema: Any, root: Any) -> Any:
    """Arguments with a value for each name."""
    if "$ref" in schema:
        schema = root["$defs"]["x"]
    if "properties" in schema:
        return {name: _filled(each, root) for name, each in schema["properties"].items()}
    if schema.get("type") == "array":
        return [_filled(schema["items"], root)]
    return 1


@given(NAMES, OBJECTS)
def test_calls_come_back_with_the_names_of_the_user(name: str, schema: Any) -> None:
    tool, other = spec(name, schema), spec("other", {"type": "object", "properties": {}})
    given_ = _filled(schema, schema)
    call = {
        "id": "c1", "type": "function",
        "function": {"name": name, "arguments": json.dumps(given_)},
    }  # fmt: skip
    talk = ({"role": "user", "content": "x"}, {"role": "assistant", "tool_calls": [call]})
    ask = AskModel(1, talk, (tool, other))
    shapes = frozenset({(digest(tool), "ascii")})
    sent = shaped(ask, shapes)
    function = sent.tools[0]["function"]
    assert json.dumps(function, ensure_ascii=False).isascii()
    assert sent.tools[1] == other
    assert ask.messages == talk
    used = sent.messages[1]["tool_calls"][0]["function"]
    assert used["name"] == function["name"]
    answer = _filled(function["parameters"], {"$defs": function["parameters"].get("$defs")})
    assert json.loads(used["arguments"]) == answer
    reply = ModelReply(calls=(WireCall(function["name"], json.dumps(answer)),))
    [back] = unshaped(reply, ask, shapes).calls
    assert (back.name, json.loads(back.arguments)) == (name, given_)


def test_nothing_changes_without_a_shape_for_a_tool() -> None:
    ask = AskModel(1, (), (spec("größe", {"type": "object", "properties": {}}),))
    assert shaped(ask, frozenset()) is ask
    other = frozenset({("0" * 16, "typed")})
    assert shaped(ask, other) == ask


def test_says_which_parameters_lose_what() -> None:
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}, "t": {}}}
    assert lost(schema, plain(schema)) == {"n": ["minimum"]}
