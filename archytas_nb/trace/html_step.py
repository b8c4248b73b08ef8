"""One step of a run as HTML: what it says folded, and what is below it unfolded.

Pure: a view in, HTML out; bounded by the `Room` that all steps of a page share. All HTML is made by `safe`,
every style is from `style`; this file only says what goes where.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from archytas_nb.trace import style
from archytas_nb.trace.clean import clip, one_line
from archytas_nb.trace.safe import Html, element, join, markdown, picture, table, text
from archytas_nb.trace.table import Table
from archytas_nb.trace.values import CallView, Note, Shown, StepView
from archytas_nb.trace.words import (
    EDITED,
    MARKS,
    NOTHING,
    edited_text,
    is_fault,
    note_mark,
    note_title,
    note_word,
    outcome_word,
    rejected_title,
    signature,
    step_mark,
    summary,
)

_TEXT_BUDGET = 600_000
_PICTURE_BUDGET = 16_000_000
LARGEST_TEXT, _SMALLEST_TEXT = 8_000, 400
_HEAD, _CALL = 90, 64
"""Characters of an outcome, and of a call, in a summary; where the line is too short the outcome is cut."""
_COLOURS = {"✓": style.GOOD, "✗": style.BAD, "⊘": style.WARN, "■": style.WARN} | dict.fromkeys(
    "↻↺✎⇄≡!", style.WARN
)


@dataclass(slots=True)
class Room:
    """How much may still go into the page.

    Attributes:
        each: Characters of one text.
        pictures: Characters of all pictures to come.
    """

    each: int
    pictures: int = _PICTURE_BUDGET

    @classmethod
    def of(cls, steps: list[StepView]) -> Room:
        """Share a page's room among the texts of its steps."""
        texts = sum(
            2
            + len(step.notes)
            + sum(2 + len(c.shown) + len(c.arguments) + len(c.texts) for c in step.calls)
            for step in steps
        )
        return cls(min(LARGEST_TEXT, max(_SMALLEST_TEXT, _TEXT_BUDGET // max(1, texts))))


def details(summary: Html, body: Html, *, unfolded: bool = False) -> Html:
    """Something to unfold."""
    inside = element("div", body, style=style.BODY)
    return element(
        "details", element("summary", summary, style=style.SUMMARY), inside, open=unfolded
    )


def step_html(step: StepView, room: Room, *, doing: str = "", streamed: Html | None = None) -> Html:
    """Write a step.

    Args:
        step: The step.
        room: How much may go into the page; what is drawn is taken from it.
        doing: What the model does in it at this moment, in a word; empty where the step does not go on. One that
            does is unfolded.
        streamed: What of it is still being written, below all else.
    """
    body = join([_body(step, room), *([streamed] if streamed else [])])
    unfolded = bool(doing) or step.failed or step.pictured
    return details(_head(step, doing, unfolded=unfolded), body, unfolded=unfolded)


def _head(step: StepView, doing: str, *, unfolded: bool) -> Html:
    spared = {"class": style.FOLDED_ONLY} | ({"style": "display:none"} if unfolded else {})
    mark = "…" if doing and not step.calls else step_mark(step)
    parts = [
        element("span", text(mark), style=style.MARK + _COLOURS.get(mark, "inherit")),
        element("span", text(f" {step.number}" if step.number else " "), style=style.NUMBER),
        text(" "),
    ]
    for index, call in enumerate(step.calls):
        parts += [text(" · ")] if index else []
        parts.append(element("code", text(one_line(signature(call, 40), _CALL)), style=style.CODE))
        if call.status is not None:
            said = element("span", text(f" → {summary(call, _HEAD)}"), style=style.DIM)
            parts.append(element("span", said, **spared))
        if call.edited:
            parts.append(element("span", text(f" {EDITED}"), style=f"color:{style.WARN}"))
    if step.calls:
        told = dict.fromkeys(note_mark(note) for note in step.notes)
        parts += [
            element("span", text(f" {each}"), style=f"color:{_COLOURS[each]}") for each in told
        ]
    else:
        topic = doing if doing and not step.failed else one_line(_topic(step), 120)
        said_below = step.thought and not (doing or step.rejected)
        hidden = spared if said_below else {}
        parts.append(element("span", element("span", text(topic), style=style.DIM), **hidden))
    return join(parts)


def _topic(step: StepView) -> str:
    if step.rejected:
        return rejected_title(step.rejected[0])
    return step.thought or (note_title(step.notes[-1]) if step.notes else "thinking")


def _body(step: StepView, room: Room) -> Html:
    parts = []
    if step.reasoning:
        title = element("em", text("Reasoning"), style=style.DIM)
        parts.append(
            details(title, element("pre", text(clip(step.reasoning, room.each)), style=style.PRE))
        )
    if step.thought:
        parts.append(thought_html(clip(step.thought, room.each)))
    parts += [_note(note, room) for note in step.notes]
    parts += [
        element("pre", text(clip(reply, room.each)), style=style.PRE + style.edge(style.BAD))
        for reply in step.rejected
    ]
    alone = len(step.calls) == 1
    parts += [_call(call, room, named=alone) for call in step.calls]
    return join(parts)


def thought_html(thought: str) -> Html:
    """Why the model does what it does, in its words."""
    return element(
        "p", element("em", text(thought), style="white-space:pre-wrap"), style=style.THOUGHT
    )


def _note(note: Note, room: Room) -> Html:
    colour = style.BAD if is_fault(note) else style.WARN
    word = element(
        "span",
        text(f"{note_mark(note)} {note_word(note)} "),
        style=f"color:{colour};font-weight:600",
    )
    return element("p", word, text(clip(note.text, room.each)), style=style.NOTE)


def _call(call: CallView, room: Room, *, named: bool) -> Html:
    """Write a call, and what came of it; where the summary has named it in full, it is not named again."""
    texts = [_text(call, name, value, room) for name, value in call.texts]
    long = dict(call.texts)
    call = replace(
        call,
        arguments=tuple((name, "…" if name in long else given) for name, given in call.arguments),
    )
    short = signature(call, 10**6)
    shown = [_edited(call, room)] if call.edited else []
    shown += [_shown(item, room) for item in call.shown]
    if named and len(short) <= _CALL and signature(call, 40) == short:
        return join([*texts, *shown, *([] if call.status is None else [_outcome(call, room)])])
    code = element("code", text(short if len(short) <= 300 else call.name), style=style.CODE)
    if _is_brief(call) and len(short) <= 100 and not texts:
        line = element("div", code, text(f" → {call.text}"), style=style.CALL)
        return join([line, *shown])
    parts = [element("div", code, style=style.CALL)]
    for name, value in call.arguments if len(short) > 300 else ():
        given = f"{name} = {clip(value, room.each)}" if name else value
        parts += [] if name in long else [element("pre", text(given), style=style.PRE)]
    return join([*parts, *texts, *shown, _outcome(call, room)])


def _text(call: CallView, name: str, value: str, room: Room) -> Html:
    """An argument of several lines, under its name where there are others."""
    label = (
        [element("div", text(name), style=style.SMALL)] if name and len(call.arguments) > 1 else []
    )
    return join([*label, element("pre", text(clip(value, room.each)), style=style.GIVEN)])


def _edited(call: CallView, room: Room) -> Html:
    mark = element("span", text(f"{EDITED} "), style=f"color:{style.WARN};font-weight:600")
    return element("p", mark, text(clip(edited_text(call), room.each)), style=style.NOTE)


def _is_brief(call: CallView) -> bool:
    return (
        call.status == "done"
        and call.table is None
        and len(call.text) <= 100
        and "\n" not in call.text
    )


def _outcome(call: CallView, room: Room) -> Html:
    if call.status is None:
        return element("div", text("…"), style=style.DIM)
    said = clip(outcome_word(call) + call.text, room.each)
    if call.table:
        title = element("em", text("as the model read it"), style=style.SMALL)
        return join(
            [table_html(call.table), details(title, element("pre", text(said), style=style.PRE))]
        )
    if call.status == "done" and call.shown and call.text == NOTHING:
        return text("")  # it returned nothing, and what it showed stands above
    if _is_brief(call):
        return element("div", text(f"→ {said}"), style=style.CALL)
    colour = (
        _COLOURS[MARKS[call.status]] if call.status in {"error", "refused", "interrupted"} else ""
    )
    return element("pre", text(said), style=style.PRE + (style.edge(colour) if colour else ""))


def table_html(value: Table) -> Html:
    """A data frame, or a table that a tool displayed."""
    drawn = table(value, style=style.TABLE, cell=style.CELL, head=style.HEAD_CELL)
    more = f"… {value.left_out:,} more rows"
    foot = [element("div", text(more), style=style.SMALL)] if value.left_out else []
    return element("div", drawn, *foot, style=style.TABLE_BOX)


def _shown(item: Shown, room: Room) -> Html:
    if item.picture:
        room.pictures -= len(item.picture.data)
        drawn = None
        if room.pictures >= 0:
            drawn = picture(item.picture.media_type, item.picture.data, style=style.PICTURE)
        if drawn is None:
            size = f"{len(item.picture.data) * 3 / 4 / 1e6:.1f} MB"
            return element(
                "p", text(f"[{item.picture.media_type}, {size}: left out]"), style=style.DIM
            )
        return element("div", drawn)
    if item.table:
        return table_html(item.table)
    if item.prose:
        return element("div", markdown(clip(item.text, room.each)), style=style.SHOWN_PROSE)
    css = style.PRINTED + (style.edge(style.WARN) if item.kind == "stderr" else f";{style.DIM}")
    return element("pre", text(clip(item.text, room.each)), style=css)
