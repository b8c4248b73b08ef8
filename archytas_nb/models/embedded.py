"""The model on this machine: started when it is first asked, and once more in safe mode if it crashes or hangs.

It joins `process`, which runs the engine, and `openai_chat`, which speaks to it. Progress is yielded, like
everything else that a model has to say.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Self

from archytas_nb.errors import ArchytasError, ModelError
from archytas_nb.loop.events import AskModel, Message, Notice
from archytas_nb.models import process, weights
from archytas_nb.models.asking import Asking
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.models.crashes import FAULTS, StartError, reply_error
from archytas_nb.models.deadline import Deadline
from archytas_nb.models.engine import Engine
from archytas_nb.models.openai_chat import OpenAIModel

HUNG_SECONDS = 45.0
"""How long a server may answer nothing at all before it is taken to hang."""

_REPLY_SECONDS = 3600.0
"""How long a request may be silent: a slow machine reads a long prompt for minutes, perhaps after another one."""

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

    # The engine does not fill in tool calls for most models, but it can bind a reply to a schema.
    protocol: Literal["react", "native"] = "react"

    is_small = True
    """Its answers are held against the outcomes, because it invents numbers."""

    price = None
    """It costs nothing but electricity."""

    def __init__(self, setting: str | None = None, engine: Engine | None = None) -> None:
        self._setting = setting
        self._engine = engine or Engine()
        self._safe = self._engine.safe
        self._crash = ""
        self._weights: Path | None = None
        self._noted: str | None = None
        self._endpoint: process.Endpoint | None = None
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

        Args:
            ask: The request.

        Yields:
            What is being waited for, and pieces of text as they come.

        Returns:
            The reply.

        Raises:
            ConfigurationError: There are no weights, or no engine to run them.
            ModelError: The server did not start, or crashed in safe mode, too.
        """
        ask = replace(ask, schema=without_contradictions(ask.schema))
        deadline, temperature, began = Deadline(ask.seconds), temperature_for(ask), time.monotonic()
        has_dropped = False
        while True:
            try:
                endpoint = yield from self._ready(deadline)
            except StartError as error:
                if self._safe:
                    raise
                how = f" ({error.crash})" if error.crash else ""
                self._safe, self._crash = True, error.crash
                yield Notice(
                    "retry",
                    f"the local model {self.name} did not start{how}; trying again in safe mode",
                )
                continue
            try:
                with _Watch(endpoint) as watch:
                    client = self._client(endpoint, temperature)
                    reply = yield from client.complete(replace(ask, seconds=deadline.left))
            except ModelError as error:
                if error.kind != "unreachable":
                    raise
                if process.wait_for_end(endpoint):
                    yield self._crashed(endpoint, watch)
                elif has_dropped:
                    text = f"the local model {self.name} broke off twice. Ask again, or use another model."
                    raise ModelError(text, kind="bad_reply") from None
                else:
                    has_dropped = True
                    yield Notice(
                        "retry", f"the local model {self.name} broke off; it is asked once more"
                    )
            else:
                self._note_tried(time.monotonic() - began)
                return reply

    def _crashed(self, endpoint: process.Endpoint, watch: _Watch) -> Notice:
        """Go on in safe mode after the server has ended.

        Raises:
            ModelError: It was in safe mode already.
        """
        crash, log = process.crash_of(endpoint)
        what = f"crashed ({crash})" if crash else "crashed"
        if watch.hung:
            what, crash = f"hung: it answered nothing for {HUNG_SECONDS:g} s", ""
        if self._safe:
            raise reply_error(self.name, what, crash, log, self._engine) from None
        self._safe, self._crash = True, crash
        again = "it is started again in safe mode (slower; ArchytasNB.local_safe always does) and asked once more"
        return Notice("retry", f"the local model {self.name} {what}; {again}")

    def tried(self) -> process.Tried | None:
        """Whether this model has answered on this machine, with this version; None where it was not tried.

        Raises:
            ConfigurationError: There are no weights, or they cannot be used.
        """
        path = self._weights or weights.find(self._setting)
        return None if path is None else process.tried(path, self._engine)

    def forget_tried(self) -> None:
        """Forget that this model has crashed or answered, so that it is tried without safe mode again."""
        if path := self._weights or weights.find(self._setting):
            process.forget_tried(path, self._engine)

    def warm(self, messages: Sequence[Message] = ()) -> None:
        """Start the model before it is asked anything, on a thread; returns at once, and raises nothing.

        What goes wrong is met again, and said, by the first question.

        Args:
            messages: What the first question will begin with, such as the system prompt: it is read meanwhile.
                Given again while it still reads, they count in place of what was given before.
        """
        self._to_read = tuple(messages)
        if self._warming is not None and self._warming.is_alive():
            return
        self._warming = threading.Thread(target=self._warm, name="archytas_nb-warm", daemon=True)
        self._warming.start()

    def _warm(self) -> None:
        read: tuple[Message, ...] = ()
        with contextlib.suppress(ArchytasError, OSError):
            self._start(weights.silent)
            while self._to_read != read and self._endpoint is not None:
                read = self._to_read
                with _Watch(self._endpoint):
                    for _ in self._client(self._endpoint).complete(AskModel(1, read, max_tokens=1)):
                        pass

    def _ready(self, deadline: Deadline) -> Generator[Notice, None, process.Endpoint]:
        """The server's address. It is waited for on a thread, so that progress can be shown meanwhile.

        Past the deadline that thread goes on: the next question finds the model ready.
        """
        # What is read beforehand is how this question begins: to wait for it is faster than to read it twice.
        while (warming := self._warming) is not None and warming.is_alive() and not deadline.over:
            yield Notice(
                "progress", f"The local model {self.name} is loading, or reading the tools"
            )
            warming.join(deadline.within(0.5))
        if self._endpoint is not None and process.alive(self._endpoint):
            return self._endpoint
        for text in _watched(self._start, deadline):
            yield Notice("progress", text)
        if deadline.over:
            raise ModelError(
                f"the local model {self.name} was not ready within the {deadline.seconds:.3g} s that were left. "
                "It goes on loading: ask again, or raise max_seconds.",
                kind="deadline",
            )
        if self._endpoint is None:
            raise ModelError(f"the local model {self.name} gave no address", kind="unreachable")
        return self._endpoint

    def _start(self, progress: weights.Progress) -> None:
        path = weights.locate(self._setting, progress)
        if self._weights is None:
            known = process.tried(path, self._engine)
            if known is not None:
                self._noted = known.crash
                if known.crash:  # it is not started to crash again
                    self._safe, self._crash = True, known.crash
        self._weights = path
        engine = self._engine.in_safe_mode() if self._safe else self._engine
        self._endpoint = process.ensure_server(path, progress, engine)

    def _note_tried(self, seconds: float) -> None:
        crash = self._crash if self._crash in FAULTS else ""
        if self._weights is not None and self._noted != crash:
            self._noted = crash
            process.note_tried(self._weights, self._engine, process.Tried(seconds, crash))

    def _client(self, endpoint: process.Endpoint, temperature: float = 0) -> OpenAIModel:
        can = capabilities_of(endpoint.base_url, endpoint.model)
        can.schema, can.tools, can.images = "json_schema", False, 0
        client = OpenAIModel(
            endpoint.model,
            endpoint.base_url,
            endpoint.api_key,
            _REPLY_SECONDS,
            0,
            temperature=temperature,
            seed=1,
        )
        client.keeps_connections = False
        return client


class _Watch:
    """Ends a server that answers nothing at all while it is asked for a reply.

    A request itself may be silent for long: while others are before it, and while its prompt is read.
    """

    def __init__(self, endpoint: process.Endpoint) -> None:
        self._endpoint = endpoint
        self._over = threading.Event()
        self.hung = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._look, name="archytas_nb-watch", daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()

    def _look(self) -> None:
        pause, heard = HUNG_SECONDS / 3, time.monotonic()
        while not self._over.wait(pause):
            if process.answers(self._endpoint, pause):
                heard = time.monotonic()
            elif time.monotonic() - heard >= HUNG_SECONDS and not self._over.is_set():
                self.hung = True
                process.kill(self._endpoint)
                return


def temperature_for(ask: AskModel) -> float:
    """The temperature of a request: 0, but above it once the model has replied the same twice in a row.

    At 0 a small model that repeats itself does so until a limit ends the run.
    """
    replies = [message.get("content") for message in ask.messages if message["role"] == "assistant"]
    return REPEAT_TEMPERATURE if len(replies) > 1 and replies[-1] == replies[-2] else 0


def without_contradictions(schema: Any) -> Any:
    """A JSON schema without the bounds that nothing can be within.

    For a string whose least length is above its greatest the engine takes all memory of the machine. Any other
    schema that it cannot turn into a grammar it refuses, and is then asked without one.
    """
    if isinstance(schema, list):
        return [without_contradictions(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    dropped = {
        name
        for low, high in _BOUNDS
        if isinstance(least := schema.get(low), (int, float))
        and isinstance(most := schema.get(high), (int, float))
        and least > most
        for name in (low, high)
    }
    return {
        name: part if name in _VALUES else without_contradictions(part)
        for name, part in schema.items()
        if name not in dropped
    }


def _watched(work: Callable[[Callable[[str], None]], None], deadline: Deadline) -> Iterator[str]:
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
            # A wait without a bound cannot be interrupted on Windows.
            item = progress.get(timeout=deadline.within(0.2))
        except queue.Empty:
            continue
        if item is None:
            return
        if isinstance(item, BaseException):
            raise item
        yield item
