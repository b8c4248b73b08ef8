"""What a call does outside of the variables, as Python's audit events and the folders tell.

    a path is       because
    touched         an event said that it may change; what is there was kept before it did
    found           no event said so, but it differs from what a look at the folder saw before
    effect          it was touched or found, and is now another thing than before

An event comes before anything happens, so what is there is kept in time. It says only what may
happen: a file that was opened for writing and not written is no effect, nor is a temporary one that
is gone. What native code writes has no event: a look at the working folder, before the call and
after it, finds it; what was there before is then not kept.

The hook of the process is silent unless a call runs, in its thread and in what it has started.
Python's own files (compiled modules), devices, and the caches of libraries are no effects.
"""

from __future__ import annotations

import os
import stat
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias

from archytas_nb.effects.states import MISSING, State, Store, seen, state_of

Kind: TypeAlias = Literal[
    "new", "overwrote", "deleted", "changed", "made folder", "linked", "ran", "connected"
]

_MAX_LOOKED = 5_000  # entries of the working folder
_MAX_SECONDS = 0.05  # for a look at it
_WRITES = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
_STAMP = ("st_mode", "st_ino", "st_size", "st_mtime_ns")
_NO_EFFECT = ("/dev/", "/proc/", "/sys/")

kept_files = Store()
"""What the files of this kernel were before its calls changed them."""

current: ContextVar[Ledger | None] = ContextVar("archytas_nb_ledger", default=None)
"""The ledger of the call that runs."""


@dataclass(frozen=True, slots=True)
class Effect:
    """Something that a call did.

    Attributes:
        kind: What it did.
        target: To which path, with which command, or to which address.
        before: What was at the path; None for what has no path.
        after: What is there now.
        is_told: Whether an event told it, so that what was there could be kept.
    """

    kind: Kind
    target: str
    before: State | None = None
    after: State | None = None
    is_told: bool = True

    @property
    def can_be_undone(self) -> bool:
        """Whether what was there can be put back."""
        return self.before is not None and self.is_told and self.before.is_kept

    @property
    def shown(self) -> str:
        """The target as a person reads it: a path in the working folder without that."""
        if self.before is None:
            return self.target
        with suppress(ValueError, OSError):
            return str(Path(self.target).relative_to(Path.cwd()))
        return self.target

    @property
    def details(self) -> tuple[str, ...]:
        """The size of a file, and that what was there cannot be put back."""
        found = []
        if self.after is not None and self.after.what == "file":
            found.append(_bytes(self.after.size))
        if not self.can_be_undone:
            found.append("cannot be undone")
        return tuple(found)

    @property
    def reversed(self) -> Effect:
        """What takes it back."""
        return replace(self, before=self.after, after=self.before)

    def __str__(self) -> str:
        return f"{self.kind} {self.shown}" + "".join(f", {each}" for each in self.details)


class Ledger:
    """What one call does outside of the variables.

    Args:
        store: Keeps what is there before it changes.
        folder: The folder that is looked at for changes without an event; None for no look.
    """

    def __init__(self, store: Store, folder: Path | None = None) -> None:
        self._store = store
        self._folder = folder
        self._lock = threading.RLock()
        self._before: dict[Path, State] = {}
        self._others: list[Effect] = []
        self._looked: Mapping[str, os.stat_result] | None = None
        self.effects: tuple[Effect, ...] = ()

    def begin(self) -> None:
        """Look at the folder."""
        if self._folder is not None:
            self._looked = _look(self._folder)

    def expect(self, path: Path) -> None:
        """Keep what is at a path, which may change now."""
        with self._lock:
            if path not in self._before:
                self._before[path] = self._store.keep(path)

    def expect_tree(self, path: Path) -> None:
        """Keep what is at a path and in it: it may go to another place as a whole."""
        self.expect(path)
        if seen(path).what == "folder":
            for folder, folders, files in os.walk(path):
                for name in (*folders, *files):
                    self.expect(Path(folder, name))

    def note(self, kind: Kind, target: str) -> None:
        """Note what has no path."""
        with self._lock:
            effect = Effect(kind, target)
            if effect not in self._others:
                self._others.append(effect)

    def end(self) -> None:
        """Compare what is there with what was."""
        with self._lock:
            found = [
                effect
                for path, before in self._before.items()
                if (effect := _effect(path, before, self._store.keep(path))) is not None
            ]
            if self._folder is not None and self._looked is not None:
                found += self._unexplained(self._folder, self._looked)
            self.effects = (*found, *self._others)

    def _unexplained(self, folder: Path, before: Mapping[str, os.stat_result]) -> Iterator[Effect]:
        """What has changed in the folder without an event."""
        after = _look(folder)
        if after is None:
            return
        for name in sorted(before.keys() | after.keys()):
            was, now = before.get(name), after.get(name)
            path = Path(name)
            if _is_changed(was, now) and path not in self._before and not _is_no_effect(path):
                earlier = MISSING if was is None else state_of(was)
                effect = _effect(path, earlier, self._store.keep(path))
                if effect is not None:
                    yield replace(effect, is_told=was is None)


class Left(NamedTuple):
    """An effect that an undo has left.

    Attributes:
        effect: The effect.
        why: The reason.
        is_changed: Whether it is that somebody changed the path since.
    """

    effect: Effect
    why: str
    is_changed: bool = False


def undo(effects: Sequence[Effect], store: Store, *, force: bool = False) -> list[Left]:
    """Put back what was at the paths before.

    A path that somebody has changed since is left alone.

    Args:
        effects: The effects of one call.
        store: What kept the contents.
        force: Whether to put back also what was changed since.
    """
    # What was deleted comes back from the top, what was made goes from the bottom.
    order = sorted(effects, key=lambda each: len(Path(each.target).parts))
    returning = [each for each in order if each.after is not None and each.after.what == "missing"]
    others = [each for each in reversed(order) if each not in returning]
    moved = [_undone(each, store, force=force) for each in (*others, *returning)]
    return [each for each in moved if each is not None]


def _undone(effect: Effect, store: Store, *, force: bool) -> Left | None:
    """Undo an effect; what is left of it if that is not possible."""
    if effect.before is None or effect.after is None:
        return Left(effect, f"{effect.kind}; this cannot be undone")
    if not effect.can_be_undone:
        return Left(effect, "what was there was not kept")
    path = Path(effect.target)
    if not force and not store.keep(path).is_same(effect.after):
        return Left(effect, "it was changed since", is_changed=True)
    try:
        store.put(path, effect.before)
    except OSError as error:
        return Left(effect, f"it cannot be put back: {error.strerror or error}")
    return None


@contextmanager
def watched(ledger: Ledger) -> Iterator[Ledger]:
    """In the block, and in what it starts, effects are noted in a ledger."""
    _hook_once()
    ledger.begin()
    token = current.set(ledger)
    try:
        yield ledger
    finally:
        current.reset(token)
        ledger.end()


@contextmanager
def noted_in(ledger: Ledger | None) -> Iterator[None]:
    """In the block, effects are noted in another ledger; in none for what the extension does."""
    token = current.set(ledger)
    try:
        yield
    finally:
        current.reset(token)


@contextmanager
def files_undone() -> Iterator[None]:
    """What the block does to files is undone at its end."""
    with watched(Ledger(kept_files, working_folder())) as ledger:
        yield
    undo(ledger.effects, kept_files, force=True)


def working_folder() -> Path | None:
    """The folder in which code is expected to write; None if it was removed."""
    try:
        return Path.cwd()
    except OSError:
        return None


# ── looks ─────────────────────────────────────────────────────────────────────────────────────────


def _look(folder: Path) -> dict[str, os.stat_result] | None:
    """What is in a folder, by its path; None if it is too much to look at."""
    found: dict[str, os.stat_result] = {}
    ends = time.monotonic() + _MAX_SECONDS
    folders = [str(folder)]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        if len(found) + len(entries) > _MAX_LOOKED or time.monotonic() > ends:
            return None
        for entry in entries:
            with suppress(OSError):
                found[entry.path] = entry.stat(follow_symlinks=False)
                is_hidden = entry.name.startswith(".") or entry.name == "__pycache__"
                if entry.is_dir(follow_symlinks=False) and not is_hidden:
                    folders.append(entry.path)
    return found


def _is_changed(before: os.stat_result | None, after: os.stat_result | None) -> bool:
    if before is None or after is None:
        return before is not after
    if stat.S_ISDIR(before.st_mode) and stat.S_ISDIR(after.st_mode):  # its time is of what is in it
        return before.st_mode != after.st_mode
    return any(getattr(before, each) != getattr(after, each) for each in _STAMP)


def _effect(path: Path, before: State, after: State) -> Effect | None:
    if before.is_same(after):
        return None
    kind: Kind = "changed"
    if after.what == "missing":
        kind = "deleted"
    elif after.what == "folder":
        kind = "made folder"
    elif after.what == "link":
        kind = "linked"
    elif before.what == "missing":
        kind = "new"
    elif before.what != after.what or before.digest != after.digest or before.digest is None:
        kind = "overwrote"
    return Effect(kind, str(path), before, after)


def _is_no_effect(path: Path) -> bool:
    return str(path).startswith((*_NO_EFFECT, *_caches())) or "__pycache__" in path.parts


@cache
def _caches() -> tuple[str, ...]:
    """The folders for what Python and libraries may make again, as the systems name them."""
    home = Path.home()
    own = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    given = [each for each in (own, sys.pycache_prefix) if each]
    return tuple(map(str, (home / ".cache", home / "Library" / "Caches", *given)))


def _bytes(size: int) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size} {unit}"
        size = round(size / 1000)
    return f"{size} GB"


# ── the hook ──────────────────────────────────────────────────────────────────────────────────────


@dataclass
class _Hook:
    is_set: bool = False
    busy: threading.local = field(default_factory=threading.local)


_hook = _Hook()


def _hook_once() -> None:
    if not _hook.is_set:
        _hook.is_set = True
        sys.addaudithook(_audit)


def _audit(event: str, args: tuple[Any, ...]) -> None:
    note = _EVENTS.get(event)
    if note is None:
        return
    ledger = current.get()
    if ledger is None or getattr(_hook.busy, "is_on", False):
        return
    _hook.busy.is_on = True  # the ledger opens files itself
    try:
        # A hook that raises ends what the code does.
        with suppress(Exception):
            note(ledger, *args)
    finally:
        _hook.busy.is_on = False


def _touch(ledger: Ledger, *paths: Any, tree: bool = False) -> None:
    for each in paths:
        if isinstance(each, (str, bytes, os.PathLike)):
            name = os.path.abspath(os.fsdecode(each))  # noqa: PTH100 - it may be about the link
            for path in {Path(name), Path(os.path.realpath(name))}:
                if not _is_no_effect(path):
                    (ledger.expect_tree if tree else ledger.expect)(path)


def _on_open(ledger: Ledger, path: Any, mode: Any, flags: Any, *_: Any) -> None:
    is_writing = isinstance(flags, int) and flags & _WRITES
    if isinstance(mode, str):
        is_writing = any(each in mode for each in "wax+")
    if is_writing:
        _touch(ledger, path)


def _on_path(ledger: Ledger, path: Any, *_: Any) -> None:
    _touch(ledger, path)


def _on_move(ledger: Ledger, source: Any, target: Any, *_: Any) -> None:
    _touch(ledger, source, target, tree=True)
    if isinstance(source, (str, bytes, os.PathLike)):
        _on_moved_tree(ledger, os.fsdecode(source), os.fsdecode(target))


def _on_moved_tree(ledger: Ledger, source: str, target: str) -> None:
    """What is in a folder that moves appears at paths where nothing was."""
    for folder, folders, files in os.walk(source):
        for name in (*folders, *files):
            path = os.path.relpath(os.path.join(folder, name), source)  # noqa: PTH118
            _touch(ledger, os.path.join(target, path))  # noqa: PTH118


def _on_link(ledger: Ledger, source: Any, target: Any, *_: Any) -> None:
    _touch(ledger, source, target)  # what is written through one name changes the other


def _on_symlink(ledger: Ledger, _leads_to: Any, path: Any, *_: Any) -> None:
    _touch(ledger, path)


def _on_tree(ledger: Ledger, path: Any, *_: Any) -> None:
    _touch(ledger, path, tree=True)


def _on_database(ledger: Ledger, path: Any, *_: Any) -> None:
    if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path) not in ("", ":memory:"):
        name = os.fsdecode(path).removeprefix("file:").partition("?")[0]
        _touch(ledger, name, f"{name}-journal", f"{name}-wal", f"{name}-shm")


def _on_program(ledger: Ledger, *args: Any) -> None:
    command = next((each for each in reversed(args[:2]) if each), "")
    if isinstance(command, (list, tuple)):
        command = " ".join(os.fsdecode(each) for each in command)
    ledger.note("ran", os.fsdecode(command))


def _on_connect(ledger: Ledger, _socket: Any, address: Any, *_: Any) -> None:
    if isinstance(address, tuple) and len(address) >= 2:
        ledger.note("connected", f"{address[0]}:{address[1]}")
    else:
        ledger.note("connected", os.fsdecode(address) if isinstance(address, (str, bytes)) else "")


_EVENTS: Mapping[str, Callable[..., None]] = {
    "open": _on_open,
    "os.remove": _on_path,
    "os.rename": _on_move,
    "os.rmdir": _on_path,
    "os.mkdir": _on_path,
    "os.link": _on_link,
    "os.symlink": _on_symlink,
    "os.truncate": _on_path,
    "os.chmod": _on_path,
    "os.chown": _on_path,
    "os.lchmod": _on_path,
    "os.utime": _on_path,
    "os.setxattr": _on_path,
    "os.removexattr": _on_path,
    "shutil.rmtree": _on_tree,
    "sqlite3.connect": _on_database,
    "subprocess.Popen": _on_program,
    "os.system": _on_program,
    "os.posix_spawn": _on_program,
    "os.exec": _on_program,
    "os.startfile": _on_program,
    "pty.spawn": _on_program,
    "socket.connect": _on_connect,
    "socket.sendto": _on_connect,
}
