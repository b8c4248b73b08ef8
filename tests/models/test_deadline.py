"""The end of a request's time."""

from __future__ import annotations

import socket
import ssl
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.models.deadline import Cutoff, Deadline


def test_without_seconds_there_is_no_end() -> None:
    deadline = Deadline()
    assert (deadline.left, deadline.over, deadline.within(7)) == (None, False, 7)


@given(st.floats(-10, 0), st.floats(0.01, 100))
def test_what_is_over_stays_over_and_leaves_the_shortest_wait(seconds: float, wait: float) -> None:
    deadline = Deadline(seconds)
    assert deadline.over
    assert deadline.left == 0
    assert 0 < deadline.within(wait) <= 0.001


@given(st.floats(100, 1e6), st.floats(0.01, 1e7))
def test_a_wait_is_never_longer_than_what_is_left(seconds: float, wait: float) -> None:
    deadline = Deadline(seconds)
    assert not deadline.over
    assert deadline.within(wait) <= min(seconds, wait)


def test_a_reader_who_is_blocked_wakes_up_at_the_deadline() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20)
        cutoff = Cutoff(Deadline(0.05), 20)
        cutoff.connected(ours)
        assert ours.recv(1) == b""
        assert cutoff.ended == "deadline"


def test_a_reader_who_has_waited_too_long_for_data_wakes_up() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20)
        cutoff = Cutoff(Deadline(), 0.3)
        cutoff.connected(ours)
        began = time.monotonic()
        while time.monotonic() - began < 20 and not cutoff.ended:
            cutoff.wait()
            theirs.sendall(b":")
            ours.recv(1)
            time.sleep(0.01)
            cutoff.got(data=False)
        assert cutoff.ended == "silence"


def test_a_connection_that_comes_about_too_late_is_ended_at_once() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20)
        cutoff = Cutoff(Deadline(0.01), 20)
        end = time.monotonic() + 20
        while not cutoff.ended and time.monotonic() < end:
            time.sleep(0.01)
        cutoff.connected(ours)
        assert ours.recv(1) == b""


def test_a_reader_of_an_encrypted_connection_wakes_up_too() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.settimeout(20)
        context = ssl.create_default_context()
        with context.wrap_socket(
            ours, server_hostname="x", do_handshake_on_connect=False
        ) as encrypted:
            Cutoff(Deadline(0.05), 20).connected(encrypted)
            with pytest.raises((ssl.SSLEOFError, ConnectionError)):
                encrypted.do_handshake()


@pytest.mark.parametrize("timeout", [20, 1e12])
def test_a_connection_is_left_alone_once_the_reply_is_whole(timeout: float) -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        before = set(threading.enumerate())
        cutoff = Cutoff(Deadline(0.2), timeout)
        [keeper] = set(threading.enumerate()) - before
        cutoff.connected(ours)
        cutoff.stop()
        keeper.join(20)
        time.sleep(0.3)
        theirs.sendall(b"x")
        assert ours.recv(1) == b"x"
