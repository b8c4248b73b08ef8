"""Previews of arrays, series and tables as text, and of figures and images as PNG.

Rows are written as CSV, by one writer for every library: no display option of pandas or numpy
changes what a model reads, and a number has enough digits to be read back. What a table is, and
its parts, is in `tools/tables.py`. No library is imported.
"""

from __future__ import annotations

import base64
import csv
import io
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Any

from archytas_nb.errors import STOPS, argument_error
from archytas_nb.tools.tables import Column, Table, column_of, index_of, table_of
from archytas_nb.tools.texts import array_text, in_line, is_array
from archytas_nb.words import truncate_line, with_article

MAX_IMAGES = 5
"""Maximum number of images of a call that the model gets; each costs about a page of text."""

_ROWS = 10
_LAST_ROWS = 5
_COLUMNS = 40
_SMALL_ROWS = 20
_SMALL_COLUMNS = 12
_SMALL_ARRAY = 200
_CELL = 60  # characters of a cell
_NAME = 100  # characters of the name of a column
_CELLS_TO_COUNT = 20_000_000  # above it, counting nulls would take seconds


def is_data(value: Any) -> bool:
    """Whether the value is an array, a series, an index or a table."""
    return is_array(value) or column_of(value) is not None or table_of(value) is not None


def shape_of(value: Any) -> tuple[int, ...]:
    """The shape of data; that of a query without the number of its rows, which is not known."""
    if is_array(value):
        return tuple(map(int, value.shape))
    if (table := table_of(value)) is not None:
        return (table.width,) if table.size is None else (table.size, table.width)
    return (len(value),)


def unstyled(value: Any) -> Any:
    """The data frame of a pandas ``Styler``; any other value unchanged."""
    if type(value).__name__ == "Styler" and type(value).__module__.startswith("pandas."):
        return value.data
    return value


def preview(value: Any) -> str:
    """Describe data: all of it if it is small, otherwise its first and last rows."""
    if (table := table_of(value)) is not None:
        return _table(type(value).__name__, table)
    if (column := column_of(value)) is not None:
        return _series(value, column)
    return _array(value)


def listing(value: Any) -> str:
    """Every value of data."""
    head = f"{type(value).__name__} of shape {' × '.join(map(str, shape_of(value)))}:"
    if (table := table_of(value)) is not None and table.size is not None:
        return f"{head}\n{_csv([_names(table, table.width), *table.rows(slice(None))], None)}"
    if (column := column_of(value)) is not None:
        return f"{head}\n{_csv(_labelled(value, column, slice(None)), None)}"
    return f"{head}\n{_whole(value)}" if is_array(value) else preview(value)


def _array(value: Any) -> str:
    shape = " × ".join(map(str, value.shape))
    head = f"{type(value).__name__} of shape {shape}, dtype {value.dtype}"
    if value.size <= _SMALL_ARRAY:
        return f"{head}\n{_whole(value)}"
    flat = getattr(value, "flat", value)  # an array of pandas is flat
    first = array_text(flat[:_ROWS])
    last = array_text(flat[-_LAST_ROWS:])
    return f"{head}\nfirst values: {first}\nlast values: {last}"


def _whole(value: Any) -> str:
    """An array as lists in lists, each of the outer ones on a line."""
    return array_text(value, between=",\n " if value.ndim <= 2 else ",\n\n ")


def _series(value: Any, column: Column) -> str:
    size = len(value)
    name = ""
    if column.name is not None and not (isinstance(column.name, str) and not column.name):
        name = f" {column.name!r}"
    head = f"{type(value).__name__}{name} of {size} values, dtype {column.type_text}"
    head += _missing(column)
    lines = [head, *_levels(index_of(value))]
    if size <= _SMALL_ROWS:
        return "\n".join([*lines, _csv(_labelled(value, column, slice(None)))])
    first = _csv(_labelled(value, column, slice(_ROWS)))
    last = _csv(_labelled(value, column, slice(-_LAST_ROWS, None)))
    lines += [f"first {_ROWS} values:", first, f"last {_LAST_ROWS} values:", last]
    return "\n".join(lines)


def _labelled(value: Any, column: Column, part: slice) -> list[tuple[Any, ...]]:
    """Values of a series, each behind its place in the index."""
    levels = [each.values(part) for each in index_of(value)]
    return list(zip(*levels, column.values(part), strict=True))


def _levels(index: Iterable[Column]) -> list[str]:
    """A line for each level of an index: its name and its type."""
    return [f"  {level_name(each)} ({each.type_text})" for each in index]


def level_name(level: Column) -> str:
    """What a level of an index is called."""
    return f"index {level.label}" if level.label else "index"


def _table(kind: str, table: Table) -> str:
    columns = table.width
    shown = min(columns, _COLUMNS)
    by = f" by {', '.join(table.levels)}" if table.levels else ""
    if table.size is None:
        head = f"{kind} of {columns} columns; its rows are a query, which was not computed"
    else:
        head = f"{kind} of {table.size} rows × {columns} columns"
    lines = [head, f"columns{by}:", *_levels(table.index)]
    for place in range(shown):
        column = table.column(place)
        facts = column.type_text
        if table.size is not None and table.size * columns > _CELLS_TO_COUNT:
            facts += ", missing values not counted"
        elif table.size:
            facts += _missing(column)
        lines.append(f"  {truncate_line(column.label, _NAME)} ({facts})")
    if columns > shown:
        lines.append(f"  … {columns - shown} more columns")
    rows = table.size or 0
    names = _names(table, shown)
    if rows and rows <= _SMALL_ROWS and columns <= _SMALL_COLUMNS:
        lines += ["rows:", _csv([names, *table.rows(slice(None), shown)])]
    elif rows:
        head_rows = table.rows(slice(min(rows, _ROWS)), shown)
        lines += [f"first {len(head_rows)} rows:", _csv([names, *head_rows])]
        last = min(rows - _ROWS, _LAST_ROWS)
        if last > 0:
            lines += [f"last {last} rows:", _csv(table.rows(slice(rows - last, rows), shown))]
    return "\n".join(lines)


def _missing(column: Column) -> str:
    """How many values are missing; empty if none is, or if a value cannot be compared."""
    missing = 0
    with suppress(Exception):
        missing = column.missing()
    return f", {missing} missing" if missing else ""


def _names(table: Table, columns: int) -> tuple[str, ...]:
    """The first line of the rows: the levels of the index, and the columns."""
    index = (each.label or "index" for each in table.index)
    return (*index, *table.labels[:columns])


def _csv(rows: Iterable[tuple[Any, ...]], longest: int | None = _CELL) -> str:
    """Rows as CSV, each on one line."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    for row in rows:
        writer.writerow(in_line(each, longest) for each in row)
    return written.getvalue().rstrip("\n")


# ── images ────────────────────────────────────────────────────────────────────────────────────────

_MAX_BYTES = 5_000_000
_MAX_SIDE = 8_000
"""Pixels of the longest side of an image that endpoints take."""
_SHARP_SIDE = 1_568
"""Pixels of the longest side that models look at: of a larger image, they see a smaller copy."""
_PNG = b"\x89PNG"
_JPEG = b"\xff\xd8\xff"


def picture(value: Any) -> str | None:
    """The value as a PNG in base64, or None if it is not an image or too large to send.

    A figure is drawn with fewer dots per inch if endpoints would refuse its longest side.
    """
    figure = figure_of(value)
    data: Any = None
    if figure is None:
        data = call_method(value, "_repr_png_")
    else:
        data = _drawn(figure)
    if isinstance(data, tuple) and data:  # a pair of data and metadata
        data = data[0]
    if isinstance(data, str):
        data = _decoded(data)
    if isinstance(data, (bytes, bytearray)) and data[:4] == _PNG and len(data) <= _MAX_BYTES:
        data = _smaller(bytes(data))
        if data is not None:
            return base64.b64encode(data).decode("ascii")
    return None


def _drawn(figure: Any) -> bytes:
    """A figure as PNG."""

    def draw(**options: Any) -> bytes:
        buffer = io.BytesIO()
        call_method(figure, "savefig", fname=buffer, format="png", bbox_inches="tight", **options)
        return buffer.getvalue()

    size = call_method(figure, "get_size_inches")
    dots = getattr(figure, "dpi", None)
    if size is None or not isinstance(dots, (int, float)):
        return draw()
    inches = float(max(size))
    # Drawn at once as small as it must be: memory for one of 100,000 pixels may not be there.
    is_too_long = inches * dots > _MAX_SIDE
    data = draw(dpi=_SHARP_SIDE / inches) if is_too_long else draw()
    if _longest_side(data) > _MAX_SIDE:  # a text stands far outside of it
        data = draw(
            dpi=(_SHARP_SIDE / inches if is_too_long else dots) * _SHARP_SIDE / _longest_side(data)
        )
    return data


def fitting(encoded: str) -> str | None:
    """A PNG in base64 that endpoints take; None if it is too large and cannot be reduced."""
    head = _decoded(encoded[:32]) or b""
    if _longest_side(head) <= _MAX_SIDE:
        return encoded
    smaller = _smaller(_decoded(encoded) or b"")
    return None if smaller is None else base64.b64encode(smaller).decode("ascii")


def _longest_side(png: bytes) -> int:
    """Pixels of the longest side of a PNG; 0 if it has no head that says so."""
    if png[12:16] != b"IHDR" or len(png) < 24:
        return 0
    return max(int.from_bytes(png[16:20]), int.from_bytes(png[20:24]))


def _smaller(png: bytes) -> bytes | None:
    """A PNG that endpoints take; None if it is too large, and nothing is there to reduce it."""
    if _longest_side(png) <= _MAX_SIDE:
        return png
    try:
        from PIL import Image
    except ImportError:
        return None
    try:
        with Image.open(io.BytesIO(png)) as image:
            image.thumbnail((_SHARP_SIDE, _SHARP_SIDE))
            buffer = io.BytesIO()
            image.save(buffer, "PNG")
            return buffer.getvalue()
    except STOPS:
        raise
    except Exception:  # noqa: BLE001  (damaged, or a bomb)
        return None


def figure_of(value: Any) -> Any:
    """A matplotlib figure, or the figure of an axes; None for objects of other libraries."""
    if not str(type(value).__module__).startswith(("matplotlib", "seaborn")):
        return None
    try:
        if hasattr(value, "savefig"):
            return value
        return getattr(value, "figure", None)
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001  (a user's attribute may do anything)
        return None


def figures_in(value: Any, depth: int = 4) -> list[Any]:
    """The figures in a value: the value itself, or in lists, tuples and dicts."""
    items: list[Any] = []
    if depth and type(value) is dict:
        items = list(value.values())
    elif depth and type(value) in (list, tuple):
        items = list(value)
    distinct: dict[int, Any] = {}
    own = figure_of(value)
    if own is not None:
        distinct[id(own)] = own
    for item in items[:1000]:
        for each in figures_in(item, depth - 1):
            distinct.setdefault(id(each), each)
    return list(distinct.values())[:MAX_IMAGES]


def call_method(value: Any, name: str, **options: Any) -> Any:
    """The result of a method of an object's class; None if it has no such method or it fails."""
    method = getattr(type(value), name, None)
    try:
        if callable(method):
            return method(value, **options)
        return None
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001  (a user's method may raise anything)
        return None


def encode_image(value: Any) -> str:
    """Return an image that a user attaches to a question as PNG or JPEG in base64.

    Args:
        value: PNG or JPEG as bytes, base64 text or the path of a file; or a figure.

    Raises:
        ValueError: It is none of these, or larger than 5 MB.
        OSError: The file cannot be read.
    """
    data: Any = value
    if isinstance(value, str):
        data = _decoded(value)
        if data is None or not data.startswith((_PNG, _JPEG)):
            data = b""
            if os.path.isfile(value):  # noqa: PTH113 - any text is safe
                data = Path(value)
    if isinstance(data, os.PathLike):
        data = Path(data).read_bytes()
    if not isinstance(data, (bytes, bytearray)):
        data = _decoded(picture(value) or "") or b""
    if not data.startswith((_PNG, _JPEG)):
        shown = repr(value)
        what = truncate_line(shown, 60)
        if "\n" in shown:
            what = with_article(type(value).__name__)
        forms = "bytes, base64 or the path of a file that exists"
        raise argument_error(f"{what} is not an image; expected PNG or JPEG ({forms}) or a figure")
    if len(data) > _MAX_BYTES:
        raise argument_error(
            f"the image has {len(data):,} bytes, but at most {_MAX_BYTES:,} can be sent:"
            " make it smaller"
        )
    return base64.b64encode(data).decode("ascii")


def _decoded(text: str) -> bytes | None:
    try:
        return base64.b64decode(text, validate=False)
    except ValueError:
        return None
