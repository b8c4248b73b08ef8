"""Writes values as Python source, for arguments of functions."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import fractions
import math
import pathlib
import uuid
from collections.abc import Callable, Mapping
from typing import Any

from archytas_nb.code.names import Imports, name_of_object
from archytas_nb.words import truncate_line

Substitute = Callable[[Any], str | None]
"""Returns the expression to write in place of a value, or None."""

_PLAIN = (type(None), bool, int, str, bytes, type(...))
_OF_MODULES: dict[type, str] = {
    dt.date: "datetime", dt.time: "datetime", dt.datetime: "datetime", dt.timedelta: "datetime",
    dt.timezone: "datetime", decimal.Decimal: "decimal", fractions.Fraction: "fractions",
    uuid.UUID: "uuid",
}  # fmt: skip
_BRACKETS: dict[type, tuple[str, str]] = {list: ("[", "]"), tuple: ("(", ")"), set: ("{", "}")}


class NotWritable(Exception):
    """A value cannot be written as source; the text says which."""


class Literals:
    """Writes values as source.

    Args:
        namespace: The variables, among them the classes of the user.
        imports: The modules that the source needs.
    """

    def __init__(self, namespace: Mapping[str, Any], imports: Imports) -> None:
        self._namespace = namespace
        self._imports = imports

    def text(self, value: Any, substitute: Substitute = lambda _: None) -> str:
        """The source of a value; with `substitute`, other expressions for parts of it.

        Raises:
            NotWritable: It cannot be written.
        """
        found = substitute(value)
        if found is not None:
            return found
        cls = type(value)
        if cls is str:
            return quoted(value)
        if cls in _PLAIN:
            return repr(value)
        if cls is float:
            return repr(value) if math.isfinite(value) else f'float("{value}")'
        if cls in _OF_MODULES:
            return self._of_module(value, _OF_MODULES[cls])
        if isinstance(value, pathlib.PurePath):
            return f"{self._imports.module('pathlib')}.Path({str(value)!r})"
        if isinstance(value, enum.Enum):
            return f"{self.class_name(cls)}[{quoted(value.name)}]"
        return self._composite(value, substitute)

    def _of_module(self, value: Any, module: str) -> str:
        """The ``repr`` of a value of the standard library, with its module."""
        name = self._imports.module(module)
        zone = getattr(value, "tzinfo", None)
        if zone is not None:
            plain = self._of_module(value.replace(tzinfo=None), module)
            return f"{plain[:-1]}, tzinfo={self._zone(zone, value)})"
        text = repr(value)
        if module == "datetime":
            return text.replace("datetime.", f"{name}.")
        return f"{name}.{text}"

    def _zone(self, zone: dt.tzinfo, value: Any) -> str:
        """A time zone: by its name, or else its offset at this moment."""
        if type(zone).__module__ == "zoneinfo" and getattr(zone, "key", None):
            return f"{self._imports.module('zoneinfo')}.ZoneInfo({quoted(str(zone))})"
        offset = value.utcoffset()
        if offset is None:
            raise NotWritable(f"the time zone {zone!r} cannot be written as code")
        if not offset:
            return f"{self._imports.module('datetime')}.timezone.utc"
        return self._of_module(dt.timezone(offset), "datetime")

    def _composite(self, value: Any, substitute: Substitute) -> str:
        cls = type(value)
        if cls is dict:
            pairs = [
                f"{self.text(key)}: {self.text(each, substitute)}" for key, each in value.items()
            ]
            return f"{{{', '.join(pairs)}}}"
        if cls is frozenset or (cls is set and not value):
            inside = self.text(sorted(value, key=repr), substitute) if value else ""
            return f"{cls.__name__}({inside})"
        if cls in _BRACKETS:
            opening, closing = _BRACKETS[cls]
            each_text = [self.text(each, substitute) for each in value]
            if cls is tuple and len(each_text) == 1:
                each_text.append("")
            return f"{opening}{', '.join(each_text).rstrip() if each_text else ''}{closing}"
        fields = _fields(value)
        if fields is None:
            shown = truncate_line(repr(type(value)), 80)
            raise NotWritable(f"a value of {shown} cannot be written as code")
        given = [f"{name}={self.text(each, substitute)}" for name, each in fields.items()]
        return f"{self.class_name(cls)}({', '.join(given)})"

    def class_name(self, cls: type) -> str:
        """The expression for a class.

        Raises:
            NotWritable: No variable is bound to it, and it cannot be imported.
        """
        if cls in _OF_MODULES:
            return f"{self._imports.module(_OF_MODULES[cls])}.{cls.__name__}"
        if issubclass(cls, pathlib.PurePath):
            return f"{self._imports.module('pathlib')}.Path"
        name = name_of_object(cls, self._namespace, cls.__qualname__) or self._imports.member(cls)
        if not name:
            raise NotWritable(f"the class {cls.__qualname__!r} is not a variable of the notebook")
        return name


def quoted(text: str) -> str:
    """A text in double quotes, as code is usually written."""
    source = repr(text)
    if source.startswith("'") and '"' not in source:
        return f'"{source[1:-1]}"'
    return source


def _fields(value: Any) -> dict[str, Any] | None:
    """The arguments that recreate an object of a record type; None for other objects."""
    cls = type(value)
    if dataclasses.is_dataclass(cls):
        given = [each for each in dataclasses.fields(cls) if each.init]
        return {
            each.name: getattr(value, each.name) for each in given
            if each.default is dataclasses.MISSING or getattr(value, each.name) is not each.default
        }  # fmt: skip
    set_fields = getattr(value, "model_fields_set", None)
    if isinstance(set_fields, set):
        ordered = [name for name in type(value).model_fields if name in set_fields]
        return {name: getattr(value, name) for name in ordered}
    names_of_tuple = getattr(cls, "_fields", None)
    if isinstance(value, tuple) and names_of_tuple is not None:
        return dict(zip(names_of_tuple, value, strict=True))
    return None
