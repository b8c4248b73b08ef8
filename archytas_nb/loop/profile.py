"""The properties of a model that a run depends on, read once when a question begins."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial

from archytas_nb.loop.events import ROOM
from archytas_nb.loop.limits import REPLY_TOKENS
from archytas_nb.loop.model import ModelFacts
from archytas_nb.loop.plan_protocol import PlanProtocol
from archytas_nb.loop.program_protocol import ProgramProtocol
from archytas_nb.loop.record import CardForm
from archytas_nb.loop.strategy import Strategy


@dataclass(frozen=True, slots=True)
class ModelProfile:
    """The properties of a kind of model; the defaults are those of a large one.

    Attributes:
        facts: The known facts about the model itself; some of them only after a reply, such as its
            context.
        result_chars: Characters up to which data and containers in results are shown whole.
        reply_tokens: Maximum number of tokens in one reply, if none is set.
        thinking_tokens: The same after a reply that contained only reasoning; None if it
            does not differ.
        runs_python: Whether the setting `python` applies to it, or only the argument.
        asks_user: Whether it is offered to ask the user where that is left to us.
        summarises: Whether it can sum up a conversation that is too long.
        sees_all: Whether it reads about variables and cells that the question does not name, where
            that is left to us.
        card: The form in which a variable is described to it.
        tells_notebook: Whether it reads about the functions of the notebook, the date and versions.
        is_asked_first: Whether it is asked, before the first step, if a tool fits the question.
        confirms_repeats: Whether it has to confirm a call that it has made before.
        programs, plans: The wire protocols in which it writes programs.
        copies: The one in which it writes programs that run in a copy of the notebook; None if it
            writes none.
        strategy: The different treatment of it during a run.
    """

    facts: ModelFacts = field(default_factory=partial(ModelFacts, None))
    result_chars: int = ROOM
    reply_tokens: int = REPLY_TOKENS
    thinking_tokens: int | None = None
    runs_python: bool = True
    asks_user: bool = True
    summarises: bool = True
    sees_all: bool = True
    card: CardForm = field(default_factory=CardForm)
    tells_notebook: bool = True
    is_asked_first: bool = False
    confirms_repeats: bool = False
    programs: type[ProgramProtocol] = ProgramProtocol
    plans: type[PlanProtocol] = PlanProtocol
    copies: type[ProgramProtocol] | None = None
    strategy: type[Strategy] = Strategy


LARGE = ModelProfile()
"""The profile of a model of which nothing is known."""
