"""Asks one question: from its setup and the conversation to the events of its run.

A question is a `RunSetup` (what it is asked with) and an `Exchange` (what is asked). `Asked` puts
them together: it chooses the model, makes the tools, the executor and the driver, and adds the
exchange to the conversation when the run has ended. A row of a map is asked in the same way.
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import Any, Literal

from archytas_nb.driver import AnswerCheck, Driver, Events, Observer
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.kernel.assigned import may_be_assigned
from archytas_nb.kernel.context import context_of, look_tools
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.person import Keyboard, Person, confirm
from archytas_nb.kernel.python import python_tool
from archytas_nb.kernel.shell import Namespace, current_shell, live_namespace, running_cell
from archytas_nb.kernel.transaction import Watch
from archytas_nb.loop import events as ev
from archytas_nb.loop.function_calling import FunctionCalling
from archytas_nb.loop.limits import Guards, Limits
from archytas_nb.loop.loop import react_loop
from archytas_nb.loop.model import Model, ModelFacts, person_of, start_question
from archytas_nb.loop.record import Exchange, index_of
from archytas_nb.loop.text_protocol import TextProtocol
from archytas_nb.loop.wire import Wire
from archytas_nb.question import AgentSettings, Options, default_tools, toolbox_of
from archytas_nb.run import Run
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox, toolbox


class ModelChoice:
    """The model of an agent, which is chosen when it is first needed.

    Args:
        given: A name, a model, or None for the configured one.

    Attributes:
        chosen: The model that was chosen last; None if none was chosen yet.
    """

    def __init__(self, given: Any) -> None:
        self.given = given
        self.chosen: Model | None = None
        self._chosen_for: object = None

    def choose(self) -> Model:
        """The model, behind the cassette in use, if there is one.

        A model that is given by its name, or by None, is chosen again when the configuration of
        models or the cassette has changed.

        Raises:
            ConfigurationError: There is no such model.
            ModelError: The endpoint does not answer.
        """
        from archytas_nb.cassettes.switch import answers_itself, cassette_in_use, recorded
        from archytas_nb.models.choose import ModelSettings

        cassette = None
        if not answers_itself(self.given):
            cassette = cassette_in_use()
        is_named = self.given is None or isinstance(self.given, str)
        configuration = None
        if is_named:
            configuration = ModelSettings().resolved()
        chosen_for = (cassette, configuration)
        if self.chosen is None or self._chosen_for != chosen_for:
            self.chosen = recorded(self.given, cassette=cassette, confirm=confirm)
            self._chosen_for = chosen_for
        return self.chosen


@dataclass(frozen=True, slots=True)
class RunSetup:
    """What questions are asked with, apart from their conversation.

    Attributes:
        configuration: The settings.
        choice: The model.
        tools: The tools; None for those of the default toolbox.
        own_tools: The tools of this agent only.
        namespace: The variables; None for the live namespace.
    """

    configuration: AgentSettings
    choice: ModelChoice
    tools: Toolbox | None = None
    own_tools: Toolbox = field(default_factory=Toolbox)
    namespace: Namespace | None = None

    def for_question(self, options: Options) -> RunSetup:
        """The setup for one question: with its options, and with what is configured now.

        Raises:
            ValueError: An option is invalid.
        """
        limits = {name: each for name, each in options.items() if hasattr(Limits, name)}
        setup = replace(self, configuration=self.configuration.fixed().having(**limits))
        if limits:
            _ = setup.configuration.limits  # which validates them
        if "tools" in options:
            setup = replace(setup, tools=toolbox_of(options["tools"]), own_tools=Toolbox())
        if "model" in options:
            setup = replace(setup, choice=ModelChoice(options["model"]))
        return setup

    def for_rows(self) -> RunSetup:
        """The setup for the rows of a map: nobody is asked, and no code is run in the notebook."""
        # The question of a row contains all that it is about.
        rows = {"context": "none", "ask_user": False, "python": "off", "undo": False}
        configuration = self.configuration.fixed().having(**rows)
        offered = replace(self, configuration=configuration).offered(self.choice.chosen)
        tools = Toolbox(*offered.values())
        return RunSetup(configuration, self.choice, tools, Toolbox(), self.variables)

    @property
    def variables(self) -> Namespace:
        """The variables of the user."""
        if self.namespace is None:
            return live_namespace()
        return self.namespace

    def offered(self, model: Model | None) -> Toolbox:
        """The tools for a question to this model, or to one that is not known yet.

        Raises:
            ConfigurationError: A tool of the user has the name of a built-in one that is used.
        """
        if self.tools is None:
            tools = default_tools(toolbox.active(), self.configuration.value("tools"))
        else:
            tools = self.tools.active()
        tools.extend(self.own_tools)
        if self.configuration.asks_user:
            add_built_in(tools, ask_user_tool(), "ask_user=False")
        python = self.configuration.python(model)
        if python != "off":
            add_built_in(tools, python_tool(python), 'python="off"')
        return tools

    def question_tools(
        self, exchange: Exchange, model: Model, past: Sequence[Exchange], earlier: Exchange | None
    ) -> Toolbox:
        """The tools for a question, including those that read variables; sets its context."""
        tools = self.offered(model)
        own_tools = dict(tools)
        context = self.configuration.value("context")
        small = ModelFacts(model).is_small
        found = context_of(
            context,
            self.variables,
            exchange.question,
            past,
            earlier,
            small=small,
            alone=not own_tools,
        )
        if found is not None:
            again = exchange.question if small else ""
            reading_tools = [each for each in look_tools(again) if each.name not in own_tools]
            # A tool that requires approval changes something: it is no way to read variables.
            instead = [name for name, tool in own_tools.items() if not tool.may_require_approval]
            alternatives = tuple(instead) if context == "auto" else ()
            names = tuple(each.name for each in reading_tools)
            exchange.context = replace(found, tools=names, preferred_tools=alternatives)
            tools.extend(Toolbox(*reading_tools))
        return tools

    def protocol(self, model: Model) -> ev.ActiveProtocol:
        """The wire protocol for a model."""
        protocol = self.configuration.value("protocol")
        return model.protocol if protocol == "auto" else protocol

    def wire(self, protocol: ev.ActiveProtocol, tools: Toolbox) -> Wire:
        """A wire protocol with these tools."""
        instructions = str(self.configuration.value("instructions"))
        if protocol == "native":
            return FunctionCalling(tools, instructions)
        return TextProtocol(tools, instructions)

    def guards(self, model: Model, tools: Toolbox, clock: Callable[[], float]) -> Guards:
        """The limits of a run, and the guard against repeated calls."""
        may_repeat = {name for name, tool in tools.items() if tool.repeat}
        limits = self.configuration.limits
        return Guards(limits, clock, may_repeat, ModelFacts(model).is_small)

    def first_request(
        self, exchange: Exchange, exchanges: Sequence[Exchange]
    ) -> tuple[ev.AskModel, Toolbox]:
        """The first request of a run, and its tools; nothing is sent or stored."""
        model = self.choice.choose()
        past, earlier = place_of(exchange, exchanges)
        exchange.model = ModelFacts(model).identity
        tools = self.question_tools(exchange, model, past, earlier)
        wire = self.wire(self.protocol(model), tools)
        guards = self.guards(model, tools, time.monotonic)
        flow = react_loop(wire, guards, past, exchange, model=model)
        request = next(flow)
        while not (isinstance(request, ev.AskModel) and request.step):
            # The questions to a small model before the first step are answered with yes.
            request = flow.send(ev.ModelReply("yes") if isinstance(request, ev.AskModel) else None)
        return request, tools


def place_of(
    exchange: Exchange, exchanges: Sequence[Exchange]
) -> tuple[tuple[Exchange, ...], Exchange | None]:
    """The exchanges of a conversation before a question, and the one that it replaces."""
    index = index_of(exchanges, exchange.origin)
    earlier = None
    if index < len(exchanges):
        earlier = exchanges[index]
    return tuple(exchanges[:index]), earlier


@dataclass(slots=True)
class Asked:
    """A question that is asked.

    Attributes:
        setup: What it is asked with.
        run: Its run.
        exchange: Its record.
        check: Checks the answer; None if any answer is accepted.
        exchanges: The conversation, to which the record is added if it is worth keeping.
    """

    setup: RunSetup
    run: Run[Any]
    exchange: Exchange
    check: AnswerCheck | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    _deleted_results: dict[str, Any] = field(default_factory=dict)  # of the question it replaces

    def events(self, observers: Sequence[Observer] = ()) -> Events:
        """All events of the run; its record is kept however it ends."""
        begin = functools.partial(self._begin, observers)
        return run_events(self.run, self.exchange, begin, self._keep, observers)

    def _begin(self, observers: Sequence[Observer]) -> Events:
        """The events of the run, or only the ending if no model can be asked."""
        setup = self.setup
        run = self.run
        exchange = self.exchange
        ending: ev.Ending
        try:
            model = setup.choice.choose()
            start_question(model, *origin_and_execution(exchange.origin))
            run.model = model.name
            run.protocol = protocol = setup.protocol(model)
            exchange.model = ModelFacts(model).identity
            run.price = ModelFacts(model).price
        except (ModelError, ConfigurationError) as error:
            run.error = error
            is_missing = isinstance(error, ConfigurationError)
            ending = ev.Failed(str(error), by="setup" if is_missing else "endpoint")
            return ending_only(exchange, ending)
        except KeyboardInterrupt:
            return ending_only(exchange, ev.Interrupted("a request to the model"))
        past, earlier = place_of(exchange, self.exchanges)
        self._deleted_results |= delete_stored_results(earlier, setup.variables)
        tools = setup.question_tools(exchange, model, past, earlier)
        run.watch = None
        if setup.configuration.watches(model):
            run.watch = Watch(setup.variables)
        executor = self._executor(tools, model, observers)
        driver = Driver(
            run,
            exchange,
            past,
            model,
            executor,
            # The time that a person takes to answer does not count.
            setup.guards(model, tools, executor.clock),
            functools.partial(setup.wire, tools=tools),
            self.check,
            may_fall_back=setup.configuration.value("protocol") == "auto",
        )
        return driver.events(protocol)

    def _executor(
        self, tools: Toolbox, model: Model, observers: Sequence[Observer]
    ) -> KernelExecutor:
        """The executor for the calls of the run."""
        person: Person = person_of(model, Keyboard())
        configuration = self.setup.configuration
        return KernelExecutor(
            tools,
            self.setup.variables,
            configuration.approve,
            person,
            observer_callback(observers, "output"),
            observer_callback(observers, "person"),
            allow=configuration.allow,
            watch=self.run.watch,
        )

    def _keep(self) -> None:
        """Add the record to the conversation if it is worth keeping; may be called repeatedly."""
        is_new = all(each is not self.exchange for each in self.exchanges)
        if is_new and self.exchange.is_worth_keeping:
            index = index_of(self.exchanges, self.exchange.origin)
            self.exchanges[index : index + 1] = [self.exchange]
        while self._deleted_results:  # results that were not created again are restored
            self.setup.variables.setdefault(*self._deleted_results.popitem())


# ── built-in tools and results that are stored ────────────────────────────────────────────────────


@functools.cache
def ask_user_tool() -> Tool:
    """The tool with which a model asks the user."""
    from archytas_nb.kernel.person import ask_user

    return Tool.from_function(ask_user, repeat=True)


def add_built_in(tools: Toolbox, built_in: Tool, off: str) -> None:
    """Add a built-in tool; ``off`` is the setting that switches it off.

    Raises:
        ConfigurationError: A tool of the person's own has its name.
    """
    is_taken = built_in.name in tools
    if is_taken and tools[built_in.name].function is not built_in.function:
        raise ConfigurationError(
            f"{built_in.name!r} is the name of a built-in tool that is switched on, and of a tool "
            f'of your own: give yours another name with @tool(name="…"), or set {off}'
        )
    tools.add(built_in)


def origin_and_execution(origin: str) -> tuple[str, str]:
    """The origin of a question, and the execution of its cell if that may ask several questions.

    Without an origin, as for an agent in Python, it is the running cell. Both may be empty.
    """
    if origin:
        return origin, ""
    cell, execution = running_cell(current_shell())
    if cell:
        return (f"{cell} in Python", execution)
    return ("", "")


def delete_stored_results(earlier: Exchange | None, variables: Namespace) -> dict[str, Any]:
    """Delete the stored results of a question that is asked again; return them by name.

    A variable that the person has assigned since is left alone, also if it holds the same object.
    """
    deleted: dict[str, Any] = {}
    for step in [] if earlier is None else earlier.steps:
        for _, outcome in step.pairs:
            name = outcome.stored
            is_there = name != "" and name in variables and variables[name] is outcome.value
            if is_there and not may_be_assigned(name, variables):
                deleted[name] = variables[name]
                del variables[name]
    return deleted


# ── the events of a run ───────────────────────────────────────────────────────────────────────────


class ActiveRun:
    """The unfinished run of an agent."""

    def __init__(self) -> None:
        self.events: Callable[[], Events | None] = lambda: None
        self.is_awaited = False  # by a task: nothing else may request the next event

    def end(self) -> None:
        """End an abandoned run, such as that of a stream that is no longer iterated."""
        earlier = self.events()
        if earlier is not None:
            if self.is_awaited or inspect.getgeneratorstate(earlier) == inspect.GEN_RUNNING:
                raise RuntimeError(
                    "this agent is already answering a question; ask another agent, or wait"
                )
            earlier.close()


def run_events(
    run: Run, exchange: Exchange, begin: Callable[[], Events], keep: Callable[[], None],
    observers: Sequence[Observer],
) -> Events:  # fmt: skip
    """Start a run; record its events, pass them to the observers, and yield them.

    In any case the run gets an ending and is kept. An interrupt while an event is handled
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
    finally:  # again, because an interrupt may have stopped the first attempt
        finish()


def _started_lazily(begin: Callable[[], Events]) -> Events:
    """The events of a run that starts when the first one is requested."""
    yield from begin()


def _observe(run: Run, exchange: Exchange, events: Events, observers: Sequence[Observer]) -> Events:
    started = time.perf_counter()
    interrupted = False
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
        raise KeyboardInterrupt  # too late for this run, but not for the code after it


def _throw(events: Events, stop: KeyboardInterrupt) -> ev.Event | None:
    """The next event after an interrupt; None if the run had already ended."""
    try:
        return events.throw(stop)
    except StopIteration:
        return None


def ending_only(exchange: Exchange, ending: ev.Ending) -> Events:
    """The events of a run that could not start."""
    exchange.ending = ending
    yield ending


def observer_callback(
    observers: Sequence[Observer], kind: Literal["output", "person"]
) -> Callable[..., bool]:
    """A function that passes what a running call prints or asks to the observers.

    Their errors do not reach the tool. It returns whether an observer displays the form.
    """
    lock = threading.RLock()  # several threads of a tool may print

    def notify(text: str, form: ev.ApprovalForm | None = None) -> bool:
        is_shown = False
        for observer in observers:
            with lock, suppress(Exception):  # this runs inside the tool's print
                returned = observer(ev.Delta(kind, text, form))
                is_shown = is_shown or (form is not None and returned is form)
        return is_shown

    return notify
