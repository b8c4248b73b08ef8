"""Run tasks against a model and print the table.

python -m benchmarks.success                                   the model that `%agent` would take, all tasks
python -m benchmarks.success --half report --json out.json     the half that is only for reporting
python -m benchmarks.success --half blind                      the tasks that were written without sight of the package
python -m benchmarks.success --half choose --without hints     without one of the pieces that help small models
python -m benchmarks.success --model gpt-6-luna --protocol native --kinds compare "two steps"
"""

from __future__ import annotations

import argparse
import datetime as dt
import json
import os
import platform
import sys
from pathlib import Path
from typing import Any, get_args

import archytas_nb as nb
from archytas_nb.choices import ProtocolName
from benchmarks.success.ablations import PIECES, label_of, names_of_tasks
from benchmarks.success.report import as_json, compared, table
from benchmarks.success.runner import Result, Settings, attempt
from benchmarks.success.task import KINDS, REGISTRY
from benchmarks.success.tasks import selected


def main(arguments: list[str] | None = None) -> int:
    """Parse the command line, run, print."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.success", description="How often does a model succeed?"
    )
    parser.add_argument(
        "--model", help="a name that %%agent --model takes; what %%agent would choose by default"
    )
    parser.add_argument("--protocol", default="auto", choices=get_args(ProtocolName))
    parser.add_argument(
        "--half",
        default="all",
        choices=("choose", "report", "blind", "all"),
        help="all: those for tuning and those for reporting; blind ones only where they are named",
    )
    parser.add_argument("--kinds", nargs="+", choices=KINDS, metavar="KIND", help=", ".join(KINDS))
    parser.add_argument(
        "--tasks", nargs="+", choices=tuple(REGISTRY), metavar="NAME", help="tasks by name"
    )
    parser.add_argument("--repeat", type=int, default=1, help="how often each task is run")
    parser.add_argument(
        "--bare", action="store_true", help="without constrained decoding and guards"
    )
    parser.add_argument(
        "--without", nargs="+", default=[], choices=tuple(PIECES), metavar="PIECE",
        help="; ".join(f"{name}: {what}" for name, (what, _) in PIECES.items()),
    )  # fmt: skip
    parser.add_argument("--plan", action="store_true", help="have the model write a plan first")
    parser.add_argument(
        "--ablation", action="store_true", help="the tasks that pieces are measured on"
    )
    parser.add_argument(
        "--label", default="", help="what the run is called in a table; else what is left out"
    )
    parser.add_argument(
        "--tables",
        action="store_true",
        help="run nothing: print the tables of the results kept here",
    )
    parser.add_argument("--max-steps", type=int, default=Settings().max_steps)
    parser.add_argument("--max-seconds", type=float, default=Settings().max_seconds)
    parser.add_argument("--json", type=Path, help="write the results here")
    parser.add_argument(
        "--transcripts", action="store_true", help="keep the events of the tasks for tuning, too"
    )
    parser.add_argument(
        "--against", type=Path, help="results of an earlier run, to say what changed"
    )
    given = parser.parse_args(arguments)

    if given.tables:
        print(kept_tables())
        return 0
    if given.ablation:
        given.tasks = list(names_of_tasks())
    tasks = selected(None if given.half == "all" else given.half, given.kinds, given.tasks)
    settings = Settings(
        given.protocol,
        given.bare,
        given.max_steps,
        given.max_seconds,
        tuple(given.without),
        plans=given.plan,
    )
    agent = nb.Agent([], model=given.model)
    facts = {
        "label": given.label or label_of(given.without, bare=given.bare),
        "model": agent.chosen_model().name,
        "protocol": given.protocol,
        "bare": given.bare,
        "plan": given.plan,
        "without": given.without,
        "half": "choose" if given.ablation else given.half,
        "max_steps": given.max_steps,
        "max_seconds": given.max_seconds,
        "date": dt.datetime.now(dt.UTC).date().isoformat(),
        "machine": f"{platform.system()} {platform.machine()}, {os.cpu_count()} cores",
        "version": nb.__version__,
    }
    results = []
    for task in tasks * given.repeat:
        result = attempt(task, agent.chosen_model(), settings)
        results.append(result)
        mark = "solved" if result.solved else "FAILED"
        print(
            f"{mark}  {result.seconds:6.1f} s  {result.steps:2} steps  {task.name}  {result.fault}",
            flush=True,
        )
        if given.json:  # after every task: a run that is cut short has measured something
            given.json.write_text(
                as_json(results, facts, transcripts=given.transcripts) + "\n", encoding="utf-8"
            )
    print(f"\n{facts}\n\n{table(results)}")
    if given.against:
        print(
            f"\n{compared(json.loads(given.against.read_text(encoding='utf-8'))['results'], results)}"
        )
    return 0


RESULTS = Path(__file__).parent / "results"
KEPT = (
    "report", "report-program", "report-before", "report-bare",
    "blind", "blind-program", "blind-program-before", "blind-before", "blind-without-rules",
)  # fmt: skip
"""Runs of a whole half that are kept here: as it is now, and with other configurations."""

PARTS = ("report-react-beside", "blind-react-beside")
"""Runs of some tasks of a half, in an order that was fixed beforehand."""


def kept(name: str) -> tuple[dict[str, Any], list[Result]]:
    """A run that is kept: its facts, and the result of each task."""
    data = json.loads((RESULTS / f"{name}.json").read_text(encoding="utf-8"))
    return data, [Result(**row) for row in data["results"]]


def kept_tables() -> str:
    """The tables of the page, made of the results beside it."""
    return "\n\n".join(f"{name}\n\n{table(kept(name)[1])}" for name in KEPT)


if __name__ == "__main__":
    sys.exit(main())
