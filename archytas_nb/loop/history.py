"""What was said and done, free of any wire form.

An `Exchange` is one question with its steps and its end. The conversation keeps exchanges, and a wire form
(`wire_react`, `wire_native`) turns them into messages. So a conversation can change its protocol or lose weight
without touching the record, and a call can never be separated from its outcome: they live in one `Step`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from archytas_nb.loop.events import (
    CallOutcome,
    Ending,
    Failed,
    Interrupted,
    Json,
    Stopped,
    ToolCall,
)


@dataclass(frozen=True, slots=True)
class AnswerForm:
    """How the final answer of an exchange is to be given, where it is more than text.

    Attributes:
        text: The type as the model reads it, such as ``"list[int]"``.
        schema: JSON schema of the answer itself.
        spec: Specification of a function that takes the answer.
    """

    text: str
    schema: Json
    spec: Json


@dataclass(frozen=True, slots=True)
class Step:
    """One reply of the model and what came of it.

    Attributes:
        thought: What the model said beside its calls; it is sent back.
        calls: The calls it made; empty for a reply that could not be used.
        outcomes: One for each call, in the same order.
        correction: What the model is told of a reply that could not be used; empty otherwise.
        reasoning: What the model thought where that is apart from what it said; no part of the conversation.
        extras: What came beside each call, by the call's id; no part of it either.
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
    def asides(self) -> dict[str, Json]:
        """What came with the calls and is no part of the conversation, as `AskModel.asides` has it."""
        told = {
            call.id: {"extra": self.extras[call.id]}
            for call in self.calls
            if call.id in self.extras
        }
        if self.calls and self.reasoning:
            first = self.calls[0].id
            told[first] = {"reasoning": self.reasoning, **told.get(first, {})}
        return told


@dataclass(frozen=True, slots=True)
class Short:
    """How much of an outcome is sent where it is shortened.

    Attributes:
        head: Characters of its beginning.
        name: The variable that holds the whole value; empty where there is none.
    """

    head: int
    name: str = ""


@dataclass(frozen=True, slots=True)
class Cut:
    """How much of a record is not sent, because the model could not take it all.

    It only ever grows: what was cut stays cut, so that requests go on to extend each other.

    Attributes:
        short: The outcomes that are shortened, by the id of their call.
        folded: How many exchanges from the first on are sent as a question and its answer.
        dropped: How many of these are not sent at all.
        omitted: How many steps of the first exchange that is not folded are not sent.
        room: Tokens that a request may have, where the endpoint has refused a longer one; else None.
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
        question: What the user asked.
        steps: Grows while the run goes on.
        ending: None while the run goes on.
        images: What the user showed with the question: PNG or JPEG, base64.
        form: How the answer is to be given; None for text.
        origin: What asked: a question of the same origin replaces this one. Empty where there is none.
        remark: What the model is told beside the question; empty for nothing.
        cut: What is not sent of the conversation up to the end of this exchange.
        sent: What was made of it for requests once it was over, kept by `sending`; by wire form.
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
        """False where nothing came of the question: it is then as if it had not been asked."""
        return bool(self.steps) or getattr(self.ending, "text", "") != "" or self.ending_is_reason

    @property
    def ending_is_reason(self) -> bool:
        """True where the model itself gave up: its reason belongs to the conversation."""
        return getattr(self.ending, "by", "") == "model"

    @property
    def closing(self) -> str:
        """The assistant's last words in the conversation, never empty, so that roles always alternate."""
        ending = self.ending
        if isinstance(ending, Interrupted):
            return "(I was interrupted here.)"
        if isinstance(ending, Stopped):
            why = (
                "my reply was cut off for its length"
                if ending.cut
                else f"I was stopped here by {ending.cause}"
            )
            return ending.text or f"({why[0].upper()}{why[1:]}.)"
        if isinstance(ending, Failed):
            # An endpoint's error is no word of the model's; it may name an address that is nobody's business.
            return (
                ending.reason
                if ending.by == "model" and ending.reason
                else "(I could not go on here.)"
            )
        return getattr(ending, "text", "") or "(The run ended here.)"


def place_of(exchanges: Sequence[Exchange], origin: str) -> int:
    """Where in a conversation a question of this origin stands, or will stand."""
    if not origin:
        return len(exchanges)
    places = (n for n, exchange in enumerate(exchanges) if exchange.origin == origin)
    return next(places, len(exchanges))
