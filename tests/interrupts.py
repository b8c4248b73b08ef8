"""Ctrl-C at a chosen line of the package's own code, which no keyboard could hit so exactly."""

from __future__ import annotations

import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

PACKAGE = Path(__file__).parent.parent / "archytas_nb"


class AtLine:
    """Counts the lines that are run, and presses Ctrl-C before one of them.

    Args:
        where: Files or folders of the package whose lines count; a function's name may follow after a colon.
        line: The number of the line among those that count; 0 presses nothing.

    Attributes:
        count: How many lines were run.
    """

    def __init__(self, *where: str, line: int = 0) -> None:
        self.places = [
            (str(PACKAGE / file), name) for file, _, name in (each.partition(":") for each in where)
        ]
        self.line = line
        self.count = 0

    def __call__(self, frame: FrameType, event: str, arg: Any) -> Any:
        code = frame.f_code
        counts = any(
            code.co_filename.startswith(file) and name in ("", code.co_name)
            for file, name in self.places
        )
        return self._line if counts else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Any:
        if event == "line":
            self.count += 1
            if self.count == self.line:
                signal.raise_signal(signal.SIGINT)
        return self._line


@contextmanager
def pressing(at: AtLine) -> Iterator[AtLine]:
    """Press Ctrl-C in the block."""
    before = sys.gettrace()
    sys.settrace(at)
    try:
        yield at
    finally:
        sys.settrace(before)
