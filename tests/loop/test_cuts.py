"""A run may be cut at any point: the record stays whole, nothing runs on, and the next question works."""

from __future__ import annotations

from typing import Any, Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import Answered, Event, Stopped
from archytas_nb.run import Run
from tests.loop.scripts import PROTOCOLS, Box, check, ended, new, random_script
from tests.sampling import few_of

SEEDS = range(24)
over_seeds = pytest.mark.parametrize("seeds", few_of(range(4), SEEDS))
Protocol = Literal["react", "native"]


class Watcher:
    """Raises something at one of the events that it sees, and remembers the run."""

    def __init__(self, cut: int = -1, what: type[BaseException] = KeyboardInterrupt) -> None:
        self.cut, self.what, self.seen = cut, what, 0

    def __call__(self, event: Event) -> None:
        self.seen += 1
        if self.seen - 1 == self.cut:
            raise self.what("cut")


def length(protocol: Protocol, seed: int) -> tuple[int, int, int]:
    """How many events, requests and tool runs a script has when nothing cuts it."""
    agent, box, model = new(protocol, random_script(seed))
    watcher = Watcher()
    ended(agent, observers=[watcher])
    return watcher.seen, len(model.asked), len(box.ran)


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_run_that_is_not_cut_ends_and_keeps_its_record(protocol: Protocol) -> None:
    for seed in range(150):
        agent, box, model = new(protocol, random_script(seed))
        check(agent, box, model, ended(agent))


@over_seeds
@pytest.mark.parametrize("what", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_watcher_that_is_interrupted_or_breaks_at_any_event_ends_the_run_properly(
    seeds: range, protocol: Protocol, what: type[BaseException]
) -> None:
    for seed in seeds:
        for cut in range(length(protocol, seed)[0]):
            agent, box, model = new(protocol, random_script(seed))
            with pytest.raises((what, nb.ModelError, nb.TaskFailed)) as raised:
                agent.run("Well?", observers=[Watcher(cut, what)])
            ending = agent_ending(agent)
            if what is KeyboardInterrupt and not isinstance(raised.value, nb.RunInterrupted):
                assert isinstance(ending, (Answered, Stopped)), (
                    "only a run that is over may not hear of it"
                )
            run = getattr(raised.value, "run", None) or Run("Well?", ending=ending)
            check(agent, box, model, run)


def agent_ending(agent: nb.Agent) -> Any:
    """The ending of the last question; one that was left out of the record has ended too."""
    return agent.exchanges[-1].ending if agent.exchanges else "left out"


@over_seeds
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_that_is_left_at_any_event_ends_its_run(seeds: range, protocol: Protocol) -> None:
    for seed in seeds:
        for cut in range(length(protocol, seed)[0]):
            agent, box, model = new(protocol, random_script(seed))
            stream = agent.stream("Well?")
            for _ in range(cut + 1):
                next(stream)
            stream.close()
            check(agent, box, model, Run("Well?", ending=agent_ending(agent)))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_stream_that_is_left_open_is_ended_by_the_next_question(protocol: Protocol) -> None:
    agent, box, model = new(
        protocol, [[("put", {"place": "a", "n": 1})], [("put", {"place": "b", "n": 1})]]
    )
    stream = agent.stream("Well?")
    while not box.ran:
        next(stream)
    run = agent.run("Next?")
    with pytest.raises(nb.RunInterrupted):
        next(stream)
    assert [exchange.question for exchange in agent.exchanges] == ["Well?", "Next?"]
    check(agent, box, model, run)


@over_seeds
@pytest.mark.parametrize(
    "what",
    [
        KeyboardInterrupt(),
        ModelError("503 at http://x", kind="server"),
        RuntimeError("a bug"),
        MemoryError(),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_request_that_fails_or_is_interrupted_ends_the_run_properly(
    seeds: range, protocol: Protocol, what: BaseException
) -> None:
    for seed in seeds:
        script = random_script(seed)
        for cut in range(len(script) + 1):
            agent, box, model = new(protocol, [*script[:cut], what])
            try:
                run = ended(agent)
            except (RuntimeError, MemoryError):
                run = Run("Well?", ending=agent_ending(agent))
            check(agent, box, model, run)


@over_seeds
@pytest.mark.parametrize(
    "what", [KeyboardInterrupt(), SystemExit(2), MemoryError("no memory"), GeneratorExit()]
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_whatever_happens_in_a_tool_is_the_outcome_of_its_call(
    seeds: range, protocol: Protocol, what: BaseException
) -> None:
    for seed in seeds:
        for cut in range(length(protocol, seed)[2]):
            agent, box, model = new(protocol, random_script(seed), Box(cut, what))
            run = ended(agent)
            statuses = [outcome.status for _, outcome in run.calls]
            assert ("interrupted" in statuses) is isinstance(what, KeyboardInterrupt)
            if isinstance(what, KeyboardInterrupt):
                assert run.status == "interrupted"
                assert len(box.ran) == cut + 1
                after = statuses[statuses.index("interrupted") + 1 :]
                assert set(after) <= {"not_run"}
            check(agent, box, model, run)


@pytest.mark.parametrize(
    "options",
    [
        {"max_steps": 1},
        {"max_steps": 3},
        {"max_errors": 1},
        {"max_total_tokens": 1},
        {"max_total_tokens": 3000},
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_a_run_that_a_limit_cuts_ends_and_keeps_its_record(
    protocol: Protocol, options: dict[str, Any]
) -> None:
    for seed in range(60):
        agent, box, model = new(protocol, random_script(seed), **options)
        run = ended(agent)
        if "max_steps" in options:
            assert len(model.asked) <= options["max_steps"] + 1
        check(agent, box, model, run)


@settings(max_examples=150, deadline=None)
@given(
    st.integers(0, 10**9),
    st.sampled_from(PROTOCOLS),
    st.integers(0, 30),
    st.integers(0, 30),
    st.integers(1, 6),
)
def test_two_cut_questions_in_a_row_leave_a_whole_record(
    seed: int, protocol: Protocol, first: int, second: int, steps: int
) -> None:
    agent, box, model = new(protocol, random_script(seed), max_steps=steps)
    for cut, question in ((first, "One?"), (second, "Two?")):
        try:
            run = ended(agent, question, [Watcher(cut)])
        except KeyboardInterrupt:
            run = Run(question, ending=agent_ending(agent))
    model.asked.clear()
    check(agent, box, model, run)


def test_these_are_more_than_a_thousand_scripted_runs() -> None:
    events = sum(length(protocol, seed)[0] for protocol in PROTOCOLS for seed in SEEDS)
    assert 3 * events > 1000
