"""Leads what is printed and displayed while calls run to the record of the call that it belongs to.

Who writes is told by the context: a call's own code, the tasks that it starts and what it hands to
`asyncio.to_thread` carry its context. A thread that it starts itself carries none; what such a thread, a
subprocess or C code writes belongs to the call where one runs alone, and to all together where several do. A
thread that was there before goes on writing to where it wrote.

Streams and display publisher stay the objects that they are, so that a logging handler which holds one is heard
as well: they are given another ``write`` and ``publish`` for the time of a call, which are taken away afterwards.
"""

from __future__ import annotations

import os
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Literal

from archytas_nb.kernel import descriptors
from archytas_nb.kernel.capture import Capture
from archytas_nb.kernel.namespace import current_shell

Kind = Literal["stdout", "stderr"]

_PAST = Capture()
_PAST.open = False

current: ContextVar[Capture | None] = ContextVar("archytas_nb_capture", default=None)
"""The record of the call whose code runs in this context."""


@dataclass(eq=False, slots=True)
class _Group:
    """Calls that run at the same time.

    Attributes:
        shared: Where output goes that says not to which of them it belongs.
        before: The threads that were there before the calls.
    """

    captures: Sequence[Capture]
    shared: Capture
    before: weakref.WeakSet[threading.Thread] = field(
        default_factory=lambda: weakref.WeakSet(threading.enumerate())
    )


@dataclass(slots=True)
class _Patch:
    """A method put over that of one object, and how it is taken away."""

    target: Any
    name: str
    method: Callable[..., Any]
    before: Any = None

    def put(self) -> bool:
        self.before = vars(self.target).get(self.name) if hasattr(self.target, "__dict__") else None
        try:
            setattr(self.target, self.name, self.method)
        except (AttributeError, TypeError):
            return False
        return True

    def take(self) -> None:
        if vars(self.target).get(self.name) is not self.method:
            return  # somebody put another one over it since, which must stay; ours passes on what it gets
        if self.before is None:
            delattr(self.target, self.name)
        else:
            setattr(self.target, self.name, self.before)


class _Router:
    """The patches of this process, there while any call runs."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._groups: list[_Group] = []
        self._patches: list[_Patch] = []
        self._stood_in: list[tuple[str, Any, Any]] = []
        self._redirection: descriptors.Redirection | None = None
        self._pid = os.getpid()

    def begin(self, group: _Group) -> None:
        with self._lock:
            self.drain()  # what was written until now belongs to the call around this one
            self._groups.append(group)
            if len(self._groups) == 1:
                self._pid = os.getpid()
                self._put()

    def end(self, group: _Group) -> None:
        with self._lock:
            try:
                self.drain()
                if len(self._groups) == 1:
                    self._take()
            finally:
                self._groups.remove(group)

    def _put(self) -> None:
        for kind in ("stdout", "stderr"):
            stream = getattr(sys, kind)
            if stream is not None:
                self._put_on(kind, stream)
        shell = current_shell()
        publisher = None if shell is None else shell.display_pub
        if publisher is not None:
            for name, method in (
                ("publish", self._publish(publisher.publish)),
                ("clear_output", self._clear_output(publisher.clear_output)),
            ):
                patch = _Patch(publisher, name, method)
                if patch.put():
                    self._patches.append(patch)
        if descriptors.supported():
            self._redirection = descriptors.Redirection(self._written_below)
            self._redirection.begin()

    def _put_on(self, kind: Any, stream: Any) -> None:
        write = self._write(kind, stream, stream.write)
        patch = _Patch(stream, "write", write)
        if patch.put():
            self._patches.append(patch)
            return
        stand_in = _StandIn(stream, write)  # an object that takes no attributes
        setattr(sys, kind, stand_in)
        self._stood_in.append((kind, stand_in, stream))

    def _take(self) -> None:
        if self._redirection is not None:
            self._redirection.end()
            self._redirection = None
        for patch in reversed(self._patches):
            patch.take()
        for kind, stand_in, stream in self._stood_in:
            if getattr(sys, kind) is stand_in:
                setattr(sys, kind, stream)
        self._patches, self._stood_in = [], []

    def drain(self) -> None:
        if self._redirection is not None:
            self._redirection.drain()

    @contextmanager
    def paused(self) -> Iterator[None]:
        token = current.set(_PAST)
        try:
            with nullcontext() if self._redirection is None else self._redirection.paused():
                yield
        finally:
            current.reset(token)

    def target(self) -> Capture | None:
        """The record that what is written here and now belongs to; None for none."""
        groups = self._groups
        if not groups:
            return None
        mine = current.get()
        if mine is not None:
            return mine if mine.open else None
        group = groups[-1]
        return None if threading.current_thread() in group.before else group.shared

    def _written_below(self, kind: Kind, text: str) -> None:
        if self._groups:
            _told(self._groups[-1].shared, kind, text)

    def _write(self, kind: Kind, stream: Any, past: Callable[[str], Any]) -> Callable[[str], Any]:
        fd = _descriptor(stream)

        def write(text: str) -> Any:
            capture = self.target() if isinstance(text, str) else None
            if (
                os.getpid() != self._pid
            ):  # a forked child: its pipe leads to us, its memory does not
                return os.write(
                    1 if kind == "stdout" else 2, text.encode("utf-8", "backslashreplace")
                )
            if capture is None:
                below = self._redirection
                if (
                    fd in (1, 2)
                    and below is not None
                    and isinstance(text, str)
                    and below.write_past(fd, text)
                ):
                    return len(text)
                return past(text)
            self.drain()
            _told(capture, kind, text)
            return len(text)

        return write

    def _publish(self, past: Callable[..., Any]) -> Callable[..., Any]:
        def publish(data: Any, metadata: Any = None, *args: Any, **options: Any) -> Any:
            capture = self.target()
            if capture is None:
                return past(data, metadata, *args, **options)
            self.drain()
            name = str((options.get("transient") or {}).get("display_id", ""))
            capture.display(data, name, update=bool(options.get("update")))
            return None

        return publish

    def _clear_output(self, past: Callable[..., Any]) -> Callable[..., Any]:
        def clear_output(wait: bool = False) -> Any:  # noqa: FBT001, FBT002 - as the publisher's own
            capture = self.target()
            if capture is None:
                return past(wait)
            self.drain()
            return capture.clear(wait=wait)

        return clear_output


class _StandIn:
    """Takes the place of a stream that cannot be given another ``write``."""

    def __init__(self, stream: Any, write: Callable[[str], Any]) -> None:
        self._stream, self.write = stream, write

    def writelines(self, lines: Sequence[str]) -> None:
        for line in lines:
            self.write(line)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


_router = _Router()


@contextmanager
def capturing(captures: Sequence[Capture], shared: Capture) -> Iterator[None]:
    """Lead output to the records of calls while the block runs.

    Args:
        captures: One for each call; set `current` to it where the call's code runs.
        shared: Where output goes that belongs to none of them for sure; the call's own where there is one call.
    """
    group = _Group(captures, shared)
    _router.begin(group)
    try:
        yield
    finally:
        _router.end(group)
        for capture in (*captures, shared):
            capture.open = False


def paused() -> Any:
    """A block in which nothing is captured: a person is asked, who must see the question."""
    return _router.paused()


def _told(capture: Capture, kind: Kind, text: str) -> None:
    """Add to a record. Who watches it may print as well, which is no output of the call."""
    token = current.set(_PAST)
    try:
        capture.write(kind, text)
    finally:
        current.reset(token)


def _descriptor(stream: Any) -> int:
    try:
        return int(stream.fileno())
    except Exception:  # noqa: BLE001 - a stream without one, in whatever way it says so
        return -1
