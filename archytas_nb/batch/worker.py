"""The work of an executor's process for a map: an attempt, which begins only with its claim.

How an attempt ends, as its report says:

    lacking    the process does not have the parcel: nothing was run
    refused    the process cannot do the work: nothing was run
    begun      the attempt has begun before, perhaps in a process that is gone: nothing was run now
    ended      the work returned
    raised     the work raised
"""

from __future__ import annotations

import os
import pickle
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

from archytas_nb.batch import claims
from archytas_nb.batch.parcel import RefusedError, described, dumps, opened
from archytas_nb.kernel.approval import CallingProgram
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.loop.events import CallOutcome, Json, ToolCall
from archytas_nb.tools.render import failure_text
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox

_NO_CLAIM = (
    "the executor's processes do not share the temporary folder of this one, so it is not certain "
    "that a tool that is not pure runs at most once for a row. Mark it as pure, or accept that it "
    "may run twice with retry=True"
)


class Order(NamedTuple):
    """An attempt.

    Attributes:
        token: Its name.
        folder: The folder in which its claim is taken.
        repeatable: Whether it may run twice.
        parcel: The digest of the parcel with the work.
        about: The subject of the attempt, pickled; empty if the parcel is only to be read.
    """

    token: str
    folder: str
    repeatable: bool
    parcel: str
    about: bytes


class Report(NamedTuple):
    """How an attempt ended; the content is a pickled value, or the reason as text."""

    state: Literal["lacking", "refused", "begun", "ended", "raised"]
    content: Any = None


def carry_out(order: Order, data: bytes | None) -> Report:
    """Carry out an attempt.

    Args:
        order: The attempt.
        data: The parcel; None where the process may have it.
    """
    try:
        work = opened(order.parcel, data)
        about = pickle.loads(order.about) if order.about else None  # noqa: S301 - the map's own
    except RefusedError as why:
        return Report("refused", str(why))
    except Exception as error:  # noqa: BLE001
        return Report(
            "refused", f"a row cannot be read in the executor's processes: {described(error)}"
        )
    if work is None:
        return Report("lacking")
    if about is None:
        return Report("ended", pickle.dumps(None))
    has_claim = claims.take(order.folder, order.token)
    if has_claim is False:
        return Report("begun")
    if has_claim is None and not order.repeatable:
        return Report("refused", _NO_CLAIM)
    try:
        return Report("ended", dumps(work(*about)))
    except BaseException as error:  # noqa: BLE001 - also an interrupt, which every process gets
        return Report("raised", described(error))


def call_there(
    tools: Mapping[str, Tool],
    name: str,
    tool_input: Json,
    caller: CallingProgram,
    seconds: float | None,
) -> CallOutcome:
    """Make a call that was approved where the map runs."""
    executor = KernelExecutor(Toolbox(tools[name]), {}, allow=[name])
    call = ToolCall("c1", name, tool_input)
    [outcome] = executor.run([call], seconds, {call.id: caller})
    # No other call reads a variable there: tools that take one by name are refused.
    if outcome.stored:
        outcome = replace(outcome, stored="", hint="")
    if outcome.error is not None:
        outcome = replace(outcome, error=_sendable_error(outcome.error))
    try:
        dumps(outcome)
    except Exception as error:  # noqa: BLE001
        text = (
            f"{name} returned a value of type {type(outcome.value).__name__!r}, which cannot be "
            f"sent back: {described(error)}. Return plain data"
        )
        return CallOutcome("error", text, error=TypeError(text), outputs=outcome.outputs)
    return outcome


def _sendable_error(error: BaseException) -> BaseException:
    """An error that can be sent, or one of the same text."""
    try:
        found = pickle.loads(dumps(error))  # noqa: S301 - our own bytes
    except Exception:  # noqa: BLE001
        return RuntimeError(failure_text(error))
    return found if isinstance(found, BaseException) else RuntimeError(failure_text(error))


# ── in the process of the map ─────────────────────────────────────────────────────────────────────


class Job:
    """Work of the map's own process, which a thread of an executor does.

    Attributes:
        value: The value that it returned, once it has.
        error: The error that it raised.
    """

    def __init__(self, work: Callable[[], Any], on_end: Callable[[], object]) -> None:
        self.process = os.getpid()
        self.value: Any = None
        self.error: BaseException | None = None
        self.has_ended = False
        self._work = work
        self._on_end = on_end

    def run(self) -> None:
        """Do it."""
        try:
            self.value = self._work()
        except BaseException as error:  # noqa: BLE001 - for the thread that waits
            self.error = error
        self.has_ended = True
        self._on_end()


jobs: dict[str, Job] = {}
"""The jobs that have not begun: whoever takes one out has it."""


def is_here(token: str) -> bool:
    """Whether this is the process of the map that has the job, and not a copy of it."""
    job = jobs.get(token)
    return job is not None and job.process == os.getpid()


def carry_out_here(token: str) -> None:
    """Do a job, unless it was done or given up."""
    job = jobs.pop(token, None)
    if job is not None:
        job.run()
