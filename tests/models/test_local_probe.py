"""Model servers on this machine: found, told from others, asked for nothing but their models, chosen."""

from __future__ import annotations

import json
import logging
import socket
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.agent import Agent
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.errors import ConfigurationError
from archytas_nb.kernel.approval import Keyboard
from archytas_nb.loop.events import AskModel, Notice
from archytas_nb.models import discover, local_probe, openai_chat
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.models.discover import ModelSettings, choose_model, served_names
from archytas_nb.models.embedded import EmbeddedModel
from archytas_nb.models.listing import Served, served_at
from archytas_nb.models.local_probe import local_servers
from archytas_nb.models.openai_chat import OpenAIModel
from archytas_nb.trace.html import question_html
from archytas_nb.trace.view import fold
from tests.cassettes.tapes import no_model
from tests.servers.plays import HTML, Drop, Hang, Raw, Say
from tests.servers.server import Server

FINDS = ModelSettings(discover=True)
VARIABLES = ("ARCHYTAS_NB_MODEL", "ARCHYTAS_NB_LOCAL_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY")


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(
        local_probe, "permissions_file", lambda: tmp_path / "state" / "servers.json"
    )
    discover._warn_once.cache_clear()
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(
        local_probe, "SECONDS", 5.0
    )  # a busy machine is no reason for a test to fail
    local_probe.look_again()
    capabilities_of.cache_clear()
    yield
    local_probe.look_again()
    for base_url, _, _ in list(openai_chat._CLIENTS):
        openai_chat.close_clients(base_url)


def here(monkeypatch: pytest.MonkeyPatch, *servers: Server | int) -> None:
    """Let these be the servers on the usual ports."""
    ports = [
        each if isinstance(each, int) else int(each.root.rpartition(":")[2]) for each in servers
    ]
    monkeypatch.setattr(
        local_probe, "PORTS", tuple((f"server {n}", port) for n, port in enumerate(ports))
    )


def yes(_prompt: str) -> bool:
    """A user who allows every server."""
    return True


def nobody() -> int:
    """A port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as probe:
        return int(probe.getsockname()[1])


def test_the_first_server_with_a_model_that_chats_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["nomic-embed-text:latest", "qwen3:8b", "llama3.2:latest"]
    with Server(models=names) as ours, Server(models=["other"]) as other:
        here(monkeypatch, nobody(), ours, other)
        model = choose_model(settings=FINDS, confirm=yes)
        assert isinstance(model, OpenAIModel)
        assert (model.name, model.base_url) == ("qwen3:8b", ours.url)
        assert [(server.name, server.base_url) for server in local_servers()] == [
            ("server 1", ours.url),
            ("server 2", other.url),
        ]


def test_a_found_model_is_introduced_with_the_first_question_and_answers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Server(models=["qwen3:8b"], then=Say("fine")) as server:
        here(monkeypatch, server)
        model = choose_model(settings=FINDS, confirm=yes)
        events = [
            list(model.complete(AskModel(1, ({"role": "user", "content": "hi"},))))
            for _ in range(2)
        ]
    said = [[each.text for each in seen if isinstance(each, Notice)] for seen in events]
    assert said == [
        [f"'qwen3:8b' of server 0 at {server.url!r} answers: it was found on this machine"],
        [],
    ]


def test_the_trace_says_which_server_answers_where_nobody_named_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    path = tmp_path / "x.jsonl"
    with Server(models=["qwen3:8b"], then=Say("fine")) as server:
        here(monkeypatch, server)
        model = CassetteModel(
            Cassette(path, "record"), lambda: choose_model(settings=FINDS, confirm=yes)
        )
        found = Agent([], model).run("Hello?")
        named = Agent([], OpenAIModel("qwen3:8b", server.url)).run("Hello?")
    again = Agent([], CassetteModel(Cassette(path, "replay"), no_model)).run("Hello?")
    heads = [str(question_html(fold(run.question, run.events))) for run in (found, again, named)]
    assert ["qwen3:8b · native · server 0" in head for head in heads] == [True, True, False]
    assert "qwen3:8b · native" in heads[2]


@pytest.mark.parametrize(
    "server",
    [
        {"models": None, "elsewhere": HTML},
        {"models": None},
        {"models": []},
        {"models": ["nomic-embed-text", "whisper-1", "bge-m3"]},
        {"models": None, "elsewhere": Raw('{"data": "none"}', 200, "application/json")},
        {"models": None, "elsewhere": Raw('[{"id": "x"}]', 200, "application/json")},
        {"models": None, "elsewhere": Raw('{"data": [{"name": "x"}, 5]}', 200, "application/json")},
        {"models": None, "elsewhere": Raw('{"data": [{"id": "x"}]}', 401, "application/json")},
        {"models": None, "elsewhere": Drop()},
    ],
)
def test_whatever_else_listens_there_is_left_alone(
    monkeypatch: pytest.MonkeyPatch, server: Any
) -> None:
    with Server(**server) as other:
        here(monkeypatch, other)
        assert isinstance(choose_model(settings=FINDS, confirm=yes), EmbeddedModel)
        assert [(asked.method, asked.path) for asked in other.asked] == [("GET", "/v1/models")]


def test_a_server_that_does_not_answer_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local_probe, "SECONDS", 0.3)
    with Server(models=None, elsewhere=Hang()) as silent, Server(models=["m"]) as ours:
        here(monkeypatch, silent, ours)
        assert [server.base_url for server in local_servers()] in ([ours.url], [])
    with socket.create_server(("127.0.0.1", 0)) as mute:  # it accepts, and reads nothing
        assert served_at(f"http://127.0.0.1:{mute.getsockname()[1]}/v1", "", 0.1) is None


def test_nothing_is_sent_but_the_wish_for_the_list(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(models=["m"]) as server:
        here(monkeypatch, server)
        choose_model(settings=FINDS, confirm=yes)
        [asked] = server.asked
    assert set(asked.headers) == {"host", "accept", "accept-encoding"}


def test_what_was_found_stays_for_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(models=["first"]) as server:
        here(monkeypatch, server)
        for _ in range(3):
            choose_model(settings=FINDS, confirm=yes)
        server.models = ["second", "first"]
        assert choose_model(settings=FINDS, confirm=yes).name == "first"
        assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("name", "settings", "variables"),
    [
        ("local", {}, {}),
        (None, {"model": "local"}, {}),
        (None, {"local_model": "/models/one.gguf"}, {}),
        (None, {}, {"ARCHYTAS_NB_LOCAL_MODEL": "/models/one.gguf"}),
        (None, {"discover": False}, {}),
        (None, {"discover": None}, {"ARCHYTAS_NB_DISCOVER": "0"}),
        (None, {"discover": None}, {"ARCHYTAS_NB_DISCOVER": " Off "}),
    ],
)
def test_where_something_else_was_said_nobody_is_asked(
    monkeypatch: pytest.MonkeyPatch, name: Any, settings: Any, variables: dict[str, str]
) -> None:
    for variable, value in variables.items():
        monkeypatch.setenv(variable, value)
    with Server(models=["m"]) as server:
        here(monkeypatch, server)
        assert isinstance(
            choose_model(name, ModelSettings(**{"discover": True, **settings})), EmbeddedModel
        )
        assert server.asked == []


def test_an_endpoint_that_is_configured_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with Server(models=["m"]) as server:
        here(monkeypatch, server)
        assert choose_model("x", FINDS).base_url == "http://127.0.0.1:9/v1"
        assert server.asked == []


def test_a_name_is_looked_for_in_all_of_them(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(models=["a"]) as one, Server(models=["b", "c:latest"]) as two:
        here(monkeypatch, one, two)
        assert choose_model("b", FINDS, yes).base_url == two.url
        assert choose_model("c", FINDS, yes).name == "c:latest"
        with pytest.raises(
            ConfigurationError, match=r"On this machine 'a', 'b', 'c:latest' would answer"
        ):
            choose_model("d", FINDS)


def test_the_context_that_a_list_tells_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    answer = json.dumps({"object": "list", "data": [{"id": "m", "max_model_len": 32768}]})
    with Server(models=None, elsewhere=Raw(answer, 200, "application/json")) as server:
        here(monkeypatch, server)
        assert choose_model(settings=FINDS, confirm=yes).context_tokens == 32768
        capabilities_of.cache_clear()
        model = OpenAIModel(None, server.url)
        assert (model.name, model.context_tokens) == ("m", 32768)


@pytest.mark.parametrize(
    ("name", "chats"),
    [("qwen3:8b", True), ("gpt-4.1-mini", True), ("text-embedding-3-small", False), ("mxbai-embed-large", False),
     ("BAAI/bge-m3", False), ("tts-1", False), ("gpt-4o-mini-tts", False), ("whisper-large-v3", False),
     ("gte-qwen2", False), ("intfloat/e5-mistral", False), ("gemma3", True), ("phi-4", True)],
)  # fmt: skip
def test_models_that_do_not_chat_are_known_by_their_names(name: str, chats: bool) -> None:
    assert Served(name).chats is chats


# ── permission ────────────────────────────────────────────────────────────────────────────────────


class User:
    """Answers what they are asked, in order; None where nobody can be asked."""

    def __init__(self, *answers: bool | None) -> None:
        self.answers = list(answers)
        self.prompts: list[str] = []

    def __call__(self, prompt: str) -> bool | None:
        self.prompts.append(prompt)
        return self.answers.pop(0)


def test_a_user_is_asked_once_about_a_server_and_a_yes_is_kept_in_a_private_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = User(True)
    with Server(models=["qwen3:8b"]) as server:
        here(monkeypatch, server)
        for _ in range(2):
            assert choose_model(settings=FINDS, confirm=user).base_url == server.url
        at = server.root.removeprefix("http://")
        assert user.prompts == [f"Use server 0 at {at}, model qwen3:8b? [y/n] "]
        local_probe.look_again()  # as in another process, where nobody can be asked
        assert choose_model(settings=FINDS).base_url == server.url
        server.models = ["another model of the same server"]
        local_probe.look_again()
        assert choose_model(settings=FINDS).base_url == server.url
    file = local_probe.permissions_file()
    assert json.loads(file.read_text()) == {server.url: "server 0"}
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_no_is_kept_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    user = User(False, False, True)
    with Server(models=["m"]) as one, Server(models=["m"]) as two:
        here(monkeypatch, one, two)
        for _ in range(2):
            assert isinstance(choose_model(settings=FINDS, confirm=user), EmbeddedModel)
        assert len(user.prompts) == 2
        assert not local_probe.permissions_file().exists()
        local_probe.look_again()
        assert choose_model(settings=FINDS, confirm=user).base_url == one.url


@pytest.mark.parametrize("confirm", [None, User(None)])
def test_where_nobody_can_be_asked_nothing_of_a_notebook_is_sent(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, confirm: Any
) -> None:
    with Server(models=["m"]) as server, caplog.at_level(logging.WARNING, "archytas_nb"):
        here(monkeypatch, server)
        assert isinstance(choose_model(settings=FINDS, confirm=confirm), EmbeddedModel)
        assert isinstance(choose_model(settings=FINDS), EmbeddedModel)
        [warning] = caplog.messages
        assert "server 0 at 127.0.0.1:" in warning
        assert f"set OPENAI_BASE_URL (or %config ArchytasNB.base_url) to {server.url!r}" in warning
        with pytest.raises(ConfigurationError, match="nobody has named or allowed it"):
            choose_model("m", FINDS)
        assert server.chats == []


def test_an_allowed_server_is_preferred_to_one_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(models=["m"]) as one, Server(models=["m"]) as two:
        here(monkeypatch, two)
        choose_model(settings=FINDS, confirm=yes)
        monkeypatch.setattr(local_probe, "PORTS", (("new", int(one.root[-5:])), *local_probe.PORTS))
        local_probe.look_again()
        assert choose_model(settings=FINDS).base_url == two.url


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", '{"http://x": true}', "[" * 100_000])
def test_a_damaged_list_of_permissions_allows_nothing(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    file = local_probe.permissions_file()
    file.parent.mkdir()
    file.write_text(text)
    with Server(models=["m"]) as server:
        here(monkeypatch, server)
        assert isinstance(choose_model(settings=FINDS), EmbeddedModel)
        assert choose_model(settings=FINDS, confirm=yes).base_url == server.url
    assert json.loads(file.read_text())[server.url] == "server 0"


def test_a_state_directory_that_cannot_be_written_allows_for_this_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    local_probe.permissions_file().parent.write_text("a file")
    with Server(models=["m"]) as server:
        here(monkeypatch, server)
        assert choose_model(settings=FINDS, confirm=yes).base_url == server.url


def test_a_name_that_a_server_made_cannot_act_on_the_prompt(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = User(False)
    with Server(models=["m\x1b[2J\n" + "x" * 500]) as server:
        here(monkeypatch, server)
        choose_model(settings=FINDS, confirm=user)
    assert user.prompts[0].isprintable()
    assert len(user.prompts[0]) < 200


def test_an_agent_asks_before_it_sends_its_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ARCHYTAS_NB_DISCOVER")
    with Server(models=["m"], then=Say("fine")) as server:
        here(monkeypatch, server)
        asked: list[int] = []
        monkeypatch.setattr(Keyboard, "there", True)
        monkeypatch.setattr(Keyboard, "ask", lambda *_: asked.append(len(server.chats)) or "Yes")
        agent = Agent([], namespace={})
        assert [agent.run("Hello?").answer for _ in range(2)] == ["fine", "fine"]
        assert asked == [0]


# ── completion ────────────────────────────────────────────────────────────────────────────────────


def test_the_names_of_the_servers_here_are_offered_with_the_embedded_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Server(models=["a", "text-embedding"]) as one, Server(models=["b", "a"]) as two:
        here(monkeypatch, one, two)
        assert served_names(FINDS) == ["a", "b", "local"]
        assert served_names(ModelSettings(discover=False)) == ["local"]


def test_the_names_of_the_configured_endpoint_are_offered_and_asked_for_with_its_key() -> None:
    with Server(models=["a", "b"]) as server:
        settings = ModelSettings(base_url=server.url, api_key="sk-x")
        assert served_names(settings) == served_names(settings) == ["a", "b", "local"]
        assert server.asked[0].headers["authorization"] == "Bearer sk-x"
        assert len(server.asked) <= 2  # the second time falls into another period at most


@pytest.mark.parametrize(
    "url",
    [
        "http://127.0.0.1:9/v1",
        "not a url",
        "http://",
        "ftp://x/v1",
        "http://[::1",
        "http://127.0.0.1:x/v1",
    ],
)
def test_an_endpoint_that_cannot_be_asked_offers_nothing_and_raises_nothing(url: str) -> None:
    assert served_names(ModelSettings(base_url=url)) == ["local"]


def test_the_door_is_cheap_to_load() -> None:
    code = (
        "import sys, archytas_nb.models.discover;"
        "sys.exit(any(name in sys.modules for name in ('openai', 'http.client', 'ssl', 'httpx')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
