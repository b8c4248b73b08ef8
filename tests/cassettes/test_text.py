"""A diff shows the place where two texts part, and no more than fits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.cassettes.text import text_difference


def test_lines_that_differ_are_shown_with_their_place() -> None:
    where, lines = text_difference("a\nb\nc", "a\nB\nc")
    assert where == "line 2, character 1"
    assert lines == "    - b\n    + B"


def test_a_line_that_came_or_went_is_shown_alone() -> None:
    assert text_difference("a\nc", "a\nb\nc")[1] == "    + b"
    assert text_difference("a\nb\nc", "a\nc")[1] == "    - b"


def test_a_long_line_is_cut_to_the_piece_that_differs() -> None:
    before, after = ("x" * 500 + each + "y" * 500 for each in ("one", "two"))
    where, lines = text_difference(before, after)
    assert where == "line 1, character 501"
    old, new = lines.split("\n")
    assert "xone" in old
    assert "xtwo" in new
    assert max(len(old), len(new)) < 110


@given(st.text(alphabet="ab\n", max_size=60), st.text(alphabet="ab\n", max_size=60))
def test_texts_that_differ_give_a_short_diff(before: str, after: str) -> None:
    lines = text_difference(before, after)[1]
    assert (lines == "") == (before == after)
    assert lines.count("\n") < 12
