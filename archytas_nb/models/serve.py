"""Runs the engine's server in a process of its own for as long as a notebook uses it.

It is run by path and imports only the standard library and the engine, so that it works wherever
the kernel's Python works and no file of the user's gets in its way.

A *lease* is one TCP connection that a kernel holds open while it uses the model. The operating
system closes it when the kernel ends, however it ends. The process ends when no lease is left for
``grace_seconds``, or when none came within `STARTUP_SECONDS`. Handshake, one line each way; each
side proves that it knows the key before the port of the engine's server is named:

    server: nonce₁   client: nonce₂ HMAC(key, "client" nonce₁ nonce₂)   server: HMAC(key, …) port

The first line is sent once the model is loaded. After the handshake the client sends nothing, or
``q`` before it closes: then the grace period is skipped.
"""

from __future__ import annotations

import contextlib
import enum
import faulthandler
import hmac
import importlib
import json
import os
import secrets
import socket
import sys
import threading
import time
import urllib.parse
from pathlib import Path
from typing import Any

HANDSHAKE_SECONDS = 5.0
STARTUP_SECONDS = 60.0
"""How long a started process waits for its first notebook."""
BACKLOG = 64
CANNOT_IMPORT = 78
"""The exit status where the engine's library cannot be loaded (EX_CONFIG of sysexits.h)."""
_NEEDED = frozenset({"model.path", "n_ctx", "n_parallel", "api_keys"})
"""Parameters without which nothing works; a later version of the engine may lack any other."""


def proof(key: str, side: str, nonces: str) -> str:
    """The HMAC-SHA-256 that a side (``"client"`` or ``"server"``) of a handshake must show."""
    return hmac.new(key.encode(), f"{side} {nonces}".encode(), "sha256").hexdigest()


class Lease:
    """An open connection to the engine's process, held for as long as the model is used.

    Raises:
        OSError: Nobody listens there.
    """

    def __init__(self, port: int, key: str) -> None:
        self._key = key
        address = ("127.0.0.1", port)
        self._socket = socket.create_connection(address, timeout=HANDSHAKE_SECONDS)
        self.port = 0
        """Where the engine's server listens; 0 until the lease is granted."""

    def granted(self, seconds: float) -> bool:
        """Wait for the lease, which is given once the model is loaded.

        Raises:
            OSError: The process has ended, or the listener does not know the key.
        """
        self._socket.settimeout(seconds)
        try:
            self._socket.recv(1, socket.MSG_PEEK)
        except TimeoutError:
            return False
        self._socket.settimeout(HANDSHAKE_SECONDS)
        with self._socket.makefile("r", encoding="ascii", errors="replace", newline="\n") as lines:
            nonces = f"{lines.readline(256).strip()} {secrets.token_hex(16)}"
            shown = f"{nonces.partition(' ')[2]} {proof(self._key, 'client', nonces)}\n"
            self._socket.sendall(shown.encode())
            theirs, _, port = lines.readline(256).strip().partition(" ")
        # Whoever took over a dead server's port must not be sent anybody's notebook.
        expected = proof(self._key, "server", nonces)
        if not hmac.compare_digest(theirs.encode(), expected.encode()):
            raise ConnectionRefusedError("the listener is not the model's server")
        self.port = int(port)
        self._socket.settimeout(0)  # from here on it is only looked at
        return True

    def is_open(self) -> bool:
        """Whether the process still lives. Never blocks."""
        try:
            return self._socket.recv(1) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self, *, at_once: bool = False) -> None:
        """Give the lease back; `at_once` skips the grace period where it was the last one."""
        if at_once:
            with contextlib.suppress(OSError):
                self._socket.sendall(b"q")
        self._socket.close()


class Leases:
    """Counts the kernels that use the model. They can connect at once, and are answered in `run`.

    Args:
        key: The secret that a client must know.
        grace_seconds: How long the model outlives its last user.
        startup_seconds: How long it waits for its first one.

    Attributes:
        port: Where kernels connect.
    """

    def __init__(self, key: str, grace_seconds: float, startup_seconds: float) -> None:
        self._key = key
        self._grace = grace_seconds
        self._startup = startup_seconds
        self._changed = threading.Condition()
        self._held = 0
        self._until: float | None = None  # when it ends, where nobody comes before
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self.port: int = self._socket.getsockname()[1]

    def run(self, port: int) -> None:
        """Answer kernels with the port of the engine's server, until nobody uses the model."""
        with self._changed:
            self._until = time.monotonic() + self._startup
            threading.Thread(target=self._listen, args=(port,), name="leases", daemon=True).start()
            while self._held or (left := self._until - time.monotonic()) > 0:
                self._changed.wait(None if self._held else left)
            self._held = -1

    def _listen(self, port: int) -> None:
        while True:
            peer, _ = self._socket.accept()
            args = (peer, port)
            threading.Thread(target=self._serve, args=args, name="lease", daemon=True).start()

    def _serve(self, peer: socket.socket, port: int) -> None:
        last = b""
        with peer, contextlib.suppress(OSError, ValueError):
            reply = self._greet(peer)
            with self._changed:
                if reply is None or self._held < 0:  # a stranger, or the end has begun
                    return
                self._held += 1
                self._changed.notify()
            with contextlib.suppress(OSError):
                peer.sendall(f"{reply} {port}\n".encode())
                peer.settimeout(None)
                while data := peer.recv(16):
                    last = data
            with self._changed:
                self._held -= 1
                grace = 0 if last.endswith(b"q") else self._grace
                self._until = time.monotonic() + grace
                self._changed.notify()

    def _greet(self, peer: socket.socket) -> str | None:
        """Our proof for the peer, once it has given its own; None for a peer without the key."""
        peer.settimeout(HANDSHAKE_SECONDS)
        nonce = secrets.token_hex(16)
        peer.sendall(f"{nonce}\n".encode())
        with peer.makefile("r", encoding="ascii", newline="\n") as lines:
            theirs, _, shown = lines.readline(256).strip().partition(" ")
        nonces = f"{nonce} {theirs}"
        is_ours = hmac.compare_digest(shown, proof(self._key, "client", nonces))
        return proof(self._key, "server", nonces) if is_ours else None


def write_private(path: Path, value: Any) -> None:
    """Write JSON that only this user can read, whole or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(
        os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        json.dump(value, file)
    temporary.replace(path)


def remove_state(state: Path, key: str) -> None:
    """Remove a state file, unless another server has written it meanwhile."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
        if json.loads(state.read_text(encoding="utf-8"))["api_key"] == key:
            state.unlink()


def configure(parameters: Any, settings: dict[str, Any]) -> None:
    """Set the engine's parameters by dotted names, values of enumerations by their names.

    Raises:
        AttributeError: A needed parameter does not exist; any other is skipped.
    """
    for name, value in settings.items():
        owner = parameters
        *path, last = name.split(".")
        try:
            for part in path:
                owner = getattr(owner, part)
            default = getattr(owner, last)
        except AttributeError:
            if name in _NEEDED:
                raise
            sys.stderr.write(
                f"This version of the engine has no parameter {name!r}; going on without it.\n"
            )
            continue
        if isinstance(default, enum.Enum):
            setattr(owner, last, type(default)[value])
        else:
            setattr(owner, last, set(value) if isinstance(default, set) else value)


def main(config_path: str) -> None:
    """Serve until nobody uses the model.

    The configuration is a JSON object: ``engine`` (a module with ``CommonParams`` and ``Server``),
    ``settings`` (for `configure`), ``state`` (path of the file to write), ``load_seconds``,
    ``grace_seconds``.
    """
    faulthandler.enable()  # a crash of the engine leaves its name in the log
    config = json.loads(Path(config_path).read_text(encoding="utf-8"))
    state, key = Path(config["state"]), secrets.token_urlsafe(32)
    leases = Leases(key, config["grace_seconds"], STARTUP_SECONDS)
    write_private(state, {"pid": os.getpid(), "lease_port": leases.port, "api_key": key})
    try:
        # Loading keeps Python from running, so only this watchdog ends one that does not.
        faulthandler.dump_traceback_later(config["load_seconds"], exit=True)
        try:
            engine = importlib.import_module(config["engine"])
        except (ImportError, OSError) as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(CANNOT_IMPORT)
        parameters = engine.CommonParams()
        configure(parameters, {**config["settings"], "api_keys": [key]})
        # Returns once the model is loaded and a loopback port of its choice is bound.
        server = engine.Server(parameters)
        faulthandler.cancel_dump_traceback_later()
        leases.run(urllib.parse.urlsplit(server.listening_address).port or 0)
    finally:
        remove_state(state, key)
    with contextlib.suppress(OSError):  # of a log whose disk is full
        sys.stderr.write("The last notebook that used this model is gone; ending.\n")
    os._exit(0)  # not sys.exit, which would wait for a reply that is being generated


if __name__ == "__main__":
    main(sys.argv[1])
