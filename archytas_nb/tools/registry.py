"""Every tool that exists, and whether a value is one: a tool is called, never passed to a tool."""

from __future__ import annotations

import weakref
from types import MethodType
from typing import Any


class ToolLike:
    """The base class of `Tool` and `Toolbox`."""


_tools: weakref.WeakSet[Any] = weakref.WeakSet()
"""The tools whose functions are known, also those that are in no toolbox."""


def register(tool: Any) -> None:
    """Have `is_tool` recognise the function of a tool, for as long as the tool exists."""
    _tools.add(tool)


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
