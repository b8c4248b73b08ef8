"""The end of a request's time, kept on the monotonic clock.

Pure but for that clock and for one thing: a `Cutoff` ends a connection, so that its blocked reader wakes up.
"""

from __future__ import annotations

import contextlib
import socket
import threading
import time
from typing import Literal

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


class Cutoff:
    """Ends a connection at a deadline, or when its reader has waited too long for data; the reader wakes up.

    A client's own timeout counts from the last byte, so a server that sends a byte now and then could hold its
    reader for ever.

    Args:
        deadline: When it ends in any case.
        timeout: Most seconds of waiting without data.

    Attributes:
        ended: Why it ended the connection; empty where it has not.
    """

    def __init__(self, deadline: Deadline, timeout: float) -> None:
        self.ended: Literal["", "deadline", "silence"] = ""
        self._deadline = deadline
        self._timeout = timeout
        self._waited = 0.0
        self._since: float | None = time.monotonic()
        self._connection: socket.socket | None = None
        self._over = False
        self._changed = threading.Condition()
        threading.Thread(target=self._keep, name="archytas_nb-cutoff", daemon=True).start()

    def connected(self, connection: socket.socket) -> None:
        """Say which connection it is: there may be another one to a proxy before, or none as yet."""
        with self._changed:
            self._connection = connection
            if self.ended:
                _shut(connection)
        self.wait()

    def wait(self) -> None:
        """The reader waits for data from now on."""
        self._since = time.monotonic()

    def got(self, *, data: bool) -> None:
        """The reader has got something, and does not wait now; only data counts as a sign of life."""
        now, since = time.monotonic(), self._since
        self._since = None
        self._waited = 0.0 if data or since is None else self._waited + now - since

    def stop(self) -> None:
        """The reply is whole, or nobody wants it any more."""
        with self._changed:
            self._over = True
            self._changed.notify()

    def _keep(self) -> None:
        with self._changed:
            while not self._over:
                since = self._since
                left = (
                    self._timeout
                    - self._waited
                    - (0.0 if since is None else time.monotonic() - since)
                )
                if self._deadline.over:
                    self.ended = "deadline"
                elif since is not None and left <= 0:
                    self.ended = "silence"
                if self.ended:
                    if self._connection is not None:
                        _shut(self._connection)
                    return
                # Where nobody waits now, silence cannot become too long before that either.
                self._changed.wait(
                    self._deadline.within(min(max(left, 0.05), threading.TIMEOUT_MAX))
                )


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # The plain method for an encrypted one too: its own would pull the encryption from under the reader.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)
