"""The numbers that a tool gave for several things are put in order for a small model."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.react.ranking import MOST, ranking
from archytas_nb.testing import ScriptedModel


def order(rows: str, highest: str, lowest: str) -> str:
    most = f"The highest, most, longest, heaviest, dearest is {highest}."
    return f"From high to low: {rows}. {most} The lowest, least, shortest, lightest, cheapest is {lowest}."


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        (
            [("p", "a", "2.5"), ("p", "b", "1")],
            order("a 2.5, b 1", "a (2.5)", "b (1)"),
        ),
        (
            [("p", "a", "2"), ("q", "z", "9"), ("p", "b", "10")],
            order("b 10, a 2", "b (10)", "a (2)"),
        ),
        (
            [("p", {"of": "x", "unit": "kg"}, "-1e3"), ("p", {"of": "y", "unit": "kg"}, "-20")],
            order("y -20, x -1e3", "y (-20)", "x (-1e3)"),
        ),
        (
            [("p", "a", "2"), ("p", "b", "2.0"), ("p", "c", "1")],
            order("a 2, b 2.0, c 1", "a and b (2)", "c (1)"),
        ),
        ([("p", "a", "2")], ""),  # nothing to compare it with
        ([("p", "a", "2"), ("p", "b", "2.0")], ""),  # equal
        ([("p", "a", "2"), ("p", "b", "two")], ""),
        ([("p", "a", "nan"), ("p", "b", "1")], ""),
        ([("p", {"of": "x", "unit": "kg"}, "1"), ("p", {"of": "y", "unit": "g"}, "2")], ""),  # other units
        ([("p", {"of": "x"}, "1"), ("p", {"of": "x", "unit": "g"}, "2")], ""),
        ([("q", "a", "1"), ("q", "b", "2")], ""),
        ([("p", str(n), str(n)) for n in range(MOST + 1)], ""),
    ],
)
def test_numbers_of_one_tool_for_things_that_differ_in_one_input_are_put_in_order(calls: Any, found: str) -> None:
    assert ranking(calls, "p") == found


@given(st.dictionaries(st.integers(0, 99), st.floats(-1e6, 1e6), min_size=2, max_size=MOST))
def test_the_order_is_that_of_the_numbers_and_names_each_thing_once(table: dict[int, float]) -> None:
    said = ranking([("p", key, repr(value)) for key, value in table.items()], "p")
    if len(set(table.values())) < 2:
        assert said == ""
        return
    rows, highest, lowest = re.split(r"\. The [a-z, ]+ is ", said.partition(": ")[2])
    pairs = [each.split() for each in rows.split(", ")]
    assert {int(key): float(value) for key, value in pairs} == table
    assert [float(value) for _, value in pairs] == sorted(table.values(), reverse=True)
    for named, value in ((highest, max(table.values())), (lowest, min(table.values()))):
        keys = named.partition(" (")[0].split(" and ")
        assert {int(each) for each in keys} == {key for key in table if table[key] == value}


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
        (Small, "\n\n" + order("Adler 1.95, Bach 1.15", "Adler (1.95)", "Bach (1.15)")),
        (ScriptedModel, ""),
    ],
)
def test_a_small_model_is_told_the_order_with_the_outcome(kind: Any, told: str) -> None:
    with kind(("price_in", "Adler"), ("price_in", "Bach"), ("final_answer", "Bach")) as model:
        run = nb.Agent([price_in], model=model, namespace={}).run("Is it cheaper at Adler or at Bach?")
    assert [outcome.value for _, outcome in run.calls] == [1.95, 1.15]
    assert str(model.asked[2].messages[-1]["content"]).endswith(f"1.15{told}")
