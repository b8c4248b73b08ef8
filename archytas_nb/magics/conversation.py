"""The conversation of a notebook: its exchanges, what it cost, and which cell asks.

It outlives every question; each question gets an `Agent` of its own with the settings of that
moment, so that nothing of one question's options reaches the next.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from IPython.core.error import UsageError

from archytas_nb.errors import ArchytasError, RunInterrupted
from archytas_nb.kernel import running_cell
from archytas_nb.loop.events import ModelReply, Usage

if TYPE_CHECKING:
    from archytas_nb.agent import Agent
    from archytas_nb.loop.history import Exchange
    from archytas_nb.run import Run

_log = logging.getLogger("archytas_nb")


@dataclass(frozen=True, slots=True)
class Paid:
    """What one question cost.

    Attributes:
        question: The question.
        model: The model's name.
        usage: Requests and tokens; also those of a run that failed.
        seconds: Seconds of the model; in a replay those of the recording.
        usd: US dollars, or None where the price is not known.
    """

    question: str
    model: str
    usage: Usage
    seconds: float
    usd: float | None


@dataclass(slots=True)
class Conversation:
    """The exchanges so far, and what they cost.

    Attributes:
        exchanges: The record that every agent of this conversation continues.
        paid: One entry for each question since the conversation began, in order, with those that
            were undone or replaced.
    """

    exchanges: list[Exchange] = field(default_factory=list)
    paid: list[Paid] = field(default_factory=list)
    _running: bool = False

    def reset(self) -> int:
        """Begin a new conversation; return how many exchanges are forgotten."""
        forgotten = len(self.exchanges)
        self.exchanges.clear()
        self.paid.clear()
        return forgotten

    def ask(self, agent: Agent, ask: Callable[[], Run]) -> Run:
        """Have an agent continue this conversation.

        Args:
            agent: Made for this question.
            ask: Asks it.

        Raises:
            UsageError: A question of this conversation is being answered.
            ArchytasError: As `Agent.run` says; what the run cost is noted all the same.
            RunInterrupted: A person interrupted.
        """
        if self._running:
            raise UsageError(
                "a question of this conversation is being answered; a tool cannot ask it another"
            )
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
        price = getattr(agent.model, "price", None)
        # An endpoint that does not count tokens does not say what they cost either.
        counted = usage.input_tokens or usage.output_tokens
        usd = usage.usd or (price.cost(usage) if price is not None and counted else None)
        seconds = sum(event.seconds for event in run.events if isinstance(event, ModelReply))
        self.paid.append(Paid(run.question, run.model, usage, seconds, usd))
        _log.info(
            "a run with %s (%s) was %s after %.1f s: %d requests, %d tokens in, %d out",
            *(run.model, run.protocol, run.status, run.seconds),
            *(usage.requests, usage.input_tokens, usage.output_tokens),
        )


class Origins:
    """Tells which cell asks, so that a cell that is run again replaces its exchange.

    A notebook's front end names the cell in the request. Where none is named (a console, a
    terminal, nbclient), a question that is asked again is added like any other.
    """

    def __init__(self, shell: Any) -> None:
        self._shell = shell
        self._execution = ""
        self._asked = 0

    def next(self) -> str:
        """The identity of this cell's next question; empty where no cell is named."""
        cell, execution = running_cell(self._shell)
        number = self._asked + 1 if execution == self._execution else 1
        return f"{cell}#{number}" if cell else ""

    def asked(self) -> None:
        """Count a question of this cell."""
        _, execution = running_cell(self._shell)
        if execution != self._execution:
            self._execution, self._asked = execution, 0
        self._asked += 1
