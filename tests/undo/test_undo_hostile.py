"""Objects and namespaces that raise or mislead when they are read: a run goes on, and nothing is silent or wrong."""

from __future__ import annotations

import collections
import datetime as dt
import decimal
import enum
import functools
import pathlib
import time
import types
import uuid
from collections.abc import Callable
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.objects.equality import differing, same_value, same_values
from archytas_nb.undo.snapshot import Snapshot, restore
from archytas_nb.undo.transaction import transaction
from tests.undo.test_undo_reach import asked

Names = dict[Any, Any]


# ── whatever stands in the namespace ──────────────────────────────────────────────────────────────


class Fault(BaseException):
    """The error that the objects here raise."""


class UnhashableType(type):
    def __hash__(cls) -> int:
        raise Fault


class RaisingType(type):
    def __getattribute__(cls, name: str) -> Any:
        raise Fault(name)

    def __eq__(cls, other: object) -> bool:
        raise Fault

    def __hash__(cls) -> int:
        raise Fault


def deep(number: int) -> Any:
    value: Any = ()
    for _ in range(number):
        value = (value, 1)
    return value


def wide(number: int) -> Any:
    """A tuple whose parts would be compared 2 ** number times."""
    value: Any = (1,)
    for _ in range(number):
        value = (value, value)
    return value


def without_module() -> Any:
    return type("Odd", (), {"__module__": None})()


class Raises:
    """Raises whatever it is asked."""

    def __getattribute__(self, name: str) -> Any:
        raise Fault(name)

    def __eq__(self, other: object) -> bool:
        raise Fault

    def __hash__(self) -> int:
        raise Fault

    def __repr__(self) -> str:
        raise Fault


class NamelessKey(str):
    """A key whose equality raises; its hash does not."""

    __slots__ = ()

    def __eq__(self, other: object) -> bool:
        raise Fault

    def __hash__(self) -> int:
        return 7


HOSTILE: dict[str, Callable[[], Any]] = {
    "a signalling NaN": lambda: decimal.Decimal("sNaN"),
    "signalling NaNs in a list": lambda: [decimal.Decimal("sNaN")],
    "a deep tuple": lambda: deep(3000),
    "a wide tuple": lambda: wide(100),
    "a long integer": lambda: 10**5000,
    "a long integer as a key": lambda: {10**5000: [1], Fraction(10**5000, 3): [1]},
    "a range of long integers": lambda: range(10**5000),
    "a class without a module": lambda: type(without_module()),
    "an object without a module": without_module,
    "a class that has no hash": lambda: UnhashableType("Odd", (), {}),
    "an object whose class has no hash": lambda: UnhashableType("Odd", (), {})(),
    "such objects in a list": lambda: [1, UnhashableType("Odd", (), {})(), [1]],
    "such objects in an array": lambda: _array_of_objects(UnhashableType("Odd", (), {})(), 1),
    "a list whose class has no hash": lambda: UnhashableType("Odd", (list,), {})([1]),
    "a class that raises": lambda: RaisingType("Odd", (), {}),
    "an object whose class raises": lambda: RaisingType("Odd", (), {})(),
    "such objects in a dict": lambda: {"k": RaisingType("Odd", (), {})()},
    "an object that raises": Raises,
    "objects that raise": lambda: [Raises(), {"k": Raises()}],
    "objects that raise in a Series": lambda: pd.Series(_array_of_objects(Raises(), 1), dtype=object),
    "an object without a class": lambda: type("Odd", (), {"__class__": property(lambda _: Fault())})(),
    "a dict of itself": lambda: _cycle({}),
    "keys that are no text": lambda: {1: [1], None: [2], (1, 2): [3]},
    "attributes that are no text": lambda: _with_odd_attributes(),
    "an empty cell": lambda: types.FunctionType(
        (lambda: 0).__code__.replace(co_freevars=("x",)), {}, "f", None, (types.CellType(),)),
}  # fmt: skip


def _array_of_objects(*objects: Any) -> np.ndarray:
    """An array of objects that nothing has looked at; `numpy.array` may ask each what it is."""
    array = np.empty(len(objects), dtype=object)
    for place, each in enumerate(objects):
        array[place] = each
    return array


def _cycle(value: dict[Any, Any]) -> dict[Any, Any]:
    value["self"] = value
    return value


def _with_odd_attributes() -> Any:
    value = types.SimpleNamespace()
    vars(value).update({1: [1], (2,): [2]})
    return value


@pytest.mark.parametrize("kind", HOSTILE)
def test_a_run_goes_on_whatever_is_in_the_namespace(kind: str) -> None:
    names: Names = {"odd": HOSTILE[kind](), "again": HOSTILE[kind](), "rows": [1]}
    names["both"] = [names["odd"], names["again"]]
    code = "rows.append(2)\nodd = again\nnew = again\n0"
    run = asked(code, names=names, python="undoable", tools=[])
    assert run.calls[0][1].status == "done", run.calls[0][1].text
    assert "rows" in {each.name for each in run.diff.changes}
    first = names["both"][0]
    run.undo()
    assert names["rows"] == [1]
    assert names["odd"] is first
    assert "new" not in names


@pytest.mark.parametrize("key", [5, None, (1, 2), b"x", NamelessKey("rows2")])
@pytest.mark.parametrize("context", ["none", "all"])
def test_a_key_of_the_namespace_may_be_anything(key: Any, context: Any) -> None:
    names: Names = {"rows": [1], key: [2]}
    run = asked("rows.append(2)\n0", names=names, python="undoable", context=context)
    assert run.calls[0][1].status == "done", run.calls[0][1].text
    assert [each.name for each in run.diff.changes] == ["rows"]
    assert [each.why for each in run.diff.not_watched] == [
        "a key of the namespace that is not plain text"
    ]
    assert run.undo() == ()
    assert names["rows"] == [1]


# ── containers that show something else than they contain ─────────────────────────────────────────


class Upper(list[Any]):
    def __iter__(self) -> Any:
        return (str(each).upper() for each in list.__iter__(self))

    def __len__(self) -> int:
        return 0

    def __getitem__(self, key: Any) -> Any:
        raise IndexError


class UpperSet(set[Any]):
    def __iter__(self) -> Any:
        return (str(each).upper() for each in set.__iter__(self))


class Reversed(collections.deque[Any]):
    def __iter__(self) -> Any:
        return reversed([*collections.deque.__iter__(self)])


class Double(dict[Any, Any]):
    def items(self) -> Any:
        return [(key, value * 2) for key, value in dict.items(self)]

    def values(self) -> Any:
        return [value * 2 for value in dict.values(self)]

    def __getitem__(self, key: Any) -> Any:
        return dict.__getitem__(self, key) * 2

    def copy(self) -> Any:
        return {}


class Ordered(collections.OrderedDict[Any, Any]):
    def __iter__(self) -> Any:
        return iter(())

    def __setitem__(self, key: Any, value: Any) -> None:
        collections.OrderedDict.__setitem__(self, key, value * 2)


class Empty(tuple[Any, ...]):
    __slots__ = ()

    def __iter__(self) -> Any:
        return iter(())


MISLEADING: dict[str, tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = {
    "list": (Upper(["a", "b"]), lambda v: v.append("c"), lambda v: [*list.__iter__(v)]),
    "set": (UpperSet(["a", "b"]), lambda v: v.add("c"), lambda v: {*set.__iter__(v)}),
    "deque": (Reversed(["a", "b", "c"]), lambda v: v.pop(), lambda v: [*collections.deque.__iter__(v)]),
    "dict": (Double(a=1, b=2), lambda v: v.pop("a"), lambda v: [*dict.items(v)]),
    "OrderedDict": (Ordered(a=1, b=2), lambda v: v.move_to_end("a"), lambda v: [*collections.OrderedDict.items(v)]),
    "tuple": (Empty(([1],)), lambda v: tuple.__getitem__(v, 0).append(2), lambda v: [*map(tuple, tuple.__iter__(v))]),
}  # fmt: skip


@pytest.mark.parametrize("kind", MISLEADING)
def test_containers_are_read_and_restored_as_what_they_are(kind: str) -> None:
    value, change, read = MISLEADING[kind]
    before = read(value)
    snapshot = Snapshot({"v": value})
    assert list(snapshot.changed()) == []
    change(value)
    after = read(value)
    assert after != before
    found = list(snapshot.changed())
    assert found
    assert restore(record for record, *_ in found) == []
    assert read(value) == before


def test_what_does_not_come_back_as_it_was_is_said() -> None:
    class Refuses:
        @property
        def inner(self) -> Any:
            raise NotImplementedError

    class Key:
        """A key that equals all others later on."""

        same = False

        def __eq__(self, other: object) -> bool:
            return Key.same or self is other

        def __hash__(self) -> int:
            return 1

    names: Names = {"d": {Key(): 1, Key(): 2}}
    with transaction("d", namespace=names) as t:
        names["d"].clear()
    Key.same = True
    notes = t.undo()
    assert [(note.name, "still changed" in note.why) for note in notes] == [("d", True)]


def test_an_element_that_cannot_be_hashed_any_more_loses_nothing() -> None:
    class Element:
        broken = False

        def __hash__(self) -> int:
            if Element.broken:
                raise Fault
            return 1

        def __eq__(self, other: object) -> bool:
            return self is other

    for make in (lambda: {Element(), 1}, lambda: {Element(): 1, 2: 3}):
        Element.broken = False
        value: Any = make()
        snapshot = Snapshot({"v": value})
        value.pop() if isinstance(value, set) else value.popitem()
        left = len(value)
        Element.broken = True
        notes = restore(record for record, *_ in snapshot.changed())
        assert [note.name for note in notes] == ["v"]
        assert len(value) == left


# ── objects that only look equal ──────────────────────────────────────────────────────────────────


class WithAttributes(tuple[Any, ...]):  # noqa: SLOT001
    pass


class One(NamedTuple):
    x: Any


class Other(NamedTuple):
    x: Any


class Float(np.float64):
    pass


class Home(pathlib.PurePosixPath):
    pass


class Share(Fraction):
    pass


class Day(pd.offsets.Day):
    pass


def with_note(value: Any, note: Any) -> Any:
    value.note = note
    return value


LOOKS_EQUAL: dict[str, tuple[Any, Any]] = {
    "CustomBusinessDay": (
        pd.offsets.CustomBusinessDay(holidays=["2024-01-01"]), pd.offsets.CustomBusinessDay(holidays=["2024-01-02"])),
    "CategoricalDtype": (
        pd.CategoricalDtype([f"c{i}" for i in range(500)]),
        pd.CategoricalDtype([f"c{i}" if i != 250 else "x" for i in range(500)])),
    "Timestamp": (pd.Timestamp("2024-01-01").as_unit("s"), pd.Timestamp("2024-01-01").as_unit("ns")),
    "Timedelta": (pd.Timedelta("1h").as_unit("s"), pd.Timedelta("1h").as_unit("ns")),
    "dtype": (np.dtype("i4", metadata={"a": 1}), np.dtype("i4", metadata={"a": 2})),
    "tuple subclass": (with_note(WithAttributes((1,)), 1), with_note(WithAttributes((1,)), 2)),
    "range": (range(0), range(5, 5)),
    "float": (0.0, -0.0),
    "complex": (0j, complex(0, -0.0)),
    "bool": (1, True),
    "datetime": (dt.datetime(2024, 1, 1, fold=0, tzinfo=dt.UTC), dt.datetime(2024, 1, 1, fold=1, tzinfo=dt.UTC)),
    "aware datetime": (
        dt.datetime(2024, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), dt.datetime(2024, 1, 1, tzinfo=dt.UTC)),
    "timezone": (dt.timezone(dt.timedelta(hours=1)), dt.timezone(dt.timedelta(hours=1), "CET")),
    "Decimal": (decimal.Decimal("1.0"), decimal.Decimal("1.00")),
    "UUID": (uuid.UUID(int=1), uuid.UUID(int=1, is_safe=uuid.SafeUUID.safe)),
    "slice": (slice(0, [1]), slice(0, [1])),
    "struct_time": (time.struct_time((0,) * 9), time.struct_time((0,) * 9 + ("CET", 3600))),
    "str subclass": (type("S", (str,), {})("a"), type("S", (str,), {})("a")),
    "partial": (functools.partial(max, 1), functools.partial(max, 1)),
    "namedtuple": (One([1]), Other([1])),
}  # fmt: skip


@pytest.mark.parametrize("kind", LOOKS_EQUAL)
def test_an_object_that_only_looks_equal_is_another_one(kind: str) -> None:
    one, other = LOOKS_EQUAL[kind]
    assert not same_value(one, other)
    names: Names = {"x": one, "inside": [one], "key": {"k": one}, "pair": (1, [one])}
    code = "x = other\ninside[0] = other\nkey['k'] = other\npair[1][0] = other"
    with transaction(namespace=names) as t:
        names["other"] = other
        exec(code, names)
    assert {each.name for each in t.diff.changes} >= {"x", "inside", "key", "pair[1]"}
    assert t.undo() == ()
    assert all(
        each is one
        for each in (names["x"], names["inside"][0], names["key"]["k"], names["pair"][1][0])
    )


@pytest.mark.parametrize("value", [
    5, 10**30, "text" * 9, b"bytes", 2.5, float("nan"), 3j, None, range(3), (1, ("a", 2.0)), slice(1, 2),
    decimal.Decimal("1.5"), decimal.Decimal("sNaN"), Fraction(1, 3), uuid.UUID(int=3), dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    dt.time(1, fold=1), dt.timedelta(5), np.float32(5), np.str_("a"), np.datetime64("2024", "D"),
    pd.Timestamp("2024", tz="UTC"), pd.Timedelta("1h"), pathlib.PurePosixPath("a/b"), deep(3000),
], ids=lambda value: type(value).__name__)  # fmt: skip
def test_a_value_that_nothing_tells_apart_is_the_same(value: Any) -> None:
    import copy
    import pickle

    is_deep = isinstance(value, tuple) and isinstance(value[0], tuple)
    other = deep(3000) if is_deep else pickle.loads(pickle.dumps(value))
    assert same_value(value, copy.copy(value))
    assert same_value(value, other)


ATTRIBUTES: dict[str, Callable[[], Any]] = {
    "a path": lambda: Home("a"),
    "a float of numpy": lambda: Float(1.5),
    "an offset": Day,
    "a timestamp": lambda: type("Stamp", (dt.datetime,), {})(2024, 1, 1),
    "an integer": lambda: type("Integer", (int,), {})(1),
    "text": lambda: type("Text", (str,), {})("a"),
    "bytes": lambda: type("Bytes", (bytes,), {})(b"a"),
    "a fraction": lambda: Share(1, 3),
    "a decimal": lambda: type("Money", (decimal.Decimal,), {})(1),
    "a tuple": lambda: WithAttributes((1,)),
    "a named tuple": lambda: type("Point", (One,), {})(1),
    "a frozenset": lambda: type("Frozen", (frozenset,), {})([1]),
    "an OrderedDict": lambda: collections.OrderedDict(a=1),
    "a Counter": lambda: collections.Counter("ab"),
    "an array": lambda: np.zeros(2).view(type("Array", (np.ndarray,), {})),
    "a dtype of pandas": lambda: pd.CategoricalDtype(["a"]),
    "a function": lambda: lambda: 0,
    "a partial": lambda: functools.partial(max),
    "a class": lambda: type("Own", (), {"__module__": "__main__"}),
    "a member of an enum": lambda: enum.Enum("Colour", "RED").RED,  # type: ignore[attr-defined]
    "a UserDict": lambda: collections.UserDict(a=1),
}  # fmt: skip


@pytest.mark.parametrize("kind", ATTRIBUTES)
def test_attributes_of_any_object_are_watched_and_restored(kind: str) -> None:
    value = ATTRIBUTES[kind]()
    value.note = [1]
    names: Names = {"x": value, "inside": [value]}
    for change in (
        lambda: value.note.append(2),
        lambda: setattr(value, "note", 5),
        lambda: setattr(value, "new", 5),
    ):
        with transaction(namespace=names) as t:
            change()
        assert t.diff
        assert t.undo() == ()
        assert value.note == [1]
        assert not hasattr(value, "new")


def test_the_factory_of_a_defaultdict_is_watched_and_restored() -> None:
    names: Names = {"d": collections.defaultdict(list)}
    with transaction(namespace=names) as t:
        names["d"].default_factory = None
    assert len(t.diff.changes) == 1
    assert t.undo() == ()
    assert names["d"].default_factory is list


# ── arrays whose memory holds addresses ───────────────────────────────────────────────────────────


@pytest.mark.skipif(not hasattr(np.dtypes, "StringDType"), reason="numpy 1 has no such texts")
@pytest.mark.parametrize("missing", [{}, {"na_object": None}, {"na_object": np.nan}])
def test_texts_of_an_array_are_compared_and_copied_by_value(missing: dict[str, Any]) -> None:
    values = ["a" * 40, "b", "", "ä", *missing.values()]
    texts = np.array(values, dtype=np.dtypes.StringDType(**missing))
    names: Names = {"texts": texts}
    for number in range(4):
        with transaction(namespace=names) as t:
            texts[number] = "c" * len(texts[number])
        assert bool(t.diff) == (number != 2)
        assert t.undo() == ()
        assert texts.tolist()[:4] == values[:4]
    with transaction(namespace=names) as t:
        names["new"] = texts.copy()
        texts[:] = texts.copy()
    assert [each.name for each in t.diff.changes] == ["new"]


# ── differences in words ──────────────────────────────────────────────────────────────────────────

LARGE = 300_000


@pytest.mark.parametrize("kind", ["list", "dict", "set", "object"])
def test_the_words_about_a_large_object_are_few_and_name_the_first_differences(kind: str) -> None:
    values: Any = {
        "list": lambda: [float(i) for i in range(LARGE)],
        "dict": lambda: {i: float(i) for i in range(LARGE)},
        "set": lambda: {float(i) for i in range(LARGE)},
        "object": lambda: types.SimpleNamespace(**{f"a{i}": i for i in range(LARGE)}),
    }[kind]()
    counted = 0

    def words(change: Callable[[], Any]) -> list[str]:
        nonlocal counted
        snapshot = Snapshot({"v": values})
        change()
        ((_, _, words),) = snapshot.changed()
        counted += 1
        return words

    if kind == "list":
        assert words(lambda: values.__setitem__(LARGE // 2, -1.0)) == [
            f"[{LARGE // 2}]: {LARGE / 2} → -1.0"
        ]
        everything = words(lambda: values.__setitem__(slice(None), [-each - 1 for each in values]))
    elif kind == "dict":
        assert words(lambda: values.__setitem__(5, -1.0)) == ["[5]: 5.0 → -1.0"]
        assert words(lambda: values.__setitem__(-1, 0)) == ["[-1] added"]
        assert words(lambda: values.pop(7)) == ["[7] removed"]
        everything = words(
            lambda: values.update({key: -1 - value for key, value in values.items()})
        )
    elif kind == "set":
        assert words(lambda: values.add(-1.0)) == ["{-1.0} added"]
        everything = words(values.clear)
    else:
        assert words(lambda: setattr(values, "a5", -1)) == [".a5: 5 → -1"]
        everything = words(lambda: vars(values).clear())
    assert len(everything) <= 9
    assert sum(map(len, everything)) < 1000


VALUES = st.one_of(st.integers(-2, 2), st.floats(), st.booleans(), st.text(max_size=1), st.none())


@given(st.lists(st.tuples(VALUES, VALUES), max_size=6), st.integers(0, 1500))
def test_long_readings_are_compared_as_short_ones_are(
    pairs: list[tuple[Any, Any]], length: int
) -> None:
    padding = tuple(float(i) for i in range(length)), tuple(float(i) for i in range(length))
    old = *padding[0], *(each for each, _ in pairs)
    new = *padding[1], *(each for _, each in pairs)
    assert same_values(old, new) == all(map(same_value, old, new))
    assert list(differing(old, new)) == [
        i for i, (one, other) in enumerate(zip(old, new, strict=True)) if not same_value(one, other)
    ]
