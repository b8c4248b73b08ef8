"""Runs in an event loop: requests wait on a thread, tools run on the loop's own thread.

Tools work on live objects (figures, database connections, widgets) that belong to the thread of the
user's code, and only on the main thread can they be interrupted and limited in time. So a tool
blocks the loop as any function would that is called in a coroutine; between the calls the loop is
free. ``async def`` tools run elsewhere anyway, and are waited for on the thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import queue
import signal
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, Self, TypeVar

from archytas_nb.driver import Events, Observer, observed
from archytas_nb.loop import events as ev
from archytas_nb.loop.stop import Stop
from archytas_nb.run import Run, T_co
from archytas_nb.tools.toolbox import Toolbox

R = TypeVar("R")
_WAKE_SECONDS = 0.2
_STOP_SECONDS = 3.0
"""How long a cancelled run waits for its request to end; a model of the user's may not notice."""


class RunStream(AsyncIterator[ev.Event], Generic[T_co]):
    """The events of a run as they happen, for ``async for``.

    Attributes:
        run: The run; it is complete after the last event.
    """

    def __init__(self, run: Run[T_co], events: AsyncGenerator[ev.Event, None]) -> None:
        self.run = run
        self._events = events

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> ev.Event:
        return await anext(self._events)

    async def aclose(self) -> None:
        """End the run where it is not over; leaving ``async for`` does that a moment later."""
        await self._events.aclose()


async def events_of(
    run: Run[Any],
    begin: Callable[[Sequence[Observer]], Events],
    waits: Callable[[ev.Event], bool],
    observers: Sequence[Observer],
    set_busy: Callable[[bool], None],
) -> AsyncGenerator[ev.Event, None]:
    """The events of a run, and then what `Run.checked` raises; an interrupt cancels.

    Args:
        run: The run.
        begin: Makes its events.
        waits: Whether what comes after an event is waited for on a thread.
        observers: Called on the loop's thread.
        set_busy: Told whether the events are waited for now.
    """
    worker, events = _Worker(set_busy), observed(run, begin(observers), ())
    last: ev.Event | None = None
    try:
        while True:
            waiting = last is not None and waits(last)
            last = await worker.call(lambda: next(events, None)) if waiting else next(events, None)
            if last is None:
                break
            for observer in observers:
                observer(last)
            yield last
        run.checked()
    except KeyboardInterrupt:
        raise _cancelled(run) from run.interrupt()
    finally:
        worker.end(events.close)


def waits_aside(tools: Toolbox, event: ev.Event, *, decides: bool) -> bool:
    """Whether what comes after an event is waited for on a thread: it runs no code of the user's.

    `decides`: a function of theirs decides on every call.
    """
    if not isinstance(event, ev.RunCalls):
        return isinstance(event, (ev.AskModel, ev.Delta, ev.Notice))
    called = [tools.get(each.name) for each in event.calls]
    return not decides and all(each and each.is_async and not each.approve for each in called)


def _cancelled(run: Run[Any]) -> asyncio.CancelledError:
    """A task must not raise KeyboardInterrupt: that would end the loop, and with it a kernel."""
    handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and callable(handler) and handler is not signal.default_int_handler:
        with suppress(KeyboardInterrupt):
            handler(signal.SIGINT, None)  # the loop's own, which did not hear of it
    return asyncio.CancelledError(str(run.interrupt()))


class _Worker:
    """One thread for the waits of a run, begun where it is needed.

    A daemon, unlike those of an executor: a request must not keep a program from its end.
    """

    def __init__(self, set_busy: Callable[[bool], None]) -> None:
        self._jobs: queue.SimpleQueue[Callable[[], None] | None] = queue.SimpleQueue()
        self._set_busy = set_busy
        self._begun = self._busy = False

    def _serve(self) -> None:
        while (job := self._jobs.get()) is not None:
            job()

    async def call(self, work: Callable[[], R]) -> R:
        """Do work on the thread; a cancellation stops it first."""
        loop, stop = asyncio.get_running_loop(), Stop()
        future: asyncio.Future[R] = loop.create_future()

        def job() -> None:
            Stop.current.set(stop)
            result, error = None, None
            try:
                result = work()
            except BaseException as failure:  # noqa: BLE001 - raised where it is awaited
                error = failure
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(_settle, future, result, error)

        self._mark(busy=True)
        self._jobs.put(partial(contextvars.copy_context().run, job))
        if not self._begun:
            self._begun = True
            threading.Thread(target=self._serve, name="archytas_nb-run", daemon=True).start()
        try:
            while not future.done():
                # The loop of a kernel hears of an interrupt only when it wakes up.
                await asyncio.wait([future], timeout=_WAKE_SECONDS)
        except asyncio.CancelledError:
            stop.set()
            await asyncio.wait([future], timeout=_STOP_SECONDS)
            if future.done():
                future.exception()  # so that it is not reported as never retrieved
            raise
        finally:
            self._mark(busy=not future.done())
        return future.result()

    def end(self, close: Callable[[], None]) -> None:
        """Close the events, on the thread where it has not come back from them; end the thread."""
        if self._busy:
            self._jobs.put(close)
            self._jobs.put(lambda: self._mark(busy=False))
        else:
            close()
        self._jobs.put(None)

    def _mark(self, *, busy: bool) -> None:
        self._busy = busy
        self._set_busy(busy)


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
