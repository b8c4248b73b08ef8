"""What goes on at this moment of a run: the reply that is being written, the output of the tool that runs.

None of it is kept when the run is over. It knows the events and how to read half a reply; it neither draws nor
measures time, and what it holds is bounded however much a tool prints.
"""

from __future__ import annotations

from dataclasses import dataclass

from archytas_nb.loop.events import (
    AskModel,
    CallOutcomes,
    CheckAnswer,
    Delta,
    Event,
    ModelReply,
    Notice,
    RunCalls,
    Started,
)
from archytas_nb.loop.partial import read_partial
from archytas_nb.trace.clean import one_line, tidy
from archytas_nb.trace.values import RunView

_STREAMED = 6_000
_OUTPUT, _LINES, _LINE = 20_000, 12, 200
_ANSWERS = frozenset({"", "final_answer", "fail_task"})


@dataclass(frozen=True, slots=True)
class Streamed:
    """What can be read so far.

    Attributes:
        reasoning: What a reasoning model thinks.
        thought: Why the model does what it is about to do.
        tool: The tool that it is about to call.
        given: The input of that call.
        answer: An answer, or prose of which it is not known yet what it will be; Markdown.
        output: The last lines that the running tool has printed.
    """

    reasoning: str = ""
    thought: str = ""
    tool: str = ""
    given: str = ""
    answer: str = ""
    output: str = ""


class Progress:
    """Follows a run, event by event.

    Attributes:
        doing: What the run does now, in a few words.
    """

    def __init__(self) -> None:
        self.doing = "starting"
        self._text: list[str] = []
        self._reasoning: list[str] = []
        self._output: list[str] = []
        self._size = 0  # of the pieces in `_output`
        self._lines = 0  # complete lines that the tool has printed
        self._waiting = (
            ""  # what goes on again when a person has answered; empty while nobody is asked
        )
        self._aside = False  # whether the model is asked about the question, and not to answer it

    def take(self, event: Event) -> None:
        """Take an event in."""
        match event:
            case Delta(kind="person"):
                self._wait(event.text)
            case Delta():
                self._add(event)
            case Started() | AskModel():
                self._forget()
                self._aside = isinstance(event, AskModel) and event.step == 0
                self.doing = "seeing whether a tool fits" if self._aside else "asking the model"
            case ModelReply():
                self.doing = "reading the reply"
            case RunCalls():
                self._forget()
                # Not "running": a person may be asked first whether it may run.
                self.doing = "calling " + one_line(", ".join(call.name for call in event.calls), 80)
            case CallOutcomes():
                self._forget()
                self.doing = "asking the model"
            case CheckAnswer():
                self.doing = "checking the answer"
            case Notice():
                if event.kind in {
                    "retry",
                    "protocol",
                    "progress",
                }:  # the reply so far came to nothing
                    self._forget()
                self.doing = one_line(tidy(event.text), 160)

    def streamed(self) -> Streamed | None:
        """What is being written or printed; None where nothing is."""
        if not (self._text or self._reasoning or self._output):
            return None
        reasoning = tidy("".join(self._reasoning))[-_STREAMED:]
        partial = read_partial("".join(self._text))
        words = tidy(partial.text)[-_STREAMED:]
        output = self._last_lines()
        if partial.tool in _ANSWERS:
            return Streamed(reasoning, tidy(partial.thought), answer=words, output=output)
        return Streamed(reasoning, tidy(partial.thought), partial.tool, words, output=output)

    def status(self, view: RunView, seconds: float) -> str:
        """One line: what is done, the step, the time, the tokens.

        Args:
            view: The run so far.
            seconds: Since its beginning.
        """
        whole = int(seconds)
        clock = f"{whole} s" if whole < 60 else f"{whole // 60} min {whole % 60} s"
        tokens = view.usage.input_tokens + view.usage.output_tokens
        number = view.steps[-1].number if view.steps else 0
        words = [
            self.doing,
            f"step {number}" if number else "",
            clock,
            f"{tokens:,} tokens" if tokens else "",
        ]
        return " · ".join(word for word in words if word)

    def _forget(self) -> None:
        self._text, self._reasoning, self._output = [], [], []
        self._size = self._lines = 0

    def _wait(self, question: str) -> None:
        """A person is asked; with an empty question they have answered."""
        if not question:
            self.doing = self._waiting or self.doing
            self._waiting = ""
        elif not self._waiting:
            self._waiting, self.doing = self.doing, "waiting for your answer"

    def _add(self, piece: Delta) -> None:
        if self._aside:
            return
        if piece.kind == "output":
            self._lines += piece.text.count("\n")
            self._output.append(piece.text[-_OUTPUT:])
            self._size += len(self._output[-1])
            if (
                self._size > 2 * _OUTPUT
            ):  # seldom, so that a print costs the same however many there were
                self._output = ["".join(self._output)[-_OUTPUT:]]
                self._size = len(self._output[0])
        else:
            (self._reasoning if piece.kind == "reasoning" else self._text).append(piece.text)

    def _last_lines(self) -> str:
        text = "".join(self._output)[-_OUTPUT:]
        lines = tidy(text).split("\n")[-_LINES:]
        shown = [line if len(line) <= _LINE else f"{line[: _LINE - 1]}…" for line in lines]
        above = self._lines - len(lines) + (0 if text.endswith("\n") else 1)
        if above > 0:
            shown.insert(0, f"… {above:,} line{'s' if above > 1 else ''} above")
        return "\n".join(shown) if text else ""
