"""The ReAct loop: a generator that yields requests, is sent replies, and returns the run's ending.

It does no I/O itself. `driver.py` carries out the requests:

    AskModel → ModelReply | NoReply        CheckAnswer → Verdict | NoReply
    RunCalls → CallOutcomes                Notice → nothing
    RunProgram → ProgramFaults | ProgramWaits | ProgramEnded
    ResumeProgram → ProgramWaits | ProgramEnded

So it can be driven by hand with ``.send``, and recorded replies reproduce the same run.

How it works. A run repeats one step until a limit is reached: the model is asked (`_ask`), its
reply is read as an `Action`, and the action is performed (`_perform`). An action has calls, an
answer, a failure, or a fault that makes the reply unusable. Calls are run (`_run_calls`) and
recorded with their outcomes as one `StepRecord` of the exchange; faults are recorded as a
correction that the model reads. Both are included in the next request, and the run continues. An
answer that passes its check ends the run. At a limit the model gets one last turn without tools
(`_last_turn`).

Each call always has exactly one outcome in the record: the exchange is only changed by adding a
complete step (`_add`), so a driver may stop at any yield.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, TypeAlias

from archytas_nb.loop.code_block import CodeRequests, block_in
from archytas_nb.loop.conversation import Conversation, messages_of
from archytas_nb.loop.events import (
    ANSWER,
    FAIL,
    STOPPED,
    Answered,
    AskModel,
    CallOutcome,
    CallOutcomes,
    CheckAnswer,
    Ending,
    Failed,
    Fault,
    Finish,
    Interrupted,
    Json,
    ModelReply,
    NoReply,
    Notice,
    ProgramEnded,
    ProgramFaults,
    Reply,
    Requests,
    RunCalls,
    Stopped,
    ToolCall,
    Verdict,
)
from archytas_nb.loop.limits import Guards, call_key
from archytas_nb.loop.lines import MAX_LINE_TOKENS, STOPS, LineByLine
from archytas_nb.loop.model import ModelFacts
from archytas_nb.loop.program import CallMemory, ProgramRunner
from archytas_nb.loop.program_protocol import (
    LITERAL_ANSWER,
    ProgramProtocol,
    calls_report,
    ended_report,
    faults_report,
    interrupted_report,
    texts_answered,
)
from archytas_nb.loop.record import Exchange, StepRecord, call_id
from archytas_nb.loop.reply import Action, as_text, prose_of, rejection_text, written
from archytas_nb.loop.thoughts import split_thoughts
from archytas_nb.loop.tokens import message_tokens, texts_of
from archytas_nb.loop.verify import (
    MAX_QUESTION,
    MAX_TOOLS,
    SmallModelChecks,
    parse_yes_no,
    repeats_example,
    unsupported_numbers,
)
from archytas_nb.loop.wire import Wire, last_instruction

Flow: TypeAlias = Requests[Ending]

LAST_TURN_SECONDS = 30.0
"""Seconds for the last turn if the run has reached `max_seconds`."""

MAX_CALLS = 100
"""Maximum number of calls that are run from one reply."""

_WARMER = 0.8
"""The temperature after a faulty program was written twice: at 0 it would be written again."""

SHOWN_TO_USER = "(its value is not shown to you)"

_INTERRUPTED_BEFORE = "Not run: the user interrupted before."


class _RunEndedError(Exception):
    """The run has ended because there was no reply."""

    def __init__(self, ending: Ending) -> None:
        self.ending = ending


def react_loop(
    wire: Wire,
    guards: Guards,
    past: Sequence[Exchange],
    exchange: Exchange,
    *,
    checks: bool = False,
    model: object = None,
    told: Callable[[], Sequence[str]] = tuple,
    summarises: bool = False,
) -> Flow:
    """Run one question to its ending; the steps and the ending are added to ``exchange``.

    Args:
        wire: The wire protocol.
        guards: The limits and the guard against repeated calls, new for each run.
        past: The exchanges before this one.
        exchange: The question.
        checks: Whether answers are checked before they are accepted.
        model: Its context, if it is known, limits the length of the requests.
        told: Returns what the person has said since the last request.
        summarises: Whether a summary by the model takes the place of what is dropped of a
            conversation that is too long.

    Raises:
        TypeError: The driver did not send a reply to the request.
        ValueError: The driver sent the outcome of another call.
    """
    if exchange.context is not None and not exchange.context.is_offered:
        wire = wire.without_tools(exchange.context.tools)
    tokens = guards.limits.reply_tokens(small=guards.small)
    thinking = guards.limits.thinking_tokens(small=guards.small)
    conversation = Conversation(
        wire, past, exchange, ModelFacts(model), tokens, summarises=summarises
    )
    loop = _Loop(
        wire, guards, past, exchange, conversation, checks, thinking, ModelFacts(model), told=told
    )
    ending = yield from loop.run()
    if exchange.wants_code and isinstance(ending, Answered):
        ending = yield from loop.with_code(ending)
    exchange.ending = ending
    if isinstance(ending, Answered):
        exchange.kept = loop.kept
    return exchange.ending


@dataclass(slots=True)
class _Loop:
    """The state of one run."""

    wire: Wire
    guards: Guards
    past: Sequence[Exchange]
    exchange: Exchange
    conversation: Conversation
    checks_answers: bool
    thinking_tokens: int | None  # the maximum after a reply that contained only reasoning
    facts: ModelFacts
    truncated_replies: int = 0  # consecutive replies that were truncated
    checks: SmallModelChecks = field(init=False)
    programs: ProgramRunner = field(init=False)
    failed_programs: set[str] = field(default_factory=set)
    faults: set[str] = field(default_factory=set)  # of programs and lines of a small model
    temperature: float | None = None  # of the next reply; None for the model's default
    needs_literal: bool = False  # whether the answer of a program was no value of its type
    kept: Mapping[str, Json] = field(default_factory=dict)  # of the last reply; see `ModelReply`
    told: Callable[[], Sequence[str]] = tuple

    def __post_init__(self) -> None:
        self.checks = SmallModelChecks(self.exchange.question, self._ask_yes_no)
        memory = CallMemory(self.guards.small, frozenset(self.guards.may_repeat))
        hides_values = self.exchange.values != "all"
        self.programs = ProgramRunner(self._number, self.guards, memory, hides_values)

    @property
    def _number(self) -> int:
        """The number of the question in the conversation, for the ids of its calls."""
        return self.exchange.number or len(self.past) + 1

    def run(self) -> Flow:
        """Repeat steps until there is an ending."""
        try:
            if self.guards.small:
                yield from self._check_fit()
                ending = yield from self._begin_small()
                if ending is not None:
                    return ending
            was_prose = False  # whether the last reply was plain text instead of an action
            while not (limit := self.guards.limit_reached()):
                reply = yield from self._ask()
                self.guards.steps += 1
                action = self._read(reply, prose_is_answer=was_prose)
                if action.repaired:
                    yield Notice("repair", action.repaired)
                was_prose = action.prose and not action.truncated
                if action.truncated:
                    self.truncated_replies += 1
                    ending = yield from self._after_truncation(action, reply)
                else:
                    self.truncated_replies = 0
                    ending = yield from self._perform(action)
                if ending is not None:
                    return ending
            return (yield from self._last_turn(limit))
        except _RunEndedError as over:
            return over.ending

    def _begin_small(self) -> Requests[Ending | None]:
        """What a small model does before it goes by steps; None if that does not end the run."""
        if self.exchange.wants_code and not self.wire.tools:
            ending = yield from self._answer_with_code()
            if ending is not None:
                return ending
        may_write_lines = self._may_write_lines() and not self.exchange.hint
        if isinstance(self.wire, ProgramProtocol) and may_write_lines:
            return (yield from self._write_lines(self.wire))
        return None

    # ── asking ────────────────────────────────────────────────────────────────────────────────────

    def _ask(self, last: str = "") -> Requests[ModelReply]:
        """Ask the model; if the request is too long, retry once with a shorter one."""
        said = self.told()
        if said:
            self._add(StepRecord(said="\n\n".join(said)))
        for text in said:
            yield Notice("told", text)
        yield from self._compact()
        reply = yield self._request(last)
        if isinstance(reply, NoReply) and reply.kind == "overflow":
            yield from self._compact(after_refusal=True)
            reply = yield self._request(last)
        return (yield from self._reply_or_end(reply))

    def _compact(self, *, after_refusal: bool = False) -> Requests[None]:
        """Compact the conversation if it is too long, with a summary of what is dropped.

        Where the model does not give one, it is dropped without.
        """
        done = self.conversation.compact(after_refusal=after_refusal)
        if not done:
            return
        yield Notice("compaction", done)
        request = self.conversation.summary_request(self.guards.steps + 1)
        if request is None or self.guards.used_up():
            return
        reply = yield replace(request, seconds=self.guards.seconds_left())
        if isinstance(reply, NoReply) and reply.kind != "interrupted":
            return
        received = yield from self._reply_or_end(reply)
        self.guards.add_usage(received, message_tokens(request.messages))
        text = prose_of(received)
        if text:
            self.conversation.summarise(text)
            yield Notice("summary", text)

    def _reply_or_end(self, reply: Reply) -> Requests[ModelReply]:
        """Return the model's reply; if there is none, end the run."""
        if isinstance(reply, ModelReply):
            return reply
        if not isinstance(reply, NoReply):
            raise _unexpected("the model", reply, "ModelReply or NoReply")
        if reply.kind == "interrupted":
            raise _RunEndedError(Interrupted("a request to the model", written(reply.text)))
        if reply.kind == "deadline":
            limit = f"max_seconds={self.guards.limits.max_seconds or 0:g}"
            yield Notice("limit", f"the limit {limit} was reached during a request to the model")
            said = ""
            if self.wire.name == "native":  # half of a JSON object is of no use to a person
                said = reply.text
            raise _RunEndedError(Stopped(limit, said))
        text = reply.text
        if reply.kind == "overflow":
            text = self._overflow_text(text)
        raise _RunEndedError(Failed(text, by="endpoint"))

    def _overflow_text(self, why: str) -> str:
        """Why a conversation that cannot be compacted further has failed, and the next move."""
        text = (
            "the conversation is too long for the model, even without all that can be left out"
            f" (about {self.conversation.tokens:,} tokens): {why}"
        )
        if "agent.reset()" in why:
            return text
        return (
            f"{text} Start over with agent.reset(), ask for less at once, or use a model with a "
            "longer context."
        )

    def _request(self, last: str) -> AskModel:
        guards = self.guards
        conversation = self.conversation
        disabled = set(guards.disabled_tools)
        if self.exchange.hint and not guards.steps:  # a small model ignores the hint alone
            disabled |= self.wire.tools.keys()
            disabled.add(FAIL if self.exchange.hint == self.wire.known_hint else ANSWER)
        seconds = guards.seconds_left()
        if last and seconds is not None:
            seconds = max(seconds, LAST_TURN_SECONDS)
        ask = AskModel(
            guards.steps + 1,
            tuple(conversation.messages),
            max_tokens=conversation.reply_tokens,
            thinking_tokens=self.thinking_tokens,
            seconds=seconds,
            temperature=self.temperature,
            asides=conversation.asides,
        )
        ask = self.wire.with_actions(ask, self.exchange.form, disabled, last)
        is_corrected = self.programs.has_failed and not last
        if isinstance(self.wire, ProgramProtocol) and ask.grammar and is_corrected:
            grammar = self.wire.grammar_for(self.exchange.form)
            if self.needs_literal:
                return replace(ask, grammar=grammar.answer_with_literal())
            calls_first = self.checks.tool_fits and not self._has_found
            return replace(ask, grammar=grammar.program(is_corrected=True, calls_first=calls_first))
        return ask

    @property
    def _has_found(self) -> bool:
        """Whether a call was successful."""
        outcomes = (each for step in self.exchange.steps for each in step.outcomes)
        return any(each.status == "done" for each in outcomes)

    def _read(self, reply: ModelReply, *, prose_is_answer: bool) -> Action:
        self.guards.add_usage(reply, self.conversation.tokens + self.conversation.tool_tokens)
        self.kept = reply.kept
        return self.wire.read(reply, prose_is_answer=prose_is_answer, form=self.exchange.form)

    # ── acting ────────────────────────────────────────────────────────────────────────────────────

    def _perform(self, action: Action) -> Requests[Ending | None]:
        """Perform the action of a reply; None means that the run continues."""
        correction = ""
        if self.guards.small:
            correction = yield from self._confirm_end(action)
        if correction:
            yield Notice(
                "check", f"the model is asked to confirm before the run ends: {correction}"
            )
            self._correct(action, correction)
            return None
        if action.fault:
            yield from self._perform_fault(action)
            return None
        if action.program:
            return (yield from self._perform_program(action))
        if action.calls:
            ending = yield from self._perform_calls(action)
            if ending is not None:
                return ending
        else:
            self.guards.record_step(())
        if action.answers:
            if fault := (yield from self._check(action.answer)):
                self.guards.record_fault()
                self._correct(action, rejection_text(action.answer, fault))
                return None
            return Answered(as_text(action.answer), action.thought)
        if action.failure is None:
            return None
        return Failed(action.failure)

    def _perform_fault(self, action: Action) -> Requests[None]:
        """Ask for another reply in the place of one that cannot be used."""
        if action.is_reasoning:
            yield Notice("repair", "the reply has only reasoning: the model is asked again")
        self.guards.record_fault()
        self._correct(action, action.fault)

    def _perform_calls(self, action: Action) -> Requests[Ending | None]:
        """Run the calls of a reply and record them; None if they do not end the run."""
        step = yield from self._run_calls(action)
        self._add(step)
        if any(outcome.status == "interrupted" for outcome in step.outcomes):
            return _interrupted_call(step.calls, step.outcomes)
        if finish := _finish_of(step.outcomes):
            return (yield from self._finish(finish, action.thought))
        return None

    def _finish(self, finish: Finish, thought: str) -> Requests[Ending | None]:
        """End the run as a tool wants; None if its answer is not accepted."""
        if finish.reason is not None:
            return Failed(finish.reason)
        if fault := (yield from self._check(finish.json, (finish.answer,))):
            self.guards.record_fault()
            shown = SHOWN_TO_USER if self.programs.hides_values else finish.json
            self._correct(Action(thought), rejection_text(shown, fault))
            return None
        return Answered(as_text(finish.json), thought)

    def _check(self, answer: Json, given: tuple[Any, ...] = ()) -> Requests[str]:
        """Why an answer is not accepted; empty if it is. A program gives the value itself."""
        if repeats_example(as_text(answer), self.wire.examples, self._sources()):
            fault = "it repeats the answer of the example"
            yield Notice("check", f"the answer is not accepted: {fault}")
            return f"{fault}. Answer the question that was asked"
        if not self.checks_answers:
            return ""
        verdict = yield CheckAnswer(self.guards.steps, answer, given)
        if isinstance(verdict, NoReply) and verdict.kind == "condition":
            raise _RunEndedError(Failed(verdict.text, by="condition"))
        if isinstance(verdict, NoReply):
            raise _RunEndedError(Interrupted("the check of the answer"))
        if not isinstance(verdict, Verdict):
            raise _unexpected("for an answer to be checked", verdict, "Verdict")
        can_copy_value = self.guards.small and not self.programs.hides_values
        self.needs_literal = verdict.wrong_type and can_copy_value
        return verdict.fault

    def _after_truncation(self, action: Action, reply: ModelReply) -> Requests[Ending | None]:
        """Handle a truncated reply; None means that the model is asked again.

        A truncated answer is kept. A truncated call may be retried once with a shorter input, and a
        small model may give a shorter answer. A reply that contained only reasoning ends the run.
        """
        at, advice = self._truncated_at(reply)
        if action.truncated == "reasoning":
            return Stopped(f"reply {at}, all of them reasoning{advice}", cut=True)
        text = _truncated_text(action)
        stopped = Stopped(f"reply {at}{advice}", text, cut=True)
        was_retried = self.truncated_replies > 1
        is_kept_answer = action.answers and not self.guards.small
        is_over = was_retried or is_kept_answer
        if is_over and not action.calls:
            return stopped
        if not is_over and not action.unreadable:  # unreadable calls have a notice already
            yield Notice("repair", f"the reply was {at}: the model is asked for a shorter one")
        without_answer = replace(
            action, thought=action.thought or text[:500], answer=None, null=False
        )
        ending = yield from self._perform(without_answer)
        if ending is None and is_over:
            return stopped
        return ending

    def _truncated_at(self, reply: ModelReply) -> tuple[str, str]:
        """At how many tokens a reply was truncated, and advice."""
        asked = self.conversation.reply_tokens
        limit = max(asked, self.thinking_tokens or 0)
        tokens = min(reply.usage.output_tokens or asked, limit)
        if tokens in (asked, limit):
            return f"cut at {tokens} tokens", "; raise max_reply_tokens for a longer one"
        return f"cut at {tokens} tokens", f", fewer than max_reply_tokens={asked}"

    def _last_turn(self, limit: str) -> Flow:
        """Let the model answer without tools, so that its findings are not lost."""
        yield Notice(
            "limit", f"the limit {limit} is reached: the model is asked to report what it has"
        )
        try:
            reply = yield from self._ask(limit)
        except _RunEndedError as over:
            if isinstance(over.ending, Interrupted):
                return over.ending
            return Stopped(limit)
        action = self._read(reply, prose_is_answer=True)
        if action.program:
            action = yield from self._answer_of_program(action)
        if action.truncated:
            limit = f"{limit}; the last reply was {self._truncated_at(reply)[0]}"
        elif action.answers and as_text(action.answer).strip() in last_instruction(limit):
            return Stopped(limit)  # a small model may repeat what it is told
        if not action.answers:
            return Stopped(limit, as_text(action.failure or action.thought))
        # The check sets the run's value; the run ends even if the answer is not accepted.
        if not action.truncated:
            yield from self._check(action.answer)
        return Stopped(limit, as_text(action.answer))

    # ── an answer that ends with code ─────────────────────────────────────────────────────────────

    @property
    def _code_requests(self) -> CodeRequests:
        return CodeRequests(
            self.exchange, self.wire.instructions, has_grammars=self.facts.has_grammars
        )

    def _ask_for_code(self, request: AskModel) -> Requests[ModelReply]:
        self.guards.steps += 1
        reply = yield replace(request, step=self.guards.steps)
        received = yield from self._reply_or_end(reply)
        self.guards.add_usage(received, message_tokens(request.messages))
        return received

    def _answer_with_code(self) -> Requests[Ending | None]:
        """Have a small model that has no tools answer in prose; None if it has to go on."""
        if self.guards.limit_reached():  # which also starts the clock
            return None
        received = yield from self._ask_for_code(self._code_requests.answer(self._request("")))
        text = split_thoughts(received.text)[0].strip()
        if received.finish == "length" or not text or (yield from self._check(text)):
            return None
        return Answered(text)

    def with_code(self, ending: Answered) -> Flow:
        """An answer with its block of code; if it lacks it, the model is asked once more."""
        if block_in(ending.text) or self.guards.limit_reached():
            return ending
        yield Notice("check", "the answer has no code: the model is asked for it")
        request = self._code_requests.code(self._request(""), ending.text)
        try:
            received = yield from self._ask_for_code(request)
        except _RunEndedError as over:
            return over.ending if isinstance(over.ending, Interrupted) else ending
        block = block_in(split_thoughts(received.text)[0])
        return replace(ending, text=f"{ending.text}\n\n{block}") if block else ending

    def _correct(self, action: Action, correction: str) -> None:
        self._add(StepRecord(action.thought, correction=correction, reasoning=action.reasoning))

    def _add(self, step: StepRecord) -> None:
        if not step.said:
            step = replace(step, kept=self.kept)
            self.kept = {}
        self.exchange.steps.append(step)
        self.conversation.add(step)

    # ── programs ──────────────────────────────────────────────────────────────────────────────────

    def _perform_program(self, action: Action) -> Requests[Ending | None]:
        """Run the program of a reply; None means that the run continues."""
        self.programs.begin(action.program)
        self.temperature = None
        was_literal = self.needs_literal
        end = yield from self.programs.run(action.program, action.thought)
        if isinstance(end, ProgramFaults):
            self.guards.record_fault()
            report = faults_report(end)
            step = StepRecord(
                action.thought, reasoning=action.reasoning, program=action.program, report=report
            )
            self._add(step)
            self._leave_out_repeated(action.program, report, end.faults[0])
            return None
        ending = yield from self._after_program(end, action.thought, action.reasoning)
        self.needs_literal &= not was_literal  # it is tried once, and then programs again
        return ending

    def _after_program(
        self, end: ProgramEnded, thought: str = "", reasoning: str = ""
    ) -> Requests[Ending | None]:
        """Record a program that has ended; None means that the run continues."""
        runner = self.programs
        if end.interrupted or runner.was_interrupted:
            self._add(runner.step(thought, interrupted_report(runner.told), reasoning))
            if runner.was_interrupted:
                return _interrupted_call(runner.calls, runner.outcomes)
            return Interrupted("a program")
        if finish := _finish_of(runner.outcomes):
            self._add(runner.step(thought, calls_report(runner.told), reasoning))
            return (yield from self._finish(finish, thought))
        if correction := (yield from self._confirm_program_end(end)):
            yield Notice(
                "check", f"the model is asked to confirm before the run ends: {correction}"
            )
            self._add(runner.step(thought, correction, reasoning))
            return None
        if end.has_answer:
            if fault := (yield from self._check(end.answer, end.given)):
                self.guards.record_fault()
                runner.has_failed = True
                answer = SHOWN_TO_USER if runner.hides_values else end.answer
                report = rejection_text(answer, fault)
                if self.needs_literal:
                    report = f"{report}\n{LITERAL_ANSWER}"
                self._add(runner.step(thought, report, reasoning))
                self._leave_out_repeated(runner.text, report)
                return None
            # The answer is the last message of the exchange; before it stands what it rests on.
            report = calls_report(runner.told)
            step = runner.step(thought, report, reasoning)
            self._add(replace(step, is_left_out=not report))
            return Answered(as_text(end.answer), thought)
        if end.gave_up is not None:
            step = runner.step(thought, calls_report(runner.told), reasoning)
            self._add(replace(step, is_left_out=not step.report))
            return Failed(end.gave_up)
        report = ended_report(end, runner.told)
        self._add(runner.step(thought, report, reasoning))
        if end.error is not None or end.lost:
            self.guards.record_fault()
            self._leave_out_repeated(runner.text, report, end.error)
        else:
            self.guards.record_step(runner.outcomes)
        return None

    def _leave_out_repeated(self, program: str, report: str, fault: Fault | None = None) -> None:
        """Leave out failed programs that a model writes again and again, and keep their fault.

        A small model copies its own faulty reply for ever, or at least the line that failed. What a
        program has done is kept.
        """
        is_again = program in self.failed_programs
        self.failed_programs.add(program)
        if fault is not None and self.guards.small:
            is_again |= fault.text in self.faults
            self.faults.add(fault.text)
        if not is_again:
            return
        steps = self.exchange.steps
        for index, step in enumerate(steps):
            made = (each for each in step.outcomes if not each.repeats)
            has_done = any(each.status == "done" for each in made)
            if step.program in self.failed_programs and not has_done:
                steps[index] = replace(step, is_left_out=True)
        self._note(report)
        self.temperature = _WARMER

    def _note(self, report: str) -> None:
        """Tell the model, below the question, about a program that is not sent any more."""
        self.exchange.hint = f"(An earlier program failed. {report})"
        self.conversation.rebuild()

    def _answer_of_program(self, action: Action) -> Requests[Action]:
        """The answer that the program of the last turn gives; its calls are not made."""
        self.guards.steps += 1  # so that its calls have ids of their own
        self.programs.begin(action.program, is_again=True)
        end = yield from self.programs.run(
            action.program, action.thought, refusal="Not run: the run must end now."
        )
        if self.programs.calls:
            report = calls_report(self.programs.told)
            step = self.programs.step(action.thought, report, action.reasoning)
            self._add(replace(step, is_left_out=not report))
        if isinstance(end, ProgramEnded) and end.has_answer:
            return replace(action, program="", answer=end.answer, null=end.answer is None)
        shown = ""
        if isinstance(end, ProgramEnded) and not self.programs.hides_values:
            shown = "\n".join(end.shown)
        return replace(action, program="", thought=shown or action.thought)

    def _may_write_lines(self) -> bool:
        """Whether the model writes its first program line by line."""
        facts = self.facts
        return self.guards.small and facts.continues_replies and facts.has_grammars

    def _write_lines(self, wire: ProgramProtocol) -> Requests[Ending | None]:
        """Let the model write a program line by line; None means that the run continues."""
        if self.guards.limit_reached():  # which also starts the clock
            return None
        self.guards.steps += 1
        self.programs.begin()
        lines = LineByLine(
            self.programs,
            partial(self._ask_line, wire),
            wire.grammar_for(self.exchange.form),
            self.checks.tool_fits,
            self.checks.knows_answer,
            lambda line: bool(unsupported_numbers(line, self._sources())),
            _bound=dict.fromkeys(wire.named_variables(self.exchange.context)),
        )
        try:
            yield from lines.run()
        except _RunEndedError:
            if self.programs.text:
                self._add(self.programs.step("", interrupted_report(self.programs.told)))
            raise
        if lines.end is not None and lines.is_over:
            return (yield from self._after_program(lines.end))
        if self.programs.text or self.programs.calls:
            self._add(replace(self.programs.step("", lines.fault), is_left_out=True))
        done = calls_report(self.programs.told)
        if done:
            done = f"\nDone so far (do not repeat it):\n{done}"
        self.faults.update(lines.errors)
        self._note(lines.fault + done)
        yield Notice("repair", f"the model goes on with whole programs: {lines.fault}")
        return None

    def _ask_line(self, wire: ProgramProtocol, begun: str, grammar: str) -> Requests[ModelReply]:
        """Ask for the next line of a program that was begun."""
        ask = self._request("")
        _, *messages = ask.messages
        beginning = {"role": "assistant", "content": begun}
        reply = yield replace(
            ask,
            step=self.guards.steps,
            messages=(wire.line_by_line, *messages, beginning),
            grammar=grammar,
            stop=STOPS,
            is_continued=True,
            max_tokens=MAX_LINE_TOKENS,
        )
        received = yield from self._reply_or_end(reply)
        self.guards.add_usage(received, self.conversation.tokens + len(begun) // 3)
        return received

    # ── calls ─────────────────────────────────────────────────────────────────────────────────────

    def _run_calls(self, action: Action) -> Requests[StepRecord]:
        """Run the calls of one reply that can be read, up to `MAX_CALLS`."""
        calls = [
            ToolCall(call_id(self._number, self.guards.steps, number), name, tool_input)
            for number, (name, tool_input) in enumerate(action.calls[: MAX_CALLS + 1], start=1)
        ]
        outcomes = {each.call_id: each for each in _outcomes_without_running(action, calls)}
        for outcome in outcomes.values():
            yield Notice("repair", outcome.for_person or outcome.text)
        yield from self._collect_outcomes(outcomes, calls, action.thought)
        ordered = tuple(outcomes[call.id] for call in calls)
        self.guards.record_step(ordered)
        return StepRecord(
            action.thought,
            tuple(calls),
            ordered,
            reasoning=action.reasoning,
            extras={calls[n].id: extra for n, extra in action.extras.items() if n < len(calls)},
        )

    def _collect_outcomes(
        self, outcomes: dict[str, CallOutcome], calls: Sequence[ToolCall], thought: str
    ) -> Requests[None]:
        """Add the missing outcomes, by running the calls if necessary."""
        waiting = deque(call for call in calls if call.id not in outcomes)
        while waiting:
            batch = yield from self._batch(waiting, outcomes)
            if not batch:
                continue
            reply = yield RunCalls(self.guards.steps, tuple(batch), thought)
            if not isinstance(reply, CallOutcomes):
                raise _unexpected("for calls to be run", reply, "CallOutcomes")
            thought = ""  # it belongs to the first batch
            for call, outcome in zip(batch, reply.outcomes, strict=True):
                if outcome.call_id != call.id:
                    raise ValueError(
                        f"the outcome of {call.id!r} was sent with call_id={outcome.call_id!r}"
                    )
                outcomes[call.id] = self.guards.record(call, outcome)
            if any(outcome.status == "interrupted" for outcome in reply.outcomes):
                for call in waiting:
                    outcomes[call.id] = CallOutcome("not_run", _INTERRUPTED_BEFORE, call_id=call.id)
                return

    def _batch(
        self, waiting: deque[ToolCall], outcomes: dict[str, CallOutcome]
    ) -> Requests[list[ToolCall]]:
        """Take the next calls to run together; add the outcomes of those that are not run.

        The second of two identical calls waits for the first, as it would in a separate reply.
        """
        batch: list[ToolCall] = []
        keys: set[str] = set()
        while waiting and not (keys and self.guards.is_duplicate(waiting[0], keys)):
            call = waiting.popleft()
            outcome = self.guards.skipped_outcome(call)
            if outcome is None:
                batch.append(call)
                keys.add(call_key(call))
                continue
            outcomes[call.id] = outcome
            if outcome.status == "not_run":
                text = (
                    f"the model is asked to confirm its call of {call.name}: {outcome.for_person}"
                )
                yield Notice("repair", text)
            else:
                yield Notice("repeat", f"{call.name} was not run: it is the same call again")
        return batch

    # ── questions to a small model ────────────────────────────────────────────────────────────────

    def _check_fit(self) -> Requests[None]:
        """Ask a small model whether a tool fits; if none does, add a hint to the question.

        If one fits, the description of the variables and the tools that read them are not sent.
        """
        tools = self.wire.tools
        context = self.exchange.context
        if context is not None and not context.is_offered:
            context = None
        if context is not None:
            tools = {name: tools[name] for name in context.preferred_tools}
        is_first_question = not self.past and not self.exchange.steps
        is_short = len(self.exchange.question) <= MAX_QUESTION
        if not (is_first_question and is_short and 0 < len(tools) <= MAX_TOOLS):
            return
        self.guards.limit_reached()  # starts the clock
        if (yield from self.checks.find_fitting_tool(tools)):
            if context is not None:
                # A program may name the variables, so it is told which there are.
                is_told = isinstance(self.wire, ProgramProtocol)
                self.exchange.context = replace(context, is_offered=is_told)
                self.wire = self.wire.without_tools(context.tools)
                self.conversation.rebuild(self.wire)
            return
        if context is not None or self.exchange.error is not None:
            return  # the answer may be in what is sent below the question
        is_known = yield from self.checks.knows_answer()
        self.exchange.hint = self.wire.known_hint if is_known else self.wire.no_tool_hint
        self.conversation.rebuild()
        yield Notice("repair", f"no tool seems to fit; the model is told: {self.exchange.hint}")

    def _ask_yes_no(self, request: AskModel) -> Requests[str]:
        """Ask the model a yes-no question."""
        reply = yield replace(request, seconds=self.guards.seconds_left())
        received = yield from self._reply_or_end(reply)
        self.guards.add_usage(received, message_tokens(request.messages))
        return parse_yes_no(received.text)

    def _confirm_end(self, action: Action) -> Requests[str]:
        """Why a small model is asked again instead of ending its run; empty if it may end."""
        ends = action.answers or action.failure is not None
        if action.calls or not ends:  # calls are run first
            return ""
        is_first_step = not self.exchange.steps
        if self.exchange.hint and is_first_step:
            return ""  # the hint told it to
        return (
            yield from self.checks.correction_before_end(
                action,
                self._sources(),
                is_first_step=is_first_step,
                last_call_failed=self.guards.last_call_failed,
            )
        )

    def _confirm_program_end(self, end: ProgramEnded) -> Requests[str]:
        """The same for a program; only numbers that it wrote into its answer are checked."""
        ends = end.has_answer or end.gave_up is not None
        has_acted = bool(self.exchange.steps or self.programs.calls)
        if not self.guards.small or not ends or (self.exchange.hint and not has_acted):
            return ""
        outcomes = [each for step in self.exchange.steps for each in step.outcomes]
        last = [*outcomes, *self.programs.outcomes][-1:]
        answer = "\n".join(texts_answered(self.programs.text)) if end.has_answer else None
        action = Action(answer=answer, failure=end.gave_up)
        found = [each.text for each in self.programs.outcomes]
        return (
            yield from self.checks.correction_before_end(
                action,
                [*self._sources(), *found],
                is_first_step=not has_acted,
                last_call_failed=any(each.status == "error" for each in last),
            )
        )

    def _sources(self) -> Iterator[str]:
        """All texts of tools, questions and outcomes, including those dropped by compaction."""
        yield from (tool.text for tool in self.wire.tools.values())
        for message in messages_of(self.wire, [*self.past, self.exchange]):
            if message["role"] in ("user", "tool"):
                yield from texts_of(message)


def _interrupted_call(calls: Sequence[ToolCall], outcomes: Sequence[CallOutcome]) -> Interrupted:
    """The ending of a run whose calls were interrupted, or of which a person stopped one."""
    for call, outcome in zip(calls, outcomes, strict=False):  # of a program, the last may have none
        if outcome.decision == STOPPED:
            return Interrupted(f"the approval of {call.name}")
    return Interrupted("a tool call")


def _finish_of(outcomes: Sequence[CallOutcome]) -> Finish | None:
    """How a tool wants the run to end; the first one if several do."""
    return next((each.finish for each in outcomes if each.finish is not None), None)


def _truncated_text(action: Action) -> str:
    """What a person can use of a truncated reply: the begun answer, or the plain text."""
    if action.answers:
        return as_text(action.answer)
    if action.prose:
        return action.thought
    return ""


def _outcomes_without_running(action: Action, calls: Sequence[ToolCall]) -> Iterator[CallOutcome]:
    """The outcomes of calls that cannot be read, and of the first one that is too many."""
    for index, why in action.unreadable:
        if index < MAX_CALLS:
            told = f"{why}. Send the call again."
            yield CallOutcome("error", told, call_id=calls[index].id, for_person=why)
    too_many = len(action.calls) - MAX_CALLS
    if too_many > 0:
        text = f"{too_many:,} calls, from this one on, were not made: a reply may have {MAX_CALLS}."
        yield CallOutcome("not_run", text, call_id=calls[-1].id)


def _unexpected(asked: str, sent: Reply, expected: str) -> TypeError:
    return TypeError(f"the loop asked {asked} and was sent {sent!r}; expected {expected}")
