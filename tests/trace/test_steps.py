"""The fold from events to what a person sees."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import (
    Answered,
    AskModel,
    CallOutcome,
    CallOutcomes,
    CheckAnswer,
    Delta,
    Event,
    Failed,
    Interrupted,
    ModelReply,
    NoReply,
    NoReplyKind,
    Notice,
    NoticeKind,
    Output,
    RunCalls,
    Started,
    Stopped,
    ToolCall,
    Usage,
    Verdict,
)
from archytas_nb.loop.events_json import from_json, to_json
from archytas_nb.trace.bundle import bundle
from archytas_nb.trace.steps import advance, fold
from archytas_nb.trace.values import RunView
from tests.trace.samples import SAMPLES, DataFrame, ask, call, long_run

TEXT = st.text(max_size=40)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT, inner, max_size=3),
    max_leaves=6,
)
CALLS = st.lists(st.builds(ToolCall, TEXT, TEXT, JSON), max_size=3).map(tuple)
OUTPUTS = st.lists(
    st.builds(
        Output,
        st.sampled_from(["stdout", "stderr", "display"]),
        st.dictionaries(
            st.sampled_from(["text/plain", "text/html", "image/png", "image/svg+xml"]),
            TEXT,
            max_size=3,
        ),
    ),
    max_size=2,
).map(tuple)
OUTCOMES = st.lists(
    st.builds(
        CallOutcome,
        st.sampled_from(["done", "error", "refused", "interrupted", "not_run"]),
        TEXT.filter(bool),
        outputs=OUTPUTS,
        images=st.lists(TEXT, max_size=1).map(tuple),
    ),
    max_size=3,
).map(tuple)
EVENTS = st.lists(
    st.one_of(
        st.builds(Started, TEXT, st.sampled_from(["native", "react"])),
        st.builds(AskModel, st.integers(1, 4), st.just(())),
        st.builds(ModelReply, TEXT, reasoning=TEXT),
        st.builds(NoReply, st.sampled_from(get_args(NoReplyKind)), TEXT),
        st.builds(RunCalls, st.integers(1, 4), CALLS, TEXT),
        st.builds(CallOutcomes, OUTCOMES),
        st.builds(Notice, st.sampled_from(get_args(NoticeKind)), TEXT),
        st.builds(Delta, st.sampled_from(["text", "reasoning", "output"]), TEXT),
        st.builds(CheckAnswer, st.integers(1, 4), JSON),
        st.builds(Verdict, TEXT, st.none() | st.integers() | st.builds(DataFrame)),
        st.builds(Answered, TEXT, TEXT),
        st.builds(Failed, TEXT),
        st.builds(Stopped, TEXT, TEXT),
        st.builds(Interrupted, TEXT),
    ),
    max_size=12,
)


@given(EVENTS)
def test_any_events_in_any_order_can_be_shown(events: list[Any]) -> None:
    """The fold and every static form are total: no stream of events makes them raise, or fail to be encoded."""
    data, metadata = bundle(fold("q", events))
    for text in data.values():
        text.encode("utf-8")
    assert set(metadata) == {"archytas_nb"}


@given(EVENTS, st.integers(0, 12))
def test_a_fold_may_be_cut_anywhere(events: list[Any], cut: int) -> None:
    """Folding the rest onto the view of the beginning is folding the whole."""
    view = fold("q", events[:cut])
    for event in events[cut:]:
        view = advance(view, event)
    assert view == fold("q", events)


@given(EVENTS)
def test_pieces_and_progress_leave_no_mark(events: list[Any]) -> None:
    """A streamed run and the same run in whole replies have equal views."""
    lasting = [
        each
        for each in events
        if not isinstance(each, Delta) and getattr(each, "kind", "") != "progress"
    ]
    assert fold("q", events) == fold("q", lasting)


@given(EVENTS)
def test_an_event_leaves_the_earlier_view_as_it_was(events: list[Any]) -> None:
    """Views are values: taking one more event does not change the view that was there."""
    views = [RunView("q")]
    for event in events:
        views.append(advance(views[-1], event))
    assert views == [fold("q", events[:n]) for n in range(len(events) + 1)]


def without_values(event: Event) -> Event:
    """The event as it is after a recording."""
    if isinstance(event, CallOutcomes):
        return CallOutcomes(tuple(replace(outcome, value=None) for outcome in event.outcomes))
    return replace(event, value=None) if isinstance(event, Verdict) else event


@pytest.mark.parametrize("name", SAMPLES)
def test_a_recording_shows_what_the_run_showed(name: str) -> None:
    """Events that went through JSON give an equal view, but for tables, which need the live object."""
    question, events = SAMPLES[name]
    recorded = [from_json(to_json(event)) for event in events]
    again, first = (
        fold(question, recorded),
        fold(question, [without_values(event) for event in events]),
    )
    assert bundle(again) == bundle(first)
    assert again.usage == first.usage


def test_outcomes_go_to_the_calls_that_wait() -> None:
    """Calls are answered in their order; those of an earlier round keep their outcome."""
    two = (ToolCall("a", "f", {"n": 1}), ToolCall("b", "g", None))
    events = [
        *ask(1),
        RunCalls(1, two),
        CallOutcomes((CallOutcome("done", "one"), CallOutcome("error", "two"))),
        RunCalls(1, (ToolCall("c", "h", [1]),)),
        CallOutcomes((CallOutcome("refused", "three"),)),
    ]
    (step,) = fold("q", events).steps
    assert [(each.name, each.status, each.text) for each in step.calls] == [
        ("f", "done", "one"),
        ("g", "error", "two"),
        ("h", "refused", "three"),
    ]
    assert [each.arguments for each in step.calls] == [(("n", "1"),), (), (("", "[1]"),)]


def test_a_reply_that_leads_nowhere_is_kept() -> None:
    """A reply after which the model is asked again was of no use, and a person may see it."""
    view = fold("q", [*ask(1, "well …"), *ask(2, "")])
    assert [step.rejected for step in view.steps] == [("well …",), ()]
    assert view.steps[0].failed


def test_a_repeated_call_is_no_rejected_reply() -> None:
    """Where the earlier outcome is repeated, nothing is wrong with the reply."""
    view = fold("q", [*ask(1), Notice("repeat", "f: the same call again"), *ask(2)])
    assert view.steps[0].rejected == ()
    assert not view.steps[0].failed


def test_usage_and_seconds_add_up() -> None:
    """The view counts requests and tokens of all replies, and the seconds of replies."""
    view = fold("q", long_run(3, 5))
    assert view.usage == Usage(4, 3100, 0, 35)
    assert fold("q", call(1, "f", {}, "x")).seconds == pytest.approx(0.5)


def test_a_view_is_small_whatever_was_printed() -> None:
    """Five megabytes of output do not stay in memory."""
    question, events = SAMPLES["huge"]
    assert len(repr(fold(question, events))) < 100_000


def test_the_beginning_names_the_model_and_a_change_of_protocol_is_seen() -> None:
    """Who answers is known before the first reply; an endpoint that takes no tools is spoken to in text."""
    events: list[Event] = [Started("tiny-1", "native"), AskModel(1, ())]
    assert (fold("q", events).model, fold("q", events).protocol) == ("tiny-1", "native")
    assert fold("q", [*events, Notice("protocol", "no tools here")]).protocol == "react"


def test_an_overflow_that_a_compaction_has_got_over_is_no_failure() -> None:
    """The compaction says why no reply came; the step is not marked as failed."""
    events = [
        AskModel(1, ()),
        NoReply("overflow", "too long"),
        Notice("compaction", "shortened"),
        *ask(1),
    ]
    [step] = fold("q", [*events, Answered("done")]).steps
    assert [note.kind for note in step.notes] == ["compaction"]
    assert not step.failed


@pytest.mark.parametrize(
    ("value", "typed"), [(7, True), (["a"], True), ("prose", False), (None, False)]
)
def test_an_answer_that_is_a_value_is_told_from_prose(value: object, typed: bool) -> None:
    """A typed answer is shown as it is, not rendered as Markdown."""
    events = [*ask(1), CheckAnswer(1, "x"), Verdict(value=value), Answered("x")]
    assert fold("q", events).typed is typed
