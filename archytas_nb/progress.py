"""One line that says what a run does, where a person would otherwise see nothing until its end."""

from __future__ import annotations

import logging
import os
import shutil
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import copy_context
from typing import Any

from archytas_nb.driver import Observer
from archytas_nb.kernel import current_shell
from archytas_nb.kernel.output import current_capture
from archytas_nb.loop.events import Delta, Event

_TICK = 0.5
"""Seconds between two drawings of the clock."""
_free = threading.Lock()
_log = logging.getLogger("archytas_nb")


@contextmanager
def progress_line(question: str, *, wanted: bool | None) -> Iterator[tuple[Observer, ...]]:
    """An observer that shows a run in a line while the block runs; none where nobody would see it.

    There is one line at a time: of several runs in one event loop the first is shown.
    """
    write = None if wanted is False else _place(wanted=wanted is True)
    if write is None or not _free.acquire(blocking=False):
        yield ()
        return
    line = _Line(question, write)
    try:
        yield (line.on_event,)
    finally:
        line.close()
        _free.release()


def _place(*, wanted: bool) -> Callable[[str], None] | None:
    """What shows a line in place of the one before; None where nobody sees it."""
    in_call = current_capture.get() is not None  # what a tool shows is read by the model
    is_main = threading.current_thread() is threading.main_thread()
    if not wanted and (in_call or not is_main or os.environ.get("PYTEST_CURRENT_TEST")):
        return None
    shell = current_shell()
    if getattr(shell, "kernel", None) is not None:
        from archytas_nb.trace.live import display_mode

        return _in_notebook(shell.display_pub) if display_mode(shell) == "live" else None
    stream = sys.stderr
    try:
        is_seen = stream.isatty() and os.environ.get("TERM") != "dumb"
    except (AttributeError, ValueError):  # there is none, or it is closed
        return None

    def write(text: str) -> None:
        width = max(shutil.get_terminal_size().columns - 1, 10)
        stream.write(f"\r\x1b[2K{text[:width]}")
        stream.flush()

    return write if is_seen or wanted else None


def _in_notebook(publisher: Any) -> Callable[[str], None]:
    """Below the cell; not on stderr, which a notebook draws as an error and keeps."""
    transient = {"display_id": uuid.uuid4().hex}
    shown = False

    def write(text: str) -> None:
        nonlocal shown
        data = {"text/plain": text} if text else {}
        publisher.publish(data, transient=transient, update=shown)
        shown = True

    return write


class _Line:
    """The line; a thread moves its clock while the run waits."""

    def __init__(self, question: str, write: Callable[[str], None]) -> None:
        from archytas_nb.trace.activity import Activity
        from archytas_nb.trace.view import fold

        self._view, self._progress = fold(question, ()), Activity()
        self._write, self._shown, self._started = write, "", time.monotonic()
        self._is_asking = False  # the line would stand in a person's answer
        self._lock, self._over = threading.RLock(), threading.Event()
        run = copy_context().run  # a notebook finds in it the cell that the line belongs to
        threading.Thread(
            target=run, args=(self._tick,), name="archytas_nb-line", daemon=True
        ).start()

    def on_event(self, event: Event) -> None:
        """Take the next event."""
        from archytas_nb.trace.view import advance

        with self._lock:
            self._view = advance(self._view, event)
            self._progress.take(event)
            if isinstance(event, Delta) and event.kind == "person":
                self._is_asking = bool(event.text)
            self._draw()

    def close(self) -> None:
        """Remove the line."""
        self._over.set()
        with self._lock:
            self._draw()

    def _tick(self) -> None:
        while not self._over.wait(_TICK):
            with self._lock:
                if self._shown:  # not before the first event: the model may still be chosen
                    self._draw()

    def _draw(self) -> None:
        seconds = time.monotonic() - self._started
        hidden = self._over.is_set() or self._is_asking
        text = "" if hidden else self._progress.status(self._view, seconds)
        if text == self._shown:
            return
        self._shown = text
        try:
            self._write(text)
        except Exception:  # noqa: BLE001 - it must not disturb the run
            _log.exception("the progress of a run could not be shown")
            self._over.set()
