"""The loop where the context is too small, where time is over, and with images."""

from __future__ import annotations

from typing import Any

import pytest

from archytas_nb.loop.events import (
    Answered,
    CallOutcome,
    CallOutcomes,
    Failed,
    NoReply,
    Notice,
    Stopped,
    Usage,
)
from archytas_nb.loop.history import Exchange
from archytas_nb.loop.limits import Guards, Limits
from archytas_nb.loop.loop import LAST_SECONDS, react_loop
from tests.loop.cards import PROTOCOLS, Drive, Protocol, answering, calling, wire
from tests.strict import fault_of


def flow(protocol: Protocol = "react", exchange: Exchange | None = None) -> Any:
    return react_loop(
        wire(protocol), Guards(Limits(), lambda: 0.0), (), exchange or Exchange("Well?")
    )


OVERFLOW = NoReply("overflow", "maximum context length is 4096 tokens")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_request_that_is_too_long_is_shortened_and_asked_once_more(protocol: Protocol) -> None:
    looks = [calling(protocol, ("look", {"a": n})) for n in range(5)]
    drive = Drive(
        protocol,
        [*looks, OVERFLOW, answering(protocol, "three")],
        outcome=lambda call: "word " * 200,
    )
    assert drive.run() == Answered("three")
    [notice] = drive.notices
    assert notice.kind == "compaction"
    refused, again = drive.asked[-2:]
    assert (refused.step, again.step) == (6, 6)
    assert len(str(again.messages)) < len(str(refused.messages)) * 3 // 4
    assert again.max_tokens < refused.max_tokens
    assert fault_of(again.messages) == ""
    assert len(drive.exchange.steps) == 5


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_second_refusal_ends_the_run_and_names_the_next_move(protocol: Protocol) -> None:
    drive = Drive(protocol, [OVERFLOW, OVERFLOW])
    ending = drive.run()
    assert isinstance(ending, Failed)
    assert ending.by == "endpoint"
    assert "4096" in ending.reason
    assert "agent.reset()" in ending.reason
    assert len(drive.asked) == 2


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_each_request_may_be_shortened_once(protocol: Protocol) -> None:
    replies = [
        OVERFLOW,
        calling(protocol, ("look", {"a": 1})),
        OVERFLOW,
        answering(protocol, "three"),
    ]
    drive = Drive(protocol, replies)
    assert drive.run() == Answered("three")
    assert [notice.kind for notice in drive.notices] == ["compaction", "compaction"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_last_turn_may_be_shortened_too(protocol: Protocol) -> None:
    replies = [calling(protocol, ("look", {"a": 1})), OVERFLOW, answering(protocol, "three")]
    drive = Drive(protocol, replies, limits=Limits(max_steps=1))
    assert drive.run() == Stopped("max_steps=1", "three")
    drive = Drive(
        protocol, [calling(protocol, ("look", {"a": 1})), OVERFLOW, OVERFLOW], limits=Limits(1)
    )
    assert drive.run() == Stopped("max_steps=1")


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_reply_that_the_time_is_over_for_ends_the_run_with_what_was_said(
    protocol: Protocol,
) -> None:
    said = "So far it is" if protocol == "native" else '{"thought": "So far'
    drive = Drive(protocol, [NoReply("deadline", said)], limits=Limits(max_seconds=7))
    assert drive.run() == Stopped("max_seconds=7", "So far it is" if protocol == "native" else "")
    assert [notice.kind for notice in drive.notices] == ["limit"]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_request_says_what_is_left_of_the_time(protocol: Protocol) -> None:
    replies = [calling(protocol, ("look", {"a": n})) for n in range(3)]
    drive = Drive(protocol, [*replies, answering(protocol, "three")], limits=Limits(max_seconds=25))
    drive.guards.clock = lambda: 10.0 * len(drive.asked)
    drive.run()
    # The last turn has some time of its own: a limit must not throw away what was found.
    assert [ask.seconds for ask in drive.asked] == [25, 15, 5, LAST_SECONDS]


def test_without_a_limit_of_time_there_is_none_for_a_request() -> None:
    drive = Drive("react", [answering("react", "three")], limits=Limits(max_seconds=None))
    drive.run()
    assert drive.asked[0].seconds is None


# ── images ────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_images_of_outcomes_are_shown_to_the_model(protocol: Protocol) -> None:
    it = flow(protocol)
    next(it)
    it.send(calling(protocol, ("look", {"a": 1}), ("put", {"a": 1})))
    outcomes = [
        CallOutcome("done", "[image: Figure]", call_id="q01s01c01", images=("iVBORw0KGgo=",)),
        CallOutcome("done", "3", call_id="q01s01c02"),
    ]
    asked = it.send(CallOutcomes(tuple(outcomes)))
    assert fault_of(asked.messages) == ""
    shown = asked.messages[-1]
    assert shown["role"] == "user"
    assert shown["content"][-1] == {
        "type": "image_url",
        "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="},
    }
    assert all(
        isinstance(message["content"], str) or message is shown for message in asked.messages[:2]
    )
    with pytest.raises(StopIteration):
        it.send(answering(protocol, "a plot"))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_images_of_a_question_stand_beside_its_text(protocol: Protocol) -> None:
    it = flow(protocol, Exchange("What is this?", images=("/9j/4AAQ", "iVBORw0KGgo=")))
    content = next(it).messages[-1]["content"]
    assert content[0] == {"type": "text", "text": "What is this?"}
    assert [part["image_url"]["url"][:16] for part in content[1:]] == [
        "data:image/jpeg;",
        "data:image/png;b",
    ]


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_limit_speaks_after_the_images(protocol: Protocol) -> None:
    exchange = Exchange("What is this?", images=("iVBORw0KGgo=",))
    guards = Guards(Limits(max_total_tokens=1), lambda: 0.0)
    guards.usage = Usage(1, 5)
    it = react_loop(wire(protocol), guards, (), exchange)
    assert isinstance(next(it), Notice)
    content = it.send(None).messages[-1]["content"]
    assert "must end now" in content[-1]["text"]
