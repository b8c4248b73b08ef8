"""Finds, starts and shares the process of the embedded model, one for all notebooks of a user.

Three things settle who uses which: a lock (one notebook at a time looks or starts), a state file that only this
user can read (where the process is, and its key), and a lease (see `serve`), which proves that the file is true
now and stays so. The engine is never loaded here.
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
import tempfile
import threading
import time
import urllib.parse
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from archytas_nb._version import __version__
from archytas_nb.errors import ConfigurationError
from archytas_nb.models import serve
from archytas_nb.models.crashes import signal_of, start_error
from archytas_nb.models.engine import Engine
from archytas_nb.models.weights import Progress, silent

POLL_SECONDS = 0.05
END_SECONDS = 2.0
"""How long a process that has ended, or is being ended, may take until that shows."""
REMEMBERED_SECONDS = 86_400.0
"""How long a crash keeps later notebooks in safe mode; the cause may be gone by then."""


@dataclass(frozen=True)
class Endpoint:
    """Where the embedded model answers.

    Attributes:
        base_url: ``http://127.0.0.1:PORT/v1``. Proxies of the environment must not be used for it.
        api_key: The secret of this server process; not shown.
        model: The name that the server gives the model.
        context: Tokens that a conversation and its reply may have together.
    """

    base_url: str
    api_key: str = field(repr=False)
    model: str
    context: int


class Lease:
    """One open connection to the process of the model, held for as long as the model is used.

    Raises:
        OSError: Nobody listens there.
    """

    def __init__(self, port: int, key: str) -> None:
        self._key = key
        self._socket = socket.create_connection(
            ("127.0.0.1", port), timeout=serve.HANDSHAKE_SECONDS
        )
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
        if not hmac.compare_digest(
            proof.encode(), serve.proof(self._key, "server", nonces).encode()
        ):
            raise ConnectionRefusedError("the listener is not the model's server")
        self.port = int(port)
        self._socket.settimeout(0)  # from here on we only ever look whether it was closed
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
        """Give the lease back; ``at_once`` tells a process without other users not to wait for new ones."""
        if at_once:
            with contextlib.suppress(OSError):
                self._socket.sendall(b"q")
        self._socket.close()


@dataclass
class _Held:
    """A server on which this process holds a lease."""

    endpoint: Endpoint
    lease: Lease
    pid: int
    log: Path
    process: subprocess.Popen[bytes] | None  # where it was this kernel that started it


_held: dict[str, _Held] = {}
_children: list[subprocess.Popen[bytes]] = []
_turn = threading.Lock()
"""Held while a server is looked for or started."""


def ensure_server(
    weights: Path, progress: Progress = silent, engine: Engine | None = None
) -> Endpoint:
    """Find or start the server of these weights, and hold on to it.

    Cheap when it is already held: one look at a socket. When the server died, a new one is started.

    Args:
        weights: The path of a GGUF file.
        progress: Is told what is being waited for.
        engine: How to run it; None for the defaults.

    Returns:
        Where to send requests. The address changes when the server had to be started again.

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
        if held and held.lease.is_open():
            return held.endpoint
        if held:
            held.lease.close()
            del _held[identity]
        engine.require()
        held = _held[identity] = _Search(identity, weights, engine, progress).hold()
        progress(
            f"The local model {held.endpoint.model} is ready ({time.monotonic() - began:.1f} s)"
        )
        return held.endpoint
    finally:
        _turn.release()


def alive(endpoint: Endpoint) -> bool:
    """Whether this process holds a lease on that server, and the server lives. Never blocks."""
    held = _holding(endpoint)
    return held is not None and held.lease.is_open()


def answers(endpoint: Endpoint, seconds: float) -> bool:
    """Whether a server answers anything at all within so many seconds."""
    address = urllib.parse.urlsplit(endpoint.base_url)
    connection = http.client.HTTPConnection(address.hostname or "", address.port, timeout=seconds)
    try:
        # Answered without a key, and beside whatever the engine reads or writes.
        connection.request("GET", "/health")
        return connection.getresponse().status > 0
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


def kill(endpoint: Endpoint) -> None:
    """End a server that does not answer any more, for every notebook that uses it, and wait until it is gone."""
    held = _holding(endpoint)
    if held is None or not held.lease.is_open():
        return
    # The lease is open, so the process that this number names is still that server.
    with contextlib.suppress(OSError):
        os.kill(held.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
    wait_for_end(endpoint)


def wait_for_end(endpoint: Endpoint, seconds: float = END_SECONDS) -> bool:
    """Wait until a server is gone: its connections do not all end in the same moment.

    Returns:
        Whether it is.
    """
    deadline = time.monotonic() + seconds
    while (is_alive := alive(endpoint)) and time.monotonic() < deadline:
        time.sleep(POLL_SECONDS)
    return not is_alive


def crash_of(endpoint: Endpoint) -> tuple[str, Path]:
    """How a server that is gone ended, and where its log is.

    Returns:
        A signal's name such as ``"SIGSEGV"``, ``"exit status 3"``, or empty where that is not known; the log.
    """
    held = _holding(endpoint)
    if held is None:
        return "", log_dir()
    return signal_of(_status(held.process), held.log), held.log


def stop() -> None:
    """Give up every embedded model that this process uses; those that nobody else uses end at once."""
    for identity in list(_held):
        _held.pop(identity).lease.close(at_once=True)
    _reap()


def log_dir() -> Path:
    """Where the engine's logs are kept, the last one and the one before."""
    import platformdirs

    return Path(platformdirs.user_log_dir("archytas-nb", appauthor=False))


# ── what was tried ────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Tried:
    """A model that has answered on this machine, with this version and this version of the engine.

    Attributes:
        seconds: How long its first reply took, loading included.
        crash: The signal that it had died of before, so that it answered in safe mode; empty where it had not.
    """

    seconds: float
    crash: str = ""


def tried(weights: Path, engine: Engine) -> Tried | None:
    """Whether this model has answered here; None where it was not tried, or crashed too long ago."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, ConfigurationError):
        path = _tried_file(weights, engine)
        facts = json.loads(path.read_text(encoding="utf-8"))
        known = Tried(float(facts["seconds"]), str(facts["crash"]))
        is_old = known.crash and time.time() - path.stat().st_mtime > REMEMBERED_SECONDS
        return known if facts["version"] == __version__ and not is_old else None
    return None


def note_tried(weights: Path, engine: Engine, result: Tried) -> None:
    """Remember that a model has answered, for `tried`; ``engine`` is the one that was asked for first."""
    with contextlib.suppress(OSError, ConfigurationError):
        facts = {"version": __version__, "seconds": result.seconds, "crash": result.crash}
        serve.write_private(_tried_file(weights, engine), facts)


def forget_tried(weights: Path, engine: Engine) -> None:
    """Forget what `note_tried` has kept."""
    with contextlib.suppress(OSError, ConfigurationError):
        _tried_file(weights, engine).unlink(missing_ok=True)


def _tried_file(weights: Path, engine: Engine) -> Path:
    return run_dir() / f"{engine.identity(weights)}.tried.json"


# ── finding or starting ───────────────────────────────────────────────────────────────────────────


class _Search:
    """One search for a server, or one start of it."""

    def __init__(self, identity: str, weights: Path, engine: Engine, progress: Progress) -> None:
        self._weights = weights
        self._engine = engine
        self._progress = progress
        self._began = time.monotonic()
        self._shown = -1
        self._state = run_dir() / f"{identity}.json"
        self._log = log_dir() / f"local-{identity}.log"

    def hold(self) -> _Held:
        """Find a live server or start one, and wait until it has loaded its model."""
        while True:
            with _locked(self._state.with_suffix(".lock"), self._progress):
                found = self._connect()
                facts, lease = found or self._start()
            try:
                self._wait(lease, facts)
            except OSError:
                lease.close()
                if found is None:
                    raise self._failed(_status(_child(facts))) from None
                # It ended while we waited, for whatever reason, or it is a stranger at its port.
                self._forget(facts)
                continue
            except BaseException:
                lease.close()
                raise
            url = f"http://127.0.0.1:{lease.port}/v1"
            endpoint = Endpoint(url, facts["api_key"], self._weights.stem, self._engine.context)
            return _Held(endpoint, lease, facts["pid"], self._log, _child(facts))

    def _connect(self) -> tuple[dict[str, Any], Lease] | None:
        """The server that the state file names, perhaps still loading; None where there is no such server."""
        try:
            facts = json.loads(self._state.read_text(encoding="utf-8"))
            age = time.time() - self._state.stat().st_mtime
            return {**facts, "pid": int(facts["pid"]), "age": age}, Lease(
                facts["lease_port"], facts["api_key"]
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _start(self) -> tuple[dict[str, Any], Lease]:
        _reap()
        try:
            process = self._spawned()
        except OSError as error:
            raise ConfigurationError(
                f"The local model cannot be started: {error}. It needs room and permission to write to "
                f"{str(self._state.parent)!r} (see XDG_RUNTIME_DIR) and {str(self._log.parent)!r}."
            ) from error
        _children.append(process)
        while process.poll() is None and not self._is_late():
            if found := self._connect():
                return {**found[0], "child": process}, found[1]
            time.sleep(POLL_SECONDS)
        if process.poll() is None:
            process.kill()
            raise self._failed(None, f"it was not ready after {self._engine.load_seconds:.0f} s")
        raise self._failed(process.wait())

    def _spawned(self) -> subprocess.Popen[bytes]:
        self._state.unlink(missing_ok=True)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(
            OSError
        ):  # Windows does not rename what a process that hangs has open
            self._log.replace(self._log.with_suffix(".log.1"))
        config = self._state.with_suffix(".config.json")
        serve.write_private(
            config,
            {
                "engine": self._engine.module,
                "settings": self._engine.settings(self._weights),
                "state": str(self._state),
                "load_seconds": self._engine.load_seconds,
                "grace_seconds": self._engine.grace_seconds,
                "startup_seconds": self._engine.startup_seconds,
            },
        )
        with os.fdopen(
            os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb"
        ) as out:
            return subprocess.Popen(  # noqa: S603 - our own file, run by our own Python
                # By path and with -P: the child needs nothing of ours on its path, and a file of the user's
                # that is named like a module of the standard library cannot get in its way.
                [sys.executable, "-P", serve.__file__, str(config)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self._state.parent,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                # Ctrl-C in a terminal reaches a whole process group, and a kernel that shuts down ends its own.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
                | getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )

    def _wait(self, lease: Lease, facts: dict[str, Any]) -> None:
        """Wait for the lease; an OSError says that the process has ended, or is not the one that is meant."""
        granted = False
        while not granted:
            waited = time.monotonic() - self._began
            if (seconds := int(waited)) != self._shown:
                self._shown = seconds
                self._progress(f"Loading the local model {self._weights.stem} ({seconds} s)")
            if facts["age"] > self._engine.load_seconds and waited > serve.HANDSHAKE_SECONDS:
                raise ConnectionRefusedError(
                    "the listener is silent, and the model was loaded long ago"
                )
            if self._is_late():
                self._forget(facts)
                if child := _child(facts):
                    child.kill()
                raise self._failed(
                    None, f"it was not ready after {self._engine.load_seconds:.0f} s"
                )
            granted = lease.granted(POLL_SECONDS)

    def _is_late(self) -> bool:
        return time.monotonic() - self._began > self._engine.load_seconds

    def _failed(self, status: int | None, why: str = "") -> Exception:
        return start_error(status, self._log, self._weights, self._engine, why)

    def _forget(self, facts: dict[str, Any]) -> None:
        """Remove the state file, where it is still that of this server."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if json.loads(self._state.read_text(encoding="utf-8"))["api_key"] == facts["api_key"]:
                self._state.unlink()


def _holding(endpoint: Endpoint) -> _Held | None:
    return next((held for held in list(_held.values()) if held.endpoint == endpoint), None)


def _child(facts: dict[str, Any]) -> subprocess.Popen[bytes] | None:
    """The process of a state file, where this kernel started it."""
    # On Windows a virtual environment's Python starts another one, whose number is the one in the file.
    started = facts.get("child")
    return started or next((child for child in list(_children) if child.pid == facts["pid"]), None)


def _status(child: subprocess.Popen[bytes] | None) -> int | None:
    """The exit status of a process that is ending; None where this kernel did not start it."""
    if child is None:
        return None
    try:
        return child.wait(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        return None


# ── the machine ───────────────────────────────────────────────────────────────────────────────────


def run_dir() -> Path:
    """A directory of this machine that only this user can read or write: it will hold a key.

    Raises:
        ConfigurationError: There is none.
    """
    # Not platformdirs: where there is no XDG_RUNTIME_DIR, as in most containers, it warns at every call.
    uid = os.getuid() if hasattr(os, "getuid") else None
    candidates = [
        Path(tempfile.gettempdir()) / ("archytas-nb" if uid is None else f"archytas-nb-{uid}")
    ]
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if Path(runtime).is_absolute():  # its specification wants any other ignored
        candidates.insert(0, Path(runtime) / "archytas-nb")
    for path in candidates:
        with contextlib.suppress(OSError):
            path.mkdir(mode=0o700, exist_ok=True)
            # In a shared /tmp someone else may have made it first.
            if uid is None or (path.lstat().st_uid == uid and not path.is_symlink()):
                path.chmod(0o700)
                return path
    raise ConfigurationError(
        f"No private directory for the local model's state: tried {', '.join(map(repr, map(str, candidates)))}. "
        "Set XDG_RUNTIME_DIR to a directory that only you can write to."
    )


@contextlib.contextmanager
def _locked(path: Path, progress: Progress) -> Iterator[None]:
    from filelock import FileLock, Timeout

    lock = FileLock(path)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        progress("Waiting for another notebook that starts the local model")
        lock.acquire()
    try:
        yield
    finally:
        lock.release()


def _reap() -> None:
    """Collect the children that have ended."""
    _children[:] = [child for child in _children if child.poll() is None]


def _after_fork() -> None:
    # A forked worker must not keep the model alive after its kernel is gone. Closing a copy says nothing to the
    # server; the lease stays the kernel's.
    global _turn  # noqa: PLW0603 - a thread that the worker does not have may hold it
    for held in _held.values():
        held.lease.close()
    _held.clear()
    _children.clear()
    _turn = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
