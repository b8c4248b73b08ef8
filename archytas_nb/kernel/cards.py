"""A card describes one variable that a question names, in bounded length and time.

A card has the size, the index and the columns of a table, the shape of an array, the keys of a
dict, the types of items, and what an object is made of. Columns with equal facts share a line.
If a model may read values, it also has ranges, dates and categories, and of a table with very many
columns these only of the columns that the question names.

How much is counted depends only on sizes, never on time, so equal values give equal cards. The card
says where something was not counted.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from archytas_nb.choices import ValuesName
from archytas_nb.kernel.mentions import columns_named
from archytas_nb.loop.record import CardForm
from archytas_nb.loop.tokens import text_tokens
from archytas_nb.namespace import contained
from archytas_nb.tools import headline as lines
from archytas_nb.tools.headline import headline
from archytas_nb.tools.names import is_secret
from archytas_nb.tools.tables import Column, Table, column_of, index_of, label_of, table_of
from archytas_nb.tools.texts import cell_text, in_line, is_array, is_missing
from archytas_nb.words import count, runs, truncate_line

Mask = Callable[[str], str]
"""Replaces the secrets in a text."""

_WIDE = 60  # number of columns above which only those that the question names are described in full
_VALUES = 8  # maximum number of different values that are listed
_MAX_VALUE = 60  # characters of one of them
_MAX_LISTED = 160  # characters of all of them
_PARTS = 20  # maximum number of keys or attributes that are described
_EXAMPLES = 2  # values of a column that has too many to be listed
_PROBE = 200  # values of a column by which one with few different ones is recognised
_KINDS_OF_MISSING = 3  # which are counted one by one
_SAMPLE = 10_000  # values of a column in which different ones are counted, if not in all
_MAX_TEXT = 60  # characters of a text that are shown
_DIGITS = 6  # significant digits of a long number


@dataclass
class Effort:
    """How many values may still be read for one card.

    Attributes:
        tested: Values of which it is tested whether they are missing, some 0.5 ns each.
        compared: Values that are compared with each other, some 0.5 ns each.
        hashed: Values that are looked up among others, some 20 ns each.
    """

    tested: int = 100_000_000
    compared: int = 12_000_000
    hashed: int = 1_000_000

    def may_test(self, times: int) -> bool:
        """Whether this many values may be tested; they are then counted as read."""
        if times > self.tested:
            return False
        self.tested -= times
        return True

    def may_compare(self, times: int) -> bool:
        """Whether this many values may be compared; they are then counted as read."""
        if times > self.compared:
            return False
        self.compared -= times
        return True

    def may_hash(self, times: int) -> bool:
        """Whether this many values may be looked up; they are then counted as read."""
        if times > self.hashed:
            return False
        self.hashed -= times
        return True


class Card(NamedTuple):
    """A card, and the columns that it names."""

    text: str
    columns: tuple[str, ...] = ()


def card(
    name: str,
    value: Any,
    question: str = "",
    *,
    values: ValuesName = "all",
    hidden: Collection[str] = (),
    form: CardForm = CardForm(),  # noqa: B008 - it is frozen
) -> str:
    """Describe a variable, even if its object raises.

    Args:
        name: The name of the variable.
        value: Its value, which is not changed.
        question: The columns that it names are described in full, however many there are.
        values: How much the model may learn of values; unless ``"all"``, the card has only names,
            types and sizes.
        hidden: The names that are left out, unless ``values`` is ``"all"``.
        form: The form of the card, and its length.

    Returns:
        The card: a line for the variable, and usually a line for each of its parts.
    """
    return card_of(name, value, question, None if values == "all" else hidden, form).text


def card_of(
    name: str,
    value: Any,
    question: str = "",
    hidden: Collection[str] | None = None,
    form: CardForm = CardForm(),  # noqa: B008 - it is frozen
    mask: Mask = str,
) -> Card:
    """As `card`, with the columns that are named.

    Args:
        name: The name of the variable.
        value: Its value.
        question: The question.
        hidden: The names that are left out; None if values may be shown.
        form: The form of the card, and its length.
        mask: Replaces the secrets in a value.
    """
    writer = _Writer(question, hidden, form, mask)
    with contained():
        return writer.card(name, value)
    return Card(f"{name}: {headline(value, hidden=hidden)}")


@dataclass
class _Writer:
    question: str
    hidden: Collection[str] | None
    form: CardForm
    mask: Mask
    effort: Effort = field(default_factory=Effort)
    sample: int = _SAMPLE
    counts_all: bool = True
    columns: list[str] = field(default_factory=list)
    missing: dict[int, str] = field(default_factory=dict)  # by the id of the column

    @property
    def tells_values(self) -> bool:
        return self.hidden is None and self.form.has_values

    def card(self, name: str, value: Any) -> Card:
        head = f"{name}: {headline(value, hidden=self.hidden, in_words=self.form.in_words)}"
        if (table := table_of(value)) is not None:
            text = self._of_table(head, table)
        elif (column := column_of(value)) is not None:
            self._plan([column])
            facts = self._type(column) + self._facts(column, is_told=not is_secret(name))
            text = "".join([head, *self._index(index_of(value)), f"\n  values: {facts}"])
        elif self.hidden is not None:
            text = head
        elif is_array(value):
            text = head + self._of_array(name, value)
        elif isinstance(value, dict) and dict.__len__(value):
            kind = lines.type_name(type(value))
            text = f"{name}: {kind} of {count(dict.__len__(value), 'item')}"
            text += self._pairs(dict.items(value), dict.__len__(value))
        else:
            text = head + self._of_object(name, value)
        return Card(text, tuple(self.columns))

    # ── tables ────────────────────────────────────────────────────────────────────────────────────

    def _of_table(self, head: str, table: Table) -> str:
        names = self._names(table)
        if self.form.in_words:
            head += f": {truncate_line(', '.join(names), self.form.tokens)}"
        index = self._index(table.index)
        asked = set(columns_named(map(str, table.names), self.question))
        columns = table.columns()
        if len(names) <= _WIDE:
            text = "".join([head, *index, *self._lines(columns, names)])
            if text_tokens(text) <= self.form.tokens:
                self.columns = names
                return text
        pairs = list(zip(columns, names, strict=True))
        told = [each for place, each in enumerate(pairs) if place in asked]
        others = [each for place, each in enumerate(pairs) if place not in asked]
        self.columns = [name for _, name in told]
        lines = self._lines([column for column, _ in told], self.columns)
        begin = "".join([head, *index, *lines])
        return begin + self._grouped(others, text_tokens(begin))

    def _names(self, table: Table) -> list[str]:
        """The names of the columns, or their places where they may have been made from values."""
        if self.hidden is None:
            return [truncate_line(each, lines.MAX_NAME) for each in table.labels]
        pairs = zip(map(str, table.names), table.labels, strict=True)
        return [
            f"column_{place}" if name in self.hidden else truncate_line(label, lines.MAX_NAME)
            for place, (name, label) in enumerate(pairs, 1)
        ]

    def _lines(self, columns: Sequence[Column], names: Sequence[str]) -> Iterator[str]:
        """A line for each of these columns, or one for several in a row with the same facts."""
        self._plan(columns)
        groups: list[tuple[list[str], str]] = []
        for name, column in zip(names, columns, strict=True):
            facts = self._type(column) + self._facts(column)
            if groups and groups[-1][1] == facts and not self.form.in_words:
                groups[-1][0].append(name)
            else:
                groups.append(([name], facts))
        for group, facts in groups:
            yield f"\n  {', '.join(self._quoted(group))}: {facts}"

    def _quoted(self, names: Sequence[str]) -> list[str]:
        """The names of columns for a line; names that only count up are joined."""
        if not self.form.for_code:
            return runs(names)
        return [each if "'" in each or " … " in each else repr(each) for each in runs(names)]

    def _plan(self, columns: Iterable[Column]) -> None:
        """Decide once for all these columns whether different values are counted in all rows."""
        sizes = [each.size or 0 for each in columns if each.kind == "other"]
        self.counts_all = self.hidden is not None or self.effort.may_hash(sum(sizes))
        if not self.counts_all:
            self.sample = min(_SAMPLE, self.effort.hashed // len(sizes))
            self.effort.may_hash(self.sample * len(sizes))

    def _grouped(self, columns: Sequence[tuple[Column, str]], used: int) -> str:
        """A line for all columns with the same facts: their type and their missing values."""
        groups: dict[str, list[str]] = {}
        for column, name in columns:
            facts = self._type(column) + self._missing_part(column)
            groups.setdefault(facts, []).append(name)
        room = max(self.form.tokens - used, self.form.tokens // 4)
        text = ""
        for number, (facts, group) in enumerate(groups.items()):
            if room <= 0:
                more = count(len(groups) - number, "more type")
                return (
                    f"{text}\n  … {sum(map(len, [*groups.values()][number:])):,} columns of {more}"
                )
            written = self._quoted(group)
            line, shown = _within(written, facts, max(room // (len(groups) - number), 20))
            self.columns += group if shown == len(written) else group[:shown]
            room -= text_tokens(line)
            text += line
        return text

    def _index(self, index: Iterable[Column]) -> list[str]:
        """A line for each level of an index."""
        found = []
        for place, level in enumerate(index, 1):
            name = f"index {level.label}" if level.label else "index"
            if level.name is not None and str(level.name) in (self.hidden or ()):
                name = f"index level_{place}"
            self._plan([level])
            text = self._type(level) + self._facts(level)
            found.append(f"\n  {truncate_line(name, lines.MAX_NAME)}: {text}")
        return found

    # ── columns ───────────────────────────────────────────────────────────────────────────────────

    def _type(self, column: Column) -> str:
        if self.hidden is not None:
            return lines.bare_type(column.dtype)
        text = column.type_text
        if text == "object" and column.size:
            with contained():
                present = (each for each in column.values(slice(1000)) if not is_missing(each))
                kinds = lines.kinds_in(present)
                return f"object ({kinds})" if kinds else text
        return text

    def _missing_part(self, column: Column) -> str:
        """The number of missing values, which is counted once."""
        if id(column) not in self.missing:
            self.missing[id(column)] = self._counted_missing(column)
        return self.missing[id(column)]

    def _counted_missing(self, column: Column) -> str:
        if self.hidden is not None or not column.size:
            return ""
        if column.type_text in ("object", "Object"):
            may_count = self.effort.may_hash(column.size)
        else:
            may_count = self.effort.may_test(column.size)
        if not may_count:
            return ", missing not counted"
        with contained():
            missing = column.missing()
            if missing == column.size:
                return ", all missing"
            return f", {missing:,} missing" if missing else ""
        return ", missing not counted"

    def _facts(self, column: Column, *, is_told: bool = True) -> str:
        """The missing values, and the different values, their number or their range."""
        text = self._missing_part(column)
        if self.hidden is not None or not column.size or text == ", all missing":
            return text
        is_told = is_told and self.tells_values and not is_secret(str(column.name))
        with contained():  # values that cannot be hashed or compared
            if column.kind == "other":
                return text + self._different(column, is_told=is_told)
            steps = 2 if column.kind == "number" else 6
            if is_told and self.effort.may_compare(steps * column.size):
                return f"{text}, {self.mask(range_text(*column.ends()))}"
            if is_told:
                return f"{text}, range not computed"
        return text

    def _different(self, column: Column, *, is_told: bool) -> str:
        """How many different values there are, and which if there are few."""
        size = column.size or 0
        where = ""
        first = [each for each in column.values(slice(_PROBE)) if not is_missing(each)]
        found: list[Any] = []
        if not (self.counts_all or size <= self.sample):
            part = [each for each in column.values(slice(self.sample)) if not is_missing(each)]
            found = [each for each, _ in Counter(part).most_common()]
            number = len(found)
            where = f" in the first {self.sample:,} rows"
        elif not _are_few(first):
            number = column.different()
        else:  # those are all, or there are too many to be listed
            counts = column.counts(_VALUES + _KINDS_OF_MISSING + 1)
            found = [each for each, _ in counts if not is_missing(each)]
            number = len(found) if len(counts) <= _VALUES else column.different()
        text = f", {count(number, 'different value')}{where}"
        if not is_told:
            return text
        if found and len(found) == number <= _VALUES:
            values = self._listed(found)
            if values and len(values) <= _MAX_LISTED:
                what = text if where else ", values"  # which say themselves how many they are
                return f"{what}: {self.mask(values)}"
        with contained():  # values that cannot be hashed
            if found := [*dict.fromkeys(first)]:
                some = self._listed(found[:_EXAMPLES]) or in_line(label_of(found[0]), _MAX_VALUE)
                return f"{text}, such as {self.mask(some)}"
        return text

    def _listed(self, values: Iterable[Any]) -> str:
        """Some values of a column, those of text in quotes for code; empty if one is long."""
        texts = []
        for each in values:
            text = in_line(label_of(each), _MAX_VALUE + 1)
            if self.form.for_code and isinstance(each, str):
                text = repr(in_line(each, _MAX_VALUE + 1))
            if len(text) > _MAX_VALUE:
                return ""
            texts.append(text)
        return ", ".join(texts)

    # ── other values ──────────────────────────────────────────────────────────────────────────────

    def _of_array(self, name: str, value: Any) -> str:
        kind = value.dtype.kind
        if kind not in "iufmM" or not value.size or not self.effort.may_test(3 * value.size):
            return ""
        present = value.compressed() if hasattr(value, "compressed") else value  # masked
        if kind in "fmM":
            present = present[present == present]  # noqa: PLR0124 - NaN is not itself
        text = ""
        if missing := value.size - present.size:
            text = f", {missing:,} missing"
        if present.size and self.tells_values and not is_secret(name):
            text += f", {range_text(present.min(), present.max())}"
        return text

    def _of_object(self, name: str, value: Any) -> str:
        if isinstance(value, (bool, int, float, complex)) or value is None:
            is_told = (
                self.tells_values and not is_secret(name) and type(value).__module__ == "builtins"
            )
            return f" = {_number(value)}" if is_told else ""
        if isinstance(value, str):
            is_told = self.tells_values and not is_secret(name)
            text = truncate_line(self.mask(str.__getitem__(value, slice(1000))), _MAX_TEXT)
            return f": {text!r}" if is_told else ""
        items = lines.items_of(value)
        if items is not None:
            return self._records(items) or self._plain_items(name, items)
        return self._pairs(_public(lines.attributes_of(value)), None)

    def _pairs(self, pairs: Iterable[tuple[Any, Any]], size: int | None) -> str:
        """A line for each key of a dict, or each attribute of an object."""
        read = list(islice(pairs, _PARTS + 1))
        text = ""
        for key, value in read[:_PARTS]:
            label = truncate_line(label_of(key) if isinstance(key, str) else cell_text(key), 60)
            what = headline(value)
            if self.tells_values and not is_secret(str(key)) and _is_short(value):
                written = repr(value) if isinstance(value, str) else _number(value)
                what += f" = {self.mask(written)}"
            text += f"\n  {self.mask(label)}: {what}"
        if len(read) > _PARTS:
            text += "\n  …" if size is None else f"\n  … {size - _PARTS:,} more"
        return text

    def _plain_items(self, name: str, items: Collection[Any]) -> str:
        """The items of a short container of plain values; empty for any other."""
        if not self.tells_values or is_secret(name) or len(items) > _VALUES:
            return ""
        if not all(map(_is_short, items)):
            return ""
        text = ", ".join(map(repr, items))
        return f": {self.mask(text)}" if len(text) <= _MAX_TEXT else ""

    def _records(self, items: Collection[Any]) -> str:
        """A line for each key that the dicts in a list have."""
        read = list(islice(items, 1000))
        if not read or not all(isinstance(each, dict) for each in read):
            return ""
        kinds: dict[str, list[Any]] = {}
        for each in read:
            for key, value in dict.items(each):
                if isinstance(key, str):
                    kinds.setdefault(key, []).append(value)
        text = ""
        for key, values in islice(kinds.items(), _PARTS):
            of = "" if len(values) == len(read) else f", in {len(values):,} of {len(read):,}"
            label = truncate_line(label_of(key), 60)
            text += f"\n  {self.mask(label)}: {lines.kinds_in(values)}{of}"
        if len(kinds) > _PARTS:
            text += f"\n  … {len(kinds) - _PARTS:,} more"
        return text


def _is_short(value: Any) -> bool:
    """Whether a value is a number, or a short text, of Python itself."""
    if type(value) is str:
        return len(value) <= _MAX_TEXT
    return type(value) in (bool, int, float)


def _public(attributes: Any) -> list[tuple[str, Any]]:
    return [(key, value) for key, value in attributes.items() if not str(key).startswith("_")]


def _are_few(values: Sequence[Any]) -> bool:
    """Whether so few different values are among these that they can be listed."""
    try:
        return len(set(values)) <= _VALUES
    except TypeError:  # they cannot be hashed
        return True


def _within(written: Sequence[str], facts: str, room: int) -> tuple[str, int]:
    """A line for columns with the same facts, in this many tokens, and how many it names."""
    line = f"\n  {', '.join(written)}: {facts}"
    shown = len(written)
    while shown > 1 and text_tokens(line) > room:
        shown = max(1, shown * 3 // 4)
        line = f"\n  {', '.join(written[:shown])}, … {len(written) - shown:,} more: {facts}"
    return line, shown


# ── ranges ────────────────────────────────────────────────────────────────────────────────────────


def range_text(least: Any, greatest: Any) -> str:
    """The least and the greatest value, as ``1.5 to 20``, or the only one, as ``always 1.5``."""
    first, last = _number(least), _number(greatest)
    if first == last:
        return f"always {first}"
    midnight = " 00:00:00"
    if first.endswith(midnight) and last.endswith(midnight):
        first, last = first.removesuffix(midnight), last.removesuffix(midnight)
    return f"{first} to {last}"


def _number(value: Any) -> str:
    """A number with all of its digits, or about, if these are many."""
    text = in_line(value, 40)
    if len(text) > _DIGITS + 3 and re.fullmatch(r"-?\d+\.\d+(e[-+]\d+)?", text):
        short = f"{float(text):.{_DIGITS}g}"
        return short if float(short) == float(text) else f"~{short}"
    return text
