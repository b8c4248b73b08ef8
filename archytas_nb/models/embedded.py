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
from typing import Any, Literal

from archytas_nb.errors import ArchytasError, ModelError
from archytas_nb.models import process, weights
from archytas_nb.models.asking import Asking
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.models.deadline import Deadline
from archytas_nb.models.engine import PING_SECONDS, Engine
from archytas_nb.models.openai_chat import OpenAIModel
from archytas_nb.react.events import AskModel, Message, Notice

HUNG_SECONDS = 3.0 * PING_SECONDS
"""How long the server may send nothing at all, not even a ping, before it is taken to hang."""

REPEAT_TEMPERATURE = 0.8

DEFAULT_NAME = "Qwen2.5-Coder-1.5B-Instruct"

_VALUES = frozenset({"const", "enum", "default", "examples"})
_BOUNDS = (("minLength", "maxLength"), ("minItems", "maxItems"), ("minimum", "maximum"))

_OTHER_MODEL = (
    "Use another model: name an endpoint (OPENAI_API_KEY or OPENAI_BASE_URL), or a smaller GGUF file "
    "(%config ArchytasNB.local_model)."
)
_WHY = {
    "SIGILL": "This processor lacks instructions that the prebuilt engine needs (AVX2 on x86).",
    "SIGKILL": "The system ended it, most likely for its memory.",
}


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
        self._safe = False
        self._weights: Path | None = None
        self._noted: bool | None = None
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
            ModelError: The server did not start, or crashed also in safe mode.
        """
        ask = replace(ask, schema=without_contradictions(ask.schema))
        deadline, temperature, began = Deadline(ask.seconds), temperature_for(ask), time.monotonic()
        is_last = False
        while True:
            try:
                endpoint = yield from self._ready(deadline)
            except process.StartError as error:
                if self._safe:
                    raise _with_move(error) from None
                self._safe = True
                yield Notice("retry", f"the local model {self.name} did not start; trying again in safe mode")
                continue
            try:
                client = self._client(endpoint, temperature)
                reply = yield from client.complete(replace(ask, seconds=deadline.left))
            except ModelError as error:
                if error.kind not in ("unreachable", "timeout"):
                    raise
                what, crash = self._explained(endpoint, error)
                if is_last:
                    raise self._given_up(endpoint, what, crash) from None
                is_last = True
                again = "it is asked once more"
                if not process.alive(endpoint):
                    self._safe = True
                    again = "it is started again in safe mode (slower) and asked once more"
                yield Notice("retry", f"the local model {self.name} {what}; {again}")
            else:
                self._note_tried(time.monotonic() - began)
                return reply

    def _explained(self, endpoint: process.Endpoint, error: ModelError) -> tuple[str, str]:
        """What became of a request that broke off, and the signal that the server died of, where it did."""
        if error.kind == "timeout":
            process.kill(endpoint)
            return f"hung: it sent nothing for {HUNG_SECONDS:g} s", ""
        if process.wait_for_end(endpoint):
            crash, _ = process.crash_of(endpoint)
            return f"crashed ({crash})" if crash else "crashed", crash
        return "broke off", ""

    def _given_up(self, endpoint: process.Endpoint, what: str, crash: str) -> ModelError:
        if process.alive(endpoint):
            text = f"the local model {self.name} {what}, for the second time. Ask again, or use another model."
            return ModelError(text, kind="bad_reply")
        _, log = process.crash_of(endpoint)
        engine = f"{self._engine.module} {self._engine.version}".strip()
        text = f"the local model {self.name} {what}, also in safe mode ({engine}). Its log is {str(log)!r}."
        return _with_move(ModelError(text, kind="unreachable"), crash)

    def tried(self) -> process.Tried | None:
        """Whether this model has answered on this machine, with this version; None where it was not tried.

        Raises:
            ConfigurationError: There are no weights, or they cannot be used.
        """
        path = self._weights or weights.find(self._setting)
        return None if path is None else process.tried(path, self._engine)

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
                for _ in self._client(self._endpoint).complete(AskModel(1, read, max_tokens=1)):
                    pass

    def _ready(self, deadline: Deadline) -> Generator[Notice, None, process.Endpoint]:
        """The server's address. It is waited for on a thread, so that progress can be shown meanwhile.

        Past the deadline that thread goes on: the next question finds the model ready.
        """
        if self._endpoint is not None and process.alive(self._endpoint):
            return self._endpoint
        if self._warming is not None and self._warming.is_alive():
            yield Notice("progress", f"Loading the local model {self.name}, which is kept warm")
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
            if known is not None:  # where it has crashed before, it is not started to crash again
                self._safe, self._noted = self._safe or known.safe, known.safe
        self._weights = path
        engine = self._engine.in_safe_mode() if self._safe else self._engine
        self._endpoint = process.ensure_server(path, progress, engine)

    def _note_tried(self, seconds: float) -> None:
        if self._weights is not None and self._noted is not self._safe:
            self._noted = self._safe
            process.note_tried(self._weights, self._engine, process.Tried(seconds, self._safe))

    def _client(self, endpoint: process.Endpoint, temperature: float = 0) -> OpenAIModel:
        can = capabilities_of(endpoint.base_url, endpoint.model)
        can.schema, can.tools, can.images = "json_schema", False, 0
        client = OpenAIModel(
            endpoint.model, endpoint.base_url, endpoint.api_key, HUNG_SECONDS, 0, temperature=temperature, seed=1
        )
        # A long prompt is read for minutes on a slow machine, and pings come meanwhile.
        client.is_llama_cpp = True
        return client


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


def _with_move(error: ModelError, crash: str = "") -> ModelError:
    """The error with why it happened, where that is known, and what to do next."""
    more = f"{_WHY[crash]} " if crash in _WHY else ""
    return ModelError(f"{error}\n{more}{_OTHER_MODEL}", kind=error.kind)


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
