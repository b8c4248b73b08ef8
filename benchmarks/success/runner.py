"""One task, one model → one result. It measures; what is to be made of the numbers is `report`'s business."""

from __future__ import annotations

import time
from collections.abc import Generator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import archytas_nb as nb
from archytas_nb.errors import RunError
from archytas_nb.loop.events import AskModel, Delta, ModelReply
from archytas_nb.run import Run, to_json
from benchmarks.success.ablations import ablated
from benchmarks.success.bare import BareAgent, Unconstrained
from benchmarks.success.task import Finished, Scene, Task


@dataclass(frozen=True, slots=True)
class Settings:
    """How every task is run.

    Attributes:
        protocol: ``"auto"``, ``"react"``, ``"native"`` or ``"program"``.
        bare: Without constrained decoding and guards.
        max_steps: Most replies of the model to one question.
        max_seconds: Most seconds for one question; a reply that has begun is waited for.
        without: Pieces of what helps small models, by the names of `ablations.PIECES`.
        plans: Whether the model writes a plan first, which is carried out as it is.
    """

    protocol: str = "auto"
    bare: bool = False
    max_steps: int = 12
    max_seconds: float = 120.0
    without: tuple[str, ...] = ()
    plans: bool = False


@dataclass(slots=True)
class Result:
    """The result of one task.

    Attributes:
        fault: Why it is not solved; empty where it is.
        statuses: How each run ended.
        protocol: What was spoken.
        steps: Replies of the model.
        requests: The same, and what it was asked about the questions beforehand.
        calls: Calls that were run.
        first_token: Seconds to the first piece of each reply, added up: reading the prompt.
        writing: Seconds from the first piece to the last, added up.
        transcript: The events of the runs; only of tasks that are for tuning.
    """

    name: str
    kind: str
    half: str
    solved: bool = False
    fault: str = ""
    statuses: list[str] = field(default_factory=list)
    protocol: str = ""
    steps: int = 0
    requests: int = 0
    calls: int = 0
    input_tokens: int = 0
    cached_tokens: int = 0
    output_tokens: int = 0
    seconds: float = 0.0
    first_token: float = 0.0
    writing: float = 0.0
    transcript: list[Any] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """The result as JSON can carry it."""
        return asdict(self)


class Timed:
    """A model with a stop-watch."""

    def __init__(self, model: Any) -> None:
        self._model = model
        self.first_token = 0.0
        self.writing = 0.0
        self.requests = 0
        self.uncounted = 0
        """Pieces of replies whose tokens the server did not count: servers send a token at a time."""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    def complete(self, ask: AskModel) -> Generator[Any, None, ModelReply]:
        """Ask, and note when the first piece and the whole reply came."""
        started, first, count = time.perf_counter(), None, 0
        pieces = self._model.complete(ask)
        while True:
            try:
                piece = next(pieces)
            except StopIteration as stop:
                ended = time.perf_counter()
                self.requests += 1
                self.first_token += (first or ended) - started
                self.writing += ended - (first or ended)
                reply: ModelReply = stop.value
                self.uncounted += 0 if reply.usage.output_tokens else count
                return reply
            if isinstance(piece, Delta):
                first, count = first or time.perf_counter(), count + 1
            yield piece


def attempt(task: Task, model: Any, settings: Settings = Settings()) -> Result:
    """Run a task on a fresh scene.

    Args:
        task: The task.
        model: Any model; it is asked for every question of the scene, in order.
        settings: How.

    Returns:
        The result. A failing endpoint raises: it says nothing about the model.
    """
    scene = task.build()
    timed = Timed(Unconstrained(model) if settings.bare else model)
    names = dict(scene.namespace)
    code: dict[str, Any] = {"python": "unwatched"} if scene.runs_code else {}
    agent = (BareAgent if settings.bare else nb.Agent)(
        scene.tools,
        model=timed,
        protocol=settings.protocol,
        max_steps=settings.max_steps,
        max_seconds=settings.max_seconds,
        namespace=names,
        context="none",  # the tasks are about the tools that they name
        **code,
    )
    started = time.perf_counter()
    with ablated(settings.without):
        runs = _asked(agent, scene, plans=settings.plans)
    result = Result(task.name, task.kind, task.half, seconds=time.perf_counter() - started)
    result.fault = scene.check(Finished(runs, names))
    result.solved = not result.fault
    result.statuses = [run.status for run in runs]
    result.protocol = runs[-1].protocol
    result.first_token, result.writing = timed.first_token, timed.writing
    result.output_tokens, result.requests = timed.uncounted, timed.requests
    for run in runs:
        result.steps += max(
            (event.step for event in run.events if isinstance(event, AskModel)), default=0
        )
        result.calls += len(run.calls)
        result.input_tokens += run.usage.input_tokens
        result.cached_tokens += run.usage.cached_tokens
        result.output_tokens += run.usage.output_tokens
    if task.half == "choose":
        result.transcript = [to_json(event) for run in runs for event in run.events]
    else:
        result.fault = (
            "not solved" if result.fault else ""
        )  # a fault quotes the answer, which is not to be seen
    return result


def _asked(agent: nb.Agent, scene: Scene, *, plans: bool) -> Sequence[Run]:
    runs = []
    for number, question in enumerate(scene.questions, start=1):
        typed = (
            {"output_type": scene.output_type}
            if scene.output_type and number == len(scene.questions)
            else {}
        )
        try:
            runs.append(agent.run(question, plan=plans, **typed))
        except RunError as error:  # giving up is an ending like others
            if error.run is None or not isinstance(error, nb.TaskFailed):
                raise
            runs.append(error.run)
    return runs
