"""Folds the events of a run into a `RunView`, which text, Markdown, HTML and widgets draw.

A view is bounded in size whatever a tool printed, and holds none of the user's objects. What
differs in a second run (tokens, seconds) is not compared.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Literal, assert_never

from archytas_nb.loop import events as ev
from archytas_nb.tools.render import (
    IMAGES,
    NO_OUTPUT,
    image_text,
    output_text,
    rich_media_type,
    rich_name,
)
from archytas_nb.trace.safe import KEEP, Table, table_of
from archytas_nb.trace.safe import tidy as cleaned
from archytas_nb.words import edit_in_words, omit_middle, one_line, visible, visible_code

MARKS: dict[str | None, str] = {
    "done": "✓", "error": "✗", "refused": "⊘", "interrupted": "■", "not_run": "–", None: "…",
    "retry": "↻", "repeat": "↺", "check": "↺", "repair": "✎", "protocol": "⇄", "compaction": "≡",
    "summary": "≡", "no reply": "✗", "answer": "✗", "told": "»",
}  # fmt: skip
"""The marks of a call's status and of a note's kind; other notes have ``!``."""
_TITLES = {
    "compaction": "the conversation was too long, so its beginning was shortened",
    "summary": "a summary by the model takes the place of what is left out",
    "check": "the model was asked to check its answer",
    "repair": "",  # how a reply was read matters only when the step is unfolded
    "protocol": "",
}
UNUSABLE = "the reply could not be used"
"""What the model reads if a tool returned nothing."""
_ANSWER_LIMIT = 100_000
_NOTES = 3  # of variables that are not watched
_CHANGES = 30  # maximum number of rows with changes of a call
_APPROVED = 100_000  # characters of an approved text that the person was shown, and that are kept
_PROGRAM = 100_000  # characters of a program
_SHOWN_VALUES = 50  # maximum number of values that a program showed
_SHOWN = 4_000  # characters of one
_VALUE = 80  # characters of the value of a line
_COMPARED = 8  # the last calls of a program, with which the next ones are compared
EARLIER = "from an earlier call"
_LINE = 60  # an approved text that is longer stands below the call
_WIDGET = "application/vnd.jupyter.widget-view+json"
_MARKUP = ("text/markdown", "text/latex")


@dataclass(frozen=True, slots=True)
class Shown:
    """What a tool printed or displayed: text, an image, or what only a front end can draw.

    Attributes:
        kind: Where it was written.
        text: As plain text.
        prose: The same as Markdown or as a formula, if there is one.
        picture: The media type of an image, and its base64; XML where that is SVG.
        name: What the front end draws, such as ``"Plotly chart"``; empty if the trace shows it.
        display: What the front end draws; None if it is too large.
        is_result: Whether it shows the value that the tool returned.
    """

    kind: Literal["stdout", "stderr", "display"]
    text: str = ""
    prose: str = ""
    picture: tuple[str, str] | None = None
    name: str = ""
    display: ev.Output | None = field(default=None, compare=False, repr=False)
    is_result: bool = False

    @property
    def words(self) -> str:
        """What it is, in a word or two; empty for text."""
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
    line: int = 0  # of the program that makes it
    is_repeated: bool = False  # its result is that of an equal call that the run made before
    edited: tuple[ev.FormArgument, ...] = ()  # the arguments that the user changed before
    runs: tuple[RunView, ...] = ()  # of the agents that it has asked
    # As the model sent it, until there is an outcome.
    input: ev.Json = field(default=None, repr=False, compare=False)

    @property
    def pictures(self) -> int:
        """Number of pictures."""
        return sum(item.picture is not None for item in self.shown)

    @property
    def shows_more(self) -> bool:
        """Whether it is of interest without unfolding: it drew, or it changed variables."""
        return bool(self.changes) or any(item.picture or item.prose for item in self.shown)

    @property
    def shown_result(self) -> str:
        """What shows the returned value, if it is more than text; else empty."""
        return ", ".join(item.words for item in self.shown if item.is_result)

    @property
    def displayed(self) -> str:
        """What it displayed in place of a result; empty if it has one, or displayed only text."""
        if self.status != "done" or self.text.strip() not in {NO_OUTPUT, ""}:
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
        return one_line(f"{self.name}({', '.join(pairs)})", 3 * width)

    @property
    def decided(self) -> str:
        """The user's decision on a call that was run; a refusal is its result."""
        if self.status == "refused":
            return ""
        return self._decision

    @property
    def is_approved(self) -> bool:
        """Whether the user approved the call."""
        return bool(self.decision) and self.status != "refused"

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
            if title.startswith("DataFrame"):
                return title
            return "table"
        if self.status != "done" or text != NO_OUTPUT or not self.pictures:
            return text
        if self.pictures == 1:
            return "1 image"
        return f"{self.pictures} images"

    def summary(self, limit: int) -> str:
        """The result in one line: its first line, and for an error also the first detail."""
        text = self.result
        printed = [item.text.strip() for item in self.shown if item.text.strip()]
        if text == NO_OUTPUT and printed:
            text = printed[-1].rpartition("\n")[2]
        first, _, rest = text.partition("\n")
        if self.status == "error" and first.endswith(":") and rest:
            second, _, rest = rest.partition("\n")
            first = f"{first} {second.strip(' -')}"
        line = one_line(self.prefix + first, limit)
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
        text: What was run of it.
        written: What follows and is not run yet, while it is written line by line.
        by_lines: Whether it is written line by line.
        begin: How many lines were run before the part that runs.
        faults: What is wrong, with its line; line 0 is none of the program.
        was_run: Whether it was run; not if it has faults.
        shown: What it printed and showed.
        values: Of parts: what was assigned, by the line where the part begins.
        stopped: Why it was stopped from outside; empty if it was not.
        is_over: Whether it has ended, or the part that was run last.
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

    @property
    def is_running(self) -> bool:
        """Whether it runs, or waits for a call."""
        return bool(self.text) and not self.is_over

    @property
    def result(self) -> str:
        """How it ended, in a few words; empty if it came to its end, or has not ended."""
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
        lines = []
        for number, source in enumerate([*run, *written], start=1):
            made = tuple(calls.get(number, ()))
            lines.append(
                LineView(
                    number,
                    source,
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
    continues: str = ""  # what the question continues, if that is not obvious
    told: tuple[str, ...] = ()  # what the model reads beside the question
    is_aside: bool = field(default=False, compare=False)  # whether the next reply is no step's

    @property
    def displays(self) -> Iterator[ev.Output]:
        """What tools displayed that only the front end can draw, in order."""
        for step in self.steps:
            for call in step.calls:
                for run in call.runs:
                    yield from run.displays
                for item in call.shown:
                    if item.display is not None:
                        yield item.display

    @property
    def shown_steps(self) -> list[StepView]:
        """The steps that have something to show."""
        return [step for step in self.steps if not step.empty]

    @property
    def beside(self) -> str:
        """What the question continues, and what is sent with it; empty if that is obvious."""
        parts = [one_line(self.continues, 60)] if self.continues else []
        parts += [f"with {one_line(each, 80)}" for each in self.told]
        return ", ".join(parts)

    @property
    def model_name(self) -> str:
        """The model's name; for a path only the file's name, which is the same on every machine."""
        name = tidy(self.model, 200)
        if name.endswith(".gguf") or name.startswith(("/", "~", ".")) or "\\" in name:
            name = PurePath(name.replace("\\", "/")).name.removesuffix(".gguf")
        return name


def tidy(text: str, limit: int = KEEP) -> str:
    """The text without control characters, see `safe.tidy`; most texts have none."""
    is_clean = len(text) <= limit and text.isprintable()
    if is_clean:
        return text
    return cleaned(text, limit)


def fold(
    question: str, events: Iterable[ev.Event], *, model: str = "", protocol: str = ""
) -> RunView:
    """Make the view of a run; model and protocol are used if no event has them."""
    view = RunView(tidy(question), model, protocol)
    for event in events:
        view = advance(view, event)
    return view


def advance(view: RunView, event: ev.Event) -> RunView:  # noqa: C901, PLR0912 (a case per event)
    """Return the view after one more event."""
    last = view.steps[-1] if view.steps else StepView(0)
    match event:
        case ev.Delta() | ev.Notice(kind="progress" | "limit"):  # the ending repeats the limit
            return view
        case ev.Started():
            model = event.model or view.model
            protocol = event.protocol or view.protocol
            told = tuple(map(tidy, event.told))
            return replace(view, model=model, protocol=protocol, server=event.server, told=told)
        case ev.AskModel() if event.is_aside:  # only its cost is shown
            return replace(view, is_aside=True)
        case ev.AskModel():
            return _asked(view, event)
        case ev.ModelReply():
            if view.steps and not view.is_aside:
                view = _with_last(view, _with_reply(last, event))
            usage = view.usage + replace(event.usage, requests=event.usage.requests or 1)
            seconds = view.seconds + event.seconds
            model = event.model or view.model
            return replace(view, model=model, usage=usage, seconds=seconds, is_aside=False)
        case ev.NoReply() if view.is_aside:
            return replace(view, is_aside=False)
        case ev.NoReply():
            if event.kind == "interrupted" or not event.text:
                return view
            return _noted(view, last, "no reply", event.text)
        case ev.Notice():
            return _noticed(view, last, event)
        case ev.RunCalls() | ev.CallOutcomes() if last.program is not None:
            return view  # the calls that a program waits for, and `ResumeProgram`, are shown
        case ev.RunCalls():
            return _with_last(view, _with_calls(view, last, event))
        case ev.CallOutcomes():
            return _with_last(view, replace(last, calls=with_outcomes(last.calls, event.outcomes)))
        case ev.RunProgram():
            return _with_last(view, _with_program(last, event))
        case ev.ProgramWaits():
            return _with_last(view, _with_waiting(last, event))
        case ev.ResumeProgram():
            return _with_last(view, _resumed(last, event))
        case ev.ProgramFaults() | ev.ProgramEnded():
            return _with_last(view, _with_end(last, event))
        case ev.CheckAnswer():
            return _with_last(view, replace(last, reply=literal(event.answer)))
        case ev.Verdict():
            return _judged(view, last, event)
        case ev.Answered():  # its thought repeats the answer
            return replace(_with_last(view, replace(last, reply=None)), ending=event)
        case ev.Failed() | ev.Stopped() | ev.Interrupted():
            return replace(_with_last(view, _ended(last, event)), ending=event)
    assert_never(event)


def _asked(view: RunView, ask: ev.AskModel) -> RunView:
    """The model is asked, for a new step or once more for the last one."""
    begun = StepView(ask.step, program=ProgramView(by_lines=True) if ask.is_continued else None)
    if not view.steps:
        return replace(view, steps=(begun,))
    last = _reject(view.steps[-1])
    steps = (*view.steps[:-1], last)
    if last.number != ask.step:
        steps = (*steps, begun)
    return replace(view, steps=steps)


def _with_reply(step: StepView, reply: ev.ModelReply) -> StepView:
    """The step with a reply; a line of a program is added to what is written of it."""
    step = replace(step, reasoning=_joined(step.reasoning, reply.reasoning))
    if step.program is None or not step.program.by_lines:
        return replace(step, reply=tidy(reply.text))
    line = source_text(reply.text)
    if not line or line.startswith("```"):
        return step
    written = "\n".join(filter(None, [step.program.written, line]))
    return replace(step, program=replace(step.program, written=written))


def _noticed(view: RunView, last: StepView, notice: ev.Notice) -> RunView:
    """A notice is a note of the last step."""
    match notice.kind:
        case "repeat":  # the reply was used: an earlier result is repeated
            last = replace(last, reply=None)
        case "check":  # the reply is an answer, and may be right
            check = Note("check", f"{tidy(notice.text)}\n{last.reply or ''}".strip())
            return _with_last(view, replace(last, reply=None, notes=(*last.notes, check)))
        case "compaction":  # it is about the reply that did not come
            notes = tuple(note for note in last.notes if note.kind != "no reply")
            last = replace(last, notes=notes)
        case "protocol" if view.protocol == "native":  # the only change there is
            view = replace(view, protocol="react")
    return _noted(view, last, notice.kind, notice.text)


def _with_calls(view: RunView, last: StepView, asked: ev.RunCalls) -> StepView:
    """The last step with calls, each marked where it differs from the one before it."""
    earlier = {call.name: call for step in view.steps for call in step.calls}
    calls = []
    for each in asked.calls:
        call = call_view(each, earlier.get(each.name))
        calls.append(call)
        earlier[each.name] = call
    thought = _joined(last.thought, asked.thought)
    return replace(last, reply=None, thought=thought, calls=(*last.calls, *calls))


def _judged(view: RunView, last: StepView, verdict: ev.Verdict) -> RunView:
    """An answer was accepted, or not."""
    answer = one_line(last.reply or "", 200)
    last = replace(last, reply=None)
    if verdict.fault:
        fault = f"{answer} was not accepted: {tidy(verdict.reason)}"
        return _noted(view, last, "answer", fault)
    is_typed = verdict.value is not None and not isinstance(verdict.value, str)
    return replace(_with_last(view, last), typed=is_typed, table=table_of(verdict.value))


def _with_last(view: RunView, step: StepView) -> RunView:
    if not view.steps and step.empty and step.reply is None:
        return view
    return replace(view, steps=(*view.steps[:-1], step))


def _noted(view: RunView, step: StepView, kind: str, text: str) -> RunView:
    return _with_last(view, replace(step, notes=(*step.notes, Note(kind, tidy(text)))))


def _reject(step: StepView) -> StepView:
    if step.reply is None:
        return step
    return replace(step, reply=None, rejected=(*step.rejected, step.reply or "(empty)"))


def _ended(step: StepView, ending: ev.Failed | ev.Stopped | ev.Interrupted) -> StepView:
    if isinstance(ending, ev.Failed):  # the ending says why no reply came, once is enough
        same = Note("no reply", tidy(ending.reason))
        step = replace(step, notes=tuple(note for note in step.notes if note != same))
    # The ending has the model's last text; an interrupt does not make the reply unusable.
    used = not isinstance(ending, ev.Failed) or ending.by in ("model", "condition")
    if used:
        return replace(step, reply=None)
    return _reject(step)


def _joined(first: str, second: str) -> str:
    second = tidy(second).strip()
    if first and second and first != second:
        return f"{first}\n{second}"
    return first or second


# ── programs ──────────────────────────────────────────────────────────────────────────────────────


def source_text(program: str) -> str:
    """A program with every character visible, and the lines that Python sees."""
    text = visible_code(program[:_PROGRAM])
    if len(program) > _PROGRAM:
        text += "\n…"
    return text


def _with_program(step: StepView, asked: ev.RunProgram) -> StepView:
    """The step with a program that runs, or with the next part of its program."""
    text = source_text(asked.text)
    thought = _joined(step.thought, asked.thought)
    program = step.program
    if program is None or not asked.is_part:
        program = ProgramView(text)
    elif program.text:
        before = program.text.count("\n") + 1
        program = replace(program, text=f"{program.text}\n{text}", begin=before)
    else:
        program = replace(program, text=text)
    program = replace(program, written="", is_over=False)
    return replace(step, reply=None, thought=thought, program=program)


def _with_waiting(step: StepView, waits: ev.ProgramWaits) -> StepView:
    """The step with the calls that its program waits for."""
    begin = step.program.begin if step.program is not None else 0
    earlier = {call.name: call for call in step.calls[-_COMPARED:]}
    calls = []
    for each in waits.calls:
        call = call_view(ev.ToolCall("", each.name, each.input), earlier.get(each.name))
        calls.append(replace(call, line=begin + each.line))
        earlier[each.name] = call
    return replace(step, calls=(*step.calls, *calls))


def _resumed(step: StepView, resumed: ev.ResumeProgram) -> StepView:
    """The step with the outcomes of the calls that its program has waited for."""
    waiting = [call for call in step.calls if call.status is None]
    begin = len(step.calls) - len(waiting)
    calls = []
    for call, outcome in zip(waiting, resumed.outcomes, strict=False):
        seen = _with_outcome(call, outcome)
        calls.append(replace(seen, is_repeated=bool(outcome.repeats)))
    calls += waiting[len(calls) :]
    return replace(step, calls=(*step.calls[:begin], *calls))


def _with_end(step: StepView, end: ev.ProgramFaults | ev.ProgramEnded) -> StepView:
    """The step after its program, or a part of it, has ended."""
    program = replace(step.program or ProgramView(), is_over=True)
    if isinstance(end, ev.ProgramFaults):
        faults = tuple(_fault(program, each) for each in end.faults)
        was_run = program.begin > 0  # other parts were
        return replace(step, program=replace(program, faults=faults, was_run=was_run))
    if end.error is not None:
        program = replace(program, faults=(_fault(program, end.error),))
    if end.interrupted:
        program = replace(program, stopped="interrupted")
    elif end.lost:
        program = replace(program, faults=(*program.faults, (0, tidy(end.lost))))
    shown = (*program.shown, *(tidy(each, _SHOWN) for each in end.shown[:_SHOWN_VALUES]))
    more = len(end.shown) - _SHOWN_VALUES
    if more > 0:
        shown = (*shown, f"… {more:,} more values")
    values = program.values
    if program.by_lines and end.assigned:
        value = ", ".join(end.assigned.values())
        values = (*values, (program.begin + 1, one_line(tidy(value), _VALUE)))
    program = replace(program, shown=shown, values=values)
    reply = step.reply
    if end.has_answer:  # until it is accepted
        reply = literal(end.answer)
    return replace(step, program=program, reply=reply)


def _fault(program: ProgramView, fault: ev.Fault) -> tuple[int, str]:
    """A fault with its line; 0 if that is none of the program, as in an earlier function."""
    line = program.begin + fault.line
    text = tidy(fault.text)
    if program.begin < line <= program.text.count("\n") + 1:
        return line, text
    if fault.source:
        text = f"{one_line(tidy(fault.source), 120)}: {text}"
    return 0, text


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
    width = _VALUE
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


# ── calls ─────────────────────────────────────────────────────────────────────────────────────────


def call_view(call: ev.ToolCall, earlier: CallView | None = None) -> CallView:
    """A call that has no outcome yet, after an `earlier` one of the same tool."""
    values = _by_name(call.input)
    arguments = tuple((name, _flat(value)) for name, value in values.items())
    texts = tuple((name, tidy(value)) for name, value in values.items() if _has_lines(value))
    before: dict[str, str] = {}
    if earlier is not None:
        before = dict(earlier.arguments)
    differs = tuple(_difference(value, before.get(name, "")) for name, value in arguments)
    name = tidy(call.name, 100) or "(no name)"
    return CallView(name, arguments, texts, differs=differs, input=call.input)


def _decided(call: CallView, outcome: ev.CallOutcome) -> CallView:
    """A call as the user decided on it, with their edits; all of an approved text is kept."""
    decision = ""
    if outcome.decision:
        decision = one_line(tidy(outcome.decision), 300)
    call = replace(call, status=outcome.status, decision=decision)
    given = call.input
    if outcome.edit is not None:
        given = outcome.edit.input
        edited = call_view(ev.ToolCall("", call.name, given))
        call = replace(
            call, arguments=edited.arguments, texts=edited.texts, differs=(),
            edited=outcome.edit.arguments,
        )  # fmt: skip
    if call.is_approved:
        texts = {name: each for name, each in _by_name(given).items() if isinstance(each, str)}
        call = replace(call, texts=tuple(_approved_texts(texts)))
    return replace(call, input=None)


def _difference(value: str, earlier: str) -> int:
    """Where a value begins to differ from an earlier one; -1 if it does not."""
    if value == earlier:
        return -1
    for place, (mine, theirs) in enumerate(zip(value, earlier, strict=False)):
        if mine != theirs:
            return place
    return min(len(value) - 1, len(earlier))


def _cut(value: str, limit: int, differs: int) -> str:
    """Cut a value to `limit` characters, but not the place where it differs."""
    if len(value) <= limit or differs + 4 < limit:
        return one_line(value, limit)
    head = limit // 3
    tail = limit - head - 1
    begin = min(differs - 4, len(value) - tail)
    return f"{value[:head]}…{one_line(value[begin:], tail)}"


def _by_name(values: ev.Json) -> dict[str, ev.Json]:
    if isinstance(values, dict) and all(str(name).isidentifier() for name in values):
        return values
    if values is None:
        return {}
    return {"": values}


def _has_lines(value: ev.Json) -> bool:
    return isinstance(value, str) and "\n" in value.strip()


def _flat(value: ev.Json) -> str:
    if _has_lines(value):
        value = " ".join(value[:KEEP].split())
    return literal(value)


def literal(value: ev.Json) -> str:
    """Write a JSON value as Python, but strings in double quotes."""
    if isinstance(value, dict):
        pairs = (f"{literal(key)}: {literal(item)}" for key, item in value.items())
        return tidy(f"{{{', '.join(pairs)}}}")
    if isinstance(value, list):
        return tidy(f"[{', '.join(map(literal, value))}]")
    if isinstance(value, str):
        return tidy(json.dumps(value[: 2 * KEEP], ensure_ascii=False))
    return tidy(repr(value))


def with_outcomes(
    calls: Iterable[CallView], outcomes: Iterable[ev.CallOutcome]
) -> tuple[CallView, ...]:
    """Give each call without an outcome the next one."""
    remaining = iter(outcomes)
    result = []
    for call in calls:
        outcome = None
        if call.status is None:
            outcome = next(remaining, None)
        if outcome is None:
            result.append(call)
        else:
            result.append(_with_outcome(call, outcome))
    return tuple(result)


def _approved_texts(texts: dict[str, str]) -> Iterator[tuple[str, str]]:
    """The texts that do not fit into the line of a call, with every character visible."""
    for name, text in texts.items():
        shown = visible(text)
        if _has_lines(text) or len(shown) > _LINE or shown != text:
            yield name, omit_middle(shown, _APPROVED)


def _with_outcome(call: CallView, outcome: ev.CallOutcome) -> CallView:
    call = _decided(call, outcome)
    text = outcome.for_person or outcome.result
    if outcome.images and text == image_text(outcome.value):  # the image itself is shown
        text = NO_OUTPUT
    if outcome.shared:
        text += f"\n\n{outcome.shared}"
    text = tidy(text)
    is_frame = hasattr(type(outcome.value), "columns")
    table = None
    if is_frame:
        table = table_of(outcome.value)
    known = "" if table else text
    read = ""
    if table or outcome.displays:
        read = tidy(outcome.result + outcome.hint)
    return replace(
        call,
        text=text,
        read=read,
        shown=tuple(_all_shown(outcome, known)),
        table=table,
        runs=tuple(
            fold(each.question, each.events, model=each.model, protocol=each.protocol)
            for each in outcome.runs
        ),
        changes=tuple(_changes(outcome)),
        remarks=tuple(_remarks(outcome)),
    )


def _all_shown(outcome: ev.CallOutcome, text: str) -> list[Shown]:
    """What a call said, printed and displayed, with the pictures of its result; nothing twice."""
    shown = []
    if outcome.said:
        shown.append(Shown("stdout", tidy(outcome.said)))
    for output in outcome.outputs:
        item = _shown(output)
        is_text = not (item.picture or item.name)
        is_in_text = is_text and (not item.text or item.text in text)
        if outcome.printed or not is_in_text:  # what was shown may be the result itself
            shown.append(item)
    shown += [
        replace(_shown(display), text="", is_result=True)
        for display in outcome.displays
        if not any(_draws_the_same(display, each) for each in outcome.outputs)
    ]
    seen = {item.picture[1] for item in shown if item.picture}
    images = [each for each in outcome.images if each not in seen]
    shown += [Shown("display", picture=("image/png", each)) for each in images]
    return shown


def _changes(outcome: ev.CallOutcome) -> list[tuple[str, str, str]]:
    """The rows of the table of changes; the last one counts those that are left out."""
    if outcome.diff is None:
        return []
    rows = [_row(each) for each in outcome.diff.changes[:_CHANGES]]
    more = len(outcome.diff.changes) - _CHANGES
    if more > 0:
        rows.append((f"{more:,} more", "", ""))
    return rows


def _row(change: ev.Change) -> tuple[str, str, str]:
    """A row of the table of changes: the name, the kind of change, and the details."""
    name = change.name
    if change.also:
        name += f" (also {', '.join(change.also)})"
    return one_line(name, 80), change.label, one_line("; ".join(change.words), 300)


def _remarks(outcome: ev.CallOutcome) -> Iterator[str]:
    diff = outcome.diff
    created = {each.name for each in diff.changes} if diff is not None else set()
    if outcome.stored and outcome.stored not in created:
        yield f"kept as the variable {outcome.stored}"
    if outcome.called:
        called = []
        for name, times in Counter(outcome.called).items():
            called.append(f"{name} × {times}" if times > 1 else name)
        yield f"called {', '.join(called)}"
    if diff is None:
        return
    if diff.unseen:
        yield f"not watched: {_first(diff.unseen)}"
    if diff.not_kept:
        yield f"cannot be undone: {_first(diff.not_kept)}"
    if diff:
        yield "%agent_undo restores the variables"


def _first(notes: Sequence[object]) -> str:
    """The first of some notes about variables, and how many there are besides."""
    named = ", ".join(one_line(str(each), 80) for each in notes[:_NOTES])
    more = len(notes) - _NOTES
    if more <= 0:
        return named
    return f"{named} and {more:,} more (%agent_diff lists them)"


def _draws_the_same(output: ev.Output, other: ev.Output) -> bool:
    """Whether two displays are equal in a media type that only a front end can draw."""
    kinds = [kind for kind in output.data if kind.startswith("application/")]
    return any(output.data[kind] == other.data.get(kind) for kind in kinds)


def _shown(output: ev.Output) -> Shown:
    data = output.data
    text = tidy(output_text(output))
    if _WIDGET in data:  # its text is from the moment it was created
        text = "[a widget]"
    if output.left_out:
        return Shown(output.kind, text, name=output.left_out)
    name = rich_name(data, output.metadata)
    if name:
        return Shown(output.kind, text, name=name, display=output)
    for media_type in IMAGES:
        if isinstance(data.get(media_type), str):
            return Shown(output.kind, picture=(media_type, data[media_type]))
    prose = ""
    if output.kind == "display" and rich_media_type(output) != "text/html":
        prose = next((data[each] for each in _MARKUP if isinstance(data.get(each), str)), "")
    return Shown(output.kind, text, tidy(prose))


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────


_FAILURES: dict[ev.FailedBy, str] = {
    "model": "✗ The model gave up",
    "endpoint": "✗ The endpoint failed",
    "cassette": "✗ The cassette has no reply for this request",
    "setup": "✗ The run could not start",
    "condition": "✗ The answer could not be checked",
}


def clock(seconds: float) -> str:
    """A duration in minutes and seconds."""
    minutes, rest = divmod(int(seconds), 60)
    if minutes:
        return f"{minutes} min {rest} s"
    return f"{rest} s"


def ending_title(ending: ev.Ending | None) -> str:
    """How a run ended, in one line; empty if it was answered."""
    match ending:
        case ev.Answered():
            return ""
        case ev.Failed(by=by):
            return _FAILURES[by]
        case ev.Stopped(cut=True):
            what = "Incomplete" if ending.text else "No"
            return f"■ {what} answer: {tidy(ending.limit, 200)}"
        case ev.Stopped():
            title = f"■ Stopped by the limit {tidy(ending.limit, 200)}"
            return title + _incomplete(ending.text)
        case ev.Interrupted():
            title = f"■ Interrupted during {tidy(ending.during, 200)}"
            return title + _incomplete(ending.text)
        case None:
            return "■ The run did not finish"


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
