"""Replies as models really write them, each with the calls that were meant."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tests.loop import damages, forms, vendors  # noqa: F401 - they fill KINDS
from tests.loop.kinds import KINDS
from tests.loop.truths import Call, Truth


@dataclass(frozen=True)
class Case:
    """A reply, and what running it rightly means.

    `meant` are the calls; empty where nothing can be run for certain. `or_told`: nothing may be run, and that
    said,
    which is never wrong but counts as right only where the reply leaves two readings.
    """

    kind: str
    text: str
    meant: tuple[Call, ...]
    or_told: bool = False


def cases(truths: list[Truth], seeds: int = 1) -> Iterator[tuple[Case, dict[str, Any]]]:
    """Every kind of corruption of every call, `seeds` times; each with the schemas of its tools."""
    for seed in range(seeds):
        for n, truth in enumerate(truths):
            for kind, make in KINDS.items():
                rng = random.Random(f"{seed}/{n}/{kind}")
                other = rng.choice(truths)
                if other.name == truth.name:
                    other = truth
                schemas = {truth.name: dict(truth.schema), other.name: dict(other.schema)}
                schemas = {
                    name: {**each, "properties": dict(each["properties"])}
                    for name, each in schemas.items()
                }
                mine = Truth(truth.name, truth.input, schemas[truth.name])
                made = make(mine, Truth(other.name, other.input, schemas[other.name]), rng)
                if made is not None:
                    yield (
                        Case(kind, made[0], made[1], made[2] if len(made) == 3 else False),
                        schemas,
                    )
