"""The view of a run for a person: steps, calls and results, for text, Markdown, HTML and widgets.

A view is bounded in size whatever a tool printed, and holds none of the user's objects. What
differs in a second run (tokens, seconds) is not compared.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Literal

from archytas_nb.choices import TraceName
from archytas_nb.errors import Explained
from archytas_nb.loop import events as ev
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.trace.safe import Table
from archytas_nb.words import collapse_whitespace, count, edit_in_words, tidy

MARKS: dict[str | None, str] = {
    "done": "✓", "error": "✗", "refused": "⊘", "interrupted": "■", "not_run": "–", None: "…",
    "retry": "↻", "repeat": "↺", "check": "↺", "repair": "✎", "protocol": "⇄", "compaction": "≡",
    "form": "⇄", "summary": "≡", "no reply": "✗", "answer": "✗", "told": "»",
    "plan": "✓",
}  # fmt: skip
"""The marks of a call's status and of a note's kind; other notes have ``!``."""
_TITLES = {
    "compaction": "the conversation was too long, so its beginning was shortened",
    "summary": "a summary by the model replaces the part that is left out",
    "check": "the model was asked to check its answer",
    "repair": "",  # how a reply was read matters only when the step is unfolded
    "protocol": "",
}
_UNTOLD = ("late", "kept")
CODE_ARGUMENTS = {"code", "python", "script", "source"}
"""Names of arguments that are Python code."""
UNUSABLE = "the reply could not be used"
"""The text for the model if a tool returned nothing."""
EARLIER = "from an earlier call"
LINE_VALUE = 80
"""Maximum number of characters of the note next to a line of a program."""


@dataclass(frozen=True, slots=True)
class Shown:
    """An output of a tool: text, an image, or a display that only a front end can draw.

    Attributes:
        kind: Where it was written.
        text: The plain text.
        prose: The text as Markdown or as a formula, if there is one.
        picture: The media type of an image, and its base64; XML where that is SVG.
        name: The kind of a display of the front end, such as ``"Plotly chart"``; empty if the trace
            shows it.
        display: The output for the front end; None if it is too large.
        is_result: Whether it shows the value that the tool returned.
        path: The file in which the image is, for a terminal; empty if there is none.
    """

    kind: Literal["stdout", "stderr", "display"]
    text: str = ""
    prose: str = ""
    picture: tuple[str, str] | None = None
    name: str = ""
    display: ev.Output | None = field(default=None, compare=False, repr=False)
    is_result: bool = False
    path: str = ""

    @property
    def words(self) -> str:
        """Its kind, in a word or two; empty for text."""
        if self.name:
            return self.name
        if self.picture:
            return "image"
        return "text" if self.prose else ""


@dataclass(frozen=True, slots=True)
class CallView:
    """One tool call and its result."""

    name: str
    arguments: tuple[tuple[str, str], ...] = ()  # names and values, as Python text on one line
    texts: tuple[tuple[str, str], ...] = ()  # those of several lines (code, SQL, prose) as they are
    status: ev.Status | None = None  # None while it runs
    text: str = ""  # the result for a person, without what is in `shown`
    read: str = ""  # the result for the model, if it is shown in another form
    shown: tuple[Shown, ...] = ()
    table: Table | None = None  # the data frame that was returned
    changes: tuple[tuple[str, str, str], ...] = ()  # name, kind of change, details
    remarks: tuple[str, ...] = ()  # about the changes, and which tools its code called
    differs: tuple[int, ...] = ()  # where each argument begins to differ from an earlier call's
    decision: str = ""  # the user's, on a call that needs approval
    asked: str = ""  # who answered what it asked, or why nobody was asked about it
    place: str = ""  # where its code ran, if not in the kernel
    line: int = 0  # of the program that makes it
    is_repeated: bool = False  # its result is that of an equal call that the run made before
    edited: tuple[ev.FormArgument, ...] = ()  # the arguments that the user changed before
    runs: tuple[RunView, ...] = ()  # of the agents that it has asked
    is_corrected: bool = False  # it failed, and a later call of the same tool succeeded
    # As the model sent it, until there is an outcome.
    input: ev.Json = field(default=None, repr=False, compare=False)

    @property
    def pictures(self) -> int:
        """Number of pictures."""
        return sum(item.picture is not None for item in self.shown)

    @property
    def code(self) -> str:
        """The text of its only argument, if that is Python code; else empty."""
        if len(self.arguments) != 1 or self.arguments[0][0] not in CODE_ARGUMENTS:
            return ""
        [(name, value)] = self.arguments
        if name in dict(self.texts):
            return dict(self.texts)[name]
        try:
            return str(ast.literal_eval(value))
        except (SyntaxError, ValueError, RecursionError, MemoryError):
            return value

    @property
    def likeness(self) -> tuple[object, ...]:
        """The parts that equal calls share: the trace shows one of them, and their number."""
        return self.name, self.arguments, self.texts, self.status, self.text, self.shown

    @property
    def shown_result(self) -> str:
        """The kinds of display that show the returned value; empty if it is only text."""
        return ", ".join(item.words for item in self.shown if item.is_result)

    @property
    def displayed(self) -> str:
        """The kinds of display in place of a result; empty if it has one or displayed only text."""
        if self.status != "done" or self.text.strip() not in {ev.NO_OUTPUT, ""}:
            return self.shown_result
        words = [item.words for item in self.shown if item.words]
        return ", ".join(dict.fromkeys(words))

    def signature(self, width: int) -> str:
        """The call as one line of Python, with arguments cut if `width` is exceeded."""
        names = [f"{name}=" if name else "" for name, _ in self.arguments]
        left = width - len(self.name) - sum(len(name) + 2 for name in names)
        limit = left
        for done, size in enumerate(sorted(len(value) for _, value in self.arguments)):
            limit = max(16, left // (len(names) - done))  # short ones leave more for others
            left -= min(size, limit)
        differs = self.differs or (0,) * len(names)
        pairs = []
        for name, (_, value), at in zip(names, self.arguments, differs, strict=True):
            pairs.append(name + _cut(value, limit, at))
        return collapse_whitespace(f"{self.name}({', '.join(pairs)})", 3 * width)

    @property
    def decided(self) -> str:
        """The place where a call ran, and who decided about it or answered it."""
        if self.status == "refused":
            return ""
        return ", ".join(filter(None, [self.place, self._decision or self.asked]))

    @property
    def is_approved(self) -> bool:
        """Whether the user approved the call."""
        return bool(self.decision) and self.status not in {"refused", "interrupted"}

    @property
    def _decision(self) -> str:
        changes = (edit_in_words(a.name, a.before or "", a.text) for a in self.edited)
        return self.decision + "".join(f", edited {each}" for each in changes)

    @property
    def prefix(self) -> str:
        """The prefix of the result of a call that is not done, such as ``"error: "``."""
        word = ""
        if self.status not in {None, "done"}:
            word = str(self.status).replace("_", " ")
        if word and not self.result.lower().startswith(word):
            return f"{word}: "
        return ""

    @property
    def result(self) -> str:
        """The text; for a table its title; for images alone, their number."""
        text = self.text.strip("\n")
        if self.status == "refused" and self.decision:
            return self._decision
        if self.status == "done" and self.table:
            title = text.partition("\n")[0]
            if title.startswith(("DataFrame", "Series")):
                return title
            return "table"
        if self.status != "done" or text != ev.NO_OUTPUT or not self.pictures:
            return text
        if self.pictures == 1:
            return "1 image"
        return f"{self.pictures} images"

    def summary(self, limit: int) -> str:
        """The result in one line: its first line, and for an error also the first detail."""
        text = self.result
        printed = [item.text.strip() for item in self.shown if item.text.strip()]
        if text == ev.NO_OUTPUT and printed:
            text = printed[-1].rpartition("\n")[2]
        first, _, rest = text.partition("\n")
        if self.status == "error" and first.endswith(":") and rest:
            second, _, rest = rest.partition("\n")
            first = f"{first} {second.strip(' -')}"
        line = collapse_whitespace(self.prefix + first, limit)
        if line.endswith("…") or not rest:
            return line
        return f"{line} …"


@dataclass(frozen=True, slots=True)
class Note:
    """A notice, ``"no reply"``, or an ``"answer"`` that was not accepted."""

    kind: str
    text: str

    @property
    def mark(self) -> str:
        """One character for its kind."""
        return MARKS.get(self.kind, "!")

    @property
    def title(self) -> str:
        """Its text in one line; empty if it does not interest a person."""
        if self.kind == "late":
            return f"too late for this answer, so the agent did not read it: {self.text}"
        return _TITLES.get(self.kind, self.text)


@dataclass(frozen=True, slots=True)
class ProgramView:
    """The program of a step; its calls are those of the step.

    Attributes:
        text: The part of it that was run.
        written: The part after that, which is not run yet, while it is written line by line.
        by_lines: Whether it is written line by line.
        begin: How many lines were run before the part that runs.
        faults: Its faults, each with its line; line 0 is not in the program.
        was_run: Whether it was run; not if it has faults.
        shown: The values that it printed and showed.
        values: Of parts: what was assigned, by the line where the part begins.
        stopped: Why it was stopped from outside; empty if it was not.
        is_over: Whether it has ended, or the part that was run last.
        figures: The pictures that it drew, as PNG in base64.
        yours: The variables of the notebook whose names it gives to variables of its own.
    """

    text: str = ""
    written: str = ""
    by_lines: bool = False
    begin: int = 0
    faults: tuple[tuple[int, str], ...] = ()
    was_run: bool = True
    shown: tuple[str, ...] = ()
    values: tuple[tuple[int, str], ...] = ()
    stopped: str = ""
    is_over: bool = False
    figures: tuple[str, ...] = ()
    yours: tuple[str, ...] = ()

    @property
    def is_running(self) -> bool:
        """Whether it runs, or waits for a call."""
        return bool(self.text) and not self.is_over

    @property
    def result(self) -> str:
        """How it ended, in a few words; empty if it finished, or has not ended."""
        if not self.was_run:
            return "nothing was run"
        if self.stopped:
            return self.stopped
        if not self.faults:
            return ""
        line = self.faults[0][0]
        if line:
            return f"failed in line {line}"
        return "failed"


def _remarks_on_names(program: ProgramView) -> dict[int, str]:
    """The lines where a program gives a name of the notebook to a variable of its own.

    Without a remark, it looks as if the variable of the notebook was replaced.
    """
    if not program.yours:
        return {}
    try:
        uses = Bindings.of(program.text).uses
    except (SyntaxError, ValueError, RecursionError, MemoryError):  # only a part of it is there
        return {}
    remarks: dict[int, str] = {}
    for name in program.yours:
        lines = [each.line for each in uses if each.name == name and each.act == "bind"]
        for line in lines[:1]:
            remarks[line] = f"{remarks.get(line, '  #')} your {name} is unchanged"
    return remarks


@dataclass(frozen=True, slots=True)
class LineView:
    """A line of a program, with the calls that it made."""

    number: int
    source: str
    calls: tuple[CallView, ...] = ()
    faults: tuple[str, ...] = ()
    value: str = ""  # what it assigned, if it made no calls
    is_written: bool = False  # it is not run yet, and others follow
    is_waiting: bool = False  # for a call

    @property
    def is_kept(self) -> bool:
        """Whether it is shown however long the program is."""
        return bool(self.calls or self.faults)

    @property
    def mark(self) -> str:
        """A character for what is to be seen first; empty if nothing is."""
        if self.faults:
            return "✗"
        if self.is_waiting:
            return "…"
        statuses = [call.status for call in self.calls]
        for status in ("error", "interrupted", "refused"):
            if status in statuses:
                return MARKS[status]
        return ""


@dataclass(frozen=True, slots=True)
class StepView:
    """One reply of the model, its calls and their results."""

    number: int  # 0 for what happened before the model was asked
    thought: str = ""
    reasoning: str = ""  # what a reasoning model sent besides its reply
    calls: tuple[CallView, ...] = ()
    notes: tuple[Note, ...] = ()
    reply: str | None = None  # the reply's text, until it leads to calls or an ending
    rejected: tuple[str, ...] = ()  # replies that could not be used
    program: ProgramView | None = None  # that makes the calls

    @property
    def failed(self) -> bool:
        """Whether an error should be visible without unfolding."""
        if self.program is not None:  # which may handle the error of a call
            errors = bool(self.program.faults)
        else:
            errors = any(call.status == "error" for call in self.calls)
        return errors or bool(self.rejected) or any(note.mark == "✗" for note in self.notes)

    @property
    def empty(self) -> bool:
        """Whether it has nothing to show except the ending of the run."""
        parts = (self.thought, self.reasoning, self.calls, self.notes, self.rejected, self.program)
        return not any(parts)

    @property
    def lines(self) -> list[LineView]:
        """The program by lines, each with its calls; a call of an unknown line is on the last."""
        program = self.program
        if program is None:
            return []
        run = program.text.split("\n") if program.text else []
        written = program.written.split("\n") if program.written else []
        calls: dict[int, list[CallView]] = {}
        for call in self.calls:
            calls.setdefault(min(max(call.line, 1), max(len(run), 1)), []).append(call)
        values = dict(program.values)
        remarks = _remarks_on_names(program)
        lines = []
        for number, source in enumerate([*run, *written], start=1):
            made = tuple(calls.get(number, ()))
            lines.append(
                LineView(
                    number,
                    f"{source}{remarks.get(number, '')}",
                    made,
                    tuple(text for line, text in program.faults if line == number),
                    "" if made else values.get(number, ""),
                    is_written=number > len(run),
                    is_waiting=any(call.status is None for call in made),
                )
            )
        return lines

    @property
    def mark(self) -> str:
        """The mark of the most serious thing that happened in it."""
        statuses = [call.status for call in self.calls]
        if self.program is not None:
            return self._program_mark(self.program)
        worst: tuple[ev.Status | None, ...] = ("error", "interrupted", "refused", "not_run", None)
        status = next((each for each in worst if each in statuses), "done")
        if self.failed and status in {"done", None}:
            status = "error"
        if statuses or self.failed or not self.notes:
            return MARKS[status]
        return self.notes[-1].mark

    def _program_mark(self, program: ProgramView) -> str:
        if self.failed:
            return MARKS["error"]
        if program.stopped:
            return MARKS["interrupted"]
        if any(call.status == "refused" for call in self.calls):
            return MARKS["refused"]
        return MARKS["done" if program.is_over else None]


@dataclass(frozen=True, slots=True)
class RunView:
    """A run, or the beginning of one."""

    question: str
    model: str = ""  # as the server names it, or as it was requested
    protocol: str = ""
    steps: tuple[StepView, ...] = ()
    ending: ev.Ending | None = None  # None while it runs, or if the kernel died
    typed: bool = False  # whether the answer is a value of the requested type, not prose
    table: Table | None = None  # the answer, if it is a data frame
    usage: ev.Usage = field(default=ev.Usage(), compare=False)
    seconds: float = field(default=0.0, compare=False)  # of the model, also in a replay
    server: str = ""  # what serves the model, if known
    api: str = field(default="", compare=False)  # of the model, if it is not the usual one
    continues: str = ""  # what the question continues, if that is not obvious
    told: tuple[str, ...] = ()  # further text for the model with the question
    images: tuple[str, ...] = ()  # sent with the question, PNG or JPEG in base64
    written: str = ""  # the question as the person wrote it, if that is not what the model reads
    is_in_cell: bool = False  # whether the cell itself shows the question
    is_alone: bool = False  # whether there is nothing else in the cell
    trace: TraceName = "folded"  # how its steps are shown
    undone: tuple[str, ...] = ()  # that it was undone, and what that did
    is_side_request: bool = field(
        default=False, compare=False
    )  # whether the next reply is not a step's

    @property
    def figures(self) -> tuple[str, ...]:
        """The pictures that the last program drew, as PNG in base64; they are shown below it."""
        programs = [step.program for step in self.steps if step.program is not None]
        return programs[-1].figures if programs else ()

    @property
    def displays(self) -> Iterator[ev.Output]:
        """The displays of tools that only the front end can draw, in order."""
        for step in self.steps:
            for call in step.calls:
                for run in call.runs:
                    yield from run.displays
                for item in call.shown:
                    if item.display is not None:
                        yield item.display

    @property
    def calls(self) -> list[CallView]:
        """The calls of all steps, in order."""
        return [call for step in self.steps for call in step.calls]

    @property
    def exhibits(self) -> list[tuple[CallView | None, Shown]]:
        """The pictures and formatted texts of the run, each once, below the answer.

        Those of the last program belong to no call.
        """
        found: dict[object, tuple[CallView | None, Shown]] = {}
        for call in self.calls:
            for item in call.shown:
                if item.picture or item.prose:
                    found.setdefault(item.picture or item.prose, (call, item))
        for each in self.figures:
            picture = ("image/png", each)
            found.setdefault(picture, (None, Shown("display", picture=picture)))
        return list(found.values())

    @property
    def changes(self) -> list[tuple[str, str, str]]:
        """The changes of all calls, each name once: name, kind of change, details."""
        found: dict[str, tuple[str, str, str]] = {}
        for name, kind, details in (row for call in self.calls for row in call.changes):
            before = found.pop(name, None)
            if before is None:
                found[name] = (name, kind, details)
                continue
            is_new = before[1] in MADE
            if is_new and kind == "deleted":
                continue
            joined = details if is_new else "; ".join(dict.fromkeys([before[2], details]))
            found[name] = (name, before[1] if is_new else kind, joined)
        return list(found.values())

    @property
    def in_view(self) -> list[tuple[CallView, int]]:
        """The calls that a reader sees without unfolding; equal ones are one, with their number.

        They failed in the end, or the person refused, edited or interrupted them.
        """
        found: dict[object, tuple[CallView, int]] = {}
        for step in self.steps:
            for call in step.calls:
                failed = call.status == "error" and not call.is_corrected
                failed &= step.program is None  # which may have handled it
                if failed or call.edited or call.status in {"refused", "interrupted"}:
                    first, number = found.get(call.likeness, (call, 0))
                    found[call.likeness] = first, number + 1
        return list(found.values())

    @property
    def untold(self) -> list[Note]:
        """The notes that a reader sees without unfolding: of what the answer does not know."""
        return [note for step in self.steps for note in step.notes if note.kind in _UNTOLD]

    def is_corrected(self, step: StepView) -> bool:
        """Whether what failed in a step did not matter in the end.

        A failed call is corrected by a later one of the same tool, any other fault by an answer.
        """
        errors = [call for call in step.calls if call.status == "error"]
        if step.program is None and not all(call.is_corrected for call in errors):
            return False
        return isinstance(self.ending, ev.Answered) or bool(errors and not step.rejected)

    @property
    def grouped_steps(self) -> list[tuple[StepView, int]]:
        """The steps that have something to show; of equal neighbours the first, and how many."""
        groups: list[tuple[StepView, int]] = []
        for step in self.shown_steps:
            if groups and _are_equal(groups[-1][0], step):
                groups[-1] = (groups[-1][0], groups[-1][1] + 1)
            else:
                groups.append((step, 1))
        return groups

    @property
    def shown_steps(self) -> list[StepView]:
        """The steps that have something to show."""
        return [step for step in self.steps if not step.empty]

    @property
    def beside(self) -> str:
        """The question before this one, and the texts sent with it; empty if that is obvious."""
        parts = [collapse_whitespace(self.continues, 60)] if self.continues else []
        parts += [f"with {collapse_whitespace(each, 80)}" for each in self.told]
        return ", ".join(parts)

    @property
    def model_name(self) -> str:
        """The model's name; for a path only the file's name, which is the same on every machine."""
        name = tidy(self.model, 200)
        if name.endswith(".gguf") or name.startswith(("/", "~", ".")) or "\\" in name:
            name = PurePath(name.replace("\\", "/")).name.removesuffix(".gguf")
        return name


MADE = ("created", "new")
"""The kinds of changes by which a variable or a file comes into being."""
MODIFIED = ("reassigned", "changed", "overwrote")
"""The kinds of changes by which one becomes another."""


def _are_equal(step: StepView, other: StepView) -> bool:
    """Whether two steps are no more than the same calls with the same results."""
    for each in (step, other):
        if each.program is not None or each.notes or each.rejected or not each.calls:
            return False
        if any(call.changes or call.runs for call in each.calls):
            return False
    return [call.likeness for call in step.calls] == [call.likeness for call in other.calls]


def _cut(value: str, limit: int, differs: int) -> str:
    """Cut a value to `limit` characters, but not the place where it differs."""
    if len(value) <= limit or differs + 4 < limit:
        return collapse_whitespace(value, limit)
    head = limit // 3
    tail = limit - head - 1
    begin = min(differs - 4, len(value) - tail)
    return f"{value[:head]}…{collapse_whitespace(value[begin:], tail)}"


def ends_of(calls: Sequence[CallView], first: int, last: int) -> Iterator[CallView | int]:
    """The first and the last calls, and those that were approved; a number for those between."""
    left_out = 0
    failed = 0
    for place, call in enumerate(calls):
        is_shown = place < first or place >= len(calls) - last or call.is_approved
        if call.status in ("error", "refused", "interrupted"):
            failed += 1
            is_shown |= failed <= first
        if not is_shown:
            left_out += 1
            continue
        if left_out:
            yield left_out
        left_out = 0
        yield call


def results_of(calls: Sequence[CallView]) -> str:
    """The results of the calls of a line, short; ``3 calls: 38.8, 48.8, 47.5``."""
    width = LINE_VALUE
    if len(calls) > 1:
        width = 24
    texts = []
    for call in ends_of(calls, 3, 1):
        if isinstance(call, int) or call.status is None:
            texts.append("…")
        else:
            texts.append(call.summary(width))
    text = ", ".join(texts)
    if len(calls) > 1:
        text = f"{len(calls):,} calls: {text}"
    if all(call.is_repeated for call in calls):
        text += f" ({EARLIER})"
    return text


# ── how it ended ──────────────────────────────────────────────────────────────────────────────────

_ANSWER_LIMIT = 100_000
_UNLINKED = 8  # numbers of an answer that are named below it
_FAILURES: dict[ev.FailedBy, str] = {
    "model": "✗ The model gave up",
    "endpoint": "✗ The endpoint failed",
    "cassette": "✗ The cassette has no reply for this request",
    "recording": "✗ The reply could not be recorded",
    "setup": "✗ The run could not start",
    "condition": "✗ The answer could not be checked",
}


def ending_title(ending: ev.Ending | None) -> str:
    """How a run ended, in one line; empty if it was answered."""
    match ending:
        case ev.Answered():
            return ""
        case ev.Failed(explained=Explained(title=title)):
            return f"✗ {title}"
        case ev.Failed(by=by):
            return _FAILURES[by]
        case ev.Stopped(cut=True):
            what = "Incomplete" if ending.text else "No"
            return f"■ {what} answer: {tidy(ending.limit, 200)}"
        case ev.Stopped():
            title = f"■ Stopped by the limit {tidy(ending.limit, 200)}"
            return title + _incomplete(ending.text)
        case ev.Interrupted():
            how = "You stopped the run" if ending.stopped else "Interrupted"
            title = f"■ {how} during {tidy(ending.during, 200)}"
            return title + _incomplete(ending.text)
        case None:  # a copy is made while the run goes on; how that ended is not known in it
            return "■ The run had not finished when this was saved"


def explained_lines(found: Explained) -> list[str]:
    """Why an endpoint gave no answer, and what to do, as lines."""
    status = f" (HTTP {found.status})" if found.status else ""
    lines = [f"✗ {found.title}", f"  {found.words}{status}"]
    if found.advice:
        lines.append(f"  {found.advice}")
    if found.command:
        lines.append(f"    {found.command}")
    return lines


def doubt(ending: ev.Ending | None) -> str:
    """How sure an answer is that a small model computed, in one line; empty for any other."""
    if not isinstance(ending, ev.Answered) or ending.repairs is None:
        return ""
    reasons = [tidy(each, 200) for each in ending.doubts]
    if ending.repairs:
        failed = count(ending.repairs, "failed program")
        reasons.insert(0, f"{failed} before it, after which answers are often wrong")
    if not reasons:
        return "(Computed by the first program: check that it does what you asked.)"
    return f"(⚠ Check the program: {'; '.join(reasons)}.)"


def unlinked(ending: ev.Ending | None) -> str:
    """The numbers of an answer that are in no result, in one line; empty if there are none."""
    spans = ending.spans if isinstance(ending, ev.Answered) else ()
    found = dict.fromkeys(each.text.strip() for each in spans if each.origin == "nowhere")
    shown = [*found][:_UNLINKED]
    more = ["…"] if len(found) > len(shown) else []
    return f"{', '.join([*shown, *more])}: in no result" if found else ""


def _incomplete(answer: str) -> str:
    return "; the answer is incomplete" if answer else ""


def ending_text(ending: ev.Ending | None) -> str:
    """The answer in the model's Markdown, or the reason why there is none."""
    match ending:
        case (
            ev.Answered(text=text)
            | ev.Stopped(text=text)
            | ev.Interrupted(text=text)
            | ev.Failed(reason=text)
        ):
            return tidy(text, _ANSWER_LIMIT).strip()
        case _:
            return ""


def answer_markdown(ending: ev.Ending | None) -> str:
    """The answer as Markdown, if there is one; "124." is a number, not an empty list."""
    answer = ""
    if not isinstance(ending, ev.Failed):
        answer = ending_text(ending)
    return re.sub(r"\A(\d+)([.)])\Z", r"\1\\\2", answer)
