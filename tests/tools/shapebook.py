"""The book that shapes of functions are entered in, by group."""

from __future__ import annotations

from typing import Any

SHAPES: dict[str, list[Any]] = {}


def shape(group: str):
    """Put a function into a group and leave it as it is."""

    def add(f):
        SHAPES.setdefault(group, []).append(f)
        return f

    return add
