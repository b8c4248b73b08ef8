"""Rules for a forked process, and what its parent sees of it, on Linux."""

from __future__ import annotations

import ctypes
import importlib
import os
import platform
import signal
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]

MOST_THREADS = 2000
"""Threads that a copy may have: the system has numbers for some tens of thousands."""

_TICK = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100
_SLEEPS = {"x86_64": {"35", "230"}, "aarch64": {"101", "115"}}
"""The numbers of nanosleep and clock_nanosleep."""


def end_with_parent(parent: int, life: int | None, *, is_main_thread: bool) -> None:
    """Make the system end this process when its parent ends, however that comes about.

    Args:
        parent: The process id of the kernel.
        life: The reading end of a pipe into which the kernel writes nothing; None to look for the
            kernel now and then, where the system does not tell.
        is_main_thread: Whether the main thread of the process that forked this one did it.
    """
    if life is None or sys.platform != "linux":
        threading.Thread(target=_look_for, args=(parent,), daemon=True).start()
        return
    import fcntl

    # The pipe is closed at the end of the kernel; then the system sends SIGKILL.
    fcntl.fcntl(life, fcntl.F_SETOWN, os.getpid())
    fcntl.fcntl(life, 10, signal.SIGKILL)  # F_SETSIG
    fcntl.fcntl(life, fcntl.F_SETFL, fcntl.fcntl(life, fcntl.F_GETFL) | os.O_ASYNC)
    if is_main_thread:
        # The second way holds if the program closes the pipe. It is about the thread that forked.
        ctypes.CDLL(None).prctl(1, signal.SIGKILL, 0, 0, 0)
    if not _is_there(parent):
        os._exit(1)


def _is_there(pid: int) -> bool:
    return bool(psutil.pid_exists(pid))


def _look_for(pid: int) -> None:
    while _is_there(pid):
        time.sleep(1)
    os._exit(1)


def has_foreign_threads() -> bool:
    """Whether native code has started threads here that compute.

    They may be a pool that does not survive a fork. OpenBLAS, whose pool does, is not counted where
    threadpoolctl is installed, which tells it apart.
    """
    own = {thread.native_id for thread in threading.enumerate()}
    found = 0
    with suppress(OSError):
        for task in Path("/proc/self/task").iterdir():
            if int(task.name) not in own and not _keeps_house(task):
                found += 1
    return found > _blas_threads()


def _keeps_house(task: Path) -> bool:
    """Whether it is a thread of Jupyter's sockets or of an allocator, which survive a fork."""
    with suppress(OSError):
        return (task / "comm").read_text().startswith(("ZMQbg", "jemalloc_bg"))
    return True


def _blas_threads() -> int:
    try:
        pools = importlib.import_module("threadpoolctl").threadpool_info()
    except Exception:  # noqa: BLE001 - a library that it asks may not answer
        return 0
    return sum(int(p["num_threads"]) - 1 for p in pools if p.get("internal_api") == "openblas")


def bound(memory: int, file: int) -> None:
    """Bound what this process may use, and make the system choose it if memory runs out.

    Args:
        memory: Bytes of memory in addition to those that it has.
        file: Bytes of a file.
    """
    with suppress(OSError):
        Path("/proc/self/oom_score_adj").write_text("1000")
    with suppress(OSError):
        # A core dump would hold the memory of the parent.
        Path("/proc/self/coredump_filter").write_text("0")
    with suppress(ImportError, OSError, ValueError):
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        resource.setrlimit(resource.RLIMIT_FSIZE, (file, file))
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        # The descriptors of the kernel stay in use; each new one may hold memory of the system.
        last = max((int(each.name) for each in Path("/proc/self/fd").iterdir()), default=0)
        resource.setrlimit(resource.RLIMIT_NOFILE, (last + 1000, last + 1000))
        page = os.sysconf("SC_PAGE_SIZE")
        data = int(Path("/proc/self/statm").read_text().split()[5]) * page
        resource.setrlimit(resource.RLIMIT_DATA, (data + memory, data + memory))


def threads(pid: int) -> int:
    """How many threads a process has; 0 if it is gone."""
    with suppress(OSError, ValueError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[17])
    return 0


def private_bytes(pid: int) -> int:
    """How much memory a process has for itself; 0 if it is gone."""
    if sys.platform != "linux":
        return _resident_bytes(pid)
    with suppress(OSError, ValueError):
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        found = [line.split()[1] for line in lines if line.startswith(("Private_", "Swap:"))]
        return sum(map(int, found)) * 1024
    return 0


def _resident_bytes(pid: int) -> int:
    try:
        return int(psutil.Process(pid).memory_info().rss)
    except psutil.Error:
        return 0


class Quiet:
    """How long a process has neither computed nor waited for a time that it named.

    Attributes:
        since: The time at which it was last seen to be busy.
    """

    def __init__(self, pid: int, now: float) -> None:
        self._pid = pid
        self._used = -1.0
        self.since = now

    def look(self, now: float) -> float:
        """For how many seconds it has been quiet."""
        used, is_busy = self._state()
        if is_busy or used != self._used:
            self.since = now
        self._used = used
        return now - self.since

    def restart(self, now: float) -> None:
        """Take it for busy until now."""
        self.since = now

    def _state(self) -> tuple[float, bool]:
        """Its processor time in seconds, and whether a thread runs, reads a disk or sleeps."""
        is_busy = False
        used = 0.0
        try:
            for task in Path(f"/proc/{self._pid}/task").iterdir():
                state, *numbers = (task / "stat").read_text().rpartition(")")[2].split()
                used += (int(numbers[10]) + int(numbers[11])) / _TICK
                is_busy |= state in "RD" or self._sleeps(task)
        except (OSError, ValueError, IndexError):
            return used, True
        return used, is_busy

    @staticmethod
    def _sleeps(task: Path) -> bool:
        with suppress(OSError, IndexError):
            call = (task / "syscall").read_text().split()[0]
            return call in _SLEEPS.get(platform.machine(), ())
        return False
