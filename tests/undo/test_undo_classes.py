"""Hundreds of kinds of objects and changes: each is reported and restored, or listed as not watched."""

from __future__ import annotations

import gc
import itertools
import warnings
from collections import Counter
from collections.abc import Iterator

import pytest

from tests.undo.changes import CASES, PLACES, TABLES, judged

WAYS = ("transaction", "run")
EACH = [*itertools.product(range(len(CASES)), PLACES, WAYS)]


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    """Libraries warn of unusual changes, and of files and databases that are not closed."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield
        gc.collect()  # so that these are closed here, and not during another test


def check(cases: list[tuple[int, str, str]]) -> Counter[str]:
    verdicts: Counter[str] = Counter()
    wrong = []
    for number, place, way in cases:
        make, change = CASES[number]
        verdict = judged(make, change, place, way)
        verdicts[verdict] += 1
        if verdict in ("silent", "wrong", "unchanged"):
            wrong.append((verdict, place, way, make, change))
    assert not wrong
    return verdicts


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("place", PLACES)
def test_no_change_of_a_sample_is_silent_or_restored_wrongly(place: str, way: str) -> None:
    start = [*PLACES].index(place) * 2 + WAYS.index(way)
    verdicts = check([(number, place, way) for number in range(start, len(CASES), 24)])
    assert verdicts["restored"] > 2 * verdicts["listed"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
def test_no_change_is_silent_or_restored_wrongly() -> None:
    verdicts = check(EACH)
    print(f"{sum(map(len, TABLES.values()))} kinds, {len(EACH)} cases:", dict(verdicts))
    assert verdicts.total() == len(EACH)
