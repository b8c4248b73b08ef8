"""Keeps the result of every row in a SQLite file, which several kernels may use at the same time.

The states of a row, how the file holds them, and what changes them:

    state        in the file                    what changes it
    ───────────  ─────────────────────────────  ────────────────────────────────────────────────────
    open         no line, or status "open"      `claim` → in progress
    failed       status "failed"                `claim` → in progress, unless it failed during this
                                                map, in another kernel
    in progress  its owner is in the table      `put` by the owner → done, failed, unknown, or open
                 of owners                      after an interrupt;
                                                the owner closes the file or is gone → as before it,
                                                or unknown after `begin`
    unknown      status "unknown"               `claim` → in progress, if the person wants that
    done         status "done"                  nothing

`begin` notes that something begins for a row that may not run twice, such as a tool with side
effects in another process: until its end is known, the row is unknown to whoever comes later.

An owner is a `Store` that is open. It is gone if its process has ended, which others on the same
machine see from a lock that the process held; or if it has not changed its sign of life in the file
for `LEASE` seconds, as on another machine, or in a kernel that is suspended. Every kernel measures
these seconds with its own clock, so the clocks need not agree. An owner that was taken for gone
and continues is in the table again with its next claim or sign of life, keeps the rows that nobody
has claimed since, and adds to the others what it has paid.
"""

from __future__ import annotations

import contextlib
import json
import sqlite3
import tempfile
import threading
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from operator import attrgetter
from pathlib import Path
from typing import Any, Literal

from filelock import FileLock, Timeout

from archytas_nb.cassettes.match import scrub
from archytas_nb.errors import (
    ENDPOINT_FAILURES,
    EXECUTOR_FAILURE,
    REFUSED_FOR_ALL,
    ConfigurationError,
)
from archytas_nb.exact import exact_float, exact_json
from archytas_nb.files import OutputFile
from archytas_nb.loop import stop
from archytas_nb.loop.events import Json, Usage

LEASE = 30.0
"""Seconds after which an owner that shows no sign of life is gone."""
_BEAT = 5.0  # seconds between two signs of life
_LOOK = 0.1  # seconds between two looks for an interrupt
_WAIT = 30.0  # seconds for another kernel that writes into the same file

_TABLES = (
    """
    CREATE TABLE IF NOT EXISTS archytas_nb_rows (
        key TEXT PRIMARY KEY, status TEXT NOT NULL, answer TEXT NOT NULL, error TEXT NOT NULL,
        usage TEXT NOT NULL, seconds REAL NOT NULL, spent TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    """
    CREATE TABLE IF NOT EXISTS archytas_nb_owners (
        owner TEXT PRIMARY KEY, beat INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
)
_LATER_COLUMNS = {
    "kind": "ALTER TABLE archytas_nb_rows ADD COLUMN kind TEXT NOT NULL DEFAULT ''",
    "failure": "ALTER TABLE archytas_nb_rows ADD COLUMN failure TEXT NOT NULL DEFAULT 'null'",
    "owner": "ALTER TABLE archytas_nb_rows ADD COLUMN owner TEXT NOT NULL DEFAULT ''",
    "odds": "ALTER TABLE archytas_nb_rows ADD COLUMN odds TEXT NOT NULL DEFAULT '{}'",
    # The number of the write, so that each kernel finds what the others have written.
    "changed": "ALTER TABLE archytas_nb_rows ADD COLUMN changed INTEGER NOT NULL DEFAULT 0",
}
"""Columns that the table lacks in a file of an earlier version, and what adds them."""
_INDEX = "CREATE INDEX IF NOT EXISTS archytas_nb_changes ON archytas_nb_rows (changed)"
_CHANGES = "SELECT key, spent, changed FROM archytas_nb_rows WHERE changed > ? ORDER BY changed"
_GET = "SELECT * FROM archytas_nb_rows WHERE key IN (SELECT value FROM json_each(?))"
_PUT = """
INSERT INTO archytas_nb_rows
    (key, status, answer, error, usage, seconds, spent, kind, failure, odds, owner, changed)
VALUES (
    ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, (SELECT coalesce(max(changed), 0) + 1 FROM archytas_nb_rows)
)
ON CONFLICT(key) DO UPDATE SET
    status=excluded.status, answer=excluded.answer, error=excluded.error, usage=excluded.usage,
    seconds=excluded.seconds, spent=excluded.spent, kind=excluded.kind,
    failure=excluded.failure, odds=excluded.odds, owner=excluded.owner, changed=excluded.changed
"""
_SIGN_OF_LIFE = """
INSERT INTO archytas_nb_owners VALUES (?, ?) ON CONFLICT(owner) DO UPDATE SET beat = excluded.beat
"""
_REGISTER = "INSERT OR IGNORE INTO archytas_nb_owners VALUES (?, ?)"
_LEAVE = "DELETE FROM archytas_nb_owners WHERE owner = ?"


@dataclass(frozen=True, slots=True)
class RowFailure:
    """Why the program of a map has no answer for a row.

    Attributes:
        kind: ``"raised"``, ``"bound"`` if it reached a bound of the sandbox, ``"gave_up"``,
            ``"wrong_type"`` if its answer is not of the type, or ``"lost"`` for what else is.
        text: The failure, in words that may quote values.
        line: The line of the program; 0 if it is not known.
        source: The line itself, shortened.
        raised: The class of the builtin exception that the line raised; None if it raised none.
    """

    kind: Literal["raised", "bound", "gave_up", "wrong_type", "lost"]
    text: str
    line: int = 0
    source: str = ""
    raised: str | None = None

    @property
    def in_words(self) -> str:
        """The failure for a person, or for a model that may see values."""
        if self.kind == "gave_up":
            return f"the program gave up: {self.text}"
        return f"{self._where}{self.text}"

    @property
    def without_values(self) -> str:
        """The text for a model that sees no values: the line, and the kind."""
        if self.kind == "gave_up":
            return "the program gave up (why is not shown to you)"
        if self.kind == "bound" and self.line:
            return self.in_words
        if self.kind == "raised" and self.line:
            return f"{self._where}{self.raised or 'an error'} (the message is not shown to you)"
        return "its answer is not right, or there is none (more is not shown to you)"

    def scrubbed(self) -> RowFailure:
        """The failure without secrets, as in a cassette."""
        return replace(self, text=scrub(self.text), source=scrub(self.source))

    @property
    def _where(self) -> str:
        return f"line {self.line} `{self.source}`: " if self.line else ""


@dataclass(frozen=True, slots=True)
class RowResult:
    """The result of one row.

    Attributes:
        status: ``"done"``, ``"failed"``, ``"open"`` where it was not asked, or not to its end, or
            ``"unknown"`` where a tool that may not run twice may have run.
        answer: The answer as JSON; text where no type was asked for.
        error: Why it failed or is unknown; empty otherwise.
        usage: The reported cost of all its attempts.
        seconds: How long the last one took.
        spent: The most that all attempts can have cost, including those that were cut off.
        kind: The kind of the endpoint's or the executor's failure; empty if it failed for another
            reason.
        failure: Why the program of a map failed; None if it did not, or nobody knows.
        is_repeated: Whether it is the result of an earlier row; it has no costs of its own then.
        odds: How probable each option of the answer was, by its fields; see `loop/odds.py`.
    """

    status: str
    answer: Json = None
    error: str = ""
    usage: Usage = Usage()  # noqa: RUF009 - it is frozen
    seconds: float = 0.0
    spent: Usage = Usage()  # noqa: RUF009
    kind: str = ""
    failure: RowFailure | None = None
    is_repeated: bool = False
    odds: Mapping[str, Mapping[str, float]] = field(default_factory=dict, compare=False)

    @property
    def ended_by_model(self) -> bool:
        """Whether the model was asked, and the row failed by what it replied, if it failed."""
        not_asked = ENDPOINT_FAILURES | REFUSED_FOR_ALL | {EXECUTOR_FAILURE}
        return self.status in ("done", "failed") and self.kind not in not_asked

    def repeated(self) -> RowResult:
        """The result of an equal row."""
        return replace(self, usage=Usage(), spent=Usage(), seconds=0.0, is_repeated=True)


OPEN = RowResult("open")

BATCHES = "batches"
"""In the note of a row that is sent with others: the ids of the batches with its requests."""


def is_noted(result: RowResult) -> bool:
    """Whether a row is in a batch, or has been."""
    return result.status == "open" and isinstance(result.answer, dict) and BATCHES in result.answer


@dataclass(frozen=True, slots=True)
class Claim:
    """The answer to a request for a row.

    Attributes:
        state: ``"mine"``: the row is to be asked about; ``"elsewhere"``: it is in progress,
            as a rule in another kernel; ``"ended"``: there is a result.
        row: The stored row.
    """

    state: Literal["mine", "elsewhere", "ended"]
    row: RowResult


def stored(path: Path | None, keys: Iterable[str]) -> dict[str, RowResult]:
    """The results that a file has for these keys; it is not written to.

    Raises:
        ConfigurationError: It cannot be read as results of a map, or is reached through a link of
            another user.
    """
    if path is None:
        return {}
    target = _file(path).target()
    if not target.exists():
        return {}
    where = f"{target.as_uri()}?mode=ro"
    with (
        _naming(path),
        contextlib.closing(
            sqlite3.connect(where, uri=True, timeout=_LOOK, factory=_Patient)
        ) as database,
    ):
        if not _columns(database):
            # Another kernel is about to make the table.
            return {}
        found = _rows(database, keys)
    return {key: row for key, (row, _) in found.items()}


class Store:
    """The file, open for writing by several threads; other kernels may write it, too.

    Args:
        path: The file; its folder is made. None keeps nothing.

    Raises:
        ConfigurationError: The file cannot be written, as on a full disk; also by its methods.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._owner = uuid.uuid4().hex
        self._process: FileLock | None = None
        self._beats: dict[str, tuple[int, float]] = {}  # of others, and since when
        self._closed = threading.Event()
        self._known: dict[str, Usage] = {}  # what the rows of the map have cost
        self._seen = 0  # the last write of which this is known
        self._spent_elsewhere = Usage()
        if path is not None:
            target = _file(path).made()
            with _naming(path):
                self._database = _opened(target)
            try:
                self._process = _held_lock(self._owner)
                self._register()
            except BaseException:
                self.close()
                raise
            threading.Thread(target=self._show_life, daemon=True).start()

    def claim(self, key: str, known: RowResult = OPEN) -> Claim:
        """Ask for a row, of which this is known from before the map."""
        with self._transaction() as database:
            if self._path is None:
                return Claim("mine", known)
            if database is None:
                return Claim("elsewhere", known)
            row, owner = self._get(database, key)
            if row.status == "done":
                return Claim("ended", row)
            if owner and self._is_at_work(database, owner):
                return Claim("elsewhere", row)
            has_changed = replace(row, spent=known.spent) != known  # `note` is not a result
            if row.status in ("failed", "unknown") and has_changed:
                return Claim("ended", row)
            database.execute(_REGISTER, (self._owner, time.time_ns()))
            self._write(database, key, row, self._owner)
            return Claim("mine", row)

    def note(self, key: str, spent: Usage) -> None:
        """Add to what a row in progress may have cost, so that it is known after a crash, too."""
        with self._transaction() as database:
            if database is not None:
                row, owner = self._get(database, key)
                self._write(database, key, replace(row, spent=row.spent + spent), owner)

    def mark(self, keys: Mapping[str, tuple[Json, Usage]]) -> None:
        """Note what is under way for rows in progress, and add its possible cost, in one step.

        Whoever claims such a row later finds the note as the answer of a row that is open.
        """
        with self._transaction() as database:
            if database is not None:
                for key, (note, spent) in keys.items():
                    row, owner = self._get(database, key)
                    noted = replace(row, status="open", answer=note, spent=row.spent + spent)
                    self._write(database, key, noted, owner)

    def begin(self, key: str, error: str) -> None:
        """Note that something begins for a row in progress that may not run twice."""
        with self._transaction() as database:
            if database is not None:
                row, owner = self._get(database, key)
                self._write(database, key, replace(row, status="unknown", error=error), owner)

    def watch(self, known: dict[str, Usage]) -> None:
        """Count from now on what others spend for these rows, which have cost this much."""
        self._known = known

    def spent_elsewhere(self) -> Usage:
        """The amounts that other kernels have spent and reserved for the watched rows."""
        with self._lock, _naming(self._path):
            if self._database is not None:
                for key, spent, changed in self._database.execute(_CHANGES, (self._seen,)):
                    self._count(key, Usage(*json.loads(spent)))
                    self._seen = changed
            return self._spent_elsewhere

    def put(self, key: str, attempt: RowResult, earlier: RowResult = OPEN) -> RowResult:
        """Keep how an attempt has ended; a row that is done stays done.

        Args:
            key: The row.
            attempt: How it has ended.
            earlier: The row before it. One that the executor failed to run is that again, apart
                from its costs.

        Returns:
            The row, with the costs of all attempts. In the file, secrets are masked.
        """
        with self._transaction() as database:
            if database is None:
                # Nothing is kept, or nobody waits for this worker now.
                return attempt
            before, owner = self._get(database, key)
            usage = before.usage + attempt.usage
            spent = before.spent + attempt.spent
            ended = attempt
            if before.status == "done":
                ended = before
            row = replace(ended, usage=usage, spent=spent)
            failure = row.failure and row.failure.scrubbed()
            kept = replace(row, answer=_hidden(row.answer), error=scrub(row.error), failure=failure)
            if row.kind == EXECUTOR_FAILURE:
                kept = replace(earlier, usage=usage, spent=spent)
            if owner == self._owner:
                owner = ""  # where another kernel has taken the row over, it goes on
            self._write(database, key, kept, owner)
            return row

    def put_open(self, keys: Iterable[str]) -> None:
        """Keep that these rows belong to a map, where nothing else is known of them."""
        with self._transaction() as database:
            if database is not None:
                keys = list(keys)
                known = _rows(database, keys)
                for key in keys:
                    if key not in known:
                        self._write(database, key, OPEN, "")

    def close(self) -> None:
        """Close the file; after a clean end no other file is left next to it."""
        self._closed.set()
        with self._lock:
            database = self._database
            self._database = None
            if database is not None:
                with contextlib.suppress(sqlite3.Error):
                    # Then the others see that it is gone.
                    database.execute(_LEAVE, (self._owner,))
                with contextlib.suppress(sqlite3.Error):
                    # Another kernel has it open, and will.
                    database.execute("PRAGMA busy_timeout=0")
                    sqlite3.Connection.execute(database, "PRAGMA journal_mode=DELETE")
                database.close()
        if self._process is not None:
            self._process.release()
            with contextlib.suppress(OSError):
                _lock_path(self._owner).unlink(missing_ok=True)

    # ── rows ──────────────────────────────────────────────────────────────────────────────────────

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection | None]:
        """The file, which nobody else writes in the block; None where there is none to write."""
        with self._lock, _naming(self._path):
            database = self._database
            if database is None:
                yield None
                return
            if database.in_transaction:
                # An interrupt may come between any two instructions, so also in what undoes one.
                database.execute("ROLLBACK")
            try:
                database.execute("BEGIN IMMEDIATE")
                yield database
                database.execute("COMMIT")
            except BaseException:
                if database.in_transaction:
                    database.execute("ROLLBACK")
                raise

    def _get(self, database: sqlite3.Connection, key: str) -> tuple[RowResult, str]:
        """A row and its owner, which may be gone."""
        row, owner = _rows(database, [key]).get(key, (OPEN, ""))
        self._count(key, row.spent)
        return row, owner

    def _count(self, key: str, spent: Usage) -> None:
        """Take in what a row has cost by now: what is new of it, others have spent."""
        if key in self._known:
            self._spent_elsewhere += spent - self._known[key]
            self._known[key] = spent

    def _write(self, database: sqlite3.Connection, key: str, row: RowResult, owner: str) -> None:
        if key in self._known:
            self._known[key] = row.spent
        answer = exact_json(row.answer)
        usage = _numbers(row.usage)
        spent = _numbers(row.spent)
        values = key, row.status, answer, row.error, usage, row.seconds, spent, row.kind
        failure = json.dumps(None if row.failure is None else asdict(row.failure))
        odds = json.dumps({name: dict(each) for name, each in row.odds.items()})
        database.execute(_PUT, (*values, failure, odds, owner))

    # ── owners ────────────────────────────────────────────────────────────────────────────────────

    def _register(self) -> None:
        with self._transaction() as database:
            if database is not None:
                database.execute(_REGISTER, (self._owner, time.time_ns()))
                for (owner,) in database.execute("SELECT owner FROM archytas_nb_owners").fetchall():
                    self._is_at_work(database, owner)

    def _show_life(self) -> None:
        """Change the sign of life until the file is closed, in a thread of its own."""
        while not self._closed.wait(_BEAT):
            # On a full disk the workers fail, too, and say so.
            with contextlib.suppress(ConfigurationError), self._transaction() as database:
                if database is not None:
                    # Only that it changes matters, not what the clock says.
                    database.execute(_SIGN_OF_LIFE, (self._owner, time.time_ns()))

    def _is_at_work(self, database: sqlite3.Connection, owner: str) -> bool:
        """Whether an owner is not gone; one that is gone leaves the table."""
        if owner == self._owner:
            return True
        select = "SELECT beat FROM archytas_nb_owners WHERE owner = ?"
        found = database.execute(select, (owner,)).fetchone()
        if found is None:
            return False
        beat, since = self._beats.get(owner, (None, 0.0))
        now = time.monotonic()
        if beat != found[0]:
            self._beats[owner] = found[0], now
            since = now
        if now - since <= LEASE and not _has_ended(owner):
            return True
        database.execute(_LEAVE, (owner,))
        return False


def _file(path: Path) -> OutputFile:
    instead = "Make room or name another file with store=…, and run it again"
    return OutputFile(path, "the file of results", instead)


class _Patient(sqlite3.Connection):
    """Waits for a file that another program writes, between looks that an interrupt ends.

    SQLite's own wait is one call in C, which no interrupt reaches.
    """

    def execute(self, *args: Any) -> sqlite3.Cursor:
        """Execute a statement; SQLite's error if the file is locked for too long."""
        ends = time.monotonic() + _WAIT
        while True:
            try:
                return super().execute(*args)
            except sqlite3.OperationalError as error:
                is_locked = error.sqlite_errorcode & 0xFF == sqlite3.SQLITE_BUSY
                if not is_locked or time.monotonic() > ends:
                    raise
            try:
                stop.sleep(_LOOK)
            except KeyboardInterrupt:
                raise KeyboardInterrupt(
                    "interrupted while another program was writing the file of results"
                ) from None


def _opened(path: Path) -> sqlite3.Connection:
    # Transactions are begun and ended explicitly.
    database = sqlite3.connect(
        path, timeout=_LOOK, check_same_thread=False, isolation_level=None, factory=_Patient
    )
    try:
        # With a write-ahead log a commit takes microseconds, and a killed process loses none.
        with contextlib.suppress(sqlite3.OperationalError):
            # Another kernel switches to it.
            database.execute("PRAGMA journal_mode=WAL")
        database.execute("PRAGMA synchronous=NORMAL")
        database.execute("BEGIN IMMEDIATE")
        for table in _TABLES:
            database.execute(table)
        known = _columns(database)
        for name, definition in _LATER_COLUMNS.items():
            if name not in known:
                database.execute(definition)
        database.execute(_INDEX)
        database.execute("COMMIT")
    except BaseException:
        database.close()
        raise
    return database


def _columns(database: sqlite3.Connection) -> set[str]:
    """The columns of the table of rows; none where there is no such table."""
    return {column[1] for column in database.execute("PRAGMA table_info(archytas_nb_rows)")}


@contextlib.contextmanager
def _naming(path: Path | None) -> Iterator[None]:
    try:
        yield
    except (OSError, RuntimeError, sqlite3.Error, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"{str(path)!r} cannot be used for the results of a map: {error}. Results that were "
            "written before are kept: make room or name another file with store=…, and run it again"
        ) from error


# ── the lock of a process ─────────────────────────────────────────────────────────────────────────


def _lock_path(owner: str) -> Path:
    return Path(tempfile.gettempdir()) / f"archytas_nb-map-{owner}.lock"


def _held_lock(owner: str) -> FileLock | None:
    """The lock of an owner, which the system releases when the process ends, however it does.

    None where there are no such locks: the other kernels then wait for its sign of life.
    """
    lock = FileLock(_lock_path(owner), timeout=0, thread_local=False)
    try:
        lock.acquire()
    except (OSError, NotImplementedError):
        return None
    return lock


def _has_ended(owner: str) -> bool:
    """Whether the process of an owner has certainly ended."""
    path = _lock_path(owner)
    if not owner.isalnum() or not path.exists():
        # The file may be on another machine, or its system has no such locks.
        return False
    lock = FileLock(path, timeout=0, thread_local=False)
    try:
        lock.acquire()
    except (Timeout, OSError, NotImplementedError):
        return False
    lock.release()
    with contextlib.suppress(OSError):
        path.unlink(missing_ok=True)
    return True


# ── rows as they are kept ─────────────────────────────────────────────────────────────────────────


_NUMBERS = attrgetter(*(each.name for each in fields(Usage)))


def _numbers(usage: Usage) -> str:
    """A usage as the file has it."""
    return json.dumps(_NUMBERS(usage))


def _rows(database: sqlite3.Connection, keys: Iterable[str]) -> dict[str, tuple[RowResult, str]]:
    """The rows that there are with these keys, and their owners, which may be gone."""
    cursor = database.execute(_GET, (json.dumps(list(keys)),))
    names = [column[0] for column in cursor.description]
    found = {}
    for values in cursor:
        row = dict(zip(names, values, strict=True))
        result = RowResult(
            status=row["status"],
            answer=json.loads(row["answer"], parse_float=exact_float),
            error=row["error"],
            usage=Usage(*json.loads(row["usage"])),
            seconds=row["seconds"],
            spent=Usage(*json.loads(row["spent"])),
            kind=row.get("kind", ""),
            failure=_failure(json.loads(row.get("failure", "null"))),
            odds=json.loads(row.get("odds", "{}")),
        )
        found[row["key"]] = result, row.get("owner", "")
    return found


def _failure(kept: Json) -> RowFailure | None:
    """A failure as the file has it."""
    return None if kept is None else RowFailure(**kept)


def _hidden(answer: Json) -> Json:
    """An answer without secrets, as in a cassette."""
    if isinstance(answer, str):
        return scrub(answer)
    if isinstance(answer, dict):
        return {scrub(name): _hidden(value) for name, value in answer.items()}
    if isinstance(answer, list):
        return [_hidden(each) for each in answer]
    return answer
