"""OpenAI-compatible endpoints, asked over real HTTP."""

from __future__ import annotations

import json
import logging
import math
import re
import socket
import subprocess
import sys
from typing import Any

import pytest

from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.loop.events import AskModel, Delta, Notice, Usage
from archytas_nb.models import endpoint, remote
from archytas_nb.models.choose import served_at
from archytas_nb.models.endpoint import OpenAIModel, key_header
from archytas_nb.models.providers import endpoint_of
from tests.models.talking import HELLO, complete, told
from tests.sampling import alternating
from tests.servers.plays import Drip, Hang, Ping, Raw, Say, Status
from tests.servers.server import Server

pytestmark = pytest.mark.usefixtures("fresh")


TOOLS = ({"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}},)
SCHEMA = {"type": "object"}


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_comes_with_its_text_its_cost_and_its_time(stream: bool) -> None:
    with Server(Say("hello there")) as server:
        seen, reply = complete(told(server, stream=stream))
    assert reply.text == "hello there"
    assert reply.usage == Usage(1, 100, 60, 10)
    assert reply.model == "tiny-1"
    assert reply.seconds > 0
    assert "".join(each.text for each in seen) == ("hello there" if stream else "")


BEGUN = ({"role": "user", "content": "Count."}, {"role": "assistant", "content": "one, "})


@pytest.mark.parametrize(
    ("sent", "stream", "new"),
    [
        ("one, two", False, "two"),  # llama.cpp repeats the beginning in bodies
        ("one, one, two", False, "one, two"),
        ("two", False, "two"),
        ("one, two", True, "one, two"),  # in a stream it is not the beginning
        ("two", True, "two"),
    ],
)
def test_a_continued_reply_is_only_what_is_new(sent: str, stream: bool, new: str) -> None:
    with Server(Say(sent)) as server:
        _, reply = complete(told(server, stream=stream), messages=BEGUN, is_continued=True)
    assert reply.text == new
    assert server.chats[0].body["messages"] == list(BEGUN)


def test_a_reply_to_a_conversation_is_whole_even_if_it_repeats_the_last_message() -> None:
    with Server(Say("one, two")) as server:
        _, reply = complete(told(server, stream=False), messages=BEGUN)
    assert reply.text == "one, two"


def test_sends_the_request_and_nothing_else() -> None:
    with Server() as server:
        complete(told(server, temperature=0), tools=TOOLS, max_tokens=50)
    body = server.chats[0].body
    assert body == {
        "model": "tiny-1",
        "messages": list(HELLO),
        "tools": list(TOOLS),
        "max_tokens": 50,
        "temperature": 0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_without_retries_a_failure_is_final() -> None:
    with Server(then=Status(503)) as server, pytest.raises(ModelError):
        complete(told(server, max_retries=0))
    assert len(server.chats) == 1


@pytest.mark.parametrize(
    ("play", "stream"),
    alternating(
        [Hang(), Say("Three, I think.", stall=True), Drip(), Drip(0.2, 4), Ping()], [True, False]
    ),
)
def test_a_request_ends_at_its_deadline(play: Any, stream: bool) -> None:
    with Server(play, then=Say("fine")) as server:
        model = told(server, stream=stream)
        with pytest.raises(ModelError, match="within the 1 s that were left") as caught:
            complete(model, seconds=1.0)
        assert caught.value.kind == "deadline"
        assert server.url in str(caught.value)
        [asked] = server.received(1)
        assert asked.left.wait(30)
        assert complete(model, seconds=20.0)[1].text == "fine"


def test_no_request_is_sent_after_the_deadline() -> None:
    with Server() as server, pytest.raises(ModelError) as caught:
        complete(told(server), seconds=0.0)
    assert caught.value.kind == "deadline"
    assert server.chats == []


def test_a_retry_after_the_deadline_is_not_attempted() -> None:
    server = Server(then=Status(429, headers={"Retry-After": "30"}))
    with server, pytest.raises(ModelError, match=r"HTTP 429.*Raise max_seconds") as caught:
        complete(told(server), seconds=10.0)
    assert caught.value.kind == "deadline"
    assert len(server.chats) == 1


def test_a_retry_after_a_failure_has_only_the_time_that_is_left() -> None:
    with Server(Status(503), then=Hang()) as server, pytest.raises(ModelError) as caught:
        complete(told(server), seconds=0.5)
    assert caught.value.kind == "deadline"
    assert len(server.chats) == 2


@pytest.mark.parametrize("said", ["", "Half of a sen"])
def test_a_filtered_reply_is_an_error(said: str) -> None:
    play = Say(said, raw=True, finish="content_filter")
    with Server(then=play) as server, pytest.raises(ModelError, match="content filter"):
        complete(told(server))


@pytest.mark.parametrize("stream", [True, False])
def test_a_reply_that_the_server_aborted_is_retried(stream: bool) -> None:
    with Server(Say("Half of a sen", raw=True, finish="error"), then=Say("Whole.")) as server:
        seen, reply = complete(told(server, stream=stream))
    assert reply.text == "Whole."
    [notice] = [each for each in seen if isinstance(each, Notice)]
    assert "aborted the reply: finish_reason is 'error'" in notice.text
    assert "connection was closed" not in notice.text, "it was not"


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("ALL_PROXY", "socks9://127.0.0.1:1"),
        ("HTTPS_PROXY", "bogus://x"),
        ("SSL_CERT_FILE", "/no/such/file.pem"),
    ],
)
def test_an_environment_in_which_no_connection_can_be_made_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    monkeypatch.setenv(name, value)
    model = OpenAIModel("m", "http://elsewhere.invalid/v1")
    with pytest.raises(ConfigurationError, match=f"'http://elsewhere.invalid/v1'.*Check .*{name}"):
        complete(model)


def test_a_connection_that_a_proxy_refuses_names_the_variables_of_proxies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    with socket.socket() as reserved:  # a port at which nothing listens
        reserved.bind(("127.0.0.1", 0))
        monkeypatch.setenv("HTTPS_PROXY", f"http://127.0.0.1:{reserved.getsockname()[1]}")
        model = OpenAIModel("m", "https://elsewhere.invalid/v1", max_retries=0)
        with pytest.raises(ModelError, match=r"HTTPS_PROXY.*NO_PROXY") as failed:
            complete(model)
    assert failed.value.kind == "unreachable"


def test_closing_a_stream_closes_the_connection() -> None:
    class Slow:
        def play(self, exchange: Any) -> None:
            exchange.head(
                200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"}
            )
            exchange.event({"choices": [{"delta": {"content": "first"}}]})
            exchange.wait_for_the_client_to_leave()

    with Server(Slow()) as server:
        flow = told(server).complete(AskModel(1, HELLO))
        assert next(flow) == Delta("text", "first")
        flow.close()
        assert server.chats[0].left.wait(5)


def test_the_first_served_model_is_used_if_none_is_named() -> None:
    with Server(models=["only-one"], then=Say("fine")) as server:
        model = OpenAIModel(base_url=server.url)
        assert model.name == "only-one"
        assert complete(model)[1].model == "only-one"
    assert [asked.method for asked in server.asked] == ["GET", "POST"]


def test_a_server_without_models_is_an_error_with_its_url() -> None:
    for settings, said in [
        ({"models": []}, "serves no model"),
        ({"models": None}, "Not Found"),
        ({"models": None, "elsewhere": Raw("<p>")}, "not a list"),
    ]:
        with Server(**settings) as server:
            with pytest.raises(ModelError, match=said) as caught:
                _ = OpenAIModel(base_url=server.url).name
            assert server.url in str(caught.value)


def test_rejects_an_invalid_url_before_sending() -> None:
    for url in ["localhost:8000/v1", "ftp://host/v1", "http://", "/v1"]:
        with pytest.raises(ConfigurationError, match="expected http://"):
            OpenAIModel("m", url)


def test_rejects_a_key_with_invalid_characters_without_showing_it() -> None:
    for key in ["sk-secret…", "sk secret", "sk-sec\nret", "sk-sécret"]:
        with pytest.raises(ConfigurationError) as caught:
            OpenAIModel("m", "http://127.0.0.1:1/v1", key)
        assert "cret" not in str(caught.value)


def test_secrets_in_a_url_are_not_shown() -> None:
    model = OpenAIModel("m", "http://me:hidden@127.0.0.1:9/v1?key=hidden", max_retries=0)
    with pytest.raises(ModelError) as caught:
        complete(model)
    assert "hidden" not in f"{model!r} {caught.value} {caught.value!r}"
    assert "http://127.0.0.1:9/v1" in str(caught.value)


def test_openai_needs_a_key() -> None:
    with pytest.raises(ConfigurationError, match="Set OPENAI_API_KEY, or OPENAI_BASE_URL"):
        OpenAIModel("gpt-x")


def test_rejects_invalid_limits_by_name() -> None:
    for settings in [
        {"timeout": 0},
        {"timeout": -1},
        {"timeout": "3"},
        {"timeout": math.inf},
        {"timeout": math.nan},
        {"max_retries": -1},
        {"max_retries": 2.5},
        {"max_retries": "3"},
        {"temperature": math.nan},
        {"stop": object()},
    ]:
        [(name, value)] = settings.items()
        with pytest.raises(
            ConfigurationError, match=f"^{name} is {re.escape(repr(value))}; expected"
        ):
            OpenAIModel("m", "http://127.0.0.1:9/v1", **settings)


def test_removes_the_path_of_requests_from_a_url() -> None:
    with Server(then=Say("fine")) as server:
        model = OpenAIModel("tiny-1", f"{server.url}/chat/completions")
        assert complete(model)[1].text == "fine"
    assert server.chats[0].path == "/v1/chat/completions"


def test_models_at_one_endpoint_share_its_connection() -> None:
    with Server() as server:
        for _ in range(3):
            complete(told(server))
        assert len(remote._CLIENTS) == 1


def test_the_key_travels_in_the_header_alone() -> None:
    with Server() as server:
        complete(told(server, api_key=" sk-secret\n"))
    assert server.chats[0].headers["authorization"] == "Bearer sk-secret"
    assert "sk-secret" not in json.dumps(server.chats[0].body)


def test_openai_is_imported_with_the_first_request_only() -> None:
    code = (
        "import sys; from archytas_nb.models.endpoint import OpenAIModel, key_header;"
        "m = OpenAIModel('m', 'http://127.0.0.1:9/v1'); repr(m), m.protocol; sys.exit('openai' in sys.modules)"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


HERE = "http://127.0.0.1:9/v1"


def test_paths_are_appended_before_the_query_of_the_base_url() -> None:
    with Server(models=["tiny-1"], then=Say("fine")) as server:
        url = f"{server.url}?api-version=2024-10-21"
        model = OpenAIModel("tiny-1", url)
        assert complete(model)[1].text == "fine"
        assert model.served() == ["tiny-1"]
        served_at(url, "", 5.0)
    assert [each.path for each in server.asked] == [
        "/v1/chat/completions?api-version=2024-10-21",
        "/v1/models?api-version=2024-10-21",
        "/v1/models?api-version=2024-10-21",
    ]


def test_removes_the_path_of_requests_before_a_query() -> None:
    for url in [
        "https://me.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2024-10-21",
        " https://me.openai.azure.com/openai/deployments/gpt/?api-version=2024-10-21 ",
    ]:
        base_url, query, _ = endpoint_of(url)
        assert base_url == "https://me.openai.azure.com/openai/deployments/gpt"
        assert query == {"api-version": "2024-10-21"}


def test_headers_and_query_of_the_user_are_sent_with_every_request() -> None:
    with Server(models=["tiny-1"], then=Say("fine")) as server:
        model = told(
            server, headers={"X-Team": "data"}, query={"api-version": "v1"}, api_key="sk-key"
        )
        complete(model)
        model.served()
        complete(told(server, api_key="sk-key"))
    both = [(each.headers.get("x-team"), each.path.partition("?")[2]) for each in server.asked]
    assert both == [("data", "api-version=v1"), ("data", "api-version=v1"), (None, "")]
    assert {each.headers["authorization"] for each in server.asked} == {"Bearer sk-key"}


def test_a_users_authorization_header_overrides_the_key() -> None:
    with Server(then=Say("fine")) as server:
        complete(told(server, headers={"authorization": "Token abc"}, api_key="sk-key"))
    assert server.chats[0].headers["authorization"] == "Token abc"


def test_azure_receives_the_key_as_api_key_header(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("archytas_nb.models.endpoint.key_header", lambda _, key: {"api-key": key})
    with Server(then=Say("fine")) as server:
        complete(told(server, api_key="abc123"))
    headers = server.chats[0].headers
    assert headers["api-key"] == "abc123"
    assert "authorization" not in headers


def test_the_header_of_a_key_depends_on_the_host() -> None:
    for url, key, name in [
        ("https://me.openai.azure.com/openai/v1", "abc", "api-key"),
        ("https://me.services.ai.azure.com/openai/v1", "abc", "api-key"),
        ("https://me.openai.azure.com/openai/v1", "head.body.signature", "Authorization"),
        ("https://azure.example/v1", "abc", "Authorization"),
        (HERE, "abc", "Authorization"),
    ]:
        [(header, value)] = key_header(url, key).items()
        assert header == name
        assert key in value


def test_headers_and_query_that_cannot_be_sent_are_refused_without_their_value() -> None:
    for given in [{"X-Team": 3}, {"X-Team": "a\nb"}, {"X-Té": "a"}, {3: "a"}]:
        for option in ["headers", "query"]:
            with pytest.raises(ConfigurationError, match=f"^{option} contains .*expected"):
                OpenAIModel("m", HERE, **{option: given})


def test_secret_headers_are_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "token-0123456789abcdef"
    with Server(then=Status(400, f"what is {secret}?")) as server:
        model = told(server, headers={"X-Token": secret})
        with pytest.raises(ModelError) as caught:
            complete(model)
    assert secret not in f"{model!r} {caught.value} {caught.value!r}"


def test_rejects_an_option_of_another_client() -> None:
    for value in ["text", object()]:
        for name in ["default_headers", "azure_endpoint", "http_client"]:
            with pytest.raises(
                ConfigurationError, match=f"^'{name}' is not a request field.*headers="
            ):
                OpenAIModel("m", HERE, **{name: value})


def test_fields_in_one_argument_are_refused_with_the_way_to_write_them() -> None:
    with pytest.raises(ConfigurationError, match="such as temperature=0"):
        OpenAIModel("m", HERE, request={"temperature": 0})


KEY = "sk-do-not-log-0123456789"
ASK = AskModel(1, ({"role": "user", "content": "the secret of the abbey"},))


def ask(server: Server) -> None:
    url = server.url.replace("//", "//me:hidden@")
    try:
        list(OpenAIModel("tiny-1", url, KEY, max_retries=0).complete(ASK))
    finally:
        endpoint.close_clients(url)


def test_logs_contain_no_key_credentials_or_conversation(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level(1)
    with Server(Say("fine"), then=Status(401, f"bad key {KEY}")) as server:
        ask(server)
        with pytest.raises(ModelError):
            ask(server)
    said = "\n".join(record.getMessage() for record in caplog.records)
    assert KEY not in said
    assert not any(each.name.startswith("archytas_nb") for each in caplog.records)


def test_prints_nothing_without_a_log_handler() -> None:
    code = (
        "from archytas_nb.errors import ModelError\n"
        "from archytas_nb.models.endpoint import OpenAIModel, key_header\n"
        "from archytas_nb.loop.events import AskModel\n"
        "try:\n"
        "    model = OpenAIModel('m', 'http://127.0.0.1:9/v1', max_retries=0)\n"
        "    list(model.complete(AskModel(1, ({'role': 'user'},))))\n"
        "except ModelError:\n"
        "    pass\n"
    )
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert (run.stdout, run.stderr) == ("", "")
