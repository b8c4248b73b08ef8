"""The same agent without its help for small models: the row to compare with.

Law of this file: it takes things away and adds nothing. The loop, the prompt and the tools stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import replace
from typing import Any

import archytas_nb as nb
from archytas_nb.loop.calls_made import CallsOfReplies
from archytas_nb.loop.events import AskModel, CallOutcome, ModelReply, ToolCall
from archytas_nb.loop.limits import Guards, Limits
from archytas_nb.loop.profile import LARGE, ModelProfile
from archytas_nb.prepare import ModelChoice


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
            reply_tokens=LARGE.reply_tokens,
            thinking_tokens=LARGE.thinking_tokens,
            confirms_repeats=LARGE.confirms_repeats,
            strategy=LARGE.strategy,
        )


def _unguarded(limits: Limits, clock: Any, calls: CallsOfReplies) -> Guards:
    """The limits of a run, without any guard."""
    return Guards(limits, clock, Unguarded(calls.may_repeat))


class BareAgent(nb.Agent):
    """An agent without the guards, and without what a small model is asked and told."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        choice = BareChoice(self._setup.choice.given)
        self._setup = replace(self._setup, choice=choice, make_guards=_unguarded)
