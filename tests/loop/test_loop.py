"""The loop, driven by hand: its requests, and its handling of the replies."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from archytas_nb.loop.decision import Decision
from archytas_nb.loop.events import (
    Answered,
    AskModel,
    CallOutcome,
    CallOutcomes,
    CheckAnswer,
    Failed,
    Interrupted,
    ModelReply,
    NoReply,
    Notice,
    RunCalls,
    Stopped,
    Usage,
    Verdict,
    WireCall,
)
from archytas_nb.loop.limits import Guards, Limits
from archytas_nb.loop.loop import LAST_TURN_SECONDS, react_loop
from archytas_nb.loop.record import Exchange
from tests.loop.cards import (
    Drive,
    Protocol,
    answering,
    calling,
    over,
    over_protocols,
    wire,
)
from tests.strict import fault_of, is_prefix


def flow(protocol: Protocol = "react", exchange: Exchange | None = None) -> Any:
    return react_loop(
        wire(protocol), Guards(Limits(), lambda: 0.0), (), exchange or Exchange("Well?")
    )


@over_protocols
def test_asks_runs_calls_and_ends(protocol: Protocol) -> None:
    it = flow(protocol)
    asked = next(it)
    assert isinstance(asked, AskModel)
    assert (asked.step, asked.messages[-1]) == (1, {"role": "user", "content": "Well?"})
    request = it.send(calling(protocol, ("look", {"a": 1}), thought="first"))
    assert isinstance(request, RunCalls)
    assert (request.thought, request.calls[0].id, request.calls[0].input) == (
        "first",
        "q01s01c01",
        {"a": 1},
    )
    asked = it.send(CallOutcomes((CallOutcome("done", "3", call_id="q01s01c01"),)))
    assert asked.step == 2
    assert "3" in asked.messages[-1]["content"]
    with pytest.raises(StopIteration) as ended:
        it.send(answering(protocol, "three"))
    assert ended.value.value == Answered("three")


@over_protocols
def test_runs_a_call_and_accepts_the_answer_in_the_same_reply(protocol: Protocol) -> None:
    drive = Drive(protocol, [calling(protocol, ("look", {"a": 1}), ("final_answer", "three"))])
    assert drive.run() == Answered("three")
    assert [call.name for call in drive.ran] == ["look"]
    assert [outcome.status for outcome in drive.outcomes] == ["done"]


def test_an_interrupt_takes_precedence_over_an_answer_in_the_same_reply() -> None:
    it = flow()
    next(it)
    it.send(calling("react", ("look", {"a": 1}), ("final_answer", "three")))
    with pytest.raises(StopIteration) as ended:
        it.send(CallOutcomes((CallOutcome("interrupted", "stop", call_id="q01s01c01"),)))
    assert ended.value.value == Interrupted("a tool call")


def test_a_person_who_stops_the_run_at_a_call_has_ended_it_there() -> None:
    it = flow()
    next(it)
    it.send(calling("react", ("look", {"a": 1})))
    stopped = CallOutcome(
        "interrupted", "Not run.", call_id="q01s01c01", decision=Decision("stopped")
    )
    with pytest.raises(StopIteration) as ended:
        it.send(CallOutcomes((stopped,)))
    assert ended.value.value == Interrupted("the approval of look")


def test_runs_readable_calls_despite_an_unreadable_one() -> None:
    reply = ModelReply(
        "", (WireCall("put", '{"a": "cut o'), WireCall("look", '{"a": 1}')), finish="length"
    )
    drive = Drive("native", [reply, answering("native", "x")])
    drive.run()
    assert [call.name for call in drive.ran] == ["look"]
    assert [outcome.status for outcome in drive.outcomes] == ["error", "done"]
    assert "cut off for its length" in drive.outcomes[0].text
    assert '{"a": "cut' not in str(drive.asked[1].messages), "broken JSON is never sent again"


@over("text", ["42", "true", "It is three."])
def test_plain_text_is_rejected_once_and_then_accepted_as_the_answer(text: str) -> None:
    drive = Drive("react", [ModelReply(text), ModelReply(text)])
    assert drive.run() == Answered(text)
    assert "plain text" in drive.asked[1].messages[-1]["content"]


@over_protocols
def test_fail_task_ends_with_the_models_reason(protocol: Protocol) -> None:
    drive = Drive(protocol, [calling(protocol, ("fail_task", {"reason": "no data"}))])
    assert drive.run() == Failed("no data", by="model")


@over(
    "reply, ending",
    [
        (NoReply("interrupted"), Interrupted("a request to the model")),
        (NoReply("endpoint", "503"), Failed("503", by="endpoint")),
    ],
)
@over_protocols
def test_a_request_without_a_reply_ends_the_run(
    protocol: Protocol, reply: NoReply, ending: Any
) -> None:
    assert Drive(protocol, [reply]).run() == ending
    assert Drive(protocol, [calling(protocol, ("look", {"a": 1})), reply]).run() == ending


@over_protocols
def test_each_request_extends_the_previous_one_and_is_valid(
    protocol: Protocol,
) -> None:
    replies: list[Any] = [
        calling(protocol, ("look", {"a": 1}), ("put", {"a": 2})),
        ModelReply("{broken"),
        calling(protocol, ("un known!", {"a": 1})),
        calling(protocol, ("look", {"a": 1})),
        answering(protocol, "three"),
    ]
    drive = Drive(protocol, replies if protocol == "react" else [*replies[:1], *replies[2:]])
    drive.run()
    assert len(drive.asked) >= 4
    for earlier, later in zip(drive.asked, drive.asked[1:], strict=False):
        assert is_prefix(earlier.messages, later.messages)
        assert fault_of(later.messages) == ""


@over("wrong", [None, ModelReply("x"), Notice("retry", "x")])
def test_rejects_a_driver_that_does_not_send_outcomes(wrong: Any) -> None:
    it = flow()
    next(it)
    it.send(calling("react", ("look", {"a": 1})))
    with pytest.raises(TypeError, match="expected CallOutcomes"):
        it.send(wrong)


def test_rejects_a_driver_that_does_not_send_a_reply() -> None:
    it = flow()
    next(it)
    with pytest.raises(TypeError, match="expected ModelReply or NoReply"):
        it.send(CallOutcomes(()))


def test_rejects_outcomes_of_other_calls() -> None:
    it = flow()
    next(it)
    it.send(calling("react", ("look", {"a": 1})))
    with pytest.raises(ValueError, match="'q01s01c01' was sent with call_id='other'"):
        it.send(CallOutcomes((CallOutcome("done", "3", call_id="other"),)))


# ── answers that are checked ──────────────────────────────────────────────────────────────────────


def checked(protocol: Protocol, *replies: Any) -> Any:
    """A flow whose answers are checked, up to the request for the first check."""
    exchange = Exchange("Well?")
    it = react_loop(wire(protocol), Guards(Limits(), lambda: 0.0), (), exchange, checks=True)
    next(it)
    for reply in replies[:-1]:
        it.send(reply)
    return it, it.send(replies[-1]), exchange


@over_protocols
def test_checks_an_answer_before_it_is_accepted(protocol: Protocol) -> None:
    it, request, exchange = checked(protocol, answering(protocol, "three"))
    assert request == CheckAnswer(1, "three")
    asked = it.send(Verdict("it is no number"))
    assert isinstance(asked, AskModel)
    assert asked.messages[-1]["content"].startswith(
        "Your answer 'three' is not accepted: it is no number"
    )
    assert it.send(answering(protocol, "3")) == CheckAnswer(2, "3")
    with pytest.raises(StopIteration) as ended:
        it.send(Verdict())
    assert ended.value.value == Answered("3")
    assert len(exchange.steps) == 1
    assert fault_of(asked.messages) == ""


@over_protocols
def test_runs_calls_in_a_reply_with_a_rejected_answer(protocol: Protocol) -> None:
    reply = calling(protocol, ("look", {"a": 1}), ("final_answer", {"answer": "three"}))
    it, request, exchange = checked(protocol, reply)
    assert isinstance(request, RunCalls)
    assert it.send(CallOutcomes((CallOutcome("done", "3", call_id="q01s01c01"),))) == CheckAnswer(
        1, "three"
    )
    asked = it.send(Verdict("no"))
    assert fault_of(asked.messages) == ""
    assert [bool(step.calls) for step in exchange.steps] == [True, False]


@over_protocols
def test_an_interrupted_check_ends_the_run(protocol: Protocol) -> None:
    it, _, _ = checked(protocol, answering(protocol, "three"))
    with pytest.raises(StopIteration) as ended:
        it.send(NoReply("interrupted"))
    assert ended.value.value == Interrupted("the check of the answer")


def test_rejects_a_driver_that_does_not_send_a_verdict() -> None:
    it, _, _ = checked("react", answering("react", "three"))
    with pytest.raises(TypeError, match="expected Verdict"):
        it.send(None)


# ── what the model thought ────────────────────────────────────────────────────────────────────────


@over("how", ["beside", "think"])
@over_protocols
def test_reasoning_is_recorded_and_not_sent_back(protocol: Protocol, how: str) -> None:
    reply = calling(protocol, ("look", {"a": 1}))
    secret = "Let me see, it may be seven."
    reply = (
        replace(reply, reasoning=secret)
        if how == "beside"
        else replace(reply, text=f"<think>{secret}</think>{reply.text}")
    )
    drive = Drive(protocol, [reply, answering(protocol, "three")])
    drive.run()
    assert drive.exchange.steps[0].reasoning == secret
    assert secret not in str(drive.asked[1].messages)


@over("text", ["", "<think>Let me see"])
@over_protocols
def test_a_truncated_reply_with_only_reasoning_ends_the_run(protocol: Protocol, text: str) -> None:
    ending = Drive(protocol, [ModelReply(text, reasoning="Hm.", finish="length")]).run()
    assert isinstance(ending, Stopped)
    assert ending.limit.startswith(
        "reply cut at 16384 tokens, all of them reasoning; raise max_reply_tokens"
    )
    assert (ending.cut, ending.text) == (True, "")


OVERFLOW = NoReply("overflow", "maximum context length is 4096 tokens")


@over_protocols
def test_retries_once_with_a_shorter_request_after_an_overflow(protocol: Protocol) -> None:
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


@over_protocols
def test_a_second_overflow_ends_the_run_with_advice(protocol: Protocol) -> None:
    drive = Drive(protocol, [OVERFLOW, OVERFLOW])
    ending = drive.run()
    assert isinstance(ending, Failed)
    assert ending.by == "endpoint"
    assert "4096" in ending.reason
    assert "agent.reset()" in ending.reason
    assert len(drive.asked) == 2


@over_protocols
def test_the_last_turn_may_be_shortened(protocol: Protocol) -> None:
    replies = [calling(protocol, ("look", {"a": 1})), OVERFLOW, answering(protocol, "three")]
    drive = Drive(protocol, replies, limits=Limits(max_steps=1))
    assert drive.run() == Stopped("max_steps=1", "three")
    drive = Drive(
        protocol, [calling(protocol, ("look", {"a": 1})), OVERFLOW, OVERFLOW], limits=Limits(1)
    )
    assert drive.run() == Stopped("max_steps=1")


@over_protocols
def test_a_deadline_during_a_reply_ends_the_run_with_the_partial_text(
    protocol: Protocol,
) -> None:
    said = "So far it is" if protocol == "native" else '{"thought": "So far'
    drive = Drive(protocol, [NoReply("deadline", said)], limits=Limits(max_seconds=7))
    assert drive.run() == Stopped("max_seconds=7", "So far it is" if protocol == "native" else "")
    assert [notice.kind for notice in drive.notices] == ["limit"]


@over_protocols
def test_a_request_contains_the_remaining_seconds(protocol: Protocol) -> None:
    replies = [calling(protocol, ("look", {"a": n})) for n in range(3)]
    drive = Drive(protocol, [*replies, answering(protocol, "three")], limits=Limits(max_seconds=25))
    drive.guards.clock = lambda: 10.0 * len(drive.asked)
    drive.run()
    # The last turn has some time of its own: a limit must not throw away what was found.
    assert [ask.seconds for ask in drive.asked] == [25, 15, 5, LAST_TURN_SECONDS]


# ── images ────────────────────────────────────────────────────────────────────────────────────────


@over_protocols
def test_sends_images_of_outcomes(protocol: Protocol) -> None:
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


@over_protocols
def test_sends_images_of_a_question(protocol: Protocol) -> None:
    it = flow(protocol, Exchange("What is this?", images=("/9j/4AAQ", "iVBORw0KGgo=")))
    content = next(it).messages[-1]["content"]
    assert content[0] == {"type": "text", "text": "What is this?"}
    assert [part["image_url"]["url"][:16] for part in content[1:]] == [
        "data:image/jpeg;",
        "data:image/png;b",
    ]


@over_protocols
def test_the_limit_notice_follows_the_images(protocol: Protocol) -> None:
    exchange = Exchange("What is this?", images=("iVBORw0KGgo=",))
    guards = Guards(Limits(max_total_tokens=1), lambda: 0.0)
    guards.usage = Usage(1, 5)
    it = react_loop(wire(protocol), guards, (), exchange)
    assert isinstance(next(it), Notice)
    content = it.send(None).messages[-1]["content"]
    assert "must end now" in content[-1]["text"]
