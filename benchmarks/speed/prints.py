"""The cost of a tool that prints 200,000 lines: ``python -m benchmarks.speed.prints``.

CPU seconds of a kernel, the best of three rounds: of a cell that prints the lines, and of questions whose tool prints
them, with `Agent.run` and with `%agent`. ``--check`` fails if a question takes more than twice as long as the cell.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

from tests.live_kernel import Kernel, live_kernel

MOST = 2.0
_BEGIN = """
%load_ext archytas_nb
import time
import archytas_nb as nb
from archytas_nb.testing import ScriptedModel

def talk():
    for n in range({lines}):
        print("line", n)

@nb.tool
def report() -> str:
    "Print lines."
    talk()
    return "done"
"""
_MODEL = "model = ScriptedModel(('report', {}), ('final_answer', 'Done.'))"
CELLS = {
    "a cell": "talk()",
    "Agent.run": "run = nb.Agent([report], model=model).run('Report.')",
    "%agent": "%agent --model model Report.",
}


def seconds(kernel: Kernel, code: str) -> float:
    """The CPU seconds of a cell."""
    kernel.run(f"{_MODEL}\nbegun = time.process_time()")
    cell = kernel.run(code)
    if cell.status != "ok":
        raise RuntimeError(cell.error)
    return float(kernel.run("time.process_time() - begun").result)


def main() -> int:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--lines", type=int, default=200_000)
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    found: dict[str, list[float]] = {name: [] for name in CELLS}
    with tempfile.TemporaryDirectory() as folder, live_kernel(Path(folder)) as kernel:
        kernel.run(_BEGIN.replace("{lines}", str(options.lines)))
        for _ in range(3):
            for name, code in CELLS.items():
                found[name].append(seconds(kernel, code))
    base = min(found["a cell"])
    for name, each in found.items():
        print(f"{name:10} {min(each):6.2f} s   {min(each) / base:4.2f} x")
    return int(options.check and max(map(min, found.values())) > MOST * base)


if __name__ == "__main__":
    sys.exit(main())
