"""When an equal call takes an earlier outcome, for each of those who make calls."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.calls_made import (
    CallsOfPrograms,
    CallsOfReplies,
    Effects,
    SharedCalls,
    call_key,
)
from archytas_nb.loop.events import CallOutcome, Output, ToolCall


def call(number: int, name: str = "f", **given: Any) -> ToolCall:
    return ToolCall(f"c{number}", name, given)


def done(made: ToolCall, text: str = "1") -> CallOutcome:
    return CallOutcome("done", text, call_id=made.id, outputs=(Output("stdout", {}),), said="so")


def failed(made: ToolCall) -> CallOutcome:
    return CallOutcome("error", "no", call_id=made.id)


@pytest.mark.parametrize("in_order", [True, False])
def test_a_failed_call_is_made_again_and_a_successful_one_is_not(in_order: bool) -> None:
    calls = CallsOfPrograms(in_order=in_order)
    program = "a = f(x=1)\nb = f(x=2)"
    calls.begin(program, after_failure=False)
    first, second = call(1, x=1), call(2, x=2)
    calls.add(first, done(first))
    calls.add(second, failed(second))
    calls.begin(program, after_failure=True)
    assert calls.earlier(call(3, x=1)) is not None
    assert calls.earlier(call(4, x=2)) is None


@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(0, 3), max_size=8))
def test_in_order_the_calls_up_to_the_first_other_one_are_taken(
    before: list[int], again: list[int]
) -> None:
    calls = CallsOfPrograms()
    calls.begin("p", after_failure=False)
    for number, x in enumerate(before):
        made = call(number, x=x)
        calls.add(made, done(made, str(number)))
    calls.begin("p", after_failure=True)
    found = [calls.earlier(call(9, x=x)) for x in again]
    same = 0
    while same < min(len(before), len(again)) and before[same] == again[same]:
        same += 1
    texts = [outcome and outcome.text for outcome in found]
    assert texts == [*map(str, range(same)), *([None] * (len(again) - same))]


@given(st.lists(st.integers(0, 3), max_size=8), st.lists(st.integers(0, 3), max_size=8))
def test_without_an_order_each_outcome_is_taken_once(before: list[int], again: list[int]) -> None:
    calls = CallsOfPrograms(in_order=False)
    calls.begin("p", after_failure=False)
    for number, x in enumerate(before):
        made = call(number, x=x)
        calls.add(made, done(made))
    calls.begin("another", after_failure=True)
    taken = [x for x in again if calls.earlier(call(9, x=x)) is not None]
    for x in range(4):
        assert taken.count(x) == min(before.count(x), again.count(x))


def test_a_program_after_one_that_did_not_fail_makes_all_its_calls() -> None:
    calls = CallsOfPrograms(in_order=False)
    calls.begin("p", after_failure=False)
    calls.add(call(1), done(call(1)))
    calls.begin("p", after_failure=False)
    assert calls.earlier(call(2)) is None


@pytest.mark.parametrize("is_closed", [True, False])
def test_an_agent_repeats_no_effect_of_the_program_of_its_row(is_closed: bool) -> None:
    first = call(1, x=1)
    effects = Effects({call_key(first): done(first)}, is_closed=is_closed)
    again = effects.earlier(call(2, x=1))
    assert again is not None
    assert (again.call_id, again.text, again.outputs, again.said) == ("c2", "1", (), "")
    assert effects.refused == ""
    other = effects.earlier(call(3, "g"))
    if is_closed:
        assert other is not None
        assert (other.status, effects.refused) == ("refused", "g")
    else:
        assert other is None


def test_a_repeated_call_of_a_reply_shows_nothing_again_and_then_loses_its_tool() -> None:
    calls = CallsOfReplies()
    first = call(1)
    calls.record(first, done(first))
    for number in (2, 3):
        again = calls.earlier(call(number))
        assert again is not None
        assert (again.status, again.call_id, again.outputs, again.said) == (
            "done", f"c{number}", (), "",
        )  # fmt: skip
    assert calls.disabled == {"f"}
    refused = calls.earlier(call(4, x=1))
    assert refused is not None
    assert refused.status == "refused"
    wrong = call(5, "h")
    calls.record(wrong, failed(wrong))
    assert calls.disabled == {"f"}, "nothing new was found"
    other = call(6, "g")
    calls.record(other, done(other, "2"))
    assert not calls.disabled


def test_after_something_new_a_call_runs_again_or_is_confirmed_once() -> None:
    for confirms in (False, True):
        calls = CallsOfReplies(confirms=confirms)
        for number, name in enumerate(("f", "g")):
            made = call(number, name)
            calls.record(made, done(made, name))
        again = calls.earlier(call(3, "f"))
        assert (again is not None and again.status == "not_run") is confirms
        assert calls.earlier(call(4, "f")) is None


def test_a_tool_that_may_repeat_is_always_called() -> None:
    calls = CallsOfReplies(may_repeat=("f",))
    for number in range(4):
        made = call(number)
        assert calls.earlier(made) is None
        assert not calls.is_duplicate(made, {call_key(made)})
        calls.record(made, done(made))


def test_rows_share_an_outcome_and_a_failed_call_is_made_again_by_the_next_row() -> None:
    shared = SharedCalls()
    made = call(1)
    outcomes = [failed(made), done(made), done(made)]
    found = [shared.outcome(call_key(made), lambda: outcomes.pop(0)) for _ in range(3)]
    assert [each.status for each in found] == ["error", "done", "done"]
    assert len(outcomes) == 1, "the third row has called nothing"
