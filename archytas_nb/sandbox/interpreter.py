"""The interpreter of a conversation, whose variables survive the end of its process.

Whatever ends a worker, its session is restored from the last dump. A dump is made when a program
ends, when it waits for calls, and after each statement that called a tool.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from pydantic_monty import FunctionSnapshot, FutureSnapshot, MontyError, MontySession

from archytas_nb.sandbox import pool
from archytas_nb.sandbox.bounds import Bounds
from archytas_nb.sandbox.prelude import NAMES, PRELUDE, unbinding
from archytas_nb.sandbox.snapshots import end

T = TypeVar("T")

_LARGE_DUMP = 1_000_000  # bytes; larger ones are made less often
_DUMP_SHARE = 20  # seconds between two of them, for each second that one takes
_ATTEMPTS = 3  # how often a lost worker is replaced for the same work
KILL = getattr(signal, "SIGKILL", signal.SIGTERM)


@dataclass(frozen=True, slots=True)
class _Saved:
    """A dump to return to; `is_running` if it was made while a program ran."""

    dump: bytes
    is_running: bool = False


class Interpreter:
    """A session of the sandbox that outlives its workers.

    Args:
        bounds: The limits of one program.
        dump: The session of the question before; None for a new one.

    Attributes:
        names: The names that are bound in it.
    """

    def __init__(self, bounds: Bounds, dump: bytes | None = None) -> None:
        self.names: tuple[str, ...] = ()
        self._bounds = bounds
        self._last: _Saved | None = None
        if dump is not None:
            self._last = _Saved(dump)
        self._before = self._last  # the session as it was before the program
        self._dumped = 0.0  # when the last dump was made, and how long it took
        self._dumping = 0.0
        self._session: MontySession | None = None
        self._workers: dict[int, int] = {}  # process ids of the workers in use

    @property
    def session(self) -> MontySession:
        """The session in its worker."""
        if self._session is None:
            raise RuntimeError("the session has no worker")
        return self._session

    def evaluate(self, expression: str) -> Any:
        """The value of an expression, between programs."""
        return self.session.feed_run(expression, skip_type_check=True)

    def retry_after_crash(self, work: Callable[[], T]) -> T:
        """Do something between programs; repeat it in a new worker if the worker is lost."""
        if self._session is None:
            self.go_back_to_start()
        for _ in range(_ATTEMPTS):
            try:
                return work()
            except (MontyError, RuntimeError):
                self.go_back_to_start()
        return work()

    # ── workers ───────────────────────────────────────────────────────────────────────────────────

    @property
    def workers(self) -> tuple[int, ...]:
        """The process ids of the workers in use."""
        return tuple(self._workers.values())

    def kill(self) -> None:
        """End the workers, whatever they do."""
        for pid in self.workers:
            with suppress(OSError):
                os.kill(pid, KILL)

    @contextmanager
    def another(self, **options: Any) -> Iterator[MontySession]:
        """A separate session with the same limits.

        Args:
            options: The options of ``Monty.checkout``.
        """
        session = self._opened(**options)
        try:
            yield session
        finally:
            self._release(session)

    def _opened(self, **options: Any) -> MontySession:
        session = pool.checkout(limits=self._bounds.limits, **options)
        pid = session.worker_pid
        if pid is not None:
            self._workers[id(session)] = pid
        return session

    def _release(self, session: MontySession | None) -> None:
        if session is not None:
            self._workers.pop(id(session), None)
            pool.release(session)

    def close(self) -> bytes:
        """Return the worker, and the session as bytes."""
        self._release(self._session)
        self._session = None
        if self._before is None:
            raise RuntimeError("the session was not kept")
        return self._before.dump

    # ── dumps ─────────────────────────────────────────────────────────────────────────────────────

    def keep(self) -> None:
        """Keep the session between two programs."""
        self.names = self._bound_names()
        self._last = self._before = _Saved(self.session.dump())

    def checkpoint_at(self, snapshot: FunctionSnapshot | FutureSnapshot) -> None:
        """Keep the session at a request of the program.

        A large session that was just saved is not saved again, because that takes time.
        """
        now = time.monotonic()
        is_soon = now - self._dumped < _DUMP_SHARE * self._dumping
        is_large = self._last is not None and len(self._last.dump) > _LARGE_DUMP
        if is_large and is_soon:
            return
        self._last = _Saved(snapshot.dump(), is_running=True)
        self._dumped = time.monotonic()
        self._dumping = self._dumped - now

    def go_back(self) -> None:
        """The session as it was saved last; the program that ran in it is ended at its request."""
        self._restore(self._last)

    def go_back_to_start(self) -> None:
        """The session as it was before the program."""
        self._restore(self._before)

    def _restore(self, saved: _Saved | None) -> None:
        """A worker with a session; the one before the program if that is not possible."""
        reason: Exception | None = None
        for each in (*(saved,) * _ATTEMPTS, *(self._before,) * _ATTEMPTS):
            self._release(self._session)
            try:
                if self._is_reopened(each):
                    return
            except (MontyError, RuntimeError) as error:
                reason = error
        raise RuntimeError(
            "the sandbox does not start: its processes end immediately. Without it, use "
            "protocol='react'"
        ) from reason

    def _is_reopened(self, saved: _Saved | None) -> bool:
        self._session = session = self._opened(os_policy=policy())
        if saved is None:
            session.feed_run(PRELUDE, skip_type_check=True)
        elif not saved.is_running:
            session.load_session(saved.dump)
        elif not end(session.load_snapshot(saved.dump, print_callback=ignore)):
            return False
        self.names = self._bound_names()
        return True

    # ── names ─────────────────────────────────────────────────────────────────────────────────────

    def read_names(self) -> None:
        """Read which names are bound."""
        self.names = self._bound_names()

    def _bound_names(self) -> tuple[str, ...]:
        return tuple(self.evaluate(NAMES))

    def unbind(self, names: Collection[str]) -> None:
        """Unbind those of these names that are bound."""
        bound = [name for name in self.names if name in names]
        if bound:
            self.evaluate("".join(map(unbinding, bound)))


def policy() -> Any:
    """The clocks of this machine, and a sleep that does not wait."""
    offset = datetime.now().astimezone().utcoffset()
    seconds = 0
    if offset is not None:
        seconds = int(offset.total_seconds())
    return {"sleep": "zero", "timezone": {"offset_seconds": seconds}}


def ignore(_: str, __: str) -> None:
    """Discard the printed text of a program that is being ended."""
