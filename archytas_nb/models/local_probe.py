"""Model servers that already run on this machine, found on the ports that they usually have.

Law of this file: it knocks at this machine alone, asks for nothing but the list of models, and is over in a
moment. What it found is remembered for the life of the process, so that a conversation does not change its model
because a server came or went.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import NamedTuple

from archytas_nb.models.listing import Served, served_at

PORTS: tuple[tuple[str, int], ...] = (
    ("Ollama", 11434),
    ("LM Studio", 1234),
    ("vLLM", 8000),
    ("llama.cpp's server", 8080),
)
"""Who usually listens where; the first that serves a model wins. Anyone may listen there, so each is asked."""

SECONDS = 0.3
"""How long all of them together are waited for; who does not listen says so at once."""


class LocalServer(NamedTuple):
    """A server on this machine that can be talked to.

    Attributes:
        name: Who usually listens on its port.
        base_url: Where its API begins.
        models: Those of its models that chat, in its order; at least one.
    """

    name: str
    base_url: str
    models: tuple[Served, ...]


def local_servers(ports: Sequence[tuple[str, int]] | None = None) -> tuple[LocalServer, ...]:
    """The model servers on this machine, in the order of their ports; looked for once.

    Args:
        ports: Names and ports; None for `PORTS`.
    """
    return _found(tuple(PORTS if ports is None else ports))


def look_again() -> None:
    """Forget what was found."""
    _found.cache_clear()


@functools.cache
def _found(ports: tuple[tuple[str, int], ...]) -> tuple[LocalServer, ...]:
    end = time.monotonic() + SECONDS
    with ThreadPoolExecutor(max(1, len(ports))) as pool:
        servers = pool.map(lambda each: _knock(each[0], each[1], end), ports)
        return tuple(server for server in servers if server)


def _knock(name: str, port: int, end: float) -> LocalServer | None:
    base_url = f"http://127.0.0.1:{port}/v1"
    models = served_at(base_url, "", max(0.01, end - time.monotonic())) or ()
    chatting = tuple(model for model in models if model.chats)
    return LocalServer(name, base_url, chatting) if chatting else None
