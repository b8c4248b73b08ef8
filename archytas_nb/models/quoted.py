"""Finds the text of a model in the error of a server that could not read it.

Servers parse the calls of their own models, and fail where these are malformed. Such an error is
about the reply: the same request would fail again, and its words say nothing of the endpoint.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

_PARSES = re.compile(
    r"pars(?:e|ing)\b|unmarshal|decod|syntax|unexpected|malformed|invalid character", re.IGNORECASE
)
"""Words about reading a text; they must be outside of the quotation."""
_OF_REPLY = re.compile(r"tool.?calls?\b|\barguments\b|generated|model.?s? output", re.IGNORECASE)
_OF_REQUEST = re.compile(r"grammar|schema|template|request|\bbody\b|prompt|messages", re.IGNORECASE)
_IN_QUOTES = re.compile(r"(?<!\w)(['\"`])(.+?)\1(?=[\s,.;:)\]}]|$)", re.DOTALL)
_BEGINS = re.compile(r"[{<]")
_SEARCHED = 20_000
_MIN_WORDS = 3
"""Number of words from which a quotation that is not JSON or markup is taken for the model's."""


def written_by_model(text: str, sent: str) -> str | None:
    """The text of the model that a server's error quotes; None if it quotes none.

    Args:
        text: The server's text.
        sent: The request, which a server may quote as well.
    """
    text = text[:_SEARCHED]
    found = [each for each in _quotations(text) if each not in sent and "::=" not in each]
    written = max(found, key=len, default=None)
    if written is None or not _PARSES.search(text.replace(written, " ")):
        return None
    return written


def is_about_reply(text: str) -> bool:
    """Whether a server's error is about what its model wrote, although it does not quote that."""
    return bool(_PARSES.search(text) and _OF_REPLY.search(text)) and not _OF_REQUEST.search(text)


def _quotations(text: str) -> Iterator[str]:
    for match in _IN_QUOTES.finditer(text):
        quoted = match[2]
        if quoted.lstrip()[:1] in ("{", "[", "<") or len(quoted.split()) >= _MIN_WORDS:
            yield quoted
    begin = _BEGINS.search(text)
    quote = _IN_QUOTES.search(text)
    if begin and (quote is None or begin.start() < quote.start()):
        yield text[begin.start() :]
