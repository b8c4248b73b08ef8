"""What JSON cannot carry goes by the name of a live variable, and large results come back under one."""

from __future__ import annotations

from typing import Protocol

import numpy as np
import pandas as pd
import polars as pl
import pytest

from archytas_nb.tools.names import ReferenceFault, keep, resolve
from archytas_nb.tools.tool import Tool
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


def test_an_unknown_name_is_answered_with_the_variables_of_the_type(ns):
    (fault,) = Tool.from_function(count_rows).check({"df": "penguin"}, ns)
    assert fault == (
        "no variable is named 'penguin', did you mean 'penguins'?"
        " Variables that hold a DataFrame: 'df', 'penguins'; received \"penguin\" (a string) @ $.df"
    )


def test_a_variable_of_another_type_is_refused(ns):
    with pytest.raises(ReferenceFault, match="the variable 'n' is an int, expected a DataFrame"):
        resolve("n", pd.DataFrame, ns)


def test_a_reference_without_any_variable_of_the_type_says_so():
    with pytest.raises(ReferenceFault, match="no variable holds an ndarray"):
        resolve("x", np.ndarray, {})


def test_no_expression_is_ever_evaluated(ns):
    for text in ("df.head()", "__import__('os')", "df; n", "if"):
        with pytest.raises(ReferenceFault, match=r"no variable is named|is not passed to tools"):
            resolve(text, object, {**ns, "if": "x"})


def test_a_call_by_hand_may_give_the_object():
    assert Tool.from_function(count_rows).call({"df": pd.DataFrame({"a": [1]})}).value == 1


def test_without_a_namespace_the_fault_says_what_is_missing():
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
    assert tool.check({"frames": ["df", "n"], "where": "x"}, ns)[0].endswith("@ $.frames[1]")
    assert tool.check({"frames": [], "where": "x", "key": "n"}, ns)[0].startswith(
        "the variable 'n' is an int, expected a function"
    )


def test_beside_text_a_reference_is_explicit(ns):
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

    assert Tool.from_function(f).call("here", {"here": File()}).value == "text"


def test_a_name_that_fits_no_value_is_refused(ns):
    tool = Tool.from_function(total)
    assert tool.check({"numbers": "rows"}, ns) != ()
    assert tool.check({"numbers": "n"}, ns) != ()
    assert tool.check("nowhere", ns) == (
        'expected a valid array; received "nowhere" (a string) @ $.numbers',
    )


def returning(value, name="make"):
    def f() -> object:
        """Make."""
        return value

    return Tool.from_function(f, name)


@pytest.mark.parametrize(
    "value",
    [
        pd.DataFrame({"a": [1]}),
        pd.Series([1]),
        np.arange(3),
        pl.DataFrame({"a": [1]}),
        list(range(5000)),
        object(),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_result_that_is_not_small_is_kept_and_can_be_passed_on(value):
    ns: dict = {}
    outcome = returning(value).call(None, ns)
    assert ns == {"make_1": value} if not hasattr(value, "shape") else ns["make_1"] is value
    assert outcome.text.endswith('(kept as the variable make_1: send "make_1" to pass it on)')


@pytest.mark.parametrize("value", [None, 1, "text", [1, 2], {"a": 1}, True, (1, 2), {1}])
def test_a_small_result_is_not_kept(value):
    ns: dict = {}
    assert "kept" not in returning(value).call(None, ns).text
    assert ns == {}


def test_a_handle_never_takes_the_place_of_a_variable():
    ns = {"make_1": "mine"}
    returning(np.arange(3)).call(None, ns)
    assert ns["make_1"] == "mine"
    assert list(ns) == ["make_1", "make_2"]


def test_a_result_that_a_variable_holds_already_goes_by_its_name(ns):
    outcome = returning(ns["df"]).call(None, ns)
    assert "(kept as the variable df:" in outcome.text
    assert "make_1" not in ns


def test_a_dotted_tool_makes_a_handle_that_is_a_legal_name():
    assert keep([], {}, "stats.mean-2") == "stats_mean_2_1"
    assert keep([], {}, "3d") == "result_3d_1"


def test_a_text_that_was_cut_is_kept_whole():
    ns: dict = {}
    outcome = returning("x" * 5_000_000).call(None, ns)
    assert len(ns["make_1"]) == 5_000_000
    assert len(outcome.text) <= 8000
