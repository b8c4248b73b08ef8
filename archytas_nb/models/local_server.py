"""What runs in the child process: the engine's own server, and the leases that keep it alive.

Law of this file: it is run by path, in a process of its own, and imports nothing of ours and nothing but the
standard library, so that it works wherever the kernel's Python works. What the engine is, it reads from its
configuration; the engine's server is run as ``python -m`` would run it.

A *lease* is one TCP connection that a kernel holds open for as long as it uses the model. The operating system
closes it when the kernel ends, however it ends; so a killed kernel frees the model, a dead server is noticed by
every kernel at once, and no file of process ids can lie. The process ends when no lease is left for
``grace_seconds``, or when none came within ``startup_seconds``.

Handshake, one line each way, each side proving that it knows the key before anything is trusted:

    server: nonce₁        client: nonce₂ HMAC(key, "client" nonce₁ nonce₂)        server: HMAC(key, "server" …)

After that the client sends nothing, or ``q`` before it closes: then nobody waits for the grace period.
"""

from __future__ import annotations

import contextlib
import hmac
import importlib
import inspect
import json
import os
import runpy
import secrets
import socket
import sys
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import Any

HANDSHAKE_SECONDS = 5.0
BACKLOG = 64


def proof(key: str, side: str, nonces: str) -> str:
    """What the named side (``"client"`` or ``"server"``) of a handshake must show: hexadecimal HMAC-SHA-256."""
    return hmac.new(key.encode(), f"{side} {nonces}".encode(), "sha256").hexdigest()


class Leases:
    """Counts the kernels that use the model, and calls ``end`` when there are none.

    Args:
        key: The secret that a client must know.
        grace_seconds: How long the model outlives its last user.
        startup_seconds: How long it waits for its first one.
        end: Called once, from a thread of its own, when nobody uses the model any more.
    """

    def __init__(self, key: str, grace_seconds: float, startup_seconds: float, end: Any) -> None:
        self._key = key
        self._grace = grace_seconds
        self._end = end
        self._lock = threading.Lock()
        self._held = 0
        self._ended = False
        self._timer: threading.Timer | None = None
        self._socket = socket.create_server(("127.0.0.1", 0), backlog=BACKLOG)
        self.port: int = self._socket.getsockname()[1]
        with self._lock:
            self._end_in(startup_seconds)
        threading.Thread(target=self._listen, name="leases", daemon=True).start()

    def _listen(self) -> None:
        while True:
            peer, _ = self._socket.accept()
            threading.Thread(target=self._serve, args=(peer,), name="lease", daemon=True).start()

    def _serve(self, peer: socket.socket) -> None:
        with peer:
            try:
                reply = self._greet(peer)
            except (OSError, ValueError):
                return
            if reply is None or not self._take():
                return
            last = b""
            with contextlib.suppress(OSError):
                peer.sendall(f"{reply}\n".encode())
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


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def write_private(path: Path, value: Any) -> None:
    """Write JSON that only this user can read, whole or not at all."""
    temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
    temporary.unlink(missing_ok=True)
    with os.fdopen(
        os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w", encoding="utf-8"
    ) as file:
        json.dump(value, file)
    temporary.replace(path)


def clean_environment(engine: str) -> None:
    """Drop every environment variable that the engine's server would take for a setting of its own.

    llama_cpp.server reads HOST, PORT, MODEL, API_KEY, CACHE, VERBOSE, … (each field of its pydantic settings, in
    any case), and CONFIG_FILE before its command line; uvicorn reads WEB_CONCURRENCY. A notebook server has its
    own reasons to set these.
    """
    names = {"config_file", "host", "port", "web_concurrency"} | set(_settings_fields(engine))
    for name in [name for name in os.environ if name.lower() in names]:
        del os.environ[name]


def _settings_fields(engine: str) -> Iterable[str]:
    try:
        settings = importlib.import_module(f"{engine}.settings")
    except ModuleNotFoundError as error:
        if error.name in (f"{engine}.settings", engine):
            return
        raise
    for _, cls in inspect.getmembers(settings, inspect.isclass):
        yield from (name.lower() for name in getattr(cls, "model_fields", ()))


def improve(library: Any) -> None:
    """Have the engine say what replies cost, and choose tokens sooner; ``library`` is ``llama_cpp``."""
    beside = Path(__file__).parent
    runpy.run_path(str(beside / "local_usage.py"))["count_usage"](library.Llama)
    sampler = getattr(getattr(library, "_internals", None), "LlamaSampler", None)
    if sampler is not None:
        choosing = runpy.run_path(str(beside / "local_sampling.py"))
        choosing["likeliest_first"](library, sampler, sys.modules.get("numpy"))  # the engine has loaded it


def main(config_path: str) -> None:
    """Serve until nobody uses the model.

    The configuration is a JSON object: ``engine`` (module to run), ``server`` and ``model`` (its settings),
    ``state`` (path of the file to write), ``grace_seconds``, ``startup_seconds``.
    """
    config = json.loads(Path(config_path).read_text(encoding="utf-8"))
    state_path = Path(config["state"])
    engine_path = state_path.with_suffix(".engine.json")
    key, port = secrets.token_urlsafe(32), free_port()

    def forget() -> None:
        # Another server may have taken our place; its file is not ours to remove.
        with contextlib.suppress(OSError, ValueError):
            if json.loads(state_path.read_text(encoding="utf-8"))["api_key"] == key:
                state_path.unlink()
                engine_path.unlink()

    def end() -> None:
        sys.stderr.write("The last notebook that used this model is gone; ending.\n")
        forget()
        # Not sys.exit: nobody is left to wait for a reply that is being generated.
        os._exit(0)

    leases = Leases(key, config["grace_seconds"], config["startup_seconds"], end)
    write_private(
        engine_path,
        {**config["server"], "host": "127.0.0.1", "port": port, "api_key": key, "models": [config["model"]]},
    )
    write_private(state_path, {"pid": os.getpid(), "port": port, "lease_port": leases.port, "api_key": key})
    try:
        clean_environment(config["engine"])
        if config["engine"] == "llama_cpp.server":
            improve(importlib.import_module("llama_cpp"))
        sys.argv = [config["engine"], "--config_file", str(engine_path)]
        runpy.run_module(config["engine"], run_name="__main__", alter_sys=True)
    finally:
        forget()


if __name__ == "__main__":
    main(sys.argv[1])
