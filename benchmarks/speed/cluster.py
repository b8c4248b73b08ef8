"""`Agent.map` on a Dask cluster of four worker processes: how fast it is, and what it keeps when processes are killed.

``python -m benchmarks.speed.cluster [ROWS]`` prints the rates of one process and of the cluster with as many requests
in flight at 50 ms latency, and the memory of a worker. ``python -m benchmarks.speed.cluster kills [KILLS ROWS]`` kills
-9 workers, the scheduler and the client at random, one at a time, and counts what became of the rows and how often a
tool with side effects was called for each. All processes run on this machine.
"""

from __future__ import annotations

import collections
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from archytas_nb import Agent, ConfigurationError, OpenAIModel, Tool
from archytas_nb.loop.events import AskModel, ModelReply, Usage, WireCall
from benchmarks.speed.map import Label, served

PROCESSES = 4
THREADS = 16
LATENCY = 50  # ms


def cluster() -> None:
    """Serve a cluster until the process is killed; prints its address, then the workers' processes."""
    from distributed import LocalCluster

    warnings.simplefilter("ignore")
    with tempfile.TemporaryDirectory() as folder:
        found = LocalCluster(
            n_workers=PROCESSES, threads_per_worker=THREADS, dashboard_address=None, local_directory=folder,
            silence_logs=50,
        )  # fmt: skip
        print(found.scheduler_address, flush=True)
        while True:
            time.sleep(1)


@contextlib.contextmanager
def running_cluster() -> Iterator[tuple[subprocess.Popen[str], str]]:
    command = [sys.executable, "-m", "benchmarks.speed.cluster", "cluster"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
    ) as process:
        assert process.stdout is not None
        try:
            yield process, process.stdout.readline().strip()
        finally:
            end(process)


def end(process: subprocess.Popen[str]) -> None:
    """Kill a cluster: its scheduler, and its workers, which are its children."""
    import psutil

    with contextlib.suppress(psutil.NoSuchProcess):
        children = psutil.Process(process.pid).children(recursive=True)
        process.kill()
        for each in children:
            with contextlib.suppress(psutil.NoSuchProcess):
                each.kill()


# ── speed ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


def speed(rows: int = 10_000) -> None:
    import psutil
    from distributed import Client

    in_flight = PROCESSES * THREADS
    with served() as root, running_cluster() as (_, address), Client(address) as client:
        agent = Agent(
            [],
            model=OpenAIModel("tiny-1", base_url=f"{root}/{LATENCY}/v1", api_key="k", stream=False),
        )

        def asked(number: int, executor: Any = None) -> float:
            texts = [f"row {each} {time.monotonic()}" for each in range(number)]
            started = time.perf_counter()
            with tempfile.TemporaryDirectory() as folder:
                out = agent.map(
                    texts, "Label it.", output_type=Label, workers=in_flight, store=f"{folder}/map.sqlite", progress=False,
                    executor=executor,
                )  # fmt: skip
            assert {each["status"] for each in out} == {"done"}, out[0]
            return time.perf_counter() - started

        def memory(dask_worker: Any) -> float:
            return psutil.Process().memory_info().rss / 1e6

        asked(200, client.get_executor())  # every process has read what it needs
        before = client.run(memory)
        there = asked(rows, client.get_executor())
        after = client.run(memory)
        here = asked(rows)
        grown = [after[each] - before[each] for each in before if each in after]
        print(
            f"{rows:,} rows, {LATENCY} ms, {in_flight} in flight, {os.cpu_count()} cores: one process {rows / here:.0f} "
            f"rows/s, {PROCESSES} workers {rows / there:.0f} rows/s, ratio {here / there:.2f}; a worker has "
            f"{max(after.values()):.0f} MB, {max(grown) * 1000 / rows:.2f} kB more for each row of the map"
        )


# ── kills ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


class Model:
    """Calls every tool in turn, then answers with what they gave."""

    name, protocol, price, is_scripted = "scripted", "native", None, True

    def complete(self, ask: AskModel) -> Iterator[Any]:
        yield from ()
        time.sleep(0.01)
        results = [str(each["content"]) for each in ask.messages if each["role"] == "tool"]
        names = [
            name for each in ask.tools if (name := each["function"]["name"]) in ("look", "pay")
        ]
        question = next(str(each["content"]) for each in ask.messages if each["role"] == "user")
        if len(results) < len(names):
            arguments = json.dumps({"number": int(question.split()[-1])})
            return ModelReply(
                "",
                (WireCall(names[len(results)], arguments),),
                finish="tool_calls",
                usage=Usage(1, 10),
            )
        return ModelReply(" ".join(results), usage=Usage(1, 10))


def client(address: str, store: str, log: str, rows: str, kind: str, retry: str = "") -> None:
    """Map on a cluster; prints how many rows have each status, and how many answers are wrong."""
    from distributed import Client

    warnings.simplefilter("ignore")

    def look(number: int) -> int:
        """Look something up.

        Args:
            number: The row
        """
        with Path(log + ".looks").open("a") as file:
            file.write(f"{number}\n")
        return number + 1_000_000

    def pay(number: int) -> str:
        """Pay.

        Args:
            number: The row
        """
        with Path(log).open("a") as file:
            file.write(f"{number}\n")
        time.sleep(0.005)
        return f"paid {number}"

    tools = [Tool.from_function(look, pure=True)]
    if kind == "pays":
        tools.append(Tool.from_function(pay))
    with Client(address, timeout="20s") as found:
        agent = Agent(tools, model=Model())
        try:
            out = agent.map(
                [f"row {each}" for each in range(int(rows))], "Go.", workers=16, store=store, progress=False,
                executor=found.get_executor(), retry=bool(retry),
            )  # fmt: skip
        except ConfigurationError as error:
            print(json.dumps({"error": str(error)}), flush=True)
            os._exit(0)
    counts = collections.Counter(each["status"] for each in out)
    wrong = sum(
        each["status"] == "done" and str(each["answer"]).split()[0] != str(number + 1_000_000)
        for number, each in enumerate(out)
    )
    print(json.dumps({"statuses": counts, "wrong": wrong}), flush=True)
    os._exit(0)


def kills(number: str = "30", rows: str = "3000", kind: str = "pays") -> None:
    import psutil

    chance = random.Random(int(number))
    victims = (["worker", "scheduler", "client"] * int(number))[: int(number)]
    chance.shuffle(victims)
    done: list[str] = []
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as stack:
        store, log = f"{folder}/map.sqlite", f"{folder}/log"
        counted = Path(log if kind == "pays" else log + ".looks")
        process, address = stack.enter_context(running_cluster())

        def begin(retry: str = "") -> subprocess.Popen[str]:
            command = [
                sys.executable,
                "-m",
                "benchmarks.speed.cluster",
                "client",
                address,
                store,
                log,
                rows,
                kind,
                retry,
            ]
            return subprocess.Popen(
                command, stdout=subprocess.PIPE, text=True, stderr=subprocess.DEVNULL
            )

        def length() -> int:
            return counted.read_text().count("\n") if counted.exists() else 0

        mapping = begin()
        for at, victim in enumerate(victims):
            while length() < int(rows) * (at + chance.random()) / (len(victims) + 1):
                if mapping.poll() is not None:
                    mapping = begin()
                time.sleep(0.01)
            if victim == "client":
                mapping.kill()
                mapping.communicate()
            elif victim == "scheduler":
                os.kill(process.pid, signal.SIGKILL)
                said = mapping.communicate(timeout=120)[0].strip()
                done.append(said[:200])
                end(process)
                process, address = stack.enter_context(running_cluster())
            else:
                workers = [
                    each for each in psutil.Process(process.pid).children(recursive=True)
                    if "spawn_main" in " ".join(each.cmdline())
                ]  # fmt: skip
                chance.choice(workers).kill()
                continue
            mapping = begin()
        said = mapping.communicate(timeout=600)[0].strip()
        while "error" in said or not said:
            said = begin().communicate(timeout=600)[0].strip()
        paid = collections.Counter(Path(log).read_text().split()) if kind == "pays" else {}
        print(f"{kind}, {number} kills ({collections.Counter(victims)}): {said}")
        print(
            f"  rows paid for more than once before anybody asked for it: {sum(each > 1 for each in paid.values())}"
        )
        looks = collections.Counter(Path(log + ".looks").read_text().split())
        print(f"  rows looked up more than once (pure): {sum(each > 1 for each in looks.values())}")
        said = begin("retry").communicate(timeout=600)[0].strip()
        print(f"  with retry=True: {said}")
        for each in dict.fromkeys(done):
            print(f"  after the scheduler was killed, the client said: {each}")


if __name__ == "__main__":
    works = {"cluster": cluster, "client": client, "kills": kills}
    if sys.argv[1:] and sys.argv[1] in works:
        works[sys.argv[1]](*sys.argv[2:])  # type: ignore[operator]
    else:
        speed(*map(int, sys.argv[1:]))
