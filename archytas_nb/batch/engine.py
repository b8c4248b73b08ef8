"""Asks about many rows in threads, each row in a conversation of its own.

The workers take rows from one iterator. The calling thread waits until it is needed: for a tool
that is not pure, a question to the user, or a line of progress.
"""

from __future__ import annotations

import contextvars
import hashlib
import inspect
import json
import math
import os
import queue
import threading
import time
import uuid
from collections import ChainMap, Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Executor, Future
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from archytas_nb.agent import Agent
from archytas_nb.answers import Answers
from archytas_nb.batch.limiter import Limiter, RowModel
from archytas_nb.batch.store import OPEN, RowResult, Store, stored
from archytas_nb.cassettes.switch import MODE, CassetteModel, cassette_in_use, given_name
from archytas_nb.driver import run_events
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.kernel.execute import KernelExecutor
from archytas_nb.kernel.person import Keyboard, ask_user, confirm
from archytas_nb.kernel.python import python
from archytas_nb.loop import events as ev
from archytas_nb.loop.events import Usage
from archytas_nb.loop.limits import Clock
from archytas_nb.loop.record import Exchange
from archytas_nb.loop.stop import Stop, stoppable
from archytas_nb.models.choose import choose_model
from archytas_nb.progress import line_writer
from archytas_nb.run import Run
from archytas_nb.tools.tool import Tool
from archytas_nb.words import one_line

T = TypeVar("T")
_SAMPLE = 20  # rows after which the cost of all is estimated
_LOOK, _GRACE = 0.2, 0.3  # seconds between two lines of progress; for workers after an interrupt
_STREAK = 5  # rows in a row that fail by the endpoint: the others would, too
_FAILING = ("unreachable", "timeout", "server")
_STOPPING = ("auth", "not_found", "rate_limit")  # failures that are the same for every row


# ── one row ───────────────────────────────────────────────────────────────────────────────────────


class _RowExecutor(KernelExecutor):
    """Runs the calls of one row: on the main thread, unless their tools are pure."""

    on_main: Callable[[Callable[[], Any]], Any]

    def run(
        self, calls: Sequence[ev.ToolCall], seconds: float | None = None
    ) -> tuple[ev.CallOutcome, ...]:
        """Run calls, as soon as the main thread is free."""
        asked, run = time.monotonic(), super().run
        if all(each.name not in self._tools or self._tools[each.name].pure for each in calls):
            return run(calls, seconds)

        def work() -> tuple[ev.CallOutcome, ...]:
            self.clock.waited += time.monotonic() - asked
            return run(calls, seconds)

        outcomes: tuple[ev.CallOutcome, ...] = self.on_main(work)
        return outcomes

    def call(self, work: Callable[[], T], seconds: float | None = None) -> T:  # noqa: ARG002
        """Call what checks an answer; a thread to limit its time would cost more than most rows."""
        return work()


class RowAgent(Agent):
    """The agent of a map's rows: made once, it asks about several rows at a time."""

    on_main: Callable[[Callable[[], Any]], Any] = staticmethod(lambda work: work())
    """Calls something on the main thread."""

    def ask(self, model: RowModel, question: str, answers: Answers) -> RowResult:
        """Ask about a row; raises ConfigurationError where none can be asked about."""
        row, run = object.__new__(RowAgent), Run[Any](question, _is_typed=answers.form is not None)
        vars(row).update(vars(self))
        row.model = model
        exchange, started = Exchange(question, form=answers.form), time.perf_counter()
        check = None if answers.form is None else answers.check
        begin = partial(row._begin, run, exchange, check, ())
        with closing(run_events(run, exchange, begin, lambda: None, ())) as events:
            for _ in events:
                if (stop := Stop.current.get()) is not None and stop.event.is_set():
                    break
        if isinstance(run.error, ConfigurationError):
            raise run.error
        used, seconds = replace(run.usage, usd=run.cost or 0.0), time.perf_counter() - started
        result = RowResult("open", usage=used, seconds=round(seconds, 3), spent=model.spent)
        if run.status == "interrupted":
            return result
        if run.status == "answered":
            checked = [each.answer for each in run.events if isinstance(each, ev.CheckAnswer)]
            return replace(result, status="done", answer=checked[-1] if checked else run.answer)
        faults = [each.reason for each in run.events if isinstance(each, ev.Verdict) and each.fault]
        why = f"{run.reason}: {faults[-1]}" if run.incomplete and faults else run.reason
        kind = getattr(run.error, "kind", "")
        return replace(result, status="failed", error=one_line(str(run.error or why)), kind=kind)

    def _variables(self) -> ChainMap[str, Any]:
        return ChainMap({}, super()._variables())  # what a row keeps in variables goes with it

    def _executor(self, tools: Any, variables: Any, person: Any, *_: Any) -> _RowExecutor:
        clock: Clock = self.model.clock  # type: ignore[attr-defined]
        given = tools, variables, self._configuration.approve, person
        made = _RowExecutor(*given, allow=self._configuration.allow, clock=clock)
        made.on_main = self.on_main
        return made


def ask_elsewhere(
    settings: dict[str, Any],
    question: str,
    output_type: Any,
    attempt: str,  # noqa: ARG001
) -> RowResult:
    """Ask about a row in another process; a cluster may keep the result of an equal attempt."""
    model, answers = RowModel(settings["model"], Limiter()), Answers(output_type, None, {})
    return RowAgent(**settings).ask(model, question, answers)


# ── all rows ──────────────────────────────────────────────────────────────────────────────────────


class Map:
    """Many questions, each in a conversation of its own; equal ones are asked once.

    `settings` are the arguments of `Agent`; where there are `salts`, questions are equal only where
    these are, too; `name` identifies the model in the file, by default the name that it was given.
    The others, and the errors, are those of `Agent.map`.
    """

    def __init__(
        self, settings: dict[str, Any], questions: Sequence[str], salts: Sequence[str] = (), *,
        output_type: Any = None, workers: int = 8, budget: float | str | None = None,
        rpm: float | None = None, executor: Executor | None = None, store: str | None = None,
        progress: bool = False, name: str = "",
    ) -> None:  # fmt: skip
        if type(workers) is not int or workers < 1 or (rpm is not None and not rpm > 0):
            raise ValueError(f"workers={workers!r}, rpm={rpm!r}; expected numbers above 0")
        if executor is not None and (budget, rpm) != (None, None):
            raise ValueError("budget= and rpm= cannot be combined with executor=")
        # Nobody is asked in a row, and it runs no code in the notebook.
        tools = [each for each in settings["tools"] if each.function not in (ask_user, python)]
        self._settings, self._type = {**settings, "tools": tools}, output_type
        self._workers, self._executor = workers, executor
        self._show = line_writer() if progress else lambda *_, **__: None
        self._answers = Answers(output_type, None, settings["namespace"])
        if self._answers.by_reference:
            raise ConfigurationError(
                f"type={output_type!r}: the answers are kept in a file, which holds no variables"
            )
        parts = settings["instructions"] or "", repr(self._answers.form)
        self._keys = keys_of(questions, salts, tools, name or given_name(settings["model"]), *parts)
        self._path = None if store is None or os.environ.get(MODE) == "off" else Path(store)
        self._found = stored(self._path, self._keys)
        pairs = zip(self._keys, questions, strict=True)
        self._todo = {key: text for key, text in pairs if self._status(key) != "done"}
        self._earlier = sum((each.spent for each in self._found.values()), Usage())
        self._limiter = Limiter(budget, rpm, self._earlier)
        self._store, self._asked, self._failing = Store(None), 0, 0
        self._started = time.monotonic()
        self._error: BaseException | None = None
        self._inbox = queue.SimpleQueue[Callable[[], object] | None]()  # for the main thread
        self._taking, self._ending = threading.Lock(), threading.Lock()

    def results(self) -> tuple[list[RowResult], list[Any]]:
        """Ask; for each question its result, and the value of its answer."""
        if is_replay(self._settings["model"]):
            self._replay()
        elif self._todo:
            self._settings = {**self._settings, **self._usable()}
            with closing(Store(self._path)) as self._store:
                self._run()
        self._show(self._line(), final=True)
        results = [self._found.get(key, OPEN) for key in self._keys]
        values: list[Any] = [each.answer for each in results]
        for at, each in enumerate(results if self._answers.form is not None else ()):
            if each.status == "done":
                verdict = self._answers.check(each.answer)
                values[at] = verdict.value
                if verdict.fault:  # the type's own check has changed, or what it asks
                    results[at] = replace(each, status="failed", error=verdict.reason)
        return results, values

    def _replay(self) -> None:
        """Take the rows as they were kept."""
        if missing := len(self._todo.keys() - self._found.keys()):
            raise ConfigurationError(
                f"a replay does not call a model, and {missing:,} rows have no result in "
                f"{str(self._path)!r}. Run the map once with a model, and keep the file"
            )
        if any(self._status(key) == "open" for key in self._todo):
            self._limiter.stop_at_budget()

    def _usable(self) -> dict[str, Any]:
        """The model, without a cassette and retries of its own, and the tools that are allowed.

        Raises:
            ConfigurationError: Nothing can be asked with them.
        """
        named, allow = self._settings["model"], frozenset(self._settings["allow"])
        is_recorded = isinstance(named, CassetteModel)
        model = named.real() if is_recorded else choose_model(named, None, confirm)
        lengths = ("max_tokens", "max_completion_tokens", "n")
        fixed = [each for each in lengths if each in getattr(model, "request", ())]
        has_budget, price = self._limiter.budget < math.inf, getattr(model, "price", None)
        if has_budget and self._limiter.in_usd and price is None:
            raise ConfigurationError(
                f"the price of {model.name!r} is unknown, so a budget in USD cannot be enforced. "
                "Use tokens, such as budget='500000 tokens', or install genai-prices"
            )
        if has_budget and fixed:
            raise ConfigurationError(
                f"the model's request sets {fixed[0]!r}, so a budget cannot limit its replies; "
                "use the agent's max_reply_tokens instead"
            )
        asking = []
        for tool in self._settings["tools"]:
            if tool.may_require_approval and not allow & {tool.name, tool.source_name}:
                asking.append(tool.name)
            for each in tool.parameters if self._executor is not None else ():
                if each.injected or each.type.by_reference:
                    raise ConfigurationError(
                        f"the tool {tool.name!r} takes a variable by name ({each.name!r}), but the "
                        "executor's processes do not have it; omit the tool or executor="
                    )
        if asking and self._settings["approve"] in (None, "ask"):
            rows, tools = f"{len(self._todo):,} rows", ", ".join(asking)
            if not confirm(f"Let {rows} call {tools} without asking you again? [y/n] "):
                raise ConfigurationError(
                    f"{tools}: approval is required before the map starts, and was not given. Use "
                    "Agent(allow=[…]), or omit the tool"
                )
            allow |= set(asking)
        once = hasattr(model, "without_retries")
        return {"model": model.without_retries() if once else model, "allow": allow}

    def _run(self) -> None:
        """Ask about the rows, the first alone: the endpoint's cache of the prompt is warm then."""
        rows = list(self._todo.items())
        if self._store.is_second:  # the other kernel began at the other end
            rows.reverse()
        self._agent = RowAgent(**self._settings)
        self._agent.on_main = self._on_main
        context = contextvars.copy_context()  # in which a kernel keeps to what cell output belongs
        context.run(Stop.current.set, self._limiter.now)
        threads: list[threading.Thread] = []
        try:
            for part, workers in ((rows[:1], 1), (rows[1:], min(self._workers, len(rows) - 1))):
                work = partial(self._work, iter(part))
                for _ in range(workers):
                    run = context.copy().run
                    threads.append(threading.Thread(target=run, args=(work,), daemon=True))
                    threads[-1].start()
                self._serve(workers)
        except KeyboardInterrupt:
            self._limiter.stop("an interrupt", now=True)
        finally:
            ends = time.monotonic() + _GRACE
            for each in threads:
                each.join(max(0.0, ends - time.monotonic()))
        is_partial = any(self._status(key) == "done" for key in self._todo)
        if self._error is not None and not (isinstance(self._error, ModelError) and is_partial):
            raise self._error
        if self._limiter.reason:  # a replay then knows that these rows belong to the map
            known = ((key, self._found.get(key, OPEN)) for key in self._todo)
            self._store.put(*(each for each in known if each[1].status == "open"))

    def _serve(self, workers: int) -> None:
        """Do what the workers want done on the main thread, until all of them have ended."""
        shown = 0.0
        while workers:
            with suppress(queue.Empty):
                job = self._inbox.get(timeout=_LOOK)
                workers -= job is None
                if job is not None:
                    job()
            if time.monotonic() - shown > _LOOK:
                self._show(self._line())
                shown = time.monotonic()

    def _work(self, rows: Iterator[tuple[str, str]]) -> None:
        """What a worker does: row after row, until there is none or the map is stopped."""
        try:
            while True:
                with self._taking:
                    row = None if self._limiter.reason else next(rows, None)
                if row is None:
                    return
                result = self._ask(*row)
                with self._ending:
                    self._ended(row[0], result)
        except BaseException as error:  # noqa: BLE001 - raised on the main thread
            self._error = self._error or error
            self._limiter.stop("an error", now=True)
        finally:
            self._inbox.put(None)

    def _ask(self, key: str, question: str) -> RowResult:
        earlier = self._store.get(key) or self._found.get(key, OPEN)
        if earlier.status == "done":  # another kernel has asked about it
            return earlier

        def note(spent: Usage) -> None:
            if self._limiter.budget < math.inf:  # so that it is known after a crash, too
                self._store.put((key, replace(OPEN, spent=earlier.spent + spent)))

        if self._executor is None:
            model = RowModel(self._settings["model"], self._limiter, note)
            result = self._agent.ask(model, question, self._answers)
        else:
            result = self._ask_elsewhere(self._executor, question)
        result = replace(result, spent=earlier.spent + result.spent)
        self._store.put((key, result))
        return result

    def _ask_elsewhere(self, executor: Executor, question: str) -> RowResult:
        settings, attempt = {**self._settings, "namespace": {}}, uuid.uuid4().hex
        try:
            future = executor.submit(ask_elsewhere, settings, question, self._type, attempt)
            with stoppable(partial(_cancel, future)):
                return future.result()
        except ConfigurationError:
            raise
        except Exception as error:  # noqa: BLE001 - such as a worker that was killed
            return RowResult("failed", None, f"{type(error).__name__}: {error}", kind="server")

    def _on_main(self, work: Callable[[], T]) -> T:
        """Call something on the main thread and wait for it; a stop ends the wait."""
        future: Future[T] = Future()

        def call() -> None:
            if future.set_running_or_notify_cancel():
                try:
                    future.set_result(work())
                except BaseException as error:  # noqa: BLE001 - for the thread that waits
                    future.set_exception(error)

        self._inbox.put(call)
        with stoppable(partial(_cancel, future)):
            return future.result()

    def _ended(self, key: str, result: RowResult) -> None:
        """Take in what became of a row, and stop where the others would end in the same way."""
        self._found[key] = result
        self._asked += 1
        if self._limiter.is_free:
            self._limiter.spent += result.usage
            self._limiter.in_usd = self._limiter.in_usd or result.usage.usd > 0
        self._failing = self._failing + 1 if result.kind in _FAILING else 0
        if result.kind in _STOPPING or self._failing >= _STREAK:
            self._error = self._error or ModelError(result.error, kind=result.kind)  # type: ignore[arg-type]
            self._limiter.stop(f"the endpoint: {result.error}")
        elif result.status == "open":  # an interrupt hit a tool on the main thread
            self._limiter.stop("an interrupt", now=not self._limiter.reason)
        if self._asked == _SAMPLE < len(self._todo):
            self._inbox.put(self._estimate)

    def _estimate(self) -> None:
        """Show what all rows will cost; where that exceeds the budget, ask how to go on."""
        limiter, share = self._limiter, self._asked / len(self._todo)
        earlier, seconds = limiter.used(self._earlier), time.monotonic() - self._started
        sample = limiter.used(limiter.spent) - earlier
        line = f"sample of {self._asked}: {limiter.shown(sample)}, {seconds:,.0f} s → all "
        line += f"{len(self._todo):,}: {limiter.shown(sample / share)}, {seconds / share:,.0f} s"
        is_above = earlier + sample / share > limiter.budget
        self._show(f"{line}, above the budget" if is_above else line, final=True)
        if is_above and Keyboard().there:
            prompt = (
                f"Run until {limiter.shown(limiter.budget)}, run all, or stop? [until/all/stop] "
            )
            with self._taking, suppress(EOFError, OSError):  # no row begins meanwhile
                answer = Keyboard().ask(prompt).strip()
                if answer == "all":
                    limiter.budget = math.inf
                elif answer == "stop":
                    limiter.stop("you")

    def _status(self, key: str) -> str:
        return self._found.get(key, OPEN).status

    def _line(self) -> str:
        """How far the map is."""
        counts, limiter = Counter(map(self._status, self._keys)), self._limiter
        parts = [f"{counts['done']:,} of {len(self._keys):,} rows done"]
        parts += [f"{counts['failed']:,} failed"] if counts["failed"] else []
        parts.append(limiter.shown(limiter.used(limiter.spent)))
        if limiter.reason:
            parts.append(f"stopped by {limiter.reason} (rerun the cell to continue)")
        elif self._asked and (left := len(self._todo) - self._asked):
            seconds = (time.monotonic() - self._started) / self._asked
            parts.append(f"about {seconds * left:,.0f} s left")
        return " · ".join(parts)


def keys_of(
    questions: Sequence[str], salts: Sequence[str], tools: Iterable[Tool], *parts: str
) -> list[str]:
    """What identifies each row's result: its question, the tools with their code, and the rest."""
    same = [*parts, *([tool.name, tool.spec(), _source(tool.function)] for tool in tools)]
    text = json.dumps(same, sort_keys=True, default=str)
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass"))
    keys = []
    for question in questions:
        row = digest.copy()
        row.update(question.encode("utf-8", "surrogatepass"))
        keys.append(row.hexdigest())
    return [f"{key} {salt}" for key, salt in zip(keys, salts, strict=True)] if salts else keys


def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # typed into an interpreter, or written in C
        return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"


def _cancel(future: Future[Any]) -> None:
    future.cancel()


def is_replay(named: Any) -> bool:
    """Whether no model may be asked; one that is scripted always may."""
    if getattr(named, "is_scripted", False):
        return False
    if mode := os.environ.get(MODE):
        return mode == "replay"
    cassette = named.cassette if isinstance(named, CassetteModel) else cassette_in_use()
    return cassette is not None and bool(cassette.mode == "replay")
