"""Runs the engine's server in a process of its own for as long as a notebook uses it.

It is run by path and imports only the standard library and the engine, so that it works wherever
the kernel's Python works and no file of the user's gets in its way.

A *lease* is one TCP connection that a kernel holds open while it uses the model. The operating
system closes it when the kernel ends, however it ends. The process ends when no lease is left for
``grace_seconds``, or when none came within `STARTUP_SECONDS`. A lease begins, once the model is
loaded, with both sides proving that they know the key (`multiprocessing.connection`); then the
server names the port of the engine. The client sends nothing after that, or ``q`` before it closes:
then the grace period is skipped.
"""

from __future__ import annotations

import contextlib
import enum
import faulthandler
import importlib
import json
import os
import secrets
import socket
import struct
import sys
import threading
import time
import urllib.parse
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
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


class Lease:
    """An open connection to the engine's process, held for as long as the model is used.

    Raises:
        OSError: Nobody listens there.
    """

    def __init__(self, port: int, key: str) -> None:
        self._key = key.encode()
        connection = socket.create_connection(("127.0.0.1", port), timeout=HANDSHAKE_SECONDS)
        connection.settimeout(None)
        if os.name == "posix":  # for the handshake; the other side may fall silent in it
            limit = struct.pack("ll", int(HANDSHAKE_SECONDS), 0)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
        self._connection = Connection(connection.detach())
        self.port = 0
        """Where the engine's server listens; 0 until the lease is granted."""

    def granted(self, seconds: float) -> bool:
        """Wait for the lease, which is given once the model is loaded.

        Raises:
            OSError: The process has ended, or the listener does not know the key.
        """
        if not self._connection.poll(seconds):
            return False
        try:
            answer_challenge(self._connection, self._key)
            # Whoever took over a dead server's port must not be sent anybody's notebook.
            deliver_challenge(self._connection, self._key)
            self.port = int(self._connection.recv_bytes(16))
        except (AuthenticationError, AssertionError, EOFError, ValueError) as error:
            text = "the listener is not the model's server"
            raise ConnectionRefusedError(text) from error
        return True

    def is_open(self) -> bool:
        """Whether the process still lives. Never blocks."""
        try:
            return not self._connection.poll(0)
        except OSError:
            return False

    def close(self, *, at_once: bool = False) -> None:
        """Give the lease back; `at_once` skips the grace period where it was the last one."""
        if at_once:
            with contextlib.suppress(OSError):
                self._connection.send_bytes(b"q")
        self._connection.close()


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
        self._key = key.encode()
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
        failures = (OSError, EOFError, ValueError, AuthenticationError, AssertionError)
        with Connection(peer.detach()) as connection, contextlib.suppress(*failures):
            deliver_challenge(connection, self._key)
            answer_challenge(connection, self._key)
            with self._changed:
                if self._held < 0:  # the end has begun
                    return
                self._held += 1
                self._changed.notify()
            with contextlib.suppress(OSError, EOFError):
                connection.send_bytes(str(port).encode())
                while True:
                    last = connection.recv_bytes(16)
            with self._changed:
                self._held -= 1
                self._until = time.monotonic() + (0 if last == b"q" else self._grace)
                self._changed.notify()


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
                f"This version of the engine has no parameter {name!r}; continuing without it.\n"
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
        sys.stderr.write("The last notebook that used this model has closed; exiting.\n")
    os._exit(0)  # not sys.exit, which would wait for a reply that is being generated


if __name__ == "__main__":
    main(sys.argv[1])
