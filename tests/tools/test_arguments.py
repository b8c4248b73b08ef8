"""Reasonable arguments of a model are accepted, others refused with all their faults."""

from __future__ import annotations

import datetime as dt
import json
import math
from dataclasses import dataclass
from typing import Any

import pytest
from pydantic import BaseModel, ConfigDict, Field

from archytas_nb.tools.tool import Tool
from tests.tools.shapes import (
    add_one,
    ask,
    choose,
    defaults,
    double,
    flip,
    greet,
    keys,
    names,
    order,
    ping,
    positional,
    total,
    travel,
    unions,
    when,
)  # fmt: skip


def call(f, sent=None, namespace=None):
    outcome = Tool.from_function(f).call(sent, namespace)
    assert outcome.status == "done", outcome.text
    return outcome.value


def faults(f, sent, namespace=None):
    return Tool.from_function(f).check(sent, namespace)


# ── no argument, one argument ─────────────────────────────────────────────────────────────────────


def test_a_tool_without_arguments_accepts_every_empty_input():
    for sent in [None, {}, "", "{}", "null", []]:
        assert call(ping, sent) == "here"


def test_a_tool_without_arguments_rejects_arguments():
    for sent in [{"a": 1}, "hello", 3, [1], True]:
        assert len(faults(ping, sent)) == 1


def test_a_single_string_is_unchanged_as_a_value_and_in_an_object():
    for text in ["hello", "", '{"q": "x"}', "[1, 2]", "null", "5"]:
        assert call(ask, text) == text
        assert call(ask, {"q": text}) == text


def test_a_single_number_accepts_an_integer_a_string_and_an_object():
    assert [call(double, sent) for sent in (3, 2.5, "5", {"x": 3})] == [6.0, 5.0, 10.0, 6.0]


def test_rejects_true_for_a_number():
    assert faults(double, True) == ("expected a number; received true (a boolean)",)
    assert faults(add_one, True) == ("expected an integer; received true (a boolean)",)


def test_an_integer_is_converted_from_strings_and_whole_floats():
    assert [call(add_one, sent) for sent in (5, "5", 5.0, 10**30)] == [6, 6, 6, 10**30 + 1]
    assert [type(call(add_one, sent)) for sent in ("5", 5.0)] == [int, int]
    assert faults(add_one, 5.5) == ("expected an integer; received 5.5 (a number)",)
    assert faults(add_one, "five") == ('expected an integer; received "five" (a string)',)


def test_a_boolean_accepts_true_and_false():
    assert [call(flip, sent) for sent in (True, False, {"on": True}, "true")] == [
        False,
        True,
        False,
        False,
    ]


def test_a_single_optional_argument_can_be_omitted_in_every_way():
    assert [call(greet, sent) for sent in (None, {}, {"name": None})] == ["hello world"] * 3
    assert [call(greet, sent) for sent in ("you", {"name": "you"})] == ["hello you"] * 2


def test_a_single_list_is_accepted_in_an_object_as_a_value_and_as_json():
    for sent in (
        [1, 2],
        {"numbers": [1, 2]},
        "[1, 2]",
        {"numbers": "[1, 2]"},
        '{"numbers": [1, 2]}',
    ):
        assert call(total, sent) == 3


def test_a_single_dict_is_accepted_in_an_object_first_and_as_a_value():
    assert call(keys, {"table": {"a": 1}}) == ["a"]
    assert call(keys, {"a": 1, "b": 2}) == ["a", "b"]
    assert call(keys, {"table": 1, "b": 2}) == ["table", "b"]
    assert call(keys, {"table": {"table": {}}}) == ["table"]
    assert call(keys, {}) == []
    assert call(keys, '{"a": 1}') == ["a"]


@pytest.mark.parametrize("kind", [dict, dict[str, str], dict[str, int], dict | None, dict | list])
@pytest.mark.parametrize("sent", ["text", 1, True, ""])
def test_the_value_of_a_single_dict_is_never_wrapped_in_its_own_name(kind: Any, sent: Any) -> None:
    def keep(table: Any) -> str:
        """Keep it.

        Args:
            table: The table
        """
        return repr(table)

    keep.__annotations__["table"] = kind
    tool = Tool.from_function(keep)
    assert tool.check({"table": sent})
    assert tool.check(sent)
    assert tool.call({"table": {"table": "1"}}).status == "done"


@dataclass
class Place:
    place: str


def test_a_single_object_may_have_a_field_of_the_name_of_its_argument():
    def go(place: Place) -> str:
        """Go.

        Args:
            place: Where to
        """
        return place.place

    tool = Tool.from_function(go)
    for sent in ({"place": "Lima"}, {"place": {"place": "Lima"}}, '{"place": "Lima"}'):
        assert tool.call(sent).value == "Lima"


def test_rejects_a_missing_required_list():
    assert faults(total, None) == ("numbers: missing, expected list[float]",)
    assert faults(total, {}) == ("numbers: missing, expected list[float]",)


# ── defaults ──────────────────────────────────────────────────────────────────────────────────────


def test_falsy_defaults_are_passed_unchanged():
    a, b, c, d, e, f, g = call(defaults, {})
    assert (a, b, c, d, e) == (0, False, "", [], None)
    assert math.isnan(f)
    assert type(g) is object


def test_a_default_that_json_cannot_represent_is_not_sent():
    for level in ("full", "simple"):
        text = json.dumps(Tool.from_function(defaults).spec(level), allow_nan=False)
        assert "object at" not in text


def test_mutable_defaults_are_not_shared_between_calls():
    def grow(items: list[int] = []) -> list[int]:  # noqa: B006
        """Grow.

        Args:
            items: Where to add.
        """
        items.append(1)
        return items

    tool = Tool.from_function(grow)
    assert [tool.call(None).value, tool.call(None).value] == [[1], [1]]
    assert grow.__defaults__ == ([],)


def test_a_pydantic_field_as_default_provides_value_description_and_bounds():
    def f(
        a: int = Field(3, description="A number."), b: str = Field(description="Needed.")
    ) -> list:
        """Return what came."""
        return [a, b]

    tool = Tool.from_function(f)
    assert tool.call({"b": "x"}).value == [3, "x"]
    assert tool.schema()["required"] == ["b"]
    assert tool.schema()["properties"]["a"] == {
        "type": "integer",
        "description": "A number.",
        "default": 3,
    }


def test_null_is_a_value_only_if_the_type_includes_it():
    assert call(unions, {"a": "5", "b": None}) == ["5", None, None, 1]
    assert faults(unions, {"a": None, "b": 1}) == ("a: null is no value here, expected int | str",)


def test_a_union_keeps_the_type_of_the_value():
    assert call(unions, {"a": 5, "b": 1, "c": ["x"], "d": 2.5}) == [5, 1, ["x"], 2.5]
    assert call(unions, {"a": "[1]", "b": 1, "c": "[1]"}) == ["[1]", 1, "[1]", 1]


# ── types ─────────────────────────────────────────────────────────────────────────────────────────


def test_an_enum_accepts_values_and_names():
    assert [
        each[1].name for each in (call(choose, {"level": "low", "color": c}) for c in ("r", "RED"))
    ] == [
        "RED",
        "RED",
    ]
    assert faults(choose, {"level": "mid", "color": "green"}) == (
        "level: expected 'low' or 'high'; received \"mid\" (a string)",
        "color: expected 'r' or 'b'; received \"green\" (a string)",
    )


def test_nested_objects_are_accepted_as_objects_and_as_json():
    sent = {
        "start": '{"x": 1, "y": 2}',
        "legs": [{"start": {"x": 0, "y": 0}, "km": "3"}],
        "tree": {"name": "a", "color": "BLUE", "children": ['{"name": "b"}']},
    }
    text = call(travel, sent)
    assert "Point(x=1.0, y=2.0, label='')" in text
    assert "children=[Node(name='b'" in text


def test_faults_in_nested_objects_have_a_path():
    sent = {
        "start": {"x": "left"},
        "legs": [{"km": 1}, 5],
        "tree": {"name": "a", "children": [{"name": 3}]},
    }
    assert faults(travel, sent) == (
        'start.x: expected a number; received "left" (a string)',
        "start.y: missing, a value is required here",
        "legs[0].start: missing, a value is required here",
        "legs[1]: expected an object; received 5 (a number)",
        "tree.children[0].name: expected a valid string; received 3 (a number)",
    )


def test_dates_paths_decimals_tuples_and_sets_arrive_typed():
    sent = {
        "day": "2024-02-01", "at": "2024-02-01T10:00:00", "file": "a/b", "price": "1.10", "pair": [1, "x"],
        "tags": ["a", "a"], "size": 3,
    }  # fmt: skip
    assert call(when, sent) == "2024-02-01 2024-02-01 10:00:00 a/b 1.10 (1, 'x') {'a'} 3 "
    assert faults(when, {**sent, "size": 0}) == (
        "size: expected greater than 0; received 0 (a number)",
    )


# ── what a model gets wrong ───────────────────────────────────────────────────────────────────────


def test_every_fault_of_an_input_is_reported_at_once_and_the_body_does_not_run():
    seen = []

    def f(count: int, colour: str, rows: list[int]) -> None:
        """Do it.

        Args:
            count: One.
            colour: Two.
            rows: Three.
        """
        seen.append(1)

    outcome = Tool.from_function(f).call({"count": "many", "color": "red", "rows": {"a": 1}})
    assert outcome.status == "error"
    assert outcome.text == (
        "f was not called: its input is wrong.\n"
        '  - count: expected an integer; received "many" (a string)\n'
        "  - colour: missing, expected str\n"
        '  - rows: expected a valid array; received {"a": 1} (an object)\n'
        '  - color: unknown argument \'color\', did you mean \'colour\'? expected "count", "colour", "rows"\n'
        'Expected input: {"count": (int), "colour": (str), "rows": (list[int])}'
    )
    assert seen == []


def test_an_object_sent_as_a_string_is_parsed():
    assert call(order, '{"first": 5, "second": "3"}') == 2


def test_the_error_for_a_wrong_container_lists_the_expected_fields():
    for sent in ["hello", 3, [1, 2], True]:
        (fault,) = faults(order, sent)
        assert fault.startswith('expected an object with the fields "first", "second"; received ')


def test_arguments_may_have_any_name():
    sent = {
        name: name
        for name in ("thought", "tool", "self", "schema", "copy", "json", "model_config", "from_")
    }
    assert call(names, sent) == list(sent)


def test_positional_only_and_keyword_only_arguments_are_passed_correctly():
    assert call(positional, {"a": 1, "d": 4}) == [1, 2, 3, 4]
    assert call(positional, {"d": 4, "c": 9, "b": 8, "a": 7}) == [7, 8, 9, 4]


def test_rejects_a_value_that_is_nested_too_deeply():
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert "nested too deeply" in Tool.from_function(total).call({"numbers": deep}).text


class Reading(BaseModel):
    model_config = ConfigDict(strict=True)
    day: dt.date
    value: float | None
    unit: str = "kPa"


def test_null_for_an_optional_field_is_omitted_and_a_strict_type_accepts_a_date():
    def f(reading: Reading) -> str:
        """Show it.

        Args:
            reading: What.
        """
        return f"{reading.day} {reading.value} {reading.unit}"

    sent = {"day": "2024-01-31", "value": None, "unit": None}
    assert call(f, {"reading": sent}) == "2024-01-31 None kPa"
    assert faults(f, {"reading": {"day": None, "value": 1.5}}) == (
        "reading.day: expected a valid date; received null",
    )
