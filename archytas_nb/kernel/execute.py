"""Run tool calls in the live kernel, on the thread that the user's code runs on.

Each call comes to exactly one outcome: done, error, refused, interrupted, or not run. A tool may raise, print,
display or be interrupted; this file never lets any of it escape but as an outcome. Calls are run one after
another, but neighbouring ``async def`` tools at the same time; what must be approved is approved first.
"""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from contextvars import Token
from dataclasses import dataclass, replace
from typing import Any

from archytas_nb.errors import ToolTimeout
from archytas_nb.kernel import outcomes, routing
from archytas_nb.kernel.approve import Approve, Approver
from archytas_nb.kernel.background import Ended, Job, run_jobs
from archytas_nb.kernel.capture import Capture, guarded
from archytas_nb.kernel.decision import Decision
from archytas_nb.kernel.figures import Figures
from archytas_nb.kernel.namespace import Namespace
from archytas_nb.kernel.patience import Clock, Patient
from archytas_nb.kernel.person import Keyboard, Person, asked
from archytas_nb.kernel.signals import Watch, watching
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.tools.bound import BoundCall
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox

__all__ = ["Approve", "KernelExecutor"]

_SECONDS_TO_SHOW = 2.0
"""What a result may take to be rendered where the time of its call is over: what was done must not be lost."""


@dataclass(frozen=True, slots=True)
class _Ready:
    """A call that may be run."""

    call: ToolCall
    tool: Tool
    bound: BoundCall
    decision: Decision
    capture: Capture


class KernelExecutor:
    """Runs the calls of one run.

    Args:
        tools: The tools of the run; a tool that is defined anew meanwhile does not change them.
        namespace: Where names are looked up and large results are kept.
        approve: A policy for the calls whose tools want approval, or a callable that decides on every call; None
            asks the person.
        person: Who is asked; by default whoever is at the keyboard.
        on_output: Given what a tool prints, in pieces, while it runs; maybe on another thread, but never two
            pieces at a time.
        on_question: Given what a person is asked, before they are, and an empty text when that is over.
        allow: Names of tools that are run without being asked about.
    """

    def __init__(
        self,
        tools: Toolbox,
        namespace: Namespace,
        approve: Approve | None = None,
        person: Person | None = None,
        on_output: Callable[[str], None] | None = None,
        on_question: Callable[[str], None] | None = None,
        *,
        allow: Collection[str] = (),
    ) -> None:
        self._tools = tools
        self._namespace = namespace
        self._person = Patient(Keyboard() if person is None else person, guarded(on_question))
        self._approver = Approver(approve, allow, self._person)
        self._on_output = guarded(on_output)
        from archytas_nb.tools import result  # noqa: F401  (loaded now, not in the time of the first tool)

    @property
    def waited(self) -> float:
        """Seconds that a person has taken to answer so far."""
        return self._person.waited

    def run(
        self, calls: Sequence[ToolCall], seconds: float | None = None
    ) -> tuple[CallOutcome, ...]:
        """Run calls in their order.

        Args:
            calls: The calls of one reply.
            seconds: How long they may take together, but for the time that a person took to answer; None for no
                limit.

        Returns:
            One outcome for each; after an interrupt the rest are ``not_run``.
        """
        made: list[CallOutcome] = []
        with watching() as watch:
            self._person.watch = watch
            clock = Clock(seconds, self._person)
            for group in self._groups(calls):
                if watch.interrupts or _is_interrupted(made):
                    break
                made += self._run_group(group, watch, clock)
        if watch.interrupts and not _is_interrupted(
            made
        ):  # it came between two calls, or after the last one
            if len(made) < len(calls):
                made.append(outcomes.interrupted_before(calls[len(made)]))
            else:
                made[-1] = outcomes.interrupted_late(made[-1])
        return (*made, *(outcomes.not_run(call) for call in calls[len(made) :]))

    def _groups(self, calls: Sequence[ToolCall]) -> Iterator[Sequence[ToolCall]]:
        """Calls that may run at the same time: neighbours whose tools are async; any other stands alone."""
        start = 0
        for end, call in enumerate(calls, 1):
            if end == len(calls) or not (self._is_async(call) and self._is_async(calls[end])):
                yield calls[start:end]
                start = end

    def _is_async(self, call: ToolCall) -> bool:
        return call.name in self._tools and self._tools[call.name].is_async

    def _run_group(
        self, calls: Sequence[ToolCall], watch: Watch, clock: Clock
    ) -> list[CallOutcome]:
        prepared: list[_Ready | CallOutcome] = []
        for call in calls:
            prepared.append(self._prepared(call, watch, clock))
            if isinstance(prepared[-1], CallOutcome) and prepared[-1].status == "interrupted":
                made = [
                    outcomes.not_run(each.call) if isinstance(each, _Ready) else each
                    for each in prepared
                ]
                return [*made, *map(outcomes.not_run, calls[len(prepared) :])]
        ready = [each for each in prepared if isinstance(each, _Ready)]
        run = iter(self._run_ready(ready, watch, clock) if ready else ())
        made = [next(run) if isinstance(each, _Ready) else each for each in prepared]
        if watch.interrupts and not _is_interrupted(made):
            made[-1] = outcomes.interrupted_late(made[-1])
        return made

    # ── before ────────────────────────────────────────────────────────────────────────────────────

    def _prepared(self, call: ToolCall, watch: Watch, clock: Clock) -> _Ready | CallOutcome:
        """Validate a call and have it approved; an interrupt is raised in here and becomes its outcome."""
        try:
            watch.raises = True
            return self._checked(call, clock)
        except KeyboardInterrupt:
            return outcomes.interrupted_before(call)
        finally:
            watch.raises = False

    def _checked(self, call: ToolCall, clock: Clock) -> _Ready | CallOutcome:
        try:
            tool = self._tools[call.name]
        except KeyError as error:
            return CallOutcome("error", str(error.args[0]), error=error, call_id=call.id)
        bound = tool.bind(call.input, self._namespace)
        if isinstance(bound, CallOutcome):
            return replace(bound, call_id=call.id)
        if clock.is_over():
            return outcomes.no_time_left(call)
        decision = self._approver.decide(tool, call, bound, self._namespace)
        if decision.bound is None:
            return outcomes.not_allowed(call, decision)
        return _Ready(call, tool, decision.bound, decision, Capture(self._on_output))

    # ── running ───────────────────────────────────────────────────────────────────────────────────

    def _run_ready(self, ready: Sequence[_Ready], watch: Watch, clock: Clock) -> list[CallOutcome]:
        """Run calls at the same time; a single one on this thread, where its tool is not async."""
        shared = ready[0].capture if len(ready) == 1 else Capture(self._on_output)
        with routing.capturing([each.capture for each in ready], shared):
            figures = Figures()
            if ready[0].tool.is_async:
                ends = self._on_loop(ready, watch, clock)
            else:
                ends = [self._here(ready[0], watch, clock)]
            made = [
                self._rendered(each, ended, watch, clock)
                for each, ended in zip(ready, ends, strict=True)
            ]
            with self._inside(shared):
                figures.take(shared, [outcome.value for outcome in made])
        made = [
            outcomes.with_output(outcome, each.call, each.decision, each.capture, each.tool)
            for outcome, each in zip(made, ready, strict=True)
        ]
        return made if len(ready) == 1 else outcomes.with_shared(made, shared)

    def _here(self, ready: _Ready, watch: Watch, clock: Clock) -> Ended:
        """Run a call on this thread."""
        limit = clock.limit(ready.tool)
        started = time.perf_counter()
        ended = Ended("interrupted")
        with self._inside(ready.capture):
            try:
                try:
                    watch.raises = True
                    if watch.interrupts:  # it came when nothing could be raised
                        return Ended("interrupted", begun=False)
                    watch.arm(limit)
                    ended = Ended("done", ready.bound.run())
                finally:
                    watch.raises = False  # from here on nothing new is raised
                    while watch.armed:
                        try:
                            watch.disarm()
                        except ToolTimeout:  # it was on its way already
                            continue
            except KeyboardInterrupt:
                pass
            except BaseException as error:  # noqa: BLE001 - a tool may raise anything; the model is told
                ended = Ended("error", error=error)
            seconds = time.perf_counter() - started
            if ended.how == "done" and inspect.isawaitable(ended.value):
                promised = ended.value  # a plain function may give what must be awaited
                job = Job(lambda: promised, clock.limit(ready.tool, seconds))
                [ended] = run_jobs([job], lambda: watch.interrupts > 0)
                return replace(ended, seconds=time.perf_counter() - started)
        return replace(
            outcomes.expired(ended, limit, seconds) if watch.expired else ended, seconds=seconds
        )

    def _on_loop(self, ready: Sequence[_Ready], watch: Watch, clock: Clock) -> list[Ended]:
        """Run calls at the same time on the loop's thread."""

        def job(each: _Ready) -> Job:
            return Job(each.bound.run, clock.limit(each.tool), lambda: self._enter(each.capture))

        return run_jobs([job(each) for each in ready], lambda: watch.interrupts > 0)

    def _rendered(self, ready: _Ready, ended: Ended, watch: Watch, clock: Clock) -> CallOutcome:
        """Render a result: the user's ``__repr__`` runs here, and may print, never end or be interrupted."""
        limit = clock.limit(ready.tool, ended.seconds)
        if limit is not None:
            limit = replace(limit, seconds=max(limit.seconds, _SECONDS_TO_SHOW))
        with self._inside(ready.capture):
            try:
                try:
                    watch.raises = True
                    watch.arm(limit)
                    return outcomes.of(ended, ready.tool, self._namespace)
                finally:
                    watch.raises = False  # as above
                    while watch.armed:
                        try:
                            watch.disarm()
                        except ToolTimeout:
                            continue
            except ToolTimeout as late:
                return outcomes.unshown(ended, late)
            except KeyboardInterrupt:
                return outcomes.of(replace(ended, how="interrupted"), ready.tool, self._namespace)

    def _enter(self, capture: Capture) -> tuple[Token[Any], Token[Any]]:
        return routing.current.set(capture), asked.set(self._person)

    @contextmanager
    def _inside(self, capture: Capture) -> Iterator[None]:
        """Whatever happens in the block belongs to a call."""
        output, person = self._enter(capture)
        try:
            yield
        finally:
            asked.reset(person)
            routing.current.reset(output)


def _is_interrupted(made: Sequence[CallOutcome]) -> bool:
    """Whether one of them was interrupted, be it by a signal, at a prompt, or by what the tool itself raised."""
    return any(outcome.status == "interrupted" for outcome in made)
