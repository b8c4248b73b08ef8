"""The limits of a model's context and of a run's time, with a real server."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest

from archytas_nb.loop.events import Notice
from tests.faults.conftest import slept, talk  # noqa: F401 - fixtures
from tests.faults.talk import Talk
from tests.servers.plays import Hang, Play, Say, Status

FINE = Say("Fine.")


@dataclass(frozen=True)
class Narrow:
    """A server whose model accepts a limited number of characters.

    Attributes:
        most: Characters.
        then: What it does with what it takes.
        says: Whether it says how many tokens that are.
    """

    most: int
    then: Any = FINE
    says: bool = True

    def play(self, exchange: Any) -> None:
        size = len(json.dumps(exchange.body["messages"])) + len(
            json.dumps(exchange.body.get("tools", ""))
        )
        if size <= self.most:
            self.then.play(exchange)
            return
        limit = (
            f"maximum context length is {self.most // 4} tokens"
            if self.says
            else "context window is too small"
        )
        Status(400, f"This model's {limit}.", code="context_length_exceeded").play(exchange)


def long_talk(talk: Talk, questions: int = 6) -> None:  # noqa: F811
    """A long conversation."""
    for n in range(questions):
        talk.server.plays.append(Say(calls=(("add", {"a": n, "b": 1}),)))
        talk.server.plays.append(Say(f"It is {n + 1}. " + "This needs many words. " * 40))
        assert talk.ask(f"What is {n} + 1?").status == "answered"


def compactions(talk: Talk) -> list[str]:  # noqa: F811
    return [
        event.text
        for event in talk.events
        if isinstance(event, Notice) and event.kind == "compaction"
    ]


@pytest.mark.parametrize("says", [True, False])
def test_compacts_a_conversation_that_is_too_long_and_retries(
    talk: Talk,  # noqa: F811
    says: bool,
) -> None:
    talk.with_()
    long_talk(talk)
    size = len(json.dumps(talk.server.chats[-1].body["messages"]))
    talk.server.then = play = Narrow(size, says=says)
    chats = len(talk.server.chats)
    assert talk.ask("And what is 7 + 1?").answer == "Fine."
    [said] = compactions(talk)
    assert "the conversation is too long for the endpoint" in said
    assert len(talk.server.chats) > chats + 1
    assert "What is 0 + 1?" in json.dumps(talk.agent.messages), "the record has everything"
    # The next question begins where this one ended: it is not refused again.
    talk.events.clear()
    assert talk.ask("And now?").answer == "Fine."
    assert not any("the endpoint finds" in said for said in compactions(talk))
    assert talk.server.then == play
    talk.goes_on()


def test_fails_with_advice_if_compaction_is_not_enough(talk: Talk) -> None:  # noqa: F811
    talk.with_(then=Narrow(10))
    said = talk.fails("overflow")
    assert talk.server.url in said
    assert "Start over with agent.reset()" in said
    assert said.count("agent.reset()") == 1
    assert len(compactions(talk)) == 1
    talk.goes_on()


def test_an_overflow_during_a_run_keeps_its_steps(talk: Talk) -> None:  # noqa: F811
    calls: list[Play] = [
        Say(calls=(("add", {"a": n, "b": 1}),), thought="Adding. " * 150) for n in range(6)
    ]
    talk.with_(*calls, then=Narrow(6000))
    run = talk.ask()
    assert run.answer == "Fine."
    assert [outcome.text for _, outcome in run.calls] == [str(n + 1) for n in range(6)]
    assert len(compactions(talk)) == 1
    assert len(talk.agent.exchanges[0].steps) == 6
    talk.goes_on()


@pytest.mark.parametrize("play", [Hang(), Say("Three, I think.", stall=True)])
def test_a_request_that_exceeds_the_runs_time_makes_it_incomplete(talk: Talk, play: Any) -> None:  # noqa: F811
    talk.with_(play, agent={"max_seconds": 0.5})
    run = talk.ask()
    assert (run.status, run.incomplete, run.reason) == ("stopped", True, "max_seconds=0.5")
    assert len(talk.server.chats) == 1
    assert talk.server.chats[0].left.wait(5)
    talk.goes_on()
