"""A run may end at any point, by an error, an interrupt or a limit: the invariants still hold.

The invariants of `tests.invariants`: (1) each call has one outcome, (2) the history is always valid and only grows
at its end, (3) nothing keeps running, (4) every run ends within its limits, (5) nothing is repeated without a
reason, (6) no call discards another's outcome, (7) compaction keeps a long conversation valid.
"""

from __future__ import annotations

import itertools
import json
import random
from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.errors import ConditionError, ModelError
from archytas_nb.loop.events import Event
from archytas_nb.loop.limits import Limits
from archytas_nb.run import Run, to_json
from tests import invariants
from tests.invariants import ANSWER, PROTOCOLS, Protocol, Teller, Tools
from tests.sampling import few_of

SEEDS = (0, 1, 5, 7, 8, 12, 13, 18, 63, 65)
"""Stories in which everything happens."""
FEW = (0, 63)
"""Two of them, in which together everything happens as well."""
over_seeds = pytest.mark.parametrize("seeds", few_of(FEW, SEEDS))


def long_enough(answer: str) -> str:
    return "" if len(str(answer)) > 8 else f"{answer!r} is too short"


class Talk:
    """A conversation with a past, and a question whose run may be interrupted.

    Args:
        seed: Which story the model tells.
        protocol: In which wire form.
        limits: Other limits than those of the story.
    """

    def __init__(self, seed: int, protocol: Protocol, **limits: int) -> None:
        rng = random.Random(seed)
        self.tools = Tools()
        context = rng.choice([None, 2500, 6000])
        self.model = Teller(invariants.story(seed + 1000)[:3], protocol, context)
        limits = {"max_steps": rng.randint(4, 12), "max_errors": rng.randint(2, 5)} | limits
        policy: Any = rng.choice(["deny", "auto"])
        self.agent = nb.Agent(
            self.tools.box(), self.model, protocol, namespace={}, approve=policy, **limits
        )
        self.asking: dict[str, Any] = {"until": long_enough} if rng.random() < 0.7 else {}
        self.ask("What was before?", lambda event: None)
        self.model.asked.clear()
        self.model.replies = invariants.story(seed)
        self.events: list[Event] = []

    def ask(self, question: str, observer: Callable[[Event], None]) -> Run:
        try:
            return self.agent.run(question, observers=[observer], **self.asking)
        except (nb.ModelError, nb.TaskFailed, ConditionError, nb.RunInterrupted) as error:
            return error.run or Run(question)

    def run(self, cut: int = -1, what: type[BaseException] = RuntimeError) -> Run | None:
        """Ask; an observer may raise or be interrupted at an event."""

        def watch(event: Event) -> None:
            self.events.append(event)
            if len(self.events) - 1 == cut:
                raise what("cut")

        try:
            return self.ask("What now?", watch)
        except (RuntimeError, KeyboardInterrupt, MemoryError):
            return None

    def keeps_its_promises(self, run: Run | None) -> None:
        """All invariants hold, and the next question works."""
        agent, tools, asked = self.agent, self.tools, self.model.asked
        ran = len(tools.journal)
        invariants.check_calls(agent, tools)
        invariants.check_requests(asked, self.events, self.model.protocol)
        invariants.check_repetition(self.events)
        invariants.check_history(agent)
        if run is not None:
            assert run.ending is not None
            json.dumps([to_json(event) for event in run.events])
            invariants.check_bounds(asked, run, agent.limits)
        assert len(tools.journal) == ran, "something ran on"
        assert all(exchange.ending is not None for exchange in agent.exchanges)
        self.goes_on()

    def goes_on(self) -> None:
        """The next question is answered after a call."""
        ran = len(self.tools.journal)
        self.tools.what, self.asking = None, {}
        self.model.asked.clear()
        self.model.replies = [[("put", {"place": "z", "n": 7})]]
        self.agent.limits = Limits()
        run = self.ask("And then?", lambda event: None)
        assert (run.status, run.answer) == ("answered", ANSWER)
        assert self.tools.journal[ran:] == [("put", {"place": "z", "n": 7})]
        invariants.check_history(self.agent)


def whole(seed: int, protocol: Protocol) -> Talk:
    """A talk that was not interrupted."""
    talk = Talk(seed, protocol)
    talk.run()
    return talk


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_uninterrupted_run_keeps_the_invariants(protocol: Protocol) -> None:
    for seed in range(60):
        talk = Talk(seed, protocol)
        talk.keeps_its_promises(talk.run())


@over_seeds
@pytest.mark.parametrize("what", [KeyboardInterrupt, RuntimeError])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_interrupted_at_any_event(
    seeds: Sequence[int], protocol: Protocol, what: type[BaseException]
) -> None:
    for seed in seeds:
        for cut in range(len(whole(seed, protocol).events)):
            talk = Talk(seed, protocol)
            talk.keeps_its_promises(talk.run(cut, what))


@over_seeds
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_abandoned_at_any_event(seeds: Sequence[int], protocol: Protocol) -> None:
    for seed in seeds:
        events = whole(seed, protocol).events
        # What is shown while calls run is for observers alone.
        streamed = [each for each in events if getattr(each, "kind", "") != "ended"]
        for cut in range(len(streamed)):
            talk = Talk(seed, protocol)
            stream = talk.agent.stream("What now?", **talk.asking)
            for _ in range(cut + 1):
                talk.events.append(next(stream))
            stream.close()
            talk.keeps_its_promises(None)


@over_seeds
@pytest.mark.parametrize(
    "what",
    [
        KeyboardInterrupt(),
        ModelError("503", kind="server"),
        ModelError("too long", kind="overflow"),
        RuntimeError("a bug"),
        MemoryError(),
    ],
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_interrupted_in_any_request(
    seeds: Sequence[int], protocol: Protocol, what: BaseException
) -> None:
    for seed in seeds:
        for cut in range(len(whole(seed, protocol).model.asked)):
            talk = Talk(seed, protocol)
            talk.model.replies[cut:] = [what]
            talk.keeps_its_promises(talk.run())


@over_seeds
@pytest.mark.parametrize(
    "what", [KeyboardInterrupt(), SystemExit(3), MemoryError("full"), GeneratorExit()]
)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_interrupted_in_any_tool(
    seeds: Sequence[int], protocol: Protocol, what: BaseException
) -> None:
    for seed in seeds:
        before = len(Talk(seed, protocol).tools.journal)
        for cut in range(before, len(whole(seed, protocol).tools.journal)):
            talk = Talk(seed, protocol)
            talk.tools.cut, talk.tools.what = cut, what
            talk.keeps_its_promises(talk.run())


@over_seeds
@pytest.mark.parametrize("limit", ["max_steps", "max_errors", "max_total_tokens"])
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_stopped_by_a_limit_at_any_step(
    seeds: Sequence[int], protocol: Protocol, limit: str
) -> None:
    for seed in seeds:
        for most in range(1, 7):
            talk = Talk(
                seed, protocol, **{limit: most * (60 if limit == "max_total_tokens" else 1)}
            )
            talk.keeps_its_promises(talk.run())


@pytest.mark.parametrize(
    ("seeds", "events_of_all"), [(FEW, 90), pytest.param(SEEDS, 334, marks=pytest.mark.slow)]
)
def test_these_runs_contain_every_kind_of_event(seeds: Sequence[int], events_of_all: int) -> None:
    """Each run is interrupted at each event in three ways: more than a thousand runs of all stories."""
    events = [
        event for protocol in PROTOCOLS for seed in seeds for event in whole(seed, protocol).events
    ]
    assert len(events) >= events_of_all
    seen = {type(event).__name__ for event in events} | {
        getattr(event, "kind", "") for event in events
    }
    wanted = {
        "Started", "AskModel", "ModelReply", "NoReply", "RunCalls", "CallOutcomes", "CheckAnswer", "Verdict",
        "Answered", "Failed", "Stopped", "compaction", "repeat", "limit", "overflow", "deadline", "endpoint",
    }  # fmt: skip
    assert wanted <= seen


@pytest.mark.parametrize(
    ("what", "status"),
    [
        (KeyboardInterrupt, "interrupted"),
        (ValueError, "answered"),  # it is what the condition finds wrong
        (RuntimeError, "failed"),  # a mistake in the condition
        (MemoryError, "failed"),
    ],
)
def test_interrupted_in_any_check_of_an_answer(what: type[BaseException], status: str) -> None:
    for protocol, cut in itertools.product(PROTOCOLS, range(3)):
        answers = iter(range(9))

        def until(answer: str, cut: int = cut, answers: Any = answers) -> str:
            if next(answers) == cut:
                raise what("cut")
            return long_enough(answer)

        talk = Talk(0, protocol, max_steps=12, max_errors=12)
        short = [("final_answer", "short")]
        talk.model.replies = [[("put", {"place": "a", "n": 1})], short, short, short]
        talk.asking = {"until": until}
        run = talk.run()
        assert run is not None
        assert run.status == status
        talk.keeps_its_promises(run)


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**9), st.sampled_from(PROTOCOLS), st.integers(0, 30), st.integers(0, 30))
def test_two_interrupted_questions_in_a_row(
    seed: int, protocol: Protocol, first: int, second: int
) -> None:
    talk = Talk(seed, protocol)
    talk.run(first, KeyboardInterrupt)
    talk.events.clear()
    talk.model.asked.clear()
    talk.keeps_its_promises(talk.run(second, KeyboardInterrupt))


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_the_next_question_ends_an_abandoned_stream(protocol: Protocol) -> None:
    talk = Talk(0, protocol)
    ran = len(talk.tools.journal)
    talk.asking = {}
    talk.model.replies = [[("put", {"place": place, "n": 1})] for place in "ab"]
    stream = talk.agent.stream("Well?")
    while len(talk.tools.journal) == ran:
        next(stream)
    run = talk.ask("Next?", lambda event: None)
    with pytest.raises(nb.RunInterrupted):
        next(stream)
    assert [exchange.question for exchange in talk.agent.exchanges][-2:] == ["Well?", "Next?"]
    talk.model.asked.clear()
    talk.keeps_its_promises(run)
