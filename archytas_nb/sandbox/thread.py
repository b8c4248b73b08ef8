"""The thread that drives a worker, so that an interrupt reaches the calling thread immediately.

An interrupt is raised in the calling thread only, and not while it waits for the sandbox.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import Future, wait
from typing import Any, TypeVar

T = TypeVar("T")

_PATIENCE = 2.0  # seconds between two requests to a worker to end
_WAIT = 0.2  # seconds of one wait: a timeout is raised only between two


class DrivingThread:
    """Does the work of a session, one piece at a time.

    Attributes:
        is_stopping: Whether the current work must stop.
    """

    def __init__(self) -> None:
        self.is_stopping = False
        self._work: _Work | None = None

    @property
    def is_busy(self) -> bool:
        """Whether work was started and not finished; it may have been interrupted."""
        return self._work is not None

    def do(self, work: Callable[[], T]) -> T:
        """Run a function on the thread, and raise its exception here.

        Raises:
            KeyboardInterrupt: The user interrupted; the work continues until `stop`.
        """
        self._work = begun = _Work(work)
        begun.thread.start()
        while not begun.is_done_after(_WAIT):
            pass
        self._work = None
        result: T = begun.result.result()
        return result

    def stop(self, end: Callable[[], object]) -> Any:
        """Stop the work, and return its result; None if it raised, or never started.

        Args:
            end: Ends the operation for which the work waits.
        """
        begun = self._work
        if begun is None:
            return None
        self.is_stopping = True
        # An interrupt may come before the thread begins.
        begun.result.cancel()
        while not begun.is_done_after(0):
            end()
            begun.is_done_after(_PATIENCE)
        self.is_stopping = False
        self._work = None
        return begun.reply()


class _Work:
    """Work on a thread of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Future[Any] = Future()
        self.thread = threading.Thread(
            target=self._do, args=(work,), name="archytas_nb sandbox", daemon=True
        )

    def _do(self, work: Callable[[], Any]) -> None:
        if not self.result.set_running_or_notify_cancel():
            return
        try:
            self.result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            self.result.set_exception(error)

    def is_done_after(self, seconds: float) -> bool:
        """Whether it is done after this many seconds."""
        wait([self.result], timeout=seconds)
        return self.result.done()

    def reply(self) -> Any:
        """The result; None if the work raised, or never started."""
        if self.result.cancelled() or self.result.exception() is not None:
            return None
        return self.result.result()
