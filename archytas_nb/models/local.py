"""The embedded model: one server process for all notebooks of a user, started by the first, ended by the last.

Law of this file: it starts, finds, shares and gives up that process, and answers with where it is. It never
loads the engine, speaks no chat protocol and reads no configuration.

Three things settle who is who: a lock (one notebook at a time looks or starts), a state file that only this user
can read (where the server is, and its key), and a lease (see `local_server`), which proves that the file is true
now and stays so.
"""

from __future__ import annotations

import contextlib
import http.client
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.models import local_server
from archytas_nb.models.local_engine import Engine
from archytas_nb.models.local_lease import Lease
from archytas_nb.models.weights import Progress, silent

POLL_SECONDS = 0.05
BUSY_SECONDS = 2.0
LOG_LINES = 12


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


@dataclass
class _Held:
    """A server on which this process holds a lease."""

    endpoint: Endpoint
    lease: Lease
    pid: int
    log: Path
    process: subprocess.Popen[bytes] | None  # where it was this kernel that started it
    ready: bool = False


class _AddressTakenError(ModelError):
    """Another program took the port between its choice and its use: worth a second try."""


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
        if held and held.ready and held.lease.is_open():
            return held.endpoint
        engine.require()
        started = time.monotonic()
        try:
            held = _ready(identity, weights, engine, progress, started)
        except _AddressTakenError:
            held = _ready(identity, weights, engine, progress, started)
        progress(f"The local model {held.endpoint.model} is ready ({time.monotonic() - started:.1f} s)")
        return held.endpoint


def alive(endpoint: Endpoint) -> bool:
    """Whether this process holds a lease on that server, and the server lives. Never blocks."""
    return any(held.endpoint == endpoint and held.lease.is_open() for held in _held.values())


def kill(endpoint: Endpoint) -> None:
    """End a server that does not answer any more, for every notebook that uses it, and wait until it is gone."""
    with _turn:
        held = next((held for held in _held.values() if held.endpoint == endpoint), None)
        if held is None or not held.lease.is_open():
            return
        # The lease is open, so the process that this number names is still that server.
        with contextlib.suppress(OSError):
            os.kill(held.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
        deadline = time.monotonic() + BUSY_SECONDS
        while held.lease.is_open() and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)


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


# ── finding or starting ───────────────────────────────────────────────────────────────────────────


def _hold(identity: str, weights: Path, engine: Engine, progress: Progress) -> _Held:
    """A lease on a live server, which may still be loading."""
    held = _held.get(identity)
    if held and held.lease.is_open():
        return held
    if held:
        held.lease.close()
        del _held[identity]
        _reap()
    directory = _run_dir()
    state, log = directory / f"{identity}.json", log_dir() / f"local-{identity}.log"
    with _locked(directory / f"{identity}.lock", progress):
        held = _attach(state, weights, engine, log) or _start(state, weights, engine, log)
    _held[identity] = held
    return held


def _attach(
    state: Path, weights: Path, engine: Engine, log: Path, process: subprocess.Popen[bytes] | None = None
) -> _Held | None:
    """A lease on the server that the state file names, or None where there is no such server."""
    try:
        facts = json.loads(state.read_text(encoding="utf-8"))
        lease, pid = Lease(facts["lease_port"], facts["api_key"]), int(facts["pid"])
    except (OSError, ValueError, KeyError):
        return None
    url = f"http://127.0.0.1:{facts['port']}/v1"
    return _Held(Endpoint(url, facts["api_key"], weights.stem, engine.context), lease, pid, log, process)


def _start(state: Path, weights: Path, engine: Engine, log: Path) -> _Held:
    state.unlink(missing_ok=True)
    log.parent.mkdir(parents=True, exist_ok=True)
    if log.exists():
        log.replace(log.with_suffix(".log.1"))
    config = state.with_suffix(".config.json")
    local_server.write_private(
        config,
        {
            "engine": engine.module,
            "server": engine.server_settings(),
            "model": engine.model_settings(weights),
            "state": str(state),
            "grace_seconds": engine.grace_seconds,
            "startup_seconds": engine.startup_seconds,
        },
    )
    with log.open("wb") as out:
        process = subprocess.Popen(  # noqa: S603 - our own file, run by our own Python
            # By path and with -P: the child needs nothing of ours on its path, and a file of the user's that is
            # named like a module of the standard library cannot get in its way.
            [sys.executable, "-P", local_server.__file__, str(config)],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT,
            cwd=state.parent,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
            # Ctrl-C in a terminal reaches a whole process group, and a kernel that shuts down ends its own.
            start_new_session=True,
            creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0),
        )
    _children.append(process)
    deadline = time.monotonic() + engine.startup_seconds
    while time.monotonic() < deadline and process.poll() is None:
        held = _attach(state, weights, engine, log, process)
        if held:
            return held
        time.sleep(POLL_SECONDS)
    process.kill()  # for the one that neither answers nor ends
    raise _diagnosis(log, weights, process.wait())


def _ready(identity: str, weights: Path, engine: Engine, progress: Progress, started: float) -> _Held:
    """A lease on a server that has loaded its model."""
    held = _hold(identity, weights, engine, progress)
    told = -1
    while not held.ready:
        if not held.lease.is_open():
            status = None
            if held.process is not None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    status = held.process.wait(timeout=5)
            raise _diagnosis(held.log, weights, status)
        held.ready = _answers(held.endpoint)
        seconds = int(time.monotonic() - started)
        if seconds > engine.load_seconds:
            raise _failure(held.log, weights, f"it was not ready after {engine.load_seconds:.0f} s")
        if seconds != told:
            told = seconds
            progress(f"Loading the local model {held.endpoint.model} ({seconds} s)")
        if not held.ready:
            time.sleep(POLL_SECONDS)
    return held


def _answers(endpoint: Endpoint) -> bool:
    """Whether the server listens, which the engine does only after it has loaded the model."""
    host, port = endpoint.base_url.removeprefix("http://").removesuffix("/v1").split(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=BUSY_SECONDS)
    try:
        connection.request("GET", "/v1/models", headers={"Authorization": f"Bearer {endpoint.api_key}"})
        return connection.getresponse().status == 200
    except TimeoutError:
        # llama_cpp.server lists its models under the lock that a reply holds while it is generated: a server
        # that accepts and does not answer is busy with another notebook, not dead. The lease watches the rest.
        return True
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()


# ── what went wrong ───────────────────────────────────────────────────────────────────────────────


def _diagnosis(log: Path, weights: Path, status: int | None) -> Exception:
    text = _tail(log, 200)
    if "address already in use" in text.lower():
        return _AddressTakenError(_story(log, weights, "another program took its port"), kind="unreachable")
    if status == -9 or "failed to allocate" in text or "unable to allocate" in text:
        return _failure(log, weights, "it was killed or ran out of memory: free some, or use a smaller model")
    if "Failed to load model from file" in text:
        return ConfigurationError(_story(log, weights, "the engine refused the file of weights"))
    return _failure(log, weights, f"it ended while it was loading (exit status {status})")


def _failure(log: Path, weights: Path, why: str) -> ModelError:
    return ModelError(_story(log, weights, why), kind="unreachable")


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


def _run_dir() -> Path:
    """A directory of this machine that only this user can read or write: it will hold a key."""
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
