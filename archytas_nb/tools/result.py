"""A Python value → what the model reads: bounded, deterministic, never empty, and never an exception.

Knows values only: not the tool they came from, and not the namespace they may be kept in.
"""

from __future__ import annotations

import itertools
import json
import sys
import types
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from archytas_nb.errors import ToolTimeout
from archytas_nb.tools import frames
from archytas_nb.tools.clip import clip
from archytas_nb.tools.failure import failure_text
from archytas_nb.tools.pictures import picture
from archytas_nb.tools.plain import MAX_ITEMS, Plain, bytes_text, safe_repr

NO_OUTPUT = "(no output)"
MAX_BYTES = 256_000_000
"""The most bytes of a generator's items that are read."""

_LAZY = (
    types.GeneratorType,
    map,
    filter,
    zip,
    enumerate,
    reversed,
    itertools.chain,
    itertools.islice,
)


@dataclass(frozen=True, slots=True)
class Rendered:
    """What the model reads of a value.

    Attributes:
        text: Never empty, at most as long as was asked for.
        images: PNG images, base64.
        complete: Whether the text shows the whole value.
        plain: Whether the value is one that JSON could carry back as an argument.
    """

    text: str
    images: tuple[str, ...] = ()
    complete: bool = True
    plain: bool = True


@dataclass(frozen=True, slots=True)
class Drained:
    """The items of a generator, as far as they were read."""

    items: list[Any]
    complete: bool


def is_lazy(value: Any) -> bool:
    """Whether the value yields its items only once, so that they must be read to be shown."""
    return issubclass(type(value), _LAZY)


class Reader:
    """The items of a generator while they are read: at most ``MAX_ITEMS``, and no more than fits in memory."""

    def __init__(self) -> None:
        self.items: list[Any] = []
        self._bytes = 0

    def takes(self, item: Any) -> bool:
        """Take an item; False where there was no room for it, and nothing more is to be read."""
        if len(self.items) >= MAX_ITEMS or self._bytes >= MAX_BYTES:
            return False
        self.items.append(item)
        try:
            self._bytes += sys.getsizeof(item)
        except Exception:  # noqa: BLE001  (a user's __sizeof__ may do anything)
            self._bytes += 1
        return True


def drain(iterator: Iterator[Any]) -> Drained:
    """Read the first items and close the iterator; what it raises is the caller's to handle."""
    reader = Reader()
    for item in iterator:
        if not reader.takes(item):
            if hasattr(iterator, "close"):
                iterator.close()
            return Drained(reader.items, complete=False)
    return Drained(reader.items, complete=True)


def render(value: Any, max_chars: int = 8000) -> Rendered:
    """Show a value to the model.

    Args:
        value: Any object. One that defines ``_ai_repr_`` or ``_repr_llm_`` speaks for itself.
        max_chars: The most characters of the text; at least 1.

    Returns:
        Its text and images; whatever the object does, never an exception (save KeyboardInterrupt).
    """
    max_chars = max(max_chars, 1)
    try:
        shown = _render(value, max_chars)
    except (KeyboardInterrupt, ToolTimeout):
        raise
    except BaseException:  # noqa: BLE001  (whatever the object does, the loop goes on)
        shown = Rendered(safe_repr(value), plain=False)
    text = (
        shown.text
        if shown.text.strip()
        else "(empty text)"
        if shown.text == ""
        else "(only white space)"
    )
    if not text.isascii():
        text = text.encode("utf-8", "replace").decode(
            "utf-8"
        )  # half a surrogate pair cannot be sent
    clipped = clip(text, max_chars)
    return Rendered(clipped, shown.images, shown.complete and clipped == text, shown.plain)


def _render(value: Any, max_chars: int) -> Rendered:
    kind = type(value)
    if value is None:
        return Rendered(NO_OUTPUT)
    if kind is str:
        return Rendered(value)
    spoken = _spoken(value)
    if spoken is not None:
        return Rendered(spoken, plain=False)
    if issubclass(kind, BaseException):
        return Rendered(failure_text(value, max_chars), plain=False)
    if issubclass(kind, (bytes, bytearray)):
        return Rendered(bytes_text(bytes(value[:200]), len(value)), complete=len(value) <= 100)
    if frames.is_data(value):
        text, complete = frames.preview(value)
        return Rendered(text, complete=complete, plain=False)
    if isinstance(value, Drained):
        rest = (
            ""
            if value.complete
            else f"\n… the first {len(value.items)} items; the rest was not read"
        )
        inner = _render(value.items, max_chars)
        return Rendered(
            inner.text + rest, inner.images, inner.complete and value.complete, inner.plain
        )
    if is_lazy(value):
        return _render(drain(value), max_chars)
    image = picture(value)
    if image is not None:
        return Rendered(f"[image: {kind.__name__}]", (image,), plain=False)
    plain = Plain()
    converted = plain.convert(value)
    text = converted if isinstance(converted, str) else _json(converted)
    return Rendered(text, complete=plain.complete, plain=not plain.opaque)


def _spoken(value: Any) -> str | None:
    """Ask the object how it wants to be read by a model."""
    for name in ("_ai_repr_", "_repr_llm_"):
        method = getattr(type(value), name, None)
        if not callable(method):
            continue
        try:
            text = method(value)
        except (KeyboardInterrupt, ToolTimeout):
            raise
        except BaseException:  # noqa: BLE001, S112  (then the object is shown as any other)
            continue
        if isinstance(text, str) and text:
            return text
    return None


def _json(value: Any) -> str:
    """Write JSON; a list of objects gets a line for each, as models read tables better so."""
    if isinstance(value, list) and len(value) > 1 and all(isinstance(each, dict) for each in value):
        return "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in value) + "\n]"
    return json.dumps(value, ensure_ascii=False)
