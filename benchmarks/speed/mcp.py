"""The cost of a call by another program, and its leftovers: ``python -m benchmarks.speed.mcp``.

A kernel that does nothing else serves a tool, and the official client calls it. ``--check`` fails if
the median is 25 ms or more, or if threads, files or tasks are left after all calls.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re
import statistics
import tempfile
import time
from pathlib import Path

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from tests.live_kernel import Kernel, live_kernel

MAX_MEDIAN = 0.025
_TOOL = '''
%load_ext archytas_nb
import asyncio, json, os, threading, time
from archytas_nb import tool

@tool
def count(word: str) -> int:
    """Count letters."""
    return len(word)
'''
_HELD = """
json.dumps({
    "threads": threading.active_count(),
    "files": len(os.listdir("/proc/self/fd")),
    "tasks": len(asyncio.all_tasks()),
})
"""
_USED = "time.process_time()"


def held(kernel: Kernel) -> dict[str, int]:
    """How many threads, open files and tasks the kernel has."""
    found: dict[str, int] = json.loads(kernel.run(_HELD).result.strip("'"))
    return found


async def seconds_of_calls(url: str, token: str, calls: int) -> list[float]:
    """The seconds of each call, over one connection."""
    headers = {"Authorization": f"Bearer {token}"}
    seconds = []
    async with (
        httpx2.AsyncClient(headers=headers, timeout=60) as http,
        Client(streamable_http_client(url, http_client=http)) as client,
    ):
        for _ in range(calls):
            begun = time.perf_counter()
            result = await client.call_tool("count", {"word": "abc"})
            seconds.append(time.perf_counter() - begun)
            assert not result.is_error
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--calls", type=int, default=1_000)
    parser.add_argument("--check", action="store_true")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        runtime = {"JUPYTER_RUNTIME_DIR": f"{folder}/runtime"}
        with live_kernel(Path(folder), **runtime) as kernel:
            kernel.run(_TOOL)
            loaded = kernel.run("import sys; 'mcp' in sys.modules").result
            said = kernel.run("%agent_mcp serve", wait=120).displayed[0]["text/plain"]
            url = re.findall(r"http://\S+", said)[0]
            token = re.findall(r"Bearer ([\w-]+)", said)[0]
            asyncio.run(seconds_of_calls(url, token, 20))  # warms up
            time.sleep(1)
            before = held(kernel)
            used = -float(kernel.run(_USED).result) - time.process_time()
            seconds = sorted(asyncio.run(seconds_of_calls(url, token, args.calls)))
            used += float(kernel.run(_USED).result) + time.process_time()
            time.sleep(1)
            after = held(kernel)
    median = statistics.median(seconds)
    print(f"{args.calls} calls: median {1000 * median:.1f} ms, worst {1000 * seconds[-1]:.0f} ms")
    print(f"processor, of the kernel and the client: {1000 * used / args.calls:.1f} ms a call")
    print(f"held before: {before}, after: {after}; mcp loaded by %load_ext: {loaded}")
    if args.check:
        grown = {key: after[key] - before[key] for key in before if after[key] > before[key] + 1}
        if median >= MAX_MEDIAN or grown or loaded != "False":
            raise SystemExit(f"too slow, or left behind: {grown}")


if __name__ == "__main__":
    main()
