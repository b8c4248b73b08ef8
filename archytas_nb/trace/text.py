"""A run as plain text and as Markdown.

    How many Gentoo penguins are there?

       I count the rows of that species.
    1. count_species(species="Gentoo") → 124

    There are 124 Gentoo penguins.

The text fits on a screen and is the same in every run: no durations, ids or token counts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from html import unescape
from itertools import accumulate, pairwise, zip_longest

from archytas_nb.loop.events import Failed
from archytas_nb.trace import view as views
from archytas_nb.trace.safe import Table
from archytas_nb.trace.view import CallView, LineView, RunView, Shown, StepView
from archytas_nb.words import collapse_whitespace, count, is_omission, truncate_line

WIDTH = 110
"""Maximum number of characters of a line, without its indent."""
_FIRST_STEPS = 8
_LAST_STEPS = 12
_RESULT_LINES = 8
_SHOWN_LINES = 6
_INNER_LINES = 20  # of the steps of a run that a call has made
FIRST_CALLS = 3  # of a line of a program; those between are counted
LAST_CALLS = 2
_FIRST_PROGRAM_LINES = 30  # of a program; those between are counted, except with calls
_LAST_PROGRAM_LINES = 10
ANSWER_ROWS = 20
_INDENT = "   "
_PUNCTUATION = re.compile(r"([\\`*_\[\]<>#|~$&]|^[-+=]|(?<=\d)[.)](?=\s))")
# Raw HTML, images, links to other than web and mail, and TeX that reads files, links or defines.
_HAZARDS = re.compile(
    r"<[a-z/!?]|!\[|\]\s*:|\]\s?\(\s*(?!https?://|mailto:)|(?:javascript|vbscript|data|file)\s*:"
    r"|\\(?:input|include|write|open|read|href|url|require|style|class|cssid|def|let|csname|catcode"
    r"|immediate|html)",
    re.IGNORECASE,
)


def plain(view: RunView) -> str:
    """A run as plain text; of a long run the steps in the middle are counted, not written."""
    beside = ""
    if view.beside:
        beside = f"\n({view.beside})"
    undone = "\n".join(f"↩ {each}" for each in view.undone)
    blocks = [view.question + beside, undone, _steps(view), ending_lines(view)]
    lines = "\n\n".join(block for block in blocks if block).split("\n")
    return "\n".join(line.rstrip() for line in lines)


def markdown(view: RunView) -> str:
    """A run as Markdown: the question in bold, the steps as a block of text, then the answer."""
    title = views.ending_title(view.ending)
    text = _answer_text(view)
    steps = _steps(view)
    answer = ""
    if not view.typed:
        answer = views.answer_markdown(view.ending)

    blocks = list(_above_steps(view))
    if steps:
        blocks.append(fenced(steps))
    if title:
        blocks.append(f"**{escaped(title)}**")
    if answer:
        blocks.append(harmless(answer))
    elif text:
        blocks.append(fenced(text))
    if view.table:
        blocks.append(fenced("\n".join(grid_lines(view.table, ANSWER_ROWS))))
    if doubt := views.doubt(view.ending):
        blocks.append(f"*{escaped(doubt)}*")
    if unlinked := views.unlinked(view.ending):
        blocks.append(f"*{escaped(unlinked)}*")
    return "\n\n".join(block for block in blocks if block)


def _above_steps(view: RunView) -> Iterator[str]:
    """The question as Markdown, and that the run was undone."""
    question = f"**{escaped(view.question)}**"
    if view.beside:
        question += f" *({escaped(view.beside)})*"
    yield question
    if view.undone:
        line, *details = view.undone
        yield " · ".join([f"**↩ {escaped(line)}**", *map(escaped, details)])


def _steps(view: RunView) -> str:
    blocks = [_step_lines(step) for step in view.shown_steps]
    blocks = [block for block in blocks if block]
    left_out = len(blocks) - _FIRST_STEPS - _LAST_STEPS
    if left_out > 1:
        blocks[_FIRST_STEPS:-_LAST_STEPS] = [[f"{_INDENT}… {left_out:,} more steps …"]]
    text = ""
    for before, block in pairwise([[], *blocks]):
        is_list = len(before) == len(block) == 1  # of steps of one line each, without gaps
        text += "\n" if is_list else "\n\n"
        text += "\n".join(block)
    return text.removeprefix("\n\n")


AT_ONCE = ("retry", "model")
"""Kinds of notices that a terminal shows when they happen, not with their step."""


def _step_lines(step: StepView) -> list[str]:
    head = head_lines(step)
    if step.program is not None:
        return [*indented(head), *numbered(step, program_lines(step))]
    body = [line for call in step.calls for line in call_lines(call)]
    if body:
        return [*indented(head), *numbered(step, body)]
    return numbered(step, head)


def head_lines(step: StepView, *, retries: bool = True) -> list[str]:
    """The lines above the calls of a step: thought, notes, replies that could not be used."""
    lines = []
    if step.thought.strip():
        lines.append(collapse_whitespace(step.thought, 300))
    notes = [note for note in step.notes if note.title]
    if not retries:
        notes = [note for note in notes if note.kind not in AT_ONCE]
    lines += [f"{note.mark} {collapse_whitespace(note.title, 300)}" for note in notes]
    lines += [f"✗ {views.UNUSABLE}" for _ in step.rejected]
    return lines


def program_lines(step: StepView) -> list[str]:
    """A program, each line with its calls below it, then what was wrong and what it showed."""
    lines: list[str] = []
    left_out = 0
    program = step.lines
    for place, line in enumerate(program):
        is_between = _FIRST_PROGRAM_LINES <= place < len(program) - _LAST_PROGRAM_LINES
        if is_between and not line.is_kept:
            left_out += 1
            continue
        if left_out:
            lines.append(f"… {count(left_out, 'more line')} …")
        left_out = 0
        lines += [source_line(line), *calls_below(line.calls), *faults_below(line)]
    return [*lines, *end_of_program(step)]


def source_line(line: LineView) -> str:
    """A line of a program, with its value as a comment; marked if it is wrong or waits."""
    source = truncate_line(line.source, 2 * WIDTH)
    if line.value:
        source += f"  # {line.value}"
    return f"{line.mark} {source}".lstrip(" ") if line.mark else source


def calls_below(calls: Sequence[CallView]) -> list[str]:
    """The calls of a line: the first and the last ones, and how many are between."""
    lines = []
    for call in views.ends_of(calls, FIRST_CALLS, LAST_CALLS):
        if isinstance(call, int):
            lines.append(f"  ↳ … {count(call, 'more call')} …")
        else:
            lines += call_below(call)
    return lines


def call_below(call: CallView) -> list[str]:
    """A call below the line of the program that makes it."""
    first, *rest = call_lines(call)
    if call.is_repeated:
        first += f" ({views.EARLIER})"
    return [f"  ↳ {first}", *(f"    {line}" for line in rest)]


def faults_below(line: LineView) -> list[str]:
    """The fault in a line."""
    return [f"    {collapse_whitespace(text, 2 * WIDTH)}" for text in line.faults]


def end_of_program(step: StepView) -> list[str]:
    """The fault of a program as a whole, and its output."""
    program = step.program
    if program is None:
        return []
    lines = []
    if not program.was_run:
        lines.append("✗ nothing was run")
    lines += [
        f"✗ {collapse_whitespace(text, 2 * WIDTH)}" for line, text in program.faults if not line
    ]
    for text in program.shown:
        lines += [f"┆ {line}" for line in _first_lines(text, _SHOWN_LINES)]
    return lines


def indented(lines: list[str]) -> list[str]:
    """Lines aligned with a numbered one."""
    return [_INDENT + line for line in lines]


def numbered(step: StepView, lines: list[str]) -> list[str]:
    """Lines, the first with the number of the step."""
    number = f"{step.number}. ".rjust(len(_INDENT))
    return [number + line for line in lines[:1]] + indented(lines[1:])


def call_lines(call: CallView) -> list[str]:
    """A call with its result, on the same line if it fits, and what it printed and displayed."""
    head = call.signature(WIDTH)
    if call.status != "done":
        head = f"{views.MARKS[call.status]} {head}"
    if call.decided:
        head += f" ({call.decided})"
    if call.status is None:
        return [head]
    head += f" → {call.prefix}"
    text = call.result
    below: list[str] = []
    if "\n" in text or len(head) + len(text) > 2 * WIDTH:
        below = _first_lines(text, _RESULT_LINES)
    else:
        head += text
        if call.table:
            below = grid_lines(call.table, _RESULT_LINES)
    lines = [head.rstrip()]
    lines += [f"  │ {line}" for line in below]
    for item in call.shown:
        lines += [f"  ┆ {line}" for line in _shown_lines(item)]
    for run in call.runs:
        lines += [f"  ┆ {line}" for line in _inner_lines(run)]
    changes = [f"{name} {kind}: {details}".rstrip(" :") for name, kind, details in call.changes]
    lines += [f"  Δ {line}" for line in (*changes, *call.remarks)]
    return lines


def _shown_lines(item: Shown) -> list[str]:
    """The lines that a tool printed or displayed; of a picture its type."""
    if item.picture:
        return [f"[{item.picture[0]}] {item.path}".rstrip()]
    if item.is_result:  # its text is that of the call
        return []
    return _first_lines(item.text, _SHOWN_LINES)


def _inner_lines(run: RunView) -> list[str]:
    """The steps of a run that a call has made."""
    steps = [line for line in _steps(run).split("\n") if line.strip()]
    return _first_lines("\n".join(steps), _INNER_LINES) if steps else []


def _first_lines(text: str, most: int) -> list[str]:
    lines = text.split("\n")
    kept = [truncate_line(line, WIDTH) for line in lines[:most]]
    more = len(lines) - len(kept)
    if more:
        # If characters were left out before, the lines cannot be counted.
        cut = next((line for line in lines[most:] if is_omission(line)), None)
        kept.append(cut or f"… {count(more, 'more line')}")
    return kept


def ending_lines(view: RunView) -> str:
    """How the run ended, and the answer last."""
    grid = ""
    if view.table:
        grid = "\n".join(grid_lines(view.table, ANSWER_ROWS))
    doubt = views.doubt(view.ending)
    figures = f"[{count(len(view.figures), 'figure')}]" if view.figures else ""
    unlinked = views.unlinked(view.ending)
    title = views.ending_title(view.ending)
    if isinstance(view.ending, Failed) and view.ending.explained is not None:
        title = "\n".join(views.explained_lines(view.ending.explained))
    parts = (title, _answer_text(view), grid, figures, doubt, unlinked)
    return "\n".join(part for part in parts if part)


def _answer_text(view: RunView) -> str:
    """The answer; nothing for a failed run, because the error below the trace says why."""
    if isinstance(view.ending, Failed):
        return ""
    return views.ending_text(view.ending)


def grid_lines(table: Table, rows: int, *, width: int = WIDTH, cell: int = 24) -> list[str]:
    """A table as aligned lines of at most `width` characters, with at most as many `rows`."""
    written = [row for row in (*table.above, table.head, *table.rows[:rows]) if row]
    cells = [[collapse_whitespace(text, cell) for text in row] for row in written]
    sizes = [max(map(len, column)) for column in zip_longest(*cells, fillvalue="")]
    fits = len(sizes)
    if sum(sizes) + 2 * (fits - 1) > width:
        fits = max(1, sum(end + 3 <= width for end in accumulate(size + 2 for size in sizes)))
    aligns = [">" if table.numeric(column) else "<" for column in range(fits)]
    lines = []
    for texts in cells:
        columns = zip(texts, aligns, sizes, strict=False)
        aligned = [f"{text:{align}{size}}" for text, align, size in columns]
        if fits < len(sizes):
            aligned.append("…")
        lines.append("  ".join(aligned).rstrip())
    more = max(0, len(table.rows) - rows) + table.left_out
    if more:
        lines.append(f"… {count(more, 'more row')}")
    return lines


# ── Markdown lets HTML through: all but a harmless answer is escaped or a block of code ───────────


def escaped(value: str) -> str:
    """A text as one line in which every character is literal in Markdown."""
    return _PUNCTUATION.sub(r"\\\1", collapse_whitespace(value, 2_000))


def fenced(value: str) -> str:
    """A text as a block of code, with a fence longer than any in it."""
    fence = "`" * max(3, 1 + max((len(run) for run in re.findall("`+", value)), default=0))
    return f"{fence}text\n{value}\n{fence}"


def harmless(answer: str) -> str:
    """An answer as the model wrote it if nothing in it could run or load, otherwise fenced."""
    flat = re.sub(r"[\s\x00-\x20]+", " ", unescape(answer))
    script = re.search(r"(?i)(?:java|vb)script:", flat.replace(" ", ""))
    if script or _HAZARDS.search(flat):
        return fenced(answer)
    return answer
