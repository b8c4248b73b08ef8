"""Replies as they were given, kept beside a notebook: recorded once, replayed without a model.

A `Cassette` finds and keeps exchanges; it never asks anybody (`model` does). Everything that it keeps or compares
has been scrubbed, and keys, headers and addresses are no part of a request, so they are never kept. A request
that was not recorded is an error, never a guess.
"""

from __future__ import annotations

import dataclasses
import os
import shlex
import threading
import warnings
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Literal, get_args

from archytas_nb.cassettes.miss import miss_of
from archytas_nb.cassettes.request import Reader
from archytas_nb.cassettes.scrub import Scrub, Scrubber
from archytas_nb.cassettes.store import Store
from archytas_nb.cassettes.tally import Tally
from archytas_nb.cassettes.values import DEFAULT, Asked, Entry, Exchanged, Speaker
from archytas_nb.cassettes.volatile import Volatile
from archytas_nb.errors import CassetteMiss, ConfigurationError, ModelErrorKind
from archytas_nb.loop.events import AskModel, Json, ModelReply

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
        path: The file, as it was named.
        where: The same file, whatever the working folder is later.
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
            raise ConfigurationError(
                f"the cassette mode is {mode!r}; expected one of {get_args(Mode)}"
            )
        self.path = Path(path).expanduser()
        self.where = self.path.absolute()
        self.mode: Mode = mode
        self.tally = Tally()
        self._rerun = rerun
        self._report = report
        self._learned: dict[str, dict[str, Json]] = {}
        self._executions: dict[str, str] = {}
        self._one_at_a_time = (
            threading.RLock()
        )  # agents in threads of the user's may share a cassette
        self._reader = Reader(Scrubber(scrub), Volatile(volatile))
        self._store = Store(self.where, self._reader, anew=mode in ("record", "off"))
        if self._store.fault and mode in ("auto", "replay"):
            warnings.warn(f"{self._store.fault}: {self.rerun}", stacklevel=3)
        if mode == "replay" and not self._store.exists:
            raise ConfigurationError(
                f"the cassette {str(self.path)!r} does not exist. Record it with a model at hand: {self.rerun}"
            )
        self._tell()

    def hide(self, name: str, value: str) -> None:
        """Keep a value, such as a key, out of the cassette; ``{name}`` stands for it."""
        self._reader.scrub.hide(name, value)

    def begins(self, origin: str, execution: str = "") -> None:
        """Let a cell that is run again be given again what it was given before.

        Args:
            origin: What asks, such as a cell; an empty text is nobody in particular.
            execution: Which run of the cell this is; what it asks later in the same run is no beginning.
        """
        with self._one_at_a_time:
            if execution and self._executions.get(origin) == execution:
                return
            self._executions[origin] = execution
            self._store.begins(origin)
            self._tell()

    def find(self, ask: AskModel, model: str = DEFAULT, origin: str = "") -> Exchanged | None:
        """Take the recorded exchange for a request out.

        Args:
            ask: The request.
            model: What the notebook calls the model that it asks.
            origin: What asks.

        Returns:
            None where there is none left, or nothing is replayed.

        Raises:
            ConfigurationError: Nothing could be recorded either: the scrub function fails, or the folder cannot
                be written. It is said before a model is asked, not when its reply is there.
        """
        if self.mode == "off":
            return None
        request = self._reader.request(ask, model)
        with self._one_at_a_time:
            found = None
            if self.mode == "auto":
                self._store.catch_up()
            if self.mode != "record":
                found = self._store.tape.take(request.key, origin, request.max_tokens)
            if not isinstance(found, Exchanged):
                if self.mode != "replay":
                    self._store.check()
                return None
            self._learned.setdefault(model, {}).update(found.learned)
            self._count_replayed(found.reply)
        return found

    def answer(self, prompt: str, origin: str = "", *, there: bool = False) -> Asked | None:
        """Take what a person answered.

        Args:
            prompt: What is asked.
            origin: What asks.
            there: Whether a person is there now.

        Returns:
            None where nothing is recorded of it any more, or nothing is replayed; and in mode auto where nobody
            was there when it was recorded, but somebody is now: what they say takes its place.
        """
        if self.mode not in ("auto", "replay"):
            return None
        with self._one_at_a_time:
            found = self._store.tape.take(Asked(self._reader.text(prompt), "").key, origin)
            if not isinstance(found, Asked):
                return None
            if found.answer is None and there and self.mode == "auto":
                self._store.replace(found)
                return None
            self._count_replayed(None)
        return found

    def old_answer(self, prompt: str) -> str | None:
        """What a person answered in the recording that a new one replaces; each answer once."""
        with self._one_at_a_time:
            return self._store.old_answer(self._reader.text(prompt))

    @property
    def has_answers(self) -> bool:
        """Whether there is a recorded answer of a person that is not used yet."""
        if self.mode == "record":
            return self._store.has_old_answers
        return self.mode != "off" and bool(self._store.tape.asked())

    def add(
        self,
        ask: AskModel,
        reply: ModelReply | None,
        fault: ModelErrorKind | None = None,
        *,
        model: str = DEFAULT,
        origin: str = "",
        learned: dict[str, Json] | None = None,
    ) -> None:
        """Record an exchange, behind the last one that was used or recorded.

        Args:
            ask: The request.
            reply: What came back, or None where the endpoint would not take the request.
            fault: The kind of that refusal.
            model: What the notebook calls the model.
            origin: What asks.
            learned: What became known of the model by it.

        Raises:
            ConfigurationError: The file cannot be written; it is as it was.
        """
        kept = None if reply is None else self._reader.reply(reply)
        self._learned.setdefault(model, {}).update(learned or {})
        self._add(Exchanged(self._reader.request(ask, model), kept, fault, learned or {}), origin)

    def add_answer(self, prompt: str, answer: str | None, origin: str = "") -> None:
        """Record what a person answered, or None where nobody was there."""
        kept = None if answer is None else self._reader.scrub(answer)
        self._add(Asked(self._reader.text(prompt), kept), origin)

    def speaker(self, called: str) -> Speaker | None:
        """The recorded model that the notebook calls so; in a replay, another one rather than none."""
        models = self._store.speakers
        found = models.get(called)
        if found is None and self.mode == "replay":
            found = next(iter(models.values()), None)
        if found is not None and called in self._learned:
            return dataclasses.replace(found, facts={**found.facts, **self._learned[called]})
        return found

    def name_speaker(self, called: str, speaker: Speaker) -> None:
        """Say who is recorded; written with the next exchange."""
        self._store.name_speaker(called, speaker)

    def miss(self, ask: AskModel, model: str = DEFAULT) -> CassetteMiss:
        """The error for a request that was not recorded: it names what has changed, and the next move."""
        request = self._reader.request(ask, model)
        path, earlier = str(self.path), len(self.tally.missed)
        error = miss_of(request, self._store.tape, path=path, rerun=self.rerun, earlier=earlier)
        self.tally.missed.append(error.cause)
        self._tell()
        return error

    def miss_answer(self, prompt: str) -> CassetteMiss:
        """The error for a question to a person that nobody was asked when it was recorded."""
        error = CassetteMiss(
            f"the cassette {str(self.path)!r} holds no answer of a person to {prompt[:200]!r}. Record what is "
            f"missing, with a person at the keyboard: {self.rerun}",
            cause="question",
        )
        self.tally.missed.append(error.cause)
        self._tell()
        return error

    @property
    def unused(self) -> int:
        """How many recorded exchanges were not asked for yet."""
        return len(self._store.tape.unused)

    @property
    def count(self) -> int:
        """How many exchanges there are."""
        return len(self._store.tape.entries)

    def drop(self, names: Iterable[tuple[str, int]]) -> int:
        """Drop exchanges by name (`Tally.unused`), and say how many that were; raises what `prune` raises."""
        self._store.tape.use_all_but(set(names))
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
        with self._one_at_a_time:
            dropped = self._store.prune()
        self.tally.pruned += dropped
        self._tell()
        return dropped

    @property
    def rerun(self) -> str:
        """How to record what is missing."""
        return self._rerun or (
            f"run it with %agent_cassette {shlex.quote(str(self.path))} --mode auto, or "
            "ARCHYTAS_NB_CASSETTE_MODE=auto"
        )

    def _add(self, entry: Entry, origin: str) -> None:
        if self.mode not in ("auto", "record"):
            return
        with self._one_at_a_time:
            self._store.add(entry, origin)
        self.tally.recorded += 1
        self._tell()

    def _count_replayed(self, reply: ModelReply | None) -> None:
        self.tally.replayed += 1
        if reply is not None:
            self.tally.usage += reply.usage
        self._tell()

    def _tell(self) -> None:
        if self._report is not None:
            self.tally.unused = self._store.tape.unused_names()
            self.tally.write(self._report, self.where, self.mode)
