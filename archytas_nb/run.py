"""The result of one question: the value that a cell displays and a script uses."""

from __future__ import annotations

import dataclasses
import itertools
import json
import sys
import threading
import time
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, Literal, TypeAlias

from archytas_nb.errors import (
    CassetteMiss,
    ConditionError,
    ConfigurationError,
    ModelError,
    RunError,
    RunInterrupted,
    TaskFailed,
    has_group,
    with_users_frames,
)
from archytas_nb.hints import OPERATORS, CalledModule, hinted, no_operator
from archytas_nb.loop import events as ev
from archytas_nb.loop.record import Exchange, Inbox
from archytas_nb.tools.render import failure_text
from archytas_nb.undo.transaction import VariableWatch
from archytas_nb.words import truncate_line

if TYPE_CHECKING:
    from pathlib import Path

    from typing_extensions import TypeVar

    from archytas_nb.choices import AskBefore
    from archytas_nb.code.check import Check
    from archytas_nb.code.recorded import Recorded
    from archytas_nb.code.verify import Proof
    from archytas_nb.effects.ledger import Effect
    from archytas_nb.namespace import Namespace
    from archytas_nb.tools.tool import Tool
    from archytas_nb.undo.reads import ReadTracker

    T = TypeVar("T", default=str)
    T_co = TypeVar("T_co", covariant=True, default=Any)
else:
    from typing import TypeVar

    T = TypeVar("T")
    T_co = TypeVar("T_co", covariant=True)

_MAX_ARGUMENTS = 60  # characters of the arguments of a call, where a number comes from

Display: TypeAlias = Literal["all", "answer", "nothing"]
"""The parts of a run that are displayed."""


Events: TypeAlias = Generator[ev.Event, None, None]

AnswerCheck: TypeAlias = Callable[..., ev.Verdict]
"""Checks an answer and converts it to the required type; a second argument is the value itself."""

Observer: TypeAlias = Callable[[ev.Event], object]
"""Called with every event of a run, in order, including the pieces of a streamed reply.

An observer that displays the form of a call to approve returns the form; it is then not printed.
"""


@hinted
@dataclass(frozen=True, slots=True)
class Step:
    """One reply of the model and its calls.

    Attributes:
        number: Its number in the run, from 1.
        thought: The model's text before its calls, or before its answer.
        calls: Each call with its outcome, in order; none if the reply was the answer.
        program: The program that made the calls; empty if they were not made by one.
    """

    number: int
    thought: str = ""
    calls: tuple[tuple[ev.ToolCall, ev.CallOutcome], ...] = ()
    program: str = ""


RunStatus: TypeAlias = Literal["answered", "unsure", "failed", "stopped", "interrupted"]

_STATUS: dict[type, RunStatus] = {
    ev.Answered: "answered", ev.Stopped: "stopped", ev.Interrupted: "interrupted",
}  # fmt: skip


@hinted
@dataclass(slots=True)
class Run(Generic[T_co]):
    """The result of one question; ``Run[int]`` if the answer had to be an int.

    Attributes:
        question: The question.
        protocol: The wire protocol that was used.
        model: The model's name.
        events: Requests, replies, notices and the ending, in order.
        ending: How the run ended; None during the run.
        seconds: Wall time of the whole run.
        error: The error of the endpoint, the condition or the configuration that ended the run.
        watch: Can undo the changes to the variables; None if nothing was watched.
        value: The Python value that was requested or returned; None if there is none.
        pieces: The pieces received so far of the next reply.
        price: The price of the model's tokens, if known.
        tools: The tools of the run, by name.
        namespace: The variables of the user; None if the run could not start.
        reads: The variables that its calls have read; None if the extension did not note them.
        asks_before: Before what its code asks a person.
        folders: The folders in which it may write, besides the working folder.
    """

    question: str
    protocol: str = ""
    model: str = ""
    events: list[ev.Event] = field(default_factory=list)
    ending: ev.Ending | None = None
    seconds: float = 0.0
    error: ModelError | ConditionError | ConfigurationError | None = None
    watch: VariableWatch | None = None
    value: Any = None
    pieces: list[ev.Delta] = field(default_factory=list, repr=False)
    price: Any = None
    tools: Mapping[str, Tool] = field(default_factory=dict, repr=False, compare=False)
    namespace: Namespace | None = field(default=None, repr=False, compare=False)
    reads: ReadTracker | None = field(default=None, repr=False, compare=False)
    asks_before: Collection[AskBefore] = field(default=(), repr=False, compare=False)
    folders: Collection[Path] = field(default=(), repr=False, compare=False)
    _is_typed: bool = False  # whether a type was required
    _display: Display = "all"
    _least: float = 0.0  # the confidence below which the answer is unsure
    _schema: ev.Json = None  # of the answer, if its confidence was to be told

    @property
    def status(self) -> RunStatus:
        """How the run ended."""
        if isinstance(self.ending, ev.Answered) and self._least:
            confidence = self.confidence
            if confidence is None or confidence < self._least:
                return ev.UNSURE
        return _STATUS.get(type(self.ending), "failed")

    @property
    def odds(self) -> Mapping[str, Mapping[str, float]]:
        """The probability of each option, by the fields of the answer; ``"answer"`` for the whole.

        It is empty unless the question was asked with `unsure`. An endpoint that tells no
        probabilities is asked for the answer several times: they are then shares of its answers.
        """
        return self.ending.odds if isinstance(self.ending, ev.Answered) else {}

    @property
    def confidence(self) -> float | None:
        """The probability of the answer, the lowest one of its fields; None if it is not known."""
        if not self.odds:
            return None
        from archytas_nb.loop.odds import as_json, chosen_odds

        found = chosen_odds(self._schema, as_json(self.answer), self.odds)
        return min(found.values(), default=None)

    def require_confidence(self, unsure: float, exchange: Exchange) -> None:
        """Have the confidence of the answer told, and leave the answer out where it is low.

        Raises:
            ValueError: The threshold is none, or the type of the answer has more than a few values.
        """
        from archytas_nb.loop.odds import check_threshold, require_options

        check_threshold(unsure)
        self._schema = None if exchange.form is None else exchange.form.schema
        require_options(self._schema)
        self._least = float(unsure)
        exchange.wants_odds = True

    @property
    def answer(self) -> str:
        """The final answer, or the model's last text if a limit ended the run; otherwise empty."""
        if isinstance(self.ending, (ev.Answered, ev.Stopped)):
            return self.ending.text
        return ""

    @property
    def repairs(self) -> int | None:
        """How many programs of a small model failed before the one that computed the answer.

        None if no program computed it from data, or there is no answer. An answer without a repair
        is right far more often than a repaired one.
        """
        return self.ending.repairs if isinstance(self.ending, ev.Answered) else None

    @property
    def output(self) -> T_co:
        """The value of the requested type, or the answer as text if none was requested.

        None if the answer is unsure; what it would be is in `answer` and `odds`.

        Raises:
            RunError: There is no such value: the run is incomplete or failed.
        """
        if not self._is_typed:
            return self.answer  # type: ignore[return-value]
        if not isinstance(self.ending, ev.Answered):
            error = RunError(f"the run has no value of the required type: {self.reason}")
            error.run = self
            raise error
        if self.status == ev.UNSURE:
            return None  # type: ignore[return-value]
        return self.value  # type: ignore[no-any-return]

    @property
    def incomplete(self) -> bool:
        """Whether a limit ended the run or a reply was truncated."""
        return isinstance(self.ending, ev.Stopped)

    @property
    def reason(self) -> str:
        """Why there is no complete answer; empty if there is one."""
        match self.ending:
            case ev.Stopped(limit=limit):
                return limit
            case ev.Failed(reason=reason):
                return reason
            case ev.Interrupted(during=during, stopped=stopped):
                how = "stopped by you" if stopped else "interrupted"
                return f"{how} during {during}"
        return ""

    @property
    def calls(self) -> list[tuple[ev.ToolCall, ev.CallOutcome]]:
        """All calls that were run, with their outcomes, in order."""
        return list(itertools.chain.from_iterable(step.calls for step in self.steps))

    @property
    def is_watched(self) -> bool:
        """Whether changes of variables by its calls were watched; true if no call can change any.

        Code in a copy of the kernel changes none, but may have called tools that do.
        """
        if self.watch is not None and self.watch.covers_calls:
            return True
        return all(each.place and not each.called for _, each in self.calls)

    def assign(self, name: str, value: Any) -> None:
        """Assign a variable, so that it can be undone with the run."""
        if self.namespace is None:
            raise RuntimeError(
                f"the run has not begun, so {name!r} cannot be assigned with it: wait for its "
                "first event"
            )
        if self.watch is None:
            self.watch = VariableWatch(self.namespace, covers_calls=False)
        self.watch.assign(name, value)

    @property
    def diff(self) -> ev.Diff:
        """The changes of the calls to your variables, in order, with a list of unwatched parts."""
        diffs = [outcome.diff for _, outcome in self.calls if outcome.diff is not None]
        if self.watch is not None:
            diffs += self.watch.assigned
        chain = itertools.chain.from_iterable
        not_watched = [*chain(diff.not_watched for diff in diffs), *self._unwatched]
        return ev.Diff(
            tuple(chain(diff.changes for diff in diffs)),
            tuple(dict.fromkeys(not_watched)),
            tuple(dict.fromkeys(chain(diff.not_kept for diff in diffs))),
        )

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects of the calls besides variables, in order: files, programs, connections."""
        return tuple(each for _, outcome in self.calls for each in outcome.effects)

    def undo(self, *, force: bool = False) -> tuple[ev.NotCovered | ev.Kept, ...]:
        """Restore the variables to their state before the run.

        What the run did not change is left alone, and so is what was changed since the run, or what
        another variable uses since: it is returned as `Kept`.

        Args:
            force: Whether to restore also what was changed or used since.

        Returns:
            What was kept, what could not be restored, and what was not watched.

        Raises:
            RuntimeError: The run has not ended, or another agent is running a call on the same
                variables.
        """
        if self.ending is None:
            raise RuntimeError("the run has not ended yet: undo it afterwards")
        notes: tuple[ev.NotCovered, ...] = ()
        if self.watch is not None:
            notes = self.watch.undo(force=force)
        return (*notes, *self._files_moved(back=False, force=force), *self._unwatched)

    def redo(self) -> tuple[ev.NotCovered | ev.Kept, ...]:
        """Bring back what `undo` has replaced; possible until the agent is asked again.

        What was changed since the undo is left alone.

        Returns:
            What was kept, and what could not be restored.

        Raises:
            RuntimeError: Another agent is running a call on the same variables.
        """
        notes: tuple[ev.NotCovered, ...] = ()
        if self.watch is not None:
            notes = self.watch.redo()
        return (*notes, *self._files_moved(back=True))

    def _files_moved(self, *, back: bool, force: bool = False) -> Iterator[ev.NotCovered | ev.Kept]:
        """Undo what the calls did to files, or do it again."""
        if not self.effects:
            return
        from archytas_nb.effects.ledger import kept_files, undo

        for _, outcome in self.calls if back else reversed(self.calls):
            effects = [each.reversed if back else each for each in outcome.effects]
            for effect, why, is_kept in undo(effects, kept_files, force=force):
                if is_kept:
                    yield ev.Kept(effect.shown, why)
                elif effect.before is not None or not back:
                    yield ev.NotCovered(effect.shown, why)

    @property
    def _unwatched(self) -> tuple[ev.NotCovered, ...]:
        """The calls, if they were not watched."""
        if self.is_watched:
            return ()
        return (ev.NotCovered("", "the changes of this question"),)

    @property
    def steps(self) -> list[Step]:
        """The model's replies in order, each with its calls; an unusable reply has none."""
        made: dict[int, Step] = {}
        asked: ev.RunCalls | None = None
        ran: ev.RunProgram | None = None
        before = ""  # the program of a step without its last part
        for event in self.events:
            match event:
                case ev.AskModel(step=number) if not event.is_side_request:
                    made.setdefault(number, Step(number))
                case ev.RunProgram(step=number):
                    before = made[number].program
                    ran = event
                    made[number] = _with_program(made[number], event)
                case ev.ProgramEnded(ran=str()) if ran is not None:
                    step = replace(made[ran.step], program=before)
                    as_run = replace(ran, text=event.as_run(ran.text))
                    made[ran.step] = _with_program(step, as_run)
                case ev.RunCalls(program=program) if program:
                    asked = event
                case ev.RunCalls():
                    asked = event
                    made[event.step] = replace(made[event.step], thought=event.thought)
                case ev.CallOutcomes() if asked is not None:
                    calls = tuple(zip(asked.calls, event.outcomes, strict=True))
                    step = made[asked.step]
                    made[asked.step] = replace(step, calls=(*step.calls, *calls))
                case ev.Answered(thought=thought) if made:
                    last = max(made)
                    made[last] = replace(made[last], thought=thought)
        return list(made.values())

    @property
    def sources(self) -> tuple[ev.Span, ...]:
        """The numbers and quoted names of the answer, each with the result that it comes from.

        A number whose origin is ``"nowhere"`` is in no result of this run, so the model made it up
        or worked it out by itself. An origin is not proof of the truth. Without a call or a program
        there are no results, and so no sources.
        """
        return self.ending.spans if isinstance(self.ending, ev.Answered) else ()

    def linked(self, answered: ev.Answered) -> ev.Answered:
        """An answer with the origins of its numbers and names."""
        ran = [each for each in self.events if isinstance(each, (ev.CallOutcomes, ev.ProgramEnded))]
        if not ran:
            return answered
        from archytas_nb.provenance import Source, link, program_source

        found: list[Source] = [
            program_source(
                text,
                [*ended.assigned_texts.values(), *map(str, ended.computed.values()), *ended.shown],
                answer,
                step,
            )
            for step, text, ended, answer in self._ended_programs(answered.text)
        ]
        given = [self.question]
        for step in self.steps:
            for call, outcome in step.calls:
                if outcome.status == "done":
                    arguments = json.dumps(call.input, ensure_ascii=False, default=str)
                    shown = f"{call.name}({truncate_line(arguments[1:-1], _MAX_ARGUMENTS)})"
                    found.append(Source(shown, outcome.text, outcome.value, step.number))
                    tool = self.tools.get(call.name)
                    # The numbers in code are the model's own.
                    if tool is None or not tool.runs_code:
                        given.append(arguments)
        try:
            return replace(answered, spans=link(answered.text, found, given))
        except Exception:  # noqa: BLE001 - a value may be anything, and no answer is lost for marks
            return answered

    def _ended_programs(self, answer: str) -> Iterator[tuple[int, str, ev.ProgramEnded, str]]:
        """The programs that ran, each with its step, how it ended, and the answer if it gave it."""
        programs = {each.number: each.program for each in self.steps}
        step = 0
        for event in self.events:
            if isinstance(event, ev.RunProgram):
                step = event.step
            elif isinstance(event, ev.ProgramEnded):
                yield step, programs[step], event, answer if event.has_answer else ""

    @property
    def messages(self) -> list[ev.Message]:
        """The conversation as last sent to the model, with the answer."""
        asked = [each for each in self.events if isinstance(each, ev.AskModel)]
        asked = [each for each in asked if not each.is_side_request]
        sent: list[ev.Message] = []
        if asked:
            sent += asked[-1].messages
        if self.answer:
            return [*sent, {"role": "assistant", "content": self.answer}]
        return sent

    @property
    def usage(self) -> ev.Usage:
        """Requests and tokens of the run."""
        used = [each.usage for each in self.events if isinstance(each, ev.ModelReply)]
        if used:
            return sum(used[1:], used[0])
        return ev.Usage()

    @property
    def cost(self) -> float | None:
        """USD according to the endpoint or ``genai-prices``; None if it is not known."""
        usages = [each.usage for each in self.events if isinstance(each, ev.ModelReply)]
        usd = sum(each.usd for each in usages)
        # An endpoint that does not report tokens does not report their cost either.
        counted = [each for each in usages if each.tokens and not each.usd]
        if counted and self.price is not None:
            usd += float(self.price.cost(sum(counted, ev.Usage())))
        return usd or None

    def to_json(self) -> dict[str, ev.Json]:
        """The run as JSON: its question, ending, usage and events, without live Python objects."""
        names = ("question", "status", "answer", "reason", "model", "protocol", "seconds")
        facts = {name: getattr(self, name) for name in names}
        return {**facts, "usage": dataclasses.asdict(self.usage), "events": to_json(self.events)}

    def code(self) -> str:
        """The run as Python code that calls the tools as the functions that they are.

        Failed and repeated calls are left out, and results that later calls use are variables.
        Guesses, and numbers that the model made up, are marked with comments. No model is asked.

        Raises:
            RuntimeError: The run has not ended.
        """
        from archytas_nb.code.derive import derive

        return derive(self.recorded()).text

    def verify(self) -> Proof:
        """Run the code of the run from the state before it, and compare all values.

        Everything is undone. Tools that ask for approval are not called, nor is any model. If the
        changes of the run were not watched, the code begins with the variables as they are.

        Returns:
            How many values are equal, and the first that is not; ``holds`` if all are.

        Raises:
            RuntimeError: The run has not ended.
        """
        from archytas_nb.code.derive import derive
        from archytas_nb.code.verify import verify

        recorded = self.recorded()
        return verify(derive(recorded), recorded)

    def check(self) -> Check:
        """Check whether the answer still holds with the variables as they are now.

        If nothing that the calls read has changed, it holds. Otherwise the code of the run runs
        again, in a transaction that is undone, and its values are compared. No model is asked.

        Returns:
            Whether it holds, has changed (with the old and the new values), or cannot be told: if a
            tool uses files, the network, the time or random numbers, or asks for approval.

        Raises:
            RuntimeError: The run has not ended.
        """
        from archytas_nb.code.check import check
        from archytas_nb.code.derive import derive

        recorded = self.recorded()
        return check(derive(recorded), recorded)

    def recorded(self) -> Recorded:
        """The record from which the code of the run is derived."""
        from archytas_nb.code.recorded import Recorded

        if self.ending is None:
            raise RuntimeError("the run has not ended yet, so it has no code: wait for its end")
        return Recorded(
            self.question,
            self.events,
            self.tools,
            {} if self.namespace is None else self.namespace,
            self.ending,
            self.value,
            self._is_typed,
            self.watch,
            self.reads,
            self.is_watched,
            self.asks_before,
            self.folders,
        )

    def __str__(self) -> str:
        return self.answer

    def __repr__(self) -> str:
        return self.answer or f"<Run {self.status}: {self.reason}>"

    def __bool__(self) -> bool:
        return True

    def __format__(self, spec: str) -> str:
        return format(self.answer, spec)

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute
        # Operators that values have and a run has not: the error says how to get the value.
        locals().update({name: no_operator(name) for name in OPERATORS})

    def checked(self) -> Run[T_co]:
        """Return the run itself if it was answered or a limit ended it.

        Raises:
            ModelError: The endpoint failed.
            ConditionError: The condition could not be evaluated.
            ConfigurationError: No model is available.
            TaskFailed: The model gave up.
            RunInterrupted: The run was interrupted.
        """
        error: RunError | ConfigurationError | None = None
        if isinstance(self.error, CassetteMiss):
            # Even if the run recovered: a replay that differs from its recording fails.
            error = self.error
        elif isinstance(self.ending, ev.Interrupted):
            raise self.interrupt()
        elif isinstance(self.ending, ev.Failed):
            reason = self.ending.reason
            error = self.error
            if self.ending.by == "model":
                error = TaskFailed(reason)
            elif error is None:
                error = ModelError(reason)
            elif isinstance(error, ModelError) and error.kind == "overflow":
                error = ModelError(reason, kind="overflow", status=error.status)
        if error is not None:
            error.run = self
            cause = None
            if isinstance(error, ConditionError):
                cause = error.__cause__
            raise error from cause
        return self

    def interrupt(self) -> RunInterrupted:
        """Return the exception to raise for the user's interrupt."""
        match self.ending:
            case ev.Interrupted(during=during):
                when = f"during {during}. The conversation is intact: ask again."
            case None:
                when = "before anything was asked. The conversation is intact: ask again."
            case _:
                when = "after the run had ended; its result is in .run."
        interrupt = RunInterrupted(f"stopped {when}")
        interrupt.run = self
        return interrupt

    def show(self, what: Display) -> None:
        """Set what is displayed: ``"all"`` is the answer with folded steps.

        If a trace already shows the answer, ``"nothing"`` avoids displaying it twice.
        """
        self._display = what

    def _ipython_display_(self) -> None:
        if self._display != "nothing":
            raise NotImplementedError  # IPython then displays it like any object

    def _repr_html_(self) -> str | None:
        return self._repr_mimebundle_()[0].get("text/html")

    def _repr_mimebundle_(self, **_: Any) -> tuple[dict[str, str], dict[str, Any]]:
        from archytas_nb.trace import value_bundle
        from archytas_nb.trace.fold import fold

        view = fold(self.question, self.events, model=self.model, protocol=self.protocol)
        return value_bundle(view, repr(self), with_steps=self._display == "all")


def _with_program(step: Step, asked: ev.RunProgram) -> Step:
    """A step with its program, or with the next part of it."""
    program = asked.text
    if asked.is_part and step.program:
        program = f"{step.program}\n{program}"
    return replace(step, program=program, thought=asked.thought or step.thought)


_LIVE = frozenset({"value", "error", "objects", "values", "given"})
"""The fields of events that hold Python objects."""


def to_json(value: Any) -> ev.Json:
    """An event or events as JSON: each is a dict with the name of its class as ``"event"``.

    Live Python objects, such as `CallOutcome.value` and ``.error``, are left out.
    """
    if dataclasses.is_dataclass(value):
        names = [each.name for each in dataclasses.fields(value) if each.name not in _LIVE]
        fields = {name: getattr(value, name) for name in names}
        if isinstance(value, ev.CallOutcome):
            fields["text"] = value.text
        return {"event": type(value).__name__, **{key: to_json(fields[key]) for key in fields}}
    if isinstance(value, (tuple, list)):
        return [to_json(item) for item in value]
    if isinstance(value, Mapping):
        return {key: to_json(item) for key, item in value.items()}
    return value


# ── the events of a run ───────────────────────────────────────────────────────────────────────────


def run_events(
    run: Run, exchange: Exchange, begin: Callable[[], Events], keep: Callable[[], None],
    observers: Sequence[Observer], inbox: Inbox,
) -> Events:  # fmt: skip
    """Start a run; record its events, pass them to the observers, and yield them.

    In any case the run gets an ending and is kept. An interrupt while an event is handled
    interrupts the run, which still ends properly. If the person has stopped the run (`inbox`), its
    ending says so.
    """
    events = _started_lazily(begin)

    def finish() -> None:
        events.close()
        exchange.ending = _with_cause(exchange.ending or ev.Interrupted("the run"), inbox)
        run.ending = exchange.ending
        keep()

    try:
        try:
            yield from _observe(run, exchange, events, observers, inbox)
        except Exception as error:  # of a model, an observer or a policy that the user wrote
            if has_group(error):
                raise _told_whole(error, run) from error
            with_users_frames(error)
            raise
        finally:
            finish()
    finally:  # again, because an interrupt may have stopped the first attempt
        finish()


def _told_whole(error: Exception, run: Run) -> RunError:
    """An error with the text of a group, which a cell shows as its error."""
    failed = RunError(failure_text(error))
    failed.run = run
    return failed


def _started_lazily(begin: Callable[[], Events]) -> Events:
    """The events of a run that starts when the first one is requested."""
    yield from begin()


def _with_cause(ending: ev.Ending, inbox: Inbox) -> ev.Ending:
    """The ending of a run, which says whether the person has stopped it."""
    if isinstance(ending, ev.Interrupted) and inbox.is_stopped:
        return replace(ending, stopped=True)
    return ending


def _observe(
    run: Run, exchange: Exchange, events: Events, observers: Sequence[Observer], inbox: Inbox
) -> Events:
    started = time.perf_counter()
    interrupted = False
    event = next(events, None)
    while event is not None:
        if isinstance(event, ev.Delta):
            run.pieces.append(event)
        else:
            if isinstance(event, ev.Interrupted):
                event = exchange.ending = _with_cause(event, inbox)
            elif isinstance(event, ev.Answered):
                event = exchange.ending = run.linked(event)
            run.pieces.clear()
            run.events.append(event)
            run.seconds = time.perf_counter() - started
        try:
            for observer in observers:
                observer(event)
            yield event
        except KeyboardInterrupt as stop:
            interrupted = True
            event = _throw(events, stop)
        else:
            event = next(events, None)
    if interrupted and not isinstance(exchange.ending, ev.Interrupted):
        raise KeyboardInterrupt  # too late for this run, but not for the code after it


def _throw(events: Events, stop: KeyboardInterrupt) -> ev.Event | None:
    """The next event after an interrupt; None if the run had already ended."""
    try:
        return events.throw(stop)
    except StopIteration:
        return None


def ending_only(exchange: Exchange, ending: ev.Ending) -> Events:
    """The events of a run that could not start."""
    exchange.ending = ending
    yield ending


def notifier(observers: Sequence[Observer]) -> Callable[[ev.Delta], bool]:
    """A function that passes what a running call prints, displays or asks to the observers.

    Their errors do not reach the tool. It returns whether an observer displays the form.
    """
    lock = threading.RLock()  # several threads of a tool may print

    def notify(delta: ev.Delta) -> bool:
        is_shown = False
        for observer in observers:
            with lock, suppress(Exception):  # this runs inside the tool's print
                returned = observer(delta)
                is_shown = is_shown or (delta.form is not None and returned is delta.form)
        return is_shown

    return notify


sys.modules[__name__].__class__ = CalledModule
