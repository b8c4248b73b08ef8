"""How fast the embedded engine reads and writes, alone and beside one and two busy processes.

``python -m benchmarks.speed.engine`` prints three tables, one row for each setting, the default
first. Beside busy processes only the settings of threads are measured, with shorter texts: some of
them take minutes. All servers are up at once and take turns, so that a busy moment hits all alike;
the figures are medians of the rounds.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import psutil

from archytas_nb.loop.events import AskModel
from archytas_nb.models.embedded.model import EmbeddedModel
from archytas_nb.models.embedded.process import Engine, usable_cores
from benchmarks.success.runner import Timed

READ, READ_BESIDE = 150, 40
"""Numbers of four digits in a prompt; 150 are about a thousand tokens, a system prompt with five tools."""

WRITE, WRITE_BESIDE = 64, 24
"""Tokens of a reply; 64 are a call with its thought."""

OF_THREADS = ("reads", "safe mode")
"""How the settings begin that differ in their threads."""

SPINS_OF_LIBGOMP = 300_000
"""How often a waiting thread spins before it sleeps, if nothing else is set."""

WORDS = {
    "type": "object",
    "properties": {
        "words": {"type": "array", "items": {"type": "string", "maxLength": 12}, "minItems": WRITE}
    },
    "required": ["words"],
}
STORY = "Tell a long story about a fox, one word after another."
HEAD = (
    "setting",
    "reading, tokens/s",
    "writing, tokens/s",
    "with a schema",
    "two at once, s",
    "memory, MB",
)


@dataclass(frozen=True)
class Tuned(Engine):
    """The engine with other parameters, in a process that no notebook shares."""

    grace_seconds: float = 61.0
    more: tuple[tuple[str, Any], ...] = ()
    environment: tuple[tuple[str, str], ...] = ()

    def settings(self, weights: Path) -> dict[str, Any]:
        """The parameters, with the others in place."""
        return {**super().settings(weights), **dict(self.more)}


def engines() -> dict[str, Tuned]:
    """The compared engines, by the name for a person."""
    cores = usable_cores()
    writes = "cpuparams.n_threads"
    spins = (("GOMP_SPINCOUNT", str(SPINS_OF_LIBGOMP)),)
    return {
        f"reads with {cores}, writes with {max(1, cores - 1)} (default)": Tuned(),
        f"reads and writes with {cores}": Tuned(more=((writes, cores),)),
        f"reads and writes with {cores}, spins {SPINS_OF_LIBGOMP:,} times": Tuned(
            more=((writes, cores),), environment=spins
        ),
        f"reads with {cores}, writes with {max(1, cores - 1)}, spins {SPINS_OF_LIBGOMP:,} times": (
            Tuned(environment=spins)
        ),
        "one slot": Tuned(slots=1),
        "batches of 2,048": Tuned(more=(("n_batch", 2048), ("n_ubatch", 512))),
        "safe mode": Tuned(safe=True),
    }


@dataclass
class Figures:
    """Measured rates of one server under one condition."""

    reading: list[float] = field(default_factory=list)
    writing: list[float] = field(default_factory=list)
    bound: list[float] = field(default_factory=list)
    together: list[float] = field(default_factory=list)

    def row(self, label: str, memory: int) -> str:
        """A line of the table."""
        rates = [
            f"{statistics.median(each):.1f}"
            for each in (self.reading, self.writing, self.bound, self.together)
        ]
        return f"| {' | '.join([label, *rates, f'{memory / 1e6:.0f}'])} |"


class Served:
    """One server and what is measured of it."""

    def __init__(self, engine: Tuned) -> None:
        before = set(psutil.Process().children())
        self.model = EmbeddedModel(engine=engine)
        with mock.patch.dict(os.environ, dict(engine.environment)):
            self._ask("Say yes.", 1, None)
        started = set(psutil.Process().children()) - before
        if not started:
            raise SystemExit(
                "a server with these settings runs already, of an earlier benchmark: wait a minute"
            )
        [self.process] = started

    def round(self, chance: random.Random, figures: Figures, read: int, write: int) -> None:
        """Read a text that no cache holds, write about it, write bound to a schema, and write twice at once."""
        text = " ".join(f"{chance.randrange(1000, 10000)}" for _ in range(read))
        timed, usage = self._ask(f"{text}\nSay yes.", 1, None)
        figures.reading.append((usage.input_tokens - usage.cached_tokens) / timed.first_token)
        for rates, schema in ((figures.writing, None), (figures.bound, WORDS)):
            timed, usage = self._ask(STORY, write, schema)
            assert usage.output_tokens > write / 2, (
                f"{usage.output_tokens} tokens are too few to measure"
            )
            rates.append((usage.output_tokens - 1) / timed.writing)
        began = time.perf_counter()
        two = [
            threading.Thread(target=self._ask, args=(f"{STORY} {n}", write, WORDS))
            for n in range(2)
        ]
        for each in two:
            each.start()
        for each in two:
            each.join()
        figures.together.append(time.perf_counter() - began)

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


@contextlib.contextmanager
def neighbour(count: int) -> Iterator[None]:
    """So many processes that keep a core busy each."""
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(count)]
    try:
        yield
    finally:
        for each in busy:
            each.kill()
            each.wait()


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, measure, print."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed.engine", description=__doc__)
    parser.add_argument("--rounds", type=int, default=3, help="how often each setting is measured")
    given = parser.parse_args(arguments)
    chance = random.Random(1)
    servers = {label: Served(engine) for label, engine in engines().items()}
    for count, condition, read, write in (
        (0, "alone", READ, WRITE),
        (1, "beside one busy process", READ_BESIDE, WRITE_BESIDE),
        (2, "beside two busy processes", READ_BESIDE, WRITE_BESIDE),
    ):
        chosen = [label for label in servers if not count or label.startswith(OF_THREADS)]
        figures = {label: Figures() for label in chosen}
        with neighbour(count):
            for _ in range(given.rounds):
                for label in chosen:
                    servers[label].round(chance, figures[label], read, write)
        print(f"\n{condition}\n")
        print("\n".join([f"| {' | '.join(HEAD)} |", "| --- | ---: | ---: | ---: | ---: | ---: |"]))
        for label in chosen:
            memory = servers[label].process.memory_info().rss
            print(figures[label].row(label, memory), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
