"""Rewrite an annotation into one that JSON can carry: what it cannot carry becomes a reference to a variable.

Speaks pydantic's protocol for annotations; ``schema.py`` alone builds and runs what comes out.
"""

from __future__ import annotations

import collections
import collections.abc
import datetime as dt
import math
import numbers
import sys
import types
import typing
from typing import Annotated, Any, Literal, get_args, get_origin

import typing_extensions
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema
from pydantic_core import core_schema

from archytas_nb.tools.reference import ByName, a, referred, resolve
from archytas_nb.tools.typetext import bare, enum_choices, is_union, type_text

_PLAIN = {
    str,
    int,
    float,
    bool,
    list,
    dict,
    tuple,
    set,
    frozenset,
    bytes,
    type(None),
    None,
    Any,
    object,
}
_LAZY = {collections.abc.Iterable, collections.abc.Collection, collections.abc.Reversible}


class Unusable(Exception):
    """An annotation that means nothing to the validator; the message says why."""


class UndefinedTypeError(Unusable):
    """A type with a field whose own type is not defined: a mistake, and no reason to pass it by reference."""


class JsonSchema(GenerateJsonSchema):
    """Describes types as JSON; what pydantic words in a way that no model could send, in ours."""

    def enum_schema(self, schema: Any) -> dict[str, Any]:
        """Name the members of an enum whose values JSON cannot carry."""
        choices = enum_choices(schema["cls"])
        if choices == [each.value for each in schema["members"]]:
            return super().enum_schema(schema)
        return {"type": "string", "enum": choices}

    def named_tuple_schema(self, schema: Any) -> dict[str, Any]:
        """Describe a named tuple by its fields, not by their number."""
        return self.kw_arguments_schema(schema["fields"], None)

    def arguments_schema(self, schema: Any) -> dict[str, Any]:
        """Do the same where pydantic still takes a named tuple for the arguments of a call."""
        return super().arguments_schema(dict(schema, metadata={}))  # type: ignore[arg-type]


class _Made:
    """Turns a validated value into a class of its own, such as ``pandas.Timestamp``."""

    def __init__(self, cls: Any) -> None:
        self.cls = cls

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        return core_schema.no_info_after_validator_function(self._make, handler(source))

    def _make(self, value: Any) -> Any:
        try:
            made = self.cls(value)
        except Exception as error:
            raise ValueError(f"expected {a(self.cls.__name__)}: {error}") from error
        if isinstance(value, float) and math.isfinite(value) and not math.isfinite(made):
            raise ValueError(f"expected a number that {a(self.cls.__name__)} can hold")
        return made


class Reference:
    """Marks a place of a type where the model names a variable instead of giving a value.

    Args:
        cls: What the variable must hold an instance of.
        label: How the type is written.
        explicit: Whether a bare name would be taken for text.
        whole: The type that JSON could carry too, where `cls` is only the outer part of it.
    """

    def __init__(
        self, cls: Any, label: str, *, explicit: bool, whole: TypeAdapter[Any] | None = None
    ) -> None:
        self.cls, self.label, self.explicit, self._whole = cls, label, explicit, whole

    def __get_pydantic_core_schema__(self, source: Any, handler: Any) -> Any:
        """Validate by looking the variable up; the namespace is the validation's context."""
        return core_schema.with_info_plain_validator_function(self._validate)

    def __get_pydantic_json_schema__(self, schema: Any, handler: Any) -> dict[str, Any]:
        """Say in words what to send."""
        words = f"the name of a variable that holds {a(self.label)}"
        if not self.explicit:
            return {"type": "string", "description": words}
        return {
            "type": "object",
            "description": words,
            "properties": {"$var": {"type": "string", "description": words}},
            "required": ["$var"],
            "additionalProperties": False,
        }

    def _validate(self, value: Any, info: Any) -> Any:
        if self.explicit and isinstance(value, str):
            raise ValueError(
                f'expected {{"$var": "the name of a variable that holds {a(self.label)}"}}'
            )
        if (
            self._whole is not None
            and info.mode == "json"
            and not isinstance(value, str)
            and not referred(value)
        ):
            raise ValueError(f"expected the name of a variable that holds {a(self.label)}")
        found = resolve(value, self.cls, info.context, label=self.label)
        if self._whole is not None:
            try:
                self._whole.validate_python(found, strict=True)
            except ValidationError:
                raise ValueError(f"the variable {value!r} does not hold {a(self.label)}") from None
        return found


def portable(annotation: Any) -> tuple[Any, tuple[Reference, ...]]:
    """Rewrite an annotation.

    Returns:
        The annotation to validate with, and the parts of it that are passed by reference.

    Raises:
        Unusable: The annotation is no type.
    """
    rewriter = _Rewriter()
    return rewriter.rewrite(annotation), tuple(rewriter.references)


class _Rewriter:
    def __init__(self) -> None:
        self.references: list[Reference] = []
        self._typed_dicts: dict[Any, Any] = {}

    def rewrite(self, annotation: Any, *, beside_text: bool = False) -> Any:
        origin, args = get_origin(annotation), get_args(annotation)
        if _is_plain(annotation) or origin is Literal:
            return annotation
        if origin is Annotated:
            return self._annotated(args[0], annotation.__metadata__, beside_text)
        if is_union(annotation):
            text = str in args
            return typing.Union[tuple(self.rewrite(each, beside_text=text) for each in args)]  # noqa: UP007  (of any number)
        if origin is collections.abc.Callable or annotation is collections.abc.Callable:
            return self._reference(collections.abc.Callable, "function", beside_text)
        if (
            origin or annotation
        ) in _LAZY:  # pydantic would validate these only while they are read
            return list[(self.rewrite(args[0]) if args else Any,)]  # type: ignore[misc]
        if typing_extensions.is_typeddict(annotation):
            return self._typed_dict(annotation)
        if origin is not None and args and isinstance(origin, type):
            return self._generic(annotation, origin, args, beside_text)
        if _carried(annotation):
            # Before 2.11 pydantic did not say of a bare Counter that its values are whole numbers.
            return collections.Counter[Any] if annotation is collections.Counter else annotation
        return self._class(annotation, beside_text)

    def _class(self, annotation: Any, beside_text: bool) -> Any:  # noqa: FBT001
        if not isinstance(annotation, type):
            raise Unusable(f"{annotation!r} is no type that can be checked")
        base = _scalar_base(annotation)
        if base is not None:
            return Annotated[base, _Made(annotation)]
        return self._reference(annotation, type_text(annotation), beside_text)

    def _generic(
        self,
        annotation: Any,
        origin: Any,
        args: tuple[Any, ...],
        beside_text: bool,  # noqa: FBT001
    ) -> Any:
        rewritten = tuple(each if each is ... else self.rewrite_quietly(each) for each in args)
        if any(each is None for each in rewritten):
            return self._reference(origin, type_text(annotation), beside_text)
        same = all(a is b for a, b in zip(args, rewritten, strict=True))
        candidate = annotation if same else origin[rewritten]
        if _carried(candidate):
            return candidate
        return self._reference(origin, type_text(annotation), beside_text)

    def rewrite_quietly(self, annotation: Any) -> Any:
        try:
            return self.rewrite(annotation)
        except UndefinedTypeError:
            raise
        except (
            Unusable
        ):  # a parameter of a class that JSON cannot carry anyhow, such as ndarray's shape
            return None

    def _reference(
        self,
        cls: Any,
        label: str,
        beside_text: bool,  # noqa: FBT001
        whole: TypeAdapter[Any] | None = None,
    ) -> Any:
        self.references.append(Reference(cls, label, explicit=beside_text, whole=whole))
        return Annotated[Any, self.references[-1]]

    def _annotated(self, annotation: Any, metadata: tuple[Any, ...], beside_text: bool) -> Any:  # noqa: FBT001
        if not any(each is ByName or isinstance(each, ByName) for each in metadata):
            return Annotated[(self.rewrite(annotation, beside_text=beside_text), *metadata)]
        inner = bare(annotation)
        cls = get_origin(inner) or inner
        if (
            not isinstance(cls, type)
            or cls is Any
            or is_union(inner)
            or typing_extensions.is_typeddict(cls)
        ):
            cls = object  # no class of its own: the whole type decides
        whole = TypeAdapter(_Rewriter().rewrite(annotation))
        return self._reference(cls, type_text(annotation), beside_text, whole)

    def _typed_dict(self, source: Any) -> Any:
        """Rebuild a ``typing.TypedDict``: before Python 3.12 it forgets what pydantic must know."""
        if source in self._typed_dicts:
            return self._typed_dicts[source]
        try:
            hints = typing.get_type_hints(source, include_extras=True)
        except NameError as error:
            raise _undefined(source, error) from error
        presence = {
            name: typing.Required if name in source.__required_keys__ else typing.NotRequired
            for name in hints
        }
        made = typing_extensions.TypedDict(  # type: ignore[misc]
            source.__name__, {name: present[Any] for name, present in presence.items()}
        )
        made.__doc__, made.__module__ = source.__doc__, source.__module__
        self._typed_dicts[source] = made  # before its fields: it may contain itself
        for name, hint in hints.items():
            inner = (
                get_args(hint)[0]
                if get_origin(hint) in {typing.Required, typing.NotRequired}
                else hint
            )
            made.__annotations__[name] = presence[name][self.rewrite(inner)]
        return made


def _is_plain(annotation: Any) -> bool:
    try:
        return annotation in _PLAIN
    except TypeError:
        return False


def _carried(annotation: Any) -> bool:
    """Whether pydantic can both validate the type and describe it as JSON."""
    try:
        TypeAdapter(annotation).json_schema(schema_generator=JsonSchema)
    except NameError as error:
        raise _undefined(annotation, error) from error
    except PydanticUserError as error:
        if error.code == "class-not-fully-defined":
            raise _undefined(annotation, error) from error
        return False
    except (TypeError, AttributeError):
        return False
    return True


def _undefined(annotation: Any, error: Exception) -> UndefinedTypeError:
    """Name the field whose type is not defined, at whatever depth it is."""
    found = list(_undefined_fields(annotation, set()))
    for cls, field, name in [*(each for each in found if each[2] in str(error)), *found]:
        return UndefinedTypeError(
            f"the field {field!r} of {cls.__name__!r} has the type {name!r}, which is not defined:"
            " define or import it before the function"
        )
    return UndefinedTypeError(str(error).split("\n", 1)[0])


def _undefined_fields(
    annotation: Any, seen: set[Any]
) -> collections.abc.Iterator[tuple[type, str, str]]:
    """Yield the fields in a type whose own types cannot be resolved: class, field and the missing name."""
    for each in get_args(annotation):
        yield from _undefined_fields(each, seen)
    if not isinstance(annotation, type) or annotation in seen:
        return
    seen.add(annotation)
    scope = vars(sys.modules.get(annotation.__module__, typing))
    for field, hint in vars(annotation).get("__annotations__", {}).items():
        holder = types.SimpleNamespace(__annotations__={field: hint})
        try:
            hints = typing.get_type_hints(
                holder, scope, {annotation.__name__: annotation}, include_extras=True
            )
        except NameError as error:
            yield annotation, field, str(error.name)
        except Exception:  # noqa: BLE001, S112  (annotations are user code; pydantic's words stand)
            continue
        else:
            yield from _undefined_fields(hints[field], seen)


def _scalar_base(cls: type) -> Any:
    """Return the plain type that JSON can carry and that a class of text, numbers or dates is made from."""
    for base in (str, int, float, dt.datetime, dt.date, dt.time, dt.timedelta):
        if issubclass(cls, base):
            return base
    if cls.__module__ != "numpy":
        return None
    if issubclass(cls, numbers.Integral):
        return int
    if issubclass(cls, numbers.Real):
        return float
    return {
        "bool_": bool,
        "bool": bool,
        "datetime64": dt.datetime,
        "timedelta64": dt.timedelta,
    }.get(cls.__name__)
