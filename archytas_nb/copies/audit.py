"""Records the effects that a program tries, from Python's events; a guarded copy refuses them."""

from __future__ import annotations

import os
import sys
import tempfile
import warnings
from pathlib import Path
from typing import Any

from archytas_nb.acts import act_of
from archytas_nb.copies.readable import is_secret, python_and_libraries

MOST_NOTED = 1000


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
        act = act_of(event, args)
        if act is not None:
            kind, target = str(act.kind), act.target
        elif is_refused and event == "open" and _is_secret(args[0]):
            kind, target = "read", os.fsdecode(args[0])
        else:
            return
        if kind in ("write", "delete", "move", "change") and _is_inside(target, inside):
            return
        if len(noted) < MOST_NOTED:
            noted.append((kind, target[:1000]))
        if is_refused:
            raise PermissionError(f"a copy cannot {kind} {target!r}: it only computes")

    sys.addaudithook(hook)
    return noted


def _is_secret(path: Any) -> bool:
    """Whether a file is hidden or named like a secret, and none of Python's own."""
    if not isinstance(path, str | bytes | os.PathLike):
        return False
    found = Path(os.path.realpath(os.fsdecode(path)))
    installed = any(found.is_relative_to(each) for each in python_and_libraries())
    return not installed and any(is_secret(part) for part in found.parts)


def _is_inside(target: str, folder: str) -> bool:
    return (os.path.realpath(target) + os.sep).startswith(folder)
