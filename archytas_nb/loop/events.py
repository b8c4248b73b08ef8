"""The values of a run: what the loop asks for, the replies to it, and how the run ends.

They are frozen and compare by content; what differs from run to run (objects, seconds, tokens) does
not count. A run alternates requests and replies, with notices in between, and has one ending.
"""

from __future__ import annotations

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
    """A tool call of the model.

    Attributes:
        id: Nine letters and digits, ours and not the server's: ``"q01s02c01"`` is the first call of
            step 2 of question 1.
        name: The tool's name as the model wrote it; it may be unknown.
        input: The arguments, decoded from JSON.
    """

    id: str
    name: str
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

    Attributes:
        kind: ``"made"``, ``"rebound"`` (the name is bound to another object), ``"changed"`` (the
            object itself was changed) or ``"deleted"``.
        name: The name, and how the object is reached from it: ``config['columns'][0]``.
        words: What has changed.
        also: Other names that are bound to the same object.
    """

    kind: Literal["made", "rebound", "changed", "deleted"]
    name: str
    words: tuple[str, ...] = ()
    also: tuple[str, ...] = ()

    def __str__(self) -> str:
        also = f" (also {', '.join(self.also)})" if self.also else ""
        return f"{self.name}{also} {self.kind}: {'; '.join(self.words)}"


@dataclass(frozen=True, slots=True)
class Diff:
    """What code changed in the user's variables.

    Attributes:
        changes: In the order of the namespace; an object that several names reach is there once.
        not_watched: What may have changed unseen.
        not_kept: What cannot be put back, as it was too large to be copied.
    """

    changes: tuple[Change, ...] = ()
    not_watched: tuple[NotCovered, ...] = ()
    not_kept: tuple[NotCovered, ...] = ()

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
        decision: What a person decided on the call, ``"approved, edited limit 5 → 10"``; empty
            where nobody was asked.
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
    """A tool call as a server sent it, with JSON text that may be broken.

    ``extra`` is what the server sent beside it and may want back, such as a signature.
    """

    name: str
    arguments: str
    extra: Json = None


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

    Attributes:
        step: The number of the reply in the run, from 1; 0 for what is asked before it begins.
        messages: The whole history as messages.
        tools: Function-calling specifications; empty in the text protocol.
        schema: JSON schema that the reply's text must satisfy, where the endpoint can enforce it.
        max_tokens: Maximum number of tokens in the reply; None leaves it to the model.
        thinking_tokens: The same after a reply of reasoning alone; None for no more.
        seconds: What is left of the run's time, for this request and its retries; None for no
            limit.
        asides: What came with the calls of the history, for endpoints that want it back: by the id
            of the call, ``{"reasoning": text before it, "extra": WireCall.extra}``.
    """

    step: int
    messages: tuple[Message, ...]
    tools: tuple[Json, ...] = ()
    schema: Json = None
    max_tokens: int | None = None
    thinking_tokens: int | None = None
    seconds: float | None = field(default=None, compare=False)
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

    Attributes:
        text: The reply's text.
        calls: The calls of a function-calling reply, as sent.
        reasoning: The model's reasoning, where the server sends it apart from the text.
        finish: The server's reason for the end: ``"stop"``, ``"length"``, ``"tool_calls"``, …;
            `REFUSED` where the server rejected what was generated, which is the text.
        model: The name that the server gives itself.
    """

    text: str = ""
    calls: tuple[WireCall, ...] = ()
    reasoning: str = ""
    finish: str = "stop"
    model: str = field(default="", compare=False)
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


@dataclass(frozen=True, slots=True)
class Started:
    """A run begins; the first event, except where no model could be named.

    ``protocol`` is ``"react"`` (text) or ``"native"`` (function calling); a notice says if it
    changes. ``server`` names one that was found on this machine, such as ``"Ollama"``.
    """

    model: str
    protocol: str
    server: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that an observer should know, such as a repair, or a retry.

    ``seconds`` is how long is waited before a retry. ``"check"`` says that the model is asked once
    more before its answer counts, and why.
    """

    kind: NoticeKind
    text: str
    seconds: float = field(default=0.0, compare=False)


@dataclass(frozen=True, slots=True)
class FormArgument:
    """An argument of a call that waits for approval.

    Every text is the value as Python writes it, or text of several lines as it is; invisible
    characters are spelled out, and of a very long value the middle is left out.

    Attributes:
        name: Its name.
        text: The value that will run.
        sent: What the model sent, where that is written otherwise; empty where it is the same.
        before: The value before the person edited it; empty where it was not edited.
        is_default: Whether the model left it out.
    """

    name: str
    text: str
    sent: str = ""
    before: str = ""
    is_default: bool = False


@dataclass(frozen=True, slots=True)
class ApprovalForm:
    """A call that a person is asked to approve, as it would run now.

    Attributes:
        tool: The tool's name.
        arguments: Its arguments, defaults too.
        why: What the tool itself says about the call; may be empty.
        text: All of it as plain text, with long values shortened.
        decision: What the person decided; empty while the call waits.
        is_shown: Whether an observer draws it, so that it need not be printed.
    """

    tool: str
    arguments: tuple[FormArgument, ...]
    why: str = ""
    text: str = ""
    decision: str = ""
    is_shown: bool = False


@dataclass(frozen=True, slots=True)
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

    Attributes:
        limit: The limit and its value, ``"max_steps=20"``. Where a reply was cut off for its
            length: at how many tokens, and what to do.
        text: The model's last words, or its answer as far as it came; may be empty.
        cut: Whether it was the length of a reply.
    """

    limit: str
    text: str = ""
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
