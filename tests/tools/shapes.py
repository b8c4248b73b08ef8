"""Functions of every shape that a notebook may hold, by group. Golden files show what a model reads of each."""

from __future__ import annotations

from typing import Any, Optional

import pandas as pd

from tests.tools.shapebook import SHAPES, shape
from tests.tools.shapes_typed import (
    Counter,
    choose,
    count_rows,
    count_to,
    later,
    mix,
    names,
    nested,
    positional,
    source,
    travel,
    unions,
    when,
)  # fmt: skip

__all__ = [
    "SHAPES", "Counter", "choose", "count_rows", "count_to", "later", "mix", "names", "nested", "positional",
    "source", "travel", "unions", "when",
]  # fmt: skip


@shape("02_no_arguments")
def ping() -> str:
    """Say that you are there."""
    return "here"


@shape("03_no_result")
def forget(key: str) -> None:
    """Forget a key.

    Args:
        key: What to forget.
    """


@shape("04_one_string")
def ask(q: str) -> str:
    """Ask.

    Args:
        q: The question.
    """
    return q


@shape("05_one_number")
def double(x: float) -> float:
    """Double a number.

    Args:
        x: The number.
    """
    return x * 2


@shape("05_one_number")
def flip(on: bool) -> bool:
    """Flip a switch.

    Args:
        on: Where it is.
    """
    return not on


@shape("05_one_number")
def add_one(n: int) -> int:
    """Add one.

    Args:
        n: The number.
    """
    return n + 1


@shape("06_one_optional")
def greet(name: str = "world") -> str:
    """Greet somebody.

    Args:
        name: Whom to greet.
    """
    return f"hello {name}"


@shape("07_one_container")
def total(numbers: list[float]) -> float:
    """Add numbers.

    Args:
        numbers: What to add.
    """
    return sum(numbers)


@shape("07_one_container")
def keys(table: dict) -> list[str]:
    """List the keys.

    Args:
        table: Any object.
    """
    return list(table)


@shape("08_optional")
def defaults(
    a: int = 0,
    b: bool = False,
    c: str = "",
    d: list[int] = [],  # noqa: B006  (what users write)
    e: Optional[int] = None,  # noqa: UP045
    f: float = float("nan"),
    g: Any = object(),  # noqa: B008
) -> list[Any]:
    """Return what came.

    Args:
        a: zero, by default 0
        b: no
        c: nothing (default: '')
        d (list[int], optional): no items
        e: perhaps
        f: not a number
        g: anything
    """
    return [a, b, c, d, e, f, g]


@shape("09_order")
def order(first: int, second: int) -> int:
    """Signature order wins.

    Args:
        second: comes last
        first: comes first
    """
    return first - second


@shape("11_results")
def load(path: str) -> pd.DataFrame:
    """Read a file.

    Args:
        path: Where it is.

    Returns:
        The rows.
    """
    return pd.DataFrame({"path": [path]})
