"""Finds model servers on their usual ports of this machine, and remembers which are allowed.

It sends one GET for the list of models to each port, and only to this machine. What it found is
kept for the life of the process, so that a conversation does not change its model when a server
starts or stops. Any process may listen on these ports, so nothing of a notebook is sent to a server
that the user has neither named nor allowed.
"""

from __future__ import annotations

import contextlib
import functools
import json
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from archytas_nb.models import serve
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


_refused: set[LocalServer] = set()


def is_allowed(server: LocalServer) -> bool | None:
    """Whether the user allows a server; None where they were not asked yet. A refusal counts for the process."""
    if server in _refused:
        return False
    return True if _allowed().get(server.base_url) == server.name else None


def remember(server: LocalServer, *, allowed: bool) -> None:
    """Remember the user's decision: a refusal in this process, a permission in `permissions_file`."""
    if not allowed:
        _refused.add(server)
        return
    file = permissions_file()
    with contextlib.suppress(OSError):  # then the next process asks again
        file.parent.mkdir(parents=True, exist_ok=True)
        serve.write_private(file, {**_allowed(), server.base_url: server.name})


def permissions_file() -> Path:
    """Where the allowed servers are listed, as a JSON object of base URLs and kinds of servers."""
    import platformdirs

    return Path(platformdirs.user_state_dir("archytas-nb", appauthor=False)) / "servers.json"


def _allowed() -> dict[str, object]:
    try:
        known = json.loads(permissions_file().read_text("utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return known if isinstance(known, dict) else {}


def look_again() -> None:
    """Forget what was found and refused in this process."""
    _found.cache_clear()
    _refused.clear()


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
