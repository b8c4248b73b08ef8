"""A value on one line: its type, its size, and what its parts are called.

    DataFrame 1,461 × 6, index month    list[60 dict]          Pipeline of StandardScaler, Ridge
    Series 33 float64, index day        dict(alpha, layers)    float
    ndarray 1,000 × 384 float32         dict[812 str: int]     str of 1,204 characters

No code of the value's class is run, other than that of libraries of tables and arrays. Names may
have been made from values, so a line without them can be asked for.
"""

from __future__ import annotations

import re
import sys
from collections import Counter, deque
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any

from archytas_nb.errors import STOPS
from archytas_nb.tools.tables import Table, column_of, index_of, label_of, table_of
from archytas_nb.tools.texts import is_array
from archytas_nb.words import count, truncate_line

MAX_NAME = 100
"""Characters of the name of a column, a level of an index, or a key."""
_ITEMS = 10_000  # maximum number of items whose types are read
_KEYS = 8  # maximum number of keys of a dict that are named
_KINDS = 4  # maximum number of types of items that are named
_PARTS = 6  # maximum number of parts of an object that are named
_LEVELS = 8  # maximum number of levels of an index that are named
_SHORT_TEXT = 80  # characters of a text whose length is not told
_ARRAYS = ("__dlpack__", "__array_interface__", "__cuda_array_interface__", "__array__")
"""What the class of an array of any library has."""


def headline(value: Any, *, hidden: Collection[str] | None = None, in_words: bool = False) -> str:
    """A value on one line, whatever the object does.

    Args:
        value: The value.
        hidden: The names to leave out, with everything that may have been made from values: keys,
            items and parameters of types. None to leave out nothing.
        in_words: Whether the size of a table is written in words, as ``4 rows × 3 columns``.
    """
    try:
        return _headline(value, hidden, in_words=in_words)
    except STOPS:
        raise
    except BaseException:  # noqa: BLE001 - an object may raise anything
        return "object" if hidden is not None else type_name(type(value))


def _headline(value: Any, hidden: Collection[str] | None, *, in_words: bool) -> str:
    # Where values are hidden, so are lengths of texts, keys and categories: they come from values.
    is_bare = hidden is not None
    kind = written_type(type(value)) if is_bare else type_name(type(value))
    if isinstance(value, str):
        size = str.__len__(value)
        is_told = not is_bare and size > _SHORT_TEXT
        return f"{kind} of {size:,} characters" if is_told else kind
    if (table := table_of(value)) is not None:
        return f"{kind} {_size(table, in_words=in_words)}{axes(value, table, hidden)}"
    if (column := column_of(value)) is not None:
        dtype = bare_type(column.dtype) if is_bare else column.type_text
        return f"{kind} {len(value):,} {dtype}{axes(value, None, hidden)}"
    if is_array(value) or _is_foreign_array(value):
        shape = " × ".join(f"{int(each):,}" for each in value.shape)
        dtype = bare_type(value.dtype) if is_bare else truncate_line(str(value.dtype), MAX_NAME)
        return " ".join(filter(None, (kind, shape, dtype)))
    if (items := items_of(value)) is not None:
        return _container(kind, value, items, is_bare=is_bare)
    parts = Counter([] if is_bare else parts_of(value))
    named = [f"{name} × {times:,}" if times > 1 else name for name, times in parts.items()]
    return f"{kind} of {_named(named, _PARTS)}" if parts else kind


def _size(table: Table, *, in_words: bool) -> str:
    if table.size is None:
        return f"of {count(table.width, 'column')}, a query whose rows are not computed"
    if in_words:
        return f"of {table.size} rows × {table.width} columns"
    return f"{table.size:,} × {table.width:,}"


def axes(value: Any, table: Table | None, hidden: Collection[str] | None = None) -> str:
    """The names of the index, and of the columns of a pivot; mostly empty."""
    text = ""
    levels = index_of(value)
    names = [
        level.label or str(level.type_text)
        for level in levels
        if hidden is None or (level.name is not None and str(level.name) not in hidden)
    ]
    if names:
        text = f", index {_named(names, _LEVELS)}"
    if table is not None:
        by = [each for each in table.levels if each not in (hidden or ())]
        if by:
            text += f", columns by {_named(by, _LEVELS)}"
    return text


def _is_foreign_array(value: Any) -> bool:
    """Whether a value is an array of a library, such as a tensor."""
    cls = type(value)
    is_one = any(hasattr(cls, each) for each in _ARRAYS) and hasattr(cls, "shape")
    return is_one and value.shape != () and cls.__module__ != "__main__" and hasattr(cls, "dtype")


# ── containers and other objects ──────────────────────────────────────────────────────────────────


def items_of(value: Any) -> Collection[Any] | None:
    """The items of a container, or the pairs of a dict, by no code of its class; else None."""
    if isinstance(value, dict):
        return _Items(value, dict)
    for base in (list, tuple, set, frozenset, deque):
        if isinstance(value, base):
            return _Items(value, base)
    return None


class _Items(Collection[Any]):
    """The items of an object that is a container of Python, or made of one."""

    def __init__(self, value: Any, base: Any) -> None:
        self._value = value
        self._base = base

    def __len__(self) -> int:
        return int(self._base.__len__(self._value))

    def __iter__(self) -> Iterator[Any]:
        if self._base is dict:
            return iter(dict.items(self._value))
        each: Iterator[Any] = self._base.__iter__(self._value)
        return each

    def __contains__(self, item: object) -> bool:
        return any(each is item for each in self)


def _container(kind: str, value: Any, items: Collection[Any], *, is_bare: bool) -> str:
    size = len(items)
    if not size:
        return f"{kind}[0]"
    if is_bare:
        return f"{kind}[{size:,}]"
    read = list(islice(items, _ITEMS))
    first = "" if len(read) == size else f"; the first {len(read):,}:"
    if isinstance(value, dict):
        keys = [key for key, _ in read]
        if size <= _KEYS and all(isinstance(each, str) for each in keys):
            return f"{kind}({_named(map(label_of, keys), _KEYS)})"
        of = f"{kinds_in(keys)}: {kinds_in(each for _, each in read)}"
    else:
        of = kinds_in(read)
    return f"{kind}[{size:,}{first} {of}]"


def kinds_in(values: Iterable[Any]) -> str:
    """The types of values, each once, in the order in which they come first."""
    return _named(map(type_name, dict.fromkeys(map(type, values))), _KINDS, " or ")


def parts_of(value: Any) -> list[str]:
    """The types of what an object is made of, such as the steps of a model; mostly none.

    These are the objects in the first attribute that is a list or a dict of objects, or of tuples
    with one each. Attributes are read from the object itself, so no code of its class is run.
    """
    for attribute in attributes_of(value).values():
        items = items_of(attribute)
        if not items or len(items) > _ITEMS or isinstance(attribute, (str, set, frozenset)):
            continue
        found = [_object_in(each) for each in islice(items, _ITEMS)]
        if None not in found:
            return [type_name(type(each)) for each in found]
    return []


def _object_in(item: Any) -> Any:
    """An object of a class, also in a tuple; None if there is none or several."""
    candidates = item if type(item) is tuple else (item,)
    found = [each for each in candidates if _is_object(each)]
    return found[0] if len(found) == 1 else None


def _is_object(value: Any) -> bool:
    if value is None or isinstance(value, type) or type(value).__module__ == "builtins":
        return False
    return bool(attributes_of(value)) and table_of(value) is None and not is_array(value)


def attributes_of(value: Any) -> Mapping[str, Any]:
    """The attributes that are stored in an object itself, by no code of its class."""
    try:
        found = object.__getattribute__(value, "__dict__")
    except AttributeError:
        return {}
    return found if type(found) is dict and not isinstance(value, type) else {}


def _named(names: Iterable[str], most: int, between: str = ", ") -> str:
    """Names on one line, at most this many; the others are counted."""
    listed = [truncate_line(each, MAX_NAME) for each in names]
    shown = between.join(listed[:most])
    return shown if len(listed) <= most else f"{shown}{between}… {len(listed) - most:,} more"


# ── types ─────────────────────────────────────────────────────────────────────────────────────────


def type_name(cls: type) -> str:
    """The name of a class, without calling its metaclass."""
    return str(type.__dict__["__name__"].__get__(cls))


def written_type(kind: type) -> str:
    """The name of a class, or of its base class if it is not found under its name in its module.

    Such a class was made while running, in a function or by `type`, perhaps with a value as name.
    """
    for each in type.__dict__["__mro__"].__get__(kind):
        path: str = type.__dict__["__qualname__"].__get__(each)
        found: Any = sys.modules.get(str(each.__module__))
        for step in path.split("."):
            found = vars(found).get(step) if hasattr(found, "__dict__") else None
        if found is each:
            return type_name(each)
    return "object"


def bare_type(dtype: Any) -> str:
    """The name of a type of values without its parameters.

    These may be values, such as categories, the names of fields, or the length of the longest text.
    """
    if hasattr(dtype, "fields"):  # of numpy
        return str(dtype.type.__name__).rstrip("_")
    return re.split(r"[\[(<{]", str(dtype))[0][:60]
