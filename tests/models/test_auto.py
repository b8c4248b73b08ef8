"""What `protocol="auto"` finds out by itself: which wire form suits an endpoint, in a whole run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.loop.events import Event, Notice
from archytas_nb.run import Run
from tests.cassettes.tapes import no_model
from tests.models.talking import told
from tests.servers.plays import Say
from tests.servers.server import Server
from tests.servers.strict import complaint

pytestmark = pytest.mark.usefixtures("fresh")

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


def test_where_calls_are_written_into_the_text_the_run_goes_on_in_the_text_protocol() -> None:
    stock = Stock()
    with Server(Say(FENCED, raw=True), then=Say("Three.")) as server:
        agent = stock.agent(told(server))
        run, again = agent.run("How many apples?"), agent.run("And now?")
    first, second, third = (chat.body for chat in server.chats)
    assert (run.answer, run.protocol, stock.asked) == ("Three.", "react", ["apples"])
    assert said(run, "protocol") == [
        "the model writes its calls into the text: going on with the text protocol"
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


def test_where_calls_come_as_calls_it_stays_with_them() -> None:
    stock = Stock()
    with Server(
        GIVEN, Say(FENCED.replace("apples", "pears"), raw=True), then=Say("Three.")
    ) as server:
        run = stock.agent(told(server)).run("How many?")
    assert (run.answer, run.protocol, stock.asked) == ("Three.", "native", ["apples", "pears"])
    assert all("tools" in chat.body for chat in server.chats)


def test_who_asks_for_function_calling_keeps_it() -> None:
    stock = Stock()
    with Server(Say(FENCED, raw=True), then=Say("Three.")) as server:
        run = stock.agent(told(server), protocol="native").run("How many apples?")
    assert (run.answer, run.protocol, stock.asked) == ("Three.", "native", ["apples"])


def test_a_limit_that_is_reached_by_then_is_said_once() -> None:
    with Server(Say(FENCED, raw=True), then=Say("Three, so far.")) as server:
        run = Stock().agent(told(server), max_steps=1).run("How many apples?")
    assert (run.status, run.answer, run.protocol) == ("stopped", "Three, so far.", "native")
    assert len(said(run, "limit")) == 1
    assert len(server.chats) == 2


def test_a_recording_of_it_gives_the_same_runs(tmp_path: Path) -> None:
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
