"""The numbers of a text, in whichever way people write them.

A number in a text is exact to its last digit, and may be read in several ways: `1,234` is more than
a thousand, or a little more than one; `5.1 kg` is 5,100 of a thing that was weighed in grams. So a
number has readings: a value, with half a unit of its last digit. Neither `babel` nor
`price-parser` serves: the first has to be told the language, the second gives one value.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

_SPACES = " \u00a0\u2009\u202f"
_GROUPS = f",.'’_٬{_SPACES}"
_POINTS = ",.٫"
_BETWEEN = f",{_SPACES}"
"""Separators of two numbers, and not only of the digits of one."""
_SIGNS = "-−–"
_LETTERS = "A-Za-z\u00aa-\u1fff"
"""Of scripts that write spaces between words: with them digits are parts of a word."""
_RUN = re.compile(
    rf"(?<![{_LETTERS}\d_])[{_SIGNS}]?"
    rf"(?:\d+(?:[{_GROUPS}٫]\d+)*|[{_POINTS}]\d+(?![{_LETTERS}]))(?![{_LETTERS}]*_\w)"
    r"(?P<power>[eE][-+]?\d+|\s?[×x·]\s?10(?:\^?[-−]?\d+|[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+))?"
)
_PER = {"%": 100, "٪": 100, "％": 100, "‰": 1000}
_PERCENT = ("p", "п")
"""With it begins the word for percent in the languages of Europe; other words do no harm."""
_SHARE = re.compile(rf"[{_SPACES}]?[{''.join(_PER)}]")
_WORD = re.compile(rf"[{_SPACES}]?([^\W\d_]+)")
_PREFIXES = "kKMGTmµμnbB"
"""With one of them begin the names of larger and smaller units: kg, ms, Mio, bn, million."""
_SCALES = (1e-3, 1e3, 1e6, 1e9, 1e12)
_LARGEST_POWER = 290  # beyond it, a float has no digits left
_SHORTENED = 4  # digits at most of a number in a larger unit


@dataclass(frozen=True)
class Reading:
    """A value that a number may stand for.

    Attributes:
        value: The value, without its sign: "8 % less" has none.
        half: Half a unit of its last digit.
    """

    value: float
    half: float

    def is_of(self, exact: float) -> bool:
        """Whether this is an exact value, rounded as people do."""
        return abs(abs(exact) - self.value) <= self.half + 1e-9 * self.value

    def is_near(self, exact: float) -> bool:
        """Whether an exact value is of this size: half of it, or twice."""
        return self.value / 2 <= abs(exact) <= self.value * 2

    @property
    def width(self) -> float:
        """The part of the values of this size that round to this one, so hit it by chance."""
        return min(1.0, 2 * self.half / (1.5 * self.value)) if self.value else 1.0

    def times(self, factor: float) -> Reading:
        """The same in another unit."""
        return Reading(self.value * factor, self.half * factor)


@dataclass(frozen=True)
class Number:
    """A number in a text.

    Attributes:
        start: Where it begins in the text.
        end: Where it ends, with its percent sign.
        text: How it is written.
        following: The word after it; empty if there is none.
    """

    start: int
    end: int
    text: str
    following: str = ""

    @cached_property
    def plain(self) -> tuple[Reading, ...]:
        """The values of its digits; empty for a text that is not a number, such as ``10,20,30``."""
        body = self.text.rstrip("".join(_PER) + _SPACES)
        return tuple(_readings(body))

    @cached_property
    def ratios(self) -> tuple[Reading, ...]:
        """Its possible values as a ratio, which has no unit, and may be in percent."""
        per = _PER.get(self.text[-1]) or (100 if self.following[:1].casefold() in _PERCENT else 0)
        if not per:
            return self.plain
        return (*self.plain, *(each.times(1 / per) for each in self.plain))

    @cached_property
    def readings(self) -> tuple[Reading, ...]:
        """Its other possible values: a share, or a number of larger or smaller units."""
        if self.ratios is not self.plain:
            return self.ratios
        if self.following[:1] in _PREFIXES and self.following and self.digits <= _SHORTENED:
            return (*self.plain, *(one.times(scale) for scale in _SCALES for one in self.plain))
        return self.plain

    @property
    def sign(self) -> int:
        """-1 with a minus before it, else 1; a dash between two numbers is not a minus."""
        return -1 if self.text[0] in "-−" else 1

    @property
    def digits(self) -> int:
        """How many digits tell: two of ``0.050``, four of ``1,200``."""
        written = re.split(r"[eE×x·]", self.text)[0]
        return len(re.sub(r"\D", "", written).lstrip("0"))

    @property
    def is_count(self) -> bool:
        """Whether it may count things: a whole number that is not a share."""
        return self.text.strip(_SIGNS).isdecimal()


def numbers_in(text: str) -> Iterator[Number]:
    """The numbers of a text, in order; a date is its numbers.

    A word with digits, such as ``python_1`` or ``R2``, is none. Digits that make no number with the
    signs between them are several: ``[10,20,30]``.
    """
    for run in _RUN.finditer(text):
        number = _number(text, *run.span())
        if number.plain:
            yield number
        else:
            yield from _parts(text, *run.span())


def values_in(text: str) -> Iterator[float]:
    """Every value that a text may contain: ``191,20`` is also a part of two columns of CSV."""
    for run in _RUN.finditer(text):
        plain = run[0].lstrip(_SIGNS)
        # Most numbers of a large result are such ones.
        if plain.isascii() and plain.isdecimal():
            yield float(plain)
            continue
        start, end = run.span()
        for number in numbers_in(run[0]):
            yield from (each.value for each in number.plain)
        for mark in sorted(set(run[0]) & set(_BETWEEN)):
            for part in _split(text, start, end, mark):
                yield from (each.value for each in part.plain)


def values_near(text: str, reading: Reading) -> Iterator[float]:
    """The values of a text that are this one, rounded: those of `values_in`, in much less time.

    Only the numbers are read whose first digits are right, of which a large text has few.
    """
    if not text.isascii() and _OTHER_DIGITS.search(text):
        yield from (each for each in values_in(text) if reading.is_of(each))
        return
    last = -1
    for found in _beginning_with(_first_digits(reading)).finditer(text):
        if found.end() <= last:
            continue
        # The text before and after decides which number the digits are a part of.
        start = max(0, found.start() - _AROUND)
        if start:
            start = found.start() - len(_TAIL.search(text, start, found.start())[0])  # type: ignore[index]
        last = _HEAD.match(text, found.start()).end()  # type: ignore[union-attr]
        near = text[max(0, start - 1) : last + _BEHIND]
        yield from (each for each in values_in(near) if reading.is_of(each))


_AROUND = 40
"""Characters before a number that are read with it."""
_BEHIND = 8
"""Characters after it that may be its power of ten."""
_OTHER_DIGITS = re.compile(r"(?=\d)[^0-9]")
_TAIL = re.compile(rf"[{_SIGNS}]?(?:\d+[{_GROUPS}٫])*\d*[{_GROUPS}٫]?$")
_HEAD = re.compile(rf"\d*(?:[{_GROUPS}٫]\d+)*")
_DIGITS = 4


def _first_digits(reading: Reading) -> frozenset[str]:
    """The first digits of all values that are a reading, without zeros before them."""
    margin = reading.half + 2e-9 * reading.value
    low, high = reading.value - margin, reading.value + margin
    if low <= 0:
        return frozenset({""})
    found = set[str]()
    while low <= high:
        size = 10.0 ** math.floor(math.log10(low))
        end = min(high, math.nextafter(10 * size, 0))
        for digits in range(_DIGITS, 0, -1):
            unit = size / 10 ** (digits - 1)
            first, last = math.floor(low / unit - 1e-6), math.floor(end / unit + 1e-6)
            if last - first <= _FEW_BEGINNINGS or digits == 1:
                found.update(map(str, range(max(1, first), last + 1)))
                break
        low = 10 * size
    return frozenset(found)


_FEW_BEGINNINGS = 4


@lru_cache(maxsize=64)
def _beginning_with(beginnings: frozenset[str]) -> re.Pattern[str]:
    """A pattern for numbers that begin with one of these digits, however they are grouped."""
    if "" in beginnings:
        return re.compile(r"[0-9]+")
    gap = rf"[{_GROUPS}٫]?"
    texts = []
    for each in sorted(beginnings):
        digits = each.rstrip("0")
        # Zeros after the digits may be left out, and nothing else may be in their place.
        following = "" if digits == each else "(?![1-9])"
        texts.append(gap.join(digits) + following)
    return re.compile(rf"(?<![1-9])(?:{'|'.join(texts)})")


def _parts(text: str, start: int, end: int) -> Iterator[Number]:
    marks = [each for each in text[start:end] if each in _GROUPS]
    # A space separates more than a comma, and that more than a point.
    for mark in sorted(set(marks), key=lambda each: (each in ",.", each == ".")):
        for part in _split(text, start, end, mark):
            if part.plain:
                yield part
            else:
                yield from _parts(text, part.start, part.end)
        return


def _split(text: str, start: int, end: int, mark: str) -> Iterator[Number]:
    for each in text[start:end].split(mark):
        if each:
            yield _number(text, start, start + len(each))
        start += len(each) + 1


def _number(text: str, start: int, end: int) -> Number:
    share = _SHARE.match(text, end)
    word = _WORD.match(text, end)
    if share:
        end = share.end()
    return Number(start, end, text[start:end], word[1] if word else "")


def _readings(text: str) -> Iterator[Reading]:
    """The readings of digits with signs between them: a comma may be a decimal point."""
    body, power = _without_power(text.lstrip(_SIGNS))
    if abs(power) > _LARGEST_POWER or not re.search(r"\d", body):
        return
    factor = 10.0**power
    ascii_body = body
    if not body.isascii():
        ascii_body = "".join(str(unicodedata.decimal(c)) if c.isdecimal() else c for c in body)
    groups = re.split(rf"[{_GROUPS}٫]", ascii_body)
    marks = re.sub(r"\d", "", ascii_body)
    if not marks:
        yield Reading(float(ascii_body) * factor, 0.5 * factor)
        return
    if _are_groups(groups, marks):
        yield Reading(float("".join(groups)) * factor, 0.5 * factor)
    *front, last = groups
    is_pointed = marks[-1] in _POINTS and marks[-1] not in marks[:-1]
    if is_pointed and (len(front) == 1 or _are_groups(front, marks[:-1])):
        step = 10.0 ** -len(last)
        yield Reading(float(f"{''.join(front) or 0}.{last}") * factor, 0.5 * step * factor)


def _are_groups(groups: list[str], marks: str) -> bool:
    """Whether these are the groups of one whole number: of three digits, or of two as in India."""
    first, *middle, last = groups
    is_short = 1 <= len(first) <= 3 and first[0] != "0" and len(last) == 3
    sizes = {len(each) for each in middle}
    return len(set(marks)) == 1 and is_short and (sizes <= {3} or sizes <= {2})


def _without_power(text: str) -> tuple[str, int]:
    found = re.search(r"[eE]([-+]?\d+)$|\s?[×x·]\s?10\^?([-−]?\d+|[⁻⁰¹²³⁴⁵⁶⁷⁸⁹]+)$", text)
    if found is None:
        return text, 0
    power = unicodedata.normalize("NFKC", found[1] or found[2]).replace("−", "-")
    return text[: found.start()], int(power)
