"""``%config ArchytasNB.request``: further fields of the requests."""

from __future__ import annotations

from typing import Any

import pytest
from IPython.core.error import UsageError
from traitlets import TraitError

from archytas_nb.magics.agent import make_model, model_settings
from archytas_nb.magics.settings import Settings
from tests.models.talking import complete
from tests.servers.plays import Say
from tests.servers.server import Server


def configured(server: Server, **more: Any) -> Settings:
    return Settings(base_url=server.url, model="tiny-1", **more)


def test_the_fields_are_sent_with_each_request_and_headers_and_query_as_such() -> None:
    request = {"temperature": 0, "headers": {"X-Team": "data"}, "query": {"api-version": "v1"}}
    with Server(then=Say("fine")) as server:
        complete(make_model(None, model_settings(configured(server, request=request))))
    [asked] = server.chats
    assert asked.body["temperature"] == 0
    assert asked.headers["x-team"] == "data"
    assert asked.path.endswith("?api-version=v1")
    assert not {"headers", "query"} & asked.body.keys()


def test_a_change_inside_of_the_dict_makes_another_model() -> None:
    with Server() as server:
        settings = configured(server, request={"seed": 1})
        before = model_settings(settings)
        settings.request["seed"] = 2
        assert model_settings(settings) != before
        assert make_model(None, model_settings(settings)).request == {"seed": 2}


def test_the_environment_gives_it_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ARCHYTAS_NB_REQUEST", '{"temperature": 0}')
    assert Settings().request == {"temperature": 0}
    monkeypatch.setenv("ARCHYTAS_NB_REQUEST", "temperature=0")
    with pytest.raises(UsageError, match="ARCHYTAS_NB_REQUEST is 'temperature=0'"):
        _ = Settings().request


@pytest.mark.parametrize(
    ("value", "said"),
    [("x", "a dict"), ({1: 2}, "a dict"), ({"timeout": 3}, "ArchytasNB.timeout"), ({"model": "m"}, "model"),
     ({"stop": object()}, "JSON"), ({"default_headers": {}}, "headers=")],
)  # fmt: skip
def test_what_cannot_be_sent_is_refused_when_it_is_set(value: Any, said: str) -> None:
    settings = Settings()
    with pytest.raises(TraitError, match=said):
        settings.request = value
    assert settings.request == {}
