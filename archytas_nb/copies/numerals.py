"""Numbers that a column holds as text, and the only way in which all of them can be read.

A character between digits separates either groups of three or the decimals, the same in the whole
column. `1,234` alone can be read in two ways, and is not read; next to `12,5` it can be read in
one. What is in brackets after a number, as in `298[110-510]`, is a note on it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

_GROUPS = " \u00a0\u202f,.'’_"
_POINTS = ".,"
_NOTE = r"(?<=\d)\s*(\[.*\]|\(.*\))\s*$"


@dataclass(frozen=True, slots=True)
class Numerals:
    """How the numbers of a column are written.

    Attributes:
        removed: The characters that are not part of a number: between groups of digits, and signs
            of currencies.
        point: The separator of the decimals; empty if there are none.
        others: The texts without any digit, such as ``"unknown"``: they are not numbers.
        has_notes: Whether there are notes in brackets after some of them.
    """

    removed: str
    point: str
    others: tuple[str, ...] = ()
    has_notes: bool = False

    def expression(self, column: str) -> str:
        """The numbers of a column, as Python over pandas.

        Args:
            column: The column, as Python.
        """
        text = f"{column}.astype(str)"
        if self.has_notes:
            text += f".str.replace({_NOTE!r}, '', regex=True)"
        if self.removed:
            text += f".str.replace({f'[{self.removed}]'!r}, '', regex=True)"
        if self.point not in {"", "."}:
            text += f".str.replace({self.point!r}, '.')"
        return f"pd.to_numeric({text}, errors='coerce')"


def numerals(texts: Iterable[str]) -> Numerals | None:
    """How these texts write numbers; None if some cannot be read, or if there are two readings.

    Texts without digits are not numbers, and most texts have to be some.
    """
    stripped = [each.strip() for each in texts]
    written = [each for each in stripped if any(map(str.isdecimal, each))]
    others = tuple(dict.fromkeys(each for each in stripped if each not in set(written)))
    if len(written) * 2 <= len(stripped):
        return None
    noted = [re.sub(_NOTE, "", each) for each in written]
    has_notes = noted != written
    signs = {sign for each in noted for sign in each if unicodedata.category(sign) == "Sc"}
    bare = [each.strip("".join(signs)).strip() for each in noted]
    between = {mark for each in bare for mark in re.findall(r"(?<=\d)[^\deE](?=\d)", each)}
    # "1.234" is a number of thousands or has decimals: only if all texts together leave one reading
    # is the column read at all.
    readings: dict[tuple[float, ...], Numerals] = {}
    for groups, point in _separators(between):
        numbers = [_read(each, groups, point) for each in bare]
        found = tuple(each for each in numbers if each is not None)
        if len(found) == len(bare):
            removed = "".join(sorted({*groups, *signs, *(" " if signs else "")}))
            readings.setdefault(found, Numerals(removed, point, others, has_notes))
    return next(iter(readings.values())) if len(readings) == 1 else None


def _separators(between: set[str]) -> Iterator[tuple[str, str]]:
    """The possible separators of groups and decimals, so that each of these characters is used."""
    for groups in ("", *_GROUPS):
        for point in ("", *_POINTS):
            if between == {*groups, *point} and (not groups or groups != point):
                yield groups, point


def _read(text: str, groups: str, point: str) -> float | None:
    """The number in a text with these separators; None if it is not a number."""
    separated = rf"[1-9]\d{{0,2}}(?:{re.escape(groups)}\d{{3}})+|" if groups else ""
    decimals = rf"(?:{re.escape(point)}\d+)?" if point else ""
    if not re.fullmatch(rf"[-+]?(?:{separated}\d+){decimals}(?:[eE][-+]?\d+)?", text):
        return None
    return float((text.replace(groups, "") if groups else text).replace(point or ".", "."))
