"""What a callable's signature says: its parameters, their resolved types, what it is. The signature is the truth.

Knows functions, not docstrings and not JSON. Calls nothing of the user's.
"""

from __future__ import annotations

import functools
import inspect
import sys
import typing
from collections.abc import Callable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NewType

MISSING: Any = inspect.Parameter.empty
"""Stands for "no annotation" and "no default"."""

Namespace = NewType("Namespace", MutableMapping[str, Any])
"""Annotate a parameter with it and the tool is given the live namespace; the model neither sees nor sends it."""

_OURS = str(Path(__file__).parent.parent)


@dataclass(frozen=True, slots=True)
class Signature:
    """What is known of a callable before its docstring is read.

    Attributes:
        name: Its own name.
        doc: Its raw docstring.
        parameters: The parameters that a caller can set, in order, with resolved annotations.
        returns: The resolved return annotation, or `MISSING`.
        bound: Names that the signature once had and that are bound already (``partial``).
        is_async: Whether a call gives an awaitable.
        faults: Why it cannot be a tool, one sentence each.
        issues: What is missing without harm.
    """

    name: str
    doc: str
    parameters: tuple[inspect.Parameter, ...]
    returns: Any
    bound: frozenset[str]
    is_async: bool
    faults: tuple[str, ...]
    issues: tuple[str, ...] = ()


def read(f: Callable[..., Any]) -> Signature:
    """Read a callable: a function of any kind, a bound method, a partial, an object with ``__call__``."""
    base, bound = _unbound(f)
    try:
        signature = inspect.signature(f)
    except (TypeError, ValueError) as error:
        fault = f"its signature cannot be read ({error}): wrap it in a function with annotations"
        return Signature(
            _name(f, base), "", (), MISSING, frozenset(), is_async=False, faults=(fault,)
        )
    faults: list[str] = []
    try:
        hints = _hints(base)
    except NameError as error:
        name = getattr(error, "name", None) or str(error)
        hints = {}
        faults.append(
            f"the annotation {name!r} is not defined: define or import it before the function"
        )
    except Exception as error:  # noqa: BLE001  (annotations are user code when they are strings)
        hints = {}
        faults.append(f"its annotations cannot be evaluated: {type(error).__name__}: {error}")
    parameters: list[inspect.Parameter] = []
    issues: list[str] = []
    # functools.singledispatch looks at the first argument by position, and refuses it by name
    dispatches = hasattr(base, "registry") and hasattr(base, "dispatch")
    for each in signature.parameters.values():
        if each.name in bound:
            continue
        if each.kind in {each.VAR_POSITIONAL, each.VAR_KEYWORD}:
            faults.append(_starred(each))
            continue
        annotation = hints.get(each.name, MISSING if not hints and faults else each.annotation)
        if annotation is MISSING and inspect.isbuiltin(
            base
        ):  # written in C: nobody can add annotations
            annotation = Any
            issues.append(f"the argument {each.name!r} has no annotation: the model reads (Any)")
        by_position = dispatches and not parameters and each.kind is each.POSITIONAL_OR_KEYWORD
        kind = each.POSITIONAL_ONLY if by_position else each.kind
        parameters.append(each.replace(annotation=annotation, kind=kind))
    if _is_method_without_object(base, parameters):
        faults[:] = [
            "it is a method without its object: add the object's method, or decorate the class too"
        ]
    is_async = any(check(each) for check in _ASYNC for each in (base, inspect.unwrap(base)))
    doc = (
        inspect.getdoc(f)
        if isinstance(f, functools.partial) and f.__doc__ != functools.partial.__doc__
        else None
    )
    return Signature(
        _name(f, base),
        doc or _doc(f, base),
        tuple(parameters),
        hints.get("return", MISSING),
        bound,
        is_async,
        tuple(faults),
        tuple(issues),
    )


_ASYNC = (inspect.iscoroutinefunction, inspect.isasyncgenfunction)


def _unbound(f: Any) -> tuple[Any, frozenset[str]]:
    """Return the function that holds name, hints and docstring, and the names that ``partial`` has bound."""
    bound: set[str] = set()
    while isinstance(f, functools.partial):
        try:
            names = list(inspect.signature(f.func).parameters)
        except (TypeError, ValueError):
            names = []
        bound |= {*names[: len(f.args)], *f.keywords}
        f = f.func
    if isinstance(f, (staticmethod, classmethod)):
        f = f.__func__
    if not inspect.isroutine(f) and not isinstance(f, type) and not hasattr(f, "__wrapped__"):
        f = f.__call__ if callable(f) else f
    return f, frozenset(bound)


def _name(f: Any, base: Any) -> str:
    for each in (f, base):
        name = getattr(each, "__name__", None)
        if isinstance(name, str) and name != "__call__":
            return name
    return type(f).__name__


def _doc(f: Any, base: Any) -> str:
    own = getattr(base, "__doc__", None)
    if isinstance(own, str) and own.strip():
        return own
    inherited = inspect.getdoc(base) if inspect.isroutine(base) else None
    described = (
        type(f).__doc__
        if not inspect.isroutine(f) and not isinstance(f, functools.partial)
        else None
    )
    return inherited or described or ""


def _hints(base: Any) -> dict[str, Any]:
    """Resolve the annotations, those written as strings against globals, closure and the defining scopes."""
    raw = getattr(base, "__annotations__", None) or {}
    if not any(isinstance(each, str) or "'" in repr(each) for each in raw.values()):
        return dict(typing.get_type_hints(base, include_extras=True)) if raw else {}
    function = inspect.unwrap(base)
    code, cells = getattr(function, "__code__", None), getattr(function, "__closure__", None)
    local: dict[str, Any] = {}
    for name, cell in zip(code.co_freevars if code else (), cells or (), strict=False):
        try:
            local[name] = cell.cell_contents
        except ValueError:  # the cell is not filled yet: the variable is assigned later
            continue
    local.update({each.__name__: each for each in getattr(function, "__type_params__", ())})
    while True:
        try:
            return dict(typing.get_type_hints(base, localns=local or None, include_extras=True))
        except NameError as error:
            name = getattr(error, "name", None) or ""
            found = _in_callers(name)
            if not name or name in local or found is MISSING:
                raise
            local[name] = found


def _in_callers(name: str) -> Any:
    """Find a type that is local to the function in which the tool is being defined."""
    frame = sys._getframe(1)  # noqa: SLF001  (the one way to see a scope that nothing has closed over)
    while frame is not None:
        if not frame.f_code.co_filename.startswith(_OURS) and name in frame.f_locals:
            return frame.f_locals[name]
        frame = frame.f_back  # type: ignore[assignment]
    return MISSING


def _starred(parameter: inspect.Parameter) -> str:
    star = "*" if parameter.kind is parameter.VAR_POSITIONAL else "**"
    return (
        f"{star}{parameter.name} cannot be described to a model: name each argument"
        " (a wrapper keeps its function's signature with functools.wraps)"
    )


def _is_method_without_object(base: Any, parameters: list[inspect.Parameter]) -> bool:
    if inspect.ismethod(base) or not parameters or parameters[0].name not in {"self", "cls"}:
        return False
    return is_in_class(base) and parameters[0].annotation is MISSING


def is_in_class(f: Any) -> bool:
    """Whether a function was defined in the body of a class."""
    outer = getattr(f, "__qualname__", "").rpartition(".")[0]
    return bool(outer) and not outer.endswith("<locals>")


def defined_at(f: Any) -> str:
    """Say where a callable was defined, or nothing where that is unknown."""
    code = getattr(inspect.unwrap(_unbound(f)[0]), "__code__", None)
    return f" (defined at line {code.co_firstlineno})" if code is not None else ""
