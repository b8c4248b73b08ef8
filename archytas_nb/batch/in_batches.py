"""Asks about rows through the batch API of an endpoint: later, and at a part of the price.

A row is a run like any other, and a batch answers one request of each. So a row is run again with
the replies that there are, until it ends or needs another reply, which the next batch asks for:

    open      its run needs a reply             a batch with the request was sent → sent
    sent      the file has the batch's name     the batch has ended: with a reply → open, to go on;
              and id, and what it may cost      without → open, and the request is sent again
    ended     done or failed, as in any map

A later kernel finds the batches of a row in the file, and reads the replies from the provider. They
are deleted there when all rows of a batch have ended.

A batch that is refused as a whole tells which lines are at fault; these rows fail. If it does not,
it may be too large: half as many requests are sent, and the next ones when these are answered.
"""

from __future__ import annotations

import hashlib
import time
import uuid
from collections import Counter
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, field, replace
from functools import partial
from typing import Any, TypeVar

from archytas_nb.batch.engine import CostLedger, Map, Row
from archytas_nb.batch.limiter import RowModel
from archytas_nb.batch.store import BATCHES, RowResult, is_noted
from archytas_nb.errors import (
    ENDPOINT_FAILURES,
    REFUSED_FOR_ALL,
    ConfigurationError,
    ModelError,
)
from archytas_nb.loop.events import AskModel, Delta, Json, ModelReply, Notice, Usage
from archytas_nb.loop.model import batches_of
from archytas_nb.loop.stop import sleep
from archytas_nb.models import sent
from archytas_nb.models.batches import MOST_BYTES, BatchApi, Job, Outcome, size_of
from archytas_nb.trace.map_panel import progress_html
from archytas_nb.words import clock, collapse_whitespace, count, truncate_line

T = TypeVar("T")
_TRIES = 3  # of a request that a batch did not answer
FIRST_WAIT = 0.1
"""Seconds until the next look at the batches, doubled each time."""
_LONGEST_WAIT = 60.0
_OTHERS_WAIT = 5.0  # seconds at most until the next look at rows of other kernels
_FAILED_CALLS = 60  # of the API in a row: about an hour
_CANCEL_LOOKS = 7  # at batches that were cancelled: about ten seconds
_RESERVED = "reserved"
_SENDING = "sending"


@dataclass
class _Progress:
    """The progress of a row.

    Attributes:
        row: The row, which this kernel has claimed.
        batches: The ids of the batches with its requests, in order.
        outcomes: The outcome of each request, by the id of the batch.
        reserved: The most that the requests may cost, as the file of results has it.
        holds: The amounts that the limiter has reserved for them.
        ask: The request that is to be sent next.
        expected: The most that this may cost.
        asks: The requests that were sent, by the id of the batch, if they are known.
        tries: How often a batch did not answer the request.
        sending: The name of a batch of which it is not known whether it was sent; empty if none.
        purpose: The purpose of its next request, for the list of requests that were sent.
    """

    row: Row
    batches: list[str] = field(default_factory=list)
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    reserved: Usage = Usage()  # noqa: RUF009 - it is frozen
    holds: list[Usage] = field(default_factory=list)
    ask: AskModel | None = None
    expected: Usage = Usage()  # noqa: RUF009
    asks: dict[str, AskModel] = field(default_factory=dict)
    tries: int = 0
    sending: str = ""
    purpose: sent.Purpose | None = None

    @property
    def known(self) -> list[Outcome]:
        """The outcomes of its requests, in order."""
        return [self.outcomes[each] for each in self.batches if each in self.outcomes]

    @property
    def most(self) -> Usage:
        """The most that its requests can cost, with the next one."""
        return sum([self.expected] * (1 + len(self.known)), Usage())

    @property
    def note(self) -> Json:
        """The part of it that the file keeps until it has ended."""
        reserved = list(astuple(self.reserved))
        note: dict[str, Json] = {BATCHES: list(self.batches), _RESERVED: reserved}
        return note | ({_SENDING: self.sending} if self.sending else {})

    def drop(self, id_: str) -> None:
        """Forget a batch, and those that came after its reply."""
        del self.batches[self.batches.index(id_) :]


def _name_of(key: str) -> str:
    """The name of a row's request in a batch."""
    return hashlib.sha256(key.encode()).hexdigest()


class _LaterModel(RowModel):
    """The model of a row: it has the replies that came in batches, and keeps what else is asked.

    Attributes:
        ask: The next request to send, which has no reply yet; None if there is none.
        expected: The most that it may cost.
        purpose: Its purpose, for the list of requests that were sent.
    """

    def __init__(self, model: Any, rows: Map, outcomes: Sequence[Outcome]) -> None:
        super().__init__(model, rows.limiter)
        self.ask: AskModel | None = None
        self.expected = Usage()
        self.purpose: sent.Purpose | None = None
        self._outcomes = iter(outcomes)

    def complete(self, ask: AskModel) -> Generator[Delta | Notice, None, ModelReply]:
        """The next reply that is known; without one, the run is over for now."""
        ask, expected = self.limited(ask)
        outcome = next(self._outcomes, None)
        if outcome is None:
            self.ask, self.expected = ask, expected
            self.purpose = sent.purpose.get()
            # Its cost counts when it has ended.
            self.usage = self.spent = Usage()
            raise KeyboardInterrupt
        if isinstance(outcome, ModelError):
            raise outcome
        self.spent += self.settled(outcome.usage, expected)
        return outcome
        yield  # a generator, as in any model


class _AtShare:
    """A model at the price of its batches."""

    def __init__(self, model: Any, share: float) -> None:
        self._model = model
        self._share = share

    def __getattr__(self, name: str) -> Any:
        return getattr(self._model, name)

    @property
    def price(self) -> Any:
        """The price of a request in a batch."""
        price = getattr(self._model, "price", None)
        if price is None:
            return None
        share = self._share
        return replace(
            price,
            input=price.input * share,
            cached=price.cached * share,
            output=price.output * share,
        )


class InBatches:
    """Sends the requests of a map in batches.

    Args:
        rows: The map.
        is_collecting: Whether only what earlier batches have answered is collected, and all other
            rows are asked about immediately.

    Raises:
        ConfigurationError: The map needs what a batch cannot do.
    """

    def __init__(self, rows: Map, *, is_collecting: bool = False) -> None:
        self._map = rows
        self._is_collecting = is_collecting
        if not is_collecting:
            _check(rows)
        self._progress: dict[str, _Progress] = {}
        self._has_ended: set[str] = set()  # rows, since `run` was called
        self._jobs: dict[str, Job] = {}  # that are not collected
        self._collected: dict[str, Job] = {}  # that may still be needed
        self._orders: dict[str, list[str]] = {}  # the rows of a job, in the order of its lines
        self._seen: set[str] = set()  # batches that were running when this kernel looked
        self._ends: Counter[str] = Counter()  # rows of each batch that have ended here
        self._api: BatchApi
        self._model: _LaterModel | None = None  # of the row that is run now
        self._is_later = False  # whether rows are run with the replies of batches
        self._most = 0  # requests of a batch
        self._is_split = False  # whether one batch is sent at a time
        self._has_begun = False  # whether a row was asked about immediately, to learn from it
        self._names: dict[str, Job | None] = {}  # batches by the names that they were sent with
        self._started = time.monotonic()

    # ── the map's way to send requests ────────────────────────────────────────────────────────────

    def model(self, note: CostLedger) -> RowModel | None:
        """The model of one row, with the replies that batches have for it."""
        if not self._is_later:
            return None
        given = _AtShare(self._map.setup.choice.given, self._api.share)
        known = self._progress[note.key]
        self._model = _LaterModel(given, self._map, known.known)
        return self._model

    def run(self) -> None:
        """Ask about the rows; an interrupt cancels the batches.

        Raises:
            ConfigurationError: The endpoint has no batch API.
        """
        rows = self._map
        self._has_ended.clear()
        rows.watch_others()
        try:
            has_api = self._begin_with_api()
            if not has_api:
                rows.run_now(rows.todo)
            elif self._is_collecting:
                self._collect_only()
            else:
                self._begin()
                self._ask()
        except KeyboardInterrupt:
            rows.limiter.stop("an interrupt")
            with suppress(KeyboardInterrupt, ModelError):
                self._cancel()
        except ModelError as error:
            rows.fail(error)
        finally:
            self._is_later = False

    def _begin_with_api(self) -> bool:
        """Find the API; whether there is one, which must be unless rows are only collected.

        Raises:
            ConfigurationError: There is none.
            ModelError: The endpoint fails.
        """
        model = self._map.setup.choice.given
        try:
            api = batches_of(model)
            if api is None:
                raise ConfigurationError(
                    f"the model {model.name!r} has no batch API. Leave out when='batch' "
                    "(%agent_map --when batch) to send the rows immediately"
                )
            api.check()
        except ConfigurationError:
            if not self._is_collecting:
                raise
            return False
        self._api = api
        self._most = self._most or api.most_requests
        return True

    def _collect_only(self) -> None:
        """Take what earlier batches have answered, and ask about the other rows immediately."""
        rows = self._map
        self._claim_all()
        self._look()
        running = [job.id for job in self._jobs.values() if job.state == "running"]
        if running:
            raise ConfigurationError(
                f"rows of this map wait for answers in {', '.join(map(repr, running))}: run it "
                "with when='batch' (%agent_map --when batch) to wait for them, or interrupt that "
                "to cancel"
            )
        self._jobs.clear()  # those that are being cancelled
        for known in list(self._progress.values()):
            self._run_row(known)
        self._release()
        self._is_later = False
        left = {
            key: about
            for key, about in rows.todo.items()
            if key not in self._has_ended and rows.result(key).status != "done"
        }
        if left and not rows.limiter.reason:
            rows.run_now(left)

    # ── before the first batch ────────────────────────────────────────────────────────────────────

    def _begin(self) -> None:
        """Ask about one row immediately: what it needs and costs is then known in advance."""
        rows = self._map
        new = [key for key in rows.todo if not is_noted(rows.result(key))]
        if self._has_begun or not new:
            return
        self._has_begun = True
        before = rows.paid
        first = new[0]
        rows.run_now({first: rows.todo[first]})
        self._has_ended.add(first)
        result = rows.result(first)
        if result.kind in ENDPOINT_FAILURES | REFUSED_FOR_ALL and not rows.limiter.reason:
            rows.limiter.stop(f"the endpoint: {result.error}")
        others = len(new) - 1
        if not others or rows.limiter.reason:
            return
        cost = rows.paid - before
        given = rows.setup.choice.given
        price = getattr(given, "price", None)
        if price is not None and not cost.usd:
            cost = replace(cost, usd=price.cost(cost))
        self._estimate(cost, others)

    def _estimate(self, cost: Usage, others: int) -> None:
        """Show what the other rows will cost, and ask how to go on if this is above the budget."""
        rows = self._map
        limiter = rows.limiter
        share = self._api.share
        later = replace(cost, usd=cost.usd * share)
        expected = limiter.used(later) * others
        line = f"first row: {rows.amount(cost)} → "
        line += f"{count(others, 'other row')} in batches, at {share:.0%} of the price: "
        line += f"about {rows.amount(later, others)}"
        is_above = limiter.used(rows.paid) + expected > limiter.budget
        rows.show(line + (", above the budget" if is_above else ""), final=True)
        if is_above:
            rows.ask_how_to_go_on()

    # ── batch after batch ─────────────────────────────────────────────────────────────────────────

    def _ask(self) -> None:
        """Send, wait and collect until every row has ended, or the map is stopped."""
        rows = self._map
        wait = FIRST_WAIT
        while True:
            elsewhere = self._claim_all()
            has_news = self._look()
            for known in list(self._progress.values()):
                self._run_row(known)
            has_news = self._send() or has_news
            self._forget()
            is_over = rows.limiter.reason or not (elsewhere or self._progress)
            if is_over and not self._jobs:
                return
            self._show()
            longest = _LONGEST_WAIT if self._jobs else _OTHERS_WAIT
            wait = FIRST_WAIT if has_news else min(2 * wait, longest)
            sleep(wait)

    def _claim_all(self) -> int:
        """Claim the rows; the number of those that another kernel has."""
        rows = self._map
        self._is_later = True
        elsewhere = 0
        for key, about in rows.todo.items():
            is_known = key in self._progress or key in self._has_ended
            if is_known or (self._is_collecting and not is_noted(rows.result(key))):
                continue
            claim = rows.claim(key)
            if claim.state == "elsewhere":
                elsewhere += 1
            elif claim.state == "ended":
                self._has_ended.add(key)
                rows.ended(key, claim.row)
            else:
                self._take(Row(key, about, claim.row))
        return elsewhere

    def _take(self, row: Row) -> None:
        """Go on with a row where an earlier kernel has left it."""
        known = self._progress[row.key] = _Progress(row)
        if not is_noted(row.earlier):
            return
        note: Any = row.earlier.answer
        known.row = row._replace(earlier=replace(row.earlier, answer=None))
        known.reserved = Usage(*note.get(_RESERVED, ()))
        known.holds = [known.reserved]
        self._map.limiter.adopt(known.reserved)
        known.batches = list(note[BATCHES])
        if name := note.get(_SENDING):
            job = self._sent_as(name)
            if job is not None:
                known.batches.append(job.id)
        for id_ in known.batches:
            if id_ not in self._collected:
                self._jobs.setdefault(id_, Job(id_, "running"))

    def _sent_as(self, name: str) -> Job | None:
        """The batch that a kernel was about to send when it ended."""
        if name not in self._names:
            self._names[name] = self._patiently(lambda: self._api.find(name))
        return self._names[name]

    def _run_row(self, known: _Progress) -> None:
        """Run a row with the replies that there are, until it ends or needs another one."""
        if known.ask is not None or any(each in self._jobs for each in known.batches):
            return
        result = self._map.attempt(known.row)
        asked = self._model
        if asked is not None and asked.ask is not None:
            known.ask, known.expected = asked.ask, asked.expected
            known.purpose = asked.purpose
        elif result.status == "open":
            raise KeyboardInterrupt  # it came while the row ran
        else:
            self._end(known, result)

    def _end(self, known: _Progress, result: RowResult) -> None:
        """Keep what became of a row."""
        rows = self._map
        key = known.row.key
        spent = result.spent
        result = rows.put(known.row, replace(result, spent=spent - known.reserved))
        self._free(known, spent)
        del self._progress[key]
        self._has_ended.add(key)
        self._ends.update(known.batches)
        rows.ended(key, result, None)

    def _free(self, known: _Progress, spent: Usage = Usage()) -> None:  # noqa: B008 - it is frozen
        """Give back what was reserved for a row; it has cost this."""
        for hold in known.holds:
            self._map.limiter.leave(hold, spent)
            spent = Usage()
        known.holds = []

    # ── what batches have answered ────────────────────────────────────────────────────────────────

    def _look(self) -> bool:
        """Look how far the batches are, collect those that have ended; whether any has moved."""
        has_news = False
        for id_, job in list(self._jobs.items()):
            try:
                found = self._patiently(partial(self._api.look, id_))
                if found.state == "ended":
                    self._collect(found)
            except ModelError as error:
                if error.kind != "not_found":
                    raise
                self._map.show(f"the batch {id_!r} is gone: its rows are sent again", final=True)
                del self._jobs[id_]
                for known in self._rows_of(id_):
                    known.drop(id_)
                has_news = True
                continue
            if found.state == "ended":
                has_news = True
            elif found.state == "failed":
                del self._jobs[id_]
                self._divide(found, self._rows_of(id_))
                has_news = True
            else:
                self._jobs[id_] = found
                if found.state == "running":
                    self._seen.add(id_)
                has_news = has_news or found.done != job.done
        return has_news

    def _rows_of(self, id_: str) -> list[_Progress]:
        return [each for each in self._progress.values() if id_ in each.batches]

    def _collect(self, job: Job) -> None:
        """Read the results of a batch that has ended.

        What has no reply is sent again. The first one of several replies counts.
        """
        rows = self._map
        names = {_name_of(each.row.key): each for each in self._rows_of(job.id)}
        asks = {name: self._ask_in(known, job.id) for name, known in names.items()}
        failures: dict[str, ModelError] = {}
        for name, outcome in self._patiently(lambda: list(self._api.results(job, asks))):
            known = names.get(name)
            if known is None or job.id in known.outcomes:
                continue
            if isinstance(outcome, ModelError) and outcome.passing:
                failures[name] = outcome
            else:
                known.outcomes[job.id] = outcome
        del self._jobs[job.id]
        self._collected[job.id] = job
        # It ran here, and somebody has cancelled it at the provider: they want no more requests.
        was_stopped = job.was_cancelled and job.id in self._seen and not rows.limiter.reason
        if was_stopped:
            rows.limiter.stop(f"the provider: the batch {job.id!r} was cancelled")
        for name, known in names.items():
            if job.id in known.outcomes:
                known.tries = 0
                continue
            known.tries += not job.was_cancelled
            if known.tries >= _TRIES:
                known.outcomes[job.id] = failures.get(name) or _unanswered(job)
            else:
                known.drop(job.id)

    def _ask_in(self, known: _Progress, id_: str) -> AskModel:
        """The request of a row in a batch; of another kernel's, its run tells it."""
        if id_ not in known.asks:
            before = known.batches[: known.batches.index(id_)]
            at_first = _Progress(known.row, before, known.outcomes)
            self._progress[known.row.key] = at_first
            try:
                self._map.attempt(known.row)
            finally:
                self._progress[known.row.key] = known
            asked = self._model.ask if self._model is not None else None
            known.asks[id_] = asked or AskModel(1, ())
        return known.asks[id_]

    def _divide(self, job: Job, known_rows: Sequence[_Progress]) -> None:
        """Go on after a batch was refused as a whole: without the lines at fault, or with fewer."""
        error = job.error or _unanswered(job)
        error.passing = False
        order = self._orders.get(job.id, [])
        faulty = {order[line - 1] for line in job.faulty if 0 < line <= len(order)}
        if len(known_rows) == 1:
            faulty = {known_rows[0].row.key}
        for known in known_rows:
            if known.row.key in faulty:
                known.outcomes[job.id] = error
            else:
                known.drop(job.id)
        if not faulty:
            self._most = max(1, len(known_rows) // 2)
            self._is_split = True
            why = truncate_line(str(error), 300)
            self._map.show(f"{self._most:,} rows a batch from now on: {why}", final=True)

    # ── sending ───────────────────────────────────────────────────────────────────────────────────

    def _send(self) -> bool:
        """Send the requests that rows need replies to; whether any was sent."""
        rows = self._map
        waiting = [each for each in self._progress.values() if each.ask is not None]
        if not waiting or rows.limiter.reason or (self._is_split and self._jobs):
            return False
        has_sent = False
        for group in self._groups(waiting):
            self._submit(group)
            has_sent = True
            if self._is_split:
                break
        if not has_sent and not self._jobs:
            rows.limiter.stop_at_budget()
        return has_sent

    def _groups(self, waiting: Sequence[_Progress]) -> Iterator[list[_Progress]]:
        """The rows of each batch that the budget allows."""
        group: list[_Progress] = []
        size = 0
        for known in waiting:
            more = 0 if known.ask is None else size_of(known.ask)
            if group and (len(group) >= self._most or size + more > MOST_BYTES):
                yield group
                group, size = [], 0
                if self._map.limiter.reason or (self._is_split and self._jobs):
                    return
            missing = known.most - sum(known.holds, Usage())
            if not self._map.limiter.reserve(missing):
                break
            known.holds.append(missing)
            group.append(known)
            size += more
        if group:
            yield group

    def _submit(self, group: Sequence[_Progress]) -> None:
        """Send a batch; the file has its name before, and its id after."""
        name = uuid.uuid4().hex
        asks = {_name_of(each.row.key): each.ask for each in group if each.ask is not None}
        notes: dict[str, tuple[Json, Usage]] = {}
        for known in group:
            more = known.most - known.reserved
            known.reserved = known.most
            known.sending = name
            notes[known.row.key] = known.note, more
        self._map.mark(notes)
        try:
            job = self._patiently(partial(self._sent, name, asks, _purpose_of(group)), is_paid=True)
        except ModelError as error:
            if error.may_be_paid:
                raise error.with_advice(
                    "It is not known whether the batch was accepted: look at the provider's list "
                    "of batches before you run the map again."
                ) from None
            if error.kind in REFUSED_FOR_ALL or not 400 <= (error.status or 0) < 500:
                raise
            job = Job(name, "failed", error=error)
        for known in group:
            known.sending = ""
            known.batches.append(job.id)
            if known.ask is not None:
                known.asks[job.id] = known.ask
            known.ask = None
        self._orders[job.id] = [each.row.key for each in group]
        if job.state == "failed":
            self._divide(job, group)
        else:
            self._jobs[job.id] = job
            self._map.mark({each.row.key: (each.note, Usage()) for each in group})

    def _sent(self, name: str, asks: Mapping[str, AskModel], purpose: sent.Purpose | None) -> Job:
        """Send a batch, unless an earlier attempt arrived and only its reply was lost."""
        if name in self._names:
            found = self._api.find(name)
            if found is not None:
                return found
        self._names[name] = None
        sent.purpose.set(purpose)
        try:
            return self._api.submit(name, asks)
        finally:
            sent.purpose.set(None)

    def _patiently(self, call: Callable[[], T], *, is_paid: bool = False) -> T:
        """Call the API, again after a failure that may pass; raises the `ModelError` of the last.

        With `is_paid`, a call that may have arrived is repeated only where that can be found out.
        """
        wait = FIRST_WAIT
        for left in reversed(range(_FAILED_CALLS)):
            try:
                return call()
            except ModelError as error:
                may_pass = error.passing or error.kind in ENDPOINT_FAILURES
                is_twice = is_paid and error.may_be_paid and not self._api.finds
                if not left or not may_pass or is_twice:
                    raise
                self._show(collapse_whitespace(str(error), 200))
                sleep(max(wait, error.wait or 0.0))
                wait = min(2 * wait, _LONGEST_WAIT)
        raise AssertionError

    # ── the end ───────────────────────────────────────────────────────────────────────────────────

    def _cancel(self) -> None:
        """Cancel the batches, and take what they have answered by then."""
        for known in self._progress.values():
            if known.sending and self._api.finds:
                job = self._api.find(known.sending)
                known.sending, known.ask = "", None
                if job is not None:
                    known.batches.append(job.id)
                    self._jobs[job.id] = job
        for id_ in self._jobs:
            self._map.show(f"cancelling the batch {id_!r}")
            with suppress(ModelError):
                self._api.cancel(id_)
        for look in range(_CANCEL_LOOKS):
            self._look()
            if not self._jobs:
                break
            sleep(FIRST_WAIT * 2**look)
        for known in list(self._progress.values()):
            self._run_row(known)
        self._release()
        self._forget()
        if self._jobs:
            ids = ", ".join(map(repr, self._jobs))
            self._map.show(f"the provider is still cancelling {ids}", final=True)

    def _release(self) -> None:
        """Leave rows that are no longer in a batch to others."""
        for key, known in list(self._progress.items()):
            if not (known.sending or any(each in self._jobs for each in known.batches)):
                self._map.put(known.row, RowResult("open", spent=Usage() - known.reserved))
                self._free(known)
                self._ends.update(known.batches)
                del self._progress[key]

    def _forget(self) -> None:
        """Delete what the provider has of batches of which every row has ended here."""
        for id_, job in list(self._collected.items()):
            if job.total and self._ends[id_] >= job.total:
                del self._collected[id_]
                with suppress(ModelError):
                    self._api.forget(job)

    def _show(self, failure: str = "") -> None:
        """Show how far the batches are."""
        done = sum(job.done for job in self._jobs.values())
        total = sum(len(self._rows_of(id_)) for id_ in self._jobs)
        ids = ", ".join(map(repr, self._jobs))
        parts = [f"{done:,} of {total:,} rows answered in {ids}"] if ids else []
        parts.append(f"{len(self._has_ended):,} of {len(self._map.todo):,} rows ended")
        parts.append(clock(time.monotonic() - self._started))
        if failure:
            parts.append(f"the endpoint fails: {failure}")
        else:
            parts.append("interrupt the kernel to cancel; if it ends, run the cell again")
        line = " · ".join(parts)
        self._map.show(line, page=progress_html(done / total if total else 0.0, line))


def _purpose_of(group: Sequence[_Progress]) -> sent.Purpose | None:
    """The purpose of a batch, for the list of requests that were sent."""
    purposes = [each.purpose for each in group if each.purpose is not None]
    if not purposes:
        return None

    def all_of(name: str) -> tuple[str, ...]:
        return tuple(dict.fromkeys(part for each in purposes for part in getattr(each, name)))

    return replace(
        purposes[0],
        question=f"{count(len(group), 'row')} in a batch: {purposes[0].question}, …",
        variables=all_of("variables"),
        columns=all_of("columns"),
        kinds=all_of("kinds"),
    )


def _unanswered(job: Job) -> ModelError:
    """The error of a row that a batch has no result for."""
    text = f"{_TRIES} batches, last {job.id!r}, had no answer for this row. Run the map again"
    return ModelError(text, kind="server")


def _check(rows: Map) -> None:
    """Raise ConfigurationError if a map cannot be sent in batches."""
    impure = [tool.name for tool in rows.tools if not tool.pure]
    if impure:
        raise ConfigurationError(
            f"when='batch' runs a row again with each reply, so it calls only pure tools, and "
            f"{', '.join(map(repr, impure))} may have side effects. Mark a tool as pure "
            "(@tool(pure=True)), or leave it out (Agent([…]), %tools --disable)"
        )
    if not rows.is_stored:
        raise ConfigurationError(
            "when='batch' needs a file of results, so that a later kernel finds the batch: leave "
            "out store=None"
        )
