"""Helpers: run a function as a tool, and a person who answers by script."""

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


class Scripted:
    """Gives its answers in order; an exception among them is raised. Where they are used up, no answer comes."""

    def __init__(self, *answers: str | type[BaseException], there: bool = True) -> None:
        self.answers = list(answers)
        self.there = there
        self.prompts: list[str] = []

    def ask(self, prompt: str, form: Any = None) -> str:
        self.prompts.append(prompt if form is None else f"{form.text}\n{prompt}")
        if not self.answers:
            raise EOFError
        answer = self.answers.pop(0)
        if isinstance(answer, str):
            return answer
        raise answer
