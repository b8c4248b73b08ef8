"""A listener bounds how much of the process others can use, and says whether it is open."""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from archytas_nb.kernel import listener
from archytas_nb.kernel.listener import HOST, MAX_CONNECTIONS, Connection, Listener

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="counts files in /proc")


def echo(connection: Connection) -> None:
    """Send back what is sent until it ends, on a thread; while a line begins with "busy", it is busy."""

    def serve() -> None:
        with ExitStack() as stack:
            stack.callback(connection.close)
            with suppress(OSError):
                while data := connection.socket.recv(1_000):
                    if data.startswith(b"busy"):
                        stack.enter_context(connection.busy())
                    connection.socket.sendall(data)

    threading.Thread(target=serve, daemon=True).start()


@pytest.fixture
def fast(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listener, "_TICK", 0.02)


@pytest.fixture
def echoing(fast: None) -> Iterator[Listener]:
    listening = Listener(echo, "test")
    listening.start()
    yield listening
    listening.stop()


def connect(listening: Listener, seconds: float = 30) -> socket.socket:
    return socket.create_connection((HOST, listening.port), timeout=seconds)


def answered(connection: socket.socket, text: bytes = b"x") -> bool:
    try:
        connection.sendall(text)
        return connection.recv(100) == text
    except OSError:
        return False


def until(condition: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def files() -> int:
    return len(list(Path("/proc/self/fd").iterdir()))


def test_a_flood_takes_no_more_files_than_the_bound(
    echoing: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[int] = []

    def count(connection: Connection) -> None:
        opened.append(len(echoing._open()))
        echo(connection)

    monkeypatch.setattr(echoing, "_serve", count)
    before = files()
    held: list[socket.socket] = []
    with suppress(OSError):  # the queue of the system is full, too
        while len(held) < 4 * MAX_CONNECTIONS:
            held.append(connect(echoing, 0.2))
    assert len(held) > MAX_CONNECTIONS
    until(lambda: files() - before - len(held) <= MAX_CONNECTIONS)
    for each in held:
        each.close()
    until(lambda: files() <= before)
    with connect(echoing) as one:
        assert answered(one)
    assert max(opened) <= MAX_CONNECTIONS


@pytest.mark.parametrize("sent", [b"", b"GET / HTT", b"\x00" * 10])
def test_an_idle_connection_is_ended(echoing: Listener, sent: bytes) -> None:
    with connect(echoing) as idle:
        idle.sendall(sent)
        received = b""
        while part := idle.recv(100):
            received += part
        assert received == sent


def test_a_byte_now_and_then_keeps_nothing_open(echoing: Listener) -> None:
    with connect(echoing) as slow:
        until(lambda: not answered(slow))


def test_a_busy_connection_is_not_ended(echoing: Listener) -> None:
    with connect(echoing) as busy, connect(echoing) as idle:
        assert answered(busy, b"busy")
        assert idle.recv(100) == b""
        assert answered(busy)


def test_when_it_is_full_idle_connections_make_room_sooner(
    echoing: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(listener, "_TICKS", 1_000_000)
    with ExitStack() as stack:
        for _ in range(MAX_CONNECTIONS):
            stack.enter_context(connect(echoing))
        with connect(echoing) as late:  # it waits in the queue
            assert answered(late)


def test_a_lack_of_files_passes(echoing: Listener) -> None:
    import resource

    limits = resource.getrlimit(resource.RLIMIT_NOFILE)
    poke = socket.socket()  # its file is there before
    poke.settimeout(30)
    resource.setrlimit(resource.RLIMIT_NOFILE, (files(), limits[1]))
    held = []
    try:
        with suppress(OSError):
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        poke.connect((HOST, echoing.port))
        time.sleep(0.2)
        assert echoing.is_open
    finally:
        for each in held:
            os.close(each)
        resource.setrlimit(resource.RLIMIT_NOFILE, limits)
    with poke:
        assert answered(poke)
    with connect(echoing) as other:
        assert answered(other)


@pytest.mark.parametrize(
    "error", [RuntimeError("can't start new thread"), MemoryError(), OSError()]
)
def test_a_connection_that_cannot_be_served_is_closed_and_the_next_is_served(
    fast: None, error: Exception
) -> None:
    faults = [error]

    def serve(connection: Connection) -> None:
        if faults:
            raise faults.pop()
        echo(connection)

    listening = Listener(serve, "test")
    listening.start()
    with connect(listening) as first:
        assert first.recv(1) == b""
    with connect(listening) as second:
        assert answered(second)
    listening.stop()


def test_it_is_not_open_before_it_starts_after_it_stops_and_when_its_socket_is_gone(
    fast: None,
) -> None:
    listening = Listener(echo, "test")
    assert not listening.is_open
    with pytest.raises(ConnectionRefusedError):
        connect(listening)
    listening.start()
    assert listening.is_open
    with socket.socket(fileno=os.dup(listening._socket.fileno())) as same:
        same.shutdown(socket.SHUT_RDWR)  # as any code of the process can do
    until(lambda: not listening.is_open)
    listening.stop()
    listening.stop()
    assert not listening.is_open


def test_stop_ends_connections_and_threads_and_frees_the_port(echoing: Listener) -> None:
    before = threading.active_count()
    one = connect(echoing)
    assert answered(one, b"busy")
    echoing.stop()
    assert one.recv(100) == b""
    until(lambda: threading.active_count() < before)
    again = Listener(echo, "test", echoing.port)
    again.start()
    one.close()
    with connect(again) as two:
        assert answered(two)
    again.stop()


def test_a_port_that_is_taken_is_an_error_that_leaves_nothing_open(echoing: Listener) -> None:
    before = files()
    with pytest.raises(OSError, match="in use"):
        Listener(echo, "test", echoing.port)
    assert files() == before


@pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
@pytest.mark.parametrize("is_stopped", [True, False])
def test_a_forked_child_keeps_neither_the_port_nor_connections(
    echoing: Listener, is_stopped: bool
) -> None:
    one = connect(echoing)
    assert answered(one, b"busy")
    reading, writing = os.pipe()
    child = os.fork()
    if not child:  # it does nothing, and lives longer
        os.close(writing)
        os.read(reading, 1)
        os._exit(0)
    if is_stopped:
        echoing.stop()
        assert one.recv(100) == b""
        again = Listener(echo, "test", echoing.port)
        again.stop()
    else:
        assert answered(one)
    os.close(writing)
    os.waitpid(child, 0)
    os.close(reading)
    one.close()
