"""Whether the embedded model's server still answers at all, asked beside a request that is under way.

Law of this file: it asks that server, and nobody else, for a page that the engine has no part in: it is answered
by the server's event loop while the engine reads or writes, so silence there means a process that hangs. (The
list of models would not do: llama_cpp.server keeps it back until the engine is free.)
"""

from __future__ import annotations

import contextlib
import http.client
import json
import threading
import time
import urllib.parse
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self

from archytas_nb.models.local import Endpoint

HUNG_SECONDS = 45.0
"""How long a server may answer nothing whatever before it is taken to hang."""

COUNT_SECONDS = 10.0


class Watch:
    """Looks after a server while it is asked for a reply; ends it where it hangs.

    Args:
        endpoint: The server.
        end: Ends it.
    """

    def __init__(self, endpoint: Endpoint, end: Callable[[Endpoint], None]) -> None:
        self._endpoint = endpoint
        self._end = end
        self._over = threading.Event()
        self.hung = False

    def __enter__(self) -> Self:
        threading.Thread(target=self._look, name="archytas_nb-watch", daemon=True).start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()

    def _look(self) -> None:
        pause, heard = HUNG_SECONDS / 3, time.monotonic()
        while not self._over.wait(pause):
            if answers(self._endpoint, pause):
                heard = time.monotonic()
            elif time.monotonic() - heard >= HUNG_SECONDS and not self._over.is_set():
                self.hung = True
                self._end(self._endpoint)
                return


def answers(endpoint: Endpoint, seconds: float) -> bool:
    """Whether anything at all is answered, "not found" included."""
    return _asked(endpoint, "GET", "/alive", None, seconds) is not None


def tokens_of(endpoint: Endpoint, text: str) -> int | None:
    """How many tokens a text has for the model, or None where the server does not say (soon)."""
    body = json.dumps({"model": endpoint.model, "input": text})
    with contextlib.suppress(ValueError, TypeError, KeyError):
        answer = _asked(endpoint, "POST", "/extras/tokenize/count", body, COUNT_SECONDS)
        return int(json.loads(answer or b"")["count"])
    return None


def _asked(endpoint: Endpoint, method: str, path: str, body: str | None, seconds: float) -> bytes | None:
    parts = urllib.parse.urlsplit(endpoint.base_url)
    connection = http.client.HTTPConnection(parts.hostname or "", parts.port, timeout=seconds)
    headers: dict[str, Any] = {"Authorization": f"Bearer {endpoint.api_key}", "Content-Type": "application/json"}
    try:
        connection.request(method, path, body, headers)
        return connection.getresponse().read()
    except (OSError, http.client.HTTPException):
        return None
    finally:
        connection.close()
