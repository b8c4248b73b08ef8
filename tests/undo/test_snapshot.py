"""A snapshot sees changes, and restores the old content of the same objects."""

from __future__ import annotations

import enum
import random
import re
import types
import warnings
from collections import OrderedDict
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from archytas_nb.loop.events import NotCovered
from archytas_nb.objects.equality import same_value
from archytas_nb.undo import snapshot as snapshot_module
from archytas_nb.undo.snapshot import Snapshot, restore
from tests.undo.live_objects import KINDS, Bag, fingerprint

CASES = [(kind, i) for kind, (_, changes) in KINDS.items() for i in range(len(changes))]
SHARED = ("to_numpy", "array", "_mgr")


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    """pandas and numpy warn of what they will do otherwise in their next release."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def check(kind: str, number: int, seed: int) -> None:
    make, changes = KINDS[kind]
    value = make()
    alias = [value]
    before = fingerprint(value)
    snapshot = Snapshot({"v": value, "alias": alias})
    assert list(snapshot.changed()) == []
    changes[number](value, random.Random(seed))
    found = list(snapshot.changed())
    assert found, "the change was not seen"
    assert fingerprint(value) != before
    assert restore(record for record, *_ in found) == []
    assert fingerprint(value) == before
    assert alias[0] is value
    assert list(snapshot.changed()) == []
    changes[number](
        value, random.Random(seed)
    )  # what was put back does not share memory with what is kept
    assert restore(record for record, *_ in snapshot.changed()) == []
    assert fingerprint(value) == before


@pytest.mark.parametrize(("kind", "number"), CASES)
def test_detects_and_restores_each_change(kind: str, number: int) -> None:
    check(kind, number, seed=number)


@pytest.mark.slow
def test_detects_a_thousand_changes() -> None:
    for seed in range(1000 // len(CASES) + 1):
        for kind, number in CASES:
            check(kind, number, seed)


# ── reading is no change ──────────────────────────────────────────────────────────────────────────

FRAME = """
df.groupby("s")["x"].mean() · df.merge(df, on="n") · df.sort_values("x") · df.describe() · df.to_numpy() · df.iloc[2:4]
df.query("x > 2") · df["s"].value_counts() · df.pivot_table(index="s", values="x") · df.set_index("t").resample("D")["x"].sum()
df.isna().sum() · df["x"].rolling(2).mean() · df.melt(id_vars="s", value_vars=["x"]) · df.T · repr(df) · df.to_dict() · df.corr(numeric_only=True)
df.drop(columns="x") · df.fillna({"m": 0}) · df.apply(lambda c: c) · df["c"].cat.codes · df["t"].dt.year · df["s"].str.upper() · df.memory_usage(deep=True)
df.info(buf=io.StringIO()) · df.copy() · df.loc[df["x"] > 1, "s"] · df.sample(3, random_state=1) · df.nlargest(2, "x") · [*df.itertuples()] · df.to_csv() · df.index.is_unique, df.index.get_loc(3)
df._repr_html_() · df.values · df.attrs · df.eval("x + n") · df.dtypes
""".replace("\n", " · ").strip(" ·").split(" · ")  # fmt: skip
ARRAY = """
a.sum() · a.T @ a · np.sort(a) · a.reshape(-1) · a[::2] · np.linalg.svd(a) · a.tolist() · a.astype(int) · repr(a) · np.percentile(a, 50) · a.copy() · np.concatenate([a, a])
""".strip().split(" · ")
POLARS = """
p.group_by("b").agg(pl.col("a").sum()) · p.sort("a") · p.filter(pl.col("a") > 1) · p.join(p, on="a") · p.describe() · p.select("a").to_numpy() · p["a"].to_list() · p.lazy().collect()
p.select(pl.col("f") * 2) · p.with_columns(z=pl.lit(1)) · p.to_dicts() · repr(p) · p["b"].value_counts() · p.pivot("b", index="d", values="a") · p.rechunk() · p.write_csv()
""".replace("\n", " · ").strip(" ·").split(" · ")  # fmt: skip
READS = [*FRAME, *ARRAY, *POLARS]


def test_reading_is_not_a_change() -> None:
    import io

    frame = KINDS["pandas frame"][0]()
    values = {
        "df": frame.drop(columns=["o", "i", "p", "z"]),
        "large": pd.DataFrame(np.ones((400_000, 3)), columns=[*"xyz"]),  # kept by copy-on-write
        "a": np.asfortranarray(np.random.default_rng(1).random((4, 3))),
        "p": KINDS["polars frame"][0](),
    }
    names = {**values, "np": np, "pl": pl, "io": io}
    false = []
    snapshot = Snapshot(values)
    for code in [*READS, "large.describe()", "large.sort_values('x')", "large.groupby('x').sum()"]:
        eval(code, names)
        false += [(code, record.name, words) for record, _, words in snapshot.changed()]
    assert not false
    assert len(READS) >= 50


def test_distinguishes_equal_values_by_type_and_sign() -> None:
    nan = float("nan")
    pairs = [
        (1, True),
        (1, 1.0),
        (0.0, -0.0),
        (re.compile("a" * 300), re.compile("a" * 300 + "b")),
        ((1, 2), (1, True)),
    ]
    assert not any(same_value(*pair) for pair in [*pairs, (np.float32(1), np.float64(1)), ([], [])])
    same = [
        (nan, nan * 2),
        (10**30, 10**30),
        ((1, "a"), (1, "a")),
        (pd.Timestamp(5), pd.Timestamp(5)),
        (np.float64("nan"), np.float64("nan")),
    ]
    assert all(same_value(*pair) for pair in same)


def test_replacing_an_element_or_key_by_an_equal_one_is_not_a_change() -> None:
    one, other = {5, "a"}, {np.int64(5): 1, "a": 10**30}
    snapshot = Snapshot({"one": one, "other": other})
    one.remove(5)
    one.add(5)
    other["a"] = 10**30
    assert list(snapshot.changed()) == []


def test_attributes_may_have_any_name_and_value() -> None:
    value = types.SimpleNamespace(rows=np.zeros(3), index=1)
    snapshot = Snapshot({"v": value})
    value.rows, value.index = np.ones(3), 2
    ((record, _, words),) = snapshot.changed()
    assert words == [".rows: values", ".index: 1 → 2"]
    assert restore([record]) == []


# ── limits ────────────────────────────────────────────────────────────────────────────────────────


copy_on_write = pytest.mark.skipif(
    int(pd.__version__.partition(".")[0]) < 3, reason="pandas 2 copies"
)


@copy_on_write
def test_a_large_table_is_kept_without_a_copy() -> None:
    frame = pd.DataFrame(np.zeros((400_000, 4)))
    snapshot = Snapshot({"f": frame})
    assert sum(each.size for each in snapshot.records) == 0
    frame.loc[5, 2] = 1.0
    before = fingerprint(frame)
    assert restore(record for record, *_ in snapshot.changed()) == []
    assert fingerprint(frame) != before
    assert frame.loc[5, 2] == 0


@copy_on_write
def test_a_write_that_bypasses_copy_on_write_of_a_large_table_is_reported() -> None:
    frame = pd.DataFrame(np.zeros((400_000, 4)))
    snapshot = Snapshot({"f": frame})
    frame[2].array[7] = 5.0
    ((record, _, words),) = snapshot.changed()
    assert words == ["column 2: values"]
    assert [note.name for note in restore([record])] == ["f"]


def test_objects_too_large_to_copy_are_listed_at_once_and_their_changes_are_detected() -> None:
    values = np.zeros(1000)
    snapshot = Snapshot({"a": np.zeros(10), "v": values}, budget=1000)
    assert [note.name for note in snapshot.not_kept] == ["v"]
    values[3] = 1
    ((record, *_),) = snapshot.changed()
    assert [note.name for note in restore([record])] == ["v"]


def test_reports_that_very_many_objects_are_compared_by_identity(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(snapshot_module, "OBJECTS", 100)
    many = [[] for _ in range(101)]
    values = {
        "f": pd.DataFrame({"o": many, "s": ["text"] * 101}),
        "after": [{"k": [1]}],
        "l": many,
        "d": {i: {"k": i} for i in range(101)},
        "text": pd.DataFrame({"s": np.array(["text"] * 200, dtype=object)}),
    }
    snapshot = Snapshot(values)
    assert [note.name for note in snapshot.not_watched] == ["f", "l", "d"]
    values["after"][0]["k"].append(2)
    assert [each.name for each, *_ in snapshot.changed()] == ["after[0]['k']"]


def test_an_object_that_cannot_be_read_is_not_watched() -> None:
    class Broken(dict[str, int]):
        @property
        def __class__(self) -> Any:
            raise RuntimeError

    class Raising(np.ndarray):
        @property
        def strides(self) -> Any:
            raise self.kind

    for kind in (RuntimeError, GeneratorExit, type("Panic", (BaseException,), {})):
        raising = np.zeros(3).view(type("Raising", (Raising,), {"kind": kind}))
        (note,) = Snapshot({"r": raising}).not_watched
        assert note == NotCovered("r", f"reading it raised {kind.__name__}")
    for kind in (KeyboardInterrupt, SystemExit):
        raising = np.zeros(3).view(type("Raising", (Raising,), {"kind": kind}))
        with pytest.raises(kind):
            Snapshot({"r": raising})


@pytest.mark.parametrize("name", ["__doc__", "__name__", "__qualname__", "__module__", "__code__"])
def test_what_a_function_says_of_itself_is_watched_and_restored(name: str) -> None:
    def one(x: int) -> int:
        """Double."""
        return 2 * x

    def other(x: int) -> int:
        return 3 * x

    before = getattr(one, name)
    snapshot = Snapshot({"one": one})
    setattr(one, name, other.__code__ if name == "__code__" else "changed")
    [(record, _, words)] = snapshot.changed()
    assert (record.name, len(words), name in words[0]) == ("one", 1, True)
    assert restore([record]) == []
    assert getattr(one, name) == before
    assert list(snapshot.changed()) == []


def test_annotations_and_names_of_classes_are_not_watched() -> None:
    class One:
        x: int = 0

    def one(x: int) -> int:
        return x

    snapshot = Snapshot({"One": One, "one": one})
    One.__annotations__["x"] = str
    One.__name__ = "Other"
    one.__annotations__["x"] = str
    assert list(snapshot.changed()) == []


def test_the_docstring_of_a_class_is_watched_and_restored() -> None:
    class One:
        """Before."""

    snapshot = Snapshot({"One": One})
    One.__doc__ = "After."
    [(record, _, _)] = snapshot.changed()
    assert restore([record]) == []
    assert One.__doc__ == "Before."


@pytest.mark.parametrize("kind", [dict, OrderedDict, list, set])
def test_what_a_container_says_of_its_class_does_not_matter(kind: Any) -> None:
    def refuse(*_: Any) -> Any:
        raise SystemExit

    shy = type("Shy", (kind,), {"__getattribute__": refuse})()
    value = {"a": 1} if kind in (dict, OrderedDict) else [1]
    kind.update(shy, value) if kind is not list else kind.extend(shy, value)
    snapshot = Snapshot({"shy": shy})
    kind.clear(shy)
    [(change, *_)] = snapshot.changed()
    assert change.name == "shy"


def test_other_state_of_a_subclass_is_listed_as_not_watched() -> None:
    class Slotted(list[int]):
        __slots__ = ("extra",)

    class Frame(pd.DataFrame):
        pass

    masked = np.ma.masked_array([1, 2], [0, 1])
    structured = np.zeros(2, dtype=[("a", object)])
    values = {
        "m": masked, "s": Slotted(), "f": Frame(), "bag": Bag(), "df": pd.DataFrame(), "a": structured,
        "p": pl.DataFrame({"o": pl.Series([object()], dtype=pl.Object)}), "row": structured[0],
        "n": types.SimpleNamespace(a=[1]),
    }  # fmt: skip
    assert [note.name for note in Snapshot(values).not_watched] == ["m", "p", "row"]


def test_members_of_an_enum_are_watched() -> None:
    class Plain(enum.Enum):
        A = 1

    class Number(enum.IntEnum):
        A = 1

        def __init__(self, _: int) -> None:
            self.note = "x"

    snapshot = Snapshot({"plain": Plain.A, "number": Number.A, "names": [Plain.A, 2]})
    assert snapshot.not_watched == []
    Plain.A.note = 1
    Number.A.note = "y"
    found = list(snapshot.changed())
    assert [each.name for each, *_ in found] == ["plain", "number"]
    assert restore(each for each, *_ in found) == []
    assert (hasattr(Plain.A, "note"), Number.A.note) == (False, "x")


def test_a_renaming_of_shared_categories_is_detected_and_reported_as_not_restored() -> None:
    series = pd.Series(pd.Categorical(["a", "b"]))
    snapshot = Snapshot({"series": series})
    series.cat.categories.name = "label"
    ((record, _, words),) = snapshot.changed()
    assert words == ["values: values"]
    assert [str(note) for note in restore([record])] == ["series (still changed: values: values)"]


def test_an_array_is_restored_whatever_its_dtype_and_its_base() -> None:
    cast, strided = np.arange(4), np.lib.stride_tricks.as_strided(np.zeros(4), (3, 2), (8, 8))
    snapshot = Snapshot({"c": cast, "s": strided})
    cast.dtype = "i4"
    strided[0, 1] = 5
    assert restore(record for record, *_ in snapshot.changed()) == []
    assert (cast.tolist(), strided.sum()) == ([0, 1, 2, 3], 0)


def test_a_change_of_the_types_of_labels_is_detected() -> None:
    dates = pd.Series([1, 2], pd.date_range("2024", periods=2))
    frame = pd.DataFrame([[1]], columns=pd.Index([5], dtype="int32"))
    snapshot = Snapshot({"s": dates, "f": frame})
    dates.index.freq = None
    frame.columns = frame.columns.astype("int64")
    found = [words for *_, words in snapshot.changed()]
    assert found == [["index: values"], ["columns: values"]]


def test_attributes_besides_the_columns_are_watched_and_restored() -> None:
    class Geo(pd.DataFrame):
        _metadata = ["crs"]  # noqa: RUF012

    frame, geo = pd.DataFrame({"x": [1], "s": ["a"]}), Geo({"x": [1]})
    frame.note, geo.crs = [1], "old"
    _ = frame["s"].str, frame.attrs
    snapshot = Snapshot({"f": frame, "g": geo})
    assert list(snapshot.changed()) == []
    frame.note.append(2)
    frame.other, geo.crs = 5, "new"
    found = list(snapshot.changed())
    assert [(each.name, *words) for each, _, words in found] == [
        ("f", ".other added"),
        ("f.note", "1 → 2 elements"),
        ("g", ".crs: values"),
    ]
    assert restore(each for each, *_ in found) == []
    assert (frame.note, hasattr(frame, "other"), geo.crs) == ([1], False, "old")


def test_objects_in_sets_and_many_lists_are_watched_one_by_one() -> None:
    held = types.SimpleNamespace
    one = Hashable()
    values = {
        "s": {one, 1},
        "d": {i: [i] for i in range(50)},
        "twice": [[1]] * 2,
        "o": held(a=[[2]]),
    }
    snapshot = Snapshot(values)
    assert list(snapshot.changed()) == []
    one.rows = 2
    values["d"][7].append(1)
    values["d"][9][0] = True
    values["twice"][1].clear()
    values["o"].a[0][0] = 2.0
    found = list(snapshot.changed())
    assert [each.name for each, *_ in found] == [
        "s{Hashable}", "d[7]", "d[9]", "twice[0]", "o.a[0]",
    ]  # fmt: skip
    assert restore(each for each, *_ in found) == []
    assert (one.rows, values["d"][7], values["d"][9], values["twice"]) == (1, [7], [9], [[1], [1]])
    values["d"][7].append(values["d"][8].pop(0))  # the elements of all lists are in the same order
    assert [each.name for each, *_ in snapshot.changed()] == ["d[7]", "d[8]"]


class Hashable:
    """An object in a set."""

    rows = 1

    def __init__(self) -> None:
        self.rows = 1


def test_columns_and_labels_may_have_any_name() -> None:
    names = ["_df", "columns", "flags", "_s", "rows", "dtype", "x", "x"]
    values = {
        "f": pd.DataFrame([range(8)], columns=names),
        "s": pd.Series(range(8), names),
        "p": pl.DataFrame({name: [1] for name in names}),
    }
    snapshot = Snapshot(values)
    values["f"].iloc[0, 7] = 9
    values["s"].iloc[1] = 9
    values["p"][0, "_s"] = 9
    values["f"].note = np.zeros(2)
    del values["f"]["rows"]
    found = list(snapshot.changed())
    assert [each.name for each, *_ in found] == ["f", "s", "p"]
    assert restore(each for each, *_ in found) == []


def test_handles_cycles() -> None:
    loop: list[Any] = [1]
    loop.append(loop)
    snapshot = Snapshot({"loop": loop})
    loop.pop()
    assert restore(record for record, *_ in snapshot.changed()) == []
    assert loop[1] is loop


def test_hashes_do_not_depend_on_the_layout() -> None:
    rows = np.arange(3_000_000.0).reshape(-1, 3)
    by_row, by_column = (
        pd.DataFrame(rows, copy=False),
        pd.DataFrame(np.asfortranarray(rows), copy=False),
    )
    one, other = (Snapshot({"f": each}).records[0].parts for each in (by_row, by_column))
    assert one == other
    assert len({each.digest for each in one if str(each).startswith("Summary(text='float")}) == 3
