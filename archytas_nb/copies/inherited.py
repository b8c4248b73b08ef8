"""Give up what a forked process shares with its parent: files, connections and shared memory.

A rule about paths does not apply to files that are already open.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import stat
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

_PRIVATE_COPY = 0x02 | 0x10
"""MAP_PRIVATE and MAP_FIXED."""
_ANONYMOUS = 0x20
_CHUNK = 1 << 20


class _Vector(ctypes.Structure):
    _fields_ = (("start", ctypes.c_void_p), ("length", ctypes.c_size_t))


class _Map(NamedTuple):
    start: int
    length: int
    offset: int
    device: tuple[int, int]
    inode: int
    path: str


def _shared_maps() -> list[_Map]:
    found = []
    with open("/proc/self/maps", encoding="utf-8", errors="surrogateescape") as file:  # noqa: PTH123
        for line in file:
            span, rights, offset, device, inode, *path = line.rstrip("\n").split(None, 5)
            if rights[3] == "s":
                start, end = (int(each, 16) for each in span.split("-"))
                major, minor = (int(each, 16) for each in device.split(":"))
                where = path[0] if path else ""
                found.append(
                    _Map(start, end - start, int(offset, 16), (major, minor), int(inode), where)
                )
    return found


def unshare_memory(most: int) -> None:
    """Replace maps through which a file or other processes could be changed by private copies.

    Args:
        most: How many bytes to copy; what is beyond is unreadable, and ends the process if touched.

    Raises:
        OSError: A map cannot be replaced.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    libc.mmap.restype = ctypes.c_void_p
    libc.mmap.argtypes = (
        ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_int, ctypes.c_int, ctypes.c_long,
    )  # fmt: skip
    libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    for each in _shared_maps():
        # It fails for a map of a file that was opened for reading, which is harmless.
        if libc.mprotect(each.start, each.length, 1 | 2) != 0 and ctypes.get_errno() == 13:
            continue
        if not _map_file(libc, each):
            most -= _copy(libc, each, most)


def _mapped(libc: ctypes.CDLL, start: int, length: int, rights: int, flags: int, *at: int) -> None:
    descriptor, offset = at or (-1, 0)
    got = libc.mmap(start, length, rights, flags, descriptor, offset)
    if got != start:
        code = ctypes.get_errno()
        raise OSError(code, f"shared memory cannot be made private: {os.strerror(code)}")


def _map_file(libc: ctypes.CDLL, old: _Map) -> bool:
    """Map the same file privately; False if it is not a file that can be opened again."""
    try:
        descriptor = os.open(old.path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    except (OSError, ValueError):
        return False
    try:
        facts = os.fstat(descriptor)
        device = (os.major(facts.st_dev), os.minor(facts.st_dev))
        same = facts.st_ino == old.inode and device == old.device
        if not (same and stat.S_ISREG(facts.st_mode)):
            return False
        _mapped(libc, old.start, old.length, 1 | 2, _PRIVATE_COPY, descriptor, old.offset)
    finally:
        os.close(descriptor)
    return True


def _copy(libc: ctypes.CDLL, old: _Map, most: int) -> int:
    """Put a copy of memory in its place, or nothing where it is a device or too large.

    Returns:
        How many bytes were copied.
    """
    # Memory of /dev/shm, memfd and MAP_ANONYMOUS; the maps of a device have no content to copy.
    is_memory = old.path.startswith(("/dev/shm/", "/memfd:", "/dev/zero", "/SYSV")) or (  # noqa: S108
        old.path.endswith(" (deleted)") and not old.path.startswith("/dev/")
    )
    if not is_memory or old.length > most:
        _mapped(libc, old.start, old.length, 0, _PRIVATE_COPY | _ANONYMOUS)
        return 0
    content = mmap.mmap(-1, old.length, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    address = ctypes.addressof(ctypes.c_char.from_buffer(content))
    for at in range(0, old.length, _CHUNK):
        # The system reads it: beyond the end of a file there is nothing, which would be a signal.
        size = min(_CHUNK, old.length - at)
        to, of = _Vector(address + at, size), _Vector(old.start + at, size)
        libc.process_vm_readv(os.getpid(), ctypes.byref(to), 1, ctypes.byref(of), 1, 0)
    _mapped(libc, old.start, old.length, 1 | 2, _PRIVATE_COPY | _ANONYMOUS)
    ctypes.memmove(old.start, address, old.length)
    return old.length


def give_up_descriptors(kept: frozenset[int], dead: int) -> None:
    """Open each file that can be read again for reading alone, and replace everything else.

    Their numbers stay in use: an object of the parent that writes to one must not find a new file
    there. It is to be called after the lock, which decides what can be opened again.

    Args:
        kept: The descriptors that are this process's own.
        dead: A descriptor that can be neither read nor written, for all others.
    """
    for each in tuple(Path("/proc/self/fd").iterdir()):
        number = int(each.name)
        if number in kept or number == dead:
            continue
        with suppress(OSError):  # it was that of the listing
            if not _open_again(number):
                os.dup2(dead, number, inheritable=False)


def _open_again(number: int) -> bool:
    facts = os.fstat(number)
    if not stat.S_ISREG(facts.st_mode):
        return False
    try:
        position = os.lseek(number, 0, os.SEEK_CUR)
        again = os.open(f"/proc/self/fd/{number}", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        os.lseek(again, position, os.SEEK_SET)
        os.dup2(again, number, inheritable=False)
    finally:
        os.close(again)
    return True
