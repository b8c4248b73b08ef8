"""Rows per second of `Agent.map` beside a bare openai client in a thread pool, and beside chatlas, in one run.

``python -m benchmarks.speed.map [PYTHON]`` prints the rates at no latency and at 200 ms for 1, 8 and 32 workers, the
memory of a row and the exponent with which the time grows over rows. PYTHON is that of an environment with chatlas.
The server is a process of its own. The map keeps its results in a file, which the others do not.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import math
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import openai

from archytas_nb import Agent, OpenAIModel

WORKERS = (1, 8, 32)
ROUNDS = 5
PROMPT = "Label it."


@dataclass
class Label:
    label: str
    number: int


_BODY = json.dumps({
    "id": "c", "object": "chat.completion", "created": 0, "model": "tiny-1",
    "choices": [{"index": 0, "finish_reason": "stop", "message": {
        "role": "assistant", "content": '{"label": "even", "number": 2}'}}],
    "usage": {"prompt_tokens": 50, "completion_tokens": 10, "total_tokens": 60},
}).encode()  # fmt: skip
_REPLY = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s"


async def _serve() -> None:
    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).lower()
                await reader.readexactly(int(re.search(rb"content-length: (\d+)", head)[1]))  # type: ignore[index]
                await asyncio.sleep(int(re.match(rb"post /(\d+)/", head)[1]) / 1000)  # type: ignore[index]
                writer.write(_REPLY % (len(_BODY), _BODY))

    server = await asyncio.start_server(answer, "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def served() -> Iterator[str]:
    """The server's URL, to which the latency in milliseconds is added."""
    command = [sys.executable, "-m", "benchmarks.speed.map", "serve"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        try:
            yield f"http://127.0.0.1:{process.stdout.readline().strip()}"
        finally:
            process.kill()


def ours(url: str, rows: list[str], workers: int) -> None:
    agent = Agent([], model=OpenAIModel("tiny-1", base_url=url, api_key="k", stream=False))
    with tempfile.TemporaryDirectory() as folder:
        store = f"{folder}/map.sqlite"
        out = agent.map(
            rows, PROMPT, output_type=Label, workers=workers, store=store, progress=False
        )
    assert all(each["status"] == "done" for each in out), out[0]


def bare(url: str, rows: list[str], workers: int) -> None:
    client = openai.OpenAI(base_url=url, api_key="k")

    def ask(row: str) -> Label:
        reply = client.chat.completions.create(
            model="tiny-1", messages=[{"role": "user", "content": f"{PROMPT}\n\n{row}"}]
        )
        return Label(**json.loads(reply.choices[0].message.content or ""))

    with ThreadPoolExecutor(workers) as pool:
        assert len(list(pool.map(ask, rows))) == len(rows)
    client.close()


def seconds(
    work: Callable[[str, list[str], int], None], url: str, rows: int, workers: int
) -> float:
    texts = [f"row {n} {time.monotonic()}" for n in range(rows)]
    started = time.perf_counter()
    work(url, texts, workers)
    return time.perf_counter() - started


@contextlib.contextmanager
def peer(python: str) -> Iterator[Callable[[str, int, int], float]]:
    """chatlas, in an environment of its own: seconds for so many rows and workers."""
    command = [python, str(Path(__file__).with_name("peer_map.py"))]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None

        def asked(url: str, rows: int, workers: int) -> float:
            print(url, rows, workers, file=process.stdin, flush=True)
            lines = iter(process.stdout.readline, "")  # type: ignore[union-attr]
            return float(next(line for line in lines if line.startswith("took")).split()[1])

        try:
            yield asked
        finally:
            process.kill()


def main(*python: str) -> None:
    with served() as root, contextlib.ExitStack() as stack:
        contenders: dict[str, Callable[[str, int, int], float]] = {
            "map": partial(seconds, ours), "bare": partial(seconds, bare),
        }  # fmt: skip
        if python:
            contenders["chatlas"] = stack.enter_context(peer(python[0]))
        for latency in (0, 200):
            url = f"{root}/{latency}/v1"
            for workers in WORKERS:
                rows = 400 if latency == 0 else max(10, 12 * workers)
                rates: dict[str, list[float]] = {name: [] for name in contenders}
                for number in range(ROUNDS + 1):
                    for name, asked in contenders.items():
                        took = asked(url, rows if number else 10, workers)
                        rates[name] += [rows / took] if number else []
                found = {name: statistics.median(each) for name, each in rates.items()}
                # Of rounds next to each other: another process may have slowed down some of them.
                ratio = statistics.median(
                    a / b for a, b in zip(rates["map"], rates["bare"], strict=True)
                )
                shown = ", ".join(f"{name} {rate:.1f}" for name, rate in found.items())
                print(
                    f"{latency:4} ms, {workers:2} workers: {shown} rows/s, map/bare {ratio:.2f}",
                    flush=True,
                )
        url = f"{root}/0/v1"
        few = statistics.median(seconds(ours, url, 1000, 8) for _ in range(ROUNDS))
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        many = seconds(ours, url, 10_000, 8)
        grown = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before
        print(
            f"10,000 rows: {many:.1f} s, exponent {math.log10(many / few):.2f}, {grown / 10_000:.2f} kB a row"
        )


if __name__ == "__main__":
    if sys.argv[1:] == ["serve"]:
        with contextlib.suppress(KeyboardInterrupt):
            asyncio.run(_serve())
    else:
        main(*sys.argv[1:])
