"""How many tokens a reply took, as servers report it, and what they cost."""

from __future__ import annotations

import datetime as dt
import functools
import importlib
from dataclasses import dataclass
from typing import Any

from archytas_nb.loop.events import Usage


def usage_in(part: dict[str, Any]) -> Usage | None:
    """The usage in a part of a reply: a body, a chunk of a stream, or a choice; None for none.

    Most servers report it beside the choices, Groq in a field of its own, Moonshot in the choice;
    llama.cpp sends ``timings``. The cached tokens are part of the input. Nothing is estimated.
    """
    timings = part.get("timings")
    for holder in (part, part.get("x_groq")):
        usage = holder.get("usage") if isinstance(holder, dict) else None
        if isinstance(usage, dict):
            return _usage(usage, timings)
    if not isinstance(timings, dict):
        return None
    cached = _count(timings, "cache_n")
    return Usage(1, _count(timings, "prompt_n") + cached, cached, _count(timings, "predicted_n"))


def _usage(data: dict[str, Any], timings: Any) -> Usage:
    details = data.get("prompt_tokens_details") or data.get("input_tokens_details") or {}
    read = _count(data, "prompt_tokens", "input_tokens")
    fields = ("prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens")
    cached = _count(details, "cached_tokens") or _count(data, *fields) or _count(timings, "cache_n")
    written, usd = _count(data, "completion_tokens", "output_tokens"), data.get("cost")
    if not isinstance(usd, (int, float)) or not 0 < usd < 1e6:  # OpenRouter says it
        usd = 0.0
    return Usage(1, read, min(cached, read), written, float(usd))


def _count(data: Any, *names: str) -> int:
    """The first of these fields that is a number of tokens."""
    for name in names if isinstance(data, dict) else ():
        value = data.get(name)
        if isinstance(value, (int, float)) and 0 < value < 1e12:
            return int(value)
    return 0


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens: sent, sent and cached by the endpoint, written."""

    input: float
    cached: float
    output: float

    def cost(self, usage: Usage) -> float:
        """USD for these tokens."""
        fresh = max(0, usage.input_tokens - usage.cached_tokens)
        usd = fresh * self.input + usage.cached_tokens * self.cached
        return (usd + usage.output_tokens * self.output) / 1_000_000


@functools.lru_cache(maxsize=64)
def price_of(base_url: str, model: str) -> Price | None:
    """The price of a model at an endpoint, from the data in genai-prices; asks nobody.

    Returns:
        The price; None where it is not known, depends on more than three numbers (a long prompt,
        writing to a cache), or genai-prices is not installed.
    """
    try:
        data = importlib.import_module("genai_prices.data_snapshot").get_snapshot()
        _, known = data.find_provider_model(model, None, None, base_url)
        prices = known.get_prices(dt.datetime.now(dt.UTC))
        if getattr(prices, "cache_write_mtok", None) is not None:
            return None
        sent, cached, written = prices.input_mtok, prices.cache_read_mtok, prices.output_mtok
        return Price(float(sent), float(sent if cached is None else cached), float(written))
    except (ImportError, LookupError, AttributeError, TypeError, ValueError):
        return None
