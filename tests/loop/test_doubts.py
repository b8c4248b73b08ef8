"""A small model is asked once before it ends on a name that no call has used, or on a call that failed."""

import pytest

import archytas_nb as nb
from archytas_nb.loop.numbers import lacks_numbers
from archytas_nb.testing import ScriptedModel


def length_of(river: str) -> int:
    """Look up the length of a river.

    Args:
        river: Its name
    """
    return {"Rhine": 1233, "Elbe": 1094}[river]


class Small(ScriptedModel):
    is_small = True


def test_a_small_model_is_asked_once_about_a_name_and_may_make_the_missing_call() -> None:
    model = Small(
        ("length_of", "Rhine"),
        ("final_answer", "The Rhine is 1233 km long."),
        ("length_of", "Elbe"),
        ("final_answer", "1233 and 1094 km."),
    )
    with model:
        run = nb.Agent([length_of], model=model, namespace={}).run(
            "How long are the Rhine and the Elbe?"
        )
    assert run.answer == "1233 and 1094 km."
    assert "Elbe" in model.asked[2].messages[-1]["content"]
    assert "Rhine" not in model.asked[2].messages[-1]["content"]


def test_a_small_model_that_stays_with_its_answer_is_believed() -> None:
    model = Small(("length_of", "Rhine"), *[("final_answer", "The Rhine is the longer one.")] * 2)
    with model:
        run = nb.Agent([length_of], model=model, namespace={}).run(
            "Which is longer, the Rhine or the Elbe?"
        )
    assert run.answer == "The Rhine is the longer one."


def test_a_larger_model_is_believed_at_once() -> None:
    with ScriptedModel(("length_of", "Rhine"), ("final_answer", "The Rhine.")) as model:
        assert (
            nb.Agent([length_of], model=model, namespace={})
            .run("Is the Rhine or the Elbe longer?")
            .answer
        )


def price_of(shop: str) -> float:
    """Ask a shop for its price.

    Args:
        shop: The shop's name
    """
    return {"Adler": 1.95}[shop]


@pytest.mark.parametrize("end", [("final_answer", "No price."), ("fail_task", "no such shop")])
def test_a_small_model_that_ends_on_a_failed_call_is_asked_once_to_mend_it(
    end: tuple[str, str],
) -> None:
    with Small(
        ("price_of", "Adler's"), end, ("price_of", "Adler"), ("final_answer", "It is 1.95.")
    ) as model:
        run = nb.Agent([price_of], model=model, namespace={}).run("What does it cost at Adler?")
    assert run.answer == "It is 1.95."
    assert "Your last call failed" in model.asked[2].messages[-1]["content"]


def test_a_small_model_that_gives_up_twice_has_given_up() -> None:
    with Small(("price_of", "Bach"), *[("fail_task", "no such shop")] * 2) as model:
        agent = nb.Agent([price_of], model=model, namespace={})
        with pytest.raises(nb.TaskFailed, match="no such shop"):
            agent.run("What does it cost at Bach?")


def test_a_larger_model_may_end_on_a_failed_call() -> None:
    with ScriptedModel(("price_of", "Bach"), ("final_answer", "There is no such shop.")) as model:
        run = nb.Agent([price_of], model=model, namespace={}).run("What does it cost at Bach?")
    assert run.answer == "There is no such shop."


def test_a_small_model_is_asked_once_before_two_things_are_sent_as_one() -> None:
    sent: list[str] = []

    def post(channel: str, text: str) -> None:
        """Post a message.

        Args:
            channel: Where
            text: What
        """
        sent.append(channel)

    calls = [
        ("post", {"channel": each, "text": "Hi"})
        for each in ("dev and ops", "dev", "ops", "dev and ops")
    ]
    with Small(*calls, ("final_answer", "Done.")) as model:
        nb.Agent([post], model=model, namespace={}).run("Post it in the channels dev and ops.")
    assert sent == ["dev", "ops", "dev and ops"], "the second time it is believed"
    assert "looks like 2 things" in model.asked[1].messages[-1]["content"]


def test_a_small_model_is_asked_once_before_a_switch_is_used_the_other_way_round_and_then_writes_it_right() -> (
    None
):
    drawn: list[bool] = []

    def draw(rows: int, with_replacement: bool = False) -> str:
        """Draw a sample.

        Args:
            rows: How many
            with_replacement: Whether a row may be drawn twice
        """
        drawn.append(with_replacement)
        return f"{rows} rows"

    right = ("draw", {"rows": 5, "with_replacement": True})
    with Small(("draw", {"rows": 5}), right, ("final_answer", "Done.")) as model:
        nb.Agent([draw], model=model, namespace={}).run("Draw 5 rows with replacement.")
    assert drawn == [True]
    assert "the question asks for with_replacement true" in model.asked[1].messages[-1]["content"]
    asked = [[each["properties"] for each in request.schema["oneOf"]] for request in model.asked]
    inputs = [each[0]["tool_input"]["properties"] for each in asked]
    fixed = [(each["rows"].get("const"), each["with_replacement"].get("const")) for each in inputs]
    assert fixed == [(None, None), (5, True), (None, None)], (
        "the same call but for the switch, once"
    )
    with Small(("draw", {"rows": 5}), ("draw", {"rows": 5}), ("final_answer", "Done.")) as model:
        nb.Agent([draw], model=model, namespace={}).run("Draw 5 rows with replacement.")
    assert drawn == [True, False], "the second time it is believed"
    wrong = ("draw", {"rows": 5, "with_replacement": False})
    with Small(right, wrong, ("final_answer", "Done.")) as model:
        nb.Agent([draw], model=model, namespace={}).run("Draw 5 rows with replacement.")
    assert drawn == [True, False, True]
    assert "You have made that call already." in model.asked[2].messages[-1]["content"]


def test_a_small_model_is_asked_once_before_a_number_from_nowhere_is_used() -> None:
    doses: list[float] = []

    def litres(pond: str) -> int:
        """Look up what a pond holds.

        Args:
            pond: Its name
        """
        return 8400

    def dose(litres: float) -> float:
        """Reckon the dose for some water.

        Args:
            litres: How much water
        """
        doses.append(litres)
        return litres / 20

    with Small(
        ("litres", "koi pond"), ("dose", 12), ("dose", 8400), ("final_answer", "420 ml.")
    ) as model:
        nb.Agent([litres, dose], model=model, namespace={}).run(
            "Which dose does the koi pond need?"
        )
    assert doses == [8400]
    assert (
        "12 is not found in the question or in what you were told"
        in model.asked[2].messages[-1]["content"]
    )
    with Small(
        ("litres", "koi pond"), ("dose", 12), ("dose", 12), ("final_answer", "0.6 ml.")
    ) as model:
        nb.Agent([litres, dose], model=model, namespace={}).run(
            "Which dose does the koi pond need?"
        )
    assert doses == [8400, 12], "the second time it is believed"


def test_a_small_model_that_lost_count_is_asked_once_before_a_call_is_made_again() -> None:
    light = {"is": "off"}

    def look() -> str:
        """Look at the light."""
        return light["is"]

    def switch(to: str) -> str:
        """Switch the light.

        Args:
            to: on or off
        """
        light["is"] = to
        return "switched"

    calls = [
        ("look", None),
        ("switch", "on"),
        ("look", None),
        ("look", None),
        ("final_answer", "It is on."),
    ]
    with Small(*calls) as model:
        run = nb.Agent([look, switch], model=model, namespace={}).run("Switch the light on.")
    assert "final_answer now" in model.asked[3].messages[-1]["content"]
    assert [outcome.text for _, outcome in run.calls] == ["off", "switched", "on"]


def test_a_small_model_that_answers_how_many_without_a_number_is_asked_once_for_it() -> None:
    script = [
        ("length_of", "Rhine"),
        ("final_answer", "The Rhine is long."),
        ("final_answer", "1233 km"),
    ]
    with Small(*script) as model:
        assert (
            nb.Agent([length_of], model=model, namespace={}).run("How long is the Rhine?").answer
            == "1233 km"
        )
    assert "your answer has none" in model.asked[2].messages[-1]["content"]


@pytest.mark.parametrize(
    ("answer", "question", "found"),
    [
        ("It is 5.", "How long is it?", ["5"]),
        ("It is the Rhine.", "Which is longer?", ["5"]),
        ("It is unknown.", "How long is it?", ["no entry"]),
        ("It is done.", "How long is it?", []),
    ],
)
def test_an_answer_without_a_number_is_let_pass_where_none_is_asked_for_or_found(
    answer: str, question: str, found: list[str]
) -> None:
    assert not lacks_numbers(answer, question, found)


def test_the_doubt_about_names_is_uttered_again_where_it_was_followed_in_part() -> None:
    both = ("final_answer", "The Rhine is the longer one.")
    with Small(("length_of", "Rhine"), both, ("length_of", "Elbe"), both, both) as model:
        run = nb.Agent([length_of], model=model, namespace={}).run(
            "Compare the Rhine, the Elbe and the Oder."
        )
    assert run.status == "answered"
    told = [str(ask.messages[-1]["content"]) for ask in model.asked]
    assert ["Elbe" in told[2], "Oder" in told[2], "Elbe" in told[4], "Oder" in told[4]] == [
        True,
        True,
        False,
        True,
    ]


def test_a_small_model_is_told_which_name_of_an_error_it_may_have_meant() -> None:
    def column_max(column: str) -> float:
        """Find the greatest value of a column.

        Args:
            column: The column
        """
        if column != "weight_kg":
            raise KeyError(f"no column is named {column!r}; there are 'weight_kg' and 'height_cm'")
        return 82.0

    script = [("column_max", "weight"), ("column_max", "weight_kg"), ("final_answer", "82")]
    with Small(*script) as model:
        nb.Agent([column_max], model=model, namespace={}).run("What is the greatest weight?")
    told = model.asked[1].messages[-1]["content"]
    assert told.endswith("It gave no result. Call again, with 'weight_kg' in place of 'weight'.")
