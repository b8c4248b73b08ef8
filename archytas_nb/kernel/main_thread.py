"""Runs work of other threads on the main thread of a kernel, between cells."""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from functools import partial
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_LEAST = 0.001
_MOST = 0.05
"""Seconds between two pieces of work, as long as the first has taken: what a front end has sent
passes through several threads and turns of the loop before its cell runs."""
_LATER = 0.2
"""Seconds until something is shown, so that a program that calls often does not wait for it."""


class MainThread:
    """The main thread of a kernel, where work of other threads runs between cells.

    It belongs to the cell in which it was made: what the work displays appears there. Of the work
    that waits, one piece runs at a time, and then cells may run, so that none waits for all of it.

    Args:
        is_busy: Whether a cell runs that waits in its middle, as ``await`` does: work waits for
            its end.

    Raises:
        RuntimeError: No event loop is running, as in IPython without a kernel.
    """

    def __init__(self, is_busy: Callable[[], bool] = lambda: False) -> None:
        self._is_busy = is_busy
        self._submitted: SimpleQueue[Callable[[], None]] = SimpleQueue()
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._running: Future[Any] | None = None
        self._waiting: deque[Callable[[], None]] = deque()
        self._later: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._lock = threading.Lock()
        self._thread = threading.get_ident()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run something as soon as no cell is running; until then the future can be cancelled."""
        future: Future[T] = Future()
        context = self._context.copy()
        self._submitted.put(partial(context.run, self._run, future, work))
        self._loop.call_soon_threadsafe(self._add)
        return future

    def work_until(self, done: Future[Any]) -> None:
        """Run what was submitted in this cell, on the main thread, until a future is done."""
        waiting = [*self._waiting]
        for work in waiting:
            # Its entry in the queue of the loop then does nothing.
            work()
        while not done.done():
            try:
                work = self._submitted.get(timeout=_MOST)
            except Empty:
                continue
            work()

    def _add(self) -> None:
        try:
            self._waiting.append(self._submitted.get_nowait())
        except Empty:  # a cell that waits has run it
            return
        if len(self._waiting) == 1:
            self._loop.call_soon(self._next)

    def _next(self) -> None:
        if self._is_busy():
            self._loop.call_later(_MOST, self._next)
            return
        work = self._waiting[0]
        begun = time.monotonic()
        try:
            work()
        finally:
            self._waiting.popleft()
            if self._waiting:
                took = time.monotonic() - begun
                self._loop.call_later(min(max(took, _LEAST), _MOST), self._next)

    def later(self, work: Callable[[], None]) -> None:
        """Run something a moment later, once for several calls; for work on the main thread."""
        if work in self._later:
            self._later[work].cancel()
        context = self._context.copy()
        self._later[work] = self._loop.call_later(_LATER, work, context=context)

    def interrupt(self, future: Future[Any]) -> None:
        """Interrupt the work of a future, and nothing else; if it is not running, do nothing."""
        with self._lock:
            if self._running is not future:
                return
            if hasattr(signal, "pthread_kill"):  # it also ends a call of the system, such as sleep
                signal.pthread_kill(self._thread, signal.SIGINT)
            else:
                _thread.interrupt_main()

    def _run(self, future: Future[T], work: Callable[[], T]) -> None:
        if future.done() or not future.set_running_or_notify_cancel():
            return
        # A kernel ignores interrupts while no cell runs.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        results: list[T] = []
        error: BaseException | None = None
        try:
            try:
                with self._lock:
                    self._running = future
                results.append(work())
            finally:
                # After this no interrupt is sent, and one that was sent is raised before the end.
                with self._lock:
                    self._running = None
        except BaseException as raised:  # noqa: BLE001 - it belongs to whoever waits
            error = raised
        finally:
            signal.signal(signal.SIGINT, before)
        if results:
            future.set_result(results[0])
        else:
            future.set_exception(error)
