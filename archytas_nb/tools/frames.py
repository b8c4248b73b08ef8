"""Previews of arrays, series and data frames: shape, dtypes, null counts, the first and the last rows.

Recognises numpy, pandas and polars by the module of the type, and imports none of them.
"""

from __future__ import annotations

import math
from typing import Any

_ROWS, _LAST_ROWS, _COLUMNS = 10, 5, 40
_CELLS_TO_COUNT = 20_000_000  # above it, counting nulls would take seconds
_SMALL_ROWS, _SMALL_COLUMNS = 20, 12


def library(value: Any) -> str:
    """Return ``"numpy"``, ``"pandas"`` or ``"polars"`` for their objects, else an empty string."""
    for kind in type(value).__mro__:
        root = str(getattr(kind, "__module__", "")).split(".", 1)[0]
        if root in {"numpy", "pandas", "polars"}:
            return root
    return ""


def is_scalar(value: Any) -> bool:
    """Whether the value is a numpy scalar, or an array of no dimension."""
    return (
        library(value) == "numpy"
        and getattr(value, "ndim", None) == 0
        and hasattr(type(value), "item")
    )


def is_data(value: Any) -> bool:
    """Whether the value is an array, a series, an index or a frame."""
    return (
        bool(library(value)) and hasattr(type(value), "shape") and bool(getattr(value, "shape", ()))
    )


def one_line(value: Any) -> tuple[str, bool]:
    """Describe data that stands inside another value.

    Returns:
        The text, and whether it shows every value.
    """
    head = f"{type(value).__name__} of shape {_shape(value)}"
    if hasattr(value, "columns"):
        names = ", ".join(str(name) for name in list(value.columns)[:_ROWS])
        return (
            f"{head} with the columns {names}{', …' if len(value.columns) > _ROWS else ''}",
            False,
        )
    head += f" and dtype {value.dtype}" if hasattr(value, "dtype") else ""
    size = math.prod(value.shape)
    if size <= 2 * _ROWS:
        return f"{head}: {_listed(value)!r}", True
    first, last = (
        str(_listed(part)) for part in _ends(value.ravel() if library(value) == "numpy" else value)
    )
    return f"{head}: {first[:-1]}, …, {last[1:]}", False


def preview(value: Any) -> tuple[str, bool]:
    """Describe data.

    Returns:
        The text, and whether it shows everything.
    """
    if library(value) == "numpy":
        return _array(value)
    return _frame(value) if hasattr(value, "columns") else _series(value)


def _shape(value: Any) -> str:
    return " × ".join(str(each) for each in value.shape)


def _array(value: Any) -> tuple[str, bool]:
    head = f"{type(value).__name__} of shape {_shape(value)}, dtype {value.dtype}"
    if value.size <= 200:
        return f"{head}\n{value.tolist()!r}" if value.ndim == 1 else f"{head}\n{value!s}", True
    first, last = (_listed(part) for part in _ends(value.ravel()))
    return f"{head}\nfirst values: {first!r}\nlast values: {last!r}", False


def _ends(value: Any) -> tuple[Any, Any]:
    """Return the first and the last values, by position whatever the index of a series is."""
    by_position = getattr(value, "iloc", value)
    return by_position[:_ROWS], by_position[-_LAST_ROWS:]


def _listed(part: Any) -> Any:
    return part.to_list() if hasattr(part, "to_list") else part.tolist()


def _series(value: Any) -> tuple[str, bool]:
    size = int(value.shape[0])
    name = f" {value.name!r}" if getattr(value, "name", None) not in {None, ""} else ""
    head = f"{type(value).__name__}{name} of {size} values, dtype {value.dtype}"
    plain = library(value) == "polars" or not hasattr(value, "to_string")  # polars, or an Index
    whole = size <= (_ROWS if plain else _SMALL_ROWS)
    if hasattr(value, "to_string") or library(value) == "polars":
        nulls = value.null_count() if library(value) == "polars" else value.isna().sum()
        head += f", {int(nulls)} null"
    if whole:
        return f"{head}\n{_values(value, plain=plain)}", True
    first, last = (_values(part, plain=plain) for part in _ends(value))
    return f"{head}\nfirst {_ROWS} values:\n{first}\nlast {_LAST_ROWS} values:\n{last}", False


def _values(part: Any, *, plain: bool) -> str:
    return repr(_listed(part)) if plain else str(part.to_string(dtype=False, name=False))


def _frame(value: Any) -> tuple[str, bool]:
    rows, columns = (int(each) for each in value.shape)
    head = f"{type(value).__name__} of {rows} rows × {columns} columns"
    small = rows <= _SMALL_ROWS and columns <= _SMALL_COLUMNS
    names = list(value.columns)[:_COLUMNS]
    lines = [head, "columns:", *_columns(value, names, rows * columns)]
    if columns > len(names):
        lines.append(f"  … {columns - len(names)} more columns")
    part = value[names] if library(value) == "polars" else value.iloc[:, : len(names)]
    if rows and small:
        lines += ["rows:", _rows(part)]
    elif rows:
        lines += [f"first {min(rows, _ROWS)} rows:", _rows(part.head(_ROWS))]
        last = min(rows - _ROWS, _LAST_ROWS)
        if last > 0:
            lines += [f"last {last} rows:", _rows(part.tail(last))]
    return "\n".join(lines), small


def _columns(value: Any, names: list[Any], cells: int) -> list[str]:
    """Write one line a column. By position, because pandas allows two columns of one name."""
    count = cells <= _CELLS_TO_COUNT
    if library(value) == "polars":
        nulls = value.null_count().row(0) if count else ()
        kinds = list(value.dtypes)
    else:
        nulls = [int(each) for each in value.isna().sum().tolist()] if count else ()
        kinds = value.dtypes.tolist()
    return [
        f"  {name} ({kinds[at]}" + (f", {nulls[at]} null" if count and nulls[at] else "") + ")"
        for at, name in enumerate(names)
    ]


def _rows(part: Any) -> str:
    if library(part) == "polars":
        header = " | ".join(str(name) for name in part.columns)
        return "\n".join([header, *(" | ".join(str(cell) for cell in row) for row in part.rows())])
    return str(part.to_string(max_colwidth=60))
