"""Each fault is met in both protocols, streamed and not; the other two combinations are slow."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from archytas_nb.models import endpoint, remote
from archytas_nb.models.capabilities import capabilities_of
from tests.faults.talk import Talk

FORMS = [("native", True), ("react", False), ("native", False), ("react", True)]


def forms(*apis: str) -> list[Any]:
    """The first two forms of each api, and the others as slow tests, with the Responses API."""
    return [
        pytest.param(
            (*form, api),
            id="-".join(
                [form[0], "streamed" if form[1] else "whole", *([api] if apis[1:] else [])]
            ),
            marks=pytest.mark.slow if n > 1 or api == "responses" else (),
        )
        for api in apis
        for n, form in enumerate(FORMS)
    ]


@pytest.fixture(params=forms("openai", "responses"))
def talk(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> Iterator[Talk]:
    protocol, stream, api = (*request.param, "openai")[:3]
    if api == "anthropic":
        pytest.importorskip("anthropic")
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(remote, "FIRST_WAIT_SECONDS", 0.01)
    capabilities_of.cache_clear()
    talk = Talk(protocol, stream, caplog, api)
    yield talk
    talk.server.close()
    endpoint.close_clients(talk.server.url)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, without waiting."""
    waits: list[float] = []
    # The module's own, for other threads sleep too.
    monkeypatch.setattr(remote, "sleep", waits.append)
    return waits
