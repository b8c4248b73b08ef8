"""Tables of every library: what is one, what a model reads of it, and that numbers can be read back."""

from __future__ import annotations

import csv
import io
import math
import sqlite3
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb import Agent
from archytas_nb.kernel.cards import card
from archytas_nb.kernel.look import look_tools
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.data import is_data, preview
from archytas_nb.tools.tables import column_of, hides_rows, library_of, table_of, way_to_rows
from archytas_nb.tools.texts import MISSING

DATA = {"city": ["Rome", "Bonn"], "n": [1, 2]}


def looked(value: Any, what: str) -> str:
    [_, look] = look_tools()
    return look.call({"name": "data", "what": what}, {"data": value}).text


def rows_of(text: str) -> list[list[str]]:
    """The rows that a preview shows whole."""
    return list(csv.reader(io.StringIO(text.partition("\n")[2])))


def arrow(data: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("pyarrow").table(data)


def duck(_: dict[str, list[Any]]) -> Any:
    duckdb = pytest.importorskip("duckdb")
    return duckdb.sql("select * from (values ('Rome', 1), ('Bonn', 2)) as t(city, n)")


def dask(data: dict[str, list[Any]]) -> Any:
    return pytest.importorskip("dask.dataframe").from_pandas(pd.DataFrame(data), npartitions=1)


# ── what is a table ───────────────────────────────────────────────────────────────────────────────


@given(st.sampled_from([pd.DataFrame, pl.DataFrame, pl.LazyFrame, pd.Series]), st.integers(0, 4))
def test_a_subclass_of_any_depth_is_read_as_its_base(base: Any, depth: int) -> None:
    cls = base
    for n in range(depth):
        cls = type(f"Mine{n}", (cls,), {"__module__": "somewhere.else"})
    value = cls(DATA["n"] if base is pd.Series else DATA)
    plain = base(DATA["n"] if base is pd.Series else DATA)
    assert library_of(value) == library_of(plain)
    assert (table_of(value) is None) == (base is pd.Series)
    assert preview(value) == preview(plain).replace(base.__name__, cls.__name__, 1)


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, arrow])
def test_a_table_with_rows_gives_them(make: Callable[[Any], Any]) -> None:
    table = table_of(make(DATA))
    assert table is not None
    assert (table.size, list(table.names)) == (2, ["city", "n"])
    assert table.records() == [{"city": "Rome", "n": 1}, {"city": "Bonn", "n": 2}]
    assert table.rows(slice(1, 2)) == [("Bonn", 2)]
    assert (table.column(1).kind, table.column(0).different()) == ("number", 2)


@pytest.mark.parametrize("make", [pl.LazyFrame, duck, dask])
def test_a_query_tells_its_columns_and_is_not_computed(make: Callable[[Any], Any]) -> None:
    query = make(DATA)
    table = table_of(query)
    assert table is not None
    assert (table.size, list(table.names)) == (None, ["city", "n"])
    for text in (card("data", query), preview(query), looked(query, "describe")):
        assert "city" in text
        assert "not computed" in text
        assert "Rome" not in text
    assert way_to_rows(query)


@pytest.mark.parametrize(
    "value", [3, "x", [1], {"a": 1}, None, object(), np.float64(1), io.StringIO()]
)
def test_anything_else_is_no_table(value: Any) -> None:
    assert table_of(value) is None
    assert column_of(value) is None
    assert not is_data(value)


# ── what gives its rows ───────────────────────────────────────────────────────────────────────────


class Rows:
    """Gives what it holds, one by one."""

    def __init__(self, items: Any) -> None:
        self.items = items

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)


class ByPlace(Rows):
    """Also by its place."""

    def __getitem__(self, place: int) -> Any:
        return self.items[place]


class ByName(Rows):
    """Gives the names of its parts."""

    def __getitem__(self, name: str) -> Any:
        return {each: [1, 2] for each in self.items}[name]


class Offered(Rows):
    """A table that offers itself to other libraries."""

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        raise NotImplementedError


class WithColumns(Rows):
    """A table whose columns are known only to the object."""

    def __init__(self, items: Any) -> None:
        super().__init__(items)
        self.columns = list(items)


TEXTS = st.lists(st.text(min_size=1), min_size=1, unique=True)


@given(TEXTS, st.sampled_from([ByName, Offered, WithColumns]))
def test_an_object_that_gives_the_names_of_its_columns_hides_its_rows(
    names: list[str], kind: Any
) -> None:
    assert hides_rows(kind(names))


@given(st.lists(st.text() | st.integers() | st.dictionaries(st.text(), st.integers())))
def test_an_object_that_gives_what_it_holds_does_not(items: list[Any]) -> None:
    for kind in (Rows, ByPlace, deque):
        assert not hides_rows(kind(items))


@pytest.mark.parametrize("frame", [pd.DataFrame(DATA), pl.DataFrame(DATA)])
def test_groups_of_a_table_are_no_rows(frame: Any) -> None:
    groups = frame.groupby("city") if isinstance(frame, pd.DataFrame) else frame.group_by("city")
    assert hides_rows(groups)


class Parts(Iterator[Any]):
    """A table that is read in parts, each of them a table."""

    def __init__(self, parts: list[Any]) -> None:
        self._parts = iter(parts)

    def __next__(self) -> Any:
        return next(self._parts)


class Reader(Parts):
    """One that offers itself to other libraries."""

    __arrow_c_stream__ = Offered.__arrow_c_stream__


def test_of_an_iterator_nothing_is_taken() -> None:
    for kind, hides in ((Parts, False), (Reader, True)):
        parts = kind([1, 2])
        assert hides_rows(parts) == hides
        assert list(parts) == [1, 2]


@pytest.mark.parametrize("kind", [Parts, Reader])
@pytest.mark.parametrize("frame", [pd.DataFrame, pl.DataFrame])
def test_the_parts_of_a_table_are_not_asked_about(kind: Any, frame: Any) -> None:
    model = ScriptedModel()
    with pytest.raises(ValueError, match="its rows"):
        Agent([], model=model).map(kind([frame(DATA), frame(DATA)]), "What is it?", store=None)
    assert not model.asked


def test_a_method_is_the_way_to_rows_only_if_it_needs_nothing() -> None:
    class NeedsText:
        def execute(self, sql: str) -> None: ...

    class NeedsNothing(NeedsText):
        def to_pandas(self, n: int = 3, *args: Any, **options: Any) -> None: ...

    class Dataset:
        def to_table(self) -> None: ...

    connection = sqlite3.connect(":memory:")
    ways = [way_to_rows(each) for each in (NeedsText(), NeedsNothing(), Dataset(), connection)]
    connection.close()
    assert ways == ["", ".to_pandas()", ".to_table()", ""]


# ── what is told ──────────────────────────────────────────────────────────────────────────────────

CELLS = st.one_of(
    st.lists(st.floats() | st.none(), min_size=1, max_size=20),
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=20),
    st.lists(st.integers(-(2**70), 2**70) | st.none(), min_size=1, max_size=20),
)
OPTIONS = st.sampled_from(
    [
        ("display.precision", 1),
        ("display.float_format", "{:,.0f}".format),
        ("display.max_rows", 1),
        ("display.max_columns", 1),
        ("display.max_colwidth", 3),
        ("display.width", 10),
        ("display.date_yearfirst", True),
    ]
)


def is_written(text: str, value: Any, tolerance: float) -> bool:
    """Whether a text is a number, without the error of its computation."""
    if value is None or value != value:
        return text == MISSING
    if isinstance(value, float):
        is_near = math.isclose(float(text), value, rel_tol=tolerance, abs_tol=0)
        return is_near and math.copysign(1, float(text)) == math.copysign(1, value)
    return int(text) == value


@given(CELLS, OPTIONS, st.integers(1, 8), st.sampled_from(["object", "own", "polars"]))
def test_a_number_is_written_with_its_digits_whatever_is_displayed(
    values: list[Any], option: tuple[str, Any], precision: int, library: str
) -> None:
    if library == "polars":
        is_big = any(isinstance(each, int) and abs(each) >= 2**63 for each in values)
        frame: Any = pl.DataFrame({"n": values}, strict=not is_big)
        values = frame["n"].to_list()
    else:
        frame = pd.DataFrame(
            {"n": pd.Series(values, dtype="object" if library == "object" else None)}
        )
        values = list(frame["n"].array)
    with pd.option_context(*option), np.printoptions(precision=precision, suppress=True):
        text = preview(frame)
    shown = rows_of(text)
    tolerance = 1e-5 if text.partition("\n")[0].endswith(", rounded") else 1e-11
    assert shown[0] == ["n"]
    pairs = zip(shown[1:], values, strict=True)
    assert all(is_written(written, value, tolerance) for [written], value in pairs)


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=1, max_size=100), OPTIONS
)
def test_a_range_can_be_read_back(values: list[float], option: tuple[str, Any]) -> None:
    with pd.option_context(*option):
        text = looked(pd.DataFrame({"n": values}), "describe")
    _, _, numbers = text.partition("min ")
    lowest, _, rest = numbers.partition(", max ")
    assert float(lowest) == min(values)
    assert float(rest.partition(", mean ")[0]) == max(values)


LABELS = st.lists(
    st.text(st.characters(codec="ascii", categories=["L", "N"]), min_size=1, max_size=8),
    min_size=1,
    max_size=15,
    unique=True,
)


@given(LABELS, st.none() | st.just("town"), st.integers(1, 3))
def test_an_index_is_told_with_name_type_and_values(
    labels: list[str], name: str | None, levels: int
) -> None:
    numbers = list(range(len(labels)))
    index = pd.Index(labels, name=name)
    if levels > 1:
        arrays = [labels, *[numbers] * (levels - 1)]
        index = pd.MultiIndex.from_arrays(arrays, names=[name, *"bc"[: levels - 1]])
    for value in (pd.DataFrame({"n": numbers}, index=index), pd.Series(numbers, index=index)):
        word = "index town" if name else "index" if levels == 1 else "index level_0"
        digest = card("data", value)
        assert digest.count("\n  index") == levels
        assert f"\n  {word}: " in digest
        for what in ("head", "describe"):
            told = looked(value, what)
            assert all(label in told for label in labels)
            assert word in told


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 3))
def test_an_index_that_only_counts_is_not_mentioned(start: int, size: int, step: int) -> None:
    rows = pd.RangeIndex(start, start + size * step, step)
    frame = pd.DataFrame({"n": [0.5] * size}, index=rows)
    for text in (card("data", frame), looked(frame, "head"), looked(frame, "describe")):
        assert "index" not in text


def test_what_the_columns_of_a_pivot_stand_for_is_told() -> None:
    sales = pd.DataFrame({"town": ["Rome", "Bonn"], "year": [2024, 2025], "sum": [1, 2]})
    pivot = sales.pivot_table(index="town", columns="year", values="sum")
    assert ", columns by year\n" in card("data", pivot)
    assert "columns by year\n" in preview(pivot)


def test_names_that_may_be_values_are_not_told_of_an_index() -> None:
    frame = pd.DataFrame({"n": [1]}, index=pd.Index(["a"], name="Smith"))
    frame.columns.name = "Jones"
    told = card("data", frame, values="none", hidden={"Smith", "Jones"})
    assert "Smith" not in told
    assert "Jones" not in told
    assert "index level_1" in told


MISSINGS = [
    pd.DataFrame({"a": [None, "x"]}),
    pd.DataFrame({"a": [np.nan, 1.0]}),
    pd.DataFrame({"a": [pd.NaT, pd.Timestamp("2024-01-01")]}),
    pd.DataFrame({"a": pd.array([None, 1], dtype="Int64")}),
    pd.DataFrame({"a": pd.Categorical([None, "x"])}),
    pl.DataFrame({"a": [None, "x"]}),
    pl.DataFrame({"a": [None, 1]}),
]


@pytest.mark.parametrize("frame", MISSINGS)
def test_a_missing_value_has_one_word(frame: Any) -> None:
    assert "1 missing" in looked(frame, "columns")
    assert rows_of(preview(frame))[1] == [MISSING]
    assert preview(frame["a"]).splitlines()[2] == MISSING
    assert f"{MISSING} 1×" in looked_at_values(frame)
    for word in ("null", "NaN", "NaT", "<NA>", "None"):
        assert word not in preview(frame) + looked(frame, "describe")


def looked_at_values(frame: Any) -> str:
    [_, look] = look_tools()
    return look.call({"name": "data.a", "what": "values"}, {"data": frame}).text


# ── what is loaded for it ─────────────────────────────────────────────────────────────────────────


def test_narwhals_is_loaded_for_a_table_that_it_reads_and_for_nothing_else() -> None:
    code = """
import datetime, sys
import numpy, pandas, pydantic
from archytas_nb import Agent
from archytas_nb.testing import ScriptedModel
class Model(pydantic.BaseModel):
    a: int = 1
class Own:
    dtype = "int"
names = {"frame": pandas.DataFrame({"a": [1]}), "model": Model(), "own": Own(),
         "array": numpy.ones(3), "day": datetime.date(2026, 1, 1), "text": "x", "parts": [1]}
model = ScriptedModel(("final_answer", "ok"), ("final_answer", "ok"))
agent = Agent([], model=model, namespace=names)
agent.run("What is in frame, model, own, array?", progress=False)
print("narwhals" in sys.modules)
import polars
names["other"] = polars.DataFrame({"city": ["Rome"]})
agent.run("What is in other?", progress=False)
print("narwhals" in sys.modules, "city" in str(model.asked[-1].messages))
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == ["False", "True True"]
