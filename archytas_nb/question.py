"""What may be said with one question, and how the arguments of an agent are read."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias, TypedDict, TypeVar

from archytas_nb.answers import Answers, Until
from archytas_nb.driver import Model, Observer
from archytas_nb.kernel import Namespace, current_shell, running_cell
from archytas_nb.loop import events as ev
from archytas_nb.loop.history import ContextWindow, Exchange
from archytas_nb.tools.data import attached
from archytas_nb.tools.names import keep
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox

F = TypeVar("F", bound=Callable[..., Any])
Tools: TypeAlias = Toolbox | Iterable[Tool | Callable[..., Any]] | None


class Options(TypedDict, total=False):
    """What may be said with one question; `Agent.run` describes it."""

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


class _Own:
    """The default of what overrides a setting of the agent's."""

    def __repr__(self) -> str:
        return "<as the agent's>"


_ANNOTATED: Any = Options.__annotations__
_DEFAULTS = {"until": None, "images": (), "origin": "", "observers": (), "progress": None}
OVERRIDES = tuple(name for name in Options.__annotations__ if name not in _DEFAULTS)


def takes_options(method: F) -> F:
    """Name the ``**options`` of a method in its signature, for help and completion."""
    signature = inspect.signature(method)
    own = [each for each in signature.parameters.values() if each.kind is not each.VAR_KEYWORD]
    kind = inspect.Parameter.KEYWORD_ONLY
    more = [
        inspect.Parameter(name, kind, default=_DEFAULTS.get(name, _Own()), annotation=ours)
        for name, ours in ((each, ref.__forward_arg__) for each, ref in _ANNOTATED.items())
    ]
    method.__signature__ = signature.replace(parameters=[*own, *more])  # type: ignore[attr-defined]
    return method


def read_question(
    variables: Namespace,
    question: str,
    output_type: Any = None,
    until: Until | None = None,
    images: Any = (),
    origin: str = "",
) -> tuple[Exchange, Answers]:
    """Check everything about a question first, so that bad input costs nothing."""
    if not isinstance(question, str):
        raise wrong("the question", question, "text to ask the model")
    if not question.strip():
        raise ValueError("the question is empty; expected text to ask the model")
    answers = Answers(output_type, until, variables)
    is_one = isinstance(images, (str, bytes)) or not hasattr(images, "__iter__")
    pictures = tuple(attached(each) for each in ([images] if is_one else images))
    exchange = Exchange(question, images=pictures, form=answers.form, origin=origin)
    return exchange, answers


def toolbox_of(tools: Any) -> Toolbox | None:
    """A toolbox of what is given for one; None stays None."""
    if tools is None or isinstance(tools, Toolbox):
        return tools
    if isinstance(tools, Tool) or callable(tools):
        return Toolbox(tools)
    if isinstance(tools, (str, Mapping)) or not isinstance(tools, Iterable):
        raise wrong("tools", tools, "functions, Tools or a Toolbox")
    return Toolbox(*tools)


def is_model(value: Any) -> bool:
    """Whether a value can only be meant as a model: a name, or an object that replies."""
    return isinstance(value, str) or callable(getattr(value, "complete", None))


def names_of(argument: str, value: Any) -> frozenset[str]:
    """Names, one or several."""
    is_one = isinstance(value, str) or not isinstance(value, Iterable)
    names: list[Any] = [value] if is_one else list(value)
    if not all(isinstance(each, str) for each in names):
        raise wrong(argument, value, "names of tools")
    return frozenset(names)


def wrong(name: str, value: Any, expected: str) -> ValueError:
    """What to raise for an argument that cannot be used."""
    return ValueError(f"{name} is {value!r}; expected {expected}")


@functools.cache
def asking_tool() -> Tool:
    """The tool by which a model asks the person."""
    from archytas_nb.kernel.person import ask_user

    return Tool.from_function(ask_user, repeat=True)


def window_of(model: Model, namespace: Namespace) -> ContextWindow:
    """How much the model can take, and where values go that there is no room for."""

    def name_of(call: ev.ToolCall, outcome: ev.CallOutcome) -> str:
        try:
            return "" if outcome.value is None else keep(outcome.value, namespace, call.name)
        except Exception:  # noqa: BLE001 - a namespace that refuses to store costs the name only
            return ""

    return ContextWindow(model, name_of)


def asked_by(origin: str) -> tuple[str, str]:
    """Who asks, and which run of theirs it is where they may ask more than once in it.

    An agent in Python gives no origin: the running cell stands for it. Both may be empty.
    """
    if origin:
        return origin, ""
    cell, execution = running_cell(current_shell())
    return (f"{cell} in Python", execution) if cell else ("", "")
