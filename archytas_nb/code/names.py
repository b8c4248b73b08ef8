"""The names in the code of a run: of the tools' functions, of modules and classes, and new ones."""

from __future__ import annotations

import builtins
import inspect
import keyword
import re
import sys
from collections.abc import Iterable, Mapping
from typing import Any

from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import user_names

_MISSING = object()


class Names:
    """New names, none of which is taken.

    Args:
        taken: The names that exist already, or are used otherwise.
    """

    def __init__(self, taken: Iterable[str]) -> None:
        self._taken = {*taken, *dir(builtins), *keyword.kwlist, *keyword.softkwlist}

    def take(self, name: str) -> str:
        """A name that is new if possible, else with a number."""
        stem = re.sub(r"\W+", "_", name).strip("_") or "result"
        if stem[0].isdigit():
            stem = f"result_{stem}"
        found = stem
        number = 1
        while found in self._taken:
            number += 1
            found = f"{stem}_{number}"
        self._taken.add(found)
        return found

    def is_free(self, name: str) -> bool:
        """Whether a name can be taken as it is."""
        return name.isidentifier() and name not in self._taken


def name_of_object(value: Any, namespace: Mapping[str, Any], wanted: str = "") -> str:
    """The expression by which a variable gives this object; empty if none does.

    Args:
        value: A function, a class or a module; also a method of an object that a variable holds.
        namespace: The variables.
        wanted: The name to look for first; it may have dots.
    """
    if wanted and _looked_up(wanted, namespace) is value:
        return wanted
    for name in user_names(namespace):
        if namespace[name] is value:
            return name
    owner = getattr(value, "__self__", None)
    if owner is None or inspect.ismodule(owner) or not inspect.ismethod(value):
        return ""
    for name in user_names(namespace):
        if namespace[name] is owner:
            return f"{name}.{value.__name__}"
    return ""


def function_of(tool: Tool, namespace: Mapping[str, Any]) -> str:
    """How code names the function of a tool: by a variable, or as it is defined elsewhere."""
    found = name_of_object(tool.function, namespace, tool.source_name)
    if found:
        return found
    name = str(getattr(tool.function, "__name__", "") or tool.source_name)
    for each in (name, tool.source_name):  # it was defined again since
        if callable(_looked_up(each, namespace)):
            return each
    return name if name.isidentifier() else re.sub(r"\W", "_", tool.name)


def _looked_up(path: str, namespace: Mapping[str, Any]) -> Any:
    """What a name with dots stands for; attributes of instances are not read."""
    first, *others = path.split(".")
    value = namespace.get(first, _MISSING)
    for name in others:
        if not (inspect.ismodule(value) or inspect.isclass(value)):
            value = getattr(value, name, _MISSING) if hasattr(type(value), name) else _MISSING
        else:
            value = getattr(value, name, _MISSING)
    return value


class Imports:
    """Modules that the code of a run needs, under names that are not taken otherwise."""

    def __init__(self, namespace: Mapping[str, Any], names: Names) -> None:
        self._namespace = namespace
        self._names = names
        self._found: dict[str, str] = {}
        self.lines: list[str] = []

    def module(self, name: str) -> str:
        """The name of a module in the code; it is imported unless a variable is bound to it."""
        if name not in self._found:
            module = sys.modules.get(name)
            known = [each for each in user_names(self._namespace) if module is not None
                     and self._namespace[each] is module]  # fmt: skip
            if known:
                self._found[name] = known[0]
            elif self._names.is_free(name):
                self._found[name] = self._names.take(name)
                self.lines.append(f"import {name}")
            else:
                self._found[name] = self._names.take(f"{name}_module")
                self.lines.append(f"import {name} as {self._found[name]}")
        return self._found[name]
