"""OpenAI-compatible endpoints. The only file that imports openai, and only when the first request is made.

History and tools travel in ``extra_body`` and streams are read line by line: the client would otherwise walk
every message on every request and build an object for every token. Retries are ours, so that a person sees them.
"""

from __future__ import annotations

import functools
import os
import time
import urllib.parse
from collections.abc import Generator
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from archytas_nb.errors import ModelError
from archytas_nb.models import faults
from archytas_nb.models.completion import ErrorInReply, NotACompletion, from_body, from_lines
from archytas_nb.react.events import AskModel, Delta, Json, ModelReply, Notice

if TYPE_CHECKING:
    import openai

OPENAI_URL = "https://api.openai.com/v1"
DEFAULT_OPENAI_MODEL = "gpt-4.1-mini"
LONGEST_WAIT = 60.0
"""Seconds; a server may ask for more with Retry-After, and is then not waited for."""

Asking: TypeAlias = Generator[Delta | Notice, None, ModelReply]
"""Yields the pieces of a reply and the retries, returns the reply."""

SchemaDialect = Literal["json_schema", "json_object", "none"]
_DIALECTS: tuple[SchemaDialect, ...] = ("json_schema", "json_object", "none")


@dataclass(slots=True)
class Capabilities:
    """What an endpoint has shown that it can do; remembered for the life of the process.

    Attributes:
        schema: How it takes a JSON schema for its reply: as ``json_schema`` (OpenAI, vLLM, Ollama, llama.cpp's
            own server), as ``json_object`` with a schema (llama-cpp-python's server), or not at all.
        tools: Whether it takes function-calling tools.
        stream_options: Whether it reports usage in a stream.
        length_field: The name of its bound on a reply's length.
    """

    schema: SchemaDialect = "json_schema"
    tools: bool = True
    stream_options: bool = True
    length_field: str = "max_tokens"


@functools.cache
def capabilities_of(base_url: str, model: str) -> Capabilities:  # noqa: ARG001 - the cache's key
    """The one record of what this model at this endpoint can do."""
    official = base_url.startswith(OPENAI_URL)
    return Capabilities(length_field="max_completion_tokens" if official else "max_tokens")


class OpenAIModel:
    """A model behind an OpenAI-compatible endpoint, be it OpenAI, vLLM, Ollama, llama.cpp or LM Studio.

    Args:
        model: The model's name; None takes the endpoint's default (for a server of one model, that one).
        base_url: Where the API begins; None takes OPENAI_BASE_URL, else OpenAI.
        api_key: None takes OPENAI_API_KEY; local servers mostly need none.
        timeout: Seconds without a byte before the request is given up.
        max_retries: How often a passing failure (429, 5xx, no connection) is tried again.
        stream: Whether replies are streamed. A streamed request ends at the server when it is interrupted.
        request: Further fields of every request, as the endpoint takes them (``temperature=0`` …).
    """

    def __init__(
        self,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        *,
        stream: bool = True,
        **request: Any,
    ) -> None:
        self.base_url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
        self._key = api_key or os.environ.get("OPENAI_API_KEY") or ""
        if not self._key and self.base_url.startswith(OPENAI_URL):
            raise ModelError(
                f"no API key for {self.base_url!r}. Set OPENAI_API_KEY, or OPENAI_BASE_URL for another endpoint.",
                kind="auth",
            )
        self._model = model
        self.timeout = 300.0 if timeout is None else timeout
        self.max_retries = 3 if max_retries is None else max_retries
        self.stream = stream
        self.request = request

    def __repr__(self) -> str:
        return f"OpenAIModel({self._model!r}, base_url={self.base_url!r})"

    @property
    def name(self) -> str:
        """The model's name, as it is shown and sent; asks the endpoint once where none was given."""
        if self._model is None:
            official = self.base_url.startswith(OPENAI_URL)
            self._model = DEFAULT_OPENAI_MODEL if official else self._first_served()
        return self._model

    @property
    def protocol(self) -> Literal["react", "native"]:
        """What ``protocol="auto"`` means here: function calling, unless the endpoint has refused it."""
        return "native" if capabilities_of(self.base_url, self.name).tools else "react"

    def complete(self, ask: AskModel) -> Asking:
        """Ask for one reply.

        Args:
            ask: The request.

        Yields:
            Pieces of text as they come, and retries with their wait.

        Returns:
            The reply.

        Raises:
            ModelError: No usable reply came; the message names the URL and the next move.
        """
        started = time.perf_counter()
        tried = 0
        while True:
            try:
                reply = yield from self._adapting(ask)
                return replace(reply, seconds=time.perf_counter() - started)
            except _Passing as failure:
                if tried >= self.max_retries or failure.wait > LONGEST_WAIT:
                    raise failure.error from None
                tried += 1
                wait = failure.wait or min(0.5 * 2 ** (tried - 1), 8.0)
                what = faults.shortened(str(failure.error), 160)
                yield Notice("retry", f"{what} Trying again in {wait:g} s ({tried} of {self.max_retries}).")
                time.sleep(wait)

    def served(self) -> list[str]:
        """The names of the models that the endpoint serves.

        Raises:
            ModelError: The endpoint does not say.
        """
        import openai

        try:
            return [model.id for model in self._client().models.list()]
        except openai.OpenAIError as error:
            raise self._translated(error, asked_with_tools=False) from error

    def _first_served(self) -> str:
        names = self.served()
        if not names:
            raise ModelError(f"the endpoint {self.base_url!r} serves no model.", kind="not_found")
        return names[0]

    def _client(self) -> openai.OpenAI:
        return _client(self.base_url, self._key or "none", self.timeout)

    def _adapting(self, ask: AskModel) -> Asking:
        """Ask, and where the endpoint rejects the form of the request, ask in the next form that it may take."""
        can = capabilities_of(self.base_url, self.name)
        while True:
            try:
                return (yield from self._once(ask, can))
            except ModelError as error:
                if error.kind == "no_tools":
                    can.tools = False
                if error.kind != "refused" or error.status not in (400, 415, 422, 501):
                    raise
                if not _lower(can, ask, str(error), streaming=self.stream):
                    raise

    def _once(self, ask: AskModel, can: Capabilities) -> Asking:
        import openai

        completions = self._client().chat.completions
        try:
            with completions.with_streaming_response.create(
                model=self.name, messages=[], stream=self.stream, extra_body=self._body(ask, can)
            ) as response:
                if self.stream:
                    return (yield from from_lines(response.iter_lines()))
                return from_body(response.read().decode("utf-8", "replace"))
        except NotACompletion as error:
            raise faults.not_an_api(self.base_url, str(error)) from None
        except ErrorInReply as error:
            raise self._for_status(500, str(error), asked_with_tools=bool(ask.tools)) from None
        except EOFError as error:
            raise _Passing(faults.dropped(self.base_url, str(error))) from None
        except openai.OpenAIError as error:
            raise self._translated(error, asked_with_tools=bool(ask.tools)) from error
        except Exception as error:
            # The client translates transport errors before the body only; in it they come as they are.
            if type(error).__module__.split(".")[0] not in ("httpx", "httpx2", "httpcore", "httpcore2"):
                raise
            raise _Passing(faults.dropped(self.base_url, f"{type(error).__name__}: {error}")) from None

    def _body(self, ask: AskModel, can: Capabilities) -> dict[str, Json]:
        body: dict[str, Json] = {"messages": ask.messages, **self.request}
        if ask.tools:
            body["tools"] = ask.tools
        if ask.max_tokens is not None:
            body.setdefault(can.length_field, ask.max_tokens)
        if self.stream and can.stream_options:
            body["stream_options"] = {"include_usage": True}
        if ask.schema is not None and can.schema == "json_schema":
            body["response_format"] = {
                "type": "json_schema",
                "json_schema": {"name": "action", "schema": ask.schema},
            }
        elif ask.schema is not None and can.schema == "json_object":
            body["response_format"] = {"type": "json_object", "schema": ask.schema}
        return body

    def _translated(self, error: openai.OpenAIError, *, asked_with_tools: bool) -> ModelError:
        import openai

        if isinstance(error, openai.APIStatusError):
            wait = _retry_after(error.response.headers.get("retry-after", ""))
            said = error.body.get("message") if isinstance(error.body, dict) else None
            said = str(said or error.response.text or error.message)
            return self._for_status(error.status_code, said, asked_with_tools=asked_with_tools, wait=wait)
        if isinstance(error, openai.APITimeoutError):
            return _Passing(faults.timed_out(self.base_url, self.timeout))
        if isinstance(error, openai.APIConnectionError):
            return _Passing(faults.unreachable(self.base_url, str(error.__cause__ or error)))
        return ModelError(
            f"the request to {self.base_url!r} failed: {faults.shortened(str(error))}", kind="server"
        )

    def _for_status(self, status: int, said: str, *, asked_with_tools: bool, wait: float = 0.0) -> ModelError:
        said = said.replace(self._key, "…") if self._key else said
        error = faults.for_status(
            status, said, self.base_url, self._model or "", asked_with_tools=asked_with_tools
        )
        passing = status in faults.RETRIED_STATUSES and error.kind != "overflow"
        return _Passing(error, wait) if passing else error


class _Passing(ModelError):
    """A failure that may pass: `error` is what is raised when it does not."""

    def __init__(self, error: ModelError, wait: float = 0.0) -> None:
        super().__init__(str(error), kind=error.kind, status=error.status)
        self.error = error
        self.wait = wait


def _lower(can: Capabilities, ask: AskModel, said: str, *, streaming: bool) -> bool:
    """Give up one thing that the endpoint may have refused; False where there is nothing left to give up."""
    if "max_completion_tokens" in said and can.length_field == "max_tokens":
        can.length_field = "max_completion_tokens"
    elif "max_tokens" in said and can.length_field == "max_completion_tokens":
        can.length_field = "max_tokens"
    elif streaming and can.stream_options and "stream_options" in said:
        can.stream_options = False
    elif ask.schema is not None and can.schema != "none":
        can.schema = _DIALECTS[_DIALECTS.index(can.schema) + 1]
    else:
        return False
    return True


def _retry_after(value: str) -> float:
    try:
        return max(0.0, float(value))
    except ValueError:
        return 0.0


@functools.lru_cache(maxsize=8)
def _client(base_url: str, api_key: str, timeout: float) -> openai.OpenAI:
    """One client for all who ask the same endpoint: the first one costs 30 ms."""
    import openai

    limits = openai.Timeout(timeout, connect=min(10.0, timeout))
    # A proxy of the environment cannot reach this machine's own servers.
    local = urllib.parse.urlsplit(base_url).hostname in ("127.0.0.1", "localhost", "::1")
    http = openai.DefaultHttpxClient(trust_env=not local, timeout=limits)
    return openai.OpenAI(base_url=base_url, api_key=api_key, max_retries=0, timeout=limits, http_client=http)
