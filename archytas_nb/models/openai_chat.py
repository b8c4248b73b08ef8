"""OpenAI-compatible endpoints. The only file that imports openai, and only when the first request is made.

History and tools travel in ``extra_body`` and streams are read as bytes: the client would otherwise walk every
message on every request and build an object for every token. Retries are ours, so that a person sees them.
"""

from __future__ import annotations

import json
import math
import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.loop.events import AskModel, Notice
from archytas_nb.models import faults
from archytas_nb.models.address import (
    OPENAI_URL,
    is_local,
    key_header,
    shown_url,
    usable_fields,
    usable_key,
    usable_url,
    without_query,
    without_user,
)
from archytas_nb.models.asking import Asking, Faulted, GivenUp, adapting, persistently
from archytas_nb.models.capabilities import Capabilities, body_of, capabilities_of, sendable
from archytas_nb.models.completion import NotACompletion, from_body, from_stream
from archytas_nb.models.deadline import Deadline
from archytas_nb.models.listing import Served, is_small, models_in
from archytas_nb.models.log import logged
from archytas_nb.models.prices import Price, is_openai, price_of
from archytas_nb.models.reading import Connection, Refused
from archytas_nb.models.refusal import ErrorInReply, refused_generation
from archytas_nb.models.secrets import without_shapes
from archytas_nb.models.translation import CONNECT_SECONDS, Translator

if TYPE_CHECKING:
    import openai

DEFAULT_OPENAI_MODEL = "gpt-4.1-mini"
_LISTING_SECONDS = 10.0


class OpenAIModel:
    """A model behind an OpenAI-compatible endpoint, be it OpenAI, vLLM, Ollama, llama.cpp or LM Studio.

    Args:
        model: The model's name; None takes the endpoint's default (for a server of one model, that one).
        base_url: Where the API begins; None takes OPENAI_BASE_URL, else OpenAI.
        api_key: None takes OPENAI_API_KEY; local servers mostly need none.
        timeout: Seconds without a byte before a request is given up; None for 300.
        max_retries: How often a passing failure (429, 5xx, no connection) is tried again; None for 3.
        stream: Whether replies are streamed. A streamed request ends at the server when it is interrupted.
        headers: Further headers of every request (``{"X-Team": "data"}``).
        query: Fields of every request's query (``{"api-version": "2024-10-21"}``), beside those of `base_url`.
        request: Further fields of every request, as the endpoint takes them (``temperature=0`` …).

    Raises:
        ConfigurationError: The URL, the key, the timeout, the number of retries or a field cannot be used.
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
        url = usable_url(base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL)
        self.base_url, own_query = without_query(url)
        self._headers = usable_fields("headers", headers)
        self._query = {**own_query, **usable_fields("query", query)}
        self._key = usable_key(api_key or os.environ.get("OPENAI_API_KEY") or "", self.base_url)
        self._at = shown_url(self.base_url)
        others = (*self._headers.values(), *self._query.values())
        self._translator = Translator(self._at, self._key, without_user(self.base_url)[1], others)
        self.given_name = model
        self._model = model
        self.timeout = 300.0 if timeout is None else timeout
        self.max_retries = 3 if max_retries is None else max_retries
        if not (isinstance(self.timeout, (int, float)) and 0 < self.timeout < math.inf):
            raise ConfigurationError(f"timeout is {timeout!r}; expected seconds above 0")
        if not (isinstance(self.max_retries, int) and self.max_retries >= 0):
            raise ConfigurationError(
                f"max_retries is {max_retries!r}; expected a whole number, 0 or more"
            )
        self.stream = stream
        self.request = sendable(request)
        self._introduction = ""
        self.server = ""
        """Who answers there, where nobody named the endpoint and it was found."""
        self.keeps_connections = True
        """Whether a connection serves several requests. llama.cpp's server closes it after a stream, perhaps
        while the next request is sent on it."""

    def __repr__(self) -> str:
        return f"OpenAIModel({self._model!r}, base_url={self._at!r})"

    @property
    def name(self) -> str:
        """The model's name, as it is shown and sent; asks the endpoint once where none was given."""
        if self._model is None:
            official = self.base_url.startswith(OPENAI_URL)
            self._model = DEFAULT_OPENAI_MODEL if official else self._first_served()
        return self._model

    def found(self, server: str, context: int | None) -> None:
        """Note that nobody named this endpoint: it was found, and is introduced with the first question.

        Args:
            server: Who answers there.
            context: What the model's conversation may have, where that is known.
        """
        self.server = server
        self._introduction = (
            f"{self.name!r} of {server} at {self._at!r} answers: it was found on this machine"
        )
        can = capabilities_of(self.base_url, self.name)
        can.context_tokens = can.context_tokens or context

    @property
    def is_small(self) -> bool:
        """Whether it needs what small models need: it is asked and told more, and its answers are doubted."""
        return is_small(self._model or "")

    @property
    def context_tokens(self) -> int | None:
        """Tokens that a conversation and its reply may have together, where the endpoint has said; else None."""
        return (
            None
            if self._model is None
            else capabilities_of(self.base_url, self._model).context_tokens
        )

    @property
    def price(self) -> Price | None:
        """What its tokens cost, where that is known; another service tier has prices of its own."""
        if not is_openai(self.base_url) or self.request.get("service_tier", "default") != "default":
            return None
        return price_of(self.base_url, self.name)

    @property
    def protocol(self) -> Literal["react", "native"]:
        """What ``protocol="auto"`` means here, as far as the endpoint has shown what it can do."""
        return capabilities_of(self.base_url, self.name).protocol

    def complete(self, ask: AskModel) -> Asking:
        """Ask for one reply.

        Args:
            ask: The request.

        Yields:
            Pieces of text as they come, and retries with their wait. After a retry the reply begins anew.

        Returns:
            The reply.

        Raises:
            ModelError: No usable reply came; the message names the URL and the next move.
        """
        started = time.perf_counter()
        deadline = Deadline(ask.seconds)
        name = self.name
        if self._introduction:
            introduction, self._introduction = self._introduction, ""
            yield Notice("progress", introduction)

        def once(form: Capabilities) -> Asking:
            return logged(self._once(name, ask, form, deadline), self._at, name, ask)

        def in_its_form() -> Asking:
            can = capabilities_of(self.base_url, name)
            return adapting(once, ask, can, self.request, stream=self.stream)

        try:
            reply = yield from persistently(in_its_form, self.max_retries, deadline, self._at)
        except GivenUp as given_up:
            raise self._explained(given_up.error, given_up.tried) from None
        return replace(reply, seconds=time.perf_counter() - started)

    def served(self) -> list[str]:
        """The names of the models that the endpoint serves.

        Raises:
            ModelError: The endpoint does not say.
        """
        try:
            return self._listed(self.base_url)
        except Faulted as faulted:
            raise self._explained(faulted.fault.error) from None

    def _first_served(self) -> str:
        names = self.served()
        if not names:
            text = f"the endpoint {self._at!r} serves no model. Load one, or name the model that is meant."
            raise ModelError(text, kind="not_found")
        return next((name for name in names if Served(name).chats), names[0])

    def _listed(self, base_url: str) -> list[str]:
        """Ask what is served at a URL; this must not hold anyone up, so its time is short."""
        import openai

        seconds = min(self.timeout, _LISTING_SECONDS)
        deadline = Deadline(seconds)
        data = None
        with self._connection(base_url, seconds, deadline) as connection:
            try:
                with connection.client.models.with_streaming_response.list(
                    timeout=seconds
                ) as response:
                    body = b"".join(connection.received(response.iter_bytes()))
                data = json.loads(body)
            except (openai.OpenAIError, Refused, Faulted) as error:
                if deadline.over:
                    raise Faulted(
                        faults.timed_out(self._at, seconds, during="first byte")
                    ) from None
                if isinstance(error, Faulted):
                    raise
                raise self._translator.client(error, seconds, self._model or "") from None
            except EOFError as error:
                raise Faulted(
                    faults.dropped(self._at, self._translator.clean(str(error)))
                ) from None
            except (ValueError, RecursionError):
                pass
        try:
            models = models_in(data)
        except ValueError as error:
            raise Faulted(faults.not_an_api(self._at, str(error))) from None
        for model in models:
            can = capabilities_of(base_url, model.name)
            can.context_tokens = can.context_tokens or model.context_tokens
        return [model.name for model in models]

    def _explained(self, error: ModelError, tried: int = 0) -> ModelError:
        """Add to an error what can be found out: the models that there are, the path that is meant."""
        if tried:
            error = faults.told_more(error, f"(Tried {tried + 1} times.)")
        if error.kind not in ("not_found", "bad_reply"):
            return error
        names = self._looked_up(self.base_url)
        if names is not None and error.kind == "not_found":
            return faults.told_more(error, faults.serves(names, self._model or ""))
        if names is None and not self.base_url.rstrip("/").endswith("/v1"):
            longer = self.base_url.rstrip("/") + "/v1"
            if self._looked_up(longer) is not None:
                more = (
                    f"The API is at {shown_url(longer)!r}: set OPENAI_BASE_URL (or base_url) to it."
                )
                return faults.told_more(error, more)
            return faults.told_more(error, f"Is it {shown_url(longer)!r}?")
        return faults.told_more(error, "Set OPENAI_BASE_URL (or base_url) to where the API begins.")

    def _looked_up(self, base_url: str) -> list[str] | None:
        try:
            return self._listed(base_url)
        except Faulted:
            return None

    def _once(self, name: str, ask: AskModel, can: Capabilities, deadline: Deadline) -> Asking:
        import openai

        if deadline.over:
            raise Faulted(faults.out_of_time(self._at, deadline.seconds))
        stream = self.stream and can.stream
        with self._connection(self.base_url, self.timeout, deadline) as connection:
            try:
                with connection.client.chat.completions.with_streaming_response.create(
                    model=name,
                    messages=[],
                    stream=stream,
                    extra_body=body_of(ask, can, self.request, stream=stream),
                    extra_headers=None if self.keeps_connections else {"Connection": "close"},
                    timeout=_limits(self.timeout, deadline),
                ) as response:
                    return (yield from self._received(response, connection, stream=stream))
            except NotACompletion as error:
                raise Faulted(
                    faults.not_an_api(self._at, self._translator.clean(str(error)))
                ) from None
            except ErrorInReply as error:
                if error.reply is not None:
                    return error.reply
                raise self._translator.refusal(error, name, ask) from None
            except EOFError as error:
                raise Faulted(
                    faults.dropped(self._at, self._translator.clean(str(error)))
                ) from None
            except (openai.OpenAIError, Refused) as error:
                if (
                    isinstance(error, Refused)
                    and (reply := refused_generation(error.data)) is not None
                ):
                    return reply
                fault = self._translator.client(error, self.timeout, name, ask)
                # What the server has said counts more than the time that it took.
                raise (None if fault.fault.error.status else connection.fault()) or fault from None

    @contextmanager
    def _connection(
        self, base_url: str, timeout: float, deadline: Deadline
    ) -> Iterator[Connection]:
        """A connection for one request; one that was kept open saves the time to make it."""
        headers, query = tuple(self._headers.items()), tuple(self._query.items())
        api_key = self._key or "none"
        idle = _CLIENTS.setdefault((base_url, api_key, (self.timeout, headers, query)), [])
        connection = (
            idle.pop() if idle else _connect(base_url, api_key, self.timeout, headers, query)
        )
        try:
            with connection.within(timeout, deadline):
                yield connection
        except KeyboardInterrupt:
            # It may have hit the client at a point where it knows of no connection to close: close it all, or the
            # server would go on writing a reply that nobody reads.
            connection.client.close()
            raise
        except BaseException:
            idle.append(connection)
            raise
        idle.append(connection)

    def _received(self, response: Any, connection: Connection, *, stream: bool) -> Asking:
        chunks = connection.received(response.iter_bytes())
        if stream:
            reply = yield from from_stream(chunks)
        else:
            reply = from_body(b"".join(chunks).decode("utf-8", "replace"))
        if reply.finish == "content_filter" and not reply.calls:
            raise Faulted(faults.withheld(self._at))
        return reply


_Fields: TypeAlias = tuple[tuple[str, str], ...]
_CLIENTS: dict[tuple[str, str, tuple[float, _Fields, _Fields]], list[Connection]] = {}
"""The connections that nobody uses now, by base URL, key, timeout, headers and query."""

if hasattr(
    os, "register_at_fork"
):  # what a child sent on its parent's connection would be mixed with the parent's
    os.register_at_fork(after_in_child=_CLIENTS.clear)


def _connect(
    base_url: str, api_key: str, timeout: float, headers: _Fields, query: _Fields
) -> Connection:
    """A client with a connection of its own; the first one costs 30 ms."""
    import openai

    limits = _limits(timeout, Deadline())
    # A proxy of the environment cannot reach this machine's own servers.
    url, user = without_user(base_url)
    own = {**key_header(base_url, api_key), **dict(headers)}
    connection = Connection(shown_url(base_url))

    def signed(request: Any) -> Any:
        if (
            "Authorization" not in own
        ):  # the client writes the key into it, and Azure takes that for a token
            request.headers.pop("Authorization", None)
        return request

    try:
        http = openai.DefaultHttpxClient(
            trust_env=not is_local(base_url), timeout=limits, auth=user or signed, follow_redirects=False,
            event_hooks={"request": [connection.on_request], "response": [connection.on_response]},
        )  # fmt: skip
    except (
        ImportError,
        OSError,
        ValueError,
    ) as error:  # of the environment: a proxy, a certificate
        why = without_shapes(str(error))
        text = f"no connection to {shown_url(base_url)!r} can be made as this environment wants it: {why}"
        move = "See to HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR."
        raise ConfigurationError(f"{text.rstrip('.')}. {move}") from error
    connection.client = openai.OpenAI(
        base_url=url, api_key=api_key, max_retries=0, timeout=limits, http_client=http,
        default_headers=own, default_query=dict(query),
    )  # fmt: skip
    return connection


def _limits(timeout: float, deadline: Deadline) -> openai.Timeout:
    import openai

    return openai.Timeout(
        deadline.within(timeout), connect=deadline.within(min(CONNECT_SECONDS, timeout))
    )


def close_clients(base_url: str | None = None) -> None:
    """Close the connections to an endpoint that will not be asked again, or to all."""
    for key in [key for key in _CLIENTS if base_url in (None, key[0])]:
        for connection in _CLIENTS.pop(key):
            connection.client.close()
