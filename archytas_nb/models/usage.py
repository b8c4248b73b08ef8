"""What a reply cost, as servers say it → `Usage`.

Pure. Nothing is estimated: where a server does not say, there is nothing (llama-cpp-python's server says nothing
in a stream).
"""

from __future__ import annotations

from typing import Any

from archytas_nb.loop.events import Usage


def usage_in(part: dict[str, Any]) -> Usage | None:
    """The usage that a part of a reply tells of: a body, a chunk of a stream, or one of its choices.

    Most servers say it beside the choices, Groq in a field of its own, Moonshot in the choice. llama.cpp's own
    server always sends ``timings``: what it read anew, what it still had in its cache, what it wrote.

    Returns:
        The usage, the cached tokens being part of the input; None where the part says nothing of it.
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
    cached = _count(details, "cached_tokens") or _count(
        data, "prompt_cache_hit_tokens", "cache_read_input_tokens", "cached_tokens"
    )
    cached = cached or _count(timings, "cache_n")
    return Usage(1, read, min(cached, read), _count(data, "completion_tokens", "output_tokens"))


def _count(data: Any, *names: str) -> int:
    """The first of these fields that is a number of tokens."""
    for name in names if isinstance(data, dict) else ():
        value = data.get(name)
        if isinstance(value, (int, float)) and 0 < value < 1e12:
            return int(value)
    return 0
