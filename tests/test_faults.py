"""What endpoints, models, tools and people do to a conversation, and that it survives all of it.

Each fault is played by a real server in both protocols, streamed and not. After each, the next question must be
answered over a history that a strict server accepts, and the key must not be found anywhere.
"""

from __future__ import annotations

import json
import logging
import signal
import threading
import time
import traceback
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest

from archytas_nb.errors import ModelError, RunError, RunInterrupted
from archytas_nb.models import asking, openai_chat
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.models.openai_chat import OpenAIModel
from archytas_nb.react.events import Event, ModelReply, Notice, to_json
from archytas_nb.run import Run
from archytas_nb.session import Agent
from tests.servers.plays import HTML, Drop, Events, Hang, Ping, Raw, Say, Status
from tests.servers.server import Server
from tests.servers.strict import complaint

KEY = "sk-do-not-show-0123456789"
ADD = Say(calls=(("add", {"a": 1, "b": 2}),), thought="Adding.")


def add(a: int, b: int) -> int:
    """Add two numbers.

    Args:
        a: One.
        b: Another.
    """
    return a + b


def boom() -> int:
    """Fail."""
    raise RuntimeError("the disk is full")


def press_interrupt() -> str:
    """Do what Ctrl-C does."""
    signal.raise_signal(signal.SIGINT)
    return "not reached"


@dataclass
class Talk:
    """One conversation with a server of our own, and everything that was seen of it."""

    protocol: str
    stream: bool
    caplog: pytest.LogCaptureFixture
    server: Server = field(default_factory=Server)
    agent: Any = None
    events: list[Event] = field(default_factory=list)
    errors: list[BaseException] = field(default_factory=list)

    def with_(
        self, *plays: Any, timeout: float = 20.0, agent: dict[str, Any] | None = None, **server: Any
    ) -> Talk:
        self.server.close()
        self.server = Server(*plays, **server)
        model = OpenAIModel("tiny-1", self.server.url, KEY, timeout, stream=self.stream)
        settings: Any = {"protocol": self.protocol, "namespace": {}, **(agent or {})}
        self.agent = Agent([add, boom, press_interrupt], model, **settings)
        return self

    def ask(self, question: str = "What is 1 + 2?") -> Run:
        try:
            run: Run = self.agent.run(question, observers=[self.events.append])
        except (RunError, RunInterrupted) as error:
            self.errors.append(error)
            return error.run or Run(question)
        return run

    def fails(self, kind: str, question: str = "What is 1 + 2?") -> str:
        """Ask, expect this kind of failure, and return its message."""
        with pytest.raises(ModelError) as caught:
            self.agent.run(question, observers=[self.events.append])
        self.errors.append(caught.value)
        assert caught.value.kind == kind, str(caught.value)
        assert caught.value.run is not None
        assert caught.value.run.status == "failed"
        return str(caught.value)

    def goes_on(self) -> None:
        """The next question is answered over a valid history, and nothing has leaked."""
        self.server.plays.clear()
        self.server.then = Say("All is well.")
        run = self.ask("And now?")
        assert run.status == "answered", run.reason
        assert run.answer == "All is well."
        assert self.server.complaints == []
        assert complaint({"model": "tiny-1", "messages": self.agent.messages}) == ""
        self.kept_secret()

    def kept_secret(self) -> None:
        shown = [repr(self.agent.model), self.caplog.text, repr(self.events), json.dumps(to_json(self.events))]
        for error in self.errors:
            shown += [str(error), repr(error), repr(error.run), *traceback.format_exception(error)]  # type: ignore[attr-defined]
        assert KEY not in "\n".join(shown)

    @property
    def retries(self) -> list[str]:
        return [event.text for event in self.events if isinstance(event, Notice) and event.kind == "retry"]


@pytest.fixture(params=[(p, s) for p in ("react", "native") for s in (True, False)],
                ids=lambda p: f"{p[0]}-{'streamed' if p[1] else 'whole'}")  # fmt: skip
def talk(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> Iterator[Talk]:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(asking, "FIRST_WAIT", 0.01)
    capabilities_of.cache_clear()
    talk = Talk(*request.param, caplog)
    yield talk
    talk.server.close()
    openai_chat.close_clients(talk.server.url)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, without waiting."""
    waits: list[float] = []
    monkeypatch.setattr(asking.time, "sleep", waits.append)
    return waits


# ── the endpoint ──────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "play", [Status(429, "slow down"), Status(500), Status(503), Drop(), Say("Three.", cut=2)]
)
def test_a_failure_that_passes_is_tried_again_in_sight(talk: Talk, play: Any) -> None:
    talk.with_(play, then=Say("Three."))
    run = talk.ask()
    assert run.answer == "Three."
    assert len(talk.server.chats) == 2
    assert len(talk.retries) == 1
    assert talk.server.url in talk.retries[0]
    assert "Trying again in 0.01 s (1 of 3)" in talk.retries[0]
    talk.goes_on()


@pytest.mark.parametrize(
    ("play", "kind", "move"),
    [
        (Status(429, "slow down"), "rate_limit", "Wait, or use another model or endpoint"),
        (Status(500, "out of memory"), "server", "look at the server's log"),
        (Drop(), "unreachable", "look at the server's log"),
        (Say("Three.", cut=2), "unreachable", "look at the server's log"),
    ],
)
def test_a_failure_that_stays_ends_after_three_retries(talk: Talk, play: Any, kind: str, move: str) -> None:
    talk.with_(then=play)
    said = talk.fails(kind)
    assert talk.server.url in said
    assert move in said
    assert "Tried 4 times" in said
    assert len(talk.server.chats) == 4
    assert len(talk.retries) == 3
    talk.goes_on()


def test_a_failure_in_the_middle_of_a_run_keeps_what_was_done(talk: Talk) -> None:
    talk.with_(ADD, then=Status(500))
    talk.fails("server")
    assert [outcome.text for _, outcome in talk.errors[0].run.calls] == ["3"]  # type: ignore[attr-defined]
    talk.goes_on()
    assert "3" in json.dumps(talk.server.chats[-1].body["messages"])


@pytest.mark.parametrize(("header", "waits"), [("7", 7.0), ("0", 0.0)])
def test_a_wait_that_the_server_asks_for_is_kept(
    talk: Talk, slept: list[float], header: str, waits: float
) -> None:
    talk.with_(Status(429, headers={"Retry-After": header}), then=Say("Three."))
    assert talk.ask().answer == "Three."
    assert slept == [waits]
    assert f"Trying again in {waits:g} s" in talk.retries[0]
    talk.goes_on()


def test_a_wait_that_is_too_long_is_not_waited_for(talk: Talk, slept: list[float]) -> None:
    talk.with_(then=Status(429, headers={"Retry-After": "3600"}))
    assert "asks to wait 3600 s" in talk.fails("rate_limit")
    assert slept == []
    assert len(talk.server.chats) == 1
    talk.goes_on()


def test_a_quota_that_is_used_up_is_not_tried_again(talk: Talk) -> None:
    talk.with_(then=Status(429, "You exceeded your current quota", code="insufficient_quota"))
    assert "credit" in talk.fails("rate_limit")
    assert len(talk.server.chats) == 1
    talk.goes_on()


def test_a_server_that_is_down_is_named_with_its_address(talk: Talk) -> None:
    talk.with_()
    talk.server.close()
    said = talk.fails("unreachable")
    assert f"no server answers at {talk.server.url!r}" in said
    assert "Start it, or set OPENAI_BASE_URL" in said
    assert len(talk.retries) == 3
    assert talk.agent.messages[1:] == []  # as if it had not been asked
    talk.kept_secret()


def test_a_web_page_with_status_200_is_no_answer(talk: Talk) -> None:
    talk.with_(then=HTML)
    said = talk.fails("bad_reply")
    assert f"{talk.server.url!r} answered with a web page: 'It works!'" in said
    assert "Set OPENAI_BASE_URL" in said
    assert len(talk.server.chats) == 1
    talk.goes_on()


@pytest.mark.parametrize("elsewhere", [HTML, None])
def test_a_missing_v1_is_found_out(talk: Talk, elsewhere: Any) -> None:
    talk.with_(elsewhere=elsewhere)
    model = OpenAIModel("tiny-1", talk.server.root, KEY, stream=talk.stream)
    talk.agent = Agent([add], model, protocol=talk.protocol, namespace={})  # type: ignore[arg-type]
    said = talk.fails("not_found" if elsewhere is None else "bad_reply")
    assert f"The API is at {talk.server.url!r}" in said
    assert "set OPENAI_BASE_URL" in said
    openai_chat.close_clients(talk.server.root)


def test_a_model_that_is_not_there_is_answered_with_those_that_are(talk: Talk) -> None:
    talk.with_(models=["tiny-2", "huge"])
    said = talk.fails("not_found")
    assert "'tiny-1'" in said
    assert "It serves 'tiny-2', 'huge'. Did you mean 'tiny-2'?" in said
    assert talk.server.url in said
    talk.kept_secret()


def test_a_rejected_key_is_not_shown(talk: Talk) -> None:
    talk.with_(then=Status(401, f"Incorrect API key provided: {KEY}."))
    said = talk.fails("auth")
    assert "Set OPENAI_API_KEY" in said
    assert len(talk.server.chats) == 1
    talk.goes_on()


def test_a_conversation_that_is_too_long_is_recognised(talk: Talk) -> None:
    talk.with_(
        then=Status(400, "This model's maximum context length is 4096 tokens.", code="context_length_exceeded")
    )
    said = talk.fails("overflow")
    assert talk.server.url in said
    assert "too long" in said
    talk.goes_on()


@pytest.mark.parametrize("play", [Hang(), Say("Three, I think.", stall=True), Ping()])
def test_a_server_that_falls_silent_is_given_up(talk: Talk, play: Any) -> None:
    talk.with_(play, timeout=0.3)
    said = talk.fails("timeout")
    assert talk.server.url in said
    assert "0.3 s" in said
    assert "raise %config ArchytasNB.timeout" in said
    assert len(talk.server.chats) == 1
    assert talk.server.chats[0].left.wait(5)
    talk.agent.model.timeout = 20.0  # on a busy machine a good answer may take longer than that, too
    talk.goes_on()


def test_an_error_inside_a_stream_is_an_error(talk: Talk) -> None:
    error = json.dumps({"error": {"message": "the GPU fell off", "code": 400}})
    play = Events((f"data: {error}",)) if talk.stream else Raw(error, 200, "application/json")
    talk.with_(then=play)
    assert "the GPU fell off" in talk.fails("refused")
    talk.goes_on()


def test_an_endpoint_without_tools_is_spoken_to_in_text(talk: Talk) -> None:
    talk.with_(then=Say("Three."), cannot=["tools"], agent={"protocol": "auto"})
    run = talk.ask()
    assert run.answer == "Three."
    assert run.protocol == "react"
    assert len(talk.server.chats) == 2
    talk.goes_on()
    assert len(talk.server.chats) == 3  # it is remembered


def test_an_endpoint_that_cannot_bind_the_form_of_a_reply_is_asked_without(talk: Talk) -> None:
    talk.with_(then=Say("Three."), cannot=["json_schema", "json_object"])
    assert talk.ask().answer == "Three."
    assert len(talk.server.chats) == (3 if talk.protocol == "react" else 1)
    before = len(talk.server.chats)
    talk.goes_on()
    assert len(talk.server.chats) == before + 1


# ── the model ─────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    "given", ['{"a": 1, "b": ', "not json at all", '{"a": "one", "b": 2}', '{"a": 1}', '{"a": 1, "b": 2, "c": 3}']
)
def test_an_input_that_cannot_be_used_is_told_to_the_model(talk: Talk, given: str) -> None:
    talk.with_(Say(calls=(("add", given),)), then=Say("Three."))
    run = talk.ask()
    assert run.answer == "Three."
    assert len(talk.server.chats) == 2
    assert all(outcome.status == "error" for _, outcome in run.calls)
    told = json.dumps(talk.server.chats[1].body["messages"][-1])
    assert "add" in told or "a" in told
    talk.goes_on()


def test_a_tool_that_is_not_there_is_answered_with_those_that_are(talk: Talk) -> None:
    talk.with_(Say(calls=(("addd", {"a": 1, "b": 2}),)), then=Say("Three."))
    run = talk.ask()
    assert run.answer == "Three."
    assert "add" in json.dumps(talk.server.chats[1].body["messages"][-1])
    talk.goes_on()


@pytest.mark.parametrize("ids", ["good", "same", "empty", "none"])
def test_whatever_the_servers_ids_each_call_is_run_once_and_in_order(talk: Talk, ids: str) -> None:
    calls = (("add", {"a": 1, "b": 1}), ("add", {"a": 2, "b": 2}), ("add", {"a": 3, "b": 3}))
    talk.with_(Say(calls=calls if talk.protocol == "native" else calls[:1], ids=ids), then=Say("Done."))
    run = talk.ask()
    assert [outcome.text for _, outcome in run.calls] == ["2", "4", "6"][: len(run.calls)]
    assert len(run.calls) == (3 if talk.protocol == "native" else 1)
    talk.goes_on()


def test_an_empty_reply_is_told_to_the_model(talk: Talk) -> None:
    talk.with_(Say(), then=Say("Three."))
    assert talk.ask().answer == "Three."
    assert len(talk.server.chats) == 2
    talk.goes_on()


def test_a_model_that_stays_silent_ends_incomplete_with_a_reason(talk: Talk) -> None:
    talk.with_(then=Say())
    run = talk.ask()
    assert run.status == "stopped"
    assert run.incomplete
    assert run.reason == "max_errors=5"
    assert len(talk.server.chats) <= 6
    talk.goes_on()


@pytest.mark.parametrize("text", ["42", "true", '"three"', "[1, 2]", '{"x": 3}', "null"])
def test_a_reply_of_bare_json_ends(talk: Talk, text: str) -> None:
    talk.with_(then=Say(text, raw=True))
    run = talk.ask()
    assert run.status in ("answered", "stopped")
    assert len(talk.server.chats) <= 6
    talk.goes_on()


def test_a_reply_that_was_cut_off_for_its_length_is_not_taken_for_whole(talk: Talk) -> None:
    cut = Say('{"thought": "it is", "tool": "final_ans', raw=True, finish="length")
    talk.with_(cut, then=Say("Three."))
    assert talk.ask().answer == "Three."
    assert "cut off" in json.dumps(talk.server.chats[1].body["messages"][-1])
    talk.goes_on()


def test_a_tool_that_raises_is_told_to_the_model(talk: Talk) -> None:
    talk.with_(Say(calls=(("boom", {}),)), then=Say("The disk is full."))
    run = talk.ask()
    assert run.answer == "The disk is full."
    assert "the disk is full" in json.dumps(talk.server.chats[1].body["messages"][-1])
    talk.goes_on()


def test_a_model_that_calls_without_end_is_stopped_and_heard(talk: Talk) -> None:
    plays = [Say(calls=(("add", {"a": n, "b": n}),)) for n in range(4)]
    talk.with_(*plays, then=Say("I only got so far."), agent={"max_steps": 4})
    run = talk.ask()
    assert run.incomplete
    assert run.reason == "max_steps=4"
    assert run.answer == "I only got so far."
    assert len(talk.server.chats) == 5
    talk.goes_on()


def test_a_model_that_makes_the_same_call_without_end_is_stopped(talk: Talk) -> None:
    talk.with_(then=ADD)
    run = talk.ask()
    assert run.incomplete
    assert len(run.calls) == 1
    assert len(talk.server.chats) <= 21
    talk.goes_on()


def test_what_a_reasoning_model_thought_is_kept_apart_and_not_sent_back(talk: Talk) -> None:
    thinking = Say(calls=(("add", {"a": 1, "b": 2}),), extra={"reasoning_content": "Let me see, one and two."})
    talk.with_(thinking, then=Say("Three."))
    run = talk.ask()
    assert run.answer == "Three."
    replies = [event for event in run.events if isinstance(event, ModelReply)]
    assert replies[0].reasoning == "Let me see, one and two."
    assert "reasoning_content" not in json.dumps(talk.server.chats[1].body)
    talk.goes_on()


def test_the_tokens_of_a_run_are_added_up(talk: Talk) -> None:
    talk.with_(ADD, then=Say("Three."))
    usage = talk.ask().usage
    assert (usage.requests, usage.input_tokens, usage.cached_tokens, usage.output_tokens) == (2, 200, 120, 20)
    talk.goes_on()


# ── the person ────────────────────────────────────────────────────────────────────────────────────


def interrupt_when(ready: Callable[[], bool]) -> None:
    """Press Ctrl-C on the main thread as soon as something is so."""

    def press() -> None:
        deadline = time.monotonic() + 10
        while not ready() and time.monotonic() < deadline:
            time.sleep(0.01)
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)

    threading.Thread(target=press, daemon=True).start()


@pytest.mark.parametrize("play", [Hang(), Say("Three, I think.", stall=True)])
def test_an_interrupt_during_a_request_closes_the_connection(talk: Talk, play: Any) -> None:
    talk.with_(play)
    interrupt_when(lambda: len(talk.server.chats) == 1)
    run = talk.ask()
    assert run.status == "interrupted"
    assert isinstance(talk.errors[0], RunInterrupted)
    assert talk.server.chats[0].left.wait(5)
    talk.goes_on()


def test_an_interrupt_while_the_models_name_is_asked_for_ends_the_run(talk: Talk) -> None:
    talk.with_(models=None, elsewhere=Hang())
    model = OpenAIModel(None, talk.server.url, KEY, stream=talk.stream)
    talk.agent = Agent([add], model, protocol=talk.protocol, namespace={})  # type: ignore[arg-type]
    interrupt_when(lambda: len(talk.server.asked) == 1)
    assert talk.ask().status == "interrupted"
    assert isinstance(talk.errors[0], RunInterrupted)
    assert talk.server.asked[0].left.wait(5)
    talk.server.models = ["tiny-1"]
    talk.goes_on()


def test_an_interrupt_while_a_retry_is_waited_for_ends_the_run(talk: Talk) -> None:
    talk.with_(Status(429, headers={"Retry-After": "50"}))
    interrupt_when(lambda: len(talk.retries) == 1)
    assert talk.ask().status == "interrupted"
    assert len(talk.server.chats) == 1
    talk.goes_on()


def test_an_interrupt_in_a_tool_ends_the_run_with_each_call_accounted_for(talk: Talk) -> None:
    calls = (("add", {"a": 1, "b": 1}), ("press_interrupt", {}), ("add", {"a": 2, "b": 2}))
    talk.with_(Say(calls=calls if talk.protocol == "native" else calls[1:2]))
    run = talk.ask()
    assert run.status == "interrupted"
    wanted = ["done", "interrupted", "not_run"] if talk.protocol == "native" else ["interrupted"]
    assert [outcome.status for _, outcome in run.calls] == wanted
    assert len(talk.server.chats) == 1
    talk.goes_on()
