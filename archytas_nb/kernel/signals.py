"""Interrupts and time limits, raised in the tool that runs and nowhere else.

Between calls an interrupt is only noted, so that no outcome is lost and nothing of ours is left half undone.
A limit is kept by a timer's signal on the main thread, elsewhere (another thread, Windows) by `injection`, where
code that waits in C runs to its end first. Either way nothing is left running when a call has its outcome.
"""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

from archytas_nb.errors import ToolTimeout
from archytas_nb.kernel.injection import Injection

_AGAIN = 1.0
"""Seconds until a tool that swallowed its time limit is told again."""

_SOON = 0.02
"""Seconds until an exception is raised again that came at a place where Python ignores exceptions."""


_LONGEST = 1e8
"""Seconds; three years. No timer takes an infinite time."""


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
        armed: Whether something may still be raised by time. A plain attribute, as is `raises`: to read it calls
            nothing.
        has_timer: Whether a timer's signal can be had here.
    """

    def __init__(self) -> None:
        self.interrupts = 0
        self.raises = self.expired = self.armed = self.has_timer = False
        self._limit: Limit | None = None
        self._ends = 0.0
        self._was_lost = False
        self._thread = threading.get_ident()
        self._injection: Injection | None = None

    def arm(self, limit: Limit | None) -> None:
        """Start the time of a call."""
        self._limit, self.expired, self._was_lost = limit, False, False
        if limit is not None:
            self.armed = True
            self._start(limit.seconds)

    def disarm(self) -> None:
        """End the time of a call; may raise its exception once, where that was on its way already."""
        if self.armed:
            self._limit, self._was_lost = None, False
            self._stop()
            self.armed = False

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Stop the clock, while a person is asked."""
        limit = self._limit
        if limit is None:
            yield
            return
        left = self._ends - time.monotonic()
        self._limit = None
        self._stop()
        try:
            yield
        finally:
            self._limit = limit
            self._start(left)

    def _start(self, seconds: float) -> None:
        self._ends = time.monotonic() + min(seconds, _LONGEST)
        if self.has_timer:
            self._schedule()
        else:
            self._injection = Injection(self._inject, min(seconds, _LONGEST))
            self._injection.start()

    def _stop(self) -> None:
        if self._injection is not None:
            self._injection.stop()
            self._injection = None
        elif self.has_timer:
            self._schedule()

    def _schedule(self) -> None:
        """Set the timer to what comes next."""
        seconds = _SOON if self._was_lost else 0.0
        if self._limit is not None and not self._was_lost:
            seconds = max(self._ends - time.monotonic(), 0.001)
        signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN if seconds else 0.0)

    def _inject(self) -> type[BaseException] | None:
        if not self.raises:
            return None
        self.expired = True
        return ToolTimeout

    def on_alarm(self, _number: int, _frame: Any) -> None:
        """The timer's signal."""
        if not self.raises:
            return
        if self._was_lost:
            self._was_lost = False
            self._schedule()
            if self.interrupts:
                raise KeyboardInterrupt
        if self._limit is not None and time.monotonic() >= self._ends:
            self.expired = True
            raise ToolTimeout(f"stopped after {self._limit}")

    def on_interrupt(self, before: Any, number: int, frame: Any) -> None:
        """The signal of an interrupt; ``before`` is the handler that was there."""
        self.interrupts += 1
        if self.raises:
            if callable(before):
                before(number, frame)
            raise KeyboardInterrupt  # a handler that only notes it, as asyncio's does, leaves the tool running

    def on_lost(self, kind: type[BaseException]) -> bool:
        """Whether an exception was ours that came where Python can only ignore it; then it comes again."""
        is_ours = issubclass(kind, (KeyboardInterrupt, ToolTimeout))
        if not (is_ours and self.raises and threading.get_ident() == self._thread):
            return False
        if self.has_timer:  # elsewhere it comes again by itself
            self._was_lost = self.armed = True
            self._schedule()
        return True


class _Lost:
    """Hears of exceptions that came in a finaliser or a callback of the import system, while watches are on."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._watches: list[Watch] = []
        self._before: Callable[[Any], Any] = sys.unraisablehook

    def begin(self, watch: Watch) -> None:
        with self._lock:
            if not self._watches:
                self._before, sys.unraisablehook = sys.unraisablehook, self.hook
            self._watches.append(watch)

    def end(self, watch: Watch) -> None:
        with self._lock:
            self._watches.remove(watch)
            if not self._watches and sys.unraisablehook == self.hook:
                sys.unraisablehook = self._before

    def hook(self, what: Any) -> None:
        kind = what.exc_type
        if kind is None or not any(watch.on_lost(kind) for watch in list(self._watches)):
            self._before(what)


_lost = _Lost()


@contextmanager
def watching() -> Iterator[Watch]:
    """Watch for interrupts and keep time limits in the block; afterwards all handlers and timers are as before.

    Yields:
        The watch.
    """
    watch = Watch()
    is_main = threading.current_thread() is threading.main_thread()
    interrupt = signal.getsignal(signal.SIGINT) if is_main else None
    _lost.begin(watch)
    try:
        if callable(interrupt):
            signal.signal(signal.SIGINT, partial(watch.on_interrupt, interrupt))
        with _timer(watch) if is_main else nullcontext():
            yield watch
    finally:
        watch.raises = False
        if callable(interrupt):
            signal.signal(signal.SIGINT, interrupt)
        _lost.end(watch)


@contextmanager
def _timer(watch: Watch) -> Iterator[None]:
    """Have the timer's signal come to the watch; a time that somebody else had set runs on afterwards."""
    alarm = signal.getsignal(signal.SIGALRM) if hasattr(signal, "setitimer") else None
    if alarm is None:  # there is none, or one that was set in C and could not be put back
        yield
        return
    started = time.monotonic()
    left, again = signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, watch.on_alarm)
    watch.has_timer = True
    try:
        yield
    finally:
        watch.raises = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, alarm)
        if left:
            signal.setitimer(
                signal.ITIMER_REAL, max(left - (time.monotonic() - started), 0.001), again
            )
