"""A small model decides first whether what is there fits the question at all."""

from __future__ import annotations

from collections.abc import Generator

import pandas as pd
import pytest

from archytas_nb import Agent
from archytas_nb.errors import TaskFailed
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Token, Usage
from archytas_nb.small.decision import FITS, LACKS, LEAST_FIT, SURE_OF_TALK, TALK
from archytas_nb.small.origins import code_in_text


class Deciding:
    """A small model that finds a message to fit, to lack something, or to be talk, so probably."""

    name = "deciding"
    protocol = "program"
    is_small = True
    has_grammars = True

    def __init__(self, fits: float, lacks: float, talk: float, *, knows: bool = False) -> None:
        self._knows = "yes" if knows else "no"
        self._shares = ((FITS, fits), (LACKS, lacks), (TALK, talk))
        self.asked: list[AskModel] = []

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        self.asked.append(ask)
        yield from ()
        if ask.alternatives:
            text = max(self._shares, key=lambda each: each[1])[0]
            return ModelReply(text, tokens=(Token(text, self._shares),), usage=Usage(requests=1))
        if "by heart" in str(ask.messages):
            return ModelReply(self._knows, usage=Usage(requests=1))
        if not ask.step:
            return ModelReply("You are welcome.", usage=Usage(requests=1))
        return ModelReply('```python\nanswer(f"{len(df)} rows")\n```', usage=Usage(requests=1))


def agent(model: Deciding) -> Agent:
    return Agent([], model, namespace={"df": pd.DataFrame({"a": [1, 2, 3]})})


def test_what_does_not_fit_is_refused_at_once() -> None:
    model = Deciding(LEAST_FIT["data"] - 0.01, 1 - LEAST_FIT["data"], 0.01)
    with pytest.raises(TaskFailed, match="df") as refused:
        agent(model).run("Who made df?", progress=False)
    assert len(model.asked) == 2
    assert refused.value.run.calls == []


def test_what_the_model_knows_is_not_refused() -> None:
    model = Deciding(0.0, 1.0, 0.0, knows=True)
    assert agent(model).run("What is df short for?", progress=False).status == "answered"


def test_talk_gets_a_sentence_and_no_program() -> None:
    model = Deciding(0.1, 0.1, SURE_OF_TALK + 0.1)
    run = agent(model).run("Thanks for df!", progress=False)
    assert (run.answer, len(model.asked), [each.program for each in run.steps]) == (
        "You are welcome.",
        2,
        [],
    )


def test_what_fits_is_answered() -> None:
    model = Deciding(LEAST_FIT["data"], 1 - LEAST_FIT["data"], 0.0)
    run = agent(model).run("How many rows has df?", progress=False)
    assert run.answer == "3 rows"
    assert run.sources[0].place == "len(df)"


def test_without_data_or_tools_nothing_is_decided() -> None:
    model = Deciding(0.0, 1.0, 0.0)
    Agent([], model, namespace={}).run("What is a median?", progress=False)
    assert not any(each.alternatives for each in model.asked)


@pytest.mark.parametrize(
    ("program", "code"),
    [
        ("answer(\"df['a'] == 'Japan'.sum()\")", "df['a'] == 'Japan'.sum()"),
        ('answer(f"df.shape[0]")', "df.shape[0]"),
        ('answer(f"{df.shape[0]}")', ""),
        ('answer(f"df.shape[0] is {df.shape[0]}")', ""),
        ('answer("df")', ""),
        ('answer("df has no such column.")', ""),
        ('answer("other.shape[0]")', ""),
        ("answer(df.shape[0])", ""),
        ("answer(3)", ""),
    ],
)
def test_code_in_a_text_is_no_answer(program: str, code: str) -> None:
    """https://github.com/langchain-ai/langchain/issues/12925"""
    assert code_in_text(program, ["df"]) == code
