"""Paths into variables: each leads where Python would, and none runs code of the user."""

from __future__ import annotations

import collections
import dataclasses
import os
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb import Agent
from archytas_nb.testing import ScriptedModel
from archytas_nb.tools.paths import NoPartError, find, parsed, parts_of
from archytas_nb.tools.variables import part_of, resolve, user_names

Point = collections.namedtuple("Point", "x y")  # noqa: PYI024 - as users write it


@dataclasses.dataclass
class Config:
    """A record of the user."""

    rate: Any
    parts: Any


@dataclasses.dataclass(slots=True)
class Slotted:
    """The same without a dictionary."""

    rate: Any


_NAMES = st.sampled_from(["a", "b", "my col", "x.y", "class", "Öl", "2", 'quo"te', "index"])
_LEAVES = st.one_of(
    st.integers(), st.text(max_size=3), st.just(np.arange(6).reshape(2, 3)), st.just(pd.Series([1]))
)


def _frames() -> st.SearchStrategy[Any]:
    columns = st.lists(_NAMES, min_size=1, max_size=3, unique=True)
    makers = st.sampled_from([pd.DataFrame, pl.DataFrame])
    return st.builds(lambda names, make: make({name: [1, 2] for name in names}), columns, makers)


def _holding(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        st.lists(inner, min_size=1, max_size=3),
        st.lists(inner, min_size=1, max_size=3).map(tuple),
        st.dictionaries(st.one_of(_NAMES, st.integers(0, 5)), inner, min_size=1, max_size=3),
        st.builds(Point, inner, inner),
        st.builds(Config, inner, inner),
        st.builds(Slotted, inner),
        inner.map(lambda each: SimpleNamespace(a=each)),
        inner.map(lambda each: collections.OrderedDict(b=each)),
    )


_VALUES = st.recursive(st.one_of(_frames(), _LEAVES), _holding, max_leaves=8)


def _ends(value: Any) -> list[str]:
    """Some steps that Python can take from a value."""
    if isinstance(value, (Config, SimpleNamespace)):
        return [f".{name}" for name in vars(value)]
    if isinstance(value, Slotted):
        return [".rate"]
    if isinstance(value, Point):
        return [".x", "[1]"]
    if isinstance(value, np.ndarray) and value.ndim == 2:
        return ["[0]", "[1, 2]"]
    return [end for end, _ in parts_of(value)]


@given(_VALUES, st.data())
def test_a_path_leads_where_python_does(value: Any, data: st.DataObject) -> None:
    source = "v"
    for _ in range(4):
        ends = _ends(eval(source, {"v": value}))
        if not ends:
            break
        source += data.draw(st.sampled_from(ends))
    found = find(source, {"v": value})
    assert found is not None
    expected = eval(source, {"v": value})
    written = eval(found.source, {"v": value})
    for each in (found.value, written):
        assert type(each) is type(expected)
        assert each is expected or str(each) == str(expected)
    assert found.root == "v"


class Trap:
    """Every way into it is code of the user."""

    ran: list[str] = []  # noqa: RUF012 - all traps share it
    limit = 3

    @property
    def size(self) -> int:
        """Computed."""
        self.ran.append("size")
        return 1

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("__"):  # what libraries look for
            self.ran.append(name)
        raise AttributeError(name)

    def __getitem__(self, key: Any) -> Any:
        self.ran.append("item")
        return key


class Growing(dict[str, Any]):
    """A dictionary that computes what it lacks."""

    def __missing__(self, key: str) -> Any:
        Trap.ran.append("missing")
        self[key] = 1
        return 1


@pytest.mark.parametrize(
    "path", ["t.size", "t.other", "t[0]", 't["a"]', 'g["a"]', "t[0].x", 'd["new"]', "t.__class__"]
)
def test_no_code_of_the_user_is_run(path: str) -> None:
    Trap.ran.clear()
    namespace = {"t": Trap(), "g": Growing(), "d": collections.defaultdict(list)}
    with pytest.raises(NoPartError):
        find(path, namespace)
    assert not Trap.ran
    assert not namespace["g"]
    assert not namespace["d"]


def test_what_a_class_stores_is_read() -> None:
    found = find("t.limit", {"t": Trap()})
    assert found is not None
    assert found.value == 3


@pytest.mark.parametrize(
    "path", ['cfg["api_key"]', "cfg.password", 'env["HOME"]', "cfg._inner", 'cfg["a"]["token"]']
)
def test_secrets_and_the_environment_are_not_read(path: str) -> None:
    record = {"api_key": "s", "password": "s", "a": {"token": "s"}, "_inner": 1}
    namespace = {"cfg": record, "env": os.environ}
    with pytest.raises(NoPartError, match="is not read"):
        part_of(path, namespace)


@pytest.mark.parametrize("root", ["_x", "In", "get_ipython"])
def test_a_path_begins_with_a_variable_of_the_user(root: str) -> None:
    with pytest.raises(NoPartError, match="is not passed"):
        part_of(f"{root}[0]", {root: [1]})


@given(st.one_of(st.text(max_size=30), st.sampled_from(
    ["df[df.w > 1]", "df.head(1)", "(lambda: 1)()", "[df][0]", "df[f'{df}']", "df[x]", "df[1:2]",
     "df if df else df", "df[", "df.", ".df", "df..w", "df[[]]", "9" * 5000, "(" * 500, "df\x00"]
)))  # fmt: skip
def test_any_other_text_is_no_path(text: str) -> None:
    path = parsed(text)
    namespace = {"df": pd.DataFrame({"w": [1]})}
    if path is None:
        assert find(text, namespace) is None
    else:
        assert path[0].isidentifier()


def test_a_column_alone_is_that_of_the_only_table_that_has_it() -> None:
    namespace = {"df": pd.DataFrame({"w": [1], "x": 2}), "other": pd.DataFrame({"x": [1]})}
    found = find("w", namespace, user_names(namespace))
    assert found is not None
    assert found.source == "df['w']"
    assert find("x", namespace, user_names(namespace)) is None
    assert find("w", {**namespace, "w": 5}, ["df"]) == (5, "w", "w", 5, "w", None)


def test_the_levels_of_an_index_are_parts() -> None:
    frame = pd.DataFrame(
        {"v": [1, 2]},
        index=pd.MultiIndex.from_tuples([("n", 1), ("s", 2)], names=["region", "year"]),
    )
    found = find("df.region", {"df": frame})
    assert found is not None
    assert list(found.value) == ["n", "s"]
    assert list(eval(found.source, {"df": frame})) == ["n", "s"]


def test_a_value_of_another_type_lists_the_parts_that_fit() -> None:
    namespace = {
        "df": pd.DataFrame({"w": [1], "b": ["x"]}),
        "cfg": {"n": 3, "table": pd.DataFrame()},
    }
    with pytest.raises(ValueError, match=r"Parts of it that are: df\['w'\], df\['b'\]"):
        resolve("df", pd.Series, namespace)
    with pytest.raises(ValueError, match=r"Parts of it that are: cfg\['table'\]$"):
        resolve("cfg", pd.DataFrame, namespace)


def test_a_missing_part_says_what_is_there() -> None:
    namespace = {"df": pd.DataFrame({"weight": [1]}), "items": [1, 2]}
    with pytest.raises(NoPartError, match="did you mean 'weight'"):
        find('df["weigth"]', namespace)
    with pytest.raises(NoPartError, match="2 items"):
        find("items[2]", namespace)


@pytest.mark.parametrize("path", ['df["w"]', "df.w", "w", 'cfg["frames"][0].w', "df['w']"])
def test_a_tool_and_look_read_the_same_path(path: str) -> None:
    def total(values: pd.Series) -> float:
        """Add numbers.

        Args:
            values: The numbers
        """
        return float(values.sum())

    frame = pd.DataFrame({"w": [1, 2]})
    namespace = {"df": frame, "cfg": {"frames": [frame]}}
    if "cfg" not in path and path == "w":
        del namespace["cfg"]
    model = ScriptedModel(
        ("total", {"values": path}), ("look", {"name": path}), ("final_answer", "done")
    )
    run = Agent([total], model=model, namespace=namespace).run("go")
    outcomes = [outcome for _, outcome in run.calls]
    assert outcomes[0].value == 3.0
    assert outcomes[1].status == "done"
    assert "mean 1.5" in outcomes[1].text
