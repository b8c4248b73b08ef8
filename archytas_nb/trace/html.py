"""A run as static HTML: folded steps, the answer, and the panel of a call that needs approval.

There are no scripts and no external resources, and the size is bounded. It reads well where styles
are stripped: JupyterLab removes style sheets and variables from an untrusted notebook, GitHub all
styles. So the sheet has only what ``style`` attributes cannot do, and marks are characters. Colours
are visible on a dark and a light background.
"""

from __future__ import annotations

import ast
import difflib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from archytas_nb.errors import Explained
from archytas_nb.loop.events import (
    NO_OUTPUT,
    Answered,
    ApprovalForm,
    Failed,
    FormArgument,
    Interrupted,
    Preview,
    Span,
)
from archytas_nb.trace import safe
from archytas_nb.trace import view as views
from archytas_nb.trace.calls import change_rows
from archytas_nb.trace.safe import Html, Table, element, join
from archytas_nb.trace.view import CallView, LineView, ProgramView, RunView, Shown, StepView
from archytas_nb.words import (
    clock,
    collapse_whitespace,
    count,
    is_brief,
    truncate_both_ends,
    truncate_middle,
)

CLASS = safe.CLASS
FOLDED_ONLY = "anb-folded"
"""The class of the part of a summary that is shown only while it is folded."""
_ROW_CLASS = "anb-row"
_LINE_CLASS = "anb-line"
_ASKED = "anb-asked"
_ANSWER = safe.ANSWER
CLASSES = f"{CLASS} tex2jax_ignore mathjax_ignore"  # MathJax takes "$5 and $10" for a formula
LINE = safe.LINE
_CUT_SHORT = "white-space:nowrap;overflow:hidden;text-overflow:ellipsis"
RULES: safe.Rules = {
    "<summary": (
        f".{CLASS} summary::marker{{color:gray}}"
        f".{CLASS} summary{{cursor:pointer}}"
        f".{CLASS} details:not([open])>summary{{{_CUT_SHORT}}}"
    ),
    _LINE_CLASS: f".{_LINE_CLASS}{{{_CUT_SHORT}}}",
    # The parts of a summary are side by side, each cut where it has no room; next to them is the
    # triangle. Where there is no style sheet, it is a text that wraps.
    _ROW_CLASS: (
        f".{_ROW_CLASS}{{display:inline-flex;gap:.3em;align-items:baseline;max-width:96%;"
        "vertical-align:bottom}"
        f".{_ROW_CLASS}>*{{min-width:3em;overflow:hidden;text-overflow:ellipsis}}"
        # The name of a call is never cut; its arguments give way first, then its result.
        f".{_ROW_CLASS}>:first-child{{flex:none;min-width:1.2em}}"
        f".{_ROW_CLASS}>code{{display:inline-flex;flex-shrink:9999;min-width:min-content}}"
        f".{_ROW_CLASS}>code>*{{overflow:hidden;text-overflow:ellipsis}}"
        f".{_ROW_CLASS}>code>strong{{flex:none}}"
        f"details[open]>summary>.{_ROW_CLASS}{{display:inline!important}}"
    ),
    # Where the cell shows the question, it is shown there only; an export without input has it.
    _ASKED: f".jp-Cell:has(>.jp-Cell-inputWrapper:not(.lm-mod-hidden)) .{_ASKED}{{display:none}}",
    _ANSWER: f".{_ANSWER}>:is(p,ul,ol,blockquote){{max-width:72ch}}",
    FOLDED_ONLY: (
        f"details[open]>summary .{FOLDED_ONLY}{{display:none}}"
        f"details:not([open])>summary .{FOLDED_ONLY}{{display:inline!important}}"
    ),
    "": (
        # Every line that is drawn here is a faint grey.
        f"[data-jp-theme-name*=Contrast] .{CLASS} *{{border-color:currentColor!important}}"
        # Code in a text from right to left is written from left to right.
        f".{CLASS} :is(pre,code){{direction:ltr;unicode-bidi:isolate}}"
        # The buttons below a trace are gone with their kernel: a page would name them as missing.
        f".jp-OutputArea-child:has(.{CLASS})+.jp-OutputArea-child"
        ":not(:has(>.jp-OutputArea-output>*)){display:none}"
    ),
    **safe.TABLE_RULES,
    **safe.CODE_RULES,
}
# On paper nothing can be scrolled, what is folded stays so, and a page ends within a trace: an
# exporter would move all of it to the next one.
PRINT_RULES: safe.Rules = {
    # A page cuts long lines of a cell.
    _ASKED: f".{_ASKED}{{display:block!important}}",
    # A cell stays with the begin of its trace, and an answer with the end of the steps.
    "": (
        f".{CLASS} :is(pre,div){{max-height:none!important;overflow:visible!important}}"
        f":has(>*>.{CLASS}){{break-inside:auto!important}}"
        f".jp-Cell-inputWrapper:has(+* .{CLASS}),.{CLASS}>div:nth-of-type(-n+2),"
        f".{CLASS} summary{{break-after:avoid}}.{CLASS}>:last-child{{break-before:avoid}}"
        f".{CLASS}{{orphans:3;widows:3}}"
    ),
    "<img": f".{CLASS} img{{break-inside:avoid}}",
    "<tr": f".{CLASS} tr{{break-inside:avoid}}",
}


def _sheet(page: str | None) -> str:
    """The rules that a page needs; all of them for None, a page that changes."""
    printed = safe.rules_for(page, PRINT_RULES)
    return f"{safe.rules_for(page, RULES)}@media print{{{printed}}}"


SHEET = _sheet(None)
_INTERRUPTED = "anb-interrupted"
# The cell has failed, so that no other one runs after it; the trace has said why.
_HIDE_INTERRUPT = (
    f".jp-OutputArea-child:has(.{_INTERRUPTED})~.jp-OutputArea-child"
    ":not(:has(~.jp-OutputArea-child))"
    ":has(>[data-mime-type='application/vnd.jupyter.stderr']){display:none}"
)
WIDTH = "56rem"
DIM = "opacity:.65"
ROOT = (
    # "anywhere" would make a column as narrow as a digit, and break numbers.
    f"max-width:{WIDTH};margin:.2em 0;line-height:1.55;overflow-wrap:break-word;"
    "font-size:var(--jp-content-font-size1,14px);"
    "font-family:var(--jp-content-font-family,system-ui,-apple-system,Segoe UI,sans-serif)"
)
PRE = (
    f"{safe.MONO};margin:.35em 0;padding:.55em .8em;border:0;border-radius:6px;"
    "background:rgba(128,128,128,.1);color:inherit;white-space:pre-wrap;word-break:normal;"
    "overflow-wrap:anywhere;max-height:24em;overflow:auto;line-height:1.45"
)
CODE = f"{safe.MONO};background:none;color:inherit;padding:0;border:0;white-space:inherit"
CALL = "margin:.35em 0"
PROSE = "white-space:pre-wrap;margin:.3em 0"
_SMALL = f"{DIM};font-size:.85em"
_STRUCK = "text-decoration:line-through"
_GOOD = "#2e9e5b"
_BAD = "#d64545"
_WARN = "#c9851b"
_UNLINKED = f"border-bottom:2px dotted {_WARN}"  # a number that is in no result
_COLOURS = {"✓": _GOOD, "✗": _BAD} | dict.fromkeys("⊘■↻↺✎⇄≡»!", _WARN)


def _text_colour(colour: str) -> str:
    """The style of a coloured text; a page that may not mix colours shows it as other text."""
    if not colour.startswith("#"):
        return f"color:{colour}"
    return f"color:{safe.readable(colour)}"


# White on red: it is seen also where a page leaves out the mixed colours.
_ERROR_MARK = "font-weight:600;color:#fff;background:#c62828;border-radius:3px;padding:0 .2em"
BAD = _text_colour(_BAD)
"""The style of a text about what went wrong."""
STATE_HEIGHT = "26px"
"""Of the line below the question: while a run goes on its state, afterwards the first line."""
_FACTS = f"{DIM};font-size:.82em"
_LINE = f"line-height:{STATE_HEIGHT}"
CHANGED = "anb-changed"
"""The class of the line that says what a run has changed."""
_CUT = "white-space:pre;overflow:hidden;text-overflow:ellipsis"
_PASSED = f"{_FACTS};font-variant-numeric:tabular-nums"
_SUMMARY = "padding:.22em 0"
_GIVES_WAY = "flex:0 9999 auto"
_NEVER_CUT = "flex:none"
_RESULT = f"{DIM};min-width:12ch"
_DECISION = f"{DIM};flex:none;max-width:60%"
_CALL_ROW = "display:flex;gap:.3em;margin-left:1.3em"
_CALLS_IN_VIEW = 5
_CHANGED_NAMES = 6
_CHANGED = 80  # characters of the change of a variable
# A <pre>, whose lines are rows: the number, and the code with what its calls returned.
_PROGRAM = f"{PRE};padding:.5em .6em;max-height:34em"
_ROW = "display:flex;margin:0;padding:0;line-height:1.5"
_GUTTER = "flex:none;white-space:pre"
_CODE_OF_LINE = "flex:1 1 auto;min-width:0;white-space:pre-wrap;overflow-wrap:anywhere"
_FAULT = f"{BAD};white-space:pre-wrap"
_CALLS_OF_LINE = (
    f"margin:.1em 0 .4em 3.4em;padding:0 0 0 .8em;border-left:{LINE};white-space:normal"
)
_TABLE = "border-collapse:collapse;border:0;margin:.3em 0;font-size:.92em"
# "anywhere" would make the columns of names too narrow.
_CHANGES = f"{_TABLE};overflow-wrap:break-word"
_SCROLLED = safe.SCROLLED
_PICTURE = "max-width:100%;height:auto;border-radius:4px;margin:.35em 0;background:#fff"

_SMALL_PICTURE = "display:block;max-height:5.5em;max-width:12em;margin:.35em 0;background:#fff"

_THUMBNAILS = 4
_LARGEST_THUMBNAIL = 400_000  # characters in base64
_OPEN_STEPS = 12  # the earlier steps of a longer run are folded into one line
_MAX_STEPS = 500
_INNER_STEPS = 30  # of a run that a call has made
_TEXT_BUDGET = 600_000
_PICTURE_BUDGET = 16_000_000
_LARGEST_TEXT = 8_000
_SMALLEST_TEXT = 400
_LINE_WIDTH = 112  # characters of a summary
_LONG_QUESTION = 320  # characters of a question that is shown in full
_QUESTION_LINES = 6
_SCROLLS = 600  # characters of a text that may have to be scrolled
_SCROLLED_LINES = 7
_COUNTED_LINES = 16
_PROGRAM_LINES = 20
_OUTCOME = 48  # of those, for a long result
_SUMMARY_CALLS = 8
_FIRST_CALLS = 5  # of a line of a program; those between are counted
_LAST_CALLS = 3
_FIRST_LINES = 60  # of a program; of those between, the ones without calls are counted
_LAST_LINES = 20


class PageLimits:
    """How much a page may still contain: characters of one text, and of all pictures.

    Attributes:
        below: The pictures and formatted texts below the steps.
    """

    def __init__(self, steps: Sequence[StepView]) -> None:
        shown = (item for step in steps for call in step.calls for item in call.shown)
        self.below = {item.picture or item.prose for item in shown}
        calls = [call for step in steps for call in _drawn_calls(step)]
        texts = 2 * len(steps) + 2 * len(calls) + sum(len(step.notes) for step in steps)
        texts += sum(len(call.shown) + len(call.arguments) + len(call.texts) for call in calls)
        self.each = min(_LARGEST_TEXT, max(_SMALLEST_TEXT, _TEXT_BUDGET // max(1, texts)))
        self.pictures = _PICTURE_BUDGET


def _drawn_calls(step: StepView) -> Iterator[CallView]:
    """The calls of a step that are drawn; those of a program in a loop are only counted."""
    drawn: list[CallView] = []
    if step.program is None:
        drawn += step.calls
    for line in step.lines:
        for call in views.ends_of(line.calls, _FIRST_CALLS, _LAST_CALLS):
            if not isinstance(call, int):
                drawn.append(call)
    for call in drawn:
        yield call
        for run in call.runs:
            for inner in run.shown_steps[:_INNER_STEPS]:
                yield from _drawn_calls(inner)


def html(view: RunView) -> Html:
    """The question, one line about the run with the steps in it, the answer, and what it drew.

    The reason of a failure is left out: it is in the error below the trace.
    """
    if view.ending is None:
        return steps_html(view, _ending(view, reason=False))
    finished = join(*_finished(view, reason=False), _without_error_below(view))
    if view.undone:
        line, *details = view.undone
        head = element("div", element("strong", f"↩ {line}"), " · ", " · ".join(details))
        title = element("summary", element("em", "the answer that was undone", style=DIM))
        return trace_html(question_html(view), head, element("details", title, finished))
    return trace_html(question_html(view), finished)


def _without_error_below(view: RunView) -> Html | None:
    """Hides the error that says a second time that the person has interrupted the run.

    Only where nothing but the question is in the cell: any other error must be seen.
    """
    if not (view.is_alone and isinstance(view.ending, Interrupted)):
        return None
    return element("div", safe.stylesheet(_HIDE_INTERRUPT, linked=True), class_=_INTERRUPTED)


def steps_html(view: RunView, *after: Html | None) -> Html:
    """A run that has not ended: the question, the steps, and what comes after them."""
    facts = element("div", facts_of(view), style=_LINE)
    limits = PageLimits(view.steps)
    steps = _steps(view, limits)
    below = exhibits_html(view, limits)
    return trace_html(question_html(view), facts, steps, *after, below)


def _finished(view: RunView, *, reason: bool, with_steps: bool = True) -> Iterator[Html | None]:
    """The parts of a run that has ended, below its question, the most important first."""
    limits = PageLimits(view.steps)
    if with_steps and view.trace != "off":
        yield _first_line(view, limits)
    yield _in_view(view)
    yield _ending(view, reason=reason)
    yield exhibits_html(view, limits)
    yield _changed(view)


def _first_line(view: RunView, limits: PageLimits) -> Html | None:
    """One quiet line about a run that has ended, which unfolds to its steps."""
    line = element("span", summary_line(view), title=_details_of(view) or False, style=_FACTS)
    steps = _steps(view, limits)
    if steps is None:
        return element("div", line, style=_LINE)
    summary = element("summary", line, style=_LINE)
    return element("details", summary, steps, open=view.trace == "steps")


def summary_line(view: RunView) -> str:
    """How many calls a run has made, how they ended, and what it cost."""
    steps = view.shown_steps
    calls = view.calls
    faults = [view.is_corrected(step) for step in steps if step.failed]
    parts = [count(len(calls), "call") if calls else count(len(steps), "step") if steps else ""]
    tally = {
        "corrected": sum(faults),
        "failed": len(faults) - sum(faults),
        "refused": sum(call.status == "refused" for call in calls),
        "not run": sum(call.status == "not_run" and not call.is_repeated for call in calls),
    }
    parts += [f"{number:,} {what}" for what, number in tally.items() if number]
    parts.append(facts_of(view))
    return " · ".join(filter(None, parts))


def _details_of(view: RunView) -> str:
    """The tokens of a run, and its protocol."""
    usage = view.usage
    parts = []
    if usage.tokens:
        requests = count(usage.requests, "request")
        each = ", each with all before it" if usage.requests > 1 else ""
        cached = f" ({usage.cached_tokens:,} cached)" if usage.cached_tokens else ""
        tokens = f"{usage.input_tokens:,} tokens in{cached}, {usage.output_tokens:,} out"
        parts.append(f"{requests}{each}: {tokens}")
    if view.protocol:
        parts.append(f"protocol {view.protocol}")
    return "; ".join(parts)


def _in_view(view: RunView) -> Html | None:
    """The notes and calls that a reader sees without unfolding, each on a line."""
    rows = [element("div", f"{note.mark} {note.title}") for note in view.untold]
    for call, times in view.in_view[:_CALLS_IN_VIEW]:
        mark = "✎" if call.edited and call.status == "done" else views.MARKS[call.status]
        row = _row_of(mark_html(mark), " ", *_summary_of(call), _times(times))
        rows.append(element("div", row, class_=_LINE_CLASS))
    more = len(view.in_view) - _CALLS_IN_VIEW
    if more > 0:
        rows.append(element("div", f"… {count(more, 'more call')} …", style=DIM))
    return element("div", *rows, style=f"{CALL};font-size:.92em") if rows else None


def _times(number: int) -> Html | None:
    """How often something was done, if more than once."""
    if number < 2:
        return None
    return element("span", f" ×{number:,}", style=_NEVER_CUT)


def exhibits_html(view: RunView, limits: PageLimits) -> Html | None:
    """The pictures and formatted texts of a run, each with the call that made it."""
    drawn = []
    for call, item in view.exhibits:
        signature = call.signature(_LINE_WIDTH) if call is not None else "figure"
        drawn.append(_exhibit(item, limits, signature))
        if call is not None:
            drawn.append(element("div", element("code", signature, style=CODE), style=_SMALL))
    return element("div", *drawn) if drawn else None


def _changed(view: RunView) -> Html | None:
    """The changes of a run, in one line, which unfolds to a table."""
    rows = view.changes
    if not rows:
        return None
    groups: dict[str, list[str]] = {}
    for name, kind, details in rows:
        if not kind:
            continue
        label = "new" if kind in views.MADE else "Changed" if kind in views.MODIFIED else kind
        shown = name
        if label == "Changed" and details:
            shown = f"{name} ({collapse_whitespace(details, _CHANGED)})"
        groups.setdefault(label, []).append(shown)
    parts: list[Html | str] = []
    for label in sorted(groups):  # "Changed" comes first
        names = groups[label]
        more = len(names) - _CHANGED_NAMES
        listed = ", ".join(names[:_CHANGED_NAMES]) + (f" and {more:,} more" if more > 0 else "")
        parts += [" · " if parts else "", element("strong", f"{label}: "), listed]
    table = safe.table(Table(("variable or file", "change", "details"), tuple(rows)), _CHANGES)
    body = element("div", table, style=_SCROLLED, tabindex="0")
    summary = element("summary", *parts, style="white-space:normal")
    return element("details", summary, body, style="margin:.4em 0", class_=CHANGED)


def title_html(title: str) -> Html:
    """How a run ended, in one line, which begins with its mark."""
    style = f"margin:.5em 0 .3em;{_text_colour(_COLOURS[title[0]])}"
    return element("p", element("strong", title), style=style)


def value_html(view: RunView, *, with_steps: bool) -> Html:
    """A run as the value of a cell: the answer and, optionally, the steps, folded."""
    return trace_html(*_finished(view, reason=True, with_steps=with_steps))


def trace_html(*parts: Html | None) -> Html:
    """Parts of a saved trace, with the rules of the style sheet that they need."""
    page = join(*parts)
    sheet = safe.stylesheet(_sheet(page), linked=True)
    return element("div", sheet, page, class_=CLASSES, style=ROOT)


def question_html(view: RunView) -> Html:
    """The question; with lookups as it was written, and what the model read when unfolded."""
    question = _question(truncate_middle(view.question, _LARGEST_TEXT), view.written)
    asked = element("div", question, class_=_ASKED if view.is_in_cell else False)
    return join(asked, *map(_thumbnail, view.images[:_THUMBNAILS]))


def _thumbnail(image: str) -> Html:
    """A small view of an image that was sent with the question."""
    media_type = "image/jpeg" if image.startswith("/9j/") else "image/png"
    drawn = None
    if len(image) <= _LARGEST_THUMBNAIL:
        drawn = safe.picture(media_type, image, _SMALL_PICTURE, "image sent with the question")
    return drawn or element("span", "[image sent with the question]", style=_SMALL)


def facts_of(view: RunView) -> str:
    """The model, and what the question continues; after a run also its time and tokens."""
    facts = []
    tokens = view.usage.input_tokens + view.usage.output_tokens
    if view.ending is not None and view.seconds >= 1:
        facts.append(f"model {clock(view.seconds)}")
    if view.ending is not None and tokens:
        shown = f"{tokens / 1000:,.1f}k" if tokens >= 1000 else f"{tokens}"
        facts.append(f"{shown} tokens")
    facts += [view.model_name, collapse_whitespace(view.api, 60)]
    facts += [collapse_whitespace(view.server, 200), view.beside]
    return " · ".join(filter(None, facts))


def phase_html(phase: str) -> Html:
    """The current work of a run; a screen reader reads each change."""
    return element("div", phase, role="status", title=phase, style=f"{_FACTS};{_CUT}")


def sign_html(phase: str, name: str) -> Html:
    """The current work of a run, where the line of its trace will be; `name` is a class."""
    line = element("div", phase_html(phase), style=_LINE)
    return element("div", line, class_=f"{CLASSES} {name}", style=f"{ROOT};margin:0")


def passed_html(passed: str) -> Html:
    """The times, the step and the tokens of a run that goes on."""
    return element("div", passed, role="timer", title=passed.strip(), style=f"{_PASSED};{_CUT}")


def _question(text: str, written: str) -> Html:
    """The question as a heading; of a long one the beginning, and all of it when unfolded."""
    heading = {"role": "heading", "aria_level": "2"}
    style = "white-space:pre-wrap;font-weight:600"
    is_short = len(text) <= _LONG_QUESTION and text.count("\n") < _QUESTION_LINES
    if is_short and not written:
        return element("strong", text, style=style, dir="auto", **heading)
    first = collapse_whitespace(written or text, _LONG_QUESTION // 2)
    title = element("strong", first, style="font-weight:600", dir="auto", **heading)
    whole = element("div", text, dir="auto", style="white-space:pre-wrap;margin:.2em 0 .4em 1.2em")
    summary = element("summary", title, style="cursor:pointer")
    return element("details", summary, whole)


def answer_html(answer: str, spans: Sequence[Span] = ()) -> Html:
    """An answer in Markdown; what is marked in it says on hover where it comes from."""
    marks = [
        (each.text.strip(), each.in_words, _UNLINKED if each.origin == "nowhere" else "")
        for each in spans
    ]
    style = "margin:.4em 0 .3em;font-size:1.03em"
    return element("div", safe.markdown(answer, marks), class_=_ANSWER, style=style)


def thought_html(thought: str) -> Html:
    """The model's text before a call; Markdown if it has a block of code."""
    if "```" in thought:
        return element("div", safe.markdown(thought), style="margin:.3em 0;opacity:.8")
    text = element("em", thought, style="white-space:pre-wrap")
    return element("p", text, dir="auto", style="margin:.3em 0;opacity:.8")


def step_html(
    step: StepView,
    limits: PageLimits,
    *,
    doing: str = "",
    times: int = 1,
    is_corrected: bool = False,
) -> Html:
    """A step; of the one in progress, what the model is `doing`.

    Args:
        step: The step.
        limits: How much the page may still contain.
        doing: The current work of the model.
        times: How many equal steps it stands for.
        is_corrected: Whether what failed in it did not matter in the end.
    """
    unfolded = (step.failed and not is_corrected) or step.program is not None
    head = _head(step, doing, unfolded=unfolded, times=times, is_corrected=is_corrected)
    return _details(head, *_body(step, limits), unfolded=unfolded)


def _details(summary: Html, *body: Html | None, unfolded: bool = False) -> Html:
    content = None
    if any(body):
        style = f"margin:.1em 0 .5em .33em;padding:0 0 0 1em;border-left:{LINE}"
        content = element("div", *body, style=style)
    return element("details", element("summary", summary, style=_SUMMARY), content, open=unfolded)


def _edge(colour: str) -> str:
    return f";border-left:3px solid {colour}"


def _steps(view: RunView, limits: PageLimits) -> Html | None:
    groups = view.grouped_steps
    if not groups:
        return None
    drawn = []
    early = groups[:-_OPEN_STEPS]
    if early:
        drawn.append(_early_steps(view, early, limits))
    drawn += [_step_of(view, *each, limits) for each in groups[-_OPEN_STEPS:]]
    return element("div", *drawn, style="margin-left:1em")


def _step_of(view: RunView, step: StepView, times: int, limits: PageLimits) -> Html:
    """A step of a run, which may stand for several equal ones."""
    return step_html(step, limits, times=times, is_corrected=view.is_corrected(step))


def _early_steps(view: RunView, groups: list[tuple[StepView, int]], limits: PageLimits) -> Html:
    """The earlier steps of a long run, folded; of a very long one the first and the approved."""
    first = groups[: _MAX_STEPS - _OPEN_STEPS]
    rest = groups[_MAX_STEPS - _OPEN_STEPS :]
    approved = [each for each in rest if any(call.is_approved for call in each[0].calls)]
    inner = [_step_of(view, *each, limits) for each in [*first, *approved]]
    more = len(groups) - len(inner)
    if more:
        inner.append(element("p", f"… {more:,} more steps …", style=DIM))
    title = count(sum(times for _, times in groups), "earlier step")
    failed = sum(times for step, times in groups if step.failed)
    if failed:
        title += f", {failed:,} with an error"
    return _details(element("em", title, style=DIM), *inner)


def _head(
    step: StepView, doing: str, *, unfolded: bool, times: int = 1, is_corrected: bool = False
) -> Html:
    """The summary of a step; while it is unfolded, what its body repeats is hidden."""
    mark = step.mark
    if step.failed and is_corrected:
        mark = views.MARKS["retry"]
    if step.program is not None:
        is_waiting = step.program.by_lines and mark == "✓"  # for the next line
    else:
        is_waiting = not step.calls
    if doing and is_waiting:
        mark = "…"
    parts: list[Html | str | None] = [mark_html(mark), " "]
    if step.program is not None:
        parts += _program_title(step, unfolded=unfolded)
        return _row_of(*parts)
    if not step.calls:
        parts.append(_titled(step, doing, unfolded=unfolded))
        return _row_of(*parts)
    is_alone = len(step.calls) == 1
    if is_alone:
        reason = step.thought if not step.calls[0].code.lstrip().startswith("#") else ""
        parts += _summary_of(step.calls[0], unfolded=unfolded, is_alone=True, reason=reason)
    else:
        parts.append(element("span", _tally(step), style=DIM))
    if times > 1:
        parts.append(_times(times))
    for each in dict.fromkeys(note.mark for note in step.notes):
        parts.append(mark_html(each))
    head = _row_of(*parts)
    if is_alone:
        return head
    return join(head, _rows_of_calls(step, unfolded=unfolded))


def _row_of(*parts: Html | str | None) -> Html:
    return element("span", *parts, class_=_ROW_CLASS)


def _folded(*parts: Html | str, unfolded: bool, style: str = "") -> Html:
    """A part of a summary that is shown only while it is folded."""
    if unfolded:
        style = f"{style};display:none".lstrip(";")
    return element("span", *parts, class_=FOLDED_ONLY, style=style or False)


def mark_html(mark: str) -> Html:
    """The mark of a status or a note; that of an error is plain where colours are left out."""
    style = f"font-weight:600;{_text_colour(_COLOURS.get(mark, 'inherit'))}"
    if mark == "✗":
        style = _ERROR_MARK
    return element("span", mark, style=style)


def _tally(step: StepView) -> str:
    """How many calls a step has, and how many have ended."""
    ended = sum(call.status is not None for call in step.calls)
    if ended == len(step.calls):
        return count(ended, "call")
    return f"{ended:,} of {len(step.calls):,} calls"


def _rows_of_calls(step: StepView, *, unfolded: bool) -> Html:
    """A line for each of the first calls of a step, while the step is folded."""
    rows = []
    for call in step.calls[:_SUMMARY_CALLS]:
        mark = mark_html(views.MARKS[call.status])
        rows.append(
            element("div", mark, " ", *_summary_of(call), class_=_ROW_CLASS, style=_CALL_ROW)
        )
    more = len(step.calls) - _SUMMARY_CALLS
    if more > 0:
        rows.append(element("div", f"… {count(more, 'more call')} …", style=f"{_CALL_ROW};{DIM}"))
    return _folded(*rows, unfolded=unfolded)


def _program_title(step: StepView, *, unfolded: bool) -> Iterator[Html]:
    """The title of a step with a program: its first line while it is folded, and its calls."""
    program = step.program or ProgramView()
    first = next((line.source for line in step.lines if line.source.strip()), "")
    facts = ["program"]
    if step.calls:
        facts.append(count(len(step.calls), "call"))
    facts.append(program.result)
    code = element("code", collapse_whitespace(first, _LINE_WIDTH - _OUTCOME), style=CODE)
    yield _folded(code, " · ", unfolded=unfolded)
    yield element("span", " · ".join(filter(None, facts)), style=f"{DIM};flex:none")
    for each in dict.fromkeys(note.mark for note in step.notes):
        yield mark_html(each)


def _titled(step: StepView, doing: str, *, unfolded: bool) -> Html:
    """The title of a step without calls."""
    topic = doing
    if not doing or step.failed:
        topic = collapse_whitespace(_topic(step), 120)
    style = DIM
    is_below = step.thought and not (doing or step.rejected)
    if is_below:
        return _folded(topic, unfolded=unfolded, style=style)
    return element("span", topic, style=style)


def _summary_of(
    call: CallView, *, unfolded: bool = False, is_alone: bool = False, reason: str = ""
) -> Iterator[Html | str]:
    """A call in the summary of its step: its code, its result, and the user's decision.

    Args:
        call: The call.
        unfolded: Whether its step is unfolded.
        is_alone: Whether it is the only call of its step.
        reason: Why the model made it, which says more than the beginning of a program.
    """
    result = ""
    if call.status is not None:
        result = f"→ {call.displayed or call.summary(_LINE_WIDTH)}"
    # Code is wider than prose, and a decision must be visible without unfolding.
    decided = 0
    if call.decided:
        decided = min(len(call.decided), _OUTCOME) + 14
    short = call.signature(_LINE_WIDTH - min(len(result), _OUTCOME) - decided)
    name = element("strong", call.name)
    if call.code:
        begin = collapse_whitespace(_headline(call.code, reason), _LINE_WIDTH - _OUTCOME)
        yield element("code", name, style=CODE)
        yield " "
        yield _folded(begin, unfolded=unfolded, style=_GIVES_WAY)
    else:
        arguments = short.removeprefix(call.name)
        shown = element("span", arguments)
        if is_alone and not _is_in_summary(call):
            shown = _folded(arguments, unfolded=unfolded)
        yield element("code", name, shown, style=CODE)
    left = max(_OUTCOME, _LINE_WIDTH - len(short) - decided)
    if result:
        yield " "
        said = collapse_whitespace(result, left)
        if is_alone and _is_whole_in_summary(call):
            yield element("span", said, style=_RESULT)
        else:
            yield _folded(said, unfolded=unfolded, style=_RESULT)
    if call.changes:
        yield " "
        changed = f"· {count(len(call.changes), 'change')}"
        yield element("span", changed, style=f"{DIM};{_NEVER_CUT}")
    if call.decided:
        yield " "
        badge = ", ".join(filter(None, [call.place, call.decision or call.asked]))
        if call.edited:
            badge += f", you changed {', '.join(each.name for each in call.edited)}"
        badge = collapse_whitespace(badge, _LINE_WIDTH // 2)
        note = element("span", f"({badge})", title=call.decided)
        yield _folded(note, unfolded=unfolded, style=_DECISION)


def _headline(code: str, reason: str) -> str:
    """The headline of code: its first comment, or the reason of the call, or its first line."""
    lines = [line.strip() for line in code.splitlines() if line.strip()]
    comment = next((line.lstrip("# ") for line in lines[:1] if line.startswith("#")), "")
    return comment or reason or next(iter(lines), "")


def _is_in_summary(call: CallView) -> bool:
    """Whether the summary of its step shows all of a call that is alone in it."""
    return not call.texts and len(call.signature(10**6)) <= _LINE_WIDTH - _OUTCOME


def _is_whole_in_summary(call: CallView) -> bool:
    """Whether the summary of its step also shows all of its result, so that nothing repeats it.

    A page without style sheets cannot hide a part of a summary.
    """
    is_result_there = _is_short(call) and not (call.displayed or call.shown or call.code)
    is_brief_enough = len(call.text) <= _OUTCOME - len("→ ")
    return is_result_there and is_brief_enough and not call.decided and _is_in_summary(call)


def _decided(call: CallView) -> Iterator[Html | str]:
    """The decision on a call that was run, with the changed arguments, the old values struck."""
    yield ", ".join(filter(None, [call.place, call.decision or call.asked]))
    yield from _edits(tuple(each for each in call.edited if is_brief(each.before or "")))


def _edits(arguments: tuple[FormArgument, ...]) -> Iterator[str]:
    for each in arguments:
        yield f", edited {each.name} "
        yield element("span", truncate_both_ends(each.before or ""), style=_STRUCK)
        yield f" → {truncate_both_ends(each.text)}"


def _topic(step: StepView) -> str:
    if step.rejected:
        return views.UNUSABLE
    if step.thought:
        return step.thought
    if not step.notes:
        return "thinking"
    note = step.notes[-1]
    if note.kind == "no reply":
        return "no reply"
    if note.kind == "answer":
        return "the answer was not accepted"
    return note.title or "the model was asked again"


def _body(step: StepView, limits: PageLimits) -> Iterator[Html]:
    if step.reasoning:
        reasoning = _block(truncate_middle(step.reasoning, limits.each), PRE)
        yield _details(element("em", "Reasoning", style=DIM), reasoning)
    if step.thought:
        yield thought_html(truncate_middle(step.thought, limits.each))
    for note in step.notes:
        style = f"{_text_colour(_COLOURS[note.mark])};font-weight:600"
        word = element("span", f"{note.mark} {note.kind} ", style=style)
        yield element("p", word, truncate_middle(note.text, limits.each), style="margin:.3em 0")
    for reply in step.rejected:
        yield _block(truncate_middle(reply, limits.each), PRE + _edge(_BAD))
    if step.program is not None:
        yield from _program(step, step.program, limits)
        return
    for call in step.calls:
        yield join(*_call(call, limits, alone=len(step.calls) == 1))


# ── programs ──────────────────────────────────────────────────────────────────────────────────────


def _program(step: StepView, program: ProgramView, limits: PageLimits) -> Iterator[Html]:
    """The program, each line with its calls, what was wrong with it, and what it showed."""
    source = "\n".join(line.source for line in step.lines)
    coloured = safe.code_lines(source, "python") if step.lines else []
    lines = list(zip(step.lines, coloured, strict=True))
    # Where styles are stripped, the lines are still lines, because they are in a <pre>.
    drawn = []
    left_out = 0
    for place, (line, code) in enumerate(lines):
        is_between = _FIRST_LINES <= place < len(lines) - _LAST_LINES
        if is_between and not line.is_kept:
            left_out += 1
            continue
        if left_out:
            drawn.append(_more_lines(left_out))
        left_out = 0
        drawn.append(_line(line, code, limits))
    if drawn:
        is_long = len(drawn) > _PROGRAM_LINES or any(line.calls for line in step.lines)
        yield element("pre", *drawn, style=_PROGRAM, tabindex="0" if is_long else False)
    general = [text for line, text in program.faults if not line]
    if not program.was_run:
        general.insert(0, "Nothing was run.")
    for text in general:
        mark = element("span", "✗ ", style=f"{BAD};font-weight:600")
        yield element("div", mark, truncate_middle(text, limits.each), style=PROSE)
    if program.shown:
        shown = truncate_middle("\n".join(program.shown), limits.each)
        yield _block(shown, f"{PRE};max-height:9em;{DIM}")


def _more_lines(number: int) -> Html:
    return element("div", f"      … {count(number, 'more line')} …", style=DIM)


def _line(line: LineView, code: Html, limits: PageLimits) -> Html:
    """A line of a program with its number, and its calls folded."""
    mark = line.mark
    colour = _COLOURS.get(mark, _WARN)
    tint = ""
    if mark == "✗":
        tint = ";background:rgba(214,69,69,.12)"
    elif mark:
        tint = ";background:rgba(201,133,27,.12)"
    gutter = element(
        "span",
        element("span", f"{mark or ' '} ", style=f"{_text_colour(colour)};font-weight:600"),
        element("span", f"{line.number:>2}  ", style=DIM),
        style=_GUTTER,
    )
    style = _CODE_OF_LINE
    if line.is_written:
        style += f";{DIM}"
    beside = None
    if line.calls:
        results = f"  ▸ {views.results_of(line.calls)}"
        beside = element("span", results, style=DIM, class_=FOLDED_ONLY)
    elif line.value:
        beside = element("span", f"  # {line.value}", style=DIM)
    shown = element("span", code, beside, style=style)
    faults = [
        element("div", f"{' ' * 6}{truncate_middle(each, limits.each)}", style=f"{_FAULT}{tint}")
        for each in line.faults
    ]
    if not line.calls:
        return join(element("div", gutter, shown, style=_ROW + tint), *faults)
    summary = element("summary", gutter, shown, style=f"{_ROW};cursor:pointer{tint}")
    calls = element("div", *_calls_of(line, limits), style=_CALLS_OF_LINE)
    return join(element("details", summary, calls), *faults)


def _calls_of(line: LineView, limits: PageLimits) -> Iterator[Html]:
    """The calls of a line: the first and the last ones, and how many are between."""
    for call in views.ends_of(line.calls, _FIRST_CALLS, _LAST_CALLS):
        if isinstance(call, int):
            yield element("div", f"… {count(call, 'more call')} …", style=f"{CALL};{DIM}")
            continue
        yield join(*_call(call, limits, alone=False))
        if call.is_repeated:
            yield element("div", views.EARLIER, style=_SMALL)


def _call(call: CallView, limits: PageLimits, *, alone: bool) -> Iterator[Html]:
    """A call and its result; of the call, what the summary of a step with it alone leaves out."""
    head = _head_of_call(call, alone=alone)
    in_line = bool(head) and _fits_in_line(call)
    if in_line and not (call.shown and call.text == NO_OUTPUT):
        head.append(f" → {call.text}")
    if head:
        yield element("div", *head, style=CALL)
    yield from _arguments_below(call, limits)
    if call.decided:
        yield element("div", *_decided(call), style=_SMALL)
    for item in call.shown:
        yield _shown(item, limits, call.signature(_LINE_WIDTH))
    for run in call.runs:
        if run.shown_steps:
            yield _inner_run(run, limits)
    # The result is not drawn twice: it may be in the line of the call, or in the summary above.
    is_waiting = call.status is None and not head
    is_above = alone and _is_whole_in_summary(call)
    if not (in_line or is_waiting or is_above):
        yield _outcome(call, limits)
    if call.changes:
        rows = Table(("variable", "change", "details"), call.changes)
        yield element("div", safe.table(rows, _CHANGES), style=_SCROLLED, tabindex="0")
    for remark in call.remarks:
        yield element("div", remark, style=_SMALL)


_LONGEST_LINE = 300  # of a call with more characters each argument is a block


def _without_texts(call: CallView) -> CallView:
    """A call without the arguments that are shown below it."""
    below = dict(call.texts)
    arguments = tuple((name, "…" if name in below else value) for name, value in call.arguments)
    return replace(call, arguments=arguments)


def _head_of_call(call: CallView, *, alone: bool) -> list[Html | str]:
    """The line of a call; empty if the summary and what is below the line show all of it."""
    short = _without_texts(call).signature(10**6)
    is_long = len(short) > _LONGEST_LINE
    is_below = is_long or len(call.texts) == len(call.arguments)
    if alone and (is_below or (_is_in_summary(call) and not call.code)):
        return []
    return [element("code", call.name if is_long else short, style=CODE)]


def _arguments_below(call: CallView, limits: PageLimits) -> Iterator[Html]:
    """The arguments that do not fit into the line of a call."""
    short = _without_texts(call)
    if len(short.signature(10**6)) > _LONGEST_LINE:
        yield from _long_arguments(short.arguments, dict(call.texts), limits)
    yield from _texts(call, limits)


def _inner_run(run: RunView, limits: PageLimits) -> Html:
    """The steps of a run that a call has made, folded."""
    steps = run.shown_steps
    facts = [count(len(steps), "step"), run.model_name]
    tokens = run.usage.tokens
    if tokens:
        facts.append(f"{tokens:,} tokens")
    title = element("em", " · ".join(filter(None, facts)), style=DIM)
    drawn = [step_html(step, limits) for step in steps[:_INNER_STEPS]]
    more = len(steps) - len(drawn)
    if more > 0:
        drawn.append(element("p", f"… {more:,} more steps …", style=DIM))
    failed = any(step.failed for step in steps)
    return _details(title, *drawn, unfolded=failed)


def _long_arguments(
    arguments: tuple[tuple[str, str], ...], below: Mapping[str, str], limits: PageLimits
) -> Iterator[Html]:
    """The arguments of a call that is too long for one line, without those shown below."""
    for name, value in arguments:
        if name in below:
            continue
        line = value
        if name:
            line = f"{name} = {truncate_middle(value, limits.each)}"
        yield _block(line, PRE)


def _texts(call: CallView, limits: PageLimits) -> Iterator[Html]:
    """The arguments of several lines, named if there are others, and what the user edited."""
    for name, value in call.texts:
        if name and len(call.arguments) > 1:
            yield element("div", name, style=_SMALL)
        shown = truncate_middle(value, limits.each)
        if call.is_approved:  # as it was shown then
            shown = value
        coloured = safe.code(shown, language_of(name, value))
        yield _block(shown, f"{PRE};background:none;border:{LINE}", coloured)
    for each in call.edited:
        if not is_brief(each.before or ""):  # the decision has the others
            yield element("div", f"your edit of {each.name}:", style=_SMALL)
            yield element("pre", *_difference(each.before or "", each.text), style=PRE)


def _difference(before: str, after: str) -> Iterator[Html]:
    """The lines that an edit has removed and added."""
    for line in difflib.ndiff(before.splitlines(), after.splitlines()):
        if line.startswith("- "):
            yield join(element("span", line, style=_STRUCK), "\n")
        elif line.startswith("+ "):
            yield join(line, "\n")


def _fits_in_line(call: CallView) -> bool:
    """Whether the result of a call is on its line."""
    has_more = bool(call.texts or call.decided)
    return not has_more and len(call.signature(10**6)) <= 100 and _is_short(call)


def _is_short(call: CallView) -> bool:
    short = len(call.text) <= 100 and "\n" not in call.text
    is_text = call.table is None and not call.shown_result
    return short and call.status == "done" and is_text


def _outcome(call: CallView, limits: PageLimits) -> Html:
    if call.status is None:
        return element("div", "…", style=DIM)
    result = truncate_middle(call.prefix + call.text, limits.each)
    if call.table or call.shown_result:
        title = element("em", "what the model read", style=_SMALL)
        read = _details(title, _block(truncate_middle(call.read or call.text, limits.each), PRE))
        return join(_table(call.table) if call.table else None, read)
    if call.status == "done" and call.shown and call.text == NO_OUTPUT:
        return join()
    if _is_short(call):
        return element("div", f"→ {result}", style=CALL)
    plain = call.status in {"done", "not_run"}
    edge = ""
    if not plain:
        edge = _edge(_COLOURS[views.MARKS[call.status]])
    lines = call.text.count("\n") + 1
    size = None
    if lines > _COUNTED_LINES:  # the box shows the beginning
        size = element("div", count(lines, "line"), style=_SMALL)
    return join(_block(result, PRE + edge), size)


def _block(text: str, style: str, coloured: Html | None = None) -> Html:
    """A block of text, which may be coloured; a keyboard can scroll a long one."""
    is_long = len(text) > _SCROLLS or text.count("\n") > _SCROLLED_LINES
    return element("pre", coloured or text, style=style, tabindex="0" if is_long else False)


def _table(value: Table) -> Html:
    drawn = safe.table(value, f"{_TABLE};white-space:nowrap")
    more = element("div", value.size, style=_SMALL) if value.size else None
    return element("div", drawn, more, style=_SCROLLED, tabindex="0")


def _shown(item: Shown, limits: PageLimits, call: str) -> Html:
    if (item.picture or item.prose) and (item.picture or item.prose) in limits.below:
        kind = "figure" if item.picture else "text"
        return element("div", f"{kind} below the answer", style=f"{CALL};{DIM}")
    if item.picture or item.prose:
        return _exhibit(item, limits, call)
    value = truncate_middle(item.text, limits.each)
    if item.name:
        more = ": too large to be shown here"
        if item.display:
            more = ""
        return element("div", f"▦ {item.name}{more}", style=f"{CALL};{DIM}")
    style = _edge(_WARN) if item.kind == "stderr" else f";{DIM}"
    return _block(value, f"{PRE};max-height:9em{style}")


def _exhibit(item: Shown, limits: PageLimits, call: str) -> Html:
    """A picture or a formatted text."""
    if item.picture:
        media_type, data = item.picture
        limits.pictures -= len(data)
        drawn = None
        if limits.pictures >= 0:
            drawn = safe.picture(media_type, data, _PICTURE, f"image from {call}")
        if drawn:
            return element("div", drawn)
        size = f"[{media_type}, {len(data) * 3 / 4 / 1e6:.1f} MB: too large to show here]"
        return element("p", size, style=DIM)
    prose = safe.markdown(truncate_middle(item.prose, limits.each))
    return element("div", prose, style="margin:.35em 0")


def _ending(view: RunView, *, reason: bool) -> Html:
    title = views.ending_title(view.ending)
    text = views.ending_text(view.ending)
    head = None
    body = None
    if title:
        head = title_html(title)
    if isinstance(view.ending, Failed) and view.ending.explained is not None:
        head = error_card(view.ending.explained, text)
    elif isinstance(view.ending, Failed):
        if reason and text:
            body = element("p", text, style=PROSE)
    elif text and view.typed:
        body = element("pre", truncate_middle(text, _LARGEST_TEXT), style=PRE)
    elif text:
        spans = view.ending.spans if isinstance(view.ending, Answered) else ()
        body = answer_html(views.answer_markdown(view.ending), spans)
    grid = None
    if view.table:
        grid = _table(view.table)
    doubt = views.doubt(view.ending)
    notes = filter(None, [doubt, views.unlinked(view.ending)])
    below = join(*(element("div", each, style=DIM) for each in notes))
    return join(head, body, grid, below)


def error_card(found: Explained, reason: str) -> Html:
    """The card below a run.

    Args:
        found: The failure.
        reason: The whole message of the error, which is folded.
    """
    said = element("span", found.words, style="overflow-wrap:break-word;word-break:normal")
    status = element("span", f" · HTTP {found.status}", style=DIM) if found.status else None
    command = None
    if found.command:
        command = element("pre", found.command, style=f"{PRE};margin:.2em 0 .4em 1.3em")
    details = element(
        "details",
        element("summary", "Details", style=f"cursor:pointer;{DIM}"),
        element("div", reason, style=DIM),
    )
    return element(
        "div",
        element("div", element("span", "✗ ", style=BAD), element("strong", found.title)),
        element("div", said, status, style=_BELOW_TITLE),
        element("div", found.advice, style=_BELOW_TITLE) if found.advice else None,
        command,
        details if reason else None,
        style=PROSE,
    )


_BELOW_TITLE = "margin:.2em 0 .2em 1.3em"


# ── the panel of a call that waits for approval ───────────────────────────────────────────────────

WAITING = "waiting for approval"
NOT_DECIDED = "not decided when this was saved"
"""The state of the call: while a person is asked, and in a copy that may outlive the kernel."""
_LARGEST_VALUE = 200_000  # characters; the form has at most 100,000, and some are escaped here
PANEL = (
    f"border:{LINE};border-left:3px solid {_WARN};border-radius:6px;padding:.5em .9em .6em;"
    "margin:.6em 0 .4em"
)
_VALUE = f"{safe.MONO};white-space:pre-wrap;overflow-wrap:anywhere"
_BESIDE = f"{safe.MONO};{DIM}"  # text next to a value, of the same size
_BLOCK = f"{PRE};margin:.2em 0 .4em"
HINT = "To change an argument before the call is run, type name = value below."
_PREVIEW = f"border-top:{LINE};margin:.5em 0 0;padding:.3em 0 0"
_SQL = re.compile(
    r"\s*(?:--[^\n]*\n\s*)*(?:with\s+\w+\s+as\s*\(|"
    r"(?:select|insert|update|delete|create|drop|alter)\s+[\w*\"'(])",
    re.IGNORECASE,
)
_PYTHON = re.compile(
    r"^[ \t]*(?:def |class |import |from \w+ import |for .*:$|print\(|\w+ = )", re.MULTILINE
)


def panel_html(form: ApprovalForm, state: str = WAITING, hint: str = HINT) -> Html:
    """A call that waits for approval; after the decision, one line with the decision.

    ``hint`` says how to change an argument; it is shown while the call waits.
    """
    if form.decision is not None:
        call = element("code", form.tool, style=CODE)
        line = [f" · {form.decision.in_words}", *_edits(form.edited)]
        return element("div", call, *line, style=f"{DIM};font-size:.9em")
    head = element("code", form.tool, style=f"{CODE};font-weight:600")
    label = element("span", f" · {state}", style=f"{_text_colour('#b06a1c')};font-size:.9em")
    said = None
    if state == WAITING and form.arguments and hint:
        said = element("div", hint, style=f"{DIM};font-size:.82em;margin-top:.4em")
    return element("div", element("div", head, label), call_html(form), said, style=PANEL)


def call_html(form: ApprovalForm) -> Html:
    """A call as it would run: the line of its program, the reason to ask, and its arguments."""
    why = None
    if form.why:
        why = element("p", form.why, style=PROSE)
    body = [join(*_argument(each)) for each in form.arguments]
    lines = form.program.split("\n")
    if 0 < form.line <= len(lines):  # the program is in the step above
        number = element("span", f"line {form.line}  ", style=DIM)
        code = safe.code(truncate_middle(lines[form.line - 1].strip(), _LARGEST_TEXT), "python")
        why = join(element("div", number, code, style=f"{_VALUE};margin:.3em 0"), why)
    body = body or [element("em", "no arguments", style=DIM)]
    return join(why, *body, _preview(form.preview))


def _preview(preview: Preview | None) -> Html | None:
    """The effects of a call in a copy of the kernel, before a person decides on it."""
    if preview is None:
        return None
    head, *lines = preview.lines
    table = None
    if preview.changes:
        rows = Table(("variable", "change", "details"), change_rows(preview.changes))
        table = element("div", safe.table(rows, _CHANGES), style=_SCROLLED, tabindex="0")
        lines = lines[len(preview.changes) :]
    below = [element("div", each.strip(), style=_SMALL) for each in lines]
    return element("div", element("div", head, style=_SMALL), table, *below, style=_PREVIEW)


def _argument(argument: FormArgument) -> Iterator[Html]:
    note = _origin_of(argument)
    name = element("span", argument.name, style=_BESIDE)
    text = truncate_middle(argument.text, _LARGEST_VALUE)
    is_edited = argument.before is not None
    before = truncate_middle(argument.before or "", _LARGEST_VALUE)
    faded = DIM if argument.is_default else ""
    line = ""
    if argument.name in views.CODE_ARGUMENTS:
        line = _line_of_code(text)
    if "\n" not in text + before and not line:
        shown = text
        if not argument.is_default:
            shown = safe.code(text, "python")
        value = element("span", shown, style=f"{_VALUE};{faded}")
        old = None
        arrow = None
        if is_edited:
            old = element("span", before, style=f"{_VALUE};{_STRUCK}")
            arrow = element("span", " → ", style=_BESIDE)
        equals = element("span", " = ", style=_BESIDE)
        parts = (name, equals, old, arrow, value, note)
        yield element("div", *parts, style="margin:.15em 0")
        return
    edited = None
    if is_edited:
        edited = element("span", "  (edited)", style=_BESIDE)
    yield element("div", name, edited, note, style="margin:.3em 0 0")
    if line:
        text = line
    block = safe.code(text, language_of(argument.name, text))
    yield element("pre", block, style=f"{_BLOCK};{faded}")
    if is_edited:
        yield element("div", "before:", style=f"{DIM};font-size:.85em")
        yield element("pre", before, style=f"{_BLOCK};{_STRUCK}")


def _origin_of(argument: FormArgument) -> Html | None:
    """The origin of the value of an argument, if not the model as it is."""
    notes = []
    if argument.is_default:
        notes.append("default")
    if argument.sent is not None:
        notes.append(f"sent as {truncate_middle(argument.sent, 300)}")
    if not notes:
        return None
    return element("span", f"  ({', '.join(notes)})", style=_BESIDE)


def language_of(name: str, text: str) -> str:
    """The language of a text in a block, if it is obvious; else empty."""
    if _SQL.match(text) and "python" not in name:
        return "sql"
    if name in views.CODE_ARGUMENTS or _PYTHON.search(text):
        return "python"
    return ""


def _line_of_code(text: str) -> str:
    """The code in a literal; empty if there is none, or if the literal escapes a character."""
    try:
        line = ast.literal_eval(text)
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return ""
    if isinstance(line, str) and line.isprintable() and repr(line) == text:
        return line
    return ""
