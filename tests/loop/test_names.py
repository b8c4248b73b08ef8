"""Names that no call used, several that were sent as one, and the one that an error may mean are found."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.loop.names import meant, several, unused


@pytest.mark.parametrize(
    ("question", "used", "found"),
    [
        ("How long are the Rhine and the Elbe?", ["Rhine"], ["Elbe"]),
        ("How long are the Rhine and the Elbe?", ["rhine", "ELBE"], []),
        ("How long are the Rhine and the Elbe?", ["nothing of both"], []),
        ("Compare Adler, Bach and Cramer.", ["Adler"], ["Bach", "Cramer"]),
        ("What does Mara Lind earn?", ['{"name": "Mara Lind"}'], []),
        ("Merge lakes.csv and trees.csv.", ["lakes.csv"], ["trees.csv"]),
        ("The means of body_mass and bill_depth?", ["body_mass"], ["bill_depth"]),
        ('Post "all good" in the channel "ops".', ["all good"], ["ops"]),
        ("How many pears? And how many plums?", ["pears"], []),
        ("How high was it at Ellery on 9 March 2024?", ["Ellery", "09.03.2024"], []),
        ("How high was it at Ellery on 9 March 2024?", ["Ellery", "2024-03-09"], []),
        ("How high was it at Ellery on 9 March 2024?", ["Ellery", "3/9/2024"], []),
        ("How high was it at Ellery in March 2024?", ["Ellery", "03-2024"], []),
        ("How high was it at Ellery on 9 March 2024?", ["Ellery", "09.04.2024"], ["March"]),
        ("How high was it at Ellery in April and May?", ["Ellery", "2024-04"], ["May"]),
        ("", [], []),
    ],
)
def test_names_that_no_call_used_are_found(
    question: str, used: list[str], found: list[str]
) -> None:
    assert unused(question, used) == found


@given(st.text())
def test_a_question_that_was_used_whole_leaves_no_name(question: str) -> None:
    assert unused(question, [question]) == []


@pytest.mark.parametrize(
    ("value", "things"),
    [
        ("dev and ops", ["dev", "ops"]),
        ("Adler, Bach and Cramer", ["Adler", "Bach", "Cramer"]),
        ("Adler, Bach, and New York", ["Adler", "Bach", "New York"]),
        ("a.csv, b.csv", ["a.csv", "b.csv"]),
        ("Mara or Tom", ["Mara", "Tom"]),
        ("Rhein oder Elbe", ["Rhein", "Elbe"]),
        ("Lyon ou Nice", ["Lyon", "Nice"]),
        ("dev", []),
        ("New York", []),
        ("Sand and", []),
        ("Build is green, and the tests of it pass", []),
        ("", []),
    ],
)
def test_things_that_were_sent_as_one_are_told_apart(value: str, things: list[str]) -> None:
    assert several(value) == things


@given(
    st.lists(st.from_regex(r"[A-Z][a-z]{3,8}", fullmatch=True), min_size=2, max_size=5),
    st.sampled_from(["and", "or"]),
)
def test_what_is_joined_by_a_word_is_told_apart(things: list[str], word: str) -> None:
    assert several(f"{', '.join(things[:-1])} {word} {things[-1]}") == things


@pytest.mark.parametrize(
    ("value", "error", "name"),
    [
        (
            "weight",
            "KeyError: \"no column 'weight'; there are 'weight_kg' and 'height_cm'\"",
            "weight_kg",
        ),
        ("wieght", "there are 'weight' and 'height_cm'", "weight"),
        ("size", "there are 'size_kg' and 'size_cm'", ""),  # two
        (
            "body mass",
            "there are 'body_mass' and 'body_mass_g'",
            "body_mass",
        ),  # but for its signs it is the same
        ("River Elbe", "there are 'Elbe' and 'Oder'", "Elbe"),
        ("River Elbe", "no 'River Elbe'", ""),
        ("Hansen's", "no such plumber; there are 'Hansen' and 'Ortiz'", "Hansen"),
        ("km", "it isn't there, and doesn't come", ""),
        ("", "there are 'a' and 'b'", ""),
    ],
)
def test_the_name_that_was_meant_is_found_in_an_error(value: str, error: str, name: str) -> None:
    assert meant(value, error) == name


@pytest.mark.parametrize(
    ("value", "question", "name"),
    [
        ("leaves_for_30_epochs", "", "leaves"),
        ("the_set", "Train on the leaves, please.", "leaves"),
        ("the_set", "Train on the leaves and the flowers.", ""),
        ("the_set", "Train on the_set or leaves.", ""),  # it was asked for
        ("the_set", "Train on cleaves.", ""),
        ("the_set", "Train, but not on leaves: not leaves.", ""),
        ("the_set", "x" * 1001 + " leaves", ""),
        ("the_set", "Train.", ""),
    ],
)
def test_a_name_is_meant_that_is_within_the_value_or_the_only_one_of_the_question(
    value: str, question: str, name: str
) -> None:
    error = f"no dataset is named {value!r}; expected one of ['leaves', 'flowers']"
    assert meant(value, error, question) == name
    assert meant(value, error, question, {"leaves": value}) == (
        "" if "the_set" in value else name
    ), "a field"


@given(st.text(), st.lists(st.from_regex(r"[a-z]{1,9}", fullmatch=True)))
def test_the_name_that_was_meant_is_one_of_the_error_and_another_than_was_given(
    value: str, names: list[str]
) -> None:
    found = meant(value, f"there are {' and '.join(map(repr, names))}")
    assert found in ["", *names]
    assert not found or found != value
