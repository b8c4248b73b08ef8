"""What can be read of a reply while it is written."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.partial import Partial, read_partial


@pytest.mark.parametrize(
    ("text", "partial"),
    [
        ("", Partial()),
        ("Plain words", Partial(text="Plain words")),
        ('{"thou', Partial()),
        ('{"thought": "I count', Partial("I count")),
        ('```json\n{"thought": "I\\u', Partial("I")),
        ('{"thought": "a\\nb", "tool": "cou', Partial("a\nb")),
        (
            '{"thought": "a", "tool": "count", "tool_input": {"n": 1',
            Partial("a", "count", '{"n": 1'),
        ),
        (
            '{"thought": "a", "tool": "count", "tool_input": {"n": 1}}',
            Partial("a", "count", '{"n": 1}'),
        ),
        (
            '{"thought": "a", "tool": "final_answer", "tool_input": "There are \\"1',
            Partial("a", "final_answer", 'There are "1'),
        ),
        (
            '{"tool": "final_answer", "tool_input": {"answer": "Yes"}}',
            Partial("", "final_answer", "Yes"),
        ),
    ],
)
def test_what_has_begun_is_read(text: str, partial: Partial) -> None:
    """Thought, tool and words appear as soon as they begin, without JSON's signs."""
    assert read_partial(text) == partial


@given(st.text(max_size=30), st.text(max_size=30), st.integers(0, 200))
def test_every_cut_can_be_read(thought: str, words: str, cut: int) -> None:
    """A reply cut anywhere is read without an error; whole, it gives back what went in."""
    reply = json.dumps({"thought": thought, "tool": "final_answer", "tool_input": words})
    begun = read_partial(reply[:cut])
    if begun.tool:
        assert words.startswith(begun.text)
    assert thought.startswith(begun.thought)
    assert read_partial(reply) == Partial(thought, "final_answer", words)
