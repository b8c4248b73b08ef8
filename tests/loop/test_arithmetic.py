"""A difference, a ratio or a sum is reckoned exactly where a question asks for it, and only there."""

from __future__ import annotations

from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.arithmetic import reckoned
from archytas_nb.loop.ranking import Row


def rows(*written: str) -> list[Row]:
    return [
        Row(f"w{n}", float(each) if "-" not in each[1:] else 0.0, each)
        for n, each in enumerate(written)
    ]


@pytest.mark.parametrize(
    ("question", "written", "said"),
    [
        (
            "How much heavier is Ada than Bo?",
            ["61.9", "83.4"],
            "The difference is 83.4 - 61.9 = 21.5.",
        ),
        ("By how much is Ada heavier?", ["83.4", "61.9"], "The difference is 83.4 - 61.9 = 21.5."),
        ("How many more pears than plums are there?", ["7", "9"], "The difference is 9 - 7 = 2."),
        (
            "What is the difference between Oslo and Rome?",
            ["-4", "12"],
            "The difference is 12 - (-4) = 16.",
        ),
        ("What is the difference?", ["0.3", "0.1"], "The difference is 0.3 - 0.1 = 0.2."),
        ("How far apart are they?", ["5", "5"], "The difference is 5 - 5 = 0."),
        ("How many times as long is the Rhine?", ["1230", "410"], "The ratio is 1230 / 410 = 3."),
        ("How many times as long is the Rhine?", ["2", "3"], "The ratio is 3 / 2 = 1.5."),
        ("How many times as long is the Rhine?", ["3", "1"], "The ratio is 3 / 1 = 3."),
        ("What do they weigh together?", ["1.1", "2.2"], "Together it is 1.1 + 2.2 = 3.3."),
        ("How many are there in total?", ["1", "2", "3"], "Together it is 1 + 2 + 3 = 6."),
        ("What is the sum of both?", ["1", "-2"], "Together it is 1 + (-2) = -1."),
    ],
)
def test_what_a_question_asks_of_numbers_is_reckoned(
    question: str, written: list[str], said: str
) -> None:
    assert reckoned(rows(*written), question) == said


@pytest.mark.parametrize(
    ("question", "written"),
    [
        ("", ["1", "2"]),
        ("Which is longer?", ["1", "2"]),
        ("Is the Rhine longer than the Elbe?", ["1", "2"]),
        ("What does the summary say?", ["1", "2"]),
        ("How many times as long is it?", ["1", "0"]),  # nothing is so many times nothing
        ("What is the difference between them?", ["1", "2", "3"]),  # of which two?
        ("What is the difference between the days?", ["2024-01-01", "2024-02-01"]),
    ],
)
def test_where_nothing_is_asked_for_nothing_is_reckoned(question: str, written: list[str]) -> None:
    assert reckoned(rows(*written), question) == ""


_EXACT = st.decimals(-999, 999, places=2)


@given(_EXACT, _EXACT)
def test_a_difference_is_exact_and_never_negative(one: Decimal, other: Decimal) -> None:
    said = reckoned(rows_of(one, other), "What is the difference?")
    assert Decimal(said.rpartition(" = ")[2].rstrip(".")) == abs(one - other)


@given(st.lists(_EXACT, min_size=2, max_size=12))
def test_a_sum_is_exact_and_shows_what_it_is_of(values: list[Decimal]) -> None:
    said = reckoned(rows_of(*values), "What is the sum of them?")
    terms, _, total = said.removeprefix("Together it is ").removesuffix(".").partition(" = ")
    assert [Decimal(each.strip("()")) for each in terms.split(" + ")] == values
    assert Decimal(total) == sum(values)


def rows_of(*values: Decimal) -> list[Row]:
    return [Row(f"w{n}", float(value), str(value)) for n, value in enumerate(values)]


@pytest.mark.parametrize("piece", ["by how ", "total ", "than ", "sum of "])
def test_long_questions_take_no_time(piece: str) -> None:
    """Nobody waits for a hint."""
    assert isinstance(reckoned(rows("1", "2"), piece * 2000), str)
