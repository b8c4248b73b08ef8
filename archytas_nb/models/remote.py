"""The base class of models with an HTTP API: requests, retries, connections, model lists.

A provider's client lists models and says which headers its endpoint expects. Requests for replies
are sent through its connection, as bytes that are made here, and replies are read as bytes: the
client would copy every message on every request and create an object for every token. Retries are
done here, too, so that they can be shown.
"""

from __future__ import annotations

import copy
import json
import math
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import date
from functools import partial
from time import perf_counter
from types import MappingProxyType
from typing import Any, NamedTuple, Self, get_args

from archytas_nb import settings
from archytas_nb.choices import ActiveProtocol, EffortName
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.hints import arguments, same_as, unknown_argument
from archytas_nb.loop.events import REFUSED, AskModel, Json, ModelReply, Notice, Usage
from archytas_nb.loop.model import ReplyStream
from archytas_nb.loop.stop import sleep
from archytas_nb.models import refusals, secrets
from archytas_nb.models.body import checked_fields
from archytas_nb.models.bounds import BoundedConnection, Deadline
from archytas_nb.models.capabilities import Api, Capabilities, capabilities_of, remember
from archytas_nb.models.completion import (
    NotACompletion,
    Price,
    ReplyBuilder,
    ServerError,
    from_body,
    from_stream,
    price_of,
    without_beginning,
)
from archytas_nb.models.defaults import default_at, end_of
from archytas_nb.models.negotiate import adapt_request
from archytas_nb.models.providers import (
    Served,
    endpoint_of,
    is_local,
    is_small,
    usable_fields,
    usable_key,
)
from archytas_nb.models.published import ends_at, is_same, published
from archytas_nb.models.quoted import is_about_reply, written_by_model
from archytas_nb.models.refusals import CONNECT_SECONDS, EndpointErrors, is_of_transport
from archytas_nb.models.secrets import mask_secrets
from archytas_nb.models.shapes import shaped, unshaped
from archytas_nb.models.waits import MAX_WAIT_SECONDS
from archytas_nb.words import collapse_whitespace

FIRST_WAIT_SECONDS = 0.5
"""Seconds before the first retry, unless the server says otherwise; doubled for each retry."""
_LISTING_SECONDS = 10.0
_END = re.compile(r"shut_?down|retire|retiring|sunset|expir|decommission|end_of_life")
"""The names of fields with the day of a shutdown. A deprecated model still works."""


class Post(NamedTuple):
    """A request for a reply."""

    path: str
    """Where it goes, after the base URL."""
    body: Mapping[str, Json]


class RemoteModel:
    """A model with an HTTP API; subclasses implement the API and document the arguments."""

    client = "OpenAI"  # its name in the provider's package
    api: Api = "openai"
    lacks: frozenset[str] = frozenset()  # features of requests that the API does not have
    default_url = ""
    key_variable = "OPENAI_API_KEY"
    url_variable = "OPENAI_BASE_URL"
    reads_settings = True  # whether the settings api_key and base_url are for this API
    path: tuple[str, ...] = ("/chat/completions",)  # removed from the end of a base URL, in order
    effort_field = "reasoning_effort"  # the field of requests for the setting ``effort``
    alternatives: tuple[str, ...] = ()  # our own fields that are omitted if rejected
    listing: Mapping[str, Any] = MappingProxyType({})  # arguments for the list of models

    def __init__(
        self,
        model: str | None = None,
        base_url: str | None = None,
        api_key: str | None = None,
        timeout: float | None = None,
        max_retries: int | None = None,
        *,
        stream: bool = True,
        effort: str | None = None,
        headers: Mapping[str, str] | None = None,
        query: Mapping[str, str] | None = None,
        **request: Any,
    ) -> None:
        _refuse_misnamed(type(self).__name__, request)
        if self.reads_settings and not base_url:
            # A configured key is for the configured URL.
            base_url = settings.value("base_url")
            api_key = api_key or str(settings.value("api_key"))
        url = base_url or os.environ.get(self.url_variable) or self.default_url
        key = api_key or os.environ.get(self.key_variable) or ""
        self.base_url, own_query, self._user = endpoint_of(url, self.path)
        self._headers = usable_fields("headers", headers)
        self._query = {**own_query, **usable_fields("query", query)}
        self._key = usable_key(key, self.key_variable)
        if not self._key and self.base_url == self.default_url:
            advice = f"Set {self.key_name}, or {self.url_name} for another endpoint."
            raise ConfigurationError(f"no API key for {self.base_url!r}. {advice}")
        secrets.remember("api_key", self._key)
        if self._user:
            secrets.remember("password", self._user[1])
        secrets.remember_fields({**self._headers, **self._query})
        others = (*self._headers.values(), *self._query.values())
        names = (self.key_name, self.url_name)
        self.errors = EndpointErrors(self.base_url, self._key, self._user, others, names)
        self.given_name = model
        self._model = model
        self.default = default_at(self.base_url, self._key)
        if timeout is None:
            timeout = settings.value("timeout")
        if max_retries is None:
            max_retries = settings.value("max_retries")
        self.timeout = timeout
        self.max_retries = max_retries
        if not (isinstance(self.timeout, (int, float)) and 0 < self.timeout < math.inf):
            raise ConfigurationError(
                f"timeout is {timeout!r}; expected a number of seconds above 0"
            )
        if not (isinstance(self.max_retries, int) and self.max_retries >= 0):
            expected = "expected a whole number, 0 or more"
            raise ConfigurationError(f"max_retries is {max_retries!r}; {expected}")
        self.stream = stream
        effort = settings.value("effort") if effort is None else effort
        if effort not in get_args(EffortName):
            expected = ", ".join(map(repr, get_args(EffortName)))
            raise ConfigurationError(f"effort is {effort!r}; expected one of {expected}")
        if effort != "auto":
            request = {self.effort_field: effort, **request}
        self.request = checked_fields(request)
        self.server = ""  # the kind of model server, if it was discovered
        self.keeps_connections = True  # False for llama.cpp: it closes them after a stream

    # ── the API of a provider ─────────────────────────────────────────────────────────────────────

    def _package(self) -> Any:
        """The provider's package, imported on first use."""
        raise NotImplementedError

    def _key_header(self) -> dict[str, str]:
        """The header with the key."""
        raise NotImplementedError

    def _post(self, name: str, ask: AskModel, form: Capabilities, *, stream: bool) -> Post:
        """The path of a request, after the base URL, and its body."""
        raise NotImplementedError

    def _new_builder(self, form: Capabilities) -> ReplyBuilder:
        """An empty builder for the reply."""
        raise NotImplementedError

    def _capabilities(self, name: str) -> Capabilities:
        """The features of this model that are known at this endpoint."""
        return capabilities_of(*self._place(name))

    def _place(self, name: str) -> tuple[str, str, Api]:
        """The key for facts that are learnt about a model."""
        return (self.base_url, name, self.api)

    @property
    def key_name(self) -> str:
        """The places where the key can be set, for messages."""
        if self.reads_settings:
            return settings.where_to_set("api_key")
        return self.key_variable

    @property
    def url_name(self) -> str:
        """The places where the base URL can be set, for messages."""
        if self.reads_settings:
            return settings.where_to_set("base_url")
        return self.url_variable

    # ── facts ─────────────────────────────────────────────────────────────────────────────────────

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._model!r}, base_url={self.base_url!r})"

    @property
    def name(self) -> str:
        """The model's name in requests and in the trace.

        Without a given name, it is the default model of the endpoint, or the first that it lists.
        """
        if self._model is None and self.default.name is not None:
            # Not kept: it may turn out to be gone.
            return self.default.name
        if self._model is None:
            self._model = self._first_served()
        return self._model

    def mark_discovered(self, server: str, context: int | None) -> None:
        """Store that the endpoint was discovered on this machine, with the context in tokens."""
        self.server = server
        capabilities = self._capabilities(self.name)
        capabilities.context_tokens = capabilities.context_tokens or context

    @property
    def is_small(self) -> bool:
        """Whether it is a small model, judged by its name; small models get additional checks."""
        try:
            return is_small(self.name)
        except (ModelError, ConfigurationError):
            # The request will report the error.
            return False

    @property
    def context_tokens(self) -> int | None:
        """Maximum number of tokens in a conversation and its reply, if reported or published."""
        name = self._model or self.default.name
        if name is None:
            return None
        if reported := self._capabilities(name).context_tokens:
            return reported
        known = published(self.base_url, name)
        return known and known.context_tokens

    @property
    def price(self) -> Price | None:
        """The price of its tokens in the default service tier, if known."""
        is_standard = self.request.get("service_tier", "default") == "default"
        if is_local(self.base_url) or not is_standard:
            return None
        if found := price_of(self.base_url, self.name):
            return found
        known = published(self.base_url, self.name)
        return Price(*known.price) if known is not None and known.price else None

    @property
    def protocol(self) -> ActiveProtocol:
        """The protocol for ``protocol="auto"``, by the known features of the endpoint."""
        return self._capabilities(self.name).protocol

    def complete(self, ask: AskModel) -> ReplyStream:
        """Ask for one reply.

        Yields:
            The pieces of the reply, and retries, after which the reply starts again.

        Returns:
            The reply.

        Raises:
            ModelError: There is no usable reply; the message contains the URL and advice.
        """
        started = perf_counter()
        deadline = Deadline(ask.seconds)
        tried = set[str]()
        while True:
            if self._model is None and (news := self.default.news()):
                yield Notice("model", news)
            name = self.name
            tried.add(name)
            try:
                reply = yield from self._complete(name, ask, deadline)
            except ModelError as error:
                failed = error
            else:
                return replace(reply, seconds=perf_counter() - started)
            if not self._is_gone(name, failed):
                break
            failed.kind = "not_found"
            if not self.default.leave(name) or self.name in tried:
                break
        failed = self._with_advice(failed)
        failed.refusal = self.errors.clean(failed.refusal)
        # Without the client's exceptions and frames: their variables contain the key.
        failed.__context__ = None
        raise failed.with_traceback(None)

    def _complete(self, name: str, ask: AskModel, deadline: Deadline) -> ReplyStream:
        """One reply of this model, in any form that the endpoint accepts."""

        def once(form: Capabilities) -> ReplyStream:
            return self._once(name, ask, form, deadline)

        def in_any_form() -> ReplyStream:
            return adapt_request(
                once, ask, self._capabilities(name),
                {**dict.fromkeys(self.alternatives), **self.request},
                stream=self.stream, lacks=self.lacks,
                is_known=lambda: self._serves(name), keep=partial(remember, self._place(name)),
            )  # fmt: skip

        return (yield from with_retries(in_any_form, self.max_retries, deadline, self.errors))

    def _is_gone(self, name: str, failed: ModelError) -> bool:
        """Whether a default was refused because the endpoint does not have it."""
        if self._model is not None or failed.status is None or not 400 <= failed.status < 500:
            return False
        is_unknown = failed.kind == "not_found"
        if not is_unknown and self._capabilities(name).seen.has_replied:
            return False
        with suppress(ModelError):
            names = [model.name for model in self.listed()]
            # Whatever the words are: what is refused and not listed is not served.
            is_unknown = is_unknown or not any(is_same(each, name) for each in names)
        return is_unknown

    def without_retries(self) -> Self:
        """A copy that raises each failure immediately."""
        clone = copy.copy(self)
        clone.max_retries = 0
        return clone

    # ── one request ───────────────────────────────────────────────────────────────────────────────

    def _once(
        self, name: str, ask: AskModel, form: Capabilities, deadline: Deadline
    ) -> ReplyStream:
        if deadline.passed:
            raise self.errors.out_of_time(deadline.seconds)
        original = ask
        ask = shaped(ask, form.shapes)
        stream = self.stream and form.stream
        headers = {} if self.keeps_connections else {"Connection": "close"}
        timeouts = self._timeouts(self.timeout, deadline)
        with self._connection(self.timeout, deadline) as connection:
            try:
                post = self._post(name, ask, form, stream=stream)
                with connection.send(*post, headers, timeouts) as response:
                    builder = self._new_builder(form)
                    chunks = connection.read_body(response.iter_bytes(), lambda: builder.is_over)
                    reply = yield from from_stream(chunks, lambda: builder)
                    if ask.is_continued and not stream:
                        reply = without_beginning(reply, ask)
            except Exception as error:  # noqa: BLE001 - judged below
                generated = _generated(error, ask)
                if generated is not None:
                    return generated
                raise self._failure(error, connection, name, ask) from None
        return self._checked(reply, original, form)

    def _checked(self, reply: ModelReply, ask: AskModel, form: Capabilities) -> ModelReply:
        """A reply as the question expects it; raises `ModelError` if it was withheld."""
        if reply.finish == "content_filter" and not reply.calls:
            what = "withheld all or part of the reply because of its content filter"
            advice = "Rephrase the question, or use another model."
            raise self.errors.unusable(what, "refused", advice)
        return unshaped(reply, ask, form.shapes)

    def _failure(
        self, error: Exception, connection: BoundedConnection, name: str, ask: AskModel | None
    ) -> Exception:
        """The error to raise for a failed request; errors of this package stay as they are."""
        if isinstance(error, NotACompletion):
            # It has replied before, so the address is right: it, or a proxy, fails for now.
            is_for_now = bool(name) and self._capabilities(name).seen.has_replied
            return self.errors.not_an_api(self.errors.clean(str(error)), passing=is_for_now)
        if isinstance(error, EOFError):
            return self.errors.dropped(self.errors.clean(str(error)))
        is_of_client = isinstance(error, getattr(self._package(), f"{self.client}Error"))
        if not (is_of_client or is_of_transport(error) or isinstance(error, ServerError)):
            return error
        failed = self.errors.of_client(error, self.timeout, name, ask)
        if failed.status:
            # It takes precedence over a timeout.
            return failed
        return connection.failure() or failed

    @contextmanager
    def _connection(self, timeout: float, deadline: Deadline) -> Iterator[BoundedConnection]:
        """A connection for one request; an open one is reused."""
        fields = (*self._headers.items(), *self._query.items())
        key = (self.base_url, type(self), self._key, self._user, self.timeout, fields)
        idle = _CLIENTS.setdefault(key, [])
        connection = idle.pop() if idle else self._connect()
        try:
            with connection.within(timeout, deadline):
                yield connection
        except KeyboardInterrupt:
            # The client may not yet know about its connection: close everything, otherwise the
            # server would continue to generate the reply.
            connection.client.close()
            raise
        except BaseException:
            idle.append(connection)
            raise
        idle.append(connection)

    def _connect(self) -> BoundedConnection:
        """Create a client with its own connection; the first one takes 30 ms."""
        package = self._package()
        limits = self._timeouts(self.timeout, Deadline())
        headers = {**self._key_header(), "Accept-Encoding": "gzip, deflate", **self._headers}
        connection = BoundedConnection(self.errors, self.base_url, self._query)

        def drop_default_key(request: Any) -> Any:
            # The client adds one of these headers, which Azure would treat as a token.
            for name in {"authorization", "x-api-key"}.difference(map(str.lower, headers)):
                request.headers.pop(name, None)
            return request

        try:
            http = package.DefaultHttpxClient(
                # A configured proxy cannot reach servers on this machine.
                trust_env=not is_local(self.base_url),
                timeout=limits,
                auth=self._user or drop_default_key,
                follow_redirects=False,
                event_hooks={
                    "request": [connection.on_request],
                    "response": [connection.on_response],
                },
            )
        except (ImportError, OSError, ValueError) as error:
            # From a proxy or a certificate.
            why = mask_secrets(str(error)).rstrip(".")
            text = f"cannot create a client for {self.base_url!r} in this environment: {why}"
            advice = "Check HTTPS_PROXY, ALL_PROXY, NO_PROXY, SSL_CERT_FILE and SSL_CERT_DIR."
            raise ConfigurationError(f"{text}. {advice}") from error
        connection.client = getattr(package, self.client)(
            base_url=self.base_url,
            api_key=self._key or "none",
            max_retries=0,
            timeout=limits,
            http_client=http,
            default_headers=headers,
            default_query=self._query,
        )
        connection.http = http
        return connection

    def _timeouts(self, timeout: float, deadline: Deadline) -> Any:
        """The client's timeouts: only that to connect; `BoundedConnection` handles the others."""
        connect = deadline.cap(min(CONNECT_SECONDS, timeout))
        return self._package().Timeout(None, connect=connect)

    # ── other requests ────────────────────────────────────────────────────────────────────────────

    def fetched(
        self,
        opened: Callable[[Any, Any], Any],
        seconds: float | None = None,
        *,
        is_short: bool = False,
        most_bytes: int | None = None,
    ) -> Iterator[bytes]:
        """Yield the body of the response to a request that is not for a reply.

        Args:
            opened: Opens the response, given the provider's client and its timeouts.
            seconds: Seconds without data after which it fails; None for the model's own.
            is_short: Whether it fails after `seconds`, even if there is data.
            most_bytes: Maximum size of the body; None for that of any reply.

        Raises:
            ModelError: There is no complete response.
        """
        seconds = self.timeout if seconds is None else seconds
        # Imports the client, which is slow the first time.
        limits = self._timeouts(seconds, Deadline())
        deadline = Deadline(seconds if is_short else None)
        with self._connection(seconds, deadline) as connection:
            try:
                with opened(connection.client, limits) as response:
                    chunks = response.iter_bytes()
                    yield from connection.read_body(chunks, most_bytes=most_bytes)
            except Exception as error:  # noqa: BLE001 - judged below
                if deadline.passed:
                    raise self.errors.timed_out(seconds, "first byte") from None
                raise self._failure(error, connection, self._model or "", None) from None

    def post_of(self, ask: AskModel) -> Post:
        """A request in the form that the endpoint is known to accept, without a stream."""
        form = self._capabilities(self.name)
        post = self._post(self.name, shaped(ask, form.shapes), form, stream=False)
        body = {name: value for name, value in post.body.items() if name != "stream"}
        return Post(post.path, body)

    def reply_in(self, text: str, ask: AskModel, share: float = 1.0) -> ModelReply:
        """Read the body of a response to `post_of` that came in another way.

        Args:
            text: The body.
            ask: The request.
            share: The part of the ordinary price that it costs.

        Raises:
            ModelError: It is not a reply.
        """
        form = self._capabilities(self.name)
        try:
            reply = from_body(text, lambda: self._new_builder(form))
        except NotACompletion as error:
            raise self.errors.not_an_api(self.errors.clean(str(error)), passing=True) from None
        except EOFError as error:
            raise self.errors.dropped(self.errors.clean(str(error))) from None
        except ServerError as error:
            raise self.errors.of_server(error, self.name, ask) from None
        usage = replace(reply.usage, usd=reply.usage.usd * share)
        return self._checked(replace(reply, usage=usage), ask, form)

    # ── the list of models ────────────────────────────────────────────────────────────────────────

    def _first_served(self) -> str:
        names = self.served()
        if not names:
            advice = "Load one, or set the name of the model."
            raise ModelError(
                f"the endpoint {self.base_url!r} serves no models. {advice}", kind="not_found"
            )
        return next((name for name in names if Served(name).chats), names[0])

    def served(self) -> list[str]:
        """The names of the models that the endpoint serves.

        Raises:
            ModelError: The endpoint does not list them.
        """
        try:
            return [model.name for model in self.listed()]
        except ModelError as failed:
            raise self._with_advice(failed) from None

    def listed(self, seconds: float = _LISTING_SECONDS) -> tuple[Served, ...]:
        """The models that the endpoint serves, with a short timeout; raises `ModelError`."""

        def opened(client: Any, timeouts: Any) -> Any:
            listing = client.models.with_streaming_response.list
            return listing(**self.listing, timeout=timeouts)

        body = b"".join(self.fetched(opened, min(self.timeout, seconds), is_short=True))
        try:
            models = _models_in(json.loads(body))
        except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
            raise self.errors.not_an_api("not a list of models") from None
        for model in models:
            capabilities = self._capabilities(model.name)
            capabilities.context_tokens = capabilities.context_tokens or model.context_tokens
        self.default.note_list([model.name for model in models])
        return models

    def ends(self) -> dict[str, tuple[date, str]]:
        """The ends of models that this endpoint lists, and who announced them; and its own model.

        What the endpoint says takes precedence; without its list, all that is published counts.
        """
        found = ends_at(self.base_url)
        with suppress(ModelError):
            models = self.listed()
            there = [self.name, *(model.name for model in models)]
            found = {name: x for name, x in found.items() if any(is_same(y, name) for y in there)}
            for model in models:
                if model.ends is not None:
                    found[model.name] = (model.ends, "the endpoint")
        return found

    def _serves(self, name: str) -> bool:
        """Whether the endpoint lists this model."""
        with suppress(ModelError):
            return any(is_same(model.name, name) for model in self.listed())
        return False

    def _with_advice(self, error: ModelError) -> ModelError:
        """Add to an error the available models, or the likely base URL of the API."""
        if error.kind == "bad_reply" and error.passing:
            return error
        if error.kind == "not_found":
            with suppress(ModelError):
                names = [self.errors.clean(model.name) for model in self.listed()]
                if self._model is None and self.default.names:
                    defaults = ", ".join(map(repr, self.default.names))
                    error = error.with_advice(f"None of the default models is there: {defaults}.")
                elif self._model and (ended := end_of(self.base_url, self._model)):
                    error = error.with_advice(f"The model {self._model!r} may be gone{ended}.")
                return error.with_advice(refusals.models_hint(names, self._model or ""))
        if error.kind in ("not_found", "bad_reply"):
            where = "the base URL of the API"
            if "/v1" in self.path:
                where += ", without '/v1'"
            elif not self.base_url.endswith("/v1"):
                where = f"{self.base_url + '/v1'!r}, if that is {where}"
            return error.with_advice(f"Set {self.url_name}, or base_url=, to {where}.")
        return error


def _models_in(data: Any) -> tuple[Served, ...]:
    """The models in an endpoint's response; raises LookupError or TypeError if it is invalid."""
    models = []
    for item in [item for item in list(data["data"]) if isinstance(item, dict)]:
        # fields of vLLM, LM Studio and Anthropic
        sizes = map(item.get, ("max_model_len", "loaded_context_length", "max_input_tokens"))
        known = [size for size in sizes if isinstance(size, int) and size > 0]
        if isinstance(name := item.get("id"), str) and name:
            models.append(Served(name, next(iter(known), None), _end_in(item)))
    return tuple(models)


def _end_in(item: Mapping[str, Any]) -> date | None:
    """The day on which a listed model is shut down: the first that a field of such a name has."""
    found = []
    for key, value in item.items():
        if _END.search(str(key)) and isinstance(value, str):
            with suppress(ValueError):
                found.append(date.fromisoformat(value[:10]))
    return min(found, default=None)


def _generated(error: BaseException, ask: AskModel) -> ModelReply | None:
    """The model's reply in the error of a server that could not read it, or None."""
    if not isinstance(error, ServerError):
        return None
    if error.reply is not None or error.status < 500:
        # Not a failure of the server.
        return error.reply
    sent = json.dumps([*ask.messages, *ask.tools], ensure_ascii=False, default=str)
    text = written_by_model(error.message, f"{sent} {json.dumps(sent)}")
    if text is None and is_about_reply(error.message):
        text = error.message
    if text is None:
        return None
    return ModelReply(text, finish=REFUSED, usage=Usage(requests=1))


def with_retries(
    ask: Callable[[], ReplyStream], max_retries: int, deadline: Deadline, errors: EndpointErrors
) -> ReplyStream:
    """Retry after a temporary `ModelError`; yields each retry with its wait.

    There is no retry if the wait would exceed the deadline.

    Raises:
        ModelError: There is no reply.
    """
    retries = 0
    while True:
        try:
            return (yield from ask())
        except ModelError as error:
            failed = error
        wait = failed.wait
        if wait is None:
            wait = FIRST_WAIT_SECONDS * 2**retries
        what = collapse_whitespace(str(failed).partition(". ")[0], 160)
        left = deadline.left
        most = max_retries if failed.retries is None else min(failed.retries, max_retries)
        is_final = not failed.passing or retries >= most or wait > MAX_WAIT_SECONDS
        if not is_final and left is not None and wait >= left:
            is_final = True
            failed = errors.out_of_time(deadline.seconds, what)
        if is_final and retries:
            raise failed.with_advice(f"(Tried {retries + 1} times.)") from None
        if is_final:
            raise failed from None
        retries += 1
        if failed.explained:
            said = failed.explained.said.partition(". ")[0].rstrip(".")
            what = collapse_whitespace(f"{failed.explained.short}: {said}", 160)
        yield Notice("retry", f"{what}. Trying again ({retries} of {most})", seconds=wait)
        sleep(wait)


_CLIENTS: dict[Any, list[BoundedConnection]] = {}
"""The connections that are not in use, by base URL, key, timeout, headers and query."""

if hasattr(os, "register_at_fork"):
    # A child process must not share connections.
    os.register_at_fork(after_in_child=_CLIENTS.clear)


def close_clients(base_url: str | None = None) -> None:
    """Close the idle connections to an endpoint that is no longer used, or all of them."""
    at = base_url and endpoint_of(base_url)[0]
    for key in [key for key in _CLIENTS if at in (None, key[0])]:
        for connection in _CLIENTS.pop(key):
            connection.client.close()


def _refuse_misnamed(name: str, request: Iterable[str]) -> None:
    """Raise TypeError if a field of requests is a wrong name of an argument of ours.

    A field may have any other name; but an API key would be in each request, not in its header.
    """
    own = [*arguments(RemoteModel), "api"]
    for each in request:
        if same_as(each, own):
            raise unknown_argument(f"{name}()", each, own, "")
