"""Facts that other companies have published: addresses, names, prices and ends of models.

This file is the only place for such facts. Each has its source and the day on which it was read;
pages and messages take them from here, and a test compares the pages with it. An endpoint may know
better: what it lists and refuses counts, and these facts only order what is tried.
"""

from __future__ import annotations

import re
from datetime import date
from typing import NamedTuple


class Provider(NamedTuple):
    """An endpoint that has a prefix.

    Attributes:
        base_url: The base URL of its API.
        key_name: The environment variable of its key; empty if it needs no key.
        defaults: The models that answer if none is named, the first choice first; empty if the
            first model that the endpoint lists answers.
    """

    base_url: str
    key_name: str = ""
    defaults: tuple[str, ...] = ()


class Source(NamedTuple):
    """The address and the day at which facts were read."""

    address: str
    read: date


class Published(NamedTuple):
    """The published facts of one model.

    Attributes:
        provider: The prefix of the endpoint that serves it.
        name: Its name in requests.
        source: Where its name and its end were read.
        context_tokens: The maximum number of tokens of a conversation and its reply.
        ends: The day on which it is shut down, as announced.
        price: USD for a million tokens of input, of input from a cache, and of output; only where
            a page states it or the package genai-prices may lack it.
    """

    provider: str
    name: str
    source: Source
    context_tokens: int | None = None
    ends: date | None = None
    price: tuple[float, float, float] | None = None


PROVIDERS = {
    "openai": Provider(
        "https://api.openai.com/v1", "OPENAI_API_KEY",
        ("gpt-6-luna", "gpt-5.6-luna", "gpt-5.4-mini"),
    ),
    "anthropic": Provider(
        "https://api.anthropic.com", "ANTHROPIC_API_KEY",
        ("claude-sonnet-5-5", "claude-sonnet-5", "claude-sonnet-4-6"),
    ),
    "gemini": Provider(
        "https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY",
        ("gemini-3.8-flash", "gemini-3.5-flash", "gemini-3.5-flash-lite"),
    ),
    "openrouter": Provider(
        "https://openrouter.ai/api/v1", "OPENROUTER_API_KEY",
        ("openai/gpt-6-luna", "openai/gpt-oss-120b"),
    ),
    "groq": Provider(
        "https://api.groq.com/openai/v1", "GROQ_API_KEY",
        ("openai/gpt-oss-120b", "openai/gpt-oss-20b"),
    ),
    "mistral": Provider(
        "https://api.mistral.ai/v1", "MISTRAL_API_KEY",
        ("mistral-small-latest", "mistral-medium-latest"),
    ),
    "ollama": Provider("http://127.0.0.1:11434/v1"),
    "vllm": Provider("http://127.0.0.1:8000/v1"),
    "lmstudio": Provider("http://127.0.0.1:1234/v1"),
    "llamacpp": Provider("http://127.0.0.1:8080/v1"),
}  # fmt: skip
"""The built-in prefixes. All providers except Anthropic have OpenAI's chat completions API."""

_READ = date(2026, 11, 28)
# Version 0.2.3, from which all contexts and prices are.
_PRICES = Source("https://github.com/pydantic/genai-prices", _READ)
# The types of openai 3.57.0 and anthropic 2.14.0 have the same days.
_OPENAI = Source("https://developers.openai.com/api/docs/deprecations", _READ)
_ANTHROPIC = Source("https://platform.claude.com/docs/about-claude/model-deprecations", _READ)
_GEMINI = Source("https://ai.google.dev/gemini-api/docs/deprecations", _READ)
_GROQ = Source("https://console.groq.com/docs/deprecations", _READ)
_GROQ_MODELS = Source("https://console.groq.com/docs/models", _READ)
_QWEN3 = Source("https://huggingface.co/Qwen/Qwen3-8B", _READ)
_CODER = Source("https://huggingface.co/Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF", _READ)
_CODER_7B = Source("https://huggingface.co/Qwen/Qwen2.5-Coder-7B-Instruct-GGUF", _READ)

MODELS = (
    Published("openai", "gpt-6-luna", _PRICES, 1_050_000, price=(0.1, 0.01, 0.5)),
    Published("openai", "gpt-6.1-terra", _PRICES, 1_050_000),
    Published("openai", "gpt-6.1-sol", _PRICES, 1_050_000),
    Published("openai", "gpt-5.6-luna", _PRICES, 1_050_000),
    Published("openai", "gpt-5.4", _PRICES, 1_050_000),
    Published("openai", "gpt-5.4-mini", _PRICES, 400_000),
    Published("openai", "gpt-5.4-nano", _OPENAI, 400_000, date(2027, 4, 1)),
    Published("openai", "gpt-5.1", _OPENAI, 400_000, date(2027, 4, 1)),
    Published("openai", "gpt-5", _OPENAI, 400_000, date(2026, 12, 11)),
    Published("openai", "gpt-5-mini", _OPENAI, 400_000, date(2026, 12, 11)),
    Published("openai", "gpt-5-nano", _OPENAI, 400_000, date(2026, 12, 11)),
    Published("openai", "o3", _OPENAI, 200_000, date(2026, 12, 11)),
    Published("openai", "gpt-4.1", _OPENAI, 1_000_000, date(2027, 1, 14)),
    Published("openai", "gpt-4.1-mini", _OPENAI, 1_000_000, date(2027, 1, 14)),
    Published("openai", "gpt-4.1-nano", _OPENAI, 1_000_000, date(2026, 10, 23)),
    Published("openai", "gpt-4o", _OPENAI, 128_000, date(2027, 1, 14)),
    Published("openai", "gpt-4o-mini", _OPENAI, 128_000, date(2027, 1, 14)),
    Published("openai", "o4-mini", _OPENAI, 200_000, date(2026, 10, 23)),
    Published("anthropic", "claude-sonnet-5-5", _PRICES, 1_000_000),
    Published("anthropic", "claude-sonnet-5", _PRICES, 1_000_000),
    Published("anthropic", "claude-sonnet-4-6", _PRICES, 1_000_000),
    Published("anthropic", "claude-sonnet-4-5", _ANTHROPIC, 200_000, date(2026, 11, 30)),
    Published("anthropic", "claude-opus-4-5", _ANTHROPIC, 200_000, date(2027, 1, 22)),
    Published("gemini", "gemini-3.8-flash", _GEMINI, 1_000_000),
    Published("gemini", "gemini-3.5-flash", _GEMINI, 1_000_000),
    Published("gemini", "gemini-3.5-flash-lite", _GEMINI, 1_000_000),
    Published("gemini", "gemini-2.5-flash", _GEMINI, 1_048_576, date(2026, 12, 1)),
    Published("gemini", "gemini-2.5-pro", _GEMINI, None, date(2026, 12, 1)),
    Published("openrouter", "openai/gpt-6-luna", _PRICES, 1_050_000),
    Published("openrouter", "openai/gpt-oss-120b", _PRICES),
    Published("openrouter", "qwen/qwen3-32b", _PRICES),
    Published("groq", "openai/gpt-oss-120b", _GROQ_MODELS, 131_072),
    Published("groq", "openai/gpt-oss-20b", _GROQ_MODELS, 131_072),
    Published("groq", "llama-3.3-70b-versatile", _GROQ, None, date(2026, 8, 16)),
    Published("groq", "llama-3.1-8b-instant", _GROQ, None, date(2026, 8, 16)),
    Published("mistral", "mistral-small-latest", _PRICES),
    Published("mistral", "mistral-medium-latest", _PRICES),
    Published("ollama", "qwen3:8b", _QWEN3),
    Published("ollama", "qwen2.5-coder:1.5b", _CODER),
    Published("vllm", "Qwen/Qwen3-8B", _QWEN3),
    Published("lmstudio", "qwen3-8b", _QWEN3),
    Published("llamacpp", "qwen3-8b", _QWEN3),
    # Files that the embedded model runs, which nobody shuts down.
    Published("local", "Qwen2.5-Coder-1.5B-Instruct", _CODER),
    Published("local", "Qwen2.5-Coder-7B-Instruct", _CODER_7B),
)
"""The models that pages, messages and defaults name, and those whose end is announced."""

BATCH_PRICE = 0.5
"""What a request of a batch costs, as a share of the ordinary price.

Read on 2026-11-29 at https://help.openai.com/en/articles/9197833 and
https://platform.claude.com/docs/en/build-with-claude/batch-processing.
"""

_DAY = re.compile(r"-(?:\d{8}|\d{4}-\d{2}-\d{2})$")
"""The end of the name of a snapshot."""


def is_same(listed: str, name: str) -> bool:
    """Whether a name in a list means a model: ``models/x`` and ``x-2026-04-23`` both mean ``x``.

    Gemini lists names with a path, and Anthropic lists some models only as snapshots.
    """
    return listed == name or listed.endswith(f"/{name}") or _DAY.sub("", listed) == name


def provider_at(base_url: str) -> str | None:
    """The prefix of the endpoint with this base URL."""
    for prefix, provider in PROVIDERS.items():
        if provider.base_url == base_url:
            return prefix
    return None


def defaults_at(base_url: str) -> tuple[str, ...]:
    """The default models of an endpoint, the first choice first."""
    prefix = provider_at(base_url)
    if prefix is None:
        return ()
    return PROVIDERS[prefix].defaults


def published(base_url: str, name: str) -> Published | None:
    """The published facts of a model at an endpoint; None if this file does not have it."""
    prefix = provider_at(base_url)
    for each in MODELS:
        if each.provider == prefix and is_same(name, each.name):
            return each
    return None


def ends_at(base_url: str) -> dict[str, tuple[date, str]]:
    """The announced ends of models at an endpoint, by name: the day, and the source."""
    prefix = provider_at(base_url)
    known = [each for each in MODELS if each.provider == prefix]
    return {each.name: (each.ends, each.source.address) for each in known if each.ends}
