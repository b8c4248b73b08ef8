"""Rewrite an annotation into one that JSON can carry: what it cannot carry becomes a reference to a variable.

Speaks pydantic's protocol for annotations; ``schema.py`` alone builds and runs what comes out.
"""

from __future__ import annotations

import collections.abc
import typing
from typing import Annotated, Any, Literal, get_args, get_origin

import typing_extensions
from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic_core import core_schema

from archytas_nb.tools.reference import ByName, a, referred, resolve
from archytas_nb.tools.typetext import bare, is_union, type_text

_PLAIN = {str, int, float, bool, list, dict, tuple, set, frozenset, bytes, type(None), None, Any, object}
_LAZY = {collections.abc.Iterable, collections.abc.Collection, collections.abc.Reversible}


class Unusable(Exception):
    """An annotation that means nothing to the validator; the message says why."""


class Reference:
    """Marks a place of a type where the model names a variable instead of giving a value.

    Args:
        cls: What the variable must hold an instance of.
        label: How the type is written.
        explicit: Whether a bare name would be taken for text.
        whole: The type that JSON could carry too, where `cls` is only the outer part of it.
    """

    def __init__(self, cls: Any, label: str, *, explicit: bool, whole: TypeAdapter[Any] | None = None) -> None:
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
            raise ValueError(f'expected {{"$var": "the name of a variable that holds {a(self.label)}"}}')
        if self._whole is not None and info.mode == "json" and not isinstance(value, str) and not referred(value):
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
        if (origin or annotation) in _LAZY:  # pydantic would validate these only while they are read
            return list[(self.rewrite(args[0]) if args else Any,)]  # type: ignore[misc]
        if typing_extensions.is_typeddict(annotation):
            return self._typed_dict(annotation)
        if origin is not None and args and isinstance(origin, type):
            return self._generic(annotation, origin, args, beside_text)
        if _carried(annotation):
            return annotation
        if isinstance(annotation, type):
            return self._reference(annotation, type_text(annotation), beside_text)
        raise Unusable(f"{annotation!r} is no type that can be checked")

    def _generic(self, annotation: Any, origin: Any, args: tuple[Any, ...], beside_text: bool) -> Any:  # noqa: FBT001
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
        except Unusable:  # a parameter of a class that JSON cannot carry anyhow, such as ndarray's shape
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
        if not isinstance(cls, type) or cls is Any or is_union(inner) or typing_extensions.is_typeddict(cls):
            cls = object  # no class of its own: the whole type decides
        whole = TypeAdapter(_Rewriter().rewrite(annotation))
        return self._reference(cls, type_text(annotation), beside_text, whole)

    def _typed_dict(self, source: Any) -> Any:
        """Rebuild a ``typing.TypedDict``: before Python 3.12 it forgets what pydantic must know."""
        if source in self._typed_dicts:
            return self._typed_dicts[source]
        hints = typing.get_type_hints(source, include_extras=True)
        presence = {
            name: typing.Required if name in source.__required_keys__ else typing.NotRequired for name in hints
        }
        made = typing_extensions.TypedDict(  # type: ignore[misc]
            source.__name__, {name: present[Any] for name, present in presence.items()}
        )
        made.__doc__, made.__module__ = source.__doc__, source.__module__
        self._typed_dicts[source] = made  # before its fields: it may contain itself
        for name, hint in hints.items():
            inner = get_args(hint)[0] if get_origin(hint) in {typing.Required, typing.NotRequired} else hint
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
        TypeAdapter(annotation).json_schema()
    except (PydanticUserError, TypeError, NameError, AttributeError):
        return False
    return True
