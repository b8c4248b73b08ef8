"""A run as a static page fragment: folded steps and the answer, with no script, no file and nothing to load.

It reads well where styles are stripped (GitHub): marks are characters, structure is structure. Colours are the
front end's own where it has names for them (``--jp-*``), and shades of the text's colour elsewhere, so that
dark and light both work. Pure: a view in, HTML out; the same in every run; bounded, whatever a run held.
All HTML is made by `safe`; this file only says what goes where.
"""

from __future__ import annotations

from dataclasses import dataclass

from archytas_nb.trace.clean import clip, one_line
from archytas_nb.trace.safe import Html, element, join, markdown, picture, table, text
from archytas_nb.trace.steps import CallView, RunView, Shown, StepView
from archytas_nb.trace.words import (
    MARKS,
    answer_markdown,
    ending_text,
    ending_title,
    is_answer,
    model_name,
    note_text,
    outcome_word,
    rejected_title,
    signature,
    step_mark,
    summary,
)

_OPEN_STEPS = 12
"""Steps that are listed; of a longer run the earlier ones are folded into one line."""
_MAX_STEPS = 500
_TEXT_BUDGET = 600_000
_PICTURE_BUDGET = 16_000_000
_LARGEST_TEXT, _SMALLEST_TEXT = 8_000, 400

_MONO = (
    "font-family:var(--jp-code-font-family,ui-monospace,SFMono-Regular,Menlo,Consolas,monospace);font-size:.93em"
)
_LINE = "1px solid var(--jp-border-color2,rgba(128,128,128,.28))"
_DIM = "opacity:.65"
_GOOD = "var(--jp-success-color1,#2e9e5b)"
_BAD = "var(--jp-error-color1,#d64545)"
_WARN = "var(--jp-warn-color1,#c9851b)"
_ROOT = (
    "max-width:56rem;margin:.2em 0;line-height:1.55;overflow-wrap:anywhere;"
    "font-size:var(--jp-content-font-size1,14px);"
    "font-family:var(--jp-content-font-family,system-ui,-apple-system,'Segoe UI',sans-serif)"
)
_PRE = (
    f"{_MONO};margin:.35em 0;padding:.55em .8em;border:0;border-radius:6px;background:rgba(128,128,128,.1);"
    "color:inherit;white-space:pre-wrap;overflow-wrap:anywhere;max-height:24em;overflow:auto;line-height:1.45"
)
_CODE = f"{_MONO};background:none;color:inherit;padding:0;border:0;white-space:inherit"
STEPS_LAYOUT = {
    "border_top": _LINE,
    "border_bottom": _LINE,
    "padding": ".25em 0",
    "margin": ".3em 0",
    "max_width": "56rem",
}
"""The frame around the steps, for a front end that is given it apart from them."""
_SUMMARY = "cursor:pointer;padding:.22em 0;white-space:nowrap;overflow:hidden;text-overflow:ellipsis"
_MARK = "display:inline-block;min-width:1.05em;font-weight:600;color:"
_MARK_COLOURS = {"✓": _GOOD, "✗": _BAD, "⊘": _WARN, "■": _WARN, "!": _WARN}


@dataclass(slots=True)
class _Room:
    """How much may still go into the page."""

    each: int
    pictures: int = _PICTURE_BUDGET


def html(view: RunView) -> Html:
    """Write a run as HTML.

    Args:
        view: The run, finished or not.

    Returns:
        One ``<div>``. Errors are unfolded, everything else is folded; the answer stands last.
    """
    steps = [step for step in view.steps if not step.empty]
    room = _room(steps)
    # MathJax takes "$5 and $10" for a formula, and TeX can make links: the classes keep it away.
    return element(
        "div",
        _question(view),
        *_steps(steps, room),
        _ending(view),
        **{"class": "archytas-nb-trace tex2jax_ignore mathjax_ignore", "style": _ROOT},
    )


def live_step(step: StepView, *, newest: bool, reasoning: str = "", tool: str = "", said: str = "") -> Html:
    """One step by itself, while the run goes on.

    Args:
        step: The step so far.
        newest: Whether it is the one that goes on, which is unfolded.
        reasoning: What the model has thought so far of a reply that is still being written.
        tool: The tool that it is about to call.
        said: The text of the reply so far; an answer is Markdown already.
    """
    room = _room([step])
    streamed = []
    if reasoning:
        thought = element("em", text(reasoning))
        streamed.append(element("p", thought, style=f"{_DIM};white-space:pre-wrap;margin:.3em 0"))
    if tool == "final_answer":
        streamed.append(element("div", markdown(said + "▍"), style="margin:.5em 0 .2em;font-size:1.03em"))
        tool = said = ""
    if tool:
        streamed.append(element("div", element("code", text(f"{tool} …"), style=_CODE), style="margin:.35em 0"))
    if said:
        streamed.append(element("pre", text(said + "▍"), style=_PRE))
    return element("div", _step(step, room, newest=newest, streamed=join(streamed)), style=_ROOT)


def question_line(view: RunView) -> Html:
    """The question and who is asked, by themselves."""
    return element("div", _question(view), style=_ROOT)


def status_line(words: str) -> Html:
    """One line that says what goes on, by itself."""
    return element("div", text(words), style=f"{_ROOT};{_DIM};font-size:.9em;font-variant-numeric:tabular-nums")


def _room(steps: list[StepView]) -> _Room:
    texts = sum(
        2 + len(step.notes) + sum(2 + len(c.shown) + len(c.arguments) for c in step.calls) for step in steps
    )
    return _Room(min(_LARGEST_TEXT, max(_SMALLEST_TEXT, _TEXT_BUDGET // max(1, texts))))


def _question(view: RunView) -> Html:
    name = " · ".join(part for part in (model_name(view), view.protocol) if part)
    parts = [
        element("strong", text(clip(view.question, _LARGEST_TEXT)), style="white-space:pre-wrap;font-weight:600")
    ]
    if name:
        parts.append(
            element("span", text(f" {name}"), style=f"{_DIM};font-size:.82em;margin-left:.5em;white-space:nowrap")
        )
    return element("p", *parts, style="margin:0 0 .5em")


def _steps(steps: list[StepView], room: _Room) -> list[Html]:
    if not steps:
        return []
    early, late = ([], steps) if len(steps) <= _OPEN_STEPS else (steps[:-_OPEN_STEPS], steps[-_OPEN_STEPS:])
    parts = []
    if early:
        drawn = early[: _MAX_STEPS - _OPEN_STEPS]
        inner = [_step(step, room) for step in drawn]
        if len(drawn) < len(early):
            inner.append(element("p", text(f"… {len(early) - len(drawn):,} more steps …"), style=_DIM))
        failed = sum(step.failed for step in early)
        title = f"{len(early):,} earlier step{'s' if len(early) > 1 else ''}"
        title += f", {failed:,} with an error" if failed else ""
        parts.append(_details(element("em", text(title), style=_DIM), join(inner)))
    parts += [_step(step, room) for step in late]
    return [
        element("div", *parts, style=f"border-top:{_LINE};border-bottom:{_LINE};padding:.25em 0;margin:.3em 0")
    ]


def _details(summary: Html, body: Html, *, unfolded: bool = False) -> Html:
    inside = element("div", body, style="padding:.1em 0 .5em 1.35em")
    return element("details", element("summary", summary, style=_SUMMARY), inside, open=unfolded)


def _step(step: StepView, room: _Room, *, newest: bool = False, streamed: Html | None = None) -> Html:
    mark = "…" if newest and not step.calls else step_mark(step)
    head = [
        element("span", text(mark), style=f"{_MARK}{_MARK_COLOURS.get(mark, 'inherit')}"),
        element("span", text(f" {step.number} " if step.number else " "), style=_DIM),
    ]
    if step.calls:
        for index, call in enumerate(step.calls):
            head += [text(" · ")] if index else []
            head.append(element("code", text(one_line(signature(call, 40), 90)), style=_CODE))
            if call.status is not None:
                head.append(element("span", text(f" → {summary(call, 90)}"), style=_DIM))
    else:
        topic = "thinking" if newest and not step.failed else one_line(_topic(step), 120)
        head.append(element("span", text(topic), style=_DIM))
    body = join([_body(step, room), *([streamed] if streamed else [])])
    return _details(join(head), body, unfolded=newest or step.failed)


def _topic(step: StepView) -> str:
    if step.rejected:
        return rejected_title(step.rejected[0])
    return step.thought or (note_text(step.notes[0]) if step.notes else "thinking")


def _body(step: StepView, room: _Room) -> Html:
    parts = []
    if step.reasoning:
        title = element("em", text("Reasoning"), style=_DIM)
        parts.append(_details(title, element("pre", text(clip(step.reasoning, room.each)), style=_PRE)))
    if step.thought:
        thought = element("em", text(clip(step.thought, room.each)), style="white-space:pre-wrap")
        parts.append(element("p", thought, style="margin:.3em 0;opacity:.8"))
    for note in step.notes:
        colour = _BAD if note.kind == "no_reply" else _WARN
        mark = element("span", text("! "), style=f"color:{colour};font-weight:600")
        parts.append(element("p", mark, text(clip(note_text(note), room.each)), style="margin:.3em 0"))
    for reply in step.rejected:
        parts.append(_label(rejected_title(reply), _BAD))
        parts.append(element("pre", text(clip(reply, room.each)), style=_PRE))
    parts += [_call(call, room) for call in step.calls]
    return join(parts)


def _label(line: str, colour: str) -> Html:
    return element("p", text(line), style=f"margin:.4em 0 0;font-size:.85em;color:{colour}")


def _call(call: CallView, room: _Room) -> Html:
    short = signature(call, 10**6)
    if len(short) + len(call.text) <= 110 and call.status == "done" and not ("\n" in call.text or call.table):
        result = element("span", text(f" → {call.text}"), style=_DIM)
        line = element("div", element("code", text(short), style=_CODE), result, style="margin:.35em 0")
        return join([line, *(_shown(item, room) for item in call.shown)])
    parts = []
    if len(short) <= 300 and "\\n" not in short:
        parts.append(element("div", element("code", text(short), style=_CODE), style="margin:.35em 0 0"))
    else:
        parts.append(element("div", element("code", text(call.name), style=_CODE), style="margin:.35em 0 0"))
        for name, value in call.arguments:
            parts.append(
                element("pre", text(f"{name} = {clip(value, room.each)}" if name else value), style=_PRE)
            )
    parts += [_shown(item, room) for item in call.shown]
    if call.status is None:
        return join([*parts, element("div", text("running …"), style=_DIM)])
    said = element("pre", text(clip(outcome_word(call) + call.text, room.each)), style=_PRE + _edge(call))
    if call.table:
        parts.append(_table(call))
        said = _details(element("em", text("as the model read it"), style=f"{_DIM};font-size:.85em"), said)
    return join([*parts, said])


def _edge(call: CallView) -> str:
    colour = _MARK_COLOURS.get(MARKS[call.status], "")
    return "" if call.status == "done" or not colour else f";border-left:3px solid {colour}"


def _table(call: CallView | Shown) -> Html:
    assert call.table is not None  # noqa: S101 (both callers have looked)
    drawn = table(
        call.table,
        style="border-collapse:collapse;border:0;margin:.3em 0;font-size:.92em",
        cell=f"padding:.22em .75em;border:0;border-bottom:{_LINE};white-space:nowrap",
        head=";font-weight:600",
    )
    more = text(f"… {call.table.left_out:,} more rows") if call.table.left_out else text("")
    foot = [element("div", more, style=f"{_DIM};font-size:.85em")] if more else []
    return element("div", drawn, *foot, style="overflow-x:auto;max-height:28em;overflow-y:auto")


def _shown(item: Shown, room: _Room) -> Html:
    if item.picture:
        room.pictures -= len(item.picture.data)
        drawn = None
        if room.pictures >= 0:
            drawn = picture(
                item.picture.media_type,
                item.picture.data,
                style="max-width:100%;height:auto;border-radius:4px;margin:.35em 0;background:#fff",
            )
        if drawn is None:
            size = f"{len(item.picture.data) * 3 / 4 / 1e6:.1f} MB"
            return element("p", text(f"[{item.picture.media_type}, {size}: left out]"), style=_DIM)
        return element("div", drawn)
    if item.table:
        return _table(item)
    css = _PRE + (f";border-left:3px solid {_WARN}" if item.kind == "stderr" else f";{_DIM}")
    return element("pre", text(clip(item.text, room.each)), style=css)


def _ending(view: RunView) -> Html:
    title, said = ending_title(view.ending), ending_text(view.ending)
    parts = []
    if title:
        colour = _BAD if title.startswith("✗") else _WARN
        parts.append(element("p", element("strong", text(title)), style=f"margin:.5em 0 .3em;color:{colour}"))
    if said and is_answer(view.ending):
        parts.append(
            element("div", markdown(answer_markdown(view.ending)), style="margin:.5em 0 .2em;font-size:1.03em")
        )
    elif said:
        parts.append(element("pre", text(said), style=_PRE))
    return join(parts)
