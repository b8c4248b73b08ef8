"""Runs whose answers are checked, whose messages are compacted or whose time is over may be cut anywhere, too."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

import pytest

import archytas_nb as nb
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import CheckAnswer, Event, ModelReply, NoReply, Notice, Verdict
from archytas_nb.run import Run
from tests.loop.scripts import PROTOCOLS, Box, Script, check, ended, new
from tests.loop.test_cuts import Watcher, agent_ending

Protocol = Literal["react", "native"]
LOOKS = [[("look", {"place": place})] for place in "abcdefgh"]
TWO = [("put", {"place": "a", "n": 1}), ("look", {"place": "b"})]


def number(protocol: str, n: Any) -> ModelReply:
    """A reply with an answer that is no text."""
    if protocol == "native":
        return ModelReply(str(n))
    return ModelReply(f'{{"thought": "", "tool": "final_answer", "tool_input": {n}}}')


def long_request() -> ModelError:
    return ModelError("maximum context length is 4096 tokens", kind="overflow")


def late() -> ModelError:
    return ModelError("the time of the run is over", kind="deadline")


@dataclass(frozen=True)
class Case:
    """A kind of run.

    Attributes:
        script: What the model says.
        asked: How it is asked.
        words: How many words an outcome has.
        context: How many tokens the model can take.
        shows: An event that it must have for the test to be worth anything.
    """

    script: Callable[[str], list[Any]]
    asked: dict[str, Any] = field(default_factory=dict)
    words: int = 0
    context: int | None = None
    shows: Callable[[Event], bool] = lambda event: True


def below(n: Any) -> str:
    return "" if n < 10 else "too many"


CASES = {
    "typed": Case(
        lambda p: [TWO, number(p, '"many"'), LOOKS[0], number(p, 30), number(p, 3)],
        {"output_type": int, "until": below},
        shows=lambda event: isinstance(event, Verdict) and event.fault != "",
    ),
    "compacted": Case(
        lambda p: [*LOOKS, TWO], words=150, context=3000,
        shows=lambda event: isinstance(event, Notice) and event.kind == "compaction",
    ),
    "overflowing": Case(
        lambda p: [TWO, *LOOKS[:3], long_request(), LOOKS[4], long_request(), number(p, 3)],
        {"output_type": int}, words=100, context=90_000,
        shows=lambda event: isinstance(event, NoReply) and event.kind == "overflow",
    ),
    "too long": Case(
        lambda p: [TWO, long_request(), long_request()], context=90_000,
        shows=lambda event: isinstance(event, NoReply) and event.kind == "overflow",
    ),
    "late": Case(
        lambda p: [TWO, late()],
        shows=lambda event: isinstance(event, NoReply) and event.kind == "deadline",
    ),
}  # fmt: skip


def made(protocol: Protocol, case: Case) -> tuple[nb.Agent, Box, Script]:
    agent, box, model = new(protocol, case.script(protocol), Box(words=case.words), case.context)
    return agent, box, model


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_run_that_is_not_cut_ends_and_keeps_its_record(protocol: Protocol, case: Case) -> None:
    agent, box, model = made(protocol, case)
    run = ended(agent, **case.asked)
    assert any(case.shows(event) for event in run.events)
    check(agent, box, model, run)


@pytest.mark.parametrize("what", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_watcher_that_is_interrupted_or_breaks_at_any_event_ends_the_run_properly(
    protocol: Protocol, case: Case, what: type[BaseException]
) -> None:
    for cut in range(_length(protocol, case)):
        agent, box, model = made(protocol, case)
        run = Run("Well?")
        try:
            run = ended(agent, observers=[Watcher(cut, what)], **case.asked)
        except what:
            run.ending = agent_ending(agent)
        assert run.ending is not None
        check(agent, box, model, run)


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_a_stream_that_is_left_at_any_event_ends_its_run(protocol: Protocol, case: Case) -> None:
    for cut in range(_length(protocol, case)):
        agent, box, model = made(protocol, case)
        stream = agent.stream("Well?", **case.asked)
        for _ in range(cut + 1):
            next(stream)
        stream.close()
        check(agent, box, model, Run("Well?", ending=agent_ending(agent)))


@pytest.mark.parametrize("what", [KeyboardInterrupt, RuntimeError, MemoryError])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_whatever_happens_in_a_condition_leaves_a_whole_record(
    protocol: Protocol, what: type[BaseException]
) -> None:
    for cut in range(3):
        times = iter(range(9))

        def until(n: int, cut: int = cut, times: Any = times) -> str:
            if next(times) == cut:
                raise what("cut")
            return below(n)

        numbers = [number(protocol, n) for n in (30, 40, 3, 4)]
        script = [TWO, numbers[0], LOOKS[0], *numbers[1:]]
        agent, box, model = new(protocol, script)
        run = ended(agent, output_type=int, until=until)
        # An interrupt ends the run; anything else is what the condition finds wrong.
        assert run.status == ("interrupted" if what is KeyboardInterrupt else "answered")
        check(agent, box, model, run)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_limit_cuts_a_run_whose_answers_are_wrong(protocol: Protocol) -> None:
    for limit in ({"max_steps": 2}, {"max_errors": 2}, {"max_total_tokens": 1}):
        wrong = [number(protocol, '"many"') for _ in range(6)]
        agent, box, model = new(protocol, wrong, **limit)
        run = ended(agent, output_type=int)
        assert (run.status, run.value) == ("stopped", None)
        assert any(isinstance(event, CheckAnswer) for event in run.events)
        check(agent, box, model, run)


def _length(protocol: Protocol, case: Case) -> int:
    """How many events such a run has when nothing cuts it."""
    agent, _, _ = made(protocol, case)
    watcher = Watcher()
    ended(agent, observers=[watcher], **case.asked)
    return watcher.seen
