"""The end of a request's time."""

from __future__ import annotations

import socket
import ssl

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.models.deadline import Deadline


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


def test_a_reader_who_is_blocked_wakes_up_when_the_time_comes() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(20)
        Deadline(0.05).cut(ours)
        assert ours.recv(1) == b""


def test_a_reader_of_an_encrypted_connection_wakes_up_too() -> None:
    ours, theirs = socket.socketpair()
    with theirs:
        ours.settimeout(20)
        context = ssl.create_default_context()
        with context.wrap_socket(ours, server_hostname="x", do_handshake_on_connect=False) as encrypted:
            Deadline(0.05).cut(encrypted)
            with pytest.raises((ssl.SSLEOFError, ConnectionError)):
                encrypted.do_handshake()


def test_a_cut_that_is_cancelled_leaves_the_connection_alone() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        timer = Deadline(0.05).cut(ours)
        timer.cancel()
        timer.join(20)
        theirs.sendall(b"x")
        assert ours.recv(1) == b"x"
