"""The record of a conversation, and the compaction of a long one."""

from __future__ import annotations

import copy
import re
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb.loop.conversation import compact_further, compacted_view, messages_of
from archytas_nb.loop.events import (
    Answered,
    CallOutcome,
    Ending,
    Failed,
    Interrupted,
    Stopped,
    ToolCall,
)
from archytas_nb.loop.record import Compaction, Exchange, StepRecord
from archytas_nb.loop.tokens import message_tokens
from tests.loop.cards import PROTOCOLS, Protocol, over, over_protocols, wire
from tests.strict import fault_of, is_prefix

texts = st.builds(
    lambda word, times: word * times, st.sampled_from(["a b ", "12, ", "ü"]), st.integers(1, 900)
)
endings = st.sampled_from(
    [
        Answered("three"),
        Answered("x" * 700),
        Failed("no"),
        Stopped("max_steps=1"),
        Interrupted("a tool call"),
    ]
)


@st.composite
def records(draw: Any, most_steps: int = 5) -> list[Exchange]:
    """A record whose last exchange has not ended."""
    made = []
    count = draw(st.integers(1, 5))
    for question in range(1, count + 1):
        steps = []
        for n in range(draw(st.integers(0, most_steps))):
            if draw(st.integers(0, 5)) == 0:
                steps.append(StepRecord(thought="hm", correction="That was wrong."))
                continue
            calls = tuple(
                ToolCall(f"q{question}s{n}c{c}", draw(st.sampled_from(["look", "put"])), {"a": c})
                for c in range(draw(st.integers(1, 3)))
            )
            images = st.sampled_from([(), (), (), ("iVBORw0KGgo=",)])
            outcomes = tuple(
                CallOutcome(
                    "done", draw(texts), value=object(), call_id=call.id, images=draw(images)
                )
                for call in calls
            )
            steps.append(StepRecord("so", calls, outcomes))
        made.append(Exchange(f"Question {question}?", steps, draw(endings)))
    made[-1].ending = None
    return made


class Judge:
    """Counts tokens for a wire protocol."""

    def __init__(self, protocol: Protocol) -> None:
        self.wire = wire(protocol)

    def size(self, exchanges: Any) -> int:
        return message_tokens(messages_of(self.wire, exchanges))

    def compact(
        self, record: list[Exchange], budget: int, compaction: Compaction | None = None
    ) -> Compaction:
        return compact_further(record, compaction or Compaction(), budget, self.size)

    def sent(self, record: list[Exchange], compaction: Compaction) -> list[Any]:
        return messages_of(self.wire, compacted_view(record, compaction))


cases = given(records(), st.sampled_from(PROTOCOLS), st.integers(1, 6000))


@cases
def test_a_strict_server_accepts_a_compacted_conversation(
    record: list[Exchange], protocol: Protocol, budget: int
) -> None:
    judge = Judge(protocol)
    assert fault_of(judge.sent(record, judge.compact(record, budget))) == ""


@cases
def test_keeps_the_system_prompt_and_the_last_question(
    record: list[Exchange], protocol: Protocol, budget: int
) -> None:
    judge = Judge(protocol)
    sent = judge.sent(record, judge.compact(record, budget))
    assert sent[0] == judge.wire.system
    asked = [
        message
        for message in sent
        if message["role"] == "user" and record[-1].question in str(message)
    ]
    assert len(asked) == 1


@cases
def test_keeps_the_last_step(record: list[Exchange], protocol: Protocol, budget: int) -> None:
    shown = compacted_view(record, Judge(protocol).compact(record, budget))
    if record[-1].steps:
        assert shown[-1].steps[-1].calls == record[-1].steps[-1].calls


@cases
def test_stays_within_the_budget_where_possible(
    record: list[Exchange], protocol: Protocol, budget: int
) -> None:
    judge = Judge(protocol)
    compaction = judge.compact(record, budget)
    size = judge.size(compacted_view(record, compaction))
    if size <= budget:
        return
    [last] = compacted_view(
        record, compaction
    )  # only the question is left, and its last step, shortened
    assert len(last.steps) <= 1
    for outcome in (outcome for step in last.steps for outcome in step.outcomes):
        assert len(outcome.text) < 500
        assert outcome.images == ()


@cases
def test_sends_a_record_that_fits_unchanged(
    record: list[Exchange], protocol: Protocol, budget: int
) -> None:
    judge = Judge(protocol)
    if judge.size(record) <= budget:
        assert judge.compact(record, budget) == Compaction()
        assert judge.sent(record, Compaction()) == messages_of(judge.wire, record)


@cases
def test_does_not_change_the_record(
    record: list[Exchange], protocol: Protocol, budget: int
) -> None:
    before = copy.copy([copy.copy(exchange) for exchange in record])
    steps = [list(exchange.steps) for exchange in record]
    compacted_view(record, Judge(protocol).compact(record, budget))
    assert record == before
    assert [exchange.steps for exchange in record] == steps
    assert all(
        a is b
        for one, two in zip(steps, record, strict=True)
        for a, b in zip(one, two.steps, strict=True)
    )


@cases
def test_compaction_is_idempotent(record: list[Exchange], protocol: Protocol, budget: int) -> None:
    judge = Judge(protocol)
    compaction = judge.compact(record, budget)
    assert judge.compact(record, budget, compaction) == compaction
    assert judge.sent(record, compaction) == judge.sent(record, compaction)


@given(records(), st.sampled_from(PROTOCOLS), st.integers(1, 6000), st.integers(1, 6000))
def test_a_smaller_budget_drops_more(
    record: list[Exchange], protocol: Protocol, one: int, two: int
) -> None:
    judge = Judge(protocol)
    first = judge.compact(record, max(one, two))
    second = judge.compact(record, min(one, two), first)
    assert second.dropped >= first.dropped
    assert (
        judge.size(compacted_view(record, second)) <= judge.size(compacted_view(record, first)) + 30
    )
    for id_, length in first.truncated.items():
        assert second.truncated[id_] <= length


@given(records(), st.sampled_from(PROTOCOLS), st.integers(1, 6000))
def test_a_request_extends_the_previous_one_between_compactions(
    record: list[Exchange], protocol: Protocol, budget: int
) -> None:
    judge = Judge(protocol)
    compaction = judge.compact(record, budget)
    before = judge.sent(record, compaction)
    call = ToolCall("q9s9c1", "look", {})
    record[-1].steps.append(
        StepRecord("more", (call,), (CallOutcome("done", "3", call_id=call.id),))
    )
    assert is_prefix(before, judge.sent(record, compaction))


@cases
def test_old_outcomes_are_truncated_first_then_the_beginning_is_dropped_and_last_the_last_step_is_truncated(
    record: list[Exchange], protocol: Protocol, budget: int
) -> None:
    compaction = Judge(protocol).compact(record, budget)
    sent = [step for exchange in record[compaction.dropped :] for step in exchange.steps]
    sent = sent[compaction.dropped_steps :]
    last = record[-1].steps[-1:]
    old_ids = {call.id for step in sent if step not in last for call in step.calls}
    if compaction.dropped or compaction.dropped_steps:
        assert old_ids <= set(compaction.truncated)
    if compaction.dropped_steps:
        assert compaction.dropped == len(record) - 1
    if any(call.id in compaction.truncated for step in last for call in step.calls):
        assert compaction.dropped == len(record) - 1
        assert compaction.dropped_steps == len(record[-1].steps) - 1


@over_protocols
def test_first_truncates_the_oldest_outcomes(protocol: Protocol) -> None:
    judge, record = Judge(protocol), talk(2)
    compaction = judge.compact(record, judge.size(record) - 10)
    shown = compacted_view(record, compaction)
    lengths = [len(step.outcomes[0].text) for exchange in shown for step in exchange.steps]
    assert (compaction.dropped, compaction.dropped_steps) == (0, 0)
    assert lengths[0] < 400
    assert lengths == sorted(lengths)
    assert lengths[-1] == len(record[-1].steps[-1].outcomes[0].text)


@settings(max_examples=20)
@given(st.sampled_from(PROTOCOLS), st.integers(1800, 4800))
def test_compaction_is_rare(protocol: Protocol, budget: int) -> None:
    judge = Judge(protocol)
    running = Exchange("Well?")
    compaction, times = Compaction(), 0
    for n in range(60):
        call = ToolCall(f"q1s{n}c1", "look", {"a": n})
        running.steps.append(
            StepRecord("", (call,), (CallOutcome("done", "a b " * 60, call_id=call.id),))
        )
        deeper = judge.compact([running], budget, compaction)
        times += deeper != compaction
        compaction = deeper
        assert judge.size(compacted_view([running], compaction)) <= budget
    assert 1 <= times <= 20


# ── the order in which things go ──────────────────────────────────────────────────────────────────


def step(id_: str, text: str) -> StepRecord:
    call = ToolCall(id_, "look", {})
    return StepRecord("so", (call,), (CallOutcome("done", text, value=object(), call_id=id_),))


def talk(count: int = 2) -> list[Exchange]:
    """Exchanges with an outcome of 2,000 characters each, two in the current one."""
    past = [
        Exchange(f"Q{n}?", [step(f"q{n}s1c1", "word " * 400)], Answered(f"A{n}"))
        for n in range(1, count + 1)
    ]
    return [
        *past,
        Exchange(f"Q{count + 1}?", [step("q3s1c1", "word " * 400), step("q3s2c1", "word " * 400)]),
    ]


@over_protocols
def test_then_drops_the_oldest_exchanges_with_a_note(
    protocol: Protocol,
) -> None:
    judge, record = Judge(protocol), talk(4)
    compactions = [judge.compact(record, budget) for budget in range(judge.size(record), 0, -10)]
    assert {compaction.dropped for compaction in compactions} >= {0, 3, 4}, (
        "oldest first, half of the way"
    )
    for compaction in (Compaction(dropped=1), *compactions):
        n = compaction.dropped
        note = "question and its answer" if n == 1 else f"{n} questions and their answers"
        if n and not compaction.dropped_steps:
            asked = f"(Left out here: the first {note}.)\n\nQ{n + 1}?"
            assert compacted_view(record, compaction)[0].question == asked
        assert fault_of(judge.sent(record, compaction)) == ""


@over_protocols
def test_after_that_drops_the_first_steps_of_the_current_question(protocol: Protocol) -> None:
    judge = Judge(protocol)
    record = [Exchange("Q?", [step(f"q1s{n}c1", "short") for n in range(40)])]
    compaction = judge.compact(record, judge.size(record) * 2 // 3)
    [shown] = compacted_view(record, compaction)
    assert 0 < len(shown.steps) < 40
    left = 40 - len(shown.steps)
    assert (
        shown.question
        == f"Q?\n\n(Left out here: the first {left} steps, with calls of look {left}×.)"
    )
    assert shown.steps == record[0].steps[left:]


@over_protocols
def test_finally_truncates_the_last_outcome(protocol: Protocol) -> None:
    judge = Judge(protocol)
    record = [Exchange("Q?", [step("q1s1c1", "word " * 1600)])]
    smallest = judge.size([Exchange("Q?")])
    lengths = []
    for max_tokens in (2000, 1000, 400, 150):
        [shown] = compacted_view(record, judge.compact(record, smallest + max_tokens))
        lengths.append(len(shown.steps[0].outcomes[0].text))
    assert lengths == sorted(lengths, reverse=True)
    assert lengths[0] > 3000
    assert lengths[-1] < 400


def test_a_truncated_outcome_keeps_its_end_and_loses_its_images() -> None:
    long = "word " * 2000 + "(kept as the variable look_1)"
    record = [Exchange("Q?", [step("q1s1c1", long)])]
    judge = Judge("react")
    [shown] = compacted_view(record, judge.compact(record, judge.size([Exchange("Q?")]) + 900))
    text = shown.steps[0].outcomes[0].text
    assert re.match(r"(word )+word\n… \(shortened from 10,029 characters\) …\n", text)
    assert text.endswith("(kept as the variable look_1)")
    image = CallOutcome("done", "[image]", images=("iVBORw0KGgo=",), call_id="q1s1c1")
    record = [Exchange("Q?", [StepRecord("", (ToolCall("q1s1c1", "plot", {}),), (image,))])]
    [shown] = compacted_view(record, judge.compact(record, judge.size(record) - 1))
    assert (
        shown.steps[0].outcomes[0].text
        == "[image]\n\n1 image was shown to the user, but not sent to you."
    )
    assert shown.steps[0].outcomes[0].images == ()


CALL = ToolCall("q01s01c01", "add", {"a": 1})
DONE = CallOutcome("done", "3", call_id="q01s01c01")


@over(
    "calls, outcomes",
    [
        ((CALL,), ()),
        ((), (DONE,)),
        ((CALL,), (DONE, DONE)),
        ((CALL,), (CallOutcome("done", "3", call_id="other"),)),
    ],
)
def test_rejects_a_step_without_one_outcome_per_call(
    calls: tuple[ToolCall, ...], outcomes: tuple[CallOutcome, ...]
) -> None:
    with pytest.raises(ValueError, match="each call needs exactly one outcome"):
        StepRecord(calls=calls, outcomes=outcomes)


ENDINGS = [Answered("x"), Answered(""), Failed("no", "model"), Failed("", "model"), Failed("500", "endpoint"),
           Stopped("max_steps=1"), Stopped("max_steps=1", "so far"), Interrupted("a tool call"), None]  # fmt: skip


@over("ending", ENDINGS)
def test_closing_message_is_never_empty(ending: Ending | None) -> None:
    assert Exchange("q", ending=ending).closing_text.strip()


def test_closing_message_does_not_contain_the_endpoints_error() -> None:
    closing = Exchange(
        "q", ending=Failed("401 from https://secret.example", "endpoint")
    ).closing_text
    assert "secret" not in closing


@over("ending, kept",
    [(Answered("x"), True), (Failed("no", "model"), True), (Stopped("max_steps=1", "so far"), True),
     (Failed("500", "endpoint"), False), (Interrupted("a request"), False), (Stopped("max_seconds=1"), False)],
)  # fmt: skip
def test_a_question_without_result_is_not_kept(ending: Ending, kept: bool) -> None:
    assert Exchange("q", ending=ending).is_worth_keeping is kept
