"""Turn an annotation into a type that pydantic can validate and a type name for the model.

A type that JSON cannot represent, such as a data frame, becomes a reference to a variable.
"""

from __future__ import annotations

import collections
import collections.abc
import datetime as dt
import enum
import math
import numbers
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NamedTuple, TypeVar, Union, get_args, get_origin

import typing_extensions
from pydantic import AfterValidator, PlainValidator, TypeAdapter, WithJsonSchema
from pydantic.errors import PydanticUserError
from pydantic.json_schema import GenerateJsonSchema

from archytas_nb.loop.events import VAR
from archytas_nb.tools.meaning import (
    alias_value,
    extra_items,
    has_quoted_names,
    inner_type,
    is_alias,
    is_endless,
    is_union,
    layers,
    names_itself,
    stands_for,
    typed_dict_fields,
)
from archytas_nb.tools.paths import NoPartError
from archytas_nb.tools.variables import ByName, by_name, reference_name, resolve
from archytas_nb.words import with_article

_LAZY = {collections.abc.Iterable, collections.abc.Collection, collections.abc.Reversible}
_SCALARS = (str, int, float, dt.datetime, dt.date, dt.time, dt.timedelta)
_NUMPY = {"bool": bool, "bool_": bool, "datetime64": dt.datetime, "timedelta64": dt.timedelta}

ENUM = "x-enum"
"""The key of an enum's class in a schema; it is removed before the model sees the schema."""
ALSO = "x-also"
"""The key of the further names of fields, by which pydantic reads them too; it is removed, too."""


class NotPassed(ValueError):
    """An argument by reference names no variable that may be passed; in our words."""


class Unusable(Exception):
    """An annotation that cannot be validated; the message says why."""


class FaultyTypeError(Unusable):
    """A type that is meant to be sent is faulty: an error, not a type to pass by reference."""


def _undefined(error: NameError) -> FaultyTypeError:
    return FaultyTypeError(
        f"a field in it has the type {error.name!r}, which is not defined:"
        " define or import it before the function"
    )


# ── type names ────────────────────────────────────────────────────────────────────────────────────


def is_simple(annotation: Any) -> bool:
    """Whether an only argument of this type is sent as the value itself, not as an object."""
    inner = inner_type(annotation)
    return isinstance(inner, type) and inner in (str, int, float, bool)


def admits_none(annotation: Any) -> bool:
    """Whether None is a value of the type, so that null does not mean an omitted argument."""
    return any(
        each in (None, type(None), Any, object)
        or (get_origin(each) is Literal and None in get_args(each))
        for each in layers(annotation)
    )


def type_text(annotation: Any) -> str:
    """Write a type as the model reads it: ``list[str]``, ``int | str``, ``Literal['a', 'b']``."""
    inner = inner_type(annotation)
    origin = get_origin(inner)
    args = get_args(inner)
    if inner is None or inner is type(None):
        return "None"
    if is_union(inner):
        return " | ".join(dict.fromkeys(type_text(each) for each in args))
    if is_alias(inner):
        return _name(origin or inner)
    # The model sends a choice as JSON, and never needs the name of the class.
    if isinstance(inner, type) and issubclass(inner, enum.Enum) and len(inner):
        origin = Literal
        args = tuple(enum_choices(inner))
    if origin is Literal:
        choices = (each.value if isinstance(each, enum.Enum) else each for each in args)
        return f"Literal[{', '.join(map(repr, choices))}]"
    if origin is Callable:
        return "Callable"
    if origin is not None and args:
        inside = ("..." if each is ... else type_text(each) for each in args)
        return f"{_name(origin)}[{', '.join(inside)}]"
    return _name(origin or inner)


def enum_choices(cls: type[enum.Enum]) -> list[Any]:
    """The members of an enum in JSON: their values, or their names if `is_by_name`."""
    if is_by_name(cls):
        return list(cls.__members__)
    return [member.value for member in cls]


def is_by_name(cls: type[enum.Enum]) -> bool:
    """Whether members are sent by name, because JSON cannot represent all of their values."""
    return not all(isinstance(member.value, (str, int, float)) for member in cls)


def _name(thing: Any) -> str:
    if isinstance(thing, str):
        return thing
    for attribute in ("__name__", "__forward_arg__", "_name"):
        name = getattr(thing, attribute, None)
        if isinstance(name, str):
            return name
    return str(thing).rsplit(".", 1)[-1]


# ── for pydantic ──────────────────────────────────────────────────────────────────────────────────


class JsonSchema(GenerateJsonSchema):
    """Describes a few types to a model better than pydantic does."""

    def enum_schema(self, schema: Any) -> dict[str, Any]:
        """List the names of the members if JSON cannot represent their values."""
        cls = schema["cls"]
        if is_by_name(cls):
            return {"type": "string", "enum": list(cls.__members__), ENUM: cls}
        described = super().enum_schema(schema)
        if "enum" in described:  # a second name of a member is not a second value
            described["enum"] = [*{(type(each), each): each for each in described["enum"]}.values()]
        return {**described, ENUM: cls}

    def named_tuple_schema(self, schema: Any) -> dict[str, Any]:
        """Describe a named tuple as an object with its fields, not as an array."""
        return self.kw_arguments_schema(schema["fields"], None)

    def arguments_schema(self, schema: Any) -> dict[str, Any]:
        """Describe a named tuple in older pydantic versions, which treat it as call arguments."""
        return super().arguments_schema(dict(schema, metadata={}))  # type: ignore[arg-type]

    def model_fields_schema(self, schema: Any) -> dict[str, Any]:
        """Describe each field by a name that a model can send."""
        fields = {name: _sendable(name, each) for name, each in schema["fields"].items()}
        changed: Any = {**schema, "fields": fields}
        return _also_named(super().model_fields_schema(changed), schema["fields"])

    def model_schema(self, schema: Any) -> dict[str, Any]:
        """Keep the names of the fields that have an alias, where pydantic reads them too."""
        described = super().model_schema(schema)
        config = schema.get("config", {})
        if not (config.get("populate_by_name") or config.get("validate_by_name")):
            return described
        inner = schema["schema"]
        while "schema" in inner:  # a validator of the model
            inner = inner["schema"]
        return _also_named(described, inner.get("fields", {}), by_name=True)

    def dataclass_args_schema(self, schema: Any) -> dict[str, Any]:
        """Leave out the fields that the class sets itself."""
        given = {each["name"]: each for each in schema["fields"] if each.get("init", True)}
        fields = [_sendable(name, each) for name, each in given.items()]
        changed: Any = {**schema, "fields": fields}
        return _also_named(super().dataclass_args_schema(changed), given)


def _also_named(
    described: dict[str, Any], fields: Mapping[str, Any], *, by_name: bool = False
) -> dict[str, Any]:
    """The schema of an object with the further names by which pydantic reads its fields."""
    others: dict[str, str] = dict(described.get(ALSO, {}))
    for name, each in fields.items():
        first, *more = _names_sent(name, each) or [name]
        if by_name and first != name:
            more.append(name)
        others |= dict.fromkeys(more, first)
    return {**described, ALSO: others} if others else described


def _names_sent(name: str, field: Any) -> list[str]:
    """The names by which pydantic reads a field, without paths into other fields."""
    alias = field.get("validation_alias", name)
    if isinstance(alias, str):
        return [alias]
    paths = alias if isinstance(alias[0], list) else [alias]
    return [path[0] for path in paths if len(path) == 1]


def _sendable(name: str, field: Any) -> Any:
    """A field with one name; raises FaultyTypeError if it is read by paths only."""
    names = _names_sent(name, field)
    if not names:
        raise FaultyTypeError(
            f"its field {name!r} is read by a path into other fields (AliasPath), which has no "
            f"name that a model could send: write AliasChoices({name!r}, AliasPath(…))"
        )
    if isinstance(field.get("validation_alias", ""), str):
        return field
    return {**field, "validation_alias": names[0]}


def _conversion(cls: Any) -> AfterValidator:
    """A validator that converts a value to a class such as ``pandas.Timestamp``."""

    def convert(value: Any) -> Any:
        try:
            converted = cls(value)
        except Exception as error:
            raise ValueError(f"expected {with_article(cls.__name__)}: {error}") from error
        if isinstance(value, float) and math.isfinite(value) and not math.isfinite(converted):
            raise ValueError(f"expected a number that {with_article(cls.__name__)} can hold")
        return converted

    return AfterValidator(convert)


class Reference(NamedTuple):
    """A part of a type for which the model sends the name of a variable instead of a value."""

    label: str  # the type's name
    explicit: bool  # whether {"$var": name} is required, because a string would be a valid value


class Rewriter:
    """Rewrites one annotation, and collects the parts of it that are passed by reference."""

    def __init__(self) -> None:
        self.references: list[Reference] = []
        self._typed_dicts: dict[Any, Any] = {}

    def rewrite(self, annotation: Any, *, accepts_str: bool = False) -> Any:
        """Return the type to validate with; raises Unusable if the annotation is not a type."""
        origin = get_origin(annotation)
        args = get_args(annotation)
        if origin is Annotated:
            return self._annotated(args[0], annotation.__metadata__, accepts_str=accepts_str)
        if is_alias(annotation):
            return self._alias(annotation, accepts_str=accepts_str)
        if isinstance(annotation, (typing.NewType, TypeVar, typing_extensions.TypeVar)):
            return self.rewrite(stands_for(annotation), accepts_str=accepts_str)
        if is_union(annotation):
            inside = tuple(self.rewrite(each, accepts_str=str in args) for each in args)
            return Union[inside]  # noqa: UP007
        if origin is Callable or annotation is Callable:
            return self._reference(Callable, "function", explicit=accepts_str)
        if isinstance(annotation, (list, dict, set)):
            kind = type(annotation).__name__
            raise Unusable(f"{annotation!r} is a {kind}, not a type: write {kind}[…]")
        if (origin or annotation) in _LAZY:  # pydantic would validate these lazily
            item = self.rewrite(args[0]) if args else Any
            return types.GenericAlias(list, (item,))
        if typing_extensions.is_typeddict(origin or annotation):
            return self._typed_dict(annotation)
        return self._class(annotation, accepts_str=accepts_str)

    def _alias(self, annotation: Any, *, accepts_str: bool) -> Any:
        """The type that an alias names, or the alias if it contains itself: pydantic follows it."""
        is_whole = names_itself(annotation)
        if is_whole and is_endless(annotation):
            raise FaultyTypeError(
                f"the alias {type_text(annotation)!r} is, or contains, one of its own alternatives:"
                " remove it from them"
            )
        if (is_whole or has_quoted_names(annotation)) and _is_supported(annotation):
            return annotation
        if is_whole:
            raise FaultyTypeError(
                f"the alias {type_text(annotation)!r} contains itself and something that JSON "
                "cannot represent: use a class, or pass it by name with Annotated[…, nb.ByName]"
            )
        try:
            value = alias_value(annotation)
        except NameError as error:
            raise _undefined(error) from error
        except Exception as error:
            what = f"{type(error).__name__}: {error}"
            raise FaultyTypeError(
                f"the alias {type_text(annotation)!r} cannot be evaluated ({what}): correct it"
            ) from error
        return self.rewrite(value, accepts_str=accepts_str)

    def _class(self, annotation: Any, *, accepts_str: bool) -> Any:
        """A class as pydantic validates it, as it can be made from a scalar, or by reference."""
        origin = get_origin(annotation)
        args = get_args(annotation)
        rewritten = annotation
        if isinstance(origin, type) and args:
            rewritten = self._generic(annotation)
        if rewritten is not None and _is_supported(rewritten):
            # Before 2.11, pydantic's schema of a plain Counter lacked the type of its values.
            is_plain = annotation is collections.Counter
            return collections.Counter[Any] if is_plain else rewritten
        cls = origin or annotation
        if not isinstance(cls, type):
            raise Unusable(
                f"{annotation!r} is not a type that can be checked; expected a class or a type of "
                "typing, such as list[str]"
            )
        if not args:
            base = _scalar_base(cls)
            if base is not None:
                return Annotated[base, _conversion(cls)]
        return self._reference(cls, type_text(annotation), explicit=accepts_str)

    def _generic(self, annotation: Any) -> Any:
        """A generic type with its parameters rewritten; None if one of them is not a type."""
        args = get_args(annotation)
        try:
            inside = tuple(each if each is ... else self.rewrite(each) for each in args)
        except FaultyTypeError:
            raise
        except Unusable:  # a parameter that is not a type, such as the shape of an ndarray
            return None
        same = all(one is other for one, other in zip(args, inside, strict=True))
        if same:
            return annotation
        return get_origin(annotation)[inside]

    def _reference(
        self, cls: Any, label: str, *, explicit: bool, takes_objects: bool = True
    ) -> Any:
        """A type that looks up a variable in the namespace, which is the validation context."""
        description = by_name(with_article(label))

        def look_up(value: Any, info: Any) -> Any:
            if explicit and isinstance(value, str):
                raise NotPassed(f'expected {{"$var": "{description}"}}')
            if not (takes_objects or isinstance(value, str) or reference_name(value)):
                raise NotPassed(f"expected {description}")
            try:
                return resolve(value, cls, info.context, label)
            except NoPartError:  # its message may hold keys, which are values
                raise
            except ValueError as error:
                raise NotPassed(str(error)) from None

        schema: dict[str, Any] = {"type": "string", "description": description}
        if explicit:
            schema = {
                "type": "object",
                "description": description,
                "properties": {VAR: schema},
                "required": [VAR],
                "additionalProperties": False,
            }
        self.references.append(Reference(label, explicit))
        return Annotated[Any, PlainValidator(look_up), WithJsonSchema(schema)]

    def _annotated(self, annotation: Any, metadata: tuple[Any, ...], *, accepts_str: bool) -> Any:
        if not any(each is ByName or isinstance(each, ByName) for each in metadata):
            return Annotated[(self.rewrite(annotation, accepts_str=accepts_str), *metadata)]
        inner = inner_type(annotation)
        cls = get_origin(inner) or inner
        is_class = isinstance(cls, type) and cls is not Any and not is_union(inner)
        if not is_class or typing_extensions.is_typeddict(cls):
            cls = object  # isinstance does not support it
        label = type_text(annotation)
        return self._reference(cls, label, explicit=accepts_str, takes_objects=False)

    def _typed_dict(self, annotation: Any) -> Any:
        """Rebuild a ``typing.TypedDict``, which pydantic rejects before Python 3.12."""
        source = get_origin(annotation) or annotation
        key = (source, repr(get_args(annotation)))  # metadata in them may have no hash
        if key not in self._typed_dicts:
            rebuilt: Any = typing_extensions.TypedDict(source.__name__, {})  # type: ignore[misc]
            self._typed_dicts[key] = rebuilt  # before its fields: it may contain itself
            try:
                fields = typed_dict_fields(annotation)
            except NameError as error:
                raise _undefined(error) from error
            kept = {name: getattr(source, name) for name in _KEPT if hasattr(source, name)}
            kept["__required_keys__"] = frozenset(n for n, each in fields.items() if each.required)
            other = extra_items(source)
            if other is not None:
                kept["__extra_items__"] = self.rewrite(other)
            for name, value in kept.items():
                setattr(rebuilt, name, value)
            for name, each in fields.items():
                rebuilt.__annotations__[name] = self.rewrite(each.annotation)
        return self._typed_dicts[key]


_KEPT = ("__doc__", "__module__", "__closed__", "__pydantic_config__")


def _is_supported(annotation: Any) -> bool:
    """Whether pydantic can validate the type and describe it as a JSON schema."""
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        adapter.rebuild(raise_errors=True)  # its error says which name is not defined
        adapter.json_schema(schema_generator=JsonSchema)
    except NameError as error:
        raise _undefined(error) from error
    except (PydanticUserError, TypeError, AttributeError, RecursionError):
        return False
    return True


def _scalar_base(cls: type) -> Any:
    """The built-in type from which a class of strings, numbers or dates can be created."""
    for base in _SCALARS:
        if issubclass(cls, base):
            return base
    if cls.__module__ != "numpy":
        return None
    if issubclass(cls, numbers.Integral):
        return int
    if issubclass(cls, numbers.Real):
        return float
    return _NUMPY.get(cls.__name__)
