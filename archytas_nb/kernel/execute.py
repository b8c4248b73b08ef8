"""Run tool calls in the live kernel, on the thread that the user's code runs on.

Each call comes to exactly one outcome: done, error, refused, interrupted, or not run. A tool may raise, print,
display or be interrupted; this file never lets any of it escape but as an outcome.
"""

from __future__ import annotations

import inspect
import signal
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from archytas_nb.kernel.approve import Approve, Approver
from archytas_nb.kernel.background import run_coroutine
from archytas_nb.kernel.capture import Capture, captured
from archytas_nb.kernel.deadline import deadline
from archytas_nb.kernel.decision import Decision
from archytas_nb.kernel.namespace import Namespace
from archytas_nb.kernel.person import Keyboard, NobodyThereError, Person, asked
from archytas_nb.react.events import CallOutcome, ToolCall
from archytas_nb.tools.clip import clip
from archytas_nb.tools.tool import MAX_CHARS
from archytas_nb.tools.toolbox import Toolbox

__all__ = ["Approve", "KernelExecutor"]


class KernelExecutor:
    """Runs the calls of one run.

    Args:
        tools: The tools of the run; a tool that is defined anew meanwhile does not change them.
        namespace: Where names are looked up and large results are kept.
        approve: A policy for the calls whose tools want approval, or a callable that decides on every call; None
            asks the person.
        person: Who is asked; by default whoever is at the keyboard.
        on_output: Given what a tool prints, in pieces, while it runs; maybe on another thread.
        allow: Names of tools that are run without being asked about.
    """

    def __init__(
        self,
        tools: Toolbox,
        namespace: Namespace,
        approve: Approve | None = None,
        person: Person | None = None,
        on_output: Callable[[str], None] | None = None,
        *,
        allow: Collection[str] = (),
    ) -> None:
        self._tools = tools
        self._namespace = namespace
        self._person: Person = Keyboard() if person is None else person
        self._approver = Approver(approve, allow, self._person)
        self._on_output = on_output

    def run(self, calls: Sequence[ToolCall], seconds: float | None = None) -> tuple[CallOutcome, ...]:
        """Run calls in their order.

        Args:
            calls: The calls of one reply.
            seconds: How long they may take together, but for the time that a person took to answer; None for no
                limit.

        Returns:
            One outcome for each; after an interrupt the rest are ``not_run``.
        """
        ends = None if seconds is None else time.monotonic() + seconds
        outcomes: list[CallOutcome] = []
        with _interrupts_seen() as watch:
            for call in calls:
                outcome = self._watched(call, watch, ends)
                if watch.seen and outcome.status != "interrupted":
                    # A subprocess or a bare `except:` in the tool swallowed it.
                    outcome = replace(_interrupted(call), outputs=outcome.outputs, seconds=outcome.seconds)
                outcomes.append(outcome)
                if outcome.status == "interrupted":
                    break
        rest = calls[len(outcomes) :]
        not_run = (CallOutcome("not_run", "Not run: the user interrupted before.", call_id=c.id) for c in rest)
        return (*outcomes, *not_run)

    def _watched(self, call: ToolCall, watch: _Watch, ends: float | None) -> CallOutcome:
        """Run one call; an interrupt is raised inside it only, so that no outcome of another call is lost."""
        try:
            watch.raises = True
            return self._run_one(call, ends)
        except KeyboardInterrupt:
            return _interrupted(call)
        finally:
            watch.raises = False

    def _run_one(self, call: ToolCall, ends: float | None) -> CallOutcome:
        try:
            tool = self._tools[call.name]
        except KeyError as error:
            return CallOutcome("error", str(error.args[0]), error=error, call_id=call.id)
        bound = tool.bind(call.input, self._namespace)
        if isinstance(bound, CallOutcome):
            return replace(bound, call_id=call.id)
        decision = self._approver.decide(tool, call, bound, self._namespace)
        if decision.bound is None:
            return _not_allowed(call, decision)
        bound = decision.bound
        left = None if ends is None else ends - time.monotonic()
        if left is not None and left <= 0:
            return CallOutcome("not_run", "Not run: the time of this run was over.", call_id=call.id)
        limit = min((each for each in (tool.timeout, left) if each is not None), default=None)
        started = time.perf_counter()
        token = asked.set(self._person)
        with captured(self._on_output) as capture:
            try:
                with deadline(limit):
                    value = bound.run()
                    if inspect.isawaitable(value):
                        value = run_coroutine(value)
                outcome = tool.outcome(value, self._namespace)
            except KeyboardInterrupt:
                outcome = _interrupted(call)
            except NobodyThereError as error:
                outcome = CallOutcome("refused", str(error))
            except BaseException as error:  # noqa: BLE001 - a tool may raise anything; the model is told
                _remember(error)
                outcome = tool.failure(error)
            finally:
                asked.reset(token)
        if decision.edited:
            outcome = replace(outcome, text=f"{_changed(decision)}\n{outcome.text}")
        room = (tool.max_chars or MAX_CHARS) - len(outcome.text)
        return _with_output(outcome, call, capture, room, time.perf_counter() - started)


def _with_output(
    outcome: CallOutcome, call: ToolCall, capture: Capture, room: int, seconds: float
) -> CallOutcome:
    """Add what the tool showed: the person sees all of it, the model what fits beside the result."""
    shown = clip(capture.text(), max(room - len("\n\nIt printed:\n"), 0))
    text = f"{outcome.text}\n\nIt printed:\n{shown}" if shown else outcome.text
    return replace(outcome, text=text, call_id=call.id, outputs=capture.outputs(), seconds=seconds)


def _not_allowed(call: ToolCall, decision: Decision) -> CallOutcome:
    if decision.stop:
        return CallOutcome("interrupted", "Not run: the user stopped the run here.", call_id=call.id)
    return CallOutcome("refused", decision.refusal, call_id=call.id)


def _changed(decision: Decision) -> str:
    """Tell the model what was really run."""
    return f"The user changed the input before the call was run. It was run with: {clip(decision.edited, 1000)}"


def _interrupted(call: ToolCall) -> CallOutcome:
    return CallOutcome("interrupted", "Interrupted by the user while it ran.", call_id=call.id)


def _remember(error: BaseException) -> None:
    """Let ``%debug`` in the next cell stop where the tool failed."""
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__


@dataclass(slots=True)
class _Watch:
    """Interrupts while calls are run.

    Attributes:
        seen: How many there were, those that a tool swallowed included.
        raises: Whether one is raised now, or only noted.
    """

    seen: int = 0
    raises: bool = False


@contextmanager
def _interrupts_seen() -> Iterator[_Watch]:
    """Watch for interrupts in a block."""
    watch = _Watch()
    before = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is not threading.main_thread() or not callable(before):
        yield watch
        return

    def note(number: int, frame: Any) -> Any:
        watch.seen += 1
        return before(number, frame) if watch.raises else None

    signal.signal(signal.SIGINT, note)
    try:
        yield watch
    finally:
        signal.signal(signal.SIGINT, before)
