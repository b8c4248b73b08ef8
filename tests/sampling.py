"""Which cases of many are tested in every run; the others are marked slow, and tested by ``pytest -m slow``.

A sample is the same in each run, so that a failure comes again.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import pytest


def few_of(few: Any, every: Any) -> list[Any]:
    """Two values of one parameter: a few cases for every run, and all of them."""
    return [pytest.param(few, id="few"), pytest.param(every, id="all", marks=pytest.mark.slow)]


def pairwise(values: Iterable[Any], *others: Sequence[Any]) -> list[Any]:
    """All combinations; in every run are those in which each value meets each of the two values of the others.

    Two opposite combinations do that. They differ from value to value, so the others meet each other as well.
    """
    combinations = list(itertools.product(*others))
    half = len(combinations) // 2
    made = []
    for n, value in enumerate(values):
        for at, other in enumerate(combinations):
            taken = min(at, len(combinations) - 1 - at) == n % half
            made.append(pytest.param(value, *other, marks=() if taken else pytest.mark.slow))
    return made


def alternating(values: Iterable[Any], other: Sequence[Any]) -> list[Any]:
    """All pairs; in every run each value meets one of the others, in turn."""
    return [
        pytest.param(value, each, marks=() if n % len(other) == at else pytest.mark.slow)
        for n, value in enumerate(values)
        for at, each in enumerate(other)
    ]
