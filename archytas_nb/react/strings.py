"""The strings of the forgiving grammar: where one may end, and what its escapes mean.

It knows text only. A place where two readings are possible is handed on, or refused; never decided here.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from archytas_nb.react.exact import UnreadableError

CLOSERS = {'"': '"', "'": "'", "“": '“”"', "”": '“”"', "‘": "‘’'", "’": "‘’'"}
"""The quotes that open a string, and those that may close it."""

NEXT_KEY = re.compile(r"""\s*\n\s*["'“”‘’]?\w[\w -]*["'“”‘’]?\s*:""")
"""The next member of an object on a line of its own."""

_SPACE = re.compile(r"\s*")
_COMMENT = re.compile(r"//[^\n]*|#[^\n]*|/\*.*?\*/", re.DOTALL)
_SWALLOWED = re.compile(r"""["'“”‘’][^"'“”‘’\n]*["'“”‘’]\s*:""")
_ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
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


def closings(text: str, at: int) -> list[tuple[int, int]]:
    """The quotes that may close a string, each with the number of unescaped quotes before it."""
    found: list[tuple[int, int]] = []
    for inside, close in enumerate(quotes(text, at)):
        after, _ = skip(text, close + 1)
        ends = after == len(text) or text[after] in ",}])`<" or "\n" in text[close:after]
        if not ends:
            continue
        if inside and _swallows(text[at + 1 : close], uneven=inside % 2 == 1):
            break  # so does every later one
        found.append((close, inside))
        if len(found) == _MAX_CLOSINGS:
            break
    return found


def decoded(text: str, start: int, end: int) -> tuple[str, tuple[str, ...]]:
    """The text of a string, its escapes resolved, and what was mended.

    Raises:
        UnreadableError: A backslash may or may not be an escape.
    """
    raw = text[start:end]
    mended: list[str] = []
    names = {name[0] for name in _ESCAPE.findall(raw)}
    strange = names - set("\"'\\/bfnrtu“”‘’")
    if strange & set("x0123456789UNav\n") or (strange and names & set("bfnrtu")):
        raise UnreadableError(start, "a backslash in a string is not escaped")
    if strange:
        mended.append("backslashes in a string that were not escaped")
    if any(mark in raw for mark in "\n\t\r"):
        mended.append("a raw line break or tab in a string")
    parts: list[str] = []
    last = 0
    for escape in _ESCAPE.finditer(raw):
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
    return f"\\{name}" if name[0] in '"\\/bfnrtu' else f"\\\\{_quoted(name)}"


def _swallows(raw: str, *, uneven: bool) -> bool:
    """Whether a string would hold what looks like the next member of the object that it is in."""
    for member in _SWALLOWED.finditer(raw):
        before = raw[: member.start()]
        if uneven or (before.rstrip().endswith(",") and before.count("{") <= before.count("}")):
            return True
    return False
