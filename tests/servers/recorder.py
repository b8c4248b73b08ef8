"""A proxy on 127.0.0.1 that keeps every byte that is sent through it, before anything of it is read."""

from __future__ import annotations

import contextlib
import re
import socket
import threading
from collections.abc import Iterator
from typing import Self
from urllib.parse import urlsplit


class Recorder:
    """Passes connections on to a server.

    It is used in the place of the server (`url`), or as a proxy for any address (`proxy`).

    Args:
        url: The address of the server.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self._to = (parts.hostname or "", parts.port or 0)
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.proxy = f"http://127.0.0.1:{self._socket.getsockname()[1]}"
        self.url = self.proxy + parts.path
        self._connections: list[bytearray] = []
        self._order: list[bytes] = []
        self._open: list[socket.socket] = []
        self._lock = threading.Lock()
        threading.Thread(target=self._accept, daemon=True).start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for each in (self._socket, *self._open):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()

    def forget(self) -> None:
        """Begin anew."""
        with self._lock:
            self._order.clear()
            for each in self._connections:
                each.clear()

    @property
    def sent(self) -> bytes:
        """All that was sent to the server: lines, headers and bodies, in the order of time."""
        with self._lock:
            return b"".join(self._order)

    @property
    def bodies(self) -> list[bytes]:
        """The bodies of the requests; those of one connection are in their order."""
        return [body for _, body in self.requests]

    @property
    def requests(self) -> list[tuple[bytes, bytes]]:
        """The head and the body of each request; those of one connection are in their order."""
        with self._lock:
            return [each for sent in self._connections for each in _requests(bytes(sent))]

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._socket.accept()
            except OSError:  # it was closed
                return
            try:
                server = socket.create_connection(self._to)
            except OSError:
                client.close()
                continue
            for each in (client, server):
                each.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._open += [client, server]
            sent = bytearray()
            with self._lock:
                self._connections.append(sent)
            for way in ((client, server, sent), (server, client, None)):
                threading.Thread(target=self._pass_on, args=way, daemon=True).start()

    def _pass_on(
        self, source: socket.socket, target: socket.socket, sent: bytearray | None
    ) -> None:
        with contextlib.suppress(OSError):
            while part := source.recv(65536):
                if sent is not None:
                    with self._lock:
                        sent += part
                        self._order.append(part)
                    # A client of a proxy names the host in the line of the request.
                    part = re.sub(rb"^((?:POST|GET) )http://[^/ ]+", rb"\1", part)
                target.sendall(part)
        for each in (source, target):
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)


def _requests(sent: bytes) -> Iterator[tuple[bytes, bytes]]:
    while sent:
        head, _, rest = sent.partition(b"\r\n\r\n")
        found = re.search(rb"(?im)^content-length: *(\d+)", head)
        size = int(found[1]) if found else 0
        yield head, rest[:size]
        sent = rest[size:]
