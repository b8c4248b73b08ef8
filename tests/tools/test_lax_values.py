"""Values that pydantic would take for something else, types that were misread, and long refusals."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import functools
import math
from typing import Annotated, Any, Literal, NamedTuple, Protocol

import numpy as np
import pandas as pd
import pytest
from pydantic import AfterValidator, BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from archytas_nb.answers import Answers
from archytas_nb.errors import ToolError
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox

MISSING = object()


def tool(annotation: Any, default: Any = MISSING) -> Tool:
    def f(x):
        """Return what came.

        Args:
            x: A value.
        """
        return x

    f.__annotations__ = {"x": annotation, "return": object}
    if default is not MISSING:
        f.__defaults__ = (default,)
    return Tool.from_function(f)


def value(annotation: Any, sent: Any, namespace: dict[str, Any] | None = None) -> Any:
    outcome = tool(annotation).call({"x": sent}, namespace)
    assert outcome.status == "done", outcome.text
    return outcome.value


def refused(annotation: Any, sent: Any, namespace: dict[str, Any] | None = None) -> str:
    made = tool(annotation)
    assert made.call({"x": sent}, namespace).status == "error", made.call(
        {"x": sent}, namespace
    ).value
    return "\n".join(made.check({"x": sent}, namespace))


# ── Field(…) as a default ─────────────────────────────────────────────────────────────────────────


def test_the_bounds_of_a_field_as_default_are_enforced_and_in_the_schema() -> None:
    made = tool(int, Field(3, ge=1, le=5))
    assert made.call({}).value == 3
    assert made.call({"x": 5}).value == 5
    assert made.call({"x": 9}).status == made.call({"x": 0}).status == "error"
    assert made.schema()["properties"]["x"]["minimum"] == 1
    assert made.schema()["properties"]["x"]["maximum"] == 5


def test_every_kind_of_bound_is_enforced() -> None:
    for annotation, default, good, bad in [
        (int | None, Field(None, ge=1), 1, 0),
        (str, Field("ab", pattern="^[a-z]+$"), "xy", "XY"),
        (list[int], Field(default_factory=list, max_length=2), [1, 2], [1, 2, 3]),
        (float, Field(gt=0), 0.5, 0),
        (Annotated[int, Field(ge=1)], Field(2, le=3), 3, 4),
    ]:
        made = tool(annotation, default)
        assert made.call({"x": good}).value == good
        assert made.call({"x": bad}).status == "error"


# ── unknown fields inside an argument ─────────────────────────────────────────────────────────────


@dataclasses.dataclass
class Options:
    limit: int = 3
    inner: Options | None = None


class Loose(TypedDict, total=False):
    limit: int


class Model(BaseModel):
    limit: int = 3
    options: Options = Options()
    rows: list[Loose] = []


class Open(BaseModel):
    model_config = ConfigDict(extra="allow")
    limit: int = 3


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    limit: int = 3


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int = 9


class Dog(BaseModel):
    kind: Literal["dog"]
    bark: str = "wau"


class Pair(NamedTuple):
    lat: float
    lon: float = 0.0


def test_the_error_for_a_misspelled_field_has_its_path_and_a_suggestion() -> None:
    for annotation, sent, place in [
        (Options, {"limt": 3}, "x.limt"),
        (Loose, {"limt": 3}, "x.limt"),
        (Model, {"limt": 3}, "x.limt"),
        (Closed, {"limt": 3}, "x.limt"),
        (Model, {"options": {"limt": 3}}, "x.options.limt"),
        (Model, {"rows": [{"limit": 1}, {"limt": 3}]}, "x.rows[1].limt"),
        (Options, {"inner": {"inner": {"limt": 3}}}, "x.inner.inner.limt"),
        (list[Options], [{"limt": 3}], "x[0].limt"),
        (dict[str, Model], {"a": {"limt": 3}}, "x.a.limt"),
        (Options | str, {"limt": 3}, "x.limt"),
        (Model | None, {"limt": 3}, "x.limt"),
        (tuple[int, Options], [1, {"limt": 3}], "x[1].limt"),
        (Options, '{"limt": 3}', "x.limt"),
    ]:
        fault = refused(annotation, sent)
        assert "did you mean 'limit'?" in fault
        assert fault.startswith(f"{place}: ")
        assert len(tool(annotation).check({"x": sent})) == 1


def test_a_field_of_another_member_of_a_union_is_unknown() -> None:
    assert "bark" in refused(
        Annotated[Cat | Dog, Field(discriminator="kind")], {"kind": "cat", "bark": "x"}
    )
    assert "bark" in refused(Cat | Dog, {"kind": "cat", "bark": "x"})
    assert value(Cat | Dog, {"kind": "dog", "bark": "x"}) == Dog(kind="dog", bark="x")


def test_fields_that_a_type_allows_are_kept() -> None:
    assert value(Open, {"limt": 3}).limt == 3  # type: ignore[attr-defined]
    assert value(dict, {"limt": 3}) == {"limt": 3}
    assert value(dict[str, int], {"limt": 3}) == {"limt": 3}
    assert value(Any, {"limt": 3}) == {"limt": 3}


def test_a_named_tuple_is_described_by_its_fields() -> None:
    made = tool(Pair)
    assert 'Pair is {"lat": float, "lon": float (optional)}' in made.text
    assert value(Pair, {"lat": 1, "lon": 2}) == value(Pair, [1, 2]) == Pair(1.0, 2.0)
    assert value(list[Pair], [{"lat": 1}]) == [Pair(1.0)]
    assert "did you mean 'lon'?" in refused(Pair, {"lat": 1, "lonn": 2})


# ── enums and literals ────────────────────────────────────────────────────────────────────────────


class Range(enum.Enum):
    LOW = (1, 2)
    HIGH = (3, 4)


class Level(enum.IntEnum):
    ONE = 1
    TWO = 2


class Method(enum.Enum):
    MEAN = (np.mean,)
    MAX = (np.max,)


@dataclasses.dataclass
class WithRange:
    range: Range


def test_an_enum_with_values_that_json_cannot_represent_uses_member_names() -> None:
    assert tool(Range).schema()["properties"]["x"]["enum"] == ["LOW", "HIGH"]
    assert value(Range, "LOW") is Range.LOW
    assert value(list[Range], ["HIGH", "LOW"]) == [Range.HIGH, Range.LOW]
    assert value(WithRange, {"range": "HIGH"}) == WithRange(Range.HIGH)
    assert value(Range | None, "LOW") is Range.LOW
    assert value(Method, "MAX") is Method.MAX
    assert "'LOW' or 'HIGH', did you mean 'LOW'?" in refused(Range, "LOV")
    assert "'LOW' or 'HIGH'" in refused(Range, [1, 5])


def test_rejects_a_boolean_for_every_type_of_number() -> None:
    for annotation in (
        Level,
        int,
        float,
        Literal[1, 2],
        Literal[1, "a"],
        int | str,
        Level | None,
        np.int64,
    ):
        assert "received true (a boolean)" in refused(annotation, True)
    assert "received true" in refused(list[Level], [1, True])
    assert "received true" in refused(set[int], [2, True])
    assert value(Level, 1) is value(Level, "1") is value(Level, "ONE") is Level.ONE
    assert value(bool | int, True) is True
    assert value(Literal[True, "a"], True) is True


def test_a_literal_accepts_a_number_in_a_string() -> None:
    assert value(int, "7") == 7
    assert value(Literal[1, 2], "1") == 1
    assert value(Literal[1, 2], 2.0) == 2
    assert value(list[Literal[1, 2]], ["2", 1]) == [2, 1]
    assert value(Literal[1, 2] | None, "2") == 2
    assert value(Literal["1", 2], "1") == "1"
    assert value(Literal[1, "1"], "1") == "1"
    assert "3" in refused(Literal[1, 2], "3")
    refused(Literal[1, 2], "one")


# ── dates and numbers ─────────────────────────────────────────────────────────────────────────────


@dataclasses.dataclass
class Event:
    at: dt.datetime


def test_rejects_a_number_for_a_date() -> None:
    for sent in [20240115, "20240115", 1705276800, 1.5, "1705276800.5", 0, "-5"]:
        for annotation in [dt.datetime, dt.date, dt.time, dt.timedelta, pd.Timestamp]:
            refused(annotation, sent)
            refused(annotation | None, sent)
            refused(list[annotation], [sent])


def test_rejects_a_number_for_a_date_inside_objects_and_unions() -> None:
    assert refused(Event, {"at": 20240115}).startswith("x.at: ")
    refused(dt.datetime | str, 20240115)
    assert value(dt.datetime | int, 20240115) == 20240115
    assert value(str | dt.datetime, "20240115") == "20240115"
    assert value(dt.datetime | str, "20240115") == "20240115"
    refused(Literal["now"] | dt.datetime, "20240115")
    assert value(Event, {"at": "2024-01-15"}) == Event(dt.datetime(2024, 1, 15))  # noqa: DTZ001
    assert value(dt.timedelta, "PT1M") == dt.timedelta(minutes=1)
    assert value(dt.time, "10:00") == dt.time(10)


def test_rejects_a_number_that_a_float_cannot_hold() -> None:
    for sent in [10**400, -(10**400), "1e999", 10**5000]:
        refused(float, sent)
        refused(list[float], [1.0, sent])
        refused(float | None, sent)
        refused(np.float64, sent)


def test_accepts_large_numbers_if_the_type_can_hold_them() -> None:
    assert value(int, 10**400) == 10**400
    assert value(decimal.Decimal, 10**400) == decimal.Decimal(10**400)
    assert value(decimal.Decimal, "1e999") == decimal.Decimal("1e999")
    assert value(float, 1e308) == 1e308
    assert math.isinf(value(float, "inf"))


def test_accepts_json_for_numpy_and_pandas_scalars() -> None:
    assert value(pd.Timestamp, "2024-01-15T10:30:00") == pd.Timestamp("2024-01-15 10:30")
    assert type(value(pd.Timestamp, "2024-01-15")) is pd.Timestamp
    assert type(value(pd.Timedelta, "PT1M")) is pd.Timedelta
    assert type(value(np.float64, 1.5)) is type(value(np.float64, "1.5")) is np.float64
    assert type(value(np.int64, 3)) is np.int64
    assert value(np.bool_, True) is np.True_
    assert value(np.datetime64, "2024-01-15") == np.datetime64("2024-01-15")
    assert value(list[pd.Timestamp], ["2024-01-15"]) == [pd.Timestamp("2024-01-15")]
    assert value(dict[str, np.float32], {"a": 1.5}) == {"a": np.float32(1.5)}
    assert value(pd.Timestamp | None, None) is None
    assert value(pd.Timestamp, pd.Timestamp("2024-01-15")) == pd.Timestamp("2024-01-15")
    assert "format" in tool(pd.Timestamp).schema()["properties"]["x"]
    refused(np.int8, 300)
    refused(np.float32, 1e300)
    refused(np.int64, 1.5)
    refused(pd.Timestamp, "soon")


class UserId(str):
    """A text of its own class."""

    __slots__ = ()


def test_a_class_of_strings_or_numbers_is_created_from_the_value() -> None:
    assert type(value(UserId, "ada")) is UserId
    assert tool(UserId).schema()["properties"]["x"] == {"type": "string", "description": "A value."}


# ── references ────────────────────────────────────────────────────────────────────────────────────


class ReadTracker(Protocol):
    size: int

    def read(self) -> str: ...


class File:
    def __init__(self) -> None:
        self.size = 3

    def read(self) -> str:
        return "text"


def test_a_protocol_accepts_only_objects_with_its_members() -> None:
    there = {"file": File(), "five": 5, "wrong": object()}
    assert value(ReadTracker, "file", there) is there["file"]
    refused(ReadTracker, "five", there)
    refused(ReadTracker, "wrong", there)


def test_rejects_a_frame_for_a_list() -> None:
    for annotation in [list[str], set[str], tuple[str, ...], list]:
        for sent in ["df", {"$var": "df"}]:
            namespace = {"df": pd.DataFrame({"a": ["x"], "b": ["y"]}), "series": pd.Series(["x"])}
            refused(annotation, sent, namespace)
            refused(annotation, "series", namespace)


# ── types that are not defined ────────────────────────────────────────────────────────────────────


@dataclasses.dataclass
class Broken:
    name: str
    limit: Nowhere  # type: ignore[name-defined] # noqa: F821


@dataclasses.dataclass
class Outer:
    inner: list[Broken]


class UndefinedModel(BaseModel):
    limit: Nowhere  # type: ignore[name-defined] # noqa: F821


class UndefinedDict(TypedDict):
    limit: Nowhere  # type: ignore[name-defined] # noqa: F821


class UndefinedTuple(NamedTuple):
    limit: Nowhere  # type: ignore[name-defined] # noqa: F821


def test_an_undefined_type_of_a_field_is_a_fault_of_the_definition() -> None:
    for wrap in [lambda each: each, lambda each: list[each], lambda each: each | None]:
        for cls in [Broken, Outer, UndefinedModel, UndefinedDict, UndefinedTuple]:
            with pytest.raises(ToolError, match=r"'Nowhere', which is not defined"):
                tool(wrap(cls))


# ── functions ─────────────────────────────────────────────────────────────────────────────────────


@functools.singledispatch
def describe(item: Any, times: int = 1) -> str:
    """Describe.

    Args:
        item: What.
        times: How often.
    """
    return "anything" * times


@describe.register
def _(item: int, times: int = 1) -> str:
    return "integer" * times


def test_a_single_dispatch_function_is_called_with_the_implementation_for_its_argument() -> None:
    made = Tool.from_function(describe)
    assert made.call({"item": 3}).value == "integer"
    assert made.call({"item": "x", "times": 2}).value == "anythinganything"


LONG = "k" * 200_000
NAMESPACE = {f"frame{n}": pd.DataFrame() for n in range(50)}


class Item(BaseModel):
    name: str


def fail(value: int) -> int:
    raise ValueError(LONG)


def test_a_long_error_is_truncated_with_a_count() -> None:
    for annotation, sent in [
        (list[int], {"x": ["a"] * 10_000}),
        (list[Item], {"x": [{"nam": 1}] * 10_000}),
        (dict[str, int], {"x": {f"{LONG}{n}": "a" for n in range(3)}}),
        (int, {f"key{n}": 1 for n in range(3000)}),
        (int, {LONG: 1}),
        (Item, {"x": {LONG: 1, "name": "a"}}),
        (int, {"x": LONG}),
        (pd.DataFrame, {"x": LONG}),
        (list[pd.DataFrame], {"x": [f"name{n}" for n in range(3000)]}),
        (Literal[tuple(f"choice{n}" for n in range(5000))], {"x": "none"}),
        (Annotated[int, AfterValidator(fail)], {"x": 1}),
    ]:
        outcome = tool(annotation).call(sent, dict(NAMESPACE))
        assert outcome.status == "error"
        assert len(outcome.text) < 10_000
        assert len(str(outcome.error)) < 8_000
        assert len(Answers(annotation, None, {}).check(sent).fault) < 8_000


def test_omitted_faults_are_counted() -> None:
    made = tool(list[int])
    text = made.call({"x": ["a"] * 10_000}).text
    assert text.count("expected an integer") == 10
    assert "9,990 more" in text
    assert len(made.check({"x": ["a"] * 10_000})) == 10_000
    assert "more" not in made.call({"x": ["a"] * 10}).text


def test_the_name_of_an_unknown_tool_is_truncated() -> None:
    with pytest.raises(KeyError) as caught:
        Toolbox()[LONG]
    assert len(str(caught.value)) < 500


def test_a_long_error_message_is_truncated() -> None:
    def f() -> None:
        """Fail."""
        error = ValueError(LONG)
        error.add_note(LONG)
        raise error

    assert len(Tool.from_function(f).call(None).text) <= 8000


def test_the_message_of_a_condition_is_truncated() -> None:
    assert len(Answers(None, lambda answer: LONG, {}).check("x").fault) <= 2000
