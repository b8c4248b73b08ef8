"""The forgiving grammar: one way to read a text that is nearly JSON, given where each of its strings ends.

It is a plain descent over the text. Wherever a string could end at more than one quote it takes the one that it
is told to take, and notes how many there were, so that `lenient` can try them all.
"""

from __future__ import annotations

import json
import re

from archytas_nb.loop.events import Json
from archytas_nb.loop.exact import EXACT, MAX_DEPTH, UnreadableError, Work, unique
from archytas_nb.loop.strings import CLOSERS, NEXT_KEY, Closings, decoded, quotes, skip

_AFTERWARDS = re.compile(r"""\s*(?:</|<\|)|\s*\n\s*[^"'“”‘’{}\[\]:,]|\s*```""")
_STRING_ENDS = re.compile(r"""["'“”‘’]\s*\}""")
_BARE_KEY = re.compile(r"([A-Za-z_][\w-]*)\s*:")
_NUMBER = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.])")
_WORD = re.compile(r"[A-Za-z_]+(?![\w(.])")
_LITERALS = {"true": True, "false": False, "null": None, "True": True, "False": False, "None": None}


class Attempt:
    """One reading of a text.

    Args:
        text: Any text.
        closings: The quotes that may close its strings.
        choices: Which of its possible closing quotes each string takes, in order; the first where it is not said.
        work: How much work may be done.
        may_be_open: Whether the last closing brace may be missing.

    Attributes:
        mended: What had to be mended, in words.
        uneven: Whether a string holds an odd number of unescaped quotes: it may have ended somewhere else.
        joined: Whether a comma is missing within a line: what follows may be a part of the string before it.
        open: Whether the last closing brace was missing.
    """

    def __init__(
        self, text: str, closings: Closings, choices: list[int], work: Work, *, may_be_open: bool
    ) -> None:
        self.text = text
        self.may_be_open = may_be_open
        self.mended: list[str] = []
        self.uneven = False
        self.joined = False
        self.open = False
        self._closings = closings
        self._work = work
        self._choices = choices
        self._taken: list[
            tuple[int, int]
        ] = []  # per string: where it opens, and which closing quote was taken

    def next_choices(self) -> list[int]:
        """The choices of the next attempt, as in counting; empty where all are tried."""
        taken = list(self._taken)
        while taken:
            at, choice = taken.pop()
            if self._closings.get(at, choice + 1) is not None:
                return [*(each for _, each in taken), choice + 1]
        return []

    def value(self, at: int, depth: int = 0) -> tuple[Json, int]:
        """Read the value at a place.

        Returns:
            The value, and the place after it.

        Raises:
            UnreadableError: There is none.
        """
        at = self._skip(at)
        if depth > MAX_DEPTH:
            raise UnreadableError(at, "it is nested too deeply")
        mark = self.text[at : at + 1]
        if mark == "{":
            return self._object(at, depth)
        if mark == "[":
            return self._array(at, depth)
        if mark in CLOSERS and mark:
            return self._string(at)
        return self._scalar(at)

    def _object(self, start: int, depth: int) -> tuple[Json, int]:
        pairs: list[tuple[str, Json]] = []
        at = self._skip(start + 1)
        while True:
            if self.text[at : at + 1] == "}":
                return self._unique(pairs, start), at + 1
            key, at = self._key(at)
            value, at = self.value(at, depth + 1)
            pairs.append((key, value))
            end, at = at, self._skip(at)
            mark = self.text[at : at + 1]
            if mark == ",":
                at = self._skip(at + 1)
                if self.text[at : at + 1] == "}":
                    self.mended.append("a trailing comma")
            elif mark != "}":
                if NEXT_KEY.match(self.text, end):
                    self.mended.append("a missing comma")
                    self.joined |= "\n" not in self.text[end:at]
                elif depth == 0 and self.may_be_open and self._is_over(end, value):
                    self.mended.append("a missing brace at the end")
                    self.open = True
                    return self._unique(pairs, start), end
                else:
                    raise UnreadableError(
                        at, "expected a comma or a closing brace" if mark else "it is cut off"
                    )

    def _unique(self, pairs: list[tuple[str, Json]], start: int) -> Json:
        try:
            return unique(pairs)
        except UnreadableError as error:
            raise UnreadableError(start, error.why) from None

    def _is_over(self, end: int, value: Json) -> bool:
        """Whether only the outermost brace is missing: all inside is closed, and no more of it follows."""
        if not self.text[end:].strip():  # a number at the very end may have lost digits
            return isinstance(value, (str, dict, list)) or value in (True, False, None)
        if _STRING_ENDS.search(self.text, end):  # what follows may still be a string of this object
            return False
        return bool(_AFTERWARDS.match(self.text, end))

    def _array(self, start: int, depth: int) -> tuple[Json, int]:
        items: list[Json] = []
        at = self._skip(start + 1)
        while True:
            if self.text[at : at + 1] == "]":
                return items, at + 1
            item, at = self.value(at, depth + 1)
            items.append(item)
            at = self._skip(at)
            mark = self.text[at : at + 1]
            if mark == ",":
                at = self._skip(at + 1)
                if self.text[at : at + 1] == "]":
                    self.mended.append("a trailing comma")
            elif mark != "]":
                raise UnreadableError(
                    at, "expected a comma or a closing bracket" if mark else "it is cut off"
                )

    def _key(self, at: int) -> tuple[str, int]:
        if bare := _BARE_KEY.match(self.text, at):
            self.mended.append("a key without quotes")
            return bare[1], bare.end()
        mark = self.text[at : at + 1]
        if not mark or mark not in CLOSERS:
            raise UnreadableError(
                at, "expected a key in double quotes" if mark else "it is cut off"
            )
        close = next(quotes(self.text, at), None)
        self._work.spend((len(self.text) if close is None else close) - at)
        if close is None:
            raise UnreadableError(at, "a key has no closing quote")
        colon = self._skip(close + 1)
        if self.text[colon : colon + 1] != ":":
            raise UnreadableError(colon, "expected a colon after the key")
        if mark != '"':
            self.mended.append("quotes that JSON does not know")
        return self._decoded(at + 1, close), colon + 1

    def _scalar(self, at: int) -> tuple[Json, int]:
        if number := _NUMBER.match(self.text, at):
            try:
                return EXACT.decode(number[0]), number.end()
            except json.JSONDecodeError:
                if re.match(r"[+-]?0\d", number[0]):  # an octal number? a date? a code?
                    raise UnreadableError(at, f"{number[0]} is no JSON number") from None
            self.mended.append("a number in another notation")
            return float(number[0]) if re.search(r"[.eE]", number[0]) else int(
                number[0]
            ), number.end()
        word = _WORD.match(self.text, at)
        if word is None or word[0] not in _LITERALS:
            raise UnreadableError(
                at, "expected a value" if self.text[at : at + 1] else "it is cut off"
            )
        if word[0][0].isupper():
            self.mended.append("Python's True, False or None")
        return _LITERALS[word[0]], word.end()

    def _string(self, at: int) -> tuple[str, int]:
        quote = self.text[at]
        if self.text.startswith(quote * 3, at) and self.text.find(quote * 3, at + 3) != -1:
            return self._triple(at, quote * 3)
        number = len(self._taken)
        choice = self._choices[number] if number < len(self._choices) else 0
        closing = self._closings.get(at, choice)
        if closing is None:
            raise UnreadableError(at, "a string has no closing quote")
        self._taken.append((at, choice))
        close, inside = closing
        if inside:
            self.mended.append("quotes in a string that were not escaped")
            self.uneven |= inside % 2 == 1
        if quote != '"':
            self.mended.append("quotes that JSON does not know")
        return self._decoded(at + 1, close), close + 1

    def _triple(self, at: int, quotes: str) -> tuple[str, int]:
        close = self.text.find(quotes, at + 3)
        if close == -1:
            raise UnreadableError(at, "a string has no closing quotes")
        self.mended.append("triple quotes")
        return self._decoded(at + 3, close), close + 3

    def _decoded(self, start: int, end: int) -> str:
        self._work.spend(end - start)
        value, mended = decoded(self.text, start, end)
        self.mended += mended
        return value

    def _skip(self, at: int) -> int:
        start = at
        at, commented = skip(self.text, at)
        self._work.spend(at - start + 1)
        if commented:
            self.mended.append("a comment")
        return at
