"""A map leaves out the rows of which the model is unsure, and sends them to somebody else."""

from __future__ import annotations

import json
from collections.abc import Generator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb import Agent
from archytas_nb.batch.calibration import Calibration, calibrated
from archytas_nb.loop.events import AskModel, Delta, ModelReply, Token, Usage
from tests.world.quirks import Refuses
from tests.world.world import World

Mood = Literal["good", "bad"]


class Told:
    """Finds a text good as probably as the number in it says."""

    protocol = "react"

    def __init__(self, name: str = "told") -> None:
        self.name = name
        self.asked: list[AskModel] = []

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        self.asked.append(ask)
        yield from ()
        share = float(str(ask.messages[-1]["content"]).split()[-1])
        answer = "good" if share >= 0.5 else "bad"
        pair = (("good", share), ("bad", 1 - share))
        begin = '{"thought": "", "tool": "final_answer", "tool_input": "'
        tokens = (Token(begin), Token(answer, pair), Token('"}'))
        if not ask.alternatives:
            tokens = ()
        reply = begin + answer + '"}'
        return ModelReply(reply, tokens=tokens, usage=Usage(requests=1, input_tokens=10))


SHARES = pd.Series(["0.9", "0.55", "0.2", "0.45"])


def test_a_map_leaves_out_what_is_unsure(tmp_path: Path) -> None:
    model = Told()
    options: dict[str, Any] = {"output_type": Mood, "store": str(tmp_path / "s"), "progress": False}
    found = Agent([], model).map(SHARES, "How is it?", unsure=0.7, **options)
    assert found["answer"].tolist()[::2] == ["good", "bad"]
    assert found["answer"].isna().tolist() == [False, True, False, True]
    assert found["status"].tolist() == ["done", "unsure", "done", "unsure"]
    assert found["confidence"].tolist() == pytest.approx([0.9, 0.55, 0.8, 0.55])
    assert found.attrs["unsure"] == 0.7
    again = Agent([], model).map(SHARES, "How is it?", unsure=0.5, **options)
    assert set(again["status"]) == {"done"}
    assert len(model.asked) == 4  # another threshold costs nothing


def test_another_model_answers_what_is_unsure() -> None:
    model, large = Told(), Told("large")
    found = Agent([], model).map(
        SHARES, "How is it?", output_type=Mood, unsure=0.7, then=large, store=None, progress=False
    )
    assert found["answer"].tolist() == ["good", "good", "bad", "bad"]
    assert found["by"].tolist() == ["agent", "then", "agent", "then"]
    assert found["tokens"].tolist() == [10, 20, 10, 20]
    assert (len(model.asked), len(large.asked)) == (4, 2)


class Costly(Told):
    """One whose requests cost tokens."""

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        reply = yield from super().complete(ask)
        return replace(reply, usage=Usage(requests=1, input_tokens=1000))


@pytest.mark.parametrize("budget", [9_000, 16_000, 21_000, 60_000])
def test_the_budget_is_that_of_both_models(budget: int, tmp_path: Path) -> None:
    rows = pd.Series([f"{n} 0.55" for n in range(12)])
    options: dict[str, Any] = {
        "output_type": Mood, "budget": f"{budget} tokens", "progress": False, "workers": 1,
        "store": str(tmp_path / "s"),
    }  # fmt: skip
    model, large = Costly(), Costly("large")
    agent = Agent([], model, max_reply_tokens=10)
    found = agent.map(rows, "How is it?", unsure=0.7, then=large, **options)
    requests = len(model.asked) + len(large.asked)
    assert found["tokens"].sum() == 1000 * requests <= budget
    assert requests == min(24, budget // 1000) or budget - 1000 * requests < 3000
    assert found["by"].tolist().count("then") == len(large.asked)
    # What was not asked, for want of a budget, is asked when there is more.
    rest = agent.map(rows, "How is it?", unsure=0.7, then=large, **options | {"budget": None})
    assert set(rest["by"]) == {"then"}
    assert (len(model.asked), len(large.asked)) == (12, 12)


class Typist:
    """A person who types lines."""

    there = True

    def __init__(self, *lines: Any) -> None:
        self.lines = [*lines]
        self.asked: list[str] = []

    def ask(self, prompt: str, _: Any = None) -> str:
        self.asked.append(prompt)
        line = self.lines.pop(0)
        if isinstance(line, BaseException):
            raise line
        return str(line)


@pytest.fixture
def typist(monkeypatch: pytest.MonkeyPatch) -> Typist:
    person = Typist()
    monkeypatch.setattr("archytas_nb.trace.controls.Controls", lambda _: person)
    return person


def test_what_the_person_answers_is_kept(tmp_path: Path, typist: Typist) -> None:
    options: dict[str, Any] = {"output_type": Mood, "store": str(tmp_path / "s"), "progress": False}
    agent = Agent([], Told())
    typist.lines = ["bad", KeyboardInterrupt()]
    found = agent.map(SHARES, "How is it?", unsure=0.7, then="person", **options)
    assert found["status"].tolist() == ["done", "done", "done", "unsure"]
    typist.lines = ["good"]
    found = agent.map(SHARES, "How is it?", unsure=0.7, then="person", **options)
    assert found["answer"].tolist() == ["good", "bad", "bad", "good"]
    assert found["by"].tolist() == ["agent", "then", "agent", "then"]
    assert ["0.55" in each for each in typist.asked] == [True, False, False]
    again = agent.map(SHARES, "How is it?", unsure=0.7, then="person", **options)
    assert again["answer"].tolist() == found["answer"].tolist()
    assert len(typist.asked) == 3


@pytest.mark.parametrize(
    ("lines", "answers"),
    [
        (["1", "2"], ["good", "bad"]),
        (["BAD ", "no", "", "9", "good"], ["bad", "good"]),
        (["skip", "good"], [None, "good"]),
        (["3", "good"], [None, "good"]),
        (["stop asking"], [None, None]),
        (["good", "4"], ["good", None]),
        (["good", KeyboardInterrupt()], ["good", None]),
        ([EOFError()], [None, None]),
    ],
)
def test_a_person_answers_by_words_or_numbers_skips_and_stops(
    typist: Typist, lines: list[Any], answers: list[Any]
) -> None:
    typist.lines = lines
    found = Agent([], Told()).map(
        SHARES,
        "How is it?",
        output_type=Mood,
        unsure=0.7,
        then="person",
        store=None,
        progress=False,
    )
    assert typist.lines == []
    assert [each if isinstance(each, str) else None for each in found["answer"][1::2]] == answers
    states = ["unsure" if each is None else "done" for each in answers]
    assert found["status"].tolist() == ["done", states[0], "done", states[1]]


def test_an_option_comes_before_what_a_person_can_do_otherwise(typist: Typist) -> None:
    typist.lines = ["skip", "4"]
    found = Agent([], Told()).map(
        SHARES[1::2], "Good, bad?", output_type=Literal["good", "bad", "skip"], unsure=0.7,
        then="person", store=None, progress=False,
    )  # fmt: skip
    assert found["answer"].tolist()[0] == "skip"
    assert found["status"].tolist() == ["done", "unsure"]


def test_a_text_of_a_row_cannot_imitate_the_question(typist: Typist) -> None:
    typist.lines = ["good"]
    rows = ["x\n1 good, 2 bad, 3 skip\r\x1b[2K: 0.55"]
    Agent([], Told()).map(
        rows, "How?", output_type=Mood, unsure=0.7, then="person", store=None, progress=False
    )
    [prompt] = typist.asked
    assert "\x1b" not in prompt
    assert [each for each in prompt.split("\n") if each.startswith("1 good")] == [
        "1 good, 2 bad, 3 skip, 4 stop asking: "
    ]


@dataclass
class Fields:
    mood: Mood
    is_long: bool


def test_one_question_is_not_for_a_person() -> None:
    model = Told()
    with pytest.raises(ValueError, match=r"run\.confidence"):
        Agent([], model).run("0.5", output_type=Mood, unsure=0.7, then="person")
    assert model.asked == []


def test_without_it_a_map_asks_for_nothing_more() -> None:
    model = Told()
    found = Agent([], model).map(SHARES, "?", output_type=Mood, store=None, progress=False)
    assert "confidence" not in found
    assert {each.alternatives for each in model.asked} == {0}


@pytest.mark.parametrize(
    "options",
    [
        {"unsure": 1.5, "output_type": Mood},
        {"unsure": 0.5, "output_type": str},
        {"then": "x", "output_type": Mood},
        {"unsure": 0.5, "output_type": Mood, "plan": True},
        {"unsure": 0.5, "output_type": Fields, "then": "person"},
    ],
)
def test_wrong_options_cost_nothing(options: Any) -> None:
    model = Told()
    with pytest.raises(ValueError, match=r"unsure|person"):
        Agent([], model).map(SHARES, "?", store=None, progress=False, **options)
    assert model.asked == []


def test_an_evaluation_tells_how_often_sure_answers_are_right() -> None:
    cases = [("0.9", "good"), ("0.8", "good"), ("0.4", "good"), ("0.1", "bad")]
    options: dict[str, Any] = {"output_type": Mood, "runs": 1, "store": None, "progress": False}
    found = Agent([], Told()).evaluate(cases, unsure=0, **options)
    assert found.calibration.accuracy() == 0.75
    assert found.calibration.accuracy(0.75) == 1.0
    assert found.calibration.threshold(1.0) == pytest.approx(0.8)
    assert found.calibration.ece == pytest.approx((0.1 * 2 + 0.2 + 0.6) / 4)
    assert "expected calibration error" in repr(found)
    left_out = Agent([], Told()).evaluate(cases, unsure=0.7, **options)
    assert left_out.totals[0].passed == 3


PAIRS = st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1)


@given(PAIRS, st.floats(0, 1))
def test_a_threshold_keeps_what_it_says(pairs: list[tuple[float, bool]], wished: float) -> None:
    calibration = Calibration(tuple(pairs))
    threshold = calibration.threshold(wished)
    rates = {
        least: [right for each, right in pairs if each >= least] for least in {p for p, _ in pairs}
    }
    good = [least for least, kept in rates.items() if sum(kept) / len(kept) >= wished]
    assert threshold == (min(good) if good else None)


@given(PAIRS)
def test_the_error_is_that_of_the_bins(pairs: list[tuple[float, bool]]) -> None:
    calibration = calibrated([*pairs, (None, True)])
    assert sum(each.number for each in calibration.bins) == len(pairs)
    assert 0 <= calibration.ece <= 1
    assert calibration.accuracy() == pytest.approx(sum(r for _, r in pairs) / len(pairs))
    assert str(calibration)


def completed(body: dict[str, Any]) -> dict[str, Any]:
    return {"role": "assistant", "content": json.dumps("good")}


def test_an_endpoint_that_refuses_logprobs_is_asked_several_times() -> None:
    """https://github.com/ggml-org/llama.cpp/issues/28478 and others that lack them."""
    words = "logprobs is not supported"
    with World() as world:
        refuses = Refuses("logprobs", words, has=lambda body: "logprobs" in body)
        endpoint = world.endpoint(completed, refuses)
        run = Agent([], endpoint.client()).run("How is it?", output_type=Mood, unsure=0)
    assert run.odds == {"answer": {"good": 1.0, "bad": 0.0}}
    assert endpoint.refused == 1
    assert sum("logprobs" in each for each in endpoint.sent) == 1
