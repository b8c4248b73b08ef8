"""Previews of arrays, series and data frames as text, and of figures and images as PNG.

numpy, pandas, polars and matplotlib are recognised by the module of a type and never imported.
"""

from __future__ import annotations

import base64
import io
import os
from pathlib import Path
from typing import Any

from archytas_nb.errors import ToolTimeout, argument_error
from archytas_nb.words import shorten, with_article

MAX_IMAGES = 5
"""Maximum number of images of a call that the model gets; each costs about a page of text."""

MISSING = "(missing)"
"""A missing value of a table, in every text for a model, whatever its library calls it."""

STOPS = (KeyboardInterrupt, ToolTimeout)
"""Exceptions that must not be caught while a user's object is inspected."""

_ROWS = 10
_LAST_ROWS = 5
_COLUMNS = 40
_SMALL_ROWS = 20
_SMALL_COLUMNS = 12
_SMALL_ARRAY = 200
_CELL = 60  # characters of a cell
_CELLS_TO_COUNT = 20_000_000  # above it, counting nulls would take seconds


def is_scalar(value: Any) -> bool:
    """Whether the value is a numpy scalar or a zero-dimensional array."""
    is_flat = _library(value) == "numpy" and getattr(value, "ndim", None) == 0
    return is_flat and hasattr(type(value), "item")


def is_data(value: Any) -> bool:
    """Whether the value is an array, a series, an index or a data frame."""
    has_shape = bool(_library(value)) and hasattr(type(value), "shape")
    return has_shape and bool(getattr(value, "shape", ()))


def is_missing(value: Any) -> bool:
    """Whether a value of a table is missing: None, NaN, or what pandas has in their place."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124 - only NaN and NaT differ from themselves
    except Exception:  # noqa: BLE001 - arrays are several values, and a user's class may raise anything
        # pandas' NA is the one value of which nobody knows whether it differs from itself.
        return type(value).__name__ == "NAType"


def unstyled(value: Any) -> Any:
    """The data frame of a pandas ``Styler``; any other value unchanged."""
    if type(value).__name__ == "Styler" and _library(value) == "pandas":
        return value.data
    return value


def preview(value: Any) -> str:
    """Describe data: all of it if it is small, otherwise its first and last rows."""
    if hasattr(value, "columns"):
        return _frame(value)
    if _library(value) == "numpy":
        return _array(value)
    return _series(value)


def _library(value: Any) -> str:
    for kind in type(value).__mro__:
        root = str(getattr(kind, "__module__", "")).split(".", 1)[0]
        if root in {"numpy", "pandas", "polars"}:
            return root
    return ""


def _array(value: Any) -> str:
    shape = " × ".join(map(str, value.shape))
    head = f"{type(value).__name__} of shape {shape}, dtype {value.dtype}"
    if value.size <= _SMALL_ARRAY:
        if value.ndim == 1:
            return f"{head}\n{value.tolist()!r}"
        return f"{head}\n{value!s}"
    first = value.ravel()[:_ROWS].tolist()
    last = value.ravel()[-_LAST_ROWS:].tolist()
    return f"{head}\nfirst values: {first!r}\nlast values: {last!r}"


def _series(value: Any) -> str:
    size = int(value.shape[0])
    is_polars = _library(value) == "polars"
    name = ""
    if getattr(value, "name", None) not in {None, ""}:
        name = f" {value.name!r}"
    head = f"{type(value).__name__}{name} of {size} values, dtype {value.dtype}"
    has_index = hasattr(value, "to_string")  # polars has no index, and a pandas Index is one
    if is_polars:
        head += f", {value.null_count()} null"
    elif has_index:
        head += f", {value.isna().sum()} null"
    most = _SMALL_ROWS if has_index else _ROWS
    if size <= most:
        return f"{head}\n{_series_text(value)}"
    by_position = value.iloc if has_index else value
    first = _series_text(by_position[:_ROWS])
    last = _series_text(by_position[-_LAST_ROWS:])
    return f"{head}\nfirst {_ROWS} values:\n{first}\nlast {_LAST_ROWS} values:\n{last}"


def _series_text(part: Any) -> str:
    if hasattr(part, "to_string"):
        return str(part.to_string(dtype=False, name=False))
    return repr(part.to_list())


def _frame(value: Any) -> str:
    rows, columns = (int(each) for each in value.shape)
    is_polars = _library(value) == "polars"
    names = list(value.columns)[:_COLUMNS]
    if rows * columns > _CELLS_TO_COUNT:
        nulls = [0] * columns
    elif is_polars:
        nulls = list(value.null_count().row(0))
    else:
        nulls = value.isna().sum().tolist()
    lines = [f"{type(value).__name__} of {rows} rows × {columns} columns", "columns:"]
    # By position: pandas allows duplicate column names.
    for name, kind, null in zip(names, list(value.dtypes), nulls, strict=False):
        facts = str(kind)
        if null:
            facts += f", {int(null)} null"
        lines.append(f"  {name} ({facts})")
    if columns > len(names):
        lines.append(f"  … {columns - len(names)} more columns")
    if is_polars:
        part = value[names]
    else:
        part = value.iloc[:, : len(names)]
    if rows and rows <= _SMALL_ROWS and columns <= _SMALL_COLUMNS:
        lines += ["rows:", _rows(part)]
    elif rows:
        lines += [f"first {min(rows, _ROWS)} rows:", _rows(part.head(_ROWS))]
        last = min(rows - _ROWS, _LAST_ROWS)
        if last > 0:
            lines += [f"last {last} rows:", _rows(part.tail(last))]
    return "\n".join(lines)


def _rows(part: Any) -> str:
    if hasattr(part, "to_string"):
        return str(part.to_string(max_colwidth=_CELL))
    rows = [part.columns, *part.rows()]
    return "\n".join(" | ".join(shorten(str(cell), _CELL) for cell in row) for row in rows)


# ── images ────────────────────────────────────────────────────────────────────────────────────────

_MAX_BYTES = 5_000_000
_PNG = b"\x89PNG"
_JPEG = b"\xff\xd8\xff"


def picture(value: Any) -> str | None:
    """The value as a PNG in base64, or None if it is not an image or too large to send."""
    data = call_method(value, "_repr_png_")
    figure = figure_of(value)
    if figure is not None:
        buffer = io.BytesIO()
        call_method(figure, "savefig", fname=buffer, format="png", bbox_inches="tight")
        data = buffer.getvalue()
    if isinstance(data, tuple) and data:  # a pair of data and metadata
        data = data[0]
    if isinstance(data, str):
        data = _decoded(data)
    if isinstance(data, (bytes, bytearray)) and data[:4] == _PNG and len(data) <= _MAX_BYTES:
        return base64.b64encode(data).decode("ascii")
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
        what = shorten(shown, 60)
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
