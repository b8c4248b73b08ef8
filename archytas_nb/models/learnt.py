"""The file of what endpoints refused, so that the next process does not ask for it again.

Each entry is about one feature of requests to one model at one endpoint, with its date. It is used
for a week, and then the feature is tried again; for a server on this machine, which is often
restarted with other options, for an hour.
"""

from __future__ import annotations

import contextlib
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

from archytas_nb.errors import FileError
from archytas_nb.files import OutputFile
from archytas_nb.models.providers import is_local

_KEPT = 7 * 86400.0
_KEPT_HERE = 3600.0
"""Seconds for which an entry is used; the second for an endpoint on this machine."""
_MOST = 1000
"""Maximum number of entries; the oldest are dropped."""
_LOCK_SECONDS = 2.0


class Learnt(NamedTuple):
    """One feature that an endpoint refused."""

    base_url: str
    model: str
    api: str
    feature: str
    part: str  # of the feature, such as a field or a tool with a digest of its specification
    told: str  # for a person
    changes: dict[str, Any]  # of the form of requests, by attribute
    date: float  # seconds since 1970

    @property
    def key(self) -> tuple[str, ...]:
        """Its subject."""
        return (self.base_url, self.model, self.api, self.feature, self.part)

    @property
    def is_valid(self) -> bool:
        """Whether it is still used."""
        kept = _KEPT_HERE if is_local(self.base_url) else _KEPT
        return 0 <= time.time() - self.date < kept


def state_dir() -> Path:
    """The directory of what later kernels read; all that it holds is of this package."""
    import platformdirs

    return Path(platformdirs.user_state_dir("archytas-nb", appauthor=False))


def file() -> Path:
    """The file in which it is kept."""
    return state_dir() / "endpoints.json"


def entries(base_url: str | None = None) -> list[Learnt]:
    """The entries about an endpoint that are still used; none if the file cannot be read."""
    try:
        data = json.loads(file().read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return []
    found = []
    data = [each for each in data if isinstance(each, dict)] if isinstance(data, list) else []
    for each in data:
        if base_url is not None and base_url != each.get("base_url"):
            continue
        with contextlib.suppress(TypeError):
            entry = Learnt(**each)
            texts = (*entry.key, entry.told)
            is_whole = all(isinstance(text, str) for text in texts)
            is_dated = isinstance(entry.date, (int, float)) and isinstance(entry.changes, dict)
            if is_whole and is_dated and entry.is_valid:
                found.append(entry)
    return found


def remember(added: Sequence[Learnt], dropped: Sequence[tuple[str, ...]] = ()) -> None:
    """Add entries, and drop those with these keys; where it cannot be written, nothing is kept."""
    from filelock import FileLock, Timeout

    written = OutputFile(file(), "the list of what endpoints refused", is_private=True)
    with contextlib.suppress(FileError, OSError, Timeout):
        written.made()
        with FileLock(written.path.with_suffix(".lock"), timeout=_LOCK_SECONDS):
            keys = {*dropped, *(each.key for each in added)}
            kept = [each for each in entries() if each.key not in keys]
            found = [each._asdict() for each in [*kept, *added][-_MOST:]]
            written.write(json.dumps(found))


def forget() -> int:
    """Forget everything; the number of entries that were used until now."""
    count = len(entries())
    for path in (file(), file().with_suffix(".lock")):
        with contextlib.suppress(OSError):
            path.unlink()
    return count
