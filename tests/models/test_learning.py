"""Facts found out about endpoints over real HTTP: refusals, and how their models call tools."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.agent import Agent
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import Event, Notice, Usage, WireCall
from archytas_nb.models import refusal_table
from archytas_nb.models.negotiate import MOST_REQUESTS
from archytas_nb.run import Run
from tests.cassettes.tapes import no_model
from tests.models.talking import complete, told
from tests.servers.plays import Events, Raw, Say, Status
from tests.servers.server import Exchange, Server
from tests.servers.strict import complaint

pytestmark = pytest.mark.usefixtures("fresh")


TOOLS = ({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},)
SCHEMA = {"type": "object"}


@pytest.mark.parametrize(
    ("cannot", "wanted"),
    [
        ((), {"type": "json_schema", "json_schema": {"name": "action", "schema": SCHEMA}}),
        (("json_schema",), None),
    ],
)
def test_schema_support_is_detected_once(cannot: Any, wanted: Any) -> None:
    with Server(cannot=cannot) as server:
        model = told(server)
        complete(model, schema=SCHEMA)
        complete(told(server), schema=SCHEMA)
    assert len(server.chats) == len(cannot) + 2
    assert server.chats[-1].body.get("response_format") == wanted


def test_a_model_without_stop_texts_is_asked_without() -> None:
    with Server(cannot=["stop"], then=Say("fine")) as server:
        for _ in range(2):
            assert complete(told(server), stop=("\n",))[1].text == "fine"
    assert ["stop" in each.body for each in server.chats] == [True, False, False]


def test_unsupported_fields_are_left_out_from_then_on() -> None:
    for feature, gone in [
        ("stream_options", "stream_options"),
        ("stream", "stream_options"),
        ("max_tokens", "max_tokens"),
    ]:
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


def test_images_are_replaced_with_text_for_an_endpoint_without_vision() -> None:
    with Server(cannot=["images"], then=Say("fine")) as server:
        seen, reply = complete(told(server), messages=PICTURE)
        again, _ = complete(told(server), messages=PICTURE)
    assert reply.text == "fine"
    assert [each.text for each in seen if isinstance(each, Notice)] == [
        "the endpoint refused the request, so no images are sent, and a line of text in place of the others"
    ]
    assert not any(isinstance(each, Notice) for each in again)
    assert len(server.chats) == 3
    assert server.chats[-1].body["messages"] == [
        {"role": "user", "content": "What is this?\n[an image that this model cannot see]"}
    ]


def test_images_are_sent_to_an_endpoint_with_vision() -> None:
    with Server(then=Say("fine")) as server:
        complete(told(server), messages=PICTURE)
    assert server.chats[0].body["messages"] == list(PICTURE)


def test_a_limit_on_images_keeps_the_last_ones() -> None:
    two = Status(400, "At most 1 image(s) may be provided in one request.")
    with Server(two, then=Say("fine")) as server:
        complete(told(server), messages=PICTURE + PICTURE)
    first, last = server.chats[-1].body["messages"]
    assert first["content"] == "What is this?\n[an image that this model cannot see]"
    assert last == PICTURE[0]


def test_a_rejected_image_is_left_out_and_the_next_one_is_sent() -> None:
    other = {"type": "image_url", "image_url": {"url": "data:image/png;base64,BBBB"}}
    said = Status(400, "Invalid image: it could not be decoded")
    with Server(said, then=Say("fine")) as server:
        seen, _ = complete(told(server), messages=PICTURE)
        complete(told(server), messages=PICTURE)
        complete(told(server), messages=({"role": "user", "content": [other]},))
    assert len(notices(seen)) == 1
    texts = [{"role": "user", "content": "What is this?\n[an image that this model cannot see]"}]
    assert server.chats[1].body["messages"] == texts
    assert server.chats[2].body["messages"] == texts
    assert server.chats[3].body["messages"] == [{"role": "user", "content": [other]}]


def test_a_rejected_field_of_the_user_is_left_out_with_one_notice() -> None:
    with Server(cannot=["temperature"], then=Say("fine")) as server:
        seen, _ = complete(told(server, temperature=0, seed=1))
        again, _ = complete(told(server, temperature=0, seed=1))
    notices = [each for each in [*seen, *again] if isinstance(each, Notice)]
    assert notices == [
        Notice("form", "the endpoint refused the request, so 'temperature' is left out")
    ]
    assert len(server.chats) == 3
    assert "temperature" not in server.chats[-1].body
    assert server.chats[-1].body["seed"] == 1


def test_a_users_max_tokens_keeps_its_value_under_the_supported_name() -> None:
    with Server(cannot=["max_tokens"], then=Say("fine")) as server:
        for _ in range(2):
            seen, _ = complete(told(server, max_tokens=7), max_tokens=50)
            assert not any(isinstance(each, Notice) for each in seen)
    assert len(server.chats) == 3
    body = server.chats[-1].body
    assert (body["max_completion_tokens"], "max_tokens" in body) == (7, False)


def test_the_context_length_is_read_from_an_overflow() -> None:
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


def test_an_overflow_with_status_200_is_recognised() -> None:
    for prefix in ["data", "event: error\ndata"]:
        for error in [
            '{"error": {"code": 400, "message": "too long", "type": "exceed_context_size_error", "n_ctx": 4096}}',
            '{"error": {"message": "Trying to keep the first 9000 tokens when context the overflows."}}',
            '{"error": "Reached context length of 4096 tokens with model that does not support overflow"}',
        ]:
            for stream in [True, False]:
                play = (
                    Events((f"{prefix}: {error}",))
                    if stream
                    else Raw(error, 200, "application/json")
                )
                with Server(then=play) as server, pytest.raises(ModelError) as caught:
                    complete(told(server, stream=stream))
                assert caught.value.kind == "overflow"
                assert len(server.chats) == 1


def test_an_overflow_behind_a_gateway_is_recognised() -> None:
    behind = {"raw": '{"error": {"code": "context_length_exceeded"}}', "provider_name": "x"}
    error = {"error": {"message": "Provider returned error", "code": 400, "metadata": behind}}
    play = Raw(json.dumps(error), 400, "application/json")
    with Server(then=play) as server, pytest.raises(ModelError) as caught:
        complete(told(server))
    assert caught.value.kind == "overflow"


def test_a_request_beyond_the_token_rate_limit_is_an_overflow() -> None:
    said = "Request too large for tiny-1 on tokens per min (TPM): Limit 10000, Requested 20000."
    with Server(then=Status(429, said)) as server, pytest.raises(ModelError) as caught:
        complete(told(server))
    assert caught.value.kind == "overflow"
    assert len(server.chats) == 1


@pytest.mark.parametrize("cannot", [(), ("stream_options",)])
def test_usage_is_what_the_server_reports(cannot: Any) -> None:
    with Server(cannot=cannot, then=Say("fine")) as server:
        reply = complete(told(server))[1]
    assert reply.usage == (Usage(1) if cannot else Usage(1, 100, 60, 10))


def test_several_unsupported_features_are_detected_in_one_question() -> None:
    everything = ["json_schema", "json_object", "stream", "max_tokens"]
    with Server(cannot=everything, then=Say("fine")) as server:
        assert complete(told(server), schema=SCHEMA, max_tokens=9)[1].text == "fine"
        before = len(server.chats)
        complete(told(server), schema=SCHEMA, max_tokens=9)
    assert before <= len(everything) + 1
    assert len(server.chats) == before + 1


def test_an_unrelated_refusal_changes_nothing_and_reports_the_first_reason() -> None:
    refuses = Status(400, "temperature must be below 2")
    with Server(then=refuses) as server:
        with pytest.raises(ModelError, match="temperature must be below 2") as caught:
            complete(told(server, temperature=3), schema=SCHEMA)
        assert caught.value.kind == "refused"
        server.then = Say("fine")
        complete(told(server), schema=SCHEMA)
    assert server.chats[-1].body["response_format"]["type"] == "json_schema"


def test_an_endpoint_without_tools_uses_the_text_protocol() -> None:
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


def test_a_model_that_writes_calls_as_text_uses_the_text_protocol() -> None:
    for text in WRITTEN:
        with Server(Say(text, raw=True)) as server:
            model = told(server)
            assert complete(model, tools=TOOLS)[1].text == text
            assert model.protocol == told(server).protocol == "react"


def test_a_text_without_calls_does_not_change_the_protocol() -> None:
    for text in ["It is 42.", '{"name": "g", "arguments": {}}', '{"answer": 42}', "`f` finds it."]:
        with Server(Say(text, raw=True)) as server:
            complete(told(server), tools=TOOLS)
            assert told(server).protocol == "native"


def test_a_call_in_text_is_ignored_after_real_calls_or_without_tools() -> None:
    with Server(
        Say(WRITTEN[0], raw=True), Say(calls=(("f", {}),)), Say(WRITTEN[0], raw=True)
    ) as server:
        model = told(server)
        complete(model)
        complete(model, tools=TOOLS)
        complete(model, tools=TOOLS)
        assert model.protocol == "native"


def test_max_tokens_beyond_the_context_is_lowered() -> None:
    said = (
        "'max_tokens' is too large: 4096. This model's maximum context length is 4096 tokens and your request "
        "has 120 input tokens (4096 > 4096 - 120)."
    )
    with Server(Status(400, said)) as server:
        complete(told(server), max_tokens=4096)
        complete(told(server), max_tokens=4096)
    assert [asked.body["max_tokens"] for asked in server.chats] == [4096, 2048, 2048]


def test_a_prompt_that_fills_the_context_is_an_overflow() -> None:
    said = (
        "This model's maximum context length is 4096 tokens and your request has 4000 input tokens."
    )
    with Server(then=Status(400, said)) as server, pytest.raises(ModelError) as caught:
        complete(told(server), max_tokens=4096)
    assert caught.value.kind == "overflow"
    assert len(server.chats) == 1


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


def completions(server: Server) -> list[Any]:
    """The requests for chat completions; those to the Responses API were answered with 404."""
    return [each for each in server.chats if each.path.endswith("/chat/completions")]


def notices(seen: list[Any]) -> list[str]:
    return [each.text for each in seen if isinstance(each, Notice)]


def test_reasoning_is_turned_off_if_tools_require_it() -> None:
    for own in [{}, {"reasoning_effort": "high"}]:
        for said in REASONING:
            with Server(Status(400, said), then=Say("fine")) as server:
                seen, reply = complete(told(server, **own), tools=TOOLS)
                again, _ = complete(told(server, **own), tools=TOOLS)
                complete(told(server, **own))
            assert reply.text == "fine"
            [notice] = notices(seen)
            assert "reasoning_effort='none'" in notice
            assert notices(again) == []
            asked = completions(server)
            assert len(server.chats) == len(asked) + 1
            assert [each.body.get("reasoning_effort") for each in asked] == [
                own.get("reasoning_effort"),
                "none",
                "none",
                own.get("reasoning_effort"),
            ]
            assert "tools" in asked[1].body


@pytest.mark.parametrize(
    "second",
    [
        REASONING[0],
        "Unsupported value: 'reasoning_effort' does not support 'none' with this model.",
    ],
)
def test_the_text_protocol_is_used_if_tools_are_rejected_without_reasoning_too(
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
    asked = [each.body for each in completions(server)]
    assert [("tools" in each, "reasoning_effort" in each) for each in asked] == [
        (True, False), (True, True), (False, False)
    ]  # fmt: skip


class Picky(Server):
    """Refuses requests with certain fields.

    Attributes:
        refusal: Its answer to them.
        fields: The fields; a request is refused if it has all of them.
    """

    refusal: Status
    fields: frozenset[str]

    def answer(self, exchange: Exchange) -> None:
        if self.fields <= exchange.body.keys() and exchange.asked.path.endswith("/completions"):
            self.refusal.play(exchange)
        else:
            super().answer(exchange)


def test_an_effort_is_left_out_if_tools_are_rejected_with_every_effort() -> None:
    with Picky(then=Say("fine")) as server:
        server.refusal = Status(400, REASONING[0])
        server.fields = frozenset({"tools", "reasoning_effort"})
        seen, reply = complete(told(server, reasoning_effort="high"), tools=TOOLS)
    assert reply.text == "fine"
    assert notices(seen) == ["the endpoint refused the request, so 'reasoning_effort' is left out"]
    asked = [each.body for each in completions(server)]
    assert [each.get("reasoning_effort") for each in asked] == ["high", "none", None]
    assert "tools" in asked[-1]


@pytest.mark.parametrize("status", [400, 413, 415, 422, 500, 501])
def test_a_refusal_with_any_of_these_statuses_ends_in_a_form_that_is_accepted(status: int) -> None:
    with Picky(then=Say("fine")) as server:
        server.refusal = Status(status, "No.")
        server.fields = frozenset({"seed"})
        run = Agent([], told(server, seed=1), namespace={}).run("Is all well?")
    assert run.answer == "fine"
    assert len(server.chats) <= 2 + MOST_REQUESTS


def test_a_model_of_another_api_is_an_error_that_says_so() -> None:
    for more in [{"tools": TOOLS}, {"schema": {"type": "object"}}]:
        for status, said in OTHER_API:
            with Server(then=Status(status, said)) as server, pytest.raises(ModelError) as caught:
                complete(told(server), **more)
            assert caught.value.kind == "refused"
            assert "'tiny-1' through chat completions" in str(caught.value)
            assert "use another model" in str(caught.value)
            assert len(server.chats) <= 1 + MOST_REQUESTS


def test_other_refusals_do_not_mean_another_api() -> None:
    for said in [*REASONING, "The model `gpt-9` does not exist", "tools are not supported"]:
        assert not refusal_table.matches("other_api", said)


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


HINT = "Failed to call a function. Please adjust your prompt. See 'failed_generation' for more details."
MISMATCH = "tool call validation failed: parameters for tool add did not match schema: errors: [`/a`: got string]"


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


def test_a_call_in_a_refused_generation_is_run() -> None:
    for generation in GENERATIONS:
        for stream in [True, False]:
            with Server(refused(generation, stream=stream), then=Say("It is 3.")) as server:
                model = told(server, stream=stream)
                run = Agent([add], model, namespace={}).run("What is 1 + 2?")
                assert model.protocol == "native"
            assert run.answer == "It is 3."
            assert [(call.name, call.input) for call, _ in run.calls] == [("add", {"a": 1, "b": 2})]


def test_the_model_retries_if_no_call_can_be_read() -> None:
    for generation, message in [
        (None, MISMATCH),
        ("", HINT),
        ("Tool use failed: JSON does not match the expected schema", HINT),
        ('add{"a": 1, "b"', HINT),
    ]:
        for stream in [True, False]:
            for protocol in ["native", "react"]:
                plays = [refused(generation, message, stream=stream) for _ in range(2)]
                with Server(*plays, then=Say("It is 3.")) as server:
                    run = Agent(
                        [add], told(server, stream=stream), protocol=protocol, namespace={}
                    ).run("What is 1 + 2?")
                assert run.answer == "It is 3."
                assert list(run.calls) == []
                assert len(server.chats) == 3
                correction = server.chats[1].body["messages"][-1]
                assert correction["role"] == "user"
                assert (generation or message)[:40] in correction["content"]


def test_repeated_refused_generations_end_at_the_error_limit() -> None:
    with Server(then=refused("no call", stream=False)) as server:
        run = Agent([add], told(server, stream=False), max_errors=3, namespace={}).run(
            "What is 1 + 2?"
        )
    assert run.status == "stopped"
    assert len(server.chats) <= 5


@pytest.mark.parametrize("stream", [True, False])
def test_a_refused_json_reply_is_read_if_it_is_shown(stream: bool) -> None:
    text = '{"thought": "", "tool": "final_answer", "tool_input": "fine"'
    play = refused(text, "Failed to validate JSON.", "json_validate_failed", stream=stream)
    with Server(play) as server:
        reply = complete(told(server, stream=stream), schema={"type": "object"})[1]
    assert reply.text == text
    assert reply.usage.requests == 1
    assert len(server.chats) == 1


def test_a_refused_json_reply_is_retried_without_a_schema_if_not_shown() -> None:
    play = refused("", "Failed to generate JSON.", "json_validate_failed", stream=False)
    with Server(then=play) as server, pytest.raises(ModelError):
        complete(told(server, stream=False), schema={"type": "object"})
    kinds = [each.body.get("response_format", {}).get("type") for each in server.chats]
    assert kinds[:2] == ["json_schema", None]
    assert "json_schema" not in kinds[1:]


def test_calls_of_a_good_reply_are_untouched() -> None:
    with Server(Say(calls=(("add", {"a": 1}),))) as server:
        assert complete(told(server), tools=TOOLS)[1].calls == (WireCall("add", '{"a": 1}'),)


FENCED = 'I count them.\n```json\n{"name": "count", "arguments": {"fruit": "apples"}}\n```'
GIVEN = Say(calls=(("count", {"fruit": "apples"}),))


class Stock:
    """A tool, and how often it was run."""

    def __init__(self) -> None:
        self.asked: list[str] = []

    def agent(self, model: Any, **settings: Any) -> nb.Agent:
        """An agent with the tool."""

        def count(fruit: str) -> int:
            """Count the fruit in stock.

            Args:
                fruit: Which one
            """
            self.asked.append(fruit)
            return 3

        return nb.Agent([count], model=model, namespace={}, **settings)


def said(run: Run, kind: str) -> list[str]:
    return [each.text for each in run.events if isinstance(each, Notice) and each.kind == kind]


def test_a_run_switches_to_the_text_protocol_if_calls_are_written_as_text() -> None:
    stock = Stock()
    with Server(Say(FENCED, raw=True), then=Say("Three.")) as server:
        agent = stock.agent(told(server))
        run, again = agent.run("How many apples?"), agent.run("And now?")
    first, second, third = (chat.body for chat in server.chats)
    assert (run.answer, run.protocol, stock.asked) == ("Three.", "react", ["apples"])
    assert said(run, "protocol") == [
        "the model writes its calls into the text: continuing with the text protocol"
    ]
    assert "tools" in first
    assert "tools" not in second
    assert second["response_format"]["type"] == "json_schema", (
        "what cannot be bound as a call is bound as text"
    )
    assert "Outcome of count (done):\n3" in str(second["messages"][-1]["content"])
    assert (again.answer, again.protocol, said(again, "protocol")) == ("Three.", "react", [])
    assert "tools" not in third
    assert [complaint(chat.body) for chat in server.chats] == [""] * 3


def test_a_run_with_real_calls_keeps_function_calling() -> None:
    stock = Stock()
    with Server(
        GIVEN, Say(FENCED.replace("apples", "pears"), raw=True), then=Say("Three.")
    ) as server:
        run = stock.agent(told(server)).run("How many?")
    assert (run.answer, run.protocol, stock.asked) == ("Three.", "native", ["apples", "pears"])
    assert all("tools" in chat.body for chat in server.chats)


def test_explicit_function_calling_is_kept() -> None:
    stock = Stock()
    with Server(Say(FENCED, raw=True), then=Say("Three.")) as server:
        run = stock.agent(told(server), protocol="native").run("How many apples?")
    assert (run.answer, run.protocol, stock.asked) == ("Three.", "native", ["apples"])


def test_a_limit_reached_while_switching_is_reported_once() -> None:
    with Server(Say(FENCED, raw=True), then=Say("Three, so far.")) as server:
        run = Stock().agent(told(server), max_steps=1).run("How many apples?")
    assert (run.status, run.answer, run.protocol) == ("stopped", "Three, so far.", "native")
    assert len(said(run, "limit")) == 1
    assert len(server.chats) == 2


def test_a_replay_of_the_switch_gives_the_same_run(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    events: list[list[Event]] = []
    with Server(Say(FENCED, raw=True), then=Say("Three.")) as server:
        for mode in ("record", "replay"):
            live = told(server) if mode == "record" else None
            model = CassetteModel(
                Cassette(path, mode), (lambda live=live: live) if live else no_model
            )  # type: ignore[arg-type]
            agent = Stock().agent(model)
            runs = [agent.run("How many apples?"), agent.run("And now?")]
            assert [run.protocol for run in runs] == ["react", "react"]
            events.append([event for run in runs for event in run.events])
    assert events[0] == events[1]
    assert len(server.chats) == 3
