"""The values that a person's view of a run is made of.

They are frozen, compare by content, are bounded in size whatever a tool printed, and hold no objects of the
user's. What is not the same in a second run (tokens, seconds) is kept out of equality. This file knows the
events' endings and tables, and nothing of how either is drawn.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from archytas_nb.loop.events import Ending, NoticeKind, Status, Usage
from archytas_nb.trace.table import Table

NoteKind: TypeAlias = NoticeKind | Literal["no_reply", "verdict"]
"""A notice's kind; or ``"no_reply"`` where none came, ``"verdict"`` where an answer was not accepted."""


@dataclass(frozen=True, slots=True)
class Picture:
    """An image that a tool made; `data` is base64, or XML where the media type is SVG."""

    media_type: str
    data: str


@dataclass(frozen=True, slots=True)
class Shown:
    """One thing that a tool printed or displayed: text, or a table, or a picture.

    Attributes:
        kind: Where it came from.
        text: What it says in words; empty where it is a picture.
        prose: Whether the text is Markdown, or a formula.
        table: The table, which then stands for the text.
        picture: The picture.
    """

    kind: Literal["stdout", "stderr", "display"]
    text: str = ""
    prose: bool = False
    table: Table | None = None
    picture: Picture | None = None


@dataclass(frozen=True, slots=True)
class CallView:
    """One call and what became of it.

    Attributes:
        name: The tool's name as the model wrote it.
        arguments: Name and value of each argument, the value as Python text on one line; a bare input has the
            name ``""``.
        texts: Name and value of those that are text of several lines (code, SQL, prose), as they are.
        status: None while the call runs.
        text: What the model read of the outcome, but for what `shown` has.
        shown: What the tool printed and displayed, in order.
        table: The returned value, where it is a data frame.
        edited: What a person put in place of the model's input; empty where it was left alone.
    """

    name: str
    arguments: tuple[tuple[str, str], ...] = ()
    texts: tuple[tuple[str, str], ...] = ()
    status: Status | None = None
    text: str = ""
    shown: tuple[Shown, ...] = ()
    table: Table | None = None
    edited: str = ""

    @property
    def pictures(self) -> int:
        """How many pictures it made."""
        return sum(item.picture is not None for item in self.shown)


@dataclass(frozen=True, slots=True)
class Note:
    """Something between the calls that a person should know: a retry, a repair, why no reply came."""

    kind: NoteKind
    text: str


@dataclass(frozen=True, slots=True)
class StepView:
    """One turn of the model: what it thought, what it called, what happened.

    Attributes:
        number: Counts from 1; 0 holds what happened before the model was first asked.
        thought: Why the model did what it did, in its words.
        reasoning: What a reasoning model thought on its own account.
        reply: The reply's text until calls or an ending come of it.
        rejected: Replies of which nothing could be made.
    """

    number: int
    thought: str = ""
    reasoning: str = ""
    calls: tuple[CallView, ...] = ()
    notes: tuple[Note, ...] = ()
    reply: str | None = None
    rejected: tuple[str, ...] = ()

    @property
    def failed(self) -> bool:
        """Whether something went wrong that a person should see without being asked to."""
        return (
            any(call.status == "error" for call in self.calls)
            or any(note.kind in {"no_reply", "verdict"} for note in self.notes)
            or bool(self.rejected)
        )

    @property
    def pictured(self) -> bool:
        """Whether a tool drew something, which a person wants to see, not to unfold."""
        return any(call.pictures for call in self.calls)

    @property
    def empty(self) -> bool:
        """Whether there is nothing to show but the ending that came of it."""
        return not (self.thought or self.reasoning or self.calls or self.notes or self.rejected)


@dataclass(frozen=True, slots=True)
class RunView:
    """A run as far as it went.

    Attributes:
        question: What was asked.
        model: The name that the server gave itself, or the one that was asked for.
        protocol: ``"react"``, ``"native"`` or empty.
        server: Who serves it, where that was found out.
        steps: The turns of the model, in order.
        ending: None while the run goes on, or where it was cut off.
        typed: Whether the answer is a value of a type that was asked for, and not prose.
        table: The answer, where it is a data frame.
        usage: Requests and tokens so far.
        seconds: What the model took so far; a replay gives what it took when it was recorded.
    """

    question: str
    model: str = ""
    protocol: str = ""
    steps: tuple[StepView, ...] = ()
    ending: Ending | None = None
    typed: bool = False
    table: Table | None = None
    usage: Usage = field(default=Usage(), compare=False)
    seconds: float = field(default=0.0, compare=False)
    server: str = ""
