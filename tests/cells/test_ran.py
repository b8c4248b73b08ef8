"""How long a cell has waited for others, read from the dates of a front end."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import pytest

from archytas_nb.cells.ran import Queue


def sent_ago(seconds: float) -> Any:
    """A shell that runs a cell which was sent so long ago."""
    header = {"date": datetime.now(UTC) - timedelta(seconds=seconds)}
    return SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda _: {"header": header}))


@pytest.mark.parametrize("ahead", [0, 3600, -3600])
def test_what_the_clocks_differ_by_is_no_time_that_was_waited(ahead: float) -> None:
    queue = Queue(sent_ago(ahead + 0.1))
    queue.begun()
    assert queue.waited == 0
    queue.shell = sent_ago(ahead + 43)
    queue.begun()
    assert queue.waited == pytest.approx(42.9, abs=0.5)
    queue.shell = sent_ago(ahead)
    queue.begun()
    assert queue.waited == 0


def test_without_a_date_nothing_was_waited() -> None:
    for shell in (
        SimpleNamespace(),
        SimpleNamespace(kernel=None),
        SimpleNamespace(kernel=SimpleNamespace(get_parent=lambda _: {})),
    ):
        queue = Queue(shell)
        queue.begun()
        assert queue.waited == 0
