"""Claims on attempts: whoever takes one first has it, in whatever process.

    the claim is            the attempt
    free                    was sent, and may begin
    taken by a process      has begun there; no other process begins it, however often it is sent
    taken by the map        was given up; no process begins it now
    gone with its folder    cannot be claimed: the map has ended, or this is another machine

A claim is a directory, because making one is a single step on every file system.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path

_PREFIX = "archytas-nb-claims-"
_OLD = 24 * 3600.0  # seconds without a claim after which the map was killed


class Claims:
    """The claims of one map, in a folder that only this user may use.

    Raises:
        OSError: There is no room for temporary files.
    """

    def __init__(self) -> None:
        parent = Path(tempfile.gettempdir())
        with suppress(OSError):
            for each in parent.glob(f"{_PREFIX}*"):
                with suppress(OSError):
                    if time.time() - each.stat().st_mtime > _OLD:
                        shutil.rmtree(each, ignore_errors=True)
        self.folder = tempfile.mkdtemp(prefix=_PREFIX)

    def take(self, token: str) -> bool:
        """Whether nobody had the claim, so that the attempt has not begun and never will."""
        return take(self.folder, token) is not False

    def close(self) -> None:
        """Let no further attempt begin."""
        closed = f"{self.folder}-closed"
        # In one step: while a folder is emptied, claims that were taken look free.
        with suppress(OSError):
            Path(self.folder).rename(closed)
        shutil.rmtree(closed, ignore_errors=True)


def take(folder: str, token: str) -> bool | None:
    """Take a claim; False if somebody else has it, None if it cannot be taken here."""
    try:
        Path(folder, token).mkdir(0o700)
    except FileExistsError:
        return False
    except OSError:
        return None
    return True
