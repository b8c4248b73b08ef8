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
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from archytas_nb.loop.calls_made import CallsOfPrograms, call_key
from archytas_nb.loop.code_block import CodeRequests, block_in
from archytas_nb.loop.conversation import ContextWindow, messages_of
from archytas_nb.loop.events import (
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
    Token,
    ToolCall,
    Verdict,
)
from archytas_nb.loop.limits import Guards
from archytas_nb.loop.model import ModelFacts
from archytas_nb.loop.odds import agreement, as_json, odds_of, options_in
from archytas_nb.loop.profile import LARGE, ModelProfile
from archytas_nb.loop.program import ProgramRunner
from archytas_nb.loop.program_protocol import (
    calls_report,
    ended_report,
    faults_report,
    interrupted_report,
)
from archytas_nb.loop.reading.reply import Action, as_text, prose_of, rejection_text, written
from archytas_nb.loop.reading.thoughts import split_thoughts
from archytas_nb.loop.record import AnswerForm, Exchange, StepRecord, call_id, offers_of
from archytas_nb.loop.strategy import RunEndedError, Strategy
from archytas_nb.loop.tokens import message_tokens, texts_of
from archytas_nb.loop.wire import Wire, last_instruction, repeats_example
from archytas_nb.words import keep_both_ends

Flow: TypeAlias = Requests[Ending]

LAST_TURN_SECONDS = 30.0
"""Seconds for the last turn if the run has reached `max_seconds`."""

MAX_CALLS = 100
"""Maximum number of calls that are run from one reply."""

RETRY_TEMPERATURE = 0.8
"""The temperature after a faulty program was written twice: at 0 it would be written again."""

ALTERNATIVES = 20
"""How many alternatives of a token are asked for: the most that OpenAI tells."""

SAMPLES = 5
"""How many answers are compared where the endpoint tells no probabilities."""

SAMPLE_TEMPERATURE = 1.0
"""Of a model that is asked for an answer again, to see whether it is the same."""

_MAX_WRITTEN = 4000
"""Maximum number of characters of a rejected reply that is sent back."""

SHOWN_TO_USER = "(its value is not shown to you)"

_INTERRUPTED_BEFORE = "Not run: the user interrupted before."


def react_loop(
    wire: Wire,
    guards: Guards,
    past: Sequence[Exchange],
    exchange: Exchange,
    *,
    checks: bool = False,
    profile: ModelProfile = LARGE,
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
        profile: The kind of model; its context, if it is known, limits the length of the requests.
        told: Returns what the person has said since the last request.
        summarises: Whether a summary by the model takes the place of what is dropped of a
            conversation that is too long.

    Raises:
        TypeError: The driver did not send a reply to the request.
        ValueError: The driver sent the outcome of another call.
    """
    if exchange.context is not None and not exchange.context.is_offered:
        wire = wire.without_tools(exchange.context.tools)
    tokens = guards.limits.reply_tokens(profile.reply_tokens)
    facts = profile.facts
    conversation = ContextWindow(wire, past, exchange, facts, tokens, summarises=summarises)
    loop = ReactRun(
        wire, guards, past, exchange, conversation, facts, profile.strategy(), checks,
        guards.limits.thinking_tokens(profile.thinking_tokens), told=told,
    )  # fmt: skip
    ending = yield from loop.run()
    if exchange.wants_code and isinstance(ending, Answered):
        ending = yield from loop.with_code(ending)
    if exchange.wants_odds and isinstance(ending, Answered):
        ending = yield from loop.with_odds(ending)
    exchange.ending = ending
    if isinstance(ending, Answered):
        exchange.kept = loop.kept
    return exchange.ending


@dataclass(slots=True)
class ReactRun:
    """The state of one run."""

    wire: Wire
    guards: Guards
    past: Sequence[Exchange]
    exchange: Exchange
    conversation: ContextWindow
    facts: ModelFacts
    strategy: Strategy
    checks_answers: bool
    thinking_tokens: int | None  # the maximum after a reply that contained only reasoning
    truncated_replies: int = 0  # consecutive replies that were truncated
    programs: ProgramRunner = field(init=False)
    failed_programs: set[str] = field(default_factory=set)
    temperature: float | None = None  # of the next reply; None for the model's default
    kept: Mapping[str, Json] = field(default_factory=dict)  # of the last reply; see `ModelReply`
    switched_off: Collection[str] = ()  # by the strategy, in the last request
    reply: ModelReply = field(default_factory=ModelReply)  # the last one
    told: Callable[[], Sequence[str]] = tuple
    tokens: tuple[Token, ...] = ()  # of all replies whose alternatives are known

    def __post_init__(self) -> None:
        memory = CallsOfPrograms(self.guards.calls.may_repeat, self.strategy.rewrites_in_order)
        hides_values = self.exchange.values != "all"
        self.programs = ProgramRunner(self._number, self.guards, memory, hides_values)

    @property
    def _number(self) -> int:
        """The number of the question in the conversation, for the ids of its calls."""
        return self.exchange.number or len(self.past) + 1

    def run(self) -> Flow:
        """Repeat steps until there is an ending."""
        try:
            ending = yield from self.strategy.begin(self)
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
        except RunEndedError as over:
            return over.ending

    # ── asking ────────────────────────────────────────────────────────────────────────────────────

    def _ask(self, last: str = "") -> Requests[ModelReply]:
        """Ask the model; if the request is too long, retry once with a shorter one."""
        said = self.told()
        if said:
            self.guards.calls.note_news()
            self.add(StepRecord(said="\n\n".join(said)))
        for text in said:
            yield Notice("told", text)
        yield from self._compact()
        reply = yield self.request(last)
        if isinstance(reply, NoReply) and reply.kind == "overflow":
            yield from self._compact(after_refusal=True)
            reply = yield self.request(last)
        return (yield from self.reply_or_end(reply))

    def _compact(self, *, after_refusal: bool = False) -> Requests[None]:
        """Compact the conversation if it is too long, with a summary of what is dropped.

        Where the model does not give one, it is dropped without.
        """
        done = self.conversation.compact(after_refusal=after_refusal)
        if not done:
            return
        yield Notice("compaction", done)
        for request in self.conversation.summary_requests(self.guards.steps + 1):
            if self.guards.used_up():
                return
            reply = yield replace(request, seconds=self.guards.seconds_left())
            if isinstance(reply, NoReply) and reply.kind != "interrupted":
                continue
            received = yield from self.reply_or_end(reply)
            self.guards.add_usage(received, message_tokens(request.messages))
            text = prose_of(received)
            if text:
                self.conversation.summarise(text)
                yield Notice("summary", text)
                return

    def reply_or_end(self, reply: Reply) -> Requests[ModelReply]:
        """Return the model's reply; if there is none, end the run."""
        if isinstance(reply, ModelReply):
            self.tokens += reply.tokens
            return reply
        if not isinstance(reply, NoReply):
            raise _unexpected("the model", reply, "ModelReply or NoReply")
        if reply.kind == "interrupted":
            raise RunEndedError(Interrupted("a request to the model", written(reply.text)))
        if reply.kind == "deadline":
            limit = f"max_seconds={self.guards.limits.max_seconds or 0:g}"
            yield Notice("limit", f"the limit {limit} was reached during a request to the model")
            said = ""
            if self.wire.name == "native":  # half of a JSON object is of no use to a person
                said = reply.text
            raise RunEndedError(Stopped(limit, said))
        text = reply.text
        if reply.kind == "overflow":
            text = self._overflow_text(text)
        raise RunEndedError(Failed(text, by="endpoint", explained=reply.explained))

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

    def request(self, last: str = "") -> AskModel:
        """The next request as it would be sent now; `last` is the limit that makes it the last."""
        guards = self.guards
        conversation = self.conversation
        self.switched_off = frozenset(self.strategy.disabled(self))
        disabled = guards.calls.disabled | self.switched_off
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
            provider_metadata=conversation.provider_metadata,
        )
        ask = self.wire.with_actions(ask, self.exchange.form, disabled, last)
        # With tools, some servers refuse to return alternatives; of calls, none tells them.
        if self.exchange.wants_odds and not ask.tools:
            ask = replace(ask, alternatives=ALTERNATIVES)
        return ask if last else self.strategy.shape(ask, self)

    def ask_aside(self, request: AskModel) -> Requests[ModelReply]:
        """Ask for a reply that is not a step of the run; it counts for its limits."""
        reply = yield replace(request, seconds=self.guards.seconds_left())
        received = yield from self.reply_or_end(reply)
        self.guards.add_usage(received, message_tokens(request.messages))
        return received

    def _read(self, reply: ModelReply, *, prose_is_answer: bool) -> Action:
        self.guards.add_usage(reply, self.conversation.tokens + self.conversation.tool_tokens)
        self.kept = reply.kept
        self.reply = reply
        return self.wire.read(reply, prose_is_answer=prose_is_answer, form=self.exchange.form)

    # ── acting ────────────────────────────────────────────────────────────────────────────────────

    def _perform(self, action: Action) -> Requests[Ending | None]:
        """Perform the action of a reply; None means that the run continues."""
        if correction := (yield from self.strategy.may_end(action, self)):
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
            if fault := (yield from self.check(action.answer)):
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
        self.add(step)
        if any(outcome.status == "interrupted" for outcome in step.outcomes):
            return _interrupted_call(step.calls, step.outcomes)
        if finish := _finish_of(step.outcomes):
            return (yield from self._finish(finish, action.thought))
        return None

    def _finish(self, finish: Finish, thought: str) -> Requests[Ending | None]:
        """End the run as a tool wants; None if its answer is not accepted."""
        if finish.reason is not None:
            return Failed(finish.reason)
        if fault := (yield from self.check(finish.json, (finish.answer,))):
            self.guards.record_fault()
            shown = SHOWN_TO_USER if self.programs.hides_values else finish.json
            correction = rejection_text(shown, fault)
            self.add(StepRecord(thought, correction=correction))
            return None
        return Answered(as_text(finish.json), thought)

    def check(self, answer: Json, given: tuple[Any, ...] = ()) -> Requests[str]:
        """Why an answer is not accepted; empty if it is. A program gives the value itself."""
        if repeats_example(as_text(answer), self.wire.examples, self.sources()):
            fault = "it repeats the answer of the example"
            yield Notice("check", f"the answer is not accepted: {fault}")
            return f"{fault}. Answer the question that was asked"
        if not self.checks_answers:
            return ""
        verdict = yield CheckAnswer(self.guards.steps, answer, given)
        if isinstance(verdict, NoReply) and verdict.kind == "condition":
            raise RunEndedError(Failed(verdict.text, by="condition"))
        if isinstance(verdict, NoReply):
            raise RunEndedError(Interrupted("the check of the answer"))
        if not isinstance(verdict, Verdict):
            raise _unexpected("for an answer to be checked", verdict, "Verdict")
        self.strategy.checked(verdict, self)
        return verdict.fault

    def _after_truncation(self, action: Action, reply: ModelReply) -> Requests[Ending | None]:
        """Handle a truncated reply; None means that the model is asked again.

        A truncated answer is kept, or retried once, which the strategy decides. A truncated call
        may be retried once with a shorter input. A reply that contained only reasoning ends the
        run.
        """
        at, advice = self._truncated_at(reply)
        if action.truncated == "reasoning":
            return Stopped(f"reply {at}, all of them reasoning{advice}", cut=True)
        text = _truncated_text(action)
        stopped = Stopped(f"reply {at}{advice}", text, cut=True)
        was_retried = self.truncated_replies > 1
        is_kept_answer = action.answers and self.strategy.keeps_cut_answers
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
        except RunEndedError as over:
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
            yield from self.check(action.answer)
        return Stopped(limit, as_text(action.answer))

    # ── an answer that ends with code ─────────────────────────────────────────────────────────────

    @property
    def _code_requests(self) -> CodeRequests:
        return CodeRequests(
            self.exchange, self.wire.instructions, has_grammars=self.facts.has_grammars
        )

    def ask_for_code(self, request: AskModel) -> Requests[ModelReply]:
        """Ask for code, in a step of its own."""
        self.guards.steps += 1
        reply = yield replace(request, step=self.guards.steps)
        received = yield from self.reply_or_end(reply)
        self.guards.add_usage(received, message_tokens(request.messages))
        return received

    def with_code(self, ending: Answered) -> Flow:
        """An answer with its block of code; if it lacks it, the model is asked once more."""
        if block_in(ending.text) or self.guards.limit_reached():
            return ending
        yield Notice("check", "the answer has no code: the model is asked for it")
        request = self._code_requests.code(self.request(""), ending.text)
        try:
            received = yield from self.ask_for_code(request)
        except RunEndedError as over:
            return over.ending if isinstance(over.ending, Interrupted) else ending
        block = block_in(split_thoughts(received.text)[0])
        return replace(ending, text=f"{ending.text}\n\n{block}") if block else ending

    # ── how probable an answer was ────────────────────────────────────────────────────────────────

    def with_odds(self, ending: Answered) -> Flow:
        """An answer with how probable its options were.

        If no reply that has the answer tells it, the model is asked for the answer again: once
        where the endpoint then tells it, else several times, to see how often it is the same.
        """
        form = self.exchange.form
        if form is None or not options_in(form.schema):
            return ending
        answer = as_json(ending.text)
        odds = odds_of(form.schema, answer, self.tokens)
        others: list[Json] = []
        while not odds and len(others) < SAMPLES - 1 and not self.guards.limit_reached():
            try:
                reply = yield from self.ask_aside(self._again(form))
            except RunEndedError as over:
                return over.ending if isinstance(over.ending, Interrupted) else ending
            others.append(as_json(split_thoughts(reply.text)[0]))
            odds = odds_of(form.schema, others[-1], reply.tokens)
        if not odds and others:
            odds = agreement(form.schema, answer, others)
        return replace(ending, odds=odds)

    def _again(self, form: AnswerForm) -> AskModel:
        """The request for the same answer, in a reply that has nothing else."""
        asked = self.request()
        again = f"Answer now, with nothing but JSON of this type: {form.text}"
        return replace(
            asked,
            messages=(*asked.messages, {"role": "user", "content": again}),
            tools=(),
            schema=form.schema,
            grammar="",
            stop=(),
            alternatives=ALTERNATIVES,
            temperature=SAMPLE_TEMPERATURE,
            about="odds",
        )

    def _correct(self, action: Action, correction: str) -> None:
        """Record a reply that is not accepted, as the model wrote it, and what it is told."""
        written = ""
        if not action.calls:  # else it is in their step
            text = split_thoughts(self.reply.text)[0].strip()
            written = keep_both_ends(text, _MAX_WRITTEN)
        step = StepRecord(
            action.thought, correction=correction, reasoning=action.reasoning, written=written
        )
        ending = self.wire.ending_call(self.reply, action)
        if ending is not None and (action.answers or action.failure is not None):
            name, tool_input, extra = ending
            call = ToolCall(call_id(self._number, self.guards.steps, 0), name, tool_input)
            extras = {} if extra is None else {call.id: extra}
            step = replace(step, rejected=call, extras=extras)
        self.add(step)

    def add(self, step: StepRecord) -> None:
        """Add a step to the record and to what is sent."""
        if not step.said:
            step = replace(step, kept=self.kept)
            self.kept = {}
        self.exchange.steps.append(step)
        self.conversation.add(step)
        if found := offers_of([step]):
            self.wire = self.wire.offering(found)
            self.conversation.use(self.wire)

    # ── programs ──────────────────────────────────────────────────────────────────────────────────

    def _perform_program(self, action: Action) -> Requests[Ending | None]:
        """Run the program of a reply; None means that the run continues."""
        self.programs.begin(action.program)
        self.temperature = None
        end = yield from self.programs.run(action.program, action.thought)
        if isinstance(end, ProgramFaults):
            self.guards.record_fault()
            report = faults_report(end)
            step = StepRecord(
                action.thought, reasoning=action.reasoning, program=action.program, report=report
            )
            self.add(step)
            self._leave_out_repeated(action.program, report, end.faults[0])
            return None
        return (yield from self.after_program(end, action.thought, action.reasoning))

    def after_program(
        self, end: ProgramEnded, thought: str = "", reasoning: str = ""
    ) -> Requests[Ending | None]:
        """Record a program that has ended; None means that the run continues."""
        runner = self.programs
        if end.interrupted or runner.was_interrupted:
            self.add(runner.step(thought, interrupted_report(runner.told), reasoning))
            if runner.was_interrupted:
                return _interrupted_call(runner.calls, runner.outcomes)
            return Interrupted("a program")
        if finish := _finish_of(runner.outcomes):
            self.add(runner.step(thought, calls_report(runner.told), reasoning))
            return (yield from self._finish(finish, thought))
        if correction := (yield from self.strategy.may_end_program(end, self)):
            yield Notice(
                "check", f"the model is asked to confirm before the run ends: {correction}"
            )
            self.add(runner.step(thought, correction, reasoning))
            return None
        if end.has_answer:
            if fault := (yield from self.check(end.answer, end.given)):
                self.guards.record_fault()
                runner.has_failed = True
                answer = SHOWN_TO_USER if runner.hides_values else end.answer
                report = rejection_text(answer, fault)
                if self.strategy.advice:
                    report = f"{report}\n{self.strategy.advice}"
                self.add(runner.step(thought, report, reasoning))
                self._leave_out_repeated(runner.text, report)
                return None
            # The answer is the last message of the exchange; its sources come before it.
            report = calls_report(runner.told)
            step = runner.step(thought, report, reasoning)
            is_sent = bool(report) or self.wire.sends_answered_programs
            self.add(replace(step, is_left_out=not is_sent))
            return Answered(as_text(end.answer), thought)
        if end.gave_up is not None:
            step = runner.step(thought, calls_report(runner.told), reasoning)
            self.add(replace(step, is_left_out=not step.report))
            return Failed(end.gave_up)
        report = ended_report(end, runner.told)
        self.add(runner.step(thought, report, reasoning))
        if end.error is not None or end.lost:
            self.guards.record_fault()
            self._leave_out_repeated(runner.text, report, end.error)
        else:
            self.guards.record_step(runner.outcomes)
        return None

    def _leave_out_repeated(self, program: str, report: str, fault: Fault | None = None) -> None:
        """Leave out failed programs that a model writes again and again, and keep their fault.

        A model may copy its own faulty reply for ever. The effects of a program stay known.
        """
        is_again = program in self.failed_programs
        self.failed_programs.add(program)
        if fault is not None:
            is_again |= self.strategy.is_same_fault(fault)
        if not is_again:
            return
        steps = self.exchange.steps
        for index, step in enumerate(steps):
            made = (each for each in step.outcomes if not each.repeats)
            has_done = any(each.status == "done" for each in made)
            if step.program in self.failed_programs and not has_done:
                steps[index] = replace(step, is_left_out=True)
        self.note(report)
        self.temperature = RETRY_TEMPERATURE

    def note(self, report: str) -> None:
        """Tell the model, below the question, about a program that is no longer sent."""
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
            self.add(replace(step, is_left_out=not report))
        if isinstance(end, ProgramEnded) and end.has_answer:
            return replace(action, program="", answer=end.answer, null=end.answer is None)
        shown = ""
        if isinstance(end, ProgramEnded) and not self.programs.hides_values:
            shown = "\n".join(end.shown)
        return replace(action, program="", thought=shown or action.thought)

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
                outcomes[call.id] = self.guards.calls.record(call, outcome)
            if any(outcome.status == "interrupted" for outcome in reply.outcomes):
                for call in waiting:
                    outcomes[call.id] = CallOutcome("not_run", _INTERRUPTED_BEFORE, call_id=call.id)
                return

    def _contradicts_hint(self, call: ToolCall) -> bool:
        """Whether function calling offered a tool that the strategy had switched off."""
        return self.wire.tool_specs is not None and call.name in self.switched_off

    def _batch(
        self, waiting: deque[ToolCall], outcomes: dict[str, CallOutcome]
    ) -> Requests[list[ToolCall]]:
        """Take the next calls to run together; add the outcomes of those that are not run.

        The second of two identical calls waits for the first, as it would in a separate reply.
        """
        batch: list[ToolCall] = []
        keys: set[str] = set()
        while waiting and not (keys and self.guards.calls.is_duplicate(waiting[0], keys)):
            call = waiting.popleft()
            if call.name in self.wire.switched_off or self._contradicts_hint(call):
                text = f"{call.name} is not available now: use another tool, or answer."
                outcomes[call.id] = CallOutcome("refused", text, call_id=call.id)
                yield Notice("repair", f"{call.name} was not run: it is not available now")
                continue
            outcome = self.guards.calls.earlier(call)
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

    def sources(self) -> Iterator[str]:
        """All texts of tools, questions and outcomes, including those dropped by compaction."""
        yield from (tool.text for tool in self.wire.tools.values())
        for message in messages_of(self.wire, [*self.past, self.exchange]):
            if message["role"] in ("user", "tool"):
                yield from texts_of(message)


def _interrupted_call(calls: Sequence[ToolCall], outcomes: Sequence[CallOutcome]) -> Interrupted:
    """The ending of a run whose calls were interrupted, or of which a person stopped one."""
    for call, outcome in zip(calls, outcomes, strict=False):  # of a program, the last may have none
        if outcome.decision is not None and outcome.decision.kind == "stopped":
            return Interrupted(f"the approval of {call.name}")
    return Interrupted("a tool call")


def _finish_of(outcomes: Sequence[CallOutcome]) -> Finish | None:
    """How a tool wants the run to end; the first one if several do."""
    return next((each.finish for each in outcomes if each.finish is not None), None)


def _truncated_text(action: Action) -> str:
    """The useful part of a truncated reply for a person: the begun answer, or the plain text."""
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
