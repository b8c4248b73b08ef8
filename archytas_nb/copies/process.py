"""The process of a copy, as the kernel has it: it is begun, spoken to, watched and ended.

| state   | what holds                                             | goes to          |
|---------|--------------------------------------------------------|------------------|
| ready   | it waits for what the kernel wants                     | working, ended   |
| working | it runs a program, or reads a name                     | ready, ended     |
| ended   | it is no more; `ended` says why, if nobody closed it   |                  |
"""

from __future__ import annotations

import json
import os
import pickle
import signal
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn

from archytas_nb.copies import scratch, watch
from archytas_nb.copies.channel import ClosedError, Data, Frame, TooLargeError, receive, send
from archytas_nb.copies.limits import CopyLimits

EndedBecause = Literal["time", "memory", "exit", "crash", "hang", "output"]
_LOOK = 0.25
"""Seconds between two looks at what a process uses."""


class NotStartedError(Exception):
    """A copy could not be made; the message says why."""


@dataclass(frozen=True)
class Message:
    """What a copy says.

    Attributes:
        what: The kind of message.
        facts: What it says; nothing of it can be trusted.
        buffers: Bytes to which it refers.
    """

    what: str
    facts: Mapping[str, Any]
    buffers: Sequence[Data]


class _EndedError(Exception):
    """The process is no more."""


class CopyProcess:
    """A process that runs programs.

    Attributes:
        pid: Its process id.
        ended: Why it is no more; None while it runs, and if it was closed.
        way: How it got its objects.
    """

    def __init__(
        self,
        pid: int,
        reading: int,
        writing: int,
        life: int,
        folder: Path,
        limits: CopyLimits,
        stopped: Callable[[], bool],
        way: Literal["fork", "message"],
    ) -> None:
        self.pid = pid
        self.ended: EndedBecause | None = None
        self.way = way
        self._reading = reading
        self._writing = writing
        self._life = life
        self._folder = folder
        self._limits = limits
        self._memory = limits.bytes_of_memory()
        self._stopped = stopped
        self._is_closed = False
        self._deadline = time.monotonic() + limits.seconds
        self._quiet = watch.Quiet(pid, time.monotonic())
        self._looked = 0.0
        self._owner = os.getpid()

    @property
    def is_running(self) -> bool:
        """Whether it can be asked for something."""
        return not self._is_closed

    def ask(self, *what: Any, buffers: Collection[Data] = ()) -> Iterator[Message]:
        """Ask for something, and yield what the copy says until the last message is taken.

        Raises:
            KeyboardInterrupt: The kernel was interrupted, or `stopped` says so; the copy has ended.
        """
        self._deadline = time.monotonic() + self._limits.seconds
        self._quiet.restart(time.monotonic())
        self._looked = time.monotonic()
        try:
            self._send(what, buffers)
            while True:
                yield self._message()
        except _EndedError:
            pass
        except ClosedError:
            self._ended(self._how_it_ended())
        except (TooLargeError, ValueError, TypeError, KeyError, RecursionError, MemoryError):
            # It did not say what a copy says: code in it has written into the pipe.
            self._ended("crash")
        except GeneratorExit:
            # The last message was taken: it waits for what is asked next.
            raise
        except BaseException:
            self.close()
            raise

    def reply(self, *content: Any) -> None:
        """Answer a call of the copy."""
        now = time.monotonic()
        self._send(content, ())
        self._quiet.restart(now)

    def wait_for_call(self, seconds: float) -> None:
        """Do not count the time that a function of the kernel took."""
        self._deadline += seconds

    def _send(self, content: Any, buffers: Collection[Data]) -> None:
        out_of_band: list[pickle.PickleBuffer] = []
        head = pickle.dumps(content, 5, buffer_callback=out_of_band.append)
        raws = [each.raw() for each in out_of_band]
        send(self._writing, Frame(head, (*raws, *buffers)), self._look)

    def _message(self) -> Message:
        # A value may come with a head that is as large as it.
        frame = receive(self._reading, 3 * self._limits.value + (64 << 20), self._look)
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
        within = scratch.is_within(self._folder, self._limits.scratch)
        if not within or watch.private_bytes(self.pid) > self._memory:
            self._end("memory")
        if self.way == "fork" and self._quiet.look(now) > self._limits.quiet:
            self._end("hang")

    def _end(self, why: EndedBecause) -> NoReturn:
        self._ended(why)
        raise _EndedError

    def _ended(self, why: EndedBecause) -> None:
        self.ended = why
        self.close()

    def _how_it_ended(self) -> EndedBecause:
        for _ in range(200):
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                self.pid = 0
                return "exit" if os.WIFEXITED(status) else "crash"
            time.sleep(0.005)
        return "crash"

    def close(self) -> None:
        """End the process, and remove its scratch folder; a second time does nothing."""
        if self._is_closed or os.getpid() != self._owner:
            return
        self._is_closed = True
        if self.pid:
            with suppress(ProcessLookupError):
                os.kill(self.pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(self.pid, 0)
        for each in (self._reading, self._writing, self._life):
            os.close(each)
        scratch.remove(self._folder)
