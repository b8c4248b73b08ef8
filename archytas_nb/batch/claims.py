"""Claims on attempts: whoever takes one first has it, in whatever process.

    the claim is            the attempt
    free                    was sent, and may begin
    taken by a process      has begun there; no other process begins it, however often it is sent
    taken by the map        was given up; no process begins it now
    gone with its folder    cannot be claimed: the map has ended, or this is another machine

A claim is a directory, because making one is a single step on every file system.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from archytas_nb.files import TemporaryFolder


class Claims:
    """The claims of one map, in a folder that only this user may use.

    Raises:
        OSError: There is no room for temporary files.
    """

    def __init__(self) -> None:
        self._own = TemporaryFolder("claims")
        self._taken = self._own.path / "taken"
        self._taken.mkdir()
        self.folder = str(self._taken)

    def take(self, token: str) -> bool:
        """Whether nobody had the claim, so that the attempt has not begun and never will."""
        return take(self.folder, token) is not False

    def close(self) -> None:
        """Let no further attempt begin."""
        # In one step: while a folder is emptied, claims that were taken look free.
        with suppress(OSError):
            self._taken.rename(self._own.path / "closed")
        self._own.remove()


def take(folder: str, token: str) -> bool | None:
    """Take a claim; False if somebody else has it, None if it cannot be taken here."""
    try:
        Path(folder, token).mkdir(0o700)
    except FileExistsError:
        return False
    except OSError:
        return None
    return True
