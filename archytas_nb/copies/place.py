"""The copy as a place where programs run, made when it is first used, for as long as a question.

Statements that succeeded are kept, for the next program in the same copy. A copy whose process
ended is made again for the next program, and its earlier statements run again first; what they had
called in the kernel is not called a second time.
"""

from __future__ import annotations

import os
import pickle
import sys
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal, Self

from archytas_nb.copies import lock, prepared, scratch, watch
from archytas_nb.copies.begin import Beginning
from archytas_nb.copies.codec import NotDataError, Reader
from archytas_nb.copies.limits import CopyLimits
from archytas_nb.copies.lock import Level
from archytas_nb.copies.message import Named, NotSentError, named, pack
from archytas_nb.copies.prepared import NotPreparedError
from archytas_nb.copies.process import CopyProcess, Message, Way
from archytas_nb.copies.program import CallError
from archytas_nb.copies.readable import Readable, readable
from archytas_nb.copies.report import (
    CopyReport,
    DamagedError,
    Failure,
    ReportReader,
    Statement,
    Value,
    read_call,
)
from archytas_nb.copies.ways import connected, start_alone

Status = Literal["ok", "failed", "not run"]

__all__ = [
    "Copy",
    "CopyError",
    "CopyLimits",
    "CopyReport",
    "Failure",
    "Level",
    "Statement",
    "Value",
]

CAN_FORK = sys.platform == "linux"
"""Whether a process of this system can be forked and go on; macOS has libraries that cannot."""

_QUICK = 1.0
_PATIENT = 10.0
"""Seconds that the pickling of variables may take where a fork would do, and where it would not."""

_MOST_SENT = 1 << 30
"""Bytes of variables that are sent."""

_WAYS: dict[Way, str] = {"fork": "by fork", "message": "by message"}

_hung: set[int] = set()
"""The id of this process, once a fork of it has hung."""


class CopyError(Exception):
    """A copy cannot be made or cannot do what was asked; the message says why, in one line."""


def _never() -> bool:
    return False


class Copy:
    """A copy of the kernel.

    Args:
        namespace: The variables of the kernel.
        folder: The project, in which files can be read, except secrets.
        limits: The limits of the copy.
        call: The function that calls a function of the kernel: name, arguments by position and by
            name.
        tools: The names of functions that run in the kernel.
        stopped: Whether the person has interrupted the question.
        level: The lock to use; None for the best of this machine.

    Attributes:
        level: The lock in use.

    Raises:
        CopyError: A tool is named and `call` is None.
    """

    def __init__(
        self,
        namespace: Mapping[str, Any],
        *,
        folder: Path,
        limits: CopyLimits | None = None,
        call: Callable[[str, tuple[Any, ...], dict[str, Any]], Any] | None = None,
        tools: Collection[str] = (),
        stopped: Callable[[], bool] = _never,
        level: Level | None = None,
    ) -> None:
        if tools and call is None:
            raise CopyError(f"expected a function that calls the tools {sorted(tools)!r}")
        self.level = level or lock.machine()
        self._namespace = namespace
        self._folder = folder
        self._limits = limits or CopyLimits()
        self._call = call
        self._tools = tuple(tools)
        self._stopped = stopped
        self._process: CopyProcess | None = None
        self._kept: list[str] = []
        self._calls: list[tuple[bytes, bool, Any]] = []
        self._replayed = 0
        self._sent: set[str] = set()
        self._is_closed = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """End the copy; a second time does nothing."""
        self._is_closed = True
        if self._process is not None:
            self._process.close()

    def renew(self) -> None:
        """Have the next program begin with the kernel as it is then, and run the earlier again."""
        if self._process is not None:
            self._process.close()

    def run(self, source: str, *, keep: bool = True, is_part: bool = False) -> CopyReport:
        """Run a program in the copy.

        Args:
            source: The program.
            keep: Whether it runs again in a copy that takes the place of one that has ended.
            is_part: Whether more of the program follows: then open figures stay open.

        Raises:
            CopyError: The copy cannot be made, or cannot get a variable that the program uses.
            KeyboardInterrupt: The kernel was interrupted; the copy has ended.
        """
        begun = time.monotonic()
        if self._is_closed:
            raise CopyError("the copy is closed: make another one")
        called = len(self._calls)
        reader, way = self._run(source, is_part=is_part)
        if reader.ended == "hang":
            _hung.add(os.getpid())
            # Calls of the program in the kernel are not made again: their results are repeated.
            self._replayed = called
            with suppress(CopyError):
                reader, way = self._run(source, is_part=is_part)
        if keep:
            self._kept += reader.succeeded
        return reader.report(way, time.monotonic() - begun)

    def value(self, name: str) -> Any:
        """A copy of the value that a variable has in the copy.

        Raises:
            CopyError: There is no such variable, or its value is not data.
        """
        process = self._process
        if process is None or not process.is_running:
            # The kept statements run again, also the one that defines this name.
            process = self._started("")
        for message in process.ask("value", name):
            if message.what == "value":
                try:
                    return Reader(message.buffers).read(message.facts["tree"])
                except NotDataError as error:
                    raise CopyError(f"{name!r} cannot be brought back: {error}") from None
            if message.what == "refused":
                raise CopyError(f"{name!r} cannot be brought back: {message.facts['reason']}")
        raise CopyError(f"{name!r} cannot be brought back: the copy ended ({process.ended})")

    def _run(self, source: str, *, is_part: bool) -> tuple[ReportReader, Way]:
        """Run a program in the process that there is, or in one that is made for it."""
        process = self._process
        if process is not None and process.is_running:
            try:
                self._send(process, named(source, self._namespace), _PATIENT)
                return self._read(process, source, is_part=is_part), process.way
            except NotSentError as error:
                if process.way == "message" and self._is_fork_doubtful():
                    # The earlier statements would hang in a fork; without this one, the copy goes
                    # on here.
                    raise CopyError(f"{error}; it is not in the copy") from None
                process.close()
        process = self._started(source)
        return self._read(process, source, is_part=is_part), process.way

    def _started(self, source: str) -> CopyProcess:
        """A process with the variables that a program names, in which what was kept has run."""
        reasons = []
        allowed = readable(self._folder)
        for way, seconds in self._ways():
            try:
                self._process = process = self._begun(way, allowed)
                kept = "\n".join((*self._kept, source))
                self._send(process, named(kept, self._namespace), seconds)
            except (NotSentError, NotPreparedError, OSError) as error:
                reasons.append(f"{_WAYS[way]}: {error}")
                if self._process is not None:
                    self._process.close()
                continue
            except BaseException:
                if self._process is not None:
                    self._process.close()
                raise
            replayed, self._replayed = self._replayed, 0
            if self._kept:
                self._read(process, "\n".join(self._kept), is_part=True)
            self._replayed = max(replayed, self._replayed)
            if process.is_running:
                return process
            reasons.append(f"{_WAYS[way]}: what had run does not end ({process.ended})")
        raise CopyError(f"no copy of the kernel can be made; {'; '.join(reasons)}")

    def _is_fork_doubtful(self) -> bool:
        """Whether a fork may hang, or cannot be had."""
        if self.level.kind == "guarded" or not CAN_FORK:
            return True
        return os.getpid() in _hung or watch.has_foreign_threads()

    def _ways(self) -> list[tuple[Way, float]]:
        """The ways to make a copy, in the order in which they are tried, and their seconds.

        A fork has everything immediately, but a thread pool that ran in the kernel can hang in it;
        then the message may take longer. A prepared process may still be starting: meanwhile, a
        fork.
        """
        if self.level.kind == "guarded" or not CAN_FORK:
            return [("message", _PATIENT)]
        template = prepared.template()
        template.prepare(prepared.libraries(self._namespace))
        if self._is_fork_doubtful():
            return [("message", _PATIENT), ("fork", 0.0)]
        if template.is_ready():
            return [("message", _QUICK), ("fork", 0.0)]
        return [("fork", 0.0), ("message", _PATIENT)]

    def _begun(self, way: Way, allowed: Readable) -> CopyProcess:
        self._sent = set()
        beginning = Beginning(
            self.level,
            self._limits,
            self._limits.bytes_of_memory(),
            allowed,
            scratch.make(),
            self._tools,
            os.getpid(),
            tuple(sys.path),
            os.getcwd(),  # noqa: PTH109 - a text, which is sent
        )
        try:
            if way == "message" and not CAN_FORK:
                return start_alone(beginning, self._stopped)
            return connected(way, self._namespace, beginning, self._stopped)
        except BaseException:
            scratch.remove(beginning.scratch)
            raise

    def _send(self, process: CopyProcess, wanted: Named, seconds: float) -> None:
        """Send the variables that a program names and the copy has not got.

        Raises:
            NotSentError: One that it uses cannot be sent.
        """
        if process.way == "fork":
            return
        known = self._sent | set(self._tools)
        wanted = Named(
            tuple(name for name in wanted.used if name not in known),
            tuple(name for name in wanted.mentioned if name not in known),
        )
        if not wanted.used and not wanted.mentioned:
            return
        parcel = pack(self._namespace, wanted, seconds, _MOST_SENT)
        for message in process.ask("names", parcel=parcel):
            if message.what == "refused":
                raise NotSentError(f"they cannot be built there: {message.facts['reason']}")
            if message.what == "not locked":
                raise CopyError(f"a copy of the kernel cannot be locked: {message.facts['reason']}")
            if message.what == "taken":
                self._sent.update(parcel.names)
                return
        raise CopyError(f"the copy ended while it was sent variables ({process.ended})")

    def _read(self, process: CopyProcess, source: str, *, is_part: bool = False) -> ReportReader:
        reader = ReportReader(self._limits)
        try:
            for message in process.ask("run", source, is_part):
                if message.what == "call":
                    self._answer(process, message)
                elif message.what == "not locked":
                    raise CopyError(
                        f"a copy of the kernel cannot be locked: {reader.reason(message)}"
                    )
                elif reader.take(message):
                    return reader
        except DamagedError:
            process.end("crash")
        except BaseException:
            # It waits for an answer that does not come.
            process.close()
            raise
        reader.finish(process.ended)
        return reader

    def _answer(self, process: CopyProcess, message: Message) -> None:
        """Run a function of the kernel for the copy, or repeat what it had returned."""
        name, args, kwargs = read_call(message)
        if name not in self._tools or self._call is None:
            raise DamagedError(f"{name!r} is not a tool")
        request = b"\0".join(
            (repr(message.facts).encode("utf-8", "replace"), *map(bytes, message.buffers))
        )
        if self._replayed < len(self._calls) and self._calls[self._replayed][0] == request:
            _, is_result, content = self._calls[self._replayed]
            self._replayed += 1
        else:
            begun = time.monotonic()
            is_result, content = True, None
            try:
                content = self._call(name, args, kwargs)
            except Exception as error:  # noqa: BLE001 - the program in the copy handles it
                is_result, content = False, error
            process.wait_for_call(time.monotonic() - begun)
            self._calls.append((request, is_result, content))
            self._replayed = len(self._calls)
        try:
            process.reply(is_result, content)
        except (pickle.PicklingError, TypeError, AttributeError, RecursionError) as error:
            reason = f"{name}() returned what cannot be sent to the copy: {error}"
            if not is_result:
                reason = f"{type(content).__name__}: {content}"
            process.reply(*(False, CallError(reason)))
