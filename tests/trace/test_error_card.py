"""Why an endpoint gave no answer: said once, by kind, with the command that helps."""

from __future__ import annotations

import json

import pytest

from archytas_nb.errors import Explained, ModelError
from archytas_nb.loop.events import Delta, Failed
from archytas_nb.magics.line import without_frames
from archytas_nb.models.completion import ServerError
from archytas_nb.models.refusal_table import CASES, WORDS
from archytas_nb.models.refusals import EndpointErrors
from archytas_nb.trace.activity import Activity
from archytas_nb.trace.fold import fold
from archytas_nb.trace.html import html
from archytas_nb.trace.text import plain
from tests.trace.hostile import PAYLOADS, faults_of
from tests.trace.samples import ask

ERRORS = EndpointErrors("https://user:pw@example.com/v1", "sk-secret123")


def card(found: Explained, reason: str = "all of it") -> str:
    return plain(fold("q", [*ask(1), Failed(reason, by="endpoint", explained=found)]))


def test_each_case_has_a_title_of_its_own_or_says_the_request_was_refused() -> None:
    general = [case for case in CASES if case.title == "The request was refused"]
    assert all(case.kind == "refused" for case in general)
    assert all(bool(case.command) <= case.do.endswith(":") for case in CASES)
    assert all("agent." not in case.do for case in CASES)  # magics, not Python


@pytest.mark.parametrize(
    ("status", "text", "title", "command"),
    [
        (401, "Incorrect API key provided", "The key was rejected", "%config ArchytasNB.api_key"),
        (404, "The model does not exist", "not found", "%config ArchytasNB.model"),
        (400, WORDS["filter"].example, "content filter", "%agent_undo"),
        (429, "slow down", "Too many requests", ""),
        (402, WORDS["unpaid"].example, "No credit left", ""),
    ],
)
def test_the_card_says_what_happened_in_their_words_and_what_to_type(
    status: int, text: str, title: str, command: str
) -> None:
    error = ERRORS.of_server(ServerError(text, status=status), "tiny")
    found = error.explained
    assert found is not None
    shown = card(found, str(error))
    assert title in shown
    assert shown.count(text.rstrip(".")[:60]) == 1
    assert f"(HTTP {status})" in shown
    assert command in shown
    page = html(fold("q", [*ask(1), Failed(str(error), by="endpoint", explained=found)]))
    assert title in page
    for secret in ("sk-secret123", "user:pw"):
        assert secret not in shown


def test_no_server_is_named_once() -> None:
    found = EndpointErrors("http://127.0.0.1:9/v1").unreachable("refused").explained
    assert found is not None
    assert card(found).count("127.0.0.1:9") == 1


def test_what_a_server_says_runs_nothing() -> None:
    for payload in PAYLOADS:
        found = Explained(payload, payload, payload, 400, payload, payload)
        run = fold("q", [*ask(1), Failed(payload, by="endpoint", explained=found)])
        assert faults_of(html(run)) == []


@pytest.mark.parametrize("is_shown", [True, False])
def test_the_error_of_the_cell_is_short_if_the_card_is_above_it(*, is_shown: bool) -> None:
    error = ERRORS.of_server(ServerError("no", status=401), "tiny")
    [line] = without_frames(error, is_shown=is_shown)._render_traceback_()  # type: ignore[attr-defined]
    assert ("see above" in line) is is_shown
    assert ("Set OPENAI_API_KEY" in line) is not is_shown
    assert isinstance(error, ModelError)
    assert "Set OPENAI_API_KEY" in str(error)


def test_a_reply_that_stands_still_says_for_how_long() -> None:
    clock = [0.0]
    activity = Activity(now=lambda: clock[0])
    for event in ask(1):
        activity.take(event)
    activity.take(Delta("text", json.dumps({"thought": "I"})[:8]))
    assert activity.phase == "writing"
    clock[0] = 12.5
    assert activity.phase == "writing, no data for 12 s"
    activity.take(Delta("text", "x"))
    assert activity.phase == "writing"
