"""Models of OpenAI-compatible endpoints. Only this module imports openai, on first use."""

from __future__ import annotations

import re
import urllib.parse
from typing import Any, get_args

from archytas_nb import settings
from archytas_nb.choices import ApiName
from archytas_nb.errors import ConfigurationError
from archytas_nb.hints import hinted
from archytas_nb.loop.events import AskModel, Json
from archytas_nb.models import responses
from archytas_nb.models.batches import OpenAIBatches
from archytas_nb.models.body import OWN_FIELDS, body_of
from archytas_nb.models.capabilities import Capabilities
from archytas_nb.models.completion import CompletionBuilder, ReplyBuilder
from archytas_nb.models.providers import OPENAI_URL
from archytas_nb.models.remote import Post, RemoteModel, close_clients

__all__ = ["OpenAIModel", "close_clients"]


@hinted
class OpenAIModel(RemoteModel):
    """A model of an OpenAI-compatible endpoint, such as OpenAI, vLLM, Ollama or LM Studio.

    Args:
        model: The model's name; None for the default of a known endpoint, or its first model.
        base_url: The base URL of the API; None for OPENAI_BASE_URL, or OpenAI.
        api_key: The API key; None for OPENAI_API_KEY. Most local servers need none.
        timeout: Seconds without data after which a request fails; None for 300.
        max_retries: Maximum number of retries after a temporary failure (429, 5xx, no connection);
            None for 3.
        stream: Whether replies are streamed. An interrupt ends a streamed request at the server.
        headers: Additional headers of every request (``{"X-Team": "data"}``).
        query: Query parameters of every request (``{"api-version": "2024-10-21"}``), in addition to
            those of `base_url`.
        effort: How much the model reasons: ``"none"``, ``"low"``, ``"medium"``, ``"high"``, …;
            ``"auto"`` for the model's default, None for the setting.
        api: ``"chat"`` for chat completions, ``"responses"`` for the Responses API, ``"auto"`` for
            the one that the endpoint accepts with reasoning and tools; None for the setting.
        request: Additional fields of every request, as the endpoint defines them
            (``temperature=0``).

    Raises:
        ConfigurationError: The URL, the key, a limit or a field is invalid.
    """

    default_url = OPENAI_URL
    path = ("/chat/completions", "/responses")
    alternatives = ("stop", *OWN_FIELDS)  # reasoning models reject the first

    def __init__(
        self,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        *,
        api: str | None = None,
        **options: Any,  # those of `RemoteModel`, and fields of requests
    ) -> None:
        super().__init__(model, base_url, api_key, timeout, max_retries, **options)
        given = settings.value("api") if api is None else api
        if given not in get_args(ApiName):
            expected = ", ".join(map(repr, get_args(ApiName)))
            raise ConfigurationError(f"api is {api!r}; expected one of {expected}")
        if given != "auto":
            self.api = "responses" if given == "responses" else "chat"
            self.lacks = frozenset({"api"})

    def _package(self) -> Any:
        import openai

        return openai

    def _key_header(self) -> dict[str, str]:
        return key_header(self.base_url, self._key or "none")

    def batches(self) -> OpenAIBatches:
        """The batch API of the endpoint; whether it has one shows with the first request."""
        return OpenAIBatches(self)

    def body(self, ask: AskModel) -> dict[str, Json]:
        """The body of a request, in a form that the endpoint is known to accept."""
        return self._body(ask, self._capabilities(self.name), stream=self.stream)

    def _body(self, ask: AskModel, form: Capabilities, *, stream: bool) -> dict[str, Json]:
        if form.responses:
            return responses.body_of(ask, form, self.request)
        return body_of(ask, form, self.request, stream=stream)

    def _post(self, name: str, ask: AskModel, form: Capabilities, *, stream: bool) -> Post:
        body = {"model": name, "stream": stream, **self._body(ask, form, stream=stream)}
        return Post("/responses" if form.responses else "/chat/completions", body)

    def _new_builder(self, form: Capabilities) -> ReplyBuilder:
        return responses.ResponseBuilder() if form.responses else CompletionBuilder()


def key_header(url: str, key: str) -> dict[str, str]:
    """The header for a key; Azure expects keys, but not tokens, in a special header."""
    host = urllib.parse.urlsplit(url).hostname or ""
    if re.search(r"\.azure\.(?:com|us|cn)", host) and key.count(".") != 2:
        return {"api-key": key}
    return {"Authorization": f"Bearer {key}"}
