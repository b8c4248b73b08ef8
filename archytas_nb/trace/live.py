"""Shows a run while it is in progress.

    live      a person at a notebook: widgets, replaced by one static output at the end
    static    nobody there (nbclient, nbconvert, papermill): one static output at the end
    terminal  IPython without a kernel: lines on stdout as they come
    console   a kernel's front end that shows text alone: the same lines
    quiet     nothing

Widgets disappear with their kernel. So the run so far is also in a static output, which the widgets
hide; at the end it becomes the final output, which hides the widgets, and all of them are closed.

The live trace looks as the final one: the steps are folded in the same way, and what happens now is
in a pane of a fixed height below them, so that a page moves as little as possible.
"""

from __future__ import annotations

import itertools
import json
import logging
import re
import secrets
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from contextvars import copy_context
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, Literal, Self

from archytas_nb import settings
from archytas_nb.loop import events as ev
from archytas_nb.loop.record import Inbox
from archytas_nb.namespace import cell_request, is_console, is_notebook
from archytas_nb.tools.render import rich_name
from archytas_nb.trace import bundle, front_end, header, reopened
from archytas_nb.trace import html as draw
from archytas_nb.trace.activity import Activity, Streamed
from archytas_nb.trace.copy_button import copy_buttons
from archytas_nb.trace.fold import advance, fold, with_note, with_outcomes
from archytas_nb.trace.form_page import page_script
from archytas_nb.trace.html import (
    CLASSES,
    DIM,
    HINT,
    LINE,
    PageLimits,
    panel_html,
)
from archytas_nb.trace.safe import Html, code, element, join, stylesheet
from archytas_nb.trace.terminal import Screen, TerminalLayer
from archytas_nb.trace.view import ProgramView, RunView, StepView
from archytas_nb.trace.widget_text import last_texts, widget_id, with_last_texts
from archytas_nb.words import clock, count, tidy

if TYPE_CHECKING:
    from archytas_nb.trace.actions import ActionRow

Mode = Literal["live", "static", "terminal", "console", "quiet"]

_log = logging.getLogger("archytas_nb")


def display_mode(shell: Any) -> Mode:
    """How runs can be shown in an IPython shell."""
    kernel = getattr(shell, "kernel", None)
    if kernel is None:
        return "terminal"
    if is_notebook(kernel):
        return "live"
    return "console" if is_console(kernel) else "static"


def _code_of_cell() -> str:
    """The source of the cell that runs; empty if it is not known."""
    request = cell_request(front_end.current_kernel())
    return str(request.get("content", {}).get("code", ""))


_SEEN_IN_CELL = 100  # characters of a line, which a cell shows without scrolling


def _is_seen_in_cell(question: str) -> bool:
    """Whether the cell that runs shows a question whole."""
    source = tidy(_code_of_cell())
    lines = source.splitlines()
    return bool(question) and question in source and max(map(len, lines)) <= _SEEN_IN_CELL


def _owns_cell() -> bool:
    """Whether the cell contains only the question, so that nothing else is displayed in it."""
    code = _code_of_cell().strip()
    if code.startswith("%%agent"):
        return True
    return code.startswith("%agent") and "\n" not in code


class TraceView:
    """Observes a run and shows it; an error in drawing is logged and does not affect the run.

    Args:
        question: The question.
        mode: How it is shown.
        continues: The question of the conversation before it.
        inbox: Takes what the person tells the agent, and that they end the run.
        can_tell: Whether the person can tell the agent something.
        written: The question as the person wrote it, with lookups.
        images: The images sent with the question, in base64.
        waited: Seconds that its cell has waited for other cells.
        place: The handle of an output in whose place the trace is to be shown.
    """

    def __init__(
        self,
        question: str,
        mode: Mode,
        continues: str = "",
        inbox: Inbox | None = None,
        written: str = "",
        images: Iterable[str] = (),
        waited: float = 0.0,
        *,
        can_tell: bool = True,
        place: Any = None,
    ) -> None:
        view = fold(question, ())
        written = tidy(written)
        is_as_asked = written == view.question
        self.view = replace(
            view,
            continues=tidy(continues, 200),
            written="" if is_as_asked else written,
            images=tuple(images),
            is_in_cell=is_as_asked and _is_seen_in_cell(written),
            is_alone=mode == "live" and _owns_cell(),
            trace=settings.value("trace"),
        )
        self._mode = mode
        self._displays = Displays()
        self._closed = False
        self._layer: LiveLayer | TerminalLayer | None = None
        try:
            if mode == "live":
                self._layer = LiveLayer(
                    self.view, self._displays, inbox, waited, can_tell=can_tell, place=place
                )
            elif mode in ("terminal", "console"):
                self._layer = TerminalLayer(Screen(is_console=mode == "console"))
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

    def end(self, ending: ev.Ending | None) -> None:
        """Take the ending of the run, of which an interrupt may have kept the view."""
        if ending is not None and self.view.ending is None:
            self.on_event(ending)

    def close(self) -> None:
        """Show the finished run; called again, it does nothing, unless an interrupt stopped it."""
        if self._closed:
            return
        self._finish()
        self._closed = True

    @property
    def takes_clicks(self) -> bool:
        """Whether buttons below the finished run would work."""
        return isinstance(self._layer, LiveLayer) and self._layer.takes_clicks

    def offer(self, row: ActionRow | None) -> None:
        """Show what a person can do with the finished run; None to take it away."""
        if isinstance(self._layer, LiveLayer):
            self._layer.offer(row)

    def mark_undone(self, line: str, details: Sequence[str]) -> None:
        """Show in the trace that the run was undone; with an empty line, that it no longer is.

        Args:
            line: The line that says that it was undone, and when.
            details: The lines about restored and kept variables.
        """
        self.view = replace(self.view, undone=(tidy(line), *map(tidy, details)) if line else ())
        if isinstance(self._layer, LiveLayer):
            self._layer.redraw(self.view)

    def note(self, text: str) -> None:
        """Show in the finished trace what a person has to know besides the answer."""
        self.view = with_note(self.view, text)
        if isinstance(self._layer, LiveLayer):
            self._layer.redraw(self.view)

    def _finish(self) -> None:
        try:
            if isinstance(self._layer, LiveLayer):
                for text in self._layer.told_too_late():
                    self.view = advance(self.view, ev.Notice("late", text))
            self.view = self._displays.settle(self.view)
            if self._layer is not None:
                self._layer.finish(self.view)
            elif self._mode != "quiet":
                _display(*bundle(self.view))
                self._displays.show(self.view.displays)
        except Exception:  # noqa: BLE001
            _log.exception("the trace could not be finished")


MAX_DISPLAYS = 50
"""Maximum number of displays of a run that are shown below its trace."""
_DISPLAYED = 40_000_000  # characters of all of them


class Displays:
    """Displays of tools that only a front end can draw: each is an output below the trace."""

    def __init__(self) -> None:
        self._sizes: dict[str, int] = {}  # by the id of what is shown
        self._left_out: set[str] = set()
        self._note_id = uuid.uuid4().hex

    def show(self, displays: Iterable[ev.Output]) -> None:
        """Show those that are not shown yet."""
        for each in displays:
            if each.display_id not in self._sizes:
                self.take(each)

    def show_again(self, displays: Iterable[ev.Output]) -> None:
        """Show all of them, because the output of the cell was cleared."""
        self._sizes.clear()
        self._left_out.clear()
        self.show(displays)

    def take(self, display: ev.Output) -> None:
        """Show one, or update it; without data it is removed."""
        key = display.display_id
        is_shown = key in self._sizes
        if not (is_shown or rich_name(display.data, display.metadata)):
            return
        size = sum(len(str(each)) for each in display.data.values())
        others = sum(self._sizes.values()) - self._sizes.get(key, 0)
        has_place = is_shown or len(self._sizes) < MAX_DISPLAYS
        if not has_place or others + size > _DISPLAYED:
            self._leave_out(key)
            return
        self._sizes[key] = size
        _display(dict(display.data), dict(display.metadata), display_id=key, update=is_shown)

    def settle(self, view: RunView) -> RunView:
        """Take widgets that only show something away, which may not be saved.

        Returns:
            The view with the last text of each in the step that has shown it.
        """
        ids = {each.display_id: widget_id(each.data) for each in view.displays}
        texts = last_texts([each for each in ids.values() if each])
        for key, model_id in ids.items():
            if model_id in texts and key in self._sizes:
                _display(front_end.NOTHING, display_id=key, update=True)
        return with_last_texts(view, texts) if texts else view

    def _leave_out(self, key: str) -> None:
        is_shown = bool(self._left_out)
        self._left_out.add(key)
        text = f"… {count(len(self._left_out), 'more display')} of this question: not shown here"
        _display({"text/plain": text}, display_id=self._note_id, update=is_shown)


def _display(data: dict[str, Any], metadata: dict[str, Any] | None = None, **more: Any) -> Any:
    from IPython.display import display

    return display(data, raw=True, metadata=metadata, **more)  # type: ignore[no-untyped-call]


def _clear_output() -> None:
    from IPython.display import clear_output

    clear_output(wait=True)  # type: ignore[no-untyped-call]


# ── the parts of a live trace, each in its own widget; they look as in the static output ──────────

_CURSOR = "▍"
_HEADER = "anb-header"
_WHOLE = "anb-whole"
_BUSY = "anb-busy"
_STEPS = "anb-live-steps"
_UNFOLDS = "anb-unfolds"
# An element stays in view only if none around it, up to the notebook, clips what overflows.
_STICKY = (
    f".{_HEADER}{{position:sticky;top:0;z-index:3;background:var(--jp-layout-color0,Canvas);"
    f"padding-bottom:.3em;border-bottom:{LINE};max-width:{draw.WIDTH};overflow:visible!important;"
    "--jp-widgets-inline-height:24px;--jp-widgets-margin:1px}"
    # Content fades as it scrolls below the header, in a height that is empty before.
    f".{_HEADER}::after{{content:'';position:absolute;top:calc(100% + 1px);left:0;right:0;"
    "height:6px;background:linear-gradient(var(--jp-layout-color0,Canvas),transparent);pointer-events:none}"
    f"[data-jp-theme-name*=Contrast] .{_WHOLE} *{{border-color:currentColor!important}}"
    # As wide as what JupyterLab draws of HTML.
    f".jp-OutputArea-output .{_WHOLE}{{padding-right:20px}}"
    ":is(.jp-Cell-outputWrapper,.jp-Cell-outputArea,.jp-OutputArea-child,.jp-OutputArea-output,"
    f".widget-box):has(.{_HEADER}){{overflow:visible!important}}"
    f".{_WHOLE}:not(:has(.{_UNFOLDS}[open])) .{_STEPS}{{display:none!important}}"
    # There is room for the triangle alone, not for an ellipsis after it.
    f".{_UNFOLDS} summary{{width:1em;height:{draw.STATE_HEIGHT};line-height:{draw.STATE_HEIGHT};"
    "text-overflow:clip!important}"
    f".{_BUSY}{{height:2px;margin-top:-2px;background:linear-gradient(90deg,transparent,"
    "var(--jp-brand-color1,#1976d2),transparent) 0/40% 100% no-repeat;"
    "animation:anb-busy 2.4s ease-in-out infinite alternate}"
    "@keyframes anb-busy{to{background-position:100% 0}}"
    f"@media(prefers-reduced-motion:reduce){{.{_BUSY}{{animation:none}}}}"
)
# It has room for three whole lines, and everything in it has the height of lines.
_PANE_HEIGHT = "4.5em"
_PANE = (
    f"height:{_PANE_HEIGHT};line-height:1.5em;overflow:hidden;display:flex;"
    "flex-direction:column-reverse;padding:0 0 0 1em"
)
_IN_STEP = "margin:.2em 0 .2em .33em"
_IN_PANE = f"{draw.PRE};margin:0;padding:0 .8em;line-height:inherit;max-height:none;border-radius:0"
# A widget is as wide as its longest line, unless the line is in a column that may be narrower.
_ROOT = f"{draw.ROOT};margin:0;display:grid;grid-template-columns:minmax(0,1fr)"
# As high as the field and the button, which may come later, and as the facts in the final trace.
_ROW = {"margin": "0", "min_height": draw.STATE_HEIGHT}
_ROW |= {"flex_flow": "row wrap", "align_items": "center"}
_ROW |= {"max_width": draw.WIDTH}
# Whether the two are side by side depends on the width of the page alone: a text gives way.
_STATE = {"margin": "0", "flex": "2 1 15em", "min_width": "0", "overflow": "hidden"}
_ACTIONS = {"margin": "0", "flex": "1 1 17em", "min_width": "0", "justify_content": "flex-end"}
_ACTIONS |= {"min_height": draw.STATE_HEIGHT, "align_items": "center", "overflow": "hidden"}
_PHASE = {"margin": "0", "flex": "none", "max_width": "100%"}
_PASSED = {"margin": "0", "flex": "1 99 auto", "min_width": "7em"}
# The header has the rule above it, and the pane the one below while it has a text of the last step.
_FRAME = {"padding": ".25em 0", "margin": "0 0 .3em", "max_width": draw.WIDTH}
_FRAME |= {"border_bottom": LINE}


def live_question(view: RunView, number: int = 0) -> Html:
    """The question, with the style sheets of all pieces; `number` is the run's in this process."""
    sheets = stylesheet(draw.SHEET + _STICKY)
    question = draw.question_html(view)
    page = _piece(sheets, reopened.hide_copy(number), question)
    return element("div", page, class_=f"{reopened.LIVE}{number:d}")


@lru_cache(maxsize=32)  # a finished step is not drawn again
def live_step(step: StepView, streamed: Streamed | None = None, *, newest: bool) -> Html:
    """A step as in the final trace; of a program, also what is being written."""
    if streamed is not None and streamed.program:
        step = writing_program(step, streamed)
    if step.empty:  # what happens in it is in the header and in the pane
        return join()
    doing = "waiting for the reply" if newest else ""
    return _piece(draw.step_html(step, PageLimits([step]), doing=doing))


def live_exhibits(view: RunView) -> Html:
    """The pictures and formatted texts so far, where the finished trace has them."""
    if not view.exhibits:
        return join()
    return _piece(draw.exhibits_html(view, PageLimits(view.steps)) or join())


def unfolds_steps() -> Html:
    """A triangle that unfolds the steps of a running run."""
    label = element("summary", title="show the steps")
    return _piece(element("details", label, class_=_UNFOLDS))


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


def live_now(step: StepView | None, streamed: Streamed | None) -> Html:
    """The part of an answer that has arrived, or the text that the model or a tool writes now."""
    if streamed is not None and streamed.answer:
        answer = draw.answer_html(_with_cursor(streamed.answer))
        return _piece(element("div", answer, style=f"min-height:{_PANE_HEIGHT}"))
    parts: list[Html] = []
    is_running = step is not None and any(call.status is None for call in step.calls)
    if step is not None and is_running and step.thought:
        parts.append(_thought(step.thought))
    if streamed is not None:
        parts += _streamed(streamed)
    # It begins at the top of the pane; of what is higher than the pane, the end is seen.
    pane = element("div", element("div", *parts, style="margin-bottom:auto"), style=_PANE)
    return _of_step(pane) if parts else _piece(element("div", pane, style=_IN_STEP))


def _with_cursor(written: str) -> str:
    """A text that is being written in Markdown, with the cursor; what is open in it is closed."""
    last = written.rpartition("\n")[2]
    closing = "".join(mark for mark in ("`", "**") if last.count(mark) % 2)
    return written + _CURSOR + closing


def live_reason(step: StepView | None) -> Html:
    """Why the model makes the call that the person is asked about."""
    if step is None or not step.thought:
        return join()
    reason = draw.thought_html(step.thought)
    return _of_step(element("div", reason, style="max-height:14em;overflow:auto;padding:0 0 0 1em"))


def _of_step(part: Html) -> Html:
    """A part of the step above it."""
    inner = element("div", part, style=f"{_IN_STEP};border-left:{LINE}")
    return _piece(element("div", inner, style=f"border-bottom:{LINE}"))


def _thought(thought: str) -> Html:
    return element("div", element("em", thought, style="white-space:pre-wrap"), style="opacity:.8")


def busy_line() -> Html:
    """A line that moves quietly while the run goes on."""
    return element("div", class_=_BUSY)


def _streamed(now: Streamed) -> Iterator[Html]:
    if now.reasoning:
        yield _thought(now.reasoning)
    if now.thought:
        yield _thought(now.thought)
    if now.tool:
        yield element("code", f"{now.tool} …", style=f"{draw.CODE};display:block")
    if now.arguments:
        yield element("pre", _arguments(now.arguments), _CURSOR, style=_IN_PANE)
    if now.output:
        yield element("pre", now.output, style=f"{_IN_PANE};{DIM}")


_BEGINS_TEXT = re.compile(r'\{\s*"(\w+)"\s*:\s*("(?:[^"\\]|\\.)*)', re.DOTALL)


def _arguments(written: str) -> Html | str:
    """The arguments of a call so far; code and other texts as they will be read."""
    found = _BEGINS_TEXT.fullmatch(written.rstrip("\\"))
    if found is None:
        return written
    try:
        text = str(json.loads(f'{found[2]}"', strict=False))
    except ValueError:  # within an escape of a character
        return written
    return code(text, draw.language_of(found[1], text))


def told_html(text: str) -> Html:
    """The person's message to the agent, until a request has taken it."""
    return element("div", "» ", tidy(text), element("em", " · with the next request"), style=DIM)


def _piece(*parts: Html) -> Html:
    return element("div", element("div", *parts), class_=CLASSES, style=_ROOT)


_EMPTY_PANE = live_now(None, None)
_HAS_RULE = f"border-bottom:{LINE}"


# ── widgets ───────────────────────────────────────────────────────────────────────────────────────

INTERVAL = 0.05
"""Seconds between two drawings."""
_TICK = 0.5  # well below a second with INTERVAL, or the clocks of the status line skip seconds
_PAUSE = 2.0  # seconds between two static copies
_PAUSE_IN_ANSWER = 5.0  # seconds, while an answer is written
_PACE = 50_000  # characters that cost a second more
_LEAST_WAIT = 2.0  # seconds for other cells that are worth a word
_MOST_STEPS = 24
_KEPT_STEPS = 12
_numbers = itertools.count(secrets.randbits(48))  # a page may show runs of an earlier kernel


class LiveLayer:
    """Shows a run in widgets.

    While the main thread waits, another one updates the clock and draws what came too soon after
    the last drawing; `_lock` protects what both use. A finished step is not drawn again, so it
    stays folded or unfolded as the user left it.
    """

    _open = 0  # layers that are shown: that of a run in a tool must not clear the cell

    def __init__(
        self,
        view: RunView,
        displays: Displays,
        inbox: Inbox | None = None,
        waited: float = 0.0,
        *,
        can_tell: bool = True,
        place: Any = None,
    ) -> None:
        import ipywidgets

        self._view = view
        self._displays = displays
        self._waited = ""
        if waited >= _LEAST_WAIT:
            self._waited = f"waited {clock(waited)} for other cells"
        self._activity = Activity()
        self._drawn_at = time.monotonic()
        self._call_drawn_at = 0.0
        self._first = 0  # number of steps without a widget, which were removed
        self._boxes: dict[int, Any] = {}  # the widget of each step, by its number
        self._all: list[Any] = []
        self._kernel = front_end.current_kernel()
        self._request = cell_request(self._kernel)
        self._lock = threading.RLock()
        self._due = threading.Event()
        self._over = threading.Event()
        self._has_asked = False  # whether the person has typed something below the cell
        self._way: front_end.Way = "input"  # how the person is asked
        self._number = next(_numbers)
        self._html_type = ipywidgets.HTML
        self._column_type = ipywidgets.VBox
        # One layout and one style serve all: each would be a model, and a message, of its own.
        self._shared = {"layout": self._register(ipywidgets.Layout(margin="0"))}
        self._head = self._html(self._question())
        self._shared["style"] = self._register(self._head.style)
        # While the pane is empty it keeps its place, but nothing that is seen moves with it.
        self._pane = self._register(ipywidgets.Layout(margin="0", visibility="hidden"))
        self._now = self._html(live_now(None, None), layout=self._pane)
        self._earlier = self._html("")
        self._panel = self._html("")
        self._inbox = inbox or Inbox()
        self._tell: header.TellField | None = None
        if inbox is not None and can_tell:
            self._tell = header.TellField(inbox, self._due.set)
        in_cell = self._inbox.runs_in_cell
        self._stop = header.StopButton(self._inbox.stop, interrupts=in_cell)
        self._phase = self._html("", layout=self._layout(_PHASE))
        self._passed = self._html("", layout=self._layout(_PASSED))
        self._offered = self._row([], _ACTIONS).add_class("anb-actions")
        self._actions = self._actions_of_person()
        self._waiting = self._html("")
        self._offer_actions()
        self._draw_state()
        self._header = self._column(self._parts_of_header()).add_class(_HEADER)
        self._frame = self._layout({"display": "none", **_FRAME})
        self._steps = self._box_of_steps()
        self._place, self._exhibits = self._column([]), self._html("")
        parts = [self._header, self._steps, self._now, self._panel, self._place, self._exhibits]
        self._top = self._register(reopened.reopenable(parts, self._shared["layout"]))
        self._top.add_class(_WHOLE)
        self._begin(self._top, place)

    def _box_of_steps(self) -> Any:
        """The box of the steps, which is folded unless the person wants them open."""
        box = self._register(self._column_type([self._earlier], layout=self._frame))
        if self._view.trace != "steps":
            box.add_class(_STEPS)
        return box

    def _parts_of_header(self) -> list[Any]:
        """The question, the state and the buttons of the run, and the messages of the person."""
        state = self._row([self._phase, self._passed], _STATE)
        unfolds = [self._html(unfolds_steps())] if self._view.trace == "folded" else []
        return [
            self._head,
            self._row([*unfolds, state, self._offered], _ROW),
            self._html(join(busy_line(), copy_buttons(), page_script())),
            self._waiting,
        ]

    def _begin(self, top: Any, place: Any) -> None:
        """Show the copy and the widgets, and start the clock."""
        copy = self._copy(doing=self._activity.phase)
        if place is None:
            place = _display(copy, display_id=True)
        else:
            place.update(copy, raw=True)
        self._static: Any = place
        self._live: Any = _display(front_end.view_of(top), display_id=True)
        self._clock = self._started_clock()
        LiveLayer._open += 1
        front_end.open_place(self._place)

    def _started_clock(self) -> threading.Thread:
        """The thread that draws while the main thread waits."""
        # ipykernel 7.0 sends what a thread draws only if its context knows the cell.
        run = copy_context().run
        thread = threading.Thread(
            target=run, args=(self._tick,), name="archytas_nb-trace", daemon=True
        )
        thread.start()
        return thread

    def _actions_of_person(self) -> tuple[Any, ...]:
        """The field and the button with which a person acts on the run."""
        actions = []
        for each in (self._tell, self._stop):
            if each is not None:
                self._register(each.layout)
                self._register(each.widget.style)
                actions.append(self._register(each.widget))
        return tuple(actions)

    def update(self, view: RunView, event: ev.Event) -> ev.ApprovalForm | None:
        """Show what an event has changed, a little later if the last drawing was just now.

        The lines before a call are drawn immediately: it may keep the interpreter, so that nothing
        else is drawn while it runs. A call that waits for approval is returned.
        """
        with self._lock:
            self._view = view
            self._activity.take(event)
            self._show_displays(event)
            is_question = isinstance(event, ev.Delta) and event.kind == "person"
            if is_question:
                self._note_way()
            if isinstance(event, ev.Delta) and event.form is not None:
                self._draw()
                self._static.update(self._copy(), raw=True)
                front_end.send(self._kernel)
                return event.form
            now = time.monotonic()
            comes_before_call = isinstance(event, ev.RunCalls)
            comes_before_call |= isinstance(event, ev.Delta) and event.kind == "ended"
            is_urgent = comes_before_call and now - self._call_drawn_at >= INTERVAL
            if is_urgent:
                self._call_drawn_at = now
            if is_urgent or now - self._drawn_at >= INTERVAL:
                self._draw()
            else:
                self._due.set()
            if is_urgent:
                front_end.send(self._kernel)
        return None

    def _show_displays(self, event: ev.Event) -> None:
        """Show the displays of a tool immediately, and its result when the outcome is known."""
        if isinstance(event, ev.Delta):
            if event.output is not None:
                self._displays.take(event.output)
        elif isinstance(event, ev.CallOutcomes | ev.ResumeProgram):
            self._displays.show(self._view.displays)

    def _note_way(self) -> None:
        """Note how the person is asked: what they type leaves lines below the cell."""
        self._way = front_end.way()
        if self._way == "input":
            self._has_asked = True

    def finish(self, view: RunView) -> None:
        """Show the static output, and close all widgets."""
        front_end.close_place(self._place)  # the forms of others are shown elsewhere from now on
        self._stop.close()
        if not self._over.is_set():
            LiveLayer._open -= 1
        self._over.set()
        self._due.set()
        with self._lock:
            try:
                data, metadata = bundle(view)
                is_alone = self._inbox.runs_in_cell and not LiveLayer._open
                if self._has_asked and is_alone and _owns_cell():
                    # JupyterLab keeps every line that was typed, and the box of an interrupted
                    # question: the output is displayed again without them.
                    _clear_output()
                    self._static = _display(data, metadata, display_id=True)
                    self._live = None
                    self._displays.show_again(view.displays)
                else:
                    self._static.update(data, raw=True, metadata=metadata)
                    self._live.update(front_end.NOTHING, raw=True)
            finally:
                self._close_widgets(view)
        self._clock.join(timeout=_TICK)

    @property
    def takes_clicks(self) -> bool:
        """Whether a click arrives in this front end."""
        return self._stop.works

    def offer(self, row: ActionRow | None) -> None:
        """Show buttons in place of the widgets of the run, or nothing."""
        if row is None:
            if self._live is not None:
                self._live.update(front_end.NOTHING, raw=True)
        elif self._live is None:
            self._live = front_end.display(row.widget)
        else:
            self._live.update(front_end.view_of(row.widget), raw=True)

    def redraw(self, view: RunView) -> None:
        """Show the finished run as it is now."""
        data, metadata = bundle(view)
        self._static.update(data, raw=True, metadata=metadata)
        if self._head.comm is not None:  # it is kept for pages that are opened again
            self._head.value = reopened.finished(view, self._number)

    def _close_widgets(self, view: RunView) -> None:
        """Close all widgets but those that show the finished trace to pages opened again."""
        kept: list[Any] = []
        with suppress(Exception):
            kept = reopened.keep(view, self._number, self._top, self._head)
        for widget in reversed(self._all):
            if widget not in kept:
                with suppress(Exception):
                    widget.close()
        self._all.clear()

    def _tick(self) -> None:
        while not self._over.is_set():
            self._due.wait(_TICK)
            self._over.wait(INTERVAL)
            try:
                with self._lock:
                    if not self._over.is_set():
                        if self._inbox.runs_in_cell:
                            front_end.keep_busy(self._kernel, self._request)
                        self._draw()
            except Exception:  # noqa: BLE001
                _log.exception("the live trace is not updated until the run has ended")
                return

    def _offer_actions(self) -> None:
        """Show what a person can do with the run, as soon as a click on it would arrive."""
        if not self._offered.children and self._stop.works:
            self._offered.children = self._actions

    def _draw_state(self) -> None:
        """Show what the run does now; the phase has a widget of its own, which is read out."""
        self._phase.value = _piece(draw.phase_html(self._activity.phase))
        passed = self._activity.passed(self._view)
        facts = [passed, draw.facts_of(self._view), self._waited]
        self._passed.value = _piece(draw.passed_html(" · ".join(filter(None, facts))))

    def told_too_late(self) -> list[str]:
        """The person's messages that came too late, and that the run has not reported."""
        if self._tell is None:
            return []
        return [*self._inbox.late, *self._tell.close()]

    def _draw_told(self) -> None:
        """Show what the next request will tell the agent, and empty the field."""
        if self._tell is None:
            return
        self._tell.clear()
        waiting = [told_html(text) for text in self._inbox.waiting]
        self._waiting.value = _piece(*waiting) if waiting else ""

    def _draw(self) -> None:
        self._offer_actions()
        self._draw_told()
        self._due.clear()
        self._drawn_at = time.monotonic()
        steps = self._view.steps
        if len(steps) - self._first > _MOST_STEPS:
            # Many together: a front end redraws all of them when the first one is removed.
            self._first = len(steps) - _KEPT_STEPS
        steps = steps[self._first :]
        if any(step.number not in self._boxes for step in steps):
            self._change_boxes([step.number for step in steps])
        streamed = self._activity.streamed()
        form = self._activity.form
        last = self._last_step()
        now = live_now(last, streamed)
        if self._is_waiting:  # the panel or the form has the place of the pane
            now = live_reason(last)
        if now == _EMPTY_PANE:  # before the steps grow, which moves it
            self._show_now(now)
        for step in steps[:-1]:
            self._boxes[step.number].value = live_step(step, newest=False)
        if last is not None:
            self._boxes[last.number].value = live_step(last, streamed, newest=True)
        if any(box.value for box in self._boxes.values()):
            self._frame.display = ""
        self._head.value = self._question()
        self._draw_state()
        if form is None or (self._way == "controls" and not form.decision):
            self._panel.value = ""  # the form shows the call
        else:
            hint = HINT if self._way == "input" else ""
            self._panel.value = _piece(panel_html(form, hint=hint))
        self._show_now(now)
        self._exhibits.value = live_exhibits(self._view)
        self._copy_if_due(streamed.answer if streamed is not None else "")

    def _copy_if_due(self, written: str) -> None:
        """Update the static copy from time to time; while an answer is written, less often."""
        pause = self._pause
        if self._view is self._copied:
            pause = max(pause, _PAUSE_IN_ANSWER)
        is_new = self._view is not self._copied or written != self._copied_answer
        if is_new and self._drawn_at - self._copied_at >= pause:
            self._static.update(self._copy(written), raw=True)

    @property
    def _is_waiting(self) -> bool:
        """Whether the person is asked something."""
        form = self._activity.form
        return self._activity.is_asking or (form is not None and not form.decision)

    def _last_step(self) -> StepView | None:
        """The last step, with the outcomes of its calls that have ended while others go on."""
        if not self._view.steps:
            return None
        step = self._view.steps[-1]
        step = replace(step, calls=with_outcomes(step.calls, self._activity.outcomes))
        if self._is_waiting:  # the panel or the form shows the call in full
            return without_arguments(step)
        return step

    def _show_now(self, now: str) -> None:
        self._pane.visibility = "hidden" if now == _EMPTY_PANE else "visible"
        self._frame.border_bottom = "none" if _HAS_RULE in now else LINE
        self._now.value = now

    def _question(self) -> Html:
        return live_question(self._view, self._number)

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

    def _copy(self, written: str = "", doing: str = "") -> dict[str, str]:
        """The run so far as a static output; the longer it is, the later the next one.

        Args:
            written: The part of the answer that has arrived.
            doing: The text to show until the widgets are loaded.
        """
        self._copied = self._view
        self._copied_answer = written
        self._copied_at = time.monotonic()
        data, _ = bundle(self._view)
        self._pause = max(_PAUSE, len(data["text/html"]) / _PACE)
        page = reopened.static_copy(
            self._view,
            self._number,
            self._activity.form,
            is_asking=self._activity.is_asking,
            has_buttons=self._way == "controls",
            written=written,
            doing=doing,
        )
        return {**data, "text/html": page}

    def _html(self, value: str, **more: Any) -> Any:
        return self._register(self._html_type(value, **{**self._shared, **more}))

    def _layout(self, traits: dict[str, str]) -> Any:
        import ipywidgets

        return self._register(ipywidgets.Layout(**traits))

    def _row(self, parts: list[Any], traits: dict[str, str]) -> Any:
        import ipywidgets

        return self._register(ipywidgets.HBox(parts, layout=self._layout(traits)))

    def _column(self, parts: list[Any]) -> Any:
        return self._register(self._column_type(parts, layout=self._shared["layout"]))

    def _register(self, widget: Any) -> Any:
        self._all.append(widget)
        return widget
