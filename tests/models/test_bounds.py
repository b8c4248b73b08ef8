"""The time and the size of a request."""

from __future__ import annotations

import gzip
import json
import os
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from archytas_nb.errors import ModelError
from archytas_nb.models import bounds, remote
from archytas_nb.models.bounds import BoundedConnection, Deadline
from archytas_nb.models.choose import served_at
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.models.refusals import EndpointErrors
from tests.models.talking import complete, told
from tests.servers.plays import Raw, Say, Status
from tests.servers.server import Exchange, Server

pytestmark = pytest.mark.usefixtures("fresh")


def test_a_deadline_without_seconds_never_passes() -> None:
    deadline = Deadline()
    assert (deadline.left, deadline.passed, deadline.cap(7)) == (None, False, 7)


@given(st.floats(-10, 0), st.floats(0.01, 100))
def test_a_passed_deadline_leaves_the_shortest_wait(seconds: float, wait: float) -> None:
    deadline = Deadline(seconds)
    assert deadline.passed
    assert deadline.left == 0
    assert 0 < deadline.cap(wait) <= 0.001


@given(st.floats(100, 1e6), st.floats(0.01, 1e7))
def test_a_wait_is_never_longer_than_what_is_left(seconds: float, wait: float) -> None:
    deadline = Deadline(seconds)
    assert not deadline.passed
    assert deadline.cap(wait) <= min(seconds, wait)


AT = "http://127.0.0.1:1/v1"


class ReadError(Exception):
    __module__ = "httpx"


def read(
    chunks: Iterator[bytes], *, timeout: float = 20.0, seconds: float | None = None
) -> list[bytes]:
    connection = BoundedConnection(EndpointErrors(AT))
    with connection.within(timeout, Deadline(seconds)):
        return list(connection.read_body(chunks))


def failing(error: Exception, *first: bytes) -> Iterator[bytes]:
    yield from first
    raise error


def test_yields_bytes_as_they_arrive() -> None:
    assert read(iter([b"a", b"", b": ping", b"b"])) == [b"a", b"", b": ping", b"b"]


def test_a_broken_connection_raises_eof() -> None:
    with pytest.raises(EOFError, match="ReadError: reset"):
        read(failing(ReadError("reset"), b"a"))


def test_a_broken_connection_after_the_deadline_is_a_deadline_error() -> None:
    with pytest.raises(ModelError) as caught:
        read(failing(ReadError()), seconds=0)
    assert caught.value.kind == "deadline"


def test_other_exceptions_are_not_taken_for_transport_errors() -> None:
    with pytest.raises(ValueError, match="ours"):
        read(failing(ValueError("ours")))


def slowly(chunk: bytes) -> Iterator[bytes]:
    for _ in range(20):
        time.sleep(0.05)
        yield chunk


def test_comments_in_a_stream_do_not_count_as_data() -> None:
    with pytest.raises(ModelError) as caught:
        read(slowly(b": ping"), timeout=0.4)
    assert caught.value.kind == "timeout"


def test_a_reply_beyond_the_size_limit_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_REPLY_BYTES", 3)
    assert read(iter([b"ab", b"c"])) == [b"ab", b"c"]
    with pytest.raises(ModelError) as caught:
        read(iter([b"ab", b"cd"]))
    assert caught.value.kind == "server"


def test_a_body_that_was_cut_is_not_taken_for_complete() -> None:
    connection = BoundedConnection(EndpointErrors(AT))

    def closing() -> Iterator[bytes]:
        yield b"first"
        connection.abort()

    with connection.within(20.0, Deadline()), pytest.raises(ModelError):
        list(connection.read_body(closing()))


HANGS = 20.0
"""Seconds after which a server gives up, so that a client that waits for ever fails its test."""


class Forever:
    """Sends a beginning, and then the same piece again and again."""

    def __init__(self, begin: bytes, piece: bytes, pause: float = 0.05) -> None:
        self.begin, self.piece, self.pause = begin, piece, pause

    def play(self, exchange: Exchange) -> None:
        end = time.monotonic() + HANGS
        try:
            exchange.write(self.begin)
            while time.monotonic() < end and not (
                self.pause and exchange.client_left(within=self.pause)
            ):
                exchange.write(self.piece)
        finally:
            exchange.asked.left.set()
            exchange.break_off()


BAD = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nContent-Length: 1000000000\r\n\r\n"
GOOD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
DRIPS = {
    "headers": Forever(b"HTTP/1.1 200 OK\r\nX-Long: ", b"x"),
    "status line": Forever(b"", b"H"),
    "many headers": Forever(b"HTTP/1.1 200 OK\r\n", b"X: y\r\n"),
    "100 Continue": Forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n"),
    "100 Continue at full speed": Forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 50, 0),
    "body of an error": Forever(BAD + b'{"error": {"message": "', b"x"),
    "body of a redirect": Forever(BAD.replace(b"400", b"308"), b"x"),
    "size of a chunk": Forever(GOOD + b"1;", b"x"),
    "comments": Forever(GOOD, b"3\r\n: \n\r\n"),
}


@pytest.mark.parametrize("name", DRIPS)
def test_a_drip_ends_at_the_deadline(name: str) -> None:
    with Server(Say("warm"), DRIPS[name], then=Say("fine")) as server:
        model = told(server)
        complete(model)  # the connection is kept open
        began = time.monotonic()
        with pytest.raises(ModelError) as caught:
            complete(model, seconds=1.0)
        assert time.monotonic() - began < HANGS / 2
        assert caught.value.kind == ("deadline" if "body" not in name else caught.value.kind)
        if DRIPS[name].pause:  # a server that is blocked in writing may not hear of it
            assert server.received(2)[1].left.wait(HANGS)
        assert complete(model, seconds=HANGS)[1].text == "fine"


@pytest.mark.parametrize("name", DRIPS)
def test_a_drip_ends_at_the_timeout_without_a_deadline(name: str) -> None:
    with Server(then=DRIPS[name]) as server:
        model = told(server, timeout=0.7, max_retries=0)
        began = time.monotonic()
        with pytest.raises(ModelError) as caught:
            complete(model)
        assert time.monotonic() - began < HANGS / 2
        assert caught.value.kind == ("timeout" if "body" not in name else caught.value.kind)


def test_an_error_whose_body_never_ends_keeps_its_status() -> None:
    with Server(then=DRIPS["body of an error"]) as server, pytest.raises(ModelError) as caught:
        complete(told(server, timeout=0.7, max_retries=0))
    assert (caught.value.status, caught.value.kind) == (400, "refused")


@pytest.mark.parametrize("status", [b"400", b"200"])
def test_a_body_of_a_gigabyte_is_not_read(status: bytes, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_REPLY_BYTES", 4_000_000)
    sent = 0

    class Large(Forever):
        def play(self, exchange: Exchange) -> None:
            nonlocal sent
            exchange.write(self.begin)
            try:
                while sent < 1_000_000_000:
                    exchange.write(self.piece)
                    sent += len(self.piece)
            except OSError:
                pass
            exchange.break_off()

    play = Large(BAD.replace(b"400", status) + b'{"error": "', b"x" * 100_000)
    with Server(play) as server, pytest.raises(ModelError) as caught:
        complete(told(server, stream=False, max_retries=0))
    assert caught.value.status == int(status)
    assert len(str(caught.value)) < 1000
    assert sent < 50_000_000  # the rest lay in the buffers of the connection


def test_an_endless_stream_is_aborted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_REPLY_BYTES", 300_000)
    event = (
        b"data: " + json.dumps({"choices": [{"delta": {"content": "x" * 1000}}]}).encode() + b"\n\n"
    )
    chunk = f"{len(event):x}\r\n".encode() + event + b"\r\n"
    with (
        Server(Forever(GOOD, chunk, 0)) as server,
        pytest.raises(ModelError, match="300,000 bytes") as caught,
    ):
        complete(told(server, max_retries=0))
    assert caught.value.kind == "server"


@pytest.mark.parametrize("name", ["100 Continue", "headers", "comments"])
def test_an_endless_list_of_models_is_aborted(name: str) -> None:
    with Server() as server:
        server.list_models = DRIPS[name].play  # type: ignore[method-assign]
        with pytest.raises(ModelError) as caught:
            _ = OpenAIModel(base_url=server.url, timeout=0.7).name
        assert caught.value.kind == "timeout"


@pytest.mark.parametrize("name", ["100 Continue", "headers", "100 Continue at full speed"])
def test_looking_for_models_ends_in_time(name: str) -> None:
    with Server() as server:
        server.list_models = DRIPS[name].play  # type: ignore[method-assign]
        began = time.monotonic()
        assert served_at(server.url, "", 0.3) == ()
        assert time.monotonic() - began < HANGS / 2


def test_an_unreadable_list_of_models_is_an_error() -> None:
    for body in ['{"data": ' + "[" * 100_000, '{"data": [' + "9" * 5000 + "]}"]:
        with Server() as server:
            server.list_models = Raw(body, 200, "application/json").play  # type: ignore[method-assign]
            assert not served_at(server.url, "", HANGS)
            with pytest.raises(ModelError):
                _ = OpenAIModel(base_url=server.url).name


def test_a_redirect_is_named_and_not_followed() -> None:
    for status in [301, 302, 303, 307, 308]:
        for stream in [True, False]:
            with Server() as elsewhere:
                moved = Status(
                    status, headers={"Location": f"{elsewhere.url}/chat/completions?key=hidden"}
                )
                with Server(then=moved) as server, pytest.raises(ModelError) as caught:
                    complete(told(server, api_key="sk-secret", stream=stream))
            assert (caught.value.status, caught.value.kind) == (status, "refused")
            assert f"{server.url!r} redirects to {elsewhere.url!r}" in str(caught.value)
            assert "hidden" not in str(caught.value)
            assert (len(server.chats), elsewhere.asked) == (1, [])


def test_the_command_that_a_redirect_names_runs_nothing_of_the_server() -> None:
    hostile = "http://h/v1\"; print(1); {print(2)} $HOME '"
    moved = Status(308, headers={"Location": hostile})
    with Server(then=moved) as server, pytest.raises(ModelError) as caught:
        complete(told(server))
    explained = caught.value.explained
    assert explained is not None
    start, name, end = explained.command.split('"')
    assert (start, end) == ("%config ArchytasNB.base_url = ", "")
    assert name.startswith("http://h/v1")
    assert not set(name) & set("{}$' ")


def test_the_list_of_models_is_not_requested_from_another_host() -> None:
    with Server() as elsewhere, Server() as server:
        moved = Status(308, headers={"Location": f"{elsewhere.url}/models"})
        server.list_models = moved.play  # type: ignore[method-assign]
        with pytest.raises(ModelError, match="redirects to"):
            _ = OpenAIModel(base_url=server.url, api_key="sk-secret").name
        assert served_at(server.url, "sk-secret", HANGS) == ()
    assert elsewhere.asked == []


def test_a_redirect_without_a_location_is_an_error_with_its_status() -> None:
    with Server(then=Status(308)) as server, pytest.raises(ModelError) as caught:
        complete(told(server))
    assert caught.value.status == 308


def test_concurrent_requests_end_independently() -> None:
    """The deadline of one request does not cut the connection of another."""
    with Server(
        Say("warm"), Forever(b"", b"HTTP/1.1 100 Continue\r\n\r\n"), then=Say("fine")
    ) as server:
        model = told(server)
        complete(model)
        failures: list[str] = []

        def short() -> None:
            with pytest.raises(ModelError) as caught:
                complete(model, seconds=1.0)
            failures.append(caught.value.kind)

        thread = threading.Thread(target=short)
        thread.start()
        wait_until(lambda: len(server.chats) == 2)
        while thread.is_alive():
            assert complete(model)[1].text == "fine"
            time.sleep(0.01)
        thread.join()
        assert failures == ["deadline"]


def test_a_slow_consumer_is_not_cut_off() -> None:
    """`timeout` counts the seconds of waiting for data, not those of whoever looks at what came."""
    with Server(Say("one two three four")) as server:
        flow = told(server, timeout=2.0, max_retries=0).complete(hello())
        next(flow)
        time.sleep(2.5)
        assert list(flow)


def hello() -> Any:
    from archytas_nb.loop.events import AskModel
    from tests.models.talking import HELLO

    return AskModel(1, HELLO)


def wait_until(ready: Callable[[], bool], seconds: float = HANGS) -> None:
    end = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < end
        time.sleep(0.02)


@contextmanager
def listening() -> Iterator[socket.socket]:
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server


def test_a_connection_that_is_never_accepted_ends_at_the_deadline() -> None:
    with listening() as server:
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        with pytest.raises(ModelError) as caught:
            complete(OpenAIModel("m", url, max_retries=0), seconds=0.5)
    assert caught.value.kind == "deadline"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="processes are forked on POSIX systems only")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_a_forked_child_has_connections_of_its_own() -> None:
    with Server(then=Say("fine")) as server:
        model = told(server)
        complete(model)
        child = os.fork()
        if child == 0:
            os._exit(len(remote._CLIENTS))
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert len(remote._CLIENTS) == 1


# ── compressed bodies ─────────────────────────────────────────────────────────────────────────────


class Compressed:
    """Answers with a body that says how it is compressed."""

    def __init__(self, encoding: str, body: bytes, status: int = 200) -> None:
        self.encoding, self.body, self.status = encoding, body, status

    def play(self, exchange: Exchange) -> None:
        exchange.send(self.status, self.body, {"Content-Encoding": self.encoding})


def test_requests_only_encodings_that_decode_in_bounded_memory() -> None:
    fine = json.dumps({"choices": [{"message": {"content": "fine"}}]}).encode()
    with Server(Compressed("gzip", gzip.compress(fine))) as server:
        assert complete(told(server, stream=False))[1].text == "fine"
        assert set(server.chats[0].headers["accept-encoding"].split(", ")) == {"gzip", "deflate"}


def test_a_body_in_an_encoding_that_was_not_requested_is_not_read() -> None:
    for status in [200, 503]:
        for encoding in ["br", "zstd", "gzip, gzip", "gzip,br"]:
            play = Compressed(encoding, b"x" * 1000, status)
            with Server(then=play) as server, pytest.raises(ModelError) as caught:
                complete(told(server, max_retries=0))
            assert caught.value.status == status
            assert (repr(encoding) in str(caught.value)) is (status == 200)


def test_the_bytes_of_a_compressed_body_count_uncompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounds, "MAX_REPLY_BYTES", 1_000_000)
    bomb = gzip.compress(b'{"choices": [{"message": {"content": "' + b"x" * 5_000_000 + b'"}}]}')
    with (
        Server(then=Compressed("gzip", bomb)) as server,
        pytest.raises(ModelError, match="more than 1,000,000 bytes"),
    ):
        complete(told(server, stream=False, max_retries=0))


# ── connections ───────────────────────────────────────────────────────────────────────────────────


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a full backlog refuses connections")
def test_a_host_with_many_addresses_that_hang_ends_at_the_deadline(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.create_server(("127.0.0.1", 0), backlog=0) as full:
        port = full.getsockname()[1]
        waiting = [socket.socket() for _ in range(4)]
        for each in waiting:  # fills the backlog, so that further connections hang
            each.setblocking(False)
            each.connect_ex(("127.0.0.1", port))
        address = (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", port))
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: [address] * 10)
        began = time.monotonic()
        with pytest.raises(ModelError) as caught:
            complete(OpenAIModel("m", f"http://many.example:{port}/v1", max_retries=0), seconds=1.0)
        assert time.monotonic() - began < 3
        assert caught.value.kind == "deadline"
        for each in waiting:
            each.close()


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


@given(st.lists(JSON, max_size=6), st.data())
def test_a_body_in_parts_is_its_json_whatever_was_sent_before(items: list[Any], data: Any) -> None:
    connection = BoundedConnection(EndpointErrors("http://127.0.0.1", "", None, (), ("", "")))
    for _ in range(4):
        chosen = data.draw(st.lists(st.sampled_from([*items, None, {}]), max_size=8))
        fields = {"messages": chosen, "tools": items[:2], "input": {"a": 1}}
        body = data.draw(
            st.permutations([*fields.items(), ("stop", ["x"]), ("model", "ü")]).map(dict)
        )
        parts = connection._encoded_in_parts(body)
        assert (
            b"".join(parts)
            == json.dumps(body, ensure_ascii=False, separators=(",", ":"), allow_nan=False).encode()
        )
