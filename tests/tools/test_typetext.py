"""Types are written in the words of the text protocol."""

from __future__ import annotations

import collections.abc
import enum
import typing
from typing import Annotated, Any, Literal, NewType, Optional, Union

import numpy as np
import pandas as pd
import pytest

from archytas_nb.tools.annotation import admits_none, is_simple, type_text


class Color(enum.Enum):
    RED = "r"
    BLUE = 2


class Odd(enum.Enum):
    A = object()


UserId = NewType("UserId", int)


@pytest.mark.parametrize(
    ("annotation", "text"),
    [
        (str, "str"),
        (None, "None"),
        (Any, "Any"),
        (list, "list"),
        (list[str], "list[str]"),
        (typing.List[int], "list[int]"),  # noqa: UP006
        (typing.List, "list"),  # noqa: UP006
        (dict[str, list[int]], "dict[str, list[int]]"),
        (tuple[int, ...], "tuple[int, ...]"),
        (int | str, "int | str"),
        (Optional[int], "int | None"),  # noqa: UP045
        (Union[str, None, int], "str | None | int"),  # noqa: UP007
        (Literal["a", "b"], "Literal['a', 'b']"),
        (Literal[Color.RED, 1], "Literal['r', 1]"),
        (Color, "Literal['r', 2]"),
        (Odd, "Literal['A']"),
        (Annotated[int, "x"], "int"),
        (UserId, "int"),
        (pd.DataFrame, "DataFrame"),
        (np.ndarray, "ndarray"),
        (collections.abc.Callable[[int], str], "Callable"),
        (collections.abc.Sequence[int], "Sequence[int]"),
        (typing.TypeVar("T"), "T"),
    ],
)
def test_the_text_of(annotation, text):
    assert type_text(annotation) == text


def test_only_the_four_scalars_are_simple():
    assert all(is_simple(each) for each in (str, int, float, bool, Annotated[str, "x"], UserId))
    assert not any(
        is_simple(each) for each in (list, dict, str | None, Literal["a"], Color, Any, None)
    )


def test_null_is_a_value_of_some_types():
    assert all(admits_none(each) for each in (None, int | None, Any, object, Literal[1, None]))  # noqa: PYI061
    assert not any(admits_none(each) for each in (int, str | int, Literal[1], list[None]))
