"""The cost of describing a notebook: milliseconds and tokens of a question.

`python -m benchmarks.speed.context` prints a line for each namespace. A checkout of another state
is measured with `PYTHONPATH=CHECKOUT python benchmarks/speed/context.py`. Nothing is sent.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd

import archytas_nb as nb
from archytas_nb.loop.tokens import text_tokens
from archytas_nb.testing import ScriptedModel

TIMES = 5


def rows(number: int) -> dict[str, Any]:
    """A table with numbers, dates, texts and missing values."""
    random = np.random.default_rng(0)
    amount = random.random(number)
    amount[random.random(number) < 0.9] = np.nan
    towns = pd.Series(["Rome", "Bonn", "Lima", "Oslo"] * (number // 4), dtype="str")
    dates = pd.date_range("2000-01-01", periods=number, freq="s")
    frame = pd.DataFrame({"amount": amount, "town": towns, "when": dates, "n": range(number)})
    return {"events": frame}


def many(tables: int, others: int) -> dict[str, Any]:
    """Tables of 12 columns, and numbers, lists and dicts."""
    columns = [f"column_{n}" for n in range(12)]
    found: dict[str, Any] = {
        f"table_of_{n}": pd.DataFrame(np.zeros((9, 12)), columns=[f"{c}_of_{n}" for c in columns])
        for n in range(tables)
    }
    kinds: list[Callable[[int], Any]] = [int, float, str, lambda n: [n], lambda n: {"a": n}]
    found |= {f"of_kind_{n % 5}_{n}": kinds[n % 5](n) for n in range(others)}
    return found | {"events": pd.DataFrame({"amount": [1.5, None]})}


def wide() -> dict[str, Any]:
    """A table of 500 columns of which the names have no numbers that follow each other."""
    letters = "abcdefghijklmnopqrstuvwxy"
    names = [f"rate of {one}{two}" for one in letters for two in letters[:20]]
    return {"events": pd.DataFrame(np.random.default_rng(0).random((1000, 500)), columns=names)}


CASES: dict[str, Callable[[], dict[str, Any]]] = {
    "nothing": dict,
    "200,000 rows": lambda: rows(200_000),
    "200,004 rows": lambda: rows(200_004),
    "10,000,000 rows": lambda: rows(10_000_000),
    "300 variables": lambda: many(40, 259),
    "500 columns": wide,
    "nested": lambda: {"events": [{"a": [{"b": [1] * 100}] * 100}] * 1000},
    "text of 50 MB": lambda: {"events": "x" * 50_000_000},
}


def measured(namespace: dict[str, Any]) -> tuple[float, int, float, int]:
    """Milliseconds of the processor and tokens of a question, and of the same one after it."""
    agent = nb.Agent([], ScriptedModel("So.", protocol="native"), namespace=namespace)
    found: list[float] = []
    for _ in range(2):
        best = float("inf")
        for _ in range(TIMES):
            begun = time.process_time()
            messages = agent.preview("What do the events say?").messages
            best = min(best, time.process_time() - begun)
        found += [best * 1e3, text_tokens(str(messages[-1]["content"]))]
        if not agent.exchanges:
            agent.run("What do the events say?")
    return found[0], int(found[1]), found[2], int(found[3])


def main() -> None:
    """Print a line for each namespace."""
    print(f"{'':18} {'first: ms':>10} {'tokens':>7} {'again: ms':>10} {'tokens':>7}")
    for name, make in CASES.items():
        ms, tokens, ms_again, tokens_again = measured(make())
        print(f"{name:18} {ms:10.1f} {tokens:7,} {ms_again:10.1f} {tokens_again:7,}")


if __name__ == "__main__":
    main()
