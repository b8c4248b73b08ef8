"""About how many tokens a text has, without a tokenizer. Pure text; it errs on the side of too many."""

from __future__ import annotations

import json
from collections.abc import Iterable

from archytas_nb.react.events import Json, Message

_BYTES = 3.5
"""Bytes of a token: 4 in English prose, 3 in JSON and in code, 3 of one Chinese character."""
_DIGITS = 0.5
"""What a digit costs beyond its byte: many tokenizers make a token of each."""
_PER_MESSAGE = 5
_PER_IMAGE = 1000
_TEN = "0123456789"


def text_tokens(text: str) -> int:
    """About how many tokens a text has."""
    length = len(text) if text.isascii() else len(text.encode("utf-8", "replace"))
    digits = sum(map(text.count, _TEN))
    return int(length / _BYTES + digits * _DIGITS) + 1


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
            total += text_tokens(call["function"]["arguments"]) + text_tokens(call["function"]["name"])
    return total


def texts_of(message: Message) -> list[str]:
    """The texts of a message's content, be it plain or in parts; images are left out."""
    content = message.get("content")
    if isinstance(content, list):
        return [part["text"] for part in content if part.get("type") == "text"]
    return [content] if isinstance(content, str) else []
