"""The cost of watching for effects: ``python -m benchmarks.speed.effects``.

Each piece of work runs in processes of its own, by turns with a ledger of effects and without one; the
ledger looks at the folder before and after, and the code names its files. Printed are the least seconds of
processor time of each, and the difference. ``--turns`` sets how often, ``--only NAME`` which work.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

ROWS = {"a read of 200 MB": 3_600_000, "a read of 15 MB that is kept": 270_000}
FILES = 200  # beside those of the work


def _loop() -> None:
    total = 0
    for number in range(10_000_000):
        total += number


def _open_often() -> None:
    for _ in range(2_000):
        with open("small.txt") as file:  # noqa: PTH123 - what code does most often
            file.read()


def _write_often() -> None:
    for number in range(200):
        Path(f"new{number}.txt").write_text(f"{number}")


def _read(name: str) -> Callable[[], None]:
    def read() -> None:
        import pandas as pd

        pd.read_csv(name)

    return read


def _import() -> None:
    import scipy.interpolate
    import scipy.optimize
    import scipy.stats  # noqa: F401


def _question() -> None:
    from archytas_nb import Agent
    from archytas_nb.testing import ScriptedModel

    def double(number: int) -> int:
        """Double a number.

        Args:
            number: The number
        """
        return 2 * number

    for _ in range(20):
        model = ScriptedModel(("double", {"number": 1}), ("final_answer", "2"))
        Agent([double], model).run("What is 1 doubled?")


def _nothing() -> None:
    """The look at the folder before and after."""


WORK: dict[str, Callable[[], None]] = {
    "nothing": _nothing,
    "a loop of 10 million": _loop,
    "2,000 opens": _open_often,
    "an import of scipy": _import,
    "20 questions that call a tool": _question,
    **{name: _read(f"{rows}.csv") for name, rows in ROWS.items()},
    "200 new files": _write_often,
}


def measure(name: str, *, is_watched: bool) -> float:
    """The processor time of some work in this process, in seconds."""
    from archytas_nb.effects.ledger import Ledger, kept_files, watched

    work = WORK[name]
    if work is _question:
        import archytas_nb.kernel.execute as module

        _question()  # imports
        if not is_watched:
            module.watched = nullcontext  # type: ignore[assignment]
        started = time.process_time()
        _question()
        return time.process_time() - started
    if "read" in name:
        import pandas as pd  # noqa: F401 - its import is no part of the work
    text = f"pd.read_csv('{ROWS[name]}.csv')" if name in ROWS else ""
    ledger = Ledger(kept_files, Path.cwd(), text=text)
    started = time.process_time()
    with watched(ledger) if is_watched else nullcontext():
        work()
    return time.process_time() - started


def main() -> None:
    """Measure all work by turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--turns", type=int, default=7)
    parser.add_argument("--only", choices=WORK, action="append")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--watched", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.measure:
        print(json.dumps(measure(args.measure, is_watched=args.watched)))
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "small.txt").write_text("x" * 100)
        for number in range(FILES):
            (folder / f"other{number}.txt").write_text("x" * 1000)
        for rows in ROWS.values():
            line = "{},some text of a row,3.14159265,2026-01-01,12345\n"
            with (folder / f"{rows}.csv").open("w") as file:
                file.write("a,b,c,d,e\n")
                file.writelines(line.format(number) for number in range(rows))
        for work in args.only or WORK:
            without, with_ledger = _by_turns(work, folder, args.turns)
            share = f"{with_ledger / without - 1:+7.1%}" if without > 1e-3 else ""
            print(f"{work:32} {without:8.4f} s {with_ledger:8.4f} s {share}", flush=True)


def _by_turns(work: str, folder: Path, turns: int) -> tuple[float, float]:
    """The least seconds without a ledger, and with one."""
    found: dict[bool, list[float]] = {False: [], True: []}
    for turn in range(2 * turns):
        is_watched = bool(turn % 2)
        command: list[Any] = [sys.executable, "-m", "benchmarks.speed.effects", "--measure", work]
        shown = subprocess.run(
            [*command, *["--watched"] * is_watched],
            cwd=folder,
            env=_environment(),
            capture_output=True,
            text=True,
            check=True,
        )
        found[is_watched].append(float(shown.stdout.splitlines()[-1]))
        for each in folder.glob("new*.txt"):
            each.unlink()
    return min(found[False]), min(found[True])


def _environment() -> dict[str, str]:
    import os

    return os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}


if __name__ == "__main__":
    main()
