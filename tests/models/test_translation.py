"""The client's exceptions, by their names, and the key that must not be shown."""

from __future__ import annotations

import importlib
import json
from typing import Any

import openai
import pytest

from archytas_nb.loop.events import AskModel
from archytas_nb.models.asking import Faulted
from archytas_nb.models.reading import Refused
from archytas_nb.models.refusal import ErrorInReply
from archytas_nb.models.translation import Translator

# The transport's name depends on the version of the client.
_BASE = next(each for each in openai.DefaultHttpxClient.__mro__ if each.__name__ == "Client")
httpx: Any = importlib.import_module(_BASE.__module__.partition(".")[0])

AT, KEY = "http://127.0.0.1:1/v1", "sk-do-not-show-0123456789"
ASK = AskModel(1, ())
TRANSLATOR = Translator(AT, KEY)
REQUEST = httpx.Request("POST", AT)


def refused(status: int, body: str) -> Faulted:
    error = Refused(status, AT, httpx.Headers(), body)
    return TRANSLATOR.client(
        because(openai.APIConnectionError(request=REQUEST), error), 300.0, "m", ASK
    )


def because(error: Exception, cause: Exception) -> Exception:
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "kind", "said"),
    [
        (
            because(openai.APITimeoutError(REQUEST), httpx.ConnectTimeout("")),
            "timeout",
            "within 10 s",
        ),
        (
            because(openai.APITimeoutError(REQUEST), httpx.ReadTimeout("")),
            "timeout",
            "sent nothing for 300 s",
        ),
        (
            because(openai.APIConnectionError(request=REQUEST), httpx.ConnectError(f"no {KEY}")),
            "unreachable",
            "no …",
        ),
        (
            because(openai.APIConnectionError(request=REQUEST), httpx.ReadError("reset")),
            "unreachable",
            "broke off",
        ),
        (openai.OpenAIError(f"odd {KEY}"), "server", "odd …"),
    ],
)
def test_what_the_client_raises_is_put_into_words(error: Exception, kind: str, said: str) -> None:
    fault = TRANSLATOR.client(error, 300.0, "m", ASK).fault
    assert fault.error.kind == kind
    assert said in str(fault.error)
    assert repr(AT) in str(fault.error)
    assert KEY not in f"{fault!r}"


@pytest.mark.parametrize(
    "body",
    [
        {"message": f"key {KEY}", "code": KEY, "metadata": {"raw": f"<{KEY}>"}},
        f"bad {KEY}",
        None,
        [KEY],
    ],
)
def test_a_status_never_shows_the_key_that_the_server_says_back(body: object) -> None:
    fault = refused(400, json.dumps({"error": body})).fault
    assert fault.error.status == 400
    assert KEY not in f"{fault!r} {fault.error} {fault.said}"


@pytest.mark.parametrize(
    "body", ["", "<html>", "[" * 100_000, '{"error": {"message": "half', "9" * 5000, "null"]
)
def test_a_body_that_cannot_be_read_does_not_hide_the_status(body: str) -> None:
    fault = refused(503, body).fault
    assert (fault.error.status, fault.error.kind, fault.passing) == (503, "server", True)


def test_an_error_in_the_place_of_a_reply_is_judged_with_its_codes() -> None:
    error = ErrorInReply(f"no {KEY}", 400, f"context_length_exceeded {KEY}")
    fault = TRANSLATOR.refusal(error, "m", ASK).fault
    assert fault.error.kind == "overflow"
    assert KEY not in f"{fault!r} {fault.said}"
