"""Ctrl-C at any moment: nothing is left running, and the next question works."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable
from typing import Any

import pytest

from archytas_nb.agent import Agent
from archytas_nb.errors import RunInterrupted
from archytas_nb.models.endpoint import OpenAIModel
from tests.faults.talk import KEY, Talk, add
from tests.servers.plays import Hang, Say, Status


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
    api = "responses" if talk.api == "responses" else "chat"
    model = OpenAIModel(None, talk.server.url, KEY, stream=talk.stream, api=api)
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
