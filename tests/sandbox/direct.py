"""Runs a program in Python and in the sandbox itself, with three pure tools."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pytest
from pydantic_monty import (
    FunctionSnapshot,
    Monty,
    MontyComplete,
    MontyError,
    NameLookupSnapshot,
)

from archytas_nb.sandbox.prelude import PRELUDE

Ran = tuple[dict[str, str], list[str], str]
"""The variables at the end, the calls in order, and the kind of the error."""


@pytest.fixture(scope="session")
def pool() -> Iterator[Monty]:
    with Monty() as workers:
        yield workers


def number(value: Any) -> Any:
    """A number for anything."""
    return int(value) % 7 if isinstance(value, (int, float)) else len(str(value))


def text(value: Any) -> Any:
    return f"<{value}>"


def half(value: Any) -> Any:
    """Half of a number; it fails for anything else."""
    if not isinstance(value, (int, float)):
        raise ValueError("not a number")  # noqa: TRY004
    return value / 2


TOOLS = {"number": number, "text": text, "half": half}


def _called(calls: list[str], name: str, given: Sequence[Any], named: Mapping[str, Any]) -> Any:
    value = [*given, *named.values()]
    if len(value) != 1:
        raise TypeError("one value")
    calls.append(f"{name}({value[0]!r})")
    return TOOLS[name](value[0])


def in_python(source: str, names: Sequence[str]) -> Ran:
    calls: list[str] = []

    def tool(name: str) -> Any:
        return lambda *given, **named: _called(calls, name, given, named)

    namespace: dict[str, Any] = {name: tool(name) for name in TOOLS}
    error = ""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            exec(compile(source, "<program>", "exec"), namespace)
    except Exception as raised:
        error = type(raised).__name__
    return {name: repr(namespace.get(name)) for name in names}, calls, error


_OWN = "_repr, _missing = repr, NameError\n"  # the program may bind these names
_READ = "try:\n    _text = _repr({})\nexcept _missing:\n    _text = 'None'\n_text"


def in_sandbox(pool: Monty, source: str, names: Sequence[str]) -> Ran:
    calls: list[str] = []
    error = ""
    with pool.checkout(limits={"max_feed_duration_secs": 5.0}) as session:
        session.feed_run(_OWN + PRELUDE)
        try:
            drive(session.feed_start(source), calls)
        except MontyError as raised:
            error = type(raised.exception()).__name__
        values = {name: session.feed_run(_READ.format(name)) for name in names}
    return values, calls, error


def drive(snapshot: Any, calls: list[str]) -> None:
    while not isinstance(snapshot, MontyComplete):
        if isinstance(snapshot, NameLookupSnapshot):
            is_tool = snapshot.variable_name in TOOLS
            name = snapshot.variable_name
            snapshot = snapshot.resume(value=_named(name)) if is_tool else snapshot.resume()
            continue
        assert isinstance(snapshot, FunctionSnapshot)
        name = str(snapshot.function_name)
        try:
            if name not in TOOLS:
                raise NameError(name)
            value = _called(calls, name, snapshot.args, snapshot.kwargs)
            snapshot = snapshot.resume({"return_value": value})
        except MontyError:
            raise
        except Exception as raised:
            snapshot = snapshot.resume({"exception": raised})


def _named(name: str) -> Any:
    def function() -> None: ...

    function.__name__ = name
    function.__qualname__ = name
    return function
