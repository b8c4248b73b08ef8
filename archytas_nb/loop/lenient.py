"""Reads JSON as models write it: strict JSON first, then one tolerant parser.

The parser repairs what has one meaning: trailing and missing commas, comments, other quotes,
Python's literals, bare keys, raw line breaks, quotes and backslashes in strings that are not
escaped, and a missing last brace. No other value that was cut off is completed.
"""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from archytas_nb.loop.events import Json

MAX_DEPTH = 80
"""Levels of nesting which are read; no tool takes more, and recursion elsewhere must return."""

_PAIRS = {'"': '"', "'": "'", "“": '“”"', "”": '“”"', "‘": "‘’'", "’": "‘’'"}
_QUOTES = {mark: re.compile(rf"\\.|[{ends}]", re.DOTALL) for mark, ends in _PAIRS.items()}
"""By opening quote: the quotes which may close the string, and escapes, which are skipped."""

_COMMENT = (  # with a quote in it, it may be part of a string
    r"""(?://|\#)(?:[^\n"'“”‘’]|(?<=\w)['’](?=\w))*+(?=\n|\Z)"""
    r"""|/\*(?:[^"'“”‘’*]|(?<=\w)['’](?=\w)|\*(?!/))*+\*/"""
)
_GAP = re.compile(rf"(?:\s|{_COMMENT})*+")
_KEY = r"""(?:"[^"\n]*"|'[^'\n]*'|[“”][^“”\n]*[“”]|[‘’][^‘’\n]*[‘’]|[A-Za-z_][\w-]*)\s*:"""
_MEMBER_FOLLOWS = re.compile(rf"{_KEY}|\}}")
_ITEM_FOLLOWS = re.compile(r"""["'“”‘’\[{\]\d.+-]|(?:true|false|null|True|False|None)\b""")
_KEY_FOLLOWS = re.compile(r"""["'“”‘’]\w[^"'“”‘’\n]*["'“”‘’]\s*:""")
_BARE_KEY = re.compile(r"([A-Za-z_][\w-]*)(?=\s*:)")
_ENDS_TEXT = re.compile(r"\s*(?:\Z|[`<,\])}])|[^\S\n]*\n")
_ENDS_OBJECT = re.compile(r"""\s*(?:\Z|</|<\||```)|[^\S\n]*\n\s*[^"'“”‘’{}\[\]:,\s]""")
_STRING_THEN_BRACE = re.compile(r"""["'“”‘’]\s*\}""")
_SWALLOWED = re.compile(r"""\s*[^{\[\s].*?,\s*["'“”‘’][^"'“”‘’\n]*["'“”‘’]\s*:""", re.DOTALL)
"""A text, but no JSON, in which there seems to be a member of the object around it."""
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_]+(?![\w(.])")
_LITERALS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}
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
    """Read the JSON value which begins at an index; text after it is ignored. It takes linear time.

    Args:
        text: Any text.
        at: Where the value begins.
        may_be_open: Whether the last closing brace may be missing.

    Raises:
        UnreadableError: There is no value, it is cut off, or it has more than one meaning.
    """
    try:
        try:
            value, end = STRICT.raw_decode(text, at)
            return Reading(replace_surrogates(value), end)
        except json.JSONDecodeError:
            parser = _Parser(text, at, may_be_open=may_be_open)
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


def unique(pairs: list[tuple[str, Json]]) -> dict[str, Json]:
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


STRICT = json.JSONDecoder(
    object_pairs_hook=unique, parse_constant=_no_constant, parse_float=_finite
)


class _Parser:
    """Reads a value that is nearly JSON, from left to right in linear time."""

    def __init__(self, text: str, at: int, *, may_be_open: bool) -> None:
        self.end = at  # after the last token
        self.repairs: dict[str, None] = {}
        self.open = False
        self._text, self._at = text, at
        self._may_be_open = may_be_open
        self._closers: list[str] = []  # of the objects and arrays which are open

    def value(self) -> Json:
        """Read the value that comes next."""
        mark = self._skip()
        if mark in ("{", "["):
            if len(self._closers) > MAX_DEPTH:
                raise UnreadableError(self._at, "it is nested too deeply")
            self._closers.append("}" if mark == "{" else "]")
            self._take(self._at + 1)
            value = unique(list(self._members())) if mark == "{" else list(self._items())
            self._closers.pop()
            return value
        if mark in _PAIRS:
            return self._string()
        if number := _NUMBER.match(self._text, self._at):
            try:
                value = STRICT.decode(number[0])
            except json.JSONDecodeError:  # an octal number? a date? a code?
                raise UnreadableError(self._at, f"{number[0]} is no JSON number") from None
            self._take(number.end())
            return value
        word = _WORD.match(self._text, self._at)
        if word is None or word[0] not in _LITERALS:
            raise UnreadableError(self._at, "expected a value" if mark else "it is cut off")
        if word[0][0].isupper():
            self.repairs["Python's True, False or None"] = None
        self._take(word.end())
        return _LITERALS[word[0]]

    def _members(self) -> Iterator[tuple[str, Json]]:
        more = self._goes_on(is_first=True)
        while more:
            key = self._key()
            if self._skip() != ":":
                raise UnreadableError(self._at, "expected a colon after the key")
            self._take(self._at + 1)
            yield key, self.value()
            more = self._goes_on()

    def _items(self) -> Iterator[Json]:
        more = self._goes_on(is_first=True)
        while more:
            yield self.value()
            more = self._goes_on()

    def _take(self, end: int) -> None:
        self._at = self.end = end

    def _skip(self) -> str:
        """Skip white space and comments; return the character that follows, empty at the end."""
        start, self._at = self._at, self._after_gap(self._at)
        if self._text[start : self._at].strip():
            self.repairs["a comment"] = None
        return self._text[self._at : self._at + 1]

    def _after_gap(self, at: int) -> int:
        gap = _GAP.match(self._text, at)
        return gap.end() if gap else at

    def _goes_on(self, *, is_first: bool = False) -> bool:
        """Whether the innermost object or array has another member; else it is closed."""
        mark, closer = self._skip(), self._closers[-1]
        if mark == "," and not is_first:
            self._at += 1
            mark = self._skip()
            if mark != closer:
                return True
            self.repairs["a trailing comma"] = None
        if mark == closer:
            self._take(self._at + 1)
            return False
        if is_first:
            return True
        if closer == "}" and _KEY_FOLLOWS.match(self._text, self._at):
            self.repairs["a missing comma"] = None
            return True
        # A number at the end of the text may have lost digits.
        if self._is_over(self.end) and (mark or not self._text[self.end - 1].isdigit()):
            self.repairs["a missing brace at the end"] = None
            self.open = True
            return False
        what = "brace" if closer == "}" else "bracket"
        why = f"expected a comma or a closing {what}" if mark else "it is cut off"
        raise UnreadableError(self._at, why)

    def _is_over(self, end: int) -> bool:
        """Whether only the outermost brace is missing: what follows cannot belong to the object."""
        return (
            self._may_be_open
            and self._closers == ["}"]
            and _ENDS_OBJECT.match(self._text, end) is not None
            and _last_string_then_brace(self._text) < end
        )

    def _key(self) -> str:
        mark = self._skip()
        if bare := _BARE_KEY.match(self._text, self._at):
            self.repairs["a key without quotes"] = None
            self._take(bare.end())
            return bare[1]
        if mark not in _PAIRS:
            why = "expected a key in double quotes" if mark else "it is cut off"
            raise UnreadableError(self._at, why)
        close = next(self._quotes(), -1)
        if close == -1:
            raise UnreadableError(self._at, "a key has no closing quote")
        return self._decoded(self._at + 1, close, 1)

    def _string(self) -> str:
        mark, at = self._text[self._at], self._at
        if self._text.startswith(mark * 3, at):
            close = self._text.find(mark * 3, at + 3)
            if close != -1:
                self.repairs["triple quotes"] = None
                return self._decoded(at + 3, close, 3)
        return self._decoded(at + 1, self._closing_quote(), 1)

    def _closing_quote(self) -> int:
        """The index of the quote which closes the string value that opens here.

        It is the first which leaves the quotes inside in pairs, as those of a quotation, and after
        which the object or array goes on.
        """
        for inside, n in enumerate(self._quotes()):
            opens = inside % 2 == 0
            if opens and self._string_may_end(n + 1):
                if inside and _SWALLOWED.match(self._text, self._at + 1, n):
                    break
                if inside:
                    self.repairs["quotes in a string that were not escaped"] = None
                return n
            if not self._may_turn(n, opens=opens):
                break
        raise UnreadableError(self._at, "a string has no closing quote")

    def _quotes(self) -> Iterator[int]:
        """The quotes which may close the string here; no escapes, or apostrophes in words."""
        text = self._text
        for each in _QUOTES[text[self._at]].finditer(text, self._at + 1):
            n = each.start()
            around = text[n - 1] + text[n + 1 : n + 2]
            is_in_word = text[n] != '"' and len(around) == 2 and around.isalnum()
            if text[n] != "\\" and not is_in_word:
                yield n

    def _string_may_end(self, end: int) -> bool:
        """Whether what follows is the rest of the object or array that the string is in."""
        text = self._text
        if not self._closers:
            return _ENDS_TEXT.match(text, end) is not None
        at, closer = self._after_gap(end), self._closers[-1]
        if text.startswith(closer, at):
            return True
        if text.startswith(",", at):
            follows = _MEMBER_FOLLOWS if closer == "}" else _ITEM_FOLLOWS
            return follows.match(text, self._after_gap(at + 1)) is not None
        if closer == "}" and _KEY_FOLLOWS.match(text, at):
            return True
        return self._is_over(end)

    def _may_turn(self, n: int, *, opens: bool) -> bool:
        """Whether a quotation may begin or end at a quote: its outer side is no letter."""
        before, after = self._text[n - 1], self._text[n + 1 : n + 2]
        starts = before in " \t\n([{=<>:,/+-\"'“”‘’"
        if opens:
            return starts or not (after.isspace() or after in ",:;.!?)]}")
        return not starts or after in " \t\n)]}=<>:;,.!?/+-\"'“”‘’"

    def _decoded(self, start: int, close: int, width: int) -> str:
        """The text of a string whose quotes are so many characters wide."""
        raw = self._text[start:close]
        escapes = [each for each in _ESCAPE.finditer(raw) if each[1]]
        strange = [each for each in escapes if not _is_known(each[1])]
        if strange:
            mixed = any(_is_known(each[1]) and each[1][0] in "bfnrtu\\" for each in escapes)
            if mixed or any(_OTHER_ESCAPE.match(raw, each.start()) for each in strange):
                raise UnreadableError(start, "a backslash in a string is not escaped")
            self.repairs["backslashes in a string that were not escaped"] = None
        if any(mark in raw for mark in "\n\t\r"):
            self.repairs["a raw line break or tab in a string"] = None
        if width == 1 and self._text[start - 1] != '"':
            self.repairs["quotes that JSON does not know"] = None
        self._take(close + width)
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
def _last_string_then_brace(text: str) -> int:
    """The index of the last quote with a closing brace after it, or -1."""
    return max((each.start() for each in _STRING_THEN_BRACE.finditer(text)), default=-1)
