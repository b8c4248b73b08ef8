"""The live layer: widgets that show a run while it goes on, and make room for a static output at its end.

The only file that opens a widget: HTML, fed by `safe` alone, one for each step; never an Output, which grows
with every word. The steps look as they will in the static output. A step that is over is not drawn again, so
it stays folded or unfolded as a person left it.

A widget's state is gone with its kernel, and a front end then shows an error where the widget was, whatever else
that output holds. So the run so far stands in a static output of its own, which the widgets hide while they live
and a reader finds where a kernel died. At the end it is replaced by the static bundle, the output of the widgets
is emptied, and every widget is closed.

What it costs is bounded: it draws at most twenty times a second whatever the model's speed, and sends only
the steps that changed.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from archytas_nb.loop.events import Event
from archytas_nb.trace.bundle import bundle
from archytas_nb.trace.html_live import (
    STEPS_LAYOUT,
    kept,
    live_answer,
    live_earlier,
    live_question,
    live_status,
    live_step,
)
from archytas_nb.trace.progress import Progress
from archytas_nb.trace.values import RunView, StepView

INTERVAL = 0.05
"""Seconds between two drawings."""
_TICK = 1.0
_PAUSE, _PACE = 2.0, 50_000
"""Seconds between two static copies, and characters of a copy that are worth another second."""
_numbers = itertools.count(1)
_MOST_STEPS, _KEPT_STEPS = 24, 12
_VIEW_MIME = "application/vnd.jupyter.widget-view+json"

_log = logging.getLogger("archytas_nb")


class LiveLayer:
    """Shows a run in widgets.

    A thread keeps the clock going while the kernel's main thread waits for a model or a tool, and draws what
    came too soon after the last drawing; `_lock` guards all that both threads touch.

    Args:
        view: The run as it begins.
    """

    def __init__(self, view: RunView) -> None:
        import ipywidgets
        from IPython.display import display

        self._kit = ipywidgets
        self._view = view
        self._started = time.monotonic()
        self._drawn_at = self._started
        self._progress = Progress()
        self._first = 0  # of the steps that have a widget
        self._boxes: dict[int, _Box] = {}
        self._all: list[Any] = []
        self._lock = threading.RLock()
        self._due = threading.Event()
        self._over = threading.Event()
        # One layout and one style serve all: each would otherwise be a model, and a message, of its own.
        self._layout = self._made(ipywidgets.Layout(margin="0"))
        self._number = next(_numbers)
        self._head = self._made(
            ipywidgets.HTML(live_question(view, self._number), layout=self._layout)
        )
        self._style = self._made(self._head.style)
        self._answer = self._html("")
        self._status = self._html(live_status(self._words()))
        self._earlier = self._html("")
        frame = self._made(ipywidgets.Layout(**STEPS_LAYOUT))
        self._steps = self._made(ipywidgets.VBox([self._earlier], layout=frame))
        parts = [self._head, self._steps, self._answer, self._status]
        top = self._made(ipywidgets.VBox(parts, layout=self._layout))
        self._copied, self._copied_at, self._pause = view, self._started, _PAUSE
        self._static: Any = display(self._copy(), raw=True, display_id=True)  # type: ignore[no-untyped-call]
        data = {_VIEW_MIME: {"version_major": 2, "version_minor": 0, "model_id": top.model_id}}
        self._live: Any = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        self._clock = threading.Thread(target=self._tick, name="archytas_nb-trace", daemon=True)
        self._clock.start()

    def update(self, view: RunView, event: Event) -> None:
        """Show what an event has changed, at once or, where the last drawing was just now, soon."""
        with self._lock:
            self._view = view
            self._progress.take(event)
            if time.monotonic() - self._drawn_at >= INTERVAL:
                self._draw()
            else:
                self._due.set()

    def finish(self, view: RunView) -> None:
        """Put the static bundle where the widgets are, and close them all."""
        self._over.set()
        self._due.set()
        with self._lock:
            try:
                data, metadata = bundle(view)
                self._static.update(data, raw=True, metadata=metadata)
                self._live.update({}, raw=True)
            finally:
                for widget in reversed(self._all):
                    with suppress(Exception):
                        widget.close()
                self._all.clear()
        self._clock.join(timeout=_TICK)

    def _tick(self) -> None:
        while not self._over.is_set():
            self._due.wait(_TICK)
            self._over.wait(INTERVAL)
            try:
                with self._lock:
                    if not self._over.is_set():
                        self._draw()
            except Exception:  # noqa: BLE001 (a clock that stops is no reason to stop a run)
                _log.exception("the live trace stands still until the run has ended")
                return

    def _draw(self) -> None:
        self._due.clear()
        self._drawn_at = time.monotonic()
        steps = self._steps_to_show()
        new = [step.number for step in steps if step.number not in self._boxes]
        if new:
            self._make_room({step.number for step in steps}, new)
        streamed = self._progress.streamed()
        for step in steps:
            box, newest = self._boxes[step.number], step is steps[-1]
            now = streamed if newest else None
            if step is box.step and newest == box.newest and now is None:
                continue
            box.step, box.newest = step, newest
            _set(box.widget, "value", live_step(step, now, newest=newest))
        _set(self._head, "value", live_question(self._view, self._number))
        _set(self._answer, "value", live_answer(streamed.answer if streamed else ""))
        _set(self._status, "value", live_status(self._words()))
        if self._view is not self._copied and self._drawn_at - self._copied_at >= self._pause:
            self._static.update(self._copy(), raw=True)

    def _copy(self) -> dict[str, str]:
        """The run so far as a static bundle; the longer it is, the later comes the next one."""
        self._copied, self._copied_at = self._view, time.monotonic()
        data, _ = bundle(self._view)
        self._pause = max(_PAUSE, len(data["text/html"]) / _PACE)
        return {**data, "text/html": kept(self._view, self._number)}

    def _steps_to_show(self) -> tuple[StepView, ...]:
        """The last steps. The oldest go many at once: where the first one goes, a front end builds all anew."""
        steps = self._view.steps
        if len(steps) - self._first > _MOST_STEPS:
            self._first = len(steps) - _KEPT_STEPS
        return steps[self._first :]

    def _make_room(self, shown: set[int], new: list[int]) -> None:
        for number in new:
            self._boxes[number] = _Box(self._html(""))
        gone = [self._boxes.pop(number) for number in list(self._boxes) if number not in shown]
        self._steps.children = (self._earlier, *(box.widget for box in self._boxes.values()))
        _set(self._earlier, "value", live_earlier(self._first))
        for box in gone:
            self._all.remove(box.widget)
            box.widget.close()

    def _words(self) -> str:
        return self._progress.status(self._view, time.monotonic() - self._started)

    def _html(self, value: str) -> Any:
        return self._made(self._kit.HTML(value, layout=self._layout, style=self._style))

    def _made(self, widget: Any) -> Any:
        self._all.append(widget)
        return widget


@dataclass(slots=True)
class _Box:
    """The widget of one step, and what it shows."""

    widget: Any
    step: StepView | None = None
    newest: bool = True


def _set(widget: Any, name: str, value: Any) -> None:
    """Change a trait; an equal value sends nothing."""
    if getattr(widget, name) != value:
        setattr(widget, name, value)
