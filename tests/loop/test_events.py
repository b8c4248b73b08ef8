"""The values of a run."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.events import Answered, CallOutcome, ModelReply, Usage

usages = st.builds(Usage, *[st.integers(0, 99)] * 4)


def test_rejects_an_outcome_without_text() -> None:
    with pytest.raises(ValueError, match="never empty"):
        CallOutcome("done", "")


def test_rejects_an_unknown_status() -> None:
    with pytest.raises(ValueError, match=r"'finished'.*'done'"):
        CallOutcome("finished", "x")  # type: ignore[arg-type]


def test_events_are_frozen() -> None:
    with pytest.raises(dataclasses.FrozenInstanceError):
        Answered("x").text = "y"  # type: ignore[misc]


def test_equality_ignores_seconds_tokens_and_objects() -> None:
    assert CallOutcome("done", "3", value=3, seconds=1.0) == CallOutcome(
        "done", "3", value=4, seconds=2.0
    )
    assert ModelReply("x", usage=Usage(1, 2, 3, 4), model="a") == ModelReply(
        "x", model="b", seconds=9
    )


@given(usages, usages)
def test_usage_adds_up_field_by_field(a: Usage, b: Usage) -> None:
    total = a + b
    assert dataclasses.astuple(total) == tuple(
        x + y for x, y in zip(dataclasses.astuple(a), dataclasses.astuple(b), strict=True)
    )
