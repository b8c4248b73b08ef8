"""The text of one value, whatever its class does: in a cell of a table, and where a text names it.

No display option of pandas or numpy changes it, and a number has enough digits to be read back.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from collections.abc import Set as AbstractSet
from decimal import Decimal
from itertools import islice
from typing import Any

from archytas_nb.errors import STOPS
from archytas_nb.tools.tables import column_of, table_of
from archytas_nb.words import truncate_line

MISSING = "(missing)"
"""A missing value of a table, in every text for a model, whatever its library calls it."""

_DOUBLE = 8  # bytes of a float of Python
_DEPTH = 6  # of lists in lists that are written
_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")


# ── what a value is ───────────────────────────────────────────────────────────────────────────────


def is_scalar(value: Any) -> bool:
    """Whether the value is a numpy scalar or a zero-dimensional array."""
    is_flat = is_of_numpy(value) and getattr(value, "ndim", None) == 0
    return is_flat and hasattr(type(value), "item")


def plain_scalar(value: Any) -> Any:
    """A numpy scalar as Python has it; a short float with no more digits than it holds."""
    item = value.item()
    if isinstance(item, float) and value.dtype.itemsize < _DOUBLE:
        return float(str(value))
    return item


def is_of_numpy(value: Any) -> bool:
    """Whether a value has a class of numpy, or one that is made of it."""
    roots = (str(each.__module__).partition(".")[0] for each in type(value).__mro__)
    return any(root == "numpy" for root in roots)


def is_array(value: Any) -> bool:
    """Whether a value is an array of numpy, or one that pandas stores its values in."""
    if not hasattr(type(value), "shape"):
        return False
    roots = {str(each.__module__).partition(".")[0] for each in type(value).__mro__}
    if roots.isdisjoint({"numpy", "pandas"}):
        return False
    is_column = column_of(value) is not None or table_of(value) is not None
    return not is_column and bool(getattr(value, "shape", ()))


def is_missing(value: Any) -> bool:
    """Whether a value of a table is missing: None, NaN, or what a library has in their place.

    Only numbers, and the scalars of numpy, are compared with themselves: of an object of another
    class, nobody knows what a comparison gives.
    """
    if value is None:
        return True
    if isinstance(value, (str, int)):
        return False
    numpy = sys.modules.get("numpy")
    if numpy is not None and value is numpy.ma.masked:
        return True
    if isinstance(value, Decimal):
        return value.is_nan()
    if isinstance(value, (float, complex)) or is_scalar(value):
        return bool(value != value)  # noqa: PLR0124 - only NaN and NaT differ from themselves
    pandas = sys.modules.get("pandas")
    return pandas is not None and (value is pandas.NA or value is pandas.NaT)


def type_name(value: Any) -> str:
    """The name of a value's type, without calling its metaclass."""
    return str(type.__dict__["__name__"].__get__(type(value)))


# ── as one text ───────────────────────────────────────────────────────────────────────────────────


def without_addresses(text: str) -> str:
    """A text without the memory addresses of objects, which differ between runs."""
    return _ADDRESS.sub("", text)


def safe_repr(value: Any) -> str:
    """``repr(value)`` without memory addresses; the type's name if the repr fails."""
    try:
        return without_addresses(str.__str__(repr(value)))
    except STOPS:
        raise
    except BaseException as error:  # noqa: BLE001  (a user's repr may raise anything)
        return f"<{type_name(value)} object, its repr raised {type_name(error)}>"


def safe_str(value: Any) -> str:
    """``str(value)`` without memory addresses; its repr if that fails."""
    try:
        return without_addresses(str.__str__(str(value)))
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001  (a user's class may raise anything)
        return safe_repr(value)


def in_line(value: Any, size: int | None = None) -> str:
    """A value of a table on one line of at most this many characters.

    Of a list, no item is cut.
    """
    is_text = isinstance(value, str)
    if is_text and size is not None:
        value = str.__getitem__(value, slice(size + 1))
    text = _CONTROL.sub(lambda found: repr(found[0])[1:-1], cell_text(value, size))
    if size is None or len(text) <= size:
        return text
    if not is_text and (end := text.rfind(", ", 0, size - 2)) > 0:
        return f"{text[: end + 2]}…"
    return truncate_line(text, size)


def cell_text(value: Any, most: int | None = None) -> str:
    """A value of a table as a model reads it.

    Args:
        value: The value.
        most: How many items of a list are read at most, if the text is shortened; None for all.
    """
    if isinstance(value, str):
        return str.__str__(value)
    return _inner(value, most, _DEPTH)


def _inner(value: Any, most: int | None, depth: int) -> str:
    """A value as Python writes it: text in quotes, and what is in a list, a dict or an array."""
    if isinstance(value, str):
        return repr(str.__str__(value))
    if is_missing(value):
        return MISSING
    if isinstance(value, float):  # also numpy's
        return float.__repr__(value)
    kind = type(value)
    if depth and any(kind.__repr__ is each.__repr__ for each in _CONTAINERS):
        return _container(value, most, depth - 1)
    if depth and is_array(value):
        return array_text(value, most=most, depth=depth - 1)
    if (table := table_of(value)) is not None:
        size = "?" if table.size is None else table.size
        return f"<{kind.__name__} of {size} rows × {table.width} columns>"
    if (column := column_of(value)) is not None:
        return _listed(column.values(slice(most)), most, depth - 1) if depth else "[…]"
    return safe_str(value)


_CONTAINERS: tuple[type, ...] = (list, tuple, dict, set, frozenset)
"""The classes whose texts consist of those of their items."""


def _container(value: Any, most: int | None, depth: int) -> str:
    if isinstance(value, Mapping):
        pairs = islice(value.items(), most)
        parts = (f"{_inner(key, most, depth)}: {_inner(each, most, depth)}" for key, each in pairs)
        return f"{{{', '.join(parts)}}}"
    if isinstance(value, AbstractSet):
        texts = sorted(_inner(each, most, depth) for each in value)
        return f"{{{', '.join(texts)}}}" if texts else "set()"
    if isinstance(value, tuple):
        inner = _listed(value, most, depth)[1:-1]
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    return _listed(value, most, depth)


def _listed(values: Iterable[Any], most: int | None, depth: int) -> str:
    return f"[{', '.join(_inner(each, most, depth) for each in islice(values, most))}]"


def array_text(
    values: Any, *, most: int | None = None, depth: int = _DEPTH, between: str = ", "
) -> str:
    """An array as lists in lists.

    Args:
        values: An array of numpy, or one of pandas.
        most: How many items of each list are read at most; None for all.
        depth: How many levels of lists in its items are written.
        between: The text between the outer lists.
    """
    return _array_text(values, values.ndim, most, depth, between)


def _array_text(values: Any, ndim: int, most: int | None, depth: int, between: str) -> str:
    if ndim <= 1:  # a row of a matrix is a matrix again
        return _listed(getattr(values, "flat", values), most, depth)
    rows = islice(values, most)
    return f"[{between.join(_array_text(each, ndim - 1, most, depth, between) for each in rows)}]"
