"""Shows the progress of a run or a map in one line, which is updated in place."""

from __future__ import annotations

import os
import sys
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import copy_context

from archytas_nb.kernel.output import current_capture
from archytas_nb.loop.events import Event
from archytas_nb.namespace import current_shell
from archytas_nb.run import Observer

_line_lock = threading.Lock()
_LINE = "{};white-space:pre-wrap;overflow-wrap:break-word"


def line_width() -> int:
    """Characters of a line: of the terminal, or of a page."""
    import shutil

    is_page = getattr(current_shell(), "kernel", None) is not None
    return 110 if is_page else max(shutil.get_terminal_size().columns - 1, 10)


def line_writer(*, wanted: bool = False) -> Callable[..., None]:
    """A function that replaces the last line, in the output of a cell or on stderr.

    If stderr is not a terminal, it writes only the final line, unless all are `wanted`. ``page`` is
    HTML for a page, in place of the line.
    """
    shell = current_shell()
    stream = sys.stderr
    transient = {"display_id": uuid.uuid4().hex}
    shown = False

    def write(text: str, *, final: bool = False, page: str = "") -> None:
        nonlocal shown
        if getattr(shell, "kernel", None) is not None:
            data = _displayed(text, page) if text else {}  # on stderr it would look like an error
            shell.display_pub.publish(data, transient=transient, update=shown)
            shown = True
        elif wanted or stream.isatty():
            shown_text = (
                text if final else text[: line_width()]
            )  # what stays may take several lines
            stream.write(f"\r\x1b[2K{shown_text}" + "\n" * final)
            stream.flush()
        elif final:
            stream.write(f"{text}\n")

    return write


def _displayed(text: str, page: str = "") -> dict[str, str]:
    """The line as an output, which a page breaks only between words: it must not break plain text.

    ``page`` is what a page shows in place of the line.
    """
    from archytas_nb.trace.safe import MONO, element, embedded

    html = embedded(page) if page else element("div", text, style=_LINE.format(MONO))
    return {"text/plain": text, "text/html": html}


@contextmanager
def progress_line(question: str, *, wanted: bool | None) -> Iterator[tuple[Observer, ...]]:
    """An observer that shows a run in one line while the block runs; none if it would not be seen.

    There is one line at a time: of several runs in an event loop, the first is shown.
    """
    if wanted is False or not _is_visible(wanted=wanted) or not _line_lock.acquire(blocking=False):
        yield ()
        return
    line = _Line(question)
    try:
        yield (line.on_event,)
    finally:
        line.close()
        _line_lock.release()


def _is_visible(*, wanted: bool | None) -> bool:
    from archytas_nb.trace.live import display_mode

    in_call = current_capture.get() is not None  # the model reads what a tool displays
    is_main = threading.current_thread() is threading.main_thread()
    if not wanted and (in_call or not is_main or os.environ.get("PYTEST_CURRENT_TEST")):
        return False
    mode = display_mode(current_shell())
    has_terminal = sys.stderr is not None and not sys.stderr.closed and sys.stderr.isatty()
    in_terminal = wanted or (has_terminal and os.environ.get("TERM") != "dumb")
    return mode == "live" or (mode == "terminal" and in_terminal)


class _Line:
    """The line of a run; a thread updates its time while the run waits."""

    def __init__(self, question: str) -> None:
        from archytas_nb.trace import activity, fold

        self._view = fold.fold(question, ())
        self._advance = fold.advance
        self._activity = activity.Activity()
        self._write = line_writer(wanted=True)
        self._shown = ""
        self._lock = threading.RLock()
        self._closed = threading.Event()
        run = copy_context().run  # the context contains the cell to which the line belongs
        threading.Thread(target=run, args=(self._tick,), daemon=True).start()

    def on_event(self, event: Event) -> None:
        with self._lock:
            self._view = self._advance(self._view, event)
            self._activity.take(event)
            self._draw()

    def close(self) -> None:
        self._closed.set()
        with self._lock:
            self._draw()

    def _tick(self) -> None:
        while not self._closed.wait(0.5):
            with self._lock:
                if self._shown:  # not before the first event: the model may still be chosen
                    self._draw()

    def _draw(self) -> None:
        text = self._activity.status(self._view)
        if self._closed.is_set() or self._activity.is_asking:  # it would overwrite the answer
            text = ""
        if text != self._shown:
            self._shown = text
            with suppress(OSError, ValueError):  # stderr was closed
                self._write(text)
