"""Interrupts held back while something is written down that must not be left half done.

It knows signals and nothing else. Hold for moments only: what a person waits for must hear of it itself.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


class Held:
    """What was held back.

    Attributes:
        interrupted: Whether there was an interrupt.
    """

    def __init__(self) -> None:
        self.interrupted = False

    def note(self, _number: int, _frame: Any) -> None:
        """The signal of an interrupt."""
        self.interrupted = True


@contextmanager
def held() -> Iterator[Held]:
    """Note interrupts in the block and raise none; who holds them answers for them afterwards.

    Yields:
        What was held back. Elsewhere than on the main thread nothing is raised anyway.
    """
    hold = Held()
    is_main = threading.current_thread() is threading.main_thread()
    before = signal.getsignal(signal.SIGINT) if is_main else None
    if not callable(before):
        yield hold
        return
    try:
        signal.signal(signal.SIGINT, hold.note)
        yield hold
    finally:
        signal.signal(signal.SIGINT, before)
