"""A run as Markdown, for front ends and converters (nbconvert's PDF) that do not take HTML.

Markdown lets HTML through, so everything but the answer is escaped or fenced, and an answer with anything in
it that might run or load is fenced too. Pure: a view in, text out; the same in every run.
"""

from __future__ import annotations

import re
from html import unescape

from archytas_nb.trace.clean import clip, one_line
from archytas_nb.trace.table import Table
from archytas_nb.trace.values import CallView, RunView, Shown, StepView
from archytas_nb.trace.words import (
    EDITED,
    MARKS,
    answer_markdown,
    edited_text,
    ending_text,
    ending_title,
    is_answer,
    note_mark,
    note_text,
    outcome_word,
    rejected_title,
    result_text,
    signature,
)

_PUNCTUATION = re.compile(r"([\\`*_\[\]<>#|~$&]|^[-+=]|(?<=\d)[.)](?=\s))")
_FIRST_STEPS, _LAST_STEPS = 8, 40
_BLOCK = 2_000
_ROWS, _ANSWER_ROWS = 12, 60
# Raw HTML, images, links to other than the web and mail, and TeX that reads files, links or defines.
_HAZARDS = re.compile(
    r"<[a-z/!?]|!\[|\]\s*:|\]\s?\(\s*(?!https?://|mailto:)|(?:javascript|vbscript|data|file)\s*:"
    r"|\\(?:input|include|write|open|read|href|url|require|style|class|cssid|def|let|csname|catcode|immediate|html)",
    re.IGNORECASE,
)


def markdown(view: RunView) -> str:
    """Write a run as Markdown.

    Args:
        view: The run, finished or not.

    Returns:
        The question in bold, a numbered item for each step, the answer or how else it ended.
    """
    steps = [step for step in view.steps if not step.empty]
    left_out = max(0, len(steps) - _FIRST_STEPS - _LAST_STEPS)
    blocks = [f"**{escaped(view.question)}**"]
    for index, step in enumerate(steps):
        if _FIRST_STEPS <= index < _FIRST_STEPS + left_out:
            if index == _FIRST_STEPS:
                blocks.append(f"*… {left_out:,} more steps …*")
            continue
        blocks.append(_step(step))
    title, said = ending_title(view.ending), ending_text(view.ending)
    if title:
        blocks.append(f"**{escaped(title)}**")
    if said:
        prose = is_answer(view.ending) and not view.typed
        blocks.append(harmless(answer_markdown(view.ending)) if prose else fenced(said))
    if view.table:
        blocks.append(table_markdown(view.table, _ANSWER_ROWS))
    return "\n\n".join(blocks)


def escaped(value: str) -> str:
    """A text as one line in which no character means anything to Markdown."""
    return _PUNCTUATION.sub(r"\\\1", one_line(value, 2_000))


def fenced(value: str) -> str:
    """A text as a block of code, with a fence longer than any in it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", value)), default=0))
    return f"{fence}text\n{value}\n{fence}"


def code(value: str) -> str:
    """A text as code within a line."""
    value = one_line(value, 300)
    fence = "`" * (1 + max((len(run) for run in re.findall("`+", value)), default=0))
    return f"{fence} {value} {fence}" if "`" in value else f"`{value}`"


def harmless(answer: str) -> str:
    """An answer as the model wrote it where nothing in it could run or load, otherwise fenced."""
    flat = re.sub(r"[\s\x00-\x20]+", " ", unescape(answer))
    tight = re.sub(r"\s+", "", flat)
    return (
        fenced(answer)
        if _HAZARDS.search(flat) or re.search(r"(?i)(?:java|vb)script:", tight)
        else answer
    )


def table_markdown(table: Table, rows: int) -> str:
    """A table, of whose body as many rows; what is left out is counted."""
    *above, head = table.head or (("",) * len(table.rows[0]),)
    lines = [*above, *table.rows[:rows]]
    width = max(map(len, (head, *lines)))
    rule = ["---:" if table.numeric(column) else "---" for column in range(width)]
    body = [[escaped(cell) for cell in row] + [""] * (width - len(row)) for row in (head, *lines)]
    written = [f"| {' | '.join(row)} |" for row in (body[0], rule, *body[1:])]
    more = len(table.rows) - len(table.rows[:rows]) + table.left_out
    return "\n".join(written) + (f"\n\n*… {more:,} more rows*" if more else "")


def _step(step: StepView) -> str:
    parts = [escaped(step.thought)] if step.thought else []
    parts += [f"{note_mark(note)} *{escaped(note_text(note))}*" for note in step.notes]
    for reply in step.rejected:
        parts += [f"✗ {rejected_title(reply)}", fenced(clip(reply, _BLOCK))]
    for call in step.calls:
        parts += _call(call)
    first, *rest = [line for part in parts for line in (*part.split("\n"), "")][:-1] or [""]
    head = f"{step.number}. "
    indent = " " * len(head)
    return "\n".join([head + first, *(indent + line if line else "" for line in rest)])


def _call(call: CallView) -> list[str]:
    mark = "" if call.status == "done" else f"{MARKS[call.status]} "
    head = f"{mark}{code(signature(call))}"
    if call.status is None:
        return [head]
    word = outcome_word(call).strip()
    above = [head, *(fenced(clip(value, _BLOCK)) for _, value in call.texts)] if call.texts else []
    said = f"{'' if above else head} → {word}".strip()
    shown = [f"{EDITED} *{escaped(edited_text(call))}*"] if call.edited else []
    shown += [_shown(item) for item in call.shown if item.text or item.table or item.picture]
    if call.table:
        shown.insert(0, table_markdown(call.table, _ROWS))
    text = result_text(call)
    if "\n" not in text and len(text) <= 120:
        return [*above, f"{said} {code(text)}", *shown]
    return [*above, said, fenced(clip(text, _BLOCK)), *shown]


def _shown(item: Shown) -> str:
    if item.picture:
        return f"*\\[{item.picture.media_type}\\]*"
    if item.table:
        return table_markdown(item.table, _ROWS)
    return harmless(clip(item.text, _BLOCK)) if item.prose else fenced(clip(item.text, _BLOCK))
