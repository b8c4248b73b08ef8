"""Every tool that exists, and whether a value is one: a tool is called, never passed to a tool."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from types import FunctionType, MethodType
from typing import Any


class ToolLike:
    """The base class of `Tool` and `Toolbox`."""


_tools: weakref.WeakSet[Any] = weakref.WeakSet()
"""The tools whose functions are known, also those that are in no toolbox."""


_needing_approval: weakref.WeakKeyDictionary[FunctionType, tuple[str, Any]] = (
    weakref.WeakKeyDictionary()
)
"""The name and the option `approve` of each tool, by its function, also of a tool that is gone."""


on_register: list[Callable[[Any], None]] = []
"""Called with each tool that is made."""


def register(tool: Any) -> None:
    """Have `is_tool` recognise the function of a tool, for as long as the tool exists."""
    _tools.add(tool)
    _remember(tool)
    for each in on_register:
        each(tool)


def _remember(tool: Any) -> None:
    if type(tool.function) is not FunctionType or tool.runs_code:
        return
    if tool.may_require_approval:
        _needing_approval[tool.function] = tool.source_name, tool.approve
    else:  # it was defined again, without
        _needing_approval.pop(tool.function, None)


def tools_that_exist() -> list[Any]:
    """All tools of this process, whatever toolbox they are in."""
    return list(_tools)


def former_tools() -> list[tuple[FunctionType, tuple[str, Any]]]:
    """The functions that are or were those of a tool that needs approval, with the options.

    A list of the user may still have the function when the tool has been defined again.
    """
    return list(_needing_approval.items())


def is_tool(value: Any) -> bool:
    """Whether a value is a tool, a toolbox, or the function of a tool."""
    if issubclass(type(value), ToolLike):
        return True
    if not callable(value):
        return False
    functions = [each.function for each in _tools]
    if type(value) is MethodType:  # each lookup creates a new object
        return any(type(each) is MethodType and value == each for each in functions)
    return any(value is each for each in functions)
