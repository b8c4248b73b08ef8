"""The bytes of a reply while they come."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest

from archytas_nb.models import reading
from archytas_nb.models.asking import Faulted
from archytas_nb.models.deadline import Deadline
from archytas_nb.models.reading import watched

AT = "http://127.0.0.1:1/v1"


class ReadTimeout(Exception):  # as the client's transports name it
    __module__ = "httpcore"


class ReadError(Exception):
    __module__ = "httpx"


def nowhere() -> socket.socket:
    raise AssertionError("no connection is needed")


def read(chunks: Iterator[bytes], *, timeout: float = 20.0, seconds: float | None = None) -> list[bytes]:
    return list(watched(chunks, nowhere, AT, timeout, Deadline(seconds)))


def failing(error: Exception, *first: bytes) -> Iterator[bytes]:
    yield from first
    raise error


def test_bytes_are_handed_on_as_they_come() -> None:
    assert read(iter([b"a", b"", b": ping", b"b"])) == [b"a", b"", b": ping", b"b"]


def test_a_broken_connection_ends_the_bytes_early() -> None:
    with pytest.raises(EOFError, match="ReadError: reset"):
        read(failing(ReadError("reset"), b"a"))


def test_silence_is_a_timeout_and_past_the_deadline_the_deadline() -> None:
    with pytest.raises(Faulted) as caught:
        read(failing(ReadTimeout()))
    assert caught.value.fault.error.kind == "timeout"
    with pytest.raises(Faulted) as caught:
        read(failing(ReadTimeout()), seconds=0)
    assert caught.value.fault.error.kind == "deadline"


def test_a_fault_of_ours_is_not_taken_for_the_transports() -> None:
    with pytest.raises(ValueError, match="ours"):
        read(failing(ValueError("ours")))


def test_comments_are_no_sign_of_life(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = iter(range(0, 1000, 10))
    monkeypatch.setattr(reading.time, "monotonic", lambda: float(next(clock)))
    with pytest.raises(Faulted) as caught:
        list(watched(iter([b": ping"] * 50), nowhere, AT, 35.0, Deadline()))
    assert caught.value.fault.error.kind == "timeout"


def test_a_slow_reply_is_cut_at_its_deadline_even_where_nothing_more_comes() -> None:
    ours, theirs = socket.socketpair()

    def chunks() -> Iterator[bytes]:
        yield b"first"
        while data := ours.recv(100):
            yield data
        raise ReadError("closed")

    def slow(each: Any) -> Iterator[bytes]:
        deadline = Deadline(0.3)
        return watched(each, lambda: ours, AT, 20.0, deadline)

    with ours, theirs, pytest.MonkeyPatch.context() as patch:
        ours.settimeout(20)
        patch.setattr(reading, "CUT_AFTER", -1.0)
        with pytest.raises(Faulted) as caught:
            list(slow(chunks()))
    assert caught.value.fault.error.kind == "deadline"
