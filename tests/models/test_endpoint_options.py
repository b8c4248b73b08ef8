"""Headers, queries and fields that a user adds to the requests; Azure's address and key."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.models.address import key_header, usable_url, without_query
from archytas_nb.models.listing import served_at
from archytas_nb.models.openai_chat import OpenAIModel
from tests.models.talking import complete, told
from tests.servers.plays import Say, Status
from tests.servers.server import Server

pytestmark = pytest.mark.usefixtures("fresh")
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


@pytest.mark.parametrize(
    "url",
    ["https://me.openai.azure.com/openai/deployments/gpt/chat/completions?api-version=2024-10-21",
     " https://me.openai.azure.com/openai/deployments/gpt/?api-version=2024-10-21 "],
)  # fmt: skip
def test_a_url_with_a_query_is_cut_where_the_api_begins(url: str) -> None:
    base_url, query = without_query(usable_url(url))
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


def test_an_authorization_of_the_users_own_wins() -> None:
    with Server(then=Say("fine")) as server:
        complete(told(server, headers={"authorization": "Token abc"}, api_key="sk-key"))
    assert server.chats[0].headers["authorization"] == "Token abc"


def test_azure_gets_its_key_in_a_header_of_its_own_and_no_bearer(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(
        "archytas_nb.models.openai_chat.key_header", lambda _, key: {"api-key": key}
    )
    with Server(then=Say("fine")) as server:
        complete(told(server, api_key="abc123"))
    headers = server.chats[0].headers
    assert headers["api-key"] == "abc123"
    assert "authorization" not in headers


@pytest.mark.parametrize(
    ("url", "key", "name"),
    [("https://me.openai.azure.com/openai/v1", "abc", "api-key"),
     ("https://me.services.ai.azure.com/openai/v1", "abc", "api-key"),
     ("https://me.openai.azure.com/openai/v1", "head.body.signature", "Authorization"),
     ("https://azure.example/v1", "abc", "Authorization"), (HERE, "abc", "Authorization")],
)  # fmt: skip
def test_the_header_of_a_key_depends_on_the_host(url: str, key: str, name: str) -> None:
    [(header, value)] = key_header(url, key).items()
    assert header == name
    assert key in value


@pytest.mark.parametrize("option", ["headers", "query"])
@pytest.mark.parametrize("given", [{"X-Team": 3}, {"X-Team": "a\nb"}, {"X-Té": "a"}, {3: "a"}])
def test_headers_and_query_that_cannot_be_sent_are_refused_without_their_value(
    option: str, given: Any
) -> None:
    with pytest.raises(ConfigurationError, match=f"^{option} holds .*expected"):
        OpenAIModel("m", HERE, **{option: given})


def test_secret_headers_are_shown_nowhere(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    secret = "token-0123456789abcdef"
    with Server(then=Status(400, f"what is {secret}?")) as server:
        model = told(server, headers={"X-Token": secret})
        with pytest.raises(ModelError) as caught:
            complete(model)
    assert secret not in f"{model!r} {caught.value} {caught.value!r}"


@pytest.mark.parametrize(
    ("name", "meant"),
    [("default_headers", "headers"), ("extra_headers", "headers"), ("organization", "headers"),
     ("default_query", "query"), ("api_version", "query"), ("azure_endpoint", "base_url"),
     ("http_client", "HTTPS_PROXY"), ("extra_body", "each of its fields"), ("messages", "agent.run"),
     ("tools", "Agent")],
)  # fmt: skip
@pytest.mark.parametrize("value", ["text", object()])
def test_options_of_a_client_are_refused_with_the_argument_that_is_meant(
    name: str, meant: str, value: Any
) -> None:
    with pytest.raises(ConfigurationError, match=f"^'{name}' is .*use .*{meant}"):
        OpenAIModel("m", HERE, **{name: value})
