"""Lists the functions, classes and imports of a notebook."""

from __future__ import annotations

import functools
import importlib.metadata
import inspect
import platform
import sys
from collections.abc import Collection, Mapping
from datetime import date
from types import FunctionType, ModuleType
from typing import Any

from archytas_nb.kernel.visible import is_ours
from archytas_nb.namespace import contained
from archytas_nb.tools.names import is_secret
from archytas_nb.tools.registry import is_tool
from archytas_nb.tools.render import is_users_file
from archytas_nb.tools.variables import user_names
from archytas_nb.words import truncate_line

_MAX_SIGNATURE = 200  # characters
_MAX_VERSION = 20  # characters
_MAX_DOCSTRING = 80  # characters of its first line


def functions_in(
    namespace: Mapping[str, Any], tools: Collection[Any] = (), *, has_values: bool = True
) -> dict[str, str]:
    """The functions and classes that the user wrote, with signatures and docstrings.

    Args:
        namespace: The variables.
        tools: The functions that the model knows already.
        has_values: Whether defaults and docstrings are shown.
    """
    known = set(map(id, tools))
    found = {}
    for name in user_names(namespace):
        value = namespace[name]
        with contained():
            if id(value) in known or is_secret(name) or is_tool(value) or is_ours(value):
                continue
            if _is_users(value):
                found[name] = _signature(name, value, has_values=has_values)
                if has_values and (line := _first_line(value)):
                    found[name] += f" – {line}"
    return found


def _first_line(value: Any) -> str:
    """The first line of a docstring, read without running code of the class."""
    text = vars(value).get("__doc__") if isinstance(value, type) else value.__doc__
    lines = text.strip().splitlines() if type(text) is str else []
    return truncate_line(lines[0].strip(), _MAX_DOCSTRING) if lines else ""


def _is_users(value: Any) -> bool:
    """Whether a value is a function or a class that the user wrote."""
    if isinstance(value, FunctionType):
        return is_users_file(_unwrapped(value).__code__.co_filename)
    if not isinstance(value, type):
        return False
    file = getattr(sys.modules.get(value.__module__), "__file__", None)
    return value.__module__ == "__main__" or (file is not None and is_users_file(file))


def _unwrapped(function: FunctionType) -> FunctionType:
    """The function that decorators have wrapped."""
    seen = {id(function)}
    inner = vars(function).get("__wrapped__")
    while isinstance(inner, FunctionType) and id(inner) not in seen:
        seen.add(id(inner))
        function, inner = inner, vars(inner).get("__wrapped__")
    return function


def _signature(name: str, value: Any, *, has_values: bool) -> str:
    """A name with its parameters, those with their defaults if these are short numbers or flags."""
    function = inspect.getattr_static(value, "__init__") if isinstance(value, type) else value
    if not isinstance(function, FunctionType):
        return f"class {name}"
    found = inspect.signature(_unwrapped(function), follow_wrapped=False).parameters
    parts: list[str] = []
    is_positional = True
    for each in [*found.values()][isinstance(value, type) :]:
        stars = "*" if each.kind is each.VAR_POSITIONAL else ""
        stars = "**" if each.kind is each.VAR_KEYWORD else stars
        if each.kind is each.KEYWORD_ONLY and is_positional:
            parts.append("*")
        is_positional = is_positional and each.kind not in (each.KEYWORD_ONLY, each.VAR_POSITIONAL)
        parts.append(f"{stars}{each.name}{_default(each, has_values=has_values)}")
    text = f"{name}({', '.join(parts)})"
    return text if len(text) <= _MAX_SIGNATURE else f"{name}(… {len(parts)} parameters)"


def _default(parameter: inspect.Parameter, *, has_values: bool) -> str:
    default = parameter.default
    if default is parameter.empty:
        return ""
    is_plain = default is None or type(default) in (bool, int, float)
    if has_values and is_plain and not is_secret(parameter.name) and len(repr(default)) <= 20:
        return f"={default!r}"
    return "=…"


def today() -> str:
    """The date, and the version of Python."""
    return f"{date.today().isoformat()}, Python {platform.python_version()}"  # noqa: DTZ011


def libraries_in(namespace: Mapping[str, Any]) -> dict[str, str]:
    """The libraries of which the notebook has a module, a class or a function.

    Returns:
        Each library by its name, with its version and the names that the notebook gives to its
        modules, as ``numpy 2.4.6 (np)``.
    """
    names: dict[str, list[str]] = {}
    for name in user_names(namespace):
        value = namespace[name]
        with contained():
            is_module = isinstance(value, ModuleType)
            if not (is_module or isinstance(value, (type, FunctionType))) or is_ours(value):
                continue
            path = str(value.__name__ if is_module else value.__module__)
            library = path.partition(".")[0]
            aliases = names.setdefault(library, [])
            if is_module and name != path:
                aliases.append(name if path == library else f"{path} as {name}")
    found = {}
    for library, aliases in names.items():
        if version := _version(library):
            found[library] = f"{library} {version}" + (
                f" ({', '.join(aliases)})" if aliases else ""
            )
    return found


def _version(library: str) -> str:
    """The version of a library; empty for modules of Python or of the user."""
    if library in sys.stdlib_module_names or library == "__main__":
        return ""
    version = getattr(sys.modules.get(library), "__dict__", {}).get("__version__")
    if not isinstance(version, str):
        version = _installed_version(library)
    return version[:_MAX_VERSION]


@functools.cache
def _installed_version(library: str) -> str:
    try:
        return importlib.metadata.version(library)
    except (importlib.metadata.PackageNotFoundError, ValueError):
        return ""
