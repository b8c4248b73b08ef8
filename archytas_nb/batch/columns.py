"""The rows of a map as records that a program reads: `row.column`, with types of the columns."""

from __future__ import annotations

import dataclasses
import datetime as dt
import functools
import hashlib
import itertools
import keyword
import operator
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

from archytas_nb.sandbox.handles import Handles
from archytas_nb.sandbox.short import short
from archytas_nb.sandbox.values import to_sandbox
from archytas_nb.template import Template
from archytas_nb.tools.declaration import type_for_programs
from archytas_nb.tools.render import render
from archytas_nb.tools.texts import is_missing

Values = tuple[Any, ...]
"""The values of a row, in the order of the columns; None where one is missing."""

_PLAIN = frozenset(
    {
        type(None), bool, int, float, str, bytes, list, tuple, dict, set, Decimal, dt.date,
        dt.datetime, dt.time, dt.timedelta,
    }
)  # fmt: skip
_MAX_KINDS = 3  # of a column, whose type is named
_WORDS = 4  # of a text that has to be read to be understood, on average
_MAX_CHARS = 20_000  # of a value that identifies its row


@dataclass(frozen=True, slots=True)
class Column:
    """A column as a program reads it.

    Attributes:
        name: The name of the attribute.
        label: The name of the column.
        kind: The type of its values.
        is_named: Whether the model may read the name of the column.
        key: The label as the data have it.
    """

    name: str
    label: str
    kind: Any
    is_named: bool = True
    key: Any = None

    @property
    def text(self) -> str:
        """The column as the model reads it."""
        shown = f"{self.name}: {type_for_programs(self.kind)}"
        if self.name != self.label and self.is_named:
            shown += f"  # the column {self.label!r}"
        return shown


class Columns:
    """The columns of rows.

    Args:
        items: The rows: mappings by column, or single values.
        single: The name of the column of single values.
        hidden: The names that may be made from values, and that the model does not read.

    Attributes:
        columns: The columns, in order.
        rows: The values of each row.
        is_table: Whether the rows are mappings.
    """

    def __init__(
        self, items: Sequence[Any], single: str = "value", hidden: Collection[str] = ()
    ) -> None:
        self.is_table = bool(items) and all(isinstance(each, Mapping) for each in items)
        records: list[Mapping[Any, Any]] = list(items)
        if not self.is_table:
            records = [{single: each} for each in items]
        labels = list(dict.fromkeys(key for each in records for key in each))
        self.rows: list[Values] = [
            tuple(_value(each.get(label)) for label in labels) for each in records
        ]
        names = attribute_names(
            f"column {at + 1}" if str(label) in hidden else str(label)
            for at, label in enumerate(labels)
        )
        self.columns = tuple(
            Column(
                name,
                str(label),
                _kind(row[at] for row in self.rows),
                is_named=str(label) not in hidden,
                key=label,
            )
            for at, (name, label) in enumerate(zip(names, labels, strict=True))
        )

    @property
    def spec(self) -> tuple[tuple[str, Any], ...]:
        """The attributes of a row with their types, from which `row_type` makes the class."""
        return tuple((each.name, each.kind) for each in self.columns)

    def in_prompt(self, prompt: str) -> dict[str, str]:
        """The expression in a program for each field of a prompt."""
        names = {each.label: each.name for each in self.columns}
        fields = Template(prompt, list(names)).fields
        return {source: f"row.{names[column]}" for source, column in fields.items()}

    @functools.cached_property
    def own_texts(self) -> list[str]:
        """The names of the columns in which most rows have a text of their own."""
        return [
            column.name
            for at, column in enumerate(self.columns)
            if len({row[at] for row in self.rows if isinstance(row[at], str)}) > len(self.rows) / 2
        ]

    @functools.cached_property
    def free_texts(self) -> list[str]:
        """The columns whose texts have to be read, because they are not labels."""
        found = []
        for at, column in enumerate(self.columns):
            texts = [row[at] for row in self.rows if isinstance(row[at], str)]
            words = sum(len(each.split()) for each in texts)
            if column.name in self.own_texts and words >= _WORDS * len(texts):
                found.append(column.name)
        return found

    def text_of(
        self, values: Values, *, hides_values: bool = False, without: Collection[str] = ()
    ) -> str:
        """A row for the model and the person: with long values shortened, or with types only.

        Args:
            values: The values of the row.
            hides_values: Whether no value is in it.
            without: The names of columns whose values are not in it.
        """
        if hides_values:
            parts = []
            for column, value in zip(self.columns, values, strict=True):
                kind = "None" if value is None else type_for_programs(_kind([value]))
                parts.append(f"{column.name}: {kind}")
            return f"Row({', '.join(parts)})"
        handles = Handles()
        shown = [
            f"{column.name}={'…' if column.name in without else short(to_sandbox(value, handles))}"
            for column, value in zip(self.columns, values, strict=True)
        ]
        return f"Row({', '.join(shown)})"

    def shape_of(self, values: Values) -> tuple[type, ...]:
        """The types of a row's values: what makes it different from most."""
        return tuple(map(type, values))

    @staticmethod
    def identity(values: Values) -> str:
        """The identity of a row; equal rows have the same."""
        digest = hashlib.sha256()
        for value in values:
            kind = type(value)
            text = repr(value)
            if kind not in _PLAIN:
                text = f"{kind.__module__}.{kind.__qualname__} {render(value, _MAX_CHARS).text}"
            digest.update(f"{len(text)} {text}".encode("utf-8", "surrogatepass"))
        return digest.hexdigest()


@functools.lru_cache(maxsize=16)
def row_type(spec: tuple[tuple[str, Any], ...]) -> Any:
    """The class of the rows, whose attributes are the columns."""
    return dataclasses.make_dataclass("Row", spec, frozen=True)


def attribute_names(labels: Iterable[str]) -> list[str]:
    """A name for each column that Python accepts as an attribute, different from the others."""
    names: list[str] = []
    for label in labels:
        stem = re.sub(r"\W+", "_", label).strip("_") or "column"
        if not stem.isidentifier():
            stem = f"column_{stem}"
        if keyword.iskeyword(stem):
            stem = f"{stem}_"
        name = stem
        for number in itertools.count(2):
            if name not in names:
                break
            name = f"{stem}_{number}"
        names.append(name)
    return names


def _value(value: Any) -> Any:
    """A value of a cell; None where it is missing."""
    if is_missing(value):
        return None
    if type(value) in _PLAIN:
        return value
    return _of_library(value)


def _of_library(value: Any) -> Any:
    """A scalar of numpy or pandas as Python's own; anything else unchanged."""
    found = to_sandbox(value, Handles())
    if type(found) in _PLAIN:
        return found
    return value


def _kind(values: Iterable[Any]) -> Any:
    """The type of a column: a union of few, or any."""
    found = dict.fromkeys(map(type, values))
    if {bool, int, float} & found.keys() == {int, float}:
        # As an argument, an int is a float.
        del found[int]
    kinds = [each for each in found if each is not type(None)]
    if not kinds or len(kinds) > _MAX_KINDS or not _PLAIN.issuperset(kinds):
        return Any
    if type(None) in found:
        kinds.append(type(None))
    return functools.reduce(operator.or_, kinds)
