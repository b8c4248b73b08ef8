"""Secrets are found however they are spelled, wherever they come from, and what is none is left alone."""

import base64
import json
import urllib.parse
from pathlib import Path
from typing import Any

import pytest

from archytas_nb.cassettes.cassette import Cassette
from archytas_nb.cassettes.scrub import Scrubber
from archytas_nb.loop.events import ModelReply, WireCall
from archytas_nb.models.translation import Translator
from tests.cassettes.tapes import ask

VALUE = "Kq7-zebra-Lm2w"
PEM_BODY = "\n".join(
    ["MIIEpAIBAAKCAQEA7bq2Zf9x" + "A" * 30, "q8Zk1Lw0o9dQm3vX" + "b" * 40, "Xy9+/zz=="]
)
PEM = f"-----BEGIN RSA PRIVATE KEY-----\n{PEM_BODY}\n-----END RSA PRIVATE KEY-----"


@pytest.mark.parametrize(
    "name",
    [
        "GITHUB_PAT", "DB_PASS", "FTP_PWD", "DB_PW", "SESSION_COOKIE", "AWS_ACCESS_KEY_ID", "SECRET_KEY_BASE",
        "AWS_SECRET_ACCESS_KEY", "AZURE_CLIENT_SECRET", "DB_CREDENTIALS", "aws_session_token", "SECRET_SAUCE",
    ],
)  # fmt: skip
def test_more_names_that_secrets_have_are_known(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, VALUE)
    assert VALUE not in Scrubber()(f"it is {VALUE}.")


@pytest.mark.parametrize(
    "name", ["PWD", "OLDPWD", "COMPASS", "PATH", "SPARK_HOME", "KEYBOARD", "CONDA_PREFIX"]
)
def test_names_of_other_things_are_left_alone(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, VALUE)
    assert Scrubber()(f"it is {VALUE}.") == f"it is {VALUE}."


@pytest.mark.parametrize("name", ["DATABASE_URL", "ANY_THING"])
def test_the_password_in_a_url_of_the_environment_is_hidden_everywhere(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(
        name, f"postgres://ann:{urllib.parse.quote('p@ss/' + VALUE, safe='')}@db.example/main"
    )
    text = f"connect('ann', 'p@ss/{VALUE}') {urllib.parse.quote('p@ss/' + VALUE, safe='')}"
    assert VALUE not in Scrubber()(text)
    monkeypatch.setenv(name, "sqlite:///data/penguins.db")
    assert Scrubber()("sqlite:///data/penguins.db") == "sqlite:///data/penguins.db"


def spellings(value: str) -> list[str]:
    """How a value may stand in a text."""
    raw = value.encode()
    return [
        value, json.dumps(value), json.dumps(json.dumps(value)), repr(value), urllib.parse.quote(value, safe=""),
        json.dumps(value, ensure_ascii=False), value.replace("\n", "\r\n"),
        *(base64.b64encode(b"u" * n + raw + b"!").decode() for n in range(4)),
        base64.urlsafe_b64encode(b"user:" + raw).decode().rstrip("="),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "value", [VALUE, 'a"quoted\\one-77', "two\nlines-of-5\n", PEM, "schlüssel-99-ö", "x?>~12345ÿ"]
)
def test_a_value_is_found_however_it_is_spelled(
    value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("APP_SECRET", value)
    scrub = Scrubber()
    for text in spellings(value):
        hidden = scrub(f"before {text} after")
        assert hidden.startswith("before ")
        assert hidden.endswith(" after")
        assert "{APP_SECRET}" in hidden or "{secret}" in hidden
        assert value not in hidden
        assert text not in hidden
        assert scrub(hidden) == hidden


SHAPES = [
    "sk-proj-aB3dE6gH9jK2mN5pQ8sT1vW4", "sk-ant-api03-abcDEF123456ghiJKL", "sk-4f6b2a9c8d7e1f0a3b5c",
    "ghp_abcdefghij0123456789ABCDEFGHIJ012345", "github_pat_11ABCDEFG0abcdefghijkl_mnopqrstu",
    "glpat-abcdefghij0123456789", "AKIAIOSFODNN7EXAMPLE", "ASIAIOSFODNN7EXAMPLE",
    "xoxb-123456789012-abcdefGHIJ", "AIzaSyA1234567890abcdefghijklmnopqrstuv",
    "hf_abcdefghijABCDEFGHIJ0123456789abcd", "sk_live_abcdefghij0123456789",
    "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.abcDEF123_-x",
]  # fmt: skip


@pytest.mark.parametrize("secret", SHAPES)
def test_a_well_known_shape_is_hidden_whatever_its_origin(secret: str) -> None:
    scrub = Scrubber()
    hidden = scrub(f'it is {secret}, or "{secret}" or KEY={secret}\n')
    assert secret[8:] not in hidden
    assert hidden.startswith("it is {secret}, or ")
    assert scrub(hidden) == hidden


@pytest.mark.parametrize(
    "text", [PEM, json.dumps(PEM), json.dumps(json.dumps({"key": PEM})), PEM[:120]]
)
def test_a_private_key_is_hidden_also_where_json_escapes_it_or_its_end_was_cut(text: str) -> None:
    hidden = Scrubber()(f"cat key\n{text}\nand then")
    assert "MIIEpAIBAAKCAQEA" not in hidden
    assert "q8Zk1Lw0o9dQm3vX" not in hidden
    assert hidden.startswith("cat key\n")
    assert hidden.endswith("\nand then")


def test_credentials_of_a_header_and_of_a_url_are_hidden() -> None:
    scrub = Scrubber()
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


@pytest.mark.parametrize(
    "text",
    [
        "sk-learn and scikit-learn", "sk-container-id-1", "sk-toggleable__control sk-estimator-doc-link fitted",
        "Basic understanding of statistics", "the bearer of this letter", "AKIA", "Bearer tokens are strings",
        "https://host:8080/path?a=b@c", "git@github.com:owner/name.git", "key: value@x",
        "time 12:30 me@there.org",
        "-----BEGIN PUBLIC KEY-----\nMIIB\n-----END PUBLIC KEY-----", "penguins_by_species_and_island_2007",
        "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "x" * 5000, "a:b@" * 1000,
        "The text -----BEGIN PRIVATE KEY----- begins a key. More prose follows here.",
    ],
)  # fmt: skip
def test_what_is_no_secret_is_left_alone(text: str) -> None:
    hidden = Scrubber()(text)
    assert hidden == text or (
        "{secret}" in hidden and hidden.endswith("begins a key. More prose follows here.")
    )


def test_every_part_of_an_exchange_is_free_of_them(
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


@pytest.mark.parametrize(
    "text", ["user:{0}", "{0}", "Basic {1}", "got {1} back", "http://user:{0}@h/", "{2}"]
)
def test_an_error_does_not_repeat_the_password_of_the_url_in_any_spelling(text: str) -> None:
    basic = base64.b64encode(f"user:{VALUE}".encode()).decode()
    said = text.format(VALUE, basic, json.dumps({"sent": SHAPES[1]}))
    cleaned: Any = Translator("http://h/", "sk-canary-7f3a9c51d2e8", ("user", VALUE)).clean(said)
    assert VALUE not in cleaned
    assert basic not in cleaned
    assert SHAPES[1] not in cleaned
