"""Chooses the model that answers: a named or configured one, or one found on this machine.

Precedence: argument (flag), settings (``%config``), environment, a model server that is already
running on this machine and that the user allows, the embedded model.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from archytas_nb import settings as settings_now
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.files import OutputFile
from archytas_nb.loop.model import is_model
from archytas_nb.models import providers
from archytas_nb.models.providers import OPENAI_URL, Served
from archytas_nb.models.published import Provider

_log = logging.getLogger("archytas_nb")

Confirm: TypeAlias = Callable[[str], bool | None]
"""Asks the user a yes-no question; returns None if there is nobody to ask."""

PORTS: tuple[tuple[str, int], ...] = (
    ("Ollama", 11434),
    ("LM Studio", 1234),
    ("vLLM", 8000),
    ("llama.cpp's server", 8080),
)
"""The usual ports of model servers. Any process may listen there, so the user is asked first."""
SECONDS = 0.3
"""Timeout for requests to the ports; all ports are probed at the same time."""
_LISTING_SECONDS = 0.5
_LISTING_AGE = 30.0
"""Seconds for which a list of models is cached for tab completion."""


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """The configuration of models; None means that the setting of the same name applies."""

    model: str | None = None
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    api: str | None = None  # of an OpenAI-compatible endpoint: auto, chat or responses
    effort: str | None = None  # how much the model reasons
    timeout: float | None = None  # seconds without data before a request fails
    max_retries: int | None = None
    local_model: str | None = None  # a GGUF path or ``hf:OWNER/REPO/FILE`` for the embedded model
    discover: bool | None = None  # look for servers on the usual ports of this machine
    local_safe: bool | None = None  # always run the embedded model in safe mode
    request: str | None = None  # additional arguments of `OpenAIModel`, as a JSON object

    def resolved(self) -> ModelSettings:
        """The same with the values of the settings (``%config``, environment) where it has None.

        Raises:
            ConfigurationError: An environment variable cannot be read.
        """
        found: dict[str, Any] = {}
        for each in fields(self):
            given = getattr(self, each.name)
            if given is None:
                given = settings_now.value(each.name)
                if each.name == "request":
                    given = json.dumps(given)
            if isinstance(given, str):
                given = str(given)  # without the class of a secret
            found[each.name] = given
        return ModelSettings(**found)

    @property
    def fields(self) -> dict[str, Any]:
        """The additional arguments of `OpenAIModel`."""
        found: dict[str, Any] = json.loads(self.request or "{}")
        return found


def choose_model(
    name: Any = None, settings: ModelSettings | None = None, confirm: Confirm | None = None
) -> Any:
    """Choose the model that answers, without starting it.

    Args:
        name: A model's name, which may have the prefix of a provider (``"groq:…"``; ``"groq:"`` is
            its default model), ``"local"`` for the embedded model, None, or a model itself.
        settings: The configuration.
        confirm: Asks whether a discovered server may be used; None if there is nobody to ask.

    Returns:
        An `OpenAIModel`, an `AnthropicModel`, an `EmbeddedModel`, or the model of an entry point.

    Raises:
        ConfigurationError: No endpoint has a model of that name, a provider's key is missing, or
            the argument is not a model.
    """
    if name is not None and not isinstance(name, str):
        return _given_model(name)
    settings = (settings or ModelSettings()).resolved()
    name = name or settings.model or None
    if name == "local":
        return _embedded_model(settings)

    if name:
        prefixed = providers.from_prefix(name, functools.partial(_provider_model, settings))
        if prefixed is not None:
            return prefixed
    if settings.base_url or settings.api_key:
        base_url = settings.base_url or None
        api_key = settings.api_key or None
        return _endpoint_model(settings, name, base_url, api_key)

    discovery = _Discovery()
    wants_file = name is None and settings.local_model  # of the embedded model
    if settings.discover and not wants_file:
        discovery = _discovered(name, confirm)
    if discovery.found is not None:
        server, model = discovery.found
        chosen = _endpoint_model(settings, model.name, server.base_url, None)
        chosen.mark_discovered(server.name, model.context_tokens)
        return chosen

    if name is None:
        return _embedded_model(settings, discovery.why_not)
    raise ConfigurationError(discovery.why_not or _no_endpoint(name))


def _given_model(given: Any) -> Any:
    """An object that is given in place of a name, if it is a model."""
    if is_model(given):
        return given
    expected = "a model's name, an OpenAIModel, or an object with name, protocol and complete"
    kind = type(given).__name__
    raise ConfigurationError(f"model is {given!r}, of type {kind!r}; expected {expected}")


def _no_endpoint(name: str) -> str:
    """The message for a name, if nothing is configured or found that could serve it."""
    return (
        f"model {name!r} needs an endpoint, but none is configured. Set OPENAI_API_KEY or "
        f"{settings_now.where_to_set('base_url')}, or omit the model to use the embedded one."
        f"{providers.suggestion(name)}"
    )


def _embedded_model(settings: ModelSettings, why_no_other: str = "") -> Any:
    from archytas_nb.models.embedded.model import EmbeddedModel
    from archytas_nb.models.embedded.process import Engine

    embedded = EmbeddedModel(settings.local_model or None, Engine(safe=bool(settings.local_safe)))
    if why_no_other:
        # In the trace, which a notebook keeps; a replay chooses no model. Scripts see the log.
        embedded.instead_of = f"{why_no_other} Using the embedded model instead."
        _warn_once(embedded.instead_of)
    return embedded


def _endpoint_model(
    settings: ModelSettings, name: str | None, base_url: str | None, api_key: str | None
) -> Any:
    from archytas_nb.models.endpoint import OpenAIModel

    options: dict[str, Any] = {
        "timeout": settings.timeout, "max_retries": settings.max_retries,
        "effort": settings.effort, "api": settings.api, **settings.fields,
    }  # fmt: skip
    return OpenAIModel(name, base_url, api_key, **options)


def _provider_model(
    settings: ModelSettings, prefix: str, provider: Provider, name: str | None
) -> Any:
    """A provider's model; a configured key is used only if it is for the same endpoint."""
    base_url = (settings.base_url or OPENAI_URL).strip()
    # OPENAI_API_KEY is read for a prefix only if it is the provider's own variable.
    has_key = settings.api_key and settings.api_key != os.environ.get("OPENAI_API_KEY")
    is_configured = has_key and base_url.rstrip("/") == provider.base_url
    key = settings.api_key
    if not is_configured:
        key = providers.key_of(prefix, provider, name)
    providers.usable_key(key or "", provider.key_name)
    if prefix == "anthropic":
        from archytas_nb.models.anthropic import AnthropicModel

        limits = (settings.timeout, settings.max_retries)
        return AnthropicModel(name, None, key, *limits, effort=settings.effort, **settings.fields)
    chosen = _endpoint_model(settings, name, provider.base_url, key)
    if provider.key_name and not is_configured:
        chosen.errors.key_name = provider.key_name
    chosen.errors.prefix = prefix
    return chosen


@functools.cache
def _warn_once(text: str) -> None:
    _log.warning("%s", text)


def served_names(settings: ModelSettings | None = None) -> list[str]:
    """Names for completion: models of the endpoint or of this machine, "local", and prefixes.

    Never raises, and never takes longer than half a second.
    """
    settings = (settings or ModelSettings()).resolved()
    names: list[str] = []
    if settings.base_url or settings.api_key:
        base_url = (settings.base_url or OPENAI_URL).strip()
        api_key = (settings.api_key or "").strip()
        period = int(time.monotonic() / _LISTING_AGE)
        names += _listed_names(base_url, api_key, period)
    elif settings.discover:
        for server in local_servers():
            names += [model.name for model in server.models]
    return [*dict.fromkeys(names), "local", *providers.prefixes()]


@functools.lru_cache(maxsize=8)
def _listed_names(base_url: str, api_key: str, period: int) -> tuple[str, ...]:  # noqa: ARG001
    answers: list[tuple[Served, ...]] = []
    ask = threading.Thread(
        target=lambda: answers.append(served_at(base_url, api_key, _LISTING_SECONDS)),
        name="archytas_nb-models",
        daemon=True,
    )
    # In a thread, because host name lookup has no timeout.
    ask.start()
    ask.join(_LISTING_SECONDS)
    names: list[str] = []
    for models in answers:
        names += [model.name for model in models if model.chats]
    return tuple(names)


# ── servers on this machine ───────────────────────────────────────────────────────────────────────


def served_at(base_url: str, api_key: str, seconds: float) -> tuple[Served, ...]:
    """The models of an endpoint; none if it does not list them within these seconds."""
    from archytas_nb.models.endpoint import OpenAIModel

    with contextlib.suppress(ConfigurationError, ModelError):
        return OpenAIModel(None, base_url, api_key or "none").listed(seconds)
    return ()


class LocalServer(NamedTuple):
    """A model server on this machine, named after its port, with at least one chat model."""

    name: str
    base_url: str
    models: tuple[Served, ...]


def local_servers() -> tuple[LocalServer, ...]:
    """The model servers on `PORTS`; searched for once, so that a conversation keeps its model."""
    return _servers(PORTS)


@functools.cache
def _servers(ports: tuple[tuple[str, int], ...]) -> tuple[LocalServer, ...]:
    def look(named_port: tuple[str, int]) -> LocalServer:
        name, port = named_port
        base_url = f"http://127.0.0.1:{port}/v1"
        try:
            # Create a client only if something listens on the port.
            socket.create_connection(("127.0.0.1", port), SECONDS).close()
        except OSError:
            return LocalServer(name, base_url, ())
        models = served_at(base_url, "", SECONDS)
        return LocalServer(name, base_url, tuple(model for model in models if model.chats))

    with ThreadPoolExecutor(max(1, len(ports))) as pool:
        return tuple(server for server in pool.map(look, ports) if server.models)


@dataclass(frozen=True, slots=True)
class _Discovery:
    """The search result on this machine: a model, or why one is not used, or neither."""

    found: tuple[LocalServer, Served] | None = None
    why_not: str = ""


def _serving(name: str | None) -> Iterator[tuple[LocalServer, Served]]:
    """The models of that name on this machine, with their servers; all of them without a name."""
    for server in local_servers():
        for model in server.models:
            # Ollama's names end with a tag, which people omit if it is the default.
            if name in (None, model.name, model.name.removesuffix(":latest")):
                yield server, model


def _discovered(name: str | None, confirm: Confirm | None) -> _Discovery:
    """The named or first model of an allowed server; why not, if there is nobody to ask."""
    serving = list(_serving(name))
    allowed = _allowed()
    for server, model in serving:
        if allowed.get(server.base_url) == server.name:
            return _Discovery((server, model))
    for server, model in serving:
        if server.base_url in _refused:
            continue
        shown = repr(model.name[:80])[1:-1]  # it may contain terminal control sequences
        what = f"{server.name} at {urllib.parse.urlsplit(server.base_url).netloc}, model {shown}"
        answer = None
        if confirm:
            answer = confirm(f"Use {what}?")
        if answer is None:
            return _Discovery(
                why_not=f"{what}, is not used because it was neither configured nor allowed. To "
                f"use it, set {settings_now.where_to_set('base_url')} to {server.base_url!r}."
            )
        if answer:
            file = OutputFile(permissions_file(), "the list of servers", is_private=True)
            with contextlib.suppress(ConfigurationError):
                # The next process then asks again.
                file.write(json.dumps({**allowed, server.base_url: server.name}))
            return _Discovery((server, model))
        _refused.add(server.base_url)
    return _Discovery()


_refused: set[str] = set()
"""Base URLs of the servers that the user refused in this process."""


def permissions_file() -> Path:
    """The file of the allowed servers: a JSON object that maps base URLs to server names."""
    from archytas_nb.models.learnt import state_dir

    return state_dir() / "servers.json"


def _allowed() -> dict[str, object]:
    try:
        known = json.loads(permissions_file().read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    if isinstance(known, dict):
        return known
    return {}
