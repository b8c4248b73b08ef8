"""What the same agent is without its help for small models: the row to compare with.

Law of this file: it takes things away and adds nothing. The loop, the prompt and the tools stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import fields, replace
from typing import Any

import archytas_nb as nb
from archytas_nb.asking import AgentSetup, ModelChoice, RunSetup
from archytas_nb.loop.calls_made import CallsOfReplies
from archytas_nb.loop.events import AskModel, CallOutcome, ModelReply, ToolCall
from archytas_nb.loop.limits import Guards
from archytas_nb.loop.profile import LARGE, ModelProfile


class Unconstrained:
    """A model whose replies are free text: no schema is sent."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
        """Ask without the schema."""
        return self._model.complete(replace(ask, schema=None))


class Unguarded(CallsOfReplies):
    """No guard: every call is run, nothing is said beside what it comes to, and every answer counts."""

    def earlier(self, call: ToolCall) -> CallOutcome | None:
        """Nothing is known of earlier calls."""
        return None

    def is_duplicate(self, call: ToolCall, others: Collection[str]) -> bool:
        """Each call stands for itself."""
        return False

    def record(self, call: ToolCall, outcome: CallOutcome) -> CallOutcome:
        """The outcome as it is."""
        return outcome


class BareChoice(ModelChoice):
    """A model of which nothing is asked before its steps, and nothing done differently in them."""

    @property
    def profile(self) -> ModelProfile:
        """Its own profile, with the limits and the strategy of any model."""
        return replace(
            super().profile,
            default_reply_tokens=LARGE.default_reply_tokens,
            default_thinking_tokens=LARGE.default_thinking_tokens,
            confirms_repeats=LARGE.confirms_repeats,
            strategy=LARGE.strategy,
        )


class BareSetup(RunSetup):
    """A setup whose runs have limits alone."""

    def guards(self, *args: Any, **kwargs: Any) -> Guards:
        """The limits of a run, without any guard."""
        guards = RunSetup.guards(self, *args, **kwargs)
        return replace(guards, calls=Unguarded(guards.calls.may_repeat))


class BareAgentSetup(AgentSetup):
    """The setup of an agent whose questions have a `BareSetup`."""

    def now(self) -> RunSetup:
        """The setup for a question that is asked now, without guards."""
        return BareSetup(*_values(AgentSetup.now(self)))


class BareAgent(nb.Agent):
    """An agent without the guards, and without what a small model is asked and told."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        setup = replace(self._setup, choice=BareChoice(self._setup.choice.given))
        self._setup = BareAgentSetup(*_values(setup))


def _values(setup: AgentSetup | RunSetup) -> list[Any]:
    return [getattr(setup, each.name) for each in fields(setup)]
