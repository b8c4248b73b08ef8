"""Objects of every type that a snapshot watches, and changes that never leave them as they were."""

from __future__ import annotations

import collections
import datetime as dt
import enum
import types
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from random import Random
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from archytas_nb.objects.equality import Summary, is_atom
from archytas_nb.undo.snapshot import kinds_of

Change = Callable[[Any, Random], Any]


def fingerprint(value: Any) -> Hashable:
    """A fingerprint that tells the content of an object, and of all inside it, from any other."""
    found: list[Hashable] = []
    todo, seen = [value], set[int]()
    while todo:
        each = todo.pop()
        if id(each) in seen:
            continue
        seen.add(id(each))
        for kind in kinds_of(each)[0]:
            parts = kind.read(each)
            frozen = map(_frozen_value, parts)
            found.append(frozenset(frozen) if isinstance(each, set) else tuple(frozen))
            todo += [inner for _, inner in kind.children(each, parts)]
    return tuple(found)


def _frozen_value(value: Any) -> Hashable:
    if isinstance(value, (Summary, str, bytes)):
        return value
    if isinstance(value, tuple):
        return tuple(map(_frozen_value, value))
    cls: Any = type(value)
    return (cls.__name__, repr(value)) if is_atom(cls) else id(value)


class Plain:
    def __init__(self) -> None:
        self.rate, self.steps, self.inner = 0.5, [1, 2, [3]], {"deep": [1]}


@dataclass(frozen=True)
class Frozen:
    rows: list[int] = field(default_factory=lambda: [1, 2, 3])
    label: str = "a"


class Masked(dict[Any, Any]):
    """Shows one of its keys only."""

    def __iter__(self) -> Any:
        return iter(["b"])

    def keys(self) -> Any:
        return ["b"]


def _planet() -> Any:
    class Planet(enum.Enum):
        EARTH = (5.97, [1])

        def __init__(self, mass: float, moons: list[Any]) -> None:
            self.mass, self.moons = mass, moons

    return Planet


class Bag(list[Any]):
    """A list with attributes of its own."""


def _flip(a: Any, r: Random) -> None:
    """Write one element past whatever stands in front of the memory."""
    i = r.randrange(len(a))
    a[i] = -7 - r.random()


def _unlock(a: Any, r: Random) -> None:
    a.flags.writeable = True
    _flip(a, r)


def _slice(a: Any, r: Random) -> None:
    a[r.randrange(4) :: 2] += r.randint(1, 9)


def _frame() -> Any:
    return pd.DataFrame(
        {
            "x": np.arange(8.0),
            "n": np.arange(8),
            "s": [*"abcdefgh"],
            "c": pd.Categorical([*"aabbccdd"]),
            "t": pd.date_range("2024", periods=8, tz="UTC"),
            "m": pd.array([1, 2, None, 4, 5, 6, 7, 8], dtype="Int64"),
            "b": [True, False] * 4,
            "o": [[i] for i in range(8)],
            "i": pd.interval_range(0, 8),
            "p": pd.period_range("2024", periods=8, freq="M"),
            "z": pd.arrays.SparseArray([0, 0, 1, 0, 0, 0, 0, 2]),
        }
    )


def nested() -> Any:
    """A polars table of nested columns."""
    columns = {
        "l": [[1, 2], None, []],
        "s": [{"a": 1, "b": "x"}, {"a": None, "b": "y"}, None],
        "a": pl.Series([[1, 2], [3, 4], [5, 6]], dtype=pl.Array(pl.Int64, 2)),
        "d": pl.Series(["1.5", "2", None]).cast(pl.Decimal(10, 2)),
        "o": [[{"q": [1]}], [], None],
    }
    return pl.DataFrame(columns)


def _set_name(d: Any, r: Random) -> None:
    d.index.name = f"n{r.random()}"


def _attr(name: str) -> Change:
    return lambda v, r: object.__setattr__(v, name, r.random())


LISTS: list[Change] = [
    lambda v, r: v.append(r.random()),
    lambda v, r: v.pop(),
    lambda v, r: v.insert(0, r.random()),
    lambda v, r: v.__setitem__(0, r.random()),
    lambda v, r: v.clear(),
    lambda v, r: v.reverse(),
    lambda v, r: v[-1].append(r.random()),
    lambda v, r: v.extend([None] * r.randint(1, 3)),
]
DICTS: list[Change] = [
    lambda v, r: v.__setitem__(r.random(), 1),
    lambda v, r: v.pop("a"),
    lambda v, r: v.__setitem__("a", r.random()),
    lambda v, r: v.__setitem__("a", True),  # it was 1
    lambda v, r: v.__setitem__("a", v.pop("a")),  # the order alone
    lambda v, r: v["b"].append(r.random()),
    lambda v, r: v.clear(),
    lambda v, r: v["b"][1].__setitem__("k", r.random()),
]
ARRAYS: list[Change] = [
    lambda v, r: v.__setitem__(r.randrange(len(v)), v.max() + 1 + r.randrange(9)),
    lambda v, r: v.sort() if r.random() < 0 else v.__setitem__(slice(None), v[::-1].copy()),
    lambda v, r: np.multiply(v, -3, out=v),
    _slice,
    lambda v, r: setattr(v, "shape", (2, -1)),
    lambda v, r: _slice(v.view(), r),
    lambda v, r: setattr(v.flags, "writeable", False),
]
FRAMES: list[Change] = [
    lambda v, r: v.__setitem__("new", r.random()),
    lambda v, r: v.__setitem__("x", v["x"] + 1),
    lambda v, r: v.__setitem__("x", v["x"].astype("float32")),
    lambda v, r: v.__delitem__("n"),
    lambda v, r: v.loc.__setitem__((r.randrange(8), "x"), -1.0 - r.random()),
    lambda v, r: v.iloc.__setitem__((r.randrange(8), 1), 100 + r.randrange(9)),
    lambda v, r: v.drop(index=r.randrange(8), inplace=True),
    lambda v, r: v.sort_values("x", ascending=False, inplace=True),
    lambda v, r: v.rename(columns={"x": "y"}, inplace=True),
    lambda v, r: setattr(v, "columns", [*"qwertyuiopa"]),
    lambda v, r: setattr(v, "index", range(r.randint(1, 9), v.index.stop + 10)[:8]),
    lambda v, r: v.reset_index(inplace=True),
    lambda v, r: v.insert(r.randrange(3), "in", 1),
    lambda v, r: v.pop("s"),
    lambda v, r: v.fillna({"m": 3}, inplace=True),
    _set_name,
    lambda v, r: v.attrs.__setitem__("source", r.random()),
    lambda v, r: setattr(v, "attrs", {"other": r.random()}),
    lambda v, r: v.loc.__setitem__(100 + r.randrange(9), v.iloc[0]),
    lambda v, r: v["o"].iloc[r.randrange(8)].append(1),
    lambda v, r: setattr(v.columns, "name", "field"),
    lambda v, r: v.flags.__setattr__("allows_duplicate_labels", False),
    lambda v, r: v.__setitem__("c", v["c"].cat.rename_categories([*"wxyz"])),
    lambda v, r: object.__setattr__(v, "note", r.random()),
    lambda v, r: setattr(v, "more", [r.random()]),
    # past copy-on-write
    lambda v, r: _unlock(v["x"].to_numpy(), r),
    lambda v, r: v["n"].array.__setitem__(r.randrange(8), -5),
    lambda v, r: v["s"].array.__setitem__(r.randrange(8), "changed"),
    lambda v, r: v["m"].array.__setitem__(r.randrange(8), 77),
    lambda v, r: v["c"].array.__setitem__(0, "d"),
    lambda v, r: v["t"].array.__setitem__(r.randrange(8), pd.Timestamp("1999", tz="UTC")),
    lambda v, r: v["m"].array._mask.__setitem__(0, True),
    lambda v, r: next(b for b in v._mgr.blocks if b.dtype == float).values.__setitem__(
        (0, 0), 55.5
    ),
]
SERIES: list[Change] = [
    lambda v, r: v.__setitem__(r.randrange(5), 50.0 + r.random()),
    lambda v, r: v.iloc.__setitem__(0, -1.0),
    lambda v, r: setattr(v, "name", f"n{r.random()}"),
    lambda v, r: setattr(v, "index", [*"vwxyz"]),
    lambda v, r: v.__setitem__("other", 1.0),
    lambda v, r: v.drop(2, inplace=True),
    lambda v, r: v.sort_values(ascending=False, inplace=True),
    lambda v, r: _unlock(v.to_numpy(), r),
    lambda v, r: v.__iadd__(1),
    lambda v, r: setattr(v, "note", r.random()),
    _set_name,
]
POLARS: list[Change] = [
    lambda v, r: v.__setitem__((r.randrange(3), "a"), 50 + r.randrange(9)),
    lambda v, r: v.insert_column(0, pl.Series("new", [1, 2, 3])),
    lambda v, r: v.replace_column(0, pl.Series("a", [9, 9, 9])),
    lambda v, r: v.drop_in_place("b"),
    lambda v, r: v.extend(v.clone()),
    lambda v, r: setattr(v, "columns", [*"xyzw"]),
    lambda v, r: v.__setitem__((1, "f"), None),
    lambda v, r: v.__setitem__((0, "f"), -0.0),
    lambda v, r: v.__setitem__((r.randrange(3), "b"), "changed"),
]
KINDS: dict[str, tuple[Callable[[], Any], list[Change]]] = {
    "list": (lambda: [1, "a", 2.5, [1]], LISTS),
    "list subclass": (lambda: Bag([1, "a", [1]]), [*LISTS, _attr("extra")]),
    "deque": (lambda: collections.deque([1, "a", [1]]), LISTS),
    "tuple": (lambda: (1, [2], {"k": [3]}), [
        lambda v, r: v[1].append(r.random()), lambda v, r: v[2]["k"].append(1), lambda v, r: v[2].clear()]),
    "dict": (lambda: {"a": 1, "b": [1, {}], 3: None}, DICTS),
    "defaultdict": (lambda: collections.defaultdict(list, {"a": 1, "b": [1, {}], 3: None}), [
        *DICTS, lambda v, r: v[r.random()]]),
    "OrderedDict": (lambda: collections.OrderedDict({"a": 1, "b": [1, {}], 3: None}), [
        *DICTS, lambda v, r: v.move_to_end("a")]),
    "dict with keys of its own": (lambda: Masked({"a": 1, "b": [1, {}], 3: None}), [
        lambda v, r: dict.__setitem__(v, "a", r.random()), lambda v, r: dict.__getitem__(v, "b").append(1)]),
    "Enum": (lambda: _planet().EARTH, [_attr("mass"), _attr("note"), lambda v, r: v.moons.append(r.random())]),
    "Counter": (lambda: collections.Counter("aabc"), [
        lambda v, r: v.update("a"), lambda v, r: v.subtract("b"), lambda v, r: v.clear()]),
    "set": (lambda: {1, "a", (2, 3)}, [
        lambda v, r: v.add(r.random()), lambda v, r: v.discard(1), lambda v, r: v.clear(),
        lambda v, r: (v.discard(1), v.add(True)), lambda v, r: v.symmetric_difference_update({1, 5})]),
    "object": (Plain, [
        _attr("rate"), _attr("other"), lambda v, r: delattr(v, "rate"), lambda v, r: v.steps[2].append(1),
        lambda v, r: v.inner["deep"].clear(), lambda v, r: vars(v).clear(), lambda v, r: setattr(v, "__class__", Other)]),
    "frozen dataclass": (Frozen, [_attr("label"), lambda v, r: v.rows.append(1), lambda v, r: v.rows.sort(reverse=True)]),
    "SimpleNamespace": (lambda: types.SimpleNamespace(a=1, b=[1]), [_attr("a"), lambda v, r: v.b.append(1)]),
    "numpy": (lambda: np.arange(8.0), [*ARRAYS, lambda v, r: v.resize(20, refcheck=False), lambda v, r: v.__setitem__(0, -0.0)]),
    "numpy view": (lambda: np.arange(32)[3:30:3][:8], [*ARRAYS[:4], lambda v, r: v.base.__iadd__(1)]),
    "numpy 2-D": (lambda: np.asfortranarray(np.arange(12.0).reshape(3, 4)), [
        lambda v, r: v.T.__iadd__(1), lambda v, r: v[:, 1].__setitem__(2, 99), lambda v, r: v[::-1].__imul__(-2)]),
    "numpy objects": (lambda: np.array([1, "a", [1], None], dtype=object), [
        lambda v, r: v.__setitem__(0, r.random()), lambda v, r: v[2].append(1), lambda v, r: v.__setitem__(2, [1])]),
    "numpy structured": (lambda: np.zeros(4, dtype=[("a", "i1"), ("b", "f8")]), [
        lambda v, r: v["b"].__setitem__(r.randrange(4), r.random()), lambda v, r: v["a"].__iadd__(1)]),
    "numpy strings": (lambda: np.array(["ab", "cd"]), [lambda v, r: v.__setitem__(0, "x"), lambda v, r: v.__setitem__(1, "ce")]),
    "numpy dates": (lambda: np.array(["2024-01-01", "NaT"], "M8[D]"), [lambda v, r: v.__setitem__(1, "2024-01-01")]),
    "pandas frame": (_frame, FRAMES),
    "pandas series": (lambda: pd.Series([1.0, 2.0, np.nan, 4.0, 5.0], name="s"), SERIES),
    "pandas multi-index": (
        lambda: pd.DataFrame({"v": [1, 2, 3]}, pd.MultiIndex.from_tuples([(1, "a"), (1, "b"), (2, "a")], names=["k", "l"])),
        [lambda v, r: setattr(v.index, "names", ["q", "r"]), lambda v, r: v.loc.__setitem__((1, "a"), 50),
         lambda v, r: v.sort_index(ascending=False, inplace=True), lambda v, r: v.reset_index("l", inplace=True)]),
    "polars frame": (lambda: pl.DataFrame({"a": [1, 2, 3], "b": [*"xyz"], "f": [0.0, 1.5, 2.5], "d": [dt.date(2024, 1, 1)] * 3}), POLARS),
    "polars nested": (nested, [
        lambda v, r: v.replace_column(0, pl.Series("l", [[1, 2], None, None])), lambda v, r: v.replace_column(1, v["s"].shift(1)),
        lambda v, r: v.replace_column(2, pl.Series("a", [[1, 2], [3, 4], [5, 7]], dtype=v["a"].dtype)),
        lambda v, r: v.replace_column(3, v["d"] + v["d"]), lambda v, r: v.replace_column(4, v["o"].reverse()), _attr("note")]),
    "polars series": (lambda: pl.Series("s", [1, 2, None]), [
        lambda v, r: v.__setitem__(0, 50 + r.randrange(9)), lambda v, r: v.append(pl.Series([4])), lambda v, r: v.__setitem__(1, None)]),
}  # fmt: skip


class Other:
    """A class for an object whose class is changed."""
