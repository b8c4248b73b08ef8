"""Raise an exception in a thread at a given time, where no signal can. Knows nothing of tools.

It is raised at the next line of Python that the thread runs; code that waits in C runs to its end first.

The thread that is hit may be anywhere when it happens, also in here. So what it calls can be done again, and it
takes no lock that is written in Python: such a lock stays closed for ever when it is hit while it opens.
"""

from __future__ import annotations

import _thread
import threading
import time
from collections.abc import Callable
from contextlib import suppress

_AGAIN = 1.0
"""Seconds until it is raised again in a thread that swallowed it."""


class Injection:
    """A time limit without a timer's signal: a thread that puts an exception into the one that made this.

    Args:
        due: Asked when the time is over, and again every second: what to raise, or None for nothing now.
        seconds: The time.
    """

    def __init__(self, due: Callable[[], type[BaseException] | None], seconds: float) -> None:
        self._due = due
        self._seconds = seconds
        self._thread = threading.get_ident()
        self._sent: type[BaseException] | None = None
        self._started = self._stopped = self._over = False
        self._wake = _thread.allocate_lock()
        self._wake.acquire()

    def start(self) -> None:
        """Let the time begin; apart from making it, so that it can be stopped whatever is raised in here."""
        _thread.start_new_thread(
            self._wait, ()
        )  # to start a `threading.Thread` waits for it with such a lock
        self._started = True

    def _wait(self) -> None:
        try:
            wait = self._seconds
            while not self._wake.acquire(timeout=max(wait, 0.0)) and not self._stopped:
                kind = self._due()
                if kind is not None:
                    self._sent = kind
                    _raise_in(self._thread, kind)
                wait = _AGAIN
        finally:
            self._over = True

    def stop(self) -> None:
        """End it, and catch what was sent but has not been raised yet. May be called again.

        What was sent is not taken back but caught: CPython up to 3.12 goes on looking for an exception that was
        taken back, in every thread and for ever, and where a debugger or a coverage tool traces, 3.11 then does
        nothing else any more.
        """
        other: BaseException | None = None
        while True:
            try:
                self._stopped = True
                with suppress(RuntimeError):  # it was let go before
                    self._wake.release()
                # A thread that has not begun yet has the id of its maker in CPython up to 3.12, and would be sent
                # what is meant for that one.
                while self._started and not self._over:
                    time.sleep(0.0002)
                if self._sent is None:
                    break
                _raise_in(self._thread, _Last)
                while True:  # it is raised in here at the latest
                    pass
            except _Last:
                break
            except BaseException as error:  # noqa: BLE001 (raised below)
                if type(error) is not self._sent:
                    other = error
        if other is not None:
            raise other


class _Last(BaseException):
    """Takes the place of what may be on its way to a thread, so that nothing is after it."""


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
