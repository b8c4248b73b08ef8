"""The words and marks that text, Markdown, HTML and widgets share, so that they say the same of a run.

It knows the view of a run and makes plain strings of it, not escaped for anything.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from archytas_nb.loop.events import Answered, Ending, Failed, Interrupted, Status, Stopped
from archytas_nb.trace.clean import one_line, tidy
from archytas_nb.trace.values import CallView, Note, NoteKind, RunView, StepView

MARKS: dict[Status | None, str] = {
    None: "…",
    "done": "✓",
    "error": "✗",
    "refused": "⊘",
    "interrupted": "■",
    "not_run": "–",
}
NOTE_MARKS: dict[NoteKind, str] = {
    "no_reply": "✗",
    "verdict": "✗",
    "retry": "↻",
    "repeat": "↺",
    "repair": "✎",
    "protocol": "⇄",
    "compaction": "≡",
}
EDITED = "✎"
_NOTE_WORDS: dict[NoteKind, str] = {"no_reply": "no reply", "verdict": "answer"}
NOTHING = "(no output)"
"""What the model reads of a tool that returned nothing."""
ARGUMENT_LIMIT = 60
ANSWER_LIMIT = 100_000
UNFINISHED = "The run did not finish"


def signature(call: CallView, limit: int = ARGUMENT_LIMIT) -> str:
    """The call as one line of Python, each argument cut to `limit` characters."""
    parts = (
        f"{name}={one_line(value, limit)}" if name else one_line(value, limit)
        for name, value in call.arguments
    )
    return f"{call.name}({', '.join(parts)})"


def edited_text(call: CallView) -> str:
    """What a person put in place of the model's input; empty where it was left alone."""
    return f"the user changed the input: {call.edited}" if call.edited else ""


def outcome_word(call: CallView) -> str:
    """What stands before an outcome's text where it is not simply the result."""
    words: dict[Status | None, str] = {
        "error": "error: ",
        "refused": "refused: ",
        "interrupted": "interrupted: ",
        "not_run": "not run: ",
    }
    word = words.get(call.status, "")
    # An outcome that begins with its own word ("Interrupted by the user …") needs no second one.
    return "" if call.text.lower().startswith(word[:-2]) else word


def result_text(call: CallView) -> str:
    """What came of a call in its own words; of a table the title; of nothing but pictures, that it drew."""
    text = call.text.strip("\n")
    if call.status == "done" and call.table:  # the table stands for the text but its title
        title = text.partition("\n")[0]
        return title if title.startswith("DataFrame") else "a table"
    if call.status != "done" or text != NOTHING or not call.pictures:
        return text
    return "a picture" if call.pictures == 1 else f"{call.pictures} pictures"


def summary(call: CallView, limit: int) -> str:
    """An outcome in one line: its first line, and of a list of faults the first one."""
    text = result_text(call)
    if text == NOTHING and (
        printed := [item.text.strip() for item in call.shown if item.text.strip()]
    ):
        text = printed[-1].rpartition("\n")[2]
    first, _, rest = text.partition("\n")
    if call.status == "error" and first.endswith(":") and rest:
        second, _, rest = rest.partition("\n")
        first = f"{first} {second.strip(' -')}"
    line = one_line(outcome_word(call) + first, limit)
    return line if line.endswith("…") or not rest else f"{line} …"


def note_mark(note: Note) -> str:
    """The mark of a note."""
    return NOTE_MARKS.get(note.kind, "!")


def note_word(note: Note) -> str:
    """What sort of note it is."""
    return _NOTE_WORDS.get(note.kind, note.kind)


def note_text(note: Note) -> str:
    """A note as one line for a person, after its mark."""
    return f"{note_word(note)}: {note.text}"


def note_title(note: Note) -> str:
    """What stands for a note in a line above it."""
    titles: dict[NoteKind, str] = {
        "no_reply": "no reply",
        "verdict": "answer that was not accepted",
    }
    return titles.get(note.kind) or note_text(note)


def is_fault(note: Note) -> bool:
    """Whether a note tells of a failure, not of how one was got over."""
    return note.kind in {"no_reply", "verdict"}


def step_mark(step: StepView) -> str:
    """One mark for a whole step: its worst one."""
    statuses: tuple[Status, ...] = ("error", "interrupted", "refused", "not_run")
    for status in statuses:
        if any(call.status == status for call in step.calls):
            return MARKS[status]
    if step.failed:
        return MARKS["error"]
    if not step.calls and step.notes:
        return note_mark(step.notes[-1])
    return MARKS[None] if any(call.status is None for call in step.calls) else MARKS["done"]


def rejected_title(reply: str) -> str:
    """The line above a reply of which nothing could be made."""
    return "empty reply" if reply == "(empty)" else "reply that could not be used"


def ending_title(ending: Ending | None) -> str:
    """One line that says how a run ended; empty where it was answered."""
    match ending:
        case Answered():
            return ""
        case Failed(by="model"):
            return "✗ The model gave up"
        case Failed():
            return "✗ The endpoint failed"
        case Stopped(cut=True):
            return f"■ {'Incomplete' if ending.text else 'No'} answer: {tidy(ending.limit, 200)}"
        case Stopped():
            return f"■ Stopped by the limit {tidy(ending.limit, 200)}" + (
                "; incomplete answer" if ending.text else ""
            )
        case Interrupted():
            return f"■ Interrupted during {tidy(ending.during, 200)}"
        case None:
            return f"■ {UNFINISHED}"


def ending_text(ending: Ending | None) -> str:
    """What the model, or the endpoint, had to say at the end; in the model's Markdown where it is an answer."""
    match ending:
        case Answered() | Stopped():
            return tidy(ending.text, ANSWER_LIMIT).strip()
        case Failed():
            return tidy(ending.reason, ANSWER_LIMIT).strip()
        case _:
            return ""


def answer_markdown(ending: Ending | None) -> str:
    """The answer's text as Markdown; a number with a full stop is a number there, not an empty list."""
    return re.sub(r"\A(\d+)([.)])\Z", r"\1\\\2", ending_text(ending))


def is_answer(ending: Ending | None) -> bool:
    """Whether the ending's text is an answer, which may be Markdown, and not an error's message."""
    return isinstance(ending, (Answered, Stopped))


def who_answers(view: RunView) -> str:
    """The model, how it is spoken to, and who serves it where nobody named that."""
    return " · ".join(
        part for part in (model_name(view), view.protocol, tidy(view.server, 200)) if part
    )


def model_name(view: RunView) -> str:
    """The model's name for a person: of a path only the file's name, which is the same on every machine."""
    name = tidy(view.model, 200)
    if name.endswith(".gguf") or name.startswith(("/", "~", ".")) or "\\" in name:
        name = PurePath(name.replace("\\", "/")).name.removesuffix(".gguf")
    return name
