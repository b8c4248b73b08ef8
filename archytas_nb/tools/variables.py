"""The user's variables: references to them for values that JSON cannot represent, and results.

A reference is the name of a variable or a path into it (`paths.py`). It is looked up, never
evaluated, and only what the user defined is passed to a tool, so that a prompt injection cannot
reach anything else.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, MutableMapping
from types import ModuleType
from typing import Any, NewType

from archytas_nb.loop.events import VAR
from archytas_nb.tools import paths
from archytas_nb.tools.names import is_secret
from archytas_nb.tools.registry import is_tool
from archytas_nb.words import nearest, with_article

_SHELL = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})  # defined by IPython
_NOT_THE_USERS = re.compile(
    r"__\w+__|_+|_i{1,3}|_i?\d+|_[io]h|_dh|_exit_code|In|Out|get_ipython|exit|quit|open"
)
_FUNCTIONS = frozenset({"function", "builtin_function_or_method", "method", "ufunc", "partial"})
_MISSING = object()
_SHOWN = 8  # names that are suggested

A_PART = 'a part of one, such as df["x"], df.x or cfg["a"][0] (nothing is computed)'
"""The other names that are allowed besides a variable, in words for the model."""


LiveNamespace = NewType("LiveNamespace", MutableMapping[str, Any])
"""The annotation of a parameter that receives the live namespace; the model does not see it."""


class ByName:
    """Annotate a parameter with this to have the model name a variable instead of sending a value.

    Parameters of types that JSON cannot represent, such as data frames, always work this way. All
    others accept only values, so that the model cannot pass arbitrary variables to a tool.

    Example:
        >>> def archive(text: Annotated[str, nb.ByName]) -> str: ...
    """


def by_name(what: str) -> str:
    """How a value is named instead of sent, in words for the model."""
    return f'the name of a variable that holds {what}, or a path to one: df["x"]'


def reference_name(value: object) -> str | None:
    """The name in ``{"$var": name}``, or None if the value has another form."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get(VAR), str):
        return str(value[VAR])
    return None


def resolve(value: object, cls: Any, namespace: Mapping[str, Any] | None, label: str = "") -> Any:
    """The object that ``"df"`` or ``{"$var": "df"}`` refers to; Python code may pass the object.

    Raises:
        ValueError: There is no such variable, or its value is not an instance of the class.
        NoPartError: The same, with a message that may hold keys of a variable.
    """
    what = with_article(label or getattr(cls, "__name__", str(cls)))
    name = reference_name(value)
    # Models pass objects by name: where there are variables, a text is a name.
    if isinstance(value, str) and namespace is not None:
        name = value
    if name is None and is_instance(value, cls):
        return value
    if name is None and not isinstance(value, str):
        raise ValueError(f"expected {by_name(what)}")
    if namespace is None:
        why = "call the tool with namespace=…"
        raise ValueError(f"there is no namespace to look {name or value!r} up in: {why}")
    name = str(name).strip()
    part = part_of(name, namespace)
    found = _MISSING if part is None else part.value
    why = why_not_passed(name, found)
    if why:
        fault = f"{name!r} is not passed to tools: {why}; expected {what}"
    elif part is None:
        fault = f"no variable is named {name!r}"
        if not name.isidentifier() and paths.parsed(name) is None:
            fault = f"{name!r} is neither the name of a variable nor {A_PART}"
    elif is_instance(found, cls):
        return found
    else:
        is_whole = "the variable " if part.root == name else ""
        fault = f"{is_whole}{name!r} is {with_article(type(found).__name__)}, expected {what}"
        fits = [
            f"{part.source}{end}" for end, each in paths.parts_of(found) if is_instance(each, cls)
        ]
        if fits:
            listed = ", ".join(fits[:_SHOWN])
            raise paths.NoPartError(f"{fault}. Parts of it that are: {listed}")
    raise ValueError(f"{fault}{_hint(name, cls, namespace, what)}")


def part_of(text: str, namespace: Mapping[str, Any]) -> paths.Part | None:
    """The target of a reference: a variable, or a part of one; None if it names no variable.

    Raises:
        NoPartError: It names a part that is not there, or is not read.
    """
    found = paths.find(text, namespace, user_names(namespace))
    if found is not None and found.root != text and (why := why_not_passed(found.root, None)):
        raise paths.NoPartError(f"{found.root!r} is not passed to tools: {why}")
    return found


def user_names(namespace: Mapping[str, Any]) -> list[str]:
    """The variables that the user defined, without private ones and IPython's own."""
    return [name for name in list(namespace) if isinstance(name, str) and not is_hidden(name)]


def is_hidden(name: str) -> bool:
    """Whether a name is private or one of IPython's own."""
    return name.startswith("_") or name in _SHELL


def is_users_name(name: str) -> bool:
    """Whether a name is the user's, not one of Python or IPython."""
    return _NOT_THE_USERS.fullmatch(name) is None


def is_instance(value: object, cls: Any) -> bool:
    """``isinstance``, also for types that it does not support, such as most protocols."""
    if cls is Callable:
        return callable(value)
    try:
        return isinstance(value, cls)
    except Exception:  # noqa: BLE001  (__class__ may be a user's property)
        from typing_extensions import get_protocol_members, is_protocol

        return is_protocol(cls) and all(
            inspect.getattr_static(value, name, _MISSING) is not _MISSING
            for name in get_protocol_members(cls)
        )


def name_of(value: Any, namespace: Mapping[str, Any]) -> str:
    """The name of a variable that holds this object, or an empty string.

    A name that begins with ``_`` counts as well, if there is no other, unless it is one of IPython.
    """
    found = [name for name, each in list(namespace.items()) if each is value]
    own = [name for name in found if isinstance(name, str) and is_users_name(name)]
    return min(own, key=lambda name: name.startswith("_"), default="")


def keep(value: Any, namespace: MutableMapping[str, Any], hint: str) -> str:
    """Store a result in a new variable for later calls, and return its name."""
    stem = re.sub(r"\W", "_", hint).strip("_") or "result"
    if stem[0].isdigit():
        stem = f"result_{stem}"
    # After the last one: where an earlier one was removed, its name must not get another meaning.
    numbered = re.compile(rf"{stem}_([1-9][0-9]{{0,8}})")
    found = (numbered.fullmatch(each) for each in list(namespace) if isinstance(each, str))
    name = f"{stem}_{max((int(each[1]) for each in found if each), default=0) + 1}"
    namespace[name] = value
    return name


def why_not_passed(name: str, value: Any) -> str:
    """Why a variable must not be passed to a tool; empty if it may be."""
    if name.startswith("_"):
        return "its name begins with '_'"
    if name in _SHELL:
        return "it belongs to IPython"
    if issubclass(type(value), ModuleType):
        return "it is a module"
    if is_tool(value):
        return "it is a tool, and a tool is called, not passed on"
    return ""


def is_code(value: Any) -> bool:
    """Whether a value is a class or a function, which are not described or passed as data."""
    kind = type(value)
    return issubclass(kind, type) or hasattr(kind, "__code__") or kind.__name__ in _FUNCTIONS


def _hint(name: str, cls: Any, namespace: Mapping[str, Any], what: str) -> str:
    """A hint that lists the variables of the expected type and suggests one of them."""
    names = []
    for each in user_names(namespace):
        if is_secret(each):
            continue
        value = namespace[each]
        is_data = cls is not object or not is_code(value)
        if is_data and is_instance(value, cls) and not why_not_passed(each, value):
            names.append(each)
    if not names:
        return f"; no variable holds {what}"
    near = nearest(name, names)
    if not near and len(names) == 1:
        near = names[0]
    guess = f", did you mean {near!r}?" if near else "."
    shown = [repr(each) for each in names[:_SHOWN]]
    if len(names) > _SHOWN:
        shown.append("…")
    holding = "The variables are" if cls is object else f"Variables that hold {what}"
    return f"{guess} {holding}: {', '.join(shown)}"
