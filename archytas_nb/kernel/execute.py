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
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from archytas_nb.kernel.approve import ask_person
from archytas_nb.kernel.background import run_coroutine
from archytas_nb.kernel.capture import Capture, captured
from archytas_nb.kernel.deadline import deadline
from archytas_nb.kernel.namespace import Namespace
from archytas_nb.react.events import CallOutcome, ToolCall
from archytas_nb.tools.clip import clip
from archytas_nb.tools.tool import MAX_CHARS, Tool
from archytas_nb.tools.toolbox import Toolbox

Approve = Callable[[Tool, ToolCall], str]
"""Asked before a call is run; returns the reason for a refusal, or an empty string."""


class KernelExecutor:
    """Runs the calls of one run.

    Args:
        tools: The tools of the run; a tool that is defined anew meanwhile does not change them.
        namespace: Where names are looked up and large results are kept.
        approve: Decides on each call; None asks a person where the tool wants that.
    """

    def __init__(self, tools: Toolbox, namespace: Namespace, approve: Approve | None = None) -> None:
        self._tools = tools
        self._namespace = namespace
        self._approve = approve or ask_person

    def run(self, calls: Sequence[ToolCall]) -> tuple[CallOutcome, ...]:
        """Run calls in their order.

        Args:
            calls: The calls of one reply.

        Returns:
            One outcome for each; after an interrupt the rest are ``not_run``.
        """
        outcomes: list[CallOutcome] = []
        with _interrupts_seen() as watch:
            for call in calls:
                outcome = self._watched(call, watch)
                if watch.seen and outcome.status != "interrupted":
                    # A subprocess or a bare `except:` in the tool swallowed it.
                    outcome = replace(_interrupted(call), outputs=outcome.outputs, seconds=outcome.seconds)
                outcomes.append(outcome)
                if outcome.status == "interrupted":
                    break
        rest = calls[len(outcomes) :]
        not_run = (CallOutcome("not_run", "Not run: the user interrupted before.", call_id=c.id) for c in rest)
        return (*outcomes, *not_run)

    def _watched(self, call: ToolCall, watch: _Watch) -> CallOutcome:
        """Run one call; an interrupt is raised inside it only, so that no outcome of another call is lost."""
        try:
            watch.raises = True
            return self._run_one(call)
        except KeyboardInterrupt:
            return _interrupted(call)
        finally:
            watch.raises = False

    def _run_one(self, call: ToolCall) -> CallOutcome:
        try:
            tool = self._tools[call.name]
        except KeyError as error:
            return CallOutcome("error", str(error.args[0]), error=error, call_id=call.id)
        bound = tool.bind(call.input, self._namespace)
        if isinstance(bound, CallOutcome):
            return replace(bound, call_id=call.id)
        refusal = self._refusal(tool, call)
        if refusal:
            return CallOutcome("refused", refusal, call_id=call.id)
        started = time.perf_counter()
        with captured() as capture:
            try:
                with deadline(tool.timeout):
                    value = bound.run()
                    if inspect.isawaitable(value):
                        value = run_coroutine(value)
                outcome = tool.outcome(value, self._namespace)
            except KeyboardInterrupt:
                outcome = _interrupted(call)
            except BaseException as error:  # noqa: BLE001 - a tool may raise anything; the model is told
                _remember(error)
                outcome = tool.failure(error)
        room = (tool.max_chars or MAX_CHARS) - len(outcome.text)
        return _with_output(outcome, call, capture, room, time.perf_counter() - started)

    def _refusal(self, tool: Tool, call: ToolCall) -> str:
        try:
            return self._approve(tool, call)
        except Exception as error:  # noqa: BLE001 - who cannot be asked has not agreed
            return f"{call.name} was not run: asking for approval failed with {error!r}"


def _with_output(
    outcome: CallOutcome, call: ToolCall, capture: Capture, room: int, seconds: float
) -> CallOutcome:
    """Add what the tool showed: the person sees all of it, the model what fits beside the result."""
    shown = clip(capture.text(), max(room - len("\n\nIt printed:\n"), 0))
    text = f"{outcome.text}\n\nIt printed:\n{shown}" if shown else outcome.text
    return replace(outcome, text=text, call_id=call.id, outputs=capture.outputs(), seconds=seconds)


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
