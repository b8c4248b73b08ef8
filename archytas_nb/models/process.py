"""Finds, starts and shares the process of the embedded model, one for all notebooks of a user.

Three things settle who uses which: a lock (one notebook at a time looks or starts), a state file that only this
user can read (where the process is, and its key), and a lease (see `serve`), which proves that the file is true
now and stays so. The engine is never loaded here.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import re
import secrets
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from archytas_nb._version import __version__
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.models import serve
from archytas_nb.models.engine import Engine
from archytas_nb.models.weights import Progress, silent

POLL_SECONDS = 0.05
END_SECONDS = 2.0
"""How long a process that has ended, or is being ended, may take until that shows."""
LOG_LINES = 12

_CRASHES = {
    # What Windows says in place of a signal.
    0xC0000005: "SIGSEGV",
    0xC000001D: "SIGILL",
    0xC0000374: "SIGABRT",
}
_SAID_IN_LOG = {
    "Segmentation fault": "SIGSEGV",
    "Illegal instruction": "SIGILL",
    "Bus error": "SIGBUS",
    "Aborted": "SIGABRT",
    "Floating-point exception": "SIGFPE",
}


@dataclass(frozen=True)
class Endpoint:
    """Where the embedded model answers.

    Attributes:
        base_url: ``http://127.0.0.1:PORT/v1``. Proxies of the environment must not be used for it.
        api_key: The secret of this server process.
        model: The name that the server gives the model.
        context: Tokens that a conversation and its reply may have together.
    """

    base_url: str
    api_key: str
    model: str
    context: int


class Lease:
    """One open connection to the process of the model, held for as long as the model is used.

    Raises:
        OSError: Nobody listens there.
    """

    def __init__(self, port: int, key: str) -> None:
        self._key = key
        self._socket = socket.create_connection(("127.0.0.1", port), timeout=serve.HANDSHAKE_SECONDS)
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
        if not hmac.compare_digest(proof.encode(), serve.proof(self._key, "server", nonces).encode()):
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


_held: dict[str, _Held] = {}
_children: list[subprocess.Popen[bytes]] = []
_turn = threading.RLock()


def ensure_server(weights: Path, progress: Progress = silent, engine: Engine | None = None) -> Endpoint:
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
    with _turn:
        identity = engine.identity(weights)
        held = _held.get(identity)
        if held and held.lease.is_open():
            return held.endpoint
        if held:
            held.lease.close()
            del _held[identity]
        engine.require()
        started = time.monotonic()
        held = _held[identity] = _Search(identity, weights, engine, progress).hold()
        progress(f"The local model {held.endpoint.model} is ready ({time.monotonic() - started:.1f} s)")
        return held.endpoint


def alive(endpoint: Endpoint) -> bool:
    """Whether this process holds a lease on that server, and the server lives. Never blocks."""
    return any(held.endpoint == endpoint and held.lease.is_open() for held in _held.values())


def kill(endpoint: Endpoint) -> None:
    """End a server that does not answer any more, for every notebook that uses it, and wait until it is gone."""
    with _turn:
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
    return _crash(_status(held.pid), held.log), held.log


def stop() -> None:
    """Give up every embedded model that this process uses; those that nobody else uses end at once."""
    with _turn:
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
        safe: Whether that was in safe mode, because it had crashed without.
    """

    seconds: float
    safe: bool


def tried(weights: Path, engine: Engine) -> Tried | None:
    """Whether this model has answered since the machine was started; None where it was not tried."""
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, ConfigurationError):
        facts = json.loads(_tried_file(weights, engine).read_text(encoding="utf-8"))
        if facts["version"] == __version__:
            return Tried(float(facts["seconds"]), bool(facts["safe"]))
    return None


def note_tried(weights: Path, engine: Engine, result: Tried) -> None:
    """Remember that a model has answered, for `tried`; ``engine`` is the one that was asked for first."""
    with contextlib.suppress(OSError, ConfigurationError):
        facts = {"version": __version__, "seconds": result.seconds, "safe": result.safe}
        serve.write_private(_tried_file(weights, engine), facts)


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
                    raise self._failed(_crash(_status(facts["pid"]), self._log)) from None
                # It ended while we waited, for whatever reason, or it is a stranger at its port.
                self._forget(facts)
                continue
            except BaseException:
                lease.close()
                raise
            url = f"http://127.0.0.1:{lease.port}/v1"
            endpoint = Endpoint(url, facts["api_key"], self._weights.stem, self._engine.context)
            return _Held(endpoint, lease, facts["pid"], self._log)

    def _connect(self) -> tuple[dict[str, Any], Lease] | None:
        """The server that the state file names, perhaps still loading; None where there is no such server."""
        try:
            facts = json.loads(self._state.read_text(encoding="utf-8"))
            age = time.time() - self._state.stat().st_mtime
            return {**facts, "pid": int(facts["pid"]), "age": age}, Lease(facts["lease_port"], facts["api_key"])
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _start(self) -> tuple[dict[str, Any], Lease]:
        _reap()
        self._state.unlink(missing_ok=True)
        self._log.parent.mkdir(parents=True, exist_ok=True)
        if self._log.exists():
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
        with self._log.open("wb") as out:
            process = subprocess.Popen(  # noqa: S603 - our own file, run by our own Python
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
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
            )
        _children.append(process)
        while process.poll() is None and not self._is_late():
            if found := self._connect():
                return found
            time.sleep(POLL_SECONDS)
        process.kill()  # for the one that neither answers nor ends
        raise self._failed(_crash(process.wait(), self._log))

    def _wait(self, lease: Lease, facts: dict[str, Any]) -> None:
        """Wait for the lease; an OSError says that the process has ended, or is not the one that is meant."""
        granted = False
        while not granted:
            waited = time.monotonic() - self._began
            if (seconds := int(waited)) != self._shown:
                self._shown = seconds
                self._progress(f"Loading the local model {self._weights.stem} ({seconds} s)")
            if facts["age"] > self._engine.load_seconds and waited > serve.HANDSHAKE_SECONDS:
                raise ConnectionRefusedError("the listener is silent, and the model was loaded long ago")
            if self._is_late():
                self._forget(facts)
                why = f"it was not ready after {self._engine.load_seconds:.0f} s"
                raise ModelError(_story(self._log, self._weights, why), kind="unreachable")
            granted = lease.granted(POLL_SECONDS)

    def _is_late(self) -> bool:
        return time.monotonic() - self._began > self._engine.load_seconds

    def _forget(self, facts: dict[str, Any]) -> None:
        """Remove the state file, where it is still that of this server."""
        with contextlib.suppress(OSError, ValueError, KeyError, TypeError):
            if json.loads(self._state.read_text(encoding="utf-8"))["api_key"] == facts["api_key"]:
                self._state.unlink()

    def _failed(self, crash: str) -> Exception:
        """Why a server that was started has ended before it was ready."""
        text = _tail(self._log, 200)
        why = f"it ended while it was loading ({crash or 'for no known reason'})"
        if "failed to allocate" in text or "unable to allocate" in text or crash == "SIGKILL":
            why = "it was killed or ran out of memory: free some, or use a smaller model"
        elif "failed to load model" in text:
            return ConfigurationError(_story(self._log, self._weights, "the engine refused the file of weights"))
        return StartError(_story(self._log, self._weights, why), kind="unreachable")


class StartError(ModelError):
    """The engine's process ended while it was loading; another mode may get further."""


def _holding(endpoint: Endpoint) -> _Held | None:
    return next((held for held in _held.values() if held.endpoint == endpoint), None)


def _status(pid: int) -> int | None:
    """The exit status of a process that this kernel started and that is ending; None for any other."""
    child = next((child for child in _children if child.pid == pid), None)
    if child is None:
        return None
    try:
        return child.wait(timeout=END_SECONDS)
    except subprocess.TimeoutExpired:
        return None


def _crash(status: int | None, log: Path) -> str:
    """The name of what ended a process; empty where it is not known."""
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
    if status in _CRASHES:
        return _CRASHES[status]
    # Another notebook's process; its last words are all that is known.
    said = re.findall(r"Fatal Python error: (.+)", _tail(log, 200))
    if said and said[-1] in _SAID_IN_LOG:
        return _SAID_IN_LOG[said[-1]]
    return "" if status is None else f"exit status {status}"


def _story(log: Path, weights: Path, why: str) -> str:
    return (
        f"The local model {str(weights)!r} did not start: {why}.\n"
        f"Its log is {str(log)!r}; the last lines are:\n{_tail(log, LOG_LINES)}"
    )


def _tail(log: Path, lines: int) -> str:
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "  (no log)"
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:]) or "  (empty)"


# ── the machine ───────────────────────────────────────────────────────────────────────────────────


def run_dir() -> Path:
    """A directory of this machine that only this user can read or write: it will hold a key.

    Raises:
        ConfigurationError: There is none.
    """
    # Not platformdirs: where there is no XDG_RUNTIME_DIR, as in most containers, it warns at every call.
    uid = os.getuid() if hasattr(os, "getuid") else None
    candidates = [Path(tempfile.gettempdir()) / ("archytas-nb" if uid is None else f"archytas-nb-{uid}")]
    if runtime := os.environ.get("XDG_RUNTIME_DIR"):
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
    for held in _held.values():
        held.lease.close()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
