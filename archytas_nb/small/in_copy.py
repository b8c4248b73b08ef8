"""How a small model writes a program over the objects of the notebook, which runs in a copy.

    first ──ran──▶ answered
      │ fault, no answer, or cut off
      ▼
    continued: what ran stays, the model continues after a comment with the fault
      │ fault
      ▼
    fresh: a new program at a higher temperature, with the fault below the question
      │ fault
      ▼
    answered in doubt, if a program gave an answer that was only suspect or lacks a part
      │ none did
      ▼
    not answered; if one of them lacked only its answer, what it computed is given with a doubt

At temperature 0 a small model writes the line that failed again, even next to the right one.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from archytas_nb.loop.events import (
    Answered,
    Ending,
    Failed,
    Json,
    ModelReply,
    Notice,
    ProgramEnded,
    ProgramFaults,
    Requests,
    Stopped,
)
from archytas_nb.loop.reading.reply import as_text
from archytas_nb.loop.strategy import RunEndedError, RunningLoop
from archytas_nb.small.copy_protocol import CopyProtocol
from archytas_nb.small.form import HOLE, begun_in, form_of, in_form, lacks_form
from archytas_nb.small.origins import code_in_text, invented_numbers, rests_on
from archytas_nb.small.program_text import program_in
from archytas_nb.small.results import Misnamed, misnamed
from archytas_nb.small.unanswered import answering, as_answer, values_of, with_printed
from archytas_nb.syntax.program import PROGRAM_ANSWER, Program, calls
from archytas_nb.words import truncate_line

WARM = 0.7
"""The temperature after a fault."""

MAX_PROGRAM_TOKENS = 400
MAX_PROGRAMS = 3
"""Maximum number of programs for one question."""

CONTINUES = True
"""Whether the second program continues after the part of the first that ran."""

STOPS = ("```",)
PYTHON_LINES = r"""root ::= line ("\n" line)* "\n```"
line ::= "" | [A-Za-z_#()\[\]{}'"] [^\n]* | [ \t]+ [^@ \t\n] [^\n]*
"""
"""The grammar of a program: its lines begin as those of Python do, and not as forms of answers."""

_FENCE = "```python\n"


@dataclass(frozen=True, slots=True)
class _Wrong:
    """The fault of a program.

    Attributes:
        text: The fault, in words.
        ran: The part of it that ran, to continue after it; empty for nothing.
        failed: The statement that failed; empty if all ran.
        hints: Facts that were looked up about it.
        begins: How the next statement begins; empty if that is left to the model.
    """

    text: str
    ran: str = ""
    failed: str = ""
    hints: tuple[str, ...] = ()
    begins: str = ""

    @property
    def begun(self) -> str:
        """The beginning of a program that goes on: what ran, and what was wrong as comments."""
        if not self.text:  # it was cut off
            return f"{self.ran}\n"
        lines = [f"This failed: {line}" for line in self.failed.splitlines()[:3]]
        lines += [self.text, *self.hints]
        comments = "".join(f"# {line}\n" for line in lines if line)
        return f"{self.ran}\n{comments}{'' if self.begins else '# Corrected:'}\n{self.begins}"

    @property
    def told(self) -> str:
        """The text below the question before a fresh program."""
        failed = f"Another program failed at `{truncate_line(self.failed, 200)}`: "
        return "\n".join([f"({failed if self.failed else ''}{self.text}", *self.hints]) + ")"


@dataclass(slots=True)
class ProgramsInCopy:
    """The programs of one question.

    Attributes:
        loop: The run.
        wire: Its protocol.
    """

    loop: RunningLoop
    wire: CopyProtocol
    _doubts: tuple[str, ...] = ()  # about the last program
    _computed: dict[str, Json] = field(default_factory=dict)  # by the first that lacked an answer
    _suspect: tuple[str, str] | None = None  # the first program that is, and why
    _failed: list[tuple[str, str]] = field(default_factory=list)  # programs, and why

    def run(self) -> Requests[Ending | None]:
        """Ask for programs until one answers; if none does, give what one has computed."""
        try:
            ending = yield from self._programs()
        except RunEndedError as over:
            ending = over.ending
        limit = ending.limit if isinstance(ending, Stopped) else self.loop.guards.limit_reached()
        is_stopped = limit and (ending is None or isinstance(ending, Stopped))
        is_failed = isinstance(ending, Failed) and ending.by == "model"
        if not self._computed or not (is_stopped or is_failed):
            return ending
        answer = as_answer(self._computed)
        if (yield from self.loop.check(answer, (answer,))):
            return ending
        if is_stopped:
            return Stopped(limit, as_text(answer))
        names = ", ".join(self._computed)
        doubt = f"none of them answered, and this is what one computed as {names}"
        return Answered(as_text(answer), repairs=MAX_PROGRAMS, doubts=(doubt,))

    def _programs(self) -> Requests[Ending | None]:
        wrong: _Wrong | None = None
        failures = 0
        while failures < self._most:
            if self.loop.guards.limit_reached():
                return None  # the last turn follows
            self.loop.guards.steps += 1
            result = yield from self._attempt(failures, wrong)
            if isinstance(result, Answered):
                return replace(result, repairs=failures, doubts=self._doubts)
            if not isinstance(result, _Wrong):
                return result
            lacks_only_answer = bool(result.begins) and (wrong is None or not wrong.begins)
            wrong = result
            failures += not lacks_only_answer
            if failures < self._most and wrong.text:
                yield Notice("repair", f"the model writes on: {wrong.text}")
        tried = self._failed if self._suspect is None else [self._suspect]
        for program, reason in tried:
            ending = yield from self._answered_in_doubt(program, reason, failures)
            if ending is not None:
                return ending
        why = wrong.text if wrong is not None and wrong.text else "it was too long"
        return Failed(f"no program gave an answer; of the last one: {why}")

    @property
    def _most(self) -> int:
        """How many programs may fail: where there is an answer in doubt, none is begun again."""
        return MAX_PROGRAMS - (self._suspect is not None)

    def _answered_in_doubt(self, program: str, why: str, failures: int) -> Requests[Ending | None]:
        """End with the answer of a program that is suspect or lacks a part, if it has any.

        It runs once more, so that what follows, such as the next question, is about this one.
        """
        programs = self.loop.programs
        programs.begin(program)
        end = yield from programs.run(program, may_lack=True)
        if not isinstance(end, ProgramEnded) or not end.has_answer:
            return None
        programs.text = end.ran or program
        if invented_numbers(programs.text, self._sources(), self._known):
            return None
        ending = yield from self.loop.after_program(end)
        if isinstance(ending, Answered):
            return replace(ending, repairs=failures, doubts=(why, *end.doubts))
        return None

    def _suspected(self, wrong: _Wrong, program: str) -> _Wrong:
        """The fault of a program, which is kept in case that no other one answers."""
        if self._suspect is None and not self.loop.programs.calls:
            self._suspect = (program, wrong.text.removeprefix("ValueError: "))
        return wrong

    def _attempt(self, failures: int, wrong: _Wrong | None) -> Requests[Ending | _Wrong]:
        """One program, or the rest of one: how the run ends, or what was wrong with it."""
        before = _Wrong("")
        is_continued = CONTINUES and failures + 1 < MAX_PROGRAMS
        if wrong is not None and wrong.ran and (is_continued or wrong.begins):
            before = wrong
        elif wrong is not None:
            self.loop.exchange.hint = wrong.told
            self.loop.conversation.rebuild()
        begun = _FENCE + (before.begun if before.ran else "")
        grammar = "" if before.begins else PYTHON_LINES
        reply = yield from self._ask(begun, WARM if failures else 0.0, grammar)
        is_cut = reply.finish == "length"
        text = before.begins + _program_in(reply.text, is_cut=is_cut)
        text = "\n".join(filter(None, [before.ran, text]))
        text = in_form(text, self._form)
        programs = self.loop.programs
        programs.begin(text)
        end = yield from programs.run(text)
        if isinstance(end, ProgramFaults):
            fault = end.faults[0]
            return _Wrong(fault.text, failed=fault.source)
        found = self._misnamed(end)
        if found is not None and not found.name:  # no name is missing without the wrong ones
            end = yield from self._run_again(found.ran, found.why, end)
        programs.text = end.ran or ""
        self._doubts = end.doubts
        if not is_cut:
            end = with_printed(end, programs.text)
        self._computed = self._computed or self._values_of(end, programs.text)
        for why in end.cures:
            yield Notice("repair", f"the program was changed: {why}")
        return (yield from self._result(end, programs.text, text, is_cut=is_cut))

    def _run_again(self, program: str, why: str, end: ProgramEnded) -> Requests[ProgramEnded]:
        """The end of a program that was changed; that of the one before if it does not answer."""
        programs = self.loop.programs
        text = programs.text
        programs.begin(program)
        again = yield from programs.run(program)
        if isinstance(again, ProgramEnded) and again.has_answer:
            return replace(again, cures=(*again.cures, why))
        programs.begin(text)  # once more, so that what follows is about this one
        first = yield from programs.run(text)
        return first if isinstance(first, ProgramEnded) else end

    def _result(
        self, end: ProgramEnded, ran: str, text: str, *, is_cut: bool
    ) -> Requests[Ending | _Wrong]:
        """How a program ends the run, of which this ran, or what was wrong with it."""
        wrong = self._wrong_answer(end, ran) if end.has_answer else None
        if wrong is not None:
            return wrong
        if end.has_answer and not end.figures and not rests_on(answering(ran), self._known):
            self._doubts += ("it rests on no variable and no tool",)
        is_over = end.interrupted or self.loop.programs.was_interrupted
        if end.has_answer or end.gave_up is not None or is_over:
            ending = yield from self.loop.after_program(end)
            if ending is not None:
                return ending
            return _Wrong(self.loop.exchange.steps[-1].report, ran=_without_answer(ran))
        if end.error is not None:
            before = ran if end.sound is None else end.sound
            failed = _Wrong(end.error.text, before, end.error.source, end.hints)
            if not self.loop.programs.calls:
                self._failed.append((text, end.error.text))
            return failed if end.answer is None else self._suspected(failed, text)
        if end.lost:
            return _Wrong(f"The program was stopped: {end.lost}")
        # No fault: the program goes on where it was cut off.
        if is_cut:
            return _Wrong("", ran)
        shown = end.shown[-3:] or ("nothing was printed",)
        return _Wrong(
            "There is no answer yet. Printed:", ran, hints=shown, begins=begun_in(self._form)
        )

    def _wrong_answer(self, end: ProgramEnded, ran: str) -> _Wrong | None:
        """The fault in the answer of a program of which this ran; None if there is none."""
        if numbers := invented_numbers(answering(ran), self._sources(), self._known):
            listed = ", ".join(numbers)
            return _Wrong(f"{listed} in the answer does not come from the data", failed="answer(…)")
        before = _without_answer(ran)
        if code := code_in_text(ran, self._known):
            why = "the answer is code in a text, and is not computed"
            return _Wrong(why, before, failed=f"answer({truncate_line(code, 200)!r})")
        if found := self._misnamed(end):
            return self._suspected(_Wrong(found.why, found.ran, begins=f"{found.name} = "), ran)
        if self._suspect is None and lacks_form(str(end.answer), self._form):
            why = f"the answer has not the form {HOLE.join(self._form)}"
            return self._suspected(_Wrong(why, before, begins=begun_in(self._form)), ran)
        return None

    def _values_of(self, end: ProgramEnded, ran: str) -> dict[str, Json]:
        """The values that a program computed from data, where it lacks only an answer."""
        values = values_of(end, ran, self._known)
        whole = f"{_without_answer(ran)}\n{PROGRAM_ANSWER}(({', '.join(values)},))"
        return {} if not values or invented_numbers(whole, self._sources(), self._known) else values

    def _misnamed(self, end: ProgramEnded) -> Misnamed | None:
        """The result that a program unpacked under wrong names; looked for until one is found."""
        if not end.has_answer or self._suspect is not None or self.loop.programs.calls:
            return None
        return misnamed(end.ran or "", end.fields)

    def _ask(self, begun: str, temperature: float, grammar: str) -> Requests[ModelReply]:
        """Ask for a program whose beginning is written."""
        ask = self.loop.request()
        first, *messages = ask.messages
        beginning = {"role": "assistant", "content": begun}
        reply = yield replace(
            ask,
            step=self.loop.guards.steps,
            messages=(first, *self.wire.example, *messages, beginning),
            stop=STOPS,
            is_continued=True,
            temperature=temperature,
            grammar=grammar if self.loop.facts.has_grammars else "",
            max_tokens=MAX_PROGRAM_TOKENS,
        )
        received = yield from self.loop.reply_or_end(reply)
        self.loop.guards.add_usage(received, self.loop.conversation.tokens)
        return received

    @property
    def _form(self) -> tuple[str, ...]:
        """The form of a text that the question shows; empty if it shows none."""
        exchange = self.loop.exchange
        return form_of(exchange.question) if exchange.form is None else ()

    @property
    def _known(self) -> tuple[str, ...]:
        """The names whose values come from the notebook or from tools."""
        context = self.loop.exchange.context
        names = () if context is None else context.names
        return (*names, *self.wire.tools)

    def _sources(self) -> list[str]:
        exchange = self.loop.exchange
        told = [exchange.question, "" if exchange.context is None else exchange.context.text]
        return [*told, *(each.question for each in self.loop.past)]


def _program_in(reply: str, *, is_cut: bool) -> str:
    """The program in a reply that was begun with a fence, which it may repeat.

    Of one that was cut off, the statements that are complete.
    """
    text = program_in(reply)
    while is_cut and text:
        text = text.rpartition("\n")[0].rstrip()
        if Program(text).error is None:
            break
    return text


def _without_answer(program: str) -> str:
    """The part of a program before the statement that answered."""
    tree = Program(program).tree
    answers = [each.lineno for each in tree.body if any(calls(each, PROGRAM_ANSWER))]
    return "\n".join(program.splitlines()[: answers[0] - 1]) if answers else program
