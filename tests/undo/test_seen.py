"""The change of a table, for a person: a new order of its rows, or each of a few values."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.undo.transaction import Transaction


def seen(before: Any, code: str) -> tuple[str, ...]:
    """The description of the change that code makes to ``df``."""
    names = {"df": before}
    with Transaction(None, names, 10**8) as watched:
        exec(code, names)
    [change] = [each for each in watched.diff.changes if each.name == "df"]
    return change.seen


def frame(values: list[int | None]) -> pd.DataFrame:
    birds = [f"bird {n}" for n in range(len(values))]
    return pd.DataFrame({"bird": birds, "mass": pd.Series(values, dtype="float64")})


@given(st.lists(st.integers(0, 9) | st.none(), min_size=2, max_size=12), st.randoms())
def test_the_same_rows_in_another_order_are_a_new_order(values: list[Any], random: Any) -> None:
    order = list(range(len(values)))
    random.shuffle(order)
    if order == sorted(order):
        order.reverse()
    assert seen(frame(values), f"df = df.iloc[{order}]") == ("rows reordered",)


@given(
    st.lists(st.integers(0, 9), min_size=6, max_size=20),
    st.sets(st.integers(0, 5), min_size=1, max_size=6),
)
def test_up_to_five_values_are_each_seen_as_they_were_and_are(
    values: list[int], places: set[int]
) -> None:
    code = f"df.loc[{sorted(places)}, 'mass'] += 100"
    cells = [f"mass[{at}]: {values[at]}.0 → {values[at] + 100}.0" for at in sorted(places)]
    assert seen(frame(list(values)), code) == (() if len(cells) > 5 else tuple(cells))


@pytest.mark.parametrize(
    "code",
    ["df['kg'] = 1", "df = df[df.mass > 2]", "df = df.rename(columns={'mass': 'm'})", "df = None"],
)
def test_other_changes_are_said_in_words(code: str) -> None:
    assert seen(frame([1, 2, 3]), code) == ()


def test_a_table_of_polars_and_what_a_class_of_the_user_does() -> None:
    """No code of the user's is run to see a difference."""
    polars = pytest.importorskip("polars")
    table = polars.DataFrame({"a": [1, 2], "b": ["x", "y"]})
    assert seen(table, "df = df.reverse()") == (
        "a[0]: 1 → 2",
        "a[1]: 2 → 1",
        "b[0]: 'x' → 'y'",
        "b[1]: 'y' → 'x'",
    )
    assert seen(table, "df[0, 'a'] = 7") == ("a[0]: 1 → 7",)
    objects = pd.DataFrame({"a": pd.Series([object(), object()], dtype=object)})
    assert seen(objects, "df = df.iloc[::-1]") == ()
