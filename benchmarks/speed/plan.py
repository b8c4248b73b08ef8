"""Seconds, requests and memory of a planned map beside asking row by row, at no latency and at 200 ms, in one run.

``python -m benchmarks.speed.plan [ROWS] [SINGLE_ROWS]`` maps ROWS rows (10,000) with three lookups each by a program,
and SINGLE_ROWS rows (400) row by row, by a model that replies to each row with such a program. The floor is the same
program in the sandbox alone: a session for each row, and the functions called directly.

``python -m benchmarks.speed.plan --dask [ROWS]`` maps ROWS rows (1,000) by the program on a local Dask cluster, beside
the threads of this process.
"""

from __future__ import annotations

import dataclasses
import re
import resource
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from typing import Any

import pandas as pd

from archytas_nb import Agent, Tool
from archytas_nb.loop.events import AskModel, CallOutcome, ModelReply, ProgramCall, Usage
from archytas_nb.sandbox.rows import RowProgram

PROGRAM = """\
home = capital_of(city=row.city)
distance = distance_km(start=row.city, end=home)
answer(distance * fare_of(city=row.city))"""
PROMPT = "What does it cost to travel from {city} to its capital?"
WORKERS = 8


def capital_of(city: str) -> str:
    """Get the capital of the country of a city.

    Args:
        city: The city
    """
    return f"capital-{city[-1]}"


def distance_km(start: str, end: str) -> float:
    """Get the distance of two cities.

    Args:
        start: The first city
        end: The other one
    """
    return float(len(start) * 100 + ord(end[-1]))


def fare_of(city: str) -> float:
    """Get the fare of a kilometre.

    Args:
        city: The city
    """
    return 0.25 + len(city) / 100


FUNCTIONS = (capital_of, distance_km, fare_of)


class Model:
    """Writes the program, for all rows or for one; counts the requests."""

    name = "scripted"
    protocol = "program"
    is_scripted = True
    price = None

    def __init__(self, latency: float) -> None:
        self.latency = latency
        self.requests = 0
        self._lock = threading.Lock()

    def __reduce__(self) -> Any:  # to another process, which asks nothing
        return Model, (self.latency,)

    def complete(self, ask: AskModel) -> Iterator[Any]:
        yield from ()
        with self._lock:
            self.requests += 1
        time.sleep(self.latency)
        program = PROGRAM
        if "run once for each row" not in str(ask.messages[0]):
            city = re.findall(r"travel from (\S+) to", str(ask.messages[-1]["content"]))[-1]
            program = PROGRAM.replace("row.city", repr(city))
        return ModelReply(f"```python\n{program}\n```", usage=Usage(1, 500, 0, 60))


def rows(count: int) -> pd.DataFrame:
    return pd.DataFrame({"city": [f"city-{number}" for number in range(count)]})


def mapped(count: int, latency: float, **options: Any) -> tuple[float, int, Any]:
    """Seconds, requests and the frame."""
    model = Model(latency)
    tools = [Tool.from_function(each, pure=True) for each in FUNCTIONS]
    agent = Agent(tools, model=model, protocol="program")
    started = time.perf_counter()
    with tempfile.TemporaryDirectory() as folder:
        out = agent.map(
            rows(count), PROMPT, output_type=float, workers=WORKERS, store=f"{folder}/map.sqlite",
            progress=False, **options,
        )  # fmt: skip
    assert (out["status"] == "done").all(), out[out["status"] != "done"]
    return time.perf_counter() - started, model.requests, out


def floor(count: int) -> float:
    """Seconds of the program in the sandbox alone."""
    tools = {each.__name__: Tool.from_function(each) for each in FUNCTIONS}
    functions = {each.__name__: each for each in FUNCTIONS}
    row_type = dataclasses.make_dataclass("Row", [("city", str)], frozen=True)
    program = RowProgram(PROGRAM, tools, row_type)

    def call(made: ProgramCall) -> CallOutcome:
        return CallOutcome("done", "done", value=functions[made.name](**made.input))

    started = time.perf_counter()
    for city in rows(count)["city"]:
        assert program.run(row_type(city), call, {}).has_answer
    return time.perf_counter() - started


def main(count: int = 10_000, single: int = 400) -> None:
    mapped(50, 0.0, plan=True)  # everything is loaded
    sample = min(1000, count)
    base = floor(sample) / sample
    print(f"floor: {1000 * base:.2f} ms a row", flush=True)
    for latency in (0.0, 0.2):
        few, _, _ = mapped(count // 10, latency, plan=True)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        seconds, requests, _ = mapped(count, latency, plan=True)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(
            f"{1000 * latency:3.0f} ms, planned: {count:,} rows, {seconds:.1f} s "
            f"({1000 * seconds / count:.2f} ms a row, {seconds / count / base:.1f} × floor; a tenth "
            f"of the rows {few:.1f} s), {requests} requests, {grown / count:.2f} kB a row",
            flush=True,
        )
        alone, asked, _ = mapped(single, latency)
        print(
            f"{1000 * latency:3.0f} ms, row by row: {single:,} rows, {alone:.1f} s "
            f"({1000 * alone / single:.1f} ms a row), {asked} requests; "
            f"planned is {alone / single / (seconds / count):.1f} × faster a row",
            flush=True,
        )


def main_on_dask(count: int = 1000) -> None:
    """The same on a local Dask cluster, beside the threads of this process."""
    import distributed

    cluster = distributed.LocalCluster(
        n_workers=2, threads_per_worker=2, processes=True, dashboard_address=None
    )
    with cluster, distributed.Client(cluster) as client:
        for latency in (0.0, 0.2):
            options = {"plan": True, "verify": 0}
            mapped(50, latency, executor=client.get_executor(), **options)  # everything is loaded
            seconds, requests, out = mapped(
                count, latency, executor=client.get_executor(), **options
            )
            here, _, expected = mapped(count, latency, **options)
            print(
                f"{1000 * latency:3.0f} ms, Dask, 2 workers: {count:,} rows, {seconds:.1f} s "
                f"({1000 * seconds / count:.2f} ms a row, {seconds / here:.1f} × without it), "
                f"{requests} requests, same answers: {out['answer'].equals(expected['answer'])}",
                flush=True,
            )


if __name__ == "__main__":
    numbers = [int(each) for each in sys.argv[1:] if each.isdecimal()]
    if "--dask" in sys.argv:
        main_on_dask(*numbers[:1])
    else:
        main(*numbers)
