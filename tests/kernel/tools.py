"""Helpers: run functions as tools."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.loop.events import CallOutcome, Output, ToolCall
from archytas_nb.tools.toolbox import Toolbox


def run_one(
    function: Callable[..., Any],
    given: object = None,
    *,
    person: Any = None,
    on_output: Callable[[str], None] | None = None,
    seconds: float | None = None,
    **options: Any,
) -> CallOutcome:
    """Make a tool of a function with these options, and run one call of it."""
    box = Toolbox()
    name = box.add(function, **options).name
    executor = KernelExecutor(box, {}, person=person, on_output=on_output)
    [outcome] = executor.run([ToolCall("q01s01c01", name, given)], seconds)
    return outcome


def run_all(
    functions: dict[str, Callable[..., Any]], *, seconds: float | None = None, **options: Any
) -> tuple[CallOutcome, ...]:
    """Run one call of each function, in one reply."""
    box = Toolbox()
    for name, function in functions.items():
        box.add(function, name=name, **options)
    calls = [ToolCall(f"q01s01c{n:02}", name) for n, name in enumerate(functions, 1)]
    outcomes = KernelExecutor(box, {}).run(calls, seconds)
    assert [outcome.call_id for outcome in outcomes] == [call.id for call in calls]
    return outcomes


def text_of(outputs: tuple[Output, ...], kind: str = "stdout") -> str:
    """All text of one kind among outputs."""
    return "".join(str(each.data["text/plain"]) for each in outputs if each.kind == kind)
