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
        """Whether a name can be used unchanged."""
        return name.isidentifier() and name not in self._taken


def name_of_object(value: Any, namespace: Mapping[str, Any], wanted: str = "") -> str:
    """The expression that leads from a variable to this object; empty if none does.

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
    """How code names the function of a tool by a variable; empty if there is none."""
    found = name_of_object(tool.function, namespace, tool.source_name)
    if found:
        return found
    name = name_of_object(tool, namespace, tool.name)
    if name:
        return f"{name}.function"
    name = str(getattr(tool.function, "__name__", "") or tool.source_name)
    for each in (name, tool.source_name):
        # It was defined again since.
        found_now = _looked_up(each, namespace)
        if callable(found_now) and not isinstance(found_now, Tool):
            return each
    return ""


def own_name(tool: Tool) -> str:
    """The own name of the function of a tool."""
    name = str(getattr(tool.function, "__name__", "") or tool.source_name)
    return name if name.isidentifier() else re.sub(r"\W", "_", tool.name)


def _looked_up(path: str, namespace: Mapping[str, Any]) -> Any:
    """The object of a name with dots; attributes of instances are not read."""
    first, *others = path.split(".")
    value = namespace.get(first, _MISSING)
    for name in others:
        if not (inspect.ismodule(value) or inspect.isclass(value)):
            value = getattr(value, name, _MISSING) if hasattr(type(value), name) else _MISSING
        else:
            value = getattr(value, name, _MISSING)
    return value


class Imports:
    """The imports of a run's code, under names that nothing else has."""

    def __init__(self, namespace: Mapping[str, Any], names: Names) -> None:
        self._namespace = namespace
        self._names = names
        self._found: dict[str, str] = {}
        self.lines: list[str] = []

    @property
    def names(self) -> list[str]:
        """The names that the imports bind."""
        return [each.split()[-1] for each in self.lines]

    def module(self, name: str) -> str:
        """The name of a module in the code; it is imported unless a variable is bound to it."""
        if name not in self._found:
            module = sys.modules.get(name)
            known = [each for each in user_names(self._namespace) if module is not None
                     and self._namespace[each] is module]  # fmt: skip
            if known:
                self._found[name] = known[0]
            else:
                self._add(name, f"import {name}", name, f"{name}_module")
        return self._found[name]

    def member(self, value: Any) -> str:
        """The expression for a function or class that a module of the user or a library defines.

        Empty if it cannot be imported, like definitions of a notebook or inside a function.
        """
        name = getattr(value, "__module__", None)
        path = getattr(value, "__qualname__", "")
        module = sys.modules.get(str(name))
        if module is None or name in ("__main__", "builtins") or not path.isascii():
            return "" if name != "builtins" else path
        first, dot, rest = path.partition(".")
        if _looked_up(path, vars(module)) != value or not first.isidentifier():
            return ""
        key = f"{name}:{first}"
        if key not in self._found:
            self._add(key, f"from {name} import {first}", first, f"{first}_2")
        return f"{self._found[key]}{dot}{rest}"

    def _add(self, key: str, line: str, name: str, other: str) -> None:
        """Add an import; under another name if its own is taken."""
        if self._names.is_free(name):
            self._found[key] = self._names.take(name)
        else:
            self._found[key] = self._names.take(other)
            line = f"{line} as {self._found[key]}"
        self.lines.append(line)
