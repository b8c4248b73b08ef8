"""Threads in the place of processes: a copy is one process, so what was for several is for threads.

Semaphores of `multiprocessing`, which pools of threads use as well, would be files of the system.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import time
from contextlib import suppress
from typing import Any

_RECURSIVE = 0


class Semaphore:
    """The counterpart of `_multiprocessing.SemLock` for threads.

    Attributes:
        kind: 0 for a lock that its owner can take again, 1 for a semaphore.
        maxvalue: The largest value.
        name: None, as for a semaphore that has no file.
        handle: Nothing.
    """

    SEM_VALUE_MAX = 2**31 - 1

    def __init__(self, kind: int, value: int, maxvalue: int, *_: object) -> None:
        self.kind = kind
        self.maxvalue = maxvalue
        self.name = None
        self.handle = 0
        self._value = value
        self._free = threading.Condition()
        self._owner: int | None = None
        self._depth = 0

    def acquire(self, block: bool = True, timeout: float | None = None) -> bool:  # noqa: FBT001, FBT002 - as there
        """Take it, after some seconds at most; whether it was taken."""
        end = None if timeout is None else time.monotonic() + max(0.0, timeout)
        with self._free:
            if self.kind == _RECURSIVE and self._is_mine():
                self._depth += 1
                return True
            while self._value == 0:
                left = None if end is None else end - time.monotonic()
                if not block or (left is not None and left <= 0):
                    return False
                self._free.wait(left)
            self._value -= 1
            self._owner, self._depth = threading.get_ident(), self._depth + 1
            return True

    def release(self) -> None:
        """Give it back."""
        with self._free:
            if self.kind == _RECURSIVE:
                if not self._is_mine():
                    raise AssertionError("attempt to release recursive lock not owned by thread")
                self._depth -= 1
                if self._depth:
                    return
            elif self._value >= self.maxvalue:
                raise ValueError("semaphore or lock released too many times")
            else:
                self._depth -= 1
            self._value += 1
            self._free.notify()

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()

    def _is_mine(self) -> bool:
        return self._depth > 0 and self._owner == threading.get_ident()

    def _count(self) -> int:
        return self._depth

    def _get_value(self) -> int:
        return self._value

    def _is_zero(self) -> bool:
        return self._value == 0


def instead_of_processes() -> None:
    """Let `multiprocessing` lock threads, and joblib start threads."""
    with suppress(ImportError):
        semaphores: Any = importlib.import_module("_multiprocessing")
        semaphores.SemLock = Semaphore
    os.environ["JOBLIB_MULTIPROCESSING"] = "0"
    joblib: Any = sys.modules.get("joblib.parallel")
    with suppress(Exception):
        for name in ("loky", "multiprocessing"):
            joblib.register_parallel_backend(name, joblib.BACKENDS["threading"])
