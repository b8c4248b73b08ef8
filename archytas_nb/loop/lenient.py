"""Reads JSON as models write it: valid JSON as it is, and invalid JSON by repairing its tokens.

Only unambiguous mistakes are repaired: trailing and missing commas, comments, other quotes, Python
literals, unquoted keys, raw line breaks, unescaped backslashes, and a missing last brace. An
unescaped quote belongs to a string if what follows it cannot follow a value, and if such quotes
come in pairs. The arguments of a Python call are read in the same way.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import re
from dataclasses import dataclass
from typing import NoReturn

from archytas_nb.loop.events import Json

MAX_DEPTH = 80
"""Maximum levels of nesting; no tool needs more, and recursion elsewhere must end."""

_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_ENDS_VALUE = r"""\s*(?:["”’'()\[\]{},:#]|//|/\*|</|<\||```|[A-Za-z_][\w-]*\s*:|\Z)"""
_IN_WORD = r"(?<=\w)['’](?=\w)"
_STRINGS = {
    opening: re.compile(rf"{opening}((?:[^{ends}\\]|\\.|{inside})*+)[{ends}]", re.DOTALL)
    for opening, ends, inside in (
        ('"', '"', rf'"(?!{_ENDS_VALUE})'),
        ("'", "'", _IN_WORD),
        ("“", '“”"', r"(?!)"),
        ("”", '“”"', r"(?!)"),
        ("‘", "‘’'", _IN_WORD),
        ("’", "‘’'", _IN_WORD),
    )
}
_EXACT_STRING = re.compile(r'"((?:[^"\\]|\\.)*+)"', re.DOTALL)
_COMMENT = r"""(?://|\#)[^\n"'“”‘’]*+(?=\n|\Z)|/\*[^"'“”‘’*]*+\*/"""
"""A comment with a quote in it may be the rest of a broken string."""
_GAP = re.compile(rf"(?:\s|{_COMMENT})*+")
_WORD = re.compile(r"[\w.+-]+")
_BARE_KEY = re.compile(r"[A-Za-z_][\w-]*(?=\s*[:=])")
_NAMED = re.compile(r"\(\s*[A-Za-z_]\w*\s*=")
_LITERALS = {"True": "true", "False": "false", "None": "null"}
_KEY_FOLLOWS = re.compile(r"""["'“”‘’]\w[^"'“”‘’\n]*["'“”‘’]\s*:""")
_ENDS_OBJECT = re.compile(r"\s*(?:\Z|</|<\||```)|[^\S\n]*\n\s*(?:Observation|Outcome)\b")
_ESCAPE = re.compile(r"""\\(u[0-9a-fA-F]{4}|.)|["]""", re.DOTALL)
_OTHER_ESCAPE = re.compile(
    r"\\(?:x[0-9a-fA-F]|U[0-9a-fA-F]{2}|u[0-9a-fA-F]|N\{|0|[1-7][0-7]{2}|[av](?![a-z])|\n)"
)
"""Escapes of Python and JavaScript that JSON does not have, and incomplete escapes of JSON."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class UnreadableError(ValueError):
    """A text that cannot be read without ambiguity: where, and why."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that was read, and where it ends in the text."""

    value: Json
    end: int
    repairs: tuple[str, ...] = ()  # descriptions; none for valid JSON
    unclosed: bool = False  # the last closing brace was missing


def read_json(text: str, at: int = 0, *, allow_unclosed: bool = False) -> Reading:
    """Read the JSON value that begins at an index, in linear time; text after it is ignored.

    Args:
        text: Any text.
        at: Where the value begins; at a parenthesis, the arguments of a Python call are read as
            an object if they are named, otherwise as a list.
        allow_unclosed: Whether the last closing brace may be missing.

    Raises:
        UnreadableError: There is no value, or it is truncated or ambiguous.
    """
    try:
        try:
            value, end = _STRICT.raw_decode(text, at)
            return Reading(replace_surrogates(value), end)
        except json.JSONDecodeError:
            tokens = _Tokens(text, at, allow_unclosed=allow_unclosed)
        return Reading(
            replace_surrogates(tokens.value()), tokens.end, tuple(tokens.repairs), tokens.unclosed
        )
    except RecursionError:
        raise UnreadableError(at, "it is nested too deeply") from None
    except UnreadableError as error:
        raise UnreadableError(max(at, error.at), error.why) from None
    except ValueError:  # a number with thousands of digits
        raise UnreadableError(at, "it holds a number that is too long") from None


def replace_surrogates(value: Json, depth: int = 0) -> Json:
    """Replace lone surrogates in the texts of a value, because they cannot be sent."""
    if isinstance(value, str):
        return value if value.isascii() else _SURROGATE.sub("\ufffd", value)
    if depth > MAX_DEPTH:
        raise UnreadableError(0, "it is nested too deeply")
    if isinstance(value, list):
        return [replace_surrogates(each, depth + 1) for each in value]
    if isinstance(value, dict):
        return {
            replace_surrogates(key): replace_surrogates(each, depth + 1)
            for key, each in value.items()
        }
    return value


def _make_object(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Make an object from its members; a key with two different values is ambiguous."""
    found: dict[str, Json] = {}
    for key, value in pairs:  # 1, 1.0 and true are equal in Python, but not as JSON
        if key in found and canonical(found[key]) != canonical(value):
            raise UnreadableError(0, f"the key {key!r} is written twice with different values")
        found[key] = value
    return found


def canonical(value: Json) -> str:
    """A text that is equal for two values if they are the same JSON."""
    return json.dumps(value, sort_keys=True)


def _no_constant(word: str) -> NoReturn:
    raise UnreadableError(0, f"{word} is no JSON value; write null, or the text {word!r} in quotes")


def _parse_float(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise UnreadableError(0, f"the number {digits} is too large")
    return number


_STRICT = json.JSONDecoder(
    object_pairs_hook=_make_object, parse_constant=_no_constant, parse_float=_parse_float
)


class _Tokens:
    """Turns the tokens of a value that is nearly JSON into valid JSON, in linear time."""

    def __init__(self, text: str, at: int, *, allow_unclosed: bool) -> None:
        self.end = at  # of the last token
        self.repairs: dict[str, None] = {}
        self.unclosed = False
        self._text, self._at, self._allow_unclosed = text, at, allow_unclosed
        self._closers: list[tuple[str, str]] = []  # expected: as written, and as JSON
        self._out: list[str] = []
        self._positions: list[int] = []  # the index of each token in the text
        while not self._out or self._closers:
            self._next()

    def value(self) -> Json:
        """The value of the tokens."""
        try:
            return _STRICT.decode("".join(self._out))
        except json.JSONDecodeError as error:
            ends = list(itertools.accumulate(map(len, self._out)))
            n = min(bisect.bisect_right(ends, error.pos), len(ends) - 1)
            raise UnreadableError(
                self._positions[n], error.msg[0].lower() + error.msg[1:]
            ) from None

    def _next(self) -> None:
        """Add the next token."""
        mark = self._skip()
        closer = self._closers[-1][0] if self._closers else ""
        if mark and mark == closer:
            if self._out[-1] == "," and self._out[-2] not in ("{", "["):
                self._out.pop()
                self._positions.pop()
                self.repairs["a trailing comma"] = None
            self._append(self._closers.pop()[1], 1)
        elif mark in (",", ":") or (mark == "=" and closer == ")"):
            self._append(":" if mark == "=" else mark, 1)
        elif self._out and self._out[-1] not in ("{", "[", ",", ":"):
            self._append(self._missing_token(closer), 0)
        elif mark in _CLOSERS:
            if len(self._closers) > MAX_DEPTH:
                raise UnreadableError(self._at, "it is nested too deeply")
            opener = "{" if mark == "{" or _NAMED.match(self._text, self._at) else "["
            self._closers.append((_CLOSERS[mark], _CLOSERS[opener]))
            self._append(opener, 1)
        elif mark in _STRINGS:
            self._append(*self._string())
        else:
            self._append(*self._word())

    def _missing_token(self, closer: str) -> str:
        """The token, a comma or a brace, that must be missing after a value."""
        text, end = self._text, self.end
        if closer == "}" and _KEY_FOLLOWS.match(text, self._at):
            self.repairs["a missing comma"] = None
            return ","
        is_whole = text[end - 1] in "}]\"'“”‘’"  # a number may be truncated
        is_over = is_whole and _ENDS_OBJECT.match(text, end) and _last_mark(text) < end
        if not (self._allow_unclosed and is_over and self._closers == [("}", "}")]):
            why = f"expected , or {closer}" if text[self._at :] else "it is cut off"
            raise UnreadableError(self._at, why)
        self.repairs["a missing brace at the end"] = None
        self.unclosed = True
        return self._closers.pop()[1]

    def _append(self, token: str, width: int) -> None:
        self._out.append(token)
        self._positions.append(self._at)
        self._at += width
        self.end = self._at if width else self.end

    def _skip(self) -> str:
        """Skip white space and comments; return the character that follows, empty at the end."""
        gap = _GAP.match(self._text, self._at)
        if gap and gap[0].strip():
            self.repairs["a comment"] = None
        self._at = gap.end() if gap else self._at
        return self._text[self._at : self._at + 1]

    def _word(self) -> tuple[str, int]:
        """A key without quotes, a number or a literal."""
        if key := _BARE_KEY.match(self._text, self._at):
            self.repairs["an unquoted key"] = None
            return json.dumps(key[0]), len(key[0])
        word = _WORD.match(self._text, self._at)
        if word is None:
            why = "expected a value" if self._text[self._at :] else "it is cut off"
            raise UnreadableError(self._at, why)
        if word[0] in _LITERALS:
            self.repairs["Python's True, False or None"] = None
        return _LITERALS.get(word[0], word[0]), len(word[0])

    def _string(self) -> tuple[str, int]:
        """A string; unescaped backslashes in it are escaped if that is unambiguous."""
        opening, start = self._text[self._at], self._at
        is_key = self._closers[-1:] == [("}", "}")] and self._out[-1] in ("{", ",")
        pattern = _EXACT_STRING if is_key and opening == '"' else _STRINGS[opening]
        found = pattern.match(self._text, start)
        raw = found[1] if found else ""
        escapes = [each for each in _ESCAPE.finditer(raw) if each[1]]
        inside = raw.count('"') - sum(each[1] == '"' for each in escapes) if opening == '"' else 0
        if found is None or inside % 2:
            raise UnreadableError(start, "a string has no closing quote")
        if inside:
            self.repairs["unescaped quotes in a string"] = None
        strange = [each for each in escapes if not _is_known(each[1])]
        if strange:
            mixed = any(_is_known(each[1]) and each[1][0] in "bfnrtu\\" for each in escapes)
            if mixed or any(_OTHER_ESCAPE.match(raw, each.start()) for each in strange):
                raise UnreadableError(start, "a backslash in a string is not escaped")
            self.repairs["unescaped backslashes in a string"] = None
        if any(mark in raw for mark in "\n\t\r"):
            self.repairs["a raw line break or tab in a string"] = None
        if opening != '"':
            self.repairs["quotes that are not valid in JSON"] = None
        value = json.loads(f'"{_ESCAPE.sub(_as_json, raw)}"', strict=False)
        return json.dumps(value), len(found[0])


def _is_known(escape: str) -> bool:
    return escape != "u" and escape[0] in "\"'\\/bfnrtu“”‘’"


def _as_json(match: re.Match[str]) -> str:
    """An escape sequence or a quote as valid JSON."""
    escape = match[1]
    if escape is None or not _is_known(escape):
        return json.dumps(match[0])[1:-1]
    return escape if escape in "'“”‘’" else match[0]


@functools.lru_cache(maxsize=1)
def _last_mark(text: str) -> int:
    """The index of the last quote or bracket, or -1."""
    return max(text.rfind(mark) for mark in "{}[]\"'“”‘’")
