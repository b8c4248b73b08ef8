"""Asks an agent about many rows: threads or an executor, one conversation for each row.

Only the main thread hands rows out and collects them; it sleeps until a worker has something for
it: a row that has ended, or a tool that must run on the main thread.
"""

from __future__ import annotations

import contextvars
import itertools
import os
import queue
import time
import uuid
from collections import ChainMap, Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future, ThreadPoolExecutor, wait
from contextlib import closing, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeAlias

from archytas_nb.answers import Answers
from archytas_nb.batch.gate import Budget, Gate, GatedModel
from archytas_nb.batch.rows import keys_of
from archytas_nb.batch.store import RowResult, Store
from archytas_nb.batch.worker import RowAgent, ask, ask_elsewhere, without_retries
from archytas_nb.cassettes.switch import MODE, CassetteModel, cassette_in_use, given_name
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.kernel.person import ask_user, confirm
from archytas_nb.kernel.python import python
from archytas_nb.loop.events import Usage
from archytas_nb.models.choose import choose_model
from archytas_nb.tools.tool import Tool

_AHEAD = 2  # rows that are handed out for each worker
_LOOK = 0.2  # seconds after which Windows looks for an interrupt
_GRACE = 0.3  # seconds that are left to the requests which a stop ends
_STREAK = 5  # rows in a row that fail by the endpoint: the others would, too
_STOPPING = ("auth", "not_found", "rate_limit")  # failures that are the same for every row
_FAILING = ("unreachable", "timeout", "server")
_LENGTHS = ("max_tokens", "max_completion_tokens", "n")
_OPEN = RowResult("open")

Submit: TypeAlias = Callable[[str, str], Future[RowResult]]


@dataclass(frozen=True, slots=True)
class Plan:
    """How rows are asked about; as the arguments of `Agent.map`.

    Raises:
        ValueError: A value cannot be used.
    """

    output_type: Any = None
    workers: int = 8
    budget: float | str | None = None
    rpm: float | None = None
    executor: Executor | None = None
    store: str | Path | None = None
    show: Callable[..., None] = lambda *_, **__: None
    name: str = ""  # identifies the model in the file; by default the name that it was given

    def __post_init__(self) -> None:
        Budget.of(self.budget)
        if isinstance(self.workers, bool) or not (
            isinstance(self.workers, int) and self.workers >= 1
        ):
            raise ValueError(f"workers is {self.workers!r}; expected a whole number above 0")
        if self.rpm is not None and not self.rpm > 0:
            raise ValueError(f"rpm is {self.rpm!r}; expected requests per minute above 0")
        for name in ("budget", "rpm"):
            if self.is_remote and getattr(self, name) is not None:
                raise ValueError(
                    f"{name}={getattr(self, name)!r} holds for the threads of this process only; "
                    "leave it out, or leave executor= out"
                )

    @property
    def is_remote(self) -> bool:
        """Whether the rows are asked about in other processes."""
        return self.executor is not None and not isinstance(self.executor, ThreadPoolExecutor)


def ask_all(
    settings: dict[str, Any], questions: Sequence[str], plan: Plan, salts: Sequence[str] = ()
) -> tuple[list[RowResult], list[Any]]:
    """Ask each question in a conversation of its own, equal ones once; all that is known is kept.

    Args:
        settings: The arguments of `Agent`.
        questions: The questions.
        plan: How.
        salts: Where there are any, equal questions are the same row only where these are equal.

    Returns:
        For each question its result, and the value of its answer.

    Raises:
        ConfigurationError: No row can be asked about.
        ModelError: The endpoint failed before any row was done.
    """
    tools: list[Tool] = settings["tools"]
    named = settings["model"]
    answers = Answers(plan.output_type, None, settings["namespace"])
    if answers.by_reference:
        raise ConfigurationError(
            f"type={plan.output_type!r}: the answers are kept in a file, which holds no variables"
        )
    _check_tools(tools, is_remote=plan.is_remote)
    parts = (plan.name or model_name(named), settings["instructions"] or "", repr(answers.form))
    keys = keys_of(questions, tools, *parts)
    if salts:
        keys = [f"{key} {salt}" for key, salt in zip(keys, salts, strict=True)]
    with closing(Store(None if plan.store is None else Path(plan.store))) as store:
        rows = _Rows(store, dict(zip(keys, questions, strict=True)), Counter(keys), plan)
        if is_replay(named):
            rows.replay()
        elif rows.todo:
            _run(rows, settings, plan)
        plan.show(rows.line(final=True), final=True)
        results = [rows.found.get(key, _OPEN) for key in keys]
    values: list[Any] = [each.answer for each in results]
    if plan.output_type is not None:
        for at, each in enumerate(results):
            if each.status == "done":
                verdict = answers.check(each.answer)
                values[at] = verdict.value
                if verdict.fault:  # the type's own check has changed, or what it asks
                    results[at] = replace(each, status="failed", error=verdict.fault)
    return results, values


def _run(rows: _Rows, settings: dict[str, Any], plan: Plan) -> None:
    """Ask about the rows that are to be asked."""
    tools: list[Tool] = settings["tools"]
    budget = Budget.of(plan.budget)
    allow = _approved(tools, settings, len(rows.todo))
    settings = {**settings, "model": _model(settings["model"], budget), "allow": allow}
    price = getattr(settings["model"], "price", None)
    if rows.store.open():  # another kernel may ask about the same rows: they meet in the middle
        rows.todo = dict(reversed(rows.todo.items()))
    rows.gate = gate = Gate(budget, price and price.cost, plan.rpm, rows.spent)
    if plan.is_remote and plan.executor is not None:
        rows.run(_submit_elsewhere(settings, plan.output_type, plan.executor), plan.workers)
    else:
        pool = plan.executor or ThreadPoolExecutor(plan.workers, "archytas_nb-map")
        model = without_retries(settings["model"])
        try:
            submit = _submit_here(rows, {**settings, "model": model}, plan.output_type, pool)
            rows.run(submit, plan.workers, cut=getattr(model, "cut", lambda: None))
        finally:
            if plan.executor is None:
                pool.shutdown(wait=False, cancel_futures=True)
    if rows.failure is not None and not rows.asked["done"]:
        raise rows.failure
    if gate.stopped:  # a replay then knows that these rows belong to the map
        left = {key: rows.found.get(key, _OPEN) for key in rows.todo}
        rows.store.put(*(each for each in left.items() if each[1].status == "open"))


class _Rows:
    """The rows of one map by their keys: those that are still to be asked about, and the others.

    Attributes:
        todo: The questions that are to be asked.
        found: What is known.
        asked: How many rows were asked about now, by what became of them.
        failure: Why the endpoint cannot be asked, or None.
    """

    def __init__(
        self, store: Store, questions: dict[str, str], copies: Counter[str], plan: Plan
    ) -> None:
        self.store, self._copies, self._plan = store, copies, plan
        self.found = store.get(questions)
        self.todo = {
            key: question
            for key, question in questions.items()
            if key not in self.found or self.found[key].status != "done"
        }
        self._counts = Counter[str]()
        for key in copies:
            self._counts["open" if key in self.todo else "done"] += copies[key]
        self.spent = sum((each.spent for each in self.found.values()), Usage())
        self.asked = Counter[str]()
        self.failure: ModelError | None = None
        self.gate = Gate(Budget.of(plan.budget))
        self._inbox: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._started, self._failing = time.monotonic(), 0

    def replay(self) -> None:
        """Take the rows as they were kept.

        Raises:
            ConfigurationError: One of them was not.
        """
        missing = [key for key in self.todo if key not in self.found]
        if missing:
            raise ConfigurationError(
                f"this is a replay, which never asks a model, and {len(missing):,} of "
                f"{len(self._copies):,} rows have no result in {str(self._plan.store)!r}. Run the "
                "map once with a model, and keep that file beside the notebook"
            )
        self._counts = Counter()
        for key, copies in self._copies.items():
            self._counts[self.found[key].status] += copies
        if self._counts["open"] and self.gate.budget is not None:
            self.gate.stop(f"the budget of {self.gate.budget}")

    def later(self, work: Callable[[], None]) -> None:
        """Have something called on the main thread."""
        self._inbox.put(work)

    def run(self, submit: Submit, workers: int, cut: Callable[[], None] = lambda: None) -> None:
        """Hand the rows out, the first alone: the endpoint's cache of the prompt is warm then."""
        rows, futures = iter(self.todo.items()), dict[Future[RowResult], str]()
        try:
            self._hand_out(submit, itertools.islice(rows, 1), futures, 1)
            self._hand_out(submit, rows, futures, workers * _AHEAD)
        except KeyboardInterrupt:
            self.gate.stop("an interrupt", at_once=True)
        finally:
            if futures:
                self.gate.stop("an error", at_once=True)
                cut()
                for future in futures:
                    future.cancel()
                for future in wait(futures, _GRACE).done:
                    if not future.cancelled() and future.exception() is None:
                        self._ended(futures[future], self._result(future))

    def _hand_out(
        self,
        submit: Submit,
        rows: Iterator[tuple[str, str]],
        futures: dict[Future[RowResult], str],
        most: int,
    ) -> None:
        """Keep at most so many rows handed out, until all have ended."""
        while True:
            room = 0 if self.gate.stopped else most - len(futures)
            for key, question in itertools.islice(rows, room):
                future = submit(key, question)
                futures[future] = key
                future.add_done_callback(self._inbox.put)
            if not futures:
                return
            item = self._next()
            if isinstance(item, Future):
                self._ended(futures.pop(item), self._result(item))
                self._plan.show(self.line())
            else:
                item()

    def _next(self) -> Any:
        while True:
            with suppress(queue.Empty):
                return self._inbox.get(timeout=_LOOK)

    def _result(self, future: Future[RowResult]) -> RowResult:
        try:
            return future.result()
        except ConfigurationError:
            raise
        except Exception as error:
            if not self._plan.is_remote:
                raise
            text = f"{type(error).__name__}: {error}"  # such as a worker that was killed
            return RowResult("failed", None, text, kind="server")

    def _ended(self, key: str, result: RowResult) -> None:
        """Take in what became of a row, and stop where the others would end in the same way."""
        if self._plan.is_remote:
            earlier = self.found.get(key, _OPEN)
            result = replace(result, spent=earlier.spent + result.spent)
            self.store.put((key, result))
        self.found[key] = result
        self.asked[result.status] += 1
        self._counts["open"] -= self._copies[key]
        self._counts[result.status] += self._copies[key]
        self.spent += result.usage
        self._failing = self._failing + 1 if result.kind in _FAILING else 0
        if result.kind in _STOPPING or self._failing >= _STREAK:
            self.failure = self.failure or ModelError(result.error, kind=result.kind)  # type: ignore[arg-type]
            self.gate.stop(f"the endpoint: {result.error}")
        elif result.status == "open":  # the interrupt hit a tool on the main thread
            self.gate.stop("an interrupt", at_once=True)

    def line(self, *, final: bool = False) -> str:
        """How far the map is."""
        counts, spent = self._counts, self.spent
        if final:  # with what was broken off, as the file has it
            spent = sum((each.spent for each in self.found.values()), Usage())
        rows = sum(self._copies.values())
        tokens = spent.input_tokens + spent.output_tokens
        parts = [f"{counts['done']:,} of {rows:,} rows done"]
        parts += [f"{counts['failed']:,} failed"] if counts["failed"] else []
        parts += [f"{spent.usd:.4g} USD" if spent.usd else f"{tokens:,} tokens"]
        asked = sum(self.asked.values())
        if not final and asked:
            seconds = (time.monotonic() - self._started) / asked * (len(self.todo) - asked)
            parts.append(f"about {seconds:,.0f} s left")
        if self.gate.stopped:
            parts.append(f"stopped by {self.gate.stopped} (run the cell again to go on)")
        return " · ".join(parts)


# ── where rows are asked about ────────────────────────────────────────────────────────────────────


def _submit_here(rows: _Rows, settings: dict[str, Any], output_type: Any, pool: Executor) -> Submit:
    """Ask in threads of this process, through the gate."""
    gate, model, namespace = rows.gate, settings["model"], settings["namespace"]

    def work(key: str, question: str) -> RowResult:
        earlier = rows.store.get([key]).get(key, _OPEN)
        if gate.stopped or earlier.status == "done":  # another kernel has asked about it
            return earlier

        def note(spent: Usage) -> None:
            if gate.budget is not None:  # so that it is kept over the end of this process, too
                rows.store.put((key, replace(_OPEN, spent=earlier.spent + spent)))

        gated = GatedModel(model, gate, note)
        # What a row keeps in variables is gone after it.
        own = {**settings, "namespace": ChainMap({}, namespace)}
        result = ask(RowAgent(gated, gate, rows.later, own), question, output_type)
        result = replace(result, spent=earlier.spent + gated.spent)
        # Here and not on the main thread, which may be busy with a tool.
        rows.store.put((key, result))
        return result

    def submit(key: str, question: str) -> Future[RowResult]:
        # The kernel keeps in the context to which cell an output belongs.
        return pool.submit(contextvars.copy_context().run, work, key, question)

    return submit


def _submit_elsewhere(settings: dict[str, Any], output_type: Any, executor: Executor) -> Submit:
    """Ask in other processes; each result is kept when it has come back."""
    settings = {**settings, "namespace": {}}

    def submit(_: str, question: str) -> Future[RowResult]:
        return executor.submit(ask_elsewhere, settings, question, output_type, uuid.uuid4().hex)

    return submit


# ── what is checked before ────────────────────────────────────────────────────────────────────────


def is_replay(named: Any) -> bool:
    """Whether no model may be asked; one that is scripted always may."""
    if getattr(named, "is_scripted", False):
        return False
    if mode := os.environ.get(MODE):
        return mode == "replay"
    cassette = named.cassette if isinstance(named, CassetteModel) else cassette_in_use()
    return cassette is not None and bool(cassette.mode == "replay")


def model_name(named: Any) -> str:
    """The name that identifies the model in a file: the given one, which a replay knows, too."""
    if isinstance(named, CassetteModel):
        return named.called
    return named if isinstance(named, str) else given_name(named)


def _model(named: Any, budget: Budget | None) -> Any:
    """The model itself: a map keeps its results in a file of its own, and needs no cassette.

    Raises:
        ConfigurationError: There is none, or it cannot be kept within the budget.
    """
    is_recorded = isinstance(named, CassetteModel)
    model = named.real() if is_recorded else choose_model(named, None, confirm)
    if budget is None:
        return model
    if budget.unit == "USD" and getattr(model, "price", None) is None:
        raise ConfigurationError(
            f"the price of {model.name!r} is not known, so a budget in USD cannot be kept. "
            "Give it in tokens, such as budget='500000 tokens', or install genai-prices"
        )
    if fixed := [name for name in _LENGTHS if name in getattr(model, "request", ())]:
        raise ConfigurationError(
            f"the model has a request field {fixed[0]!r}, so that no budget can limit its replies; "
            "use max_reply_tokens of the agent"
        )
    return model


def _check_tools(tools: Sequence[Tool], *, is_remote: bool) -> None:
    """Refuse tools that cannot work in a map."""
    for tool in tools:
        if tool.function is ask_user:
            raise ConfigurationError(
                "ask_user=True: nobody is asked anything inside a map; make the agent without it"
            )
        if tool.function is python:
            raise ConfigurationError(
                "python: rows of a map cannot run code in the notebook; make the agent without it"
            )
        for each in tool.parameters if is_remote else ():
            if each.injected or each.type.by_reference:
                raise ConfigurationError(
                    f"the tool {tool.name!r} takes a variable by name ({each.name!r}), and the "
                    "variables are not in the other processes; leave the tool or executor= out"
                )


def _approved(tools: Sequence[Tool], settings: dict[str, Any], rows: int) -> frozenset[str]:
    """The tools that may run without approval; the person is asked now, and never in a row.

    Raises:
        ConfigurationError: The person refuses, or nobody can be asked.
    """
    allowed = frozenset(settings["allow"])
    wanting = [each for each in tools if each.approve]
    names = [each.name for each in wanting if not allowed & {each.name, each.source_name}]
    if not names or settings["approve"] not in (None, "ask"):
        return allowed
    named = ", ".join(names)
    answer = confirm(f"{rows:,} rows may call {named} without asking you again. Allow it? [y/n] ")
    if not answer:
        why = "nobody can be asked here" if answer is None else "it was refused"
        raise ConfigurationError(
            f"{named}: needs approval before the map, and {why}. Allow it with Agent(allow=[…]), "
            "or leave the tool out"
        )
    return allowed | frozenset(names)
