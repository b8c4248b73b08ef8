"""Shows how far something is: one line, each in the place of the one before."""

from __future__ import annotations

import sys
import time
from typing import Any

_SECONDS = 0.2  # between two lines


class Progress:
    """One line: an output of a notebook's cell, or the last line of a terminal.

    Where there is neither, as in a script whose output is kept in a file, the final line is shown
    alone.
    """

    def __init__(self) -> None:
        self._handle: Any = None
        self._shown = 0.0

    def show(self, line: str, *, final: bool = False) -> None:
        """Show a line; those that come too soon after another are left out."""
        now = time.monotonic()
        if not final and now - self._shown < _SECONDS:
            return
        self._shown = now
        shell = sys.modules["IPython"].get_ipython() if "IPython" in sys.modules else None
        if getattr(shell, "kernel", None) is not None:
            self._display({"text/plain": line})
        elif sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{line}" + ("\n" if final else ""))
            sys.stderr.flush()
        elif final:
            sys.stderr.write(f"{line}\n")

    def _display(self, data: dict[str, str]) -> None:
        if self._handle is None:
            from IPython.display import display

            self._handle = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        else:
            self._handle.update(data, raw=True)
