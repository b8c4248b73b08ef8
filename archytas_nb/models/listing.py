"""Which models an endpoint serves, asked in a moment and without a library, for completion and for discovery.

Law of this file: it sends one GET for the list of models and nothing else, follows no redirect, waits no longer
than it is told, and raises nothing. (`openai_chat` asks more patiently, and says what went wrong.)
"""

from __future__ import annotations

import contextlib
import json
import re
import threading
import urllib.parse
from dataclasses import dataclass
from typing import Any

from archytas_nb.models.address import key_header
from archytas_nb.models.deadline import Cutoff, Deadline

_LONGEST = 4_000_000
"""Bytes of a list that are read; OpenRouter's has half a million."""

# What a list holds beside chat models; it says so in the names alone.
_NO_CHAT = re.compile(
    r"embed|rerank|whisper|transcri|moderation|dall-e|stable-diffusion|\b(?:tts|clip|bge|gte|e5|minilm|mxbai|flux|sora)\b"
    r"|realtime|gpt-image|-tts|davinci|babbage",
    re.IGNORECASE,
)


_SIZE = re.compile(r"(?<![\d.])(\d+(?:\.\d+)?)(b|m)(?![a-z])", re.IGNORECASE)
SMALL = 4.0
"""Thousand million parameters up to which a model is a small one."""


def is_small(name: str) -> bool:
    """Whether a model is small by the size in its name: ``qwen2.5-coder:1.5b`` is, ``qwen3-30b-a3b`` is not."""
    sizes = [float(count) / (1 if unit in "bB" else 1000) for count, unit in _SIZE.findall(name)]
    return bool(sizes) and max(sizes) <= SMALL


@dataclass(frozen=True, slots=True)
class Served:
    """One model of an endpoint.

    Attributes:
        name: What it is asked for by.
        context_tokens: What a conversation and its reply may have together, where the list says so, else None.
    """

    name: str
    context_tokens: int | None = None

    @property
    def chats(self) -> bool:
        """Whether it can be talked to, as far as its name tells."""
        return not _NO_CHAT.search(self.name)


def served_at(base_url: str, api_key: str, seconds: float) -> tuple[Served, ...] | None:
    """Ask an endpoint what it serves.

    Args:
        base_url: Where the API begins.
        api_key: Sent as its header; may be empty.
        seconds: After so many, looking up its host included, nobody waits any more.

    Returns:
        The models in the endpoint's order; None where nothing there answers as such an API does.
    """
    answers: list[tuple[Served, ...]] = []

    def ask() -> None:
        with contextlib.suppress(OSError, ValueError, RecursionError):
            answers.append(_asked(base_url, api_key, seconds))

    thread = threading.Thread(target=ask, name="archytas_nb-models", daemon=True)
    thread.start()
    thread.join(seconds)
    return answers[0] if answers else None


def _asked(base_url: str, api_key: str, seconds: float) -> tuple[Served, ...]:
    import http.client
    import ssl

    parts = urllib.parse.urlsplit(base_url)
    host, port = parts.hostname or "", parts.port
    connection = (
        http.client.HTTPSConnection(
            host, port, timeout=seconds, context=ssl.create_default_context()
        )
        if parts.scheme == "https"
        else http.client.HTTPConnection(host, port, timeout=seconds)
    )
    headers = {"Accept": "application/json"} | (key_header(base_url, api_key) if api_key else {})
    query = f"?{parts.query}" if parts.query else ""
    cutoff = Cutoff(Deadline(seconds), seconds)
    try:
        connection.connect()
        cutoff.connected(connection.sock)
        connection.request("GET", f"{parts.path.rstrip('/')}/models{query}", headers=headers)
        response = connection.getresponse()
        body = response.read(_LONGEST) if response.status == 200 else b""
    except http.client.HTTPException as error:
        raise ValueError("no HTTP") from error
    finally:
        cutoff.stop()
        connection.close()
    return models_in(json.loads(body))


def models_in(data: Any) -> tuple[Served, ...]:
    """The models in an answer.

    Raises:
        ValueError: It is no list of models.
    """
    items = data.get("data") if isinstance(data, dict) else None
    if not isinstance(items, list):
        raise ValueError("no list of models")  # noqa: TRY004 - it is what was sent that is wrong, not our call
    return tuple(
        Served(item["id"], _context(item))
        for item in items
        if isinstance(item, dict) and isinstance(item.get("id"), str) and item["id"]
    )


def _context(item: dict[str, Any]) -> int | None:
    """VLLM says it as ``max_model_len``, LM Studio as ``loaded_context_length``."""
    for field in ("max_model_len", "loaded_context_length"):
        value = item.get(field)
        if isinstance(value, int) and value > 0:
            return value
    return None
