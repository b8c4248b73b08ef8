"""Settings: precedence of flag, %config, environment and default; a wrong value is one line."""

from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell
from traitlets import TraitError
from traitlets.config import Config

from archytas_nb.agent import Agent
from archytas_nb.cassettes.switch import recorded
from archytas_nb.magics.settings import SettingTraits, model_settings
from archytas_nb.models.endpoint import OpenAIModel
from archytas_nb.models.published import PROVIDERS, Provider
from archytas_nb.testing import ScriptedModel
from tests.servers.plays import Say
from tests.servers.server import Server


def test_a_set_value_precedes_the_environment_and_that_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = SettingTraits()
    assert settings.max_steps == 20
    monkeypatch.setenv("ARCHYTAS_NB_MAX_STEPS", "7")
    assert settings.max_steps == 7
    settings.max_steps = 20  # the default, but set
    assert settings.max_steps == 20
    assert SettingTraits(config=Config({"SettingTraits": {"max_steps": 9}})).max_steps == 9


def test_the_environment_sets_every_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text, value in (
        ("model", "qwen3:8b", "qwen3:8b"), ("api_key", "sk-secret", "sk-secret"),
        ("protocol", "react", "react"), ("tools", "a, b*", ["a", "b*"]), ("max_errors", "2", 2),
        ("max_seconds", "1.5", 1.5), ("max_total_tokens", "None", None), ("quiet", "true", True),
        ("discover", "off", False), ("warm", "0", False), ("request", '{"temperature": 0}', {"temperature": 0}),
    ):  # fmt: skip
        monkeypatch.setenv(f"ARCHYTAS_NB_{name.upper()}", text)
        assert getattr(SettingTraits(), name) == value


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("max_steps", "many", "'many' is not a whole number of at least 1"),
        ("approve", "maybe", "'maybe' is unknown; expected one of ask, auto, deny$"),
        ("max_seconds", "-1", "'-1' is not a number of at least"),
        ("request", "temperature=0", "the value is not a JSON object"),
    ],
)
def test_a_wrong_environment_variable_is_named(
    monkeypatch: pytest.MonkeyPatch, name: str, text: str, said: str
) -> None:
    variable = f"ARCHYTAS_NB_{name.upper()}"
    monkeypatch.setenv(variable, text)
    with pytest.raises(UsageError, match=f"{variable}: {said}") as error:
        getattr(SettingTraits(), name)
    assert "\n" not in str(error.value)


def test_a_wrong_value_is_refused_in_one_line_and_the_old_one_stays() -> None:
    settings = SettingTraits()
    for name, value, said in (
        ("max_steps", 0, "should not be less than 1"),
        ("max_steps", "many", "expected an int"),
        ("max_steps", True, "expected an int"),
        ("max_retries", -1, "should not be less than 0"),
        ("max_seconds", 0, "should not be less than"),
        ("approve", "maybe", "expected any of"),
        ("tools", 3, "expected a list"),
        ("tools", [3], "expected a unicode string"),
        ("quiet", 3, "expected a boolean"),
        ("model", 3, "expected a unicode string"),
        ("request", "x", "expected a dict"),
        ("request", {"timeout": 3}, "ArchytasNB.timeout"),
        ("request", {"stop": object()}, "JSON"),
        ("request", {"default_headers": {}}, "headers="),
    ):
        before = getattr(settings, name)
        with pytest.raises(TraitError, match=said) as error:
            setattr(settings, name, value)
        assert "\n" not in str(error.value)
        assert getattr(settings, name) == before


def test_a_key_is_not_shown_even_where_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    settings = SettingTraits(config=Config({"SettingTraits": {"api_key": "sk-secret"}}))
    with pytest.raises(TraitError) as error:
        settings.api_key = ["sk-secret"]
    assert "secret" not in str(error.value)
    for _ in range(2):
        assert settings.api_key == "sk-secret"
        assert "secret" not in repr(settings.api_key) + SettingTraits.class_get_help(settings)
        monkeypatch.setenv("ARCHYTAS_NB_API_KEY", "sk-secret")
        settings = SettingTraits()


def test_config_shows_the_kind_of_each_setting(
    shell: InteractiveShell, capsys: pytest.CaptureFixture[str]
) -> None:
    shell.run_line_magic("config", "ArchytasNB")
    shown = capsys.readouterr().out
    for part in (
        "ArchytasNB.max_steps=<Int>", "ArchytasNB.model=<Unicode>", "ArchytasNB.quiet=<Bool>",
        "ArchytasNB.approve=<Enum>", "ArchytasNB.api_key=<Secret>", "Choices: any of",
        "ArchytasNB.max_seconds=<Float>",
    ):  # fmt: skip
        assert part in shown
    assert "Setting" not in shown.partition("\n")[2]


def test_names_may_be_a_text_and_a_limit_may_be_none() -> None:
    settings = SettingTraits()
    for value, kept in (("one, two", ["one", "two"]), (["three"], ["three"])):
        settings.allow = value
        assert settings.allow == kept
    settings.max_seconds = None
    assert settings.max_seconds is None


def test_fields_of_requests_are_sent_and_headers_too() -> None:
    settings = SettingTraits()
    with Server(Say("Fine.")) as server:
        settings.base_url, settings.api_key = server.url, "sk-1"
        settings.request = {"temperature": 0, "headers": {"x-team": "birds"}}
        model: Any = recorded("tiny-1", model_settings(settings))
        Agent([], model).run("Well?")
    assert server.chats[0].body["temperature"] == 0
    assert server.chats[0].headers["x-team"] == "birds"


def test_the_api_and_the_effort_are_settings_and_the_effort_an_option(
    shell: InteractiveShell, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Server(apis=("chat", "responses"), then=Say("All is well.")) as server:
        monkeypatch.setenv("ARCHYTAS_NB_BASE_URL", server.url)
        monkeypatch.setenv("ARCHYTAS_NB_API_KEY", "sk-1")
        shell.run_cell("%agent --model tiny-1 --effort high Well?")
        shell.run_cell("%config ArchytasNB.api = 'responses'")
        shell.run_cell("%config ArchytasNB.effort = 'low'")
        shell.run_cell("%agent --model tiny-1 Well?")
        shell.run_cell("%agent --model tiny-1 --effort max Well?")
        shell.run_cell("%agent --model tiny-1 --effort extreme Well?")
        chat, *others = [each.body for each in server.chats]
    assert chat["reasoning_effort"] == "high"
    assert [each["reasoning"]["effort"] for each in others] == ["low", "max"]
    shell.user_ns["held"] = OpenAIModel("tiny-1", server.url)
    with pytest.raises(UsageError, match="effort='low'"):
        shell.run_line_magic("agent", "--model held --effort low Well?")
    with pytest.raises(UsageError, match="not for the embedded model"):
        shell.run_line_magic("agent", "--model local --effort low Well?")


def test_a_prefix_of_the_models_name_works_in_a_line_and_in_the_configuration(
    shell: InteractiveShell, capfd: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GROQ_API_KEY", "sk-groq-0123456789")
    with Server(then=Say("All is well.")) as server:
        monkeypatch.setitem(PROVIDERS, "groq", Provider(server.url, "GROQ_API_KEY"))
        shell.run_cell("%agent --model groq:tiny-1 Well?")
        shell.run_cell("%config ArchytasNB.model = 'groq:tiny-1'")
        shell.run_cell("%agent And now?")
        shell.run_cell("%agent --model gemini:flash And now?")
    assert len(server.chats) == 2
    printed = "".join(capfd.readouterr())
    assert "GEMINI_API_KEY is not set" in printed
    assert "sk-groq" not in printed


def test_code_of_a_model_changes_no_setting_by_config(shell: InteractiveShell) -> None:
    """It could let its own next calls run unasked; the person's change holds."""
    code = "get_ipython().run_line_magic('config', \"ArchytasNB.approve = 'auto'\")"
    shell.user_ns["m"] = ScriptedModel(("python", {"code": code}), ("final_answer", "Done."))
    shell.run_cell("%agent --new --model m --python unwatched Go").raise_error()
    magics = shell.find_line_magic("agent").__self__
    assert magics.approve == "ask"
    shell.run_cell("%config ArchytasNB.approve = 'auto'").raise_error()
    assert magics.approve == "auto"
    shell.run_cell("%config ArchytasNB.approve = 'ask'").raise_error()
