"""What an agent is given, read and judged when it is made, so that it does not come to light in a run.

It may know tools; it asks nothing and runs nothing. Whatever cannot be used is a ValueError that says what can.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Mapping, MutableMapping
from enum import Enum
from typing import Any, Final, Literal, TypeAlias

from archytas_nb.loop.guards import MAX_TOTAL_TOKENS
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox


class _Unset(Enum):
    UNSET = "not given"


Unset: TypeAlias = Literal[_Unset.UNSET]
UNSET: Final = _Unset.UNSET


def toolbox(tools: Any) -> Toolbox | None:
    """The tools that an agent is given, one or several; None for the default ones."""
    if tools is None or isinstance(tools, Toolbox):
        return tools
    if isinstance(tools, Tool) or callable(tools):
        return Toolbox(tools)
    if isinstance(tools, (str, Mapping)) or not isinstance(tools, Iterable):
        raise _wrong("tools", tools, "functions, Tools or a Toolbox")
    return Toolbox(*tools)


def text(name: str, value: Any) -> str:
    """A text; None is an empty one."""
    if value is not None and not isinstance(value, str):
        raise _wrong(name, value, "text")
    return value or ""


def variables(namespace: Any) -> MutableMapping[str, Any] | None:
    """Where variables are; None for the live ones."""
    if namespace is not None and not isinstance(namespace, MutableMapping):
        raise _wrong("namespace", namespace, "a dict of variables")
    return namespace


def names(name: str, value: Any) -> frozenset[str]:
    """Names, one or several."""
    if isinstance(value, str):
        return frozenset([value])
    several: list[Any] = list(value) if isinstance(value, Iterable) else [None]
    if not all(isinstance(each, str) for each in several):
        raise _wrong(name, value, "names of tools")
    return frozenset(several)


def total_tokens(total: int | None, old: int | Unset | None) -> int | None:
    """The bound of a run's tokens, which may be given by its old name.

    The warning is a FutureWarning: unlike a DeprecationWarning it is also shown where a module of the user's
    makes the agent, and not the notebook itself.
    """
    if old is UNSET:
        return total
    if total != MAX_TOTAL_TOKENS:
        raise ValueError(
            f"max_tokens is {old!r} and max_total_tokens is {total!r}; expected one of them: leave "
            "max_tokens out, the old name"
        )
    warnings.warn(
        f"max_tokens={old!r} is called max_total_tokens now: {_RENAMED}",
        FutureWarning,
        stacklevel=3,
    )
    return old


_RENAMED = "it counts all tokens of a run. (The tokens of one reply are max_reply_tokens.)"


def _wrong(name: str, value: Any, expected: str) -> ValueError:
    return ValueError(f"{name} is {value!r}; expected {expected}")
