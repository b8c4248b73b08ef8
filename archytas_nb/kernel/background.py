"""Runs ``async def`` tools concurrently on a private event loop in a background thread.

The kernel's own loop is busy with the cell, so a coroutine cannot be awaited there. An interrupt or
a time limit cancels the calls and waits for them to end. If a call blocks the loop and does not
end, its outcome says that it is still running, and the next call gets another loop.
"""

from __future__ import annotations

import asyncio
import math
import os
import threading
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

from archytas_nb.errors import ToolTimeout
from archytas_nb.kernel.interrupts import CallEnd, TimeLimit

_CANCEL_SECONDS = 2.0  # how long a cancelled coroutine may take to clean up
_POLL = 0.05  # seconds between two checks for an interrupt

Job: TypeAlias = tuple[Callable[[], Awaitable[Any]], TimeLimit | None]
"""A function that returns the awaitable, and its time limit. It has a context of its own."""


def run_jobs(jobs: Sequence[Job], interrupted: Callable[[], bool]) -> list[CallEnd]:
    """Run jobs concurrently and return how each ended, in order.

    All are cancelled when ``interrupted``, which is called repeatedly, returns true.
    """
    loop = _private_loop()
    started = time.perf_counter()
    all_ended = threading.Event()
    stopped = threading.Event()
    tasks: list[asyncio.Task[CallEnd]] = []

    def begin() -> None:
        tasks.extend(loop.create_task(_ended(*job, stopped)) for job in jobs)
        for task in tasks:
            task.add_done_callback(one_ended)

    def one_ended(_: object) -> None:
        if all(task.done() for task in tasks):
            all_ended.set()

    def cancel() -> None:
        for task in tasks:
            task.cancel()

    # This copies the context, in which the kernel keeps the cell that output belongs to.
    loop.call_soon_threadsafe(begin)
    longest = max(map(_seconds_of, jobs))
    while not all_ended.wait(_POLL):
        late = time.perf_counter() - started > longest + _CANCEL_SECONDS
        if interrupted() or late:
            stopped.set()
            loop.call_soon_threadsafe(cancel)
            if not all_ended.wait(0 if late else _CANCEL_SECONDS):
                _abandon(loop)
            break

    return _ends_of(tasks, jobs, time.perf_counter() - started)


def _ends_of(
    tasks: Sequence[asyncio.Task[CallEnd]], jobs: Sequence[Job], seconds: float
) -> list[CallEnd]:
    if not tasks:  # the loop was blocked, so that none began
        return [_end_of(None, limit, seconds) for _, limit in jobs]
    return [_end_of(task, limit, seconds) for task, (_, limit) in zip(tasks, jobs, strict=True)]


def _end_of(task: asyncio.Task[CallEnd] | None, limit: TimeLimit | None, seconds: float) -> CallEnd:
    if task is not None and task.done():
        # A task that is cancelled before it is scheduled has not begun.
        if task.cancelled():
            return CallEnd("interrupted", begun=False)
        return task.result()
    if limit is not None and seconds > limit.seconds:
        text = f"told to stop after {limit}, it has not ended: it is still running"
        return CallEnd("error", error=ToolTimeout(text), seconds=seconds)
    return CallEnd("interrupted", seconds=seconds, running=True)


def _seconds_of(job: Job) -> float:
    """How long a job may take."""
    _, limit = job
    if limit is None:
        return math.inf
    return limit.seconds


async def _ended(
    start: Callable[[], Awaitable[Any]], limit: TimeLimit | None, stopped: threading.Event
) -> CallEnd:
    if stopped.is_set():  # another job blocked the loop until now
        return CallEnd("interrupted", begun=False)
    begun = time.perf_counter()
    try:
        ended = CallEnd("done", await _run(start, limit))
    except BaseException as error:  # noqa: BLE001 - it must not end the loop
        ended = CallEnd("error", error=error)
        if isinstance(error, asyncio.CancelledError) and stopped.is_set():
            ended = CallEnd("interrupted")
    return replace(ended, seconds=time.perf_counter() - begun)


async def _run(start: Callable[[], Awaitable[Any]], limit: TimeLimit | None) -> Any:
    seconds = None
    if limit is not None:
        seconds = limit.seconds
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            value = await start()
    except TimeoutError as error:
        if not timeout.expired():
            raise
        late = ToolTimeout(f"stopped after {limit}")
        raise late.with_traceback(error.__traceback__) from None
    if timeout.expired():
        raise ToolTimeout(f"told to stop after {limit}, it went on to its end")
    return value


# ── the loop ──────────────────────────────────────────────────────────────────────────────────────

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _private_loop() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603 - one loop for the process
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            name = "archytas_nb-async"
            threading.Thread(target=_serve, args=(_loop,), name=name, daemon=True).start()
        return _loop


def _abandon(loop: asyncio.AbstractEventLoop) -> None:
    """Use another loop from now on, because a tool blocks this one."""
    global _loop  # noqa: PLW0603
    with _lock:
        if _loop is loop:
            _loop = None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    while not loop.is_closed():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # raised in a task that a tool left behind
            continue


def _reset() -> None:
    """Start over in a forked child: there is no thread for the loop, and the lock may be held."""
    global _lock, _loop  # noqa: PLW0603
    _lock = threading.Lock()
    _loop = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
