"""Drives one run: carries out the loop's requests, sends it the replies, and yields every event.

Whatever happens (an interrupt, an observer that raises, a caller that stops iterating), the loop
reaches its ending, so that the record is complete. Neither IPython nor any other library is used.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias, TypeVar

from archytas_nb.cells.ran import last_failure, settle
from archytas_nb.choices import ActiveProtocol
from archytas_nb.conversation import Conversation
from archytas_nb.errors import (
    CassetteMiss,
    ConditionError,
    ConfigurationError,
    Explained,
    FileError,
    ModelError,
    ToolError,
    ToolTimeout,
)
from archytas_nb.interrupts import defer_interrupts
from archytas_nb.kernel.approval import CallingProgram
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.permission import NOTEBOOK, Source
from archytas_nb.kernel.person import Keyboard, Person, person_elsewhere
from archytas_nb.loop import events as ev
from archytas_nb.loop.limits import Guards
from archytas_nb.loop.loop import Flow, react_loop
from archytas_nb.loop.model import Model, ModelFacts, person_of, start_question, told_to
from archytas_nb.loop.reading.reply import prose_of
from archytas_nb.loop.record import Exchange, Inbox, columns_in, kinds_in
from archytas_nb.models import sent
from archytas_nb.models.secrets import mask_results
from archytas_nb.prepare import Prepared, Question, RunSetup, origin_and_execution, prepare
from archytas_nb.run import (
    Events,
    Observer,
    Run,
    ending_only,
    notifier,
    run_events,
)
from archytas_nb.settings import value
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.tools.current import follow_into_threads, host
from archytas_nb.tools.toolbox import Toolbox
from archytas_nb.tools.variables import is_users_name
from archytas_nb.undo.reads import ReadTracker
from archytas_nb.undo.transaction import VariableWatch

T = TypeVar("T")

if TYPE_CHECKING:
    from archytas_nb.answers import Answers
    from archytas_nb.kernel.disclosure import Disclosure
    from archytas_nb.loop.plan_first import PlannedRun
    from archytas_nb.telemetry import RunSpans


class Sandbox(Protocol):
    """Runs the programs of a run; `archytas_nb.sandbox.session.Session` is the real one."""

    def run(self, text: str, *, is_part: bool = False, may_lack: bool = False) -> ev.ProgramReply:
        """Run a program, or its next part, until it ends or waits for calls."""

    def resume(self, outcomes: Sequence[ev.CallOutcome]) -> ev.ProgramReply:
        """Continue with the outcomes of the calls that it waits for."""

    def stop(self) -> ev.ProgramEnded:
        """End the program after an interrupt; what its calls returned stays in its variables."""

    def close(self) -> Any:
        """End the session; return its variables for the next question."""


@dataclass(frozen=True, slots=True)
class _SwitchToTextProtocol:
    """In place of a reply: the run continues with the text protocol."""

    why: str


@dataclass(slots=True)
class Driver:
    """Drives one run.

    Attributes:
        run: The run, which gets the protocol, the value and the error that ends it.
        prepared: Everything that is decided about the question.
        executor: Runs its calls.
        inbox: The person's messages to the agent during the run.
        show: Shows what a call shows while it runs.
        messages: The messages of the last request.
    """

    run: Run
    prepared: Prepared
    executor: KernelExecutor
    inbox: Inbox
    show: Callable[[ev.Delta], bool]
    messages: Sequence[ev.Message] = ()
    exchange: Exchange = field(init=False)
    past: Sequence[Exchange] = field(init=False)
    model: Model = field(init=False)
    guards: Guards = field(init=False)
    disclosure: Disclosure | None = field(init=False)  # None if the model may learn all
    _sandbox: Sandbox | None = field(default=None, init=False)
    _told: Callable[[], Sequence[str]] = field(default=tuple, init=False)
    _is_stopped: bool = field(default=False, init=False)  # an interrupt came between two requests
    _host: RunHost | None = field(default=None, init=False)  # once there were calls
    # questions of a tool that got no answer
    _missed: CassetteMiss | None = field(default=None, init=False)
    _has_said_outdated: bool = field(default=False, init=False)
    _planned: PlannedRun | None = field(default=None, init=False)  # once a plan is asked for
    _mask: Callable[[str], str] = field(init=False)  # replaces the secrets in a text

    def __post_init__(self) -> None:
        prepared = self.prepared
        self.exchange = prepared.exchange
        self.past = prepared.past
        self.model = prepared.model
        # The time that a person takes to answer does not count.
        self.guards = prepared.guards(self.executor.clock)
        asked = [each for each in self.run.events if isinstance(each, ev.AskModel)]
        self.guards.steps = max((each.step for each in asked), default=0)
        self.disclosure = prepared.disclosure()
        self._mask = mask_results(prepared.variables)

    @property
    def may_fall_back(self) -> bool:
        """Whether the text protocol takes the place of function calling where that fails."""
        return self.prepared.settings.protocol == "auto"

    def events(self) -> Events:
        """Yield every event, the ending last; an interrupt thrown into it ends the run properly."""
        protocol = self.prepared.protocol
        server = ModelFacts(self.model).server
        yield from self._emit(ev.Started(self.run.model, protocol, server, self.exchange.told))
        with defer_interrupts() as deferred:  # what was taken from the inbox must be recorded
            self.inbox.open()
            self._told = told_to(self.model, self.inbox.take, self.run.question)
            flow = self._flow(protocol)
            request = next(flow)
        self._is_stopped |= deferred.interrupted
        ending: ev.Ending | None = None
        try:
            while ending is None:
                reply = yield from self._reply(request)
                if isinstance(reply, _SwitchToTextProtocol):
                    # Nothing was done in this step: continue from the same record.
                    text = f"{reply.why}: continuing with the text protocol"
                    yield from self._emit(ev.Notice("protocol", text))
                    flow = self._flow("react")
                    request = next(flow)
                    continue

                with defer_interrupts() as deferred:
                    # The outcomes of tools must be recorded before an interrupt is handled.
                    if reply is None:
                        reply = self._run_requested(request)
                    # The model and the notebook that is saved get no secrets; the values stay.
                    reply = ev.with_texts(reply, self._mask)
                    told = reply
                    if self.disclosure is not None:
                        told = self.disclosure.redact(reply)
                    try:
                        request = flow.send(told)
                    except StopIteration as ended:
                        ending = self._ending(ended.value)
                self._is_stopped |= deferred.interrupted
                yield from self._asked_aside()
                if reply is not None:
                    yield from self._emit(reply)
        except BaseException:  # the caller stopped iterating, or something failed
            if ending is None:
                _finish_loop(flow, request)
            raise
        finally:
            self._close()

        yield from self._report_unread_messages()
        yield ending
        if deferred.interrupted and not isinstance(ending, ev.Interrupted):
            raise KeyboardInterrupt  # too late for this run, but not for the code after it

    def _asked_aside(self) -> Events:
        """Questions of tools to the model, which count but are not shown."""
        if self._host is not None:
            for event in self._host.take():
                yield from self._emit(event)

    def _report_unread_messages(self) -> Events:
        """Say which texts of the person came after the last request."""
        while late := self.inbox.late:
            yield from self._emit(ev.Notice("late", late[0]))
            self.inbox.said_late()

    def _close(self) -> None:
        """Keep what later questions need: the variables of programs, and what calls have read."""
        self.inbox.close()
        self.executor.scratch.remove()
        if self._sandbox is not None:
            self.exchange.program_state = self._sandbox.close()
        if self.executor.copy is not None:
            self.executor.copy.close()
        if self.run.reads is not None:
            self.run.reads.end(self.run.diff)
        if self.disclosure is not None:
            self.disclosure.end()
        sent.purpose.set(None)

    def _emit(self, event: ev.Event) -> Events:
        """Yield an event; an interrupt while it is handled stops the run at the next request."""
        try:
            yield event
        except KeyboardInterrupt:
            self._is_stopped = True

    def _reply(
        self, request: ev.Request
    ) -> Generator[ev.Event, None, ev.Reply | _SwitchToTextProtocol]:
        """The reply to a request; None for a notice, and for calls, which are still to be run."""
        why = self._fallback_reason(request)
        if why:
            return _SwitchToTextProtocol(why)
        if isinstance(request, ev.RunProgram):
            request = replace(request, yours=self._names_of_both(request.text))
        yield from self._emit(request)

        reply: ev.Reply = None
        if self._is_stopped:
            reply = _interrupted_reply(request)
        elif isinstance(request, ev.AskModel):
            reply = yield from self._ask_model(request)
        elif isinstance(request, ev.CheckAnswer):
            reply = self._check_answer(request)

        why = self._fallback_reason(request, reply)
        if why:
            return _SwitchToTextProtocol(why)
        return reply

    def _run_requested(
        self, request: ev.Request
    ) -> ev.CallOutcomes | ev.ProgramReply | ev.PlanDecision | None:
        """Run the calls or the program of a request; None for one that asks for neither."""
        reads = self.run.reads
        if isinstance(request, ev.ApprovePlan):
            return self._plan_decision(request)
        if isinstance(request, ev.RunCalls):
            return self._run_calls(request)
        if isinstance(request, (ev.RunProgram, ev.ResumeProgram)):
            before = reads.copy() if reads is not None else None
            if isinstance(request, ev.RunProgram):
                self._note_program(request.text)
            reply = self._run_program(request)
            if isinstance(reply, ev.ProgramFaults):  # nothing of it was run
                self.run.reads = before
            return reply
        return None

    def _run_calls(self, request: ev.RunCalls) -> ev.CallOutcomes:
        """Run calls, unless they were written before the model knew of a change."""
        reads = self.run.reads
        if why := self.inbox.stale(request.calls):
            stale = ev.CallOutcome("not_run", why)
            return ev.CallOutcomes(tuple(replace(stale, call_id=each.id) for each in request.calls))
        if reads is not None:
            reads.calls(request.calls)
        seconds = self.guards.seconds_left()
        callers = {
            each.id: CallingProgram(request.program, line, request.objects.get(each.id, {}))
            for each, line in zip(request.calls, request.lines, strict=False)
        }
        if self.disclosure is not None:
            follow_into_threads()
            callers |= self._callers_by_name(request, self.disclosure)
        if self._host is None:
            self._host = RunHost(self)
        token = host.set(self._host)
        try:
            outcomes = self.executor.run(request.calls, seconds, callers)
        finally:
            host.reset(token)
        if reads is not None:
            reads.outcomes(outcomes)
        return ev.CallOutcomes(outcomes)

    def _names_of_both(self, program: str) -> tuple[str, ...]:
        """The variables of the notebook whose names a program gives to variables of its own."""
        try:
            bound = Bindings.of(program).bound_in_order
        except (SyntaxError, ValueError, RecursionError, MemoryError):  # it fails to run, too
            return ()
        variables = self.prepared.variables
        return tuple(each for each in bound if each in variables and is_users_name(each))

    def _note_program(self, text: str) -> None:
        """Note the text of a program, for what it reads and for the names in it."""
        if self.run.reads is not None:
            self.run.reads.code(text)
        if self.disclosure is not None:
            self.disclosure.record_program(text)

    @staticmethod
    def _callers_by_name(request: ev.RunCalls, disclosure: Disclosure) -> dict[str, CallingProgram]:
        """The caller of calls that name variables as arguments, with the values of these."""
        if request.program:
            disclosure.record_program_calls(request.calls)
            return {}
        objects = disclosure.objects(request.calls)
        return {call: CallingProgram(objects=given) for call, given in objects.items()}

    def _run_program(self, request: ev.RunProgram | ev.ResumeProgram) -> ev.ProgramReply:
        """Run or continue a program until it ends or waits for calls."""
        if self._sandbox is None:
            self._sandbox = self._open_sandbox()
        sandbox = self._sandbox
        work: Callable[[], ev.ProgramReply]
        if isinstance(request, ev.RunProgram):
            work = partial(
                sandbox.run, request.text, is_part=request.is_part, may_lack=request.may_lack
            )
        else:
            work = partial(sandbox.resume, request.outcomes)
        try:
            return self.executor.call(work, seconds=self.guards.seconds_left())
        except KeyboardInterrupt:
            return sandbox.stop()
        except ToolTimeout as error:
            return replace(sandbox.stop(), interrupted=False, lost=str(error))

    def _open_sandbox(self) -> Sandbox:
        """The sandbox for programs, with the variables of the earlier ones of the conversation."""
        from archytas_nb.sandbox.bounds import Bounds
        from archytas_nb.sandbox.session import Session, State

        states = (each.program_state for each in reversed(self.past))
        state = next((each for each in states if each is not None), None)
        settings = self.prepared.settings
        context = self.exchange.context
        if context is not None and context.in_copy:
            from archytas_nb.sandbox.in_copy import CopySession, Ran

            before = state if isinstance(state, Ran) else None
            tables = context.in_copy
            return CopySession(
                self.prepared.tools, self.prepared.variables, tables, Path.cwd(), before
            )
        if not isinstance(state, State):
            state = None
        return Session(
            self.prepared.tools,
            self.prepared.variables,
            state,
            Bounds(**settings.program_bounds),
            names_variables=settings.context != "none",
        )

    def _ending(self, ending: ev.Ending) -> ev.Ending:
        """The ending; a failure tells whether the cassette or the configuration was the cause."""
        if isinstance(ending, ev.Failed) and isinstance(self.run.error, CassetteMiss):
            ending = self.exchange.ending = replace(ending, by="cassette")
        elif isinstance(ending, ev.Failed) and isinstance(self.run.error, FileError):
            ending = self.exchange.ending = replace(ending, by="recording")
        elif isinstance(ending, ev.Failed) and isinstance(self.run.error, ConfigurationError):
            ending = self.exchange.ending = replace(ending, by="setup")  # no endpoint was asked
        if self.disclosure is not None:
            ending = self.exchange.ending = self._filled(ending, self.disclosure)
        return ending

    def _filled(self, ending: ev.Ending, disclosure: Disclosure) -> ev.Ending:
        """The ending with the values that the answer names; the model reads it without them."""
        outcomes = (each for step in self.exchange.steps[-1:] for each in step.outcomes)
        is_of_tool = any(each.finish is not None for each in outcomes)
        if self.run.protocol == "program" or is_of_tool:  # the model did not write it
            self.exchange.said = disclosure.said
            return ending
        if isinstance(ending, (ev.Answered, ev.Stopped)):
            self.exchange.said = ending.text
            return replace(ending, text=disclosure.filled(ending.text))
        if isinstance(ending, ev.Failed) and ending.by == "model":
            self.exchange.said = ending.reason
            return replace(ending, reason=disclosure.filled(ending.reason))
        return ending

    def _flow(self, protocol: ActiveProtocol) -> Flow:
        self.run.protocol = protocol
        flow = react_loop(
            self.prepared.wire(protocol), self.guards, self.past, self.exchange,
            checks=self.prepared.check is not None or self.disclosure is not None,
            profile=self.prepared.profile, told=self._told,
            summarises=self.prepared.summarises,
        )  # fmt: skip
        if not self.prepared.setup.plans:
            return flow
        if self._planned is None:
            self._planned = self._plan_first()
        return self._planned.flow(flow)

    def _plan_first(self) -> PlannedRun:
        from archytas_nb.loop.plan_first import PlannedRun

        context = self.exchange.context
        # The request is only looked at: nothing of it may be noted in the record.
        unsent = replace(self.prepared, exchange=replace(self.exchange))
        return PlannedRun(
            unsent.first_request,
            tuple(self.prepared.tools),
            () if context is None else context.tools,
            self.exchange,
            self.guards,
            self.guards.limits.reply_tokens(self.prepared.profile.reply_tokens),
        )

    def _plan_decision(self, request: ev.ApprovePlan) -> ev.PlanDecision:
        """Have a person approve a plan; where nobody is asked about calls, nobody is asked."""
        from archytas_nb.kernel.plan_tool import plan_tool
        from archytas_nb.loop.plan_first import read_plan

        policy = self.prepared.settings.approve
        if not callable(policy) and (policy != "ask" or not self.executor.can_ask):
            return ev.PlanDecision(request.text, is_asked=False)
        text, fault = request.text, ""
        while True:
            # It changes nothing, so there is nothing to preview or to watch.
            setup = self.prepared.setup.but(preview=None, allow=())
            prepared = replace(self.prepared, setup=setup, tools=Toolbox(plan_tool(fault)))
            executor = notebook_executor(prepared, self.run, self.show, inbox=self.inbox)
            call = ev.ToolCall("plan", "plan", {"steps": text})
            [outcome] = executor.run([call], self.guards.seconds_left())
            self.executor.clock.waited += executor.clock.waited
            if outcome.status != "done":
                return ev.PlanDecision(reason=_reason_of(outcome))
            text = outcome.value
            try:
                read_plan(text, request.tools)
            except ValueError as error:
                fault = str(error)
            else:
                return ev.PlanDecision(text)

    def _fallback_reason(self, request: ev.Request, reply: ev.Reply = None) -> str:
        """Why the run continues with the text protocol; empty if it does not."""
        if not self.may_fall_back or self.run.protocol != "native":
            return ""
        if isinstance(reply, ev.NoReply) and reply.kind == "no_tools":
            self.run.error = None
            return "the endpoint does not support tools"
        if reply is not None or not isinstance(request, ev.AskModel):
            return ""
        if request.tools and self.model.protocol == "react":
            return "the model writes its calls into the text"
        return ""

    def _ask_model(
        self, request: ev.AskModel
    ) -> Generator[ev.Event, None, ev.ModelReply | ev.NoReply]:
        if not request.is_side_request:
            self.messages = request.messages
        if self._missed is not None:
            self.run.error = self._missed
            return ev.NoReply("endpoint", str(self._missed))
        sent.purpose.set(self.purpose())
        for text in self._outdated_tools():
            yield ev.Notice("tool", text)
        if request.tools and self.may_fall_back:
            request = replace(request, has_text_form=True)
        try:
            reply = yield from self.model.complete(request)
        except KeyboardInterrupt:
            # A side request shows nothing of its reply.
            return ev.NoReply("interrupted", "" if request.is_side_request else self._written)
        except (ModelError, ConfigurationError) as error:
            self.run.error = error
            match getattr(error, "kind", ""):
                case "deadline":
                    return ev.NoReply("deadline", self._written)
                case "no_tools" | "overflow" as kind:  # the loop can still handle it
                    return ev.NoReply(kind, str(error), _explained(error))
            return ev.NoReply("endpoint", str(error), _explained(error))
        self.run.error = None  # the run has recovered from any earlier error
        if self.model.name != self.run.model:  # a default that is gone; another one has answered
            self.run.model = self.model.name
            self.run.price = ModelFacts(self.model).price
        return reply

    def _outdated_tools(self) -> list[str]:
        """Differences between tools and their files, reported once in a run."""
        if self._has_said_outdated:
            return []
        texts = chain.from_iterable(tool.outdated for tool in self.run.tools.values())
        found = list(dict.fromkeys(texts))
        self._has_said_outdated = bool(found)
        return found

    def note_miss(self, error: CassetteMiss) -> None:
        """Let the next request fail: a replay differs from its recording in what a tool asked."""
        if self._missed is None:  # the first is the cause
            self._missed = error

    def purpose(self, *, is_of_tool: bool = False) -> sent.Purpose:
        """The purpose of a request, for the list of sent requests."""
        exchange = self.exchange
        exchanges = (*self.past, exchange)
        variables: tuple[str, ...] = ()
        if exchange.context is not None and exchange.context.is_offered:
            variables = exchange.context.names
        kinds = kinds_in(exchanges)
        if is_of_tool:
            kinds = ("what a tool asks",)
        learned: dict[str, int] = {}
        if self.disclosure is not None:
            learned = dict(self.disclosure.learned)
        return sent.Purpose(
            exchange.question,
            exchange.values,
            variables,
            columns_in(exchanges),
            kinds,
            learned,
        )

    @property
    def _written(self) -> str:
        """The part of the next reply that the model has written."""
        return "".join(each.text for each in self.run.pieces if each.kind == "text")

    def _check_answer(self, request: ev.CheckAnswer) -> ev.Verdict | ev.NoReply:
        if self.disclosure is not None and not request.given:
            answer = str(request.answer)
            if fault := self.disclosure.fault(answer):
                return ev.Verdict(fault, is_bare=True)
            request = replace(request, answer=self.disclosure.filled(answer))
        if self.prepared.check is None:
            return ev.Verdict(value=request.answer)
        check = partial(
            self.prepared.check,
            request.answer,
            *request.given,
            variables=self.executor.with_copied(request.answer, is_answer=True),
        )
        try:
            verdict = self.executor.call(check, seconds=self.guards.seconds_left())
        except KeyboardInterrupt:
            return ev.NoReply("interrupted")
        except ConditionError as error:
            self.run.error = error
            return ev.NoReply("condition", str(error))
        except ToolTimeout:
            late = "checking it took longer than was left of this run's time"
            return ev.Verdict(late, is_bare=True)
        if not verdict.fault:
            self.run.value = verdict.value
        return verdict


class RunHost:
    """The interface of a run for the tools that it calls, from any thread."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._asking = threading.Lock()  # one request after another: a recording has an order
        self._lock = threading.Lock()  # of what follows, and never held for long
        self._asked: list[ev.Event] = []  # requests and replies that are not in the run yet

    @property
    def question(self) -> str:
        """The question."""
        return self._driver.exchange.question

    @property
    def values(self) -> str:
        """How much the model may learn of values."""
        disclosure = self._driver.disclosure
        return "all" if disclosure is None else disclosure.values

    @property
    def step(self) -> int:
        """The number of the step, from 1."""
        return self._driver.guards.steps

    @property
    def messages(self) -> Sequence[ev.Message]:
        """The messages of the last request."""
        return self._driver.messages

    def ask(self, prompt: str) -> str:
        """One reply of the model, without tools; counted, and recorded in cassettes.

        Raises:
            ToolError: A limit of the run is reached, or the model may not see values.
            ModelError: The endpoint failed.
        """
        driver = self._driver
        if self.values != "all":
            raise ToolError(
                f"values is {self.values!r}, and what a tool asks the model may "
                "contain values: answer without asking"
            )
        with self._asking:
            if limit := driver.guards.used_up():
                raise ToolError(f"the model is not asked: the limit {limit} of the run is reached")
            request = ev.AskModel(
                driver.guards.steps,
                ({"role": "user", "content": prompt},),
                max_tokens=driver.guards.limits.reply_tokens(driver.prepared.profile.reply_tokens),
                seconds=driver.guards.seconds_left(),
                about="what a tool asks",
            )
            sent.purpose.set(driver.purpose(is_of_tool=True))
            try:
                reply = _returned_by(driver.model.complete(request))
            except CassetteMiss as error:
                driver.note_miss(error)
                raise
            with self._lock:
                driver.guards.add_usage(reply, len(prompt) // 3)
                self._asked += [request, reply]
        return prose_of(reply)

    def type_text(self, cls: Any) -> str:
        """A type in words, for the model; raises ToolError if an answer cannot be of it."""
        form = self._answers(cls).form
        return "" if form is None else form.text

    def convert(self, text: str, cls: Any) -> Any:
        """A reply as a value of a type; raises ValueError."""
        verdict = self._answers(cls).check(_json_of(text))
        if verdict.fault:
            raise ValueError(verdict.fault)
        return verdict.value

    def _answers(self, cls: Any) -> Answers:
        from archytas_nb.answers import Answers

        variables = self._driver.run.namespace
        return Answers(cls, None, {} if variables is None else variables)

    def show(self, delta: ev.Delta) -> None:
        """Show something while the call runs; it is not kept."""
        self._driver.show(delta)

    def count(self, usage: ev.Usage) -> None:
        """Add what another run has used for this one."""
        with self._lock:
            self._driver.guards.usage += usage
            request = ev.AskModel(self.step, (), about="what an agent asks")
            self._asked += [request, ev.ModelReply(usage=usage)]

    def left(self) -> tuple[float | None, int | None]:
        """The seconds and tokens that are left of the limits; None for no limit."""
        guards = self._driver.guards
        tokens = guards.limits.max_total_tokens
        if tokens is not None:
            tokens = max(tokens - guards.usage.tokens, 1)
        return guards.seconds_left(), tokens

    def note_miss(self, error: CassetteMiss) -> None:
        """Let the run fail with this error: a replay differs from its recording."""
        self._driver.note_miss(error)

    def take(self) -> list[ev.Event]:
        """The requests and replies that the run does not have yet."""
        with self._lock:
            taken = self._asked
            self._asked = []
        return taken


def _returned_by(events: Generator[ev.Event, None, T]) -> T:
    """The return value of a generator; its events are not shown."""
    while True:
        try:
            next(events)
        except StopIteration as ended:
            returned: T = ended.value
            return returned


def _json_of(text: str) -> ev.Json:
    """The JSON in a reply, with or without a fence, or else its text."""
    inside = text.strip().removeprefix("```json").strip("`").strip()
    try:
        return json.loads(inside)
    except ValueError:
        return text


def _reason_of(outcome: ev.CallOutcome) -> str:
    """Why a plan was not approved, for the model; empty if the run is to end."""
    decision = outcome.decision
    if decision is not None:
        return decision.reason or ""
    return "" if outcome.status == "interrupted" else outcome.result


def _explained(error: Exception) -> Explained | None:
    """The known parts of an error, without secrets."""
    return error.explained if isinstance(error, ModelError) else None


def _finish_loop(flow: Flow, request: ev.Request) -> None:
    """Run the loop to its ending without carrying out further requests."""
    with defer_interrupts(), suppress(StopIteration):  # the run is being stopped already
        while True:
            request = flow.send(_interrupted_reply(request))


def _interrupted_reply(request: ev.Request) -> ev.Reply:
    if isinstance(request, ev.Notice):
        return None
    if isinstance(request, (ev.AskModel, ev.CheckAnswer)):
        return ev.NoReply("interrupted")
    if isinstance(request, (ev.RunProgram, ev.ResumeProgram)):
        return ev.ProgramEnded(interrupted=True)
    if isinstance(request, ev.ApprovePlan):
        return ev.PlanDecision()
    text = "Not run: the run was interrupted before."
    first, *rest = request.calls
    outcomes: list[Any] = [ev.CallOutcome("not_run", text, call_id=call.id) for call in rest]
    return ev.CallOutcomes((ev.CallOutcome("interrupted", text, call_id=first.id), *outcomes))


# ── asking ───────────────────────────────────────────────────────────────────────────────────────

MakeExecutor: TypeAlias = Callable[[Prepared, Run[Any], Callable[[ev.Delta], bool]], KernelExecutor]
"""Makes the executor for the calls of a run, which shows what they print with a function."""


def ask(
    setup: RunSetup,
    run: Run[Any],
    question: Question,
    conversation: Conversation | None = None,
    inbox: Inbox | None = None,
    observers: Sequence[Observer] = (),
    make_executor: MakeExecutor | None = None,
) -> Events:
    """All events of a question; its record is kept however the run ends.

    Args:
        setup: The tools, model and settings of the question.
        run: Its run.
        question: The question.
        conversation: It keeps the record if that is worth it; None for a new conversation.
        inbox: The person's messages during the run, and whether they end it.
        observers: Functions that see every event.
        make_executor: Makes the executor; None for that of the notebook.
    """
    exchange = question.exchange
    conversation = conversation or Conversation()
    inbox = inbox or Inbox()
    replaced: dict[str, Any] = {}  # the stored results that were deleted
    spans = _spans(setup, run)
    observers = (*observers, *spans)

    def begin() -> Events:
        try:
            model = setup.choice.choose()
            start_question(model, *origin_and_execution(exchange.origin))
            run.model = model.name
            run.price = setup.choice.profile.facts.price
            prepared = prepare(setup, model, question, conversation.exchanges)
        except ConfigurationError as error:
            run.error = error
            return ending_only(exchange, ev.Failed(str(error), by="setup"))
        except ModelError as error:
            run.error = error
            return ending_only(
                exchange, ev.Failed(str(error), by="endpoint", explained=_explained(error))
            )
        except KeyboardInterrupt:
            return ending_only(exchange, ev.Interrupted("a request to the model"))
        for name, earlier in prepared.replaced.items():
            replaced[name] = earlier
            del prepared.variables[name]
        show = notifier(observers)
        run.protocol = prepared.protocol
        run.tools = prepared.tools
        run.namespace = prepared.variables
        run.asks_before = prepared.settings.ask_before
        run.folders = prepared.settings.paths
        run.reads = ReadTracker(prepared.tools, prepared.variables) if setup.tracks_reads else None
        run.watch = run.watch or _watch(prepared)  # a fork has that of its first steps
        make = make_executor or partial(notebook_executor, inbox=inbox)
        return Driver(run, prepared, make(prepared, run, show), inbox, show).events()

    def keep() -> None:
        """Add the record to the conversation if it is worth keeping; may be called repeatedly."""
        inbox.close()  # the driver has done so, unless an interrupt came instead
        is_new = exchange.is_worth_keeping and conversation.keep(exchange)
        if is_new and exchange.error is not None:
            settle(last_failure())
        while replaced:  # results that were not created again are restored
            setup.variables.setdefault(*replaced.popitem())
        for each in spans:
            each.end()

    return run_events(run, exchange, begin, keep, observers, inbox)


def _watch(prepared: Prepared) -> VariableWatch | None:
    """The watch for the changes of a run, if they are watched."""
    if not prepared.settings.watches(by_setting=prepared.profile.runs_python):
        return None
    return VariableWatch(prepared.variables)


def _spans(setup: RunSetup, run: Run[Any]) -> tuple[RunSpans, ...]:
    """The observer that makes spans of a run, if the setting `telemetry` is on."""
    telemetry = value("telemetry")
    if telemetry == "off":
        return ()
    from archytas_nb.telemetry import RunSpans

    told = telemetry == "contents" and not setup.hides_values
    return (RunSpans(run, lambda: setup.choice.profile.facts, with_contents=told),)


def answered(
    setup: RunSetup,
    question: Question,
    conversation: Conversation,
    inbox: Inbox,
    observers: Sequence[Observer],
    run: Run[Any] | None = None,
) -> Run[Any]:
    """Ask a question and wait for the answer; the arguments are those of `ask`.

    `run` is one that has begun already, as that of a fork; None for a new one.

    Raises:
        ArchytasError: There is no answer, as `Agent.run` says.
        RunInterrupted: The run was interrupted.
    """
    if run is None:
        run = Run[Any](question.exchange.question, _is_typed=question.is_typed)
    try:
        for _ in ask(setup, run, question, conversation, inbox, observers):
            pass
    except KeyboardInterrupt:
        raise run.interrupt() from None
    return run.checked()


def notebook_executor(
    prepared: Prepared,
    run: Run[Any],
    show: Callable[[ev.Delta], bool],
    *,
    inbox: Inbox,
    user: Person | None = None,
) -> KernelExecutor:
    """The executor for the calls of a run in the notebook; `user` is who is asked."""
    from archytas_nb.trace.controls import Controls

    settings = prepared.settings
    user = person_elsewhere.get() or user or Controls(Keyboard())

    def show_question(text: str, form: ev.ApprovalForm | None = None) -> bool:
        decision = None if form is None else form.decision
        if decision is not None and decision.kind == "stopped":
            inbox.stop()
        return show(ev.Delta("person", text, form))

    source = NOTEBOOK
    if ModelFacts(prepared.model).is_program:
        source = Source("program")
    elif person_elsewhere.get() is not None:
        source = Source("chat")
    person: Person = person_of(prepared.model, user, hides_values=settings.hides_values)
    return KernelExecutor(
        prepared.tools,
        prepared.variables,
        settings.approve,
        person,
        lambda text: show(ev.Delta("output", text)),
        show_question,
        on_display=lambda each: show(ev.Delta("display", "", output=each)),
        on_ended=lambda each: show(ev.Delta("ended", "", outcome=each)),
        on_progress=lambda text: show(ev.Delta("progress", text)),
        allow=settings.allowed,
        watch=run.watch,
        source=source,
        room=prepared.profile.result_chars,
        keep=run.assign,
        preview=settings.preview,
        ask_before=settings.ask_before,
        folders=settings.paths,
        file_bounds=settings.file_bounds,
        names_answer=prepared.check is not None,
    )
