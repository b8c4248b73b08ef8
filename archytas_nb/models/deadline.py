"""The end of a request's time, kept on the monotonic clock.

Pure but for that clock and for one thing: it can end a connection, so that whoever is blocked on it wakes up.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time

_SLACK = 0.005
"""Seconds; a timeout may fire that much early."""


class Deadline:
    """A moment after which nobody waits any more.

    Args:
        seconds: How far off it is; None for never.
    """

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._at = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds until then, at least 0; None for no end."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether the moment has come."""
        return self._at is not None and self._at - time.monotonic() <= _SLACK

    def within(self, seconds: float) -> float:
        """That many seconds, or what is left where that is less; never 0, which some take for no bound."""
        left = self.left
        return seconds if left is None else max(0.001, min(seconds, left))

    def cut(self, connection: socket.socket) -> threading.Timer:
        """End a connection when the moment comes, whoever is reading from it.

        A client's timeout counts from the last byte, so a server that sends a byte now and then could hold its
        reader for much longer.

        Returns:
            What does it; cancel it once the reply is whole.
        """
        timer = threading.Timer(self.within(threading.TIMEOUT_MAX), _shut, (connection,))
        timer.daemon = True
        timer.start()
        return timer


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # The plain method for an encrypted one too: its own would pull the encryption from under the reader.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
