"""Reads server-sent events as the standard says, and those of servers that do not obey it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from typing import Any

_OTHER_FIELDS = (":", "event:", "id:", "retry:")
"""The beginnings of lines that contain no data."""
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
"""Used for every token of a stream; `json.loads` takes twice as long."""


def events(  # noqa: C901, PLR0912 - one loop, for speed
    chunks: Iterable[bytes], other: list[str]
) -> Iterator[list[tuple[Any, str]]]:
    """The data of the events in each chunk: its JSON value, or None if it is none, and its text.

    Data that is JSON ends its event, because not all servers write an empty line after it.

    Args:
        chunks: The body, cut anywhere.
        other: The lines that do not belong to a stream of events are added here.

    Raises:
        EOFError: The body is not UTF-8.
    """
    rest: list[bytes] = []  # the beginning of a line that continues in the next chunk
    unfinished: list[str] = []  # the lines of an event that has several
    has_returns = False
    mark = "\ufeff"
    for chunk in chain(chunks, (b"\n",)):
        at = chunk.rfind(b"\n") + 1
        if b"\r" in chunk:  # at the end of the chunk, its LF may follow
            has_returns = True
            at = max(at, chunk.rfind(b"\r", 0, -1) + 1)
        if not at:
            rest.append(chunk)
            continue
        whole = chunk[:at]
        if rest:
            whole = b"".join([*rest, whole])
        rest = [chunk[at:]] if at < len(chunk) else []
        text = _decoded(whole)
        if mark:
            text = text.removeprefix(mark)
            mark = ""
        if has_returns:
            text = text.replace("\r\n", "\n").replace("\r", "\n")
        found: list[tuple[Any, str]] = []
        # `str.splitlines` would also split inside JSON strings.
        for line in text[:-1].split("\n"):
            if line.startswith("data:"):
                data = line[5:].strip()
                value = None if unfinished else parsed(data)
                if value is None:
                    unfinished.append(data)
                else:
                    found.append((value, data))
            elif line:
                if not line.startswith(_OTHER_FIELDS):
                    other.append(line)
            elif unfinished:
                found += _event(unfinished)
                unfinished = []
        if found:
            yield found
    yield _event(unfinished)


def _event(lines: list[str]) -> list[tuple[Any, str]]:
    """The event with these lines of data; none without any."""
    data = "\n".join(lines).strip()
    return [(parsed(data), data)] if data else []


def _decoded(data: bytes) -> str:
    """Bytes as text. A part of a text is not used: it may be an argument of a call."""
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        near = data[max(0, error.start - 20) : error.end + 20]
        raise EOFError(f"the reply is not UTF-8, near {near!r}") from None


def parsed(text: str) -> Any:
    """Parse JSON; None if it is invalid, contains a huge number or is nested too deeply."""
    try:
        value, end = _scan(text, 0)
    except (StopIteration, ValueError, RecursionError):
        return None
    return value if end == len(text) else None
