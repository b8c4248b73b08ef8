"""One private event loop on a background thread, for ``async def`` tools.

The kernel's own loop is busy with the cell, so a coroutine cannot be awaited there. Several run at the same time;
an interrupt or a time limit cancels them and waits until they have ended. One that does not end, because it
blocks the loop, is said to be still running, and the next call gets another loop.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import copy_context
from dataclasses import dataclass, replace
from typing import Any, Literal

from archytas_nb.errors import ToolTimeout
from archytas_nb.kernel.signals import Limit

_CANCEL_SECONDS = 2.0
"""How long a cancelled coroutine may take to clean up before we stop waiting for it."""

_LOOK = 0.05
"""How often it is looked whether there was an interrupt."""


@dataclass(frozen=True, slots=True)
class Job:
    """One call to be run on the loop.

    Attributes:
        start: Gives the awaitable, or the value itself.
        limit: How long it may take; None for no limit.
        prepare: Run first, in the job's own context.
    """

    start: Callable[[], Any]
    limit: Limit | None = None
    prepare: Callable[[], Any] = bool


@dataclass(frozen=True, slots=True)
class Ended:
    """How a job ended.

    Attributes:
        how: ``"interrupted"`` where it was cancelled for an interrupt.
        value: What it gave.
        error: What it raised.
        seconds: How long it took.
        running: Whether it has not ended, though it was told to.
        begun: Whether it had begun: an interrupt may come before.
    """

    how: Literal["done", "error", "interrupted"]
    value: Any = None
    error: BaseException | None = None
    seconds: float = 0.0
    running: bool = False
    begun: bool = True


class _Running:
    """The jobs of one `run_jobs`, seen from both threads."""

    def __init__(self, jobs: Sequence[Job]) -> None:
        self.jobs = jobs
        self.ended: dict[int, Ended] = {}
        self.tasks: dict[int, asyncio.Task[Any] | None] = {}
        self.all_ended = threading.Event()
        self.cancelled = False
        self.started = time.perf_counter()

    async def one(self, place: int) -> None:
        self.tasks[place] = asyncio.current_task()
        started = time.perf_counter()
        ended = Ended("interrupted")
        try:
            ended = await self._run(self.jobs[place])
        except BaseException as error:  # noqa: BLE001 - whatever it is, it must not end the loop
            is_ours = isinstance(error, asyncio.CancelledError) and self.cancelled
            ended = Ended("interrupted") if is_ours else Ended("error", error=error)
        finally:
            self.ended[place] = replace(ended, seconds=time.perf_counter() - started)
            if len(self.ended) == len(self.jobs):
                self.all_ended.set()

    async def _run(self, job: Job) -> Ended:
        if self.cancelled:
            return Ended("interrupted", begun=False)
        job.prepare()
        limit = asyncio.timeout(None if job.limit is None else job.limit.seconds)
        try:
            async with limit:
                value = job.start()
                if inspect.isawaitable(value):
                    value = await value
        except TimeoutError as error:
            if not limit.expired():
                raise
            raise ToolTimeout(f"stopped after {job.limit}").with_traceback(
                error.__traceback__
            ) from None
        if limit.expired():
            raise ToolTimeout(f"told to stop after {job.limit}, it went on to its end")
        return Ended("done", value)

    def cancel(self, loop: asyncio.AbstractEventLoop) -> None:
        self.cancelled = True
        loop.call_soon_threadsafe(lambda: [task.cancel() for task in self.tasks.values() if task])


def run_jobs(jobs: Sequence[Job], interrupted: Callable[[], bool]) -> list[Ended]:
    """Run jobs at the same time, each to its end.

    Args:
        jobs: The jobs.
        interrupted: Asked now and then; where it says so all are cancelled.

    Returns:
        How each ended, in their order. One that could not be stopped is marked so.
    """
    loop = _private_loop()
    running = _Running(jobs)
    for place in range(len(jobs)):
        # The context goes along: what the kernel keeps in it says to which cell an output belongs.
        copy_context().run(asyncio.run_coroutine_threadsafe, running.one(place), loop)
    longest = _longest(jobs)
    while not running.all_ended.wait(_LOOK):
        late = (
            longest is not None
            and time.perf_counter() - running.started > longest + _CANCEL_SECONDS
        )
        if interrupted() or late:
            running.cancel(loop)
            if not running.all_ended.wait(0 if late else _CANCEL_SECONDS):
                _abandon(loop)
            break
    return [
        running.ended.get(place) or _still_running(job, running) for place, job in enumerate(jobs)
    ]


def _longest(jobs: Sequence[Job]) -> float | None:
    """The time after which all must have ended; None where one may take for ever."""
    limits = [job.limit.seconds for job in jobs if job.limit is not None]
    return max(limits) if len(limits) == len(jobs) else None


def _still_running(job: Job, running: _Running) -> Ended:
    seconds = time.perf_counter() - running.started
    if job.limit is not None and seconds > job.limit.seconds:
        error = ToolTimeout(
            f"told to stop after {job.limit}, it has not ended: it is still running"
        )
        return Ended("error", error=error, seconds=seconds, running=True)
    return Ended("interrupted", seconds=seconds, running=True)


# ── the loop ──────────────────────────────────────────────────────────────────────────────────────

_lock = threading.Lock()
_loop: asyncio.AbstractEventLoop | None = None


def _private_loop() -> asyncio.AbstractEventLoop:
    global _loop  # noqa: PLW0603 - one loop for the process
    with _lock:
        if _loop is None or _loop.is_closed():
            _loop = asyncio.new_event_loop()
            threading.Thread(
                target=_serve, args=(_loop,), name="archytas_nb-async", daemon=True
            ).start()
        return _loop


def _forget() -> None:
    """In a forked child the loop's thread does not exist, and its lock may be held for ever."""
    global _lock, _loop
    _lock, _loop = threading.Lock(), None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def _abandon(loop: asyncio.AbstractEventLoop) -> None:
    """Leave a loop to the tool that blocks it."""
    global _loop  # noqa: PLW0603
    with _lock:
        if _loop is loop:
            _loop = None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    while not loop.is_closed():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # raised by a task that a tool left behind
            continue
