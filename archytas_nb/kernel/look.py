"""The tools with which a model looks at variables: they only read."""

from __future__ import annotations

import functools
import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sized
from dataclasses import replace
from typing import Any, Literal, NamedTuple, TypeAlias

from archytas_nb.kernel.cards import card
from archytas_nb.kernel.context import listed_columns
from archytas_nb.kernel.visible import variables_in, why_not_shown
from archytas_nb.loop.events import ROOM
from archytas_nb.loop.record import CardForm
from archytas_nb.namespace import contained, current_shell
from archytas_nb.tools import data
from archytas_nb.tools.headline import headline
from archytas_nb.tools.paths import NoPartError, Part
from archytas_nb.tools.render import render
from archytas_nb.tools.tables import Column, column_of, index_of, table_of
from archytas_nb.tools.texts import cell_text, in_line, is_array, is_missing
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import LiveNamespace, part_of, resolve
from archytas_nb.words import count, runs, truncate_line

What: TypeAlias = Literal["head", "describe", "columns", "values"]

LIST_TOOL = "variables"
"""The name of the tool that lists the variables."""
NO_VARIABLES = "The notebook has no variables."
_PAGE = 4000  # characters of a page of `variables`
_IN_LINE = 50  # names that share a line
_MAX_COLUMN = 100  # characters of the name of a column
_HEAD = CardForm(tokens=1000, has_values=False)
"""How the result of `look` begins."""
_DISTINCT_ROWS = 200_000  # maximum number of rows for counting different values
_FREQUENT = 20  # maximum number of values of a column that are listed
_MOST_FREQUENT = 5  # of more values than that, those that are listed among others
_EXAMPLES = 3  # values of a column in which each occurs once
_BEGINNING = 500  # characters of a long text that are shown first
_MAX_LABEL = 60  # characters of one of them
_KINDS_OF_MISSING = 3  # which are counted one by one, and told as one
_CARDS = 40  # maximum number of columns with statistics
_LEAST_ROWS = 3  # columns of numbers whose statistics are a table
_CONTAINER = 1000  # characters of the description of a container, whose parts can be looked at
_REPEATED = 500  # maximum length of a question that is repeated below a result

_NAMED_CELL = re.compile(
    r"\[\s*\d+\s*\]|\b(?:In|Out)\s*\[|(?<!\w)_i?\d+\b|\bcells?\W{0,3}\d", re.IGNORECASE
)


def look_tools(question: str = "") -> tuple[Tool, ...]:
    """The tools `variables` and `look`, which read the user's variables and change nothing.

    If a question is given, their results end with it: after reading a result about one part of a
    question, a small model forgets the other parts.
    """
    tools = _look_tools()
    if not question or len(question) > _REPEATED:
        return tools
    ending = f"\n\nThe question was: {question}\nWhen you know enough, answer every part of it."

    def repeating(function: Callable[..., str]) -> Callable[..., str]:
        return lambda *args, **kwargs: function(*args, **kwargs) + ending

    return tuple(replace(each, function=repeating(each.function)) for each in tools)


def offers_cells_tool(question: str, *, small: bool) -> bool:
    """Whether a model gets the tool `cells`: a small one only if the question names a cell.

    It does not depend on which cells ran: a runner may run them without IPython's history, and a
    replay must send the requests of the recording.
    """
    if getattr(current_shell(), "history_manager", None) is None:
        return False
    return not small or bool(_NAMED_CELL.search(question))


@functools.cache
def _look_tools() -> tuple[Tool, ...]:
    return tuple(Tool.from_function(each, repeat=True) for each in (variables, look))


def variables(  # noqa: D417 - the model does not see the namespace
    namespace: LiveNamespace, page: int = 1
) -> str:
    """List the variables of the notebook with their types, shapes and columns, the newest first.

    Args:
        page: Which page of a long list
    """
    pages = pages_of(dict(variables_in(namespace)))
    if not pages:
        return NO_VARIABLES
    if not 1 <= page <= len(pages):
        raise ValueError(f"page {page} does not exist; expected a number from 1 to {len(pages)}")
    where = f"\n(page {page} of {len(pages)})" if len(pages) > 1 else ""
    return pages[page - 1] + where


def pages_of(namespace: Mapping[str, Any], *, hidden: Collection[str] | None = None) -> list[str]:
    """All variables, the newest first, a line for each or for several with one description."""
    groups: dict[str, list[str]] = {}
    for name, value in namespace.items():
        columns = ", ".join(listed_columns(value, hidden))
        line = headline(value, hidden=hidden) + (f": {columns}" if columns else "")
        groups.setdefault(line, []).append(name)
    lines = []
    for line, names in groups.items():
        written = runs(names)
        parts = (written[at : at + _IN_LINE] for at in range(0, len(written), _IN_LINE))
        lines += [f"{', '.join(part)}: {line}" for part in parts]
    pages: list[str] = []
    for line in reversed(lines):
        if pages and len(pages[-1]) + len(line) < _PAGE:
            pages[-1] += f"\n{line}"
        else:
            pages.append(line)
    return pages


def look(  # noqa: D417 - the model does not see the namespace
    name: str, namespace: LiveNamespace, what: What = "describe"
) -> str:
    """Look at a variable of the notebook; nothing is changed.

    Args:
        name: The name of a variable, or a path into one: df["x"], df.x, cfg["a"][0]
        what: head: first rows or items; describe: statistics; columns: names and types; values: how often each value of a column occurs
    """  # noqa: E501 - the model reads the line as it is
    name, span = _with_span(name.strip())
    part = _found(name, namespace)
    if span is not None:
        return _part_shown(part.source, part.value, span)
    name, value = part.owner_source, part.owner
    if part.column is None:
        name, value = part.source, part.value
    text = card(name, value, form=_HEAD)
    table = table_of(value)
    names = _labels_of(value)
    head = text.partition("\n")[0]
    if part.column is not None:
        column = part.column
        if what in ("describe", "columns") or column.size is None:
            return f"{head}\n{_line(column)}, {_card(column)}"
        name, value = part.source, column.native
    elif what == "columns":
        return text
    elif what == "describe" and data.is_data(value):
        return "\n".join([head, *_cards(value)])
    elif what == "values" and table is not None:
        example = f"Give the name of one, as in {name}[{names[0]!r}]: " if names else ""
        which = f"{example}{', '.join(names[:40])}"
        raise ValueError(f"the values of which column of {name!r}? {which}")
    if what != "values":
        room = ROOM if what == "head" else _CONTAINER
        return f"{name}: {_shown(name, value, room=room)}"
    found = _counted(value)
    if found is None and not data.is_data(value):
        kind = type(value).__name__
        raise ValueError(f"{name!r} is of type {kind!r}, which holds no values to count")
    return f"{name}: {_listed(found)}"


def _with_span(name: str) -> tuple[str, slice | None]:
    """A name, and the part that is asked for, as in ``text[500:1000]``."""
    found = re.fullmatch(r"(.+)\[\s*(\d{0,12})\s*:\s*(\d{0,12})\s*\]", name)
    if found is None:
        return name, None
    begin, end = (int(each) if each else None for each in found.groups()[1:])
    return found[1], slice(begin, end)


def _part_shown(name: str, value: Any, span: slice) -> str:
    """Some characters of a text, items of a container or rows of a table."""
    written = f"{name}[{span.start or 0}:{'' if span.stop is None else span.stop}]"
    part: Any = None
    if isinstance(value, (str, bytes, list, tuple)) or is_array(value):
        part = value[span]
    elif table_of(value) is not None or column_of(value) is not None:
        part = value.iloc[span] if hasattr(value, "iloc") else value[span]
    else:
        raise ValueError(f"{name!r} has no order, so there is no part {written!r} of it")
    begin = span.start or 0
    shown = _shown(written, part, begin)
    if isinstance(value, str):  # so that it is seen where it was cut
        shown = f"{'…' * (begin > 0)}{shown}{'…' * (begin + len(part) < len(value))}"
    return f"{written}: {shown}"


def _shown(name: str, value: Any, begin: int = 0, room: int = ROOM) -> str:
    """A value; of a long text the beginning, and how to go on."""
    if not isinstance(value, str) or len(value) <= ROOM:
        return render(value, room=room).text
    end = begin + _BEGINNING
    lines = count(value.count("\n") + 1, "line")
    root = re.sub(r"\[\d*:\d*\]$", "", name)
    return (
        f"str of {len(value):,} characters in {lines}; the first {_BEGINNING}:\n"
        f"{value[:_BEGINNING]}…\n(go on with {root}[{end}:{end + ROOM}])"
    )


def _found(name: str, namespace: LiveNamespace) -> Part:
    """The value at a name or a path; raises ValueError if it may not be shown."""
    try:
        resolve(name, object, namespace)  # its error lists the variables
        part = part_of(name, namespace)
    except NoPartError as error:
        raise ValueError(str(error)) from None
    if part is None:  # another thread has just deleted it
        raise ValueError(f"no variable is named {name!r}")
    for each in (namespace[part.root], part.owner, part.value):
        if why := why_not_shown(part.root, each):
            raise ValueError(f"{name!r} is not shown: {why}")
    return part


def _names_of(value: Any) -> list[str]:
    """The names of the columns; empty if this is not a table."""
    table = table_of(value)
    return [] if table is None else [str(each) for each in table.names]


def _labels_of(value: Any) -> list[str]:
    """The names of the columns as they are written; empty if this is not a table."""
    table = table_of(value)
    return [] if table is None else table.labels


def _line(column: Column, name: str = "") -> str:
    """A column with its name and type."""
    return f"  {truncate_line(name or column.label, _MAX_COLUMN)}: {column.type_text}"


def _cards(value: Any) -> list[str]:
    """Statistics, with a line for each level of the index and each column of a table."""
    index = [
        f"{_line(each, name=data.level_name(each))}, {_card(each)}" for each in index_of(value)
    ]
    table = table_of(value)
    if table is None:
        column = column_of(value)
        return [*index, _card_of_array(value) if column is None else _card(column)]
    shown = [table.column(place) for place in range(min(table.width, _CARDS))]
    rows = {place: row for place, each in enumerate(shown) if (row := _row_of_numbers(each))}
    if len(rows) < _LEAST_ROWS:
        rows = {}
    lines = [
        f"{_line(each)}, {_card(each)}" for place, each in enumerate(shown) if place not in rows
    ]
    if table.width > _CARDS:
        more = data.listed_names(table.labels[_CARDS:])
        lines.append(f"  … {table.width - _CARDS:,} more columns: {more}")
    numbers = [data.csv_text([_STATISTICS, *rows.values()])] if rows else []
    return [*index, *numbers, *lines]


_STATISTICS = (
    "column", "type", "missing", "min", "25 %", "median", "75 %", "max", "mean", "different",
)  # fmt: skip


def _row_of_numbers(column: Column) -> tuple[str, ...]:
    """The statistics of a column of numbers as a row; empty if its values are to be listed."""
    with contained():  # some types of numbers have no quartiles
        if column.kind != "number" or not column.size or column.missing() == column.size:
            return ()
        number = column.different()
        if number <= _FREQUENT and number < column.size - column.missing():
            return ()
        least, greatest = column.ends()
        facts = [least, *column.quartiles(), greatest, column.mean()]
        name = truncate_line(column.label, _MAX_COLUMN)
        numbers = map(data.short_number, facts)
        return name, column.type_text, str(column.missing()), *numbers, str(number)
    return ()


def _card(column: Column) -> str:
    """Missing values, range and mean of numbers, and the frequent values if there are few."""
    if column.size is None:
        return "not computed"
    parts = []
    with contained():
        parts.append(f"{column.missing()} missing")
    if column.kind != "other":  # of values that cannot be compared, there is no range
        with contained():
            parts.append(_range(column))
    is_number = column.kind == "number"
    with contained():
        if is_number and (number := column.different()) > _FREQUENT:
            parts.append(count(number, "different value"))
        elif column.kind != "time":
            found = _frequent(column)
            if is_number and found is not None and not _repeats(found):
                parts.append(count(found.number, "different value"))
            else:
                parts.append(_listed(found, with_missing=False, most=_MOST_FREQUENT))
    return "; ".join(parts) or "no statistics"


def _range(column: Column) -> str:
    """The least and the greatest value, and the mean of numbers."""
    first, last = map(in_line, column.ends())
    if column.kind == "time":
        return f"from {first} to {last}"
    text = f"min {first}, max {last}, mean {data.short_number(column.mean())}"
    quartiles: list[Any] = []
    with contained():  # some types of numbers have none
        quartiles = column.quartiles()
    return (
        f"{text}, quartiles {', '.join(map(data.short_number, quartiles))}" if quartiles else text
    )


def _card_of_array(value: Any) -> str:
    """Missing values, range and mean of numbers, and the frequent values if there are few."""
    parts = []
    kind = value.dtype.kind
    with contained():  # values that cannot be compared
        present = value
        if hasattr(value, "compressed"):  # masked
            present = value.compressed()
        elif kind in "fcmM":
            present = value[value == value]  # noqa: PLR0124 - NaN is not itself
        if missing := value.size - present.size:
            parts.append(f"{missing} missing")
        if kind in "mM":
            parts.append(f"from {cell_text(present.min())} to {cell_text(present.max())}")
            return "; ".join(parts)
        if kind in "iuf":
            ends = f"min {cell_text(present.min())}, max {cell_text(present.max())}"
            parts.append(f"{ends}, mean {cell_text(present.mean())}")
    with contained():
        found = _counted(value) if value.size <= _DISTINCT_ROWS else None
        if found is not None and (kind not in "iuf" or found.number <= _FREQUENT):
            parts.append(_listed(found, with_missing=False))
    return "; ".join(parts) or "no statistics"


class _Frequent(NamedTuple):
    """How many different values there are, without missing ones, and the most frequent ones."""

    number: int
    counts: list[tuple[Any, int]]


def _listed(found: _Frequent | None, *, with_missing: bool = True, most: int = _FREQUENT) -> str:
    """The number of different values, and how often all or the most frequent ones occur."""
    if found is None:
        return "values not counted, there are too many"
    counts = [each for each in found.counts if with_missing or not is_missing(each[0])]
    number = count(found.number, "different value")
    if counts and not (with_missing or _repeats(found)):
        is_all = found.number <= _FREQUENT
        shown = counts if is_all else counts[:_EXAMPLES]
        examples = ", ".join(in_line(each, _MAX_LABEL) for each, _ in shown)
        return f"{number}{':' if is_all else ', such as'} {examples}"
    shown = counts[: _FREQUENT if found.number <= _FREQUENT else most]
    listed = ", ".join(f"{in_line(each, _MAX_LABEL)} {times}×" for each, times in shown)
    has_more = found.number > sum(not is_missing(each) for each, _ in shown)
    return f"{number}: {listed}{', …' * has_more}" if counts else number


def _repeats(found: _Frequent) -> bool:
    """Whether a value occurs more than once."""
    return any(times > 1 for each, times in found.counts if not is_missing(each))


def _counted(value: Any) -> _Frequent | None:
    """How often values occur; None if there are none, or too many to count."""
    column = column_of(value)
    if column is not None:
        return _frequent(column)
    items = value
    if data.is_data(value) and table_of(value) is None:
        items = list(getattr(value, "flat", value))
    if not isinstance(items, (list, tuple, set, dict)):
        return None
    return _frequent_of(items)


def _frequent(column: Column) -> _Frequent | None:
    """How often the values of a column occur; what its library cannot count is counted by text."""
    with contained():
        counts = column.counts(_FREQUENT + _KINDS_OF_MISSING)
        return _Frequent(column.different(), _merged(counts))
    return _frequent_of(column.values(slice(None)))


def _frequent_of(items: Collection[Any]) -> _Frequent | None:
    counts: Counter[Any]
    try:
        counts = Counter(items)
    except TypeError:  # values that cannot be hashed
        if sum(len(each) if isinstance(each, Sized) else 1 for each in items) > _DISTINCT_ROWS:
            return None
        counts = Counter(None if is_missing(each) else cell_text(each) for each in items)
    number = len(counts) - sum(map(is_missing, counts))
    return _Frequent(number, _merged(counts.most_common(_FREQUENT + _KINDS_OF_MISSING)))


def _merged(counts: list[tuple[Any, int]]) -> list[tuple[Any, int]]:
    """Frequencies in which all missing values are one, whatever a library has in their place."""
    missing = [times for each, times in counts if is_missing(each)]
    if len(missing) < 2:
        return counts
    present = [each for each in counts if not is_missing(each[0])]
    return sorted([*present, (None, sum(missing))], key=lambda each: -each[1])
