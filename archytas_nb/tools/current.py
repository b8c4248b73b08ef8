"""The run in which a tool is called: a parameter with the annotation `CurrentRun`.

The model does not see such a parameter. The run offers its parts through a `Host`, which the driver
has while it runs calls.
"""

from __future__ import annotations

import copy
import functools
import threading
import time
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from functools import partial
from numbers import Real
from typing import Any, Protocol, TypeVar

from archytas_nb.errors import CassetteMiss, ToolError
from archytas_nb.hints import hinted
from archytas_nb.loop.events import Delta, Finish, InnerRun, Message, Usage
from archytas_nb.words import truncate_line

T = TypeVar("T")

_LINES = 200  # lines of `say` that are kept of a call
_LINE = 1000  # characters of one
_PAUSE = 0.1  # seconds between two reports of progress


class Host(Protocol):
    """The interface of a run for its tools, from any thread."""

    @property
    def question(self) -> str:
        """The question."""

    @property
    def values(self) -> str:
        """How much the model may learn of values."""

    @property
    def step(self) -> int:
        """The number of the step, from 1."""

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the last request."""

    def ask(self, prompt: str) -> str:
        """One reply of the model, without tools."""

    def type_text(self, cls: Any) -> str:
        """A type in words, for the model; raises ToolError if an answer cannot be of it."""

    def convert(self, text: str, cls: Any) -> Any:
        """A reply as a value of a type; raises ValueError."""

    def show(self, delta: Delta) -> None:
        """Show something while the call runs; it is not kept."""

    def left(self) -> tuple[float | None, int | None]:
        """The seconds and tokens that are left of the limits; None for no limit."""

    def count(self, usage: Usage) -> None:
        """Count what another run has used for this one."""

    def note_miss(self, error: CassetteMiss) -> None:
        """Let the run fail with this error: a replay differs from its recording."""


host: ContextVar[Host | None] = ContextVar("host", default=None)
"""The run whose calls are running."""


@functools.cache
def follow_into_threads() -> None:
    """From now on, threads and work for executors belong to the run whose call starts them.

    Only if values of the run stay here: then a thread must not ask a model with them either. Work
    that is handed on in another way, such as by a queue to a thread that runs already, is not
    followed.
    """
    from concurrent.futures import ThreadPoolExecutor  # which most notebooks do not need

    start_thread = threading.Thread.start
    submit_work: Callable[..., Any] = ThreadPoolExecutor.submit

    @functools.wraps(start_thread)
    def start(self: threading.Thread) -> None:
        asking = _hiding()
        if asking is not None:
            self.run = partial(_run_for, asking, self.run)  # type: ignore[method-assign]
        start_thread(self)

    @functools.wraps(submit_work)
    def submit(self: ThreadPoolExecutor, work: Any, /, *args: Any, **kwargs: Any) -> Any:
        asking = _hiding()
        if asking is None:
            return submit_work(self, work, *args, **kwargs)
        token = host.set(None)  # a thread that the executor starts works for others as well
        try:
            return submit_work(self, partial(_run_for, asking, work), *args, **kwargs)
        finally:
            host.reset(token)

    threading.Thread.start = start  # type: ignore[method-assign]
    ThreadPoolExecutor.submit = submit  # type: ignore[assignment, method-assign]


def _hiding() -> Host | None:
    """The run whose calls are running, if its values stay here."""
    asking = host.get()
    if asking is None or asking.values == "all":
        return None
    return asking


def _run_for(asking: Host, work: Callable[..., T], *args: Any, **kwargs: Any) -> T:
    """Do something in another thread, as a part of a call of this run."""
    token = host.set(asking)
    try:
        return work(*args, **kwargs)
    finally:
        host.reset(token)


@hinted
class CurrentRun:
    """The run that calls a tool; a parameter with this annotation gets it.

    Its methods may be called from any thread while the call runs.

    Example:
        >>> @nb.tool
        ... def classify(text: str, run: nb.CurrentRun) -> str:
        ...     \"\"\"Say what a text is about.\"\"\"
        ...     return run.ask(f"What is this about, in one word? {text}")
    """

    def __init__(self, of: Host) -> None:
        self.host = of
        self._finish: Finish | None = None
        self._has_ended = False
        self._lock = threading.Lock()
        self._said: list[str] = []
        self._left_out = 0  # lines that were said
        self._shown_at = 0.0
        self.runs: list[InnerRun] = []
        """The runs of agents that the call has asked."""
        self.offers: list[str] = []
        """The names of the tools that the call has found for the model."""

    @property
    def question(self) -> str:
        """The question of the run."""
        return self.host.question

    @property
    def values(self) -> str:
        """The values that the model of the run may learn, such as ``"none"``."""
        return self.host.values

    @property
    def step(self) -> int:
        """The number of the step in which the tool is called, from 1."""
        return self.host.step

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the last request, as they were sent; changing them changes nothing."""
        return tuple(copy.deepcopy([*self.host.messages]))

    def say(self, text: str) -> None:
        """Tell the person something: a line in the trace, immediately. The model does not read it.

        Of many lines, the first and the last are kept.

        Raises:
            ToolError: The call has ended.
        """
        line = truncate_line(str(text), _LINE)
        with self._lock:
            self._check("say anything")
            self._said.append(line)
            if len(self._said) > _LINES:
                del self._said[_LINES // 2]
                self._left_out += 1
        self.host.show(Delta("output", f"{line}\n"))

    def progress(self, done: float, total: float | None = None) -> None:
        """Show how far the call is, next to its name, while it runs.

        Args:
            done: How much is done, such as the number of rows.
            total: How much there is to do; None if that is not known.

        Raises:
            ToolError: The call has ended, or these are not numbers.
        """
        for each in (done, 0 if total is None else total):
            if not isinstance(each, Real):
                raise ToolError(f"progress got {each!r}; expected a number")
        with self._lock:
            self._check("show progress")
            now = time.monotonic()
            if now - self._shown_at < _PAUSE and done != total:
                return
            self._shown_at = now
        text = f"{done:,}"
        if total is not None:
            text += f" of {total:,}"
        self.host.show(Delta("progress", text))

    def ask(self, prompt: str, output_type: Any = str) -> Any:
        """Ask the model of the run something, without tools and without the conversation.

        The request counts for the limits and the cost of the run, and is recorded in cassettes.

        Args:
            prompt: The text.
            output_type: The type of the answer, which the model is told. A reply that is not of it
                is asked for once more.

        Returns:
            The answer, of that type.

        Raises:
            ToolError: A limit of the run is reached, the answer is not of the type, the model may
                not see values, or the call has ended.
            ModelError: The endpoint failed.
        """
        self._check("ask")
        if output_type is str:
            return self.host.ask(prompt)
        expected = self.host.type_text(output_type)
        prompt = f"{prompt}\n\nReply with the value only, of the type: {expected}"
        text = self.host.ask(prompt)
        try:
            return self.host.convert(text, output_type)
        except ValueError as error:
            again = f"{prompt}\n\nYour last reply was {text!r}: {error}. Reply with the value only."
        text = self.host.ask(again)
        try:
            return self.host.convert(text, output_type)
        except ValueError as error:
            raise ToolError(f"the model replied {text!r}: {error}") from None

    def finish(self, answer: Any) -> None:
        """End the run with this answer when the call has ended; it is checked like any other.

        Args:
            answer: The answer: a value of the type that was asked for, or text.

        Raises:
            ToolError: The run has been told to end already, or the call has ended.
        """
        from pydantic_core import to_jsonable_python

        self._end(Finish(answer, to_jsonable_python(answer, fallback=str)))

    def fail(self, reason: str) -> None:
        """End the run when the call has ended, because the task cannot be done.

        Raises:
            ToolError: The run has been told to end already, or the call has ended.
        """
        self._end(Finish(reason=reason))

    def _end(self, finish: Finish) -> None:
        with self._lock:  # two threads may do so at the same time
            self._check("end")
            if self._finish is not None:
                raise ToolError(f"the run was told to end already, with {self._finish.text!r}")
            self._finish = finish

    def _check(self, what: str) -> None:
        if self._has_ended:
            raise ToolError(
                f"the call that got this run has ended, and can no longer {what}: do it before "
                "the function returns"
            )

    def end(self) -> Finish | None:
        """The call has ended; how the tool wants the run to end, if it does."""
        with self._lock:
            self._has_ended = True
            return self._finish

    @property
    def said(self) -> str:
        """The messages of the tool to the person."""
        lines = [*self._said]
        if self._left_out:
            lines.insert(_LINES // 2, f"… {self._left_out:,} lines left out …")
        return "\n".join(lines)


def current_run(tool: str) -> CurrentRun:
    """The run for a call; raises ToolError if no agent makes it."""
    found = host.get()
    if found is None:
        raise ToolError(
            f"{tool!r} needs the run of an agent that calls it; call its function with a run of "
            "your own to try it"
        )
    return CurrentRun(found)
