"""Interrupts and time limits, raised in the tool that runs and nowhere else.

`guard_calls` is active while calls run. Between calls, an interrupt is only recorded, so that no
outcome is lost; in `CallGuard.run`, interrupts and the time limit of the call are raised. On the
main thread the limit is enforced by the signal of a timer; elsewhere (other threads, Windows) by a
`ThreadTimer`, which cannot stop code that waits in C.

The states of the code that a `CallGuard` runs. An interrupt is always counted in `interrupts`, too:

    state    how to tell             an interrupt            the time limit
    idle     not `raises`            is only counted         does not run
    running  `raises`                raises                  raises, every second until it ends
    paused   `raises`, no `_limit`   raises                  does not run
    lost     `_was_lost`             raises                  is raised again soon
    ending   not `raises`, `_armed`  is only counted         what it still raises is discarded

    from             to        by
    idle             running   `run`
    running          paused    `paused`, while a person is asked
    paused           running   the end of `paused`
    running, paused  lost      `on_lost`: Python ignored an exception of ours, as in a finalizer
    lost             running   `on_alarm`, which raises it again
    running          ending    `raise_soon`: another thread ends a blocked wait
    any of these     ending    the work returned or raised
    ending           idle      the timer is stopped, and what it had sent is caught

An end that is known when an interrupt comes too late to be raised is kept (see `CallEnd`).
"""

from __future__ import annotations

# `signal` makes an enum of each handler that it sets, which takes 20 times as long as setting it.
import _signal  # type: ignore[import-not-found]
import _thread
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal, NoReturn

from archytas_nb.errors import ToolTimeout
from archytas_nb.loop.stop import Stop, stoppable

_AGAIN = 1.0  # seconds until a limit is raised again in a tool that swallowed it
_SOON = 0.02  # seconds until an exception that Python ignored is raised again
_LONGEST = 1e8  # seconds, three years; no timer takes an infinite time


# ── interrupts that are deferred ──────────────────────────────────────────────────────────────────


class Deferred:
    """Records in ``interrupted`` whether a `defer_interrupts` block was interrupted."""

    interrupted = False

    def note(self, _number: int, _frame: Any) -> None:
        """Signal handler for interrupts."""
        self.interrupted = True


# A generator, not a class with __enter__ and __exit__: if something else is raised in between, such
# as a time limit, Python closes it, and the handler is restored.
@contextmanager
def defer_interrupts() -> Iterator[Deferred]:
    """Record interrupts in the block without raising them; the caller acts on them afterwards.

    Only for short blocks. On other threads than the main one, no interrupt is raised anyway.
    """
    deferred = Deferred()
    is_main = threading.current_thread() is threading.main_thread()
    before = None
    if is_main:
        before = _signal.getsignal(signal.SIGINT)
    if not callable(before):  # another thread, or a handler that was set in C
        yield deferred
        return
    try:
        _signal.signal(signal.SIGINT, deferred.note)
        yield deferred
    finally:
        _signal.signal(signal.SIGINT, before)


# ── interrupts and limits of calls ────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class TimeLimit:
    """How long a call may take."""

    seconds: float  # from now on
    whole: float  # since the call began
    source: str  # where it comes from, for the model

    def __str__(self) -> str:
        return f"{self.whole:.3g} s, which is {self.source}"


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How a call ended.

    how           begun  running  what happened
    interrupted   False  False    an interrupt came before the tool was called
    interrupted   True   False    an interrupt, or the user's own KeyboardInterrupt, ended it
    interrupted   True   True     it was interrupted, and is still running
    error         True   False    it raised `error`, which is a `ToolTimeout` at its limit
    done          True   False    it returned `value`; later interrupts do not change this
    """

    how: Literal["done", "error", "interrupted"]
    value: Any = None
    error: BaseException | None = None
    seconds: float = 0.0
    running: bool = False  # whether it was interrupted, but has not stopped
    begun: bool = True  # False if it was interrupted before it began
    is_awaited: bool = False  # whether a plain function returned an awaitable


class CallGuard:
    """Raises interrupts and time limits in the calls of a `guard_calls` block."""

    def __init__(self) -> None:
        self.interrupts = 0  # their number, including those that a tool swallowed
        # Whether they are raised now. An assignment cannot be interrupted: after it is set to False
        # in a `finally` block, nothing more is raised.
        self.raises = False
        self.expired = False  # whether the last call reached its limit
        self.has_timer = False  # whether the timer signal can be used
        self._armed = False  # whether the timer may still raise something
        self._limit: TimeLimit | None = None
        self._ends = 0.0
        self._was_lost = False
        self._vain: BaseException | None = None  # raised at the next signal of the timer
        self._thread = threading.get_ident()
        self._timer: ThreadTimer | None = None

    def run(self, work: Callable[[], Any], limit: TimeLimit | None) -> Any:
        """Call ``work``; interrupts and the limit are raised in it, and never after its end."""
        try:
            self.raises = True
            self._limit = limit
            self.expired = False
            self._was_lost = False
            self._vain = None
            if limit is not None:
                self._armed = True
                self._start(limit.seconds)
            return work()
        finally:
            self.raises = False
            while self._armed:
                try:
                    self._limit = None
                    self._was_lost = False
                    self._stop()
                    self._armed = False
                except ToolTimeout:  # it was pending
                    continue

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Pause the time limit while a person is asked."""
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
        seconds = min(seconds, _LONGEST)
        self._ends = time.monotonic() + seconds
        if self.has_timer:
            self._schedule()
        else:
            self._timer = ThreadTimer(self._due, seconds)
            self._timer.start()

    def _stop(self) -> None:
        if self._timer is not None:
            self._timer.stop()
            self._timer = None
        elif self.has_timer:
            self._schedule()

    def _schedule(self) -> None:
        """Set the timer to the next event, or stop it if there is none."""
        if self._was_lost:
            signal.setitimer(signal.ITIMER_REAL, _SOON, _AGAIN)
        elif self._limit is not None:
            left = max(self._ends - time.monotonic(), 0.001)
            signal.setitimer(signal.ITIMER_REAL, left, _AGAIN)
        else:
            signal.setitimer(signal.ITIMER_REAL, 0.0)

    def _due(self) -> type[BaseException] | None:
        if not self.raises:
            return None
        self.expired = True
        return ToolTimeout

    def on_alarm(self, _number: int, _frame: Any) -> None:
        """Signal handler for the timer."""
        if not self.raises:
            return
        if self._vain is not None:
            error = self._vain
            self._vain = None
            raise error
        if self._was_lost:
            self._was_lost = False
            self._schedule()
            if self.interrupts:
                raise KeyboardInterrupt
        if self._limit is not None and time.monotonic() >= self._ends:
            self.expired = True
            raise ToolTimeout(f"stopped after {self._limit}")

    def on_interrupt(self, before: Callable[..., Any], number: int, frame: Any) -> None:
        """Signal handler for interrupts; ``before`` is the previous handler."""
        self.interrupts += 1
        if self.raises:
            before(number, frame)
            raise KeyboardInterrupt  # the handler of asyncio only records it

    def on_stop(self) -> None:
        """Record that another thread stops the run, which ends its ``async def`` tools."""
        self.interrupts += 1

    def raise_soon(self, error: BaseException) -> None:
        """Raise an error in what runs, even if it waits; from any thread, where `has_timer`."""
        self._vain = error
        signal.pthread_kill(self._thread, signal.SIGALRM)

    def on_lost(self, kind: type[BaseException]) -> bool:
        """Whether an exception that Python ignored is ours; if so, it is raised again."""
        is_ours = issubclass(kind, (KeyboardInterrupt, ToolTimeout))
        if not (is_ours and self.raises and threading.get_ident() == self._thread):
            return False
        if self.has_timer:  # a ThreadTimer repeats it anyway
            self._was_lost = True
            self._armed = True
            self._schedule()
        return True


_guards: list[CallGuard] = []
_lock = threading.RLock()
_hook_before = sys.unraisablehook


def _unraisable(what: Any) -> None:
    """Hook for exceptions that Python ignores, such as those in finalizers."""
    kind = what.exc_type
    guards = [*_guards]  # a copy: other threads change it
    is_ours = kind is not None and any(guard.on_lost(kind) for guard in guards)
    if not is_ours:
        _hook_before(what)


@contextmanager
def guard_calls() -> Iterator[CallGuard]:
    """Handle interrupts and time limits in the block; restores handlers and timers afterwards."""
    global _hook_before  # noqa: PLW0603 - one hook for the process
    guard = CallGuard()
    is_main = threading.current_thread() is threading.main_thread()
    interrupt = None
    if is_main:
        interrupt = _signal.getsignal(signal.SIGINT)
    with _lock:
        if not _guards:
            _hook_before = sys.unraisablehook
            sys.unraisablehook = _unraisable
        _guards.append(guard)
    try:
        if callable(interrupt):
            _signal.signal(signal.SIGINT, partial(guard.on_interrupt, interrupt))
        can_be_stopped = Stop.current.get() is not None
        stopped = stoppable(guard.on_stop) if can_be_stopped else nullcontext()
        alarm = _alarm(guard) if is_main else nullcontext()
        with alarm, stopped:
            yield guard
    finally:
        guard.raises = False
        if callable(interrupt):
            _signal.signal(signal.SIGINT, interrupt)
        with _lock:
            _guards.remove(guard)
            if not _guards and sys.unraisablehook is _unraisable:
                sys.unraisablehook = _hook_before


@contextmanager
def _alarm(guard: CallGuard) -> Iterator[None]:
    """Let the guard handle the timer signal; the user's own timer continues afterwards."""
    alarm = None
    if hasattr(signal, "setitimer"):
        alarm = _signal.getsignal(signal.SIGALRM)
    if alarm is None:  # unsupported, or set in C and not restorable
        yield
        return
    started = time.monotonic()
    left, again = signal.setitimer(signal.ITIMER_REAL, 0)
    _signal.signal(signal.SIGALRM, guard.on_alarm)
    guard.has_timer = True
    try:
        yield
    finally:
        guard.raises = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        _signal.signal(signal.SIGALRM, alarm)
        if left:
            rest = max(left - (time.monotonic() - started), 0.001)
            signal.setitimer(signal.ITIMER_REAL, rest, again)


# ── limits where there is no signal ───────────────────────────────────────────────────────────────


class ThreadTimer:
    """Raises an exception in the thread that made it, at its next line of Python.

    That may happen anywhere, also in this class. Therefore its methods can be repeated, and it uses
    no lock that is written in Python, because one that is interrupted while it opens stays closed.

    state     how to tell  what moves it on
    new       `_over`      `start`; or `stop`, after which it is over
    waiting   neither      the time: if something is due, it is sent, and again every second
    stopping  `_stopped`   the timer's thread, which sees it, or ends by itself
    over      `_over`      nothing; `stop` has caught what was sent but not raised

    Args:
        due: Called when the time is over and every second after that: what to raise, or None.
        seconds: The time.
    """

    def __init__(self, due: Callable[[], type[BaseException] | None], seconds: float) -> None:
        self._due = due
        self._seconds = seconds
        self._thread = threading.get_ident()
        self._sent: type[BaseException] | None = None
        self._stopped = False
        self._over = True  # whether no thread runs
        self._wake = _thread.allocate_lock()
        self._wake.acquire()

    def start(self) -> None:
        """Start the timer. Not in `__init__`, so that it can be stopped whatever is raised."""
        waiting = self._wait()
        next(waiting)
        self._over = False  # no exception can come before the next line
        try:
            _thread.start_new_thread(next, (waiting, None))  # `Thread.start` takes such a lock
        except RuntimeError:  # no thread can be started
            self._over = True
            raise

    def _wait(self) -> Iterator[None]:
        wait = self._seconds
        # In CPython up to 3.12, a thread that has not begun has the id of the thread that made it,
        # and what is sent to that one is raised here. So this begins in the `try`, and forwards it.
        try:
            yield
        except BaseException as error:  # noqa: BLE001
            _raise_in(self._thread, type(error))
        try:
            while not self._wake.acquire(timeout=max(wait, 0.0)) and not self._stopped:
                kind = self._due()
                if kind is not None:
                    self._sent = kind
                    _raise_in(self._thread, kind)
                wait = _AGAIN
        finally:
            self._over = True

    def stop(self) -> None:
        """End it, and catch what was sent but not raised yet. May be called again.

        The exception is caught rather than cleared: CPython up to 3.12 keeps looking for a cleared
        one in every thread, and 3.11 then hangs under a debugger or a coverage tool.
        """
        other: BaseException | None = None
        while True:
            try:
                self._end_thread()
                if self._sent is not None:
                    self._raise_last()
                break
            except _Last:
                break
            except BaseException as error:  # noqa: BLE001 (raised below)
                # The error that was sent has been raised; any other one must not get lost.
                if type(error) is not self._sent:
                    other = error
        if other is not None:
            raise other

    def _end_thread(self) -> None:
        """Wake the timer's thread and wait for its end: nothing more is sent after that."""
        self._stopped = True
        with suppress(RuntimeError):  # already released
            self._wake.release()
        while not self._over:
            time.sleep(0.0002)

    def _raise_last(self) -> NoReturn:
        """Raise `_Last` in this thread, in place of what was sent and may still be pending."""
        _raise_in(self._thread, _Last)
        while True:  # raised here at the latest
            pass


class _Last(BaseException):
    """Replaces an exception that was sent to a thread but not raised yet."""


def _raise_in(thread: int, kind: type[BaseException]) -> None:
    import ctypes

    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(thread), ctypes.py_object(kind))
