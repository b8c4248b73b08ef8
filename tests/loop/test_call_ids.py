"""Ids of calls: nine letters and digits, as Mistral demands, and no two alike in a conversation."""

from __future__ import annotations

import itertools
import re

from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.loop import MAX_CALLS, call_id

COUNT, CALLS = st.integers(1, 60_000), st.integers(1, MAX_CALLS)


def test_ids_of_short_conversations_are_readable() -> None:
    assert call_id(1, 2, 3) == "q01s02c03"
    assert call_id(99, 99, 99) == "q99s99c99"


@given(COUNT, COUNT, CALLS)
def test_an_id_is_nine_letters_and_digits_however_long_the_conversation(
    q: int, s: int, c: int
) -> None:
    assert re.fullmatch(r"[a-zA-Z0-9]{9}", call_id(q, s, c))


def test_no_two_calls_of_a_conversation_have_the_same_id() -> None:
    counts = [1, 2, 9, 10, 99, 100, 101, 999, 1000, 2000, 40_000]
    places = list(itertools.product(counts, counts, [1, 9, 10, 99, 100]))
    assert len({call_id(*place) for place in places}) == len(places)


@given(st.tuples(COUNT, COUNT, CALLS), st.tuples(COUNT, COUNT, CALLS))
def test_different_places_have_different_ids(
    one: tuple[int, int, int], other: tuple[int, int, int]
) -> None:
    assert (call_id(*one) == call_id(*other)) is (one == other)
