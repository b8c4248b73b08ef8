"""Replies as they were given, kept beside a notebook: recorded once, replayed without a model.

A `Cassette` finds and keeps exchanges; it never asks anybody (`cassette_model` does). Everything that it keeps or
compares has been scrubbed, and keys, headers and addresses are no part of a request, so they are never kept. A
request that was not recorded is an error, never a guess.
"""

from __future__ import annotations

import dataclasses
import os
import warnings
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, get_args

from archytas_nb.errors import CassetteMiss, ConfigurationError, ModelErrorKind
from archytas_nb.models.cassette_difference import content_text, first_difference
from archytas_nb.models.cassette_file import CassetteFile
from archytas_nb.models.cassette_format import Asked, Entry, Exchanged, Header, Request, Speaker
from archytas_nb.models.cassette_request import Reader
from archytas_nb.models.cassette_scrub import Scrub, Scrubber
from archytas_nb.models.cassette_tally import Tally
from archytas_nb.models.cassette_tape import Tape
from archytas_nb.models.cassette_volatile import Volatile
from archytas_nb.react.events import AskModel, Json, ModelReply

Mode = Literal["auto", "replay", "record", "off"]


class Cassette:
    """The exchanges of one file.

    Args:
        path: The file; it need not exist where it is recorded.
        mode: ``"replay"`` only replays; ``"auto"`` replays what is there and records what is missing;
            ``"record"`` asks the model for everything, and the new recording takes the place of the old one
            with its first exchange; ``"off"`` neither replays nor records.
        scrub: Takes your own secrets out of every text that is kept or compared; None takes what
            `cassette_scrub` was given.
        volatile: Parts of messages that may differ from run to run: names such as ``"date"``, or a mapping
            from names to regular expressions. The header may say more.
        rerun: The command that records only what is missing, for messages; None for a general one.
        report: A file that is kept up to date with what the cassette was used for, or None.

    Attributes:
        tally: What it was used for.

    Raises:
        ConfigurationError: The file is no cassette, of another version, or missing in a replay.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Mode = "auto",
        *,
        scrub: Scrub | None = None,
        volatile: Iterable[str] | Mapping[str, Json] | None = None,
        rerun: str | None = None,
        report: Path | None = None,
    ) -> None:
        if mode not in get_args(Mode):
            raise ConfigurationError(f"the cassette mode is {mode!r}; expected one of {get_args(Mode)}")
        self.path = Path(path)
        self.mode: Mode = mode
        self.tally = Tally()
        self._rerun = rerun
        self._report = report
        self._file = CassetteFile(self.path)
        self._tape = Tape()
        self._models: list[object] = []
        self._old: Counter[str] = Counter()
        self._declared = Volatile(volatile)
        self._reader = Reader(Scrubber(scrub), self._declared)
        self._header = Header(volatile=self._declared.line())
        if mode != "off" and self._file.exists:
            self._open()
        elif mode == "replay":
            raise ConfigurationError(
                f"the cassette {str(self.path)!r} does not exist. Record it with a model at hand: {self.rerun}"
            )
        self._tell()

    def hide(self, name: str, value: str) -> None:
        """Keep a value, such as a key, out of the cassette; ``{name}`` stands for it."""
        self._reader.scrub.hide(name, value)

    def find(self, ask: AskModel) -> Exchanged | None:
        """Take the recorded exchange for a request; None where there is none left, or nothing is replayed."""
        if self.mode not in ("auto", "replay"):
            return None
        self._catch_up()
        found = self._tape.take(self._reader.request(ask).key)
        if not isinstance(found, Exchanged):
            return None
        self._count_replayed(found.reply)
        return found

    def answer(self, prompt: str) -> str | None:
        """Take the person's recorded answer; None where there is none left, or nothing is replayed."""
        if self.mode not in ("auto", "replay"):
            return None
        found = self._tape.take(Asked(self._reader.text(prompt), "").key)
        if not isinstance(found, Asked):
            return None
        self._count_replayed(None)
        return found.answer

    @property
    def has_answers(self) -> bool:
        """Whether there is a recorded answer of a person that is not used yet."""
        return self.mode in ("auto", "replay") and bool(self._tape.asked())

    def add(self, ask: AskModel, reply: ModelReply | None, fault: ModelErrorKind | None = None) -> None:
        """Record an exchange, behind the last one that was used or recorded.

        Args:
            ask: The request.
            reply: What came back, or None where the endpoint would not take the request.
            fault: The kind of that refusal.

        Raises:
            ConfigurationError: The file cannot be written; it is as it was.
        """
        kept = None if reply is None else self._reader.reply(reply)
        self._add(Exchanged(self._reader.request(ask), kept, fault))

    def add_answer(self, prompt: str, answer: str) -> None:
        """Record what a person answered."""
        self._add(Asked(self._reader.text(prompt), self._reader.scrub(answer)))

    def called(self, model: object) -> str:
        """What to call a model that the notebook made itself: the order in which they are met is their name."""
        if not any(each is model for each in self._models):
            self._models.append(model)
        return f"model {next(n for n, each in enumerate(self._models, start=1) if each is model)}"

    def speaker(self, called: str) -> Speaker | None:
        """The recorded model that the notebook calls so; in a replay, another one rather than none."""
        models = self._header.models
        if self.mode == "replay" and called not in models:
            return next(iter(models.values()), None)
        return models.get(called)

    def name_speaker(self, called: str, speaker: Speaker) -> None:
        """Say who is recorded; written with the next exchange."""
        self._header = dataclasses.replace(self._header, models={**self._header.models, called: speaker})

    def miss(self, ask: AskModel) -> CassetteMiss:
        """The error for a request that was not recorded: it names what has changed, and the next move."""
        request = self._reader.request(ask)
        error = self._miss(request, self._tape.nearest(request))
        self.tally.missed.append(error.cause)
        self._tell()
        return error

    @property
    def unused(self) -> int:
        """How many recorded exchanges were not asked for yet."""
        return len(self._tape.unused)

    @property
    def count(self) -> int:
        """How many exchanges there are."""
        return len(self._tape.entries)

    def drop(self, names: Iterable[tuple[str, int]]) -> int:
        """Drop exchanges by name (`Tally.unused`), and say how many that were; raises what `prune` raises."""
        self._tape.use_all_but(set(names))
        return self.prune()

    def prune(self) -> int:
        """Drop the exchanges that were not asked for, and say how many that were.

        Raises:
            ConfigurationError: The mode is a replay, which writes nothing.
        """
        if self.mode not in ("auto", "record"):
            raise ConfigurationError(
                f"the cassette {str(self.path)!r} is in mode {self.mode!r}, which writes nothing; use mode 'auto'"
            )
        with self._file.locked():
            self._catch_up()
            dropped = self._tape.prune()
            if dropped:
                self._file.write(self._header, self._tape.entries)
        self.tally.pruned += dropped
        self._tell()
        return dropped

    @property
    def rerun(self) -> str:
        """How to record what is missing."""
        return self._rerun or (
            f"run it with %agent_cassette {self.path} --mode auto, or ARCHYTAS_NB_CASSETTE_MODE=auto"
        )

    def _open(self) -> None:
        try:
            header, entries = self._file.read()
        except ConfigurationError:
            if self.mode != "record":  # what is recorded anew need not be readable
                raise
            return
        if self._file.fault:
            warnings.warn(f"{self._file.fault}: {self.rerun}", stacklevel=4)
        self._take_over(header, entries)
        if self.mode == "record":
            self._old = Counter(entry.line() for entry in self._tape.entries)
            self._tape = Tape()
            self._header = Header(volatile=self._header.volatile)

    def _take_over(self, header: Header, entries: list[Entry]) -> None:
        volatile = Volatile(header.volatile) | self._declared
        if volatile.said != self._reader.volatile.said:
            self._reader = Reader(self._reader.scrub, volatile)
        self._header = Header({**header.models, **self._header.models}, volatile.line())
        self._tape.follow([self._as_now(entry) for entry in entries])

    def _as_now(self, entry: Entry) -> Entry:
        """A recorded exchange as it is compared now: the placeholders may be more than when it was recorded."""
        if isinstance(entry, Asked):
            return Asked(self._reader.volatile(entry.prompt), entry.answer)
        return dataclasses.replace(entry, request=self._reader.again(entry.request))

    def _catch_up(self) -> None:
        """Take over what another kernel has recorded meanwhile."""
        if self.mode == "replay" or not self._file.exists or not self._file.was_changed:
            return
        header, entries = self._file.read()
        self._take_over(header, entries)

    def _add(self, entry: Entry) -> None:
        if self.mode not in ("auto", "record"):
            return
        with self._file.locked():
            if self._old:
                self._begin_anew()
            else:
                self._catch_up()
            self._tape.add(entry)
            self._file.write(self._header, self._tape.entries)
        self.tally.recorded += 1
        self._tell()

    def _count_replayed(self, reply: ModelReply | None) -> None:
        self.tally.replayed += 1
        if reply is not None:
            self.tally.usage += reply.usage
        self._tell()

    def _tell(self) -> None:
        if self._report is not None:
            self.tally.unused = self._tape.unused_names()
            self.tally.write(self._report, self.path, self.mode)

    def _begin_anew(self) -> None:
        """Forget the old recording, but not what another kernel has recorded since."""
        if self._file.exists and self._file.was_changed:
            since: list[Entry] = []
            for entry in map(self._as_now, self._file.read()[1]):
                line = entry.line()
                if self._old[line] > 0:
                    self._old[line] -= 1
                else:
                    since.append(entry)
            self._tape.follow(since)
        self._old = Counter()

    def _miss(self, request: Request, nearest: Exchanged | None) -> CassetteMiss:
        begin = f"the cassette {str(self.path)!r} holds no reply to this request"
        again = f"Record what is missing, with a model at hand: {self.rerun}"
        if nearest is None:
            return CassetteMiss(f"{begin}: nothing is recorded in it. {again}", cause="empty")
        if nearest.key == request.key:
            times = self._tape.times(request.key)
            return CassetteMiss(
                f"{begin}: it was recorded {times} times, and is asked once more. Where the cell was only run "
                f"again, begin again with %agent_cassette {self.path} or a new kernel. {again}",
                cause="asked_again",
            )
        found = first_difference(request, nearest.request)
        asked = content_text(request.messages[-1]) if request.messages else ""
        short = asked if len(asked) <= 100 else f"{asked[:99]}…"
        lines = [f"{begin} (step {request.step}, ending with {short!r}): {found.said}."]
        lines += [f"  {found.where}"] if found.where else []
        lines += [found.lines] if found.lines else []
        if self.tally.missed:
            number = len(self.tally.missed) + 1
            lines.append(f"  (It is miss {number}: mend the first one first, it may have caused this one.)")
        return CassetteMiss("\n".join([*lines, again]), cause=found.cause, tool=found.tool)


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
