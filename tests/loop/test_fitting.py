"""A small model is asked which tool fits before it begins; where none does, it can only say so."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Usage
from archytas_nb.loop.fitting import IMPOSSIBLE, KNOWN, LONGEST, MOST_TOOLS, verdict
from archytas_nb.testing import ScriptedModel

QUESTION = "What length has the Rhine?"


def length_of(river: str) -> int:
    """Look up the length of a river.

    Args:
        river: Its name
    """
    return 1233


def height_of(tower: str) -> float:
    """Look up the height of a tower.

    Args:
        tower: Its name
    """
    return 88.5


def named(name: str) -> Any:
    def length(river: str) -> int:
        """Look up the length of a river.

        Args:
            river: Its name
        """
        return 1

    length.__name__ = length.__qualname__ = name
    return length


class Small(ScriptedModel):
    """A small model that judges by a rule, and else follows its script."""

    is_small = True

    def __init__(self, *script: Any, fits: str = "", knows: str = "No.", **kinds: Any) -> None:
        super().__init__(*script, **kinds)
        self.fits, self.knows = fits, knows
        self.vague = False
        self.judged: list[AskModel] = []

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        if ask.step:
            return (yield from super().complete(ask))
        self.judged.append(ask)
        said = str(ask.messages[-1]["content"])
        yield Delta("text", "No.")
        if self.vague:
            return ModelReply("It depends.")
        if "by heart" in said:
            return ModelReply(self.knows, usage=Usage(input_tokens=10, output_tokens=1))
        return ModelReply(
            "Yes." if self.fits and f"Tool: {self.fits}(" in said else "No.",
            usage=Usage(input_tokens=10, output_tokens=1),
        )


def agent(model: Any, *tools: Any) -> nb.Agent:
    return nb.Agent(tools or (height_of, length_of), model=model, namespace={})


def offered(ask: AskModel) -> list[str]:
    if ask.tools:
        return [tool["function"]["name"] for tool in ask.tools]
    return [branch["properties"]["tool"]["const"] for branch in ask.schema["oneOf"]]


def test_where_a_tool_fits_the_question_is_sent_as_it_is_with_every_tool() -> None:
    with Small(("length_of", "Rhine"), ("final_answer", "1233 km"), fits="length_of") as model:
        agent(model).run(QUESTION)
    assert model.asked[0].messages[-1]["content"] == QUESTION
    assert offered(model.asked[0]) == ["height_of", "length_of", "final_answer", "fail_task"]


def test_the_tool_with_most_words_of_the_question_is_asked_about_first_and_alone_where_it_fits() -> (
    None
):
    with Small(("length_of", "Rhine"), ("final_answer", "It is long."), fits="length_of") as model:
        agent(model).run("What has the greatest length?")
    assert [
        "Tool: length_of(river): Look up" in str(ask.messages[-1]["content"])
        for ask in model.judged
    ] == [True]


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_what_it_knows_by_heart_can_only_be_answered(protocol: Any) -> None:
    with Small(("final_answer", "It has 24 hours."), knows="Yes", protocol=protocol) as model:
        run = agent(model).run("How many hours has a day?")
    assert (
        run.answer == "It has 24 hours."
    )  # without a doubt about the number, which no tool has told
    assert str(model.asked[0].messages[-1]["content"]).endswith(f"\n\n{KNOWN}")
    assert [
        name for name in offered(model.asked[0]) if name not in ("final_answer", "fail_task")
    ] == []
    assert protocol == "native" or offered(model.asked[0]) == ["final_answer"]


@pytest.mark.parametrize("protocol", ["react", "native"])
def test_what_no_tool_does_and_nobody_knows_can_only_be_given_up(protocol: Any) -> None:
    model = Small(("fail_task", "There is no tool for prices."), protocol=protocol)
    with model, pytest.raises(nb.TaskFailed, match="no tool for prices"):
        agent(model).run("What does the tower cost?")
    assert str(model.asked[0].messages[-1]["content"]).endswith(f"\n\n{IMPOSSIBLE}")
    assert offered(model.asked[0]) == ["fail_task"]


def test_a_model_that_calls_a_tool_nevertheless_is_let_and_goes_on_with_all_of_them() -> None:
    with Small(("length_of", "Rhine"), ("final_answer", "1233 km")) as model:
        assert agent(model).run(QUESTION).answer == "1233 km"
    assert "length_of" in offered(model.asked[1])


def test_only_the_first_question_of_a_conversation_is_judged_as_others_need_what_was_said_before() -> (
    None
):
    script = [("length_of", "Rhine"), ("final_answer", "Long."), ("final_answer", "Longer.")]
    with Small(*script, fits="length_of") as model:
        talk = agent(model)
        talk.run(QUESTION)
        judged = len(model.judged)
        talk.run("And the Elbe?")
    assert len(model.judged) == judged == 1


def test_a_remark_stays_with_its_question_so_that_what_was_sent_stays_sent() -> None:
    with Small(("final_answer", "24."), ("final_answer", "Sixty."), knows="yes") as model:
        talk = agent(model)
        talk.run("How many hours has a day?")
        talk.run("And how many minutes has an hour?")
    first, second = (ask.messages for ask in model.asked)
    assert second[: len(first)] == first


def test_nobody_is_asked_about_very_many_tools_very_long_questions_or_no_tool() -> None:
    many = [named(f"length_{n}") for n in range(MOST_TOOLS + 1)]
    for tools, question in ((many, QUESTION), ([length_of], "long " * LONGEST), ([], QUESTION)):
        with Small(("final_answer", "Done.")) as model:
            nb.Agent(tools, model=model, namespace={}).run(question)
        assert model.judged == []


def test_a_larger_model_is_not_asked() -> None:
    with Small(("final_answer", "It is long.")) as model:
        model.is_small = False
        agent(model).run(QUESTION)
    assert model.judged == []


@pytest.mark.parametrize(
    ("said", "means"),
    [
        ("Yes", "yes"),
        (' "No."\n', "no"),
        ("no, it cannot", "no"),
        ("**Yes**", "yes"),
        ("Perhaps", ""),
        ("", ""),
    ],
)
def test_a_verdict_is_read_however_it_is_written(said: str, means: str) -> None:
    assert verdict(said) == means


def test_an_unclear_reply_counts_as_a_tool_that_fits() -> None:
    with Small(("length_of", "Rhine"), ("final_answer", "Long.")) as model:
        model.vague = True
        agent(model).run(QUESTION)
    assert model.asked[0].messages[-1]["content"] == QUESTION
    assert len(model.judged) == 1


@pytest.mark.parametrize("knows", ["No.", "Yes."])
def test_an_answer_without_the_tool_that_fits_is_asked_about_once_unless_it_is_known(
    knows: str,
) -> None:
    again = [("final_answer", "Long.")] * (2 if knows == "No." else 1)
    with Small(*again, fits="length_of", knows=knows) as model:
        assert agent(model).run(QUESTION).answer == "Long."
    doubted = [
        ask
        for ask in model.asked
        if "length_of fits the question" in str(ask.messages[-1]["content"])
    ]
    assert len(doubted) == len(again) - 1


def test_judging_costs_requests_and_tokens_but_is_no_step_of_the_run_nor_of_its_trace() -> None:
    model = Small(("fail_task", "no such tool"))
    with model, pytest.raises(nb.TaskFailed) as failed:
        agent(model).run("What does the tower cost?")
    run = failed.value.run
    assert run is not None
    assert (run.usage.input_tokens, len(model.judged)) == (30, 3)
    shown = run._repr_mimebundle_()[0]["text/markdown"]
    assert "No." not in shown
    assert "Step 0" not in shown


@pytest.mark.parametrize("error", [ModelError("the endpoint is gone"), KeyboardInterrupt()])
def test_what_stops_the_judging_ends_the_run_properly_and_the_next_question_works(
    error: BaseException,
) -> None:
    class Broken(Small):
        def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
            if not ask.step and self.fits:
                raise error
            return (yield from super().complete(ask))

    with Broken(("final_answer", "Here I am."), fits="length_of") as model:
        talk = agent(model)
        with pytest.raises((ModelError, nb.RunInterrupted)):
            talk.run(QUESTION)
        model.fits, model.knows = "", "yes"
        assert talk.run("Are you there?").answer == "Here I am."


def test_a_preview_shows_the_question_as_it_is_sent_where_a_tool_fits() -> None:
    assert agent(Small()).preview(QUESTION).messages[-1]["content"] == QUESTION


@pytest.mark.parametrize(
    ("question", "asked"),
    [
        ("What length has the river Rhine?", 0),  # length, river
        ("What length has the Rhine?", 1),  # length alone
        ("Look at what is there.", 2),  # nothing in common but what all questions have
    ],
)
def test_nobody_is_asked_where_question_and_tool_have_two_words_of_content_in_common(
    question: str, asked: int
) -> None:
    with Small(("length_of", "Rhine"), ("final_answer", "1233"), fits="length_of") as model:
        nb.Agent([height_of, length_of], model=model, namespace={}).run(question)
    assert len(model.judged) <= asked
    assert bool(model.judged) == bool(asked)
