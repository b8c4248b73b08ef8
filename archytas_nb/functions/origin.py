"""Tells who calls: the person, code of a model, or a tool in a call that was decided on.

    what runs                                       how it is known
    ──────────────────────────────────────────────  ────────────────────────────────────────────────
    the code itself, and all that it calls          a context variable
    a thread, a task or work that it started        the same variable, which goes with it
    a function of the code that is called later     its code object has a mark (`marked`)
    the body of a tool, in a call of a run          the context variable again (`as_tool`), and the
                                                    frame of `run_as_tool`
    anything else                                   the person

Of several on the stack, the one nearest to the call counts.
"""

from __future__ import annotations

import _thread
import inspect
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, Token
from functools import cache, wraps
from types import CodeType, FrameType
from typing import Any, TypeVar

T = TypeVar("T")


class Origin:
    """The origin of running code, if not the person."""

    is_open = True
    """Whether it still runs."""
    is_code = False
    """Whether it is code of a model."""

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), ()


class OfTool(Origin):
    """The body of a tool whose call was decided on.

    Attributes:
        caller: The caller of the tool; None for a model.
    """

    def __init__(self, caller: Origin | None = None) -> None:
        self.caller = caller


_TOOL = OfTool()

current: ContextVar[Origin | None] = ContextVar("archytas_nb_origin", default=None)
"""The origin of the running code; None for the person."""

followed: list[ContextVar[Any]] = []
"""Other variables that go with the work that a run hands to a pool."""

followed_into_threads: list[ContextVar[Any]] = []
"""The ones of them that go with a thread that a run starts, too."""


@contextmanager
def started_by(origin: Origin) -> Iterator[None]:
    """Give this origin to the block and to all that it starts."""
    token: Token[Origin | None] = current.set(origin)
    try:
        yield
    finally:
        current.reset(token)


@contextmanager
def as_tool() -> Iterator[None]:
    """Mark the block as the body of a tool whose call was decided on."""
    with started_by(_TOOL):
        yield


def run_as_tool(work: Callable[[], T], tool: OfTool = _TOOL) -> T:
    """Run the body of a tool whose call was decided on, whatever is on the stack."""
    token = current.set(tool)
    try:
        return work()
    finally:
        current.reset(token)


def marked(code: CodeType, origin: Origin) -> CodeType:
    """Compiled code, and the functions and classes in it, marked with where it is from."""

    def replaced(constant: Any) -> Any:
        return marked(constant, origin) if isinstance(constant, CodeType) else constant

    return code.replace(co_consts=(*map(replaced, code.co_consts), origin))


def is_mark(constant: Any) -> bool:
    """Whether a constant of a code object is a mark."""
    return isinstance(constant, Origin)


def frames_from(frame: FrameType | None) -> Iterator[FrameType]:
    """A frame, what has called it, and so on."""
    while frame is not None:
        yield frame
        frame = frame.f_back


def origin_of_call() -> Origin | None:
    """The origin of the running code; None for the person.

    A function of code that has ended belongs to the code that calls it now, if any.
    """
    ended: Origin | None = None
    running = current.get()
    frame = inspect.currentframe()
    while frame is not None:  # written out: it is done for each call, through the whole stack
        code = frame.f_code
        if code is run_as_tool.__code__:
            return ended or _local(frame, "tool")
        if code is _run_for.__code__ and running is None:  # in a context without variables
            running = _local(frame, "origin")
        mark = code.co_consts[-1] if code.co_consts else None
        if isinstance(mark, Origin):
            if mark.is_open:
                return mark
            ended = ended or mark
        frame = frame.f_back
    if ended is not None and (running is None or is_tool(running) or not running.is_open):
        return ended
    return running


def is_of_code() -> bool:
    """Whether code of a model, or what it has started, runs now."""
    started = origin_of_call()
    return started is not None and started.is_code


def is_tool(origin: Origin | None) -> bool:
    """Whether it is the body of a tool whose call was decided on."""
    return isinstance(origin, OfTool)


def _local(frame: FrameType, name: str) -> Origin:
    found: Origin = frame.f_locals[name]
    return found


# ── origins of what it starts ─────────────────────────────────────────────────────────────────────


def _run_for(origin: Origin, work: Callable[..., T], /, *args: Any, **kwargs: Any) -> T:
    """Run work of this origin in another thread or process."""
    token = current.set(origin)
    try:
        return work(*args, **kwargs)
    finally:
        current.reset(token)


def follow() -> None:
    """Make threads and processes that code of a run starts belong to the run.

    Tasks and callbacks of event loops copy the context by themselves. Modules that nobody has
    loaded are left alone: there is no pool yet that a run could hand work to.
    """
    _follow_into_threads()
    if "concurrent.futures.thread" in sys.modules:
        _follow_into_pools()
    if "concurrent.futures.process" in sys.modules:
        _follow_into_processes()
    if "asyncio" in sys.modules:
        _keep_loops_running()


@cache
def _follow_into_threads() -> None:
    for module in (_thread, threading):
        for name in ("start_new_thread", "start_new", "start_joinable_thread"):
            for each in (name, f"_{name}"):
                start = getattr(module, each, None)
                if start is not None:
                    setattr(module, each, _following(start))


@cache
def _follow_into_pools() -> None:
    from concurrent.futures import ThreadPoolExecutor

    ThreadPoolExecutor.submit = _handing_over(ThreadPoolExecutor.submit)  # type: ignore[method-assign]


@cache
def _follow_into_processes() -> None:
    from concurrent.futures import ProcessPoolExecutor

    ProcessPoolExecutor.submit = _handing_over(ProcessPoolExecutor.submit)  # type: ignore[method-assign]


@cache
def _keep_loops_running() -> None:
    """Keep a SystemExit in a callback or a task of a run from ending the event loop."""
    from asyncio import Handle

    run: Callable[[Any], None] = Handle._run  # noqa: SLF001

    @wraps(run)
    def _run(self: Any) -> None:
        try:
            run(self)
        except SystemExit as error:
            if self._context.get(current) is None:
                raise
            what = {"message": "A run does not end the kernel", "exception": error, "handle": self}
            self._loop.call_exception_handler(what)

    setattr(Handle, "_run", _run)  # noqa: B010


def is_of_loop(frame: FrameType) -> bool:
    """Whether an event loop calls a callback, in the context of what has scheduled it."""
    asyncio = sys.modules.get("asyncio")
    if asyncio is None:
        return False
    run = inspect.unwrap(asyncio.Handle._run)  # noqa: SLF001
    return frame.f_code is run.__code__


def _following(start: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the start of a thread, so that the thread has the origin of its starter."""

    @wraps(start)
    def start_thread(function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        origin = origin_of_call()
        # A timer of this package must not be raised in before its generator has begun.
        if origin is None or function is next or not callable(function):
            return start(function, *args, **kwargs)

        return start(_Work(origin, function, _values(followed_into_threads)), *args, **kwargs)

    return start_thread


def _handing_over(submit: Callable[..., Any]) -> Callable[..., Any]:
    """Wrap the submission to a pool, so that the work has the origin of its submitter."""

    @wraps(submit)
    def handed_over(self: Any, work: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        origin = origin_of_call()
        if origin is None:
            return submit(self, work, *args, **kwargs)
        token = current.set(None)  # a thread that the pool starts works for others as well
        try:
            return submit(self, _Work(origin, work, _values(followed)), *args, **kwargs)
        finally:
            current.reset(token)

    return handed_over


def _values(variables: list[ContextVar[Any]]) -> list[tuple[ContextVar[Any], Any]]:
    return [(each, each.get()) for each in variables]


class _Work:
    """Work of a run for a pool, which may be in another process."""

    def __init__(
        self,
        origin: Origin,
        work: Callable[..., Any],
        values: Sequence[tuple[ContextVar[Any], Any]] = (),
    ) -> None:
        self._origin = origin
        self._work = work
        self._values = values

    def __reduce__(self) -> tuple[Any, ...]:  # another process has values of its own
        return type(self), (self._origin, self._work)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        tokens = [(variable, variable.set(value)) for variable, value in self._values]
        try:
            return _run_for(self._origin, self._work, *args, **kwargs)
        finally:
            for variable, token in tokens:
                variable.reset(token)
