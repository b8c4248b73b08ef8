"""Conversations survive everything that endpoints do to them.

Each fault is played by a real server in both protocols, streamed and not. After each, the next question must be
answered over a history that a strict server accepts, and the key must not be found anywhere.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import urlsplit

import pytest

from archytas_nb.agent import Agent
from archytas_nb.models import endpoint
from archytas_nb.models.endpoint import OpenAIModel
from tests.faults.conftest import forms
from tests.faults.talk import ADD, KEY, Talk, add
from tests.servers.plays import HTML, Drop, Events, Raw, Say, Status

both = pytest.mark.parametrize("talk", forms("openai", "responses", "anthropic"), indirect=True)
"""Over OpenAI's API and over Anthropic's."""


@both
@pytest.mark.parametrize(
    "play", [Status(429, "slow down"), Status(500), Status(503), Drop(), Say("Three.", cut=2)]
)
def test_a_failure_that_passes_is_tried_again_in_sight(talk: Talk, play: Any) -> None:
    talk.with_(play, then=Say("Three."))
    run = talk.ask()
    assert run.answer == "Three."
    assert len(talk.server.chats) == 2
    assert len(talk.retries) == 1
    assert urlsplit(talk.server.url).netloc in talk.retries[0]
    assert "Trying again (1 of 3) in 0.01 s" in talk.retries[0]
    talk.goes_on()


@both
@pytest.mark.parametrize(
    ("play", "kind", "move"),
    [
        (Status(429, "slow down"), "rate_limit", "Wait, or use another model or endpoint"),
        (Status(500, "out of memory"), "server", "the server's log"),
        (Drop(), "unreachable", "check the server's log"),
        (Say("Three.", cut=2), "unreachable", "check the server's log"),
    ],
)
def test_a_failure_that_stays_ends_after_three_retries(
    talk: Talk, play: Any, kind: str, move: str
) -> None:
    talk.with_(then=play)
    said = talk.fails(kind)
    assert talk.server.url in said
    assert move in said
    assert "Tried 4 times" in said
    tried_with_less = talk.server.chats[4:]  # a server that fails may refuse the request
    assert len(tried_with_less) == (kind == "server")
    assert [each.partition("Trying again ")[2] for each in talk.retries] == [
        f"({n} of 3) in {seconds} s" for n, seconds in enumerate((0.01, 0.02, 0.04), start=1)
    ]
    talk.goes_on()


@both
def test_a_failure_in_the_middle_of_a_run_keeps_what_was_done(talk: Talk) -> None:
    talk.with_(ADD, then=Status(500))
    talk.fails("server")
    assert [outcome.text for _, outcome in talk.errors[0].run.calls] == ["3"]  # type: ignore[attr-defined]
    talk.goes_on()
    assert "3" in json.dumps(talk.server.chats[-1].messages)


@both
@pytest.mark.parametrize(("header", "waits"), [("7", 7.0), ("0", 0.0)])
def test_a_wait_that_the_server_asks_for_is_kept(
    talk: Talk, slept: list[float], header: str, waits: float
) -> None:
    talk.with_(Status(429, headers={"Retry-After": header}), then=Say("Three."))
    assert talk.ask().answer == "Three."
    assert slept == [waits]
    assert talk.retries[0].endswith(f" in {waits:g} s" if waits else "(1 of 3)")
    talk.goes_on()


@both
def test_a_wait_that_is_too_long_is_not_waited_for(talk: Talk, slept: list[float]) -> None:
    talk.with_(then=Status(429, headers={"Retry-After": "3600"}))
    assert "to wait 3600 s" in talk.fails("rate_limit")
    assert slept == []
    assert len(talk.server.chats) == 1
    talk.goes_on()


@both
def test_a_quota_that_is_used_up_is_tried_once_again(talk: Talk, slept: list[float]) -> None:
    talk.with_(then=Status(429, "You exceeded your current quota", code="insufficient_quota"))
    assert "credit" in talk.fails("rate_limit")
    assert len(talk.server.chats) == 2
    assert [each >= 1 for each in slept] == [True]
    talk.goes_on()


@both
def test_a_quota_with_a_time_to_wait_is_a_limit(talk: Talk, slept: list[float]) -> None:
    said = "You exceeded your current quota, please check your plan. Please retry in 5.2s."
    talk.with_(Status(429, said, code="insufficient_quota"), then=Say("Three."))
    assert talk.ask().answer == "Three."
    assert slept == [5.2]
    talk.goes_on()


@both
def test_a_server_that_is_down_is_named_with_its_address(talk: Talk) -> None:
    talk.with_()
    talk.server.close()
    said = talk.fails("unreachable")
    assert f"no server answers at {talk.server.url!r}" in said
    assert f"Start it, or set {talk.agent.chosen_model().url_name}" in said
    assert len(talk.retries) == 3
    assert talk.agent.messages[1:] == []  # as if it had not been asked
    talk.kept_secret()


@both
def test_a_web_page_with_status_200_is_no_answer(talk: Talk) -> None:
    talk.with_(then=HTML)
    said = talk.fails("bad_reply")
    assert f"{talk.server.url!r} responded with a web page: 'It works!'" in said
    assert f"Set {talk.agent.chosen_model().url_name.split()[0]}" in said
    assert len(talk.server.chats) == 1
    talk.goes_on()


@pytest.mark.parametrize("elsewhere", [HTML, None])
def test_an_error_without_v1_in_the_url_names_the_longer_url(talk: Talk, elsewhere: Any) -> None:
    talk.with_(elsewhere=elsewhere)
    model = OpenAIModel("tiny-1", talk.server.root, KEY, stream=talk.stream)
    talk.agent = Agent([add], model, protocol=talk.protocol, namespace={})  # type: ignore[arg-type]
    said = talk.fails("not_found" if elsewhere is None else "bad_reply")
    assert f"Set OPENAI_BASE_URL, or base_url=, to {talk.server.url!r}, if that is" in said
    endpoint.close_clients(talk.server.root)


@both
def test_a_model_that_is_not_there_is_answered_with_those_that_are(talk: Talk) -> None:
    talk.with_(models=["tiny-2", "huge"])
    said = talk.fails("not_found")
    assert "'tiny-1'" in said
    assert "It serves 'tiny-2', 'huge'. Did you mean 'tiny-2'?" in said
    assert talk.server.url in said
    talk.kept_secret()


@both
def test_a_rejected_key_is_not_shown(talk: Talk) -> None:
    talk.with_(then=Status(401, f"Incorrect API key provided: {KEY}."))
    said = talk.fails("auth")
    assert f"Set {talk.agent.chosen_model().key_name}" in said
    assert len(talk.server.chats) == 1
    talk.goes_on()


@both
def test_an_error_inside_a_stream_is_an_error(talk: Talk) -> None:
    error = json.dumps({"error": {"message": "the GPU fell off", "code": 400}})
    play = Events((f"data: {error}",)) if talk.stream else Raw(error, 200, "application/json")
    talk.with_(then=play)
    assert "the GPU fell off" in talk.fails("refused")
    talk.goes_on()
