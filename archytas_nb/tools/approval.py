"""A tool's own word on approval: always, never, or a callable that sees the arguments. Asks nobody.

The callable names the arguments that it wants to see, as the tool itself names them, and is given those.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

from archytas_nb.errors import ToolError
from archytas_nb.tools.names import did_you_mean

if TYPE_CHECKING:
    from archytas_nb.tools.bound import BoundCall
    from archytas_nb.tools.parameters import Parameter

Approval: TypeAlias = bool | Callable[..., bool | str] | None
"""Whether a person must agree before a call; a callable may answer with the words that the person is shown."""


def check(approve: Any, tool_name: str, names: Sequence[str]) -> None:
    """Refuse an ``approve`` that could not be asked, when the tool is defined.

    Args:
        approve: What was given.
        tool_name: The tool's name.
        names: The arguments that the model sets.

    Raises:
        ToolError: It is no bool, None or callable, or it needs what the tool has no argument for.
    """
    if approve is None or isinstance(approve, bool):
        return
    if not callable(approve):
        raise ToolError(
            f"approve is {approve!r} for the tool {tool_name!r}; expected True, False or a callable that is given"
            " the arguments and says whether to ask"
        )
    if inspect.iscoroutinefunction(approve):
        raise ToolError(
            f"approve of the tool {tool_name!r} is async: write it with def, it is asked before the call"
        )
    for each in _parameters(approve) or ():
        has_place = (
            each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) or each.default is not each.empty
        )
        if each.name not in names and not has_place:
            guess = did_you_mean(each.name, names)
            raise ToolError(
                f"approve of the tool {tool_name!r} asks for {each.name!r}, which is no argument of the tool"
                f"{guess or ';'} it has {', '.join(names) or 'none'}"
            )
        if each.kind is each.POSITIONAL_ONLY:
            raise ToolError(
                f"approve of the tool {tool_name!r} takes {each.name!r} by position only: the arguments are given"
                " by name"
            )


def ask(approve: Callable[..., Any], parameters: Sequence[Parameter], bound: BoundCall) -> Any:
    """Ask a tool's callable about a call.

    Args:
        approve: The callable.
        parameters: The tool's arguments.
        bound: The call, its arguments validated.

    Returns:
        What it says; whatever it raises is raised.
    """
    given = values(parameters, bound)
    wanted = _parameters(approve)
    if wanted is None or any(each.kind is each.VAR_KEYWORD for each in wanted):
        return approve(**given)
    return approve(**{each.name: given[each.name] for each in wanted if each.name in given})


def values(parameters: Sequence[Parameter], bound: BoundCall) -> dict[str, Any]:
    """What a function will receive, by name: defaults too, but nothing that is injected."""
    by_place = iter(bound.args)
    found: dict[str, Any] = {}
    for each in parameters:
        value = next(by_place) if each.positional else bound.kwargs.get(each.name, _LEFT_OUT)
        if not each.injected:
            found[each.name] = each.fresh_default() if value is _LEFT_OUT else value
    return found


_LEFT_OUT = object()


def _parameters(approve: Callable[..., Any]) -> tuple[inspect.Parameter, ...] | None:
    """Its arguments; None where Python cannot tell, as for some built-in functions."""
    try:
        return tuple(inspect.signature(approve).parameters.values())
    except (TypeError, ValueError):
        return None
