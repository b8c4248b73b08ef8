"""The record of a conversation: questions, the steps towards their answers, and their endings.

A conversation is a list of `Exchange`s. A wire protocol turns them into messages, so the protocol
can change, and less can be sent than is recorded. A call and its outcome are in the same
`StepRecord`, so they cannot be separated.
"""

from __future__ import annotations

import string
import threading
from base64 import b32encode
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from archytas_nb.choices import ValuesName
from archytas_nb.loop.events import (
    CallOutcome,
    Ending,
    Failed,
    Interrupted,
    Json,
    Stopped,
    ToolCall,
)

DataKind = Literal[
    "names, types and sizes",
    "counts of values",
    "ranges and frequent values",
    "errors and code of cells",
    "types of errors",
    "pictures",
    "errors",
    "results",
    "types of results",
    "prints",
    "changes of variables",
    "what a tool asks",
]
"""The kinds of data of a notebook that a request can hold, in words for a person."""


DescribedKind = Literal["variable", "function", "library", "date", "gone"]


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The type of the final answer.

    Attributes:
        text: The type in words for the model.
        schema: Its JSON schema, without references.
        is_named: Whether the name of a variable may be sent for the value.
        is_whole: Whether the words say all that the schema does.
    """

    text: str
    schema: Json
    is_named: bool = False
    is_whole: bool = True


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One reply of the model, with one outcome for each call, in the same order."""

    thought: str = ""  # the text before the calls; it is sent back
    calls: tuple[ToolCall, ...] = ()
    outcomes: tuple[CallOutcome, ...] = ()
    correction: str = ""  # what the model is told about an unusable reply
    reasoning: str = ""  # sent separately by the server; not part of the conversation
    extras: Mapping[str, Json] = field(default_factory=dict)  # `WireCall.extra`, by the call's id
    program: str = ""  # the program of the reply, which made the calls
    report: str = ""  # what the model is told about the program
    is_left_out: bool = False  # it is no longer sent
    said: str = ""  # what the person said meanwhile; then there is nothing else
    kept: Mapping[str, Json] = field(default_factory=dict)  # `ModelReply.kept`
    written: str = ""  # the text of a reply that could not be used, as the model wrote it
    rejected: ToolCall | None = None  # the call with which it answered or gave up

    def __post_init__(self) -> None:
        if [call.id for call in self.calls] != [outcome.call_id for outcome in self.outcomes]:
            raise ValueError(
                f"each call needs exactly one outcome, in order: {self.calls!r} {self.outcomes!r}"
            )

    @property
    def pairs(self) -> Iterator[tuple[ToolCall, CallOutcome]]:
        """Each call with its outcome."""
        return zip(self.calls, self.outcomes, strict=True)

    @property
    def all_calls(self) -> tuple[ToolCall, ...]:
        """The calls as they are sent: those of tools, or the one that was not accepted."""
        return self.calls if self.rejected is None else (self.rejected,)

    @property
    def aside(self) -> dict[str, Json]:
        """Provider data of the reply, by place; see `AskModel.provider_metadata`."""
        aside = dict(self.kept)
        if self.extras:
            aside["tool_calls"] = [self.extras.get(call.id) or {} for call in self.all_calls]
        return aside


@dataclass(frozen=True, slots=True)
class Summary:
    """The model's summary of the beginning of a conversation, which is no longer sent.

    Attributes:
        text: The summary.
        dropped: How many exchanges it is about, from the beginning.
        dropped_steps: And how many steps of the next one.
        checksum: Of the text that it is about.
    """

    text: str
    dropped: int
    dropped_steps: int
    checksum: int

    @property
    def place(self) -> tuple[int, int]:
        """Up to where it goes."""
        return self.dropped, self.dropped_steps


@dataclass(frozen=True, slots=True)
class Compaction:
    """The dropped part of a record; it only grows, so each request extends the one before."""

    dropped: int = 0  # exchanges, from the beginning
    dropped_steps: int = 0  # steps of the first exchange that is still sent
    truncated: Mapping[str, int] = field(
        default_factory=dict
    )  # maximum characters of an outcome, by call id
    max_tokens: int | None = None  # if the endpoint has rejected a longer request
    summary: Summary | None = None  # of what is dropped, or of its beginning

    @property
    def place(self) -> tuple[int, int]:
        """Up to where the record is dropped."""
        return self.dropped, self.dropped_steps


@dataclass(frozen=True, slots=True)
class Described:
    """The description of one name of the notebook that a model has.

    Attributes:
        kind: The kind of object with the name; ``"gone"`` if there is none now.
        line: Its type and size, its signature, or its version.
        columns: The names of the columns of a table, as they are written after the line; usually
            empty.
        card: All of its lines; empty if only the line was told.
        mark: A text that differs once the line no longer says the same.
        news: The changes that replace the card, where the conversation contains the rest of it.
    """

    kind: DescribedKind
    line: str = ""
    columns: str = ""
    card: str = ""
    mark: str = ""
    news: str = ""


@dataclass(frozen=True, slots=True)
class Context:
    """The description of the notebook below a question.

    Attributes:
        text: The text that the model reads.
        names: The variables that it is about.
        described: The description of each name, to know later whether it is still true.
        mentioned: The variables that the question names, also those that are not described again.
        tools: The tools that read variables.
        preferred_tools: If one of these fits, a small model uses it.
        is_offered: False if one fits: then neither the text nor the tools are sent.
        columns: The columns that are named, as ``df.column``.
        has_values: Whether the text may contain ranges and frequent values.
        in_copy: The variables that programs compute with in a copy of the notebook.
    """

    text: str = ""
    names: tuple[str, ...] = ()
    described: Mapping[str, Described] = field(default_factory=dict, repr=False, compare=False)
    mentioned: tuple[str, ...] = ()
    tools: tuple[str, ...] = ()
    preferred_tools: tuple[str, ...] = ()
    is_offered: bool = True
    columns: tuple[str, ...] = ()
    has_values: bool = False
    in_copy: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class CardForm:
    """How a variable is described to a kind of model; the defaults are those for a large one.

    Attributes:
        tokens: Maximum number of tokens of one card.
        has_values: Whether cards have ranges, dates and categories, where values may be sent.
        in_words: Whether sizes are words, and the names of all columns come before their types.
        for_code: Whether names of columns are quoted, and values of a column with many of them are
            given as examples: who writes code has to know how a date or an amount is written.
    """

    tokens: int = 500
    has_values: bool = True
    in_words: bool = False
    for_code: bool = False


@dataclass(frozen=True, slots=True)
class LastError:
    """The text of a question about the cell before it, if that cell failed."""

    cell: str  # such as "cell 12"
    source: str  # of the cell, or the part around the line that failed
    text: str  # what the model reads


@dataclass(slots=True)
class Exchange:
    """One question, the steps towards its answer, and its ending."""

    question: str
    steps: list[StepRecord] = field(default_factory=list)
    ending: Ending | None = None  # None during the run
    images: tuple[str, ...] = ()  # PNG or JPEG in base64
    form: AnswerForm | None = None  # of the answer; None for text
    origin: str = ""  # such as a cell: a question of the same origin replaces this one
    number: int = 0  # of the question in the conversation, from 1; 0 if it is not known
    hides_earlier_turns: bool = False  # the model may not read all questions before it
    hint: str = ""  # text for the model below the question
    plan: str = ""  # that was approved, as the model reads it below the question
    condition: str = ""  # what the answer is checked for
    is_row: bool = False  # one of many questions that differ only in their values
    # The specifications of the tools that were sent, in their order; the next question keeps it.
    tool_specs: tuple[Json, ...] = ()
    switched_off: tuple[str, ...] = ()  # those of them that cannot be called
    code_place: str = ""  # where code runs, or that none does; only if that is new to the model
    context: Context | None = None
    error: LastError | None = None  # of the cell before it
    values: ValuesName = "all"  # what the model may learn of values
    wants_code: bool = False  # the answer is to end with a block of Python code
    wants_odds: bool = False  # how probable the options of the answer are is to be told
    said: str = ""  # what the model reads of its answer, if that is not the answer itself
    kept: Mapping[str, Json] = field(default_factory=dict)  # `ModelReply.kept` of the answer
    rules: str = ""  # the file with the instructions
    program_state: Any = None  # the variables of programs at the end; None if there are none
    model: str = ""  # what tells the model that was asked from others
    compaction: Compaction = Compaction()  # of the conversation up to the end of this exchange
    # The messages of a completed exchange, by the name of the wire protocol.
    message_cache: dict[str, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    # The kinds of data in the outcomes of this many steps.
    _kinds: dict[DataKind, None] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    _counted: int = field(default=0, init=False, repr=False, compare=False)

    @property
    def kinds_of_outcomes(self) -> Collection[DataKind]:
        """The kinds of data in the outcomes, of which only those of new steps are looked at."""
        are_shown = self.values == "all"
        for step in self.steps[self._counted :]:
            for outcome in step.outcomes:
                self._kinds |= dict.fromkeys(_kinds_of_outcome(outcome, are_shown=are_shown))
        self._counted = len(self.steps)
        return self._kinds

    @property
    def told(self) -> tuple[str, ...]:
        """Further text for the model with the question, for the trace."""
        told = []
        if self.error is not None:
            told.append(f"the error of {self.error.cell}")
        if self.rules:
            told.append(f"the instructions in {self.rules}")
        return tuple(told)

    @property
    def is_worth_keeping(self) -> bool:
        """Whether the exchange stays in the conversation; False if the question had no result."""
        ending = self.ending
        gave_up = isinstance(ending, Failed) and ending.by == "model"
        has_text = not isinstance(ending, Interrupted) and getattr(ending, "text", "") != ""
        return bool(self.steps) or gave_up or has_text

    @property
    def closing_text(self) -> str:
        """The assistant's last message, never empty, so that roles always alternate."""
        if self.said:
            return self.said
        match self.ending:
            case Interrupted():
                return "(I was interrupted here.)"
            case Stopped(text="", cut=True):
                return "(My reply was cut off for its length.)"
            case Stopped(text="") as stopped:
                return f"(I was stopped here by {stopped.cause}.)"
            case Failed(reason=reason, by="model") if reason:
                return reason
            case Failed():  # an endpoint's error may name an address, which is private
                return "(I could not go on here.)"
        return getattr(self.ending, "text", "") or "(The run ended here.)"


def columns_in(exchanges: Iterable[Exchange]) -> tuple[str, ...]:
    """The columns that are described in these questions."""
    found = (each.context for each in exchanges)
    offered = (each for each in found if each is not None and each.is_offered)
    return tuple(dict.fromkeys(column for each in offered for column in each.columns))


def kinds_in(exchanges: Iterable[Exchange]) -> tuple[DataKind, ...]:
    """The kinds of data of the notebook that are sent with these exchanges, in words for a person.

    Not listed are what a person wrote, the tools, and what the model itself wrote.
    """
    return tuple(dict.fromkeys(kind for each in exchanges for kind in _kinds_of(each)))


def _kinds_of(exchange: Exchange) -> Iterator[DataKind]:
    are_shown = exchange.values == "all"
    if exchange.context is not None and exchange.context.text and exchange.context.is_offered:
        yield "names, types and sizes"
        has_cards = any(each.card for each in exchange.context.described.values())
        if are_shown and has_cards:
            yield "counts of values"
            if exchange.context.has_values:
                yield "ranges and frequent values"
    if exchange.error is not None:
        yield "errors and code of cells" if are_shown else "types of errors"
    if exchange.images:
        yield "pictures"
    yield from exchange.kinds_of_outcomes


def _kinds_of_outcome(outcome: CallOutcome, *, are_shown: bool) -> Iterator[DataKind]:
    if outcome.status == "error":
        yield "errors" if are_shown else "types of errors"
    elif outcome.status == "done":
        yield "results" if are_shown else "types of results"
    if outcome.images:
        yield "pictures"
    if are_shown and (outcome.printed or outcome.shared):
        yield "prints"
    if are_shown and outcome.changed:
        yield "changes of variables"


class Inbox:
    """The messages of a person to an agent during one question, and whether they end the run.

    new ──open──▶ open ──put, take──▶ open ──close──▶ closed        stop: in any state

    A text may be put from any thread, under the lock under which the inbox is closed: so it is
    refused, taken, or too late when the run has ended. A stop is noted before the interrupt that
    ends the run, which can come before the inbox is open, and after it was closed.

    Attributes:
        is_closed: Whether the run has ended.
        is_stopped: Whether the person has ended the run, or wanted to while it was ending.
        runs_in_cell: Whether a cell waits for the run; an interrupt of the cell ends it then.
    """

    runs_in_cell = True

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._texts: list[str] = []
        self._late: list[str] = []
        self._is_open = False
        self.is_closed = False
        self.is_stopped = False

    def stop(self) -> None:
        """Note that the person ends the run; may be called from any thread."""
        self.is_stopped = True

    def open(self) -> None:
        """Accept texts from now on."""
        with self._lock:
            self._texts = []
            self._late = []
            self._is_open = True

    def put(self, text: str) -> bool:
        """Add a text; returns False if no question is being answered."""
        with self._lock:
            if self._is_open:
                self._texts.append(text)
            return self._is_open

    @property
    def is_open(self) -> bool:
        """Whether a text would be accepted: a question is being answered."""
        with self._lock:
            return self._is_open

    @property
    def waiting(self) -> tuple[str, ...]:
        """The texts that the next request will take."""
        with self._lock:
            return tuple(self._texts)

    def take(self) -> list[str]:
        """The texts that have come since the last request, in order."""
        with self._lock:
            taken = self._texts
            self._texts = []
            return taken

    def stale(self, calls: Sequence[ToolCall]) -> str:  # noqa: ARG002 - nothing can change here
        """Why calls are not run that the model wrote before it knew of a change; mostly empty."""
        return ""

    def close(self) -> None:
        """Accept nothing more: what no request has taken came too late."""
        with self._lock:
            self._is_open = False
            self.is_closed = True
            self._late += self._texts
            self._texts = []

    @property
    def late(self) -> tuple[str, ...]:
        """The texts that came too late, in order, without those of which this was said."""
        with self._lock:
            return tuple(self._late)

    def said_late(self) -> None:
        """Note that it was said of the first one."""
        with self._lock:
            del self._late[:1]


def offers_of(steps: Iterable[StepRecord]) -> tuple[str, ...]:
    """The names of the tools that the calls of some steps have found."""
    outcomes = (outcome for step in steps for outcome in step.outcomes)
    return tuple(dict.fromkeys(name for each in outcomes for name in each.offers))


def index_of(exchanges: Sequence[Exchange], origin: str) -> int:
    """The index of the question with this origin, or the index that it will have."""
    indices = (n for n, exchange in enumerate(exchanges) if origin and exchange.origin == origin)
    return next(indices, len(exchanges))


_DIGITS = string.digits + string.ascii_letters
_FIRST = [each for each in _DIGITS if each not in "qxyzwvutr"]  # begins no id of another form


def call_id(question: int, step: int, call: int) -> str:
    """The id of a call, unique in a conversation; Mistral requires nine letters and digits."""
    if max(question, step, call) < 100:
        return f"q{question:02}s{step:02}c{call:02}"
    # 2**16 questions of 2**17 steps of 2**20 calls; of the first 2**10, whose ids are in
    # recordings, the letter says three bits.
    if call < 1 << 10:
        letter = "xyzwvutr"[call >> 7]
        number = (question << 24) + (step << 7) + (call & 127)
        return letter + b32encode(number.to_bytes(5)).decode()
    number = (question << 37) + (step << 20) + call
    digits = ""
    for _ in range(8):
        number, digit = divmod(number, len(_DIGITS))
        digits = _DIGITS[digit] + digits
    return _FIRST[number] + digits
