"""What a copy is asked about a statement: whether it is cured, and what is known of it.

A copy gives back only data.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

from archytas_nb.copies.cures import cure_before, cure_of
from archytas_nb.copies.failures import Failure
from archytas_nb.copies.hints import hints, is_unfit, state_of
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.parse import parsed
from archytas_nb.words import truncate_line

__all__ = ["cured_before", "examined", "missing_numbers", "state_of", "unfit_inputs"]


def examined(
    error: BaseException,
    source: str,
    program: str,
    variables: Mapping[str, Any],
    tables: tuple[str, ...],
) -> tuple[tuple[str, str] | None, list[str]]:
    """The cure of a failed statement, as its source and why, and what is known of it.

    A copy gives back only data.
    """
    try:
        whole = parsed(program)
    except (SyntaxError, ValueError):
        whole = parsed(source)
    failure = Failure(error, parsed(source).body[-1], whole, variables, tables)
    cure = None
    with suppress(Exception):  # variables may be objects of any kind
        cure = cure_of(failure)
    if cure is not None:
        return (cure.source, cure.why), []
    with suppress(Exception):
        return None, [truncate_line(each, 300) for each in hints(failure)]
    return None, []


def unfit_inputs(source: str, variables: Mapping[str, Any], tables: Iterable[str]) -> list[str]:
    """The variables that a statement reads, made by the program, whose data is missing or text."""
    uses = Bindings(parsed(source)).uses
    names = dict.fromkeys(use.name for use in uses if use.act == "read")
    return [each for each in names if each not in tables and is_unfit(variables.get(each))]


def cured_before(source: str, variables: Mapping[str, Any]) -> tuple[str, str] | None:
    """The same of a statement before it runs; see `cure_before`."""
    cure = None
    with suppress(Exception):
        cure = cure_before(parsed(source).body[-1], variables)
    return None if cure is None else (cure.source, cure.why)


def missing_numbers(names: Iterable[str], variables: Mapping[str, Any]) -> list[str]:
    """Those of these variables that are a number and have no value."""
    values = {name: variables.get(name) for name in names}
    return [name for name, each in values.items() if isinstance(each, float) and each != each]  # noqa: PLR0124
