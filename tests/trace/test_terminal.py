"""A run in a terminal: each line as soon as it is known, and none of them lost or said twice."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from archytas_nb.loop.events import (
    Answered,
    AskModel,
    CallOutcome,
    CallOutcomes,
    CheckAnswer,
    Event,
    Notice,
    RunCalls,
    ToolCall,
    Verdict,
)
from archytas_nb.trace.view import TraceView
from tests.trace.samples import HELLO, ask

Told = Callable[..., list[str]]

ONE, TWIN, OTHER = (
    ToolCall(f"q01s01c0{n}", name, {"n": 1}) for n, name in enumerate(("f", "f", "g"), 1)
)


def outcome(call: ToolCall, text: str) -> CallOutcome:
    return CallOutcome("done", text, call_id=call.id)


@pytest.fixture
def told(capsys: pytest.CaptureFixture[str]) -> Told:
    """Shows events, and gives back the lines that they have printed."""
    view = TraceView("q", mode="terminal")

    def show(*events: Event) -> list[str]:
        for event in events:
            view.on_event(event)
        return capsys.readouterr().out.splitlines()

    return show


def test_why_a_call_is_made_is_read_before_it_is_run(told: Told) -> None:
    """Who is asked whether it may run, and who waits for it, knows what it is for."""
    assert told(*ask(1), RunCalls(1, (ONE,), "I count.")) == ["   I count."]
    assert told(CallOutcomes((outcome(ONE, "1"),))) == ["1. f(n=1) → 1"]
    assert told(*ask(2), Answered("1.")) == ["", "1."]


def test_the_calls_and_notes_behind_the_first_outcomes_of_a_step_are_printed_too(
    told: Told,
) -> None:
    """Equal calls of one reply are run one after the other; an answer beside calls may not be accepted."""
    told(*ask(1), RunCalls(1, (ONE, OTHER), "I count."))
    first = told(CallOutcomes((outcome(ONE, "1"), outcome(OTHER, "2"))))
    assert first == ["1. f(n=1) → 1", "   g(n=1) → 2"]
    assert told(
        RunCalls(1, (TWIN,)), Notice("repeat", "f was not run: it is the same call again")
    ) == ["   ↺ repeat: f was not run: it is the same call again"]
    assert told(CallOutcomes((outcome(TWIN, "3"),))) == ["   f(n=1) → 3"]
    [refused] = told(CheckAnswer(1, "many"), Verdict("expected an integer"))
    assert refused == '   ✗ answer: "many" was not accepted: expected an integer'


def test_a_wait_is_printed_once_and_at_once(told: Told) -> None:
    retry = Notice("retry", "busy; trying again in 1 s")
    assert told(AskModel(1, HELLO), retry) == ["   … busy; trying again in 1 s"]
    assert told(*ask(1)[1:], RunCalls(1, (ONE,))) == []
    assert told(CallOutcomes((outcome(ONE, "1"),))) == ["1. f(n=1) → 1"]


def test_an_answer_at_once_is_all_that_is_printed(told: Told) -> None:
    assert told(*ask(1), Answered("Hello.")) == ["Hello."]
