"""Cards of variables: what they tell is true, whatever the value is, and bounded in length."""

from __future__ import annotations

import copy
import dataclasses
import re
from collections import OrderedDict, deque
from typing import Any
from unittest.mock import patch

import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb.kernel.cards import Effort, card, card_of
from archytas_nb.kernel.mentions import columns_named, owners_named, place_of
from archytas_nb.loop.record import CardForm
from archytas_nb.loop.tokens import text_tokens
from archytas_nb.tools.headline import headline
from archytas_nb.words import runs

WORDS = st.sampled_from(["a", "b", "north", "two words", "1, 2", "x: y", ""])
VALUES: dict[str, st.SearchStrategy[Any]] = {
    "float64": st.one_of(st.none(), st.floats(-1e6, 1e6, width=32).map(lambda x: x + 0.0)),
    "int64": st.integers(-(2**40), 2**40),
    "str": st.one_of(st.none(), WORDS),
    "datetime64[us]": st.one_of(
        st.none(), st.datetimes(pd.Timestamp(1990, 1, 1), pd.Timestamp(2030, 1, 1))
    ),
    "category": st.one_of(st.none(), WORDS),
    "boolean": st.one_of(st.none(), st.booleans()),
}


@st.composite
def frames(draw: st.DrawFn) -> pd.DataFrame:
    rows = draw(st.integers(1, 12))
    kinds = draw(st.lists(st.sampled_from(sorted(VALUES)), min_size=1, max_size=6))
    columns = {
        f"column_{place}_{'abcdef'[place]}": pd.Series(
            draw(st.lists(VALUES[kind], min_size=rows, max_size=rows)), dtype=kind
        )
        for place, kind in enumerate(kinds)
    }
    return pd.DataFrame(columns)


def lines_of(text: str) -> dict[str, str]:
    """The facts of each column: columns of equal facts stand on one line."""
    found = {}
    for line in text.splitlines()[1:]:
        names, _, facts = line.strip().partition(": ")
        for name in names.split(", "):
            found[name] = facts
    return found


@given(frames())
def test_what_a_card_tells_of_a_column_is_true(frame: pd.DataFrame) -> None:
    text = card("df", frame)
    assert text.startswith(f"df: DataFrame {len(frame):,} × {frame.shape[1]}\n")
    told = lines_of(text)
    assert list(told) == list(frame.columns)
    for name, column in frame.items():
        facts = told[str(name)]
        assert facts.startswith(str(column.dtype))
        missing = int(column.isna().sum())
        if missing == len(column):
            assert facts.endswith(", all missing")
            continue
        found = re.search(r"(\d+) missing", facts)
        assert (0 if found is None else int(found[1])) == missing
        if column.dtype.kind in "fi":
            ends = re.search(r"(?:always |, )(~?)([-\d.e+]+)(?: to (~?)([-\d.e+]+))?$", facts)
            assert ends is not None, facts
            first, last = float(ends[2]), float(ends[4] or ends[2])
            assert first == pytest.approx(column.min(), rel=1e-5)
            assert last == pytest.approx(column.max(), rel=1e-5)
            assert ends[1] or first == column.min()
        elif column.dtype.kind != "M":
            assert "values: " in facts or f"{column.nunique()} different value" in facts
            for value in column.dropna().unique():
                assert str(value) in facts


@given(frames(), st.sampled_from(["none", "scalars", "strict"]))
def test_without_values_a_card_has_names_types_and_sizes_only(
    frame: pd.DataFrame, kept: Any
) -> None:
    text = card("df", frame, "", values=kept)
    types = {str(each).partition("[")[0] for each in frame.dtypes}
    assert set(lines_of(text)) == set(frame.columns)
    assert set(lines_of(text).values()) <= types


@given(frames())
@settings(max_examples=20)
def test_a_card_is_the_same_in_every_library_but_for_the_names_of_types(
    frame: pd.DataFrame,
) -> None:
    def facts(value: Any) -> list[str]:
        return [each.partition(",")[2] for each in lines_of(card("it", value)).values()]

    frame = frame[[each for each in frame if frame[each].dtype.kind in "fi"]]
    if frame.shape[1]:
        expected = [each.replace(" 00:00:00", "") for each in facts(frame)]
        assert facts(pl.from_pandas(frame)) == expected
        pa = pytest.importorskip("pyarrow")
        assert facts(pa.Table.from_pandas(frame, preserve_index=False)) == expected


def test_asking_for_a_card_changes_nothing() -> None:
    values: list[Any] = [
        pd.DataFrame({"a": [1, None], "b": [[1], {"x": 2}]}),
        {"a": [1, {"b": 2}], 3: (4,)},
        [{"a": 1}, {"b": None}],
        pl.DataFrame({"a": [1, None]}),
        np.arange(6.0).reshape(2, 3),
    ]
    for value in values:
        before = copy.deepcopy(value)
        card("it", value, "what is a?")
        assert repr(value) == repr(before)


def test_the_index_of_a_table_is_part_of_its_card() -> None:
    index = pd.MultiIndex.from_product([["north", "south"], [2023, 2024]], names=["region", "year"])
    frame = pd.DataFrame({"v": range(4)}, index=index)
    head, *rest = card("df", frame).splitlines()
    assert head == "df: DataFrame 4 × 1, index region, year"
    assert rest[0].strip().startswith("index region: ")
    assert rest[0].endswith(": north, south")
    assert rest[1].endswith("2023 to 2024")
    days = pd.Series([1.0], index=pd.DatetimeIndex(["2024-01-01"], name="day"))
    assert "index day" in headline(days)
    assert "2024-01-01" in card("s", days)
    assert "2024" not in card("s", days, values="none")


@pytest.mark.parametrize("rows", [10_000, 200_000, 200_001, 1_000_000])
def test_missing_values_are_counted_however_many_rows_there_are(rows: int) -> None:
    frame = pd.DataFrame({"x": np.full(rows, np.nan), "y": np.arange(rows)})
    frame.loc[: rows // 2 - 1, "y"] = np.nan
    told = lines_of(card("big", frame))
    assert told["x"] == "float64, all missing"
    assert f"{rows // 2:,} missing" in told["y"]


def test_missing_values_are_counted_once_where_the_card_becomes_too_long() -> None:
    values = [0.5, None] * 500
    frame = pd.DataFrame({f"{word}_of_the_column": values for word in "abcdefghijklmnopqrstuvwxyz"})
    just_enough = (frame.size, 10**9, 10**9)
    with patch.object(Effort.__init__, "__defaults__", just_enough):
        text = card("big", frame, form=CardForm(tokens=150))
    assert "500 missing" in text
    assert "not counted" not in text


def test_what_is_not_counted_says_so() -> None:
    rows = 2_500_000
    frame = pd.DataFrame({"x": pd.Series([None, "a"] * (rows // 2), dtype=object)})
    told = lines_of(card("big", frame))["x"]
    assert "missing not counted" in told
    assert "in the first" in told


@given(
    st.lists(st.sampled_from(["int64", "float64", "str"]), max_size=400),
    st.sampled_from(["c{}", "name of column {} in words", "{}_x", "n{:03}"]),
    st.integers(100, 800),
)
@settings(max_examples=25)
def test_the_length_of_a_card_is_bounded_and_a_column_that_is_named_is_in_it(
    kinds: list[str], name: str, tokens: int
) -> None:
    labels = [name.format(place) for place in range(len(kinds))]
    data = {label: pd.Series([1], dtype=kind) for label, kind in zip(labels, kinds, strict=True)}
    asked = labels[len(labels) // 2] if labels else ""
    form = CardForm(tokens=tokens)
    found = card_of("wide", pd.DataFrame(data), f"What is `{asked}`?", form=form)
    assert text_tokens(found.text) <= 2 * tokens
    assert not labels or f"\n  {asked}" in found.text or asked in found.columns
    assert set(found.columns) <= set(labels)


def test_a_wide_table_is_told_by_types_and_in_full_where_the_question_names_a_column() -> None:
    frame = pd.DataFrame(np.arange(1500.0).reshape(3, 500), columns=[f"c{n}" for n in range(500)])
    frame["region"] = ["a", "b", "a"]
    text = card("wide", frame, "What is the mean of c17 for each region?")
    assert text.splitlines()[1:] == [
        "  c17: float64, 17.0 to 1017.0",
        "  region: str, values: a, b",
        "  c0 … c16, c18 … c499: float64",
    ]


@dataclasses.dataclass
class Settings:
    alpha: float
    layers: list[int]


class Step:
    def __init__(self, **given: Any) -> None:
        self.__dict__.update(given)


class Chain(Step):
    pass


class Loud(dict[str, Any]):
    def __iter__(self) -> Any:
        raise RuntimeError("no")

    def __len__(self) -> int:
        raise RuntimeError("no")


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (0.5, "float"),
        ("x" * 5000, "str of 5,000 characters"),
        ([{"a": 1}] * 60, "list[60 dict]"),
        ([1, "a"], "list[2 int or str]"),
        ((), "tuple[0]"),
        ({"alpha": 1, "layers": []}, "dict(alpha, layers)"),
        ({n: str(n) for n in range(812)}, "dict[812 int: str]"),
        (OrderedDict(a=1), "OrderedDict(a)"),
        (deque([1]), "deque[1 int]"),
        (Loud(a=1), "Loud(a)"),
        (np.zeros((1000, 384), "float32"), "ndarray 1,000 × 384 float32"),
        (pd.Series([1.0], name="x"), "Series 1 float64"),
        (pl.DataFrame({"a": [1]}).lazy(), "LazyFrame of 1 column, a query whose rows are not computed"),
        (Chain(steps=[("a", Step(x=1)), ("b", Chain(y=2))]), "Chain of Step, Chain"),
        (Chain(parts={"a": Step(x=1)}), "Chain of Step"),
        (Chain(steps=[Step(x=1)] * 100), "Chain of Step × 100"),
        (Settings(0.5, [1]), "Settings"),
    ],
)  # fmt: skip
def test_a_headline_names_the_type_the_size_and_the_parts(value: Any, told: str) -> None:
    assert headline(value) == told
    assert card("it", value).startswith("it: ")
    bare = headline(value, hidden=())
    assert not {"alpha", "layers", "Step"} & set(re.findall(r"\w+", bare))


def test_a_card_has_keys_and_the_types_of_items_but_no_secret() -> None:
    told = card("cfg", {"alpha": 0.1, "layers": [1], "api_key": "hunter2", "db_password": 12345})
    assert told.splitlines()[1:] == [
        "  alpha: float = 0.1",
        "  layers: list[1 int]",
        "  api_key: str",
        "  db_password: int",
    ]
    people = card("people", [{"name": "x", "age": 3}, {"name": None}])
    assert "  name: str or NoneType\n  age: int, in 1 of 2" in people
    frame = pd.DataFrame({"password": ["hunter2", "hunter2"], "user": ["a", "b"]})
    assert "hunter2" not in card("df", frame)
    masked = card_of(
        "s", pd.Series(["hunter2"] * 3), mask=lambda text: text.replace("hunter2", "…")
    )
    assert "hunter2" not in masked.text


def test_for_code_names_and_texts_are_quoted_and_examples_given() -> None:
    frame = pd.DataFrame({"Date Egg": [f"{n}/11/07" for n in range(30)], "sex": ["m", "f"] * 15})
    assert card("df", frame, form=CardForm(for_code=True)).splitlines()[1:] == [
        "  'Date Egg': str, 30 different values, such as '0/11/07', '1/11/07'",
        "  'sex': str, values: 'm', 'f'",
    ]
    without = CardForm(for_code=True, has_values=False)
    assert "11/07" not in card("df", frame, form=without)


def test_the_card_of_a_huge_value_is_short() -> None:
    for value in ("x" * 50_000_000, [1] * 5_000_000, dict.fromkeys(range(1_000_000))):
        assert len(card("it", value)) < 400


# ── mentions ──────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("name", "question", "is_named"),
    [
        ("g", "What does 5100 g weigh?", False),
        ("a", "Is it a good value?", False),
        ("kg", "Is 5 kg much?", False),
        ("a", "How long is `a`?", True),
        ("a", "How long is a?", True),
        ("x", "Plot x, please", True),
        ("df", "Describe df", True),
        ("df", "Describe df2", False),
        ("cars", "The top 5 cars", True),
    ],
)
def test_a_variable_is_named_as_a_word_that_is_none_of_the_sentence(
    name: str, question: str, *, is_named: bool
) -> None:
    assert (place_of(name, question) >= 0) is is_named


def test_a_column_is_named_in_words_or_as_it_is_written() -> None:
    columns = ["Miles_per_Gallon", "Name", "g", "x", "Body Mass (g)"]
    assert columns_named(columns, "the mean of Miles_per_Gallon") == [0]
    assert columns_named(columns, "which car has the most miles per gallon") == [0]
    assert columns_named(columns, "5100 g, x") == []
    assert columns_named(columns, "mean of `x`") == [3]
    assert columns_named(columns, "body mass (g) by name") == [1, 4]
    both = {"raw": ["mass"], "clean": ["mass"]}
    assert [owner for owner, _ in owners_named(both, "the mean mass")] == ["raw", "clean"]
    assert list(owners_named(both, "the mean mass in clean", {"clean"})) == []
    tables = {"cars": ["Miles_per_Gallon", "Name"], "a": ["Name"], "b": ["Name"]}
    assert [owner for owner, _ in owners_named(tables, "name and miles per gallon")] == ["cars"]


def expanded(written: list[str]) -> list[str]:
    """The names for which runs stand."""
    found: list[str] = []
    for each in written:
        begin, dots, last = each.partition(" … ")
        if not dots:
            found.append(each)
            continue
        first, _, second = begin.partition(", ")
        old, new = (re.split(r"(\d+)", name) for name in (first, last))
        [place] = [n for n, part in enumerate(old) if part != new[n]]
        by = int(re.split(r"(\d+)", second)[place]) - int(old[place]) if second else 1
        for number in range(int(old[place]), int(new[place]) + 1, by):
            parts = [*old[:place], f"{number:0{len(old[place])}}", *old[place + 1 :]]
            found.append("".join(parts))
    return found


@given(
    st.lists(
        st.one_of(
            st.integers(0, 120).map("a{}".format),
            st.integers(0, 40).map("{:03}_of_7".format),
            st.text("ab01٣", max_size=3),
        ),
        unique=True,
    )
)
def test_runs_of_numbered_names_stand_for_exactly_these_names(names: list[str]) -> None:
    assert expanded(runs(names)) == names
    assert expanded(runs(sorted(names))) == sorted(names)
    numbered = [f"x{n}_y" for n in range(0, 60, 7)]
    assert runs(numbered) == ["x0_y, x7_y … x56_y"]
    assert runs(["a1", "a2", "a3", "b", "c9", "c10", "c11"]) == ["a1 … a3", "b", "c9 … c11"]


def test_a_column_that_narwhals_reads_is_told_with_its_missing_values() -> None:
    frame = narwhals.from_native(pl.DataFrame({"a": [1, None], "b": ["x", None]})).to_native()
    assert lines_of(card("it", frame)) == {
        "a": "Int64, 1 missing, always 1",
        "b": "String, 1 missing, values: x",
    }
