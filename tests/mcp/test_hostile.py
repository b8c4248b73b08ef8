"""Servers that misbehave: each answer becomes an outcome, and nothing hangs or grows."""

from __future__ import annotations

import os
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import psutil
import pytest

from archytas_nb.files import OutputFile
from archytas_nb.mcp import client
from archytas_nb.mcp.client import ServerConnection
from tests.mcp import hostile

COMMAND = [sys.executable, str(Path(hostile.__file__))]


@pytest.fixture(params=["stdio", "http"])
def connection(request: pytest.FixtureRequest) -> Iterator[ServerConnection]:
    with hostile.over_http() as url:
        target = {"stdio": COMMAND, "http": url}[request.param]
        connection = ServerConnection("bad", target)
        connection.connect()
        yield connection
        connection.close()


def call(connection: ServerConnection, tool: str, **arguments: object) -> Any:
    [found] = [each for each in connection.tools if each.name == f"bad_{tool}"]
    return found.call(arguments)


def test_the_answers_become_outcomes(connection: ServerConnection) -> None:
    for name in ("untyped", "null", "broken", "nested", "unfit", "large"):
        outcome = call(connection, name)
        assert outcome.status == "error", name
        assert len(outcome.text) < 2_000
    assert "32,000,000 bytes" in call(connection, "large").text
    assert call(connection, "html").value == f"html {hostile.HTML}"
    assert call(connection, "picture").text == "(image: image/png)"
    # The pattern of its schema would take longer than anybody waits, and hold up the process.
    assert call(connection, "slow").value == {"x": "a" * 40 + "!"}
    assert call(connection, "bomb").status == "done"
    assert call(connection, "get_sum").value == f"get-sum {hostile.HTML}"


def test_arguments_are_checked_by_the_whole_schema_before_they_are_sent(
    connection: ServerConnection,
) -> None:
    outcome = call(connection, "limited", count=4)
    assert outcome.status == "error"
    assert "maximum of 3" in outcome.text
    assert call(connection, "limited", count=3).status == "done"


def test_names_that_cannot_be_used_are_left_out(connection: ServerConnection) -> None:
    last = f"tool {len(hostile.TOOLS)} of the list"
    assert {*connection.left_out} == {"get_sum", "x" * 99 + "…", "faulty", last}
    assert call(connection, "lost").status == "done"  # what is not used of a tool may be anything
    other = ServerConnection("bad", connection.target, taken=["bad_html"])
    other.connect()
    assert "html" in other.left_out
    other.close()


def test_a_server_that_has_gone_says_why(connection: ServerConnection) -> None:
    said = call(connection, "dead").text
    assert not connection.is_open
    if connection.log is not None:
        assert "%agent_mcp remove bad" in said
        assert "told why" in said
        assert "status 3" in said
        assert call(connection, "html").status == "error"


def test_a_call_after_the_end_of_a_connection_connects_again_and_nothing_is_sent_twice() -> None:
    with hostile.over_http() as url:
        connection = ServerConnection("bad", url)
        connection.connect()
        hostile.received.clear()
        assert "may have been carried out" in call(connection, "dead").text
        assert hostile.received == ["dead"]
        assert call(connection, "html").status == "done"  # in a new connection
        assert connection.is_open

        assert call(connection, "forgets").status == "done"
        lost = call(connection, "html")  # it does not know the session
        assert lost.status == "error"
        assert "session" in lost.text
        assert call(connection, "html").status == "done"
        assert hostile.received == ["dead", "html", "forgets", "html"]
        connection.close()
        assert call(connection, "html").status == "error"


def test_a_tool_that_is_another_one_after_a_new_connection_is_not_called() -> None:
    with hostile.over_http() as url:
        connection = ServerConnection("bad", url)
        connection.connect()
        hostile.received.clear()
        call(connection, "dead")
        first = hostile.TOOLS[0]
        hostile.TOOLS[0] = {**first, "description": "Delete everything."}
        try:
            assert "replaced" in call(connection, first["name"]).text
            assert hostile.received == ["dead"]
        finally:
            hostile.TOOLS[0] = first
        assert call(connection, "html").status == "done"
        connection.close()


def test_calls_at_the_same_time_make_one_new_connection() -> None:
    with hostile.over_http() as url:
        connection = ServerConnection("bad", url)
        connection.connect()
        call(connection, "dead")
        before = len(hostile.sessions)
        with ThreadPoolExecutor(8) as pool:
            outcomes = [*pool.map(lambda _: call(connection, "html"), range(8))]
        assert {each.status for each in outcomes} == {"done"}
        assert len(hostile.sessions) == before + 1
        connection.close()


def test_html_and_compressed_answers_are_errors() -> None:
    with hostile.over_http() as url:
        connection = ServerConnection("bad", url)
        connection.connect()
        assert "text/html" in call(connection, "page").text
        assert call(connection, "compressed").status == "error"
        assert call(connection, "html").status == "done"
        connection.close()


def test_a_call_that_is_not_answered_ends_with_the_connection() -> None:
    connection = ServerConnection("bad", COMMAND)
    connection.connect()
    log = connection.log
    assert log is not None
    assert "no message" in log.read_text()  # what it printed on stdout
    with ThreadPoolExecutor() as pool:
        waiting = pool.submit(call, connection, "silent")
        connection.close()
        assert waiting.result(60).status == "error"
    assert not log.exists()


def test_the_log_of_a_kernel_that_was_killed_is_removed_by_the_next_connection(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JUPYTER_RUNTIME_DIR", str(tmp_path))
    left = tmp_path / f"archytas_nb-mcp-other-{os.getpid()}.log"  # a process that runs
    left.touch()
    other = tmp_path / "archytas_nb-mcp-other-1.log"
    with OutputFile(other, "a log").begin():
        connection = ServerConnection("bad", COMMAND)
        connection.connect()
        connection.close()
        assert not left.exists()
        assert other.exists()


def children() -> set[int]:
    return {each.pid for each in psutil.Process().children()}


def test_a_server_that_does_not_answer_at_all_is_ended() -> None:
    before = children()
    connection = ServerConnection("bad", [sys.executable, "-c", "import time; time.sleep(3600)"])
    with pytest.raises(client.ConfigurationError, match="did not answer"):
        connection.connect(0.5)
    assert children() <= before


def test_connections_leave_no_threads_and_processes_behind() -> None:
    before = children()
    for _ in range(2):
        connection = ServerConnection("bad", COMMAND)
        connection.connect()
        connection.close()
        threads = {each.name for each in threading.enumerate()}
    assert children() <= before
    assert len([each for each in threads if "mcp" in each]) == 1
