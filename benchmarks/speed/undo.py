"""The cost of a transaction next to a deep copy, in one run: ``python -m benchmarks.speed.undo``.

CPU time of the process, the best of several rounds; ratios to `copy.deepcopy` of the same namespace. Memory is
what is still held after the namespace itself is freed, by the peak counters of the operating system.
``--scale 0.25`` makes the data smaller.
"""

from __future__ import annotations

import argparse
import copy
import gc
import random
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl

from archytas_nb.undo.transaction import transaction

Names = dict[str, Any]


def small(_: float) -> Names:
    rng = random.Random(1)
    made = [
        lambda i: i,
        lambda i: f"text {i}",
        lambda i: [i, [i]],
        lambda i: {"a": i, "b": [i]},
        lambda i: {i, i + 1},
    ]
    names: Names = {f"name{i}": made[i % 5](i) for i in range(90)}
    for i in range(5):
        names[f"frame{i}"] = pd.DataFrame(
            {"x": np.arange(100.0), "s": [rng.choice("abc") for _ in range(100)]}
        )
        names[f"array{i}"] = np.arange(100.0)
    return names


def mixed(scale: float) -> Names:
    """800 MB: 440 in frames, 240 in arrays, 80 in polars, the rest in text and containers."""
    rng = np.random.default_rng(1)
    rows = int(2_000_000 * scale)
    frame = pd.DataFrame(rng.random((rows, 22)), columns=[f"x{i}" for i in range(22)])
    return {
        "flights": frame.copy(),
        "plain": pd.DataFrame({f"y{i}": rng.random(rows) for i in range(5)}),
        "array": rng.random((rows, 10)),
        "ints": rng.integers(0, 100, rows * 5),
        "polars": pl.DataFrame({f"z{i}": rng.random(rows) for i in range(5)}),
        "words": [f"word {i}" for i in range(int(200_000 * scale))],
        "nested": {i: [i] for i in range(int(20_000 * scale))},
    }


def long(scale: float) -> Names:
    """A frame of ten million rows: numbers, dates, a category and text."""
    rng = np.random.default_rng(1)
    rows = int(10_000_000 * scale)
    text = np.array([f"carrier {i}" for i in range(1000)], dtype=object)
    return {
        "frame": pd.DataFrame(
            {
                "x": rng.random(rows),
                "n": rng.integers(0, 9, rows),
                "t": pd.date_range("2000", periods=rows, freq="s"),
                "c": pd.Categorical.from_codes(rng.integers(0, 3, rows), [*"abc"]),
                "s": text[rng.integers(0, 1000, rows)],
            }
        )
    }


def best(work: Callable[[], Any], rounds: int) -> float:
    """Milliseconds of CPU time."""
    times = []
    for _ in range(rounds):
        gc.collect()
        started = time.process_time()
        work()
        times.append(time.process_time() - started)
    return min(times) * 1000


def nothing(names: Names, only: tuple[str, ...] = ()) -> Any:
    with transaction(*only, namespace=names) as t:
        pass
    return t


def change(names: Names) -> None:
    for value in names.values():
        if isinstance(value, pd.DataFrame):
            value[value.columns[0]] = 0
        elif isinstance(value, np.ndarray):
            value += 1
        elif isinstance(value, pl.DataFrame):
            value[0, 0] = 0.5
        elif isinstance(value, list):
            value.append(1)
        elif isinstance(value, dict):
            value["new"] = 1


def held() -> int:
    """Megabytes of memory that the process uses."""
    gc.collect()
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith("VmRSS"))) // 1024


def measure(title: str, make: Callable[[float], Names], scale: float, rounds: int) -> None:
    names = make(scale)
    at_start = held()
    shallow = best(lambda: dict(names), rounds)
    deep = best(lambda: copy.deepcopy(names), rounds)
    snapshot = best(lambda: transaction(namespace=names).__enter__(), rounds)
    unchanged = best(lambda: nothing(names), rounds)
    unnamed = best(lambda: nothing(names, ("none",)), rounds)
    undos = []
    for _ in range(rounds):
        with transaction(namespace=names) as t:
            change(names)
        started = time.process_time()
        assert t.undo() == ()
        undos.append((time.process_time() - started) * 1000)
    t = transaction(namespace=names)
    t.__enter__()
    copied, before_change = t.bytes >> 20, held()
    change(names)
    t.__exit__()
    kept = held() - before_change
    rows = [
        ("deep copy", deep),
        ("shallow copy of the names", shallow),
        ("snapshot", snapshot),
        ("run that changes nothing", unchanged),
        ("the same, no name is read", unnamed),
        ("undo", min(undos)),
    ]
    print(f"\n{title} ({at_start:,} MB in the process)")
    for label, ms in rows:
        print(f"  {label:28} {ms:10.2f} ms  {ms / deep:7.3f} of a deep copy")
    print(
        f"  copied before the block {copied:,} MB; after a change of everything {max(kept, 0):,} MB more is held"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    scale = parser.parse_args().scale
    warnings.simplefilter("ignore")
    measure("100 small names", small, scale, 20)
    measure("800 MB mixed", mixed, scale, 3)
    measure("10 million rows", long, scale, 3)


if __name__ == "__main__":
    main()
