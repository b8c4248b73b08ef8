"""The text about any table is whole, agrees with the table, and is the same for any display."""

from __future__ import annotations

import contextlib
import csv
import datetime as dt
import re
from collections.abc import Callable, Iterator
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.kernel import look
from archytas_nb.kernel.cards import card
from archytas_nb.kernel.look import look_tools
from archytas_nb.loop.record import CardForm
from archytas_nb.tools.data import preview
from archytas_nb.tools.tables import label_of, table_of
from archytas_nb.tools.texts import MISSING, cell_text

pd = pytest.importorskip("pandas")
np = pytest.importorskip("numpy")

[_, LOOK] = look_tools()


class Odd:
    """Compares with anything to something true, and cannot be hashed."""

    __hash__ = None  # type: ignore[assignment]

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return True


class Silent:
    """Cannot be written."""

    def __repr__(self) -> str:
        raise RuntimeError


FLOATS = st.floats()
OBJECTS = st.one_of(
    *(st.none(), st.booleans(), st.integers(), FLOATS, st.text(max_size=5), st.binary(max_size=3)),
    st.lists(FLOATS, max_size=3),
    st.dictionaries(st.text(max_size=3), FLOATS | st.none(), max_size=2),
    st.builds(lambda values: np.array(values), st.lists(FLOATS, min_size=1, max_size=3)),
    st.builds(lambda value: [np.float64(value)], FLOATS),
    st.builds(lambda value: pd.DataFrame({"x": [value]}), FLOATS),
    *(
        st.builds(Odd),
        st.builds(Silent),
        st.decimals(allow_nan=False),
        st.sampled_from([pd.NA, pd.NaT, np.nan]),
    ),
)
TIMES = st.datetimes().map(lambda each: each.replace(year=1904 + each.year % 200 // 4 * 4))


def optional(values: st.SearchStrategy[Any], size: int) -> st.SearchStrategy[list[Any]]:
    return st.lists(st.none() | values, min_size=size, max_size=size)


PANDAS: dict[str, Callable[[int], st.SearchStrategy[Any]]] = {
    "float": lambda n: optional(FLOATS, n).map(lambda each: pd.Series(each, dtype="float64")),
    "int": lambda n: st.lists(st.integers(-(2**63), 2**63 - 1), min_size=n, max_size=n).map(
        lambda each: pd.Series(each, dtype="int64")
    ),
    "Int64": lambda n: optional(st.integers(-9, 9), n).map(lambda each: pd.Series(each, dtype="Int64")),
    "boolean": lambda n: optional(st.booleans(), n).map(lambda each: pd.Series(each, dtype="boolean")),
    "text": lambda n: optional(st.text(max_size=80), n).map(lambda each: pd.Series(each, dtype="string")),
    "category": lambda n: optional(st.sampled_from("ab"), n).map(
        lambda each: pd.Series(pd.Categorical(each, categories=list("abcd")))
    ),
    "time": lambda n: optional(TIMES, n).map(lambda each: pd.Series(each, dtype="datetime64[ns]")),
    "zone": lambda n: optional(TIMES, n).map(
        lambda each: pd.Series(each, dtype="datetime64[ns]").dt.tz_localize("Asia/Kathmandu")
    ),
    "timedelta": lambda n: optional(st.timedeltas(dt.timedelta(-9), dt.timedelta(9)), n).map(
        lambda each: pd.Series(each, dtype="timedelta64[ns]")
    ),
    "period": lambda n: optional(TIMES, n).map(
        lambda each: pd.Series(pd.PeriodIndex(pd.to_datetime(pd.Series(each, dtype="datetime64[ns]")), freq="D"))
    ),
    "interval": lambda n: st.lists(st.integers(0, 9), min_size=n, max_size=n).map(
        lambda each: pd.Series(pd.arrays.IntervalArray.from_breaks([*range(n + 1)])[[i % n for i in each]] if n else [])
    ),
    "sparse": lambda n: optional(st.sampled_from([0.0, 1.0]), n).map(
        lambda each: pd.Series(pd.arrays.SparseArray(pd.Series(each, dtype="float64")))
    ),
    "complex": lambda n: st.lists(st.complex_numbers(), min_size=n, max_size=n).map(
        lambda each: pd.Series(each, dtype="complex128")
    ),
    "object": lambda n: st.lists(OBJECTS, min_size=n, max_size=n).map(
        lambda each: pd.Series(pd.Index(each, dtype=object, tupleize_cols=False).array, dtype=object)
    ),
}  # fmt: skip

TEXT_NAMES = st.text(max_size=8) | st.sampled_from(
    ["a", "a, b", "a: int64", "1", "nan", " a", "\ufeffid", "a\u202eb"]
)
NAMES = st.one_of(
    *(
        TEXT_NAMES,
        st.text(min_size=90, max_size=130),
        st.integers(0, 3),
        st.floats(),
        st.booleans(),
    ),
    *(st.none(), st.tuples(TEXT_NAMES, st.integers(0, 3)), TIMES.map(pd.Timestamp)),
)
INDEXES: dict[str, Callable[[int], Any]] = {
    "counts": lambda n: pd.RangeIndex(n),
    "named": lambda n: pd.RangeIndex(n, name="a: b"),
    "one": lambda n: pd.Index(["x"] * n, dtype=object),
    "days": lambda n: pd.date_range("2024-01-01", periods=n, tz="Europe/Rome"),
    "periods": lambda n: pd.period_range("2024-01", periods=n, freq="M"),
    "intervals": lambda n: pd.interval_range(0, n) if n else pd.Index([]),
    "categories": lambda n: pd.CategoricalIndex(["x"] * n, categories=["x", "y"]),
    "missing": lambda n: pd.Index([np.nan] * n),
    "mixed": lambda n: pd.Index([each if each % 2 else str(each) for each in range(n)], dtype=object),
    "levels": lambda n: pd.MultiIndex.from_arrays([["x"] * n, range(n)]),
    "levels of one name": lambda n: pd.MultiIndex.from_arrays([["x"] * n, range(n)], names=["k", "k"]),
}  # fmt: skip


@st.composite
def frames(draw: st.DrawFn) -> Any:
    """Frames of pandas of any index, names and types."""
    rows = draw(st.sampled_from([0, 1, 2, 5, 20, 21, 40]))
    kinds = draw(st.lists(st.sampled_from([*PANDAS]), max_size=5))
    frame = pd.DataFrame(index=INDEXES[draw(st.sampled_from([*INDEXES]))](rows))
    for place, kind in enumerate(kinds):
        frame[place] = draw(PANDAS[kind](rows)).array
    names = draw(st.lists(NAMES, min_size=len(kinds), max_size=len(kinds)))
    frame.columns = pd.Index(names, dtype=object, tupleize_cols=False)
    return frame


PLAIN = st.one_of(st.none(), st.integers(-9, 9), FLOATS)


@st.composite
def of_polars(draw: st.DrawFn) -> Any:
    """Frames of polars of any types."""
    pl = pytest.importorskip("polars")
    beyond = pl.Series([0, 253_402_300_800_000_000 * 8, None]).cast(pl.Datetime("us"))
    records = st.fixed_dictionaries({"x": st.none() | st.integers(-9, 9)})
    kinds: dict[str, tuple[Any, Any]] = {
        "float": (pl.Float64, FLOATS),
        "int": (pl.Int64, st.integers(-(2**63), 2**63 - 1)),
        "text": (pl.String, st.text(max_size=80)),
        "bool": (pl.Boolean, st.booleans()),
        "bytes": (pl.Binary, st.binary(max_size=3)),
        "enum": (pl.Enum([f"value {n}" for n in range(500)]), st.sampled_from(["value 1", "value 2"])),
        "category": (pl.Categorical, st.sampled_from("ab")),
        "time": (pl.Datetime("us", "Asia/Kathmandu"), TIMES),
        "date": (pl.Date, st.dates()),
        "duration": (pl.Duration("us"), st.timedeltas(dt.timedelta(-9), dt.timedelta(9))),
        "clock": (pl.Time, st.times()),
        "decimal": (pl.Decimal(20, 2), st.integers(-99, 99).map(lambda each: Decimal(each) / 100)),
        "list": (pl.List(pl.Float64), st.lists(FLOATS, max_size=2)),
        "object": (pl.Object, st.sampled_from([Odd(), Silent(), "x", 1.5])),
        "none": (pl.Null, st.none()),
    }  # fmt: skip
    if hasattr(pl, "Int128"):  # before it, a missing record was one of missing values
        kinds["record"] = (pl.Struct({"x": pl.Int64}), records)
        kinds["big"] = (pl.Int128, st.integers(-(2**120), 2**120))
    rows = draw(st.sampled_from([0, 1, 3, 20, 21, 30]))
    columns = {}
    for name in draw(st.lists(TEXT_NAMES, max_size=5, unique=True)):
        kind = draw(st.sampled_from([*kinds, "beyond"]))
        if kind == "beyond":
            columns[name] = beyond[[place % 3 for place in range(rows)]]
            continue
        dtype, values = kinds[kind]
        columns[name] = pl.Series(draw(optional(values, rows)), dtype=dtype, strict=False)
    return pl.DataFrame(columns)


@st.composite
def of_arrow(draw: st.DrawFn) -> Any:
    """Tables of pyarrow, also with several columns of one name."""
    pa = pytest.importorskip("pyarrow")
    rows = draw(st.sampled_from([0, 1, 3, 20, 21]))
    types = [
        *(pa.int64(), pa.float64(), pa.float32(), pa.list_(pa.int64()), pa.dictionary(pa.int32(), pa.string())),
        *(pa.map_(pa.string(), pa.int64()), pa.null(), pa.uuid(), pa.string_view(), pa.large_string()),
        *(pa.decimal128(10, 2), pa.struct([("x", pa.int64())])),
    ]  # fmt: skip
    values = {
        "string": "a",
        "large_string": "a",
        "string_view": "a",
        "extension<arrow.uuid>": b"1" * 16,
    }
    arrays = []
    for kind in draw(st.lists(st.sampled_from(types), max_size=5)):
        value: Any = values.get(str(kind), 1)
        if "list" in str(kind) or "map" in str(kind):
            value = [("a", 1)] if "map" in str(kind) else [1]
        elif "struct" in str(kind):
            value = {"x": 1}
        elif "decimal" in str(kind):
            value = Decimal(1)
        column = [None if draw(st.booleans()) or kind == pa.null() else value for _ in range(rows)]
        if "dictionary" in str(kind):
            array = pa.array([each and "a" for each in column], pa.string()).dictionary_encode()
        else:
            array = pa.array(column, kind)
        arrays.append(array)
    names = draw(st.lists(TEXT_NAMES, min_size=len(arrays), max_size=len(arrays)))
    return pa.table(arrays, names=names)


@contextlib.contextmanager
def displayed_otherwise() -> Iterator[None]:
    """Every option that changes how the libraries write values."""
    options = {
        "display.precision": 1, "display.float_format": "{:,.0f}".format, "display.max_rows": 1,
        "display.max_columns": 1, "display.max_colwidth": 3, "display.width": 10,
        "display.date_yearfirst": True,
    }  # fmt: skip
    with contextlib.ExitStack() as stack:
        stack.enter_context(pd.option_context(*(part for pair in options.items() for part in pair)))
        stack.enter_context(np.printoptions(precision=1, suppress=True, legacy="1.25", threshold=1))
        with contextlib.suppress(ImportError):
            import polars as pl

            stack.enter_context(pl.Config(tbl_rows=1, fmt_str_lengths=1, float_precision=1))
        yield


IN_WORDS = CardForm(tokens=10**6, has_values=False, in_words=True)
"""The form with a line for each column."""


def told(frame: Any) -> tuple[str, str, str]:
    statistics = LOOK.function("data", {"data": frame}, "describe")  # which is not cut yet
    return card("data", frame, form=IN_WORDS), statistics, preview(frame)


def levels_of(frame: Any) -> list[str]:
    return [f"index {each.label}" if each.label else "index" for each in table_of(frame).index]  # type: ignore[union-attr]


def in_order(lines: list[str], names: list[str], table: Any) -> list[str]:
    """The lines of columns in their order, those of a table of numbers as other lines are."""
    begin = ",".join(look._STATISTICS)
    if begin not in lines:
        return lines
    levels = len(names) - table.width
    places = [n for n in range(table.width) if look._row_of_numbers(table.column(n))]
    others = [
        each for n, each in enumerate(lines) if not 0 <= n - lines.index(begin) <= len(places)
    ]
    for place, row in zip(places, lines[lines.index(begin) + 1 :], strict=False):
        [[name, kind, missing, *_, different]] = csv.reader([row])
        facts = f"{kind}, {missing} missing; {int(different):,} different values"
        others.insert(levels + place, f"  {name}: {facts}")
    return others


def check(frame: Any) -> None:
    """Check that the text about a table agrees with the table."""
    table = table_of(frame)
    assert table is not None
    digest, statistics, shown = told(frame)
    size = f"of {table.size} rows × {table.width} columns"
    names = [*levels_of(frame), *table.labels]
    counts = {}
    [head, *lines] = digest.split("\n")
    assert size in head
    for line, name in zip(lines, names, strict=False):
        short = name if len(name) <= 100 else f"{name[:99]}…"
        assert line.startswith(f"  {short}: ")
        counts[lines.index(line)] = line
    assert len(lines) == len(names)

    [head, *lines] = statistics.split("\n")
    assert f"{table.size:,} × {table.width:,}" in head
    lines = in_order(lines, names, table)
    assert len(lines) == len(names)
    cells = list(zip(*table.rows(slice(None)), strict=True)) or [()] * len(names)
    for line, name, values in zip(lines, names, cells, strict=True):
        short = name if len(name) <= 100 else f"{name[:99]}…"
        assert line.startswith(f"  {short}: ")
        facts = line[len(short) + 4 :]
        gone = sum(cell_text(each) == MISSING and not isinstance(each, str) for each in values)
        assert f", {gone} missing" in facts
        there = {cell_text(each) for each in values if cell_text(each) != MISSING}
        number = re.search(r"; ([\d,]+) different values?", facts)
        if number:  # of numbers, there may be too many
            told_number = int(number[1].replace(",", ""))
            assert told_number == 0 if not there else 1 <= told_number <= max(len(values), 1)
        if (
            number := re.search(
                r", ([\d,]+) different value", digest.split("\n")[lines.index(line) + 1]
            )
        ) is not None:
            assert int(number[1].replace(",", "")) == told_number

    assert shown.startswith(f"{type(frame).__name__} {table.size:,} × {table.width:,}")
    assert len(shown) <= 5000
    with displayed_otherwise():
        assert told(frame) == (digest, statistics, shown)


@given(frames())
def test_what_is_told_of_a_frame_of_pandas_agrees_with_it(frame: Any) -> None:
    check(frame)


@given(of_polars())
def test_what_is_told_of_a_frame_of_polars_agrees_with_it(frame: Any) -> None:
    check(frame)


@given(of_arrow())
def test_what_is_told_of_a_table_of_pyarrow_agrees_with_it(table: Any) -> None:
    check(table)


@given(st.lists(NAMES, unique_by=lambda each: (type(each), repr(each)), max_size=6))
def test_names_can_be_told_from_each_other(names: list[Any]) -> None:
    labels = list(map(label_of, names))
    for one, name in zip(labels, names, strict=True):
        assert one.isprintable()
        assert one == one.strip() != ""
        if isinstance(name, str):
            assert one in (name, repr(name))
    texts = [label for label, name in zip(labels, names, strict=True) if isinstance(name, str)]
    assert len({*texts}) == len(texts)
    numbers = [
        label for label, name in zip(labels, names, strict=True) if isinstance(name, (int, float))
    ]
    assert not {*texts} & {*numbers}


class Compared:
    """Counts how often it is compared, as it cannot be hashed."""

    __hash__ = None  # type: ignore[assignment]
    times = 0

    def __eq__(self, other: object) -> bool:
        Compared.times += 1
        return self is other

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize("size", [100, 1000])
def test_values_that_cannot_be_hashed_are_not_compared_in_pairs(size: int) -> None:
    Compared.times = 0
    frame = pd.DataFrame({"a": [Compared() for _ in range(size)]})
    told(frame)
    assert Compared.times <= 10 * size


def test_values_of_many_items_are_not_counted() -> None:
    frame = pd.DataFrame({"a": [np.zeros(1000) for _ in range(300)]})
    assert "not counted" in told(frame)[1]
