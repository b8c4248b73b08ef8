"""The requests that were sent are kept, also while several threads send."""

from __future__ import annotations

import sys
from concurrent.futures import ThreadPoolExecutor

import pytest

from archytas_nb.models import sent


def test_requests_of_several_threads_are_all_kept() -> None:
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        with ThreadPoolExecutor(8) as pool:
            bodies = [b"body %d" % number for number in range(3000)]
            list(pool.map(lambda body: sent.requests.record("here", (body,)), bodies))
    finally:
        sys.setswitchinterval(before)
    kept = {each.body for each in sent.requests}
    assert set(bodies) <= kept


def test_the_oldest_bodies_are_dropped_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent, "MAX_BYTES", 100)
    requests = sent.Requests()
    for number in range(12):
        requests.record("here", (b"%05d" % number, b"%05d" % number))
    assert [each.body is None for each in requests] == [True] * 2 + [False] * 10
    requests.record("here", (bytes(95),))
    assert [each.body for each in requests] == [None] * 12 + [bytes(95)]
    assert [each.size for each in requests] == [10] * 12 + [95]


def test_the_last_requests_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sent, "MAX_REQUESTS", 3)
    requests = sent.Requests()
    for number in range(5):
        requests.record("here", (b"%d" % number,))
    assert [each.body for each in requests] == [b"2", b"3", b"4"]
    assert len(requests) == 3
    assert requests[0].body == b"2"
