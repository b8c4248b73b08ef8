"""The current work of a run: its status line, and the text that is being written.

Nothing is kept here: a reply or a call is in the view as soon as it is complete.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import dataclass, replace

from archytas_nb.loop import events as ev
from archytas_nb.loop.reading.reply import read_partial
from archytas_nb.trace.view import RunView
from archytas_nb.words import (
    clock,
    collapse_whitespace,
    count,
    counted,
    tidy,
    truncate_line,
    visible_code,
)

_STREAMED = 6_000
_OUTPUT = 4_000
_LINES = 12
_LINE = 200
_SILENT = 10.0
"""Seconds without a piece of a reply, after which a person is told so."""
_WRITES = ("writing", "thinking")
_DOING = {
    ev.Started: "waiting for the model",
    ev.AskModel: "waiting for the model",
    ev.ModelReply: "reading the reply",
    ev.CallOutcomes: "waiting for the model",
    ev.CheckAnswer: "checking the answer",
    ev.RunProgram: "running the program",
    ev.ResumeProgram: "running the program",
    ev.ProgramFaults: "waiting for the model",
    ev.ProgramEnded: "waiting for the model",
}


@dataclass(frozen=True, slots=True)
class Streamed:
    """The text being written: reasoning, a thought, a call, a program, an answer, output."""

    reasoning: str = ""
    thought: str = ""
    tool: str = ""
    arguments: str = ""
    program: str = ""  # or the next line of one
    answer: str = ""
    output: str = ""


class Activity:
    """The current work of a run; bounded in size, however much a tool prints.

    Args:
        now: A monotonic clock, in seconds.

    Attributes:
        form: The call that waits for approval, or was just decided, if any.
        is_asking: Whether the user is asked something.
    """

    def __init__(self, now: Callable[[], float] = time.monotonic) -> None:
        self.form: ev.ApprovalForm | None = None
        self._now = now
        self._started = now()
        self._since = self._started  # when what it does now has begun
        self._doing = "starting"
        self._calls: tuple[ev.ToolCall, ...] = ()
        self._outcomes: dict[str, ev.CallOutcome] = {}  # of those that have ended, by id
        self._wait = 0.0  # seconds from `_since` until a retry; 0 for none
        self.is_asking = False
        self._writes_programs = False
        self._writes_line = False  # of a program that was begun
        self._aside = False  # whether the model is asked which tools fit, not for an answer
        self._forget()

    def _forget(self) -> None:
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._heard = self._now()  # when the last piece of a reply came
        self._output = ""  # the end of what was printed
        self._progress = ""  # of the running call
        self._lines = 0  # how many lines were printed

    def take(self, event: ev.Event) -> None:
        """Take the next event."""
        if not isinstance(event, ev.Delta):
            self._begin(event)
        elif event.kind == "person":  # with an empty text, the person has answered
            self.is_asking = bool(event.text)
            self._since = self._now()
            if event.text or event.form:
                self.form = event.form
        elif event.kind == "status":
            self._doing = collapse_whitespace(tidy(event.text), 160)
            self._wait = 0
        elif event.kind == "progress":
            self._progress = collapse_whitespace(tidy(event.text), 60)
        elif event.outcome is not None:
            self._outcomes[event.outcome.call_id] = event.outcome
        elif event.kind == "output":
            self._output = (self._output + event.text)[-_OUTPUT:]
            self._lines += event.text.count("\n")
        elif not self._aside:
            self._write(event)

    def _write(self, event: ev.Delta) -> None:
        self._heard = self._now()
        if event.kind == "text":
            self._text.append(event.text)
            self._doing = "writing"
        else:
            self._reasoning.append(event.text)
            self._doing = "thinking"
        self._wait = 0

    def _begin(self, event: ev.Event) -> None:
        begins = isinstance(
            event, ev.Started | ev.AskModel | ev.RunCalls | ev.CallOutcomes | ev.RunProgram
        )
        begins |= isinstance(event, ev.ModelReply) and self._writes_line
        if begins or getattr(event, "kind", "") in {"retry", "protocol", "progress", "model"}:
            self._forget()  # it is in the view now, or is no longer valid
        self._doing = _DOING.get(type(event), self._doing)
        self._calls = ()
        self._outcomes = {}
        self._wait = 0
        self._since = self._now()
        self.form = None
        self.is_asking = False
        if isinstance(event, ev.Started):
            self._writes_programs = event.protocol == "program"
        elif isinstance(event, ev.AskModel):
            self._aside = event.is_side_request
            self._writes_line = event.is_continued
            if self._aside:
                self._doing = event.about or "checking whether a tool fits"
        elif isinstance(event, ev.RunCalls):
            self._calls = event.calls
        elif isinstance(event, ev.Notice):
            self._doing = collapse_whitespace(tidy(event.text), 160)
            self._wait = event.seconds

    @property
    def outcomes(self) -> list[ev.CallOutcome | None]:
        """Of each call that was begun last its outcome; None while it runs."""
        return [self._outcomes.get(call.id) for call in self._calls]

    @property
    def phase(self) -> str:
        """The current work of the run."""
        if self.is_asking:
            return "waiting for you"
        if self._calls:
            running = [call.name for call in self._calls if call.id not in self._outcomes]
            return f"running {collapse_whitespace(counted(running), 80)}"
        if self._wait and self._left <= 0:
            return "trying again"
        silent = self._now() - self._heard
        if (self._text or self._reasoning) and self._doing in _WRITES and silent >= _SILENT:
            return f"{self._doing}, no data for {clock(silent)}"
        return self._doing

    @property
    def _left(self) -> float:
        """The seconds until a retry."""
        return self._wait - (self._now() - self._since)

    def streamed(self) -> Streamed | None:
        """The text that the model writes or a tool prints now, if any."""
        if not (self._text or self._reasoning or self._output):
            return None
        if self._writes_programs:
            return self._streamed_program("".join(self._text))
        partial = read_partial("".join(self._text))
        text = tidy(partial.text)[-_STREAMED:]
        streamed = Streamed(
            reasoning=tidy("".join(self._reasoning))[-_STREAMED:],
            thought=tidy(partial.thought),
            output=self._printed(),
        )
        is_call = partial.tool not in {"", ev.ANSWER, ev.FAIL}
        if is_call:
            return replace(streamed, tool=partial.tool, arguments=text)
        return replace(streamed, answer=text)

    def _streamed_program(self, text: str) -> Streamed:
        """The program that is being written, and the thought before it."""
        streamed = Streamed(
            reasoning=tidy("".join(self._reasoning))[-_STREAMED:], output=self._printed()
        )
        if self._writes_line:
            return replace(streamed, program=visible_code(text[-_STREAMED:]))
        thought, fence, program = text.partition("```")
        if not fence:
            return replace(streamed, answer=tidy(text)[-_STREAMED:])
        _, _, program = program.partition("\n")
        program = program.partition("```")[0]
        return replace(streamed, thought=tidy(thought), program=visible_code(program[-_STREAMED:]))

    def _printed(self) -> str:
        lines = tidy(self._output).split("\n")[-_LINES:]
        shown = [truncate_line(line, _LINE) for line in lines]
        above = self._lines - len(lines) + (not self._output.endswith("\n"))
        if above > 0 and self._output:
            shown.insert(0, f"… {count(above, 'line')} above")
        return "\n".join(shown)

    def status(self, view: RunView) -> str:
        """One line: what the run does now, and what `passed` says."""
        return self.phase + self.passed(view)

    def passed(self, view: RunView) -> str:
        """The facts after the phase: the time of a call or before a retry, step, time, tokens."""
        text = ""
        if self._left > 0:
            text = f" · {clock(math.ceil(self._left))} left"
        seconds = self._now() - self._since
        if self._calls and not self.is_asking:
            text = f" {self._progress}" if self._progress else ""
            if seconds >= 1:
                text += f" for {clock(seconds)}"
        if view.steps and view.steps[-1].number:
            text += f" · step {view.steps[-1].number}"
        text += f" · {clock(self._now() - self._started)}"
        if view.seconds >= 1:
            text += f", model {clock(view.seconds)}"
        tokens = view.usage.input_tokens + view.usage.output_tokens
        if tokens:
            text += f" · {tokens:,} tokens"
        return text
