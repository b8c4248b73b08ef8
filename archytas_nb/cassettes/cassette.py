"""Replays the exchanges of a cassette and records missing ones; it never calls a model."""

from __future__ import annotations

import json
import os
import shlex
import threading
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import asdict, astuple, dataclass, field
from pathlib import Path
from typing import Any, Literal, get_args

from archytas_nb.cassettes import DEFAULT
from archytas_nb.cassettes.difference import explain
from archytas_nb.cassettes.file import CassetteFile, Entry, RecordedAnswer, RecordedReply
from archytas_nb.cassettes.match import Matcher, scrub
from archytas_nb.cassettes.tape import Tape
from archytas_nb.errors import CassetteMiss, ConfigurationError, FileError, ModelErrorKind
from archytas_nb.files import OutputFile
from archytas_nb.loop.events import AskModel, Json, ModelReply

Mode = Literal["auto", "replay", "record"]


@dataclass
class Tally:
    """The use of a cassette: numbers of exchanges, the causes of misses, and tokens."""

    replayed: int = 0
    recorded: int = 0
    missed: list[str] = field(default_factory=list)
    unused: int = 0  # set at the end of a test run
    dropped: int = 0
    input_tokens: int = 0
    output_tokens: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(*(a + b for a, b in zip(astuple(self), astuple(other), strict=True)))


class Cassette:
    """The exchanges of one file.

    Args:
        path: The file; it need not exist where it is recorded.
        mode: ``"replay"`` only replays; ``"auto"`` replays what is recorded and records what is
            missing; ``"record"`` records everything, and its first exchange replaces the old
            recording.
        volatile: Parts of messages that may differ from run to run, see `Volatile`; the file's
            header may name more.
        rerun: The command that records what is missing, for messages.
        report: A file for the test runner, which gets a line for each event; or None.
        force: Whether mode ``"record"`` replaces a file that is not a cassette.

    Raises:
        ConfigurationError: The file is not a cassette, or does not exist in a replay.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        mode: Mode = "auto",
        *,
        volatile: Iterable[str] | Mapping[str, Json] | None = None,
        rerun: str | None = None,
        report: Path | None = None,
        force: bool = False,
    ) -> None:
        if mode not in get_args(Mode):
            expected = (*get_args(Mode), "off")  # which means no cassette
            raise ConfigurationError(f"the cassette mode is {mode!r}; expected one of {expected}")
        self.path = Path(path).expanduser()
        self.where = self.path.absolute()
        self.mode: Mode = mode
        self.tally = Tally()
        self.tape = Tape()
        self.matcher = Matcher(volatile)
        self.rerun = rerun or (
            f"%agent_cassette {shlex.quote(str(self.path))} --mode auto (or set "
            "ARCHYTAS_NB_CASSETTE_MODE=auto)"
        )
        self._report = None
        if report is not None:
            self._report = OutputFile(report, "the report")
        self._force = force and mode == "record"
        self._file = CassetteFile(self.where, self.matcher)
        self._learned: dict[str, dict[str, Json]] = {}
        self._executions: dict[str, str] = {}
        self._replaced: list[Entry] = []  # the old recording
        self._lock = threading.RLock()  # agents in several threads may share a cassette
        if self.where.exists():
            self._open()
        elif mode == "replay":
            raise ConfigurationError(
                f"the cassette {str(self.path)!r} does not exist. To record it, make sure that a "
                f"model is available and run: {self.rerun}"
            )
        unused = Counter(entry.key for entry in self.tape.unused)
        self._write_report(cassette=str(self.where), unused=unused)

    def _open(self) -> None:
        entries: list[Entry] = []
        try:
            entries = self._file.read()
        except ConfigurationError:
            if not self._force:
                raise
        if self.mode == "record":
            self._replaced = entries
            self._file.models = {}
            self._file.forget()
        else:
            self.tape.follow(entries)
            if self._file.warning:
                warnings.warn(f"{self._file.warning}. To record it: {self.rerun}", stacklevel=4)

    def start_question(self, origin: str, execution: str = "") -> None:
        """Give a cell that is run again the same exchanges again, once per execution."""
        with self._lock:
            with suppress(FileError):  # the next request that the model is sent says so
                self._write_missing()
            if not execution or self._executions.get(origin) != execution:
                self._executions[origin] = execution
                is_recorded_again = self.mode == "record"
                gave_back = self.tape.give_back(origin, drop=is_recorded_again)
                if gave_back and is_recorded_again:
                    self._file.forget()
                # Of the models is known what was known at this place of the tape.
                self._learned = {}
                for slot in self.tape.slots[: self.tape.at]:
                    if slot.user is not None and isinstance(slot.entry, RecordedReply):
                        self._learn(slot.entry.request.model, slot.entry.learned)

    def _learn(self, model: str, facts: dict[str, Json]) -> None:
        self._learned.setdefault(model, {}).update(facts)

    def find(self, ask: AskModel, model: str = DEFAULT, origin: str = "") -> RecordedReply | None:
        """Use the recorded exchange for a request; None where there is none left.

        Raises:
            ConfigurationError: A reply could not be recorded, as the scrub function fails or the
                file cannot be written. It is raised before the model is called.
        """
        request = self.matcher.request(ask, model)
        with self._lock:
            if self.mode == "auto":
                self._catch_up()
            found = self._take(request.key, origin, lambda each: each.fits(request.max_tokens))
            if isinstance(found, RecordedReply):
                self._learn(model, found.learned)
                return found
            if self.mode != "replay":
                self._file.check()
                self._write_missing()
        return None

    def find_answer(
        self, prompt: str, reply: RecordedReply, origin: str = "", *, is_user_there: bool = False
    ) -> RecordedAnswer | None:
        """Use the user's recorded answer about a call of a recorded reply; None without one.

        Where no user was there when it was recorded, but one is now, mode auto asks again.
        """
        text = self.matcher.text(prompt)
        asks_again = is_user_there and self.mode == "auto"

        def fits(entry: Any) -> bool:
            if not isinstance(entry, RecordedAnswer):
                return False
            if asks_again and entry.answer is None and entry.seconds is None:
                return False
            # Earlier versions wrote the line with the choices, too.
            is_older = entry.exchange is None and entry.prompt.startswith(f"{text}\n")
            return entry.prompt == text or is_older

        with self._lock:
            found = None
            if self.mode != "record":
                found = self.tape.take_answer(reply, fits, origin)
            if found is None and self.mode == "replay":  # of an earlier version, with inner agents
                found = self.tape.take_first(
                    lambda each: fits(each) and each.exchange is None, origin
                )
            if found is not None:
                self._note_use(found)
        return found

    def find_told(self, prompt: str, origin: str = "") -> RecordedAnswer | None:
        """Use what the user told the agent before a request; None where there is none left."""
        key = RecordedAnswer(self.matcher.text(prompt), None).key
        with self._lock:
            found = self._take(key, origin, lambda _: True)
        return found if isinstance(found, RecordedAnswer) else None

    def _take(self, key: str, origin: str, fits: Callable[[Any], bool]) -> Entry | None:
        if self.mode == "record":  # a cell that is run again is recorded again
            return None
        found: Entry | None = self.tape.take(key, origin, fits)
        if found is not None:
            self._note_use(found)
        return found

    def _note_use(self, found: Entry) -> None:
        self.tally.replayed += 1
        if isinstance(found, RecordedReply) and found.reply is not None:
            self.tally.input_tokens += found.reply.usage.input_tokens
            self.tally.output_tokens += found.reply.usage.output_tokens
        self._write_report(used=found.key)

    def old_told(self, prompt: str) -> RecordedAnswer | None:
        """The messages of the person in the recording that a new one replaces; each text once."""
        prompt = self.matcher.text(prompt)
        for place, old in enumerate(self._replaced):
            if isinstance(old, RecordedAnswer) and old.prompt == prompt and old.answer is not None:
                del self._replaced[place]
                return old
        return None

    def has_answers(self, reply: RecordedReply) -> bool:
        """Whether an answer about a call of a recorded reply may be left."""
        answers = (each for each in self.tape.unused if isinstance(each, RecordedAnswer))
        return any(each.exchange in (reply.key, None) for each in answers)

    def add(
        self,
        ask: AskModel,
        reply: ModelReply | None,
        refusal: ModelErrorKind | None = None,
        *,
        model: str = DEFAULT,
        origin: str = "",
        learned: dict[str, Json] | None = None,
    ) -> RecordedReply:
        """Record an exchange with the model after the last one that was used or recorded."""
        self._learn(model, learned or {})
        kept = None
        if reply is not None:
            kept = self.matcher.reply(reply)
        request = self.matcher.request(ask, model)
        entry = RecordedReply(request, kept, refusal, learned or {})
        self._add(entry, origin)
        return entry

    def add_answer(
        self,
        prompt: str,
        answer: str | None,
        origin: str = "",
        seconds: float | None = None,
        exchange: str | None = None,
    ) -> None:
        """Record the answer of the user, or None where there is none.

        Args:
            prompt: The question to the person.
            answer: Their answer.
            origin: The question to the agent in which it was asked.
            seconds: How long the user took, or was asked without an answer.
            exchange: The key of the exchange whose reply made the call that is asked about.
        """
        kept = None
        if answer is not None:
            kept = scrub(answer)
        self._add(RecordedAnswer(self.matcher.text(prompt), kept, seconds, exchange), origin)

    def _add(self, entry: Entry, origin: str) -> None:
        with self._lock:
            try:
                with self._file.locked():
                    self._catch_up()
                    is_last = self.tape.add(entry, origin)
                    if is_last and self.tape.missing == 1:
                        self._file.append(self.tape.entries)
                    else:
                        self._file.write(self.tape.entries)
                    self.tape.note_written()
            finally:
                if not any(each is entry for each in self.tape.entries):
                    self.tape.add(entry, origin)  # it was paid for, and is written later
            self.tally.recorded += 1
            self._write_report()

    def _write_missing(self) -> None:
        """Write what could not be written when it was recorded; raises FileError."""
        if self.tape.missing:
            with self._file.locked():
                self._catch_up()
                self._file.write(self.tape.entries)
                self.tape.note_written()

    def _catch_up(self) -> None:
        """Take over what another process has recorded meanwhile."""
        if self.where.exists() and self._file.was_changed:
            self.tape.follow(self._file.read())

    def facts(self, model: str) -> dict[str, Json] | None:
        """The facts about a recorded model; in a replay those of any model rather than None."""
        models = self._file.models
        known = models.get(model)
        if model not in models and self.mode == "replay":
            known = next(iter(models.values()), None)
        if not known:
            return known
        return {**known, **self._learned.get(model, {})}

    def set_facts(self, model: str, facts: dict[str, Json]) -> None:
        """Set the facts about a model; they are written with the next exchange."""
        self._file.models = {**self._file.models, model: facts}

    def miss(self, ask: AskModel, model: str = DEFAULT) -> CassetteMiss:
        """The error for a request that was not recorded; it says what has changed."""
        request = self.matcher.request(ask, model)
        return self._missed(explain(request, self.tape, str(self.path), self.rerun))

    def miss_answer(self, prompt: str) -> CassetteMiss:
        """The error for a question to the user that was not recorded."""
        error = CassetteMiss(
            f"the cassette {str(self.path)!r} has no recorded answer to {prompt[:200]!r}. "
            f"To record it, run this and answer the question: {self.rerun}",
            cause="question",
        )
        return self._missed(error)

    def _missed(self, error: CassetteMiss) -> CassetteMiss:
        self.tally.missed.append(error.cause)
        self._write_report()
        return error

    @property
    def unused(self) -> int:
        """Number of recorded exchanges that have not been used yet."""
        return len(self.tape.unused)

    @property
    def count(self) -> int:
        """Number of exchanges."""
        return len(self.tape.slots)

    def prune(self, unused: Mapping[str, int] | None = None) -> int:
        """Remove the exchanges that were never used, and return how many.

        Args:
            unused: The keys of exchanges that another process did not use, with their counts.

        Raises:
            ConfigurationError: The mode does not allow it, or the file cannot be written.
        """
        if self.mode == "replay":
            raise ConfigurationError(
                f"the cassette {str(self.path)!r} is in mode 'replay', which never writes to it; "
                "use mode 'auto'"
            )
        with self._lock, self._file.locked():
            self._catch_up()
            if unused is not None:
                left = Counter(unused)
                for slot in reversed(self.tape.slots):
                    key = slot.entry.key
                    slot.user = None if left[key] > 0 else ""
                    slot.user_before = None
                    left[key] -= 1
            dropped = self.tape.drop_never_used()
            if dropped:
                self._file.write(self.tape.entries)
                self.tape.note_written()
            self.tally.dropped += dropped
            self._write_report()
        return dropped

    def _write_report(self, **event: Json) -> None:
        """Add a line for the test runner, which is another process than the kernel."""
        if self._report is not None:
            line = json.dumps({**event, "tally": asdict(self.tally)})
            with suppress(FileError):  # where the runner has ended
                self._report.append(f"{line}\n".encode())
