"""The Responses API, asked over real HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from archytas_nb.agent import Agent
from archytas_nb.errors import ModelError, RunInterrupted
from archytas_nb.loop.events import AskModel, Notice, Usage
from archytas_nb.models.endpoint import OpenAIModel
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
    model = OpenAIModel("tiny-1", server.url, api="responses", stream=settings.pop("stream", True))
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
