"""Runs in an event loop: requests wait in a thread, tools run in the loop's own thread.

Tools use live objects (figures, database connections, widgets) that belong to the thread of the
user's code, and they can be interrupted and timed out only in the main thread. So a tool blocks the
loop, like any function that a coroutine calls; between the calls the loop is free. ``async def``
tools are tasks of the loop, and awaited in the thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import signal
import threading
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from typing import Any, Generic, Self

from archytas_nb.conversation import ActiveRun
from archytas_nb.hints import hinted
from archytas_nb.kernel.background import awaiting_loop
from archytas_nb.loop import events as ev
from archytas_nb.loop.stop import Stop
from archytas_nb.run import Events, Observer, Run, T_co
from archytas_nb.tools.toolbox import Toolbox

_WAKE_SECONDS = 0.2
_STOP_SECONDS = 3.0
"""Maximum time that a cancelled run waits for its request; a custom model may not react."""


@hinted
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
        """End the run if it has not ended; leaving ``async for`` does so a moment later."""
        await self._events.aclose()


async def events_of(
    run: Run[Any],
    begin: Callable[[Sequence[Observer]], Events],
    waits: Callable[[ev.Event], bool],
    observers: Sequence[Observer],
    current: ActiveRun,
) -> AsyncGenerator[ev.Event, None]:
    """The events of a run; then raises what `Run.checked` raises. An interrupt cancels the task.

    Args:
        run: The run.
        begin: Creates its events.
        waits: Whether the event after a given event is awaited in a thread.
        observers: Called in the loop's thread.
        current: Stores whether an event is awaited.
    """
    events = begin(())
    event: ev.Event | None = None
    try:
        while True:
            if event is not None and waits(event):
                event = await _next(events, current)
            else:
                event = next(events, None)
            if event is None:
                break
            for observer in observers:
                observer(event)
            yield event
        run.checked()
    except KeyboardInterrupt:
        raise _cancelled_error(run) from run.interrupt()
    finally:
        if not current.is_awaited:
            events.close()


async def _next(events: Events, current: ActiveRun) -> ev.Event | None:
    """The next event, awaited in a thread; a cancellation stops the request first."""
    stop = Stop()
    done = Future[ev.Event | None]()

    loop = asyncio.get_running_loop()

    def wait() -> None:
        Stop.current.set(stop)
        awaiting_loop.set(loop)
        try:
            done.set_result(next(events, None))
        except BaseException as error:  # noqa: BLE001 - raised where it is awaited
            done.set_exception(error)

    def close(_: object) -> None:
        events.close()
        current.is_awaited = False

    done.set_running_or_notify_cancel()
    # A daemon, unlike the threads of an executor, so that it cannot keep the program from exiting.
    run = contextvars.copy_context().run
    threading.Thread(target=run, args=(wait,), name="archytas_nb-run", daemon=True).start()
    current.is_awaited = True
    awaited = asyncio.wrap_future(done)
    try:
        while not awaited.done():
            # The loop of a kernel handles an interrupt only when it wakes up.
            await asyncio.wait([awaited], timeout=_WAKE_SECONDS)
    except asyncio.CancelledError:
        stop.set()
        await asyncio.wait([awaited], timeout=_STOP_SECONDS)
        if awaited.cancel() or awaited.exception():  # retrieved, so that asyncio does not log it
            done.add_done_callback(close)
        raise
    finally:
        current.is_awaited = not done.done()
    return awaited.result()


def waits_on_thread(tools: Toolbox, event: ev.Event, *, has_policy: bool) -> bool:
    """Whether the event after this one is awaited in a thread, because it runs no user code.

    `has_policy`: whether a function of the user decides on every call.
    """
    if not isinstance(event, ev.RunCalls):
        return isinstance(event, (ev.AskModel, ev.Delta, ev.Notice))
    tools_called = [tools.get(each.name) for each in event.calls]
    return not has_policy and all(
        each and each.is_async and not each.may_require_approval for each in tools_called
    )


def _cancelled_error(run: Run[Any]) -> asyncio.CancelledError:
    """The error to raise in a task: KeyboardInterrupt would end the loop, and with it a kernel."""
    handler = signal.getsignal(signal.SIGINT)
    is_main = threading.current_thread() is threading.main_thread()
    if is_main and callable(handler) and handler is not signal.default_int_handler:
        with suppress(KeyboardInterrupt):
            handler(signal.SIGINT, None)  # the loop's own handler, which was not called
    return asyncio.CancelledError(str(run.interrupt()))
