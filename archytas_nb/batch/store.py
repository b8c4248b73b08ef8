"""Keeps the result of every row in a SQLite file, so that a map that was cut off goes on."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import threading
import time
from collections.abc import Iterable
from dataclasses import astuple, dataclass, field
from pathlib import Path
from typing import Any

from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import Json, Usage
from archytas_nb.models.secrets import without_shapes

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
_LOOKED_UP = 500  # keys in one query


@dataclass(frozen=True, slots=True)
class RowResult:
    """What became of one row.

    Attributes:
        status: ``"done"``, ``"failed"``, or ``"open"`` where it was not asked, or not to its end.
        answer: The answer as JSON; text where no type was asked for.
        error: Why it failed; empty otherwise.
        usage: What its last attempt cost.
        seconds: How long that took.
        spent: The most that all attempts can have cost, broken ones included.
        kind: The kind of an endpoint's failure; it is not kept.
    """

    status: str
    answer: Json = None
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    spent: Usage = field(default_factory=Usage)
    kind: str = ""


class Store:
    """Results of rows by their key, in one file that several threads and kernels may share.

    The file is opened for writing only when something is written; after a clean end there is no
    other file beside it.

    Args:
        path: The file; its folder is made. None keeps the results in memory only.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._database: sqlite3.Connection | None = None
        self._closed = False

    def get(self, keys: Iterable[str]) -> dict[str, RowResult]:
        """The results that there are for these keys.

        Raises:
            ConfigurationError: The file cannot be read, or is none of ours.
        """
        with self._lock:
            if self._database is not None:
                return _found(self._database, list(keys))
            if self.path is None or not self.path.exists():
                return {}
            try:
                where = f"{self.path.absolute().as_uri()}?mode=ro"
                with contextlib.closing(sqlite3.connect(where, uri=True, timeout=_WAIT)) as opened:
                    return _found(opened, list(keys))
            except (OSError, sqlite3.Error, ValueError, TypeError) as error:
                raise ConfigurationError(
                    f"{str(self.path)!r} cannot be read as results of a map: {error}. Name another "
                    "file with store=…"
                ) from error

    def put(self, *results: tuple[str, RowResult]) -> None:
        """Keep results by their keys; they survive the end of this process when it returns.

        A row that is done stays done, whoever else asked about it meanwhile.

        Raises:
            ConfigurationError: They cannot be written, as on a full disk.
        """
        values = [
            (
                *(key, each.status, json.dumps(_hidden(each.answer)), without_shapes(each.error)),
                *(json.dumps(astuple(each.usage)), each.seconds, json.dumps(astuple(each.spent))),
            )
            for key, each in results
        ]
        try:
            with self._lock:
                if self._closed:  # a worker that was not waited for any more
                    return
                if self._database is None:
                    self._open()
                if self._database is not None:
                    with self._database:
                        self._database.executemany(_PUT, values)
        except (OSError, sqlite3.Error) as error:
            raise self._unwritable(error) from error

    def open(self) -> bool:
        """Open the file for writing; every second process that has it open, or crashed, gets True.

        Raises:
            ConfigurationError: It cannot be written.
        """
        try:
            with self._lock:
                return self._open()
        except (OSError, sqlite3.Error) as error:
            raise self._unwritable(error) from error

    def _unwritable(self, error: Exception) -> ConfigurationError:
        return ConfigurationError(
            f"results cannot be written to {str(self.path)!r}: {error}. What was written before is "
            "kept: make room or name another file with store=…, and run it again"
        )

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._closed = True
            if self._database is None:
                return
            with contextlib.suppress(sqlite3.Error):  # another kernel has it open, and will do it
                self._database.execute("PRAGMA busy_timeout=0")
                self._database.execute("PRAGMA journal_mode=DELETE")
                self._database.execute("PRAGMA user_version=0")
            self._database.close()

    def _open(self) -> bool:
        if self.path is not None:
            self.path.parent.mkdir(parents=True, exist_ok=True)
        # One connection for all threads, under a lock: a commit takes less time than a reply.
        database = sqlite3.connect(self.path or ":memory:", timeout=_WAIT, check_same_thread=False)
        try:
            _use_log(database)
            database.execute("PRAGMA synchronous=NORMAL")
            database.execute("BEGIN IMMEDIATE")
            database.execute(_TABLE)
            # How many have opened it since it was last closed by its only user.
            [others] = database.execute("PRAGMA user_version").fetchone()
            database.execute(f"PRAGMA user_version={others + 1}")
            database.commit()
        except BaseException:
            database.close()
            raise
        self._database = database
        return bool(others % 2)


def _use_log(database: sqlite3.Connection) -> None:
    """Use a write-ahead log: a commit costs microseconds, and a killed process loses none."""
    ends = time.monotonic() + _WAIT
    while True:
        try:
            database.execute("PRAGMA journal_mode=WAL")
            return
        except sqlite3.OperationalError as error:  # SQLite itself does not wait for this
            if "locked" not in str(error) or time.monotonic() > ends:
                raise
        time.sleep(0.02)


def _found(database: sqlite3.Connection, keys: list[str]) -> dict[str, RowResult]:
    found: dict[str, RowResult] = {}
    tables = [name for (name,) in database.execute("SELECT name FROM sqlite_master")]
    if "archytas_nb_rows" not in tables:  # another process is making the file
        return found
    for first in range(0, len(keys), _LOOKED_UP):
        part = keys[first : first + _LOOKED_UP]
        marks = ", ".join("?" * len(part))
        query = f"SELECT * FROM archytas_nb_rows WHERE key IN ({marks})"  # noqa: S608 - question marks
        for key, status, answer, error, usage, seconds, spent in database.execute(query, part):
            used, all_used = Usage(*json.loads(usage)), Usage(*json.loads(spent))
            found[key] = RowResult(status, json.loads(answer), error, used, seconds, all_used)
    return found


def _hidden(answer: Any) -> Json:
    """An answer without what looks like a secret, as in a cassette."""
    if isinstance(answer, str):
        return without_shapes(answer)
    if isinstance(answer, dict):
        return {name: _hidden(value) for name, value in answer.items()}
    return [_hidden(each) for each in answer] if isinstance(answer, list) else answer
