"""Limits end an endless run, and repeated calls are skipped."""

from __future__ import annotations

import math
import re
from typing import Any

import numpy as np
import pytest

from archytas_nb.loop.events import (
    Answered,
    CallOutcome,
    CallOutcomes,
    ModelReply,
    NoReply,
    Stopped,
    ToolCall,
    Usage,
)
from archytas_nb.loop.limits import Guards, Limits
from archytas_nb.loop.loop import react_loop
from archytas_nb.loop.record import Exchange
from tests.loop.cards import Drive, Protocol, answering, calling, over, over_protocols, wire

LAST = "So far: three."


def endless(protocol: Protocol, usage: Usage | None = None) -> list[Any]:
    """More calls than any limit allows, all different, with a last text at each point."""
    replies = [calling(protocol, ("put", {"a": n})) for n in range(100)]
    if usage is not None:
        replies = [ModelReply(each.text, each.calls, usage=usage) for each in replies]
    return replies


def stopped(drive: Drive) -> tuple[Stopped, int]:
    """The ending, and the number of requests that were steps; the last one is the tool-less turn."""
    ending = drive.run()
    assert isinstance(ending, Stopped)
    last = drive.asked[-1]
    assert not last.tools, "the last turn has no tools"
    if drive.protocol == "react":
        assert [last.schema["properties"]["tool"]["const"]] == ["final_answer"]
    assert "no tool can be used any more" in last.messages[-1]["content"]
    assert all(
        "no tool can be used" not in str(ask.messages[-1]["content"]) for ask in drive.asked[:-1]
    )
    assert [notice.kind for notice in drive.notices if notice.kind == "limit"] == ["limit"]
    return ending, len(drive.asked) - 1


def script(protocol: Protocol, steps: int, usage: Usage | None = None) -> list[Any]:
    return [*endless(protocol, usage)[:steps], answering(protocol, LAST)]


# ── limits ────────────────────────────────────────────────────────────────────────────────────────


@over("steps", [1, 2, 20])
@over_protocols
def test_max_steps_ends_a_run_with_a_last_turn(protocol: Protocol, steps: int) -> None:
    drive = Drive(protocol, script(protocol, steps), limits=Limits(max_steps=steps))
    assert stopped(drive) == (Stopped(f"max_steps={steps}", LAST), steps)


@over_protocols
def test_max_errors_counts_consecutive_failed_calls(protocol: Protocol) -> None:
    drive = Drive(
        protocol, script(protocol, 3), outcome=lambda call: "error: no", limits=Limits(max_errors=3)
    )
    assert stopped(drive) == (Stopped("max_errors=3", LAST), 3)


@over_protocols
def test_max_errors_counts_unusable_replies(protocol: Protocol) -> None:
    replies: list[Any] = [ModelReply(text) for text in ("", "<think>", "", "", "")]
    drive = Drive(protocol, [*replies, answering(protocol, LAST)])
    assert stopped(drive) == (Stopped("max_errors=5", LAST), 5)


@over_protocols
def test_failed_calls_of_one_reply_count_as_one_error(protocol: Protocol) -> None:
    replies = [calling(protocol, *[("put", {"a": n, "b": m}) for m in range(4)]) for n in range(2)]
    drive = Drive(
        protocol,
        [*replies, answering(protocol, LAST)],
        outcome=lambda call: "error: no",
        limits=Limits(20, 2),
    )
    assert stopped(drive) == (Stopped("max_errors=2", LAST), 2)


@over_protocols
def test_max_seconds_ends_a_run(protocol: Protocol) -> None:
    drive = Drive(protocol, script(protocol, 3), limits=Limits(max_seconds=25))
    drive.guards.clock = lambda: 100.0 + 10.0 * len(drive.asked)  # each reply takes ten seconds
    assert stopped(drive) == (Stopped("max_seconds=25", LAST), 3)


@over_protocols
def test_max_total_tokens_ends_a_run(protocol: Protocol) -> None:
    usage = Usage(1, input_tokens=90, output_tokens=10)
    drive = Drive(protocol, script(protocol, 3, usage), limits=Limits(max_total_tokens=300))
    assert stopped(drive) == (Stopped("max_total_tokens=300", LAST), 3)


@over_protocols
def test_max_total_tokens_works_without_usage_from_the_server(protocol: Protocol) -> None:
    drive = Drive(protocol, script(protocol, 1), limits=Limits(max_total_tokens=50))
    assert stopped(drive) == (Stopped("max_total_tokens=50", LAST), 1)


def test_default_limits() -> None:
    limits = Limits()
    assert all(0 < bound < 10_000 for bound in (limits.max_steps, limits.max_errors))


@over(
    "last, text",
    [
        (NoReply("endpoint", "503"), ""),
        (ModelReply("It is three."), "It is three."),
        (ModelReply(""), ""),
    ],
)
@over_protocols
def test_any_reply_in_the_last_turn_ends_the_run(protocol: Protocol, last: Any, text: str) -> None:
    drive = Drive(protocol, [*script(protocol, 1)[:1], last], limits=Limits(max_steps=1))
    assert stopped(drive)[0] == Stopped("max_steps=1", text)


@over_protocols
def test_a_call_in_the_last_turn_is_not_run(protocol: Protocol) -> None:
    drive = Drive(protocol, endless(protocol)[:2], limits=Limits(max_steps=1))
    assert stopped(drive)[0].limit == "max_steps=1"
    assert len(drive.ran) == 1


@over("name", ["max_steps", "max_errors", "max_seconds", "max_total_tokens", "max_reply_tokens"])
@over("value", [0, -1, True, "3", math.nan, math.inf, [1]])
def test_rejects_an_invalid_limit_by_name(name: str, value: Any) -> None:
    what = "seconds" if name == "max_seconds" else "a whole number"
    with pytest.raises(
        ValueError, match=re.escape(f"{name} is {value!r}; expected {what} above 0")
    ):
        Limits(**{name: value})


@over("name", ["max_steps", "max_errors"])
def test_rejects_none_for_required_limits(name: str) -> None:
    with pytest.raises(ValueError, match=f"{name} is None"):
        Limits(**{name: None})  # type: ignore[arg-type]


def test_accepts_numpy_numbers_as_limits() -> None:
    limits = Limits(max_steps=np.int64(3), max_seconds=np.float64(2.5))  # type: ignore[arg-type]
    assert (limits.max_steps, limits.max_seconds) == (3, 2.5)


# ── repetition ────────────────────────────────────────────────────────────────────────────────────

SAME = ("look", {"a": 1})


def offered(drive: Drive) -> list[bool]:
    """Whether ``look`` was offered, request by request; function calling always does."""
    return ['"look"' in str(ask.tools or ask.schema).replace("'", '"') for ask in drive.asked]


@over_protocols
def test_second_identical_call_gets_the_earlier_outcome_and_the_third_disables_the_tool(
    protocol: Protocol,
) -> None:
    drive = Drive(protocol, [*[calling(protocol, SAME)] * 4, answering(protocol, "3")])
    assert isinstance(drive.run(), Answered)
    assert len(drive.ran) == 1
    assert [outcome.status for outcome in drive.outcomes] == ["done", "done", "done", "refused"]
    assert "above" in drive.outcomes[1].text
    assert "cannot be used now" in drive.outcomes[3].text
    assert offered(drive) == [True, True, True, *[protocol == "native"] * 2]
    assert [notice.kind for notice in drive.notices] == ["repeat"] * 3


@over_protocols
def test_a_disabled_tool_is_enabled_after_a_new_outcome(
    protocol: Protocol,
) -> None:
    replies = [
        *[calling(protocol, SAME)] * 3,
        calling(protocol, ("put", {"a": 1})),
        calling(protocol, ("look", {"a": 2})),
    ]
    drive = Drive(protocol, [*replies, answering(protocol, "3")])
    drive.run()
    assert offered(drive) == [True, True, True, protocol == "native", True, True]
    assert [call.name for call in drive.ran] == ["look", "put", "look"]


@over_protocols
def test_endless_repetition_of_one_call_ends_the_run(protocol: Protocol) -> None:
    drive = Drive(protocol, [*[calling(protocol, SAME)] * 8, answering(protocol, LAST)])
    assert stopped(drive) == (Stopped("max_errors=5", LAST), 8)
    assert len(drive.ran) == 1


@over_protocols
def test_runs_the_same_call_again_after_a_new_outcome(
    protocol: Protocol,
) -> None:
    said = iter(["0", "ok", "1"])
    replies = [
        calling(protocol, SAME),
        calling(protocol, ("put", {"a": 1})),
        calling(protocol, SAME),
    ]
    drive = Drive(protocol, [*replies, answering(protocol, "1")], outcome=lambda call: next(said))
    drive.run()
    assert [outcome.text for outcome in drive.outcomes] == ["0", "ok", "1"]


@over_protocols
def test_detects_alternating_repetition(protocol: Protocol) -> None:
    pair = [calling(protocol, SAME), calling(protocol, ("other", {"a": 1}))]
    drive = Drive(protocol, [*pair * 4, answering(protocol, "3")])
    drive.run()
    assert [call.name for call in drive.ran] == ["look", "other", "look"]
    assert drive.guards.calls.disabled == {"look", "other"}


@over_protocols
def test_a_failed_call_may_be_retried(protocol: Protocol) -> None:
    said = iter(["error: busy", "error: busy", "3"])
    drive = Drive(
        protocol,
        [*[calling(protocol, SAME)] * 3, answering(protocol, "3")],
        outcome=lambda call: next(said),
    )
    drive.run()
    assert [outcome.status for outcome in drive.outcomes] == ["error", "error", "done"]


@over_protocols
def test_tells_the_model_when_a_call_fails_again_in_the_same_way(protocol: Protocol) -> None:
    said = iter(["error: no", "error: no", "error: other"])
    drive = Drive(
        protocol,
        [*[calling(protocol, SAME)] * 3, answering(protocol, "3")],
        outcome=lambda call: next(said),
    )
    drive.run()
    told = ["in the same way" in outcome.text for outcome in drive.outcomes]
    assert told == [False, True, False]


@over_protocols
def test_a_tool_with_repeat_runs_each_time(protocol: Protocol) -> None:
    drive = Drive(
        protocol, [*[calling(protocol, SAME)] * 4, answering(protocol, "3")], may_repeat=("look",)
    )
    drive.run()
    assert len(drive.ran) == 4


@over_protocols
def test_identical_calls_of_one_reply_each_run_after_a_new_outcome(
    protocol: Protocol,
) -> None:
    calls = [("put", {"a": 1}), ("look", {"a": 1}), ("put", {"a": 1}), ("put", {"a": 2})]
    drive = Drive(protocol, [calling(protocol, *calls), answering(protocol, "3")])
    drive.run()
    assert [(call.name, call.input) for call in drive.ran] == calls
    assert [call.id for call in drive.ran] == [f"q01s01c0{n}" for n in (1, 2, 3, 4)]


@over_protocols
def test_identical_calls_in_a_row_run_once_and_share_the_outcome(
    protocol: Protocol,
) -> None:
    drive = Drive(
        protocol, [calling(protocol, SAME, SAME, ("put", {"a": 1})), answering(protocol, "3")]
    )
    drive.run()
    assert [call.id for call in drive.ran] == ["q01s01c01", "q01s01c03"]
    first, second, third = drive.outcomes
    assert (first.text, third.text) == ("3", "3")
    assert "it was not run again" in second.text
    drive = Drive(
        protocol,
        [calling(protocol, SAME, SAME), answering(protocol, "3")],
        may_repeat=("look", "put"),
    )
    drive.run()
    assert len(drive.ran) == 2


@over_protocols
def test_calls_after_an_interrupted_one_are_not_run(protocol: Protocol) -> None:
    flow = react_loop(
        wire(protocol), Guards(Limits(), lambda: 0.0), (), exchange := Exchange("Well?")
    )
    next(flow)
    asked = flow.send(calling(protocol, SAME, SAME, ("put", {"a": 1})))
    assert [call.id for call in asked.calls] == ["q01s01c01"]
    with pytest.raises(StopIteration):
        flow.send(CallOutcomes((CallOutcome("interrupted", "stop", call_id="q01s01c01"),)))
    assert [outcome.status for outcome in exchange.steps[0].outcomes] == [
        "interrupted",
        "not_run",
        "not_run",
    ]


def test_a_refused_call_is_not_asked_about_again() -> None:
    guards = Guards(Limits(), lambda: 0.0)
    guards.calls.record(ToolCall("1", "look", {}), CallOutcome("refused", "no", call_id="1"))
    again = guards.calls.earlier(ToolCall("2", "look", {}))
    assert again is not None
    assert again.status == "refused"
