"""The panel of a call that waits for approval: its arguments, and what the user has changed."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from archytas_nb.loop.events import ApprovalForm, FormArgument
from archytas_nb.tools.render import clip
from archytas_nb.trace import html as draw
from archytas_nb.trace.html import DIM, LINE
from archytas_nb.trace.safe import MONO, Html, code, element, join

WAITING, NOT_DECIDED = "waiting for approval", "approval was requested, but not given"
"""The state of the call: while a person is asked, and in a copy that may outlive its kernel."""
_MOST = 200_000  # characters of a value: 100,000 at most, and some are spelled out
_FRAME = (
    f"border:{LINE};border-left:3px solid #c9851b;border-radius:6px;padding:.5em .9em .6em;"
    "margin:.6em 0 .4em"
)
_NAME = f"{MONO};{DIM}"
_VALUE = f"{MONO};white-space:pre-wrap;overflow-wrap:anywhere"
_OLD = f"{_VALUE};{DIM};text-decoration:line-through"
_BLOCK = f"{draw.PRE};margin:.2em 0 .4em"
_HINT = "To change an argument before the call is run, type name = value below."
_SQL = re.compile(
    r"\s*(?:--[^\n]*\n\s*)*(?:with\s+\w+\s+as\s*\(|"
    r"(?:select|insert|update|delete|create|drop|alter)\s+[\w*\"'(])",
    re.IGNORECASE,
)
_CODE = {"code", "python", "script", "source"}  # arguments that are code
_PYTHON = re.compile(
    r"^[ \t]*(?:def |class |import |from \w+ import |for .*:$|print\(|\w+ = )", re.MULTILINE
)


def panel_html(form: ApprovalForm, state: str = WAITING) -> Html:
    """A call that waits for approval; after the decision, one line with the decision."""
    if form.decision:
        call = element("code", form.tool, style=draw.CODE)
        return element("div", call, f" · {form.decision}", style=f"{DIM};font-size:.9em")
    head = element("code", form.tool, style=f"{draw.CODE};font-weight:600")
    label = element("span", f" · {state}", style="color:#b06a1c;font-size:.9em")
    why = element("p", form.why, style=draw.PROSE) if form.why else None
    body = [join(*_argument(each)) for each in form.arguments]
    if state == WAITING and body:
        body.append(element("div", _HINT, style=f"{DIM};font-size:.82em;margin-top:.4em"))
    body = body or [element("em", "no arguments", style=DIM)]
    return element("div", element("div", head, label), why, *body, style=_FRAME)


def _argument(argument: FormArgument) -> Iterator[Html]:
    notes = ["default"] if argument.is_default else []
    notes += [f"sent as {clip(argument.sent, 300)}"] if argument.sent else []
    note = element("span", f"  ({', '.join(notes)})", style=DIM) if notes else None
    name = element("span", argument.name, style=_NAME)
    text, before = clip(argument.text, _MOST), clip(argument.before, _MOST)
    faded = DIM if argument.is_default else ""
    line = _line_of_code(text) if argument.name in _CODE else ""
    if "\n" not in text + before and not line:
        shown = text if argument.is_default else code(text, "python")
        value = element("span", shown, style=f"{_VALUE};{faded}")
        old = element("span", before, style=_OLD) if before else None
        arrow = element("span", " → ", style=DIM) if before else None
        equals = element("span", " = ", style=DIM)
        yield element("div", name, equals, old, arrow, value, note, style="margin:.15em 0")
        return
    edited = element("span", "  (edited)", style=DIM) if before else None
    yield element("div", name, edited, note, style="margin:.3em 0 0")
    text = line or text
    yield element("pre", code(text, language_of(argument.name, text)), style=f"{_BLOCK};{faded}")
    if before:
        yield element("div", "before:", style=f"{DIM};font-size:.85em")
        yield element("pre", before, style=f"{_BLOCK};{DIM}")


def language_of(name: str, text: str) -> str:
    """The language of a text in a block, where it is obvious; else empty."""
    if _SQL.match(text) and "python" not in name:
        return "sql"
    return "python" if name in _CODE or _PYTHON.search(text) else ""


def _line_of_code(text: str) -> str:
    """The code in a literal; empty if there is none, or if the literal escapes a character."""
    try:
        line = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    return line if isinstance(line, str) and line.isprintable() and repr(line) == text else ""
