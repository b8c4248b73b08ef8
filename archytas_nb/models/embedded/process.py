"""Runs the embedded model's engine in a separate process that all notebooks of a user share.

A lock ensures that one notebook at a time searches for the process or starts it, a state file that
only the user can read contains its ports and key, and a lease (see `serve`) shows that the process
is still alive. The engine is never imported here, so that it cannot crash the notebook.
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

from archytas_nb.errors import ArchytasError, ConfigurationError, FileError, ModelError
from archytas_nb.files import OutputFile
from archytas_nb.models.embedded import serve
from archytas_nb.models.embedded.weights import Progress, alternatives, locked, silent

POLL_SECONDS = 0.05
HANDSHAKE_SECONDS = 5.0
END_SECONDS = 2.0
"""Maximum delay until the end of a process is noticed."""
SPIN_COUNT = 1000
"""How often a waiting thread of the engine spins before it sleeps, where the engine uses libgomp.

The default is 300,000: while another process has one of the cores, the thread on the other core
spins that long, at each of the hundreds of times per token where the threads meet.
"""
_IN_LOG = {
    "Segmentation fault": "SIGSEGV", "access violation": "SIGSEGV", "Bus error": "SIGBUS",
    "Illegal instruction": "SIGILL", "illegal instruction": "SIGILL", "Aborted": "SIGABRT",
    "Floating-point exception": "SIGFPE",
}  # fmt: skip
"""Texts that faulthandler writes, and the signals that they stand for."""
CRASHES = frozenset(_IN_LOG.values())
"""Signals caused by the engine itself, which would recur; SIGKILL comes from outside."""
CRASH_HINTS = {
    "SIGILL": "This processor may not support the prebuilt engine (which needs AVX2 on x86). ",
    "SIGKILL": "The operating system killed it, probably because memory ran out. ",
}
USE_ANOTHER_MODEL = (
    "Use another model: set an endpoint (OPENAI_API_KEY or OPENAI_BASE_URL), or a smaller GGUF "
    "file (ARCHYTAS_NB_LOCAL_MODEL, or %config ArchytasNB.local_model)."
)


@dataclass(frozen=True)
class Engine:
    """The settings of the engine. Notebooks with equal settings and weights share one process."""

    context: int = 8192  # tokens of a conversation with its reply
    threads: int | None = None  # CPU cores; None for all that this process may use
    slots: int = 2  # concurrent replies, each with its own context
    safe: bool = False  # avoid features that crash on some machines
    grace_seconds: float = 60.0  # the model stays loaded after the last notebook closes
    load_seconds: float = 300.0
    module: str = "xllamacpp"

    def identity(self, weights: Path) -> str:
        """A short identifier of these settings with a weights file, equal in every notebook."""
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
        """The engine's parameters that differ from its defaults, by dotted name."""
        cores = 1
        if not self.safe:
            cores = self.threads or usable_cores()
        settings: dict[str, Any] = {
            "model.path": str(weights),
            "model_alias": [weights.stem],
            "n_ctx": self.context * self.slots,
            "n_parallel": self.slots,
            # Prompt processing scales with the cores. Generating threads wait for each other at
            # every layer: with other processes running, one too many is slower (see the figures in
            # benchmarks/README.md).
            "cpuparams_batch.n_threads": cores,
            "cpuparams.n_threads": max(1, cores - 1),
            # An aborted request is noticed between two batches; small batches are not slower.
            "n_batch": 256,
            "n_ubatch": 256,
            "n_gpu_layers": -1,  # all, if the engine was built for a GPU
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
                f"The embedded model needs {self.module}, which is not installed. Choose one:\n"
                f"{alternatives()}"
            )


def usable_cores() -> int:
    """The number of physical cores available to this process (CPU affinity, container quota)."""
    cores = os.cpu_count() or 1
    affinity = getattr(os, "sched_getaffinity", None)
    if affinity:
        cores = len(affinity(0))
    with contextlib.suppress(ImportError, OSError):
        # psutil comes with ipykernel.
        physical = importlib.import_module("psutil").cpu_count(logical=False) or cores
        cores = min(cores, max(physical, 2))  # small virtual machines often report too few
    with contextlib.suppress(OSError, ValueError):
        # If there are more threads than the quota allows, all of them stall.
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
        cores = min(cores, max(1, int(quota) // int(period)))  # "max" is not an int: no quota
    return max(1, cores)


def log_dir() -> Path:
    """The directory of the engine's logs; the latest two are kept."""
    import platformdirs

    return Path(platformdirs.user_log_dir("archytas-nb", appauthor=False))


def run_dir() -> Path:
    """A local directory that only the user can read or write, because it will contain a key.

    Raises:
        ConfigurationError: There is no such directory.
    """
    # platformdirs warns at every call without XDG_RUNTIME_DIR, as in most containers.
    uid = None
    if hasattr(os, "getuid"):
        uid = os.getuid()
    temporary = "archytas-nb"
    if uid is not None:
        temporary = f"archytas-nb-{uid}"
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    candidates = [Path(tempfile.gettempdir()) / temporary]
    if runtime.is_absolute():
        # Its specification says to ignore other paths.
        candidates.insert(0, runtime / "archytas-nb")
    for path in candidates:
        with contextlib.suppress(OSError):
            path.mkdir(mode=0o700, exist_ok=True)
            # In a shared /tmp, another user may have created it.
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
    """The engine did not start; `crash` is the signal that ended it, or empty."""

    crash: str = ""


def signal_of(child: subprocess.Popen[bytes] | None, log: Path) -> str:
    """How a process ended, such as ``"SIGSEGV"`` or ``"exit status 3"``, or empty if unknown.

    The child is None if another notebook started it; then only its log is searched.
    """
    status = None
    if child is not None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            status = child.wait(timeout=END_SECONDS)
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
    found = re.findall(rf"(?:Fatal Python error|exception): ({'|'.join(_IN_LOG)})", _log_tail(log))
    if found:
        return _IN_LOG[found[-1]]
    if status is None:
        return ""
    return f"exit status {status}"


def _log_tail(log: Path) -> str:
    try:
        lines = log.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError:
        return "  (no log)"
    return "\n".join(f"  {line}" for line in lines[-200:]) or "  (empty)"


# ── a server ──────────────────────────────────────────────────────────────────────────────────────


class Lease:
    """A connection to the engine's process that stays open as long as the model is used.

    Raises:
        OSError: Nothing listens on the port, or the listener does not know the key.
    """

    def __init__(self, port: int, key: str) -> None:
        peer = socket.create_connection(("127.0.0.1", port), timeout=HANDSHAKE_SECONDS)
        peer.settimeout(None)
        self._connection = Connection(peer.detach())
        try:
            if not self._connection.poll(HANDSHAKE_SECONDS):
                raise TimeoutError("the listener sent nothing")
            answer_challenge(self._connection, key.encode())
            # A process that took over a dead server's port must not receive a conversation.
            deliver_challenge(self._connection, key.encode())
        except (AuthenticationError, AssertionError, EOFError, OSError, ValueError) as error:
            self._connection.close()
            raise ConnectionRefusedError("the listener is not the model's server") from error

    def is_open(self) -> bool:
        """Whether the process is still alive. Never blocks."""
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
    """A running server of the engine on which this process holds a lease."""

    port: int
    api_key: str = field(repr=False)
    pid: int
    model: str  # the model's name on the server
    log: Path
    lease: Lease = field(repr=False)
    child: subprocess.Popen[bytes] | None = field(repr=False)  # if this process started it

    @property
    def base_url(self) -> str:
        """The base URL of its API. It must be requested without the environment's proxies."""
        return f"http://127.0.0.1:{self.port}/v1"

    def alive(self) -> bool:
        """Whether it is alive. Never blocks."""
        return self.lease.is_open()

    def answers(self, seconds: float) -> bool:
        """Whether it responds at all within this time."""
        try:
            # It responds even if the engine is busy.
            self._get("/health", seconds)
        except (OSError, http.client.HTTPException):
            return False
        return True

    def is_busy(self, seconds: float = 0.3) -> bool:
        """Whether a new question has to wait for others; False if that is unknown."""
        try:
            slots = json.loads(self._get("/slots", seconds))
            return bool(slots) and all(slot["is_processing"] for slot in slots)
        except TimeoutError:
            # While it processes a prompt, it responds only between batches.
            return True
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
            return False

    def _get(self, path: str, seconds: float) -> bytes:
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=seconds)
        with contextlib.closing(connection):
            connection.request("GET", path, headers={"Authorization": f"Bearer {self.api_key}"})
            return connection.getresponse().read()

    def kill(self) -> None:
        """Kill it, for every notebook that uses it, and wait until it has ended."""
        if self.alive():
            # So the pid is still that of the server.
            with contextlib.suppress(OSError):
                os.kill(self.pid, getattr(signal, "SIGKILL", signal.SIGTERM))
            self.wait_for_end()

    def wait_for_end(self, seconds: float = END_SECONDS) -> bool:
        """Whether it ends within this time; its connections do not all close immediately."""
        deadline = time.monotonic() + seconds
        while (is_alive := self.alive()) and time.monotonic() < deadline:
            time.sleep(POLL_SECONDS)
        return not is_alive

    def crash(self) -> str:
        """How it ended; see `signal_of`."""
        return signal_of(self.child, self.log)


_servers: dict[str, Server] = {}
_children: dict[str, subprocess.Popen[bytes]] = {}
_start_lock = threading.Lock()
"""Held while searching for a server or starting one."""


def ensure_server(
    weights: Path, progress: Progress = silent, engine: Engine | None = None
) -> Server:
    """Find or start the server of these weights, and keep a lease on it.

    If there is a lease, only its socket is checked; if the server has died, a new one is started.

    Raises:
        ConfigurationError: The engine is not installed, or rejected the weights file.
        ModelError: The server did not start; the message quotes the end of its log.
    """
    engine = engine or Engine()
    identity = engine.identity(weights)
    began = time.monotonic()
    while not _start_lock.acquire(timeout=1.0):
        # An interrupted question continues loading.
        progress(f"Loading the local model {weights.stem} ({time.monotonic() - began:.0f} s)")
    try:
        server = _servers.get(identity)
        if server and server.alive():
            return server
        if server:
            _servers.pop(identity).lease.close()
        engine.require()
        log = log_dir() / f"local-{identity}.log"
        launcher = _Launcher(weights, engine, run_dir() / identity, log)
        waiting = "Waiting for another notebook to start the local model"
        with locked(launcher.state.with_suffix(".lock"), progress, waiting):
            server = launcher.connect() or launcher.start(progress)
        _servers[identity] = server
        progress(f"The local model {server.model} is ready ({time.monotonic() - began:.1f} s)")
        return server
    finally:
        _start_lock.release()


def stop() -> None:
    """Release all servers of this process; those that no other process uses end immediately."""
    for identity in list(_servers):
        _servers.pop(identity).lease.close(at_once=True)


@dataclass(frozen=True)
class _Launcher:
    """Finds or starts the engine's process for some weights."""

    weights: Path
    engine: Engine
    path: Path  # of the state file, without its suffix
    log: Path

    @property
    def state(self) -> Path:
        return self.path.with_suffix(".json")

    def connect(self) -> Server | None:
        """Connect to the server in the state file; None if that is not possible."""
        try:
            facts = json.loads(self.state.read_text(encoding="utf-8"))
            port = int(facts["port"])
            key = str(facts["api_key"])
            pid = int(facts["pid"])
            lease = Lease(facts["lease_port"], key)
        except (OSError, ValueError, KeyError, TypeError):
            return None
        child = _children.get(self.path.name)
        if child is not None and not _is_or_started(child, pid):
            child = None
        return Server(port, key, pid, self.weights.stem, self.log, lease, child)

    def start(self, progress: Progress) -> Server:
        """Start a server and wait until it has loaded its model and written its state file."""
        began = time.monotonic()
        shown = -1
        child = self._loading_process()
        while child.poll() is None:
            if (waited := int(time.monotonic() - began)) > shown:
                shown = waited
                progress(f"Loading the local model {self.weights.stem} ({shown} s)")
            if found := self.connect():
                return found
            time.sleep(POLL_SECONDS)
        raise self._start_error(child)

    def _loading_process(self) -> subprocess.Popen[bytes]:
        """The process that is loading the model, possibly started by an interrupted question."""
        child = _children.get(self.path.name)
        if child is not None and child.poll() is None:
            if not self.state.exists():
                return child
            # It is exiting or hanging.
            _children[f"{self.path.name} {child.pid}"] = child
        try:
            child = _children[self.path.name] = self._spawn()
        except (OSError, FileError) as error:
            raise ConfigurationError(
                f"The local model cannot be started: {error}. It needs disk space and write "
                f"permission in {str(self.path.parent)!r} (see XDG_RUNTIME_DIR) and "
                f"{str(self.log.parent)!r}."
            ) from error
        return child

    def _spawn(self) -> subprocess.Popen[bytes]:
        config = {
            "engine": self.engine.module,
            "settings": self.engine.settings(self.weights),
            "state": str(self.state),
            "load_seconds": self.engine.load_seconds,
            "grace_seconds": self.engine.grace_seconds,
        }
        self.state.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            # Windows cannot rename an open file.
            self.log.replace(self.log.with_suffix(".log.1"))
        with OutputFile(self.log, "the log of the local model").begin() as out:
            return subprocess.Popen(  # noqa: S603 - our own file, run by our own Python
                # By path and with -P: the child does not need this package, and a file of the user
                # with the name of a standard module must not shadow that module.
                [sys.executable, "-P", serve.__file__, json.dumps(config)],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.path.parent,
                env={
                    "GOMP_SPINCOUNT": str(SPIN_COUNT),
                    **os.environ,
                    "PYTHONUNBUFFERED": "1",
                },
                # Ctrl-C in a terminal and the end of a kernel signal the whole process group.
                start_new_session=True,
                creationflags=getattr(subprocess, "CREATE_NEW_PROCESS_GROUP", 0)
                | getattr(subprocess, "CREATE_NO_WINDOW", 0),
            )

    def _start_error(self, child: subprocess.Popen[bytes]) -> ArchytasError:
        """The error for an engine that did not start, with the end of its log."""
        crash = signal_of(child, self.log)
        text = _log_tail(self.log)
        advice = CRASH_HINTS.get(crash, "") + USE_ANOTHER_MODEL
        needs_setup = True
        if crash == f"exit status {serve.CANNOT_IMPORT}":
            why = "its library cannot be loaded"
            advice = (
                "It may need libgomp (apt-get install libgomp1), on Windows the Visual C++ runtime."
            )
        elif "failed to load model" in text and crash not in CRASHES:
            why = "the engine rejected the weights file"
            advice = "Download the file again."
        else:
            why = f"it exited while loading ({crash or 'unknown reason'})"
            needs_setup = False
            if "  Timeout (" in text:
                # The watchdog in `serve` ended it.
                crash = ""
                why = f"it was not ready after {self.engine.load_seconds:.0f} s"
        # The engine's error lines are more informative than the traceback below them.
        errors = [line for line in text.splitlines() if re.match(r"\s+[\d.]+ E ", line)]
        quoted = "\n".join(errors[-4:] or text.splitlines()[-12:])
        message = (
            f"The local model {str(self.weights)!r} did not start "
            f"({self.engine.module} {self.engine.version}): {why}.\n"
            f"The log {str(self.log)!r} ends with:\n{quoted}\n{advice}"
        )
        if needs_setup:
            return ConfigurationError(message)
        error = StartError(message, kind="unreachable")
        error.crash = crash
        return error


def _after_fork() -> None:
    # A forked worker must not keep the model loaded after its kernel has ended. Closing the copies
    # of the sockets does not release the kernel's leases.
    global _start_lock  # noqa: PLW0603 - a thread that was not forked may hold it
    for server in _servers.values():
        server.lease.close()
    _servers.clear()
    _children.clear()
    _start_lock = threading.Lock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _is_or_started(child: subprocess.Popen[Any], pid: int) -> bool:
    """Whether a process that was started here is, or has started, the one with this pid.

    On Windows, the Python of a virtual environment starts another process with its own pid.
    """
    return child.pid == pid or (os.name == "nt" and not child.poll())
