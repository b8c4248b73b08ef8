"""Drives one run: carries out the loop's requests, sends it the replies, and yields every event.

Whatever happens (an interrupt, an observer that raises, a caller that stops iterating), the loop
runs to its ending, so that the record is complete. Neither IPython nor any other library is used.
"""

from __future__ import annotations

import inspect
import threading
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal, Protocol, TypeAlias

from archytas_nb.errors import CassetteMiss, ConfigurationError, ModelError, ToolTimeout
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.interrupts import defer_interrupts
from archytas_nb.loop import events as ev
from archytas_nb.loop.history import Exchange, WireProtocol
from archytas_nb.loop.limits import Guards
from archytas_nb.loop.loop import Flow, react_loop
from archytas_nb.run import Run

ActiveProtocol: TypeAlias = Literal["react", "native"]
"""The wire protocol that a run uses."""
Events: TypeAlias = Generator[ev.Event, None, None]
ReplyStream: TypeAlias = Generator[ev.Delta | ev.Notice, None, ev.ModelReply]
"""A reply on its way: its pieces, and the retries; it returns the reply."""


class Model(Protocol):
    """What an agent needs of a model."""

    @property
    def name(self) -> str:
        """Shown in the trace."""

    @property
    def protocol(self) -> ActiveProtocol:
        """The wire protocol that suits this model, for an agent with ``protocol="auto"``."""

    def complete(self, ask: ev.AskModel) -> ReplyStream:
        """Yield the pieces of a reply and return it whole; raise ModelError if none comes."""


AnswerCheck: TypeAlias = Callable[[ev.Json], ev.Verdict]
"""Checks an answer and converts it to the type that was asked for."""

Observer: TypeAlias = Callable[[ev.Event], object]
"""Called with every event of a run, in order, including the pieces of a streamed reply.

One that draws the form of a call that waits for approval returns it; then it is not printed.
"""


@dataclass(slots=True)
class Driver:
    """Drives one run."""

    run: Run  # gets the protocol, the value and the endpoint's error
    exchange: Exchange  # the record of this run
    past: Sequence[Exchange]
    model: Model
    executor: KernelExecutor
    guards: Guards  # fresh for this run
    wire: Callable[[ActiveProtocol], WireProtocol]
    check: AnswerCheck | None = None  # None where any answer will do
    may_fall_back: bool = False  # to the text protocol, where function calling does not work

    def events(self, protocol: ActiveProtocol) -> Events:  # noqa: C901 - one loop, in its order
        """Every event, the ending last; an interrupt thrown in here ends the run properly."""
        stopped = yield from emit(
            ev.Started(self.run.model, protocol, getattr(self.model, "server", ""))
        )
        flow = self._flow(protocol)
        request: ev.Request = next(flow)
        ending: ev.Ending | None = None
        try:
            while ending is None:
                reply: ev.Reply = None
                if not (why := self._fallback_reason(request)):
                    stopped |= yield from emit(request)
                    if stopped:
                        reply = _interrupted_reply(request)
                    elif isinstance(request, ev.AskModel):
                        reply = yield from self._ask_model(request)
                    elif isinstance(request, ev.CheckAnswer):
                        reply = self._check_answer(request)
                    why = self._fallback_reason(request, reply)
                if why:  # nothing was done yet in this step: the loop goes on from the same record
                    note = ev.Notice("protocol", f"{why}: going on with the text protocol")
                    stopped |= yield from emit(note)
                    flow = self._flow("react")
                    request = next(flow)
                    continue
                with defer_interrupts() as deferred:
                    # What tools have done is written down before anything can come between.
                    if reply is None and isinstance(request, ev.RunCalls):
                        seconds = self.guards.seconds_left()
                        reply = ev.CallOutcomes(self.executor.run(request.calls, seconds=seconds))
                    try:
                        request = flow.send(reply)
                    except StopIteration as ended:
                        ending = self._ending(ended.value)
                stopped |= deferred.interrupted
                if reply is not None:
                    stopped |= yield from emit(reply)
        except BaseException:  # the caller stopped iterating, or something failed
            if ending is None:
                _finish_loop(flow, request)
            raise
        yield ending
        if deferred.interrupted and not isinstance(ending, ev.Interrupted):
            raise KeyboardInterrupt  # too late for this run, but not for what comes after it

    def _ending(self, ending: ev.Ending) -> ev.Ending:
        """The ending; a failure says what has failed."""
        if isinstance(ending, ev.Failed) and isinstance(self.run.error, CassetteMiss):
            ending = self.exchange.ending = replace(ending, by="cassette")
        return ending

    def _flow(self, protocol: ActiveProtocol) -> Flow:
        self.run.protocol = protocol
        return react_loop(
            self.wire(protocol), self.guards, self.past, self.exchange,
            checks=self.check is not None, model=self.model,
        )  # fmt: skip

    def _fallback_reason(self, request: ev.Request, reply: ev.Reply = None) -> str:
        """Why the run goes on with the text protocol; empty where it does not."""
        if not self.may_fall_back or self.run.protocol != "native":
            return ""
        if isinstance(reply, ev.NoReply) and reply.kind == "no_tools":
            self.run.error = None
            return "the endpoint does not support tools"
        asks = reply is None and isinstance(request, ev.AskModel) and request.tools
        is_shown = asks and self.model.protocol == "react"
        return "the model writes its calls into the text" if is_shown else ""

    def _ask_model(
        self, request: ev.AskModel
    ) -> Generator[ev.Event, None, ev.ModelReply | ev.NoReply]:
        try:
            reply = yield from self.model.complete(request)
        except KeyboardInterrupt:
            return ev.NoReply("interrupted")
        except (ModelError, ConfigurationError) as error:
            self.run.error = error
            match getattr(error, "kind", ""):
                case "deadline":
                    texts = [each.text for each in self.run.pieces if each.kind == "text"]
                    return ev.NoReply("deadline", "".join(texts))
                case "no_tools" | "overflow" as kind:  # the loop has another move
                    return ev.NoReply(kind, str(error))
            return ev.NoReply("endpoint", str(error))
        self.run.error = None  # whatever it was, the run got over it
        return reply

    def _check_answer(self, request: ev.CheckAnswer) -> ev.Verdict | ev.NoReply:
        if self.check is None:
            return ev.Verdict(value=request.answer)
        check = partial(self.check, request.answer)
        try:
            verdict = self.executor.call(check, seconds=self.guards.seconds_left())
        except KeyboardInterrupt:
            return ev.NoReply("interrupted")
        except ToolTimeout:
            return ev.Verdict("checking it took longer than was left of this run's time")
        if not verdict.fault:
            self.run.value = verdict.value
        return verdict


class ActiveRun:
    """The run of an agent that goes on; the agent's copies for one question share it."""

    def __init__(self) -> None:
        self.events: Callable[[], Events | None] = lambda: None
        self.is_awaited = False  # by a task: nobody else may have the next event

    def end(self) -> None:
        """End a run that was left unfinished, as by a stream that nobody iterates any more."""
        earlier = self.events()
        if earlier is not None:
            if self.is_awaited or inspect.getgeneratorstate(earlier) == inspect.GEN_RUNNING:
                raise RuntimeError(
                    "this agent is answering a question already; ask another agent, or wait"
                )
            earlier.close()


def run_events(
    run: Run, exchange: Exchange, begin: Callable[[], Events], keep: Callable[[], None],
    observers: Sequence[Observer],
) -> Events:  # fmt: skip
    """Begin a run; note its events, show them to the observers and hand them out.

    However this ends, the run has its ending and is kept. An interrupt while an event is handled
    interrupts the run, which still ends properly.
    """
    events = _started_lazily(begin)

    def finish() -> None:
        events.close()
        exchange.ending = exchange.ending or ev.Interrupted("the run")
        run.ending = exchange.ending
        keep()

    try:
        try:
            yield from _observe(run, exchange, events, observers)
        finally:
            finish()
    finally:  # once more, as an interrupt may have come while it was kept
        finish()


def _started_lazily(begin: Callable[[], Events]) -> Events:
    """The events of a run that begins with the first of them."""
    yield from begin()


def _observe(run: Run, exchange: Exchange, events: Events, observers: Sequence[Observer]) -> Events:
    started, interrupted = time.perf_counter(), False
    event = next(events, None)
    while event is not None:
        if isinstance(event, ev.Delta):
            run.pieces.append(event)
        else:
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
        raise KeyboardInterrupt  # too late to stop the run, but not what comes after it


def _throw(events: Events, stop: KeyboardInterrupt) -> ev.Event | None:
    """What comes after an interrupt; None where it was over already."""
    try:
        return events.throw(stop)
    except StopIteration:
        return None


def ending_only(exchange: Exchange, ending: ev.Ending) -> Events:
    """The events of a run that could not begin."""
    exchange.ending = ending
    yield ending


def observer_callback(
    observers: Sequence[Observer], kind: Literal["output", "person"]
) -> Callable[..., bool]:
    """Calls observers with what a running call prints or asks, one call at a time.

    No error reaches the tool. What it returns says whether one of them draws the form.
    """
    lock = threading.RLock()  # several threads of a tool may print

    def notify(text: str, form: ev.ApprovalForm | None = None) -> bool:
        is_shown = False
        for observer in observers:
            with lock, suppress(Exception):  # we are inside the tool's print
                drawn = observer(ev.Delta(kind, text, form))
                is_shown = is_shown or (form is not None and drawn is form)
        return is_shown

    return notify


def emit(event: ev.Event) -> Generator[ev.Event, None, bool]:
    """Hand out an event; True if an interrupt came while it was handled."""
    try:
        yield event
    except KeyboardInterrupt:
        return True
    return False


def _finish_loop(flow: Flow, request: ev.Request) -> None:
    """Bring the loop to its ending without doing anything more."""
    with defer_interrupts(), suppress(StopIteration):  # the run is being stopped already
        while True:
            request = flow.send(_interrupted_reply(request))


def _interrupted_reply(request: ev.Request) -> ev.Reply:
    if isinstance(request, ev.Notice):
        return None
    if isinstance(request, (ev.AskModel, ev.CheckAnswer)):
        return ev.NoReply("interrupted")
    text = "Not run: the run was interrupted before."
    first, *rest = request.calls
    outcomes: list[Any] = [ev.CallOutcome("not_run", text, call_id=call.id) for call in rest]
    return ev.CallOutcomes((ev.CallOutcome("interrupted", text, call_id=first.id), *outcomes))
