"""What a text lists beside a name is found; where it may be something else, nothing is."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from archytas_nb.loop.enumeration import LONGEST, beside


@pytest.mark.parametrize(
    ("thing", "text", "others"),
    [
        ("Rhine", "Which is longest: Rhine, Elbe or Oder? Say its name.", ["Elbe", "Oder"]),
        ("Oder", "Which is longest: Rhine, Elbe or Oder?", ["Rhine", "Elbe"]),
        ("Elbe", "The Rhine, the Elbe, and the Oder meet.", ["Rhine", "Oder"]),
        ("Rhine", "The Rhine is long. Compare Rhine, Elbe and Oder.", ["Elbe", "Oder"]),
        ("Hansen", "Ask the plumbers Hansen and Ortiz for a quote.", ["Ortiz"]),
        (
            "Adelie",
            "Which species has the longer bill on average, Adelie or Chinstrap?",
            ["Chinstrap"],
        ),
        ("Boston", "Is New York or Boston bigger?", ["New York"]),
        ("New York", "Compare New York and Boston in June.", ["Boston"]),
        ("Mara", "Who earns more, Mara or Tom Lind?", ["Tom Lind"]),
        ("north tank", "Is the north tank or the south tank fuller?", ["south tank"]),
        ("age", "Which of the columns age, income and postcode has gaps?", ["income", "postcode"]),
        ("age", "Which column has the higher mean, age or income?", ["income"]),
        ("a.csv", "Join a.csv and b.csv.", ["b.csv"]),
        ("anna", "Compare it on the servers anna and bela.", ["bela"]),
        ("roses", "Water the roses and report.", []),
        ("W1", "Which are below 6.5, W1 or W2?", ["W2"]),
        ("my_data/a.csv", "Compare my_data/a.csv and my_data/b.csv.", ["my_data/b.csv"]),
        ("mean_mass", "Compare 'mean_mass' and 'max_mass'.", ["max_mass"]),
        ("2012", "Compare 2012, 2013 and 2015.", ["2013", "2015"]),
    ],
)
def test_the_names_that_a_text_lists_beside_one_are_found(
    thing: str, text: str, others: list[str]
) -> None:
    assert beside(thing, text) == others


@pytest.mark.parametrize(
    ("thing", "text"),
    [
        ("age", "Check age and report back."),
        ("income", "Is age greater than income?"),
        ("sex", "How many rows by sex, or rather island?"),
        ("Hansen", "Ask Hansen and tell me."),
        ("Hansen", "Ask Ortiz."),
        ("readings", "Draw rows from the table readings, with replacement and with seed 7."),
        ("anna", "If anna and bela differ, tell me."),
        ("Berlin", "How warm is it in Berlin, Germany?"),
        ("Berlin", "For Berlin, I need the temperature."),
        ("2015", "What was the mean on May 5, 2015?"),
        ("2015", "In 2015, 12 lakes were sampled, and how many in all?"),
        ("2012", "How many days of sun were there in 2012, and how many in 2015?"),
        ("1", "It has 1,000 rows; look at 1."),
        ("a.c", "abc and b.c"),  # it is a text, and no pattern
        ("", "Ask Hansen and Ortiz."),
        ("Rhine", "Rhine and Elbe. " + "x" * LONGEST),
    ],
)
def test_what_may_be_no_list_is_none(thing: str, text: str) -> None:
    assert beside(thing, text) == []


_NAMES = st.from_regex(r"[A-Z][a-z]{1,8}", fullmatch=True)


@given(
    st.lists(_NAMES, min_size=2, max_size=6, unique_by=str.lower),
    st.sampled_from(["and", "or", "und", "oder"]),
)
def test_every_name_of_a_list_finds_all_the_others(things: list[str], word: str) -> None:
    assume(not {each.lower() for each in things} & {"the", "an", "der", "die", "das", "den"})
    text = f"we look at {', '.join(things[:-1])} {word} {things[-1]} now."
    for thing in things:
        assert beside(thing, text) == [each for each in things if each != thing]


@given(
    st.lists(
        st.sampled_from(["a", "Rhine", "'c1'", "and", "or", ",", "the", ".", "x_y", "I", '"', "5"])
    )
)
def test_any_text_is_taken_and_the_thing_is_never_beside_itself(words: list[str]) -> None:
    text = " ".join(words)
    for thing in (*words, text):
        assert thing.lower() not in [each.lower() for each in beside(thing, text)]


@pytest.mark.parametrize("piece", ["'c1', ", "a, ", "word and ", "Rhine and "])
def test_long_lists_are_left_alone(piece: str) -> None:
    """Nobody waits for a hint: this took for ever with a pattern."""
    assert beside("Rhine", piece * (LONGEST // len(piece) - 2) + "Rhine") == []
