"""What was named beside things that were looked up, and was not looked up itself, is found."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.react.pending import MOST, beside, listed, pending
from archytas_nb.testing import ScriptedModel


@pytest.mark.parametrize(
    ("thing", "text", "others"),
    [
        ("Rhine", "Which is longest: Rhine, Elbe or Oder? Say its name.", ["Elbe", "Oder"]),
        ("Oder", "Which is longest: Rhine, Elbe or Oder?", ["Rhine", "Elbe"]),
        ("Elbe", "The Rhine, the Elbe, and the Oder meet.", ["Rhine", "Oder"]),
        ("Hansen", "Ask the plumbers Hansen and Ortiz for a quote.", ["Ortiz"]),
        ("north tank", "Is the north tank or the south tank fuller?", ["south tank"]),
        ("age", "Which of the columns age, income and postcode has gaps?", ["income", "postcode"]),
        ("a.csv", "Join a.csv and b.csv.", ["b.csv"]),
        ("mean_mass", "Compare 'mean_mass' and 'max_mass'.", ["max_mass"]),
        ("age", "Check age and report back.", []),  # two words that "and" joins may be anything
        ("Hansen", "Ask Hansen and tell me.", []),
        ("2015", "Was there more sun in 2015, and how much?", []),
        ("2012", "Compare 2012, 2013 and 2015.", ["2013", "2015"]),
        ("Hansen", "Ask Ortiz.", []),
        ("", "Ask Hansen and Ortiz.", []),
        ("a.c", "abc and b.c", []),  # it is a text, and no pattern
    ],
)
def test_the_names_that_a_text_lists_beside_one_are_found(thing: str, text: str, others: list[str]) -> None:
    assert beside(thing, text) == others


names = st.from_regex(r"[A-Z][a-z]{1,8}", fullmatch=True)


@given(st.lists(names, min_size=2, max_size=6, unique_by=str.lower), st.data())
def test_every_name_of_a_list_finds_all_the_others(things: list[str], data: st.DataObject) -> None:
    word = data.draw(st.sampled_from(["and", "or", "und", "oder"]))
    text = f"Look at {', '.join(things[:-1])} {word} {things[-1]}."
    if {each.lower() for each in things} & {"and", "or", "und", "oder", "the", "a", "an", "at", "look"}:
        return
    for thing in things:
        assert beside(thing, text) == [each for each in things if each != thing]


@given(st.text(max_size=60), st.text(max_size=80))
def test_any_texts_are_taken(thing: str, text: str) -> None:
    assert thing not in beside(thing, text)
    assert isinstance(listed(text), list)


@pytest.mark.parametrize(
    ("outcome", "things"),
    [
        ('["W1", "W2"]', ["W1", "W2"]),
        ("Rhine, Elbe and Oder", ["Rhine", "Elbe", "Oder"]),
        ("[1, 2]", []),
        ('["W1"]', []),
        ('["W1", "W1"]', []),
        ('{"W1": 1, "W2": 2}', []),
        ("It is done.", []),
        (json.dumps([str(n) for n in range(MOST + 1)]), []),
        (json.dumps(["x" * 50, "y"]), []),
    ],
)
def test_an_outcome_that_lists_names_is_known(outcome: str, things: list[str]) -> None:
    assert listed(outcome) == things


LIST = ("samples", None, '["W1", "W2", "W3"]')


@pytest.mark.parametrize(
    ("question", "worked", "left"),
    [
        ("Which sample is sour?", [LIST, ("ph", "W1", "7.1")], ["W2", "W3"]),
        ("Which sample is sour?", [LIST, ("ph", "W1", "7.1"), ("ph", "w3", "5")], ["W2"]),
        ("Which sample is sour?", [LIST], []),  # the list may have been all
        ("How sour is W1?", [LIST, ("ph", "W1", "7.1")], []),  # the question has chosen
        ("Which sample is sour?", [LIST, ("discard", "W1", "done")], []),  # no number: not something looked up
        ("Compare Rhine and Elbe.", [("length", {"river": "Rhine"}, "1230")], ["Elbe"]),
        ("Compare Rhine and Elbe.", [("length", "Rhine", "1230"), ("length", "Elbe", "1094")], []),
    ],
)
def test_what_is_left_to_look_up_is_what_stands_beside_what_gave_a_number(
    question: str, worked: Any, left: list[str]
) -> None:
    assert pending(question, worked) == left


def quote(plumber: str) -> float:
    """Get a plumber's quote.

    Args:
        plumber: The plumber
    """
    return {"Hansen": 240.0, "Ortiz": 195.0}[plumber]


class Small(ScriptedModel):
    is_small = True


@pytest.mark.parametrize(("kind", "told"), [(Small, True), (ScriptedModel, False)])
def test_a_small_model_is_told_with_an_outcome_what_is_left(kind: Any, told: bool) -> None:
    with kind(("quote", "Hansen"), ("quote", "Ortiz"), ("final_answer", "Ortiz")) as model:
        nb.Agent([quote], model=model, namespace={}).run("Who is cheaper, Hansen or Ortiz?")
    first, second = (str(model.asked[at].messages[-1]["content"]) for at in (1, 2))
    assert first.endswith("240.0\n\nNot looked up with quote yet: Ortiz") == told
    assert second.endswith("cheapest is Ortiz (195.0).") == told


def test_a_small_model_that_answers_before_it_has_looked_through_a_list_is_asked_once_about_the_rest() -> None:
    def samples() -> list[str]:
        """List the samples."""
        return ["W1", "W2", "W3"]

    def acidity(sample: str) -> float:
        """Measure the pH of a sample.

        Args:
            sample: The sample
        """
        return {"W1": 7.1, "W2": 5.9, "W3": 6.8}[sample]

    end = ("final_answer", "None is sour.")
    with Small(("samples", {}), ("acidity", "W1"), end, ("acidity", "W2"), end, end) as model:
        run = nb.Agent([samples, acidity], model=model, namespace={}).run("Which of the samples is sour?")
    assert run.answer == "None is sour."
    asked = [str(each.messages[-1]["content"]) for each in model.asked[-3:]]
    assert "You used no tool for W2 and W3 yet." in asked[0]
    assert asked[1].endswith("Not looked up with acidity yet: W3")
    assert "You used no tool for W3 yet." in asked[2]


def test_a_small_model_that_sent_several_things_as_one_and_answers_is_told_to_call_for_the_first() -> None:
    end = ("final_answer", "Hansen")
    with Small(("quote", "Hansen and Ortiz"), end, ("quote", "Ortiz"), end, end) as model:
        nb.Agent([quote], model=model, namespace={}).run("Who of the plumbers is cheaper?")
    told = [str(each.messages[-1]["content"]) for each in model.asked]
    assert any("call it for 'Hansen' now" in each for each in told[2:])
