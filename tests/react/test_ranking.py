"""The numbers that a tool gave for several things are put in order for a small model."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.react.ranking import MOST, ranking
from archytas_nb.testing import ScriptedModel


@pytest.mark.parametrize(
    ("calls", "found"),
    [
        ([("p", "a", "2.5"), ("p", "b", "1")], "In order, the least first: b 1, a 2.5"),
        ([("p", "a", "2"), ("q", "z", "9"), ("p", "b", "10")], "In order, the least first: a 2, b 10"),
        (
            [("p", {"of": "x", "unit": "kg"}, "-1e3"), ("p", {"of": "y", "unit": "kg"}, "-20")],
            "In order, the least first: x -1e3, y -20",
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
    pairs = [each.split() for each in said.partition(": ")[2].split(", ")]
    assert {int(key): float(value) for key, value in pairs} == table
    assert [float(value) for _, value in pairs] == sorted(table.values())


def price_in(shop: str) -> float:
    """Ask a shop for its price.

    Args:
        shop: The shop
    """
    return {"Adler": 1.95, "Bach": 1.15}[shop]


class Small(ScriptedModel):
    is_small = True


@pytest.mark.parametrize(
    ("kind", "told"), [(Small, "\n\nIn order, the least first: Bach 1.15, Adler 1.95"), (ScriptedModel, "")]
)
def test_a_small_model_is_told_the_order_with_the_outcome(kind: Any, told: str) -> None:
    with kind(("price_in", "Adler"), ("price_in", "Bach"), ("final_answer", "Bach")) as model:
        run = nb.Agent([price_in], model=model, namespace={}).run("Is it cheaper at Adler or at Bach?")
    assert [outcome.value for _, outcome in run.calls] == [1.95, 1.15]
    assert str(model.asked[2].messages[-1]["content"]).endswith(f"1.15{told}")
