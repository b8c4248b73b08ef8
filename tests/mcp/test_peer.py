"""A hostile peer against what a kernel serves, what it uses, and its chat: cells run all along, and nothing is left.

`ARCHYTAS_PEER_SECONDS` says for how long, `ARCHYTAS_PEER_SEED` with which seed.
"""

from __future__ import annotations

import json
import os
import re
import statistics
import subprocess
import sys
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest

from tests.live_kernel import Kernel, live_kernel

ROOT = Path(__file__).parents[2]
SECONDS = float(os.environ.get("ARCHYTAS_PEER_SECONDS", "60"))
SEED = int(os.environ.get("ARCHYTAS_PEER_SEED", "1"))
BOUND = 1.0
"""Seconds in which a cell has run, on a machine that does nothing else."""

CELLS = '''
%load_ext archytas_nb
import sys, threading, time
from collections import Counter
from archytas_nb import tool
from archytas_nb.loop.events import ModelReply

numbers = [1, 2, 3]

@tool
def count(word: str, times: int = 1) -> int:
    """Count letters."""
    return len(word) * times

@tool
def long() -> str:
    """Return a long text."""
    return "long " * 200_000

class Quick:
    name = "quick"
    protocol = "native"
    is_scripted = True
    def complete(self, ask):
        yield from ()
        return ModelReply("Hello.")
quick = Quick()
'''
CLIENT = '''
from archytas_nb.errors import ConfigurationError
from archytas_nb.mcp.client import ServerConnection
met = Counter()

def use(target, end):
    """Connect, call and close, again and again."""
    while time.monotonic() < end:
        connection = ServerConnection("bad", target)
        closing = threading.Timer(3, connection.close)
        closing.start()
        try:
            connection.connect(2)
            met["connected"] += 1
            for each in connection.tools[:3]:
                met[each.call({}).status] += 1
        except ConfigurationError:
            met["refused"] += 1
        except BaseException as error:
            met[f"WRONG {type(error).__name__}: {error}"[:300]] += 1
        finally:
            closing.cancel()
            connection.close()
'''


def counts(kernel: Kernel) -> tuple[int, int, float]:
    """Files, threads, and megabytes of memory that are in use: free pieces go back to the system."""
    code = "import ctypes, gc, os; gc.collect(); _ = ctypes.CDLL(None).malloc_trim(0); os.getpid()"
    pid = int(kernel.run(code).result)
    process = psutil.Process(pid)
    return process.num_fds(), process.num_threads(), process.memory_info().rss / 1e6


def settled(kernel: Kernel, before: tuple[int, int, float]) -> tuple[int, int, float]:
    """The counts, as soon as they are as before or do not change any more."""
    now = counts(kernel)
    for _ in range(40):
        if now[0] <= before[0] and now[1] <= before[1]:
            break
        time.sleep(1)
        now = counts(kernel)
    return now


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts files in /proc")
def test_a_hostile_peer_holds_up_no_cell_and_leaves_nothing(tmp_path: Path) -> None:
    runtime = tmp_path / "runtime"
    command = [sys.executable, "-m", "tests.mcp.peer"]
    with ExitStack() as stack:
        kernel = stack.enter_context(
            live_kernel(tmp_path, JUPYTER_RUNTIME_DIR=str(runtime), PYTHONPATH=str(ROOT))
        )
        other = stack.enter_context(live_kernel(tmp_path, JUPYTER_RUNTIME_DIR=str(runtime)))
        for code in (CELLS, CLIENT, "%agent_chat on --model quick"):
            cell = kernel.run(code, wait=120)
            assert cell.status == "ok", cell.error
        said = kernel.run("%agent_mcp serve", wait=120).displayed[0]["text/plain"]
        url = re.search(r":(\d+)/mcp", said)
        assert url
        [file] = runtime.glob("archytas_nb-served-*.json")
        token = json.loads(file.read_text())["token"]
        [file] = runtime.glob("archytas_nb-chat-*.json")
        chat = json.loads(file.read_text())

        def attacked(seconds: float, seed: int) -> tuple[Counter[str], list[tuple[float, float]]]:
            """The peer's acts, and the times of cells here and in a kernel that nobody attacks."""
            with ExitStack() as stack:
                serving = stack.enter_context(
                    subprocess.Popen(
                        [*command, "serve", str(seed)], stdout=subprocess.PIPE, text=True, cwd=ROOT
                    )
                )
                stack.callback(serving.kill)
                assert serving.stdout is not None
                port = serving.stdout.readline().strip()
                kernel.run(f"end = time.monotonic() + {seconds}")
                server = [sys.executable, "-m", "tests.mcp.peer", "stdio", str(seed)]
                for target in (f"http://127.0.0.1:{port}/mcp", server):
                    kernel.run(
                        f"threading.Thread(target=use, args=({target!r}, end), daemon=True).start()"
                    )
                given = [url[1], token, chat["url"].rpartition(":")[2], chat["token"]]
                attack = [*command, "attack", *given, str(seconds), str(seed)]
                attacking = stack.enter_context(
                    subprocess.Popen(attack, stdout=subprocess.PIPE, text=True, cwd=ROOT)
                )
                stack.callback(attacking.kill)
                took = []
                while attacking.poll() is None:
                    begun = time.monotonic()
                    pair = []
                    for each in (kernel, other):
                        cell = each.run("6 * 7", wait=60)
                        assert cell.result == "42"
                        pair.append(cell.seconds)
                    took.append((pair[0], pair[1]))
                    if len(took) % 30 == 0:
                        kernel.run("%agent --new")  # else each question has a longer conversation
                    time.sleep(max(0, 1 - (time.monotonic() - begun)))
                assert attacking.stdout is not None
                return Counter(json.loads(attacking.stdout.read())), took

        attacked(max(5, SECONDS / 10), SEED + 1_000)  # what is made once is made
        kernel.run("%agent --new")
        asked = "get_ipython().magics_manager.registry['ArchytasNB'].history._count"
        questions = -int(kernel.run(asked).result)
        before = counts(kernel)
        done, took = attacked(SECONDS, SEED)
        kernel.run("%agent --new")
        after = settled(kernel, before)
        questions += int(kernel.run(asked).result)
        met = kernel.run("dict(met)").result
        opened = kernel.run(
            "from collections import Counter\n"
            "Counter((each.status, each.laddr[1:]) for each in __import__('psutil').Process().net_connections('inet'))"
        ).result
        answered = "served" in kernel.run("%agent_mcp").result
        still = kernel.run("%agent_chat").result
        kernel.run("%agent_mcp stop")
        kernel.run("%agent_chat off")
        off = settled(kernel, before)

    here = [each for each, _ in took]
    there = [each for _, each in took]
    print(f"\n{SECONDS:g} s, {sum(done.values())} moves: {dict(done)}\nthe client has met {met}")
    for name, seconds in (("attacked", here), ("alone", there)):
        print(
            f"{len(seconds)} cells, {name}: median {statistics.median(seconds):.3f} s, longest {max(seconds):.3f} s"
        )
    print(f"connections after: {opened}")
    print(f"{questions} questions of the chat were answered")
    print(f"files, threads, MB: before {before}, after {after}, not listening {off}")
    assert "WRONG" not in met
    assert answered
    assert still.startswith("this notebook is open")
    # A machine that is busy with other things is known by the kernel that nobody attacks.
    late = [each for each, alone in took if each > BOUND and alone < BOUND / 4]
    assert not late
    assert after[0] <= before[0] + 5
    assert after[1] <= before[1] + 3
    assert after[2] < before[2] + 50 + 0.2 * questions  # a notebook keeps its questions
    assert off[0] <= before[0]
    assert off[1] <= before[1]
