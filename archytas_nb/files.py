"""Writes every file of the package; none is left half written, and none is lost.

A file is written next to its target and moved into its place in one step. Until then the target has
its earlier contents, whatever happens: a full disk, an interrupt, a killed process. The file that a
killed process leaves next to the target has a name of its own, and the next write removes it.

    .NAME.1a2b3c4d.part    is being written while its process holds a lock on it; else it was left
    NAME                   that says something about a running process is `held` by it: locked in
                           the same way until it ends, so that neither clocks nor numbers of
                           processes decide whether it is still true
    a `TemporaryFolder`    is locked in the same way; the next process that makes one removes those
                           of processes that were killed

The new file has the owner and the rights of the one that it replaces. Another name of that one, a
hard link, keeps the earlier contents.

Where several users write into a folder, one of them could make a symbolic link that leads what the
others write into a file of their own. A link is followed only if it and its folder belong to this
user or to root, at any place of a path.
"""

from __future__ import annotations

import atexit
import errno
import hashlib
import os
import re
import secrets
import shutil
import stat
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

from archytas_nb.errors import FileError

if sys.platform != "win32":
    import fcntl

_MAX_LINKS = 40
"""How many links of one path are followed, as by the kernel of an operating system."""
_MAX_NAME = 200
"""Bytes of a name that are kept in the name of the file next to it, which may have 255."""
_OPEN = os.O_CREAT | os.O_EXCL | os.O_WRONLY | getattr(os, "O_BINARY", 0)
_NO_LINK = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
_UNSUPPORTED = (errno.EINVAL, errno.ENOSYS, errno.ENOTSUP)
"""The errors of file systems that cannot sync a file to disk, or have no permissions."""
FORCE = "name it again with --force (force=True)"


@dataclass(frozen=True, slots=True)
class OutputFile:
    """A file that the package writes.

    Attributes:
        path: Where it is.
        what: The kind of file, for messages, such as "the cassette".
        instead: The move for a person if it cannot be written, as a sentence.
        is_private: Whether it may hold secrets: a new one, and folders that are made for it, are
            for this user only. A file of this user that is there keeps its rights.
    """

    path: Path
    what: str
    instead: str = "Use a different file"
    is_private: bool = False

    def target(self) -> Path:
        """The file to which the links of the path lead.

        Raises:
            FileError: A link may be another user's, or the path cannot be followed.
        """
        try:
            return _resolved(self.path, self.what)
        except (OSError, ValueError, RuntimeError) as error:
            raise self.unwritable(error) from None

    def check(self) -> Path:
        """The target, if it seems that it can be written.

        Raises:
            FileError: It is known now that `write` would fail.
        """
        target = self.target()
        try:
            why = _obstacle(target)
        except OSError as error:
            raise self.unwritable(error) from None
        if why is not None:
            raise self.unwritable(why)
        return target

    def made(self) -> Path:
        """The target, whose folder is made: for a library that writes the file itself.

        Raises:
            FileError: It cannot be written.
        """
        target = self.check()
        try:
            _make_folders(target.parent, [], is_private=self.is_private)
        except OSError as error:
            raise self.unwritable(error) from error
        return target

    def check_ours(self, is_ours: Callable[[str], bool], *, force: bool = False) -> None:
        """Keep a file that the package did not write, unless it is empty or ``force`` is given.

        Args:
            is_ours: Whether a text is what the package wrote, without edits.
            force: Whether the person has named the file again.

        Raises:
            FileError: The file is not to be replaced.
        """
        target = self.target()
        found = _stat(target)
        if force or found is None or not stat.S_ISREG(found.st_mode) or not found.st_size:
            return
        try:
            text = target.read_bytes().decode("utf-8", "replace")
        except OSError as error:
            raise self.unwritable(error) from None
        if not is_ours(text):
            raise FileError(
                f"{self.what} is not written: {str(self.path)!r} is a file that archytas_nb did "
                f"not write, or that was edited since. Choose another name, or {FORCE} to replace "
                "it"
            )

    def write(self, content: str | bytes) -> None:
        """Replace the contents in one step; missing folders are made.

        Raises:
            FileError: It cannot be written. Then nothing has changed.
        """
        data = content.encode("utf-8") if isinstance(content, str) else content
        with self.writing() as part:
            part.write(data)

    def held(self, content: str | bytes) -> Held:
        """Replace the contents as `write` does, and hold the file until `Held.remove`.

        Raises:
            FileError: It cannot be written. Then nothing has changed.
        """
        data = content.encode("utf-8") if isinstance(content, str) else content
        with self.writing(keep_open=True) as part:
            part.write(data)
        return Held(self.target(), part)

    @contextmanager
    def writing(self, *, keep_open: bool = False) -> Iterator[Part]:
        """Replace the contents with what is written in the block, if it ends without an error.

        Args:
            keep_open: Whether the part stays open and locked, as the file that it became.

        Raises:
            FileError: It cannot be written. Then nothing has changed.
        """
        target = self.check()
        made: list[Path] = []
        part = None
        is_done = False
        try:
            _make_folders(target.parent, made, is_private=self.is_private)
            part = _begun(target, is_private=self.is_private)
            yield part
            part.finish(_kept(target, is_private=self.is_private))
            part.path.replace(target)
            is_done = True
        except OSError as error:
            raise self.unwritable(error) from error
        finally:
            if part is not None and not (keep_open and is_done):
                part.close(remove=not is_done)
            if not is_done:
                _remove_empty(made)

    def append(self, data: bytes) -> None:
        """Add to the end in one piece; a process that is killed may leave the first bytes of it.

        The folder is not made.

        Raises:
            FileError: It cannot be written. Then nothing has changed.
        """
        target = self.check()
        if _stat(target) is None and target.parent.is_dir():
            self.write(data)
            return
        try:
            file = os.open(target, os.O_WRONLY | os.O_APPEND | _NO_LINK)
        except OSError as error:
            raise self.unwritable(error) from error
        try:
            found = os.fstat(file)
            is_shared = found.st_nlink > 1  # also by somebody who has linked to it elsewhere
            if not is_shared:
                _append(file, data, found.st_size)
        except OSError as error:
            raise self.unwritable(error) from error
        finally:
            os.close(file)
        if is_shared:
            self.write(target.read_bytes() + data)

    def begin(self) -> BinaryIO:
        """Begin an empty file, for this user only, in place of an earlier one: a log.

        It is held while it is open here, or in a process that was given it.

        Raises:
            FileError: It cannot be written.
        """
        target = self.target()
        try:
            _make_folders(target.parent, [], is_private=True)
            target.unlink(missing_ok=True)
            log = os.fdopen(os.open(target, _OPEN | _NO_LINK, 0o600), "wb")
        except OSError as error:
            raise self.unwritable(error) from error
        _is_locked(log.fileno())
        return log

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other processes that ask for this lock from writing into the folder.

        The folder itself is locked, which leaves no file; only Windows needs one next to the file.
        """
        target = self.check()
        made: list[Path] = []
        try:
            _make_folders(target.parent, made, is_private=self.is_private)
            held = None if sys.platform == "win32" else os.open(target.parent, os.O_RDONLY)
        except OSError as error:
            _remove_empty(made)
            raise self.unwritable(error) from error
        try:
            if held is None:
                from filelock import FileLock

                with FileLock(target.with_name(f".{target.name}.lock")):
                    yield
            else:
                with suppress(OSError):  # a file system without locks
                    fcntl.flock(held, fcntl.LOCK_EX)
                yield
        finally:
            _remove_empty(made)
            if held is not None:
                os.close(held)

    def unwritable(self, why: object) -> FileError:
        """The error that says why it cannot be written, and what to do."""
        reason = why
        if isinstance(why, OSError) and why.strerror:
            reason = why.strerror
        return FileError(
            f"{self.what} {str(self.path)!r} cannot be written: {reason}. {self.instead}"
        )


class Part:
    """The file next to the target, which becomes it."""

    def __init__(self, path: Path, file: int) -> None:
        self.path = path
        self._file = file

    def write(self, data: bytes) -> int:
        """Add data; returns how much."""
        _write(self._file, data)
        return len(data)

    def finish(self, kept: os.stat_result | None) -> None:
        """See that all is on the disk, with the owner and the rights of the file that was there."""
        try:
            os.fsync(self._file)
        except OSError as error:
            if error.errno not in _UNSUPPORTED:
                raise
        if kept is not None and hasattr(os, "fchown"):
            mode = kept.st_mode & 0o777
            mine = os.fstat(self._file)
            if (mine.st_uid, mine.st_gid) != (kept.st_uid, kept.st_gid):
                mode = _given(self._file, kept, mode)
            try:
                os.fchmod(self._file, mode)
            except OSError as error:
                if error.errno not in (errno.EPERM, *_UNSUPPORTED):
                    raise
        if sys.platform == "win32":  # which cannot move an open file
            self.close(remove=False)

    def reopen(self, path: Path) -> None:
        """Keep open what it became."""
        self._file = os.open(path, os.O_RDONLY | _NO_LINK)

    def close(self, *, remove: bool) -> None:
        """Close it; remove it, where it did not become the target."""
        if self._file >= 0:
            file = self._file
            self._file = -1
            os.close(file)
        if remove:
            with suppress(OSError):
                self.path.unlink()


class Held:
    """A file that is true as long as its process lives: others ask `is_held`.

    A child that was forked does not hold it, and cannot remove it.
    """

    def __init__(self, path: Path, part: Part) -> None:
        self.path = path
        self._part = part
        self._pid = os.getpid()
        if sys.platform == "win32":  # where an open file cannot be renamed
            part.reopen(path)
        _held.add(self)

    def remove(self) -> None:
        """Remove the file; called again, or in a child, it does nothing."""
        if self not in _held or os.getpid() != self._pid:
            return
        _held.discard(self)
        if sys.platform == "win32":  # where an open file cannot be removed
            self._part.close(remove=False)
        with suppress(OSError):  # its folder is gone, or was taken away
            self.path.unlink(missing_ok=True)
        self._part.close(remove=False)

    def forget(self) -> None:
        """Close it without a word to others; for a child that was forked."""
        self._part.close(remove=False)


class TemporaryFolder:
    """A folder for this user alone, which goes with its process, however that ends.

    A child that was forked does not hold it, and cannot remove it. On Windows, and where there are
    no locks, one of a process that was killed is left to the system.

    Args:
        name: The purpose, as a part of its name.

    Attributes:
        path: Where it is.

    Raises:
        OSError: There is no room for temporary files.
    """

    def __init__(self, name: str) -> None:
        self._pid = os.getpid()
        if self._pid not in _swept:
            _swept.add(self._pid)
            _remove_abandoned()
        while True:
            self.path = Path(tempfile.mkdtemp(prefix=f"{_TEMPORARY}{name}-"))
            self._lock = _folder_lock(self.path, wait=True)
            # Another process may have looked at it, and removed it, before it was locked.
            if self.path.exists():
                break
            self.forget()
        _held.add(self)

    def remove(self) -> None:
        """Remove it with all that is in it; called again, or in a child, it does nothing."""
        if self not in _held or os.getpid() != self._pid:
            return
        _held.discard(self)
        shutil.rmtree(self.path, ignore_errors=True)
        self.forget()

    def forget(self) -> None:
        """Hold it no more; for a child that was forked."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1


_TEMPORARY = "archytas-nb-of-a-process-"
_swept: set[int] = set()
"""The id of this process, once it has looked for what others have left."""


def _folder_lock(path: Path, *, wait: bool = False) -> int:
    """The descriptor that locks a folder; -1 if that cannot be, as where there are no locks."""
    if sys.platform == "win32":
        return -1
    try:
        file = os.open(path, os.O_RDONLY | os.O_DIRECTORY | _NO_LINK)
    except OSError:
        return -1
    if _is_locked(file, wait=wait):
        return file
    os.close(file)
    return -1


def _remove_abandoned() -> None:
    """Remove the temporary folders of this user that no process holds."""
    with suppress(OSError):
        for each in Path(tempfile.gettempdir()).glob(f"{_TEMPORARY}*"):
            with suppress(OSError):
                lock = _folder_lock(each) if _is_mine(each.lstat()) else -1
                if lock >= 0:
                    shutil.rmtree(each, ignore_errors=True)
                    os.close(lock)


_held: set[Held | TemporaryFolder] = set()
"""What this process holds."""


@atexit.register
def _remove_held() -> None:
    for each in tuple(_held):
        each.remove()


def _forget_held() -> None:
    for each in tuple(_held):
        each.forget()
    _held.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_held)


def is_held(path: Path) -> bool | None:
    """Whether a process holds a file; None if it is gone, or where that cannot be known."""
    try:
        if sys.platform == "win32":
            path.rename(path)
            return False
        file = os.open(path, os.O_RDONLY | _NO_LINK)
    except PermissionError:
        return True if sys.platform == "win32" else None
    except OSError:
        return None
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:  # a file system without locks
        return None
    finally:
        os.close(file)
    return False


def _given(file: int, kept: os.stat_result, mode: int) -> int:
    """Give a file to the owner and the group of another; the mode that it may have then.

    Where the group cannot be kept, its rights would be those of other people.
    """
    with suppress(OSError):
        os.fchown(file, kept.st_uid, kept.st_gid)
        return mode
    with suppress(OSError):
        os.fchown(file, -1, kept.st_gid)
        return mode
    return mode & ~0o070 | (mode & 0o007) << 3


def _begun(target: Path, *, is_private: bool) -> Part:
    """A new file next to a target, locked; what killed processes have left there is removed."""
    name = target.name
    while len(os.fsencode(name)) > _MAX_NAME:
        name = name[:-1]
    remove_left(target.parent, re.escape(name))
    # With the rights of the file that is there only when it is complete.
    is_new = _stat(target) is None
    mode = 0o666 if is_new and not is_private else 0o600
    while True:
        path = target.with_name(f".{name}.{secrets.token_hex(4)}.part")
        file = os.open(path, _OPEN | _NO_LINK, mode)
        part = Part(path, file)
        try:
            # Another writer may look at it now, and remove it before this one has the lock.
            if _is_locked(file, wait=True) and not os.fstat(file).st_nlink:
                part.close(remove=False)
                continue
        except BaseException:
            part.close(remove=True)
            raise
        return part


def remove_left(folder: Path, names: str) -> None:
    """Remove what writes that did not end have left next to files, if their processes are gone.

    Args:
        folder: The folder of the files.
        names: A regular expression for their names.
    """
    left = re.compile(rf"\.{names}\.[0-9a-f]{{8}}\.part")
    with suppress(OSError):
        for each in [each for each in folder.iterdir() if left.fullmatch(each.name)]:
            with suppress(OSError):
                _remove_if_left(each)


def _remove_if_left(path: Path) -> None:
    if not stat.S_ISREG(path.lstat().st_mode):
        return
    if sys.platform == "win32":  # an open file cannot be removed
        path.unlink()
        return
    file = os.open(path, os.O_RDONLY | _NO_LINK)
    try:
        if _is_locked(file):
            path.unlink()
    finally:
        os.close(file)


def _is_locked(file: int, *, wait: bool = False) -> bool:
    """Lock a file; False if another process has locked it, or where there are no locks."""
    if sys.platform == "win32":
        return False
    try:
        fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        return False
    return True


def _kept(target: Path, *, is_private: bool) -> os.stat_result | None:
    """The file whose owner and rights the new one gets; None for those of a new file.

    What is private is not given to another user who has made a file of the name.
    """
    found = _stat(target)
    if found is None or (is_private and not _is_mine(found)):
        return None
    return found


def _is_mine(found: os.stat_result) -> bool:
    return not hasattr(os, "geteuid") or found.st_uid == os.geteuid()


def _append(file: int, data: bytes, size: int) -> None:
    """Add data to a file of this size, or leave it at that."""
    try:
        _write(file, data)
    except BaseException:
        with suppress(OSError):
            os.ftruncate(file, size)
        raise


def _write(file: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(file, rest) :]


def _make_folders(folder: Path, made: list[Path], *, is_private: bool) -> None:
    """Make a folder and those above it, and add to a list which were not there."""
    missing = []
    while not folder.is_dir():
        missing.append(folder)
        folder = folder.parent
    for each in reversed(missing):
        with suppress(FileExistsError):  # another process was faster; a file is an error below
            each.mkdir(0o700 if is_private else 0o777)
            made.append(each)
        if not each.is_dir():
            raise NotADirectoryError(errno.ENOTDIR, f"{str(each)!r} is not a directory")


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders that were made for a file, if there is none in them."""
    for folder in reversed(folders):
        with suppress(OSError):
            folder.rmdir()


def _obstacle(target: Path) -> str | None:
    """Why a file cannot be replaced; None if nothing is known."""
    found = _stat(target)
    if found is not None:
        if stat.S_ISDIR(found.st_mode):
            return "it is a directory"
        if not stat.S_ISREG(found.st_mode):
            return "it is not a regular file"
        # A read-only file could be replaced, but its owner does not want that.
        if not found.st_mode & stat.S_IWUSR or not os.access(target, os.W_OK):
            return "it is read-only"
    folder = next(each for each in target.parents if each.exists())
    if not folder.is_dir():
        return f"{str(folder)!r} is not a directory"
    if not os.access(folder, os.W_OK | os.X_OK):
        return f"the directory {str(folder)!r} is read-only"
    return None


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (FileNotFoundError, NotADirectoryError):
        return None


# ── links ─────────────────────────────────────────────────────────────────────────────────────────


def _resolved(path: Path, what: str) -> Path:
    """A path without its links; its end need not exist.

    Raises:
        FileError: One of the links may be another user's.
        OSError: The links lead in a circle.
    """
    path = path.absolute()
    if not hasattr(os, "geteuid"):  # Windows has no such owners
        return path.resolve()
    trusted = (os.geteuid(), 0)
    here = Path(path.anchor)
    parts = list(reversed(path.parts[1:]))
    followed = 0
    while parts:
        part = parts.pop()
        if part == os.pardir:
            here = here.parent
            continue
        each = here / part
        try:
            found = each.lstat()
        except (FileNotFoundError, NotADirectoryError):
            here = each
            continue
        if not stat.S_ISLNK(found.st_mode):
            here = each
            continue
        if found.st_uid not in trusted or here.stat().st_uid not in trusted:
            raise FileError(
                f"{what} {str(path)!r} is not used: {str(each)!r} is a symbolic link of another "
                "user, or in the directory of one. Remove it, or use a file in a directory of your "
                "own"
            )
        followed += 1
        if followed > _MAX_LINKS:
            raise OSError(errno.ELOOP, os.strerror(errno.ELOOP))
        to = each.readlink()
        if to.is_absolute():
            here = Path(to.anchor)
            parts += reversed(to.parts[1:])
        else:
            parts += reversed(to.parts)
    return here


# ── which files the package wrote ─────────────────────────────────────────────────────────────────

_NO_DIGEST = "0" * 16


def unsigned(mark: str) -> str:
    """The mark of a text that is about to be signed."""
    return f"{mark} [{_NO_DIGEST}]"


def signed(text: str, mark: str) -> str:
    """A text in which the mark has the digest of the rest, so that an edit can be seen."""
    before, _, after = text.partition(unsigned(mark))
    return f"{before}{mark} [{_digest(before, after)}]{after}"


def is_signed(text: str, mark: str) -> bool:
    """Whether a text has the mark, and is what was written."""
    text = text.replace("\r\n", "\n")  # as some version control makes it
    for found in re.finditer(rf"{re.escape(mark)} \[([0-9a-f]{{16}})\]", text):
        if found[1] == _digest(text[: found.start()], text[found.end() :]):
            return True
    return False


def _digest(before: str, after: str) -> str:
    return hashlib.sha256(f"{before}\0{after}".encode("utf-8", "surrogatepass")).hexdigest()[:16]
