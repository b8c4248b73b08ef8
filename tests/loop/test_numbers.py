"""A number that comes from nowhere is noticed; one that was told, or rounds to what was told, is not."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.loop.numbers import lacks_measure, unfounded, unfounded_inputs
from archytas_nb.testing import ScriptedModel


@pytest.mark.parametrize(
    ("answer", "sources", "found"),
    [
        ("It is 124.", ["124"], []),
        ("It is 125.", ["124"], ["125"]),
        ("It is 1,234.5 mm.", ["1234.5"], []),
        ("About 217.2.", ["217.18699"], []),
        ("About 217.3.", ["217.18699"], ["217.3"]),
        ("There are 3 of them.", ["a, b, c"], []),
        ("Minus −4.5 or -4.5.", ["-4.5"], []),
        ("217.2 and 208.5, again 208.5.", ["217.2"], ["208.5"]),
        ("Table t1234 has none.", [], []),
        ("", [], []),
    ],
)
def test_numbers_without_a_source_are_found(
    answer: str, sources: list[str], found: list[str]
) -> None:
    assert unfounded(answer, sources) == found


@given(st.lists(st.floats(-1e6, 1e6).map(lambda x: f"{x:.3f}")))
def test_what_a_source_says_is_always_founded(numbers: list[str]) -> None:
    assert unfounded(" and ".join(numbers), ["; ".join(numbers)]) == []


@pytest.mark.parametrize(
    ("answer", "question", "found", "lacks"),
    [
        ("The part is FX-221.", "What does a filter for my boiler cost?", ["FX-221"], True),
        (
            "It is FX-221, for the Tarn 30.",
            "What does the filter of a Tarn 30 cost?",
            ["FX-221"],
            True,
        ),
        ("It costs 34.90 euros.", "What does a filter cost?", ["FX-221"], False),
        ("It costs nothing.", "What does a filter cost?", ["0.0"], False),
        ("Two.", "How many filters are there?", ["FX-221"], False),  # may have been counted
        ("Nobody knows.", "How long is it?", ["it is not known"], False),
        ("Nobody knows.", "How long is it?", [], False),
    ],
)
def test_a_measure_that_no_tool_has_told_is_missed(
    answer: str, question: str, found: list[str], lacks: bool
) -> None:
    assert lacks_measure(answer, question, found) == lacks


def length_of(river: str) -> int:
    """Look up the length of a river.

    Args:
        river: Its name
    """
    return {"Rhine": 1233, "Elbe": 1094}[river]


class Small(ScriptedModel):
    is_small = True


def test_a_small_model_is_asked_once_about_a_number_and_may_call_the_tool_after_all() -> None:
    model = Small(
        ("length_of", "Rhine"),
        ("final_answer", "1233 and 999 km."),
        ("length_of", "Elbe"),
        ("final_answer", "1233 and 1094 km, 2327 together."),
    )
    with model:
        run = nb.Agent([length_of], model=model, namespace={}).run("How long are these two rivers?")
    assert run.answer == "1233 and 1094 km, 2327 together."
    assert "999" in model.asked[2].messages[-1]["content"]
    assert "1233" not in model.asked[2].messages[-1]["content"]


def test_a_larger_model_is_believed_at_once() -> None:
    with ScriptedModel(("final_answer", "It is 4711.")) as model:
        assert nb.Agent([length_of], model=model, namespace={}).run("Well?").answer == "It is 4711."


NEEDED = {"type": "object", "required": ["litres", "days"]}


@pytest.mark.parametrize(
    ("given_", "schema", "sources", "found"),
    [
        (12, {"type": "number"}, ["8400"], ["12"]),
        (8400, {"type": "number"}, ["8400"], []),
        (7, {"type": "number"}, ["8400"], []),  # a small number may be counted
        ({"litres": 12, "days": 30}, NEEDED, ["8400 litres for 30 days"], ["12"]),
        (
            {"litres": 8400, "days": 30, "rows": 50},
            NEEDED,
            ["8400 litres for 30 days"],
            [],
        ),  # rows has a default
        ({"litres": 8430, "days": 8370}, NEEDED, ["8400 litres for 30 days"], []),  # reckoned
        ({"litres": 252000, "days": 280.0}, NEEDED, ["8400 litres for 30 days"], []),
        ({"litres": "12", "days": True}, NEEDED, ["8400"], []),
        ("12", {"type": "string"}, ["8400"], []),
        (None, None, ["8400"], []),
        (7200, {"type": "number"}, ["2 hours in seconds", "17.5"], []),  # reckoned between units
        (4711, {"type": "number"}, ["item W4711", "17.5"], []),
        (3000000, {"type": "number"}, ["3 million euros", "17.5"], []),
        (1e308, {"type": "number"}, ["17.5"], []),
        ({"n": 77}, {"required": None}, ["17.5"], []),
        (
            12,
            {"type": "number"},
            [" ".join(map(str, range(100, 200)))],
            [],
        ),  # of so many anything can be made
    ],
)
def test_a_needed_number_of_an_input_is_told_asked_for_or_reckoned(
    given_: Any, schema: Any, sources: list[str], found: list[str]
) -> None:
    assert unfounded_inputs(given_, schema, sources) == found
