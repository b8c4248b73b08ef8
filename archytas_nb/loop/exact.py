"""Exact JSON, and not a hair more than JSON: what `json` lets through but no request could carry is refused.

It knows values only.
"""

from __future__ import annotations

import json
import re
from typing import NoReturn

from archytas_nb.loop.events import Json

_LONE = re.compile(r"[\ud800-\udfff]")


class UnreadableError(ValueError):
    """A text that cannot be read for certain.

    Attributes:
        at: Where in the text reading failed.
        why: The reason, for the model.
    """

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


class Work:
    """How much work a reply is worth: what is ambiguous in many places would take for ever to read.

    Args:
        size: Characters of the text.

    Attributes:
        left: Steps that are left, about one for each character that is looked at.
    """

    def __init__(self, size: int) -> None:
        self.left = min(300 * size + 10_000, 3_000_000)

    def spend(self, steps: int) -> None:
        """Note that work was done.

        Raises:
            UnreadableError: It was too much.
        """
        self.left -= steps
        if self.left < 0:
            raise UnreadableError(0, TOO_MUCH)


TOO_MUCH = "it is too long or too broken to be read"

MAX_DEPTH = 80
"""How deep a value may be nested: nothing that is meant is deeper, and whoever walks it must come back."""


def whole(value: Json, depth: int = 0) -> Json:
    """The value without half characters (lone surrogates), which no request could carry.

    Raises:
        UnreadableError: It is nested too deeply.
    """
    if isinstance(value, str):
        return value if value.isascii() else _LONE.sub("\ufffd", value)
    if depth > MAX_DEPTH:
        raise UnreadableError(0, "it is nested too deeply")
    if isinstance(value, list):
        return [whole(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {whole(key): whole(each, depth + 1) for key, each in value.items()}
    return value


def unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """An object of its members; one that is written twice with different values has two meanings.

    Raises:
        UnreadableError: There is such a member.
    """
    found: dict[str, Json] = {}
    for key, value in pairs:
        if key in found and not same(found[key], value):
            raise UnreadableError(0, f"the key {key!r} is written twice with different values")
        found[key] = value
    return found


def same(a: Json, b: Json) -> bool:
    """Whether two values are the same JSON; 1, 1.0 and true are equal in Python, but not here."""
    return json.dumps(a, sort_keys=True) == json.dumps(b, sort_keys=True)


def _no_constant(word: str) -> NoReturn:
    raise UnreadableError(0, f"{word} is no JSON value; write null, or the text {word!r} in quotes")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise UnreadableError(0, f"the number {digits} is too large")
    return number


EXACT = json.JSONDecoder(object_pairs_hook=unique, parse_constant=_no_constant, parse_float=_finite)
