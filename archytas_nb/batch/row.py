"""Asks about one row: an agent without a conversation, on a thread or in another process."""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, Protocol, TypeAlias, TypeVar

from archytas_nb.answers import Answers
from archytas_nb.batch.elsewhere import SentCalls
from archytas_nb.batch.limiter import Limiter, RowModel
from archytas_nb.batch.store import RowResult
from archytas_nb.driver import ask
from archytas_nb.effects.ledger import Ledger, noted_in
from archytas_nb.errors import ConfigurationError
from archytas_nb.kernel.approval import CallingProgram
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.person import Keyboard
from archytas_nb.loop import events as ev
from archytas_nb.loop.calls_made import Effects
from archytas_nb.loop.limits import Clock
from archytas_nb.loop.model import Model, person_of
from archytas_nb.loop.record import AnswerForm, Exchange
from archytas_nb.loop.stop import Stop
from archytas_nb.prepare import ModelChoice, Prepared, Question, RunSetup
from archytas_nb.run import Run
from archytas_nb.tools.toolbox import Toolbox
from archytas_nb.words import collapse_whitespace

T = TypeVar("T")


OnMain: TypeAlias = Callable[[Callable[[], Any]], Any]
"""Calls something on the main thread, waits for it, and returns its result."""


def run_here(work: Callable[[], T]) -> T:
    """Call something on this thread, where there is no other one to call it on."""
    return work()


class RowExecutor(KernelExecutor):
    """Runs the calls of one row: on the main thread, unless their tools are pure."""

    on_main: OnMain
    ledger: Ledger | None = None
    effects: Effects | None = None
    calls: SentCalls | None = None

    def run(
        self,
        calls: Sequence[ev.ToolCall],
        seconds: float | None = None,
        callers: Mapping[str, CallingProgram] = MappingProxyType({}),
    ) -> tuple[ev.CallOutcome, ...]:
        """Run calls, as soon as the main thread is free."""
        run = super().run
        if self.effects is None:
            return self._in_place(calls, partial(run, calls, seconds, callers))
        outcomes: list[ev.CallOutcome] = []
        for call in calls:
            outcome = None
            if self._has_effects(call):
                outcome = self.effects.earlier(call)
            if outcome is None:
                made = self._in_place([call], partial(run, [call], seconds, callers))
                outcome = made[0]
            outcomes.append(outcome)
        return tuple(outcomes)

    def _may_ask(self, call: ev.ToolCall) -> bool:
        return call.name in self._tools and self._tools[call.name].may_require_approval

    def _has_effects(self, call: ev.ToolCall) -> bool:
        return call.name in self._tools and not self._tools[call.name].pure

    def _in_place(
        self, calls: Sequence[ev.ToolCall], run: Callable[[], tuple[ev.CallOutcome, ...]]
    ) -> tuple[ev.CallOutcome, ...]:
        """Run calls on the thread on which their tools may run."""
        if not any(self._has_effects(each) or self._may_ask(each) for each in calls):
            return run()
        asked = time.monotonic()

        def work() -> tuple[ev.CallOutcome, ...]:
            self.clock.waited += time.monotonic() - asked
            return run()

        outcomes: tuple[ev.CallOutcome, ...] = self.on_main(work)
        return outcomes

    def _run_ready(self, ready: Sequence[Any]) -> list[ev.CallOutcome]:
        """Run calls here or, after their approval, in another process."""
        if self.calls is None:
            with noted_in(self.ledger):  # which takes over that of each call
                return super()._run_ready(ready)
        return [self._sent(each, self.calls) for each in ready]

    def _sent(self, ready: Any, calls: SentCalls) -> ev.CallOutcome:
        seconds = None
        if self._ends is not None:
            seconds = max(self._ends - self._now(), 0.001)
        caller = self._callers.get(ready.call.id, CallingProgram())
        guard = self._guard
        outcome = calls.outcome(
            ready.tool, ready.input, caller, seconds, lambda: guard.interrupts > 0
        )
        return replace(
            outcome,
            call_id=ready.call.id,
            decision=ready.clearance.decision,
            allowed=ready.clearance.allowed,
            edit=ready.clearance.edit,
        )

    def call(self, work: Callable[[], T], seconds: float | None = None) -> T:  # noqa: ARG002
        """Call what checks an answer; a thread to limit its time would cost more than most rows."""
        return work()


def row_executor(
    setup: RunSetup,
    tools: Toolbox,
    model: Model,
    clock: Clock,
    on_main: OnMain,
    calls: SentCalls | None,
    ledger: Ledger | None = None,
) -> RowExecutor:
    """The executor for the calls of one row."""
    executor = RowExecutor(
        tools,
        setup.variables,
        setup.settings.approve,
        person_of(model, Keyboard(), hides_values=setup.hides_values),
        allow=setup.settings.allowed,
        clock=clock,
        permitted=setup.permitted,
        ask_before=setup.settings.ask_before,
        folders=setup.settings.paths,
        file_bounds=setup.settings.file_bounds,
    )
    executor.on_main = on_main
    executor.calls = calls
    executor.ledger = ledger
    return executor


class AnswerReader(Protocol):
    """Reads the answer to a question about rows, as `Answers` does."""

    form: AnswerForm | None

    def check(self, answer: ev.Json, /, *given: Any, variables: Any = None) -> ev.Verdict:
        """Check an answer."""


def ask_row(
    setup: RunSetup,
    model: RowModel,
    question: str,
    answers: AnswerReader,
    on_main: OnMain = run_here,
    effects: Effects | None = None,
    calls: SentCalls | None = None,
    ledger: Ledger | None = None,
) -> RowResult:
    """Ask about a row in a conversation of its own.

    Args:
        setup: The setup that all rows share.
        model: The model of this row.
        question: The question.
        answers: The type of the answers.
        on_main: Calls something on the main thread.
        effects: The calls with side effects that were already made for it.
        calls: Makes the calls in another process; None for this one.
        ledger: Takes over what the calls do outside of the variables.

    Raises:
        ConfigurationError: No row can be asked about.
    """
    run = Run[Any](question, _is_typed=answers.form is not None)
    # Variables that calls of a row create go with it.
    variables = ChainMap({}, setup.variables)
    check = None
    if answers.form is not None:
        check = answers.check

    def make_executor(prepared: Prepared, *_: Any) -> KernelExecutor:  # nobody observes a row
        executor = row_executor(
            prepared.setup, prepared.tools, prepared.model, model.clock, on_main, calls, ledger
        )
        executor.effects = effects
        return executor

    asked = ask(
        replace(setup, choice=ModelChoice(model), namespace=variables),
        run,
        Question(
            Exchange(question, form=answers.form, is_row=True, wants_odds=setup.wants_odds),
            check,
            is_typed=answers.form is not None,
        ),
        make_executor=make_executor,
    )
    started = time.perf_counter()
    with closing(asked) as events:
        for _ in events:
            stop = Stop.current.get()
            if stop is not None and stop.event.is_set():
                break
    if isinstance(run.error, ConfigurationError):
        raise run.error
    seconds = round(time.perf_counter() - started, 3)
    result = replace(_result(run), usage=model.usage, seconds=seconds, spent=model.spent)
    return result if calls is None else calls.ended(result)


def _result(run: Run[Any]) -> RowResult:
    """The result of a row, without its costs."""
    if run.status == "interrupted":
        return RowResult("open")
    if run.status == "answered":
        checked = [each.answer for each in run.events if isinstance(each, ev.CheckAnswer)]
        answer = checked[-1] if checked else run.answer
        odds = run.ending.odds if isinstance(run.ending, ev.Answered) else {}
        return RowResult("done", answer=answer, odds=odds)
    why = run.reason
    if run.incomplete:
        verdicts = [each for each in run.events if isinstance(each, ev.Verdict)]
        faults = [each.reason for each in verdicts if each.fault]
        if faults:  # the limit comes last: what was wrong is what a person looks for
            why = f"answer not accepted: {faults[-1]} ({why})"
    error = collapse_whitespace(str(run.error or why))
    return RowResult("failed", error=error, kind=getattr(run.error, "kind", ""))


def ask_elsewhere(
    setup: RunSetup, output_type: Any, question: str, effects: Effects | None
) -> RowResult:
    """Ask about a row in another process."""
    model = RowModel(setup.choice.given, Limiter())
    answers = Answers(output_type, None, {})
    result = ask_row(setup, model, question, answers, effects=effects)
    return failed_if_refused(result, effects)


def failed_if_refused(result: RowResult, effects: Effects | None) -> RowResult:
    """A result; a failure if a call was not made because the row had been done before."""
    if effects is None or not effects.refused or result.status != "done":
        return result
    error = f"it would call {effects.refused}, which the program did not call in this way"
    return replace(result, status="failed", answer=None, error=error)
