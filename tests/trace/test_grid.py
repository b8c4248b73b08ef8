"""Tables as lines of text."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.trace.grid import grid_lines
from archytas_nb.trace.table import Table

CELLS = st.lists(st.text(st.characters(codec="ascii"), max_size=40), min_size=1, max_size=12).map(
    tuple
)
TABLES = st.builds(
    Table,
    st.lists(CELLS, max_size=2).map(tuple),
    st.lists(CELLS, min_size=1, max_size=9).map(tuple),
    st.integers(0, 3),
)


def test_columns_are_aligned_and_numbers_stand_to_the_right() -> None:
    """Header above body, two spaces between columns."""
    table = Table((("", "island", "mass"),), (("0", "Biscoe", "5076.0"), ("1", "Dream", "3.5")))
    assert grid_lines(table, 10, 80) == [
        "   island    mass",
        "0  Biscoe  5076.0",
        "1  Dream      3.5",
    ]


def test_rows_and_columns_that_do_not_fit_are_counted_or_marked() -> None:
    """Rows are counted, those that the table has left out before included; columns are marked."""
    table = Table((), tuple((str(n), "x" * 20, "y" * 20) for n in range(5)), left_out=40)
    assert grid_lines(table, 2, 30) == [f"0  {'x' * 20}  …", f"1  {'x' * 20}  …", "… 43 more rows"]


@given(TABLES, st.integers(1, 10), st.integers(30, 120))
def test_no_table_is_too_wide_or_too_long(table: Table, rows: int, width: int) -> None:
    """Whatever the cells, the lines are as many and as long as was allowed."""
    lines = grid_lines(table, rows, width)
    assert len(lines) <= len(table.head) + rows + 1
    assert max(map(len, lines)) <= width
