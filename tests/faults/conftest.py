"""Each fault is met in both protocols, streamed and not."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from archytas_nb.models import endpoint
from archytas_nb.models.capabilities import capabilities_of
from tests.faults.talk import Talk


@pytest.fixture(params=[(p, s) for p in ("react", "native") for s in (True, False)],
                ids=lambda p: f"{p[0]}-{'streamed' if p[1] else 'whole'}")  # fmt: skip
def talk(
    request: pytest.FixtureRequest,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> Iterator[Talk]:
    caplog.set_level(logging.DEBUG)
    monkeypatch.setattr(endpoint, "FIRST_WAIT", 0.01)
    capabilities_of.cache_clear()
    talk = Talk(*request.param, caplog)
    yield talk
    talk.server.close()
    endpoint.close_clients(talk.server.url)


@pytest.fixture
def slept(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The waits, without waiting."""
    waits: list[float] = []
    # The module's own, for other threads sleep too.
    monkeypatch.setattr(endpoint, "sleep", waits.append)
    return waits
