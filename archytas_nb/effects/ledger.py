"""Records effects outside of the variables, from Python's audit events and looks at the folders.

    a path is       because
    touched         an event said that it may change; what is there was kept before it did
    suspected       the code names it, or a program starts that may change it: it was kept, too
    found           no event said so, but it differs from what a look at the folder saw before
    effect          it was touched or found, and is now another thing than before

An event comes before anything happens, so the old content is kept in time, and a person can be
asked. It says only what may happen: a file that was opened for writing but not written is not an
effect, and neither is a temporary file that is gone. Native code writes without events. A look at
the folders, before and after the call, finds such changes; the old content is kept if the path was
suspected.

The hook of the process is silent unless a call runs, in its thread and in what it has started.
Python's own files (compiled modules), devices, and the caches of libraries do not count.
"""

from __future__ import annotations

import os
import socket
import stat
import sys
import sysconfig
import tempfile
import threading
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from types import FrameType
from typing import Any, Literal, NamedTuple, TypeAlias

from archytas_nb.acts import WRITING, Act, act_of, announcer, kind_of
from archytas_nb.choices import AskBefore
from archytas_nb.effects.states import MISSING, State, Store, seen, state_of
from archytas_nb.hints import hinted

Kind: TypeAlias = Literal[
    "new", "overwritten", "deleted", "changed", "new folder", "new link", "ran", "signalled",
    "connected", "listened", "loaded",
]  # fmt: skip

Ask: TypeAlias = Callable[[AskBefore, str], bool]
"""Asks about an act of code that is not allowed yet; returns whether a person has decided.

Raises:
    PermissionError: The act is refused.
    KeyboardInterrupt: The person ends the run.
"""

MAX_ENTRIES = 5_000
"""How many entries of the folders are looked at."""
_MAX_SECONDS = 0.05  # for a look at them
_BETWEEN_LOOKS = 0.02  # seconds between two looks at the files that a proof has written
_MAX_SUSPECTED = 16_000_000  # bytes of a file that is kept although no event names it
_MAX_ALL_SUSPECTED = 64_000_000  # bytes of all of a call
_NO_EFFECT = ("/dev/", "/proc/", "/sys/")

kept_files = Store()
"""The contents of files from before the calls of this kernel changed them."""

current: ContextVar[Ledger | None] = ContextVar("archytas_nb_ledger", default=None)
"""The ledger of the call that runs."""


@hinted
@dataclass(frozen=True, slots=True)
class Effect:
    """Something that a call did.

    Attributes:
        kind: The kind of act.
        target: The path, command or address.
        before: The state of the path before; None for an effect without a path.
        after: The state of the path now.
    """

    kind: Kind
    target: str
    before: State | None = None
    after: State | None = None

    @property
    def can_be_undone(self) -> bool:
        """Whether the state before can be restored."""
        return self.before is not None and self.before.is_kept

    @property
    def shown(self) -> str:
        """The target for a person; a path in the working folder is relative to it."""
        if self.before is None:
            return self.target
        return shown_path(self.target)

    @property
    def details(self) -> tuple[str, ...]:
        """The size of a file, and whether the state before cannot be restored."""
        found = []
        if self.after is not None and self.after.what == "file":
            found.append(_bytes(self.after.size))
        if not self.can_be_undone:
            found.append("cannot be undone")
        return tuple(found)

    @property
    def reversed(self) -> Effect:
        """How to undo it, in words."""
        return replace(self, before=self.after, after=self.before)

    def __str__(self) -> str:
        return f"{self.kind} {self.shown}" + "".join(f", {each}" for each in self.details)


@dataclass(slots=True)
class Met:
    """The facts that events reported.

    Attributes:
        paths: How often of each path that it may change now.
        has_run: Whether a program was started, which may change files without an event.
    """

    paths: dict[Path, int]
    has_run: bool = False


class Ledger:
    """The effects of one call outside of the variables.

    Args:
        store: Keeps the state of paths before they change.
        folders: The folders in which changes without an event are looked for, the working folder
            first.
        ask: Asks before something happens.
        asks_before: The kinds of acts about which it asks.
        entries: How many entries of the folders are looked at; more are too many for a look.
        text: The code of the call: a file of the folders that it names is suspected.
        looks_later: Whether to look at the folders only before another process works for the call,
            as for a tool, which is trusted more than code of a model.

    Attributes:
        effects: Its effects, once it has ended.
        found: Paths of effects without an event; another program may have changed them.
        outer: The ledger of the call around this one; None if there is none.
        met: The facts that events reported so far, also to the ledgers of calls within this one.
    """

    def __init__(
        self,
        store: Store,
        *folders: Path,
        ask: Ask | None = None,
        asks_before: Collection[AskBefore] = (),
        entries: int = MAX_ENTRIES,
        text: str = "",
        looks_later: bool = False,
    ) -> None:
        self._store = store
        self._folders = tuple(each.resolve() for each in folders)
        self._ask = ask
        self._asks_before = asks_before
        self._entries = entries
        self._text = text
        self._looks_later = looks_later
        self._lock = threading.RLock()
        self._before: dict[Path, State] = {}
        self._suspected: dict[Path, State] = {}
        self._others: list[Effect] = []
        self._looked: Mapping[str, os.stat_result] | None = None
        self._decided: dict[tuple[AskBefore, str], PermissionError | None] = {}
        self._announced: dict[int, tuple[FrameType, set[AskBefore], str]] = {}
        # Those that were looked up, by port, with their addresses once they are asked for.
        self._hosts: dict[str, dict[str, frozenset[str] | None]] = {}
        self.met = Met({})
        self.outer: Ledger | None = None
        self.effects: tuple[Effect, ...] = ()
        self.found: set[str] = set()

    def begin(self) -> None:
        """Look at the folders, unless that is to be later."""
        if not self._looks_later:
            self._look_first()

    def _look_first(self) -> None:
        if self._folders and self._looked is None:
            self._looked = _look(self._folders, self._entries)
            for name, found in (self._looked or {}).items():
                if stat.S_ISLNK(found.st_mode):
                    self._suspected[Path(name)] = seen(Path(name))
            if self._text:
                self._suspect(lambda name: _last(name) in self._text)

    def expect_others(self, text: str) -> None:
        """Look at the folders and keep what is there: another process may change it from now on.

        Args:
            text: A text for the process, such as its command line: the files that it names are kept
                first.
        """
        self.met.has_run = True
        with noted_in(None), self._lock:
            self._look_first()
            self._suspect(lambda name: _last(name) in text, alone=False)

    def expect(self, path: Path) -> State:
        """Keep the state of a path that may change now; returns its state at the beginning."""
        with self._lock:
            self.met.paths[path] = self.met.paths.get(path, 0) + 1
            if path not in self._before:
                before = self._at_beginning(path)
                if before is None or not (before.is_kept or self.met.has_run):
                    # A person may have changed it since the look, which is theirs to get back.
                    before = self._store.keep(path)
                self._before[path] = before
            return self._before[path]

    def _at_beginning(self, path: Path) -> State | None:
        """The earlier state of a path that a program may have changed; None if it is unchanged."""
        if path in self._suspected:
            return self._store.hashed(self._suspected[path])
        if self._looked is None:
            return None
        name = str(path)
        was = self._looked.get(name)
        if was is not None:
            return state_of(was) if _is_changed(was, _stat(path)) else None
        for folder in map(_with_separator, self._folders):
            if name.startswith(folder):
                inside = Path(name[len(folder) :]).parts[:-1]
                return None if any(map(_is_hidden, inside)) else MISSING
        return None

    def expect_tree(self, path: Path) -> None:
        """Keep the state of a path and of all in it: it may be moved as a whole."""
        self.expect(path)
        if seen(path).what == "folder":
            for folder, folders, files in os.walk(path):
                for name in (*folders, *files):
                    self.expect(Path(folder, name))

    def _suspect(self, is_named: Callable[[str], bool], *, alone: bool = True) -> None:
        """Keep files of the folders that may change without an event.

        Args:
            is_named: Whether the code names a path, which then comes first.
            alone: Whether only named paths are kept.
        """
        room = _MAX_ALL_SUSPECTED - sum(each.size for each in self._suspected.values())
        files = [
            (is_other, found.st_size, name)
            for name, found in (self._looked or {}).items()
            if stat.S_ISREG(found.st_mode)
            and found.st_size <= _MAX_SUSPECTED
            and not ((is_other := not is_named(name)) and alone)
        ]
        for _, size, name in sorted(files):
            path = Path(name)
            if size > room:
                break
            with self._lock:
                is_known = path in self._before or path in self._suspected
                if not is_known and not _is_changed((self._looked or {})[name], _stat(path)):
                    self._suspected[path] = self._store.copy(path)
                    room -= size

    # ── what events say ───────────────────────────────────────────────────────────────────────────

    def meet(self, event: str, args: tuple[Any, ...], frame: FrameType | None) -> None:
        """Ask about the act of an event, and record it.

        Args:
            event: Its name.
            args: Its arguments.
            frame: The frame of the code in which it was raised.

        Raises:
            PermissionError: The act is refused.
            KeyboardInterrupt: The person ends the run.
        """
        if event == "ctypes.dlopen":
            if _is_of_user(args[0]):
                self._add("loaded", os.fsdecode(args[0]))
            return
        act = act_of(event, args)
        paths: list[Path] = []
        # A hook that raises stops the code.
        with suppress(Exception):
            paths = [path for path in _paths_of(event, args, act) if not _is_no_effect(path)]
            is_tree = act is not None and act.kind in ("delete", "move") and event != "os.remove"
            for path in paths:
                (self.expect_tree if is_tree else self.expect)(path)
        if act is None and not paths:
            return
        act = self._with_host(event, args, act)
        if self._ask is not None:
            self._ask_about(self._ask, act, paths, frame)
        if act is not None:
            with suppress(Exception):
                self._note(event, act)

    def _with_host(self, event: str, args: tuple[Any, ...], act: Act | None) -> Act | None:
        """An act with the host that was looked up in place of the address that was found."""
        if act is None or act.kind != "connect":
            return act
        if event == "socket.getaddrinfo":
            host, _, port = act.target.rpartition(":")
            self._hosts.setdefault(port, {}).setdefault(host)
        elif len(args) > 1 and isinstance(args[1], tuple) and len(args[1]) > 1:
            address, port = map(str, args[1][:2])
            for host in self._hosts.get(port, ()):
                if address in self._addresses_of(host, port):
                    return Act(act.kind, f"{host}:{port}")
        return act

    def _addresses_of(self, host: str, port: str) -> frozenset[str]:
        """The address of a host that was looked up; others with the same port do not count."""
        hosts = self._hosts[port]
        found = hosts[host]
        if found is None:
            found = frozenset()
            with suppress(OSError, ValueError):
                found = frozenset(str(each[4][0]) for each in socket.getaddrinfo(host, port))
            hosts[host] = found
        return found

    def _ask_about(
        self, ask: Ask, act: Act | None, paths: Sequence[Path], frame: FrameType | None
    ) -> None:
        """Ask about each kind of a coming act, until a person has decided."""
        needed = dict(self._kinds(act, paths))
        announced = self._announced.get(threading.get_ident())
        if announced is not None and _is_called_from(frame, announced[0]):
            needed = {
                kind: each
                for kind, each in needed.items()
                if kind not in announced[1]
                # A redirect leads to a host that was not announced.
                or (kind == "network" and _host_of(each) != _host_of(announced[2]))
            }
        elif act is not None and (own := announcer(frame)) is not None:
            kinds = {*needed, "delete"} if act.kind == "move" else {*needed}
            self._announced[threading.get_ident()] = own, kinds, act.target
        try:
            for kind, target in needed.items():
                if self._decide(ask, kind, target):
                    break
        except BaseException:
            self._announced.pop(threading.get_ident(), None)
            raise

    def _decide(self, ask: Ask, kind: AskBefore, target: str) -> bool:
        """Ask about one kind of a coming act, once in a call; see `Ask`."""
        if (kind, target) in self._decided:
            refusal = self._decided[kind, target]
            if refusal is not None:
                raise PermissionError(*refusal.args)
            return False
        try:
            by_person = ask(kind, target)
        except PermissionError as error:
            self._decided[kind, target] = error
            raise
        self._decided[kind, target] = None
        return by_person

    def _kinds(self, act: Act | None, paths: Sequence[Path]) -> Iterator[tuple[AskBefore, str]]:
        """The kinds of an act about which the ledger asks, and its target."""
        if act is not None:
            kind: AskBefore | None = _ASKED_AS.get(act.kind)
            if kind in ("network", "process") and kind in self._asks_before:
                yield kind, act.target
            own = paths[:1] if act.kind == "delete" else paths  # not the target of a link
            lost = [each for each in own if self._is_lost(act, each)]
            if lost and "delete" in self._asks_before:
                yield "delete", shown_path(str(lost[0]))
        if "outside" in self._asks_before:
            for path in paths:
                if not _is_inside(path, (*self._folders, *_temporary())):
                    yield "outside", str(path)
                    return

    def _is_lost(self, act: Act, path: Path) -> bool:
        """Whether the file or folder of a path before the call is gone, also from other paths."""
        was = self._before.get(path, MISSING)
        if was.what == "missing":
            return False
        return act.kind == "delete" or (was.what == "file" and not was.is_kept)

    def _note(self, event: str, act: Act) -> None:
        """Record an effect without a path, and suspect the paths that a program may change."""
        kind: Kind
        if act.kind == "start":
            self.expect_others(act.target)
            kind = "ran"
        elif act.kind == "signal":
            kind = "signalled"
        elif event in ("socket.connect", "socket.sendto"):
            kind = "connected"
        elif act.kind == "listen":
            kind = "listened"
        else:
            return
        self._add(kind, act.target)

    def _add(self, kind: Kind, target: str) -> None:
        """Record an effect without a path."""
        with self._lock:
            effect = Effect(kind, target)
            if effect not in self._others:
                self._others.append(effect)

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def end(self) -> None:
        """Compare the paths with their states before."""
        with self._lock:
            self._announced.clear()  # a frame keeps the variables of its function
            after = {path: self._store.known(path) for path in self._before}
            links = {path for path, each in after.items() if each.what == "link"}
            for path in after if links else ():
                # The files that a link leads to have paths of their own.
                if not links.isdisjoint(path.parents):
                    after[path] = MISSING
            found = [
                effect
                for path, before in self._before.items()
                if (effect := _effect(path, before, after[path])) is not None
            ]
            if self._looked is not None:
                unexplained = [*self._unexplained(self._looked)]
                self.found |= {each.target for each in unexplained}
                found += unexplained
            self.effects = (*found, *self._others)

    def pass_over(self, path: Path) -> None:
        """Note that the last change of a path is not an effect, and neither are its new folders."""
        with self._lock:
            if self._looked is None:
                return
            looked = dict(self._looked)
            for each in (path, *path.parents):
                found = _stat(each)
                if found is not None and (each == path or str(each) not in looked):
                    looked[str(each)] = found
            self._looked = looked

    def take_over(self, inner: Ledger) -> None:
        """Add the effects of an inner call, such as one of a run in a run."""
        with self._lock:
            for path, before in inner._before.items():
                self._before.setdefault(path, before)
            self.found |= inner.found - {*map(str, self._before)}
            for effect in inner.effects:
                if effect.before is not None:
                    self._before.setdefault(Path(effect.target), effect.before)
                elif effect not in self._others:
                    self._others.append(effect)

    def _unexplained(self, before: Mapping[str, os.stat_result]) -> Iterator[Effect]:
        """The changes in the folders without an event."""
        after = _look(self._folders, self._entries)
        if after is None:
            return
        kept = {each.inode: each for each in self._before.values() if each.digest is not None}
        changed = {name for name, was in before.items() if _is_changed(was, after.get(name))}
        explained = map(str, self._before)
        for name in sorted((changed | (after.keys() - before.keys())).difference(explained)):
            was = before.get(name)
            path = Path(name)
            if _is_no_effect(path):
                continue
            if path.suffix == ".ipynb" and not self.met.has_run:  # its front end has saved it
                continue
            earlier = MISSING
            if was is not None:
                # A write through one hard link changes the others.
                known = kept.get(was.st_ino) if stat.S_ISREG(was.st_mode) else None
                suspected = self._suspected.get(path)
                earlier = known or (suspected and self._store.hashed(suspected)) or state_of(was)
            effect = _effect(path, earlier, self._store.known(path))
            if effect is not None:
                yield effect


def joined(effects: Iterable[Effect]) -> tuple[Effect, ...]:
    """The effects of several calls as those of one: each path from its first state to its last."""
    found: dict[tuple[str, Kind | None], Effect] = {}
    for each in effects:
        if each.before is None or each.after is None:
            found.setdefault((each.target, each.kind), each)
            continue
        first = found.pop((each.target, None), each)
        if first.before is not None:
            effect = _effect(Path(each.target), first.before, each.after)
            if effect is not None:
                found[each.target, None] = effect
    return tuple(found.values())


class Left(NamedTuple):
    """An effect that an undo did not revert.

    Attributes:
        effect: The effect.
        why: The reason.
        is_changed: Whether the reason is that the path was changed since.
    """

    effect: Effect
    why: str
    is_changed: bool = False


def undo(effects: Sequence[Effect], store: Store, *, force: bool = False) -> list[Left]:
    """Restore the paths to their states before.

    A path that was changed since is left alone.

    Args:
        effects: The effects of one call.
        store: The store with the contents.
        force: Whether to restore also paths that were changed since.
    """
    # Deleted folders come back from the top, new ones are removed from the bottom.
    order = sorted(effects, key=lambda each: len(Path(each.target).parts))
    returning = [each for each in order if each.after is not None and each.after.what == "missing"]
    others = [each for each in reversed(order) if each not in returning]
    moved = [_undone(each, store, force=force) for each in (*others, *returning)]
    return [each for each in moved if each is not None]


def _undone(effect: Effect, store: Store, *, force: bool) -> Left | None:
    """Undo an effect; returns the rest if that is not possible."""
    if effect.before is None or effect.after is None:
        return Left(effect, f"{effect.kind}; this cannot be undone")
    if not effect.can_be_undone:
        return Left(effect, "its earlier content was not kept")
    path = Path(effect.target)
    with noted_in(None):  # the store is not an effect of a call that undoes another one
        now = store.keep(path)
    if now.is_same(effect.before):  # an earlier undo got as far as this
        return None
    if not force and not now.is_same(effect.after):
        return Left(effect, "it has been changed since", is_changed=True)
    try:
        store.put(path, effect.before)
    except OSError as error:
        return Left(effect, f"it cannot be restored: {error.strerror or error}")
    return None


@contextmanager
def watched(ledger: Ledger) -> Iterator[Ledger]:
    """Record effects of the block, and of all that it starts, in a ledger."""
    _hook_once()
    outer = ledger.outer = current.get()
    if outer is not None:
        ledger.met = outer.met
    with noted_in(None):  # the store of this ledger is not an effect for an outer call
        ledger.begin()
        try:
            with noted_in(ledger):
                yield ledger
        finally:
            ledger.end()
            if outer is not None:
                outer.take_over(ledger)


@contextmanager
def noted_in(ledger: Ledger | None) -> Iterator[None]:
    """Record effects of the block in another ledger; in none for work of the extension itself."""
    token = current.set(ledger)
    try:
        yield
    finally:
        current.reset(token)


@contextmanager
def own_file(path: Path) -> Iterator[None]:
    """Write a file of the extension in the block; it is not an effect of the calls that run."""
    ledger = current.get()
    try:
        with noted_in(None):
            yield
    finally:
        while ledger is not None:
            ledger.pass_over(path)
            ledger = ledger.outer


@contextmanager
def files_undone(expected: Collection[str]) -> Iterator[Ledger]:
    """Undo the changes of the block to files when it ends.

    Args:
        expected: The paths that it may change without an event, as native code does. Other changes
            without an event may come from a person or another program, and stay.
    """
    with (
        watched(Ledger(kept_files, *working_folder())) as ledger,
        changed_by_others(ledger) as others,
    ):
        yield ledger
    left = ledger.found.difference(expected) | {*map(str, others)}
    undo([each for each in ledger.effects if each.target not in left], kept_files, force=True)


@contextmanager
def changed_by_others(ledger: Ledger) -> Iterator[set[Path]]:
    """The paths of a ledger that somebody else changes in the block; known after it.

    A path that changes although no event says so, and that is not open here, is changed by
    another process. After a program was started it may be that one, so no path is in the result.
    """
    others: set[Path] = set()
    has_ended = threading.Event()
    known: dict[Path, tuple[int, os.stat_result | None]] = {}

    def look() -> float:
        began = time.monotonic()
        for path, events in ledger.met.paths.copy().items():
            now = _stat(path)
            before = known.get(path)
            # An open file may be written at any time.
            if before is not None and before[0] == events and _is_changed(before[1], now):
                if not ledger.met.has_run and not _is_open(now):
                    others.add(path)
            elif before is not None and before[0] != events:
                others.discard(path)  # what was kept at this event is theirs
            known[path] = events, now
        return time.monotonic() - began

    def look_often() -> None:
        took = 0.0
        while not has_ended.wait(max(_BETWEEN_LOOKS, 20 * took)):
            took = look()

    thread = threading.Thread(target=look_often, name="archytas_nb looks at files", daemon=True)
    thread.start()
    try:
        yield others
    finally:
        has_ended.set()
        thread.join()
        look()


def _is_open(found: os.stat_result | None) -> bool:
    """Whether this process has a file open, if the system says so."""
    if found is None:
        return False
    with suppress(OSError):
        for each in os.listdir("/proc/self/fd"):  # noqa: PTH208
            with suppress(OSError):
                if os.path.samestat(os.stat(f"/proc/self/fd/{each}"), found):  # noqa: PTH116
                    return True
        # A mapped file is written without a descriptor.
        return f" {found.st_ino} " in Path("/proc/self/maps").read_text(errors="replace")
    return True


def working_folder() -> tuple[Path, ...]:
    """The folder in which code is expected to write, if it was not removed."""
    try:
        return (Path.cwd(),)
    except OSError:
        return ()


def entry_of(path: str | Path) -> Path:
    """The canonical path of a file: links of its folders are resolved, a link itself is not."""
    folder, name = os.path.split(path)
    if name in ("", ".", ".."):
        return Path(os.path.realpath(path))
    # The working folder has no links.
    return Path(os.path.realpath(folder) if folder else os.getcwd(), name)  # noqa: PTH109


def shown_path(path: str) -> str:
    """A path for a person; in the working folder, it is relative."""
    with suppress(ValueError, OSError):
        return str(Path(path).relative_to(Path.cwd()))
    return path


# ── looks ─────────────────────────────────────────────────────────────────────────────────────────


def _look(all_folders: Iterable[Path], most: int) -> dict[str, os.stat_result] | None:
    """The contents of some folders by path; None if there are too many."""
    found: dict[str, os.stat_result] = {}
    ends = time.monotonic() + _MAX_SECONDS
    folders = [*map(str, all_folders)]
    while folders:
        try:
            entries = list(os.scandir(folders.pop()))
        except OSError:
            continue
        if len(found) + len(entries) > most or time.monotonic() > ends:
            return None
        for entry in entries:
            try:
                known = entry.stat(follow_symlinks=False)
            except OSError:  # it is gone
                continue
            found[entry.path] = known
            if stat.S_ISDIR(known.st_mode) and not _is_hidden(entry.name):
                folders.append(entry.path)
    return found


def _last(name: str) -> str:
    """The last part of a path."""
    return name[name.rfind(os.sep) + 1 :]


def _is_hidden(name: str) -> bool:
    """Whether folders of this name are skipped."""
    return name.startswith(".") or name == "__pycache__"


def _stat(path: Path) -> os.stat_result | None:
    try:
        return path.lstat()
    except (OSError, ValueError):
        return None


def _is_changed(before: os.stat_result | None, after: os.stat_result | None) -> bool:
    if before is None or after is None:
        return before is not after
    if before.st_mode != after.st_mode:
        return True
    if stat.S_ISDIR(before.st_mode):  # its time is of what is in it
        return False
    return (
        before.st_mtime_ns != after.st_mtime_ns
        or before.st_size != after.st_size
        or before.st_ino != after.st_ino
    )


def _effect(path: Path, before: State, after: State) -> Effect | None:
    if before.is_same(after):
        return None
    kind: Kind = "changed"
    if after.what == "missing":
        kind = "deleted"
    elif after.what == "folder":
        kind = "new folder"
    elif after.what == "link":
        kind = "new link"
    elif before.what == "missing":
        kind = "new"
    elif before.what != after.what or before.digest != after.digest or before.digest is None:
        kind = "overwritten"
    return Effect(kind, str(path), before, after)


def _is_no_effect(path: Path) -> bool:
    name = str(path)
    if name.startswith((*_NO_EFFECT, *_caches())):
        return True
    return "__pycache__" in name and "__pycache__" in path.parts


@cache
def _caches() -> tuple[str, ...]:
    """The cache folders of Python and of libraries, as the systems name them."""
    home = Path.home()
    own = os.environ.get("XDG_CACHE_HOME") or os.environ.get("LOCALAPPDATA")
    given = [Path(each) for each in (own, sys.pycache_prefix) if each]
    found = (home / ".cache", home / "Library" / "Caches", *given)
    # One with a longer name is another folder.
    return tuple(map(_with_separator, found))


def _with_separator(folder: Path) -> str:
    """The beginning of all paths in a folder."""
    return os.path.join(folder, "")  # noqa: PTH118


def _is_of_user(library: Any) -> bool:
    """Whether native code is from a folder other than those of Python and its packages.

    Native code changes files without an event. The system finds a library without a folder.
    """
    if not isinstance(library, (str, bytes, os.PathLike)):
        return False
    name = os.fsdecode(library)
    own = (sys.prefix, sys.base_prefix, *sysconfig.get_paths().values())
    return os.sep in name and not _is_inside(Path(name).absolute(), map(Path, own))


def _bytes(size: int) -> str:
    for unit in ("B", "kB", "MB"):
        if size < 1000:
            return f"{size} {unit}"
        size = round(size / 1000)
    return f"{size} GB"


# ── the hook ──────────────────────────────────────────────────────────────────────────────────────


@cache
def _hook_once() -> None:
    """Install the audit hook; Python cannot remove one again."""
    sys.addaudithook(_audit)
    _announce_forks()


def _audit(event: str, args: tuple[Any, ...]) -> None:
    # Frequent events that are not acts come first: an import raises thousands of events.
    if event == "open":
        if len(args) == 3 and type(args[2]) is int and not args[2] & WRITING:
            return
    elif event in _silent:
        return
    elif kind_of(event) is None and event not in ("sqlite3.connect", "ctypes.dlopen"):
        _silent.add(event)
        return
    ledger = current.get()
    if ledger is None:
        return
    token = current.set(None)  # the ledger opens files itself
    try:
        ledger.meet(event, args, sys._getframe().f_back)  # noqa: SLF001
    finally:
        current.reset(token)


_silent: set[str] = set()
"""The names of events that were not acts."""


def _announce_forks() -> None:
    """Make the function with which `multiprocessing` starts a process raise an event."""
    if sys.platform == "win32":
        return
    import _posixsubprocess

    fork: Any = _posixsubprocess.fork_exec

    def fork_exec(command: Any, *args: Any) -> Any:
        is_worker = any(b"multiprocessing" in os.fsencode(each) for each in command)
        # The command line of each has other numbers.
        sys.audit(
            "_posixsubprocess.fork_exec", "a process of multiprocessing" if is_worker else command
        )
        return fork(command, *args)

    # `subprocess` uses the other one, and raises its own event
    _posixsubprocess.fork_exec = fork_exec


def _paths_of(event: str, args: tuple[Any, ...], act: Act | None) -> Iterator[Path]:
    """The paths that may change; unless one is deleted, also the target of a link."""
    for each in _names_of(event, args, act):
        if isinstance(each, (str, bytes, os.PathLike)):
            own = entry_of(os.fsdecode(each))
            yield own
            if os.path.islink(own):  # noqa: PTH114 - it is called often
                yield Path(os.path.realpath(own))  # which ends where links lead in a circle


def _names_of(event: str, args: tuple[Any, ...], act: Act | None) -> Iterator[Any]:
    if event == "sqlite3.connect":
        yield from _of_database(args[0])
    elif act is None or (event.startswith("shutil.") and event != "shutil.rmtree"):
        return  # it does the rest by `os` and `open`
    elif event in ("os.rename", "os.link"):
        source, target = (_in_folder(*each) for each in zip(args[:2], args[2:4], strict=True))
        yield from (source, target)  # what is written through one name of a file changes the other
        if event == "os.rename":
            yield from _moved(source, target)
    elif event == "os.symlink":
        yield _in_folder(args[1], args[2])
    elif act.kind in ("write", "delete", "change"):
        yield _in_folder(args[0], args[-1] if event in _IN_FOLDER else -1)


_IN_FOLDER = {"os.remove", "os.rmdir", "os.mkdir", "os.chmod", "os.chown", "os.utime"}
"""Events whose last argument is the descriptor of the folder that a relative path is in."""


def _in_folder(path: Any, folder: Any) -> Any:
    """A path, which may be relative to the descriptor of a folder."""
    if isinstance(folder, int) and folder >= 0 and isinstance(path, (str, bytes)):
        with suppress(OSError):
            found = os.readlink(f"/proc/self/fd/{folder}")  # noqa: PTH115
            return os.path.join(found, os.fsdecode(path))  # noqa: PTH118
    return path


def _moved(source: Any, target: Any) -> Iterator[str]:
    """The entries of a moving folder at their new paths, where nothing is yet."""
    for folder, folders, files in os.walk(source):
        for name in (*folders, *files):
            path = os.path.relpath(os.path.join(folder, name), source)  # noqa: PTH118
            yield os.path.join(os.fsdecode(target), os.fsdecode(path))  # noqa: PTH118


def _of_database(path: Any) -> Iterator[str]:
    """The files of a database of SQLite."""
    if isinstance(path, (str, bytes, os.PathLike)) and os.fsdecode(path) not in ("", ":memory:"):
        name = os.fsdecode(path).removeprefix("file:").partition("?")[0]
        yield from (name, f"{name}-journal", f"{name}-wal", f"{name}-shm")


# ── what is asked about ───────────────────────────────────────────────────────────────────────────

_ASKED_AS: Mapping[str, AskBefore] = {
    "connect": "network",
    "listen": "network",
    "start": "process",
    "signal": "process",
}


def _is_called_from(frame: FrameType | None, function: FrameType) -> bool:
    """Whether a function is among the callers of a frame, or runs in it."""
    while frame is not None and frame is not function:
        frame = frame.f_back
    return frame is not None


def _host_of(target: str) -> str:
    """The host of an address or a URL."""
    if "://" in target:
        target = target.partition("://")[2].partition("/")[0].rpartition("@")[2]
    host, _, port = target.rpartition(":")
    return (host if port.isdigit() else target).strip("[]").casefold()


def _is_inside(path: Path, folders: Iterable[Path]) -> bool:
    return any(path.is_relative_to(each) for each in folders)


@cache
def _temporary() -> tuple[Path, ...]:
    """The folder for temporary files, also with links resolved."""
    found = Path(tempfile.gettempdir())
    return (found, found.resolve())
