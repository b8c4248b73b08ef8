"""Asks about one row: an agent without a conversation, on a thread or in another process."""

from __future__ import annotations

import time
from collections import ChainMap
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from archytas_nb.agent import Agent
from archytas_nb.answers import Answers
from archytas_nb.batch.limiter import Limiter, RowModel
from archytas_nb.batch.store import RowResult
from archytas_nb.driver import run_events
from archytas_nb.errors import ConfigurationError
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.loop import events as ev
from archytas_nb.loop.limits import Clock
from archytas_nb.loop.record import Exchange
from archytas_nb.loop.stop import Stop
from archytas_nb.run import Run
from archytas_nb.words import one_line

T = TypeVar("T")


class _RowExecutor(KernelExecutor):
    """Runs the calls of one row: on the main thread, unless their tools are pure."""

    on_main: Callable[[Callable[[], Any]], Any]

    def run(
        self, calls: Sequence[ev.ToolCall], seconds: float | None = None
    ) -> tuple[ev.CallOutcome, ...]:
        """Run calls, as soon as the main thread is free."""
        asked = time.monotonic()
        run = super().run
        if all(each.name not in self._tools or self._tools[each.name].pure for each in calls):
            return run(calls, seconds)

        def work() -> tuple[ev.CallOutcome, ...]:
            self.clock.waited += time.monotonic() - asked
            return run(calls, seconds)

        outcomes: tuple[ev.CallOutcome, ...] = self.on_main(work)
        return outcomes

    def call(self, work: Callable[[], T], seconds: float | None = None) -> T:  # noqa: ARG002
        """Call what checks an answer; a thread to limit its time would cost more than most rows."""
        return work()


class RowAgent(Agent):
    """The agent of a map's rows: made once, it asks about several rows at a time."""

    on_main: Callable[[Callable[[], Any]], Any] = staticmethod(lambda work: work())
    """Calls something on the main thread."""

    def ask(self, model: RowModel, question: str, answers: Answers) -> RowResult:
        """Ask about a row; raises ConfigurationError where none can be asked about."""
        row = object.__new__(RowAgent)
        vars(row).update(vars(self))
        row.model = model
        run = Run[Any](question, _is_typed=answers.form is not None)
        exchange = Exchange(question, form=answers.form)
        check = None if answers.form is None else answers.check
        begin = partial(row._begin, run, exchange, check, ())
        started = time.perf_counter()
        with closing(run_events(run, exchange, begin, lambda: None, ())) as events:
            for _ in events:
                stop = Stop.current.get()
                if stop is not None and stop.event.is_set():
                    break
        if isinstance(run.error, ConfigurationError):
            raise run.error
        seconds = round(time.perf_counter() - started, 3)
        return replace(_result(run), usage=model.usage, seconds=seconds, spent=model.spent)

    def _variables(self) -> ChainMap[str, Any]:
        return ChainMap({}, super()._variables())  # what a row keeps in variables goes with it

    def _executor(self, tools: Any, variables: Any, person: Any, *_: Any) -> _RowExecutor:
        clock: Clock = self.model.clock  # type: ignore[attr-defined]
        given = tools, variables, self._configuration.approve, person
        made = _RowExecutor(*given, allow=self._configuration.allow, clock=clock)
        made.on_main = self.on_main
        return made


def _result(run: Run[Any]) -> RowResult:
    """What became of a row, without its costs."""
    if run.status == "interrupted":
        return RowResult("open")
    if run.status == "answered":
        checked = [each.answer for each in run.events if isinstance(each, ev.CheckAnswer)]
        return RowResult("done", answer=checked[-1] if checked else run.answer)
    why = run.reason
    if run.incomplete:
        verdicts = [each for each in run.events if isinstance(each, ev.Verdict)]
        faults = [each.reason for each in verdicts if each.fault]
        why += f": {faults[-1]}" if faults else ""
    error = one_line(str(run.error or why))
    return RowResult("failed", error=error, kind=getattr(run.error, "kind", ""))


def ask_elsewhere(
    settings: dict[str, Any],
    question: str,
    output_type: Any,
    attempt: str,  # noqa: ARG001
) -> RowResult:
    """Ask about a row in another process; a cluster may keep the result of an equal attempt."""
    model = RowModel(settings["model"], Limiter())
    answers = Answers(output_type, None, {})
    return RowAgent(**settings).ask(model, question, answers)
