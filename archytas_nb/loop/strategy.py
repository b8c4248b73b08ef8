"""The points of a run at which a strategy for a kind of model decides.

A `Strategy` belongs to one run and may keep a state of it. By default it does nothing; the strategy
of small models is in `archytas_nb.small`.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any, Protocol

from archytas_nb.loop.conversation import ContextWindow
from archytas_nb.loop.events import (
    AskModel,
    Ending,
    Fault,
    Json,
    ModelReply,
    ProgramEnded,
    Reply,
    Requests,
    Verdict,
)
from archytas_nb.loop.limits import Guards
from archytas_nb.loop.model import ModelFacts
from archytas_nb.loop.program import ProgramRunner
from archytas_nb.loop.reading.reply import Action
from archytas_nb.loop.record import Exchange, StepRecord
from archytas_nb.loop.wire import Wire


class RunEndedError(Exception):
    """The run has ended because there was no reply."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending


class RunningLoop(Protocol):
    """The view of a run for a strategy, and the requests that it can make.

    Attributes:
        wire: The wire protocol.
        guards: The limits, and the guard against repeated calls.
        past: The exchanges before this one.
        exchange: The question with its steps.
        conversation: The messages that are sent.
        programs: The programs of the run and their calls.
        facts: The known facts about the model.
    """

    wire: Wire
    guards: Guards
    past: Sequence[Exchange]
    exchange: Exchange
    conversation: ContextWindow
    programs: ProgramRunner
    facts: ModelFacts

    def request(self) -> AskModel:
        """The next request of the run, as it would be sent now."""

    def ask_aside(self, request: AskModel) -> Requests[ModelReply]:
        """Ask for a reply that is not a step of the run; it counts for its limits."""

    def ask_for_code(self, request: AskModel) -> Requests[ModelReply]:
        """Ask for code, in a step of its own."""

    def reply_or_end(self, reply: Reply) -> Requests[ModelReply]:
        """The model's reply; raises `RunEndedError` if there is none."""

    def check(self, answer: Json, given: tuple[Any, ...] = ()) -> Requests[str]:
        """Why an answer is not accepted; empty if it is."""

    def after_program(self, end: ProgramEnded) -> Requests[Ending | None]:
        """Record a program that has ended; None if the run goes on."""

    def add(self, step: StepRecord) -> None:
        """Add a step to the record."""

    def note(self, report: str) -> None:
        """Tell the model, below the question, about a program that is no longer sent."""

    def sources(self) -> Iterator[str]:
        """The texts of the tools, the questions and the outcomes."""


class Strategy:
    """Does nothing differently.

    Attributes:
        keeps_cut_answers: Whether the beginning of an answer that was too long is its answer;
            otherwise the model is asked once for a shorter one.
        rewrites_in_order: Whether a program that is written again makes the calls of the one before
            it in the same order; see `CallsOfPrograms`.
        advice: Advice for the model besides the reason why the answer of a program is not
            accepted; empty for nothing.
    """

    keeps_cut_answers: bool = True
    rewrites_in_order: bool = True
    advice: str = ""

    def begin(self, loop: RunningLoop) -> Requests[Ending | None]:  # noqa: ARG002
        """The work before the first step; returns an ending if nothing else is needed."""
        yield from ()
        return None

    def disabled(self, loop: RunningLoop) -> Collection[str]:  # noqa: ARG002
        """Actions that the next reply cannot have, besides those of the guards."""
        return ()

    def shape(self, ask: AskModel, loop: RunningLoop) -> AskModel:  # noqa: ARG002
        """The request for the next step, which may be bound further."""
        return ask

    def may_end(self, action: Action, loop: RunningLoop) -> Requests[str]:  # noqa: ARG002
        """Why a reply that answers or gives up does not end the run yet; empty if it does."""
        yield from ()
        return ""

    def may_end_program(self, end: ProgramEnded, loop: RunningLoop) -> Requests[str]:  # noqa: ARG002
        """The same for a program that has ended."""
        yield from ()
        return ""

    def checked(self, verdict: Verdict, loop: RunningLoop) -> None:
        """An answer was checked."""

    def is_same_fault(self, fault: Fault) -> bool:  # noqa: ARG002
        """Whether a program failed as one before it, so that the model copies its own mistake."""
        return False
