"""One conversation: tools, a model, a namespace, and the driver that carries out what the loop asks.

It may know the loop and the doors on the floor below; it may not know IPython, widgets or any library. `Model`
and `Observer` are what it needs of a model and of those who watch.
"""

from __future__ import annotations

import inspect
import time
import weakref
from collections.abc import Callable, Generator, Iterable, Sequence
from typing import Any, Literal, Protocol

from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.kernel.execute import Approve, KernelExecutor
from archytas_nb.kernel.namespace import Namespace, live_namespace
from archytas_nb.react.events import (
    AskModel,
    CallOutcome,
    CallOutcomes,
    Delta,
    Ending,
    Event,
    Failed,
    Interrupted,
    Message,
    ModelReply,
    NoReply,
    NoReplyKind,
    Notice,
    Reply,
    Request,
    RunCalls,
)
from archytas_nb.react.guards import Guards, Limits
from archytas_nb.react.history import Exchange
from archytas_nb.react.loop import Flow, react_loop
from archytas_nb.react.wire import Wire, messages_of
from archytas_nb.react.wire_native import NativeWire
from archytas_nb.react.wire_react import ReactWire
from archytas_nb.run import Run
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox, toolbox

ProtocolName = Literal["auto", "react", "native"]


class Model(Protocol):
    """What an agent needs of a model."""

    @property
    def name(self) -> str:
        """Shown in the trace."""

    @property
    def protocol(self) -> Literal["react", "native"]:
        """The wire form that suits this model, where the agent is not told one."""

    def complete(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        """Yield the pieces of a reply as they come, return it whole; raise ModelError where none comes."""


Observer = Callable[[Event], None]
"""Told of every event of a run, in order, the pieces of a streamed reply included."""


class Agent:
    """A conversation with a model that uses tools on live objects.

    Args:
        tools: Functions, Tools or a Toolbox; None takes the default toolbox as it is at each question.
        model: A name, an `OpenAIModel`, or any `Model`; None takes what the environment names, else the
            embedded model.
        protocol: ``"react"``, ``"native"``, or ``"auto"`` for what suits the model.
        instructions: Added to the system prompt.
        max_steps: Most replies of the model in one run.
        max_errors: Most unusable replies and failing calls in a row.
        max_seconds: Most wall time of a run; None for no bound.
        max_tokens: Most input and output tokens of a run; None for no bound.
        namespace: Where variables are looked up and large results are kept; None takes the live one.
        approve: Asked before each call; returns the reason for a refusal, or an empty string.

    Raises:
        ValueError: An argument is not of the kind said above.
    """

    def __init__(
        self,
        tools: Toolbox | Iterable[Tool | Callable[..., Any]] | None = None,
        model: str | Model | None = None,
        protocol: ProtocolName = "auto",
        instructions: str | None = None,
        max_steps: int = 20,
        max_errors: int = 5,
        max_seconds: float | None = None,
        max_tokens: int | None = None,
        namespace: Namespace | None = None,
        approve: Approve | None = None,
    ) -> None:
        if protocol not in ("auto", "react", "native"):
            raise ValueError(f"protocol is {protocol!r}; expected 'auto', 'react' or 'native'")
        self._tools = tools if tools is None or isinstance(tools, Toolbox) else Toolbox(*tools)
        self._model: str | Model | None = model
        self.protocol: ProtocolName = protocol
        self.instructions = instructions or ""
        self.limits = Limits(max_steps, max_errors, max_seconds, max_tokens)
        self._namespace = namespace
        self._approve = approve
        self.exchanges: list[Exchange] = []
        self._running: Callable[[], Generator[Event, None, None] | None] = lambda: None

    @property
    def tools(self) -> Toolbox:
        """The tools that the next question may use."""
        return (toolbox if self._tools is None else self._tools).active()

    @property
    def model(self) -> Model:
        """The model; chosen at first use, so that an agent costs nothing until it is asked."""
        model = self._model
        if model is None or isinstance(model, str):
            from archytas_nb.models.discover import choose_model

            model = self._model = choose_model(model)
        return model

    @model.setter
    def model(self, model: str | Model | None) -> None:
        self._model = model

    @property
    def messages(self) -> list[Message]:
        """The history in wire form, always one that a strict server accepts."""
        return messages_of(self._wire(self._spoken(), self.tools), self.exchanges)

    def reset(self) -> None:
        """Forget the conversation; tools, model and settings stay."""
        self.exchanges.clear()

    def run(self, question: str, *, observers: Sequence[Observer] = ()) -> Run:
        """Ask a question and wait for the end.

        Args:
            question: The question.
            observers: Told of every event.

        Returns:
            The run; `incomplete` where a limit ended it.

        Raises:
            ModelError: The endpoint failed; the conversation goes on without this question.
            TaskFailed: The model gave up.
            RunInterrupted: A person interrupted.
        """
        run = Run(question)
        events = self._begin(run)
        interrupt: KeyboardInterrupt | None = None
        try:
            event = next(events, None)
            while event is not None:
                try:
                    for observer in observers:
                        observer(event)
                except KeyboardInterrupt as stop:
                    # It hit a watcher, not the run: the run must hear of it to come to a proper end.
                    interrupt = stop
                    event = events.throw(stop)
                else:
                    event = next(events, None)
        except StopIteration:  # it was over already
            pass
        finally:
            events.close()
        run.checked()
        if interrupt is not None:  # too late to stop the run, but not to stop what comes after it
            raise interrupt
        return run

    def stream(self, question: str) -> Generator[Event, None, Run]:
        """Ask a question and see every event as it happens.

        Yields:
            The events of the run, the pieces of streamed replies included; the ending is the last.

        Returns:
            The run, as `run` does; raises what `run` raises, after the ending.
        """
        run = Run(question)
        yield from self._begin(run)
        return run.checked()

    def _begin(self, run: Run) -> Generator[Event, None, None]:
        """The events of a run, to be iterated; a run that was left unfinished is ended first."""
        if not run.question.strip():
            raise ValueError("the question is empty; expected text to ask the model")
        earlier = self._running()
        if earlier is not None:
            if inspect.getgeneratorstate(earlier) == inspect.GEN_RUNNING:
                raise RuntimeError("this agent is answering a question already; ask another agent, or wait")
            earlier.close()
        events = self._events(run)
        self._running = weakref.ref(events)
        return events

    def _spoken(self) -> Literal["react", "native"]:
        return self.model.protocol if self.protocol == "auto" else self.protocol

    def _wire(self, spoken: Literal["react", "native"], tools: Toolbox) -> Wire:
        if spoken == "native":
            return NativeWire(tools, self.instructions)
        return ReactWire(tools, self.instructions)

    def _events(self, run: Run) -> Generator[Event, None, None]:
        """Everything that happens in a run; the record is complete however it ends."""
        started = time.perf_counter()
        exchange = Exchange(run.question)
        driven = self._drive(run, exchange)
        try:
            event = next(driven, None)
            while event is not None:
                if not isinstance(event, Delta):
                    run.events.append(event)
                run.seconds = time.perf_counter() - started
                try:
                    yield event
                except KeyboardInterrupt as interrupt:
                    event = driven.throw(interrupt)
                else:
                    event = next(driven, None)
        except StopIteration:  # an interrupt after the ending
            pass
        finally:
            driven.close()  # where the one who iterates went away
            if exchange.ending is None:
                exchange.ending = Interrupted("the run")
            run.ending = exchange.ending
            if exchange.is_worth_keeping:
                self.exchanges.append(exchange)

    def _drive(self, run: Run, exchange: Exchange) -> Generator[Event, None, None]:
        """Carry out what the loop asks, and send it the reply."""
        tools = self.tools
        early = self._named(run)
        if early is not None:
            run.ending = exchange.ending = early
            yield early
            return
        namespace = live_namespace() if self._namespace is None else self._namespace
        executor = KernelExecutor(tools, namespace, self._approve)
        guards = self._guards(tools)
        past = tuple(self.exchanges)
        flow = react_loop(self._wire(self._spoken(), tools), guards, past, exchange)
        request: Request = next(flow)
        reply: Reply = None
        stopped = False
        try:
            while True:
                reply = None
                stopped |= yield from _shown(request)
                if stopped:
                    reply = _not_done(request)
                elif isinstance(request, RunCalls):
                    reply = CallOutcomes(executor.run(request.calls))
                elif isinstance(request, AskModel):
                    reply = yield from self._ask(request, run)
                if isinstance(reply, NoReply) and reply.kind == "no_tools" and self._may_fall_back(run):
                    # Nothing was done yet in this step, so the loop can begin again from the same record.
                    run.protocol, run.error = "react", None
                    said = "the endpoint takes no tools: going on with the text protocol"
                    stopped |= yield from _shown(Notice("protocol", said))
                    flow = react_loop(self._wire("react", tools), guards, past, exchange)
                    request = next(flow)
                    continue
                if reply is not None:
                    stopped |= yield from _shown(reply)
                request = flow.send(reply)
        except StopIteration as ended:
            ending: Ending = ended.value
        except BaseException:  # the one who iterates went away, or something broke
            _wind_up(flow, request, reply)
            raise
        yield ending

    def _named(self, run: Run) -> Ending | None:
        """Note who is asked, and how; the model's name may have to be asked for, which may be the end."""
        try:
            run.model, run.protocol = self.model.name, self._spoken()
        except (ModelError, ConfigurationError) as error:
            run.error = error
            return Failed(str(error), by="endpoint")
        except KeyboardInterrupt:
            return Interrupted("a request to the model")
        return None

    def _may_fall_back(self, run: Run) -> bool:
        return self.protocol == "auto" and run.protocol == "native"

    def _guards(self, tools: Toolbox) -> Guards:
        may_repeat = {name for name, tool in tools.items() if tool.repeat}
        return Guards(self.limits, time.monotonic, may_repeat, getattr(self.model, "is_small", False))

    def _ask(self, request: AskModel, run: Run) -> Generator[Event, None, ModelReply | NoReply]:
        try:
            return (yield from self.model.complete(request))
        except KeyboardInterrupt:
            return NoReply("interrupted")
        except (ModelError, ConfigurationError) as error:
            run.error = error
            kind: NoReplyKind = "no_tools" if getattr(error, "kind", "") == "no_tools" else "endpoint"
            return NoReply(kind, str(error))


def _shown(event: Event) -> Generator[Event, None, bool]:
    """Hand out an event; True where the one who watched it was interrupted."""
    try:
        yield event
    except KeyboardInterrupt:
        return True
    return False


def _wind_up(flow: Flow, request: Request, reply: Reply) -> None:
    """Bring the loop to its ending without doing anything more; it is still owed the reply to a request."""
    try:
        while True:
            request = flow.send(_not_done(request) if reply is None else reply)
            reply = None
    except StopIteration:
        pass


def _not_done(request: Request) -> Reply:
    if isinstance(request, Notice):
        return None
    if isinstance(request, AskModel):
        return NoReply("interrupted")
    text = "Not run: the run was interrupted before."
    first, *rest = request.calls
    outcomes = [CallOutcome("not_run", text, call_id=call.id) for call in rest]
    return CallOutcomes((CallOutcome("interrupted", text, call_id=first.id), *outcomes))
