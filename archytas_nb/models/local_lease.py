"""A kernel's side of a lease on the embedded model: one open connection that says "I still use you".

Law of this file: it speaks the handshake of `local_server` and nothing else; no HTTP, no files, no processes.
"""

from __future__ import annotations

import contextlib
import hmac
import secrets
import socket

from archytas_nb.models.local_server import HANDSHAKE_SECONDS, proof


class Lease:
    """Held for as long as the model is used; closed by the operating system if this process dies.

    Raises:
        OSError: Nobody listens there, or not the one who knows the key.
    """

    def __init__(self, port: int, key: str) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=HANDSHAKE_SECONDS)
        try:
            self._greet(key)
            self._socket.settimeout(0)  # from here on we only ever look whether it was closed
        except BaseException:
            self._socket.close()
            raise

    def _greet(self, key: str) -> None:
        with self._socket.makefile("r", encoding="ascii", errors="replace", newline="\n") as lines:
            nonces = f"{lines.readline(256).strip()} {secrets.token_hex(16)}"
            self._socket.sendall(f"{nonces.partition(' ')[2]} {proof(key, 'client', nonces)}\n".encode())
            shown = lines.readline(256).strip()
        # Whoever took over a dead server's port must not be sent anybody's notebook.
        if not hmac.compare_digest(shown.encode(), proof(key, "server", nonces).encode()):
            raise ConnectionRefusedError("the listener is not the model's server")

    def is_open(self) -> bool:
        """Whether the server still lives. Never blocks."""
        try:
            return self._socket.recv(1) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self, *, at_once: bool = False) -> None:
        """Give the lease back; ``at_once`` tells a server without other users not to wait for new ones."""
        if at_once:
            with contextlib.suppress(OSError):
                self._socket.sendall(b"q")
        self._socket.close()
