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


_MOST = "The highest, most, longest, heaviest, dearest"
_LEAST = "The lowest, least, shortest, lightest, cheapest"
"""A small model takes what stands first for what was asked, unless the very word of the question is there."""


def ranking(calls: Iterable[tuple[str, Json, str]], name: str) -> str:
    """Put what a tool's calls came to in order.

    Args:
        calls: Name, input and outcome of the calls that worked, in the order they were made.
        name: The tool.

    Returns:
        ``"From high to low: a 7, c 2, b 1.5."``, and which has the most and which the least; empty unless there
        are two or more calls that differ in one input alone and came to numbers of which not all are equal.
    """
    found = [(inputs_of(given), said.strip()) for tool, given, said in calls if tool == name]
    values = [number_of(number) for _, number in found]
    if not 2 <= len(found) <= MOST or None in values or len(set(values)) < 2:
        return ""
    labels = _labels([inputs for inputs, _ in found])
    if not labels:
        return ""
    rows = sorted(zip(labels, [number for _, number in found], strict=True), key=lambda row: -float(row[1]))
    order = ", ".join(f"{label} {number}" for label, number in rows)
    most, least = (f"{_with_number(rows, number)} ({number})" for number in (rows[0][1], rows[-1][1]))
    return f"From high to low: {order}. {_MOST} is {most}. {_LEAST} is {least}."


def _with_number(rows: list[tuple[str, str]], number: str) -> str:
    return " and ".join(label for label, each in rows if float(each) == float(number))


def inputs_of(given: Json) -> dict[str, str]:
    """The inputs of a call as texts; what is no object is one."""
    inputs = given if isinstance(given, Mapping) else {"": given}
    return {str(name): str(value) for name, value in inputs.items()}


def number_of(text: str) -> float | None:
    """The finite number that a text is; None where it is something else."""
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
