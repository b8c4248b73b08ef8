"""Starts the embedded model's engine in a process of its own, which all notebooks of a user share.

Three things settle who uses which: a lock (one notebook at a time looks or starts), a state file
that only this user can read (where the process is, and its key), and a lease (see `serve`), which
proves that the file is true and stays so. The engine is never imported here: neither its crash nor
its memory is the notebook's.
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
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.models import serve
from archytas_nb.models.serve import Lease
from archytas_nb.models.weights import Progress, locked, silent

POLL_SECONDS = 0.05
END_SECONDS = 2.0
"""How long a process that has ended, or is being ended, may take until that shows."""
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
    """The settings of the engine. Notebooks with equal settings and weights share one process.

    Attributes:
        context: Tokens that a conversation and its reply may have together.
        threads: Cores to use; None for all that this process may use.
        slots: Replies that are written at the same time; each has a context of its own.
        safe: Whether to avoid everything that is known to crash on some machines.
        grace_seconds: How long the model stays loaded after its last notebook is gone.
        load_seconds: How long loading may take.
        module: The engine's Python module.
    """

    context: int = 8192
    threads: int | None = None
    slots: int = 2
    safe: bool = False
    grace_seconds: float = 60.0
    load_seconds: float = 300.0
    module: str = "xllamacpp"

    def identity(self, weights: Path) -> str:
        """A short name for a file of weights run with these settings, equal in every notebook."""
        stat = weights.stat()
        facts = [str(weights.resolve()), stat.st_size, stat.st_mtime_ns, asdict(self), self.version]
        return hashlib.sha256(json.dumps(facts).encode()).hexdigest()[:16]

    @property
    def version(self) -> str:
        """The engine's version; empty where it is not installed."""
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
            # A request that is given up is noticed between two batches; small ones are not slower.
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
        """Raise ConfigurationError where the engine is not installed; it is not imported."""
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
    name = "archytas-nb" if uid is None else f"archytas-nb-{uid}"
    candidates = [Path(tempfile.gettempdir()) / name]
    runtime = Path(os.environ.get("XDG_RUNTIME_DIR", ""))
    if runtime.is_absolute():  # its specification wants any other ignored
        candidates.insert(0, runtime / "archytas-nb")
    for path in candidates:
        with contextlib.suppress(OSError):
            path.mkdir(mode=0o700, exist_ok=True)
            # In a shared /tmp someone else may have made it first.
            if uid is None or (path.lstat().st_uid == uid and not path.is_symlink()):
                path.chmod(0o700)
                return path
    tried = ", ".join(repr(str(each)) for each in candidates)
    raise ConfigurationError(
        f"There is no private directory for the state of the local model; tried {tried}. "
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

    def is_busy(self, seconds: float = 0.3) -> bool:
        """Whether other questions keep a new one waiting, as far as it says so in that time."""
        connection = http.client.HTTPConnection("127.0.0.1", self.lease.port, timeout=seconds)
        try:
            headers = {"Authorization": f"Bearer {self.api_key}"}
            connection.request("GET", "/slots", headers=headers)
            slots = json.loads(connection.getresponse().read())
            return bool(slots) and all(slot["is_processing"] for slot in slots)
        except TimeoutError:  # it answers between two batches of what it reads
            return True
        except (OSError, http.client.HTTPException, ValueError, LookupError, TypeError):
            return False
        finally:
            connection.close()

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
        self._weights, self._engine, self._progress = weights, engine, progress
        self._began = time.monotonic()
        self._state = run_dir() / f"{identity}.json"
        self._log = log_dir() / f"local-{identity}.log"

    def server(self) -> Server:
        """Find a live server or start one, and wait until it has loaded its model."""
        waiting = "Waiting for another notebook to start the local model"
        while True:
            with locked(self._state.with_suffix(".lock"), self._progress, waiting):
                found = self._connect()
                facts, lease = found or self._start()
            # On Windows a virtual environment's Python starts another one, which has the pid.
            started = [child for child in list(_children) if child.pid == facts["pid"]]
            child = facts.get("child") or next(iter(started), None)
            try:
                self._wait(lease, facts["age"])
            except OSError:
                lease.close()
                if found is None:
                    raise self._failed(child) from None
                # It ended meanwhile, or another program has its port.
                serve.remove_state(self._state, facts["api_key"])
            except BaseException:
                lease.close()
                raise
            else:
                url = f"http://127.0.0.1:{lease.port}/v1"
                of = (facts["api_key"], self._weights.stem, self._log, lease, facts["pid"])
                return Server(url, *of, child)

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
                f"The local model cannot be started: {error}. It needs disk space and write "
                f"permission in {str(self._state.parent)!r} (see XDG_RUNTIME_DIR) and "
                f"{str(self._log.parent)!r}."
            ) from error
        _children.append(child)
        while child.poll() is None:
            if found := self._connect():
                return {**found[0], "child": child}, found[1]
            time.sleep(POLL_SECONDS)
        raise self._failed(child)

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

    def _wait(self, lease: Lease, age: float) -> None:
        """Wait for the lease; an OSError says that the process has ended, or is another one."""
        shown = -1
        while True:
            waited = time.monotonic() - self._began
            if int(waited) != shown:
                shown = int(waited)
                self._progress(f"Loading the local model {self._weights.stem} ({shown} s)")
            if age > self._engine.load_seconds and waited > serve.HANDSHAKE_SECONDS:
                raise ConnectionRefusedError("the model was loaded long ago but does not respond")
            if lease.granted(POLL_SECONDS):
                return

    def _failed(self, child: subprocess.Popen[bytes] | None) -> Exception:
        """The error of an engine that did not come up, with the end of its log."""
        crash, text = signal_of(child, self._log), _tail(self._log)
        move, needs_setup = CAUSES.get(crash, "") + OTHER_MODEL, True
        if crash == f"exit status {serve.CANNOT_IMPORT}":
            why = "its library cannot be loaded"
            move = (
                "It may need a system library: libgomp (on Debian and Ubuntu: apt-get "
                "install libgomp1) or, on Windows, the Visual C++ Redistributable."
            )
        elif "failed to load model" in text and crash not in CRASHES:
            why = "the engine rejected the weights file"
            move = "Download the file again, or use a different one."
        else:
            needs_setup = False
            why = f"it exited while loading ({crash or 'unknown reason'})"
            if "  Timeout (" in text:  # written by the watchdog in `serve`, which then ends it
                crash, why = "", f"it was not ready after {self._engine.load_seconds:.0f} s"
        # What the engine marks as errors says more than the traceback below it.
        errors = [line for line in text.splitlines() if re.match(r"\s+[\d.]+ E ", line)]
        quoted = "\n".join(errors[-4:] or text.splitlines()[-12:])
        engine = f"{self._engine.module} {self._engine.version}"
        story = (
            f"The local model {str(self._weights)!r} did not start ({engine}): {why}.\n"
            f"The log {str(self._log)!r} ends with:\n{quoted}\n{move}"
        )
        if needs_setup:
            return ConfigurationError(story)
        error = StartError(story, kind="unreachable")
        error.crash = crash
        return error


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
