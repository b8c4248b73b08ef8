"""Hints about a statement that failed in a copy: facts looked up there, written by nobody.

Columns and attributes that exist and are spelled nearly so, the parameters of the function that was
called, and what the variables of the statement are.
"""

from __future__ import annotations

import ast
import inspect
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from difflib import get_close_matches
from itertools import islice
from typing import Any

from archytas_nb.copies.failures import Failure, columns_of, is_table
from archytas_nb.copies.libraries import library_owners
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.parse import parsed

MAX_HINTS = 5
"""The number of hints after one failure."""

_FEW = 4  # values of a series that are shown
_COLUMNS = 25  # columns of a table that are named


def hints(failure: Failure) -> list[str]:
    """The hints, the most telling ones first."""
    found = [
        *_near(failure),
        *_parameters(failure),
        *_texts(failure),
        *_state(failure.statement, failure.variables, failure.tables),
    ]
    return list(dict.fromkeys(found))[:MAX_HINTS]


def _near(failure: Failure) -> Iterator[str]:
    """The names that exist and resemble the one in the error."""
    error = failure.error
    if isinstance(error, KeyError):
        columns = failure.columns
        for each in [text for text in failure.strings if text not in columns][:3]:
            if close := get_close_matches(each, columns, 3, 0.5):
                yield f"there is no column {each!r}; there is {_listed(close)}"
    elif isinstance(error, AttributeError) and error.name in _attributes(failure.statement):
        names = [each for each in dir(error.obj) if not each.startswith("_")]
        owner = getattr(error.obj, "__name__", type(error.obj).__name__)
        if close := get_close_matches(error.name, names, 3, 0.6):
            yield f"{owner} has {_listed(close)}"
        for module in library_owners(error.name)[:1]:
            yield f"{module}.{error.name} exists"
    elif isinstance(error, NameError) and error.name:
        names = [each for each in failure.variables if not each.startswith("_")]
        close = get_close_matches(error.name, names, 2, 0.7) or list(failure.tables)
        yield f"there is no {error.name}; there is {_listed(close)}"


def _attributes(statement: ast.stmt) -> set[str]:
    """The attributes that a statement names; one that a library names is not a fault of it."""
    return {each.attr for each in ast.walk(statement) if isinstance(each, ast.Attribute)}


def _parameters(failure: Failure) -> Iterator[str]:
    """The parameters of the function whose call does not fit."""
    if not isinstance(failure.error, TypeError) or "argument" not in str(failure.error):
        return
    for call in (each for each in ast.walk(failure.statement) if isinstance(each, ast.Call)):
        with suppress(Exception):
            function = failure.value_of(call.func)
            if function.__name__ in str(failure.error):
                names = ", ".join(inspect.signature(function).parameters)
                yield f"the arguments are {function.__name__}({names})"


def _texts(failure: Failure) -> Iterator[str]:
    """Columns of text, where the statement computes with numbers."""
    if not isinstance(failure.error, (TypeError, ValueError)):
        return
    named = set(failure.strings)
    for name, table in _tables(failure):
        for column in [each for each in columns_of(table) if each in named][:2]:
            with suppress(Exception):
                if str(table[column].dtype) in ("str", "object", "string"):
                    present = table[column].dropna()
                    yield f"{name}[{column!r}] holds text such as {present.iloc[0]!r}"
        if not named & set(columns_of(table)):
            kinds = [
                each for each in columns_of(table) if str(table[each].dtype) in ("str", "object")
            ]
            if kinds:
                yield f"{name} has columns of text: {_listed(kinds[:8])}"


def state_of(source: str, tables: Collection[str], variables: Mapping[str, Any]) -> list[str]:
    """The variables of a statement, described, without those of the notebook's tables."""
    return list(_state(parsed(source), variables, tables))


def _state(tree: ast.AST, variables: Mapping[str, Any], tables: Collection[str]) -> Iterator[str]:
    names = dict.fromkeys(use.name for use in Bindings(tree).uses if use.act == "read")
    for name in names:
        value = variables.get(name)
        is_known = name in tables or value is None or callable(value)
        if not is_known and not inspect.ismodule(value):
            with suppress(Exception):
                yield about(name, value)


def about(name: str, value: Any) -> str:
    """A description of a variable, in one line."""
    if is_table(value):
        listed = _listed(columns_of(value)[:_COLUMNS])
        facts = f"{name}: {type(value).__name__}, {len(value)} rows, columns {listed}"
        counts = {column: int(number) for column, number in _missing(value).items() if number}
        return f"{facts}, missing values {counts}"[:300] if counts else facts
    if hasattr(value, "items") and hasattr(value, "dtype"):
        few = ", ".join(
            f"{_short(key)}: {_short(each)}" for key, each in islice(value.items(), _FEW)
        )
        missing = int(value.isna().sum()) if hasattr(value, "isna") else 0
        facts = f"{name}: {type(value).__name__} of {value.dtype}, {len(value)} values"
        return f"{facts}{f', {missing} missing' if missing else ''}: {few}"
    shape = getattr(value, "shape", ())
    return f"{name}: {type(value).__name__} {shape or _short(value, 60)}"


def _missing(table: Any) -> Any:
    """How many values are missing in each column."""
    return table.isna().sum() if hasattr(table, "isna") else {}


def is_unfit(value: Any) -> bool:
    """Whether a value is data with missing values or text, which nothing can compute with."""
    with suppress(Exception):
        if is_table(value):
            has_text = any(each.kind not in "biufc" for each in value.dtypes)
            return has_text or bool(_missing(value).sum())
        if hasattr(value, "isna"):
            return value.dtype.kind not in "biufc" or bool(value.isna().any())
        if getattr(value, "dtype", None) is not None and value.shape:
            return bool((value != value).any())  # noqa: PLR0124 - nan is not itself
    return False


def _tables(failure: Failure) -> list[tuple[str, Any]]:
    names = dict.fromkeys(use.name for use in Bindings(failure.statement).uses)
    found = ((name, failure.variables.get(name)) for name in names)
    return [(name, value) for name, value in found if is_table(value)]


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _short(value: Any, size: int = 24) -> str:
    if hasattr(value, "item") and not getattr(value, "shape", (1,)):
        value = value.item()
    text = re.sub(r"\s+", " ", repr(value))
    return text if len(text) <= size else f"{text[: size - 1]}…"
