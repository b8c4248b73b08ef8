"""The different treatment of a small model during a run.

Before the first step it is asked whether a tool fits the question (`checks.py`), and where the
endpoint continues replies, it writes its first program line by line (`lines.py`). Later it has to
confirm an end that is in doubt, and its programs after a fault are bound further.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import partial

from archytas_nb.loop.code_block import CodeRequests
from archytas_nb.loop.events import (
    ANSWER,
    FAIL,
    Answered,
    AskModel,
    CallOutcome,
    Ending,
    Fault,
    ModelReply,
    Notice,
    ProgramEnded,
    Requests,
    Verdict,
)
from archytas_nb.loop.program_protocol import (
    ProgramProtocol,
    calls_report,
    interrupted_report,
    texts_answered,
)
from archytas_nb.loop.reading.reply import Action
from archytas_nb.loop.reading.thoughts import split_thoughts
from archytas_nb.loop.strategy import RunEndedError, RunningLoop, Strategy
from archytas_nb.small.checks import (
    MAX_QUESTION,
    MAX_TOOLS,
    SmallModelChecks,
    known_hint,
    no_tool_hint,
    parse_yes_no,
    unsupported_numbers,
)
from archytas_nb.small.copy_protocol import CopyProtocol
from archytas_nb.small.decision import first_decision
from archytas_nb.small.in_copy import ProgramsInCopy
from archytas_nb.small.lines import MAX_LINE_TOKENS, STOPS, LineByLine
from archytas_nb.small.protocol import LITERAL_ANSWER, SmallProgramProtocol


class SmallStrategy(Strategy):
    """The different treatment of a small model; the state of one run."""

    keeps_cut_answers = False
    rewrites_in_order = False

    def __init__(self) -> None:
        self._checks: SmallModelChecks
        self._faults: set[str] = set()  # of programs and lines
        self._contradicting: frozenset[str] = frozenset()  # actions that contradict the hint
        self._needs_literal = False  # whether the answer of a program was no value of its type
        self._gave_literal = False  # whether the program that is checked was to be a literal

    def begin(self, loop: RunningLoop) -> Requests[Ending | None]:
        """Ask whether a tool fits; then answer with code, or write a program line by line."""
        self._checks = SmallModelChecks(loop.exchange.question, partial(_ask_yes_no, loop))
        ending = yield from first_decision(loop, self._checks.knows_answer)
        if ending is not None:
            return ending
        if isinstance(loop.wire, CopyProtocol):
            return (yield from ProgramsInCopy(loop, loop.wire).run())
        yield from self._check_fit(loop)
        if loop.exchange.wants_code and not loop.wire.tools:
            ending = yield from _answer_with_code(loop)
            if ending is not None:
                return ending
        writes_lines = loop.facts.continues_replies and loop.facts.has_grammars
        if isinstance(loop.wire, SmallProgramProtocol) and writes_lines and not loop.exchange.hint:
            return (yield from self._write_lines(loop.wire, loop))
        return None

    def disabled(self, loop: RunningLoop) -> Collection[str]:
        """The actions that contradict the hint, in the first reply: a model ignores a mere hint."""
        return () if loop.guards.steps else self._contradicting

    def shape(self, ask: AskModel, loop: RunningLoop) -> AskModel:
        """The request with the grammar of a corrected program, after one that failed."""
        if not isinstance(loop.wire, SmallProgramProtocol) or not loop.programs.has_failed:
            return ask
        grammar = loop.wire.grammar_for(loop.exchange.form)
        if self._needs_literal:
            return replace(ask, grammar=grammar.answer_with_literal())
        outcomes = _outcomes(loop)
        has_found = any(each.status == "done" for each in outcomes)
        calls_first = self._checks.tool_fits and not has_found
        return replace(ask, grammar=grammar.program(is_corrected=True, calls_first=calls_first))

    def may_end(self, action: Action, loop: RunningLoop) -> Requests[str]:
        """Why the model is asked again instead of ending its run; empty if it may end."""
        self._gave_literal = False
        ends = action.answers or action.failure is not None
        if action.calls or not ends:  # calls are run first
            return ""
        has_acted = bool(loop.exchange.steps)
        failed = loop.guards.last_call_failed
        return (yield from self._correction(action, loop, loop.sources(), has_acted, failed))

    def may_end_program(self, end: ProgramEnded, loop: RunningLoop) -> Requests[str]:
        """The same for a program; only numbers that it wrote into its answer are checked."""
        self._gave_literal = self._needs_literal
        self._needs_literal = False  # it is tried once, and then programs again
        if isinstance(loop.wire, CopyProtocol):  # which looks where its numbers come from
            return ""
        programs = loop.programs
        if not end.has_answer and end.gave_up is None:
            return ""
        has_acted = bool(loop.exchange.steps or programs.calls)
        failed = any(each.status == "error" for each in _outcomes(loop, programs.outcomes)[-1:])
        answer = "\n".join(texts_answered(programs.text)) if end.has_answer else None
        action = Action(answer=answer, failure=end.gave_up)
        sources = [*loop.sources(), *(each.text for each in programs.outcomes)]
        return (yield from self._correction(action, loop, sources, has_acted, failed))

    def _correction(
        self,
        action: Action,
        loop: RunningLoop,
        sources: Iterable[str],
        has_acted: bool,  # noqa: FBT001
        last_call_failed: bool,  # noqa: FBT001
    ) -> Requests[str]:
        if loop.exchange.hint and not has_acted:
            return ""  # the hint told it to
        return (
            yield from self._checks.correction_before_end(
                action, sources, is_first_step=not has_acted, last_call_failed=last_call_failed
            )
        )

    def checked(self, verdict: Verdict, loop: RunningLoop) -> None:
        """After an answer of the wrong type, the model copies the value that it has seen."""
        can_copy = not loop.programs.hides_values
        self._needs_literal = verdict.wrong_type and can_copy and not self._gave_literal
        self.advice = LITERAL_ANSWER if self._needs_literal else ""

    def is_same_fault(self, fault: Fault) -> bool:
        """Whether a line failed as one before: the model copies it into its next program."""
        is_known = fault.text in self._faults
        self._faults.add(fault.text)
        return is_known

    # ── before the first step ─────────────────────────────────────────────────────────────────────

    def _check_fit(self, loop: RunningLoop) -> Requests[None]:
        """Ask whether a tool fits; if none does, add a hint to the question.

        If one fits, the description of the variables and the tools that read them are not sent.
        """
        tools = loop.wire.tools
        exchange = loop.exchange
        context = exchange.context
        if context is not None and not context.is_offered:
            context = None
        if context is not None:
            tools = {name: tools[name] for name in context.preferred_tools}
        is_first_question = not loop.past and not exchange.steps
        is_short = len(exchange.question) <= MAX_QUESTION
        if not (is_first_question and is_short and 0 < len(tools) <= MAX_TOOLS):
            return
        loop.guards.limit_reached()  # starts the clock
        if (yield from self._checks.find_fitting_tool(tools)):
            if context is not None:
                # A program may name the variables, so it is told which there are.
                is_told = isinstance(loop.wire, ProgramProtocol)
                exchange.context = replace(context, is_offered=is_told)
                loop.wire = loop.wire.without_tools(context.tools)
                loop.conversation.rebuild(loop.wire)
            return
        if context is not None or exchange.error is not None:
            return  # the answer may be in what is sent below the question
        is_known = yield from self._checks.knows_answer()
        exchange.hint = known_hint(loop.wire) if is_known else no_tool_hint(loop.wire)
        self._contradicting = frozenset({*tools, FAIL if is_known else ANSWER})
        loop.conversation.rebuild()
        yield Notice("repair", f"no tool seems to fit; the model is told: {exchange.hint}")

    def _write_lines(
        self, wire: SmallProgramProtocol, loop: RunningLoop
    ) -> Requests[Ending | None]:
        """Let the model write a program line by line; None means that the run continues."""
        if loop.guards.limit_reached():  # which also starts the clock
            return None
        loop.guards.steps += 1
        programs = loop.programs
        programs.begin()
        lines = LineByLine(
            programs,
            partial(_ask_line, loop, wire),
            wire.grammar_for(loop.exchange.form),
            self._checks.tool_fits,
            self._checks.knows_answer,
            lambda line: bool(unsupported_numbers(line, loop.sources())),
            _bound=dict.fromkeys(wire.named_variables(loop.exchange.context)),
        )
        try:
            yield from lines.run()
        except RunEndedError:
            if programs.text:
                loop.add(programs.step("", interrupted_report(programs.told)))
            raise
        if lines.end is not None and lines.is_over:
            return (yield from loop.after_program(lines.end))
        if programs.text or programs.calls:
            loop.add(replace(programs.step("", lines.fault), is_left_out=True))
        done = calls_report(programs.told)
        if done:
            done = f"\nDone so far (do not repeat it):\n{done}"
        self._faults.update(lines.errors)
        loop.note(lines.fault + done)
        yield Notice("repair", f"the model goes on with whole programs: {lines.fault}")
        return None


def _answer_with_code(loop: RunningLoop) -> Requests[Ending | None]:
    """Have a model that has no tools answer in prose, with code; None if the run goes on."""
    if loop.guards.limit_reached():  # which also starts the clock
        return None
    has_grammars = loop.facts.has_grammars
    codes = CodeRequests(loop.exchange, loop.wire.instructions, has_grammars=has_grammars)
    received = yield from loop.ask_for_code(codes.answer(loop.request()))
    text = split_thoughts(received.text)[0].strip()
    if received.finish == "length" or not text or (yield from loop.check(text)):
        return None
    return Answered(text)


def _ask_yes_no(loop: RunningLoop, request: AskModel) -> Requests[str]:
    """Ask the model a yes-no question."""
    reply = yield from loop.ask_aside(request)
    return parse_yes_no(reply.text)


def _ask_line(
    loop: RunningLoop, wire: SmallProgramProtocol, begun: str, grammar: str
) -> Requests[ModelReply]:
    """Ask for the next line of a program that was begun."""
    ask = loop.request()
    _, *messages = ask.messages
    beginning = {"role": "assistant", "content": begun}
    reply = yield replace(
        ask,
        step=loop.guards.steps,
        messages=(wire.line_by_line, *messages, beginning),
        grammar=grammar,
        stop=STOPS,
        is_continued=True,
        max_tokens=MAX_LINE_TOKENS,
    )
    received = yield from loop.reply_or_end(reply)
    loop.guards.add_usage(received, loop.conversation.tokens + len(begun) // 3)
    return received


def _outcomes(loop: RunningLoop, more: Sequence[CallOutcome] = ()) -> list[CallOutcome]:
    """The outcomes of all recorded calls of the run, and some more."""
    return [*(each for step in loop.exchange.steps for each in step.outcomes), *more]
