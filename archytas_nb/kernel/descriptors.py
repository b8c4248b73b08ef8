"""Captures what subprocesses and C code write to the file descriptors 1 and 2, on POSIX systems.

While calls run the two point into pipes, and afterwards to where they did. Jupyter watches the same
descriptors by pipes of its own. What a process that a tool left running writes later is passed on
to where the descriptors had pointed, so it neither blocks nor dies.
"""

from __future__ import annotations

import codecs
import os
import select
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal

Kind = Literal["stdout", "stderr"]

SUPPORTED = os.name == "posix" and hasattr(select, "poll")
"""Whether descriptors can be redirected on this system."""

_POLL = 0.02  # seconds after which the pipes of a call are emptied; most calls end before
_IDLE_POLLS = 50  # after so many polls without a call the thread that does it ends


class _Pipe:
    """One descriptor, led into a pipe."""

    def __init__(self, fd: int, kind: Kind) -> None:
        self.fd, self.kind, self.saved = fd, kind, os.dup(fd)
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._at_end = False
        os.dup2(self.write_end, fd)

    def read(self) -> str:
        """What is there now."""
        pieces = []
        while not self._at_end:
            try:
                data = os.read(self.read_end, 1 << 16)
            except BlockingIOError:
                break
            self._at_end = not data
            pieces.append(self._decoder.decode(data, final=self._at_end))
        return "".join(pieces)

    def close(self) -> None:
        """Close the ends; where a process still holds the other one, pass on what it writes."""
        if self._at_end:
            os.close(self.read_end)
            os.close(self.saved)
        else:
            os.set_blocking(self.read_end, True)
            threading.Thread(target=self._pass_on, name="archytas_nb-leftover", daemon=True).start()

    def _pass_on(self) -> None:
        with suppress(OSError):  # where it had pointed to may be closed meanwhile
            while data := os.read(self.read_end, 1 << 16):
                os.write(self.saved, data)
        os.close(self.read_end)
        os.close(self.saved)


class Redirection:
    """Leads the descriptors 1 and 2 into pipes; one that is closed is left alone.

    ``sink`` is called with what was written, as text, in order for each descriptor.
    """

    def __init__(self, sink: Callable[[Kind, str], None]) -> None:
        global _newest, _server  # noqa: PLW0603
        self._sink = sink
        self._lock = threading.RLock()
        self._pipes: list[_Pipe] = []
        self._ended = self._served = False
        _flush()
        kinds: tuple[Kind, Kind] = ("stdout", "stderr")
        for fd, kind in enumerate(kinds, 1):
            with suppress(OSError):
                self._pipes.append(_Pipe(fd, kind))
        _newest = self  # set before `_server` is read; the thread does it the other way round
        if _server is None or not _server.is_alive():  # in a forked child it is not
            _server = threading.Thread(target=_serve, name="archytas_nb-output", daemon=True)
            _server.start()

    def end(self) -> None:
        """Put the descriptors back, and read what was written before."""
        global _newest  # noqa: PLW0603
        _flush()
        for pipe in self._pipes:
            os.dup2(pipe.saved, pipe.fd)
            os.close(pipe.write_end)
        if _newest is self:
            _newest = None
        with self._lock:
            self.drain()
            self._ended = True
            if not self._served:
                self._close()

    def drain(self) -> None:
        """Hand on what was written until now."""
        with self._lock:
            for pipe in () if self._ended else self._pipes:
                text = pipe.read()
                if text:
                    self._sink(pipe.kind, text)

    def serve(self) -> None:
        """Hand on what is written until the end: a full pipe would stop the one who writes."""
        with self._lock:
            if self._ended or self._served:
                return
            self._served = True
            poll = select.poll()
            for pipe in self._pipes:
                poll.register(pipe.read_end, select.POLLIN)
        while not self._ended:
            poll.poll(50)
            self.drain()
        self._close()

    def _close(self) -> None:
        for pipe in self._pipes:
            pipe.close()

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Put the descriptors back for a while, for a question on the terminal."""
        with self._lock:
            self.drain()
            for pipe in self._pipes:
                os.dup2(pipe.saved, pipe.fd)
        try:
            yield
        finally:
            _flush()
            for pipe in self._pipes:
                os.dup2(pipe.write_end, pipe.fd)

    def write_past(self, fd: int, text: str) -> bool:
        """Write to where a descriptor had pointed before; False where it is not redirected."""
        for pipe in self._pipes:
            if pipe.fd == fd and not self._ended:
                data = memoryview(text.encode("utf-8", "backslashreplace"))
                while data:
                    data = data[os.write(pipe.saved, data) :]
                return True
        return False


_newest: Redirection | None = None
_server: threading.Thread | None = None
_libc: Any = None


def _serve() -> None:
    """Empty the pipes of calls that last; to wake a thread for every call would cost too much."""
    global _server  # noqa: PLW0603
    seen, idle = None, 0
    while idle < _IDLE_POLLS or _newest is not None:
        time.sleep(_POLL)
        if seen is not None and seen is _newest:
            seen.serve()
        seen = _newest
        idle = 0 if seen is not None else idle + 1
        if idle >= _IDLE_POLLS:
            _server = None  # set before `_newest` is read once more


def _flush() -> None:
    """Empty the buffers above the descriptors, so that each text goes where it was meant to go."""
    global _libc  # noqa: PLW0603 - loaded once, when the first tool runs
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(Exception):  # closed, or not there
            if stream is not None:
                stream.flush()
    with suppress(Exception):
        if _libc is None:
            import ctypes

            _libc = ctypes.CDLL(None)
            name = "__stdoutp" if sys.platform == "darwin" else "stdout"
            _libc.archytas_stdout = ctypes.c_void_p.in_dll(_libc, name)
        _libc.fflush(_libc.archytas_stdout)
