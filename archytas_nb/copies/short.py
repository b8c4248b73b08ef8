"""Values that are short enough to be an answer: numbers, texts, dates, and a few of them."""

from __future__ import annotations

import datetime as dt
import math
from collections.abc import Mapping
from typing import Any

from archytas_nb.copies.failures import is_table

MAX_VALUES = 20
"""How many values are a few."""

_MAX_TEXT = 2_000  # characters


def short_data(value: Any) -> Any:
    """A value as JSON.

    Raises:
        ValueError: It is too long, has missing values, or is an object of another kind.
    """
    if getattr(value, "shape", None) == ():  # a number of numpy
        value = value.item()
    if isinstance(value, (bool, int)) or (isinstance(value, float) and math.isfinite(value)):
        return value
    if isinstance(value, str) and value.strip() and len(value) <= _MAX_TEXT:
        return value
    if isinstance(value, (dt.date, dt.time)) and value == value:  # noqa: PLR0124 - NaT
        return value.isoformat()
    if is_table(value) or not hasattr(value, "__len__") or not 0 < len(value) <= MAX_VALUES:
        raise ValueError(f"{type(value).__name__} is not short data")
    if isinstance(value, Mapping) or hasattr(value, "items"):
        return {str(key): short_data(each) for key, each in value.items()}
    if isinstance(value, (list, tuple, set, frozenset)) or hasattr(value, "tolist"):
        return [short_data(each) for each in value]
    raise ValueError(f"{type(value).__name__} is not short data")
