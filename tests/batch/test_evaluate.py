"""An evaluation counts how often answers are right, with Wilson's interval."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb import Agent, OpenAIModel
from archytas_nb.batch.map import wilson
from tests.servers.plays import Say, Status
from tests.servers.server import Server


class Sometimes:
    """Says "Paris" in four of five replies, and as the model "bad" always "Rome"."""

    def __init__(self) -> None:
        self.number = 0

    def play(self, exchange: Any) -> None:
        self.number += 1
        right = exchange.body["model"] == "good" and self.number % 5
        text = "It is Paris." if right else "It is Rome."
        Say(text, raw=True, usage=(90, 0, 10)).play(exchange)


def test_two_models_side_by_side(tmp_path: Path) -> None:
    store = str(tmp_path / "map.sqlite")
    cases = [
        ("What is the capital of France?", "paris"),
        ("Which city is it?", 3, lambda answer, words: len(answer.split()) == words),
    ]
    with Server(then=Sometimes(), models=("good", "bad")) as server:
        models = [OpenAIModel(name, base_url=server.url, api_key="k") for name in ("good", "bad")]
        agent = Agent([], model=models[0])
        asked = {"models": models, "workers": 1, "store": store, "progress": False}
        found = agent.evaluate(cases, **asked)
        again = agent.evaluate(cases, **asked)
        assert len(server.chats) == 20
    assert again == found
    assert [(each.model, each.passed, each.runs) for each in found.cases] == [
        ("good", 4, 5), ("good", 5, 5), ("bad", 0, 5), ("bad", 5, 5),
    ]  # fmt: skip
    good, bad = found.totals
    assert (good.rate, bad.rate, found.rate, good.tokens) == (0.9, 0.5, 0.9, 1000)
    assert good.low == pytest.approx(0.596, abs=1e-3)
    assert good.high == pytest.approx(0.982, abs=1e-3)
    lines = repr(found).splitlines()
    assert len(lines) == 4
    assert "good" in lines[0]
    assert "bad" in lines[0]


def test_a_failure_of_the_endpoint_is_no_wrong_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Half:
        number = 0

        def play(self, exchange: Any) -> None:
            self.number += 1
            if self.number % 2:
                Say("It is Paris.", raw=True, usage=(90, 0, 10)).play(exchange)
            else:
                Status(501, "no").play(exchange)

    store = str(tmp_path / "map.sqlite")
    cases = [("What is the capital of France?", "paris")]
    with Server(then=Half()) as server:
        agent = Agent([], model=OpenAIModel("tiny-1", base_url=server.url, api_key="k"))
        found = agent.evaluate(cases, runs=6, workers=1, store=store, progress=False)
    assert (found.rate, found.totals[0].passed, found.totals[0].runs) == (1.0, 3, 3)
    monkeypatch.setenv("ARCHYTAS_NB_CASSETTE_MODE", "replay")
    nobody = Agent([], model="tiny-1")
    assert nobody.evaluate(cases, runs=6, store=store, progress=False) == found


@pytest.mark.parametrize("cases", [[], ["question"], [("", 1)], [("q", 1, "no function")]])
def test_cases_that_cannot_be_read_are_refused(cases: list[Any]) -> None:
    with pytest.raises(ValueError, match="case"):
        Agent([], model="none").evaluate(cases)


@given(st.integers(1, 10_000).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_rate_and_narrows(counts: tuple[int, int]) -> None:
    passed, runs = counts
    low, high = wilson(passed, runs)
    assert -1e-9 <= low - 1e-9 <= passed / runs <= high + 1e-9 <= 1 + 1e-8
    wider = wilson(passed * 4, runs * 4)
    assert wider[1] - wider[0] < high - low
