"""JSON of other programs: it is read whatever it holds, and each part of it can be judged alone.

A parser that refuses a message because of one part of it (a byte outside UTF-8, ``NaN``, half of
a surrogate pair, a thousand brackets) loses the rest of it too. `read` takes such parts in, and
`fault` finds them, so that whoever reads the message can leave out what holds one, and name it.
"""

from __future__ import annotations

import json
import math
import re
from typing import Any

MAX_DEPTH = 64
"""How deeply a value may be nested that a model, a tool or a page has to read."""
_KEPT_DEPTH = 180
"""How deeply `read` keeps what is nested: more than any caller of `fault` permits."""
_MAX_DIGITS = 4_000  # of an integer; Python reads 4,300
_TOKEN = re.compile(rb'"(?:[^"\\]|\\.)*+"?|[\[{]|[\]}]', re.DOTALL)


def read(text: bytes) -> Any:
    """The value that a text of JSON stands for, also if parts of it are none.

    Bytes that are not UTF-8 become halves of surrogate pairs, and numbers that JSON does not have,
    or that are too large, become numbers that are not finite; what is nested more deeply than
    anybody permits is cut off there. `fault` finds all of them.

    Raises:
        ValueError: It is not JSON as a whole; the message says where.
    """
    try:
        return _parsed(text)
    except RecursionError:
        return _parsed(_cut(text))


def _parsed(text: bytes) -> Any:
    decoded = text.decode("utf-8", "surrogateescape").removeprefix("\ufeff")
    return json.loads(decoded, strict=False, parse_int=_integer)


def _integer(digits: str) -> int | float:
    if len(digits) > _MAX_DIGITS:
        return math.inf
    return int(digits)


def _cut(text: bytes) -> bytes:
    """The text without what is nested more deeply than is kept."""
    kept = []
    depth = 0
    begin = 0
    for found in _TOKEN.finditer(text):
        token = found[0]
        if token in (b"[", b"{"):
            depth += 1
            if depth == _KEPT_DEPTH + 1:
                kept += [text[begin : found.start()], b"null"]
        elif token in (b"]", b"}"):
            if depth == _KEPT_DEPTH + 1:
                begin = found.end()
            depth -= 1
    if depth <= _KEPT_DEPTH:
        kept.append(text[begin:])
    return b"".join(kept)


def fault(value: Any, deepest: int = MAX_DEPTH) -> str | None:
    """Why a value cannot be passed on as JSON, as the end of a sentence; None if it can.

    Args:
        value: The value that `read` returned, or a part of that, or a value of Python.
        deepest: How deeply it may be nested.
    """
    level = _parts([value])
    for _ in range(deepest):
        level = [each for part in level for each in _parts(part)]
    if level:
        return f"it is nested more than {deepest} levels deep"
    try:
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
    except UnicodeEncodeError:
        return "its text has bytes that are not UTF-8, or half of a surrogate pair"
    except TypeError as error:
        return f"it is not a value of JSON ({error})"
    except ValueError:
        return "a number in it is not finite or too large (NaN, Infinity, 1e999)"
    return None


def _parts(value: Any) -> list[Any]:
    """The lists and objects in a list or an object."""
    if isinstance(value, dict):
        return [each for each in value.values() if isinstance(each, (dict, list, tuple))]
    if isinstance(value, (list, tuple)):
        return [each for each in value if isinstance(each, (dict, list, tuple))]
    return []
