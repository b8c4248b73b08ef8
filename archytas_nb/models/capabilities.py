"""What an endpoint supports, as far as known; it is cached until the process ends."""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import Literal

from archytas_nb.choices import ActiveProtocol
from archytas_nb.models.providers import OPENAI_URL


@dataclass(slots=True)
class Capabilities:
    """What an endpoint supports, as far as known; also the form of one request."""

    schema: bool = True  # a JSON schema for the reply
    grammars: bool = False  # a grammar for the reply (llama.cpp)
    strict: bool = False  # enforced schemas of tools (Anthropic)
    tools: bool = True  # function calling
    # Whether calls were sent as such or in the text.
    calls: Literal["unknown", "native", "in_text"] = "unknown"
    stream: bool = True
    system: bool = True  # a system prompt
    length_field: str = "max_tokens"  # the field of the maximum number of reply tokens
    max_reply_tokens: int | None = None  # the endpoint's limit for it, if known
    context_tokens: int | None = None  # of a conversation and its reply, if known
    images: int | None = None  # maximum number in a request; None for no limit
    without: frozenset[str] = frozenset()  # fields that it rejects
    thinks: bool = False  # a reply contained only reasoning, so it needs more tokens
    thoughts: bool = False  # requires the model's thoughts in the history (DeepSeek, Kimi)
    reasons_with_tools: bool = True  # accepts tools without ``reasoning_effort="none"``
    # Extra fields of calls: whether they are sent back, or even required (Gemini).
    extras: Literal["unwanted", "returned", "required"] = "unwanted"

    @property
    def protocol(self) -> ActiveProtocol:
        """Function calling if it works, otherwise the text protocol with a schema."""
        if self.tools and self.calls != "in_text":
            return "native"
        return "react"


@functools.cache
def capabilities_of(
    base_url: str,
    model: str,  # noqa: ARG001 - the cache's key
    api: Literal["openai", "anthropic"] = "openai",
) -> Capabilities:
    """What this model supports at this endpoint; the result is shared within the process."""
    if api == "anthropic":
        only = frozenset({"max_completion_tokens"})  # there is no other name for max_tokens
        return Capabilities(extras="returned", strict=True, without=only)
    official = base_url.startswith(OPENAI_URL)
    return Capabilities(length_field="max_completion_tokens" if official else "max_tokens")
