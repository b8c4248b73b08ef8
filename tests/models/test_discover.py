"""Which model answers: flag, configuration, environment, this machine."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from archytas_nb.agent import Agent
from archytas_nb.errors import ConfigurationError
from archytas_nb.models.discover import ModelSettings, choose_model
from archytas_nb.models.embedded import EmbeddedModel
from archytas_nb.models.openai_chat import OpenAIModel

HERE, THERE = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"
VARIABLES = ("ARCHYTAS_NB_MODEL", "ARCHYTAS_NB_LOCAL_MODEL", "OPENAI_BASE_URL", "OPENAI_API_KEY")


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch  # type: ignore[return-value]


def test_with_nothing_said_this_machine_answers() -> None:
    assert isinstance(choose_model(), EmbeddedModel)


def test_a_key_alone_means_openai(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("OPENAI_API_KEY", "sk-x")
    model = choose_model()
    assert isinstance(model, OpenAIModel)
    assert model.base_url == "https://api.openai.com/v1"
    assert model.name == "gpt-4.1-mini"


def test_a_url_alone_means_that_endpoint(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("OPENAI_BASE_URL", HERE)
    assert choose_model("m").base_url == HERE


def test_the_flag_wins_over_the_configuration_and_that_over_the_environment(
    environ: pytest.MonkeyPatch,
) -> None:
    environ.setenv("OPENAI_BASE_URL", HERE)
    environ.setenv("ARCHYTAS_NB_MODEL", "from-the-environment")
    assert choose_model().name == "from-the-environment"
    assert choose_model(settings=ModelSettings(model="configured")).name == "configured"
    assert choose_model("flagged", ModelSettings(model="configured")).name == "flagged"
    assert choose_model("m", ModelSettings(base_url=THERE)).base_url == THERE


@pytest.mark.parametrize("name", ["local", None])
def test_local_means_this_machine_whatever_the_environment_says(
    environ: pytest.MonkeyPatch, name: Any
) -> None:
    environ.setenv("OPENAI_BASE_URL", HERE)
    environ.setenv("ARCHYTAS_NB_MODEL", "local")
    assert isinstance(choose_model(name), EmbeddedModel)


def test_an_empty_variable_is_none(environ: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        environ.setenv(name, "")
    assert isinstance(choose_model(), EmbeddedModel)


def test_a_name_without_an_endpoint_is_refused_with_the_next_move() -> None:
    with pytest.raises(
        ConfigurationError,
        match=r"'gpt-x' needs an endpoint.*Set OPENAI_API_KEY or OPENAI_BASE_URL",
    ):
        choose_model("gpt-x")


def test_a_configured_gguf_is_the_model_of_this_machine(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("ARCHYTAS_NB_LOCAL_MODEL", "/models/one.gguf")
    assert choose_model().name == "one"
    assert choose_model(settings=ModelSettings(local_model="/models/two.gguf")).name == "two"


def test_bounds_reach_the_model() -> None:
    model = choose_model("m", ModelSettings(base_url=HERE, timeout=7, max_retries=1))
    assert (model.timeout, model.max_retries) == (7, 1)


@pytest.mark.parametrize("model", [5, 1.5, object(), ["gpt-x"], b"gpt-x", True, OpenAIModel])
def test_what_is_no_model_is_refused_with_what_was_expected(model: Any) -> None:
    said = r"expected a model's name, an OpenAIModel, or an object with"
    with pytest.raises(ConfigurationError, match=said):
        choose_model(model)
    with pytest.raises(ConfigurationError, match=said):
        Agent([], model, namespace={}).run("Is anybody there?")


def test_what_is_a_model_is_taken_as_it_is() -> None:
    model = EmbeddedModel()
    assert choose_model(model) is model
