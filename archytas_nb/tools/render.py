"""Render a Python value as text for the model: bounded, deterministic and never empty.

Objects are not trusted: ``type(value)`` is used because ``__class__`` can be overridden, and
exceptions of a user's methods are caught.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import enum
import itertools
import json
import math
import os
import re
import sys
import traceback
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any, Self

from archytas_nb.errors import STOPS
from archytas_nb.loop.events import NO_OUTPUT, ROOM, Output
from archytas_nb.tools import data
from archytas_nb.tools.data import MAX_IMAGES, picture
from archytas_nb.tools.texts import (
    MISSING,
    is_missing,
    is_scalar,
    plain_scalar,
    safe_repr,
    safe_str,
)
from archytas_nb.words import truncate_middle

MAX_RESULT_CHARS = 8000
"""Maximum length of a result in characters, unless the tool has its own limit."""
_MAX_LEAVES = 10  # errors of a group whose texts are shown
_MAX_CAUSES = 5  # of an error, one after the other
_MAX_ERRORS = 50  # that are shown of one failure
MAX_BYTES = 64_000_000
"""Maximum size of the items that are read from a generator."""
MAX_ITEMS = 1000
"""Maximum number of items of one container that are read."""

_MAX_TEXT = 10_000_000  # characters of all strings in a value
_MAX_SET = 20_000_000  # items of a set: a user's iterator may be endless
_BELOW = "(below)"
"""Stands for a table or an array that is shown below the container that it is in."""
_SECTIONS = 12  # maximum number of them that are shown
_LEAST_SECTION = 200  # characters of one of them, whatever the others need
_LEAST_ENTRY = 40  # characters of an entry of a container that is too long
_KEYS = 40  # keys of objects in a list that are shown
_RECORDS = 3  # first objects of a list that is too long
_MAX_DEPTH = 12
_MAX_BYTES_SHOWN = 100
_PARTS = 8  # parts of an item whose size is measured
_LAZY = (
    types.GeneratorType, map, filter, zip, enumerate, reversed, itertools.chain, itertools.islice,
)  # fmt: skip
_AS_TEXT = {"decimal", "fractions", "pathlib", "uuid", "re"}  # modules of such types
_ANSI = re.compile(r"\x1b\][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b\[[0-?]*[ -/]*[@-~]")


@dataclass(frozen=True, slots=True)
class Rendered:
    """A value as the model sees it."""

    text: str  # never empty, at most `max_chars` long
    images: tuple[str, ...] = ()  # PNG in base64
    whole: bool = True  # whether the text is the complete value, or the value is an image


def render(value: Any, max_chars: int = MAX_RESULT_CHARS, room: int = ROOM) -> Rendered:
    """Render a value for the model.

    Args:
        value: Any object, also one that is rendered already. Its class can define the text with
            `_ai_repr_` or `_repr_llm_`.
        max_chars: Maximum number of characters of the text; at least 1.
        room: Characters up to which data and containers are shown whole; of longer ones both ends.

    Returns:
        Its text and images.

    Raises:
        KeyboardInterrupt: Exceptions of the object itself are not raised, but an interrupt is.
    """
    max_chars = max(max_chars, 1)
    try:
        room = min(room, max_chars)
        shown = value if type(value) is Rendered else _render(value, max_chars, room)
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001  (a user's object may raise anything)
        shown = Rendered(safe_repr(value), whole=False)
    text = shown.text
    if not text:
        text = "(empty text)"
    elif not text.strip():
        text = "(only white space)"
    if not text.isascii():  # half a surrogate pair cannot be sent
        text = text.encode("utf-8", "replace").decode("utf-8")
    clipped = truncate_middle(text, max_chars)
    return Rendered(clipped, shown.images, shown.whole and clipped == text)


def _render(value: Any, max_chars: int, room: int) -> Rendered:
    kind = type(value)
    if value is None:
        return Rendered(NO_OUTPUT)
    if kind is str:
        return Rendered(value)
    if kind in (bool, int, float):
        return _plain(value, room)
    own = _own_text(value)
    if own:
        return Rendered(own, whole=False)
    if issubclass(kind, BaseException):
        return Rendered(failure_text(value, max_chars), whole=False)
    if is_lazy(value):
        value = drain(value)
    if isinstance(value, Drained):
        return _drained(value, max_chars, room)
    value = data.unstyled(value)
    if data.is_data(value):
        shown = data.written(value, room)
        return Rendered(shown.text, whole=shown.whole)
    image = picture(value)
    if image is not None:
        return Rendered(image_text(value), (image,))
    return _plain(value, room)


def image_text(value: Any) -> str:
    """The text for a model of a value that is an image."""
    return f"[image: {type(value).__name__}]"


def _own_text(value: Any) -> str:
    """The text that the class of a value defines for a model; empty where it defines none."""
    for name in ("_ai_repr_", "_repr_llm_"):
        text = data.call_method(value, name)
        if isinstance(text, str) and text:
            return text
    return ""


def _drained(read: Drained, max_chars: int, room: int) -> Rendered:
    """The items of a generator, and whether there are more."""
    inner = _render(read.items, max_chars, room)
    if read.complete:
        return inner
    text = f"{inner.text}\n… the first {len(read.items)} items; the rest was not read"
    return Rendered(text, inner.images, whole=False)


def _plain(value: Any, room: int) -> Rendered:
    plain = _Plain()
    converted = plain.convert(value)
    images = tuple(dict.fromkeys(image for _, image in plain.images.values()))
    parts = []
    whole = plain.whole
    if plain.sections:
        converted = _without_sections(converted)
        # The rest besides tables is usually a few numbers.
        room = max(room - 50 * len(plain.sections), room // 2)
    if converted is not None or not plain.sections:
        text = _shortened(converted, room)
        whole = whole and text == _written(converted)
        parts.append(text)
        room -= len(text)
    for number, (path, each) in enumerate(plain.sections[:_SECTIONS]):
        share = room // (min(len(plain.sections), _SECTIONS) - number)
        shown = data.written(each, max(share, _LEAST_SECTION))
        parts.append(f"{path}: {shown.text}")
        whole = whole and shown.whole
        room -= len(shown.text)
    left = len(plain.sections) - _SECTIONS
    if left > 0:
        parts.append(f"… {left:,} more tables or arrays")
    return Rendered("\n".join(parts), images, whole and left <= 0)


def _without_sections(converted: Any) -> Any:
    """The rest of a container whose tables and arrays are shown below it; None if nothing is."""
    if isinstance(converted, dict):
        rest = {key: each for key, each in converted.items() if each != _BELOW}
        return rest or None
    return None if all(each == _BELOW for each in converted) else converted


def _written(converted: Any) -> str:
    return converted if isinstance(converted, str) else _json(converted)


def _json(value: Any) -> str:
    """JSON, with a list of objects on one line each, which is easier for models to read."""
    if isinstance(value, list) and len(value) > 1 and all(isinstance(each, dict) for each in value):
        return "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in value) + "\n]"
    return json.dumps(value, ensure_ascii=False)


# ── long values ───────────────────────────────────────────────────────────────────────────────────


class _Omitted(str):
    """Stands for parts of a container that were not read."""

    parts: int
    __slots__ = ("parts",)

    def __new__(cls, text: str, parts: int) -> Self:
        made = super().__new__(cls, text)
        made.parts = parts
        return made


def _number_of(values: Iterable[Any]) -> int:
    """How many parts these are, with those that were not read."""
    return sum(each.parts if type(each) is _Omitted else 1 for each in values)


def _shortened(value: Any, room: int) -> str:
    """JSON in this many characters: of what is too long, both ends and what is left out.

    A text that is all of the result is shown as it is.
    """
    if isinstance(value, str):
        return value
    return _in_room(value, room, outer=True)


def _in_room(value: Any, room: int, *, outer: bool = False) -> str:
    text = _json(value) if outer else json.dumps(value, ensure_ascii=False)
    if len(text) <= room:
        return text
    if isinstance(value, str):
        return json.dumps(truncate_middle(value, max(room - 2, 20)), ensure_ascii=False)
    if isinstance(value, dict):
        return _dict_in_room(value, room)
    if isinstance(value, list):
        is_of_records = len(value) > 1 and all(type(each) in (dict, _Omitted) for each in value)
        if outer and is_of_records:
            return _records_in_room(value, room)
        return _list_in_room(value, room)
    return text


def _dict_in_room(value: dict[str, Any], room: int) -> str:
    """The entries of a dict: short ones whole, and long ones in equal parts of what is left."""
    sizes = sorted(len(json.dumps(each, ensure_ascii=False)) for each in value.values())
    keys = list(value)
    shown = min(len(keys), max(room // _LEAST_ENTRY, 1))
    left = room - sum(len(key) + 6 for key in keys[:shown])
    share = max(left // shown, _LEAST_ENTRY)
    for number, size in enumerate(sizes[:shown]):
        share = max(left // (shown - number), _LEAST_ENTRY)
        if size > share:
            break
        left -= size
    parts = [
        f"{json.dumps(key, ensure_ascii=False)}: {_in_room(value[key], share)}"
        for key in keys[:shown]
    ]
    if left_out := _number_of(value[key] for key in keys[shown:]):
        parts.append(f"… {left_out:,} more")
    return f"{{{', '.join(parts)}}}"


def _list_in_room(value: list[Any], room: int) -> str:
    """The first items of a list, how many are left out, and the last ones."""
    share = max(room // 8, _LEAST_ENTRY)
    first: list[str] = []
    last: list[str] = []
    used = 0
    for most, texts, items in ((room // 4, first, value), (room // 3, last, value[::-1])):
        for item in items:
            text = _in_room(item, share)
            is_end = type(item) is _Omitted or len(first) + len(last) >= len(value)
            if is_end or used + len(text) > most:
                break
            texts.append(text)
            used += len(text) + 2
    left = _number_of(value[len(first) : len(value) - len(last)])
    middle = [f"… {left:,} more …"] if left else []
    return f"[{', '.join([*first, *middle, *reversed(last)])}]"


def _records_in_room(value: list[dict[str, Any]], room: int) -> str:
    """The keys of the objects in a list, and the first and the last objects."""
    facts = []
    number = _number_of(value)
    value = [each for each in value if type(each) is dict]
    keys = dict.fromkeys(key for each in value for key in each)
    for key in list(keys)[:_KEYS]:
        found = [each[key] for each in value if key in each]
        kinds = dict.fromkeys(type(each).__name__ for each in found)
        often = "" if len(found) == len(value) else f", in {len(found):,}"
        facts.append(f"{key} ({' or '.join(kinds)}{often})")
    if len(keys) > _KEYS:
        facts.append(f"… {len(keys) - _KEYS:,} more")
    share = max(room // 8, _LEAST_ENTRY)
    shown = min(_RECORDS, len(value) - 1)
    lines = [_in_room(each, share) for each in value[:shown]]
    left = number - shown - 1
    middle = [f"… {left:,} more …"] if left else []
    return "\n".join(
        [
            f"{number:,} objects with the keys {', '.join(facts)}",
            *lines,
            *middle,
            _in_room(value[-1], share),
        ]
    )


# ── text ──────────────────────────────────────────────────────────────────────────────────────────


def _bytes_text(value: Any) -> str:
    more = "…" if len(value) > _MAX_BYTES_SHOWN else ""
    return f"{len(value):,} bytes: {bytes(value[:_MAX_BYTES_SHOWN])!r}{more}"


_CLASS_NAME_ONLY = re.compile(r"<IPython\.core\.display\.\w+ object>")
_MARKUP = re.compile(r"(?is)<(script|style)\b.*?</\1\s*>|<[^<>]*>")


def output_text(output: Output) -> str:
    """The text of an output as a person sees it; empty if it has no text.

    Of a line that is overwritten, such as a progress bar, only the last state is kept.
    """
    mime = rich_media_type(output)
    if mime:
        text = truncate_middle(str(output.data[mime]), 16_000)
        if mime == "text/html":
            return _MARKUP.sub("", text)
        return text
    text = _ANSI.sub("", str(output.data.get("text/plain", "")).replace("\r\n", "\n"))
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def rich_media_type(output: Output) -> str:
    """The media type to read if the plain text is only a class name, as for ``Markdown``."""
    text = str(output.data.get("text/plain", ""))
    if output.kind != "display" or (text and not _CLASS_NAME_ONLY.fullmatch(text.strip())):
        return ""
    kinds = ("text/markdown", "text/latex", "text/html")
    return next((mime for mime in kinds if isinstance(output.data.get(mime), str)), "")


IMAGES = ("image/png", "image/jpeg", "image/svg+xml", "image/gif", "image/webp")
"""The media types of images, the first one of a display is shown."""

_IN_TRACE = {"text/plain", "text/markdown", "text/latex", *IMAGES}
_DRAWN_BY = {
    "application/vnd.jupyter.widget-view": "widget",
    "application/vnd.plotly": "Plotly chart",
    "application/vnd.vegalite": "Vega-Lite chart",
    "application/vnd.vega": "Vega chart",
    "application/vnd.holoviews": "HoloViews plot",
    "application/vnd.bokehjs": "Bokeh plot",
    "application/geo+json": "map",
    "application/json": "JSON",
    "application/javascript": "JavaScript",
    "application/pdf": "PDF",
}
_CHARTS_IN_HTML = {"vegaEmbed": "Vega-Lite chart", "Plotly.newPlot": "Plotly chart"}
_HTML_NAMES = {"table": "table", "audio": "audio", "video": "video", "iframe": "page"}
_TELLING_TAG = re.compile(rf"(?i)<({'|'.join(_HTML_NAMES)})\b")


def rich_name(data: Mapping[str, Any], metadata: Mapping[str, Any]) -> str:
    """The kind of a display that only a front end can draw, in a word or two.

    Empty if a trace can show it (text, Markdown, a formula, an image), and for a trace itself.
    """
    if "archytas_nb" in metadata or _IN_TRACE.issuperset(data):
        return ""
    for start, name in _DRAWN_BY.items():
        if any(mime.startswith(start) for mime in data):
            return name
    page = str(data.get("text/html", ""))
    if not page:
        return next(mime for mime in data if mime not in _IN_TRACE)
    for call, name in _CHARTS_IN_HTML.items():
        if call in page:
            return name
    found = _TELLING_TAG.search(page)
    return _HTML_NAMES[found[1].lower()] if found else "HTML"


def _is_scalar_of_pandas(value: Any) -> bool:
    """Whether pandas knows a value as one that cannot change, such as a period."""
    pandas = sys.modules.get("pandas")
    return pandas is not None and bool(pandas.api.types.is_scalar(value))


def is_written_as_text(kind: type[Any]) -> bool:
    """Whether the text of its values says all that a model needs to know of them."""
    modules = {each.__module__.partition(".")[0] for each in kind.__mro__}
    return not modules.isdisjoint(_AS_TEXT)


# ── values ────────────────────────────────────────────────────────────────────────────────────────


class _Plain:
    """Converts a value to plain data of bounded size that JSON can represent."""

    def __init__(self) -> None:
        self.whole = True  # whether nothing was omitted or shown only as a repr
        self.images: dict[int, tuple[Any, str]] = {}  # objects by id, with their PNG
        self.sections: list[tuple[str, Any]] = []  # tables and arrays, with their paths
        self._path: list[str] = []
        self._open: set[int] = set()
        self._chars = _MAX_TEXT
        self._left = 20 * MAX_ITEMS  # values in total, at any depth

    def convert(self, value: Any) -> Any:
        kind = type(value)
        if kind is str:
            return self._text(value)
        if kind in (bool, type(None)):
            return value
        self._left -= 1
        if self._left < 0 or len(self._open) >= _MAX_DEPTH or id(value) in self._open:
            self.whole = False
            if id(value) not in self._open:
                return "…"
            return "… (contains itself)"
        self._open.add(id(value))
        try:
            if kind in (dict, list, tuple):
                return self._container(value, kind)
            if kind in (int, float):
                return _json_number(value)
            return self._convert(value, kind)
        except STOPS:
            raise
        except BaseException:  # noqa: BLE001  (a user's object may raise anything)
            self.whole = False
            return self._text(safe_repr(value))
        finally:
            self._open.discard(id(value))

    def _convert(self, value: Any, kind: Any) -> Any:
        own = _own_text(value)
        if own:
            self.whole = False
            return self._text(own)
        if issubclass(kind, enum.Enum):
            return self.convert(value.value)
        if issubclass(kind, str):
            return self._text(str.__str__(value))
        if issubclass(kind, (int, float)):
            return _json_number(value)
        if issubclass(kind, (bytes, bytearray, memoryview)):
            self.whole &= len(value) <= _MAX_BYTES_SHOWN
            return _bytes_text(value)
        if issubclass(kind, (dt.date, dt.time)):
            return value.isoformat()
        if is_missing(value):
            return MISSING
        if is_scalar(value):
            return self.convert(plain_scalar(value))
        is_short = issubclass(kind, (dt.timedelta, complex, range)) or _is_scalar_of_pandas(value)
        if is_short or is_written_as_text(kind):
            return str(value)
        return self._structure(data.unstyled(value), kind)

    def _structure(self, value: Any, kind: Any) -> Any:
        if data.is_data(value):
            self.sections.append(("".join(self._path), value))
            return _BELOW
        return self._container(value, kind)

    def _at(self, step: str, value: Any) -> Any:
        """A part of a container, converted."""
        self._path.append(step)
        try:
            return self.convert(value)
        finally:
            self._path.pop()

    def _container(self, value: Any, kind: Any) -> Any:
        if issubclass(kind, Mapping):
            items = itertools.islice(value.items(), MAX_ITEMS)
            result = {self._key(key): self._at(f"[{safe_repr(key)}]", each) for key, each in items}
            if len(value) > MAX_ITEMS:
                self.whole = False
                left = len(value) - MAX_ITEMS
                result[f"… {left:,} entries left out"] = _Omitted("…", left)
            return result
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            pairs = zip(kind._fields, value, strict=True)
            return {name: self._at(f".{name}", each) for name, each in pairs}
        if issubclass(kind, (list, tuple)):
            return self._list(value)
        if issubclass(kind, (set, frozenset)):
            return self._list(_sorted(list(itertools.islice(value, _MAX_SET))))
        if kind.__name__ in {"deque", "dict_keys", "dict_values", "dict_items"}:
            return self._list(list(itertools.islice(value, _MAX_SET)))
        return self._object(value, kind)

    def _object(self, value: Any, kind: Any) -> Any:
        figure = data.figure_of(value)  # all axes of a figure give the same image
        drawn = value if figure is None else figure
        image = None
        if len(self.images) < MAX_IMAGES:
            image = picture(drawn)
        if image is not None:
            self.images.setdefault(id(drawn), (drawn, image))
        if id(drawn) in self.images:
            self.whole = False
            return image_text(value)
        if dataclasses.is_dataclass(kind):
            names = [field.name for field in dataclasses.fields(kind) if field.repr]
            return {name: self._at(f".{name}", getattr(value, name)) for name in names}
        if callable(getattr(kind, "model_dump", None)):
            return self.convert(value.model_dump(mode="python"))
        self.whole = False
        return self._text(safe_str(value))

    def _text(self, text: str) -> str:
        """A string, truncated once the total length is used up."""
        self._chars -= len(text)
        if self._chars >= 0:
            return text
        self.whole = False
        return text[:20] + "…"

    def _list(self, value: Any) -> list[Any]:
        size = len(value)
        if size <= MAX_ITEMS:
            items = itertools.islice(value, MAX_ITEMS)
            return [self._at(f"[{place}]", each) for place, each in enumerate(items)]
        self.whole = False
        head = MAX_ITEMS * 3 // 4
        tail = MAX_ITEMS // 4
        first = [self._at(f"[{place}]", each) for place, each in enumerate(value[:head])]
        last = [self._at(f"[{size - tail + n}]", each) for n, each in enumerate(value[-tail:])]
        left = size - head - tail
        return [*first, _Omitted(f"… {left:,} items left out …", left), *last]

    def _key(self, key: Any) -> str:
        if type(key) is str:
            return str(key)
        plain = self.convert(key)
        if isinstance(plain, str):
            return plain
        return safe_repr(plain)


def _json_number(value: Any) -> int | float | str:
    """A number as JSON can represent it; text where it is infinite, no number, or very large."""
    if issubclass(type(value), float):
        number = float(value)
        return number if math.isfinite(value) else str(number)
    if abs(value) < 10**300:
        return int(value)
    return f"an integer of {value.bit_length()} bits"


def _sorted(values: list[Any]) -> list[Any]:
    """The values in an order that does not depend on hashes."""
    try:
        return sorted(values)
    except TypeError:
        return sorted(values, key=lambda each: (type(each).__name__, safe_repr(each)))


# ── generators ────────────────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class Drained:
    """The items that were read from a generator."""

    items: list[Any]
    complete: bool = True
    size: int = 0

    def add(self, item: Any) -> bool:
        """Add an item; False if the limit is reached, and reading must stop."""
        self.complete = len(self.items) < MAX_ITEMS and self.size < MAX_BYTES
        if self.complete:
            self.items.append(item)
            self.size += _size(item)
        return self.complete


def _size(item: Any, depth: int = 3) -> int:
    """The estimated size of an item in bytes, extrapolated from its first parts."""
    size = sys.getsizeof(item, 1)
    if type(item) not in (list, tuple, dict, set, frozenset) or not (item and depth):
        return size
    items = item.values() if type(item) is dict else item
    parts = list(itertools.islice(items, _PARTS))
    return size + sum(_size(part, depth - 1) for part in parts) * len(item) // len(parts)


def is_lazy(value: Any) -> bool:
    """Whether the value is a one-shot iterator, which must be read to be shown."""
    return issubclass(type(value), _LAZY)


def drain(iterator: Iterator[Any]) -> Drained:
    """Read the first items and close the iterator; its exceptions are raised."""
    read = Drained([])
    for item in iterator:
        if not read.add(item):
            if hasattr(iterator, "close"):
                iterator.close()
            break
    return read


# ── exceptions ────────────────────────────────────────────────────────────────────────────────────


_MAX_FRAMES = 5  # of an exception
_LIBRARIES = (str(Path(__file__).parent.parent), str(Path(os.__file__).parent), "<frozen")


def failure_text(error: BaseException, max_chars: int = MAX_RESULT_CHARS) -> str:
    """Describe an exception: type and message, the lines of the user's code, then the causes.

    Without colours, frames of this package or of libraries, and absolute paths. Never raises.
    """
    return truncate_middle("\n".join(_with_causes(error, set())), max_chars)


def _with_causes(error: BaseException, seen: set[int]) -> list[str]:
    """An exception and its causes, each with the errors in it; none of those seen before."""
    parts: list[str] = []
    current: BaseException | None = error
    for _ in range(_MAX_CAUSES):
        if current is None or id(current) in seen or len(seen) >= _MAX_ERRORS:
            break
        seen.add(id(current))
        text = _exception_text(current, "\n".join(parts))
        if parts and text:
            text = f"caused by {text}"
        parts += [text] if text else []
        parts += _leaf_texts(current, seen)
        hidden = None
        if not current.__suppress_context__:
            hidden = current.__context__
        current = current.__cause__ or hidden
    return parts


def leaves_of(error: BaseException) -> list[BaseException]:
    """The errors in a group, however deep, in order; none if it is not a group."""
    if not isinstance(error, BaseExceptionGroup):
        return []
    found: list[BaseException] = []
    todo = list(reversed(error.exceptions))
    while todo:
        each = todo.pop()
        if isinstance(each, BaseExceptionGroup):
            todo += reversed(each.exceptions)
        else:
            found.append(each)
    return found


def _leaf_texts(error: BaseException, seen: set[int]) -> list[str]:
    """The errors in a group, one below the other, with their lines of code and their causes."""
    leaves = leaves_of(error)
    texts = []
    for number, each in enumerate(leaves[:_MAX_LEAVES], 1):
        told = _with_causes(each, seen) or [_exception_text(each)]
        text = "\n".join(told).replace("\n", "\n  ")
        texts.append(f"  {number} of {len(leaves)}: {text}")
    left = len(leaves) - _MAX_LEAVES
    if left > 0:
        texts.append(f"  … {left} more")
    return texts


def message_of(error: BaseException) -> str:
    """The message of an exception, without colours; a remark if it cannot be read."""
    try:
        return _ANSI.sub("", str.__str__(str(error)))
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001  (a user's __str__ may do anything)
        return "(its message cannot be read)"


def _exception_text(error: BaseException, told: str = "") -> str:
    """Type and message of an exception, and the lines of the user's code.

    Args:
        error: The exception.
        told: The text about the errors that it caused. The message and the lines in it are not
            told again; the result is empty if there is nothing else.
    """
    message = message_of(error)
    if isinstance(error, SyntaxError) and str(error.filename).startswith("<"):
        message = str(error.msg)  # without the name that the code has for Python
    name = type(error).__name__
    lines = [f"{name}: {message}".rstrip(": ") if not (message and message in told) else name]
    try:
        frames = [each for each in traceback.walk_tb(error.__traceback__) if _is_users(each[0])]
        found = list(traceback.StackSummary.extract(iter(frames[-_MAX_FRAMES:])))
    except Exception:  # noqa: BLE001  (the source may have vanished)
        found = []
    known = set(told.split("\n"))
    lines += [text for text in map(_frame_text, found) if text not in known]
    notes = [each for each in getattr(error, "__notes__", ()) if isinstance(each, str)]
    lines += [f"  note: {_ANSI.sub('', each)}" for each in notes]
    return "" if lines == [name] and told else "\n".join(lines)


def _frame_text(frame: traceback.FrameSummary) -> str:
    """A line of the user's code, in a cell or in a file."""
    is_cell = "ipykernel" in frame.filename or frame.filename.startswith("<")
    file = ""
    if not is_cell:
        file = f"{Path(frame.filename).name}, "
    code = ""
    if frame.line:
        code = f": {frame.line}"
    return f"  {file}line {frame.lineno}, in {frame.name}{code}"


def _is_users(frame: FrameType) -> bool:
    """Whether a frame is of the user's code.

    Compiled code names the file of its source, which is not there: its module tells where it is.
    """
    module = frame.f_globals.get("__file__")
    is_of_library = isinstance(module, str) and not is_users_file(module)
    return is_users_file(frame.f_code.co_filename) and not is_of_library


def is_users_file(filename: str) -> bool:
    """Whether code in a file is the user's, and not that of a library."""
    is_library = "site-packages" in filename or "dist-packages" in filename
    return not is_library and not filename.startswith(_LIBRARIES)
