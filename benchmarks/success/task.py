"""A task: a scene with tools and questions, a check of the result, and proof that it can be solved.

Law of this file: values only. It knows no model and runs nothing.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from archytas_nb.loop.events import CallOutcome, ToolCall
from archytas_nb.run import Run

Half = Literal["choose", "report", "blind"]
KINDS = (
    "one call",
    "choose a tool",
    "arguments",
    "two steps",
    "three steps",
    "compare",
    "conditional",
    "exactly once",
    "recover",
    "retry",
    "nothing available",
    "no tool needed",
    "follow-up",
    "typed answer",
    "code",
)


@dataclass(frozen=True, slots=True)
class Finished:
    """The result of a scene: one run for each question, in order."""

    runs: Sequence[Run]
    names: Mapping[str, Any] = field(default_factory=dict)
    """The variables afterwards."""

    @property
    def last(self) -> Run:
        """The run of the last question."""
        return self.runs[-1]

    @property
    def answer(self) -> str:
        """The last answer."""
        return self.last.answer

    @property
    def gave_up(self) -> bool:
        """Whether the model said, by `fail_task`, that the last question cannot be done."""
        return self.last.status == "failed"

    @property
    def calls(self) -> list[tuple[ToolCall, CallOutcome]]:
        """The calls of all runs."""
        return [pair for run in self.runs for pair in run.calls]


@dataclass(frozen=True, slots=True)
class Scene:
    """One fresh world. Tools share state through what they close over, and `check` looks at that state.

    Attributes:
        tools: The functions that become tools.
        questions: What is asked, one after the other in one conversation.
        check: What is wrong with what came of it; empty where the task is solved. It looks at values and at the
            state that the tools left, never at wording.
        oracle: For each question the replies of a model that solves it.
        liar: The answer of a model that does nothing and claims success: it must not pass the check.
        namespace: The variables of the notebook.
        output_type: The type of the last answer, where one is asked for.
        runs_code: Whether the model has the tool `python`.
    """

    tools: Sequence[Callable[..., Any]]
    questions: tuple[str, ...]
    check: Callable[[Finished], str]
    oracle: tuple[Sequence[Any], ...]
    liar: str = "Done. The result is 77."
    namespace: dict[str, Any] = field(default_factory=dict)
    output_type: Any = None
    runs_code: bool = False


@dataclass(frozen=True, slots=True)
class Task:
    """A named scene.

    Attributes:
        name: Unique.
        kind: One of `KINDS`.
        half: ``"choose"`` for tuning, ``"report"`` only for reporting; ``"blind"`` for tasks that were written
            without sight of the package, and that are run only where they are asked for.
        build: Makes a fresh scene.
    """

    name: str
    kind: str
    half: Half
    build: Callable[[], Scene]

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"{self.name}: kind is {self.kind!r}; expected one of {KINDS}")


REGISTRY: dict[str, Task] = {}
"""Every task by its name, in the order of definition; filled when `benchmarks.success.tasks` is imported."""


def task(kind: str, half: Half) -> Callable[[Callable[[], Scene]], Callable[[], Scene]]:
    """Register a function that builds a scene as the task of its own name."""

    def register(build: Callable[[], Scene]) -> Callable[[], Scene]:
        name = build.__name__
        if name in REGISTRY:
            raise ValueError(f"two tasks are named {name!r}")
        REGISTRY[name] = Task(name, kind, half, build)
        return build

    return register
