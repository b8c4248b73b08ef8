"""Arguments and results by reference: the names of live variables instead of values that JSON cannot carry.

Knows a namespace only as a mapping; never evaluates an expression, and never overwrites a variable. Only names
that a user made are passed to a tool: a model that read a hostile text must not get at anything else.
"""

from __future__ import annotations

import inspect
import keyword
import re
from collections.abc import Callable, Mapping, MutableMapping
from types import ModuleType
from typing import Any

from typing_extensions import get_protocol_members, is_protocol

from archytas_nb.tools.names import nearest

VAR = "$var"
"""The key of an explicit reference: ``{"$var": "df"}``."""

_SHELL = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})
"""What IPython puts into the namespace."""


class ByName:
    """Annotate a parameter with it, and the model names a variable instead of sending a value.

    Parameters that JSON cannot carry, such as a data frame, are passed so anyhow; all others take values only,
    unless they say so: a tool that sends text away must not be given any variable that the model names.

    Example:
        >>> def archive(text: Annotated[str, nb.ByName]) -> str: ...
    """


_MISSING = object()


class ReferenceFault(ValueError):
    """A reference that leads to nothing, or to an object of another type; the message is for the model."""


def referred(value: object) -> str | None:
    """Return the name in ``{"$var": name}``, or None where the value is something else."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get(VAR), str):
        return str(value[VAR])
    return None


def resolve(
    value: object, cls: Any, namespace: Mapping[str, Any] | None, *, label: str = ""
) -> Any:
    """Find the object that a reference names.

    Args:
        value: ``"df"``, ``{"$var": "df"}``, or (in a call by hand) the object itself.
        cls: The class that the object must be an instance of, or ``collections.abc.Callable``.
        namespace: Variable name to object; None where there is no namespace.
        label: How the type is written in messages; the class's name by default.

    Returns:
        The object itself, never a copy.

    Raises:
        ReferenceFault: No such variable, or its object is not of the class.
    """
    label = label or getattr(cls, "__name__", str(cls))
    explicit = referred(value)
    if (
        explicit is None
        and is_instance(value, cls)
        and not (isinstance(value, str) and namespace is not None)
    ):
        return value
    name = explicit if explicit is not None else value
    if not isinstance(name, str):
        raise ReferenceFault(f"expected the name of a variable that holds {a(label)}")
    if namespace is None:
        raise ReferenceFault(
            f"there is no namespace to look {name!r} up in: call the tool with namespace=…"
        )
    name = name.strip()
    found = (
        namespace.get(name, _MISSING)
        if name.isidentifier() and not keyword.iskeyword(name)
        else _MISSING
    )
    if why := _withheld(name, found):
        raise ReferenceFault(
            f"{name!r} is not passed to tools: {why}; expected {a(label)}{_hint(name, cls, namespace, label)}"
        )
    if found is _MISSING:
        raise ReferenceFault(f"no variable is named {name!r}{_hint(name, cls, namespace, label)}")
    if not is_instance(found, cls):
        kind = type(found).__name__
        raise ReferenceFault(
            f"the variable {name!r} is {a(kind)}, expected {a(label)}{_hint(name, cls, namespace, label)}"
        )
    return found


def visible(namespace: Mapping[str, Any]) -> list[str]:
    """The variables that a person would call their own: none that begins with ``_``, none of IPython's."""
    return [name for name in list(namespace) if isinstance(name, str) and not is_hidden(name)]


def is_hidden(name: str) -> bool:
    """Whether a name is private or IPython's."""
    return name.startswith("_") or name in _SHELL


def _withheld(name: str, value: Any) -> str:
    """Why a variable is not passed to a tool; an empty text where it may be."""
    from archytas_nb.tools.tool import is_tool

    if name.startswith("_"):
        return "its name begins with '_'"
    if name in _SHELL:
        return "it belongs to IPython"
    if issubclass(type(value), ModuleType):
        return "it is a module"
    return "it is a tool, and a tool is called, not passed on" if is_tool(value) else ""


def is_instance(value: object, cls: Any) -> bool:
    """``isinstance`` that also copes with objects and classes that refuse to answer."""
    if cls is Callable:
        return callable(value)
    try:
        return isinstance(value, cls)
    except Exception:  # noqa: BLE001  (a Protocol that cannot be checked at run time, or a lying __class__)
        return is_protocol(cls) and all(
            inspect.getattr_static(value, name, _MISSING) is not _MISSING
            for name in get_protocol_members(cls)
        )


def a(label: str) -> str:
    """Put the article before the name of a type."""
    return f"{'an' if label[:1].lower() in 'aeiou' or label.startswith('nd') else 'a'} {label}"


def candidates(cls: Any, namespace: Mapping[str, Any]) -> list[str]:
    """Name the variables that hold an instance of the class, in the order of their creation."""
    found = [(name, namespace[name]) for name in visible(namespace)]
    return [name for name, each in found if is_instance(each, cls) and not _withheld(name, each)]


def _hint(name: str, cls: Any, namespace: Mapping[str, Any], label: str) -> str:
    names = candidates(cls, namespace)
    if not names:
        return f"; no variable holds {a(label)}"
    near = nearest(name, names)
    shown = ", ".join(repr(each) for each in names[:8]) + (", …" if len(names) > 8 else "")
    near = near or (names[0] if len(names) == 1 else None)
    guess = f", did you mean {near!r}?" if near else "."
    return f"{guess} Variables that hold {a(label)}: {shown}"


def keep(value: Any, namespace: MutableMapping[str, Any], hint: str) -> str:
    """Store a result in the namespace under a new name, so that a later call can take it by reference.

    Args:
        value: The object; where a variable holds it already, that variable's name is the handle.
        namespace: The live namespace.
        hint: What the handle begins with, the tool's name; ``{hint}_{n}`` is the first free name.

    Returns:
        The handle.
    """
    for name in visible(namespace):
        if namespace[name] is value:
            return name
    stem = re.sub(r"\W", "_", hint).strip("_") or "result"
    stem = f"result_{stem}" if stem[0].isdigit() else stem
    number = 1
    while f"{stem}_{number}" in namespace:
        number += 1
    namespace[f"{stem}_{number}"] = value
    return f"{stem}_{number}"
