"""Finds the tables of a question with which programs have to compute in a copy."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from archytas_nb.kernel.mentions import owners_named, place_of
from archytas_nb.kernel.visible import shown_names
from archytas_nb.loop.record import Exchange
from archytas_nb.namespace import contained
from archytas_nb.tools.tables import table_of


def concerned(
    question: str,
    variables: Mapping[str, Any],
    past: Sequence[Exchange] = (),
    *,
    alone: bool,
    is_opaque: Callable[[Any], bool],
) -> tuple[str, ...]:
    """The variables that a question is about, if there is one that only a copy computes with.

    A question is about what it names: a variable, or a column of a table. If it names none, it is
    about what the question before it was about, and without tools about all tables.

    Args:
        question: The question.
        variables: The variables.
        past: The exchanges before it.
        alone: Whether the model has no tools of the person.
        is_opaque: Whether the sandbox cannot compute with a value.
    """
    names = shown_names(variables)
    named = [name for name in names if place_of(name, question) >= 0]
    found = [name for name in named if is_opaque(variables[name])]
    tables = {name: columns_of(variables[name]) for name in names}
    tables = {name: each for name, each in tables.items() if each}
    found += [name for name, _ in owners_named(tables, question)]
    if not found and past and past[-1].context is not None:
        found = [name for name in past[-1].context.in_copy if name in variables]
    if not found and alone:
        found = [*tables]
    # One such variable sends the whole question to a copy, with all others that it names.
    return tuple(dict.fromkeys([*found, *named])) if found else ()


def columns_of(value: Any) -> list[str]:
    """The names of the columns of a table; empty for any other value."""
    with contained():
        table = table_of(value)
        if table is not None and table.size is not None:
            return [str(each) for each in table.names]
    return []
