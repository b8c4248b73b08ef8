"""The limits of one program, and the message when it reaches one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from archytas_nb.words import count

if TYPE_CHECKING:
    from pydantic_monty import MontyError

Bound: TypeAlias = Literal["", "time", "memory"]
"""A limit that the sandbox itself enforces; empty for none."""

REQUESTS_PER_CALL = 10
"""How many other requests, such as `show`, a program may make for each permitted call."""

_MAX_REQUESTS = 2**31  # the sandbox's own limit; the program reaches ours first
_SMALLER = "write a program that does less, or show what it has and go on in the next one"


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one program.

    Attributes:
        calls: Calls of tools.
        seconds: Seconds of computation, without the time of its calls.
        memory: Bytes.
        depth: Depth of nested function calls.
    """

    calls: int = 1_000
    seconds: float = 5.0
    memory: int = 100_000_000
    depth: int = 200

    @property
    def limits(self) -> Any:
        """The same limits, as the sandbox takes them for a session."""
        return {
            "max_feed_duration_secs": self.seconds,
            "max_memory": self.memory,
            "max_recursion_depth": self.depth,
            "max_suspensions": _MAX_REQUESTS,
        }

    @property
    def requests(self) -> int:
        """Requests of all kinds."""
        return self.calls * REQUESTS_PER_CALL

    def text(self, bound: Bound) -> str:
        """The message for a program that has reached a limit of the sandbox."""
        if bound == "time":
            return (
                f"the program computed for more than {self.seconds:g} seconds, the limit of one "
                f"program: {_SMALLER}"
            )
        return (
            f"the program's values took more than {self.memory:,} bytes, the limit of its memory: "
            f"{_SMALLER}"
        )

    def text_of_calls(self) -> str:
        """The message for a program that makes more calls than it may."""
        return _ended_after(count(self.calls, "call"))

    def text_of_requests(self) -> str:
        """The message for a program that makes more requests than it may."""
        return _ended_after(f"{self.requests:,} requests")


@dataclass(frozen=True, slots=True)
class RowBounds(Bounds):
    """The limits of a program for one row of a map."""

    calls: int = 200
    seconds: float = 2.0

    def text(self, bound: Bound) -> str:
        """The same for a person: a limit of the sandbox."""
        if bound == "time":
            return f"it computed for more than {self.seconds:g} seconds for one row"
        return f"its values took more than {self.memory:,} bytes for one row"

    def text_of_calls(self) -> str:
        """The same for a person: too many calls."""
        return f"it was ended after {count(self.calls, 'call')} for one row"

    def text_of_requests(self) -> str:
        """The same for a person: too many requests."""
        return f"it was ended after {self.requests:,} requests for one row"


def _ended_after(what: str) -> str:
    return f"the program was ended after {what}, the limit of one program: {_SMALLER}"


def bound_of(error: MontyError) -> Bound:
    """The limit that a program reached; its session must not be used afterwards."""
    exception = error.exception()
    if isinstance(exception, TimeoutError) and "time limit exceeded" in str(exception):
        return "time"
    if isinstance(exception, MemoryError) and "memory limit" in str(exception):
        return "memory"
    return ""
