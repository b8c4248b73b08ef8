"""What has left this process for models: every request, byte for byte, since the kernel started."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

MAX_REQUESTS = 10_000
"""Maximum number of requests that are listed; of more, the last ones."""
MAX_BYTES = 50_000_000
"""Maximum number of bytes of bodies that are kept; of older requests only the size is."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """What a request is sent for.

    Attributes:
        question: The question, or the beginning of it.
        values: The setting ``values`` of the question.
        variables: The variables that are described in it.
        learned: What the model has learned of values so far, with the number of times.
    """

    question: str = ""
    values: str = "all"
    variables: tuple[str, ...] = ()
    learned: Mapping[str, int] = field(default_factory=dict)


purpose: ContextVar[Purpose | None] = ContextVar("purpose", default=None)
"""What the next requests are sent for."""


@dataclass(slots=True)
class Sent:
    """One request.

    Attributes:
        time: When it was sent, in seconds since the epoch.
        address: Where it went, without a key.
        size: The number of bytes of its body.
        purpose: What it was sent for; None outside questions, such as for the list of models.
        body: Its body; None if it is no longer kept.
    """

    time: float
    address: str
    size: int
    purpose: Purpose | None
    body: bytes | None


requests: deque[Sent] = deque(maxlen=MAX_REQUESTS)
"""The requests, in the order in which they were sent."""


_lock = threading.Lock()


def record(address: str, body: bytes) -> None:
    """Keep a request that is about to be sent."""
    with _lock:  # the rows of a map are sent from several threads
        requests.append(Sent(time.time(), address, len(body), purpose.get(), body))
        kept = 0
        for each in reversed(requests):
            kept += len(each.body or b"")
            if each.body is not None and kept > MAX_BYTES:
                each.body = None
            elif each.body is None and each.size:
                break  # those before it are not kept either
