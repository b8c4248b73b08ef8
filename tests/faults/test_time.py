"""Silence, and the end of the time that a run has."""

from __future__ import annotations

from typing import Any

import pytest

from archytas_nb.loop.limits import Limits
from tests.faults.talk import ADD, Talk
from tests.sampling import pairwise
from tests.servers.plays import Drip, Hang, Ping, Say, Status

SILENT = {"nothing": Hang(), "half a reply": Say("Three, I think.", stall=True), "pings": Ping()}
ENDLESS = {**SILENT, "a reply in drops": Drip(), "503": Status(503)}


def talks(plays: dict[str, Any]) -> Any:
    """Each play in both protocols and both streamed and not; the other combinations are slow."""
    cases = pairwise(plays, ("react", "native"), (True, False))
    params = [
        pytest.param(
            (protocol, stream), plays[name], marks=each.marks, id=f"{name}-{protocol}-{stream}"
        )
        for each in cases
        for name, protocol, stream in [each.values]
    ]
    return pytest.mark.parametrize(("talk", "play"), params, indirect=["talk"])


@talks(SILENT)
def test_a_server_that_falls_silent_is_given_up(talk: Talk, play: Any) -> None:
    talk.with_(play, timeout=0.3)
    said = talk.fails("timeout")
    assert talk.server.url in said
    assert "0.3 s" in said
    assert "raise ARCHYTAS_NB_TIMEOUT" in said
    [asked] = talk.server.received(1)
    assert asked.left.wait(30)
    talk.agent.chosen_model().timeout = (
        20.0  # on a busy machine a good answer may take longer than that, too
    )
    talk.goes_on()


@talks(ENDLESS)
def test_a_run_whose_time_is_over_stops_and_closes_the_connection(talk: Talk, play: Any) -> None:
    waits = {"max_retries": 1000} if isinstance(play, Status) else {}
    talk.with_(then=play, agent={"max_seconds": 0.7}, model=waits)
    run = talk.ask()
    assert (run.status, run.incomplete, run.reason) == ("stopped", True, "max_seconds=0.7")
    assert not talk.errors
    if not isinstance(play, Status):
        [asked] = talk.server.received(1)
        assert asked.left.wait(30)
    talk.agent.limits = Limits()
    talk.goes_on()


def test_what_had_come_before_the_time_was_over_is_not_lost(talk: Talk) -> None:
    talk.with_(Drip(0.01, 3), agent={"max_seconds": 2.0})
    run = talk.ask()
    assert run.answer == ("well well well " if talk.stream and talk.protocol == "native" else "")
    talk.agent.limits = Limits()
    talk.goes_on()


def test_a_failure_in_the_middle_of_a_run_that_outlasts_it_keeps_what_was_done(talk: Talk) -> None:
    talk.with_(ADD, then=Hang(), agent={"max_seconds": 2.5})
    run = talk.ask()
    assert run.reason == "max_seconds=2.5"
    assert [outcome.text for _, outcome in run.calls] == ["3"]
    talk.agent.limits = Limits()
    talk.goes_on()
