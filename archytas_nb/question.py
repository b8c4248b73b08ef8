"""The options of one question, and the preparation of its run."""

from __future__ import annotations

import fnmatch
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Never, TypeAlias, TypedDict, TypeVar, get_args

from archytas_nb import settings
from archytas_nb.answers import Answers, Until
from archytas_nb.driver import AnswerCheck, Observer
from archytas_nb.errors import ConfigurationError, ToolError, argument_error
from archytas_nb.kernel.approval import Approve
from archytas_nb.kernel.context import ContextName
from archytas_nb.kernel.python import PythonMode
from archytas_nb.kernel.shell import Namespace
from archytas_nb.loop.limits import Limits
from archytas_nb.loop.model import Model, ModelFacts
from archytas_nb.loop.record import Exchange
from archytas_nb.settings import SETTINGS
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
    return Exchange(question, images=encoded_images, form=form, origin=origin), check


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


_ARGUMENTS = (
    "protocol", "instructions", "max_steps", "max_errors", "max_seconds", "max_total_tokens",
    "max_reply_tokens", "approve", "ask_user", "allow", "context", "python", "undo",
)  # fmt: skip
"""The arguments of `Agent` for which a setting applies if they are left out, beside its tools."""


@dataclass(frozen=True, slots=True)
class AgentSettings:
    """The settings of an agent: the arguments that it was given, else the settings as they are now.

    Attributes:
        given: The arguments by name, without those that were left out.
    """

    given: Mapping[str, Any]

    def value(self, name: str) -> Any:
        """The argument, or the setting of the same name; raises ConfigurationError."""
        if name in self.given:
            return self.given[name]
        return settings.value(name)

    def having(self, **given: Any) -> AgentSettings:
        """The same with other arguments."""
        return AgentSettings({**self.given, **given})

    def fixed(self) -> AgentSettings:
        """The same, no longer changed by settings; which tools there are depends on the model."""
        names = [name for name in _ARGUMENTS if name not in ("ask_user", "python")]
        return self.having(**{name: self.value(name) for name in names})

    def check(self) -> None:
        """Raise ValueError if an argument is invalid; ConfigurationError if a setting is."""
        for name, known in (
            ("protocol", SETTINGS["protocol"].choices),
            ("python", get_args(PythonMode)),
            ("context", get_args(ContextName)),
        ):
            if self.value(name) not in known:
                expected = f"one of {', '.join(map(repr, known))}"
                raise invalid_argument(name, self.value(name), expected)
        instructions = self.value("instructions")
        allow = self.value("allow")
        if not isinstance(instructions, str):
            raise invalid_argument("instructions", instructions, "text")
        if not (isinstance(allow, Collection) and all(isinstance(each, str) for each in allow)):
            raise invalid_argument("allow", allow, "names of tools")
        asks = self.value("ask_user")
        undo = self.value("undo")
        if not (isinstance(asks, bool) or asks in SETTINGS["ask_user"].choices):
            raise invalid_argument("ask_user", asks, "True, False, 'on', 'off' or 'auto'")
        if not (undo is None or isinstance(undo, bool)):
            raise invalid_argument("undo", undo, "True, False or None")
        _ = self.approve  # the environment's value may be unreadable
        _ = self.limits  # which validates them

    @property
    def limits(self) -> Limits:
        """The limits of a run."""
        return Limits(**{each.name: self.value(each.name) for each in fields(Limits)})

    @property
    def approve(self) -> Approve:
        """What to do when a tool requires approval."""
        policy: Approve = self.value("approve")
        return policy

    @property
    def allow(self) -> frozenset[str]:
        """The names of the tools that run without approval."""
        return frozenset(self.value("allow"))

    @property
    def asks_user(self) -> bool:
        """Whether the model has a tool for asking the user questions."""
        return self.value("ask_user") in (True, "on")

    def python(self, model: Model | None) -> PythonMode:
        """How a model may run code; a small one only if the argument says so."""
        mode: PythonMode = self.value("python")
        is_setting = "python" not in self.given and mode != "off"
        if is_setting and model is not None and ModelFacts(model).is_small:
            return "off"
        return mode

    def watches(self, model: Model | None) -> bool:
        """Whether changes of the variables are watched in a run with a model."""
        undo = self.value("undo")
        return bool(self.python(model) in ("ask", "undoable") if undo is None else undo)


def check_namespace(namespace: object) -> None:
    """Raise ValueError unless this is a namespace or None."""
    if namespace is not None and not isinstance(namespace, MutableMapping):
        raise invalid_argument("namespace", namespace, "a dict of variables")


def default_tools(active: Toolbox, patterns: Iterable[str]) -> Toolbox:
    """The tools of the default toolbox, or those that the setting ``tools`` names.

    Raises:
        ConfigurationError: A name or a glob of the setting matches no enabled tool.
    """
    patterns = [*patterns]
    if patterns:
        return active.only(*chosen_tools(patterns, active, "the setting tools"))
    return active


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
