"""How a type is written for the model: ``list[str]``, ``int | str``, ``Literal['a', 'b']``. Knows typing only."""

from __future__ import annotations

import collections.abc
import enum
import types
import typing
from typing import Annotated, Any, Literal, Union, get_args, get_origin

SIMPLE = (str, int, float, bool)
"""Types whose single argument is sent bare, without an object around it."""


def bare(annotation: Any) -> Any:
    """Return the type under ``Annotated``, ``NewType`` and ``type X = …``."""
    while True:
        if get_origin(annotation) is Annotated:
            annotation = get_args(annotation)[0]
        elif isinstance(annotation, typing.NewType):
            annotation = annotation.__supertype__
        elif type(annotation).__name__ == "TypeAliasType":
            annotation = annotation.__value__
        else:
            return annotation


def is_simple(annotation: Any) -> bool:
    """Whether a single argument of this type is sent as the bare value."""
    return bare(annotation) in SIMPLE if isinstance(bare(annotation), type) else False


def is_union(annotation: Any) -> bool:
    """Whether the type is ``A | B`` or ``Optional[A]``, however it was spelled."""
    return get_origin(annotation) in {Union, types.UnionType}


def admits_none(annotation: Any) -> bool:
    """Whether None is itself a value of the type, so that null is not merely "left out"."""
    inner = bare(annotation)
    if inner is None or inner is type(None) or inner is Any or inner is object:
        return True
    if is_union(inner):
        return any(admits_none(each) for each in get_args(inner))
    return get_origin(inner) is Literal and None in get_args(inner)


def type_text(annotation: Any) -> str:
    """Write a type in the words of the text protocol.

    Args:
        annotation: A resolved annotation.

    Returns:
        One line, free of module names and of memory addresses.
    """
    inner = bare(annotation)
    origin, args = get_origin(inner), get_args(inner)
    if inner is None or inner is type(None):
        return "None"
    if is_union(inner):
        return " | ".join(dict.fromkeys(type_text(each) for each in args))
    if origin is Literal:
        return f"Literal[{', '.join(_literal(each) for each in args)}]"
    if origin is collections.abc.Callable:
        return "Callable"
    if origin is not None and args:
        return f"{_name(origin)}[{', '.join('...' if each is ... else type_text(each) for each in args)}]"
    if isinstance(inner, type) and issubclass(inner, enum.Enum) and len(inner):
        return f"Literal[{', '.join(repr(each) for each in enum_choices(inner))}]"
    return _name(origin or inner)


def enum_choices(cls: type[enum.Enum]) -> list[Any]:
    """Return what stands for the members of an enum in JSON: their values, or else their names."""
    values = [member.value for member in cls]
    return (
        values
        if all(isinstance(each, (str, int, float)) for each in values)
        else list(cls.__members__)
    )


def _literal(value: Any) -> str:
    return repr(value.value if isinstance(value, enum.Enum) else value)


def _name(thing: Any) -> str:
    if isinstance(thing, str):
        return thing
    for attribute in ("__name__", "__forward_arg__", "_name"):
        name = getattr(thing, attribute, None)
        if isinstance(name, str):
            return name
    return str(thing).rsplit(".", 1)[-1]
