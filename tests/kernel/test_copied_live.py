"""Copies of a real kernel: however a question or the kernel ends, no process of a copy stays."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from archytas_nb.copies import lock
from tests.live_kernel import Cell, Kernel, live_kernel

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(lock.machine().kind != "locked", reason="this machine cannot lock a copy"),
]

BEGIN = """
%load_ext archytas_nb
import os
from archytas_nb.testing import ScriptedModel
def script(*code):
    return ScriptedModel(*[("python", {"code": each}) for each in code], ("final_answer", "done"))
print(os.getpid())
"""
ENDLESS = "import os, time\nprint('runs in', os.getpid(), flush=True)\nwhile True: time.sleep(0.1)"


def until(holds: Callable[[], bool], seconds: float = 20.0) -> bool:
    """Wait for something; whether it came."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if holds():
            return True
        time.sleep(0.05)
    return False


def processes_of(pid: int) -> set[int]:
    """The processes below a kernel that run its code: copies, and what copies come from."""
    try:
        return {each.pid for each in psutil.Process(pid).children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def are_gone(pids: set[int]) -> bool:
    return not any(
        psutil.pid_exists(pid) and psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
        for pid in pids
    )


def asked(kernel: Kernel, *code: str, **options: object) -> Cell:
    kernel.run(f"model = script(*{list(code)!r})")
    return kernel.run("%agent --model model --python copy go", **options)  # type: ignore[arg-type]


def test_a_question_leaves_no_copy_and_an_interrupt_neither(tmp_path: Path) -> None:
    with live_kernel(tmp_path) as kernel:
        pid = int(kernel.run(BEGIN).printed)
        assert asked(kernel, "x = 1", "x + 1").status == "ok"
        before = processes_of(pid)
        assert asked(kernel, "x = 2").status == "ok"
        interrupted = asked(kernel, ENDLESS, interrupt_after=4.0)
        assert "Interrupted" in str(interrupted.messages) or interrupted.status == "error"
        assert until(lambda: processes_of(pid) <= before)
        # The kernel lives, and so does the next copy.
        assert kernel.run("1 + 1").result == "2"
        assert asked(kernel, "x = 3").status == "ok"


@pytest.mark.parametrize("how", ["kill", "restart"])
def test_the_end_of_the_kernel_ends_its_copies(how: str, tmp_path: Path) -> None:
    with live_kernel(tmp_path) as kernel:
        pid = int(kernel.run(BEGIN).printed)
        asked(kernel, "x = 1")  # a prepared process may start by this
        kernel.run(f"model = script({ENDLESS!r})")
        kernel.client.execute("%agent --model model --python copy go")
        started = processes_of(pid)
        assert until(lambda: bool(processes_of(pid) - started))
        time.sleep(0.5)
        children = processes_of(pid)
        assert children
        if how == "kill":
            os.kill(pid, signal.SIGKILL)
        else:
            kernel.manager.restart_kernel(now=True)
        assert until(lambda: are_gone(children))
