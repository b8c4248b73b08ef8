"""What is sent in a run: messages that grow with the record, and are made anew where it has become too long.

It knows the record and a wire form, and how much the model can take; what is cut is decided in `compact`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from archytas_nb.loop.compact import NameOf, compacted, view
from archytas_nb.loop.events import Ending, Json, Message
from archytas_nb.loop.guards import SMALL_REPLY_TOKENS
from archytas_nb.loop.history import Cut, Exchange, Step
from archytas_nb.loop.tokens import json_tokens, message_tokens
from archytas_nb.loop.wire import Wire, messages_of, messages_of_exchange, messages_of_step

CONTEXT_TOKENS = 100_000
"""Tokens that a model is taken to have room for where it does not say; a hosted one mostly has more."""
_MARGIN = 150
"""Tokens for the chat template, and for the words that make a turn the last one."""


def _nameless(*_: object) -> str:
    return ""


@dataclass(frozen=True, slots=True)
class Room:
    """How much the model can take, and what becomes of that for which there is no room.

    Attributes:
        context: Tokens of a conversation and its reply together, or None where the model has not said yet.
        name_of: Names the variable that holds the value of an outcome that is shortened.
    """

    context: Callable[[], int | None] = lambda: None
    name_of: NameOf = _nameless


@dataclass(frozen=True, slots=True)
class _Sent:
    """What is sent of one exchange, in one wire form, and how its ending and number of steps were then."""

    messages: list[Message]
    tokens: int
    asides: dict[str, Json]
    over: tuple[Ending | None, int]


class Sending:
    """The messages of a run.

    Args:
        wire: The wire form.
        past: The exchanges before this one.
        exchange: This one; what is cut is noted in it.
        room: How much the model can take.
        reply_tokens: Maximum number of tokens in a reply.

    Attributes:
        messages: What is sent next; replaced, never changed, where it is compacted.
        tokens: About how many tokens they have.
        reply_tokens: As given; less after a request was refused for its length.
        asides: What came with the calls in them; replaced, never changed, as they are.
    """

    def __init__(
        self,
        wire: Wire,
        past: Sequence[Exchange],
        exchange: Exchange,
        room: Room,
        reply_tokens: int,
    ) -> None:
        self._wire = wire
        self._past = tuple(past)
        self._exchange = exchange
        self._room = room
        self._beside: int | None = None
        self.asides: dict[str, Json] = {}
        self.reply_tokens = reply_tokens
        if not exchange.steps and past:
            exchange.cut = _within(past[-1].cut, len(past))
        self.remake()

    def add(self, step: Step) -> None:
        """Take over a step that was added to the exchange."""
        more = messages_of_step(self._wire, step)
        self.messages += more
        self.tokens += message_tokens(more)
        if asides := step.asides:
            self.asides = {**self.asides, **asides}

    def fit(self) -> str:
        """Compact where the messages are too long for the model.

        Returns:
            What was done, for a person; empty where nothing was.
        """
        budget = self._budget()
        return self._compact(budget, "the conversation is too long") if self.tokens > budget else ""

    def fit_harder(self) -> str:
        """Compact after the endpoint refused the messages for their length.

        Returns:
            What was done, for a person.
        """
        sent = self.tokens
        self.reply_tokens = max(self.reply_tokens // 2, 1)
        self._exchange.cut = replace(self._exchange.cut, room=max(sent * 3 // 4, 1))
        said = self._compact(self._budget(), "the endpoint finds the conversation too long")
        if said:
            return said
        self._exchange.cut = replace(
            self._exchange.cut, room=sent
        )  # less than that is not to be had
        return (
            f"the endpoint finds the conversation too long, and nothing of its {sent:,} tokens can be left out: "
            "it is asked once more for a shorter reply"
        )

    def _compact(self, budget: int, why: str) -> str:
        before, cut = self.tokens, self._exchange.cut
        exchanges = [*self._past, self._exchange]
        self._exchange.cut = compacted(exchanges, cut, budget, self._size, self._room.name_of)
        if self._exchange.cut == cut:
            return ""
        self.remake()
        return f"{why} ({before:,} tokens, about): what is old in it is shortened or left out ({self.tokens:,})"

    def remake(self) -> None:
        """Make the messages anew, of the record as it is now."""
        self.messages = messages_of(self._wire, ())
        self.tokens = message_tokens(self.messages)
        self.asides = {}
        for exchange in view([*self._past, self._exchange], self._exchange.cut):
            sent = self._sent(exchange)
            self.messages += sent.messages
            self.tokens += sent.tokens
            self.asides |= sent.asides

    def _size(self, exchanges: Sequence[Exchange]) -> int:
        system = message_tokens(messages_of(self._wire, ()))
        return system + sum(self._sent(exchange).tokens for exchange in exchanges)

    def _sent(self, exchange: Exchange) -> _Sent:
        """What is sent of an exchange; of one that is over it is made once, for a conversation may be long."""
        over = exchange.ending, len(exchange.steps)
        kept: _Sent | None = exchange.sent.get(self._wire.name)
        if kept is not None and kept.over == over:
            return kept
        messages = messages_of_exchange(self._wire, exchange)
        asides = {key: told for step in exchange.steps for key, told in step.asides.items()}
        sent = _Sent(messages, message_tokens(messages), asides, over)
        if exchange.ending is not None:
            exchange.sent[self._wire.name] = sent
        return sent

    @property
    def beside(self) -> int:
        """About how many tokens travel beside the messages."""
        if self._beside is None:
            self._beside = json_tokens(self._wire.beside)
        return self._beside

    def _budget(self) -> int:
        """Tokens that the messages may have."""
        context = self._room.context() or CONTEXT_TOKENS
        # A reply may be longer than this where there is room; the conversation is not shortened for it.
        reply = min(self.reply_tokens, max(context // 4, SMALL_REPLY_TOKENS))
        room = max(context - reply - self.beside - _MARGIN, context // 4)
        return min(room, self._exchange.cut.room or room)


def _within(cut: Cut, count: int) -> Cut:
    """A cut that leaves the exchange after these alone, also where some of them are gone since."""
    if cut.folded < count:
        return cut
    return replace(cut, folded=count, dropped=min(cut.dropped, count), omitted=0)
