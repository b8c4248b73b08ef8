"""The check of a program and the declarations of tools, until their own modules exist."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping
from typing import Any

from archytas_nb.loop.events import Fault
from archytas_nb.tools.tool import Tool

_CERTAIN = frozenset({
    "unresolved-reference", "unknown-argument", "missing-argument",
    "too-many-positional-arguments", "invalid-syntax", "parameter-already-assigned",
})  # fmt: skip


def prepared(text: str, names: Collection[str]) -> tuple[str, list[Fault]]:  # noqa: ARG001
    """The text to feed, and its faults."""
    return text, []


def faults_of(
    error: Any,
    text: str,
    tools: Mapping[str, Any],  # noqa: ARG001
    names: Collection[str],
) -> list[Fault]:
    """The certain ones of the type checker's diagnostics."""
    lines = text.splitlines()
    found = []
    for line, rule, what in re.findall(
        r"^main\.py:(\d+):\d+: error\[([\w-]+)\] (.*)$", error.display(), re.MULTILINE
    ):
        name = re.match(r"Name `(\w+)`", what)
        if rule in _CERTAIN and not (name and name[1] in names):
            number = int(line)
            found.append(
                Fault(number, lines[number - 1].strip() if number <= len(lines) else "", what)
            )
    return found


def python_name(tool: Tool) -> str:
    """The name of the tool in programs."""
    return tool.name.replace("-", "_")


def stub(tool: Tool) -> str:
    """What the type checker reads."""
    names = [each for each in tool.parameters if not each.injected]
    given = ", ".join(f"{each.name}: Any{' = ...' if each.optional else ''}" for each in names)
    return f"def {python_name(tool)}({given}) -> Any: ..."
