"""Images in messages, for endpoints that take none of them or only some.

Pure: messages in, messages out; those that are given are never changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from archytas_nb.loop.events import Json, Message

UNSEEN = "[an image that this model cannot see]"


def images_in(messages: Sequence[Message]) -> int:
    """How many images messages hold."""
    return sum(_is_image(part) for message in messages for part in _parts(message))


def seen(messages: Sequence[Message], most: int) -> tuple[Message, ...]:
    """Messages with at most that many images, the last ones; the others are replaced by a line of text.

    A message that has no image left becomes plain text: what takes no images mostly takes no list of parts.
    """
    over = images_in(messages) - most
    result: list[Message] = []
    for message in messages:
        parts = _parts(message)
        here = sum(map(_is_image, parts))
        gone = max(0, min(over, here))
        over -= gone
        changed = parts and (gone or most == 0)
        content = _without(parts, gone, plain=gone == here) if changed else None
        result.append({**message, "content": content} if changed else message)
    return tuple(result)


def _without(parts: Sequence[Json], gone: int, *, plain: bool) -> Json:
    """The content without its first images."""
    places = [at for at, part in enumerate(parts) if _is_image(part)][:gone]
    result = [
        {"type": "text", "text": UNSEEN} if at in places else part for at, part in enumerate(parts)
    ]
    return "\n".join(str(part.get("text", "")) for part in result) if plain else result


def _parts(message: Message) -> Sequence[Json]:
    content = message.get("content")
    return content if isinstance(content, (list, tuple)) else ()


def _is_image(part: Json) -> bool:
    return isinstance(part, dict) and part.get("type") == "image_url"
