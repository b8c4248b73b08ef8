"""Settings: flag, %config, environment, default; and errors that fit on a line."""

import inspect

import pytest
from IPython.core.error import UsageError
from traitlets import TraitError
from traitlets.config import Config

from archytas_nb.agent import Agent
from archytas_nb.magics.options import REPORTS
from archytas_nb.magics.settings import Settings


def test_a_given_value_wins_over_the_environment_and_that_over_the_default(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings()
    assert settings.max_steps == 20
    monkeypatch.setenv("ARCHYTAS_NB_MAX_STEPS", "7")
    assert settings.max_steps == 7
    settings.max_steps = 20  # the default, but given
    assert settings.max_steps == 20
    assert Settings(config=Config({"Settings": {"max_steps": 9}})).max_steps == 9


@pytest.mark.parametrize(
    ("name", "said", "value"),
    [
        ("model", "qwen3:8b", "qwen3:8b"),
        ("base_url", "http://127.0.0.1:9/v1", "http://127.0.0.1:9/v1"),
        ("api_key", "sk-secret", "sk-secret"),
        ("protocol", "react", "react"),
        ("tools", "a, b*", ["a", "b*"]),
        ("allow", "send", ["send"]),
        ("approve", "deny", "deny"),
        ("ask_user", "off", "off"),
        ("max_errors", "2", 2),
        ("max_retries", "0", 0),
        ("max_seconds", "1.5", 1.5),
        ("max_total_tokens", "100", 100),
        ("max_reply_tokens", "100", 100),
        ("max_reply_tokens", "None", None),
        ("quiet", "true", True),
        ("discover", "off", False),
        ("cassette_mode", "off", "off"),
    ],
)
def test_the_environment_sets_every_kind(
    monkeypatch: pytest.MonkeyPatch, name: str, said: str, value: object
) -> None:
    monkeypatch.setenv(f"ARCHYTAS_NB_{name.upper()}", said)
    assert getattr(Settings(), name) == value


@pytest.mark.parametrize(
    ("name", "said"),
    [("max_steps", "many"), ("approve", "maybe"), ("quiet", "perhaps"), ("max_seconds", "-1")],
)
def test_a_variable_that_makes_no_sense_is_named_with_what_was_expected(
    monkeypatch: pytest.MonkeyPatch, name: str, said: str
) -> None:
    variable = f"ARCHYTAS_NB_{name.upper()}"
    monkeypatch.setenv(variable, said)
    with pytest.raises(
        UsageError, match=f"{variable} is '{said}' in the environment; expected "
    ) as error:
        getattr(Settings(), name)
    assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("max_steps", 0, "max_steps is 0; expected a whole number of at least 1"),
        ("max_steps", True, "max_steps is True; expected a whole number"),
        ("max_steps", "many", "max_steps is 'many'; expected a whole number"),
        ("max_retries", -1, "of at least 0"),
        ("max_seconds", 0, "expected seconds, a number above 0"),
        ("max_seconds", float("nan"), "expected seconds"),
        ("approve", "maybe", "approve is 'maybe'; expected 'ask' or 'auto' or 'deny'"),
        ("tools", 3, "tools is 3; expected a list of names or 'one,two'"),
        ("tools", [3], "expected a list of names"),
        ("quiet", 3, "quiet is 3; expected True or False"),
        ("model", 3, "model is 3; expected a text"),
    ],
)
def test_a_value_that_makes_no_sense_is_refused_in_one_line(
    name: str, value: object, said: str
) -> None:
    with pytest.raises(TraitError, match=said) as error:
        setattr(Settings(), name, value)
    assert "\n" not in str(error.value)


def test_a_key_is_shown_nowhere_not_even_where_it_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    settings = Settings(config=Config({"Settings": {"api_key": "sk-secret"}}))
    assert settings.api_key == "sk-secret"
    assert "secret" not in repr(settings.api_key) + Settings.class_get_help(settings)
    with pytest.raises(TraitError) as error:
        settings.api_key = ["sk-secret"]
    assert "secret" not in str(error.value)
    monkeypatch.setenv("ARCHYTAS_NB_API_KEY", "sk-secret")
    settings = Settings()
    assert settings.api_key == "sk-secret"
    assert "secret" not in repr(settings.api_key) + Settings.class_get_help(settings)


def test_names_may_be_a_list_or_a_text_and_a_limit_may_be_none() -> None:
    settings = Settings()
    settings.allow = "one, two"
    assert settings.allow == ["one", "two"]
    settings.allow = ["three"]
    assert settings.allow == ["three"]
    settings.max_seconds = None
    assert settings.max_seconds is None


def test_defaults_are_those_of_an_agent() -> None:
    agent = inspect.signature(Agent).parameters
    settings = Settings()
    for name in (
        "protocol",
        "max_steps",
        "max_errors",
        "max_seconds",
        "max_total_tokens",
        "max_reply_tokens",
    ):
        assert getattr(settings, name) == agent[name].default


def test_every_setting_has_help_and_every_lasting_option_a_setting() -> None:
    from archytas_nb.magics.agent import ArchytasNB

    traits = Settings.class_own_traits(config=True)
    assert all(len(trait.help) > 10 for trait in traits.values())
    once = {*REPORTS, "help", "new", "dry_run", "out", "type", "until", "image", "raw"}
    flags = {action.dest for action in ArchytasNB.agent.parser._actions} - once
    assert flags <= set(traits)
