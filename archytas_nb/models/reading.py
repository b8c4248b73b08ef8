"""The bytes of a reply, watched while they come: broken connections, silence, the end of the time.

Law of this file: it is handed bytes and a socket, and knows no library and no protocol but that a line which
begins with a colon is a comment.
"""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Callable, Iterator

from archytas_nb.models import faults
from archytas_nb.models.asking import Faulted
from archytas_nb.models.deadline import Deadline

CUT_AFTER = 0.5
"""Seconds; a reply that comes faster than this needs nobody to watch over its deadline."""


def watched(
    chunks: Iterator[bytes], connection: Callable[[], socket.socket], at: str, timeout: float, deadline: Deadline
) -> Iterator[bytes]:
    """Hand on the bytes of a body.

    Servers that keep a connection alive with comments may do so for ever: only data counts as a sign of life.

    Args:
        chunks: The bytes as a client gives them.
        connection: Where they come from.
        at: The endpoint, as it may be shown.
        timeout: Most seconds without data.
        deadline: When the reply is given up, data or not.

    Raises:
        EOFError: The connection broke.
        Faulted: Silence, or the deadline.
    """
    began = heard = time.monotonic()
    with contextlib.ExitStack() as stack:
        while (chunk := _next(chunks, at, timeout, deadline)) is not None:
            now = time.monotonic()
            if deadline.over:
                raise Faulted(faults.out_of_time(at, deadline.seconds))
            if began and deadline.seconds is not None and now - began > CUT_AFTER:
                stack.callback(deadline.cut(connection()).cancel)
                began = 0.0  # once is enough
            if not chunk.startswith((b":", b"\r", b"\n")):
                heard = now
            elif now - heard > timeout:
                raise Faulted(faults.timed_out(at, timeout, during="reply"))
            yield chunk


def _next(chunks: Iterator[bytes], at: str, timeout: float, deadline: Deadline) -> bytes | None:
    try:
        return next(chunks, None)
    except Exception as error:
        # The client translates transport errors before the body only; in it they come as they are.
        if type(error).__module__.split(".")[0] not in ("httpx", "httpx2", "httpcore", "httpcore2"):
            raise
        if deadline.over:
            raise Faulted(faults.out_of_time(at, deadline.seconds)) from None
        if "Timeout" in type(error).__name__:
            raise Faulted(faults.timed_out(at, timeout, during="reply")) from None
        raise EOFError(f"{type(error).__name__}: {error}") from None
