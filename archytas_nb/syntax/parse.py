"""Python's parser, for threads that parse at the same time, and for lines that go on."""

from __future__ import annotations

import ast
from typing import Any

_ATTEMPTS = 20


def parsed(text: str | bytes, mode: str = "exec") -> Any:
    """The tree of a text.

    Until Python 3.12.1 (3.11.7), two threads that make trees at the same time count their depth in
    one place, and one of them may get a SystemError, whatever its text is.

    Raises:
        SyntaxError, ValueError, RecursionError, MemoryError: As of `ast.parse`.
    """
    for _ in range(_ATTEMPTS):
        try:
            return ast.parse(text, mode=mode)
        except SystemError:
            continue
    return ast.parse(text, mode=mode)


def around_lines(text: str) -> tuple[str, str] | None:
    """The lines that turn an excerpt of code into Python: one before it, one after it.

    They may be inside of a statement, or begin one whose body is missing. None if nothing helps.
    """
    before = "if True:\n" if text[:1].isspace() else ""
    last = text.rpartition("\n")[2]
    indent = last[: len(last) - len(last.lstrip())]
    for after in ("", f"\n{indent} pass"):
        try:
            parsed(f"{before}{text}{after}")
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            continue
        return before, after
    return None
