"""Starts the embedded model's engine in a process of its own, which all notebooks of a user share.

A lock lets one notebook at a time look for the process or start it, a state file that only this
user can read says where it is, and a lease (see `serve`) proves that this is true for as long as
both sides live. The engine is never imported here: its crash must not be the notebook's.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from multiprocessing import AuthenticationError
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge
from pathlib import Path
from typing import Any

from archytas_nb.errors import ArchytasError, ConfigurationError, ModelError
from archytas_nb.models import serve
from archytas_nb.models.weights import Progress, locked, silent

POLL_SECONDS = 0.05
HANDSHAKE_SECONDS = 5.0
END_SECONDS = 2.0
"""How long it may take until the end of a process is noticed."""
_IN_LOG = {
    "Segmentation fault": "SIGSEGV", "access violation": "SIGSEGV", "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL", "illegal instruction": "SIGILL", "Aborted": "SIGABRT",
    "Floating-point exception": "SIGFPE",
}  # fmt: skip
"""What faulthandler writes."""
CRASHES = frozenset(_IN_LOG.values())
"""Signals of a program's own fault, which comes again; SIGKILL comes from outside."""
CAUSES = {
    "SIGILL": "This processor may not support the prebuilt engine (which needs AVX2 on x86). ",
    "SIGKILL": "The operating system killed it, probably because memory ran out. ",
}
OTHER_MODEL = (
    "Use another model: set an endpoint (OPENAI_API_KEY or OPENAI_BASE_URL), or a smaller GGUF "
    "file (%config ArchytasNB.local_model)."
)


@dataclass(frozen=True)
class Engine:
    """The settings of the engine. Notebooks with equal settings and weights share one process."""

    context: int = 8192  # tokens of a conversation with its reply
    threads: int | None = None  # cores to use; None for all that this process may use
    slots: int = 2  # replies that are written at the same time; each has a context of its own
    safe: bool = False  # avoid everything that is known to crash on some machines
    grace_seconds: float = 60.0  # the model stays loaded after its last notebook is gone
    load_seconds: float = 300.0
    module: str = "xllamacpp"

    def identity(self, weights: Path) -> str:
        """A short name for a file of weights run with these settings, equal in every notebook."""
        stat = weights.stat()
        facts = [str(weights.resolve()), stat.st_size, stat.st_mtime_ns, asdict(self), self.version]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def version(self) -> str:
        """The engine's version; empty if it is not installed."""
        try:
            return importlib.metadata.version(self.module)
        except importlib.metadata.PackageNotFoundError:
            return ""

    def settings(self, weights: Path) -> dict[str, Any]:
        """The engine's parameters that are not left at their defaults, by dotted name."""
        cores = 1 if self.safe else self.threads or usable_cores()
        settings: dict[str, Any] = {
            "model.path": str(weights),
            "model_alias": [weights.stem],
            "n_ctx": self.context * self.slots,
            "n_parallel": self.slots,
            # Reading a prompt scales with the cores. The threads that write wait for each other in
            # a busy loop: beside anything else that runs, one too many is many times slower.
            "cpuparams_batch.n_threads": cores,
            "cpuparams.n_threads": max(1, cores - 1),
            # An aborted request is noticed between two batches; small ones are not slower.
            "n_batch": 256,
            "n_ubatch": 256,
            "n_gpu_layers": -1,  # all, where the engine was built for a GPU
            "cache_ram_mib": 256,  # for earlier prompts; the default is 8 GB
            "ui": False,
        }
        if self.safe:
            settings |= {"no_extra_bufts": True, "n_gpu_layers": 0, "warmup": False}
            settings["flash_attn_type"] = "LLAMA_FLASH_ATTN_TYPE_DISABLED"
        return settings

    def require(self) -> None:
        """Raise ConfigurationError if the engine is not installed; it is not imported."""
        if importlib.util.find_spec(self.module) is None:
            raise ConfigurationError(
                f"The embedded model needs {self.module}, which is not installed. In a clone run: "
                'pip install ".[local]"'
            )


def usable_cores() -> int:
    """How many cores this process may keep busy: affinity, container's quota, no hyperthreads."""
    affinity = getattr(os, "sched_getaffinity", None)
    cores = len(affinity(0)) if affinity else os.cpu_count() or 1
    with contextlib.suppress(ImportError, OSError):  # ipykernel depends on psutil
        physical = importlib.import_module("psutil").cpu_count(logical=False) or cores
        cores = min(cores, max(physical, 2))  # small virtual machines are often wrong about it
    with contextlib.suppress(OSError, ValueError):
        # More threads than the quota allows all stall together.
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        cores = min(cores, max(1, int(quota) // int(period)))  # "max" is no int: no quota
    return max(1, cores)


def log_dir() -> Path:
    """Where the engine's logs are kept, the last one and the one before."""
    import platformdirs

    return Path(platformdirs.user_log_dir("archytas-nb", appauthor=False))


def run_dir() -> Path:
    """A directory of this machine that only this user can read or write: it will hold a key.

    Raises:
        ConfigurationError: There is none.
    """
    # Not platformdirs: without XDG_RUNTIME_DIR, as in most containers, it warns at every call.
    uid = os.getuid() if hasattr(os, "getuid") else None
    temporary = "archytas-nb" if uid is None else f"archytas-nb-{uid}"
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    candidates = [Path(tempfile.gettempdir()) / temporary]
    if runtime.is_absolute():  # its specification wants any other ignored
        candidates.insert(0, runtime / "archytas-nb")
    for path in candidates:
        with contextlib.suppress(OSError):
            path.mkdir(mode=0o700, exist_ok=True)
            # In a shared /tmp someone else may have made it first.
            if uid is None or (path.lstat().st_uid == uid and not path.is_symlink()):
                path.chmod(0o700)
                return path
    raise ConfigurationError(
        "There is no private directory for the state of the local model; tried "
        f"{', '.join(repr(str(each)) for each in candidates)}. "
        "Set XDG_RUNTIME_DIR to a directory that only you can write to."
    )


# ── how a process ended ───────────────────────────────────────────────────────────────────────────


class StartError(ModelError):
    """The engine did not come up; `crash` is the signal that it died of, or empty."""

    crash: str = ""


def signal_of(child: subprocess.Popen[bytes] | None, log: Path) -> str:
    """The name of what ended a process, such as ``"SIGSEGV"`` or ``"exit status 3"``, or empty.

    The child is None where another notebook started it; then its log may tell.
    """
    status = None
    if child is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = child.wait(timeout=END_SECONDS)
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
    found = re.findall(rf"(?:Fatal Python error|exception): ({'|'.join(_IN_LOG)})", _tail(log))
    return _IN_LOG[found[-1]] if found else "" if status is None else f"exit status {status}"


def _tail(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "  (no log)"
    return "\n".join(f"  {line}" for line in lines[-200:]) or "  (empty)"


# ── a server ──────────────────────────────────────────────────────────────────────────────────────


class Lease:
    """An open connection to the engine's process, held for as long as the model is used.

    Raises:
        OSError: Nobody listens there, or somebody who does not know the key.
    """

    def __init__(self, port: int, key: str) -> None:
        peer = socket.create_connection(("127.0.0.1", port), timeout=HANDSHAKE_SECONDS)
        peer.settimeout(None)
        self._connection = Connection(peer.detach())
        try:
            if not self._connection.poll(HANDSHAKE_SECONDS):
                raise TimeoutError("the listener sent nothing")
            answer_challenge(self._connection, key.encode())
            # Whoever took over a dead server's port must not be sent anybody's notebook.
            deliver_challenge(self._connection, key.encode())
        except (AuthenticationError, AssertionError, EOFError, OSError, ValueError) as error:
            self._connection.close()
            raise ConnectionRefusedError("the listener is not the model's server") from error

    def is_open(self) -> bool:
        """Whether the process still lives. Never blocks."""
        try:
            return not self._connection.poll(0)
        except OSError:
            return False

    def close(self, *, at_once: bool = False) -> None:
        """Release the lease; `at_once` skips the grace period if it was the last one."""
        if at_once:
            with contextlib.suppress(OSError):
                self._connection.send_bytes(b"q")
        self._connection.close()


@dataclass(frozen=True, eq=False)
class Server:
    """A server of the engine on this machine, on which this process holds a lease."""

    port: int
    api_key: str = field(repr=False)
    pid: int
    model: str  # the name that the server gives the model
    log: Path
    lease: Lease = field(repr=False)
    child: subprocess.Popen[bytes] | None = field(repr=False)  # where this process started it

    @property
    def base_url(self) -> str:
        """Where its API begins. Proxies of the environment must not be used for it."""
        return f"http://127.0.0.1:{self.port}/v1"

    def alive(self) -> bool:
        """Whether it lives and is leased. Never blocks."""
        return self.lease.is_open()

    def answers(self, seconds: float) -> bool:
        """Whether it answers anything at all within so many seconds."""
        try:
            self._get("/health", seconds)  # answered beside whatever the engine reads or writes
        except (OSError, http.client.HTTPException):
            return False
        return True

    def is_busy(self, seconds: float = 0.3) -> bool:
        """Whether a new question has to wait for others, if it answers in time."""
        try:
            slots = json.loads(self._get("/slots", seconds))
            return bool(slots) and all(slot["is_processing"] for slot in slots)
        except TimeoutError:  # it answers between two batches of what it reads
            return True
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
            return False

    def _get(self, path: str, seconds: float) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.api_key}"})
            return connection.getresponse().read()

    def kill(self) -> None:
        """End it, for every notebook that uses it, and wait until it is gone."""
        if self.alive():  # so this number still is that process
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
        return signal_of(self.child, self.log)


_held: dict[str, Server] = {}
_children: dict[str, subprocess.Popen[bytes]] = {}
_turn = threading.Lock()
"""Held while a server is looked for or started."""


def ensure_server(
    weights: Path, progress: Progress = silent, engine: Engine | None = None
) -> Server:
    """Find or start the server of these weights, and hold on to it.

    If it is held already, this only checks a socket; if it died, a new one is started.

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
        start = _Start(weights, engine, run_dir() / identity, log_dir() / f"local-{identity}.log")
        waiting = "Waiting for another notebook to start the local model"
        with locked(start.state.with_suffix(".lock"), progress, waiting):
            held = start.connected() or start.loaded(progress)
        _held[identity] = held
        progress(f"The local model {held.model} is ready ({time.monotonic() - began:.1f} s)")
        return held
    finally:
        _turn.release()


def stop() -> None:
    """Give up every server that this process uses; those that nobody else uses end at once."""
    for identity in list(_held):
        _held.pop(identity).lease.close(at_once=True)


@dataclass(frozen=True)
class _Start:
    """Finds or starts the process of an engine with its weights."""

    weights: Path
    engine: Engine
    path: Path  # of the state file, without its suffix
    log: Path

    @property
    def state(self) -> Path:
        return self.path.with_suffix(".json")

    def connected(self) -> Server | None:
        """The server that the state file describes, or None."""
        try:
            facts = json.loads(self.state.read_text(encoding="utf-8"))
            port, key, pid = int(facts["port"]), str(facts["api_key"]), int(facts["pid"])
            lease = Lease(facts["lease_port"], key)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        child = _children.get(self.path.name)
        # On Windows the Python of a virtual environment starts another one, which has the pid.
        is_ours = child is not None and (child.pid == pid or (os.name == "nt" and not child.poll()))
        return Server(
            port, key, pid, self.weights.stem, self.log, lease, child if is_ours else None
        )

    def loaded(self, progress: Progress) -> Server:
        """Start a server and wait until it has loaded its model and written its state file."""
        began, shown, child = time.monotonic(), -1, self._child()
        while child.poll() is None:
            if (waited := int(time.monotonic() - began)) > shown:
                shown = waited
                progress(f"Loading the local model {self.weights.stem} ({shown} s)")
            if found := self.connected():
                return found
            time.sleep(POLL_SECONDS)
        raise self._failed(child)

    def _child(self) -> subprocess.Popen[bytes]:
        """A process that loads the model, perhaps one from an interrupted question."""
        child = _children.get(self.path.name)
        if child is not None and child.poll() is None:
            if not self.state.exists():
                return child
            _children[f"{self.path.name} {child.pid}"] = child  # it is ending, or it hangs
        try:
            child = _children[self.path.name] = self._spawned()
        except OSError as error:
            raise ConfigurationError(
                f"The local model cannot be started: {error}. It needs disk space and write "
                f"permission in {str(self.path.parent)!r} (see XDG_RUNTIME_DIR) and "
                f"{str(self.log.parent)!r}."
            ) from error
        return child

    def _spawned(self) -> subprocess.Popen[bytes]:
        config = {
            "engine": self.engine.module,
            "settings": self.engine.settings(self.weights),
            "state": str(self.state),
            "load_seconds": self.engine.load_seconds,
            "grace_seconds": self.engine.grace_seconds,
        }
        self.state.unlink(missing_ok=True)
        self.log.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(OSError):  # Windows renames no file that is open
            self.log.replace(self.log.with_suffix(".log.1"))
        log = os.open(self.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(log, "wb") as out:
            return subprocess.Popen(  # noqa: S603 - our own file, run by our own Python
                # By path and with -P: the child needs nothing of ours on its path, and a file of
                # the user's that is named like a module of Python cannot get in its way.
                [sys.executable, "-P", serve.__file__, json.dumps(config)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.path.parent,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
                # Ctrl-C in a terminal and the end of a kernel reach a whole process group.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
                | getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )

    def _failed(self, child: subprocess.Popen[bytes]) -> ArchytasError:
        """The error of an engine that did not come up, with the end of its log."""
        crash, text = signal_of(child, self.log), _tail(self.log)
        move, needs_setup = CAUSES.get(crash, "") + OTHER_MODEL, True
        if crash == f"exit status {serve.CANNOT_IMPORT}":
            why = "its library cannot be loaded"
            move = (
                "It may need libgomp (apt-get install libgomp1), on Windows the Visual C++ runtime."
            )
        elif "failed to load model" in text and crash not in CRASHES:
            why, move = "the engine rejected the weights file", "Download the file again."
        else:
            why, needs_setup = f"it exited while loading ({crash or 'unknown reason'})", False
            if "  Timeout (" in text:  # written by the watchdog in `serve`, which then ends it
                crash, why = "", f"it was not ready after {self.engine.load_seconds:.0f} s"
        # What the engine marks as errors says more than the traceback below it.
        errors = [line for line in text.splitlines() if re.match(r"\s+[\d.]+ E ", line)]
        quoted = "\n".join(errors[-4:] or text.splitlines()[-12:])
        story = (
            f"The local model {str(self.weights)!r} did not start "
            f"({self.engine.module} {self.engine.version}): {why}.\n"
            f"The log {str(self.log)!r} ends with:\n{quoted}\n{move}"
        )
        if needs_setup:
            return ConfigurationError(story)
        error = StartError(story, kind="unreachable")
        error.crash = crash
        return error


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
