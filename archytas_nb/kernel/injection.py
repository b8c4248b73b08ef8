"""Raise an exception in a thread at a given time, where no signal can. Knows nothing of tools.

It is raised at the next line of Python that the thread runs; code that waits in C runs to its end first.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

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
        self._ends = time.monotonic() + seconds
        self._thread = threading.get_ident()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._sent: type[BaseException] | None = None
        threading.Thread(target=self._wait, name="archytas_nb-limit", daemon=True).start()

    def _wait(self) -> None:
        wait = self._ends - time.monotonic()
        while not self._over.wait(max(wait, 0)):
            with self._lock:
                if self._over.is_set():
                    return
                kind = self._due()
                if kind is not None:
                    self._sent = kind
                    _raise_in(self._thread, kind)
            wait = _AGAIN

    def stop(self) -> None:
        """End it, and catch what was sent but has not been raised yet."""
        while True:
            try:
                with self._lock:
                    self._over.set()
                if self._sent is not None:
                    _raise_in(self._thread, None)
            except BaseException as error:
                if self._sent is None or type(error) is not self._sent:
                    raise
            else:
                return


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    import ctypes

    carried = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), carried)
