"""A pseudo-terminal with an interpreter in it, as a person has who uses no notebook."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from time import monotonic, sleep

import pexpect

from tests.live_kernel import NO_ENDPOINT

_ESCAPES = re.compile(r"\x1b(?:\[[0-9;?]*[a-zA-Z]|\][^\x07]*\x07|[=>])")
_OVERWRITTEN = re.compile(r"[^\r\n]*\r\x1b\[2K")  # a line that says what is done now
_PATIENCE = 30.0
"""Seconds: what hangs fails its test, and takes no longer than this for it."""

IPYTHON = ("-m", "IPython", "--no-banner", "--colors=NoColor", "--no-confirm-exit")
PYTHON = ("-i", "-q")


class Terminal:
    """An interpreter that waits for lines.

    Args:
        process: The interpreter.
        prompt: The pattern of its prompt; ``{n}`` stands for the number of the line.

    Attributes:
        number: The number of the line that is waited for.
    """

    def __init__(self, process: pexpect.spawn[str], prompt: str) -> None:
        self._process, self._prompt, self.number = process, prompt, 0
        self._until_prompt()

    def run(
        self, line: str, *, interrupt_when: Callable[[], bool] | None = None, interrupt_at: str = ""
    ) -> list[str]:
        """Type a line, and return the lines that it printed.

        Args:
            line: The line.
            interrupt_when: Press Ctrl-C as soon as this is so.
            interrupt_at: Press Ctrl-C as soon as this is printed.
        """
        self._process.send(f"{line}\r")
        printed = ""
        if interrupt_when is not None:
            wait_until(interrupt_when)
            self._process.send("\x03")
        if interrupt_at:
            self._process.expect_exact(interrupt_at)
            printed = f"{self._process.before}{interrupt_at}"
            self._process.send("\x03")
        printed = _OVERWRITTEN.sub("", printed + self._until_prompt())
        printed = _ESCAPES.sub("", printed).replace("\r", "")
        # The terminal echoes what is typed; a traceback of Python 3.13 quotes it once more.
        _, _, after = re.sub(rf"(\n *){re.escape(line)}\n", r"\1\n", printed).rpartition(line)
        return [each.strip() for each in after.splitlines() if each.strip() not in ("", "^C")]

    def _until_prompt(self) -> str:
        self.number += 1
        self._process.expect(self._prompt.format(n=self.number))
        return self._process.before or ""


def wait_until(ready: Callable[[], bool]) -> None:
    """Wait for something."""
    started = monotonic()
    while not ready():
        if monotonic() - started > _PATIENCE:
            raise TimeoutError("what was waited for did not happen")
        sleep(0.01)


@contextmanager
def spawned(folder: Path, *arguments: str, **environment: str) -> Iterator[pexpect.spawn[str]]:
    """Start Python in a terminal, in a folder, with a clean home and no endpoint but what is named."""
    env = {key: value for key, value in os.environ.items() if key not in NO_ENDPOINT}
    here = str(Path(__file__).parents[1])
    env |= {
        "IPYTHONDIR": str(folder / "ipython"),
        "TERM": "xterm",
        "PROMPT_TOOLKIT_NO_CPR": "1",
        "PYTHONPATH": here,
    }
    env |= {
        "PYTHON_BASIC_REPL": "1",  # the newer prompt of Python 3.13 draws lines anew
        "PYTHON_COLORS": "0",
        **environment,
    }
    process: pexpect.spawn[str] = pexpect.spawn(
        sys.executable,
        list(arguments),
        env=env,  # type: ignore[arg-type]
        cwd=str(folder),
        encoding="utf-8",
        timeout=_PATIENCE,
        dimensions=(50, 200),
    )
    try:
        yield process
    finally:
        process.close(force=True)


@contextmanager
def terminal(folder: Path, *arguments: str, **environment: str) -> Iterator[Terminal]:
    """An interpreter at its prompt."""
    with spawned(folder, *arguments, **environment) as process:
        yield Terminal(process, r"In \[{n}\]:" if "IPython" in arguments else ">>> ")
