"""Secrets never enter a cassette, and a replay still fits."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import archytas_nb as nb
from archytas_nb.cassettes import scrub
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.model import CassetteModel
from archytas_nb.cassettes.scrub import Scrubber
from archytas_nb.errors import ConfigurationError
from archytas_nb.testing import ScriptedModel
from tests.cassettes.tapes import ask, no_model

KEY = "sk-live-4242424242"


@pytest.fixture(autouse=True)
def no_functions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(scrub, "_functions", [])
    return iter(())


def names_customers(text: str) -> str:
    return re.sub(r"customer-\d+", "customer-0", text)


def test_a_key_of_the_environment_never_enters_a_cassette(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEATHER_API_KEY", KEY)

    def show_environment() -> str:
        """Show the environment."""
        return f"WEATHER_API_KEY={KEY}"

    path = tmp_path / "x.jsonl"
    live = ScriptedModel(
        (f"I saw {KEY}", "show_environment", None), ("final_answer", f"The key is {KEY}.")
    )
    model = CassetteModel(Cassette(path, "record"), lambda: live)
    run = nb.Agent([show_environment], model=model, namespace={}).run(f"Is {KEY} my key?")
    assert run.answer == f"The key is {KEY}."
    text = path.read_text("utf-8")
    assert KEY not in text
    assert text.count("{WEATHER_API_KEY}") >= 4
    again = nb.Agent(
        [show_environment], model=CassetteModel(Cassette(path, "replay"), no_model), namespace={}
    )
    assert again.run(f"Is {KEY} my key?").answer == "The key is {WEATHER_API_KEY}."


@pytest.mark.parametrize(
    "name", ["PGPASSWORD", "SSH_PASSPHRASE", "OPENAI_APIKEY", "key", "APP_SECRET", "HF_TOKEN"]
)
def test_the_names_that_secrets_have_are_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, KEY)
    monkeypatch.setenv("MONKEY", "Gentoo-and-Adelie-2")
    assert (
        Scrubber()(f"it is {KEY}, Gentoo-and-Adelie-2") == f"it is {{{name}}}, Gentoo-and-Adelie-2"
    )


@pytest.mark.parametrize("value", ["ollama", "not-needed", "1234567890", "EMPTY", ""])
def test_a_word_in_the_place_of_a_key_is_no_secret(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", value)
    assert Scrubber()(f"it is {value}, not 1234567890") == f"it is {value}, not 1234567890"


def test_a_key_of_the_configuration_is_hidden_too() -> None:
    scrub = Scrubber()
    scrub.hide("api_key", KEY)
    assert scrub(f"Bearer {KEY}") == "Bearer {api_key}"


@pytest.mark.parametrize("way", ["argument", "function"])
def test_a_function_takes_out_what_else_is_nobodys_business(tmp_path: Path, way: str) -> None:
    keywords: dict[str, Any] = {"scrub": names_customers} if way == "argument" else {}
    if way == "function":
        assert nb.cassette_scrub(names_customers) is names_customers
    path = tmp_path / "x.jsonl"
    live = ScriptedModel(("final_answer", "customer-77 has paid."))
    nb.Agent([], model=CassetteModel(Cassette(path, "record", **keywords), lambda: live)).run(
        "Has customer-77 paid?"
    )
    assert "77" not in path.read_text("utf-8")
    replaying = CassetteModel(Cassette(path, "replay", **keywords), no_model)
    assert (
        nb.Agent([], model=replaying).run("Has customer-78 paid?").answer == "customer-0 has paid."
    )


def test_answers_of_a_person_are_scrubbed_too(tmp_path: Path) -> None:
    cassette = Cassette(tmp_path / "x.jsonl", "record", scrub=names_customers)
    cassette.add_answer("Which one, customer-5?", "customer-6")
    assert (
        '{"asked": "Which one, customer-0?", "answered": "customer-0"}'
        in (tmp_path / "x.jsonl").read_text()
    )


def test_a_function_that_is_defined_anew_takes_the_place_of_the_old_one() -> None:
    def scrub(text: str) -> str:
        return text.replace("a", "1")

    old = scrub

    def other() -> Any:
        def scrub(text: str) -> str:
            return text.replace("b", "2")

        return scrub

    new = other()
    new.__qualname__ = old.__qualname__
    nb.cassette_scrub(old)
    nb.cassette_scrub(old)
    nb.cassette_scrub(new)
    assert Scrubber()("ab") == "a2"


@pytest.mark.parametrize(
    ("function", "said"),
    [
        (lambda text: text + "!", "changes its own result"),
        (lambda text: None, "returned None; expected a text"),
        (lambda text: 1 / 0, "ZeroDivisionError"),
    ],
)
def test_a_function_that_cannot_work_is_named_before_a_model_is_asked(
    tmp_path: Path, function: Any, said: str
) -> None:
    live = ScriptedModel(("final_answer", "?"))
    model = CassetteModel(Cassette(tmp_path / "x.jsonl", "record", scrub=function), lambda: live)
    with pytest.raises(ConfigurationError, match="the scrub function") as caught:
        nb.Agent([], model=model).run("Hm?")
    assert said in str(caught.value)
    assert live.asked == []


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="takes a function from text to text, not 5"):
        nb.cassette_scrub(5)  # type: ignore[arg-type]


def test_a_function_that_comes_later_counts_from_then_on(tmp_path: Path) -> None:
    asked = ask("customer-9")
    cassette = Cassette(tmp_path / "x.jsonl", "auto")
    assert cassette.find(asked) is None
    nb.cassette_scrub(names_customers)
    from archytas_nb.loop.events import ModelReply

    cassette.add(asked, ModelReply("ok"))
    assert "customer-9" not in (tmp_path / "x.jsonl").read_text()
