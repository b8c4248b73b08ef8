"""What a small model is told beside an outcome or an error; where nothing is sure, nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.loop.events import ToolCall
from archytas_nb.loop.hints import beside_error, beside_outcome, is_advice
from archytas_nb.testing import ScriptedModel

LIST = ("samples", None, '["W1", "W2", "W3"]')
BOTH = [("ph", {"sample": "W1"}, "7.1"), ("ph", {"sample": "W2"}, "5.9")]


@pytest.mark.parametrize(
    ("question", "worked", "told"),
    [
        ("What is the pH of W1?", BOTH[:1], ""),
        ("Is the pH of W1 below 6.5?", BOTH[:1], "7.1 is not below 6.5."),
        ("Is it below 6.5?", [("ph", {"sample": "W1", "unit": "x"}, "6\n")], "6 is below 6.5."),
        ("Is it below 6.5?", [("ph", None, "6")], "6 is below 6.5."),
        ("Is it below 6.5?", [("ph", {}, "6")], "6 is below 6.5."),
        ("Is it below 6.5?", [("ph", "W1", "unknown")], ""),
        ("Is it below 6.5?", [("ph", "W1", '{"ph": 6}')], "6 is below 6.5."),
        ("Is it below 6.5 km?", [("way", "W1", "6 km")], "6 is below 6.5."),
        ("Is it below 6.5 km?", [("way", "W1", "6 mm")], ""),
        ("Is it below 6.5?", [("way", "W1", "6 km and 5 m")], ""),
        (
            "Is it below 6.5? Then order 9.",
            [("ph", "W1", "7"), ("stock", "acid", "12")],
            "",
        ),  # other numbers
        ("Which is sour?", [LIST, *BOTH[:1]], "Not looked up with ph yet: W2, W3"),
        ("Compare W1 and W2.", BOTH[:1], "Not looked up with ph yet: W2"),
        (
            "Which is the highest, W1 or W2?",
            BOTH,
            "From high to low: W1 (7.1), W2 (5.9). The highest is W1 (7.1).",
        ),
        ("Which of W1 and W2 are below 6.5?", BOTH, "Of these, only W2 is below 6.5."),
        ("What is the difference between W1 and W2?", BOTH, "The difference is 7.1 - 5.9 = 1.2."),
        (
            "Which is higher, W1 or W2, and by how much?",
            BOTH,
            "From high to low: W1 (7.1), W2 (5.9). The higher is W1 (7.1). The difference is 7.1 - 5.9 = 1.2.",
        ),
        (
            "Which is the highest, W1 or W2?",
            [*BOTH, ("note", "W1", "noted")],
            "",
        ),  # that was not about numbers
        ("Is W1 open? Otherwise ask for W2.", BOTH[:1], ""),
    ],
)
def test_what_stands_beside_an_outcome(question: str, worked: Any, told: str) -> None:
    assert beside_outcome(question, worked) == told


_OUTCOMES = st.sampled_from(
    ["1", "-2.5", "nan", "1e400", "1_000", "inf", "x", "", "2024-01-05", '["a", "b"]']
)
_CALLS = st.tuples(
    st.sampled_from("pq"), st.none() | st.text() | st.dictionaries(st.text(), st.text()), _OUTCOMES
)


@given(
    st.text() | st.sampled_from(["Is the sum over 5?", "Which is higher?"]),
    st.lists(_CALLS, min_size=1),
)
def test_any_question_and_any_calls_are_taken(question: str, worked: Any) -> None:
    assert isinstance(beside_outcome(question, worked), str)


@pytest.mark.parametrize(
    ("given_", "error", "better"),
    [
        (
            {"column": "weight"},
            "KeyError: no column 'weight'; there are 'weight_kg' and 'height'",
            "weight_kg",
        ),
        ("weight", "KeyError: no column 'weight'; there are 'weight_kg' and 'height'", "weight_kg"),
        ({"at": "14:30", "what": "tea"}, "ValueError: expected a time such as 08h15", "14h30"),
        ({"day": "2024-03-09"}, "ValueError: expected DD.MM.YYYY", "09.03.2024"),
        (
            {"day": "9/3/2024"},
            "ValueError: expected YYYY-MM-DD",
            "2024-03-09",
        ),  # the question names it
    ],
)
def test_beside_an_error_stands_the_one_input_that_it_asks_for(
    given_: Any, error: str, better: str
) -> None:
    told = beside_error("What is on 9 March 2024?", ToolCall("1", "look", given_), error)
    old = given_ if isinstance(given_, str) else next(iter(given_.values()))
    assert told is not None
    assert told.text == f"It gave no result. Call again, with {better!r} in place of {old!r}."
    assert is_advice(f"{error}\n\n{told.text}")
    assert told.fixed == {"" if given_ is old else next(iter(given_)): better}


@pytest.mark.parametrize(
    "error",
    [
        "OSError: the shutter was stuck; try again",
        "OSError: no picture was taken: it was locked. It is free now, try again",
        "busy, please retry.",
        "TimeoutError: the line was lost. Try it again!",
    ],
)
@pytest.mark.parametrize("given_", [{"star": "Bellara", "seconds": 90}, "Bellara", None])
def test_an_error_that_has_passed_and_wants_the_same_call_again_is_given_it(
    error: str, given_: Any
) -> None:
    told = beside_error("Take a picture.", ToolCall("1", "expose", given_), error)
    assert told is not None
    assert told.text == "It gave no result. Call again, with the same input."
    assert told.fixed == (given_ if isinstance(given_, dict) else {"": given_})


def test_an_error_that_offers_names_wants_another_input_whatever_else_it_says() -> None:
    error = "busy with 'kgs'; expected one of 'kg', 'lb'. Please try again."
    told = beside_error("Weigh it.", ToolCall("1", "weigh", {"unit": "kgs"}), error)
    assert told is not None
    assert told.fixed == {"unit": "kg"}


@pytest.mark.parametrize(
    ("given_", "error"),
    [
        (None, "ValueError: no"),
        (
            {"a": "weight", "b": "height"},
            "there are 'weight_kg' and 'height_cm'",
        ),  # which of the two was wrong?
        ("weight", "there are 'weight_kg' and 'weight_g'"),
        ("weight", "no\n  5 | raise KeyError('weight_kg')"),  # a line of code names no form
        ("14:30", "ValueError: no such time"),
        ("Bellara", "no such star; try again with another one"),
        ("Bellara", "nothing is known; do not retry in vain"),
        ("Bellara", "closed; try again later"),
        ("Bellara", "the line is busy: check the number and try again"),
        ("Bellara", "busy. Too many requests, wait 30 seconds and try again"),
        ("Bellara", "timeout: the payment may have been sent; try again"),
        ("Bellara", "connection lost; don't try again"),
        ("Bellara", "timeout: max retry count exceeded"),
    ],
)
def test_beside_an_error_that_asks_for_nothing_sure_stands_nothing(given_: Any, error: str) -> None:
    told = beside_error("What is on 9 March 2024?", ToolCall("1", "look", given_), error)
    assert told is None


def ph(sample: str) -> float:
    """Measure the pH of a sample.

    Args:
        sample: The sample, such as W1
    """
    return {"W1": 7.1, "W2": 5.9}[sample]


class Small(ScriptedModel):
    is_small = True


@pytest.mark.parametrize(("kind", "told"), [(Small, True), (ScriptedModel, False)])
def test_only_a_small_model_is_told_on_which_side_of_a_bound_a_number_lies(
    kind: Any, told: bool
) -> None:
    with kind(("ph", "W1"), ("final_answer", "No.")) as model:
        run = nb.Agent([ph], model=model, namespace={}).run("Is the pH of W1 below 6.5?")
    assert [outcome.value for _, outcome in run.calls] == [7.1]
    said = str(model.asked[1].messages[-1]["content"])
    assert said.endswith("7.1\n\n7.1 is not below 6.5.") == told
    assert said.endswith("7.1") != told
