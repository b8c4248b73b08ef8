"""The numbers that a tool gave for several things, in order.

A small model that has looked them all up still compares them wrongly.
Pure text: it knows neither models nor tools.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from archytas_nb.react.events import Json

MOST = 12
"""Things that are listed; a longer list is no help."""


def ranking(calls: Iterable[tuple[str, Json, str]], name: str) -> str:
    """Put what a tool's calls came to in order.

    Args:
        calls: Name, input and outcome of the calls that worked, in the order they were made.
        name: The tool.

    Returns:
        ``"In order, the least first: b 1.5, c 2, a 7"``; empty unless there are two or more calls that differ in
        one input alone and came to numbers of which not all are equal.
    """
    found = [(_named(given), number) for tool, given, said in calls if tool == name and (number := said.strip())]
    values = [_number(number) for _, number in found]
    if not 2 <= len(found) <= MOST or None in values or len(set(values)) < 2:
        return ""
    labels = _labels([inputs for inputs, _ in found])
    if not labels:
        return ""
    rows = sorted(zip(labels, [number for _, number in found], strict=True), key=lambda row: float(row[1]))
    return f"In order, the least first: {', '.join(f'{label} {number}' for label, number in rows)}"


def _named(given: Json) -> dict[str, str]:
    """The inputs as texts; what is no object has one."""
    inputs = given if isinstance(given, Mapping) else {"": given}
    return {str(name): str(value) for name, value in inputs.items()}


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) else None


def _labels(inputs: list[dict[str, str]]) -> list[str]:
    """What tells the calls apart: the values of the one input in which they differ; empty where it is not one."""
    if len({frozenset(each) for each in inputs}) != 1:
        return []
    differing = [name for name in inputs[0] if len({each[name] for each in inputs}) > 1]
    if len(differing) != 1:
        return []
    labels = [each[differing[0]] for each in inputs]
    return labels if len(set(labels)) == len(labels) else []
