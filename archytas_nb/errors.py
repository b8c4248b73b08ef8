"""The exceptions that archytas_nb raises.

    ArchytasError
    ├── ToolError             (also ValueError) a function that cannot be a tool, with all reasons
    ├── ConfigurationError    something must be installed, configured or corrected
    │   ├── ExecutorError     an executor cannot run the rows of a map, or no longer does
    │   └── FileError         a file cannot be read or written; its contents are as before
    └── RunError              a run that ended without an answer; ``.run`` holds what happened
        ├── ModelError        the endpoint was unreachable, refused, or sent an unusable reply
        │   └── CassetteMiss  a replay has no recorded reply to a request
        ├── ConditionError    the condition of the answer (`until`) is wrong, not the answer
        └── TaskFailed        the model gave up, with its reason

    RunInterrupted            (a KeyboardInterrupt) the user interrupted the run; see ``.run``
    ToolTimeout               (a BaseException) raised in a tool or a repr that takes too long

This module imports nothing from the package, so every other module can import it.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar, cast

E = TypeVar("E", bound=Exception)
F = TypeVar("F", bound=Callable[..., Any])
ModelErrorKind = Literal[
    "unreachable", "timeout", "auth", "not_found", "rate_limit", "server", "bad_reply", "overflow",
    "deadline", "refused", "no_tools",
]  # fmt: skip
ENDPOINT_FAILURES: frozenset[ModelErrorKind] = frozenset(
    {"unreachable", "timeout", "server", "bad_reply"}
)
"""Kinds of failures of the endpoint itself: it may answer another question."""
REFUSED_FOR_ALL: frozenset[ModelErrorKind] = frozenset({"auth", "not_found", "rate_limit"})
"""Kinds of failures that are the same for every question, so that a map stops."""
EXECUTOR_FAILURE = "executor"
"""The kind of a row that the executor of a map failed to run: the endpoint has no part in it."""


class _NoContext:
    """The context of an error whose message says what happened before: none, to who asks for it.

    IPython prints all frames of an error with an exception group in its chain.
    """

    def __get__(self, error: Any, kind: Any = None) -> None:
        return None

    def __set__(self, error: BaseException, value: BaseException | None) -> None:
        descriptor: Any = vars(BaseException)["__context__"]
        descriptor.__set__(error, value)


class UsersFrames:
    """Makes IPython show only the user's frames and the message, without frames of this package."""

    if not TYPE_CHECKING:
        __context__ = _NoContext()

    def _render_traceback_(self: Any) -> list[str]:
        return _rendered(self)


def _rendered(error: BaseException) -> list[str]:
    """The display of an error in IPython, without frames of this package in its whole chain."""
    shell = sys.modules["IPython"].get_ipython()  # IPython calls this method
    all_frames = [(each, each.__traceback__) for each in _with_causes(error)]
    cause = error.__cause__
    is_hidden = error.__suppress_context__
    try:  # only while it is shown, so that %debug still has all frames
        for each, traceback in all_frames:
            each.__traceback__ = _users(traceback)
        if has_group(cause):  # which IPython does not show; our message tells its errors
            error.__cause__ = None
        lines: list[str] = shell.InteractiveTB.structured_traceback(
            type(error), error, error.__traceback__
        )
    finally:
        for each, traceback in all_frames:
            each.__traceback__ = traceback
        error.__cause__ = cause
        error.__suppress_context__ = is_hidden
    return lines


def has_group(error: BaseException | None) -> bool:
    """Whether an error, or one in its chain, is a group: IPython prints them to stderr only."""
    return any(isinstance(each, BaseExceptionGroup) for each in _with_causes(error))


def _with_causes(error: BaseException | None) -> list[BaseException]:
    """An error and those in its chain."""
    found: list[BaseException] = []
    todo: list[BaseException | None] = [error]
    while todo:
        each = todo.pop()
        if each is not None and not any(each is other for other in found):
            found.append(each)
            todo += [each.__cause__, each.__context__]
    return found


def _users(traceback: TracebackType | None) -> TracebackType | None:
    """A copy of a traceback without the frames of this package, and of Python's between them."""
    frames: list[TracebackType] = []
    is_inside = False
    while traceback is not None:
        module = str(traceback.tb_frame.f_globals.get("__name__", "")).partition(".")[0]
        is_inside = is_inside or module == __package__
        if not (is_inside and module in (__package__, *sys.stdlib_module_names)):
            frames.append(traceback)
        traceback = traceback.tb_next
    shown: TracebackType | None = None
    for each in reversed(frames):
        shown = TracebackType(shown, each.tb_frame, each.tb_lasti, each.tb_lineno)
    return shown


def with_users_frames(error: E) -> E:
    """Make IPython show any error like `UsersFrames`."""
    if not hasattr(error, "_render_traceback_"):
        # An error may refuse attributes; a partial function can be pickled with it.
        with suppress(Exception):
            error._render_traceback_ = functools.partial(_rendered, error)  # type: ignore[attr-defined]
    return error


def argument_error(message: str) -> ValueError:
    """The error for an invalid argument; IPython shows only the user's frames."""
    return with_users_frames(ValueError(message))


def invalid_argument(name: str, value: Any, expected: str) -> ValueError:
    """The error for an argument with a wrong value; a long one is not shown."""
    shown = repr(value)
    if len(shown.splitlines()) > 1:
        shown = f"of type {type(value).__name__!r}"
    return argument_error(f"{name} is {shown}; expected {expected}")


def users_frames(function: F) -> F:
    """Make IPython show every error of a public function like `UsersFrames`."""

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            with_users_frames(error)
            raise

    return cast("F", call)


class ArchytasError(UsersFrames, Exception):
    """Base class of the exceptions that this package raises."""


class ToolError(ArchytasError, ValueError):
    """A function cannot be a tool; `faults` contains a sentence for each reason.

    Attributes:
        arguments: The faults of the arguments of a call, with their places.
    """

    arguments: Sequence[Any] = ()

    def __init__(self, message: str, faults: Sequence[str] = ()) -> None:
        self.faults: tuple[str, ...] = tuple(faults)
        lines = [message, *(f"  - {fault}" for fault in self.faults)]
        super().__init__("\n".join(lines))


class ConfigurationError(ArchytasError):
    """Nothing is broken, but something must be installed, configured or corrected first.

    Attributes:
        run: The incomplete `Run`; None outside a run.
    """

    run: Any = None


class ExecutorError(ConfigurationError):
    """An executor cannot run the rows of a map, or no longer does: what failed, and what to do.

    It is never a failure of the model's endpoint.
    """


class FileError(ConfigurationError):
    """A file cannot be read or written, or is not to be replaced; its contents are as before."""


class RunError(ArchytasError):
    """A run ended without an answer.

    Attributes:
        run: The incomplete `Run`.
    """

    run: Any = None


@dataclass(frozen=True, slots=True)
class Explained:
    """Why an endpoint gave no answer, in parts, for who reads it where magics are typed.

    Attributes:
        title: The failure, in a few words.
        where: The endpoint's host; empty if it is not known.
        said: The server's words, or a description of its reply.
        status: The HTTP status, or None.
        advice: The next move, as a sentence, which the command follows if there is one.
        command: The line to type.
    """

    title: str
    where: str = ""
    said: str = ""
    status: int | None = None
    advice: str = ""
    command: str = ""

    @property
    def short(self) -> str:
        """The title, with the status and the host."""
        status = f" (HTTP {self.status})" if self.status else ""
        where = f" at {self.where}" if self.where and self.where not in self.title else ""
        return f"{self.title}{status}{where}"

    @property
    def words(self) -> str:
        """The message, and its host if the title does not name it."""
        is_named = not self.where or self.where in self.title
        return self.said if is_named else f"{self.where}: {self.said}"


class ModelError(RunError):
    """The model's endpoint was unreachable, refused the request or sent an unusable reply.

    Args:
        message: The failure and the next move; it contains no secrets.
        kind, status, passing, wait, retries, may_be_paid, refusal, explained: The attributes.

    Attributes:
        kind: The kind of failure; ``"refused"`` means that the endpoint rejected the request,
            ``"no_tools"`` that it does not support function calling.
        status: The HTTP status, or None if there was no HTTP response.
        passing: Whether the same request may succeed later.
        wait: Seconds to wait before that, or None.
        retries: How often the same request is tried again at most; None for any number.
        may_be_paid: Whether the endpoint may charge for it, for example for an interrupted reply.
        refusal: The server's text with its error codes; it must not be shown. Empty if it said
            nothing.
        explained: The parts of the message; None if they are not known.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: ModelErrorKind = "server",
        status: int | None = None,
        passing: bool = False,
        wait: float | None = None,
        retries: int | None = None,
        may_be_paid: bool = False,
        refusal: str = "",
        explained: Explained | None = None,
    ) -> None:
        super().__init__(message)
        self.explained = explained
        self.kind: ModelErrorKind = kind
        self.status = status
        self.passing = passing
        self.wait = wait
        self.retries = retries
        self.may_be_paid = may_be_paid
        self.refusal = refusal

    def with_advice(self, advice: str) -> Self:
        """Add a sentence to the message, and return the error."""
        self.args = (f"{self} {advice}".rstrip(),)
        if self.explained is not None:
            said = f"{self.explained.said} {advice}".strip()
            self.explained = replace(self.explained, said=said)
        return self


MissCause = Literal[
    "question", "tool", "tools", "instructions", "outcome", "settings", "conversation",
    "asked_again", "empty",
]  # fmt: skip


class CassetteMiss(ModelError):
    """A replay needs a reply that the cassette does not contain.

    Attributes:
        cause: The change since the recording: the question, a tool's text or schema (``"tool"``),
            which tools are offered, the instructions, a tool's result, a setting or an earlier
            message; or, if nothing has changed, the request was made more often than it was
            recorded, or the cassette is empty.
        tool: The tool that has changed; empty if the cause is not a tool.
    """

    def __init__(self, message: str, *, cause: MissCause = "conversation", tool: str = "") -> None:
        super().__init__(message, kind="not_found")
        self.cause: MissCause = cause
        self.tool = tool


class ConditionError(RunError):
    """The condition of the answer is wrong, not the answer; ``__cause__`` is what it raised."""


class AnswerChanged(ArchytasError, AssertionError):
    """An answer no longer holds: what it was computed from has changed."""


class TaskFailed(RunError):
    """The model gave up; the message is its reason."""


class RunInterrupted(UsersFrames, KeyboardInterrupt):
    """The user interrupted the run; scripts and notebooks stop as for any other interrupt.

    Attributes:
        run: The interrupted `Run`.
    """

    run: Any = None


class ToolTimeout(BaseException):
    """A tool took too long. Not an `Exception`: a tool's ``except Exception`` must not catch it."""


STOPS = (KeyboardInterrupt, ToolTimeout)
"""Exceptions that must not be caught while a user's object is inspected."""
