"""Asks about many rows in threads, each row in a conversation of its own.

The workers take rows from one queue. The calling thread waits until it is needed: for a tool that
is not pure, a question to the user, or a line of progress.
"""

from __future__ import annotations

import contextlib
import contextvars
import functools
import math
import os
import queue
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import closing, suppress
from dataclasses import replace
from functools import partial
from numbers import Real
from pathlib import Path
from typing import Any, Literal, NamedTuple, Protocol, TypeAlias, TypeVar

from archytas_nb import extras
from archytas_nb.answers import Answers
from archytas_nb.batch.elsewhere import Elsewhere, RowEndError, SentCalls
from archytas_nb.batch.keys import keys_of
from archytas_nb.batch.limiter import Limiter, RowModel
from archytas_nb.batch.parcel import Parcel, pack
from archytas_nb.batch.row import ask_elsewhere, ask_row, failed_if_refused
from archytas_nb.batch.store import OPEN, Claim, RowResult, Store, is_noted, stored
from archytas_nb.batch.summary import columns_at_a_glance
from archytas_nb.batch.worker import call_there
from archytas_nb.cassettes.switch import MODE, CassetteModel, cassette_in_use, given_name
from archytas_nb.effects.ledger import Effect, Ledger, kept_files, noted_in
from archytas_nb.errors import (
    ENDPOINT_FAILURES,
    EXECUTOR_FAILURE,
    REFUSED_FOR_ALL,
    ConfigurationError,
    ExecutorError,
    ModelError,
)
from archytas_nb.kernel.permission import NOTEBOOK, Permission, Permissions, state_of
from archytas_nb.kernel.person import Keyboard, ask_user, confirm
from archytas_nb.kernel.python import python
from archytas_nb.loop.calls_made import Effects
from archytas_nb.loop.events import Json, Usage
from archytas_nb.loop.model import ModelFacts, without_retries
from archytas_nb.loop.stop import Stop, stoppable
from archytas_nb.models.choose import choose_model
from archytas_nb.prepare import ModelChoice, RunSetup
from archytas_nb.progress import line_writer
from archytas_nb.settings import value
from archytas_nb.tools.toolbox import Toolbox
from archytas_nb.trace.controls import Controls
from archytas_nb.trace.map_panel import Column, MapPanel, map_panel, progress_html
from archytas_nb.words import clock, collapse_whitespace, count, without_values

T = TypeVar("T")
_SAMPLE = 20  # rows after which the cost of all is estimated
_LOOK = 0.2  # seconds between two lines of progress, and two looks at rows of other kernels
_GLANCE = 1.0  # seconds between two looks at all answers so far, at least
_GRACE = 0.3  # seconds for workers after an interrupt
_FAILURES_SHOWN = 5  # the last ones
_STREAK = 5  # rows in a row that fail by the endpoint or the executor: the others would, too


class Row(NamedTuple):
    """A row to ask about, by its question or what else is asked, and what its attempts gave."""

    key: str
    about: Any
    earlier: RowResult = OPEN


Way: TypeAlias = Literal["here", "threads", "calls", "rows"]
"""How an executor is used: not at all, for whole rows in this process, for the calls of tools in
another one, or for whole rows there.

A row is asked about in another process only if it needs nothing of its map until it has ended: no
part of a budget or a rate, no tool that runs one at a time, and no approval.
"""


class Rows:
    """The rows that are still to be asked about, for several workers and other kernels.

    Args:
        todo: The subject of each row, by its key.
        found: The known results of the rows when the map began.
        store: The file in which rows are claimed.
        ended: Called with each row that another kernel has asked about.
    """

    def __init__(
        self,
        todo: Mapping[str, Any],
        found: Mapping[str, RowResult],
        store: Store,
        ended: Callable[[str, RowResult], None],
    ) -> None:
        self.changed = threading.Condition()
        """No row begins while it is held."""
        self.is_paused = False
        self._waiting = deque(Row(key, about, found.get(key, OPEN)) for key, about in todo.items())
        self._elsewhere: list[Row] = []  # other kernels are asking about these
        self._taken = 0  # rows that have not ended; one of them may fail, and be asked about again
        self._looked = 0.0  # when they were looked at
        self._store = store
        self._ended = ended

    def take(self, limiter: Limiter) -> Row | None:
        """Claim a row; None where there is none left, or the map is stopped.

        As long as other kernels are asking about rows, it waits for them: they may be killed. It
        also waits for the rows of other workers: until they end, a person may have failed rows
        asked about again.
        """
        with self.changed:
            while not limiter.reason:
                if self.is_paused:
                    self.changed.wait(_LOOK)
                elif self._waiting:
                    row = self._claim(self._waiting.popleft())
                    if row is not None:
                        self._taken += 1
                        return row
                elif self._elsewhere:
                    self.changed.wait(_LOOK)
                    self._look_again()
                elif self._taken:
                    self.changed.wait(_LOOK)
                else:
                    return None
        return None

    def give_back(self) -> None:
        """Say that a row that was taken has ended."""
        with self.changed:
            self._taken -= 1
            self.changed.notify_all()

    def pause(self, is_paused: bool) -> None:  # noqa: FBT001 (the state of a button)
        """Let no row begin, or let them begin again."""
        with self.changed:
            self.is_paused = is_paused
            self.changed.notify_all()

    def add(self, rows: Iterable[Row]) -> None:
        """Ask about rows once more."""
        with self.changed:
            self._waiting.extend(rows)
            self.changed.notify_all()

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
    """Decides whether the endpoint or the executor fails for all rows, from these as they end.

    It does if it is down, or refuses rows with the same words: then it is not about the rows.

    Rows that are asked about at the same time meet the same fault: those that had begun when the
    first row of a streak failed count as one, so that the number of workers does not decide.
    """

    def __init__(self) -> None:
        self._ended = 0  # rows
        self._failed = 0  # of the streak, counted as above
        self._failure = ""  # what the rows of the streak have failed by
        self._since = 0  # rows that had ended when the first row of the streak had failed

    def begin(self) -> int:
        """Note that a row begins; the result is to be given when it ends."""
        return self._ended

    def end(self, began: int, failure: str) -> bool:
        """Note that a row ended; whether all others would fail, too.

        Args:
            began: The value that `begin` returned.
            failure: The kind of failure; equal for rows that failed alike, empty for none.
        """
        self._ended += 1
        if failure != self._failure:
            self._failed = 0
        self._failure = failure
        if not failure:
            self._failed = 0
        elif not self._failed:
            self._failed = 1
            self._since = self._ended
        elif began >= self._since:
            self._failed += 1
        return self._failed >= _STREAK


def _failure_of(result: RowResult) -> str:
    """The failure of a row, without parts that differ between rows; empty if the row caused it."""
    if result.kind in ENDPOINT_FAILURES:
        return "endpoint"
    if result.kind == EXECUTOR_FAILURE:
        return "executor"
    if result.kind == "refused":
        return without_values(result.error)
    return ""


class CostLedger:
    """Notes in the file what a row in progress may have cost or done, to be known after a crash.

    Attributes:
        total: The noted cost.
        key: The row.
    """

    def __init__(self, key: str, store: Store, *, is_kept: bool) -> None:
        self.total = Usage()
        self.key = key
        self._store = store
        self._is_kept = is_kept

    def __call__(self, spent: Usage) -> None:
        """Note what it may have cost by now."""
        if self._is_kept:
            self._store.note(self.key, spent - self.total)
            self.total = spent

    def begin(self, why: str) -> None:
        """Note that something begins that may not run twice."""
        self._store.begin(self.key, why)


AskRow: TypeAlias = Callable[[Any, CostLedger], RowResult]
"""Asks about a row, given what it is about and what notes what it may have cost or done by now."""


class Sender(Protocol):
    """Another way in which the requests of a map are sent than one by one."""

    def run(self) -> None:
        """Ask about the rows of `Map.todo`."""

    def model(self, note: CostLedger) -> RowModel | None:
        """The model of one row; None if its requests are sent immediately now."""


class Map:
    """Many questions, each in a conversation of its own; equal ones are asked once.

    `setup` is what the rows are asked with; where there are `salts`, questions are equal only where
    these are, too; `name` identifies the model in the file, by default the name that it was given.
    The others, and the errors, are those of `Agent.map`.

    `results` asks about all rows. A plan asks in several goes, about some rows or about something
    else, in the block of `begun`.

    Attributes:
        setup: The setup that the rows share.
        answers: The type of the answers.
        keys: The key of each row's result, in order.
        counted: The keys of the rows that the line of progress counts.
        tools: The tools of the rows.
        todo: The questions to ask now, or the rest of them, by the keys of the rows.
        output_type: The type of the answers as it was given.
        limiter: Lets the requests begin.
        paid: The cost of all rows.
        way: How an executor is used, which is known while the map runs.
        is_shown: Whether progress is shown.
        declined: The permissions that the person did not give, so that no row was asked; empty if
            none.
        ledger: Takes over what the calls of all rows do outside of the variables.
        sender: Another way to send the requests; None for one by one.
    """

    sender: Sender | None = None
    _thread = 0  # that on which `run` was called

    def __init__(
        self, setup: RunSetup, questions: Sequence[str], salts: Sequence[str] = (), *,
        output_type: Any = None, workers: int = 8, budget: float | str | None = None,
        rpm: float | None = None, executor: Any = None, store: str | None = None,
        progress: bool | Callable[..., None] = False, name: str = "", retry: bool = False,
    ) -> None:  # fmt: skip
        _check_limits(workers, rpm)
        self.way: Way = "here"
        self._elsewhere: Elsewhere | None = None
        if executor is not None:
            self._elsewhere = Elsewhere(executor, lambda: self.limiter.now.event.is_set())  # noqa: PLW0108
        self._parcel: Parcel | None = None  # what every row needs in other processes
        self._may_repeat = retry
        # Nobody is asked in a row, and it runs no code in the notebook.
        offered = setup.offered(setup.choice.profile).values()
        tools = [each for each in offered if each.function not in (ask_user, python)]
        self.tools = tools
        self.setup = replace(setup, tools=Toolbox(*tools), own_tools=Toolbox())
        self.output_type = output_type
        self._workers = workers
        self.show: Callable[..., None] = _show_nothing
        self.is_shown = bool(progress)
        if progress:
            self.show = progress if callable(progress) else line_writer()
        self.answers = Answers(output_type, None, setup.variables)
        if self.answers.by_reference:
            raise ConfigurationError(
                f"output_type={output_type!r} names a variable, and a map keeps its answers in a "
                "file: use a type of plain data, such as float or a dataclass"
            )
        self._same = (
            name or given_name(setup.choice.given),
            setup.instructions.text,
            repr(self.answers.form),
            *(["odds"] if setup.wants_odds else []),
        )
        self.keys = self.keys_of(questions, salts)
        self.counted = self.keys
        self._path = None
        if store is not None and os.environ.get(MODE) != "off":
            self._path = Path(store)
        self._found = stored(self._path, self.keys)
        self._lost_now: set[str] = set()  # rows that are unknown since this map
        self._questions = questions
        self.todo: dict[str, Any] = {}
        self.limiter = Limiter(
            budget, rpm, sum((each.spent for each in self._found.values()), Usage())
        )
        self.paid = sum((each.usage for each in self._found.values()), Usage())
        self._paid_before = self.paid
        self._store = Store(None)
        self._ask: AskRow = self.ask_one
        self._asked = 0  # rows that have ended since the map began
        self._failures: dict[str, str] = {}  # why rows failed, by their keys, the last one last
        self._retried: set[str] = set()  # rows that failed and are asked about again
        self._last_failure = ""  # why the last row failed that did
        self.ledger = Ledger(kept_files)
        self.declined = ""  # what was not allowed, so that nothing was asked
        self._outage = Outage()
        self._started = time.monotonic()
        self._ended_at = self._started  # when the last row has
        self._error: BaseException | None = None
        self._inbox = queue.SimpleQueue[Callable[[], object] | None]()  # for the main thread
        self._ending = threading.Lock()
        self._panel: MapPanel | None = None
        self._columns: list[Column] = []
        self._glance_due = 0.0

    def results(self) -> tuple[list[RowResult], list[Any]]:
        """Ask; for each question its result, and the value of its answer."""
        self.todo = self.open_rows()
        if self.is_replay:
            self._replay()
        elif self.todo:
            with self.begun():
                self.run(self.todo)
        return self.with_values(self._row_by_row())

    @property
    def schema(self) -> Json:
        """The JSON schema of an answer; None for text."""
        return None if self.answers.form is None else self.answers.form.schema

    # ── several goes ──────────────────────────────────────────────────────────────────────────────

    @property
    def is_replay(self) -> bool:
        """Whether no model may be asked."""
        return is_replay(self.setup.choice.given)

    def keys_of(self, abouts: Sequence[str], salts: Sequence[str] = (), *parts: str) -> list[str]:
        """The keys of what else is asked with the same model, tools, instructions and type."""
        return keys_of(abouts, salts, self.tools, *self._same, *parts)

    def share(self, other: Map) -> None:
        """Have the budget, the rate, the stop and the ledger of a map before this one."""
        other.limiter.spent += self.limiter.spent
        self.limiter = other.limiter
        self.ledger = other.ledger

    def know(self, keys: Sequence[str]) -> None:
        """Read what the file has for these keys, too."""
        found = stored(self._path, [key for key in keys if key not in self._found])
        self._found |= found
        self.limiter.spent += sum((each.spent for each in found.values()), Usage())
        self.paid += sum((each.usage for each in found.values()), Usage())

    def open_rows(self) -> dict[str, str]:
        """The questions of the rows that are to be asked about, by their keys."""
        pairs = zip(self.keys, self._questions, strict=True)
        return {key: text for key, text in pairs if self.is_open(key)}

    def is_open(self, key: str) -> bool:
        """Whether a row is to be asked about; the person is asked about those that are unknown."""
        status = self._status(key)
        if status != "unknown":
            return status != "done"
        return key not in self._lost_now and self._runs_unknown

    @functools.cached_property
    def _runs_unknown(self) -> bool:
        """Whether rows are asked about again for which a tool with side effects may have run."""
        if self._may_repeat or self.is_replay:
            return self._may_repeat
        unknown = [each for each in self._found.values() if each.status == "unknown"]
        question = f"{count(len(unknown), 'row')}: {unknown[0].error}. Run them again?"
        return confirm(question, Controls(Keyboard())) is True

    @property
    def effects(self) -> tuple[Effect, ...]:
        """The effects of the rows' calls outside of the variables so far, in this process."""
        with noted_in(None):
            self.ledger.end()
        return self.ledger.effects

    def result(self, key: str) -> RowResult:
        """The known result of a row."""
        return self._found.get(key, OPEN)

    @contextlib.contextmanager
    def begun(self) -> Iterator[None]:
        """Choose the model and open the file, in which `run` may be called several times.

        Raises:
            ConfigurationError: Nothing can be asked.
        """
        self.setup = self._usable()
        spans: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
        if value("telemetry") != "off":
            from archytas_nb.telemetry import map_span

            spans = map_span(len(self._questions))
        with spans, closing(Store(self._path)) as self._store, self._with_executor():
            yield

    @contextlib.contextmanager
    def file_open(self) -> Iterator[None]:
        """Open the file alone, to keep what no model answers."""
        with closing(Store(self._path)) as self._store:
            yield

    @contextlib.contextmanager
    def _with_executor(self) -> Iterator[None]:
        """Find out how the executor can be used, before anything is paid.

        Raises:
            ConfigurationError: It cannot be used.
        """
        if self._elsewhere is None:
            yield
            return
        with closing(self._elsewhere):
            self._elsewhere.open()
            self.way = self._way(self._elsewhere)
            if self.way in ("calls", "rows"):
                self._check_tools_for_executor()
                tools = {each.name: each for each in self.tools}
                if self.way == "rows":
                    self._parcel = self.parcel(ask_elsewhere, self.output_type)
                else:
                    self._parcel = pack(call_there, {"the tools": tools}, self.tools)
                self._elsewhere.check(self._parcel)
            yield

    def _way(self, elsewhere: Elsewhere) -> Way:
        if elsewhere.is_here:
            return "threads"
        is_bound = any(not each.pure or each.may_require_approval for each in self.tools)
        return "rows" if self.limiter.is_free and not is_bound else "calls"

    def parcel(self, work: Callable[..., Any], *given: Any) -> Parcel:
        """The parcel for other processes that run whole rows.

        Args:
            work: Called there with the setup, what is given, and what a row is about.
            given: Values that are the same for all rows.

        Raises:
            ExecutorError: It cannot be sent.
        """
        setup = replace(self.setup, namespace={})
        parts = {"the agent": setup} | {f"{each!r}": each for each in given}
        return pack(work, parts, self.tools)

    def run(self, todo: Mapping[str, Any], ask: AskRow | None = None) -> None:
        """Ask about rows until there is none left, or the map is stopped.

        Args:
            todo: The subject of each row, by its key.
            ask: Asks about one; None for a conversation about its question.

        Raises:
            ModelError: The endpoint failed before any row was done.
        """
        self.todo = dict(todo)
        self._ask = ask or self.ask_one
        self._asked = 0
        self._started = self._ended_at = time.monotonic()
        self._paid_before = self.paid
        self._thread = threading.get_ident()
        if self.todo and not self.limiter.reason:
            if self.sender is None:
                self.run_now(self.todo)
            else:
                self.sender.run()
            self._finish()

    def noting(self, key: str) -> CostLedger:
        """The ledger for the possible cost of a row in progress."""
        return CostLedger(key, self._store, is_kept=self.limiter.budget < math.inf)

    def keep(self, key: str, result: RowResult) -> None:
        """Keep what became of something that was not asked by `run`."""
        self._found[key] = self._store.put(key, result)

    def store_unlisted(self, key: str, result: RowResult) -> None:
        """Keep something in the file, of which there may be too many to know them all."""
        self._store.put(key, result)

    def kept(self, key: str) -> RowResult:
        """The entry of the file for a key; there may be too many to keep all in memory."""
        return stored(self._path, [key]).get(key, OPEN)

    def with_values(self, results: list[RowResult]) -> tuple[list[RowResult], list[Any]]:
        """Results with the values of their answers."""
        values: list[Any] = [each.answer for each in results]
        if self.answers.form is None:
            return results, values
        for at, each in enumerate(results):
            if each.status == "done":
                verdict = self.answers.check(each.answer)
                values[at] = verdict.value
                if verdict.fault:
                    # The type's own check has changed, or what it asks.
                    results[at] = replace(each, status="failed", error=verdict.reason)
        return results, values

    def _row_by_row(self) -> list[RowResult]:
        """The result for each question; one that is asked again has cost nothing more."""
        results = []
        seen = set[str]()
        for key in self.keys:
            result = self.result(key)
            if key in seen:
                result = result.repeated()
            results.append(result)
            seen.add(key)
        return results

    def _replay(self) -> None:
        """Take the rows as they were kept."""
        missing = len(self.todo.keys() - self._found.keys())
        if missing:
            self.raise_missing(missing)
        if any(self._status(key) == "open" for key in self.todo):
            self.limiter.stop_at_budget()

    def raise_missing(self, number: int) -> None:
        """Raise ConfigurationError for rows that a replay does not find."""
        raise ConfigurationError(
            f"a replay does not call a model, and {number:,} rows have no result in "
            f"{str(self._path)!r}. Run the map once with a model, and keep the file"
        )

    # ── what the map can use ──────────────────────────────────────────────────────────────────────

    def _usable(self) -> RunSetup:
        """The setup with a model without cassette and retries of its own, and the allowed tools.

        Raises:
            ConfigurationError: Nothing can be asked with them.
        """
        named = self.setup.choice.given
        if isinstance(named, CassetteModel):
            model = named.real()
        else:
            model = choose_model(named, None, confirm)
        if self.limiter.budget < math.inf:
            self._check_budget(model)
        permitted = self._permitted()
        choice = ModelChoice(without_retries(model))
        return replace(self.setup, choice=choice, permitted=permitted)

    def _check_budget(self, model: Any) -> None:
        """Raise ConfigurationError if a budget cannot be kept with a model."""
        if self.limiter.in_usd and ModelFacts(model).price is None:
            raise ConfigurationError(
                f"the price of {model.name!r} is unknown, so a budget in USD cannot be enforced. "
                "Use tokens, such as budget='500000 tokens' (%agent_map --budget '500000 tokens'), "
                f"or install the prices: {extras.install('prices')}"
            )
        for field in ("max_tokens", "max_completion_tokens", "n"):
            if field in ModelFacts(model).request_fields:
                raise ConfigurationError(
                    f"the model's request sets {field!r}, so a budget cannot limit its replies; "
                    "use the agent's max_reply_tokens instead"
                )

    def _check_tools_for_executor(self) -> None:
        """Raise ConfigurationError if a tool does not work in another process."""
        for tool in self.tools:
            for each in tool.parameters:
                if each.injected or each.type.by_reference:
                    raise ConfigurationError(
                        f"the tool {tool.name!r} takes a variable by name ({each.name!r}), but the "
                        "executor's processes do not have it; omit the tool or executor="
                    )

    def _permitted(self) -> Permissions:
        """The tools that rows may call without a question, about which the user is asked here.

        A call for which the tool's own check has a text is asked about when a row makes it.
        """
        permitted = Permissions()
        allow = self.setup.settings.allowed
        asking = [
            tool
            for tool in self.tools
            if tool.may_require_approval and not allow & {tool.name, tool.source_name}
        ]
        if not asking or self.setup.settings.approve not in (None, "ask"):
            return permitted
        states = [state_of(tool) for tool in asking]
        names = [tool.name for tool in asking]
        tools = ", ".join(names)
        question = f"Let {len(self.todo):,} rows call {tools} without asking you again?"
        answer = confirm(question, Controls(Keyboard()))
        if answer is False:  # which ends the map as a stop does
            self.declined = f"Not started: you did not allow {tools}"
            self.limiter.stop("you")
            return permitted
        if not answer:
            raise ConfigurationError(
                f"{tools}: approval is required before the map starts, and was not given. Allow it "
                f"with %config ArchytasNB.allow = {names!r} or Agent(allow={names!r}), or leave "
                f"it out with %tools --disable {names[0]} or Agent([…])"
            )
        for each in states:
            permitted.give(Permission(NOTEBOOK, each))
        return permitted

    # ── asking ────────────────────────────────────────────────────────────────────────────────────

    def run_now(self, todo: Mapping[str, Any]) -> None:
        """Ask about rows, the first alone: the endpoint's cache of the prompt is warm then."""
        self._rows = Rows(todo, self._found, self._store, self.ended)
        self.watch_others()
        threads: list[threading.Thread] = []
        if self.is_shown:
            self._panel = map_panel(self._inbox.put, self._rows.pause, self._retry)
        panel = self._panel
        try:
            try:
                self._ask_with(1, 1, threads)
                self._ask_with(min(self._workers, len(todo) - 1), sys.maxsize, threads)
            finally:
                self._close_panel()
        except KeyboardInterrupt:
            has_pressed = panel is not None and panel.was_stopped
            self.limiter.stop("you" if has_pressed else "an interrupt", now=True)
        finally:
            ends = time.monotonic() + _GRACE
            for each in threads:
                each.join(max(0.0, ends - time.monotonic()))

    def watch_others(self) -> None:
        """Count what other kernels spend for the rows, if there is a budget."""
        if self.limiter.budget < math.inf:
            keys = dict.fromkeys([*self.keys, *self._found, *self.todo])
            self._store.watch({key: self.result(key).spent for key in keys})
            self.limiter.spent_elsewhere = self._store.spent_elsewhere

    def _finish(self) -> None:
        """Note the rows that stay open, and raise what ended the map before any row was done."""
        if self.limiter.reason:
            # A replay then knows that these rows belong to the map.
            self._store.put_open(key for key in self.todo if self._status(key) == "open")
        if self._error is None:
            return
        is_partial = any(self._status(key) == "done" for key in self.todo)
        if is_partial and isinstance(self._error, (ModelError, ExecutorError)):
            # `line` names it.
            return
        self.show(self.line(), final=True)
        raise self._error

    def _ask_with(self, workers: int, most: int, threads: list[threading.Thread]) -> None:
        """Ask with this many workers about this many rows each, at most; do what they want done."""
        context = contextvars.copy_context()  # in which a kernel keeps to what cell output belongs
        context.run(Stop.current.set, self.limiter.now)
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
                self._show_progress()
                self._draw_panel()
                shown = time.monotonic()

    def _show_progress(self) -> None:
        """Show how far the map is; a page has a bar of its own."""
        line = self.line()
        share = self._asked / len(self.todo) if self.todo else 1.0
        self.show(line, page=progress_html(share, line.removeprefix(f"{_bar(share)} · ")))

    def _draw_panel(self) -> None:
        if self._panel is not None:
            with self._ending:
                last = list(self._failures.items())[-_FAILURES_SHOWN:]
            self._panel.draw(
                [(collapse_whitespace(str(self.todo[key]), 80), why) for key, why in last],
                self._glance(),
            )

    def _glance(self) -> list[Column]:
        """The answers so far at a glance; the longer it takes, the less often it is made again."""
        began = time.monotonic()
        if began >= self._glance_due:
            results = map(self.result, self.counted)
            answers = [each.answer for each in results if each.status == "done"]
            self._columns = columns_at_a_glance(answers)
            self._glance_due = time.monotonic() + max(_GLANCE, 50 * (time.monotonic() - began))
        return self._columns

    def _close_panel(self) -> None:
        panel = self._panel
        self._panel = None
        if panel is not None:
            panel.close()

    def _retry(self) -> None:
        """Ask again about the rows that have failed, each once at a time."""
        with self._ending:
            keys = [key for key in self._failures if key not in self._retried]
            self._retried.update(keys)
            self._asked -= len(keys)
            rows = [Row(key, self.todo[key], self._found[key]) for key in keys]
        self._rows.add(rows)

    def _work(self, most: int) -> None:
        """Ask row after row on a worker's thread, until none is left or the map is stopped."""
        try:
            for _ in range(most):
                row = self._rows.take(self.limiter)
                if row is None:
                    return
                try:
                    began = self._outage.begin()
                    self.ended(row.key, self._attempt(row), began)
                finally:
                    self._rows.give_back()
        except KeyboardInterrupt:
            self.limiter.stop("an interrupt", now=True)
        except BaseException as error:  # noqa: BLE001 - raised on the main thread
            self._error = self._error or error
            self.limiter.stop("an error", now=True)
        finally:
            self._inbox.put(None)

    def _attempt(self, row: Row) -> RowResult:
        notes = self.noting(row.key)
        result = self._ask(row.about, notes)
        if self._elsewhere is not None and self._elsewhere.gone is not None:
            self._error = self._error or self._elsewhere.gone
            self.limiter.stop(f"the executor: {self._elsewhere.gone}")
        return self.put(row, replace(result, spent=result.spent - notes.total))

    def put(self, row: Row, result: RowResult) -> RowResult:
        """Keep how an attempt for a row that was claimed has ended."""
        return self._store.put(row.key, result, row.earlier)

    @property
    def is_in_batches(self) -> bool:
        """Whether the file says that rows are in batches, or have been."""
        return any(is_noted(each) for each in self._found.values())

    @property
    def is_stored(self) -> bool:
        """Whether there is a file of results."""
        return self._path is not None

    def fail(self, error: ModelError) -> None:
        """End the map by an error, which is raised if no row is done."""
        self._error = self._error or error
        self.limiter.stop(f"the endpoint: {error}")

    def claim(self, key: str) -> Claim:
        """Ask for a row, which other kernels may be asking about."""
        return self._store.claim(key, self.result(key))

    def mark(self, keys: Mapping[str, tuple[Json, Usage]]) -> None:
        """Note what is under way for rows that were claimed, and what it may cost."""
        self._store.mark(keys)

    def attempt(self, row: Row) -> RowResult:
        """Ask about a row that was claimed, on this thread, without keeping the result."""
        return self._ask(row.about, CostLedger(row.key, self._store, is_kept=False))

    def ask_one(self, question: str, note: CostLedger, effects: Effects | None = None) -> RowResult:
        """Ask about a row in a conversation of its own.

        Args:
            question: Its question.
            note: Notes what it may have cost or done by now.
            effects: The calls with side effects that were already made for it.
        """

        def ask() -> RowResult:
            model, calls = self.model(note), self.calls(note)
            result = ask_row(
                self.setup,
                model,
                question,
                self.answers,
                self.on_main,
                effects,
                calls,
                self.ledger,
            )
            return failed_if_refused(result, effects)

        return self.have(ask, self._parcel, question, effects)

    def model(self, note: CostLedger) -> RowModel:
        """The model of one row, whose requests wait for the limiter."""
        model = None if self.sender is None else self.sender.model(note)
        if model is not None:
            return model
        return RowModel(self.setup.choice.given, self.limiter, note)

    def calls(self, note: CostLedger) -> SentCalls | None:
        """Makes the calls of a row in another process; None if they are made here."""
        if self.way != "calls" or self._elsewhere is None or self._parcel is None:
            return None
        return SentCalls(self._elsewhere, self._parcel, note.begin, may_repeat=self._may_repeat)

    def have(self, here: Callable[[], T], parcel: Parcel | None, *about: Any) -> T | RowResult:
        """Have a row asked about where the executor does that.

        Args:
            here: Asks about it in this process.
            parcel: The parcel that asks about it in another process.
            about: The subject of the row.
        """
        elsewhere = self._elsewhere
        if elsewhere is None or self.way in ("here", "calls"):
            return here()
        try:
            if parcel is None:
                context = contextvars.copy_context()
                return elsewhere.run_here(lambda: context.run(here))
            found: T = elsewhere.run(parcel, about, "a row")
        except RowEndError as error:
            return error.result
        except (KeyboardInterrupt, ExecutorError):
            # `_attempt` sees which.
            return OPEN
        return found

    def on_main(self, work: Callable[[], T]) -> T:
        """Call something on the main thread and wait for it; a stop ends the wait."""
        if threading.get_ident() == self._thread:
            return work()
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

    def ended(self, key: str, result: RowResult, began: int | None = 0) -> None:
        """Take in what became of a row, and stop where the others would end in the same way.

        Args:
            key: The row.
            result: Its result.
            began: When it began. That of another kernel is not known: it counts as one of those
                that run. With None, it has begun after the last one has ended.
        """
        if began is None:
            began = self._outage.begin()
        with self._ending:
            self.paid += result.usage - self._found.get(key, OPEN).usage
            self._found[key] = result
            self._asked += 1
            self._ended_at = time.monotonic()
            is_down = self._outage.end(began, _failure_of(result))
            self._retried.discard(key)
            self._failures.pop(key, None)
            if result.status == "unknown":
                self._lost_now.add(key)
            if result.status == "failed":
                self._last_failure = self._failures[key] = collapse_whitespace(result.error, 200)
            if result.kind in ENDPOINT_FAILURES | REFUSED_FOR_ALL:
                self.limiter.failure = result.error
            elif result.status == "done":
                self.limiter.failure = ""
            if is_down and result.kind == EXECUTOR_FAILURE:
                self._error = self._error or ExecutorError(result.error)
                self.limiter.stop(f"the executor: {result.error}")
            elif result.kind in REFUSED_FOR_ALL or is_down:
                failure = ModelError(result.error, kind=result.kind)  # type: ignore[arg-type]
                self._error = self._error or failure
                self.limiter.stop(f"the endpoint: {result.error}")
            elif result.status == "open":
                # An interrupt hit a tool on the main thread.
                self.limiter.stop("an interrupt", now=not self.limiter.reason)
            is_estimated = self._ask == self.ask_one and self.sender is None
            if is_estimated and self._asked == _SAMPLE < len(self.todo):
                self._inbox.put(self._estimate)

    # ── what is shown ─────────────────────────────────────────────────────────────────────────────

    def _estimate(self) -> None:
        """Show what all rows will cost; where that exceeds the budget, ask how to go on."""
        limiter = self.limiter
        share = self._asked / len(self.todo)
        seconds = time.monotonic() - self._started
        paid = self.paid - self._paid_before
        cost = limiter.used(paid)
        line = (
            f"sample of {self._asked}: {self.amount(paid)}, {seconds:,.0f} s → all "
            f"{len(self.todo):,}: {self.amount(paid, 1 / share)}, {seconds / share:,.0f} s"
        )
        is_above = limiter.used(self._paid_before) + cost / share > limiter.budget
        if is_above:
            line += ", above the budget"
        self.show(line, final=True)
        if is_above:
            with self._rows.changed:  # no row begins meanwhile
                self.ask_how_to_go_on()

    def ask_how_to_go_on(self) -> None:
        """Ask the user whether the budget is kept, if somebody is there."""
        if not Keyboard().there:
            return
        limiter = self.limiter
        budget = limiter.shown(limiter.budget)
        with suppress(EOFError, OSError):
            prompt = f"Run until {budget}, run all, or stop? [until/all/stop] "
            answer = Keyboard().ask(prompt).strip()
            if answer == "all":
                limiter.budget = math.inf
            elif answer == "stop":
                limiter.stop("you")

    def amount(self, paid: Usage, times: float = 1.0) -> str:
        """The cost so far, in the unit of the budget; without one in USD if these are known."""
        limiter = self.limiter
        in_usd = self.paid.usd > 0
        if limiter.budget < math.inf:
            in_usd = limiter.in_usd
        if in_usd:
            return f"{paid.usd * times:,.4g} USD"
        return f"{paid.tokens * times:,.0f} tokens"

    def _status(self, key: str) -> str:
        return self.result(key).status

    def line(self, *, is_summed_up: bool = False) -> str:
        """How far the map is; why rows failed is left out if that is shown elsewhere."""
        if self.declined:
            return self.declined
        counts = Counter(map(self._status, self.counted))
        limiter = self.limiter
        parts = [f"{counts['done']:,} of {len(self.counted):,} rows done"]
        if counts["failed"]:
            parts.append(f"{counts['failed']:,} failed")
        if counts["unknown"]:
            parts.append(f"{counts['unknown']:,} unknown (retry=True runs them again)")
        parts.append(self.amount(self.paid))
        left = len(self.todo) - self._asked
        is_listed = self._panel is not None and self._panel.is_shown  # below its buttons
        failure = ""
        if counts["failed"] and not is_listed and not is_summed_up:
            failure = self._failure(left)
        if limiter.reason:
            parts.append(f"stopped by {limiter.reason} (rerun the cell to continue)")
        elif limiter.failure and left:
            parts.append(f"the endpoint fails: {limiter.failure}")
            failure = ""
        elif self._asked and left:
            parts += self._pace(left)
            parts.insert(0, _bar(self._asked / len(self.todo)))
        return " · ".join(filter(None, [*parts, failure]))

    def _pace(self, left: int) -> Iterator[str]:
        """How fast rows end, and how long the rest will take; or that no more of them end."""
        now = time.monotonic()
        seconds = (now - self._started) / self._asked
        if seconds:
            yield _rate(1 / seconds)
        rest = max(1.0, seconds * left)
        quiet = now - self._ended_at
        if quiet > 3 * rest:
            yield f"{count(left, 'row')} left, none has finished for {clock(quiet)}"
        else:
            yield f"about {rest:,.0f} s left"

    def _failure(self, left: int) -> str:
        """Why the last row failed that did; in the end, why most of those failed."""
        if left:
            return f"last failure: {self._last_failure}" if self._last_failure else ""
        results = map(self.result, self.counted)  # in the order of the rows, not of time
        whys = Counter(
            collapse_whitespace(each.error, 200) for each in results if each.status == "failed"
        )
        [(why, times)] = whys.most_common(1)
        if len(whys) == 1:
            return f"failure: {why}"
        return f"most frequent failure ({times:,}): {why}"


_BAR = 20  # characters


def _bar(share: float) -> str:
    """A share from 0 to 1 as a bar."""
    full = int(share * _BAR)
    return "█" * full + "░" * (_BAR - full)


def _rate(rows: float) -> str:
    """Rows in a second, or in a minute if that is less than one."""
    if rows >= 1:
        return f"{rows:,.1f} rows/s"
    return f"{rows * 60:,.1f} rows/min"


def _show_nothing(*_: Any, **__: Any) -> None:
    pass


def _check_limits(workers: Any, rpm: Any) -> None:
    """Raise ValueError for an invalid number of workers or rate."""
    if type(workers) is not int or workers < 1:
        raise ValueError(f"workers is {workers!r}; expected a whole number above 0")
    is_number = isinstance(rpm, Real) and not isinstance(rpm, bool)
    if rpm is not None and not (is_number and 0 < rpm < math.inf):
        raise ValueError(f"rpm is {rpm!r}; expected a number of requests above 0, or None")


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
