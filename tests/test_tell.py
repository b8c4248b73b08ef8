"""Messages of a person to an agent that works: trace, record, cassette and threads."""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.loop import events as ev
from archytas_nb.loop.record import Inbox
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.tool import Tool
from archytas_nb.trace import bundle
from archytas_nb.trace.fold import fold
from archytas_nb.trace.header import TellField

FIRST = "Only rows of 2020, <b>please</b>"
SECOND = "and round"


def agent_of(*texts: str, model: Any = None, protocol: Any = "react") -> nb.Agent:
    """An agent whose tool tells it these texts while it runs, in the place of a person."""
    agents: list[nb.Agent] = []

    def work(number: int) -> int:
        """Work.

        Args:
            number: Any
        """
        if number == 1:
            for text in texts:
                agents[0].tell(text)
        return number

    script = ScriptedModel(("work", {"number": 1}), ("work", {"number": 2}), ("final_answer", "ok"))
    tool = Tool.from_function(work)
    agents.append(nb.Agent([tool], model or script, protocol=protocol))
    return agents[0]


def said(run: Run, kind: str = "told") -> list[str]:
    """The texts of a run, in order."""
    return [each.text for each in run.events if isinstance(each, ev.Notice) and each.kind == kind]


def words(run: Run) -> list[Any]:
    """The messages of the user in the last request."""
    return [each["content"] for each in run.messages if each["role"] == "user"]


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_what_is_told_is_the_persons_message_before_the_next_request(protocol: str) -> None:
    agent = agent_of(FIRST, SECOND, protocol=protocol)
    run = agent.run("Work", progress=False)
    requests = [each for each in run.events if isinstance(each, ev.AskModel)]
    assert said(run) == [FIRST, SECOND]
    assert said(run, "late") == []
    text = f"{FIRST}\n\n{SECOND}"
    held = [any(each["content"] == text for each in asked.messages) for asked in requests]
    assert held == [False, True, True]
    assert requests[1].messages[-1] == {"role": "user", "content": text}
    roles = [each["role"] for each in requests[2].messages]
    pairs = list(itertools.pairwise(roles))
    assert ("user", "user") not in pairs
    assert agent.exchanges[0].steps[1].said == text
    shown = bundle(fold("Work", run.events))[0]
    assert "Only rows of 2020" in shown["text/plain"]
    assert "<b>please" not in shown["text/html"]


def test_it_is_recorded_and_replayed_without_a_person(tmp_path: Path) -> None:
    def ask(mode: Any, *texts: str) -> Run:
        script = ScriptedModel(
            ("work", {"number": 1}), ("work", {"number": 2}), ("final_answer", "ok")
        )
        model = CassetteModel(Cassette(tmp_path / "replies", mode), lambda: script)
        return agent_of(*texts, model=model).run("Work", progress=False)

    recorded = ask("record", FIRST, SECOND)
    data = (tmp_path / "replies").read_bytes()
    replayed = ask("replay")
    assert said(replayed) == said(recorded) == [FIRST, SECOND]
    assert replayed.messages == recorded.messages
    assert bundle(fold("Work", replayed.events)) == bundle(fold("Work", recorded.events))
    again = ask("auto")
    assert again.messages == recorded.messages
    assert (tmp_path / "replies").read_bytes() == data
    # Nobody is there in a test: a new recording keeps what was told in the old one.
    assert ask("record").messages == recorded.messages
    assert (tmp_path / "replies").read_bytes() == data


def test_what_comes_after_the_last_request_is_said_to_be_too_late() -> None:
    class Model(ScriptedModel):
        def complete(self, ask: ev.AskModel) -> Any:
            agents[0].tell("stop at ten")
            return super().complete(ask)

    agents = [nb.Agent([], Model(("final_answer", "It is done.")))]
    run = agents[0].run("Work", progress=False)
    assert said(run, "late") == ["stop at ten"]
    assert said(run) == []
    assert "too late" in bundle(fold("Work", run.events))[0]["text/plain"]
    with pytest.raises(RuntimeError, match="no question"):
        agents[0].tell("more")


@pytest.mark.parametrize(("text", "error"), [("", ValueError), (" \n", ValueError), (3, TypeError)])
def test_only_text_can_be_told(text: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="expected text"):
        nb.Agent([], ScriptedModel("x")).tell(text)


def test_it_is_saved_with_the_conversation(tmp_path: Path) -> None:
    agent = agent_of(FIRST)
    agent.run("Work", progress=False)
    agent.save(tmp_path / "talk.json")
    loaded = nb.Agent([], ScriptedModel(("final_answer", "yes")))
    loaded.load(tmp_path / "talk.json")
    run = loaded.run("More?", progress=False)
    assert FIRST in words(run)


def tell_until_it_ends(agent: nb.Agent, rng: random.Random, told: list[str]) -> Callable[[], None]:
    """Tell an agent numbered texts at any time until it refuses them."""

    def tell() -> None:
        while True:
            text = f"text {len(told)}"
            try:
                agent.tell(text)
            except RuntimeError:
                return
            told.append(text)
            time.sleep(rng.random() / 2000)

    return tell


def runs_with_texts(runs: int) -> None:
    """Each text that was accepted is told once or said to be late, and none twice, in order."""
    for seed in range(runs):
        rng = random.Random(seed)
        script = ScriptedModel(*[("work", {"number": n}) for n in (2, 3)], ("final_answer", "ok"))
        agent = agent_of(model=script)
        told: list[str] = []
        threads: list[threading.Thread] = []

        def observer(
            event: ev.Event, agent: nb.Agent = agent, rng: random.Random = rng,
            told: list[str] = told, threads: list[threading.Thread] = threads,
        ) -> None:  # fmt: skip
            if isinstance(event, ev.AskModel) and not threads:
                threads.append(threading.Thread(target=tell_until_it_ends(agent, rng, told)))
                threads[0].start()

        run = agent.run("Work", progress=False, observers=[observer])
        threads[0].join()
        assert [*said(run), *said(run, "late")] == told
        record = [step.said for step in agent.exchanges[0].steps if step.said]
        assert "\n\n".join(record) == "\n\n".join(said(run))
        assert run.status == "answered"


def test_every_text_has_exactly_one_outcome() -> None:
    runs_with_texts(200)


@pytest.mark.slow
def test_every_text_has_exactly_one_outcome_in_many_runs() -> None:
    runs_with_texts(10_000)


def test_the_field_sends_a_text_once_and_keeps_what_is_typed_next() -> None:
    inbox = Inbox()
    field = TellField(inbox, lambda: None)

    def enter() -> None:
        field._on_message(None, {"event": "submit"})

    field.widget.value = "before it begins"
    enter()
    assert field.close() == ["before it begins"]
    inbox.open()
    field.widget.value = " one "
    enter()
    field.clear()
    assert field.widget.value == ""
    enter()
    field.widget.value = "two"
    enter()
    field.widget.value = "two and more"
    field.clear()
    assert field.widget.value == "two and more"
    assert inbox.waiting == ("one", "two")
    assert inbox.take() == ["one", "two"]
    inbox.close()
    assert inbox.late == ()
    enter()
    assert field.close() == ["two and more"]
