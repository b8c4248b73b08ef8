"""The forms in which a person decides: about a call, and about a question of the model.

A click arrives on another thread: there it is only put into a queue. The thread that asks takes it
from the queue, and it alone writes widgets.
"""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Any, Literal

from archytas_nb import settings
from archytas_nb.loop.events import ApprovalForm, FormField, Json, UserQuestion
from archytas_nb.trace import front_end
from archytas_nb.trace import html as draw
from archytas_nb.trace.reopened import DECIDE_ELSEWHERE
from archytas_nb.trace.safe import CODE_SHEET, Html, element, stylesheet
from archytas_nb.words import NOBODY_ANSWERED, omit_middle

_POLL = 0.1  # seconds; so an interrupt arrives on Windows too, and the keyboard is put here
_FOCUS_AFTER = (0.1, 0.4)  # seconds until the keyboard is put here; the first may come too early
_UNSEEN = 0.7  # seconds in which an Enter was meant for something else, and decides nothing
_TOO_SOON = "That Enter came too soon to be meant for this. Press it again."
_MOMENT = 5.0  # seconds in which this is shown
_SETTLES = 0.15  # seconds in which a text that is still being typed arrives after its Enter
_MOST_BUTTONS = 6  # more choices are a list
_HINT = f"{draw.DIM};font-size:.85em;line-height:1.4"
_CHIP = f"{draw.CODE};border:1px solid currentColor;border-radius:1em;padding:.1em .6em"

# An Enter just after the keyboard was put here was meant for something else; a busy page draws
# late, so it is the page that knows when that was.
# Escape refuses, unless it is held down since before: no widget reports it, and a field does not
# pass it on, hence the `true`. In a field of several lines, Shift or Control and Enter run the
# call, as they run a cell. A key in the form is no shortcut of the notebook, and at the end the
# keyboard goes back to where it was. Where a page runs no such handlers, the buttons do the same.
_KEYS = (
    "const form=this.closest('.archytas-nb-form'),was=document.activeElement;"
    "let since=form?.contains(was)?Date.now():0;"
    "if(form&&!form.dataset.lmSuppressShortcuts){"
    "form.dataset.lmSuppressShortcuts='true';"
    # A button is disabled until the text that was typed last has been checked.
    "const press=(event,name)=>{event.preventDefault();event.stopPropagation();"
    "const button=form.querySelector(name);let tries=40;"
    "const click=()=>{if(button&&!button.disabled)button.click();"
    "else if(button&&tries-->0)setTimeout(click,50)};click()};"
    "form.addEventListener('focusin',()=>{since=since||Date.now()});"
    "form.addEventListener('keydown',event=>{"
    "const isEnter=event.key==='Enter'&&event.target.tagName==='INPUT';"
    f"if(isEnter&&Date.now()-since<{_UNSEEN * 1000:g}){{"
    "event.preventDefault();event.stopPropagation();form.classList.add('archytas-nb-early');"
    f"setTimeout(()=>form.classList.remove('archytas-nb-early'),{_MOMENT * 1000:g})}}"
    "if(event.key==='Escape'&&!event.repeat)press(event,'.archytas-nb-refuse');"
    "const runs=event.key==='Enter'&&(event.shiftKey||event.ctrlKey||event.metaKey);"
    "if(runs&&event.target.tagName==='TEXTAREA')press(event,'.archytas-nb-run')},true);"
    "const watch=new MutationObserver(()=>{if(!form.isConnected){watch.disconnect();"
    "if(document.activeElement===document.body&&was.isConnected)was.focus({preventScroll:true})}});"
    "watch.observe(document.body,{childList:true,subtree:true})}"
)
_LABEL = "calc(7em + 8px)"  # with what is between a label and its field
# The arrow of a list is a picture in black: another one has the colour of the text.
_ARROW = (
    "background:linear-gradient(45deg,transparent 50%,currentColor 50%) right 13px center/5px 5px "
    "no-repeat,linear-gradient(-45deg,transparent 50%,currentColor 50%) right 8px center/5px 5px "
    "no-repeat,var(--jp-widgets-input-background-color,transparent)"
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
    ".archytas-nb-form .widget-label-basic{font-family:monospace}"
    ".archytas-nb-form .widget-checkbox .widget-label{display:none}"
    f".archytas-nb-form .widget-checkbox,.archytas-nb-fault{{width:auto;padding-left:{_LABEL}}}"
    ".archytas-nb-form .widget-html{align-items:center}"
    ".archytas-nb-form .widget-html-content{line-height:1.5}"
    # The label of a list of answers is only read out.
    ".archytas-nb-answers .widget-label{position:absolute;width:1px;min-width:0;overflow:hidden;"
    "clip-path:inset(50%)}"
    ".archytas-nb-early .archytas-nb-too-soon{display:block!important}"
    ".archytas-nb-early .archytas-nb-hint{display:none}"
    f".archytas-nb-form select{{min-height:28px;{_ARROW}}}"
    ".archytas-nb-form textarea{font-family:monospace;min-height:7em}"
)
_SHEETS = draw.SHEET + CODE_SHEET + _SHEET


class Sheet:
    """Controls that are shown until the person has decided.

    What is pressed or typed is put into a queue, with the texts of all fields at this moment.

    Attributes:
        box: All of it.
        fits_trace: Whether it may be shown in a trace.
        hint: What is said below the controls, if anything.
    """

    fits_trace = True
    hint = ""

    def __init__(self) -> None:
        import ipywidgets

        self._inbox: SimpleQueue[tuple[str, dict[str, Any]]] = SimpleQueue()
        self._all: list[Any] = []
        self._fields: dict[str, Any] = {}  # whose values are read
        self._said_until = 0.0
        self._typed_at = 0.0  # when a field has changed last
        self._wrap = ipywidgets.Layout(flex_flow="row wrap", align_items="center", margin="0")
        self._all.append(self._wrap)
        self.box = self._add(ipywidgets.VBox())
        self.box.add_class("archytas-nb-form")
        self._foot = self._html()
        self._say(self.hint)

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
                if not front_end.is_written_to():
                    self._first.focus()
                del focus[0]
            if self._said_until and time.monotonic() > self._said_until:
                self._say(self.hint)
                self._said_until = 0.0
            try:
                what, values = self._inbox.get(timeout=_POLL)
            except Empty:
                continue
            if what == "enter" and time.monotonic() - shown < _UNSEEN:
                self._say(_TOO_SOON)
                self._said_until = time.monotonic() + _MOMENT
                continue
            if what != "typed" and time.monotonic() - self._typed_at < 2 * _SETTLES:
                time.sleep(_SETTLES)
                values = self._values()
            lines = self._take(what, values)
            if lines is not None:
                return lines

    def close(self) -> None:
        """Close all widgets, with the layouts and styles that were made with them."""
        for widget in reversed(self._all):
            for each in (widget, *_made_with(widget)):
                with suppress(Exception):
                    each.close()

    @property
    def _first(self) -> Any:
        """The control that gets the keyboard."""
        raise NotImplementedError

    def _take(self, what: str, values: dict[str, Any]) -> list[str] | None:
        """The lines for what was done; None to wait for more."""
        raise NotImplementedError

    def _timed_out(self, limit: float) -> list[str]:
        """The lines after so many seconds without a decision; raises EOFError if there are none."""
        raise EOFError(f"{NOBODY_ANSWERED} {limit:g} s")

    def _say(self, text: str) -> None:
        """Say something below the controls, where the page may say that an Enter came too soon."""
        said = element("div", text, class_="archytas-nb-hint")
        soon = element("div", _TOO_SOON, class_="archytas-nb-too-soon", style="display:none")
        self._foot.value = _piece(element("div", said, soon, role="status", style=_HINT))

    def _put(self, what: str) -> None:
        """Note what was done; called on another thread."""
        self._inbox.put((what, self._values()))

    def _values(self) -> dict[str, Any]:
        """The texts of all fields."""
        return {name: each.value for name, each in self._fields.items()}

    def _add_field(self, name: str, field: Any) -> None:
        """Read a field with each press; a page sends what is typed later than a press."""
        self._fields[name] = field
        field.observe(self._note_typing, "value")

    def _note_typing(self, _: Any) -> None:
        self._typed_at = time.monotonic()

    def _line_field(self, name: str, placeholder: str) -> Any:
        """A field of one line in which Enter decides."""
        import ipywidgets

        field = self._add(ipywidgets.Text(placeholder=placeholder))
        self._on_enter(field, "enter")
        self._add_field(name, field)
        return field

    def _on_enter(self, field: Any, what: str) -> None:
        """Have Enter in a field of one line do something."""

        def on_message(_: Any, content: Any, __: Any = None) -> None:
            if content.get("event") == "submit":
                self._put(what)

        field.on_msg(on_message)

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
        return front_end.reachable(widget)


def _made_with(widget: Any) -> list[Any]:
    """The layout and the style of a widget, which are widgets too."""
    return [getattr(widget, name) for name in ("layout", "style") if hasattr(widget, name)]


Decided = Literal["run", "refuse", "stop"]
"""What a person can decide about a call from elsewhere."""
_IF_RELOADED = f"If this page is reloaded, the buttons are gone: {DECIDE_ELSEWHERE}."


class ApprovalSheet(Sheet):
    """The controls for a call that waits for approval.

    Args:
        form: The call.
        note: What is said above the controls, if anything.
    """

    hint = _IF_RELOADED

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
        self._run[0].add_class("archytas-nb-run")
        others = [refuse, self._button("Stop", "stop", "danger", tooltip="end the run here")]
        if self._faults:
            others.insert(0, self._button("Edit", "edit"))
        row = self._row(self._reason, self._row(*self._run, *others))
        self.box.children = (head, edits, row, self._foot)

    def decide(self, what: Decided, reason: str = "") -> None:
        """Decide from another thread, as a button does."""
        self._typed_at = 0.0  # what is typed meanwhile belongs to no press
        self._inbox.put((what, {**self._values(), _REASON: reason}))

    def _timed_out(self, limit: float) -> list[str]:
        return [f"n: {NOBODY_ANSWERED} {limit:g} s"]

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
            self._on_enter(field, "run")
            self._add_field(each.name, field)
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
        return [*lines, "y" if what == "run" else "this run"]

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
            else:
                changes[each.name] = new
        return changes, faults

    def _show(self, faults: dict[str, str]) -> None:
        for name, widget in self._faults.items():
            text = element("div", faults.get(name, ""), style=f"{draw.BAD};font-size:.9em")
            widget.value = _piece(text)
        for button in self._run:
            button.disabled = bool(faults)


class QuestionSheet(Sheet):
    """The controls for a question: a button or an entry for each choice, and a field.

    Args:
        question: The question.
    """

    def __init__(self, question: UserQuestion) -> None:
        import ipywidgets

        super().__init__()
        self._choices = question.choices
        asked = None
        if question.is_of_model:
            asked = element("div", "The agent asks:", style=draw.DIM)
        text = element("div", question.text, style="white-space:pre-wrap;margin:.3em 0")
        fault = element("div", question.fault) if question.fault else None
        head = self._html(stylesheet(_SHEETS, onload=_KEYS), asked, text, fault)
        rows = []
        if len(self._choices) > _MOST_BUTTONS:
            options = [(choice, n) for n, choice in enumerate(self._choices)]
            self._list = self._add(ipywidgets.Dropdown(options=options, description="Answers"))
            self._list.add_class("archytas-nb-answers")
            self._add_field(_CHOICE, self._list)
            rows = [self._row(self._list, self._button("Choose", "choose", "primary"))]
        elif self._choices:
            is_default = [_folded(each) == _folded(question.default) for each in self._choices]
            buttons = [
                self._button(each, f"{n}", "primary" if is_default[n] else "")
                for n, each in enumerate(self._choices)
            ]
            rows = [self._row(*buttons)]
        own = "Your answer"
        if self._choices:
            own = "Or answer in your own words" if question.is_of_model else "Or type the answer"
        if question.default:
            own = f"{own}; Enter takes {omit_middle(question.default, 80)!r}"
        self._own = self._line_field(_REASON, own)
        rows.append(self._row(self._own, self._button("Answer", "enter")))
        self.box.children = (head, *rows, self._foot)

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
