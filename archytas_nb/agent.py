"""An agent: one conversation with a model that uses tools on live objects."""

from __future__ import annotations

import dataclasses
import inspect
import sys
import time
import weakref
from collections.abc import Callable, Collection, Generator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Never,
    TypeAlias,
    TypeVar,
    Unpack,
    overload,
)  # fmt: skip

from archytas_nb import question as prepare
from archytas_nb.batch.map import AsksMany
from archytas_nb.driver import (
    ActiveRun,
    AnswerCheck,
    Driver,
    Events,
    Observer,
    ending_only,
    observer_callback,
    run_events,
)
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.hints import AGENT, AgentModule, unknown_argument, unknown_attribute
from archytas_nb.kernel import Namespace, live_namespace
from archytas_nb.kernel.approval import Approve, usable_policy
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.namespace import ContextName
from archytas_nb.kernel.person import Keyboard, Person, confirm
from archytas_nb.kernel.python import PythonMode, python_tool
from archytas_nb.kernel.transaction import Watch
from archytas_nb.loop import events as ev
from archytas_nb.loop.conversation import messages_of
from archytas_nb.loop.function_calling import FunctionCalling
from archytas_nb.loop.limits import Guards, Limits
from archytas_nb.loop.loop import react_loop
from archytas_nb.loop.model import (
    ActiveProtocol,
    Model,
    ModelFacts,
    is_model,
    person_of,
    start_question,
)
from archytas_nb.loop.record import Exchange, index_of
from archytas_nb.loop.text_protocol import TextProtocol
from archytas_nb.loop.wire import Wire
from archytas_nb.progress import progress_line
from archytas_nb.question import AgentSettings, Options, Tools, takes_options
from archytas_nb.run import Run, T
from archytas_nb.settings import UNSET
from archytas_nb.tools.toolbox import Toolbox, decorate, toolbox

if TYPE_CHECKING:
    from archytas_nb.aio import RunStream

__all__ = ["Agent", "Model", "Observer", "ProtocolName"]

ProtocolName: TypeAlias = Literal["auto", "react", "native"]
F = TypeVar("F", bound=Callable[..., Any])


class Agent(AsksMany):
    """A conversation with a model that uses tools on live objects.

    An argument that is left out takes the value of the setting of the same name: ``%config
    ArchytasNB`` in a kernel with the extension, the environment variable ``ARCHYTAS_NB_…``, or its
    default. Changes of a setting take effect with the next question.

    Args:
        tools: Functions, Tools or a Toolbox; None uses the default toolbox (or those of its tools
            that the setting ``tools`` names).
        model: A name, an `OpenAIModel`, or any `Model`; None uses the configured one, or the
            embedded model.
        protocol: ``"react"``, ``"native"``, or ``"auto"`` to use what the model supports.
        instructions: Added to the system prompt.
        max_steps: Maximum number of model replies in one run.
        max_errors: Maximum number of consecutive unusable replies and failed calls.
        max_seconds: Maximum seconds of a run, without your time to answer; None for no limit.
        max_total_tokens: Maximum number of input and output tokens of a run; None for no limit.
        namespace: Where variables are looked up and stored; None for the live namespace.
        approve: What to do when a tool requires approval: ``"ask"`` you, run it (``"auto"``) or
            refuse it (``"deny"``); or a function that decides on every call. None means the
            setting.
        ask_user: Whether the model has a tool for asking you questions: True or ``"on"``, False or
            ``"off"``; ``"auto"``, the default of the setting, means no. No other
            tool may then be named ``ask_user``; nor ``python``, if that is not ``"off"``.
        allow: Names of tools that run without approval.
        context: Which variables are described below a question: those ``"mentioned"`` in it, also
            those ``"changed"`` since the last one, ``"all"`` or ``"none"``. Except with ``"none"``,
            the model has tools to read variables. ``"auto"`` depends on the model.
        max_reply_tokens: Maximum tokens in one reply; None for 1,024 (small models) or 16,384.
        python: Whether the model has a tool that runs code in the namespace: ``"off"``, ``"ask"``
            (after approval), ``"undoable"`` (at once; what it changes is shown and can be undone),
            or ``"auto"`` (at once). This is not a sandbox. The setting does not apply to small
            models, the argument does.
        undo: Whether changes of the variables by any tool are watched, for `Run.diff` and
            `Run.undo`; None for yes where ``python`` is ``"ask"`` or ``"undoable"``.

    Raises:
        ValueError: An argument is invalid.
        ConfigurationError: `model` is neither a name nor a model, or an environment variable of
            a setting cannot be read.
    """

    def __init__(
        self,
        tools: Tools | str | Model = None,
        model: str | Model | Tools = None,
        protocol: ProtocolName = UNSET,
        instructions: str | None = None,
        max_steps: int = UNSET,
        max_errors: int = UNSET,
        max_seconds: float | None = UNSET,
        max_total_tokens: int | None = UNSET,
        namespace: Namespace | None = None,
        approve: Approve | None = None,
        *,
        ask_user: bool | Literal["auto", "on", "off"] = UNSET,
        allow: Collection[str] = UNSET,
        context: ContextName = UNSET,
        max_reply_tokens: int | None = UNSET,
        python: PythonMode = UNSET,
        undo: bool | None = UNSET,
        **unknown: Never,
    ) -> None:
        for name in unknown:
            raise unknown_argument("Agent()", name, [*inspect.signature(Agent).parameters][:-1])
        if isinstance(tools, str) and tools in toolbox:
            prepare.toolbox_of(tools)  # the name of a tool, which raises ValueError
        if _names_model(tools) and not _names_model(model):
            tools, model = model, tools
        if model is not None and not _names_model(model):
            from archytas_nb.models.choose import choose_model

            choose_model(model)  # it raises ConfigurationError, as for the first question
        given = {
            "protocol": protocol,
            "instructions": UNSET if instructions is None else instructions,
            "max_steps": max_steps,
            "max_errors": max_errors,
            "max_seconds": max_seconds,
            "max_total_tokens": max_total_tokens,
            "max_reply_tokens": max_reply_tokens,
            "approve": UNSET if approve is None else usable_policy(approve),
            "ask_user": ask_user,
            "allow": [allow] if isinstance(allow, str) else allow,
            "context": context,
            "python": python,
            "undo": undo,
        }
        given = {name: each for name, each in given.items() if each is not UNSET}
        self._configuration = AgentSettings(given)
        self._configuration.check()
        prepare.check_namespace(namespace)
        self._tools, self._own_tools = prepare.toolbox_of(tools), Toolbox()
        self._model: Any = model
        self._chosen_model: list[tuple[object, Model]] = []
        self._namespace = namespace
        self.exchanges: list[Exchange] = []
        self._deleted_results: dict[str, Any] = {}  # results of a question that is asked again
        self._current = ActiveRun()

    @property
    def tools(self) -> Toolbox:
        """The tools that the next question may use; ``agent.tools.add(f)`` adds one to them.

        Raises:
            ConfigurationError: A tool of yours has the name of a built-in one that is switched on.
        """
        model = self._chosen_model[0][1] if self._chosen_model else None
        return prepare.AgentTools(self._offered(model), self._own_tools)

    def _offered(self, model: Model | None) -> Toolbox:
        """The tools for a question to this model, or to one that is not known yet."""
        if self._tools is None:
            tools = prepare.default_tools(toolbox.active(), self._configuration.value("tools"))
        else:
            tools = self._tools.active()
        tools.extend(self._own_tools)
        if self._configuration.asks_user:
            prepare.add_built_in(tools, prepare.ask_user_tool(), "ask_user=False")
        python = self._configuration.python(model)
        if python != "off":
            prepare.add_built_in(tools, python_tool(python), 'python="off"')
        return tools

    @property
    def protocol(self) -> ProtocolName:
        """The wire protocol; "auto" for the one that the model supports."""
        protocol: ProtocolName = self._configuration.value("protocol")
        return protocol

    @protocol.setter
    def protocol(self, protocol: ProtocolName) -> None:
        self._configuration = self._configuration.having(protocol=protocol)

    @property
    def instructions(self) -> str:
        """The text that is added to the system prompt."""
        return str(self._configuration.value("instructions"))

    @instructions.setter
    def instructions(self, instructions: str) -> None:
        self._configuration = self._configuration.having(instructions=instructions)

    @property
    def context(self) -> ContextName:
        """Which variables are described below a question."""
        context: ContextName = self._configuration.value("context")
        return context

    @context.setter
    def context(self, context: ContextName) -> None:
        self._configuration = self._configuration.having(context=context)

    @property
    def limits(self) -> Limits:
        """The limits of a run."""
        return self._configuration.limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._configuration = self._configuration.having(**dataclasses.asdict(limits))

    @property
    def model(self) -> Model:
        """The model, chosen at first use; behind the cassette in use, if there is one.

        A model that is given by its name, or by None, is chosen again when the configuration of
        models or the cassette has changed.
        """
        from archytas_nb.cassettes.switch import answers_itself, cassette_in_use, recorded
        from archytas_nb.models.choose import ModelSettings

        cassette = None if answers_itself(self._model) else cassette_in_use()
        is_named = self._model is None or isinstance(self._model, str)
        configuration = ModelSettings().resolved() if is_named else None
        chosen_for = (cassette, configuration)
        if self._chosen_model and self._chosen_model[0][0] == chosen_for:
            return self._chosen_model[0][1]
        model: Model = recorded(self._model, cassette=cassette, confirm=confirm)
        if self._chosen_model:
            self._forget_lengths()
        self._chosen_model[:] = [(chosen_for, model)]
        return model

    @model.setter
    def model(self, model: str | Model | None) -> None:
        if model is not self._model:
            self._forget_lengths()
        self._model, self._chosen_model = model, []

    def _forget_lengths(self) -> None:
        """Send all of the conversation again: another model may take more of it."""
        for each in self.exchanges:
            each.compaction = replace(each.compaction, max_tokens=None)

    @property
    def messages(self) -> list[ev.Message]:
        """The history as it is sent, in a form that even a strict server accepts."""
        last, model = self.exchanges[-1] if self.exchanges else Exchange(""), self.model
        past_and_earlier = self._past_and_earlier(last.origin)
        tools = self._tools_for(
            replace(last), model, *past_and_earlier
        )  # a copy, so that the context does not change
        return messages_of(self._wire(self._protocol(model), tools), self.exchanges)

    def reset(self) -> None:
        """Start a new conversation with the same tools, model and settings."""
        self._current.end()
        self.exchanges.clear()

    def undo(self) -> str | None:
        """Remove the last exchange; return its question, or None if there is none."""
        self._current.end()
        return self.exchanges.pop().question if self.exchanges else None

    @overload
    def run(
        self, question: str, *, output_type: type[T] = ..., **options: Unpack[Options]
    ) -> Run[T]: ...
    @overload
    def run(self, question: str, *, output_type: Any, **options: Unpack[Options]) -> Run[Any]: ...
    @takes_options
    def run(
        self, question: str, *, output_type: Any = None, **options: Unpack[Options]
    ) -> Run[Any]:
        """Ask a question and wait for the answer; ``agent("…")`` is the same.

        Args:
            question: The question.
            output_type: The required type of the answer, any type that a tool's argument may have;
                the value is then in ``run.output``. None for text.
            until: A function that gets the answer (with a type, its value) and returns what is
                wrong with it, for the model to read, or an empty string; or True or False. An
                AssertionError, ValueError, LookupError or ArithmeticError rejects the answer too;
                any other exception is a mistake in the condition and ends the question.
            images: One or more images for the question: PNG or JPEG (base64, bytes or a path), or
                objects such as figures.
            origin: Where the question comes from, such as a cell: it replaces the exchange of an
                earlier question with the same origin, and continues the conversation before it.
            observers: Called with every event, and with the output of running tools.
            progress: Whether to show a progress line; None shows it in a terminal or a notebook.
            model, tools, max_steps, max_seconds, max_total_tokens, max_reply_tokens: As for the
                agent, for this question only.

        Returns:
            The run; `incomplete` if a limit ended it.

        Raises:
            ModelError: The endpoint failed; the conversation continues without this question.
            TaskFailed: The model gave up.
            RunError: `until` raised an exception that does not reject the answer.
            RunInterrupted: The run was interrupted.
            ToolError: The type is not supported.
            ValueError: The question is empty, an image cannot be read, or `until` is not a
                function of one argument.
            TypeError: There is no such option.
        """
        run, begin, _ = self._prepared(question, output_type, options)
        try:
            with _progress(question, options) as line:
                for _ in begin((*options.get("observers", ()), *line)):
                    pass
        except KeyboardInterrupt:
            raise run.interrupt() from None
        return run.checked()

    __call__ = run

    @takes_options
    def stream(
        self, question: str, *, output_type: Any = None, **options: Unpack[Options]
    ) -> Generator[ev.Event, None, Run[Any]]:
        """Ask a question and see every event as it happens; the arguments are those of `run`.

        The output of running tools goes only to observers: a generator cannot yield while a tool
        runs.

        Yields:
            The events of the run, including pieces of streamed replies; the ending is the last.

        Returns:
            The run, as `run` does; raises the errors of `run` after the ending.
        """
        run, begin, _ = self._prepared(question, output_type, options)
        try:
            yield from begin(options.get("observers", ()))
        except KeyboardInterrupt:
            raise run.interrupt() from None
        return run.checked()

    @overload
    async def arun(
        self, question: str, *, output_type: type[T] = ..., **options: Unpack[Options]
    ) -> Run[T]: ...
    @overload
    async def arun(
        self, question: str, *, output_type: Any, **options: Unpack[Options]
    ) -> Run[Any]: ...
    @takes_options
    async def arun(
        self, question: str, *, output_type: Any = None, **options: Unpack[Options]
    ) -> Run[Any]:
        """Ask a question in an event loop, which is free while the model writes.

        Arguments, result and errors are those of `run`. Tools run in the loop's thread, one call
        after another; ``async def`` tools in a loop of their own. Several agents may run at the
        same time, but each answers one question at a time. Cancelling the task ends the request at
        the server and keeps the conversation; an interrupt raises `asyncio.CancelledError`.
        """
        with _progress(question, options) as line:
            options["observers"] = (*options.get("observers", ()), *line)
            stream = self.astream(question, output_type=output_type, **options)
            async for _ in stream:
                pass
        return stream.run

    @takes_options
    def astream(
        self, question: str, *, output_type: Any = None, **options: Unpack[Options]
    ) -> RunStream[Any]:
        """Ask a question in an event loop and see every event: ``async for event in …``.

        Arguments and errors are those of `arun`; the run is the stream's attribute ``run``.
        """
        run, begin, agent = self._prepared(question, output_type, options)
        has_policy = callable(self._configuration.approve)
        from archytas_nb.aio import RunStream, events_of, waits_on_thread  # loads asyncio

        waits = partial(waits_on_thread, agent.tools, has_policy=has_policy)
        observers = options.get("observers", ())
        return RunStream(run, events_of(run, begin, waits, observers, self._current))

    @overload
    def tool(self, f: F, /) -> F: ...
    @overload
    def tool(self, f: None = None, /, **options: Any) -> Callable[[F], F]: ...
    def tool(self, f: Any = None, /, **options: Any) -> Any:
        """Make a function a tool of this agent only, and return it unchanged.

        Spelled ``@agent.tool``, ``@agent.tool(approve=True)`` or ``agent.tool(f)``.

        Args:
            f: The function; omitted if options are given.
            **options: As in `Tool.from_function`.

        Raises:
            ToolError: The function cannot be a tool, or there is no such option.
        """
        return decorate(self._own_tools, f, options)

    def preview(self, question: str, **asked: Any) -> ev.AskModel:
        """The first request of a run with these arguments; nothing is sent or stored."""
        return self.planned(question, **asked)[0]

    def planned(self, question: str, **asked: Any) -> tuple[ev.AskModel, Toolbox]:
        """As `preview`, with the tools of the run, which include those that read variables."""
        exchange, _ = prepare.read_question(self._variables(), question, **asked)
        model, (past, earlier) = self.model, self._past_and_earlier(exchange.origin)
        exchange.model = ModelFacts(model).identity
        tools = self._tools_for(exchange, model, past, earlier)
        wire = self._wire(self._protocol(model), tools)
        guards = self._guards(model, tools, time.monotonic)
        flow = react_loop(wire, guards, past, exchange, model=model)
        request = next(flow)
        while not (isinstance(request, ev.AskModel) and request.step):
            # The questions to a small model before the first step are answered with yes.
            request = flow.send(ev.ModelReply("yes") if isinstance(request, ev.AskModel) else None)
        return request, tools

    def __repr__(self) -> str:
        asked = len(self.exchanges)
        try:
            tools = ", ".join(self.tools)
        except ConfigurationError:  # a repr never fails
            tools = "?"
        return f"<Agent model={self._model!r} tools=[{tools}] {asked} question{'s' * (asked != 1)}>"

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __getattr__(self, name: str) -> Any:
            raise unknown_attribute(self, name, AGENT)

    # ── private ───────────────────────────────────────────────────────────────────────────────────

    def _prepared(
        self, question: str, output_type: Any, options: Options
    ) -> tuple[Run[Any], Callable[[Sequence[Observer]], Events], Agent]:
        """Read a question: return its run, the function that starts it, and the agent for it."""
        for name in options:
            if name not in Options.__annotations__:
                raise unknown_argument(
                    "Agent.run()", name, ["output_type", *Options.__annotations__]
                )
        agent = object.__new__(type(self))  # a copy for this question, with the same conversation
        vars(agent).update(vars(self))
        given: dict[str, Any] = {**options}
        if "tools" in given:
            vars(agent).update(_tools=prepare.toolbox_of(given["tools"]), _own_tools=Toolbox())
        if "model" in given:
            # Not the property's setter: what is known of the agent's own model stays.
            agent._model, agent._chosen_model = given["model"], []
        limits = {name: each for name, each in given.items() if hasattr(Limits, name)}
        # What is configured now holds for the whole question.
        agent._configuration = self._configuration.fixed().having(**limits)
        _ = agent.limits  # which validates them
        question_options = {
            name: given[name] for name in ("until", "images", "origin") if name in given
        }
        asked = prepare.read_question(self._variables(), question, output_type, **question_options)
        run = Run[Any](question, _is_typed=output_type is not None)
        return run, partial(agent._events, run, *asked), agent

    def _events(
        self, run: Run, exchange: Exchange, check: AnswerCheck | None, observers: Sequence[Observer]
    ) -> Events:
        """All events of a run; its record is kept however it ends."""
        self._current.end()
        begin = partial(self._begin, run, exchange, check, observers)
        events = run_events(run, exchange, begin, partial(self._keep, exchange), observers)
        self._current.events = weakref.ref(events)
        return events

    def _keep(self, exchange: Exchange) -> None:
        """Store an exchange at its index if it is worth keeping; may be called repeatedly."""
        if all(each is not exchange for each in self.exchanges) and exchange.is_worth_keeping:
            index = index_of(self.exchanges, exchange.origin)
            self.exchanges[index : index + 1] = [exchange]
        while self._deleted_results:  # results that were not created again are restored
            self._variables().setdefault(*self._deleted_results.popitem())

    def _begin(
        self, run: Run, exchange: Exchange, check: AnswerCheck | None, observers: Sequence[Observer]
    ) -> Events:
        """Choose the model; return the events of the run, or only the ending if there is none."""
        variables = self._variables()
        ending: ev.Ending | None = None
        try:
            model = self.model
            start_question(model, *prepare.origin_and_execution(exchange.origin))
            protocol = self._protocol(model)
            run.model, run.protocol = model.name, protocol
            exchange.model = ModelFacts(model).identity
            run.price = ModelFacts(model).price
        except (ModelError, ConfigurationError) as error:
            run.error, missing = error, isinstance(error, ConfigurationError)
            ending = ev.Failed(str(error), by="setup" if missing else "endpoint")
        except KeyboardInterrupt:
            ending = ev.Interrupted("a request to the model")
        if ending is not None:
            return ending_only(exchange, ending)
        past, earlier = self._past_and_earlier(exchange.origin)
        self._deleted_results.update(prepare.delete_stored_results(earlier, variables))
        tools = self._tools_for(exchange, model, past, earlier)
        person: Person = person_of(model, Keyboard())
        run.watch = Watch(variables) if self._configuration.watches(model) else None
        executor = self._executor(tools, variables, person, observers, run.watch)
        # The time that a person takes to answer does not count.
        guards = self._guards(model, tools, executor.clock)
        driver = Driver(
            run, exchange, past, model, executor, guards,
            partial(self._wire, tools=tools), check,
            may_fall_back=self.protocol == "auto",
        )  # fmt: skip
        return driver.events(protocol)

    def _executor(
        self, tools: Toolbox, variables: Namespace, person: Person, observers: Sequence[Observer],
        watch: Watch | None,
    ) -> KernelExecutor:  # fmt: skip
        """The executor for the calls of one run."""
        callbacks = observer_callback(observers, "output"), observer_callback(observers, "person")
        configuration = self._configuration
        given = tools, variables, configuration.approve, person, *callbacks
        return KernelExecutor(*given, allow=configuration.allow, watch=watch)

    def _settings(self) -> dict[str, Any]:
        """The arguments for an equivalent agent with a new conversation."""
        # The question of a row contains all that it is about, and nobody is asked about it.
        rows = {"context": "none", "ask_user": False, "python": "off", "undo": False}
        return {
            **self._configuration.fixed().given,
            **rows,
            "model": self._model,
            "tools": list(self.tools.values()),
            "namespace": self._variables(),
        }

    def _tools_for(
        self, exchange: Exchange, model: Model, past: Sequence[Exchange], earlier: Exchange | None
    ) -> Toolbox:
        """The tools for a question; also sets the context of its exchange."""
        small, names = ModelFacts(model).is_small, self._variables()
        return prepare.question_toolbox(
            self._offered(model), self.context, names, exchange, past, earlier, small=small
        )

    def _past_and_earlier(self, origin: str) -> tuple[tuple[Exchange, ...], Exchange | None]:
        """The exchanges before a question, and the exchange that it replaces."""
        index = index_of(self.exchanges, origin)
        return tuple(self.exchanges[:index]), next(iter(self.exchanges[index:]), None)

    def _variables(self) -> Namespace:
        return live_namespace() if self._namespace is None else self._namespace

    def _protocol(self, model: Model) -> ActiveProtocol:
        return model.protocol if self.protocol == "auto" else self.protocol

    def _wire(self, protocol: ActiveProtocol, tools: Toolbox) -> Wire:
        return (FunctionCalling if protocol == "native" else TextProtocol)(tools, self.instructions)

    def _guards(self, model: Model, tools: Toolbox, clock: Callable[[], float]) -> Guards:
        may_repeat = {name for name, tool in tools.items() if tool.repeat}
        return Guards(self.limits, clock, may_repeat, ModelFacts(model).is_small)


def _progress(question: str, options: Options) -> AbstractContextManager[tuple[Observer, ...]]:
    """The observer that shows the progress; none if it is not wanted."""
    wanted = options.get("progress")
    return nullcontext(()) if wanted is False else progress_line(question, wanted=wanted)


def _names_model(value: Any) -> bool:
    """Whether a value can only be a model: a name, or an object that can be asked."""
    return isinstance(value, str) or is_model(value)


for _many in (AsksMany.map, AsksMany.evaluate):  # for Python's error messages
    inspect.unwrap(_many).__qualname__ = f"Agent.{_many.__name__}"

sys.modules[__name__].__class__ = AgentModule
