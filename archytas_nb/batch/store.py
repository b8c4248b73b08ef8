"""Keeps the result of every row in a SQLite file, so that a map that was cut off goes on."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields
from operator import attrgetter
from pathlib import Path
from typing import Any

from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import Json, Usage
from archytas_nb.models.secrets import mask_secrets

_WAIT = 30.0  # seconds for another kernel that writes into the same file
_TABLE = """
CREATE TABLE IF NOT EXISTS archytas_nb_rows (
    key TEXT PRIMARY KEY, status TEXT NOT NULL, answer TEXT NOT NULL, error TEXT NOT NULL,
    usage TEXT NOT NULL, seconds REAL NOT NULL, spent TEXT NOT NULL
) WITHOUT ROWID
"""
_PUT = """
INSERT INTO archytas_nb_rows VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT(key) DO UPDATE SET
    status=excluded.status, answer=excluded.answer, error=excluded.error, usage=excluded.usage,
    seconds=excluded.seconds, spent=excluded.spent
WHERE archytas_nb_rows.status != 'done'
"""
_GET = "SELECT * FROM archytas_nb_rows WHERE key IN (SELECT value FROM json_each(?))"
_numbers = attrgetter(*(each.name for each in fields(Usage)))


@dataclass(frozen=True, slots=True)
class RowResult:
    """What became of one row.

    Attributes:
        status: ``"done"``, ``"failed"``, or ``"open"`` where it was not asked, or not to its end.
        answer: The answer as JSON; text where no type was asked for.
        error: Why it failed; empty otherwise.
        usage: What its last attempt cost.
        seconds: How long that took.
        spent: The most that all attempts can have cost, including those that were cut off.
        kind: The kind of an endpoint's failure; it is not kept.
    """

    status: str
    answer: Json = None
    error: str = ""
    usage: Usage = Usage()  # noqa: RUF009 - it is frozen
    seconds: float = 0.0
    spent: Usage = Usage()  # noqa: RUF009
    kind: str = ""


OPEN = RowResult("open")


@contextlib.contextmanager
def _naming(path: Path | None) -> Iterator[None]:
    try:
        yield
    except (OSError, sqlite3.Error, ValueError, TypeError) as error:
        raise ConfigurationError(
            f"{str(path)!r} cannot be used for the results of a map: {error}. Results that were "
            "written before are kept: make room or name another file with store=…, and run it again"
        ) from error


def stored(path: Path | None, keys: Iterable[str]) -> dict[str, RowResult]:
    """The results that a file has for these keys; it is not written to.

    Raises:
        ConfigurationError: It cannot be read as results of a map.
    """
    if path is None or not path.exists():
        return {}
    where = f"{path.absolute().as_uri()}?mode=ro"
    with (
        _naming(path),
        contextlib.closing(sqlite3.connect(where, uri=True, timeout=_WAIT)) as database,
    ):
        tables = database.execute("SELECT name FROM sqlite_master").fetchall()
        if ("archytas_nb_rows",) not in tables:  # another kernel is about to make it
            return {}
        return dict(map(_read, database.execute(_GET, (json.dumps(list(keys)),))))


class Store:
    """The file, open for writing by several threads; other kernels may write it, too.

    Args:
        path: The file; its folder is made. None keeps nothing.

    Attributes:
        is_second: Whether another kernel has the file open, or had when it was killed; of several
            kernels, every second one gets True.

    Raises:
        ConfigurationError: The file cannot be written, as on a full disk; also by `put`.
    """

    def __init__(self, path: Path | None) -> None:
        self._path, self.is_second, self._is_shared, self._version = path, False, False, 0
        self._lock, self._waiting = threading.Lock(), deque[tuple[Any, ...]]()
        self._database: sqlite3.Connection | None = None
        if path is not None:
            with _naming(path):
                path.parent.mkdir(parents=True, exist_ok=True)
                self._database = self._opened(path)

    def get(self, key: str) -> RowResult | None:
        """The result of a row, where another kernel may have written it."""
        if not self._is_shared:
            return None
        with self._lock:
            if self._database is None:
                return None
            row = self._database.execute(_GET, (json.dumps([key]),)).fetchone()
        return None if row is None else _read(row)[1]

    def put(self, *results: tuple[str, RowResult]) -> None:
        """Keep results; threads share a commit, which a killed process does not lose.

        A row that is done stays done.
        """
        for key, each in results if self._path is not None else ():
            answer = json.dumps(_hidden(each.answer)), mask_secrets(each.error)
            usage, spent = json.dumps(_numbers(each.usage)), json.dumps(_numbers(each.spent))
            self._waiting.append((key, each.status, *answer, usage, each.seconds, spent))
        with self._lock, _naming(self._path):  # who has the lock writes what all have brought
            rows = [self._waiting.popleft() for _ in range(len(self._waiting))]
            if rows and self._database is not None:  # not of a worker that nobody waits for
                with self._database:
                    self._database.executemany(_PUT, rows)
                # It changes when another connection writes.
                [version] = self._database.execute("PRAGMA data_version").fetchone()
                self._is_shared = self._is_shared or version != self._version

    def close(self) -> None:
        """Close the file; after a clean end no other file is left beside it."""
        with self._lock:
            database, self._database = self._database, None
            if database is not None:
                with contextlib.suppress(sqlite3.Error):  # another kernel has it open, and will
                    database.execute("PRAGMA busy_timeout=0")
                    database.execute("PRAGMA journal_mode=DELETE")
                    database.execute("PRAGMA user_version=0")
                database.close()

    def _opened(self, path: Path) -> sqlite3.Connection:
        database = sqlite3.connect(path, timeout=_WAIT, check_same_thread=False)
        try:
            # With a write-ahead log a commit takes microseconds, and a killed process loses none.
            with contextlib.suppress(sqlite3.OperationalError):  # another kernel switches to it
                database.execute("PRAGMA journal_mode=WAL")
            database.execute("PRAGMA synchronous=NORMAL")
            database.execute("BEGIN IMMEDIATE")
            database.execute(_TABLE)
            # How many have opened it since its only user closed it.
            [others] = database.execute("PRAGMA user_version").fetchone()
            database.execute(f"PRAGMA user_version={others + 1}")
            database.commit()
            [self._version] = database.execute("PRAGMA data_version").fetchone()
        except BaseException:
            database.close()
            raise
        self._is_shared, self.is_second = others > 0, others % 2 > 0
        return database


def _read(row: tuple[Any, ...]) -> tuple[str, RowResult]:
    key, status, answer, error, usage, seconds, spent = row
    used, all_used = Usage(*json.loads(usage)), Usage(*json.loads(spent))
    return key, RowResult(status, json.loads(answer), error, used, seconds, all_used)


def _hidden(answer: Json) -> Json:
    """An answer without what looks like a secret, as in a cassette."""
    if isinstance(answer, str):
        return mask_secrets(answer)
    if isinstance(answer, dict):
        return {name: _hidden(value) for name, value in answer.items()}
    return [_hidden(each) for each in answer] if isinstance(answer, list) else answer
