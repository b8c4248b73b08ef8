"""The values that a run is made of: what the loop asks, what it is told, how it ends.

They are frozen and compare by content, so a run's events are a test oracle, a recording and what a
view draws. Whatever is not the same in a second run (objects, seconds, token counts) is kept out of
equality. This file knows nothing of models, kernels or views, and imports nothing of ours.

A run is an alternation of requests and replies, with notices in between, and one ending:

    Started    AskModel ─▶ ModelReply | NoReply    RunCalls ─▶ CallOutcomes    CheckAnswer ─▶
    Verdict Answered, Failed, Stopped, Interrupted
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

Json: TypeAlias = Any
"""A value that JSON can carry. (A recursive alias would make every use of it a cast.)"""

Message: TypeAlias = dict[str, Json]
"""One message in wire form: ``{"role": …, "content": …, …}``. Never changed once it is in the
history."""

Status = Literal["done", "error", "refused", "interrupted", "not_run"]
NoReplyKind = Literal["endpoint", "interrupted", "no_tools", "overflow", "deadline"]
NoticeKind = Literal["repair", "retry", "protocol", "limit", "progress", "repeat", "compaction"]
FailedBy = Literal["model", "endpoint"]


# ── values ────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call that the model asked for.

    Attributes:
        id: Ours, never the server's: ``"q01s02c01"`` is the first call of step 2 of question 1;
            past 99 of any of them nine other letters and digits.
        name: The tool's name as the model wrote it; it may be unknown.
        input: What the model gave as ``tool_input``, decoded from JSON.
    """

    id: str
    name: str
    input: Json = None


@dataclass(frozen=True, slots=True)
class Output:
    """One thing that a tool printed or displayed.

    Attributes:
        kind: ``"stdout"``, ``"stderr"`` or ``"display"``.
        data: Content by media type; text as str, images as base64 str.
    """

    kind: Literal["stdout", "stderr", "display"]
    data: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """What became of one call.

    Attributes:
        status: ``"done"``, ``"error"`` (bad input or the tool raised), ``"refused"`` (a person or a
            policy said no), ``"interrupted"``, or ``"not_run"``.
        text: What the model reads; bounded and never empty.
        value: The object that the tool returned; None unless done.
        error: The exception behind an error; None otherwise.
        call_id: The ``ToolCall.id`` that it answers; empty for a call made by hand.
        images: PNG images for models that can see, base64.
        outputs: What the tool printed and displayed while it ran, in order.
        seconds: How long it took.
    """

    status: Status
    text: str
    value: Any = field(default=None, compare=False, repr=False)
    error: BaseException | None = field(default=None, compare=False)
    call_id: str = ""
    images: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    seconds: float = field(default=0.0, compare=False)

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise ValueError(f"status is {self.status!r}; expected one of {get_args(Status)}")
        if not self.text:
            raise ValueError("an outcome's text is never empty: the model must read what happened")


@dataclass(frozen=True, slots=True)
class WireCall:
    """A tool call as a server sent it: the arguments are text, and may be broken.

    Attributes:
        name: The tool's name.
        arguments: Its input, mostly JSON.
        extra: What else came with it (a signature of what the model thought), or None. Nobody's
            business but the server's, which may want it back.
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
            *(
                a + b
                for a, b in zip(dataclasses.astuple(self), dataclasses.astuple(other), strict=True)
            )
        )


# ── requests ──────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class AskModel:
    """The loop asks for the model's next reply.

    Attributes:
        step: Which reply of the run is asked for, from 1; 0 for what is asked beforehand about the
            question.
        messages: The whole history in wire form.
        tools: Function-calling specifications; empty in the text protocol.
        schema: JSON schema that the reply's text must satisfy, where the endpoint can enforce it.
        max_tokens: Maximum number of tokens in the reply; None leaves it to the model.
        thinking_tokens: The same for a model that has used up a reply by reasoning alone; None for
            no more.
        seconds: What is left of the run's time, for this request and its retries; None for no
            bound.
        asides: What came with calls of the history and is no part of it, for endpoints that want it
            back: by the id of the call, ``{"reasoning": what the model thought before it, "extra":
                `WireCall.extra`}``.
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
    """The loop asks for these calls to be run, in this order."""

    step: int
    calls: tuple[ToolCall, ...]
    thought: str = ""


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """The loop asks whether an answer has the type, and fulfils the condition, that was given."""

    step: int
    answer: Json


# ── replies ───────────────────────────────────────────────────────────────────────────────────────


REFUSED = "tool_use_failed"
"""`ModelReply.finish` of a reply that the server itself did not accept: a call may be in it, an
answer is not."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """What the model said.

    Attributes:
        text: The reply's text.
        calls: The calls of a function-calling reply, as sent.
        reasoning: What a reasoning model thought, where the server sends it apart from the text.
        finish: The server's reason for the end: ``"stop"``, ``"length"``, ``"tool_calls"``, …;
            `REFUSED` where the server did not accept what was generated, and the text is that, or
            else the server's reason.
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
    """No reply came.

    Attributes:
        kind: ``"endpoint"`` where it failed, ``"interrupted"`` by a person, ``"no_tools"`` where it
            takes no function-calling tools, ``"overflow"`` where the request is too long for the
            model, ``"deadline"`` where the run's time is over.
        text: What was said about it; at a deadline what the model had said of its reply.
    """

    kind: NoReplyKind
    text: str = ""


@dataclass(frozen=True, slots=True)
class CallOutcomes:
    """One outcome for each call of the request, in its order."""

    outcomes: tuple[CallOutcome, ...]


@dataclass(frozen=True, slots=True)
class Verdict:
    """What became of checking an answer.

    Attributes:
        fault: Why it is not accepted, said to the model; empty where it is.
        value: The answer as the type that was asked for; kept out of equality and JSON.
    """

    fault: str = ""
    value: Any = field(default=None, compare=False, repr=False)


# ── around them ───────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Started:
    """A run begins; the first event, except where no model could be named.

    Attributes:
        model: The model's name.
        protocol: The wire form that is spoken, ``"react"`` or ``"native"``; a notice says where it
            changes.
        server: Who serves it, where nobody named it and it was found on this machine, such as
            ``"Ollama"``.
    """

    model: str
    protocol: str
    server: str = ""


@dataclass(frozen=True, slots=True)
class Notice:
    """Something that an observer should know, such as a repair, or a retry and its wait."""

    kind: NoticeKind
    text: str


@dataclass(frozen=True, slots=True)
class Delta:
    """A piece of a streamed reply, or of a running tool's output, or what a person is asked.

    It is shown live and not kept, because the reply or outcome that follows has it whole. An empty
    text of the kind ``"person"`` says that the question was answered.
    """

    kind: Literal["text", "reasoning", "output", "person"]
    text: str


# ── endings ───────────────────────────────────────────────────────────────────────────────────────


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
        limit: Which one, with its value, for a person: ``"max_steps=20"``. Where a reply was cut
            off for its
            length: that it was, at how many tokens, and the next move.
        text: What the model had to say when it was told, or its answer as far as it came; may be
            empty.
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
    """A person interrupted the run while it was asking the model or running a tool."""

    during: str


Request: TypeAlias = AskModel | RunCalls | CheckAnswer | Notice
Reply: TypeAlias = ModelReply | NoReply | CallOutcomes | Verdict | None
Ending: TypeAlias = Answered | Failed | Stopped | Interrupted
Event: TypeAlias = (
    Started | Request | ModelReply | NoReply | CallOutcomes | Verdict | Delta | Ending
)
