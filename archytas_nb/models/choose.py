"""Chooses the model that answers: a named one, a configured one, or one found on this machine.

Precedence: argument (flag), settings (``%config``), environment, a model server that already runs
on this machine and that the user allows, the embedded model.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
import os
import re
import socket
import threading
import time
import urllib.parse
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from archytas_nb.errors import ConfigurationError
from archytas_nb.models import providers, serve
from archytas_nb.models.providers import OPENAI_URL, Provider

_log = logging.getLogger("archytas_nb")

Confirm: TypeAlias = Callable[[str], bool | None]
"""Asks the user a question to answer with yes or no; returns None where nobody can be asked."""

PORTS: tuple[tuple[str, int], ...] = (
    ("Ollama", 11434),
    ("LM Studio", 1234),
    ("vLLM", 8000),
    ("llama.cpp's server", 8080),
)
"""The usual ports of model servers. Any process may listen there, so the user is asked first."""
SECONDS = 0.3
"""How long a port of this machine is waited for; all are asked at the same time."""
_LISTING_SECONDS = 0.5
_LISTED_FOR = 30.0
"""Seconds for which a list of models is good enough for a completion."""
_SMALL = 4.0
"""Billions of parameters up to which a model counts as small."""
_NO_CHAT = re.compile(
    r"embed|rerank|whisper|transcri|moderation|dall-e|stable-diffusion|realtime|gpt-image|-tts"
    r"|davinci|babbage|\b(?:tts|clip|bge|gte|e5|minilm|mxbai|flux|sora)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ModelSettings:
    """What a configuration says about models; None leaves it to the environment.

    Attributes:
        model: The model's name at its endpoint.
        base_url: The endpoint.
        api_key: Its key.
        timeout: Seconds without data before a request is given up.
        max_retries: How often a failure that may pass is tried again.
        local_model: A GGUF path or ``hf:REPO/FILE`` for the embedded model.
        discover: Whether servers on this machine's usual ports are looked for.
        local_safe: Whether the embedded model is always run in safe mode.
        request: Further arguments of `OpenAIModel`, as a JSON object.
    """

    model: str | None = None
    base_url: str | None = None
    api_key: str | None = None
    timeout: float | None = None
    max_retries: int | None = None
    local_model: str | None = None
    discover: bool | None = None
    local_safe: bool | None = None
    request: str = "{}"

    @property
    def endpoint(self) -> tuple[str | None, str | None]:
        """The configured base URL and key, each None where there is none."""
        base_url = self.base_url or os.environ.get("OPENAI_BASE_URL") or None
        return base_url, self.api_key or os.environ.get("OPENAI_API_KEY") or None

    @property
    def gguf(self) -> str | None:
        """The configured weights of the embedded model, or None for its own."""
        return self.local_model or os.environ.get("ARCHYTAS_NB_LOCAL_MODEL") or None

    @property
    def safe(self) -> bool:
        """Whether the embedded model is always run in safe mode."""
        return _flag("ARCHYTAS_NB_LOCAL_SAFE", "no", setting=self.local_safe)

    @property
    def discovers(self) -> bool:
        """Whether servers on this machine are looked for; ARCHYTAS_NB_DISCOVER=0 says no."""
        return _flag("ARCHYTAS_NB_DISCOVER", "yes", setting=self.discover)


def _flag(variable: str, default: str, *, setting: bool | None) -> bool:
    if setting is not None:
        return setting
    text = os.environ.get(variable, default).strip().lower()
    return text not in ("0", "false", "no", "off")


def choose_model(
    name: Any = None, settings: ModelSettings | None = None, confirm: Confirm | None = None
) -> Any:
    """Choose the model that answers; nothing is started yet.

    Args:
        name: A model's name, which may have the prefix of a provider (``"groq:…"``), ``"local"``
            for the embedded model, None, or a model itself.
        settings: What the configuration says.
        confirm: Asks whether a server may be used that was not named; None asks nobody.

    Returns:
        An `OpenAIModel`, an `AnthropicModel`, an `EmbeddedModel`, or an entry point's model.

    Raises:
        ConfigurationError: No endpoint has a model of that name, a provider's key is missing, or
            what is given is no model.
    """
    if name is not None and not isinstance(name, str):
        if not isinstance(name, type) and callable(getattr(name, "complete", None)):
            return name
        expected = "a model's name, an OpenAIModel, or an object with name, protocol and complete"
        kind = type(name).__name__
        raise ConfigurationError(f"model is {name!r}, of type {kind!r}; expected {expected}")
    settings = settings or ModelSettings()
    name = name or settings.model or os.environ.get("ARCHYTAS_NB_MODEL") or None
    base_url, api_key = settings.endpoint
    if name:
        prefixed = providers.from_prefix(name, functools.partial(_at_provider, settings))
        if prefixed is not None:
            return prefixed
    if name != "local" and (base_url or api_key):
        return _at_endpoint(settings, name, base_url, api_key)
    found = None
    if name != "local" and settings.discovers and not (name is None and settings.gguf):
        found = _found(name, confirm)
    if isinstance(found, tuple):
        server, model = found
        chosen = _at_endpoint(settings, model.name, server.base_url, None)
        chosen.found(server.name, model.context_tokens)
        return chosen
    if name not in (None, "local"):
        raise found or ConfigurationError(
            f"model {name!r} needs an endpoint, but none is configured. Set OPENAI_API_KEY or "
            "OPENAI_BASE_URL (or %config ArchytasNB.base_url), or omit the model to use the "
            f"embedded one.{providers.misspelled(name)}"
        )
    if found:
        _warn_once(str(found))
    from archytas_nb.models.embedded import EmbeddedModel
    from archytas_nb.models.process import Engine

    return EmbeddedModel(settings.gguf, Engine(safe=settings.safe))


def _at_endpoint(
    settings: ModelSettings, name: str | None, base_url: str | None, api_key: str | None
) -> Any:
    from archytas_nb.models.endpoint import OpenAIModel

    limits = (settings.timeout, settings.max_retries)
    return OpenAIModel(name, base_url, api_key, *limits, **json.loads(settings.request))


def _at_provider(settings: ModelSettings, prefix: str, provider: Provider, name: str) -> Any:
    """A model of a provider with a prefix; a key of the configuration is for its own endpoint."""
    base_url = (settings.base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI_URL).strip()
    is_configured = settings.api_key and base_url.rstrip("/") == provider.base_url
    key = settings.api_key if is_configured else providers.key_of(prefix, provider, name)
    usable_key(key or "", provider.base_url, provider.key_name)
    if prefix == "anthropic":
        from archytas_nb.models.anthropic import AnthropicModel

        limits = (settings.timeout, settings.max_retries)
        return AnthropicModel(name, None, key, *limits, **json.loads(settings.request))
    chosen = _at_endpoint(settings, name, provider.base_url, key)
    if provider.key_name and not is_configured:
        chosen.errors.key_name = provider.key_name
    chosen.errors.address_of = prefix
    return chosen


@functools.cache
def _warn_once(text: str) -> None:
    _log.warning("%s Using the embedded model instead.", text)


def served_names(settings: ModelSettings | None = None) -> list[str]:
    """The names of models for completion: the configured endpoint's or this machine's, and "local".

    Never raises, and never takes longer than half a second.
    """
    settings = settings or ModelSettings()
    base_url, api_key = settings.endpoint
    names: list[str] = []
    if base_url or api_key:
        period = int(time.monotonic() / _LISTED_FOR)
        names += _listed((base_url or OPENAI_URL).strip(), (api_key or "").strip(), period)
    elif settings.discovers:
        names += [model.name for server in local_servers() for model in server.models]
    return [*dict.fromkeys(names), "local"]


@functools.lru_cache(maxsize=8)
def _listed(base_url: str, api_key: str, period: int) -> tuple[str, ...]:  # noqa: ARG001
    answers: list[tuple[Served, ...]] = []
    ask = threading.Thread(
        target=lambda: answers.append(served_at(base_url, api_key, _LISTING_SECONDS)),
        name="archytas_nb-models",
        daemon=True,
    )
    ask.start()  # looking up a host has no time limit of its own
    ask.join(_LISTING_SECONDS)
    return tuple(model.name for models in answers for model in models if model.chats)


# ── servers on this machine ───────────────────────────────────────────────────────────────────────


class Served(NamedTuple):
    """A model of an endpoint, and its context in tokens where the endpoint says so."""

    name: str
    context_tokens: int | None = None

    @property
    def chats(self) -> bool:
        """Whether its name is not that of a model for something else."""
        return not _NO_CHAT.search(self.name)


def served_at(base_url: str, api_key: str, seconds: float) -> tuple[Served, ...]:
    """The models of an endpoint; none where nothing there answers so in these seconds."""
    from archytas_nb.models.endpoint import OpenAIModel
    from archytas_nb.models.refusals import RequestError

    with contextlib.suppress(ConfigurationError, RequestError):
        return OpenAIModel(None, base_url, api_key or "none").listed(seconds)
    return ()


class LocalServer(NamedTuple):
    """A model server on this machine, named after its port, with at least one model that chats."""

    name: str
    base_url: str
    models: tuple[Served, ...]


def local_servers() -> tuple[LocalServer, ...]:
    """The model servers on `PORTS`; looked for once, so that a conversation keeps its model."""
    return _servers(PORTS)


@functools.cache
def _servers(ports: tuple[tuple[str, int], ...]) -> tuple[LocalServer, ...]:
    def look(port: tuple[str, int]) -> LocalServer:
        base_url = f"http://127.0.0.1:{port[1]}/v1"
        try:  # a client is made only for a port where something listens
            socket.create_connection(("127.0.0.1", port[1]), SECONDS).close()
        except OSError:
            return LocalServer(port[0], base_url, ())
        models = served_at(base_url, "", SECONDS)
        return LocalServer(port[0], base_url, tuple(model for model in models if model.chats))

    with ThreadPoolExecutor(max(1, len(ports))) as pool:
        return tuple(server for server in pool.map(look, ports) if server.models)


def _found(
    name: str | None, confirm: Confirm | None
) -> tuple[LocalServer, Served] | ConfigurationError | None:
    """The named or first model of an allowed server, or an error where nobody can be asked."""
    serving = [
        (server, model)
        for server in local_servers()
        for model in server.models
        # Ollama's names end with a tag, which nobody types where it is the usual one.
        if name in (None, model.name, model.name.removesuffix(":latest"))
    ]
    allowed = _allowed()
    for server, model in serving:
        if allowed.get(server.base_url) == server.name:
            return server, model
    for server, model in serving:
        if server.base_url in _refused:
            continue
        shown = repr(model.name[:80])[1:-1]  # the server wrote it: it must not act on a terminal
        what = f"{server.name} at {urllib.parse.urlsplit(server.base_url).netloc}, model {shown}"
        answer = confirm(f"Use {what}? [y/n] ") if confirm else None
        if answer is None:
            return ConfigurationError(
                f"{what}, is not used because it was neither configured nor allowed. To use it, "
                f"set OPENAI_BASE_URL (or %config ArchytasNB.base_url) to {server.base_url!r}."
            )
        if answer:
            file = permissions_file()
            with contextlib.suppress(OSError):  # then the next process asks again
                file.parent.mkdir(parents=True, exist_ok=True)
                serve.write_private(file, {**allowed, server.base_url: server.name})
            return server, model
        _refused.add(server.base_url)
    return None


_refused: set[str] = set()
"""Base URLs of servers that the user refused, for this process."""


def permissions_file() -> Path:
    """Where the allowed servers are kept: a JSON object of base URLs and kinds of servers."""
    import platformdirs

    return Path(platformdirs.user_state_dir("archytas-nb", appauthor=False)) / "servers.json"


def _allowed() -> dict[str, object]:
    try:
        known = json.loads(permissions_file().read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def is_small(name: str) -> bool:
    """Whether a name says that a model is small: ``qwen2.5-coder:1.5b``, not ``qwen3-30b-a3b``."""
    sizes = re.findall(r"(?<![\d.])(\d+(?:\.\d+)?)(b|m)(?![a-z])", name.lower())
    billions = [float(count) / (1 if unit == "b" else 1000) for count, unit in sizes]
    return bool(billions) and max(billions) <= _SMALL


def models_in(data: Any) -> tuple[Served, ...]:
    """The models in an endpoint's answer.

    Raises:
        ValueError: It is no list of models.
    """
    items = data.get("data") if isinstance(data, dict) else None
    if not isinstance(items, list):
        raise ValueError("not a list of models")  # noqa: TRY004 - what was sent is wrong, not our call
    models = []
    for item in items:
        if isinstance(item, dict) and isinstance(item.get("id"), str) and item["id"]:
            # fields of vLLM, LM Studio and Anthropic
            fields = ("max_model_len", "loaded_context_length", "max_input_tokens")
            sizes = map(item.get, fields)
            known = [size for size in sizes if isinstance(size, int) and size > 0]
            models.append(Served(item["id"], known[0] if known else None))
    return tuple(models)


# ── addresses and keys ────────────────────────────────────────────────────────────────────────────


def endpoint_of(
    url: str, path: tuple[str, ...] = ("/chat/completions",)
) -> tuple[str, dict[str, str], tuple[str, str] | None]:
    """A base URL without the path of requests and secrets; its query; its user and password.

    Raises:
        ConfigurationError: It has no scheme or no host.
    """
    try:
        parts = urllib.parse.urlsplit(url.strip())
        is_url = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:
        is_url = False
    if not is_url:
        shown = url.partition("?")[0].rpartition("@")[2]
        expected = "http:// or https://, a host, and usually '/v1' at the end"
        raise ConfigurationError(f"base_url is {shown!r}; expected {expected}")
    begin = parts.path.removesuffix("/")
    for end in path:
        begin = begin.removesuffix(end)
    _, is_named, host = parts.netloc.rpartition("@")
    name, password = map(urllib.parse.unquote, (parts.username or "", parts.password or ""))
    query = dict(urllib.parse.parse_qsl(parts.query, keep_blank_values=True))
    base_url = urllib.parse.urlunsplit((parts.scheme, host, begin, "", ""))
    return base_url, query, (name, password) if is_named else None


def usable_key(key: str, base_url: str, name: str) -> str:
    """A key that fits into a header; may be empty for an endpoint that needs none.

    `name` says what holds it, for messages.

    Raises:
        ConfigurationError: The key cannot be one, or the endpoint needs one and there is none.
    """
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        text = f"the API key contains invalid characters. Copy it into {name} again."
        raise ConfigurationError(text)
    if not key and base_url.startswith(OPENAI_URL):
        move = "Set OPENAI_API_KEY, or OPENAI_BASE_URL for another endpoint."
        raise ConfigurationError(f"no API key for {base_url!r}. {move}")
    return key


def usable_fields(name: str, fields: Mapping[str, str] | None) -> dict[str, str]:
    """Headers, or the fields of a query; a value may be secret and is not shown.

    Raises:
        ConfigurationError: A name or a value does not fit on the line of a header.
    """
    for key, value in (fields or {}).items():
        if not all(isinstance(x, str) and x.isascii() and x.isprintable() for x in (key, value)):
            expected = "expected names and values of printable ASCII, such as {'X-Team': 'data'}"
            raise ConfigurationError(f"{name} contains {key!r}, which cannot be sent; {expected}")
    return dict(fields or {})


def key_header(url: str, key: str) -> dict[str, str]:
    """The header of a key: Azure takes a key of its own, but not a token, in another one."""
    host = urllib.parse.urlsplit(url).hostname or ""
    if re.search(r"\.azure\.(?:com|us|cn)", host) and key.count(".") != 2:
        return {"api-key": key}
    return {"Authorization": f"Bearer {key}"}


def is_local(url: str) -> bool:
    """Whether a URL names this machine."""
    return urllib.parse.urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
