"""The strings of the forgiving grammar: where one may end, and what its escapes mean.

It knows text only. A place where two readings are possible is handed on, or refused; never decided here.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Iterator
from typing import TypeAlias

from archytas_nb.loop.exact import UnreadableError, Work

CLOSERS = {'"': '"', "'": "'", "“": '“”"', "”": '“”"', "‘": "‘’'", "’": "‘’'"}
"""The quotes that open a string, and those that may close it."""

NEXT_KEY = re.compile(r"""\s*["'“”‘’]\w[^"'“”‘’\n]*["'“”‘’]\s*:""")
"""The next member of an object, where the comma before it is missing."""

_SPACE = re.compile(r"\s*")
_COMMENT_TEXT = (
    r"""(?:[^\n"'“”‘’]|(?<=\w)['’](?=\w))*"""  # with quotes in it, it may be part of a string
)
_COMMENT = re.compile(rf"(?://|\#){_COMMENT_TEXT}(?=\n|\Z)|/\*.*?\*/", re.DOTALL)
_SWALLOWED = re.compile(r"""["'“”‘’][^"'“”‘’\n]*["'“”‘’]\s*:""")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_OTHER_ESCAPE = re.compile(
    r"\\(?:x[0-9a-fA-F]|U[0-9a-fA-F]{2}|u[0-9a-fA-F]|N\{|0|[1-7][0-7]{2}|[av](?![a-z])|\n)"
)
"""What Python and JavaScript know as an escape, and JSON does not; or a part of one that JSON knows."""
_BEFORE_QUOTATION = " \t\n([{=<>:,/+-\"'“”‘’"
_AFTER_QUOTATION = " \t\n)]}=<>:;,.!?/+-\"'“”‘’"
_MAX_CLOSINGS = 20


def skip(text: str, at: int) -> tuple[int, bool]:
    """The place after white space and comments, and whether there was a comment."""
    commented = False
    while True:
        space = _SPACE.match(text, at)
        at = space.end() if space else at
        comment = _COMMENT.match(text, at)
        if comment is None:
            return at, commented
        at, commented = comment.end(), True


def quotes(text: str, at: int) -> Iterator[int]:
    """Each place of a quote that could close the string that opens at a place."""
    closers = CLOSERS[text[at]]
    n = at + 1
    while n < len(text):
        mark = text[n]
        if mark == "\\":
            n += 1
        elif mark in closers and not _is_apostrophe(text, n):
            yield n
        n += 1


def _is_apostrophe(text: str, n: int) -> bool:
    return text[n] != '"' and text[n - 1].isalnum() and text[n + 1 : n + 2].isalnum()


Closing: TypeAlias = tuple[int, int]
"""A quote that may close a string, and the number of unescaped quotes before it."""


class Closings:
    """The quotes that may close each string of a text; found once, and no further than they are asked for."""

    def __init__(self, text: str, work: Work) -> None:
        self._text = text
        self._work = work
        self._found: dict[int, tuple[list[Closing], Iterator[Closing]]] = {}

    def get(self, at: int, number: int) -> Closing | None:
        """The quote of that number for the string that opens at a place; None where there are not so many."""
        if at not in self._found:
            self._found[at] = (
                [],
                itertools.islice(_closings(self._text, at, self._work), _MAX_CLOSINGS),
            )
        found, more = self._found[at]
        while len(found) <= number:
            closing = next(more, None)
            if closing is None:
                return None
            found.append(closing)
        return found[number]


def _closings(text: str, at: int, work: Work) -> Iterator[Closing]:
    inside: list[int] = []
    last = at
    for close in quotes(text, at):
        after, _ = skip(text, close + 1)
        work.spend(after - last + (close - at) // 10 + len(inside))
        last = close
        ends = after == len(text) or text[after] in ",}])`<" or "\n" in text[close:after]
        ends = ends or NEXT_KEY.match(text, close + 1) is not None
        if ends and not (inside and _swallows(text, at, inside, close)):
            yield close, len(inside)
        inside.append(close)
    work.spend(len(text) - last)


def _swallows(text: str, at: int, inside: list[int], close: int) -> bool:
    """Whether a string with these quotes inside would hold what looks like a part of the object that it is in."""
    if len(inside) % 2:
        # One stray mark within a line of text, as in 5" pipe, may pass; else a quote is missing somewhere.
        n = inside[0]
        if len(inside) > 1:
            return True
        before, after = text[at + 1 : n].rstrip(), text[n + 1 : close].lstrip()
        stray = before[-1:] not in ("", ",") and after[:1] not in ("", ",")
        return not stray or _SWALLOWED.search(text, at + 1, close) is not None
    raw = text[at + 1 : close]
    for member in _SWALLOWED.finditer(raw):
        before = raw[: member.start()]
        if before.rstrip().endswith(",") and before.count("{") <= before.count("}"):
            return True
    return not all(
        _may_close(text, n) if place % 2 else _may_open(text, n) for place, n in enumerate(inside)
    )


def _may_open(text: str, n: int) -> bool:
    """Whether a quote may open a quotation: nothing ends before it, or a word begins after it."""
    return text[n - 1] in _BEFORE_QUOTATION or not (
        text[n + 1].isspace() or text[n + 1] in ",:;.!?)]}"
    )


def _may_close(text: str, n: int) -> bool:
    return text[n + 1] in _AFTER_QUOTATION or text[n - 1] not in _BEFORE_QUOTATION


def decoded(text: str, start: int, end: int) -> tuple[str, tuple[str, ...]]:
    """The text of a string, its escapes resolved, and what was mended.

    Raises:
        UnreadableError: A backslash may or may not be an escape.
    """
    raw = text[start:end]
    mended: list[str] = []
    found = list(_ESCAPE.finditer(raw))
    strange = [each for each in found if each[1] == "u" or each[1][0] not in "\"'\\/bfnrtu“”‘’"]
    known = any(each[1] != "u" and each[1][0] in "bfnrtu\\" for each in found)
    if strange and (known or any(_OTHER_ESCAPE.match(raw, each.start()) for each in strange)):
        raise UnreadableError(start, "a backslash in a string is not escaped")
    if strange:
        mended.append("backslashes in a string that were not escaped")
    if any(mark in raw for mark in "\n\t\r"):
        mended.append("a raw line break or tab in a string")
    parts: list[str] = []
    last = 0
    for escape in found:
        parts += [_quoted(raw[last : escape.start()]), _escaped(escape[1])]
        last = escape.end()
    try:
        value: str = json.loads('"' + "".join(parts) + _quoted(raw[last:]) + '"')
    except ValueError:
        raise UnreadableError(start, "a string has an escape that JSON does not know") from None
    return value, tuple(mended)


def _quoted(raw: str) -> str:
    return json.dumps(raw, ensure_ascii=False)[1:-1]


def _escaped(name: str) -> str:
    if name in "'“”‘’":
        return name
    return f"\\{name}" if name[0] in '"\\/bfnrtu' and name != "u" else f"\\\\{_quoted(name)}"
