"""What the door to an endpoint finds out about it: what it does not take, and how much."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archytas_nb.errors import ModelError
from archytas_nb.loop.events import Notice, Usage
from tests.models.talking import complete, told
from tests.servers.plays import Events, Raw, Say, Status
from tests.servers.server import Server

pytestmark = pytest.mark.usefixtures("fresh")
TOOLS = ({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},)
SCHEMA = {"type": "object"}


@pytest.mark.parametrize(
    ("cannot", "wanted"),
    [
        ((), {"type": "json_schema", "json_schema": {"name": "action", "schema": SCHEMA}}),
        (("json_schema",), {"type": "json_object", "schema": SCHEMA}),
        (("json_schema", "json_object"), None),
    ],
)
def test_the_dialect_of_schemas_is_found_out_once(cannot: Any, wanted: Any) -> None:
    with Server(cannot=cannot) as server:
        model = told(server)
        complete(model, schema=SCHEMA)
        complete(told(server), schema=SCHEMA)
    assert len(server.chats) == len(cannot) + 2
    assert server.chats[-1].body.get("response_format") == wanted


@pytest.mark.parametrize(
    ("feature", "gone"),
    [
        ("stream_options", "stream_options"),
        ("stream", "stream_options"),
        ("max_tokens", "max_tokens"),
    ],
)
def test_what_an_endpoint_does_not_take_is_left_out_from_then_on(feature: str, gone: str) -> None:
    with Server(cannot=[feature], then=Say("fine")) as server:
        for _ in range(2):
            assert complete(told(server), max_tokens=50)[1].text == "fine"
    assert len(server.chats) == 3
    body = server.chats[-1].body
    assert gone not in body
    assert (body.get("max_completion_tokens") or body.get("max_tokens")) == 50
    assert body.get("stream", False) is (feature != "stream")


IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
PICTURE = ({"role": "user", "content": [{"type": "text", "text": "What is this?"}, IMAGE]},)


def test_an_endpoint_without_eyes_is_told_so_in_words_from_then_on() -> None:
    with Server(cannot=["images"], then=Say("fine")) as server:
        seen, reply = complete(told(server), messages=PICTURE)
        again, _ = complete(told(server), messages=PICTURE)
    assert reply.text == "fine"
    assert [each.text for each in seen if isinstance(each, Notice)] == [
        "the endpoint takes no images in a request: the others are replaced by a line of text"
    ]
    assert not any(isinstance(each, Notice) for each in again)
    assert len(server.chats) == 3
    assert server.chats[-1].body["messages"] == [
        {"role": "user", "content": "What is this?\n[an image that this model cannot see]"}
    ]


def test_an_endpoint_with_eyes_gets_the_images() -> None:
    with Server(then=Say("fine")) as server:
        complete(told(server), messages=PICTURE)
    assert server.chats[0].body["messages"] == list(PICTURE)


def test_a_bound_on_images_keeps_the_last_ones() -> None:
    two = Status(400, "At most 1 image(s) may be provided in one request.")
    with Server(two, then=Say("fine")) as server:
        complete(told(server), messages=PICTURE + PICTURE)
    first, last = server.chats[-1].body["messages"]
    assert first["content"] == "What is this?\n[an image that this model cannot see]"
    assert last == PICTURE[0]


def test_one_image_that_is_refused_is_an_error_and_the_next_one_is_sent() -> None:
    with Server(Status(400, "Invalid image: it could not be decoded"), then=Say("fine")) as server:
        with pytest.raises(ModelError, match="could not be decoded") as caught:
            complete(told(server), messages=PICTURE)
        assert caught.value.kind == "refused"
        complete(told(server), messages=PICTURE)
    assert server.chats[-1].body["messages"] == list(PICTURE)


def test_a_field_of_the_users_own_that_is_not_taken_is_given_up_in_sight_and_once() -> None:
    with Server(cannot=["temperature"], then=Say("fine")) as server:
        seen, _ = complete(told(server, temperature=0, seed=1))
        again, _ = complete(told(server, temperature=0, seed=1))
    notices = [each for each in [*seen, *again] if isinstance(each, Notice)]
    assert notices == [
        Notice("protocol", "the endpoint takes no 'temperature': it is asked without")
    ]
    assert len(server.chats) == 3
    assert "temperature" not in server.chats[-1].body
    assert server.chats[-1].body["seed"] == 1


def test_a_bound_of_the_users_own_keeps_its_value_under_the_name_that_is_taken() -> None:
    with Server(cannot=["max_tokens"], then=Say("fine")) as server:
        for _ in range(2):
            seen, _ = complete(told(server, max_tokens=7), max_tokens=50)
            assert not any(isinstance(each, Notice) for each in seen)
    assert len(server.chats) == 3
    body = server.chats[-1].body
    assert (body["max_completion_tokens"], "max_tokens" in body) == (7, False)


def test_the_context_is_known_once_the_endpoint_has_said_it() -> None:
    said = (
        "request (5021 tokens) exceeds the available context size (4096 tokens), try increasing it"
    )
    with Server(Status(400, said), then=Say("fine")) as server:
        model = told(server)
        assert model.context_tokens is None
        with pytest.raises(ModelError) as caught:
            complete(model)
        assert caught.value.kind == "overflow"
        assert model.context_tokens == told(server).context_tokens == 4096
        complete(model)
        assert model.context_tokens == 4096


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize(
    "error",
    [
        '{"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_ctx": 4096}}',
        '{"error": {"message": "Trying to keep the first 9000 tokens when context the overflows."}}',
        '{"error": "Reached context length of 4096 tokens with model that does not support overflow"}',
    ],
)
@pytest.mark.parametrize("prefix", ["data", "event: error\ndata", "error"])
def test_an_overflow_that_is_said_with_status_200_is_an_overflow(
    error: str, prefix: str, stream: bool
) -> None:
    play = Events((f"{prefix}: {error}",)) if stream else Raw(error, 200, "application/json")
    with Server(then=play) as server, pytest.raises(ModelError) as caught:
        complete(told(server, stream=stream))
    assert caught.value.kind == "overflow"
    assert len(server.chats) == 1


def test_an_overflow_behind_a_gateway_is_an_overflow() -> None:
    behind = {"raw": '{"error": {"code": "context_length_exceeded"}}', "provider_name": "x"}
    error = {"error": {"message": "Provider returned error", "code": 400, "metadata": behind}}
    play = Raw(json.dumps(error), 400, "application/json")
    with Server(then=play) as server, pytest.raises(ModelError) as caught:
        complete(told(server))
    assert caught.value.kind == "overflow"


def test_a_request_that_is_larger_than_a_minutes_tokens_is_an_overflow_and_not_waited_for() -> None:
    said = "Request too large for tiny-1 on tokens per min (TPM): Limit 10000, Requested 20000."
    with Server(then=Status(429, said)) as server, pytest.raises(ModelError) as caught:
        complete(told(server))
    assert caught.value.kind == "overflow"
    assert len(server.chats) == 1


@pytest.mark.parametrize("cannot", [(), ("stream_options",)])
def test_usage_is_what_the_server_reports_and_nothing_where_it_does_not(cannot: Any) -> None:
    with Server(cannot=cannot, then=Say("fine")) as server:
        reply = complete(told(server))[1]
    assert reply.usage == (Usage(1) if cannot else Usage(1, 100, 60, 10))


def test_several_things_that_an_endpoint_does_not_take_are_found_out_together() -> None:
    everything = ["json_schema", "json_object", "stream", "max_tokens"]
    with Server(cannot=everything, then=Say("fine")) as server:
        assert complete(told(server), schema=SCHEMA, max_tokens=9)[1].text == "fine"
        before = len(server.chats)
        complete(told(server), schema=SCHEMA, max_tokens=9)
    assert before <= len(everything) + 1
    assert len(server.chats) == before + 1


def test_a_refusal_for_another_reason_teaches_nothing_and_says_the_first_reason() -> None:
    refuses = Status(400, "temperature must be below 2")
    with Server(then=refuses) as server:
        with pytest.raises(ModelError, match="temperature must be below 2") as caught:
            complete(told(server, temperature=3), schema=SCHEMA)
        assert caught.value.kind == "refused"
        server.then = Say("fine")
        complete(told(server), schema=SCHEMA)
    assert server.chats[-1].body["response_format"]["type"] == "json_schema"


def test_an_endpoint_that_refuses_tools_is_remembered_as_one_for_text() -> None:
    with Server(cannot=["tools"]) as server:
        model = told(server)
        assert model.protocol == "native"
        with pytest.raises(ModelError) as caught:
            complete(model, tools=TOOLS)
        assert caught.value.kind == "no_tools"
        assert model.protocol == told(server).protocol == "react"
        assert told(server, model="tiny-2").protocol == "native"


WRITTEN = [
    '{"name": "f", "arguments": {}}',
    '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
    'I look it up.\n```json\n{"name": "f", "arguments": {}}\n```',
]


@pytest.mark.parametrize("text", WRITTEN)
def test_a_model_that_writes_its_calls_into_the_text_is_remembered_as_one_for_text(
    text: str,
) -> None:
    with Server(Say(text, raw=True)) as server:
        model = told(server)
        assert complete(model, tools=TOOLS)[1].text == text
        assert model.protocol == told(server).protocol == "react"


@pytest.mark.parametrize(
    "text", ["It is 42.", '{"name": "g", "arguments": {}}', '{"answer": 42}', "`f` finds it."]
)
def test_a_text_that_calls_no_tool_says_nothing_of_the_protocol(text: str) -> None:
    with Server(Say(text, raw=True)) as server:
        complete(told(server), tools=TOOLS)
        assert told(server).protocol == "native"


def test_a_call_in_a_text_means_nothing_where_calls_have_come_or_no_tools_were_sent() -> None:
    with Server(
        Say(WRITTEN[0], raw=True), Say(calls=(("f", {}),)), Say(WRITTEN[0], raw=True)
    ) as server:
        model = told(server)
        complete(model)
        complete(model, tools=TOOLS)
        complete(model, tools=TOOLS)
        assert model.protocol == "native"


def test_a_bound_above_the_models_room_is_lowered_and_the_prompt_is_kept() -> None:
    said = (
        "'max_tokens' is too large: 4096. This model's maximum context length is 4096 tokens and your request "
        "has 120 input tokens (4096 > 4096 - 120)."
    )
    with Server(Status(400, said)) as server:
        complete(told(server), max_tokens=4096)
        complete(told(server), max_tokens=4096)
    assert [asked.body["max_tokens"] for asked in server.chats] == [4096, 2048, 2048]


def test_a_prompt_that_leaves_no_room_is_an_overflow() -> None:
    said = (
        "This model's maximum context length is 4096 tokens and your request has 4000 input tokens."
    )
    with Server(then=Status(400, said)) as server, pytest.raises(ModelError) as caught:
        complete(told(server), max_tokens=4096)
    assert caught.value.kind == "overflow"
    assert len(server.chats) == 1
