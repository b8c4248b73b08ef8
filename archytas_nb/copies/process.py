"""The process of a copy, as the kernel has it: it is begun, spoken to, watched and ended.

| state   | what holds                                             | goes to          |
|---------|--------------------------------------------------------|------------------|
| ready   | it waits for what the kernel wants                     | working, ended   |
| working | it runs a program, or reads a name                     | ready, ended     |
| ended   | it is no more; `ended` says why, if nobody closed it   |                  |
"""

from __future__ import annotations

import atexit
import json
import os
import pickle
import signal
import time
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Literal, NoReturn, Protocol

from archytas_nb.copies import scratch, watch
from archytas_nb.copies.begin import Beginning
from archytas_nb.copies.channel import ClosedError, Data, Frame, TooLargeError, receive, send
from archytas_nb.copies.message import Parcel

Way = Literal["fork", "message"]
EndedBecause = Literal["time", "memory", "exit", "crash", "hang", "output"]
_STARTING = 30.0
"""Seconds that a process may take until it says something."""

_LOOK = 0.25
"""Seconds between two looks at what a process uses."""


@dataclass(frozen=True)
class Message:
    """A message of a copy.

    Attributes:
        what: The kind of message.
        facts: The content; nothing of it can be trusted.
        buffers: Bytes to which it refers.
    """

    what: str
    facts: Mapping[str, Any]
    buffers: Sequence[Data]


class _EndedError(Exception):
    """The process is no more."""


class Child(Protocol):
    """A process that is a copy."""

    pid: int

    def kill(self) -> None:
        """End it; one that has ended is left alone."""

    def wait(self) -> EndedBecause:
        """Wait until it has ended, and release its process id: whether it exited or crashed."""


class Forked:
    """A child of the kernel."""

    def __init__(self, pid: int) -> None:
        self.pid = pid

    def kill(self) -> None:
        """End it."""
        with suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)

    def wait(self) -> EndedBecause:
        """Wait until it has ended."""
        try:
            return ended_by(os.waitpid(self.pid, 0)[1])
        except ChildProcessError:
            # Somebody else has waited for all children of the kernel.
            return "crash"


def ended_by(status: int) -> EndedBecause:
    """Why a process ended, by what `os.waitpid` says."""
    return "exit" if os.WIFEXITED(status) else "crash"


class CopyProcess:
    """A process that runs programs.

    Args:
        child: The process.
        reading: The descriptor with its reports.
        writing: The descriptor for questions to it.
        life: A descriptor that is closed when the kernel ends, or with the copy.
        beginning: The data that it began with.
        stopped: Whether the person has interrupted the question.
        way: How it got its objects.

    Attributes:
        ended: Why it is no more; None while it runs, and if it was closed.
        way: How it got its objects.
    """

    def __init__(
        self,
        child: Child,
        reading: int,
        writing: int,
        life: int | None,
        beginning: Beginning,
        stopped: Callable[[], bool],
        way: Way,
    ) -> None:
        self.ended: EndedBecause | None = None
        self.way = way
        self._child = child
        self._open = [each for each in (reading, writing, life) if each is not None]
        with suppress(AttributeError, OSError):
            # A copy that does not read must not hold the kernel.
            os.set_blocking(writing, False)
        self._reading = reading
        self._writing = writing
        self._folder = beginning.scratch
        self._limits = beginning.limits
        self._memory = beginning.memory
        self._stopped = stopped
        self._is_closed = False
        self._deadline = time.monotonic() + self._limits.seconds
        self._quiet = watch.Quiet(child.pid, time.monotonic())
        self._looked = 0.0
        self._left = 0
        self._has_begun = False
        self._owner = os.getpid()
        self._child_is_gone = False
        _running.add(self)

    def __del__(self) -> None:
        # A copy that nobody closes does not go on.
        if hasattr(self, "_child_is_gone"):
            self.close()

    @property
    def is_running(self) -> bool:
        """Whether it can be asked for something."""
        return not self._is_closed

    def ask(self, *what: Any, parcel: Parcel | None = None) -> Iterator[Message]:
        """Ask for something, and yield what the copy says until the last message is taken.

        Raises:
            KeyboardInterrupt: The kernel was interrupted, or `stopped` says so; the copy has ended.
        """
        if self._is_closed:
            return
        starting = 0 if self._has_begun else _STARTING
        self._deadline = time.monotonic() + self._limits.seconds + starting
        self._quiet.restart(time.monotonic())
        self._looked = time.monotonic()
        try:
            # A value may come with a head that is as large as it.
            self._left = 3 * self._limits.value + (64 << 20)
            self._send(what)
            if parcel is not None:
                send(self._writing, Frame(parcel.head, parcel.buffers), self._look)
            while True:
                yield self._message()
        except _EndedError:
            pass
        except ClosedError:
            self.end(self._how_it_ended())
        except (TooLargeError, ValueError, TypeError, KeyError, RecursionError, MemoryError):
            # It does not say what a copy says: code in it has written into the pipe.
            self.end("crash")
        except GeneratorExit:
            # The last message was taken: it waits for what is asked next.
            raise
        except BaseException:
            self.close()
            raise

    def reply(self, *content: Any) -> None:
        """Answer a call of the copy."""
        now = time.monotonic()
        self._send(content)
        self._quiet.restart(now)

    def wait_for_call(self, seconds: float) -> None:
        """Do not count the time that a function of the kernel took."""
        self._deadline += seconds

    def _send(self, content: Any) -> None:
        out_of_band: list[pickle.PickleBuffer] = []
        head = pickle.dumps(content, 5, buffer_callback=out_of_band.append)
        raws = [each.raw() for each in out_of_band]
        send(self._writing, Frame(head, raws), self._look)

    def _message(self) -> Message:
        self._look()
        frame = receive(self._reading, self._left, self._look)
        self._left -= len(frame.head) + sum(len(each) for each in frame.buffers)
        if not self._has_begun:
            # Until now it was started and locked, which is not the time of the program.
            self._has_begun = True
            self._deadline = time.monotonic() + self._limits.seconds
        facts = json.loads(frame.head)
        return Message(str(facts.pop("what")), facts, frame.buffers)

    def _look(self) -> None:
        """See whether it may go on."""
        if self._stopped():
            raise KeyboardInterrupt
        now = time.monotonic()
        if now > self._deadline:
            self._end("time")
        if now - self._looked < _LOOK:
            return
        self._looked = now
        pid = self._child.pid
        within = scratch.is_within(self._folder, self._limits.scratch)
        if (
            not within
            or watch.threads(pid) > watch.MOST_THREADS
            or watch.private_bytes(pid) > self._memory
        ):
            self._end("memory")
        if self.way == "fork" and self._quiet.look(now) > self._limits.quiet:
            self._end("hang")

    def _end(self, why: EndedBecause) -> NoReturn:
        self.end(why)
        raise _EndedError

    def end(self, why: EndedBecause) -> None:
        """End the process for a reason."""
        self.ended = self.ended or why
        self.close()

    def _how_it_ended(self) -> EndedBecause:
        """How it ended of itself; it has closed its end of the pipe, and cannot go on."""
        self._child.kill()
        self._child_is_gone = True
        return self._child.wait()

    def close(self) -> None:
        """End the process, and remove its scratch folder; a second time does nothing."""
        if self._is_closed or os.getpid() != self._owner:
            return
        self._is_closed = True
        if not self._child_is_gone:
            self._child.kill()
            self._child.wait()
        for each in self._open:
            os.close(each)
        scratch.remove(self._folder)


_running: weakref.WeakSet[CopyProcess] = weakref.WeakSet()


def _close_all() -> None:
    for each in tuple(_running):
        each.close()


atexit.register(_close_all)
