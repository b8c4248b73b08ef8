"""The record of a conversation, its messages, and the compaction of long conversations.

A conversation is a list of `Exchange`s: a question, its steps and its ending. A wire protocol turns
them into messages, so the protocol can change and less can be sent while the record stays complete.
A call and its outcome are in the same `Step`, so they cannot be separated.

A conversation that exceeds the model's context is compacted from the beginning (`Compaction`): old
exchanges are dropped, then the first steps of the current one. The system prompt, the current
question and its last step are always sent; if that is still too long, the outcomes of this step are
truncated. Compaction invalidates the server's prompt cache, so it is done rarely: each time, half
of what can be dropped is dropped.
"""

from __future__ import annotations

import bisect
import json
import string
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeAlias

from archytas_nb.loop.events import (
    CallOutcome,
    Ending,
    Failed,
    Interrupted,
    Json,
    Message,
    Stopped,
    ToolCall,
)
from archytas_nb.loop.lenient import replace_surrogates

if TYPE_CHECKING:
    from archytas_nb.loop.function_calling import FunctionCalling
    from archytas_nb.loop.text_protocol import TextProtocol

WireProtocol: TypeAlias = "TextProtocol | FunctionCalling"
"""One of the two formats in which a conversation is sent and replies are read."""

CONTEXT_TOKENS = 100_000
"""Assumed context length if it is not known; most hosted models have more."""
_MARGIN = 150
"""Tokens for the chat template and for the text that is added in the last turn."""
_MIN_REPLY = 1024
"""Minimum number of tokens that are reserved for the reply, even if this requires compaction."""
_LENGTHS = (4000, 2000, 1000, 500, 200)
"""Lengths in characters to which the outcomes of the last step are truncated, one after another."""
_TAIL = 100
"""Characters of the end that are kept: it names the variable that holds a long result."""

# ── the record ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The type of the final answer: its text for the model, its schema, and a function spec."""

    text: str
    schema: Json
    spec: Json


@dataclass(frozen=True, slots=True)
class Step:
    """One reply of the model, with one outcome for each call, in the same order."""

    thought: str = ""  # the text before the calls; it is sent back
    calls: tuple[ToolCall, ...] = ()
    outcomes: tuple[CallOutcome, ...] = ()
    correction: str = ""  # what the model is told about an unusable reply
    reasoning: str = ""  # sent separately by the server; not part of the conversation
    extras: Mapping[str, Json] = field(default_factory=dict)  # extra fields of a call, by its id

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
    def asides(self) -> dict[str, Json]:
        """Data sent with the calls that is not part of the messages; see `AskModel.asides`."""
        asides: dict[str, Json] = {id_: {"extra": extra} for id_, extra in self.extras.items()}
        if self.calls and self.reasoning:
            first = self.calls[0].id
            asides[first] = {"reasoning": self.reasoning, **asides.get(first, {})}
        return asides


@dataclass(frozen=True, slots=True)
class Compaction:
    """What is dropped from a record; it only grows, so each request extends the one before."""

    dropped: int = 0  # exchanges, from the beginning
    dropped_steps: int = 0  # steps of the first exchange that is still sent
    truncated: Mapping[str, int] = field(
        default_factory=dict
    )  # maximum characters of an outcome, by call id
    max_tokens: int | None = None  # if the endpoint has rejected a longer request


@dataclass(frozen=True, slots=True)
class Context:
    """The description of the notebook's variables that is sent with a question."""

    text: str = ""  # a line for each variable
    names: tuple[str, ...] = ()  # including variables for which there was no room
    # The state of each variable, to detect changes later.
    state: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    tools: tuple[str, ...] = ()  # those that read variables
    preferred_tools: tuple[str, ...] = ()  # if one fits, a small model uses these
    is_offered: bool = True  # False if one fits: then neither the text nor the tools are sent


@dataclass(slots=True)
class Exchange:
    """One question, the steps towards its answer, and its ending."""

    question: str
    steps: list[Step] = field(default_factory=list)
    ending: Ending | None = None  # None during the run
    images: tuple[str, ...] = ()  # PNG or JPEG in base64
    form: AnswerForm | None = None  # of the answer; None for text
    origin: str = ""  # such as a cell: a question of the same origin replaces this one
    hint: str = ""  # text for the model below the question
    context: Context | None = None
    compaction: Compaction = Compaction()  # of the conversation up to the end of this exchange
    # The messages of a completed exchange, by the name of the wire protocol.
    message_cache: dict[str, Any] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )

    @property
    def is_worth_keeping(self) -> bool:
        """Whether the exchange stays in the conversation; False if the question had no result."""
        ending = self.ending
        gave_up = isinstance(ending, Failed) and ending.by == "model"
        return bool(self.steps) or gave_up or getattr(ending, "text", "") != ""

    @property
    def closing_text(self) -> str:
        """The assistant's last message, never empty, so that roles always alternate."""
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


def index_of(exchanges: Sequence[Exchange], origin: str) -> int:
    """The index of the question with this origin, or the index that it will have."""
    indices = (n for n, exchange in enumerate(exchanges) if origin and exchange.origin == origin)
    return next(indices, len(exchanges))


# ── compaction ────────────────────────────────────────────────────────────────────────────────────


def compacted_view(exchanges: Sequence[Exchange], compaction: Compaction) -> list[Exchange]:
    """The exchanges to send; the record is not changed, because changed exchanges are copies."""
    shown = list(exchanges[compaction.dropped :])
    if compaction.dropped or compaction.dropped_steps:
        first, n = shown[0], compaction.dropped
        question = first.question
        if n:
            before = "question and its answer" if n == 1 else f"{n} questions and their answers"
            question = f"(Left out here: the first {before}.)\n\n{question}"
        if n := compaction.dropped_steps:
            what = "first step" if n == 1 else f"first {n} steps"
            names = Counter(call.name for step in first.steps[:n] for call in step.calls)
            called = ", ".join(f"{name} {n}×" if n > 1 else name for name, n in names.items())
            called = called and f", with calls of {called}"
            question = f"{question}\n\n(Left out here: the {what}{called}.)"
        shown[0] = replace(first, question=question, steps=first.steps[compaction.dropped_steps :])
    for n, exchange in enumerate(shown if compaction.truncated else ()):
        if any(call.id in compaction.truncated for step in exchange.steps for call in step.calls):
            shown[n] = replace(
                exchange, steps=[_truncate_outcomes(step, compaction) for step in exchange.steps]
            )
    return shown


def _truncate_outcomes(step: Step, compaction: Compaction) -> Step:
    outcomes = [
        _truncate(each, compaction.truncated[each.call_id])
        if each.call_id in compaction.truncated
        else each
        for each in step.outcomes
    ]
    return replace(step, outcomes=tuple(outcomes))


def _truncate(outcome: CallOutcome, length: int) -> CallOutcome:
    """A copy of an outcome without images and without the middle of a long text."""
    text = outcome.text
    note = f"\n… (shortened from {len(text):,} characters) …\n"
    if len(text) > length + len(note) + _TAIL:
        text = f"{text[:length].rstrip()}{note}{text[-_TAIL:].lstrip()}"
    elif outcome.images:
        text = f"{text}\n… (the image is not shown any more)"
    return replace(outcome, text=text, images=())


def compact_further(
    exchanges: Sequence[Exchange],
    compaction: Compaction,
    budget: int,
    size: Callable[[Sequence[Exchange]], int],
) -> Compaction:
    """Compact further, until the messages fit into the budget.

    Args:
        exchanges: The record; the last exchange is the current one.
        compaction: What is already dropped, and stays dropped.
        budget: Maximum number of tokens in the messages.
        size: Counts the tokens of the messages of exchanges, including the system prompt.

    Returns:
        The same compaction if it fits; the strongest possible one if none fits.
    """

    def size_of(compaction: Compaction) -> int:
        return size(compacted_view(exchanges, compaction))

    if size_of(compaction) <= budget:
        return compaction
    last, steps = len(exchanges) - 1, exchanges[-1].steps
    candidates = [compaction]
    candidates += (
        replace(compaction, dropped=n, dropped_steps=0)
        for n in range(compaction.dropped + 1, last + 1)
    )
    candidates += (
        replace(candidates[-1], dropped_steps=n)
        for n in range(candidates[-1].dropped_steps + 1, len(steps))
    )
    if (smallest := size_of(candidates[-1])) <= budget:
        # Each candidate is smaller than the one before, except for the few tokens of a note.
        target = smallest + (budget - smallest) // 2
        return candidates[bisect.bisect_left(candidates, -target, key=lambda each: -size_of(each))]
    deepest = candidates[-1]
    for length in _LENGTHS if steps else ():
        ids = [call.id for call in steps[-1].calls]
        truncated = {id_: min(length, compaction.truncated.get(id_, length)) for id_ in ids}
        deepest = replace(deepest, truncated={**compaction.truncated, **truncated})
        if size_of(deepest) <= budget:
            break
    return deepest


# ── messages ──────────────────────────────────────────────────────────────────────────────────────


def messages_of(wire: WireProtocol, exchanges: Sequence[Exchange]) -> list[Message]:
    """The conversation as messages that even a strict server accepts."""
    return [wire.system, *(each for exchange in exchanges for each in _messages(wire, exchange))]


def _messages(wire: WireProtocol, exchange: Exchange) -> list[Message]:
    messages = [wire.question(exchange)]
    messages += (message for step in exchange.steps for message in wire.step(step))
    if exchange.ending is not None:
        messages.append(wire.closing_message(exchange.closing_text))
    valid: list[Message] = replace_surrogates(messages)
    return valid


class Conversation:
    """The messages of a run, which grow with the record and are compacted if it is too long."""

    messages: list[Message]  # what is sent next
    tokens: int  # their estimated number of tokens
    tool_tokens: int  # estimated tokens of the tools that are sent in a separate field
    asides: dict[str, Json]  # data sent with their calls; see `AskModel.asides`

    def __init__(
        self,
        wire: WireProtocol,
        past: Sequence[Exchange],
        exchange: Exchange,
        model: object,  # it may have context_tokens, possibly only after the first reply
        reply_tokens: int,  # halved if a request was rejected for its length
    ) -> None:
        self._model, self.reply_tokens = model, reply_tokens
        self._exchange, self._exchanges = exchange, [*past, exchange]
        if not exchange.steps and past:
            compaction, count = past[-1].compaction, len(past)
            if compaction.dropped >= count:  # exchanges may have been removed since then
                compaction = replace(compaction, dropped=count, dropped_steps=0)
            exchange.compaction = compaction
        self.rebuild(wire)

    def rebuild(self, wire: WireProtocol | None = None) -> None:
        """Rebuild the messages from the current record, with another protocol if given."""
        if wire is not None:
            self._wire, self.tool_tokens = wire, json_tokens(wire.tool_specs)
        self.messages = [self._wire.system]
        self.tokens = message_tokens(self.messages)
        self.asides = {}
        for exchange in compacted_view(self._exchanges, self._exchange.compaction):
            messages, tokens = self._cached_messages(exchange)
            self.messages += messages
            self.tokens += tokens
            for step in exchange.steps:
                self.asides |= step.asides

    def add(self, step: Step) -> None:
        """Add the messages of a step that was added to the exchange."""
        more = replace_surrogates(self._wire.step(step))
        self.messages += more
        self.tokens += message_tokens(more)
        if asides := step.asides:
            self.asides = {**self.asides, **asides}

    def compact(self, *, after_refusal: bool = False) -> str:
        """Compact the messages if they are too long; return a notice for the user, or "".

        After a rejection, the limits of the messages and the reply are reduced by 1/4 and 1/2.
        """
        sent, compaction = self.tokens, self._exchange.compaction
        why = "the conversation is too long"
        if after_refusal:
            why = "the conversation is too long for the endpoint"
            self.reply_tokens = max(self.reply_tokens // 2, 1)
            compaction = replace(compaction, max_tokens=max(sent * 3 // 4, 1))
        budget = self._budget(compaction.max_tokens)
        if sent <= budget:
            return ""
        self._exchange.compaction = compact_further(self._exchanges, compaction, budget, self._size)
        if self._exchange.compaction != compaction:
            self.rebuild()
            return (
                f"{why} (about {sent:,} tokens): its oldest parts are shortened or left out "
                f"(now {self.tokens:,})"
            )
        if not after_refusal:
            return ""
        # No further compaction is possible.
        self._exchange.compaction = replace(compaction, max_tokens=sent)
        return (
            f"{why}, and none of its {sent:,} tokens can be left out: asking again for a shorter "
            "reply"
        )

    def _budget(self, max_tokens: int | None) -> int:
        """Maximum number of tokens in the messages; ``max_tokens`` is the endpoint's limit."""
        context = getattr(self._model, "context_tokens", None) or CONTEXT_TOKENS
        # The conversation is not compacted to make room for a very long reply.
        reply = min(self.reply_tokens, max(context // 4, _MIN_REPLY))
        left = max(context - reply - self.tool_tokens - _MARGIN, context // 4)
        return min(left, max_tokens or left)

    def _size(self, exchanges: Sequence[Exchange]) -> int:
        system = message_tokens([self._wire.system])
        return system + sum(self._cached_messages(exchange)[1] for exchange in exchanges)

    def _cached_messages(self, exchange: Exchange) -> tuple[list[Message], int]:
        """The messages of an exchange and their tokens; cached when the exchange is complete."""
        state = exchange.ending, len(exchange.steps)
        cached_state, messages, tokens = exchange.message_cache.get(self._wire.name, (None, [], 0))
        if cached_state != state:
            messages = _messages(self._wire, exchange)
            tokens = message_tokens(messages)
            if exchange.ending is not None:
                exchange.message_cache[self._wire.name] = state, messages, tokens
        return messages, tokens


# ── estimates of tokens ───────────────────────────────────────────────────────────────────────────

_UNITS_PER_TOKEN = 40  # the number of units in a token


def _costs(*costs: tuple[float, Iterable[int]]) -> bytes:
    table = bytearray(256)
    for tokens, each in costs:
        for byte in each:
            table[byte] = round(tokens * _UNITS_PER_TOKEN)
    return bytes(table)


# The tokens that each byte of UTF-8 and each beginning of a word add, fitted to the largest count
# of three tokenizers (test_messages.py). A non-ASCII letter is counted at its first byte.
_COST = _costs(
    (0.205, string.ascii_letters.encode()),
    (1.2, string.digits.encode()),
    (0.85, string.punctuation.encode()),
    (1.1, b"\n"),
    (0.18, b" "),
    (0.5, b"\t"),
    (1.6, range(0xC3, 0xCA)),  # Latin with accents, which split a word into several tokens
    (0.65, range(0xD0, 0xD4)),  # Cyrillic
    (1.15, (0xC2, *range(0xCA, 0xD0), *range(0xD4, 0xE2))),  # Greek, Hebrew, Arabic, Indian, Thai
    (1.25, range(0xE2, 0xF0)),  # Chinese, Japanese, Korean, symbols
    (3.0, range(0xF0, 0xF8)),  # emoji
)
_PER_WORD, _PER_MESSAGE, _PER_IMAGE = 0.68, 5, 1000
_CASES = bytes(
    ord("a" if chr(byte).islower() else "A" if chr(byte).isupper() else ".") if byte < 128 else 46
    for byte in range(256)
)
"""Maps letters to ``a`` or ``A`` and anything else to a dot, so that words can be counted."""
_MAX_COUNTED = 10_000
"""Maximum number of bytes that are counted; of a longer text, ten samples of this total length."""


def text_tokens(text: str) -> int:
    """The estimated number of tokens in a text."""
    data = text.encode("utf-8", "replace")
    counted = data
    if len(data) > _MAX_COUNTED:
        starts = range(0, len(data), len(data) // 10)
        counted = b"".join(data[at : at + _MAX_COUNTED // 10] for at in starts)
    cases = b"." + counted.translate(_CASES)
    words = cases.count(b".a") + cases.count(b".A") + cases.count(b"aA")
    tokens = sum(counted.translate(_COST)) / _UNITS_PER_TOKEN + _PER_WORD * words
    return int(tokens * len(data) / max(1, len(counted))) + 1


def json_tokens(value: Json) -> int:
    """The estimated number of tokens in a value as JSON, such as the specs of tools."""
    return text_tokens(json.dumps(value, ensure_ascii=False, default=str)) if value else 0


def message_tokens(messages: Iterable[Message]) -> int:
    """The estimated number of tokens in messages; an image counts as a thousand."""
    total = 0
    for message in messages:
        texts, content = texts_of(message), message.get("content")
        images = len(content) - len(texts) if isinstance(content, list) else 0
        for call in message.get("tool_calls", ()):
            texts += call["function"].values()
        total += _PER_MESSAGE + _PER_IMAGE * images + sum(map(text_tokens, texts))
    return total


def texts_of(message: Message) -> list[str]:
    """The texts of a message's content, which is a text or a list of parts, without images."""
    content = message.get("content")
    if isinstance(content, list):
        return [part["text"] for part in content if part.get("type") == "text"]
    return [content] if isinstance(content, str) else []
