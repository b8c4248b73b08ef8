"""The process of the embedded model: runs the engine's server for as long as a notebook uses it.

It is run by path, in a process of its own, and imports only the standard library and the engine, so that it works
wherever the kernel's Python works and no file of the user's gets in its way.

A *lease* is one TCP connection that a kernel holds open while it uses the model. The operating system closes it
when the kernel ends, however it ends: a killed kernel frees the model, a dead server is noticed by every kernel
at once, and no file of process ids can be wrong. The process ends when no lease is left for ``grace_seconds``, or
when none came within ``startup_seconds``.

Handshake, one line each way; each side proves that it knows the key before anything else is sent:

    server: nonce₁      client: nonce₂ HMAC(key, "client" nonce₁ nonce₂)      server: HMAC(key, "server" …) port

The first line is sent once the model is loaded: a client that waits for it waits for the model. After the
handshake the client sends nothing, or ``q`` before it closes: then the grace period is skipped.
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
import urllib.parse
from collections.abc import Callable
from pathlib import Path
from typing import Any

HANDSHAKE_SECONDS = 5.0
BACKLOG = 64
CANNOT_IMPORT = 78
"""The exit status where the engine's library cannot be loaded (EX_CONFIG of sysexits.h)."""
_NEEDED = frozenset({"model.path", "n_ctx", "n_parallel", "api_keys"})
"""Parameters without which nothing works; any other may be missing in a later version of the engine."""


def proof(key: str, side: str, nonces: str) -> str:
    """What the named side (``"client"`` or ``"server"``) of a handshake must show: hexadecimal HMAC-SHA-256."""
    return hmac.new(key.encode(), f"{side} {nonces}".encode(), "sha256").hexdigest()


class Leases:
    """Counts the kernels that use the model, and calls ``end`` when there are none.

    Kernels can connect as soon as this is created; they are answered after `open`.

    Args:
        key: The secret that a client must know.
        grace_seconds: How long the model outlives its last user.
        startup_seconds: How long it waits for its first one.
        end: Called once, from a thread of its own, when nobody uses the model any more.

    Attributes:
        port: Where kernels connect.
    """

    def __init__(
        self, key: str, grace_seconds: float, startup_seconds: float, end: Callable[[], None]
    ) -> None:
        self._key = key
        self._grace = grace_seconds
        self._startup = startup_seconds
        self._end = end
        self._lock = threading.Lock()
        self._held = 0
        self._ended = False
        self._timer: threading.Timer | None = None
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self.port: int = self._socket.getsockname()[1]

    def open(self, port: int) -> None:
        """Begin to answer kernels, and tell them the port of the engine's server."""
        with self._lock:
            self._end_in(self._startup)
        threading.Thread(target=self._listen, args=(port,), name="leases", daemon=True).start()

    def _listen(self, port: int) -> None:
        while True:
            peer, _ = self._socket.accept()
            threading.Thread(
                target=self._serve, args=(peer, port), name="lease", daemon=True
            ).start()

    def _serve(self, peer: socket.socket, port: int) -> None:
        with peer:
            try:
                reply = self._greet(peer)
            except (OSError, ValueError):
                return
            if reply is None or not self._take():
                return
            last = b""
            with contextlib.suppress(OSError):
                peer.sendall(f"{reply} {port}\n".encode())
                peer.settimeout(None)
                while data := peer.recv(16):
                    last = data
            self._give_back(at_once=last.endswith(b"q"))

    def _greet(self, peer: socket.socket) -> str | None:
        """Our proof for the peer, once it has given its own; None for a stranger."""
        peer.settimeout(HANDSHAKE_SECONDS)
        ours = secrets.token_hex(16)
        peer.sendall(f"{ours}\n".encode())
        with peer.makefile("r", encoding="ascii", newline="\n") as lines:
            theirs, _, shown = lines.readline(256).strip().partition(" ")
        nonces = f"{ours} {theirs}"
        return (
            proof(self._key, "server", nonces)
            if hmac.compare_digest(shown, proof(self._key, "client", nonces))
            else None
        )

    def _take(self) -> bool:
        with self._lock:
            if self._ended:
                return False
            self._held += 1
            if self._timer is not None:
                self._timer.cancel()
                self._timer = None
            return True

    def _give_back(self, *, at_once: bool) -> None:
        with self._lock:
            self._held -= 1
            if self._held == 0:
                self._end_in(0 if at_once else self._grace)

    def _end_in(self, seconds: float) -> None:
        self._timer = threading.Timer(seconds, self._end_if_unused)
        self._timer.daemon = True
        self._timer.start()

    def _end_if_unused(self) -> None:
        with self._lock:
            # A lease may have come while this timer was already firing.
            if self._held or self._ended:
                return
            self._ended = True
        self._end()


def write_private(path: Path, value: Any) -> None:
    """Write JSON that only this user can read, whole or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(
        os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        json.dump(value, file)
    temporary.replace(path)


def configure(parameters: Any, settings: dict[str, Any]) -> None:
    """Set the engine's parameters; one that this version does not have is skipped, but for the needed ones.

    Args:
        parameters: What the engine takes, with its defaults.
        settings: Values by dotted names, such as ``"cpuparams.n_threads"``; an enumeration's value by its name.

    Raises:
        AttributeError: A needed parameter does not exist.
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

    The configuration is a JSON object: ``engine`` (module with ``CommonParams`` and ``Server``), ``settings``
    (for `configure`), ``state`` (path of the file to write), ``load_seconds``, ``grace_seconds``,
    ``startup_seconds``.
    """
    faulthandler.enable()  # a crash of the engine leaves its name in the log
    config = json.loads(Path(config_path).read_text(encoding="utf-8"))
    state, key = Path(config["state"]), secrets.token_urlsafe(32)

    def forget() -> None:
        # Another server may have taken our place; its file is not ours to remove.
        with contextlib.suppress(OSError, ValueError):
            if json.loads(state.read_text(encoding="utf-8"))["api_key"] == key:
                state.unlink()

    def end() -> None:
        forget()
        try:
            sys.stderr.write("The last notebook that used this model is gone; ending.\n")
        finally:  # also where the log's disk is full
            # Not sys.exit: nobody is left to wait for a reply that is being generated.
            os._exit(0)

    leases = Leases(key, config["grace_seconds"], config["startup_seconds"], end)
    write_private(state, {"pid": os.getpid(), "lease_port": leases.port, "api_key": key})
    try:
        # It keeps Python from running while it loads, so only this watchdog ends one that never gets there.
        faulthandler.dump_traceback_later(config["load_seconds"], exit=True)
        try:
            engine = importlib.import_module(config["engine"])
        except (ImportError, OSError) as error:
            sys.stderr.write(f"{error}\n")
            sys.exit(CANNOT_IMPORT)
        parameters = engine.CommonParams()
        configure(parameters, {**config["settings"], "api_keys": [key]})
        # Returns once the model is loaded, and has then bound a port of its own choice on the loopback interface.
        # No lease is answered before.
        server = engine.Server(parameters)
        faulthandler.cancel_dump_traceback_later()
        leases.open(urllib.parse.urlsplit(server.listening_address).port or 0)
        threading.Event().wait()
    finally:
        forget()


if __name__ == "__main__":
    main(sys.argv[1])
