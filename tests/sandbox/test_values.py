"""Values cross the border of the sandbox by an exact table of types, and come back as they were."""

from __future__ import annotations

import builtins
import collections
import dataclasses
import datetime as dt
import enum
import fractions
import math
import pathlib
import re
import types
import uuid
import zoneinfo
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import attrs
import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel
from pydantic_monty import Monty, MontyError

from archytas_nb.loop.events import CallOutcome
from archytas_nb.loop.program_protocol import COLUMN_AS_TEXT
from archytas_nb.sandbox.handles import Handles
from archytas_nb.sandbox.inputs import as_input, call_of
from archytas_nb.sandbox.short import MAX_SHORT, short
from archytas_nb.sandbox.snapshots import exception_text
from archytas_nb.sandbox.values import MAX_ITEMS, from_sandbox, to_sandbox
from archytas_nb.tools.render import is_lazy, render
from archytas_nb.tools.texts import safe_repr
from archytas_nb.tools.tool import Tool
from tests.sandbox.direct import pool

__all__ = ["pool"]


class Color(enum.Enum):
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 3


class Letter(str, enum.Enum):  # noqa: UP042
    A = "a"


class Shape(enum.Enum):
    BOX = (1, 2)


class Word(str):  # noqa: SLOT000
    """Text that says something else of itself."""

    def __str__(self) -> str:
        return "lie"

    def __eq__(self, other: object) -> bool:
        return True

    __hash__ = str.__hash__


class Meters(float):
    pass


class OwnList(list):  # type: ignore[type-arg]
    pass


class OwnDict(dict):  # type: ignore[type-arg]
    pass


class Plain:
    def __init__(self) -> None:
        self.secret = 1


class Hostile:
    """An object of which everything raises."""

    def __getattribute__(self, name: str) -> Any:
        raise RuntimeError(name)

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    __hash__ = None  # type: ignore[assignment]


class Point(NamedTuple):
    x: int
    y: Any


@dataclasses.dataclass
class Order:
    id: int
    parts: Any = None
    _hidden: str = "no"


class Model(BaseModel):
    price: float
    order: Any = None


@attrs.define
class Part:
    size: int


CYCLE: list[Any] = [1]
CYCLE.append(CYCLE)
UTC = dt.timezone.utc  # noqa: UP017
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")
DAY = dt.date(2024, 2, 29)
TIME = dt.datetime(2024, 2, 29, 10, 30, 0, 5)  # noqa: DTZ001

SAME = "the same value"
CROSSING: list[tuple[Any, Any]] = [
    (None, SAME), (True, SAME), (False, SAME), (0, SAME), (2**80, SAME), (-1, SAME),
    (1.5, SAME), (-0.0, SAME), (math.inf, SAME), ("", SAME), ("é\n\0", SAME), ("x" * 100_000, SAME),
    (b"a\xff", SAME), (bytearray(b"a"), b"a"), ([], SAME), ([1, [2, "a"]], SAME), ((), SAME),
    ((1,), SAME), ({1, 2}, SAME), (frozenset({1}), SAME), ({}, SAME), ({"a": {1: (2,)}}, SAME),
    ({(1, 2): 3, None: 4}, SAME), (DAY, SAME), (TIME, SAME), (TIME.replace(tzinfo=UTC), SAME),
    (TIME.replace(tzinfo=BERLIN), TIME.replace(tzinfo=dt.timezone(dt.timedelta(hours=1)))),
    (dt.time(1, 2, 3, 4), SAME), (dt.time(1, tzinfo=UTC), SAME), (dt.timedelta(-1, 2, 3), SAME),
    (dt.timedelta.max, SAME), (Decimal("1.10"), SAME), (Decimal("-Infinity"), SAME),
    (range(3), [0, 1, 2]), ({1: 2}.keys(), [1]), ({1: 2}.items(), [(1, 2)]),
    (collections.deque([1]), [1]), (collections.OrderedDict(a=1), {"a": 1}),
    (collections.defaultdict(list, a=[1]), {"a": [1]}), (collections.Counter("aab"), {"a": 2, "b": 1}),
    (types.MappingProxyType({"a": 1}), {"a": 1}), (Color.RED, "red"), (Level.HIGH, 3),
    (Letter.A, "a"), (Shape.BOX, "BOX"), (Word("truth"), "truth"), (Meters(1.5), 1.5),
    (np.int64(3), 3), (np.uint8(3), 3), (np.float32(0.5), 0.5), (np.float64(0.5), 0.5),
    (np.bool_(True), True), (np.str_("a"), "a"), (np.array(3), 3), (np.datetime64("NaT"), None),
    (np.datetime64("2024-02-29"), DAY), (np.datetime64(TIME), TIME), (np.datetime64(TIME, "ns"), TIME),
    (np.timedelta64(3, "s"), dt.timedelta(seconds=3)), (np.timedelta64(3000, "ns"), dt.timedelta(microseconds=3)),
    (pd.NaT, None), (pd.NA, None), (pd.Timestamp(TIME), TIME),
    (pd.Timestamp("2024-02-29", tz="UTC"), dt.datetime(2024, 2, 29, tzinfo=UTC)),
    (pd.Timedelta("1s"), dt.timedelta(seconds=1)), (Point(1, np.int64(2)), (1, 2)),
    ([pd.NaT, np.int64(1), Color.RED], [None, 1, "red"]), ({Color.RED: np.float64(1)}, {"red": 1.0}),
    (list(range(MAX_ITEMS)), SAME),
]  # fmt: skip

HANDLES: list[Any] = [
    pd.Timestamp("2024-02-29 00:00:00.000000001"), pd.Timedelta("1ns"), pd.Period("2024"),
    pd.Interval(1, 2), np.datetime64("2024-02-29T00:00:00.000000001"), np.timedelta64(3, "ns"),
    np.timedelta64(3, "Y"), np.longdouble(1.5), np.complex64(1), np.array([1]), 1j,
    pd.DataFrame({"a": [1]}), pd.Series([1]), pd.Index([1]), pl.DataFrame({"a": [1]}),
    pl.Series([1]), pl.DataFrame().lazy(), list(range(MAX_ITEMS + 1)), dict.fromkeys(range(MAX_ITEMS + 1)),
    range(10**12), CYCLE, OwnList([1]), OwnDict(a=1), Plain(), Plain, len, print, int,
    lambda: 1, ..., NotImplemented, slice(1), iter([1]), (each for each in [1]), uuid.UUID(int=1),
    pathlib.Path("x"), fractions.Fraction(1, 2), memoryview(b"a"), ValueError("x"), math, UTC,
    BERLIN, object(), staticmethod(len), property(), re.match("a", "a"),
]  # fmt: skip


def crossed(pool: Monty, value: Any, text: str = "value") -> Any:
    handles = Handles()
    with pool.checkout() as session:
        found = session.feed_run(text, inputs={"value": to_sandbox(value, handles)})
    return from_sandbox(found, handles)


@pytest.mark.parametrize(("value", "expected"), CROSSING, ids=lambda each: repr(each)[:30])
def test_a_value_of_the_table_crosses_exactly(pool: Monty, value: Any, expected: Any) -> None:
    expected = value if isinstance(expected, str) and expected == SAME else expected
    found = crossed(pool, value)
    assert type(found) is type(expected) or isinstance(value, Point)
    assert repr(found) == repr(expected) or found == expected


@pytest.mark.parametrize("value", HANDLES, ids=lambda each: type(each).__name__)
def test_any_other_value_is_a_handle_for_the_same_object(pool: Monty, value: Any) -> None:
    assert crossed(pool, value) is value
    assert crossed(pool, value, "value is value and value == value") is True
    assert crossed(pool, [value], "value[0]") is value
    assert crossed(pool, {"a": (value,)})["a"][0] is value
    with pytest.raises(MontyError):
        crossed(pool, value, "value + 1")


@pytest.mark.parametrize("value", HANDLES, ids=lambda each: type(each).__name__)
def test_in_a_text_of_a_program_an_object_has_its_own_text(pool: Monty, value: Any) -> None:
    text = safe_repr(value) if is_lazy(value) else render(value).text
    assert crossed(pool, value, "f'a {value} and {value!r}.'") == f"a {text} and {text}."
    assert crossed(pool, [value, 1], "str(value[0])") == text
    assert crossed(pool, value, "'no {value}'") == "no {value}"


@given(st.lists(st.text("a'\"\\\\() ,\n", max_size=6), min_size=1, max_size=3, unique=True))
@settings(deadline=None, max_examples=25)
def test_names_of_columns_do_not_end_the_text_of_a_handle(pool: Monty, names: list[str]) -> None:
    frame = pd.DataFrame([[1] * len(names)], columns=names)
    assert crossed(pool, frame, "f'<{value}>'") == f"<{render(frame).text}>"


@given(st.text("a(_handle='0\"\\\\)", max_size=80))
def test_any_other_text_of_a_program_stays(text: str) -> None:
    handles = Handles()
    handles.wrapped(pd.DataFrame())
    assert handles.in_words(text) == text


def test_an_object_that_raises_at_every_touch_is_a_handle(pool: Monty) -> None:
    value = Hostile()
    assert crossed(pool, value) is value
    assert crossed(pool, [value], "value[0]") is value
    assert 0 < len(short([value])) <= MAX_SHORT


def test_nan_stays_nan(pool: Monty) -> None:
    for value in (math.nan, np.float64("nan"), np.float32("nan")):
        found = crossed(pool, value)
        assert type(found) is float
        assert math.isnan(found)


@pytest.mark.parametrize("value", [Order(1, [np.int64(2)]), Model(price=1.5), Part(3)])
def test_fields_of_a_record_are_read_and_nothing_else(pool: Monty, value: Any) -> None:
    name = {Order: "id", Model: "price", Part: "size"}[type(value)]
    assert crossed(pool, value, f"value.{name}") == getattr(value, name)
    assert crossed(pool, value) is value
    assert crossed(pool, value, "value == value") is True
    handles = Handles()
    with pool.checkout() as session:
        for other in ("_hidden", "__init__", "model_dump", "__dataclass_fields__", "__dict__"):
            with pytest.raises(MontyError):
                session.feed_start(
                    f"value.{other}", inputs={"value": to_sandbox(value, handles)}
                ).resume()
        assert session.feed_run("value", inputs={"value": to_sandbox(value, handles)}) is value


def test_what_a_record_holds_is_converted_too(pool: Monty) -> None:
    inner = Plain()
    value = Order(1, [np.int64(2), pd.NaT, inner, Point(1, Color.RED)])
    assert crossed(pool, value, "value.parts[:2]") == [2, None]
    assert crossed(pool, value, "value.parts[2]") is inner
    assert crossed(pool, value, "value.parts[3].y") == "red"


def test_classes_of_one_name_are_told_apart(pool: Monty) -> None:
    handles = Handles()
    with pool.checkout() as session:
        for number in range(3):
            cls = type("Same", (), {"number": number})
            value = cls()
            assert session.feed_run("value", inputs={"value": to_sandbox(value, handles)}) is value


def test_a_handle_is_found_again_after_the_session_was_restored(pool: Monty) -> None:
    handles = Handles()
    value = Plain()
    with pool.checkout() as session:
        session.feed_run("kept = [value]", inputs={"value": to_sandbox(value, handles)})
        dump = session.dump()
    with pool.checkout() as session:
        session.load_session(dump)
        found = session.feed_run("kept")
        assert from_sandbox(found, handles)[0] is value
        assert from_sandbox(found, handles.copy())[0] is value


def test_an_object_of_a_class_of_the_program_is_its_fields(pool: Monty) -> None:
    text = "class A:\n    def __init__(self):\n        self.x = 1\n[A()]"
    with pool.checkout() as session:
        assert from_sandbox(session.feed_run(text), Handles()) == [{"x": 1}]


# ── arguments of tools ────────────────────────────────────────────────────────────────────────────


def any_of(annotation: Any) -> Tool:
    def take(value: Any) -> None:
        """Take a value."""

    take.__annotations__["value"] = annotation
    return Tool.from_function(take)


def received(annotation: Any, value: Any, namespace: dict[str, Any] | None = None) -> Any:
    """The object that a function receives for a value of a program."""
    variables = {} if namespace is None else namespace
    handles = Handles(variables)
    tool = any_of(annotation)
    call = call_of(tool, [value], {}, handles, 1)
    bound = tool.bind({**call.input, **call.objects}, variables)
    assert not isinstance(bound, CallOutcome), bound.text
    return bound.kwargs["value"]


scalars: list[tuple[Any, st.SearchStrategy[Any]]] = [
    (int, st.integers()),
    (float, st.floats(allow_nan=False)),
    (str, st.text()),
    (bool, st.booleans()),
    (bytes, st.text().map(str.encode)),
    (dt.date, st.dates()),
    (dt.datetime, st.datetimes()),
    (dt.datetime, st.datetimes(timezones=st.just(UTC))),
    (dt.time, st.times()),
    (dt.timedelta, st.timedeltas(dt.timedelta(-9_999), dt.timedelta(9_999))),
    (Decimal, st.decimals(allow_nan=False, allow_infinity=False, places=3)),
]
containers = st.sampled_from(
    [
        (lambda kind: list[kind], lambda values: st.lists(values, max_size=4)),  # type: ignore[valid-type]
        (lambda kind: set[kind], lambda values: st.sets(values, max_size=4)),  # type: ignore[valid-type]
        (lambda kind: tuple[kind, ...], lambda values: st.lists(values, max_size=4).map(tuple)),  # type: ignore[valid-type]
        (lambda kind: dict[str, kind], lambda values: st.dictionaries(st.text(), values, max_size=4)),  # type: ignore[valid-type]
        (lambda kind: dict[int, kind], lambda values: st.dictionaries(st.integers(), values, max_size=4)),  # type: ignore[valid-type]
        (lambda kind: kind | None, lambda values: st.none() | values),
    ]
)  # fmt: skip


@settings(max_examples=200, deadline=None)
@given(st.data())
def test_a_tool_receives_the_value_that_a_program_gives(pool: Monty, data: st.DataObject) -> None:
    kind, values = data.draw(st.sampled_from(scalars))
    if data.draw(st.booleans()):
        of_kind, of_values = data.draw(containers)
        kind, values = of_kind(kind), of_values(values)
    value = data.draw(values)
    assert crossed(pool, value) == value
    assert received(kind, value) == value


@pytest.mark.parametrize(
    ("annotation", "value", "expected"),
    [
        (Color, "red", Color.RED),
        (Shape, "BOX", Shape.BOX),
        (Literal["a", 1], 1, 1),
        (Order, Order(1, None), Order(1, None)),
        (Model, Model(price=1.0), Model(price=1.0)),
        (Point, Point(1, 2), Point(1, 2)),
        (list[Order], [Order(1)], [Order(1)]),
        (Order, {"id": 3}, Order(3)),
        (uuid.UUID, uuid.UUID(int=1), uuid.UUID(int=1)),
        (pathlib.Path, pathlib.Path("x"), pathlib.Path("x")),
        (pd.Timestamp, TIME, pd.Timestamp(TIME)),
        (float, math.inf, math.inf),
        (dict[bool, int], {True: 1}, {True: 1}),
        (dict[dt.date, int], {DAY: 1}, {DAY: 1}),
        (list[int], list(range(20_000)), list(range(20_000))),
        (float | None, None, None),
    ],
)
def test_a_tool_receives_an_equal_value(annotation: Any, value: Any, expected: Any) -> None:
    found = received(annotation, value)
    assert found == expected
    assert type(found) is type(expected)


def test_a_tool_receives_the_same_object_by_reference() -> None:
    df = pd.DataFrame({"a": [1]})
    other = pd.DataFrame({"b": [1]})
    assert received(pd.DataFrame, df, {"df": df}) is df
    assert received(pd.DataFrame, other, {"df": df}) is other
    assert received(list[pd.DataFrame], [df, other], {"df": df})[1] is other
    assert received(pd.DataFrame | str, df, {"df": df}) is df


def test_an_object_without_a_name_gets_one_that_is_free() -> None:
    namespace = {"Plain_1": 5}
    handles = Handles(namespace)
    first, second = Plain(), Plain()
    assert handles.name(first) == handles.name(first) != handles.name(second)
    assert handles.name(first) not in namespace


@pytest.mark.parametrize("annotation", [str, list[str], int])
def test_an_object_does_not_reach_an_argument_that_takes_values(annotation: Any) -> None:
    tool = any_of(annotation)
    handles = Handles({"df": (df := pd.DataFrame())})
    with pytest.raises(TypeError):
        call_of(tool, [df], {}, handles, 1)


@pytest.mark.parametrize(
    ("annotation", "value"),
    [
        (Any, Plain()),
        (Any, DAY),
        (Any, (1, {2})),
        (Any, b"\xff"),
        (list[Any], [Plain(), DAY]),
        (dict[str, Any], {"a": Order(1, None), "b": Decimal(1)}),
        (list, [TIME]),
        (object, {1: 2}),
    ],
)
def test_an_argument_of_any_type_receives_the_value_itself(annotation: Any, value: Any) -> None:
    found = received(annotation, value)
    assert found == value
    assert type(found) is type(value)
    [number] = received(list[Any], [math.nan])
    assert math.isnan(number)


@pytest.mark.parametrize("value", [b"\xff", {(1, 2): 3}, CYCLE])
def test_what_json_cannot_hold_is_refused(value: Any) -> None:
    with pytest.raises(TypeError):
        as_input(value, Handles().reference)


def test_arguments_that_do_not_fit_are_refused() -> None:
    tool = any_of(int)
    with pytest.raises(TypeError):
        call_of(tool, [1, 2], {}, Handles(), 1)
    with pytest.raises(TypeError):
        call_of(tool, [1], {"value": 2}, Handles(), 1)


# ── for the model ─────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (None, "None"), (1, "1"), ("a'b", '"a\'b"'), ([1, (2,), {3}], "[1, (2,), {3}]"),
        (set(), "set()"), (frozenset({1}), "frozenset({1})"), ({"a": [1]}, "{'a': [1]}"),
        (Order(1, "x"), "Order(id=1, parts='x')"), (Point(1, 2), "Point(x=1, y=2)"),
        (Plain(), "<Plain>"), (np.zeros((2, 3)), "<ndarray of shape (2, 3)>"), (Color.RED, "'red'"),
        ("a\nb\u202e", "'a\\nb\\u202e'"), (fractions.Fraction(1, 3), "Fraction(1, 3)"),
        ([pathlib.PurePosixPath("a/b")], "[PurePosixPath('a/b')]"),
    ],
)  # fmt: skip
def test_a_short_text_says_what_a_value_is(value: Any, expected: str) -> None:
    assert short(value) == expected


@pytest.mark.parametrize(
    "value",
    ["x" * 5_000_000, list(range(1_000_000)), 10**100_000, CYCLE, [["x" * 50] * 50] * 50,
     dict.fromkeys(range(9999), "y" * 99), b"x" * 5_000_000, pd.DataFrame({"a": [1] * 9_999})],
    ids=lambda each: type(each).__name__,
)  # fmt: skip
def test_a_short_text_is_one_line_of_at_most_200_characters(value: Any) -> None:
    text = short(value)
    assert 0 < len(text) <= MAX_SHORT
    assert text.isprintable()


@pytest.mark.parametrize("kind", [*vars(builtins).values(), *vars(types).values()])
def test_a_value_of_the_sandbox_that_has_no_parts_is_no_column(kind: Any) -> None:
    if isinstance(kind, type):
        text = f"TypeError: '{kind.__name__}' object is not subscriptable"
        assert exception_text(_Shown(text)) == text


@pytest.mark.parametrize("name", ["DataFrame", "GeoDataFrame", "LazyFrame", "Series", "DataArray"])
def test_an_object_that_a_program_cannot_index_is_told_with_the_way(name: str) -> None:
    text = f"TypeError: '{name}' object is not subscriptable"
    assert COLUMN_AS_TEXT in exception_text(_Shown(text))


@dataclasses.dataclass
class _Shown:
    """An error of the sandbox, by what it displays."""

    text: str

    def display(self, _: str) -> str:
        return self.text
