"""The run in which a tool is called: a parameter with the annotation `CurrentRun`.

The model does not see such a parameter. What the run offers is a `Host`, which the driver is while
it runs calls.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from contextvars import ContextVar
from typing import Any, Protocol, TypeVar

from archytas_nb.errors import ToolError
from archytas_nb.loop.events import Finish, Message, Usage

T = TypeVar("T")


class Host(Protocol):
    """What a run offers to its tools."""

    @property
    def question(self) -> str:
        """The question."""

    @property
    def values(self) -> str:
        """What the model may learn of values."""

    @property
    def step(self) -> int:
        """The number of the step, from 1."""

    @property
    def messages(self) -> Sequence[Message]:
        """The messages of the last request."""

    def ask(self, prompt: str) -> str:
        """One reply of the model, without tools."""

    def convert(self, text: str, cls: Any) -> Any:
        """A reply as a value of a type; raises ValueError."""

    def left(self) -> tuple[float | None, int | None]:
        """The seconds and tokens that are left of the limits; None for no limit."""

    def count(self, usage: Usage) -> None:
        """Count what another run has used for this one."""


host: ContextVar[Host | None] = ContextVar("host", default=None)
"""The run whose calls are running."""


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
        self._host = of
        self._finish: Finish | None = None
        self._has_ended = False
        self._lock = threading.Lock()
        self.shown: list[Any] = []
        """What a person sees below the call, and the model does not read."""

    @property
    def question(self) -> str:
        """The question of the run."""
        return self._host.question

    @property
    def values(self) -> str:
        """What the model of the run may learn of values, such as ``"none"``."""
        return self._host.values

    @property
    def step(self) -> int:
        """The number of the step in which the tool is called, from 1."""
        return self._host.step

    @property
    def messages(self) -> tuple[Message, ...]:
        """The messages of the last request, as they were sent; changing them changes nothing."""
        return tuple({**each} for each in self._host.messages)

    def ask(self, prompt: str, type: Any = str) -> Any:  # noqa: A002 - as in `--type`
        """Ask the model of the run something, without tools and without the conversation.

        The request counts for the limits and the cost of the run, and is recorded in cassettes.

        Args:
            prompt: The text.
            type: The type of the answer. A reply that is not of it is asked for once more.

        Returns:
            The answer, of that type.

        Raises:
            ToolError: A limit of the run is reached, the answer is not of the type, or the model
                may not see values.
            ModelError: The endpoint failed.
        """
        with self._lock:
            self._check("ask")
            text = self._host.ask(prompt)
            if type is str:
                return text
            try:
                return self._host.convert(text, type)
            except ValueError as error:
                again = (
                    f"{prompt}\n\nYour last reply was {text!r}: {error}. Reply with the value only."
                )
                text = self._host.ask(again)
            try:
                return self._host.convert(text, type)
            except ValueError as error:
                raise ToolError(f"the model replied {text!r}: {error}") from None

    def left(self) -> tuple[float | None, int | None]:
        """The seconds and the tokens that are left of the limits of the run; None for no limit."""
        return self._host.left()

    def count(self, usage: Usage) -> None:
        """Count requests and tokens that were used for the run, for its limits and its cost."""
        self._host.count(usage)

    def finish(self, answer: Any) -> None:
        """End the run with this answer when the call has ended; it is checked like any other.

        Args:
            answer: The answer: a value of the type that was asked for, or text.

        Raises:
            ToolError: The run has been told to end already.
        """
        from pydantic_core import to_jsonable_python

        self._end(Finish(answer, to_jsonable_python(answer, fallback=str)))

    def fail(self, reason: str) -> None:
        """End the run when the call has ended, because the task cannot be done.

        Raises:
            ToolError: The run has been told to end already.
        """
        self._end(Finish(reason=reason))

    def _end(self, finish: Finish) -> None:
        self._check("end")
        if self._finish is not None:
            raise ToolError(f"the run was told to end already, with {self._finish.text!r}")
        self._finish = finish

    def _check(self, what: str) -> None:
        if self._has_ended:
            raise ToolError(
                f"the call that got this run has ended, and cannot {what} any more: do it before "
                "the function returns"
            )

    def end(self) -> Finish | None:
        """The call has ended; how the tool wants the run to end, if it does."""
        self._has_ended = True
        return self._finish


def current_run(tool: str) -> CurrentRun:
    """The run for a call; raises ToolError if no agent makes it."""
    found = host.get()
    if found is None:
        raise ToolError(
            f"{tool!r} needs the run of an agent that calls it; call its function with a run of "
            "your own to try it"
        )
    return CurrentRun(found)
