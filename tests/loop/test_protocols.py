"""The two wire protocols: the record becomes messages for a strict server, replies become actions."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.conversation import messages_of
from archytas_nb.loop.events import (
    Answered,
    AskModel,
    CallOutcome,
    Failed,
    Interrupted,
    ModelReply,
    Stopped,
    ToolCall,
    WireCall,
)
from archytas_nb.loop.function_calling import FunctionCalling
from archytas_nb.loop.record import Exchange, StepRecord
from tests.loop.cards import PROTOCOLS, TOOLS, Protocol, over, wire
from tests.strict import fault_of, is_prefix

inputs = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(st.text(max_size=3), inner, max_size=2)
    ),
    max_leaves=5,
).filter(lambda value: "\\ud" not in json.dumps(value))
plain = st.text(max_size=6).filter(lambda text: "\\ud" not in json.dumps(text))
statuses = st.sampled_from(["done", "error", "refused", "interrupted", "not_run"])


@st.composite
def exchanges(draw: Any) -> list[Exchange]:
    made = []
    for question in range(draw(st.integers(1, 3))):
        steps = []
        for n in range(draw(st.integers(0, 3))):
            kind = draw(st.sampled_from(["wrong", "calls", "program"]))
            if kind == "wrong":
                steps.append(StepRecord(thought=draw(plain).strip(), correction="That was wrong."))
                continue
            calls = tuple(
                ToolCall(f"q{question}s{n}c{c}", draw(plain), draw(inputs))
                for c in range(draw(st.integers(0 if kind == "program" else 1, 3)))
            )
            outcomes = tuple(CallOutcome(draw(statuses), "said", call_id=call.id) for call in calls)
            step = StepRecord(draw(plain).strip(), calls, outcomes)
            if kind == "program":  # the last one of a run may make no call
                left_out = draw(st.booleans())
                step = replace(step, program="show(3)", report="shown: 3", is_left_out=left_out)
            steps.append(step)
        ending = draw(
            st.sampled_from(
                [
                    Answered("x"),
                    Failed("no"),
                    Failed("", "endpoint"),
                    Stopped("max_steps=1"),
                    Interrupted("x"),
                ]
            )
        )
        made.append(Exchange("Well?", steps, ending))
    return made


@given(exchanges(), st.sampled_from(PROTOCOLS), st.booleans())
def test_a_strict_server_accepts_the_messages_of_any_record(
    past: list[Exchange], protocol: Protocol, running: bool
) -> None:
    if running:
        past[-1].ending = None
    assert fault_of(messages_of(wire(protocol), past)) == ""


@given(exchanges(), st.sampled_from(PROTOCOLS))
def test_messages_only_grow_with_the_record(past: list[Exchange], protocol: Protocol) -> None:
    form = wire(protocol)
    shorter: list[Any] = []
    for n in range(len(past) + 1):
        longer = messages_of(form, past[:n])
        assert is_prefix(shorter, longer)
        shorter = longer


@given(exchanges(), st.sampled_from(PROTOCOLS))
def test_a_strict_server_accepts_the_last_turn(past: list[Exchange], protocol: Protocol) -> None:
    past[-1].ending = None
    messages = messages_of(wire(protocol), past)
    before = json.dumps(messages)
    ask = wire(protocol).with_actions(AskModel(9, tuple(messages)), None, last="max_steps=9")
    assert fault_of(ask.messages) == ""
    assert ask.tools == ()
    assert json.dumps(messages) == before, "the history itself is not changed"


def test_makes_illegal_tool_names_legal_in_the_history() -> None:
    step = StepRecord(
        "", (ToolCall("1", "übel! " * 30, None),), (CallOutcome("error", "x", call_id="1"),)
    )
    assert fault_of(messages_of(wire("native"), [Exchange("q", [step])])) == ""


@over("given_, sent", [(None, {}), (5, {"input": 5}), ({"a": 1}, {"a": 1}), ("{", {"input": "{"})])
def test_sends_arguments_back_as_an_object(given_: Any, sent: Any) -> None:
    step = StepRecord(
        "", (ToolCall("1", "look", given_),), (CallOutcome("done", "x", call_id="1"),)
    )
    [_, _, said, _] = messages_of(wire("native"), [Exchange("q", [step])])
    assert json.loads(said["tool_calls"][0]["function"]["arguments"]) == sent


def test_a_disabled_tool_leaves_only_the_schema_of_replies() -> None:
    for protocol in PROTOCOLS:
        messages = messages_of(wire(protocol), [Exchange("q")])
        before = wire(protocol).with_actions(AskModel(1, tuple(messages)), None)
        ask = wire(protocol).with_actions(AskModel(1, tuple(messages)), None, disabled={"look"})
        assert ask.tools == before.tools  # an endpoint's cache begins with them
        assert ask.messages == before.messages
        assert ('"look"' in json.dumps(before.schema)) == (protocol == "react")
        assert '"look"' not in json.dumps(ask.schema)


@over(
    "outcome, hinted",
    [
        (CallOutcome("error", "KeyError: 'a'", call_id="1"), True),
        (CallOutcome("done", "5", call_id="1"), False),
        (CallOutcome("refused", "no", call_id="1"), False),
        (CallOutcome("not_run", "later", call_id="1"), False),
    ],
)
def test_the_text_protocol_adds_a_hint_to_errors(outcome: CallOutcome, hinted: bool) -> None:
    step = StepRecord("", (ToolCall("1", "look", {}),), (outcome,))
    told = messages_of(wire("react"), [Exchange("q", [step])])[-1]["content"]
    assert told.startswith(f"Outcome of look ({outcome.status}):\n{outcome.text}")
    assert ("It gave no result. Read why" in told) == hinted
    assert "Read why" not in str(
        messages_of(wire("native"), [Exchange("q", [step])])[-1]["content"]
    )


# ── replies of function calling ───────────────────────────────────────────────────────────────────


def read(reply: ModelReply, *, prose_is_answer: bool = False) -> Any:
    return FunctionCalling(TOOLS).read(reply, prose_is_answer=prose_is_answer)


@over("text", ["42", "true", '{"mean": 3}', '["a"]', "Outcome: {ok}"])
def test_plain_json_is_an_answer_with_function_calling(text: str) -> None:
    assert read(ModelReply(text)).answer == text


@over("text", ["", "   ", "<think>hm</think>", "<think>hm"])
def test_an_empty_reply_is_a_fault(text: str) -> None:
    action = read(ModelReply(text))
    assert action.answer is None
    assert "empty" in action.fault


def test_a_written_final_answer_is_unwrapped() -> None:
    assert read(ModelReply('{"tool": "final_answer", "tool_input": "three"}')).answer == "three"


@over("said", ["", "Looking."])
def test_reasoning_is_not_part_of_the_thought(said: str) -> None:
    action = read(ModelReply(said, (WireCall("look", "{}"),), reasoning="I must look."))
    assert (action.thought, action.reasoning) == (said, "I must look.")
    assert action.calls == (("look", {}),)


@over("prose_is_answer", [True, False])
def test_marks_a_truncated_answer(prose_is_answer: bool) -> None:
    action = read(ModelReply("A long story that", finish="length"), prose_is_answer=prose_is_answer)
    assert (action.answer, action.truncated) == ("A long story that", "answer")
    assert "cut off for its length" in action.fault


def test_ignores_a_prefix_of_the_tool_name() -> None:
    assert read(ModelReply("", (WireCall("functions.look", '{"a": 1}'),))).calls == (
        ("look", {"a": 1}),
    )


@over("arguments", ["", "{}", '""', "null", '{"answer": " "}'])
def test_an_empty_final_answer_is_a_fault(arguments: str) -> None:
    action = read(ModelReply("", (WireCall("final_answer", arguments),)))
    assert action.fault
    assert action.answer is None
