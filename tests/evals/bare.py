"""What the same agent is without its help for small models: the row to compare with.

Law of this file: it takes things away and adds nothing. The loop, the prompt and the tools stay as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable
from dataclasses import fields, replace
from typing import Any

import archytas_nb as nb
from archytas_nb.react.events import AskModel, CallOutcome, ModelReply, ToolCall
from archytas_nb.react.guards import Guards


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
    """Budgets only: a repeated call is run again, and an answer is never doubted."""

    def earlier(self, call: ToolCall) -> CallOutcome | None:
        """Nothing is known of earlier calls."""
        return None

    def doubt(self, answer: str | None, told: Callable[[], Iterable[str]]) -> str:
        """Every answer is believed."""
        return ""


class BareAgent(nb.Agent):
    """An agent without the guards against repetition and invention."""

    def _guards(self, *args: Any, **kwargs: Any) -> Guards:
        guards = super()._guards(*args, **kwargs)
        return Unguarded(**{each.name: getattr(guards, each.name) for each in fields(guards) if each.init})
