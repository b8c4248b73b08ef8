"""A tool's time limit, kept on the thread that the tool runs on.

A timer's signal raises in the tool itself, so it really stops. Where there is no such timer (Windows, or a
thread that is not the main one) the tool runs to its end, and its outcome says that it took too long.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class ToolTimeout(Exception):
    """A tool took longer than it may."""


@contextmanager
def deadline(seconds: float | None) -> Iterator[None]:
    """Stop the block after so many seconds.

    Args:
        seconds: The limit; None for none.

    Raises:
        ToolTimeout: The block took longer.
    """
    on_main = threading.current_thread() is threading.main_thread()
    if seconds is None or not on_main or not hasattr(signal, "setitimer"):
        yield
        return

    def expired(_number: int, _frame: Any) -> None:
        raise ToolTimeout(f"stopped after {seconds:g} s, which is this tool's timeout")

    before = signal.signal(signal.SIGALRM, expired)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
