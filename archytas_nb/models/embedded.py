"""The model on this machine: started at the first question, in safe mode if it crashes or hangs."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, cast

from archytas_nb.errors import ArchytasError, ConfigurationError, ModelError
from archytas_nb.loop.events import AskModel, Delta, Json, Message, Notice
from archytas_nb.loop.stop import sleep
from archytas_nb.models import process, weights
from archytas_nb.models.bounds import Deadline
from archytas_nb.models.capabilities import Asking, capabilities_of
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.models.process import Engine, StartError

HUNG_SECONDS = 45.0
"""Seconds without any response after which the server counts as hanging."""
REMEMBERED_SECONDS = 86_400.0
"""How long a crash keeps later notebooks in safe mode; the cause may be gone by then."""
_POLL_SECONDS = 0.05
_REPLY_SECONDS = 3600.0
"""How long a request may be silent: slow machines read a long prompt for minutes."""
REPEAT_TEMPERATURE = 0.8
DEFAULT_NAME = "Qwen2.5-Coder-1.5B-Instruct"

_VALUES = frozenset({"const", "enum", "default", "examples"})
_BOUNDS = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minimum", "maximum"))


class EmbeddedModel:
    """A GGUF model in a server process of this machine, shared by the notebooks of one user.

    Args:
        setting: A GGUF path or ``hf:REPO/FILE``; None for the weights of the ``weights`` extra.
        engine: How it is run; None for the defaults.
    """

    # The engine does not parse tool calls for most models, but it can bind a reply to a schema.
    protocol: Literal["react", "native"] = "react"
    is_small = True
    price = None

    def __init__(self, setting: str | None = None, engine: Engine | None = None) -> None:
        self._setting = setting
        self._engine = engine or Engine()
        self._safe = self._engine.safe
        self._crash = self._noted = self._warning = ""
        self._weights: Path | None = None
        self._server: process.Server | None = None
        self._loading: threading.Thread | None = None
        self._progress = ""
        self._failed: BaseException | None = None
        self._to_read: tuple[Message, ...] = ()

    def __repr__(self) -> str:
        return f"EmbeddedModel({self._setting!r})"

    @property
    def name(self) -> str:
        """The model's name, as it is shown."""
        return Path(self._setting.rpartition("/")[2]).stem if self._setting else DEFAULT_NAME

    @property
    def context_tokens(self) -> int:
        """Tokens that a conversation and its reply may have together."""
        return self._engine.context

    def complete(self, ask: AskModel) -> Asking:
        """Ask for one reply, once the model is ready.

        Yields:
            What is being waited for, and pieces of text as they come.

        Raises:
            ConfigurationError: There are no weights, or no engine to run them.
            ModelError: The server did not start, or crashed in safe mode, too.
        """
        ask = replace(ask, schema=without_contradictions(ask.schema))
        deadline, temperature = Deadline(ask.seconds), temperature_for(ask)
        while True:
            try:
                server = yield from self._ready(deadline)
            except StartError as error:
                if self._safe:
                    raise
                how = f" ({error.crash})" if error.crash else ""
                yield self._go_safe(error.crash, f"did not start{how}; trying again in safe mode")
                continue
            if self._warning:
                warning, self._warning = self._warning, ""
                yield Notice("retry", warning)
            if server.is_busy():
                yield Delta("status", "waiting for another question to the local model")
            client = self._client(server, temperature)
            try:
                with _watched(server) as hung:
                    reply = yield from client.complete(replace(ask, seconds=deadline.left))
            except ModelError as error:
                if error.kind != "unreachable" or not server.wait_for_end():
                    raise
                yield self._crashed(server, hung=hung.is_set())
            else:
                self._remember_crash()
                return reply

    def _go_safe(self, crash: str, what: str) -> Notice:
        self._safe, self._crash = True, crash
        return Notice("retry", f"the local model {self.name} {what}")

    def _crashed(self, server: process.Server, *, hung: bool) -> Notice:
        """Continue in safe mode after the server has ended; raise if it was in safe mode."""
        crash = "" if hung else server.crash()
        what = f"crashed ({crash})" if crash else "crashed"
        if hung:
            what = f"hung: it sent nothing for {HUNG_SECONDS:g} s"
        if self._safe:
            engine = f"{self._engine.module} {self._engine.version}"
            move = process.CAUSES.get(crash, "") + process.OTHER_MODEL
            text = f"the local model {self.name} {what}, even in safe mode ({engine})."
            text = f"{text} Its log is {str(server.log)!r}.\n{move}"
            raise ModelError(text, kind="unreachable") from None
        again = "restarting in safe mode (slower; set ArchytasNB.local_safe to always use it)"
        return self._go_safe(crash, f"{what}; {again}")

    # ── what is remembered for later notebooks ────────────────────────────────────────────────────

    def crash(self) -> str:
        """The signal of a crash without safe mode on this machine in the last day, or empty.

        Raises:
            ConfigurationError: There are no weights, or they cannot be used.
        """
        text = ""
        if path := self._weights or weights.find(self._setting):
            with contextlib.suppress(OSError, UnicodeDecodeError, ConfigurationError):
                note = self._note(path)
                if time.time() - note.stat().st_mtime < REMEMBERED_SECONDS:
                    text = note.read_text(encoding="utf-8")
        return text if text in process.CRASHES else ""

    def forget_crash(self) -> None:
        """Forget that this model has crashed; it is tried without safe mode again."""
        if path := self._weights or weights.find(self._setting):
            with contextlib.suppress(OSError, ConfigurationError):
                self._note(path).unlink(missing_ok=True)

    def _note(self, path: Path) -> Path:
        return process.run_dir() / f"{self._engine.identity(path)}.crash"

    def _remember_crash(self) -> None:
        """Remember a crash that did not come again in safe mode."""
        if self._weights and self._crash in process.CRASHES and self._crash != self._noted:
            self._noted = self._crash
            with contextlib.suppress(OSError, ConfigurationError):
                self._note(self._weights).write_text(self._crash, encoding="utf-8")

    # ── starting ──────────────────────────────────────────────────────────────────────────────────

    def warm(self, messages: Sequence[Message] = ()) -> None:
        """Start the model on a thread before the first question; returns at once, raises nothing.

        Args:
            messages: What the first question will begin with, such as the system prompt: it is read
                meanwhile. Given again while it still reads, they replace what was given before.
        """
        self._to_read = tuple(messages)
        if self._loading is None or not self._loading.is_alive():
            self._load()

    def _ready(self, deadline: Deadline) -> Generator[Notice, None, process.Server]:
        """The server, which is waited for on a thread, so that progress can be shown meanwhile.

        Past the deadline that thread goes on: the next question finds the model ready.
        """
        loading = self._loading
        if loading is None or not loading.is_alive():
            if self._server is not None and self._server.alive():
                return self._server
            self._to_read = ()
            loading = self._load()
        shown = ""
        # It may be reading how this question begins: to wait is faster than to read it twice.
        while loading.is_alive() and not deadline.over:
            if (progress := self._progress) != shown:
                yield Notice("progress", shown := progress)
            sleep(deadline.within(_POLL_SECONDS))
        if loading.is_alive():
            raise ModelError(
                f"the local model {self.name} was not ready within the {deadline.seconds:.3g} s "
                "that were left. It is still loading: ask again, or raise max_seconds.",
                kind="deadline",
            )
        if self._failed is not None:
            raise self._failed
        return cast(process.Server, self._server)

    def _load(self) -> threading.Thread:
        self._progress, self._failed = f"Loading the local model {self.name} (0 s)", None
        self._loading = threading.Thread(target=self._start, name="archytas_nb-local", daemon=True)
        self._loading.start()
        return self._loading

    def _start(self) -> None:
        """Start the server, and have it process what questions begin with."""
        read: tuple[Message, ...] = ()
        try:
            self._server = self._started()
        except BaseException as error:  # noqa: BLE001 - raised by the question that waits
            self._failed = error
            return
        while self._to_read != read:
            read = self._to_read
            self._progress = f"The local model {self.name} is processing the tools"
            # What fails here fails again with the first question, which can handle it.
            with contextlib.suppress(ArchytasError, OSError), _watched(self._server):
                ask = AskModel(1, read, max_tokens=1)
                for _ in self._client(self._server).complete(ask):
                    pass

    def _started(self) -> process.Server:
        def note(text: str) -> None:
            self._progress = text

        path, is_first = weights.locate(self._setting, note), self._weights is None
        self._weights = path
        if is_first and not self._safe and (crash := self.crash()):  # not to crash again
            self._safe, self._crash, self._noted = True, crash, crash
            self._warning = (
                f"the local model {self.name} has crashed on this machine ({crash}), so it runs in "
                "safe mode, which is slower (to try again without: python -m archytas_nb doctor "
                "--try)"
            )
        engine = replace(self._engine, safe=True) if self._safe else self._engine
        return process.ensure_server(path, note, engine)

    def _client(self, server: process.Server, temperature: float = 0) -> OpenAIModel:
        can = capabilities_of(server.base_url, server.model)
        can.tools, can.images = False, 0
        where = (server.model, server.base_url, server.api_key, _REPLY_SECONDS, 0)
        # The engine sends how much of the prompt is read.
        client = OpenAIModel(*where, temperature=temperature, seed=1, return_progress=True)
        client.keeps_connections = False
        return client


@contextlib.contextmanager
def _watched(server: process.Server) -> Iterator[threading.Event]:
    """Kill a server that does not respond at all while it is asked; yields whether it was killed.

    A request may be silent for long: while others are before it, and while its prompt is processed.
    """
    over, hung, pause = threading.Event(), threading.Event(), HUNG_SECONDS / 3

    def watch() -> None:
        heard = time.monotonic()
        while not over.wait(pause):
            if server.answers(pause):
                heard = time.monotonic()
            elif time.monotonic() - heard >= HUNG_SECONDS and not over.is_set():
                hung.set()
                server.kill()
                return

    threading.Thread(target=watch, name="archytas_nb-watch", daemon=True).start()
    try:
        yield hung
    finally:
        over.set()


def without_contradictions(schema: Json) -> Json:
    """Remove limits that contradict each other: with them the engine would use up all memory."""
    if isinstance(schema, list):
        return [without_contradictions(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    dropped: set[str] = set()
    for low, high in _BOUNDS:
        least, most = schema.get(low), schema.get(high)
        if isinstance(least, (int, float)) and isinstance(most, (int, float)) and least > most:
            dropped |= {low, high}
    return {
        name: part if name in _VALUES else without_contradictions(part)
        for name, part in schema.items()
        if name not in dropped
    }


def temperature_for(ask: AskModel) -> float:
    """0, but more once the model has replied the same twice in a row: at 0 it would go on so."""
    replies = [message.get("content") for message in ask.messages if message["role"] == "assistant"]
    return REPEAT_TEMPERATURE if len(replies) > 1 and replies[-1] == replies[-2] else 0
