"""The record of what one call printed and displayed; where the output comes from is `routing`'s affair.

What is kept is bounded, so a tool that prints for an hour costs no more than its beginning and its end.
"""

from __future__ import annotations

import base64
import logging
import re
import threading
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from archytas_nb.loop.events import Json, Output
from archytas_nb.tools.clip import clip, note
from archytas_nb.tools.displayed import words_of

MAX_CHARS = 4000
"""What the model reads of the output of one call."""

MAX_IMAGES = 5
"""How many pictures of one call the model is shown: each costs as much as a page of text."""

KEEP = 500_000
"""Characters that are kept of the beginning of all that is printed, and as many of the end."""

KEEP_DISPLAYED = 100
"""How many displayed things are kept; of a longer series, its last one as well."""

Kind = Literal["stdout", "stderr", "display"]

_CELL_FILE = re.compile(r"(?<!\S)\S*ipykernel_\d+[/\\]\d+\.py")


@dataclass(slots=True)
class _Item:
    kind: Kind
    pieces: list[str] = field(default_factory=list)
    data: dict[str, Json] = field(default_factory=dict)
    name: str = ""


class Capture:
    """The output of one call, in order. Written to by any thread.

    Args:
        on_output: Given each piece of text as it is printed, one at a time.

    Attributes:
        open: Whether output still belongs here; what a call left running prints later does not.
    """

    def __init__(self, on_output: Callable[[str], None] | None = None) -> None:
        self.open = True
        self._on_output = on_output
        self._lock = threading.RLock()  # printing may run a finaliser that prints
        self._clear()

    def _clear(self) -> None:
        self._head: list[_Item] = []
        self._tail: deque[_Item] = deque()
        self._room, self._in_tail, self._left_out = KEEP, 0, 0
        self._displayed = self._not_displayed = 0
        self._clear_next = False

    def write(self, kind: Literal["stdout", "stderr"], text: str) -> None:
        """Add text; neighbours of one kind are joined."""
        if not text:
            return
        # A warning names the file of its cell, which has another name in every kernel: no recording would fit.
        text = _CELL_FILE.sub("<cell>", text) if "ipykernel_" in text else text
        with self._lock:
            self._begin()
            first, rest = text[: self._room], text[self._room :]
            self._room -= len(first)
            for items, piece in ((self._head, first), (self._tail, rest)):
                if piece and items and items[-1].kind == kind:
                    items[-1].pieces.append(piece)
                elif piece:
                    items.append(_Item(kind, [piece]))
            self._in_tail += len(rest)
            self._forget()
        if self._on_output is not None:
            self._on_output(text)

    def display(self, data: Mapping[str, Json], name: str = "", *, update: bool = False) -> None:
        """Add something displayed.

        Args:
            data: Content by media type; bytes are turned into base64.
            name: Its display id; empty for none.
            update: Whether it takes the place of what was displayed under that id.
        """
        kept = {mime: _text_of(content) for mime, content in data.items()}
        with self._lock:
            self._begin()
            if update:
                for item in (*self._head, *self._tail):
                    if name and item.name == name:
                        item.data = kept
                return
            self._displayed += 1
            items = self._tail if self._in_tail else self._head
            if self._displayed > KEEP_DISPLAYED and items and items[-1].kind == "display":
                items[-1] = _Item("display", data=kept, name=name)  # a series: its last one counts
                self._not_displayed += 1
            else:
                items.append(_Item("display", data=kept, name=name))

    def clear(self, *, wait: bool = False) -> None:
        """Forget what was shown so far, as `clear_output` does; with ``wait``, when the next thing is shown."""
        with self._lock:
            if wait:
                self._clear_next = True
            else:
                self._clear()

    def _begin(self) -> None:
        if self._clear_next:
            self._clear()

    def _forget(self) -> None:
        """Let go of the oldest text of the tail."""
        while self._in_tail > KEEP:
            item = self._tail[0]
            if not item.pieces:
                self._tail.popleft()
                continue
            piece = item.pieces[0]
            cut = min(len(piece), self._in_tail - KEEP)
            self._in_tail -= cut
            self._left_out += cut
            if cut < len(piece):
                item.pieces[0] = piece[cut:]
            else:
                item.pieces.pop(0)

    def outputs(self) -> tuple[Output, ...]:
        """Everything that was kept, as values."""
        with self._lock:
            middle = [_Item("stdout", [note(self._left_out)])] if self._left_out else []
            if self._not_displayed:
                said = f"… {self._not_displayed:,} displayed things left out …\n"
                middle.append(_Item("stdout", [said]))
            return tuple(_output(item) for item in (*self._head, *middle, *self._tail))

    def text(self) -> str:
        """What the model reads: all text in order, as a person sees it, the middle left out where it is long."""
        parts = [words_of(output) for output in self.outputs()]
        return clip("\n".join(part.rstrip("\n") for part in parts if part.strip()), MAX_CHARS)

    def images(self) -> tuple[str, ...]:
        """The first pictures that were displayed, as PNG in base64."""
        return tuple(pictures(self.outputs()))[:MAX_IMAGES]


def pictures(outputs: Iterable[Output]) -> Iterable[str]:
    """The PNG images among outputs, in base64."""
    for output in outputs:
        data = output.data.get("image/png")
        if isinstance(data, str) and data:
            yield "".join(data.split())


def _output(item: _Item) -> Output:
    return Output(
        item.kind, item.data if item.kind == "display" else {"text/plain": "".join(item.pieces)}
    )


def _text_of(content: Any) -> Json:
    return (
        base64.b64encode(content).decode("ascii")
        if isinstance(content, (bytes, bytearray))
        else content
    )


def guarded(on_output: Callable[[str], None] | None) -> Callable[[str], None] | None:
    """Who watches the output may fail; the tool must not fail with them."""
    if on_output is None:
        return None
    lock, failed = threading.RLock(), False

    def told(text: str) -> None:
        nonlocal failed
        with lock:
            if failed:
                return
            try:
                on_output(text)
            except Exception:
                failed = True
                logging.getLogger("archytas_nb").exception(
                    "what a running call does could not be shown live"
                )

    return told
