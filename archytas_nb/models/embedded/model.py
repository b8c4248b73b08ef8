"""The embedded model: started by the first question, and in safe mode after a crash or hang."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from archytas_nb.choices import ActiveProtocol
from archytas_nb.errors import ArchytasError, ConfigurationError, ModelError
from archytas_nb.files import OutputFile
from archytas_nb.loop.events import AskModel, Delta, Json, Message, Notice
from archytas_nb.loop.model import ReplyStream
from archytas_nb.loop.stop import sleep
from archytas_nb.models.bounds import Deadline
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.models.embedded import process, weights
from archytas_nb.models.embedded.process import Engine, StartError
from archytas_nb.models.endpoint import OpenAIModel

HUNG_SECONDS = 45.0
"""Seconds without any response after which the server counts as hanging."""
REMEMBERED_SECONDS = 86_400.0
"""How long later notebooks start in safe mode after a crash; its cause may be fixed by then."""
_POLL_SECONDS = 0.05
_REPLY_SECONDS = 3600.0
"""Timeout of a request: slow machines process a long prompt for minutes."""
_DEFAULTS: dict[str, Any] = {"api": "auto", "effort": "auto"}
"""In place of the settings, which are for endpoints."""
REPEAT_TEMPERATURE = 0.8
DEFAULT_NAME = "Qwen2.5-Coder-1.5B-Instruct"

_VALUES = frozenset({"const", "enum", "default", "examples"})
_BOUNDS = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minimum", "maximum"))


class EmbeddedModel:
    """A GGUF model in a server process of this machine, shared by the notebooks of one user.

    Args:
        setting: A GGUF path or ``hf:REPO/FILE``; None for the weights of the ``weights`` extra.
        engine: The engine's settings; None for the defaults.
    """

    # The engine does not parse tool calls for most models, but can constrain replies to a grammar,
    # and small models solve more tasks with programs (see benchmarks/success/RESULTS.md).
    protocol: ActiveProtocol = "program"
    is_small = True
    continues_replies = True
    has_grammars = True
    price = None

    def __init__(self, setting: str | None = None, engine: Engine | None = None) -> None:
        self._setting = setting
        self._engine = engine or Engine()
        self._safe = self._engine.safe
        self._crash = self._recorded_crash = self._warning = ""
        self.instead_of = ""  # why another model is not used, shown with the first reply
        self._weights: Path | None = None
        self._server: process.Server | None = None
        self._loading: threading.Thread | None = None
        self._progress = ""
        self._failed: BaseException | None = None
        self._warm_up: tuple[Message, ...] = ()

    def __repr__(self) -> str:
        return f"EmbeddedModel({self._setting!r})"

    @property
    def name(self) -> str:
        """The displayed name of the model."""
        if self._setting:
            return Path(self._setting.rpartition("/")[2]).stem
        return DEFAULT_NAME

    @property
    def context_tokens(self) -> int:
        """Maximum number of tokens of a conversation and its reply together."""
        return self._engine.context

    def require(self) -> None:
        """Raise ConfigurationError if the engine or the weights are not installed."""
        self._engine.require()
        weights.check(self._setting)

    def complete(self, ask: AskModel) -> ReplyStream:
        """Request one reply as soon as the model is ready.

        Yields:
            Progress, and pieces of text as they are generated.

        Raises:
            ConfigurationError: The weights or the engine are not installed.
            ModelError: The server did not start, or crashed even in safe mode.
        """
        if self.instead_of:
            notice = self.instead_of
            self.instead_of = ""
            yield Notice("model", notice)
        return (yield from self._reply(ask))

    def _reply(self, ask: AskModel) -> ReplyStream:
        """Request one reply, again in safe mode if the server does not start or crashes."""
        ask = replace(ask, schema=without_contradictions(ask.schema))
        deadline = Deadline(ask.seconds)
        while True:
            try:
                server = yield from self._ready_server(deadline)
            except StartError as error:
                if self._safe:
                    raise
                how = ""
                if error.crash:
                    how = f" ({error.crash})"
                what = f"did not start{how}; trying again in safe mode"
                yield self._switch_to_safe_mode(error.crash, what)
                continue
            if self._warning:
                warning = self._warning
                self._warning = ""
                yield Notice("retry", warning)
            if server.is_busy():
                yield Delta("status", "waiting for another question to the local model")
            # With the same seed, the same request would get the same reply at any temperature.
            client = self._client(server, temperature_for(ask), seed=ask.step)
            try:
                with _killed_if_hung(server) as hung:
                    reply = yield from client.complete(replace(ask, seconds=deadline.left))
            except ModelError as error:
                if error.kind != "unreachable" or not server.wait_for_end():
                    raise
                yield self._after_crash(server, hung=hung.is_set())
            else:
                self._remember_crash()
                return reply

    def _switch_to_safe_mode(self, crash: str, what: str) -> Notice:
        self._safe = True
        self._crash = crash
        return Notice("retry", f"the local model {self.name} {what}")

    def _after_crash(self, server: process.Server, *, hung: bool) -> Notice:
        """Continue in safe mode after the server has ended; raise if it was in safe mode."""
        crash = ""
        if not hung:
            crash = server.crash()
        what = "crashed"
        if crash:
            what = f"crashed ({crash})"
        if hung:
            what = f"hung: it sent nothing for {HUNG_SECONDS:g} s"
        if self._safe:
            engine = f"{self._engine.module} {self._engine.version}"
            advice = process.CRASH_HINTS.get(crash, "") + process.USE_ANOTHER_MODEL
            text = f"the local model {self.name} {what}, even in safe mode ({engine})."
            text = f"{text} Its log is {str(server.log)!r}.\n{advice}"
            raise ModelError(text, kind="unreachable") from None
        again = "restarting in safe mode (slower; set ArchytasNB.local_safe to always use it)"
        return self._switch_to_safe_mode(crash, f"{what}; {again}")

    # ── crashes in earlier notebooks ──────────────────────────────────────────────────────────────

    def crash(self) -> str:
        """The signal of a crash outside safe mode on this machine in the last day, or empty.

        Raises:
            ConfigurationError: The weights are missing or cannot be used.
        """
        text = ""
        if path := self._weights or weights.find(self._setting):
            with contextlib.suppress(OSError, UnicodeDecodeError, ConfigurationError):
                note = self._note(path)
                if time.time() - note.stat().st_mtime < REMEMBERED_SECONDS:
                    text = note.read_text(encoding="utf-8")
        if text in process.CRASHES:
            return text
        return ""

    def forget_crash(self) -> None:
        """Delete the record of a crash, so that the model starts without safe mode again."""
        if path := self._weights or weights.find(self._setting):
            with contextlib.suppress(OSError, ConfigurationError):
                self._note(path).unlink(missing_ok=True)

    def _note(self, path: Path) -> Path:
        return process.run_dir() / f"{self._engine.identity(path)}.crash"

    def _remember_crash(self) -> None:
        """Record a crash that did not recur in safe mode."""
        if self._weights and self._crash in process.CRASHES and self._crash != self._recorded_crash:
            self._recorded_crash = self._crash
            with contextlib.suppress(OSError, ConfigurationError):
                note = OutputFile(self._note(self._weights), "the note", is_private=True)
                note.write(self._crash)

    # ── starting ──────────────────────────────────────────────────────────────────────────────────

    def warm(self, messages: Sequence[Message] = ()) -> None:
        """Start the model in a thread before the first question; does not wait and never raises.

        Args:
            messages: The first messages of the question to come, such as the system prompt; the
                model processes them in advance. A further call replaces messages that are pending.
        """
        self._warm_up = tuple(messages)
        if self._loading is None or not self._loading.is_alive():
            self._load()

    def _ready_server(self, deadline: Deadline) -> Generator[Notice, None, process.Server]:
        """The server, started in a thread, so that progress can be shown.

        The thread continues after the deadline, so that the model is ready for the next question.
        """
        loading = self._loading
        if loading is None or not loading.is_alive():
            if self._server is not None and self._server.alive():
                return self._server
            self._warm_up = ()
            loading = self._load()
        shown = ""
        # It may be processing the start of this question: waiting is faster than doing it twice.
        while loading.is_alive() and not deadline.passed:
            if (progress := self._progress) != shown:
                yield Notice("progress", shown := progress)
            sleep(deadline.cap(_POLL_SECONDS))
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
        self._progress = f"Loading the local model {self.name} (0 s)"
        self._failed = None
        self._loading = threading.Thread(target=self._start, name="archytas_nb-local", daemon=True)
        self._loading.start()
        return self._loading

    def _start(self) -> None:
        """Start the server, and have it process the first messages of a question."""
        read: tuple[Message, ...] = ()
        try:
            self._server = self._start_server()
        except BaseException as error:  # noqa: BLE001 - raised again by the waiting question
            self._failed = error
            return
        while self._warm_up != read:
            read = self._warm_up
            self._progress = f"The local model {self.name} is processing the tools"
            # Errors recur with the first question, which can handle them.
            with contextlib.suppress(ArchytasError, OSError), _killed_if_hung(self._server):
                ask = AskModel(1, read, max_tokens=1)
                for _ in self._client(self._server).complete(ask):
                    pass

    def _start_server(self) -> process.Server:
        def note(text: str) -> None:
            self._progress = text

        path = weights.locate(self._setting, note)
        is_first = self._weights is None
        self._weights = path
        if is_first and not self._safe and (crash := self.crash()):
            self._safe = True
            self._crash = crash
            self._recorded_crash = crash
            self._warning = (
                f"the local model {self.name} has crashed on this machine ({crash}), so it runs in "
                "safe mode, which is slower (to try again without: python -m archytas_nb doctor "
                "--try)"
            )
        engine = self._engine
        if self._safe:
            engine = replace(engine, safe=True)
        return process.ensure_server(path, note, engine)

    def _client(
        self, server: process.Server, temperature: float = 0, *, seed: int = 1
    ) -> OpenAIModel:
        can = capabilities_of(server.base_url, server.model, "openai")
        can.tools = False
        can.grammars = True
        can.images = 0
        where = (server.model, server.base_url, server.api_key, _REPLY_SECONDS, 0)
        # The engine then reports how much of the prompt has been processed.
        client = OpenAIModel(
            *where, temperature=temperature, seed=seed, return_progress=True, **_DEFAULTS
        )
        client.keeps_connections = False
        return client


@contextlib.contextmanager
def _killed_if_hung(server: process.Server) -> Iterator[threading.Event]:
    """Kill the server if it stops responding during a request; yields whether it was killed.

    A request itself may be silent for long: while it is queued, and while its prompt is processed.
    """
    over = threading.Event()
    hung = threading.Event()
    pause = HUNG_SECONDS / 3

    def watch() -> None:
        last_response = time.monotonic()
        while not over.wait(pause):
            if server.answers(pause):
                last_response = time.monotonic()
            elif time.monotonic() - last_response >= HUNG_SECONDS and not over.is_set():
                hung.set()
                server.kill()
                return

    threading.Thread(target=watch, name="archytas_nb-watch", daemon=True).start()
    try:
        yield hung
    finally:
        over.set()


def without_contradictions(schema: Json) -> Json:
    """Remove contradictory limits, with which the engine would use up all memory."""
    if isinstance(schema, list):
        return [without_contradictions(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    dropped: set[str] = set()
    for low, high in _BOUNDS:
        least = schema.get(low)
        most = schema.get(high)
        if isinstance(least, (int, float)) and isinstance(most, (int, float)) and least > most:
            dropped |= {low, high}
    result: dict[str, Json] = {}
    for name, part in schema.items():
        if name in _VALUES and name not in dropped:
            result[name] = part
        elif name not in dropped:
            result[name] = without_contradictions(part)
    return result


def temperature_for(ask: AskModel) -> float:
    """The requested temperature, or 0; more after two identical replies, which 0 would repeat."""
    if ask.temperature is not None:
        return ask.temperature
    if ask.is_continued:
        # Its last message is not a reply, but the beginning of one.
        return 0
    replies = [message.get("content") for message in ask.messages if message["role"] == "assistant"]
    if len(replies) > 1 and replies[-1] == replies[-2]:
        return REPEAT_TEMPERATURE
    return 0
