"""Progress in one line, each drawn in the place of the one before: of a run, and of a map."""

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

from archytas_nb.driver import Observer
from archytas_nb.kernel import current_shell
from archytas_nb.kernel.output import current_capture
from archytas_nb.loop.events import Delta, Event

_TICK = 0.5  # seconds between two drawings of a run's clock
_free = threading.Lock()
_log = logging.getLogger("archytas_nb")


def _writer() -> Callable[[str], None]:
    """Writes a line in place of the one before, in the output of a cell or on stderr."""
    shell, stream = current_shell(), sys.stderr
    transient, shown = {"display_id": uuid.uuid4().hex}, False

    def write(text: str) -> None:
        nonlocal shown
        if getattr(shell, "kernel", None) is not None:
            # Not on stderr, which a notebook draws as an error and keeps.
            data = {"text/plain": text} if text else {}
            shell.display_pub.publish(data, transient=transient, update=shown)
            shown = True
        else:
            width = max(shutil.get_terminal_size().columns - 1, 10)
            stream.write(f"\r\x1b[2K{text[:width]}")
            stream.flush()

    return write


class Progress:
    """How far a map is. A script whose stderr is no terminal shows only the final line."""

    def __init__(self) -> None:
        self._write, self._shown = _writer(), 0.0
        self._is_notebook = getattr(current_shell(), "kernel", None) is not None

    def show(self, line: str, *, final: bool = False) -> None:
        """Show a line; those that come within 0.2 s after another are left out."""
        now = time.monotonic()
        if not final and now - self._shown < 0.2:
            return
        self._shown = now
        if self._is_notebook or sys.stderr.isatty():
            self._write(line)
        elif final:
            sys.stderr.write(line)
        if final and not self._is_notebook:
            sys.stderr.write("\n")


@contextmanager
def progress_line(question: str, *, wanted: bool | None) -> Iterator[tuple[Observer, ...]]:
    """An observer that shows a run in a line while the block runs; none where nobody would see it.

    There is one line at a time: of several runs in one event loop the first is shown.
    """
    if wanted is False or not _is_seen(wanted is True) or not _free.acquire(blocking=False):
        yield ()
        return
    line = _Line(question)
    try:
        yield (line.on_event,)
    finally:
        line.close()
        _free.release()


def _is_seen(wanted: bool) -> bool:  # noqa: FBT001
    in_call = current_capture.get() is not None  # what a tool shows is read by the model
    is_main = threading.current_thread() is threading.main_thread()
    if not wanted and (in_call or not is_main or os.environ.get("PYTEST_CURRENT_TEST")):
        return False
    shell = current_shell()
    if getattr(shell, "kernel", None) is not None:
        from archytas_nb.trace.live import display_mode

        return display_mode(shell) == "live"
    try:
        return wanted or (sys.stderr.isatty() and os.environ.get("TERM") != "dumb")
    except (AttributeError, ValueError):  # there is no stderr, or it is closed
        return False


class _Line:
    """The line of a run; a thread moves its clock while the run waits."""

    def __init__(self, question: str) -> None:
        from archytas_nb.trace.activity import Activity
        from archytas_nb.trace.view import fold

        self._view, self._activity = fold(question, ()), Activity()
        self._write, self._shown, self._started = _writer(), "", time.monotonic()
        self._is_asking = False  # the line would be drawn over a person's answer
        self._lock, self._over = threading.RLock(), threading.Event()
        run = copy_context().run  # a notebook finds in it the cell that the line belongs to
        thread = threading.Thread(target=run, args=(self._tick,), name="archytas_nb-line")
        thread.daemon = True
        thread.start()

    def on_event(self, event: Event) -> None:
        """Take the next event."""
        from archytas_nb.trace.view import advance

        with self._lock:
            self._view = advance(self._view, event)
            self._activity.take(event)
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
        text = "" if hidden else self._activity.status(self._view, seconds)
        if text == self._shown:
            return
        self._shown = text
        try:
            self._write(text)
        except Exception:  # noqa: BLE001 - it must not disturb the run
            _log.exception("the progress of a run could not be shown")
            self._over.set()
