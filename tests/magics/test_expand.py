"""`{expr}` in a question: values are written, JSON and code are left alone, faults cost nothing."""

import contextlib
import datetime as dt
import json
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st
from IPython.core.error import UsageError

from archytas_nb.magics.expand import expand

FRAME = pd.DataFrame({"year": [2007, 2008, 2009], "mass": [1.5, 2.5, 3.5]})
NAMES = {
    "name": "Gentoo",
    "n": 3,
    "price": 2.5,
    "d": {"}": 1, "a": {"b": 2}},
    "x": [1, 2, 3, 4],
    "df": FRAME,
    "at": dt.datetime(2024, 1, 2, 3, 4, tzinfo=dt.UTC),
    "empty": "",
    "nothing": None,
    "array": np.array([1, 2]),
}


def asked(question: str) -> str:
    return expand(question, NAMES).text


@pytest.mark.parametrize(
    ("question", "sent"),
    [
        ("How many {name} are there?", "How many Gentoo are there?"),
        ("{ name }{n}", "Gentoo3"),
        ("{d['a']['b']} {x[:2]} {x[-1]}", "2 [1, 2] 4"),
        ("{price:.2f}|{n:>3}|{price:%}", "2.50|  3|250.000000%"),
        ("{at:%H:%M}", "03:04"),
        ("{name!r} {name!r:>9}", "'Gentoo'  'Gentoo'"),
        ("[{empty}] {nothing}", "[] None"),
        ("it's {name}, isn't it?", "it's Gentoo, isn't it?"),
        ("{see {name}}", "{see Gentoo}"),
        (r"\text{of {name}}", r"\text{of Gentoo}"),
        (r"a\n{name} x_{n} \{name}", r"a\nGentoo x_3 \Gentoo"),
    ],
)
def test_a_lookup_is_replaced_by_its_value(question: str, sent: str) -> None:
    assert asked(question) == sent


@pytest.mark.parametrize(
    "text",
    [
        '{"a": 1}',
        '{"a": {"b": [{}, true, null]}}',
        "{'a': name}",
        "{a: 1}",
        "{1, 2}",
        "{name, n}",
        "{2,3}",
        "{}",
        "{ }",
        "{see above}",
        "{see {that one}}",
        "{see above}}",
        "{n: see below}",
        "function f() { return n; }",
        "p {color:red; margin:0}",
        "{it's a note}",
        "{\n  n\n}",
        "What's \"{up?",
        "a } b",
        "{*x}",
        "$name %s",
        r"\frac{n}{n + 1} and \bar{x}_{n}^{n}, e^{n}",
        r"\sqrt[3]{n} \sum_{n}",
        r"\operatorname*{n}{name}",
    ],
)
def test_json_dicts_sets_code_and_stray_braces_are_left_alone(text: str) -> None:
    assert asked(text) == text


@pytest.mark.parametrize(
    ("question", "sent"),
    [
        ("{{name}}", "{name}"),
        ('{{"a": {n}}}', '{"a": 3}'),
        ("{{{name}}}", "{Gentoo}"),
        ("{name}}}", "Gentoo}"),
        (r"\frac{{n}}{{2}}", r"\frac{n}{2}"),
    ],
)
def test_a_doubled_brace_is_one_brace(question: str, sent: str) -> None:
    assert asked(question) == sent


@pytest.mark.parametrize(
    ("question", "said"),
    [
        ("{nmae}", "'nmae', did you mean 'name'?"),
        ("{x.foo}", "AttributeError"),
        ("{d['k']}", "KeyError: 'k'"),
        ("{len(x)}", "more than a variable"),
        ("{n - 1}", "more than a variable"),
        ("{[i for i in x]}", "more than a variable"),
        ("{i for i in x}", "more than a variable"),
        ("{len(x):.2f}", "more than a variable"),
        ("{df['mass'].mean():,.1f}", "more than a variable"),
        ("{len(x)!r}", "more than a variable"),
        ("{name:.2f}", "cannot be written so: ValueError"),
        ("{price:.2ff}", "cannot be written so: ValueError"),
        ("x_{b}", "no variable is named 'b'"),
    ],
)
def test_a_lookup_that_cannot_be_made_is_an_error_that_names_it_and_the_ways_out(
    question: str, said: str
) -> None:
    with pytest.raises(UsageError) as error:
        asked(question)
    assert said in str(error.value)
    assert "write {{name}}" in str(error.value)
    assert "\n" not in str(error.value)


def test_every_fault_of_a_question_is_named_at_once() -> None:
    with pytest.raises(UsageError, match=r"'one'.*'two'"):
        asked("{one} and {two}")


def test_a_call_in_a_pasted_text_is_never_made() -> None:
    with pytest.raises(UsageError):
        asked("{x.clear()}")
    assert NAMES["x"] == [1, 2, 3, 4]


def test_a_generator_is_not_used_up() -> None:
    generator = iter(x for x in "ab")
    with pytest.raises(UsageError, match="make it a list"):
        expand("{g}", {"g": generator})
    assert list(generator) == ["a", "b"]


def test_a_frame_is_written_as_a_tool_would_tell_of_it() -> None:
    text = asked("Look at {df[df.year > 2008]}")
    assert "DataFrame of 1 rows × 2 columns" in text
    assert "3.5" in text
    assert "ndarray of shape 2" in asked("{array}")


def test_a_long_value_is_cut_and_the_cut_is_marked() -> None:
    text = expand("{x}", {"x": "y" * 100_000}, max_chars=500).text
    assert len(text) <= 500
    assert set(text) != {"y"}


def test_a_picture_among_the_values_goes_along() -> None:
    class Chart:
        def _repr_png_(self) -> bytes:
            return b"\x89PNG\r\n\x1a\n"

    sent = expand("What does {chart} show?", {"chart": Chart()})
    assert sent.text == "What does [image: Chart] show?"
    assert len(sent.images) == 1


@given(st.text(alphabet=st.sampled_from("{}{}ab n\"':!.[]()\\\n"), max_size=60))
def test_any_text_with_its_braces_doubled_is_sent_as_it_was(text: str) -> None:
    assert asked(text.replace("{", "{{").replace("}", "}}")) == text


@given(st.text(alphabet=st.sampled_from("{}{}an x\"':!.,[]()=\\\n"), max_size=60))
def test_no_text_does_more_harm_than_an_error_for_the_user(text: str) -> None:
    with contextlib.suppress(UsageError):
        asked(text)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


@given(st.dictionaries(st.text(), JSON, max_size=4), st.sampled_from([None, 2]), st.booleans())
def test_any_json_object_is_left_alone(
    value: dict[str, object], indent: int | None, ascii: bool
) -> None:
    text = f"Look: {json.dumps(value, indent=indent, ensure_ascii=ascii)} and {{name}}"
    assert asked(text) == text.removesuffix("{name}") + "Gentoo"


@given(st.integers() | st.text(st.characters(exclude_categories=["Cs", "Cc"])).filter(str.strip))
def test_a_plain_value_is_written_as_it_is(value: object) -> None:
    assert expand("<{v}>", {"v": value}).text == f"<{value}>"


@pytest.mark.parametrize(
    "text", ["{" * 5000, "{ " * 2000 + "}" * 2000, "{'" * 3000, "{" + "(" * 5000 + "}"]
)
def test_hostile_nesting_is_text(text: str) -> None:
    sent = asked(text)
    assert len(sent) >= math.floor(len(text) / 2)
