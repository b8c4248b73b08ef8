"""After Ctrl-C between any two lines of our code, outcomes are recorded and the next question works."""

from __future__ import annotations

import signal

import pytest

import archytas_nb as nb
from archytas_nb.errors import RunInterrupted
from archytas_nb.loop.events import Answered
from archytas_nb.run import Run
from tests import invariants
from tests.interrupts import AtLine, pressing
from tests.invariants import PROTOCOLS, Protocol, Teller, Tools
from tests.sampling import few_of

REPLIES = [[("put", {"place": "a", "n": 1}), ("wait", {"n": 1})], [("put", {"place": "b", "n": 2})]]
OURS = (
    "loop/",
    "driver.py",
    "prepare.py",
    "run.py:run_events",
    "run.py:_observe",
    "run.py:_throw",
    "agent.py:_read",
    "agent.py:_events",
)
EVERY = few_of(47, 11)
"""Every so many lines there is an interrupt: a prime, so that it hits a loop at different places."""


class Talk:
    """A conversation in which one question is interrupted."""

    def __init__(self, protocol: Protocol) -> None:
        self.tools = Tools()
        self.model = Teller(REPLIES, protocol, None)
        self.agent = nb.Agent(self.tools.box(), self.model, protocol, namespace={})

    def ask(self, at: AtLine) -> Run:
        with pressing(at):
            try:
                return self.agent.run("What now?")
            except RunInterrupted as interrupted:
                return interrupted.run or Run("no run is attached")

    def goes_on(self) -> None:
        invariants.check_calls(self.agent, self.tools)
        invariants.check_history(self.agent)
        assert all(exchange.ending is not None for exchange in self.agent.exchanges)
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
        ran = len(self.tools.journal)
        self.model.replies = [[("put", {"place": "z", "n": 7})]]
        assert self.agent.run("And now?").answer == invariants.ANSWER
        assert len(self.tools.journal) == ran + 1


def lines(protocol: Protocol, *where: str) -> int:
    at = AtLine(*where)
    assert Talk(protocol).ask(at).status == "answered"
    return at.count


@pytest.mark.parametrize("every", EVERY)
@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_interrupt_between_any_two_lines_loses_no_outcome(
    protocol: Protocol, every: int
) -> None:
    statuses = set()
    for line in range(1, lines(protocol, *OURS), every):
        talk = Talk(protocol)
        statuses.add(talk.ask(AtLine(*OURS, line=line)).status)
        talk.goes_on()
    assert "interrupted" in statuses


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_outcome_is_recorded_wherever_the_interrupt_comes(
    protocol: Protocol,
) -> None:
    where = (
        "loop/loop.py:_run_calls",
        "loop/loop.py:_collect_outcomes",
        "loop/calls_made.py:record",
        "loop/limits.py:record_step",
        "loop/conversation.py:add",
    )
    for line in range(1, lines(protocol, *where), 3):
        talk = Talk(protocol)
        talk.ask(AtLine(*where, line=line))
        talk.goes_on()


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_an_interrupt_between_two_calls_is_handled(protocol: Protocol) -> None:
    where = ("kernel/execute.py:_groups", "kernel/execute.py:_run_group")
    for line in range(1, lines(protocol, *where)):
        talk = Talk(protocol)
        assert talk.ask(AtLine(*where, line=line)).status == "interrupted"
        talk.goes_on()


def test_a_late_interrupt_keeps_the_answer_and_stops_the_code_after_the_run() -> None:
    talk = Talk("native")
    last = lines("native", "loop/loop.py:check")
    with (
        pressing(AtLine("loop/loop.py:check", line=last)),
        pytest.raises(RunInterrupted) as raised,
    ):
        talk.agent.run("What now?")
    assert "after the run had ended" in str(raised.value)
    assert raised.value.run is not None
    assert isinstance(raised.value.run.ending, Answered)
    talk.goes_on()
