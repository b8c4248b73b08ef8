"""Interrupts and time limits, raised in the tool that runs and nowhere else.

Between calls an interrupt is only noted, so that no outcome is lost and nothing of ours is left half undone.
A limit is kept by a timer's signal on the main thread. Elsewhere (another thread, Windows) the exception is put
into the tool's thread, where it is raised at the next line of Python; code that waits in C runs to its end
first. Either way nothing is left running when a call has its outcome.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

_AGAIN = 1.0
"""Seconds until a tool that swallowed its time limit is told again."""


class ToolTimeout(BaseException):
    """A tool took longer than it may. Not an `Exception`: a tool's ``except Exception`` must not swallow it."""


@dataclass(frozen=True, slots=True)
class Limit:
    """How long a call may take.

    Attributes:
        seconds: The time from now on.
        whole: The time from the call's beginning.
        whose: What sets it, for the model.
    """

    seconds: float
    whole: float
    whose: str

    def __str__(self) -> str:
        return f"{self.whole:.3g} s, which is {self.whose}"


class Watch:
    """Interrupts and time limits of the calls that are run in a `watching` block.

    Attributes:
        interrupts: How many there were, those that a tool swallowed included.
        raises: Whether they are raised now. Setting it is one step, before and after which nothing can come
            between: whoever sets it False in a ``finally`` is safe from then on.
        expired: Whether the limit of the present call was reached while it ran.
        armed: Whether the time of a call runs. A plain attribute, as is `raises`: to read it calls nothing.
    """

    def __init__(self) -> None:
        self.interrupts = 0
        self.raises = False
        self.expired = False
        self.armed = False
        self.has_timer = False
        self._limit: Limit | None = None
        self._remaining = 0.0
        self._injection: _Injection | None = None

    def arm(self, limit: Limit | None) -> None:
        """Start the time of a call."""
        self._limit, self.expired = limit, False
        if limit is not None:
            self.armed = True
            self._start(limit.seconds)

    def disarm(self) -> None:
        """End the time of a call; may raise its exception once, where that was on its way already."""
        if self.armed:
            self._stop()
            self._limit, self.armed = None, False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock, while a person is asked."""
        if self._limit is None:
            yield
            return
        left = self._stop()
        try:
            yield
        finally:
            self._start(max(left, 0.001))

    def _start(self, seconds: float) -> None:
        if self.has_timer:
            signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN)
        else:
            self._injection = _Injection(self, seconds)

    def _stop(self) -> float:
        if self.has_timer:
            return signal.setitimer(signal.ITIMER_REAL, 0)[0]
        return 0.0 if self._injection is None else self._injection.stop()

    def reached(self) -> str:
        """Say which limit was reached, for the exception."""
        return f"stopped after {self._limit}" if self._limit is not None else "stopped"

    def on_alarm(self, _number: int, _frame: Any) -> None:
        """The timer's signal."""
        if self.raises and self._limit is not None:
            self.expired = True
            raise ToolTimeout(self.reached())


class _Injection:
    """A time limit without a timer's signal: a thread that puts the exception into the tool's."""

    def __init__(self, watch: Watch, seconds: float) -> None:
        self._watch = watch
        self._ends = time.monotonic() + seconds
        self._tool_thread = threading.get_ident()
        self._lock = threading.Lock()
        self._over = threading.Event()
        self._sent = False
        threading.Thread(target=self._wait, name="archytas_nb-limit", daemon=True).start()

    def _wait(self) -> None:
        wait = self._ends - time.monotonic()
        while not self._over.wait(max(wait, 0)):
            with self._lock:
                if self._over.is_set():
                    return
                if self._watch.raises:
                    self._watch.expired = self._sent = True
                    _raise_in(self._tool_thread, ToolTimeout)
            wait = _AGAIN

    def stop(self) -> float:
        """End it, and catch what was sent but has not been raised yet; returns the seconds that were left."""
        while True:
            try:
                with self._lock:
                    self._over.set()
                if self._sent:
                    _raise_in(self._tool_thread, None)
                return self._ends - time.monotonic()
            except ToolTimeout:
                continue


def _raise_in(thread: int, kind: type[BaseException] | None) -> None:
    import ctypes

    carried = None if kind is None else ctypes.py_object(kind)
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), carried)


@contextmanager
def watching() -> Iterator[Watch]:
    """Watch for interrupts and keep time limits in the block; afterwards all handlers and timers are as before.

    Yields:
        The watch.
    """
    watch = Watch()
    if threading.current_thread() is not threading.main_thread():
        yield watch
        return
    interrupt = signal.getsignal(signal.SIGINT)

    def note(number: int, frame: Any) -> None:
        watch.interrupts += 1
        if watch.raises:
            if callable(interrupt):
                interrupt(number, frame)
            raise KeyboardInterrupt  # a handler that only notes it, as asyncio's does, leaves the tool running

    alarm = signal.getsignal(signal.SIGALRM) if hasattr(signal, "setitimer") else None
    watch.has_timer = alarm is not None  # one that was set in C cannot be put back, so it is left alone
    started = time.monotonic()
    pending = (0.0, 0.0)
    try:
        if callable(interrupt):
            signal.signal(signal.SIGINT, note)
        if watch.has_timer:
            pending = signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, watch.on_alarm)
        yield watch
    finally:
        watch.raises = False
        if watch.has_timer:
            signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, alarm)
            if pending[0]:  # somebody else's time ran on meanwhile
                left = max(pending[0] - (time.monotonic() - started), 0.001)
                signal.setitimer(signal.ITIMER_REAL, left, pending[1])
        if callable(interrupt):
            signal.signal(signal.SIGINT, interrupt)
