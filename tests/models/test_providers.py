"""Prefixes of model names: providers that are built in, and entry points of packages."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from archytas_nb import command
from archytas_nb.agent import Agent
from archytas_nb.errors import ConfigurationError, ModelError
from archytas_nb.models.choose import ModelSettings, choose_model
from archytas_nb.models.providers import prefixes
from archytas_nb.models.published import PROVIDERS, Provider
from tests.servers.plays import Say, Status
from tests.servers.server import Server

HERE, THERE = "http://127.0.0.1:1/v1", "http://127.0.0.1:2/v1"
VARIABLES = (
    "ARCHYTAS_NB_MODEL", "OPENAI_BASE_URL", "ANTHROPIC_BASE_URL",
    *filter(None, (each.key_name for each in PROVIDERS.values())),
)  # fmt: skip


@pytest.fixture(autouse=True)
def environ(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    return monkeypatch


@pytest.mark.parametrize("prefix", sorted(PROVIDERS))
def test_a_prefix_selects_the_endpoint_and_its_key(
    environ: pytest.MonkeyPatch, prefix: str
) -> None:
    provider, name = PROVIDERS[prefix], f"{prefix}:a/big:8b"
    environ.setenv("OPENAI_BASE_URL", HERE)  # the set endpoint and its key stay its own
    environ.setenv("OPENAI_API_KEY", "sk-set")
    settings = ModelSettings(api_key="sk-config", timeout=7.0)
    if provider.key_name not in ("", "OPENAI_API_KEY"):
        with pytest.raises(ConfigurationError, match=f"{provider.key_name} is not set"):
            choose_model(name, settings)
    if provider.key_name:
        environ.setenv(provider.key_name, f"sk-{prefix}")
    environ.setenv("ARCHYTAS_NB_MODEL", name)
    for given, chosen in [(name, settings), (None, ModelSettings(name)), (None, None)]:
        model = choose_model(given, chosen)
        assert (model.name, model.base_url) == ("a/big:8b", provider.base_url)
        assert model._key == (f"sk-{prefix}" if provider.key_name else "none")
    kind = "AnthropicModel" if prefix == "anthropic" else "OpenAIModel"
    assert type(model).__name__ == kind


def test_a_rejected_key_of_a_provider_is_named(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("GROQ_API_KEY", "sk-groq")
    with Server(then=Status(401, "no")) as server:
        environ.setitem(PROVIDERS, "groq", Provider(server.url, "GROQ_API_KEY"))
        with pytest.raises(ModelError, match=r"Set GROQ_API_KEY to a key"):
            Agent([], "groq:tiny-1", namespace={}).run("Well?")
    assert server.chats[0].headers["authorization"] == "Bearer sk-groq"


def test_an_unreachable_server_of_a_prefix_is_named(
    environ: pytest.MonkeyPatch,
) -> None:
    environ.setitem(PROVIDERS, "ollama", Provider(HERE))
    model = choose_model("ollama:tiny-1", ModelSettings(max_retries=0))
    with pytest.raises(ModelError, match=r"Start it\..*without 'ollama:'"):
        Agent([], model, namespace={}).run("Well?")


def test_a_configured_key_is_for_the_configured_endpoint(environ: pytest.MonkeyPatch) -> None:
    key = ModelSettings(api_key="sk-config")
    assert choose_model("openai:gpt-5", key)._key == "sk-config"
    environ.setenv("OPENAI_API_KEY", "sk-openai")
    there = ModelSettings(base_url=THERE, api_key="sk-config")
    assert choose_model("openai:gpt-5", there)._key == "sk-openai"
    groq = ModelSettings(base_url="https://api.groq.com/openai/v1/", api_key="sk-config")
    assert choose_model("groq:llama", groq)._key == "sk-config"


def test_a_colon_without_a_provider_belongs_to_the_name(environ: pytest.MonkeyPatch) -> None:
    environ.setenv("OPENAI_BASE_URL", HERE)
    for name in ["qwen3:8b", "hf.co/a/b:Q4", ":x", "a b:c"]:
        model = choose_model(name)
        assert (model.name, model.base_url) == (name, HERE)
    environ.delenv("OPENAI_BASE_URL")
    for name, meant in (
        ("gropq:llama", "groq:llama"),
        ("openai/gpt-5", "openai:gpt-5"),
        ("llama3.2:1b", "ollama:llama3.2:1b"),
        ("claude-sonnet-4-6", "anthropic:claude-sonnet-4-6"),
        ("locl", "local"),
    ):
        with pytest.raises(ConfigurationError, match=rf"Did you mean '{meant}'\?"):
            choose_model(name, ModelSettings(discover=False))
    environ.setenv("GROQ_API_KEY", "sk é")
    with pytest.raises(ConfigurationError, match="into GROQ_API_KEY"):
        choose_model("groq:big")


def test_a_prefix_alone_means_the_default_or_first_model(environ: pytest.MonkeyPatch) -> None:
    for prefix, provider in PROVIDERS.items():
        if provider.key_name:
            with pytest.raises(ConfigurationError, match=f"'{prefix}:' needs an API key"):
                choose_model(f"{prefix}:")
            environ.setenv(provider.key_name, f"sk-{prefix}-0123")
        if provider.defaults:
            assert choose_model(f"{prefix}:").name == provider.defaults[0]
    with Server(models=["only-1"]) as server:
        environ.setitem(PROVIDERS, "ollama", Provider(server.url))
        assert choose_model("ollama:").name == "only-1"


class Installed:
    """Packages with entry points."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def add(self, package: str, code: str, name: str) -> None:
        (self._path / f"{package}.py").write_text(code)
        info = self._path / f"{package}-1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
        text = f"[archytas_nb.models]\n{name} = {package}:make\n"
        (info / "entry_points.txt").write_text(text)
        importlib.invalidate_caches()


@pytest.fixture
def installed(tmp_path: Path, environ: pytest.MonkeyPatch) -> Installed:
    environ.syspath_prepend(str(tmp_path))
    return Installed(tmp_path)


SCRIPTED = (
    "from archytas_nb.testing import ScriptedModel\n"
    "def make(name):\n    return ScriptedModel(('final_answer', f'I am {name}.'))\n"
)


def test_a_package_adds_a_prefix_with_an_entry_point(installed: Installed) -> None:
    installed.add("cloud_models", SCRIPTED, "my-cloud")
    assert Agent([], "my-cloud:big:8b", namespace={}).run("Well?").answer == "I am big:8b."
    assert prefixes() == [*(f"{prefix}:" for prefix in PROVIDERS), "my-cloud:"]


def test_an_entry_point_that_cannot_be_used_names_its_package(installed: Installed) -> None:
    fails = "def make(name):\n    raise RuntimeError('no licence')\n"
    installed.add("broken_import", "import no_such_module_at_all\n", "broken1")
    installed.add("broken_make", fails, "broken2")
    installed.add("broken_model", "def make(name):\n    return 3\n", "broken3")
    installed.add("twice_a", "make = print\n", "twice")
    installed.add("twice_b", "make = print\n", "twice")
    for name, package, why in [
        ("broken1:x", "broken_import", "no_such_module_at_all"),
        ("broken2:x", "broken_make", "no licence"),
        ("broken3:x", "broken_model", "expected an object with name, protocol and complete"),
        ("twice:x", "twice_b", "add the same prefix"),
    ]:
        with pytest.raises(ConfigurationError, match=re.escape(why)) as caught:
            choose_model(name)
        assert repr(package) in str(caught.value)


def test_built_in_prefixes_take_precedence(
    installed: Installed, environ: pytest.MonkeyPatch
) -> None:
    installed.add("other_groq", "make = print\n", "groq")
    environ.setenv("GROQ_API_KEY", "sk-groq")
    assert choose_model("groq:llama").base_url == PROVIDERS["groq"].base_url


def test_doctor_says_which_model_a_prefix_names(
    installed: Installed, environ: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environ.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    environ.setenv("ARCHYTAS_NB_MODEL", "gemini:flash")
    text, is_ready = command.report()
    assert not is_ready
    assert "GEMINI_API_KEY is not set" in text
    environ.setenv("GEMINI_API_KEY", "sk-gemini-0123456789")
    with Server(models=["flash"], then=Say("Yes.", raw=True)) as server:
        environ.setitem(PROVIDERS, "gemini", Provider(server.url, "GEMINI_API_KEY"))
        text, is_ready = command.report()
    assert is_ready
    assert f"'flash' at '{server.url}' is available" in text
    assert "GEMINI_API_KEY = (set, not shown)" in text
    assert "sk-gemini" not in text
    installed.add("more_models", SCRIPTED, "more")
    with pytest.raises(ConfigurationError, match="'more:MODEL'"):
        choose_model("more:")
    environ.setenv("ARCHYTAS_NB_MODEL", "more:x")
    text, is_ready = command.report()
    assert is_ready
    assert "a ScriptedModel" in text
