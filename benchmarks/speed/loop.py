"""The cost of a run next to the baselines, all in one process, against a server without latency.

``python -m benchmarks.speed.loop`` prints the table and whether the wanted ratios hold; ``--check`` makes a ratio
that does not hold an error. Medians of interleaved rounds, so that a busy moment hits all alike; on a machine
that is busy all the time, ``--cpu`` counts the processor's time instead of the clock's. Peers are added with
``--peer NAME=PYTHON``, each in the environment of that interpreter, see `peer`.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import json
import math
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeVar

from benchmarks.speed import contenders
from benchmarks.speed.contenders import BASELINE, IMPORTS, OURS, STEPS, STREAMS
from benchmarks.speed.peer import CLOCKS, DEFINE

K = TypeVar("K")
Table = dict[str, dict[str, float]]

WARM = "warm step, ms"
STREAM = "stream, µs/token"
DEFINED = "define + schema, µs/tool"
COLUMNS = ("import, ms", WARM, "50 steps, ms", "200 steps, ms", STREAM, DEFINED)

_LOAD_EXT = """
import json, sys, time
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
before = set(sys.modules)
started = time.{clock}()
shell.run_line_magic("load_ext", "archytas_nb")
ms = (time.{clock}() - started) * 1000
names = ("openai", "ipywidgets", "pydantic", "archytas_nb.agent", "archytas_nb.loop.events", "archytas_nb.models.choose")
heavy = [name for name in names if name in sys.modules and name not in before]
print(json.dumps({{"ms": ms, "heavy": heavy}}))
"""


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The server, and where its plays begin."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.speed.server"], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout is not None
        yield f"http://127.0.0.1:{int(process.stdout.readline())}"
    finally:
        process.kill()
        process.communicate()


def medians(
    work: Mapping[K, Callable[[], Any]], rounds: int, clock: str = "wall"
) -> dict[K, float]:
    """The median time of each in milliseconds, after one round that warms up."""
    now = CLOCKS[clock]
    times: dict[K, list[float]] = {name: [] for name in work}
    for turn in range(rounds + 1):
        for name, run in work.items():
            started = now()
            run()
            if turn:
                times[name].append((now() - started) * 1000)
    return {name: statistics.median(each) for name, each in times.items()}


def measured(rounds: int, steps: tuple[int, int], tokens: int, clock: str = "wall") -> Table:
    """Milliseconds for one step and for both numbers of steps, microseconds per streamed token, by contender."""
    table: Table = {name: {} for name in STEPS}
    with served() as root, contextlib.closing(contenders):

        def taking(count: int) -> dict[str, Callable[[], None]]:
            return {
                name: functools.partial(_exactly, count, run, f"{root}/steps-{count}-{form}/v1")
                for name, (run, form) in STEPS.items()
            }

        # A single step is over in a moment: it is taken ten times as often.
        for name, ms in medians(taking(1), 10 * rounds, clock).items():
            table[name][WARM] = ms
        work = {
            (name, f"{count} steps, ms"): run
            for count in steps
            for name, run in taking(count).items()
        }
        for (name, column), ms in medians(work, rounds, clock).items():
            table[name][column] = ms
        url = f"{root}/tokens-{tokens}/v1"
        streams = {
            name: functools.partial(_exactly, tokens, run, url) for name, run in STREAMS.items()
        }
        for name, ms in medians(streams, rounds, clock).items():
            table[name][STREAM] = ms * 1000 / tokens
    return table


def _exactly(wanted: int, run: Callable[[str], int], url: str) -> None:
    done = run(url)
    if done != wanted:
        raise AssertionError(
            f"{done} were done instead of {wanted}: the times would compare unlike things"
        )


def measured_peer(
    name: str, python: str, steps: tuple[int, int], rounds: int, clock: str
) -> dict[str, float]:
    """One row of the table, measured by another interpreter."""
    with served() as root:
        arguments = [name, root, *map(str, steps), str(rounds), clock]
        command = [python, str(Path(__file__).with_name("peer.py")), *arguments]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    row: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return row


def imports(rounds: int, clock: str) -> dict[str, float]:
    """Milliseconds that each adds to the start of Python."""
    commands = {"": "pass", **IMPORTS}
    work = {
        name: functools.partial(subprocess.run, [sys.executable, "-c", code], check=True)
        for name, code in commands.items()
    }
    times = medians(work, rounds, clock)
    return {name: ms - times[""] for name, ms in times.items() if name}


def load_ext(clock: str = "wall") -> dict[str, Any]:
    """The milliseconds of ``%load_ext`` in a fresh shell, and the heavy packages that it imports."""
    code = _LOAD_EXT.format(clock="process_time" if clock == "cpu" else "perf_counter")
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def define(count: int = 100) -> float:
    """Microseconds of the processor to define a tool and to make its schema, warm."""
    from archytas_nb.tools.tool import Tool

    namespace: dict[str, Any] = {}
    for n in range(count + 1):
        exec(DEFINE.format(n=n), namespace)
    Tool.from_function(namespace.pop(f"t{count}")).spec()
    functions = [namespace[f"t{n}"] for n in range(count)]
    started = time.process_time()
    for function in functions:
        Tool.from_function(function).spec()
    return (time.process_time() - started) * 1e6 / count


def wanted(
    table: Table, steps: tuple[int, int], extension: dict[str, Any]
) -> list[tuple[str, float, float]]:
    """Each wanted bound: its name, what was measured, the most that it may be."""
    few, many = (f"{count} steps, ms" for count in steps)
    rows = []
    for name in (name for name in STEPS if name.startswith(OURS)):
        mine, baseline = table[name], table[BASELINE]
        exponent = math.log(mine[many] / mine[few]) / math.log(steps[1] / steps[0])
        rows += [(f"{name}: {many[:-4]} ÷ baseline", mine[many] / baseline[many], 1.35)]
        rows += [(f"{name}: exponent", exponent, 1.25)]
    rows.append(("stream ÷ baseline", table[OURS][STREAM] / table[BASELINE][STREAM], 1.6))
    if DEFINED in table[OURS]:
        rows.append((DEFINED, table[OURS][DEFINED], 250.0))
    rows.append(("%load_ext, ms", extension["ms"], 60.0))
    rows.append(("%load_ext imports what a question needs", float(len(extension["heavy"])), 0.0))
    return rows


def printed(table: Table) -> str:
    """The table in Markdown."""
    measured = dict.fromkeys(column for row in table.values() for column in row)
    columns = [
        *(each for each in COLUMNS if each in measured),
        *(each for each in measured if each not in COLUMNS),
    ]
    lines = ["| | " + " | ".join(columns) + " |", "|---" * (len(columns) + 1) + "|"]
    for name, row in table.items():
        cells = (f"{row[column]:,.1f}" if column in row else "–" for column in columns)
        lines.append(f"| {name} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main(arguments: list[str] | None = None) -> int:
    """Measure, print, and judge where that is asked for."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument(
        "--check", action="store_true", help="fail where a wanted ratio does not hold"
    )
    parser.add_argument(
        "--peer", action="append", default=[], metavar="NAME=PYTHON", help="measure a peer too"
    )
    parser.add_argument(
        "--cpu", action="store_true", help="count the processor's time, not the clock's"
    )
    options = parser.parse_args(arguments)
    steps, clock = (50, 200), "cpu" if options.cpu else "wall"
    table = measured(options.rounds, steps, 2000, clock)
    for name, ms in imports(options.rounds, clock).items():
        table[name]["import, ms"] = ms
    table[OURS][DEFINED] = statistics.median(define() for _ in range(options.rounds))
    for name, _, python in (peer.partition("=") for peer in options.peer):
        try:
            table[name] = measured_peer(name, python, steps, options.rounds, clock)
        except subprocess.CalledProcessError as error:
            print(f"{name} could not be measured: {error}", file=sys.stderr)
    extensions = [load_ext(clock) for _ in range(options.rounds)]
    extension = {**extensions[0], "ms": statistics.median(each["ms"] for each in extensions)}
    print(printed(table), "\n")
    rows = wanted(table, steps, extension)
    for what, value, most in rows:
        print(f"{'ok ' if value <= most else 'NOT'}  {what}: {value:.2f} (at most {most:g})")
    return int(options.check and any(value > most for _, value, most in rows))


if __name__ == "__main__":
    raise SystemExit(main())
