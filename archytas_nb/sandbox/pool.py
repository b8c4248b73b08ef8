"""The worker processes of the sandbox: one pool for this process, started at first use.

A worker belongs to a session only while a run uses it. The pool ends with the process.
"""

from __future__ import annotations

import atexit
import importlib.util
import os
import runpy
import shlex
import subprocess
import threading
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from archytas_nb.errors import ConfigurationError
from archytas_nb.files import OutputFile, TemporaryFolder

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontySession

_MAX_WORKERS = 64
_MISSING = (
    "protocol 'program' needs pydantic-monty, the sandbox in which programs run: install it with"
    " `pip install pydantic-monty`, or use protocol='react' or protocol='native', which work"
    " without it"
)
_FORKED = (
    "protocol 'program' does not work in a process that was forked from one that has used it:"
    " start the process with the method 'spawn' or 'forkserver', or use protocol='react'"
    " or protocol='native'"
)

_lock = threading.Lock()
_pool: Monty | None = None
_is_forked = False
_kept: list[Any] = []
"""Pools of a parent process: not closed here, because their workers are the parent's."""


def is_available() -> bool:
    """Whether programs can be run: the sandbox is installed, with its worker."""
    return importlib.util.find_spec("pydantic_monty") is not None and bool(_binary())


def require() -> None:
    """Raise ConfigurationError if programs cannot be run."""
    _started()


def checkout(**options: Any) -> MontySession:
    """A session with a worker of its own; `release` gives it back.

    Args:
        options: The options of ``Monty.checkout``.

    Raises:
        ConfigurationError: The sandbox is not installed, or not usable in this process.
    """
    session = _started().checkout(**options)
    session.__enter__()
    return session


def release(session: MontySession) -> None:
    """Release the worker, whatever it was doing."""
    with suppress(Exception):
        session.__exit__(None, None, None)


def _started() -> Monty:
    global _pool  # noqa: PLW0603 - one pool for a process
    with _lock:
        if _is_forked:
            raise ConfigurationError(_FORKED)
        if _pool is None:
            if not is_available():
                raise ConfigurationError(_MISSING)
            from pydantic_monty import Monty

            pool = Monty(binary_path=_quiet(_binary()), max_processes=_MAX_WORKERS)
            pool.__enter__()
            atexit.register(_close, pool)
            _pool = pool
        return _pool


def _close(pool: Monty) -> None:
    if not _is_forked:
        with suppress(Exception):
            pool.__exit__(None, None, None)


def _after_fork() -> None:
    """Forget the pool: its threads exist only in the process that started it."""
    global _lock, _pool, _is_forked  # noqa: PLW0603
    _lock = threading.Lock()
    if _pool is not None:
        _kept.append(_pool)
        _pool = None
        _is_forked = True


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)


def _binary() -> str:
    """The program of the workers; empty if there is none."""
    spec = importlib.util.find_spec("pydantic_monty")
    if spec is None or spec.origin is None:
        return ""
    # The library has a module that finds it, but to import that would load the whole library.
    try:
        found = runpy.run_path(str(Path(spec.origin).with_name("_binary.py")))
        return str(found["find_monty_binary"]())
    except (OSError, KeyError):
        return ""


def _quiet(binary: str) -> str:
    """The same program without its error output, which a notebook would show in the user's cell.

    A worker that runs out of memory writes a line there before it ends.
    """
    if os.name == "nt":
        return binary
    script = TemporaryFolder("sandbox").path / "worker"
    try:
        OutputFile(script, "the start of the sandbox", is_private=True).write(
            f'#!/bin/sh\nexec {shlex.quote(binary)} "$@" 2>/dev/null\n'
        )
        script.chmod(0o700)
        subprocess.run([script, "--version"], check=True, capture_output=True, timeout=10)  # noqa: S603 - our own script
    except (
        ConfigurationError,
        OSError,
        subprocess.SubprocessError,
    ):
        # Programs in this folder cannot be run.
        return binary
    return str(script)
