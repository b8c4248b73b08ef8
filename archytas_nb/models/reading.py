"""Bounds a request in time and size, from the first byte of a header to the last byte of a body.

A client calls its hooks. It imports no library; of the protocol it uses only that a line which begins with a
colon is a comment.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from typing import Any

from archytas_nb.models import faults
from archytas_nb.models.asking import Faulted
from archytas_nb.models.deadline import Cutoff, Deadline

LONGEST_REPLY = 64_000_000
"""Bytes of a reply that are read; 200,000 tokens, each in an event of its own, are about so many."""

LONGEST_ERROR = 1_000_000
"""Bytes of an error's body that are read; the rest is left where it is."""


class Refused(Exception):
    """The server answered with another status than 2xx.

    Attributes:
        status: The HTTP status.
        url: What was asked.
        headers: The headers, found without regard to case.
        body: The body, as far as it came.
    """

    def __init__(self, status: int, url: str, headers: Mapping[str, str], body: str) -> None:
        super().__init__(status)
        self.status = status
        self.url = url
        self.headers = headers
        self.body = body

    @property
    def data(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return json.loads(self.body)
        except (ValueError, RecursionError):
            return None


class Connection:
    """A client's connection, which is kept open and carries one request at a time.

    Args:
        at: The endpoint, as it may be shown.

    Attributes:
        client: The client whose hooks are `on_request` and `on_response`.
    """

    def __init__(self, at: str) -> None:
        self.client: Any = None
        self._at = at
        self._socket: Any = None
        self._timeout: float
        self._deadline: Deadline
        self._cutoff: Cutoff

    @contextlib.contextmanager
    def within(self, timeout: float, deadline: Deadline) -> Iterator[None]:
        """Bound the request that is made in the block.

        Args:
            timeout: Most seconds without data; headers are none.
            deadline: When it is given up, data or not.
        """
        self._timeout, self._deadline = timeout, deadline
        self._cutoff = Cutoff(deadline, timeout)
        if self._socket is not None:
            self._cutoff.connected(self._socket)
        try:
            yield
        finally:
            self._cutoff.stop()

    def on_request(self, request: Any) -> None:
        """The client's hook for a request that will be sent."""
        request.extensions["trace"] = self._on_event

    def on_response(self, response: Any) -> None:
        """The client's hook for a response whose body was not read yet; a client would read that of an error."""
        if 200 <= response.status_code < 300:
            return
        body, chunks = bytearray(), response.iter_bytes()
        # A body that cannot be read must not hide the status; all of it has the time of a silence.
        with contextlib.suppress(Faulted, EOFError):
            while len(body) < LONGEST_ERROR and (chunk := self._next(chunks)) is not None:
                self._cutoff.got(data=False)
                body += chunk
        text = body[:LONGEST_ERROR].decode("utf-8", "replace")
        raise Refused(response.status_code, str(response.request.url), response.headers, text)

    def _on_event(self, name: str, info: Mapping[str, Any]) -> None:
        """Hear from the transport that a connection was made, or encrypted."""
        if name.endswith(("connect_tcp.complete", "start_tls.complete")):
            self._socket = info["return_value"].get_extra_info("socket")
            self._cutoff.connected(self._socket)

    def fault(self, during: str = "first byte") -> Faulted | None:
        """Why the connection was ended here; None where it was not."""
        if self._deadline.over:
            return Faulted(faults.out_of_time(self._at, self._deadline.seconds))
        if self._cutoff.ended:
            return Faulted(faults.timed_out(self._at, self._timeout, during=during))
        return None

    def received(self, chunks: Iterator[bytes]) -> Iterator[bytes]:
        """Hand on the bytes of a body.

        Servers that keep a connection alive with comments may do so for ever: only data counts as a sign of life.

        Args:
            chunks: The bytes as a client gives them.

        Raises:
            EOFError: The connection broke.
            Faulted: Silence, the deadline, or a body that is too long.
        """
        size = 0
        while (chunk := self._next(chunks)) is not None:
            self._cutoff.got(data=not chunk.startswith((b":", b"\r", b"\n")))
            size += len(chunk)
            if size > LONGEST_REPLY:
                raise Faulted(faults.too_long(self._at, LONGEST_REPLY))
            yield chunk

    def _next(self, chunks: Iterator[bytes]) -> bytes | None:
        self._cutoff.wait()
        try:
            chunk = next(chunks, None)
        except Exception as error:
            # The client translates transport errors before the body only; in it they come as they are.
            if type(error).__module__.split(".")[0] not in (
                "httpx",
                "httpx2",
                "httpcore",
                "httpcore2",
            ):
                raise
            if fault := self.fault("reply"):
                raise fault from None
            if "Timeout" in type(error).__name__:
                raise Faulted(faults.timed_out(self._at, self._timeout, during="reply")) from None
            raise EOFError(f"{type(error).__name__}: {error}") from None
        if self._cutoff.ended or (chunk is not None and self._deadline.over):
            raise self.fault("reply") or EOFError("the connection was ended")
        return chunk
