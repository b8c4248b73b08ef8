"""A value in a few words, for the model."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable
from typing import Any

from archytas_nb.errors import STOPS
from archytas_nb.loop.events import ValueKind
from archytas_nb.sandbox.values import (
    MAPPINGS,
    SAME,
    SEQUENCES,
    Opaque,
    is_named_tuple,
    record_of,
    scalar,
)
from archytas_nb.tools.render import is_written_as_text
from archytas_nb.words import escape, truncate_line

MAX_SHORT = 200
"""Maximum number of characters of a value that the model reads."""


def short(value: Any) -> str:
    """A repr of at most 200 characters, on one line, of a value that a program gave."""
    text = _Repr(MAX_SHORT).text(value)
    return truncate_line(escape(text), MAX_SHORT)


def kind_of(value: Any) -> ValueKind:
    """The kind of a value, in words."""
    kind = type(value)
    if value is None:
        return "none"
    for known, name in _KINDS.items():
        if kind in known:
            return name
    try:
        plain = scalar(value)
    except STOPS:
        raise
    except Exception:  # noqa: BLE001 - it has no plain value, or raises
        return "other"
    return "other" if type(plain) is kind else kind_of(plain)


_KINDS: dict[frozenset[Any], ValueKind] = {
    frozenset({bool}): "bool",
    frozenset({int, float}): "number",
    frozenset({str}): "text",
    frozenset(each for each, plain in SEQUENCES.items() if plain is list): "list",
    frozenset(each for each, plain in SEQUENCES.items() if plain is tuple): "tuple",
    frozenset(each for each, plain in SEQUENCES.items() if plain in (set, frozenset))
    | frozenset(MAPPINGS): "collection",
}


class _Repr:
    """A repr by the table of types; of an object only its type and its fields are named."""

    def __init__(self, size: int) -> None:
        self._left = size  # characters that are still worth writing
        self._depth = 0

    def text(self, value: Any) -> str:
        if self._left <= 0 or self._depth > 20:
            return "…"
        self._depth += 1
        try:
            text = self._text(value)
        except STOPS:
            raise
        except Exception:  # noqa: BLE001  (a user's object may raise anything)
            text = f"<{type(value).__name__}>"
        self._depth -= 1
        return text

    def _written(self, text: str) -> str:
        self._left -= len(text)
        return text

    def _text(self, value: Any) -> str:
        kind = type(value)
        if kind in (str, bytes):
            return self._written(repr(value[: MAX_SHORT + 1]))
        if kind is int and value.bit_length() > 4 * MAX_SHORT:
            # To write an int as text is slow, and limited.
            return self._written(f"{hex(value)[:MAX_SHORT]}…")
        if kind in SAME or kind in (dt.datetime, dt.time):
            return self._written(repr(value))
        if kind in MAPPINGS:
            pairs = (f"{self.text(key)}: {self.text(each)}" for key, each in value.items())
            return f"{{{self._joined(pairs)}}}"
        if kind in SEQUENCES:
            return self._sequence(value)
        if is_named_tuple(kind):
            fields: Any = dict(zip(kind._fields, value, strict=True))
        else:
            fields = record_of(value)
        if fields is None:
            return self._other(value)
        pairs = (f"{name}={self.text(each)}" for name, each in fields.items())
        return f"{kind.__name__}({self._joined(pairs)})"

    def _other(self, value: Any) -> str:
        try:
            plain = scalar(value)
        except Opaque:
            if is_written_as_text(type(value)):
                return self._written(repr(value))
            size = getattr(value, "shape", None)
            what = f" of shape {size}" if type(size) is tuple else ""
            return self._written(f"<{type(value).__name__}{what}>")
        return self.text(plain)

    def _sequence(self, value: Any) -> str:
        kind = SEQUENCES[type(value)]
        text = self._joined(self.text(each) for each in value)
        if kind is tuple:
            return f"({text},)" if len(value) == 1 else f"({text})"
        if kind is list:
            return f"[{text}]"
        inside = f"{{{text}}}" if value else ""
        if kind is set and value:
            return inside
        return f"{kind.__name__}({inside})"

    def _joined(self, texts: Iterable[str]) -> str:
        """Items, until there is no space left."""
        written = []
        for each in texts:
            written.append(each)
            if self._left <= 0:
                break
        return ", ".join(written)
