"""Two hundred conversations of a public benchmark, replayed by the agent, end in the expected state.

The multi-turn tasks of the Berkeley function-calling leaderboard: a scripted model makes the calls of the ground
truth, with each turn as one question of a conversation; for comparison, the same calls are made directly.
"""

from __future__ import annotations

import copy
from collections.abc import Generator
from typing import Any, Literal

import pytest

import archytas_nb as nb
from archytas_nb.loop.events import AskModel, Delta, ModelReply
from tests.bfcl import World, call_of, data, rows
from tests.invariants import worded
from tests.sampling import few_of
from tests.strict import fault_of

pytest.importorskip("bfcl_eval", reason="needs: pip install --no-deps bfcl-eval")
pytest.importorskip("mpmath", reason="bfcl-eval's MathAPI needs mpmath")

Protocol = Literal["react", "native"]
Call = tuple[str, dict[str, Any]]


def tasks() -> list[tuple[dict[str, Any], list[list[str]]]]:
    """Each task with the calls of each of its turns."""
    truths = {
        row["id"]: row["ground_truth"]
        for row in rows(data() / "possible_answer/BFCL_v4_multi_turn_base.json")
    }
    return [(task, truths[task["id"]]) for task in rows(data() / "BFCL_v4_multi_turn_base.json")]


def executed(task: dict[str, Any], turns: list[list[str]]) -> tuple[World, list[list[Call]]]:
    """The state after the calls were made directly, and the calls."""
    world = World(task)
    calls = [[call_of(source, world.functions) for source in turn] for turn in turns]
    for name, given in (call for turn in calls for call in turn):
        world.functions[name](**copy.deepcopy(given))  # some of them change what they are given
    return world, calls


class Replaying:
    """A model that makes the given calls, one reply after another, and validates requests like a strict server."""

    name = "replaying"

    def __init__(self, protocol: Protocol) -> None:
        self.protocol: Protocol = protocol
        self.replies: list[Any] = []

    def complete(self, ask: AskModel) -> Generator[Delta, None, ModelReply]:
        yield from ()
        assert fault_of(ask.messages) == ""
        return worded(self.replies.pop(0), self.protocol)


SAMPLES = ((8, 141), (1, 1142))
"""Which conversations are replayed (every so many), and the calls in them."""


@pytest.mark.parametrize("sample", few_of(*SAMPLES))
@pytest.mark.parametrize("at_once", [False, True], ids=["one by one", "all of a turn at once"])
@pytest.mark.parametrize("protocol", ["react", "native"])
def test_each_conversation_ends_in_the_same_state_as_direct_calls(
    protocol: Protocol, at_once: bool, sample: tuple[int, int]
) -> None:
    every, calls_made = sample
    count = 0
    for task, turns in tasks()[::every]:
        direct, calls = executed(task, turns)
        world = World(task)
        model = Replaying(protocol)
        tools = {name: nb.Tool.from_function(method) for name, method in world.functions.items()}
        agent = nb.Agent(tools.values(), model, namespace={}, max_steps=50)
        told = []
        for question, turn in zip(task["question"], calls, strict=True):
            model.replies = [
                *([turn] if at_once and turn else [[call] for call in turn]),
                [("final_answer", "All done.")],
            ]
            run = agent.run(question[0]["content"])
            assert (run.status, run.answer, model.replies) == ("answered", "All done.", [])
            assert [(call.name, call.input) for call, _ in run.calls] == turn
            told += run.calls
        where = task["id"]
        assert world.journal == direct.journal, where
        assert world.state() == direct.state(), where
        kept: dict[str, Any] = {}  # where large results go, under the same names
        texts = [tools[name].outcome(result, kept).text for name, _, result in direct.journal]
        assert [(outcome.status, outcome.text) for _, outcome in told] == [
            ("done", text) for text in texts
        ], where
        assert fault_of(agent.messages) == "", where
        count += len(told)
    assert count == calls_made
