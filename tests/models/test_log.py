"""What the log tells of requests, and what it keeps to itself."""

from __future__ import annotations

import logging
import subprocess
import sys

import pytest

from archytas_nb.errors import ModelError
from archytas_nb.loop.events import AskModel
from archytas_nb.models import openai_chat
from archytas_nb.models.openai_chat import OpenAIModel
from tests.servers.plays import Say, Status
from tests.servers.server import Server

KEY = "sk-do-not-log-0123456789"
ASK = AskModel(1, ({"role": "user", "content": "the secret of the abbey"},))


def ours(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [record.getMessage() for record in caplog.records if record.name == "archytas_nb"]


def ask(server: Server) -> None:
    url = server.url.replace("//", "//me:hidden@")
    try:
        list(OpenAIModel("tiny-1", url, KEY, max_retries=0).complete(ASK))
    finally:
        openai_chat.close_clients(url)


def test_each_request_is_one_line_with_its_size_and_outcome(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(logging.DEBUG, "archytas_nb")
    with Server(Say("fine"), then=Status(500, f"your key is {KEY}")) as server:
        ask(server)
        with pytest.raises(ModelError):
            ask(server)
    good, bad = ours(caplog)
    assert good.startswith(
        f"asked {server.url} for 'tiny-1': 1 messages of 23 characters, 0 tools, stop, tokens: 100 in"
    )
    assert "server (status 500) after" in bad


def test_no_level_shows_the_key_the_credentials_or_what_was_said(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(1)
    with Server(Say("fine"), then=Status(401, f"bad key {KEY}")) as server:
        ask(server)
        with pytest.raises(ModelError):
            ask(server)
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert KEY not in said
    assert all(word not in "\n".join(ours(caplog)) for word in ("hidden", "abbey", "fine"))


def test_nothing_is_printed_where_nobody_set_up_a_log() -> None:
    code = (
        "from archytas_nb.errors import ModelError\n"
        "from archytas_nb.models.openai_chat import OpenAIModel\n"
        "from archytas_nb.loop.events import AskModel\n"
        "try:\n"
        "    list(OpenAIModel('m', 'http://127.0.0.1:9/v1', max_retries=0).complete(AskModel(1, ({},))))\n"
        "except ModelError:\n"
        "    pass\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")
