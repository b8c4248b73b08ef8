"""The forms in which a person decides: about a call, and about a question of the model.

    card ──Edit──▶ edit          the fields take the place of the call; what is changed is kept
      │ ▲            │
      │ └────Back────┤           the call as it was changed
      └─Refuse…─▶ reason ─Back─▶ card

A click arrives on another thread: there it is only put into a queue. The thread that asks takes it
from the queue, and it alone writes widgets. `form_page` says what a form does with the keyboard.
"""

from __future__ import annotations

import difflib
import json
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, Literal

from archytas_nb import settings
from archytas_nb.loop.decision import UnansweredError
from archytas_nb.loop.events import (
    UNSEEN,
    ApprovalForm,
    Findings,
    FormField,
    Json,
    UserQuestion,
)
from archytas_nb.trace import form_page as page
from archytas_nb.trace import front_end, safe
from archytas_nb.trace import html as draw
from archytas_nb.trace.safe import Html, element, stylesheet
from archytas_nb.words import count, keep_both_ends

_POLL = 0.1  # seconds; so an interrupt arrives on Windows too
_MOMENT = 5.0  # seconds in which a hint is shown
_SETTLES = 0.15  # seconds in which a text that is still being typed arrives after its press
_MOST_BUTTONS = 6  # more choices are a list
_MOST_LINES = 20  # of a field; a longer text has a scroll bar of its own
_HINT = f"{draw.DIM};font-size:.85em;line-height:1.4"
_CHIP = f"{draw.CODE};border:1px solid currentColor;border-radius:1em;padding:.1em .6em"

_LABEL = "calc(7em + 8px)"  # with what is between a label and its field
# The arrow of a list is a picture in black: another one has the colour of the text.
_ARROW = (
    "background:linear-gradient(45deg,transparent 50%,currentColor 50%) right 13px center/5px 5px "
    "no-repeat,linear-gradient(-45deg,transparent 50%,currentColor 50%) right 8px center/5px 5px "
    "no-repeat,var(--jp-widgets-input-background-color,transparent)"
)
_AMBER = "#c9851b"
_SHEET = (
    f".{page.FORM}{{position:relative;max-width:{draw.WIDTH};margin:.6em 0 .4em!important;"
    f"border:{draw.LINE};border-left:3px solid {_AMBER};border-radius:6px;"
    "padding:.5em .9em .6em!important;overflow:visible!important;scroll-margin:.5em}"
    f".{page.FORM}.anb-calm{{border-left:{draw.LINE}}}"
    f".{page.FORM}:focus-visible{{outline:2px solid {_AMBER};outline-offset:2px}}"
    f".{page.FORM} .widget-html,.{page.FORM} .widget-vbox{{margin:0;max-width:100%}}"
    ".anb-approval .anb-head{padding-right:6em;min-height:2.4em}"
    f".{page.FORM} .anb-stop{{position:absolute;top:.3em;right:.7em}}"
    f".{page.CALL} pre{{max-height:{1.45 * _MOST_LINES + 1.2:g}em!important}}"
    f".anb-brief{{display:none}}.{page.TALL} .anb-brief{{display:block}}"
    f".{page.FORM} .widget-button{{width:auto;max-width:100%;height:auto;min-height:32px;"
    "white-space:normal;text-align:left}"
    f".{page.FORM} .widget-text,.{page.FORM} .widget-textarea,"
    f".{page.FORM} .widget-dropdown{{width:auto;max-width:100%;height:auto}}"
    f".{page.FORM} .widget-hbox>.widget-text{{flex:1 1 22em}}"
    f".{page.FORM} .widget-hbox>.widget-dropdown{{margin-left:auto}}"
    f".{page.FORM} .widget-label{{flex:0 0 auto;min-width:7em;width:auto;text-align:left;"
    "font-family:monospace}"
    f".{page.FORM} .widget-label-basic{{font-family:monospace}}"
    f".{page.FORM} .widget-checkbox .widget-label{{display:none}}"
    f".{page.FORM} .widget-checkbox,.anb-note{{width:auto;padding-left:{_LABEL}}}"
    f".{page.FORM} .widget-html{{align-items:center}}"
    f".{page.FORM} .widget-html-content{{line-height:1.5}}"
    f".anb-changed{{box-shadow:-3px 0 {_AMBER}}}"
    f".{page.WRONG} :is(input,textarea,select){{border-color:#d64545!important}}"
    # The label of a list of answers is only read out.
    ".anb-answers .widget-label{position:absolute;width:1px;min-width:0;overflow:hidden;"
    "clip-path:inset(50%)}"
    f".{page.FORM} select{{min-height:28px;{_ARROW}}}"
    f".{page.FORM} textarea{{font-family:monospace;line-height:1.45;resize:vertical}}"
    # There is one button that stops, and one place to write; what is written there stays.
    ".anb-whole:has(.anb-approval) .anb-actions:not(:focus-within)"
    "{visibility:hidden}"
    f".anb-whole:has(.{page.FORM}) .anb-header{{position:static}}"
    f".anb-whole:has(.{page.FORM}) .anb-busy{{animation:none;background:{_AMBER}}}"
)
_SHEETS = draw.SHEET + _SHEET


class Sheet:
    """Controls that are shown until the person has decided.

    What is pressed or typed is put into a queue, with the texts of all fields at this moment. What
    is pressed before it can have been read is not taken.

    Attributes:
        box: All of it.
        fits_trace: Whether it may be shown in a trace.
        hint: The line below the controls, if any.
        decides_nothing: Replies that are accepted at any time.
    """

    fits_trace = True
    hint = ""
    decides_nothing: tuple[str, ...] = ("typed",)

    def __init__(self) -> None:
        import ipywidgets

        self._inbox: SimpleQueue[tuple[str, dict[str, Any], float]] = SimpleQueue()
        self._all: list[Any] = []
        self._fields: dict[str, Any] = {}  # whose values are read
        self._said_until = 0.0
        self._typed_at = 0.0  # when a field has changed last
        self._shown_at = time.monotonic()  # when it, or another part of it, was shown
        self._wrap = ipywidgets.Layout(flex_flow="row wrap", align_items="center", margin="0")
        self._all.append(self._wrap)
        self.box = self._add(ipywidgets.VBox())
        self.box.add_class(page.FORM)
        self._script = self._html(stylesheet(_SHEETS), page.page_script())
        self._foot = self._html()
        self._say(self.hint)

    @property
    def seconds_shown(self) -> float:
        """How long it, or the part of it that is shown, has been seen."""
        return time.monotonic() - self._shown_at

    def wait(self) -> list[str]:
        """Wait for a decision; returns it as lines.

        Raises:
            UnansweredError: The time in which a question can be answered is over.
            KeyboardInterrupt: The person interrupted instead.
        """
        shown = self._shown_at = time.monotonic()
        limit = settings.value("ask_timeout")
        while True:
            if limit is not None and time.monotonic() - shown >= limit:
                raise UnansweredError(limit)
            if self._said_until and time.monotonic() > self._said_until:
                self._say(self.hint)
                self._said_until = 0.0
            try:
                what, values, at = self._inbox.get(timeout=_POLL)
            except Empty:
                continue
            if what not in self.decides_nothing and at - self._shown_at < UNSEEN:
                self._say_for_a_moment(page.TOO_SOON)
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

    def _take(self, what: str, values: dict[str, Any]) -> list[str] | None:
        """The lines for what was done; None to wait for more."""
        raise NotImplementedError

    def _say(self, text: str) -> None:
        """Say something below the controls, where the page may say why it took a press for none."""
        hints = {
            "early": page.TOO_SOON,
            "enter": "Nothing was done: press Ctrl-Enter, or Enter on a button.",
            "unread": "Scroll to the end of the call first.",
        }
        parts = [element("div", text, class_="anb-hint")]
        parts += [element("div", each, class_=f"anb-hint-{name}") for name, each in hints.items()]
        self._foot.value = _piece(element("div", *parts, role="status", style=_HINT))

    def _say_for_a_moment(self, text: str) -> None:
        self._say(text)
        self._said_until = time.monotonic() + _MOMENT

    def _put(self, what: str, values: dict[str, Any] | None = None) -> None:
        """Note what was done; called on another thread."""
        self._inbox.put((what, self._values() if values is None else values, time.monotonic()))

    def _values(self) -> dict[str, Any]:
        """The texts of all fields."""
        return {name: each.value for name, each in self._fields.items()}

    def _add_field(self, name: str, field: Any) -> None:
        """Read a field with each press; a page sends what is typed later than a press."""
        self._fields[name] = field
        field.observe(self._note_typing, "value")

    def _note_typing(self, _: Any) -> None:
        self._typed_at = time.monotonic()

    def _line_field(self, name: str, placeholder: str, what: str) -> Any:
        """A field of one line in which Enter does something."""
        import ipywidgets

        field = self._add(ipywidgets.Text(placeholder=placeholder))

        def on_message(_: Any, content: Any, __: Any = None) -> None:
            if content.get("event") == "submit":
                self._put(what)

        field.on_msg(on_message)
        self._add_field(name, field)
        return field

    def _button(self, title: str, what: str, *, is_first: bool = False, tooltip: str = "") -> Any:
        import ipywidgets

        style = "primary" if is_first else ""
        button = ipywidgets.Button(description=title, button_style=style, tooltip=tooltip)
        button.on_click(lambda _: self._put(what))
        return self._add(button)

    def _row(self, *widgets: Any) -> Any:
        import ipywidgets

        return self._add(ipywidgets.HBox(widgets, layout=self._wrap))

    def _html(self, *parts: Html | None) -> Any:
        import ipywidgets

        return self._add(ipywidgets.HTML(_piece(*parts)))

    def _head(self, title: str) -> Any:
        """The line that says what waits, and for how long."""
        said = element("strong", title, class_=page.TITLE)
        since = element("span", class_=page.SINCE, style=draw.DIM)
        return self._html(element("div", said, since)).add_class("anb-head")

    def _add(self, widget: Any) -> Any:
        self._all.append(widget)
        return front_end.reachable(widget)


def _made_with(widget: Any) -> list[Any]:
    """The layout and the style of a widget, which are widgets too."""
    return [getattr(widget, name) for name in ("layout", "style") if hasattr(widget, name)]


Decided = Literal["run", "refuse", "stop"]
"""What a person can decide about a call from elsewhere."""
_View = Literal["card", "edit", "reason"]
_EVERY_VIEW: tuple[_View, ...] = ("card", "edit", "reason")
_WHY = "Why? The agent reads this."


class ApprovalSheet(Sheet):
    """The controls for a call that waits for approval.

    Args:
        form: The call.
        note: The note above the controls, if any.
        is_first: Whether the run has not asked about this tool before.

    Attributes:
        form: The call.
    """

    hint = "Ctrl-Enter runs it · Esc leaves, it keeps waiting"
    decides_nothing = ("typed", *_EVERY_VIEW)

    def __init__(self, form: ApprovalForm, note: str = "", *, is_first: bool = True) -> None:
        import ipywidgets

        super().__init__()
        self.form = form
        self.fits_trace = form.is_shown
        self._is_first = is_first
        self._view: _View = "card"
        self._parts: list[tuple[Any, tuple[_View, ...]]] = []  # where each part is shown
        self._notes: dict[str, Any] = {}  # the widget below each field
        said = element("div", note, style="margin:.3em 0") if note else None
        self._note = self._html(said)
        self._call = self._html()
        edits = self._add(ipywidgets.VBox(self._edit_rows(form.fields)))
        self._brief = self._html(self._brief_html())
        self._brief.add_class("anb-brief")
        reason = self._line_field(_REASON, _WHY, "refuse")
        self._run = self._button("Run", "run", is_first=True)
        self._run.add_class(page.RUN).add_class(page.GO)
        refuse = self._button("Refuse", "refuse", is_first=True)
        refuse.add_class(page.GO)
        back = self._turn("Back", "card").add_class(page.BACK)
        stop = self._button("Stop", "stop", tooltip="stop the run here, without this call")
        stop.add_class("anb-stop")
        self._changed = self._html()
        row = [
            self._part(reason, "reason"),
            self._part(self._run, "card", "edit"),
            self._part(refuse, "reason"),
            self._part(self._turn("Refuse…", "reason"), "card"),
        ]
        if self._notes:
            row.append(self._part(self._turn("Edit", "edit"), "card"))
        row += [self._part(self._changed, "card"), self._part(back, "edit", "reason")]
        again = [each for each in form.choices if each.answer in ("yes", "this run", "always")]
        if len(again) > 1:
            options = [(each.label, each.line) for each in again]
            self._again = self._add(ipywidgets.Dropdown(options=options, description="Run means"))
            self._again.add_class("anb-answers")
            self._add_field(_AGAIN, self._again)
            row.append(self._part(self._again, "card", "edit"))
        self._part(self._call, "card", "reason")
        self._part(self._brief, "card", "reason")
        self._part(edits, "edit")
        head = self._head(f"{form.tool} waits for you")
        parts = (self._script, head, self._note, self._call, edits, self._brief, self._row(*row))
        self.box.add_class("anb-approval")
        self._draw_call({})
        self._show({}, {})
        self._switch("card")
        self.box.children = (*parts, self._foot, stop)

    def answers_to(self, name: str) -> bool:
        """Whether a person who gives this name means this question.

        The name of the tool is enough if it can mean no other question that they have seen.
        """
        if name == self.form.name:
            return True
        return name == self.form.tool and self._is_first and self.seconds_shown >= UNSEEN

    def decide(self, what: Decided, reason: str = "") -> None:
        """Decide from another thread, without what is typed in the fields."""
        self._typed_at = 0.0  # what is typed meanwhile belongs to no press
        values = {each.name: _shown(each) for each in self.form.fields if not each.is_fixed}
        self._inbox.put((what, {**values, _REASON: reason}, time.monotonic() + UNSEEN))

    def _part(self, widget: Any, *views: _View) -> Any:
        """Show a part in some views only: children that come later would redraw the fields."""
        self._parts.append((widget, views))
        return widget

    def _turn(self, title: str, view: _View) -> Any:
        """A button that shows another part of the form."""
        return self._button(title, view).add_class(page.TURN)

    def _switch(self, view: _View) -> None:
        """Show the card, the fields or the reason; what was typed is kept."""
        for each in _EVERY_VIEW:
            if each != view:
                self.box.remove_class(f"anb-view-{each}")
        for widget, views in self._parts:
            widget.layout.display = None if view in views else "none"
        self.box.add_class(f"anb-view-{view}")
        self._view = view
        self.hint = ApprovalSheet.hint
        if view == "edit":
            self.hint = "Ctrl-Enter runs it · Esc goes back, your edits stay"
        elif view == "reason":
            self.hint = "Enter refuses it · Esc goes back"
        self._say(self.hint)
        self._shown_at = time.monotonic()

    def _edit_rows(self, fields: Sequence[FormField]) -> list[Any]:
        import ipywidgets

        rows = []
        for each in fields:
            if each.is_fixed:
                chip = _piece(element("code", each.text, style=_CHIP))
                rows.append(self._add(ipywidgets.HTML(chip, description=each.name)))
                continue
            field = self._add(_field_of(each))
            field.add_class(page.NEXT)
            field.observe(lambda _: self._put("typed"), "value")
            self._add_field(each.name, field)
            self._notes[each.name] = self._html()
            self._notes[each.name].add_class("anb-note")
            rows += [field, self._notes[each.name]]
        return rows

    def _take(self, what: str, values: dict[str, Any]) -> list[str] | None:
        if what in _EVERY_VIEW:
            self._switch(what)
            if what == "edit":
                self._fields[next(iter(self._notes))].focus()
            elif what == "reason":
                self._fields[_REASON].focus()
            else:
                self._draw_call(self._changes(values)[0])
            return None
        if what == "stop":
            return ["stop"]
        if what == "refuse":
            reason = values[_REASON].strip()
            return [f"n: {reason}" if reason else "n"]
        changes, faults = self._changes(values)
        self._show(changes, faults)
        if what == "typed" or faults:
            return None
        lines = [f"{name} = {json.dumps(new, ensure_ascii=False)}" for name, new in changes.items()]
        return [*lines, values.get(_AGAIN, "y")]

    def _changes(self, values: dict[str, Any]) -> tuple[dict[str, Json], dict[str, str]]:
        """The arguments that were changed, and what is wrong with them."""
        changes: dict[str, Json] = {}
        faults: dict[str, str] = {}
        for each in self.form.fields:
            if each.name not in values or values[each.name] == _shown(each):
                continue
            try:
                new = _read(each, values[each.name])
            except ValueError:
                faults[each.name] = "this is not JSON"
                continue
            fault = self.form.check({**changes, each.name: new})
            if fault:
                faults[each.name] = fault
            else:
                changes[each.name] = new
        return changes, faults

    def _show(self, changes: dict[str, Json], faults: dict[str, str]) -> None:
        """Say of each field whether it was changed or is wrong; Run counts the changes."""
        defaults = {each.name for each in self.form.arguments if each.is_default}
        for field in self.form.fields:
            if field.name not in self._notes:
                continue
            is_changed = field.name in changes
            is_wrong = field.name in faults
            said = None
            if is_wrong:
                said = element("div", faults[field.name], style=f"{draw.BAD};font-size:.9em")
            elif is_changed:
                said = _was(field, changes[field.name])
            elif field.name in defaults:
                said = element("div", "default", style=_HINT)
            self._notes[field.name].value = _piece(said)
            widget = self._fields[field.name]
            (widget.add_class if is_wrong else widget.remove_class)(page.WRONG)
            (widget.add_class if is_changed else widget.remove_class)("anb-changed")
        made = count(len(changes), "change")
        self._run.description = f"Run with {made}" if changes else "Run"
        self._run.disabled = bool(faults)
        parts = [made] if changes else []
        if faults:
            parts.append(f"{', '.join(faults)}: not accepted, see Edit")
        self._changed.value = _piece(element("strong", " · ".join(parts))) if parts else ""

    def _draw_call(self, changes: dict[str, Json]) -> None:
        """Show the call with the changes that were made so far."""
        arguments = []
        for each in self.form.arguments:
            if each.name in changes:
                new = changes[each.name]
                text = new if isinstance(new, str) and "\n" in new else repr(new)
                each = replace(each, text=text, before=each.text, is_default=False)  # noqa: PLW2901
            arguments.append(each)
        call = draw.call_html(replace(self.form, arguments=tuple(arguments)))
        self._call.value = _piece(element("div", call, class_=page.CALL))

    def _brief_html(self) -> Html:
        """The name and the first line of a call that is higher than the window."""
        lines = [line for each in self.form.arguments for line in each.text.split("\n")]
        first = keep_both_ends(lines[0].strip(), 80) if lines else ""
        more = len(lines) - 1
        parts = [
            element("code", f"{self.form.tool} · {first}", style=draw.CODE),
            element("span", f" … {count(more, 'more line')}", style=draw.DIM) if more > 0 else None,
        ]
        return element("div", *parts)


class QuestionSheet(Sheet):
    """The controls for a question: a button or an entry for each choice, and a field.

    Args:
        question: The question.
    """

    hint = "Enter in the field answers · Esc leaves, it keeps waiting"

    def __init__(self, question: UserQuestion) -> None:
        import ipywidgets

        super().__init__()
        self._question = question
        self._choices = question.choices
        if question.findings is not None and not question.findings.is_warning:
            self.box.add_class("anb-calm")
        title = "The agent asks you" if question.is_of_model else "A question waits for you"
        text = None
        if question.findings is None:
            text = element(
                "div", question.text, style="white-space:pre-wrap;margin:.3em 0;font-weight:600"
            )
        else:
            title = question.findings.title
        fault = element("div", question.fault) if question.fault else None
        asked = self._html(element("div", text, draw_findings(question.findings), fault))
        rows = []
        if len(self._choices) > _MOST_BUTTONS:
            options = [(choice, n) for n, choice in enumerate(self._choices)]
            self._list = self._add(ipywidgets.Dropdown(options=options, description="Answers"))
            self._list.add_class("anb-answers")
            self._add_field(_CHOICE, self._list)
            rows = [self._row(self._list, self._button("Choose", "choose"))]
        elif self._choices:
            likely = _folded(question.default or question.primary)
            labels = question.labels or self._choices
            buttons = [
                self._button(label, f"{n}", is_first=_folded(each) == likely)
                for n, (each, label) in enumerate(zip(self._choices, labels, strict=True))
            ]
            rows = [self._row(*buttons)]
        own = "Your answer"
        if question.labels:
            own = "Or say what should change"
        elif self._choices:
            own = "Or answer in your own words" if question.is_of_model else "Or type the answer"
        if question.default:
            own = f"{own}; Enter takes {keep_both_ends(question.default, 80)!r}"
        field = self._line_field(_REASON, own, "enter")
        answer = self._button("Answer", "enter").add_class(page.GO)
        rows.append(self._row(field, answer))
        self.box.children = (self._script, self._head(title), asked, *rows, self._foot)

    def _take(self, what: str, values: dict[str, Any]) -> list[str] | None:
        if what == "enter":
            typed = values[_REASON]
            if not typed.strip() and not self._question.default:
                self._say_for_a_moment("Nothing was answered: type an answer first.")
                return None
            return [typed]
        number = int(values[_CHOICE] if what == "choose" else what)
        choice = self._choices[number]
        same = [each for each in self._choices if _folded(each) == _folded(choice)]
        if choice.strip() and len(same) == 1:
            return [choice]
        return [f"{number + 1}"]


def draw_findings(found: Findings | None) -> Html | None:
    """The findings that a person reads before they choose, without the title."""
    if found is None:
        return None
    table = None
    if found.rows:
        drawn = safe.table(safe.Table(found.head, found.rows), "border-collapse:collapse")
        table = element("div", drawn, style=_FINDINGS_TABLE, tabindex="0")
    lines = [element("div", line, style=draw.DIM) for line in found.lines]
    code = None
    if found.code:
        shown = element("pre", safe.code(found.code, "python"), style=draw.PRE)
        summary = element("summary", "Program", style="cursor:pointer")
        code = element("details", summary, shown, open=True)
    return element("div", table, *lines, code)


_FINDINGS_TABLE = "overflow:auto;max-height:26em;margin:.3em 0;white-space:nowrap"
_REASON = ""  # no argument has this name
_CHOICE = " "
_AGAIN = "  "


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
        rows = min(shown.count("\n") + 1, _MOST_LINES)
        return ipywidgets.Textarea(value=shown, description=field.name, rows=rows)
    return ipywidgets.Text(value=shown, description=field.name)


def _shown(field: FormField) -> Any:
    """The value of the widget that stands for the argument as it is."""
    if _kind_of(field) in ("text", "lines", "tick"):
        return field.value
    return _dumps(field.value)


def _was(field: FormField, new: Json) -> Html:
    """The old value of a changed field; of a text of several lines, the removed ones."""
    old = field.value
    if isinstance(old, str) and isinstance(new, str) and "\n" in old + new:
        pairs = difflib.ndiff(old.split("\n"), new.split("\n"))
        gone = [line[2:] for line in pairs if line.startswith("- ")]
        old = keep_both_ends("\n".join(gone), 2_000) if gone else None
        if old is None:
            return element("div", "lines were added", style=_HINT)
    else:
        old = keep_both_ends(str(_shown(field)), 2_000)
    text = element("span", old, style=f"{draw.CODE};white-space:pre-wrap")
    return element("div", "was: ", text, style=_HINT)


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
