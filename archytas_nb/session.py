"""One conversation: tools, a model, a namespace, and what has been said so far.

It may know the driver and the doors on the floor below; it may not know IPython, widgets or any library.
"""

from __future__ import annotations

import inspect
import time
import weakref
from collections import ChainMap
from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Literal, TypeAlias

from archytas_nb import given
from archytas_nb.answers import Until
from archytas_nb.driver import Driver, Events, Model, Observer, Spoken, recorded, watched
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.kernel.approve import Approve
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.namespace import Namespace, live_namespace
from archytas_nb.kernel.person import confirm
from archytas_nb.loop.events import (
    AskModel,
    Ending,
    Event,
    Failed,
    Interrupted,
    Message,
    ModelReply,
)
from archytas_nb.loop.guards import MAX_SECONDS, MAX_TOTAL_TOKENS, Guards, Limits
from archytas_nb.loop.history import Exchange, place_of
from archytas_nb.loop.loop import react_loop
from archytas_nb.loop.wire import Wire, messages_of
from archytas_nb.loop.wire_native import NativeWire
from archytas_nb.loop.wire_react import ReactWire
from archytas_nb.question import Question, asked_by, person_for, read, room_for
from archytas_nb.run import Run
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox, toolbox

__all__ = ["Agent", "Model", "Observer", "ProtocolName"]

ProtocolName: TypeAlias = Literal["auto", "react", "native"]


class Agent:
    """A conversation with a model that uses tools on live objects.

    Args:
        tools: Functions, Tools or a Toolbox; None takes the default toolbox as it is at each question.
        model: A name, an `OpenAIModel`, or any `Model`; None takes the environment's, else the embedded one.
        protocol: ``"react"``, ``"native"``, or ``"auto"`` for what suits the model.
        instructions: Added to the system prompt.
        max_steps: Most replies of the model in one run.
        max_errors: Most unusable replies and failing calls in a row.
        max_seconds: Most wall time of a run, but for what a person takes to answer; None for no bound.
        max_total_tokens: Maximum number of input and output tokens of a run; None for no bound.
        namespace: Where variables are looked up and large results are kept; None takes the live one.
        approve: What is done where a tool wants approval: ``"ask"`` the person, ``"auto"`` runs it, ``"deny"``
            refuses it; or a function that decides on every call. None asks the person.
        ask_user: Whether the model has a tool to ask the person something.
        allow: Names of tools that are run without being asked about.
        max_reply_tokens: Maximum number of tokens in one reply; None for 1,024 (small models) or 16,384 (others).
        max_tokens: The old name of `max_total_tokens`.

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
        max_seconds: float | None = MAX_SECONDS,
        max_total_tokens: int | None = MAX_TOTAL_TOKENS,
        namespace: Namespace | None = None,
        approve: Approve | None = None,
        *,
        ask_user: bool = False,
        allow: Collection[str] = (),
        max_reply_tokens: int | None = None,
        max_tokens: int | given.Unset | None = given.UNSET,
    ) -> None:
        if protocol not in ("auto", "react", "native"):
            raise ValueError(f"protocol is {protocol!r}; expected 'auto', 'react' or 'native'")
        self._tools = given.toolbox(tools)
        self._model: str | Model | None = model
        self._answering: tuple[object, Model] | None = None
        self.protocol: ProtocolName = protocol
        self.instructions = given.text("instructions", instructions)
        total = given.total_tokens(max_total_tokens, max_tokens)
        self.limits = Limits(max_steps, max_errors, max_seconds, total, max_reply_tokens)
        self._namespace = given.variables(namespace)
        self._approve = approve
        self._asks_user = ask_user
        self._allow = given.names("allow", allow)
        self.exchanges: list[Exchange] = []
        self._running: Callable[[], Generator[Event, None, None] | None] = lambda: None

    @property
    def tools(self) -> Toolbox:
        """The tools that the next question may use."""
        tools = (toolbox if self._tools is None else self._tools).active()
        if self._asks_user:
            from archytas_nb.kernel.ask import ask_user

            tools.add(ask_user, repeat=True)
        return tools

    @property
    def model(self) -> Model:
        """The model; chosen at first use, so that an agent costs nothing until it is asked.

        Where a cassette is in use it stands before the model, and another one takes its place as soon as it does.
        """
        from archytas_nb.cassettes.recorded import answers_itself, cassette_in_use, recorded

        cassette = None if answers_itself(self._model) else cassette_in_use()
        if self._answering is None or self._answering[0] is not cassette:
            self._answering = cassette, recorded(self._model, cassette=cassette, confirm=confirm)
        return self._answering[1]

    @model.setter
    def model(self, model: str | Model | None) -> None:
        if model is not self._model:
            for (
                exchange
            ) in self.exchanges:  # what was too long for one model need not be for another
                exchange.cut = replace(exchange.cut, room=None)
        self._model, self._answering = model, None

    @property
    def messages(self) -> list[Message]:
        """The history in wire form, always one that a strict server accepts."""
        return messages_of(self._wire(self._spoken(), self.tools), self.exchanges)

    def reset(self) -> None:
        """Forget the conversation; tools, model and settings stay."""
        self._end_earlier()
        self.exchanges.clear()

    def undo(self) -> str | None:
        """Forget the last exchange.

        Returns:
            Its question; None where there is none.
        """
        self._end_earlier()
        return self.exchanges.pop().question if self.exchanges else None

    def run(
        self,
        question: str,
        *,
        output_type: Any = None,
        until: Until | None = None,
        images: Any = (),
        origin: str = "",
        observers: Sequence[Observer] = (),
    ) -> Run:
        """Ask a question and wait for the end.

        Args:
            question: The question.
            output_type: What the answer must be, any type that an argument of a tool may have; it is then
                ``run.value``. None takes text.
            until: A condition: it gets the answer (the typed value where there is a type) and returns what is
                wrong with it, which the model is told, or an empty text. What it raises is wrong with it too.
            images: Shown with the question, one or several: PNG or JPEG (base64, bytes or a path), or objects
                that are pictures.
            origin: What asks, such as a cell: the exchange of an earlier question of this origin is replaced in
                its place, and only what was said before it is the past of this one.
            observers: Told of every event, and of what running tools print.

        Returns:
            The run; `incomplete` where a limit ended it.

        Raises:
            ModelError: The endpoint failed; the conversation goes on without this question.
            TaskFailed: The model gave up.
            RunInterrupted: A person interrupted.
            ToolError: No answer can be of the type.
            ValueError: The question is empty, an image cannot be read, or `until` is no function.
        """
        run = Run(question)
        asked = read(question, output_type, until, images, origin, self._names())
        try:
            with closing(self._watched(run, asked, observers)) as events:
                for _ in events:
                    pass
        except KeyboardInterrupt:
            raise run.interrupt() from None
        return run.checked()

    def stream(
        self,
        question: str,
        *,
        output_type: Any = None,
        until: Until | None = None,
        images: Any = (),
        origin: str = "",
        observers: Sequence[Observer] = (),
    ) -> Generator[Event, None, Run]:
        """Ask a question and see every event as it happens; the arguments are those of `run`.

        What running tools print goes to the observers only: an iterator cannot be told while a tool runs.

        Yields:
            The events of the run, the pieces of streamed replies included; the ending is the last.

        Returns:
            The run, as `run` does; raises what `run` raises, after the ending.
        """
        run = Run(question)
        asked = read(question, output_type, until, images, origin, self._names())
        try:
            yield from self._watched(run, asked, observers)
        except KeyboardInterrupt:
            raise run.interrupt() from None
        return run.checked()

    def preview(
        self,
        question: str,
        *,
        output_type: Any = None,
        until: Until | None = None,
        images: Any = (),
        origin: str = "",
    ) -> AskModel:
        """Say what would be sent for a question, whose arguments are those of `run`; nothing is asked or kept.

        Returns:
            The first request of such a run.
        """
        exchange = read(question, output_type, until, images, origin, self._names()).exchange
        tools = self.tools
        wire = self._wire(self._spoken(), tools)
        room = room_for(self.model, ChainMap({}, self._names()))  # a preview makes no variables
        flow = react_loop(wire, self._guards(tools), self._past(origin), exchange, room=room)
        request = next(flow)
        while not (isinstance(request, AskModel) and request.step):
            # What is asked about the question beforehand is taken to be answered with yes.
            request = flow.send(ModelReply("yes") if isinstance(request, AskModel) else None)
        return request

    # ── inside ────────────────────────────────────────────────────────────────────────────────────

    def _watched(self, run: Run, asked: Question, observers: Sequence[Observer]) -> Events:
        """The events of a run, each shown to its observers first; an interrupt of theirs is the run's."""
        self._end_earlier()
        events = self._events(run, asked, observers)
        self._running = weakref.ref(events)
        interrupted = False
        try:
            event = next(events, None)
            while event is not None:
                try:
                    for observer in observers:
                        observer(event)
                    yield event
                except KeyboardInterrupt as stop:
                    # It hit a watcher, not the run: the run must hear of it to come to a proper end.
                    interrupted = True
                    event = events.throw(stop)
                else:
                    event = next(events, None)
        except StopIteration:  # it was over already
            pass
        except KeyboardInterrupt:  # it hit us, between two events
            interrupted = True
        finally:
            events.close()
        if interrupted and not isinstance(run.ending, Interrupted):
            raise KeyboardInterrupt  # too late to stop the run, but not to stop what comes after it

    def _end_earlier(self) -> None:
        """End a run that was left unfinished, as by a stream that nobody iterates any more."""
        earlier = self._running()
        if earlier is not None:
            if inspect.getgeneratorstate(earlier) == inspect.GEN_RUNNING:
                raise RuntimeError(
                    "this agent is answering a question already; ask another agent, or wait"
                )
            earlier.close()

    def _names(self) -> Namespace:
        return live_namespace() if self._namespace is None else self._namespace

    def _spoken(self) -> Spoken:
        return self.model.protocol if self.protocol == "auto" else self.protocol

    def _wire(self, spoken: Spoken, tools: Toolbox) -> Wire:
        return (
            NativeWire(tools, self.instructions)
            if spoken == "native"
            else ReactWire(tools, self.instructions)
        )

    def _guards(self, tools: Toolbox, clock: Callable[[], float] = time.monotonic) -> Guards:
        may_repeat = {name for name, tool in tools.items() if tool.repeat}
        return Guards(self.limits, clock, may_repeat, getattr(self.model, "is_small", False))

    def _past(self, origin: str) -> tuple[Exchange, ...]:
        return tuple(self.exchanges[: place_of(self.exchanges, origin)])

    def _events(self, run: Run, asked: Question, observers: Sequence[Observer]) -> Events:
        """Everything that happens in a run; what came of it is kept however it ends."""
        exchange = asked.exchange
        try:
            yield from recorded(run, exchange, self._drive(run, asked, observers))
        finally:
            try:
                self._keep(exchange)
            except KeyboardInterrupt:
                self._keep(exchange)
                raise

    def _keep(self, exchange: Exchange) -> None:
        """Put an exchange into its place, where it is worth keeping; once is enough."""
        if exchange.is_worth_keeping and all(each is not exchange for each in self.exchanges):
            place = place_of(self.exchanges, exchange.origin)
            self.exchanges[place : place + 1] = [exchange]

    def _drive(self, run: Run, asked: Question, observers: Sequence[Observer]) -> Events:
        tools = self.tools
        exchange, answers = asked.exchange, asked.answers
        early = self._named(run)
        if early is not None:
            run.ending = exchange.ending = early
            yield early
            return
        begins = getattr(self.model, "begins", None)
        if begins is not None:  # a recording gives a cell that is run again what it gave before
            begins(*asked_by(exchange.origin))
        executor = KernelExecutor(
            tools, self._names(), self._approve, person_for(self.model),
            watched(observers, "output"), watched(observers, "person"), allow=self._allow,
        )  # fmt: skip
        # A person may take their time to answer: a run's seconds are those of the model and its tools.
        guards = self._guards(tools, lambda: time.monotonic() - executor.waited)
        driver = Driver(
            run, exchange, self._past(exchange.origin), self.model, executor, guards,
            lambda spoken: self._wire(spoken, tools), room_for(self.model, self._names()),
            answers.check if answers.are_checked else None, may_fall_back=self.protocol == "auto",
        )  # fmt: skip
        yield from driver.events(self._spoken())

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
