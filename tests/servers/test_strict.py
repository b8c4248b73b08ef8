"""That the strict server is strict: a judge that refuses nothing would make every history look valid."""

from __future__ import annotations

import copy
from typing import Any

from tests.servers.strict import complaint


def call(call_id: Any = "c1", name: Any = "add", arguments: Any = "{}") -> dict[str, Any]:
    return {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}


GOOD: list[dict[str, Any]] = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Add."},
    {"role": "assistant", "content": None, "tool_calls": [call("c1"), call("c2")]},
    {"role": "tool", "tool_call_id": "c2", "content": "3"},
    {"role": "tool", "tool_call_id": "c1", "content": "4"},
    {"role": "assistant", "content": "7"},
    {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "data:"}}]},
]
TOOL = {"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}}


def body(**changes: Any) -> dict[str, Any]:
    return {"model": "m", "messages": copy.deepcopy(GOOD), **changes}


def test_a_good_request_is_taken() -> None:
    assert complaint(body()) == ""
    assert (
        complaint(
            body(tools=[TOOL], tool_choice="auto", max_tokens=5, stream=True, stream_options={})
        )
        == ""
    )


def test_a_bad_message_is_refused() -> None:
    for at, message, said in [
        (0, {"role": "robot", "content": "x"}, "role"),
        (1, {"role": "user", "content": ""}, "non-empty"),
        (1, {"role": "user", "content": None}, "got null"),
        (1, {"role": "user", "content": []}, "expected a string"),
        (1, {"role": "user", "content": 5}, "expected a string"),
        (1, {"role": "user", "content": "x", "id": "y"}, "Unknown parameter"),
        (5, {"role": "assistant", "content": None}, "got null"),
        (5, {"role": "assistant", "content": "x", "thinking": "y"}, "Unknown parameter"),
        (5, {"role": "assistant", "content": "x", "tool_calls": []}, "empty array"),
        (3, {"role": "tool", "tool_call_id": "other", "content": "3"}, "must be a response"),
        (4, {"role": "tool", "tool_call_id": "c2", "content": "4"}, "must be a response"),
        (3, {"role": "user", "content": "hurry"}, "did not have response messages: c1, c2"),
        (4, {"role": "assistant", "content": "7"}, "did not have response messages: c1"),
        (3, {"role": "tool", "tool_call_id": "c2", "content": ""}, "non-empty"),
        (5, {"role": "tool", "tool_call_id": "c1", "content": "again"}, "must be a response"),
        (6, {"role": "assistant", "content": None, "tool_calls": [call()]}, "not answered"),
        (
            2,
            {"role": "assistant", "content": None, "tool_calls": [call(), call()]},
            "tool_calls[].id",
        ),
        (2, {"role": "assistant", "content": None, "tool_calls": [call("")]}, "tool_calls[].id"),
        (
            2,
            {"role": "assistant", "content": None, "tool_calls": [call("x" * 41)]},
            "tool_calls[].id",
        ),
        (
            2,
            {"role": "assistant", "content": None, "tool_calls": [call(name="a b")]},
            "function.name",
        ),
        (
            2,
            {"role": "assistant", "content": None, "tool_calls": [call(arguments='{"a": ')]},
            "not JSON",
        ),
        (
            2,
            {"role": "assistant", "content": None, "tool_calls": [call(arguments="[1]")]},
            "no object",
        ),
        (2, {"role": "assistant", "content": None, "tool_calls": [call(arguments={})]}, "not JSON"),
    ]:
        messages = copy.deepcopy(GOOD)
        messages[at] = message
        assert said in complaint(body(messages=messages))


def test_a_bad_setting_is_refused() -> None:
    for changes, said in [
        ({"model": ""}, "model"),
        ({"messages": []}, "too short"),
        ({"tools": []}, "Invalid 'tools'"),
        ({"tool_choice": "auto"}, "only allowed when 'tools'"),
        ({"tools": [TOOL, TOOL]}, "twice"),
        ({"tools": [{**TOOL, "type": "x"}]}, "function.name"),
        (
            {
                "tools": [
                    {"type": "function", "function": {"name": "f", "parameters": {"type": "array"}}}
                ]
            },
            "object",
        ),
        ({"max_tokens": 0}, "positive"),
        ({"stream_options": {"include_usage": True}}, "only allowed when 'stream'"),
        ({"response_format": {"type": "yaml"}}, "response_format.type"),
        ({"response_format": {"type": "json_schema"}}, "Missing required parameter"),
        (
            {
                "response_format": {
                    "type": "json_schema",
                    "json_schema": {"name": "a b", "schema": {}},
                }
            },
            "json_schema",
        ),
    ]:
        assert said in complaint(body(**changes))
