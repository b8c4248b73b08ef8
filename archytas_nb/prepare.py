"""Decides all that one question is asked with, once, for a run and for a dry run.

    RunSetup ──now()──▶ RunSetup ──prepare()──▶ Prepared ──▶ Driver ──▶ the loop
    of an agent         settings, tools         all that is decided
                        and files are read      once, for a run or a dry run

`prepare` only decides; `ask` in `driver.py` executes: it deletes what the question replaces, makes
the executor and the driver, and adds the record to the conversation when the run has ended. A row
of a map is asked in the same way.
"""

from __future__ import annotations

import fnmatch
import functools
import operator
import re
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias, get_args

from archytas_nb.answers import Answers, Until, condition_text
from archytas_nb.cells.failure import last_error
from archytas_nb.cells.ran import is_settled, last_failure
from archytas_nb.cells.reader import cells_tool
from archytas_nb.choices import ActiveProtocol, ValuesName
from archytas_nb.errors import ConfigurationError, argument_error, invalid_argument
from archytas_nb.kernel.assigned import is_assigned_by_user
from archytas_nb.kernel.cards import card_of
from archytas_nb.kernel.context import Reader, context_of
from archytas_nb.kernel.copied import COPY_TOOL, copy_tool, runs_in_copy
from archytas_nb.kernel.look import LIST_TOOL, look_tools, offers_cells_tool
from archytas_nb.kernel.permission import Permissions
from archytas_nb.kernel.person import Keyboard, confirm
from archytas_nb.kernel.python import python_tool
from archytas_nb.kernel.visible import variables_in
from archytas_nb.loop import events as ev
from archytas_nb.loop.calls_made import CallsOfReplies
from archytas_nb.loop.conversation import messages_of, sent_with
from archytas_nb.loop.descriptions import have_room
from archytas_nb.loop.function_calling import FunctionCalling
from archytas_nb.loop.limits import Guards, Limits
from archytas_nb.loop.loop import react_loop
from archytas_nb.loop.model import (
    Model,
    ModelFacts,
    answers_itself,
    is_model,
)
from archytas_nb.loop.profile import ModelProfile
from archytas_nb.loop.record import Context, Exchange, LastError, index_of, offers_of
from archytas_nb.loop.text_protocol import TextProtocol
from archytas_nb.loop.wire import CODE_IN_COPY, NO_CODE, Wire, code_in_notebook
from archytas_nb.models.secrets import mask_in
from archytas_nb.namespace import Namespace, current_shell, live_namespace, running_cell
from archytas_nb.rules import Instructions, read_instructions
from archytas_nb.run import AnswerCheck
from archytas_nb.settings import Settings
from archytas_nb.small.copy_protocol import COPY_CARD
from archytas_nb.syntax.program import PROGRAM_ENDINGS
from archytas_nb.tools.current import host
from archytas_nb.tools.data import encode_image, is_data
from archytas_nb.tools.names import RESERVED
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox, toolbox
from archytas_nb.words import did_you_mean, nearest

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
        """The model, wrapped by the cassette in use, if there is one.

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
        """The profile of the model that was chosen last; the ordinary one if there is none."""
        return profile_of(self.chosen)


def profile_of(model: object) -> ModelProfile:
    """The profile of a model; for None the ordinary one."""
    facts = ModelFacts(model)
    if not facts.is_small:
        return ModelProfile(facts)
    from archytas_nb.small.profile import SMALL

    return replace(SMALL, facts=facts)


_NO_INSTRUCTIONS = Instructions("")


def instructions_in(settings: Settings) -> Instructions:
    """The text that is added to the system prompt, and its file; raises ConfigurationError."""
    if not settings.instructions.lstrip().startswith("@"):
        return Instructions(settings.instructions)
    return read_instructions(settings.instructions)


@dataclass(frozen=True, slots=True)
class RunSetup:
    """The setup of questions of an agent or a map, apart from their conversation.

    Attributes:
        settings: The settings, as they were when they were last read.
        choice: The model.
        tools: The tools; None for those of the default toolbox.
        own_tools: The tools of this agent only.
        namespace: The variables; None for the live namespace.
        instructions: The text that is added to the system prompt, and its file; read by `now`.
        notes_reads: Whether what calls read is noted, to check the answer later.
        permitted: The earlier permissions of the person; None for none.
        make_guards: Makes the guards of a run.
        plans: Whether the model writes a plan first, which a person approves.
        wants_odds: Whether it is to be told how probable the options of an answer were.
    """

    settings: Settings
    choice: ModelChoice
    tools: Toolbox | None = None
    own_tools: Toolbox = field(default_factory=Toolbox)
    namespace: Namespace | None = None
    instructions: Instructions = _NO_INSTRUCTIONS
    tracks_reads: bool = True
    permitted: Permissions | None = None
    make_guards: Callable[..., Guards] = Guards
    plans: bool = False
    wants_odds: bool = False

    def but(self, **given: Any) -> RunSetup:
        """The same with other settings; raises ValueError if one is invalid."""
        return replace(self, settings=self.settings.but(**given))

    def now(self) -> RunSetup:
        """The same for a question that is asked now: settings, instructions and tools are read.

        Raises:
            ConfigurationError: A setting cannot be read.
            ToolError: The function of a tool was changed, and can no longer be a tool.
        """
        for each in (toolbox if self.tools is None else self.tools, self.own_tools):
            each.reread()
        settings = self.settings.again()
        return replace(self, settings=settings, instructions=instructions_in(settings))

    def for_question(self, options: Mapping[str, Any]) -> RunSetup:
        """The setup for a question with these options.

        Raises:
            ConfigurationError: A setting cannot be read.
            ValueError: An option is invalid.
        """
        setup = self.but(**{name: each for name, each in options.items() if hasattr(Limits, name)})
        if "instructions" in options:
            setup = setup.but(instructions=options["instructions"])
        if "plan" in options:
            setup = replace(setup, plans=bool(options["plan"]))
        if "tools" in options:
            setup = replace(setup, tools=toolbox_of(options["tools"]), own_tools=Toolbox())
        if "model" in options:
            setup = replace(setup, choice=ModelChoice(options["model"]))
        return setup.now()

    def for_rows(self, prompt: str | None = None, *, is_planned: bool = False) -> RunSetup:
        """The setup for the rows of a map: nobody is asked, and no code is run in the notebook.

        Args:
            prompt: The prompt of each row; None to offer all tools, whether they fit or not.
            is_planned: Whether one program answers all rows, so that none is sent.

        Raises:
            ConfigurationError: The model may not see values, and the rows would be sent.
        """
        # The question of a row contains all that it is about.
        setup = self.now().but(context="none", ask_user=False, python="off", undo=False, skills=())
        values = setup.settings.values
        if called_with_hidden_values():
            raise ConfigurationError(VALUES_ARE_HIDDEN)
        if values != "all" and not is_planned:
            raise ConfigurationError(
                f"values is {values!r}, and the question of each row of a map contains its values: "
                'plan the map (plan=True, %agent_map --plan), or map with values="all"'
            )
        offered = list(setup.offered(self.choice.profile).values())
        if prompt is not None and setup.tools is None and not setup.settings.tools:
            own = setup.own_tools.values()
            offered = [tool for tool in offered if tool in own or setup.fits_rows(tool, prompt)]
        tools = Toolbox(*offered)
        return replace(
            setup,
            tools=tools,
            own_tools=Toolbox(),
            namespace=setup.variables,
            tracks_reads=False,
        )

    def fits_rows(self, tool: Tool, prompt: str) -> bool:
        """Whether a tool of the notebook is offered to each row without being chosen.

        What requires approval changes something, and no row names a variable: such tools are
        offered only if the prompt names them, or they are allowed.
        """
        names = {tool.name, tool.source_name}
        if any(re.search(rf"(?<!\w){re.escape(name)}(?!\w)", prompt) for name in names):
            return True
        needs_variable = any(
            each.type.by_reference and not each.optional
            for each in tool.parameters
            if not each.injected
        )
        is_allowed = not tool.may_require_approval or bool(names & self.settings.allowed)
        return is_allowed and not needs_variable

    @property
    def variables(self) -> Namespace:
        """The variables of the user."""
        if self.namespace is None:
            return live_namespace()
        return self.namespace

    @property
    def hides_values(self) -> bool:
        """Whether the model may not see all values."""
        return self.settings.hides_values

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
        if self.settings.skills:
            from archytas_nb.skills import skills_tool

            skill = skills_tool(self.settings.skills)
            if skill is not None:
                add_built_in(tools, skill, "skills=[]")
        python = self.settings.python_for(by_setting=profile.runs_python)
        if python == "copy":
            # It is the default: a tool of the person's own takes its place.
            if COPY_TOOL not in tools:
                tools.add(copy_tool())
        elif python != "off":
            add_built_in(tools, python_tool(python), 'python="off"')
        return tools

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

    @property
    def sees_cells(self) -> bool:
        """Whether the question is about the notebook, and the model may see of it."""
        is_live = self.namespace is None or self.namespace is live_namespace()
        return is_live and self.settings.context != "none"

    def last_error(self) -> LastError | None:
        """The text of a question about the failed cell before it; None if there is none."""
        if not self.sees_cells or last_failure() is None:
            return None
        if self.hides_values:
            from archytas_nb.kernel.disclosure import error_of_cell

            return error_of_cell()
        return last_error(mask_in(self.variables))


# ── what a question is, and its tools ─────────────────────────────────────────────────────────────

Tools: TypeAlias = Toolbox | Iterable[Tool | Callable[..., Any]] | None


class Question(NamedTuple):
    """A question that was read.

    Attributes:
        exchange: Its record.
        check: Checks the answer; None if any answer is accepted.
        is_typed: Whether a type of the answer is required.
    """

    exchange: Exchange
    check: AnswerCheck | None
    is_typed: bool


def read_question(
    variables: Namespace,
    question: str,
    output_type: Any = None,
    until: Until | None = None,
    images: Any = (),
    origin: str = "",
    *,
    code: bool = False,
    names_variables: bool = True,
) -> Question:
    """Validate everything about a question first, so that a mistake costs nothing.

    With ``names_variables``, an answer of any type may name a variable that holds it.
    """
    if not isinstance(question, str):
        raise invalid_argument("the question", question, "text to ask the model")
    if not question.strip():
        raise argument_error("the question is empty; expected text to ask the model")
    form = None
    check = None
    if output_type is not None or until is not None:
        answers = Answers(output_type, until, variables, is_named=names_variables)
        form = answers.form
        check = answers.check
    is_one = isinstance(images, (str, bytes)) or not hasattr(images, "__iter__")
    if is_one:
        images = [images]
    encoded_images = tuple(map(encode_image, images))
    exchange = Exchange(
        question,
        images=encoded_images,
        form=form,
        origin=origin,
        wants_code=code and form is None,
        condition="" if until is None else condition_text(until),
    )
    return Question(exchange, check, is_typed=output_type is not None)


def toolbox_of(tools: Any) -> Toolbox | None:
    """A toolbox with the given tools; None stays None."""
    if tools is None or isinstance(tools, Toolbox):
        return tools
    if isinstance(tools, Tool) or callable(tools) or is_data(tools):
        return Toolbox(tools)
    if isinstance(tools, (str, Mapping)) or not isinstance(tools, Iterable):
        expected = "functions, Tools or a Toolbox"
        raise invalid_argument("tools", tools, expected + _meant([tools]))
    if not isinstance(tools, (set, frozenset, list, tuple)):
        tools = [*tools]
    if names := [each for each in tools if isinstance(each, str)]:
        expected = "functions and Tools, not texts"
        raise invalid_argument("tools", tools, expected + _meant(names))
    return Toolbox(*tools)


def _meant(values: Sequence[Any]) -> str:
    """The hint for names of tools or models; empty for anything else."""
    names = [each for each in values if isinstance(each, str)]
    known = [each for each in names if each in toolbox]
    if known:
        written = ", ".join(map(repr, known))
        return f". For tools that are known by name, write tools=nb.toolbox.only({written})"
    for name in names:
        meant = nearest(name, toolbox)
        if meant is not None:
            return f". If you mean the tool {meant!r}, write tools=nb.toolbox.only({meant!r})"
        return f". If {name!r} is the name of a model, write model={name!r}"
    return ""


def chosen_tools(patterns: Iterable[str], tools: Toolbox, source: str) -> list[str]:
    """The names of the enabled tools that names or globs mean, in the toolbox's order.

    Raises:
        ConfigurationError: A name or a glob matches no enabled tool.
    """
    active = tools.active()
    meant: set[str] = set()
    for pattern in patterns:
        names = fnmatch.filter(active, pattern)
        if pattern in active:
            names = [active[pattern].name]
        if not names and pattern in tools:
            raise ConfigurationError(
                f"{source}: {pattern!r} is disabled; enable it with %tools --enable {pattern}"
            )
        if not names:
            there = ", ".join(active) or "none"
            guess = did_you_mean(pattern, active) or ";"
            raise ConfigurationError(
                f"{source}: no tool is named {pattern!r}{guess} available: {there}"
            )
        meant.update(names)
    return [name for name in active if name in meant]


# ── what one question is asked with ───────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Prepared:
    """All that a question is asked with, decided once: the dry run shows it, the run executes it.

    Attributes:
        setup: The settings, the variables, and whether reads are noted.
        model: The model that answers.
        profile: The kind of model.
        protocol: How it calls tools.
        tools: All tools, with those that read variables.
        exchange: The record of the question, with the texts below it.
        past: The exchanges that the model reads before it.
        check: Checks the answer; None if any answer is accepted.
        replaced: The stored results of the question that this one replaces, by name.
        searched: The names of the tools that the model has to find.
    """

    setup: RunSetup
    model: Model
    profile: ModelProfile
    protocol: ActiveProtocol
    tools: Toolbox
    exchange: Exchange
    past: tuple[Exchange, ...]
    check: AnswerCheck | None
    replaced: Mapping[str, Any]
    searched: frozenset[str] = frozenset()

    @property
    def settings(self) -> Settings:
        """The settings of the question."""
        return self.setup.settings

    @property
    def variables(self) -> Namespace:
        """The variables of the user."""
        return self.setup.variables

    @property
    def summarises(self) -> bool:
        """Whether a summary takes the place of what is dropped of a long conversation."""
        return self.settings.compaction == "summary" and self.profile.summarises

    def guards(self, clock: Callable[[], float]) -> Guards:
        """The limits of the run, and the guard against repeated calls."""
        may_repeat = {name for name, tool in self.tools.items() if tool.repeat}
        calls = CallsOfReplies(may_repeat, self.profile.confirms_repeats)
        return self.setup.make_guards(self.settings.limits, clock, calls)

    def wire(self, protocol: ActiveProtocol) -> Wire:
        """A wire protocol for the question: its own, or the one that takes its place."""
        return wire_of(
            self.setup,
            protocol,
            self.tools,
            self.exchange,
            self.profile,
            self.past,
            self.searched,
        )

    def disclosure(self) -> Disclosure | None:
        """How much the model may learn of values; None if it may learn all."""
        if not self.settings.hides_values:
            return None
        from archytas_nb.kernel.disclosure import Disclosure, compare

        # A tool of the person's own may have such a name.
        ours = (ask_user_tool().function, compare)
        open_tools = [
            name
            for name, tool in self.tools.items()
            if tool.function in ours or tool.function.__module__ in READS_TEXTS
        ]
        return Disclosure(
            self.settings.values,
            self.variables,
            open_tools,
            code_tools=[name for name, tool in self.tools.items() if tool.runs_code],
            has_policy=callable(self.settings.approve),
        )

    def first_request(self) -> ev.AskModel:
        """The first request of the run, or its known part before anything is sent."""
        flow = react_loop(
            self.wire(self.protocol),
            self.guards(time.monotonic),
            self.past,
            self.exchange,
            profile=self.profile,
            summarises=self.summarises,
        )
        request = next(flow)
        while not isinstance(request, ev.AskModel) or request.is_side_request:
            reply = None
            if isinstance(request, ev.AskModel) and request.about:
                reply = ev.ModelReply("(A summary, for which the model is asked first.)")
            elif isinstance(request, ev.AskModel):  # to a small model, before the first step
                reply = ev.ModelReply("yes")
            request = flow.send(reply)
        return request


def prepare(
    setup: RunSetup,
    model: Model,
    question: Question,
    exchanges: Sequence[Exchange],
) -> Prepared:
    """Decide all that a question is asked with; nothing is sent, deleted or stored.

    Args:
        setup: The tools, model and settings of the question.
        model: The model that answers.
        question: The question; the texts below it are written into its record when all is decided.
        exchanges: The conversation.

    Raises:
        ConfigurationError: It cannot be asked, or would tell values that must stay here.
        ModelError: The endpoint does not answer.
    """
    exchange = question.exchange
    profile = setup.choice.profile
    protocol = setup.protocol(model)
    if protocol == "program":
        from archytas_nb.sandbox import pool

        pool.require()
    told = tell(setup, exchange, exchanges, protocol, profile)
    if protocol == "program":
        from archytas_nb.tools.declaration import by_python_name

        by_python_name(told.tools.values())
    if why := refusal_reason(setup.settings, exchange, protocol):
        raise ConfigurationError(why)
    index = index_of(exchanges, exchange.origin)
    exchange.values = setup.settings.values
    exchange.model = profile.facts.identity
    exchange.rules = setup.instructions.file
    exchange.number = index + 1
    exchange.hides_earlier_turns = len(told.past) < index
    if not exchange.steps:  # a question with steps goes on as it began
        exchange.error = told.error
        exchange.context = told.context
    exchange.switched_off = _switched_off(told.past, told.tools) if protocol == "native" else ()
    exchange.code_place = _code_place(setup, told, protocol, profile)
    return Prepared(
        setup,
        model,
        profile,
        protocol,
        told.tools,
        exchange,
        told.past,
        question.check,
        told.replaced,
        told.searched,
    )


def _code_place(
    setup: RunSetup, told: Told, protocol: ActiveProtocol, profile: ModelProfile
) -> str:
    """The note below a question about where code of the model runs; empty if it is known."""
    tool = next((each for each in told.tools.values() if each.runs_code), None)
    if tool is None:
        is_told = protocol != "program" and profile.sees_all and setup.sees_cells
        place = NO_CODE if is_told and not setup.hides_values else ""
    elif runs_in_copy(tool):
        place = CODE_IN_COPY
    else:
        place = code_in_notebook(
            asks=setup.settings.python == "ask",
            is_watched=setup.settings.watches(by_setting=profile.runs_python),
            asks_before=setup.settings.ask_before,
        )
    sent = sent_with(told.past, profile.facts.identity)
    known = next((each.code_place for each in reversed(sent) if each.code_place), "")
    return "" if place == known else place


def messages_of_conversation(setup: RunSetup, exchanges: Sequence[Exchange]) -> list[ev.Message]:
    """A conversation as it is sent, for the model that was chosen last."""
    last = exchanges[-1] if exchanges else Exchange("")
    profile = setup.choice.profile
    protocol = setup.protocol(setup.choice.known)
    told = tell(setup, last, exchanges, protocol, profile)
    wire = wire_of(setup, protocol, told.tools, last, profile, told.past, told.searched)
    return messages_of(wire, exchanges)


class Told(NamedTuple):
    """The texts that are sent with a question.

    Attributes:
        tools: All tools, with those that read variables.
        past: The exchanges before it.
        error: The error of the cell before it.
        context: The variables that are described below it.
        replaced: The stored results of the question that it replaces, by name.
        searched: The names of the tools that it has to find.
    """

    tools: Toolbox
    past: tuple[Exchange, ...]
    error: LastError | None
    context: Context | None
    replaced: Mapping[str, Any]
    searched: frozenset[str] = frozenset()


def tell(
    setup: RunSetup,
    exchange: Exchange,
    exchanges: Sequence[Exchange],
    protocol: ActiveProtocol,
    profile: ModelProfile,
) -> Told:
    """The texts that are sent with a question in a conversation."""
    small = not profile.sees_all
    past, earlier = split_history(exchanges, exchange.origin, setup.settings.values, protocol)
    replaced = stored_results(earlier, setup.variables)
    error = setup.last_error()
    if not _is_about(error, exchange, past, earlier):
        error = None
    own_tools = setup.offered(profile)
    searched: frozenset[str] = frozenset()
    if setup.settings.max_tools is not None and len(own_tools) > setup.settings.max_tools:
        own_tools, searched = _searched(setup, exchange, past, own_tools, protocol, small=small)
    context = None
    if setup.settings.context != "none":
        sent = past
        if len(past) == index_of(exchanges, exchange.origin):  # otherwise it is compacted again
            sent = tuple(sent_with(past, profile.facts.identity))
        context = _context(setup, exchange, error, sent, earlier, replaced, own_tools, profile)
    reading = _reading_tools(
        setup, exchange, error, context, own_tools, protocol, past, small=small
    )
    if in_copy := _in_copy(setup, exchange, error, past, own_tools, protocol, profile):
        cards = {
            each: card_of(
                each, setup.variables[each], exchange.question, form=COPY_CARD,
                mask=mask_in(setup.variables),
            )
            for each in in_copy
        }  # fmt: skip
        context = Context(
            "\n".join(each.text for each in cards.values()),
            in_copy,
            mentioned=in_copy,
            columns=tuple(f"{name}.{each}" for name in cards for each in cards[name].columns),
            has_values=True,
            in_copy=in_copy,
        )
        return Told(Toolbox(own_tools), past, error, context, replaced)
    if context is not None:
        names = tuple(each.name for each in reading)
        preferred = _preferred(setup.settings, own_tools)
        context = replace(context, tools=names, preferred_tools=preferred)
    # Ours first: those of the user may get more in a conversation.
    ours, theirs = _split_tools(own_tools)
    tools = Toolbox(*reading, *ours, *theirs) if profile.sees_all else Toolbox(own_tools, reading)
    return Told(tools, past, error, context, replaced, searched)


def _searched(
    setup: RunSetup,
    exchange: Exchange,
    past: Sequence[Exchange],
    own_tools: Toolbox,
    protocol: ActiveProtocol,
    *,
    small: bool,
) -> tuple[Toolbox, frozenset[str]]:
    """The tools with one that finds others, and the names of those that it finds.

    A small model does not search: it gets those that fit its question. Others get the same ones as
    with the first question, so that each request extends the one before.
    """
    from archytas_nb.tools.declaration import declaration
    from archytas_nb.tools.search import best, not_described, search_tool

    most = setup.settings.max_tools
    ours, theirs = _split_tools(own_tools)
    if most is None or len(theirs) <= most:
        return own_tools, frozenset()
    by_name = {each.name: each for each in theirs}
    if small:
        fitting = best(by_name, exchange.question) or [*by_name][:1]
        return Toolbox(*(by_name[each] for each in by_name if each in fitting), *ours), frozenset()
    first = past[0].question if past else exchange.question
    known = {spec["function"]["name"] for spec in specs_of(past)} if protocol == "native" else ()
    searched = not_described(by_name, first, known, most)
    written: Callable[[Tool], str] = declaration
    if protocol == "native":  # the specification is sent with the messages, not in them
        written = operator.attrgetter("name")
    elif protocol == "react":
        written = operator.attrgetter("text")
    tools = Toolbox(own_tools)
    found = {name: each for name, each in by_name.items() if name in searched}
    add_built_in(tools, search_tool(found, written), "max_tools=None")
    return tools, searched


def _split_tools(tools: Toolbox) -> tuple[list[Tool], list[Tool]]:
    """The built-in tools, and those of the user."""
    ours = [
        each
        for each in tools.values()
        if each.runs_code or each is ask_user_tool() or each.function.__module__ in READS_TEXTS
    ]
    return ours, [each for each in tools.values() if each not in ours]


def _is_about(
    error: LastError | None,
    exchange: Exchange,
    past: Sequence[Exchange],
    earlier: Exchange | None,
) -> bool:
    """Whether a question is about the cell that failed before it.

    It is one question that follows it, when it is asked again too; any other one only if it names
    the cell. A conversation contains it once.
    """
    if error is None or error in [each.error for each in past]:
        return False
    failure = last_failure()
    if failure is None:
        return False
    is_asked_again = earlier is not None and earlier.error == error
    return not is_settled(failure) or is_asked_again or f"[{failure.number}]" in exchange.question


def _context(
    setup: RunSetup,
    exchange: Exchange,
    error: LastError | None,
    sent: Sequence[Exchange],
    earlier: Exchange | None,
    replaced: Mapping[str, Any],
    own_tools: Toolbox,
    profile: ModelProfile,
) -> Context | None:
    """The variables that are described below a question; None if none may be looked at."""
    hidden = None
    if setup.hides_values:
        from archytas_nb.kernel.disclosure import names_made_in_runs

        hidden = names_made_in_runs
    variables: Mapping[str, Any] = setup.variables
    if replaced:  # they are deleted before the question is asked again
        variables = {name: variables[name] for name in variables if name not in replaced}
    reader = Reader(
        profile.card,
        profile.tells_notebook,
        profile.sees_all,
        has_tools=bool(own_tools),
        hidden=hidden,
        mask=mask_in(setup.variables),
        tools=[each.function for each in own_tools.values()],
    )
    return context_of(
        setup.settings.context,
        variables,
        exchange.question,
        sent,
        earlier,
        failed="" if error is None else error.source,
        reader=reader,
    )


def _in_copy(
    setup: RunSetup,
    exchange: Exchange,
    error: LastError | None,
    past: Sequence[Exchange],
    own_tools: Toolbox,
    protocol: ActiveProtocol,
    profile: ModelProfile,
) -> tuple[str, ...]:
    """The variables that programs compute with in a copy of the notebook; empty for no copy.

    A tool that takes objects by reference works on those of the notebook: then there is none.
    """
    settings = setup.settings
    is_asked = settings.context != "none" and not setup.hides_values
    if settings.python == "off":
        return ()
    if protocol != "program" or profile.copies is None or not is_asked:
        return ()
    if error is not None or exchange.wants_code:
        return ()
    if any(each.type.by_reference for tool in own_tools.values() for each in tool.parameters):
        return ()
    from archytas_nb.kernel.concerned import concerned
    from archytas_nb.sandbox.values import is_opaque

    return concerned(
        exchange.question, setup.variables, past, alone=not own_tools, is_opaque=is_opaque
    )


def _reading_tools(
    setup: RunSetup,
    exchange: Exchange,
    error: LastError | None,
    context: Context | None,
    own_tools: Toolbox,
    protocol: ActiveProtocol,
    past: Sequence[Exchange],
    *,
    small: bool,
) -> list[Tool]:
    """The tools that read variables and cells, or compare values, without those of other names."""
    tools: list[Tool] = []
    # The question has all that a small model can say of an error: it only reads on.
    only_reads_on = small and error is not None
    if setup.hides_values:
        # A program compares by itself.
        if setup.settings.values != "strict" and protocol != "program":
            from archytas_nb.kernel.disclosure import compare_tool

            tools.append(compare_tool())
    elif not only_reads_on:
        if context is not None:
            tools += look_tools(exchange.question if small else "")
            if not small and _names_all(setup, past):
                del tools[0]
        if setup.sees_cells and offers_cells_tool(exchange.question, small=small):
            tools.append(cells_tool(mask_in))
    return [each for each in tools if each.name not in own_tools]


def _names_all(setup: RunSetup, past: Sequence[Exchange]) -> bool:
    """Whether questions name all variables, so that no tool has to list them."""
    is_listed = any(each["function"]["name"] == LIST_TOOL for each in specs_of(past))
    if setup.settings.context == "mentioned" or is_listed:  # what was offered once stays
        return False
    return have_room(name for name, _ in variables_in(setup.variables))


def _preferred(settings: Settings, own_tools: Toolbox) -> tuple[str, ...]:
    """The tools of the person that a small model is asked about first."""
    if settings.context != "auto":
        return ()
    # A tool that requires approval changes something: it is not a way to read variables.
    return tuple(name for name, each in own_tools.items() if not each.may_require_approval)


def refusal_reason(settings: Settings, exchange: Exchange, protocol: ActiveProtocol) -> str | None:
    """Why a question is not asked that would tell values; None if it is."""
    if called_with_hidden_values():
        return VALUES_ARE_HIDDEN
    if not settings.hides_values:
        return None
    setting = f"values is {settings.values!r}"
    if exchange.images:
        return f"{setting}, and a picture would be sent with the question: ask without it"
    if protocol != "program" and exchange.form is not None:
        return (
            f"{setting}, and with protocol={protocol!r} an answer of a required type would be "
            'a value that the model writes: use protocol="program", or ask for text'
        )
    return None


def wire_of(
    setup: RunSetup,
    protocol: ActiveProtocol,
    tools: Toolbox,
    exchange: Exchange,
    profile: ModelProfile,
    past: Sequence[Exchange] = (),
    searched: Collection[str] = (),
) -> Wire:
    """A wire protocol for a question with these tools.

    Args:
        setup: The tools, model and settings of the question.
        protocol: The protocol.
        tools: The tools.
        exchange: The record of the question.
        profile: The kind of model.
        past: The exchanges before it.
        searched: The names of the tools that are not described.
    """
    earlier = specs_of(past)
    if not searched:
        return _wire_of(setup, protocol, tools, exchange, profile, earlier)
    described = Toolbox(*(each for name, each in tools.items() if name not in searched))
    wire = _wire_of(setup, protocol, described, exchange, profile, earlier)
    wire = wire.with_searched({name: tools[name] for name in searched})
    return wire.offering(offers_of(step for each in past for step in each.steps))


def _wire_of(
    setup: RunSetup,
    protocol: ActiveProtocol,
    tools: Toolbox,
    exchange: Exchange,
    profile: ModelProfile,
    earlier: Sequence[ev.Json],
) -> Wire:
    """A wire protocol that describes these tools; `earlier` is what was sent of them before."""
    instructions = setup.instructions.text
    if setup.hides_values:
        from archytas_nb.kernel.disclosure import PROGRAM_RULES, RULES

        rules = PROGRAM_RULES if protocol == "program" else RULES
        instructions = f"{instructions}\n\n{rules}".strip()
    if protocol == "native":
        row = exchange if exchange.is_row else None
        return FunctionCalling(tools, instructions, earlier, row)
    if protocol == "program":
        from archytas_nb.tools.declaration import declaration

        functions = {name: declaration(tool) for name, tool in tools.items()}
        context = exchange.context
        programs = profile.programs
        if context is not None and context.in_copy and profile.copies is not None:
            programs = profile.copies
        return programs(
            tools,
            functions,
            instructions,
            names_variables=setup.settings.context != "none",
            is_typed=exchange.form is not None,
            sees_values=not setup.hides_values,
        )
    return TextProtocol(tools, instructions, teaches=not profile.sees_all)


def specs_of(past: Sequence[Exchange]) -> tuple[ev.Json, ...]:
    """The specifications that were sent last in a conversation; their order is kept."""
    return next((each.tool_specs for each in reversed(past) if each.tool_specs), ())


def _switched_off(past: Sequence[Exchange], tools: Toolbox) -> tuple[str, ...]:
    """The tools that the model knows of an earlier question and cannot call now."""
    known = (spec["function"]["name"] for spec in specs_of(past))
    return tuple(name for name in known if name not in tools and name not in RESERVED)


VALUES_ARE_HIDDEN = (
    "the values of the run that called this tool stay here, and what a tool tells a model may "
    "contain values: return it instead"
)
"""Why a tool may not ask or tell a model."""


def called_with_hidden_values() -> bool:
    """Whether a tool asks, of a run whose model may not see all values."""
    asking = host.get()
    return asking is not None and asking.values != "all"


STRICTNESS = {name: place for place, name in enumerate(get_args(ValuesName))}
"""How little a model may learn of values: the least with ``"strict"``."""


def split_history(
    exchanges: Sequence[Exchange],
    origin: str,
    values: ValuesName,
    protocol: ActiveProtocol | None = None,
) -> tuple[tuple[Exchange, ...], Exchange | None]:
    """The exchanges that a model may read before a question, and the one that it replaces.

    Those that may hold values which the model must not learn now are left out. So are those with
    programs, whose calls were made with values, unless it reads programs.
    """
    index = index_of(exchanges, origin)
    earlier = None
    if index < len(exchanges):
        earlier = exchanges[index]
    known = STRICTNESS[values]
    past = tuple(each for each in exchanges[:index] if STRICTNESS[each.values] >= known)
    if values != "all" and protocol not in ("program", None):
        past = tuple(each for each in past if not any(step.program for step in each.steps))
    return past, earlier


def _runs_programs() -> bool:
    """Whether programs can be run here."""
    from archytas_nb.sandbox import pool

    return pool.is_available()


# ── built-in tools and results that are stored ────────────────────────────────────────────────────


READS_TEXTS = ("archytas_nb.skills", "archytas_nb.tools.search")
"""The modules of tools that tell nothing of the notebook; they are not loaded to be compared."""


@functools.cache
def ask_user_tool() -> Tool:
    """The tool with which a model asks the user."""
    from archytas_nb.kernel.person import ask_user

    return Tool.from_function(ask_user, repeat=True)


def built_in_names() -> frozenset[str]:
    """All names that a question can use besides those of the user's tools."""
    from archytas_nb.kernel.disclosure import compare_tool

    tools = (ask_user_tool(), python_tool("ask"), *look_tools(), cells_tool(str), compare_tool())
    return frozenset(
        {*(each.name for each in tools), "skill", "find_tools", *RESERVED, *PROGRAM_ENDINGS}
    )


def add_built_in(tools: Toolbox, built_in: Tool, off: str) -> None:
    """Add a built-in tool; ``off`` is the setting that switches it off.

    Raises:
        ConfigurationError: A tool of the person's own has its name.
    """
    is_taken = built_in.name in tools
    if is_taken and tools[built_in.name].function is not built_in.function:
        raise ConfigurationError(
            f"one of your tools has the name of the built-in tool {built_in.name!r}: give yours "
            f'another name with @tool(name="…"), or leave out the other one with {off}'
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


def stored_results(earlier: Exchange | None, variables: Namespace) -> dict[str, Any]:
    """The stored results of a question that is asked again, by name: they are deleted before it is.

    A variable that the person has assigned since is left alone, also if it holds the same object.
    """
    found: dict[str, Any] = {}
    if earlier is None:
        return found
    for step in earlier.steps:
        for _, outcome in step.pairs:
            name = outcome.stored
            is_there = name != "" and name in variables and variables[name] is outcome.value
            if is_there and not is_assigned_by_user(name, variables):
                found[name] = variables[name]
    return found
