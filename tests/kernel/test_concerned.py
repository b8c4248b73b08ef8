"""A question goes to a copy if it is about a variable with which the sandbox cannot compute."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.kernel.concerned import concerned
from archytas_nb.loop.record import Context, Exchange
from archytas_nb.sandbox.values import is_opaque

SHIPS = pd.DataFrame({"depth_m": [2.0], "Home Port": ["Kiel"]})
NAMESPACE: dict[str, Any] = {
    "ships": SHIPS,
    "tides": pl.DataFrame({"high": [3.0]}),
    "depths": np.array([1.0, 2.0]),
    "limit": 3,
    "ports": ["Kiel", "Husum"],
    "pd": pd,
}


def about(question: str, past: tuple[Exchange, ...] = (), *, alone: bool = False) -> Any:
    return concerned(question, NAMESPACE, past, alone=alone, is_opaque=is_opaque)


@pytest.mark.parametrize(
    ("question", "names"),
    [
        ("What is the mean of ships?", ("ships",)),
        ("How many have the home port Kiel?", ("ships",)),
        ("What is the highest high?", ("tides",)),
        ("Sum depths", ("depths",)),
        ("How many ships are above limit?", ("ships", "limit")),
        ("What is limit + 1?", ()),
        ("Which ports are there?", ()),
        ("What is the capital of France?", ()),
    ],
)
def test_a_question_is_about_what_it_names(question: str, names: tuple[str, ...]) -> None:
    assert about(question) == names


def test_without_tools_a_question_that_names_nothing_is_about_all_tables() -> None:
    assert about("What is the mean?", alone=True) == ("ships", "tides")


def test_a_question_that_names_nothing_goes_on_with_the_tables_of_the_one_before() -> None:
    before = Exchange("ships?", context=Context(in_copy=("tides", "gone")))
    assert about("And the smallest?", (before,)) == ("tides",)
    assert about("And the smallest?", (Exchange("other"),)) == ()


exact = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text()
    | st.dates()
    | st.decimals(allow_nan=False),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(exact)
def test_the_sandbox_computes_with_plain_values(value: Any) -> None:
    assert not is_opaque(value)


@given(exact, st.sampled_from([SHIPS, SHIPS["depth_m"], NAMESPACE["depths"], object()]))
def test_whatever_contains_an_object_is_opaque(value: Any, inside: Any) -> None:
    assert is_opaque(inside)
    assert is_opaque([value, {"it": inside}])


def test_scalars_of_libraries_are_plain() -> None:
    for each in (np.int64(3), pd.Timestamp("2026-01-02"), pd.NaT, dt.timedelta(1)):
        assert not is_opaque(each)
    assert not is_opaque(decimal.Decimal(1))
