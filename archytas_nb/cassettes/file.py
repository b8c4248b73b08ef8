"""A cassette's file: read whole, written whole or continued, shared by whoever records into it.

The only file that opens a cassette. A file is never half written: an exchange is added to its end in one piece,
and any other change is made beside it and takes its place at once. Two kernels may record into one cassette: each
takes a lock for a change, and takes over first what the other has added.
"""

from __future__ import annotations

import errno
import os
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from archytas_nb.cassettes.format import lines_of, parts_of, read, written
from archytas_nb.cassettes.values import Entry, Header
from archytas_nb.errors import ConfigurationError

_WAIT = 20.0  # seconds for a lock that is held for milliseconds


class CassetteFile:
    """The file of one cassette.

    Args:
        path: It need not exist.

    Attributes:
        fault: What was wrong with the last line when it was read; empty for nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fault = ""
        self._seen: tuple[int, int, int] | None = None
        self._header: Header | None = (
            None  # of the file as it stands, where exchanges may be added to its end
        )
        self._refs: set[str] = set()  # of the parts that are in it

    @property
    def exists(self) -> bool:
        """Whether there is such a file."""
        return self.path.exists()

    def read(self) -> tuple[Header, list[Entry]]:
        """Read all of it.

        Raises:
            ConfigurationError: It cannot be read, or is no cassette.
        """
        self._seen = self._signature()
        try:
            text = self.path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"the cassette {str(self.path)!r} cannot be read ({error}); name another file"
            ) from error
        header, entries, self.fault = read(str(self.path), text)
        self._header = header if text.endswith("\n") and not self.fault else None
        self._refs = {part.ref for entry in entries for part in parts_of(entry)}
        return header, entries

    @property
    def was_changed(self) -> bool:
        """Whether somebody else has written it since it was read or written here."""
        return self._signature() != self._seen

    def check(self) -> None:
        """Say now what `write` would say later.

        Raises:
            ConfigurationError: The file could not be written.
        """
        folder = self.path.absolute().parent
        while not folder.exists():
            folder = folder.parent
        if self.path.is_dir():
            raise self._unwritable("it is a folder", "name a file")
        if not os.access(folder, os.W_OK):
            raise self._unwritable(
                f"the folder {str(folder)!r} is read-only", "name a file in a folder of yours"
            )
        if self._is_protected():
            raise self._unwritable(
                "it is read-only", "chmod u+w it, or only replay it (mode 'replay')"
            )

    def write(self, header: Header, entries: Sequence[Entry]) -> None:
        """Put this in the place of the file.

        Raises:
            ConfigurationError: It cannot be written; the file is as it was.
        """
        self.check()
        self._header = None
        text = "".join(f"{line}\n" for line in written(header, entries))
        target = self.path.resolve()  # a link stays a link
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            beside.unlink(missing_ok=True)
            with beside.open("x", encoding="utf-8", newline="\n") as file:  # "x" follows no link
                file.write(text)
            if target.exists():
                shutil.copymode(target, beside)
            beside.replace(target)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise self._unwritable(str(error), "name a file in a folder of yours") from error
        self._seen = self._signature()
        self._header, self._refs = (
            header,
            {part.ref for entry in entries for part in parts_of(entry)},
        )

    def add(self, header: Header, entries: Sequence[Entry]) -> None:
        """Put this in the place of the file, of which only the last exchange is new: where it can, that is added.

        Raises:
            ConfigurationError: It cannot be written; the file is as it was.
        """
        if header != self._header or self.was_changed or not entries:
            self.write(header, entries)
            return
        self.check()
        self._header = None  # an interrupt in here leaves it open what is in the file
        data = "".join(f"{line}\n" for line in lines_of(entries[-1], self._refs)).encode()
        size = self.path.stat().st_size
        try:
            with self.path.open("ab", buffering=0) as file:
                if file.write(data) != len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError as error:
            with suppress(OSError):
                os.truncate(self.path, size)
            raise self._unwritable(str(error), "name a file in a folder of yours") from error
        self._seen = self._signature()
        self._header = header

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from writing it for a moment."""
        self.check()
        # Beside the cassette, for processes with other folders of temporary files lock it too. It is removed
        # while it is still held: there is nothing to commit, and what a killed process leaves goes with the next.
        target = self.path.resolve()
        lock = target.with_name(f".{target.name}.lock")
        until = time.monotonic() + _WAIT
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            while (held := _acquired(lock)) is None:
                if time.monotonic() > until:
                    raise ConfigurationError(
                        f"the cassette {str(self.path)!r} is being written by another process for more than "
                        f"{_WAIT:g} s; end that process, or record into another file"
                    )
                time.sleep(0.005)
        except OSError as error:
            raise self._unwritable(str(error), f"remove {str(lock)!r} if it is there") from error
        try:
            yield
        finally:
            _release(held, lock)

    def _is_protected(self) -> bool:
        """Whether its owner has made it read-only: it could be replaced all the same, but that is not meant."""
        try:
            return not self.path.stat().st_mode & stat.S_IWUSR
        except OSError:
            return False

    def _unwritable(self, why: str, move: str) -> ConfigurationError:
        return ConfigurationError(
            f"the cassette {str(self.path)!r} cannot be written ({why}); {move}"
        )

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size


_NO_LOCKS = (errno.ENOSYS, errno.ENOTSUP, errno.ENOLCK)
"""What file systems say that know no locks: one process at a time may record there."""


def _acquired(lock: Path) -> int | None:
    """Open and lock a file that may be removed at any moment; None where another process holds it."""
    flags = os.O_RDWR | os.O_CREAT | getattr(os, "O_NOFOLLOW", 0)
    try:
        held = os.open(lock, flags, 0o666)
    except PermissionError:
        if sys.platform != "win32":
            raise
        return None  # it is being removed
    try:
        if sys.platform == "win32":
            import msvcrt

            msvcrt.locking(held, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if os.path.samestat(os.fstat(held), lock.lstat()):
            return held
    except OSError as error:
        if error.errno in _NO_LOCKS:
            return held
        if error.errno not in (errno.EACCES, errno.EAGAIN, errno.EDEADLK, errno.ENOENT):
            os.close(held)
            raise
    except BaseException:
        os.close(held)
        raise
    os.close(held)
    return None


def _release(held: int, lock: Path) -> None:
    """Remove a lock: before it is let go, or another process could hold it by then; Windows wants it closed."""
    if sys.platform == "win32":
        os.close(held)
    with suppress(OSError):
        lock.unlink()
    if sys.platform != "win32":
        os.close(held)
