"""What the settings of the embedded engine cost: how fast it reads and writes, and the memory it takes.

``python -m tests.benchmarks.engine`` prints a table, one row for each setting, the default first. All servers are
up at once and take turns, so that a busy moment hits all alike; the figures are medians of the rounds.
"""

from __future__ import annotations

import argparse
import random
import statistics
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
from archytas_nb.models.local_engine import Engine

from archytas_nb.models.embedded import EmbeddedModel
from archytas_nb.react.events import AskModel
from tests.evals.runner import Timed

READ = 150
"""Numbers of four digits in a prompt: about a thousand tokens, a system prompt with five tools."""

WRITE = 64
"""Tokens of a reply: a call with its thought."""

WORDS = {
    "type": "object",
    "properties": {"words": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": WRITE}},
    "required": ["words"],
}
HEAD = ("setting", "reading, tokens/s", "writing, tokens/s", "with a grammar", "memory, MB")


@dataclass(frozen=True)
class Tuned(Engine):
    """The engine with other settings of the model, in a process that no notebook shares."""

    grace_seconds: float = 61.0
    more: tuple[tuple[str, Any], ...] = ()

    def model_settings(self, weights: Path) -> dict[str, Any]:
        """The settings, with the others in place."""
        return {**super().model_settings(weights), **dict(self.more)}


def settings() -> dict[str, Engine]:
    """What is compared, by what a person reads."""
    default = Tuned()
    return {
        f"context {default.context}, batch 512, all cores (default)": default,
        "one thread": Tuned(threads=1),
        **{f"context {size}": Tuned(context=size) for size in (2048, 32768)},
        **{f"batch {size}": Tuned(more=(("n_batch", size), ("n_ubatch", size))) for size in (64, 128, 256, 1024)},
        "flash attention": Tuned(more=(("flash_attn", True),)),
    }


class Served:
    """One server and what was measured of it."""

    def __init__(self, engine: Engine) -> None:
        before = set(psutil.Process().children())
        self.model = EmbeddedModel(engine=engine)
        self._ask("Say yes.", 1, None)
        started = set(psutil.Process().children()) - before
        if not started:
            raise SystemExit("a server with these settings runs already, of an earlier benchmark: wait a minute")
        [self.process] = started
        self.reading: list[float] = []
        self.writing: list[float] = []
        self.bound: list[float] = []

    def round(self, chance: random.Random) -> None:
        """Read a text that no cache holds, write about it, and write again bound to a schema."""
        text = " ".join(f"{chance.randrange(1000, 10000)}" for _ in range(READ))
        timed, usage = self._ask(f"{text}\nSay yes.", 1, None)
        self.reading.append((usage.input_tokens - usage.cached_tokens) / timed.first_token)
        for rates, schema in ((self.writing, None), (self.bound, WORDS)):
            timed, usage = self._ask("Tell a long story about a fox, one word after another.", WRITE, schema)
            assert usage.output_tokens > WRITE / 2, (
                f"a reply of {usage.output_tokens} tokens is too short to measure"
            )
            rates.append((usage.output_tokens - 1) / timed.writing)

    def row(self, label: str) -> str:
        """A line of the table."""
        rates = (f"{statistics.median(each):.1f}" for each in (self.reading, self.writing, self.bound))
        return f"| {' | '.join([label, *rates, f'{self.process.memory_info().rss / 1e6:.0f}'])} |"

    def _ask(self, text: str, tokens: int, schema: Any) -> tuple[Timed, Any]:
        timed = Timed(self.model)
        asking = timed.complete(
            AskModel(1, ({"role": "user", "content": text},), schema=schema, max_tokens=tokens)
        )
        while True:
            try:
                next(asking)
            except StopIteration as stop:
                return timed, stop.value.usage


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser("python -m tests.benchmarks.engine", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each setting is measured")
    given = parser.parse_args(arguments)
    chance = random.Random(1)
    servers = {label: Served(engine) for label, engine in settings().items()}
    for _ in range(given.rounds):
        for server in servers.values():
            server.round(chance)
    print("\n".join([f"| {' | '.join(HEAD)} |", "| --- | ---: | ---: | ---: | ---: |"]))
    for label, server in servers.items():
        print(server.row(label))
    return 0


if __name__ == "__main__":
    sys.exit(main())
