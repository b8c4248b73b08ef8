"""The values of a run, to JSON and back."""

from __future__ import annotations

import dataclasses
import json
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop import events, events_json
from archytas_nb.loop.events import (
    Answered,
    AskModel,
    CallOutcome,
    CallOutcomes,
    CheckAnswer,
    Delta,
    Failed,
    Interrupted,
    ModelReply,
    NoReply,
    Notice,
    Output,
    RunCalls,
    Started,
    Stopped,
    ToolCall,
    Usage,
    Verdict,
    WireCall,
)
from archytas_nb.loop.events_json import from_json, to_json

scalars = st.none() | st.booleans() | st.integers(-9, 9) | st.text(max_size=5)
keys = st.sampled_from(["event", "a", "kind", "text"]) | st.text(max_size=3)
names = st.sampled_from(["ToolCall", "Notice", "Usage"])
json_values = st.recursive(
    scalars | names,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3),
    max_leaves=8,
)
texts = st.text(max_size=8)
calls = st.builds(ToolCall, texts, texts, json_values)
outputs = st.builds(
    Output,
    st.sampled_from(["stdout", "stderr", "display"]),
    st.dictionaries(texts, texts, max_size=2),
)
outcomes = st.builds(
    CallOutcome,
    st.sampled_from(get_args(events.Status)),
    st.text(min_size=1, max_size=8),
    call_id=texts,
    images=st.lists(texts, max_size=2).map(tuple),
    outputs=st.lists(outputs, max_size=2).map(tuple),
    seconds=st.floats(0, 9),
)
usages = st.builds(Usage, *[st.integers(0, 99)] * 4)
wire_calls = st.lists(st.builds(WireCall, texts, texts), max_size=2).map(tuple)
messages = st.lists(st.dictionaries(texts, json_values, max_size=3), max_size=3).map(tuple)
any_event = st.one_of(
    st.builds(
        AskModel,
        st.integers(1, 9),
        messages,
        messages,
        json_values,
        st.none() | st.integers(1, 99),
        seconds=st.none() | st.floats(0, 9),
    ),
    st.builds(RunCalls, st.integers(1, 9), st.lists(calls, max_size=3).map(tuple), texts),
    st.builds(ModelReply, texts, wire_calls, texts, texts, texts, usages, st.floats(0, 9)),
    st.builds(NoReply, st.sampled_from(get_args(events.NoReplyKind)), texts),
    st.builds(CallOutcomes, st.lists(outcomes, max_size=3).map(tuple)),
    st.builds(Notice, st.sampled_from(get_args(events.NoticeKind)), texts),
    st.builds(Delta, st.sampled_from(["text", "reasoning", "output"]), texts),
    st.builds(Started, texts, texts),
    st.builds(CheckAnswer, st.integers(1, 9), json_values),
    st.builds(Verdict, texts),
    st.builds(Answered, texts, texts),
    st.builds(Failed, texts, st.sampled_from(["model", "endpoint"])),
    st.builds(Stopped, texts, texts),
    st.builds(Interrupted, texts),
)


@given(any_event)
def test_an_event_that_went_through_json_is_equal_to_what_it_was(event: Any) -> None:
    assert from_json(json.loads(json.dumps(to_json(event)))) == event


@given(any_event)
def test_what_is_left_out_of_equality_goes_through_json_too(event: Any) -> None:
    back = from_json(to_json(event))
    for field in dataclasses.fields(event):
        if field.name in ("usage", "seconds", "model"):
            assert getattr(back, field.name) == getattr(event, field.name)


def test_every_kind_of_event_is_covered_by_these_tests() -> None:
    assert {cls.__name__ for cls in get_args(events.Event)} <= set(events_json._CLASSES)


def test_an_input_that_looks_like_an_event_stays_data() -> None:
    call = ToolCall("1", "log", {"event": "Notice", "kind": "retry", "text": "x"})
    assert from_json(to_json(call)).input == {"event": "Notice", "kind": "retry", "text": "x"}


def test_live_objects_are_left_out_of_json() -> None:
    outcome = CallOutcome("done", "3", value=object(), error=ValueError("x"))
    assert not {"value", "error"} & set(to_json(outcome))
    assert to_json(Verdict(value=object())) == {"event": "Verdict", "fault": ""}


@pytest.mark.parametrize("data", [{}, {"event": "Nonsense"}, [], "text", None])
def test_what_is_no_event_is_refused_by_name(data: Any) -> None:
    with pytest.raises(ValueError, match=r"no event is named .* expected one of"):
        from_json(data)
