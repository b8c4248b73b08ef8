"""Names what ended the engine's process, and says what to do next."""

from __future__ import annotations

import contextlib
import re
import signal
from pathlib import Path

from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.models import serve
from archytas_nb.models.engine import Engine

FAULTS = frozenset({"SIGSEGV", "SIGILL", "SIGBUS", "SIGFPE", "SIGABRT"})
"""Signals of a program's own fault, which comes again; SIGKILL is somebody else's decision."""

LOG_LINES = 12

_ON_WINDOWS = {0xC0000005: "SIGSEGV", 0xC000001D: "SIGILL", 0xC0000374: "SIGABRT"}
"""What Windows says in place of a signal."""

_IN_LOG = {
    "Segmentation fault": "SIGSEGV",
    "Illegal instruction": "SIGILL",
    "Bus error": "SIGBUS",
    "Aborted": "SIGABRT",
    "Floating-point exception": "SIGFPE",
    "access violation": "SIGSEGV",
    "illegal instruction": "SIGILL",
}
"""The last words of Python's faulthandler."""

_CAUSES = {
    "SIGILL": "This processor may lack instructions that the prebuilt engine needs (AVX2 on x86).",
    "SIGKILL": "The system ended it, most likely for its memory.",
}

_LIBRARY = (
    "It may need a library of the system: libgomp (on Debian and Ubuntu: apt-get install libgomp1) or, on "
    "Windows, the Visual C++ Redistributable."
)

_OTHER_MODEL = (
    "Use another model: name an endpoint (OPENAI_API_KEY or OPENAI_BASE_URL), or a smaller GGUF file "
    "(%config ArchytasNB.local_model)."
)


class StartError(ModelError):
    """The engine did not come up; another mode may get further.

    Attributes:
        crash: The signal that it died of; empty where it did not.
    """

    crash: str = ""


def signal_of(status: int | None, log: Path) -> str:
    """The name of what ended a process.

    Args:
        status: Its exit status; None where that is not known, because another notebook started it.
        log: What it wrote.

    Returns:
        Such as ``"SIGSEGV"`` or ``"exit status 3"``; empty where it is not known.
    """
    if status is not None and status < 0:
        with contextlib.suppress(ValueError):
            return signal.Signals(-status).name
    if status in _ON_WINDOWS:
        return _ON_WINDOWS[status]
    found = re.findall(r"(?:Fatal Python error|Windows fatal exception): (.+)", _tail(log, 200))
    if found and found[-1] in _IN_LOG:
        return _IN_LOG[found[-1]]
    return "" if status is None else f"exit status {status}"


def start_error(
    status: int | None, log: Path, weights: Path, engine: Engine, why: str = ""
) -> Exception:
    """Why an engine has not come up.

    Args:
        status: The exit status of its process; None where it is not known.
        log: What it wrote.
        weights: What it was to load.
        engine: How it was run.
        why: The reason, where it is known; else it is found out.

    Returns:
        A ConfigurationError where something has to be installed or replaced, else a `StartError`.
    """
    text = _tail(log, 200)
    crash = "" if why else signal_of(status, log)
    if status == serve.CANNOT_IMPORT:
        return ConfigurationError(
            _story(log, weights, engine, "its library cannot be loaded", _LIBRARY)
        )
    if "failed to load model" in text and crash not in FAULTS:
        move = "Download the file again, or use another one."
        return ConfigurationError(
            _story(log, weights, engine, "the engine refused the file of weights", move)
        )
    if not why and (
        "failed to allocate" in text or "unable to allocate" in text or crash == "SIGKILL"
    ):
        why = "it was killed or ran out of memory: free some, or use a smaller model"
    why = why or f"it ended while it was loading ({crash or 'for no known reason'})"
    error = StartError(_story(log, weights, engine, why, _move(crash)), kind="unreachable")
    error.crash = crash
    return error


def reply_error(name: str, what: str, crash: str, log: Path, engine: Engine) -> ModelError:
    """What is raised where a model has crashed in safe mode, too.

    Args:
        name: The model's name.
        what: What became of it, as ``"crashed (SIGSEGV)"``.
        crash: The signal; empty where it is not known.
        log: Its log.
        engine: How it was run.
    """
    text = f"the local model {name} {what}, in safe mode, too ({engine.module} {engine.version})."
    return ModelError(f"{text} Its log is {str(log)!r}.\n{_move(crash)}", kind="unreachable")


def _move(crash: str) -> str:
    return f"{_CAUSES[crash]} {_OTHER_MODEL}" if crash in _CAUSES else _OTHER_MODEL


def _story(log: Path, weights: Path, engine: Engine, why: str, move: str) -> str:
    lines = _tail(log, 200).splitlines()
    # What the engine marks as errors says more than our own traceback below it.
    errors = [line for line in lines if re.match(r"\s+[\d.]+ E ", line)]
    quoted = "\n".join(errors[-4:] or lines[-LOG_LINES:])
    return (
        f"The local model {str(weights)!r} did not start ({engine.module} {engine.version}): {why}.\n"
        f"Its log is {str(log)!r}; it says:\n{quoted}\n{move}"
    )


def _tail(log: Path, lines: int) -> str:
    try:
        text = log.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return "  (no log)"
    return "\n".join(f"  {line}" for line in text.splitlines()[-lines:]) or "  (empty)"
