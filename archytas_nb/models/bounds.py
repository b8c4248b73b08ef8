"""Limits the time and the size of a request, from its first header to its last byte."""

from __future__ import annotations

import contextlib
import json
import socket
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from archytas_nb.effects.ledger import noted_in
from archytas_nb.errors import ModelError
from archytas_nb.loop.events import Json
from archytas_nb.loop.stop import stoppable
from archytas_nb.models import sent
from archytas_nb.models.body import continues
from archytas_nb.models.completion import ServerError
from archytas_nb.models.refusals import EndpointErrors, is_of_transport

_SLACK = 0.005
"""Seconds by which a timeout may fire early."""
_END_SECONDS = 1.0
"""How long the end of a body is waited for after the end of the reply."""
_MAX_WAIT = 1e6
"""Maximum timeout of a socket in seconds."""
MAX_REPLY_BYTES = 64_000_000
"""Maximum bytes of an uncompressed reply: about 200,000 tokens with one event for each."""
MAX_ERROR_BYTES = 1_000_000
"""Maximum bytes that are read of an error's body."""
_ENCODINGS = frozenset({"", "identity", "gzip", "deflate"})
"""Supported content encodings: in others, a few bytes may decompress to gigabytes."""


_as_json = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode
_LISTS = frozenset({"messages", "input", "tools"})
"""The fields of bodies with lists that this package makes."""
_NO_QUERY: Mapping[str, str] = MappingProxyType({})


class Deadline:
    """The deadline of a request, in seconds from now; None for no deadline."""

    def __init__(self, seconds: float | None = None) -> None:
        self.seconds = seconds
        self._at = None
        if seconds is not None:
            self._at = time.monotonic() + seconds

    @property
    def left(self) -> float | None:
        """Seconds left, at least 0; None for no deadline."""
        if self._at is None:
            return None
        return max(0.0, self._at - time.monotonic())

    @property
    def passed(self) -> bool:
        """Whether it has passed."""
        return self._at is not None and self._at - time.monotonic() <= _SLACK

    def cap(self, seconds: float) -> float:
        """The given seconds, or those left if fewer; never 0, which may mean no limit."""
        left = self.left
        if left is None:
            return seconds
        return max(0.001, min(seconds, left))


class BoundedConnection:
    """A client's connection, which is kept open and used for one request at a time.

    The client's own timeouts restart with every byte, so a server that occasionally sends one could
    block the reader forever. They only limit the time to connect; each read and write of the socket
    is limited to the time that is left for the request. `on_request` and `on_response` must be
    hooks of `client`.
    """

    def __init__(
        self, errors: EndpointErrors, base_url: str = "", query: Mapping[str, str] = _NO_QUERY
    ) -> None:
        self.client: Any = None
        self.http: Any = None  # the client's connection
        self._base_url = base_url
        self._query = query
        self._headers: dict[str, str] = {}  # those of the client
        self._parts: tuple[bytes, ...] = ()  # of the body that is sent
        # Its lists, by the names of their fields, with the JSON of their items.
        self._lists: dict[str, tuple[Sequence[Json], tuple[bytes, ...]]] = {}
        self._errors = errors
        self._socket: Any = None
        self._timeout: float
        self._deadline: Deadline
        self._waiting_since = self._waited = 0.0
        self._is_aborted = False

    @contextlib.contextmanager
    def within(self, timeout: float, deadline: Deadline) -> Iterator[None]:
        """Limit the request in the block by a deadline and a maximum of seconds without data."""
        self._timeout = timeout
        self._deadline = deadline
        self._waiting_since = time.monotonic()
        self._waited = 0.0
        self._is_aborted = False
        with stoppable(self.abort):
            yield

    @contextlib.contextmanager
    def send(
        self, path: str, body: Mapping[str, Json], headers: Mapping[str, str], timeouts: Any
    ) -> Iterator[Any]:
        """Send a request; the block has its response.

        Args:
            path: Where it goes, after the base URL.
            body: Its body.
            headers: Its headers, besides those of the client.
            timeouts: The timeouts of the client's library.
        """
        if not self._headers:
            named = self.client.default_headers.items()
            self._headers = {name.lower(): each for name, each in named if isinstance(each, str)}
        self._parts = self._encoded_in_parts(body)
        stream = self.http.stream(
            "POST",
            f"{self._base_url}{path}",
            params=self._query or None,
            content=b"".join(self._parts),
            headers={**self._headers, **headers},
            timeout=timeouts,
        )
        with contextlib.ExitStack() as opened:
            with noted_in(None):  # an agent that a tool asks connects to its endpoint
                response = opened.enter_context(stream)
            yield response

    def _encoded_in_parts(self, body: Mapping[str, Json]) -> tuple[bytes, ...]:
        """A body as JSON, in parts: each item of one of our lists is one.

        A conversation grows, so a list mostly begins with the items of the request before: the same
        objects, which nobody changes. They are not encoded again, and the list of what was sent
        shares them.
        """
        parts = [b"{"]
        lists: dict[str, tuple[Sequence[Json], tuple[bytes, ...]]] = {}
        for place, (name, value) in enumerate(body.items()):
            parts.append(f"{',' if place else ''}{_as_json(name)}:".encode())
            if name not in _LISTS or not isinstance(value, (list, tuple)):
                parts.append(_as_json(value).encode())
                continue
            before, encoded = self._lists.get(name, ((), ()))
            if not continues(value, before):
                before, encoded = (), ()
            new = [f",{_as_json(item)}".encode() for item in value[len(before) :]]
            if new and not encoded:
                new[0] = new[0][1:]
            lists[name] = tuple(value), (*encoded, *new)
            parts += (b"[", *lists[name][1], b"]")
        self._lists = lists
        return (*parts, b"}")

    def abort(self) -> None:
        """Abort the current request, from another thread."""
        self._is_aborted = True
        if self._socket is not None:
            with contextlib.suppress(OSError):
                # Also for TLS, whose own method would interfere with a concurrent read.
                socket.socket.shutdown(self._socket, socket.SHUT_RDWR)

    def on_request(self, request: Any) -> None:
        """The client's hook before a request is sent."""
        request.extensions["trace"] = self._on_event
        url = request.url
        body = request.read()
        parts = self._parts if body == b"".join(self._parts) else (body,)
        sent.requests.record(f"{url.scheme}://{url.netloc.decode()}{url.path}", parts)

    def on_response(self, response: Any) -> None:
        """The client's hook for a response, before its body is read.

        Raises:
            ModelError: Its body has an encoding that was not requested.
            ServerError: Its status is not 2xx. The client would read the whole body of an error.
        """
        encoding = response.headers.get("content-encoding", "").strip()
        is_known = encoding.lower() in _ENCODINGS
        is_error = not 200 <= response.status_code < 300
        body = bytearray()
        if is_known and is_error:
            chunks = response.iter_bytes()
            # An unreadable body must not hide the status.
            with contextlib.suppress(Exception):
                while len(body) < MAX_ERROR_BYTES and (chunk := self._next(chunks)) is not None:
                    body += chunk
        if is_error:
            text = body[:MAX_ERROR_BYTES].decode("utf-8", "replace")
            url = str(response.request.url)
            raise ServerError.from_response(response.status_code, text, response.headers, url)
        if not is_known:
            what = f"compressed its reply as {encoding[:40]!r}, which was not requested"
            raise self._errors.unusable(what)

    def _on_event(self, name: str, info: Any) -> None:
        """The transport's hook, called before and after a connection is opened or encrypted."""
        if name.endswith("connect_tcp.started") and info.get("timeout"):
            # The transport tries the addresses in turn, each with the full timeout.
            with contextlib.suppress(OSError):
                found = socket.getaddrinfo(info["host"], info["port"], type=socket.SOCK_STREAM)
                info["timeout"] /= max(1, len(found))
        elif name.endswith(("connect_tcp.complete", "start_tls.complete")):
            stream = info["return_value"]
            stream.read = self._with_limit(stream.read)
            stream.write = self._with_limit(stream.write)
            self._socket = stream.get_extra_info("socket")
            if self._is_aborted:
                self.abort()

    def _with_limit(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def limited(data: Any, timeout: float | None = None) -> Any:  # noqa: ARG001 - ours counts
            if failure := self.failure():
                raise failure
            left = self._deadline.cap(self._timeout - self._idle_seconds)
            return call(data, min(left, _MAX_WAIT))

        return limited

    @property
    def _idle_seconds(self) -> float:
        """Seconds of waiting without data; the time between two reads does not count."""
        return self._waited + time.monotonic() - self._waiting_since

    def failure(self, during: str = "first byte") -> Exception | None:
        """Why the request was aborted; None if it was not."""
        if self._deadline.passed:
            return self._errors.out_of_time(self._deadline.seconds)
        if self._is_aborted or self._idle_seconds >= self._timeout - _SLACK:
            return self._errors.timed_out(self._timeout, during)
        return None

    def read_body(
        self,
        chunks: Iterator[bytes],
        is_over: Callable[[], bool] = lambda: False,
        most_bytes: int | None = None,
    ) -> Iterator[bytes]:
        """Yield the bytes of a body; raises EOFError if the connection breaks, or ModelError.

        Once `is_over`, the reply is whole. The rest is read only to reuse the connection, so it may
        be missing, and some gateways never send it.
        """
        size = 0
        most = MAX_REPLY_BYTES if most_bytes is None else most_bytes
        self._waited = 0.0
        while True:
            if is_over():
                self._timeout = min(self._timeout, _END_SECONDS)
            try:
                chunk = self._next(chunks)
            except (EOFError, ModelError):
                if not is_over() or self._is_aborted:
                    raise
                return
            if chunk is None:
                return
            if not chunk.startswith((b":", b"\r", b"\n")) and not is_over():
                self._waited = 0.0  # comments in a stream are not data
            size += len(chunk)
            if size > most:
                what = f"sent more than {most:,} bytes for one reply"
                raise self._errors.unusable(f"{what}; the request was aborted")
            yield chunk

    def _next(self, chunks: Iterator[bytes]) -> bytes | None:
        self._waiting_since = time.monotonic()
        try:
            chunk = next(chunks, None)
        except Exception as error:
            # The client converts the transport's errors only before the body.
            if not is_of_transport(error):
                raise
            cause = EOFError(f"{type(error).__name__}: {error}")
            raise self.failure("reply") or cause from None
        if (self._is_aborted or chunk is not None) and (failure := self.failure("reply")):
            raise failure
        self._waited = self._idle_seconds
        return chunk
