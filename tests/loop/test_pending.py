"""What was named beside things that were looked up, and was not looked up itself, is found."""

from __future__ import annotations

import json
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.loop.pending import MOST, is_choice, listed, pending, untouched
from archytas_nb.testing import ScriptedModel


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
        ("[" * 100_000, []),
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
        (
            "Which sample is sour?",
            [LIST, ("discard", "W1", "done")],
            [],
        ),  # no number: not something looked up
        ("What is the mean pH of W?", [("list", None, '["ph", "w"]'), ("mean", "ph", "7.1")], []),
        (
            "What is the average body mass?",
            [("list", None, '["body_mass", "year"]'), ("mean", "body_mass", "4")],
            [],
        ),
        ("Compare Rhine and Elbe.", [("length", {"river": "Rhine"}, "1230")], ["Elbe"]),
        ("Compare Rhine and Elbe.", [("length", "Rhine", "9"), ("length", "River Elbe", "8")], []),
        ("Compare Rhine and Elbe.", [("length", "Rhine", "9"), ("length", "Elbe", "1,094 km")], []),
        ("Compare Rhine and Elbe.", [("length", "Rhine", "9"), ("towns", "Elbe", "[]")], ["Elbe"]),
        ("Compare Rhine and Elbe.", [("length", "Rhine", "1230"), ("length", "Elbe", "1094")], []),
    ],
)
def test_what_is_left_to_look_up_is_what_stands_beside_what_gave_a_number(
    question: str, worked: Any, left: list[str]
) -> None:
    assert (
        pending(question, worked, worked[-1][0] if worked[-1][0] != "towns" else "length") == left
    )


def test_what_any_call_was_made_for_is_not_untouched() -> None:
    worked = [("length", "Rhine", "9"), ("towns", "Elbe", "[]")]
    assert untouched("Compare Rhine, Elbe and Oder.", worked) == ["Oder"]
    assert untouched("Compare Rhine, Elbe and Oder.", []) == []


@pytest.mark.parametrize(
    ("question", "worked", "left"),
    [
        (
            "Post it to dev, ops and sales.",
            [("post", {"channel": "dev", "text": "Hi"}, "posted")],
            ["ops", "sales"],
        ),
        (
            "How did it rise from epoch 10 to epoch 15?",
            [("loss", {"epoch": 10}, "0.5")],
            ["epoch 15"],
        ),
        ("How did it rise from epoch 10 to epoch 15?", [("loss", 15, "0.5")], ["epoch 10"]),
        ("How did it rise from 2019 to 2020?", [("rent", "2019", "9"), ("rent", "2020", "10")], []),
        ("The mean from 2019 to 2020?", [("mean", {"start": 2019, "end": 2020}, "9")], []),
        (
            "How did it rise from 2019 to 2020?",
            [("list", None, "[]")],
            [],
        ),  # it may be about something else
        ("What is there from 10:30 to 14:00?", [("at", "10", "9")], []),
    ],
)
def test_what_was_named_with_what_any_call_was_made_for_is_untouched(
    question: str, worked: Any, left: list[str]
) -> None:
    assert untouched(question, worked) == left


@pytest.mark.parametrize(
    ("question", "found"),
    [
        ("If it is open call Hansen, otherwise Ortiz.", True),
        ("Call Hansen, or else Ortiz.", True),
        ("Is Hansen there? If not, call Ortiz.", True),
        ("Call Hansen and Ortiz.", False),
        ("Is Hansen or Ortiz cheaper?", False),
    ],
)
def test_where_one_is_to_be_done_or_else_the_other_nothing_is_missing(
    question: str, found: bool
) -> None:
    worked = [("quote", "Hansen", "240")]
    assert is_choice(question) == found
    if found:
        assert pending(question, worked, "quote") == untouched(question, worked) == []


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
    assert second.endswith("The cheaper is Ortiz (195.0).") == told


def test_a_small_model_that_answers_before_it_has_looked_through_a_list_is_asked_once_about_the_rest() -> (
    None
):
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
        run = nb.Agent([samples, acidity], model=model, namespace={}).run(
            "Which of the samples is sour?"
        )
    assert run.answer == "None is sour."
    asked = [str(each.messages[-1]["content"]) for each in model.asked[-3:]]
    assert "You used no tool for W2 and W3 yet." in asked[0]
    assert asked[1].endswith("Not looked up with acidity yet: W3")
    assert "You used no tool for W3 yet." in asked[2]


def test_a_small_model_that_sent_several_things_as_one_and_answers_is_told_to_call_for_the_first() -> (
    None
):
    end = ("final_answer", "Hansen")
    with Small(("quote", "Hansen and Ortiz"), end, ("quote", "Ortiz"), end, end) as model:
        nb.Agent([quote], model=model, namespace={}).run("Who of the plumbers is cheaper?")
    told = [str(each.messages[-1]["content"]) for each in model.asked]
    assert any("call it for 'Hansen' now" in each for each in told[2:])
