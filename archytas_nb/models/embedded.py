"""The model on this machine: started at the first question, in safe mode if it crashes or hangs."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

from archytas_nb.errors import ArchytasError, ModelError
from archytas_nb.loop.events import AskModel, Message, Notice
from archytas_nb.models import engine as engines
from archytas_nb.models import process, weights
from archytas_nb.models.bounds import Deadline
from archytas_nb.models.capabilities import Asking, capabilities_of
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.models.engine import Engine, StartError

HUNG_SECONDS = 45.0
"""How long a server may answer nothing at all before it is taken to hang."""
_REPLY_SECONDS = 3600.0
"""How long a request may be silent: slow machines read a long prompt for minutes."""
REPEAT_TEMPERATURE = 0.8
DEFAULT_NAME = "Qwen2.5-Coder-1.5B-Instruct"
_VALUES = frozenset({"const", "enum", "default", "examples"})
_BOUNDS = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minimum", "maximum"))


class EmbeddedModel:
    """A GGUF model in a server process of this machine, shared by the notebooks of one user.

    Args:
        setting: A GGUF path or ``hf:REPO/FILE``; None takes the weights of the ``weights`` extra.
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
        self._crash = ""
        self._weights: Path | None = None
        self._noted: str | None = None
        self._server: process.Server | None = None
        self._warming: threading.Thread | None = None
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
        deadline, temperature, began = Deadline(ask.seconds), temperature_for(ask), time.monotonic()
        has_dropped = False
        while True:
            try:
                server = yield from self._ready(deadline)
            except StartError as error:
                if self._safe:
                    raise
                how = f" ({error.crash})" if error.crash else ""
                self._safe, self._crash = True, error.crash
                again = f"did not start{how}; trying again in safe mode"
                yield Notice("retry", f"the local model {self.name} {again}")
                continue
            hung = threading.Event()
            try:
                with _watched(server, hung):
                    client = self._client(server, temperature)
                    reply = yield from client.complete(replace(ask, seconds=deadline.left))
            except ModelError as error:
                if error.kind != "unreachable":
                    raise
                if server.wait_for_end():
                    yield self._crashed(server, hung=hung.is_set())
                elif has_dropped:
                    text = f"the local model {self.name} broke off twice."
                    text += " Ask again, or use another model."
                    raise ModelError(text, kind="bad_reply") from None
                else:
                    has_dropped = True
                    again = "broke off; it is asked once more"
                    yield Notice("retry", f"the local model {self.name} {again}")
            else:
                self._note_tried(time.monotonic() - began)
                return reply

    def _crashed(self, server: process.Server, *, hung: bool) -> Notice:
        """Go on in safe mode after the server has ended; an error where that was its mode."""
        crash = "" if hung else server.crash()
        what = f"crashed ({crash})" if crash else "crashed"
        if hung:
            what = f"hung: it answered nothing for {HUNG_SECONDS:g} s"
        if self._safe:
            engine = f"{self._engine.module} {self._engine.version}"
            move = engines.CAUSES.get(crash, "") + engines.OTHER_MODEL
            text = f"the local model {self.name} {what}, in safe mode, too ({engine})."
            text = f"{text} Its log is {str(server.log)!r}.\n{move}"
            raise ModelError(text, kind="unreachable") from None
        self._safe, self._crash = True, crash
        again = "it is started again in safe mode (slower; ArchytasNB.local_safe always does)"
        return Notice("retry", f"the local model {self.name} {what}; {again} and asked once more")

    def tried(self) -> tuple[float, str] | None:
        """The seconds of its first reply on this machine, and the signal that it had crashed with.

        Returns None where this version has not tried it.

        Raises:
            ConfigurationError: There are no weights, or they cannot be used.
        """
        path = self._weights or weights.find(self._setting)
        return None if path is None else engines.noted(path, self._engine)

    def forget_tried(self) -> None:
        """Forget that this model has crashed or answered; it is tried without safe mode again."""
        if path := self._weights or weights.find(self._setting):
            with contextlib.suppress(OSError):
                engines.note_file(path, self._engine).unlink(missing_ok=True)

    def warm(self, messages: Sequence[Message] = ()) -> None:
        """Start the model on a thread before it is asked anything; returns at once, raises nothing.

        Args:
            messages: What the first question will begin with, such as the system prompt: it is read
                meanwhile. Given again while it still reads, they replace what was given before.
        """
        self._to_read = tuple(messages)
        if self._warming is not None and self._warming.is_alive():
            return
        self._warming = threading.Thread(target=self._warm, name="archytas_nb-warm", daemon=True)
        self._warming.start()

    def _warm(self) -> None:
        read: tuple[Message, ...] = ()
        with contextlib.suppress(ArchytasError, OSError):  # met again by the first question
            self._start(weights.silent)
            while self._to_read != read and self._server is not None:
                read = self._to_read
                with _watched(self._server, threading.Event()):
                    for _ in self._client(self._server).complete(AskModel(1, read, max_tokens=1)):
                        pass

    def _ready(self, deadline: Deadline) -> Generator[Notice, None, process.Server]:
        """The server, which is waited for on a thread, so that progress can be shown meanwhile.

        Past the deadline that thread goes on: the next question finds the model ready.
        """
        # What is being read is how this question begins: to wait is faster than to read it twice.
        while (warming := self._warming) is not None and warming.is_alive() and not deadline.over:
            loading = f"The local model {self.name} is loading, or reading the tools"
            yield Notice("progress", loading)
            warming.join(deadline.within(0.5))
        if self._server is not None and self._server.alive():
            return self._server
        for text in _progress_of(self._start, deadline):
            yield Notice("progress", text)
        if deadline.over or self._server is None:
            raise ModelError(
                f"the local model {self.name} was not ready within the {deadline.seconds:.3g} s "
                "that were left. It goes on loading: ask again, or raise max_seconds.",
                kind="deadline",
            )
        return self._server

    def _start(self, progress: weights.Progress) -> None:
        path = weights.locate(self._setting, progress)
        if self._weights is None and (known := engines.noted(path, self._engine)):
            self._noted = known[1]
            if known[1]:  # it is not started to crash again
                self._safe, self._crash = True, known[1]
        self._weights = path
        engine = replace(self._engine, safe=True) if self._safe else self._engine
        self._server = process.ensure_server(path, progress, engine)

    def _note_tried(self, seconds: float) -> None:
        crash = self._crash if self._crash in engines.CRASHES else ""
        if self._weights is not None and self._noted != crash:
            self._noted = crash
            engines.note(self._weights, self._engine, seconds, crash)

    def _client(self, server: process.Server, temperature: float = 0) -> OpenAIModel:
        can = capabilities_of(server.base_url, server.model)
        can.tools, can.images = False, 0
        where = (server.model, server.base_url, server.api_key, _REPLY_SECONDS, 0)
        client = OpenAIModel(*where, temperature=temperature, seed=1)
        client.keeps_connections = False
        return client


@contextlib.contextmanager
def _watched(server: process.Server, hung: threading.Event) -> Iterator[None]:
    """End a server that answers nothing at all while the block asks it, and note that it hung.

    A request may be silent for long: while others are before it, and while its prompt is read.
    """
    over, pause = threading.Event(), HUNG_SECONDS / 3

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
        yield
    finally:
        over.set()


def temperature_for(ask: AskModel) -> float:
    """0, but more once the model has replied the same twice in a row: at 0 it would go on so."""
    replies = [message.get("content") for message in ask.messages if message["role"] == "assistant"]
    return REPEAT_TEMPERATURE if len(replies) > 1 and replies[-1] == replies[-2] else 0


def without_contradictions(schema: Any) -> Any:
    """A JSON schema without limits that contradict each other: they take the engine all memory."""
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


def _progress_of(
    work: Callable[[Callable[[str], None]], None], deadline: Deadline
) -> Iterator[str]:
    """Do work on a thread and yield its progress until the deadline; raise what it raises."""
    progress: queue.SimpleQueue[str | BaseException | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            work(progress.put)
        except BaseException as error:  # noqa: BLE001 - raised again on the thread that waits
            progress.put(error)
        else:
            progress.put(None)

    threading.Thread(target=run, name="archytas_nb-local-model", daemon=True).start()
    while not deadline.over:
        try:
            # A wait without an end cannot be interrupted on Windows.
            item = progress.get(timeout=deadline.within(0.2))
        except queue.Empty:
            continue
        if item is None:
            return
        if isinstance(item, BaseException):
            raise item
        yield item
