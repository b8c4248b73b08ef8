"""A docstring is read whatever its style, and its examples are run as a model would run them."""

from __future__ import annotations

import pandas as pd

from archytas_nb.tools import docstring
from archytas_nb.tools.docstring import check_examples
from archytas_nb.tools.tool import Tool
from tests.tools.docstyles import DOCS, NOTED, documented


def test_every_spelling_gives_the_same_text():
    for spelling in DOCS:
        assert (
            Tool.from_function(documented(DOCS[spelling])).text
            == Tool.from_function(documented(DOCS["google"])).text
        )


def test_no_correct_spelling_is_an_issue():
    for spelling in DOCS:
        assert Tool.from_function(documented(DOCS[spelling])).issues == ()


def test_notes_raises_and_examples_are_shown_after_the_long_description():
    doc = docstring.parse(NOTED, ["a", "b"])
    assert doc.long == (
        'Raises:\n    KeyError: Nothing is there.\n\nNote:\n    Slow.\n\nExamples:\n    >>> f({"x": 1})\n    1'
    )
    assert doc.examples == '    >>> f({"x": 1})\n    1\n'


def test_a_description_keeps_its_list_and_blank_lines():
    assert docstring.parse(NOTED, ["a", "b"]).params["b"].text == "One of\ntwo:\n\n- x:y\n- z"


def test_a_type_with_a_colon_is_read_whole():
    assert docstring.parse(NOTED, ["a", "b"]).params["b"].type == "Literal['x:y', 'z']"


def test_args_right_under_the_summary_are_no_part_of_it():
    doc = docstring.parse("Sum.\nArgs:\n    a: one\n", ["a"])
    assert (doc.short, doc.long, doc.params["a"].text) == ("Sum.", "", "one")


def test_args_first_leave_no_summary():
    doc = docstring.parse("Args:\n    a: one\n", ["a"])
    assert (doc.short, doc.params["a"].text) == ("", "one")


def test_numpy_names_may_share_a_line():
    doc = docstring.parse("S.\n\nParameters\n----------\na, b : int\n    Both.\n", ["a", "b"])
    assert {name: (each.text, each.type) for name, each in doc.params.items()} == {
        "a": ("Both.", "int"),
        "b": ("Both.", "int"),
    }


def test_starred_names_lose_their_stars():
    assert list(docstring.parse("S.\n\nArgs:\n    *a: x\n    **b: y\n", ["a", "b"]).params) == [
        "a",
        "b",
    ]


def test_where_the_style_is_unclear_the_one_that_names_more_arguments_counts():
    text = "S.\n\n:param z: not this\n\nArgs:\n    a: one\n    b: two\n"
    assert list(docstring.parse(text, ["a", "b"]).params) == ["a", "b"]


def test_prose_after_the_fields_is_kept():
    doc = docstring.parse("S.\n\nArgs:\n    a: one\n\nMore to say.\n", ["a"])
    assert (doc.long, doc.params["a"].text) == ("More to say.", "one")


def test_prose_after_sphinx_fields_is_kept():
    doc = docstring.parse("S.\n\n:param a: one\n\nMore to say.\n", ["a"])
    assert (doc.long, doc.params["a"].text) == ("More to say.", "one")


def test_epydoc_fields_are_read():
    doc = docstring.parse("S.\n\n@param a: one\n@type a: int\n@return: two\n", ["a"])
    assert (doc.short, doc.params["a"].text, doc.params["a"].type) == ("S.", "one", "int")
    assert doc.returns is not None
    assert doc.returns.text == "two"


def test_a_sphinx_type_may_have_several_words():
    text = "S.\n\n:param str or None a: one\n:param int b: two\n:raises KeyError: Nothing.\n"
    doc = docstring.parse(text, ["a", "b"])
    assert [(each.text, each.type) for each in doc.params.values()] == [("one", ""), ("two", "int")]
    assert doc.long == "Raises:\n    KeyError: Nothing."


def test_args_none_says_that_there_are_none():
    assert docstring.parse("S.\n\nArgs:\n    None\n").params == {}


def test_an_empty_docstring_has_no_words():
    assert docstring.parse("  \n ") == docstring.parse(None) == docstring.Docstring()


def test_every_wording_of_a_default_is_seen():
    for text in [
        "Defaults to 3.",
        "default 3",
        "By default, 3.",
        "(default: 3)",
        "Default is 3",
        "default=3",
    ]:
        assert docstring.parse(f"S.\n\nArgs:\n    a: Number. {text}\n", ["a"]).params["a"].optional


def test_every_wording_of_optional_is_seen():
    for kind in ["int, optional", "int (optional)", "optional int"]:
        assert (
            docstring.parse(f"S.\n\nArgs:\n    a ({kind}): Number.\n", ["a"]).params["a"].optional
        )


# ── examples ──────────────────────────────────────────────────────────────────────────────────────


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
    assert "'*xs' is neither a literal" in only("    >>> divide(*xs)\n").problem


def test_too_many_arguments_are_reported():
    found = only("    >>> divide(1, 2, [], 4)\n")
    assert found.problem.endswith("the example gives 4 arguments, the tool has 3")


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
