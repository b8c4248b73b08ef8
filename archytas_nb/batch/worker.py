"""Asks about one row, in a thread of the map's process or in another process."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from concurrent.futures import TimeoutError as NotYet
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from archytas_nb.agent import Agent
from archytas_nb.batch.gate import Gate, GatedModel
from archytas_nb.batch.store import RowResult
from archytas_nb.driver import Executor
from archytas_nb.errors import ModelError, RunInterrupted, TaskFailed
from archytas_nb.loop.events import CallOutcome, CheckAnswer, ToolCall, Usage, Verdict
from archytas_nb.models.refusals import shortened

T = TypeVar("T")

Later = Callable[[Callable[[], None]], None]
"""Has something called on the main thread, soon."""
_LOOK = 0.1  # seconds between two looks whether the map was stopped


class RowAgent(Agent):
    """The agent of one row: a thread of its own, and tools on the main thread unless they are pure.

    Args:
        model: The row's model.
        gate: The map's gate.
        later: Has something called on the main thread.
        settings: The other arguments of `Agent`.
    """

    def __init__(
        self, model: GatedModel, gate: Gate, later: Later, settings: dict[str, Any]
    ) -> None:
        super().__init__(**{**settings, "model": model})
        self._gated, self._gate, self._later = model, gate, later

    def _executor(self, *given: Any) -> Executor:
        return _RowExecutor(super()._executor(*given), self._may_run_here, self._gated, self._ask)

    def _may_run_here(self, call: ToolCall) -> bool:
        return call.name not in self.tools or self.tools[call.name].pure

    def _ask(self, work: Callable[[], T]) -> T:
        """Call something on the main thread, and wait for it until the map is stopped."""
        future: Future[T] = Future()

        def call() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - for the thread that waits
                    future.set_exception(error)

        self._later(call)
        while True:
            try:
                return future.result(_LOOK)
            except NotYet:
                if future.done():
                    raise
                if self._gate.stopped and future.cancel():
                    self._gate.check()


class _RowExecutor:
    """Runs the calls of one row; what it waits for does not count against the row's time."""

    def __init__(
        self,
        executor: Executor,
        may_run_here: Callable[[ToolCall], bool],
        model: GatedModel,
        on_main: Callable[[Callable[[], Any]], Any],
    ) -> None:
        self._executor, self._may_run_here = executor, may_run_here
        self._model, self._on_main = model, on_main

    def clock(self) -> float:
        """Seconds that have passed, without those that were waited."""
        return self._executor.clock() - self._model.waited

    def run(
        self, calls: Sequence[ToolCall], seconds: float | None = None
    ) -> tuple[CallOutcome, ...]:
        """Run calls here where all their tools are pure, else on the main thread."""
        if all(map(self._may_run_here, calls)):
            return self._executor.run(calls, seconds)
        asked = time.monotonic()

        def work() -> tuple[CallOutcome, ...]:
            self._model.waited += time.monotonic() - asked
            return self._executor.run(calls, seconds)

        outcomes: tuple[CallOutcome, ...] = self._on_main(work)
        return outcomes

    def call(self, work: Callable[[], T], seconds: float | None = None) -> T:  # noqa: ARG002
        """Call what checks an answer; a thread to limit its time would cost more than most rows."""
        return work()


def ask(agent: Agent, question: str, output_type: Any) -> RowResult:
    """Ask about one row; whatever happens to it is its result."""
    started = time.perf_counter()
    price = getattr(agent.model, "price", None)
    result = partial(_result, price and price.cost, started)
    try:
        run = agent.run(question, output_type=output_type, progress=False)
    except (ModelError, TaskFailed) as error:
        used = error.run.usage if error.run is not None else Usage()
        return result("failed", None, str(error), used, getattr(error, "kind", ""))
    except RunInterrupted as stop:
        return result("open", None, "", stop.run.usage if stop.run is not None else Usage())
    if run.incomplete:
        faults = [each.fault for each in run.events if isinstance(each, Verdict) and each.fault]
        why = f"{run.reason}: {faults[-1]}" if faults else run.reason
        return result("failed", None, shortened(why), run.usage)
    checked = [each.answer for each in run.events if isinstance(each, CheckAnswer)]
    answer = checked[-1] if output_type is not None and checked else run.answer
    return result("done", answer, "", run.usage)


def ask_elsewhere(
    settings: dict[str, Any],
    question: str,
    output_type: Any,
    attempt: str,  # noqa: ARG001
) -> RowResult:
    """Ask about one row in another process; a cluster may keep the result of an equal attempt."""
    model = GatedModel(without_retries(settings["model"]), Gate())
    return ask(Agent(**{**settings, "model": model}), question, output_type)


def without_retries(model: Any) -> Any:
    """The model without retries of its own, which a stop could not end."""
    return model.without_retries() if hasattr(model, "without_retries") else model


def _result(
    price: Callable[[Usage], float] | None, started: float, status: str, answer: Any, error: str,
    usage: Usage, kind: str = "",
) -> RowResult:  # fmt: skip
    if price is not None and not usage.usd:
        usage = replace(usage, usd=price(usage))
    seconds = round(time.perf_counter() - started, 3)
    return RowResult(status, answer, error, usage, seconds, usage, kind)
