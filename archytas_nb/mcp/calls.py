"""Calls by another program, each as a run of the notebook.

The program takes the place of the model: its one call is validated, approved, watched and traced
by an ordinary `Agent`. It runs on the main thread of the kernel, between cells.
"""

from __future__ import annotations

import _thread
import asyncio
import contextvars
import json
import signal
import threading
from collections.abc import Callable, Generator, Mapping
from concurrent.futures import Future
from typing import Any, TypeVar

from archytas_nb.agent import Agent
from archytas_nb.errors import ArchytasError, RunInterrupted
from archytas_nb.loop.events import (
    ActiveProtocol,
    AskModel,
    CallOutcome,
    Delta,
    Json,
    ModelReply,
    WireCall,
)
from archytas_nb.run import Run
from archytas_nb.words import did_you_mean

T = TypeVar("T")

_LATER = 0.2
"""Seconds until the calls are shown, so that a program that makes many does not wait for it."""


class Caller:
    """A program in the place of the model: it makes one call, and its run ends with the outcome.

    Args:
        name: The name of the program, which the trace shows as the model's.
        tool: The name of the tool.
        arguments: The arguments, as JSON.
    """

    protocol: ActiveProtocol = "native"
    is_scripted = True  # no cassette records it: nothing is asked of it

    def __init__(self, name: str, tool: str, arguments: Mapping[str, Json]) -> None:
        self.name = name
        self._call = WireCall(tool, json.dumps(dict(arguments), ensure_ascii=False))
        self._has_called = False

    def complete(self, _: AskModel) -> Generator[Delta, None, ModelReply]:
        """The call; then the end of the run."""
        yield from ()
        if self._has_called:
            return ModelReply(f"The result was returned to {self.name}.")
        self._has_called = True
        return ModelReply(calls=(self._call,), finish="tool_calls")


def run_call(
    agent: Agent, caller: str, tool: str, arguments: Mapping[str, Json], **options: Any
) -> tuple[CallOutcome, Run[Any] | None]:
    """Run a call of another program.

    Args:
        agent: An agent with the tools and settings of the notebook and no conversation.
        caller: The name of the program.
        tool: The name of the tool.
        arguments: The arguments.
        options: Options of `Agent.run`, such as ``observers``.

    Returns:
        The outcome, and the run; None if there is no such tool. Nothing is raised except by a
        condition that is broken in the notebook itself.
    """
    if tool not in agent.tools:
        guess = did_you_mean(tool, list(agent.tools))
        return CallOutcome("error", f"The notebook has no tool named {tool!r}{guess}."), None
    model = Caller(caller, tool, arguments)
    run: Run[Any] | None
    try:
        run = agent.run(f"{caller} calls {tool}", model=model, progress=False, **options)
    except (ArchytasError, RunInterrupted) as error:
        run = getattr(error, "run", None)
        if run is None:
            return CallOutcome("error", str(error), error=error), None
    if not run.calls:
        return CallOutcome("interrupted", "Not run: the user interrupted here."), run
    [exchange] = agent.exchanges  # in which an outcome is as a model may read it
    return exchange.steps[0].outcomes[0], run


class MainThread:
    """The main thread of a kernel, where work of other threads runs between cells.

    It belongs to the cell in which it was made: what the work displays appears there.

    Raises:
        RuntimeError: No event loop is running, as in IPython without a kernel.
    """

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._context = contextvars.copy_context()
        self._running: Future[Any] | None = None
        self._later: dict[Callable[[], None], asyncio.TimerHandle] = {}
        self._lock = threading.Lock()
        self._thread = threading.get_ident()

    def submit(self, work: Callable[[], T]) -> Future[T]:
        """Run something as soon as no cell is running; until then the future can be cancelled."""
        future: Future[T] = Future()
        self._loop.call_soon_threadsafe(self._run, future, work, context=self._context.copy())
        return future

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
        if not future.set_running_or_notify_cancel():
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
