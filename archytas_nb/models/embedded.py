"""The model on this machine: found or started when it is first asked, started again once if it dies or hangs.

It joins the two halves, `local` (a server process) and `openai_chat` (how to speak to it), and knows neither
a kernel nor a screen: progress is yielded, like everything else that a model has to say.
"""

from __future__ import annotations

import contextlib
import queue
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal

from archytas_nb.errors import ArchytasError, ModelError
from archytas_nb.models import local, local_watch, weights
from archytas_nb.models.asking import Asking
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.models.deadline import Deadline
from archytas_nb.models.images import seen
from archytas_nb.models.local_engine import Engine
from archytas_nb.models.local_schema import for_engine
from archytas_nb.models.openai_chat import OpenAIModel
from archytas_nb.react.events import AskModel, Message, Notice

_PATIENCE = 3600.0
"""Seconds without a word: a slow machine reads a long prompt for minutes, and another notebook's reply may come
first. A server that hangs is noticed long before, and a run has its own deadline."""

CHANCE = 0.8
PENALTY = 1.0
"""None. The engine's own default is 1.1: a reply then avoids the names and digits that it has to repeat."""

DEFAULT_NAME = "Qwen2.5-Coder-1.5B-Instruct"


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
        self._endpoint: local.Endpoint | None = None
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
            ModelError: The server did not start, or died twice.
        """
        ask = replace(ask, schema=None if ask.schema is None else for_engine(ask.schema))
        deadline, chance = Deadline(ask.seconds), chance_for(ask)
        for is_last in (False, True):
            endpoint = yield from self._ready(deadline)
            with local_watch.Watch(endpoint, local.kill) as watch:
                try:
                    return (
                        yield from self._client(endpoint, chance).complete(replace(ask, seconds=deadline.left))
                    )
                except ModelError as error:
                    if error.kind != "unreachable":
                        raise
                    what = self._mishap(endpoint, ask, watch)
                    if is_last:
                        raise self._given_up(endpoint, what) from None
            again = "it is asked" if local.alive(endpoint) else "it is started again and asked"
            yield Notice("retry", f"the local model {self.name} {what}; {again} once more")
        raise AssertionError("the second attempt returns or raises")

    def _given_up(self, endpoint: local.Endpoint, what: str) -> ModelError:
        text = f"the local model {self.name} {what}, for the second time. Its log is in {str(local.log_dir())!r}."
        return ModelError(text, kind="bad_reply" if local.alive(endpoint) else "unreachable")

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

    def _mishap(self, endpoint: local.Endpoint, ask: AskModel, watch: local_watch.Watch) -> str:
        """What became of a request that broke off.

        Raises:
            ModelError: It was too long. The engine says so in a reply that is not streamed only; a stream just
                ends, with status 200.
        """
        if watch.hung:
            local.kill(endpoint)
            return f"hung: it answered nothing at all for {local_watch.HUNG_SECONDS:g} s"
        text = "\n".join(str(message.get("content") or "") for message in seen(ask.messages, 0))
        tokens = local_watch.tokens_of(endpoint, text)
        if tokens is None and not local_watch.answers(endpoint, local.BUSY_SECONDS):
            local.kill(endpoint)  # or wait until it is gone: its connections do not all end in the same moment
            return "died"
        # A chat template adds about five tokens to a message. Where the engine does not count, and the text is
        # no language that we know, three characters a token are more than it has.
        tokens = len(text) // 3 if tokens is None else tokens + 5 * len(ask.messages)
        if tokens < 0.98 * endpoint.context:
            return "broke off"
        raise ModelError(
            f"the conversation is too long for the local model {self.name}: it has about {tokens} tokens of the "
            f"{endpoint.context} that it takes. Begin anew with agent.reset(), or use one with a longer context.",
            kind="overflow",
        )

    def _ready(self, deadline: Deadline) -> Generator[Notice, None, local.Endpoint]:
        """The server's address. It is waited for on a thread, so that progress can be shown meanwhile.

        Past the deadline that thread goes on: the next question finds the model ready.
        """
        if self._endpoint is not None and local.alive(self._endpoint):
            return self._endpoint
        if self._warming is not None and self._warming.is_alive():
            yield Notice("progress", f"Loading the local model {self.name}, as it was told to be warm")
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
        self._endpoint = local.ensure_server(path, progress, self._engine)

    def _client(self, endpoint: local.Endpoint, temperature: float = 0) -> OpenAIModel:
        can = capabilities_of(endpoint.base_url, endpoint.model)
        can.schema, can.tools, can.images = "json_object", False, 0
        return OpenAIModel(
            endpoint.model, endpoint.base_url, endpoint.api_key, _PATIENCE, 0,
            temperature=temperature, seed=1, repeat_penalty=PENALTY,
        )  # fmt: skip


def chance_for(ask: AskModel) -> float:
    """The temperature of a request: 0, but above it once the model has said the same thing twice in a row.

    Without chance a small model that repeats itself does so until a limit ends the run.
    """
    said = [message.get("content") for message in ask.messages if message["role"] == "assistant"]
    return CHANCE if len(said) > 1 and said[-1] == said[-2] else 0


def _watched(work: Callable[[Callable[[str], None]], None], deadline: Deadline) -> Iterator[str]:
    """Do work on a thread and yield what it says until the deadline; raise what it raises."""
    said: queue.SimpleQueue[str | BaseException | None] = queue.SimpleQueue()

    def run() -> None:
        try:
            work(said.put)
        except BaseException as error:  # noqa: BLE001 - raised again on the thread that waits
            said.put(error)
        else:
            said.put(None)

    threading.Thread(target=run, name="archytas_nb-local-model", daemon=True).start()
    while not deadline.over:
        try:
            item = said.get(
                timeout=deadline.within(0.2)
            )  # a wait without a bound cannot be interrupted on Windows
        except queue.Empty:
            continue
        if item is None:
            return
        if isinstance(item, BaseException):
            raise item
        yield item
