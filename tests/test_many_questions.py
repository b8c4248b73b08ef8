"""A thousand questions in one kernel, to an endpoint that fails at random: only what it keeps of them grows.

`ARCHYTAS_QUESTIONS` says how many, `ARCHYTAS_SEED` with which seed.
"""

from __future__ import annotations

import os
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.live_kernel import Kernel, live_kernel
from tests.servers.plays import HTML, Drop, Events, Play, Raw, Say, Status
from tests.servers.server import Server

QUESTIONS = int(os.environ.get("ARCHYTAS_QUESTIONS", "1000"))
SEED = int(os.environ.get("ARCHYTAS_SEED", "1"))
CELL = '''
%load_ext archytas_nb
from archytas_nb import tool
numbers = list(range(1_000))

@tool
def double(number: int) -> int:
    """Double a number."""
    numbers.append(number)
    print(number)
    return 2 * number

@tool
def fails() -> str:
    """Fail."""
    raise ValueError("it fails")

%config ArchytasNB.max_retries = 1
%config ArchytasNB.undo = True
'''


def plays(draw: random.Random) -> list[Play]:
    """The endpoint's replies to the requests of one question, at most."""
    faults: list[Play] = [
        Status(500), Status(503, headers={"Retry-After": "0"}), Status(429, headers={"Retry-After": "0"}), Drop(), HTML,
        Raw("{", 200, "application/json"), Raw("", 200, "application/json"), Raw("null", 200, "application/json"),
        Events(()), Events(("data: {",)), Events(('data: {"choices": []}', "data: [DONE]")), Say("cut off", cut=1),
        Say(calls=(("double", "not json"),)), Say(calls=(("no_such", {}),)), Say(calls=(("fails", {}),)),
    ]  # fmt: skip
    made: list[Play] = []
    for _ in range(draw.randrange(3)):
        made.append(Say(calls=(("double", {"number": draw.randrange(100)}),)))
        if draw.random() < 0.3:
            made.append(draw.choice(faults))
    return made


class Random(Server):
    """Forgets what it was asked, so that only the kernel could grow."""

    def answer(self, exchange: Any) -> None:
        super().answer(exchange)
        del self.asked[:-10]


def counts(kernel: Kernel) -> tuple[int, int, float, int]:
    """Files, threads, megabytes of memory, and questions that are kept."""
    kept = "len(get_ipython().magics_manager.registry['ArchytasNB'].history.asked)"
    pid, asked = eval(kernel.run(f"import os, gc; _ = gc.collect(); os.getpid(), {kept}").result)
    process = psutil.Process(pid)
    return process.num_fds(), process.num_threads(), process.memory_info().rss / 1e6, asked


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="counts files in /proc")
def test_a_thousand_questions_with_faults_leave_nothing_behind(tmp_path: Path) -> None:
    draw = random.Random(SEED)
    ended: Counter[str] = Counter()
    with (
        Random(strict=False) as endpoint,
        live_kernel(
            tmp_path,
            OPENAI_BASE_URL=endpoint.url,
            OPENAI_API_KEY="none",
            ARCHYTAS_NB_MODEL="tiny-1",
            ARCHYTAS_NB_DISCOVER="0",
        ) as kernel,
    ):
        cell = kernel.run(CELL)
        assert cell.status == "ok", cell.error

        def ask(many: int) -> None:
            for number in range(many):
                endpoint.plays[:] = plays(draw)
                cell = kernel.run(f"%agent Question {number}: what is it?", wait=120)
                ended[cell.status] += 1
                if number % 50 == 49:
                    kernel.run("%agent --new\nnumbers[:] = range(1_000)")

        ask(max(100, QUESTIONS // 5))  # until what is kept is as much as is ever kept
        before = counts(kernel)
        ask(QUESTIONS)
        after = counts(kernel)
    print(f"\n{dict(ended)}\nfiles, threads, MB, questions kept: before {before}, after {after}")
    assert ended["ok"] > QUESTIONS / 2
    assert after[0] <= before[0] + 2
    assert after[1] <= before[1] + 2
    assert after[2] <= before[2] + 50 + 0.15 * QUESTIONS  # a notebook keeps its questions
    assert after[3] <= 50
