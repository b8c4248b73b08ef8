"""The options of one question, and the preparation of its run."""

from __future__ import annotations

import fnmatch
import inspect
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from typing import Any, Never, TypeAlias, TypedDict, TypeVar

from archytas_nb.answers import Answers, Until
from archytas_nb.driver import AnswerCheck, Observer
from archytas_nb.errors import ConfigurationError, ToolError, argument_error, invalid_argument
from archytas_nb.kernel.shell import Namespace
from archytas_nb.loop.model import Model
from archytas_nb.loop.record import Exchange
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
