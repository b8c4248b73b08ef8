"""What is wrong with a call: a reason and a path, in words that a small model can act on. Knows JSON only."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

Path = tuple[str | int, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault of a call; written as ``reason @ $.path``."""

    reason: str
    path: Path = ()

    def __str__(self) -> str:
        return f"{self.reason} @ {path_text(self.path)}"

    def under(self, name: str) -> Fault:
        """Return the fault one level deeper, below the argument of that name."""
        return Fault(self.reason, (name, *self.path))


def path_text(path: Iterable[str | int]) -> str:
    """Write a path as JSONPath does: ``$.rows[0].name``."""
    text = "$"
    for step in path:
        if isinstance(step, int):
            text += f"[{step}]"
        else:
            text += f".{step}" if step.isidentifier() else f"[{json.dumps(step, ensure_ascii=False)}]"
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
