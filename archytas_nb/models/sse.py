"""Reads server-sent events as the standard says, and those of servers that do not obey it."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from itertools import chain
from json.decoder import scanstring  # type: ignore[attr-defined]
from typing import Any

from archytas_nb.loop.events import Delta

_OTHER_FIELDS = (":", "event:", "id:", "retry:")
"""The beginnings of lines that contain no data."""
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
"""Used for every token of a stream; `json.loads` takes twice as long."""


class Repeated:
    """The form of events that differ in one text only, as nearly all of a streamed reply do.

    JSON is read from left to right. So an event that begins and ends like an earlier one, with one
    string between, has the same value except that string.

    Attributes:
        before: How these events begin, up to the first quote of the text; empty if none is known.
        after: How they end, from its last quote on.
    """

    def __init__(self) -> None:
        self.before = self.after = ""

    def learn(self, data: str, key: str, text: str) -> None:
        """Note the form of an event in which only one field of this name has this text."""
        marker = f'"{key}":'
        if data.count(marker) != 1:
            return
        at = data.index(marker) + len(marker)
        at += len(data) - at - len(data[at:].lstrip())
        found, end = scanstring(data, at + 1) if data[at] == '"' else (None, 0)
        if found == text:
            self.before, self.after = data[: at + 1], data[end:]


def events(  # noqa: C901, PLR0912 - one loop, for speed
    chunks: Iterable[bytes], other: list[str], repeated: Repeated
) -> Iterator[list[tuple[Any, str]]]:
    """The data of the events in each chunk: its JSON value, or None if it has none, and its text.

    Data that is JSON ends its event, because not all servers write an empty line after it.

    Args:
        chunks: The body, cut anywhere.
        other: The lines that do not belong to a stream of events are added here.
        repeated: The form of events of which only the text is read: their value is the `Delta`.

    Raises:
        EOFError: The body is not UTF-8.
    """
    rest: list[bytes] = []  # the beginning of a line that continues in the next chunk
    unfinished: list[str] = []  # the lines of an event that has several
    has_returns = False
    mark = "\ufeff"
    for chunk in chain(chunks, (b"\n",)):
        at = chunk.rfind(b"\n") + 1
        if b"\r" in chunk:
            # At the end of the chunk, its LF may follow.
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
        before, after = repeated.before, repeated.after
        # `str.splitlines` would also split inside JSON strings.
        for line in text[:-1].split("\n"):
            if line.startswith("data:"):
                data = line[5:].strip()
                value = None
                if not unfinished:
                    value = (before and _text_between(data, before, after)) or parsed(data)
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


def _text_between(data: str, before: str, after: str) -> Delta | None:
    """The text of an event of a known form; None if it has another form, or no text."""
    if not (data.startswith(before) and data.endswith(after)):
        return None
    try:
        text, end = scanstring(data, len(before))
    except ValueError:
        return None
    return Delta("text", text) if text and end + len(after) == len(data) else None


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
