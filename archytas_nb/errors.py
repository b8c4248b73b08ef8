"""The exceptions that a user of archytas_nb may meet.

    ArchytasError
    ├── ToolError             (also ValueError) a function that cannot be a tool; names all faults
    ├── ConfigurationError    something must be installed, set or spelled differently
    └── RunError              a run that ended without an answer; ``.run`` holds what happened
        ├── ModelError        the endpoint could not be reached, refused or made no sense
        │   └── CassetteMiss  a replay was asked for something that was not recorded
        └── TaskFailed        the model itself gave up, with its reason

    RunInterrupted            (a KeyboardInterrupt) a person stopped the run; ``.run`` has the rest
    ToolTimeout               (a BaseException) raised in a tool or a repr that takes too long

This file imports nothing of ours: every other file may import it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from archytas_nb.run import Run

ModelErrorKind = Literal[
    "unreachable", "timeout", "auth", "not_found", "rate_limit", "server", "bad_reply", "overflow",
    "deadline", "refused", "no_tools",
]  # fmt: skip


class UsersFrames:
    """Has IPython draw the user's lines and the message, without our frames in between."""

    def _render_traceback_(self: Any) -> list[str]:
        shell = sys.modules["IPython"].get_ipython()  # IPython calls this, so it is there
        frames = []
        tb: TracebackType | None = self.__traceback__
        while tb is not None:
            if not str(tb.tb_frame.f_globals.get("__name__", "")).startswith(f"{__package__}."):
                frames.append(tb)
            tb = tb.tb_next
        shown: TracebackType | None = None
        for each in reversed(frames):  # copies: %debug still finds the whole of it
            shown = TracebackType(shown, each.tb_frame, each.tb_lasti, each.tb_lineno)
        lines: list[str] = shell.InteractiveTB.structured_traceback(type(self), self, shown)
        return lines


class ArchytasError(UsersFrames, Exception):
    """Base of everything this package raises on purpose."""


class ToolError(ArchytasError, ValueError):
    """A function cannot be made a tool; `faults` has a sentence for each reason."""

    def __init__(self, message: str, faults: Sequence[str] = ()) -> None:
        self.faults: tuple[str, ...] = tuple(faults)
        lines = [message, *(f"  - {fault}" for fault in self.faults)]
        super().__init__("\n".join(lines))


class ConfigurationError(ArchytasError):
    """Nothing is broken, but something must be installed, set or spelled differently first."""

    run: Run | None = None


class RunError(ArchytasError):
    """A run ended without an answer; `run` is the run as far as it went."""

    run: Run | None = None


class ModelError(RunError):
    """The model's endpoint could not be reached, refused the request or answered nonsense.

    Attributes:
        kind: What sort of failure it was; ``"refused"`` means that the endpoint rejected the
            request's form, ``"no_tools"`` that it takes no function-calling tools.
        status: The HTTP status, or None where no HTTP answer came.
        passing: Whether the same request may succeed later.
        wait: Seconds that the endpoint asks to wait before that, or None.
        may_be_paid: Whether the endpoint may charge for it, as where a reply was broken off.
    """

    passing = False
    wait: float | None = None
    may_be_paid = False

    def __init__(
        self, message: str, *, kind: ModelErrorKind = "server", status: int | None = None
    ) -> None:
        super().__init__(message)
        self.kind: ModelErrorKind = kind
        self.status = status


MissCause = Literal[
    "question", "tool", "tools", "instructions", "outcome", "settings", "conversation",
    "asked_again", "empty",
]  # fmt: skip


class CassetteMiss(ModelError):
    """A replay was asked for a reply that the cassette does not hold.

    Attributes:
        cause: What has changed since the recording: the question, a tool's text or schema
            (``"tool"``), which tools there are, the instructions, a tool's outcome, a setting, or
            the conversation before; or nothing has, and it was asked more often than it was
            recorded, or the cassette is empty.
        tool: The tool that the cause is about; empty where it is about none.
    """

    def __init__(self, message: str, *, cause: MissCause = "conversation", tool: str = "") -> None:
        super().__init__(message, kind="not_found")
        self.cause: MissCause = cause
        self.tool = tool


class TaskFailed(RunError):
    """The model gave up on the task; the message is the reason that it gave."""


class RunInterrupted(UsersFrames, KeyboardInterrupt):
    """A person interrupted the run; scripts and notebooks stop as for any other interrupt."""

    run: Run | None = None


class ToolTimeout(BaseException):
    """A tool took too long. Not an `Exception`: a tool's ``except Exception`` must not catch it."""
