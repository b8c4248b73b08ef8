"""How the values of a type travel as JSON. Only this file and ``portable.py`` import pydantic.

Types are pydantic's business. What is added here is small: classes that JSON cannot carry become references to
variables, what lax mode would take for something else is refused (``schema_check.py``), and what models often
send in a string (``"[1, 2]"``, the name of an enum's member) is read before it is refused.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError
from pydantic.errors import PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import PydanticUndefined, to_jsonable_python

from archytas_nb.tools import portable, repairs
from archytas_nb.tools.describe import by_name, structures
from archytas_nb.tools.explain import explained
from archytas_nb.tools.faults import Fault, received
from archytas_nb.tools.reference import a, referred
from archytas_nb.tools.schema_check import violations
from archytas_nb.tools.typetext import admits_none, type_text

_LONG_NUMBER = re.compile(r"\d{300}")


class Carrier:
    """Carries values of one annotation between Python and JSON.

    Attributes:
        annotation: The resolved annotation, as written.
        text: The type in the words of the text protocol.
        schema: JSON schema of a value, without its definitions.
        defs: The definitions that the schema refers to, by name.
        admits_none: Whether null is a value of the type.
        by_reference: Whether some part of it is passed as the name of a variable.
        details: Lines for the text protocol: what the type's name leaves unsaid.
    """

    __slots__ = (
        "_adapter",
        "admits_none",
        "annotation",
        "by_reference",
        "defs",
        "details",
        "schema",
        "text",
    )

    def __init__(self, annotation: Any) -> None:
        self.annotation = annotation
        self.text = type_text(annotation)
        self.admits_none = admits_none(annotation)
        self._adapter, whole, references = _adapter(annotation)
        self.by_reference = bool(references)
        self.defs: dict[str, Any] = whole.pop("$defs", {})
        self.schema: dict[str, Any] = whole
        self.details: tuple[str, ...] = structures(self.schema, self.defs, self.text)
        for each in references:
            self.details = (
                by_name(a(each.label), whole=self.text == each.label, explicit=each.explicit),
                *self.details,
            )

    def read(
        self, value: Any, namespace: Mapping[str, Any] | None = None
    ) -> tuple[Any, tuple[Fault, ...]]:
        """Turn what the model sent into a typed value.

        Args:
            value: Decoded JSON; in a call by hand also the typed value itself.
            namespace: Where references are looked up.

        Returns:
            The value and no faults, or None and at least one fault, with paths relative to the value.
        """
        sent = value
        faults: list[Fault] = []
        for attempt in range(6):  # each round may open one more level of strings inside strings
            result, errors = None, []
            try:
                result = self._validate(value, namespace)
            except ValidationError as error:
                errors = error.errors(include_url=False)
            except RecursionError:
                return None, (Fault("the value is nested too deeply"),)
            contrary = list(violations(value, self.schema, self.defs))
            if not errors:
                return (None, tuple(contrary)) if contrary else (result, ())
            if attempt == 0:
                known = {fault.path for fault in contrary}
                faults = [
                    *contrary,
                    *(
                        each
                        for each in explained(errors, value, self._adapter.core_schema)
                        if each.path not in known
                    ),
                ]
            repaired = repairs.repair(value, errors, self._adapter.core_schema)
            if repaired is repairs.NOTHING:
                break
            value = repaired
        name = sent if isinstance(sent, str) and sent in (namespace or {}) else referred(sent)
        if (
            name is not None and not self.by_reference
        ):  # it may be a handle, which is offered by its name
            reason = f"names of variables such as {name!r} are not accepted here: send {a(self.text)} itself"
            faults = [Fault(f"{reason}; received {received(sent)}")]
        return None, tuple(faults)

    def _validate(self, value: Any, namespace: Mapping[str, Any] | None) -> Any:
        try:
            text = json.dumps(value)
        except (TypeError, ValueError):  # a live object, or a number with too many digits for text
            return self._adapter.validate_python(value, context=namespace)
        if _LONG_NUMBER.search(
            text
        ):  # in JSON pydantic rounds what a float cannot hold to infinity
            return self._adapter.validate_python(value, context=namespace)
        try:
            return self._adapter.validate_json(text, strict=True, context=namespace)
        except ValidationError as error:
            if any(each["type"] == "json_invalid" for each in error.errors(include_url=False)):
                # A lone surrogate is legal in Python's JSON and not in pydantic's.
                return self._adapter.validate_python(value, context=namespace)
        return self._adapter.validate_json(text, context=namespace)


def _adapter(
    annotation: Any,
) -> tuple[TypeAdapter[Any], dict[str, Any], tuple[portable.Reference, ...]]:
    rewritten, references = portable.portable(annotation)
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(rewritten)
        return (
            adapter,
            normalized(adapter.json_schema(schema_generator=portable.JsonSchema)),
            references,
        )
    except (PydanticUserError, TypeError, NameError) as error:
        raise portable.Unusable(str(error).split("\n", 1)[0]) from error


@lru_cache(maxsize=2048)
def _shared(annotation: Any, spelled: str) -> Carrier:  # noqa: ARG001  (int | str equals str | int, yet is not the same)
    return Carrier(annotation)


def carrier(annotation: Any, field: FieldInfo | None = None) -> Carrier:
    """Return the carrier of an annotation; equal annotations share one.

    Args:
        annotation: The resolved annotation.
        field: The ``Field(…)`` that is the argument's default, whose bounds hold too.

    Raises:
        portable.Unusable: pydantic cannot make sense of the annotation.
    """
    if field is not None and field.metadata:
        annotation = Annotated[(annotation, *field.metadata)]
    try:
        return _shared(annotation, repr(annotation))
    except TypeError:  # an unhashable annotation, such as Annotated[int, Field(gt=0)]
        return Carrier(annotation)


def field_of(default: Any) -> FieldInfo | None:
    """Return the default where the user wrote ``= Field(…)``, else None."""
    return default if isinstance(default, FieldInfo) else None


def field_default(info: FieldInfo, missing: Any) -> Any:
    """Return the value that a ``Field`` gives an argument that is left out, or ``missing`` for a required one."""
    factory: Any = info.default_factory
    value = factory() if factory is not None else info.default
    return missing if value is PydanticUndefined or value is ... else value


def wire_default(value: Any) -> tuple[Any, ...]:
    """Return the default as JSON in a tuple, or an empty tuple where JSON cannot say it exactly."""
    if value is None or type(value) in (str, bool, int):
        return (value,)
    try:
        plain = to_jsonable_python(value)
        if type(value) in {bool, int, float, str, type(None), list, dict} and plain != value:
            return ()
        json.dumps(plain, allow_nan=False)
    except Exception:  # noqa: BLE001  (a sentinel, NaN, or an object whose methods fail: it stays ours)
        return ()
    return (plain,)


def normalized(schema: Any) -> Any:
    """A schema in the one form that all versions of pydantic's share, so that recordings outlive an update.

    Titles cost tokens and say nothing. From 2.11 on an open object says that it is one, and 2.12 alone spells out
    the text that a Decimal may be.
    """
    if isinstance(schema, list):
        return [normalized(each) for each in schema]
    if not isinstance(schema, dict):
        return schema
    result: dict[str, Any] = {}
    for key, value in schema.items():
        if key in {"properties", "$defs", "patternProperties"}:
            result[key] = {name: normalized(each) for name, each in value.items()}
        elif key in {"default", "const", "enum", "examples"}:
            result[key] = value
        elif not (key == "title" and isinstance(value, str)):
            result[key] = normalized(value)
    if result.get("type") == "object" and not result.keys() & {*_FIELDS, "additionalProperties"}:
        result = {"additionalProperties": True, **result}
    if str(result.get("pattern", "")).startswith(_DECIMAL):
        del result["pattern"]
    return result


_FIELDS = ("properties", "patternProperties")
_DECIMAL = "^(?!^[-+.]*$)[+-]?0*"
