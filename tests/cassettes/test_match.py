"""Requests are reduced to what is compared: without secrets and volatile parts."""

from __future__ import annotations

import base64
import json
import re
import urllib.parse
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import archytas_nb as nb
from archytas_nb.cassettes import match
from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.match import PATTERNS, Volatile
from archytas_nb.cassettes.switch import CassetteModel
from archytas_nb.errors import ConfigurationError
from archytas_nb.loop.events import ModelReply, WireCall
from archytas_nb.models import secrets
from archytas_nb.models.refusals import EndpointErrors
from archytas_nb.testing import ScriptedModel
from tests.cassettes.tapes import ask, no_model

KEY = "sk-live-4242424242"


@pytest.fixture(autouse=True)
def no_functions(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(match, "_functions", {})
    monkeypatch.setattr(secrets, "_given", {})
    return iter(())


def names_customers(text: str) -> str:
    return re.sub(r"customer-\d+", "customer-0", text)


def test_a_key_of_the_environment_is_not_recorded(
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


NAMES = (
    "PGPASSWORD SSH_PASSPHRASE OPENAI_APIKEY key APP_SECRET HF_TOKEN GITHUB_PAT DB_PASS FTP_PWD "
    "DB_PW SESSION_COOKIE AWS_ACCESS_KEY_ID SECRET_KEY_BASE AWS_SECRET_ACCESS_KEY DB_CREDENTIALS "
    "SECRET_SAUCE"
)
VALUE = "Kq7-zebra-Lm2w"


def test_hides_variables_that_are_named_like_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in NAMES.split():
        with monkeypatch.context() as patch:
            patch.setenv(name, KEY)
            assert match.scrub(f"it is {KEY}.") == f"it is {{{name}}}."
    for name in ("MONKEY", "PWD", "OLDPWD", "COMPASS", "PATH", "SPARK_HOME", "KEYBOARD"):
        with monkeypatch.context() as patch:
            patch.setenv(name, VALUE)
            assert match.scrub(f"it is {VALUE}.") == f"it is {VALUE}."
    for value in ("ollama", "not-needed", "1234567890", "EMPTY", ""):  # placeholders
        monkeypatch.setenv("OPENAI_API_KEY", value)
        assert match.scrub(f"it is {value}, not 1234567890") == f"it is {value}, not 1234567890"
    secrets.remember("api_key", KEY)
    assert match.scrub(f"Bearer {KEY}") == "Bearer {api_key}"


@pytest.mark.parametrize(
    "given",
    [
        {"api_key": "tok-Kq7zebraLm2w"},
        {"headers": {"Authorization": "Bearer tok-Kq7zebraLm2w"}},
        {"headers": {"X-Api-Key": "tok-Kq7zebraLm2w"}},
        {"query": {"key": "tok-Kq7zebraLm2w"}},
        {"base_url": "https://ann:tok-Kq7zebraLm2w@llm.example/v1"},
    ],
    ids=["api_key", "authorization", "header", "query", "password"],
)
def test_hides_what_a_model_was_given_in_code(given: dict[str, Any], tmp_path: Path) -> None:
    nb.OpenAIModel("tiny-1", **{"base_url": "https://llm.example/v1", **given})
    path = tmp_path / "x.jsonl"
    cassette = Cassette(path, "record")
    live = ScriptedModel(("final_answer", "The key is tok-Kq7zebraLm2w."))
    agent = nb.Agent([], model=CassetteModel(cassette, lambda: live))
    run = agent.run("Is tok-Kq7zebraLm2w my key, or dG9rLUtxN3plYnJhTG0ydw==?")
    assert run.answer == "The key is tok-Kq7zebraLm2w."
    assert "Kq7zebra" not in path.read_text("utf-8")
    assert "dG9rLUtxN3plYnJhTG0ydw" not in path.read_text("utf-8")
    replaying = nb.Agent([], model=CassetteModel(Cassette(path, "replay"), no_model))
    again = replaying.run("Is tok-Kq7zebraLm2w my key, or dG9rLUtxN3plYnJhTG0ydw==?")
    assert re.fullmatch(r"The key is \{\w+\}\.", again.answer)


def test_hides_the_password_in_a_url_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    coded = urllib.parse.quote(f"p@ss/{VALUE}", safe="")
    monkeypatch.setenv("DATABASE_URL", f"postgres://ann:{coded}@db.example/main")
    assert VALUE not in match.scrub(f"connect('ann', 'p@ss/{VALUE}') {coded}")
    monkeypatch.setenv("DATABASE_URL", "sqlite:///data/penguins.db")
    assert match.scrub("sqlite:///data/penguins.db") == "sqlite:///data/penguins.db"


def test_a_scrub_function_applies_to_all_that_is_recorded_and_compared(tmp_path: Path) -> None:
    path = tmp_path / "x.jsonl"
    cassette = Cassette(path, "record")
    assert cassette.find(ask("Has customer-9 paid?")) is None  # it applies from here on
    assert nb.cassette_scrub(names_customers) is names_customers
    live = ScriptedModel(("final_answer", "customer-77 has paid."))
    nb.Agent([], model=CassetteModel(cassette, lambda: live)).run("Has customer-77 paid?")
    cassette.add_answer("Which one, customer-5?", "customer-6")
    text = path.read_text("utf-8")
    assert ("customer-0" in text, re.findall(r"customer-[1-9]", text)) == (True, [])
    replaying = CassetteModel(Cassette(path, "replay"), no_model)
    run = nb.Agent([], model=replaying).run("Has customer-78 paid?")
    assert run.answer == "customer-0 has paid."


def test_a_redefined_scrub_function_replaces_the_old_one() -> None:
    def scrub(text: str) -> str:
        return text.replace("a", "1")

    nb.cassette_scrub(scrub)
    old, name = scrub, scrub.__qualname__
    scrub = lambda text: text.replace("b", "2")  # noqa: E731 - it has the same name
    scrub.__qualname__ = name
    nb.cassette_scrub(scrub)
    assert (old("ab"), match.scrub("ab")) == ("1b", "a2")
    with pytest.raises(ConfigurationError, match="from str to str, not 5"):
        nb.cassette_scrub(5)  # type: ignore[arg-type]


def test_rejects_a_broken_scrub_function_before_the_model_is_asked(tmp_path: Path) -> None:
    results: list[Any] = []
    nb.cassette_scrub(lambda text: results.pop())
    for given_ in (["changed again", "changed"], [None], []):
        results[:] = given_
        live = ScriptedModel(("final_answer", "?"))
        model = CassetteModel(Cassette(tmp_path / "x.jsonl", "record"), lambda live=live: live)
        with pytest.raises(ConfigurationError, match="the scrub function"):
            nb.Agent([], model=model).run("Hm?")
        assert live.asked == []


PEM_BODY = "\n".join(
    ["MIIEpAIBAAKCAQEA7bq2Zf9x" + "A" * 30, "q8Zk1Lw0o9dQm3vX" + "b" * 40, "Xy9+/zz=="]
)


PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----"


def spellings(value: str) -> list[str]:
    """How a value may stand in a text."""
    raw = value.encode()
    return [
        value, json.dumps(value), json.dumps(json.dumps(value)), repr(value), urllib.parse.quote(value, safe=""),
        json.dumps(value, ensure_ascii=False), value.replace("\n", "\r\n"),
        *(base64.b64encode(b"u" * n + raw + b"!").decode() for n in range(4)),
        base64.urlsafe_b64encode(b"user:" + raw).decode().rstrip("="),
    ]  # fmt: skip


SHAPES = [
    "sk-proj-aB3dE6gH9jK2mN5pQ8sT1vW4", "sk-ant-api03-abcDEF123456ghiJKL", "sk-4f6b2a9c8d7e1f0a3b5c",
    "ghp_abcdefghij0123456789ABCDEFGHIJ012345", "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstu",
    "glpat-abcdefghij0123456789", "AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefGHIJ", "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "hf_abcdefghijABCDEFGHIJ0123456789abcd", "sk_live_abcdefghij0123456789",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF123_-x",
]  # fmt: skip


def test_hides_well_known_formats_of_keys() -> None:
    scrub = match.scrub
    for secret in SHAPES:
        hidden = scrub(f'it is {secret}, or "{secret}" or KEY={secret}\n')
        assert secret[8:] not in hidden
        assert hidden.startswith("it is {secret}, or ")
        assert scrub(hidden) == hidden
    for text in (PEM, json.dumps(PEM), json.dumps(json.dumps({"key": PEM})), PEM[:120]):
        hidden = scrub(f"cat key\n{text}\nand then")  # escaped, or cut off
        assert "MIIEpAIBAAKCAQEA" not in hidden
        assert "q8Zk1Lw0o9dQm3vX" not in hidden
        assert hidden.startswith("cat key\n")
        assert hidden.endswith("\nand then")


@pytest.mark.parametrize(
    "value", [VALUE, 'a"quoted\\one-77', "two\nlines-of-5\n", PEM, "schlüssel-99-ö", "x?>~12345ÿ"]
)
def test_hides_a_secret_in_every_encoding(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("APP_SECRET", value)
    scrub = match.scrub
    for text in spellings(value):
        hidden = scrub(f"before {text} after")
        assert hidden.startswith("before ")
        assert hidden.endswith(" after")
        assert "{APP_SECRET}" in hidden or "{secret}" in hidden
        assert value not in hidden
        assert text not in hidden
        assert scrub(hidden) == hidden


def test_keeps_texts_without_secrets() -> None:
    for text in HARMLESS:
        assert match.scrub(text) == text
    begins = "The text -----BEGIN PRIVATE KEY----- begins a key. More prose follows here."
    assert match.scrub(begins).endswith("begins a key. More prose follows here.")


def test_an_error_does_not_show_the_password_of_the_url() -> None:
    basic = base64.b64encode(f"user:{VALUE}".encode()).decode()
    errors: Any = EndpointErrors("http://h/", "sk-canary-7f3a9c51d2e8", ("user", VALUE))
    for text in ("user:{0}", "{0}", "Basic {1}", "got {1} back", "http://user:{0}@h/", "{2}"):
        cleaned = errors.clean(text.format(VALUE, basic, json.dumps({"sent": SHAPES[1]})))
        assert not [each for each in (VALUE, basic, SHAPES[1]) if each in cleaned]


def test_hides_credentials_of_headers_and_urls() -> None:
    scrub = match.scrub
    basic = base64.b64encode(b"ann:s3cret").decode()
    for text in (
        f"Authorization: Basic {basic}",
        "https://ann:s3cret@host/x",
        "Authorization: Bearer abc123def456ghi7",
    ):
        hidden = scrub(text)
        assert "s3cret" not in hidden
        assert basic not in hidden
        assert "abc123def456ghi7" not in hidden
        assert scrub(hidden) == hidden


HARMLESS = [
    "sk-learn and scikit-learn", "sk-container-id-1", "sk-toggleable__control sk-estimator-doc-link fitted",
    "Basic understanding of statistics", "the bearer of this letter", "AKIA", "Bearer tokens are strings",
    "https://host:8080/path?a=b@c", "git@github.com:owner/name.git", "key: value@x",
    "time 12:30 me@there.org",
    "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----", "penguins_by_species_and_island_2007",
    "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "x" * 5000, "a:b@" * 1000,
]  # fmt: skip


def test_hides_secrets_in_every_part_of_an_exchange(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DEPLOY_PAT", 'it"is\nVERY-55')
    monkeypatch.setenv("TLS_KEY", PEM)
    told = f'{"it"}"is\nVERY-55 {PEM} {SHAPES[0]}'
    arguments = json.dumps({"text": told, "inner": json.dumps({"again": told})})
    cassette = Cassette(tmp_path / "x.jsonl", "record")
    cassette.add(ask(told), ModelReply(told, reasoning=told, calls=(WireCall("send", arguments),)))
    cassette.add_answer(told, told)
    text = (tmp_path / "x.jsonl").read_text()
    for secret in ("VERY-55", "MIIEpAIBAAKCAQEA", "q8Zk1Lw0o9dQm3vX", SHAPES[0][8:]):
        assert secret not in text
    assert Cassette(tmp_path / "x.jsonl", "replay").find(ask(told)) is not None


VOLATILE = [
    ("date", "on 2026-07-01, or 2026/07/01, or 1.7.2026", "on {date}, or {date}, or {date}"),
    ("date", "version 1.2.3 of 12 parts", "version 1.2.3 of 12 parts"),
    ("time", "at 9:05, 09:05:11.25Z, 10:00:00+02:00", "at {time}, {time}, {time}"),
    ("date,time", "2026-07-01T09:30:00Z", "{date}T{time}"),
    ("path", "in /tmp/a b, /home/me/x.csv: 3", "in {path} b, {path}: 3"),
    ("path", r"in C:\Users\me\x.csv and D:\data", "in {path} and {path}"),
    (
        "path",
        "and/or, 1/2, http://host/a/b, ./a, <a/b>",
        "and/or, 1/2, http://host/a/b, ./a, <a/b>",
    ),
    ("address", "<f at 0x7f3a9c001f20>", "<f at {address}>"),
    ("uuid", "id 123e4567-e89b-12d3-a456-426614174000.", "id {uuid}."),
    ("number", "3 of -1.5, 1,000; x1, v2.0", "{number} of {number}, {number}; x1, v2.0"),
    ("", "2026-07-01 /a/b/c 0x12345 5", "2026-07-01 /a/b/c 0x12345 5"),
    ({"order": r"ORD-\d+", "date": True}, "ORD-123 of 2026-07-01", "{order} of {date}"),
]


def test_volatile_parts_are_replaced_by_their_names() -> None:
    for names, text, kept in VOLATILE:
        assert Volatile(names)(text) == kept
    own = Volatile({"order": r"ORD-\d+", "date": True})
    assert own.header == {"order": r"ORD-\d+", "date": True}


def test_rejects_unknown_names_and_invalid_patterns() -> None:
    for named in (["dat"], {"x": "("}, {"x": "a*"}, {"x y": "a"}, {"x": 5}):
        with pytest.raises(ConfigurationError, match="expected one of uuid, address, path, date"):
            Volatile(named)  # type: ignore[arg-type]


SAMPLES = st.lists(
    st.one_of(st.text(max_size=9), *map(st.from_regex, PATTERNS.values())), max_size=5
)


@given(SAMPLES.map("".join), st.sets(st.sampled_from(list(PATTERNS))))
def test_placeholders_are_kept(text: str, names: set[str]) -> None:
    volatile = Volatile(sorted(names))
    assert volatile(volatile(text)) == volatile(text)
