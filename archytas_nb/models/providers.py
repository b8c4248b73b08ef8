"""Prefixes of model names, such as ``groq:``: providers that are built in, and entry points.

An entry point of the group ``archytas_nb.models`` adds a prefix: its name is the prefix, and what
it names is called with the rest of the model's name and returns a model.
"""

from __future__ import annotations

import functools
import importlib.metadata
import logging
import os
import re
from collections.abc import Callable
from typing import Any, NamedTuple, TypeAlias

from archytas_nb.errors import ArchytasError, ConfigurationError
from archytas_nb.tools.names import nearest

_log = logging.getLogger("archytas_nb")

GROUP = "archytas_nb.models"
OPENAI_URL = "https://api.openai.com/v1"
ANTHROPIC_URL = "https://api.anthropic.com"


class Provider(NamedTuple):
    """Where a provider's API begins, and the environment variable of its key; empty for none."""

    base_url: str
    key_name: str = ""


PROVIDERS = {
    "openai": Provider(OPENAI_URL, "OPENAI_API_KEY"),
    "anthropic": Provider(ANTHROPIC_URL, "ANTHROPIC_API_KEY"),
    "gemini": Provider("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "openrouter": Provider("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "groq": Provider("https://api.groq.com/openai/v1", "GROQ_API_KEY"),
    "mistral": Provider("https://api.mistral.ai/v1", "MISTRAL_API_KEY"),
    "ollama": Provider("http://127.0.0.1:11434/v1"),
    "vllm": Provider("http://127.0.0.1:8000/v1"),
    "lmstudio": Provider("http://127.0.0.1:1234/v1"),
    "llamacpp": Provider("http://127.0.0.1:8080/v1"),
}
"""The prefixes that are built in. Each provider but Anthropic has OpenAI's chat completions API."""

Make: TypeAlias = Callable[[str, Provider, str], Any]
"""Makes a model of a provider that is built in: its prefix, the provider, the model's name."""


def from_prefix(name: str, make: Make) -> Any:
    """The model that a name with a prefix stands for; None where the name has no such prefix.

    Raises:
        ConfigurationError: No name follows the prefix, or an entry point cannot be used.
    """
    prefix, colon, rest = name.partition(":")
    if not colon or not re.fullmatch(r"[A-Za-z][\w-]*", prefix):
        return None
    provider, added = PROVIDERS.get(prefix), _entry_points(prefix)
    if provider is None and not added:
        return None
    if not rest:
        raise ConfigurationError(f"model {name!r} names no model; expected '{prefix}:MODEL'")
    if provider is None:
        return _made(added, rest)
    for each in added:
        _warn_once(f"{_shown(each)} is not used: the prefix '{prefix}:' is built in.")
    return make(prefix, provider, rest)


def misspelled(name: str) -> str:
    """What else a name may have been meant to be, where its prefix is nearly a known one."""
    prefix, colon, rest = name.partition(":")
    near = nearest(prefix, PROVIDERS) if colon else None
    return f" (Did you mean '{near}:{rest}'?)" if near else ""


def key_of(prefix: str, provider: Provider, name: str) -> str:
    """The key of a provider, from the environment; ``"none"`` where it needs none.

    Raises:
        ConfigurationError: There is none, and it needs one.
    """
    key = os.environ.get(provider.key_name, "").strip() if provider.key_name else "none"
    if not key:
        text = f"model '{prefix}:{name}' needs an API key, and {provider.key_name} is not set."
        if prefix == "mistral":  # also the name of a model of Ollama's
            text += f" (A model of Ollama's with that name is 'ollama:{prefix}:{name}'.)"
        raise ConfigurationError(f"{text} Set it in the environment.")
    return key


@functools.cache
def _warn_once(text: str) -> None:
    _log.warning("%s", text)


def _entry_points(prefix: str) -> list[importlib.metadata.EntryPoint]:
    return list(importlib.metadata.entry_points(group=GROUP, name=prefix))


def _made(added: list[importlib.metadata.EntryPoint], name: str) -> Any:
    """The model of an entry point."""
    entry_point, *others = added
    shown = _shown(entry_point)
    if others:
        both = " and ".join(map(_shown, added))
        raise ConfigurationError(f"{both} have the same name. Uninstall one of the packages.")
    try:
        model = entry_point.load()(name)
    except ArchytasError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {error}"
        raise ConfigurationError(
            f"{shown} cannot be used for {name!r} ({what}). Update or uninstall the package."
        ) from error
    if not callable(getattr(model, "complete", None)):
        expected = "expected an object with name, protocol and complete"
        raise ConfigurationError(f"{shown} returned {model!r}; {expected}")
    return model


def _shown(entry_point: importlib.metadata.EntryPoint) -> str:
    package = entry_point.dist.name if entry_point.dist else entry_point.module
    return f"the entry point {entry_point.name!r} ({GROUP}) of the package {package!r}"
