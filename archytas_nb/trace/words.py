"""The words and marks that text, Markdown, HTML and widgets share, so that they say the same of a run.

It knows the view of a run and makes plain strings of it, not escaped for anything.
"""

from __future__ import annotations

import re
from pathlib import PurePath

from archytas_nb.react.events import Answered, Ending, Failed, Interrupted, Status, Stopped
from archytas_nb.trace.clean import one_line, tidy
from archytas_nb.trace.steps import CallView, Note, RunView, StepView

MARKS: dict[Status | None, str] = {
    None: "…",
    "done": "✓",
    "error": "✗",
    "refused": "⊘",
    "interrupted": "■",
    "not_run": "–",
}
ARGUMENT_LIMIT = 60
ANSWER_LIMIT = 100_000
UNFINISHED = "The run did not finish"


def signature(call: CallView, limit: int = ARGUMENT_LIMIT) -> str:
    """The call as one line of Python, each argument cut to `limit` characters."""
    parts = (
        f"{name}={one_line(value, limit)}" if name else one_line(value, limit) for name, value in call.arguments
    )
    return f"{call.name}({', '.join(parts)})"


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


def summary(call: CallView, limit: int) -> str:
    """An outcome in one line: all that fits of an error, otherwise the first line."""
    text = call.text if call.status == "error" else call.text.strip("\n").partition("\n")[0]
    line = one_line(outcome_word(call) + text, limit)
    return line if line.endswith("…") or len(text) >= len(call.text.strip("\n")) else f"{line} …"


def note_text(note: Note) -> str:
    """A notice as one line for a person."""
    prefix = "no reply: " if note.kind == "no_reply" else ""
    return prefix + note.text


def step_mark(step: StepView) -> str:
    """One mark for a whole step: its worst one."""
    statuses: tuple[Status, ...] = ("error", "interrupted", "refused", "not_run")
    for status in statuses:
        if any(call.status == status for call in step.calls):
            return MARKS[status]
    if step.failed:
        return MARKS["error"]
    if not step.calls and step.notes:
        return "!"
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


def model_name(view: RunView) -> str:
    """The model's name for a person: of a path only the file's name, which is the same on every machine."""
    name = tidy(view.model, 200)
    if name.endswith(".gguf") or name.startswith(("/", "~", ".")) or "\\" in name:
        name = PurePath(name.replace("\\", "/")).name.removesuffix(".gguf")
    return name
