"""Asks a person with buttons and fields below the cell, while the cell runs.

    asked ──▶ is there a subshell? ──no──▶ `input()`, as everywhere else
                    │ yes
                    ▼
              the form is shown ──▶ button, field or Enter ──▶ the line that says the same

A front end that sends the messages of widgets on a subshell delivers a click while the main thread
is busy. The click arrives on another thread: there it is only put into a queue. The thread that
asks takes it from the queue, and it alone writes widgets. An answer is the same line that is typed
into `input()`, so that what is decided, recorded and replayed does not depend on how it was said.
"""

from __future__ import annotations

import _thread
import json
import signal
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Literal, Protocol

from archytas_nb import settings
from archytas_nb.loop.events import ApprovalForm, FormField, Json, UserQuestion
from archytas_nb.loop.record import Inbox
from archytas_nb.trace import html as draw
from archytas_nb.trace.safe import CODE_SHEET, Html, element, stylesheet
from archytas_nb.words import omit_middle

Way = Literal["controls", "input"]
"""How a person is asked."""


class _Person(Protocol):
    """Who is asked where there are no controls; see `archytas_nb.kernel.person.Person`."""

    @property
    def there(self) -> bool: ...

    def ask(self, prompt: str, form: ApprovalForm | UserQuestion | None = None) -> str: ...


# ── whether a click would arrive ──────────────────────────────────────────────────────────────────

_SECONDS_TO_CONNECT = 1.0  # until a front end has answered to its first widget; 0.1 s is usual
_without: set[int] = set()  # kernels, by id, whose front end has not made a subshell


def cell_request(kernel: Any) -> dict[str, Any]:
    """The message that the front end sent to run the cell; empty where there is none."""
    try:
        return dict(kernel.get_parent("shell"))
    except (AttributeError, TypeError):
        return {}


def keep_busy(kernel: Any, request: dict[str, Any]) -> None:
    """Have the front end show that the cell of a request still runs.

    What is done on a subshell ends with the status idle, which a front end takes for the kernel's.
    """
    if request and _has_subshell(kernel):
        content = {"execution_state": "busy"}
        kernel.session.send(kernel.iopub_socket, "status", content, parent=request)


def is_notebook(kernel: Any) -> bool:
    """Whether a notebook runs the cell, and a person can be asked."""
    # A console has a person too, but draws no widgets and updates. Only a notebook names its cell.
    is_cell = "cellId" in cell_request(kernel).get("metadata", {})
    return is_cell and bool(getattr(kernel, "_allow_stdin", False))


def _has_subshell(kernel: Any) -> bool:
    """Whether the front end has made a subshell; ipykernel 6 has none."""
    thread = getattr(kernel, "shell_channel_thread", None)
    manager = getattr(thread, "manager", None)
    if manager is None or not hasattr(manager, "list_subshell"):
        return False
    return bool(manager.list_subshell())


def way() -> Way:
    """How a person is asked here and now.

    Where no widget was shown before, an empty one is: a front end makes its subshell for the first
    one. One that makes none is not tried again.

    Raises:
        ConfigurationError: The setting ``ask_with`` cannot be read.
    """
    wanted = settings.value("ask_with")
    kernel = current_kernel()
    if wanted == "input" or kernel is None or not is_notebook(kernel):
        return "input"
    if _has_subshell(kernel):
        return "controls"
    if wanted == "auto" and id(kernel) in _without:
        return "input"
    if _connected(kernel):
        return "controls"
    _without.add(id(kernel))
    return "input"


def _connected(kernel: Any) -> bool:
    """Show an empty widget, and wait until the front end has made a subshell for it."""
    import ipywidgets

    probe = ipywidgets.VBox()
    handle = None
    if not _places:
        handle = _display(probe)
    ends = time.monotonic() + _SECONDS_TO_CONNECT
    try:
        while not _has_subshell(kernel):
            if time.monotonic() > ends:
                return False
            time.sleep(0.01)
    finally:
        if handle is not None:
            handle.update({}, raw=True)
        probe.close()
    return True


def current_kernel() -> Any:
    """The kernel of this process; None in a terminal."""
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None)


def _display(widget: Any) -> Any:
    """Display a widget, without a text that would be left where it cannot be drawn."""
    from IPython.display import display

    model = {"version_major": 2, "version_minor": 0, "model_id": widget.model_id}
    data = {"application/vnd.jupyter.widget-view+json": model}
    return display(data, raw=True, display_id=True)  # type: ignore[no-untyped-call]


# ── where controls are shown ──────────────────────────────────────────────────────────────────────

_places: list[Any] = []  # the boxes of the traces that are shown, the innermost last


def open_place(box: Any) -> None:
    """Have what is asked shown in a box of a trace."""
    _places.append(box)


def close_place(box: Any) -> None:
    """No longer show anything there."""
    with suppress(ValueError):
        _places.remove(box)


def reachable(widget: Any) -> Any:
    """A widget whose messages are not sent to the shell that runs the cell.

    ipykernel 7.4 has a front end reply to the shell that wrote a widget last, which is the busy
    one; other versions do not, and have no such attribute.
    """
    if hasattr(widget.comm, "_reply_subshell_for"):
        widget.comm._reply_subshell_for = None  # noqa: SLF001
    return widget


# ── the person ────────────────────────────────────────────────────────────────────────────────────


class Controls:
    """Asks with controls where they work, and another person elsewhere.

    Args:
        otherwise: Who is asked where there are no controls.
    """

    def __init__(self, otherwise: _Person) -> None:
        self._otherwise = otherwise
        self._next: list[str] = []  # the lines after the one that was returned
        self._seen: ApprovalForm | None = None  # what was shown when they were decided on

    @property
    def there(self) -> bool:
        """Whether a question would be answered."""
        return self._otherwise.there

    def ask(self, prompt: str, form: ApprovalForm | UserQuestion | None = None) -> str:
        """Show the controls and wait; return the line that says the same.

        Raises:
            EOFError, OSError: There will be no answer.
            KeyboardInterrupt: The person interrupted instead of answering.
        """
        lines = self._next
        self._next = []
        note = _note_of(prompt)
        if lines and not note and self._is_as_seen(form):
            self._next = lines[1:]
            return lines[0]
        if form is None or way() == "input":
            return self._otherwise.ask(prompt, form)
        if isinstance(form, UserQuestion):
            first = prompt.startswith(_ASKS)
            [line] = _answered(QuestionSheet(form, "" if first else note or prompt))
            return line
        line, *self._next = _answered(ApprovalSheet(form, note))
        self._seen = form
        return line

    def _is_as_seen(self, form: ApprovalForm | UserQuestion | None) -> bool:
        """Whether a call is the one that was shown, apart from what the person changed in it."""
        seen = self._seen
        if seen is None or not isinstance(form, ApprovalForm):
            return False
        same = {each.name: each.text for each in seen.arguments}
        others = [each for each in form.arguments if each.before is None]
        is_same = all(same.get(each.name) == each.text for each in others)
        return is_same and (form.tool, form.why) == (seen.tool, seen.why)


_ASKS = "The agent asks: "


def _note_of(prompt: str) -> str:
    """What is said above the line that asks, such as why an edit was not accepted."""
    note, _, _ = prompt.rpartition("\n")
    return note.strip()


_waiting: list[Sheet] = []  # the forms that wait for a person, the innermost last


def decide(what: Decided, reason: str = "") -> bool:
    """Decide about the call that waits, from any thread; returns False if none does."""
    for sheet in reversed(tuple(_waiting)):
        if isinstance(sheet, ApprovalSheet):
            sheet.decide(what, reason)
            return True
    return False


def _answered(sheet: Sheet) -> list[str]:
    """Show a sheet and wait for what the person does."""
    place = None
    handle = None
    if _places and sheet.fits_trace:
        place = _places[-1]
        place.children = (sheet.box,)
    else:
        handle = _display(sheet.box)
    _waiting.append(sheet)
    try:
        return sheet.wait()
    finally:
        _waiting.remove(sheet)
        if place is not None:
            place.children = ()
        if handle is not None:
            handle.update({}, raw=True)
        sheet.close()


# ── the end of a run ──────────────────────────────────────────────────────────────────────────────


class StopButton:
    """Ends a run as an interrupt does, but not what comes after it.

    open ──press──▶ stopped ──close──▶ closed      the signal is sent, and has arrived
      └────close──────────────────────▶ closed     a later press does nothing

    Attributes:
        widget: The button.
        was_pressed: Whether it has ended the run, or came while the run was ending.
    """

    _SECONDS_TO_ARRIVE = 0.05

    def __init__(self) -> None:
        import ipywidgets

        self.was_pressed = False
        self._is_open = True
        self._lock = threading.Lock()
        self.layout = ipywidgets.Layout(width="auto", height="auto", align_self="flex-end")
        tooltip = "end this run now; what is there stays"
        self.widget = ipywidgets.Button(description="Stop", tooltip=tooltip, layout=self.layout)
        self.widget.on_click(self._press)
        reachable(self.widget)

    @property
    def works(self) -> bool:
        """Whether a click would arrive while the cell runs."""
        return settings.value("ask_with") != "input" and _has_subshell(current_kernel())

    def _press(self, _: Any = None) -> None:
        """Interrupt the main thread, once; called on another thread."""
        with self._lock:
            if self._is_open and not self.was_pressed:
                self.was_pressed = True
                _interrupt_main()

    def close(self) -> None:
        """Do nothing from now on; a stop that was sent arrives here at the latest."""
        try:
            self._shut()
        except KeyboardInterrupt:
            self._shut()
            if not self.was_pressed:
                raise

    def _shut(self) -> None:
        with self._lock:
            self._is_open = False
        if self.was_pressed:
            time.sleep(self._SECONDS_TO_ARRIVE)


def _interrupt_main() -> None:
    """Interrupt the main thread, also while it waits for the system."""
    if sys.platform == "win32":
        _thread.interrupt_main()
    else:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGINT)


class TellField:
    """A field in which a person tells the agent something while it works; Enter sends it.

    The text is put into the inbox on another thread, which writes no widget.

    Attributes:
        widget: The field.
    """

    def __init__(self, inbox: Inbox, on_sent: Callable[[], object]) -> None:
        import ipywidgets

        self._inbox = inbox
        self._on_sent = on_sent
        self._sent: SimpleQueue[str] = SimpleQueue()  # texts that are still in the field
        self._refused: SimpleQueue[str] = SimpleQueue()
        self.layout = ipywidgets.Layout(width="auto", flex="0 1 24em", margin="2px 2px 2px auto")
        self.widget = ipywidgets.Text(placeholder=_TELL, layout=self.layout)
        self.widget.on_msg(self._on_message)
        reachable(self.widget)

    def _on_message(self, _: Any, content: Any, __: Any = None) -> None:
        """Send the text; called on another thread."""
        text = str(self.widget.value)
        if content.get("event") != "submit" or not text.strip():
            return
        if self._inbox.put(text.strip()):
            self._sent.put(text)
            self._on_sent()
        else:
            self._refused.put(text.strip())

    def clear(self) -> None:
        """Empty the field if what is in it was sent."""
        for text in _all_of(self._sent):
            if self.widget.value == text:
                self.widget.value = ""

    def close(self) -> list[str]:
        """The texts that came after the end of the run."""
        return _all_of(self._refused)


_TELL = "Tell the agent something; Enter sends it"


def _all_of(texts: SimpleQueue[str]) -> list[str]:
    found: list[str] = []
    with suppress(Empty):
        while True:
            found.append(texts.get_nowait())
    return found


# ── a map ─────────────────────────────────────────────────────────────────────────────────────────


class MapPanel:
    """What a person can do with a map while it runs: pause, go on, stop, retry what failed.

    What is pressed is put into the queue of the main thread, which does it between two rows.

    Args:
        do: Has the main thread call a function.
        pause: Lets no row begin (True), or lets them begin again (False).
        retry: Asks again about the rows that have failed.
    """

    def __init__(
        self,
        do: Callable[[Callable[[], object]], object],
        pause: Callable[[bool], object],
        retry: Callable[[], object],
    ) -> None:
        import ipywidgets

        self._pause = pause
        self._is_paused = False
        self._drawn: tuple[tuple[str, str], ...] = ()
        self._stop = StopButton()
        self._paused = ipywidgets.Button(description="Pause", tooltip="let no other row begin")
        self._retry = ipywidgets.Button(
            description="Retry what failed", tooltip="ask again about the rows that failed"
        )
        self._failures = ipywidgets.HTML()
        self._paused.on_click(lambda _: do(self._toggle))
        self._retry.on_click(lambda _: do(retry))
        for each in (self._paused, self._retry):
            reachable(each)
        self._buttons = ipywidgets.HBox()
        self._shown: tuple[Any, ...] = (self._paused, self._stop.widget)
        self.box = ipywidgets.VBox()
        self._handle = _display(self.box)

    def _toggle(self) -> None:
        self._is_paused = not self._is_paused
        self._pause(self._is_paused)
        self._paused.description = "Go on" if self._is_paused else "Pause"

    def draw(self, failures: Sequence[tuple[str, str]]) -> None:
        """Show the buttons, and the rows that failed last with the reason; on the main thread."""
        if not self.box.children:
            if not self._stop.works:
                return
            self._buttons.children = self._shown
            self.box.children = (self._buttons, self._failures)
        if self._drawn == tuple(failures):
            return
        self._drawn = tuple(failures)
        if failures:
            self._buttons.children = (*self._shown[:1], self._retry, *self._shown[1:])
        rows = [
            element("div", element("span", "✗ "), row, element("span", f" · {why}", style=draw.DIM))
            for row, why in failures
        ]
        self._failures.value = _piece(*rows)

    def close(self) -> None:
        """Remove the panel; a stop that was pressed arrives here at the latest.

        Raises:
            KeyboardInterrupt: The person interrupted the kernel.
        """
        try:
            self._stop.close()
        finally:
            self._handle.update({}, raw=True)
            every = (self._paused, self._retry, self._stop.widget, self._failures)
            for each in (*every, self._buttons, self.box):
                with suppress(Exception):
                    each.close()


def map_panel(
    do: Callable[[Callable[[], object]], object],
    pause: Callable[[bool], object],
    retry: Callable[[], object],
) -> MapPanel | None:
    """The panel of a map, if a person is at a notebook; see `MapPanel`."""
    kernel = current_kernel()
    if kernel is None or not is_notebook(kernel) or settings.value("ask_with") == "input":
        return None
    return MapPanel(do, pause, retry)


# ── the forms ─────────────────────────────────────────────────────────────────────────────────────

_POLL = 0.1  # seconds; so an interrupt arrives on Windows too, and the keyboard is put here
_FOCUS_AFTER = (0.1, 0.4)  # seconds until the keyboard is put here; the first may come too early
_UNSEEN = 0.7  # seconds in which an Enter was meant for something else, and decides nothing
_MOST_BUTTONS = 6  # more choices are a list
_CHIP = f"{draw.CODE};border:1px solid currentColor;border-radius:1em;padding:.1em .6em"

# Escape refuses: no widget reports it, and a field does not pass it on, hence the `true`. A key in
# the form is no shortcut of the notebook, and at the end the keyboard goes back to where it was.
# Where a page runs no such handlers, the buttons do the same.
_KEYS = (
    "const form=this.closest('.archytas-nb-form'),was=document.activeElement,shown=Date.now();"
    "if(form&&!form.dataset.lmSuppressShortcuts){"
    "form.dataset.lmSuppressShortcuts='true';"
    "form.addEventListener('keydown',event=>{if(event.key==='Escape'&&Date.now()-shown>700){"
    "event.preventDefault();form.querySelector('.archytas-nb-refuse')?.click()}},true);"
    "const watch=new MutationObserver(()=>{if(!form.isConnected){watch.disconnect();"
    "if(document.activeElement===document.body&&was.isConnected)was.focus({preventScroll:true})}});"
    "watch.observe(document.body,{childList:true,subtree:true})}"
)
_SHEET = (
    ".archytas-nb-form .widget-button{width:auto;max-width:100%;height:auto;min-height:32px;"
    "white-space:normal;text-align:left}"
    ".archytas-nb-form .widget-text,.archytas-nb-form .widget-textarea,"
    ".archytas-nb-form .widget-dropdown{width:auto;height:auto}"
    ".archytas-nb-form .widget-hbox>.widget-text,.archytas-nb-form .widget-hbox>.widget-dropdown"
    "{flex:1 1 22em}"
    ".archytas-nb-form .widget-label{flex:0 0 auto;min-width:7em;width:auto;text-align:left;"
    "font-family:monospace}"
    ".archytas-nb-form .widget-checkbox .widget-label{display:none}"
    ".archytas-nb-form .widget-checkbox,.archytas-nb-fault{width:auto;padding-left:calc(7em + 4px)}"
    ".archytas-nb-form select{min-height:28px}"
    ".archytas-nb-form textarea{font-family:monospace;min-height:7em}"
)
_SHEETS = draw.SHEET + CODE_SHEET + _SHEET


class Sheet:
    """Controls that are shown until the person has decided.

    What is pressed or typed is put into a queue, with the texts of all fields at this moment.

    Attributes:
        box: All of it.
        fits_trace: Whether it may be shown in a trace.
    """

    fits_trace = True

    def __init__(self) -> None:
        import ipywidgets

        self._inbox: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()
        self._all: list[Any] = []
        self._fields: dict[str, Any] = {}  # whose values are read
        self._wrap = ipywidgets.Layout(flex_flow="row wrap", align_items="center", margin="0")
        self._all.append(self._wrap)
        self.box = self._add(ipywidgets.VBox())
        self.box.add_class("archytas-nb-form")

    def wait(self) -> list[str]:
        """Wait for a decision; returns it as lines.

        Raises:
            EOFError: The time in which a question can be answered is over.
            KeyboardInterrupt: The person interrupted instead.
        """
        shown = time.monotonic()
        focus = list(_FOCUS_AFTER)
        limit = settings.value("ask_timeout")
        while True:
            passed = time.monotonic() - shown
            if limit is not None and passed >= limit:
                return self._timed_out(limit)
            if focus and passed >= focus[0]:
                self._first.focus()
                del focus[0]
            try:
                what, values = self._inbox.get(timeout=_POLL)
            except Empty:
                continue
            is_stray = what == "enter" and time.monotonic() - shown < _UNSEEN
            lines = None
            if not is_stray:
                lines = self._take(what, values)
            if lines is not None:
                return lines

    def close(self) -> None:
        """Close all widgets."""
        for widget in reversed(self._all):
            with suppress(Exception):
                widget.close()

    @property
    def _first(self) -> Any:
        """The control that gets the keyboard."""
        raise NotImplementedError

    def _take(self, what: str, values: dict[str, Any]) -> list[str] | None:
        """The lines for what was done; None to wait for more."""
        raise NotImplementedError

    def _timed_out(self, limit: float) -> list[str]:
        """The lines after so many seconds without a decision; raises EOFError if there are none."""
        raise EOFError(f"nobody answered within {limit:g} s")

    def _put(self, what: str) -> None:
        """Note what was done; called on another thread."""
        self._inbox.put((what, {name: each.value for name, each in self._fields.items()}))

    def _line_field(self, name: str, placeholder: str) -> Any:
        """A field of one line in which Enter decides."""
        import ipywidgets

        field = self._add(ipywidgets.Text(placeholder=placeholder))

        def on_message(_: Any, content: Any, __: Any = None) -> None:
            if content.get("event") == "submit":
                self._put("enter")

        field.on_msg(on_message)
        self._fields[name] = field
        return field

    def _button(self, title: str, what: str, style: str = "", tooltip: str = "") -> Any:
        import ipywidgets

        button = ipywidgets.Button(description=title, button_style=style, tooltip=tooltip)
        button.on_click(lambda _: self._put(what))
        return self._add(button)

    def _row(self, *widgets: Any) -> Any:
        import ipywidgets

        return self._add(ipywidgets.HBox(widgets, layout=self._wrap))

    def _html(self, *parts: Html | None) -> Any:
        import ipywidgets

        return self._add(ipywidgets.HTML(_piece(*parts)))

    def _add(self, widget: Any) -> Any:
        self._all.append(widget)
        return reachable(widget)


Decided = Literal["run", "refuse", "stop"]
"""What a person can decide about a call from elsewhere."""
_IF_RELOADED = (
    "If this page is reloaded, the buttons are gone: interrupt the kernel (nothing will have run), "
    "or answer with %agent_answer run, refuse or stop in a console on a subshell."
)


class ApprovalSheet(Sheet):
    """The controls for a call that waits for approval.

    Args:
        form: The call.
        note: What is said above the controls, if anything.
    """

    def __init__(self, form: ApprovalForm, note: str = "") -> None:
        import ipywidgets

        super().__init__()
        self.fits_trace = form.is_shown
        self._form = form
        panel = None
        if not form.is_shown:
            panel = draw.panel_html(form, hint="")
        said = None
        if note:
            said = element("div", note, style="margin:.3em 0")
        self._reason = self._line_field(_REASON, "Enter runs it; or say what to do instead")
        self._faults: dict[str, Any] = {}  # the widget below each field
        # Shown when it is wanted: children that are added later would redraw the other fields.
        self._editor = self._add(ipywidgets.Layout(display="none"))
        edits = self._add(ipywidgets.VBox(self._edit_rows(form.fields), layout=self._editor))
        head = self._html(stylesheet(_SHEETS, onload=_KEYS), panel, said)
        self._run = [
            self._button("Run", "run", "primary"),
            self._button("Run, do not ask again in this run", "run all"),
        ]
        refuse = self._button("Refuse", "refuse", tooltip="with the text as the reason (Escape)")
        refuse.add_class("archytas-nb-refuse")
        others = [refuse, self._button("Stop", "stop", "danger", tooltip="end the run here")]
        if self._faults:
            others.insert(0, self._button("Edit", "edit"))
        row = self._row(self._reason, *self._run, *others)
        foot = self._html(element("div", _IF_RELOADED, style=f"{draw.DIM};font-size:.85em"))
        self.box.children = (head, edits, row, foot)

    def decide(self, what: Decided, reason: str = "") -> None:
        """Decide from another thread, as a button does."""
        values = {name: each.value for name, each in self._fields.items()}
        self._inbox.put((what, {**values, _REASON: reason}))

    def _timed_out(self, limit: float) -> list[str]:
        return [f"n: nobody answered within {limit:g} s"]

    @property
    def _first(self) -> Any:
        return self._reason

    def _edit_rows(self, fields: Sequence[FormField]) -> list[Any]:
        import ipywidgets

        rows = []
        for each in fields:
            if each.is_fixed:
                chip = _piece(element("code", each.text, style=_CHIP))
                rows.append(self._add(ipywidgets.HTML(chip, description=each.name)))
                continue
            field = self._add(_field_of(each))
            field.observe(lambda _: self._put("typed"), "value")
            self._fields[each.name] = field
            self._faults[each.name] = self._html()
            self._faults[each.name].add_class("archytas-nb-fault")
            rows += [field, self._faults[each.name]]
        return rows

    def _take(self, what: str, values: dict[str, Any]) -> list[str] | None:
        reason = values[_REASON].strip()
        if what == "enter":
            what = "refuse" if reason else "run"
        if what == "edit":
            self._editor.display = ""
            self._fields[next(iter(self._faults))].focus()
            return None
        if what == "stop":
            return ["stop"]
        if what == "refuse":
            return [f"n: {reason}" if reason else "n"]
        changes, faults = self._changes(values)
        self._show(faults)
        if what == "typed" or faults:
            return None
        lines = [f"{name} = {json.dumps(new, ensure_ascii=False)}" for name, new in changes.items()]
        return [*lines, "y" if what == "run" else "r"]

    def _changes(self, values: dict[str, Any]) -> tuple[dict[str, Json], dict[str, str]]:
        """The arguments that were changed, and what is wrong with them."""
        changes: dict[str, Json] = {}
        faults: dict[str, str] = {}
        for each in self._form.fields:
            if each.name not in values or values[each.name] == _shown(each):
                continue
            try:
                new = _read(each, values[each.name])
            except ValueError:
                faults[each.name] = "this is not JSON"
                continue
            fault = self._form.check({**changes, each.name: new})
            if fault:
                faults[each.name] = fault
            changes[each.name] = new
        return changes, faults

    def _show(self, faults: dict[str, str]) -> None:
        for name, widget in self._faults.items():
            text = element("div", faults.get(name, ""), style=f"{draw.BAD};font-size:.9em")
            widget.value = _piece(text)
        for button in self._run:
            button.disabled = bool(faults)


class QuestionSheet(Sheet):
    """The controls for a question of the model: a button or an entry for each choice, and a field.

    Args:
        question: The question.
        note: What was wrong with the last answer.
    """

    def __init__(self, question: UserQuestion, note: str = "") -> None:
        import ipywidgets

        super().__init__()
        self._choices = question.choices
        asked = element("div", "The agent asks:", style=draw.DIM)
        text = element("div", question.text, style="white-space:pre-wrap;margin:.3em 0")
        said = element("div", note) if note else None
        head = self._html(stylesheet(_SHEETS, onload=_KEYS), asked, text, said)
        rows = []
        if len(self._choices) > _MOST_BUTTONS:
            options = [(choice, n) for n, choice in enumerate(self._choices)]
            self._list = self._add(ipywidgets.Dropdown(options=options, description=_CHOICE))
            self._fields[_CHOICE] = self._list
            rows = [self._row(self._list, self._button("Choose", "choose", "primary"))]
        elif self._choices:
            is_default = [_folded(each) == _folded(question.default) for each in self._choices]
            buttons = [
                self._button(each, f"{n}", "primary" if is_default[n] else "")
                for n, each in enumerate(self._choices)
            ]
            rows = [self._row(*buttons)]
        own = "Or answer in your own words" if self._choices else "Your answer"
        if question.default:
            own = f"{own}; Enter takes {omit_middle(question.default, 80)!r}"
        self._own = self._line_field(_REASON, own)
        rows.append(self._row(self._own, self._button("Answer", "enter")))
        self.box.children = (head, *rows)

    @property
    def _first(self) -> Any:
        return self._own

    def _take(self, what: str, values: dict[str, Any]) -> list[str] | None:
        if what == "enter":
            return [values[_REASON]]
        number = int(values[_CHOICE] if what == "choose" else what)
        choice = self._choices[number]
        same = [each for each in self._choices if _folded(each) == _folded(choice)]
        if choice.strip() and len(same) == 1:
            return [choice]
        return [f"{number + 1}"]


_REASON = ""  # no argument has this name
_CHOICE = " "


def _folded(text: str) -> str:
    return text.strip().casefold()


def _piece(*parts: Html | None) -> Html:
    return element("div", *parts, class_=draw.CLASSES)


# ── fields ────────────────────────────────────────────────────────────────────────────────────────


def _kind_of(field: FormField) -> str:
    """How an argument is entered: text, lines, tick, choice, number or JSON."""
    schema = field.schema
    if "enum" in schema and field.value in schema["enum"]:
        return "choice"
    kind = schema.get("type")
    if kind == "boolean" and type(field.value) is bool:
        return "tick"
    if kind == "string" and isinstance(field.value, str):
        return "lines" if field.is_code or "\n" in field.value else "text"
    if kind in ("integer", "number"):
        return "number"
    return "JSON"


def _field_of(field: FormField) -> Any:
    """The widget in which an argument is entered."""
    import ipywidgets

    shown = _shown(field)
    kind = _kind_of(field)
    if kind == "choice":
        values = field.schema["enum"]
        is_text = all(type(each) is str for each in values)
        options = [(each if is_text else _dumps(each), _dumps(each)) for each in values]
        return ipywidgets.Dropdown(options=options, value=shown, description=field.name)
    if kind == "tick":
        return ipywidgets.Checkbox(value=shown, description=field.name)
    if kind == "lines":
        return ipywidgets.Textarea(value=shown, description=field.name)
    return ipywidgets.Text(value=shown, description=field.name)


def _shown(field: FormField) -> Any:
    """The value of the widget that stands for the argument as it is."""
    if _kind_of(field) in ("text", "lines", "tick"):
        return field.value
    return _dumps(field.value)


def _read(field: FormField, entered: Any) -> Json:
    """The argument that was entered; raises ValueError."""
    if _kind_of(field) in ("text", "lines", "tick"):
        return entered
    try:
        return json.loads(entered)
    except ValueError:
        if _kind_of(field) == "number":  # the schema says what was expected
            return entered
        raise


def _dumps(value: Json) -> str:
    return json.dumps(value, ensure_ascii=False)
