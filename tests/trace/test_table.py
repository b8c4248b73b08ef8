"""The cells of a table in somebody else's HTML."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.trace.table import MAX_COLUMNS, MAX_ROWS, Table, read_table, table_of


def test_a_pandas_frame() -> None:
    """The index is a column of its own; styles are not text."""
    frame = pd.DataFrame({"species": ["Gentoo", "A<b>"], "mass": [5076.0, None]})
    assert table_of(frame) == Table(
        (("", "species", "mass"),), (("0", "Gentoo", "5076.0"), ("1", "A<b>", "NaN"))
    )


def test_a_wide_header_keeps_the_columns_aligned() -> None:
    """A header cell that spans two columns counts for two."""
    frame = pd.DataFrame([[1, 2]], columns=pd.MultiIndex.from_tuples([("a", "x"), ("a", "y")]))
    table = table_of(frame)
    assert table is not None
    assert table.head[0] == ("", "a", "")
    assert {len(row) for row in (*table.head, *table.rows)} == {3}


def test_the_rows_of_a_grouped_frame_keep_their_columns() -> None:
    """A cell of the index that reaches over several rows leaves its place empty in those below."""
    birds = pd.DataFrame({"species": ["A", "A", "B"], "sex": ["f", "m", "f"], "mass": [1, 2, 3]})
    table = table_of(birds.groupby(["species", "sex"]).sum())
    assert table is not None
    assert table.head == (("", "", "mass"), ("species", "sex", ""))
    assert table.rows == (("A", "f", "1"), ("", "m", "2"), ("B", "f", "3"))


def test_a_cell_at_the_end_that_reaches_down_ends_with_its_rows() -> None:
    page = (
        "<table><tr><td>a</td><td rowspan=2 colspan=2>b</td></tr>"
        "<tr><td>c</td></tr><tr><td>d</td></tr></table>"
    )
    table = read_table(page)
    assert table is not None
    assert table.rows == (("a", "b", ""), ("c", "", ""), ("d",))


def test_columns_that_do_not_fit_are_marked() -> None:
    table = read_table(
        f"<table><tr>{'<td>x</td>' * 40}</tr><tr>{'<td>x</td>' * MAX_COLUMNS}</tr></table>"
    )
    assert table is not None
    assert [(len(row), row[-1]) for row in table.rows] == [(MAX_COLUMNS, "…"), (MAX_COLUMNS, "x")]


def test_cells_that_claim_to_reach_far_cost_nothing() -> None:
    """Reading takes its time with the length of the text, whatever spans are claimed."""
    page = (
        "<table><tr>"
        + "<td colspan=999 rowspan=9999>" * 8_000
        + "</tr>"
        + "<tr></tr>" * 20_000
        + "</table>"
    )
    table = read_table(page)
    assert table is not None
    assert max(map(len, table.rows)) <= MAX_COLUMNS


def test_long_tables_are_cut_and_counted() -> None:
    """The rows that do not fit are counted."""
    table = read_table("<table>" + "<tr><td>x</td></tr>" * 100 + "</table>")
    assert table is not None
    assert (len(table.rows), table.left_out) == (MAX_ROWS, 100 - MAX_ROWS)


class Broken:
    def _repr_html_(self) -> str:
        raise RuntimeError("cannot draw")


Broken.__name__ = "DataFrame"


class Elsewhere:
    def _repr_html_(self) -> str:
        return "<table><tr><td>1</td></tr></table>"


@pytest.mark.parametrize("value", [None, 3, "<table>", Broken(), Elsewhere()])
def test_other_values_have_no_table(value: Any) -> None:
    """Only data frames are asked, and one that raises is shown as text."""
    assert table_of(value) is None


@pytest.mark.parametrize("html", ["", "<p>x</p>", "<table></table>", "<table>" + "x" * 600_000])
def test_html_without_cells_is_no_table(html: str) -> None:
    """No table, an empty one and one too large to read are None."""
    assert read_table(html) is None


@given(
    st.lists(
        st.sampled_from(
            [
                "<table>",
                "</table>",
                "<tr>",
                "</tr>",
                "<td colspan=3>",
                "<td rowspan=3>",
                "</td>",
                "<th>",
                "x",
                "<tbody>",
            ]
        )
    )
)
def test_broken_html_never_raises(pieces: list[str]) -> None:
    """Tags in any order give a table or None."""
    table = read_table("".join(pieces))
    assert table is None or table.rows or table.head


@pytest.mark.parametrize(
    ("cells", "numeric"),
    [
        (["1", "-2.5", "NaN"], True),
        (["1,000", "5 %", "1e-3"], True),
        (["a", "1"], False),
        (["2024-01-01"], False),
    ],
)
def test_columns_of_numbers_are_known(cells: list[str], numeric: bool) -> None:
    """A column is numeric where each cell is a number or missing."""
    assert Table((), tuple((cell,) for cell in cells)).numeric(0) is numeric
