"""The model on this machine: found or started when it is first asked, started again once if it dies.

It joins the two halves, `local` (a server process) and `openai_chat` (how to speak to it), and knows neither
a kernel nor a screen: progress is yielded, like everything else that a model has to say.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Generator, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Literal

from archytas_nb.errors import ModelError
from archytas_nb.models import local, weights
from archytas_nb.models.asking import Asking
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.models.deadline import Deadline
from archytas_nb.models.local_engine import Engine
from archytas_nb.models.local_schema import for_engine
from archytas_nb.models.openai_chat import OpenAIModel
from archytas_nb.react.events import AskModel, Notice

DEFAULT_NAME = "Qwen2.5-Coder-1.5B-Instruct"


class EmbeddedModel:
    """A GGUF model in a server process of this machine, shared by the notebooks of one user.

    Args:
        setting: A GGUF path or ``hf:REPO/FILE``; None takes the weights of the ``weights`` extra.
    """

    # The engine does not fill in tool calls for most models, but it can bind a reply to a schema.
    protocol: Literal["react", "native"] = "react"

    is_small = True
    """Its answers are held against the outcomes, because it invents numbers."""

    price = None
    """It costs nothing but electricity."""

    def __init__(self, setting: str | None = None) -> None:
        self._setting = setting
        self._endpoint: local.Endpoint | None = None

    def __repr__(self) -> str:
        return f"EmbeddedModel({self._setting!r})"

    @property
    def name(self) -> str:
        """The model's name, as it is shown."""
        return Path(self._setting.rpartition("/")[2]).stem if self._setting else DEFAULT_NAME

    @property
    def context_tokens(self) -> int:
        """Tokens that a conversation and its reply may have together."""
        return Engine().context if self._endpoint is None else self._endpoint.context

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
        deadline = Deadline(ask.seconds)
        endpoint = yield from self._ready(deadline)
        try:
            return (yield from self._client(endpoint).complete(replace(ask, seconds=deadline.left)))
        except ModelError as error:
            if error.kind != "unreachable" or local.alive(endpoint):
                raise
        yield Notice("retry", f"the local model {self.name} died; it is started again and asked once more")
        endpoint = yield from self._ready(deadline)
        return (yield from self._client(endpoint).complete(replace(ask, seconds=deadline.left)))

    def _ready(self, deadline: Deadline) -> Generator[Notice, None, local.Endpoint]:
        """The server's address. It is waited for on a thread, so that progress can be shown meanwhile.

        Past the deadline that thread goes on: the next question finds the model ready.
        """
        if self._endpoint is not None and local.alive(self._endpoint):
            return self._endpoint

        def start(progress: Callable[[str], None]) -> None:
            self._endpoint = local.ensure_server(weights.locate(self._setting, progress), progress)

        for text in _watched(start, deadline):
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

    def _client(self, endpoint: local.Endpoint) -> OpenAIModel:
        can = capabilities_of(endpoint.base_url, endpoint.model)
        can.schema, can.tools, can.images = "json_object", False, 0
        return OpenAIModel(
            endpoint.model, endpoint.base_url, endpoint.api_key, max_retries=0, temperature=0, seed=1
        )


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
