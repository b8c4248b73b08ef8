"""The messages of a run's requests, within the model's context window."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from archytas_nb.loop.events import Json, Message
from archytas_nb.loop.function_calling import FunctionCalling
from archytas_nb.loop.history import Exchange, NameOf, Step, compacted, view
from archytas_nb.loop.lenient import replace_surrogates
from archytas_nb.loop.text_protocol import TextProtocol

WireProtocol: TypeAlias = TextProtocol | FunctionCalling
"""One of the two forms in which a conversation is sent and replies are read."""

CONTEXT_TOKENS = 100_000
"""Context length that a model is taken to have if it does not say; most hosted ones have more."""
_MARGIN = 150
"""Tokens for the chat template, and for the words that make a turn the last one."""
_MIN_REPLY = 1024
"""Tokens of a reply for which the conversation is shortened in any case."""


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

    def remake(self) -> None:
        """Make the messages again from the record as it is now."""
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


# ── estimates of tokens ───────────────────────────────────────────────────────────────────────────

# Tokens of each piece, compared with the largest count of three tokenizers (test_messages.py).
_ASCII = (
    (re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+"), 0.68),  # a word, beside its letters
    (re.compile(r"[A-Za-z]"), 0.205),
    (re.compile(r"[0-9]"), 1.0),
    (re.compile(r"\s(?=[0-9])|\n"), 1.1),
    (re.compile(r" {2,}|\t+"), 0.9),
    (re.compile(r"[!-/:-@\[-`{-~]"), 0.85),
)
_OTHER = (
    (re.compile(r"[\u00c0-\u024f]"), 1.6),  # letters with accents cut a word into pieces
    (re.compile(r"[\u0400-\u04ff]"), 0.65),  # Cyrillic
    (re.compile(r"[\u2000-\ud7ff\uf900-\uffff]"), 1.25),  # Chinese, Japanese, Korean, symbols
    (re.compile(r"[\U00010000-\U0010ffff]"), 3.0),  # emoji
    (re.compile(r"[\u0080-\u00bf\u0250-\u03ff\u0500-\u1fff\ud800-\uf8ff]"), 1.15),
)
_MAX_COUNTED = 100_000
"""Characters that are counted; of a longer text so many in ten pieces."""
_PER_MESSAGE = 5
_PER_IMAGE = 1000


def text_tokens(text: str) -> int:
    """About how many tokens a text has."""
    counted = text
    if len(text) > _MAX_COUNTED:
        pieces = range(0, len(text), len(text) // 10)
        counted = "".join(text[at : at + _MAX_COUNTED // 10] for at in pieces)
    costs = _ASCII if counted.isascii() else _ASCII + _OTHER
    tokens = sum(cost * len(piece.findall(counted)) for piece, cost in costs)
    return int(tokens * len(text) / max(1, len(counted))) + 1


def json_tokens(value: Json) -> int:
    """About how many tokens a value has as JSON, such as the specifications of tools."""
    return text_tokens(json.dumps(value, ensure_ascii=False, default=str)) if value else 0


def message_tokens(messages: Iterable[Message]) -> int:
    """About how many tokens messages have; an image counts as a thousand."""
    total = 0
    for message in messages:
        texts, content = texts_of(message), message.get("content")
        images = len(content) - len(texts) if isinstance(content, list) else 0
        for call in message.get("tool_calls", ()):
            texts += call["function"].values()
        total += _PER_MESSAGE + _PER_IMAGE * images + sum(map(text_tokens, texts))
    return total


def texts_of(message: Message) -> list[str]:
    """The texts of a message's content, be it plain or in parts; images are left out."""
    content = message.get("content")
    if isinstance(content, list):
        return [part["text"] for part in content if part.get("type") == "text"]
    return [content] if isinstance(content, str) else []
