"""Which model answers: flag, configuration, environment, servers of this machine."""

from __future__ import annotations

import contextlib
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
from archytas_nb.cassettes import switch
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.errors import ConfigurationError
from archytas_nb.kernel.person import Keyboard
from archytas_nb.loop.events import ModelReply, Notice
from archytas_nb.models import choose, endpoint
from archytas_nb.models.capabilities import capabilities_of
from archytas_nb.models.choose import (
    ModelSettings,
    choose_model,
    local_servers,
    served_at,
    served_names,
)
from archytas_nb.models.embedded.model import EmbeddedModel
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.models.providers import Served, is_small
from archytas_nb.models.published import PROVIDERS
from archytas_nb.trace import bundle
from archytas_nb.trace.fold import fold
from archytas_nb.trace.html import facts_of
from tests.cassettes.tapes import no_model
from tests.scripted import Scripted
from tests.servers.plays import HTML, Drop, Hang, Raw, Say
from tests.servers.server import Server

ALWAYS = ["local", *(f"{prefix}:" for prefix in PROVIDERS)]
HERE, THERE = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"
VARIABLES = ("ARCHYTAS_NB_MODEL", "ARCHYTAS_NB_LOCAL_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY")


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch  # type: ignore[return-value]


def test_without_settings_the_embedded_model_answers() -> None:
    assert isinstance(choose_model(), EmbeddedModel)


def test_a_key_alone_means_openai(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("OPENAI_API_KEY", "sk-x")
    model = choose_model()
    assert isinstance(model, OpenAIModel)
    assert model.base_url == "https://api.openai.com/v1"
    assert model.name == PROVIDERS["openai"].defaults[0]


def test_a_url_alone_means_that_endpoint(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("OPENAI_BASE_URL", HERE)
    assert choose_model("m").base_url == HERE


def test_precedence_is_argument_configuration_environment(
    environ: pytest.MonkeyPatch,
) -> None:
    environ.setenv("OPENAI_BASE_URL", HERE)
    environ.setenv("ARCHYTAS_NB_MODEL", "from-the-environment")
    assert choose_model().name == "from-the-environment"
    assert choose_model(settings=ModelSettings(model="configured")).name == "configured"
    assert choose_model("flagged", ModelSettings(model="configured")).name == "flagged"
    assert choose_model("m", ModelSettings(base_url=THERE)).base_url == THERE


@pytest.mark.parametrize("name", ["local", None])
def test_local_overrides_the_environment(environ: pytest.MonkeyPatch, name: Any) -> None:
    environ.setenv("OPENAI_BASE_URL", HERE)
    environ.setenv("ARCHYTAS_NB_MODEL", "local")
    assert isinstance(choose_model(name), EmbeddedModel)


def test_an_empty_variable_counts_as_unset(environ: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        environ.setenv(name, "")
    assert isinstance(choose_model(), EmbeddedModel)


def test_a_name_without_an_endpoint_is_an_error_that_says_what_to_do() -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"'gpt-x' needs an endpoint.*Set OPENAI_API_KEY or OPENAI_BASE_URL",
    ):
        choose_model("gpt-x")


def test_a_configured_gguf_is_the_embedded_model(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("ARCHYTAS_NB_LOCAL_MODEL", "/models/one.gguf")
    assert choose_model().name == "one"
    assert choose_model(settings=ModelSettings(local_model="/models/two.gguf")).name == "two"


def test_timeout_and_retries_reach_the_model() -> None:
    model = choose_model("m", ModelSettings(base_url=HERE, timeout=7, max_retries=1))
    assert (model.timeout, model.max_retries) == (7, 1)


def test_rejects_a_value_that_is_not_a_model() -> None:
    for model in [5, 1.5, object(), ["gpt-x"], b"gpt-x", True, OpenAIModel]:
        said = r"expected a model's name, an OpenAIModel, or an object with"
        with pytest.raises(ConfigurationError, match=said):
            choose_model(model)
        with pytest.raises(ConfigurationError, match=said):
            Agent([], model, namespace={}).run("Is anybody there?")


def test_a_model_is_returned_unchanged() -> None:
    model = EmbeddedModel()
    assert choose_model(model) is model


FINDS = ModelSettings(discover=True)


@pytest.fixture(autouse=True)
def _fresh(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    monkeypatch.setattr(choose, "permissions_file", lambda: tmp_path / "state" / "servers.json")
    choose._warn_once.cache_clear()
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(choose, "SECONDS", 5.0)  # a busy machine is no reason for a test to fail
    look_again()
    capabilities_of.cache_clear()
    yield
    look_again()
    endpoint.close_clients()


def look_again() -> None:
    """Forget what was found and refused, as another process does."""
    choose._servers.cache_clear()
    choose._refused.clear()


def here(monkeypatch: pytest.MonkeyPatch, *servers: Server | int) -> None:
    """Let these be the servers on the usual ports."""
    ports = [
        each if isinstance(each, int) else int(each.root.rpartition(":")[2]) for each in servers
    ]
    monkeypatch.setattr(
        choose, "PORTS", tuple((f"server {n}", port) for n, port in enumerate(ports))
    )


def yes(_prompt: str) -> bool:
    """A user who allows every server."""
    return True


NOBODY = 9
"""A port where nobody listens; one that was free a moment ago might be another test's by now."""


def test_the_first_server_with_a_model_that_chats_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    names = ["nomic-embed-text:latest", "qwen3:8b", "llama3.2:latest"]
    with Server(models=names) as ours, Server(models=["other"]) as other:
        here(monkeypatch, NOBODY, ours, other)
        model = choose_model(settings=FINDS, confirm=yes)
        assert isinstance(model, OpenAIModel)
        assert (model.name, model.base_url) == ("qwen3:8b", ours.url)
        assert [(server.name, server.base_url) for server in local_servers()] == [
            ("server 1", ours.url),
            ("server 2", other.url),
        ]


def test_the_trace_names_a_discovered_server(
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
    heads = [facts_of(fold(run.question, run.events)) for run in (found, again, named)]
    assert ["qwen3:8b · server 0" in head for head in heads] == [True, True, False]
    assert heads[2].endswith("qwen3:8b")


def test_other_servers_on_the_ports_are_ignored(monkeypatch: pytest.MonkeyPatch) -> None:
    for server in [
        {"models": None, "elsewhere": HTML},
        {"models": None},
        {"models": []},
        {"models": ["nomic-embed-text", "whisper-1", "bge-m3"]},
        {"models": None, "elsewhere": Raw('{"data": "none"}', 200, "application/json")},
        {"models": None, "elsewhere": Raw('[{"id": "x"}]', 200, "application/json")},
        {"models": None, "elsewhere": Raw('{"data": [{"name": "x"}, 5]}', 200, "application/json")},
        {"models": None, "elsewhere": Raw('{"data": [{"id": "x"}]}', 401, "application/json")},
        {"models": None, "elsewhere": Drop()},
    ]:
        with Server(**server) as other:
            here(monkeypatch, other)
            assert isinstance(choose_model(settings=FINDS, confirm=yes), EmbeddedModel)
            assert [(asked.method, asked.path) for asked in other.asked] == [("GET", "/v1/models")]


def test_does_not_wait_for_a_server_that_does_not_respond(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "SECONDS", 0.3)
    with Server(models=None, elsewhere=Hang()) as silent, Server(models=["m"]) as ours:
        here(monkeypatch, silent, ours)
        assert [server.base_url for server in local_servers()] in ([ours.url], [])
    with socket.create_server(("127.0.0.1", 0)) as mute:  # it accepts, and reads nothing
        assert served_at(f"http://127.0.0.1:{mute.getsockname()[1]}/v1", "", 0.1) == ()


def test_discovery_only_requests_the_list_of_models(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(models=["m"]) as server:
        here(monkeypatch, server)
        choose_model(settings=FINDS, confirm=yes)
        [asked] = server.asked
    assert asked.headers["authorization"] == "Bearer none"
    assert "content-length" not in asked.headers


def test_discovered_servers_are_kept_for_the_session(monkeypatch: pytest.MonkeyPatch) -> None:
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
def test_no_server_is_discovered_if_something_else_is_configured(
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


def test_a_configured_endpoint_overrides_discovered_servers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:9/v1")
    with Server(models=["m"]) as server:
        here(monkeypatch, server)
        assert choose_model("x", FINDS).base_url == "http://127.0.0.1:9/v1"
        assert server.asked == []


def test_a_name_is_looked_up_on_all_servers(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(models=["a"]) as one, Server(models=["b", "c:latest"]) as two:
        here(monkeypatch, one, two)
        assert choose_model("b", FINDS, yes).base_url == two.url
        assert choose_model("c", FINDS, yes).name == "c:latest"
        with pytest.raises(ConfigurationError, match="model 'd' needs an endpoint"):
            choose_model("d", FINDS)


def test_the_context_length_is_read_from_the_list_of_models(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    answer = json.dumps({"object": "list", "data": [{"id": "m", "max_model_len": 32768}]})
    with Server(models=None, elsewhere=Raw(answer, 200, "application/json")) as server:
        here(monkeypatch, server)
        assert choose_model(settings=FINDS, confirm=yes).context_tokens == 32768
        capabilities_of.cache_clear()
        model = OpenAIModel(None, server.url)
        assert (model.name, model.context_tokens) == ("m", 32768)


def test_recognises_models_without_chat_by_name() -> None:
    for name, chats in [
        ("qwen3:8b", True),
        ("gpt-4.1-mini", True),
        ("text-embedding-3-small", False),
        ("mxbai-embed-large", False),
        ("BAAI/bge-m3", False),
        ("tts-1", False),
        ("gpt-4o-mini-tts", False),
        ("whisper-large-v3", False),
        ("gte-qwen2", False),
        ("intfloat/e5-mistral", False),
        ("gemma3", True),
        ("phi-4", True),
    ]:
        assert Served(name).chats is chats


# ── permission ────────────────────────────────────────────────────────────────────────────────────


class User(Scripted):
    """Answers what they are asked, in order; None where nobody can be asked."""

    def __call__(self, prompt: str) -> Any:
        return self.ask(prompt)


def test_a_user_is_asked_once_about_a_server_and_a_yes_is_kept_in_a_private_file(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    user = User(True)
    with Server(models=["qwen3:8b"]) as server:
        here(monkeypatch, server)
        for _ in range(2):
            assert choose_model(settings=FINDS, confirm=user).base_url == server.url
        at = server.root.removeprefix("http://")
        assert user.prompts == [f"Use server 0 at {at}, model qwen3:8b?"]
        look_again()  # as in another process, where nobody can be asked
        assert choose_model(settings=FINDS).base_url == server.url
        server.models = ["another model of the same server"]
        look_again()
        assert choose_model(settings=FINDS).base_url == server.url
    file = choose.permissions_file()
    assert json.loads(file.read_text()) == {server.url: "server 0"}
    if sys.platform != "win32":
        assert stat.S_IMODE(file.stat().st_mode) == 0o600


def test_a_refusal_is_kept_for_the_process(monkeypatch: pytest.MonkeyPatch) -> None:
    user = User(False, False, True)
    with Server(models=["m"]) as one, Server(models=["m"]) as two:
        here(monkeypatch, one, two)
        for _ in range(2):
            assert isinstance(choose_model(settings=FINDS, confirm=user), EmbeddedModel)
        assert len(user.prompts) == 2
        assert not choose.permissions_file().exists()
        look_again()
        assert choose_model(settings=FINDS, confirm=user).base_url == one.url


@pytest.mark.parametrize("confirm", [None, User(None)])
def test_a_server_is_not_used_if_nobody_can_be_asked(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, confirm: Any
) -> None:
    with Server(models=["m"]) as server, caplog.at_level(logging.WARNING, "archytas_nb"):
        here(monkeypatch, server)
        assert isinstance(choose_model(settings=FINDS, confirm=confirm), EmbeddedModel)
        assert isinstance(choose_model(settings=FINDS), EmbeddedModel)
        [warning] = caplog.messages
        assert "server 0 at 127.0.0.1:" in warning
        assert f"set OPENAI_BASE_URL to {server.url!r}" in warning
        with pytest.raises(ConfigurationError, match="neither configured nor allowed"):
            choose_model("m", FINDS)
        assert server.chats == []


def test_a_server_that_is_not_used_is_named_with_the_first_reply_and_in_no_recording(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def reply(self: Any, *_: Any) -> Any:
        yield from ()
        return ModelReply('{"thought": "", "tool": "final_answer", "tool_input": "Yes."}')

    monkeypatch.setattr(EmbeddedModel, "_reply", reply)
    monkeypatch.setattr(switch, "_state", switch._State())
    monkeypatch.delenv("ARCHYTAS_NB_DISCOVER")
    path = str(tmp_path / "tape.jsonl")
    with Server(models=["m"]) as server:
        here(monkeypatch, server)
        agent = Agent([], namespace={})
        shown = [shown_of(agent.run("Well?")) for _ in range(2)]
        name = f"server 0 at {server.root.removeprefix('http://')}, model m, is not used"
        assert [name in each["text/plain"] for each in shown] == [True, False]
        assert [name in each["text/html"] for each in shown] == [True, False]
        with recorded_in(path):
            recording = Agent([], namespace={}).run("Well?")
        notices = [each for each in recording.events if isinstance(each, Notice)]
        assert name in " ".join(each.text for each in notices)
        with recorded_in(path, "replay"):
            replay = Agent([], namespace={}).run("Well?")
    assert shown_of(recording) == shown_of(replay)


def shown_of(run: Any) -> Any:
    """The trace of a run, as a notebook keeps it."""
    return bundle(fold(run.question, run.events))[0]


@contextlib.contextmanager
def recorded_in(path: str, mode: str = "auto") -> Iterator[None]:
    """Use a cassette."""
    switch.configure_cassette(path, mode)
    try:
        yield
    finally:
        switch.configure_cassette("")


def test_an_allowed_server_is_preferred_to_one_that_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    with Server(models=["m"]) as one, Server(models=["m"]) as two:
        here(monkeypatch, two)
        choose_model(settings=FINDS, confirm=yes)
        monkeypatch.setattr(choose, "PORTS", (("new", int(one.root[-5:])), *choose.PORTS))
        look_again()
        assert choose_model(settings=FINDS).base_url == two.url


@pytest.mark.parametrize("text", ["", "no JSON", "[1]", '{"http://x": true}', "[" * 100_000])
def test_a_damaged_list_of_permissions_allows_nothing(
    monkeypatch: pytest.MonkeyPatch, text: str
) -> None:
    file = choose.permissions_file()
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
    choose.permissions_file().parent.write_text("a file")
    with Server(models=["m"]) as server:
        here(monkeypatch, server)
        assert choose_model(settings=FINDS, confirm=yes).base_url == server.url


def test_control_characters_in_a_models_name_are_escaped(
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


def test_completes_names_of_discovered_servers_and_local(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with Server(models=["a", "text-embedding"]) as one, Server(models=["b", "a"]) as two:
        here(monkeypatch, one, two)
        assert served_names(FINDS) == ["a", "b", *ALWAYS]
        assert served_names(ModelSettings(discover=False)) == ALWAYS


def test_completes_names_of_the_configured_endpoint_with_its_key() -> None:
    with Server(models=["a", "b"]) as server:
        settings = ModelSettings(base_url=server.url, api_key="sk-x")
        assert served_names(settings) == served_names(settings) == ["a", "b", *ALWAYS]
        assert server.asked[0].headers["authorization"] == "Bearer sk-x"
        assert len(server.asked) <= 2  # the second time falls into another period at most


def test_completion_ignores_an_unreachable_endpoint() -> None:
    for url in [
        "http://127.0.0.1:9/v1",
        "not a url",
        "http://",
        "ftp://x/v1",
        "http://[::1",
        "http://127.0.0.1:x/v1",
    ]:
        assert served_names(ModelSettings(base_url=url)) == ALWAYS


def test_importing_choose_imports_no_client() -> None:
    code = (
        "import sys, archytas_nb.models.choose;"
        "sys.exit(any(name in sys.modules for name in ('openai', 'http.client', 'ssl', 'httpx')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


SMALL = (
    "qwen2.5-coder:1.5b qwen2.5-coder-1.5b-instruct-q4_k_m Llama-3.2-3B-Instruct-Q4_K_M.gguf"
    " google/gemma-3-4b-it smollm2:360m"
)
NOT_SMALL = (
    "qwen3:8b qwen3-30b-a3b mixtral-8x7b-instruct Qwen2.5-7B-Instruct-1M llama-3.1-70b-4bit"
    " gpt-5-nano moonshot-v1-128k phi-4-mini"
)


def test_recognises_small_models_by_name() -> None:
    for name in SMALL.split():
        assert is_small(name)
        assert OpenAIModel(name, "http://127.0.0.1:9/v1").is_small


def test_other_models_are_not_small() -> None:
    for name in [*NOT_SMALL.split(), ""]:
        assert not is_small(name)
        assert not OpenAIModel(name or None, "http://127.0.0.1:9/v1").is_small


def test_the_first_served_model_decides_the_size_if_none_is_named() -> None:
    with Server(models=["qwen2.5-coder-1.5b"]) as server:
        assert OpenAIModel(None, server.url).is_small, "before anything else was asked"
