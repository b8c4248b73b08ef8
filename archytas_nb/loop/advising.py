"""What the next calls of a small model must have: it is told what to send, and would send again what was refused.

What is fixed counts for the very next reply that makes calls, and no longer: then the model knows more.
Pure values: it knows neither wire forms nor tools.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from archytas_nb.loop.events import Json, ToolCall
from archytas_nb.loop.hints import beside_error
from archytas_nb.loop.ranking import inputs_by_name

MOST = 2
"""How often the same call is advised: what still fails then does so for another reason."""


@dataclass(slots=True)
class Advising:
    """The advice of one run.

    Attributes:
        fixed: By tool, the inputs that its next call must have.
    """

    fixed: dict[str, dict[str, Json]] = field(default_factory=dict)
    _due: dict[str, dict[str, Json]] = field(default_factory=dict)
    _given: Counter[str] = field(default_factory=Counter)

    def next_reply(self) -> None:
        """A reply with calls has come."""
        self._due, self.fixed = self.fixed, {}

    def is_followed_by(self, call: ToolCall) -> bool:
        """Whether a call of this reply is as it was told to be: then nothing is asked about it."""
        due, inputs = self._due.get(call.name), inputs_by_name(call.input)
        return bool(due) and all(
            name in inputs and inputs[name] == value for name, value in (due or {}).items()
        )

    def fix(self, name: str, inputs: Mapping[str, Json]) -> None:
        """Have the next call of a tool with these inputs; nothing is fixed where two calls of it were advised."""
        self.fixed[name] = {**inputs} if self.fixed.get(name, inputs) == inputs else {}

    def after_error(self, question: str, call: ToolCall, key: str, error: str) -> str:
        """What a model is told to send after an error; empty where that is not clear, or was said before."""
        better = beside_error(question, call, error)
        if better is None or self._given[key] >= MOST:
            return ""
        self._given[key] += 1
        self.fix(call.name, better.fixed)
        return better.text
