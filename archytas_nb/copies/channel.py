"""Frames between a kernel and its copy: a head, followed by buffers."""

from __future__ import annotations

import importlib
import os
import select
import struct
import time
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, TypeAlias

_HEAD = struct.Struct("<QI")
_SIZE = struct.Struct("<Q")
_CHUNK = 1 << 20
MOST_BUFFERS = 1_000_000

Data: TypeAlias = bytes | bytearray | memoryview


class Frame(NamedTuple):
    """A message.

    Attributes:
        head: The content.
        buffers: Bytes to which the head refers.
    """

    head: bytes
    buffers: Sequence[Data] = ()


class ClosedError(EOFError):
    """The other side is gone."""


class TooLargeError(ValueError):
    """A frame is larger than it may be."""


def send(descriptor: int, frame: Frame, waiting: Callable[[], None] | None = None) -> None:
    """Write a frame.

    Args:
        descriptor: Where.
        frame: What.
        waiting: A function to call, several times a second, while the other side does not read from
            a descriptor that does not block.

    Raises:
        ClosedError: Nobody reads it now.
    """
    views = [memoryview(each).cast("B") for each in frame.buffers]
    start = _HEAD.pack(len(frame.head), len(views)) + b"".join(
        _SIZE.pack(each.nbytes) for each in views
    )
    for part in (memoryview(start + frame.head), *views):
        at = 0
        while at < part.nbytes:
            try:
                at += os.write(descriptor, part[at : at + _CHUNK])
            except BlockingIOError:
                if not _is_ready(descriptor, to_read=False) and waiting is not None:
                    waiting()
            except BrokenPipeError:
                raise ClosedError from None


def _is_ready(descriptor: int, *, to_read: bool) -> bool:
    """Whether it can be read or written, or is closed, after a tenth of a second at most."""
    if not hasattr(select, "poll"):
        return not to_read or _has_bytes(descriptor)
    poll = select.poll()
    poll.register(descriptor, select.POLLIN if to_read else select.POLLOUT)
    return bool(poll.poll(100))


def _has_bytes(descriptor: int) -> bool:
    """Whether a pipe of Windows can be read, which cannot be waited for with a limit."""
    windows: Any = importlib.import_module("_winapi")
    runtime: Any = importlib.import_module("msvcrt")
    try:
        if windows.PeekNamedPipe(runtime.get_osfhandle(descriptor), 0)[0]:
            return True
    except OSError:
        # It is closed, as whoever reads it finds.
        return True
    time.sleep(0.01)
    return False


def receive(
    descriptor: int, most: int | None = None, waiting: Callable[[], None] | None = None
) -> Frame:
    """Read a frame.

    Args:
        descriptor: The descriptor to read from.
        most: How many bytes it may have.
        waiting: A function to call, several times a second, until it is complete.

    Raises:
        ClosedError: The other side has ended.
        TooLargeError: It is larger.
    """
    length, count = _HEAD.unpack(_exactly(descriptor, _HEAD.size, waiting))
    if count > MOST_BUFFERS:
        raise TooLargeError
    sizes = [_SIZE.unpack(_exactly(descriptor, _SIZE.size, waiting))[0] for _ in range(count)]
    if most is not None and length + sum(sizes) > most:
        raise TooLargeError
    head = _exactly(descriptor, length, waiting)
    return Frame(bytes(head), [_exactly(descriptor, each, waiting) for each in sizes])


def _exactly(descriptor: int, length: int, waiting: Callable[[], None] | None) -> bytearray:
    # It grows with what has come: what the other side says of a length costs nothing yet.
    data = bytearray()
    asked = time.monotonic()
    while len(data) < length:
        if waiting is not None:
            is_ready = _is_ready(descriptor, to_read=True)
            if not is_ready or time.monotonic() - asked > 0.1:
                asked = time.monotonic()
                waiting()
            if not is_ready:
                continue
        chunk = os.read(descriptor, min(_CHUNK, length - len(data)))
        if not chunk:
            raise ClosedError
        data += chunk
    return data
