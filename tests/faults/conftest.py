"""Each fault is met in both protocols, streamed and not; the other two combinations are slow."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest

from archytas_nb.models import endpoint
from archytas_nb.models.capabilities import capabilities_of
from tests.faults.talk import Talk


@pytest.fixture(
    params=[
        pytest.param(("native", True), id="native-streamed"),
        pytest.param(("react", False), id="react-whole"),
        pytest.param(("native", False), id="native-whole", marks=pytest.mark.slow),
        pytest.param(("react", True), id="react-streamed", marks=pytest.mark.slow),
    ]
)
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
