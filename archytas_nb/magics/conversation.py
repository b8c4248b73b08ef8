"""The conversation of a notebook: what was said, what was paid, and which cell asked.

It outlives every question; each question gets an `Agent` of its own with the settings of that moment, so that
nothing of one question's flags reaches the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from archytas_nb.errors import ArchytasError, RunInterrupted
from archytas_nb.kernel.namespace import running_cell
from archytas_nb.loop.events import ModelReply, Usage

if TYPE_CHECKING:
    from archytas_nb.loop.history import Exchange
    from archytas_nb.run import Run
    from archytas_nb.session import Agent

_log = logging.getLogger("archytas_nb")


@dataclass(frozen=True, slots=True)
class Paid:
    """What one question cost.

    Attributes:
        question: The question.
        model: The model's name.
        usage: Requests and tokens; also those of a run that failed.
        seconds: What the model took; a replay says what it took when it was recorded.
        usd: What the tokens cost, or None where the price is not known.
    """

    question: str
    model: str
    usage: Usage
    seconds: float
    usd: float | None


@dataclass(slots=True)
class Conversation:
    """What was said so far, and what it cost.

    Attributes:
        exchanges: The record that every agent of this conversation goes on with.
        paid: One entry for each question that was asked since the conversation began, in order; what was undone
            or replaced meanwhile has been paid all the same.
    """

    exchanges: list[Exchange] = field(default_factory=list)
    paid: list[Paid] = field(default_factory=list)
    _running: bool = False

    def reset(self) -> int:
        """Begin anew; return how many exchanges are forgotten."""
        forgotten = len(self.exchanges)
        self.exchanges.clear()
        self.paid.clear()
        return forgotten

    def ask(self, agent: Agent, ask: Callable[[], Run], *, anew: bool = False) -> Run:
        """Have an agent go on with this conversation.

        Args:
            agent: Made for this question.
            ask: Asks it.
            anew: Whether what was said before is forgotten.

        Returns:
            The run.

        Raises:
            UsageError: A question of this conversation is being answered.
            ArchytasError: As `Agent.run` says; what the run cost is noted all the same.
            RunInterrupted: A person interrupted.
        """
        if self._running:
            raise UsageError(
                "a question of this conversation is being answered; a tool cannot ask it another"
            )
        if anew:
            self.reset()
        agent.exchanges = self.exchanges
        self._running = True
        run: Run | None = None
        try:
            run = ask()
        except (ArchytasError, RunInterrupted) as error:
            run = getattr(error, "run", None)
            raise
        finally:
            self._running = False
            if run is not None:
                self._note(run, agent)
        return run

    def _note(self, run: Run, agent: Agent) -> None:
        usage = run.usage
        # An endpoint that does not say how many tokens it counted has not said what it costs either.
        price = (
            getattr(agent.model, "price", None)
            if usage.input_tokens or usage.output_tokens
            else None
        )
        usd = None if price is None else price.cost(usage)
        seconds = sum(event.seconds for event in run.events if isinstance(event, ModelReply))
        self.paid.append(Paid(run.question, run.model, usage, seconds, usd))
        _log.info(
            "a run with %s (%s) was %s after %.1f s: %d requests, %d tokens in, %d out",
            *(run.model, run.protocol, run.status, run.seconds),
            *(usage.requests, usage.input_tokens, usage.output_tokens),
        )


class Origins:
    """Tells which cell asks, so that a cell that is run again replaces its exchange.

    A notebook's front end names the cell in the request. Where none is named (a console, a terminal, nbclient)
    nothing tells two questions apart from one that is asked again, and each is added.

    Args:
        shell: The IPython shell.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._execution = ""
        self._asked = 0

    def next(self) -> str:
        """The identity of the question that this cell would ask next; empty where there is none."""
        cell, execution = running_cell(self._shell)
        if not cell:
            return ""
        return f"{cell}#{self._asked + 1 if execution == self._execution else 1}"

    def asked(self) -> None:
        """Count a question of this cell."""
        _, execution = running_cell(self._shell)
        if execution != self._execution:
            self._execution, self._asked = execution, 0
        self._asked += 1
