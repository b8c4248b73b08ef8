"""Whoever sits before the notebook: whether anybody does, and how a question reaches them.

Asks by `input()`, which every front end answers while a cell is busy. It knows no tool and no call. Where nobody
is there, nothing waits: `ask` is not called.
"""

from __future__ import annotations

import sys
from contextvars import ContextVar
from typing import Protocol

from archytas_nb.kernel.namespace import current_shell


class Person(Protocol):
    """Somebody who answers questions; another object with these two may stand for them."""

    @property
    def there(self) -> bool:
        """Whether a question would be answered."""

    def ask(self, prompt: str) -> str:
        """Show a prompt, which may have several lines, and return the line that was typed.

        Raises:
            EOFError: No answer will come; an OSError says the same.
            KeyboardInterrupt: The person interrupted instead of answering.
        """


class NobodyThereError(Exception):
    """A question was asked where nobody answers; the message says what to do instead."""


class Keyboard:
    """The person at this kernel's or terminal's keyboard."""

    @property
    def there(self) -> bool:
        """Whether the front end takes input, or there is no kernel and the process has a terminal."""
        kernel = getattr(current_shell(), "kernel", None)
        if kernel is not None:
            return bool(getattr(kernel, "_allow_stdin", False))
        try:
            return (
                sys.stdin.isatty()
            )  # an IPython that reads a script from a pipe would wait for ever
        except (AttributeError, ValueError):  # there is none, or it is closed
            return False

    def ask(self, prompt: str) -> str:
        """Ask by `input()`."""
        return input(prompt)


def confirm(prompt: str) -> bool | None:
    """Ask whoever is at the keyboard for yes or no.

    Returns:
        The answer; None where nobody can be asked, or three answers were neither.
    """
    person = Keyboard()
    try:
        for _ in range(3 if person.there else 0):
            answer = person.ask(prompt).strip().lower()
            if answer in ("y", "yes", "n", "no"):
                return answer.startswith("y")
    except (EOFError, OSError):
        pass
    return None


asked: ContextVar[Person | None] = ContextVar("archytas_nb_asked", default=None)
"""Who is asked by the tool that runs now; None for whoever is at the keyboard."""
