"""The one folder in which a copy may write: it is removed with the copy, whatever is in it."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

import psutil  # type: ignore[import-untyped]

_PREFIX = "archytas-copy-"
MOST_ENTRIES = 10_000


_swept: set[int] = set()
"""The id of this process, once it has swept."""


def make() -> Path:
    """Make a scratch folder for this user alone."""
    if os.getpid() not in _swept:
        _swept.add(os.getpid())
        sweep()
    folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-")).resolve()
    _give_fonts(folder)
    return folder


def _give_fonts(folder: Path) -> None:
    """Copy the list of fonts, which matplotlib would otherwise make by other programs."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache", "matplotlib")
    with suppress(OSError):
        for each in Path(os.environ.get("MPLCONFIGDIR") or cache).glob("fontlist-v*.json"):
            shutil.copyfile(each, folder / each.name)


def sweep() -> None:
    """Remove the folders of kernels that were killed."""
    with suppress(OSError):
        for each in os.scandir(tempfile.gettempdir()):
            owner = each.name.removeprefix(_PREFIX).partition("-")[0]
            if not each.name.startswith(_PREFIX) or not owner.isdigit():
                continue
            with suppress(OSError):
                is_mine = not hasattr(os, "getuid") or each.stat().st_uid == os.getuid()
                is_folder = each.is_dir(follow_symlinks=False)
                if is_mine and is_folder and not psutil.pid_exists(int(owner)):
                    remove(Path(each.path))


def is_within(folder: Path, most: int) -> bool:
    """Whether the files of a folder have no more than some bytes, and are not too many."""
    count = size = 0
    waiting = [folder]
    while waiting:
        with suppress(OSError):
            for each in os.scandir(waiting.pop()):
                count += 1
                if each.is_dir(follow_symlinks=False):
                    waiting.append(Path(each.path))
                else:
                    with suppress(OSError):
                        size += each.stat(follow_symlinks=False).st_blocks * 512
                if count > MOST_ENTRIES or size > most:
                    return False
    return True


def remove(folder: Path) -> None:
    """Remove a folder whose content somebody else made.

    Folders are moved up before they are removed where they are too deep to be walked.
    """
    with suppress(RecursionError):
        shutil.rmtree(folder, ignore_errors=True)
    if not folder.exists():
        return
    number = 0
    for _ in range(10 * MOST_ENTRIES):
        inner = [each for each in _entries(folder) if each.is_dir(follow_symlinks=False)]
        if not inner:
            break
        for each in inner:
            path = Path(each.path)
            with suppress(OSError):
                path.chmod(stat.S_IRWXU)
            for deeper in _entries(path):
                number += 1
                with suppress(OSError):
                    if deeper.is_dir(follow_symlinks=False):
                        Path(deeper.path).rename(folder / f"{number}.moved")
                    else:
                        Path(deeper.path).unlink()
            with suppress(OSError):
                path.rmdir()
    shutil.rmtree(folder, ignore_errors=True)


def _entries(folder: Path) -> list[os.DirEntry[str]]:
    try:
        return list(os.scandir(folder))
    except OSError:
        return []
