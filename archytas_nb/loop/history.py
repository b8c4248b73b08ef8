"""The record of a conversation, and which parts of it are left out when it becomes too long.

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
from typing import Any, TypeAlias

from archytas_nb.loop.events import (
    CallOutcome,
    Ending,
    Failed,
    Interrupted,
    Json,
    Stopped,
    ToolCall,
)

HEAD = 200
"""Characters that are left of an old outcome."""
_HEADS = (4000, 2000, 1000, 500, HEAD)
"""The same for outcomes of the last step, which the model has not read yet: as much as there is
room for."""
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
            question = f"{question}\n\n{_left_out(exchange.steps[:omitted])}"
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
    least = size_of(cuts[-1])
    if least <= budget:
        wanted = least + (budget - least) // 2
        # Sizes fall from cut to cut but for a few tokens: a note may be longer than what it
        # replaces.
        at = bisect.bisect_left(cuts, -wanted, key=lambda each: -size_of(each))
        found = next(each for each in cuts[min(at, len(cuts) - 1) :] if size_of(each) <= budget)
        return _named(exchanges, cut, found, name_of)
    found = cuts[-1]
    for head in _HEADS:
        found = _shorter(exchanges[-1].steps[-1:], found, head)
        if size_of(found) <= budget:
            break
    return _named(exchanges, cut, found, name_of)


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


def _named(exchanges: Sequence[Exchange], before: Cut, cut: Cut, name_of: NameOf) -> Cut:
    """The cut without the outcomes that are not sent, the new ones with the names of values."""
    short = {}
    for call, outcome in (pair for step in _sent(exchanges, cut) for pair in step.pairs):
        if call.id in cut.short:
            known = before.short.get(call.id)
            name = name_of(call, outcome) if known is None else known[1]
            short[call.id] = cut.short[call.id][0], name
    return replace(cut, short=short)


def _gains(outcome: CallOutcome, head: int) -> bool:
    return bool(outcome.images) or len(outcome.text) > head + _NOTE


def _shortened(step: Step, cut: Cut) -> Step:
    if not any(call.id in cut.short for call in step.calls):
        return step
    outcomes = (_short(each, *cut.short.get(each.call_id, (None, ""))) for each in step.outcomes)
    return replace(step, outcomes=tuple(outcomes))


def _short(outcome: CallOutcome, head: int | None, name: str) -> CallOutcome:
    """An outcome with less text and no images; as it is where that is no gain."""
    if head is None or not _gains(outcome, head):
        return outcome
    text, what = outcome.text, "the image is not shown any more"
    where = f'; full value in {name}: send "{name}" to pass it on' if name else ""
    if len(text) > head + _NOTE:
        what, text = f"shortened from {len(text):,} characters", text[:head].rstrip()
    return replace(outcome, text=f"{text}\n… ({what}{where})".lstrip(), images=())


def _left_out(steps: Sequence[Step]) -> str:
    what = "the first step" if len(steps) == 1 else f"the first {len(steps)} steps"
    names = Counter(call.name for step in steps for call in step.calls)
    called = ", ".join(f"{name} {count}×" if count > 1 else name for name, count in names.items())
    return f"(Left out here: {what}{', with calls of ' if called else ''}{called}.)"
