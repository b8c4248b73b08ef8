"""The paths that a copy may read: Python, libraries, the project without secrets, and more.

A file is a secret by its name: it is hidden, as `.env` and `.ssh` are, or named like a key or a
password. Landlock allows folders with all that is in them, so only large folders without a secret
are allowed as a whole, and all others entry by entry.
"""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import NamedTuple

MOST_ENTRIES = 20_000
"""How many files and folders of a project are looked at; what is beyond cannot be read."""

SMALL = 500
"""Entries of a folder that are allowed one by one: so a file that is made later cannot be read."""

_SECRET = re.compile(
    r"\..*|.*\.(pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc|gpg|ovpn)|id_(rsa|dsa|ecdsa|ed25519).*"
    r"|(.*[^a-z])?(secrets?|credentials?|passwords?|passwd|token|api[-_]?keys?|private[-_]?keys?"
    r"|service[-_]?accounts?)([^a-z].*)?",
    re.IGNORECASE | re.DOTALL,
)

_CODE = (".py", ".pyi", ".pyc", ".so")
"""What a module may be called after, such as `token.py`."""

_SYSTEM = (
    # libraries and programs
    "/usr", "/lib", "/lib64", "/lib32", "/bin", "/sbin",
    # settings that libraries read, none of which has a password
    "/etc/ld.so.cache", "/etc/localtime", "/etc/timezone", "/etc/passwd", "/etc/group",
    "/etc/nsswitch.conf", "/etc/os-release", "/etc/mime.types", "/etc/fonts", "/etc/alternatives",
    "/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/locale.alias",
    # the machine
    "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/loadavg", "/proc/uptime",
    "/proc/version", "/proc/filesystems", "/proc/sys/vm", "/proc/sys/kernel/osrelease",
    "/sys/devices/system/cpu", "/sys/devices/system/node",
    "/sys/kernel/mm/transparent_hugepage",
    "/dev/zero", "/dev/urandom", "/dev/random",
)  # fmt: skip

_INSTALLED = (
    "lib",
    "lib64",
    "bin",
    "include",
    "share",
    "ssl",
    "Lib",
    "DLLs",
    "Library",
    "pyvenv.cfg",
)
"""What is in the folder of an interpreter."""

_GROUPS = "/sys/fs/cgroup"
_LIMITS = (
    "cpu.max", "memory.max", "memory.high", "cgroup.controllers", "cpu.cfs_quota_us",
    "cpu.cfs_period_us", "memory.limit_in_bytes",
)  # fmt: skip
"""The files in which libraries read how much of the machine a process may use."""

_OF_ITSELF = ("maps", "smaps", "smaps_rollup", "stat", "statm", "status", "cgroup", "limits", "fd")


class Readable(NamedTuple):
    """The readable paths.

    Attributes:
        whole: Files, and folders with all that is in them.
        listed: Folders whose names, and those of the folders in them, may be listed.
        is_cut: Whether the project has more entries than are looked at.
    """

    whole: tuple[Path, ...]
    listed: tuple[Path, ...]
    is_cut: bool = False


def is_secret(name: str) -> bool:
    """Whether a file or folder with this name, without its path, is a secret."""
    return _SECRET.fullmatch(name) is not None and not name.endswith(_CODE)


@cache
def python_and_libraries() -> tuple[Path, ...]:
    """The folders of the interpreter and of what is installed for it."""
    found = {Path(each) for name, each in sysconfig.get_paths().items() if name != "data"}
    for prefix in (sys.prefix, sys.base_prefix, sys.exec_prefix):
        # Not the whole folder: it may have a `pip.conf` with a password.
        found.update(Path(prefix, part) for part in _INSTALLED)
    with suppress(OSError):
        found.add(Path(sys.executable).resolve())
    return tuple(path for path in sorted(found) if len(path.parts) > 1 and path != Path.home())


def readable(folder: Path) -> Readable:
    """The paths that code in a copy may read.

    Args:
        folder: The project: its files can be read, except secrets.
    """
    whole = [Path(each) for each in _SYSTEM] + list(python_and_libraries())
    whole += [Path("/proc/self", each) for each in _OF_ITSELF]
    whole += _limits()
    listed = []
    is_cut = False
    for each in _projects(folder):
        project = _Project(each)
        whole += project.allowed()
        listed += project.listed()
        is_cut |= project.is_cut
    return Readable(tuple(whole), tuple(listed), is_cut)


def _limits() -> Iterator[Path]:
    """The limits of the control groups that this process is in, and of none of another."""
    groups = {_GROUPS, f"{_GROUPS}/cpu", f"{_GROUPS}/memory"}
    with suppress(OSError):
        for line in Path("/proc/self/cgroup").read_text().splitlines():
            _, controllers, own = line.split(":", 2)
            inside = controllers.removeprefix("name=") or "unified"
            groups |= {f"{_GROUPS}{own}", f"{_GROUPS}/{inside}{own}"}
    for group in sorted(groups):
        yield from (Path(group, name) for name in _LIMITS)


def _projects(folder: Path) -> Iterator[Path]:
    """The project, and other folders from which Python imports that are not installed."""
    seen: list[Path] = []
    for each in (folder, *map(Path, sys.path)):
        with suppress(OSError):
            path = each.resolve(strict=True)
            installed = any(path.is_relative_to(known) for known in python_and_libraries())
            above_home = Path.home().is_relative_to(path) and each is not folder
            is_known = installed or any(path.is_relative_to(known) for known in seen)
            if path.is_dir() and not is_known and not above_home and len(path.parts) > 1:
                seen.append(path)
                yield path


class _Folder(NamedTuple):
    path: str
    parent: int
    files: list[tuple[str, int]]
    folders: list[int]


class _Project:
    """The entries of a folder, level by level, without those of secret folders."""

    def __init__(self, root: Path) -> None:
        self._root = root
        self._folders = [_Folder(str(root), -1, [], [])]
        self._unclean: set[int] = set()
        self._secret_files: set[int] = set()
        self._home = str(Path.home())
        self.is_cut = False
        self._walk()

    def _walk(self) -> None:
        looked = 0
        for index, folder in enumerate(self._folders):
            if looked > MOST_ENTRIES:
                self.is_cut = True
                self._mark(index)
                folder.files.clear()
                continue
            try:
                entries = list(os.scandir(folder.path))
            except OSError:
                self._mark(index)
                continue
            looked += len(entries)
            if len(entries) <= SMALL or not index:
                # A secret that is made here later on must not be in what was allowed.
                self._mark(index)
            for entry in entries:
                self._add(index, entry)

    def _add(self, index: int, entry: os.DirEntry[str]) -> None:
        folder = self._folders[index]
        is_folder = entry.is_dir(follow_symlinks=False)
        if is_secret(entry.name) or (is_folder and entry.path == self._home):
            self._mark(index)
            if not is_folder:
                self._secret_files.add(entry.inode())
        elif is_folder:
            folder.folders.append(len(self._folders))
            self._folders.append(_Folder(entry.path, index, [], []))
        elif not entry.is_symlink():
            folder.files.append((entry.name, entry.inode()))

    def _mark(self, index: int) -> None:
        """A folder cannot be allowed as a whole, nor can those that it is in."""
        while index >= 0 and index not in self._unclean:
            self._unclean.add(index)
            index = self._folders[index].parent

    def allowed(self) -> list[Path]:
        """The paths that can be allowed as a whole."""
        for index, folder in enumerate(self._folders):
            # A hard link gives a secret a second name.
            if any(inode in self._secret_files for _, inode in folder.files):
                self._mark(index)
        found = []
        waiting = [0]
        while waiting:
            index = waiting.pop()
            folder = self._folders[index]
            if index not in self._unclean:
                found.append(Path(folder.path))
                continue
            waiting += folder.folders
            found += [
                Path(folder.path, name)
                for name, inode in folder.files
                if inode not in self._secret_files
            ]
        return found

    def listed(self) -> list[Path]:
        return [self._root]
