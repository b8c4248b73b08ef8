"""Numbers of JSON that keep their text until the type is known.

Python reads ``12345678901234567.89`` and ``1.10`` as floats, which hold neither of them. A float
that would lose something is therefore an `ExactFloat`: a float everywhere, except that a `Decimal`
is made of its text.
"""

from __future__ import annotations

import json
import uuid
from typing import Any, Self


class ExactFloat(float):
    """A float whose text says more than a float can hold.

    pydantic makes a `Decimal` of ``str(value)``, so the digits reach a type that can hold them.
    """

    __slots__ = ("text",)
    text: str

    def __new__(cls, text: str) -> Self:
        """The number that a text of JSON stands for; raises ValueError if it stands for none."""
        number = super().__new__(cls, text)
        number.text = text
        return number

    def __str__(self) -> str:
        """The number as it was written."""
        return self.text

    def __reduce__(self) -> tuple[Any, ...]:
        return ExactFloat, (self.text,)


def exact_float(text: str) -> float:
    """The number that a text of JSON stands for: a plain float if that says all of it."""
    number = float(text)
    if repr(number) == text:
        return number
    return ExactFloat(text)


def plain(value: Any) -> Any:
    """A value of JSON without exact numbers; itself if it holds none."""
    if type(value) is ExactFloat:
        return float(value)
    if type(value) is list:
        return [plain(each) for each in value]
    if type(value) is dict:
        return {key: plain(each) for key, each in value.items()}
    return value


def exact_json(value: Any) -> str:
    """A value as JSON in which exact numbers have their text."""
    texts: list[str] = []
    mark = uuid.uuid4().hex

    def marked(part: Any) -> Any:
        if type(part) is ExactFloat:
            texts.append(part.text)
            return mark
        if isinstance(part, list):
            return [marked(each) for each in part]
        if isinstance(part, dict):
            return {key: marked(each) for key, each in part.items()}
        return part

    between = json.dumps(marked(value)).split(f'"{mark}"')
    pieces = [between[0]]
    for text, rest in zip(texts, between[1:], strict=True):
        pieces += [text, rest]
    return "".join(pieces)
