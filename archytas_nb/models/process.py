"""Finds, starts and shares the engine's process, one for all notebooks of a user.

Three things settle who uses which: a lock (one notebook at a time looks or starts), a state file
that only this user can read (where the process is, and its key), and a lease (see `serve`), which
proves that the file is true and stays so. The engine runs only there: neither its crash nor its
memory is the notebook's.
"""

from __future__ import annotations

import contextlib
import hmac
import http.client
import json
import os
import secrets
import signal
import socket
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archytas_nb.errors import ConfigurationError
from archytas_nb.models import serve
from archytas_nb.models.engine import Engine, log_dir, run_dir, signal_of, start_error
from archytas_nb.models.weights import Progress, locked, silent

POLL_SECONDS = 0.05
END_SECONDS = 2.0
"""How long a process that has ended, or is being ended, may take until that shows."""


class Lease:
    """An open connection to the engine's process, held for as long as the model is used.

    Raises:
        OSError: Nobody listens there.
    """

    def __init__(self, port: int, key: str) -> None:
        self._key = key
        address = ("127.0.0.1", port)
        self._socket = socket.create_connection(address, timeout=serve.HANDSHAKE_SECONDS)
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
        self._socket.settimeout(serve.HANDSHAKE_SECONDS)
        with self._socket.makefile("r", encoding="ascii", errors="replace", newline="\n") as lines:
            nonces = f"{lines.readline(256).strip()} {secrets.token_hex(16)}"
            shown = f"{nonces.partition(' ')[2]} {serve.proof(self._key, 'client', nonces)}\n"
            self._socket.sendall(shown.encode())
            proof, _, port = lines.readline(256).strip().partition(" ")
        # Whoever took over a dead server's port must not be sent anybody's notebook.
        expected = serve.proof(self._key, "server", nonces)
        if not hmac.compare_digest(proof.encode(), expected.encode()):
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


@dataclass(frozen=True, eq=False)
class Server:
    """A server of the engine on which this process holds a lease.

    Attributes:
        base_url: ``http://127.0.0.1:PORT/v1``. Proxies of the environment must not be used for it.
        api_key: The secret of this server process.
        model: The name that the server gives the model.
        log: What the process writes.
    """

    base_url: str
    api_key: str = field(repr=False)
    model: str
    log: Path
    lease: Lease = field(repr=False)
    pid: int
    child: subprocess.Popen[bytes] | None = field(repr=False)  # where this process started it

    def alive(self) -> bool:
        """Whether it lives and is leased. Never blocks."""
        return self.lease.is_open()

    def answers(self, seconds: float) -> bool:
        """Whether it answers anything at all within so many seconds."""
        connection = http.client.HTTPConnection("127.0.0.1", self.lease.port, timeout=seconds)
        try:
            # Answered without a key, and beside whatever the engine reads or writes.
            connection.request("GET", "/health")
            return connection.getresponse().status > 0
        except (OSError, http.client.HTTPException):
            return False
        finally:
            connection.close()

    def kill(self) -> None:
        """End it, for every notebook that uses it, and wait until it is gone."""
        if not self.alive():
            return
        # The lease is open, so this number still is that process.
        with contextlib.suppress(OSError):
            os.kill(self.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        self.wait_for_end()

    def wait_for_end(self, seconds: float = END_SECONDS) -> bool:
        """Whether it is gone within so many seconds: its connections do not end in one moment."""
        deadline = time.monotonic() + seconds
        while (is_alive := self.alive()) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return not is_alive

    def crash(self) -> str:
        """How it ended, once it is gone; see `signal_of`."""
        return signal_of(_status(self.child), self.log)


_held: dict[str, Server] = {}
_children: list[subprocess.Popen[bytes]] = []
_turn = threading.Lock()
"""Held while a server is looked for or started."""


def ensure_server(
    weights: Path, progress: Progress = silent, engine: Engine | None = None
) -> Server:
    """Find or start the server of these weights, and hold on to it.

    Where it is held already this is one look at a socket; where it died, a new one is started.

    Raises:
        ConfigurationError: The engine is not installed, or refused the file of weights.
        ModelError: The server did not come up; the message quotes the end of its log.
    """
    engine = engine or Engine()
    identity, began = engine.identity(weights), time.monotonic()
    while not _turn.acquire(timeout=1.0):  # a question that was interrupted goes on loading
        progress(f"Loading the local model {weights.stem} ({time.monotonic() - began:.0f} s)")
    try:
        held = _held.get(identity)
        if held and held.alive():
            return held
        if held:
            _held.pop(identity).lease.close()
        engine.require()
        held = _held[identity] = _Search(identity, weights, engine, progress).server()
        progress(f"The local model {held.model} is ready ({time.monotonic() - began:.1f} s)")
        return held
    finally:
        _turn.release()


def stop() -> None:
    """Give up every server that this process uses; those that nobody else uses end at once."""
    for identity in list(_held):
        _held.pop(identity).lease.close(at_once=True)
    _reap()


class _Search:
    """One search for a server, or one start of it."""

    def __init__(self, identity: str, weights: Path, engine: Engine, progress: Progress) -> None:
        self._weights = weights
        self._engine = engine
        self._progress = progress
        self._began = time.monotonic()
        self._state = run_dir() / f"{identity}.json"
        self._log = log_dir() / f"local-{identity}.log"

    def server(self) -> Server:
        """Find a live server or start one, and wait until it has loaded its model."""
        waiting = "Waiting for another notebook that starts the local model"
        while True:
            with locked(self._state.with_suffix(".lock"), self._progress, waiting):
                found = self._connect()
                facts, lease = found or self._start()
            # On Windows a virtual environment's Python starts another one, which has the pid.
            child = facts.get("child") or next(
                (child for child in list(_children) if child.pid == facts["pid"]), None
            )
            try:
                self._wait(lease, facts, child)
            except OSError:
                lease.close()
                if found is None:
                    raise self._failed(_status(child)) from None
                serve.remove_state(
                    self._state, facts["api_key"]
                )  # it ended meanwhile, or another program has its port
            except BaseException:
                lease.close()
                raise
            else:
                url, key = f"http://127.0.0.1:{lease.port}/v1", facts["api_key"]
                name, pid = self._weights.stem, facts["pid"]
                return Server(url, key, name, self._log, lease, pid, child)

    def _connect(self) -> tuple[dict[str, Any], Lease] | None:
        """The server that the state file names, perhaps still loading; None where there is none."""
        try:
            facts = json.loads(self._state.read_text(encoding="utf-8"))
            facts |= {"pid": int(facts["pid"]), "age": time.time() - self._state.stat().st_mtime}
            return facts, Lease(facts["lease_port"], facts["api_key"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _start(self) -> tuple[dict[str, Any], Lease]:
        _reap()
        try:
            child = self._spawned()
        except OSError as error:
            raise ConfigurationError(
                f"The local model cannot be started: {error}. It needs room and permission to "
                f"write to {str(self._state.parent)!r} (see XDG_RUNTIME_DIR) and "
                f"{str(self._log.parent)!r}."
            ) from error
        _children.append(child)
        while child.poll() is None:
            if found := self._connect():
                return {**found[0], "child": child}, found[1]
            self._check_time(child)
            time.sleep(POLL_SECONDS)
        raise self._failed(child.wait())

    def _spawned(self) -> subprocess.Popen[bytes]:
        self._state.unlink(missing_ok=True)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # Windows renames no file that is open
            self._log.replace(self._log.with_suffix(".log.1"))
        config = self._state.with_suffix(".config.json")
        facts = {
            "engine": self._engine.module,
            "settings": self._engine.settings(self._weights),
            "state": str(self._state),
            "load_seconds": self._engine.load_seconds,
            "grace_seconds": self._engine.grace_seconds,
        }
        serve.write_private(config, facts)
        log = os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(log, "wb") as out:
            return subprocess.Popen(  # noqa: S603 - our own file, run by our own Python
                # By path and with -P: the child needs nothing of ours on its path, and a file of
                # the user's that is named like a module of Python cannot get in its way.
                [sys.executable, "-P", serve.__file__, str(config)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self._state.parent,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                # Ctrl-C in a terminal and the end of a kernel reach a whole process group.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
                | getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )

    def _wait(
        self, lease: Lease, facts: dict[str, Any], child: subprocess.Popen[bytes] | None
    ) -> None:
        """Wait for the lease; an OSError says that the process has ended, or is another one."""
        shown = -1
        while True:
            waited = time.monotonic() - self._began
            if int(waited) != shown:
                shown = int(waited)
                self._progress(f"Loading the local model {self._weights.stem} ({shown} s)")
            if facts["age"] > self._engine.load_seconds and waited > serve.HANDSHAKE_SECONDS:
                raise ConnectionRefusedError("the model was loaded long ago, and it is silent")
            self._check_time(child, facts)
            if lease.granted(POLL_SECONDS):
                return

    def _check_time(
        self, child: subprocess.Popen[bytes] | None, facts: dict[str, Any] | None = None
    ) -> None:
        """Give up a server that loads for too long."""
        if time.monotonic() - self._began <= self._engine.load_seconds:
            return
        if facts:
            serve.remove_state(self._state, facts["api_key"])
        if child:
            child.kill()
        raise self._failed(None, f"it was not ready after {self._engine.load_seconds:.0f} s")

    def _failed(self, status: int | None, why: str = "") -> Exception:
        return start_error(status, self._log, self._weights, self._engine, why)


def _status(child: subprocess.Popen[bytes] | None) -> int | None:
    """The exit status of a process that is ending; None where another one started it."""
    if child is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return child.wait(timeout=END_SECONDS)
    return None


def _reap() -> None:
    """Collect the children that have ended."""
    _children[:] = [child for child in _children if child.poll() is None]


def _after_fork() -> None:
    # A forked worker must not keep the model alive after its kernel is gone. Closing a copy says
    # nothing to the server; the lease stays the kernel's.
    global _turn  # noqa: PLW0603 - a thread that the worker does not have may hold it
    for held in _held.values():
        held.lease.close()
    _held.clear()
    _children.clear()
    _turn = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
