"""Lock this process: what the machine can lock, and the lock itself.

On Linux, Landlock decides about files and a filter refuses every other system call that could have
an effect; together they also stop native code. On macOS and Windows, and on a Linux without
one of the two, a process can only be guarded.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from archytas_nb.copies import inherited, landlock, seccomp
from archytas_nb.copies.readable import Readable

LevelKind = Literal["locked", "guarded"]


@dataclass(frozen=True)
class Level:
    """How a copy is held.

    Attributes:
        kind: "locked" if the operating system refuses every effect; "guarded" if Python refuses
            those that it sees, which holds against honest code alone.
        missing: The lacks of this machine for a lock, as noun phrases; empty if it is locked.
        abi: The version of Landlock that is used; 0 if none is.
    """

    kind: LevelKind
    missing: tuple[str, ...] = ()
    abi: int = 0


def machine(newest: int = landlock.NEWEST) -> Level:
    """The locks that this machine supports.

    Args:
        newest: The newest version of Landlock to use, as on a machine that has no newer one; 0 for
            none.
    """
    if sys.platform != "linux":
        return Level("guarded", ("Landlock and seccomp, which Linux has",))
    missing = []
    abi = min(landlock.abi(), newest)
    if not abi:
        missing.append("Landlock (Linux 5.13 or newer, and enabled at boot)")
    if not seccomp.is_known():
        missing.append("a filter of system calls (seccomp, on x86_64 or aarch64)")
    return Level("guarded", tuple(missing)) if missing else Level("locked", (), abi)


def lines() -> list[str]:
    """The locks that this machine supports, one fact per line, for `doctor`."""
    level = machine()
    if level.kind == "guarded":
        return [
            "guarded: Python refuses effects that it sees",
            *(f"not locked: this machine lacks {each}" for each in level.missing),
        ]
    found = [f"locked: Landlock ABI {level.abi}, and a filter of system calls"]
    if level.abi < landlock.NEWEST:
        found.append("the filter also refuses acts that only newer versions of Landlock refuse")
    return found


def lock(
    level: Level,
    readable: Readable,
    writable: Iterable[Path],
    kept: frozenset[int],
    most_memory: int,
) -> None:
    """Lock this process, which has one thread and was forked for it; it cannot be taken back.

    Args:
        level: A level that `machine` returned, with the kind "locked".
        readable: The readable paths.
        writable: Folders in which files can be made and changed.
        kept: Descriptors that stay open.
        most_memory: How many bytes of shared memory to copy.

    Raises:
        OSError: It is not locked, and must not go on.
    """
    if len(tuple(Path("/proc/self/task").iterdir())) != 1:
        raise OSError(0, "a library starts threads in a forked process")
    inherited.unshare_memory(most_memory)
    dead = os.open(os.devnull, os.O_PATH | os.O_CLOEXEC)
    landlock.restrict(readable.whole, readable.listed, [*writable, Path(os.devnull)], level.abi)
    inherited.give_up_descriptors(kept, dead)
    seccomp.restrict()
    _check()


def _check() -> None:
    """Try two effects, so that nobody relies on a lock without effect."""
    try:
        os.kill(os.getppid(), 0)
    except PermissionError:
        pass
    else:
        raise OSError(0, "the filter of system calls has no effect")
    try:
        tuple(Path("/").iterdir())
    except PermissionError:
        return
    raise OSError(0, "Landlock has no effect")
