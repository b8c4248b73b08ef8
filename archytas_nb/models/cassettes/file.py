"""A cassette's file: read whole, written whole, shared by whoever records into it.

The only file that opens a cassette. A file is never half written: each change is made beside it and takes its
place at once. Two kernels may record into one cassette: each takes a lock for a change, and takes over first what
the other has added.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from archytas_nb.errors import ConfigurationError
from archytas_nb.models.cassettes.format import read, written
from archytas_nb.models.cassettes.values import Entry, Header

_WAIT = 20.0  # seconds for a lock that is held for milliseconds


class CassetteFile:
    """The file of one cassette.

    Args:
        path: It need not exist.

    Attributes:
        fault: What was wrong with the last line when it was read; empty for nothing.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.fault = ""
        self._seen: tuple[int, int, int] | None = None

    @property
    def exists(self) -> bool:
        """Whether there is such a file."""
        return self.path.exists()

    def read(self) -> tuple[Header, list[Entry]]:
        """Read all of it.

        Raises:
            ConfigurationError: It cannot be read, or is no cassette.
        """
        self._seen = self._signature()
        try:
            text = self.path.read_text("utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigurationError(
                f"the cassette {str(self.path)!r} cannot be read ({error}); name another file"
            ) from error
        header, entries, self.fault = read(str(self.path), text)
        return header, entries

    @property
    def was_changed(self) -> bool:
        """Whether somebody else has written it since it was read or written here."""
        return self._signature() != self._seen

    def check(self) -> None:
        """Say now what `write` would say later.

        Raises:
            ConfigurationError: The file could not be written.
        """
        folder = self.path.absolute().parent
        while not folder.exists():
            folder = folder.parent
        if self.path.is_dir():
            raise self._unwritable("it is a folder", "name a file")
        if not os.access(folder, os.W_OK):
            raise self._unwritable(f"the folder {str(folder)!r} is read-only", "name a file in a folder of yours")
        if self._is_protected():
            raise self._unwritable("it is read-only", "chmod u+w it, or only replay it (mode 'replay')")

    def write(self, header: Header, entries: Sequence[Entry]) -> None:
        """Put this in the place of the file.

        Raises:
            ConfigurationError: It cannot be written; the file is as it was.
        """
        self.check()
        text = "".join(f"{line}\n" for line in written(header, entries))
        target = self.path.resolve()  # a link stays a link
        beside = target.with_name(f".{target.name}.{os.getpid()}")
        try:
            target.parent.mkdir(parents=True, exist_ok=True)
            with beside.open("w", encoding="utf-8", newline="\n") as file:
                file.write(text)
            if target.exists():
                shutil.copymode(target, beside)
            beside.replace(target)
        except OSError as error:
            beside.unlink(missing_ok=True)
            raise self._unwritable(str(error), "name a file in a folder of yours") from error
        self._seen = self._signature()

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep others from writing it for a moment."""
        # Beside the temporary files, not beside the notebook: a lock is nothing to commit.
        user = getattr(os, "getuid", lambda: 0)()
        name = hashlib.sha256(str(self.path.resolve()).encode("utf-8", "surrogatepass")).hexdigest()[:16]
        lock = FileLock(Path(tempfile.gettempdir()) / f"archytas_nb-{user}-{name}.lock")
        try:
            lock.acquire(timeout=_WAIT)
        except Timeout as error:
            raise ConfigurationError(
                f"the cassette {str(self.path)!r} is being written by another process for more than {_WAIT:g} s; "
                "end that process, or record into another file"
            ) from error
        try:
            yield
        finally:
            lock.release()

    def _is_protected(self) -> bool:
        """Whether its owner has made it read-only: it could be replaced all the same, but that is not meant."""
        try:
            return not self.path.stat().st_mode & stat.S_IWUSR
        except OSError:
            return False

    def _unwritable(self, why: str, move: str) -> ConfigurationError:
        return ConfigurationError(f"the cassette {str(self.path)!r} cannot be written ({why}); {move}")

    def _signature(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size
