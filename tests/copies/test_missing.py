"""A program that cannot take missing values gives what it gives over the rows without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.copies.missing import without_missing

MADE = {
    "in the statement": (),
    "named before": ("x = fleet['a']", "y = fleet['b']"),
    "as lists": ("x = fleet['a'].tolist()", "y = list(fleet['b'])"),
    "as arrays": ("pair = fleet[['a', 'b']].to_numpy()", "x = pair[:, 0]", "y = pair[:, 1]"),
    "of a part": ("part = fleet[fleet['port'] == 'Kiel']", "x = part['a']", "y = part['b']"),
    "of a new column": ("fleet['c'] = fleet['a'] * 2", "x = fleet['c'] / 2", "y = fleet['b']"),
}  # fmt: skip
"""How the data of a statement is made of a table: the statements before it."""

TAKES = {
    "corrcoef": "found = float(np.corrcoef({0}, {1})[0, 1])",
    "polyfit": "found = float(np.polyfit({0}, {1}, 1)[0])",
    "whole numbers": "found = sum(int(each * 100) for each in [*{0}, *{1}])",
}
"""What cannot take missing values."""

numbers = st.one_of(st.none(), st.integers(-50, 50).map(lambda each: each / 4))


@pytest.mark.parametrize("made", MADE)
@pytest.mark.parametrize("takes", TAKES)
@given(data=st.data())
def test_the_value_is_that_of_the_rows_without_missing_values(
    made: str, takes: str, data: Any
) -> None:
    size = data.draw(st.integers(6, 12))
    column = st.lists(numbers, min_size=size, max_size=size)
    ports = (["Kiel", "Kiel", "Husum"] * 4)[:size]
    columns = {"a": data.draw(column), "b": data.draw(column), "port": ports}
    fleet = pd.DataFrame(columns).astype({"a": float, "b": float})
    whole = fleet.dropna(subset=["a", "b"])
    if made == "of a part":
        whole = whole[whole["port"] == "Kiel"]
    if len(whole) == len(fleet) or len(whole.drop_duplicates("a")) < 3 or whole["b"].nunique() < 3:
        return
    before = MADE[made]
    given_as = ("x", "y") if before else ("fleet['a']", "fleet['b']")
    statement = TAKES[takes].format(*given_as)
    variables: dict[str, Any] = {"np": np, "fleet": fleet.copy()}
    run(before, variables)
    found = without_missing(before, statement, variables)
    if found is None:  # no value is missing in what it is given
        run([statement], variables)
        assert np.isfinite(variables["found"])
        return
    statements, why = found
    again: dict[str, Any] = {"np": np, "fleet": fleet.copy()}
    run(statements, again)
    expected: dict[str, Any] = {"np": np, "x": whole["a"], "y": whole["b"]}
    run([TAKES[takes].format("x", "y")], expected)
    assert again["found"] == pytest.approx(expected["found"])
    assert "are left out" in why


def run(statements: Sequence[str], variables: dict[str, Any]) -> None:
    for each in statements:
        exec(each, variables)


def test_rows_of_two_tables_may_belong_together() -> None:
    variables = {
        "fleet": pd.DataFrame({"a": [1.0, None, 3.0]}),
        "crews": pd.DataFrame({"b": [1.0, 2.0, None]}),
    }
    assert without_missing([], "np.corrcoef(fleet['a'], crews['b'])", variables) is None


@pytest.mark.parametrize("made", ["late = fleet[fleet['late']]\nsoon = fleet[~fleet['late']]",
                                  "late = fleet[fleet['b'].isna()]\nsoon = fleet[fleet['b'].notna()]"])  # fmt: skip
@given(data=st.data())
def test_rows_of_tables_with_unequal_numbers_of_rows_do_not_belong_together(
    made: str, data: Any
) -> None:
    column = st.lists(numbers, min_size=8, max_size=8)
    is_late = data.draw(st.lists(st.booleans(), min_size=8, max_size=8))
    other = [None if each else 1.0 for each in is_late]
    fleet = pd.DataFrame({"a": data.draw(column), "b": other, "late": is_late})
    fleet = fleet.astype({"a": float, "b": float})
    before = made.splitlines()
    variables: dict[str, Any] = {"np": np, "fleet": fleet.copy()}
    run(before, variables)
    statement = "found = float(np.mean(late['a'].tolist()) - np.mean(soon['a'].tolist()))"
    found = without_missing(before, statement, variables)
    if not fleet["a"].isna().any() or sum(is_late) == 4:
        assert found is None
        return
    late, soon = (fleet[fleet["late"] == each]["a"].dropna() for each in (True, False))
    if found is None or late.empty or soon.empty:
        assert late.empty or soon.empty
        return
    again: dict[str, Any] = {"np": np, "fleet": fleet.copy()}
    run(found[0], again)
    assert again["found"] == pytest.approx(late.mean() - soon.mean())


def test_a_condition_in_the_statement_chooses_the_same_rows() -> None:
    fleet = pd.DataFrame({"a": [1.0, None, 3.0, 5.0], "b": [None, None, 1.0, 1.0]})
    statement = "found = sum(int(each) for each in fleet[fleet['b'].isna()]['a'])"
    found = without_missing([], statement, {"fleet": fleet})
    assert found is not None
    variables: dict[str, Any] = {"fleet": fleet}
    run(found[0], variables)
    assert variables["found"] == 1


def test_what_misses_nothing_is_left_as_it_is() -> None:
    variables = {"fleet": pd.DataFrame({"a": [1.0, 2.0], "b": [None, 1.0]})}
    assert without_missing([], "fleet['a'].sum() / 0", variables) is None


def test_a_part_of_a_table_is_assigned_to_the_whole_table() -> None:
    variables = {"fleet": pd.DataFrame({"a": [1.0, None, 3.0]})}
    found = without_missing([], "fleet['c'] = fleet['a'].astype(int)", variables)
    assert found is not None
    run(found[0], variables)
    assert variables["fleet"]["c"].fillna(-1).tolist() == [1, -1, 3]
