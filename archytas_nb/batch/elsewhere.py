"""An executor as a map uses it: attempts that begin at most once, and errors of their own kind.

The states of an attempt, and what the map does at its end:

    sent      the executor has it, and no process has begun it
    begun     a process has its claim
    ended     there is a result, or the reason why there is none
    dropped   it did not begin, and never will                 → it is sent again
    lost      it has begun, and nobody knows how it ended      → again, if it may run twice;
                                                                 else the row is unknown

A row that was lost once runs alone the next time, so that a row that ends its process ends no
other. The executor is gone where it takes no further attempts. One whose processes have broken is
replaced by another of the same kind, with the same arguments, until the map ends.
"""

from __future__ import annotations

import inspect
import pickle
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, CancelledError, Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar

from archytas_nb import extras
from archytas_nb.batch.claims import Claims
from archytas_nb.batch.parcel import Parcel, described, dumps, sends_functions
from archytas_nb.batch.store import RowResult
from archytas_nb.batch.worker import Job, Order, Report, carry_out, carry_out_here, is_here, jobs
from archytas_nb.errors import EXECUTOR_FAILURE, ExecutorError, argument_error
from archytas_nb.kernel.approval import CallingProgram
from archytas_nb.loop.events import CallOutcome, Json
from archytas_nb.tools.tool import Tool

T = TypeVar("T")
IsStopped = Callable[[], bool]
"""Whether the map no longer waits."""

_LOOK = 0.1  # seconds between two looks for a stop
_LOST = 3  # times that an attempt is lost before its row fails
_DROPPED = 8  # times that one is dropped
_PAUSE = 0.05  # seconds before a dropped one is sent again, times how often it was
_AGAIN = "Make a new one, and run the cell again"


class RowEndError(Exception):
    """A row has ended without the work that was sent.

    Attributes:
        result: The row's result.
    """

    def __init__(self, result: RowResult) -> None:
        super().__init__(result.error)
        self.result = result


def failed(why: str) -> RowEndError:
    """The end of a row that the executor failed to run; it is stored under no key."""
    return RowEndError(RowResult("failed", error=why, kind=EXECUTOR_FAILURE))


def unknown(what: str, why: str) -> RowEndError:
    """The end of a row in which something has begun that may not run twice."""
    return RowEndError(RowResult("unknown", error=_may_have_run(what, why)))


class Elsewhere:
    """An executor for the rows of a map.

    Args:
        executor: The executor.
        stopped: Whether the map is stopped.

    Attributes:
        is_here: Whether it runs rows in this process, on other threads.
        gone: Why it takes no further attempts; None while it does.

    Raises:
        ValueError: It is none.
    """

    def __init__(self, executor: Any, stopped: IsStopped) -> None:
        if not isinstance(executor, Executor):
            hint = ""
            if callable(getattr(executor, "get_executor", None)):
                hint = "; pass its .get_executor()"
            raise argument_error(
                f"executor is {executor!r}; expected an executor of concurrent.futures, such as "
                f"ProcessPoolExecutor(4) or a Dask client's get_executor(){hint}"
            )
        self.is_here = False
        self.gone: ExecutorError | None = None
        self._executor: Executor = executor
        self._given = executor
        self._stopped = stopped
        self._gate = _Gate()
        self._replacing = threading.Lock()
        self._claims: Claims | None = None

    def open(self) -> None:
        """Find out where the executor runs what it is given.

        Raises:
            ExecutorError: It runs nothing.
        """
        self.gone = None
        try:
            self._claims = Claims()
        except OSError as error:
            raise ExecutorError(
                f"an executor needs a temporary folder: {described(error)}. Make room there"
            ) from None
        token = uuid.uuid4().hex
        jobs[token] = Job(lambda: None, lambda: None)
        why = ""
        advice = "Its processes need archytas_nb, in the version of this one"
        try:
            for number in range(_DROPPED):
                try:
                    future, ended = self._submit(is_here, token)
                    self._wait(future, ended, self._stopped)
                    self.is_here = future.result(timeout=0) is True
                except ExecutorError:
                    raise
                except (Exception, CancelledError) as error:  # noqa: BLE001 - of any executor
                    why = described(error)
                    if isinstance(error, BrokenExecutor):
                        advice = "Look at its initializer, and at what its processes print"
                    _pause(_PAUSE * number, self._stopped)
                else:
                    return
        finally:
            jobs.pop(token, None)
        raise ExecutorError(
            f"the executor {_named(self._given)} does not run anything: {why}. {advice}"
        )

    def check(self, parcel: Parcel) -> None:
        """Have a process read a parcel, before anything is paid.

        Raises:
            ExecutorError: It cannot be read there.
        """
        try:
            self._run(parcel, b"", "", may_repeat=True, stopped=self._stopped)
        except RowEndError as error:
            advice = "" if sends_functions() else f", or {extras.install('executors')}"
            raise ExecutorError(f"the executor cannot run the rows: {error}{advice}") from None

    def close(self) -> None:
        """Let no further attempt begin."""
        if self._claims is not None:
            self._claims.close()
        if self._executor is not self._given:
            self._executor.shutdown(wait=False)
            self._executor = self._given

    # ── work ──────────────────────────────────────────────────────────────────────────────────────

    def run(
        self,
        parcel: Parcel,
        about: tuple[Any, ...],
        what: str,
        *,
        may_repeat: bool = True,
        stopped: IsStopped = lambda: False,
    ) -> Any:
        """Have the work of a parcel done in another process.

        Args:
            parcel: The parcel.
            about: The subject of the attempt.
            what: The action, for a message.
            may_repeat: Whether it may run twice.
            stopped: Whether the caller no longer waits, apart from a stop of the map.

        Raises:
            RowEndError: The row has ended.
            ExecutorError: The executor is gone.
            KeyboardInterrupt: The map was stopped.
        """
        try:
            content = dumps(about)
        except Exception as error:  # noqa: BLE001 - an object raises anything when it is pickled
            raise failed(
                f"the values of {what} cannot be sent to the executor's processes: "
                f"{described(error)}. Use plain data, or leave out executor="
            ) from None
        found = self._run(
            parcel,
            content,
            what,
            may_repeat=may_repeat,
            stopped=lambda: stopped() or self._stopped(),
        )
        return pickle.loads(found)  # noqa: S301 - of our own work

    def _run(
        self, parcel: Parcel, about: bytes, what: str, *, may_repeat: bool, stopped: IsStopped
    ) -> bytes:
        assert self._claims is not None  # noqa: S101 - it is open
        data = None if about else parcel.data
        lost = dropped = 0
        while True:
            token = uuid.uuid4().hex
            order = Order(token, self._claims.folder, may_repeat, parcel.digest, about)
            with self._gate.entered(alone=lost > 0, stopped=stopped):
                report, why = self._attempt(order, data, what, stopped)
            if report is None:
                # It was dropped.
                dropped += 1
                if dropped == _DROPPED:
                    raise failed(f"the executor {_named(self._given)} does not run {what}: {why}")
                _pause(_PAUSE * dropped, stopped)
            elif report.state == "lacking":
                data = parcel.data
            elif report.state == "begun":
                if not may_repeat:
                    raise unknown(what, why)
                lost += 1
                if lost == _LOST:
                    raise failed(
                        f"a process of the executor ended {lost} times while it ran {what}: {why}"
                    )
            elif report.state == "ended":
                return bytes(report.content)
            else:
                raise failed(str(report.content))

    def _attempt(
        self, order: Order, data: bytes | None, what: str, stopped: IsStopped
    ) -> tuple[Report | None, str]:
        """Its report, "begun" for an attempt that was lost; None for one that was dropped."""
        assert self._claims is not None  # noqa: S101
        why = "its process has ended"
        try:
            future, ended = self._submit(carry_out, order, data)
        except _BrokenError as error:
            return None, str(error)
        try:
            self._wait(future, ended, stopped)
        except (KeyboardInterrupt, ExecutorError) as stop:
            future.cancel()
            if order.repeatable or self._claims.take(order.token):
                raise
            raise unknown(
                what, "the map was stopped while it ran, or its executor is gone"
            ) from stop
        lost = _error_of(future)
        if lost is None:
            report: Report = future.result()
            return report, why
        why = described(lost)
        if not self._claims.take(order.token):
            return Report("begun"), why
        return None, why

    def run_here(self, work: Callable[[], T]) -> T:
        """Have a thread of the executor do something in this process.

        Raises:
            RowEndError: The executor does not run it.
            ExecutorError: The executor is gone.
            KeyboardInterrupt: The map was stopped.
        """
        why = ""
        for number in range(_DROPPED):
            ended = threading.Event()
            job = Job(work, ended.set)
            token = uuid.uuid4().hex
            jobs[token] = job
            try:
                with suppress(_BrokenError):
                    future, _ = self._submit(carry_out_here, token, ended=ended)
                    self._wait(future, ended, self._stopped)
                    why = described(_error_of(future) or RuntimeError("it was lost"))
                is_dropped = jobs.pop(token, None) is not None
                while not job.has_ended and not is_dropped:
                    # A thread of this process ends.
                    ended.wait(_LOOK)
                    if self._stopped():
                        raise KeyboardInterrupt
            finally:
                jobs.pop(token, None)
            if job.error is not None:
                raise job.error
            if job.has_ended:
                found: T = job.value
                return found
            _pause(_PAUSE * number, self._stopped)
        raise failed(f"the executor {_named(self._given)} does not run a call: {why}")

    # ── the executor ──────────────────────────────────────────────────────────────────────────────

    def _submit(
        self, work: Callable[..., Any], *args: Any, ended: threading.Event | None = None
    ) -> tuple[Future[Any], threading.Event]:
        ended = ended or threading.Event()
        if self.gone is not None:
            raise self.gone
        executor = self._executor
        self._check_client(executor)
        try:
            future = executor.submit(work, *args)
        except BrokenExecutor as error:
            self._replace(executor, error)
            raise _BrokenError(str(error)) from None
        except Exception as error:  # noqa: BLE001 - each executor has errors of its own
            raise self._lost_executor(described(error)) from None
        future.add_done_callback(lambda _: ended.set())
        return future, ended

    def _wait(self, future: Future[Any], ended: threading.Event, stopped: IsStopped) -> None:
        while not ended.wait(_LOOK):
            if stopped():
                raise KeyboardInterrupt
            if self.gone is not None:
                raise self.gone
            if not future.done():
                self._check_client(self._executor)

    def _check_client(self, executor: Executor) -> None:
        """Raise ExecutorError for a Dask client without a scheduler: its futures never end."""
        status = getattr(getattr(executor, "_client", None), "status", "running")
        if status not in ("running", "newly-created"):
            raise self._lost_executor(f"its client is {status!r}, and has no scheduler")

    def _lost_executor(self, why: str) -> ExecutorError:
        self.gone = self.gone or ExecutorError(
            f"the executor {_named(self._given)} takes no rows: {why}. {_AGAIN}"
        )
        return self.gone

    def _replace(self, broken: Executor, error: BrokenExecutor) -> None:
        """Use another executor of the same kind; ExecutorError if none can be made."""
        with self._replacing:
            if self._executor is not broken:
                return
            successor = _successor(broken)
            if successor is None:
                raise self._lost_executor(described(error)) from None
            if broken is not self._given:
                broken.shutdown(wait=False)
            self._executor = successor


class _BrokenError(BrokenExecutor):
    """The executor broke, and was replaced."""


def _successor(executor: Executor) -> Executor | None:
    """An executor with the arguments that another one keeps; None if it does not keep them."""
    given = {}
    for name, each in inspect.signature(type(executor)).parameters.items():
        kept = getattr(executor, f"_{name}", each.empty)
        if kept is not each.empty:
            given[name] = kept
    if not given:
        return None
    try:
        return type(executor)(**given)
    except Exception:  # noqa: BLE001 - what it keeps is not what it takes
        return None


def _named(executor: Executor) -> str:
    return type(executor).__name__


def _error_of(future: Future[Any]) -> BaseException | None:
    """Why there is no result; None if there is one."""
    try:
        return future.exception(timeout=0)
    except BaseException as error:  # noqa: BLE001 - it was cancelled, not by the map
        return error


def _pause(seconds: float, stopped: IsStopped) -> None:
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        if stopped():
            raise KeyboardInterrupt
        time.sleep(min(_LOOK, seconds))


class _Gate:
    """Lets attempts run side by side, or one alone."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0
        self._is_alone = False
        self._waiting = 0  # those that want to run alone

    @contextmanager
    def entered(self, *, alone: bool, stopped: IsStopped) -> Iterator[None]:
        """Wait until an attempt may run; KeyboardInterrupt if the map is stopped."""
        with self._changed:
            self._waiting += alone
            try:
                while self._must_wait(alone=alone):
                    if stopped():
                        raise KeyboardInterrupt
                    self._changed.wait(_LOOK)
                self._running += 1
                self._is_alone = alone
            finally:
                self._waiting -= alone
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._is_alone = False
                self._changed.notify_all()

    def _must_wait(self, *, alone: bool) -> bool:
        if alone:
            return self._running > 0
        return self._is_alone or self._waiting > 0


# ── the calls of a row ────────────────────────────────────────────────────────────────────────────


class SentCalls:
    """The calls of one row, which are made in another process while the row itself is asked here.

    Args:
        elsewhere: The executor.
        parcel: The tools.
        begins: Notes in the file, before it is sent, that a call may have been made that may not be
            made twice; given the reason.
        may_repeat: Whether calls of tools that are not pure may run twice, too.

    Attributes:
        end: The end of the row, if a call decided that.
    """

    def __init__(
        self,
        elsewhere: Elsewhere,
        parcel: Parcel,
        begins: Callable[[str], object],
        *,
        may_repeat: bool,
    ) -> None:
        self.end: RowResult | None = None
        self._elsewhere = elsewhere
        self._parcel = parcel
        self._begins = begins
        self._may_repeat = may_repeat
        self._is_noted = False
        self._begun = ""  # a tool that may not run twice, and may have run

    def outcome(
        self,
        tool: Tool,
        tool_input: Json,
        caller: CallingProgram,
        seconds: float | None,
        stopped: IsStopped,
    ) -> CallOutcome:
        """Make a call; where it is not known how it ended, the row ends here.

        Args:
            tool: The tool.
            tool_input: Its arguments, which are valid and approved.
            caller: The program that makes the call.
            seconds: How long it may take at most; None for no limit.
            stopped: Whether the row was interrupted.
        """
        if self.end is not None:
            return _NOT_RUN
        may_repeat = tool.pure or self._may_repeat
        if not may_repeat and not self._is_noted:
            self._is_noted = True
            self._begins(
                _may_have_run(tool.name, "the map ended while the model was answering this row")
            )
        try:
            made: CallOutcome = self._elsewhere.run(
                self._parcel,
                (tool.name, tool_input, caller, seconds),
                tool.name,
                may_repeat=may_repeat,
                stopped=stopped,
            )
        except RowEndError as error:
            self.end = error.result
        except ExecutorError:
            self.end = RowResult("open")
        except KeyboardInterrupt:
            # It has not begun, or may run twice.
            return _NOT_RUN
        else:
            if not may_repeat:
                self._begun = tool.name
            return made
        return _NOT_RUN

    def ended(self, result: RowResult) -> RowResult:
        """The result of the row, given that of its conversation."""
        if self.end is not None:
            result = _with_costs(self.end, result)
        is_known = result.status in ("done", "unknown") or (
            result.status == "failed" and result.kind != EXECUTOR_FAILURE
        )
        if self._begun and not is_known:
            why = result.error or "the question about the row did not finish"
            end = RowResult("unknown", error=_may_have_run(self._begun, why))
            return _with_costs(end, result)
        return result


_NOT_RUN = CallOutcome("interrupted", "Not run: the row has ended.")


def _may_have_run(name: str, why: str) -> str:
    return f"{name} may have run: {why}"


def _with_costs(end: RowResult, result: RowResult) -> RowResult:
    return replace(end, usage=result.usage, seconds=result.seconds, spent=result.spent)
