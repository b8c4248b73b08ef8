"""A program that is written line by line: each statement runs before the next one is written.

The reply of the model is continued for each line, with what was run and its values as comments, so
that only the new line is processed. The first error appears after its line, and the model calls
again. A second one, or a line with a fault, ends this; the model then writes whole programs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from archytas_nb.loop.events import Fault, ModelReply, ProgramEnded, ProgramFaults, Requests
from archytas_nb.loop.program import ProgramRunner
from archytas_nb.small.grammar import ProgramGrammar, compared_in
from archytas_nb.syntax.bindings import Bindings

MAX_LINES = 26
"""Maximum number of lines that are asked for."""

STOPS = ("\n", "  #")
"""Where a line ends; two spaces and # begin the comment with its value, which is ours."""

MAX_ERRORS = 2
"""Maximum number of errors that are read after their lines, as in an interactive session."""

MAX_LINE_TOKENS = 500
REMARK = "# What the error says to change:"
"""The beginning of a comment that the model completes after an error."""

_MAX_VALUE = 200
_MAX_VALUES = 4

# ── the rhythm ────────────────────────────────────────────────────────────────────────────────────

AskLine = Callable[[str, str], Requests[ModelReply]]
"""Asks for the next line, given the beginning of the reply and the grammar of the line."""


@dataclass(slots=True)
class LineByLine:
    """One program that is written line by line.

    Attributes:
        runner: Runs the lines.
        ask: Asks the model for a line.
        grammar: The grammar of its lines.
        needs_call: Whether a tool fits the question: then one is called first.
        knows: Asks whether the model knows the answer, if it begins with anything else.
        invents: Whether a line has numbers that the model was not told.
        end: How the last part that was run ended; None if none was.
        fault: Why whole programs are better; empty while lines are.
        shown: The beginning of the reply: what was run, with its values.
        errors: The errors of the lines.
    """

    runner: ProgramRunner
    ask: AskLine
    grammar: ProgramGrammar
    needs_call: bool
    knows: Callable[[], Requests[bool]]
    invents: Callable[[str], bool]
    end: ProgramEnded | None = None
    fault: str = ""
    shown: str = "```python\n"
    errors: list[str] = field(default_factory=list)
    _bound: dict[str, None] = field(default_factory=dict)  # the variables, in order
    _results: set[str] = field(default_factory=set)  # those that rest on calls
    _block: list[str] = field(default_factory=list)  # the lines of a statement that goes on
    _last: str = ""  # the statement that was run last
    _written: str = ""  # the same, as the model wrote it
    _error: str = ""  # of that statement
    _values: dict[str, str] = field(default_factory=dict)  # texts of the variables' values
    _origins: dict[str, str] = field(default_factory=dict)  # the lines that assigned them
    _must_answer: bool = False
    _is_known: bool | None = None  # whether the answer is known without a call, if it was asked
    _has_invented: bool = False
    _must_retry: bool = False

    def run(self) -> Requests[None]:
        """Ask for lines and run them, until the program answers, fails or is interrupted."""
        for _ in range(MAX_LINES):
            in_block = Bindings.of_begun(self._block).bound_in_order
            names = [*dict.fromkeys((*self._bound, *in_block))]
            results = [each for each in names if each in self._results]
            grammar = self.grammar.line(names, results)
            if self._must_retry:
                yield from self._remark()
                grammar = self.grammar.retry(self._last, names)
            elif self._lacks_call and not self._must_answer:
                grammar = self._first_call(names)
            elif self._must_answer:
                grammar = self.grammar.answer(names, results)
            begun = "".join(f"{line}\n" for line in self._block)
            reply = yield from self.ask(self.shown + begun, grammar)
            line = self.grammar.with_results_renamed(reply.text.rstrip())
            yield from self._take(line)
            if self.fault or self.is_over:
                return
        self.fault = f"no answer after {MAX_LINES} lines"

    @property
    def _lacks_call(self) -> bool:
        """Whether a tool is still to be called before there is an answer."""
        return self.needs_call and not self.runner.calls

    def _first_call(self, names: Sequence[str]) -> str:
        """The grammar of a line while a tool is to be called, or the answer may be known."""
        may_answer = self._is_known is not False
        may_assign = may_answer and not self._has_invented
        return self.grammar.first_call(names, may_answer=may_answer, may_assign=may_assign)

    @property
    def is_over(self) -> bool:
        """Whether the program or a tool has ended the run, or it was interrupted."""
        end = self.end
        if end is None:
            return False
        if any(each.finish is not None for each in self.runner.outcomes):
            return True
        return end.has_answer or end.gave_up is not None or end.interrupted

    def _take(self, line: str) -> Requests[None]:
        """Take one line: run it, or the block that it ends, or keep it for its block."""
        if self._lacks_call and not self.grammar.is_call(line):
            if not line.startswith("answer(") and self.invents(line):
                self._has_invented = True
                return
            if self._is_known is None:
                self._is_known = yield from self.knows()
            if not self._is_known and not line.startswith("give_up("):
                return
        is_end = not line or line.startswith("```")
        continues = line[:1].isspace() or re.match(r"(else|elif|except|finally)\b", line)
        if self._block and continues and not is_end:
            self._block.append(line)
            return
        if self._block:
            # The line after the block is asked for again when the block has run.
            statement = "\n".join(self._block)
            self._block = []
            yield from self._run(statement)
        elif is_end:
            self._must_answer = True
        elif line.endswith(":"):
            self._block = [line]
        else:
            yield from self._run(line.strip())

    def _run(self, statement: str) -> Requests[None]:
        written = statement
        statement = self.grammar.with_result_named(statement, self._bound)
        if {written, statement} & {self._written, self._last} and not self._must_retry:
            self._must_answer = True  # a model that repeats itself does not mean it
            self.fault = self._error
            return
        self._written = written
        self._last = statement
        calls_before = len(self.runner.calls)
        end = yield from self.runner.run(statement, is_part=True)
        if isinstance(end, ProgramFaults):
            fault = end.faults[0]
            self._take_error(statement, fault, f"`{fault.source}`: {fault.text}")
            self._must_retry = True
            if not self.grammar.is_call(statement):  # half of a line, or one that computes
                self.fault = self._error
            return
        if end.lost:
            self.fault = end.lost
            return
        self.end = end
        self._must_answer = False
        self._must_retry = False
        self._bound |= dict.fromkeys(end.assigned)
        self._values |= end.assigned_texts
        self._origins |= dict.fromkeys(end.assigned, statement)
        if self.runner.calls:
            found = {name for name, each in end.assigned.items() if each.kind != "none"}
            if statement != written:
                found = set()  # its answer need not have what the model gave no name
            self._results = (self._results - end.assigned.keys()) | found
        if end.error is not None:
            said = f"`{end.error.source}` raised {end.error.text}"
            self._take_error(statement, end.error, said)
            if end.stopped:
                self.fault = said
            # A small model that may give up after a call has failed does so.
            outcomes = self.runner.outcomes
            self._must_retry = bool(outcomes) and outcomes[-1].status == "error"
            return
        self._error = ""
        results = [made.result for made in self.runner.made[calls_before:]]
        self._show(statement, self._with_origin(statement, _value(statement, end, results)))

    def _take_error(self, statement: str, error: Fault, said: str) -> None:
        """Show the first errors after their lines; after them, whole programs are better."""
        self._error = said
        self.errors.append(error.text)
        if len(self.errors) > MAX_ERRORS:
            self.fault = said
            return
        self._show(statement, _shortened(error.text))

    def _with_origin(self, statement: str, value: str) -> str:
        """The value of ``min(…)`` or ``max(…)``, and the line of the variable that it is.

        A small model that compares numbers does not look up again whose the smallest one was.
        """
        for name in compared_in(statement):
            if self._values.get(name) == value and "\n" not in self._origins[name]:
                return f"{value}: {self._origins[name]}"
        return value

    def _remark(self) -> Requests[None]:
        """Let the model say how it calls again: without a plan it would make the same call."""
        begun = f"{self.shown}{REMARK}"
        reply = yield from self.ask(begun, self.grammar.remark())
        self.shown = f"{begun}{reply.text.rstrip()}\n"

    def _show(self, statement: str, value: str) -> None:
        """Add the executed code, and its value after it, to the beginning of the reply."""
        if not value:
            self.shown += f"{statement}\n"
        elif "\n" in statement:
            self.shown += f"{statement}\n# {value}\n"
        else:
            self.shown += f"{statement}  # {value}\n"


def _value(statement: str, end: ProgramEnded, results: Sequence[str]) -> str:
    """The values of an executed statement that the model sees; empty if there are none.

    Args:
        statement: The statement.
        end: How it ended.
        results: The results of its calls.
    """
    values = list(end.assigned_texts.values())
    if "\n" not in statement and values:
        return _shortened(values[0] if len(values) == 1 else f"({', '.join(values)})")
    if "\n" not in statement and end.shown:
        return _shortened(", ".join(end.shown[-_MAX_VALUES:]))
    return _shortened(", ".join([*results, *end.shown][-_MAX_VALUES:]))


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    if len(line) > _MAX_VALUE:
        return line[:_MAX_VALUE] + "…"
    return line
