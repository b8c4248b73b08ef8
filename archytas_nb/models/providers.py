"""Model providers: prefixes such as ``groq:``, base URLs, API keys, and properties of model names.

An entry point in the group ``archytas_nb.models`` adds a prefix: its name is the prefix, and its
object is called with the rest of the model name and returns a model.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import urllib.parse
from collections.abc import Callable, Mapping
from datetime import date
from typing import Any, NamedTuple, TypeAlias

from archytas_nb.errors import ArchytasError, ConfigurationError
from archytas_nb.loop.model import is_model
from archytas_nb.models.published import PROVIDERS, Provider
from archytas_nb.words import nearest

GROUP = "archytas_nb.models"
OPENAI_URL = PROVIDERS["openai"].base_url
ANTHROPIC_URL = PROVIDERS["anthropic"].base_url

_VENDORS = {"claude-": "anthropic", "gemini-": "gemini"}  # by the start of a model name

ModelFactory: TypeAlias = Callable[[str, Provider, str | None], Any]
"""Creates a model of a built-in provider from its prefix, the provider and the model name."""


def from_prefix(name: str, factory: ModelFactory) -> Any:
    """The model for a name with a known prefix; None if the name has none.

    The prefix of a built-in provider alone means the default model there.

    Raises:
        ConfigurationError: The name ends after the prefix of an entry point, or the entry point
            cannot be used.
    """
    prefix, colon, rest = name.partition(":")
    provider = PROVIDERS.get(prefix)
    if not colon or not prefix:
        return None
    added = importlib.metadata.entry_points(group=GROUP, name=prefix)
    if provider is None and not added:
        return None
    if provider:
        return factory(prefix, provider, rest or None)
    if not rest:
        raise ConfigurationError(f"model {name!r} has no model name; expected '{prefix}:MODEL'")
    return _entry_point_model(tuple(added), rest)


def prefixes() -> list[str]:
    """All prefixes with their colons: the built-in ones and those of entry points."""
    added = importlib.metadata.entry_points(group=GROUP)
    return [f"{prefix}:" for prefix in dict.fromkeys([*PROVIDERS, *(x.name for x in added)])]


def suggestion(name: str) -> str:
    """A suggestion for a name whose prefix is missing or misspelled, or an empty string."""
    prefix = separator = rest = ""
    if found := re.fullmatch(r"([^:/\s]+)([:/])(.+)", name):
        prefix, separator, rest = found.groups()
    vendor = next((_VENDORS[each] for each in _VENDORS if name.startswith(each)), "")
    if prefix.isalpha():
        near = nearest(prefix, PROVIDERS)
        candidate = near and f"{near}:{rest}"
    elif separator == ":":
        # A name and a size, as in Ollama.
        candidate = f"ollama:{name}"
    elif vendor:
        candidate = f"{vendor}:{name}"
    else:
        candidate = nearest(name, ["local"])
    if candidate:
        return f" (Did you mean {candidate!r}?)"
    return ""


def _entry_point_model(entry_points: tuple[importlib.metadata.EntryPoint, ...], name: str) -> Any:
    """The model that an entry point creates."""
    packages = [each.dist.name if each.dist else each.module for each in entry_points]
    shown = f"the prefix '{entry_points[0].name}:' of the package {packages[0]!r}"
    if len(packages) > 1:
        raise ConfigurationError(
            f"the packages {', '.join(map(repr, packages))} add the same prefix "
            f"'{entry_points[0].name}:'. Uninstall all but one."
        )
    try:
        model = entry_points[0].load()(name)
    except ArchytasError:
        raise
    except Exception as error:
        why = f"{type(error).__name__}: {error}"
        raise ConfigurationError(
            f"{shown} cannot be used for {name!r} ({why}). Update or uninstall the package."
        ) from error
    if not is_model(model):
        expected = "expected an object with name, protocol and complete"
        raise ConfigurationError(f"{shown} returned {model!r}; {expected}")
    return model


# ── models ────────────────────────────────────────────────────────────────────────────────────────

_SMALL = 4.0
"""Maximum size of a small model in billions of parameters."""
_NO_CHAT = re.compile(
    r"embed|rerank|whisper|transcri|moderation|dall-e|stable-diffusion|realtime|gpt-image|-tts"
    r"|davinci|babbage|\b(?:tts|clip|bge|gte|e5|minilm|mxbai|flux|sora)\b",
    re.IGNORECASE,
)

_NO_REASONING = re.compile(r"^(?:ft:)?(?:gpt-[34]|chatgpt)|-chat\b|audio|search-preview")


class Served(NamedTuple):
    """A model of an endpoint, with what the endpoint reports of it.

    Attributes:
        context_tokens: Its context length in tokens.
        ends: The day on which it is shut down.
    """

    name: str
    context_tokens: int | None = None
    ends: date | None = None

    @property
    def chats(self) -> bool:
        """Whether it is a chat model, judging by its name."""
        return not _NO_CHAT.search(self.name)


def reasons(name: str) -> bool:
    """Whether a model of OpenAI reasons, by its name: all but some old and special ones do."""
    return not _NO_REASONING.search(name)


def is_small(name: str) -> bool:
    """Whether a model is small by name: ``qwen2.5-coder:1.5b`` is, ``qwen3:8b`` is not."""
    sizes = re.findall(r"(?<![\d.])(\d+(?:\.\d+)?)(b|m)(?![a-z])", name.lower())
    billions = [float(count) / (1 if unit == "b" else 1000) for count, unit in sizes]
    return bool(billions) and max(billions) <= _SMALL


# ── addresses, keys and headers ───────────────────────────────────────────────────────────────────


def endpoint_of(
    url: str, path: tuple[str, ...] = ("/chat/completions",)
) -> tuple[str, dict[str, str], tuple[str, str] | None]:
    """A base URL without request path and secrets; its query; its user name and password.

    Raises:
        ConfigurationError: The URL has no scheme or no host.
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
    if not is_named:
        return base_url, query, None
    return base_url, query, (name, password)


def key_of(prefix: str, provider: Provider, name: str | None) -> str:
    """A provider's API key from the environment; ``"none"`` if it does not need one.

    Raises:
        ConfigurationError: The key is required but not set.
    """
    key = "none"
    if provider.key_name:
        key = os.environ.get(provider.key_name, "").strip()
    if not key:
        shown = f"{prefix}:{name or ''}"
        text = f"model {shown!r} needs an API key, and {provider.key_name} is not set."
        if name and prefix == "mistral":
            # Also the name of an Ollama model.
            text += f" (For Ollama's model of that name, use 'ollama:{prefix}:{name}'.)"
        raise ConfigurationError(f"{text} Set it in the environment.")
    return key


def usable_key(key: str, name: str) -> str:
    """A key that can be sent in a header; `name` is the variable that holds it.

    Raises:
        ConfigurationError: It contains characters that cannot be sent.
    """
    key = key.strip()
    if not key.isascii() or not key.isprintable() or " " in key:
        text = f"the API key contains invalid characters. Copy it into {name} again."
        raise ConfigurationError(text)
    return key


def usable_fields(name: str, fields: Mapping[str, str] | None) -> dict[str, str]:
    """Headers or query parameters; errors do not show values, because they may be secret.

    Raises:
        ConfigurationError: A name or a value contains characters that cannot be sent.
    """
    for key, value in (fields or {}).items():
        if not all(isinstance(x, str) and x.isascii() and x.isprintable() for x in (key, value)):
            expected = "expected names and values of printable ASCII, such as {'X-Team': 'data'}"
            raise ConfigurationError(f"{name} contains {key!r}, which cannot be sent; {expected}")
    return dict(fields or {})


def is_local(url: str) -> bool:
    """Whether a URL refers to this machine."""
    return urllib.parse.urlsplit(url).hostname in ("127.0.0.1", "localhost", "::1")
