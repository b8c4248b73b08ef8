"""What a person is shown of a call is clear and cannot be forged; what they type is never misread."""

import json
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.kernel.approval import (
    call_text,
    read_answer,
    read_input,
    visible,
)


@pytest.mark.parametrize(
    ("line", "answer", "text"),
    [
        ("y", "yes", ""), (" Yes. ", "yes", ""), ("YES!", "yes", ""),
        ("a", "always", ""), ("e", "edit", ""), ("s", "stop", ""), ("?", "help", ""), ("help", "help", ""),
        ("n", "no", ""), ("no", "no", ""),
        ("n, the table is in use", "no", "the table is in use"), ("No: wrong year", "no", "wrong year"),
        ("", "unclear", ""), ("yep", "unclear", "yep"), ("x", "unclear", "x"), ("nothing", "unclear", "nothing"),
        ("no problem, go ahead", "reason", "no problem, go ahead"), ("yes please", "reason", "yes please"),
        ("take the other table", "reason", "take the other table"),
    ],
)  # fmt: skip
def test_only_the_choices_themselves_decide_and_several_words_are_asked_about(
    line: str, answer: str, text: str
) -> None:
    assert read_answer(line) == (answer, text)


@given(st.text())
def test_no_other_text_is_taken_for_an_approval(line: str) -> None:
    if line.strip().casefold().rstrip(".!") not in ("y", "yes", "a", "always"):
        assert read_answer(line)[0] not in ("yes", "always")


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=8,
)


@given(JSON)
def test_json_and_python_literals_are_read_as_what_they_say(value: object) -> None:
    assert read_input(json.dumps(value), None, ["n"]) == value
    assert read_input(repr(value), None, ["n"]) == value


def test_one_argument_can_be_changed_by_its_name() -> None:
    before = {"table": "orders", "limit": 5}
    names = ["table", "limit", "where"]
    assert read_input("limit = 7", before, names) == {"table": "orders", "limit": 7}
    assert read_input('where="id == 3"', before, names) == {**before, "where": "id == 3"}
    assert before == {"table": "orders", "limit": 5}


@pytest.mark.parametrize(
    "text", ["hello", "{", "[1, 2", "limit = ", "{1, 2}", "nan", "f(3)", "other = 3", "a == 1"]
)
def test_what_is_no_value_is_refused_with_what_was_expected(text: str) -> None:
    with pytest.raises(ValueError, match="neither JSON nor a Python value"):
        read_input(text, {}, ["limit"])


def shown(name: str, **values: object) -> str:
    return call_text(name, values, values)


def test_a_call_is_shown_with_one_argument_a_line_and_text_of_several_lines_as_it_is() -> None:
    sql = "SELECT *\nFROM orders\nWHERE id < 3"
    assert shown("query", sql=sql, limit=5, tags=["a", "b"]).splitlines() == [
        "The agent wants to run query:",
        "  sql:",
        "    │ SELECT *",
        "    │ FROM orders",
        "    │ WHERE id < 3",
        "  limit = 5",
        '  tags = ["a", "b"]',
    ]
    assert shown("count", species="Gentoo").splitlines()[1] == '  species = "Gentoo"'
    assert shown("now") == "The agent wants to run now (no arguments)."


def test_what_the_model_sent_stands_beside_a_value_that_is_another() -> None:
    values = {"a": 5, "b": "x", "c": None, "d": 1.0}
    assert call_text("f", values, {"a": "5", "b": "x"}).splitlines()[1:] == [
        '  a = 5  (sent as "5")',
        '  b = "x"',
        "  c = null",
        "  d = 1.0  (the default)",
    ]
    assert call_text("f", {"a": 5}, "5").endswith('  a = 5  (sent as "5")')


def test_the_middle_of_long_values_is_left_out_and_its_length_is_named() -> None:
    text = shown("f", a=list(range(5000)), b="x" * 70_000, c="line\n" * 900)
    assert "28,590 characters left out" in text
    assert "69,702 characters left out" in text
    assert "861 lines left out" in text
    assert "4999]" in text
    assert len(text) < 2000


@given(st.text() | st.dictionaries(st.text(), st.text(), max_size=3), st.text(min_size=1))
def test_nothing_that_a_model_writes_can_pass_for_a_line_of_ours(value: object, name: str) -> None:
    first, *lines = call_text(name, {"code": value}, {"code": value}).split("\n")
    assert first.startswith("The agent wants to run ")
    assert all(line.startswith(("  code", "    │ ", "    … ")) for line in lines)
    assert not any(
        unicodedata.category(each) in {"Cc", "Cf"} for line in (first, *lines) for each in line
    )


def test_what_moves_the_cursor_or_turns_text_round_is_spelled_out() -> None:
    assert visible("a\x1b[2Kb\rc\u202ed\u2066") == "a\\x1b[2Kb\\rc\\u202ed\\u2066"
    assert visible("ä 漢 😀") == "ä 漢 😀"
