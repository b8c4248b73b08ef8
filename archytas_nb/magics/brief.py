"""Our errors in a notebook: the exception's own name and message, none of our frames.

IPython lets an exception draw its own traceback. So it stays a real exception, which a test runner, a later
cell and ``except`` see as what it is; a `UsageError` would leave nothing in the notebook but a line on stderr.
"""

from __future__ import annotations

import sys
from typing import TypeVar

E = TypeVar("E", bound=BaseException)


def brief(error: E) -> E:
    """Have IPython show an exception as its message.

    Args:
        error: The exception; it is changed, not copied, so that ``%debug`` finds its real traceback.

    Returns:
        The same exception, to be raised.
    """
    said = f"\x1b[31m{type(error).__name__}\x1b[39m: {error}"
    echoed = (
        isinstance(error, KeyboardInterrupt) and sys.stdout.isatty()
    )  # a terminal has written ^C
    error._render_traceback_ = lambda: ["", said] if echoed else [said]  # type: ignore[attr-defined]
    return error
