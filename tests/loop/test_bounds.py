"""On which side of a question's bounds a number lies is said in the question's words, and as floats compare."""

from __future__ import annotations

import operator
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.bounds import bound_of, sides
from archytas_nb.loop.ranking import LONGEST, Row


def rows(*pairs: tuple[str, str]) -> list[Row]:
    return [Row(label, float(written), written) for label, written in pairs]


@pytest.mark.parametrize(
    ("question", "words", "number"),
    [
        ("Is it below 6.5?", "below 6.5", 6.5),
        ("Is the level under 20 percent?", "under 20", 20.0),
        ("Does the lake have less than 30 fish?", "less than 30", 30.0),
        ("Is it colder than -5 degrees?", "colder than -5", -5.0),
        ("Start them only if more than 500 jobs wait.", "more than 500", 500.0),
        ("Is it warmer than 26 degrees there?", "warmer than 26", 26.0),
        ("Are there more than 1,000 of them?", "more than 1,000", 1000.0),
        ("Order it if it costs more than $20.", "more than $20", 20.0),
        ("Is it above 0.3 by now?", "above 0.3", 0.3),
        ("Tell me if the bill exceeds 40.", "above 40", 40.0),
        ("If at least 3 are left, take one.", "at least 3", 3.0),
        ("Look at the tank. If it is below 20 percent, refill it.", "below 20", 20.0),
        ("Retest any with a pH below 6.5.", "below 6.5", 6.5),
    ],
)
def test_a_bound_of_a_question_is_found_in_its_words(
    question: str, words: str, number: float
) -> None:
    bound = bound_of(question)
    assert bound is not None
    assert (bound.words, bound.number) == (words, number)


@pytest.mark.parametrize(
    "question",
    [
        "",
        "Which is the highest of them?",
        "Is it warmer in Rome than in Oslo?",
        "Is it later than 10:30?",
        "Is it above 2024-01-05?",
        "Is it more than 1/2 of them?",
        "Is it above freezing?",
        "Is it greater than or equal to 5?",
        "Is it between 5 and 10?",
        "Is it above 5 in Oslo and above 20 in Rome?",  # of which?
        "Is it below 3 or above 7?",
        f"{'Well. ' * LONGEST}Is it below 5?",
    ],
)
def test_what_may_be_no_bound_is_none(question: str) -> None:
    assert bound_of(question) is None
    assert sides(question, rows(("a", "5"))) == ""


KINDS: list[tuple[str, Callable[[float, float], bool]]] = [
    ("Is it below {}?", operator.lt),
    ("Is it less than {} now?", operator.lt),
    ("Is it above {}?", operator.gt),
    ("Is it more than {} now?", operator.gt),
    ("Is it at least {}?", operator.ge),
    ("Is it at most {}?", operator.le),
]
_NUMBERS = st.integers(-9999, 9999) | st.decimals(-999, 999, places=2).filter(bool)


@given(st.sampled_from(KINDS), _NUMBERS, _NUMBERS)
def test_the_side_that_is_said_is_that_of_the_numbers(
    kind: tuple[str, Callable[[float, float], bool]], number: object, value: object
) -> None:
    asked, holds = kind
    said = sides(asked.format(number), rows(("W1", str(value))))
    assert said.startswith(f"{value} is ")
    assert said.endswith(f" {number}.")
    assert (" is not " not in said) == holds(float(str(value)), float(str(number)))


@given(
    st.dictionaries(st.sampled_from(["W1", "W2", "W3", "W4"]), st.integers(0, 9), min_size=2),
    st.integers(0, 9),
)
def test_of_several_those_that_keep_the_bound_are_named_and_no_others(
    table: dict[str, int], bound: int
) -> None:
    said = sides(
        f"Which are below {bound}?", rows(*((label, str(value)) for label, value in table.items()))
    )
    within = [label for label, value in table.items() if value < bound]
    if within and len(within) < len(table):
        assert said.startswith("Of these, only ")
        assert [label for label in table if label in said] == within
        return
    assert said.startswith("All of these" if within else "None of these")


@pytest.mark.parametrize(
    ("written", "said"),
    [
        ("7.1", "7.1 is not below 6.5."),
        ("6.4", "6.4 is below 6.5."),
        ("6.5", "6.5 is not below 6.5."),
    ],
)
def test_a_single_number_is_said_as_it_was_written(written: str, said: str) -> None:
    assert sides("Is the pH below 6.5?", rows(("W1", written))) == said


def test_while_something_is_left_only_the_last_number_is_said() -> None:
    found = rows(("W1", "7.1"), ("W2", "5.9"))
    assert sides("If any is below 6.5, retest it.", found, is_all=False) == "5.9 is below 6.5."


@pytest.mark.parametrize(
    ("question", "written", "is_out"),
    [
        ("If it is below 20 percent, refill the tank.", "25", True),
        ("If it is below 20 percent, refill the tank.", "12", False),
        ("Empty the queue only if more than 500 jobs wait.", "500", True),
        ("Is it below 20 percent?", "25", False),  # nothing is to be done
        ("Refill the tank unless it is above 20 percent.", "12", False),  # it is to be refilled
    ],
)
def test_what_is_to_be_done_only_within_a_bound_is_said_not_to_be_done_outside(
    question: str, written: str, is_out: bool
) -> None:
    then = "so what is to be done only then is not to be done"
    assert (then in sides(question, rows(("", written)))) == is_out
    assert then not in sides(question, rows(("", written)), is_all=False), (
        "the others may be within"
    )


def test_where_one_thing_is_to_be_done_or_else_another_it_is_said_which_of_them_is_not() -> None:
    question = "If the shop has at least 2 loaves left, reserve 2 there. Otherwise reserve 2 at the market."
    told = [sides(question, rows(("", written))) for written in ("5", "1")]
    assert told == [
        "5 is at least 2, so only what is to be done then is to be done.",
        "1 is not at least 2, so only what is to be done otherwise is to be done.",
    ]
    more = f"{question} Then print the report."
    told = [sides(more, rows(("", written))) for written in ("5", "1")]
    assert told == [
        "5 is at least 2.",
        "1 is not at least 2, so what is to be done only then is not to be done.",
    ]


@pytest.mark.parametrize(
    ("question", "first", "last", "said"),
    [
        (
            "Is it up, did it rise by more than 5 from May to June?",
            "10",
            "20",
            "The rise from 10 to 20 is 10, which is more than 5.",
        ),
        (
            "If it fell by at least 0.1 from May to June, call.",
            "0.3",
            "0.2",
            "The fall from 0.3 to 0.2 is 0.1, which is at least 0.1.",
        ),
        (
            "If it rose by more than 5 from May to June, call.",
            "20",
            "10",
            "The rise from 20 to 10 is -10, which is not more than 5.",
        ),
        (
            "If it rose by more than 5 from June to May, call.",
            "20",
            "10",
            "The rise from 10 to 20 is 10, which is more than 5.",
        ),
        ("If it rose by more than 5 percent from May to June, call.", "10", "20", ""),
        ("If it rose by more than 5, call.", "10", "20", ""),  # which was first?
    ],
)
def test_a_bound_of_a_change_is_about_the_way_from_one_number_to_the_other(
    question: str, first: str, last: str, said: str
) -> None:
    assert sides(question, rows(("May", first), ("June", last))) == said
    assert sides(question, rows(("May", first))) == "", "one number is no change"


@pytest.mark.parametrize(
    ("question", "about", "is_said"),
    [
        ("Which takes more than 20 minutes?", "The delay, in minutes.", True),
        ("Which takes more than 2 hours?", "The delay, in minutes.", False),
        ("Which takes more than 20 minutes?", "The delay.", True),
        ("Is it more than 1 km?", "The length in m.", False),
    ],
)
def test_where_a_tool_counts_in_another_unit_nothing_is_said(
    question: str, about: str, is_said: bool
) -> None:
    assert bool(sides(question, rows(("", "130")), about)) == is_said


@pytest.mark.parametrize(
    "piece", ["at least 5 ", "no more than ", "9 or ", "rise ", "differ ", "not ", "12,7,"]
)
def test_long_questions_are_passed_over(piece: str) -> None:
    assert sides("Is any above 5? " + piece * 2000, rows(("a", "1"), ("b", "2"))) == ""
