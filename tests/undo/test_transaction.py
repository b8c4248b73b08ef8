"""Transactions over a namespace: the diff, the undo, interrupts, and what code may reach."""

from __future__ import annotations

import ctypes
import io
import json
import random
import re
import signal
import sqlite3
import sys
import threading
import types
import warnings
from collections.abc import Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Self

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from IPython.lib.pretty import pretty

import archytas_nb.kernel
from archytas_nb import Agent, Toolbox
from archytas_nb.loop.events import NotCovered
from archytas_nb.run import to_json
from archytas_nb.undo.transaction import transaction
from tests.undo.live_objects import KINDS, fingerprint

Names = dict[str, Any]


@pytest.fixture(autouse=True)
def _quiet() -> Any:
    """pandas and numpy warn of what they will do otherwise in their next release."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def all_kinds() -> Names:
    """One variable of each type, aliases, and a container that holds some of them."""
    names = {
        kind.replace(" ", "_").replace("-", "_").replace(".", "_"): make()
        for kind, (make, _) in KINDS.items()
    }
    names["alias"] = names["pandas_frame"]
    names["nested"] = {"deep": [names["numpy"], names["object"]], "own": [[1], {"k": np.arange(3)}]}
    names["number"], names["text"], names["pair"] = 5, "secret", (1, 2)
    return names


def changes_of(name: str) -> list[Any]:
    found = [
        each
        for kind, (_, each) in KINDS.items()
        if kind.replace(" ", "_").replace("-", "_").replace(".", "_") == name
    ]
    return found[0] if found else []


def state(names: Names) -> dict[str, tuple[int, Any]]:
    return {name: (id(value), fingerprint(value)) for name, value in names.items()}


def act(names: Names, action: str, number: int, seed: int) -> None:
    """One statement of the user; one that raises changed something or nothing."""
    rng = random.Random(seed)
    name = sorted(names)[number % len(names)]
    other = sorted(names)[seed % len(names)]
    try:
        if action == "in place" and changes_of(name):
            rng.choice(changes_of(name))(names[name], rng)
        elif action == "rebind":
            names[name] = rng.choice([rng.random(), [1], names[other], np.arange(4)])
        elif action == "delete":
            del names[name]
        elif action == "alias":
            names[f"new{seed}"] = names[name]
        elif action == "put inside":
            names["nested"]["own"][0].append(names[name])
        elif action == "take out":
            names["nested"]["deep"].pop()
    except Exception:
        pass


ACTIONS = st.lists(
    st.tuples(
        st.sampled_from(["in place"] * 4 + ["rebind", "delete", "alias", "put inside", "take out"]),
        st.integers(0, 500),
        st.integers(0, 500),
    ),
    max_size=12,
)


def check_undo(actions: list[tuple[str, int, int]]) -> None:
    names = all_kinds()
    objects = dict(names)
    before = state(names)
    with transaction(namespace=names) as t:
        for each in actions:
            act(names, *each)
    changed = {
        n
        for n in {*before, *names}
        if n not in before or n not in names or state({n: names[n]})[n] != before[n]
    }
    assert bool(t.diff) == bool(changed)
    assert {
        each.name for each in t.diff.changes if each.kind == "created"
    } == names.keys() - before.keys()
    assert {
        each.name for each in t.diff.changes if each.kind == "deleted"
    } == before.keys() - names.keys()
    assert t.undo() == ()
    assert state(names) == before
    assert all(names[name] is value for name, value in objects.items())
    assert (
        list(names["nested"]["deep"]) == [names["numpy"], names["object"]]
        or names["nested"]["deep"][0] is names["numpy"]
    )
    assert t.undo() == ()
    assert state(names) == before


@settings(max_examples=30)
@given(ACTIONS)
def test_undo_restores_contents_and_identities(actions: list[tuple[str, int, int]]) -> None:
    check_undo(actions)


@pytest.mark.slow
@settings(max_examples=1000)
@given(ACTIONS)
def test_undo_restores_contents_and_identities_in_1000_runs(
    actions: list[tuple[str, int, int]],
) -> None:
    check_undo(actions)


# ── the diff ──────────────────────────────────────────────────────────────────────────────────────


def test_the_texts_of_a_diff() -> None:
    frame = pd.DataFrame({"x": [1, 2, 3], "y": [1.0, 2.0, None], "z": 0, "old": [5, 6, 7]})
    names: Names = {
        "df": frame,
        "same": frame,
        "n": 5,
        "token": "abc",
        "cfg": {"lr": 0.1, "layers": [1, 2]},
        "gone": 1,
    }
    names["other"] = pd.DataFrame({"a": [1]})
    with transaction(namespace=names) as t:
        frame["new"] = 1
        frame.rename(columns={"old": "short"}, inplace=True)
        del frame["z"]
        frame["x"] = frame["x"].astype(float)
        frame.loc[0, "y"] = 9.0
        names["n"] += 1
        names["token"] = "a secret"
        names["cfg"]["lr"] = 0.01
        names["cfg"]["layers"].append(3)
        names["other"] = names["other"].assign(b=1)
        names["made"] = [1, 2]
        del names["gone"]
    assert str(t.diff).splitlines() == [
        "n reassigned: 5 → 6",
        "token reassigned: str of 3 characters → str of 8 characters",
        "gone deleted: 1",
        "other reassigned: DataFrame of 1 × 1 → DataFrame of 1 × 2; column 'b' added",
        "made created: list of 2",
        "df (also same) changed: column 'old' → 'short'; column 'new' added; column 'z' removed; column 'x': int64 → float64; column 'y': 1 of 3 values",
        "cfg changed: ['lr']: 0.1 → 0.01",
        "cfg['layers'] changed: 2 → 3 elements",
    ]


def test_the_diff_is_plain_data() -> None:
    names: Names = {"a": [1], "big": np.zeros(100), "module": json}
    with transaction(namespace=names, keep=10) as t:
        names["a"].append(2)
    assert json.loads(json.dumps(to_json(t.diff)))["changes"][0]["words"] == ["1 → 2 elements"]
    assert [note.name for note in t.diff.not_kept] == ["big"]
    assert t.diff.not_watched == (NotCovered("module", "module"),)


def test_an_agent_in_a_variable_is_one_of_the_notebook_however_the_package_is_installed() -> None:
    with transaction(namespace={"agent": Agent([]), "tools": Toolbox()}) as t:
        pass
    assert {note.why for note in t.diff.not_watched} == {"notebook"}
    assert t.diff.unseen == ()


def test_lists_objects_that_cannot_be_watched() -> None:
    pyplot = pytest.importorskip("matplotlib.pyplot")
    figure = pyplot.figure()
    names: Names = {
        "module": json, "function": json.dumps, "connection": sqlite3.connect(":memory:"), "generator": (i for i in []),
        "file": io.StringIO(), "rng": np.random.default_rng(), "random": random.Random(), "figure": figure,
        "bytes": bytearray(3), "index": pd.Index([1]), "thread": threading.Thread(), "cls": Path, "groups": pd.DataFrame({"a": [1]}).groupby("a"), "inside": [1, {"c": threading.Lock()}],
    }  # fmt: skip
    with transaction(namespace=names) as t:
        pass
    pyplot.close(figure)
    names["connection"].close()
    listed = {note.name for note in t.diff.not_watched}
    assert listed == {*(names.keys() - {"inside"}), "inside[1]['c']"}


def test_ignores_names_of_ipython_and_transactions() -> None:
    names: Names = {
        "In": ["a"],
        "_": 1,
        "__": 2,
        "_i1": "x",
        "_12": [],
        "__name__": "m",
        "_mine": [1],
    }
    with transaction(namespace=names) as t:
        names["t"] = t
        names["_"] = 5
        names["In"].append("b")
        names["_mine"].append(2)
    assert [each.name for each in t.diff.changes] == ["_mine"]


def test_reads_only_the_chosen_variables_but_compares_all_names() -> None:
    names: Names = {"a": [1], "b": [1]}
    with transaction("a", namespace=names) as t:
        names["a"].append(1)
        names["b"].append(1)
        names["c"] = 1
    assert [each.name for each in t.diff.changes] == ["c", "a"]


# ── hidden effects ────────────────────────────────────────────────────────────────────────────────


class Holder:
    rate = 1


HIDDEN = {
    "exec": "exec('df[\"x\"] = 5')",
    "setattr": "setattr(holder, 'rate', 5)",
    "globals": "globals()['arr'] = None",
    "vars": "vars(holder)['inner'].append(1)",
    "view": "v = view[::2]; v += 1; del v",
    "values": "x = df['x'].to_numpy(); x.flags.writeable = True; x[:] = 7; del x",
    "array": "df['x'].array[0] = 7",
    "alias in a closure": "hidden()",
    "thread": "t = threading.Thread(target=lambda: items.append(1)); t.start(); t.join(); del t",
    "memoryview": "memoryview(arr)[0] = 9.0",
    "ctypes": "ctypes.memset(arr.ctypes.data, 1, 8)",
    "out": "np.add(arr, 1, out=arr)",
    "shuffle": "random.Random(1).shuffle(items)",
    "swap": "arr[[0, 1]] = arr[[1, 0]]",
    "dict of an object": "holder.__dict__.update(new=1)",
    "inner del": "del df['x']",
    "in-place operator": "df['x'] += 1",
    "np.random": "np.random.default_rng(1).shuffle(arr)",
}


@pytest.mark.parametrize("code", HIDDEN.values(), ids=HIDDEN.keys())
def test_hidden_effects_are_detected_and_undone(code: str) -> None:
    holder = Holder()
    holder.inner = [1]  # type: ignore[attr-defined]
    items = [1, 2, 3]
    arr = np.arange(5.0)
    base = np.zeros(6)
    names: Names = {
        "df": pd.DataFrame({"x": [1, 2, 3]}), "holder": holder, "arr": arr, "view": base[1:], "items": items,
        "hidden": lambda: items.append(4), "np": np, "threading": threading, "ctypes": ctypes, "random": random,
    }  # fmt: skip
    del base
    exec("", names)
    before = state({n: v for n, v in names.items() if n != "__builtins__"})
    with transaction(namespace=names) as t:
        exec(code, names)
    assert len(t.diff.changes) == 1
    assert t.undo() == ()
    assert state({n: v for n, v in names.items() if n != "__builtins__"}) == before


# ── undo ──────────────────────────────────────────────────────────────────────────────────────────


def test_undo_keeps_later_changes() -> None:
    names: Names = {"a": 1, "l": [1]}
    with transaction(namespace=names) as t:
        names["a"], names["b"] = 2, 3
        names["l"].append(2)
    names["c"], names["a"] = 4, 5
    names["l"].append(3)
    assert [note.name for note in t.undo()] == ["a", "l"]
    assert names == {"a": 5, "l": [1, 2, 3], "c": 4}
    names["l"].pop()
    assert [note.name for note in t.undo()] == ["a"]
    assert names == {"a": 5, "l": [1], "c": 4}
    assert t.undo(force=True) == ()
    assert names == {"a": 1, "l": [1], "c": 4}


def test_a_block_that_raises_can_be_undone() -> None:
    names: Names = {"l": [1]}
    t = transaction(namespace=names)
    with pytest.raises(ZeroDivisionError), t:  # noqa: PT012
        names["l"].append(2)
        raise ZeroDivisionError
    assert str(t.diff) == "l changed: 1 → 2 elements"
    assert pretty(t.diff) == str(t.diff)  # as a cell shows it
    t.undo()
    assert names == {"l": [1]}


def test_a_name_without_a_variable_is_listed_and_an_object_is_refused() -> None:
    with transaction("df", "dff", namespace={"df": [1]}) as t:
        pass
    assert [str(note) for note in t.diff.not_watched] == ["dff (no variable has this name)"]
    with pytest.raises(ValueError, match=r'such as nb.transaction\("df"\)'):
        transaction(pd.DataFrame())  # type: ignore[arg-type]


def test_undo_is_refused_before_the_block() -> None:
    t = transaction(namespace={})
    with pytest.raises(RuntimeError, match="has not begun"):
        t.undo()
    with pytest.raises(RuntimeError, match="has not begun"):
        _ = t.diff
    with t:
        pass
    with pytest.raises(RuntimeError, match="once"), t:
        pass


def test_the_default_namespace_is_that_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    names: Names = {"l": [1]}
    monkeypatch.setattr("archytas_nb.undo.transaction.live_namespace", lambda: names)
    with archytas_nb.transaction() as t:
        names["l"].append(2)
    t.undo()
    assert names == {"l": [1]}


# ── interrupts ────────────────────────────────────────────────────────────────────────────────────


class Interrupt:
    """Raises KeyboardInterrupt before the n-th line of Python that runs in a block."""

    def __init__(self, line: int, how: str) -> None:
        self.line, self.how, self.count = line, how, 0

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        if frame.f_code is Interrupt.__exit__.__code__:
            return None
        if event == "line":
            self.count += 1
            if self.count == self.line:
                if self.how == "signal":
                    signal.raise_signal(signal.SIGINT)
                else:
                    raise KeyboardInterrupt
        return self

    def __enter__(self) -> Self:
        self.before = sys.gettrace()
        sys.settrace(self)
        return self

    def __exit__(self, *_: object) -> None:
        sys.settrace(self.before)


def small() -> Names:
    frame = pd.DataFrame({"x": [1.0, 2.0], "s": ["a", "b"]})
    return {
        "l": [1, [2]],
        "d": {"a": 1, "f": frame},
        "df": frame,
        "arr": np.arange(4.0),
        "s": {1, 2},
        "o": types.SimpleNamespace(x=1),
        "n": 1,
        "gone": [1],
    }


def block(names: Names) -> None:
    names["l"][1].append(3)
    names["d"]["b"] = 2
    names["df"]["x"] += 1
    names["arr"] *= 2
    names["s"].add(3)
    names["o"].x = 2
    names["n"] = 2
    names["made"] = 1
    del names["gone"]


def interrupt_anywhere(line: int, how: str) -> None:
    """An interrupt in the snapshot, in the block or in the comparison."""
    names = small()
    before = state(names)
    t = transaction(namespace=names)
    try:
        with Interrupt(line, how), t:
            block(names)
    except KeyboardInterrupt:
        pass
    if t._state == "new":
        assert state(names) == before
        return
    after = state(names)
    assert bool(t.diff) == (after != before)
    differs = {name for name in {*before, *after} if before.get(name) != after.get(name)}
    changed = {re.match(r"\w+", change.name)[0] for change in t.diff.changes}  # type: ignore[index]
    assert changed <= differs
    assert differs - changed <= {"df"}  # which is in `d`, too
    try:
        with Interrupt(line % 150, how):
            t.undo()
    except KeyboardInterrupt:
        pass
    assert t.undo() is t.undo()
    assert state(names) == before
    handler = signal.signal(signal.SIGINT, signal.default_int_handler)
    # An exception that is raised before the very line that restores it leaves it; a signal does not.
    assert how == "exception" or handler is signal.default_int_handler


def lines(how: str) -> int:
    names = small()
    with Interrupt(0, how) as counted, transaction(namespace=names):
        block(names)
    return counted.count


def apart(line: int, how: str) -> Iterator[None]:
    """`interrupt_anywhere` in a generator, which keeps for itself the exception that is handled.

    What a tracer raises between the instructions of a handler of numpy's leaves that handler's
    exception behind; every exception of later tests would name it as its context.
    """
    interrupt_anywhere(line, how)
    yield


@pytest.mark.parametrize("how", ["signal", "exception"])
def test_interrupts_anywhere(how: str) -> None:
    last = lines(how)
    for line in random.Random(1).sample(range(1, last), 25):
        next(apart(line, how))


@pytest.mark.slow
@pytest.mark.parametrize("how", ["signal", "exception"])
def test_interrupts_at_200_points(how: str) -> None:
    last = lines(how)
    for line in random.Random(2).sample(range(1, last), min(200, last - 1)):
        next(apart(line, how))


def _data_of(kind: str, items: list[float | None]) -> Any:
    if kind == "polars":
        return pl.DataFrame({"x": items}, schema={"x": pl.Float64}, strict=False)
    if kind == "array":
        return np.array(items, dtype=float)
    if kind == "pandas":
        return pd.DataFrame({"x": pd.Series(items, dtype=float)})
    texts = [None if each is None else str(each) for each in items]
    return pd.DataFrame({"x": pd.Series(texts, dtype="str" if kind == "text" else object)})


def _is_same(kind: str, one: float | None, other: float | None) -> bool:
    is_gone = [each is None or each != each for each in (one, other)]
    if kind in ("text", "object") or kind == "polars":
        is_gone = [each is None for each in (one, other)]
        both_nan = one != one and other != other and None not in (one, other)
        return all(is_gone) or both_nan or one == other
    return all(is_gone) or one == other


@given(
    st.lists(st.floats(allow_nan=True, width=16) | st.none(), min_size=1, max_size=30),
    st.data(),
    st.sampled_from(["pandas", "text", "object", "array", "polars"]),
)
def test_the_values_that_a_change_names_are_counted(
    values: list[float | None], data: st.DataObject, kind: str
) -> None:
    after = list(values)
    for place in data.draw(st.sets(st.integers(0, len(values) - 1), max_size=5)):
        after[place] = data.draw(st.sampled_from([None, 0.5, 99.0]))

    names: Names = {"v": _data_of(kind, values)}
    with transaction(namespace=names) as t:
        if kind == "array":
            names["v"][:] = _data_of(kind, after)
        elif kind == "polars":
            names["v"] = _data_of(kind, after)
        else:
            names["v"]["x"] = _data_of(kind, after)["x"]

    number = sum(not _is_same(kind, *pair) for pair in zip(values, after, strict=True))
    found = re.search(r"(\d+) of (\d+) values?", str(t.diff))
    assert (found is not None) == (number > 0)
    if found is not None:
        assert [*map(int, found.groups())] == [number, len(values)]
