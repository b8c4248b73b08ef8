"""Estimates the number of tokens in texts and messages, without a tokenizer."""

from __future__ import annotations

import json
import string
from collections.abc import Iterable

from archytas_nb.loop.events import Json, Message

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
_PER_WORD = 0.68
_PER_MESSAGE = 5
_PER_IMAGE = 1000


def _cases() -> bytes:
    cases = bytearray(b"." * 256)
    for letter in string.ascii_lowercase:
        cases[ord(letter)] = ord("a")
        cases[ord(letter.upper())] = ord("A")
    return bytes(cases)


_CASES = _cases()
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
    if value:
        return text_tokens(json.dumps(value, ensure_ascii=False, default=str))
    return 0


def message_tokens(messages: Iterable[Message]) -> int:
    """The estimated number of tokens in messages; an image counts as a thousand."""
    total = 0
    for message in messages:
        texts = texts_of(message)
        content = message.get("content")
        images = 0
        if isinstance(content, list):
            images = len(content) - len(texts)
        for call in message.get("tool_calls", ()):
            texts += call["function"].values()
        total += _PER_MESSAGE + _PER_IMAGE * images + sum(map(text_tokens, texts))
    return total


def texts_of(message: Message) -> list[str]:
    """The texts of a message's content, which is a text or a list of parts, without images."""
    content = message.get("content")
    if isinstance(content, list):
        return [part["text"] for part in content if part.get("type") == "text"]
    if isinstance(content, str):
        return [content]
    return []
