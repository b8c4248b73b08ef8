"""Reads JSON as models write it: strict JSON first, then one tolerant parser.

The parser repairs what has one meaning: trailing and missing commas, comments, other quotes,
Python's literals, bare keys, raw line breaks, backslashes that are not escaped, and a missing last
brace. A quote that is not escaped is part of a string where nothing follows it that may follow a
value, and where such quotes come in pairs. Arguments in Python are read by the same rules.
"""

from __future__ import annotations

import functools
import json
import re
from dataclasses import dataclass
from typing import NoReturn

from archytas_nb.loop.events import Json

MAX_DEPTH = 80
"""Levels of nesting that are read; no tool takes more, and recursion elsewhere must return."""

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
"""One with a quote in it may be the rest of a string that is broken."""
_GAP = re.compile(rf"(?:\s|{_COMMENT})*+")
_NUMBER = re.compile(r"-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_][\w-]*")
_LITERALS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
_KEY_FOLLOWS = re.compile(r"""["'“”‘’]\w[^"'“”‘’\n]*["'“”‘’]\s*:""")
_ENDS_OBJECT = re.compile(r"\s*(?:\Z|</|<\||```)|[^\S\n]*\n\s*(?:Observation|Outcome)\b")
_ESCAPE = re.compile(r"""\\(u[0-9a-fA-F]{4}|.)|["]""", re.DOTALL)
_OTHER_ESCAPE = re.compile(
    r"\\(?:x[0-9a-fA-F]|U[0-9a-fA-F]{2}|u[0-9a-fA-F]|N\{|0|[1-7][0-7]{2}|[av](?![a-z])|\n)"
)
"""What Python and JavaScript know as an escape, and JSON does not; or a part of what it knows."""
_SURROGATE = re.compile(r"[\ud800-\udfff]")


class UnreadableError(ValueError):
    """A text that cannot be read with certainty: where, and why."""

    def __init__(self, at: int, why: str) -> None:
        super().__init__(why)
        self.at = at
        self.why = why


@dataclass(frozen=True, slots=True)
class Reading:
    """A value that was read, and where it ends in the text."""

    value: Json
    end: int
    repairs: tuple[str, ...] = ()  # in words; none for strict JSON
    open: bool = False  # the last closing brace was missing


def read_json(text: str, at: int = 0, *, may_be_open: bool = False) -> Reading:
    """Read the JSON value that begins at an index; text after it is ignored. It takes linear time.

    Args:
        text: Any text.
        at: Where the value begins; at a parenthesis, the arguments of a call in Python are read as
            a list of the values and an object of the named ones.
        may_be_open: Whether the last closing brace may be missing.

    Raises:
        UnreadableError: There is no value, it is cut off, or it has more than one meaning.
    """
    parser = _Parser(text, at, may_be_open=may_be_open)
    try:
        if text.startswith("(", at):
            return Reading(replace_surrogates(list(parser.group())), parser.at, ("a call in code",))
        try:
            value, end = _STRICT.raw_decode(text, at)
            return Reading(replace_surrogates(value), end)
        except json.JSONDecodeError:
            value = replace_surrogates(parser.value())
        return Reading(value, parser.end, tuple(parser.repairs), parser.open)
    except RecursionError:
        raise UnreadableError(at, "it is nested too deeply") from None
    except UnreadableError as error:
        raise UnreadableError(max(at, error.at), error.why) from None
    except ValueError:  # thousands of digits
        raise UnreadableError(at, "it holds a number that is too long") from None


def replace_surrogates(value: Json, depth: int = 0) -> Json:
    """Replace lone surrogates in the texts of a value, which no request could carry."""
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


def _unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
    """Make an object of its members; a key with two different values has two meanings."""
    found: dict[str, Json] = {}
    for key, value in pairs:  # 1, 1.0 and true are equal in Python, but not as JSON
        if key in found and canonical(found[key]) != canonical(value):
            raise UnreadableError(0, f"the key {key!r} is written twice with different values")
        found[key] = value
    return found


def canonical(value: Json) -> str:
    """Equal for two values that are the same JSON."""
    return json.dumps(value, sort_keys=True)


def _no_constant(word: str) -> NoReturn:
    raise UnreadableError(0, f"{word} is no JSON value; write null, or the text {word!r} in quotes")


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise UnreadableError(0, f"the number {digits} is too large")
    return number


_STRICT = json.JSONDecoder(
    object_pairs_hook=_unique, parse_constant=_no_constant, parse_float=_finite
)


class _Parser:
    """Reads a value that is nearly JSON, from left to right in linear time."""

    def __init__(self, text: str, at: int, *, may_be_open: bool) -> None:
        self.at = self.end = at  # where it reads; the end of the last token
        self.repairs: dict[str, None] = {}
        self.open = False
        self._text, self._may_be_open = text, may_be_open
        self._closers: list[str] = []  # of what is open

    def value(self) -> Json:
        """Read the value that comes next."""
        mark = self._skip()
        if mark in _CLOSERS:
            items, members = self.group()
            if mark == "(" and members:
                raise UnreadableError(self.at, "a call's values must be literals")
            return members if mark == "{" else items
        if mark in _STRINGS:
            return self._string()
        if number := _NUMBER.match(self._text, self.at):
            self._take(number.end())
            return _STRICT.decode(number[0])
        word = _WORD.match(self._text, self.at)
        if word is None or word[0] not in _LITERALS:
            raise UnreadableError(self.at, "expected a value" if mark else "it is cut off")
        if word[0][0].isupper():
            self.repairs["Python's True, False or None"] = None
        self._take(word.end())
        return _LITERALS[word[0]]

    def group(self) -> tuple[list[Json], dict[str, Json]]:
        """Read the items and the members between the brackets that open here."""
        opener = self._text[self.at]
        if len(self._closers) > MAX_DEPTH:
            raise UnreadableError(self.at, "it is nested too deeply")
        self._closers.append(_CLOSERS[opener])
        self._take(self.at + 1)
        items: list[Json] = []
        members: list[tuple[str, Json]] = []
        more = self._goes_on(is_first=True)
        while more:
            name = _WORD.match(self._text, self.at) if opener == "(" else None
            if opener == "{":
                members.append((self._key(), self.value()))
            elif name and self._text.startswith("=", name.end()):
                self._take(name.end() + 1)
                members.append((name[0], self.value()))
            else:
                items.append(self.value())
            more = self._goes_on()
        self._closers.pop()
        return items, _unique(members)

    def _take(self, end: int) -> None:
        self.at = self.end = end

    def _skip(self) -> str:
        """Skip white space and comments; return the character that follows, empty at the end."""
        gap = _GAP.match(self._text, self.at)
        if gap and gap[0].strip():
            self.repairs["a comment"] = None
        self.at = gap.end() if gap else self.at
        return self._text[self.at : self.at + 1]

    def _goes_on(self, *, is_first: bool = False) -> bool:
        """Whether what is open has another member; else it is closed."""
        mark, closer = self._skip(), self._closers[-1]
        if mark == "," and not is_first:
            self.at += 1
            mark = self._skip()
            if mark != closer:
                return True
            self.repairs["a trailing comma"] = None
        if mark == closer:
            self._take(self.at + 1)
            return False
        if is_first:
            return True
        if closer == "}" and _KEY_FOLLOWS.match(self._text, self.at):
            self.repairs["a missing comma"] = None
            return True
        if self._closers == ["}"] and self._is_over():
            self.repairs["a missing brace at the end"] = None
            self.open = True
            return False
        raise UnreadableError(self.at, f"expected , or {closer}" if mark else "it is cut off")

    def _is_over(self) -> bool:
        """Whether only the last brace is missing: nothing that follows can belong to the object."""
        text, end = self._text, self.end
        is_whole = text[end - 1] in "}]\"'“”‘’"  # a number may have lost digits
        follows = _ENDS_OBJECT.match(text, end) is not None
        return self._may_be_open and is_whole and follows and _last_mark(text) < end

    def _key(self) -> str:
        mark = self._skip()
        if mark in _STRINGS:
            key = self._string(is_key=True)
        elif bare := _WORD.match(self._text, self.at):
            self.repairs["a key without quotes"] = None
            self._take(bare.end())
            key = bare[0]
        else:
            raise UnreadableError(
                self.at, "expected a key in double quotes" if mark else "it is cut off"
            )
        if self._skip() != ":":
            raise UnreadableError(self.at, "expected a colon after the key")
        self._take(self.at + 1)
        return key

    def _string(self, *, is_key: bool = False) -> str:
        """Read a string, with the backslashes in it as what they can only mean."""
        opening, start = self._text[self.at], self.at
        pattern = _EXACT_STRING if is_key and opening == '"' else _STRINGS[opening]
        found = pattern.match(self._text, start)
        raw = found[1] if found else ""
        escapes = [each for each in _ESCAPE.finditer(raw) if each[1]]
        inside = raw.count('"') - sum(each[1] == '"' for each in escapes) if opening == '"' else 0
        if found is None or inside % 2:
            raise UnreadableError(start, "a string has no closing quote")
        if inside:
            self.repairs["quotes in a string that were not escaped"] = None
        strange = [each for each in escapes if not _is_known(each[1])]
        if strange:
            mixed = any(_is_known(each[1]) and each[1][0] in "bfnrtu\\" for each in escapes)
            if mixed or any(_OTHER_ESCAPE.match(raw, each.start()) for each in strange):
                raise UnreadableError(start, "a backslash in a string is not escaped")
            self.repairs["backslashes in a string that were not escaped"] = None
        if any(mark in raw for mark in "\n\t\r"):
            self.repairs["a raw line break or tab in a string"] = None
        if opening != '"':
            self.repairs["quotes that JSON does not know"] = None
        self._take(found.end())
        return str(json.loads(f'"{_ESCAPE.sub(_as_json, raw)}"', strict=False))


def _is_known(escape: str) -> bool:
    return escape != "u" and escape[0] in "\"'\\/bfnrtu“”‘’"


def _as_json(match: re.Match[str]) -> str:
    """An escape, or a quote, as JSON has it."""
    escape = match[1]
    if escape is None or not _is_known(escape):
        return json.dumps(match[0])[1:-1]
    return escape if escape in "'“”‘’" else match[0]


@functools.lru_cache(maxsize=1)
def _last_mark(text: str) -> int:
    """The index of the last quote or bracket, or -1."""
    return max(text.rfind(mark) for mark in "{}[]\"'“”‘’")
