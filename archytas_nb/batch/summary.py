"""The summary of a map that has ended: counts, the answers at a glance, and the failed rows."""

from __future__ import annotations

import re
import statistics
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import replace
from enum import Enum
from typing import Any

from archytas_nb.effects.ledger import Effect
from archytas_nb.template import Template
from archytas_nb.tools.texts import cell_text
from archytas_nb.trace.calls import effect_rows
from archytas_nb.trace.map_panel import ROWS, Column, Failure, FinishedMap
from archytas_nb.trace.safe import Table
from archytas_nb.words import collapse_whitespace, count, without_values

_MOST_VALUES = 8
"""Different values of a column whose numbers of rows are shown."""
_MOST_REASONS = 6
_PREVIEW = 5
_CELL = 40  # characters
_ABOUT = 120  # characters of a row that failed
_LIMIT = re.compile(r" \(max_\w+=\d+\)$")
"""The limit that ended a row, which is not why it failed."""


def finished(
    name: str,
    line: str,
    prompt: str,
    items: Sequence[Any],
    records: Sequence[Mapping[str, Any]],
    names: Sequence[str],
    warning: str = "",
    effects: Sequence[Effect] = (),
) -> FinishedMap:
    """A map that has ended.

    Args:
        name: The variable that holds the result; empty if that is not known.
        line: How many rows are done, and what they took.
        prompt: What to do with each row.
        items: The rows.
        records: The result of each row.
        names: The columns of the answers.
        warning: A warning about the map, apart from rows that failed.
        effects: The effects of the rows' calls outside of the variables.
    """
    done = [each for each in records if each["status"] in ("done", "differs")]
    columns = [column_of(each, [record[each] for record in done]) for each in names]
    errors = {
        number: _LIMIT.sub("", collapse_whitespace(str(record["error"] or ""), 300))
        for number, record in enumerate(records)
        if record["status"] == "failed"
    }
    failures = _grouped(errors, str)
    if len(failures) > _MOST_REASONS:  # such as one for each row, with a number of its own
        failures = _grouped(errors, without_values)
    shown = (
        replace(each, abouts=tuple(_about(items[row]) for row in each.rows[:ROWS]))
        for each in failures
    )
    return FinishedMap(
        name, line, tuple(filter(None, columns)), tuple(shown),
        _preview(prompt, items, records, names), len(records), warning, effect_rows(effects),
    )  # fmt: skip


def _about(item: Any) -> str:
    """A row in one line."""
    if not isinstance(item, Mapping):
        return collapse_whitespace(cell_text(item), _ABOUT)
    pairs = (
        f"{name}: {collapse_whitespace(cell_text(value), _CELL)}" for name, value in item.items()
    )
    return collapse_whitespace(" · ".join(pairs), _ABOUT)


def _grouped(errors: Mapping[int, str], kind: Callable[[str], str]) -> list[Failure]:
    """The rows that failed by each reason, the most frequent one first."""
    rows: dict[str, list[int]] = {}
    for number, error in errors.items():
        rows.setdefault(kind(error), []).append(number)
    groups = sorted(rows.values(), key=len, reverse=True)
    return [Failure(errors[each[0]], tuple(each)) for each in groups]


def column_of(name: str, values: Sequence[Any]) -> Column | None:
    """The values of a column at a glance: how often each occurs, or their range; None if empty."""
    known = [each for each in values if each is not None]
    if not known:
        return None
    texts = [_text(each) for each in known]
    counts = Counter(texts).most_common()
    is_few = len(counts) <= _MOST_VALUES and (len(counts) < len(texts) or len(texts) == 1)
    numbers = [float(each) for each in known if type(each) in (int, float)]
    # Up to three different numbers are more likely labels, such as 0 and 1.
    is_range = len(numbers) == len(known) and not (is_few and len(counts) <= 3)
    if is_few and not is_range:
        return Column(name, tuple(counts))
    if is_range:
        parts = min(numbers), statistics.median(numbers), max(numbers)
        low, middle, high = (f"{each:,.6g}" for each in parts)
        return Column(name, says=f"{low} to {high}, median {middle}")
    sizes = [len(each) for each in texts]
    says = f"{count(len(counts), 'different value')}, {min(sizes)} to {max(sizes)} characters"
    return Column(name, says=says)


def columns_at_a_glance(answers: Sequence[Any]) -> list[Column]:
    """The answers of a map that goes on, as the model wrote them: by field, or as one column."""
    if answers and all(isinstance(each, Mapping) for each in answers):
        names = list(dict.fromkeys(str(name) for each in answers for name in each))
        found = [column_of(name, [each.get(name) for each in answers]) for name in names]
    else:
        found = [column_of("answer", answers)]
    return [each for each in found if each is not None]


def _text(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, Enum):
        value = value.value
    return collapse_whitespace(cell_text(value), _CELL) if isinstance(value, Hashable) else "…"


def _preview(
    prompt: str,
    items: Sequence[Any],
    records: Sequence[Mapping[str, Any]],
    names: Sequence[str],
) -> Table:
    """The first rows: what was asked about, then the answers."""
    inputs = ["row"]
    if items and all(isinstance(each, Mapping) for each in items):
        every = list(dict.fromkeys(str(name) for each in items for name in each))
        fields = dict.fromkeys(Template(prompt, every).fields.values())
        inputs = list(fields or every[:1])
    rows = []
    for item, record in zip(items[:_PREVIEW], records, strict=False):
        given = [item]
        if inputs != ["row"] or isinstance(item, Mapping):
            values = {str(name): value for name, value in item.items()}
            given = [values.get(name) for name in inputs]
        cells = [*given, *(record[each] for each in names), record["status"]]
        rows.append(tuple(collapse_whitespace(cell_text(each), _CELL) for each in cells))
    return Table((*inputs, *names, "status"), tuple(rows))
