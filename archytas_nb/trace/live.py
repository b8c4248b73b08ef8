"""Shows a run while it is in progress.

    live      a person at a notebook: widgets, replaced by one static output at the end
    static    nobody there (nbclient, nbconvert, papermill): one static output at the end
    terminal  IPython without a kernel: lines on stdout as they come
    quiet     nothing

Widgets disappear with their kernel. So the run so far is also in a static output, which the widgets
hide; at the end it becomes the final output, and all widgets are closed.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, Literal, Self

from archytas_nb.loop import events as ev
from archytas_nb.trace import bundle
from archytas_nb.trace import html as draw
from archytas_nb.trace.activity import Activity, Streamed
from archytas_nb.trace.html import CLASSES, DIM, LINE, NOT_DECIDED, PageLimits, panel_html
from archytas_nb.trace.safe import Html, element, join, stylesheet, tidy
from archytas_nb.trace.text import TerminalLayer
from archytas_nb.trace.view import ProgramView, RunView, StepView, advance, fold
from archytas_nb.words import count

Mode = Literal["live", "static", "terminal", "quiet"]

_log = logging.getLogger("archytas_nb")


def display_mode(shell: Any) -> Mode:
    """How runs can be shown in an IPython shell."""
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return "terminal"
    # A console has a person too, but draws no widgets and updates. Only a notebook names its cell.
    is_notebook = "cellId" in _request(kernel).get("metadata", {})
    if is_notebook and getattr(kernel, "_allow_stdin", False):
        return "live"
    return "static"


def _request(kernel: Any) -> dict[str, Any]:
    """The message that the front end sent to run the cell; empty where there is none."""
    try:
        return dict(kernel.get_parent("shell"))
    except (AttributeError, TypeError):
        return {}


def _owns_cell() -> bool:
    """Whether the cell contains only the question, so that nothing else is displayed in it."""
    from IPython import get_ipython

    request = _request(getattr(get_ipython(), "kernel", None))
    code = str(request.get("content", {}).get("code", "")).strip()
    if code.startswith("%%agent"):
        return True
    return code.startswith("%agent") and "\n" not in code


class TraceView:
    """Observes a run and shows it; an error in drawing is logged and does not affect the run."""

    def __init__(self, question: str, mode: Mode, continues: str = "") -> None:
        self.view = replace(fold(question, ()), continues=tidy(continues, 200))
        self._mode = mode
        self._closed = False
        self._layer: LiveLayer | TerminalLayer | None = None
        try:
            if mode == "live":
                self._layer = LiveLayer(self.view)
            elif mode == "terminal":
                self._layer = TerminalLayer()
        except Exception:  # noqa: BLE001
            _log.exception("the run cannot be shown live; it is shown when it has finished")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def on_event(self, event: ev.Event) -> ev.ApprovalForm | None:
        """Take the next event; the ending closes the view.

        Returns:
            The form of a call that waits for approval, if the view draws it; else None.
        """
        drawn = None
        try:
            self.view = advance(self.view, event)
            if self._layer is not None and not self._closed:
                drawn = self._layer.update(self.view, event)
        except Exception:  # noqa: BLE001
            _log.exception("the trace could not show %s", type(event).__name__)
        if isinstance(event, (ev.Answered, ev.Failed, ev.Stopped, ev.Interrupted)):
            self.close()
        return drawn

    def close(self) -> None:
        """Show the finished run; called again, it does nothing."""
        if self._closed:
            return
        self._closed = True
        try:
            if self._layer is not None:
                self._layer.finish(self.view)
            elif self._mode != "quiet":
                _display(*bundle(self.view))
        except Exception:  # noqa: BLE001
            _log.exception("the trace could not be finished")


def _display(data: dict[str, Any], metadata: dict[str, Any] | None = None, **more: Any) -> Any:
    from IPython.display import display

    return display(data, raw=True, metadata=metadata, **more)  # type: ignore[no-untyped-call]


def _clear_output() -> None:
    from IPython.display import clear_output

    clear_output(wait=True)  # type: ignore[no-untyped-call]


# ── the parts of a live trace, each in its own widget; they look as in the static output ──────────

_CURSOR = "▍"
_COPY = "archytas-nb-kept-"  # with a number: the class of the static copy of a running run
# The widgets hide the copy; without them, the copy hides the error that replaces them.
_HIDE_COPY = "{0}{{display:none}}.jp-OutputArea-child:has({0}){{display:none}}"
_HIDE_ERROR = (
    ".jp-OutputArea-child:has({0})+.jp-OutputArea-child:not(:has(.archytas-nb-trace))"
    "{{display:none}}"
)
# A widget is as wide as its longest line, unless the line is in a column that may be narrower.
_ROOT = f"{draw.ROOT};margin:0;display:grid;grid-template-columns:minmax(0,1fr)"
_FRAME = {"padding": ".25em 0", "margin": ".3em 0", "max_width": draw.WIDTH}
_FRAME |= dict.fromkeys(("border_top", "border_bottom"), LINE)


def live_question(view: RunView, number: int = 0) -> Html:
    """The question, with the style sheets of all pieces; `number` is the run's in this process."""
    hides = stylesheet(_HIDE_COPY.format(f".{_COPY}{number:d}"))
    return _piece(stylesheet(draw.SHEET), hides, draw.question_html(view))


def static_copy(view: RunView, number: int, form: ev.ApprovalForm | None = None) -> Html:
    """The static copy of a running run, visible only if its widgets are not."""
    name = f"{_COPY}{number:d}"
    panel = None
    if form and not form.decision:
        panel = _piece(panel_html(form, NOT_DECIDED))
    hides = stylesheet(_HIDE_ERROR.format(f".{name}"), linked=True)
    return element("div", hides, draw.html(view), panel, class_=name)


@lru_cache(maxsize=32)  # a finished step is not drawn again
def live_step(step: StepView, streamed: Streamed | None = None, *, newest: bool) -> Html:
    """A step, with the text that is being written; the newest one is unfolded."""
    writing = None
    if streamed is not None and streamed.program:
        step = writing_program(step, streamed)
        streamed = replace(streamed, thought="")
    if streamed is not None:
        writing = join(*_streamed(streamed))
    if not newest:
        doing = ""
    elif streamed is None:
        doing = "waiting for the reply"
    elif streamed.answer:
        doing = "answering"
    else:
        doing = "thinking"
    return _piece(draw.step_html(step, PageLimits([step]), doing=doing, streamed=writing))


def writing_program(step: StepView, streamed: Streamed) -> StepView:
    """A step with the text of a program that is being written, or of its next line."""
    program = step.program or ProgramView()
    lines = [program.written, streamed.program + _CURSOR]
    program = replace(program, written="\n".join(filter(None, lines)))
    return replace(step, program=program, thought=step.thought or streamed.thought)


def without_arguments(step: StepView) -> StepView:
    """A step whose calls that have no outcome yet show no arguments."""
    calls = []
    for call in step.calls:
        if call.status is None:
            calls.append(replace(call, arguments=(("", "…"),), texts=(), differs=()))
        else:
            calls.append(call)
    return replace(step, calls=tuple(calls))


def live_answer(text: str) -> Html:
    """The part of an answer that has arrived."""
    if text:
        return _piece(draw.answer_html(text + _CURSOR))
    return join()


def live_status(line: str) -> Html:
    """The line that says what the run is doing."""
    style = f"{DIM};font-size:.9em;font-variant-numeric:tabular-nums;margin:.35em 0"
    return _piece(element("div", line, style=style))


def _streamed(now: Streamed) -> Iterator[Html]:
    if now.reasoning:
        yield element("p", element("em", now.reasoning), style=f"{draw.PROSE};{DIM}")
    if now.thought:
        yield draw.thought_html(now.thought)
    if now.tool:
        yield element("div", element("code", f"{now.tool} …", style=draw.CODE), style=draw.CALL)
    if now.arguments:
        yield element("pre", now.arguments + _CURSOR, style=draw.PRE)
    if now.output:
        yield element("pre", now.output, style=f"{draw.PRE};{DIM}")


def _piece(*parts: Html) -> Html:
    return element("div", element("div", *parts), class_=CLASSES, style=_ROOT)


# ── widgets ───────────────────────────────────────────────────────────────────────────────────────

INTERVAL = 0.05
"""Seconds between two drawings."""
_TICK = 0.5  # well below a second with INTERVAL, or the clocks of the status line skip seconds
_PAUSE = 2.0  # seconds between two static copies
_PACE = 50_000  # characters that cost a second more
_MOST_STEPS = 24
_KEPT_STEPS = 12
_numbers = itertools.count(1)


class LiveLayer:
    """Shows a run in widgets.

    While the main thread waits, another one updates the clock and draws what came too soon after
    the last drawing; `_lock` protects what both use. A finished step is not drawn again, so it
    stays folded or unfolded as the user left it.
    """

    _open = 0  # layers that are shown: that of a run in a tool must not clear the cell

    def __init__(self, view: RunView) -> None:
        import ipywidgets

        self._view = view
        self._activity = Activity()
        self._drawn_at = time.monotonic()
        self._first = 0  # number of steps without a widget, which were removed
        self._boxes: dict[int, Any] = {}  # the widget of each step, by its number
        self._all: list[Any] = []
        self._lock = threading.RLock()
        self._due = threading.Event()
        self._over = threading.Event()
        self._has_asked = False  # whether the person has typed something below the cell
        self._number = next(_numbers)
        self._html_type = ipywidgets.HTML
        # One layout and one style serve all: each would be a model, and a message, of its own.
        self._shared = {"layout": self._register(ipywidgets.Layout(margin="0"))}
        self._head = self._html(live_question(view, self._number))
        self._shared["style"] = self._register(self._head.style)
        self._answer = self._html("")
        self._earlier = self._html("")
        self._panel = self._html("")
        self._status = self._html(live_status(self._activity.status(view)))
        frame = self._register(ipywidgets.Layout(**_FRAME))
        self._steps = self._register(ipywidgets.VBox([self._earlier], layout=frame))
        parts = [self._head, self._steps, self._answer, self._panel, self._status]
        top = self._register(ipywidgets.VBox(parts, layout=self._shared["layout"]))
        self._static: Any = _display(self._copy(), display_id=True)
        model = {"version_major": 2, "version_minor": 0, "model_id": top.model_id}
        data = {"application/vnd.jupyter.widget-view+json": model}
        self._live: Any = _display(data, display_id=True)
        self._clock = threading.Thread(target=self._tick, name="archytas_nb-trace", daemon=True)
        self._clock.start()
        LiveLayer._open += 1

    def update(self, view: RunView, event: ev.Event) -> ev.ApprovalForm | None:
        """Show what an event has changed, a little later if the last drawing was just now.

        A call that waits for approval is drawn at once, before the person is asked, and returned.
        """
        with self._lock:
            self._view = view
            self._activity.take(event)
            self._has_asked |= isinstance(event, ev.Delta) and event.kind == "person"
            if isinstance(event, ev.Delta) and event.form is not None:
                self._draw()
                self._static.update(self._copy(), raw=True)
                return event.form
            if time.monotonic() - self._drawn_at >= INTERVAL:
                self._draw()
            else:
                self._due.set()
        return None

    def finish(self, view: RunView) -> None:
        """Show the static output, and close all widgets."""
        self._over.set()
        self._due.set()
        LiveLayer._open -= 1
        with self._lock:
            try:
                data, metadata = bundle(view)
                if self._has_asked and not LiveLayer._open and _owns_cell():
                    # JupyterLab keeps every line that was typed, and the box of an interrupted
                    # question: the output is displayed again without them.
                    _clear_output()
                    _display(data, metadata)
                else:
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
            except Exception:  # noqa: BLE001
                _log.exception("the live trace is not updated until the run has ended")
                return

    def _draw(self) -> None:
        self._due.clear()
        self._drawn_at = time.monotonic()
        steps = self._view.steps
        if len(steps) - self._first > _MOST_STEPS:
            # Many at once: a front end redraws all of them when the first one is removed.
            self._first = len(steps) - _KEPT_STEPS
        steps = steps[self._first :]
        if any(step.number not in self._boxes for step in steps):
            self._change_boxes([step.number for step in steps])
        streamed = self._activity.streamed()
        form = self._activity.form
        if form and not form.decision and steps:  # the panel shows the call in full
            steps = (*steps[:-1], without_arguments(steps[-1]))
        for step in steps[:-1]:
            self._boxes[step.number].value = live_step(step, newest=False)
        for step in steps[-1:]:
            self._boxes[step.number].value = live_step(step, streamed, newest=True)
        self._head.value = live_question(self._view, self._number)
        self._answer.value = live_answer(streamed.answer if streamed else "")
        if form is None:
            self._panel.value = ""
        else:
            self._panel.value = _piece(panel_html(form))
        self._status.value = live_status(self._activity.status(self._view))
        is_due = self._drawn_at - self._copied_at >= self._pause
        if self._view is not self._copied and is_due:
            self._static.update(self._copy(), raw=True)

    def _change_boxes(self, numbers: list[int]) -> None:
        removed = [box for number, box in self._boxes.items() if number not in numbers]
        self._boxes = {number: self._boxes.get(number) or self._html("") for number in numbers}
        self._steps.children = (self._earlier, *self._boxes.values())
        if self._first:
            title = f"… {count(self._first, 'earlier step')}"
            self._earlier.value = _piece(element("em", title, style=DIM))
        for box in removed:
            self._all.remove(box)
            box.close()

    def _copy(self) -> dict[str, str]:
        """The run so far as a static output; the longer it is, the later the next one."""
        self._copied = self._view
        self._copied_at = time.monotonic()
        data, _ = bundle(self._view)
        self._pause = max(_PAUSE, len(data["text/html"]) / _PACE)
        form = self._activity.form
        return {**data, "text/html": static_copy(self._view, self._number, form)}

    def _html(self, value: str) -> Any:
        return self._register(self._html_type(value, **self._shared))

    def _register(self, widget: Any) -> Any:
        self._all.append(widget)
        return widget
