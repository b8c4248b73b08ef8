"""The prompt of a question in a terminal."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.kernel.person import _wrapped

WORDS = st.lists(st.text("abc[]/", min_size=1, max_size=12), min_size=1, max_size=40)


@given(WORDS, st.integers(30, 120), st.sampled_from(["", " "]))
def test_a_prompt_is_wrapped_between_words_and_ends_as_it_did(
    words: list[str], columns: int, end: str
) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("COLUMNS", str(columns))
        shown = _wrapped(" ".join(words) + end)
    assert shown.split() == words
    assert all(len(line.rstrip()) < columns for line in shown.split("\n"))
    assert shown.endswith(words[-1] + end)
