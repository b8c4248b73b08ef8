"""A table as lines of text, its columns aligned; numbers stand to the right. Knows cells, and no runs."""

from __future__ import annotations

from archytas_nb.trace.clean import one_line
from archytas_nb.trace.table import Table

_CELL = 24


def grid_lines(table: Table, rows: int, width: int) -> list[str]:
    """Write a table.

    Args:
        table: Its cells.
        rows: The most rows of the body to write; the rest is counted.
        width: The most characters of a line; columns that do not fit are left out, and a sign says so.

    Returns:
        The header rows, the body rows, and where some are left out a line that counts them.
    """
    body = table.rows[:rows]
    lines = [[one_line(cell, _CELL) for cell in row] for row in (*table.head, *body)]
    widths = [
        max(len(line[column]) for line in lines if column < len(line))
        for column in range(max(map(len, lines)))
    ]
    fits = _fitting(widths, width)
    right = [table.numeric(column) for column in range(len(widths))]
    written = []
    for line in lines:
        cells = zip(line[:fits], widths, right, strict=False)
        aligned = [
            cell.rjust(size) if to_right else cell.ljust(size) for cell, size, to_right in cells
        ]
        written.append("  ".join([*aligned, *(["…"] if fits < len(widths) else [])]).rstrip())
    more = len(table.rows) - len(body) + table.left_out
    if more:
        written.append(f"… {more:,} more row{'s' if more > 1 else ''}")
    return written


def _fitting(widths: list[int], width: int) -> int:
    """How many columns fit, at least one."""
    if sum(widths) + 2 * (len(widths) - 1) <= width:
        return len(widths)
    used, count = 3, 0  # the sign that columns are left out takes its place too
    for each in widths:
        used += each + 2
        if used > width:
            break
        count += 1
    return max(1, count)
