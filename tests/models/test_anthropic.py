"""Anthropic's API, asked over real HTTP of a double that refuses what Anthropic refuses."""

from __future__ import annotations

import base64
import json
import logging
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

import pytest

pytest.importorskip("anthropic")

from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.agent import Agent
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import recorded
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.loop.conversation import messages_of
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Notice, Usage
from archytas_nb.loop.record import Exchange
from archytas_nb.models.anthropic import AnthropicBuilder, AnthropicModel, body_of
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.models.completion import from_stream
from tests.loop.cards import PROTOCOLS, Protocol, wire
from tests.loop.test_conversation import records
from tests.loop.test_protocols import exchanges
from tests.models.talking import HELLO, complete
from tests.servers.anthropic import AnthropicServer, complaint, signed
from tests.servers.plays import Drip, Events, Hang, Ping, Say, Status

pytestmark = pytest.mark.usefixtures("fresh")

KEY = "sk-ant-do-not-show-0123456789"
FIRST = Say(calls=(("add", {"a": 1, "b": 2}),), extra={"reasoning_content": "Adding helps."})
SECOND = Say(calls=(("add", {"a": 3, "b": 4}),), extra={"reasoning_content": "Once more."})
BUDGET = {"type": "enabled", "budget_tokens": 2000}


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("ANTHROPIC_API_KEY", "ANTHROPIC_BASE_URL", "ANTHROPIC_AUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)


def told(server: AnthropicServer, **settings: Any) -> AnthropicModel:
    return AnthropicModel("tiny-1", server.url, settings.pop("api_key", KEY), **settings)


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: Another.
    """
    return a + b


def pick(kind: Literal["a", "b"], names: dict[str, int]) -> str:
    """Pick.

    Args:
        kind: Which.
        names: Any.
    """
    return kind


def agent(server: AnthropicServer, *tools: Any, protocol: Any = "auto", **request: Any) -> Agent:
    made = told(server, **request)
    return Agent([*tools] or [add], made, protocol, namespace={}, context="none")


# ── one reply ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_comes_with_its_text_its_thinking_its_calls_and_its_usage(stream: bool) -> None:
    thought = {"reasoning_content": "It is a sum."}
    play = Say(calls=(("add", {"a": 1}), ("add", {})), thought="Let me see.", extra=thought)
    with AnthropicServer(play) as server:
        seen, reply = complete(told(server, stream=stream), tools=(_spec("add"),))
    assert (reply.text, reply.reasoning, reply.finish) == (
        "Let me see.", "It is a sum.", "tool_calls",
    )  # fmt: skip
    assert [(call.name, json.loads(call.arguments)) for call in reply.calls] == [
        ("add", {"a": 1}), ("add", {}),
    ]  # fmt: skip
    assert reply.usage == Usage(1, 100, 60, 10)
    assert reply.model == "tiny-1"
    assert reply.seconds > 0
    for kind, text in [("text", "Let me see."), ("reasoning", "It is a sum.")]:
        pieces = [each.text for each in seen if isinstance(each, Delta) and each.kind == kind]
        assert "".join(pieces) == (text if stream else "")
        assert (len(pieces) > 1) is stream


def test_a_stream_that_is_cut_into_pieces_anywhere_reads_the_same() -> None:
    play = Say(calls=(("add", {"a": "é"}),), thought="Sí.", extra={"reasoning_content": "Ø"})
    with AnthropicServer(play, then=play) as server:
        _, reply = complete(told(server), tools=(_spec("add"),))
    raw = _recorded_stream(play)
    for size in (1, 2, 3, 7, 64):
        chunks = [raw[at : at + size] for at in range(0, len(raw), size)]
        flow = from_stream(chunks, lambda: AnthropicBuilder(lambda **_: None))
        assert _last(flow) == reply
    for end in range(60, len(raw) - 160, 11):  # without the end of the message
        with pytest.raises(EOFError):
            _last(from_stream([raw[:end]], lambda: AnthropicBuilder(lambda **_: None)))


def test_maps_stop_reasons() -> None:
    for reason, finish in [
        ("end_turn", "stop"),
        ("max_tokens", "length"),
        ("model_context_window_exceeded", "length"),
        ("stop_sequence", "stop"),
        ("pause_turn", "stop"),
    ]:
        with AnthropicServer(Say("Well.", finish=reason)) as server:
            assert complete(told(server))[1].finish == finish


def test_a_refused_reply_is_an_error_and_its_calls_do_not_run() -> None:
    play = Say("I can", calls=(("add", {"a": 1}),), finish="content_filter")
    with (
        AnthropicServer(play) as server,
        pytest.raises(ModelError, match="content filter") as caught,
    ):
        complete(told(server), tools=(_spec("add"),))
    assert caught.value.kind == "refused"


def test_an_error_in_a_stream_has_the_status_of_its_type() -> None:
    for kind, expected, count in [
        ("overloaded_error", "server", 2),
        ("rate_limit_error", "rate_limit", 2),
        ("invalid_request_error", "refused", 2),  # and once with less
        ("authentication_error", "auth", 1),
    ]:
        error = {"type": "error", "error": {"type": kind, "message": "No."}}
        start = {"type": "message_start", "message": {"model": "m", "usage": {}}}
        lines = tuple(f"event: {each['type']}\ndata: {json.dumps(each)}" for each in (start, error))
        with AnthropicServer(then=Events(lines)) as server, pytest.raises(ModelError) as caught:
            complete(told(server, max_retries=1))
        assert caught.value.kind == expected
        assert len(server.chats) == count


@pytest.mark.parametrize(
    ("status", "text", "kind", "count"),
    [
        (401, "invalid x-api-key", "auth", 1),
        (403, "Your API key does not have permission", "auth", 1),
        (404, "model: claude-0", "not_found", 2),
        (413, "Request exceeds the maximum size", "overflow", 1),
        (400, "prompt is too long: 210000 tokens > 200000 maximum", "overflow", 1),
        (400, "Your credit balance is too low to access the Anthropic API.", "rate_limit", 3),
        (429, "This request would exceed your rate limit", "rate_limit", 2),
        (529, "Overloaded", "server", 2),
    ],
)
def test_errors_have_a_kind_and_name_the_variable_of_the_key(
    status: int, text: str, kind: str, count: int
) -> None:
    with AnthropicServer(then=Status(status, text)) as server:
        model = told(server, max_retries=1)
        with pytest.raises(ModelError) as caught:
            complete(model)
        assert (caught.value.kind, caught.value.status) == (kind, status)
        assert server.url in str(caught.value)
        assert ("Set ANTHROPIC_API_KEY" in str(caught.value)) is (kind == "auth")
        assert len(server.chats) == count
    assert model.context_tokens == (200000 if "200000" in text else None)


@pytest.mark.parametrize("play", [Hang(), Say("Three, I think.", stall=True), Drip(), Ping()])
def test_a_request_ends_at_its_deadline(play: Any) -> None:
    with AnthropicServer(play, then=Say("fine")) as server:
        with pytest.raises(ModelError) as caught:
            complete(told(server), seconds=1.0)
        assert caught.value.kind == "deadline"
        assert server.chats[0].left.wait(10)


def test_an_interrupt_closes_the_stream_at_the_server() -> None:
    with AnthropicServer(Say("first of all", stall=True), then=Say("fine")) as server:
        model = told(server)
        flow = model.complete(AskModel(1, HELLO))
        next(flow)
        with pytest.raises(KeyboardInterrupt):
            flow.throw(KeyboardInterrupt())
        assert server.chats[0].left.wait(5)
        assert complete(model)[1].text == "fine"


# ── the request ───────────────────────────────────────────────────────────────────────────────────


def test_sends_the_request_and_nothing_else() -> None:
    system = {"role": "system", "content": "Be brief."}
    with AnthropicServer() as server:
        model = told(server, stop_sequences=["x"], headers={"X-Team": "data"})
        complete(model, messages=(system, *HELLO), tools=(_spec("f"),), max_tokens=50)
    [asked] = server.chats
    mark = {"cache_control": {"type": "ephemeral"}}
    assert asked.body == {
        "model": "tiny-1",
        "max_tokens": 50,
        "system": [{"type": "text", "text": "Be brief.", **mark}],
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hello", **mark}]}],
        "tools": [
            {"name": "f", "input_schema": _spec("f")["function"]["parameters"], "strict": True}
        ],
        "stop_sequences": ["x"],
        "stream": True,
    }
    assert asked.headers["x-api-key"] == KEY
    assert asked.headers["x-team"] == "data"
    assert "authorization" not in asked.headers
    assert KEY not in json.dumps(asked.body)


def test_an_authorization_header_replaces_the_key() -> None:
    with AnthropicServer() as server, pytest.raises(ModelError):  # the double wants a key
        complete(told(server, api_key="", headers={"Authorization": "Bearer abc"}))
    assert server.chats[0].headers["authorization"] == "Bearer abc"
    assert "x-api-key" not in server.chats[0].headers


def test_a_base_url_may_contain_the_path_of_requests() -> None:
    with AnthropicServer() as server:
        for end in ("", "/", "/v1", "/v1/messages"):
            complete(AnthropicModel("tiny-1", server.url + end, KEY))
        assert told(server).served() == ["tiny-1"]
    assert {each.path.partition("?")[0] for each in server.asked} == {"/v1/messages", "/v1/models"}


def test_rejects_invalid_settings_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for settings, said in [
        ({}, "Set ANTHROPIC_API_KEY"),
        ({"api_key": "sk é"}, "into ANTHROPIC_API_KEY"),
        ({"api_key": "x", "timeout": 0}, "^timeout is 0"),
        ({"api_key": "x", "system": "Be brief."}, "instructions="),
        ({"api_key": "x", "messages": []}, "^'messages' is not a"),
    ]:
        with pytest.raises(ConfigurationError, match=said):
            AnthropicModel("m", **settings)
    monkeypatch.setitem(sys.modules, "anthropic", None)
    with pytest.raises(ConfigurationError, match=r"pip install .*anthropic"):
        complete(AnthropicModel("m", "http://127.0.0.1:9", "x"))


def test_anthropic_is_imported_with_the_first_request_only() -> None:
    code = (
        "import sys; from archytas_nb import AnthropicModel;"
        "m = AnthropicModel('m', 'http://127.0.0.1:9', 'k'); repr(m), m.protocol, m.is_small, m.context_tokens;"
        "sys.exit('anthropic' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_merges_messages_of_one_role_and_omits_empty_texts() -> None:
    pixel = base64.b64encode(b"png").decode()
    image = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{pixel}"}}
    calls = [_call("q01s01c01"), _call("q01s01c02")]
    messages = (
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [{"type": "text", "text": "See:"}, image]},
        {"role": "assistant", "content": None, "tool_calls": calls},
        {"role": "tool", "tool_call_id": "q01s01c01", "content": "3"},
        {"role": "tool", "tool_call_id": "q01s01c02", "content": "7"},
        {"role": "user", "content": [{"type": "text", "text": "The image of add:"}, image]},
    )
    body = body_of(AskModel(1, messages), capabilities_of("", "", "anthropic"), {})
    assert complaint(body) == ""
    roles = [
        (turn["role"], [block["type"] for block in turn["content"]]) for turn in body["messages"]
    ]
    assert roles == [
        ("user", ["text", "image"]),
        ("assistant", ["tool_use", "tool_use"]),
        ("user", ["tool_result", "tool_result", "text", "image"]),
    ]


@given(exchanges() | records(), st.sampled_from(PROTOCOLS), st.booleans(), st.data())
def test_any_conversation_becomes_a_valid_request(
    past: list[Exchange], protocol: Protocol, is_last: bool, data: Any
) -> None:
    past[-1].ending = None
    messages = tuple(messages_of(wire(protocol), past))
    calls = [at for at, message in enumerate(messages) if message.get("tool_calls")]
    thought = [signed("Hm."), {"type": "text", "text": "so"}]
    thoughtful = data.draw(st.sets(st.sampled_from(calls))) if calls else ()
    provider_metadata = {at: {"tool_calls": [{"anthropic": thought}]} for at in thoughtful}
    ask = AskModel(9, messages, max_tokens=99, provider_metadata=provider_metadata)
    ask = wire(protocol).with_actions(ask, None, last="max_steps=9" if is_last else "")
    before = json.dumps(ask.messages)
    body = body_of(ask, capabilities_of("", "", "anthropic"), {"thinking": BUDGET})
    assert complaint({"model": "m", **body}) == ""
    assert json.dumps(ask.messages) == before, "the history itself is not changed"
    sent = [block for turn in body["messages"] for block in turn["content"]]
    assert sum(block["type"] == "thinking" for block in sent) == (
        len(provider_metadata) if protocol == "native" else 0
    )


def test_at_most_three_cache_breakpoints_move_with_the_conversation() -> None:
    plays = [Say(calls=(("add", {"a": n, "b": 2}),)) for n in range(5)]
    with AnthropicServer(*plays, then=Say("done")) as server:
        agent(server).run("Add a lot.")
    for n, asked in enumerate(server.chats):
        body = asked.body
        assert "cache_control" in body["system"][-1]
        marked = [
            at
            for at, turn in enumerate(body["messages"])
            if "cache_control" in str(turn["content"])
        ]
        users = [at for at, turn in enumerate(body["messages"]) if turn["role"] == "user"]
        assert marked == users[-2:]
        if n:  # what was cached is a prefix of what is sent, but for the marks
            before = _unmarked(server.chats[n - 1].body["messages"])
            assert _unmarked(body["messages"])[: len(before)] == before
    assert server.complaints == []


def test_the_lifetime_of_the_cache_can_be_set_and_caching_turned_off() -> None:
    for marker, count in [({"type": "ephemeral", "ttl": "1h"}, 2), (None, 0)]:
        body = body_of(
            AskModel(1, ({"role": "system", "content": "x"}, *HELLO)),
            capabilities_of("", "", "anthropic"),
            {"cache_control": marker},
        )
        assert json.dumps(body).count(json.dumps(marker)) == count
        assert "cache_control" not in body


# ── what an endpoint may not take ─────────────────────────────────────────────────────────────────


def test_tools_are_strict_where_their_schemas_allow_it() -> None:
    with AnthropicServer() as server:
        agent(server, add, pick).run("Well?")
    strict = {tool["name"]: tool.get("strict", False) for tool in server.chats[0].body["tools"]}
    assert strict == {"add": True, "pick": False, "fail_task": True, "final_answer": False}


def test_strict_tools_stay_within_the_limits_of_a_request() -> None:
    optional = {"type": "object", "properties": {x: {"type": "string"} for x in "abcde"}}
    many = [_spec(f"t{n}", **optional) for n in range(10)] + [_spec(f"f{n}") for n in range(30)]
    with AnthropicServer() as server:
        complete(told(server), tools=tuple(many))
    tools = server.chats[0].body["tools"]
    assert len(tools) == 40
    assert sum("strict" in tool for tool in tools) == 20
    assert server.complaints == []


@pytest.mark.parametrize("feature", ["strict", "grammar", "cache_control", "thinking"])
def test_unsupported_features_are_left_out_after_the_first_refusal(feature: str) -> None:
    with AnthropicServer(then=Say("fine"), cannot=[feature]) as server:
        model = told(server, thinking={"type": "adaptive"})
        for _ in range(2):
            assert complete(model, tools=(_spec("f"),))[1].text == "fine"
    assert len(server.chats) == 3
    name = "strict" if feature == "grammar" else feature
    assert [f"'{name}'" in str(asked.body) for asked in server.chats] == [True, False, False]


def test_a_rejected_sampling_field_is_left_out_with_a_notice() -> None:
    for cannot, version in [(["temperature"], "2023-06-01"), ([], "2026-10-21")]:
        capabilities_of.cache_clear()
        with AnthropicServer(then=Say("fine"), cannot=cannot) as server:
            model = told(server, temperature=0, headers={"anthropic-version": version})
            seen, reply = complete(model)
            complete(model)
        assert reply.text == "fine"
        assert ["temperature" in asked.body for asked in server.chats] == [True, False, False]
        [notice] = [each.text for each in seen if isinstance(each, Notice)]
        assert "'temperature'" in notice


def test_the_schema_of_an_answer_is_sent_unless_it_is_rejected() -> None:
    for cannot, forms in [((), [True]), (["output_config"], [True, False])]:
        capabilities_of.cache_clear()
        with AnthropicServer(then=Say("All is well."), cannot=cannot) as server:
            assert agent(server, protocol="react").run("Well?").answer == "All is well."
        assert ["output_config" in asked.body for asked in server.chats] == forms


def test_max_tokens_is_lowered_to_fit_the_context() -> None:
    text = (
        "input length and `max_tokens` exceed context limit: 190000 + 16384 > 200000, decrease "
        "input length or `max_tokens` and try again"
    )
    with AnthropicServer(Status(400, text), then=Say("fine")) as server:
        assert complete(told(server), max_tokens=16384)[1].text == "fine"
    assert [asked.body["max_tokens"] for asked in server.chats] == [16384, 10000]


def test_max_tokens_is_always_sent_and_lowered_if_too_high() -> None:
    text = (
        "max_tokens: 16384 > 8192, which is the maximum allowed number of output tokens for tiny-1"
    )
    with AnthropicServer(Status(400, text), then=Say("fine")) as server:
        model = told(server)
        assert complete(model, max_tokens=16384)[1].text == "fine"
        complete(model)
        complete(told(server, thinking=BUDGET), max_tokens=1000)
    assert [asked.body["max_tokens"] for asked in server.chats] == [16384, 8192, 4096, 3000]


# ── thinking ──────────────────────────────────────────────────────────────────────────────────────


def test_thinking_without_text_is_sent_back_with_its_signature() -> None:
    play = Say(calls=(("add", {"a": 1, "b": 2}),), extra={"reasoning_content": [""]})
    with AnthropicServer(play, then=Say("3")) as server:
        assert agent(server, thinking=BUDGET).run("What is 1 + 2?").answer == "3"
    assert server.complaints == []
    assert server.chats[1].body["messages"][1]["content"][0] == signed("")


@pytest.mark.parametrize("stream", [True, False])
def test_thinking_is_sent_back_unchanged_within_a_run(stream: bool) -> None:
    with AnthropicServer(FIRST, SECOND, then=Say("7")) as server:
        talk = agent(server, thinking=BUDGET, stream=stream)
        run = talk.run("What is 3 + 4?")
        assert run.answer == "7"
        talk.run("And now?")
    assert server.complaints == []
    last = server.chats[2].body["messages"]
    blocks = [block for turn in last for block in turn["content"] if block["type"] == "thinking"]
    assert blocks == [signed("Adding helps."), signed("Once more.")]
    assert all(asked.body["thinking"] == BUDGET for asked in server.chats)
    assert "Adding helps." not in json.dumps(talk.messages)


def test_thinking_between_calls_keeps_its_position() -> None:
    play = Say(
        calls=(("add", {"a": 1, "b": 2}), ("add", {"a": 3, "b": 4})),
        thought="Two sums.",
        extra={"reasoning_content": ["One.", "Two."], "redacted": "c2VjcmV0"},
    )
    with AnthropicServer(play, then=Say("done")) as server:
        assert agent(server, thinking=BUDGET).run("Well?").answer == "done"
    assert server.complaints == []
    kinds = [block["type"] for block in server.chats[1].body["messages"][1]["content"]]
    assert kinds == ["redacted_thinking", "thinking", "text", "tool_use", "thinking", "tool_use"]


def test_thinking_is_not_sent_to_an_endpoint_that_rejects_its_signature() -> None:
    with AnthropicServer(FIRST, then=Say("3"), cannot=["signatures"]) as server:
        assert agent(server).run("What is 1 + 2?").answer == "3"
    assert ["signature" in str(asked.body) for asked in server.chats] == [False, True, False]


def test_thinking_enabled_within_a_run_starts_with_the_next_question() -> None:
    with AnthropicServer(Say(calls=(("add", {"a": 1, "b": 2}),)), then=Say("3")) as server:
        talk = agent(server, thinking=BUDGET)
        assert talk.run("What is 1 + 2?").answer == "3"
        talk.run("And now?")
    assert ["thinking" in asked.body for asked in server.chats] == [True, False, True]
    assert server.complaints == []


# ── in a conversation ─────────────────────────────────────────────────────────────────────────────


def test_a_run_that_reaches_a_limit_gets_its_last_turn_without_tools() -> None:
    with AnthropicServer(FIRST, FIRST, then=Say("I have 3.")) as server:
        talk = Agent([add], told(server), namespace={}, max_steps=2)
        run = talk.run("Go on.")
    assert run.answer == "I have 3."
    assert run.incomplete
    assert "tools" not in server.chats[-1].body
    assert server.complaints == []


def test_a_cassette_records_a_run_and_replays_it(tmp_path: Path) -> None:
    path = tmp_path / "talk.json"
    runs = []
    with AnthropicServer(FIRST, then=Say("3")) as server:
        for mode in ("record", "replay"):
            tape: Any = Cassette(path, mode)
            model = recorded(told(server, thinking=BUDGET), cassette=tape)
            runs.append(Agent([add], model, namespace={}).run("What is 1 + 2?"))
    assert len(server.chats) == 2
    assert runs[0].answer == runs[1].answer == "3"
    assert runs[0].usage == runs[1].usage
    assert KEY not in path.read_text("utf-8")


def test_a_replayed_run_that_continues_live_sends_the_recorded_thoughts_back(
    tmp_path: Path,
) -> None:
    path, gone = tmp_path / "talk.json", Status(401, "no")
    with AnthropicServer(FIRST, gone, Say("3"), then=Say("4")) as server:
        model = recorded(told(server, thinking=BUDGET), cassette=Cassette(path))
        with pytest.raises(ModelError):
            Agent([add], model, namespace={}).run("What is 1 + 2?")
        model = recorded(told(server, thinking=BUDGET), cassette=Cassette(path))
        talk = Agent([add], model, namespace={})
        assert [talk.run(text).answer for text in ("What is 1 + 2?", "And 2 + 2?")] == ["3", "4"]
    assert server.complaints == []
    # Thinking cannot begin within a run: the signed thoughts come from the cassette.
    assert ["thinking" in asked.body for asked in server.chats] == [True, True, True, True]


def test_ignores_absurd_token_counts() -> None:
    reply = AnthropicBuilder(lambda **_: None)
    usage = {"input_tokens": 10**4000, "output_tokens": 5}
    reply.add({"type": "message", "content": [], "usage": usage}, "")
    assert reply.build().usage == Usage(1, 0, 0, 5)


def test_the_cost_of_a_reply_includes_writes_to_the_cache(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def calc_price(usage: Any, model: str, provider_api_url: str) -> Any:
        fresh = usage.input_tokens - usage.cache_read_tokens - usage.cache_write_tokens
        paid = fresh + usage.cache_read_tokens / 10 + usage.cache_write_tokens * 1.25
        return SimpleNamespace(total_price=(paid + 5 * usage.output_tokens) / 1e6)

    module = SimpleNamespace(calc_price=calc_price, Usage=SimpleNamespace)
    monkeypatch.setitem(sys.modules, "genai_prices", module)
    with AnthropicServer() as server:
        _, reply = complete(told(server))
    assert reply.usage.usd == pytest.approx((39 + 6 + 1.25 + 50) / 1e6)


def test_the_key_is_in_no_log_at_any_level(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(1)
    with AnthropicServer(Say("fine"), then=Status(401, f"bad key {KEY}")) as server:
        complete(told(server))
        with pytest.raises(ModelError) as caught:
            complete(told(server))
    shown = "\n".join([*(each.getMessage() for each in caplog.records), str(caught.value)])
    assert KEY not in shown
    handlers = logging.getLogger("archytas_nb").handlers
    assert [each for each in handlers if not isinstance(each, logging.NullHandler)] == []


def _spec(name: str, **schema: Any) -> dict[str, Any]:
    schema = {"type": "object", "properties": {}, **schema, "additionalProperties": False}
    return {"type": "function", "function": {"name": name, "parameters": schema}}


def _call(id_: str) -> dict[str, Any]:
    function = {"name": "add", "arguments": '{"a": 1, "b": 2}'}
    return {"id": id_, "type": "function", "function": function}


def _unmarked(value: Any) -> Any:
    if isinstance(value, list):
        return [_unmarked(each) for each in value]
    if isinstance(value, dict):
        return {key: _unmarked(each) for key, each in value.items() if key != "cache_control"}
    return value


def _last(flow: Iterator[Any]) -> ModelReply:
    while True:
        try:
            next(flow)
        except StopIteration as ended:
            return ended.value  # type: ignore[no-any-return]


def _recorded_stream(play: Say) -> bytes:
    """The bytes of a stream in which the server plays this."""
    import urllib.request

    with AnthropicServer(play) as server:
        body = {
            "model": "tiny-1", "max_tokens": 9, "stream": True,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
            "tools": [{"name": "add", "input_schema": {"type": "object"}}],
        }  # fmt: skip
        headers = {"x-api-key": "k", "anthropic-version": "2023-06-01"}
        request = urllib.request.Request(
            f"{server.url}/v1/messages", json.dumps(body).encode(), headers
        )
        with urllib.request.urlopen(request) as response:
            return bytes(response.read())


# ── effort ────────────────────────────────────────────────────────────────────────────────────────


class Thinks(AnthropicServer):
    """Refuses some kinds of thinking."""

    refuses: tuple[str, ...] = ()
    said = "thinking: Input should be something else"

    def answer(self, exchange: Any) -> None:
        kind = exchange.body.get("thinking", {}).get("type", "none")
        if kind in self.refuses or exchange.body.get("output_config", {}).get("effort") == "max":
            Status(400, self.said).play(exchange)
        else:
            super().answer(exchange)


@pytest.mark.parametrize(
    ("refuses", "kind"),
    [((), "adaptive"), (("adaptive",), "enabled"), (("adaptive", "enabled"), None)],
)
def test_an_effort_is_sent_as_the_thinking_that_the_model_has(
    refuses: tuple[str, ...], kind: str | None
) -> None:
    with Thinks(then=Say("fine"), strict=False) as server:
        server.refuses = refuses
        for _ in range(2):
            assert complete(told(server, effort="high"), max_tokens=1000)[1].text == "fine"
        body = server.chats[-1].body
    assert body.get("thinking", {}).get("type") == kind
    assert body.get("output_config") == ({"effort": "high"} if kind == "adaptive" else None)
    assert body["max_tokens"] == (17384 if kind == "enabled" else 1000)


def test_the_nearest_effort_is_used() -> None:
    with Thinks(then=Say("fine"), strict=False) as server:
        server.said = "output_config.effort: Input should be 'low', 'medium' or 'high'"
        complete(told(server, effort="max"))
        assert server.chats[-1].body["output_config"] == {"effort": "high"}
        assert len(server.chats) == 2
        complete(told(server, effort="none"))
        assert server.chats[-1].body["thinking"] == {"type": "disabled"}
