"""Names of variables that stand for arguments and results."""

from __future__ import annotations

import math
import types
from collections.abc import Callable
from typing import Annotated, Any, Protocol

import numpy as np
import pandas as pd
import polars as pl
import pytest

import archytas_nb as nb
from archytas_nb.answers import Answers
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import keep, resolve
from tests.tools.shapes import count_rows, mix, source, total


@pytest.fixture
def ns():
    return {
        "df": pd.DataFrame({"a": [1, 2, 3]}),
        "penguins": pd.DataFrame({"a": range(300)}),
        "x": np.arange(4),
        "n": 3,
        "rows": [1.0, 2.0],
        "_private": pd.DataFrame(),
    }


def test_the_tool_receives_the_object_itself(ns):
    assert resolve("df", pd.DataFrame, ns) is ns["df"]
    assert resolve({"$var": "df"}, pd.DataFrame, ns) is ns["df"]
    for sent in ("df", {"df": "df"}, {"$var": "df"}, {"df": {"$var": "df"}}):
        assert Tool.from_function(count_rows).call(sent, ns).value == 3


def test_an_unknown_name_lists_the_variables_of_the_type(ns):
    (fault,) = Tool.from_function(count_rows).check({"df": "penguin"}, ns)
    assert fault == (
        "df: no variable is named 'penguin', did you mean 'penguins'?"
        " Variables that hold a DataFrame: 'df', 'penguins'; received \"penguin\" (a string)"
    )


@pytest.mark.parametrize("name", ["password_changes", "API_KEY", "db_secret"])
def test_the_hint_names_no_variable_with_the_name_of_a_secret(ns, name):
    ns[name] = pd.DataFrame({"a": [1]})
    for sent in ("penguin", "n", name[:-1]):
        (fault,) = Tool.from_function(count_rows).check({"df": sent}, ns)
        assert "'penguins'" in fault
        assert name not in fault


def test_a_variable_of_another_type_is_refused(ns):
    with pytest.raises(ValueError, match="the variable 'n' is an int, expected a DataFrame"):
        resolve("n", pd.DataFrame, ns)


def test_a_reference_without_any_variable_of_the_type_says_so():
    with pytest.raises(ValueError, match="no variable holds an ndarray"):
        resolve("x", np.ndarray, {})


def test_no_expression_is_ever_evaluated(ns):
    for text in ("df.head()", "__import__('os')", "df; n"):
        with pytest.raises(ValueError, match=r"neither the name|is not passed to tools"):
            resolve(text, object, ns)


def test_a_call_from_python_may_pass_the_object():
    assert Tool.from_function(count_rows).call({"df": pd.DataFrame({"a": [1]})}).value == 1


def test_the_error_without_a_namespace_says_what_is_missing():
    assert (
        "there is no namespace to look 'df' up in" in Tool.from_function(count_rows).check("df")[0]
    )


def test_references_inside_lists_and_functions_by_name(ns):
    tool = Tool.from_function(mix)
    assert (
        tool.call(
            {"frames": ["df", {"$var": "penguins"}], "where": "x", "key": "len"}, {**ns, "len": len}
        ).value
        == 6
    )
    assert tool.check({"frames": ["df", "n"], "where": "x"}, ns)[0].startswith("frames[1]: ")
    assert tool.check({"frames": [], "where": "x", "key": "n"}, ns)[0].startswith(
        "key: the variable 'n' is an int, expected a function"
    )


def test_a_reference_is_explicit_if_strings_are_accepted_too(ns):
    tool = Tool.from_function(source)
    assert tool.call("df", ns).value == "str"
    assert tool.call({"data": {"$var": "df"}}, ns).value == "DataFrame"


def test_a_protocol_that_cannot_be_checked_takes_any_variable():
    class Readable(Protocol):
        def read(self) -> str: ...

    def f(file: Readable) -> str:
        """Read.

        Args:
            file: What.
        """
        return file.read()

    class File:
        def read(self):
            return "text"

    f.__annotations__["file"] = Readable
    assert Tool.from_function(f).call("here", {"here": File()}).value == "text"


def test_rejects_a_name_where_a_value_is_expected(ns):
    tool = Tool.from_function(total)
    assert tool.check({"numbers": "rows"}, ns) != ()
    assert tool.check({"numbers": "n"}, ns) != ()
    assert tool.check("nowhere", ns) == (
        'numbers: expected a valid array; received "nowhere" (a string)',
    )


def returning(value, name="make"):
    def f() -> object:
        """Make."""
        return value

    return Tool.from_function(f, name)


def test_a_large_result_is_stored_and_can_be_passed_on():
    for value in [
        pd.DataFrame({"a": [1]}),
        pd.Series([1]),
        np.arange(3),
        pl.DataFrame({"a": [1]}),
        list(range(5000)),
        object(),
    ]:
        ns: dict = {}
        outcome = returning(value).call(None, ns)
        assert ns == {"make_1": value} if not hasattr(value, "shape") else ns["make_1"] is value
        assert outcome.text.endswith("(kept as the variable make_1)")


def test_a_small_result_is_not_stored():
    for value in [None, 1, "text", [1, 2], {"a": 1}, True, (1, 2), {1}]:
        ns: dict = {}
        assert "kept" not in returning(value).call(None, ns).text
        assert ns == {}


def test_a_handle_never_overwrites_a_variable():
    ns = {"make_1": "mine"}
    returning(np.arange(3)).call(None, ns)
    assert ns["make_1"] == "mine"
    assert list(ns) == ["make_1", "make_2"]


def test_a_result_that_is_already_a_variable_keeps_its_name(ns):
    outcome = returning(ns["df"]).call(None, ns)
    assert "(it is the variable df)" in outcome.text
    assert "make_1" not in ns


def test_a_dotted_tool_makes_a_handle_that_is_a_legal_name():
    assert keep([], {}, "stats.mean-2") == "stats_mean_2_1"
    assert keep([], {}, "3d") == "result_3d_1"


def test_a_truncated_text_is_stored_in_full():
    ns: dict = {}
    outcome = returning("x" * 5_000_000).call(None, ns)
    assert len(ns["make_1"]) == 5_000_000
    assert len(outcome.text) <= 8000


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
        (str, "MY_PASSWORD"),
        (str, "_i1"),
        (str | None, "MY_PASSWORD"),
        (int, "pin"),
        (list, "secrets"),
        (list[str], "secrets"),
        (list[str], "In"),
        (dict, "settings"),
        (dict[str, str], "settings"),
        (Any, "MY_PASSWORD"),
        (object, "settings"),
        (str | list[str], "secrets"),
        (pd.DataFrame | str, "MY_PASSWORD"),
        (pd.DataFrame | list[str], "secrets"),
        (list[pd.DataFrame] | list[str], "secrets"),
    ],
)
def test_values_that_json_can_represent_are_never_read_from_a_variable(
    annotation: Any, name: str, names: dict[str, Any]
) -> None:
    for form in ["name", "reference", "wrapped reference"]:
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


def test_the_refusal_asks_for_a_value_instead_of_a_name(names: dict[str, Any]) -> None:
    for sent in ({"$var": "secrets"}, "secrets"):
        [fault] = passing(list[str]).check({"value": sent}, names)
        assert "names of variables" in fault
        assert "'secrets'" in fault


def test_a_by_name_parameter_accepts_a_name() -> None:
    for annotation in [str, list[str], dict[str, int], int | str, Any]:
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


def test_the_variable_must_hold_an_object_of_the_class() -> None:
    tool = passing(Annotated[list[float], nb.ByName()])
    assert tool.call("it", {"it": [1.0, 2.5]}).value == [1.0, 2.5]
    [fault] = tool.check("it", {"it": {"a": 1.0}})
    assert "'it'" in fault
    assert "list[float]" in fault


def test_a_name_is_explicit_if_strings_are_accepted_too(names: dict[str, Any]) -> None:
    tool = passing(str | Annotated[str, nb.ByName])
    assert tool.call("MY_PASSWORD", names).value == "MY_PASSWORD"
    assert tool.call({"value": {"$var": "MY_PASSWORD"}}, names).value == SECRET


def test_only_the_users_variables_are_passed(names: dict[str, Any]) -> None:
    for name, reason in [
        ("_i1", "begins with '_'"),
        ("_frame", "begins with '_'"),
        ("__name__", "begins with '_'"),
        ("In", "IPython"),
        ("Out", "IPython"),
        ("exit", "IPython"),
        ("quit", "IPython"),
        ("get_ipython", "IPython"),
        ("open", "IPython"),
        ("math", "module"),
        ("pay", "is a tool"),
        ("box", "is a tool"),
        ("paying", "is a tool"),
    ]:
        for form in ["name", "reference"]:
            for annotation in [Annotated[Any, nb.ByName], Callable, types.ModuleType, pd.DataFrame]:

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


def test_a_function_that_is_not_a_tool_is_passed() -> None:
    def double(x: int) -> int:
        return 2 * x

    assert passing(Callable).call("double", {"double": double}).value is double


def test_names_that_are_not_passed_are_not_suggested(names: dict[str, Any]) -> None:
    [fault] = passing(pd.DataFrame).check("dg", names)
    assert "'df'" in fault
    assert "_frame" not in fault
    [fault] = passing(types.ModuleType).check("mth", {"math": math})
    assert "'math'" not in fault


def test_the_handle_of_a_result_can_be_passed() -> None:
    history = [SECRET]
    names = {"In": history, "_ih": history}
    assert keep(history, names, "tell") == "tell_1"


def test_a_typed_answer_of_text_is_not_looked_up(names: dict[str, Any]) -> None:
    for answer in ["MY_PASSWORD", {"$var": "MY_PASSWORD"}, {"answer": {"$var": "MY_PASSWORD"}}]:
        assert Answers(str, None, names).check(answer).value != SECRET


def test_a_typed_answer_of_a_list_is_not_looked_up(names: dict[str, Any]) -> None:
    for answer in ["secrets", {"$var": "secrets"}, {"answer": {"$var": "secrets"}}]:
        verdict = Answers(list[str], None, names).check(answer)
        assert verdict.value is None
        assert verdict.fault


def test_a_typed_answer_that_json_cannot_represent_is_a_variable_of_the_user(
    names: dict[str, Any],
) -> None:
    answers = Answers(pd.DataFrame, None, names)
    assert answers.check("df").value is names["df"]
    assert "begins with '_'" in answers.check("_frame").fault
