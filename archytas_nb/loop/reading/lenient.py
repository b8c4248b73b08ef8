"""Reads JSON as models write it: valid JSON unchanged, and invalid JSON by repairing its tokens.

Only unambiguous mistakes are repaired: trailing and missing commas, comments, other quotes, Python
literals, unquoted keys, raw line breaks, triple quotes around several lines, unescaped
backslashes, and a missing last brace. Unescaped quotes belong to a string if they come in pairs,
like those of a quotation, and what follows each of them cannot follow a string; or if they are
those of a JSON object that fills the string. The arguments of a Python call are read in the same
way.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import NoReturn

from archytas_nb.exact import exact_float
from archytas_nb.loop.events import Json

MAX_DEPTH = 80
"""Maximum levels of nesting; no tool needs more, and recursion elsewhere must end."""

_CLOSERS = {"{": "}", "[": "]", "(": ")"}
_CLOSING_QUOTES = {'"': '"', "'": "'", "“": '“”"', "”": '“”"', "‘": "‘’'", "’": "‘’'"}
"""By opening quote, the quotes that may close the string."""

_QUOTES = {
    opening: re.compile(rf"\\.|[{closing}]", re.DOTALL)
    for opening, closing in _CLOSING_QUOTES.items()
}
"""By opening quote, the quotes that may close the string, and escapes, which do not."""
_COMMENT = r"""(?://|\#)[^\n"'“”‘’]*+(?=\n|\Z)|/\*[^"'“”‘’*]*+\*/"""
"""A comment with a quote in it may be the rest of a broken string."""
_GAP = re.compile(rf"(?:\s|{_COMMENT})*+")
_WORD = re.compile(r"[\w.+-]+")
_BARE_KEY = re.compile(r"[A-Za-z_][\w-]*(?=\s*[:=])")
_KEY = r"""(?:"[^"\n]*"|'[^'\n]*'|[“”][^“”"\n]*[“”"]|[‘’][^‘’'\n]*[‘’']|[A-Za-z_][\w-]*)\s*[:=]"""
_MEMBER = re.compile(rf"{_KEY}|[}})]")
_ITEM = re.compile(r"""["'“”‘’\[{(\])\d.+-]|(?:true|false|null|True|False|None)\b""")
_QUOTED_OBJECT = re.compile(r"""\s*(?P<object>\{)\s*"(?=[^"\n]*"\s*:)""")
"""The beginning of an object, after an opening quote, up to the first quote in it."""
_QUOTED_KEY = re.compile(r"""["'“”‘’][^"'“”‘’\n]*["'“”‘’]\s*:""")
_BEFORE_QUOTATION = " \t\n([{=<>:,/+-\"'“”‘’"
_AFTER_QUOTATION = " \t\n)]}=<>:;,.!?/+-\"'“”‘’"
_NOT_IN_QUOTATION = ",:;.!?)]}"
"""Characters that do not follow the opening quote of a quotation."""

_ENDS_TEXT = re.compile(r"\s*(?:\Z|[`<,\])}])|[^\S\n]*\n")
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
        except json.JSONDecodeError:
            return _Tokens(text, at, allow_unclosed=allow_unclosed).reading()
        return Reading(replace_surrogates(value), end)
    except RecursionError:
        raise UnreadableError(at, "it is nested too deeply") from None
    except UnreadableError as error:
        raise UnreadableError(max(at, error.at), error.why) from None
    except ValueError:  # a number with thousands of digits
        raise UnreadableError(at, "it holds a number that is too long") from None


def replace_surrogates(value: Json, depth: int = 0) -> Json:
    """Replace lone surrogates in the texts of a value, because they cannot be sent."""
    if isinstance(value, str):
        if value.isascii():
            return value
        return _SURROGATE.sub("\ufffd", value)
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
    number = exact_float(digits)
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
        self._text = text
        self._at = at
        self._allow_unclosed = allow_unclosed
        self._closers: list[tuple[str, str]] = []  # expected: as written, and as JSON
        self._out: list[str] = []
        self._positions: list[int] = []  # the index of each token in the text
        while not self._out or self._closers:
            self._next()

    def reading(self) -> Reading:
        """The value of the tokens, and what was repaired."""
        try:
            value = _STRICT.decode("".join(self._out))
        except json.JSONDecodeError as error:
            ends = list(itertools.accumulate(map(len, self._out)))
            n = min(bisect.bisect_right(ends, error.pos), len(ends) - 1)
            why = error.msg[0].lower() + error.msg[1:]
            raise UnreadableError(self._positions[n], why) from None
        return Reading(replace_surrogates(value), self.end, tuple(self.repairs), self.unclosed)

    def _next(self) -> None:
        """Add the next token."""
        mark = self._skip()
        closer = ""
        if self._closers:
            closer = self._closers[-1][0]
        if mark and mark == closer:
            self._close()
        elif mark in (",", ":"):
            self._append(mark, 1)
        elif mark == "=" and closer == ")":
            self._append(":", 1)
        elif self._out and self._out[-1] not in ("{", "[", ",", ":"):
            self._append(self._missing_token(closer), 0)
        elif mark in _CLOSERS:
            self._open(mark)
        elif mark in _QUOTES:
            self._append(*self._string())
        else:
            self._append(*self._word())

    def _open(self, mark: str) -> None:
        """Add an opening brace or bracket; the parenthesis of a call may stand for either."""
        if len(self._closers) > MAX_DEPTH:
            raise UnreadableError(self._at, "it is nested too deeply")
        opener = "["
        if mark == "{" or _NAMED.match(self._text, self._at):
            opener = "{"
        self._closers.append((_CLOSERS[mark], _CLOSERS[opener]))
        self._append(opener, 1)

    def _close(self) -> None:
        """Add a closing brace or bracket, without the comma before it."""
        if self._out[-1] == "," and self._out[-2] not in ("{", "["):
            self._out.pop()
            self._positions.pop()
            self.repairs["a trailing comma"] = None
        _, json_closer = self._closers.pop()
        self._append(json_closer, 1)

    def _missing_token(self, closer: str) -> str:
        """The token, a comma or a brace, that must be missing after a value."""
        text = self._text
        if closer == "}" and _KEY_FOLLOWS.match(text, self._at):
            self.repairs["a missing comma"] = None
            return ","
        is_whole = text[self.end - 1] in "}]\"'“”‘’"  # a number may be truncated
        if not (is_whole and self._is_over(self.end)):
            raise self._expected(f", or {closer}")
        self.repairs["a missing brace at the end"] = None
        self.unclosed = True
        return self._closers.pop()[1]

    def _is_over(self, end: int) -> bool:
        """Whether only the last brace is missing: what follows cannot belong to the object."""
        return (
            self._allow_unclosed
            and self._closers == [("}", "}")]
            and _ENDS_OBJECT.match(self._text, end) is not None
            and _last_mark(self._text) < end
        )

    def _expected(self, what: str) -> UnreadableError:
        """The error of a text that continues with something else, or ends here."""
        if self._text[self._at :]:
            return UnreadableError(self._at, f"expected {what}")
        return UnreadableError(self._at, "it is cut off")

    def _append(self, token: str, width: int) -> None:
        self._out.append(token)
        self._positions.append(self._at)
        self._at += width
        if width:
            self.end = self._at

    def _skip(self) -> str:
        """Skip white space and comments; return the character that follows, empty at the end."""
        after = _after_gap(self._text, self._at)
        if self._text[self._at : after].strip():
            self.repairs["a comment"] = None
        self._at = after
        return self._text[self._at : self._at + 1]

    def _word(self) -> tuple[str, int]:
        """A key without quotes, a number or a literal."""
        if key := _BARE_KEY.match(self._text, self._at):
            self.repairs["an unquoted key"] = None
            return json.dumps(key[0]), len(key[0])
        word = _WORD.match(self._text, self._at)
        if word is None:
            raise self._expected("a value")
        if word[0] in _LITERALS:
            self.repairs["Python's True, False or None"] = None
        return _LITERALS.get(word[0], word[0]), len(word[0])

    def _string(self) -> tuple[str, int]:
        """A string as JSON, and its width in the text."""
        start = self._at
        opening = self._text[start]
        if opening == '"':
            inside = _QUOTED_OBJECT.match(self._text, start + 1)
            if inside and not self._string_may_end(inside.end()):
                return self._quoted_object(inside.start("object"))
        if self._text.startswith(opening * 3, start):
            close = self._text.find(opening * 3, start + 3)
            if close != -1:
                return self._triple_quoted(close)
        is_key = self._closers[-1:] == [("}", "}")] and self._out[-1] in ("{", ",")
        if is_key:
            close = next(self._quotes(), -1)
        else:
            close = self._closing_quote()
        if close == -1:
            raise UnreadableError(start, "a string has no closing quote")
        if opening != '"':
            self.repairs["quotes that are not valid in JSON"] = None
        return self._decoded(start + 1, close), close + 1 - start

    def _quoted_object(self, start: int) -> tuple[str, int]:
        """An object in quotes whose own quotes are unescaped, as a string."""
        try:
            _, end = _STRICT.raw_decode(self._text, start)
        except json.JSONDecodeError as error:
            why = "an object in quotes is no valid JSON"
            raise UnreadableError(error.pos, why) from None
        inside = self._text[start:end]
        if "\\" in inside:
            raise UnreadableError(start, "an object in quotes has backslashes")
        close = _after_gap(self._text, end)
        if self._text[close : close + 1] != '"':
            raise UnreadableError(end, "an object in quotes has no closing quote")
        self.repairs["unescaped quotes in a string"] = None
        return json.dumps(inside), close + 1 - self._at

    def _triple_quoted(self, close: int) -> tuple[str, int]:
        """A string in triple quotes, as Python has them.

        On one line, the quotes may also be text of a string.
        """
        start = self._at + 3
        end = close + 3
        is_python = "\n" in self._text[start:close]
        if not is_python or _QUOTED_KEY.search(self._text, start, close):
            raise UnreadableError(self._at, "three quotes may begin a string or be part of one")
        if not self._string_may_end(end):
            raise UnreadableError(close, "a string in triple quotes does not end here")
        self.repairs["triple quotes"] = None
        return self._decoded(start, close), end - self._at

    def _closing_quote(self) -> int:
        """The index of the quote that closes the string value here, or -1.

        It is the first quote after which the object or array may continue, with only pairs of
        quotation marks before it.
        """
        for quotes_before, quote in enumerate(self._quotes()):
            is_paired = quotes_before % 2 == 0
            if is_paired and self._string_may_end(quote + 1):
                if quotes_before and _QUOTED_KEY.search(self._text, self._at + 1, quote):
                    return -1  # a quote may be missing before a member
                if quotes_before:
                    self.repairs["unescaped quotes in a string"] = None
                return quote
            if not self._is_quotation_mark(quote, opens=is_paired):
                return -1
        return -1

    def _quotes(self) -> Iterator[int]:
        """The indices of quotes that may close the string here: no escapes, no apostrophes."""
        text = self._text
        for found in _QUOTES[text[self._at]].finditer(text, self._at + 1):
            at = found.start()
            mark = text[at]
            is_in_word = text[at - 1].isalnum() and text[at + 1 : at + 2].isalnum()
            is_apostrophe = mark != '"' and is_in_word
            if mark != "\\" and not is_apostrophe:
                yield at

    def _string_may_end(self, end: int) -> bool:
        """Whether the object or array may continue or end at an index, after a string."""
        text = self._text
        if not self._closers:
            return _ENDS_TEXT.match(text, end) is not None
        at = _after_gap(text, end)
        closer, json_closer = self._closers[-1]
        is_object = json_closer == "}"
        if at == len(text) or text.startswith(closer, at):
            return True
        if text.startswith(",", at):
            following = _ITEM
            if is_object:
                following = _MEMBER
            return following.match(text, _after_gap(text, at + 1)) is not None
        if is_object and (_KEY_FOLLOWS.match(text, at) or _BARE_KEY.match(text, at)):
            return True  # a comma is missing
        return self._is_over(end)

    def _is_quotation_mark(self, at: int, *, opens: bool) -> bool:
        """Whether a quotation may begin or end at a quote, judging by what is next to it."""
        before = self._text[at - 1]
        after = self._text[at + 1 : at + 2]
        follows_text = before not in _BEFORE_QUOTATION
        if opens:
            precedes_text = bool(after) and not after.isspace() and after not in _NOT_IN_QUOTATION
            return precedes_text or not follows_text
        return follows_text or after in _AFTER_QUOTATION

    def _decoded(self, start: int, end: int) -> str:
        """The inside of a string as a JSON string.

        Unescaped backslashes are escaped if that is unambiguous.
        """
        raw = self._text[start:end]
        escapes = [each for each in _ESCAPE.finditer(raw) if each[1]]
        unknown = [each for each in escapes if not _is_known(each[1])]
        if unknown:
            is_mixed = any(_is_known(each[1]) and each[1][0] in "bfnrtu\\" for each in escapes)
            is_python = any(_OTHER_ESCAPE.match(raw, each.start()) for each in unknown)
            if is_mixed or is_python:
                raise UnreadableError(start, "a backslash in a string is not escaped")
            self.repairs["unescaped backslashes in a string"] = None
        if any(mark in raw for mark in "\n\t\r"):
            self.repairs["a raw line break or tab in a string"] = None
        value = json.loads(f'"{_ESCAPE.sub(_as_json, raw)}"', strict=False)
        return json.dumps(value)


def _is_known(escape: str) -> bool:
    return escape != "u" and escape[0] in "\"'\\/bfnrtu“”‘’"


def _as_json(match: re.Match[str]) -> str:
    """An escape sequence or a quote as valid JSON."""
    escape = match[1]
    if escape is None or not _is_known(escape):
        return json.dumps(match[0])[1:-1]
    if escape in "'“”‘’":
        return escape
    return match[0]


def _after_gap(text: str, at: int) -> int:
    """The index after the white space and the comments at an index."""
    gap = _GAP.match(text, at)
    if gap is None:
        return at
    return gap.end()


@functools.lru_cache(maxsize=1)
def _last_mark(text: str) -> int:
    """The index of the last quote or bracket, or -1."""
    return max(text.rfind(mark) for mark in "{}[]\"'“”‘’")
