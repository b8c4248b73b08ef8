"""The file of what endpoints refused."""

from __future__ import annotations

import json
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Annotated, Any
from unittest.mock import patch

import pytest
from pydantic import Field

from archytas_nb import command
from archytas_nb.agent import Agent
from archytas_nb.errors import ArchytasError
from archytas_nb.models import learnt, remote
from archytas_nb.models.capabilities import Capabilities, capabilities_of, remember
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.models.features import Request, changes_of
from archytas_nb.models.learnt import Learnt
from tests.models.test_capabilities import ASK, OWN
from tests.servers.plays import Say, Status
from tests.servers.server import Server

pytestmark = pytest.mark.usefixtures("fresh")

FAR, HERE = "https://models.example.org/v1", "http://127.0.0.1:1/v1"
DAY = 86400.0


def test_what_was_learnt_is_used_by_the_next_process() -> None:
    request = Request(ASK, OWN, stream=True)
    form = Capabilities()
    found = [each for each in changes_of(request, form, "") if each.feature != "tools"]
    remember((FAR, "m", "openai"), form, found)
    capabilities_of.cache_clear()
    known = capabilities_of(FAR, "m", "openai")
    expected = form.with_changes(found)
    assert replace(known, changes=()) == replace(expected, changes=())
    assert capabilities_of(FAR, "other", "openai") == Capabilities()
    assert capabilities_of(FAR, "m", "anthropic").schema


def entry(base_url: str = FAR, age: float = 0.0, **changes: Any) -> Learnt:
    what = changes or {"stream": False}
    return Learnt(base_url, "m", "openai", "stream", "", "not streamed", what, time.time() - age)


@dataclass(frozen=True)
class Refuse:
    """A server that refuses each request whose body has one of some texts, in its own words."""

    texts: frozenset[str]
    words: str

    def play(self, exchange: Any) -> None:
        body = json.dumps(exchange.body)
        refuses = any(each in body for each in self.texts)
        play = Status(400, f"{self.words} {body[-300:]}") if refuses else Say("Noted.")
        play.play(exchange)


def test_the_file_has_names_and_no_values_and_only_its_owner_reads_it() -> None:
    canary = "canaryqxz"
    refused = Refuse(frozenset({'"stream": true', '"maxLength"'}), "Not that:")

    def note(text: Annotated[str, Field(max_length=99)]) -> str:
        """Note a text.

        Args:
            text: It.
        """
        return text + canary

    first_wait = patch.object(remote, "FIRST_WAIT_SECONDS", 0.001)
    with first_wait, Server(then=refused, strict=False) as server:
        model = OpenAIModel("tiny-1", base_url=server.url, api_key="key" + canary)
        agent = Agent([note], model, namespace={"held": canary})
        with suppress(ArchytasError):
            agent.run(f"Note {canary}, as held.")
    kept = learnt.file().read_text()
    assert learnt.entries()
    assert canary not in kept
    assert learnt.file().stat().st_mode & 0o077 == 0


def test_it_is_tried_again_after_a_week_and_on_this_machine_after_an_hour() -> None:
    for base_url, age, is_used in [
        (FAR, 6 * DAY, True), (FAR, 8 * DAY, False), (FAR, -DAY, False),
        (HERE, 1800, True), (HERE, 7200, False),
    ]:  # fmt: skip
        learnt.forget()
        learnt.remember([entry(base_url, age)])
        capabilities_of.cache_clear()
        assert capabilities_of(base_url, "m", "openai").stream is not is_used


def test_a_file_that_says_something_else_is_no_error() -> None:
    path = learnt.file()
    path.parent.mkdir(parents=True, exist_ok=True)
    good = entry()._asdict()
    for text in [
        "", "{", "[]", "7", '{"a": 1}', "[1, null]", json.dumps([{**good, "date": "x"}]),
        json.dumps([{**good, "changes": {"stream": None, "without": 3, "seen": True}}]),
        json.dumps([{**good, "more": 1}]),
    ]:  # fmt: skip
        path.write_text(text)
        capabilities_of.cache_clear()
        assert capabilities_of(FAR, "m", "openai") == Capabilities(), text


def test_doctor_shows_it_and_forgets_it(capsys: pytest.CaptureFixture[str]) -> None:
    learnt.remember([entry()])
    learnt.remember([entry(), entry(HERE)])
    assert len(learnt.entries()) == 2
    shown = command._learnt()
    assert "'m' at 'https://models.example.org/v1'" in shown
    assert "not streamed" in shown
    assert command.FORGET in shown
    assert command.main(["doctor", "--forget"]) == 0
    assert "2 features" in capsys.readouterr().out
    assert learnt.entries() == []
    assert command._learnt() == ""


def test_what_is_not_needed_after_all_is_dropped() -> None:
    learnt.remember([entry()])
    learnt.remember([], [entry().key])
    assert learnt.entries() == []
