"""Generations that a server refused to pass on (Groq's ``tool_use_failed``) are read, or asked for again."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archytas_nb.agent import Agent
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import WireCall
from tests.models.talking import complete, told
from tests.servers.plays import Events, Raw, Say
from tests.servers.server import Server

pytestmark = pytest.mark.usefixtures("fresh")
HINT = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
MISMATCH = "tool call validation failed: parameters for tool add did not match schema: errors: [`/a`: got string]"
TOOLS = ({"type": "function", "function": {"name": "add", "parameters": {"type": "object"}}},)


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: Another.
    """
    return a + b


def refused(
    generation: str | None, message: str = HINT, code: str = "tool_use_failed", *, stream: bool
) -> Any:
    error: dict[str, Any] = {"message": message, "type": "invalid_request_error", "code": code}
    error |= {} if generation is None else {"failed_generation": generation}
    if stream:
        return Events(
            (f"event: error\ndata: {json.dumps({'error': {**error, 'status_code': 400}})}",)
        )
    return Raw(json.dumps({"error": error}), 400, "application/json")


GENERATIONS = [
    '<function=add>{"a": 1, "b": 2}</function>',
    '<tool-use>\n{"tool_calls": [{"function": {"name": "add"}, "parameters": {"a": 1, "b": 2}}]}',
    '```\n{"tool_calls": [{"name": "add", "arguments": {"a": 1, "b": 2}}]}\n```',
    '{"name": "add", "arguments": {"a": 1, "b": 2}}',
]


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("generation", GENERATIONS)
def test_a_call_in_a_refused_generation_is_run(generation: str, stream: bool) -> None:
    with Server(refused(generation, stream=stream), then=Say("It is 3.")) as server:
        model = told(server, stream=stream)
        run = Agent([add], model, namespace={}).run("What is 1 + 2?")
        assert model.protocol == "native"
    assert run.answer == "It is 3."
    assert [(call.name, call.input) for call, _ in run.calls] == [("add", {"a": 1, "b": 2})]


@pytest.mark.parametrize("protocol", ["native", "react"])
@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    ("generation", "message"),
    [(None, MISMATCH), ("", HINT), ("Tool use failed: JSON does not match the expected schema", HINT),
     ('add{"a": 1, "b"', HINT)],
)  # fmt: skip
def test_the_model_is_asked_again_where_no_call_can_be_read(
    generation: str | None, message: str, stream: bool, protocol: Any
) -> None:
    plays = [refused(generation, message, stream=stream) for _ in range(2)]
    with Server(*plays, then=Say("It is 3.")) as server:
        run = Agent([add], told(server, stream=stream), protocol=protocol, namespace={}).run(
            "What is 1 + 2?"
        )
    assert run.answer == "It is 3."
    assert list(run.calls) == []
    assert len(server.chats) == 3
    correction = server.chats[1].body["messages"][-1]
    assert correction["role"] == "user"
    assert (generation or message)[:40] in correction["content"]


def test_a_model_whose_generations_are_always_refused_ends_at_the_limit_of_errors() -> None:
    with Server(then=refused("no call", stream=False)) as server:
        run = Agent([add], told(server, stream=False), max_errors=3, namespace={}).run(
            "What is 1 + 2?"
        )
    assert run.status == "stopped"
    assert len(server.chats) <= 5


@pytest.mark.parametrize("stream", [True, False])
def test_a_refused_json_reply_is_read_where_it_was_generated(stream: bool) -> None:
    text = '{"thought": "", "tool": "final_answer", "tool_input": "fine"'
    play = refused(text, "Failed to validate JSON.", "json_validate_failed", stream=stream)
    with Server(play) as server:
        reply = complete(told(server, stream=stream), schema={"type": "object"})[1]
    assert reply.text == text
    assert reply.usage.requests == 1
    assert len(server.chats) == 1


def test_a_refused_json_reply_that_is_not_shown_is_asked_for_without_a_schema() -> None:
    play = refused("", "Failed to generate JSON.", "json_validate_failed", stream=False)
    with Server(then=play) as server, pytest.raises(ModelError):
        complete(told(server, stream=False), schema={"type": "object"})
    assert [each.body.get("response_format", {}).get("type") for each in server.chats] == [
        "json_schema", "json_object", None
    ]  # fmt: skip


def test_calls_of_a_good_reply_are_untouched() -> None:
    with Server(Say(calls=(("add", {"a": 1}),))) as server:
        assert complete(told(server), tools=TOOLS)[1].calls == (WireCall("add", '{"a": 1}'),)
