"""How a call ended, in the words that the model reads. Runs nothing and asks nobody."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

from archytas_nb.errors import ToolTimeout
from archytas_nb.kernel.background import Ended
from archytas_nb.kernel.capture import MAX_IMAGES, Capture
from archytas_nb.kernel.decision import Decision
from archytas_nb.kernel.namespace import Namespace, current_shell
from archytas_nb.kernel.person import NobodyThereError
from archytas_nb.kernel.signals import Limit
from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.tools.clip import clip
from archytas_nb.tools.tool import MAX_CHARS, Tool

_OURS = str(Path(__file__).parent.parent)
_HERE = "Not run: the user interrupted here."


def not_run(call: ToolCall) -> CallOutcome:
    """The run was stopped at an earlier call."""
    return CallOutcome("not_run", "Not run: the user interrupted before.", call_id=call.id)


def no_time_left(call: ToolCall) -> CallOutcome:
    """The run's time was over before this call."""
    return CallOutcome("not_run", "Not run: the time of this run is over.", call_id=call.id)


def interrupted_before(call: ToolCall) -> CallOutcome:
    """The person interrupted before the call was run, most likely when asked about it."""
    return CallOutcome("interrupted", _HERE, call_id=call.id)


def not_allowed(call: ToolCall, decision: Decision) -> CallOutcome:
    """The call may not be run."""
    if decision.stop:
        return CallOutcome(
            "interrupted", "Not run: the user stopped the run here.", call_id=call.id
        )
    return CallOutcome("refused", decision.refusal, call_id=call.id)


def of(ended: Ended, tool: Tool, namespace: Namespace) -> CallOutcome:
    """Render what a call returned or raised.

    Args:
        ended: How it ended.
        tool: The tool.
        namespace: Where a large result is kept.
    """
    if ended.how == "done":
        return replace(tool.outcome(ended.value, namespace), seconds=ended.seconds)
    if not ended.begun:
        return CallOutcome("interrupted", _HERE)
    if ended.how == "interrupted" or ended.error is None:
        on = " It did not stop, and is still running." if ended.running else ""
        return CallOutcome(
            "interrupted", f"Interrupted by the user while it ran.{on}", seconds=ended.seconds
        )
    if isinstance(ended.error, NobodyThereError):
        return CallOutcome("refused", str(ended.error), error=ended.error, seconds=ended.seconds)
    remember(ended.error)
    return tool.failure(ended.error, seconds=ended.seconds)


def unshown(ended: Ended, late: ToolTimeout) -> CallOutcome:
    """A call that came to its end, and whose result or error takes too long to be written."""
    what = f"It returned a value of type {type(ended.value).__name__!r}"
    if ended.error is not None:
        what = f"It raised {type(ended.error).__name__}"
    text = f"{what}, which could not be shown: {late}."
    status: Literal["done", "error"] = "done" if ended.error is None else "error"
    return CallOutcome(status, text, value=ended.value, error=ended.error, seconds=ended.seconds)


def interrupted_late(outcome: CallOutcome) -> CallOutcome:
    """A call that came to its end though the user interrupted: a subprocess or an ``except:`` swallowed it."""
    text = "Interrupted by the user while it ran."
    if outcome.status in ("done", "error"):
        text += f" It came to its end all the same: {outcome.text}"
    return replace(outcome, status="interrupted", text=text, value=None)


def expired(ended: Ended, limit: Limit | None, seconds: float) -> Ended:
    """The time limit was reached: say so, and whether the call stopped because of it."""
    if ended.how == "interrupted" or limit is None:
        return ended
    if isinstance(ended.error, ToolTimeout):
        if seconds <= limit.seconds * 1.5 + 0.5:
            said = f"stopped after {limit}"
        else:
            said = f"told to stop after {limit}, it stopped only after {seconds:.3g} s"
        return replace(ended, error=ToolTimeout(said).with_traceback(ended.error.__traceback__))
    if ended.how == "error":
        return ended
    return Ended("error", error=ToolTimeout(f"told to stop after {limit}, it went on to its end"))


def with_output(
    outcome: CallOutcome, call: ToolCall, decision: Decision, capture: Capture, tool: Tool
) -> CallOutcome:
    """Add what the tool showed: the person sees all of it, the model what fits beside the result."""
    changed = ""
    if decision.edited:
        given = clip(decision.edited, 1000)
        changed = f"The user changed the input before the call was run. It was run with: {given}\n"
    room = (tool.max_chars or MAX_CHARS) - len(outcome.text)
    shown = clip(capture.text(), max(room - len("\n\nIt printed:\n"), 0))
    text = f"{outcome.text}\n\nIt printed:\n{shown}" if shown else outcome.text
    images = _distinct((*outcome.images, *capture.images()))
    return replace(
        outcome, text=changed + text, call_id=call.id, outputs=capture.outputs(), images=images
    )


def with_shared(made: Sequence[CallOutcome], shared: Capture) -> list[CallOutcome]:
    """Add to the last of several outcomes what was shown while their calls ran, and is no one's for sure."""
    outputs = shared.outputs()
    if not outputs:
        return list(made)
    *others, last = made
    text = (
        f"{last.text}\n\nShown while these {len(made)} calls ran, by one of them:\n{shared.text()}"
    )
    images = _distinct((*last.images, *shared.images()))
    return [*others, replace(last, text=text, outputs=(*last.outputs, *outputs), images=images)]


def _distinct(images: Sequence[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(images))[:MAX_IMAGES]


def remember(error: BaseException) -> None:
    """Let ``%debug`` in the next cell stop where the tool failed, not in this package.

    Args:
        error: What the tool raised; our own frames are taken off its traceback.
    """
    traceback: TracebackType | None = error.__traceback__
    while traceback is not None and traceback.tb_frame.f_code.co_filename.startswith(_OURS):
        traceback = traceback.tb_next
    if traceback is not None:
        error.__traceback__ = traceback
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, error.__traceback__
    if sys.version_info >= (3, 12):
        sys.last_exc = error
    handler: Any = getattr(current_shell(), "InteractiveTB", None)
    if handler is not None:  # IPython keeps the last traceback that it showed, and prefers it
        handler.tb = error.__traceback__
