"""Asks an agent about many rows: threads or an executor, one conversation for each row."""

from __future__ import annotations

import contextlib
import itertools
import os
import queue
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Executor, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from functools import wraps
from pathlib import Path
from typing import Any

from archytas_nb.answers import Answers
from archytas_nb.batch.gate import Budget, Gate, GatedModel, Stopped
from archytas_nb.batch.rows import Rows, keys_of
from archytas_nb.batch.store import RowResult, Store
from archytas_nb.cassettes.switch import MODE, answers_itself, given_name
from archytas_nb.errors import ConfigurationError, ModelError, RunInterrupted, TaskFailed
from archytas_nb.kernel.approval import confirm
from archytas_nb.loop.events import CheckAnswer, Usage
from archytas_nb.models.choose import choose_model
from archytas_nb.tools.tool import Tool

STORE = Path("cassettes") / "map.sqlite"
"""Where results are kept if nothing else is named."""
_AHEAD = 2  # rows that are handed out for each worker
_LOOK = 0.1  # seconds between two looks at what the workers want
_OPEN = RowResult("open")


@dataclass(frozen=True, slots=True)
class Row:
    """What a worker needs to ask about one row; it can be sent to another process.

    Attributes:
        settings: The arguments of `Agent`.
        question: The question.
        output_type: The type of the answer; None for text.
    """

    settings: dict[str, Any]
    question: str
    output_type: Any = None


def ask(row: Row) -> RowResult:
    """Ask about one row; whatever happens to it is its result.

    Raises:
        ConfigurationError: No row can be asked about.
    """
    from archytas_nb.agent import Agent

    started = time.perf_counter()
    try:
        run = Agent(**row.settings).run(row.question, output_type=row.output_type)
    except (ModelError, TaskFailed) as error:
        used = error.run.usage if error.run is not None else Usage()
        said = str(error)
        if isinstance(error, ModelError) and error.kind in ("auth", "not_found"):
            raise ConfigurationError(said) from None  # it would be the same for every row
        return RowResult("failed", None, said, used, _since(started), used)
    except RunInterrupted as stop:
        used = stop.run.usage if stop.run is not None else Usage()
        return RowResult("open", None, "", used, _since(started), used)
    if run.incomplete:
        return RowResult("failed", None, run.reason, run.usage, _since(started), run.usage)
    checked = [each.answer for each in run.events if isinstance(each, CheckAnswer)]
    answer = checked[-1] if row.output_type is not None and checked else run.answer
    return RowResult("done", answer, "", run.usage, _since(started), run.usage)


def map_rows(
    named: Any,
    settings: dict[str, Any],
    data: Any,
    prompt: str,
    *,
    output_type: Any,
    workers: int,
    budget: float | str | None,
    rpm: float | None,
    executor: Executor | None,
    store: str | Path | None,
    show: Callable[[str], None],
) -> Any:
    """Ask about every row of the data; the arguments are those of `Agent.map`."""
    rows = Rows.of(data)
    questions = rows.questions(prompt)
    limit = Budget.of(budget)
    if not (isinstance(workers, int) and workers >= 1):
        raise ValueError(f"workers is {workers!r}; expected a whole number above 0")
    if rpm is not None and not rpm > 0:
        raise ValueError(f"rpm is {rpm!r}; expected a number of requests per minute above 0")
    local = executor is None or isinstance(executor, ThreadPoolExecutor)
    tools: list[Tool] = settings["tools"]
    if not local:
        _check_remote(tools, limit, rpm)
    answers = Answers(output_type, None, settings["namespace"])
    keys = keys_of(questions, tools, output_type, given_name(named), settings["instructions"] or "")
    with contextlib.closing(Store(None if store is None else Path(store))) as kept:
        found = kept.get(dict.fromkeys(keys))
        todo = {
            key: question
            for key, question in zip(keys, questions, strict=True)
            if key not in found or found[key].status != "done"
        }
        spent = sum((each.spent for each in found.values()), Usage())
        model = _model(named, limit, len(todo), store) if todo else None
        price = getattr(model, "price", None)
        gate = Gate(limit, price.cost if price is not None else None, rpm, spent)
        work = _Work(gate, kept, found, todo, show, keys)
        if local:
            work.in_threads(settings, model, output_type, workers, executor)
        elif executor is not None:
            work.elsewhere({**settings, "model": model}, output_type, workers, executor)
        show(work.line(final=True))
        results = [found.get(key, _OPEN) for key in keys]
    values = [
        answers.check(each.answer).value if each.status == "done" else None for each in results
    ]
    if output_type is None:
        values = [each.answer for each in results]
    return rows.result(results, values, output_type)


def _model(named: Any, budget: Budget | None, rows: int, store: str | Path | None) -> Any:
    """The model itself: a map keeps its results in a file of its own, and needs no cassette.

    Raises:
        ConfigurationError: This is a replay, or its price is not known and is needed.
    """
    if os.environ.get(MODE) == "replay" and not answers_itself(named):
        raise ConfigurationError(
            f"this is a replay ({MODE}=replay), which never asks a model, and {rows:,} rows have no "
            f"result in {str(store)!r}. Run the map once with a model, and keep that file"
        )
    is_named = named is None or isinstance(named, str)
    model = choose_model(named, None, confirm) if is_named else named
    if budget is not None and budget.unit == "USD" and getattr(model, "price", None) is None:
        raise ConfigurationError(
            f"the price of {model.name!r} is not known, so a budget in USD cannot be kept. "
            "Give it in tokens, such as budget='500000 tokens', or install genai-prices"
        )
    return model


class _Work:
    """The rows of one map that are still to be asked about, and those that are done."""

    def __init__(
        self, gate: Gate, store: Store, found: dict[str, RowResult], todo: dict[str, str],
        show: Callable[[str], None], keys: Sequence[str],
    ) -> None:  # fmt: skip
        self._gate, self._store, self._found, self._todo = gate, store, found, todo
        self._show, self._keys = show, keys
        self._started, self._asked = time.monotonic(), 0

    def in_threads(
        self, settings: dict[str, Any], model: Any, output_type: Any, workers: int,
        executor: Executor | None,
    ) -> None:  # fmt: skip
        """Ask in threads of this process, through the gate."""
        here = _MainThread(self._gate)
        settings = {
            **settings,
            "model": GatedModel(model, self._gate),
            "tools": [here.proxy(each) for each in settings["tools"]],
        }

        def work(key: str, question: str) -> RowResult:
            if self._gate.stopped:
                return _OPEN
            result = ask(Row(settings, question, output_type))
            # Here and not in the main thread, which may be gone after an interrupt.
            return self._keep(key, result)

        pool = executor or ThreadPoolExecutor(workers, thread_name_prefix="archytas_nb-map")
        try:
            self._run(lambda key, text: pool.submit(work, key, text), workers, here)
        finally:
            if executor is None:
                pool.shutdown(wait=False, cancel_futures=True)

    def elsewhere(
        self, settings: dict[str, Any], output_type: Any, workers: int, executor: Executor
    ) -> None:
        """Ask in other processes; each result is kept when it has come back."""

        def submit(key: str, question: str) -> Future[RowResult]:  # noqa: ARG001
            return executor.submit(ask, Row(settings, question, output_type))

        self._run(submit, workers, None)

    def line(self, *, final: bool = False) -> str:
        """How far the map is."""
        results = [self._found.get(key, _OPEN) for key in self._keys]
        done = sum(each.status == "done" for each in results)
        failed = sum(each.status == "failed" for each in results)
        spent = sum((each.spent for each in self._found.values()), Usage())
        tokens = spent.input_tokens + spent.output_tokens
        parts = [
            f"{done:,} of {len(self._keys):,} rows done",
            f"{failed:,} failed" if failed else "",
        ]
        parts.append(f"{spent.usd:.4g} USD" if spent.usd else f"{tokens:,} tokens")
        left = len(self._todo) - self._asked
        if not final and self._asked:
            seconds = (time.monotonic() - self._started) / self._asked * left
            parts.append(f"about {seconds:,.0f} s left")
        if self._gate.stopped:
            parts.append(f"stopped by {self._gate.stopped} (run the cell again to go on)")
        return " · ".join(part for part in parts if part)

    def _run(
        self,
        submit: Callable[[str, str], Future[RowResult]],
        workers: int,
        here: _MainThread | None,
    ) -> None:
        """Hand the rows out, the first alone: the endpoint's cache of the prompt is warm then."""
        rows = iter(self._todo.items())
        pending: dict[Future[RowResult], str] = {}
        ahead = 1
        try:
            while True:
                for key, question in _first(rows, ahead - len(pending)):
                    pending[submit(key, question)] = key
                if not pending:
                    return
                done = wait(pending, 0 if here and here.work() else _LOOK, FIRST_COMPLETED).done
                for future in done:
                    key = pending.pop(future)
                    result = future.result()
                    if here is None:
                        self._keep(key, result)
                    self._asked += 1
                if done:
                    ahead = workers * _AHEAD
                    self._show(self.line())
                if self._gate.stopped:
                    rows = iter(())
        except KeyboardInterrupt:
            self._gate.stop("an interrupt")
            for future in pending:
                future.cancel()
        except BaseException:
            self._gate.stop("an error")
            for future in pending:
                future.cancel()
            raise

    def _keep(self, key: str, result: RowResult) -> RowResult:
        earlier = self._found.get(key)
        if earlier is not None:
            result = replace(result, spent=earlier.spent + result.spent)
        self._store.put(key, result)
        self._found[key] = result
        return result


class _MainThread:
    """Runs tools on the main thread, which is where the user's objects may be changed.

    Args:
        gate: Whose stop ends the waiting.
    """

    def __init__(self, gate: Gate) -> None:
        self._gate = gate
        self._wanted: queue.SimpleQueue[tuple[Callable[[], Any], Future[Any]]] = queue.SimpleQueue()

    def proxy(self, tool: Tool) -> Tool:
        """A tool whose function is called on the main thread, unless it says that it is pure."""
        if tool.is_async or getattr(tool, "pure", False):
            return tool
        function = tool.function

        @wraps(function)
        def call(*args: Any, **kwargs: Any) -> Any:
            future: Future[Any] = Future()
            self._wanted.put((lambda: function(*args, **kwargs), future))
            while True:
                try:
                    return future.result(_LOOK)
                except TimeoutError:
                    if future.done():
                        raise
                    self._gate.check()

        return replace(tool, function=call)

    def work(self) -> bool:
        """Run what was asked for; whether there was anything."""
        worked = False
        with contextlib.suppress(queue.Empty):
            while True:
                call, future = self._wanted.get_nowait()
                worked = True
                try:
                    future.set_result(call())
                except KeyboardInterrupt:
                    future.set_exception(Stopped("an interrupt"))
                    raise
                except BaseException as error:  # noqa: BLE001 - it is the tool's, for its caller
                    future.set_exception(error)
        return worked


def _check_remote(tools: Sequence[Tool], budget: Budget | None, rpm: float | None) -> None:
    """Refuse what cannot hold where the rows are asked in other processes."""
    for name, value in (("budget", budget), ("rpm", rpm)):
        if value is not None:
            raise ValueError(
                f"{name}={value} holds for the threads of this process only; leave it out, or "
                "leave executor= out"
            )
    for tool in tools:
        for each in tool.parameters:
            if each.injected or each.type.by_name:
                raise ConfigurationError(
                    f"the tool {tool.name!r} takes a variable by name ({each.name!r}), and there "
                    "are no variables on another machine; leave it out, or leave executor= out"
                )
        if tool.approve:
            raise ConfigurationError(
                f"the tool {tool.name!r} wants approval, and nobody can be asked on another machine"
            )


def _first(rows: Iterator[tuple[str, str]], count: int) -> list[tuple[str, str]]:
    return list(itertools.islice(rows, max(0, count)))


def _since(started: float) -> float:
    return round(time.perf_counter() - started, 3)


def shown_in_place() -> Callable[[str], None]:
    """Shows lines one in place of the other: in a terminal on stderr, in a notebook as an output."""
    state: dict[str, Any] = {"handle": None, "last": 0.0}
    shell = sys.modules.get("IPython")

    def show(line: str) -> None:
        now = time.monotonic()
        is_progress = " left" in line
        if is_progress and now - state["last"] < 0.2:
            return
        state["last"] = now
        ipython = shell.get_ipython() if shell is not None else None
        if ipython is not None and getattr(ipython, "kernel", None) is not None:
            from IPython.display import display

            data = {"text/plain": line}
            if state["handle"] is None:
                state["handle"] = display(data, raw=True, display_id=True)
            else:
                state["handle"].update(data, raw=True)
        elif sys.stderr.isatty():
            sys.stderr.write(f"\r\x1b[K{line}" + ("" if is_progress else "\n"))
            sys.stderr.flush()
        elif not is_progress:
            sys.stderr.write(f"{line}\n")

    return show
