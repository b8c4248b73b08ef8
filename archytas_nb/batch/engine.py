"""Asks about many rows in threads, each row in a conversation of its own.

The workers take rows from one queue. The calling thread waits until it is needed: for a tool that
is not pure, a question to the user, or a line of progress.
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
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from archytas_nb.answers import Answers
from archytas_nb.asking import ModelChoice, RunSetup
from archytas_nb.batch.limiter import Limiter, RowModel
from archytas_nb.batch.row import ask_elsewhere, ask_row
from archytas_nb.batch.store import FAILURES, OPEN, REFUSALS, RowResult, Store, stored
from archytas_nb.cassettes.switch import MODE, CassetteModel, cassette_in_use, given_name
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.kernel.person import Keyboard, ask_user, confirm
from archytas_nb.kernel.python import python
from archytas_nb.loop.events import Usage
from archytas_nb.loop.model import ModelFacts, without_retries
from archytas_nb.loop.stop import Stop, stoppable
from archytas_nb.models.choose import choose_model
from archytas_nb.progress import line_writer
from archytas_nb.tools.tool import Tool
from archytas_nb.tools.toolbox import Toolbox

T = TypeVar("T")
_SAMPLE = 20  # rows after which the cost of all is estimated
_LOOK = 0.2  # seconds between two lines of progress, and two looks at rows of other kernels
_GRACE = 0.3  # seconds for workers after an interrupt
_STREAK = 5  # rows in a row that fail by the endpoint: the others would, too. See `Outage`


class Row(NamedTuple):
    """A row to ask about, and what is known of its earlier attempts."""

    key: str
    question: str
    earlier: RowResult = OPEN


class Rows:
    """The rows that are still to be asked about, for several workers and other kernels.

    Args:
        todo: The questions by their keys.
        found: What was known of the rows when the map began.
        store: The file in which rows are claimed.
        ended: Called with each row that another kernel has asked about.
    """

    def __init__(
        self,
        todo: Mapping[str, str],
        found: Mapping[str, RowResult],
        store: Store,
        ended: Callable[[str, RowResult], None],
    ) -> None:
        self.changed = threading.Condition()
        """No row begins while it is held."""
        self._waiting = deque(Row(key, text, found.get(key, OPEN)) for key, text in todo.items())
        self._elsewhere: list[Row] = []  # other kernels are asking about these
        self._looked = 0.0  # when they were looked at
        self._store = store
        self._ended = ended

    def take(self, limiter: Limiter) -> Row | None:
        """Claim a row; None where there is none left, or the map is stopped.

        As long as other kernels are asking about rows, it waits for them: they may be killed.
        """
        with self.changed:
            while not limiter.reason:
                if self._waiting:
                    row = self._claim(self._waiting.popleft())
                    if row is not None:
                        return row
                elif self._elsewhere:
                    self.changed.wait(_LOOK)
                    self._look_again()
                else:
                    return None
        return None

    def _claim(self, row: Row) -> Row | None:
        claim = self._store.claim(row.key, row.earlier)
        if claim.state == "mine":
            return row._replace(earlier=claim.row)
        if claim.state == "elsewhere":
            self._elsewhere.append(row)
        else:
            self._ended(row.key, claim.row)
        return None

    def _look_again(self) -> None:
        now = time.monotonic()
        if now - self._looked >= _LOOK:
            self._looked = now
            self._waiting.extend(self._elsewhere)
            self._elsewhere.clear()


class Outage:
    """Decides whether the endpoint is down, from the rows in the order in which they end.

    Rows that are asked about at the same time meet the same fault: those that had begun when the
    first row of a streak failed count as one, so that the number of workers does not decide.
    """

    def __init__(self) -> None:
        self._ended = 0  # rows
        self._failed = 0  # of the streak, counted as above
        self._since = 0  # rows that had ended when the first row of the streak had failed

    def begin(self) -> int:
        """Note that a row begins; the result is to be given when it ends."""
        return self._ended

    def end(self, began: int, *, failed: bool) -> bool:
        """Note that a row ended, and whether it failed by the endpoint; whether that is down."""
        self._ended += 1
        if not failed:
            self._failed = 0
        elif not self._failed:
            self._failed = 1
            self._since = self._ended
        elif began >= self._since:
            self._failed += 1
        return self._failed >= _STREAK


class Map:
    """Many questions, each in a conversation of its own; equal ones are asked once.

    `setup` is what the rows are asked with; where there are `salts`, questions are equal only where
    these are, too; `name` identifies the model in the file, by default the name that it was given.
    The others, and the errors, are those of `Agent.map`.
    """

    def __init__(
        self, setup: RunSetup, questions: Sequence[str], salts: Sequence[str] = (), *,
        output_type: Any = None, workers: int = 8, budget: float | str | None = None,
        rpm: float | None = None, executor: Executor | None = None, store: str | None = None,
        progress: bool = False, name: str = "",
    ) -> None:  # fmt: skip
        _check_limits(workers, rpm)
        if executor is not None and (budget, rpm) != (None, None):
            raise ValueError("budget= and rpm= cannot be combined with executor=")
        # Nobody is asked in a row, and it runs no code in the notebook.
        offered = setup.offered(small=setup.choice.is_small).values()
        tools = [each for each in offered if each.function not in (ask_user, python)]
        self._tools = tools
        self._setup = replace(setup, tools=Toolbox(*tools), own_tools=Toolbox())
        self._type = output_type
        self._workers = workers
        self._executor = executor
        self._show: Callable[..., None] = _show_nothing
        if progress:
            self._show = line_writer()
        self._answers = Answers(output_type, None, setup.variables)
        if self._answers.by_reference:
            raise ConfigurationError(
                f"type={output_type!r}: the answers are kept in a file, which holds no variables"
            )
        self._keys = keys_of(
            questions,
            salts,
            tools,
            name or given_name(setup.choice.given),
            setup.settings.instructions,
            repr(self._answers.form),
        )
        self._path = None
        if store is not None and os.environ.get(MODE) != "off":
            self._path = Path(store)
        self._found = stored(self._path, self._keys)
        pairs = zip(self._keys, questions, strict=True)
        self._todo = {key: text for key, text in pairs if self._status(key) != "done"}
        earlier = self._found.values()
        self._limiter = Limiter(budget, rpm, sum((each.spent for each in earlier), Usage()))
        self._paid = sum((each.usage for each in earlier), Usage())
        self._paid_before = self._paid
        self._store = Store(None)
        self._asked = 0  # rows that have ended since the map began
        self._outage = Outage()
        self._started = time.monotonic()
        self._error: BaseException | None = None
        self._inbox = queue.SimpleQueue[Callable[[], object] | None]()  # for the main thread
        self._ending = threading.Lock()

    def results(self) -> tuple[list[RowResult], list[Any]]:
        """Ask; for each question its result, and the value of its answer."""
        if is_replay(self._setup.choice.given):
            self._replay()
        elif self._todo:
            self._setup = self._usable()
            with closing(Store(self._path)) as self._store:
                self._run()
        self._show(self._line(), final=True)
        results = self._row_by_row()
        values: list[Any] = [each.answer for each in results]
        if self._answers.form is None:
            return results, values
        for at, each in enumerate(results):
            if each.status == "done":
                verdict = self._answers.check(each.answer)
                values[at] = verdict.value
                if verdict.fault:  # the type's own check has changed, or what it asks
                    results[at] = replace(each, status="failed", error=verdict.reason)
        return results, values

    def _row_by_row(self) -> list[RowResult]:
        """The result for each question; one that is asked again has cost nothing more."""
        results = []
        seen = set[str]()
        for key in self._keys:
            result = self._found.get(key, OPEN)
            if key in seen:
                result = result.repeated()
            results.append(result)
            seen.add(key)
        return results

    def _replay(self) -> None:
        """Take the rows as they were kept."""
        missing = len(self._todo.keys() - self._found.keys())
        if missing:
            raise ConfigurationError(
                f"a replay does not call a model, and {missing:,} rows have no result in "
                f"{str(self._path)!r}. Run the map once with a model, and keep the file"
            )
        if any(self._status(key) == "open" for key in self._todo):
            self._limiter.stop_at_budget()

    # ── what the map can use ──────────────────────────────────────────────────────────────────────

    def _usable(self) -> RunSetup:
        """The setup with a model without cassette and retries of its own, and the allowed tools.

        Raises:
            ConfigurationError: Nothing can be asked with them.
        """
        named = self._setup.choice.given
        if isinstance(named, CassetteModel):
            model = named.real()
        else:
            model = choose_model(named, None, confirm)
        if self._limiter.budget < math.inf:
            self._check_budget(model)
        if self._executor is not None:
            self._check_tools_for_executor()
        allow = self._allowed()
        choice = ModelChoice(without_retries(model))
        settings = replace(self._setup.settings, allow=allow)
        return replace(self._setup, choice=choice, settings=settings)

    def _check_budget(self, model: Any) -> None:
        """Raise ConfigurationError if a budget cannot be kept with a model."""
        if self._limiter.in_usd and ModelFacts(model).price is None:
            raise ConfigurationError(
                f"the price of {model.name!r} is unknown, so a budget in USD cannot be enforced. "
                "Use tokens, such as budget='500000 tokens' (%agent_map --budget '500000 tokens'), "
                'or install the prices: pip install ".[prices]" in a clone of archytas_nb'
            )
        for field in ("max_tokens", "max_completion_tokens", "n"):
            if field in ModelFacts(model).request_fields:
                raise ConfigurationError(
                    f"the model's request sets {field!r}, so a budget cannot limit its replies; "
                    "use the agent's max_reply_tokens instead"
                )

    def _check_tools_for_executor(self) -> None:
        """Raise ConfigurationError if a tool does not work in another process."""
        for tool in self._tools:
            for each in tool.parameters:
                if each.injected or each.type.by_reference:
                    raise ConfigurationError(
                        f"the tool {tool.name!r} takes a variable by name ({each.name!r}), but the "
                        "executor's processes do not have it; omit the tool or executor="
                    )

    def _allowed(self) -> frozenset[str]:
        """The names of tools that run without approval, of which the user may be asked for some."""
        allow = self._setup.settings.allow
        asking = [
            tool.name
            for tool in self._tools
            if tool.may_require_approval and not allow & {tool.name, tool.source_name}
        ]
        if not asking or self._setup.settings.approve not in (None, "ask"):
            return allow
        tools = ", ".join(asking)
        prompt = f"Let {len(self._todo):,} rows call {tools} without asking you again? [y/n] "
        if not confirm(prompt):
            raise ConfigurationError(
                f"{tools}: approval is required before the map starts, and was not given. Allow it "
                f"with %config ArchytasNB.allow = {asking!r} or Agent(allow={asking!r}), or leave "
                f"it out with %tools --disable {asking[0]} or Agent([…])"
            )
        return allow | set(asking)

    # ── asking ────────────────────────────────────────────────────────────────────────────────────

    def _run(self) -> None:
        """Ask about the rows, the first alone: the endpoint's cache of the prompt is warm then."""
        self._rows = Rows(self._todo, self._found, self._store, self._ended)
        if self._limiter.budget < math.inf:
            self._store.watch({key: self._found.get(key, OPEN).spent for key in self._keys})
            self._limiter.spent_elsewhere = self._store.spent_elsewhere
        threads: list[threading.Thread] = []
        try:
            self._ask_with(1, 1, threads)
            self._ask_with(min(self._workers, len(self._todo) - 1), len(self._todo), threads)
        except KeyboardInterrupt:
            self._limiter.stop("an interrupt", now=True)
        finally:
            ends = time.monotonic() + _GRACE
            for each in threads:
                each.join(max(0.0, ends - time.monotonic()))
        if self._limiter.reason:  # a replay then knows that these rows belong to the map
            self._store.put_open(key for key in self._todo if self._status(key) == "open")
        if self._error is None:
            return
        is_partial = any(self._status(key) == "done" for key in self._todo)
        if is_partial and isinstance(self._error, ModelError):  # `_line` names it
            return
        raise self._error

    def _ask_with(self, workers: int, most: int, threads: list[threading.Thread]) -> None:
        """Ask with so many workers about so many rows each, at most; do what they want done."""
        context = contextvars.copy_context()  # in which a kernel keeps to what cell output belongs
        context.run(Stop.current.set, self._limiter.now)
        for _ in range(workers):
            run = context.copy().run
            thread = threading.Thread(target=run, args=(self._work, most), daemon=True)
            threads.append(thread)
            thread.start()
        shown = 0.0
        while workers:
            with suppress(queue.Empty):
                job = self._inbox.get(timeout=_LOOK)
                if job is None:
                    workers -= 1
                else:
                    job()
            if time.monotonic() - shown > _LOOK:
                self._show(self._line())
                shown = time.monotonic()

    def _work(self, most: int) -> None:
        """What a worker does: row after row, until there is none or the map is stopped."""
        try:
            for _ in range(most):
                row = self._rows.take(self._limiter)
                if row is None:
                    return
                began = self._outage.begin()
                self._ended(row.key, self._ask(row), began)
        except KeyboardInterrupt:
            self._limiter.stop("an interrupt", now=True)
        except BaseException as error:  # noqa: BLE001 - raised on the main thread
            self._error = self._error or error
            self._limiter.stop("an error", now=True)
        finally:
            self._inbox.put(None)

    def _ask(self, row: Row) -> RowResult:
        noted = Usage()

        def note(spent: Usage) -> None:
            nonlocal noted
            if self._limiter.budget < math.inf:  # so that it is known after a crash, too
                self._store.note(row.key, spent - noted)
                noted = spent

        if self._executor is None:
            model = RowModel(self._setup.choice.given, self._limiter, note)
            result = ask_row(self._setup, model, row.question, self._answers, self._on_main)
        else:
            result = self._ask_elsewhere(self._executor, row.question)
        return self._store.put(row.key, replace(result, spent=result.spent - noted))

    def _ask_elsewhere(self, executor: Executor, question: str) -> RowResult:
        """Ask in another process; an interrupt leaves the row open there and then."""
        setup = replace(self._setup, namespace={})
        ended = threading.Event()
        try:
            future = executor.submit(ask_elsewhere, setup, question, self._type, uuid.uuid4().hex)
            future.add_done_callback(lambda _: ended.set())
            with stoppable(ended.set):
                ended.wait()
            if future.done():
                return future.result()
            future.cancel()  # of no effect on a row that has begun
        except ConfigurationError:
            raise
        except KeyboardInterrupt:  # which the other process got, too
            pass
        except Exception as error:  # noqa: BLE001 - such as a worker that was killed
            if not self._limiter.now.event.is_set():
                return RowResult("failed", None, f"{type(error).__name__}: {error}", kind="server")
        return OPEN

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

    def _ended(self, key: str, result: RowResult, began: int = 0) -> None:
        """Take in what became of a row, and stop where the others would end in the same way.

        When a row of another kernel began is not known: it counts as one of those that run.
        """
        with self._ending:
            self._paid += result.usage - self._found.get(key, OPEN).usage
            self._found[key] = result
            self._asked += 1
            is_down = self._outage.end(began, failed=result.kind in FAILURES)
            if result.kind in FAILURES | REFUSALS:
                self._limiter.failure = result.error
            elif result.status == "done":
                self._limiter.failure = ""
            if result.kind in REFUSALS or is_down:
                error = ModelError(result.error, kind=result.kind)  # type: ignore[arg-type]
                self._error = self._error or error
                self._limiter.stop(f"the endpoint: {result.error}")
            elif result.status == "open":  # an interrupt hit a tool on the main thread
                self._limiter.stop("an interrupt", now=not self._limiter.reason)
            if self._asked == _SAMPLE < len(self._todo):
                self._inbox.put(self._estimate)

    # ── what is shown ─────────────────────────────────────────────────────────────────────────────

    def _estimate(self) -> None:
        """Show what all rows will cost; where that exceeds the budget, ask how to go on."""
        limiter = self._limiter
        share = self._asked / len(self._todo)
        seconds = time.monotonic() - self._started
        paid = self._paid - self._paid_before
        cost = limiter.used(paid)
        line = (
            f"sample of {self._asked}: {self._amount(paid)}, {seconds:,.0f} s → all "
            f"{len(self._todo):,}: {self._amount(paid, 1 / share)}, {seconds / share:,.0f} s"
        )
        is_above = limiter.used(self._paid_before) + cost / share > limiter.budget
        if is_above:
            line += ", above the budget"
        self._show(line, final=True)
        if is_above and Keyboard().there:
            self._ask_how_to_go_on()

    def _ask_how_to_go_on(self) -> None:
        """Ask the user whether the budget is kept; no row begins meanwhile."""
        limiter = self._limiter
        budget = limiter.shown(limiter.budget)
        with self._rows.changed, suppress(EOFError, OSError):
            prompt = f"Run until {budget}, run all, or stop? [until/all/stop] "
            answer = Keyboard().ask(prompt).strip()
            if answer == "all":
                limiter.budget = math.inf
            elif answer == "stop":
                limiter.stop("you")

    def _amount(self, paid: Usage, times: float = 1.0) -> str:
        """What was paid, in the unit of the budget; without one in USD if these are known."""
        limiter = self._limiter
        in_usd = self._paid.usd > 0
        if limiter.budget < math.inf:
            in_usd = limiter.in_usd
        if in_usd:
            return f"{paid.usd * times:,.4g} USD"
        return f"{paid.tokens * times:,.0f} tokens"

    def _status(self, key: str) -> str:
        return self._found.get(key, OPEN).status

    def _line(self) -> str:
        """How far the map is."""
        counts = Counter(map(self._status, self._keys))
        limiter = self._limiter
        parts = [f"{counts['done']:,} of {len(self._keys):,} rows done"]
        if counts["failed"]:
            parts.append(f"{counts['failed']:,} failed")
        parts.append(self._amount(self._paid))
        left = len(self._todo) - self._asked
        if limiter.reason:
            parts.append(f"stopped by {limiter.reason} (rerun the cell to continue)")
        elif limiter.failure and left:
            parts.append(f"the endpoint fails: {limiter.failure}")
        elif self._asked and left:
            seconds = (time.monotonic() - self._started) / self._asked
            parts.append(f"about {seconds * left:,.0f} s left")
        return " · ".join(parts)


def _show_nothing(*_: Any, **__: Any) -> None:
    pass


def _check_limits(workers: Any, rpm: Any) -> None:
    """Raise ValueError for a number of workers or a rate that is none."""
    if type(workers) is not int or workers < 1:
        raise ValueError(f"workers is {workers!r}; expected a whole number above 0")
    is_number = isinstance(rpm, Real) and not isinstance(rpm, bool)
    if rpm is not None and not (is_number and 0 < rpm < math.inf):
        raise ValueError(f"rpm is {rpm!r}; expected a number of requests above 0, or None")


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
    if salts:
        return [f"{key} {salt}" for key, salt in zip(keys, salts, strict=True)]
    return keys


def _source(function: Callable[..., Any]) -> str:
    try:
        return inspect.getsource(function)
    except (OSError, TypeError):  # typed into an interpreter, or written in C
        return f"{getattr(function, '__module__', '')}.{getattr(function, '__qualname__', '')}"


def _cancel(future: Future[Any]) -> None:
    future.cancel()


def is_replay(named: Any) -> bool:
    """Whether no model may be asked; one that is scripted always may."""
    if ModelFacts(named).is_scripted:
        return False
    mode = os.environ.get(MODE)
    if mode:
        return mode == "replay"
    if isinstance(named, CassetteModel):
        return named.cassette.mode == "replay"
    cassette = cassette_in_use()
    return cassette is not None and cassette.mode == "replay"
