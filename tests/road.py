"""Measures which files of the package a question passes, and how often it changes between them.

``python -m tests.road`` prints the files in the order of their first call, with their calls.
"""

from __future__ import annotations

import sys
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from IPython.core.interactiveshell import InteractiveShell

import archytas_nb as nb
from archytas_nb.testing import ScriptedModel

PACKAGE = str(Path(nb.__file__).parent)
SCRIPT = [("double", {"number": 21}), ("final_answer", "It is 42.")]


@dataclass
class Road:
    """Counts the calls of functions of the package, as a profiler of `sys.setprofile`.

    Attributes:
        files: The number of calls of each file, in the order in which they were first entered.
        changes: How often a call was in another file than the call before it.
    """

    files: Counter[str] = field(default_factory=Counter)
    changes: int = 0
    _last: str = ""

    def __call__(self, frame: FrameType, event: str, _: Any) -> None:
        path = frame.f_code.co_filename
        if event == "call" and path.startswith(PACKAGE):
            file = path[len(PACKAGE) + 1 :]
            self.files[file] += 1
            self.changes += file != self._last
            self._last = file


def double(number: int) -> int:
    """Double a number.

    Args:
        number: Any number
    """
    return 2 * number


def measured(shell: InteractiveShell) -> Road:
    """The road of a warm question with one tool call, asked with %agent; the extension is loaded."""
    nb.tool(double)
    road = Road()
    for profiler in (None, road):  # the first question imports and caches
        shell.user_ns["script"] = ScriptedModel(*SCRIPT)
        sys.setprofile(profiler)
        try:
            run = shell.run_line_magic("agent", "--model script --new What is twice 21?")
        finally:
            sys.setprofile(None)
        assert run.answer == "It is 42."
    return road


def report(road: Road) -> str:
    """The files and the two sums, for people."""
    lines = [f"{calls:5} {file}" for file, calls in road.files.items()]
    return "\n".join([*lines, f"{len(road.files)} files, {road.changes} changes from file to file"])


if __name__ == "__main__":
    own = InteractiveShell.instance()
    own.run_line_magic("load_ext", "archytas_nb")
    print(report(measured(own)))
