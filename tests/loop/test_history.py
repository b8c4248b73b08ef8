"""The record of a conversation."""

from __future__ import annotations

import pytest

from archytas_nb.loop.events import (
    Answered,
    CallOutcome,
    Ending,
    Failed,
    Interrupted,
    Stopped,
    ToolCall,
)
from archytas_nb.loop.history import Exchange, Step

CALL = ToolCall("q01s01c01", "add", {"a": 1})
DONE = CallOutcome("done", "3", call_id="q01s01c01")


@pytest.mark.parametrize(
    ("calls", "outcomes"),
    [
        ((CALL,), ()),
        ((), (DONE,)),
        ((CALL,), (DONE, DONE)),
        ((CALL,), (CallOutcome("done", "3", call_id="other"),)),
    ],
)
def test_a_step_in_which_a_call_lacks_its_outcome_cannot_be_born(
    calls: tuple[ToolCall, ...], outcomes: tuple[CallOutcome, ...]
) -> None:
    with pytest.raises(ValueError, match="each call needs exactly one outcome"):
        Step(calls=calls, outcomes=outcomes)


ENDINGS = [Answered("x"), Answered(""), Failed("no", "model"), Failed("", "model"), Failed("500", "endpoint"),
           Stopped("max_steps=1"), Stopped("max_steps=1", "so far"), Interrupted("a tool"), None]  # fmt: skip


@pytest.mark.parametrize("ending", ENDINGS)
def test_the_last_words_are_never_empty(ending: Ending | None) -> None:
    assert Exchange("q", ending=ending).closing.strip()


def test_an_endpoints_error_is_not_put_into_the_models_mouth() -> None:
    closing = Exchange("q", ending=Failed("401 from https://secret.example", "endpoint")).closing
    assert "secret" not in closing


@pytest.mark.parametrize(
    ("ending", "kept"),
    [(Answered("x"), True), (Failed("no", "model"), True), (Stopped("max_steps=1", "so far"), True),
     (Failed("500", "endpoint"), False), (Interrupted("a request"), False), (Stopped("max_seconds=1"), False)],
)  # fmt: skip
def test_a_question_of_which_nothing_came_is_as_if_it_had_not_been_asked(
    ending: Ending, kept: bool
) -> None:
    assert Exchange("q", ending=ending).is_worth_keeping is kept


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_question_with_a_step_is_kept_however_it_ended(ending: Ending | None) -> None:
    assert Exchange("q", [Step(calls=(CALL,), outcomes=(DONE,))], ending).is_worth_keeping
