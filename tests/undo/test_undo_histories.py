"""Random histories of runs, cells of the person, undo and redo: nothing that the person made is lost.

Every statement writes a number that is nowhere else. What a variable shows is read by `dump`, which knows nothing of
this package. Three laws hold of each undo and redo:

- what the person wrote is still shown somewhere, and what they bound shows the same, unless they forced it;
- if the person did nothing since the run, all is as before the run;
- a redo right after an undo brings everything back.
"""

from __future__ import annotations

import collections
import functools
import re
import types
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from archytas_nb.loop.events import Kept, NotCovered
from archytas_nb.undo.transaction import Transaction, transaction

Names = dict[str, Any]

CLASSES = """
import array, collections, dataclasses, enum, functools, io, itertools, random, re, types, weakref
import numpy as np, pandas as pd, polars as pl
class Plain:
    def __init__(self): self.a, self.inner = 1, [2]
class Slots:
    __slots__ = ("a", "b")
    def __init__(self): self.a, self.b = 1, [2]
@dataclasses.dataclass
class Data:
    a: int = 1
    b: list = dataclasses.field(default_factory=list)
@dataclasses.dataclass(frozen=True)
class Frozen:
    b: list = dataclasses.field(default_factory=lambda: [1])
class Like:
    def __init__(self, a): object.__setattr__(self, "_a", [a])
    @property
    def a(self): return self._a[-1]
    @a.setter
    def a(self, value): self._a.append(value)
class Field:
    def __init__(self): self.store, self.log = {}, []
    def __get__(self, o, c): return self if o is None else self.store.get("a")
    def __set__(self, o, value): self.store["a"] = value
def registered():
    class Registered:
        known, limits = [1], {"most": 2}
    return Registered
def described():
    class Described:
        a = Field()
    return Described()
class Colour(enum.Enum):
    RED = 1
def counter():
    n = [0]
    def count(by=[0]): return n
    return count
class Bag(list): pass
class Tree(dict): pass
def cycle():
    one = [1]; one.append(one); return one
"""

KINDS: dict[str, tuple[str, list[str]]] = {
    "list": ("[1, [2]]", ["x.append({t})", "x[1].append({t})", "x[0] = {t}", "x.clear()", "x.insert(0, [{t}])"]),
    "list of lists": ("[[1], [2], [3]]", ["x[1].append({t})", "x.append([{t}])", "x.pop()"]),
    "list subclass": ("Bag([1])", ["x.append({t})", "x.note = {t}"]),
    "dict": ("{'a': 1, 'b': [2]}", ["x['n{t}'] = {t}", "x['b'].append({t})", "x['a'] = {t}", "x.pop('a')"]),
    "dict subclass": ("Tree(a=[1])", ["x['a'].append({t})", "x['k'] = Tree(n={t})", "x.note = {t}"]),
    "nested": ("{'a': [{'b': {1: [2]}}]}", ["x['a'][0]['b'][1].append({t})", "x['a'].append({{'c': {t}}})"]),
    "cycle": ("cycle()", ["x.append({t})", "x[0] = {t}"]),
    "shared": ("(lambda y: [y, {'y': y}])([1])", ["x[0].append({t})", "x[1]['y'].append({t})", "x[1]['z'] = {t}"]),
    "set": ("{1, 2}", ["x.add({t})", "x.discard(1)", "x.clear()"]),
    "frozen members": ("(1, [2], frozenset({3}))", ["x[1].append({t})", "x[1].clear()"]),
    "deque": ("collections.deque([1, [2]])", ["x.append({t})", "x.rotate(1)", "x[0] = {t}"]),
    "ordered": ("collections.OrderedDict(a=1, b=2)", ["x.move_to_end('a')", "x['a'] = {t}"]),
    "default": ("collections.defaultdict(list)", ["x[{t}]", "x['k'].append({t})"]),
    "counter": ("collections.Counter('aab')", ["x.update([{t}])", "x['a'] = {t}"]),
    "chain": ("collections.ChainMap({'a': 1}, {'b': [2]})", ["x['n'] = {t}", "x.maps.append({{'m': {t}}})", "x['b'].append({t})"]),
    "user dict": ("collections.UserDict(a=[1])", ["x['b'] = {t}", "x['a'].append({t})"]),
    "user list": ("collections.UserList([1])", ["x.append({t})"]),
    "dataclass": ("Data()", ["x.a = {t}", "x.b.append({t})", "x.new = {t}"]),
    "frozen dataclass": ("Frozen()", ["x.b.append({t})"]),
    "object": ("Plain()", ["x.a = {t}", "x.inner.append({t})", "x.other = [{t}]", "del x.a"]),
    "slots": ("Slots()", ["x.a = {t}", "x.b.append({t})", "del x.a"]),
    "like attrs": ("Like(1)", ["x.a = {t}", "x._a.clear()"]),
    "descriptor": ("described()", ["x.a = {t}", "type(x).__dict__['a'].log.append({t})"]),
    "class": ("registered()", ["x.known.append({t})", "x.limits['n'] = {t}", "x.extra = {t}"]),
    "enum": ("Colour.RED", ["x.note = {t}"]),
    "namespace": ("types.SimpleNamespace(a=1)", ["x.a = {t}", "x.b = [{t}]"]),
    "closure": ("counter()", ["x().append({t})", "x.__defaults__[0].append({t})", "x.note = {t}", "x.__defaults__ = ([{t}],)"]),
    "partial": ("functools.partial(print, [1], end=[2])", ["x.args[0].append({t})", "x.keywords['end'].append({t})"]),
    "method": ("Plain().__init__", ["x.__self__.a = {t}"]),
    "proxy": ("types.MappingProxyType({'a': [1]})", ["x['a'].append({t})"]),
    "array": ("np.arange(6)", ["x[0] = {t}", "x += {t}", "x[2:] = {t}"]),
    "view": ("np.arange(9)[2:7]", ["x[0] = {t}", "x.base[4] = {t}"]),
    "object array": ("np.array([[1], None, 2], dtype=object)", ["x[0].append({t})", "x[2] = {t}", "x[1] = [{t}]"]),
    "frame": ("pd.DataFrame({'a': [1, 2], 'b': ['x', 'y']})", ["x['n{t}'] = {t}", "x.loc[0, 'a'] = {t}", "x.loc[{t}] = [1, 'z']", "x.drop(columns='b', inplace=True)"]),
    "series": ("pd.Series([1, 2])", ["x.iloc[0] = {t}", "x.name = 's{t}'"]),
    "index": ("pd.Index([1, 2])", ["x.name = 'i{t}'"]),
    "polars": ("pl.DataFrame({'a': [1, 2]})", ["x[0, 'a'] = {t}", "x.insert_column(0, pl.Series('n{t}', [1, 2]))"]),
    "polars series": ("pl.Series('s', [1, 2])", ["x[0] = {t}"]),
    "bytearray": ("bytearray(b'abc')", ["x.extend(b'{t}')"]),
    "memoryview": ("memoryview(bytearray(8))", ["x[:5] = b'{t}'"]),
    "array.array": ("array.array('q', [1])", ["x.append({t})"]),
    "text file": ("io.StringIO()", ["x.write('{t}')"]),
    "bytes file": ("io.BytesIO()", ["x.write(b'{t}')"]),
    "generator": ("(i for i in range(5))", ["next(x)"]),
    "iterator": ("iter([1, 2, 3])", ["next(x)"]),
    "random": ("random.Random(1)", ["x.random()", "x.seed({t})"]),
    "pattern": ("re.compile('a')", ["x = re.compile('{t}')"]),
    "weak dict": ("weakref.WeakValueDictionary()", ["x['n{t}'] = Plain"]),
    "module": ("types.ModuleType('mine')", ["x.a = {t}", "x.b = [{t}]"]),
    "number": ("5", ["x += {t}"]),
    "text": ("'a'", ["x += '{t}'"]),
    "namespace itself": ("globals()", ["x['made{t}'] = {t}"]),
}  # fmt: skip

ANYWHERE = [
    "x = [{t}]", "x = {t}", "del x", "x = y", "v{t} = x", "v{t} = [x]", "v{t} = {{'k': x, 't': {t}}}", "v{t} = {t}",
    "v{t} = (lambda z: lambda: z)(x)", "v{t} = lambda: x", "v{t} = functools.partial(print, x)", "bag.append(x)",
    "bag.append({t})", "box.held = x", "v{t} = x[1:]", "v{t} = types.SimpleNamespace(a=x, b=[{t}])", "v{t} = globals()",
    "x = Plain()", "x = pd.DataFrame({{'made': [{t}]}})", "x = np.full(3, {t})",
]  # fmt: skip

FIRST = 70_000  # what the statements write


def _of_function(value: Any) -> Any:
    function = getattr(value, "__func__", value)
    cells = [cell.cell_contents for cell in function.__closure__ or ()]
    return [cells, function.__defaults__, vars(function), getattr(value, "__self__", None)]


def _of_class(value: Any) -> Any:
    own = {k: v for k, v in vars(value).items() if not k.startswith("__")}
    return own if value.__module__ == "__main__" else ()


def _of_module(value: Any) -> Any:
    return {k: v for k, v in vars(value).items() if k in "ab"} if value.__name__ == "mine" else ()


def _of_pandas(value: Any) -> Any:
    frame = value.to_frame() if hasattr(value, "to_frame") else value
    return [str(getattr(value, "name", "")), repr(frame.to_dict("split")), str(frame.dtypes)]


def _of_polars(value: Any) -> Any:
    frame = value.to_frame() if hasattr(value, "to_frame") else value
    return [repr(frame.to_dict(as_series=False)), repr(frame.schema)]


def _of_object(value: Any) -> Any:
    slots = getattr(type(value), "__slots__", ())
    own = {k: getattr(value, k) for k in slots if isinstance(k, str) and hasattr(value, k)}
    field = type(value).__dict__.get("a")
    return own | getattr(value, "__dict__", {}) | getattr(field, "__dict__", {})


BY_LIBRARY: dict[str, Any] = {
    "numpy": lambda value: [value.dtype.str, value.tolist()],
    "pandas": _of_pandas,
    "polars": _of_polars,
    "_io": lambda value: value.getvalue(),
    "array": list,
    "random": lambda value: hash(value.getstate()),
    "weakref": lambda value: sorted(value.keys()),
}
BY_TYPE: dict[Any, Any] = {
    types.ModuleType: _of_module,
    (types.FunctionType, types.MethodType): _of_function,
    functools.partial: lambda value: [value.args, value.keywords],
    memoryview: bytes,
    type: _of_class,
    collections.deque: lambda value: [list(value), _of_object(value)],
}


def _inside(value: Any) -> Any:
    """The content of an object, as a list or a dict."""
    for kinds, read in BY_TYPE.items():
        if isinstance(value, kinds):
            return read(value)
    library = type(value).__module__.partition(".")[0]
    if library in BY_LIBRARY:
        return BY_LIBRARY[library](value)
    return _of_object(value)


def dump(value: Any, seen: tuple[int, ...] = ()) -> str:
    """The text of an object; read without this package."""
    if id(value) in seen:
        return "…"
    if len(seen) > 20 or isinstance(value, (int, float, str, bytes, type(None), bytearray)):
        return repr(value)
    seen = (*seen, id(value))
    parts = []
    if isinstance(value, dict) and value.get("__name__") == "__main__":
        return "the namespace"
    if isinstance(value, (dict, types.MappingProxyType)):
        parts = [f"{dump(key, seen)}: {dump(value[key], seen)}" for key in value]
    elif isinstance(value, (list, tuple)):
        parts = [dump(each, seen) for each in value]
    elif isinstance(value, (set, frozenset)):
        parts = sorted(dump(each, seen) for each in value)
    if type(value) not in (dict, list, tuple, set, frozenset, types.MappingProxyType):
        parts.append(dump(_inside(value), seen))
    return f"<{type(value).__name__} {', '.join(parts)}>"


@dataclass
class _Done:
    """A run: the state before it, and what was written until its end."""

    transaction: Transaction
    before: dict[str, str]
    token: int
    is_watched: bool
    is_whole: bool = True  # whether all of it was done, or undone


class World:
    """A namespace and its history."""

    def __init__(self, kinds: list[str]) -> None:
        self.names: Names = {"__name__": "__main__"}
        exec(CLASSES, self.names)
        self.hidden = set(self.names)
        exec("bag, box = [], types.SimpleNamespace()", self.names)
        self.kinds = kinds
        for number, kind in enumerate(kinds):
            exec(f"x{number} = {KINDS[kind][0]}", self.names)
        self.token = FIRST
        self.done: list[_Done] = []
        self.undone: list[_Done] = []
        self.mine: set[str] = set()  # what the person wrote
        self.touched = 0  # statements of the person since the last run, undo or redo
        self.said: list[str] = []

    def state(self) -> dict[str, str]:
        names = [n for n in self.names if n not in self.hidden and not n.startswith("__")]
        return {name: dump(self.names[name]) for name in sorted(names)}

    def execute(self, which: int, how: int, other: int) -> str:
        """Run one statement; returns it."""
        which %= len(self.kinds)
        changes = [*KINDS[self.kinds[which]][1], *ANYWHERE]
        text = changes[how % len(changes)]
        self.token += 1
        text = text.replace("{t}", str(self.token)).replace("{{", "{").replace("}}", "}")
        text = re.sub(r"\bx\b", f"x{which}", text)
        text = re.sub(r"\by\b", f"x{other % len(self.kinds)}", text)
        self.said.append(text)
        try:
            exec(text, self.names)
        except Exception:
            self.said.append("# it raised")
        return text

    # ── the steps ─────────────────────────────────────────────────────────────────────────────────

    def run(self, statements: list[tuple[int, int, int]]) -> None:
        for each in self.undone:
            each.transaction.forget_replaced()
        self.undone.clear()
        before = self.state()
        with transaction(namespace=self.names) as t:
            for each in statements:
                self.said.append("run:")
                self.execute(*each)
        self.done.append(_Done(t, before, self.token, is_watched=not t.diff.unseen))
        self.touched = 0

    def cell(self, statements: list[tuple[int, int, int]]) -> None:
        for each in statements:
            before = set(re.findall(r"7\d{4}", str(self.state())))
            self.execute(*each)
            self.mine |= set(re.findall(r"7\d{4}", str(self.state()))) - before
            self.touched += 1

    def undo(self, *, force: bool) -> None:
        if not self.done:
            return
        done = self.done.pop()
        t = done.transaction
        now = self.state()
        first = self._moved(lambda: t.undo(force=force), done, force=force)
        undone = self.state()
        if self.touched == 0 and done.is_watched and done.is_whole:
            assert not first, (first, self.said)
            self.same(undone, done.before)
        if done.is_whole:
            back = t.redo()
            assert not any(isinstance(each, Kept) for each in back), (back, self.said)
            if done.is_watched:
                assert not back, (back, self.said)
                self.same(self.state(), now)
            again = t.undo(force=force)
            assert {each.name for each in again} == {each.name for each in first}, self.said
            if done.is_watched:
                self.same(self.state(), undone)
        done.is_whole &= not first
        self.undone.append(done)
        self.touched += len(first)

    def same(self, one: dict[str, str], other: dict[str, str]) -> None:
        differing = {
            name: (one.get(name), other.get(name))
            for name in one | other
            if one.get(name) != other.get(name)
        }
        assert not differing, (differing, self.said)

    def redo(self) -> None:
        if not self.undone:
            return
        done = self.undone.pop()
        notes = self._moved(done.transaction.redo, done, force=False)
        done.is_whole &= not notes
        self.done.append(done)
        self.touched += 1

    def _moved(self, move: Any, done: _Done, *, force: bool) -> tuple[NotCovered, ...]:
        """Undo or redo something; nothing of the person's may be lost."""
        before = str(self.state())
        notes: tuple[NotCovered, ...] = move()
        after = str(self.state())
        self.said.append(f"moved, force={force}: {[*map(str, notes)]}")
        if not force:
            mine = {each for each in self.mine if int(each) > done.token}
            lost = {each for each in mine if each in before and each not in after}
            assert not lost, (lost, self.said)
        return notes


STATEMENT = st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 3))
STATEMENTS = st.lists(STATEMENT, min_size=1, max_size=3)
STEP = st.one_of(
    st.tuples(st.just("run"), STATEMENTS),
    st.tuples(st.just("run"), STATEMENTS),
    st.tuples(st.just("cell"), STATEMENTS),
    st.tuples(st.just("cell"), STATEMENTS),
    st.tuples(st.sampled_from(["undo", "undo", "undo", "force", "redo", "redo"]), st.just([])),
)
HISTORY = st.tuples(
    st.lists(st.sampled_from(sorted(KINDS)), min_size=1, max_size=4),
    st.lists(STEP, min_size=2, max_size=8),
)


def check(kinds: list[str], steps: list[tuple[str, list[tuple[int, int, int]]]]) -> World:
    world = World(kinds)
    for what, statements in steps:
        match what:
            case "run":
                world.run(statements)
            case "cell":
                world.cell(statements)
            case "undo":
                world.undo(force=False)
            case "force":
                world.undo(force=True)
            case "redo":
                world.redo()
    while world.done:
        world.undo(force=False)
    return world


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@settings(max_examples=60, deadline=None)
@given(HISTORY)
def test_nothing_of_the_person_is_lost(history: Any) -> None:
    check(*history)


@pytest.mark.slow
@settings(max_examples=3000, deadline=None)
@given(HISTORY)
def test_nothing_of_the_person_is_lost_in_3000_histories(history: Any) -> None:
    check(*history)
