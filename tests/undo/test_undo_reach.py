"""Whatever way code takes to a variable, what it changes is reported and can be undone."""

from __future__ import annotations

import itertools
import json
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest

from archytas_nb.agent import Agent
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel
from archytas_nb.undo.transaction import transaction

Names = dict[str, Any]

DEFINED = """
import collections, contextlib, dataclasses, enum, functools, itertools, operator, types, weakref
import numpy as np, pandas as pd
rows = [1, 2]
table = {'a': [1]}
base = np.zeros(4)
view = base[1:]
frame = pd.DataFrame({'x': [1, 2, 3]})
def grow(): rows.append(3)
"""

# What is defined before, and what the model's code does. It changes `rows` unless another name is given.
WAYS = {
    "a bound method": ("add = rows.append", "add(3)"),
    "a default": ("def f(to=rows): to.append(3)", "f()"),
    "a keyword default": ("def f(*, to=rows): to.append(3)", "f()"),
    "a closure": ("def outer(held):\n    return lambda: held.append(3)\nf = outer(rows)", "f()"),
    "a closure of a closure": ("f = (lambda held: lambda: (lambda: held.append(3))())(rows)", "f()"),
    "a function in a SimpleNamespace": ("box = types.SimpleNamespace(run=grow)", "box.run()"),
    "a function in a deque": ("box = collections.deque([grow])", "box[0]()"),
    "a function in a Series": ("box = pd.Series([grow])", "box[0]()"),
    "a function in an array": ("box = np.array([grow, None])", "box[0]()"),
    "a function in a frozenset": ("box = frozenset([grow])", "next(iter(box))()"),
    "a function in a dict view": ("held = {'k': grow}\nbox = held.values()", "next(iter(box))()"),
    "a function in a ChainMap": ("box = collections.ChainMap({'k': grow})", "box['k']()"),
    "a function in a UserDict": ("box = collections.UserDict(k=grow)", "box['k']()"),
    "a function in an iterator": ("box = iter([grow])", "next(box)()"),
    "a function in a frame's attrs": ("frame.attrs['run'] = grow", "frame.attrs['run']()"),
    "a method of a list": ("class L(list):\n    def go(self): rows.append(3)\nx = L()", "x.go()"),
    "a method of a dict": ("class D(dict):\n    def go(self): rows.append(3)\nx = D()", "x.go()"),
    "a method of an Enum": ("class E(enum.Enum):\n    A = 1\n    def go(self): rows.append(3)", "E.A.go()"),
    "a method of a str": ("class S(str):\n    def go(self): rows.append(3)\nx = S('a')", "x.go()"),
    "a method of a named tuple": (
        "class T(collections.namedtuple('B', 'a')):\n    def go(self): rows.append(3)\nx = T(1)", "x.go()"),
    "__missing__": ("class D(dict):\n    def __missing__(self, key): rows.append(3)\nx = D()", "x['k']"),
    "__getattr__": ("class O:\n    def __getattr__(self, name): rows.append(3)\nx = O()", "x.anything"),
    "__del__": ("class O:\n    def __del__(self): rows.append(3)\nx = O()", "x.__del__()"),
    "an operator": ("class O:\n    def __add__(self, other): rows.append(3)\nx = O()", "x + 1"),
    "a descriptor": (
        "class D:\n    def __get__(self, *_): rows.append(3)\nclass O:\n    d = D()\nx = O()", "x.d"),
    "a property": ("class O:\n    p = property(lambda self: rows.append(3))\nx = O()", "x.p"),
    "a cached property": (
        "class O:\n    @functools.cached_property\n    def p(self): rows.append(3)\nx = O()", "x.p"),
    "a class method": ("class O:\n    @classmethod\n    def go(cls): rows.append(3)", "O.go()"),
    "a metaclass": ("class M(type):\n    def go(cls): rows.append(3)\nclass O(metaclass=M): pass", "O.go()"),
    "__init_subclass__": (
        "class O:\n    def __init_subclass__(cls): rows.append(3)", "class P(O): pass"),
    "a context manager": ("@contextlib.contextmanager\ndef c():\n    rows.append(3)\n    yield", "with c(): pass"),
    "a generator": ("def g():\n    yield rows.append(3)\nx = g()", "next(x)"),
    "singledispatch": (
        "@functools.singledispatch\ndef f(x): pass\n@f.register\ndef _(x: int): rows.append(3)", "f(1)"),
    "lru_cache": ("@functools.lru_cache\ndef f(): rows.append(3)", "f()"),
    "partial": ("f = functools.partial(rows.append, 3)", "f()"),
    "partial of a function": ("f = functools.partial(lambda to, x: to.append(x), rows)", "f(3)"),
    "a decorator without wraps": (
        "def deco(f):\n    class W:\n        def __call__(self): return f()\n    return W()\n@deco\ndef f(): rows.append(3)", "f()"),
    "methodcaller": ("f = operator.methodcaller('append', 3)", "[f(each) for each in [rows]]"),
    "an object that holds a function": (
        "class Transformer:\n    def __init__(self, func): self.func = func\nx = Transformer(grow)", "x.func()"),
    "map": ("x = map(rows.append, [3])", "list(x)"),
    "a weak reference": ("f = weakref.WeakMethod(O().go) if 0 else weakref.ref(grow)", "f()()"),
    "a base of an array": ("", "view.base[0] = 5", "base"),
    "globals": ("", "globals()['ro' + 'ws'].append(3)"),
    "frames": ("import sys", "sys._getframe().f_globals['ro' + 'ws'].append(3)"),
    "the garbage collector": (
        "import gc", "[x.append(3) for x in gc.get_objects() if type(x) is list and x is globals()['row' + 's']]"),
    "__globals__": ("", "grow.__globals__['row' + 's'].append(3)"),
    "exec": ("", "exec('ro' + 'ws.append(3)')"),
    "__import__": ("import sys\nsys.modules['probe_of_reach'] = types.SimpleNamespace(r=rows)",
                   "__import__('probe_of_reach').r.append(3)"),
    "operator.attrgetter": ("x = types.SimpleNamespace(r=rows)", "operator.attrgetter('r')(x).append(3)"),
    "getattr": ("x = types.SimpleNamespace(r=rows)", "getattr(x, 'r').append(3)"),
    "an exception": ("e = ValueError(rows)", "e.args[0].append(3)"),
    "a dataclass with slots": ("@dataclasses.dataclass(slots=True)\nclass O:\n    r: list\nx = O(rows)", "x.r.append(3)"),
    "a key of a dict": ("class K:\n    pass\nk = K()\nk.r = rows\nx = {k: 1}", "next(iter(x)).r.append(3)"),
    "apply of a frame": ("", "frame.apply(lambda column: grow())"),
    "sorting": ("def key(x):\n    grow()\n    return x", "sorted([1], key=key)"),
    "a thread": ("import threading", "t = threading.Thread(target=grow); t.start(); t.join(); del t"),
    "a callback": ("import atexit", "import threading; t = threading.Timer(0, grow); t.start(); t.join(); del t, threading"),
}  # fmt: skip


def asked(*calls: Any, names: Names, tools: Any = (), **options: Any) -> Run:
    script = [("python", {"code": each}) if isinstance(each, str) else each for each in calls]
    model = ScriptedModel(*script, ("final_answer", "ok"))
    return Agent(tools, model, namespace=names, **options).run("go")


def defined(code: str) -> Names:
    names: Names = {"__name__": "__main__"}
    exec(DEFINED + code, names)
    return names


def content(names: Names) -> tuple[Any, ...]:
    return names["rows"][:], names["base"].tolist(), names["frame"].to_dict("list")


@pytest.mark.parametrize("way", WAYS)
def test_a_change_is_reported_and_undone_whatever_way_leads_to_it(way: str) -> None:
    before, code, *other = WAYS[way]
    names = defined(before)
    was = content(names)
    run = asked(code, names=names, python="undoable")
    assert run.calls[0][1].status == "done", run.calls[0][1].text
    assert content(names) != was
    changed = {name for each in run.diff.changes for name in (each.name, *each.also)}
    assert changed >= set(other or ["rows"])
    assert all("rows" not in str(note) for note in run.undo())
    assert content(names) == was


@pytest.mark.parametrize("way", WAYS)
def test_a_transaction_sees_the_same(way: str) -> None:
    before, code, *_ = WAYS[way]
    names = defined(before)
    was = content(names)
    with transaction(namespace=names) as t:
        exec(code, names)
    assert content(names) != was
    assert t.diff
    t.undo()
    assert content(names) == was


# State that no variable names: it is only in a function, a class or an object.
HELD = {
    "a closure": (
        "def outer():\n    n = [0]\n    def f():\n        n[0] += 1\n        return n[0]\n    return f\nf = outer()", "f()"),
    "a rebound closure": (
        "def outer():\n    n = 0\n    def f():\n        nonlocal n\n        n += 1\n        return n\n    return f\nf = outer()",
        "f()"),
    "a default": ("def f(n=[0]):\n    n[0] += 1\n    return n[0]", "f()"),
    "an attribute of a function": ("def f():\n    f.n = getattr(f, 'n', 0) + 1\n    return f.n", "f()"),
    "an attribute of a class": (
        "class A:\n    n = 0\n    def f(self):\n        A.n += 1\n        return A.n\nx = A()\nf = x.f", "f()"),
    "a class of no name": (
        "class A:\n    n = 0\n    def f(self):\n        type(self).n += 1\n        return self.n\nx = A()\ndel A", "x.f()"),
    "a base class of no name": (
        "class B:\n    n = [0]\nclass A(B):\n    def f(self):\n        self.n[0] += 1\n        return self.n[0]\nx = A()\ndel A, B",
        "x.f()"),
    "a bound method of no name": (
        "class A:\n    n = 0\n    def f(self):\n        self.n += 1\n        return self.n\nf = A().f", "f()"),
    "a partial": ("f = functools.partial(lambda n: n.append(1) or len(n), [])", "f()"),
    "a cell of a property": (
        "def make():\n    n = [0]\n    class A:\n        p = property(lambda self: n.append(1) or len(n))\n    return A()\nx = make()",
        "x.p"),
    "a cached function": ("n = 0\n@functools.cache\ndef outer(n=[0]):\n    n[0] += 1\n    return n[0]",
                          "outer.__wrapped__()"),
    "slots": ("class A:\n    __slots__ = ('n',)\nx = A()\nx.n = 0",
              "def f(x):\n    x.n += 1\n    return x.n\ny = f(x)\ny"),
    "a str": ("class A(str):\n    n = 0\nx = A('a')", "vars(x).update(n=x.n + 1)\nx.n"),
    "a member of an Enum": ("class E(enum.Enum):\n    A = 1\nx = E.A\nx.n = 0", "x.n += 1\nx.n"),
}  # fmt: skip


@pytest.mark.parametrize("way", HELD)
def test_state_that_only_a_function_or_a_class_holds_is_watched(way: str) -> None:
    before, code = HELD[way]
    names = defined(before)
    run = asked(code, names=names, python="undoable")
    assert run.calls[0][1].status == "done", run.calls[0][1].text
    assert run.diff.changes
    assert run.undo() == ()
    again = asked(code, names=names, python="undoable")
    assert again.calls[0][1].value == run.calls[0][1].value


# ── tools ─────────────────────────────────────────────────────────────────────────────────────────


class Cart:
    """Holds what was added."""

    def __init__(self, items: list[int]) -> None:
        self.items = items

    def add(self, item: int) -> int:
        """Add an item.

        Args:
            item: The item
        """
        self.items.append(item)
        return len(self.items)

    def __call__(self, item: int) -> int:
        """Add an item.

        Args:
            item: The item
        """
        return self.add(item)


def adding(items: list[int]) -> Callable[[int], int]:
    def add(item: int) -> int:
        """Add an item.

        Args:
            item: The item
        """
        items.append(item)
        return len(items)

    return add


MADE: dict[str, Callable[[list[int]], Any]] = {
    "a bound method": lambda items: Cart(items).add,
    "a closure": adding,
    "a decorated closure": lambda items: _logged(adding(items)),
}


def _logged(function: Callable[[int], int]) -> Callable[[int], int]:
    def add(item: int) -> int:
        """Add an item.

        Args:
            item: The item
        """
        return function(item)

    return add


@pytest.mark.parametrize("kind", MADE)
def test_what_a_tool_changes_is_undone_whatever_kind_of_function_it_is(kind: str) -> None:
    items = [1]
    names: Names = {"items": items}
    run = asked(("add", {"item": 2}), names=names, tools=[MADE[kind](items)], undo=True)
    assert run.calls[0][1].value == 2
    assert str(run.diff.changes[0]) == "items changed: 1 → 2 elements"
    assert run.undo() == ()
    assert items == [1]


def test_what_is_named_is_copied_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("archytas_nb.undo.transaction.BYTES", 1000)
    for first, second in itertools.permutations(["a", "b"]):
        names: Names = {"a": np.zeros(100), "b": np.zeros(100)}
        run = asked(f"{first}[0] = 1", names=names, python="undoable")
        assert [note.name for note in run.diff.not_kept] == [second]
        assert run.undo() == ()
        assert names[first][0] == 0


def test_an_unrelated_frame_that_changes_is_reported_too() -> None:
    frame = pd.DataFrame({"x": [1, 2]})
    names: Names = {"frame": frame, "other": 1}
    held = [frame]

    def touch() -> int:
        """Touch."""
        held[0].loc[0, "x"] = 9
        return 0

    run = asked(("touch", {}), names=names, tools=[touch], undo=True)
    assert [each.name for each in run.diff.changes] == ["frame"]
    run.undo()
    assert frame.x[0] == 1


WAYS_TO_THE_NAMESPACE = [
    "g = globals()",
    "g = [globals()]",
    "def g(ns=globals()): return ns",
    "g = (lambda ns: lambda: ns)(globals())",
    "class g: ns = globals()",
    "g = functools.partial(eval, 'x', globals())",
    "g = collections.ChainMap({}, globals())",
    "g = types.MappingProxyType(globals())",
    "g = types.SimpleNamespace(ns={'deep': (globals(),)})",
    "g = np.array([globals()], dtype=object)",
    "g = operator.itemgetter('x')\nh = functools.partial(g, globals())",
    "g = collections.UserDict()\ng.data = globals()",
]


@pytest.mark.parametrize("code", WAYS_TO_THE_NAMESPACE)
def test_the_namespace_is_no_content_of_what_refers_to_it(code: str) -> None:
    names: Names = {"__name__": "elsewhere", "rows": [1]}
    exec("import collections, functools, operator, types\nimport numpy as np\n" + code, names)
    with transaction(namespace=names) as t:
        names["rows"].append(2)
        names["new"] = 1
    assert [each.name for each in t.diff.changes] == ["new", "rows"]
    names["mine"] = [5]
    assert t.undo() == ()
    assert names["rows"] == [1]
    assert "new" not in names
    assert names["mine"] == [5]


def test_the_dict_of_a_module_is_no_content_either() -> None:
    names: Names = {"g": vars(json), "rows": [1]}
    with transaction(namespace=names) as t:
        json.probe = 5  # type: ignore[attr-defined]
        del json.probe  # type: ignore[attr-defined]
        names["rows"].append(2)
    assert [each.name for each in t.diff.changes] == ["rows"]
    assert [str(each) for each in t.diff.not_watched] == ["g (module)"]


def test_a_module_of_the_user_is_shown_as_not_watched() -> None:
    with transaction(namespace={"mine": types.ModuleType("mine"), "json": json}) as t:
        pass
    assert [each.name for each in t.diff.unseen] == ["mine"]


def test_a_class_that_is_registered_with_an_abstract_one_is_seen_and_undone() -> None:
    names: Names = {"__name__": "__main__"}
    exec("import abc\nclass Shape(abc.ABC): pass\nShape.register(int)", names)
    shape = names["Shape"]
    with transaction(namespace=names) as t:
        shape.register(str)
        assert issubclass(str, shape)
    assert [each.name for each in t.diff.changes] == ["Shape"]
    assert t.undo() == ()
    assert not issubclass(str, shape)
    assert issubclass(int, shape)
    assert t.redo() == ()
    assert issubclass(str, shape)


def test_an_undo_among_very_many_objects_keeps_nothing_that_nobody_changed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for module in ("holders", "snapshot"):
        monkeypatch.setattr(f"archytas_nb.undo.{module}.OBJECTS", 50)
    names: Names = {"rows": [{"a": [i, [i]]} for i in range(100)], "few": [[1]]}
    before = repr(names)
    with transaction(namespace=names) as t:
        names["rows"].append({"a": [1]})
        names["few"][0].append(2)
        names["made"] = [names["rows"]]
    assert t.undo() == ()
    assert repr(names) == before
    assert t.redo() == ()
    assert t.undo() == ()
    assert repr(names) == before


def test_what_a_variable_still_leads_to_is_not_lost() -> None:
    names: Names = {"__builtins__": {}, "rows": [1]}
    with transaction(namespace=names) as t:
        exec("def hold(it): return lambda: it\nheld = hold(rows)", names)
    assert t.undo() == ()
    assert names == {"__builtins__": {}, "rows": [1]}
