"""The side of the model's process: leases and the engine's parameters, without a child process."""

from __future__ import annotations

import contextlib
import enum
import json
import socket
import stat
import sys
import threading
import time
import types
from multiprocessing.connection import Connection, answer_challenge, deliver_challenge

import pytest

from archytas_nb.models.embedded import serve
from archytas_nb.models.embedded.process import Lease
from archytas_nb.models.embedded.serve import configure, write_private

PATIENCE = 20  # seconds until a test that waits for something gives up
FOREVER = 3600.0


def Leases(key, grace, startup, end):
    """The server's side; at its end `end` is called."""
    leases = serve.Leases(key, grace, startup)

    def run():
        leases.wait()
        end()

    threading.Thread(target=run, daemon=True).start()
    return leases


@pytest.fixture
def ended():
    return threading.Event()


def test_the_server_ends_when_its_last_lease_is_closed_and_not_before(ended):
    leases = Leases("key", 0, FOREVER, ended.set)
    first, second = Lease(leases.port, "key"), Lease(leases.port, "key")
    first.close()
    assert second.is_open()
    assert not ended.wait(0.1)
    second.close()
    assert ended.wait(PATIENCE)


def test_the_server_ends_when_no_lease_ever_came(ended):
    Leases("key", FOREVER, 0, ended.set)
    assert ended.wait(PATIENCE)


def test_within_the_grace_period_a_new_lease_keeps_the_server(ended):
    leases = Leases("key", FOREVER, FOREVER, ended.set)
    Lease(leases.port, "key").close()
    for _ in range(
        PATIENCE * 100
    ):  # its end is seen on another thread, and begins the grace period
        if leases._count == 0:
            break
        time.sleep(0.01)
    again = Lease(leases.port, "key")
    assert again.is_open()
    assert not ended.is_set()
    again.close(at_once=True)
    assert ended.wait(PATIENCE)


def test_releasing_a_lease_at_once_does_not_end_a_shared_server(ended):
    leases = Leases("key", FOREVER, FOREVER, ended.set)
    other = Lease(leases.port, "key")
    Lease(leases.port, "key").close(at_once=True)
    assert not ended.wait(0.1)
    assert other.is_open()
    other.close()


def test_rejects_leases_during_shutdown(ended):
    leases = Leases("key", 0, 0, ended.set)
    assert ended.wait(PATIENCE)
    with pytest.raises(OSError, match=r"not the model|refused|reset|closed|pipe"):
        Lease(leases.port, "key")


def test_a_wrong_key_gives_no_lease(ended):
    leases = Leases("key", 0, FOREVER, ended.set)
    with pytest.raises(OSError, match=r"not the model|refused|reset|closed|pipe"):
        Lease(leases.port, "another")
    assert not ended.is_set()


def test_garbage_from_another_program_is_ignored(ended) -> None:
    for noise in [b"", b"\n", b"GET / HTTP/1.1\r\n\r\n", b"\xff\xfe\n", b"x" * 5000]:
        leases = Leases("key", 0, FOREVER, ended.set)
        ours = Lease(leases.port, "key")
        with socket.create_connection(("127.0.0.1", leases.port)) as stranger:
            stranger.sendall(noise)
        assert ours.is_open()
        Lease(leases.port, "key").close()
        assert ours.is_open()
        ours.close()


def test_a_client_does_not_trust_a_listener_that_does_not_know_the_key():
    with socket.create_server(("127.0.0.1", 0)) as impostor:

        def pretend():
            peer, _ = impostor.accept()
            with Connection(peer.detach()) as connection, contextlib.suppress(Exception):
                connection.send_bytes(b"#CHALLENGE#" + b"x" * 20)
                connection.recv_bytes(256)
                connection.send_bytes(b"#WELCOME#")
                connection.recv_bytes(256)
                connection.send_bytes(b"no proof")

        thread = threading.Thread(target=pretend)
        thread.start()
        with pytest.raises(ConnectionRefusedError, match="not the model's server"):
            Lease(impostor.getsockname()[1], "key")
        thread.join()


def test_a_lease_closes_when_the_server_ends():
    with socket.create_server(("127.0.0.1", 0)) as server:
        connected = []

        def greet():
            peer, _ = server.accept()
            connection = Connection(peer.detach())
            deliver_challenge(connection, b"key")
            answer_challenge(connection, b"key")
            connected.append(connection)

        thread = threading.Thread(target=greet)
        thread.start()
        lease = Lease(server.getsockname()[1], "key")
        thread.join()
    assert lease.is_open()
    connected[0].close()
    for _ in range(1000):
        if not lease.is_open():
            break
        threading.Event().wait(0.01)
    assert not lease.is_open()
    lease.close()


def test_a_parameter_is_set_by_its_dotted_name_and_an_enumeration_by_the_name_of_its_value():
    color = enum.Enum("color", "RED BLUE")
    parameters = types.SimpleNamespace(
        size=1, names=set(), color=color.RED, cpu=types.SimpleNamespace(threads=1)
    )
    configure(parameters, {"size": 2, "names": ["a"], "color": "BLUE", "cpu.threads": 3})
    assert (parameters.size, parameters.names, parameters.color, parameters.cpu.threads) == (
        2,
        {"a"},
        color.BLUE,
        3,
    )


def test_a_parameter_that_the_engine_does_not_have_is_skipped_unless_it_is_needed(capsys):
    configure(types.SimpleNamespace(), {"cpuparams.n_threads": 1})
    assert "cpuparams.n_threads" in capsys.readouterr().err
    with pytest.raises(AttributeError, match="n_ctx"):
        configure(types.SimpleNamespace(), {"n_ctx": 1})


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no permission bits")
def test_a_private_file_is_readable_by_its_owner_only(tmp_path):
    path = tmp_path / "state.json"
    path.write_text("old")
    path.chmod(0o644)
    write_private(path, {"api_key": "secret"})
    assert json.loads(path.read_text()) == {"api_key": "secret"}
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]
