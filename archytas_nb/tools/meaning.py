"""Read the annotations of a function, and find what an annotation stands for.

A name in an annotation may be undefined, and an alias may contain itself. Nothing here raises
because of that, or follows an alias for ever: whatever walks through types starts here.
"""

from __future__ import annotations

import ast
import inspect
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import typing_extensions

if sys.version_info >= (3, 14):
    import annotationlib

_QUALIFIERS = {
    getattr(module, name)
    for module in (typing, typing_extensions)
    for name in ("Required", "NotRequired", "ReadOnly", "Final", "ClassVar")
    if hasattr(module, name)
}
_UNPACK = {typing.Unpack, typing_extensions.Unpack}
_NO_DEFAULT = typing_extensions.NoDefault
_END: Any = object()  # an annotation that stands for nothing but itself


# ── reading ───────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class Unevaluated:
    """Replaces an annotation that cannot be evaluated; says why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Rest:
    """The annotation of ``**others``: what the arguments without a parameter of their own are."""

    annotation: Any


def signature_of(f: Callable[..., Any]) -> inspect.Signature:
    """The signature of a callable, in which undefined names are not an error.

    Raises:
        TypeError, ValueError: Python cannot read it.
    """
    if sys.version_info >= (3, 14):
        return inspect.signature(f, annotation_format=annotationlib.Format.FORWARDREF)
    return inspect.signature(f)


def raw_annotations(thing: Any) -> dict[str, Any]:
    """The annotations of a function or a class as they are written, also with undefined names.

    `%autoreload` may replace the code of a function alone. Its annotations then have the names of
    the old one, and those in its file count.
    """
    found = _own_annotations(thing)
    is_plain = inspect.isfunction(thing) and not hasattr(thing, "__wrapped__")
    if is_plain and not found.keys() <= {*_names_of(thing), "return"}:
        return _annotations_in_source(thing) or found
    return found


def _own_annotations(thing: Any) -> dict[str, Any]:
    if sys.version_info >= (3, 14):
        try:
            return annotationlib.get_annotations(thing, format=annotationlib.Format.FORWARDREF)
        except TypeError:  # an object that can have none
            return {}
    return dict(getattr(thing, "__annotations__", None) or {})


def _names_of(function: types.FunctionType) -> tuple[str, ...]:
    """The names of all parameters in the code of a function."""
    code = function.__code__
    starred = bool(code.co_flags & inspect.CO_VARARGS) + bool(
        code.co_flags & inspect.CO_VARKEYWORDS
    )
    return code.co_varnames[: code.co_argcount + code.co_kwonlyargcount + starred]


def _annotations_in_source(function: types.FunctionType) -> dict[str, str] | None:
    """The annotations in the file of a function, as texts; None if they are not found there."""
    try:
        module = sys.modules[function.__module__]
        found: Any = ast.parse(Path(str(module.__file__)).read_text("utf-8"))
        for name in function.__qualname__.split("."):
            found = [each for each in found.body if getattr(each, "name", None) == name][-1]
        given = found.args
    except (KeyError, AttributeError, IndexError, OSError, ValueError, SyntaxError):
        return None
    every = (*given.posonlyargs, *given.args, given.vararg, *given.kwonlyargs, given.kwarg)
    arguments = [each for each in every if each is not None]
    if {each.arg for each in arguments} != set(_names_of(function)):
        return None
    written = {each.arg: ast.unparse(each.annotation) for each in arguments if each.annotation}
    if found.returns is not None:
        written["return"] = ast.unparse(found.returns)
    return written


def evaluated(annotations: Mapping[str, Any], *owners: Any) -> dict[str, Any]:
    """The annotations with their strings evaluated; `Unevaluated` for each that cannot be.

    Args:
        annotations: As they are written.
        owners: The functions in whose modules names are looked up, the first one first.
    """
    return {name: _evaluated(each, owners) for name, each in annotations.items()}


def _evaluated(annotation: Any, owners: tuple[Any, ...]) -> Any:
    if isinstance(annotation, type) or annotation is inspect.Parameter.empty:
        return annotation

    def carrier() -> None: ...

    carrier.__annotations__ = {"it": annotation}
    scopes = [getattr(_innermost(each), "__globals__", {}) for each in owners] or [{}]
    parameters = [getattr(_innermost(each), "__type_params__", ()) for each in owners]
    local = {each.__name__: each for found in parameters for each in found}
    try:
        hints = typing.get_type_hints(
            carrier, scopes[-1], {**scopes[0], **local}, include_extras=True
        )
    except NameError as error:
        name = getattr(error, "name", None) or str(error)
        return Unevaluated(f"{name!r} is not defined: define or import it before the function")
    except Exception as error:  # noqa: BLE001  (evaluating annotations runs the user's code)
        return Unevaluated(f"evaluating it raises {type(error).__name__}: {error}")
    return hints["it"]


def _innermost(f: Any) -> Any:
    """The function that others wrap, whose module its annotations were written in."""
    try:
        f = inspect.unwrap(f)
    except ValueError:  # wrappers in a circle
        return f
    return getattr(f, "__func__", f)


# ── what an annotation stands for ─────────────────────────────────────────────────────────────────


def is_alias(annotation: Any) -> bool:
    """Whether an annotation is a name made by ``type X = …``, also ``X[int]``."""
    return type(_alias(annotation)).__name__ == "TypeAliasType"


def _alias(annotation: Any) -> Any:
    return get_origin(annotation) or annotation


def alias_value(annotation: Any) -> Any:
    """The type that an alias names.

    Raises:
        NameError: A name in it is not defined.
        Exception: Whatever evaluating it raises.
    """
    value = _alias(annotation).__value__
    parameters = getattr(_alias(annotation), "__type_params__", ())
    return substituted(value, dict(zip(parameters, get_args(annotation), strict=False)))


def substituted(annotation: Any, given: Mapping[Any, Any]) -> Any:
    """An annotation with types in the place of its type variables."""
    if not given:
        return annotation
    if isinstance(annotation, TypeVar):
        return given.get(annotation, annotation)
    variables = getattr(annotation, "__parameters__", ())
    if not variables:
        return annotation
    return annotation[tuple(given.get(each, each) for each in variables)]


def stands_for(annotation: Any) -> Any:
    """The type inside an annotation's outer wrapper; the annotation itself if it has none."""
    step = _step(annotation)
    return annotation if step is _END else step


def _step(annotation: Any) -> Any:
    origin = get_origin(annotation)
    if origin is Annotated or origin in _QUALIFIERS:
        return get_args(annotation)[0]
    if isinstance(annotation, typing.NewType):
        return annotation.__supertype__
    if is_alias(annotation):
        try:
            return alias_value(annotation)
        except Exception:  # noqa: BLE001  (evaluating it runs the user's code)
            return _END
    if isinstance(annotation, (TypeVar, typing_extensions.TypeVar)):
        return _of_variable(annotation)
    return _END


def _of_variable(variable: Any) -> Any:
    """All that a type variable may be: within its bound, one of its constraints, or its default."""
    default = getattr(variable, "__default__", _NO_DEFAULT)
    if variable.__bound__ is not None:
        return variable.__bound__
    if variable.__constraints__:
        return Union[variable.__constraints__]  # noqa: UP007
    return Any if default is _NO_DEFAULT or default is None else default


def parts_of(annotation: Any) -> Iterator[Any]:
    """All that an annotation is made of; of each alias, its value once."""
    seen: set[Any] = set()
    todo = [annotation]
    while todo:
        each = todo.pop()
        yield each
        if isinstance(each, list):  # the parameters of a Callable
            todo += each
        elif is_alias(each):
            todo += get_args(each)
            if _alias(each) not in seen:
                seen.add(_alias(each))
                todo.append(_step(each))
        elif _step(each) is not _END:
            todo.append(_step(each))
        elif get_origin(each) is not Literal:
            todo += get_args(each)


def names_itself(annotation: Any) -> bool:
    """Whether an annotation is an alias whose value contains it."""
    if not is_alias(annotation):
        return False
    own = _alias(annotation)
    return any(_alias(each) is own for each in parts_of(_step(annotation)))


def is_endless(annotation: Any) -> bool:
    """Whether an alias in it is one of its own alternatives: ``type X = X | int``."""
    return any(
        is_alias(each) and any(_alias(other) is _alias(each) for other in layers(_step(each)))
        for each in parts_of(annotation)
    )


def has_quoted_names(annotation: Any) -> bool:
    """Whether a part is a string, which is looked up where the annotation was written."""
    return any(isinstance(each, (str, typing.ForwardRef)) for each in parts_of(annotation))


def inner_type(annotation: Any) -> Any:
    """The type inside ``Annotated``, ``NewType``, ``Required`` and ``type X = …``.

    An alias that contains itself, or that cannot be evaluated, stands for itself.
    """
    return _unwrapped(annotation)[0]


def metadata(annotation: Any) -> tuple[Any, ...]:
    """All that ``Annotated`` says of a type, the outermost last."""
    return _unwrapped(annotation)[1]


def _unwrapped(annotation: Any) -> tuple[Any, tuple[Any, ...]]:
    found: tuple[Any, ...] = ()
    while not names_itself(annotation):
        step = _step(annotation)
        if step is _END:
            break
        if get_origin(annotation) is Annotated:
            found = (*annotation.__metadata__, *found)
        annotation = step
    return annotation, found


def is_union(annotation: Any) -> bool:
    """Whether an annotation is ``X | Y``, ``Union`` or ``Optional``."""
    return get_origin(annotation) in {Union, types.UnionType}


def layers(annotation: Any) -> Iterator[Any]:
    """An annotation, what it stands for, and the branches of its unions, wherever they are."""
    seen: set[Any] = set()
    todo = [annotation]
    while todo:
        each = todo.pop(0)
        if is_alias(each):
            if _alias(each) in seen:
                continue
            seen.add(_alias(each))
        yield each
        if is_union(each):
            todo += get_args(each)
        elif _step(each) is not _END:
            todo.append(_step(each))


# ── typed dicts ───────────────────────────────────────────────────────────────────────────────────


class Field(NamedTuple):
    """A field of a TypedDict."""

    annotation: Any  # without qualifiers
    required: bool


def typed_dict_fields(annotation: Any) -> dict[str, Field]:
    """The fields of a TypedDict, also of a generic one with its types; raises NameError."""
    source = get_origin(annotation) or annotation
    given = dict(zip(getattr(source, "__parameters__", ()), get_args(annotation), strict=False))
    required = source.__required_keys__
    fields = {}
    for name, hint in typing.get_type_hints(source, include_extras=True).items():
        # In annotations that are strings, Python has not seen the qualifiers.
        qualifiers = {getattr(get_origin(each), "_name", "") for each in layers(hint)}
        is_required = name in required
        if "Required" in qualifiers or "NotRequired" in qualifiers:
            is_required = "Required" in qualifiers
        fields[name] = Field(substituted(_without_qualifiers(hint), given), is_required)
    return fields


def extra_items(source: Any) -> Any:
    """The type of the fields that a TypedDict does not name; None if it says nothing of them."""
    found = getattr(source, "__extra_items__", None)
    if found is None or found is getattr(typing_extensions, "NoExtraItems", None):
        return None
    found = _without_qualifiers(found)
    return None if found in (typing.Never, typing.NoReturn, typing_extensions.Never) else found


def _without_qualifiers(annotation: Any) -> Any:
    """``int`` for ``NotRequired[ReadOnly[int]]``, also inside ``Annotated``."""
    if get_origin(annotation) in _QUALIFIERS:
        return _without_qualifiers(get_args(annotation)[0])
    if get_origin(annotation) is Annotated:
        inner = _without_qualifiers(get_args(annotation)[0])
        return Annotated[(inner, *annotation.__metadata__)]
    return annotation


def unpacked(annotation: Any) -> Any:
    """The TypedDict in ``Unpack[…]``, which describes ``**keywords``; None for anything else."""
    if get_origin(annotation) not in _UNPACK:
        return None
    inner = inner_type(get_args(annotation)[0])
    return inner if typing_extensions.is_typeddict(_alias(inner)) else None
