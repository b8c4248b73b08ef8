"""Models behind OpenAI-compatible endpoints. The only file that imports openai, at first use."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from typing import Any

from archytas_nb.loop.events import AskModel
from archytas_nb.models import choose
from archytas_nb.models.capabilities import Capabilities, body_of, capabilities_of
from archytas_nb.models.completion import CompletionReply, GrowingReply
from archytas_nb.models.providers import OPENAI_URL
from archytas_nb.models.remote import Package, RemoteModel, close_clients

__all__ = ["DEFAULT_OPENAI_MODEL", "OpenAIModel", "close_clients"]

DEFAULT_OPENAI_MODEL = "gpt-4.1-mini"


class OpenAIModel(RemoteModel):
    """A model behind an OpenAI-compatible endpoint, such as OpenAI, vLLM, Ollama or LM Studio.

    Args:
        model: The model's name; None takes the endpoint's default, or its first model.
        base_url: Where the API begins; None takes OPENAI_BASE_URL, else OpenAI.
        api_key: None takes OPENAI_API_KEY; local servers mostly need none.
        timeout: Seconds without data before a request is given up; None for 300.
        max_retries: How often a failure that may pass (429, 5xx, no connection) is tried again;
            None for 3.
        stream: Whether replies are streamed. An interrupt ends a streamed request at the server.
        headers: Further headers of every request (``{"X-Team": "data"}``).
        query: Fields of every request's query (``{"api-version": "2024-10-21"}``), beside those of
            `base_url`.
        request: Further fields of every request, as the endpoint takes them (``temperature=0``).

    Raises:
        ConfigurationError: The URL, the key, a limit or a field cannot be used.
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
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        **request: Any,
    ) -> None:
        url = base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL
        key = api_key or os.environ.get("OPENAI_API_KEY") or ""
        super().__init__(
            model, url, key, (timeout, max_retries),
            stream=stream, headers=headers, query=query, request=request,
        )  # fmt: skip

    @property
    def name(self) -> str:
        """The model's name, as it is shown and sent; the endpoint's first one if none was given."""
        if self._model is None and self.base_url.startswith(OPENAI_URL):
            self._model = DEFAULT_OPENAI_MODEL
        return super().name

    def _package(self) -> Package:
        import openai

        return Package(openai, openai.OpenAI, openai.OpenAIError)

    def _key_header(self) -> dict[str, str]:
        return choose.key_header(self.base_url, self._key or "none")

    def _create(self, client: Any) -> Callable[..., Any]:
        create: Callable[..., Any] = client.chat.completions.with_streaming_response.create
        return create

    def _fields(
        self, name: str, ask: AskModel, form: Capabilities, *, stream: bool
    ) -> dict[str, Any]:
        body = body_of(ask, form, self.request, stream=stream)
        return {"model": name, "messages": [], "extra_body": body}

    def _reply(self) -> GrowingReply:
        return CompletionReply()

    def _can(self, name: str) -> Capabilities:
        return capabilities_of(self.base_url, name)
