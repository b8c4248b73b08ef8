"""Numbers that a column holds as text are read, or left alone where two readings are possible."""

from __future__ import annotations

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.copies.numerals import numerals

WAYS = [
    ("", "."), ("", ","), (",", "."), (".", ","), (" ", ","), ("\u202f", ","), ("'", "."), ("_", "."),
]  # fmt: skip


def written(number: float, groups: str, point: str) -> str:
    whole, _, decimals = f"{number:,.2f}".partition(".")
    return whole.replace(",", groups) + point + decimals


@given(
    numbers=st.lists(st.integers(-(10**9), 10**9).map(lambda cents: cents / 100), min_size=1),
    way=st.sampled_from(WAYS),
    sign=st.sampled_from(["", " €", "$", "£", " ¥"]),
    others=st.lists(st.sampled_from(["unknown", "-", "n/a", ""]), max_size=3),
    notes=st.lists(st.sampled_from(["", "[1]", " (1,000.5 to 2)", "[495000-801000]"]), min_size=1),
)
def test_what_is_read_is_what_was_written(
    numbers: list[float], way: tuple[str, str], sign: str, others: list[str], notes: list[str]
) -> None:
    texts = [f"{written(each, *way)}{sign}" for each in numbers]
    if not sign:
        texts = [f"{each}{notes[at % len(notes)]}" for at, each in enumerate(texts)]
    numbers_first = [*texts, *others[: len(texts) - 1]]
    found = numerals(numbers_first)
    assert found is not None, texts
    assert set(found.others) == {each.strip() for each in others[: len(texts) - 1]}
    column = pd.Series(numbers_first)
    read = eval(found.expression("column"), {"pd": pd, "column": column})
    assert read.dropna().tolist() == numbers
    assert read.isna().sum() == len(numbers_first) - len(texts)


@pytest.mark.parametrize(
    "texts",
    [
        ["1,234"],  # more than a thousand, or a little more than one
        ["1.234", "2.345"],
        ["A/5 21171", "17599"],
        ["3-5", "4"],
        ["2023-01-02", "2023-01-03"],
        ["12 km", "3 mi"],
        ["5 %", "6 %"],
        ["(5)", "6"],
        ["3[1] of 4", "5"],
        ["unknown", "none", "1"],
        [],
    ],
)
def test_what_may_be_read_in_two_ways_or_in_none_is_left_alone(texts: list[str]) -> None:
    assert numerals(texts) is None
