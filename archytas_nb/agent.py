"""An agent: one conversation with a model that uses tools on live objects."""

from __future__ import annotations

import copy
import dataclasses
import inspect
import os
import sys
import weakref
from collections.abc import (
    Callable,
    Collection,
    Generator,
    Iterable,
    Mapping,
    MutableMapping,
    Sequence,
)
from contextlib import AbstractContextManager, nullcontext
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from typing import (
    TYPE_CHECKING,
    Any,
    Literal,
    Never,
    TypedDict,
    TypeVar,
    Unpack,
    overload,
)  # fmt: skip

from archytas_nb.answers import Until
from archytas_nb.batch import STORE
from archytas_nb.choices import (
    AskBefore,
    CompactionName,
    ContextName,
    ProtocolName,
    PythonMode,
    ValuesName,
)
from archytas_nb.conversation import Conversation
from archytas_nb.driver import ask
from archytas_nb.errors import (
    ArchytasError,
    CassetteMiss,
    ConfigurationError,
    RunInterrupted,
    ToolError,
    invalid_argument,
    users_frames,
)
from archytas_nb.hints import (
    CalledModule,
    arguments,
    hinted,
    refuse_assignment,
    refuse_await,
    unknown_argument,
)
from archytas_nb.kernel.person import current_person, person_elsewhere
from archytas_nb.loop import events as ev
from archytas_nb.loop.limits import Limits
from archytas_nb.loop.model import (
    Model,
    is_model,
)
from archytas_nb.loop.record import Exchange, Inbox, StepRecord
from archytas_nb.namespace import Namespace
from archytas_nb.prepare import (
    VALUES_ARE_HIDDEN,
    ModelChoice,
    Prepared,
    Question,
    RunSetup,
    Tools,
    called_with_hidden_values,
    instructions_in,
    messages_of_conversation,
    prepare,
    read_question,
    toolbox_of,
)
from archytas_nb.progress import progress_line
from archytas_nb.run import Events, Observer, Run, T
from archytas_nb.settings import UNSET, Approve, Settings
from archytas_nb.tools.current import CurrentRun
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox, decorate, toolbox
from archytas_nb.words import count

if TYPE_CHECKING:
    from archytas_nb.aio import RunStream
    from archytas_nb.batch.map import Evaluation

__all__ = ["Agent", "Model", "Observer", "ProtocolName"]

F = TypeVar("F", bound=Callable[..., Any])


class Options(TypedDict, total=False):
    """The options of one question; `Agent.run` describes them."""

    until: Until | None
    images: Any
    origin: str
    code: bool
    unsure: float | None
    observers: Sequence[Observer]
    progress: bool | None
    plan: bool
    instructions: str
    model: str | Model | None
    tools: Tools
    max_steps: int
    max_seconds: float | None
    max_total_tokens: int | None
    max_reply_tokens: int | None


_ABOUT_QUESTION = ("until", "images", "origin", "code")
"""The options that are about the question itself, not about how it is answered."""


def takes_options(method: F) -> F:
    """List the ``**options`` of a method in its signature, for help and completion."""
    signature = inspect.signature(method)
    parameters = [each for each in signature.parameters.values() if each.kind != each.VAR_KEYWORD]
    parameters += [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=..., annotation=kind)
        for name, kind in Options.__annotations__.items()
    ]
    method.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return method


def check_namespace(namespace: object) -> None:
    """Raise ValueError unless this is a namespace or None."""
    if namespace is not None and not isinstance(namespace, MutableMapping):
        raise invalid_argument("namespace", namespace, "a dict of variables")


class AgentTools(Toolbox):
    """The tools of an agent's next question; one that is added is added to the agent."""

    def __init__(self, tools: Toolbox, own: Toolbox) -> None:
        super().__init__()
        self._tools = dict(tools)
        self._own = own

    def add(self, f: Any, **options: Any) -> Tool:
        """Add a function or a tool to the agent, as `Agent.tool` does, and return the tool."""
        tool = self._own.add(f, **options)
        self._tools[tool.name] = tool
        return tool

    def _refuse(self, *_: Any) -> Never:
        raise ToolError(
            "the tools of an agent can only be added to: agent.tools.add(f). To remove or disable "
            "one, change the Toolbox that the agent was made with, or pass tools=[…] for a question"
        )

    remove = disable = enable = refresh = restore = _refuse  # type: ignore[assignment]


_LEFT = "(Another model worked on this before you. This could not be undone: {}.)"
_asked: ContextVar[frozenset[int]] = ContextVar("asked", default=frozenset())
"""The agents that answer questions of others now, by the ids of their setups."""


def _least(*limits: Any) -> Any:
    """The smallest of some limits, of which None means no limit."""
    given = [each for each in limits if each is not None]
    return min(given, default=None)


@hinted
class Agent:
    """A conversation with a model that uses tools on live objects.

    An argument that is left out takes the value of the setting of the same name: ``%config
    ArchytasNB`` in a kernel with the extension, the environment variable ``ARCHYTAS_NB_…``, or its
    default. Changes of a setting take effect with the next question.

    Args:
        tools: Functions, Tools or a Toolbox; None uses the default toolbox (or those of its tools
            that the setting ``tools`` names).
        model: A name, an `OpenAIModel`, or any `Model`; None uses the configured one, or the
            embedded model.
        protocol: ``"react"``, ``"native"``, ``"program"``, or ``"auto"`` for what suits the model.
        instructions: Added to the system prompt; ``"@AGENTS.md"`` reads them from a file with
            each question.
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
        values: The values that the model may learn: ``"all"``; numbers and booleans
            (``"scalars"``); only names, types and the results of comparisons (``"none"``); or no
            comparisons either (``"strict"``). Results stay in variables, and their values are
            filled into the answer here.
        max_tools: Above how many tools of yours the model is told only of those that fit the first
            question best, and finds the others with a tool; None tells it of all.
        skills: Where skills are found, of which the model gets the names and reads those that it
            needs: ``"project"``, ``"user"``, or paths of folders.
        compaction: How a conversation that is too long for the model is shortened: a ``"summary"``
            by the model replaces its beginning (for small models it is dropped), or ``"drop"``.
        max_reply_tokens: Maximum tokens in one reply; None for 1,024 (small models) or 16,384.
        python: Where the model may run code: nowhere (``"off"``); in a copy of the kernel, which
            can change nothing (``"copy"``); or in the namespace: after approval (``"ask"``),
            immediately, and you can see and undo its changes (``"undoable"``), or immediately and
            without that (``"unwatched"``). Only the copy is a sandbox. The setting does not apply
            to small models, the argument does.
        undo: Whether changes of the variables by any tool are watched, for `Run.diff` and
            `Run.undo`; None for yes where ``python`` is ``"ask"`` or ``"undoable"``.
        preview: Maximum seconds for trying a call in a copy of the kernel before you are asked
            about it; None for no previews.
        ask_before: Before what code of the model in the namespace you are asked: ``"network"``,
            ``"process"``, ``"delete"``, ``"outside"`` (a change outside of the working folder and
            `folders`). It holds honest code, and is not a sandbox.
        folders: Paths of folders besides the working folder in which code of the model may write
            without a question, and in which changes by other programs are looked for.
        file_bounds: How many bytes of a file (``"file"``) and of all (``"all"``) are kept for
            undoing changes, and how many entries of the folders are looked at (``"entries"``).
        program_bounds: The limits of one program with ``protocol="program"``, such as
            ``{"seconds": 30, "memory": 500_000_000}``; ``calls`` and ``depth`` are the others.

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
        values: ValuesName = UNSET,
        max_tools: int | None = UNSET,
        skills: Collection[str] = UNSET,
        compaction: CompactionName = UNSET,
        max_reply_tokens: int | None = UNSET,
        python: PythonMode = UNSET,
        undo: bool | None = UNSET,
        preview: float | None = UNSET,
        ask_before: Collection[AskBefore] = UNSET,
        folders: Collection[str] = UNSET,
        file_bounds: Mapping[str, int] = UNSET,
        program_bounds: Mapping[str, float] = UNSET,
    ) -> None:
        if isinstance(tools, str) and tools in toolbox:
            toolbox_of(tools)  # the name of a tool, which raises ValueError
        if _names_model(tools) and not _names_model(model):
            tools, model = model, tools  # the model was given first
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
            "approve": UNSET if approve is None else approve,
            "ask_user": ask_user,
            "allow": allow,
            "context": context,
            "values": values,
            "max_tools": max_tools,
            "skills": skills,
            "compaction": compaction,
            "python": python,
            "undo": undo,
            "preview": preview,
            "ask_before": ask_before,
            "folders": folders,
            "file_bounds": file_bounds,
            "program_bounds": program_bounds,
        }
        given = {name: each for name, each in given.items() if each is not UNSET}
        check_namespace(namespace)
        self._setup = RunSetup(
            Settings.now(given),
            ModelChoice(model),
            toolbox_of(tools),
            Toolbox(),
            namespace,
        )
        self._conversation = Conversation()
        self.inbox = Inbox()

    @property
    def exchanges(self) -> list[Exchange]:
        """The conversation: a record of each question."""
        return self._conversation.exchanges

    @exchanges.setter
    def exchanges(self, exchanges: Sequence[Exchange]) -> None:
        self._conversation.load(exchanges)

    @property
    def tools(self) -> Toolbox:
        """The tools that the next question may use; ``agent.tools.add(f)`` adds one to them.

        Raises:
            ConfigurationError: A tool of yours has the name of a built-in one that is switched on.
        """
        offered = self._setup.now().offered(self._setup.choice.profile)
        return AgentTools(offered, self._setup.own_tools)

    @property
    def protocol(self) -> ProtocolName:
        """The wire protocol; "auto" for the one that the model supports."""
        return self._setup.settings.again().protocol

    @protocol.setter
    def protocol(self, protocol: ProtocolName) -> None:
        self._configure(protocol=protocol)

    @property
    def instructions(self) -> str:
        """The text that is added to the system prompt."""
        return instructions_in(self._setup.settings.again()).text

    @instructions.setter
    def instructions(self, instructions: str) -> None:
        self._configure(instructions=instructions)

    @property
    def context(self) -> ContextName:
        """The variables that are described below a question."""
        return self._setup.settings.again().context

    @context.setter
    def context(self, context: ContextName) -> None:
        self._configure(context=context)

    @property
    def limits(self) -> Limits:
        """The limits of a run."""
        return self._setup.settings.again().limits

    @limits.setter
    def limits(self, limits: Limits) -> None:
        self._configure(**dataclasses.asdict(limits))

    def _configure(self, **given: Any) -> None:
        self._setup = self._setup.but(**given)

    @property
    def model(self) -> str | Model | None:
        """The model as it was given: a name, a model, or None for the configured one.

        `chosen_model` is the model that answers.
        """
        given: str | Model | None = self._setup.choice.given
        return given

    @model.setter
    def model(self, model: str | Model | None) -> None:
        if model is not self._setup.choice.given:
            for each in self.exchanges:  # a text that was too long before may fit now
                each.compaction = replace(each.compaction, max_tokens=None)
        self._setup = replace(self._setup, choice=ModelChoice(model))

    def chosen_model(self) -> Model:
        """Choose the model that answers; the cassette in use, if there is one, wraps it.

        The first time, this may ask model servers what they serve, and you which one to use. A
        model that is given by its name, or by None, is chosen again when the configuration of
        models or the cassette has changed.

        Raises:
            ConfigurationError: There is no such model.
            ModelError: The endpoint does not answer.
        """
        return self._setup.choice.choose()

    @property
    def messages(self) -> list[ev.Message]:
        """The history as it is sent, in a form that even a strict server accepts.

        It is written for the model that was chosen last. If none was chosen yet, the protocol
        ``"auto"`` is taken for ``"react"``.
        """
        return messages_of_conversation(self._setup.now(), self.exchanges)

    def as_tool(self, name: str, description: str, *, approve: bool | None = None) -> Tool:
        """This agent as a tool for another one: a question in, an answer out.

        Each call is a conversation of its own. Its limits are what is left of those of the run that
        calls it, if that is less; what it uses counts there, its trace is shown below the call, and
        an interrupt ends both.

        Args:
            name: The name of the tool.
            description: The agent's abilities, for the model that may ask it.
            approve: Whether a call requires approval, as in `Tool.from_function`.

        Example:
            >>> librarian = Agent([find_book], instructions="You know the library.")
            >>> Agent([librarian.as_tool("librarian", "Answers questions about books.")])
        """

        def ask(question: str, run: CurrentRun) -> str:
            return self._answer_for(question, run, name)

        about = "    question: The question, with everything that is needed to answer it"
        ask.__doc__ = f"{description}\n\nArgs:\n{about}\n"
        return Tool.from_function(ask, name, approve=approve)

    def _answer_for(self, question: str, caller: CurrentRun, name: str) -> str:
        """The answer to a question of another agent's run.

        Raises:
            ToolError: The agent failed, it would ask itself, or the question may contain values
                that must stay here.
        """
        own = self._setup.settings.again().values
        if caller.values != "all":
            raise ToolError(
                f"values is {caller.values!r}, and a question to the agent {name!r} may contain "
                "values: ask it yourself"
            )
        if own != "all":
            raise ToolError(
                f"values of the agent {name!r} is {own!r}, and its answer, which contains values, "
                "would be told to the model that asks it: ask it yourself"
            )
        asked = _asked.get()
        if id(self._setup) in asked or self._conversation.active.is_running:
            raise ToolError(f"the agent {name!r} is answering already: it cannot ask itself")
        seconds, tokens = caller.host.left()
        limits = self.limits
        child = copy.copy(self)
        child.__dict__.update(_conversation=Conversation(), inbox=Inbox())
        token = _asked.set(asked | {id(self._setup)})
        # The person is asked as by the outer run, which does not count the time that they take.
        person = person_elsewhere.set(current_person.get() or person_elsewhere.get())
        run: Run[Any] | None = None
        try:
            run = child.run(
                question,
                progress=False,
                observers=[partial(_show_calls, caller, name)],
                max_seconds=_least(seconds, limits.max_seconds),
                max_total_tokens=_least(tokens, limits.max_total_tokens),
            )
        except RunInterrupted as error:
            run = error.run
            raise
        except ArchytasError as error:
            run = getattr(error, "run", None)
            if isinstance(error, CassetteMiss):
                caller.host.note_miss(error)
            raise ToolError(f"the agent {name!r} did not answer: {error}") from None
        finally:
            person_elsewhere.reset(person)
            _asked.reset(token)
            if run is not None:
                # Its cost is counted here, because its model may be another one.
                caller.host.count(replace(run.usage, usd=run.cost or 0.0))
                inner = ev.InnerRun(run.question, run.model, run.protocol, tuple(run.events))
                caller.runs.append(inner)
        if run.incomplete and not run.answer:
            raise ToolError(f"the agent {name!r} did not answer: stopped by {run.reason}")
        if run.incomplete:
            return f"{run.answer}\n(This is incomplete: stopped by {run.reason}.)"
        return run.answer

    def reset(self) -> None:
        """Start a new conversation with the same tools, model and settings."""
        self._conversation.load(())

    def save(self, path: str | os.PathLike[str], *, force: bool = False) -> None:
        """Save the conversation in a file of JSON, in which secrets are masked.

        Args:
            path: The file. One that this wrote before is replaced, unless it was edited since.
            force: Whether any other file is replaced, too.

        Raises:
            ConfigurationError: The file cannot be written, or is not to be replaced.
        """
        from archytas_nb.memory import save_conversation

        save_conversation(path, self.exchanges, force=force)

    def load(self, path: str | os.PathLike[str]) -> None:
        """Continue the conversation in a file that `save` wrote; the present one is left.

        Variables are not saved: where a result was kept in a variable that does not exist, the
        model is told so.

        Args:
            path: The file. It holds data only: reading it runs no code.

        Raises:
            ConfigurationError: There is no such file, or it does not hold a conversation.
        """
        from archytas_nb.memory import load_conversation

        exchanges = load_conversation(path, self._setup.now().variables.keys())
        self._conversation.load(exchanges)

    def forget_last(self) -> str | None:
        """Remove the last exchange; return its question, or None if there is none.

        It leaves the variables as they are; `Run.undo` restores them, and `Run.redo` brings back
        what that has replaced.
        """
        last = self._conversation.forget_last()
        return None if last is None else last.question

    def code(self) -> str:
        """The runs of this conversation as one script; see `Run.code`."""
        return "\n\n".join(run.code() for run in self._conversation.runs)

    @overload
    def run(
        self, question: str, *, output_type: type[T] = ..., **options: Unpack[Options]
    ) -> Run[T]: ...
    @overload
    def run(self, question: str, *, output_type: Any, **options: Unpack[Options]) -> Run[Any]: ...
    @takes_options
    def run(
        self,
        question: str,
        *,
        output_type: Any = None,
        then: str | Model | None = None,
        **options: Unpack[Options],
    ) -> Run[Any]:
        """Ask a question and wait for the answer; ``agent("…")`` is the same.

        Args:
            question: The question.
            output_type: The required type of the answer, any type that a tool's argument may have;
                the value is then in ``run.output``. None for text.
            then: The model that is asked in place of this one where the answer is unsure. Changes
                of variables and files by the first one are undone before; of others it is told.
            until: A function that gets the answer (with a type, its value) and returns what is
                wrong with it, for the model to read, or an empty string; or True or False. An
                AssertionError, ValueError, LookupError or ArithmeticError rejects the answer too;
                any other exception is a mistake in the condition and ends the question.
            images: One or more images for the question: PNG or JPEG (base64, bytes or a path), or
                objects such as figures.
            origin: Where the question comes from, such as a cell: it replaces the exchange of an
                earlier question with the same origin, and continues the conversation before it.
            code: Whether the answer, if it is text, is to end with a block of Python code. A model
                that leaves it out is asked for it once more.
            unsure: The least confidence of an answer, from 0 to 1: below it ``run.output`` is None
                and ``run.status`` is ``"unsure"``. With 0, ``run.confidence`` is only told. It
                takes a type of a few options: Literal, bool, Enum, an int with bounds, or fields
                of these.
            observers: Called with every event, and with the output of running tools.
            progress: Whether to show a progress line; None shows it in a terminal or a notebook.
            plan: Whether the model writes a plan of at most ten steps first, which you edit or
                approve. Where nobody is asked about calls, it is carried out as it is.
            instructions, model, tools, max_steps, max_seconds, max_total_tokens, max_reply_tokens:
                As for the agent, for this question only.

        Returns:
            The run; `incomplete` if a limit ended it.

        Raises:
            ModelError: The endpoint failed; the conversation continues without this question.
            TaskFailed: The model gave up.
            RunError: `until` raised an exception that does not reject the answer, or a model or an
                observer of yours raised a group of exceptions.
            RunInterrupted: The run was interrupted.
            ToolError: The type is not supported.
            ValueError: The question is empty, an image cannot be read, or `until` is not a
                function of one argument.
            TypeError: There is no such option.
        """
        refuse_await("await agent.arun(…)")
        if then == "person":
            raise ValueError(
                "then is 'person'; expected a model: a person answers the unsure rows of a map, "
                "and of a single question you see run.confidence and run.answer"
            )
        run = self._run(question, output_type, options, is_watched=then is not None)
        if then is None or run.status != ev.UNSURE:
            return run
        left = _undone(run)
        said = _LEFT.format("; ".join(left)) if left else ""
        self.forget_last()
        others: dict[str, Any] = {**options, "model": then, "unsure": None}
        return self._run(question, output_type, others, said=said)

    __call__ = run

    def _run(
        self,
        question: str,
        output_type: Any,
        options: Any,
        *,
        is_watched: bool = False,
        said: str = "",
    ) -> Run[Any]:
        """Ask a question; with `is_watched` so that its changes can be undone.

        `said` is told to the model with it.
        """
        run = _new_run(question, output_type)
        try:
            _, events = self._read(run, output_type, options, is_watched=is_watched, said=said)
            with _progress(question, options) as line:
                for _ in events((*options.get("observers", ()), *line)):
                    pass
        except KeyboardInterrupt:
            raise run.interrupt() from None
        return run.checked()

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
        run = _new_run(question, output_type)
        try:
            _, events = self._read(run, output_type, options)
            yield from events(options.get("observers", ()))
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
        after another; ``async def`` tools are tasks of the loop, so that they can wait for other
        tasks. Several agents may run at the same time, but each answers one question at a time.
        Cancelling the task ends the request at the server and keeps the conversation; an interrupt
        raises `asyncio.CancelledError`.
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
        from archytas_nb.aio import RunStream, events_of, waits_on_thread  # loads asyncio

        run = _new_run(question, output_type)
        setup, begin = self._read(run, output_type, options)
        waits = partial(
            waits_on_thread,
            setup.offered(setup.choice.profile),
            has_policy=callable(setup.settings.approve),
        )
        observers = options.get("observers", ())
        return RunStream(run, events_of(run, begin, waits, observers, self._conversation.active))

    def tell(self, text: str) -> None:
        """Tell the agent something while it works on a question; may be called from any thread.

        The text precedes the next request to the model, as your own words. If no other
        request follows, the trace says that it came too late.

        Raises:
            RuntimeError: No question is being answered, or a tool of a run whose values stay here
                tells this.
            TypeError: `text` is not text.
            ValueError: `text` is empty.
        """
        if called_with_hidden_values():
            raise RuntimeError(VALUES_ARE_HIDDEN)
        if not isinstance(text, str):
            raise TypeError(f"text={text!r}; expected text for the agent")
        if not text.strip():
            raise ValueError(f"text={text!r}; expected text for the agent")
        if not self.inbox.put(text):
            raise RuntimeError(
                "no question is being answered, so the model would not read this text: ask it with "
                "agent.run()"
            )

    @users_frames
    def map(
        self,
        data: Any,
        prompt: str,
        *,
        output_type: Any = None,
        workers: int = 8,
        budget: float | str | None = None,
        rpm: float | None = None,
        executor: Any = None,
        store: str | None = STORE,
        progress: bool = True,
        plan: bool | Literal["auto"] = False,
        rows: int = 1,
        verify: int = 10,
        max_fallback: float = 0.2,
        retry: bool = False,
        unsure: float | None = None,
        then: Any = None,
        when: Literal["now", "batch"] = "now",
    ) -> Any:
        """Ask about every row of a column or a frame, each in a conversation of its own.

        Identical rows are sent once. Results are stored in a file: after an interrupt, a crash or
        a spent budget, the same call continues with the open and failed rows. A replay
        (``pytest --agent-replay``) takes all results from the file.

        After 20 rows the estimated total cost is shown; if it exceeds the budget and you are at
        the keyboard, you decide how to continue. Tools marked ``pure`` run on the workers' threads,
        others one at a time on the calling thread. Approval is asked for before the first row.

        Args:
            data: A pandas or polars Series or DataFrame, or a list.
            prompt: What to do with each row. ``{column}`` is replaced with the row's value; if no
                column is named, the whole row is added below the prompt.
            output_type: The type of each answer, whose fields become columns; None for text.
            workers: Maximum number of rows in progress at the same time.
            budget: The maximum cost, such as ``"3 USD"`` or ``"500000 tokens"``, of all calls with
                these rows and this file together.
            rpm: Maximum number of requests per minute.
            executor: Any `concurrent.futures.Executor`, such as that of a Dask cluster. Other
                processes run whole rows, or only the calls of tools if there is a budget or a rate,
                or a tool that is not pure or requires approval.
            store: The file; None stores nothing.
            progress: Whether to show progress.
            plan: Whether the model writes one program for all rows, which is tried on a sample and
                then runs for each row; the rows that it does not answer are asked one by one.
                ``"auto"`` plans if the prompt names a column and there are tools, and asks row by
                row if the plan cannot be used.
            rows: How many rows a request has at most. With more than one, `verify` rows are asked
                one by one first, then together; where an answer differs, fewer are asked together.
                A row that a reply leaves out, doubles or moves is asked alone. Each request has two
                of the first rows, too: if these have other answers in it, all are asked alone.
            verify: How many rows of a plan the agent answers as well, to compare. If an answer
                differs, you decide; without anybody at the keyboard, the plan is not used.
            max_fallback: The largest share of rows of a plan, from 0 to 1, that is asked one by one
                without asking you.
            retry: Whether rows are asked about again for which a tool that is not pure may have run
                in another process that was lost (status ``"unknown"``). Without it you are asked
                when the map is run again; without anybody at the keyboard, they stay unknown.
            unsure: The least confidence of an answer, from 0 to 1. Below it the row has no answer,
                and the status ``"unsure"``. With 0, the confidence is only told. It takes a type of
                a few options: Literal, bool, Enum, an int with bounds, or fields of these.
            then: Who answers the rows that are unsure: another model, or ``"person"`` for you.
            when: ``"batch"`` sends the requests through the batch API of OpenAI, Anthropic or a
                compatible endpoint: half the price, and the answers come within a day. An interrupt
                cancels the batch; if the kernel ends, the same call continues with it. Tools must
                be pure.

        Returns:
            A DataFrame with the index of the data: the fields of the type (or ``answer``),
            ``status`` (``"done"``, ``"failed"``, ``"open"``, ``"unknown"``), ``error``,
            ``tokens``, ``cost`` in USD, ``seconds``. With `plan` also ``by`` (``"program"``,
            ``"agent"``), ``agent`` (its answer, where it was asked to compare) and the status
            ``"differs"``; what is known of the plan is in its ``attrs["plan"]``, and how often
            answers agreed with `rows` in ``attrs["rows"]``. With `unsure`
            also ``confidence``, the lowest of the fields, and ``attrs["unsure"]``; with `then`,
            ``by`` is ``"then"`` for the rows that were answered so. For a list, a list of dicts.
            An interrupt returns the results so far.

        Raises:
            ConfigurationError: The map cannot start: no model, no price for a budget in USD, a
                tool that does not work in a map, a file that cannot be written.
            ExecutorError: The executor cannot run the rows, or is gone before any row was done.
            ModelError: The endpoint failed before any row was done.
            ValueError: An argument is invalid.
        """
        from archytas_nb.batch.map import mapped

        return mapped(
            self._setup.for_rows(prompt, is_planned=plan is True),
            data,
            prompt,
            output_type=output_type,
            workers=workers,
            budget=budget,
            rpm=rpm,
            executor=executor,
            store=store,
            progress=progress,
            plan=plan,
            rows=rows,
            verify=verify,
            max_fallback=max_fallback,
            retry=retry,
            unsure=unsure,
            then=then,
            when=when,
        )

    @users_frames
    def evaluate(
        self,
        cases: Iterable[Any],
        *,
        runs: int = 5,
        models: Sequence[Any] = (),
        output_type: Any = None,
        workers: int = 8,
        budget: float | str | None = None,
        store: str | None = STORE,
        progress: bool = True,
        unsure: float | None = None,
    ) -> Evaluation:
        """Ask each question several times, and count how often the answer is right.

        Args:
            cases: A tuple ``(question, expected)`` or ``(question, expected, check)`` for each
                case. ``check(answer, expected)`` returns whether the answer passes; without it, a
                text must contain the expected value (ignoring case), and a typed value must
                equal it.
            runs: How many times each question is asked.
            models: Models to compare; empty for the agent's own.
            output_type: The type of each answer; None for text.
            workers: Maximum number of questions in progress at the same time.
            budget: The maximum cost for each model; as in `map`.
            store: The file that stores the answers, as in `map`; None stores nothing.
            progress: Whether to show progress.
            unsure: The least confidence of an answer that counts as one, as in `map`; with 0, all
                count. The evaluation then has a ``calibration``: how often answers are right by
                their confidence, and which threshold to use for a wished share of right ones.

        Returns:
            The pass rates with their 95% intervals, tokens and cost, for each case and in total.

        Raises:
            ConfigurationError, ModelError: As in `map`.
            ValueError: A case or an argument is invalid.
        """
        from archytas_nb.batch.map import evaluated

        return evaluated(
            self._setup.for_rows(),
            list(cases),
            runs,
            list(models),
            output_type=output_type,
            workers=workers,
            budget=budget,
            store=store,
            progress=progress,
            unsure=unsure,
        )

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
        return decorate(self._setup.own_tools, f, options)

    def preview(self, question: str, **asked: Any) -> ev.AskModel:
        """The first request of a run with these arguments; nothing is sent or stored."""
        return self.prepared(question, **asked).first_request()

    def prepared(self, question: str, **asked: Any) -> Prepared:
        """All that a run with these arguments is asked with; nothing is sent or stored."""
        known = ["output_type", *_ABOUT_QUESTION]
        for name in asked:
            if name not in known:
                raise unknown_argument("Agent.preview()", name, known)
        setup = self._setup.now()
        sees = setup.settings.context != "none"
        read = read_question(setup.variables, question, names_variables=sees, **asked)
        return prepare(setup, setup.choice.choose(), read, self.exchanges)

    def __repr__(self) -> str:
        asked = len(self.exchanges)
        try:
            tools = ", ".join(self.tools)
        except ConfigurationError:  # a repr never fails
            tools = "?"
        model = self._setup.choice.given
        return f"<Agent model={model!r} tools=[{tools}] {count(asked, 'question')}>"

    if not TYPE_CHECKING:  # a type checker would take any name for an attribute

        def __setattr__(self, name: str, value: Any) -> None:
            # An assignment of a name that nothing reads would change nothing without a word.
            if type(self) is Agent and not hasattr(Agent, name):
                refuse_assignment(self, name)
            super().__setattr__(name, value)

    # ── private ───────────────────────────────────────────────────────────────────────────────────

    def _read(
        self,
        run: Run[Any],
        output_type: Any,
        options: Options,
        *,
        is_watched: bool = False,
        said: str = "",
    ) -> tuple[RunSetup, Callable[[Sequence[Observer]], Events]]:
        """Read the question of a run and its options; nothing is sent yet.

        Args:
            run: The run.
            output_type: The type of its answer.
            options: Its options.
            is_watched: Whether its changes are watched, unless the agent has `undo` switched off.
            said: The message for the model with the question; empty for none.

        Returns:
            What it is asked with, and what asks it: the events of the run for some observers.
        """
        for name in options:
            if name not in Options.__annotations__:
                raise unknown_argument("Agent.run()", name, arguments(Agent.run))
        setup = self._setup.for_question(options)
        if is_watched and setup.settings.undo is None:
            setup = setup.but(undo=True)
        given: dict[str, Any] = {**options}
        about = {name: given[name] for name in _ABOUT_QUESTION if name in given}
        sees = setup.settings.context != "none"
        question = read_question(
            setup.variables, run.question, output_type, names_variables=sees, **about
        )
        unsure = options.get("unsure")
        if unsure is not None:
            run.require_confidence(unsure, question.exchange)
        if said:
            question.exchange.steps.append(StepRecord(said=said))
            run.events.append(ev.Notice("told", said))
        self._conversation.begin(question.exchange, run)
        if self.inbox.is_closed:  # it is that of an earlier question
            self.inbox = Inbox()
        return setup, partial(self._events, setup, run, question)

    def _events(
        self,
        setup: RunSetup,
        run: Run[Any],
        question: Question,
        observers: Sequence[Observer],
    ) -> Events:
        """All events of a question; an abandoned run of an earlier one is ended first."""
        active = self._conversation.active
        active.end()
        events = ask(setup, run, question, self._conversation, self.inbox, observers)
        active.events = weakref.ref(events)
        return events


def _show_calls(caller: CurrentRun, name: str, event: ev.Event) -> None:
    """Show below a running call what the agent that it asks calls."""
    from archytas_nb.trace.calls import call_view

    if isinstance(event, ev.RunCalls):
        for call in event.calls:
            text = f"{name}: {call_view(call).signature(100)}\n"
            caller.host.show(ev.Delta("output", text))


def _undone(run: Run[Any]) -> list[str]:
    """Undo what a run has changed; returns what remains of that, each in words."""
    # Of single variables that nobody can look into, it is not known whether they have changed.
    unseen = [each for each in run.diff.not_watched if each.name]
    return [str(each) for each in run.undo() if each not in unseen]


def _new_run(question: str, output_type: Any) -> Run[Any]:
    return Run[Any](question, _is_typed=output_type is not None)


def _progress(question: str, options: Options) -> AbstractContextManager[tuple[Observer, ...]]:
    """The observer that shows the progress; none if it is not wanted."""
    wanted = options.get("progress")
    if wanted is False:
        return nullcontext(())
    return progress_line(question, wanted=wanted)


def _names_model(value: Any) -> bool:
    """Whether a value can only be a model: a name, or an object that can be asked."""
    return isinstance(value, str) or is_model(value)


sys.modules[__name__].__class__ = CalledModule
