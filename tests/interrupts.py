"""Ctrl-C at a chosen line of the package's own code, which no keyboard could hit so exactly."""

from __future__ import annotations

import dis
import functools
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

PACKAGE = Path(__file__).parent.parent / "archytas_nb"


class AtLine:
    """Counts the lines that are run, and presses Ctrl-C before one of them.

    Args:
        where: Files or folders of the package whose lines count; a function's name may follow after a colon.
        line: The number of the line among those that count; 0 presses nothing.

    Raises:
        ValueError: There is no such file, folder or function.

    Attributes:
        count: How many lines were run.
    """

    def __init__(self, *where: str, line: int = 0) -> None:
        self.places = list(map(_place, where))
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
        if event == "line" and frame.f_lasti not in _ends_of_blocks(frame.f_code):
            self.count += 1
            if self.count == self.line:
                signal.raise_signal(signal.SIGINT)
        return self._line


@functools.cache
def _ends_of_blocks(code: CodeType) -> frozenset[int]:
    """Where code leaves a ``with`` block, which for a tracer is a line of its own.

    Python looks for a Ctrl-C only after calls and jumps, so none comes there before the lock of the
    block is free.
    """
    steps = [each for each in dis.get_instructions(code) if each.opname != "CACHE"]
    threes = zip(steps, steps[1:], steps[2:], strict=False)
    return frozenset(
        three[0].offset
        for three in threes
        if all(each.opname == "LOAD_CONST" and each.argval is None for each in three)
    )


def _place(where: str) -> tuple[str, str]:
    """The beginning of the names of the files, and the name of the function or an empty text."""
    file, _, name = where.partition(":")
    path = PACKAGE / file
    exists = path.is_dir() if file.endswith("/") else path.is_file()
    if not exists or (name and f"def {name}(" not in path.read_text(encoding="utf-8")):
        raise ValueError(
            f"{where!r} is no place in the package; expected a file, folder or file:function"
        )
    return f"{path}/" if file.endswith("/") else str(path), name


@contextmanager
def pressing(at: AtLine) -> Iterator[AtLine]:
    """Press Ctrl-C in the block."""
    before = sys.gettrace()
    sys.settrace(at)
    try:
        yield at
    finally:
        sys.settrace(before)
