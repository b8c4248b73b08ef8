"""What the same agent is without its help for small models: the row to compare with.

Law of this file: it takes things away and adds nothing. The loop, the prompt and the tools stay as they are.
"""

from __future__ import annotations

from collections.abc import Collection, Generator
from dataclasses import replace
from typing import Any

import archytas_nb as nb
from archytas_nb.loop.events import AskModel, CallOutcome, ModelReply, ToolCall
from archytas_nb.loop.limits import Guards


class Unconstrained:
    """A model whose replies are free text: no schema is sent."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
        """Ask without the schema."""
        return self._model.complete(replace(ask, schema=None))


class Unguarded(Guards):
    """Budgets only: every call is run, nothing is said beside what it comes to, and every answer counts."""

    def skipped_outcome(self, call: ToolCall) -> CallOutcome | None:
        """Nothing is known of earlier calls."""
        return None

    def is_duplicate(self, call: ToolCall, others: Collection[str]) -> bool:
        """Each call stands for itself."""
        return False

    def record(self, call: ToolCall, outcome: CallOutcome) -> CallOutcome:
        """The outcome as it is."""
        return outcome


class BareAgent(nb.Agent):
    """An agent without the guards, and without what a small model is asked and told."""

    def _guards(self, *args: Any, **kwargs: Any) -> Guards:
        guards = super()._guards(*args, **kwargs)
        return Unguarded(guards.limits, guards.clock, guards.may_repeat, small=False)
