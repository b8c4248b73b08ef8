"""The options of one question, and the preparation of its run."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Collection, Iterable, Mapping, MutableMapping, Sequence
from dataclasses import replace
from typing import Any, TypeAlias, TypedDict, TypeVar, get_args

from archytas_nb.answers import Answers, Until
from archytas_nb.driver import AnswerCheck, Observer
from archytas_nb.errors import argument_error
from archytas_nb.kernel import Namespace, current_shell, running_cell
from archytas_nb.kernel.namespace import ContextName, context_of, look_tools
from archytas_nb.kernel.python import PythonMode
from archytas_nb.loop.model import Model
from archytas_nb.loop.record import Exchange
from archytas_nb.tools.data import encode_image, is_data
from archytas_nb.tools.names import delete_stored
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox

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
    is_checked = output_type is not None or until is not None
    answers = Answers(output_type, until, variables) if is_checked else None
    is_one = isinstance(images, (str, bytes)) or not hasattr(images, "__iter__")
    encoded_images = tuple(map(encode_image, [images] if is_one else images))
    exchange = Exchange(
        question,
        images=encoded_images,
        form=None if answers is None else answers.form,
        origin=origin,
    )
    return exchange, None if answers is None else answers.check


def toolbox_of(tools: Any) -> Toolbox | None:
    """A toolbox with the given tools; None stays None."""
    if tools is None or isinstance(tools, Toolbox):
        return tools
    if isinstance(tools, Tool) or callable(tools) or is_data(tools):
        return Toolbox(tools)
    if isinstance(tools, (str, Mapping)) or not isinstance(tools, Iterable):
        raise invalid_argument("tools", tools, "functions, Tools or a Toolbox")
    return Toolbox(*tools)


def check_settings(
    protocol: object, python: object, context: object, instructions: object, namespace: object,
    allow: object,
) -> None:  # fmt: skip
    """Raise ValueError if an argument of `Agent` is invalid."""
    for name, value, known in (
        ("protocol", protocol, ("auto", "react", "native")),
        ("python", python, get_args(PythonMode)),
        ("context", context, get_args(ContextName)),
    ):
        if value not in known:
            raise invalid_argument(name, value, f"one of {', '.join(map(repr, known))}")
    if instructions is not None and not isinstance(instructions, str):
        raise invalid_argument("instructions", instructions, "text")
    if namespace is not None and not isinstance(namespace, MutableMapping):
        raise invalid_argument("namespace", namespace, "a dict of variables")
    if not (isinstance(allow, Collection) and all(isinstance(each, str) for each in allow)):
        raise invalid_argument("allow", allow, "names of tools")


def invalid_argument(name: str, value: Any, expected: str) -> ValueError:
    """The error for an invalid argument."""
    shown = repr(value)
    if len(shown.splitlines()) > 1:
        shown = f"of type {type(value).__name__!r}"
    return argument_error(f"{name} is {shown}; expected {expected}")


@functools.cache
def ask_user_tool() -> Tool:
    """The tool with which a model asks the user."""
    from archytas_nb.kernel.person import ask_user

    return Tool.from_function(ask_user, repeat=True)


def origin_and_execution(origin: str) -> tuple[str, str]:
    """The origin of a question, and the execution of its cell if that may ask several questions.

    Without an origin, as for an agent in Python, it is the running cell. Both may be empty.
    """
    if origin:
        return origin, ""
    cell, execution = running_cell(current_shell())
    return (f"{cell} in Python", execution) if cell else ("", "")


def question_toolbox(
    tools: Toolbox,
    context: ContextName,
    variables: Namespace,
    exchange: Exchange,
    past: Sequence[Exchange],
    earlier: Exchange | None,
    *,
    small: bool,
) -> Toolbox:
    """The tools for a question, including those that read variables; sets its context."""
    own_tools = dict(tools)
    found = context_of(
        context, variables, exchange.question, past, earlier, small=small, alone=not own_tools
    )
    if found is not None:
        again = exchange.question if small else ""
        reading_tools = [each for each in look_tools(again) if each.name not in own_tools]
        # A tool that requires approval changes something, so it is not a way to read variables.
        instead = [name for name, tool in own_tools.items() if not tool.may_require_approval]
        alternatives = tuple(instead) if context == "auto" else ()
        names = tuple(each.name for each in reading_tools)
        exchange.context = replace(found, tools=names, preferred_tools=alternatives)
        tools.extend(Toolbox(*reading_tools))
    return tools


def delete_stored_results(earlier: Exchange | None, variables: Namespace) -> dict[str, Any]:
    """Delete the stored results of a question that is asked again; return them by name."""
    names: dict[str, Any] = {}
    for step in [] if earlier is None else earlier.steps:
        for call, outcome in step.pairs:
            if name := delete_stored(outcome.text, outcome.value, call.name, variables):
                names[name] = outcome.value
    return names
