"""A Python value → a bounded value that JSON can carry, for a model to read. Never trusts the object.

Deterministic: sets are sorted, memory addresses are left out. Types are asked of ``type(value)``, because
``__class__`` may lie. Numpy and its like are recognised by their module's name and never imported.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import itertools
import math
import pathlib
import re
import uuid
from collections.abc import Iterable, Mapping
from typing import Any

from archytas_nb.errors import ToolTimeout
from archytas_nb.tools import frames
from archytas_nb.tools.clip import clip

MAX_CHARS = 10_000_000
"""The most characters of all texts in a value that are looked at."""

MAX_ITEMS = 1000
"""The most items of one container that are looked at; a model cannot use more, and memory is finite."""

_LONGEST_DATA = 500
"""Characters of an array or a frame inside another value; there may be many of them."""
_MOST = 20_000_000
"""Items of a set that are read: a user's own iterator may never end, whatever its length says."""

_ADDRESS = re.compile(r" at 0x[0-9A-Fa-f]+")
_AS_TEXT = (
    dt.timedelta,
    decimal.Decimal,
    fractions.Fraction,
    pathlib.PurePath,
    uuid.UUID,
    complex,
    range,
    re.Pattern,
)
_DATES = (dt.date, dt.time)


class Plain:
    """One conversion.

    Attributes:
        complete: Whether nothing has been left out so far.
        opaque: Whether some part was an object that only its repr could show.
    """

    def __init__(self, max_depth: int = 12) -> None:
        self.complete = True
        self.opaque = False
        self._depth = max_depth
        self._open: set[int] = set()
        self._chars = MAX_CHARS
        self._left = 20 * MAX_ITEMS  # values in all, whatever the nesting

    def convert(self, value: Any) -> Any:
        """Convert a value; an object that fails on the way is shown by its type."""
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind in (bool, type(None)):
            return value
        self._left -= 1
        if self._left < 0 or len(self._open) >= self._depth or id(value) in self._open:
            self.complete = False
            return "…" if id(value) not in self._open else "… (contains itself)"
        self._open.add(id(value))
        try:
            return self._convert(value, kind)
        except (KeyboardInterrupt, ToolTimeout):
            raise
        except BaseException:  # noqa: BLE001  (whatever the object does, the loop goes on)
            self.opaque = True
            return self._text(safe_repr(value))
        finally:
            self._open.discard(id(value))

    def _convert(self, value: Any, kind: type) -> Any:
        if issubclass(kind, enum.Enum):
            return self.convert(value.value)
        if issubclass(kind, str):
            return self._text(str.__str__(value))
        if issubclass(kind, int):
            return (
                int(value) if abs(value) < 10**300 else f"an integer of {value.bit_length()} bits"
            )
        if issubclass(kind, float):
            return float(value) if math.isfinite(value) else str(float(value))
        if issubclass(kind, (bytes, bytearray, memoryview)):
            return bytes_text(bytes(value[:200]), len(value))
        if issubclass(kind, _DATES):
            return value.isoformat()
        if issubclass(kind, _AS_TEXT):
            return str(value)
        if frames.is_scalar(value):
            return self.convert(value.item())
        if frames.is_data(value):
            self.opaque = True
            text, whole = frames.one_line(value)
            shown = clip(text, _LONGEST_DATA)
            self.complete &= whole and shown == text
            return shown
        return self._structured(value, kind)

    def _structured(self, value: Any, kind: type) -> Any:
        if issubclass(kind, Mapping):
            return {
                self._key(key): self.convert(each)
                for key, each in self._some(value.items(), len(value))
            }
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            return {
                name: self.convert(each) for name, each in zip(kind._fields, value, strict=True)
            }
        if issubclass(kind, (list, tuple)) or kind.__name__ == "deque":
            return self._list(value)
        if issubclass(kind, (set, frozenset)) or kind.__name__ in {
            "dict_keys",
            "dict_values",
            "dict_items",
        }:
            items = list(itertools.islice(value, _MOST))
            return self._list(
                sorted(items, key=_order) if issubclass(kind, (set, frozenset)) else items
            )
        if dataclasses.is_dataclass(kind):
            fields = [field.name for field in dataclasses.fields(kind) if field.repr]
            return {name: self.convert(getattr(value, name)) for name in fields}
        if callable(getattr(kind, "model_dump", None)):
            return self.convert(value.model_dump(mode="python"))
        self.opaque = True
        return self._text(safe_repr(value))

    def _text(self, text: str) -> str:
        """A text, whole as long as there is room; as many texts may be in a value as it likes."""
        self._chars -= len(text)
        if self._chars >= 0:
            return text
        self.complete = False
        return text[:20] + "…"

    def _list(self, value: Any) -> list[Any]:
        size = len(value)
        if size <= MAX_ITEMS:
            return [self.convert(each) for each in itertools.islice(value, MAX_ITEMS)]
        self.complete = False
        head, tail = MAX_ITEMS * 3 // 4, MAX_ITEMS // 4
        has_places = hasattr(type(value), "__getitem__") and type(value).__name__ != "deque"
        items = value if has_places else list(itertools.islice(value, _MOST))
        shown = [self.convert(each) for each in itertools.islice(items[:head], head)]
        rest = [self.convert(each) for each in itertools.islice(items[size - tail :], tail)]
        return [*shown, f"… {size - head - tail:,} items left out …", *rest]

    def _some(self, items: Iterable[Any], size: int) -> Iterable[Any]:
        for count, each in enumerate(items):
            if count >= MAX_ITEMS:
                self.complete = False
                yield f"… {size - MAX_ITEMS:,} entries left out", "…"
                return
            yield each

    def _key(self, key: Any) -> str:
        if type(key) is str:
            return key
        plain = self.convert(key)
        return plain if isinstance(plain, str) else safe_repr(plain)


def bytes_text(data: bytes, size: int) -> str:
    """Show bytes: their number and how they begin."""
    return f"{size:,} bytes: {data[:100]!r}{'…' if size > 100 else ''}"


def safe_repr(value: Any) -> str:
    """Return ``repr(value)`` without memory addresses; an object whose repr fails is shown by its type."""
    try:
        text = repr(value)
        return _ADDRESS.sub("", str.__str__(text))
    except (KeyboardInterrupt, ToolTimeout):
        raise
    except BaseException as error:  # noqa: BLE001  (whatever the object does)
        return f"<{type(value).__name__} object, its repr raised {type(error).__name__}>"


def _order(value: Any) -> tuple[str, Any, str]:
    number = value if type(value) in (int, float) and value == value else 0  # noqa: PLR0124  (NaN has no order)
    kind = "number" if type(value) in (int, float) else type(value).__name__
    return kind, number, safe_repr(value)
