"""Failures that are about the reply, the load or the account, in the middle of a run and in a map."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from archytas_nb.agent import Agent
from archytas_nb.errors import ModelError
from archytas_nb.models import remote
from tests.world.quirks import BROKEN, Fails, Refuses, Waits, refusal
from tests.world.world import Endpoint, World, calls_then_answers

MODEL = calls_then_answers("add", {"a": 1, "b": 2}, "It is 3.")


def add(a: int, b: int) -> int:
    """Add.

    Args:
        a: One.
        b: Another.
    """
    return a + b


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with World() as made:
        yield made


@pytest.fixture(autouse=True)
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, without waiting."""
    waits: list[float] = []
    monkeypatch.setattr(remote, "sleep", waits.append)
    return waits


def asked(endpoint: Endpoint, **settings: Any) -> str:
    agent = Agent([add], endpoint.client(**settings), ask_user=False, namespace={})
    return agent.run("What is 1 + 2?").answer


@pytest.mark.parametrize("name", BROKEN)
def test_a_200_that_is_no_completion_is_asked_for_again_once_there_was_one(
    world: World, name: str
) -> None:
    endpoint = world.endpoint(MODEL, Fails((2,), BROKEN[name]))
    assert asked(endpoint) == "It is 3."
    assert len(endpoint.sent) == 3
    always = world.endpoint(MODEL, Fails(tuple(range(2, 20)), BROKEN[name]))
    with pytest.raises(ModelError):
        asked(always)
    assert len(always.sent) == 5


def test_a_first_web_page_is_the_wrong_address(world: World) -> None:
    endpoint = world.endpoint(MODEL, Fails((1,), BROKEN["a page"]))
    with pytest.raises(ModelError, match="base URL"):
        asked(endpoint)
    assert len(endpoint.sent) == 1


def test_a_wait_in_the_words_of_a_limit_is_kept(world: World, slept: list[float]) -> None:
    quirk = Waits(lambda s: refusal(429, f"No quota left. Retry in {s} seconds"), 12.5)
    assert asked(world.endpoint(MODEL, quirk)) == "It is 3."
    assert slept == [12.5]


def test_what_the_model_wrote_is_not_asked_for_again_and_says_nothing_of_tools(
    world: World,
) -> None:
    said = 'error parsing tool call: raw=\'{"tools": "are not supported"\', err=unexpected end'
    endpoint = world.endpoint(MODEL, Fails((1,), refusal(500, said)))
    assert asked(endpoint) == "It is 3."
    first, second, _ = endpoint.sent
    assert len(second["messages"]) > len(first["messages"])
    assert all("tools" in body for body in endpoint.sent)


@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "add"}}])
def test_a_forced_choice_of_a_tool_goes_with_the_first_request(world: World, choice: Any) -> None:
    endpoint = world.endpoint(MODEL)
    for _ in range(2):
        assert asked(endpoint, tool_choice=choice) == "It is 3."
    assert [body.get("tool_choice") for body in endpoint.sent] == [choice, None] * 2


def test_a_map_stops_after_rows_that_are_refused_with_the_same_words(world: World) -> None:
    def says(_body: Any) -> Any:
        return {"role": "assistant", "content": "A"}

    def has_begun(_body: Any) -> bool:
        return len(endpoint.sent) > 3

    endpoint = world.endpoint(says, Refuses("x", "Extra inputs: 'reqest'", 422, has=has_begun))
    agent = Agent([], endpoint.client(), context="none", namespace={})
    rows = [f"row {n}" for n in range(60)]
    out = agent.map(rows, "Topic?", store=None, progress=False, workers=1)
    assert len(endpoint.sent) < 20
    assert [row["status"] for row in out].count("done") == 3


def test_a_map_goes_on_after_single_rows_that_are_refused(world: World) -> None:
    def says(_body: Any) -> Any:
        return {"role": "assistant", "content": "A"}

    def is_odd(body: Any) -> bool:
        return "row 1" in str(body["messages"][-1])

    endpoint = world.endpoint(says, Refuses("x", "Invalid text", has=is_odd))
    agent = Agent([], endpoint.client(), context="none", namespace={})
    rows = [f"row {n % 5} of {n}" for n in range(20)]
    out = agent.map(rows, "Topic?", store=None, progress=False, workers=1)
    assert [row["status"] for row in out].count("done") == 16
