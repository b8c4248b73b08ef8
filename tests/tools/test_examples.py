"""A docstring's examples are run as a model would run them."""

from __future__ import annotations

import pandas as pd

from archytas_nb.tools.docstring import check_examples
from archytas_nb.tools.tool import Tool


def make(examples: str):
    def divide(a: float, b: int = 2, rows: list | None = None) -> float:
        return a / b

    divide.__doc__ = (
        f"Divide.\n\nArgs:\n    a: One.\n    b: Other.\n    rows: Unused.\n\nExamples:\n{examples}"
    )
    return Tool.from_function(divide)


def only(examples: str, namespace=None):
    (found,) = check_examples(make(examples), namespace)
    return found


def test_an_example_that_works_has_no_problem():
    found = only("    >>> divide(4, b=2)\n    2.0\n")
    assert (found.problem, found.tool_input, found.source) == (
        "",
        {"a": 4, "b": 2},
        "divide(4, b=2)",
    )


def test_another_result_than_the_shown_one_is_reported():
    assert (
        only("    >>> divide(4)\n    3.0\n").problem
        == "the example shows '3.0', the call gave '2.0'"
    )


def test_arguments_that_validation_refuses_are_reported():
    found = only("    >>> divide('x')\n")
    assert found.outcome.status == "error"
    assert "@ $.a" in found.problem


def test_an_expected_exception_is_no_problem():
    shown = "    Traceback (most recent call last):\n    ZeroDivisionError: division by zero\n"
    assert only(f"    >>> divide(1, 0)\n{shown}").problem == ""


def test_an_expected_exception_that_does_not_come_is_reported():
    text = (
        "    >>> divide(1, 1)\n"
        "    Traceback (most recent call last):\n"
        "    ZeroDivisionError: division by zero\n"
    )
    assert "none came" in only(text).problem


def test_an_unexpected_exception_is_reported():
    assert "ZeroDivisionError" in only("    >>> divide(1, 0)\n    1.0\n").problem


def test_what_json_cannot_say_is_reported_and_not_run():
    found = only("    >>> divide(1 + max(2, 3))\n")
    assert "'1 + max(2, 3)' is neither a literal nor the name of a variable" in found.problem
    assert found.outcome is None


def test_unpacked_arguments_are_reported():
    assert "unpacks" in only("    >>> divide(*xs)\n").problem


def test_too_many_arguments_are_reported():
    assert (
        only("    >>> divide(1, 2, [], 4)\n").problem
        == "the example gives 4 arguments, the tool has 3"
    )


def test_the_name_of_a_variable_stands_for_its_value_where_json_can_carry_it():
    found = only("    >>> divide(4, rows=xs)\n", {"xs": [1]})
    assert (found.problem, found.tool_input) == ("", {"a": 4, "rows": [1]})


def test_the_name_of_a_variable_is_sent_as_a_reference_where_json_cannot():
    def count(df: pd.DataFrame) -> int:
        """Count.

        Args:
            df: What.

        Examples:
            >>> count(frame)
            2
        """
        return len(df)

    (found,) = check_examples(Tool.from_function(count), {"frame": pd.DataFrame({"a": [1, 2]})})
    assert (found.problem, found.tool_input) == ("", {"df": {"$var": "frame"}})


def test_lines_that_do_not_call_the_tool_are_left_alone():
    assert check_examples(make("    >>> import os\n    >>> os.remove('x')\n    >>> 1 +\n")) == ()


def test_a_docstring_without_examples_gives_nothing():
    assert check_examples(make("")) == ()
