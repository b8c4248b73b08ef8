"""The bytes of a reply while they come."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from archytas_nb.models import reading
from archytas_nb.models.asking import Faulted
from archytas_nb.models.deadline import Deadline
from archytas_nb.models.reading import Connection

AT = "http://127.0.0.1:1/v1"


class ReadTimeout(Exception):  # as the client's transports name it
    __module__ = "httpcore"


class ReadError(Exception):
    __module__ = "httpx"


def read(
    chunks: Iterator[bytes], *, timeout: float = 20.0, seconds: float | None = None
) -> list[bytes]:
    connection = Connection(AT)
    with connection.within(timeout, Deadline(seconds)):
        return list(connection.received(chunks))


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


def slowly(chunk: bytes) -> Iterator[bytes]:
    for _ in range(20):
        time.sleep(0.05)
        yield chunk


def test_comments_are_no_sign_of_life() -> None:
    with pytest.raises(Faulted) as caught:
        read(slowly(b": ping"), timeout=0.4)
    assert caught.value.fault.error.kind == "timeout"


def test_more_than_any_reply_has_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "LONGEST_REPLY", 3)
    assert read(iter([b"ab", b"c"])) == [b"ab", b"c"]
    with pytest.raises(Faulted) as caught:
        read(iter([b"ab", b"cd"]))
    assert caught.value.fault.error.kind == "server"


def test_a_body_that_ends_where_it_was_cut_is_not_taken_for_whole() -> None:
    def closing() -> Iterator[bytes]:
        yield b"first"
        time.sleep(0.5)

    with pytest.raises(Faulted) as caught:
        read(closing(), seconds=0.2)
    assert caught.value.fault.error.kind == "deadline"
