"""How the embedded model's engine is run, and how it ended. The engine is not imported here."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import importlib.metadata
import importlib.util
import json
import os
import re
import signal
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from archytas_nb._version import __version__
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.models import serve

REMEMBERED_SECONDS = 86_400.0
"""How long a crash keeps later notebooks in safe mode; the cause may be gone by then."""
CRASHES = frozenset({"SIGSEGV", "SIGILL", "SIGBUS", "SIGFPE", "SIGABRT"})
"""Signals of a program's own fault, which comes again; SIGKILL comes from outside."""
_ON_WINDOWS = {0xC0000005: "SIGSEGV", 0xC000001D: "SIGILL", 0xC0000374: "SIGABRT"}
_IN_LOG = {
    "Segmentation fault": "SIGSEGV",
    "Illegal instruction": "SIGILL",
    "Bus error": "SIGBUS",
    "Aborted": "SIGABRT",
    "Floating-point exception": "SIGFPE",
    "access violation": "SIGSEGV",
    "illegal instruction": "SIGILL",
}
"""What faulthandler writes."""
CAUSES = {
    "SIGILL": "This processor may lack instructions that the prebuilt engine needs (AVX2 on x86). ",
    "SIGKILL": "The system ended it, most likely for its memory. ",
}
OTHER_MODEL = (
    "Use another model: name an endpoint (OPENAI_API_KEY or OPENAI_BASE_URL), or a smaller GGUF "
    "file (%config ArchytasNB.local_model)."
)
_LIBRARY = (
    "It may need a library of the system: libgomp (on Debian and Ubuntu: apt-get install libgomp1) "
    "or, on Windows, the Visual C++ Redistributable."
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
            off = "LLAMA_FLASH_ATTN_TYPE_DISABLED"
            settings |= {
                "no_extra_bufts": True,
                "n_gpu_layers": 0,
                "flash_attn_type": off,
                "warmup": False,
            }
        return settings

    def require(self) -> None:
        """Raise ConfigurationError where the engine is not installed; it is not imported."""
        if importlib.util.find_spec(self.module) is None:
            raise ConfigurationError(
                f"The model on this machine needs {self.module}, which is not installed. Run: "
                'pip install "archytas-nb[local]"'
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


# ── how a process ended ───────────────────────────────────────────────────────────────────────────


class StartError(ModelError):
    """The engine did not come up; `crash` is the signal that it died of, or empty."""

    crash: str = ""


def signal_of(status: int | None, log: Path) -> str:
    """The name of what ended a process, such as ``"SIGSEGV"`` or ``"exit status 3"``, or empty.

    Its exit status is None where another notebook started it; then its log may tell.
    """
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
    if status in _ON_WINDOWS:
        return _ON_WINDOWS[status]
    written = r"(?:Fatal Python error|Windows fatal exception): (.+)"
    found = [each for each in re.findall(written, _tail(log)) if each in _IN_LOG]
    if found:
        return _IN_LOG[found[-1]]
    return "" if status is None else f"exit status {status}"


def start_error(
    status: int | None, log: Path, weights: Path, engine: Engine, why: str = ""
) -> Exception:
    """The error of an engine that did not come up, with the end of its log.

    It is a ConfigurationError where something must be installed or replaced, else a `StartError`.
    """
    text, crash = _tail(log), "" if why else signal_of(status, log)
    memory = crash == "SIGKILL" or re.search("(?:failed|unable) to allocate", text)
    move, kind = CAUSES.get(crash, "") + OTHER_MODEL, "start"
    if status == serve.CANNOT_IMPORT:
        kind, why, move = "configuration", "its library cannot be loaded", _LIBRARY
    elif "failed to load model" in text and crash not in CRASHES:
        kind, why = "configuration", "the engine refused the file of weights"
        move = "Download the file again, or use another one."
    elif not why and memory:
        why = "it was killed or ran out of memory: free some, or use a smaller model"
    why = why or f"it ended while it was loading ({crash or 'for no known reason'})"
    lines = text.splitlines()
    # What the engine marks as errors says more than the traceback below it.
    errors = [line for line in lines if re.match(r"\s+[\d.]+ E ", line)]
    quoted = "\n".join(errors[-4:] or lines[-12:])
    story = (
        f"The local model {str(weights)!r} did not start ({engine.module} {engine.version}): "
        f"{why}.\n"
        f"Its log is {str(log)!r}; it says:\n{quoted}\n{move}"
    )
    if kind == "configuration":
        return ConfigurationError(story)
    error = StartError(story, kind="unreachable")
    error.crash = crash
    return error


def _tail(log: Path) -> str:
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "  (no log)"
    return "\n".join(f"  {line}" for line in text.splitlines()[-200:]) or "  (empty)"


def noted(weights: Path, engine: Engine) -> tuple[float, str] | None:
    """How long the first reply of this model took, and the signal that it had crashed with.

    Returns:
        Seconds, and the name of the signal or an empty string; None where this version has not
        tried the model on this machine, or where it crashed more than a day ago.
    """
    with contextlib.suppress(OSError, ValueError, KeyError, TypeError, ConfigurationError):
        path = note_file(weights, engine)
        facts = json.loads(path.read_text(encoding="utf-8"))
        is_old = facts["crash"] and time.time() - path.stat().st_mtime > REMEMBERED_SECONDS
        if facts["version"] == __version__ and not is_old:
            return float(facts["seconds"]), str(facts["crash"])
    return None


def note(weights: Path, engine: Engine, seconds: float, crash: str) -> None:
    """Write what `noted` reads; `engine` is the one that was asked for first."""
    facts = {"version": __version__, "seconds": seconds, "crash": crash}
    with contextlib.suppress(OSError, ConfigurationError):
        serve.write_private(note_file(weights, engine), facts)


def note_file(weights: Path, engine: Engine) -> Path:
    """The file of `note`."""
    return run_dir() / f"{engine.identity(weights)}.tried.json"


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
        f"No private directory for the local model's state: tried {tried}. "
        "Set XDG_RUNTIME_DIR to a directory that only you can write to."
    )
