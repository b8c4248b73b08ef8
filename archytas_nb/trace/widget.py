"""The live layer: widgets that show a run while it goes on, and make room for a static output at its end.

The only file that opens a widget: HTML, fed by `safe` alone, one for each step; never an Output, which grows
with every word. The steps look as they will in the static output. A step that is over is not drawn again, so
it stays folded or unfolded as a person left it.

A widget's state is gone with its kernel. So the display also carries text that says that the run did not
finish, which is what a reader finds where a kernel died; and at the end the same display is replaced by the
static bundle, and every widget is closed.

What it costs is bounded: it draws at most twenty times a second whatever the model's speed, and sends only
the steps that changed.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from archytas_nb.react.events import AskModel, CallOutcomes, Delta, Event, ModelReply, Notice, RunCalls
from archytas_nb.trace.bundle import bundle
from archytas_nb.trace.clean import one_line, tidy
from archytas_nb.trace.html import STEPS_LAYOUT, live_step, question_line, status_line
from archytas_nb.trace.partial import read_partial
from archytas_nb.trace.steps import RunView, StepView
from archytas_nb.trace.words import model_name

INTERVAL = 0.05
"""Seconds between two drawings."""
_TICK = 1.0
_SHOWN_STEPS = 40
_STREAMED = 6_000
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
        self._doing = "asking the model"
        self._pieces: dict[str, list[str]] = {"text": [], "reasoning": []}
        self._boxes: dict[int, _Box] = {}
        self._all: list[Any] = []
        self._lock = threading.RLock()
        self._due = threading.Event()
        self._over = threading.Event()
        # One layout and one style serve all: each would otherwise be a model, and a message, of its own.
        self._layout = self._made(ipywidgets.Layout(margin="0"))
        head = self._made(ipywidgets.HTML(question_line(view), layout=self._layout))
        self._style = self._made(head.style)
        self._status = self._html(status_line(self._words()))
        self._steps = self._made(ipywidgets.VBox(layout=self._made(ipywidgets.Layout(**STEPS_LAYOUT))))
        top = self._made(ipywidgets.VBox([head, self._steps, self._status], layout=self._layout))
        fallback, _ = bundle(view)
        data = {_VIEW_MIME: {"version_major": 2, "version_minor": 0, "model_id": top.model_id}, **fallback}
        self._handle: Any = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        self._clock = threading.Thread(target=self._tick, name="archytas_nb-trace", daemon=True)
        self._clock.start()

    def update(self, view: RunView, event: Event) -> None:
        """Show what an event has changed, at once or, where the last drawing was just now, soon."""
        with self._lock:
            self._view = view
            match event:
                case Delta():
                    self._pieces.setdefault(event.kind, []).append(event.text)
                case AskModel():
                    self._pieces = {"text": [], "reasoning": []}
                    self._doing = "asking the model"
                case ModelReply():
                    self._doing = "reading the reply"
                case RunCalls():
                    self._pieces = {"text": [], "reasoning": []}
                    self._doing = "running " + one_line(", ".join(call.name for call in event.calls), 80)
                case CallOutcomes():
                    self._doing = "asking the model"
                case Notice():
                    self._doing = one_line(tidy(event.text), 160)
            if time.monotonic() - self._drawn_at >= INTERVAL:
                self._draw()
            else:
                self._due.set()

    def finish(self, view: RunView, seconds: float) -> None:
        """Put the static bundle where the widgets are, and close them all."""
        self._over.set()
        self._due.set()
        with self._lock:
            try:
                data, metadata = bundle(view, seconds=seconds)
                self._handle.update(data, raw=True, metadata=metadata)
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
        steps = self._view.steps[-_SHOWN_STEPS:]
        new = [step.number for step in steps if step.number not in self._boxes]
        if new:
            self._make_room({step.number for step in steps}, new)
        for step in steps:
            box, newest = self._boxes[step.number], step is steps[-1]
            streamed = newest and any(self._pieces.values())
            if step is box.step and newest == box.newest and not streamed:
                continue
            box.step, box.newest = step, newest
            _set(box.widget, "value", self._streamed(step) if streamed else live_step(step, newest=newest))
        _set(self._status, "value", status_line(self._words()))

    def _make_room(self, shown: set[int], new: list[int]) -> None:
        for number in new:
            self._boxes[number] = _Box(self._html(""))
        gone = [self._boxes.pop(number) for number in list(self._boxes) if number not in shown]
        self._steps.children = tuple(box.widget for box in self._boxes.values())
        for box in gone:
            self._all.remove(box.widget)
            box.widget.close()

    def _streamed(self, step: StepView) -> str:
        reasoning = tidy("".join(self._pieces["reasoning"]))
        partial = read_partial("".join(self._pieces["text"]))
        step = replace(step, thought=tidy(partial.thought))
        words = tidy(partial.text)[-_STREAMED:]
        return live_step(step, newest=True, reasoning=reasoning[-_STREAMED:], tool=partial.tool, said=words)

    def _words(self) -> str:
        seconds = int(time.monotonic() - self._started)
        clock = f"{seconds} s" if seconds < 60 else f"{seconds // 60} min {seconds % 60} s"
        tokens = self._view.usage.input_tokens + self._view.usage.output_tokens
        number = self._view.steps[-1].number if self._view.steps else 0
        words = [self._doing, f"step {number}" if number else "", clock, f"{tokens:,} tokens" if tokens else ""]
        return " · ".join(word for word in (*words, model_name(self._view)) if word)

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
