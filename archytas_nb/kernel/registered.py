"""The kernels of this user that other programs may talk to.

Each is a file in Jupyter's private runtime folder, which only the user may read: it holds the
address where the kernel listens, and the token that a program must know. The kernel holds its file
as long as it listens, so the file of one that was killed is known by that.
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

from archytas_nb.errors import ConfigurationError
from archytas_nb.files import Held, OutputFile, is_held, remove_left


@dataclass(frozen=True, slots=True)
class Registered:
    """A kernel that listens.

    Attributes:
        notebook: The path of the notebook, if the front end told the kernel; else its folder.
        pid: The process of the kernel.
        url: The address where it listens.
        token: The secret that a program must send.
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


def working_folder() -> Path:
    """The working folder of this kernel.

    Raises:
        ConfigurationError: It was removed.
    """
    try:
        return Path.cwd()
    except OSError as error:
        raise ConfigurationError(
            f"the working folder of this kernel cannot be used ({error.strerror}): change to "
            "another one with %cd"
        ) from None


def register(kind: str, url: str, token: str) -> Held:
    """Write down where this kernel listens; only the user may read the file.

    Args:
        kind: The kind of listener, a word.
        url: The address.
        token: The token.

    Returns:
        The file; whoever stops listening removes it.

    Raises:
        ConfigurationError: It cannot be written.
    """
    notebook = os.environ.get("JPY_SESSION_NAME") or str(working_folder())
    folder = _folder()
    remove_left(folder, rf"archytas_nb-{kind}-\d+\.json")  # of any kernel
    path = folder / f"archytas_nb-{kind}-{os.getpid()}.json"
    text = json.dumps(asdict(Registered(notebook, os.getpid(), url, token)))
    instead = "Set JUPYTER_RUNTIME_DIR to a directory of your own"
    return OutputFile(
        path, "the file that says where this kernel listens", instead, is_private=True
    ).held(text)


def registered(kind: str) -> list[Registered]:
    """The kernels that listen on this machine."""
    return [each for _, each, is_alive in _read(kind) if is_alive]


def remove_dead(kind: str) -> list[Registered]:
    """Remove the files of kernels that were killed, and return what they contained."""
    dead = []
    for path, each, is_alive in _read(kind):
        if not is_alive:
            with suppress(OSError):  # another kernel was faster, or the folder is read-only
                path.unlink()
                dead.append(each)
    return dead


def _read(kind: str) -> Iterator[tuple[Path, Registered, bool]]:
    """Each file, with what it contains and whether its kernel is alive."""
    found: list[Path] = []
    with suppress(OSError):  # there is no such folder, or it cannot be read
        found = sorted(_folder().glob(f"archytas_nb-{kind}-*.json"))
    for path in found:
        with suppress(OSError, ValueError, TypeError):
            each = Registered(**json.loads(path.read_text(encoding="utf-8")))
            yield path, each, _is_alive(path, each.pid)


def _is_alive(path: Path, pid: int) -> bool:
    """Whether the process that wrote a file still holds it."""
    held = is_held(path)
    if held is None:  # there are no locks here: all that is known is its number
        return bool(psutil.pid_exists(pid))
    return held
