"""Captures what a tool call prints, displays and draws.

`Capture` is the record of one call. `capturing` routes output to the records while calls run:

- ``write`` of the Python streams and ``publish`` of the display publisher are overridden on the
  objects themselves, so that logging handlers which hold a stream are captured too. A context
  variable assigns output to a call; the call's tasks, `asyncio.to_thread` and the work that it
  hands to a thread pool inherit it. Output of threads that a call starts itself goes to the shared
  record. Other threads that existed before keep writing to the original streams, and so do
  processes.
- What a call shows inside an Output widget that it has opened belongs to the widget: it goes to the
  original streams and publisher, from which a front end takes it.
- `descriptors` captures what is written below the streams.
- pyplot figures that are left open are drawn into the record; no plotting library is imported.
- `displays_of` returns the displays of a value in a cell.
"""

from __future__ import annotations

import base64
import json
import os
import re
import sys
import threading
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from itertools import islice
from types import MappingProxyType
from typing import Any, Literal

from archytas_nb.functions import origin
from archytas_nb.kernel import descriptors
from archytas_nb.kernel.descriptors import Kind
from archytas_nb.loop.events import Json, Output, is_image
from archytas_nb.namespace import current_shell
from archytas_nb.tools.data import MAX_IMAGES, figures_in, fitting, picture
from archytas_nb.tools.render import output_text, rich_name
from archytas_nb.tools.tables import table_of
from archytas_nb.words import omission, truncate_middle

MAX_OUTPUT_CHARS = 4000
"""Maximum number of characters of a call's output that the model reads."""

KEEP = 500_000
"""Characters of printed text that are kept from the beginning, and as many from the end."""

KEEP_DISPLAYED = 100
"""Maximum number of displays that are kept: half of them the first ones, half the last ones."""

MAX_DISPLAY = 10_000_000
"""Characters of a display that only a front end can draw; of a larger one, the text is kept."""

_DISPLAYED = 2 * KEEP // KEEP_DISPLAYED  # characters that a display counts as
_WIDTH = 200  # characters of a line of a table that code prints
_MAX_FIGURES = 10  # each takes a moment to draw
_SILENT_BACKENDS = {"agg", "cairo", "pdf", "pgf", "ps", "svg", "template"}
_CELL_FILE = re.compile(r"(?<!\S)\S*ipykernel_\d+[/\\]\d+\.py")


# ── the record of one call ────────────────────────────────────────────────────────────────────────


@dataclass(slots=True)
class _Item:
    kind: Literal["stdout", "stderr", "display"]
    pieces: deque[str] = field(default_factory=deque)
    display: Output | None = None
    given_id: str = ""  # the id that the display was given by the code that made it

    def output(self) -> Output:
        if self.display is not None:
            return self.display
        return Output(self.kind, {"text/plain": "".join(self.pieces)})


class Capture:
    """The output of one call, in order and with a size limit. Any thread may write to it.

    Args:
        on_output: Called with each piece of printed text.
        on_display: Called with each display, again when it is updated, and without data when it
            is taken back.
    """

    def __init__(
        self,
        on_output: Callable[[str], None] | None = None,
        on_display: Callable[[Output], None] | None = None,
    ) -> None:
        self.open = True  # False once the call has ended
        self._on_output = on_output
        self._on_display = on_display
        self._lock = threading.RLock()  # printing may run a finalizer that prints
        self._cleared: list[str] = []  # the ids of displays that were taken back
        self._reset()

    def _reset(self) -> None:
        self._head: list[_Item] = []
        self._tail: deque[_Item] = deque()
        self._room = KEEP
        self._in_tail = 0
        self._left_out = self._not_displayed = 0

    def write(self, kind: Kind, text: str) -> None:
        """Add text; consecutive text of one kind is joined."""
        if not text:
            return
        # A warning names the file of its cell, which differs in every kernel and every recording.
        if "ipykernel_" in text:
            text = _CELL_FILE.sub("<cell>", text)
        with self._lock:
            if len(text) <= self._room and self._head and self._head[-1].kind == kind:
                self._room -= len(text)  # almost every write of a tool that prints a lot
                self._head[-1].pieces.append(text)
            else:
                self._add(kind, text)
        if self._on_output is not None:
            self._on_output(text)

    def _add(self, kind: Kind, text: str) -> None:
        first = text[: self._room]
        rest = text[self._room :]
        self._room -= len(first)
        for items, piece in ((self._head, first), (self._tail, rest)):
            if piece and items and items[-1].kind == kind:
                items[-1].pieces.append(piece)
            elif piece:
                items.append(_Item(kind, deque([piece])))
        self._in_tail += len(rest)
        self._trim_tail()

    def _trim_tail(self) -> None:
        while self._in_tail > KEEP:
            item = self._tail[0]
            pieces = self._tail[0].pieces
            if not pieces:
                self._tail.popleft()
                if item.kind == "display":
                    self._in_tail -= _DISPLAYED
                    self._not_displayed += 1
                continue
            cut = min(len(pieces[0]), self._in_tail - KEEP)
            self._in_tail -= cut
            self._left_out += cut
            if cut < len(pieces[0]):
                pieces[0] = pieces[0][cut:]
            else:
                pieces.popleft()

    def display(
        self,
        data: Mapping[str, Json],
        metadata: Mapping[str, Json] | None = None,
        given_id: str = "",
    ) -> None:
        """Add a display."""
        display = _bounded(data, metadata or {})
        with self._lock:
            # A display that follows `clear_output` takes the place of one that was taken back.
            display_id = self._cleared.pop(0) if self._cleared else uuid.uuid4().hex
            display = replace(display, display_id=display_id)
            item = _Item("display", display=display, given_id=given_id)
            if self._room:
                self._room = max(self._room - _DISPLAYED, 0)
                self._head.append(item)
            else:
                self._in_tail += _DISPLAYED
                self._tail.append(item)
                self._trim_tail()
        self._notify(display)

    def update(
        self, data: Mapping[str, Json], metadata: Mapping[str, Json] | None, given_id: str
    ) -> bool:
        """Replace the displays with this id; returns whether there is one."""
        display = _bounded(data, metadata or {})
        updated = []
        with self._lock:
            for item in (*self._head, *self._tail):
                if given_id and item.given_id == given_id and item.display is not None:
                    item.display = replace(display, display_id=item.display.display_id)
                    updated.append(item.display)
        for each in updated:
            self._notify(each)
        return bool(updated)

    def clear(self) -> None:
        """Drop the output so far, as `clear_output` does."""
        with self._lock:
            items = (*self._head, *self._tail)
            ids = [item.display.display_id for item in items if item.display is not None]
            self._cleared += ids
            self._reset()
        for each in ids:
            self._notify(Output("display", {}, display_id=each))

    def _notify(self, display: Output) -> None:
        if self._on_display is not None:
            self._on_display(display)

    def outputs(self) -> tuple[Output, ...]:
        """Everything that was kept."""
        with self._lock:
            middle = []
            if self._left_out:
                middle.append(_Item("stdout", deque([omission(self._left_out)])))
            if self._not_displayed:
                text = f"… {self._not_displayed:,} displays left out …\n"
                middle.append(_Item("stdout", deque([text])))
            return tuple(item.output() for item in (*self._head, *middle, *self._tail))

    def text(self) -> str:
        """The text for the model: all text as a person sees it, truncated in the middle."""
        # Of an image, the outcome says that it was shown.
        parts = [output_text(output) for output in self.outputs() if not is_image(output)]
        return truncate_middle(
            "\n".join(part.rstrip("\n") for part in parts if part.strip()), MAX_OUTPUT_CHARS
        )

    def images(self) -> tuple[str, ...]:
        """The first images that were displayed, as PNG in base64."""
        images = [output.data.get("image/png") for output in self.outputs()]
        found = ("".join(each.split()) for each in images if isinstance(each, str) and each)
        sent = (each for each in map(fitting, found) if each is not None)
        return tuple(islice(sent, MAX_IMAGES))


def _bounded(data: Mapping[str, Json], metadata: Mapping[str, Json]) -> Output:
    """A display; of one that is too large to be kept only its text."""
    kept = dict(data)
    for mime, each in data.items():
        if isinstance(each, (bytes, bytearray)):
            kept[mime] = base64.b64encode(each).decode()
    display = Output("display", kept, dict(metadata))
    name = rich_name(kept, metadata)
    if not name:
        return display
    size = sum(len(each) if isinstance(each, str) else _json_size(each) for each in kept.values())
    if size <= MAX_DISPLAY:
        return display
    left_out = f"{name} of {size / 1e6:.1f} MB"
    return Output("display", {"text/plain": output_text(display)}, left_out=left_out)


def _json_size(value: Json) -> int:
    return len(json.dumps(value, default=repr))


# ── Python streams and the display publisher ──────────────────────────────────────────────────────

_UNCAPTURED = Capture()
_UNCAPTURED.open = False

current_capture: ContextVar[Capture | None] = ContextVar("archytas_nb_capture", default=None)
"""The record of the call that runs in this context."""
origin.followed.append(current_capture)


@contextmanager
def capturing(captures: Sequence[Capture], shared: Capture) -> Iterator[None]:
    """Route output to the records of calls while the block runs. Blocks may be nested.

    Set `current_capture` to the call's record while its code runs. ``shared`` receives output that
    cannot be assigned to a call; if there is only one, it is the record of that call.
    """
    group = _Group(shared)
    _router.begin(group)
    try:
        yield
    finally:
        _router.end(group)
        for capture in (*captures, shared):
            capture.open = False


@contextmanager
def capture_paused() -> Iterator[None]:
    """Stop capturing in the block, because a person must see the question."""
    token = current_capture.set(_UNCAPTURED)
    below = _router.redirection
    try:
        with nullcontext() if below is None else below.paused():
            yield
    finally:
        current_capture.reset(token)


@dataclass(eq=False, slots=True)
class _Group:
    """Concurrent calls: their shared record, and what was there before: threads, open widgets."""

    shared: Capture
    before: frozenset[threading.Thread] = field(
        default_factory=lambda: frozenset(threading.enumerate())
    )
    widgets: frozenset[str] = field(default_factory=lambda: frozenset(_open_widgets()))


class _Process:
    """Whether it was forked while calls ran; to ask the system costs as much as a line."""

    is_child = False

    def forked(self) -> None:
        self.is_child = True


_process = _Process()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.forked)


class _Router:
    """The overrides of this process, installed while any call runs."""

    def __init__(self) -> None:
        self.redirection: descriptors.Redirection | None = None
        self._lock = threading.RLock()
        self._groups: list[_Group] = []
        self._overrides = ExitStack()

    def begin(self, group: _Group) -> None:
        with self._lock:
            self._drain()  # written by the enclosing call
            self._groups.append(group)
            if len(self._groups) == 1:
                _process.is_child = False
                self._install()

    def end(self, group: _Group) -> None:
        with self._lock:
            try:
                if len(self._groups) > 1:
                    self._drain()
                else:
                    redirection = self.redirection
                    self.redirection = None
                    if redirection is not None:
                        redirection.end()  # which reads the rest
                    self._overrides.close()
            finally:
                self._groups.remove(group)

    def _install(self) -> None:
        streams: tuple[tuple[Kind, Any], ...] = ("stdout", sys.stdout), ("stderr", sys.stderr)
        for kind, stream in streams:
            if stream is not None:
                self._override(stream, "write", self._write(kind, stream))
        publisher = getattr(current_shell(), "display_pub", None)
        if publisher is not None:
            self._override(publisher, "publish", self._publish(publisher.publish))
            self._override(publisher, "clear_output", self._clear_output(publisher.clear_output))
        if descriptors.SUPPORTED:
            self.redirection = descriptors.Redirection(self._written_below)

    def _override(self, target: Any, name: str, method: Callable[..., Any]) -> None:
        before = None
        if hasattr(target, "__dict__"):
            before = vars(target).get(name)
        with suppress(AttributeError, TypeError):  # its attributes are read-only
            setattr(target, name, method)
            self._overrides.callback(_restore, target, name, method, before)

    def _drain(self) -> None:
        if self.redirection is not None:
            self.redirection.drain()

    def _target(self) -> Capture | None:
        """The record for output of this context and thread, or None."""
        groups = self._groups
        if not groups:
            return None
        mine = current_capture.get()
        group = groups[-1]
        if (mine is None or mine.open) and not group.widgets.issuperset(_open_widgets()):
            return None
        if mine is not None:
            return mine if mine.open else None
        if threading.current_thread() in group.before:
            return None
        return group.shared

    def _written_below(self, kind: Kind, text: str) -> None:
        if self._groups:
            _record(self._groups[-1].shared, kind, text)

    def _write(self, kind: Kind, stream: Any) -> Callable[[str], Any]:
        original = stream.write
        try:
            fd = int(stream.fileno())
        except Exception:  # noqa: BLE001 - a stream without one may raise anything
            fd = -1

        def write(text: str) -> Any:
            capture = None
            if isinstance(text, str):
                capture = self._target()
            if _process.is_child:  # it shares the pipe, but not memory
                data = text.encode("utf-8", "backslashreplace")
                return os.write(1 if kind == "stdout" else 2, data)
            if capture is not None:
                self._drain()
                _record(capture, kind, text)
                return len(text)
            below = self.redirection
            if below is not None and isinstance(text, str) and below.write_to_original(fd, text):
                return len(text)
            return original(text)

        return write

    def _publish(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def publish(data: Any, metadata: Any = None, *args: Any, **options: Any) -> Any:
            capture = self._target()
            if capture is None:
                return original(data, metadata, *args, **options)
            self._drain()
            given_id = str((options.get("transient") or {}).get("display_id", ""))
            with _uncaptured():
                if not options.get("update"):
                    capture.display(data, metadata, given_id)
                elif not capture.update(data, metadata, given_id):  # an earlier cell displayed it
                    original(data, metadata, *args, **options)
            return None

        return publish

    def _clear_output(self, original: Callable[..., Any]) -> Callable[..., Any]:
        def clear_output(wait: bool = False) -> Any:  # noqa: FBT001, FBT002 - as the publisher's own
            capture = self._target()
            if capture is None:
                return original(wait)
            self._drain()
            with _uncaptured():
                capture.clear()
            return None

        return clear_output


def _restore(target: Any, name: str, method: Any, before: Any) -> None:
    if vars(target).get(name) is not method:
        return  # overridden again since then; our method passes everything on
    if before is None:
        delattr(target, name)
    else:
        setattr(target, name, before)


def _record(capture: Capture, kind: Kind, text: str) -> None:
    """Add to a record; text that its callback prints is not output of the call."""
    token = current_capture.set(_UNCAPTURED)  # as `_uncaptured`, which costs more than the rest
    try:
        capture.write(kind, text)
    finally:
        current_capture.reset(token)


@contextmanager
def _uncaptured() -> Iterator[None]:
    """Do not count output of this thread in the block as output of a call."""
    token = current_capture.set(_UNCAPTURED)
    try:
        yield
    finally:
        current_capture.reset(token)


_router = _Router()


# ── Output widgets ────────────────────────────────────────────────────────────────────────────────


def _open_widgets() -> list[str]:
    """The ids of the Output widgets that take what is shown now, from a call or from a cell.

    A front end gives a widget all messages that have the parent which the widget names.
    """
    module = sys.modules.get("ipywidgets.widgets.widget")
    widgets: Any = getattr(module, "_instances", None)
    if not widgets:
        return []
    now = (len(widgets), next(reversed(widgets)))
    if _outputs.of != now:
        _outputs.of = now
        _outputs.widgets = {
            name: each for name, each in [*widgets.items()] if hasattr(type(each), "msg_id")
        }
    return [name for name, each in _outputs.widgets.items() if each.msg_id]


class _Outputs:
    """The Output widgets among all widgets, of which there may be thousands."""

    of: tuple[int, str] | None = None
    widgets: Mapping[str, Any] = MappingProxyType({})


_outputs = _Outputs()


# ── figures ───────────────────────────────────────────────────────────────────────────────────────


def open_figures() -> dict[int, Any]:
    """The open figures of pyplot by number."""
    helpers = sys.modules.get("matplotlib._pylab_helpers")
    managers = getattr(getattr(helpers, "Gcf", None), "figs", {})
    return {number: manager.canvas.figure for number, manager in list(managers.items())}


def take_figures(before: Mapping[int, Any], capture: Capture, returned: Sequence[Any]) -> None:
    """Add figures that calls left open to the output, and close those that a cell would show.

    Figures that were open ``before`` are left alone; those in ``returned`` values are not added.
    """
    known = {id(figure) for figure in before.values()}
    new = {number: each for number, each in open_figures().items() if id(each) not in known}
    if not new:
        return
    results: set[int] = set()
    for value in returned:
        results.update(map(id, figures_in(value)))
    pyplot = sys.modules.get("matplotlib.pyplot")
    backend = ""
    if pyplot is not None:
        backend = str(pyplot.get_backend()).lower()
    left = [figure for figure in new.values() if id(figure) not in results]
    for figure in left[:_MAX_FIGURES]:
        png = picture(figure)
        if png is not None:
            capture.display({"image/png": png, "text/plain": repr(figure)})
    # The inline backend shows open figures at the end of the cell, which would be a second time.
    if pyplot is not None and ("inline" in backend or backend in _SILENT_BACKENDS):
        for number in new:
            pyplot.close(number)
    if len(left) > _MAX_FIGURES:
        text = f"{len(left)} figures were left open; {_MAX_FIGURES} of them are shown\n"
        capture.write("stderr", text)


@contextmanager
def wide_tables() -> Iterator[None]:
    """Let pandas print tables on wide lines in the block, instead of folding their columns."""
    pandas = sys.modules.get("pandas")
    if pandas is None or pandas.get_option("display.width") >= _WIDTH:
        yield
        return
    before = pandas.get_option("display.width")
    pandas.set_option("display.width", _WIDTH)
    try:
        yield
    finally:
        if pandas.get_option("display.width") == _WIDTH:  # else the code has set it
            pandas.set_option("display.width", before)


# ── displays of a value ───────────────────────────────────────────────────────────────────────────

_NEVER_RICH = (str, bytes, bool, int, float, complex, list, tuple, dict, set, frozenset)


def displays_of(value: Any) -> tuple[Output, ...]:
    """The displays of a value in a cell, if there is more than text or a table.

    It must be called while calls are captured, because some libraries display by themselves. What
    they print meanwhile is not kept: a person would not expect it, and the model reads the value.
    """
    formatter = getattr(current_shell(), "display_formatter", None)
    is_simple = value is None or isinstance(value, _NEVER_RICH)
    if formatter is None or is_simple or table_of(value) is not None:
        return ()
    capture = Capture()
    token = current_capture.set(capture)
    try:
        data, metadata = formatter.format(value)
    finally:
        current_capture.reset(token)
    if data:
        capture.display(data, metadata)
    return tuple(each for each in capture.outputs() if _shows_more(each))


def _shows_more(output: Output) -> bool:
    is_more_than_text = bool(output.left_out) or not {"text/plain"}.issuperset(output.data)
    return output.kind == "display" and "archytas_nb" not in output.metadata and is_more_than_text
