"""Requests that an endpoint refuses, for their form or length, are sent in another form."""

from __future__ import annotations

import json

import pytest

from archytas_nb.loop.events import Notice
from archytas_nb.models.negotiate import MOST_REQUESTS
from tests.faults.conftest import forms
from tests.faults.talk import ADD, Talk
from tests.servers.plays import Say, Status

OVERFLOWS = {
    "openai": Status(
        400, "This model's maximum context length is 4096 tokens.", code="context_length_exceeded"
    ),
    "by code alone": Status(400, "Invalid request.", code="context_length_exceeded"),
    "llama.cpp": Status(400, "the request exceeds the available context size, try increasing it"),
    "lm studio": Status(500, "Trying to keep the first 9000 tokens when context the overflows."),
    "ollama": Status(500, "prompt too long; exceeded max context length by 123 tokens"),
    "anthropic": Status(400, "prompt is too long: 200001 tokens > 200000 maximum"),
    "a body that is too large": Status(413, "Request Entity Too Large"),
}

of_chat_completions = pytest.mark.parametrize("talk", forms("openai"), indirect=True)


def test_a_conversation_that_is_too_long_is_recognised(talk: Talk) -> None:
    for play in OVERFLOWS.values():
        talk.with_(then=play)
        said = talk.fails("overflow")
        assert talk.server.url in said
        assert "too long" in said
        assert len(talk.server.chats) <= 2 + MOST_REQUESTS  # shorter, and then with less
        talk.goes_on()


def test_another_refusal_is_not_taken_for_a_conversation_that_is_too_long(talk: Talk) -> None:
    for said in [
        "messages: at least one is required",
        "temperature must be below 2",
        "Unknown parameter: 'context_length'.",
    ]:
        talk.with_(then=Status(400, said))
        assert said in talk.fails("refused")
        talk.goes_on()


SEEN = (
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAQAAAC1HAwCAAAAC0lEQVR42mNkYAAAAAYAAjCB0C8AAAAASUVORK5CYII="
)


def test_an_endpoint_without_eyes_gets_words_and_is_asked_so_from_then_on(talk: Talk) -> None:
    talk.with_(then=Say("Three."), cannot=["images"])
    assert talk.ask(images=[SEEN]).answer == "Three."
    assert "[an image that this model cannot see]" in json.dumps(talk.server.chats[-1].messages)
    assert SEEN not in json.dumps(talk.server.chats[-1].messages)
    assert len(talk.server.chats) == 2
    talk.goes_on()
    assert len(talk.server.chats) == 3


def test_an_endpoint_with_eyes_gets_the_image(talk: Talk) -> None:
    talk.with_(then=Say("Three."))
    assert talk.ask(images=[SEEN]).answer == "Three."
    assert SEEN in json.dumps(talk.server.chats[0].messages)
    talk.goes_on()


@of_chat_completions
def test_a_reasoning_model_that_takes_neither_bound_nor_temperature_is_asked_without(
    talk: Talk,
) -> None:
    talk.with_(
        then=Say("Three."),
        cannot=["max_tokens", "temperature", "stream_options"],
        model={"temperature": 0},
    )
    assert talk.ask().answer == "Three."
    before = len(talk.server.chats)
    assert before == (4 if talk.stream else 3)
    assert "max_completion_tokens" in talk.server.chats[-1].body
    notices = [
        event.text for event in talk.events if isinstance(event, Notice) and event.kind == "form"
    ]
    assert len(notices) == 1
    assert "'temperature' is left out" in notices[0]
    assert ("tokens are not counted" in notices[0]) is talk.stream
    talk.goes_on()
    assert len(talk.server.chats) == before + 1


def test_an_endpoint_without_tools_is_spoken_to_in_text(talk: Talk) -> None:
    talk.with_(then=Say("Three."), cannot=["tools"], agent={"protocol": "auto"})
    run = talk.ask()
    assert run.answer == "Three."
    assert run.protocol == "react"
    assert len(talk.server.chats) == 2
    talk.goes_on()
    assert len(talk.server.chats) == 3  # it is remembered


def test_an_endpoint_that_cannot_bind_the_form_of_a_reply_is_asked_without(talk: Talk) -> None:
    talk.with_(then=Say("Three."), cannot=["json_schema"])
    assert talk.ask().answer == "Three."
    assert len(talk.server.chats) == (2 if talk.protocol == "react" else 1)
    before = len(talk.server.chats)
    talk.goes_on()
    assert len(talk.server.chats) == before + 1


def test_an_endpoint_without_a_system_prompt_reads_it_in_the_first_question(talk: Talk) -> None:
    talk.with_(ADD, then=Say("Three."), cannot=["system"])
    assert talk.ask().answer == "Three."
    first = talk.server.chats[-1].messages[0]
    assert first["role"] == "user"
    assert first["content"].startswith("You answer a data scientist")
    assert "What is 1 + 2?" in first["content"]
    assert len(talk.server.chats) == 3
    talk.goes_on()
    assert len(talk.server.chats) == 4  # it is remembered


@of_chat_completions
def test_a_reasoning_model_that_wants_its_thoughts_back_gets_them(talk: Talk) -> None:
    thinking = Say(calls=ADD.calls, extra={"reasoning_content": "One and two, I see."})
    talk.with_(thinking, then=Say("Three."), wants=["reasoning_content"])
    assert talk.ask().answer == "Three."
    native = talk.protocol == "native"
    assert len(talk.server.chats) == 2  # they go back without being asked for
    sent = [message.get("reasoning_content") for message in talk.server.chats[-1].messages]
    assert sent[2] == ("One and two, I see." if native else None)
    talk.goes_on()
    assert len(talk.server.chats) == 3


@of_chat_completions
def test_what_came_beside_a_call_goes_back_to_who_sent_it(talk: Talk) -> None:
    signed = Say(calls=(*ADD.calls, ("add", {"a": 2, "b": 2})), signature="c2lnbmVk")
    talk.with_(signed, then=Say("Three."), wants=["extra_content"])
    assert talk.ask().answer == "Three."
    assert len(talk.server.chats) == 2
    calls = [call for m in talk.server.chats[-1].messages for call in m.get("tool_calls", ())]
    if talk.protocol == "native":
        assert [call.get("extra_content") for call in calls] == [
            {"google": {"thought_signature": "c2lnbmVk"}},
            None,
        ]
    talk.goes_on()


@of_chat_completions
def test_a_call_that_nobody_signed_is_marked_so_where_a_signature_is_wanted(talk: Talk) -> None:
    talk.with_(ADD, then=Say("Three."), wants=["extra_content"])
    assert talk.ask().answer == "Three."
    assert len(talk.server.chats) == (3 if talk.protocol == "native" else 2)
    talk.goes_on()
    assert len(talk.server.chats) == (4 if talk.protocol == "native" else 3)
