"""Previews of arrays, series and data frames: shape, dtypes, null counts, the first rows.

Recognises numpy, pandas and polars by the module of the type, and imports none of them.
"""

from __future__ import annotations

from typing import Any

_ROWS, _COLUMNS = 10, 40
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
    return library(value) == "numpy" and getattr(value, "ndim", None) == 0 and hasattr(type(value), "item")


def is_data(value: Any) -> bool:
    """Whether the value is an array, a series, an index or a frame."""
    return bool(library(value)) and hasattr(type(value), "shape") and bool(getattr(value, "shape", ()))


def one_line(value: Any) -> str:
    """Name the value with its shape, for a place inside another value."""
    dtype = getattr(value, "dtype", None)
    return f"{type(value).__name__} of shape {_shape(value)}" + (
        f" and dtype {dtype}" if dtype is not None else ""
    )


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
    return f"{head}\nfirst values: {value.ravel()[:_ROWS].tolist()!r}", False


def _series(value: Any) -> tuple[str, bool]:
    size = int(value.shape[0])
    name = f" {value.name!r}" if getattr(value, "name", None) not in {None, ""} else ""
    head = f"{type(value).__name__}{name} of {size} values, dtype {value.dtype}"
    if library(value) == "polars":
        nulls, rows = int(value.null_count()), repr(value.head(_ROWS).to_list())
    elif not hasattr(value, "isna") or not hasattr(value, "to_string"):  # an Index
        return f"{head}\n{list(value[:_ROWS])!r}", size <= _ROWS
    else:
        nulls = int(value.isna().sum())
        rows = value.head(_SMALL_ROWS if size <= _SMALL_ROWS else _ROWS).to_string(dtype=False, name=False)
    whole = size <= (_ROWS if library(value) == "polars" else _SMALL_ROWS)
    label = "" if whole else f"first {_ROWS} values:\n"
    return f"{head}, {nulls} null\n{label}{rows}", whole


def _frame(value: Any) -> tuple[str, bool]:
    rows, columns = (int(each) for each in value.shape)
    head = f"{type(value).__name__} of {rows} rows × {columns} columns"
    small = rows <= _SMALL_ROWS and columns <= _SMALL_COLUMNS
    names = list(value.columns)[:_COLUMNS]
    lines = [head, "columns:", *_columns(value, names, rows * columns)]
    if columns > len(names):
        lines.append(f"  … {columns - len(names)} more columns")
    part = value[names] if library(value) == "polars" else value.iloc[:, : len(names)]
    part = part.head(_SMALL_ROWS if small else _ROWS)
    if rows:
        lines += ["rows:" if small else f"first {min(rows, _ROWS)} rows:", _rows(part)]
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
