"""The cost of a copy of the kernel, next to the kernel and a fork: ``python -m benchmarks.speed.copies``.

Wall time from the code to its result, the median of several rounds, for programs that name 1 kB, 100 MB and 2 GB. The
floor is `os.fork` and the end of the child, in the same process. ``--scale 0.1`` makes the data smaller.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import psutil

from archytas_nb.copies import prepared, watch
from archytas_nb.copies.place import Copy, CopyError
from archytas_nb.copies.process import Way

PROGRAM = "frame.x.mean()"


def frame(size: float) -> pd.DataFrame:
    """A frame of some bytes, of numbers."""
    rows = max(10, int(size / 16))
    rng = np.random.default_rng(1)
    return pd.DataFrame({"g": rng.integers(0, 50, rows), "x": rng.random(rows)})


def median(work: Callable[[], Any], rounds: int) -> float:
    """Milliseconds."""
    times = []
    for _ in range(rounds):
        begun = time.perf_counter()
        work()
        times.append(1000 * (time.perf_counter() - begun))
    return statistics.median(times)


def fork() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitpid(pid, 0)


def copied(names: dict[str, Any], folder: Path, way: Way, rounds: int) -> tuple[float, float, int]:
    """Milliseconds to the first result and to the second one, and bytes that are the copy's own."""
    first, second, memory = [], [], 0
    for _ in range(rounds):
        with Copy(names, folder=folder) as copy:
            copy._ways = lambda: [(way, 60.0)]  # type: ignore[method-assign]
            first.append(1000 * copy.run(PROGRAM).seconds)
            second.append(1000 * copy.run(PROGRAM).seconds)
            assert copy._process is not None
            memory = watch.private_bytes(copy._process._child.pid)
    return statistics.median(first), statistics.median(second), memory


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args()
    print(
        "| named | in the kernel | fork alone | copy by fork | then | own memory | copy by message | then | ratio |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    with tempfile.TemporaryDirectory() as made:
        folder = Path(made)
        for title, size in (("1 kB", 1e3), ("100 MB", 1e8), ("2 GB", 2e9)):
            names = {"frame": frame(size * options.scale), "pd": pd}
            kernel = median(lambda names=names: eval(PROGRAM, names), options.rounds)  # type: ignore[misc]
            floor = median(fork, options.rounds)
            forked, then, memory = copied(names, folder, "fork", options.rounds)
            template = prepared.template()
            template.prepare(prepared.libraries(names))
            template.is_ready(60)
            try:
                sent, after, _ = copied(names, folder, "message", options.rounds)
                message, again = f"{sent:.0f}", f"{after:.0f}"
            except CopyError:
                message = again = "not sent"
            ratio = forked / (kernel + floor)
            print(
                f"| {title} | {kernel:.1f} | {floor:.1f} | {forked:.0f} | {then:.0f} | {memory / 1e6:.0f} MB"
                f" | {message} | {again} | {ratio:.1f} |"
            )
    prepared.close()
    print(f"ms; load {psutil.getloadavg()[0]:.1f}")


if __name__ == "__main__":
    main()
