"""The state of a path, kept so that it can be restored.

    missing     nothing is there
    file        its content is kept, unless it is too large; with its rights and its time
    folder      without its entries, which have their own paths
    link        its target; the file there has its own path
    other       a device, a pipe or a socket: nothing is kept

Contents are kept by their hash, so that equal ones are kept once. `dvc` and `git` keep files in the
same way, but need a repository. A file that nothing is about to change is its own copy: of it, only
the hash is known.
"""

from __future__ import annotations

import errno
import hashlib
import os
import shutil
import stat
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal, TypeAlias

from archytas_nb.files import TemporaryFolder

What: TypeAlias = Literal["missing", "file", "folder", "link", "other"]

MAX_FILE = 64_000_000
"""Bytes of the largest file that is kept."""
MAX_ALL = 512_000_000
"""Maximum number of bytes that one kernel keeps."""
_SMALL = 1_000_000  # bytes of a file that are read in one piece
_COPY = "copy-"
_TICK = 1_000_000_000
"""Nanoseconds within which a file may be written twice with the same time."""


@dataclass(frozen=True, slots=True)
class State:
    """The state of a path.

    Attributes:
        what: The kind: a file, a folder, ….
        size: The bytes of a file.
        stamp: Changes whenever the file is written: its time, its number and its size.
        rights: The permission bits of its mode.
        leads_to: The target of a link.
        digest: The hash of its content, under which it may be kept; None if it is not known.
        owner: The numbers of its user and its group.
    """

    what: What
    size: int = 0
    stamp: tuple[int, ...] = ()
    rights: int = 0
    leads_to: str = ""
    digest: str | None = None
    owner: tuple[int, int] | None = None

    def is_same(self, other: State) -> bool:
        """Whether both are known to have the same content and permissions."""
        known = (self.what, self.rights, self.leads_to, self.owner)
        if known != (other.what, other.rights, other.leads_to, other.owner):
            return False
        if self.digest is not None and other.digest is not None:
            return self.digest == other.digest
        return self.what != "file" or self.stamp == other.stamp

    @property
    def inode(self) -> int | None:
        """The number of a file, which all its hard links share; None if this is not a file."""
        return self.stamp[1] if self.what == "file" else None

    @property
    def is_kept(self) -> bool:
        """Whether it can be put back."""
        return self.what in ("missing", "folder", "link") or self.digest is not None


MISSING = State("missing")


def seen(path: Path) -> State:
    """The state of a path, without its content."""
    try:
        found = path.lstat()
        leads_to = str(path.readlink()) if stat.S_ISLNK(found.st_mode) else ""
    except (OSError, ValueError):
        return MISSING
    return state_of(found, leads_to)


def state_of(found: os.stat_result, leads_to: str = "") -> State:
    """The system's record of a path, and the target of a link."""
    rights = stat.S_IMODE(found.st_mode)
    owner = (found.st_uid, found.st_gid)
    stamp = (found.st_mtime_ns, found.st_ino, found.st_size)
    if stat.S_ISREG(found.st_mode):
        return State("file", found.st_size, stamp, rights, owner=owner)
    if stat.S_ISDIR(found.st_mode):
        return State("folder", rights=rights, owner=owner)
    if stat.S_ISLNK(found.st_mode):
        return State("link", leads_to=leads_to, owner=owner)
    return State("other", stamp=stamp, rights=rights, owner=owner)


class Store:
    """Contents of files, kept while the kernel runs, in a folder that only its user can read.

    Args:
        folder: Where; a temporary folder by default, which goes with the kernel.
        max_file: Bytes of the largest file that is kept.
        max_all: Bytes of all.

    Attributes:
        max_file: Bytes of the largest file that is kept.
        max_all: Bytes of all.
    """

    def __init__(
        self, folder: Path | None = None, max_file: int = MAX_FILE, max_all: int = MAX_ALL
    ) -> None:
        self.max_file = max_file
        self.max_all = max_all
        self._folder = folder
        self._own: TemporaryFolder | None = None
        self._process = os.getpid()
        self._size = 0
        self._hashes: dict[str, str] = {}  # of copies, by their names
        self._copies: dict[str, str] = {}  # the names of copies, by their hashes
        self._known: dict[Path, State] = {}  # states that cannot have changed unnoticed since

    def keep(self, path: Path) -> State:
        """The state of a path, with its content if there is room for it."""
        state = seen(path)
        if not self._has_room(state):
            return state
        try:
            if state.size <= _SMALL:
                return self._kept(state, path.read_bytes())
            return self.hashed(self._copied(path, state))
        except OSError:  # unreadable, or a full disk: the person is told so
            return state

    def known(self, path: Path) -> State:
        """The state of a path, with the hash of its content, which is not kept."""
        state = seen(path)
        if state.what != "file" or state.size > self.max_file:
            return state
        try:
            return replace(state, digest=_hash(path, state.size))
        except OSError:
            return state

    def copy(self, path: Path) -> State:
        """The state of a path, with its content under a name that only `hashed` knows.

        Most of these contents are never needed, so they are not hashed. A file with unchanged time
        and size is not read again; a library that writes into a mapped file may leave both
        unchanged.
        """
        state = seen(path)
        known = self._known.get(path)
        if known is not None and (known.stamp, known.rights) == (state.stamp, state.rights):
            return known
        if not self._has_room(state):
            return state
        try:
            kept = self._copied(path, state)
        except OSError:
            return state
        if time.time_ns() - state.stamp[0] > _TICK:
            self._known[path] = kept
        return kept

    def hashed(self, state: State) -> State:
        """A state whose content is kept by its hash, of one that `copy` gave."""
        name = state.digest
        if name is None or not name.startswith(_COPY):
            return state
        if name not in self._hashes:
            copy = self._path(name)
            try:
                digest = _hash(copy, state.size)
            except OSError:
                return replace(state, digest=None)
            if digest not in self._copies:
                self._copies[digest] = name
            elif os.getpid() == self._process:  # a fork uses the same folder
                copy.unlink(missing_ok=True)
                self._size -= state.size
            self._hashes[name] = digest
        return replace(state, digest=self._hashes[name])

    def head(self, state: State) -> bytes:
        """The first bytes of a kept file; empty for anything else."""
        content = self.content(state)
        if content is None:
            return b""
        with content.open("rb") as file:
            return file.read(16)

    def content(self, state: State) -> Path | None:
        """The file with the kept content of a state; None if it is not kept."""
        digest = self.hashed(state).digest
        return self._path(digest) if digest in self._copies else None

    def put(self, path: Path, state: State) -> None:
        """Restore a state in one step: others see either the old or the new one.

        Raises:
            OSError: That is not possible.
        """
        now = seen(path)
        if now.what == "folder" and state.what != "folder":
            path.rmdir()
            now = MISSING
        if state.what == "missing":
            if now.what != "missing":
                path.unlink()
        elif state.what == "folder":
            if now.what != "folder":
                path.unlink(missing_ok=True)
                path.mkdir()
            _give(path, state)
            path.chmod(state.rights)
        elif state.what == "link":
            beside = _beside(path)
            beside.symlink_to(state.leads_to)
            try:
                _give(beside, state)
                beside.replace(path)
            except OSError:
                beside.unlink(missing_ok=True)
                raise
        elif (content := self.content(state)) is None:
            raise OSError(errno.ENOENT, "its content was not kept", str(path))
        else:
            beside = _beside(path)
            try:
                beside.touch(0o600, exist_ok=False)  # nobody else reads it before it has its rights
                shutil.copyfile(content, beside)
                _give(beside, state)
                beside.chmod(state.rights)
                os.utime(beside, ns=(state.stamp[0], state.stamp[0]))
                beside.replace(path)
            except OSError:
                beside.unlink(missing_ok=True)
                raise

    def close(self) -> None:
        """Forget everything."""
        if self._own is not None:
            self._own.remove()  # which a fork that ends does not
            self._own = self._folder = None
        self._hashes.clear()
        self._copies.clear()
        self._known.clear()
        self._size = 0

    def _has_room(self, state: State) -> bool:
        is_small = state.size <= self.max_file and self._size + state.size <= self.max_all
        return state.what == "file" and is_small

    def _copied(self, path: Path, state: State) -> State:
        copy = self._path(_new_name())
        try:
            shutil.copyfile(path, copy)  # by a call of the system, which takes a third of the time
        except OSError:
            copy.unlink(missing_ok=True)
            raise
        self._size += state.size
        return replace(state, digest=copy.name)

    def _kept(self, state: State, content: bytes) -> State:
        digest = hashlib.sha256(content).hexdigest()
        if digest not in self._copies:
            copy = self._path(_new_name())
            try:
                copy.write_bytes(content)
            except OSError:
                copy.unlink(missing_ok=True)
                raise
            self._copies[digest] = copy.name
            self._size += len(content)
        return replace(state, digest=digest)

    def _path(self, name: str) -> Path:
        if self._folder is None:
            self._own = TemporaryFolder("kept")
            self._folder = self._own.path
            self._process = os.getpid()
        return self._folder / self._copies.get(name, name)


def _new_name() -> str:
    return f"{_COPY}{os.urandom(8).hex()}"


def _hash(path: Path, size: int) -> str:
    if size <= _SMALL:
        with path.open("rb", buffering=0) as file:
            return hashlib.sha256(file.readall()).hexdigest()
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _give(path: Path, state: State) -> None:
    """Give a path to its earlier owner; only another one needs rights that few users have."""
    found = path.lstat()
    owner = state.owner
    if owner is not None and owner != (found.st_uid, found.st_gid):
        os.chown(path, *owner, follow_symlinks=False)


def _beside(path: Path) -> Path:
    return path.with_name(f".{path.name[:200]}.{os.urandom(6).hex()}.part")
