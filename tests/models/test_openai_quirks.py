"""Refusals of hosted endpoints that are answered with another request, and those that can only be reported."""

from __future__ import annotations

from typing import Any

import pytest

from archytas_nb.agent import Agent
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import Notice
from archytas_nb.models import wording
from tests.models.talking import complete, told
from tests.servers.plays import Say, Status
from tests.servers.server import Server

pytestmark = pytest.mark.usefixtures("fresh")
TOOLS = ({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},)
REFUSED = (
    "Function tools with reasoning_effort are not supported for gpt-5.6 in /v1/chat/completions."
)
REASONING = [
    f"{REFUSED} Please use /v1/responses instead.",
    f"{REFUSED} To use function tools, use /v1/responses or set reasoning_effort to 'none'.",
]
NO_CHAT = "This is not a chat model and thus not supported in the v1/chat/completions endpoint."
AZURE = "The chatCompletion operation does not work with the specified model, gpt-5.1-codex-mini."
OTHER_API = [
    (404, "This model is only supported in v1/responses and not in v1/chat/completions."),
    (404, f"{NO_CHAT} Did you mean to use v1/completions?"),
    (400, f"{AZURE} Please choose different model and try again."),
    (
        400,
        "Unsupported legacy protocol: /v1/chat/completions is not supported. Please use /v1/responses.",
    ),
]


def notices(seen: list[Any]) -> list[str]:
    return [each.text for each in seen if isinstance(each, Notice)]


@pytest.mark.parametrize("said", REASONING)
@pytest.mark.parametrize("own", [{}, {"reasoning_effort": "high"}])
def test_tools_are_sent_without_reasoning_where_the_endpoint_takes_them_only_so(
    said: str, own: dict[str, Any]
) -> None:
    with Server(Status(400, said), then=Say("fine")) as server:
        seen, reply = complete(told(server, **own), tools=TOOLS)
        again, _ = complete(told(server, **own), tools=TOOLS)
        complete(told(server, **own))
    assert reply.text == "fine"
    [notice] = notices(seen)
    assert "reasoning_effort='none'" in notice
    assert notices(again) == []
    efforts = [each.body.get("reasoning_effort") for each in server.chats]
    assert efforts == [own.get("reasoning_effort"), "none", "none", own.get("reasoning_effort")]
    assert "tools" in server.chats[1].body


@pytest.mark.parametrize(
    "second",
    [
        REASONING[0],
        "Unsupported value: 'reasoning_effort' does not support 'none' with this model.",
    ],
)
def test_the_text_protocol_is_used_where_tools_are_refused_without_reasoning_too(
    second: str,
) -> None:
    def count(n: int) -> int:
        """Count.

        Args:
            n: A number
        """
        return n

    with Server(Status(400, REASONING[0]), Status(400, second), then=Say("fine")) as server:
        run = Agent([count], told(server), namespace={}).run("Is all well?")
    assert run.answer == "fine"
    assert [("tools" in each.body, "reasoning_effort" in each.body) for each in server.chats] == [
        (True, False), (True, True), (False, False)
    ]  # fmt: skip


@pytest.mark.parametrize(("status", "said"), OTHER_API)
@pytest.mark.parametrize("more", [{"tools": TOOLS}, {"schema": {"type": "object"}}])
def test_a_model_of_another_api_is_named_as_that_and_asked_once(
    status: int, said: str, more: dict[str, Any]
) -> None:
    with Server(then=Status(status, said)) as server, pytest.raises(ModelError) as caught:
        complete(told(server), **more)
    assert caught.value.kind == "refused"
    assert "'tiny-1' by chat completions" in str(caught.value)
    assert "name another model" in str(caught.value)
    assert len(server.chats) == 1


@pytest.mark.parametrize(
    "said", [*REASONING, "The model `gpt-9` does not exist", "tools are not supported"]
)
def test_other_refusals_do_not_mean_another_api(said: str) -> None:
    assert not wording.needs_other_api(said)


def test_fields_about_tools_are_sent_only_with_tools() -> None:
    own = {"parallel_tool_calls": False, "tool_choice": "required"}
    with Server(then=Say("fine")) as server:
        complete(told(server, **own), tools=TOOLS)
        complete(told(server, **own))
    assert {name: server.chats[0].body[name] for name in own} == own
    assert not own.keys() & server.chats[1].body.keys()


def test_a_refused_tool_choice_is_left_out_and_the_tools_are_kept() -> None:
    with Server(
        Status(400, "This model does not support this tool_choice"), then=Say("fine")
    ) as server:
        seen, _ = complete(told(server, tool_choice="required"), tools=TOOLS)
    assert "'tool_choice'" in notices(seen)[0]
    assert "tools" in server.chats[1].body
    assert "tool_choice" not in server.chats[1].body
