"""Stops a run from another thread, for example when an async run is cancelled."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar


class Stop:
    """A request to stop; it ends all waits in the context in which it is `current`."""

    current: ContextVar[Stop | None] = ContextVar("archytas_nb_stop", default=None)

    def __init__(self) -> None:
        self.event = threading.Event()
        self.ends: list[Callable[[], None]] = []

    def set(self) -> None:
        """Stop; may be called repeatedly, and from any thread."""
        self.event.set()
        for end in tuple(self.ends):
            end()


@contextmanager
def stoppable(end: Callable[[], None]) -> Iterator[None]:
    """Call `end` on a stop, maybe twice; an error in the block then becomes KeyboardInterrupt."""
    stop = Stop.current.get()
    if stop is None:
        yield
        return
    stop.ends.append(end)
    try:
        if stop.event.is_set():
            end()
        yield
    except Exception:
        if stop.event.is_set():
            raise KeyboardInterrupt from None
        raise
    finally:
        stop.ends.remove(end)


def sleep(seconds: float) -> None:
    """Sleep; a stop raises KeyboardInterrupt immediately."""
    stop = Stop.current.get()
    if stop is None:
        time.sleep(seconds)
    elif stop.event.wait(seconds):
        raise KeyboardInterrupt
