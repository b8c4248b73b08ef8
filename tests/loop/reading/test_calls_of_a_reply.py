"""Replies with thousands of calls are limited, reported to the model and handled in linear time."""

from __future__ import annotations

import itertools
import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop import calls_made, loop
from archytas_nb.loop.events import (
    AskModel,
    CallOutcome,
    CallOutcomes,
    ModelReply,
    Notice,
    RunCalls,
    WireCall,
)
from archytas_nb.loop.limits import Guards, Limits
from archytas_nb.loop.loop import MAX_CALLS, react_loop
from archytas_nb.loop.reading.reply import Action
from archytas_nb.loop.record import Exchange, StepRecord, call_id
from tests.growth import assert_linear
from tests.loop.cards import over, wire


def step_of(action: Action) -> tuple[StepRecord, list[Any]]:
    """The step for a reply, and the requests until then."""
    form, exchange = wire("react"), Exchange("Well?")
    form.read = lambda *_, **__: action  # type: ignore[method-assign]
    flow = react_loop(form, Guards(Limits(), lambda: 0.0), (), exchange)
    next(flow)
    seen: list[Any] = []
    request = flow.send(ModelReply("a reply"))
    while not isinstance(request, AskModel):
        seen.append(request)
        reply = None
        if isinstance(request, RunCalls):
            reply = CallOutcomes(
                tuple(CallOutcome("done", "ok", call_id=call.id) for call in request.calls)
            )
        request = flow.send(reply)
    return exchange.steps[0], seen


def many(count: int, name: str = "look", same: bool = False) -> Action:
    return Action(calls=tuple((name, {"a": 0 if same else n}) for n in range(count)))


@over("same", [True, False])
def test_limits_the_calls_of_one_reply(same: bool) -> None:
    step, seen = step_of(many(2000, same=same))
    assert len(step.calls) == len(step.outcomes) == MAX_CALLS + 1
    assert step.outcomes[-1].text.startswith(f"{2000 - MAX_CALLS:,} calls, from this one on, were")
    assert step.outcomes[-1].text in [each.text for each in seen if isinstance(each, Notice)]
    assert not any("were not made" in outcome.text for outcome in step.outcomes[:-1])


def test_runs_the_maximum_number_of_calls_without_a_notice() -> None:
    step, seen = step_of(many(MAX_CALLS))
    assert [len(each.calls) for each in seen if isinstance(each, RunCalls)] == [MAX_CALLS]
    assert not [each for each in seen if isinstance(each, Notice)]
    assert all(outcome.text == "ok" for outcome in step.outcomes)


def test_drops_extras_and_faults_of_calls_over_the_limit() -> None:
    places = range(2000)
    action = Action(
        calls=many(2000).calls,
        unreadable=tuple((place, "not read") for place in places),
        extras=dict.fromkeys(places, "signed"),
    )
    step, _ = step_of(action)
    assert len(step.extras) == len(step.calls) == MAX_CALLS + 1
    assert {outcome.status for outcome in step.outcomes[:-1]} == {"error"}
    assert step.outcomes[-1].status == "not_run"


@over("same", [True, False])
def test_compares_calls_by_key_in_linear_work(monkeypatch: pytest.MonkeyPatch, same: bool) -> None:
    """Comparing all pairs would encode the input of each call once for every other call."""
    monkeypatch.setattr(loop, "MAX_CALLS", 100_000)
    written = 0
    call_key = calls_made.call_key

    def counted(call: Any) -> str:
        nonlocal written
        written += 1
        return call_key(call)

    monkeypatch.setattr(calls_made, "call_key", counted)
    monkeypatch.setattr(loop, "call_key", counted)
    step_of(many(1000, same=same))
    assert written < 6000


def test_native_reply_with_thousands_of_calls_takes_linear_time() -> None:
    def ask(count: int) -> None:
        flow = react_loop(wire("native"), Guards(Limits(), lambda: 0.0), (), Exchange("Well?"))
        next(flow)
        request = flow.send(
            ModelReply(calls=tuple(WireCall("look", f'{{"a": {n}}}') for n in range(count)))
        )
        while isinstance(request, Notice):
            request = next(flow)
        flow.close()

    assert_linear(ask, 2000)


@over("make", ["tags", "list", "lines"])
def test_text_reply_with_thousands_of_calls_takes_linear_time(make: str) -> None:
    def text(count: int) -> str:
        calls = [f'{{"tool": "look", "tool_input": {{"a": {n}}}}}' for n in range(count)]
        if make == "tags":
            return "\n".join(f"<tool_call>{call}</tool_call>" for call in calls)
        return f"[{', '.join(calls)}]" if make == "list" else "\n".join(calls)

    def ask(count: int) -> None:
        flow = react_loop(wire("react"), Guards(Limits(), lambda: 0.0), (), Exchange("Well?"))
        next(flow)
        flow.send(ModelReply(text(count)))
        flow.close()

    assert_linear(ask, 500)


COUNT, CALLS = st.integers(1, 60_000), st.integers(1, 1_000_000)


def test_call_ids_of_short_conversations_are_readable() -> None:
    assert call_id(1, 2, 3) == "q01s02c03"
    assert call_id(99, 99, 99) == "q99s99c99"


@given(COUNT, COUNT, CALLS)
def test_call_id_has_nine_letters_and_digits(q: int, s: int, c: int) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9]{9}", call_id(q, s, c))


def test_call_ids_are_unique_in_a_conversation() -> None:
    counts = [1, 2, 9, 10, 99, 100, 101, 999, 1000, 2000, 40_000]
    places = list(
        itertools.product(
            counts,
            counts,
            [1, 9, 10, 99, 100, 127, 128, 999, 1000, 1023, 1024, 1025, 999_999, 1_000_000],
        )
    )
    assert len({call_id(*place) for place in places}) == len(places)


@given(st.tuples(COUNT, COUNT, CALLS), st.tuples(COUNT, COUNT, CALLS))
def test_different_places_have_different_call_ids(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    assert (call_id(*one) == call_id(*other)) is (one == other)
