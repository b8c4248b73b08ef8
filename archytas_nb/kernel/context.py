"""What the model may know about the variables: a digest, and two tools that only read.

The digest is sent below a question, with the types, shapes and columns of variables, but no values.
Its size is limited, and it depends only on the variables and the question.
"""

from __future__ import annotations

import functools
import gc
import os
import re
import sys
from collections import Counter, UserList, deque
from collections.abc import (
    Callable,
    Collection,
    Iterable,
    Iterator,
    Mapping,
    MappingView,
    Sequence,
    Sized,
)
from dataclasses import is_dataclass, replace
from types import SimpleNamespace
from typing import Any, Literal, NamedTuple, TypeAlias

from archytas_nb.choices import ContextName
from archytas_nb.loop.record import Context, Exchange
from archytas_nb.namespace import contained, current_shell
from archytas_nb.tools import data
from archytas_nb.tools.names import is_secret
from archytas_nb.tools.render import is_lazy, render
from archytas_nb.tools.tables import Column, Table, column_of, index_of, table_of
from archytas_nb.tools.texts import cell_text, in_line, is_missing
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.variables import LiveNamespace, is_code, resolve, user_names, why_not_passed
from archytas_nb.words import count, did_you_mean, truncate_line

What: TypeAlias = Literal["head", "describe", "columns", "values"]

MAX_CONTEXT_CHARS = 1500
"""Characters of a digest."""
_LISTED = 4000  # maximum number of characters that `variables` returns
_MAX_COLUMNS = 600  # maximum number of characters about the columns of one frame
_MAX_COLUMN = 100  # maximum number of characters of the name of one
_DISTINCT_ROWS = 200_000  # maximum number of rows for counting different values
_FREQUENT = 20  # maximum number of values of a column that are listed
_MAX_LABEL = 60  # characters of one of them
_KINDS_OF_MISSING = 3  # which are counted one by one, and told as one
_CARDS = 40  # maximum number of columns with statistics
_REPEATED = 500  # maximum length of a question that is repeated below a result

_NAMED_CELL = re.compile(
    r"\[\s*\d+\s*\]|\b(?:In|Out)\s*\[|(?<!\w)_i?\d+\b|\bcells?\W{0,3}\d", re.IGNORECASE
)
_ENVIRONMENT = type(os.environ)
_CONTAINERS = (dict, list, tuple, deque, UserList, Mapping, MappingView, SimpleNamespace)


def context_of(
    kind: ContextName,
    namespace: Mapping[str, Any],
    question: str,
    past: Sequence[Exchange] = (),
    earlier: Exchange | None = None,
    *,
    small: bool = False,
    alone: bool = False,
    failed: str = "",
    hidden: Collection[str] | None = None,
) -> Context | None:
    """The context of a question: its digest; None if the model must not look at variables.

    Args:
        kind: Which variables are described.
        namespace: The variables.
        question: The question; a variable is mentioned if its whole name occurs in it.
        past: The exchanges before this one.
        earlier: The exchange that this one replaces. If its question is the same, the same
            variables are described again, whatever later cells have created since.
        small: Whether the model is small: ``"auto"`` then describes only what is mentioned.
        alone: Whether the model has no other tools.
        failed: The cell that failed before the question: its variables count as mentioned, too.
        hidden: The columns and variables that are not named, if only names, types and shapes may
            be, unless the question names them; None if statistics may be as well.
    """
    if kind == "none":
        return None
    variables = dict(_variables(namespace))
    mentions = f"{question}\n{failed}" if failed else question
    places = {name: _place(name, mentions) for name in variables}
    names = sorted((name for name in places if places[name] >= 0), key=places.__getitem__)
    has_looked = any(each.context is not None and each.context.is_offered for each in past)
    if kind == "auto" and small and not (names or alone or has_looked):
        return None
    now = {name: _state(value) for name, value in variables.items()}
    if earlier is not None and earlier.context is not None and earlier.question == question:
        others = [name for name in earlier.context.names if name in variables]
    elif kind == "mentioned" or (kind == "auto" and small):
        others = []
    else:
        known: Mapping[str, Any] = {}
        if past and kind != "all" and past[-1].context is not None:
            known = past[-1].context.state
        others = [name for name, state in now.items() if known.get(name) != state]
    names += [name for name in others if name not in names and name not in (hidden or ())]
    text, columns = _digest(variables, names, MAX_CONTEXT_CHARS, hidden)
    return Context(text, tuple(names), now, columns=tuple(columns))


def digest(
    namespace: Mapping[str, Any],
    names: Sequence[str],
    max_chars: int = MAX_CONTEXT_CHARS,
    *,
    hidden: Collection[str] | None = None,
) -> str:
    """Describe variables in at most so many characters; others are counted."""
    return _digest(namespace, names, max_chars, hidden)[0]


def _digest(
    namespace: Mapping[str, Any],
    names: Sequence[str],
    max_chars: int,
    hidden: Collection[str] | None,
) -> tuple[str, list[str]]:
    """The digest, and the columns that it names, each as ``name.column``."""
    lines: list[str] = []
    columns: list[str] = []
    size = 0
    for name in names:
        line, found = _described(name, namespace[name], hidden)
        size += len(line) + 1
        if size > max_chars - 40:
            lines.append(f"… and {len(names) - len(lines)} more variables")
            break
        lines.append(line)
        # There may be no room for a column.
        columns += [f"{name}.{each}" for each in found if truncate_line(each, _MAX_COLUMN) in line]
    return "\n".join(lines), columns


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


def variables(namespace: LiveNamespace) -> str:
    """List the variables of the notebook with their types, shapes and columns."""
    found = dict(_variables(namespace))
    return digest(found, list(found), _LISTED) or "The notebook has no variables."


def look(  # noqa: D417 - the model does not see the namespace
    name: str, namespace: LiveNamespace, what: What = "describe"
) -> str:
    """Look at a variable of the notebook; nothing is changed.

    Args:
        name: The name of the variable
        what: head: the first rows or items; describe: statistics and frequent values of each column; columns: names, types, missing and different values; values: how often each value of df.column occurs
    """  # noqa: E501 - the model reads the line as it is
    name, column = _split(name.strip(), namespace)
    value = resolve(name, object, namespace)
    if why := _not_shown(name, value):
        raise ValueError(f"{name!r} is not shown: {why}")
    text = described(name, value)
    table = table_of(value)
    names = _labels_of(value)
    head = text.partition("\n")[0]
    if column:
        part = _part(value, column, name)
        if what in ("describe", "columns") or part.size is None:
            return f"{head}\n{_line(part)}, {_card(part)}"
        value = part.native
        name = f"{name}[{column!r}]"
    elif what == "columns":
        return text
    elif what == "describe" and data.is_data(value):
        return "\n".join([head, *_cards(value)])
    elif what == "values" and table is not None:
        example = f"Give the name of one, as in {name}.{names[0]}: " if names else ""
        which = f"{example}{', '.join(names[:40])}"
        raise ValueError(f"the values of which column of {name!r}? {which}")
    if what != "values":
        return f"{name}: {render(value).text}"
    found = _counted(value)
    if found is None and not data.is_data(value):
        kind = type(value).__name__
        raise ValueError(f"{name!r} is of type {kind!r}, which holds no values to count")
    return f"{name}: {_listed(found)}"


def _part(value: Any, part: str, name: str) -> Column:
    """A column of a variable, or a level of its index; raises ValueError if there is none."""
    table = table_of(value)
    names = _labels_of(value)
    for known in (names, _names_of(value)):
        if table is not None and part in known:
            return table.column(known.index(part))
    for level in index_of(value):
        if part in (level.label or "index", str(level.name)):
            return level
    expected = "it has none"
    if names:
        expected = f"expected one of {', '.join(names[:40])}"
    hint = did_you_mean(part, names)
    raise ValueError(f"{name!r} has no column {part!r}{hint}; {expected}")


def _split(name: str, namespace: LiveNamespace) -> tuple[str, str]:
    """The names of a variable and of a column: from ``df.x``, ``df["x"]`` or ``x`` alone."""
    found = re.fullmatch(r"""(\w+)(?:\.(.+)|\[(["'])(.+)\3\])""", name)
    if found and found[1] in namespace:
        return found[1], found[2] or found[4]
    owners = [each for each, it in _variables(namespace) if name in _names_of(it)]
    if len(owners) == 1 and name not in namespace:
        return (owners[0], name)
    return (name, "")


# ── one variable ──────────────────────────────────────────────────────────────────────────────────


def described(name: str, value: Any, hidden: Collection[str] | None = None) -> str:
    """A variable with type, shape and columns, but no values, whatever the object does.

    Args:
        name: The name.
        value: The value.
        hidden: The columns that are not named; then nothing is counted but rows, columns and items.
            None to count missing and different values, too.
    """
    return _described(name, value, hidden)[0]


def _described(name: str, value: Any, hidden: Collection[str] | None) -> tuple[str, Sequence[str]]:
    """As `described`, with the names of the columns that are shown."""
    with contained():
        more = ""
        names: Sequence[str] = ()
        if hidden is not None and type(value) is str:
            return f"{name}: str", ()
        table = table_of(value)
        head = _head(value, table, is_bare=hidden is not None)
        if table is not None:
            names = _shown_columns(table, hidden)
            more = f"{_by(table, hidden)}: {_columns(table, names, hidden)}"
        elif (column := column_of(value)) is not None:
            counts = _counts(column) if hidden is None else ""
            more = counts + "".join(_index_lines(index_of(value), hidden))
        return f"{name}: {head}{more}", names
    if hidden is not None:
        return f"{name}: object", ()
    return f"{name}: {type.__getattribute__(type(value), '__name__')}", ()


def type_and_shape(value: Any) -> str:
    """The type of a value and the shape of an array or a frame, whatever the object does."""
    with contained():
        return "str" if type(value) is str else _head(value, table_of(value), is_bare=True)
    return "object"


def written_type(kind: type) -> str:
    """The name of a class, or of its base class if it is not found under its name in its module.

    Such a class was made while running, in a function or by `type`, perhaps with a value as name.
    """
    for each in type.__dict__["__mro__"].__get__(kind):
        name: str = type.__dict__["__name__"].__get__(each)
        path: str = type.__dict__["__qualname__"].__get__(each)
        found: Any = sys.modules.get(str(each.__module__))
        for step in path.split("."):
            found = vars(found).get(step) if hasattr(found, "__dict__") else None
        if found is each:
            return name
    return "object"


def _head(value: Any, table: Table | None, *, is_bare: bool = False) -> str:
    """Type and shape; if bare, without names that may have been made from values."""
    kind = written_type(type(value)) if is_bare else type(value).__name__
    if table is not None:
        if table.size is None:
            return f"{kind} of {table.width} columns, a query whose rows are not computed"
        return f"{kind} of {table.size} rows × {table.width} columns"
    if data.is_data(value):
        shape = " × ".join(map(str, data.shape_of(value)))
        column = column_of(value)
        dtype = value.dtype if column is None else column.dtype
        values = _bare(dtype) if is_bare else dtype
        return f"{kind} of {shape} values of type {values}"
    if type(value) in (list, tuple, set, frozenset, dict):
        return f"{kind} of {len(value)} item{'s' * (len(value) != 1)}"
    if type(value) is str:
        return f"{kind} of {len(value)} characters"
    return kind


def _bare(dtype: Any) -> str:
    """The name of a type of values without its parameters.

    These may be values, such as categories, the names of fields, or the length of the longest text.
    """
    if hasattr(dtype, "fields"):  # of numpy
        return str(dtype.type.__name__).rstrip("_")
    return re.split(r"[\[(<{]", str(dtype))[0]


def _columns(table: Table, names: Sequence[str], hidden: Collection[str] | None = None) -> str:
    """The names of the columns, then a line for each one's type, as many as there is room for.

    A small model finds both more reliably than in one line of names with types in parentheses.
    """
    lines = _index_lines(table.index, hidden)
    for place, name in enumerate(names):
        column = table.column(place)
        counts = _counts(column) if hidden is None else ""
        lines.append(f"\n{_line(column, hidden, name)}{counts}")
        if sum(map(len, lines)) > _MAX_COLUMNS:
            lines[-1] = f"\n  … {len(names) - place} more columns"
            break
    return truncate_line(", ".join(names), _MAX_COLUMNS // 2) + "".join(lines)


def _line(column: Column, hidden: Collection[str] | None = None, name: str = "") -> str:
    """A column with its name and type."""
    kind = column.type_text if hidden is None else f"{_bare(column.dtype):.60}"
    return f"  {truncate_line(name or column.label, _MAX_COLUMN)}: {kind}"


def _by(table: Table, hidden: Collection[str] | None) -> str:
    """What the columns of a pivot stand for: the names of their levels."""
    levels = [each for each in table.levels if each not in (hidden or ())]
    return truncate_line(f" by {', '.join(levels)}", _MAX_COLUMN) if levels else ""


def _index_lines(index: Iterable[Column], hidden: Collection[str] | None = None) -> list[str]:
    """A line for each level of an index, without values."""
    lines = []
    for place, level in enumerate(index, 1):
        name = data.level_name(level)
        if level.name is not None and str(level.name) in (hidden or ()):
            name = f"index level_{place}"
        counts = _counts(level) if hidden is None else ""
        lines.append(f"\n{_line(level, hidden, name)}{counts}")
    return lines


def _shown_columns(table: Table, hidden: Collection[str] | None) -> list[str]:
    """The names of the columns, or their places where the names may have been made from values."""
    if hidden is None:
        return table.labels
    pairs = zip(map(str, table.names), table.labels, strict=True)
    return [
        f"column_{place}" if name in hidden else label
        for place, (name, label) in enumerate(pairs, 1)
    ]


def columns_in(namespace: Mapping[str, Any]) -> set[str]:
    """The names of the columns of all tables, and those of their levels and indexes."""
    found: set[str] = set()
    for _, value in _variables(namespace):
        with contained():
            found.update(_names_of(value))
            found.update(str(each.name) for each in index_of(value) if each.name is not None)
            if (table := table_of(value)) is not None:
                found.update(table.levels)
    return found


def _names_of(value: Any) -> list[str]:
    """The names of the columns; empty for what is no table."""
    table = table_of(value)
    return [] if table is None else [str(each) for each in table.names]


def _labels_of(value: Any) -> list[str]:
    """The names of the columns as they are written; empty for what is no table."""
    table = table_of(value)
    return [] if table is None else table.labels


def _counts(column: Column) -> str:
    """The number of missing values, and of different ones unless they are numbers."""
    if column.size is None:
        return ""
    if column.size > _DISTINCT_ROWS:
        return ", not counted"
    text = ""
    if missing := column.missing():
        text = f", {missing} missing"
    with contained():  # values that cannot be hashed
        if column.kind == "other":
            text += f", {count(column.different(), 'different value')}"
    return text


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
    lines = index + [f"{_line(each)}, {_card(each)}" for each in shown]
    if table.width > _CARDS:
        lines.append(f"  … {table.width - _CARDS} more columns")
    return lines


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
            parts.append(_listed(_frequent(column), with_missing=False))
    return "; ".join(parts) or "no statistics"


def _range(column: Column) -> str:
    """The least and the greatest value, and the mean of numbers."""
    first, last = map(in_line, column.ends())
    if column.kind == "time":
        return f"from {first} to {last}"
    return f"min {first}, max {last}, mean {cell_text(column.mean())}"


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


def _listed(found: _Frequent | None, *, with_missing: bool = True) -> str:
    """The number of different values, and how often the most frequent ones occur."""
    if found is None:
        return "values not counted, there are too many"
    counts = [each for each in found.counts if with_missing or not is_missing(each[0])]
    listed = ", ".join(
        f"{in_line(each, _MAX_LABEL)} {times}×" for each, times in counts[:_FREQUENT]
    )
    number = count(found.number, "different value")
    has_more = found.number > sum(not is_missing(each) for each, _ in counts[:_FREQUENT])
    return f"{number}: {listed}{', …' * has_more}" if counts else number


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


# ── which variables ───────────────────────────────────────────────────────────────────────────────


def shown_names(namespace: Mapping[str, Any]) -> list[str]:
    """The names of the variables that a model may read."""
    return [name for name, _ in _variables(namespace)]


def _variables(namespace: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The user's variables without modules, tools, functions, classes, secrets and our objects."""
    for name in user_names(namespace):
        value = namespace[name]
        is_left_out = True
        with contained():
            is_left_out = is_secret(name) or _is_left_out(name, value)
        if not is_left_out:
            yield name, value


def _is_left_out(name: str, value: Any) -> bool:
    is_ours = str(type(value).__module__).partition(".")[0] == __name__.partition(".")[0]
    return is_ours or bool(why_not_passed(name, value)) or is_code(value)


def _not_shown(name: str, value: Any) -> str:
    """Why the value of a variable is not shown to the model; empty if it is shown."""
    if is_secret(name):
        return "it is named like a secret"
    if is_lazy(value):
        return f"reading a {type(value).__name__} would use it up"
    if holds_environment(value):
        return "it holds the environment"
    return ""


def holds_environment(value: Any) -> bool:
    """Whether a value contains the environment, or a view of it, at any depth."""
    stack = [value]
    seen = set()
    alive = []
    while stack:
        each = stack.pop()
        kind = type(each)
        if issubclass(kind, _ENVIRONMENT):
            return True
        if id(each) in seen:
            continue
        seen.add(id(each))
        if issubclass(kind, _CONTAINERS) or is_dataclass(kind) or hasattr(kind, "model_dump"):
            parts = gc.get_referents(each)
            stack += [it for it in parts if gc.is_tracked(it) or hasattr(type(it), "tolist")]
        elif hasattr(kind, "tolist") and str(getattr(each, "dtype", "")) == "object":
            stack.append(each.tolist())
            alive.append(stack[-1])  # so that its id is not reused
    return False


def _place(name: str, question: str) -> int:
    found = re.search(rf"(?<!\w){re.escape(name)}(?!\w)", question)
    if found:
        return found.start()
    return -1


# ── what has changed ──────────────────────────────────────────────────────────────────────────────


def _state(value: Any) -> tuple[int, str]:
    """The id of a variable's object, and its type and shape."""
    with contained():
        return id(value), _head(value, table_of(value))
    return id(value), type.__getattribute__(type(value), "__name__")
