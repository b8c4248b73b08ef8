"""A conversation's programs: they run in the sandbox, step by step, and their variables stay.

A session has one of these states:

| state     | meaning                                  | left by                                   |
|-----------|------------------------------------------|-------------------------------------------|
| idle      | no program runs; there may be no worker  | `run` → computing, `close` → closed       |
| computing | a thread drives the worker               | a call → waiting, the end → idle          |
| waiting   | the program waits for the calls it made  | `resume` → computing, `stop` → idle       |
| closed    | the variables are bytes, in a `State`    | (a new `Session` of the `State`)          |

The calling thread waits for the thread that drives the worker, so an interrupt reaches it at once;
`stop` then ends the worker's process. Whatever ends a worker, its session is restored from the
last dump: one is made when a program ends, when it waits for calls, and after each statement that
called a tool. Variables of the notebook that a program names are bound in the sandbox until the
next program begins.
"""

from __future__ import annotations

import builtins
import functools
import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from concurrent.futures import Future, wait
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar, get_args

from archytas_nb.errors import ToolError
from archytas_nb.loop.events import (
    CallOutcome,
    Fault,
    Json,
    ProgramCall,
    ProgramEnded,
    ProgramFaults,
    ProgramWaits,
)
from archytas_nb.sandbox import pool
from archytas_nb.sandbox.rewrite import PRELUDE
from archytas_nb.sandbox.source import CHECKPOINT, Source
from archytas_nb.tools.names import is_secret
from archytas_nb.tools.variables import is_code, is_hidden, user_names, why_not_passed
from archytas_nb.words import clip, count, did_you_mean, shorten

if TYPE_CHECKING:
    from pydantic_monty import (
        FunctionSnapshot,
        FutureSnapshot,
        MontyError,
        MontySession,
        NameLookupSnapshot,
        SyncSnapshot,
    )

    from archytas_nb.sandbox.values import Handles
    from archytas_nb.tools.tool import Tool

T = TypeVar("T")

ANSWER = "answer"
GIVE_UP = "give_up"
SHOW = "show"

_REQUESTS_PER_CALL = 10
"""How many other requests, such as `show`, a program may make for each call that it may make."""

_MAX_REQUESTS = 2**31
_MAX_PRINTED = 20_000  # characters that are kept of what a program prints
_MAX_LINE = 500  # characters of one printed line
_MAX_SHOWN = 100  # texts that a program shows
_MAX_ASSIGNED = 50
_MAX_MESSAGE = 2_000  # characters of an error in a program
_LARGE_DUMP = 1_000_000  # bytes; larger ones are made less often
_DUMP_SHARE = 20  # seconds between two of them, for each second that one takes
_ENDINGS = 100  # how often a program that is to end may catch its end

_FIRST = "archytas_first"
_HEAD = "{0}[:300] if isinstance({0}, (str, bytes, list, tuple)) else {0}"
"""A value that is short for the model, or the beginning of one that is long."""
_KILL = getattr(signal, "SIGKILL", signal.SIGTERM)
_ATTEMPTS = 3  # how often a worker that was lost is replaced for the same work
_PATIENCE = 2.0  # seconds until a worker that was told to end is told again


@dataclass(frozen=True, slots=True)
class Bounds:
    """What one program may use.

    Attributes:
        calls: Calls of tools.
        seconds: Seconds of computing, without the time of its calls.
        memory: Bytes.
        depth: Depth of nested calls of functions.
    """

    calls: int = 1_000
    seconds: float = 5.0
    memory: int = 100_000_000
    depth: int = 200


@dataclass(frozen=True, slots=True)
class State:
    """The variables of the programs of a conversation.

    Attributes:
        dump: The session, as the sandbox writes it.
        handles: The objects that its variables refer to.
        borrowed: Names that are bound to values of the notebook's variables.
    """

    dump: bytes = field(repr=False)
    handles: Handles = field(repr=False)
    borrowed: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class _Saved:
    """A dump to go back to; `is_running` if it was made while a program ran."""

    dump: bytes
    is_running: bool = False


@dataclass(slots=True)
class _Program:
    """What is known of the program that runs.

    Attributes:
        source: Its text.
        file: The name that the sandbox gives to its text.
        shown: What it showed, in order.
        line: The line of its last call.
        has_answer, answer, gave_up: What it gave to ``answer`` and ``give_up``.
        error: Why it was ended.
        lost: Why the sandbox was lost.
        pending: Calls that wait for an outcome, by their ids.
        requested: The ids of those that the loop was asked for, in order.
    """

    source: Source
    file: str
    shown: list[str] = field(default_factory=list)
    line: int = 0
    has_answer: bool = False
    answer: Json = None
    gave_up: str | None = None
    error: Fault | None = None
    is_interrupted: bool = False
    lost: str = ""
    pending: dict[int, ProgramCall] = field(default_factory=dict)
    requested: tuple[int, ...] = ()
    _printed: str = ""
    _size: int = 0

    def print(self, _: str, text: str) -> None:
        """Receive what it prints, in pieces."""
        left = max(_MAX_PRINTED - self._size, 0)
        self._size += len(text)
        self._printed += text[:left]

    def show(self, text: str) -> None:
        """Add a text to what it showed, behind what it printed before."""
        self.flush()
        if len(self.shown) < _MAX_SHOWN:
            self.shown.append(text)

    def flush(self) -> None:
        """Move what it printed to what it showed, a text for each line."""
        lines = self._printed.splitlines()
        self._printed = ""
        self.shown += [shorten(each, _MAX_LINE) for each in lines][: _MAX_SHOWN - len(self.shown)]

    def fault(self, line: int, text: str) -> Fault:
        """A fault in one of its lines."""
        return Fault(line, self.source.line(line), text)


class _Driving:
    """Work that is done on a thread of its own."""

    def __init__(self, work: Callable[[], Any]) -> None:
        self.result: Future[Any] = Future()
        self.thread = threading.Thread(
            target=self._drive, args=(work,), name="archytas_nb sandbox", daemon=True
        )

    def _drive(self, work: Callable[[], Any]) -> None:
        if not self.result.set_running_or_notify_cancel():
            return
        try:
            self.result.set_result(work())
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            self.result.set_exception(error)

    def wait(self, seconds: float) -> bool:
        """Whether it is done after so many seconds."""
        wait([self.result], timeout=seconds)
        return self.result.done()

    def reply(self) -> Any:
        """What it returned; None if it raised, or was never begun."""
        if self.result.cancelled() or self.result.exception() is not None:
            return None
        return self.result.result()


class _Ended(Exception):
    """A program is to end at its call."""


class Session:
    """The programs of one question, with the variables of those of the questions before.

    Args:
        tools: The tools of the run, by name.
        namespace: The notebook's variables. Objects that a call names and that are no variable are
            kept in it under a new name.
        state: Of the question before; None for the first.
        bounds: What one program may use.
        names_variables: Whether a program may name the notebook's variables. Otherwise it may only
            give their names, as texts, to tools that take objects.

    Raises:
        ConfigurationError: The sandbox is not installed, or not usable in this process.
    """

    def __init__(
        self,
        tools: Mapping[str, Tool],
        namespace: Mapping[str, Any],
        state: State | None = None,
        bounds: Bounds | None = None,
        *,
        names_variables: bool = True,
    ) -> None:
        pool.require()
        from archytas_nb.sandbox.values import Handles
        from archytas_nb.tools.declaration import python_name

        self._tools = {python_name(each): each for each in tools.values()}
        self._namespace = namespace
        self._names_variables = names_variables
        self._bounds = Bounds() if bounds is None else bounds
        self._handles = Handles(namespace)
        self._borrowed: set[str] = set()
        self._saved: _Saved | None = None
        if state is not None:
            self._handles = state.handles.copy(namespace)
            self._borrowed = set(state.borrowed)
            self._saved = _Saved(state.dump)
        self._before = self._saved  # the session as it was before the program
        self._names: tuple[str, ...] = ()  # that are bound in the session
        self._calls = 0
        self._requests = 0
        self._dumped = 0.0  # when the last dump was made, and how long it took
        self._dumping = 0.0

        self._session: MontySession | None = None
        self._workers: dict[int, int] = {}  # process ids of the workers in use
        self._program: _Program | None = None
        self._snapshot: FunctionSnapshot | FutureSnapshot | None = None
        self._driving: _Driving | None = None
        self._is_stopped = False
        self._state: State | None = None

    # ── what a run asks for ───────────────────────────────────────────────────────────────────────

    def run(
        self,
        text: str,
        is_part: bool = False,  # noqa: FBT001, FBT002
    ) -> ProgramFaults | ProgramWaits | ProgramEnded:
        """Check a program and run it until it waits for calls, or ends.

        Args:
            text: The program.
            is_part: Whether it continues what was run before: the bounds count for all parts, and
                variables of the notebook are not read again.

        Raises:
            KeyboardInterrupt: The user interrupted; call `stop`.
        """
        return self._driven(lambda: self._run(text, is_part=is_part))

    def resume(self, outcomes: Sequence[CallOutcome]) -> ProgramWaits | ProgramEnded:
        """Continue the program with the outcomes of the calls that it waits for, in their order.

        Raises:
            KeyboardInterrupt: The user interrupted; call `stop`.
        """
        return self._driven(lambda: self._resume(outcomes))

    def stop(self) -> ProgramEnded:
        """End the program at its last call, after an interrupt or when its time is over."""
        ended: Any = None
        driving = self._driving
        if driving is not None:
            self._is_stopped = True
            driving.result.cancel()  # an interrupt may come before the thread begins
            while not driving.wait(0):
                self._kill()
                driving.wait(_PATIENCE)
            self._is_stopped = False
            self._driving = None
            ended = driving.reply()
        if self._program is not None:
            ended = self._driven(self._stopped)
        if not isinstance(ended, ProgramEnded):
            return ProgramEnded(interrupted=True)
        return replace(ended, interrupted=True, lost="", error=None)

    def close(self) -> State:
        """End the program if one runs, return the worker, and keep the variables."""
        if self._state is None:
            if self._driving is not None or self._program is not None:
                self.stop()
            self._state = self._driven(self._closed)
        return self._state

    # ── the thread that drives the worker ─────────────────────────────────────────────────────────

    def _driven(self, work: Callable[[], T]) -> T:
        """Do the work on another thread, so that an interrupt is raised here at once."""
        if self._state is not None:
            raise RuntimeError("the session is closed; make a new one of its state")
        self._driving = driving = _Driving(work)
        driving.thread.start()
        while not driving.wait(0.2):  # a timeout is raised only between two waits
            pass
        self._driving = None
        result: T = driving.result.result()
        return result

    def _kill(self) -> None:
        for pid in list(self._workers.values()):
            with suppress(OSError):
                os.kill(pid, _KILL)

    def _open(self, **options: Any) -> MontySession:
        session = pool.checkout(**options)
        pid = session.worker_pid
        if pid is not None:
            self._workers[id(session)] = pid
        return session

    def _release(self, session: MontySession | None) -> None:
        if session is not None:
            self._workers.pop(id(session), None)
            pool.release(session)

    # ── sessions ──────────────────────────────────────────────────────────────────────────────────

    def _surely(self, work: Callable[[], T]) -> T:
        """Do something between programs; again in a new worker if the worker is lost meanwhile."""
        from pydantic_monty import MontyError

        if self._session is None:
            self._restore(self._before)
        for _ in range(_ATTEMPTS):
            try:
                return work()
            except (MontyError, RuntimeError):
                self._restore(self._before)
        return work()

    @property
    def _current(self) -> MontySession:
        if self._session is None:
            raise RuntimeError("the session has no worker")
        return self._session

    def _restore(self, saved: _Saved | None) -> None:
        """A worker with the session of a dump; a program that ran in it is ended at its call.

        The session as it was before the program takes its place if that is not possible.
        """
        from pydantic_monty import MontyError

        reason: Exception | None = None
        for each in (*(saved,) * _ATTEMPTS, *(self._before,) * _ATTEMPTS):
            self._release(self._session)
            try:
                if self._reopened(each):
                    return
            except (MontyError, RuntimeError) as error:
                reason = error
        raise RuntimeError("the sandbox does not start: its processes end at once") from reason

    def _reopened(self, saved: _Saved | None) -> bool:
        self._session = session = self._open(limits=self._limits(), os_policy=_policy())
        if saved is None:
            session.feed_run(PRELUDE, skip_type_check=True)
        elif not saved.is_running:
            session.load_session(saved.dump)
        elif not self._end(session.load_snapshot(saved.dump, print_callback=_ignore)):
            return False
        self._names = self._bound_names()
        return True

    def _limits(self) -> Any:
        bounds = self._bounds
        return {
            "max_feed_duration_secs": bounds.seconds,
            "max_memory": bounds.memory,
            "max_recursion_depth": bounds.depth,
            "max_suspensions": _MAX_REQUESTS,
        }

    def _save(self, snapshot: FunctionSnapshot | FutureSnapshot) -> None:
        """Keep a dump of the running program, unless the session is large and has just had one."""
        now = time.monotonic()
        is_soon = now - self._dumped < _DUMP_SHARE * self._dumping
        is_large = self._saved is not None and len(self._saved.dump) > _LARGE_DUMP
        if is_large and is_soon:
            return
        self._saved = _Saved(snapshot.dump(), is_running=True)
        self._dumped = time.monotonic()
        self._dumping = self._dumped - now

    def _save_idle(self) -> None:
        self._saved = self._before = _Saved(self._current.dump())

    def _give_back(self) -> None:
        """Unbind the values of the notebook's variables: the next program reads them again."""
        names = [name for name in self._borrowed if name in self._names]
        if names:
            # The sandbox has no `del`; the name of a caught exception is unbound behind its block.
            unbind = "try:\n    raise ValueError\nexcept ValueError as {}:\n    pass\n"
            self._current.feed_run("".join(map(unbind.format, names)), skip_type_check=True)
            self._names = tuple(name for name in self._names if name not in names)
        self._save_idle()
        self._borrowed.clear()

    def _bound_names(self) -> tuple[str, ...]:
        return tuple(self._current.feed_run("list(locals())", skip_type_check=True))

    # ── running ───────────────────────────────────────────────────────────────────────────────────

    def _run(self, text: str, *, is_part: bool) -> ProgramFaults | ProgramWaits | ProgramEnded:
        from archytas_nb.sandbox.check import prepared

        text = text.encode("utf-8", "replace").decode()  # the sandbox refuses half a character
        self._surely(partial(self._begin, is_part=is_part))
        fed, found = prepared(text, tuple(self._tools), is_part=is_part)
        faults = found or self._type_faults(fed, text)
        if faults:
            return ProgramFaults(faults)
        source = Source(text, fed, self._tools)
        file = self._surely(lambda: _next_file(self._current))
        self._program = program = _Program(source, file)
        return self._advance(
            lambda: self._current.feed_start(
                source.fed, print_callback=program.print, skip_type_check=True
            )
        )

    def _begin(self, *, is_part: bool) -> None:
        if is_part:
            self._names = self._bound_names()
            return
        self._calls = 0
        self._requests = 0
        self._give_back()

    def _functions(self) -> tuple[str, ...]:
        return (*self._tools, ANSWER, GIVE_UP, SHOW)

    def _type_faults(self, fed: str, text: str) -> tuple[Fault, ...]:
        """What the type checker is certain of; it reads the program in a session of its own.

        There, the declarations are those of now, and the program is ended before its first line.
        """
        from pydantic_monty import MontyError, MontyTypingError

        from archytas_nb.sandbox.check import FORMAT, faults_of

        session = self._open(
            limits=self._limits(),
            type_check=True,
            type_check_stubs=self._stubs(),
            type_check_format=FORMAT,
        )
        checked = f"{_FIRST}()\n{fed}"
        try:
            session.feed_start(checked)
        except MontyTypingError as error:
            known = (*self._functions(), *self._names, *self._nameable())
            found = faults_of(error, checked, self._tools, known)
            lines = ["", *text.split("\n")]
            return tuple(
                Fault(each.line - 1, lines[each.line - 1].strip(), each.text) for each in found
            )
        except MontyError:
            pass  # the session in which it runs says what it is
        finally:
            self._release(session)
        return ()

    def _stubs(self) -> str:
        from archytas_nb.tools.declaration import stubs

        variables = dict.fromkeys((_FIRST, *self._names, *self._nameable()))
        known = [name for name in variables if name not in self._tools]
        return stubs(self._tools.values(), known)

    def _advance(self, step: Callable[[], SyncSnapshot]) -> ProgramWaits | ProgramEnded:
        """Drive the program until it waits for calls, or ends."""
        from pydantic_monty import MontyComplete, MontyCrashedError, MontyError

        program = self._running
        snapshot: Any = None
        self._snapshot = None
        try:
            snapshot = step()
            while not isinstance(snapshot, MontyComplete):
                after = self._answered(snapshot)
                if after is None:
                    self._snapshot = snapshot
                    return ProgramWaits(tuple(program.pending[each] for each in program.requested))
                snapshot = after
            self._show_last(snapshot)
        except _Ended:
            return self._ended_at(snapshot)
        except MontyCrashedError as error:
            self._lose(error)
        except MontyError as error:
            self._fail(error)
        return self._over()

    @property
    def _running(self) -> _Program:
        if self._program is None:
            raise RuntimeError("no program runs")
        return self._program

    def _resume(self, outcomes: Sequence[CallOutcome]) -> ProgramWaits | ProgramEnded:
        program = self._running
        snapshot: Any = self._snapshot
        if snapshot is None or len(outcomes) != len(program.requested):
            expected = count(len(program.requested), "call")
            raise ValueError(f"{count(len(outcomes), 'outcome')} for {expected}")
        calls = [program.pending.pop(each) for each in program.requested]
        for call, outcome in zip(calls, outcomes, strict=True):
            if outcome.status not in ("done", "error"):
                program.error = program.fault(call.line, outcome.text)
                program.is_interrupted = outcome.status == "interrupted"
                return self._ended_at(snapshot)
        results = dict(zip(program.requested, map(self._result, outcomes), strict=True))
        if hasattr(snapshot, "pending_call_ids"):
            return self._advance(lambda: _resumed(snapshot, results))
        return self._advance(lambda: _resumed(snapshot, results[program.requested[0]]))

    def _stopped(self) -> ProgramEnded:
        self._running.is_interrupted = True
        if self._snapshot is None:
            return self._over()
        return self._ended_at(self._snapshot)

    def _closed(self) -> State:
        self._surely(self._give_back)
        self._release(self._session)
        self._session = None
        if self._before is None:
            raise RuntimeError("the session was not kept")
        return State(self._before.dump, self._handles)

    # ── what a program asks for ───────────────────────────────────────────────────────────────────

    def _answered(self, snapshot: Any) -> SyncSnapshot | None:
        """Answer a request of the program and return its next one; None if the loop answers it."""
        program = self._running
        if self._is_stopped:
            raise _Ended
        self._requests += 1
        if self._requests > self._bounds.calls * _REQUESTS_PER_CALL:
            self._end_at_bound(snapshot, f"{self._requests - 1:,} requests")
        if hasattr(snapshot, "pending_call_ids"):
            waiting = set(snapshot.pending_call_ids)
            program.requested = tuple(each for each in program.pending if each in waiting)
            self._save(snapshot)
            return None
        if hasattr(snapshot, "variable_name"):
            return self._look_up(snapshot)
        if snapshot.is_os_function:
            after: SyncSnapshot = snapshot.resume_not_handled()
            return after
        if snapshot.object_id is not None:
            return _resumed(snapshot, _NO_METHODS)
        return self._called(snapshot)

    def _look_up(self, snapshot: NameLookupSnapshot) -> SyncSnapshot:
        """A function of the run, or a variable of the notebook; all else is undefined."""
        from pydantic_monty import MontyCrashedError, MontyError

        from archytas_nb.sandbox.values import to_sandbox

        name = snapshot.variable_name
        if snapshot.object_id is not None:
            return snapshot.resume()
        if name in self._functions():
            return snapshot.resume(value=_function_named(name))
        if not self._is_nameable(name):
            return snapshot.resume()
        self._borrowed.add(name)
        value = to_sandbox(self._namespace[name], self._handles)
        try:
            return snapshot.resume(value=value)
        except MontyCrashedError:
            raise
        except MontyError as error:
            # If nothing was sent, such as half a character, the request is still open.
            try:
                return snapshot.resume()
            except RuntimeError:
                raise error from None

    def _is_nameable(self, name: str) -> bool:
        """Whether a program may name a variable of the notebook."""
        if not self._names_variables or name not in self._namespace:
            return False
        if is_hidden(name) or is_secret(name):
            return False
        value = self._namespace[name]
        return not why_not_passed(name, value) and not is_code(value)

    def _nameable(self) -> list[str]:
        return [name for name in user_names(self._namespace) if self._is_nameable(name)]

    def _called(self, snapshot: FunctionSnapshot) -> SyncSnapshot | None:
        from archytas_nb.sandbox.values import from_sandbox

        name = str(snapshot.function_name)
        if name == CHECKPOINT:
            self._save(snapshot)
            return snapshot.resume(_NOTHING)
        self._running.line = self._line_of(snapshot)
        args = [from_sandbox(each, self._handles) for each in snapshot.args]
        given = {key: from_sandbox(each, self._handles) for key, each in snapshot.kwargs.items()}
        try:
            if name == SHOW:
                return self._show(snapshot, [*args, *given.values()])
            if name in (ANSWER, GIVE_UP):
                self._give(name, snapshot, [*args, *given.values()])
                raise _Ended
            if name in self._tools:
                return self._call(snapshot, self._tools[name], args, given)
        except TypeError as error:
            return snapshot.resume(_raised("TypeError", str(error)))
        known = (*self._functions(), *self._names)
        guess = did_you_mean(name, known)
        return snapshot.resume(_raised("NameError", f"name {name!r} is not defined{guess}"))

    def _show(self, snapshot: FunctionSnapshot, values: Sequence[Any]) -> SyncSnapshot:
        from archytas_nb.sandbox.values import short

        for each in values:
            self._running.show(short(each))
        return snapshot.resume(_NOTHING)

    def _give(self, name: str, snapshot: FunctionSnapshot, values: Sequence[Any]) -> None:
        """Keep what a program gives to ``answer`` or ``give_up``; TypeError if it cannot be."""
        from archytas_nb.sandbox.values import as_input

        program = self._running
        if len(values) != 1 and not (name == GIVE_UP and not values):
            raise TypeError(f"{name}() takes one value, but {len(values)} were given")
        if name == GIVE_UP:
            program.gave_up = str(values[0]) if values else ""
        else:
            program.answer = as_input(values[0], self._handles)
            program.has_answer = True
        self._save(snapshot)

    def _call(
        self, snapshot: FunctionSnapshot, tool: Tool, args: Sequence[Any], given: Mapping[str, Any]
    ) -> SyncSnapshot | None:
        """Have the loop make a call; it is answered later if the program awaits it."""
        from archytas_nb.sandbox.values import tool_input

        program = self._running
        _check_names(tool, args, given)
        call = ProgramCall(tool.name, tool_input(tool, args, given, self._handles), program.line)
        self._publish()
        self._calls += 1
        if self._calls > self._bounds.calls:
            self._end_at_bound(snapshot, count(self._bounds.calls, "call"))
        program.pending[snapshot.call_id] = call
        place = snapshot.position
        if place.filename == program.file and program.source.is_awaited(place.start, place.end):
            return snapshot.resume({"future": ...})
        program.requested = (snapshot.call_id,)
        self._save(snapshot)
        return None

    def _publish(self) -> None:
        """Keep objects without a name as variables, so that a call by name finds them."""
        if isinstance(self._namespace, MutableMapping):
            for name, value in self._handles.kept.items():
                self._namespace.setdefault(name, value)

    def _result(self, outcome: CallOutcome) -> Any:
        """An outcome as the sandbox takes it."""
        from archytas_nb.sandbox.values import to_sandbox

        if outcome.status == "done":
            return {"return_value": to_sandbox(outcome.value, self._handles)}
        error = outcome.error
        name = type(error).__name__
        if error is None or type(error) is not getattr(builtins, name, None):
            name = ""
        text = _message(outcome)
        if name in _exception_names():
            return _raised(name, text)
        if error is not None and not isinstance(error, ToolError):
            text = f"{type(error).__name__}: {text}"
        return _raised("RuntimeError", text)

    def _line_of(self, snapshot: FunctionSnapshot) -> int:
        place = snapshot.position
        if place.filename != self._running.file:  # of a function that an earlier program defined
            return self._running.line
        return self._running.source.line_at(place.start)

    # ── how a program ends ────────────────────────────────────────────────────────────────────────

    def _end_at_bound(self, snapshot: Any, what: str) -> None:
        program = self._running
        line = program.line
        if hasattr(snapshot, "function_name"):
            line = self._line_of(snapshot)
        text = f"the program was ended after {what}, the limit of one program: {_SMALLER}"
        program.error = program.fault(line, text)
        raise _Ended

    def _ended_at(self, snapshot: Any) -> ProgramEnded:
        """End the program at its call, whatever it catches."""
        from pydantic_monty import MontyError

        try:
            if not self._end(snapshot):
                self._restore(self._before)
        except MontyError:
            self._restore(self._saved)
        return self._over()

    def _end(self, snapshot: Any) -> bool:
        """Raise the end of the program in it until it has ended; False if it does not."""
        from pydantic_monty import MontyComplete, MontyRuntimeError

        for _ in range(_ENDINGS):
            try:
                snapshot = _ends_at(snapshot)()
            except MontyRuntimeError as error:
                return not _bound_of(error)
            if isinstance(snapshot, MontyComplete):
                return True
        return False

    def _show_last(self, complete: Any) -> None:
        """Show the value of the last expression, if there is one."""
        from archytas_nb.sandbox.values import from_sandbox, short

        try:
            value = complete.output
        except Exception as error:  # noqa: BLE001 - nested too deeply, or a value that Python lacks
            self._running.show(f"<a value that cannot be shown: {shorten(str(error), 100)}>")
            return
        if value is not None:
            self._running.show(short(from_sandbox(value, self._handles)))

    def _fail(self, error: MontyError) -> None:
        """The program raised, reached a bound, or was ended."""
        program = self._running
        bound = _bound_of(error)
        if bound:
            self._restore(self._saved)
        if program.has_answer or program.gave_up is not None or program.error is not None:
            return
        if program.is_interrupted:
            return
        frames = [
            each for each in getattr(error, "traceback", list)() if each.filename == program.file
        ]
        line = frames[-1].line if frames else program.line
        text = error.display("type-msg")  # type: ignore[attr-defined]
        if bound:
            text = _BOUND_TEXTS[bound].format(self._bounds)
        program.error = program.fault(line, clip(text, _MAX_MESSAGE))

    def _lose(self, error: Any) -> None:
        """The worker's process ended."""
        program = self._running
        if error.timed_out:
            text = _BOUND_TEXTS["time"].format(self._bounds)
            program.error = program.error or program.fault(program.line, text)
        else:
            program.lost = f"the process of the sandbox was lost ({error}); {_AS_AT_LAST_CALL}"
        self._restore(self._saved)

    def _over(self) -> ProgramEnded:
        """Describe how the program ended, and keep the session."""
        from pydantic_monty import MontyError

        program = self._running
        program.flush()
        try:
            self._keep()
        except (MontyError, RuntimeError) as error:
            why = f"the process of the sandbox was lost ({error}); {_AS_AT_LAST_CALL}"
            if isinstance(error, MontyError) and _bound_of(error):
                why = _TOO_LARGE.format(self._bounds)
            program.lost = program.lost or why
            self._restore(self._saved)
            self._surely(self._keep)
        self._borrowed -= set(program.source.assigned)
        assigned = self._assigned()
        self._program = None
        self._snapshot = None
        return ProgramEnded(
            shown=tuple(program.shown),
            answer=program.answer,
            has_answer=program.has_answer,
            gave_up=program.gave_up,
            error=program.error,
            assigned=assigned,
            interrupted=program.is_interrupted,
            lost=program.lost,
        )

    def _keep(self) -> None:
        self._names = self._bound_names()
        self._save_idle()

    def _assigned(self) -> dict[str, str]:
        """The variables that the program assigned, with short texts of their values."""
        bound = set(self._names)
        names = [
            each
            for each in self._running.source.assigned
            if each in bound and not each.startswith("_")
        ]
        return {name: self._short_of(name) for name in names[:_MAX_ASSIGNED]}

    def _short_of(self, name: str) -> str:
        """A short text of a variable's value."""
        from pydantic_monty import MontyError

        from archytas_nb.sandbox.values import from_sandbox, short

        for _ in range(_ATTEMPTS):
            try:
                value = self._current.feed_run(_HEAD.format(name), skip_type_check=True)
                return short(from_sandbox(value, self._handles))
            except RecursionError:
                break
            except (MontyError, RuntimeError):  # too large to be sent, or the worker was lost
                self._restore(self._before)
            except Exception:  # noqa: BLE001 - a value that Python lacks
                break
        return "…"


# ── what is sent to the sandbox ───────────────────────────────────────────────────────────────────

_NOTHING: Any = {"return_value": None}
_ENDED: Any = {"exc_type": "SystemExit", "message": "the program has ended"}
_NO_METHODS: Any = {
    "exc_type": "TypeError",
    "message": "this object stays outside of the program, which cannot call it or its methods:"
    " give it to one of the functions",
}
_SMALLER = "write a program that does less, or show what it has and go on in the next one"
_AS_AT_LAST_CALL = "the variables are as they were at the last call"
_TOO_LARGE = (
    "the variables of the program are too large to be kept for the next one, with {0.memory:,}"
    f" bytes of memory; {_AS_AT_LAST_CALL}: keep less in variables"
)
_BOUND_TEXTS = {
    "time": "the program computed for more than {0.seconds:g} seconds, the limit of one program: "
    + _SMALLER,
    "memory": "the program's values took more than {0.memory:,} bytes, the limit of its memory: "
    + _SMALLER,
}


def _raised(name: str, message: str) -> Any:
    whole = message.encode("utf-8", "replace").decode()  # the sandbox refuses half a character
    return {"exc_type": name, "message": clip(whole, _MAX_MESSAGE)}


def _resumed(snapshot: Any, result: Any) -> SyncSnapshot:
    """Answer a request; a value that cannot be sent becomes an error in the program."""
    from pydantic_monty import MontyCrashedError, MontyError

    after: SyncSnapshot
    try:
        after = snapshot.resume(result)
    except MontyCrashedError:
        raise
    except MontyError as error:
        # If nothing was sent, the request is still open; otherwise the program has raised.
        failure = _raised("ValueError", f"the result cannot be passed to a program: {error}")
        if hasattr(snapshot, "pending_call_ids"):
            failure = dict.fromkeys(snapshot.pending_call_ids, failure)
        try:
            after = snapshot.resume(failure)
        except RuntimeError:
            raise error from None
    return after


def _ends_at(snapshot: Any) -> Callable[[], SyncSnapshot]:
    """Raises the end of the program at its request."""
    if hasattr(snapshot, "pending_call_ids"):
        return partial(snapshot.resume, dict.fromkeys(snapshot.pending_call_ids, _ENDED))
    if hasattr(snapshot, "variable_name"):
        return partial(snapshot.resume)
    return partial(snapshot.resume, _ENDED)


def _bound_of(error: MontyError) -> str:
    """The bound that a program reached, after which its session is not to be used."""
    exception = error.exception()
    if isinstance(exception, TimeoutError) and "time limit exceeded" in str(exception):
        return "time"
    if isinstance(exception, MemoryError) and "memory limit" in str(exception):
        return "memory"
    return ""


def _function_named(name: str) -> Any:
    """The sandbox knows a function of the run only by its name."""

    def function() -> None:
        """Never called."""

    function.__name__ = name
    return function


def _next_file(session: MontySession) -> str:
    """The name that the sandbox will give to the next text: it counts them."""
    snapshot: Any = session.feed_start(f"{CHECKPOINT}()", skip_type_check=True)
    number = int(snapshot.position.filename.strip("<>").rpartition("-")[2])
    snapshot.resume(_NOTHING)
    return f"<python-input-{number + 1}>"


def _check_names(tool: Tool, args: Sequence[Any], given: Mapping[str, Any]) -> None:
    """Raise the TypeError that Python raises for arguments that do not fit the parameters."""
    visible = [each for each in tool.parameters if not each.injected]
    names = [each.name for each in visible]
    for name in given:
        if name not in names:
            guess = did_you_mean(name, names)
            raise TypeError(f"{tool.name}() got an unexpected keyword argument {name!r}{guess}")
    filled = {*names[: len(args)], *given}
    missing = [each.name for each in visible if not each.optional and each.name not in filled]
    if missing:
        what = "argument" if len(missing) == 1 else "arguments"
        raise TypeError(f"{tool.name}() missing {what}: {', '.join(map(repr, missing))}")


def _message(outcome: CallOutcome) -> str:
    """What a program's error says of a call that failed."""
    error = outcome.error
    if error is None or isinstance(error, ToolError):
        return outcome.result
    only = error.args[0] if len(error.args) == 1 else None
    try:
        return only if isinstance(only, str) else str(error)
    except Exception:  # noqa: BLE001 - a user's exception
        return outcome.result


@functools.cache
def _exception_names() -> frozenset[str]:
    from pydantic_monty import ExcType

    ends = {"SystemExit", "KeyboardInterrupt", "BaseException", "StopIteration"}
    return frozenset(get_args(ExcType)) - ends


def _policy() -> Any:
    """Clocks as on this machine, and no waiting."""
    offset = datetime.now().astimezone().utcoffset()
    seconds = int(offset.total_seconds()) if offset is not None else 0
    return {"sleep": "zero", "timezone": {"offset_seconds": seconds}}


def _ignore(_: str, __: str) -> None:
    """Receive what a program prints that is being ended."""
