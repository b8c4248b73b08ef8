"""Read the cells of an HTML table, and nothing else of it.

A tool's HTML is never shown as it came. A table in it (a DataFrame's, for instance) is taken apart here into
plain text cells, from which the page is built anew. This file knows the standard library alone.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from html.parser import HTMLParser
from typing import Any

from archytas_nb.trace.clean import tidy

MAX_ROWS = 60
MAX_COLUMNS = 30
MAX_CELL = 200
_MAX_HTML = 500_000
_NUMBER = re.compile(r"[-+−]?[\d,._]*\d(?:\.\d*)?(?:[eE][-+]?\d+)?\s?%?")
_BLANK = frozenset({"", "...", "…", "NaN", "nan", "NaT", "None", "null", "<NA>", "inf", "-inf"})


@dataclass(frozen=True, slots=True)
class Table:
    """A table as text.

    Attributes:
        head: The header rows, each a tuple of cells.
        rows: The body rows, each a tuple of cells; an index column is a cell like any other.
        left_out: How many rows did not fit.
    """

    head: tuple[tuple[str, ...], ...]
    rows: tuple[tuple[str, ...], ...]
    left_out: int = 0

    def numeric(self, column: int) -> bool:
        """Whether a column holds numbers, which are read best when they are set to the right."""
        cells = [row[column] for row in self.rows if column < len(row)]
        return all(cell in _BLANK or _NUMBER.fullmatch(cell) for cell in cells)


class _Cells(HTMLParser):
    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.head: list[tuple[str, ...]] = []
        self.rows: list[tuple[str, ...]] = []
        self.tables = 0  # how many tables were opened; only the first one is read
        self._open = False
        self._in_head = False
        self._muted = 0
        self._row: list[str] | None = None
        self._cell: list[str] | None = None
        self._span = (1, 1)  # columns and rows of the open cell
        self._below: dict[
            int, int
        ] = {}  # by column, how many rows to come a cell above reaches into

    def _skip_covered(self) -> None:
        """Leave the places empty that belong to cells above; a row of a MultiIndex begins with such."""
        row = self._row
        while row is not None and self._below.get(len(row), 0):
            self._below[len(row)] -= 1
            row.append("")

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag in {"style", "script"}:
            self._muted += 1
        if tag == "table":
            self.tables += 1
            self._open = self.tables == 1
        elif not self._open:
            return
        elif tag in {"thead", "tbody"}:
            self._in_head = tag == "thead"
            self._below.clear()
        elif tag == "tr":
            self._row = []
        elif tag in {"td", "th"} and self._row is not None:
            self._skip_covered()
            self._cell = []
            said = dict(attrs)
            self._span = (
                _size(said.get("colspan"), MAX_COLUMNS),
                _size(said.get("rowspan"), 10 * MAX_ROWS),
            )
        elif tag == "br" and self._cell is not None:
            self._cell.append(" ")

    def handle_endtag(self, tag: str) -> None:
        if tag in {"style", "script"}:
            self._muted = max(0, self._muted - 1)
        if tag == "table":
            self._open = False
        elif not self._open:
            return
        elif tag == "thead":
            self._in_head = False
        elif tag in {"td", "th"} and self._row is not None and self._cell is not None:
            columns, rows = self._span
            if rows > 1:
                covered = range(len(self._row), min(len(self._row) + columns, MAX_COLUMNS + 1))
                self._below |= dict.fromkeys(covered, rows - 1)
            self._row += [tidy("".join(self._cell).strip(), MAX_CELL), *[""] * (columns - 1)]
            self._cell = None
        elif tag == "tr" and self._row is not None:
            self._skip_covered()
            cut = ("…",) if len(self._row) > MAX_COLUMNS else ()
            kept = tuple(self._row[: MAX_COLUMNS - len(cut)])
            (self.head if self._in_head else self.rows).append(kept + cut)
            self._row = None

    def handle_data(self, data: str) -> None:
        if self._cell is not None and not self._muted:
            self._cell.append(data)


def _size(said: str | None, largest: int) -> int:
    """How many columns or rows a cell takes."""
    return max(1, min(int(said), largest)) if said and said.isdecimal() and len(said) < 5 else 1


def read_table(html: str) -> Table | None:
    """Find the first table in a piece of HTML.

    Args:
        html: HTML from anywhere; it may be broken or hostile.

    Returns:
        Its cells as text, or None where there is no table or the HTML is too large to read.
    """
    if "<table" not in html[:_MAX_HTML] or len(html) > _MAX_HTML:
        return None
    cells = _Cells()
    cells.feed(html)
    cells.close()
    head, rows = [row for row in cells.head if any(row)], cells.rows
    if not head and not rows:
        return None
    return Table(tuple(head[:4]), tuple(rows[:MAX_ROWS]), max(0, len(rows) - MAX_ROWS))


def table_of(value: Any) -> Table | None:
    """The table of a data frame, of whichever library.

    Args:
        value: What a tool returned. Only an object whose class is called ``DataFrame`` is asked for its HTML:
            other objects may draw maps, or worse.

    Returns:
        Its cells as text, or None where it is no data frame or cannot draw itself.
    """
    if type(value).__name__ != "DataFrame":
        return None
    try:
        html = value._repr_html_()
    except Exception:  # noqa: BLE001 (a user's object may raise anything; the trace goes on without a table)
        return None
    return read_table(html) if isinstance(html, str) else None
