"""Every request that this process has sent to models, byte for byte, since the kernel started."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field

MAX_REQUESTS = 10_000
"""Maximum number of requests that are listed; of more, the last ones."""
MAX_BYTES = 50_000_000
"""Maximum number of bytes of bodies that are kept; of older requests only the size is."""


@dataclass(frozen=True, slots=True)
class Purpose:
    """The purpose of a request.

    Attributes:
        question: The question, or the beginning of it.
        values: The setting ``values`` of the question.
        variables: The variables that are described in it.
        columns: The columns that are described in it, or were in an earlier question of the
            conversation, as ``df.column``.
        kinds: The kinds of data of the notebook that are in it, in words.
        learned: The kinds of values that the model has learned so far, with the number of times.
    """

    question: str = ""
    values: str = "all"
    variables: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    learned: Mapping[str, int] = field(default_factory=dict)


purpose: ContextVar[Purpose | None] = ContextVar("purpose", default=None)
"""The purpose of the next requests."""


@dataclass(slots=True)
class Sent:
    """One request.

    Attributes:
        time: When it was sent, in seconds since the epoch.
        address: Where it went, without a key.
        size: The number of bytes of its body.
        purpose: The purpose; None outside questions, such as for the list of models.
        parts: The parts of its body, which requests of a conversation share; None if they are no
            longer kept.
    """

    time: float
    address: str
    size: int
    purpose: Purpose | None
    parts: tuple[bytes, ...] | None

    @property
    def body(self) -> bytes | None:
        """Its body; None if it is no longer kept."""
        return None if self.parts is None else b"".join(self.parts)


class Requests:
    """The requests, in the order in which they were sent."""

    def __init__(self) -> None:
        """Begin an empty list."""
        self._requests: deque[Sent] = deque(maxlen=MAX_REQUESTS)
        self._with_body: deque[Sent] = deque()
        self._bytes_kept = 0
        self._lock = threading.Lock()  # the rows of a map are sent from several threads

    def __iter__(self) -> Iterator[Sent]:
        """The listed requests, the oldest first."""
        with self._lock:
            return iter(tuple(self._requests))

    def __getitem__(self, index: int) -> Sent:
        """The one at an index, from 0."""
        return self._requests[index]

    def __len__(self) -> int:
        """How many are listed."""
        return len(self._requests)

    def record(self, address: str, parts: tuple[bytes, ...]) -> None:
        """Keep a request that is about to be sent, with the parts of its body."""
        one = Sent(time.time(), address, sum(map(len, parts)), purpose.get(), parts)
        with self._lock:
            self._requests.append(one)
            self._with_body.append(one)
            self._bytes_kept += one.size
            while self._bytes_kept > MAX_BYTES or len(self._with_body) > MAX_REQUESTS:
                oldest = self._with_body.popleft()
                oldest.parts = None
                self._bytes_kept -= oldest.size


requests = Requests()
"""The requests of this process."""
