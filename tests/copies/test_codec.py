"""Values from a copy equal those that it had, and nothing that it could send instead does harm."""

from __future__ import annotations

import datetime as dt
import decimal
import fractions
import importlib.util
import json
import math
import os
import uuid
import zoneinfo
from collections import Counter, OrderedDict, deque
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from archytas_nb.copies import channel
from archytas_nb.copies.channel import Frame, TooLargeError
from archytas_nb.copies.codec import _FORMS, NotDataError, Reader, Writer
from archytas_nb.copies.limits import CopyLimits
from archytas_nb.copies.process import Message
from archytas_nb.copies.report import DamagedError, ReportReader, read_call


def _back(value: Any, most: int = 1 << 24) -> Any:
    writer = Writer(most)
    tree = json.loads(json.dumps(writer.write(value)))
    return Reader([bytearray(each) for each in writer.buffers]).read(tree)


def _same(one: Any, other: Any) -> bool:
    if isinstance(one, float) and math.isnan(one):
        return isinstance(other, float) and math.isnan(other)
    return type(one) is type(other) and one == other


_SCALARS = st.one_of(
    st.none(), st.booleans(), st.integers(), st.integers(-(2**70), 2**70), st.floats(allow_nan=False), st.text(), st.binary(),
    st.complex_numbers(allow_nan=False), st.dates(), st.times(), st.datetimes(), st.timedeltas(), st.decimals(allow_nan=False),
    st.fractions(), st.uuids(), st.datetimes(timezones=st.sampled_from([dt.UTC, zoneinfo.ZoneInfo("Europe/Berlin")])),
)  # fmt: skip
_KEYS = st.one_of(st.integers(), st.text(), st.booleans(), st.tuples(st.integers(), st.text()))
_VALUES = st.recursive(
    _SCALARS,
    lambda inner: st.one_of(
        st.lists(inner), st.tuples(inner, inner), st.dictionaries(_KEYS, inner), st.frozensets(_KEYS), st.sets(_KEYS),
        st.lists(inner).map(deque), st.dictionaries(_KEYS, inner).map(OrderedDict),
    ),
    max_leaves=8,
)  # fmt: skip


@given(_VALUES)
def test_a_value_comes_back_as_it_was(value: Any) -> None:
    found = _back(value)
    assert type(found) is type(value)
    assert found == value


@given(
    hnp.arrays(
        st.sampled_from(["i1", "u4", "f8", "c16", "?", "M8[ns]", "m8[s]", "U5", "S3", ">i4"]),
        hnp.array_shapes(min_side=0),
    )
)
def test_an_array_comes_back_as_it_was(value: Any) -> None:
    found = _back(value)
    assert found.dtype == value.dtype
    np.testing.assert_array_equal(found, value)
    assert found.flags.writeable or 0 in value.shape


@pytest.mark.parametrize(
    "value",
    [
        float("nan"), float("inf"), range(1, 9, 2), slice(1, None), Counter("aab"), np.float32(1.5), np.datetime64("2020-01-01", "D"), bytearray(b"x"),
        PurePosixPath("/a/b"), Path("x"), uuid.UUID(int=5), decimal.Decimal("NaN"), fractions.Fraction(1, 3), np.array([{"a": 1}, None], dtype=object),
        np.array([(1, 2.0)], dtype=[("a", "i4"), ("b", "f8", (2,))]), np.zeros((0, 3)), 2**4000, "\udc80", pd.Timestamp("2020-01-01", tz="Asia/Tokyo"),
        pd.Timedelta(3, "s"),
    ],
    ids=repr,
)  # fmt: skip
def test_odd_values_come_back_as_they_were(value: Any) -> None:
    found = _back(value)
    if isinstance(value, np.ndarray):
        assert found.dtype == value.dtype
        np.testing.assert_array_equal(found, value)
    else:
        assert _same(value, found) or str(value) == str(found) == "NaN"


_FRAMES = {
    "plain": pd.DataFrame({"a": [1, 2], "b": ["x", None], "c": [1.5, None]}),
    "empty": pd.DataFrame(),
    "without rows": pd.DataFrame({"a": np.array([], dtype="i8")}),
    "index": pd.DataFrame({"a": [1, 2]}, index=pd.Index(["x", "y"], name="k")),
    "levels": pd.DataFrame({"g": list("aab"), "h": [1, 2, 1], "x": [1.0, 2.0, 3.0]}).groupby(["g", "h"]).agg(["mean", "count"]),
    "categories": pd.DataFrame({"c": pd.Categorical(["b", None], categories=["a", "b"], ordered=True)}),
    "zones": pd.DataFrame({"t": pd.date_range("2020-03-29", periods=3, freq="h", tz="Europe/Berlin")}),
    "nullable": pd.DataFrame({"n": pd.array([1, None], dtype="Int64"), "b": pd.array([True, None], dtype="boolean"), "s": pd.array(["x", None], dtype="string")}),
    "periods of time": pd.DataFrame({"d": pd.to_timedelta([1, 2], unit="s"), "t": pd.to_datetime(["2020-01-01", None])}),
    "same names": pd.DataFrame([[1, 2]], columns=["a", "a"]),
    "objects": pd.DataFrame({"o": [[1], {"a": 2}]}),
    "dates as index": pd.DataFrame({"a": [1, 2]}, index=pd.date_range("2020", periods=2)),
}  # fmt: skip


if importlib.util.find_spec("pyarrow"):
    _FRAMES["Arrow"] = pd.DataFrame({"a": pd.array([1, None], dtype="int64[pyarrow]")})


@pytest.mark.parametrize("name", _FRAMES)
def test_a_frame_of_pandas_comes_back_as_it_was(name: str) -> None:
    frame = _FRAMES[name]
    pd.testing.assert_frame_equal(_back(frame), frame, check_freq=False)
    for column in range(frame.shape[1]):
        pd.testing.assert_series_equal(
            _back(frame.iloc[:, column]), frame.iloc[:, column], check_freq=False
        )
    pd.testing.assert_series_equal(
        _back(frame.index).to_series(), frame.index.to_series(), check_freq=False
    )


_COLUMNS = {
    "numbers": pl.Series([1, 2], dtype=pl.UInt16),
    "missing": pl.Series([1.5, None]),
    "texts": pl.Series(["x", None]),
    "binary": pl.Series([b"x"]),
    "truth": pl.Series([True, None]),
    "dates": pl.Series([dt.date(2020, 1, 1), None]),
    "moments": pl.Series([dt.datetime.fromisoformat("2020-01-01")], dtype=pl.Datetime("ms")),
    "zones": pl.Series([dt.datetime.fromisoformat("2020-01-01")]).dt.replace_time_zone(
        "Europe/Berlin"
    ),
    "spans": pl.Series([dt.timedelta(seconds=1)], dtype=pl.Duration("ns")),
    "times": pl.Series([dt.time(1, 2, 3)]),
    "decimals": pl.Series([decimal.Decimal("1.50")], dtype=pl.Decimal(10, 2)),
    "categories": pl.Series(["a", "b", "a"], dtype=pl.Categorical),
    "enum": pl.Series(["a", "b"], dtype=pl.Enum(["b", "a"])),
    "lists": pl.Series([[1], [2, 3], None], dtype=pl.List(pl.Int16)),
    "arrays": pl.Series([[1, 2], [3, 4]], dtype=pl.Array(pl.Int64, 2)),
    "structs": pl.Series([{"a": 1, "b": ["x"]}, None]),
    "nothing": pl.Series([None, None]),
    "empty": pl.Series([], dtype=pl.Float32),
}


@pytest.mark.parametrize("name", _COLUMNS)
def test_a_column_of_polars_comes_back_as_it_was(name: str) -> None:
    column = _COLUMNS[name].alias(name)
    found = _back(column)
    assert found.dtype == column.dtype
    assert (found.name, found.to_list()) == (name, column.to_list())
    frame = pl.DataFrame([column, column.alias("again")])
    assert _back(frame).equals(frame)


class _Data(dict[str, int]):
    pass


class _Pickled:
    def __reduce__(self) -> Any:
        return (os.system, ("false",))


@pytest.mark.parametrize(
    "value",
    [_Data(a=1), _Pickled(), [_Pickled()], {"a": _Pickled()}, lambda: 1, os, object(), np.array([_Pickled()], dtype=object), type("int", (int,), {})(3), NotDataError("x")],
)  # fmt: skip
def test_what_is_not_data_is_refused(value: Any) -> None:
    with pytest.raises(NotDataError):
        _back(value)


def test_what_is_too_large_or_too_deep_is_refused() -> None:
    deep: list[Any] = []
    for _ in range(5000):
        deep = [deep]
    for value in (deep, "x" * 2000, bytes(2000), np.zeros(2000), list(range(2000))):
        with pytest.raises(NotDataError):
            _back(value, most=1000)
    round_about: list[Any] = []
    round_about.append(round_about)
    with pytest.raises(NotDataError):
        _back(round_about)


_TREES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**70), 2**70), st.floats(), st.text(max_size=5), st.sampled_from(sorted(_FORMS)), st.sampled_from(["O", "<f8", "|O", "V8", "range", "numpy", "object"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(st.text(max_size=3), inner, max_size=2),
        st.builds(lambda name, rest: [name, *rest], st.sampled_from(sorted(_FORMS)), st.lists(inner, max_size=4)),
    ),
    max_leaves=15,
)  # fmt: skip


@given(_TREES, st.lists(st.binary(max_size=40), max_size=3))
def test_no_forged_value_does_harm(tree: Any, buffers: list[bytes]) -> None:
    try:
        found = Reader([bytearray(each) for each in buffers]).read(tree)
    except NotDataError:
        return
    assert not callable(found) or (found is None)


@given(
    st.sampled_from(
        ["program", "ok", "failed", "done", "call", "value", "not locked", "", "__class__"]
    ),
    st.dictionaries(
        st.sampled_from(
            ["texts", "printed", "text", "tree", "bound", "error", "tried", "name", "reason"]
        ),
        _TREES,
    ),
    st.lists(st.binary(max_size=20), max_size=2),
)
def test_no_forged_report_does_harm(what: str, facts: dict[str, Any], buffers: list[bytes]) -> None:
    reader = ReportReader(CopyLimits())
    message = Message(what, facts, buffers)
    for read in (reader.take, read_call):
        try:
            read(message)
        except DamagedError:
            continue
    for statement in reader.report("fork", 0.0).statements:
        assert isinstance(statement.source, str)


def test_a_frame_that_is_too_large_is_not_read() -> None:
    reading, writing = os.pipe()
    try:
        for head in (
            b"\xff" * 7 + b"\x7f" + b"\0\0\0\0",
            b"\0" * 8 + b"\xff" * 4,
            (10).to_bytes(8, "little") + (1).to_bytes(4, "little") + b"\xff" * 7 + b"\x7f",
        ):
            os.write(writing, head)
            with pytest.raises(TooLargeError):
                channel.receive(reading, 1000)
        channel.send(writing, Frame(b"head", [b"", b"x" * 100]))
        assert channel.receive(reading, 1000) == Frame(
            b"head", [bytearray(), bytearray(b"x" * 100)]
        )
    finally:
        os.close(reading)
        os.close(writing)
