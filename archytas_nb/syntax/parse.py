"""Python's parser, for threads that parse at the same time."""

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
