"""Previews of arrays, series and tables as text, and of figures and images as PNG.

Rows are written as CSV, by one writer for every library: no display option of pandas or numpy
changes what a model reads. A number has the digits that a reader needs, and a note if others were
cut. `tools/tables.py` decides what is a table, and reads its parts. No library is imported.
"""

from __future__ import annotations

import base64
import csv
import datetime as dt
import io
import math
import os
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from archytas_nb.errors import STOPS, argument_error
from archytas_nb.loop.events import ROOM, png_size
from archytas_nb.tools.headline import axes, headline
from archytas_nb.tools.tables import Column, Table, column_of, index_of, table_of
from archytas_nb.tools.texts import MISSING, array_text, in_line, is_array, is_missing, type_name
from archytas_nb.words import count, runs, truncate_line, with_article

MAX_IMAGES = 5
"""Maximum number of images of a call that the model gets; each costs about a page of text."""

_PART = 2000  # characters of the rows of which only the first and the last ones are shown
_ROWS = 5
_LAST_ROWS = 3
_CORNER = (3, 5)  # rows and columns of an array that are shown of a larger one
_DIGITS = 6  # least number of significant digits of a number
_DECIMALS = 2  # least number of its decimals
_HELD = 12  # digits of a number that no error of its computation reaches
_DOUBLE = 15  # digits of a number of 64 bits
_HELD_BY_SHORT = 7  # the same of one of 32 bits
_TYPED = 200  # maximum number of columns whose types are listed
_TYPES = 12  # maximum number of types that are listed
_LISTED = 600  # characters of the names of columns that are listed
_CELL = 60  # characters of a cell in a wide table
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


class Preview(NamedTuple):
    """Data as text, and whether that is all of it, apart from the last digits of numbers."""

    text: str
    whole: bool


def preview(value: Any) -> str:
    """Data as a line of facts, then all of it or both ends."""
    return written(value).text


def written(value: Any, room: int = ROOM) -> Preview:
    """Data as a line of facts, then as CSV or lists: all of it, or if it is too long both ends.

    Args:
        value: An array, a series, an index or a table.
        room: Characters up to which all of it is shown.
    """
    if (table := table_of(value)) is not None:
        return _table(value, table, room)
    if (column := column_of(value)) is not None:
        return _series(value, column, room)
    return _array(value, room)


def listing(value: Any) -> str:
    """Every value of data."""
    head = f"{type(value).__name__} of shape {' × '.join(map(str, shape_of(value)))}:"
    if (table := table_of(value)) is not None and table.size is not None:
        rows = _texts(table.rows(slice(None)), None)
        return f"{head}\n{csv_text([_names(table, table.width), *rows])}"
    if (column := column_of(value)) is not None:
        return f"{head}\n{csv_text(_texts(_labelled(value, column, slice(None)), None))}"
    return f"{head}\n{_whole(value)}" if is_array(value) else preview(value)


# ── tables and series ─────────────────────────────────────────────────────────────────────────────


def _table(value: Any, table: Table, room: int) -> Preview:
    columns = [table.column(place) for place in range(min(table.width, _TYPED))]
    types = f" ({_types(columns, table.width)})" if columns else ""
    if table.size is None:
        names = listed_names(table.labels)
        return Preview(f"{headline(value)}{types}\ncolumns: {names}", whole=False)
    size = f"{table.size:,} × {table.width:,}"
    facts = f"{type_name(value)} {size}{types}{axes(value, table)}"
    if 2 * table.size * max(table.width, 1) <= room:
        head = _names(table, table.width)
        rows = table.rows(slice(None))
        text = csv_text([head, *_texts(rows, room)])
        if len(text) <= room:
            facts += _rounding(rows)
            return Preview(f"{facts}\n{text}" if text.strip() else facts, whole=True)
    lines = [facts]
    if missing := _missing_in(columns, table):
        lines.append(f"missing: {missing}")
    part = min(_PART, room)
    ends = _ends(table.size, lambda span: table.rows(span, len(columns)))
    width = _fitting(table, ends, part)
    if width < table.width:
        ends = _ends(table.size, lambda span: table.rows(span, len(columns)), 2, 1)
        width = _fitting(table, ends, part // 4)
        lines.append(f"columns: {listed_names(table.labels)}")
        lines.append(f"the first {count(width, 'column')} of {table.width:,}:")
    cells = max(len(ends.shown) * (len(table.index) + width), 1)
    shown = ends.narrowed(len(table.index) + width)
    lines[0] += _rounding(shown.shown)
    lines.append(_written_rows(_names(table, width), shown, max(_CELL, part // cells)))
    return Preview("\n".join(lines), whole=False)


def _series(value: Any, column: Column, room: int) -> Preview:
    size = len(value)
    facts = headline(value)
    names = _series_names(value, column)
    if 2 * size <= room:
        every = _labelled(value, column, slice(None))
        text = csv_text([names, *_texts(every, room)])
        if len(text) <= room:
            return Preview(f"{facts}{_rounding(every)}\n{text}", whole=True)
    missing = _missing(column) if size <= _CELLS_TO_COUNT else ", missing not counted"
    part = min(_PART, room)
    rows = _ends(size, lambda span: _labelled(value, column, span))
    longest = max(_CELL, part // (len(rows.shown) * len(names)))
    facts += missing + _rounding(rows.shown)
    return Preview(f"{facts}\n{_written_rows(names, rows, longest)}", whole=False)


def _labelled(value: Any, column: Column, part: slice) -> list[tuple[Any, ...]]:
    """Values of a series, each after its place in the index."""
    levels = [each.values(part) for each in index_of(value)]
    return list(zip(*levels, column.values(part), strict=True))


def level_name(level: Column) -> str:
    """The name of a level of an index, for a model."""
    return f"index {level.label}" if level.label else "index"


def _series_names(value: Any, column: Column) -> tuple[str, ...]:
    """The first line of the rows of a series."""
    return (*(each.label or "index" for each in index_of(value)), column.label or "value")


class _Rows(NamedTuple):
    """The first and the last rows of a table, and how many are between them."""

    first: list[tuple[Any, ...]]
    last: list[tuple[Any, ...]]
    between: int = 0

    @property
    def shown(self) -> list[tuple[Any, ...]]:
        return [*self.first, *self.last]

    def narrowed(self, width: int) -> _Rows:
        """The first cells of each row."""
        first, last = ([row[:width] for row in rows] for rows in (self.first, self.last))
        return _Rows(first, last, self.between)


def _ends(
    size: int,
    read: Callable[[slice], list[tuple[Any, ...]]],
    first: int = _ROWS,
    last: int = _LAST_ROWS,
) -> _Rows:
    if size <= first + last:
        return _Rows(read(slice(None)), [])
    return _Rows(read(slice(first)), read(slice(size - last, size)), size - first - last)


def _written_rows(names: tuple[str, ...], rows: _Rows, longest: int) -> str:
    """Rows as CSV below the names of the columns, and how many are left out between them."""
    texts = _texts(rows.shown, longest)
    head = csv_text([names, *texts[: len(rows.first)]])
    text = head
    if rows.between:
        text = f"{head}\n… {rows.between:,} more rows …\n{csv_text(texts[len(rows.first) :])}"
    if any(each.endswith("…") for row in texts for each in row):
        text += f"\n(cells are cut at {longest} characters)"
    return text


def _fitting(table: Table, rows: _Rows, room: int) -> int:
    """How many columns of these rows have room, at least one."""
    texts = _texts(rows.shown, _CELL)
    names = _names(table, len(rows.shown[0]) - len(table.index) if rows.shown else 0)
    for place, column in enumerate(zip(names, *texts, strict=True)):
        room -= sum(map(len, column)) + len(column)
        if room < 0:
            return max(place - len(table.index), 1)
    return len(names) - len(table.index)


def _types(columns: Sequence[Column], width: int) -> str:
    """The types of the columns in their order; of very many how often each occurs."""
    types = [each.type_text for each in columns]
    runs = [(kind, len(list(group))) for kind, group in groupby(types)]
    text = ", ".join(f"{number} × {kind}" if number > 1 else kind for kind, number in runs)
    if len(runs) == 1:
        text = types[0]
    elif len(runs) > _TYPES:
        counts = Counter(types).most_common()
        text = ", ".join(f"{number} × {kind}" for kind, number in counts[:_TYPES])
        text += ", in any order" + (", …" if len(counts) > _TYPES else "")
    return text if width == len(columns) else f"the first {len(columns)}: {text}"


def listed_names(labels: Sequence[str]) -> str:
    """The names of all columns, numbered ones shortened; of too many the first ones."""
    found = ""
    listed = runs(labels)
    for place, each in enumerate(listed):
        label = truncate_line(each, _NAME)
        if len(found) + len(label) > _LISTED:
            return f"{found}, … {len(listed) - place:,} more"
        found += f", {label}" if found else label
    return found


def _missing_in(columns: Sequence[Column], table: Table) -> str:
    """The columns with missing values, and their numbers; empty if no column has any."""
    if (table.size or 0) * len(columns) > _CELLS_TO_COUNT:
        return "not counted"
    found: dict[str, list[str]] = {}
    for column in columns:
        missing = 0
        with suppress(Exception):  # values that cannot be compared
            missing = column.missing()
        if missing:
            found.setdefault(f"{missing:,}", []).append(truncate_line(column.label, _NAME))
    parts = [f"{number} in {', '.join(runs(names))}" for number, names in found.items()]
    return truncate_line("; ".join(parts), _LISTED)


def _missing(column: Column) -> str:
    """How many values are missing; empty if none is, or if a value cannot be compared."""
    missing = 0
    with suppress(Exception):
        missing = column.missing()
    return f", {missing:,} missing" if missing else ""


def _names(table: Table, columns: int) -> tuple[str, ...]:
    """The first line of the rows: the levels of the index, and the columns."""
    index = (each.label or "index" for each in table.index)
    return (*index, *table.labels[:columns])


def _texts(rows: Sequence[tuple[Any, ...]], longest: int | None) -> list[tuple[str, ...]]:
    """The cells of rows as texts; days without a time of day as dates.

    Args:
        rows: The rows.
        longest: Characters of a cell; None for all of them, and all digits of numbers.
    """
    columns = []
    for values in zip(*rows, strict=True):
        present = [each for each in values if not is_missing(each)]
        are_days = bool(present) and all(map(_is_day, present))
        columns.append(
            [
                str(each.date())
                if are_days and not is_missing(each)
                else in_line(each)
                if longest is None
                else short_number(each, longest)
                for each in values
            ]
        )
    return list(zip(*columns, strict=True)) if columns else [()] * len(rows)


def _is_day(value: Any) -> bool:
    """Whether a value is a date with the time 0:00, in no time zone."""
    if not isinstance(value, dt.datetime) or value.tzinfo is not None:
        return False
    return value.time() == dt.time.min and not getattr(value, "nanosecond", 0)


def csv_text(rows: Iterable[tuple[str, ...]]) -> str:
    """Rows of texts as CSV, each on one line."""
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    for row in rows:
        writer.writerow(row)
    return written.getvalue().rstrip("\n")


# ── arrays ────────────────────────────────────────────────────────────────────────────────────────


def _array(value: Any, room: int) -> Preview:
    facts = headline(value)
    if 2 * value.size <= room:
        text = _rounded(value)
        if len(text) <= room:
            every = [] if _has_no_floats(value) else [value.ravel()]
            return Preview(f"{facts}{_rounding(every)}\n{text}", whole=True)
    facts += _range_of(value)
    if value.ndim == 1:
        first, last = _rounded(value[:_ROWS]), _rounded(value[-_LAST_ROWS:])
        return Preview(f"{facts}\nfirst: {first}\nlast: {last}", whole=False)
    corner = value[(0,) * (value.ndim - 2)][: _CORNER[0], : _CORNER[1]]
    where = "".join("[0]" for _ in range(value.ndim - 2))
    place = f"{where}[:{corner.shape[0]}, :{corner.shape[1]}]"
    return Preview(f"{facts}\n{place}:\n{_rounded(corner)}", whole=False)


def _whole(value: Any) -> str:
    """An array as lists in lists, each of the outer ones on a line."""
    return array_text(value, between=",\n " if value.ndim <= 2 else ",\n\n ")


def _range_of(value: Any) -> str:
    """The range of an array of numbers or times: its ends, the mean, and the missing values."""
    kind = getattr(value.dtype, "kind", "")
    if kind not in "iufmM" or value.size > _CELLS_TO_COUNT:
        return ""
    text = ""
    with suppress(Exception):  # an array of another library may lack a method
        present = value.compressed() if hasattr(value, "compressed") else value.ravel()
        if kind in "fmM":
            present = present[present == present]  # noqa: PLR0124 - NaN is not itself
        if missing := value.size - present.size:
            text = f", {missing:,} missing"
        if present.size:
            text += f", min {short_number(present.min())}, max {short_number(present.max())}"
            if kind in "iuf":
                text += f", mean {short_number(present.mean(dtype=float))}"
    return text


def _rounded(values: Any) -> str:
    """The values of an array, of floats with few digits."""
    if _has_no_floats(values):
        return _whole(values)
    if values.ndim == 1:
        return f"[{', '.join(map(short_number, values))}]"
    between = ",\n " if values.ndim == 2 else ",\n\n "
    return f"[{between.join(map(_rounded, values))}]"


def _has_no_floats(values: Any) -> bool:
    return getattr(values.dtype, "kind", "") != "f" or hasattr(values, "compressed")


# ── numbers ───────────────────────────────────────────────────────────────────────────────────────


def short_number(value: Any, size: int | None = None) -> str:
    """A float with the digits that a reader needs; any other value in this many characters.

    A number of up to ten digits is written with all of them, without the error of its computation.
    Of any other, there are six digits, and at least two decimals.
    """
    return _short(value)[0] if _is_float(value) else in_line(value, size)


def _short(value: Any) -> tuple[str, bool]:
    """A float with the digits that a reader needs, and whether it has more."""
    if is_missing(value):
        return MISSING, False
    is_short = getattr(getattr(value, "dtype", None), "itemsize", 8) < 8
    number = float(str(value) if is_short else value)
    if not math.isfinite(number) or not number:
        return f"{number:g}", False
    digits = _HELD_BY_SHORT if is_short else _HELD
    before = math.floor(math.log10(abs(number))) + 1
    held = max(digits, before) if before <= _DOUBLE else digits
    text = f"{number:.{held}g}"
    if number.is_integer() and before <= _DOUBLE:
        return text, False
    if len(text.partition("e")[0].replace(".", "").strip("-0")) < digits - 1:
        return text, False
    needed = max(_DIGITS, before + _DECIMALS) if before <= _DOUBLE else _DIGITS
    text = f"{number:.{needed}g}"
    return text, float(text) != number


def _is_float(value: Any) -> bool:
    kind = getattr(getattr(value, "dtype", None), "kind", "")
    return isinstance(value, float) or (kind == "f" and getattr(value, "ndim", 1) == 0)


def _rounding(rows: Iterable[Iterable[Any]]) -> str:
    """The note that numbers were rounded; empty if none was."""
    is_rounded = any(_is_float(each) and _short(each)[1] for row in rows for each in row)
    return ", rounded" if is_rounded else ""


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
    # Drawn in its final size from the start: memory for one of 100,000 pixels may not be there.
    is_too_long = inches * dots > _MAX_SIDE
    data = draw(dpi=_SHARP_SIDE / inches) if is_too_long else draw()
    if _longest_side(data) > _MAX_SIDE:  # a text is far outside of it
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
    return max(png_size(png) or (0,))


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
        ValueError: It is something else, or larger than 5 MB.
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
