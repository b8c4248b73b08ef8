"""The exchanges of a cassette, kept in step with its file: opened, recorded into, caught up with, begun anew.

It knows what to write and when; it knows no request from a run, no mode but whether the old recording stays, and
no error message about a missing exchange.
"""

from __future__ import annotations

import dataclasses
from collections import Counter
from pathlib import Path

from archytas_nb.cassettes.file import CassetteFile
from archytas_nb.cassettes.format import line_of
from archytas_nb.cassettes.request import Reader
from archytas_nb.cassettes.tape import Tape
from archytas_nb.cassettes.values import Asked, Entry, Header, Speaker
from archytas_nb.cassettes.volatile import Volatile
from archytas_nb.errors import ConfigurationError


class Store:
    """A tape and its file.

    Args:
        path: The file; it need not exist.
        reader: Reads requests; is told the placeholders that the file names.
        anew: Whether the first exchange takes the place of all that was recorded before.

    Attributes:
        tape: The exchanges.
        fault: What is wrong with the file's last line; empty for nothing.

    Raises:
        ConfigurationError: The file is no cassette, and is not to be begun anew.
    """

    def __init__(self, path: Path, reader: Reader, *, anew: bool) -> None:
        self.tape = Tape()
        self._file = CassetteFile(path)
        self._reader = reader
        self._declared = reader.volatile
        self._header = Header(volatile=self._declared.line())
        self._anew = anew
        self._old: Counter[str] = Counter()
        self._replaced: list[Entry] = []
        self._old_answers: list[Asked] = []
        if not self._file.exists:
            return
        try:
            self._take_over(*self._file.read())
        except ConfigurationError:
            if not anew:  # what is begun anew need not be readable
                raise
        if anew:
            self._old = Counter(map(line_of, self.tape.entries))
            self._old_answers = [each for each in self.tape.asked() if each.answer is not None]
            self.tape = Tape()
            self._header = Header(volatile=self._header.volatile)

    @property
    def exists(self) -> bool:
        """Whether there is a file."""
        return self._file.exists

    @property
    def fault(self) -> str:
        """What is wrong with the file's last line; empty for nothing."""
        return self._file.fault

    @property
    def speakers(self) -> dict[str, Speaker]:
        """Who was recorded, by what the notebook calls them."""
        return self._header.models

    def name_speaker(self, called: str, speaker: Speaker) -> None:
        """Say who is recorded; written with the next exchange."""
        self._header = dataclasses.replace(
            self._header, models={**self._header.models, called: speaker}
        )

    def old_answer(self, prompt: str) -> str | None:
        """Take a person's answer out of the recording that is replaced."""
        for place, asked in enumerate(self._old_answers):
            if asked.prompt == prompt:
                return self._old_answers.pop(place).answer
        return None

    @property
    def has_old_answers(self) -> bool:
        """Whether a person answered in the recording that is replaced."""
        return bool(self._old_answers)

    def check(self) -> None:
        """Raise ConfigurationError where nothing could be written."""
        self._file.check()

    def catch_up(self) -> None:
        """Take over what another kernel has recorded meanwhile; what was used here stays used."""
        if not self._old and self._file.exists and self._file.was_changed:
            self._take_over(*self._file.read())

    def begins(self, origin: str) -> None:
        """Let a cell that is run again have what it had; where all is recorded anew, that is replaced."""
        given_back = self.tape.give_back(origin)
        if self._anew:
            self._replaced += given_back

    def replace(self, taken: Entry) -> None:
        """Put the next exchange that is recorded in the place of the one that was taken last."""
        self.tape.put_back()
        self._replaced.append(taken)

    def add(self, entry: Entry, origin: str = "") -> None:
        """Record an exchange, behind the last one that was used or recorded here.

        Args:
            entry: The exchange.
            origin: The cell that asked, or an empty text.

        Raises:
            ConfigurationError: The file cannot be written; it is as it was.
        """
        with self._file.locked():
            only_added = not (self._old or self._replaced)
            if self._old:
                self._forget_old()
            else:
                self.catch_up()
            self.tape.drop(self._replaced)
            self._replaced.clear()
            only_added &= self.tape.add(entry, origin)
            write = self._file.add if only_added else self._file.write
            write(self._header, self.tape.entries)

    def prune(self) -> int:
        """Drop what was not used, and say how many that were; raises as `add` does."""
        with self._file.locked():
            self.catch_up()
            dropped = self.tape.prune()
            if dropped:
                self._file.write(self._header, self.tape.entries)
        return dropped

    def _take_over(self, header: Header, entries: list[Entry]) -> None:
        volatile = Volatile(header.volatile) | self._declared
        self._reader.use(volatile)
        self._header = Header({**header.models, **self._header.models}, volatile.line())
        self.tape.follow([self._as_now(entry) for entry in entries])

    def _as_now(self, entry: Entry) -> Entry:
        """A recorded exchange as it is compared now: the placeholders may be more than when it was recorded."""
        if isinstance(entry, Asked):
            return Asked(self._reader.volatile(entry.prompt), entry.answer)
        return dataclasses.replace(entry, request=self._reader.again(entry.request))

    def _forget_old(self) -> None:
        """Forget the old recording, but not what another kernel has recorded since."""
        if self._file.exists and self._file.was_changed:
            since: list[Entry] = []
            for entry in map(self._as_now, self._file.read()[1]):
                line = line_of(entry)
                if self._old[line] > 0:
                    self._old[line] -= 1
                else:
                    since.append(entry)
            self.tape.follow(since)
        self._old = Counter()


def volatile_of(path: Path) -> dict[str, str]:
    """What a cassette allows to differ: regular expressions, and the placeholder of each.

    Raises:
        ConfigurationError: There is a file, but it is no cassette.
    """
    file = CassetteFile(path)
    if not file.exists:
        return {}
    patterns = Volatile(file.read()[0].volatile).patterns
    return {pattern: f"{{{name}}}" for name, pattern in patterns.items()}
