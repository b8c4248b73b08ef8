"""The decision of a person, in words: with who has decided it, and as a recording has it."""

from __future__ import annotations

import pytest

from archytas_nb.loop.decision import Decision

CASES = [
    (Decision("approved"), "approved by you"),
    (Decision("approved", seconds=0.4), "approved by you"),
    (Decision("approved", "run", seconds=4), "approved by you after 4 s, also later in this run"),
    (Decision("approved", "notebook"), "approved by you, always"),
    (Decision("refused", seconds=64.2), "refused by you after 1 min 4 s"),
    (Decision("refused", reason="approved, always"), "refused by you: approved, always"),
    (Decision("unanswered"), "not run: there was no yes"),
    (Decision("unanswered", seconds=64.2), "not run: there was no yes after 1 min 4 s"),
    (Decision("stopped", seconds=9), "the run was stopped"),
]


@pytest.mark.parametrize(("decision", "words"), CASES)
def test_words_say_who_decided_and_after_how_long_unless_nobody_did(
    decision: Decision, words: str
) -> None:
    assert decision.in_words == words
    assert str(decision) == words.replace(" by you", "").replace(" after 4 s", "").replace(
        " after 1 min 4 s", ""
    )


def test_decisions_are_equal_whatever_time_they_took() -> None:
    assert Decision("approved", seconds=1.0) == Decision("approved", seconds=2.0)
    assert Decision("approved") != Decision("approved", "run")
