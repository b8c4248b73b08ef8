"""A column of answers holds the values themselves, and its type is that of the answers."""

from __future__ import annotations

import datetime as dt
import enum
import math
import sys
from decimal import Decimal
from types import SimpleNamespace
from typing import Any, Literal, TypedDict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.answers import Answers
from archytas_nb.batch.frame import framed, schemas_of
from tests.sampling import alternating

pd = pytest.importorskip("pandas")


class Colour(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Place(TypedDict):
    name: str
    level: int


ZONES = st.sampled_from([dt.UTC, dt.timezone(dt.timedelta(hours=5, minutes=30))])
FLOATS = st.floats(allow_nan=False)
TEXTS = st.text(max_size=8)
DATETIMES = st.datetimes().map(lambda each: each.replace(fold=0))
ZONED = st.builds(lambda each, zone: each.replace(tzinfo=zone), DATETIMES, ZONES).filter(
    lambda each: 1 < each.year < 9999
)
KINDS: dict[str, tuple[Any, st.SearchStrategy[Any]]] = {
    "bool": (bool, st.booleans()),
    "int": (int, st.integers(-(2**63), 2**63 - 1)),
    "int of any size": (int, st.integers(-(2**70), 2**70)),
    "float": (float, FLOATS),
    "number": (int | float, st.integers(-(2**70), 2**70) | FLOATS),
    "str": (str, TEXTS),
    "decimal": (Decimal, st.decimals(allow_nan=False, allow_infinity=False)),
    "date": (dt.date, st.dates()),
    "datetime": (dt.datetime, DATETIMES),
    "datetime with zones": (dt.datetime, DATETIMES | ZONED),
    "time": (dt.time, st.times()),
    "timedelta": (dt.timedelta, st.timedeltas()),
    "bytes": (bytes, st.binary(max_size=6)),
    "enum": (Colour, st.sampled_from(Colour)),
    "literal": (Literal["a", "b"], st.sampled_from("ab")),
    "list": (list[int], st.lists(st.integers(-(2**70), 2**70), max_size=3)),
    "list of texts": (list[str], st.lists(TEXTS, max_size=3)),
    "tuple": (tuple[int, str], st.tuples(st.integers(), TEXTS)),
    "set": (set[int], st.sets(st.integers(0, 9))),
    "dict": (dict[str, int], st.dictionaries(TEXTS, st.integers(0, 9), max_size=3)),
    "record": (Place, st.fixed_dictionaries({"name": TEXTS, "level": st.integers(0, 9)})),
    "text or list": (str | list[str], TEXTS | st.lists(TEXTS, max_size=2)),
    "anything": (Any, st.none() | st.booleans() | FLOATS | TEXTS | st.lists(st.integers(), max_size=2)),
}  # fmt: skip
LIBRARIES = ("pandas", "polars")


def column(library: str, output_type: Any, values: list[Any]) -> Any:
    """The column of these answers; None for a row that has none."""
    module = pytest.importorskip(library)
    answers = Answers(output_type, None, {})
    data = SimpleNamespace(index=pd.RangeIndex(len(values)))
    records = [{"answer": value} for value in values]
    frame = framed(data, library, records, schemas_of(answers.schema, ["answer"]))
    assert isinstance(frame, module.DataFrame)
    return frame["answer"]


def read(made: Any) -> list[Any]:
    """The values of a column, None for a missing one."""
    if hasattr(made, "to_list") and "polars" in type(made).__module__:
        return list(made.to_list())
    missing = made.isna()
    return [None if gone else each for each, gone in zip(made, missing, strict=True)]


def same(one: Any, other: Any) -> bool:
    if isinstance(other, float) and isinstance(one, float) and math.isnan(other):
        return math.isnan(one)
    if isinstance(other, dt.datetime):
        return bool(one == other) and one.utcoffset() == other.utcoffset()
    if isinstance(other, Decimal):
        return str(one) == str(other)
    if isinstance(other, bool):
        return type(one).__name__ in ("bool", "bool_") and bool(one) == other
    return bool(one == other) and not isinstance(one, bool)


@pytest.mark.parametrize(("kind", "library"), alternating(KINDS, LIBRARIES))
@given(data=st.data())
def test_what_was_answered_comes_back(library: str, kind: str, data: st.DataObject) -> None:
    output_type, values = KINDS[kind]
    answered = data.draw(st.lists(st.none() | values, max_size=5))
    made = read(column(library, output_type, answered))
    assert len(made) == len(answered)
    for one, other in zip(made, answered, strict=True):
        assert (one is None) == (other is None)
        assert other is None or same(one, other)


BEYOND = {"list", "timedelta", "datetime with zones"}
"""Kinds with values that are beyond what a column of their type holds."""


@pytest.mark.parametrize(
    ("kind", "library"),
    alternating((each for each in KINDS if each not in {*BEYOND, "int of any size", "number"}), LIBRARIES),
)  # fmt: skip
@given(data=st.data())
def test_the_type_of_a_column_does_not_depend_on_which_rows_failed(
    library: str, kind: str, data: st.DataObject
) -> None:
    output_type, values = KINDS[kind]
    answered = data.draw(st.lists(values, max_size=4))
    whole = column(library, output_type, answered).dtype
    assert column(library, output_type, [None, *answered]).dtype == whole
    assert column(library, output_type, []).dtype == whole


def test_a_column_of_integers_holds_them_beside_a_missing_one() -> None:
    for library in LIBRARIES:
        if library in sys.modules or pytest.importorskip(library):
            big = 1234567890123456789
            assert read(column(library, int | None, [big, None])) == [big, None]
