"""What subprocesses and C code write to the file descriptors 1 and 2, past Python's streams.

For the time of a call the two point into pipes of ours; afterwards they point where they did. Jupyter watches
the same descriptors by pipes of its own, and gets them back as they were. A process that a tool left running
keeps its end of our pipe: what it writes later is passed on to where the descriptors had pointed, so it neither
blocks nor dies. Elsewhere than on POSIX systems nothing is redirected.
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

Sink = Callable[[Literal["stdout", "stderr"], str], None]

_PATIENCE = 0.02
"""Seconds after which the pipes of a call are emptied while it runs; most calls end before."""

_QUIET = 50
"""After so many looks at nothing the thread that does it goes to sleep."""


class _Pipe:
    """One descriptor, led into a pipe."""

    def __init__(self, fd: int, kind: Literal["stdout", "stderr"]) -> None:
        self.fd, self.kind = fd, kind
        self.saved = os.dup(fd)
        self.read_end, self.write_end = os.pipe()
        os.set_blocking(self.read_end, False)
        self.decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self.at_end = False

    def redirect(self) -> None:
        os.dup2(self.write_end, self.fd)

    def restore(self) -> None:
        os.dup2(self.saved, self.fd)

    def read(self) -> str:
        """What is there now."""
        pieces = []
        while not self.at_end:
            try:
                data = os.read(self.read_end, 1 << 16)
            except BlockingIOError:
                break
            self.at_end = not data
            pieces.append(self.decoder.decode(data, final=self.at_end))
        return "".join(pieces)

    def close(self) -> None:
        """Close our ends; what a process that still holds the other one writes later is passed on."""
        if self.at_end:
            os.close(self.read_end)
            os.close(self.saved)
            return
        os.set_blocking(self.read_end, True)
        threading.Thread(target=self._pass_on, name="archytas_nb-leftover", daemon=True).start()

    def _pass_on(self) -> None:
        with suppress(OSError):  # where it had pointed to may be closed meanwhile
            while data := os.read(self.read_end, 1 << 16):
                os.write(self.saved, data)
        os.close(self.read_end)
        os.close(self.saved)


class Redirection:
    """The two descriptors while calls run. Made by `redirected`.

    Args:
        sink: Given what was written, as text, in order for each descriptor.
    """

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._lock = threading.RLock()
        self._pipes: list[_Pipe] = []
        self._ended = self._served = False

    def begin(self) -> None:
        """Lead both descriptors into pipes; one that is closed is left alone."""
        _flush()
        for fd, kind in ((1, "stdout"), (2, "stderr")):
            with suppress(OSError):
                pipe = _Pipe(fd, "stdout" if kind == "stdout" else "stderr")
                self._pipes.append(pipe)
                pipe.redirect()
        _pump.watch(self)

    def end(self) -> None:
        """Put the descriptors back, and read what was written before."""
        _flush()
        for pipe in self._pipes:
            pipe.restore()
            os.close(pipe.write_end)
        _pump.unwatch(self)
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
            if self._ended:
                return
            self._served = True
            poll = select.poll()
            for pipe in self._pipes:
                poll.register(pipe.read_end, select.POLLIN)
        while not self._ended:
            ready = poll.poll(50)
            with self._lock:
                self.drain()
                for fd, event in ready:
                    if event & (select.POLLHUP | select.POLLERR | select.POLLNVAL):
                        with suppress(KeyError):
                            poll.unregister(fd)
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
                pipe.restore()
        try:
            yield
        finally:
            _flush()
            for pipe in self._pipes:
                pipe.redirect()

    def write_past(self, fd: int, text: str) -> bool:
        """Write where a descriptor had pointed before; False where it is not redirected."""
        for pipe in self._pipes:
            if pipe.fd == fd and not self._ended:
                data = memoryview(text.encode("utf-8", "backslashreplace"))
                while data:
                    data = data[os.write(pipe.saved, data) :]
                return True
        return False


class _Pump:
    """One thread that empties the pipes of calls that last; started with the first of them.

    It looks every now and then, and sleeps where there was nothing for a while: to wake it for every call would
    cost more than most calls do.
    """

    def __init__(self) -> None:
        self._woken = threading.Condition(threading.Lock())
        self._watched: Redirection | None = None
        self._asleep = False
        self._pid = 0

    def watch(self, redirection: Redirection) -> None:
        if self._pid != os.getpid():  # a fork has the lock as it was, and no thread
            self._woken, self._asleep, self._pid = (
                threading.Condition(threading.Lock()),
                False,
                os.getpid(),
            )
            threading.Thread(target=self._work, name="archytas_nb-output", daemon=True).start()
        self._watched = (
            redirection  # set first, asked second: the thread does it the other way round
        )
        if self._asleep:
            with self._woken:
                self._woken.notify_all()

    def unwatch(self, redirection: Redirection) -> None:
        if self._watched is redirection:
            self._watched = None

    def _work(self) -> None:
        seen, quiet = None, 0
        while True:
            time.sleep(_PATIENCE)
            if self._watched is not None and self._watched is seen:
                seen.serve()
                self.unwatch(seen)
            seen = self._watched
            quiet = 0 if seen is not None else quiet + 1
            if quiet > _QUIET:
                self._sleep()
                quiet = 0

    def _sleep(self) -> None:
        with self._woken:
            self._asleep = True
            while self._watched is None:
                self._woken.wait()
            self._asleep = False


_pump = _Pump()
_libc: Any = None


def supported() -> bool:
    """Whether descriptors can be redirected here."""
    return os.name == "posix" and hasattr(select, "poll")


def _flush() -> None:
    """Empty the buffers above the descriptors, so that each text goes where it was meant to go."""
    for stream in (sys.__stdout__, sys.__stderr__):
        with suppress(Exception):  # closed, or not there
            if stream is not None:
                stream.flush()
    global _libc  # noqa: PLW0603 - loaded once, when the first tool runs
    with suppress(Exception):
        if _libc is None:
            import ctypes

            _libc = ctypes.CDLL(None)
            name = "__stdoutp" if sys.platform == "darwin" else "stdout"
            _libc.archytas_stdout = ctypes.c_void_p.in_dll(_libc, name)
        _libc.fflush(_libc.archytas_stdout)
