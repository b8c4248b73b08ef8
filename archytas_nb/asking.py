"""Asks one question: from its setup and the conversation to the events of its run.

A question is a `RunSetup` (what it is asked with) and an `Exchange` (what is asked). An agent has
an `AgentSetup`, from which each question gets its settings, read once. `Asked` puts
them together: it chooses the model, makes the tools, the executor and the driver, and adds the
exchange to the conversation when the run has ended. A row of a map is asked in the same way.
"""

from __future__ import annotations

import functools
import inspect
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, get_args

from archytas_nb.choices import ActiveProtocol, ValuesName
from archytas_nb.driver import (
    AnswerCheck,
    Driver,
    Events,
    Observer,
    Sandbox,
    ending_only,
    run_events,
)
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.kernel.assigned import may_be_assigned
from archytas_nb.kernel.cells import cells_tool
from archytas_nb.kernel.context import context_of, look_tools, offers_cells_tool
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.failure import last_error
from archytas_nb.kernel.permission import NOTEBOOK, Permissions, Source
from archytas_nb.kernel.person import Keyboard, Person, confirm, person_elsewhere
from archytas_nb.kernel.python import python_tool
from archytas_nb.kernel.ran import last_failure
from archytas_nb.kernel.reads import Reads
from archytas_nb.kernel.shell import Namespace, current_shell, live_namespace, running_cell
from archytas_nb.kernel.transaction import Watch
from archytas_nb.loop import events as ev
from archytas_nb.loop.calls_made import CallsOfReplies
from archytas_nb.loop.function_calling import FunctionCalling
from archytas_nb.loop.limits import Guards, Limits
from archytas_nb.loop.loop import react_loop
from archytas_nb.loop.model import (
    Model,
    ModelFacts,
    answers_itself,
    is_model,
    person_of,
    start_question,
)
from archytas_nb.loop.profile import ModelProfile
from archytas_nb.loop.record import Exchange, Inbox, LastError, index_of
from archytas_nb.loop.text_protocol import TextProtocol
from archytas_nb.loop.wire import Wire
from archytas_nb.models.secrets import mask_in
from archytas_nb.question import Options, chosen_tools, toolbox_of
from archytas_nb.rules import Instructions, read_instructions
from archytas_nb.run import Run
from archytas_nb.settings import Settings
from archytas_nb.small.profile import profile_of
from archytas_nb.syntax.program import PROGRAM_ENDINGS
from archytas_nb.tools.current import host
from archytas_nb.tools.names import RESERVED
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox, toolbox

if TYPE_CHECKING:
    from archytas_nb.kernel.disclosure import Disclosure


def _confirm(question: str) -> bool | None:
    """Ask for yes or no, with buttons where they work."""
    from archytas_nb.trace.controls import Controls

    return confirm(question, Controls(Keyboard()))


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
        if answers_itself(self.given):
            chosen: Model = self.given
            self.chosen = chosen
            return chosen
        from archytas_nb.cassettes.switch import cassette_in_use, recorded
        from archytas_nb.models.choose import ModelSettings

        cassette = cassette_in_use()
        is_named = self.given is None or isinstance(self.given, str)
        configuration = None
        if is_named:
            configuration = ModelSettings().resolved()
        chosen_for = (cassette, configuration)
        if self.chosen is None or self._chosen_for != chosen_for:
            self.chosen = recorded(self.given, cassette=cassette, confirm=_confirm)
            self._chosen_for = chosen_for
        return self.chosen

    @property
    def known(self) -> Model | None:
        """The model that was chosen last, or else the one given; None if that is only a name."""
        if self.chosen is None and is_model(self.given):
            given: Model = self.given
            return given
        return self.chosen

    @property
    def profile(self) -> ModelProfile:
        """What the model is that was chosen last; the ordinary profile if none was chosen yet."""
        return profile_of(self.chosen)


def instructions_in(settings: Settings) -> Instructions:
    """The text that is added to the system prompt, and its file; raises ConfigurationError."""
    if not settings.instructions.lstrip().startswith("@"):
        return Instructions(settings.instructions)
    return read_instructions(settings.instructions)


@dataclass(frozen=True, slots=True)
class AgentSetup:
    """What the questions of an agent are asked with, before a question is asked.

    Attributes:
        given: The arguments of the agent; the settings apply where it has none.
        choice: The model.
        tools: The tools; None for those of the default toolbox.
        own_tools: The tools of this agent only.
        namespace: The variables; None for the live namespace.
    """

    given: Mapping[str, Any]
    choice: ModelChoice
    tools: Toolbox | None = None
    own_tools: Toolbox = field(default_factory=Toolbox)
    namespace: Namespace | None = None

    def settings(self) -> Settings:
        """The settings of a question that is asked now; raises ConfigurationError, ValueError."""
        return Settings.now(self.given)

    def but(self, **given: Any) -> AgentSetup:
        """The same with other arguments; raises ValueError if one is invalid."""
        setup = replace(self, given={**self.given, **given})
        setup.settings()
        return setup

    def now(self) -> RunSetup:
        """The setup for a question that is asked now.

        Raises:
            ConfigurationError: A setting cannot be read.
            ToolError: The function of a tool was changed, and cannot be a tool any more.
        """
        for each in (toolbox if self.tools is None else self.tools, self.own_tools):
            each.reread()
        settings = self.settings()
        return RunSetup(
            settings,
            instructions_in(settings),
            self.choice,
            self.tools,
            self.own_tools,
            self.namespace,
        )

    def for_question(self, options: Options) -> RunSetup:
        """The setup for a question with these options.

        Raises:
            ConfigurationError: A setting cannot be read.
            ValueError: An option is invalid.
        """
        setup = self
        limits = {name: each for name, each in options.items() if hasattr(Limits, name)}
        if limits:
            setup = setup.but(**limits)
        if "tools" in options:
            setup = replace(setup, tools=toolbox_of(options["tools"]), own_tools=Toolbox())
        if "model" in options:
            setup = replace(setup, choice=ModelChoice(options["model"]))
        return setup.now()

    def for_rows(self, *, is_planned: bool = False) -> RunSetup:
        """The setup for the rows of a map: nobody is asked, and no code is run in the notebook.

        Args:
            is_planned: Whether one program answers all rows, so that none is sent.

        Raises:
            ConfigurationError: The model may not see values, and the rows would be sent.
        """
        values = self.settings().values
        if is_asked_unseen():
            raise ConfigurationError(ASKED_UNSEEN)
        if values != "all" and not is_planned:
            raise ConfigurationError(
                f"values is {values!r}, and the question of each row of a map contains its values: "
                'plan the map (plan=True, %agent_map --plan), or map with values="all"'
            )
        # The question of a row contains all that it is about.
        rows = {"context": "none", "ask_user": False, "python": "off", "undo": False}
        setup = self.but(**rows).now()
        tools = Toolbox(*setup.offered(self.choice.profile).values())
        return replace(
            setup,
            tools=tools,
            own_tools=Toolbox(),
            namespace=setup.variables,
            notes_reads=False,
        )


@dataclass(frozen=True, slots=True)
class RunSetup:
    """What a question is asked with, apart from its conversation.

    Attributes:
        settings: The settings.
        instructions: The text that is added to the system prompt, and its file.
        choice: The model.
        tools: The tools; None for those of the default toolbox.
        own_tools: The tools of this agent only.
        namespace: The variables; None for the live namespace.
        notes_reads: Whether what calls read is noted, to check the answer later.
        permitted: What the person has permitted before; None for nothing.
    """

    settings: Settings
    instructions: Instructions
    choice: ModelChoice
    tools: Toolbox | None = None
    own_tools: Toolbox = field(default_factory=Toolbox)
    namespace: Namespace | None = None
    notes_reads: bool = True
    permitted: Permissions | None = None

    @property
    def variables(self) -> Namespace:
        """The variables of the user."""
        if self.namespace is None:
            return live_namespace()
        return self.namespace

    def offered(self, profile: ModelProfile) -> Toolbox:
        """The tools for a question to a model, apart from those for variables.

        Raises:
            ConfigurationError: A tool of the user has the name of a built-in one that is used.
        """
        if self.tools is not None:
            tools = self.tools.active()
        else:
            tools = toolbox.active()
            patterns = self.settings.tools
            if patterns:
                tools = tools.only(*chosen_tools(patterns, tools, "the setting tools"))
        tools.extend(self.own_tools)
        if self.settings.asks_user:
            add_built_in(tools, ask_user_tool(), "ask_user=False")
        python = self.settings.python_for(by_setting=profile.runs_python)
        if python != "off":
            add_built_in(tools, python_tool(python), 'python="off"')
        return tools

    def summarises(self, profile: ModelProfile) -> bool:
        """Whether a summary takes the place of what is dropped of a long conversation."""
        return self.settings.compaction == "summary" and profile.summarises

    def watches(self, profile: ModelProfile) -> bool:
        """Whether changes of the variables are watched in a run with a model."""
        if self.settings.undo is None:
            python = self.settings.python_for(by_setting=profile.runs_python)
            return python in ("ask", "undoable")
        return self.settings.undo

    def question_tools(
        self,
        exchange: Exchange,
        past: Sequence[Exchange],
        earlier: Exchange | None,
        profile: ModelProfile,
    ) -> Toolbox:
        """The tools for a question, including those that read variables; sets its context."""
        hidden = None
        if self.hides_values:
            from archytas_nb.kernel.disclosure import made_names

            hidden = made_names
        error = self.last_error()
        if error not in [each.error for each in past]:  # it is told once in a conversation
            exchange.error = error
        exchange.rules = self.instructions.file
        tools = self.offered(profile)
        small = not profile.sees_all
        own_tools = dict(tools)
        found = context_of(
            self.settings.context,
            self.variables,
            exchange.question,
            past,
            earlier,
            small=small,
            alone=not own_tools,
            failed="" if exchange.error is None else exchange.error.source,
            hidden=hidden,
        )
        reading_tools: list[Tool] = []
        if self.hides_values:
            reading_tools += self._comparing_tools()
        elif found is not None and not (small and exchange.error is not None):
            # What a small model can say of an error stands in the question: it only reads on.
            reading_tools += look_tools(exchange.question if small else "")
        if (
            not self.hides_values
            and self._may_see_cells()
            and not (small and exchange.error is not None)
            and offers_cells_tool(exchange.question, small=small)
        ):
            reading_tools.append(cells_tool(mask_in))
        reading_tools = [each for each in reading_tools if each.name not in own_tools]
        tools.extend(Toolbox(*reading_tools))
        if found is None:
            return tools
        preferred: list[str] = []
        if self.settings.context == "auto":
            # A tool that requires approval changes something: it is no way to read variables.
            preferred = [name for name, each in own_tools.items() if not each.may_require_approval]
        exchange.context = replace(
            found,
            tools=tuple(each.name for each in reading_tools),
            preferred_tools=tuple(preferred),
        )
        return tools

    def last_error(self) -> LastError | None:
        """What a question says of the cell before it; None if that did not fail, or may not."""
        if not self._may_see_cells() or last_failure() is None:
            return None
        if self.hides_values:
            from archytas_nb.kernel.disclosure import error_of_cell

            return error_of_cell()
        return last_error(mask_in(self.variables))

    def _comparing_tools(self) -> list[Tool]:
        """The tool that compares values; a program does it by itself."""
        from archytas_nb.kernel.disclosure import compare_tool

        if self.settings.values == "strict" or self.protocol(self.choice.known) == "program":
            return []
        return [compare_tool()]

    @property
    def hides_values(self) -> bool:
        """Whether the model may not see all values."""
        return self.settings.hides_values

    def _may_see_cells(self) -> bool:
        """Whether the question is about the notebook, and the model may see of it."""
        is_live = self.namespace is None or self.namespace is live_namespace()
        return is_live and self.settings.context != "none"

    def protocol(self, model: Model | None) -> ActiveProtocol:
        """The wire protocol for a model; ``"react"`` where none is known yet."""
        if self.settings.protocol != "auto":
            return self.settings.protocol
        if model is None:
            return "react"
        # Programs compute with values that the model does not see.
        wished = "program" if self.hides_values else model.protocol
        if wished != "program" or _runs_programs():
            return wished
        return "react" if model.protocol == "program" else model.protocol

    def wire(
        self,
        protocol: ActiveProtocol,
        tools: Toolbox,
        exchange: Exchange,
        profile: ModelProfile,
    ) -> Wire:
        """A wire protocol for a question with these tools."""
        instructions = self.instructions.text
        if self.hides_values:
            from archytas_nb.kernel.disclosure import PROGRAM_RULES, RULES

            rules = PROGRAM_RULES if protocol == "program" else RULES
            instructions = f"{instructions}\n\n{rules}".strip()
        if protocol == "native":
            return FunctionCalling(tools, instructions)
        if protocol == "program":
            from archytas_nb.tools.declaration import declaration

            functions = {name: declaration(tool) for name, tool in tools.items()}
            return profile.programs(
                tools,
                functions,
                instructions,
                names_variables=self.settings.context != "none",
                is_typed=exchange.form is not None,
            )
        return TextProtocol(tools, instructions)

    def disclosure(self, tools: Toolbox) -> Disclosure | None:
        """What the model may learn of values; None if it may learn all."""
        if not self.hides_values:
            return None
        from archytas_nb.kernel.disclosure import Disclosure, compare

        # A tool of the person's own may have such a name.
        ours = (ask_user_tool().function, compare)
        open_tools = [name for name, tool in tools.items() if tool.function in ours]
        return Disclosure(
            self.settings.values,
            self.variables,
            open_tools,
            code_tools=[name for name, tool in tools.items() if tool.runs_code],
            has_policy=callable(self.settings.approve),
        )

    def past_of(
        self, exchange: Exchange, exchanges: Sequence[Exchange], protocol: ActiveProtocol
    ) -> tuple[tuple[Exchange, ...], Exchange | None]:
        """The exchanges that a model may read before a question, and the one that it replaces.

        The calls of a program were made with values.
        """
        past, earlier = place_of(exchange, exchanges)
        if self.hides_values and protocol != "program":
            past = tuple(each for each in past if not any(step.program for step in each.steps))
        exchange.number = index_of(exchanges, exchange.origin) + 1
        exchange.is_apart = len(past) + 1 < exchange.number
        return past, earlier

    def why_refused(self, exchange: Exchange, protocol: ActiveProtocol) -> str:
        """Why a question is not asked that would tell values; empty if it is."""
        if is_asked_unseen():
            return ASKED_UNSEEN
        if not self.hides_values:
            return ""
        setting = f"values is {self.settings.values!r}"
        if exchange.images:
            return f"{setting}, and a picture would be sent with the question: ask without it"
        if protocol != "program" and exchange.form is not None:
            return (
                f"{setting}, and with protocol={protocol!r} an answer of a required type would be "
                'a value that the model writes: use protocol="program", or ask for text'
            )
        return ""

    def guards(self, tools: Toolbox, clock: Callable[[], float], profile: ModelProfile) -> Guards:
        """The limits of a run, and the guard against repeated calls."""
        may_repeat = {name for name, tool in tools.items() if tool.repeat}
        return Guards(
            self.settings.limits, clock, CallsOfReplies(may_repeat, profile.confirms_repeats)
        )

    def first_request(
        self, exchange: Exchange, exchanges: Sequence[Exchange]
    ) -> tuple[ev.AskModel, Toolbox]:
        """The first request of a run, and its tools; nothing is sent or stored."""
        model = self.choice.choose()
        exchange.values = self.settings.values
        past, earlier = self.past_of(exchange, exchanges, self.protocol(model))
        profile = self.choice.profile
        exchange.model = profile.facts.identity
        tools = self.question_tools(exchange, past, earlier, profile)
        wire = self.wire(self.protocol(model), tools, exchange, profile)
        guards = self.guards(tools, time.monotonic, profile)
        summarises = self.summarises(profile)
        flow = react_loop(wire, guards, past, exchange, profile=profile, summarises=summarises)
        request = next(flow)
        while not isinstance(request, ev.AskModel) or request.is_aside:
            reply = None
            if isinstance(request, ev.AskModel) and request.about:
                reply = ev.ModelReply("(A summary, for which the model is asked first.)")
            elif isinstance(request, ev.AskModel):  # to a small model, before the first step
                reply = ev.ModelReply("yes")
            request = flow.send(reply)
        return request, tools


ASKED_UNSEEN = (
    "the values of the run that called this tool stay here, and what a tool tells a model may "
    "contain values: return it instead"
)
"""Why a tool may not ask or tell a model."""


def is_asked_unseen() -> bool:
    """Whether a tool asks, of a run whose model may not see all values."""
    asking = host.get()
    return asking is not None and asking.values != "all"


STRICTNESS = {name: place for place, name in enumerate(get_args(ValuesName))}
"""How little a model may learn of values: the least with ``"strict"``."""


def place_of(
    exchange: Exchange, exchanges: Sequence[Exchange]
) -> tuple[tuple[Exchange, ...], Exchange | None]:
    """The exchanges of a conversation before a question, and the one that it replaces.

    Those that may hold values which the model must not learn now are left out.
    """
    index = index_of(exchanges, exchange.origin)
    earlier = None
    if index < len(exchanges):
        earlier = exchanges[index]
    known = STRICTNESS[exchange.values]
    past = (each for each in exchanges[:index] if STRICTNESS[each.values] >= known)
    return tuple(past), earlier


@dataclass(slots=True)
class Asked:
    """A question that is asked.

    Attributes:
        setup: What it is asked with.
        run: Its run.
        exchange: Its record.
        check: Checks the answer; None if any answer is accepted.
        exchanges: The conversation, to which the record is added if it is worth keeping.
        inbox: What the person tells the agent meanwhile, and whether they end the run.
    """

    setup: RunSetup
    run: Run[Any]
    exchange: Exchange
    check: AnswerCheck | None = None
    exchanges: list[Exchange] = field(default_factory=list)
    inbox: Inbox = field(default_factory=Inbox)
    _deleted_results: dict[str, Any] = field(default_factory=dict)  # of the question it replaces

    def events(self, observers: Sequence[Observer] = ()) -> Events:
        """All events of the run; its record is kept however it ends."""
        begin = functools.partial(self._begin, observers)
        return run_events(self.run, self.exchange, begin, self._keep, observers, self.inbox)

    def _begin(self, observers: Sequence[Observer]) -> Events:
        """The events of the run, or only the ending if no model can be asked."""
        setup = self.setup
        run = self.run
        exchange = self.exchange
        try:
            model = setup.choice.choose()
            start_question(model, *origin_and_execution(exchange.origin))
            protocol = setup.protocol(model)
            profile = setup.choice.profile
            exchange.model = profile.facts.identity
            run.model = model.name
            run.protocol = protocol
            run.price = profile.facts.price
            if protocol == "program":
                from archytas_nb.sandbox import pool

                pool.require()
        except ConfigurationError as error:
            run.error = error
            return ending_only(exchange, ev.Failed(str(error), by="setup"))
        except ModelError as error:
            run.error = error
            return ending_only(exchange, ev.Failed(str(error), by="endpoint"))
        except KeyboardInterrupt:
            return ending_only(exchange, ev.Interrupted("a request to the model"))
        exchange.values = setup.settings.values
        past, earlier = setup.past_of(exchange, self.exchanges, protocol)
        self._deleted_results |= delete_stored_results(earlier, setup.variables)
        tools = setup.question_tools(exchange, past, earlier, profile)
        run.tools = tools
        run.namespace = setup.variables
        run.reads = Reads(tools, setup.variables) if setup.notes_reads else None
        if protocol == "program":
            from archytas_nb.tools.declaration import by_python_name

            try:
                by_python_name(tools.values())
            except ConfigurationError as error:
                run.error = error
                return ending_only(exchange, ev.Failed(str(error), by="setup"))
        why = setup.why_refused(exchange, protocol)
        if why:
            run.error = ConfigurationError(why)
            return ending_only(exchange, ev.Failed(why, by="setup"))
        run.watch = None
        if setup.watches(profile):
            run.watch = Watch(setup.variables)
        show = notifier(observers)
        executor = self._executor(tools, model, show)
        driver = Driver(
            run,
            exchange,
            past,
            model,
            executor,
            # The time that a person takes to answer does not count.
            setup.guards(tools, executor.clock, profile),
            profile,
            functools.partial(setup.wire, tools=tools, exchange=exchange, profile=profile),
            self.check,
            inbox=self.inbox,
            summarises=setup.summarises(profile),
            may_fall_back=setup.settings.protocol == "auto",
            open_sandbox=functools.partial(self._open_sandbox, tools, past),
            show=show,
            disclosure=setup.disclosure(tools),
        )
        return driver.events(protocol)

    def _open_sandbox(self, tools: Toolbox, past: Sequence[Exchange]) -> Sandbox:
        """The sandbox for programs, with the variables of the earlier ones of the conversation."""
        from archytas_nb.sandbox.bounds import Bounds
        from archytas_nb.sandbox.session import Session

        states = (each.program_state for each in reversed(past))
        state = next((each for each in states if each is not None), None)
        settings = self.setup.settings
        return Session(
            tools,
            self.setup.variables,
            state,
            Bounds(**settings.program_bounds),
            names_variables=settings.context != "none",
        )

    def _executor(
        self, tools: Toolbox, model: Model, show: Callable[[ev.Delta], bool]
    ) -> KernelExecutor:
        """The executor for the calls of the run."""
        from archytas_nb.trace.controls import Controls

        user = person_elsewhere.get() or Controls(Keyboard())
        settings = self.setup.settings

        def show_question(text: str, form: ev.ApprovalForm | None = None) -> bool:
            decision = None if form is None else form.decision
            if decision is not None and decision.kind == "stopped":
                self.inbox.stop()
            return show(ev.Delta("person", text, form))

        source = NOTEBOOK
        if ModelFacts(model).is_program:
            source = Source("program")
        elif person_elsewhere.get() is not None:
            source = Source("chat")
        person: Person = person_of(model, user, hides_values=self.setup.hides_values)
        return KernelExecutor(
            tools,
            self.setup.variables,
            settings.approve,
            person,
            lambda text: show(ev.Delta("output", text)),
            show_question,
            on_display=lambda each: show(ev.Delta("display", "", output=each)),
            on_ended=lambda each: show(ev.Delta("ended", "", outcome=each)),
            allow=settings.allowed,
            watch=self.run.watch,
            source=source,
        )

    def _keep(self) -> None:
        """Add the record to the conversation if it is worth keeping; may be called repeatedly."""
        self.inbox.close()  # the driver has done so, unless an interrupt came instead
        is_new = all(each is not self.exchange for each in self.exchanges)
        if is_new and self.exchange.is_worth_keeping:
            index = index_of(self.exchanges, self.exchange.origin)
            self.exchanges[index : index + 1] = [self.exchange]
        while self._deleted_results:  # results that were not created again are restored
            self.setup.variables.setdefault(*self._deleted_results.popitem())


def _runs_programs() -> bool:
    """Whether programs can be run here."""
    from archytas_nb.sandbox import pool

    return pool.is_available()


# ── built-in tools and results that are stored ────────────────────────────────────────────────────


@functools.cache
def ask_user_tool() -> Tool:
    """The tool with which a model asks the user."""
    from archytas_nb.kernel.person import ask_user

    return Tool.from_function(ask_user, repeat=True)


def built_in_names() -> frozenset[str]:
    """All names that a question can use beside those of the user's tools."""
    from archytas_nb.kernel.disclosure import compare_tool

    tools = (ask_user_tool(), python_tool("ask"), *look_tools(), cells_tool(str), compare_tool())
    return frozenset({*(each.name for each in tools), *RESERVED, *PROGRAM_ENDINGS})


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
    if earlier is None:
        return deleted
    for step in earlier.steps:
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

    @property
    def is_running(self) -> bool:
        """Whether a question is being answered now, so that this is asked from within."""
        earlier = self.events()
        return earlier is not None and inspect.getgeneratorstate(earlier) == inspect.GEN_RUNNING

    def end(self) -> None:
        """End an abandoned run, such as that of a stream that is no longer iterated."""
        earlier = self.events()
        if earlier is not None:
            if self.is_awaited or inspect.getgeneratorstate(earlier) == inspect.GEN_RUNNING:
                raise RuntimeError(
                    "this agent is already answering a question; ask another agent, or wait"
                )
            earlier.close()


def notifier(observers: Sequence[Observer]) -> Callable[[ev.Delta], bool]:
    """A function that passes what a running call prints, displays or asks to the observers.

    Their errors do not reach the tool. It returns whether an observer displays the form.
    """
    lock = threading.RLock()  # several threads of a tool may print

    def notify(delta: ev.Delta) -> bool:
        is_shown = False
        for observer in observers:
            with lock, suppress(Exception):  # this runs inside the tool's print
                returned = observer(delta)
                is_shown = is_shown or (delta.form is not None and returned is delta.form)
        return is_shown

    return notify
