"""What tokens cost, for the endpoints and models whose price is public and does not depend on anything else.

Pure. OpenAI's standard prices in USD per million tokens, as the price table of LiteLLM 1.109.1 gives them,
which is kept by hand from https://developers.openai.com/api/docs/pricing; read on 2026-11-21. Left out on
purpose, because three numbers do not say what they cost: models that are dearer for long prompts or charge
for writing to their cache (gpt-5.4, gpt-5.5 and everything after them), and models for speech, search and
images. A price that is not here is unknown, and never guessed; neither is that of any other endpoint.
"""

from __future__ import annotations

import re
import urllib.parse
from dataclasses import dataclass

from archytas_nb.loop.events import Usage
from archytas_nb.models.address import OPENAI_URL


@dataclass(frozen=True, slots=True)
class Price:
    """USD per million tokens.

    Attributes:
        input: For tokens that are sent.
        cached: For those of them that the endpoint still had in its cache.
        output: For tokens that the model writes, its reasoning included.
    """

    input: float
    cached: float
    output: float

    def cost(self, usage: Usage) -> float:
        """USD for these tokens; `Usage.input_tokens` includes the cached ones."""
        fresh = max(0, usage.input_tokens - usage.cached_tokens)
        return (
            fresh * self.input
            + usage.cached_tokens * self.cached
            + usage.output_tokens * self.output
        ) / 1_000_000


_PRICES = {
    "gpt-4.1": Price(2.0, 0.5, 8.0),
    "gpt-4.1-mini": Price(0.4, 0.1, 1.6),
    "gpt-4.1-nano": Price(0.1, 0.025, 0.4),
    "gpt-4o": Price(2.5, 1.25, 10.0),
    "gpt-4o-mini": Price(0.15, 0.075, 0.6),
    "gpt-5": Price(1.25, 0.125, 10.0),
    "gpt-5-mini": Price(0.25, 0.025, 2.0),
    "gpt-5-nano": Price(0.05, 0.005, 0.4),
    "gpt-5.1": Price(1.25, 0.125, 10.0),
    "gpt-5.2": Price(1.75, 0.175, 14.0),
    "gpt-5.4-mini": Price(0.75, 0.075, 4.5),
    "gpt-5.4-nano": Price(0.2, 0.02, 1.25),
    "o1": Price(15.0, 7.5, 60.0),
    "o3": Price(2.0, 0.5, 8.0),
    "o3-mini": Price(1.1, 0.55, 4.4),
    "o4-mini": Price(1.1, 0.275, 4.4),
    # The one snapshot that does not cost what its family does.
    "gpt-4o-2024-05-13": Price(5.0, 5.0, 15.0),
}
_SNAPSHOT = re.compile(r"-\d{4}-\d{2}-\d{2}$")


def price_of(base_url: str, model: str) -> Price | None:
    """The price of a model at an endpoint, a dated snapshot (``gpt-4.1-2025-04-14``) at that of its family.

    Args:
        base_url: The endpoint; only OpenAI's own has known prices.
        model: The model's exact name.

    Returns:
        The price, or None where it is not known.
    """
    if not is_openai(base_url):
        return None
    return _PRICES.get(model) or _PRICES.get(_SNAPSHOT.sub("", model))


def is_openai(base_url: str) -> bool:
    """Whether a base URL is OpenAI's own."""
    return urllib.parse.urlsplit(base_url).hostname == urllib.parse.urlsplit(OPENAI_URL).hostname
