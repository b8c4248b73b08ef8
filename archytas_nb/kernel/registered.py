"""The kernels of this user that other programs may talk to.

Each is a file in Jupyter's private runtime folder, which only the user may read: it holds the
address where the kernel listens, and the token that a program must know.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import jupyter_core.paths
import psutil  # type: ignore[import-untyped]

from archytas_nb.files import OutputFile, remove_left


@dataclass(frozen=True, slots=True)
class Registered:
    """A kernel that listens.

    Attributes:
        notebook: The path of the notebook, if the front end told the kernel; else its folder.
        pid: The process of the kernel.
        url: The address where it listens.
        token: What a program must know.
    """

    notebook: str
    pid: int
    url: str
    token: str

    @property
    def folder(self) -> Path:
        """The folder of the notebook."""
        path = Path(self.notebook)
        if path.suffix == ".ipynb":
            return path.parent
        return path


def _folder() -> Path:
    return Path(jupyter_core.paths.jupyter_runtime_dir())


def register(kind: str, url: str, token: str) -> Path:
    """Write down where this kernel listens; only the user may read the file.

    Args:
        kind: What it listens for, a word.
        url: The address.
        token: The token.

    Returns:
        The file; whoever stops listening removes it.

    Raises:
        ConfigurationError: It cannot be written.
    """
    notebook = os.environ.get("JPY_SESSION_NAME") or str(Path.cwd())
    folder = _folder()
    remove_left(folder, rf"archytas_nb-{kind}-\d+\.json")  # of any kernel
    path = folder / f"archytas_nb-{kind}-{os.getpid()}.json"
    text = json.dumps(asdict(Registered(notebook, os.getpid(), url, token)))
    instead = "Set JUPYTER_RUNTIME_DIR to a directory of your own"
    OutputFile(
        path, "the file that says where this kernel listens", instead, is_private=True
    ).write(text)
    return path


def registered(kind: str) -> list[Registered]:
    """The kernels that listen on this machine."""
    return [each for _, each, is_alive in _read(kind) if is_alive]


def remove_dead(kind: str) -> list[Registered]:
    """Remove the files of kernels that were killed, and return what they contained."""
    dead = []
    for path, each, is_alive in _read(kind):
        if not is_alive:
            path.unlink(missing_ok=True)
            dead.append(each)
    return dead


def _read(kind: str) -> Iterator[tuple[Path, Registered, bool]]:
    """Each file, with what it contains and whether its kernel is alive."""
    for path in sorted(_folder().glob(f"archytas_nb-{kind}-*.json")):
        with suppress(OSError, ValueError, TypeError):
            each = Registered(**json.loads(path.read_text(encoding="utf-8")))
            yield path, each, _is_alive(each.pid, path.stat().st_mtime)


def _is_alive(pid: int, written: float) -> bool:
    """Whether the process that wrote a file at this time is running, and not a later one."""
    try:
        started: float = psutil.Process(pid).create_time()
    except psutil.Error:
        return False
    return started <= written + 1  # clocks of files are less exact
