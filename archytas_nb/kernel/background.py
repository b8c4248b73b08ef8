"""Runs ``async def`` tools concurrently, on the event loop for which they may have to wait.

    who asks                                  the loop                how it runs meanwhile
    `arun`, in a thread (`awaiting_loop`)     the one that awaits it  by itself
    code of a running loop, such as a cell    that one                this thread turns it
    anybody else, or a loop of another make   a private one           in a background thread

An interrupt or a time limit cancels the calls and waits for them to end; on the thread of the
notebook, it is raised in a step that blocks. If a call blocks the private loop and does not end,
its outcome says that it is still running, and the next call gets another loop.
"""

from __future__ import annotations

import asyncio
import contextvars
import gc
import math
import os
import sys
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Generator, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import BuiltinMethodType, FrameType, FunctionType, MethodType, ModuleType
from typing import Any, TypeAlias

from archytas_nb.errors import ToolTimeout
from archytas_nb.interrupts import CallEnd, CallGuard, TimeLimit, guard_calls

_CANCEL_SECONDS = 2.0  # seconds that a cancelled coroutine has to clean up
_POLL = 0.05  # seconds between two checks for an interrupt
_LIBRARY = Path(threading.__file__).parent

Job: TypeAlias = tuple[Callable[[], Awaitable[Any]], TimeLimit | None]
"""A function that returns the awaitable, and its time limit. It has a context of its own."""

awaiting_loop: ContextVar[asyncio.AbstractEventLoop | None] = ContextVar(
    "archytas_nb_awaiting_loop", default=None
)
"""The loop that awaits the work of this thread, and is free meanwhile."""

_ON_ITSELF = (
    "it waits for a task that waits for this call; ask with `await agent.arun(…)`, which lets "
    "other tasks go on, and not inside that task"
)


def run_jobs(jobs: Sequence[Job], interrupted: Callable[[], bool]) -> list[CallEnd]:
    """Run jobs concurrently and return how each ended, in order.

    All are cancelled when ``interrupted``, which is called repeatedly, returns true.
    """
    here = _loop_here()
    running = _Running(here or _free_loop() or _private_loop(), jobs)
    started = time.perf_counter()
    longest = max(map(_seconds_of, jobs))
    with _turning(here) as turned:
        running.begin()
        while not running.wait(_POLL, turned):
            late = time.perf_counter() - started > longest + _CANCEL_SECONDS
            if interrupted() or late:
                running.stop()
                if not running.wait(0 if late else _CANCEL_SECONDS, turned):
                    _abandon(running.loop)
                break
    return _ends_of(running, jobs, time.perf_counter() - started)


class _Running:
    """Jobs that run on a loop.

    stopped   all were cancelled, by an interrupt or at the limit
    stuck     they and this call wait for each other: they fail now, and the tool when it continues
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, jobs: Sequence[Job]) -> None:
        self.loop = loop
        self.tasks: list[asyncio.Task[CallEnd]] = []
        self.stopped = threading.Event()
        self.stuck: set[asyncio.Task[Any]] = set()
        self._jobs = jobs
        self._all_ended = threading.Event()

    def begin(self) -> None:
        """Begin them on the loop."""
        # This copies the context, in which the kernel keeps the cell that output belongs to.
        self.loop.call_soon_threadsafe(self._begin)

    def _begin(self) -> None:
        self.tasks += [self.loop.create_task(_ended(*job, self)) for job in self._jobs]
        for task in self.tasks:
            task.add_done_callback(self._one_ended)

    def _one_ended(self, _: object) -> None:
        if all(task.done() for task in self.tasks):
            self._all_ended.set()

    def wait(self, seconds: float, turned: _Turned | None) -> bool:
        """Wait until all have ended, at most so long; returns whether they have."""
        if turned is None:
            return self._all_ended.wait(seconds)
        turned.run(self._all_ended.is_set, seconds)
        # A cancellation would reach the task that is waited for, which may be the cell's.
        self.stuck = {task for task in self.tasks if turned.is_awaited_by(task)}
        return bool(self.tasks) and all(task.done() or task in self.stuck for task in self.tasks)

    def stop(self) -> None:
        """Cancel them."""
        self.stopped.set()
        self.loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        for task in self.tasks:
            task.cancel()


def _ends_of(running: _Running, jobs: Sequence[Job], seconds: float) -> list[CallEnd]:
    if not running.tasks:  # the loop was blocked, so that none began
        return [_end_of(None, limit, seconds) for _, limit in jobs]
    ends = []
    for task, (_, limit) in zip(running.tasks, jobs, strict=True):
        if task in running.stuck:
            ends.append(CallEnd("error", error=RuntimeError(_ON_ITSELF), seconds=seconds))
        else:
            ends.append(_end_of(task, limit, seconds))
    return ends


def _end_of(task: asyncio.Task[CallEnd] | None, limit: TimeLimit | None, seconds: float) -> CallEnd:
    if task is not None and task.done():
        # A task that is cancelled before it is scheduled has not begun.
        if task.cancelled():
            return CallEnd("interrupted", begun=False)
        return task.result()
    if limit is not None and seconds > limit.seconds:
        text = f"ignored the limit of {limit}, and is still running"
        return CallEnd("error", error=ToolTimeout(text), seconds=seconds)
    return CallEnd("interrupted", seconds=seconds, running=True)


def _seconds_of(job: Job) -> float:
    """How long a job may take."""
    _, limit = job
    return _seconds_of_limit(limit)


def _seconds_of_limit(limit: TimeLimit | None) -> float:
    if limit is None:
        return math.inf
    return limit.seconds


async def _ended(
    start: Callable[[], Awaitable[Any]], limit: TimeLimit | None, running: _Running
) -> CallEnd:
    if running.stopped.is_set():  # another job blocked the loop until now
        return CallEnd("interrupted", begun=False)
    begun = time.perf_counter()
    try:
        ended = CallEnd("done", await _run(start, limit, running))
    except BaseException as error:  # noqa: BLE001 - it must not end the loop
        ended = CallEnd("error", error=error)
        is_cancelled = isinstance(error, asyncio.CancelledError)
        if isinstance(error, KeyboardInterrupt) or (is_cancelled and running.stopped.is_set()):
            ended = CallEnd("interrupted")
    return replace(ended, seconds=time.perf_counter() - begun)


async def _run(
    start: Callable[[], Awaitable[Any]], limit: TimeLimit | None, running: _Running
) -> Any:
    seconds = None
    if limit is not None:
        seconds = limit.seconds
    timeout = asyncio.timeout(seconds)
    try:
        async with timeout:
            value = await _Steps(start(), limit, lambda: asyncio.current_task() in running.stuck)
    except TimeoutError as error:
        if not timeout.expired():
            raise
        late = ToolTimeout(f"stopped after {limit}")
        raise late.with_traceback(error.__traceback__) from None
    if timeout.expired():
        raise ToolTimeout(f"ignored the limit of {limit}, and finished")
    return value


class _Steps(Awaitable[Any]):
    """Awaits something; on the main thread, each step can be interrupted and has a time limit.

    Between the steps, the task can be cancelled; a step that blocks the loop cannot.
    """

    def __init__(
        self, awaitable: Awaitable[Any], limit: TimeLimit | None, is_stuck: Callable[[], bool]
    ) -> None:
        self._is_stuck = is_stuck
        self._steps = awaitable.__await__()
        self._limit = limit
        self._ends = time.monotonic() + _seconds_of_limit(limit)
        self._is_over = False

    def __await__(self) -> Generator[Any, None, Any]:
        step: Callable[[], Any] = partial(next, self._steps)
        while True:
            awaited = self._guarded(step)
            if self._is_over:
                return awaited
            try:
                yield awaited
                step = partial(next, self._steps)
            except GeneratorExit:
                self._close()
                raise
            except BaseException as error:  # noqa: BLE001 - it belongs to what is awaited
                step = partial(self._throw, error)
            if self._is_stuck():
                step = partial(self._throw, RuntimeError(_ON_ITSELF))

    def _guarded(self, step: Callable[[], Any]) -> Any:
        if threading.current_thread() is not threading.main_thread():
            return self._made(step)
        left = self._limit
        if left is not None:
            left = replace(left, seconds=max(self._ends - time.monotonic(), 0.001))
        with guard_calls() as guard:
            return guard.run(partial(self._made, step), left)

    def _made(self, step: Callable[[], Any]) -> Any:
        try:
            return step()
        except StopIteration as end:
            self._is_over = True
            return end.value

    def _throw(self, error: BaseException) -> Any:
        throw = getattr(self._steps, "throw", None)
        if throw is None:  # an iterator that is not a generator
            raise error
        return throw(error)

    def _close(self) -> None:
        close = getattr(self._steps, "close", None)
        if close is not None:
            close()


# ── the loop of the notebook ──────────────────────────────────────────────────────────────────────


class _Turned:
    """Turns a loop that the code of this thread blocks, as one of its tasks or callbacks.

    What the loop runs meanwhile are its other tasks and callbacks, and none of the next cells.
    """

    suspended: list[asyncio.Task[Any] | None] = []  # noqa: RUF012 - those below, in all loops

    def __init__(self, loop: Any) -> None:
        self._loop = loop

    def run(self, ended: Callable[[], bool], seconds: float) -> None:
        """Turn the loop until something has ended, at most so long."""
        until = time.monotonic() + seconds
        while not ended():
            left = until - time.monotonic()
            if left <= 0:
                break
            wake = self._loop.call_later(left, _nothing)
            # Raised in a task that outlives its tool, and has kept it.
            with suppress(SystemExit, KeyboardInterrupt):
                self._loop._run_once()  # noqa: SLF001
            wake.cancel()

    def is_awaited_by(self, task: Any) -> bool:
        """Whether a task waits for one that goes on only after this."""
        waits = [task]
        while waits:
            each = waits.pop()
            if each in self.suspended:
                return True
            awaited = getattr(each, "_fut_waiter", None)
            if awaited is not None:
                waits.append(awaited)
            waits += getattr(each, "_children", ())  # of `asyncio.gather`
        return False


class _Ready(deque[Any]):
    """The queue of a loop, from which a turn takes callbacks that can run inside the current one.

    A context can be entered only once, so a callback with the context of a suspended callback waits
    for its end. A kernel uses one context for all cells.
    """

    def __init__(self, handles: Iterable[Any]) -> None:
        super().__init__(handles)
        self.turned = 0
        self._held: list[Any] = []

    @classmethod
    def of(cls, loop: Any) -> _Ready:
        """Install this queue in a loop, and return it."""
        before = loop._ready  # noqa: SLF001
        if isinstance(before, cls):
            return before
        ready = cls(before)
        loop._ready = ready  # noqa: SLF001
        known = set(ready)
        ready.extend(each for each in before if each not in known)  # of another thread, just now
        return ready

    def popleft(self) -> Any:
        """The next callback; a callback that must wait is replaced by one that does nothing."""
        handle = super().popleft()
        if not self.turned or handle.cancelled() or not _is_entered(handle._context):  # noqa: SLF001
            return handle
        self._held.append(handle)
        return asyncio.Handle(_nothing, (), handle._loop)  # noqa: SLF001

    def put_back(self) -> None:
        """Put the callbacks that had to wait in front."""
        held, self._held = self._held, []
        self.extendleft(reversed(held))


def _is_entered(context: contextvars.Context) -> bool:
    try:
        context.run(_nothing)
    except RuntimeError:
        return True
    return False


@contextmanager
def _turning(loop: Any) -> Iterator[_Turned | None]:
    """Let a loop of this thread be turned in the block, outside the task that runs now."""
    if loop is None:
        yield None
        return
    task = asyncio.current_task(loop)
    ready = _Ready.of(loop)
    expected = len(loop._ready)  # noqa: SLF001 - another turn of it takes this many
    if task is not None:
        asyncio.tasks._leave_task(loop, task)  # noqa: SLF001
    _Turned.suspended.append(task)
    ready.turned += 1
    try:
        yield _Turned(loop)
    finally:
        ready.turned -= 1
        ready.put_back()
        _Turned.suspended.pop()
        if task is not None:
            asyncio.tasks._enter_task(loop, task)  # noqa: SLF001
        while len(loop._ready) < expected:  # noqa: SLF001
            loop.call_soon(_nothing)


def _nothing() -> None:
    """Wake a loop."""


def _loop_here() -> Any:
    """The loop that runs in this thread, if it can be turned; None if there is none."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return None
    can_be_turned = hasattr(loop, "_run_once") and hasattr(loop, "_ready")
    return loop if can_be_turned else None


def _free_loop() -> asyncio.AbstractEventLoop | None:
    """The loop that awaits the work of this thread."""
    loop = awaiting_loop.get()
    return loop if loop is not None and loop.is_running() else None


# ── waits that block the loop ─────────────────────────────────────────────────────────────────────

_LOOK = 0.4  # seconds between two looks at what a function waits for
_DEPTH = 4  # references between a callback and what it touches

_BLOCKED = (
    "it waits for something that only the event loop of this thread can do, which it blocks; make "
    "it an `async def` that awaits this, and ask with `await agent.arun(…)`"
)


@contextmanager
def waits_watched(guard: CallGuard) -> Iterator[None]:
    """Make a wait in the block fail if only a callback of the blocked loop could end it.

    A wait for an object that only a callback of this loop can set, as after
    `asyncio.run_coroutine_threadsafe`, never ends: the callback runs only when the wait is over.
    """
    loop = _loop_here()
    if loop is None or not guard.has_timer:
        yield
        return
    over = threading.Event()
    waiting = threading.get_ident()

    def watch() -> None:
        last = None
        while not over.wait(_LOOK):
            frame = sys._current_frames().get(waiting)  # noqa: SLF001
            now = None if frame is None else (id(frame), frame.f_lasti)
            if frame is not None and now == last and _is_vain(frame, loop):
                guard.raise_soon(RuntimeError(_BLOCKED))
                return
            last = now

    # In an empty context, so that it belongs to no call.
    thread = threading.Thread(
        target=contextvars.Context().run, args=(watch,), name="archytas_nb-waits", daemon=True
    )
    thread.start()
    try:
        yield
    finally:
        over.set()


def _is_vain(frame: FrameType, loop: Any) -> bool:
    """Whether a callback of the loop has access to an object that a frame waits for."""
    awaited: set[int] = set()
    at: FrameType | None = frame
    while at is not None:
        awaited.update(id(each) for each in list(at.f_locals.values()) if _is_shared(each))
        if not _is_of_library(at):
            break
        at = at.f_back
    for handle in [*loop._ready, *loop._scheduled]:  # noqa: SLF001
        if not handle.cancelled() and not awaited.isdisjoint(_touched(handle, loop)):
            return True
    return False


def _is_of_library(frame: FrameType) -> bool:
    """Whether a frame is one of the standard library, such as a method `wait`."""
    path = Path(frame.f_code.co_filename)
    return path.is_relative_to(_LIBRARY) and "site-packages" not in path.parts


def _is_shared(value: Any) -> bool:
    """Whether another thread may signal something with this object."""
    return gc.is_tracked(value) and not isinstance(value, (type, ModuleType, dict, FunctionType))


def _touched(handle: Any, loop: Any) -> set[int]:
    """The objects to which a callback has access, without those of other tasks."""
    found: set[int] = set()
    layer = [handle._callback, *(handle._args or ())]  # noqa: SLF001
    for _ in range(_DEPTH):
        layer = [each for each in layer if id(each) not in found and each is not loop]
        found.update(map(id, layer))
        following: list[Any] = []
        for each in layer:
            if isinstance(each, FunctionType):
                cells = each.__closure__ or ()
                following += [value for cell in cells for value in gc.get_referents(cell)]
            elif isinstance(each, (MethodType, BuiltinMethodType, partial, tuple, list)):
                following += gc.get_referents(each)
        layer = [each for each in following if _is_shared(each) or isinstance(each, FunctionType)]
    return found


# ── a private loop ────────────────────────────────────────────────────────────────────────────────

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
    """Use another loop for later calls, because a tool blocks this one."""
    global _loop  # noqa: PLW0603
    with _lock:
        if _loop is loop:
            _loop = None


def _serve(loop: asyncio.AbstractEventLoop) -> None:
    while not loop.is_closed():
        try:
            loop.run_forever()
        except (SystemExit, KeyboardInterrupt):  # raised in a task that outlives its tool
            continue


def _reset() -> None:
    """Start over in a forked child: there is no thread for the loop, and the lock may be held."""
    global _lock, _loop  # noqa: PLW0603
    _lock = threading.Lock()
    _loop = None


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_reset)
