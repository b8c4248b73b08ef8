"""The values of a run: what the loop asks for, the replies to it, and how the run ends.

They are frozen, but for `Delta`, and compare by content; what differs from run to run (objects,
seconds, tokens) does not count. A run alternates requests and replies, with notices in between, and
has one ending.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

Json: TypeAlias = Any
"""A value that JSON can carry. (A recursive alias would make every use of it a cast.)"""

Message: TypeAlias = dict[str, Json]
"""A message as it is sent: ``{"role": …, "content": …, …}``. Never changed once it is made."""

Status = Literal["done", "error", "refused", "interrupted", "not_run"]
NoReplyKind = Literal["endpoint", "interrupted", "no_tools", "overflow", "deadline"]
NoticeKind = Literal[
    "repair", "check", "retry", "protocol", "limit", "progress", "repeat", "compaction"
]  # fmt: skip
FailedBy = Literal["model", "endpoint", "cassette", "setup"]

CHANGED = "\n\nChanged in the notebook:\n"
"""What stands before the changes in the text of an outcome."""

REFUSED = "tool_use_failed"
"""`ModelReply.finish` of a reply that the server rejected: it may hold a call, but no answer."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model."""

    id: str  # ours, not the server's: "q01s02c01" is the first call of step 2 of question 1
    name: str  # as the model wrote it; it may be unknown
    input: Json = None


@dataclass(frozen=True, slots=True)
class Output:
    """Something that a tool printed or displayed, by media type: text, or images in base64."""

    kind: Literal["stdout", "stderr", "display"]
    data: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class NotCovered:
    """An object that is not watched, not kept or not put back, and why."""

    name: str
    why: str

    def __str__(self) -> str:
        return f"{self.name} ({self.why})" if self.name else self.why


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one variable, or of one object that is reached from it.

    ``"rebound"``: the name is bound to another object; ``"changed"``: the object itself changed.
    """

    kind: Literal["made", "rebound", "changed", "deleted"]
    name: str  # and how the object is reached from it: config['columns'][0]
    words: tuple[str, ...] = ()  # what has changed
    also: tuple[str, ...] = ()  # other names that are bound to the same object

    def __str__(self) -> str:
        also = f" (also {', '.join(self.also)})" if self.also else ""
        return f"{self.name}{also} {self.kind}: {'; '.join(self.words)}"


@dataclass(frozen=True, slots=True)
class Diff:
    """What code changed in the user's variables, in the order of the namespace."""

    changes: tuple[Change, ...] = ()  # an object that several names reach is there once
    not_watched: tuple[NotCovered, ...] = ()  # what may have changed unseen
    not_kept: tuple[NotCovered, ...] = ()  # what is too large to be copied and cannot be put back

    def __bool__(self) -> bool:
        return bool(self.changes)

    def __str__(self) -> str:
        lines = [str(each) for each in self.changes] or ["nothing changed"]
        notes = (("not watched", self.not_watched), ("cannot be undone", self.not_kept))
        lines += [f"{title}: {', '.join(map(str, those))}" for title, those in notes if those]
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, _: bool) -> None:  # noqa: FBT001 - IPython's protocol
        printer.text(str(self))


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The result of one call.

    Attributes:
        status: ``"done"``, ``"error"`` (bad input or the tool raised), ``"refused"`` (a person or a
            policy said no), ``"interrupted"``, or ``"not_run"``.
        text: What the model reads; bounded and never empty.
        value: The object that the tool returned; None unless done.
        error: The exception behind an error; None otherwise.
        call_id: The `ToolCall.id` that it answers; empty for a call made by hand.
        images: PNG images for models that can see, base64.
        outputs: What the tool printed and displayed while it ran, in order.
        seconds: How long it took.
        decision: The person's decision, such as ``"approved, edited limit 5 → 10"``; empty if
            nobody was asked.
        diff: What it changed in the user's variables, where that was watched; of calls that ran at
            the same time the last one has it.
        called: The tools that its code called, in order.

    Raises:
        ValueError: The status is unknown, or the text is empty.
    """

    status: Status
    text: str
    value: Any = field(default=None, compare=False, repr=False)
    error: BaseException | None = field(default=None, compare=False)
    call_id: str = ""
    images: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    seconds: float = field(default=0.0, compare=False)
    decision: str = ""
    diff: Diff | None = None
    called: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise ValueError(f"status is {self.status!r}; expected one of {get_args(Status)}")
        if not self.text:
            raise ValueError("an outcome's text is never empty: the model must read what happened")


@dataclass(frozen=True, slots=True)
class WireCall:
    """A tool call as a server sent it."""

    name: str
    arguments: str  # JSON that may be broken
    extra: Json = None  # what came beside it and may be wanted back, such as a signature


@dataclass(frozen=True, slots=True)
class Usage:
    """What a reply or a run cost, in requests, tokens and USD; 0 where the server does not say."""

    requests: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    usd: float = 0.0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.requests + other.requests,
            self.input_tokens + other.input_tokens,
            self.cached_tokens + other.cached_tokens,
            self.output_tokens + other.output_tokens,
            self.usd + other.usd,
        )


@dataclass(frozen=True, slots=True)
class AskModel:
    """Request for the model's next reply.

    ``asides`` is what came with the calls of the history, for endpoints that want it back: by the
    id of the call, ``{"reasoning": text before it, "extra": WireCall.extra}``.
    """

    step: int  # of the run, from 1; 0 for what is asked before it begins
    messages: tuple[Message, ...]
    tools: tuple[Json, ...] = ()  # specifications for function calling
    schema: Json = None  # for the reply's text, where the endpoint can enforce it
    max_tokens: int | None = None  # of the reply; None leaves it to the model
    thinking_tokens: int | None = None  # the same after a reply of reasoning alone
    seconds: float | None = field(default=None, compare=False)  # left of the run, with retries
    asides: Mapping[str, Json] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Request to run these calls, in this order."""

    step: int
    calls: tuple[ToolCall, ...]
    thought: str = ""


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """Request to check an answer against the type or the condition that was given."""

    step: int
    answer: Json


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The model's reply.

    ``finish`` is the server's reason for the end: ``"stop"``, ``"length"``, ``"tool_calls"``, …;
    `REFUSED` where the server rejected what was generated, which is the text.
    """

    text: str = ""
    calls: tuple[WireCall, ...] = ()  # of function calling
    reasoning: str = ""  # where the server sends it apart from the text
    finish: str = "stop"
    model: str = field(default="", compare=False)  # the name that the server gives it
    usage: Usage = field(default=Usage(), compare=False)
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class NoReply:
    """No reply came; the text is the error message, or at a deadline what there was of the reply.

    The kind is ``"endpoint"`` where it failed, ``"interrupted"`` by a person, ``"no_tools"`` where
    it has no function calling, ``"overflow"`` where the request is too long for the model,
    ``"deadline"`` where the run's time is over.
    """

    kind: NoReplyKind
    text: str = ""


@dataclass(frozen=True, slots=True)
class CallOutcomes:
    """One outcome for each call of the request, in its order."""

    outcomes: tuple[CallOutcome, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why an answer is not accepted, for the model; else its value, of the type asked for."""

    fault: str = ""
    value: Any = field(default=None, compare=False, repr=False)

    @property
    def reason(self) -> str:
        """The fault as a person reads it: without the path of what is the whole answer."""
        return re.sub(r" @ \$(?:\.answer)?(?=;|$)", "", self.fault)


@dataclass(frozen=True, slots=True)
class Started:
    """A run begins; the first event, except where no model could be named."""

    model: str
    protocol: str  # "react" (text) or "native" (function calling); a notice says if it changes
    server: str = ""  # one that was found on this machine, such as "Ollama"


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that an observer should know, such as a repair, or a retry.

    ``"check"`` says that the model is asked once more before its answer counts, and why.
    """

    kind: NoticeKind
    text: str
    seconds: float = field(default=0.0, compare=False)  # the wait before a retry


@dataclass(frozen=True, slots=True)
class FormArgument:
    """An argument of a call that waits for approval.

    Every text is the value as Python writes it, or text of several lines as it is; invisible
    characters are spelled out, and of a very long value the middle is left out.
    """

    name: str
    text: str  # the value that will run
    sent: str = ""  # what the model sent, where that is written otherwise
    before: str = ""  # the value before the person edited it
    is_default: bool = False  # the model left it out


@dataclass(frozen=True, slots=True)
class ApprovalForm:
    """A call that a person is asked to approve, as it would run now."""

    tool: str
    arguments: tuple[FormArgument, ...]  # defaults too
    why: str = ""  # what the tool itself says about the call
    text: str = ""  # all of it as plain text, with long values shortened
    decision: str = ""  # what the person decided; empty while the call waits
    is_shown: bool = False  # an observer draws it, so that it need not be printed


@dataclass(slots=True)  # not frozen, which takes four times as long: a reply has thousands
class Delta:
    """A piece of a streamed reply, of a running tool's output, or of a question to the user.

    It is shown live and not kept: the reply or outcome that follows has it whole. An empty text of
    the kind ``"person"`` says that the question was answered; ``form`` is the call it is about. The
    kind ``"status"`` says what the request to the model waits for.
    """

    kind: Literal["text", "reasoning", "output", "person", "status"]
    text: str
    form: ApprovalForm | None = None


@dataclass(frozen=True, slots=True)
class Answered:
    """The model gave its final answer."""

    text: str
    thought: str = ""


@dataclass(frozen=True, slots=True)
class Failed:
    """The run ended without an answer: the model gave up, or the endpoint failed."""

    reason: str
    by: FailedBy = "model"


@dataclass(frozen=True, slots=True)
class Stopped:
    """A limit ended the run.

    ``limit`` names it with its value, ``"max_steps=20"``. Where a reply was cut off for its length
    (``cut``): at how many tokens, and what to do.
    """

    limit: str
    text: str = ""  # the model's last words, or its answer as far as it came
    cut: bool = False

    @property
    def cause(self) -> str:
        """What ended the run, as it stands in a sentence."""
        return self.limit if self.cut else f"the limit {self.limit}"


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A person interrupted the run during a request to the model or a tool call."""

    during: str


Request: TypeAlias = AskModel | RunCalls | CheckAnswer | Notice
Reply: TypeAlias = ModelReply | NoReply | CallOutcomes | Verdict | None
Ending: TypeAlias = Answered | Failed | Stopped | Interrupted
Event: TypeAlias = (
    Started | Request | ModelReply | NoReply | CallOutcomes | Verdict | Delta | Ending
)
