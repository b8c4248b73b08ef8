"""What Python sees of effects that a program tries: it is noted, and refused in a guarded copy."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from archytas_nb.copies.readable import is_secret, python_and_libraries

MOST_NOTED = 1000

_HARMLESS = {
    "os.listdir", "os.scandir", "os.walk", "os.fwalk", "os.getxattr", "os.listxattr", "os.putenv",
    "os.unsetenv", "os.add_dll_directory", "os.chdir", "os.fchdir", "os.getpid", "os.path",
    "socket.gethostname", "signal.pthread_kill", "shutil.unpack_archive",
}  # fmt: skip
_KINDS = {
    "os.remove": "delete", "os.rmdir": "delete", "shutil.rmtree": "delete", "socket.bind": "listen",
    "os.rename": "move", "shutil.move": "move", "os.kill": "signal", "os.killpg": "signal",
    "os.mkdir": "write", "os.truncate": "write", "os.link": "write", "os.symlink": "write",
    "os.chmod": "change", "os.chown": "change", "os.utime": "change", "os.setxattr": "change",
    "os.removexattr": "change", "os.system": "start", "os.fork": "start", "os.exec": "start",
    "os.posix_spawn": "start", "os.spawn": "start", "os.startfile": "start", "os.forkpty": "start",
    "pty.spawn": "start", "webbrowser.open": "start",
}  # fmt: skip
_BY_MODULE = {
    "os": "write", "shutil": "write", "socket": "connect", "subprocess": "start", "pty": "start",
    "ftplib": "connect", "smtplib": "connect", "poplib": "connect", "imaplib": "connect",
    "nntplib": "connect", "telnetlib": "connect", "urllib": "connect", "http": "connect",
    "webbrowser": "start", "winreg": "change", "_winapi": "start", "fcntl": "change",
    "signal": "signal", "msvcrt": "change", "syslog": "write", "resource": "change",
}  # fmt: skip
"""What a module's events are; those of other modules have no effect outside the process."""

_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND


def keep_to(folder: Path) -> None:
    """Let libraries put their caches into a folder, and leave no secret in the environment."""
    for name in list(os.environ):
        if not is_plain(name):
            del os.environ[name]
    where = str(folder)
    for name in ("TMPDIR", "TEMP", "TMP", "MPLCONFIGDIR", "XDG_CACHE_HOME", "JOBLIB_TEMP_FOLDER",
                 "NUMBA_CACHE_DIR", "POLARS_TEMP_DIR", "XDG_RUNTIME_DIR"):  # fmt: skip
        os.environ[name] = where
    tempfile.tempdir = where
    sys.dont_write_bytecode = True
    warnings.filterwarnings("ignore", "FigureCanvasAgg is non-interactive")


def is_plain(name: str) -> bool:
    """Whether a variable of the environment says how to compute; others may be keys."""
    return name in {"PATH", "HOME", "LANG", "LANGUAGE", "TZ", "USER", "PWD", "SHELL", "TERM"} or (
        name.startswith(("LC_", "PYTHON", "OMP_", "OPENBLAS_", "MKL_", "NUMEXPR_", "POLARS_",
                         "MPL", "LD_LIBRARY", "CONDA_", "VIRTUAL_ENV", "PROJ_", "GDAL_"))
    )  # fmt: skip


def watch(own: Path, *, is_refused: bool) -> list[tuple[str, str]]:
    """Note every effect that is tried from now on.

    Args:
        own: The folder in which files may be written.
        is_refused: Whether it is refused as well.

    Returns:
        The list in which they are noted, as kind and target.
    """
    noted: list[tuple[str, str]] = []
    inside = os.path.realpath(own) + os.sep

    def hook(event: str, args: tuple[Any, ...]) -> None:
        kind = _kind(event, args)
        if kind is None and is_refused and event == "open" and _is_secret(args[0]):
            kind = "read"
        if kind is None:
            return
        target = _target(args)
        if kind in ("write", "delete", "move", "change") and _is_inside(target, inside):
            return
        if len(noted) < MOST_NOTED:
            noted.append((kind, target[:1000]))
        if is_refused:
            raise PermissionError(f"a copy cannot {kind} {target!r}: it only computes")

    sys.addaudithook(hook)
    return noted


def _kind(event: str, args: tuple[Any, ...]) -> str | None:
    if event == "open":
        path, mode, flags = (*args, None, None, None)[:3]
        is_writing = (
            bool(flags & _WRITING)
            if isinstance(flags, int)
            else (isinstance(mode, str) and bool(set(mode) & set("wax+")))
        )
        return "write" if is_writing and path != os.devnull else None
    if event == "sqlite3.connect":
        return None
    module = event.partition(".")[0]
    if event in _HARMLESS or module not in _BY_MODULE:
        return None
    if event == "socket.__new__" or (args and isinstance(args[0], int) and module == "os"):
        # A socket alone goes nowhere, and a descriptor was checked when it was opened.
        return None
    return _KINDS.get(event, _BY_MODULE[module])


def _is_secret(path: Any) -> bool:
    """Whether a file is hidden or named like a secret, and none of Python's own."""
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    found = Path(os.path.realpath(os.fsdecode(path)))
    installed = any(found.is_relative_to(each) for each in python_and_libraries())
    return not installed and any(is_secret(part) for part in found.parts)


def _target(args: tuple[Any, ...]) -> str:
    for each in args:
        if isinstance(each, bytes):
            return os.fsdecode(each)
        if isinstance(each, str | os.PathLike):
            return os.fspath(each) if not isinstance(each, str) else each
        if isinstance(each, tuple):
            return ":".join(map(str, each))
    return str(args[0]) if args else ""


def _is_inside(target: str, folder: str) -> bool:
    return (os.path.realpath(target) + os.sep).startswith(folder)
