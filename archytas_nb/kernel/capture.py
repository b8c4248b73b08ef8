"""What a tool prints and displays while it runs.

Patches hold for one call and are undone whatever happens. Only what this thread's code writes to ``sys.stdout``,
``sys.stderr`` and the display publisher is taken.
"""

from __future__ import annotations

import io
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from archytas_nb.kernel.namespace import current_shell
from archytas_nb.react.events import Json, Output
from archytas_nb.tools.clip import clip

MAX_CHARS = 4000
"""What the model reads of the output of one call."""


_CELL_FILE = re.compile(r"\S*ipykernel_\d+[/\\]\d+\.py")


class Capture:
    """The output of one call, in order."""

    def __init__(self, on_output: Callable[[str], None] | None = None) -> None:
        self._items: list[tuple[str, Any]] = []
        self._on_output = on_output

    def write(self, kind: str, text: str) -> None:
        """Add text; neighbours of one kind are joined."""
        if self._items and self._items[-1][0] == kind:
            self._items[-1][1].write(text)
        else:
            buffer = io.StringIO()
            buffer.write(text)
            self._items.append((kind, buffer))
        if self._on_output is not None:
            self._on_output(text)

    def display(self, data: Mapping[str, Json]) -> None:
        """Add something displayed."""
        self._items.append(("display", dict(data)))

    def outputs(self) -> tuple[Output, ...]:
        """Everything, as values."""
        return tuple(
            Output("display", data)
            if kind == "display"
            else Output("stdout" if kind == "stdout" else "stderr", {"text/plain": data.getvalue()})
            for kind, data in self._items
        )

    def text(self) -> str:
        """What the model reads: all text in order, the middle left out where it is long."""
        parts = [str(output.data.get("text/plain", "")) for output in self.outputs()]
        return clip("\n".join(part.rstrip("\n") for part in parts if part.strip()), MAX_CHARS)


class _Stream(io.TextIOBase):
    def __init__(self, capture: Capture, kind: str) -> None:
        self._capture, self._kind = capture, kind

    def write(self, text: str) -> int:
        # A warning names the file of its cell, which has another name in every kernel: no recording would fit.
        self._capture.write(self._kind, _CELL_FILE.sub("<cell>", text))
        return len(text)

    def writable(self) -> bool:
        return True


@contextmanager
def captured(on_output: Callable[[str], None] | None = None) -> Iterator[Capture]:
    """Take what is printed and displayed in the block.

    Args:
        on_output: Given each piece of text as it is printed.

    Yields:
        The capture, which fills while the block runs.
    """
    capture = Capture(on_output)
    shell = current_shell()
    old_out, old_err = sys.stdout, sys.stderr
    publisher = None if shell is None else shell.display_pub
    old_publish = None if publisher is None else publisher.__dict__.get("publish")

    def publish(data: Mapping[str, Json], *_: Any, **__: Any) -> None:
        capture.display(data)

    sys.stdout, sys.stderr = _Stream(capture, "stdout"), _Stream(capture, "stderr")
    if publisher is not None:
        publisher.publish = publish
    try:
        yield capture
    finally:
        sys.stdout, sys.stderr = old_out, old_err
        if publisher is not None:
            if old_publish is None:
                del publisher.publish
            else:
                publisher.publish = old_publish
