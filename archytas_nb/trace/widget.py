"""The live layer: widgets that show a run while it goes on, and make room for a static output at its end.

The only file that opens a widget. It uses two kinds that show what they are given, HTML (fed by `safe` alone)
and Accordion (whose titles are plain text); never an Output, which grows with every word.

A widget's state is gone with its kernel. So the display also carries text that says that the run did not
finish, which is what a reader finds where a kernel died; and at the end the same display is replaced by the
static bundle, and every widget is closed.

What it costs is bounded: one message for the text of the current step and one for the status, at most twenty
times a second, whatever the model's speed.
"""

from __future__ import annotations

import logging
import threading
import time
from contextlib import suppress
from dataclasses import replace
from typing import Any

from archytas_nb.react.events import AskModel, CallOutcomes, Delta, Event, ModelReply, Notice, RunCalls
from archytas_nb.trace.bundle import bundle
from archytas_nb.trace.clean import one_line, tidy
from archytas_nb.trace.html import question_line, status_line, step_body, stream_body
from archytas_nb.trace.partial import read_partial
from archytas_nb.trace.steps import RunView, StepView
from archytas_nb.trace.words import model_name, signature, step_mark

INTERVAL = 0.05
"""Seconds between two updates of the same widget."""
_TICK = 1.0
_SHOWN_STEPS = 40
_STREAMED = 6_000
_VIEW_MIME = "application/vnd.jupyter.widget-view+json"

_log = logging.getLogger("archytas_nb")


class LiveLayer:
    """Shows a run in widgets.

    Args:
        view: The run as it begins.
    """

    def __init__(self, view: RunView) -> None:
        import ipywidgets
        from IPython.display import display

        self._kit = ipywidgets
        self._view = view
        self._started = time.monotonic()
        self._doing = "asking the model"
        self._pieces: dict[str, list[str]] = {"text": [], "reasoning": []}
        self._drawn_at = 0.0
        self._boxes: list[tuple[int, Any, Any]] = []  # number, accordion, its HTML
        self._lock = threading.RLock()
        self._over = threading.Event()
        self._all: list[Any] = []
        self._plain_layout = self._made(ipywidgets.Layout(margin="0"))
        self._html_style = self._made(ipywidgets.HTML(layout=self._plain_layout)).style
        self._all.append(self._html_style)
        self._status = self._html(status_line(self._words()))
        self._steps = self._made(ipywidgets.VBox(layout=self._plain_layout))
        head = self._html(question_line(view))
        top = self._made(ipywidgets.VBox([head, self._steps, self._status], layout=self._plain_layout))
        fallback, _ = bundle(view)
        data = {_VIEW_MIME: {"version_major": 2, "version_minor": 0, "model_id": top.model_id}, **fallback}
        self._handle: Any = display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]
        self._ticker = threading.Thread(target=self._tick, name="archytas_nb-trace", daemon=True)
        self._ticker.start()

    def update(self, view: RunView, event: Event) -> None:
        """Show what an event has changed; most pieces of a reply only when the next update is due."""
        with self._lock:
            self._view = view
            match event:
                case Delta():
                    self._pieces[event.kind].append(event.text)
                    if time.monotonic() - self._drawn_at >= INTERVAL:
                        self._stream()
                    return
                case AskModel():
                    self._pieces = {"text": [], "reasoning": []}
                    self._doing = "asking the model"
                case ModelReply():
                    self._doing = "reading the reply"
                case RunCalls():
                    self._doing = "running " + one_line(", ".join(call.name for call in event.calls), 80)
                case CallOutcomes():
                    self._doing = "asking the model"
                case Notice():
                    self._doing = one_line(tidy(event.text), 160)
            self._draw_steps()
            self._status.value = status_line(self._words())

    def finish(self, view: RunView, seconds: float) -> None:
        """Put the static bundle where the widgets are, and close them all."""
        self._over.set()
        with self._lock:
            try:
                data, metadata = bundle(view, seconds=seconds)
                self._handle.update(data, raw=True, metadata=metadata)
            finally:
                for widget in reversed(self._all):
                    with suppress(Exception):
                        widget.close()
                self._all.clear()
        if self._ticker is not threading.current_thread():
            self._ticker.join(timeout=_TICK)

    def _draw_steps(self) -> None:
        """Draw the last two steps: a step's end is known only when the next one begins."""
        steps = self._view.steps
        for step in steps[-2:]:
            if step.empty and step is not steps[-1]:
                continue
            number = step.number
            if not self._boxes or all(each[0] != number for each in self._boxes[-2:]):
                self._add(number)
            index = next(i for i in range(len(self._boxes) - 1, -1, -1) if self._boxes[i][0] == number)
            _, box, body = self._boxes[index]
            newest = step is steps[-1]
            _set(box, "titles", (_title(step),))
            _set(body, "value", step_body(step))
            if not newest and not step.failed:
                _set(box, "selected_index", None)

    def _add(self, number: int) -> None:
        body = self._html("")
        box = self._made(
            self._kit.Accordion([body], titles=(f"{number}",), selected_index=0, layout=self._plain_layout)
        )
        self._boxes.append((number, box, body))
        for _, old, inner in self._boxes[:-_SHOWN_STEPS]:
            for widget in (old, inner):
                self._all.remove(widget)
                widget.close()
        self._boxes = self._boxes[-_SHOWN_STEPS:]
        self._steps.children = tuple(box for _, box, _ in self._boxes)

    def _stream(self) -> None:
        self._drawn_at = time.monotonic()
        if not self._boxes:
            self._draw_steps()
        if self._boxes:
            reasoning = "".join(self._pieces["reasoning"])
            partial = read_partial("".join(self._pieces["text"]))
            step = replace(self._view.steps[-1], thought=tidy(partial.thought))
            body = self._boxes[-1][2]
            _set(body, "value", stream_body(step, reasoning[-_STREAMED:], partial.text[-_STREAMED:]))

    def _words(self) -> str:
        seconds = time.monotonic() - self._started
        clock = f"{seconds:.0f} s" if seconds < 60 else f"{seconds // 60:.0f} min {seconds % 60:.0f} s"
        tokens = self._view.usage.input_tokens + self._view.usage.output_tokens
        number = self._view.steps[-1].number if self._view.steps else 0
        words = [self._doing, f"step {number}" if number else "", clock, f"{tokens:,} tokens" if tokens else ""]
        return " · ".join(word for word in (*words, model_name(self._view)) if word)

    def _tick(self) -> None:
        """Keep the clock going while the kernel's main thread waits for a model or a tool."""
        while not self._over.wait(_TICK):
            try:
                with self._lock:
                    if not self._over.is_set():
                        self._status.value = status_line(self._words())
            except Exception:  # noqa: BLE001 (a stopped clock is no reason to stop a run)
                _log.exception("the trace's clock stopped")
                return

    def _html(self, value: str) -> Any:
        return self._made(
            self._kit.HTML(value, layout=self._plain_layout, style=getattr(self, "_html_style", None))
        )

    def _made(self, widget: Any) -> Any:
        self._all.append(widget)
        return widget


def _title(step: StepView) -> str:
    """One line of plain text for a folded step."""
    number = f"{step.number} · " if step.number else ""
    if step.calls:
        calls = ", ".join(signature(call, 40) for call in step.calls)
        done = step.calls[0].text if len(step.calls) == 1 and step.calls[0].status else ""
        return f"{step_mark(step)} {number}{one_line(calls, 80)}" + (f" → {one_line(done, 60)}" if done else "")
    if step.failed:
        return f"{step_mark(step)} {number}no usable reply"
    return f"… {number}{one_line(step.thought, 80) or 'thinking'}"


def _set(widget: Any, name: str, value: Any) -> None:
    """Change a trait; an equal value sends nothing."""
    if getattr(widget, name) != value:
        setattr(widget, name, value)
