"""Names: of tools, and of the variables that stand for values which JSON cannot carry.

A reference is looked up, never evaluated, and only names that a user made are passed to a tool: a
model that read a hostile text must not reach anything else.
"""

from __future__ import annotations

import difflib
import inspect
import re
from collections.abc import Callable, Iterable, Mapping, MutableMapping
from types import ModuleType
from typing import Any

from typing_extensions import get_protocol_members, is_protocol

from archytas_nb.errors import ToolError

RESERVED = frozenset({"final_answer", "fail_task"})
"""Names of the actions that end a run; no tool may take one."""

VAR = "$var"
"""The key of an explicit reference: ``{"$var": "df"}``."""

_LEGAL = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_SECRET = re.compile(
    r"(?:(?:^|_)(?:API)?KEY|TOKEN|SECRET|PASSWORD|PASSWD|PASSPHRASE)$"
    r"|_(?:PAT|PASS|PWD|PW|COOKIES?|CREDENTIALS?|KEY_ID|KEY_BASE)$|(?:^|_)SECRET_",
    re.IGNORECASE,
)
_SHELL = frozenset({"In", "Out", "exit", "quit", "get_ipython", "open"})  # IPython's own
_MISSING = object()


class ByName:
    """Annotate a parameter with this, and the model names a variable instead of sending a value.

    Parameters that JSON cannot carry, such as a data frame, always work this way. All others take
    values only: a tool that sends text away must not receive any variable that the model names.

    Example:
        >>> def archive(text: Annotated[str, nb.ByName]) -> str: ...
    """


def legal_name(name: str) -> str:
    """The name that every endpoint takes, dots made underscores; raises ToolError where none is."""
    wire = name.replace(".", "_") if isinstance(name, str) else ""
    if _LEGAL.fullmatch(wire) and wire not in RESERVED:
        return wire
    if wire in RESERVED:
        why = f"the name {name!r} is reserved: it ends a run"
    else:
        expected = "expected 1 to 64 characters out of a-z, A-Z, 0-9, _ and -"
        why = f"{name!r} is not a valid tool name: {expected}"
    raise ToolError(f'{why}; choose another with @tool(name="…")')


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, or None where none is near."""
    folded: dict[str, str] = {}
    for each in known:
        if isinstance(each, str):
            folded.setdefault(each.casefold(), each)
    found = difflib.get_close_matches(str(name)[:200].casefold(), folded, n=1, cutoff=0.6)
    return folded[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """``", did you mean 'x'?"`` for the nearest known name, or an empty string."""
    near = nearest(name, known)
    return f", did you mean {near!r}?" if near is not None else ""


def shorten(text: str, size: int) -> str:
    """The beginning of a text, on one line, with ``…`` where the rest is left out."""
    return (text if len(text) <= size else f"{text[: size - 1]}…").replace("\n", " ")


def a(label: str) -> str:
    """The name of a type with its article."""
    return f"{'an' if label[:1].lower() in 'aeiou' or label.startswith('nd') else 'a'} {label}"


def referred(value: object) -> str | None:
    """The name in ``{"$var": name}``, or None where the value is something else."""
    if isinstance(value, dict) and len(value) == 1 and isinstance(value.get(VAR), str):
        return str(value[VAR])
    return None


def resolve(value: object, cls: Any, namespace: Mapping[str, Any] | None, label: str = "") -> Any:
    """The object that ``"df"`` or ``{"$var": "df"}`` names; a call from Python may pass it itself.

    Raises:
        ValueError: There is no such variable, or it holds no instance of the class.
    """
    what = a(label or getattr(cls, "__name__", str(cls)))
    name = value if isinstance(value, str) and namespace is not None else referred(value)
    if name is None and is_instance(value, cls):
        return value
    if name is None and not isinstance(value, str):
        raise ValueError(f"expected the name of a variable that holds {what}")
    if namespace is None:
        why = "call the tool with namespace=…"
        raise ValueError(f"there is no namespace to look {name or value!r} up in: {why}")
    name = str(name).strip()
    found = namespace.get(name, _MISSING)
    if why := withheld(name, found):
        fault = f"{name!r} is not passed to tools: {why}; expected {what}"
    elif found is _MISSING:
        fault = f"no variable is named {name!r}"
    elif is_instance(found, cls):
        return found
    else:
        fault = f"the variable {name!r} is {a(type(found).__name__)}, expected {what}"
    raise ValueError(f"{fault}{_hint(name, cls, namespace, what)}")


def visible(namespace: Mapping[str, Any]) -> list[str]:
    """The variables that a user made: none that begins with ``_``, none of IPython's."""
    return [name for name in list(namespace) if isinstance(name, str) and not is_hidden(name)]


def is_hidden(name: str) -> bool:
    """Whether a name is private or IPython's."""
    return name.startswith("_") or name in _SHELL


def is_secret(name: str) -> bool:
    """Whether a variable, also one of the environment, is named like a secret."""
    return _SECRET.search(name) is not None


def is_instance(value: object, cls: Any) -> bool:
    """``isinstance``, also where it raises, as for most protocols."""
    if cls is Callable:
        return callable(value)
    try:
        return isinstance(value, cls)
    except Exception:  # noqa: BLE001  (__class__ may be a user's property)
        return is_protocol(cls) and all(
            inspect.getattr_static(value, name, _MISSING) is not _MISSING
            for name in get_protocol_members(cls)
        )


def keep(value: Any, namespace: MutableMapping[str, Any], hint: str) -> str:
    """Store a result under a name that is free, for later calls, and return the name.

    Where a variable holds the object already, its name is returned. Nothing is overwritten.
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


def released(text: str, value: Any, hint: str, namespace: MutableMapping[str, Any]) -> str:
    """Remove the variable in which `keep` stored a result, as its text says; return its name.

    Empty where there is none, or where it now holds something else.
    """
    found = re.search(r"\(kept as the variable (\w+): ", text)
    name = found[1] if found else ""
    is_ours = name.rstrip("0123456789") == f"{re.sub(r'[^a-zA-Z0-9_]', '_', hint).strip('_')}_"
    if not is_ours or namespace.get(name, _MISSING) is not value:
        return ""
    del namespace[name]
    return name


def withheld(name: str, value: Any) -> str:
    """Why a variable is not passed to a tool; an empty text where it may be."""
    from archytas_nb.tools.tool import is_tool

    if name.startswith("_"):
        return "its name begins with '_'"
    if name in _SHELL:
        return "it belongs to IPython"
    if issubclass(type(value), ModuleType):
        return "it is a module"
    return "it is a tool, and a tool is called, not passed on" if is_tool(value) else ""


def _hint(name: str, cls: Any, namespace: Mapping[str, Any], what: str) -> str:
    """Which variables hold what is expected, and which of them was probably meant."""
    found = [(each, namespace[each]) for each in visible(namespace)]
    names = [each for each, it in found if is_instance(it, cls) and not withheld(each, it)]
    if not names:
        return f"; no variable holds {what}"
    near = nearest(name, names) or (names[0] if len(names) == 1 else None)
    shown = ", ".join(repr(each) for each in names[:8]) + (", …" if len(names) > 8 else "")
    return f"{f', did you mean {near!r}?' if near else '.'} Variables that hold {what}: {shown}"
