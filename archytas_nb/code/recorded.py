"""The calls and programs of a run, read from its events."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from archytas_nb.choices import AskBefore
from archytas_nb.loop import events as ev
from archytas_nb.namespace import Namespace
from archytas_nb.tools.tool import Tool
from archytas_nb.undo.reads import ReadTracker
from archytas_nb.undo.transaction import VariableWatch


@dataclass(frozen=True, slots=True)
class Recorded:
    """A run, as its code is derived from it.

    Attributes:
        question: The question.
        events: The events, in order.
        tools: The tools of the run, by name.
        namespace: The variables of the user.
        ending: How it ended; None during the run.
        value: The value of the answer, if a type was required.
        is_typed: Whether a type was required.
        watch: Its changes; None if nothing was watched.
        reads: The reads and results of its calls; None if they were not recorded.
        is_watched: Whether changes of its calls were watched.
        asks_before: The acts before which its code asks a person.
        folders: The folders in which it may write, besides the working folder.
    """

    question: str
    events: Sequence[ev.Event]
    tools: Mapping[str, Tool]
    namespace: Namespace
    ending: ev.Ending | None = None
    value: Any = None
    is_typed: bool = False
    watch: VariableWatch | None = None
    reads: ReadTracker | None = None
    is_watched: bool = True
    asks_before: Collection[AskBefore] = ()
    folders: Collection[Path] = ()

    @property
    def answer(self) -> str:
        """The answer as text; empty if there is none."""
        if isinstance(self.ending, ev.Answered):
            return self.ending.text
        return ""

    @property
    def out(self) -> str:
        """The variable that the answer was assigned to; empty if it was not."""
        if self.watch is None:
            return ""
        changes = [change for diff in self.watch.assigned for change in diff.changes]
        return changes[-1].name if changes else ""


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A call with its outcome; the input is the one that ran, if a person edited it."""

    call: ev.ToolCall
    outcome: ev.CallOutcome
    line: int = 0  # of its program, from 1
    objects: Mapping[str, Any] = field(default_factory=dict)  # arguments that JSON cannot represent
    values: Mapping[str, Any] = field(default_factory=dict)  # arguments as a program has them

    @property
    def is_done(self) -> bool:
        """Whether it returned a value in this run."""
        return self.outcome.status == "done"

    @property
    def has_failed_late(self) -> bool:
        """Whether it raised after it had changed variables."""
        return self.outcome.status == "error" and bool(self.outcome.diff)


@dataclass(slots=True)
class RecordedProgram:
    """A program, or the part of one, that was run.

    Attributes:
        text: The text of the model.
        calls: Its calls, in order; also those whose outcome was taken from an earlier program.
        ended: How it ended; None if it did not finish.
    """

    text: str
    calls: list[RecordedCall] = field(default_factory=list)
    ended: ev.ProgramEnded | None = None

    @property
    def has_failed(self) -> bool:
        """Whether it did not finish."""
        ended = self.ended
        if self.has_answer:
            return False
        return ended is None or ended.error is not None or ended.interrupted or bool(ended.lost)

    @property
    def has_answer(self) -> bool:
        """Whether it gave the answer."""
        return self.ended is not None and self.ended.has_answer


@dataclass(slots=True)
class Reply:
    """One reply of the model: calls, or programs that make them."""

    thought: str = ""
    calls: list[RecordedCall] = field(default_factory=list)
    programs: list[RecordedProgram] = field(default_factory=list)


def replies(events: Sequence[ev.Event]) -> list[Reply]:  # noqa: C901 - one case for each event
    """The acts of the replies of a run, in order; programs with faults did nothing."""
    found: list[Reply] = []
    calls: tuple[ev.ToolCall, ...] = ()
    waiting: tuple[ev.ProgramCall, ...] = ()
    for event in events:
        match event:
            case ev.AskModel(step=step) if step:
                found.append(Reply())
            case ev.RunProgram():
                found[-1].thought = event.thought or found[-1].thought
                found[-1].programs.append(RecordedProgram(event.text))
            case ev.ProgramFaults():
                found[-1].programs.pop()
            case ev.ProgramWaits():
                waiting = event.calls
            case ev.ResumeProgram():
                pairs = zip(waiting, event.outcomes, strict=True)
                found[-1].programs[-1].calls += [_of_program(*pair) for pair in pairs]
            case ev.ProgramEnded():
                program = found[-1].programs[-1]
                program.text = event.as_run(program.text)
                program.ended = event
            case ev.RunCalls(program=""):
                found[-1].thought = event.thought
                calls = event.calls
            # Calls of a program: `ResumeProgram` has them with their outcomes.
            case ev.RunCalls():
                calls = ()
            case ev.CallOutcomes() if calls:
                pairs_of_calls = zip(calls, event.outcomes, strict=True)
                found[-1].calls += [_made(*pair) for pair in pairs_of_calls]
    return [each for each in found if each.calls or each.programs]


def _made(call: ev.ToolCall, outcome: ev.CallOutcome, line: int = 0) -> RecordedCall:
    if outcome.edit is not None:
        call = replace(call, input=outcome.edit.input)
    return RecordedCall(call, outcome, line)


def _of_program(call: ev.ProgramCall, outcome: ev.CallOutcome) -> RecordedCall:
    made = _made(ev.ToolCall(outcome.call_id, call.name, call.input), outcome, call.line)
    edited = outcome.edit.arguments if outcome.edit is not None else ()
    changed = {each.name for each in edited}
    objects = {name: value for name, value in call.objects.items() if name not in changed}
    values = {name: value for name, value in call.values.items() if name not in changed}
    return replace(made, objects=objects, values=values)
