"""Runs the engine's server in a separate process as long as a notebook uses it.

It is run by path and imports only the standard library and the engine, so that it works with every
Python of a kernel and cannot import a user's files by accident.

A *lease* is one TCP connection that a kernel holds open while it uses the model. The operating
system closes it when the kernel ends for any reason. At the start of a lease, both sides prove that
they know the key (`multiprocessing.connection`). After that, the client sends nothing, except ``q``
before closing to skip the grace period. The process ends when there has been no lease for
``grace_seconds``, or when none was opened within `STARTUP_SECONDS`.
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
import sys
import threading
import time
import urllib.parse
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

STARTUP_SECONDS = 60.0
"""How long a new process waits for its first notebook."""
CANNOT_IMPORT = 78
"""The exit status if the engine's library cannot be loaded (EX_CONFIG in sysexits.h)."""
_NEEDED = frozenset({"model.path", "n_ctx", "n_parallel", "api_keys"})
"""Required parameters; a later version of the engine may lack any other."""


class Leases:
    """Counts the kernels that use the model; they connect to `port` and must know `key`."""

    def __init__(self, key: str, grace_seconds: float, startup_seconds: float) -> None:
        self._key = key.encode()
        self._grace = grace_seconds
        self._changed = threading.Condition()
        self._count = 0
        # Without a lease, the process ends then.
        self._deadline = time.monotonic() + startup_seconds
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=64)
        self.port: int = self._socket.getsockname()[1]
        threading.Thread(target=self._listen, name="leases", daemon=True).start()

    def wait(self) -> None:
        """Wait until the model is no longer used; new leases are rejected after that."""
        with self._changed:
            while self._count or (left := self._deadline - time.monotonic()) > 0:
                self._changed.wait(None if self._count else left)
            self._count = -1

    def _listen(self) -> None:
        while True:
            peer, _ = self._socket.accept()
            threading.Thread(target=self._serve, args=(peer,), name="lease", daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        last = b""
        failures = (OSError, EOFError, ValueError, AuthenticationError, AssertionError)
        with Connection(peer.detach()) as connection, contextlib.suppress(*failures):
            deliver_challenge(connection, self._key)
            with self._changed:
                if self._count < 0:
                    # The process is shutting down.
                    return
                self._count += 1
            try:
                answer_challenge(connection, self._key)
                while True:
                    last = connection.recv_bytes(16)
            finally:
                with self._changed:
                    self._count -= 1
                    self._deadline = time.monotonic() + (0 if last == b"q" else self._grace)
                    self._changed.notify()


def write_private(path: Path, value: Any) -> None:
    """Write JSON to a file that only the user can read, atomically."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    try:
        with os.fdopen(
            os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
        ) as file:
            json.dump(value, file)
        temporary.replace(path)
    finally:
        temporary.unlink(missing_ok=True)


def configure(parameters: Any, settings: dict[str, Any]) -> None:
    """Set the engine's parameters by dotted names, with enum values by name.

    Raises:
        AttributeError: A required parameter does not exist; any other is skipped.
    """
    for name, value in settings.items():
        *path, last = name.split(".")
        owner = parameters
        try:
            for part in path:
                owner = getattr(owner, part)
            default = getattr(owner, last)
        except AttributeError:
            if name in _NEEDED:
                raise
            sys.stderr.write(f"The engine has no parameter {name!r}; continuing without it.\n")
            continue
        if isinstance(default, enum.Enum):
            value = type(default)[value]  # noqa: PLW2901
        elif isinstance(default, set):
            value = set(value)  # noqa: PLW2901
        setattr(owner, last, value)


def main(config: dict[str, Any]) -> None:
    """Serve until the model is no longer used.

    Args:
        config: ``engine`` (a module with ``CommonParams`` and ``Server``), ``settings`` (for
            `configure`), ``state`` (path of the file that is written once the model is loaded),
            ``load_seconds``, ``grace_seconds``.
    """
    # It logs the signal if the engine crashes. The addresses that it would add since Python 3.14
    # would push the last lines of the engine out of the message.
    if sys.version_info >= (3, 14):
        faulthandler.enable(c_stack=False)
    else:
        faulthandler.enable()
    # Loading blocks the interpreter, so only this watchdog can stop it if it hangs.
    faulthandler.dump_traceback_later(config["load_seconds"], exit=True)
    try:
        engine = importlib.import_module(config["engine"])
    except (ImportError, OSError) as error:
        sys.stderr.write(f"{error}\n")
        sys.exit(CANNOT_IMPORT)
    key = secrets.token_urlsafe(32)
    parameters = engine.CommonParams()
    configure(parameters, {**config["settings"], "api_keys": [key]})
    server = engine.Server(parameters)  # it chooses a free port
    faulthandler.cancel_dump_traceback_later()
    port = urllib.parse.urlsplit(server.listening_address).port
    leases = Leases(key, config["grace_seconds"], STARTUP_SECONDS)
    facts = {"pid": os.getpid(), "port": port, "lease_port": leases.port, "api_key": key}
    write_private(Path(config["state"]), facts)
    leases.wait()
    with contextlib.suppress(OSError):
        # The disk of the log is full.
        sys.stderr.write("The last notebook that used this model has closed; exiting.\n")
    # Not sys.exit, which would wait for a reply that is being generated.
    os._exit(0)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
