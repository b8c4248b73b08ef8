"""The record of a conversation, the messages it becomes, and what is left out of a long one.

A conversation is a list of `Exchange`s: a question, its steps and its ending. A wire protocol turns
them into messages, so the protocol can change and the record can be shortened without losing
anything. A call and its outcome live in one `Step`, so they cannot be separated.

`compacted` decides what is left out (a `Cut`), and `view` shows the record through it. First old
outcomes are shortened, oldest first; then the beginning is left out: old exchanges, and at last the
first steps of the running one. The system prompt, the running question and its last step are always
sent; outcomes of that step are shortened only where nothing else is left. Compacting costs a
server's prompt cache, so it goes half of the way that is possible.
"""

from __future__ import annotations

import bisect
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
from archytas_nb.loop.limits import json_tokens, message_tokens

if TYPE_CHECKING:
    from archytas_nb.loop.function_calling import FunctionCalling
    from archytas_nb.loop.text_protocol import TextProtocol

WireProtocol: TypeAlias = "TextProtocol | FunctionCalling"
"""One of the two forms in which a conversation is sent and replies are read."""

CONTEXT_TOKENS = 100_000
"""Context length that a model is taken to have if it does not say; most hosted ones have more."""
_MARGIN = 150
"""Tokens for the chat template, and for the words that make a turn the last one."""
_MIN_REPLY = 1024
"""Tokens of a reply for which the conversation is shortened in any case."""
HEAD = 200
"""Characters that are left of an old outcome."""
_HEADS = (4000, 2000, 1000, 500, HEAD)
"""The same for outcomes of the last step, which the model has not read yet."""
_NOTE = 120
"""About how long the note is that replaces what is left out: shortening by less is no gain."""

# ── the record ────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """The type of the final answer: as the model reads it, its schema, a function that takes it."""

    text: str
    schema: Json
    spec: Json


@dataclass(frozen=True, slots=True)
class Step:
    """One reply of the model and its outcomes.

    Attributes:
        thought: The text beside the calls; it is sent back.
        calls: The calls; empty for a reply that could not be used.
        outcomes: One for each call, in the same order.
        correction: What the model is told about a reply that could not be used; empty otherwise.
        reasoning: The reasoning that came apart from the text; not part of the conversation.
        extras: What the server sent beside each call, by the call's id; not part of it either.
    """

    thought: str = ""
    calls: tuple[ToolCall, ...] = ()
    outcomes: tuple[CallOutcome, ...] = ()
    correction: str = ""
    reasoning: str = ""
    extras: Mapping[str, Json] = field(default_factory=dict)

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
        """What came with the calls and is not part of the conversation; see `AskModel.asides`."""
        found: dict[str, Json] = {id_: {"extra": extra} for id_, extra in self.extras.items()}
        if self.calls and self.reasoning:
            first = self.calls[0].id
            found[first] = {"reasoning": self.reasoning, **found.get(first, {})}
        return found


@dataclass(frozen=True, slots=True)
class Cut:
    """How much of a record is not sent. It only grows, so that each request extends the one before.

    Attributes:
        short: The outcomes that are shortened, by the id of their call: the length of the
            beginning that is left, and the variable with the whole value.
        dropped: How many exchanges from the first on are not sent.
        omitted: How many steps of the first exchange that is sent are not sent.
        room: Tokens that a request may have, where the endpoint has refused a longer one; else
            None.
    """

    short: Mapping[str, tuple[int, str]] = field(default_factory=dict)
    dropped: int = 0
    omitted: int = 0
    room: int | None = None


@dataclass(frozen=True, slots=True)
class Context:
    """What a question is sent with of the notebook's variables.

    Attributes:
        text: A line for each variable; may be empty.
        names: The variables that it is about, also those that there was no room for.
        state: What each variable was, to see later which of them have changed.
        tools: The names of the tools that look at variables.
        instead: The names of the tools that a small model is to use instead where one fits.
        is_offered: False where one fits: neither the text nor the tools are sent.
    """

    text: str = ""
    names: tuple[str, ...] = ()
    state: Mapping[str, Any] = field(default_factory=dict, repr=False, compare=False)
    tools: tuple[str, ...] = ()
    instead: tuple[str, ...] = ()
    is_offered: bool = True


@dataclass(slots=True)
class Exchange:
    """One question, the steps towards its answer, and how it ended.

    Attributes:
        question: The user's question.
        steps: Grows while the run goes on.
        ending: None while the run goes on.
        images: Images that the user attached: PNG or JPEG, base64.
        form: How the answer is to be given; None for text.
        origin: What asked, such as a cell: a question of the same origin replaces this one. Empty
            where there is none.
        remark: What the model is told below the question; empty for nothing.
        context: What the question is sent with of the notebook's variables; None for nothing.
        cut: What is not sent of the conversation up to the end of this exchange.
        sent: The messages of an exchange that is over, by the name of the wire protocol.
    """

    question: str
    steps: list[Step] = field(default_factory=list)
    ending: Ending | None = None
    images: tuple[str, ...] = ()
    form: AnswerForm | None = None
    origin: str = ""
    remark: str = ""
    context: Context | None = None
    cut: Cut = Cut()
    sent: dict[str, Any] = field(default_factory=dict, init=False, repr=False, compare=False)

    @property
    def is_worth_keeping(self) -> bool:
        """False where the question came to nothing: it is then removed from the conversation."""
        ending = self.ending
        gave_up = isinstance(ending, Failed) and ending.by == "model"
        return bool(self.steps) or gave_up or getattr(ending, "text", "") != ""

    @property
    def closing(self) -> str:
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


def place_of(exchanges: Sequence[Exchange], origin: str) -> int:
    """Where in a conversation a question of this origin stands, or will stand."""
    places = (n for n, exchange in enumerate(exchanges) if origin and exchange.origin == origin)
    return next(places, len(exchanges))


# ── what is left out ──────────────────────────────────────────────────────────────────────────────

Size: TypeAlias = Callable[[Sequence[Exchange]], int]
"""Counts the tokens of the messages of these exchanges, the system prompt included."""

NameOf: TypeAlias = Callable[[ToolCall, CallOutcome], str]
"""Names the variable that holds an outcome's value, made where there is none; empty where there is
no value."""


def view(exchanges: Sequence[Exchange], cut: Cut) -> list[Exchange]:
    """What is sent of a record, which is not changed: shortened exchanges are copies."""
    if cut == Cut(room=cut.room):
        return list(exchanges)
    shown = []
    for n, exchange in enumerate(exchanges[cut.dropped :], cut.dropped):
        question, omitted = exchange.question, cut.omitted if n == cut.dropped else 0
        if n == cut.dropped > 0:
            before = "question and its answer" if n == 1 else f"{n} questions and their answers"
            question = f"(Left out here: the first {before}.)\n\n{question}"
        if omitted:
            what = "first step" if omitted == 1 else f"first {omitted} steps"
            names = Counter(call.name for step in exchange.steps[:omitted] for call in step.calls)
            called = ", ".join(f"{name} {n}×" if n > 1 else name for name, n in names.items())
            called = called and f", with calls of {called}"
            question = f"{question}\n\n(Left out here: the {what}{called}.)"
        steps = [_shortened(step, cut) for step in exchange.steps[omitted:]]
        shown.append(replace(exchange, question=question, steps=steps))
    return shown


def compacted(
    exchanges: Sequence[Exchange], cut: Cut, budget: int, size: Size, name_of: NameOf
) -> Cut:
    """Leave out as much more as is needed.

    Args:
        exchanges: The record; the last one is running.
        cut: What is left out already, and stays so.
        budget: Tokens that the messages may have.
        size: Counts them.
        name_of: Called for each outcome that is shortened.

    Returns:
        The same cut where the budget is kept; the deepest possible one where it cannot be.
    """

    def size_of(cut: Cut) -> int:
        return size(view(exchanges, cut))

    if size_of(cut) <= budget:
        return cut
    cuts = [cut, *_cuts(exchanges, cut)]
    least = size_of(found := cuts[-1])
    if least <= budget:
        wanted = least + (budget - least) // 2
        # Sizes fall from cut to cut but for a few tokens: a note may be longer than what it
        # replaces.
        at = bisect.bisect_left(cuts, -wanted, key=lambda each: -size_of(each))
        found = next(each for each in cuts[min(at, len(cuts) - 1) :] if size_of(each) <= budget)
    else:
        for head in _HEADS:
            found = _shorter(exchanges[-1].steps[-1:], found, head)
            if size_of(found) <= budget:
                break
    # Only what is sent is kept, and what is new in it gets its name.
    short = {}
    for call, outcome in (pair for step in _sent(exchanges, found) for pair in step.pairs):
        if call.id in found.short:
            known = cut.short.get(call.id)
            name = name_of(call, outcome) if known is None else known[1]
            short[call.id] = found.short[call.id][0], name
    return replace(found, short=short)


def _cuts(exchanges: Sequence[Exchange], cut: Cut) -> Iterator[Cut]:
    """All further cuts except of the last step, each a little deeper than the one before."""
    last = len(exchanges) - 1
    for step in _sent(exchanges, cut)[: -1 if exchanges[-1].steps else None]:
        if (deeper := _shorter([step], cut, HEAD)) != cut:
            yield (cut := deeper)
    for n in range(cut.dropped + 1, last + 1):
        yield (cut := replace(cut, dropped=n, omitted=0))
    for n in range(cut.omitted + 1, len(exchanges[last].steps)):
        yield (cut := replace(cut, omitted=n))


def _sent(exchanges: Sequence[Exchange], cut: Cut) -> list[Step]:
    steps = [step for exchange in exchanges[cut.dropped :] for step in exchange.steps]
    return steps[cut.omitted :]


def _shorter(steps: Iterable[Step], cut: Cut, head: int) -> Cut:
    """The cut with the outcomes shortened so far, under names of about the right length."""
    short = dict(cut.short)
    for call, outcome in (pair for step in steps for pair in step.pairs):
        name = "" if outcome.value is None else f"{call.name}_999"
        before, name = short.get(call.id, (None, name))
        if (before is None or head < before) and _gains(outcome, head):
            short[call.id] = head, name
    return replace(cut, short=short)


def _gains(outcome: CallOutcome, head: int) -> bool:
    return bool(outcome.images) or len(outcome.text) > head + _NOTE


def _shortened(step: Step, cut: Cut) -> Step:
    if not any(call.id in cut.short for call in step.calls):
        return step
    outcomes = (
        _short(each, *cut.short[each.call_id]) if each.call_id in cut.short else each
        for each in step.outcomes
    )
    return replace(step, outcomes=tuple(outcomes))


def _short(outcome: CallOutcome, head: int, name: str) -> CallOutcome:
    """An outcome with less text and no images; as it is where that is no gain."""
    if not _gains(outcome, head):
        return outcome
    text, what = outcome.text, "the image is not shown any more"
    where = f'; full value in {name}: send "{name}" to pass it on' if name else ""
    if len(text) > head + _NOTE:
        what, text = f"shortened from {len(text):,} characters", text[:head].rstrip()
    return replace(outcome, text=f"{text}\n… ({what}{where})".lstrip(), images=())


# ── what is sent ──────────────────────────────────────────────────────────────────────────────────


def messages_of(wire: WireProtocol, exchanges: Sequence[Exchange]) -> list[Message]:
    """The conversation as messages, always ones that a strict server accepts."""
    messages = [wire.system]
    for exchange in exchanges:
        messages.append(wire.question(exchange))
        messages += (message for step in exchange.steps for message in wire.step(step))
        if exchange.ending is not None:
            messages.append(wire.closing(exchange.closing))
    valid: list[Message] = replace_surrogates(messages)
    return valid


@dataclass(frozen=True, slots=True)
class ContextWindow:
    """The model, which may know its ``context_tokens``, and names for shortened values."""

    model: object = None
    name_of: NameOf = lambda *_: ""


class Conversation:
    """The messages of a run, which grow with the record and are compacted where it is too long.

    Args:
        wire: The wire protocol.
        past: The exchanges before this one.
        exchange: This one; what is left out is noted in it.
        window: How much the model can take.
        reply_tokens: Maximum number of tokens in a reply.

    Attributes:
        messages: What is sent next.
        tokens: About how many tokens they have.
        beside: About how many tokens are sent beside them.
        reply_tokens: As given; less after a request was refused for its length.
        asides: What came with the calls in them; see `AskModel.asides`.
    """

    def __init__(
        self,
        wire: WireProtocol,
        past: Sequence[Exchange],
        exchange: Exchange,
        window: ContextWindow,
        reply_tokens: int,
    ) -> None:
        self._wire, self._window, self.reply_tokens = wire, window, reply_tokens
        self._exchange, self._exchanges = exchange, [*past, exchange]
        self.beside = json_tokens(wire.beside)
        if not exchange.steps and past:
            cut, count = past[-1].cut, len(past)
            if cut.dropped >= count:  # some of these exchanges may be gone since
                cut = replace(cut, dropped=count, omitted=0)
            exchange.cut = cut
        self.remake()

    def remake(self, wire: WireProtocol | None = None) -> None:
        """Make the messages again from the record as it is now, by another protocol if given."""
        if wire is not None:
            self._wire, self.beside = wire, json_tokens(wire.beside)
        self.messages = messages_of(self._wire, ())
        self.tokens = message_tokens(self.messages)
        self.asides: dict[str, Json] = {}
        for exchange in view(self._exchanges, self._exchange.cut):
            messages, tokens = self._sent(exchange)
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

    def compact(self) -> str:
        """Compact where the messages are too long for the model.

        Returns:
            What was done, for a person; empty where nothing was.
        """
        too_long = self.tokens > self._budget()
        return self._compact("the conversation is too long") if too_long else ""

    def compact_more(self) -> str:
        """Compact after the endpoint refused the messages for their length.

        Returns:
            What was done, for a person.
        """
        sent, exchange = self.tokens, self._exchange
        self.reply_tokens = max(self.reply_tokens // 2, 1)
        exchange.cut = replace(exchange.cut, room=max(sent * 3 // 4, 1))
        if done := self._compact("the endpoint finds the conversation too long"):
            return done
        exchange.cut = replace(exchange.cut, room=sent)  # less than that is impossible
        return (
            f"the endpoint finds the conversation too long, and nothing of its {sent:,} tokens can "
            "be left out: it is asked once more for a shorter reply"
        )

    def _compact(self, why: str) -> str:
        before, cut = self.tokens, self._exchange.cut
        deeper = compacted(self._exchanges, cut, self._budget(), self._size, self._window.name_of)
        if deeper == cut:
            return ""
        self._exchange.cut = deeper
        self.remake()
        return (
            f"{why} ({before:,} tokens, about): what is old in it is shortened or left out "
            f"({self.tokens:,})"
        )

    def _budget(self) -> int:
        """Tokens that the messages may have."""
        context = getattr(self._window.model, "context_tokens", None) or CONTEXT_TOKENS
        # A reply may be longer than this where there is room; the conversation is not shortened for
        # it.
        reply = min(self.reply_tokens, max(context // 4, _MIN_REPLY))
        room = max(context - reply - self.beside - _MARGIN, context // 4)
        return min(room, self._exchange.cut.room or room)

    def _size(self, exchanges: Sequence[Exchange]) -> int:
        system = message_tokens([self._wire.system])
        return system + sum(self._sent(exchange)[1] for exchange in exchanges)

    def _sent(self, exchange: Exchange) -> tuple[list[Message], int]:
        """Messages of an exchange and their tokens; made once if it is over: there may be many."""
        over = exchange.ending, len(exchange.steps)
        made, messages, tokens = exchange.sent.get(self._wire.name, (None, [], 0))
        if made != over:
            messages = messages_of(self._wire, [exchange])[1:]
            tokens = message_tokens(messages)
            if exchange.ending is not None:
                exchange.sent[self._wire.name] = over, messages, tokens
        return messages, tokens
