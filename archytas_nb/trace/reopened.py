"""A run whose end a page did not see, because it was opened again or has another kernel.

    the page was open, and the kernel restarted   the static copy says so
    opened again, the kernel still runs the cell  the static copy says what a person can do
    opened again, and the cell has ended          the finished trace, in the widget that was saved
    opened again without the kernel               the static copy says that it is not the end

A page that is opened again gets no further output of the running cell. It asks the kernel for its
widgets when the cell has ended, so the finished trace is kept in the one that the page shows.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import replace
from functools import cache
from typing import Any

from archytas_nb.loop.events import ApprovalForm
from archytas_nb.trace import html as draw
from archytas_nb.trace.safe import Html, element, join, stylesheet
from archytas_nb.trace.view import RunView, ending_title

COPY = "anb-kept-"
"""With a number: the class of the static copy of a running run."""
LIVE = "anb-live-"
"""With the number: the class of its widgets."""
_UNSEEN_END = "anb-unseen-end"
_RESTARTED = "anb-restarted"
_SIGN = "anb-sign"
# The widgets hide the copy; without them, the copy hides the error that replaces them. When the
# copy has become the final output, that hides the widgets; so do widgets without their kernel,
# which a page keeps after a restart, and with some extensions also when it is opened again.
_DEAD = ".jp-OutputArea-child .jupyter-widgets-disconnected"
_HIDE_COPY = (
    f"{{0}}:not(:has(+{_DEAD}) *){{{{display:none}}}}"
    f".jp-OutputArea-child:has({{0}}):not(:has(+{_DEAD})){{{{display:none}}}}"
    ".jp-OutputArea-child:not(:has({0}))+.jp-OutputArea-child:has({1}),"
    ".jp-OutputArea-child:has(.jupyter-widgets-disconnected {1}){{display:none}}"
    # While a run is shown, what is printed below it are the lines that the person has typed.
    ".jp-OutputArea-child:has({1})~.jp-OutputArea-child:has("
    ">[data-mime-type='application/vnd.jupyter.stdout']){{display:none}}"
)
# The copy waits until the widgets could have hidden it; until then, a line is in its place.
_HIDE_ERROR = (
    ".jp-OutputArea-child:has({0})+.jp-OutputArea-child:not(:has(.anb-trace))"
    "{{display:none}}"
    "@keyframes anb-wait{{from{{max-height:0;overflow:hidden;visibility:hidden}}}}"
    "{0}{{animation:anb-wait 3s step-end}}"
    "@keyframes anb-leave{{to{{max-height:0;overflow:hidden;visibility:hidden}}}}"
    f".{_SIGN}{{{{animation:anb-leave 3s step-end forwards}}}}"
    f":has(+{_DEAD}) {{0}} .{_UNSEEN_END}{{{{display:none}}}}"
    f":has(+{_DEAD}) {{0}} .{_RESTARTED}{{{{display:block!important}}}}"
)

# ── the static copy ───────────────────────────────────────────────────────────────────────────────

_DECIDE_ELSEWHERE = (
    "interrupt the kernel (the call will not have run), or answer with %agent_answer run {name}, "
    "%agent_answer refuse or %agent_answer stop in a console on a subshell"
)
_INTERRUPT = "interrupt the kernel (nothing that waits for you will have run)"
_AT_ITS_END = "The finished trace will be shown here when the run has ended."


def hide_copy(number: int) -> Html:
    """The style sheet of the widgets of a run, which hide its copy."""
    return stylesheet(_HIDE_COPY.format(f".{COPY}{number:d}", f".{LIVE}{number:d}"))


def static_copy(
    view: RunView,
    number: int,
    form: ApprovalForm | None = None,
    *,
    is_asking: bool = False,
    has_buttons: bool = False,
    written: str = "",
    doing: str = "",
) -> Html:
    """The static copy of a running run, visible only if its widgets are not.

    Args:
        view: The run so far.
        number: Of the run in this process.
        form: The call that waits for approval or was just decided, if any.
        is_asking: Whether the person is asked something.
        has_buttons: Whether the call can be decided elsewhere, too.
        written: The part of the answer that has arrived.
        doing: The text to show until the widgets are there, which a page may have to load.
    """
    name = f"{COPY}{number:d}"
    waits = form is not None and not form.decision
    restarted = "before the run had finished"
    panel = None
    todo = ""
    if form is not None and waits:
        restarted = f"while {form.tool} waited for your decision: it was not run"
        view = _without_waiting_calls(view)
        panel = draw.panel_html(form, draw.NOT_DECIDED, hint="")
        todo = _INTERRUPT
        if has_buttons:
            todo = _DECIDE_ELSEWHERE.format(name=form.name)
    elif is_asking:
        restarted = "while the agent waited for your answer"
        todo = _INTERRUPT
    hint = _AT_ITS_END
    if todo:
        hint = f"If the kernel still waits: {todo}. {hint}"
    unseen = element(
        "div",
        draw.title_html(ending_title(None)),
        panel,
        element("div", hint, style=f"{draw.DIM};font-size:.9em"),
        class_=_UNSEEN_END,
    )
    line = draw.title_html(f"■ The kernel was restarted {restarted}")
    ends = element("div", line, class_=_RESTARTED, style="display:none")
    hides = stylesheet(_HIDE_ERROR.format(f".{name}"), linked=True)
    so_far = draw.answer_html(f"{written} …") if written else None
    copy = element("div", hides, draw.steps_html(view, so_far, unseen, ends), class_=name)
    return join(draw.sign_html(doing, _SIGN), copy) if doing else copy


def _without_waiting_calls(view: RunView) -> RunView:
    """A run without the calls of its last step that were not run yet: the panel shows the call."""
    if not view.steps or view.steps[-1].program is not None:
        return view
    *steps, last = view.steps
    calls = tuple(call for call in last.calls if call.status is not None)
    if calls:
        steps.append(replace(last, calls=calls))
    return replace(view, steps=tuple(steps))


# ── the finished trace in the widget of the running one ───────────────────────────────────────────

_MOST_KEPT = 20
_LARGEST_KEPT = 1_000_000  # characters of a finished trace
_kept: deque[tuple[Any, list[Any]]] = deque()  # boxes that no page has asked for, with their parts


@cache
def _box_type() -> Any:
    """The class of the boxes that can be kept; ipywidgets is imported where a run is shown."""
    import ipywidgets

    class Box(ipywidgets.VBox):  # type: ignore[misc]
        """A column of widgets that knows whether a page has asked for it."""

        was_asked_for = False

        def get_state(self, key: Any = None, **options: Any) -> Any:
            if key is None:  # not for a change of one trait: a page that has just been opened asks
                self.was_asked_for = True
            return super().get_state(key, **options)

    return Box


def reopenable(parts: Iterable[Any], layout: Any) -> Any:
    """A column of widgets that `keep` can leave for pages that are opened again."""
    box = _box_type()(list(parts), layout=layout)
    box.was_asked_for = False  # making it asks for its state, too
    return box


def finished(view: RunView, number: int) -> Html:
    """The finished trace as the widget shows it."""
    return element("div", hide_copy(number), draw.html(view), class_=f"{LIVE}{number:d}")


def keep(view: RunView, number: int, box: Any, shown: Any) -> list[Any]:
    """Show the finished trace in the box of a running one; its other widgets are then to be closed.

    The last boxes are kept, and those that a page has asked for.

    Args:
        view: The run.
        number: Of the run in this process.
        box: The box that `reopenable` has made.
        shown: An HTML widget that is in the box already: the page cannot show a new one.

    Returns:
        The widgets that must not be closed.
    """
    page = finished(view, number)
    if len(page) > _LARGEST_KEPT:
        return []
    shown.value = page
    box.children = (shown,)
    parts = [box, box.layout, shown, shown.layout, shown.style]
    _kept.append((box, parts))
    for each in [pair for pair in _kept if pair[0].was_asked_for]:
        _kept.remove(each)
    while len(_kept) > _MOST_KEPT:
        _, old = _kept.popleft()
        for widget in old:
            with suppress(Exception):
                widget.close()
    return parts
