"""Limits the time and the size of a request, from its first header to the last byte of its body."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
import time
from collections.abc import Iterator
from typing import Any, Literal

from archytas_nb.loop.stop import stoppable
from archytas_nb.models.completion import ServerError
from archytas_nb.models.refusals import EndpointErrors

_SLACK = 0.005
"""Seconds; a timeout may fire that much early."""
LONGEST_REPLY = 64_000_000
"""Maximum bytes of a reply, uncompressed; 200,000 tokens in an event each are about that."""
LONGEST_ERROR = 1_000_000
"""Bytes of an error's body that are read."""
_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
"""Content encodings that are read: a few bytes of any other may stand for gigabytes."""


class Deadline:
    """The end of a request's time on the monotonic clock, in so many seconds; None for no end."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._at = None if seconds is None else time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds until then, at least 0; None for no end."""
        return None if self._at is None else max(0.0, self._at - time.monotonic())

    @property
    def over(self) -> bool:
        """Whether it has passed."""
        return self._at is not None and self._at - time.monotonic() <= _SLACK

    def within(self, seconds: float) -> float:
        """The smaller of these seconds and those left; never 0, which may mean no limit."""
        left = self.left
        return seconds if left is None else max(0.001, min(seconds, left))


class Cutoff:
    """Shuts a connection down at a deadline, or after its reader waited too long for data.

    The client's own timeouts begin again with each byte, so that a server that sends one now and
    then could block its reader for ever: only the time to connect is left to them.

    Args:
        deadline: When it is shut down in any case.
        timeout: Maximum seconds of waiting without data.

    Attributes:
        ended: Why it was shut down; empty where it was not.
    """

    def __init__(self, deadline: Deadline, timeout: float) -> None:
        self.ended: Literal["", "deadline", "silence", "cut"] = ""
        self._deadline = deadline
        self._timeout = timeout
        self._waited = 0.0
        self._since: float | None = time.monotonic()
        self._connection: socket.socket | None = None
        _watch.add(self)

    def connected(self, connection: socket.socket) -> None:
        """Name the connection; with a proxy there are two, one after the other."""
        with _watch.lock:
            self._connection = connection
            if self.ended:
                _shut(connection)
        self.wait()

    def wait(self) -> None:
        """The reader waits for data from now on."""
        self._since = time.monotonic()

    def got(self, *, data: bool) -> None:
        """The reader got something and does not wait now; only data resets the time waited."""
        now, since = time.monotonic(), self._since
        self._since = None
        self._waited = 0.0 if data or since is None else self._waited + now - since

    def cut(self, why: Literal["deadline", "silence", "cut"] = "cut") -> None:
        """Shut the connection down now, or as soon as there is one."""
        with _watch.lock:
            self.ended = self.ended or why
            if self._connection is not None:
                _shut(self._connection)
        self.stop()

    def stop(self) -> None:
        """The request is over."""
        _watch.remove(self)

    def look(self) -> float:
        """Shut the connection down where it is time to; else the seconds until the next look."""
        since = self._since
        waiting = 0.0 if since is None else time.monotonic() - since
        left = self._timeout - self._waited - waiting
        if self._deadline.over:
            self.cut("deadline")
        elif since is not None and left <= 0:
            self.cut("silence")
        # Where nothing is waited for now, the silence cannot become too long before that.
        return self._deadline.within(max(left, 0.05))


class _Watch:
    """Looks after all requests of the process on one thread: to start one each would cost more."""

    IDLE = 30.0
    """Seconds without a request after which the thread ends."""

    def __init__(self) -> None:
        self.lock = (
            threading.RLock()
        )  # an interrupt in a `with` of a condition would leave it locked
        self._wake = threading.Condition(self.lock)
        self._cutoffs: set[Cutoff] = set()
        self._thread: threading.Thread | None = None
        self._next = 0.0

    def add(self, cutoff: Cutoff) -> None:
        with self.lock:
            self._cutoffs.add(cutoff)
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="archytas_nb-cutoff", daemon=True
                )
                self._thread.start()
            elif time.monotonic() + cutoff.look() < self._next:
                self._wake.notify()

    def remove(self, cutoff: Cutoff) -> None:
        with self.lock:
            self._cutoffs.discard(cutoff)

    def _run(self) -> None:
        with self.lock:
            while True:
                pauses = [each.look() for each in list(self._cutoffs)]
                pause = min([*pauses, self.IDLE])
                self._next = time.monotonic() + pause
                if not self._wake.wait(pause) and not self._cutoffs:
                    self._thread = None
                    return


_watch = _Watch()


def _after_fork() -> None:
    global _watch  # noqa: PLW0603 - a child has neither the thread nor a lock that is free
    _watch = _Watch()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _shut(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):
        # Also for TLS: its own method would remove the encryption while the reader uses it.
        socket.socket.shutdown(connection, socket.SHUT_RDWR)


class Connection:
    """A client's connection, which is kept open and carries one request at a time.

    Args:
        errors: Makes the errors of its endpoint.

    Attributes:
        client: The client whose hooks are `on_request` and `on_response`.
    """

    def __init__(self, errors: EndpointErrors) -> None:
        self.client: Any = None
        self._errors = errors
        self._socket: Any = None
        self._timeout: float
        self._deadline: Deadline
        self._cutoff: Cutoff

    @contextlib.contextmanager
    def within(self, timeout: float, deadline: Deadline) -> Iterator[None]:
        """Limit the request that is made in the block to a deadline and to seconds without data."""
        self._timeout, self._deadline = timeout, deadline
        self._cutoff = Cutoff(deadline, timeout)
        if self._socket is not None:
            self._cutoff.connected(self._socket)
        try:
            with stoppable(self._cutoff.cut):
                yield
        finally:
            self._cutoff.stop()

    def cut(self) -> None:
        """End the request that is going on, from another thread."""
        self._cutoff.cut()

    def on_request(self, request: Any) -> None:
        """The client's hook for a request that will be sent."""
        request.extensions["trace"] = self._on_event

    def on_response(self, response: Any) -> None:
        """The client's hook for a response whose body was not read yet.

        Raises:
            RequestError: Its body has an encoding that was not asked for.
            ServerError: Its status is not 2xx. A client would read all of an error's body.
        """
        encoding = response.headers.get("content-encoding", "").strip().lower()
        is_error, body = not 200 <= response.status_code < 300, bytearray()
        if encoding in _ENCODINGS and is_error:
            chunks = response.iter_bytes()
            # A body that cannot be read must not hide the status.
            with contextlib.suppress(Exception):
                while len(body) < LONGEST_ERROR and (chunk := self._next(chunks)) is not None:
                    self._cutoff.got(data=False)
                    body += chunk
        if is_error:
            text, url = body[:LONGEST_ERROR].decode("utf-8", "replace"), str(response.request.url)
            raise ServerError.of(response.status_code, text, response.headers, url)
        if encoding not in _ENCODINGS:
            what = f"compressed its reply as {encoding[:40]!r}, which was not requested"
            raise self._errors.unusable(what)

    def _on_event(self, name: str, info: Any) -> None:
        """A transport's hook, called before and after a connection is made or encrypted."""
        if name.endswith("connect_tcp.started") and info.get("timeout"):
            # The transport tries one address after another, each for the whole time.
            with contextlib.suppress(OSError):
                found = socket.getaddrinfo(info["host"], info["port"], type=socket.SOCK_STREAM)
                info["timeout"] /= max(1, len(found))
        elif name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")
            self._cutoff.connected(self._socket)

    def failure(self, during: str = "first byte") -> Exception | None:
        """Why the request was ended here; None where it was not."""
        if self._deadline.over:
            return self._errors.out_of_time(self._deadline.seconds)
        if self._cutoff.ended:
            return self._errors.timed_out(self._timeout, during)
        return None

    def received(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Hand on the bytes of a body. Comments of a stream, which keep it alive, are no data.

        Raises:
            EOFError: The connection broke.
            RequestError: Silence, the deadline, or a body that is too long.
        """
        size = 0
        while (chunk := self._next(chunks)) is not None:
            self._cutoff.got(data=not chunk.startswith((b":", b"\r", b"\n")))
            size += len(chunk)
            if size > LONGEST_REPLY:
                what = (
                    f"sent more than {LONGEST_REPLY:,} bytes for one reply; the request was aborted"
                )
                raise self._errors.unusable(what)
            yield chunk

    def _next(self, chunks: Iterator[bytes]) -> bytes | None:
        self._cutoff.wait()
        try:
            chunk = next(chunks, None)
        except Exception as error:
            # The client translates the transport's errors before the body only.
            if type(error).__module__.split(".")[0].rstrip("2") not in ("httpx", "httpcore"):
                raise
            cause = EOFError(f"{type(error).__name__}: {error}")
            raise self.failure("reply") or cause from None
        if self._cutoff.ended or (chunk is not None and self._deadline.over):
            raise self.failure("reply") or EOFError("the connection was closed")
        return chunk
