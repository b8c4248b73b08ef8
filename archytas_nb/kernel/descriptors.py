"""Captures what subprocesses and C code write to the file descriptors 1 and 2, on POSIX systems.

While calls run, both descriptors lead into pipes; afterwards they are restored. Jupyter does the
same with its own pipes. Later output of a process that a tool left running is forwarded to the
original target, so that the process neither blocks nor dies.
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
from functools import cache
from typing import Any, Literal

Kind = Literal["stdout", "stderr"]

SUPPORTED = os.name == "posix" and hasattr(select, "poll")
"""Whether descriptors can be redirected on this system."""


_POLL = 0.02  # seconds between two reads
_BUSY = 0.001  # while there is output
_IDLE_POLLS = 50  # the reading thread ends after this many reads without a call


class _Pipe:
    """A descriptor that leads into a pipe, and its original target."""

    def __init__(self, fd: int, kind: Kind) -> None:
        self.fd = fd
        self.kind = kind
        self.saved = os.dup(fd)
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._at_end = False
        os.dup2(self.write_end, fd)

    def read(self) -> str:
        """Read what is there now."""
        pieces = []
        with suppress(BlockingIOError):
            while not self._at_end:
                data = os.read(self.read_end, 1 << 16)
                self._at_end = not data
                pieces.append(self._decoder.decode(data, final=self._at_end))
        return "".join(pieces)

    def close(self) -> None:
        """Close the pipe; if a process still writes to it, forward its output until it ends."""
        if self._at_end:
            os.close(self.read_end)
            os.close(self.saved)
        else:
            os.set_blocking(self.read_end, True)
            threading.Thread(target=self._pass_on, name="archytas_nb-leftover", daemon=True).start()

    def _pass_on(self) -> None:
        with suppress(OSError):  # the original target may be closed by now
            while data := os.read(self.read_end, 1 << 16):
                os.write(self.saved, data)
        os.close(self.read_end)
        os.close(self.saved)


class Redirection:
    """Redirects the descriptors 1 and 2 into pipes; a closed one is left alone.

    ``sink`` is called with the text that is written, in order for each descriptor.
    """

    def __init__(self, sink: Callable[[Kind, str], None]) -> None:
        global _newest, _server  # noqa: PLW0603
        self._sink = sink
        self._lock = threading.RLock()
        self._pipes: list[_Pipe] = []
        self._ended = False
        _flush()
        kinds: tuple[Kind, Kind] = ("stdout", "stderr")
        for fd, kind in enumerate(kinds, 1):
            with suppress(OSError):
                self._pipes.append(_Pipe(fd, kind))
        self._waiting = select.poll()
        for pipe in self._pipes:
            self._waiting.register(pipe.read_end)
        _newest = self  # before `_server` is read; the thread uses the reverse order
        if _server is None or not _server.is_alive():  # in a forked child it is not
            _server = threading.Thread(target=_serve, name="archytas_nb-output", daemon=True)
            _server.start()

    def end(self) -> None:
        """Restore the descriptors, and read the rest."""
        global _newest  # noqa: PLW0603
        _flush()
        with self._lock:
            for pipe in self._pipes:
                os.dup2(pipe.saved, pipe.fd)
                os.close(pipe.write_end)
            self.drain()
            self._ended = True
        if _newest is self:
            _newest = None
        for pipe in self._pipes:
            pipe.close()

    def drain(self) -> bool:
        """Pass what was written so far to the sink; return whether there was anything."""
        with self._lock:
            if self._ended or not self._waiting.poll(0):  # asked before each write of Python
                return False
            texts = [(pipe.kind, pipe.read()) for pipe in self._pipes]
            for kind, text in texts:
                if text:
                    self._sink(kind, text)
        return any(text for _, text in texts)

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Restore the descriptors in the block, for a question on the terminal."""
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

    def write_to_original(self, fd: int, text: str) -> bool:
        """Write to the original target of a descriptor; False if it is not redirected."""
        for pipe in self._pipes:
            if pipe.fd == fd and not self._ended:
                data = memoryview(text.encode("utf-8", "backslashreplace"))
                while data:
                    data = data[os.write(pipe.saved, data) :]
                return True
        return False


_newest: Redirection | None = None
_server: threading.Thread | None = None


def _serve() -> None:
    """Empty the pipes of a long call, because a full pipe would block the writer.

    Most calls end before the first read; waking a thread for each of them would cost too much.
    """
    global _server  # noqa: PLW0603
    idle = 0
    wait = _POLL
    while idle < _IDLE_POLLS or _newest is not None:
        time.sleep(wait)
        current = _newest
        wait = _POLL
        if current is None:
            idle += 1
        else:
            idle = 0
            if current.drain():
                wait = _BUSY
        if idle >= _IDLE_POLLS:
            _server = None  # before `_newest` is read again


def _flush() -> None:
    """Flush the buffers above the descriptors, so that text goes to its intended target."""
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(Exception):  # closed or missing
            if stream is not None:
                stream.flush()
    with suppress(Exception):
        flush, stdout = _c_stdout()
        flush(stdout)


@cache
def _c_stdout() -> tuple[Any, Any]:
    """C's ``fflush``, and its ``stdout``."""
    import ctypes

    libc = ctypes.CDLL(None)
    name = "__stdoutp" if sys.platform == "darwin" else "stdout"
    return libc.fflush, ctypes.c_void_p.in_dll(libc, name)
