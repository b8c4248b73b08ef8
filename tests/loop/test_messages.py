"""The messages of a run grow with the record, and are compacted if they exceed the context."""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.conversation import ContextWindow, messages_of
from archytas_nb.loop.events import Answered, CallOutcome, ToolCall
from archytas_nb.loop.limits import REPLY_TOKENS
from archytas_nb.loop.record import Compaction, Exchange, StepRecord
from archytas_nb.loop.tokens import json_tokens, message_tokens, text_tokens
from tests.loop.cards import PROTOCOLS, Protocol, over, over_protocols, wire
from tests.strict import fault_of, is_prefix

REPLY = 100


@dataclass
class Holds:
    """A model with the given context length."""

    context_tokens: int | None


def step(question: int, n: int, words: int = 100) -> StepRecord:
    call = ToolCall(f"q{question:02}s{n:02}c01", "look", {"a": n})
    return StepRecord(
        "so", (call,), (CallOutcome("done", "word " * words, value=object(), call_id=call.id),)
    )


def sending(
    protocol: Protocol,
    past: list[Exchange],
    exchange: Exchange,
    context: int | None = None,
) -> ContextWindow:
    return ContextWindow(wire(protocol), past, exchange, Holds(context), REPLY)


@over_protocols
def test_messages_grow_with_the_record(protocol: Protocol) -> None:
    past, running = [Exchange("One?", [step(1, 1)], Answered("1"))], Exchange("Two?")
    it = sending(protocol, past, running)
    assert it.messages == messages_of(wire(protocol), [*past, running])
    running.steps.append(step(2, 1))
    it.add(running.steps[-1])
    assert it.messages == messages_of(wire(protocol), [*past, running])
    assert it.tokens == message_tokens(it.messages)
    assert it.compact() == ""
    assert running.compaction == Compaction()


@given(
    st.sampled_from(PROTOCOLS), st.integers(1200, 4000), st.lists(st.integers(1, 500), max_size=12)
)
def test_messages_reply_and_tools_stay_within_the_context(
    protocol: Protocol, context: int, words: list[int]
) -> None:
    running = Exchange("Well?")
    it = sending(protocol, [], running, context)
    beside = json_tokens(wire(protocol).tool_specs)
    for n, count in enumerate(words):
        running.steps.append(step(1, n, count))
        it.add(running.steps[-1])
        before = it.messages
        said = it.compact()
        assert it.tokens + REPLY + beside <= context
        assert fault_of(it.messages) == ""
        assert said or is_prefix(before, it.messages)


@over_protocols
def test_a_context_length_that_is_known_later_applies_from_then_on(protocol: Protocol) -> None:
    model = Holds(None)
    running = Exchange("Well?", [step(1, n) for n in range(20)])
    it = ContextWindow(wire(protocol), [], running, model, REPLY)
    assert it.compact() == ""
    model.context_tokens = 1500
    assert it.compact()
    assert it.tokens < 1500


@over_protocols
def test_an_overflow_shortens_the_request_and_the_reply(
    protocol: Protocol,
) -> None:
    running = Exchange("Well?", [step(1, n) for n in range(20)])
    it = sending(protocol, [], running)
    before = it.tokens
    assert "the conversation is too long for the endpoint" in it.compact(after_refusal=True)
    assert it.tokens < before * 3 // 4
    assert it.reply_tokens == REPLY // 2
    assert it.compact() == ""
    assert running.compaction.max_tokens == before * 3 // 4, "the limit holds for the next requests"


@over("context", [4096, 8192, 32768])
@over_protocols
def test_reserves_at_most_a_quarter_of_the_context_for_the_reply(
    protocol: Protocol, context: int
) -> None:
    running = Exchange("Well?")
    it = ContextWindow(wire(protocol), [], running, Holds(context), REPLY_TOKENS)
    while it.tokens < context // 2:
        running.steps.append(step(1, len(running.steps), 50))
        it.add(running.steps[-1])
        assert it.compact() == ""


@over_protocols
def test_asks_for_a_shorter_reply_if_nothing_can_be_left_out(protocol: Protocol) -> None:
    it = sending(protocol, [], Exchange("Well?"))
    messages = it.messages
    assert "none of its" in it.compact(after_refusal=True)
    assert (it.messages, it.reply_tokens) == (messages, REPLY // 2)


@over_protocols
def test_the_next_question_extends_the_last_request(protocol: Protocol) -> None:
    first = Exchange("One?", [step(1, n) for n in range(20)])
    it = sending(protocol, [], first, 1500)
    it.compact()
    last = it.messages
    first.ending = Answered("done")
    following = sending(protocol, [first], Exchange("Two?"), 1500)
    assert is_prefix(last, following.messages)
    assert first.steps[0].outcomes[0].text == "word " * 100, "the record has it all"


def test_a_compaction_of_removed_exchanges_keeps_the_question() -> None:
    past = [
        Exchange(
            "One?", [step(1, 1)], Answered("1"), compaction=Compaction(dropped=5, dropped_steps=3)
        )
    ]
    running = Exchange("Two?", [])
    it = sending("react", past, running)
    assert running.compaction == Compaction(dropped=1)
    assert [m["role"] for m in it.messages] == ["system", "user"]
    assert "Two?" in it.messages[-1]["content"]


@over_protocols
def test_messages_of_finished_exchanges_are_built_once(protocol: Protocol) -> None:
    """Rebuilding the messages of all earlier questions took 37 seconds for 2,000 questions."""
    form = wire(protocol)
    made = 0
    question = form.question

    def counted(exchange: Exchange) -> Any:
        nonlocal made
        made += 1
        return question(exchange)

    form.question = counted  # type: ignore[method-assign]
    past: list[Exchange] = []
    for n in range(200):
        running = Exchange(f"Question {n}?")
        it = ContextWindow(form, past, running, Holds(10**9), REPLY)
        running.steps.append(step(n, 1, words=3))
        it.add(running.steps[-1])
        running.ending = Answered("done")
        past.append(running)
    assert made <= 2 * 200
    assert ContextWindow(form, past, Exchange("Last?"), None, REPLY).messages == messages_of(
        wire(protocol), [*past, Exchange("Last?")]
    )


@over_protocols
def test_messages_of_a_changed_exchange_are_rebuilt(
    protocol: Protocol,
) -> None:
    first, last = Exchange("One?", [step(1, 1)], Answered("1")), Exchange("Two?")
    ContextWindow(wire(protocol), [first], last, None, REPLY)
    first.ending = Answered("another")
    first.steps.append(step(1, 2))
    it = ContextWindow(wire(protocol), [first], last, None, REPLY)
    assert it.messages == messages_of(wire(protocol), [first, last])
    other = "native" if protocol == "react" else "react"
    assert ContextWindow(wire(other), [first], last, None, REPLY).messages == messages_of(
        wire(other), [first, last]
    )


MEASURED: dict[str, Any] = json.loads(
    (Path(__file__).parent / "token_counts.json").read_text(encoding="utf-8")
)


@over("kind", MEASURED)
def test_token_estimate_is_within_its_bounds(
    kind: str,
) -> None:
    estimate, counted = text_tokens(MEASURED[kind]["text"]), max(MEASURED[kind]["tokens"].values())
    assert 0.95 * counted <= estimate <= 2 * counted


@over("kind", ["json", "csv", "english", "chinese"])
def test_estimates_a_long_text_from_samples(kind: str) -> None:
    once = MEASURED[kind]["text"] + "\n"
    times = 300_000 // len(once)
    assert text_tokens(once * times) == pytest.approx(text_tokens(once) * times, rel=0.05)


def test_estimates_ten_megabytes_quickly() -> None:
    began = time.monotonic()
    text_tokens('{"a": 1} ' * 1_200_000)
    assert time.monotonic() - began < 5


def test_every_text_has_tokens() -> None:
    assert text_tokens("") == 1
    assert text_tokens("\ud83d") >= 1
    assert message_tokens([{"role": "user", "content": "a"}]) > 1
