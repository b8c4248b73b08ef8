"""The origins of the numbers and names of an answer: results of the run, or nowhere.

    result      a result that the model read contains it, as it is rounded here
    derived     it is the sum, difference, ratio, share, … of a few numbers of one result
    question    the person wrote it, or it was an argument of a call
    nowhere     no result has it, so the model made it up, or worked it out by itself

It proves an origin, and no truth. Nothing is asked and nothing is sent.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from numbers import Integral
from typing import Any, TypeAlias

from archytas_nb.loop.events import Span
from archytas_nb.numbers import Number, Reading, numbers_in, values_in, values_near
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.program import (
    PROGRAM_ANSWER,
    PROGRAM_ENDINGS,
    Program,
    called,
    calls,
    given,
)
from archytas_nb.tools.tables import Column, Table, column_of, index_of, table_of

_MAX_CELLS = 50_000  # of the values in which the places of an answer's numbers are searched
_MAX_SERIES = 24  # numbers of which two are combined
_FEW = 3  # numbers that people compare at a glance
_MAX_LISTED = 400  # numbers of which the sum and the mean are compared
_MAX_SCALARS = 8  # results that are one number, of which two are combined
_MAX_NAMING = 4  # columns of which one names the rows
_MAX_DEPTH = 4
_BY_CHANCE = 0.15  # derived numbers that may equal one of the answer by chance, before it counts
_OF_PYTHON = frozenset({*dir(builtins), *PROGRAM_ENDINGS})
"""Functions that read nothing but what they are given."""
_CODE = re.compile(
    r"(?ms)^(`{3,}|~{3,})[^\n]*\n.*?^\1[`~]*\s*$|`[^`\n]*`|https?://\S+|\]\([^)\s]*\)"
)
_MARK = re.compile(r"(?m)^[ \t>]*(\d+)[.)](?=\s)|\[\^?\d+\]|^#+ *\d+(?:\.\d+)*(?=[. ])")
_NAME = re.compile(
    r"\*\*([^*\n]{2,60})\*\*|“([^”\n]{2,60})”|\"([^\"\n]{2,60})\"|«\s?([^»\n]{2,60}?)\s?»|„([^“”\n]{2,60})[“”]"
)


@dataclass(frozen=True, slots=True)
class Source:
    """A result of a run.

    Attributes:
        call: The call, for a person: ``mean_by("mass")``.
        text: The text that the model read.
        value: The object itself, for the place of a number in it; None if it is not there.
        step: The number of its step, from 1.
    """

    call: str
    text: str
    value: Any = field(default=None, compare=False, repr=False)
    step: int = 0


def link(answer: str, sources: Sequence[Source], told: Sequence[str] = ()) -> tuple[Span, ...]:
    """Find where the numbers and quoted names of an answer come from.

    Args:
        answer: The answer, as Markdown; its code and its addresses are left out.
        sources: The results of the run, in order.
        told: The person's texts: the question, and the arguments of calls.

    Returns:
        The spans in their order. Names that no result has are left out.
    """
    prose = _blanked(answer)
    pool = _Pool(sources, told)
    numbers = [(number, pool.span_of(number)) for number in numbers_in(prose)]
    found = [span for number, span in numbers if span.origin != "nowhere" or _is_claim(number)]
    taken = {place for span in found for place in range(span.start, span.end)}
    for match in _NAME.finditer(prose):
        group = next(number for number, text in enumerate(match.groups(), 1) if text)
        start, end = match.span(group)
        source = pool.named(match[group])
        if source is not None and not taken.intersection(range(start, end)):
            found.append(Span(start, end, match[group], "result", source.call, source.step))
    return tuple(sorted(found, key=lambda span: span.start))


def program_source(program: str, texts: Iterable[str], answer: str, step: int = 0) -> Source:
    """The values that a program computed, as a source of an answer.

    The numbers that it writes itself are not computed: those in the text of its answer, and those
    of statements that read nothing.

    Args:
        program: The program.
        texts: The values that it showed, and the values of its variables.
        answer: The answer that it gave; empty if it gave none.
        step: The number of its step, from 1.
    """
    tree = Program(program).tree
    asked = [given(each)[0] for each in calls(tree, PROGRAM_ANSWER) if given(each)]
    fields = [field for each in asked[-1:] for field in _fields(each)]
    made_up = set(_assigned_numbers(tree))
    computed = [each for text in texts for each in values_in(text) if each not in made_up]
    made_up.update(each for answered in asked for each in _written(answered))
    numbers = [
        number
        for number in numbers_in(answer)
        if fields and not any(reading.is_of(each) for reading in number.plain for each in made_up)
    ]
    computed += [reading.value for number in numbers for reading in number.plain]
    # Only if each field of the text gave one number is it clear which expression computed which.
    places = {}
    if len(fields) == len(numbers):
        pairs = zip(fields, numbers, strict=True)
        places = {ast.unparse(each): number.plain[0].value for each, number in pairs}
    return Source("the program", " ; ".join(map(str, computed)), places or None, step)


def _assigned_numbers(tree: ast.Module) -> Iterator[float]:
    """The numbers of statements that read nothing of the notebook, and so compute nothing."""
    for statement in tree.body:
        read = {use.name for use in Bindings(statement).uses if use.act == "read"}
        if not read - _OF_PYTHON:
            for node in ast.walk(statement):
                if isinstance(node, ast.Constant):
                    yield from _written(node)


def _written(tree: ast.AST) -> Iterator[float]:
    """The numbers that code writes, apart from those in what is computed within a text."""
    if isinstance(tree, ast.FormattedValue):
        return
    if isinstance(tree, ast.Constant):
        if isinstance(tree.value, str):
            yield from values_in(tree.value)
        elif isinstance(tree.value, (int, float)) and _is_number(tree.value):
            yield float(tree.value)
    if not isinstance(tree, ast.Call) or called(tree) == PROGRAM_ANSWER:
        for each in ast.iter_child_nodes(tree):
            yield from _written(each)


def _fields(answer: ast.expr) -> list[ast.expr]:
    """The expressions that an answer consists of, apart from what it writes itself."""
    if isinstance(answer, ast.JoinedStr):
        return [each.value for each in answer.values if isinstance(each, ast.FormattedValue)]
    return [] if isinstance(answer, ast.Constant) else [answer]


def _is_claim(number: Number) -> bool:
    """Whether a number says so much that it matters whether it is in a result.

    One that many numbers round to, such as 1, 2 or 3, says less than the word next to it.
    """
    return any(reading.width <= _BY_CHANCE for reading in number.plain)


def nowhere(spans: Sequence[Span]) -> tuple[str, ...]:
    """The numbers that come from nowhere, each once."""
    return tuple(dict.fromkeys(each.text for each in spans if each.origin == "nowhere"))


class _Pool:
    """The numbers that the model could have read."""

    def __init__(self, sources: Sequence[Source], told: Sequence[str]) -> None:
        self._sources = sources
        self._told = [value for text in told for value in values_in(text)]
        self._derived: list[list[_Derived]] | None = None
        self._cells = [_MAX_CELLS]  # that may still be looked at for places

    @cached_property
    def _texts(self) -> list[str]:
        return [_folded(each.text) for each in self._sources]

    def span_of(self, number: Number) -> Span:
        """The origin of a number of the answer."""
        at = (number.start, number.end, number.text)
        for reading in number.plain:
            if any(reading.is_of(each) for each in self._told):
                return Span(*at, "question")
        for reading in number.readings:
            owner = self._owner(reading)
            if owner is not None:
                source = self._sources[owner]
                place = next(_places(source.value, reading, "", self._cells, 0), "")
                return Span(*at, "result", source.call, source.step, place)
        derived = self._derived_as(number)
        if derived is not None:
            source = derived.source
            return Span(*at, "derived", source.call, source.step, formula=derived.formula)
        return Span(*at, "nowhere")

    def _derived_as(self, number: Number) -> _Derived | None:
        """How a number is worked out, if that is unlikely to be so by chance."""
        if self._derived is None:
            self._derived = [list(tier) for tier in _derived(self._sources)]
        by_chance = 0.0
        for tier in self._derived:
            pairs = [(each, reading) for each in tier for reading in each.readings(number)]
            near = [reading for each, reading in pairs if reading.is_near(each.value)]
            by_chance += sum(reading.width for reading in near)
            for each, reading in pairs:
                is_apt = reading.half >= each.half
                if is_apt and reading.is_of(each.value) and by_chance <= _BY_CHANCE:
                    return each
        return None

    def named(self, name: str) -> Source | None:
        """The last result that has a name; None if none has."""
        wanted = _folded(name)
        for source, text in zip(reversed(self._sources), reversed(self._texts), strict=True):
            if wanted in text:
                return source
        return None

    def _owner(self, reading: Reading) -> int | None:
        """The last result with such a number, one that is equal before one that is rounded."""
        rounded: int | None = None
        for owner in reversed(range(len(self._sources))):
            for value in values_near(self._sources[owner].text, reading):
                if value == reading.value:
                    return owner
                if rounded is None:
                    rounded = owner
        return rounded


# ── derived numbers ───────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True, slots=True)
class _Derived:
    value: float
    formula: str
    source: Source
    half: float = 0.0  # of a count, which nobody writes with a point
    is_ratio: bool = False  # it has no unit

    def readings(self, number: Number) -> tuple[Reading, ...]:
        """The values that a number may stand for."""
        return number.ratios if self.is_ratio else number.readings


@dataclass(frozen=True, slots=True)
class _Series:
    """Numbers of one kind in a result: a column, a list, the values of a dictionary."""

    name: str
    labels: Sequence[str]
    values: Sequence[float]
    length: int
    is_column: bool = False


_Formulas: TypeAlias = Iterator[tuple[str, float, bool]]
"""A derived value: its formula, its value, and whether it is a ratio."""

_Work: TypeAlias = Callable[[_Series], _Formulas]


def _derived(sources: Sequence[Source]) -> Iterator[list[_Derived]]:
    """The values that people derive from results in their heads, likely ones first."""
    last_first = list(reversed(sources))
    scalars = [
        (each.call, float(each.value), each) for each in last_first if _is_number(each.value)
    ]
    pairs = [
        (one, other)
        for one, other in itertools.combinations(scalars[:_MAX_SCALARS], 2)
        if _function(one[0]) == _function(other[0])  # what another one tells is of another kind
    ]
    found = [
        (each, source)
        for source in last_first
        if not _is_number(source.value)
        for each in _series(source)
    ]
    yield [_Derived(each.length, f"number of {each.name}", source, 0.5) for each, source in found]
    yield _tier((_totals, each, source) for each, source in found if each.is_column)
    yield _tier((_compared_in, each, source) for each, source in found if len(each.values) <= _FEW)
    yield [
        _Derived(value, formula, source, is_ratio=is_ratio)
        for (name, one, source), (other_name, other, _) in pairs
        for formula, value, is_ratio in _compared(name, one, other_name, other)
    ]
    few = [(each, source) for each, source in found if len(each.values) <= _MAX_SERIES]
    yield _tier((_shares, each, source) for each, source in few)
    yield _tier((_totals, each, source) for each, source in found if not each.is_column)
    yield _tier((_compared_in, each, source) for each, source in few if len(each.values) > _FEW)


def _function(call: str) -> str:
    return call.partition("(")[0]


def _tier(parts: Iterable[tuple[_Work, _Series, Source]]) -> list[_Derived]:
    return [
        _Derived(value, formula, source, is_ratio=is_ratio)
        for work, series, source in parts
        for formula, value, is_ratio in work(series)
    ]


def _totals(series: _Series) -> _Formulas:
    values = series.values
    if 2 <= len(values) <= _MAX_LISTED:
        yield f"sum of {series.name}", math.fsum(values), False
        yield f"mean of {series.name}", math.fsum(values) / len(values), False
        yield f"range of {series.name}", max(values) - min(values), False


def _shares(series: _Series) -> _Formulas:
    total = math.fsum(series.values)
    if total and len(series.values) > 1:
        for label, value in zip(series.labels, series.values, strict=True):
            yield f"{label} / sum of {series.name}", value / total, True


def _compared_in(series: _Series) -> _Formulas:
    pairs = zip(series.labels, series.values, strict=True)
    for (name, one), (other_name, other) in itertools.combinations(pairs, 2):
        yield from _compared(name, one, other_name, other)


def _compared(name: str, one: float, other_name: str, other: float) -> _Formulas:
    yield f"{name} - {other_name}", one - other, False
    for first, a, second, b in ((name, one, other_name, other), (other_name, other, name, one)):
        if b:
            yield f"{first} / {second}", a / b, True
            yield f"({first} - {second}) / {second}", (a - b) / b, True


def _series(source: Source) -> Iterator[_Series]:
    if source.value is not None:
        yield from _series_in("", source.value, 0)
    else:
        values = list(itertools.islice(values_in(source.text), _MAX_SERIES + 1))
        if len(values) <= _MAX_SERIES:
            yield _Series("the numbers", [f"{each:g}" for each in values], values, len(values))


def _series_in(name: str, value: Any, depth: int) -> Iterator[_Series]:
    table = table_of(value)
    if table is not None:
        if table.size is not None:
            yield _Series("rows", (), (), table.size)
            for place in range(min(table.width, _MAX_LISTED)):
                yield from _of_column(table.column(place), table.size, _row_names(table))
        return
    column = column_of(value)
    if column is not None:
        if column.size is not None:
            yield from _of_column(column, column.size, _names_of_index(index_of(value)))
    elif isinstance(value, Mapping):
        yield from _of_pairs(name, [(str(key), each) for key, each in value.items()], depth)
    elif isinstance(value, (list, tuple, set, frozenset)):
        pairs = [(f"{name}[{place}]", each) for place, each in enumerate(value)]
        yield from _of_pairs(name or "the values", pairs, depth)


def _of_column(column: Column, size: int, names: Callable[[int], str]) -> Iterator[_Series]:
    if column.kind != "number" or size > _MAX_LISTED:
        return
    values = column.values(slice(None))
    kept = [
        (names(row) or f"{column.label} {row}", float(each))
        for row, each in enumerate(values)
        if _is_number(each)
    ]
    yield _Series(
        column.label or "the values",
        [a for a, _ in kept],
        [b for _, b in kept],
        size,
        is_column=True,
    )


def _names_of_index(index: Sequence[Column]) -> Callable[[int], str]:
    """How a row is called: by its index, or by its place."""
    if not index:
        return lambda row: f"row {row}"
    return lambda row: ", ".join(
        str(each) for level in index for each in level.values(slice(row, row + 1))
    )


def _row_names(table: Table) -> Callable[[int], str]:
    """How a row is called: by its index, its first column of texts, or its place."""
    if table.index:
        return _names_of_index(table.index)
    for place in range(min(table.width, _MAX_NAMING)):
        column = table.column(place)
        if column.kind == "other":
            return lambda row: str(next(iter(column.values(slice(row, row + 1))), row))
    return _names_of_index(())


def _of_pairs(name: str, pairs: Sequence[tuple[str, Any]], depth: int) -> Iterator[_Series]:
    numbers = [(key, each) for key, each in pairs if _is_number(each)]
    if len({isinstance(each, Integral) for _, each in numbers}) > 1:
        numbers = []  # a count and a mean: nobody adds them
    yield _Series(
        name, [key for key, _ in numbers], [float(each) for _, each in numbers], length=len(pairs)
    )
    if depth < _MAX_DEPTH:
        for key, each in pairs[:_MAX_LISTED]:
            if not _is_number(each) and not isinstance(each, str):
                yield from _series_in(key, each, depth + 1)


# ── places ────────────────────────────────────────────────────────────────────────────────────────


def _places(value: Any, reading: Reading, way: str, left: list[int], depth: int) -> Iterator[str]:
    if depth > _MAX_DEPTH or left[0] <= 0:
        return
    if _is_number(value):
        left[0] -= 1
        if reading.is_of(float(value)):
            yield way
        return
    table, column = table_of(value), column_of(value)
    if table is not None and table.size is not None:
        yield from _places_in_table(table, table.size, reading, way, left)
    elif column is not None and column.size is not None:
        names = _names_of_index(index_of(value))
        yield from _rows_of(column, column.size, names, reading, way, left)
    else:
        for step, each in _items(value):
            yield from _places(each, reading, _joined(way, step), left, depth + 1)


def _items(value: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(value, Mapping):
        yield from ((str(key), each) for key, each in value.items())
    elif isinstance(value, (list, tuple)):
        yield from ((f"[{number}]", each) for number, each in enumerate(value))


def _places_in_table(
    table: Table, size: int, reading: Reading, way: str, left: list[int]
) -> Iterator[str]:
    names = _row_names(table)
    for place in range(table.width):
        column = table.column(place)
        for row in _rows_of(column, size, names, reading, way, left):
            yield f"{row}, {column.label}"


def _rows_of(
    column: Column,
    size: int,
    names: Callable[[int], str],
    reading: Reading,
    way: str,
    left: list[int],
) -> Iterator[str]:
    left[0] -= size
    if column.kind != "number" or left[0] < 0:
        return
    for row, each in enumerate(column.values(slice(None))):
        if _is_number(each) and reading.is_of(float(each)):
            yield _joined(way, names(row))


def _joined(way: str, step: str) -> str:
    return f"{way}, {step}" if way else step


# ── texts ─────────────────────────────────────────────────────────────────────────────────────────


def _blanked(answer: str) -> str:
    """An answer without its code, addresses and numbers of lists, each character in its place."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    return _MARK.sub(blank, _CODE.sub(blank, answer))


def _folded(text: str) -> str:
    return " ".join(text.casefold().split())


def _is_number(value: Any) -> bool:
    is_scalar = isinstance(value, (int, float)) or getattr(value, "shape", None) == ()
    try:
        return is_scalar and not isinstance(value, bool) and math.isfinite(value)
    except (TypeError, OverflowError):
        return False
