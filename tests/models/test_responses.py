"""The Responses API, asked over real HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archytas_nb.loop.events import Usage
from tests.models.talking import complete, told
from tests.servers.plays import Say
from tests.servers.server import Server

pytestmark = pytest.mark.usefixtures("fresh")

BOTH = ("chat", "responses")
CLOSED = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
OPEN = {"type": "object", "properties": {"b": {"type": "integer", "default": 1}}}
TOOLS = (
    {"type": "function", "function": {"name": "f", "description": "F.", "parameters": CLOSED}},
    {"type": "function", "function": {"name": "g", "parameters": OPEN}},
)


def server(*plays: Any, **settings: Any) -> Server:
    return Server(*plays, apis=("responses",), **settings)


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("api", BOTH)
def test_a_reply_has_its_text_reasoning_calls_and_usage(api: str, stream: bool) -> None:
    calls = (("f", {"a": 1}), ("g", {"b": "größer" * 9}))
    say = Say("hello there", calls, extra={"reasoning_content": "Hm, well."})
    with Server(say, apis=BOTH) as server:
        seen, reply = complete(told(server, api=api, stream=stream), tools=TOOLS)
    assert reply.text == "hello there"
    assert reply.reasoning == "Hm, well."
    assert [(each.name, json.loads(each.arguments)) for each in reply.calls] == list(calls)
    assert reply.usage == Usage(1, 100, 60, 10)
    assert reply.finish == "tool_calls"
    assert reply.model == "tiny-1"
    if stream:
        shown = dict.fromkeys(("text", "reasoning"), "")
        for delta in seen:
            shown[delta.kind] += delta.text
        assert shown == {"text": "hello there", "reasoning": "Hm, well."}
