"""Keeps the result of every row in a SQLite file, so that a map that was cut off goes on."""

from __future__ import annotations

import json
import sqlite3
import threading
from collections.abc import Iterable
from contextlib import closing
from dataclasses import asdict, dataclass, field
from pathlib import Path

from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import Json, Usage

_WAIT = 30.0  # seconds for another kernel that writes into the same file
_TABLE = """
CREATE TABLE IF NOT EXISTS rows (
    key TEXT PRIMARY KEY, status TEXT NOT NULL, answer TEXT NOT NULL, error TEXT NOT NULL,
    usage TEXT NOT NULL, seconds REAL NOT NULL, spent TEXT NOT NULL
) WITHOUT ROWID
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
        spent: What all attempts cost, failed ones included.
    """

    status: str
    answer: Json = None
    error: str = ""
    usage: Usage = field(default_factory=Usage)
    seconds: float = 0.0
    spent: Usage = field(default_factory=Usage)


class Store:
    """Results of rows by their key, in one file that several threads and kernels may share.

    Args:
        path: The file; its folder is made. None keeps the results in memory only.

    Raises:
        ConfigurationError: The file cannot be opened, or is no such file.
    """

    def __init__(self, path: Path | None) -> None:
        self.path = path
        self._lock = threading.Lock()
        where = ":memory:" if path is None else str(path)
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            # One connection for all threads, under a lock: a commit takes less than a reply.
            self._database = sqlite3.connect(where, timeout=_WAIT, check_same_thread=False)
            with self._lock, self._database as database:
                database.execute("PRAGMA journal_mode=WAL")
                database.execute(_TABLE)
        except (OSError, sqlite3.Error) as error:
            raise ConfigurationError(
                f"the results cannot be kept in {where!r}: {error}. Name another file with store=…"
            ) from error

    def get(self, keys: Iterable[str]) -> dict[str, RowResult]:
        """The results that there are for these keys."""
        wanted, found = list(keys), {}
        with self._lock:
            for first in range(0, len(wanted), _LOOKED_UP):
                part = wanted[first : first + _LOOKED_UP]
                marks = ", ".join("?" * len(part))
                query = f"SELECT * FROM rows WHERE key IN ({marks})"  # noqa: S608 - question marks
                with closing(self._database.execute(query, part)) as rows:
                    for key, status, answer, error, usage, seconds, spent in rows:
                        used, all_used = Usage(*json.loads(usage)), Usage(*json.loads(spent))
                        found[key] = RowResult(
                            status, json.loads(answer), error, used, seconds, all_used
                        )
        return found

    def put(self, key: str, result: RowResult) -> None:
        """Keep a result; it is on the disk when this returns.

        A row that is done stays done, whoever else asked for it meanwhile.

        Raises:
            ConfigurationError: It cannot be written, as on a full disk.
        """
        values = (
            key, result.status, json.dumps(result.answer), result.error,
            _written(result.usage), result.seconds, _written(result.spent),
        )  # fmt: skip
        try:
            with self._lock, self._database as database:
                database.execute(
                    "INSERT INTO rows VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT(key) DO UPDATE SET "
                    "status=excluded.status, answer=excluded.answer, error=excluded.error, "
                    "usage=excluded.usage, seconds=excluded.seconds, spent=excluded.spent "
                    "WHERE rows.status != 'done'",
                    values,
                )
        except sqlite3.Error as error:
            raise ConfigurationError(
                f"a result could not be written to {str(self.path)!r}: {error}. What was written "
                "before is kept: make room, and run the cell again to go on"
            ) from error

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._database.close()


def _written(usage: Usage) -> str:
    return json.dumps(list(asdict(usage).values()))
