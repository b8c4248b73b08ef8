"""The record of a conversation, and which parts of it are left out when it becomes too long.

A conversation is a list of `Exchange`s: a question, its steps and its ending. A wire protocol turns
them into messages, so the protocol can change and the record can be shortened without losing
anything. A call and its outcome live in one `Step`, so they cannot be separated.

`compacted` decides what is left out (a `Cut`), and `view` shows the record through it. First old
outcomes are shortened, then the oldest exchanges are reduced to question and answer, then they are
left out, then the first steps of the running exchange, and at last the outcomes of its last step
are shortened. The system prompt, the running question and its last step are always sent. Compacting
costs a server's prompt cache, so it goes half of the way that is possible.
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
class Short:
    """A shortened outcome: the length of its beginning, and the variable with the whole value."""

    head: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Cut:
    """How much of a record is not sent. It only grows, so that each request extends the one before.

    Attributes:
        short: The outcomes that are shortened, by the id of their call.
        folded: How many exchanges from the first on are sent as a question and its answer.
        dropped: How many of these are not sent at all.
        omitted: How many steps of the first exchange that is not folded are not sent.
        room: Tokens that a request may have, where the endpoint has refused a longer one; else
            None.
    """

    short: Mapping[str, Short] = field(default_factory=dict)
    folded: int = 0
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
        notes = []
        question, steps, images = exchange.question, exchange.steps, exchange.images
        if n == cut.dropped > 0:
            before = "question and its answer" if n == 1 else f"{n} questions and their answers"
            question = f"(Left out here: the first {before}.)\n\n{question}"
        if n < cut.folded:
            if steps:
                notes = [_left_out("the steps to the answer", steps)]
            steps, images = [], ()
        else:
            if omitted := cut.omitted if n == cut.folded else 0:
                what = "the first step" if omitted == 1 else f"the first {omitted} steps"
                notes = [_left_out(what, steps[:omitted])]
            steps = [_shortened(step, cut) for step in steps[omitted:]]
        question = "\n\n".join([question, *notes])
        shown.append(replace(exchange, question=question, steps=steps, images=images))
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
    while size(view(exchanges, cut)) > budget:
        deeper = _deeper(exchanges, cut, budget, size)
        deeper = replace(deeper, short=dict(_named(exchanges, cut, deeper, name_of)))
        if deeper == cut:
            break
        cut = deeper  # a name may be longer than was estimated: look again
    return cut


def _deeper(exchanges: Sequence[Exchange], cut: Cut, budget: int, size: Size) -> Cut:
    def size_of(cut: Cut) -> int:
        return size(view(exchanges, cut))

    cuts = [cut, *_cuts(exchanges, cut)]
    deepest = cuts[-1]
    least = size_of(deepest)
    if least <= budget:
        wanted = least + (budget - least) // 2
        # Sizes fall from cut to cut but for a few tokens: a note may be longer than what it
        # replaces.
        at = bisect.bisect_left(cuts, -wanted, key=lambda each: -size_of(each))
        return next(each for each in cuts[min(at, len(cuts) - 1) :] if size_of(each) <= budget)
    for head in _HEADS:
        last = [pair for step in exchanges[-1].steps[-1:] for pair in step.pairs]
        deepest = replace(deepest, short={**deepest.short, **_shorter(last, deepest, head)})
        if size_of(deepest) <= budget:
            break
    return deepest


def _cuts(exchanges: Sequence[Exchange], cut: Cut) -> Iterator[Cut]:
    """All further cuts except of the last step, each a little deeper than the one before."""
    last = len(exchanges) - 1
    for n in range(cut.folded, last + 1):
        steps = exchanges[n].steps[: -1 if n == last else None]
        for step in steps[cut.omitted if n == cut.folded else 0 :]:
            if more := _shorter(step.pairs, cut, HEAD):
                cut = replace(cut, short={**cut.short, **more})
                yield cut
    for n in range(cut.folded + 1, last + 1):
        cut = replace(cut, folded=n, omitted=0)
        yield cut
    for n in range(cut.dropped + 1, last + 1):
        cut = replace(cut, dropped=n)
        yield cut
    for n in range(cut.omitted + 1, len(exchanges[last].steps)):
        cut = replace(cut, omitted=n)
        yield cut


def _shorter(
    pairs: Iterable[tuple[ToolCall, CallOutcome]], cut: Cut, head: int
) -> dict[str, Short]:
    """The outcomes that can be shortened so far, with names of about the right length."""
    found = {}
    for call, outcome in pairs:
        before = cut.short.get(call.id)
        if (before is None or head < before.head) and _gains(outcome, head):
            name = "" if outcome.value is None else f"{call.name}_999"
            found[call.id] = Short(head, before.name if before else name)
    return found


def _named(
    exchanges: Sequence[Exchange], before: Cut, after: Cut, name_of: NameOf
) -> Iterator[tuple[str, Short]]:
    """The shortened outcomes that are still sent, the new ones with the names of their values."""
    for n in range(after.folded, len(exchanges)):
        for step in exchanges[n].steps[after.omitted if n == after.folded else 0 :]:
            for call, outcome in step.pairs:
                if (short := after.short.get(call.id)) is not None:
                    old = before.short.get(call.id)
                    name = name_of(call, outcome) if old is None else old.name
                    yield call.id, replace(short, name=name)


def _gains(outcome: CallOutcome, head: int) -> bool:
    return bool(outcome.images) or len(outcome.text) > head + _NOTE


def _shortened(step: Step, cut: Cut) -> Step:
    if not any(call.id in cut.short for call in step.calls):
        return step
    outcomes = tuple(_short(each, cut.short.get(each.call_id)) for each in step.outcomes)
    return replace(step, outcomes=outcomes)


def _short(outcome: CallOutcome, short: Short | None) -> CallOutcome:
    """An outcome with less text and no images; as it is where that is no gain."""
    if short is None or not _gains(outcome, short.head):
        return outcome
    text, what = outcome.text, "the image is not shown any more"
    where = f'; full value in {short.name}: send "{short.name}" to pass it on' if short.name else ""
    if len(text) > short.head + _NOTE:
        what, text = f"shortened from {len(text):,} characters", text[: short.head].rstrip()
    return replace(outcome, text=f"{text}\n… ({what}{where})".lstrip(), images=())


def _left_out(what: str, steps: Sequence[Step]) -> str:
    names = Counter(call.name for step in steps for call in step.calls)
    called = ", ".join(f"{name} {count}×" if count > 1 else name for name, count in names.items())
    return f"(Left out here: {what}{', with calls of ' if called else ''}{called}.)"
