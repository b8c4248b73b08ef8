"""A front end without a browser: buttons are pressed, and fields filled, on a thread of its own."""

from __future__ import annotations

import threading
import time
from _thread import interrupt_main
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

import archytas_nb.trace.forms
import archytas_nb.trace.front_end

SECONDS_TO_APPEAR = 30.0  # a busy machine is no failure


class FrontEnd:
    """Shows the controls to a script, which acts on each form that is shown.

    Each act is a list of presses: the title of a button, or ``(placeholder or label, text)`` to
    fill a field, or the text of a field followed by Enter if it ends with a line break.

    Attributes:
        shown: The boxes that were shown, in order.
        failures: What went wrong on the other thread.
    """

    def __init__(self, *acts: list[Any]) -> None:
        self.acts = list(acts)
        self.shown: list[Any] = []
        self.failures: list[BaseException] = []
        self._threads: list[threading.Thread] = []

    def display(self, box: Any) -> FrontEnd:
        """Show a box, and act on it."""
        self.shown.append(box)
        if self.acts:
            act = self.acts.pop(0)
            thread = threading.Thread(target=self._do, args=(box, act), name="subshell")
            self._threads.append(thread)
            thread.start()
        return self

    def update(self, *_: Any, **__: Any) -> None:
        """A display that is replaced."""

    def finish(self) -> None:
        """Wait for what was pressed, and fail if that failed."""
        for thread in self._threads:
            thread.join()
        assert self.failures == []
        assert self.acts == []

    def _do(self, box: Any, act: list[Any]) -> None:
        try:
            for press in act:
                if isinstance(press, tuple):
                    appeared(box, press[0]).value = press[1]
                else:
                    appeared(box, press).click()
        except BaseException as error:
            self.failures.append(error)
            interrupt_main()  # the form would wait for ever


def widgets(box: Any) -> Iterator[Any]:
    """A box and all widgets in it."""
    yield box
    for child in getattr(box, "children", ()):
        yield from widgets(child)


def find(box: Any, title: str) -> Any:
    """The button or field with this title, label or placeholder."""
    for each in widgets(box):
        names = [getattr(each, name, "") for name in ("description", "placeholder")]
        if title in filter(None, names):
            return each
    raise LookupError(f"no control {title!r}")


def appeared(box: Any, title: str) -> Any:
    """The same, when the thread that asks has shown it."""
    ends = time.monotonic() + SECONDS_TO_APPEAR
    while True:
        try:
            return find(box, title)
        except LookupError:
            if time.monotonic() > ends:
                raise
            time.sleep(0.01)


@contextmanager
def front_end(monkeypatch: pytest.MonkeyPatch, *acts: list[Any]) -> Iterator[FrontEnd]:
    """A front end in which controls work while a cell runs."""
    shown = FrontEnd(*acts)
    monkeypatch.setattr(archytas_nb.trace.front_end, "way", lambda: "controls")
    monkeypatch.setattr(archytas_nb.trace.front_end, "display", shown.display)
    monkeypatch.setattr(archytas_nb.trace.forms, "UNSEEN", -1000.0)  # a script reads fast
    try:
        yield shown
        shown.finish()
    except BaseException:
        if shown.failures:  # the form was interrupted because of it
            raise AssertionError(f"an act failed: {shown.failures[0]}") from shown.failures[0]
        raise
