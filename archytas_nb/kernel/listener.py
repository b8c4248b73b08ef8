"""Listens on a port of this machine for other programs, and limits their use of resources.

    bound     the port is taken; connections are refused           made
    open      connections are accepted, at most `MAX_CONNECTIONS`  start
    closed    the port is free, and all connections have ended     stop, or the socket is gone

At the limit no connection is accepted. Programs then wait in the queue of the operating system and
use no files of this process, of which it has a limited number. A connection is

    idle      nobody has shown the token on it, or nothing is being done for it; ended after a while
    busy      its question is being answered
    ended     its socket is closed, or is about to be

No clock decides how long is too long: a process that was stopped, or whose other threads hold it
up, has not had the time to read what it was sent. Idle connections are ended by the number of times
that the listener has looked at them.
"""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

HOST = "127.0.0.1"
MAX_CONNECTIONS = 64
"""How many connections are open at most; a process may have 256 files on some systems."""
_TICK = 0.5  # seconds until the idle connections are looked at again
_TICKS = 20
_TICKS_WHEN_FULL = 2
_SECONDS_TO_STOP = 5.0


class Connection:
    """A connection that a listener has accepted; it is idle at first."""

    def __init__(self, listener: Listener, accepted: socket.socket) -> None:
        self._listener = listener
        self.socket = accepted
        self._lock = threading.Lock()
        self._busy = 0
        self._ticks = 0
        self._has_ended = False

    def begin(self) -> None:
        """Mark it as busy, so that it is not ended before `done`."""
        with self._lock:
            self._busy += 1

    def done(self) -> None:
        """Mark the end of the work that `begin` announced."""
        with self._lock:
            self._busy -= 1
            self._ticks = 0

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Mark it as busy in the block."""
        self.begin()
        try:
            yield
        finally:
            self.done()

    def tick(self, ticks: int) -> None:
        """End it if it was idle for this many ticks."""
        with self._lock:
            self._ticks = 0 if self._busy else self._ticks + 1
            is_over = self._ticks > ticks
        if is_over:
            self.end()

    def end(self) -> None:
        """Shut it down for both sides; the code that serves it then closes it."""
        with self._lock, suppress(OSError):
            if not self._has_ended:  # else its number may be that of another file by now
                self.socket.shutdown(socket.SHUT_RDWR)

    def closing(self) -> None:
        """Record that its socket is closed, so that another connection may be accepted."""
        with self._lock:
            self._has_ended = True
        self._listener.forget(self)

    def close(self) -> None:
        """End it, and close its socket."""
        self.end()
        self.closing()
        self.socket.close()


class Listener:
    """Accepts connections, from `start` until `stop`.

    Args:
        serve: Called with each connection on the thread that accepts; it must not wait. If it
            raises, the connection is closed.
        name: The name of the thread.
        port: The port; 0 for a free one.

    Attributes:
        port: The port.

    Raises:
        OSError: The port is taken.
        OverflowError: There is no such port.
    """

    def __init__(self, serve: Callable[[Connection], None], name: str, port: int = 0) -> None:
        self._serve = serve
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if os.name == "posix":  # elsewhere it would take the port of another process
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # The parts of an answer would wait for each other, 40 ms on Linux. Connections inherit
            # it.
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._socket.bind((HOST, port))
        except BaseException:
            self._socket.close()
            raise
        self.port: int = self._socket.getsockname()[1]
        self._thread = threading.Thread(target=self._accept, name=name, daemon=True)
        self._connections: set[Connection] = set()
        self._changed = threading.Condition()
        self._is_stopped = False
        _listeners.add(self)

    def start(self) -> None:
        """Begin to accept."""
        self._socket.listen()
        self._socket.settimeout(_TICK)
        self._thread.start()

    @property
    def is_open(self) -> bool:
        """Whether connections are accepted."""
        return self._thread.is_alive() and not self._is_stopped

    def stop(self) -> None:
        """Free the port and end the connections; called again, it does nothing."""
        with self._changed:
            self._is_stopped = True
            self._changed.notify_all()
        _listeners.discard(self)
        with suppress(OSError):  # a forked child may have the socket, too
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        for each in self._open():
            each.end()
        if self._thread.is_alive():
            self._thread.join(_SECONDS_TO_STOP)

    def forget(self, connection: Connection) -> None:
        """Count a connection no longer."""
        with self._changed:
            self._connections.discard(connection)
            self._changed.notify_all()

    def close_in_child(self) -> None:
        """Close what a forked child was given, which changes nothing for its parent."""
        self._is_stopped = True
        self._socket.close()
        for each in tuple(self._connections):
            each.socket.close()
        self._connections = set()

    def _open(self) -> list[Connection]:
        with self._changed:
            return list(self._connections)

    def _accept(self) -> None:
        looked = time.monotonic()
        while not self._is_stopped:
            accepted = self._accepted()
            if accepted is not None:
                self._begin(accepted)
            if time.monotonic() - looked >= _TICK:
                looked = time.monotonic()
                every = self._open()
                ticks = _TICKS if len(every) < MAX_CONNECTIONS else _TICKS_WHEN_FULL
                for each in every:
                    each.tick(ticks)
        for each in self._open():
            each.end()

    def _accepted(self) -> socket.socket | None:
        """The next connection; None if there was none for a moment."""
        with self._changed:
            if len(self._connections) >= MAX_CONNECTIONS:
                self._changed.wait(_TICK)
                return None
        try:
            accepted, _ = self._socket.accept()
        except TimeoutError:
            return None
        except OSError:
            # The process has no free file, or the other side has gone: both pass.
            self._is_stopped = self._is_stopped or not self._is_listening()
            with self._changed:
                if not self._is_stopped:
                    self._changed.wait(_TICK)
            return None
        accepted.settimeout(None)
        return accepted

    def _is_listening(self) -> bool:
        """Whether the socket can still accept connections."""
        try:
            return bool(self._socket.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN))
        except OSError:
            return False

    def _begin(self, accepted: socket.socket) -> None:
        connection = Connection(self, accepted)
        with self._changed:
            self._connections.add(connection)
        try:
            self._serve(connection)
        except Exception:  # noqa: BLE001 - no thread can be started, or no memory is left
            connection.close()


_listeners: set[Listener] = set()


def _close_in_child() -> None:
    for each in tuple(_listeners):
        each.close_in_child()
    _listeners.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_close_in_child)
