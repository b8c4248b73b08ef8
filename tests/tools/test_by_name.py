"""Only parameters that JSON cannot carry, or that say so, take names; and only names that a user made."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Annotated, Any

import pandas as pd
import pytest

import archytas_nb as nb
from archytas_nb.answers import Answers
from archytas_nb.tools.names import keep
from archytas_nb.tools.tool import Tool

SECRET = "hunter2-hunter2"


def passing(annotation: Any, **options: Any) -> Tool:
    """A tool whose only argument has this type; it returns what it received."""

    def give(value):  # type: ignore[no-untyped-def]
        """Give it back.

        Args:
            value: What
        """
        return value

    give.__annotations__ = {"value": annotation}
    return Tool.from_function(give, **options)


@pytest.fixture
def names() -> dict[str, Any]:
    return {
        "MY_PASSWORD": SECRET,
        "secrets": [SECRET],
        "settings": {"password": SECRET},
        "pin": 1234,
        "_i1": f"MY_PASSWORD = {SECRET!r}",
        "_frame": pd.DataFrame({"a": [1]}),
        "In": [SECRET],
        "Out": {1: SECRET},
        "df": pd.DataFrame({"a": [1, 2]}),
    }


@pytest.mark.parametrize(
    ("annotation", "name"),
    [
        (str, "MY_PASSWORD"), (str, "_i1"), (str | None, "MY_PASSWORD"), (int, "pin"), (list, "secrets"),
        (list[str], "secrets"), (list[str], "In"), (dict, "settings"), (dict[str, str], "settings"),
        (Any, "MY_PASSWORD"), (object, "settings"), (str | list[str], "secrets"),
        (pd.DataFrame | str, "MY_PASSWORD"),
        (pd.DataFrame | list[str], "secrets"), (list[pd.DataFrame] | list[str], "secrets"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("form", ["name", "reference", "wrapped reference"])
def test_what_json_can_carry_is_never_taken_from_a_variable(
    annotation: Any, name: str, form: str, names: dict[str, Any]
) -> None:
    sent: Any = name if form == "name" else {"$var": name}
    outcome = passing(annotation).call(
        {"value": sent} if form == "wrapped reference" else sent, names
    )
    assert SECRET not in repr(outcome)
    assert outcome.value not in (SECRET, [SECRET], 1234, names["settings"])


def test_an_object_with_that_key_stays_an_ordinary_object(names: dict[str, Any]) -> None:
    sent = {"$var": "settings"}
    assert passing(dict).call({"value": sent}, names).value == sent
    assert passing(list[dict[str, str]]).call([sent], names).value == [sent]


def test_the_refusal_says_that_a_value_is_wanted_and_no_name(names: dict[str, Any]) -> None:
    for sent in ({"$var": "secrets"}, "secrets"):
        [fault] = passing(list[str]).check({"value": sent}, names)
        assert "names of variables" in fault
        assert "'secrets'" in fault


@pytest.mark.parametrize("annotation", [str, list[str], dict[str, int], int | str, Any])
def test_a_parameter_that_says_so_takes_a_name(annotation: Any) -> None:
    tool = passing(Annotated[annotation, nb.ByName])
    value: Any = {str: "a", Any: object()}.get(
        annotation, ["a"] if annotation == list[str] else {"a": 1}
    )
    value = 5 if annotation == int | str else value
    for sent in ("it", {"$var": "it"}, {"value": "it"}, {"value": {"$var": "it"}}):
        assert tool.call(sent, {"it": value}).value is value
    for sent in ("nowhere", {"value": value}, value):
        assert annotation is Any or tool.call(sent, {"it": value}).status == "error"
    assert "name" in str(tool.schema()["properties"]["value"]["description"])
    assert "Send the name of a variable" in tool.text


def test_the_variable_must_hold_what_the_type_says() -> None:
    tool = passing(Annotated[list[float], nb.ByName()])
    assert tool.call("it", {"it": [1.0, 2.5]}).value == [1.0, 2.5]
    [fault] = tool.check("it", {"it": [1.0, "x"]})
    assert "'it'" in fault
    assert "list[float]" in fault


def test_beside_text_a_name_that_is_meant_is_explicit(names: dict[str, Any]) -> None:
    tool = passing(str | Annotated[str, nb.ByName])
    assert tool.call("MY_PASSWORD", names).value == "MY_PASSWORD"
    assert tool.call({"value": {"$var": "MY_PASSWORD"}}, names).value == SECRET


@pytest.mark.parametrize("form", ["name", "reference"])
@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("_i1", "begins with '_'"), ("_frame", "begins with '_'"), ("__name__", "begins with '_'"),
        ("In", "IPython"), ("Out", "IPython"), ("exit", "IPython"), ("quit", "IPython"),
        ("get_ipython", "IPython"), ("open", "IPython"),
        ("math", "module"), ("pay", "is a tool"), ("box", "is a tool"), ("paying", "is a tool"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    "annotation", [Annotated[Any, nb.ByName], Callable, types.ModuleType, pd.DataFrame]
)
def test_only_names_that_a_user_made_are_handed_over(
    annotation: Any, name: str, reason: str, form: str, names: dict[str, Any]
) -> None:
    def pay(amount: int) -> int:
        """Pay.

        Args:
            amount: How much
        """
        return amount

    box = nb.Toolbox(pay)
    here = {
        **names, "math": math, "pay": pay, "box": box, "paying": box["pay"], "__name__": "x",
        "exit": print, "quit": print, "get_ipython": print, "open": print,
    }  # fmt: skip
    tool = passing(annotation)
    outcome = tool.call({"value": name if form == "name" else {"$var": name}}, here)
    assert outcome.status == "error"
    assert reason in outcome.text
    assert name in outcome.text


def test_a_function_of_the_user_that_is_no_tool_is_handed_over() -> None:
    def double(x: int) -> int:
        return 2 * x

    assert passing(Callable).call("double", {"double": double}).value is double


def test_names_that_are_not_handed_over_are_not_offered_either(names: dict[str, Any]) -> None:
    [fault] = passing(pd.DataFrame).check("dg", names)
    assert "'df'" in fault
    assert "_frame" not in fault
    [fault] = passing(types.ModuleType).check("mth", {"math": math})
    assert "'math'" not in fault


def test_the_handle_of_a_result_is_a_name_that_can_be_handed_over() -> None:
    history = [SECRET]
    names = {"In": history, "_ih": history}
    assert keep(history, names, "tell") == "tell_1"


@pytest.mark.parametrize(
    "answer", ["MY_PASSWORD", {"$var": "MY_PASSWORD"}, {"answer": {"$var": "MY_PASSWORD"}}]
)
def test_a_typed_answer_of_text_is_no_variable(answer: Any, names: dict[str, Any]) -> None:
    assert Answers(str, None, names).check(answer).value != SECRET


@pytest.mark.parametrize(
    "answer", ["secrets", {"$var": "secrets"}, {"answer": {"$var": "secrets"}}]
)
def test_a_typed_answer_of_a_list_is_no_variable(answer: Any, names: dict[str, Any]) -> None:
    verdict = Answers(list[str], None, names).check(answer)
    assert verdict.value is None
    assert verdict.fault


def test_a_typed_answer_that_json_cannot_carry_is_one_of_the_users_variables(
    names: dict[str, Any],
) -> None:
    answers = Answers(pd.DataFrame, None, names)
    assert answers.check("df").value is names["df"]
    assert "begins with '_'" in answers.check("_frame").fault
