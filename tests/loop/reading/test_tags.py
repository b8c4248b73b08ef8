"""Calls with one tag for each argument are read if every value has one reading."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.reading.reply import Action, read_action
from tests.loop.cards import over

TEXT = {"type": "string"}
QWEN = "<function=put>\n<parameter=a>\n{}\n</parameter>\n</function>"
FORMS = [
    QWEN,
    "<function=put><parameter=a>{}</parameter></function>",
    '<invoke name="put">\n<parameter name="a">{}</parameter>\n</invoke>',
    "<tool_call>put\n<arg_key>a</arg_key>\n<arg_value>{}</arg_value>\n</tool_call>",
]


def read(text: str, schema: Any) -> Action:
    tools = {
        "put": {"type": "object", "properties": {"a": schema}, "additionalProperties": False},
        "now": {"type": "object", "properties": {}},
        "write": TEXT,
    }
    return read_action(text, tools, prose_is_answer=False)


def refused(action: Action) -> bool:
    return bool(action.fault) and action.calls == () and action.answer is None


@over("form", FORMS)
@over(
    "value", ["3", "true", "null", '{"x": 1}', " a ", "two\nlines", "<b>bold</b>", '"quoted"', ""]
)
@over("schema", [TEXT, {"enum": ["3", "x"]}])
def test_a_text_is_used_as_it_is(form: str, value: str, schema: Any) -> None:
    assert read(form.format(value), schema).calls == (("put", {"a": value}),)


@over("form", FORMS)
@over(
    "schema, value, meant",
    [
        ({"type": "integer"}, "3", 3),
        ({"type": "number"}, "3.5", 3.5),
        ({"type": "boolean"}, "true", True),
        ({"type": "boolean"}, "True", True),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "None", None),
        ({"type": "array"}, '["a", 1]', ["a", 1]),
        ({"type": "object"}, "{'x': 1}", {"x": 1}),
        ({"type": "integer"}, "three", "three"),
        ({"type": ["string", "null"]}, "3", "3"),
        ({"type": ["string", "integer"]}, "x", "x"),
        ({}, "plain", "plain"),
        ({}, "NaN", "NaN"),
    ],
)
def test_any_other_value_is_json(form: str, schema: Any, value: str, meant: Any) -> None:
    assert read(form.format(value), schema).calls == (("put", {"a": meant}),)


@over("form", FORMS)
@over(
    "schema, value",
    [
        ({}, "3"),
        ({"type": ["string", "integer"]}, "3"),
        ({"anyOf": [TEXT, {"type": "null"}]}, "null"),
        ({"enum": ["3", 3]}, "3"),
    ],
)
def test_a_value_that_may_be_text_or_not_is_ambiguous(form: str, schema: Any, value: str) -> None:
    action = read(form.format(value), schema)
    assert refused(action)
    assert "'a' may be" in action.fault


@over(
    "form, value", [(FORMS[1], "x\n"), (FORMS[1], "\nx"), *((each, "\nx\n") for each in FORMS[2:])]
)
def test_line_breaks_that_may_be_part_of_a_text_are_ambiguous(form: str, value: str) -> None:
    assert refused(read(form.format(value), TEXT))
    assert read(form.format("\n3\n"), {"type": "integer"}).calls == (("put", {"a": 3}),)


@over(
    "text",
    [
        "<function=put><parameter=a>1",
        "<function=put><parameter=a>1</parameter>",
        "<function=put><parameter=a>1</a></function>",
        "<function=put><parameter=a>1<parameter=b>2</parameter></function>",
        "<function=put><parameter=a>1</parameter><parameter=a>2</parameter></function>",
        "<function=put><parameter=a>1</parameter></function> x</parameter></function>",
        "<function=put><parameter=a>1</parameter></function><function=no><parameter=a>1</parameter>",
        '<invoke name="put"><parameter name="a">1</parameter></function>',
        "<tool_call>put<arg_key>a</arg_key><arg_value>1</tool_call>",
        "<function=write><parameter=a>1</parameter><parameter=b>2</parameter></function>",
    ],
)
def test_rejects_a_call_whose_tags_are_ambiguous_or_incomplete(text: str) -> None:
    assert refused(read(text, {"type": "integer"}))


def test_a_call_without_arguments_and_several_calls_are_read() -> None:
    text = "<function=now>\n</function><function=write><parameter=text>hi</parameter></function>"
    assert read(text, TEXT).calls == (("now", None), ("write", "hi"))


def test_the_answer_may_be_in_tags() -> None:
    text = "<function=final_answer>\n<parameter=answer>\n42\n</parameter>\n</function>"
    assert read(text, TEXT).answer == "42"


def test_the_definitions_of_a_schema_are_followed() -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/Colour"}, "b": {"$ref": "#/$defs/Loop"}},
        "$defs": {"Colour": {"enum": ["1", "red"]}, "Loop": {"$ref": "#/$defs/Loop"}},
    }
    text = QWEN.format(1)
    assert read_action(text, {"put": schema}, prose_is_answer=False).calls == (("put", {"a": "1"}),)
    loop = text.replace("=a>", "=b>")
    assert refused(read_action(loop, {"put": schema}, prose_is_answer=False))


@given(
    st.text(max_size=40)
    | st.lists(st.sampled_from([*QWEN.split("\n")[1:], "\n", "x"])).map("".join)
)
def test_a_text_is_never_changed(value: str) -> None:
    action = read(QWEN.format(value), TEXT)
    if refused(action):
        assert "<" in value
    else:
        assert action.calls == (("put", {"a": value}),)
