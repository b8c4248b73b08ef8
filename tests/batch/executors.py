"""Executors that treat what they are given badly, as if their processes were others than this one.

Each submission is treated as the next word of a plan says, which is repeated; what is given and returned is pickled, as
on the way to another process.
"""

from __future__ import annotations

import itertools
import pickle
import threading
import time
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Executor, Future
from typing import Any

from archytas_nb.batch.worker import is_here

TREATMENTS = (
    "run", "run late", "lose before", "lose after", "repeat, first", "repeat, last", "repeat later", "cancel", "break",
)  # fmt: skip


class WorkerLost(Exception):
    """A process of the executor has ended."""


class Faulty(Executor):
    """An executor that follows a plan; one that takes its place goes on with it."""

    def __init__(self, plan: Any) -> None:
        self._plan = plan if isinstance(plan, itertools.cycle) else itertools.cycle(plan)
        self._lock = threading.Lock()
        self._is_broken = False
        self.stragglers: list[threading.Thread] = []

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        with self._lock:
            if self._is_broken:
                raise BrokenExecutor("the pool is broken")
            if fn is is_here:  # another process has no job
                future.set_result(False)
                return future
            treatment = next(self._plan)
            self._is_broken = treatment == "break"
        sent = pickle.dumps((fn, args))
        self.stragglers = [each for each in self.stragglers if each.is_alive()]
        thread = threading.Thread(target=self._treat, args=(treatment, sent, future), daemon=True)
        self.stragglers.append(thread)
        thread.start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        pass

    def _treat(self, treatment: str, sent: bytes, future: Future[Any]) -> None:
        if treatment == "cancel":
            future.cancel()
            future.set_running_or_notify_cancel()
            return
        if treatment in ("lose before", "break"):
            future.set_exception(WorkerLost("before it began"))
            return
        if treatment == "run late":
            time.sleep(0.03)
        first = _run(sent)
        if treatment == "lose after":
            future.set_exception(WorkerLost("after it had ended"))
            return
        last = first
        if treatment in ("repeat, first", "repeat, last"):
            last = _run(sent)
        future.set_result(first if treatment != "repeat, last" else last)
        if treatment == "repeat later":
            time.sleep(0.05)
            _run(sent)


def _run(sent: bytes) -> Any:
    work, args = pickle.loads(sent)
    return pickle.loads(pickle.dumps(work(*args)))


def ended(executors: Sequence[Faulty]) -> None:
    """Wait for what they still run."""
    for each in executors:
        for thread in each.stragglers:
            thread.join(10)
