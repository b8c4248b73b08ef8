"""The cost of checking ten answers over 800 MB of frames: ``python -m benchmarks.speed.check``.

CPU seconds, the best of three rounds, beside xxh3 of the same bytes in the same run. First nothing has changed, then a
column in place, a variable by rebinding, and a column through an alias. ``--check`` fails if a check takes 1 s or more,
or if other answers than these three are said to have changed.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import xxhash

import archytas_nb as nb
from archytas_nb.run import Run
from archytas_nb.testing import ScriptedModel

LIMIT = 1.0  # seconds


def column_sum(frame: pd.DataFrame, column: str) -> float:
    """Sum a column."""
    return float(frame[column].sum())


FRAMES = ("flights", "delays", "weather", "planes")
CALLS = [(frame, column) for frame in FRAMES[:3] for column in ("x0", "x1", "x2")] + [
    ("planes", "x0")
]
CHANGED = {0, 3, 9}
"""The answers that change, by their place."""


def frames(scale: float) -> dict[str, Any]:
    """800 MB in four frames."""
    rng = np.random.default_rng(1)
    rows = int(2_500_000 * scale)
    columns = [f"x{number}" for number in range(10)]
    return {name: pd.DataFrame(rng.random((rows, 10)), columns=columns) for name in FRAMES}


def answers(names: dict[str, Any]) -> list[Run[Any]]:
    """Ten questions, each with a call that reads a frame."""
    names |= {"column_sum": column_sum}
    runs = []
    for frame, column in CALLS:
        call = ("column_sum", {"frame": frame, "column": column})
        model = ScriptedModel(call, ("final_answer", "done"), protocol="native")
        agent = nb.Agent([column_sum], model=model, namespace=names, context="none")
        runs.append(agent.run("What is it?", progress=False))
    return runs


def change(names: dict[str, Any]) -> None:
    """Change what three answers read."""
    names["flights"].loc[0, "x0"] += 1000.0  # in place
    names["delays"] = names["delays"].assign(x0=1.0)  # by rebinding
    alias = names["planes"]
    alias.loc[0, "x0"] += 1000.0


def best(work: Callable[[], Any], rounds: int = 3) -> float:
    """The seconds of the fastest of some rounds."""
    found = []
    for _ in range(rounds):
        started = time.process_time()
        work()
        found.append(time.process_time() - started)
    return min(found)


def hashed(names: dict[str, Any]) -> None:
    """The floor: one hash of all bytes."""
    for name in FRAMES:
        for column in names[name]:
            xxhash.xxh3_64(np.ascontiguousarray(names[name][column].to_numpy())).digest()


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser("python -m benchmarks.speed.check")
    parser.add_argument("--scale", type=float, default=1.0, help="less makes the data smaller")
    parser.add_argument("--check", action="store_true", help="fail at 1 s, or at wrong answers")
    given = parser.parse_args(arguments)
    names = frames(given.scale)
    runs = answers(names)
    size = sum(int(names[name].memory_usage().sum()) for name in FRAMES)
    print(f"{size / 1e6:.0f} MB of frames, {len(runs)} answers")
    print(f"xxh3 of all bytes          {best(lambda: hashed(names)):7.3f} s")
    still = best(lambda: [each.check() for each in runs])
    print(f"check, nothing has changed {still:7.3f} s")
    change(names)
    changed = best(lambda: [each.check() for each in runs])
    found = {place for place, each in enumerate(runs) if each.check().status == "changed"}
    print(
        f"check, three have changed  {changed:7.3f} s: {sorted(found)}, expected {sorted(CHANGED)}"
    )
    return int(given.check and (max(still, changed) >= LIMIT or found != CHANGED))


if __name__ == "__main__":
    sys.exit(main())
