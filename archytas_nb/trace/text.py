"""A run as plain text, for a terminal, a diff, a log: it fits on a screen and is the same in every run.

    How many Gentoo penguins are there?

       I count the rows of that species.
    1. count_species(species="Gentoo") → 124

    There are 124 Gentoo penguins.

Pure: a view in, text out. No durations, ids or token counts; those are metadata.
"""

from __future__ import annotations

import re

from archytas_nb.trace.clean import first_lines, one_line
from archytas_nb.trace.grid import grid_lines
from archytas_nb.trace.values import CallView, RunView, Shown, StepView
from archytas_nb.trace.words import (
    EDITED,
    MARKS,
    edited_text,
    ending_text,
    ending_title,
    note_mark,
    note_text,
    outcome_word,
    rejected_title,
    result_text,
    signature,
)

WIDTH = 110
"""Characters of a line, not counting its indent."""
_FIRST_STEPS, _LAST_STEPS = 8, 12
_RESULT_LINES, _SHOWN_LINES, _THOUGHT = 8, 6, 300
_ANSWER_ROWS = 20
_INDENT = "   "
_NUMBERED = re.compile(r" ?\d+\. ")


def plain(view: RunView) -> str:
    """Write a run as plain text.

    Args:
        view: The run, finished or not.

    Returns:
        The question, one block for each step, the answer or how else it ended; no trailing newline. Of a long
        run the middle steps are counted, not written.
    """
    steps = [step for step in view.steps if not step.empty]
    blocks = [view.question]
    left_out = len(steps) - _FIRST_STEPS - _LAST_STEPS
    for index, step in enumerate(steps):
        if left_out > 1 and _FIRST_STEPS <= index < _FIRST_STEPS + left_out:
            if index == _FIRST_STEPS:
                blocks.append(f"{_INDENT}… {left_out:,} more steps …")
            continue
        blocks.append("\n".join(step_lines(step)))
    blocks.append(ending_lines(view))
    text = "\n\n".join(block for block in _without_gaps(blocks) if block)
    return "\n".join(line.rstrip() for line in text.split("\n"))


def _without_gaps(blocks: list[str]) -> list[str]:
    """Join steps of a single line: a list reads better without gaps."""
    joined: list[str] = []
    for block in blocks:
        before = joined[-1] if len(joined) > 1 else ""
        if _single(block) and all(_single(line) for line in before.split("\n")):
            joined[-1] = f"{before}\n{block}"
        else:
            joined.append(block)
    return joined


def _single(block: str) -> bool:
    return _NUMBERED.match(block) is not None and "\n" not in block


def step_lines(step: StepView) -> list[str]:
    """The lines of one step, the number before its first call."""
    head = head_lines(step)
    body = [line for call in step.calls for line in call_lines(call)]
    return [*indented(head), *numbered(step, body)] if body else numbered(step, head)


def head_lines(step: StepView) -> list[str]:
    """What stands before the calls of a step: the thought, the notes, what could not be used."""
    lines = _wrapped(step.thought)
    lines += [
        f"{note_mark(note)} {line}" for note in step.notes for line in _wrapped(note_text(note))
    ]
    return lines + [
        f"✗ {rejected_title(reply)}: {one_line(reply, WIDTH)}" for reply in step.rejected
    ]


def indented(lines: list[str]) -> list[str]:
    """Lines below or above a numbered one."""
    return [_INDENT + line for line in lines]


def numbered(step: StepView, lines: list[str]) -> list[str]:
    """Lines of which the first one bears the number of the step."""
    number = f"{step.number}. ".rjust(len(_INDENT))
    return [number + line for line in lines[:1]] + indented(lines[1:])


def _wrapped(text: str) -> list[str]:
    return [one_line(text, _THOUGHT)] if text.strip() else []


def call_lines(call: CallView) -> list[str]:
    """One call with its outcome, then what it showed."""
    mark = "" if call.status == "done" else f"{MARKS[call.status]} "
    head = mark + one_line(signature(call), WIDTH)
    if call.status is None:
        return [head]
    edited = [f"  {EDITED} {one_line(edited_text(call), WIDTH)}"] if call.edited else []
    return [*outcome_lines(call, f"{head} →"), *edited, *shown_lines(call)]


def outcome_lines(call: CallView, head: str) -> list[str]:
    """The outcome behind `head` where it fits in that line, below it where it does not."""
    word, text = outcome_word(call), result_text(call)
    if "\n" not in text and len(text) + len(head) <= 2 * WIDTH:
        grid = grid_lines(call.table, _RESULT_LINES, WIDTH) if call.table else []
        return [f"{head} {word}{text}", *(f"  │ {line}" for line in grid)]
    lines = first_lines(text, _RESULT_LINES, WIDTH)
    return [f"{head} {word}".rstrip(), *(f"  │ {line}" for line in lines)]


def shown_lines(call: CallView) -> list[str]:
    """What a tool printed and displayed; a picture is named."""
    return [f"  ┆ {line}" for item in call.shown for line in _shown(item)]


def _shown(item: Shown) -> list[str]:
    if item.picture:
        return [f"[{item.picture.media_type}]"]
    if item.table:
        return grid_lines(item.table, _RESULT_LINES, WIDTH)
    return first_lines(item.text, _SHOWN_LINES, WIDTH)


def ending_lines(view: RunView) -> str:
    """How the run ended, and the answer last."""
    grid = "\n".join(grid_lines(view.table, _ANSWER_ROWS, WIDTH)) if view.table else ""
    parts = (ending_title(view.ending), ending_text(view.ending), grid)
    return "\n".join(part for part in parts if part)
