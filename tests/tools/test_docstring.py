"""A docstring is read whatever its style, and its examples are run as a model would run them."""

from __future__ import annotations

from archytas_nb.tools import docstring
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


def test_a_description_keeps_its_list_and_blank_lines():
    assert docstring.parse(NOTED, ["a", "b"]).params["b"].text == "One of\ntwo:\n\n- x:y\n- z"


def test_a_type_with_a_colon_is_read_whole():
    assert docstring.parse(NOTED, ["a", "b"]).params["b"].type == "Literal['x:y', 'z']"


def test_args_directly_below_the_summary_are_not_part_of_it():
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


def test_of_two_styles_the_one_that_describes_more_arguments_is_used():
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


def test_notes_in_numpy_style_stay_as_they_are_written():
    notes = "Notes\n-----\nSlow.\n\nRaises\n------\nKeyError\n    Nothing."
    args = "Parameters\n----------\na : int\n    One."
    for text in (f"S.\n\n{args}\n\n{notes}", f"S.\n\n{notes}\n\n{args}"):
        doc = docstring.parse(text, ["a"])
        assert (doc.long, doc.params["a"].text) == (notes, "One.")


def test_sections_that_cannot_be_parsed_stay_in_the_text():
    for text in [
        "Args:\n    a one\n    b: two",
        ":param : one\n:raises KeyError: Nothing.",
        "Args:\n    see also: more",
    ]:
        doc = docstring.parse(f"S.\n\n{text}\n", ["a", "b"])
        assert (doc.short, doc.long, doc.params) == ("S.", text, {})


def test_the_type_of_a_result_may_be_a_union_and_several_values_have_none():
    for text, kind, words in [
        ("int | None: How many: or none", "int | None", "How many: or none"),
        ("low: one\n    high: two", "", "low: one\nhigh: two"),
        ("dict[str, int]: Hits", "dict[str, int]", "Hits"),
        ("The sum", "", "The sum"),
    ]:
        returns = docstring.parse(f"S.\n\nReturns:\n    {text}\n").returns
        assert (returns.type, returns.text) == (kind, words)


def test_args_none_means_no_arguments():
    assert docstring.parse("S.\n\nArgs:\n    None\n").params == {}


def test_an_empty_docstring_has_no_description():
    assert docstring.parse("  \n ") == docstring.parse(None) == docstring.Docstring()


def test_every_wording_of_a_default_is_recognised():
    for text in [
        "Defaults to 3.",
        "default 3",
        "By default, 3.",
        "(default: 3)",
        "Default is 3",
        "default=3",
    ]:
        assert docstring.parse(f"S.\n\nArgs:\n    a: Number. {text}\n", ["a"]).params["a"].optional


def test_every_wording_of_optional_is_recognised():
    for kind in ["int, optional", "int (optional)", "optional int"]:
        assert (
            docstring.parse(f"S.\n\nArgs:\n    a ({kind}): Number.\n", ["a"]).params["a"].optional
        )
