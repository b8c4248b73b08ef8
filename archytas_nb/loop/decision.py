"""The decision of a person on a call that waits for approval."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from archytas_nb.words import after_seconds, clock

DecisionKind: TypeAlias = Literal["approved", "refused", "stopped", "unanswered"]
Scope: TypeAlias = Literal["once", "run", "notebook"]

_LATER: dict[Scope, str] = {
    "once": "",
    "run": ", also later in this run",
    "notebook": ", always",
}


@dataclass(frozen=True, slots=True)
class Decision:
    """The decision of a person on a call.

    Attributes:
        kind: Their decision: to run the call (``"approved"``), not to run it (``"refused"``), or to
            end the run (``"stopped"``); ``"unanswered"`` if they gave no clear answer, or none in
            time, and the call is not run.
        scope: The scope of an approval: this call, the tool in this ``"run"``, or in the
            ``"notebook"``.
        reason: Why they refused, in their words; None if they did not say.
        seconds: How long they took; None where nobody knows.
    """

    kind: DecisionKind
    scope: Scope = "once"
    reason: str | None = None
    seconds: float | None = field(default=None, compare=False)

    def __str__(self) -> str:
        return self._text("")

    @property
    def in_words(self) -> str:
        """The decision, who has made it, and after how long: ``approved by you after 4 s``."""
        return self._text(f" by you{after_seconds(self.seconds)}")

    def _text(self, by: str) -> str:
        """The decision as text; `by` says who made it."""
        match self.kind:
            case "approved":
                return f"approved{by}{_LATER[self.scope]}"
            case "refused":
                return f"refused{by}" if self.reason is None else f"refused{by}: {self.reason}"
            case "stopped":
                return "the run was stopped"
        return f"not run: there was no yes{after_seconds(self.seconds) if by else ''}"


class UnansweredError(EOFError):
    """A person was asked, and did not answer in time.

    Attributes:
        seconds: How long they were asked.
    """

    def __init__(self, seconds: float) -> None:
        super().__init__(f"nobody answered within {clock(seconds)}")
        self.seconds = seconds
