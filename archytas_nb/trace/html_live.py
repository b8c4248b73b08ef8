"""The pieces of a run that goes on, each by itself: the live layer puts each into a widget of its own.

They look as they will in the static output. Pure: a view in, HTML out. All HTML is made by `safe`.
"""

from __future__ import annotations

from archytas_nb.trace import style
from archytas_nb.trace.html import CLASSES, answer_html, html, question_html
from archytas_nb.trace.html_step import Room, step_html, thought_html
from archytas_nb.trace.progress import Streamed
from archytas_nb.trace.safe import Html, element, hiding, join, stylesheet, text
from archytas_nb.trace.values import RunView, StepView

_CURSOR = "▍"
# A widget is as wide as its longest line, unless the line stands in a column that may be narrower.
_ROOT = f"{style.ROOT};margin:0;display:grid;grid-template-columns:minmax(0,1fr)"
STEPS_LAYOUT = {
    "border_top": style.LINE,
    "border_bottom": style.LINE,
    "padding": ".25em 0",
    "margin": ".3em 0",
    "max_width": style.WIDTH,
}
"""The frame around the steps, as traits of a widget's layout."""


def live_question(view: RunView, number: int = 0) -> Html:
    """The question and who is asked, with the style sheet that all pieces share; hides the static copy."""
    return _piece(stylesheet(), hiding(style.HIDE_KEPT, number), question_html(view))


def kept(view: RunView, number: int) -> Html:
    """The static copy of a run that goes on, seen only where its widgets are not.

    Args:
        view: The run so far.
        number: Tells the runs of a process apart.
    """
    return element(
        "div", hiding(style.HIDE_ORPHAN, number), html(view), **{"class": f"{style.KEPT}{number:d}"}
    )


def live_step(step: StepView, streamed: Streamed | None = None, *, newest: bool) -> Html:
    """One step.

    Args:
        step: The step so far.
        streamed: What of it is still being written or printed.
        newest: Whether it is the one that goes on, which is unfolded.
    """
    doing = (
        ""
        if not newest
        else "answering"
        if streamed is not None and streamed.answer
        else "thinking"
    )
    return _piece(step_html(step, Room.of([step]), doing=doing, streamed=_streamed(streamed)))


def live_earlier(count: int) -> Html:
    """How many steps are not listed any more; empty where all are."""
    if not count:
        return text("")
    words = f"… {count:,} earlier step{'s' if count > 1 else ''}"
    return _piece(element("em", text(words), style=style.DIM))


def live_answer(words: str) -> Html:
    """An answer as far as it is written; empty where none has begun."""
    return _piece(answer_html(words + _CURSOR)) if words else text("")


def live_status(words: str) -> Html:
    """One line that says what goes on."""
    return _piece(element("div", text(words), style=style.STATUS))


def _streamed(streamed: Streamed | None) -> Html | None:
    if streamed is None:
        return None
    parts = []
    if streamed.reasoning:
        parts.append(
            element(
                "p", element("em", text(streamed.reasoning)), style=f"{style.PROSE};{style.DIM}"
            )
        )
    if streamed.thought:
        parts.append(thought_html(streamed.thought))
    if streamed.tool:
        parts.append(
            element(
                "div",
                element("code", text(f"{streamed.tool} …"), style=style.CODE),
                style=style.CALL,
            )
        )
    if streamed.given:
        parts.append(element("pre", text(streamed.given + _CURSOR), style=style.PRE))
    if streamed.output:
        parts.append(element("pre", text(streamed.output), style=f"{style.PRE};{style.DIM}"))
    return join(parts)


def _piece(*parts: Html) -> Html:
    return element("div", element("div", *parts), **{"class": CLASSES, "style": _ROOT})
