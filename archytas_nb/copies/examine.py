"""Questions to a copy about a statement: whether it is cured, and hints about its failure.

A copy gives back only data.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from archytas_nb.copies import silent
from archytas_nb.copies.cures import cure_of
from archytas_nb.copies.failures import Failure, is_table
from archytas_nb.copies.hints import hints, is_unfit, state_of
from archytas_nb.copies.missing import without_missing
from archytas_nb.copies.short import short_data
from archytas_nb.copies.silent import cure_before, never_equal
from archytas_nb.syntax.bindings import Bindings
from archytas_nb.syntax.parse import parsed
from archytas_nb.words import truncate_line

if TYPE_CHECKING:
    from archytas_nb.copies.place import Copy

__all__ = [
    "asked",
    "assigned",
    "before",
    "defined",
    "examined",
    "fields_of",
    "state_of",
    "unfit_inputs",
    "unseen",
    "without_missing",
]


def asked(copy: Copy | None, function: str, *given: Any) -> Any:
    """The reply of a function of this module in a copy; None if the copy has ended.

    Args:
        copy: The copy.
        function: The name of the function, which is given the variables of the copy last.
        given: The arguments before them: data.
    """
    if copy is None:
        return None
    arguments = "".join(f"{each!r}, " for each in given)
    module = f"__import__({__name__!r}, fromlist={[function]!r})"
    report = copy.run(f"{module}.{function}({arguments}globals())", keep=False, is_part=True)
    value = report.statements[-1].value if report.statements else None
    return None if value is None else value.object


def examined(
    source: str,
    program: str,
    names: Iterable[str],
    variables: Mapping[str, Any],
    error: BaseException | None = None,
) -> tuple[tuple[str, str] | None, list[str]]:
    """The cure of a statement that failed, as its source and why, or what is known of it.

    Args:
        source: The statement.
        program: The program that it is of.
        names: The names of the variables in question; tables of these are meant by others.
        variables: The variables.
        error: The error that it raised; None for the last one.
    """
    error = error or sys.last_value
    if error is None:
        return None, []
    tables = tuple(each for each in names if is_table(variables.get(each)))
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


def unfit_inputs(source: str, tables: Iterable[str], variables: Mapping[str, Any]) -> list[str]:
    """The variables that a statement reads, made by the program, whose data is missing or text."""
    uses = Bindings(parsed(source)).uses
    names = dict.fromkeys(use.name for use in uses if use.act == "read")
    return [each for each in names if each not in tables and is_unfit(variables.get(each))]


def before(source: str, variables: Mapping[str, Any]) -> tuple[tuple[str, str] | None, list[str]]:
    """The cure of a statement before it runs, or what is odd about it; see `silent`."""
    statement = parsed(source).body[-1]
    cure = cure_before(statement, variables)
    if cure is not None:
        return (cure.source, cure.why), []
    return None, never_equal(statement, variables)


def unseen(code: str, variables: Mapping[str, Any]) -> list[str]:
    """Remarks on executed code that did not do as meant; see `silent`."""
    return [truncate_line(each, 300) for each in silent.unseen(parsed(code), variables)]


def assigned(
    names: Iterable[str], variables: Mapping[str, Any]
) -> tuple[list[str], list[str], dict[str, Any]]:
    """The variables that a statement has assigned.

    Returns:
        The variables that are a number and have no value, those without any rows, and the values
        of those that are short data.
    """
    values: dict[str, Any] = {name: variables.get(name) for name in names}
    missing = [name for name, each in values.items() if isinstance(each, float) and each != each]  # noqa: PLR0124
    empty = []
    short = {}
    for name, each in values.items():
        with suppress(Exception):
            if each is not None and (is_table(each) or hasattr(each, "dtype")):
                empty += [] if len(each) else [name]
        with suppress(Exception):
            short[name] = short_data(each)
    return missing, empty, short


def defined(names: Iterable[str], variables: Mapping[str, Any]) -> list[str]:
    """The names of these that are variables."""
    return [each for each in names if each in variables]


def fields_of(name: str, variables: Mapping[str, Any]) -> list[str]:
    """The names of the parts of a variable that is a named tuple; empty for any other."""
    value = variables.get(name)
    fields = getattr(value, "_fields", ()) if isinstance(value, tuple) else ()
    return [str(each) for each in fields]
