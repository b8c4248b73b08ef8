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
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from archytas_nb.errors import STOPS
from archytas_nb.loop.events import Output
from archytas_nb.tools import data
from archytas_nb.tools.data import MAX_IMAGES, picture
from archytas_nb.tools.texts import is_scalar, safe_repr, safe_str
from archytas_nb.words import truncate_middle

NO_OUTPUT = "(no output)"
MAX_RESULT_CHARS = 8000
"""Maximum length of a result in characters, unless the tool has its own limit."""
_MAX_LEAVES = 10  # errors of a group whose texts are told
_MAX_CAUSES = 5  # of an error, one behind the other
_MAX_ERRORS = 50  # that are told of one failure
MAX_BYTES = 64_000_000
"""Maximum size of the items that are read from a generator."""
MAX_ITEMS = 1000
"""Maximum number of items of one container that are read."""

_MAX_TEXT = 10_000_000  # characters of all strings in a value
_MAX_SET = 20_000_000  # items of a set: a user's iterator may be endless
_MAX_DATA = 500  # characters of an array or a frame inside another value
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


def render(value: Any, max_chars: int = MAX_RESULT_CHARS) -> Rendered:
    """Render a value for the model.

    Args:
        value: Any object, also one that is rendered already. Its class can define the text with
            `_ai_repr_` or `_repr_llm_`.
        max_chars: Maximum number of characters of the text; at least 1.

    Returns:
        Its text and images.

    Raises:
        KeyboardInterrupt: Exceptions of the object itself are not raised, but an interrupt is.
    """
    max_chars = max(max_chars, 1)
    try:
        shown = value if type(value) is Rendered else _render(value, max_chars)
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


def _render(value: Any, max_chars: int) -> Rendered:
    kind = type(value)
    if value is None:
        return Rendered(NO_OUTPUT)
    if kind is str:
        return Rendered(value)
    if kind in (bool, int, float):
        return _plain(value)
    own = _own_text(value)
    if own:
        return Rendered(own, whole=False)
    if issubclass(kind, BaseException):
        return Rendered(failure_text(value, max_chars), whole=False)
    if is_lazy(value):
        value = drain(value)
    if isinstance(value, Drained):
        return _drained(value, max_chars)
    value = data.unstyled(value)
    if data.is_data(value):
        return Rendered(data.preview(value), whole=False)
    image = picture(value)
    if image is not None:
        return Rendered(image_text(value), (image,))
    return _plain(value)


def image_text(value: Any) -> str:
    """What a model reads of a value that is an image."""
    return f"[image: {type(value).__name__}]"


def _own_text(value: Any) -> str:
    """The text that the class of a value defines for a model; empty where it defines none."""
    for name in ("_ai_repr_", "_repr_llm_"):
        text = data.call_method(value, name)
        if isinstance(text, str) and text:
            return text
    return ""


def _drained(read: Drained, max_chars: int) -> Rendered:
    """The items of a generator, and whether there are more."""
    inner = _render(read.items, max_chars)
    if read.complete:
        return inner
    text = f"{inner.text}\n… the first {len(read.items)} items; the rest was not read"
    return Rendered(text, inner.images, whole=False)


def _plain(value: Any) -> Rendered:
    plain = _Plain()
    converted = plain.convert(value)
    text = converted
    if not isinstance(converted, str):
        text = _json(converted)
    images = tuple(dict.fromkeys(image for _, image in plain.images.values()))
    return Rendered(text, images, plain.whole)


def _json(value: Any) -> str:
    """JSON, with a list of objects on one line each, which is easier for models to read."""
    if isinstance(value, list) and len(value) > 1 and all(isinstance(each, dict) for each in value):
        return "[\n" + ",\n".join(json.dumps(each, ensure_ascii=False) for each in value) + "\n]"
    return json.dumps(value, ensure_ascii=False)


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
    """What a display is that only a front end can draw, in a word or two.

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
            return self._convert(value, kind)
        except STOPS:
            raise
        except BaseException:  # noqa: BLE001  (a user's object may raise anything)
            self.whole = False
            return self._text(safe_repr(value))
        finally:
            self._open.discard(id(value))

    def _convert(self, value: Any, kind: Any) -> Any:
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
        if is_written_as_text(kind) or issubclass(kind, (dt.timedelta, complex, range)):
            return str(value)
        if is_scalar(value):
            return self.convert(value.item())
        value = data.unstyled(value)
        if data.is_data(value):
            self.whole = False
            return truncate_middle(data.preview(value), _MAX_DATA)
        return self._container(value, kind)

    def _container(self, value: Any, kind: Any) -> Any:
        if issubclass(kind, Mapping):
            items = itertools.islice(value.items(), MAX_ITEMS)
            result = {self._key(key): self.convert(each) for key, each in items}
            if len(value) > MAX_ITEMS:
                self.whole = False
                result[f"… {len(value) - MAX_ITEMS:,} entries left out"] = "…"
            return result
        if issubclass(kind, tuple) and hasattr(kind, "_fields"):
            pairs = zip(kind._fields, value, strict=True)
            return {name: self.convert(each) for name, each in pairs}
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
            return {name: self.convert(getattr(value, name)) for name in names}
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
            return [self.convert(each) for each in itertools.islice(value, MAX_ITEMS)]
        self.whole = False
        head = MAX_ITEMS * 3 // 4
        tail = MAX_ITEMS // 4
        first = [self.convert(each) for each in value[:head]]
        last = [self.convert(each) for each in value[-tail:]]
        return [*first, f"… {size - head - tail:,} items left out …", *last]

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
        text = _exception_text(current)
        if parts:
            text = f"caused by {text}"
        parts.append(text)
        parts += _leaf_texts(current, seen)
        hidden = None
        if not current.__suppress_context__:
            hidden = current.__context__
        current = current.__cause__ or hidden
    return parts


def leaves_of(error: BaseException) -> list[BaseException]:
    """The errors in a group, however deep, in order; none if it is no group."""
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


def _exception_text(error: BaseException) -> str:
    lines = [f"{type(error).__name__}: {message_of(error)}".rstrip(": ")]
    try:
        frames = [each for each in traceback.walk_tb(error.__traceback__) if _is_users(each[0])]
        found = list(traceback.StackSummary.extract(iter(frames[-_MAX_FRAMES:])))
    except Exception:  # noqa: BLE001  (the source may have vanished)
        found = []
    lines += [_frame_text(frame) for frame in found]
    notes = [each for each in getattr(error, "__notes__", ()) if isinstance(each, str)]
    lines += [f"  note: {_ANSI.sub('', each)}" for each in notes]
    return "\n".join(lines)


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
