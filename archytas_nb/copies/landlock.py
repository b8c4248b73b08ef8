"""Landlock: the files that a process may read, and the few that it may write, held by Linux.

By raw system calls: the wheels for Landlock are pre-releases or know no ABI after 5, and none
filters system calls, which a lock needs as well.
"""

from __future__ import annotations

import ctypes
import os
import stat
from collections.abc import Iterable
from contextlib import closing, suppress
from pathlib import Path

NEWEST = 7
"""The newest ABI whose rights this module knows; an older one of the system is used as it is."""

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_EXECUTE, _WRITE, _READ, _LIST = 1, 2, 4, 8
_REMOVE_DIR, _REMOVE_FILE, _MAKE_DIR, _MAKE_FILE = 16, 32, 128, 256
_REFER, _TRUNCATE = 1 << 13, 1 << 14
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE

_HANDLED = {1: (1 << 13) - 1, 2: (1 << 14) - 1, 3: (1 << 15) - 1, 4: (1 << 15) - 1}
_HANDLED_SINCE_5 = (1 << 16) - 1

_READABLE = _READ | _LIST
_SCRATCH = (
    _READABLE | _WRITE | _REMOVE_DIR | _REMOVE_FILE | _MAKE_DIR | _MAKE_FILE | _REFER | _TRUNCATE
)
"""All but links, sockets, pipes and devices."""


class _Attributes(ctypes.Structure):
    _fields_ = (
        ("files", ctypes.c_uint64),
        ("network", ctypes.c_uint64),
        ("scoped", ctypes.c_uint64),
    )


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("descriptor", ctypes.c_int32))


def abi() -> int:
    """The version of Landlock that the system has; 0 if it has none or it is switched off."""
    return max(0, int(ctypes.CDLL(None, use_errno=True).syscall(_CREATE, None, 0, 1)))


def _failed(what: str) -> OSError:
    code = ctypes.get_errno()
    return OSError(code, f"{what}: {os.strerror(code)}")


def restrict(
    readable: Iterable[Path], listed: Iterable[Path], writable: Iterable[Path], version: int
) -> None:
    """Refuse this thread and what it starts all other files; it cannot be taken back.

    Args:
        readable: Files, and folders with all that is in them, that can be read.
        listed: Folders whose names can be listed, with those of all folders in them.
        writable: Folders in which files can be made, changed and removed, and files for writing.
        version: The version of Landlock whose rights are used.

    Raises:
        OSError: The system refused it.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    handled = _HANDLED.get(version, _HANDLED_SINCE_5)
    # TCP since 4; signals and abstract sockets since 6. No rule allows any of them.
    # Each version of the system takes the fields that it knows, and refuses a longer structure.
    attributes = _Attributes(files=handled)
    size = _Attributes.network.offset
    if version >= 4:
        attributes.network = 3
        size = _Attributes.scoped.offset
    if version >= 6:
        attributes.scoped = 3
        size = ctypes.sizeof(_Attributes)
    rules = libc.syscall(_CREATE, ctypes.byref(attributes), size, 0)
    if rules < 0:
        raise _failed("Landlock took no rules")
    try:
        for paths, rights in ((readable, _READABLE), (listed, _LIST), (writable, _SCRATCH)):
            for path in paths:
                _allow(libc, rules, path, rights & handled)
        # PR_SET_NO_NEW_PRIVS
        if libc.prctl(38, 1, 0, 0, 0) or libc.syscall(_RESTRICT, rules, 0):
            raise _failed("Landlock did not restrict the process")
    finally:
        os.close(rules)


class _Opened:
    def __init__(self, path: Path) -> None:
        self.descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)

    def close(self) -> None:
        os.close(self.descriptor)


def _allow(libc: ctypes.CDLL, rules: int, path: Path, rights: int) -> None:
    with (
        suppress(FileNotFoundError, NotADirectoryError, PermissionError),
        closing(_Opened(path)) as opened,
    ):
        if not stat.S_ISDIR(os.fstat(opened.descriptor).st_mode):
            rights &= _OF_FILES
        if not rights:
            return
        rule = _Beneath(rights, opened.descriptor)
        if libc.syscall(_ADD, rules, 1, ctypes.byref(rule), 0):
            raise _failed(f"Landlock did not take a rule about {str(path)!r}")
