"""The options of one question, and the preparation of its run."""

from __future__ import annotations

import fnmatch
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Never, TypeAlias, TypedDict, TypeVar

from archytas_nb import settings
from archytas_nb.answers import Answers, Until
from archytas_nb.choices import CompactionName, ContextName, ProtocolName, PythonMode, ValuesName
from archytas_nb.driver import AnswerCheck, Observer
from archytas_nb.errors import ConfigurationError, ToolError, argument_error
from archytas_nb.kernel.approval import Approve
from archytas_nb.kernel.shell import Namespace
from archytas_nb.loop.limits import Limits
from archytas_nb.loop.model import Model
from archytas_nb.loop.record import Exchange
from archytas_nb.rules import Instructions, read_instructions
from archytas_nb.sandbox.bounds import Bounds
from archytas_nb.settings import QUESTION_SETTINGS, SETTINGS
from archytas_nb.tools.data import encode_image, is_data
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox, toolbox
from archytas_nb.words import did_you_mean, nearest

F = TypeVar("F", bound=Callable[..., Any])
Tools: TypeAlias = Toolbox | Iterable[Tool | Callable[..., Any]] | None


class Options(TypedDict, total=False):
    """The options of one question; `Agent.run` describes them."""

    until: Until | None
    images: Any
    origin: str
    code: bool
    observers: Sequence[Observer]
    progress: bool | None
    model: str | Model | None
    tools: Tools
    max_steps: int
    max_seconds: float | None
    max_total_tokens: int | None
    max_reply_tokens: int | None


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


def read_question(
    variables: Namespace,
    question: str,
    output_type: Any = None,
    until: Until | None = None,
    images: Any = (),
    origin: str = "",
    *,
    code: bool = False,
) -> tuple[Exchange, AnswerCheck | None]:
    """Validate everything about a question first, so that a mistake costs nothing."""
    if not isinstance(question, str):
        raise invalid_argument("the question", question, "text to ask the model")
    if not question.strip():
        raise argument_error("the question is empty; expected text to ask the model")
    form = None
    check = None
    if output_type is not None or until is not None:
        answers = Answers(output_type, until, variables)
        form = answers.form
        check = answers.check
    is_one = isinstance(images, (str, bytes)) or not hasattr(images, "__iter__")
    if is_one:
        images = [images]
    encoded_images = tuple(map(encode_image, images))
    exchange = Exchange(
        question, images=encoded_images, form=form, origin=origin, wants_code=code and form is None
    )
    return exchange, check


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
    """What to write instead of the names of tools, or of models; empty for anything else."""
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


@dataclass(frozen=True, slots=True)
class QuestionSettings:
    """The settings of one question, as they are when it is asked.

    Attributes:
        protocol: How the model calls tools.
        instructions: The text that is added to the system prompt, and its file.
        tools: Names and globs of the tools of the default toolbox; empty for all.
        approve: What to do when a tool requires approval.
        allow: The names of the tools that run without approval.
        asks_user: Whether the model has a tool for asking the user questions.
        context: Which variables are described.
        values: What the model may learn of values.
        compaction: What becomes of the beginning of a conversation that is too long.
        python: How a model may run code.
        small_python: The same for a small model; only the argument applies to it.
        undo: Whether changes of the variables are watched; None if only when the model runs code.
        limits: The limits of the run.
        program_bounds: What one program may use.
    """

    protocol: ProtocolName
    instructions: Instructions
    tools: tuple[str, ...]
    approve: Approve
    allow: frozenset[str]
    asks_user: bool
    context: ContextName
    values: ValuesName
    compaction: CompactionName
    python: PythonMode
    small_python: PythonMode
    undo: bool | None
    limits: Limits
    program_bounds: Bounds


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of an agent: the arguments that it was given, else the settings as they are now.

    Attributes:
        given: The arguments by name, without those that were left out.
    """

    given: Mapping[str, Any]

    def having(self, **given: Any) -> AgentSettings:
        """The same with other arguments."""
        return AgentSettings({**self.given, **given})

    def now(self) -> QuestionSettings:
        """The settings of a question that is asked now.

        Raises:
            ConfigurationError: The value of an environment variable cannot be read.
            ValueError: A limit is invalid.
        """
        values = self._values()
        small_python: PythonMode = "off"
        if "python" in self.given:
            small_python = values["python"]
        return QuestionSettings(
            protocol=values["protocol"],
            instructions=read_instructions(str(values["instructions"])),
            tools=tuple(values["tools"]),
            approve=values["approve"],
            allow=frozenset(values["allow"]),
            asks_user=values["ask_user"] in (True, "on"),
            context=values["context"],
            values=values["values"],
            compaction=values["compaction"],
            python=values["python"],
            small_python=small_python,
            undo=values["undo"],
            limits=_limits_in(values),
            program_bounds=Bounds(**values["program_bounds"]),
        )

    def check(self) -> None:
        """Raise ValueError if an argument is invalid; ConfigurationError if a setting is."""
        values = self._values()
        for name in ("protocol", "python", "context", "values", "compaction"):
            known = SETTINGS[name].choices
            if values[name] not in known:
                expected = f"one of {', '.join(map(repr, known))}"
                raise invalid_argument(name, values[name], expected)
        instructions = values["instructions"]
        allow = values["allow"]
        if not isinstance(instructions, str):
            raise invalid_argument("instructions", instructions, "text")
        if not (isinstance(allow, Collection) and all(isinstance(each, str) for each in allow)):
            raise invalid_argument("allow", allow, "names of tools")
        asks = values["ask_user"]
        undo = values["undo"]
        if not (isinstance(asks, bool) or asks in SETTINGS["ask_user"].choices):
            raise invalid_argument("ask_user", asks, "True, False, 'on', 'off' or 'auto'")
        if not (undo is None or isinstance(undo, bool)):
            raise invalid_argument("undo", undo, "True, False or None")
        _limits_in(values)  # which validates them
        try:
            settings.check_bounds(values["program_bounds"])
        except settings.UnreadableSettingError as error:
            raise argument_error(f"program_bounds: {error}") from None

    def _values(self) -> dict[str, Any]:
        """The value of each setting by name, before it is validated."""
        others = [name for name in QUESTION_SETTINGS if name not in self.given]
        return {**settings.values(others), **self.given}


def _limits_in(values: Mapping[str, Any]) -> Limits:
    return Limits(**{each.name: values[each.name] for each in fields(Limits)})


def check_namespace(namespace: object) -> None:
    """Raise ValueError unless this is a namespace or None."""
    if namespace is not None and not isinstance(namespace, MutableMapping):
        raise invalid_argument("namespace", namespace, "a dict of variables")


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


def invalid_argument(name: str, value: Any, expected: str) -> ValueError:
    """The error for an invalid argument."""
    shown = repr(value)
    if len(shown.splitlines()) > 1:
        shown = f"of type {type(value).__name__!r}"
    return argument_error(f"{name} is {shown}; expected {expected}")


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
