"""Reads values of a type from JSON that anybody may have written."""

from __future__ import annotations

from typing import Any, TypeVar

from pydantic import ConfigDict, TypeAdapter, ValidationError, with_config

T = TypeVar("T")

STRICT = with_config(ConfigDict(strict=True, extra="forbid", allow_inf_nan=False))
"""Decorates a dataclass of which nothing is converted and no other field is taken."""


def read_saved(kind: type[T], text: bytes) -> T:
    """The value in a text of JSON.

    Raises:
        ValueError: It is not JSON, or not of this type; the message says what the first fault is.
    """
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    try:
        value: T = adapter.validate_json(text, strict=True)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False, include_context=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ValueError(f"{place}: {first['msg']}") from None
    return value


def saved_text(value: Any) -> bytes:
    """A value as JSON."""
    return TypeAdapter(type(value)).dump_json(value, indent=1)
