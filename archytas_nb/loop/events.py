"""The values of a run: the requests of the loop, the replies to them, and the run's ending.

Except for `Delta` they are frozen. They compare by content, ignoring what differs between runs
(objects, seconds, tokens). A run alternates requests and replies, with notices in between, and has
one ending.
"""

from __future__ import annotations

import json
from base64 import b64decode
from collections.abc import Callable, Generator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, fields, replace
from secrets import token_hex
from typing import Any, Literal, TypeAlias, TypeVar, get_args

from archytas_nb.choices import ActiveProtocol
from archytas_nb.effects.ledger import Effect
from archytas_nb.errors import Explained
from archytas_nb.hints import hinted
from archytas_nb.loop.decision import Decision
from archytas_nb.words import count, truncate_line, truncate_middle

T = TypeVar("T")

Json: TypeAlias = Any
"""A value that JSON can represent. (A recursive alias would require casts everywhere.)"""

Message: TypeAlias = dict[str, Json]
"""A message as it is sent: ``{"role": …, "content": …, …}``. It is never modified."""

UNSURE: Literal["unsure"] = "unsure"
"""The status of an answer whose confidence is below the wished one, so that it is left out."""

Status = Literal["done", "error", "refused", "interrupted", "not_run"]
NoReplyKind = Literal[
    "endpoint", "interrupted", "no_tools", "overflow", "deadline", "condition"
]  # fmt: skip
NoticeKind = Literal[
    "repair", "check", "retry", "protocol", "limit", "progress", "repeat", "compaction", "summary",
    "model", "told", "late", "form", "tool", "plan", "deviation",
]  # fmt: skip
ValueKind = Literal["none", "bool", "number", "text", "list", "tuple", "collection", "other"]
FailedBy = Literal["model", "endpoint", "cassette", "recording", "setup", "condition"]

ANSWER = "final_answer"
"""The action that ends a run with an answer; no tool may have this name."""

FAIL = "fail_task"
"""The action with which the model gives up; no tool may have this name."""

VAR = "$var"
"""The key of an explicit reference to a variable: ``{"$var": "df"}``."""

ROOM = 3000
"""Characters up to which a large model reads data and containers whole."""

NO_OUTPUT = "(no output)"
"""The result of a call that has returned nothing."""

_MAX_EDITED = 8000
"""Maximum number of characters of an edited input that the model reads."""

REFUSED = "tool_use_failed"
"""`ModelReply.finish` of a reply that the server rejected; it may contain a call, but no answer."""


@dataclass(frozen=True, slots=True)
class ToolCall:
    """A tool call of the model."""

    id: str  # ours, not the server's: "q01s02c01" is the first call of step 2 of question 1
    name: str  # as the model wrote it; it may be unknown
    input: Json = None


@dataclass(frozen=True, slots=True)
class Output:
    """Something that a tool printed or displayed, by media type.

    Attributes:
        kind: Where it was written.
        data: The content by media type: text, images in base64, and what else a front end draws.
        metadata: Details of a display: sizes of images, and those that a library's renderer needs.
        display_id: Names a display in its front end, where it may be updated.
        left_out: A description with the size, if it is too large to be kept; then only text is.
    """

    kind: Literal["stdout", "stderr", "display"]
    data: Mapping[str, Json]
    metadata: Mapping[str, Json] = field(default_factory=dict, compare=False)
    display_id: str = field(default="", compare=False, repr=False)
    left_out: str = ""


@dataclass(frozen=True, slots=True)
class NotCovered:
    """An object that is not watched, not copied or not restored, and why."""

    name: str
    why: str

    def __str__(self) -> str:
        if self.name:
            return f"{self.name} ({self.why})"
        return self.why


class Kept(NotCovered):
    """A change that an undo or a redo kept, because the user changed or used it since."""


@dataclass(frozen=True, slots=True)
class Change:
    """A change of one variable, or of an object that it contains.

    ``"reassigned"``: the name is bound to another object; ``"changed"``: the object itself changed.
    """

    kind: Literal["created", "reassigned", "changed", "deleted"]
    name: str  # or the path to the object: config['columns'][0]
    words: tuple[str, ...] = ()  # descriptions of what has changed
    also: tuple[str, ...] = ()  # other names that are bound to the same object
    # For a person, in place of the words, if the content of a table says more; no model reads it.
    seen: tuple[str, ...] = field(default=(), compare=False)

    def __str__(self) -> str:
        also = ""
        if self.also:
            also = f" (also {', '.join(self.also)})"
        return f"{self.name}{also} {self.kind}: {'; '.join(self.words)}"


_WITHOUT_DATA = ("module", "function", "class", "notebook")  # reasons in `NotCovered.why`


@dataclass(frozen=True, slots=True)
class Diff:
    """The changes of code to the user's variables, in the order of the namespace."""

    changes: tuple[Change, ...] = ()  # an object with several names is listed once
    not_watched: tuple[NotCovered, ...] = ()  # what may have changed without being detected
    not_kept: tuple[NotCovered, ...] = ()  # what is too large to be copied and restored

    def __bool__(self) -> bool:
        return bool(self.changes)

    def told(self, but: str = "") -> str:
        """The text for the model: the new names, then the changes.

        Args:
            but: A new variable that is not told, as the result of a call already is.
        """
        created = [
            f"{each.name} (also {', '.join(each.also)})" if each.also else each.name
            for each in self.changes
            if each.kind == "created" and each.name != but
        ]
        lines = [f"Created: {', '.join(created)}"] if created else []
        others = [str(each) for each in self.changes if each.kind != "created"]
        lines += ["Changed in the notebook:", *others] if others else []
        if self.not_kept:
            lines.append(f"cannot be undone: {', '.join(map(str, self.not_kept))}")
        return "\n".join(lines)

    @property
    def unseen(self) -> tuple[NotCovered, ...]:
        """The shown part of `not_watched`: without agents and other objects without user data."""
        return tuple(each for each in self.not_watched if each.why not in _WITHOUT_DATA)

    def __str__(self) -> str:
        lines = [str(each) for each in self.changes] or ["nothing changed"]
        notes = (("not watched", self.unseen), ("cannot be undone", self.not_kept))
        lines += [f"{title}: {', '.join(map(str, those))}" for title, those in notes if those]
        return "\n".join(lines)

    def _repr_pretty_(self, printer: Any, _: bool) -> None:  # noqa: FBT001 - IPython's protocol
        printer.text(str(self))


@dataclass(frozen=True, slots=True)
class Finish:
    """How a tool wants its run to end: with an answer, or with the reason why it failed."""

    answer: Any = field(default=None, repr=False)
    json: Json = None  # the answer as JSON; objects as texts
    reason: str | None = None

    @property
    def text(self) -> str:
        """The answer or the reason as text."""
        return str(self.json) if self.reason is None else self.reason


@dataclass(frozen=True, slots=True)
class InnerRun:
    """A run that a call has made, such as that of an agent that is a tool."""

    question: str
    model: str
    protocol: str
    events: tuple[Event, ...] = field(repr=False)


@dataclass(frozen=True, slots=True)
class InputFault:
    """A call was wrong, which was found before its tool was called.

    Attributes:
        expected: The tool's arguments, in its author's words; None if no tool has the name.
        is_quoted: Whether the text of the fault is the message of a validator of the author,
            which may quote a value.
    """

    expected: str | None = None
    is_quoted: bool = False


@dataclass(frozen=True, slots=True)
class CallOutcome:
    """The result of one call.

    It keeps its parts; the model reads all of them as `text`, and a person sees some of them.

    Attributes:
        status: ``"done"``, ``"error"`` (invalid input, or the tool raised), ``"refused"`` (by a
            person or a policy), ``"interrupted"``, or ``"not_run"``.
        result: The returned value, or why there is none, as text; limited in length, and never
            empty.
        value: The object that the tool returned; None unless done.
        error: The exception that caused an error; None otherwise.
        input_fault: The fault of the call, if the tool was not called for it.
        call_id: The `ToolCall.id` of the call; empty for a call made by hand.
        images: PNG images in base64, for models that accept images.
        outputs: Everything that the tool printed and displayed while it ran, in order.
        displays: The displays that a cell would show of the value, if it is more than text or an
            image.
        seconds: How long it took.
        decision: The person's decision about the call; None if nobody was asked.
        person_seconds: How long the person took to answer what the call asked; None where it asked
            nothing, or nobody knows.
        allowed: Why nobody was asked about a call that requires approval; empty if none does.
        edit: The person's changes of the call before they decided on it, if any.
        diff: Its changes in the user's variables, if they were watched; the last of several calls
            that ran at the same time has the diff of all.
        called: The tools that its code called, in order.
        stored: The new variable that its value was stored in; empty if there is none.
        repeats: The id of the equal call of the run whose outcome this is; empty if it was made.
        for_person: The text for a person in place of the result; empty if it is the same.
        hint: A note for the model about the result, such as the name that it is kept under.
        printed: The text of `outputs` for the model.
        drawn: How many images are in `outputs`.
        shared: The text for the model of the output of several calls that ran at the same time.
        changed: The text of `diff` for the model.
        outside: The text of `effects` for the model.
        advice: A note for the model at the end, such as not to repeat the call.
        finish: How the tool wants the run to end; None if it does not.
        said: The tool's messages to the person with `CurrentRun.say`; the model does not read them.
        runs: The runs of agents that the tool has asked, in order; the model does not read them.
        offers: The names of the tools that it has found: the model can call them from now on.
        unwrapped: How the value was made of what the function returned, if that is another object:
            ``"awaited"``, ``"listed"`` (all items of an iterator), or ``"cut"`` (the first ones).
        place: Where its code ran, if not in the kernel: in a copy that the system locks, or in one
            that is held against honest code only.
        effects: Its effects outside of the variables; for calls that ran at the same time, the last
            one has those of all.

    Raises:
        ValueError: The status is unknown, or the result is empty.
    """

    status: Status
    result: str
    value: Any = field(default=None, compare=False, repr=False)
    error: BaseException | None = field(default=None, compare=False)
    input_fault: InputFault | None = field(default=None, compare=False, repr=False)
    call_id: str = ""
    images: tuple[str, ...] = ()
    outputs: tuple[Output, ...] = ()
    displays: tuple[Output, ...] = field(default=(), compare=False, repr=False)
    seconds: float = field(default=0.0, compare=False)
    decision: Decision | None = None
    person_seconds: float | None = field(default=None, compare=False)
    allowed: str = ""
    edit: Edit | None = None
    diff: Diff | None = None
    called: tuple[str, ...] = ()
    stored: str = ""
    repeats: str = ""
    for_person: str = ""
    hint: str = ""
    printed: str = ""
    drawn: int = 0
    shared: str = ""
    changed: str = ""
    outside: str = ""
    advice: str = ""
    finish: Finish | None = field(default=None, compare=False, repr=False)
    said: str = ""
    runs: tuple[InnerRun, ...] = field(default=(), compare=False, repr=False)
    offers: tuple[str, ...] = ()
    unwrapped: Literal["", "awaited", "listed", "cut"] = ""
    place: Literal["", "copy", "guarded copy"] = ""
    effects: tuple[Effect, ...] = field(default=(), compare=False)

    def __post_init__(self) -> None:
        if self.status not in get_args(Status):
            raise ValueError(f"status is {self.status!r}; expected one of {get_args(Status)}")
        if not self.result:
            raise ValueError(
                "an outcome's result is never empty: the model must read what happened"
            )

    @property
    def text(self) -> str:
        """The text for the model, if it gets the images as well."""
        return self.written()

    def written(self, *, with_images: bool = True) -> str:
        """The text for the model: output first, because it came before the result.

        Args:
            with_images: Whether the images are sent with the text.
        """
        head = ""
        if self.edit is not None:
            given = truncate_middle(json.dumps(self.edit.input, ensure_ascii=False), _MAX_EDITED)
            changed = "The user changed the input before the call was run."
            head = f"{changed} It was run with: {given}\n"
        shown = self._figures(with_images=with_images)
        result = self.result + self.hint
        is_seen = bool(self.printed or shown or self.shared or self.changed or self.outside)
        if self.status == "done" and self.result == NO_OUTPUT and is_seen:
            result = self.hint.lstrip("\n")
        elif self.status == "done" and self.printed:
            result = f"Returned:\n{result}" if "\n" in result else f"Returned: {result}"
        parts = [self.printed.rstrip("\n"), result, shown, self.shared, self.changed, self.outside]
        text = head + "\n\n".join(filter(None, parts))
        return f"{text}\n{self.advice}" if self.advice else text

    def _figures(self, *, with_images: bool) -> str:
        """A line about drawn images: that the user sees them, and whether the model does."""
        sent = len(self.images) if with_images else 0
        left = max(len(self.images), self.drawn) - sent
        parts = []
        if sent:
            sizes = dict.fromkeys(map(_pixels, self.images))
            size = f" ({', '.join(sizes)})" if all(sizes) else ""
            was = "was" if sent == 1 else "were"
            parts.append(f"{count(sent, 'image')}{size} {was} shown to the user, attached.")
        if left:
            more = "more " if sent else ""
            noun = count(left, f"{more}image")
            was = "was" if left == 1 else "were"
            parts.append(f"{noun} {was} shown to the user, but not sent to you.")
        return "\n".join(parts)

    def with_text(self, text: str, for_person: str = "") -> CallOutcome:
        """A copy of which the model reads this text, and a person another one."""
        return replace(
            self,
            result=text,
            for_person=for_person,
            edit=None,
            hint="",
            printed="",
            drawn=0,
            shared="",
            changed="",
            outside="",
            advice="",
        )


def png_size(png: bytes) -> tuple[int, int] | None:
    """Width and height of a PNG in pixels; None if it has no head that says so."""
    if png[12:16] != b"IHDR" or len(png) < 24:
        return None
    return int.from_bytes(png[16:20]), int.from_bytes(png[20:24])


def _pixels(encoded: str) -> str:
    """The size of a PNG in base64; empty if it is unknown."""
    size = None
    with suppress(ValueError):
        size = png_size(b64decode(encoded[:32]))
    return "" if size is None else f"{size[0]} × {size[1]}"


def is_image(output: Output) -> bool:
    """Whether an output is a picture."""
    return output.kind == "display" and any(kind.startswith("image/") for kind in output.data)


@dataclass(frozen=True, slots=True)
class WireCall:
    """A tool call as a server sent it."""

    name: str
    arguments: str  # JSON, possibly invalid
    extra: Json = None  # its fields that are not ours, in their places, to be sent back


@dataclass(frozen=True, slots=True)
class Token:
    """A token of a reply, with how probable it and others were in its place.

    Attributes:
        text: The token.
        alternatives: Texts with their probabilities, from 0 to 1, also its own; empty if the
            endpoint tells none.
    """

    text: str
    alternatives: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """Requests, tokens and USD of a reply or a run; 0 if the server does not report them."""

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

    def __sub__(self, other: Usage) -> Usage:
        return Usage(
            self.requests - other.requests,
            self.input_tokens - other.input_tokens,
            self.cached_tokens - other.cached_tokens,
            self.output_tokens - other.output_tokens,
            self.usd - other.usd,
        )

    @property
    def tokens(self) -> int:
        """Input and output tokens."""
        return self.input_tokens + self.output_tokens


@dataclass(frozen=True, slots=True)
class AskModel:
    """Request for the model's next reply.

    ``asides`` are the fields of earlier replies that are not ours, and that the endpoint gets back:
    by the index of the message, in the places where the message has them.
    """

    step: int  # of the run, from 1; 0 for requests before the first step
    messages: tuple[Message, ...]
    tools: tuple[Json, ...] = ()  # specifications for function calling
    schema: Json = None  # for the reply's text, if the endpoint can enforce it
    grammar: str = ""  # the same as a grammar in GBNF; it replaces the schema where there are any
    stop: tuple[str, ...] = ()  # texts before which the reply ends, at most 4
    is_continued: bool = False  # the last message begins the reply, which contains only the rest
    temperature: float | None = None  # of the embedded model; None for its default
    max_tokens: int | None = None  # of the reply; None for the model's default
    thinking_tokens: int | None = None  # the same after a reply that contained only reasoning
    seconds: float | None = field(default=None, compare=False)  # time left, including retries
    provider_metadata: Mapping[int, Json] = field(default_factory=dict, compare=False, repr=False)
    about: str = field(default="", compare=False)  # what else than the next step it is for
    # how many alternatives of each token the endpoint should return, if it returns any
    alternatives: int = 0
    # Whether the run can go on with the text protocol, if the endpoint refuses the tools.
    has_text_form: bool = field(default=False, compare=False, repr=False)

    @property
    def is_side_request(self) -> bool:
        """Whether it is apart from the conversation, so that its reply is not a step of the run."""
        return not self.step or bool(self.about)


@dataclass(frozen=True, slots=True)
class RunCalls:
    """Request to run these calls, in this order."""

    step: int
    calls: tuple[ToolCall, ...]
    thought: str = ""
    program: str = ""  # that makes them
    lines: tuple[int, ...] = ()  # of the program, one for each call; 0 if it is not known
    objects: Mapping[str, Mapping[str, Any]] = field(
        default_factory=dict, compare=False, repr=False
    )  # that a program gave, by the ids of the calls and the names of the arguments


@dataclass(frozen=True, slots=True)
class RunProgram:
    """Request to run a program, until it ends or waits for calls.

    With ``is_part``, it continues what was run before in this step: a line, or a block. ``yours``
    are variables of the notebook whose names it gives to variables of its own. With ``may_lack``,
    its answer counts although a part of it is missing.
    """

    step: int
    text: str
    thought: str = ""
    is_part: bool = False
    yours: tuple[str, ...] = field(default=(), compare=False, repr=False)
    may_lack: bool = False


@dataclass(frozen=True, slots=True)
class ResumeProgram:
    """Request to continue a program with the outcomes of the calls that it waits for."""

    step: int
    outcomes: tuple[CallOutcome, ...]


@dataclass(frozen=True, slots=True)
class CheckAnswer:
    """Request to check an answer against the required type or condition.

    ``given`` contains the value itself if a program gave it.
    """

    step: int
    answer: Json
    given: tuple[Any, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ApprovePlan:
    """Request to have a person approve a plan before anything of it is run.

    Attributes:
        text: The plan, with a step on each line; see `archytas_nb.loop.plan_first`.
        tools: The tools that its steps may call.
    """

    text: str
    tools: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class PlanDecision:
    """The decision on a plan.

    Attributes:
        text: The plan as it was approved, perhaps edited; empty if it was not.
        reason: Why it was not; empty if the run is to end.
        is_asked: Whether a person has seen it.
    """

    text: str = ""
    reason: str = ""
    is_asked: bool = True

    @property
    def is_approved(self) -> bool:
        """Whether the run goes on with the plan."""
        return bool(self.text)


@dataclass(frozen=True, slots=True)
class ModelReply:
    """The model's reply.

    ``finish`` is the server's finish reason: ``"stop"``, ``"length"``, ``"tool_calls"``, …; or
    `REFUSED` if the server rejected what the model generated, which is then the text.
    """

    text: str = ""
    calls: tuple[WireCall, ...] = ()  # of function calling
    reasoning: str = ""  # if the server sends it separately from the text
    finish: str = "stop"
    model: str = field(default="", compare=False)  # the model's name according to the server
    usage: Usage = field(default=Usage(), compare=False)
    seconds: float = field(default=0.0, compare=False)
    kept: Mapping[str, Json] = field(default_factory=dict)  # fields that are not ours, to send back
    api: str = field(default="", compare=False)  # its name, if it is not the provider's usual one
    tokens: tuple[Token, ...] = field(default=(), compare=False, repr=False)  # if it tells them


@dataclass(frozen=True, slots=True)
class NoReply:
    """There is no reply; the text is the error message, or what was written of the reply.

    The kind is ``"endpoint"`` if it failed, ``"interrupted"`` by a person, ``"no_tools"`` if it
    does not support function calling, ``"overflow"`` if the request is too long for the model,
    ``"deadline"`` if the run's time is over, and ``"condition"`` if an answer could not be checked.
    """

    kind: NoReplyKind
    text: str = ""
    explained: Explained | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class CallOutcomes:
    """One outcome for each call of the request, in the same order."""

    outcomes: tuple[CallOutcome, ...]


@dataclass(frozen=True, slots=True)
class Fault:
    """The fault in a line of a program, for the model, with the next move.

    Attributes:
        line: The number of the line, from 1.
        source: The line itself.
        text: The fault, in words.
        raised: The class of the builtin exception that the line raised; None if it raised none.
    """

    line: int
    source: str
    text: str
    raised: str | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ProgramFaults:
    """The program has faults; nothing of it was run."""

    faults: tuple[Fault, ...]


@dataclass(frozen=True, slots=True)
class ProgramCall:
    """A call of a tool that a program makes.

    Attributes:
        name: The tool.
        input: Its arguments by name, as JSON.
        line: The line of the program; 0 if it is not known.
        objects: The arguments that JSON does not represent, by name: the values themselves.
        values: All arguments as the program has them, by name.
    """

    name: str
    input: Json
    line: int = 0
    objects: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)
    values: Mapping[str, Any] = field(default_factory=dict, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class ProgramWaits:
    """The program waits for calls; for several only if it awaits them together."""

    calls: tuple[ProgramCall, ...]


@dataclass(frozen=True, slots=True)
class Shown:
    """A value of a program as it is shown: a short text, and what the value is.

    A value that cannot be read is ``"other"``, as one of any other type.
    """

    text: str
    kind: ValueKind = "other"


@dataclass(frozen=True, slots=True)
class ProgramEnded:
    """The program has ended.

    Attributes:
        shown: The values that it printed and showed, and that of its last expression, as short
            texts.
        answer: The value that it gave to ``answer``, as JSON; objects as texts. Without
            `has_answer`: one that was refused, since a part of it is missing.
        given: The same as it is; empty if there is none.
        has_answer: Whether it called ``answer``.
        gave_up: The reason that it gave to ``give_up``; None if it did not call it.
        error: The line that raised, and what; None if it finished.
        stopped: Whether the error is why it was stopped there, not what it raised.
        assigned: The variables that it assigned, in order, with their values as they are shown.
        interrupted: Whether it was stopped from outside.
        lost: Why the sandbox was lost, such as its memory; empty if it was not.
        ran: The statements that ran, as they ran; None where they are not told apart.
        cures: The changes of its statements so that they run, in words.
        hints: Facts that were looked up about the error.
        sound: The statements that ran before the one that made the value with which the error
            came; None if that is not known.
        figures: The pictures that it drew, as PNG in base64.
        doubts: Why its answer may not be what was asked for, in words for the person.
        computed: The values of the variables that it assigned, as far as they are short data.
        fields: The names that a function gives to the parts of a result, by the code of the call
            whose result the program unpacked.
    """

    shown: tuple[str, ...] = ()
    answer: Json = None
    has_answer: bool = False
    gave_up: str | None = None
    error: Fault | None = None
    stopped: bool = False
    assigned: Mapping[str, Shown] = field(default_factory=dict)
    interrupted: bool = False
    lost: str = ""
    given: tuple[Any, ...] = field(default=(), compare=False, repr=False)
    ran: str | None = None
    cures: tuple[str, ...] = ()
    hints: tuple[str, ...] = ()
    sound: str | None = None
    figures: tuple[str, ...] = ()
    doubts: tuple[str, ...] = ()
    computed: Mapping[str, Json] = field(default_factory=dict, compare=False, repr=False)
    fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict, compare=False)

    @property
    def assigned_texts(self) -> dict[str, str]:
        """The variables that it assigned, with short texts of their values."""
        return {name: each.text for name, each in self.assigned.items()}

    def as_run(self, program: str) -> str:
        """A program as it ran, with its cures, up to the statement that failed."""
        if self.ran is None:
            return program
        failed = "" if self.error is None else self.error.source
        return "\n".join(filter(None, [self.ran, failed]))


@dataclass(frozen=True, slots=True)
class Verdict:
    """Why an answer is not accepted, for the model; otherwise its value, of the required type.

    `wrong_type` tells whether the answer cannot be converted to the type; otherwise it is the
    condition that is not met. `for_person` is the fault in words for a person; empty if they are
    the same. `is_bare` tells whether the fault holds nothing of a value or of the user's condition.
    """

    fault: str = ""
    value: Any = field(default=None, compare=False, repr=False)
    wrong_type: bool = False
    for_person: str = ""
    is_bare: bool = False

    @property
    def reason(self) -> str:
        """The fault for a person."""
        return self.for_person or self.fault


@dataclass(frozen=True, slots=True)
class Started:
    """The run has started; the first event, unless no model could be chosen."""

    model: str
    protocol: ActiveProtocol  # at first; a notice says if it changes
    server: str = ""  # if it was discovered on this machine, such as "Ollama"
    told: tuple[str, ...] = ()  # further text for the model with the question, such as an error


@dataclass(frozen=True, slots=True)
class Notice:
    """Information for observers, such as a repair or a retry.

    ``"check"`` means that the model is asked again before its answer is accepted, and why;
    ``"model"`` is about the choice of the model, such as a server that was not used; ``"told"`` is
    what the person told the agent before the next request, and ``"late"`` what came after the last;
    ``"summary"`` is what the model wrote of the parts of the conversation that are left out;
    ``"form"`` says what an endpoint refused, and what was left out or changed for that; ``"tool"``
    what the file of a tool says otherwise than the tool; ``"plan"`` is the plan that was approved,
    or a step of it that is done, ``"deviation"`` what was done otherwise.
    """

    kind: NoticeKind
    text: str
    seconds: float = field(default=0.0, compare=False)  # the wait before a retry

    @property
    def with_wait(self) -> str:
        """The text and the wait, for a person who reads it before the wait."""
        if not self.seconds:
            return self.text
        return f"{self.text} in {self.seconds:g} s"


@dataclass(frozen=True, slots=True)
class FormArgument:
    """An argument of a call that waits for approval.

    Each text is the repr of a value, or the text itself if it has several lines. Invisible
    characters are escaped, and the middle of a very long value is left out.
    """

    name: str
    text: str  # the value that will run
    sent: str | None = None  # what the model sent, if that differs
    before: str | None = None  # the value before the person edited it
    is_default: bool = False  # the model omitted it


@dataclass(frozen=True, slots=True)
class Edit:
    """An edit of a call by a person before the decision."""

    input: Json  # of the call as it was decided on, with all of its arguments
    arguments: tuple[FormArgument, ...]  # those that were changed


@dataclass(frozen=True, slots=True)
class FormField:
    """An argument that a person can change in a form."""

    name: str
    value: Json  # as it was sent or edited, or the default
    schema: Json  # of its values
    is_code: bool = False  # Python that the tool runs
    is_fixed: bool = False  # JSON cannot represent it, or it is a variable
    text: str = ""  # what a fixed one is shown as


UNSEEN = 0.7
"""Seconds after a question was shown in which nobody has read it: what comes answers another."""


@dataclass(frozen=True, slots=True)
class Findings:
    """The text that a person reads before they choose.

    Attributes:
        title: The finding, as a sentence.
        is_warning: Whether something is not as it should be.
        head, rows: A table.
        lines: Further facts.
        code: The code to choose about, as Python.
    """

    title: str
    is_warning: bool = False
    head: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    lines: tuple[str, ...] = ()
    code: str = ""


@dataclass(frozen=True, slots=True)
class UserQuestion:
    """A question to the user, as it is asked with buttons and fields.

    Attributes:
        text: The question.
        choices: The answers, as they are typed.
        default: The answer that Enter takes.
        fault: The fault of the last answer.
        is_of_model: Not of the notebook, such as whether a map may start.
        labels: The words for each choice; the choices themselves where there are none.
        primary: The choice that is likely; Enter does not take it.
        findings: The findings above the choices.
    """

    text: str
    choices: tuple[str, ...] = ()
    default: str = ""
    fault: str = ""
    is_of_model: bool = True
    labels: tuple[str, ...] = ()
    primary: str = ""
    findings: Findings | None = None


Answer: TypeAlias = Literal[
    "yes", "this run", "always", "edit", "no", "stop", "show all", "unclear"
]
"""The meaning of a typed line for a call that waits for approval."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A choice of a person about a call that waits.

    Attributes:
        answer: Its meaning.
        line: The line to type for it; a form's button gives the same line.
        label: Its words, the same at a keyboard, on a button and in a chat.
    """

    answer: Answer
    line: str
    label: str


@dataclass(frozen=True, slots=True)
class Preview:
    """The effects of a call in a copy of the kernel, tried before the decision.

    Attributes:
        changes: Its changes in the variables there.
        tried: Its refused attempts: the kind of each, such as ``"write"``, and to which file or
            address.
        printed: The text that it printed.
        error: Its error; empty if there was none.
        why_not: Why there is no preview; empty if there is one.
    """

    changes: tuple[Change, ...] = ()
    tried: tuple[tuple[str, str], ...] = ()
    printed: str = ""
    error: str = ""
    why_not: str = ""

    @property
    def lines(self) -> list[str]:
        """The preview in lines of text."""
        if self.why_not:
            return [f"No preview: {self.why_not}"]
        lines = [f"  {each}" for each in self.changes]
        lines += [f"  would {kind} {target}".rstrip() for kind, target in self.tried]
        if self.error and self.tried:
            lines.append("  (what it does after that is not known)")
        elif self.error:
            lines.append(f"  would raise {truncate_line(self.error, 200)}")
        if self.printed:
            lines.append(f"  would print {truncate_line(self.printed, 200)}")
        return ["Tried in a copy, which can change nothing:", *(lines or ["  changes nothing"])]


@dataclass(frozen=True, slots=True)
class ApprovalForm:
    """A call that a person is asked to approve, exactly as it would run."""

    tool: str
    arguments: tuple[FormArgument, ...]  # including defaults
    why: str = ""  # the tool's own text about the call
    text: str = ""  # all of it as plain text, with long values shortened
    decision: Decision | None = None  # what the person decided; None while the call waits
    program: str = ""  # that makes the call, if one does
    line: int = 0  # of the program, from 1; 0 if it is not known
    is_shown: bool = False  # an observer displays it, so it is not printed
    fields: tuple[FormField, ...] = field(default=(), compare=False, repr=False)
    choices: tuple[Choice, ...] = field(default=(), repr=False)  # those that the person has
    # The fault of an argument that is changed; empty if there is none.
    check: Callable[[Mapping[str, Json]], str] = field(
        default=lambda _: "", compare=False, repr=False
    )
    # No part of the text, which a recorded answer is found by: on another machine it differs.
    preview: Preview | None = field(default=None, compare=False, repr=False)
    # Of this question alone: a call that is asked about again, or changed, has another one.
    id: str = field(default_factory=lambda: token_hex(2), compare=False, repr=False)

    @property
    def name(self) -> str:
        """A unique name of this question, for an answer from elsewhere."""
        return f"{self.tool}#{self.id}"

    @property
    def text_with_preview(self) -> str:
        """The text, and below it what the call did in a copy."""
        below = [] if self.preview is None else self.preview.lines
        return "\n".join([self.text, *below])

    @property
    def edited(self) -> tuple[FormArgument, ...]:
        """The arguments that the person changed."""
        return tuple(each for each in self.arguments if each.before is not None)


@dataclass(slots=True)  # frozen ones take four times as long to create; a reply has thousands
class Delta:
    """A piece of a streamed reply, of a running tool's output, or of a question to the user.

    It is shown live and not kept: the reply or outcome that follows is complete. An empty text of
    the kind ``"person"`` means that the question was answered; ``form`` is the call to approve. The
    kind ``"status"`` tells what the request to the model is waiting for, and ``"progress"`` how far
    a running tool is. With the kind ``"display"``, `output` is something that a tool displays;
    without data, it takes that back. With the kind ``"ended"``, `outcome` is that of a call that
    has ended while others of the same reply go on.
    """

    kind: Literal["text", "reasoning", "output", "display", "person", "status", "progress", "ended"]
    text: str
    form: ApprovalForm | None = None
    output: Output | None = None
    outcome: CallOutcome | None = None


Origin: TypeAlias = Literal["result", "derived", "question", "nowhere"]
"""Where a number of an answer comes from; see `provenance.py`."""


@dataclass(frozen=True, slots=True)
class Span:
    """A number or a name in an answer, with its origin.

    Attributes:
        start: Where it begins in the answer.
        end: Where it ends.
        text: How the answer writes it.
        origin: Where it comes from.
        call: The call whose result it is from: ``mean_by("mass")``; empty if it is from none.
        step: The number of the step of the call, from 1; 0 if it is from none.
        place: The place in the result, such as ``Gentoo, body_mass_g``; empty if that is not known.
        formula: How it is derived from numbers of the result; empty if it is not.
    """

    start: int
    end: int
    text: str
    origin: Origin
    call: str = ""
    step: int = 0
    place: str = ""
    formula: str = ""

    @property
    def in_words(self) -> str:
        """Its origin, for a person."""
        match self.origin:
            case "question":
                return "from the question"
            case "nowhere":
                return "in no result"
        where = f"{self.call}, step {self.step}" if self.step else self.call
        return ": ".join(filter(None, [where, self.formula or self.place]))


@dataclass(frozen=True, slots=True)
class Answered:
    """The model gave its final answer.

    Attributes:
        text: The answer.
        thought: The model's text before it.
        repairs: How many programs failed before the one that answered; None where that says
            nothing, as of answers that no program computed from data.
        doubts: Why it may not be what was asked for, as that program was seen to run.
        odds: How probable each option of the answer was, by its fields; see `loop/odds.py`.
        spans: Its numbers and names with their origins, if there were results.
    """

    text: str
    thought: str = ""
    repairs: int | None = None
    doubts: tuple[str, ...] = ()
    odds: Mapping[str, Mapping[str, float]] = field(default_factory=dict, compare=False)
    spans: tuple[Span, ...] = field(default=(), compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Failed:
    """The run ended without an answer, for example because the model gave up."""

    reason: str
    by: FailedBy = "model"
    explained: Explained | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Stopped:
    """A limit ended the run.

    ``limit`` is its name and value, ``"max_steps=20"``; if a reply was truncated (``cut``), at how
    many tokens, and what to do.
    """

    limit: str
    text: str = ""  # the model's last text, or its incomplete answer
    cut: bool = False

    @property
    def cause(self) -> str:
        """The reason for the end of the run, for use within a sentence."""
        if self.cut:
            return self.limit
        return f"the limit {self.limit}"


@dataclass(frozen=True, slots=True)
class Interrupted:
    """A person interrupted the run during a request to the model or a tool call, or stopped it.

    It is not an answer, so `Run.answer` is empty, and it is not part of the conversation.
    """

    during: str
    text: str = ""  # what the model had written of its reply, as it was shown
    stopped: bool = False  # where it was asked about a call, or with its button


ProgramReply: TypeAlias = ProgramFaults | ProgramWaits | ProgramEnded
Request: TypeAlias = (
    AskModel | RunCalls | RunProgram | ResumeProgram | CheckAnswer | ApprovePlan | Notice
)
Reply: TypeAlias = (
    ModelReply | NoReply | CallOutcomes | ProgramReply | Verdict | PlanDecision | None
)
Ending: TypeAlias = Answered | Failed | Stopped | Interrupted
Event: TypeAlias = (
    Started
    | Request
    | ModelReply
    | NoReply
    | CallOutcomes
    | ProgramReply
    | Verdict
    | PlanDecision
    | Delta
    | Ending
)

Requests: TypeAlias = Generator[Request, Reply, T]
"""Yields requests, is sent a reply to each, and returns a result."""


# ── the texts of a reply ──────────────────────────────────────────────────────────────────────────

_NO_TEXTS = frozenset({"value", "given", "call_id", "images", "decision", "edit", "runs", "finish"})
"""The fields of replies that are not text about a call: objects, and what a person wrote."""


def with_texts(reply: Reply, change: Callable[[str], str]) -> Reply:
    """A reply about calls, a program or an answer, with each text in it changed.

    Args:
        reply: The reply. Texts of a model stay, and so do values themselves.
        change: Returns the text that takes the place of another one.
    """
    if isinstance(reply, (CallOutcomes, ProgramEnded, ProgramFaults, Verdict)):
        return _with_texts(reply, change)  # type: ignore[no-any-return]
    if isinstance(reply, NoReply) and reply.kind == "condition":
        return replace(reply, text=change(reply.text))
    return reply


def _with_texts(part: Any, change: Callable[[str], str]) -> Any:
    if isinstance(part, str):
        return change(part)
    if isinstance(part, tuple):
        return tuple(_with_texts(each, change) for each in part)
    if isinstance(part, Output):
        texts = {
            kind: change(each)
            for kind, each in part.data.items()
            if isinstance(each, str) and not kind.startswith("image/")
        }
        return replace(part, data={**part.data, **texts})
    if isinstance(part, Mapping):
        return {key: _with_texts(each, change) for key, each in part.items()}
    if isinstance(part, Effect) and part.before is None:  # an undo needs the paths as they are
        return replace(part, target=change(part.target))
    if type(part).__module__ != __name__:  # an exception, such as one of the user's
        return part
    changed = {}
    for each in fields(part):
        before = getattr(part, each.name)
        if each.name not in _NO_TEXTS:
            after = _with_texts(before, change)
            if after is not before and after != before:
                changed[each.name] = after
    return replace(part, **changed) if changed else part


for _each in [*vars().values()]:
    if isinstance(_each, type) and _each.__module__ == __name__:
        hinted(_each)
