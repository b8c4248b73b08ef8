"""The Responses API, asked over real HTTP."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.agent import Agent
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import recorded
from archytas_nb.errors import ModelError, RunInterrupted
from archytas_nb.loop.events import AskModel, Notice, Usage
from archytas_nb.magics.dry_run import DryRun
from archytas_nb.models import bounds
from archytas_nb.models.capabilities import Capabilities, capabilities_of
from archytas_nb.models.completion import NotACompletion, ServerError, from_body, from_stream
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.models.responses import ResponseBuilder, body_of
from archytas_nb.trace.fold import fold
from archytas_nb.trace.html import facts_of
from tests.models.talking import HELLO, complete, told
from tests.servers.plays import Events, Say, Status
from tests.servers.responses import Responses, events, response
from tests.servers.server import Server
from tests.world.world import call

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


# ── a run of ten steps ────────────────────────────────────────────────────────────────────────────


def look(at: int) -> str:
    """Look.

    Args:
        at: Where.
    """
    if at == 99:
        raise KeyboardInterrupt
    return f"seen {at}" * 50


def steps(count: int, first: int = 0) -> list[Say]:
    """Replies that reason and call, with one that only calls, and one with a text."""
    return [
        Say(
            thought="I look." if at % 3 == 0 else "",
            calls=(("look", {"at": at}), *((("look", {"at": -at}),) if at % 4 == 3 else ())),
            extra={} if at % 5 == 2 else {"reasoning_content": f"Thought {at}."},
        )
        for at in range(first, first + count)
    ]


def answer(text: str) -> Say:
    return Say(text, extra={"reasoning_content": f"So {text}."})


def reasoning(items: Any) -> list[Any]:
    return [each for each in items if each.get("type") == "reasoning"]


def agent(server: Server, **settings: Any) -> Agent:
    api, stream = settings.pop("api", "responses"), settings.pop("stream", True)
    model = OpenAIModel("tiny-1", server.url, api=api, stream=stream)
    return Agent([look], model, namespace={}, **settings)


@pytest.mark.parametrize("stream", [True, False])
def test_all_reasoning_of_ten_steps_goes_back_as_it_came(stream: bool) -> None:
    with server(*steps(10), answer("A"), *steps(2, 20), answer("B")) as http:
        it = agent(http, stream=stream)
        it.run("What?")
        it.run("And then?")
        issued = reasoning(http.responses.issued)
        assert len(issued) == 12
        for asked in http.chats:
            sent = reasoning(asked.body["input"])
            assert sent == issued[: len(sent)]
        assert len(sent) == len(issued) - 1  # all but that of the last answer
        assert http.complaints == []
        sent = [each for each in http.chats[-1].body["input"] if "id" in each]
        with_reasoning = [each for each in http.responses.issued if each in sent]
        assert sent == with_reasoning  # also messages and calls, in order


def test_calls_with_the_same_id_get_others() -> None:
    plays = [Say(calls=(("look", {"at": n}), ("look", {"at": -n})), ids="same") for n in (1, 2)]
    with server(*plays, answer("A")) as http:
        assert agent(http).run("What?").answer == "A"
        assert http.complaints == []


def test_items_are_sent_as_the_api_takes_them() -> None:
    """Without fields that are null, and without ids of calls that are too long."""

    class Odd(Responses):
        def items(self, message: Any) -> Any:
            found = super().items(message)
            for each in found:
                if "call_id" in each:
                    each["call_id"] = each["call_id"].ljust(65, "x")
            return [{**each, "status": None, "namespace": None} for each in found]

    with server(*steps(4), answer("A"), strict=False) as http:
        http.responses = Odd()
        assert agent(http).run("What?").answer == "A"
        sent = http.chats[-1].body["input"]
        assert len(reasoning(sent)) == 3
        assert not any(value is None for each in sent for value in each.values())
        calls = [each["call_id"] for each in sent if each.get("type") == "function_call"]
        outputs = [each["call_id"] for each in sent if "output" in each]
        assert calls == outputs
        assert len({*calls}) == 5
        assert max(map(len, calls)) <= 64


def test_items_with_the_same_id_get_others() -> None:
    """As behind gateways that count the items of each reply from 1."""

    class Anew(Responses):
        def items(self, message: Any) -> Any:
            self._count = 0
            return super().items(message)

    with server(*steps(3), answer("A"), strict=False) as http:
        http.responses = Anew()
        assert agent(http).run("What?").answer == "A"
        sent = http.chats[-1].body["input"]
        ids = [each["id"] for each in sent if "id" in each]
        assert len(ids) == len({*ids}) > 3
        contents = [each["encrypted_content"] for each in reasoning(http.responses.issued)]
        assert [each["encrypted_content"] for each in reasoning(sent)] == contents[:-1]


def test_reasoning_goes_back_after_an_interrupt_an_undone_question_and_a_file(
    tmp_path: Any,
) -> None:
    stopped = Say(calls=(("look", {"at": 99}),), extra={"reasoning_content": "Hm."})
    plays = [
        *steps(2),
        answer("A"),
        *steps(1, 5),
        stopped,
        *steps(1, 6),
        answer("B"),
        *steps(1, 8),
        answer("C"),
    ]
    with server(*plays) as http:
        it = agent(http)
        it.run("What?")
        first = reasoning(http.responses.issued)
        with pytest.raises(RunInterrupted):
            it.run("Stopped?")
        it.run("Undone?")
        assert it.forget_last() is not None
        it.save(tmp_path / "talk")
        other = agent(http)
        other.load(tmp_path / "talk")
        other.run("And then?")
        undone = ["Thought 6.", "So B."]
        kept = [
            each
            for each in reasoning(http.responses.issued)[:-1]
            if each["summary"][0]["text"] not in undone
        ]
        assert len(kept) == len(first) + 3
        assert reasoning(http.chats[-1].body["input"]) == kept
        assert http.complaints == []


def test_reasoning_goes_back_after_compaction() -> None:
    with server(*steps(10), answer("A"), models=["tiny-1"]) as http:
        it = agent(http, compaction="drop")
        it.model._capabilities("tiny-1").context_tokens = 3000
        it.run("What?")
        issued = reasoning(http.responses.issued)
        sent = reasoning(http.chats[-1].body["input"])
        assert 0 < len(sent) < len(issued) - 1
        assert sent == issued[-1 - len(sent) : -1]
        assert http.complaints == []


# ── what else an agent does ───────────────────────────────────────────────────────────────────────


def test_a_program_runs() -> None:
    programs = [
        Say(f"```python\n{code}\n```", raw=True, extra={"reasoning_content": f"I try {code}."})
        for code in ("x = look(at=1)\nshow(len(x))", "answer(len(x) + len(look(at=22)))")
    ]
    with server(*programs) as http:
        it = agent(http, protocol="program")
        assert it.run("How long?", output_type=int).value == 50 * (len("seen 1") + len("seen 22"))
        sent = http.chats[-1].body
        assert "tools" not in sent
        # Each report is a message of the user, before which the API drops all reasoning.
        assert [each["role"] for each in sent["input"]] == ["user", "assistant", "user"]
        assert "x = look(at=1)" in sent["input"][1]["content"]
        assert http.complaints == []


def test_an_agent_is_the_tool_of_another_one() -> None:
    asked = Say(
        calls=(("scout", {"question": "What is there?"}),), extra={"reasoning_content": "I ask."}
    )
    with server(asked, *steps(2), answer("inner"), answer("outer")) as http:
        tool = agent(http).as_tool("scout", "Looks.")
        outer = Agent([tool], OpenAIModel("tiny-1", http.url, api="responses"), namespace={})
        run = outer.run("What?")
        assert run.answer == "outer"
        assert run.usage.requests == 5
        issued = reasoning(http.responses.issued)
        assert [reasoning(each.body["input"]) for each in http.chats] == [
            [], [], issued[1:2], issued[1:3], issued[:1],
        ]  # fmt: skip
        output = http.chats[-1].body["input"][-1]
        assert (output["type"], output["output"]) == ("function_call_output", "inner")
        assert http.complaints == []


def test_each_row_of_a_map_is_a_conversation() -> None:
    with server(then=answer("A")) as http:
        it = Agent([], OpenAIModel("tiny-1", http.url, api="responses"), namespace={})
        rows = it.map(["x", "y", "z", "x"], "Topic?", store=None, progress=False, workers=2)
        assert [row["status"] for row in rows] == ["done"] * 4
        assert len(http.chats) == 3
        assert not any(reasoning(each.body["input"]) for each in http.chats)
        assert http.complaints == []


def test_no_value_is_sent() -> None:
    plays = [*steps(1), Say("It is {look_1}.", extra={"reasoning_content": "Now I know."})]
    with server(*plays, answer("Yes.")) as http:
        it = agent(http, values="none", protocol="native")
        assert it.run("What is it?").answer == f"It is {look(0)}."
        it.run("Sure?")
        sent = b"".join(each.raw for each in http.chats)
        assert b"seen" not in sent
        assert b"It is {look_1}." in sent
        assert len(reasoning(http.chats[-1].body["input"])) == 2
        assert http.complaints == []


def test_a_recorded_run_is_replayed_and_continued(tmp_path: Path) -> None:
    with server(*steps(2), answer("A"), then=answer("B")) as http:
        for questions in (["What?"], ["What?", "And then?"]):
            it = agent(http)
            it.model = recorded(it.model, cassette=Cassette(tmp_path / "talk.json"))
            runs = [it.run(each) for each in questions]
            assert "Responses API" in facts_of(fold(runs[0].question, runs[0].events))
        assert [run.answer for run in runs] == ["A", "B"]
        assert len(http.chats) == 4
        issued = reasoning(http.responses.issued)
        assert reasoning(http.chats[-1].body["input"]) == issued[:-1]
        assert http.complaints == []


# ── which API ─────────────────────────────────────────────────────────────────────────────────────

NAMES_IT = (
    "Function tools with reasoning_effort are not supported for this model in "
    "/v1/chat/completions. To use function tools, use /v1/responses."
)
UP = {
    "names it": (400, NAMES_IT),
    "only there": (404, "This model is only supported in v1/responses, not v1/chat/completions."),
    "in other words": (400, "Tools cannot be used together with reasoning here."),
    "the api": (400, "Please use the Responses API for this model."),
}


class Chatless(Server):
    """Serves chat completions only without tools or reasoning, and says so."""

    said = UP["names it"]

    def answer(self, exchange: Any) -> None:
        is_chat = exchange.asked.path.endswith("/chat/completions")
        effort = exchange.body.get("reasoning_effort")
        if is_chat and exchange.body.get("tools") and effort != "none":
            Status(*self.said).play(exchange)
        else:
            super().answer(exchange)


@pytest.mark.parametrize("words", UP)
@pytest.mark.parametrize("effort", ["auto", "high"])
def test_reasoning_with_tools_goes_up_to_responses(words: str, effort: str) -> None:
    with Chatless(apis=BOTH) as http:
        http.said = UP[words]
        _, reply = complete(told(http, effort=effort), tools=TOOLS)
        complete(told(http, effort=effort), tools=TOOLS)
        assert [each.path for each in http.chats] == [
            "/v1/chat/completions", "/v1/responses", "/v1/responses",
        ]  # fmt: skip
        assert reply.text == "All is well."
        if effort != "auto":
            assert http.chats[-1].body["reasoning"]["effort"] == effort
    capabilities_of.cache_clear()  # another process
    with_file = capabilities_of(http.url, "tiny-1", "openai")
    assert with_file.responses


@pytest.mark.parametrize("missing", [404, 405, 501, 400])
def test_without_responses_reasoning_is_given_up(missing: int) -> None:
    with Chatless(elsewhere=Status(missing, "no such route")) as http:
        for _ in range(2):
            _, reply = complete(told(http), tools=TOOLS)
            assert reply.text == "All is well."
        assert [each.path.rpartition("/")[2] for each in http.chats] == [
            "completions", "responses", "completions", "completions",
        ]  # fmt: skip
        assert http.chats[-1].body["reasoning_effort"] == "none"


@pytest.mark.parametrize("missing", [404, 405, 501])
def test_without_responses_chat_completions_are_used(missing: int) -> None:
    with Server(elsewhere=Status(missing, "no such route")) as http:
        model = told(http)
        model._capabilities("tiny-1").responses = True  # as learnt, or of a known host
        for _ in range(2):
            _, reply = complete(model, tools=TOOLS)
            assert reply.text == "All is well."
        assert [each.path.rpartition("/")[2] for each in http.chats] == [
            "responses", "completions", "completions",
        ]  # fmt: skip


def test_an_unknown_model_is_an_error_after_one_request_to_each_api() -> None:
    with Server(apis=BOTH) as http:
        model = told(http, model="other")
        model._capabilities("other").responses = True
        with pytest.raises(ModelError) as caught:
            complete(model, tools=TOOLS)
        assert caught.value.kind == "not_found"
        assert len(http.chats) == 2


@pytest.mark.parametrize("api", BOTH)
def test_the_api_that_is_set_is_the_only_one(api: str) -> None:
    with Server(apis=({*BOTH} - {api}), models=None) as http:
        with pytest.raises(ModelError):
            complete(told(http, api=api), tools=TOOLS)
        assert len({each.path for each in http.chats}) == 1


def test_a_conversation_goes_on_in_the_other_api() -> None:
    plays = [*steps(2), answer("A")]
    with server(*plays) as http:
        it = agent(http)
        it.run("What?")
        it.model = OpenAIModel("tiny-1", http.url, api="chat")
        http.apis = ("chat",)
        assert it.run("And then?").status == "answered"
        assert http.complaints == []
        assert "response_items" not in json.dumps(http.chats[-1].body)


@pytest.mark.parametrize(
    ("url", "model", "responses"),
    [
        ("https://api.openai.com/v1", "gpt-5.4", True),
        ("https://api.openai.com/v1", "o3-mini", True),
        ("https://api.openai.com/v1", "gpt-4.1-mini", False),
        ("https://api.openai.com/v1", "ft:gpt-4o:x", False),
        ("https://api.openai.com/v1", "gpt-5-chat-latest", False),
        ("https://api.example.com/v1", "gpt-5.4", False),
    ],
)
def test_openais_reasoning_models_are_asked_there(url: str, model: str, responses: bool) -> None:
    for api, expected in (("auto", responses), ("chat", False), ("responses", True)):
        asked = OpenAIModel(model, url, "sk-1", api=api).body(AskModel(1, HELLO, TOOLS))
        assert ("input" in asked, "messages" in asked) == (expected, not expected)


# ── streams ───────────────────────────────────────────────────────────────────────────────────────

MESSAGE = {
    "content": "So it is.",
    "reasoning_content": "Hm, well.",
    "tool_calls": [call("f", {"a": 1}, "c1"), call("g", {"b": "x\n" * 9}, "c2")],
}


def read(stream: list[Any], end: str = "") -> Any:
    lines = [f"event: {each.get('type')}\ndata: {json.dumps(each)}\n\n" for each in stream]
    flow = from_stream([("".join(lines) + end).encode()], ResponseBuilder)
    while True:
        try:
            next(flow)
        except StopIteration as ended:
            return ended.value


def without(name: str) -> Any:
    """Take a field out of all events."""

    def change(stream: list[Any]) -> list[Any]:
        return [{key: value for key, value in each.items() if key != name} for each in stream]

    return change


def only(*types: str) -> Any:
    return lambda stream: [each for each in stream if each["type"].endswith(types)]


def bare(stream: list[Any]) -> list[Any]:
    """Without the items in the last event."""
    last = stream[-1]
    return [*stream[:-1], {**last, "response": {**last["response"], "output": []}}]


def other_ids(stream: list[Any]) -> list[Any]:
    """Each event with another id of its item, as a gateway that encrypts them has it."""
    changed = []
    for number, each in enumerate(stream):
        each = {**each, **({"item_id": f"x{number}"} if "item_id" in each else {})}
        if "item" in each:
            each["item"] = {**each["item"], "id": f"y{number}"}
        changed.append(each)
    return changed


def twice(stream: list[Any]) -> list[Any]:
    """The end of each item two times."""
    again = [[each, each] if each["type"].endswith("item.done") else [each] for each in stream]
    return [each for pair in again for each in pair]


WAYS = {
    "no index": without("output_index"),
    "no ids": without("item_id"),
    "no numbers": without("sequence_number"),
    "only the end": only(".completed"),
    "only whole items": only("item.done", ".completed"),
    "no pieces": lambda stream: [each for each in stream if "delta" not in each],
    "no whole items": lambda stream: [each for each in stream if not each["type"].endswith("done")],
    "an empty end": bare,
    "other ids": other_ids,
    "twice": twice,
}


@given(st.lists(st.sampled_from(sorted(WAYS)), max_size=3, unique=True))
def test_a_reply_is_the_same_however_it_is_streamed(ways: list[str]) -> None:
    whole = response("m", Responses().items(MESSAGE), "tool_calls", (100, 60, 10))
    expected = from_body(json.dumps(whole), ResponseBuilder)
    stream = list(events(whole))
    for way in ways:
        stream = WAYS[way](stream)
    if "an empty end" in ways and {"only the end", "no whole items"} & {*ways}:
        return  # then there is nothing, or no reasoning to send back
    if "an empty end" in ways and "no pieces" in ways and "only the end" in ways:
        return
    reply = read(stream)
    assert (
        (reply.text, reply.reasoning)
        == (expected.text, expected.reasoning)
        == (
            MESSAGE["content"],
            MESSAGE["reasoning_content"],
        )
    )
    assert reply.calls == expected.calls
    assert (reply.finish, reply.usage) == ("tool_calls", expected.usage)
    sent = [each.get("encrypted_content") for each in reply.kept["response_items"]]
    assert sent == [each.get("encrypted_content") for each in whole["output"]]


@pytest.mark.parametrize("end", ["", "data: [DONE]\n\n"])
def test_a_stream_without_its_end_is_no_reply(end: str) -> None:
    whole = response("m", Responses().items(MESSAGE), "tool_calls", None)
    stream = list(events(whole))[:-1]
    for count in range(len(stream) + (end == "")):
        if stream[:count] and end and all(each["type"] != "x" for each in stream[:count]):
            begun = sum(each["type"].endswith("item.added") for each in stream[:count])
            done = sum(each["type"].endswith("item.done") for each in stream[:count])
            if begun == done > 0:  # whole items, and the server says that this is all
                assert read(stream[:count], end).kept
                continue
        with pytest.raises((EOFError, NotACompletion)):
            read(stream[:count], end)


@pytest.mark.parametrize(
    ("event", "status"),
    [
        ({"type": "error", "code": "server_error", "message": "oops"}, 500),
        ({"type": "error", "code": "rate_limit_exceeded", "message": "oops"}, 429),
        ({"type": "error", "error": {"code": "invalid_prompt", "message": "oops"}}, 400),
        ({"type": "error", "error": {"type": "invalid_request_error", "message": "oops"}}, 400),
        ({"type": "error", "code": "context_length_exceeded", "message": "oops"}, 400),
        ({"type": "error", "code": "upstream_error", "message": "oops"}, 500),
        ({"type": "error", "code": "another_word", "message": "oops"}, 500),
        ({"type": "response.failed", "response": {"error": {"message": "oops"}}}, 500),
        (
            {
                "type": "response.failed",
                "response": {
                    "status": "failed",
                    "error": {"code": "invalid_image", "message": "oops"},
                },
            },
            400,
        ),
    ],
)
def test_an_error_in_a_stream_is_raised(event: Any, status: int) -> None:
    whole = response("m", Responses().items(MESSAGE), "tool_calls", None)
    with pytest.raises(ServerError) as caught:
        read([*list(events(whole))[:4], event])
    assert (caught.value.status, caught.value.message) == (status, "oops")


def test_after_a_failure_of_the_server_the_same_request_is_sent_again() -> None:
    error = {"code": "upstream_error", "message": "Upstream request failed"}
    failed = {"type": "response.failed", "response": {"status": "failed", "error": error}}
    with server(Events((f"data: {json.dumps(failed)}",)), answer("A")) as http:
        assert agent(http).run("What?").answer == "A"
        first, second = http.chats
        assert first.body == second.body


@pytest.mark.parametrize("name", ["response.done", "response.completed", "response.other"])
def test_a_reply_ends_with_a_response_that_has_ended(name: str) -> None:
    whole = response("m", Responses().items(MESSAGE), "tool_calls", (100, 60, 10))
    stream = [*list(events(whole))[:-1], {"type": name, "response": whole}]
    assert (read(stream).text, read(stream).usage.cached_tokens) == (MESSAGE["content"], 60)
    for status in ("in_progress", "cancelled", "canceled"):
        stream[-1]["response"] = {**whole, "status": status}
        with pytest.raises(EOFError):
            read(stream)


def test_a_reply_that_was_interrupted_at_the_server_is_no_answer() -> None:
    whole = response("m", Responses().items({"content": "It is 4"}), "length", None)
    whole["incomplete_details"] = {"reason": "interrupted"}
    lines = tuple(f"data: {json.dumps(each)}" for each in events(whole))
    with server(Events(lines), answer("42")) as http:
        assert agent(http).run("What?").answer == "42"


@dataclass(frozen=True)
class HoldOpen:
    """Answer, and do not end the body."""

    text: str

    def play(self, exchange: Any) -> None:
        exchange.head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        message = {"content": self.text}
        if exchange.responses is None:
            choice = {"index": 0, "delta": message, "finish_reason": "stop"}
            exchange.event({"model": "tiny-1", "choices": [choice]})
            exchange.event("[DONE]")
        else:
            items = exchange.responses.items(message)
            for event in events(response("tiny-1", items, "stop", None)):
                exchange.event(event)
        exchange.wait_for_the_client_to_leave()
        exchange.break_off()


@pytest.mark.parametrize("api", BOTH)
def test_a_body_without_an_end_is_not_waited_for(api: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "_END_SECONDS", 0.05)
    with Server(HoldOpen("A"), answer("B"), apis=BOTH) as http:
        model = told(http, api=api, timeout=20)
        assert [complete(model)[1].text for _ in range(2)] == ["A", "B"]
        assert len(http.chats) == 2
        assert http.chats[0].left.wait(10)


@pytest.mark.parametrize("stream", [True, False])
def test_an_incomplete_reply_says_why(stream: bool) -> None:
    with server(Say("half of", finish="length"), Say("bad", finish="content_filter")) as http:
        model = told(http, api="responses", stream=stream)
        assert complete(model)[1].finish == "length"
        with pytest.raises(ModelError) as caught:
            complete(model)
        assert caught.value.kind == "refused"


def test_a_refusal_of_the_model_is_its_text() -> None:
    part = {"type": "refusal", "refusal": "I will not."}
    item = {"id": "m", "type": "message", "role": "assistant", "content": [part]}
    reply = read([{"type": "response.completed", "response": {"output": [item]}}])
    assert (reply.text, reply.finish) == ("I will not.", "stop")


# ── requests ──────────────────────────────────────────────────────────────────────────────────────

IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


def test_a_request_has_all_that_the_api_has() -> None:
    form = Capabilities(responses=True, strict=True)
    own = {
        "reasoning_effort": "low", "max_tokens": 5000, "verbosity": "low", "seed": 1,
        "tool_choice": {"type": "function", "function": {"name": "f"}},
    }  # fmt: skip
    ask = AskModel(1, ({"role": "system", "content": "Be brief."}, *HELLO), TOOLS, schema=CLOSED)
    body = body_of(ask, form, own)
    assert body["instructions"] == "Be brief."
    assert body["store"] is False
    assert body["include"] == ["reasoning.encrypted_content"]
    assert [(each["name"], each["strict"]) for each in body["tools"]] == [("f", True), ("g", False)]
    assert body["tool_choice"] == {"type": "function", "name": "f"}
    assert body["reasoning"] == {"summary": "auto", "effort": "low"}
    assert body["max_output_tokens"] == 5000
    assert body["text"]["verbosity"] == "low"
    assert body["text"]["format"]["schema"] == CLOSED
    assert body["seed"] == 1
    assert "tool_choice" not in body_of(replace(ask, step=2), form, own)


def test_images_of_a_result_stand_in_the_result() -> None:
    talk = (
        {"role": "user", "content": [{"type": "text", "text": "Look."}, IMAGE]},
        {"role": "assistant", "content": None, "tool_calls": [call("f", {}, "q1")]},
        {"role": "tool", "tool_call_id": "q1", "content": "a plot"},
        {"role": "user", "content": [{"type": "text", "text": "The image of f:"}, IMAGE]},
    )
    form = Capabilities(responses=True)
    items = body_of(AskModel(2, talk), form, {})["input"]
    image = {"type": "input_image", "detail": "auto", "image_url": "data:image/png;base64,AAAA"}
    assert items[0]["content"][1] == image
    assert [each.get("text") for each in items[-1]["output"]] == ["a plot", "The image of f:", None]
    assert items[-1]["output"][-1] == image
    less = replace(form, without=frozenset({"output.images"}))
    items = body_of(AskModel(2, talk), less, {})["input"]
    assert (items[-2]["output"], items[-1]["role"]) == ("a plot", "user")


@pytest.mark.parametrize(
    "words",
    [
        "Unknown parameter: 'include'.", "Encrypted content is not supported with this model.",
        "Unsupported parameter: 'reasoning.summary' is not supported with this model.",
        "Your organization must be verified to generate reasoning summaries.", "Bad Request",
    ],
)  # fmt: skip
def test_what_a_gateway_lacks_of_the_api_is_left_out(words: str) -> None:
    lacks = "reasoning" if "summar" in words else "include"

    class Gateway(Server):
        def answer(self, exchange: Any) -> None:
            if lacks in exchange.body:
                Status(400, words).play(exchange)
            else:
                super().answer(exchange)

    with Gateway(apis=("responses",)) as http:
        model = told(http, api="responses")
        assert complete(model, tools=TOOLS)[1].text == "All is well."
        assert len(http.chats) == 2
        assert all(each.body["store"] is False for each in http.chats)


def test_reasoning_that_is_refused_is_not_sent_any_more() -> None:
    class Forgets(Server):
        def answer(self, exchange: Any) -> None:
            found = reasoning(exchange.body["input"])
            if found:
                said = (
                    f"Item with id '{found[0]['id']}' not found. Items are not persisted when "
                    "`store` is set to false. Try again with `store` set to true, or remove this "
                    "item from your input."
                )
                Status(404, said).play(exchange)
            else:
                super().answer(exchange)

    with Forgets(*steps(2), answer("A"), apis=("responses",)) as http:
        assert agent(http).run("What?").answer == "A"
        assert http.complaints == []
        assert all(each.body["store"] is False for each in http.chats)


def test_the_api_may_change_in_the_middle_of_a_run() -> None:
    class Later(Server):
        def answer(self, exchange: Any) -> None:
            if "messages" in exchange.body and len(self.chats) > 2:
                Status(400, NAMES_IT).play(exchange)
            else:
                super().answer(exchange)

    with Later(*steps(4), answer("A"), apis=BOTH, strict=False) as http:
        it = agent(http, api="auto")
        assert it.run("What?").answer == "A"
        paths = [each.path.rpartition("/")[2] for each in http.chats]
        assert paths == ["completions"] * 3 + ["responses"] * 3
        assert http.responses.complaint(http.chats[-1].body) == ""
        assert len(reasoning(http.chats[-1].body["input"])) == 1  # that of this API


def test_the_nearest_effort_is_used() -> None:
    words = "Unsupported value: 'max' is not supported. Supported values are: 'low', 'high'."

    class Low(Server):
        def answer(self, exchange: Any) -> None:
            body = exchange.body
            effort = body.get("reasoning_effort") or body.get("reasoning", {}).get("effort")
            if effort not in ("low", "high"):
                Status(400, words).play(exchange)
            else:
                super().answer(exchange)

    for api in BOTH:
        with Low(apis=BOTH) as http:
            seen, _ = complete(told(http, api=api, effort="max"))
            assert len(http.chats) == 2
            assert "'high'" in "".join(each.text for each in seen if isinstance(each, Notice))


def test_the_trace_says_which_api_was_used_and_shows_the_reasoning() -> None:
    with Server(answer("A"), answer("A"), apis=BOTH) as http:
        for api in BOTH:
            run = agent(http, api=api).run("What?")
            view = fold(run.question, run.events)
            assert ("Responses API" in facts_of(view)) is (api == "responses")
            assert view.steps[-1].reasoning == "So A."


def test_what_would_be_sent_is_shown_in_either_api() -> None:
    for api in BOTH:
        model = OpenAIModel("m", "http://127.0.0.1:9/v1", api=api)
        it = Agent([look], model, instructions="Be brief.", namespace={})
        ask = it.preview("Where is it?")
        shown = repr(DryRun(ask, (), model.body(ask)))
        for text in ("── system", "Be brief.", "── user", "Where is it?", '"look"'):
            assert text in shown
