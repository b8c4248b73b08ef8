"""About how many tokens a text has, without a tokenizer. Pure text; it errs on the side of too many."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable

from archytas_nb.loop.events import Json, Message

# Tokens of each piece, held against the largest count of three tokenizers (tests/loop/test_tokens.py).
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
_MOST = 100_000
"""Characters that are counted; of a longer text so many in ten pieces."""
_PER_MESSAGE = 5
_PER_IMAGE = 1000


def text_tokens(text: str) -> int:
    """About how many tokens a text has."""
    counted = text
    if len(text) > _MOST:
        pieces = range(0, len(text), len(text) // 10)
        counted = "".join(text[at : at + _MOST // 10] for at in pieces)
    costs = _ASCII if counted.isascii() else _ASCII + _OTHER
    tokens = sum(cost * len(piece.findall(counted)) for piece, cost in costs)
    return int(tokens * len(text) / max(1, len(counted))) + 1


def json_tokens(value: Json) -> int:
    """About how many tokens a value has that travels beside the messages, such as specifications of tools."""
    return text_tokens(json.dumps(value, ensure_ascii=False, default=str)) if value else 0


def message_tokens(messages: Iterable[Message]) -> int:
    """About how many tokens messages have; an image counts as a thousand."""
    total = 0
    for message in messages:
        total += _PER_MESSAGE
        for text in texts_of(message):
            total += text_tokens(text)
        content = message.get("content")
        if isinstance(content, list):
            total += _PER_IMAGE * sum(part.get("type") == "image_url" for part in content)
        for call in message.get("tool_calls", ()):
            total += text_tokens(call["function"]["arguments"]) + text_tokens(
                call["function"]["name"]
            )
    return total


def texts_of(message: Message) -> list[str]:
    """The texts of a message's content, be it plain or in parts; images are left out."""
    content = message.get("content")
    if isinstance(content, list):
        return [part["text"] for part in content if part.get("type") == "text"]
    return [content] if isinstance(content, str) else []
