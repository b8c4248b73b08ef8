"""Shapes of functions whose types, kinds or parameters are out of the ordinary; see ``shapes.py``."""

from __future__ import annotations

import collections.abc
import dataclasses
import datetime as dt
import decimal
import enum
import functools
import pathlib
from typing import Annotated, Any, Literal, Optional, TypedDict, Union

import numpy as np
import pandas as pd
from pydantic import BaseModel, Field

from tests.tools.shapebook import SHAPES, shape


class Color(enum.Enum):
    RED = "r"
    BLUE = "b"


@dataclasses.dataclass
class Point:
    x: float
    y: float
    label: str = ""


class Leg(TypedDict):
    start: Point
    km: float


class Node(BaseModel):
    name: str
    color: Color = Color.RED
    children: list[Node] = []


@shape("13_generics")
def nested(rows: list[dict[str, int]], table: dict[str, list[float]], anything: list) -> int:
    """Count.

    Args:
        rows: Rows.
        table: Columns.
        anything: Whatever.
    """
    return len(rows) + len(table) + len(anything)


@shape("14_unions")
def unions(
    a: int | str,
    b: Optional[int],  # noqa: UP045
    c: str | list | None = None,
    d: Union[int, float] = 1,  # noqa: UP007, PYI041
) -> list[Any]:
    """Return what came.

    Args:
        a: Number or text.
        b: Number or null.
        c: Text, items or nothing.
        d: Number.
    """
    return [a, b, c, d]


@shape("15_types")
def choose(
    level: Literal["low", "high"],
    color: Color,
    maybe: Literal[1, "a", None] = None,  # noqa: PYI061
) -> list[Any]:
    """Choose.

    Args:
        level: How much.
        color: Which.
        maybe: Mixed.
    """
    return [level, color, maybe]


@shape("15_types")
def travel(start: Point, legs: list[Leg], tree: Node) -> str:
    """Go.

    Args:
        start: Where from.
        legs: The way.
        tree: What to think of.
    """
    return f"{start} {legs} {tree}"


@shape("15_types")
def when(
    day: dt.date,
    at: dt.datetime,
    file: pathlib.Path,
    price: decimal.Decimal,
    pair: tuple[int, str],
    tags: set[str],
    size: Annotated[int, Field(gt=0, description="How large.")],
    note: Annotated[str, "What to say."] = "",
) -> str:
    """Many types.

    Args:
        day: A day.
        at: A time.
        file: A file.
        price: A price.
        pair: Two things.
        tags: Words.
    """
    return f"{day} {at} {file} {price} {pair} {tags} {size} {note}"


@shape("16_by_reference")
def count_rows(df: pd.DataFrame) -> int:
    """Count rows.

    Args:
        df: The table.
    """
    return len(df)


@shape("16_by_reference")
def mix(
    frames: list[pd.DataFrame],
    where: np.ndarray,
    key: collections.abc.Callable[[int], int] | None = None,
) -> int:
    """Mix.

    Args:
        frames: Tables.
        where: Where to look.
        key: How to sort.
    """
    return len(frames) + len(where)


@shape("16_by_reference")
def source(data: str | pd.DataFrame) -> str:
    """Name the kind of source.

    Args:
        data: A path, or a table.
    """
    return type(data).__name__


@shape("17_kinds")
async def later(x: int) -> int:
    """Wait, then answer.

    Args:
        x: The answer.
    """
    return x


@shape("17_kinds")
def count_to(n: int) -> collections.abc.Iterator[int]:
    """Count.

    Args:
        n: Up to where.
    """
    yield from range(n)


class Counter:
    """Counts."""

    def __init__(self, start: int = 0):
        self.value = start

    def __len__(self):
        return 0  # falsy

    def step(self, by: int = 1) -> int:
        """Count on.

        Args:
            by: How far.
        """
        self.value += by
        return self.value

    @classmethod
    def make(cls, start: int) -> int:
        """Make one.

        Args:
            start: Where to begin.
        """
        return cls(start).value

    @staticmethod
    def add(a: int, b: int) -> int:
        """Add.

        Args:
            a: One.
            b: Other.
        """
        return a + b

    def __call__(self, times: int) -> int:
        """Call it.

        Args:
            times: How often.
        """
        return times


SHAPES["17_kinds"] += [
    Counter().step,
    Counter.make,
    Counter.add,
    functools.partial(Counter.add, 2),
    functools.partial(Counter.add, b=2),
    Counter(),
    functools.lru_cache(Counter.add),
]


@shape("18_parameters")
def positional(a: int, b: int = 2, /, c: int = 3, *, d: int) -> list[int]:
    """Return what came.

    Args:
        a: One.
        b: Two.
        c: Three.
        d: Four.
    """
    return [a, b, c, d]


@shape("18_parameters")
def names(
    thought: str,
    tool: str,
    self: str,
    schema: str,
    copy: str,
    json: str,
    model_config: str,
    from_: str,
) -> list[str]:
    """Return what came.

    Args:
        thought: 1
        tool: 2
        self: 3
        schema: 4
        copy: 5
        json: 6
        model_config: 7
        from_: 8
    """
    return [thought, tool, self, schema, copy, json, model_config, from_]
