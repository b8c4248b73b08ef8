"""The numbers that a tool gave for several things are put in order for a small model."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.loop.ranking import MOST, number_of, ranking, rows_of
from archytas_nb.testing import ScriptedModel


def order(rows: str, highest: str, lowest: str) -> str:
    most = f"The highest, most, longest, heaviest, dearest is {highest}."
    return f"From high to low: {rows}. {most} The lowest, least, shortest, lightest, cheapest is {lowest}."


def days(first: str, last: str) -> str:
    ends = f"The earliest, first, oldest is {first}. The latest, last, newest is {last}."
    return f"From early to late: {first}, {last}. {ends}"


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        (
            [("p", "a", "2.5"), ("p", "b", "1")],
            order("a (2.5), b (1)", "a (2.5)", "b (1)"),
        ),
        (
            [("p", "a", "2"), ("q", "z", "9"), ("p", "b", "10")],
            order("b (10), a (2)", "b (10)", "a (2)"),
        ),
        (
            [("p", {"of": "x", "unit": "kg"}, "-1e3"), ("p", {"of": "y", "unit": "kg"}, "-20")],
            order("y (-20), x (-1e3)", "y (-20)", "x (-1e3)"),
        ),
        (
            [("p", "c", "1"), ("p", "a", "2"), ("p", "b", "2")],
            order("b (2), a (2), c (1)", "a and b (2)", "c (1)"),
        ),
        (
            [("p", "a", "2024-03-09"), ("p", "b", "2023-12-31")],
            days("b (2023-12-31)", "a (2024-03-09)"),
        ),
        ([("p", "a", "2"), ("p", "b", "2.0")], ""),  # equal
    ],
)
def test_what_one_tool_gave_for_things_that_differ_in_one_input_is_put_in_order(
    calls: Any, found: str
) -> None:
    assert ranking(rows_of(calls, "p"), "Compare them.") == found


@pytest.mark.parametrize(
    "calls",
    [
        [],
        [("p", "a", "2")],  # nothing to compare it with
        [("p", "a", "2"), ("p", "b", "two")],
        [("p", "a", "nan"), ("p", "b", "1")],
        [("p", "a", "inf"), ("p", "b", "1")],
        [("p", "a", "1e400"), ("p", "b", "1")],
        [("p", "a", "2024"), ("p", "b", "2024-01-01")],  # a number and a day
        [("p", "a", "2024-02-30"), ("p", "b", "2024-01-01")],
        [
            ("p", {"of": "x", "unit": "kg"}, "1"),
            ("p", {"of": "y", "unit": "g"}, "2"),
        ],  # other units
        [("p", {"of": "x"}, "1"), ("p", {"of": "x", "unit": "g"}, "2")],
        [("p", "a", "1"), ("p", "a", "2")],  # what is told apart by nothing
        [("q", "a", "1"), ("q", "b", "2")],
        [("p", str(n), str(n)) for n in range(MOST + 1)],
    ],
)
def test_what_cannot_be_compared_has_no_rows(calls: Any) -> None:
    assert rows_of(calls, "p") == []


@given(st.dictionaries(st.integers(0, 99), st.floats(-1e6, 1e6), min_size=2, max_size=MOST))
def test_the_order_is_that_of_the_numbers_and_names_each_thing_once(
    table: dict[int, float],
) -> None:
    said = ranking(
        rows_of([("p", key, repr(value)) for key, value in table.items()], "p"), "Compare them."
    )
    if len(set(table.values())) < 2:
        assert said == ""
        return
    listed, highest, lowest = re.split(r"\. The [a-z, ]+ is ", said.partition(": ")[2])
    pairs = [each.rstrip(")").split(" (") for each in listed.split(", ")]
    assert {int(key): float(value) for key, value in pairs} == table
    assert [float(value) for _, value in pairs] == sorted(table.values(), reverse=True)
    for named, value in ((highest, max(table.values())), (lowest, min(table.values()))):
        keys = named.partition(" (")[0].split(" and ")
        assert {int(each) for each in keys} == {key for key in table if table[key] == value}


# ── the end that is asked for ─────────────────────────────────────────────────────────────────────

THREE = [("p", "a", "2"), ("p", "b", "9"), ("p", "c", "5")]
HIGH, LOW = "From high to low: b (9), c (5), a (2).", "From low to high: a (2), c (5), b (9)."


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("Which is the highest?", f"{HIGH} The highest is b (9)."),
        ("Which Tower is the TALLEST?", f"{HIGH} The tallest is b (9)."),
        ("Which species is heavier, a, b or c?", f"{HIGH} The heavier is b (9)."),
        ("Which month had the most rain?", f"{HIGH} The most is b (9)."),
        ("Which month had the least rain?", f"{LOW} The least is a (2)."),
        ("Order it in the cheapest shop.", f"{LOW} The cheapest is a (2)."),
        ("Which is the second highest?", f"{HIGH} The second highest is c (5)."),
        ("Which is the third-lowest?", f"{LOW} The third lowest is b (9)."),
    ],
)
def test_the_order_begins_at_the_end_that_is_asked_for(question: str, said: str) -> None:
    assert ranking(rows_of(THREE, "p"), question) == said


@pytest.mark.parametrize(
    "question",
    [
        "Which is the highest, and which the lowest?",  # both
        "Which have at least 5?",
        "Which have at most 5?",
        "Which have more than 5?",
        "Which cost less money than 5?",
        "Which are colder than about 5?",
        "Who ran the fastest?",  # of times it is the least, of speeds the most
        "Which is the best?",
    ],
)
def test_where_no_end_is_asked_for_both_are_said(question: str) -> None:
    assert ranking(rows_of(THREE, "p"), question) == order("b (9), c (5), a (2)", "b (9)", "a (2)")


@pytest.mark.parametrize(
    "question", ["", "How many are there?", "How many were there in 2012, and how many in 2015?"]
)
def test_where_nothing_is_compared_no_order_is_said(question: str) -> None:
    assert ranking(rows_of(THREE, "p"), question) == ""


def test_a_place_that_there_is_not_is_not_told() -> None:
    assert ranking(rows_of(THREE[:2], "p"), "Which is the third highest?") == ""


@given(st.lists(st.integers(), min_size=2, max_size=MOST, unique=True), st.booleans())
def test_the_end_that_is_asked_for_is_the_greatest_or_the_least(
    values: list[int], high: bool
) -> None:
    rows = rows_of([("p", f"t{n}", str(value)) for n, value in enumerate(values)], "p")
    if len({row.value for row in rows}) < 2:
        return
    said = ranking(rows, f"Which is the {'highest' if high else 'lowest'}?")
    ends = [row for row in rows if row.value == (max if high else min)(each.value for each in rows)]
    named = said.rpartition(" is ")[2].partition(" (")[0].split(" and ")
    assert set(named) == {row.label for row in ends}


@pytest.mark.parametrize(
    ("text", "number"),
    [("5", 5.0), (" -1e3\n", -1000.0), ("nan", None), ("-inf", None), ("5 kg", None), ("", None)],
)
def test_a_number_is_finite_and_all_of_a_text(text: str, number: float | None) -> None:
    assert number_of(text) == number


def price_in(shop: str) -> float:
    """Ask a shop for its price.

    Args:
        shop: The shop
    """
    return {"Adler": 1.95, "Bach": 1.15}[shop]


class Small(ScriptedModel):
    is_small = True


@pytest.mark.parametrize(
    ("kind", "told"),
    [
        (Small, "\n\nFrom low to high: Bach (1.15), Adler (1.95). The cheaper is Bach (1.15)."),
        (ScriptedModel, ""),
    ],
)
def test_a_small_model_is_told_the_order_with_the_outcome(kind: Any, told: str) -> None:
    with kind(("price_in", "Adler"), ("price_in", "Bach"), ("final_answer", "Bach")) as model:
        run = nb.Agent([price_in], model=model, namespace={}).run(
            "Is it cheaper at Adler or at Bach?"
        )
    assert [outcome.value for _, outcome in run.calls] == [1.95, 1.15]
    assert str(model.asked[2].messages[-1]["content"]).endswith(f"1.15{told}")


@pytest.mark.parametrize(
    ("about", "first"),
    [
        (
            "finishing_time The time of a runner, in minutes.",
            "From low to high: b (1), a (2). The fastest is b (1).",
        ),
        (
            "speed_of How fast it is, in km per hour.",
            "From high to low: a (2), b (1). The fastest is a (2).",
        ),
        ("look_up", "From high to low: a (2), b (1). The highest, "),  # nobody knows
    ],
)
def test_the_fastest_has_the_least_time_or_the_most_speed(about: str, first: str) -> None:
    rows = rows_of([("p", "a", "2"), ("p", "b", "1")], "p")
    assert ranking(rows, "Which is the fastest?", about).startswith(first)


@pytest.mark.parametrize(
    ("outcomes", "numbers"),
    [
        (("35 minutes", "28 minutes"), ["35", "28"]),
        (("a needs 35 min", "b needs 28 min"), ["35", "28"]),
        (('{"late": 3}', '{"late": 4}'), ["3", "4"]),
        (("900 m", "1.2 km"), []),  # other units
        (("S-714", "S-720"), []),
        (("7 of 9", "8 of 9"), []),
        (("at 10:30", "at 11:30"), []),
        (("x" * 99 + " 3", "x" * 99 + " 4"), []),
    ],
)
def test_numbers_with_the_same_words_around_them_are_compared(
    outcomes: tuple[str, str], numbers: list[str]
) -> None:
    rows = rows_of([("p", "a", outcomes[0]), ("p", "b", outcomes[1])], "p")
    assert [row.written for row in rows] == numbers
