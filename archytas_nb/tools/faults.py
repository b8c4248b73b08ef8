"""What is wrong with a call: a reason and a path, in words that a small model can act on. Knows JSON only."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from archytas_nb.tools.clip import clip

Path = tuple[str | int, ...]

MAX_FAULTS = 10
"""How many faults of a call the model reads; with more of one kind it learns nothing more."""

_LONGEST = 400


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a call; written as ``reason @ $.path``."""

    reason: str
    path: Path = ()

    def __str__(self) -> str:
        return f"{_cut(self.reason)} @ {_cut(path_text(self.path))}"

    def under(self, name: str) -> Fault:
        """Return the fault one level deeper, below the argument of that name."""
        return Fault(self.reason, (name, *self.path))


def listed(faults: Sequence[Fault]) -> list[str]:
    """Write the first faults, and how many there are more."""
    more = len(faults) - MAX_FAULTS
    return [*map(str, faults[:MAX_FAULTS]), *([f"… and {more:,} more faults"] if more > 0 else [])]


def _cut(text: str) -> str:
    return text if len(text) <= _LONGEST else clip(text, _LONGEST).replace("\n", " ")


def path_text(path: Iterable[str | int]) -> str:
    """Write a path as JSONPath does: ``$.rows[0].name``."""
    text = "$"
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += (
                f".{step}" if step.isidentifier() else f"[{json.dumps(step, ensure_ascii=False)}]"
            )
    return text


def received(value: Any, limit: int = 80) -> str:
    """Show what came, short, with its JSON type: ``"abc" (a string)``."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError, RecursionError):
        return f"a {type(value).__name__}"
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    kinds = {
        str: "a string",
        bool: "a boolean",
        int: "a number",
        float: "a number",
        list: "an array",
        dict: "an object",
    }
    kind = kinds.get(type(value))
    return f"{text} ({kind})" if kind else text
