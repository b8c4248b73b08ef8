"""A small model is asked whether a tool fits, and must confirm a doubtful answer."""

from __future__ import annotations

from collections.abc import Generator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Usage
from archytas_nb.loop.wire import Wire
from archytas_nb.small.checks import (
    MAX_QUESTION,
    MAX_TOOLS,
    known_hint,
    no_tool_hint,
    parse_yes_no,
    unsupported_numbers,
)
from archytas_nb.testing import ScriptedModel
from tests.loop.cards import over

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
    """A small model that answers yes-no questions by a rule, and otherwise follows its script."""

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


def test_a_fitting_tool_leaves_the_question_and_the_tools_unchanged() -> None:
    with Small(("length_of", "Rhine"), ("final_answer", "1233 km"), fits="length_of") as model:
        agent(model).run(QUESTION)
    assert model.asked[0].messages[-1]["content"] == QUESTION
    assert offered(model.asked[0]) == ["height_of", "length_of", "final_answer", "fail_task"]


@over("protocol", ["react", "native"])
def test_a_known_answer_without_a_fitting_tool_allows_only_final_answer(protocol: Any) -> None:
    with Small(("final_answer", "It has 24 hours."), knows="Yes", protocol=protocol) as model:
        run = agent(model).run("How many hours has a day?")
    assert (
        run.answer == "It has 24 hours."
    )  # without a doubt about the number, which no tool has told
    assert str(model.asked[0].messages[-1]["content"]).endswith(f"\n\n{known_hint(Wire)}")
    assert protocol == "native" or offered(model.asked[0]) == ["final_answer"]


@over("protocol", ["react", "native"])
def test_an_unknown_answer_without_a_fitting_tool_allows_only_fail_task(protocol: Any) -> None:
    model = Small(("fail_task", "There is no tool for prices."), protocol=protocol)
    with model, pytest.raises(nb.TaskFailed, match="no tool for prices"):
        agent(model).run("What does the tower cost?")
    assert str(model.asked[0].messages[-1]["content"]).endswith(f"\n\n{no_tool_hint(Wire)}")
    assert protocol == "native" or offered(model.asked[0]) == ["fail_task"]


def test_function_calling_refuses_a_call_that_contradicts_the_hint() -> None:
    script = [("length_of", "Rhine"), ("length_of", "Rhine"), ("final_answer", "1233 km")]
    with Small(*script, protocol="native") as model:
        run = agent(model).run(QUESTION)
    assert len(run.calls) == 1
    assert "not available" in model.asked[1].messages[-1]["content"]
    assert model.asked[0].tools == model.asked[1].tools


def test_a_call_despite_the_hint_runs_and_enables_all_tools() -> None:
    with Small(("length_of", "Rhine"), ("final_answer", "1233 km")) as model:
        assert agent(model).run(QUESTION).answer == "1233 km"
    assert "length_of" in offered(model.asked[1])


def test_asks_about_tools_only_before_the_first_question() -> None:
    script = [("length_of", "Rhine"), ("final_answer", "Long."), ("final_answer", "Longer.")]
    with Small(*script, fits="length_of") as model:
        talk = agent(model)
        talk.run(QUESTION)
        judged = len(model.judged)
        talk.run("And the Elbe?")
    assert len(model.judged) == judged == 2


def test_a_hint_stays_with_its_question() -> None:
    with Small(("final_answer", "24."), ("final_answer", "Sixty."), knows="yes") as model:
        talk = agent(model)
        talk.run("How many hours has a day?")
        talk.run("And how many minutes has an hour?")
    first, second = (ask.messages for ask in model.asked)
    assert second[: len(first)] == first


def test_does_not_ask_about_many_tools_long_questions_or_no_tool() -> None:
    many = [named(f"length_{n}") for n in range(MAX_TOOLS + 1)]
    for tools, question in (
        (many, QUESTION),
        ([length_of], "long " * MAX_QUESTION),
        ([], QUESTION),
    ):
        with Small(("final_answer", "Done.")) as model:
            nb.Agent(tools, model=model, namespace={}).run(question)
        assert model.judged == []


@over(
    "said, means",
    [
        ("Yes", "yes"),
        (' "No."\n', "no"),
        ("no, it cannot", "no"),
        ("**Yes**", "yes"),
        ("Perhaps", ""),
        ("", ""),
    ],
)
def test_reads_yes_or_no(said: str, means: str) -> None:
    assert parse_yes_no(said) == means


def test_an_unclear_reply_counts_as_yes() -> None:
    with Small(("length_of", "Rhine"), ("final_answer", "Long.")) as model:
        model.vague = True
        agent(model).run(QUESTION)
    assert model.asked[0].messages[-1]["content"] == QUESTION
    assert len(model.judged) == 1


@over("knows", ["No.", "Yes."])
def test_questions_an_answer_without_the_fitting_tool_once_unless_known(
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


def test_preliminary_requests_count_as_usage_and_not_as_steps() -> None:
    model = Small(("fail_task", "no such tool"))
    with model, pytest.raises(nb.TaskFailed) as failed:
        agent(model).run("What does the tower cost?")
    run = failed.value.run
    assert run is not None
    assert (run.usage.input_tokens, len(model.judged)) == (30, 3)
    shown = run._repr_mimebundle_()[0]["text/markdown"]
    assert "No." not in shown
    assert "Step 0" not in shown


@over("error", [ModelError("the endpoint is gone"), KeyboardInterrupt()])
def test_a_failed_preliminary_request_ends_the_run(
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


# ── before an end counts ──────────────────────────────────────────────────────────────────────────


def test_questions_a_number_without_a_source_once() -> None:
    model = Small(
        ("length_of", "Rhine"),
        ("final_answer", "1233 and 999 km."),
        ("length_of", "Elbe"),
        ("final_answer", "1233 and 999 km."),
        fits="length_of",
    )
    with model:
        assert agent(model).run(QUESTION).answer == "1233 and 999 km."
    asked = str(model.asked[2].messages[-1]["content"])
    assert "999" in asked
    assert "1233" not in asked


@over("end", [("final_answer", "No idea."), ("fail_task", "no such river")])
def test_questions_an_answer_after_a_failed_call_once(end: tuple[str, str]) -> None:
    with Small(("length_of", {}), end, ("length_of", "Rhine"), end, fits="length_of") as model:
        talk = agent(model)
        if end[0] == "final_answer":
            talk.run(QUESTION)
        else:
            with pytest.raises(nb.TaskFailed, match="no such river"):
                talk.run(QUESTION)
    assert "Your last call failed" in str(model.asked[2].messages[-1]["content"])


def test_questions_a_repeated_call_of_a_small_model_once() -> None:
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

    calls = [("look", None), ("switch", "on"), ("look", None), ("look", None)]
    with Small(*calls, ("final_answer", "It is on."), fits="look") as model:
        run = agent(model, look, switch).run("Switch the light on.")
    assert "final_answer now" in str(model.asked[3].messages[-1]["content"])
    assert [outcome.text for _, outcome in run.calls] == ["off", "switched", "on"]


def test_asks_nothing_of_a_larger_model() -> None:
    script = [("length_of", "Rhine"), ("length_of", {}), ("final_answer", "It is 4711.")]
    with Small(*script, fits="length_of") as model:
        model.is_small = False
        assert agent(model).run("Well?").answer == "It is 4711."


@over(
    "answer, sources, found",
    [
        ("It is 124.", ["124"], []),
        ("It is 125.", ["124"], ["125"]),
        ("It is 1,234.5 mm.", ["1234.5"], []),
        ("Es sind 1.234,5 mm.", ["1234.5"], []),
        ("Il y en a 1\u202f234.", ["1234"], []),
        ("长度为1233公里", ["长度1233"], []),
        ("长度为1234公里", ["长度1233"], ["1234"]),
        ("About 217.2.", ["217.18699"], []),
        ("About 217.3.", ["217.18699"], ["217.3"]),
        ("There are 3 of them.", ["a, b, c"], []),
        ("Minus −4.5 or -4.5.", ["-4.5"], []),
        ("It rained on 191 days, 641 were dry.", ["day,count\nrain,191\nsun,640"], ["641"]),
        ("That is 22.98 %, of 831.", ["0.22984", "rows: 831"], []),
        ("217.2 and 208.5, again 208.5.", ["217.2"], ["208.5"]),
        ("Table t1234 has none, nor has version 1.2.30 of 12.03.2024.", ["1.2.30, 2024-03-12"], []),
        ("It is of 12.03.2024.", ["2023-03-12"], ["2024"]),
        ("", [], []),
    ],
)
def test_finds_numbers_without_a_source(answer: str, sources: list[str], found: list[str]) -> None:
    assert unsupported_numbers(answer, sources) == found


@given(st.lists(st.floats(-1e6, 1e6).map(lambda x: f"{x:.3f}")))
def test_accepts_numbers_that_a_source_contains(numbers: list[str]) -> None:
    assert unsupported_numbers(" and ".join(numbers), ["; ".join(numbers)]) == []
